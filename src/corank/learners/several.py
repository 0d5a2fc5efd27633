"""What learners with several views share: reading rows and views, bases, fitting."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from corank._backend import Array, namespace, take
from corank._warnings import warn_user
from corank.basis import KernelBasis
from corank.kernels import Kernel
from corank.learners.asking import AskingViews
from corank.learners.coscans import ScannedViews, error_of, joined_paths
from corank.learners.files import SHARED, Contents
from corank.learners.parameters import candidates, check_choice, check_weights, seed
from corank.learners.scans import check_alone, from_dask, is_scan, passing
from corank.learners.soundness import check_several
from corank.learners.viewbasis import BasisMaker
from corank.learners.viewscores import GivenScores, Scored, cut
from corank.problem import ComparedRows, ScoredRows
from corank.rows import read_features
from corank.solvers.agreement import Unscored, ViewData
from corank.solvers.cofit import CoSettings, CoSolution, solve_views
from corank.solvers.effect import Evidence, UnscoredEffect, unscored_effect
from corank.solvers.fit import read_splits
from corank.solvers.holdout import SCORINGS, splits_of_folds
from corank.statistics import Index
from corank.unscored import HeldRows, Part, UnscoredRows
from corank.views import View, read_views

SOLVERS = ("direct", "partitioned", "coordinate", "accelerated")


class CoLearner(AskingViews, ScannedViews):
    """Kernel least squares on several views. A learner adds its comparison, its intercept and its score."""

    __metadata_request__fit: ClassVar[dict[str, str | bool]] = {"unscored": True, "unscored_qid": True}
    _contents = Contents(
        {
            **SHARED,
            "kernels": "_kernels",
            "views": "views_",
            "agreement": "agreement_",
            "sweeps": "n_iter_",
            "rows_unscored": "_n_unscored",
            "compared": "_compared",
            "whitenings": "_whitenings",
            "disagreement": "_disagreement",
            "effect": "_effect",
        },
        check_several,
    )
    _evidence: Evidence | None = None  # stays behind when a model is saved

    @property
    def _pairwise(self) -> bool:
        views: Any = [View(kernel=self.kernel)] if self.views == 1 else self.views
        if not isinstance(views, list | tuple) or len(views) != 1 or not isinstance(views[0], View):
            return False
        return views[0].columns is None and isinstance(views[0].kernel, str) and views[0].kernel == "precomputed"

    def _summary(self) -> dict[str, int]:
        return {**super()._summary(), "unscored": self._n_unscored}

    @property
    def _own_scoring(self) -> Any:
        """What held-out error means where `scoring` is None."""
        return "squared"

    # ---------------------------------------------------------------- fit

    def _fit_scores(
        self,
        X: Any,
        y: Any,
        qid: Any,
        sample_weight: Any,
        unscored: Any,
        unscored_qid: Any,
        checkpoint: Any = None,
    ) -> Self:
        comparison = self._comparison()
        check_weights(comparison, sample_weight)
        self._check_parameters()
        X, y, qid = from_dask(X, y, qid)
        unscored, _, unscored_qid = from_dask(unscored, None, unscored_qid)
        if is_scan(X):
            check_alone(X, {"y": y, "qid": qid, "sample_weight": sample_weight})
        rows = {"X": X, "y": y, "qid": qid, "sample_weight": sample_weight, "unscored": unscored}
        with passing(self, checkpoint, rows) as passes:
            if is_scan(X):
                return self._fit_scan(X, unscored, unscored_qid, passes)
            features = read_features(self, X, reset=True)
            given = GivenScores.read(features, y, qid, sample_weight)
            self._set_views(int(features.shape[1]))
            plain = plain_rows(features, given.plain, given.queries, given.rows.weights)
            more = self._more_unscored(features, unscored, unscored_qid, passes)
            return self._fit_given(features, given, [*plain, *more], len(given.plain), with_queries=qid is not None)

    def _fit_given(
        self, features: Array, given: GivenScores, parts: list[Part], n_plain: int, *, with_queries: bool
    ) -> Self:
        """Fit scored rows with unscored ones, `n_plain` of which are among the features."""
        comparison, rows = self._comparison(), UnscoredRows(tuple(parts))
        given.check_columns(len(self.views_))
        scored = given.of_views(self.views_, comparison, given.mean if self._centred else 0.0)
        if all(isinstance(p, ScoredRows) and p.is_tied for p in scored.problems):
            warn_user("y: all scores are tied within every query, so there is nothing to rank; the model is constant.")
        return self._fit_views(features, scored, rows, n_plain, with_queries=with_queries)

    def _check_parameters(self) -> None:
        check_choice(self.scoring, "scoring", (None, *SCORINGS))
        check_choice(self.basis_selection, "basis_selection", ("pivoted", "random"))
        check_choice(self.solver, "solver", SOLVERS)
        if not isinstance(self.max_iter, numbers.Integral) or self.max_iter < 1:
            raise ValueError(f"max_iter must be a whole number from 1, got {self.max_iter!r}.")
        if not isinstance(self.tol, numbers.Real) or not 0 < float(self.tol) < 1:
            raise ValueError(f"tol must lie between 0 and 1, got {self.tol!r}.")
        candidates(self.alpha, "alpha", ("tune",))
        candidates(self.agreement, "agreement", ("tune",), zero=True)
        self._seed = seed(self.random_state)  # drawn once: every kernel width is judged on the same folds
        self._cv = list(self.cv) if hasattr(self.cv, "__next__") else self.cv

    def _set_views(self, n_columns: int, names: Any = None) -> None:
        rng = np.random.default_rng(self._seed)
        names = getattr(self, "feature_names_in_", None) if names is None else names
        views = read_views(self.views, n_columns, names, rng)
        if not isinstance(self.views, list | tuple):
            views = [replace(view, kernel=self.kernel, gamma=self.gamma) for view in views]
        if self.solver == "partitioned" and len(views) != 2:
            raise ValueError(f"solver='partitioned' is for two views, got {len(views)}; use solver='direct'.")
        self.views_ = views

    def _fit_views(
        self, features: Array, scored: Scored, rows: UnscoredRows, n_plain: int, *, with_queries: bool
    ) -> Self:
        """Fit checked rows."""
        maker = BasisMaker.of(self, features, scored.weights, scored.index, rows)
        found: CoSolution | None = None
        paths = []
        choices = list(maker.widths())
        # read once: a splitter without a seed gives other folds each time, and widths are compared on the same ones
        settings = replace(self._settings(scored, maker), compared=len(choices) > 1)
        for widths in choices:
            data, numbers_ = self._view_data(maker, scored, widths)
            solution = solve_views(data, Unscored(self._unscored_comparison(), rows), settings)
            if solution.path is not None:
                paths.append((solution.path, widths[0]))
            better = found is None or error_of(solution) < error_of(found)
            if better:
                found, self.basis_ = solution, numbers_
        assert found is not None
        self._keep(found, scored.level, len(np.unique(np.concatenate(scored.index))), with_queries)
        self._n_seen, self._n_unscored = int(features.shape[0]) + rows.n_rows - n_plain, rows.n_rows
        self._keep_training(found.system, rows, in_memory=maker.in_memory)
        if len(paths) > 1:
            self.path_ = joined_paths(paths)
        self._warn(rows, found)
        return self

    def _view_data(
        self, maker: BasisMaker, scored: Scored, widths: Sequence[float | None]
    ) -> tuple[list[ViewData], list[Index | None]]:
        """Every view of the data, and the row numbers of its basis."""
        data, bases = [], []
        for position, view in enumerate(self.views_):
            problem = cut(scored.problems[position], view.columns)
            basis, own = maker.basis(position, problem.features, widths[position])
            groups = None if scored.groups is None else scored.groups[position]
            if isinstance(problem, ComparedRows):
                groups = problem.groups
            data.append(ViewData(problem, basis, view.columns, view.penalty, groups))
            bases.append(own)
        return data, bases

    def _settings(self, scored: Scored, maker: BasisMaker) -> CoSettings:
        nothing = maker.pool.n_unscored == 0 or len(scored.problems) == 1
        given = read_splits(self._cv, scored.shown, np.unique(np.concatenate(maker.index)), maker.n_rows)
        settings = replace(
            self._co_settings(),
            dual=self.solver == "direct" and maker.dual,
            splits=splits_of_folds(given) if isinstance(given, np.ndarray) else given,
        )
        return replace(settings, agreement=0.0) if nothing else settings

    def _co_settings(self) -> CoSettings:
        """What the learner was asked for, whatever the rows."""
        return CoSettings(
            alpha=candidates(self.alpha, "alpha", ("tune",)),
            agreement=candidates(self.agreement, "agreement", ("tune",), zero=True),
            dual=False,
            scoring=self.scoring or self._own_scoring,
            centred=self._centred,
            seed=self._seed,
            solver=self.solver,
            max_iter=int(self.max_iter),
            tol=float(self.tol),
        )

    def _keep(self, solution: CoSolution, level: float, n_scored: int, with_queries: bool) -> None:
        """Set the fitted attributes."""
        data = solution.system.views
        self.coef_ = solution.coefficients
        self.intercept_ = level + solution.intercept
        self.alpha_, self.agreement_, self.path_ = solution.alpha, solution.agreement, solution.path
        self.basis_points_ = [v.basis.points if isinstance(v.basis, KernelBasis) else None for v in data]
        self._kernels = [v.basis.kernel if isinstance(v.basis, KernelBasis) else Kernel("linear") for v in data]
        self.gamma_ = [kernel.gamma for kernel in self._kernels]
        self.n_iter_ = solution.n_iter or 1  # a direct solution is one step
        self._level, self._with_queries, self._n_scored = level, with_queries, n_scored
        self._n_queries = data[0].problem.n_queries
        self._evidence = solution.evidence
        self._effect: UnscoredEffect | None = None
        self.encoder_ = self.table_ = None  # those of a loaded model belong to what it was fitted on before

    def _warn(self, rows: UnscoredRows, solution: CoSolution) -> None:
        wanted = not (isinstance(self.agreement, numbers.Real) and float(self.agreement) == 0)
        if wanted and len(self.views_) == 1:
            warn_user("views: there is only one view, so there is nothing to agree on; agreement has no effect.")
        elif wanted and rows.n_rows == 0:
            warn_user(
                "y has no unscored row and unscored= was not given: nothing to agree on; agreement has no effect."
            )
        can_agree = len(self.views_) > 1 and rows.n_rows > 0
        tunes = not (isinstance(self.alpha, numbers.Real) and isinstance(self.agreement, numbers.Real))
        if tunes and solution.path is None and not (isinstance(self.alpha, numbers.Real) and not can_agree):
            warn_user(
                "nothing was tuned: too little to hold anything out. alpha was set to "
                f"{self.alpha_:.3g}, agreement to {self.agreement_:.3g}."
            )
        if solution.gradient:
            warn_user(
                f"solver={self.solver!r} stopped after {solution.n_iter} sweeps with the gradient at "
                f"{solution.gradient:.2g} of the right-hand side, above tol={self.tol:g}; raise max_iter, lower "
                "agreement, or use solver='direct'.",
                ConvergenceWarning,
            )

    # ---------------------------------------------------------------- what a fitted model says

    @property
    def unscored_effect_(self) -> UnscoredEffect | None:
        """Whether the unscored rows helped: see `UnscoredEffect`. None where there is nothing, or too little, to tell.

        Found when first asked for, by choosing alpha and agreement anew on parts of the scored rows of `fit` and
        judging both choices, with unscored rows and without, on the others. A model file holds it where it was asked
        for before saving, but not what it takes to find it: else it is None after loading.
        """
        check_is_fitted(self)
        can_agree = len(self.views_) > 1 and self._n_unscored > 0
        if self._effect is None and self._evidence is not None and can_agree:
            self._effect = unscored_effect(self._evidence)
        return self._effect

    def _at_a_glance(self) -> Self:
        seen = copy(self)
        seen._evidence = None  # the effect of unscored rows is shown where it is known
        return seen

    def predict_views(self, X: Any) -> Array:
        """The score that every view gives: (n, n_views); `predict` is their mean.

        Parameters
        ----------
        X : as in `predict`

        Returns
        -------
        (n, n_views) in the library, on the device and with the precision of X
        """
        features = self._read(X)
        parts = [function.values(features) for function in self._expansions()]
        return self._scores(namespace(parts[0]).stack(parts, axis=1), features)


def plain_rows(features: Array, plain: Index, queries: Index | None, weights: Array | None) -> list[Part]:
    """Rows of X without any score, whose numbers are `plain`."""
    if len(plain) == 0:
        return []
    own = None if queries is None else np.unique(queries[plain], return_inverse=True)[1].astype(np.int64)
    return [HeldRows(features, own, plain, None if weights is None else take(weights, plain))]
