"""Numbers of rows before a chunk.

The job of summing: a chunk of a scan → the Gram statistics of its rows, ready to be merged with those around it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from corank._arrays import Array, Arrays, Index, like, namespace, take, to_numpy
from corank.gram import Accumulator, Spans
from corank.loss import Loss
from corank.sampling import fold_numbers
from corank.streaming.chunks import Chunk, Cursor
from corank.views import SideBySide


@dataclass(frozen=True)
class Offsets:
    """What lies before a chunk: rows, scored rows, and the number of its first scored query."""

    rows: int
    scored: int
    query: int


@dataclass(frozen=True)
class Folds:
    """Which fold a row is in: by its query, or by its number where rows are held out one by one."""

    by: Literal["query", "row"]
    n_folds: int
    seed: int
    offsets: Mapping[Cursor, Offsets]


@dataclass(frozen=True)
class Summing:
    """Sums over the rows of a chunk that are scored, that are not, or over all.

    features : as in `Accumulator`; size : their number
    columns : of every view, where features take rows as views see them
    items : rows of the one nameless query, each in a fold of its own
    level : is taken out of the scores
    """

    comparison: Loss
    features: Any
    size: int
    which: Literal["scored", "unscored", "all"]
    columns: Sequence[Index] | None = None
    folds: Folds | None = None
    items: bool = False
    level: float = 0.0

    def __call__(self, chunk: Chunk) -> Spans:
        """The sums of a chunk. O(n r (r + d))."""
        rows = self._rows(chunk)
        X = take(chunk.features, rows)
        xp = namespace(X)
        n = int(X.shape[0])
        zeros = like(np.zeros(n), X)
        scores = zeros
        if self.which == "scored":
            scores = take(like(chunk.scores, X), rows) - self.level
        if self.columns is not None:
            X = SideBySide.of(X, self.columns)
        runs = chunk.runs.codes(chunk.n_rows)[rows]
        own, codes = np.unique(runs, return_inverse=True)
        n_folds = 1 if self.folds is None else self.folds.n_folds
        by_rows = not self.comparison.needs_queries and (self.folds is None or self.folds.by == "row")
        codes = np.arange(n) if by_rows else codes.astype(np.int64)
        folds = self._folds(chunk, n if by_rows or self.items else len(own))
        sums = Accumulator(
            self.comparison,
            self.features,
            self.size,
            zeros if n else xp.zeros(1, dtype=xp.float64, device=getattr(zeros, "device", None)),
            None if self.items else folds,
            n_folds=n_folds,
            keeps_ends=self.comparison.needs_queries and not self.items,
        )
        if n and self.items:
            sums.add_items(X, scores, None, np.zeros(n, dtype=np.int64) if folds is None else folds)
        elif n:
            sums.add(X, scores, codes, None)
        return Spans.of(sums, chunk.runs.ids[own])

    def _rows(self, chunk: Chunk) -> Any:
        if self.which == "all" or (self.which == "unscored" and chunk.scores is None):
            return slice(0, chunk.n_rows)
        scored = np.zeros(chunk.n_rows, dtype=bool) if chunk.scores is None else ~np.isnan(to_numpy(chunk.scores))
        wanted = scored if self.which == "scored" else ~scored
        return slice(0, chunk.n_rows) if wanted.all() else np.flatnonzero(wanted)

    def _folds(self, chunk: Chunk, count: int) -> Index | None:
        """Of the chunk's scored queries, or of its scored rows."""
        if self.folds is None:
            return None
        offsets = self.folds.offsets[chunk.cursor]
        begin = offsets.query if self.folds.by == "query" else offsets.scored
        return fold_numbers(begin, count, self.folds.n_folds, self.folds.seed)

    def unpacked(self, header: dict[str, Any], arrays: Arrays, reference: Array) -> Spans:
        """What `Spans.packed` gave."""
        return Spans.unpacked(header, arrays, self.comparison, reference)

    def digest(self) -> str:
        """Of everything that the sums depend on beside the rows."""
        folds = self.folds and (self.folds.by, self.folds.n_folds, self.folds.seed)
        text = repr((self.comparison, self.size, self.which, folds, self.items, self.level))
        result = hashlib.sha256(text.encode())
        for phi in getattr(self.features, "maps", [self.features]):
            kernel = re.sub(r" at 0x[0-9a-f]+", "", repr(getattr(phi.basis, "kernel", None)))
            result.update(f"{kernel} {phi.whitened}".encode())
            points = getattr(phi.basis, "points", None)
            result.update(b"" if points is None else np.ascontiguousarray(to_numpy(points)).tobytes())
            if phi.whitened:
                result.update(np.ascontiguousarray(to_numpy(phi.basis.whitening.matrix)).tobytes())
        for own in self.columns or ():
            result.update(np.ascontiguousarray(own).tobytes())
        return result.hexdigest()
