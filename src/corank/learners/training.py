"""What kernel least squares are fitted on: the scored rows of every view, or comparisons, and the
rows on which views should agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corank.core.arrays import Array, Index, like, take, to_numpy
from corank.core.labels import encode_queries
from corank.core.loss import Loss
from corank.core.observations import ComparedRows, Problem, Rows, ScoredRows, warn_of_ties
from corank.core.unscored import HeldRows
from corank.core.views import View
from corank.inputs import given_scores, scored_rows
from corank.solve.systems import Unscored


@dataclass(frozen=True)
class TrainingData:
    """What kernel least squares are fitted on.

    features : (n, d) all rows of X
    problems : per view, its scored rows or the comparisons, with all columns of X
    index : (n_v,) per view, row numbers in X of the rows of its problem
    groups : (n_units,) per view, as in `ViewData`; None for items of one query
    shown : the problem that a splitter is shown: the rows scored in any view, or the comparisons
    shown_index : row numbers in X of its rows
    n_units : scored rows of a view, or comparisons; n_scored : rows scored in any view, or compared
    unscored : the rows on which views should agree, `n_apart` of them not of X; None for no rows
    weights : (n,) of the rows of X, or None for ones
    level : was taken out of the scores
    summed : whether scored rows do not fit into memory: `problems` then stand for their sums, and
        hold candidates for the basis
    with_queries : whether the rows came with query labels
    """

    features: Array
    problems: Sequence[Problem]
    index: Sequence[Index]
    groups: Sequence[Index] | None
    shown: Problem
    shown_index: Index
    n_units: int
    n_scored: int
    unscored: Unscored | None = None
    n_apart: int = 0
    weights: Array | None = None
    level: float = 0.0
    summed: bool = False
    with_queries: bool = False

    @property
    def n_unscored(self) -> int:
        """Number of rows on which views should agree."""
        return 0 if self.unscored is None else self.unscored.rows.n_rows


def scored_data(
    rows: Rows,
    features: Array,
    views: Sequence[View],
    loss: Loss,
    *,
    centred: bool,
    with_queries: bool,
) -> TrainingData:
    """Rows with scores as what views are fitted on.

    Parameters
    ----------
    rows : with scores (n, 1), or (n, M) one column per view; NaN = unscored
    features : (n, d) all rows of X
    centred : whether the mean of all given scores is taken out
    """
    level = mean_of_given(rows) if centred else 0.0
    by_column: dict[int, ScoredRows] = {}
    problems: list[ScoredRows] = []
    for view, column in zip(views, columns_of_views(rows, len(views)), strict=True):
        if column not in by_column:
            scored = scored_rows(rows, column).lowered(level)
            if len(scored) == 0:
                raise ValueError(f"y has no score for {view.name}.")
            if scored.n_queries == 1:
                scored = replace(scored, queries=None)
            by_column[column] = ScoredRows(scored, loss, level)
        problems.append(by_column[column])
    warn_of_ties(*problems)
    shown = problems[0]
    if len(by_column) > 1:
        shown = ScoredRows(scored_anywhere(rows).lowered(level), loss, level)
    index = [to_numpy(problem.rows.index) for problem in problems]
    shown_index = to_numpy(shown.rows.index)
    return TrainingData(
        features=features,
        problems=problems,
        index=index,
        groups=_groups(shown, index),
        shown=shown,
        shown_index=shown_index,
        n_units=len(index[0]),
        n_scored=len(shown_index),
        weights=rows.weights,
        level=level,
        with_queries=with_queries,
    )


def summed_data(summed: Any, features: Any, n_views: int, *, with_queries: bool) -> TrainingData:
    """Scored rows of a scan that only pass by as what views are fitted on.

    summed : stands for them
    features : the rows of X, of which candidates for the basis are in memory
    """
    return TrainingData(
        features=features,
        problems=[summed] * n_views,
        index=[features.numbers] * n_views,
        groups=None,
        shown=summed,
        shown_index=features.numbers,
        n_units=summed.n_rows,
        n_scored=summed.n_rows,
        level=summed.level,
        summed=True,
        with_queries=with_queries,
    )


def compared_data(
    problem: ComparedRows, used: Index, features: Array, n_views: int, *, with_queries: bool
) -> TrainingData:
    """Comparisons between rows of X, of which those numbered `used` take part, as what views are
    fitted on.
    """
    return TrainingData(
        features=features,
        problems=[problem] * n_views,
        index=[used] * n_views,
        groups=[problem.groups] * n_views,
        shown=problem,
        shown_index=used,
        n_units=len(problem.winners),
        n_scored=len(used),
        with_queries=with_queries,
    )


def _groups(shown: ScoredRows, index: Sequence[Index]) -> Sequence[Index] | None:
    """What is held out together, per view: queries, or every row for itself; None for items of
    one query.
    """
    if shown.n_queries == 1:
        return None if shown.comparison.needs_queries else index
    every, codes = to_numpy(shown.rows.index), to_numpy(shown.rows.queries)
    return [
        codes if len(numbers) == len(every) else codes[np.searchsorted(every, numbers)]
        for numbers in index
    ]


# ---------------------------------------------------------------- rows with one or several scores


def columns_of_views(rows: Rows, n_views: int) -> Sequence[int]:
    """The column that holds the scores of every view; refuses a number of columns that no views
    explain.
    """
    assert rows.scores is not None
    n_columns = int(rows.scores.shape[1])
    if n_columns not in (1, n_views):
        raise ValueError(
            f"y has {n_columns} columns for {n_views} views; give one column, or one per view."
        )
    return [0] * n_views if n_columns == 1 else range(n_views)


def scored_anywhere(rows: Rows) -> Rows:
    """The rows that have a score in any column, each with the first of its scores."""
    first = np.argmax(given_scores(rows), axis=1)
    scores = to_numpy(rows.scores)[np.arange(len(rows)), first]
    return scored_rows(replace(rows, scores=like(scores[:, None], rows.scores)), 0)


def mean_of_given(rows: Rows) -> float:
    """The weighted mean of all given scores."""
    scores, given = to_numpy(rows.scores), given_scores(rows)
    weights = np.ones(len(rows)) if rows.weights is None else to_numpy(rows.weights)
    every = np.broadcast_to(weights[:, None], scores.shape)
    return float(np.average(scores[given], weights=every[given]))


def rows_without_scores(rows: Rows) -> list[HeldRows]:
    """The rows of X that have a weight but no score in any column."""
    without = ~given_scores(rows).any(axis=1)
    if rows.weights is not None:
        without &= to_numpy(rows.weights) > 0
    queries = None if rows.queries is None else to_numpy(rows.queries)
    return _held_rows(rows.features, np.flatnonzero(without), queries, rows.weights)


def rows_without(features: Array, used: Index, qid: Any) -> list[HeldRows]:
    """The rows of X in no comparison."""
    n = features.shape[0]
    queries = None if qid is None else to_numpy(encode_queries(qid, n)[0])
    return _held_rows(features, np.setdiff1d(np.arange(n), used), queries, None)


def _held_rows(
    features: Array, numbers: Index, queries: Index | None, weights: Array | None
) -> list[HeldRows]:
    """The rows of X with these numbers, where there are any, as unscored rows."""
    if len(numbers) == 0:
        return []
    codes = None
    if queries is not None:
        codes = np.unique(queries[numbers], return_inverse=True)[1].astype(np.int64)
    return [HeldRows(features, codes, numbers, take(weights, numbers))]
