"""Tables to files, at once or piece by piece: a file is complete, or it is not there."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
from pyarrow import parquet

from corank.tables.columns import TableError, columns_of, is_list, is_text, plain, to_arrow
from corank.tables.read import JSON_LINES, PARQUET, SEPARATORS, SVMLIGHT, kind_of_file

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# on Windows, where a lock forbids others to read: far behind the contents of a file
LOCKED_BYTE = 2**30
# a half-written file is left alone for that long after it was last written to
LEFTOVER_SECONDS = 600
FORMULA = r"[=+\-@\t\r]"  # how a text begins that spreadsheets take for one


def write_table(table: Any, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Write a table, whole or not at all; its kind follows from the ending of its name.

    Parameters
    ----------
    table : pandas, polars or pyarrow table, or dict of columns
    path : path
        As for `read_table`.
    overwrite : bool
        Whether a file that is already there may be replaced.
    """
    with table_writer(path, overwrite=overwrite) as write:
        write(to_arrow(table))


def write_to(table: pa.Table, file: IO[bytes], kind: str, *, compressed: bool = False) -> None:
    """Write a table to an open file, in the format of the ending `kind`."""
    with pieces_to(file, kind, compressed=compressed) as write:
        write(table)


@contextmanager
def pieces_to(
    file: IO[bytes], kind: str, *, compressed: bool
) -> Iterator[Callable[[pa.Table], None]]:
    """A function that writes one table after the other, all with the same columns, to an open file."""
    if kind in SVMLIGHT:
        raise TableError(
            "svmlight files hold numbers without names and cannot be written: use .csv, .parquet or"
            " .jsonl"
        )
    opened: list[Any] = []
    stream = pa.CompressedOutputStream(file, "gzip") if compressed else pa.PythonFile(file, "w")

    def write(table: pa.Table) -> None:
        table = table if kind in PARQUET or kind in JSON_LINES else _lists_as_text(table)
        try:
            if not opened:
                opened.append(_writer(stream, kind, table.schema))
            opened[0].write_table(
                cast_like(table, opened[0].schema) if kind in PARQUET else table
            )  # text takes any type
        except pa.ArrowException as error:
            raise TableError(f"the table cannot be written as {kind}: {error}") from error

    try:
        yield write
    finally:
        for writer in opened:
            writer.close()
        if compressed:
            stream.close()  # writes the end of a gzip file; the file below stays open


def _lists_as_text(table: pa.Table) -> pa.Table:
    """A table for CSV, which has no lists: they become text such as [0.5, 1.0]."""
    for position, entry in enumerate(table.schema):
        if is_list(entry.type):
            cells = [
                None if cell is None else json.dumps(cell, default=str)
                for cell in table[position].to_pylist()
            ]
            table = table.set_column(position, entry.name, pa.array(cells, pa.string()))
    return table


def spreadsheet_safe(table: pa.Table) -> pa.Table:
    """A table whose texts and names no spreadsheet takes for formulas: those that begin like one
    begin with '.
    """
    columns = {}
    for name, values in columns_of(table).items():
        values = plain(values)
        if is_text(values.type):
            values = pc.replace_substring_regex(
                values.cast(pa.large_string()), f"^({FORMULA})", r"'\1"
            )
        columns[f"'{name}" if re.match(FORMULA, name) else name] = values
    return pa.table(columns)


