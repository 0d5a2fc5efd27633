"""What a fit leaves behind: rows and sums that newly scored rows can be added to, and the rows from
which held-out predictions follow (`HoldsOut`).

A model on a subset of the rows keeps the sums over every view's scored rows, and what the unscored
rows say; a model on all its rows keeps the rows. Kernel, alpha and agreement stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corank.core.arrays import (
    Array,
    Index,
    first_appearance,
    like,
    namespace,
    stack_rows,
    take,
    to_numpy,
    with_precision_of,
)
from corank.core.basis import AUTO_LIMIT, FeatureBasis, KernelBasis
from corank.core.loss import Loss
from corank.core.observations import (
    EVERY_ROW,
    ComparedRows,
    GraphRows,
    Problem,
    ScoredRows,
    whitened_statistics,
)
from corank.core.sums import Statistics
from corank.core.unscored import HeldRows, UnscoredRows
from corank.learners.parameters import read_splits
from corank.solve.function import Expansion, Function
from corank.solve.grid import GridSystem
from corank.solve.systems import DualSystem, PrimalSystem, ViewData
from corank.solve.tuning import Training

COMPARED = (
    "update adds scored rows, but this model was fitted on comparisons, or with edges; fit it again"
    " instead."
)
FEDERATED = (
    "update cannot ask the sites that this model was agreed with; run the rounds again with the new"
    " rows."
)
SEVERAL_TARGETS = (
    "update of several columns of scores needs what a model file does not hold; fit again with all"
    " rows."
)
MANY_PAIRS = (
    "update would make so many pairs an incomplete grid; fit again with a number of basis rows."
)
CHUNKS = (
    "update cannot solve again with unscored rows that came in chunks; fit again, or take a number"
    " of rows as basis, which keeps sums; so it is with edges."
)


def check_like_fit(name: str, given: Any, fitted: bool, were: str = "it was") -> None:
    """Refuse an update with an argument that `fit` did not have, or without one that it had."""
    if (given is not None) != fitted:
        how = "with" if fitted else "without"
        raise ValueError(
            f"{name} must be given to update as {were} to fit: the model was fitted {how} {name}."
        )


@dataclass(frozen=True)
class Kept:
    """What rows can be added to: sums over every view's scored rows, or the rows in memory.

    statistics : one per view, whitened; disagreement : as in `PrimalSystem`
    rows : those of every view's basis, the unscored ones last, with NaN as score and their own
        queries
    """

    statistics: Sequence[Statistics] | None = None
    rows: Sequence[ScoredRows] | None = None
    disagreement: Array | None = None

    @classmethod
    def of(cls, system: DualSystem | PrimalSystem, unscored: UnscoredRows | None) -> Kept | None:
        """What is kept of a system that was solved; None where a model cannot be updated."""
        views = system.views
        problem = views[0].problem
        in_sums = isinstance(problem, GraphRows) and isinstance(system, PrimalSystem)
        if isinstance(problem, ComparedRows) and not in_sums:
            return None
        if isinstance(system, PrimalSystem):
            disagreement = system.disagreement if len(views) > 1 else None
            return cls(system.view_statistics(), disagreement=disagreement)
        many_pairs = isinstance(system, GridSystem) and system.size > AUTO_LIMIT
        if many_pairs or any(view.basis.kernel.precomputed for view in views):
            return None
        if unscored is None:
            return cls(rows=[view.problem.under(EVERY_ROW) for view in views])
        in_memory = all(isinstance(part, HeldRows) for part in unscored.parts)
        return cls(rows=_rows_of_bases(views, unscored)) if in_memory else None


def _rows_of_bases(views: Sequence[ViewData], unscored: UnscoredRows) -> list[ScoredRows]:
    """The rows of every view's basis, scored and unscored; see `Kept`."""
    _, codes, weights = unscored.everything()
    codes, n_codes = first_appearance(codes)
    result = []
    for view in views:
        rows = view.problem
        scores = rows.scores
        n, m = len(rows), len(codes)
        xp = namespace(scores)
        queries = rows.index * 0 if rows.queries is None else rows.queries
        both = None
        if rows.weights is not None or weights is not None:
            first = like(np.ones(n), scores) if rows.weights is None else rows.weights
            second = like(np.ones(m) if weights is None else weights, scores)
            both = xp.concat([first, second])
        result.append(
            ScoredRows(
                features=view.basis.points,  # type: ignore[union-attr]
                scores=xp.concat([scores, like(np.full(m, np.nan), scores)]),
                queries=xp.concat([queries, like(codes + rows.n_queries, scores, "int64")]),
                n_queries=rows.n_queries + n_codes,
                weights=both,
                index=like(view.rows, scores, "int64"),
            )
        )
    return result


