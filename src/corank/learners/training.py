"""What kernel least squares are fitted on: the scored rows of every view, or comparisons, and the
rows on which views should agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corank.core.arrays import Array, Index, like, take, to_numpy
from corank.core.loss import Loss
from corank.core.observations import ComparedRows, Problem, Rows, ScoredRows, warn_of_ties
from corank.core.unscored import HeldRows
from corank.inputs import given_scores, scored_rows, without_only_query
from corank.solve.systems import Unscored


@dataclass(frozen=True)
class TrainingData:
    """What kernel least squares are fitted on.

    features : (n, d) all rows of X
    problems : per view, its scored rows or the comparisons, with all columns of X
    index : (n_v,) per view, row numbers in X of the rows of its problem
    groups : (n_units,) per view, as in `ViewData`; None for items of one query
    shown : the problem that a splitter is shown: the rows scored in any view, or the comparisons
    unscored : the rows on which views should agree, `n_plain` of them rows of X
    weights : (n,) of the rows of X, or None for ones
    level : was taken out of the scores
    n_summed : number of scored rows where they do not fit into memory: `problems` then stand for
        their sums, and hold candidates for the basis
    with_queries : whether the rows came with query labels
    """

    features: Array
    problems: Sequence[Problem]
    index: Sequence[Index]
    groups: Sequence[Index] | None
    shown: Problem
    unscored: Unscored
    n_plain: int = 0
    weights: Array | None = None
    level: float = 0.0
    n_summed: int | None = None
    with_queries: bool = False

    @property
    def n_units(self) -> int:
        """Scored rows of a view, or comparisons."""
        return self.n_summed or int(self.problems[0].operator.n_roots)

    @property
    def scored_index(self) -> Index:
        """Row numbers in X of the rows that are scored in any view, or compared."""
        return np.unique(np.concatenate(self.index))

    @property
    def n_scored(self) -> int:
        """Number of those rows."""
        return self.n_summed or len(self.scored_index)

    @property
    def holds_scored(self) -> bool:
        """Whether all scored rows are in memory; else only candidates for the basis are."""
        return self.n_summed is None

    @property
    def n_seen(self) -> int:
        """Rows of X and of `unscored=`."""
        return int(self.features.shape[0]) + self.unscored.rows.n_rows - self.n_plain


def scored_data(
    rows: Rows,
    features: Array,
    names: Sequence[str | None],
    loss: Loss,
    unscored: Unscored,
    *,
    n_plain: int,
    centred: bool,
    with_queries: bool,
) -> TrainingData:
    """Rows with scores as what views are fitted on.

    Parameters
    ----------
    rows : with scores (n, 1), or (n, M) one column per view; NaN = unscored
    features : (n, d) all rows of X
    names : of the views
    centred : whether the mean of all given scores is taken out
    """
    level = mean_of_given(rows) if centred else 0.0
    by_column: dict[int, ScoredRows] = {}
    problems: list[ScoredRows] = []
    for position, name in enumerate(names):
        column = column_of(rows, position, len(names))
        if column not in by_column:
            scored = without_only_query(scored_rows(rows, column)).lowered(level)
            if len(scored) == 0:
                raise ValueError(f"y has no score for {name}.")
            by_column[column] = ScoredRows(scored, loss, level)
        problems.append(by_column[column])
    warn_of_ties(*problems)
    shown = problems[0]
    if len(by_column) > 1:
        shown = ScoredRows(scored_anywhere(rows).lowered(level), loss, level)
    index = [to_numpy(problem.rows.index) for problem in problems]
    return TrainingData(
        features=features,
        problems=problems,
        index=index,
        groups=_groups(shown, index),
        shown=shown,
        unscored=unscored,
        n_plain=n_plain,
        weights=rows.weights,
        level=level,
        with_queries=with_queries,
    )


def summed_data(
    summed: Any,
    features: Any,
    n_views: int,
    unscored: Unscored,
    *,
    n_plain: int,
    with_queries: bool,
) -> TrainingData:
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
        unscored=unscored,
        n_plain=n_plain,
        level=summed.level,
        n_summed=summed.n_rows,
        with_queries=with_queries,
    )


def compared_data(
    problem: ComparedRows,
    used: Index,
    features: Array,
    n_views: int,
    unscored: Unscored,
    *,
    n_plain: int,
    with_queries: bool,
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
        unscored=unscored,
        n_plain=n_plain,
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


def column_of(rows: Rows, position: int, n_views: int) -> int:
    """The column that holds the scores of a view; refuses a number of columns that no views
    explain.
    """
    assert rows.scores is not None
    n_columns = int(rows.scores.shape[1])
    if n_columns not in (1, n_views):
        raise ValueError(
            f"y has {n_columns} columns for {n_views} views; give one column, or one per view."
        )
    return min(position, n_columns - 1)


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
    return held_rows(rows.features, np.flatnonzero(without), queries, rows.weights)


def held_rows(
    features: Array, numbers: Index, queries: Index | None, weights: Array | None = None
) -> list[HeldRows]:
    """The rows of X with these numbers, where there are any, as unscored rows."""
    if len(numbers) == 0:
        return []
    codes = None
    if queries is not None:
        codes = np.unique(queries[numbers], return_inverse=True)[1].astype(np.int64)
    return [HeldRows(features, codes, numbers, take(weights, numbers))]
