"""Learners with several views: what they read, keep and say beside those with one."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corank.core.arrays import Array, Index, namespace
from corank.core.kernels import is_named
from corank.core.messages import warn_user
from corank.core.observations import ComparedRows, Question
from corank.core.unscored import Part, UnscoredRows
from corank.core.views import View, read_views
from corank.inputs import is_scan, scans, unscored_parts
from corank.learners.bases import AskedBases, AskedView
from corank.learners.least_squares import KernelLeastSquares
from corank.learners.parameters import WITH_UNSCORED, candidates, read_kernel
from corank.learners.training import TrainingData
from corank.learners.update import CHUNKS, COMPARED
from corank.model_files.schema import SEVERAL_VIEWS
from corank.solve.effect import Evidence, UnscoredEffect, unscored_effect
from corank.solve.questions import ask_views
from corank.solve.systems import DualSystem, PrimalSystem, Unscored
from corank.solve.tuning import Settings, Solution, TuningProblem


class ViewLearner(KernelLeastSquares):
    """Several views that agree on unscored rows: what is read, kept and said beside one view."""

    has_views = suggests = True
    __metadata_request__fit = WITH_UNSCORED
    contents = SEVERAL_VIEWS
    _compared = False  # whether it was fitted on comparisons
    _evidence: Evidence | None = None  # stays behind when a model is saved

    @property
    def learned_from(self) -> Question:
        """What the model was fitted on."""
        return "comparison" if self._compared else "score"

    # ---------------------------------------------------------------- parameters

    @property
    def _pairwise(self) -> bool:
        views: Any = self.views
        if isinstance(views, numbers.Integral) and views == 1:
            views = [View(kernel=self.kernel)]
        if not isinstance(views, list | tuple) or len(views) != 1 or not isinstance(views[0], View):
            return False
        return views[0].columns is None and is_named(views[0].kernel, "precomputed")

    def _settings(self) -> Settings:
        agreement = candidates(self.agreement, "agreement", ("tune",), zero=True)
        return replace(super()._settings(), agreement=agreement, judged=True)

    def _asked_bases(self, n_columns: int, settings: Settings, names: Any = None) -> AskedBases:
        rng = np.random.default_rng(settings.seed)
        names = self.feature_names if names is None else names
        views = read_views(self.views, n_columns, names, rng)
        drawn = not isinstance(self.views, list | tuple)
        if drawn:
            views = [replace(view, kernel=self.kernel, gamma=self.gamma) for view in views]
        if settings.solver == "partitioned" and len(views) != 2:
            raise ValueError(
                f"solver='partitioned' is for two views, got {len(views)}; use solver='direct'."
            )
        self.views_ = views
        asked = [
            self._asked(view, basis, settings)
            for view, basis in zip(views, self._specs(len(views)), strict=True)
        ]
        return AskedBases(asked, self.basis_selection, self._auto_basis, settings.seed, drawn)

    def _asked(self, view: View, basis: Any, settings: Settings) -> AskedView:
        """Kernel, width and basis of a view, checked; without its own basis it has that of the
        learner.
        """
        kernel, gamma = settings.kernel, settings.gamma
        assert kernel is not None
        if view.kernel is not self.kernel or view.gamma is not self.gamma:
            kernel = read_kernel(view.kernel, self.degree, self.coef0, self.kernel_params)
            gamma = None
            if kernel.has_width:
                gamma = candidates(view.gamma, f"gamma of {view.name}", ("scale", "tune"))
        return AskedView(view, kernel, gamma, basis if view.basis is None else view.basis)

    def _specs(self, n_views: int) -> list[Any]:
        """What `basis` asks for, view by view: it may list rows for each of them."""
        basis: Any = self.basis
        nested = isinstance(basis, list | tuple) and len(basis) > 0
        if not nested or not all(np.ndim(rows) == 1 for rows in basis):
            return [basis] * n_views
        if len(basis) != n_views:
            raise ValueError(f"basis lists rows for {len(basis)} views, but there are {n_views}.")
        return list(basis)

    # ---------------------------------------------------------------- rows

    def _sharing(
        self,
        data: TrainingData,
        plain: Callable[[], Sequence[Part]],
        others: tuple[Any, Any],
        asked: AskedBases,
        passes: Any = None,
    ) -> TrainingData:
        apart = self._parts_apart(data, *others, asked, passes)
        rows = UnscoredRows((*plain(), *apart))
        if rows.n_rows == 0:
            return data
        unscored = Unscored(self.unscored_loss(), rows)
        return replace(data, unscored=unscored, n_apart=sum(part.n_rows for part in apart))

    def _parts_apart(
        self, data: TrainingData, unscored: Any, labels: Any, asked: AskedBases, passes: Any
    ) -> list[Part]:
        """The rows of `unscored=`, whose queries are their own, numbered behind those of X.

        passes : over `unscored` where that is a scan
        """
        with_queries = self.unscored_loss().needs_queries
        first = int(data.features.shape[0])
        if not is_scan(unscored):
            features = data.shown.features
            return unscored_parts(
                self, features, unscored, labels, with_queries=with_queries, first=first
            )
        if labels is not None:
            raise ValueError(
                "unscored_qid does not go with a scan; name its column in scan(..., query=)."
            )
        asked.refuse_precomputed()
        part: Part = scans().ScannedRows.of(
            unscored.seen_by(self),
            passes or scans().Passes(),
            asked.n_candidates,
            asked.seed,
            first_number=first,
            with_queries=with_queries,
        )
        asked.check_scanned(first + part.n_rows)
        return [part]

    # ---------------------------------------------------------------- what is kept

    def _keep(
        self, solution: Solution, problem: TuningProblem, data: TrainingData, settings: Settings
    ) -> None:
        self._evidence = problem.evidence(solution.trial, settings)
        self.agreement_, self.n_iter_ = solution.agreement, solution.n_iter
        self._compared = isinstance(data.shown, ComparedRows)
        self._n_unscored = data.n_unscored
        self._effect: UnscoredEffect | None = None
        super()._keep(solution, problem, data, settings)
        path = solution.path
        if path is not None and not settings.compared:  # one width
            path = replace(path, gamma=np.full(len(path.gamma), np.nan))
        self.path_ = path

    def _warn(self, solution: Solution, settings: Settings) -> None:
        self._warn_of_agreement(self._n_unscored)
        super()._warn(solution, settings)

    def _set_instead(self) -> list[str]:
        return [*super()._set_instead(), f"agreement to {self.agreement_:.3g}"]

    def _warn_of_agreement(self, n_unscored: int) -> None:
        """Say so where agreement was asked for and there is nothing to agree on."""
        if isinstance(self.agreement, numbers.Real) and float(self.agreement) == 0:
            return
        if len(self.views_) == 1:
            warn_user(
                "views: there is only one view, so there is nothing to agree on; agreement has no"
                " effect."
            )
        elif n_unscored == 0:
            warn_user(
                "y has no unscored row and unscored= was not given: nothing to agree on; agreement"
                " has no effect."
            )

    def counts(self) -> dict[str, int]:
        """The numbers of rows behind the model."""
        return {**super().counts(), "unscored": self._n_unscored}

    # ---------------------------------------------------------------- update

    def _why_fixed(self) -> str:
        why = super()._why_fixed()
        return CHUNKS if why == COMPARED and not self._compared else why

    def _solved(self, system: DualSystem | PrimalSystem, offset: float) -> list[Array]:
        self.n_iter_ = 1
        return system.solve(self.alpha_, self.agreement_, offset)

    # ---------------------------------------------------------------- what a fitted model says

    @property
    def unscored_effect_(self) -> UnscoredEffect | None:
        """Whether the unscored rows helped: see `UnscoredEffect`. None where there is nothing, or
        too little, to tell.

        Found when first asked for, by choosing alpha and agreement anew on parts of the scored rows
        of `fit` and judging both choices, with unscored rows and without, on the others. A model
        file holds it where it was asked for before saving, but not what it takes to find it: else
        it is None after loading.
        """
        check_is_fitted(self)
        can_agree = len(self.views_) > 1 and self._n_unscored > 0
        if self._effect is None and self._evidence is not None and can_agree:
            self._effect = unscored_effect(self._evidence)
        return self._effect

    def _words(self) -> dict[str, Any]:
        return {"view_names": [str(view.name) for view in self.views_]}

    def at_a_glance(self) -> Self:
        """The estimator without what is found out only when it is asked for."""
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
        function = self.function_
        values = function.part_values(features)
        return self._scores(namespace(values[0]).stack(values, axis=1) + function.level, features)

    def suggest(self, X_pool: Any, n: int = 1, kind: str | None = None) -> Index:
        """What to ask next about the rows of a pool: where the views disagree most.

        Every question is picked as if those before it had been answered, which settles rows like
        them in part too. No chance is involved. Of a pool of more than 1,000 rows those with the
        largest disagreement are looked at.

        Parameters
        ----------
        X_pool : (m, d) rows that could be asked about
        n : how many questions
        kind : "score" (how good is one) or "comparison" (which of two is better); None = what the
            model was fitted on

        Returns
        -------
        row numbers of X_pool: (n,) for scores, (n, 2) for comparisons
        """
        check_is_fitted(self)
        if kind is None:
            kind = self.learned_from
        return ask_views(self.function_, self._read(X_pool), kind, n)
