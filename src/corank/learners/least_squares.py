"""Kernel least squares: how RLS, RankRLS and, with several views, CoRLS and CoRankRLS are fitted.

Rows → `TrainingData` → bases of the views (`ViewBases`) → `tune` → a `Function`, which fitted
attributes show. What learners with several views do otherwise stands in `co_rls`.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from corank.core.arrays import Array, Index
from corank.core.basis import check_basis
from corank.core.kernels import is_named
from corank.core.messages import warn_user
from corank.core.observations import ComparedRows, Rows
from corank.core.unscored import Part, UnscoredRows
from corank.core.views import View
from corank.inputs import (
    as_scan,
    compared_rows,
    is_scan,
    read_features,
    read_scanned_features,
    read_score_columns,
    refuse_extreme_size,
    scans,
    warn_of_scales,
)
from corank.learners.base import PRECOMPUTED, Learner
from corank.learners.bases import AskedBases, AskedView, ViewBases, check_column_basis
from corank.learners.parameters import (
    candidates,
    check_choice,
    check_weights,
    read_kernel,
    read_splits,
    seed,
)
from corank.learners.training import TrainingData, compared_data, scored_data, summed_data
from corank.learners.update import COMPARED, FEDERATED, Kept
from corank.model_files.schema import ONE_VIEW
from corank.solve.function import Function, Span
from corank.solve.holdout import SCORINGS
from corank.solve.systems import DualSystem, PrimalSystem, Unscored
from corank.solve.tuning import HeldProblem, Settings, Solution, TuningProblem, tune

# scored rows or comparisons up to which gamma="auto" tries seven widths: seconds at most
MAX_ROWS_WITH_WIDTHS = 1_000


class KernelLeastSquares(Learner):
    """Kernel least squares, on one view unless `ViewLearner` says otherwise. A learner adds its
    loss, its parameters and its score.
    """

    _contents = ONE_VIEW
    _own_scoring: ClassVar[Any] = "squared"  # the held-out error where `scoring` is None
    _gamma_words: ClassVar[tuple[str, ...]]

    def _fit(
        self,
        X: Any,
        y: Any,
        qid: Any,
        sample_weight: Any,
        unscored: Any = None,
        unscored_qid: Any = None,
        checkpoint: Any = None,
    ) -> Self:
        settings = self._settings()
        check_weights(self._comparison(), sample_weight)
        X, y, qid = as_scan(X, y, qid)
        unscored, _, unscored_qid = as_scan(unscored, None, unscored_qid)
        given = {"y": y, "qid": qid, "sample_weight": sample_weight}
        others = (unscored, unscored_qid)
        if checkpoint is None and not is_scan(X) and not is_scan(unscored):
            return self._fit_rows(X, given, others, settings)
        rows = {"X": X, **given, "unscored": unscored}
        with scans().passing(self, checkpoint, rows) as passes:
            if not is_scan(X):
                return self._fit_rows(X, given, others, settings, passes)
            X.check_alone(given)
            return self._fit_scan(X, others, settings, passes)

    def _fit_rows(
        self,
        X: Any,
        given: Mapping[str, Any],
        others: tuple[Any, Any],
        settings: Settings,
        passes: Any = None,
    ) -> Self:
        """Fit rows in memory.

        given : the other arguments of `fit` by name; others : `unscored` and `unscored_qid`
        passes : over `unscored`, where that is a scan
        """
        features = self._read_to_fit(X)
        rows = read_score_columns(features, **given, by_view=self.has_views)
        asked = self._asked_bases(features.shape[1], settings)
        plain = self._plain_rows(rows)
        apart = self._parts_apart(features, features.shape[0], *others, asked, passes)
        data = scored_data(
            rows,
            features,
            asked.names,
            self._comparison(),
            self._to_agree_on([*plain, *apart]),
            n_plain=sum(part.n_rows for part in plain),
            centred=settings.centred,
            with_queries=given["qid"] is not None,
        )
        return self._fit_data(data, asked, settings)

    def _fit_scan(
        self, scan: Any, others: tuple[Any, Any], settings: Settings, passes: Any
    ) -> Self:
        """Fit the rows of a scan: scored ones in memory where they fit, else from sums; unscored
        ones pass by pass.
        """
        read_scanned_features(self, scan)
        asked = self._asked_bases(scan.n_features, settings, scan.feature_names)
        asked.refuse_precomputed()
        n_candidates, has_views = asked.n_candidates, self.has_views
        rows = scans().SurveyedScan.to_fit(
            scan, passes, n_candidates, settings.seed, unscored=has_views
        )
        features, scored = rows.features, rows.scored
        if scored is None:
            self._check_summed(asked.specs, settings, rows.survey.n_scored)
        plain = rows.unscored(self._unscored_comparison()) if has_views else []
        apart = self._parts_apart(features.features, features.n_rows, *others, asked, passes)
        unscored = self._to_agree_on([*plain, *apart])
        about: dict[str, Any] = {
            "n_plain": sum(part.n_rows for part in plain),
            "with_queries": scan.has_queries,
        }
        if scored is None:
            level = rows.survey.level if settings.centred else 0.0
            summed = scans().SummedRows(rows, self._comparison(), level)
            data = summed_data(summed, features, len(asked.views), unscored, **about)
            return self._fit_data(data, asked, settings)
        asked.check_scanned(len(scored) + unscored.rows.n_rows)
        refuse_extreme_size(scored.features, "X")
        refuse_extreme_size(scored.scores, "the score column")
        column = replace(scored, scores=scored.scores[:, None])
        data = scored_data(
            column,
            features,
            asked.names,
            self._comparison(),
            unscored,
            centred=settings.centred,
            **about,
        )
        return self._fit_data(data, asked, settings)

    def _check_summed(self, specs: Sequence[Any], settings: Settings, n_scored: int) -> None:
        """Refuse what needs scored rows in memory, which they do not fit into."""
        too_many = f"the scored rows of the scan do not fit into memory ({n_scored:,} of them)"
        for spec in specs:
            number = isinstance(spec, numbers.Integral) and not isinstance(spec, bool)
            if not number and not is_named(spec, "auto") and not is_named(spec, "features"):
                raise ValueError(
                    f"basis={spec!r} needs the rows in memory, but {too_many};"
                    " give a number of basis rows, or 'features' with kernel='linear'."
                )
        if settings.tunes and (self.cv is not None or self.scoring == "disagreement"):
            what = "cv" if self.cv is not None else "scoring='disagreement'"
            raise ValueError(
                f"{what} needs the scored rows in memory, but {too_many}; leave it out."
            )

    def _fit_data(self, data: TrainingData, asked: AskedBases, settings: Settings) -> Self:
        """Fit checked rows."""
        tunes_widths = settings.tunes and data.n_units <= MAX_ROWS_WITH_WIDTHS
        bases = ViewBases.of(asked.with_auto("tune" if tunes_widths else "scale"), data)
        settings = replace(settings, compared=len(bases.choices) > 1)
        if data.unscored.rows.n_rows == 0 or len(bases.views) == 1:
            settings = replace(settings, agreement=0.0)
        problem = self._problem(bases, settings)
        solution = tune(problem, settings)
        self._keep(solution, problem, data, settings)
        self._kept = Kept.of(solution.system, data.unscored.rows, in_memory=bases.in_memory)
        return self

    def _fit_comparisons(
        self,
        X: Any,
        winners: Any,
        losers: Any,
        margins: Any,
        weights: Any,
        qid: Any,
        unscored: Any = None,
        unscored_qid: Any = None,
    ) -> Self:
        if self.beta != 0:
            raise ValueError(
                "beta must be 0 for comparisons, which have no scores to regress on; got"
                f" {self.beta!r}."
            )
        self._comparison()  # checks the parameters
        settings = self._settings()
        features = self._read_to_fit(X)
        problem, used = compared_rows(features, X, winners, losers, margins, weights, qid)
        asked = self._asked_bases(features.shape[1], settings)
        plain = self._plain_compared(features, used, qid)
        apart = self._parts_apart(features, features.shape[0], unscored, unscored_qid, asked)
        data = compared_data(
            problem,
            used,
            features,
            len(asked.views),
            self._to_agree_on([*plain, *apart]),
            n_plain=sum(part.n_rows for part in plain),
            with_queries=qid is not None,
        )
        return self._fit_data(data, asked, settings)

    # ---------------------------------------------------------------- parameters

    @property
    def _pairwise(self) -> bool:
        return is_named(self.kernel, "precomputed")

    def _settings(self) -> Settings:
        """What the learner was asked for, whatever the rows: refuses what no rows could make right."""
        check_choice(self.scoring, "scoring", (None, *SCORINGS))
        check_choice(self.basis_selection, "basis_selection", ("pivoted", "random"))
        if isinstance(self.basis, numbers.Integral) and self.basis < 1:
            raise ValueError(f"basis must be 1 or more, got {self.basis}.")
        if isinstance(self.basis, str):  # refuses what no number of rows could make right
            check_basis(self.basis, sys.maxsize, sys.maxsize)
        return Settings(
            **self._shared_settings(),
            alpha=candidates(self.alpha, "alpha", ("tune",)),
            scoring=self.scoring or self._own_scoring,
            centred=self.fit_intercept,
        )

    def _shared_settings(self) -> dict[str, Any]:
        """Parameters that pursuits of several views share."""
        return {
            "kernel": read_kernel(self.kernel, self.degree, self.coef0, self.kernel_params),
            "gamma": candidates(self.gamma, "gamma", self._gamma_words),
            "seed": seed(self.random_state),
        }

    def _asked_bases(self, n_columns: int, settings: Settings, names: Any = None) -> AskedBases:
        """What is to span the functions, whatever the rows, of which the columns are known."""
        view = View(kernel=self.kernel, gamma=self.gamma)
        return self._asked([view], [self.basis], settings, drawn=False)

    def _asked(
        self, views: Sequence[View], specs: Sequence[Any], settings: Settings, *, drawn: bool
    ) -> AskedBases:
        """Kernels, widths and bases of views, checked."""
        assert settings.kernel is not None
        asked = []
        for view, spec in zip(views, specs, strict=True):
            spec = spec if view.basis is None else view.basis
            if view.kernel is self.kernel and view.gamma is self.gamma:
                asked.append(AskedView(view, settings.kernel, settings.gamma, spec))
                continue
            own = read_kernel(view.kernel, self.degree, self.coef0, self.kernel_params)
            width = None
            if own.has_width:
                width = candidates(view.gamma, f"gamma of {view.name}", ("scale", "tune"))
            asked.append(AskedView(view, own, width, spec))
        return AskedBases(asked, self.basis_selection, self._auto_basis, drawn, settings.seed)

    # ---------------------------------------------------------------- rows

    def _read_to_fit(self, X: Any) -> Array:
        """The features of X, which the learner remembers the number and names of."""
        features = read_features(self, X, reset=True)
        warn_of_scales(features, self.kernel)
        return features

    def _plain_rows(self, rows: Rows) -> list[Part]:
        """The rows of X without any score that the learner learns from."""
        return []

    def _plain_compared(self, features: Array, used: Index, qid: Any) -> list[Part]:
        """The rows of X in no comparison that the learner learns from."""
        return []

    def _parts_apart(
        self,
        features: Array,
        first: int,
        unscored: Any,
        labels: Any,
        asked: AskedBases,
        passes: Any = None,
    ) -> list[Part]:
        """The rows of `unscored=`, whose queries are their own, numbered from `first` on.

        features : some of those of X; passes : over `unscored` where that is a scan
        """
        return []

    def _to_agree_on(self, parts: Sequence[Part]) -> Unscored:
        """Unscored rows with the loss on them."""
        return Unscored(self._unscored_comparison(), UnscoredRows(tuple(parts)))

    def _problem(self, bases: ViewBases, settings: Settings) -> TuningProblem:
        """What there is to tune."""
        data = bases.data
        unscored = data.unscored if data.unscored.rows.n_rows else None
        if not data.holds_scored:
            self._check_summed([view.spec for view in bases.views], settings, data.n_scored)
            problem: TuningProblem = scans().ScannedProblem(bases, unscored)
            return problem
        for view in bases.views:
            check_column_basis(view.spec, view.n_columns, data.n_units)
        splits = None
        if settings.tunes or settings.judged:
            n_rows = data.features.shape[0]
            splits = read_splits(self.cv, data.shown, data.scored_index, n_rows)
        return HeldProblem(
            choices=bases.view_data(),
            unscored=unscored,
            dual=settings.solver == "direct" and bases.dual,
            splits=splits,
        )

    # ---------------------------------------------------------------- what is kept

    def _keep(
        self, solution: Solution, problem: TuningProblem, data: TrainingData, settings: Settings
    ) -> None:
        """Set the fitted attributes."""
        level = data.level + solution.intercept
        self.function_ = fitted_function(solution.system, solution.coefficients, level)
        self.alpha_, self.path_ = solution.alpha, solution.path
        if solution.path is not None:
            self.path_ = replace(solution.path, agreement=None)
        self._level, self._with_queries = data.level, data.with_queries
        self._n_seen, self._n_scored = data.n_seen, data.n_scored
        self._n_queries = data.problems[0].n_queries
        # those of a loaded model belong to what it was fitted on before
        self.encoder_ = self.table_ = None
        self._warn(solution, settings)

    def _warn(self, solution: Solution, settings: Settings) -> None:
        """Say what came out otherwise than asked for."""
        if settings.tunes and solution.path is None:
            warn_user(
                "nothing was tuned: too little to hold anything out."
                f" {', '.join(self._set_instead())}."
            )

    def _set_instead(self) -> list[str]:
        """What was set where nothing could be tuned."""
        return [f"alpha was set to {self.alpha_:.3g}"]

    # ---------------------------------------------------------------- update

    def _why_fixed(self) -> str:
        if "federated" in (self.table_ or {}):
            return FEDERATED
        if any(part.span.kernel.precomputed for part in self.function_.parts):
            return PRECOMPUTED
        return COMPARED

    def _grow(self, X: Any, y: Any, qid: Any, sample_weight: Any) -> None:
        features = self._read(X)
        rows = read_score_columns(features, y, qid, sample_weight, by_view=self.has_views)
        system = self._grown(rows)
        offset = system.mean_score if self.fit_intercept else 0.0
        solved = self._solved(system, offset)
        coefficients = [columns[:, 0] for columns in solved]
        self.function_ = fitted_function(system, coefficients, self._level + offset)

    def _solved(self, system: DualSystem | PrimalSystem, offset: float) -> list[Array]:
        """Coefficients of every view with the parameters that were chosen."""
        return system.solve(self.alpha_, 0.0, offset)


def fitted_function(
    system: DualSystem | PrimalSystem, coefficients: Sequence[Array], level: float
) -> Function:
    """The mean of the views of a system that was solved."""
    compared = isinstance(system.views[0].problem, ComparedRows)
    whitened = isinstance(system, PrimalSystem) and not compared
    spans = [Span.of(view, whitened=whitened) for view in system.views]
    return Function.mean(spans, coefficients, level)
