"""Kernel least squares on one view and on several: how RLS, RankRLS, CoRLS and CoRankRLS are
fitted.

Rows → checked scores (`GivenScores`) → views and their bases (`_bases`) → `tune` → fitted
attributes. One view is the case M = 1: its fitted attributes are arrays, those of learners with
several views are lists with one entry per view.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from corank.core.arrays import (
    Array,
    Index,
    Mask,
    first_appearance,
    is_foreign,
    like,
    masked_as_nan,
    namespace,
    take,
    to_numpy,
)
from corank.core.basis import check_basis
from corank.core.kernels import is_named
from corank.core.labels import encode_queries
from corank.core.loss import Loss
from corank.core.messages import warn_user
from corank.core.observations import TIED, ComparedRows, Rows, ScoredRows, warn_of_ties
from corank.core.unscored import HeldRows, Part, UnscoredRows
from corank.core.views import View, read_views
from corank.inputs import (
    as_scan,
    is_scan,
    read_features,
    read_scanned_features,
    read_scores,
    read_weights,
    refuse_extreme_size,
    scans,
    unscored_parts,
    warn_of_scales,
)
from corank.learners.base import (
    PRECOMPUTED,
    Learner,
    candidates,
    check_choice,
    check_weights,
    compared_rows,
    read_kernel,
    read_shared_parameters,
)
from corank.learners.bases import (
    ViewBases,
    asked_bases,
    check_scanned,
    n_candidates,
    refuse_precomputed,
)
from corank.learners.splits import read_splits
from corank.learners.update import CHUNKS, COMPARED, FEDERATED, Kept, with_new_rows
from corank.model_files.container import all_or_nothing
from corank.model_files.schema import ONE_VIEW
from corank.solve.effect import Evidence, UnscoredEffect, unscored_effect
from corank.solve.function import Function, Span
from corank.solve.holdout import SCORINGS
from corank.solve.questions import Question, ask_views
from corank.solve.systems import DualSystem, PrimalSystem, Unscored
from corank.solve.tuning import HeldProblem, Settings, Solution, TuningProblem, tune

# scored rows or comparisons up to which gamma="auto" tries seven widths: seconds at most
MAX_ROWS_WITH_WIDTHS = 1_000
SOLVERS = ("direct", "partitioned", "coordinate", "accelerated")


# ---------------------------------------------------------------- scores


@dataclass(frozen=True)
class Scored:
    """The scored rows, or the comparisons, of every view.

    problems : with all columns of X
    groups : (n_units,) per view, as in `ViewData`; None for items of one query
    shown : the problem that a splitter is shown: the rows scored in any view, or the comparisons
    index : (n_v,) per view, row numbers in X of the rows of its problem
    level : was taken out of the scores
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
    scores : (n, 1), or (n, M) one column per view; NaN = unscored
    given : (n, 1 or M) where there is a score that counts
    used : (n,) rows whose weight is not zero
    """

    rows: Rows
    scores: Array
    given: Mask
    used: Mask

    @classmethod
    def read(
        cls, features: Array, y: Any, qid: Any, sample_weight: Any, *, several: bool
    ) -> GivenScores:
        """Check what came with the features; `several` allows one column of scores per view."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None.")
        n = features.shape[0]
        scores = (
            _read_score_columns(y, n, features) if several else read_scores(y, n, features)[:, None]
        )
        weights = read_weights(sample_weight, n, features)
        used = np.ones(n, dtype=bool) if weights is None else to_numpy(weights) > 0
        has_score = ~np.isnan(to_numpy(scores))
        given = has_score & used[:, None]
        if not has_score.any():
            raise ValueError("y has no scored row: every score is NaN.")
        if not given.any():
            raise ValueError("sample_weight leaves no scored row: all of them have weight zero.")
        return cls(Rows.of(features, None, qid, weights), scores, given, used)

    @classmethod
    def held(cls, rows: Rows) -> GivenScores:
        """Rows that all have a score, read from a scan."""
        assert rows.scores is not None
        refuse_extreme_size(rows.features, "X")
        refuse_extreme_size(rows.scores, "the score column")
        every = np.ones((len(rows), 1), dtype=bool)
        return cls(replace(rows, scores=None), rows.scores[:, None], every, every[:, 0])

    @property
    def queries(self) -> Index | None:
        """The query codes, None where there is no qid."""
        return None if self.rows.queries is None else to_numpy(self.rows.queries)

    @property
    def plain(self) -> Index:
        """The rows without any score."""
        return np.flatnonzero(~self.given.any(axis=1) & self.used)

    @property
    def mean(self) -> float:
        """The weighted mean of all given scores."""
        scores, weights = to_numpy(self.scores), self.rows.weights
        by_row = np.ones(len(scores)) if weights is None else to_numpy(weights)
        every = np.broadcast_to(by_row[:, None], scores.shape)
        return float(np.average(scores[self.given], weights=every[self.given]))

    def check_columns(self, n_views: int) -> None:
        """Refuse a number of columns that no views explain."""
        n_scores = self.scores.shape[1]
        if n_scores not in (1, n_views):
            raise ValueError(
                f"y has {n_scores} columns for {n_views} views; give one column, or one per view."
            )

    def column(self, view: int) -> int:
        """The column that holds the scores of a view."""
        return min(view, int(self.scores.shape[1]) - 1)

    def scored_in(self, view: int, level: float) -> Rows:
        """The rows that are scored in a view, with a level taken out of their scores."""
        column = self.column(view)
        rows = replace(self.rows, scores=self.scores[:, column]).lowered(level)
        return self._chosen(rows, self.given[:, column])

    def _chosen(self, rows: Rows, mask: Any) -> Rows:
        return rows if mask.all() else rows.take(like(np.flatnonzero(mask), rows.index, "int64"))

    def of_views(self, views: Sequence[View], loss: Loss, level: float) -> Scored:
        """Every view's scored rows, all columns still there."""
        problems, groups, index = [], [], []
        queries = self._numbered_queries()
        one_query = queries is None or int(queries.max()) == 0
        by_column: dict[int, tuple[ScoredRows, Index]] = {}
        for position, view in enumerate(views):
            column = self.column(position)
            if column not in by_column:
                rows = self.scored_in(position, level)
                if len(rows) == 0:
                    raise ValueError(f"y has no score for {view.name}.")
                rows = rows if rows.n_queries > 1 else replace(rows, queries=None)
                by_column[column] = ScoredRows(rows, loss, level), to_numpy(rows.index)
            problem, row_numbers = by_column[column]
            problems.append(problem)
            index.append(row_numbers)
            if not one_query and queries is not None:
                mask = self.given[:, column]
                groups.append(queries if mask.all() else queries[mask])
            elif not loss.needs_queries:
                groups.append(row_numbers)
        shown = problems[0]
        # the rows that are scored in any view, each with the first of its scores
        if len(by_column) > 1:
            first = to_numpy(self.scores)[np.arange(len(self.given)), np.argmax(self.given, axis=1)]
            rows = replace(self.rows, scores=like(first, self.scores)).lowered(level)
            shown = ScoredRows(self._chosen(rows, self.given.any(axis=1)), loss, level)
        return Scored(problems, groups or None, shown, index, level, self.rows.weights)

    def _numbered_queries(self) -> Index | None:
        """Query codes in the order in which queries are first scored, −1 elsewhere: unscored rows
        change no fold.
        """
        if (queries := self.queries) is None:
            return None
        scored = self.given.any(axis=1)
        if scored.all():
            return queries
        codes = np.full(len(queries), -1, dtype=np.int64)
        codes[scored] = first_appearance(queries[scored])[0]
        return codes


