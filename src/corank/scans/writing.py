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

from corank.tables import PARQUET, SEPARATORS, kind_of_file, replacing


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
            if not opened:
                if kind in PARQUET:
                    opened.append(parquet.ParquetWriter(stream, table.schema))
                else:
                    options = arrow_csv.WriteOptions(delimiter=SEPARATORS[kind][0])
                    opened.append(arrow_csv.CSVWriter(stream, table.schema, write_options=options))
            opened[0].write_table(table)

        try:
            yield write
        finally:
            for writer in opened:
                writer.close()
            if compressed:
                stream.close()  # the end of a gzip file; the file below is closed by whom it was opened
