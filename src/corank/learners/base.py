"""What the kernel learners share: parameters and their checks, prediction, update, files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from corank._backend import Array, dtype_name, is_foreign, is_sparse, like, namespace, to_numpy
from corank._warnings import warn_user
from corank.basis import BasisNotice, FeatureBasis, KernelBasis, Whitening, check_basis, resolve_basis
from corank.comparison import Comparison
from corank.kernels import Kernel, check_precomputed
from corank.learners.files import Saveable
from corank.learners.parameters import candidates, check_choice, check_weights, read_kernel, seed
from corank.problem import ScoredRows
from corank.rows import Rows, is_frame, read_features, read_rows
from corank.solvers.direct import DualSystem, PrimalSystem
from corank.solvers.fit import Settings, Solution, Training, solve
from corank.solvers.predict import predict_in_blocks
from corank.statistics import Statistics

MAX_COLUMNS = 20_000  # of basis="features" in the primal: a square matrix of that size is 3 GB


class KernelLearner(Saveable, BaseEstimator):  # type: ignore[misc]
    """Kernel least squares on one view. A learner adds its comparison, its intercept and its score."""

    __metadata_request__fit = {"qid": "groups"}  # noqa: RUF012
    __metadata_request__score = {"qid": "groups", "sample_weight": True}  # noqa: RUF012

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.target_tags.required = True
        return tags

    def _comparison(self) -> Comparison:
        """What is compared with what; checks the learner's own parameters."""
        raise AssertionError("a learner says what it compares")

    @property
    def _centred(self) -> bool:
        return False

    # ---------------------------------------------------------------- fit

    def _settings(self, training: Training) -> Settings:
        """The parameters, checked against the rows."""
        kernel = read_kernel(self.kernel, self.degree, self.coef0, self.kernel_params)
        check_choice(self.scoring, "scoring", (None, "squared", "disagreement"))
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

    def update(self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None) -> Self:
        """Add newly scored rows to a fitted model.

        Kernel, basis rule and `alpha_` stay; to choose them anew, fit again. A model on all its rows takes the new
        ones into its basis; a model on a subset only adds to its sums, however many rows it has seen. Rows with a
        qid form queries of their own; without one they join the one query of a model fitted without qid.

        Parameters
        ----------
        X : (n, d), as in `fit`
        y : (n,) scores, NaN = unscored
        qid : (n,) query labels, needed where the model was fitted with them
        sample_weight : (n,) weights

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if self._statistics is None and self._rows is None:
            raise ValueError(
                "update cannot extend a precomputed kernel; fit again with the larger matrix."
                if self._kernel.precomputed
                else "update adds scored rows, but this model was fitted on comparisons; fit it again instead."
            )
        if (qid is not None) != self._with_queries and self._comparison().needs_queries:
            raise ValueError(
                "qid must be given to update as it was to fit: "
                + ("the model was fitted with qid." if self._with_queries else "the model was fitted without qid.")
            )
        check_weights(self._comparison(), sample_weight)
        everything, rows = read_rows(self, self._encoded(X), y, qid, sample_weight, reset=False)
        rows = rows.beside(self.coef_).lowered(self._level)
        if self._with_queries and ScoredRows(rows, self._comparison()).is_tied:
            warn_user(
                "update: no two of the new rows can be compared, so nothing was learned from them. New rows form "
                "queries of their own; to add to a query that is already known, fit again with all rows."
            )
        if self._statistics is not None:
            self._update_sums(rows if self._with_queries else replace(rows, queries=None))
        else:
            self._update_rows(rows)
        self._n_seen += int(everything.shape[0])
        self._n_scored += len(rows)
        self._n_queries += rows.n_queries if self._with_queries else 0
        return self

    def _update_sums(self, rows: Rows) -> None:
        assert self._statistics is not None
        basis: KernelBasis | FeatureBasis
        if self.basis_points_ is None:
            basis = FeatureBasis(self.n_features_in_, self.coef_)
        else:
            basis = KernelBasis(self._kernel, self.basis_points_, own_whitening=self._whitening)
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

    # ---------------------------------------------------------------- predict

    def predict(self, X: Any) -> Array:
        """Scores of the rows of X: higher is better.

        Parameters
        ----------
        X : (n, d) array, frame, CSR or tensor; for a precomputed kernel its values with all rows of `fit`. A table
            goes through the model's `encoder_` first, where it has one

        Returns
        -------
        (n,) in the library, on the device and with the precision of X. O(n r d), in blocks: memory does not grow
        with n beyond the result.
        """
        check_is_fitted(self)
        features = read_features(self, self._encoded(X), reset=False)
        reference = np.empty(0) if is_sparse(features) else features
        coefficients = like(self.coef_, reference)
        points = self.basis_points_
        if points is not None and not is_sparse(points):
            points = like(points, reference, dtype_name(points))
        basis = FeatureBasis(self.n_features_in_, reference) if points is None else KernelBasis(self._kernel, points)
        if is_sparse(points) and is_foreign(features):
            raise ValueError("the model was fitted on a CSR matrix; X must be a NumPy array or CSR.")
        xp = namespace(reference)
        result = predict_in_blocks(basis, coefficients, features) + self.intercept_
        return xp.astype(result, features.dtype if is_foreign(features) else features.dtype.type, copy=False)

    def _encoded(self, X: Any) -> Any:
        """A table as the features of a model that was saved with a TableEncoder; anything else as it is."""
        return X if self.encoder_ is None or not is_frame(X) else self.encoder_.transform(X)
