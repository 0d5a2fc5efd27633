"""What a scan needs of a kind of file: which columns there are, and the rows of a stretch of a file, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from corank.scans.chunks import Place, Runs
from corank.scans.files import File


@dataclass(frozen=True)
class Unit:
    """A stretch of one file that is read from its beginning.

    groups : row groups of a Parquet file; None for the whole file
    n_rows : None where that is known only by reading
    """

    file: File
    groups: tuple[int, ...] | None = None
    n_rows: int | None = None
    first_row: int = 0


@dataclass(frozen=True)
class Wanted:
    """The columns that a pass reads. `features` None: none of them; `as_table`: not yet as numbers."""

    features: tuple[str, ...] | None
    score: str | None
    query: str | None
    extra: tuple[str, ...] = ()
    as_table: bool = False


@dataclass(frozen=True)
class Raw:
    """Rows as they were read: features (n, d) or a table of them, None where they were not wanted."""

    n_rows: int
    features: np.ndarray[Any, Any] | pa.Table | None
    scores: np.ndarray[Any, Any] | None
    runs: Runs
    place: Place
    extra: pa.Table | None


class Source(Protocol):
    """Files of one kind, checked as far as that can be done without reading them."""

    @property
    def units(self) -> Sequence[Unit]:
        """The stretches, in order."""
        ...

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        ...

    def number_columns(self) -> list[str]:
        """Those that hold numbers."""
        ...

    def check(self, wanted: Wanted) -> None:
        """Refuse columns that are missing or of a wrong type in any file."""
        ...

    def read(self, unit: Unit, wanted: Wanted, chunk_rows: int) -> Iterator[Raw]:
        """The rows of a unit in chunks of `chunk_rows`, the last one shorter."""
        ...


def rechunked(tables: Iterator[pa.Table], chunk_rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of exactly `chunk_rows`, the last one shorter."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        while count >= chunk_rows:
            joined = pa.concat_tables(waiting)
            yield joined.slice(0, chunk_rows)
            rest = joined.slice(chunk_rows)
            waiting, count = [rest] if rest.num_rows else [], rest.num_rows
    if count:
        yield pa.concat_tables(waiting)