def with_new_rows(
    function: Function,
    kept: Kept,
    new: Sequence[ScoredRows],
    unscored_loss: Loss,
    n_seen: int,
    *,
    bonds: Array | None,
    with_queries: bool,
) -> tuple[DualSystem | PrimalSystem, UnscoredRows | None]:
    """The system of a fitted function with newly scored rows, one set per view, and its unscored
    rows.

    Parameters
    ----------
    new : under the loss of the learner
    unscored_loss, bonds : between views on unscored rows
    n_seen : rows that were seen before, after which the new ones are numbered
    with_queries : whether new rows have queries of their own; else they join the only one
    """
    if not with_queries:
        new = [replace(rows, queries=None, n_queries=1) for rows in new]
    new = [
        replace(rows, features=part.span.seen(rows.features))
        for part, rows in zip(function.parts, new, strict=True)
    ]
    data: list[ViewData] = []
    if kept.statistics is not None:
        statistics = []
        for part, rows, sums in zip(function.parts, new, kept.statistics, strict=True):
            problem, span = rows.under(sums.comparison), part.span
            basis = span.basis(part.coefficients.shape[0], part.coefficients)
            data.append(ViewData(problem, basis, span.columns, span.penalty, None, span.rows))
            statistics.append(sums.merged(whitened_statistics(problem, basis)))
        system = PrimalSystem(data, statistics=statistics, disagreement=kept.disagreement)
        return system, None
    assert kept.rows is not None
    for part, rows, before in zip(function.parts, new, kept.rows, strict=True):
        missing = np.isnan(to_numpy(before.scores))
        scored, others = (before.take(np.flatnonzero(rows)) for rows in (~missing, missing))
        if not with_queries:
            scored = replace(scored, queries=None, n_queries=1)
        elif scored.queries is None:  # fitted on one query, which had a name
            scored = replace(scored, queries=scored.index * 0)
        scored = scored.under(rows.comparison).extended(rows, n_seen)
        data.append(_with_basis(part, scored, others))
    shared = None
    if len(others):
        held = HeldRows(others.features, to_numpy(others.queries), None, others.weights)
        shared = UnscoredRows((held,), unscored_loss, bonds)
    return DualSystem(data, shared), shared


def _with_basis(part: Expansion, scored: ScoredRows, others: ScoredRows) -> ViewData:
    """A view of scored rows with all its rows, scored and unscored, as basis; or its columns."""
    span = part.span
    if span.points is None:
        basis: Any = FeatureBasis(scored.features.shape[1], part.coefficients)
        return ViewData(scored, basis, span.columns, span.penalty)
    features = scored.features
    if len(others):
        features = stack_rows([features, others.features])
    rows: Index = np.concatenate([to_numpy(scored.index), to_numpy(others.index)])
    basis = KernelBasis(span.kernel, features)
    return ViewData(scored, basis, span.columns, span.penalty, None, rows)


# ---------------------------------------------------------------- held-out predictions

ROWS_ARE_GONE = (
    "held-out predictions need the rows of fit, which are not at hand: files, copies and models that"
    " were updated do not have them, and rows of a scan only pass by. Fit on rows in memory."
)


@dataclass(frozen=True)
class FittedRows:
    """What held-out predictions follow from.

    training : the rows scored in any view, or the comparisons, and where they lie in X
    source : a fit that can hold units out: `ChosenViews`, `FittedComponents`
    cv : of the learner
    """

    training: Training
    source: Any
    cv: Any = None

    @cached_property
    def predictions(self) -> Array:
        """Held-out predictions by the folds of the fit."""
        return self.held_out(self.cv if self.source.settings.splits is None else None)

    def held_out(self, cv: Any) -> Array:
        """See `HoldsOut`."""
        training = self.training
        n_rows = training.everything.shape[0]
        splits = read_splits(cv, training.problem, training.index, n_rows)
        columns = [
            by_row(problem, values + training.level, n_rows)
            for problem, values in self.source.held_out(splits)
        ]
        return columns[0] if len(columns) == 1 else namespace(columns[0]).stack(columns, axis=1)


def by_row(problem: Problem, values: Array, n_rows: int) -> Array:
    """Values of scored rows as those of the rows of X (n_rows,), NaN for the others; of comparisons
    as they are.
    """
    if isinstance(problem, GraphRows):
        problem = problem.scored
    if isinstance(problem, ScoredRows):
        places = np.full(n_rows, len(problem))
        places[to_numpy(problem.index)] = np.arange(len(problem))
        missing = like(np.full(1, np.nan), values)
        values = take(namespace(values).concat([values, missing]), places)
    return with_precision_of(problem.features, values)


class HoldsOut:
    """Held-out predictions of learners that have them in closed form."""

    targets_: Sequence[Any] = ()  # a fitted model per column of y, where there are several
    _fitted_rows: FittedRows | None = None  # no part of files, pickles and copies
    _no_closed_form: ClassVar[str] = ""  # why

    @property
    def held_out_predictions_(self) -> Array:
        """(n,) `predict_held_out` by the folds of the fit, computed when first asked for."""
        try:
            return self.predict_held_out()
        except ValueError as error:
            raise AttributeError(str(error)) from error

    def predict_held_out(self, cv: Any = None) -> Array:
        """Predictions of the rows of `fit` by models without the fold of each row, in closed form:
        kernel, basis, alpha and agreement stay.

        Parameters
        ----------
        cv : splitter or list of splits, like the parameter; None = the folds of the fit: by default
            queries, or rows, one by one where that is cheap

        Returns
        -------
        (n,) per row of X, NaN where it has no score or is in no fold; (n, t) for t columns of y, or
        of views that have scores of their own. After `fit_comparisons` differences, winner less loser, of the
        comparisons of weight above 0. Of a ranker (beta = 0) only the order within a query is
        known: every query has the mean 0, but items of the only query the level of the rows that
        predict them.
        """
        check_is_fitted(self)
        if self._no_closed_form:
            raise ValueError(
                f"{type(self).__name__} has no held-out predictions in closed form:"
                f" {self._no_closed_form}. cross_val_predict of scikit-learn fits anew."
            )
        if self.targets_:
            columns = [model.predict_held_out(cv) for model in self.targets_]
            return namespace(columns[0]).stack(columns, axis=1)
        if self._fitted_rows is None:
            raise ValueError(ROWS_ARE_GONE)
        rows = self._fitted_rows
        return rows.predictions if cv is None else rows.held_out(cv)

    def at_a_glance(self) -> Self:
        """The estimator without what is found out only when it is asked for."""
        return copy(self)

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), "_fitted_rows": None}  # type: ignore[dict-item]
