"""The job of summing: a chunk of a scan → the Gram sums of its rows, ready to be merged with those
of its neighbours.

`JointSumJob` sums two kinds of rows in one pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from corank.core.arrays import Array, Index, digest, first_appearance, like, take, zeros_beside
from corank.core.loss import Loss
from corank.core.sampling import fold_numbers
from corank.core.storable import storable
from corank.core.sums import Accumulator, Spans
from corank.core.views import SideBySide
from corank.streaming.chunks import Chunk, Cursor


@dataclass(frozen=True)
class Offsets:
    """Numbers of rows and of scored rows before a chunk, and the number of its first scored query."""

    rows: int
    scored: int
    query: int


@dataclass(frozen=True)
class Folds:
    """The fold of every row: by its query, or by its number where rows are held out one by one."""

    by: Literal["query", "row"]
    n_folds: int
    seed: int
    offsets: Mapping[Cursor, Offsets]


@dataclass(frozen=True)
class SumJob:
    """Sums over the scored rows of a chunk, over its unscored rows, or over all.

    features : as in `Accumulator`, with their number as `size`
    columns : of every view, where features take the rows of all views side by side
    items : whether all rows are one query without a name, of which each has its fold
    level : is subtracted from the scores
    """

    comparison: Loss
    features: Any
    which: Literal["scored", "unscored", "all"]
    columns: Sequence[Index] | None
    folds: Folds | None = None
    items: bool = False
    level: float = 0.0

    def __call__(self, chunk: Chunk) -> Spans:
        """The sums of a chunk. O(n r (r + d))."""
        rows = self._rows(chunk)
        X = take(chunk.features, rows)
        n = X.shape[0]
        zeros = like(np.zeros(n), X)
        scores = zeros
        if self.which == "scored":
            scores = take(like(chunk.scores, X), rows) - self.level
        if self.columns is not None:
            X = SideBySide.of(X, self.columns)
        runs = chunk.runs.codes(chunk.n_rows)[rows]
        codes, n_runs = first_appearance(runs)
        present = runs[np.searchsorted(codes, np.arange(n_runs))]
        n_folds = 1 if self.folds is None else self.folds.n_folds
        by_rows = not self.comparison.needs_queries and (
            self.folds is None or self.folds.by == "row"
        )
        codes = np.arange(n) if by_rows else codes
        folds = self._folds(chunk, n if by_rows or self.items else n_runs)
        sums = Accumulator(
            self.comparison,
            self.features,
            self.features.size,
            zeros if n else zeros_beside(1, zeros),
            None if self.items else folds,
            n_folds=n_folds,
            keeps_ends=self.comparison.needs_queries and not self.items,
        )
        if n and self.items:
            sums.add_items(X, scores, None, np.zeros(n, dtype=np.int64) if folds is None else folds)
        elif n:
            sums.add(X, scores, codes, None)
        return Spans.of(sums, chunk.runs.ids[present])

    def _rows(self, chunk: Chunk) -> Any:
        if self.which == "all":
            return slice(0, chunk.n_rows)
        summed = chunk.is_scored if self.which == "scored" else ~chunk.is_scored
        return slice(0, chunk.n_rows) if summed.all() else np.flatnonzero(summed)

    def _folds(self, chunk: Chunk, count: int) -> Index | None:
        """The folds of the scored queries of a chunk, or of its scored rows."""
        if self.folds is None:
            return None
        offsets = self.folds.offsets[chunk.cursor]
        begin = offsets.query if self.folds.by == "query" else offsets.scored
        return fold_numbers(begin, count, self.folds.n_folds, self.folds.seed)

    def digest(self) -> str:
        """A digest of everything that the sums depend on beside the rows."""
        folds = self.folds and (self.folds.by, self.folds.n_folds, self.folds.seed)
        values: list[Any] = [
            self.comparison,
            self.features.size,
            self.which,
            folds,
            self.items,
            self.level,
        ]
        for feature_map in getattr(self.features, "maps", [self.features]):
            kernel = re.sub(
                r" at 0x[0-9a-f]+", "", repr(getattr(feature_map.basis, "kernel", None))
            )
            values += [kernel, feature_map.whitened, getattr(feature_map.basis, "points", None)]
            if feature_map.whitened:
                values.append(feature_map.basis.whitening.matrix)
        return digest(*values, *(self.columns or ()))


@storable("JointSums")
@dataclass(frozen=True)
class JointSums:
    """The results of several jobs for the same stretch of rows."""

    sums: tuple[Spans, ...]

    def merged(self, other: JointSums) -> JointSums:
        """The sums over these rows and the rows that follow them."""
        return JointSums(
            tuple(
                own.merged(next_sums) for own, next_sums in zip(self.sums, other.sums, strict=True)
            )
        )

    def beside(self, reference: Array) -> JointSums:
        """The sums in the library and on the device of a reference."""
        return JointSums(tuple(sums.beside(reference) for sums in self.sums))


@dataclass(frozen=True)
class JointSumJob:
    """Several jobs in one pass over the rows."""

    jobs: tuple[SumJob, ...]

    def __call__(self, chunk: Chunk) -> JointSums:
        """The sums of a chunk, one per job."""
        return JointSums(tuple(job(chunk) for job in self.jobs))

    def digest(self) -> str:
        """A digest of everything that the sums depend on beside the rows."""
        return digest(*(job.digest() for job in self.jobs))