def _read_score_columns(y: Any, n: int, reference: Array) -> Array:
    """(n, t): one column, or one per view."""
    y = masked_as_nan(y)
    array = y if is_foreign(y) else y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
    if array.ndim == 2 and array.shape[1] > 1:
        columns = [read_scores(array[:, k], n, reference) for k in range(array.shape[1])]
        return namespace(columns[0]).stack(columns, axis=1)
    return read_scores(y, n, reference)[:, None]


def plain_rows(
    features: Array, plain: Index, queries: Index | None, weights: Array | None
) -> list[Part]:
    """Rows of X without any score, whose numbers are `plain`."""
    if len(plain) == 0:
        return []
    codes = (
        None
        if queries is None
        else np.unique(queries[plain], return_inverse=True)[1].astype(np.int64)
    )
    return [HeldRows(features, codes, plain, take(weights, plain))]


def fitted_function(
    system: DualSystem | PrimalSystem, coefficients: Sequence[Array], level: float
) -> Function:
    """The mean of the views of a system that was solved."""
    compared = isinstance(system.views[0].problem, ComparedRows)
    whitened = isinstance(system, PrimalSystem) and not compared
    return Function.mean(
        [Span.of(view, whitened=whitened) for view in system.views], coefficients, level
    )


# ---------------------------------------------------------------- learners


