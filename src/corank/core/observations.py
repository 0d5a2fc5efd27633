"""Rows and comparisons under a loss, ready for either form: the dual system or the one-pass sums.

`ScoredRows` have scores, `ComparedRows` explicit comparisons. A *unit* is what a fold takes out: a
scored row, or one comparison. Units of one group (query) go together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
    zeros_beside,
)
from corank.core.basis import Basis, FeatureBasis, FeatureMap
from corank.core.loss import GraphLoss, Loss, PairLoss, Pointwise, QueryLoss
from corank.core.messages import warn_user
from corank.core.queries import RowsByQuery, encode_queries, misordered_shares, query_codes
from corank.core.storable import (
    ADDED_LATER,
    any_floats,
    are_below,
    feature_rows,
    floats,
    storable,
    whole,
)
from corank.core.sums import FeatureMap as Features
from corank.core.sums import Statistics, gather
from corank.core.views import JointFeatures, SideBySide

Question: TypeAlias = Literal["score", "comparison"]  # that an observation answers

# differences of predictions below that share of the spread of the scores are rounding: a tie
TIE = 1e-9
MARGIN_TIE = 1e-10  # predicted differences below that share of the largest are rounding: a tie
MAX_ITEM_FEATURES = 2**24  # of compared items that are held at once: 128 MB
TIED = (
    "y: all scores are tied within every query, so there is nothing to rank; the model is constant."
)
EVERY_ROW = Pointwise()  # counts by itself, as long as nothing else is said
# differences of scores below that share of the scores themselves drown in rounding
LOST_SHARE = 1e-12


@storable("Rows")
@dataclass(frozen=True)
class ScoredRows:
    """Checked rows with scores, all on one device, compared within their queries or one by one.

    Attributes
    ----------
    features : (n, d) float32 or float64 array, or CSR
    scores : (n,) float64
    queries : (n,) int64 codes 0 … n_queries-1, or None for one query without a name
    weights : (n,) float64 > 0, or None for ones
    index : (n,) int64, the row numbers in the user's X
    comparison : what their errors cost
    level : was subtracted from the scores
    """

    features: Annotated[Array, feature_rows("n", "d")]
    scores: Annotated[Array, any_floats("n")]
    queries: Annotated[Array | None, whole("n") | None]
    n_queries: int
    weights: Annotated[Array | None, floats("n") | None]
    index: Annotated[Array, whole("n")]
    comparison: Loss = field(default=EVERY_ROW, metadata={ADDED_LATER: True})
    level: float = field(default=0.0, metadata={ADDED_LATER: True})

    def is_sound(self) -> bool:
        """Whether a model can have kept such rows."""
        scores = np.asarray(self.scores)
        if not 1 <= self.n_queries <= max(len(scores), 1) or np.isinf(scores).any():
            return False
        weighted = self.weights is None or bool((self.weights > 0).all())
        return weighted and are_below(self.queries, self.n_queries)

    @classmethod
    def of(cls, features: Array, scores: Array, qid: Any, weights: Array | None) -> ScoredRows:
        """All rows of X with checked features, scores and weights; query labels are checked and
        numbered here.
        """
        n = features.shape[0]
        index = like(np.arange(n), features, "int64")
        if qid is None:
            return cls(features, scores, None, 1, weights, index)
        codes, n_queries = encode_queries(qid, n)
        return cls(features, scores, like(codes, features, "int64"), n_queries, weights, index)

    def __len__(self) -> int:
        return int(self.features.shape[0])

    # ---------------------------------------------------------------- other rows

    def take(self, rows: Array) -> ScoredRows:
        """The given rows, queries numbered again from 0."""
        rows = like(rows, self.index, "int64")
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

    def under(self, comparison: Loss, level: float = 0.0) -> ScoredRows:
        """The rows under a loss, with a level subtracted from the scores, so that sums of them
        lose nothing to rounding.
        """
        scores = self.scores if level == 0 else self.scores - level
        return replace(self, scores=scores, comparison=comparison, level=level)

    def regrouped(self, codes: Index) -> ScoredRows:
        """The rows in other queries, by their codes (n,)."""
        queries = like(codes, self.scores, "int64")
        return replace(self, queries=queries, n_queries=int(codes.max()) + 1)

    def beside(self, reference: Array) -> ScoredRows:
        """The rows in the library and on the device of a reference; CSR stays CSR."""
        moved: dict[str, Any] = {}
        for name in ("features", "scores", "queries", "weights", "index"):
            array = getattr(self, name)
            if array is not None and not is_sparse(array):
                moved[name] = like(array, reference, dtype_name(array))
        return replace(self, **moved)

    def extended(self, other: ScoredRows, first_index: int) -> ScoredRows:
        """These rows and others after them; the others keep queries of their own, and are numbered
        from `first_index`.
        """
        xp = namespace(self.index)
        if is_sparse(self.features):
            added = sparse.csr_array(other.features)
            features = sparse.vstack([self.features, added], format="csr")
        else:
            added = other.features.toarray() if is_sparse(other.features) else other.features
            added = like(added, self.features, dtype_name(self.features))
            features = xp.concat([self.features, added])
        weights = None
        if self.weights is not None or other.weights is not None:
            both = [np.ones(len(r)) if r.weights is None else r.weights for r in (self, other)]
            weights = xp.concat([like(own, self.index) for own in both])
        queries, n_queries = None, 1
        if self.queries is not None:
            shifted = query_codes(other.queries, len(other)) + self.n_queries
            queries = xp.concat([self.queries, like(shifted, self.index, "int64")])
            n_queries = self.n_queries + other.n_queries
        numbers = to_numpy(other.index) + first_index
        return replace(
            self,
            features=features,
            scores=xp.concat([self.scores, like(other.scores, self.scores)]),
            queries=queries,
            n_queries=n_queries,
            weights=weights,
            index=xp.concat([self.index, like(numbers, self.index, "int64")]),
        )

    # ---------------------------------------------------------------- the loss on them

    @cached_property
    def operator(self) -> QueryLoss:
        """The loss on these rows."""
        return QueryLoss(
            self.comparison, self.queries, self.n_queries, self.weights, self.scores, len(self)
        )

    @property
    def reference(self) -> Array:
        """The scores, an array of the library and device to compute on."""
        return self.scores

    @cached_property
    def groups(self) -> Index | None:
        """The queries; every row for itself where queries play no part and none were given."""
        if self.queries is not None:
            return to_numpy(self.queries)
        return None if self.comparison.needs_queries else np.arange(len(self))

    @property
    def labels(self) -> tuple[Array, Index | None]:
        """The scores and the queries."""
        return self.scores + self.level, None if self.queries is None else self.groups

    @cached_property
    def targets(self) -> Array:
        """J s and J 1."""
        xp = namespace(self.scores)
        both = xp.stack([self.scores, xp.ones_like(self.scores)], axis=1)
        return self.operator.root(both)

    @property
    def mean_score(self) -> float:
        """The weighted mean of the scores."""
        xp = namespace(self.scores)
        weights = xp.ones_like(self.scores) if self.weights is None else self.weights
        return float(xp.sum(weights * self.scores) / xp.sum(weights))

    @property
    def is_tied(self) -> bool:
        """Whether rows are compared, but no two rows of a query have different scores."""
        if not self.comparison.needs_queries:
            return False
        codes = query_codes(self.queries, len(self))
        return not np.any(spreads(to_numpy(self.scores), codes))

    def freedom(self, units: Index | None = None) -> int:
        """The rank of the loss on rows that are whole queries, None for all: one less per mean that
        costs nothing.
        """
        queries = to_numpy(self.operator.queries)
        if units is not None:
            queries = queries[units]
        between = to_numpy(self.operator.between)
        free_means = between[np.unique(queries)] == 0
        return len(queries) - int(free_means.sum())

    def statistics(self, features: Features, size: int, folds: Index | None) -> Statistics:
        """The sums of one pass over the rows, O(n r (r + d))."""
        codes = None if self.queries is None else to_numpy(self.queries)
        if folds is not None and codes is not None:
            per_query = np.zeros(self.n_queries, dtype=np.int64)
            per_query[codes] = folds
            folds = per_query
        rows = self.features, self.scores, codes, self.weights
        return gather(*rows, self.comparison, features, size, folds)

    def residuals(self, predictions: Array) -> Array:
        """J (s − predictions)."""
        return self.operator.root(self.scores[:, None] - predictions)

    def predictions(self, residuals: Array) -> Array:
        """The scores less the residuals, up to one level per query where its mean costs nothing."""
        return self.scores[:, None] - self.operator.unroot(residuals)

    def predictions_of_items(self, residuals: Array) -> Array:
        """The scores less residuals that were multiplied by √w only."""
        return self.scores[:, None] - residuals / self.operator.root_weights[:, None]

    def unit_features(self, features: Features, units: Index) -> Array:
        """Φ of the given rows: (len(units), r)."""
        return features(take(self.features, units))

    def per_unit(self, rows: Array) -> Array:
        """Values of the rows (n, c) as values of units: they are the same."""
        return rows

    @property
    def unit_rows(self) -> ScoredRows:
        """The units as rows with scores: they are."""
        return self

    def rows_without(self, kept: Index, left: Index) -> Index:
        """Rows that no unit kept needs when others are left out."""
        return left

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
        scores = to_numpy(self.scores)
        weights = None if self.weights is None else to_numpy(self.weights)
        codes = query_codes(self.queries, len(self))
        codes, n_queries = first_appearance(codes)
        column = self.scores[:, None]
        levels = column - self.operator.unroot(self.operator.root(column))
        spread = float(np.ptp(to_numpy(column - levels)))
        step = TIE * (spread or 1.0)
        gaps = to_numpy(predictions - levels)
        errors = []
        for rounded in np.round(gaps.T / step):
            table = RowsByQuery.of(scores, rounded, weights, codes, n_queries)
            errors.append(misordered_shares(table, "skip"))
        return np.stack(errors, axis=1)


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
        features = self.features
        if isinstance(features, SideBySide):
            features = features.parts[0][0]
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
        return replace(self, groups=groups, **self._chosen(units))

    def _chosen(self, units: Index) -> dict[str, Array]:
        names = ("winners", "losers", "margins", "weights")
        return {name: getattr(self, name)[units] for name in names}

    def statistics(self, features: Features, size: int, folds: Index | None) -> Statistics:
        """The sums over comparisons: rows Φ(winner) − Φ(loser) with the margins as scores.

        An item's features are made once where those of all items fit into memory, else in every
        block that compares it.
        """
        units, operator = np.arange(len(self.winners)), self.operator
        held = None
        if self.features.shape[0] * size <= MAX_ITEM_FEATURES:
            held = features(self.features)

        def differences(block: Index) -> Array:
            if held is None:
                return self.unit_features(features, block)
            return take(held, self.winners[block]) - take(held, self.losers[block])

        rows = units, operator.margins, None, operator.weights
        return gather(*rows, Pointwise(), differences, size, folds)

    def freedom(self, units: Index | None = None) -> int:
        """The rank of the loss: the number of comparisons, of all where `units` is None."""
        return len(self.winners if units is None else units)

    def unit_features(self, features: Features, units: Index) -> Array:
        """Φ(winner) − Φ(loser) of the given comparisons: (len(units), r)."""
        ends = np.concatenate([self.winners[units], self.losers[units]])
        items, places = np.unique(ends, return_inverse=True)
        values = features(take(self.features, items))
        winners = take(values, places[: len(units)])
        losers = take(values, places[len(units) :])
        return winners - losers

    def residuals(self, predictions: Array) -> Array:
        """w^½ (margin − predicted difference)."""
        return self.unit_root(self.operator.margins[:, None] - predictions)

    def predictions(self, residuals: Array) -> Array:
        """The margins less the residuals."""
        roots = namespace(residuals).sqrt(self.operator.weights)
        return self.operator.margins[:, None] - residuals / roots[:, None]

    def per_unit(self, rows: Array) -> Array:
        """Winner less loser, (p, c), of values of the rows (n, c)."""
        return take(rows, self.winners) - take(rows, self.losers)

    @cached_property
    def unit_rows(self) -> ScoredRows:
        """The comparisons as rows without features that count one by one, margins as scores."""
        operator = self.operator
        nothing = zeros_beside((len(self.winners), 0), self.reference)
        rows = ScoredRows.of(nothing, operator.margins, None, operator.weights)
        return rows.regrouped(self.groups)

    def rows_without(self, kept: Index, left: Index) -> Index:
        """Rows that no unit kept needs when others are left out."""
        needed = np.concatenate([self.winners[kept], self.losers[kept]])
        ends = np.concatenate([self.winners[left], self.losers[left]])
        return np.asarray(np.setdiff1d(ends, needed))

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
        sizes = np.abs(gaps)
        largest = np.max(sizes, axis=0, initial=0.0)
        wrong = np.where(gaps < 0, 1.0, 0.0)
        wrong[sizes <= MARGIN_TIE * largest] = 0.5
        return np.where(self.margins[:, None] > 0, wrong, np.nan)


Problem: TypeAlias = ScoredRows | ComparedRows


@dataclass(frozen=True)
class GraphRows(ComparedRows):
    """Rows with scores and, beside them, comparisons between them and other rows: the losses add up.
    Units are the scores, then the comparisons.

    features : (n, d) of all rows; groups : (n_units,) codes, −1 is never held out; None for items of
        one query
    scored : the rows with scores, of which `features` are as they were before views; places : where
        they are among all
    """

    scored: Any = None
    places: Any = None

    @cached_property
    def edges(self) -> ComparedRows:
        """The comparisons alone."""
        ends = self.winners, self.losers, self.margins, self.weights
        return ComparedRows(self.features, *ends, np.arange(len(self.winners)))

    @cached_property
    def rows(self) -> ScoredRows:
        """The rows with scores alone."""
        rows: ScoredRows = replace(self.scored, features=take(self.features, self.places))
        return rows

    @property
    def n_queries(self) -> int:
        """Number of queries of the scored rows."""
        return int(self.scored.n_queries)

    @property
    def labels(self) -> tuple[Array, Index | None]:
        """The scores and the queries."""
        raise ValueError("cv does not go with edges; leave it out.")

    @property
    def reference(self) -> Array:
        """The scores."""
        return self.scored.scores

    @property
    def index(self) -> Array:
        """The row numbers of the scored rows."""
        return self.scored.index

    @property
    def mean_score(self) -> float:
        """That of the scores: comparisons have no level."""
        return float(self.scored.mean_score)

    @cached_property
    def operator(self) -> Any:
        """The loss of both."""
        places = like(self.places, self.reference, "int64")
        return GraphLoss(self.scored.operator, self.edges.operator, places)

    @cached_property
    def targets(self) -> Array:
        """J s and J 1."""
        return self._both(self.scored.targets, self.edges.targets)

    def _both(self, first: Array, second: Array) -> Array:
        return namespace(first).concat([first, like(second, first)], axis=0)

    def _each(self, act: Callable[[Any, Array], Array], values: Array) -> Array:
        """What is made of values of the scores, and of those of the comparisons."""
        n = len(self.scored)
        return self._both(act(self.scored, values[:n, :]), act(self.edges, values[n:, :]))

    def _split(self, units: Index) -> tuple[Index, Index]:
        """Numbers of scores, and of comparisons."""
        n = len(self.scored)
        return units[units < n], units[units >= n] - n

    def take(self, units: Index) -> GraphRows:
        """The problem with the given scores and comparisons only, on all rows."""
        first, second = self._split(units)
        return replace(
            self,
            groups=None if self.groups is None else self.groups[units],
            scored=self.scored.take(first),
            places=self.places[first],
            **self._chosen(second),
        )

    def regrouped(self, codes: Index) -> GraphRows:
        """The scored rows in other queries."""
        return replace(self, scored=self.scored.regrouped(codes[: len(self.scored)]))

    def statistics(self, features: Features, size: int, folds: Index | None) -> Statistics:
        """The sums over both; comparisons have no constant."""
        n = len(self.scored)
        of_scores, of_edges = (None, None) if folds is None else (folds[:n], folds[n:])
        scored = self.rows.statistics(features, size, of_scores)
        edges = self.edges.statistics(features, size, of_edges)
        kept = like(np.r_[np.ones(size + 1), 0.0], self.reference)
        edges = edges.transformed(
            lambda vector: vector * kept, lambda matrix: kept[:, None] * matrix * kept[None, :]
        )
        n_folds = max(scored.n_folds, edges.n_folds)
        return scored.with_folds(n_folds).merged(edges.with_folds(n_folds))

    def freedom(self, units: Index | None = None) -> int:
        """The rank of the loss."""
        every = np.arange(len(self.scored) + len(self.winners))
        first, second = self._split(every if units is None else units)
        return int(self.scored.freedom(first)) + len(second)

    def unit_features(self, features: Features, units: Index) -> Array:
        """Φ of scored rows, and Φ(winner) − Φ(loser)."""
        first, second = self._split(units)
        scored = self.rows.unit_features(features, first)
        return self._both(scored, self.edges.unit_features(features, second))

    def residuals(self, predictions: Array) -> Array:
        """J (s − predictions), w^½ (margin − predicted difference)."""
        return self._each(lambda problem, values: problem.residuals(values), predictions)

    def predictions(self, residuals: Array) -> Array:
        """Scores and margins less the residuals."""
        return self._each(lambda problem, values: problem.predictions(values), residuals)

    def per_unit(self, rows: Array) -> Array:
        """Values of scored rows, and winner less loser."""
        return self._both(take(rows, self.places), self.edges.per_unit(rows))

    def unit_root(self, x: Array) -> Array:
        """J x, for values of units."""
        return self._each(lambda problem, values: problem.unit_root(values), x)

    def unit_root_transposed(self, z: Array) -> Array:
        """Jᵀ z, for values of units."""
        return self._each(lambda problem, values: problem.unit_root_transposed(values), z)

    def misordered(self, predictions: Array) -> FloatArray:
        """Shares of wrongly ordered pairs per query, then per comparison."""
        shares: FloatArray = self._each(lambda own, values: own.misordered(values), predictions)
        return shares


def whitened_statistics(problem: Problem, basis: Basis, folds: Index | None = None) -> Statistics:
    """The sums of one pass over the whitened features of a problem; `folds` has one number per
    unit. O(n r (r + d)).
    """
    features = FeatureMap(basis)
    statistics = problem.statistics(features, features.size, folds)
    white = basis.whitening
    return statistics if white.inside or white.trivial else statistics.mapped(white.matrix)


def target_statistics(
    targets: Sequence[Any], basis: Basis, folds: Index | None
) -> list[Statistics]:
    """`whitened_statistics` for several columns of scores of the same rows, from one pass in which
    the scores are features, too. O(n (r + t) (r + t + d)).
    """
    scores = namespace(targets[0].scores).stack([target.scores for target in targets], axis=1)
    features = JointFeatures([basis, FeatureBasis(len(targets), scores)])
    rows = SideBySide(((targets[0].features, None), (scores, None)))
    problem = replace(targets[0], features=rows)
    sums = features.whitened(problem.statistics(features, features.size, folds))
    size, last = basis.whitening.matrix.shape[1], len(targets) + 1
    numbers = np.arange(size)
    return [sums.of_columns(np.r_[numbers, size + j, size + last]) for j in range(len(targets))]


def warn_of_ties(*problems: ScoredRows) -> None:
    """Say so where no scores can be told apart in any problem; refuse differences that are lost in
    rounding.
    """
    if all(problem.is_tied for problem in problems):
        warn_user(TIED)
    for problem in problems:
        if problem.comparison.needs_queries and problem.queries is not None:
            refuse_lost_differences(problem.scores, problem.queries)


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
        where, whose = ("", "") if queries is None else (" within a query", " of each query")
        raise ValueError(
            f"y: scores of size {largest:.3g} differ by at most {difference:.3g}{where}, which is"
            f" lost in rounding; subtract the level{whose} from the scores, or round them if those"
            " are ties."
        )


def spreads(values: FloatArray, codes: Index) -> FloatArray:
    """The largest less the smallest of the values (n,) of every query, by its code (n,):
    (n_queries,); 0 without values.
    """
    n_queries = int(codes.max()) + 1
    largest = np.full(n_queries, -np.inf)
    smallest = np.full(n_queries, np.inf)
    np.maximum.at(largest, codes, values)
    np.minimum.at(smallest, codes, values)
    return np.where(largest > smallest, largest - smallest, 0.0)
