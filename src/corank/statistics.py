"""One pass over rows → Gram statistics that add up: over chunks, folds, workers.

Every row becomes z = (Φ(x), score, 1). A fold's sums are Σ z L zᵀ over its queries, so that whatever the solvers ask
(normal equations, held-out loss) is a block of one small matrix. A query may span chunks: the open one keeps its
count, mean and centred second moments, merged pairwise (Chan, Golub, LeVeque 1983).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from corank._backend import Array, device, like, namespace, segment_sum, take
from corank.comparison import Comparison

N_TARGETS = 2  # the score and the constant 1
BLOCK_ENTRIES = 2**20  # of one block of features
CHUNK_ROWS = 2**16

Index: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
FeatureMap: TypeAlias = Callable[[Array], Array]  # rows (n, d) → dense float64 features (n, r)


@dataclass(frozen=True)
class Gram:
    """Sums over rows: `matrix` (r + 2, r + 2) = Σ z L zᵀ, `weight` of the rows, `freedom` = rank of L."""

    matrix: Array
    weight: float = 0.0
    freedom: int = 0

    def __add__(self, other: Gram) -> Gram:
        return Gram(self.matrix + other.matrix, self.weight + other.weight, self.freedom + other.freedom)

    @property
    def features(self) -> Array:
        """Φᵀ L Φ: (r, r)."""
        return self.matrix[:-N_TARGETS, :-N_TARGETS]

    @property
    def mean_score(self) -> float:
        """The weighted mean score, where single rows count."""
        return float(self.matrix[-2, -1]) / float(self.matrix[-1, -1])

    def right(self, offset: float = 0.0) -> Array:
        """Φᵀ L (s − offset): (r, 1)."""
        return (self.matrix[:-N_TARGETS, -2] - offset * self.matrix[:-N_TARGETS, -1])[:, None]

    def loss(self, coefficients: Array, offset: float = 0.0) -> Array:
        """‖J (s − offset − Φ c)‖² for each column c of (r, k): (k,). O(k r²)."""
        xp = namespace(self.matrix)
        ones = xp.ones((1, coefficients.shape[1]), dtype=xp.float64, device=device(self.matrix))
        vectors = xp.concat([-coefficients, ones, -offset * ones], axis=0)
        losses = xp.sum(vectors * (self.matrix @ vectors), axis=0)
        return xp.where(losses > 0, losses, xp.zeros_like(losses))


@dataclass(frozen=True)
class Moments:
    """Rows of one query, or a part of them: total weight, count, mean (c,) and centred second moments (c, c)."""

    weight: float
    count: int
    mean: Array
    scatter: Array

    @classmethod
    def of(cls, z: Array, weights: Array) -> Moments:
        """The moments of rows z (n, c) with weights (n,)."""
        xp = namespace(z)
        total = float(xp.sum(weights))
        mean = xp.sum(weights[:, None] * z, axis=0) / total
        centred = xp.sqrt(weights)[:, None] * (z - mean[None, :])
        return cls(total, int(z.shape[0]), mean, centred.T @ centred)

    def merge(self, other: Moments | None) -> Moments:
        """Both parts as one."""
        if other is None:
            return self
        weight = self.weight + other.weight
        step = other.mean - self.mean
        scatter = self.scatter + other.scatter + (self.weight * other.weight / weight) * (step[:, None] * step[None, :])
        return Moments(weight, self.count + other.count, self.mean + (other.weight / weight) * step, scatter)

    def gram(self, comparison: Comparison) -> Gram:
        """What these rows cost as one whole query."""
        sizes = like([self.weight], self.mean), like([float(self.count)], self.mean)
        between, within = (float(scale[0]) for scale in comparison.scales(*sizes))
        matrix = within * self.scatter + between * self.weight * (self.mean[:, None] * self.mean[None, :])
        return Gram(matrix, self.weight, self.count - (between == 0))


@dataclass(frozen=True)
class Statistics:
    """The sums of every fold: its whole queries and, where folds cut through one query, the parts of that one."""

    comparison: Comparison
    queries: tuple[Gram, ...]
    parts: tuple[Moments | None, ...]

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.queries)

    def total(self) -> Gram:
        """The sums over all rows."""
        return self._sum(range(self.n_folds))

    def without(self, fold: int) -> Gram:
        """The sums over all rows but a fold's."""
        return self._sum(k for k in range(self.n_folds) if k != fold)

    def of(self, fold: int) -> Gram:
        """The sums over a fold's rows."""
        return self._sum([fold])

    def _sum(self, folds: Iterable[int]) -> Gram:
        chosen = list(folds)
        some = Statistics(
            self.comparison, tuple(self.queries[k] for k in chosen), tuple(self.parts[k] for k in chosen)
        ).collapsed()
        part = some.parts[0]
        return some.queries[0] if part is None else some.queries[0] + part.gram(self.comparison)

    def mapped(self, whitening: Array) -> Statistics:
        """The statistics of features Φ W for W (r, k). O(r² k)."""
        xp = namespace(whitening)
        (r, k), place = whitening.shape, {"dtype": xp.float64, "device": device(whitening)}
        upper = xp.concat([whitening, xp.zeros((r, N_TARGETS), **place)], axis=1)
        lower = xp.concat([xp.zeros((N_TARGETS, k), **place), xp.eye(N_TARGETS, **place)], axis=1)
        full = xp.concat([upper, lower], axis=0)
        return Statistics(
            self.comparison,
            tuple(replace(gram, matrix=full.T @ gram.matrix @ full) for gram in self.queries),
            tuple(
                None if part is None else replace(part, mean=full.T @ part.mean, scatter=full.T @ part.scatter @ full)
                for part in self.parts
            ),
        )

    def collapsed(self) -> Statistics:
        """All folds as one."""
        part: Moments | None = None
        for own in self.parts:
            part = part if own is None else own.merge(part)
        total = self.queries[0]
        for gram in self.queries[1:]:
            total = total + gram
        return Statistics(self.comparison, (total,), (part,))

    def merged(self, other: Statistics) -> Statistics:
        """Both sets of rows; parts of one query (no qid) become one query."""
        pairs = zip(self.parts, other.parts, strict=True)
        return Statistics(
            self.comparison,
            tuple(a + b for a, b in zip(self.queries, other.queries, strict=True)),
            tuple(b if a is None else a.merge(b) for a, b in pairs),
        )


