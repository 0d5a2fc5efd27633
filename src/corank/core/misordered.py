"""Pairs of rows that scores put in the wrong order, counted query by query in O(n log n)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corank.core.arrays import FloatArray, Index, Mask, NumpyArray, take

Ties: TypeAlias = Literal["skip", "half"]

BATCH_ROWS = 2**16  # padded rows handled at once: small enough to stay in the cache


class RowsByQuery(NamedTuple):
    """The rows that count, grouped by query: those of query q stand at ``starts[q] : starts[q] +
    sizes[q]``.
    """

    y: NumpyArray
    score: NumpyArray
    weight: NumpyArray | None
    starts: Index
    sizes: Index

    @classmethod
    def of(
        cls,
        y: NumpyArray,
        score: NumpyArray,
        weight: NumpyArray | None,
        codes: Index,
        n_queries: int,
    ) -> RowsByQuery:
        """Rows (n,) that all count, with the codes of their queries (n,)."""
        rows = np.argsort(codes, kind="stable")
        sizes = np.bincount(codes, minlength=n_queries)
        return cls(y[rows], score[rows], take(weight, rows), np.cumsum(sizes) - sizes, sizes)

    @property
    def n_queries(self) -> int:
        """Number of queries, those without a row included."""
        return len(self.sizes)


def misordered_shares(table: RowsByQuery, ties: Ties) -> FloatArray:
    """The share of the pairs of every query in the wrong order: (n_queries,), NaN where none are
    compared.

    ties : "skip" compares the pairs with different y, "half" all pairs; see
        `corank.metrics.disagreement_error`
    """
    errors = np.full(table.n_queries, np.nan)
    for queries, y, score, weight in _equal_width_batches(table):
        pairs = _weigh_pairs(y, score, weight)
        twice_the_cost = 2 * pairs.inverted + pairs.tied_in_score_only
        compared = pairs.different_y
        if ties == "half":
            twice_the_cost += pairs.tied_in_y_only
            compared = pairs.all
        defined = compared > 0
        errors[queries[defined]] = twice_the_cost[defined] / (2 * compared[defined])
    return errors


def _equal_width_batches(
    table: RowsByQuery,
) -> Iterator[tuple[Index, NumpyArray, NumpyArray, NumpyArray]]:
    """Yield (queries (b,), y (b, width), score (b, width), weight (b, width)), padded to a width of
    a power of two.

    Padding has weight zero, so that what it holds does not matter. Weights are integers when none
    were given; otherwise those of a query are scaled to at most 1, which changes no ratio and keeps
    products in range.
    """
    levels = np.frexp(np.maximum(table.sizes - 1, 0))[1]  # 2**(level - 1) < size <= 2**level
    for level in np.unique(levels[levels > 0]).tolist():
        width, members = 2**level, np.flatnonzero(levels == level)
        at_once = max(1, BATCH_ROWS // width)
        for first in range(0, len(members), at_once):
            queries = members[first : first + at_once]
            place, size = np.arange(width), table.sizes[queries, np.newaxis]
            rows = table.starts[queries, np.newaxis] + np.minimum(place, size - 1)
            weight = (place < size).astype(np.int64)
            if table.weight is not None:
                given = table.weight[rows]
                weight = weight * (given / given.max(axis=1, keepdims=True))
            yield queries, table.y[rows], table.score[rows], weight


class _Pairs(NamedTuple):
    """Number, or weight, of the unordered pairs of each kind, each of shape (b,)."""

    all: NumpyArray
    different_y: NumpyArray
    tied_in_score_only: NumpyArray
    tied_in_y_only: NumpyArray
    inverted: NumpyArray


def _weigh_pairs(y: NumpyArray, score: NumpyArray, weight: NumpyArray) -> _Pairs:
    """Weigh the pairs within each row of three (b, width) arrays; O(b width log width).

    A pair is met at its later member j, as w_j times the weight that stands before: sums of
    positive terms within one query, so that light rows keep their precision beside heavy ones.
    """
    by_score = np.lexsort((y, score), axis=-1)
    y, score, weight = (np.take_along_axis(a, by_score, axis=1) for a in (y, score, weight))
    before = _weight_before(weight)
    new_score = _starts_run(score)
    before_cell = _at_run_start(before, new_score | _starts_run(y))
    tied_in_score_only = np.vecdot(weight, before_cell - _at_run_start(before, new_score))

    # Stable, hence ordered by (y, score): pairs tied in either column stand in the same order both
    # times.
    by_y = np.argsort(y, axis=1, kind="stable")
    y, score, weight = (np.take_along_axis(a, by_y, axis=1) for a in (y, score, weight))
    before = _weight_before(weight)
    new_y = _starts_run(y)
    before_y = _at_run_start(before, new_y)
    before_cell = _at_run_start(before, new_y | _starts_run(score))
    return _Pairs(
        all=np.vecdot(weight, before),
        different_y=np.vecdot(weight, before_y),
        tied_in_score_only=tied_in_score_only,
        tied_in_y_only=np.vecdot(weight, before_cell - before_y),
        inverted=_weigh_inversions(by_y, weight),
    )


def _weight_before(weight: NumpyArray) -> NumpyArray:
    before = np.zeros_like(weight)
    np.cumsum(weight[:, :-1], axis=1, out=before[:, 1:])
    return before


def _starts_run(a: NumpyArray) -> Mask:
    starts = np.ones(a.shape, dtype=np.bool_)
    np.not_equal(a[:, 1:], a[:, :-1], out=starts[:, 1:])
    return starts


def _at_run_start(before: NumpyArray, starts: Mask) -> NumpyArray:
    # `before` never falls, so the last start seen holds the largest value.
    at_start: NumpyArray = np.maximum.accumulate(np.where(starts, before, 0), axis=1)
    return at_start


def _weigh_inversions(ranks: NDArray[np.intp], weight: NumpyArray) -> NumpyArray:
    """Weigh the pairs that stand in falling order, in each row of (b, width) permutations of
    range(width).

    Top-down radix sort: of a block of ranks, those of the lower half move, in order, before those
    of the upper half; the pairs that swap are the inversions between the halves. Then each half is
    a block.
    """
    n_queries, width = ranks.shape
    total = np.zeros(n_queries, dtype=weight.dtype)
    while width > 1:
        half = width // 2
        ranks, weight = ranks.reshape(-1, width), weight.reshape(-1, width)
        upper = (ranks & half) != 0
        lower = ~upper
        upper_before = np.cumsum(np.where(upper, weight, 0), axis=1)[lower]
        lower_weight = weight[lower]
        total += np.vecdot(lower_weight.reshape(n_queries, -1), upper_before.reshape(n_queries, -1))
        ranks = np.stack((ranks[lower].reshape(-1, half), ranks[upper].reshape(-1, half)), axis=1)
        weight = np.stack((lower_weight.reshape(-1, half), weight[upper].reshape(-1, half)), axis=1)
        width = half
    return total