def cast_like(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table with the types of a schema: files may hold a column in several types."""
    if table.schema.equals(schema):
        return table
    try:
        return table.cast(schema)
    except (pa.ArrowException, ValueError) as error:
        other = next(
            name
            for name in schema.names
            if table.schema.field(name).type != schema.field(name).type
        )
        raise TableError(
            f"column {other!r} holds {table.schema.field(other).type} in some files and"
            f" {schema.field(other).type} in those before, and cannot be converted: {error}"
        ) from error


def _writer(stream: Any, kind: str, schema: pa.Schema) -> Any:
    if kind in PARQUET:
        return parquet.ParquetWriter(stream, schema)
    if kind in JSON_LINES:
        return _JsonLines(stream)
    return arrow_csv.CSVWriter(
        stream, schema, write_options=arrow_csv.WriteOptions(delimiter=SEPARATORS[kind][0])
    )


@dataclass(frozen=True)
class _JsonLines:
    """One JSON object per row; dates as text, NaN and infinity as null."""

    stream: Any

    def write_table(self, table: pa.Table) -> None:
        for batch in table.to_batches(max_chunksize=10_000):
            lines = (
                json.dumps(
                    {name: _finite_number(cell) for name, cell in row.items()},
                    ensure_ascii=False,
                    default=str,
                )
                for row in batch.to_pylist()
            )
            self.stream.write("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        """Nothing is left to write."""


def finite(value: Any) -> Any:
    """A value as JSON knows it: NaN and infinity become None, tuples lists, and numbers of NumPy
    those of Python.
    """
    if isinstance(value, dict):
        return {key: finite(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [finite(member) for member in value]
    return _finite_number(value.item() if isinstance(value, np.generic) else value)


def _finite_number(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_target(path: Path, *, overwrite: bool) -> None:
    """Refuse a name under which no file can be written: to be asked before long work."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file")
    if path.exists() and not path.is_file():
        raise FileExistsError(
            f"{path} is not a regular file, so it is not replaced: give another name"
        )
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} already exists: pass overwrite=True to replace it")
    if path.parent.exists() and not path.parent.is_dir():
        raise NotADirectoryError(
            f"{path.parent} is a file, so {path} cannot be written: choose another place"
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist: create it first")


@cache
def clear_leftovers(folder: Path) -> None:
    """Remove files that processes which were killed left half-written: old ones that nobody is
    writing. Once per folder.
    """
    for leftover in folder.glob(".corank-*.part"):
        with suppress(OSError):  # another process may be faster, or the folder not ours
            if leftover.is_file() and time.time() - leftover.stat().st_mtime > LEFTOVER_SECONDS:
                with leftover.open("rb+") as file:
                    lock(file)
                    leftover.unlink()


def lock(file: IO[bytes]) -> None:
    """Mark a file as being written for as long as it is open; an OSError where another process
    writes it.
    """
    if sys.platform == "win32":
        place = file.tell()
        file.seek(LOCKED_BYTE)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        finally:
            file.seek(place)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def replacing(path: Path, *, overwrite: bool, private: bool = False) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes its name only once it is complete, and is removed if the
    block raises.

    It has the mode and, where possible, the owner of the file that it replaces. `private`: a new
    one is its owner's alone.
    """
    check_target(path, overwrite=overwrite)
    clear_leftovers(path.parent)
    temporary = path.with_name(f".corank-{secrets.token_hex(8)}.part")
    before = path.stat() if path.exists() else None
    mode = 0o600 if private or before is not None else 0o666  # less the bits of the umask
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            with suppress(OSError):  # some file systems have no locks
                lock(file)
            yield file
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())  # the name must not be there before the contents are
        if before is not None:
            _take_over(temporary, before)
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = str(path)  # a full disk does not say which file it was
        raise


def _take_over(path: Path, before: os.stat_result) -> None:
    """Give a file the owner, group and mode of another."""
    now = path.stat()
    if hasattr(os, "chown") and (before.st_uid, before.st_gid) != (now.st_uid, now.st_gid):
        with suppress(PermissionError):  # only the superuser may
            os.chown(path, before.st_uid, before.st_gid)
    path.chmod(stat.S_IMODE(before.st_mode))


@contextmanager
def table_writer(
    path: str | os.PathLike[str], *, overwrite: bool
) -> Iterator[Callable[[pa.Table], None]]:
    """A function that writes one table after the other to a file, which gets its name when the
    block ends well.

    The kind follows from the ending, as for `write_table`.
    """
    path = Path(path)
    kind, compressed = kind_of_file(path)
    with (
        replacing(path, overwrite=overwrite) as file,
        pieces_to(file, kind, compressed=compressed) as write,
    ):
        yield write
