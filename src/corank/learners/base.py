"""What learners with one view share: parameters and their checks, fitting, update."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from corank._backend import to_numpy
from corank._warnings import warn_user
from corank.basis import BasisNotice, FeatureBasis, KernelBasis, Whitening, check_basis, resolve_basis
from corank.kernels import Kernel, check_precomputed
from corank.learners.files import SHARED, Contents
from corank.learners.learner import COMPARED, PRECOMPUTED, Expansion, Learner
from corank.learners.parameters import candidates, check_choice, check_weights, read_kernel, seed
from corank.learners.soundness import check_single
from corank.problem import ScoredRows
from corank.rows import Rows, read_rows
from corank.solvers.direct import DualSystem, PrimalSystem
from corank.solvers.fit import Settings, Solution, Training, solve
from corank.solvers.holdout import SCORINGS
from corank.statistics import Statistics

MAX_COLUMNS = 20_000  # of basis="features" in the primal: a square matrix of that size is 3 GB


class KernelLearner(Learner):
    """Kernel least squares on one view. A learner adds its comparison, its intercept and its score."""

    _contents = Contents({**SHARED, "kernel": "_kernel", "whitening": "_whitening"}, check_single)

    @property
    def _pairwise(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _expansions(self) -> list[Expansion]:
        return [Expansion(self.coef_, self._kernel, self.basis_points_)]

    # ---------------------------------------------------------------- fit

    def _settings(self, training: Training) -> Settings:
        """The parameters, checked against the rows."""
        kernel = read_kernel(self.kernel, self.degree, self.coef0, self.kernel_params)
        check_choice(self.scoring, "scoring", (None, *SCORINGS))
        check_choice(self.basis_selection, "basis_selection", ("pivoted", "random"))
        if kernel.precomputed:
            check_precomputed(training.everything)
        return Settings(
            kernel=kernel,
            gamma=candidates(self.gamma, "gamma", ("scale", "tune")),
            alpha=candidates(self.alpha, "alpha", ("tune",)),
            basis=self._basis_spec(training),
            selection=self.basis_selection,
            cv=self.cv,
            scoring=self.scoring or "squared",
            centred=self._centred,
            seed=seed(self.random_state),
        )

    def _basis_spec(self, training: Training) -> Any:
        n, columns = len(training.index), int(training.everything.shape[1])
        spec = check_basis(self.basis, int(training.everything.shape[0]), n)
        resolved = resolve_basis(spec, n)
        if isinstance(resolved, str) and resolved == "features":
            if self.kernel != "linear":
                raise ValueError(f"basis='features' needs kernel='linear', got kernel={self.kernel!r}.")
            if training.problem.operator.n_roots > columns > MAX_COLUMNS:
                raise ValueError(
                    f"basis='features' with {columns} columns needs a square matrix of that size; "
                    "use basis='auto' or a number of basis rows."
                )
        if isinstance(spec, str) and spec == "auto" and isinstance(resolved, int):
            warn_user(
                f"basis='auto' takes {resolved} of {n} rows as basis. "
                f"Say basis={resolved}, another number or 'all' to choose yourself.",
                BasisNotice,
            )
        return resolved

    def _fit_scores(self, X: Any, y: Any, qid: Any, sample_weight: Any) -> Self:
        comparison = self._comparison()
        check_weights(comparison, sample_weight)
        everything, rows = read_rows(self, X, y, qid, sample_weight)
        if rows.n_queries == 1:
            rows = replace(rows, queries=None)
        level = ScoredRows(rows, comparison).mean_score if self._centred else 0.0
        rows = rows.lowered(level)
        problem = ScoredRows(rows, comparison, level)
        if problem.is_tied:
            warn_user("y: all scores are tied within every query, so there is nothing to rank; the model is constant.")
        return self._fit_training(
            Training(problem, to_numpy(rows.index), everything, rows.weights), with_queries=qid is not None, level=level
        )

    def _fit_training(self, training: Training, *, with_queries: bool, level: float = 0.0) -> Self:
        """Fit a checked problem, whose scores had a level taken out."""
        settings = self._settings(training)
        solution = solve(training, settings)
        self._level = level
        self._keep(training, solution)
        if settings.tunes and self.path_ is None:
            warn_user(
                f"alpha was not tuned: too little to hold anything out. It was set to {self.alpha_:.3g}"
                + (", the scale of the data." if isinstance(settings.alpha, str) else "."),
            )
        self._with_queries = with_queries
        return self

    def _keep(self, training: Training, solution: Solution) -> None:
        """Set the fitted attributes, and what `update` needs."""
        basis = solution.basis
        self.coef_ = solution.coefficients
        self.intercept_ = self._level + solution.intercept
        self.alpha_ = solution.alpha
        self.path_ = solution.path
        self.basis_ = solution.rows
        self.basis_points_ = basis.points if isinstance(basis, KernelBasis) else None
        self._kernel = basis.kernel if isinstance(basis, KernelBasis) else Kernel("linear")
        self.gamma_ = self._kernel.gamma
        self._n_seen = int(training.everything.shape[0])
        self._n_scored = len(training.index)
        self._n_queries = training.problem.n_queries
        self.encoder_ = self.table_ = None  # those of a loaded model belong to what it was fitted on before
        self._whitening: Whitening | None = None
        self._statistics: Statistics | None = None
        self._rows: Rows | None = None
        if not isinstance(training.problem, ScoredRows):
            return
        if isinstance(solution.system, PrimalSystem):
            self._statistics = solution.system.statistics.collapsed()
            self._whitening = basis.whitening if isinstance(basis, KernelBasis) else None
        elif not self._kernel.precomputed:  # whose matrix cannot grow
            self._rows = training.problem.rows

    # ---------------------------------------------------------------- update

    def _why_fixed(self) -> str:
        return PRECOMPUTED if self._kernel.precomputed else COMPARED

    def _grow(self, X: Any, y: Any, qid: Any, sample_weight: Any) -> None:
        everything, rows = read_rows(self, self._encoded(X), y, qid, sample_weight, reset=False)
        rows = rows.beside(self.coef_).lowered(self._level)
        self._warn_of_nothing_new([rows])
        if self._statistics is not None:
            self._update_sums(rows if self._with_queries else replace(rows, queries=None))
        else:
            self._update_rows(rows)
        self._n_seen += int(everything.shape[0])
        self._n_scored += len(rows)
        self._n_queries += rows.n_queries if self._with_queries else 0

    def _update_sums(self, rows: Rows) -> None:
        assert self._statistics is not None
        (function,) = self._expansions()
        basis = function.basis(self.coef_, self._whitening)
        new = PrimalSystem.gathered(ScoredRows(rows, self._statistics.comparison), basis)
        system = PrimalSystem(basis, self._statistics.merged(new.statistics))
        offset = system.gram.mean_score if self._centred else 0.0
        self.coef_, self.intercept_ = system.solve(self.alpha_, offset), self._level + offset
        self._statistics = system.statistics

    def _update_rows(self, rows: Rows) -> None:
        assert self._rows is not None
        kept = self._rows
        if self._with_queries and kept.queries is None:  # fitted on one query, which had a name
            kept = replace(kept, queries=kept.index * 0)
        merged = kept.extended(rows if self._with_queries else replace(rows, queries=None), self._n_seen)
        problem = ScoredRows(merged, self._comparison())
        basis: KernelBasis | FeatureBasis
        if self.basis_points_ is None:
            basis = FeatureBasis(self.n_features_in_, self.coef_)
        else:
            basis = KernelBasis(self._kernel, merged.features)
            self.basis_, self.basis_points_ = to_numpy(merged.index), merged.features
        offset = problem.mean_score if self._centred else 0.0
        self.coef_, self.intercept_ = DualSystem(problem, basis).solve(self.alpha_, offset), self._level + offset
        self._rows = merged