def grown(model: Any, given: GivenScores) -> DualSystem | PrimalSystem:
    """The system of a fitted model with newly scored rows, which the model keeps and counts."""
    function, with_queries = model.function_, model._with_queries
    given.check_columns(len(function.parts))
    new = [
        given.scored_in(v, model._level).beside(part.coefficients)
        for v, part in enumerate(function.parts)
    ]
    model._warn_of_nothing_new(new)
    system, unscored = with_new_rows(
        function,
        model._kept,
        new,
        model._comparison(),
        model._unscored_comparison(),
        model._n_seen,
        with_queries=with_queries,
    )
    model._kept = Kept.of(system, unscored, in_memory=True)
    scored: Mask = np.any(given.given, axis=1)
    model._n_seen += len(scored)
    model._n_scored += int(scored.sum())
    if with_queries:
        model._n_queries += 1 if given.queries is None else len(np.unique(given.queries[scored]))
    return system


def _has_views(learner: Any) -> bool:
    return bool(learner._several)


class _KernelLearner(Learner):
    """Kernel least squares. A learner adds its loss, its parameters and its score."""

    _contents = ONE_VIEW
    _several: ClassVar[bool] = False
    _own_scoring: ClassVar[Any] = "squared"  # the held-out error where `scoring` is None
    _compared: Any = False  # whether a model with several views was fitted on comparisons
    _evidence: Evidence | None = None  # stays behind when a model is saved
    _given_gamma: Any  # what gamma asks for, checked; "auto" until the rows are known

    @property
    def learned_from(self) -> Question:
        """What the model was fitted on; one of a single view counts comparisons as scores."""
        return "comparison" if self._compared else "score"

    @property
    def _centred(self) -> bool:
        return bool(getattr(self, "fit_intercept", False))

    @property
    def _pairwise(self) -> bool:
        views: Any = getattr(self, "views", 1)
        if isinstance(views, numbers.Integral) and views == 1:
            views = [View(kernel=self.kernel)]
        if not isinstance(views, list | tuple) or len(views) != 1 or not isinstance(views[0], View):
            return False
        return views[0].columns is None and is_named(views[0].kernel, "precomputed")

    @property
    def _view_list(self) -> list[View]:
        return self.views_ if self._several else [View(kernel=self.kernel, gamma=self.gamma)]

    def counts(self) -> dict[str, int]:
        counts = super().counts()
        return {**counts, "unscored": self._n_unscored} if self._several else counts

    # ---------------------------------------------------------------- parameters

    def _check_parameters(self) -> Any:
        """What the learner was asked for, whatever the rows: refuses what no rows could make right."""
        centred = self._centred
        check_choice(self.scoring, "scoring", (None, *SCORINGS))
        check_choice(self.basis_selection, "basis_selection", ("pivoted", "random"))
        if isinstance(self.basis, numbers.Integral) and self.basis < 1:
            raise ValueError(f"basis must be 1 or more, got {self.basis}.")
        if isinstance(self.basis, str):  # refuses what no number of rows could make right
            check_basis(self.basis, sys.maxsize, sys.maxsize)
        read_shared_parameters(self)
        settings = Settings(
            alpha=candidates(self.alpha, "alpha", ("tune",)),
            scoring=self.scoring or self._own_scoring,
            centred=centred,
            seed=self._seed,
        )
        if not self._several:
            return settings
        check_choice(self.solver, "solver", SOLVERS)
        if not isinstance(self.max_iter, numbers.Integral) or self.max_iter < 1:
            raise ValueError(f"max_iter must be a whole number from 1, got {self.max_iter!r}.")
        if not isinstance(self.tol, numbers.Real) or not 0 < float(self.tol) < 1:
            raise ValueError(f"tol must lie between 0 and 1, got {self.tol!r}.")
        return replace(
            settings,
            agreement=candidates(self.agreement, "agreement", ("tune",), zero=True),
            solver=self.solver,
            max_iter=int(self.max_iter),
            tol=float(self.tol),
        )

    def _warn_of_scales(self, features: Array) -> None:
        if not self._several:  # every view has a width of its own
            warn_of_scales(features, self.kernel)

    def _set_views(self, n_columns: int, names: Any = None) -> None:
        """Read the views; a learner with one view sees all columns."""
        if not self._several:
            return
        rng = np.random.default_rng(self._seed)
        names = getattr(self, "feature_names_in_", None) if names is None else names
        views = read_views(self.views, n_columns, names, rng)
        if not isinstance(self.views, list | tuple):
            views = [replace(view, kernel=self.kernel, gamma=self.gamma) for view in views]
        if getattr(self, "solver", "direct") == "partitioned" and len(views) != 2:
            raise ValueError(
                f"solver='partitioned' is for two views, got {len(views)}; use solver='direct'."
            )
        self.views_ = views

    def _bases(
        self,
        features: Array,
        weights: Array | None,
        index: Sequence[Index],
        scored: Sequence[Array],
        rows: UnscoredRows,
        *,
        n_scored: int | None = None,
    ) -> ViewBases:
        """The views' kernels and bases, checked against the rows."""
        views, kernels, widths = self._view_list, [], []
        for view in views:
            if view.kernel is self.kernel and view.gamma is self.gamma:
                kernels.append(self._given_kernel)
                widths.append(self._given_gamma)
            else:
                kernels.append(
                    read_kernel(view.kernel, self.degree, self.coef0, self.kernel_params)
                )
                name = f"gamma of {view.name}"
                widths.append(
                    candidates(view.gamma, name, ("scale", "tune"))
                    if kernels[-1].has_width
                    else None
                )
        return ViewBases.of(
            self, views, kernels, widths, features, weights, index, scored, rows, n_scored=n_scored
        )

    def _choose_widths(self, n_units: int, settings: Any) -> None:
        """Make gamma="auto" what it means for so many scored rows or comparisons."""
        if self._given_gamma == "auto":
            few = n_units <= MAX_ROWS_WITH_WIDTHS
            self._given_gamma = "tune" if few and settings.tunes else "scale"

    # ---------------------------------------------------------------- fit

    def _fit_scores(
        self,
        X: Any,
        y: Any,
        qid: Any,
        sample_weight: Any,
        unscored: Any = None,
        unscored_qid: Any = None,
        checkpoint: Any = None,
    ) -> Self:
        settings = self._check_parameters()
        loss = self._comparison()
        check_weights(loss, sample_weight)
        X, y, qid = as_scan(X, y, qid)
        unscored, _, unscored_qid = as_scan(unscored, None, unscored_qid)
        given = {"y": y, "qid": qid, "sample_weight": sample_weight}
        others = (unscored, unscored_qid)
        if checkpoint is None and not is_scan(X) and not is_scan(unscored):
            return self._fit_rows(X, given, others, loss, settings)
        rows = {"X": X, **given, "unscored": unscored}
        with scans().passing(self, checkpoint, rows) as passes:
            if not is_scan(X):
                return self._fit_rows(X, given, others, loss, settings, passes)
            X.check_alone(given)
            return self._fit_scan(X, others, loss, settings, passes)

    def _fit_rows(
        self,
        X: Any,
        given: Mapping[str, Any],
        others: tuple[Any, Any],
        loss: Loss,
        settings: Any,
        passes: Any = None,
    ) -> Self:
        """Fit rows in memory.

        given : the other arguments of `fit` by name; others : `unscored` and `unscored_qid`
        passes : over `unscored`, where that is a scan
        """
        features = read_features(self, X, reset=True)
        self._warn_of_scales(features)
        scores = GivenScores.read(features, **given, several=self._several)
        self._set_views(features.shape[1])
        parts: list[Part] = []
        if self._several:
            parts = plain_rows(features, scores.plain, scores.queries, scores.rows.weights)
            parts += self._unscored_parts(features, features.shape[0], *others, passes)
        n_plain = len(scores.plain) if self._several else 0
        with_queries = given["qid"] is not None
        return self._fit_given(
            features, scores, parts, n_plain, loss, settings, with_queries=with_queries
        )

    def _fit_scan(
        self, scan: Any, others: tuple[Any, Any], loss: Loss, settings: Any, passes: Any
    ) -> Self:
        """Fit the rows of a scan: scored ones in memory where they fit, else from sums; unscored
        ones pass by pass.
        """
        read_scanned_features(self, scan)
        self._set_views(scan.n_features, scan.feature_names)
        views = self._view_list
        refuse_precomputed(views)
        asked = asked_bases(self, views)
        rows = scans().SurveyedScan.to_fit(
            scan, passes, n_candidates(asked), self._seed, unscored=self._several
        )
        scored = rows.scored
        if scored is None:
            self._check_summed(asked, settings, rows.survey.n_scored)
            self._choose_widths(rows.survey.n_scored, settings)
        parts: list[Part] = []
        if self._several:
            parts = rows.unscored(self._unscored_comparison())
            parts += self._unscored_parts(
                rows.features.features, rows.survey.n_rows, *others, passes
            )
        if scored is None:
            return self._fit_sums(rows, UnscoredRows(tuple(parts)), loss, settings)
        check_scanned(asked, len(scored) + sum(part.n_rows for part in parts))
        return self._fit_given(
            rows.features,
            GivenScores.held(scored),
            parts,
            rows.survey.n_unscored if self._several else 0,
            loss,
            settings,
            with_queries=scan.has_queries,
        )

    def _fit_sums(self, rows: Any, unscored: UnscoredRows, loss: Loss, settings: Any) -> Self:
        """Fit more scored rows than fit into memory."""
        features, survey = rows.features, rows.survey
        every = [features.numbers for _ in self._view_list]
        pools = [features.features for _ in every]
        bases = self._bases(features, None, every, pools, unscored, n_scored=survey.n_scored)
        self._check_summed(bases.specs, settings, survey.n_scored)
        level = survey.level if self._centred else 0.0
        choices = bases.width_choices()
        agrees = unscored.n_rows > 0 and len(every) > 1
        agreement = settings.agreement if agrees else 0.0
        settings = replace(settings, agreement=agreement, compared=len(choices) > 1)
        shared = Unscored(self._unscored_comparison(), unscored) if unscored.n_rows else None
        problem = scans().ScannedProblem(rows, loss, level, bases, choices, shared)
        solution = tune(problem, settings)
        if problem.is_tied(solution.system):
            warn_user(TIED)
        n_plain = rows.survey.n_unscored if self._several else 0
        self._n_seen = features.n_rows + unscored.n_rows - n_plain
        self._n_scored, self._n_queries = survey.n_scored, problem.n_queries
        with_queries = rows.scan.has_queries
        self._keep_solution(solution, problem, settings, level, unscored, with_queries)
        self._kept = Kept.of(solution.system, unscored, in_memory=False)
        return self

    def _check_summed(self, specs: Sequence[Any], settings: Any, n_scored: int) -> None:
        """Refuse what needs scored rows in memory, which they do not fit into."""
        too_many = f"the scored rows of the scan do not fit into memory ({n_scored:,} of them)"
        for spec in specs:
            number = isinstance(spec, numbers.Integral) and not isinstance(spec, bool)
            if not number and not is_named(spec, "auto") and not is_named(spec, "features"):
                raise ValueError(
                    f"basis={spec!r} needs the rows in memory, but {too_many};"
                    " give a number of basis rows, or 'features' with kernel='linear'."
                )
        if settings.tunes and (self._cv is not None or self.scoring == "disagreement"):
            what = "cv" if self._cv is not None else "scoring='disagreement'"
            raise ValueError(
                f"{what} needs the scored rows in memory, but {too_many}; leave it out."
            )

    def _unscored_parts(
        self, features: Array, first: int, unscored: Any, labels: Any, passes: Any = None
    ) -> list[Part]:
        """The rows of `unscored=`, whose queries are their own, numbered from `first` on.

        features : some of those of X; passes : over `unscored` where that is a scan
        """
        with_queries = self._unscored_comparison().needs_queries
        if not is_scan(unscored):
            return unscored_parts(
                self, features, unscored, labels, with_queries=with_queries, first=first
            )
        if labels is not None:
            raise ValueError(
                "unscored_qid does not go with a scan; name its column in scan(..., query=)."
            )
        scan = unscored.seen_by(self)
        refuse_precomputed(self._view_list)
        asked = asked_bases(self, self._view_list)
        part: Part = scans().ScannedRows.of(
            scan,
            passes or scans().Passes(),
            n_candidates(asked),
            self._seed,
            first_number=first,
            with_queries=with_queries,
        )
        check_scanned(asked, first + part.n_rows)
        return [part]

    def _fit_given(
        self,
        features: Array,
        given: GivenScores,
        parts: Sequence[Part],
        n_plain: int,
        loss: Loss,
        settings: Any,
        *,
        with_queries: bool,
    ) -> Self:
        """Fit scored rows with unscored ones, `n_plain` of which are among the features."""
        views = self._view_list
        given.check_columns(len(views))
        scored = given.of_views(views, loss, given.mean if self._centred else 0.0)
        warn_of_ties(*scored.problems)  # type: ignore[arg-type]
        return self._fit_views(
            features,
            scored,
            UnscoredRows(tuple(parts)),
            n_plain,
            settings,
            with_queries=with_queries,
        )

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
        beta = getattr(self, "beta", 0.0)
        if beta != 0:
            raise ValueError(
                f"beta must be 0 for comparisons, which have no scores to regress on; got {beta!r}."
            )
        self._comparison()  # checks the parameters
        settings = self._check_parameters()
        features = read_features(self, X, reset=True)
        self._warn_of_scales(features)
        problem, used = compared_rows(features, X, winners, losers, margins, weights, qid)
        n = features.shape[0]
        self._set_views(features.shape[1])
        parts: list[Part] = []
        if self._several:
            queries = None if qid is None else to_numpy(encode_queries(qid, n)[0])
            parts = plain_rows(features, np.setdiff1d(np.arange(n), used), queries, None)
            parts += self._unscored_parts(features, n, unscored, unscored_qid)
        n_plain = n - len(used) if self._several else 0
        every = [problem for _ in self._view_list]
        scored = Scored(every, [problem.groups for _ in every], problem, [used for _ in every])
        return self._fit_views(
            features,
            scored,
            UnscoredRows(tuple(parts)),
            n_plain,
            settings,
            with_queries=qid is not None,
        )

    def _fit_views(
        self,
        features: Array,
        scored: Scored,
        rows: UnscoredRows,
        n_plain: int,
        settings: Any,
        *,
        with_queries: bool,
    ) -> Self:
        """Fit checked rows."""
        scored_index = np.unique(np.concatenate(scored.index))
        seen = [problem.features for problem in scored.problems]
        n_roots = scored.problems[0].operator.n_roots
        self._choose_widths(n_roots, settings)
        bases = self._bases(features, scored.weights, scored.index, seen, rows)
        bases.check_columns(n_roots)
        choices = bases.width_choices()
        agreement = settings.agreement if rows.n_rows and len(bases.views) > 1 else 0.0
        settings = replace(settings, agreement=agreement, compared=len(choices) > 1)
        splits = None
        if settings.tunes or self._several:
            splits = read_splits(self._cv, scored.shown, scored_index, bases.n_rows)
        problem = HeldProblem(
            choices=bases.view_data(choices, bases.seen_problems(scored.problems), scored.groups),
            unscored=Unscored(self._unscored_comparison(), rows) if rows.n_rows else None,
            dual=settings.solver == "direct" and bases.dual,
            splits=splits,
        )
        solution = tune(problem, settings)
        self._n_seen = features.shape[0] + rows.n_rows - n_plain
        self._n_scored, self._n_queries = len(scored_index), scored.problems[0].n_queries
        self._keep_solution(solution, problem, settings, scored.level, rows, with_queries)
        self._kept = Kept.of(solution.system, rows, in_memory=bases.in_memory)
        return self

    # ---------------------------------------------------------------- what is kept

    def _keep_solution(
        self,
        solution: Solution,
        problem: TuningProblem,
        settings: Settings,
        level: float,
        rows: UnscoredRows,
        with_queries: bool,
    ) -> None:
        """Set the fitted attributes."""
        self._evidence = problem.evidence(solution.trial, settings) if self._several else None
        self.function_ = fitted_function(
            solution.system, solution.coefficients, level + solution.intercept
        )
        self.alpha_, path = solution.alpha, solution.path
        if self._several:
            self.agreement_, self.n_iter_ = solution.agreement, solution.n_iter
            self._compared = isinstance(solution.views[0].problem, ComparedRows)
            self._n_unscored = rows.n_rows
            self._effect: UnscoredEffect | None = None
            if path is not None and not settings.compared:  # one width
                path = replace(path, gamma=np.full(len(path.gamma), np.nan))
        else:
            path = None if path is None else replace(path, agreement=None)
        self.path_ = path
        self._level, self._with_queries = level, with_queries
        # those of a loaded model belong to what it was fitted on before
        self.encoder_ = self.table_ = None
        self._warn(rows, solution, settings)

    def _warn(self, rows: UnscoredRows, solution: Solution, settings: Settings) -> None:
        """Say what came out otherwise than asked for."""
        self._warn_of_agreement(rows.n_rows)
        if settings.tunes and solution.path is None:
            more = f", agreement to {self.agreement_:.3g}" if self._several else ""
            warn_user(
                "nothing was tuned: too little to hold anything out. alpha was set to"
                f" {self.alpha_:.3g}{more}."
            )
        if solution.gradient:
            warn_user(
                f"solver={settings.solver!r} stopped after {solution.n_iter} sweeps with the"
                f" gradient at {solution.gradient:.2g} of the right-hand side, above"
                f" tol={settings.tol:g}; raise max_iter, lower agreement, or use solver='direct'.",
                ConvergenceWarning,
            )

    def _warn_of_agreement(self, n_unscored: int) -> None:
        """Say so where agreement was asked for and there is nothing to agree on."""
        agreement: Any = getattr(self, "agreement", 0.0)
        if isinstance(agreement, numbers.Real) and float(agreement) == 0:
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

    # ---------------------------------------------------------------- update

    def _why_fixed(self) -> str:
        if "federated" in (self.table_ or {}):
            return FEDERATED
        if any(part.span.kernel.precomputed for part in self.function_.parts):
            return PRECOMPUTED
        return CHUNKS if self._several and not self._compared else COMPARED

    def _grow(self, X: Any, y: Any, qid: Any, sample_weight: Any) -> None:
        given = GivenScores.read(self._read(X), y, qid, sample_weight, several=self._several)
        system = grown(self, given)
        offset = system.mean_score if self._centred else 0.0
        agreement = self.agreement_ if self._several else 0.0
        solved = system.solve(self.alpha_, agreement, offset)
        coefficients = [columns[:, 0] for columns in solved]
        self.function_ = fitted_function(system, coefficients, self._level + offset)
        if self._several:
            self.n_iter_ = 1

    # ---------------------------------------------------------------- what a fitted model with several views says

    @property
    def unscored_effect_(self) -> UnscoredEffect | None:
        """Whether the unscored rows helped: see `UnscoredEffect`. None where there is nothing, or
        too little, to tell.

        Found when first asked for, by choosing alpha and agreement anew on parts of the scored rows
        of `fit` and judging both choices, with unscored rows and without, on the others. A model
        file holds it where it was asked for before saving, but not what it takes to find it: else
        it is None after loading.
        """
        if not self._several:
            raise AttributeError(
                f"{type(self).__name__} has one view and learns from scored rows only."
            )
        check_is_fitted(self)
        can_agree = len(self.views_) > 1 and self._n_unscored > 0
        if self._effect is None and self._evidence is not None and can_agree:
            self._effect = unscored_effect(self._evidence)
        return self._effect

    def _words(self) -> dict[str, Any]:
        return {"view_names": [str(view.name) for view in self.views_]} if self._several else {}

    def at_a_glance(self) -> Self:
        seen = copy(self)
        seen._evidence = None  # the effect of unscored rows is shown where it is known
        return seen

    @available_if(_has_views)  # type: ignore[untyped-decorator]
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

    @available_if(_has_views)  # type: ignore[untyped-decorator]
    @all_or_nothing
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