class Accumulator:
    """Takes rows in query order, chunk by chunk, and keeps the sums of every fold.

    Parameters
    ----------
    comparison : Comparison
    features : callable, rows (n, d) → (n, r)
    n_features : r
    reference : any array of the library and device to compute on
    folds : (n_queries,) the fold of each query code, or None for a single fold
    """

    def __init__(
        self,
        comparison: Comparison,
        features: FeatureMap,
        n_features: int,
        reference: Array,
        folds: Index | None = None,
    ) -> None:
        self.comparison = comparison
        self.features = features
        self.folds = folds
        n_folds = 1 if folds is None else int(folds.max()) + 1
        xp = namespace(reference)
        c = n_features + N_TARGETS
        self._sums = [Gram(xp.zeros((c, c), dtype=xp.float64, device=device(reference))) for _ in range(n_folds)]
        self._parts: list[Moments | None] = [None] * n_folds
        self._block_rows = max(64, BLOCK_ENTRIES // c)
        self._open: Moments | None = None
        self._open_query = -1

    def add(self, X: Array, scores: Array, queries: Index, weights: Array, *, whole: bool = False) -> None:
        """Add rows whose queries lie together; `whole` promises that none of them goes on in a later chunk."""
        if not self.comparison.needs_queries:
            self._add_whole(X, scores, queries, weights)
            return
        starts = np.flatnonzero(np.r_[True, queries[1:] != queries[:-1]])
        first = int(starts[1]) if len(starts) > 1 else len(queries)
        last = int(starts[-1])
        begin = 0
        if queries[0] == self._open_query:  # the open query goes on
            self._extend(X, scores, weights, slice(0, first))
            begin = first
        if begin < len(queries):
            self._close()
            end = len(queries) if whole else last
            if end > begin:
                rows = slice(begin, end)
                self._add_whole(take(X, rows), scores[rows], queries[rows], weights[rows])
            if end < len(queries):
                self._open_query = int(queries[-1])
                self._extend(X, scores, weights, slice(end, len(queries)))
        if whole:
            self._close()

    def add_items(self, X: Array, scores: Array, weights: Array, folds: Index) -> None:
        """Add rows of the one nameless query, each with a fold of its own."""
        for fold in np.unique(folds):
            rows = np.flatnonzero(folds == fold)
            for z, w in self._blocks(X, scores, weights, rows):
                self._parts[fold] = Moments.of(z, w).merge(self._parts[fold])

    def result(self) -> Statistics:
        """The sums so far, the open query taken as complete."""
        self._close()
        return Statistics(self.comparison, tuple(self._sums), tuple(self._parts))

    def _fold(self, query: int) -> int:
        return 0 if self.folds is None else int(self.folds[query])

    def _augmented(self, X: Array, scores: Array) -> Array:
        phi = self.features(X)
        xp = namespace(phi)
        return xp.concat([phi, scores[:, None], xp.ones_like(scores)[:, None]], axis=1)

    def _blocks(self, X: Array, scores: Array, weights: Array, rows: Index) -> Iterable[tuple[Array, Array]]:
        for begin in range(0, len(rows), self._block_rows):
            part = rows[begin : begin + self._block_rows]
            yield self._augmented(take(X, part), take(scores, part)), take(weights, part)

    def _extend(self, X: Array, scores: Array, weights: Array, rows: slice) -> None:
        for z, w in self._blocks(X, scores, weights, np.arange(rows.start, rows.stop)):
            self._open = Moments.of(z, w).merge(self._open)

    def _close(self) -> None:
        if self._open is not None:
            fold = self._fold(self._open_query)
            self._sums[fold] = self._sums[fold] + self._open.gram(self.comparison)
        self._open, self._open_query = None, -1

    def _add_whole(self, X: Array, scores: Array, queries: Index, weights: Array) -> None:
        """Add whole queries: their rows brought together fold by fold, then block by block."""
        folds = np.zeros(len(queries), dtype=np.int64) if self.folds is None else self.folds[queries]
        order = np.argsort(folds, kind="stable")
        for fold in np.unique(folds):
            rows = order[np.searchsorted(folds[order], fold) : np.searchsorted(folds[order], fold, side="right")]
            for begin, end in self._cuts(queries[rows]):
                part = rows[begin:end]
                if end - begin > self._block_rows and self.comparison.needs_queries:  # one query larger than a block
                    moments: Moments | None = None
                    for z, w in self._blocks(X, scores, weights, part):
                        moments = Moments.of(z, w).merge(moments)
                    assert moments is not None
                    gram = moments.gram(self.comparison)
                else:
                    z = self._augmented(take(X, part), take(scores, part))
                    gram = self._whole_queries(z, queries[part], take(weights, part))
                self._sums[fold] = self._sums[fold] + gram

    def _cuts(self, queries: Index) -> Iterable[tuple[int, int]]:
        """Blocks of about `_block_rows` rows that cut no query."""
        n, begin = len(queries), 0
        if not self.comparison.needs_queries:
            yield from ((b, min(b + self._block_rows, n)) for b in range(0, n, self._block_rows))
            return
        ends = np.r_[np.flatnonzero(queries[1:] != queries[:-1]) + 1, n]
        while begin < n:
            fits = int(np.searchsorted(ends, begin + self._block_rows, side="right"))
            end = (
                int(ends[fits - 1])
                if fits > 0 and ends[fits - 1] > begin
                else int(ends[np.searchsorted(ends, begin, side="right")])
            )
            yield begin, end
            begin = end

    def _whole_queries(self, z: Array, queries: Index, weights: Array) -> Gram:
        """Σ over whole queries of within·scatter + between·weight·mean meanᵀ."""
        xp = namespace(z)
        n = int(z.shape[0])
        if not self.comparison.needs_queries:
            weighted = xp.sqrt(weights)[:, None] * z
            return Gram(weighted.T @ weighted, float(xp.sum(weights)), n)
        runs = np.cumsum(np.r_[0, queries[1:] != queries[:-1]])
        n_runs = int(runs[-1]) + 1
        codes = like(runs, z, "int64")
        counts = like(np.bincount(runs), z)
        sums = segment_sum(xp.concat([weights[:, None] * z, weights[:, None]], axis=1), codes, n_runs)
        totals = sums[:, -1]
        means = sums[:, :-1] / totals[:, None]
        between, within = self.comparison.scales(totals, counts)
        scaled = xp.sqrt(weights * take(within, codes))[:, None] * (z - take(means, codes))
        matrix = scaled.T @ scaled
        free = n - int(xp.count_nonzero(between == 0))
        if free == n:
            scaled_means = xp.sqrt(between * totals)[:, None] * means
            matrix = matrix + scaled_means.T @ scaled_means
        return Gram(matrix, float(xp.sum(totals)), free)


def gather(
    X: Array,
    scores: Array,
    queries: Index | None,
    weights: Array | None,
    comparison: Comparison,
    features: FeatureMap,
    n_features: int,
    folds: Index | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> Statistics:
    """One pass over rows in memory, in any order: (n, d) features, (n,) scores, query codes and weights.

    `folds` has one entry a query code, or one a row where `queries` is None (one query without a name).
    O(n r (r + d)) for r features; memory a few blocks and one (r + 2)² matrix a fold.
    """
    n = int(X.shape[0])
    ones = like(np.ones(min(n, chunk_rows)), scores)
    by_items = queries is None and comparison.needs_queries
    codes = (
        (np.arange(n) if not comparison.needs_queries else np.zeros(n, dtype=np.int64)) if queries is None else queries
    )
    accumulator = Accumulator(comparison, features, n_features, scores, folds)
    ordered = not comparison.needs_queries or bool(np.all(codes[1:] >= codes[:-1]))
    order = None if ordered else np.argsort(codes, kind="stable")
    for begin in range(0, n, chunk_rows):
        end = min(begin + chunk_rows, n)
        rows: Any = slice(begin, end) if order is None else order[begin:end]
        w = ones[: end - begin] if weights is None else take(weights, rows)
        if by_items:
            parts = np.zeros(end - begin, dtype=np.int64) if folds is None else folds[begin:end]
            accumulator.add_items(take(X, rows), take(scores, rows), w, parts)
        else:
            accumulator.add(take(X, rows), take(scores, rows), codes[rows], w)
    return accumulator.result()
