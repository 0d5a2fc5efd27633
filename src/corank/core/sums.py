"""Gram sums of one pass over rows, which add up over chunks, folds and workers.

Every row becomes z = (Φ(x), score, 1), c = r + 2 numbers. The sums of a fold are Σ z L zᵀ over its
queries, so that whatever the solvers ask (normal equations, held-out loss) is a block of one small
matrix. `Accumulator` sums rows, `gather` rows in memory. A query may span chunks: the open one
keeps its weight, mean and centred second moments, merged pairwise [Chan1983]. `Spans` are the sums
of a stretch of rows with the moments of the queries at its ends: stretches that follow each other
make one, and how many there were does not matter beyond rounding.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, Literal, Self, TypeAlias

import numpy as np

from corank.core.arrays import (
    Array,
    Index,
    NumpyArray,
    at_least_zero,
    block_entries,
    block_of,
    centre_runs,
    empty_like,
    forget,
    gram_of,
    in_order,
    is_rising,
    like,
    namespace,
    run_starts,
    runs_of_rows,
    sum_of,
    take,
    writable,
    zeros_beside,
)
from corank.core.loss import Loss
from corank.core.storable import floats, storable, stored

N_TARGETS = 2  # the score and the constant 1
BLOCK_ENTRIES = 2**20  # of one block of features
# of one block whose products are summed: the larger, the nearer to the speed of matrix products
GRAM_ENTRIES = 2**21
MIN_BLOCK_ROWS = 64
MIN_DEVICE_ROWS = 1024  # of a block on a device that is short of memory
WRITE_ROWS = 512  # of a block that are made at once, to stay in the cache
CHUNK_ROWS = 2**16  # that are copied at once where rows are not in query order

Transformation: TypeAlias = Callable[[Array], Array]
FeatureMap: TypeAlias = Callable[[Array], Array]  # rows (n, d) → dense float64 features (n, r)


@storable("Gram")
@dataclass(frozen=True)
class Gram:
    """Sums over rows: matrix Σ z L zᵀ (c, c), total weight of the rows, and freedom, the rank of L."""

    matrix: Annotated[Array, floats("w", "w")]
    weight: float = 0.0
    freedom: int = 0

    def __add__(self, other: Gram) -> Gram:
        return Gram(
            self.matrix + other.matrix, self.weight + other.weight, self.freedom + other.freedom
        )

    def __iadd__(self, other: Gram) -> Self:
        matrix = self.matrix
        matrix += other.matrix
        return type(self)(matrix, self.weight + other.weight, self.freedom + other.freedom)

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
        ones = like(np.ones((1, coefficients.shape[1])), self.matrix)
        vectors = xp.concat([-coefficients, ones, -offset * ones], axis=0)
        return at_least_zero(xp.sum(vectors * (self.matrix @ vectors), axis=0))

    def explained(self, coefficients: Array, offset: float) -> tuple[Array, Array]:
        """(J r)·(J Φ c) and ‖J Φ c‖² for each column c of (r, k), r = s − offset − Φ c: (k,) each.
        O(k r²).
        """
        xp = namespace(self.matrix)
        fitted = self.features @ coefficients
        squares = xp.sum(coefficients * fitted, axis=0)
        cross = xp.sum(coefficients * (self.right(offset) - fitted), axis=0)
        return cross, at_least_zero(squares)


@storable("Moments")
@dataclass(frozen=True)
class Moments:
    """Rows of one query, or some of them: total weight, count, mean (c,) and centred second moments
    (c, c).
    """

    weight: float
    count: int
    mean: Annotated[Array, floats("w")]
    scatter: Annotated[Array, floats("w", "w")]

    @classmethod
    def of(cls, z: Array, weights: Array | None) -> Moments:
        """The moments of rows z (n, c) with weights (n,), None for ones. May overwrite z."""
        z, totals, means = centre_runs(z, np.zeros(1, dtype=np.int64), weights)
        if weights is not None:
            z = namespace(z).sqrt(weights)[:, None] * z
        return cls(float(totals[0]), z.shape[0], means[0, ...], gram_of(z))

    def merge(self, other: Moments | None) -> Moments:
        """The moments of the rows of both."""
        if other is None:
            return self
        weight = self.weight + other.weight
        step = other.mean - self.mean
        between = (self.weight * other.weight / weight) * (step[:, None] * step[None, :])
        scatter = self.scatter + other.scatter + between
        mean = self.mean + (other.weight / weight) * step
        return Moments(weight, self.count + other.count, mean, scatter)

    def transformed(self, of_vector: Transformation, of_matrix: Transformation) -> Moments:
        """The moments with the vector (c,) and the matrix (c, c) transformed."""
        return replace(self, mean=of_vector(self.mean), scatter=of_matrix(self.scatter))

    def gram(self, comparison: Loss) -> Gram:
        """The sums of these rows as one whole query."""
        sizes = like([self.weight], self.mean), like([float(self.count)], self.mean)
        between, within = (float(scale[0]) for scale in comparison.scales(*sizes))
        level = self.mean[:, None] * self.mean[None, :]
        matrix = within * self.scatter + between * self.weight * level
        return Gram(matrix, self.weight, self.count - (between == 0))


@storable("Statistics")
@dataclass(frozen=True)
class Statistics:
    """The sums of every fold.

    queries : over the whole queries of each fold
    parts : where folds cut through one query without a name, the moments of its rows in each fold;
        else None
    """

    comparison: Annotated[Loss, stored("Pointwise", "Queries", "Blend")]
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
        """The sums over all rows but those of a fold."""
        return self._sum(k for k in range(self.n_folds) if k != fold)

    def of(self, fold: int) -> Gram:
        """The sums over the rows of a fold."""
        return self._sum([fold])

    def _sum(self, folds: Iterable[int]) -> Gram:
        grams, parts = zip(*((self.queries[k], self.parts[k]) for k in folds), strict=True)
        chosen = Statistics(self.comparison, grams, parts).collapsed()
        (gram,), (moments,) = chosen.queries, chosen.parts
        return gram if moments is None else gram + moments.gram(self.comparison)

    def mapped(self, whitening: Array) -> Statistics:
        """The sums with features Φ W for W (r, k). O(r² k)."""
        xp = namespace(whitening)
        r, k = whitening.shape
        upper = xp.concat([whitening, zeros_beside((r, N_TARGETS), whitening)], axis=1)
        lower = like(np.eye(N_TARGETS, k + N_TARGETS, k), whitening)
        full = xp.concat([upper, lower], axis=0)
        return self.transformed(
            lambda vector: full.T @ vector, lambda matrix: full.T @ matrix @ full
        )

    def of_features(self, chosen: Index) -> Statistics:
        """The sums with the given features only."""
        size = int(self.queries[0].matrix.shape[0]) - N_TARGETS
        return self.of_columns(np.r_[chosen, size : size + N_TARGETS])

    def of_columns(self, kept: Index) -> Statistics:
        """The sums with some columns of z: features, then a score and the constant."""
        return self.transformed(
            lambda vector: take(vector, kept), lambda matrix: block_of(matrix, kept, kept)
        )

    def transformed(self, of_vector: Transformation, of_matrix: Transformation) -> Statistics:
        """The sums with every vector (c,) and every matrix (c, c) transformed."""
        queries = tuple(replace(gram, matrix=of_matrix(gram.matrix)) for gram in self.queries)
        parts = tuple(part and part.transformed(of_vector, of_matrix) for part in self.parts)
        return Statistics(self.comparison, queries, parts)

    def collapsed(self) -> Statistics:
        """The sums with all folds as one."""
        moments: Moments | None = None
        for part in self.parts:
            moments = moments if part is None else part.merge(moments)
        return Statistics(self.comparison, (sum_of(self.queries),), (moments,))

    def with_folds(self, n_folds: int) -> Statistics:
        """The sums with empty folds at the end, up to a number of folds."""
        missing = max(n_folds - self.n_folds, 0)
        empty = Gram(0.0 * self.queries[0].matrix)
        queries, parts = (*self.queries, *[empty] * missing), (*self.parts, *[None] * missing)
        return Statistics(self.comparison, queries, parts)

    def merged(self, other: Statistics) -> Statistics:
        """The sums over the rows of both; without queries, all rows are one query."""
        pairs = zip(self.parts, other.parts, strict=True)
        return Statistics(
            self.comparison,
            tuple(a + b for a, b in zip(self.queries, other.queries, strict=True)),
            tuple(b if a is None else a.merge(b) for a, b in pairs),
        )


@dataclass(frozen=True)
class _Job:
    """A block of rows: whole queries, rows of the open query, items of the query without a name; or
    the end of a query.
    """

    kind: Literal["whole", "part", "item", "close"]
    fold: int
    rows: Any = None  # slice or row numbers
    query: int = -1  # code of the query that ends


@storable("End")
@dataclass(frozen=True)
class End:
    """A query at one end of some rows, which may go on beyond them."""

    query: int
    fold: int
    moments: Moments


Step: TypeAlias = Callable[[_Job], tuple[_Job, Gram | Moments | None]]


class Accumulator:
    """Takes rows in query order, chunk by chunk, and keeps the sums of every fold.

    Parameters
    ----------
    comparison : Loss
    features : callable, rows (n, d) → (n, r); with a method ``write(X, out)`` blocks are written in
        place
    n_features : r
    reference : any array of the library and device to compute on
    folds : (n_queries,) the fold of each query code, or None for a single fold
    n_folds : number of folds, where these rows may not be in all of them
    keeps_ends : whether the first query may have begun, and the last may go on, in rows that are
        summed elsewhere: see `Spans`
    """

    def __init__(
        self,
        comparison: Loss,
        features: FeatureMap,
        n_features: int,
        reference: Array,
        folds: Index | None = None,
        *,
        n_folds: int | None = None,
        keeps_ends: bool = False,
    ) -> None:
        self.comparison = comparison
        self.features = features
        self.folds = folds
        self.reference = reference
        if n_folds is None:
            n_folds = 1 if folds is None else int(folds.max()) + 1
        self._width = n_features + N_TARGETS
        self._sums = [
            Gram(zeros_beside((self._width, self._width), reference)) for _ in range(n_folds)
        ]
        self._parts: list[Moments | None] = [None] * n_folds
        self._block_rows = max(
            MIN_BLOCK_ROWS, block_entries(reference, GRAM_ENTRIES) // self._width
        )
        self._workspace = threading.local()
        self._open: Moments | None = None
        self._open_query = self._last_query = -1
        self._keeps_ends = keeps_ends
        self._head: End | None = None

    def add(self, X: Array, scores: Array, queries: Index, weights: Array | None) -> None:
        """Add rows whose queries lie together; the last of them may go on in a later chunk."""
        self._work(self._plan(queries), X, scores, queries, weights)

    def add_items(self, X: Array, scores: Array, weights: Array | None, folds: Index) -> None:
        """Add rows of the one query without a name, whose folds are (n,)."""
        jobs = [
            _Job("item", int(fold), rows)
            for fold in np.unique(folds)
            for rows in self._pieces(np.flatnonzero(folds == fold))
        ]
        self._work(jobs, X, scores, folds, weights)

    def result(self) -> Statistics:
        """The sums so far, with the open query taken as complete."""
        self._finish(self._close(), None)
        self._open_query = -1
        # later rows must not change them
        sums = tuple(replace(gram, matrix=gram.matrix * 1.0) for gram in self._sums)
        return Statistics(self.comparison, sums, tuple(self._parts))

    def ends(self) -> tuple[Statistics, End | None, End | None]:
        """The sums between the ends, and the queries at both ends; only a head where all rows are
        one query.
        """
        tail = None
        if self._open is not None:
            tail = End(self._open_query, self._fold(self._open_query), self._open)
        between = Statistics(self.comparison, tuple(self._sums), tuple(self._parts))
        return (between, tail, None) if self._head is None else (between, self._head, tail)

    # ---- plan

    def _fold(self, query: int) -> int:
        return 0 if self.folds is None or query < 0 else int(self.folds[query])

    def _close(self) -> _Job:
        return _Job("close", self._fold(self._open_query), query=self._open_query)

    def _plan(self, queries: Index) -> Iterator[_Job]:
        """The blocks of a chunk, in order."""
        n = len(queries)
        if n == 0 or not self.comparison.needs_queries:
            yield from self._plan_whole(queries, 0, n)
            return
        starts = run_starts(queries)
        first = self._keeps_ends and self._last_query < 0
        # a query would count as several
        if queries[0] < self._last_query or not is_rising(queries):
            raise ValueError("the rows of a query must lie together, and query codes must rise.")
        self._last_query = int(queries[-1])
        begin, end = 0, int(starts[-1])
        if first:
            self._open_query = int(queries[0])
        if queries[0] == self._open_query:  # the open query goes on
            begin = int(starts[1]) if len(starts) > 1 else n
            yield from self._plan_open(queries[0], 0, begin)
        if begin < n:
            yield self._close()
            yield from self._plan_whole(queries, begin, end)
            yield from self._plan_open(queries[-1], end, n)
            self._open_query = int(queries[-1])

    def _plan_open(self, query: int, begin: int, end: int) -> Iterator[_Job]:
        yield from (
            _Job("part", self._fold(query), rows) for rows in self._pieces(slice(begin, end))
        )

    def _plan_whole(self, queries: Index, begin: int, end: int) -> Iterator[_Job]:
        """Whole queries: their rows brought together fold by fold, then cut into blocks that cut no
        query.
        """
        if begin == end:
            return
        if self.folds is None:
            yield from self._cut(queries, 0, slice(begin, end))
            return
        folds = self.folds[queries[begin:end]]
        order = np.argsort(folds, kind="stable")
        bounds = np.searchsorted(folds[order], np.arange(len(self._sums) + 1))
        for fold, (low, high) in enumerate(pairwise(bounds)):
            if low < high:
                yield from self._cut(queries, fold, begin + order[low:high])

    def _cut(self, queries: Index, fold: int, rows: Any) -> Iterator[_Job]:
        """Rows of whole queries, a slice or numbers, cut into blocks between queries."""
        if not self.comparison.needs_queries:
            yield from (_Job("whole", fold, block) for block in self._pieces(rows))
            return
        codes = queries[rows]
        ends = np.append(run_starts(codes)[1:], len(codes))
        begin = 0
        while begin < len(codes):
            position = int(np.searchsorted(ends, begin + self._block_rows, side="right")) - 1
            if position >= 0 and ends[position] > begin:
                end = int(ends[position])
                yield _Job("whole", fold, _part_of(rows, begin, end))
            else:  # one query larger than a block
                end = int(ends[position + 1])
                yield from (
                    _Job("part", fold, block) for block in self._pieces(_part_of(rows, begin, end))
                )
                yield _Job("close", fold)
            begin = end

    def _pieces(self, rows: Any) -> Iterator[Any]:
        """A slice or row numbers, cut into blocks."""
        n = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        return (_part_of(rows, run.start, run.stop) for run in runs_of_rows(n, self._block_rows))

    # ---- work

    def _work(
        self, jobs: Iterable[_Job], X: Array, scores: Array, queries: Index, weights: Array | None
    ) -> None:
        def step(job: _Job) -> tuple[_Job, Gram | Moments | None]:
            if job.kind == "close":
                return job, None
            z = self._augmented(take(X, job.rows), take(scores, job.rows))
            row_weights = take(weights, job.rows)
            if job.kind == "whole":
                return job, self._whole_queries(z, queries[job.rows], row_weights)
            return job, Moments.of(z, row_weights)

        if not isinstance(self.reference, np.ndarray):
            for job in jobs:
                for smaller, result in self._attempted(step, job, queries):
                    self._finish(smaller, result)
            return
        for job, result in in_order(step, jobs, self.reference):
            self._finish(job, result)

    def _attempted(
        self, step: Step, job: _Job, queries: Index
    ) -> Iterator[tuple[_Job, Gram | Moments | None]]:
        """The results of a block on a device, cut into smaller ones where there is no room for it."""
        try:
            yield step(job)
            return
        except Exception as error:
            if type(error).__name__ != "OutOfMemoryError":
                raise
            size = len(queries[job.rows])
            if size <= MIN_DEVICE_ROWS:
                raise MemoryError(
                    f"the device has no room for blocks of {size} rows and {self._width} features;"
                    " use a smaller basis, or free memory on it."
                ) from error
        self._workspace = threading.local()
        forget(self.reference)
        self._block_rows = max(MIN_DEVICE_ROWS, min(self._block_rows, size) // 4)
        smaller: Iterator[_Job]
        if job.kind == "whole":
            smaller = self._cut(queries, job.fold, job.rows)
        else:
            smaller = (replace(job, rows=rows) for rows in self._pieces(job.rows))
        for smaller_job in smaller:
            yield from self._attempted(step, smaller_job, queries)

    def _finish(self, job: _Job, result: Gram | Moments | None) -> None:
        """Add the result of a block, in the order of the blocks."""
        if isinstance(result, Gram):
            self._sums[job.fold] += result
        elif result is None:
            if self._open is not None and self._keeps_ends and self._head is None:
                self._head = End(job.query, job.fold, self._open)
            elif self._open is not None:
                self._sums[job.fold] += self._open.gram(self.comparison)
            self._open = None
        elif job.kind == "item":
            self._parts[job.fold] = result.merge(self._parts[job.fold])
        else:
            self._open = result.merge(self._open)

    def _augmented(self, X: Array, scores: Array) -> Array:
        """(Φ(x), score, 1) for every row, in a buffer of this thread where the library is NumPy."""
        xp = namespace(scores)
        n, write = scores.shape[0], getattr(self.features, "write", None)
        if not writable(scores):
            return xp.concat(
                [self.features(X), scores[:, None], xp.ones_like(scores)[:, None]], axis=1
            )
        buffer = getattr(self._workspace, "buffer", None)
        if buffer is None or len(buffer) < n:
            buffer_rows = max(n, min(self._block_rows, 2 * n))
            buffer = self._workspace.buffer = empty_like((buffer_rows, self._width), scores)
        z: Array = buffer[:n]
        if write is None:
            z[:, :-N_TARGETS] = self.features(X)
        else:
            # small pieces stay in the cache
            step = WRITE_ROWS if isinstance(scores, np.ndarray) else n
            for begin in range(0, n, step):
                rows = slice(begin, begin + step)
                write(X[rows], z[rows, :-N_TARGETS])
        z[:, -2] = scores
        z[:, -1] = 1.0
        return z

    def _whole_queries(self, z: Array, queries: Index, weights: Array | None) -> Gram:
        """Σ over whole queries of within·scatter + between·weight·mean meanᵀ. May overwrite z."""
        xp = namespace(z)
        n = z.shape[0]
        if not self.comparison.needs_queries:
            z = z if weights is None else xp.sqrt(weights)[:, None] * z
            return Gram(gram_of(z), float(n) if weights is None else float(xp.sum(weights)), n)
        starts = run_starts(queries)
        lengths = np.diff(np.append(starts, n))
        z, totals, means = centre_runs(z, starts, weights)
        between, within = self.comparison.scales(totals, like(lengths, z))
        if weights is not None or not xp.all(within == 1):
            factors = take(within, np.repeat(np.arange(len(starts)), lengths))
            factors = factors if weights is None else weights * factors
            z = xp.sqrt(factors)[:, None] * z
        matrix = gram_of(z)
        free = n - int(xp.count_nonzero(between == 0))
        if free == n:
            scaled = xp.sqrt(between * totals)[:, None] * means
            matrix = matrix + scaled.T @ scaled
        return Gram(matrix, float(xp.sum(totals)), free)


def _part_of(rows: Any, begin: int, end: int) -> Any:
    """Some of the rows of a slice, or of row numbers."""
    return (
        slice(rows.start + begin, rows.start + end) if isinstance(rows, slice) else rows[begin:end]
    )


def gather(
    X: Array,
    scores: Array,
    queries: Index | None,
    weights: Array | None,
    comparison: Loss,
    features: FeatureMap,
    n_features: int,
    folds: Index | None = None,
    chunk_rows: int | None = None,
) -> Statistics:
    """One pass over rows in memory, in any order: (n, d) features, (n,) scores, query codes and
    weights.

    `folds` has one entry per query code, or one per row where `queries` is None (one query without
    a name). O(n r (r + d)) for r features; memory for a few blocks and one (r + 2)² matrix per
    fold.
    """
    n = X.shape[0]
    codes = np.arange(n) if queries is None else queries
    accumulator = Accumulator(comparison, features, n_features, scores, folds)
    ordered = not comparison.needs_queries or is_rising(codes)
    order = None if ordered else np.argsort(codes, kind="stable")
    if chunk_rows is None:  # rows in order are not copied, others chunk by chunk
        chunk_rows = max(n, 1) if ordered else CHUNK_ROWS
    for run in runs_of_rows(n, chunk_rows):
        rows: Any = run if order is None else order[run]
        block = take(X, rows), take(scores, rows)
        if queries is None and comparison.needs_queries:  # items of one query
            row_folds = np.zeros(len(codes[run]), dtype=np.int64) if folds is None else folds[run]
            accumulator.add_items(*block, take(weights, rows), row_folds)
        else:
            accumulator.add(*block, codes[rows], take(weights, rows))
    return accumulator.result()


@storable("Spans")
@dataclass(frozen=True)
class Spans:
    """Sums over a stretch of rows.

    between : of whole queries, and of rows of a query without a name
    head, tail : queries at the ends, by their ids; no tail where all rows are one query, neither
        where none are compared
    """

    between: Statistics
    head: End | None = None
    tail: End | None = None

    @classmethod
    def of(cls, sums: Accumulator, ids: NumpyArray) -> Spans:
        """The sums of an accumulator that keeps ends; `ids` (n_codes,) are the ids of its query
        codes.
        """
        between, *ends = sums.ends()
        head, tail = (
            None if end is None else replace(end, query=int(ids[end.query])) for end in ends
        )
        return cls(between, head, tail)

    def merged(self, other: Spans) -> Spans:
        """The sums over these rows and the rows that follow them. O(folds · r²)."""
        between = self.between.merged(other.between)
        if self.head is None or other.head is None:
            return Spans(between, self.head or other.head, self.tail or other.tail)
        left, right = self.tail or self.head, other.head
        inner: list[End] = []  # queries that are no longer at an end
        if left.query == right.query:
            joined = replace(left, moments=right.moments.merge(left.moments))
            head = joined if self.tail is None else self.head
            tail = joined if other.tail is None else other.tail
            if self.tail is None and other.tail is None:
                return Spans(between, joined)
            if self.tail is not None and other.tail is not None:
                inner = [joined]
        else:
            head, tail = self.head, other.tail or right
            ended = (self.tail, right if other.tail else None)
            inner = [end for end in ended if end]
        for end in inner:
            between = _with_query(between, end)
        return Spans(between, head, tail)

    def closed(self) -> Statistics:
        """The sums, with all queries taken as complete."""
        result = self.between
        for end in (self.head, self.tail):
            result = result if end is None else _with_query(result, end)
        return result

    def beside(self, reference: Array) -> Spans:
        """The sums in the library and on the device of a reference."""

        def placed(values: Array) -> Array:
            return like(values, reference)

        ends = (
            end and replace(end, moments=end.moments.transformed(placed, placed))
            for end in (self.head, self.tail)
        )
        return Spans(self.between.transformed(placed, placed), *ends)


def _with_query(between: Statistics, end: End) -> Statistics:
    grams = list(between.queries)
    grams[end.fold] = grams[end.fold] + end.moments.gram(between.comparison)
    return replace(between, queries=tuple(grams))
