"""AutoRanker and AutoRegressor: the average of many closed-form models, weighed by held-out errors
and evidence.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin

from corank.core.arrays import Array, FloatArray, Index, first_appearance, stack_rows, take
from corank.core.messages import ArgumentError
from corank.core.sampling import Digests, canonical_order
from corank.inputs import (
    comparison_groups,
    read_comparisons,
    read_features,
    read_unscored,
)
from corank.learners.average.encoding import STANDARD, encoded_tables, kernel_columns
from corank.learners.average.fitting import FittedAverage
from corank.learners.average.learner import AverageLearner
from corank.learners.average.model import compared_units, fit_encoded
from corank.learners.average.roles import (
    answers_of_persons,
    learned_roles,
    read_roles,
    read_roles_of,
)
from corank.learners.average.scored_table import (
    EncodedTable,
    ScoredTable,
    link_edges,
)
from corank.learners.base import R2Mixin, RankerMixin
from corank.learners.comparisons import AnswersMixin
from corank.links import read_link_matrix
from corank.metrics import disagreement_error, misplaced_shares


@dataclass(eq=False, repr=False)
class AutoRegressor(R2Mixin, RegressorMixin, AverageLearner):  # type: ignore[misc]
    r"""Regression by an average of many closed-form models.

    .. math:: f = \sum_c w_c f_c, \qquad f_c = \arg\min_f \sum_i (s_i - b - f(x_i))^2 + \alpha_c
              \|f\|_c^2

    Candidates differ in what columns become (standardised, normal scores over all rows), in kernel
    (linear, rbf, exponential, laplacian), width, also one per column, and views. Half of the weight follows the evidence of every
    candidate and alpha, half the leave-one-out error of every candidate at its best alpha. With few
    scores such an average is better than any rule that picks one model.

    Parameters
    ----------
    views : list of View or "kinds", default=None
        Several looks at the items. Sums and products of their kernels, and agreement on unscored
        rows, become candidates. Agreement is believed, unless the scores speak against it by a
        standard error. Where a table is encoded, names are those of its columns, and numbers those
        of the columns of the matrix that the encoder makes. "kinds" makes a view of every text
        column, of every group of vector columns, and of numbers and categories together. With None
        the same views are found, but nothing says that they agree.
    candidates : list of Candidate, default=None
        What the average is made of; None takes a list that suits the rows.
    fit_intercept : bool, default=True
        Whether the level of the scores is free.
    random_state : int, default=None
        For samples of rows where there are many; None makes the same choice every time. The order
        of the rows does not matter, nor do the names of queries.
    encoder : TableEncoder, default=None
        How a table with text, dates, categories or missing values becomes numbers; None stands for
        `TableEncoder()`. One that is fitted is taken as it is, and X may then be what it made of a
        table.

    Attributes
    ----------
    candidates_ : list of WeighedCandidate, heaviest first: all that was tried, each with the least
        held-out error of its alphas. It stands for the `path_` of other learners, which pick one
        setting
    held_out_error_ : float, mean squared error on rows that took no part in weights, alphas or
        coefficients
    reason_ : str, what the average is made of and how good it is
    unscored_effect_ : UnscoredEffect or None, whether unscored rows helped

    Notes
    -----
    O(C n³) for C candidates and n scored rows below 400. Of more, half (at most 1,000) weigh the
    candidates, and by others they are shortlisted and widths per column learned; all rows then give
    the coefficients of those that carry weight. All rows are points of the model up to about
    12,000, and beyond as many as two candidates can have at a cost that grows with the rows. Of
    more than 20,000 scored rows of a scan, such a sample is what all but coefficients comes from. A fit
    that will take more than about ten seconds says beforehand how long and how much memory, by the
    logger "corank", and shows on a terminal how far it has come. Answers of persons about items
    (`person=`, `item=`) beyond 8,000 become vectors of persons and items: O(n) and O(p + q) memory.

    Examples
    --------
    >>> import numpy as np
    >>> from corank import AutoRegressor
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = AutoRegressor().fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """

    views: Any = None
    candidates: Any = None
    fit_intercept: bool = True
    random_state: Any = None
    encoder: Any = None

    _ranks: ClassVar[bool] = False

    @property
    def error_name(self) -> str:
        """What the held-out error is an error of."""
        where = "rows of new queries" if self._with_queries and self._n_queries > 1 else "new rows"
        where = where if self.persons_ is None else "new answers of the same persons"
        return f"squared error on {where}"

    def _honest_error(self, average: FittedAverage | None) -> tuple[float, float]:
        if average is None:
            return float("nan"), float("nan")
        units = average.judged_units
        weights = units.roots**2
        judged = np.isfinite(average.held_out)
        if not judged.any():
            return float("nan"), float("nan")
        error = float(np.average(average.residuals[judged] ** 2, weights=weights[judged]))
        total = weights.sum()
        # the mean of all others
        without = (weights @ units.scores - weights * units.scores) / (total - weights)
        return error, float(np.average((units.scores - without) ** 2, weights=weights))

    def _unit_errors(self, average: FittedAverage) -> FloatArray:
        squares = average.residuals**2
        queries = average.judged_units.queries
        if queries is None:
            return squares
        codes = np.unique(queries, return_inverse=True)[1]
        sums = np.bincount(codes, squares).astype(np.float64)
        # their mean is that over rows, as `held_out_error_` is
        return sums * (len(sums) / len(squares))


@dataclass(eq=False, repr=False)
class AutoRanker(RankerMixin, AnswersMixin, AverageLearner):
    r"""Ranking within queries by an average of many closed-form models.

    .. math:: f = \sum_c w_c f_c, \qquad f_c = \arg\min_f \sum_q \tfrac{1}{m_q} \sum_{i<j \in q}
              \big((s_i - s_j) - (f(x_i) - f(x_j))\big)^2 + \alpha_c \|f\|_c^2

    Candidates differ in what columns become (standardised, normal scores over all rows, within
    queries, and both), in kernel (linear, rbf, laplacian), width and views. Their predictions,
    divided by their spread, are weighed by leave-query-out errors: hardly with few queries, more by
    squared errors with some, and mostly by misordered pairs with many. With few scores such an
    average is better than any rule that picks one model.

    Parameters
    ----------
    views : list of View or "kinds", default=None
        Several looks at the items. Sums and products of their kernels, and agreement on unscored
        rows, become candidates. Agreement is believed, unless the scores speak against it by a
        standard error. Where a table is encoded, names are those of its columns, and numbers those
        of the columns of the matrix that the encoder makes. "kinds" makes a view of every text
        column, of every group of vector columns, and of numbers and categories together. With None
        the same views are found, but nothing says that they agree.
    candidates : list of Candidate, default=None
        What the average is made of; None takes a list that suits the rows.
    random_state : int, default=None
        For samples of rows where there are many; None makes the same choice every time. The order
        of the rows does not matter, nor do the names of queries.
    encoder : TableEncoder, default=None
        How a table with text, dates, categories or missing values becomes numbers; None stands for
        `TableEncoder()`. One that is fitted is taken as it is, and X may then be what it made of a
        table.

    Attributes
    ----------
    candidates_ : list of WeighedCandidate, heaviest first: all that was tried, each with the least
        held-out error of its alphas. It stands for the `path_` of other learners, which pick one
        setting
    held_out_error_ : float, share of misordered pairs among queries (rows of the only query,
        comparisons) that took no part in weights, alphas or coefficients
    reason_ : str, what the average is made of and how good it is
    unscored_effect_ : UnscoredEffect or None, whether unscored rows helped

    Notes
    -----
    O(C n³) for C candidates and n scored rows below 400. Of more, queries with half of the rows (at
    most 1,000) weigh the candidates, and by others they are shortlisted; all rows then give the
    coefficients of those that carry weight. All rows are points of the model up to about 12,000,
    and beyond as many as two candidates can have at a cost that grows with the rows. Of more than
    20,000 scored rows of a scan, such a sample is what all but coefficients comes from. A fit
    that will take more than about ten seconds says beforehand how long and how much memory, by the
    logger "corank", and shows on a terminal how far it has come. Answers of persons about items
    (`person=`, `item=`) beyond 8,000 become vectors of persons and items: O(n) and O(p + q) memory.

    Examples
    --------
    >>> from corank import AutoRanker
    >>> from corank.datasets import make_ranking
    >>> data = make_ranking(n_queries=20, random_state=0)
    >>> model = AutoRanker().fit(data.X, data.y, qid=data.qid)
    >>> bool(model.score(data.X, data.y, qid=data.qid) > 0.8)
    True
    """

    views: Any = None
    candidates: Any = None
    random_state: Any = None
    encoder: Any = None

    answer_columns = frozenset({"groups", "person"})
    scores_have_persons = True
    _ranks: ClassVar[bool] = True
    _predicts_within_queries: ClassVar[bool] = True

    @property
    def error_name(self) -> str:
        """What the held-out error is an error of."""
        if self._kind == "comparison":
            return "share of new comparisons in the wrong order"
        where = "in new queries" if self._with_queries and self._n_queries > 1 else "of new rows"
        where = where if self.persons_ is None else "of new answers of the same persons"
        return f"share of misordered pairs {where}"

    def fit_comparisons(
        self,
        X: Any,
        winners: Any,
        losers: Any,
        *,
        margins: Any = None,
        weights: Any = None,
        qid: Any = None,
        groups: Any = None,
        unscored: Any = None,
        links: Any = None,
        person: Any = None,
        item: Any = None,
        persons: Any = None,
    ) -> Self:
        """Fit on explicit comparisons: rows `winners` of X beat rows `losers`.

        Parameters
        ----------
        X : (n, d) items. Where the encoder knows which column says what item a row is, every item
            has an effect of its own beside what the columns say:
            `encoder=TableEncoder(identity=["name"])`
        winners, losers : (p,) row numbers of X, or labels of the index of a pandas frame (not whole
            numbers)
        margins : (p,) >= 0, by how much; default 1, 0 = a tie
        weights : (p,) >= 0
        qid : (n,) one label per row of X; comparisons of one query are held out together
        groups : (p,) without qid, one label per comparison: those of one group are held out
            together; None for those of the same two items
        unscored : (m, d) more items, which say what columns look like and where views agree
        links : links between the rows of X, and of `unscored` after them, as in `fit`
        person : (p,) who compared, as in `fit`
        item, persons : of the rows of X, and about persons, as in `fit`

        Returns
        -------
        self
        """
        table = X
        X, labels = read_roles(X, person, item, n=len(winners))
        unscored, others = read_roles_of(unscored, labels)
        self._roles = None
        X, unscored, encoder = encoded_tables(self.encoder, X, unscored)
        features = read_features(self, X, reset=True)
        self._kernel_columns = self.views and kernel_columns(self, features)
        n = features.shape[0]
        pairs = read_comparisons(winners, losers, margins, weights, n, table)
        held_out = comparison_groups(pairs[0], pairs[1], n, qid, groups, weights)
        numbers = self._numbers(features)
        if unscored is not None:
            more = self._numbers(read_unscored(self, features, unscored))
            numbers = stack_rows([numbers, more])
        matrix = read_link_matrix(links, numbers.shape[0])
        self._with_queries = qid is not None
        self._with_links = links is not None
        self._n_seen = n
        self._n_queries = len(np.unique(held_out)) if qid is not None else 1
        width, given = numbers.shape[1], None
        self._roles, persons_encoder = learned_roles(labels, persons)
        if self._roles is not None:
            if links is not None and labels.person is not None:
                raise ArgumentError("links", " does not go with person= in fit_comparisons.")
            labels = labels.followed_by_items(others, n, numbers.shape[0] - n)
            numbers, pairs, given, labels = answers_of_persons(numbers, pairs, labels)
            numbers = self._roles.beside(numbers, labels)
        settings = self.read_settings(encoder, width)
        digests = settings.digests(numbers)
        if given is None:
            items = EncodedTable(take(numbers, canonical_order(digests)), None, settings)
        else:
            items = EncodedTable(numbers, None, settings)
        self._fit_pairs(items, digests, pairs, held_out, matrix, given=given)
        self.encoder_, self.persons_encoder_ = encoder, persons_encoder
        return self

    def _fit_pairs(
        self,
        items: EncodedTable,
        digests: Digests,
        pairs: tuple[Array, ...],
        groups: Index,
        links: Any = None,
        *,
        honest: bool = True,
        given: Index | None = None,
    ) -> None:
        """Fit to comparisons.

        items : in the canonical order of their features; digests : of these as they were given
        given : the numbers that rows had before there was one for every person who compared them;
            then `items` are as they were given
        pairs : rows of winners and losers as they were given, margins and weights; links : likewise
        honest : as in `fit_average`
        """
        winners, losers, margins, weights = pairs
        compared = winners, losers, np.column_stack([margins, weights])
        edges = [compared, *link_edges(links)]
        if given is None:
            given, order = np.arange(len(items)), canonical_order(digests, edges=edges)
        else:
            groups_of_rows = items.settings.groups_of_rows(items.features)
            order = canonical_order(digests, edges=edges, groups=groups_of_rows)
            items = EncodedTable(take(items.features, order), None, items.settings)
        places = np.argsort(order)
        chosen = np.lexsort((weights, margins, places[losers], places[winners]))
        first = places[winners[chosen]]
        second = places[losers[chosen]]
        used, ends = np.unique(np.concatenate([first, second]), return_inverse=True)
        units = compared_units(
            ends[: len(first)],
            ends[len(first) :],
            margins[chosen],
            weights[chosen],
            first_appearance(groups[chosen])[0],
            len(used),
            take(items.settings.persons(items.features), first),
        )
        if links is not None:
            links = links[order][:, order].sorted_indices()
        others = np.setdiff1d(np.arange(len(items)), used)
        model, average = fit_encoded(items, used, others, units, links, honest=honest)
        model = model.as_given(average, given[order[used]], chosen)
        self._kind = "comparison"
        self._n_comparisons = len(first)
        n_items = len(np.unique(given))
        self._n_scored = len(np.unique(given[order[used]]))
        self._n_unscored = n_items - self._n_scored
        self._keep(model, average, items.settings)

    def _honest_error(self, average: FittedAverage | None) -> tuple[float, float]:
        if average is None:
            return float("nan"), float("nan")
        units = average.judged_units
        held_out = average.held_out
        judged = np.isfinite(held_out)
        if not judged.any():
            return float("nan"), 0.5
        if units.second is not None:
            wrong = np.where(held_out == 0, 0.5, held_out < 0)[judged]
            return float(np.average(wrong, weights=units.roots[judged] ** 2)), 0.5
        queries = units.groups if units.whole or units.has_levels else None
        return float(disagreement_error(*_judged(average), qid=queries)), 0.5

    def _unit_errors(self, average: FittedAverage) -> FloatArray:
        units = average.judged_units
        scores, predictions = _judged(average)
        if units.whole or units.has_levels:
            errors: FloatArray = disagreement_error(
                scores, predictions, qid=units.groups, average=False
            )
            return errors
        return misplaced_shares(scores, predictions)


def _judged(average: FittedAverage) -> tuple[FloatArray, FloatArray]:
    """Scores of the units, NaN where they were not held out, and their predictions."""
    units = average.judged_units
    judged = np.isfinite(average.held_out)
    return (
        np.where(judged, units.scores, np.nan),
        np.where(judged, average.held_out, 0.0) / units.roots,
    )


class LiveFit:
    """Fits of one learner to the same items, as scores or comparisons come in: what does not depend
    on them is kept.

    Predictions are those of `fit` and `fit_comparisons`.

    Parameters
    ----------
    learner : AutoRanker or AutoRegressor, with an encoder that is fitted
    X : (n, d) what the encoder made of the items
    """

    def __init__(self, learner: AutoRanker | AutoRegressor, X: FloatArray) -> None:
        read_features(learner, X, reset=True)
        self._learner = copy(learner)
        self._learner._with_queries = self._learner._with_links = False
        settings = learner.read_settings(learner.encoder)
        self._digests = settings.digests(X)
        self._ordered = EncodedTable(X[canonical_order(self._digests)], None, settings)
        self._items = EncodedTable(X, None, settings, learned=self._ordered)

    @property
    def standardised(self) -> FloatArray:
        """The standardised columns of the items, without those that say which item a row is: (n,
        k), k may be 0.
        """
        return np.asarray(self._items.rows(STANDARD))

    def to_scores(self, scores: FloatArray) -> Any:
        """The model of scores (n,), NaN = unscored."""
        model: Any = copy(self._learner)
        settings = self._ordered.settings
        table = ScoredTable(self._items.features, scores).ordered(settings, self._digests)
        model.fit_scored(table, settings, self._ordered)
        model.encoder_ = model.encoder
        return model

    def to_comparisons(self, winners: Index, losers: Index, margins: FloatArray | None) -> Any:
        """The model of comparisons between rows, as in `fit_comparisons`; its held-out error is not
        computed.
        """
        model: Any = copy(self._learner)
        n = model._n_seen = len(self._items)
        model._n_queries = 1
        ones = np.ones(len(winners))
        pairs = winners, losers, ones if margins is None else margins, ones
        groups = comparison_groups(winners, losers, n, None)
        model._fit_pairs(self._ordered, self._digests, pairs, groups, honest=False)
        model.encoder_ = model.encoder
        return model

    def predict(self, model: AutoRanker | AutoRegressor) -> FloatArray:
        """The predictions of a model for all items: (n,)."""
        return model.predict_encoded(self._items)
