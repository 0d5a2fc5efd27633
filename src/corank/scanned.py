"""Rows of a scan as learners take them: scored rows in memory where they are few, unscored ones pass by pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corank._backend import Array, first_appearance, like, take, to_numpy
from corank.comparison import Comparison
from corank.looking import Look, Looking
from corank.passes import Passes
from corank.rows import Rows
from corank.scans import Scan
from corank.scans.chunks import ClosedQueries
from corank.statistics import Index, Statistics
from corank.summing import Summing
from corank.unscored import Piece, Pool


@dataclass(frozen=True)
class SomeRows:
    """Some rows of a table of n_rows, under their numbers in it: features (n, d), numbers (n,) rising."""

    features: Array
    numbers: Index
    n_rows: int

    @property
    def shape(self) -> tuple[int, int]:
        """Of the table."""
        return self.n_rows, int(self.features.shape[1])

    def take_rows(self, rows: Any) -> Array:
        """Rows by their numbers in the table; only those that are here can be had."""
        asked = np.asarray(to_numpy(rows))
        at = np.minimum(np.searchsorted(self.numbers, asked), len(self.numbers) - 1)
        if np.any(self.numbers[at] != asked):
            missing = int(asked[np.argmax(self.numbers[at] != asked)])
            raise ValueError(f"basis holds row {missing}, which has no score: of a scan only scored rows can be named.")
        return take(self.features, at)


def look_at(scan: Scan, passes: Passes, looking: Looking, name: str, *, contiguous: bool) -> Look:
    """The first pass over a scan; `contiguous` refuses queries that come back."""
    look: Look = passes.run(scan, looking, f"look-{name}", f"looking at {name}")
    if contiguous and scan.has_queries and not look.rises:
        closed = ClosedQueries()
        with closing(scan.chunks(features=False)) as chunks:
            for chunk in chunks:
                closed.add(chunk.runs, chunk.place)
    return look


def held_rows(look: Look, *, with_queries: bool) -> tuple[SomeRows, Rows]:
    """The scored rows of a look that holds them, and the table they are from."""
    assert look.held is not None
    features, scores, ids, numbers = look.held.joined()
    codes, n_queries = first_appearance(ids)
    rows = Rows(
        features=features,
        scores=scores,
        queries=like(codes, scores, "int64") if with_queries else None,
        n_queries=n_queries if with_queries else 1,
        weights=None,
        index=like(numbers, scores, "int64"),
    )
    return SomeRows(features, numbers, look.n_rows), rows


@dataclass
class ScannedRows:
    """The rows of a scan without a score, or all of them where its scores play no part. A Part of `UnscoredRows`."""

    scan: Scan
    look: Look
    passes: Passes
    name: str
    every: bool = True
    with_queries: bool = True
    _passed: int = field(default=0, init=False)

    @property
    def n_rows(self) -> int:
        """Their number."""
        return self.look.n_rows - self.look.n_scored

    def sampled(self, size: int, seed: int) -> Pool:
        """At most `size` of them; drawn when they were looked at."""
        pool = self.look.unscored
        assert min(size, self.n_rows) <= pool.limit
        return pool.cut(size)

    def pieces(self) -> Iterator[Piece]:
        """Chunk by chunk, queries numbered through."""
        code, last = -1, None
        for chunk in self.scan.chunks():
            runs = chunk.runs
            rows: Any = np.arange(chunk.n_rows)
            if not self.every and chunk.scores is not None:
                rows = np.flatnonzero(np.isnan(to_numpy(chunk.scores)))
            if len(rows) == 0:
                continue
            own = runs.codes(chunk.n_rows)[rows]
            present, codes = np.unique(own, return_inverse=True)
            goes_on = last == int(runs.ids[present[0]])
            first = code if goes_on else code + 1
            yield Piece(take(chunk.features, rows), codes.astype(np.int64) + first if self.with_queries else 0 * codes)
            code, last = first + len(present) - 1, int(runs.ids[present[-1]])

    def summed(
        self, comparison: Comparison, features: Any, size: int, columns: Sequence[Index] | None = None
    ) -> Statistics:
        """The sums over them, in one pass."""
        job = Summing(comparison, features, size, "all" if self.every else "unscored", columns)
        self._passed += 1
        name = f"sums-{self.name}-{self._passed}"
        return self.passes.run(self.scan, job, name, f"summing {self.name}", self.look.n_rows).closed()  # type: ignore[no-any-return]
