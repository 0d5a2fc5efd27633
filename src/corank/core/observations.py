"""Rows under a loss, ready for either form: the dual system or the one-pass sums.

`ScoredRows` have scores, `ComparedRows` explicit comparisons. A *unit* is what a fold takes out: a
scored row, or one comparison. Units of one group (query) go together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from scipy import sparse

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    dtype_name,
    first_appearance,
    is_sparse,
    like,
    namespace,
    take,
    to_numpy,
)
from corank.core.loss import Loss, PairLoss, Pointwise, QueryLoss
from corank.core.messages import warn_user
from corank.core.queries import RowsByQuery, encode_queries, misordered_shares, query_codes
from corank.core.storable import storable
from corank.core.stored_fields import any_floats, are_below, feature_rows, floats, whole
from corank.core.sums import FeatureMap, Statistics, gather
from corank.core.views import SideBySide

Question: TypeAlias = Literal["score", "comparison"]  # that an observation answers

# differences of predictions below that share of the spread of the scores are rounding: a tie
TIE = 1e-9
MARGIN_TIE = 1e-10  # predicted differences below that share of the largest are rounding: a tie
MAX_ITEM_FEATURES = 2**24  # of compared items that are held at once: 128 MB
TIED = (
    "y: all scores are tied within every query, so there is nothing to rank; the model is constant."
)


# differences of scores below that share of the scores themselves drown in rounding
LOST_SHARE = 1e-12


@storable("Rows")
@dataclass(frozen=True)
class Rows:
    """Checked rows, all on one device.

    Attributes
    ----------
    features : (n, d) float32 or float64 array, or CSR
    scores : (n,) float64, or None
    queries : (n,) int64 codes 0 … n_queries-1, or None for one query without a name
    weights : (n,) float64 > 0, or None for ones
    index : (n,) int64, the row numbers in the user's X
    """

    features: Annotated[Array, feature_rows("n", "d")]
    scores: Annotated[Array | None, any_floats("n")]
    queries: Annotated[Array | None, whole("n") | None]
    n_queries: int
    weights: Annotated[Array | None, floats("n") | None]
    index: Annotated[Array, whole("n")]

    def is_sound(self) -> bool:
        """Whether a model can have kept such rows."""
        scores = np.asarray(self.scores)
        if not 1 <= self.n_queries <= max(len(scores), 1) or np.isinf(scores).any():
            return False
        weighted = self.weights is None or bool((self.weights > 0).all())
        return weighted and are_below(self.queries, self.n_queries)

    @classmethod
    def of(cls, features: Array, scores: Array | None, qid: Any, weights: Array | None) -> Rows:
        """All rows of X with checked features, scores and weights; query labels are checked and
        numbered here.
        """
        n = features.shape[0]
        queries, n_queries = (None, 1) if qid is None else encode_queries(qid, n)
        codes = None if queries is None else like(queries, features, "int64")
        return cls(
            features, scores, codes, n_queries, weights, like(np.arange(n), features, "int64")
        )

    def __len__(self) -> int:
        return int(self.features.shape[0])

    def take(self, rows: Array) -> Rows:
        """The given rows, queries numbered again from 0."""
        taken = replace(
            self,
            features=take(self.features, rows),
            scores=take(self.scores, rows),
            weights=take(self.weights, rows),
            index=take(self.index, rows),
        )
        if self.queries is None:
            return taken
        queries, n_queries = first_appearance(take(self.queries, rows))
        return replace(taken, queries=queries, n_queries=n_queries)

    def beside(self, reference: Array) -> Rows:
        """The rows in the library and on the device of a reference; CSR stays CSR."""
        moved: dict[str, Any] = {}
        for name in ("features", "scores", "queries", "weights", "index"):
            array = getattr(self, name)
            if array is not None and not is_sparse(array):
                moved[name] = like(array, reference, dtype_name(array))
        return replace(self, **moved)

    def lowered(self, level: float) -> Rows:
        """The rows with a level subtracted from the scores, so that sums of them lose nothing to
        rounding.
        """
        return (
            self if level == 0 or self.scores is None else replace(self, scores=self.scores - level)
        )

    def extended(self, other: Rows, first_index: int) -> Rows:
        """These rows and others after them; the others keep queries of their own, and are numbered
        from `first_index`.
        """
        xp = namespace(self.index)
        if is_sparse(self.features):
            features = sparse.vstack(
                [self.features, sparse.csr_array(other.features)], format="csr"
            )
        else:
            added = other.features.toarray() if is_sparse(other.features) else other.features
            features = xp.concat(
                [self.features, like(added, self.features, dtype_name(self.features))]
            )
        weights = None
        if self.weights is not None or other.weights is not None:
            weights = xp.concat(
                [
                    like(np.ones(len(rows)) if rows.weights is None else rows.weights, self.index)
                    for rows in (self, other)
                ]
            )
        queries = None
        if self.queries is not None:
            shifted = query_codes(other.queries, len(other))
            queries = xp.concat([self.queries, like(shifted + self.n_queries, self.index, "int64")])
        assert self.scores is not None
        return Rows(
            features=features,
            scores=xp.concat([self.scores, like(other.scores, self.scores)]),
            queries=queries,
            n_queries=1 if queries is None else self.n_queries + other.n_queries,
            weights=weights,
            index=xp.concat(
                [self.index, like(to_numpy(other.index) + first_index, self.index, "int64")]
            ),
        )


@dataclass(frozen=True)
class ScoredRows:
    """Rows with scores, compared within their queries or one by one. `level` was subtracted from
    the scores.
    """

    rows: Rows
    comparison: Loss
    level: float = 0.0

    @property
    def features(self) -> Array:
        """(n, d)."""
        return self.rows.features

    @cached_property
    def operator(self) -> QueryLoss:
        """The loss on these rows."""
        rows = self.rows
        return QueryLoss(
            self.comparison, rows.queries, rows.n_queries, rows.weights, self.reference, len(rows)
        )

    @cached_property
    def groups(self) -> Index | None:
        """The queries; every row for itself where queries play no part and none were given."""
        if self._codes is None and not self.comparison.needs_queries:
            return np.arange(len(self.rows))
        return self._codes

    @cached_property
    def _codes(self) -> Index | None:
        """The codes of the queries, None where none were given."""
        return None if self.rows.queries is None else to_numpy(self.rows.queries)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return self.rows.n_queries

    @property
    def labels(self) -> tuple[Array, Index | None]:
        """The scores and the queries."""
        return self.reference + self.level, self._codes

    @cached_property
    def targets(self) -> Array:
        """J s and J 1."""
        xp = namespace(self.reference)
        return self.operator.root(xp.stack([self.reference, xp.ones_like(self.reference)], axis=1))

    @property
    def mean_score(self) -> float:
        """The weighted mean of the scores."""
        xp = namespace(self.reference)
        weights = xp.ones_like(self.reference) if self.rows.weights is None else self.rows.weights
        return float(xp.sum(weights * self.reference) / xp.sum(weights))

    @property
    def reference(self) -> Array:
        """The scores, an array of the library and device to compute on."""
        assert self.rows.scores is not None
        return self.rows.scores

    @property
    def is_tied(self) -> bool:
        """Whether rows are compared, but no two rows of a query have different scores."""
        if not self.comparison.needs_queries:
            return False
        return not np.any(spreads(to_numpy(self.reference), to_numpy(self.operator.queries)))

    def take(self, units: Index) -> ScoredRows:
        """The problem with the given rows only."""
        return replace(self, rows=self.rows.take(like(units, self.reference, "int64")))

    def statistics(self, features: FeatureMap, size: int, folds: Index | None) -> Statistics:
        """The sums of one pass over the rows, O(n r (r + d))."""
        rows, codes = self.rows, self._codes
        if folds is not None and codes is not None:
            per_query = np.zeros(rows.n_queries, dtype=np.int64)
            per_query[codes] = folds
            folds = per_query
        return gather(
            rows.features,
            self.reference,
            codes,
            rows.weights,
            self.comparison,
            features,
            size,
            folds,
        )

    def freedom(self, units: Index | None = None) -> int:
        """The rank of the loss on rows that are whole queries, None for all: one less per mean that
        costs nothing.
        """
        units = np.arange(len(self.rows)) if units is None else units
        queries = np.unique(to_numpy(self.operator.queries)[units])
        free_means = to_numpy(self.operator.between)[queries] == 0
        return len(units) - int(free_means.sum())

    def unit_features(self, features: FeatureMap, units: Index) -> Array:
        """Φ of the given rows: (len(units), r)."""
        return features(take(self.rows.features, units))

    def residuals(self, predictions: Array) -> Array:
        """J (s − predictions)."""
        return self.operator.root(self.reference[:, None] - predictions)

    def predictions(self, residuals: Array) -> Array:
        """The scores less the residuals, up to one level per query where its mean costs nothing."""
        return self.reference[:, None] - self.operator.unroot(residuals)

    def predictions_of_items(self, residuals: Array) -> Array:
        """The scores less residuals that were multiplied by √w only."""
        return self.reference[:, None] - residuals / self.operator.root_weights[:, None]

    def per_unit(self, rows: Array) -> Array:
        """Values of the rows (n, c) as values of units: they are the same."""
        return rows

    def unit_root(self, x: Array) -> Array:
        """J x."""
        return self.operator.root(x)

    def unit_root_transposed(self, z: Array) -> Array:
        """Jᵀ z."""
        return self.operator.root_transposed(z)

    def misordered(self, predictions: Array) -> FloatArray:
        """Share of wrongly ordered pairs per query: (n_queries, k), NaN where undefined. Without
        queries, all rows are one.
        """
        weights = None if self.rows.weights is None else to_numpy(self.rows.weights)
        scores, column_of_scores = to_numpy(self.reference), self.reference[:, None]
        levels = column_of_scores - self.operator.unroot(self.operator.root(column_of_scores))
        gaps = to_numpy(predictions - levels)
        step = TIE * (float(np.ptp(to_numpy(column_of_scores - levels))) or 1.0)
        codes, n_queries = (np.zeros(len(scores), dtype=np.int64), 1)
        if self._codes is not None:
            codes, n_queries = first_appearance(self._codes)
        errors = [
            misordered_shares(RowsByQuery.of(scores, column, weights, codes, n_queries), "skip")
            for column in np.round(gaps.T / step)
        ]
        return np.stack(errors, axis=1)

    def with_features(self, features: Array) -> ScoredRows:
        """The rows with other features."""
        if features is self.rows.features:
            return self
        return replace(self, rows=replace(self.rows, features=features))

    def regrouped(self, codes: Index) -> ScoredRows:
        """The problem with other queries, by their codes (n,)."""
        queries = like(codes, self.reference, "int64")
        return replace(
            self, rows=replace(self.rows, queries=queries, n_queries=int(codes.max()) + 1)
        )


@storable("ComparedRows")
@dataclass(frozen=True)
class ComparedRows:
    """Rows with explicit comparisons between them.

    features : (n, d); winners, losers : (p,) int64 rows of it; margins, weights : (p,) float64
    groups : (p,) int64 codes of comparisons that are held out together; named : whether they are
        the user's queries
    """

    features: Annotated[Array, feature_rows("i", "d")]
    winners: Annotated[Index, whole("c", below="i")]
    losers: Annotated[Index, whole("c", below="i")]
    margins: Annotated[FloatArray, floats("c")]
    weights: Annotated[FloatArray, floats("c")]
    groups: Annotated[Index, whole("c", below="c")]
    named: bool = False

    @property
    def n_queries(self) -> int:
        """Number of queries, 1 where none were named."""
        return int(self.groups.max()) + 1 if self.named else 1

    @property
    def labels(self) -> tuple[Array, Index | None]:
        """The margins and, where they were given, the queries."""
        return self.margins, self.groups if self.named else None

    @cached_property
    def reference(self) -> Array:
        """An empty array beside the features."""
        features = (
            self.features.parts[0][0] if isinstance(self.features, SideBySide) else self.features
        )
        return np.empty(0) if is_sparse(features) else namespace(features).asarray(features)[:0, :0]

    @cached_property
    def operator(self) -> PairLoss:
        """The comparisons as an operator on the rows."""
        return PairLoss(
            winners=like(self.winners, self.reference, "int64"),
            losers=like(self.losers, self.reference, "int64"),
            margins=like(self.margins, self.reference),
            weights=like(self.weights, self.reference),
            n_rows=self.features.shape[0],
        )

    @cached_property
    def targets(self) -> Array:
        """J s = w^½ margin, and J 1 = 0, as a constant cancels in every comparison."""
        xp = namespace(self.reference)
        margins = self.operator.targets()
        return xp.concat([margins, xp.zeros_like(margins)], axis=1)

    @property
    def mean_score(self) -> float:
        """0: comparisons have no level."""
        return 0.0

    def take(self, units: Index) -> ComparedRows:
        """The problem with the given comparisons only, on all rows."""
        groups, _ = first_appearance(self.groups[units])
        return replace(
            self,
            winners=self.winners[units],
            losers=self.losers[units],
            margins=self.margins[units],
            weights=self.weights[units],
            groups=groups,
        )

    def statistics(self, features: FeatureMap, size: int, folds: Index | None) -> Statistics:
        """The sums over comparisons: rows Φ(winner) − Φ(loser) with the margins as scores.

        An item's features are made once where those of all items fit into memory, else in every
        block that compares it.
        """
        units = np.arange(len(self.winners))
        operator = self.operator
        held = (
            features(self.features) if self.features.shape[0] * size <= MAX_ITEM_FEATURES else None
        )

        def differences(block: Index) -> Array:
            if held is None:
                return self.unit_features(features, block)
            return take(held, self.winners[block]) - take(held, self.losers[block])

        return gather(
            units, operator.margins, None, operator.weights, Pointwise(), differences, size, folds
        )

    def with_features(self, features: Array) -> ComparedRows:
        """The comparisons of rows with other features."""
        return replace(self, features=features)

    def freedom(self, units: Index | None = None) -> int:
        """The rank of the loss: the number of comparisons, of all where `units` is None."""
        return len(self.winners if units is None else units)

    def unit_features(self, features: FeatureMap, units: Index) -> Array:
        """Φ(winner) − Φ(loser) of the given comparisons: (len(units), r)."""
        winners, losers = self.winners[units], self.losers[units]
        items, places = np.unique(np.concatenate([winners, losers]), return_inverse=True)
        values = features(take(self.features, items))
        return take(values, places[: len(winners)]) - take(values, places[len(winners) :])

    def residuals(self, predictions: Array) -> Array:
        """w^½ (margin − predicted difference)."""
        return self.unit_root(self.operator.margins[:, None] - predictions)

    def predictions(self, residuals: Array) -> Array:
        """The margins less the residuals."""
        operator = self.operator
        return (
            operator.margins[:, None]
            - residuals / namespace(residuals).sqrt(operator.weights)[:, None]
        )

    def per_unit(self, rows: Array) -> Array:
        """Winner less loser, (p, c), of values of the rows (n, c)."""
        return take(rows, self.winners) - take(rows, self.losers)

    def unit_root(self, x: Array) -> Array:
        """w^½ x."""
        return namespace(x).sqrt(self.operator.weights)[:, None] * x

    def unit_root_transposed(self, z: Array) -> Array:
        """w^½ z."""
        return self.unit_root(z)

    def misordered(self, predictions: Array) -> FloatArray:
        """1 per comparison that is ordered wrongly, 0.5 per tie, else 0: (p, k), NaN where the
        margin is 0.
        """
        gaps = to_numpy(predictions)
        tied = np.abs(gaps) <= MARGIN_TIE * np.max(np.abs(gaps), axis=0, initial=0.0)
        wrong = np.where(tied, 0.5, np.where(gaps < 0, 1.0, 0.0))
        return np.where(self.margins[:, None] > 0, wrong, np.nan)


Problem: TypeAlias = ScoredRows | ComparedRows


def warn_of_ties(*problems: ScoredRows) -> None:
    """Say so where no scores can be told apart in any problem; refuse differences that are lost in
    rounding.
    """
    if all(problem.is_tied for problem in problems):
        warn_user(TIED)
    for problem in problems:
        if problem.comparison.needs_queries and problem.rows.queries is not None:
            refuse_lost_differences(problem.reference, problem.rows.queries)


def refuse_lost_differences(scores: Array, queries: Array | None) -> None:
    """Refuse scores (n,) that differ, within queries where these are given, by next to nothing
    beside their size.
    """
    values = to_numpy(scores)
    if len(values) == 0:
        return
    codes = query_codes(queries, len(values))
    largest = float(np.max(np.abs(values)))
    difference = float(np.max(spreads(values, codes)))
    if 0 < difference < LOST_SHARE * largest:
        raise ValueError(
            f"y: scores of size {largest:.3g} differ by at most"
            f" {difference:.3g}{'' if queries is None else ' within a query'}, which is lost in"
            f" rounding; subtract the level{'' if queries is None else ' of each query'} from the"
            " scores, or round them if those are ties."
        )


def spreads(values: FloatArray, codes: Index) -> FloatArray:
    """The largest less the smallest of the values (n,) of every query, by its code (n,):
    (n_queries,); 0 without values.
    """
    largest = np.full(int(codes.max()) + 1, -np.inf)
    smallest = np.full(len(largest), np.inf)
    np.maximum.at(largest, codes, values)
    np.minimum.at(smallest, codes, values)
    return np.where(largest > smallest, largest - smallest, 0.0)
