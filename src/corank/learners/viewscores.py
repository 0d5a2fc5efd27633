"""Scores as they were handed over, one column or one a view → what is scored in every view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corank._backend import Array, first_appearance, is_foreign, is_sparse, like, namespace, to_numpy
from corank.comparison import Comparison
from corank.problem import ComparedRows, ScoredRows
from corank.rows import Rows, encode_queries, read_scores, read_weights
from corank.statistics import Index
from corank.views import View, select


@dataclass(frozen=True)
class Scored:
    """What is scored, view by view.

    problems, groups : as in ViewData, without the columns of the views cut out of `features`
    shown : what a splitter is shown: the rows scored in any view, or the comparisons
    index : (n_v,) a view, row numbers in X of the rows of its problem
    weights : (n,) of the rows of X, or None for ones
    """

    problems: Sequence[ScoredRows | ComparedRows]
    groups: Sequence[Index] | None
    shown: ScoredRows | ComparedRows
    index: Sequence[Index]
    level: float = 0.0
    weights: Array | None = None


@dataclass(frozen=True)
class GivenScores:
    """All rows of X with their scores.

    rows : all of them, without scores
    scores : (n, 1), or (n, M) one column a view; NaN = unscored
    given : (n, 1 or M) where there is a score that counts
    used : (n,) rows whose weight is not zero
    """

    rows: Rows
    scores: Array
    given: np.ndarray[Any, np.dtype[np.bool_]]
    used: np.ndarray[Any, np.dtype[np.bool_]]

    @classmethod
    def read(cls, features: Array, y: Any, qid: Any, sample_weight: Any) -> GivenScores:
        """Check what came with the features."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None.")
        n = int(features.shape[0])
        reference = np.empty(0) if is_sparse(features) else features
        scores = _read_score_columns(y, n, reference)
        weights = read_weights(sample_weight, n, reference)
        used = np.ones(n, dtype=bool) if weights is None else to_numpy(weights) > 0
        given = ~np.isnan(to_numpy(scores)) & used[:, None]
        if not given.any():
            raise ValueError("y has no scored row: every score is NaN, or the weights of scored rows are zero.")
        rows = Rows(
            features=features,
            scores=None,
            queries=None if qid is None else like(encode_queries(qid, n)[0], reference, "int64"),
            n_queries=1,
            weights=weights,
            index=like(np.arange(n), reference, "int64"),
        )
        return cls(rows, scores, given, used)

    @classmethod
    def held(cls, rows: Rows) -> GivenScores:
        """Rows that all have a score, read from a scan."""
        assert rows.scores is not None
        every = np.ones((len(rows), 1), dtype=bool)
        return cls(replace(rows, scores=None), rows.scores[:, None], every, every[:, 0])

    @property
    def queries(self) -> Index | None:
        """The query codes, None where there is no qid."""
        return None if self.rows.queries is None else np.asarray(to_numpy(self.rows.queries))

    @property
    def plain(self) -> Index:
        """The rows without any score."""
        return np.flatnonzero(~self.given.any(axis=1) & self.used)

    @property
    def mean(self) -> float:
        """The weighted mean of all given scores."""
        scores, weights = to_numpy(self.scores), self.rows.weights
        own = np.ones(len(scores)) if weights is None else to_numpy(weights)
        return float(np.average(scores[self.given], weights=np.broadcast_to(own[:, None], scores.shape)[self.given]))

    def _numbered_queries(self) -> Index | None:
        """Query codes in the order in which queries are first scored, −1 elsewhere: unscored rows change no fold."""
        if (queries := self.queries) is None:
            return None
        scored = self.given.any(axis=1)
        codes = np.full(len(queries), -1, dtype=np.int64)
        codes[scored] = first_appearance(queries[scored])[0]
        return codes

    def check_columns(self, n_views: int) -> None:
        """Refuse a number of columns that no views explain."""
        n_scores = int(self.scores.shape[1])
        if n_scores not in (1, n_views):
            raise ValueError(f"y has {n_scores} columns for {n_views} views; give one column, or one a view.")

    def column(self, view: int) -> int:
        """The column that holds the scores of a view."""
        return min(view, int(self.scores.shape[1]) - 1)

    def scored_in(self, view: int, level: float) -> Rows:
        """The rows that are scored in a view, with a level taken out of their scores."""
        column = self.column(view)
        scored = like(np.flatnonzero(self.given[:, column]), self.rows.index, "int64")
        return replace(self.rows, scores=self.scores[:, column] - level).take(scored)

    def _scored_anywhere(self, level: float) -> Rows:
        """The rows that are scored in any view, each with the first of its scores."""
        first = to_numpy(self.scores)[np.arange(len(self.given)), np.argmax(self.given, axis=1)]
        rows = replace(self.rows, scores=like(first, self.scores) - level)
        return rows.take(like(np.flatnonzero(self.given.any(axis=1)), self.rows.index, "int64"))

    def of_views(self, views: Sequence[View], comparison: Comparison, level: float) -> Scored:
        """Every view's own scored rows, all columns still there."""
        problems, groups, index = [], [], []
        queries = self._numbered_queries()
        one_query = queries is None or int(queries.max()) == 0
        known: dict[int, tuple[ScoredRows, Index]] = {}
        for position, view in enumerate(views):
            column = self.column(position)
            if column not in known:
                own = self.scored_in(position, level)
                if len(own) == 0:
                    raise ValueError(f"y has no score for {view.name}.")
                own = own if own.n_queries > 1 else replace(own, queries=None)
                known[column] = ScoredRows(own, comparison, level), np.asarray(to_numpy(own.index))
            problem, numbers = known[column]
            problems.append(problem)
            index.append(numbers)
            if not one_query and queries is not None:
                groups.append(queries[np.flatnonzero(self.given[:, column])])
            elif not comparison.needs_queries:
                groups.append(numbers)
        shown = problems[0] if len(known) == 1 else ScoredRows(self._scored_anywhere(level), comparison, level)
        return Scored(problems, groups or None, shown, index, level, self.rows.weights)


def cut(problem: ScoredRows | ComparedRows, columns: Index) -> ScoredRows | ComparedRows:
    """The problem as a view of those columns sees it."""
    own = select(problem.features, columns)
    if isinstance(problem, ScoredRows):
        return replace(problem, rows=replace(problem.rows, features=own))
    return replace(problem, features=own)


def _read_score_columns(y: Any, n: int, reference: Array) -> Array:
    """(n, t): one column, or one a view."""
    array = y if is_foreign(y) else y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
    if array.ndim == 2 and array.shape[1] > 1:
        columns = [read_scores(array[:, k], n, reference, name="y") for k in range(array.shape[1])]
        return namespace(columns[0]).stack(columns, axis=1)
    return read_scores(y, n, reference)[:, None]
