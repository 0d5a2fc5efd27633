"""What learners with one view share, whatever they fit: reading scores and comparisons into one checked problem."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from corank._backend import Array, first_appearance, take, to_numpy
from corank._warnings import warn_user
from corank.basis import AUTO_LIMIT, AUTO_SIZE, BasisNotice, check_basis, resolve_basis
from corank.kernels import Kernel, check_precomputed
from corank.learners.learner import Expansion, Learner
from corank.learners.parameters import check_choice, check_weights, read_kernel
from corank.problem import ComparedRows, ScoredRows
from corank.rows import Rows, encode_queries, read_comparisons, read_features, read_rows
from corank.solvers.fit import Training
from corank.solvers.holdout import SCORINGS


class SingleLearner(Learner):
    """A learner that sees all columns at once. A kind of learner adds how a checked problem is fitted."""

    _auto_basis = (AUTO_LIMIT, AUTO_SIZE)

    @property
    def _pairwise(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _expansions(self) -> list[Expansion]:
        return [Expansion(self.coef_, self._kernel, self.basis_points_)]

    # ---------------------------------------------------------------- fit

    def _fit_scores(self, X: Any, y: Any, qid: Any, sample_weight: Any) -> Self:
        comparison = self._comparison()
        check_weights(comparison, sample_weight)
        everything, rows = read_rows(self, X, y, qid, sample_weight)
        return self._fit_rows(everything, rows, with_queries=qid is not None)

    def _fit_rows(self, everything: Array, rows: Rows, *, with_queries: bool) -> Self:
        """Fit scored rows, which are some of everything."""
        comparison = self._comparison()
        if rows.n_queries == 1:
            rows = replace(rows, queries=None)
        level = ScoredRows(rows, comparison).mean_score if self._centred else 0.0
        rows = rows.lowered(level)
        problem = ScoredRows(rows, comparison, level)
        if problem.is_tied:
            warn_user("y: all scores are tied within every query, so there is nothing to rank; the model is constant.")
        return self._fit_training(
            Training(problem, to_numpy(rows.index), everything, rows.weights), with_queries=with_queries, level=level
        )

    def _fit_comparisons(self, X: Any, winners: Any, losers: Any, margins: Any, weights: Any, qid: Any) -> Self:
        self._comparison()
        everything = read_features(self, X, reset=True)
        n = int(everything.shape[0])
        first, second, size, weight = read_comparisons(winners, losers, margins, weights, n, X)
        groups = comparison_groups(first, second, n, qid)
        used, ends = np.unique(np.concatenate([first, second]), return_inverse=True)
        features = everything if len(used) == n else take(everything, used)
        problem = ComparedRows(
            features, ends[: len(first)], ends[len(first) :], size, weight, groups, named=qid is not None
        )
        return self._fit_training(Training(problem, used, everything), with_queries=qid is not None)

    def _fit_training(self, training: Training, *, with_queries: bool, level: float = 0.0) -> Self:
        """Fit a checked problem, whose scores had a level taken out."""
        raise AssertionError("a kind of learner says how it is fitted")

    def _read_kernel(self, training: Training) -> Kernel:
        """The kernel, its width still open; checks `scoring`, and the matrix where it is given."""
        kernel = read_kernel(self.kernel, self.degree, self.coef0, self.kernel_params)
        check_choice(self.scoring, "scoring", (None, *SCORINGS))
        if kernel.precomputed:
            check_precomputed(training.everything)
        return kernel

    def _basis_rows(self, training: Training) -> Any:
        """What `basis` asks for, checked against the rows; says so where "auto" takes some of them."""
        check_choice(self.basis_selection, "basis_selection", ("pivoted", "random"))
        n = len(training.index)
        spec = check_basis(self.basis, int(training.everything.shape[0]), n)
        resolved = resolve_basis(spec, n, *self._auto_basis)
        if isinstance(spec, str) and spec == "auto" and isinstance(resolved, int):
            warn_user(
                f"basis='auto' takes {resolved} of {n} rows as basis. "
                f"Say basis={resolved}, another number or 'all' to choose yourself.",
                BasisNotice,
            )
        return resolved

    def _keep_counts(self, training: Training, *, with_queries: bool, level: float) -> None:
        """What a fitted model remembers of its rows."""
        self._level, self._with_queries = level, with_queries
        self._n_seen = int(training.everything.shape[0])
        self._n_scored = len(training.index)
        self._n_queries = training.problem.n_queries
        self.encoder_ = self.table_ = None  # those of a loaded model belong to what it was fitted on before


def comparison_groups(winners: Array, losers: Array, n_rows: int, qid: Any) -> Array:
    """What is held out together: the comparisons of a query, else those of the same two items."""
    if qid is None:
        low, high = np.minimum(winners, losers), np.maximum(winners, losers)
        groups, _ = first_appearance(low * n_rows + high)
        return groups
    queries = to_numpy(encode_queries(qid, n_rows)[0])
    if np.any(queries[winners] != queries[losers]):
        row = int(np.argmax(queries[winners] != queries[losers]))
        raise ValueError(f"comparison {row} is between rows of two queries: {winners[row]} and {losers[row]} of X.")
    groups, _ = first_appearance(queries[winners])
    return groups
