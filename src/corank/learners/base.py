"""What learners with a norm penalty and one view share: parameters and their checks, fitting, update."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from corank._backend import to_numpy
from corank._warnings import warn_user
from corank.basis import FeatureBasis, KernelBasis, Whitening
from corank.kernels import Kernel
from corank.learners.files import SHARED, Contents
from corank.learners.learner import COMPARED, PRECOMPUTED
from corank.learners.parameters import candidates, seed
from corank.learners.single import SingleLearner
from corank.learners.soundness import check_single
from corank.problem import ScoredRows
from corank.rows import Rows, read_rows
from corank.solvers.direct import DualSystem, PrimalSystem, System
from corank.solvers.fit import Settings, Solution, Training, solve
from corank.statistics import Statistics

MAX_COLUMNS = 20_000  # of basis="features" in the primal: a square matrix of that size is 3 GB


class KernelLearner(SingleLearner):
    """Kernel least squares on one view. A learner adds its comparison, its intercept and its score."""

    _contents = Contents({**SHARED, "kernel": "_kernel", "whitening": "_whitening"}, check_single)

    # ---------------------------------------------------------------- fit

    def _settings(self, training: Training) -> Settings:
        """The parameters, checked against the rows."""
        return Settings(
            kernel=self._read_kernel(training),
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
        columns = int(training.everything.shape[1])
        spec = self._basis_rows(training)
        if isinstance(spec, str) and spec == "features":
            if self.kernel != "linear":
                raise ValueError(f"basis='features' needs kernel='linear', got kernel={self.kernel!r}.")
            if training.problem.operator.n_roots > columns > MAX_COLUMNS:
                raise ValueError(
                    f"basis='features' with {columns} columns needs a square matrix of that size; "
                    "use basis='auto' or a number of basis rows."
                )
        return spec

    def _fit_training(self, training: Training, *, with_queries: bool, level: float = 0.0) -> Self:
        """Fit a checked problem, whose scores had a level taken out."""
        settings = self._settings(training)
        solution = solve(training, settings)
        self._keep_counts(training, with_queries=with_queries, level=level)
        self._keep(training, solution)
        if settings.tunes and self.path_ is None:
            warn_user(
                f"alpha was not tuned: too little to hold anything out. It was set to {self.alpha_:.3g}"
                + (", the scale of the data." if isinstance(settings.alpha, str) else "."),
            )
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
        self._statistics = system.statistics
        self._solve_again(system, system.gram.mean_score if self._centred else 0.0)

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
        self._rows = merged
        self._solve_again(DualSystem(problem, basis), problem.mean_score if self._centred else 0.0)

    def _solve_again(self, system: System, offset: float) -> None:
        """The same alpha on more rows."""
        self.coef_, self.intercept_ = system.solve(self.alpha_, offset), self._level + offset
