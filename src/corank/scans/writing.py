"""Tables that are written piece by piece, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
from pyarrow import parquet

from corank.tables import PARQUET, SEPARATORS, TableError, kind_of_file, replacing


def alike(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table as those before it are; files may hold a column in several types."""
    if table.schema.equals(schema):
        return table
    try:
        return table.cast(schema)
    except (pa.ArrowException, ValueError) as error:
        other = next(name for name in schema.names if table.schema.field(name).type != schema.field(name).type)
        raise TableError(
            f"column {other!r} holds {table.schema.field(other).type} in some files and {schema.field(other).type} in "
            f"those before, and one cannot be told as the other: {error}"
        ) from error


@contextmanager
def table_writer(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Callable[[pa.Table], None]]:
    """Call what this gives with one table after the other; the file gets its name when the block ends well.

    The kind follows from the ending, as for `write_table`.
    """
    path = Path(path)
    kind, compressed = kind_of_file(path)
    opened: list[Any] = []
    with replacing(path, overwrite=overwrite) as file:
        stream = pa.CompressedOutputStream(file, "gzip") if compressed else pa.PythonFile(file, "w")

        def write(table: pa.Table) -> None:
            try:
                if not opened:
                    if kind in PARQUET:
                        opened.append(parquet.ParquetWriter(stream, table.schema))
                    else:
                        options = arrow_csv.WriteOptions(delimiter=SEPARATORS[kind][0])
                        opened.append(arrow_csv.CSVWriter(stream, table.schema, write_options=options))
                opened[0].write_table(
                    alike(table, opened[0].schema) if kind in PARQUET else table
                )  # text takes any type
            except pa.ArrowException as error:
                raise TableError(f"the rows cannot be written as {kind}: {error}") from error

        try:
            yield write
        finally:
            for writer in opened:
                writer.close()
            if compressed:
                stream.close()  # the end of a gzip file; the file below is closed by whom it was opened
