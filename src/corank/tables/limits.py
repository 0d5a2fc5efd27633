"""Limits on what a small file may grow to in memory: each has a usual value and an environment
variable that raises it.
"""

from __future__ import annotations

import gzip
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corank.core.messages import in_bytes
from corank.tables.columns import TableError

FREE_BYTES = 2**26  # a compressed file may always grow to that
FREE_PARQUET_BYTES = 2**27  # and a Parquet file, in which long texts are often repeated


@dataclass(frozen=True)
class Limit:
    """A limit, and the environment variable that sets another."""

    variable: str
    usual: int

    @property
    def value(self) -> int:
        """The limit in force."""
        text = os.environ.get(self.variable, "").strip()
        if not text:
            return self.usual
        if not text.isdecimal() or int(text) == 0:
            raise ValueError(f"{self.variable} must be a whole number from 1, got {text!r}")
        return int(text)

    def check(self, amount: int, what: str) -> None:
        """Refuse more than the limit; `what` is the sentence up to the limit."""
        if amount > self.value:
            raise TableError(
                f"{what}, more than {self.value:,}: if this is intended, set"
                f" {self.variable}={amount}"
            )


MAX_COLUMNS = Limit("CORANK_MAX_COLUMNS", 200_000)
MAX_CELLS = Limit("CORANK_MAX_CELLS", 2**28)  # of a table that is read whole: 2 GB of numbers
MAX_LINE_BYTES = Limit("CORANK_MAX_LINE_BYTES", 2**24)
# size of the contents of a compressed file, in sizes of the file
MAX_EXPANSION = Limit("CORANK_MAX_EXPANSION", 50)
# size of an SVMlight file with all zeros, in sizes of the file, which leaves them out
MAX_ZEROS = Limit("CORANK_MAX_ZEROS", 2_000)


def check_table_size(path: object, n_rows: int, n_columns: int) -> None:
    """Refuse a table that is too wide, or too large to be read whole."""
    MAX_COLUMNS.check(n_columns, f"{path} has {n_columns:,} columns")
    MAX_CELLS.check(
        n_rows * n_columns,
        f"{path} has {n_rows:,} rows of {n_columns:,} columns, {n_rows * n_columns:,} cells",
    )


def check_expansion(
    path: object,
    n_bytes: int,
    n_compressed: int,
    limit: Limit = MAX_EXPANSION,
    free: int | None = None,
) -> None:
    """Refuse contents, so far or in all `n_bytes`, that are far larger than the compressed file
    that holds them.
    """
    if n_bytes > most_bytes(n_compressed, limit, free):
        raise TableError(
            f"{path} grows to {in_bytes(n_bytes)} or more when it is read, over"
            f" {limit.value:,} times its size: if this is intended, set"
            f" {limit.variable} to a larger number"
        )


def most_bytes(n_compressed: int, limit: Limit = MAX_EXPANSION, free: int | None = None) -> int:
    """Bytes to which a file of so many may grow."""
    return max(FREE_BYTES if free is None else free, limit.value * n_compressed)


def too_long_a_line(path: object) -> TableError:
    """The error for a line that is longer than it may be."""
    return TableError(
        f"{path} has a line of more than {in_bytes(MAX_LINE_BYTES.value)}: if this is intended, set"
        f" {MAX_LINE_BYTES.variable} to a larger number of bytes"
    )


def open_limited(path: Path, *, compressed: bool) -> io.BufferedReader:
    """Open a file of text for reading its bytes; refuses, as they are read, endless lines and
    endless contents.
    """
    stream: Any = gzip.GzipFile(path, "rb") if compressed else path.open("rb")
    return io.BufferedReader(
        _LimitedBytes(path, stream, path.stat().st_size if compressed else None), 2**20
    )


class _LimitedBytes(io.RawIOBase):
    """The bytes of a stream; `n_compressed` is the size of a compressed file, else None."""

    def __init__(self, path: Path, stream: Any, n_compressed: int | None) -> None:
        self._path, self._stream = path, stream
        self._n_read = self._n_in_line = 0
        self._most_in_line = MAX_LINE_BYTES.value
        self._n_compressed = n_compressed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        n = int(self._stream.readinto(view) or 0)
        self._n_read += n
        if self._n_compressed is not None:
            check_expansion(self._path, self._n_read, self._n_compressed)
        block, before = bytes(view[:n]), self._n_in_line
        end = block.rfind(b"\n")
        self._n_in_line = n - end - 1 if end >= 0 else before + n
        if before + n > self._most_in_line:
            first, *others = map(len, block.split(b"\n"))
            if max(before + first, *others, 0) > self._most_in_line:
                raise too_long_a_line(self._path)
        return n

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
