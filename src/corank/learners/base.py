"""What learners with a norm penalty and one view share: parameters and their checks, fitting, update."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from corank._backend import to_numpy
from corank._warnings import warn_user
from corank.basis import AUTO_SIZE, BasisNotice, FeatureBasis, KernelBasis, Whitening, candidate_limit, check_basis
from corank.kernels import Kernel
from corank.learners.files import SHARED, Contents
from corank.learners.learner import COMPARED, PRECOMPUTED
from corank.learners.parameters import candidates, check_choice, read_kernel, seed
from corank.learners.scans import TOO_MANY, check_alone, note_features, passing
from corank.learners.single import SingleLearner
from corank.learners.soundness import check_single
from corank.looking import Looking
from corank.problem import Problem, ScoredRows
from corank.rows import Rows, read_rows
from corank.scanned import held_rows, look_at
from corank.scans import Scan
from corank.solvers.direct import DualSystem, PrimalSystem, System
from corank.solvers.fit import Settings, Solution, Training, solve
from corank.solvers.holdout import SCORINGS
from corank.solvers.streamed import ScoredScan, solve_streamed
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
        self._keep(solution, training.problem)
        self._warn_untuned(settings)
        return self

    # ---------------------------------------------------------------- scans

    def _fit_scan(self, scan: Scan, given: Mapping[str, Any], checkpoint: Any) -> Self:
        """Fit the scored rows of a scan: in memory where they fit, else from sums."""
        check_alone(scan, given)
        comparison = self._comparison()
        kernel = read_kernel(self.kernel, self.degree, self.coef0, self.kernel_params)
        if kernel.precomputed:
            raise ValueError("kernel='precomputed' needs all kernel values in memory; a scan holds features.")
        self._check_parameters()
        note_features(self, scan)
        size = int(self.basis) if isinstance(self.basis, numbers.Integral) else AUTO_SIZE
        with passing(self, checkpoint, {"X": scan}) as passes:
            looking = Looking(candidate_limit(size), seed(self.random_state))
            look = look_at(scan, passes, looking, "X", contiguous=True)
            if look.n_scored == 0:
                raise ValueError("the scan has no scored row: its score column is empty.")
            if look.held is not None:
                everything, rows = held_rows(look, with_queries=scan.has_queries)
                return self._fit_rows(everything, rows, with_queries=scan.has_queries)
            level = look.level if self._centred else 0.0
            return self._fit_sums(ScoredScan(scan, look, passes, comparison, level))

    def _check_parameters(self) -> None:
        """Refuse what no rows could make right, before they are passed over."""
        candidates(self.gamma, "gamma", ("scale", "tune"))
        candidates(self.alpha, "alpha", ("tune",))
        check_choice(self.scoring, "scoring", (None, *SCORINGS))
        check_choice(self.basis_selection, "basis_selection", ("pivoted", "random"))
        if isinstance(self.basis, str | numbers.Integral):
            check_basis(self.basis, sys.maxsize, sys.maxsize)

    def _fit_sums(self, rows: ScoredScan) -> Self:
        """Fit more scored rows than fit into memory."""
        n = rows.look.n_scored
        settings = Settings(
            kernel=read_kernel(self.kernel, self.degree, self.coef0, self.kernel_params),
            gamma=candidates(self.gamma, "gamma", ("scale", "tune")),
            alpha=candidates(self.alpha, "alpha", ("tune",)),
            basis=self._streamed_basis(n),
            selection=self.basis_selection,
            scoring=self.scoring or "squared",
            centred=self._centred,
            seed=seed(self.random_state),
        )
        check_choice(self.scoring, "scoring", (None, *SCORINGS))
        if settings.tunes and (self.cv is not None or self.scoring == "disagreement"):
            what = "cv" if self.cv is not None else "scoring='disagreement'"
            raise ValueError(f"{what} needs the scored rows in memory, but {TOO_MANY.format(rows=n)}; leave it out.")
        solution, gram = solve_streamed(rows, settings)
        if rows.comparison.needs_queries and float(gram.matrix[-2, -2]) <= 1e-28 * n:
            warn_user("y: all scores are tied within every query, so there is nothing to rank; the model is constant.")
        self._level, self._with_queries = rows.level, rows.scan.has_queries
        self._n_seen, self._n_scored, self._n_queries = rows.look.n_rows, n, rows.n_queries
        self.encoder_ = self.table_ = None
        self._keep(solution)
        self._warn_untuned(settings)
        return self

    def _streamed_basis(self, n_scored: int) -> Any:
        """What `basis` means where rows are only passed over."""
        check_choice(self.basis_selection, "basis_selection", ("pivoted", "random"))
        basis = self.basis
        if isinstance(basis, str) and basis == "auto":
            warn_user(f"basis='auto' takes {AUTO_SIZE} of {n_scored} rows as basis.", BasisNotice)
            return AUTO_SIZE
        if isinstance(basis, numbers.Integral) and not isinstance(basis, bool):
            return check_basis(basis, n_scored, n_scored)
        if isinstance(basis, str) and basis == "features":
            if self.kernel != "linear":
                raise ValueError(f"basis='features' needs kernel='linear', got kernel={self.kernel!r}.")
            return basis
        raise ValueError(
            f"basis={basis!r} needs the rows in memory, but {TOO_MANY.format(rows=n_scored)}; give a number of basis "
            "rows, or 'features' with kernel='linear'."
        )

    # ---------------------------------------------------------------- what is kept

    def _warn_untuned(self, settings: Settings) -> None:
        if settings.tunes and self.path_ is None:
            warn_user(
                f"alpha was not tuned: too little to hold anything out. It was set to {self.alpha_:.3g}"
                + (", the scale of the data." if isinstance(settings.alpha, str) else "."),
            )

    def _keep(self, solution: Solution, problem: Problem | None = None) -> None:
        """Set the fitted attributes, and what `update` needs; no problem where there are only sums."""
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
        if problem is not None and not isinstance(problem, ScoredRows):
            return
        if isinstance(solution.system, PrimalSystem):
            self._statistics = solution.system.statistics.collapsed()
            self._whitening = basis.whitening if isinstance(basis, KernelBasis) else None
        elif problem is not None and not self._kernel.precomputed:  # whose matrix cannot grow
            self._rows = problem.rows

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
