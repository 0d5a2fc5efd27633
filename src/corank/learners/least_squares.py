"""Kernel least squares: how RLS, RankRLS and, with several views, CoRLS and CoRankRLS are fitted.

Rows → `TrainingData` → bases of the views (`ViewBases`) → `tune` → a `Function`, which fitted
attributes show. What learners with several views do otherwise stands in `co_rls`.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from corank.core.arrays import Array
from corank.core.basis import check_basis
from corank.core.kernels import is_named
from corank.core.messages import warn_user
from corank.core.observations import ComparedRows
from corank.core.unscored import Part
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
from corank.learners.bases import AskedBases, AskedView, ViewBases
from corank.learners.parameters import (
    candidates,
    check_choice,
    check_weights,
    read_kernel,
    read_splits,
    seed,
)
from corank.learners.training import (
    TrainingData,
    compared_data,
    rows_without,
    rows_without_scores,
    scored_data,
    summed_data,
)
from corank.learners.update import COMPARED, FEDERATED, Kept
from corank.model_files.schema import ONE_VIEW
from corank.solve.function import Function, Span
from corank.solve.holdout import SCORINGS
from corank.solve.systems import DualSystem, PrimalSystem
from corank.solve.tuning import HeldProblem, Settings, Solution, TuningProblem, tune

# scored rows or comparisons up to which gamma="auto" tries seven widths: seconds at most
MAX_ROWS_WITH_WIDTHS = 1_000


class KernelLeastSquares(Learner):
    """Kernel least squares, on one view unless `ViewLearner` says otherwise. A learner adds its
    loss, its parameters and its score.
    """

    contents = ONE_VIEW
    _own_scoring: ClassVar[Any] = "squared"  # the held-out error where `scoring` is None
    _gamma_words: ClassVar[tuple[str, ...]]

    # ---------------------------------------------------------------- fit

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
        """Fit rows in memory or of scans: the arguments of `fit`, checked one after the other."""
        settings = self._settings()
        check_weights(self.loss(), sample_weight)
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
        features = read_features(self, X, reset=True)
        rows = read_score_columns(features, **given, by_view=self.has_views)
        asked = self._asked_bases(features.shape[1], settings)
        data = scored_data(
            rows,
            features,
            [each.view for each in asked.views],
            self.loss(),
            centred=settings.centred,
            with_queries=given["qid"] is not None,
        )
        data = self._sharing(data, lambda: rows_without_scores(rows), others, asked, passes)
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
        surveyed = scans().SurveyedScan.to_fit(
            scan, passes, asked.n_candidates, settings.seed, unscored=self.has_views
        )
        scored, loss = surveyed.scored, self.loss()
        if scored is None:
            self._check_summed(asked.specs, settings, surveyed.survey.n_scored)
            level = surveyed.survey.level if settings.centred else 0.0
            data = summed_data(
                scans().SummedRows(surveyed, loss, level),
                surveyed.features,
                len(asked.views),
                with_queries=scan.has_queries,
            )
        else:
            refuse_extreme_size(scored.features, "X")
            refuse_extreme_size(scored.scores, "the score column")
            data = scored_data(
                replace(scored, scores=scored.scores[:, None]),
                surveyed.features,
                [each.view for each in asked.views],
                loss,
                centred=settings.centred,
                with_queries=scan.has_queries,
            )
        data = self._sharing(
            data, lambda: surveyed.unscored(self.unscored_loss()), others, asked, passes
        )
        if scored is not None:
            asked.check_scanned(data.n_scored + data.n_unscored)
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
        if not self.has_views:  # every view has a width of its own
            warn_of_scales(data.features, self.kernel)
        tunes_widths = settings.tunes and data.n_units <= MAX_ROWS_WITH_WIDTHS
        bases = ViewBases.of(asked, data, auto_width="tune" if tunes_widths else "scale")
        settings = replace(settings, compared=len(bases.choices) > 1)
        if data.unscored is None or len(bases.views) == 1:
            settings = replace(settings, agreement=0.0)
        holds_out = settings.tunes or settings.judged
        if self.cv is not None and holds_out and not data.summed:
            n_rows = data.features.shape[0]
            splits = read_splits(self.cv, data.shown, data.shown_index, n_rows)
            settings = replace(settings, splits=splits)
        problem = self._problem(bases, settings)
        solution = tune(problem, settings)
        self._keep(solution, problem, data, settings)
        self._kept = Kept.of(solution.system, data.unscored)
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
        self.loss()  # checks the parameters
        settings = self._settings()
        features = read_features(self, X, reset=True)
        problem, used = compared_rows(features, X, winners, losers, margins, weights, qid)
        asked = self._asked_bases(features.shape[1], settings)
        with_queries = qid is not None
        data = compared_data(problem, used, features, len(asked.views), with_queries=with_queries)
        data = self._sharing(
            data, lambda: rows_without(features, used, qid), (unscored, unscored_qid), asked
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
            alpha=candidates(self.alpha, "alpha", ("tune",)),
            kernel=read_kernel(self.kernel, self.degree, self.coef0, self.kernel_params),
            gamma=candidates(self.gamma, "gamma", self._gamma_words),
            scoring=self.scoring or self._own_scoring,
            centred=self.fit_intercept,
            seed=seed(self.random_state),
        )

    def _asked_bases(self, n_columns: int, settings: Settings, names: Any = None) -> AskedBases:
        """What is to span the functions, whatever the rows, of which the columns are known."""
        assert settings.kernel is not None
        asked = AskedView(View(), settings.kernel, settings.gamma, self.basis)
        return AskedBases([asked], self.basis_selection, self._auto_basis, settings.seed)

    # ---------------------------------------------------------------- rows

    def _sharing(
        self,
        data: TrainingData,
        plain: Callable[[], Sequence[Part]],
        others: tuple[Any, Any],
        asked: AskedBases,
        passes: Any = None,
    ) -> TrainingData:
        """The data with the rows on which views should agree: those of X without a score, which
        `plain` gives, and those of `unscored=`.
        """
        return data

    def _problem(self, bases: ViewBases, settings: Settings) -> TuningProblem:
        """What there is to tune."""
        data = bases.data
        if data.summed:
            self._check_summed([view.spec for view in bases.views], settings, data.n_scored)
            problem: TuningProblem = scans().ScannedProblem(bases)
            return problem
        dual = settings.solver == "direct" and bases.dual
        return HeldProblem(bases.view_data(), data.unscored, dual)

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
        self.keep_counts(
            seen=data.features.shape[0] + data.n_apart,
            scored=data.n_scored,
            queries=data.problems[0].n_queries,
            with_queries=data.with_queries,
            level=data.level,
        )
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
