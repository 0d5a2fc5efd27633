"""Query labels of any kind → codes 0, 1, … in order of first appearance; and the pairs of rows of a
query that scores put in the wrong order, counted in O(n log n).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    Mask,
    NumpyArray,
    first_appearance,
    is_foreign,
    namespace,
    refuse_masked,
    take,
    to_numpy,
)

Ties: TypeAlias = Literal["skip", "half"]

BATCH_ROWS = 2**16  # padded rows handled at once: small enough to stay in the cache


def query_codes(queries: Array | None, n: int) -> Index:
    """Codes of the queries of n rows in NumPy: (n,), all 0 where there are no queries."""
    return np.zeros(n, dtype=np.int64) if queries is None else to_numpy(queries)


def encode_queries(qid: Any, n_rows: int, name: str = "qid") -> tuple[Array, int]:
    """Number query labels (any hashable, any order) in order of first appearance: codes (n,) int64,
    count.

    Labels in an array of another library are numbered on its device. O(n) for hashables, O(n log n)
    for numbers.
    """
    if is_foreign(qid):
        if qid.ndim != 1:
            raise ValueError(f"{name} must have one label per row, got shape {tuple(qid.shape)}.")
        xp = namespace(qid)
        if xp.isdtype(qid.dtype, "real floating") and xp.any(xp.isnan(qid)):
            raise ValueError(f"{name} has missing labels; give every row a query label or drop it.")
        labels: Any = qid
    else:
        labels = as_labels(qid, name)
    if labels.shape[0] != n_rows:
        rows = "unscored" if name == "unscored_qid" else "X"
        raise ValueError(
            f"{name} has {labels.shape[0]} labels but {rows} has {n_rows} rows; one label per row"
            " is needed."
        )
    if not is_foreign(labels) and labels.dtype == object:
        return _encode_hashables(labels, name)
    return first_appearance(labels)


def as_labels(qid: Any, name: str) -> NumpyArray:
    """Labels (n,), one per row: an object array where NumPy has no type for them. Missing labels
    are refused.
    """
    refuse_masked(qid, name, "give every row a query label or drop it")
    if isinstance(qid, Sequence) and any(isinstance(label, tuple) for label in qid):
        labels = np.empty(len(qid), dtype=object)
        labels[:] = qid
        return labels
    if np.isscalar(qid) or qid is None:
        raise ValueError(f"{name} must be one label per row, got {qid!r}.")
    try:
        labels = np.asarray(qid.to_numpy() if hasattr(qid, "to_numpy") else qid)
    except ValueError as error:
        raise ValueError(
            f"{name} must have one label per row, and lists cannot be labels: {error}"
        ) from error
    is_text = isinstance(qid, list | tuple) and labels.dtype.kind in "US"
    if is_text and not all(isinstance(label, str | bytes) for label in qid):
        labels = np.array(qid, dtype=object)  # NumPy would turn numbers and None into text
    if labels.ndim != 1:
        raise ValueError(
            f"{name} must have one label per row (one dimension), got shape {labels.shape}."
        )
    if labels.dtype.kind in "fmM" and (missing := np.isnan(labels)).any():
        row = int(np.argmax(missing))
        raise ValueError(
            f"{name} has a missing label in row {row}; give every row a query label or drop it."
        )
    return labels


def _encode_hashables(labels: NumpyArray, name: str) -> tuple[Array, int]:
    numbers: dict[Any, int] = {}
    codes = np.empty(len(labels), dtype=np.int64)
    for row, label in enumerate(labels):
        if label is None or type(label).__name__ in ("NAType", "NaTType") or label != label:  # noqa: PLR0124
            raise ValueError(
                f"{name} has a missing label in row {row}; give every row a query label or drop it."
            )
        try:
            codes[row] = numbers.setdefault(label, len(numbers))
        except TypeError as error:
            raise ValueError(
                f"{name} has a label in row {row} that cannot be hashed: {label!r}."
            ) from error
    return codes, len(numbers)


# ---------------------------------------------------------------- pairs in the wrong order


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
    return np.asarray(np.maximum.accumulate(np.where(starts, before, 0), axis=1))


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
