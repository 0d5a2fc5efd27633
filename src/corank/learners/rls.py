"""RLS and RankRLS: kernel least squares on scores, and on differences of scores within queries.

`KernelLeastSquares` is how they, and with several views CoRLS and CoRankRLS, are fitted: rows →
`TrainingData` → bases of the views (`ViewBases`) → `tune` → a `Function`, which fitted attributes
show. What learners with several views do otherwise stands in `co_rls`.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin

from corank.core.arrays import Array
from corank.core.basis import check_basis
from corank.core.kernels import MEAN_LENGTH, is_named
from corank.core.messages import warn_user
from corank.core.observations import ComparedRows, ScoredRows
from corank.core.unscored import Part
from corank.core.views import View
from corank.inputs import (
    as_scan,
    compared_rows,
    given_scores,
    is_scan,
    read_edges,
    read_features,
    read_scanned_features,
    read_score_columns,
    refuse_extreme_size,
    scans,
    score_columns,
    warn_of_scales,
)
from corank.learners.base import PRECOMPUTED, Learner, R2Mixin, RankerMixin
from corank.learners.comparisons import ComparisonMixin
from corank.learners.parameters import (
    WidthParameters,
    candidates,
    check_choice,
    check_no_blend,
    check_weights,
    is_per_column,
    read_column_widths,
    read_kernel,
    read_splits,
    seed,
)
from corank.learners.training import (
    AskedBases,
    AskedView,
    TrainingData,
    ViewBases,
    rows_without,
    rows_without_scores,
    scored_data,
)
from corank.learners.update import (
    COMPARED,
    FEDERATED,
    MANY_PAIRS,
    SEVERAL_TARGETS,
    FittedRows,
    Kept,
)
from corank.model_files.schema import ONE_VIEW, demand
from corank.solve.function import Function, Span
from corank.solve.holdout import SCORINGS
from corank.solve.systems import DualSystem, PrimalSystem
from corank.solve.tuning import (
    ChosenViews,
    HeldProblem,
    Settings,
    Solution,
    TuningProblem,
    tune,
    tune_each,
)

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
        edges: Any = None,
    ) -> Self:
        """Fit rows in memory or of scans: the arguments of `fit`, checked one after the other."""
        settings = self._settings()
        check_weights(self.loss(), sample_weight)
        X, y, qid = as_scan(X, y, qid)
        unscored, _, unscored_qid = as_scan(unscored, None, unscored_qid)
        given = {"y": y, "qid": qid, "sample_weight": sample_weight, "edges": edges}
        others = (unscored, unscored_qid)
        if checkpoint is None and not is_scan(X) and not is_scan(unscored):
            return self._fit_rows(X, given, others, settings)
        rows = {"X": X, **given, "unscored": unscored}
        with scans().passing(self, checkpoint, rows) as passes:
            if is_scan(X):
                X.check_alone(given)
                self._fit_scan(X, others, settings, passes)
            else:
                self._fit_rows(X, given, others, settings, passes)
        self._fitted_rows = None  # they only pass by
        return self

    def _fit_rows(
        self,
        X: Any,
        given: dict[str, Any],
        others: tuple[Any, Any],
        settings: Settings,
        passes: Any = None,
    ) -> Self:
        """Fit rows in memory.

        given : the other arguments of `fit` by name; others : `unscored` and `unscored_qid`
        passes : over `unscored`, where that is a scan
        """
        features = read_features(self, X, reset=True)
        edges = given.pop("edges")
        rows = read_score_columns(features, **given, several=True)
        asked = self._asked_bases(features.shape[1], settings)
        known: dict[str, Any] = {
            "centred": settings.centred,
            "with_queries": given["qid"] is not None,
            "edges": None if edges is None else self._read_edges(edges, rows, X),
        }
        if rows.scores.shape[1] > 1 and self.has_targets:
            return self._fit_targets(rows, features, asked, settings, known)
        views = [each.view for each in asked.views]
        data = scored_data(rows, features, views, self.loss(), **known)
        if self.has_views:
            plain = rows_without_scores(rows, data.index)
            data = self._sharing(data, plain, others, asked, passes)
        return self._fit_data(data, asked, settings)

    def _read_edges(self, edges: Any, rows: ScoredRows, X: Any) -> tuple[Array, ...]:
        """Preferences beside scores as checked comparisons."""
        if rows.scores.shape[1] > 1:
            raise ValueError("edges go with one column of y; fit one model per column.")
        if self.cv is not None:
            raise ValueError("cv does not go with edges; leave it out.")
        if is_named(self.gamma, "columns"):
            raise ValueError("gamma='columns' does not go with edges; give numbers, or 'tune'.")
        return read_edges(edges, len(rows), X)

    def _fit_targets(
        self,
        rows: ScoredRows,
        features: Array,
        asked: AskedBases,
        settings: Settings,
        known: Mapping[str, Any],
    ) -> Self:
        """Fit every column of scores as it would be alone; those with the same rows scored share
        what does not depend on scores.
        """
        given = given_scores(rows)
        if not given.any(axis=0).all():
            raise ValueError(f"y has no score in column {int(np.argmin(given.any(axis=0)))}.")
        names = [np.packbits(own).tobytes() for own in given.T]  # one byte per eight rows
        patterns = np.unique(names, return_inverse=True)[1]
        if is_named(self.gamma, "columns"):  # widths are learned from scores
            patterns = np.arange(given.shape[1])
        models: list[Any] = [copy(self) for _ in patterns]
        for pattern in np.unique(patterns):
            columns = np.flatnonzero(patterns == pattern)
            first = replace(rows, scores=rows.scores[:, columns[:1]])
            data = scored_data(first, features, [View()], self.loss(), **known)
            targets = [
                data.with_scores(rows.scores[:, j], centred=settings.centred) for j in columns
            ]
            problem, chosen = self._tuning_problem(data, asked, settings)
            solutions = tune_each(problem, chosen, [target.problem for target in targets])
            for j, target, solution in zip(columns, targets, solutions, strict=True):
                models[j]._keep(solution, problem, target, chosen)
                models[j]._kept = Kept.of(solution.system, None)
        self.keep_counts(seen=0, scored=0, queries=0, with_queries=known["with_queries"])
        self._keep_targets(models)
        return self

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
        scored, loss, n_views = surveyed.scored, self.loss(), len(asked.views)
        if scored is None:
            specs = [view.basis for view in asked.views]
            self._check_summed(specs, settings, surveyed.survey.n_scored)
            level = surveyed.survey.level if settings.centred else 0.0
            summed, features = scans().SummedRows(surveyed, loss, level), surveyed.features
            data = TrainingData(
                problem=summed,
                index=features.numbers,
                everything=features,
                problems=[summed] * n_views,
                numbers=[features.numbers] * n_views,
                groups=None,
                n_units=summed.n_rows,
                n_scored=summed.n_rows,
                level=level,
                summed=True,
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
        if self.has_views:
            plain = surveyed.unscored(self.unscored_loss())
            data = self._sharing(data, plain, others, asked, passes)
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
        what = ""
        if is_named(self.gamma, "columns"):
            what = "gamma='columns'"
        elif settings.tunes and self.cv is not None:
            what = "cv"
        elif settings.tunes and self.scoring == "disagreement":
            what = "scoring='disagreement'"
        if what:
            raise ValueError(
                f"{what} needs the scored rows in memory, but {too_many}; leave it out."
            )

    def _fit_data(self, data: TrainingData, asked: AskedBases, settings: Settings) -> Self:
        """Fit checked rows."""
        problem, settings = self._tuning_problem(data, asked, settings)
        solution = tune(problem, settings)
        self._keep(solution, problem, data, settings)
        self._kept = Kept.of(solution.system, data.unscored)
        return self

    def _tuning_problem(
        self, data: TrainingData, asked: AskedBases, settings: Settings
    ) -> tuple[Any, Settings]:
        """Views with every choice of kernel widths, and what is chosen how."""
        if settings.alpha == MEAN_LENGTH:
            alpha, asked = asked.with_mean_lengths(data)
            settings = replace(settings, alpha=alpha)
            if self.has_views:
                self.views_ = [each.view for each in asked.views]
        if settings.gamma is None:  # one width per column
            asked = asked.with_learned_widths(data.problems[0])
        elif not self.has_views:  # every view has a width of its own
            warn_of_scales(data.everything, self.kernel)
        tunes_widths = settings.tunes and data.n_units <= MAX_ROWS_WITH_WIDTHS
        bases = ViewBases.of(asked, data, auto_width="tune" if tunes_widths else "scale")
        settings = replace(settings, compared=len(bases.choices) > 1)
        if data.unscored is None or len(bases.views) == 1:
            settings = replace(settings, agreement=0.0)
        if data.summed:
            self._check_summed([view.spec for view in bases.views], settings, data.n_scored)
            return scans().ScannedProblem(bases), settings
        if self.cv is not None and (settings.tunes or settings.judged):
            n_rows = data.everything.shape[0]
            splits = read_splits(self.cv, data.problem, data.index, n_rows)
            settings = replace(settings, splits=splits)
        dual = settings.solver == "direct" and bases.dual
        return HeldProblem(bases.view_data(), data.unscored, dual), settings

    def _fit_comparisons(
        self,
        X: Any,
        winners: Any,
        losers: Any,
        margins: Any,
        weights: Any,
        qid: Any,
        groups: Any = None,
        unscored: Any = None,
        unscored_qid: Any = None,
    ) -> Self:
        check_no_blend(self.beta)
        self.loss()  # checks the parameters
        settings = self._settings()
        features = read_features(self, X, reset=True)
        problem, used = compared_rows(features, X, winners, losers, margins, weights, qid, groups)
        asked = self._asked_bases(features.shape[1], settings)
        n_views = len(asked.views)
        data = TrainingData(
            problem=problem,
            index=used,
            everything=features,
            problems=[problem] * n_views,
            numbers=[used] * n_views,
            groups=[problem.groups] * n_views,
            n_units=len(problem.winners),
            n_scored=len(used),
            with_queries=qid is not None,
        )
        if self.has_views:
            plain = rows_without(features, used, qid)
            data = self._sharing(data, plain, (unscored, unscored_qid), asked)
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
        per_column = "columns" in self._gamma_words and is_per_column(self.gamma)
        return Settings(
            alpha=candidates(self.alpha, "alpha", ("tune", MEAN_LENGTH), zero=self.has_views),
            kernel=read_kernel(self.kernel, self.degree, self.coef0, self.kernel_params),
            gamma=None if per_column else candidates(self.gamma, "gamma", self._gamma_words),
            scoring=self.scoring or self._own_scoring,
            centred=self.fit_intercept,
            seed=seed(self.random_state),
        )

    def _asked_bases(self, n_columns: int, settings: Settings, names: Any = None) -> AskedBases:
        """What is to span the functions, whatever the rows, of which the columns are known."""
        kernel = settings.kernel
        if settings.gamma is None:
            kernel = read_column_widths(kernel, self.gamma, n_columns)
        asked = AskedView(View(), kernel, settings.gamma, self.basis)
        names = self.feature_names if names is None else names
        return AskedBases(
            [asked], self.basis_selection, self._auto_basis, settings.seed, names=names
        )

    # ---------------------------------------------------------------- rows

    def _sharing(
        self,
        data: TrainingData,
        plain: Sequence[Part],
        others: tuple[Any, Any],
        asked: AskedBases,
        passes: Any = None,
    ) -> TrainingData:
        """The data with the rows on which views should agree: those of X without a score, and those
        of `unscored=`.
        """
        raise AssertionError("learners with several views say what they share")

    # ---------------------------------------------------------------- what is kept

    def _keep(
        self, solution: Solution, problem: TuningProblem, data: TrainingData, settings: Settings
    ) -> None:
        """Set the fitted attributes."""
        level = data.level + solution.intercept
        self.function_ = fitted_function(solution.system, solution.coefficients, level)
        self.alpha_: Any = solution.alpha  # (t,) for several columns of scores
        self.path_: Any = solution.path  # a list of t
        chosen = ChosenViews(
            [replace(view, basis=replace(view.basis)) for view in solution.system.views],
            settings,
            solution.alpha,
            solution.agreement,
            data.unscored,
            isinstance(solution.system, DualSystem),
        )
        self._fitted_rows = FittedRows(data, chosen, self.cv)
        if solution.path is not None:
            self.path_ = replace(solution.path, agreement=None)
        self.keep_counts(
            seen=data.everything.shape[0] + data.n_apart,
            scored=data.n_scored,
            queries=data.problems[0].n_queries,
            with_queries=data.with_queries,
            level=data.level,
        )
        if settings.tunes and solution.path is None:
            instead = f"alpha was set to {solution.alpha:.3g}"
            if self.has_views:
                instead += f", agreement to {solution.agreement:.3g}"
            warn_user(f"nothing was tuned: too little to hold anything out. {instead}.")

    def _keep_targets(self, models: list[Any]) -> None:
        """Set the fitted attributes from models of one column of scores each."""
        most = max(models, key=lambda model: model._n_scored)
        self._n_seen, self._n_scored = most._n_seen, most._n_scored
        self._n_queries = most._n_queries
        self._kept, self.targets_ = None, models
        self.function_ = Function.of_targets([model.function_ for model in models])
        self.alpha_ = np.asarray([model.alpha_ for model in models])
        self.path_ = [model.path_ for model in models]

    # ---------------------------------------------------------------- update

    def _why_fixed(self) -> str:
        if "federated" in (self.table_ or {}):
            return FEDERATED
        if any(part.span.kernel.precomputed for part in self.function_.parts):
            return PRECOMPUTED
        if self.targets_:
            return SEVERAL_TARGETS
        return COMPARED if self.function_.parts[0].span.grid is None else MANY_PAIRS

    def _grow(self, X: Any, y: Any, qid: Any, sample_weight: Any) -> None:
        if self.targets_:
            models = list(map(copy, self.targets_))
            if any(model._kept is None for model in models):
                raise ValueError(self._why_fixed())
            features, columns = self._as_features(X), score_columns(y, len(models))
            for model, scores in zip(models, columns, strict=True):
                model.update(features, scores, qid=qid, sample_weight=sample_weight)
            self._keep_targets(models)
            return
        features = self._read(X)
        rows = read_score_columns(features, y, qid, sample_weight, several=self.has_views)
        system = self._grown(rows)
        offset = system.mean_score if self.fit_intercept else 0.0
        coefficients = [columns[:, 0] for columns in self._solved(system, offset)]
        self.function_ = fitted_function(system, coefficients, self._level + offset)

    def _solved(self, system: DualSystem | PrimalSystem, offset: float) -> list[Array]:
        """Coefficients of every view with the parameters that were chosen."""
        return system.solve(self.alpha_, 0.0, offset)


def fitted_function(
    system: DualSystem | PrimalSystem, coefficients: Sequence[Array], level: float
) -> Function:
    """The mean of the views of a system that was solved."""
    compared = type(system.views[0].problem) is ComparedRows
    whitened = isinstance(system, PrimalSystem) and not compared
    spans = [Span.of(view, whitened=whitened) for view in system.views]
    return Function.mean(spans, coefficients, level)


class LeastSquares(KernelLeastSquares):
    """Least squares on one view."""

    has_targets = True

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        sample_weight: Any = None,
        edges: Any = None,
        checkpoint: Any = None,
    ) -> Self:
        """Fit on the rows that have a score.

        Parameters
        ----------
        X : (n, d) array, frame, CSR or tensor; or a `corank.scan`, which brings its scores and
            queries
        y : (n,) scores, NaN = unscored (left out); or (n, t), t columns that are fitted each as it
            would be alone, of which those with the same rows scored share one decomposition
        qid : (n,) query labels, any hashable, in any order; None = one query. For RLS, rows with
            the same label are held out together, nothing else
        sample_weight : (n,) weights of the squared errors; of RankRLS a pair counts the product of
            its two
        edges : preferences beside the scores, between any rows of X, also of two queries or without
            a score: (p, 2) rows (winner, loser), (p, 3) with a margin, (p, 4) with a weight; or a
            sparse matrix (n, n) of weights, winners by row. They add
            Σ weight (margin − (f(winner) − f(loser)))² to the loss. scikit-learn's searches, which
            split X, do not renumber them
        checkpoint : folder for the sums so far of a scan; the same fit takes them up again

        Returns
        -------
        self
        """
        return self._fit(X, y, qid, sample_weight, checkpoint=checkpoint, edges=edges)

    def _restore(self, values: dict[str, Any]) -> None:
        alphas, paths, levels = values["alpha_"], values["path_"], values["intercept_"]
        shapes = [part.shape[1:] for part in self._listed(values["coef_"])]
        demand({*shapes, np.shape(levels)} == {np.shape(alphas)}, "coefficients")
        super()._restore(values)
        if np.ndim(alphas) == 0:
            return
        demand(len(paths) == len(alphas), "path")
        self.targets_ = [copy(self) for _ in alphas]
        for number, model in enumerate(self.targets_):
            model.function_ = self.function_.of_target(number)
            model.alpha_, model.path_ = float(alphas[number]), paths[number]

    @property
    def unscored_effect_(self) -> None:
        """There is none: unscored rows play no part."""
        name = type(self).__name__
        raise AttributeError(f"{name} has one view and learns from scored rows only.")


@dataclass(eq=False, repr=False)
class RLS(R2Mixin, RegressorMixin, WidthParameters, LeastSquares):  # type: ignore[misc]
    r"""Regularised least squares (kernel ridge regression) with its alpha chosen by leave-one-out.

    .. math:: \min_f \sum_i w_i (s_i - \bar s - f(x_i))^2 + \alpha \|f\|^2

    Parameters
    ----------
    alpha : "tune", "mean-length", float or list, default="tune"
        Weight of the norm. "tune" tries 20 values around the scale of the data, a list those
        values; the one with the least held-out error is taken, all of them from one factorisation.
        "mean-length" is one over the mean length of the scored rows.
    basis : "auto", "all", "scored", "features", int or row indices, default="auto"
        The rows whose kernels span the function. "auto": all up to 5,000, else 1,000 of them.
        "features": the columns themselves (linear kernel).
    fit_intercept : bool, default=True
        Take the weighted mean score out and put it back.
    kernel : str or callable, default="rbf"
        scikit-learn's names, "exponential" (of the Euclidean distance), a name given to
        `register_kernel`, ``f(X, Z) -> matrix``, or "precomputed".
    gamma : "auto", "scale", "mean-distance", "tune", "columns", float, list or array,
        default="auto"
        Kernel width; "scale" is 1 / (columns · variance), "mean-distance" one over the mean squared
        distance of two scored rows, of an exponential kernel the root of that; "tune" tries seven
        widths around "scale", a list those widths. An array (d,) has one width per column: for rbf
        exp(−Σ gamma_j (x_j − x'_j)²), for exponential the root of that sum, for laplacian
        Σ gamma_j abs(x_j − x'_j). "columns" learns them from the evidence of at most 800 scored
        rows (docs/mathematics.md, section 3.7), which takes seconds and finds out which columns
        matter. Held-out errors do not know that widths were learned from the same scores:
        with fewer than some ten scored rows per column they may be far too low.
        "auto" tunes where alpha is tuned and there are at most 1,000 scored rows, which takes about
        five times as long and has less error (docs/results/learner-defaults.md); else it is
        "scale".
    degree, coef0 : float
        Of the polynomial and sigmoid kernels.
    kernel_params : dict, default=None
        More arguments for a kernel function.
    basis_selection : "pivoted" or "random", default="pivoted"
        How a number of basis rows is chosen; "pivoted" takes rows that the others explain least.
    cv : splitter or list of splits, default=None
        None: leave-one-out (leave-query-out with qid) in closed form; ten folds where the rows are
        very many for a subset as basis.
    scoring : None, "squared", "rescaled" or "disagreement", default=None
        What the held-out error is; None is "squared". "rescaled": the squared error once all
        held-out predictions, less the intercept, are multiplied by the one factor >= 0 that fits
        best, so that alpha is not blamed for shrinking them.
    random_state : int, default=None
        For the choice of basis rows and folds; None makes the same choice every time.

    Attributes
    ----------
    coef_ : (r,) coefficients of the basis functions
    intercept_ : float
    n_readings_ : float, how often the features of a scan were read (docs/big-data.md); only after a
        fit on a scan
    basis_ : (r,) row numbers of the basis in X; None for basis="features"
    basis_points_ : (r, d) those rows
    alpha_, gamma_ : float, the values used; ``gamma_`` is (d,) where every column has a width
    path_ : what was tried: ``alpha``, ``gamma``, ``error``, ``standard_error``, ``best``; None when
        nothing was tuned
    targets_ : t fitted models where y has t columns. Then ``coef_`` is (r, t), ``alpha_`` and
        ``intercept_`` are (t,), ``path_`` is a list of t; where columns have other rows scored or
        other widths, what belongs to the basis is a list with one entry per basis

    Notes
    -----
    All rows as basis: O(n³) once for all alphas and their leave-one-out errors, n² numbers of
    memory. A basis of r rows: O(n r (r + d)), r² numbers of memory a fold.

    Examples
    --------
    >>> import numpy as np
    >>> from corank import RLS
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = RLS().fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """

    alpha: Any = "tune"
    basis: Any = "auto"
    fit_intercept: bool = True


@dataclass(eq=False, repr=False)
class RankRLS(RankerMixin, ComparisonMixin, WidthParameters, LeastSquares):
    r"""Ranking by regularised least squares on score differences within queries.

    .. math:: \min_f \sum_q c_q \sum_{i<j \in q} w_i w_j \big((s_i - s_j) - (f(x_i) - f(x_j))\big)^2
              + \alpha \|f\|^2

    with c = 1/m ("size"), 1 ("unit") or 1/binom(m, 2) ("query") for a query of m rows; `beta`
    blends in the plain squared errors. A subset of the rows as basis gives Sparse RankRLS. After
    Pahikkala, Suominen, Boberg and Salakoski, "Transductive Ranking via Pairwise Regularized
    Least-Squares", and Tsivtsivadze and others, "Co-Regularized Least-Squares for Label Ranking".

    Parameters
    ----------
    alpha : "tune", "mean-length", float or list, default="tune"
        Weight of the norm. "tune" tries 20 values around the scale of the data, a list those
        values; the one with the least held-out error is taken, all of them from one factorisation.
        "mean-length" is one over the mean length of the scored rows.
    basis : "auto", "all", "scored", "features", int or row indices, default="auto"
        The rows whose kernels span the function. "auto": all up to 5,000, else 1,000 of them.
        "features": the columns themselves (linear kernel).
    weighting : "size", "unit" or "query", default="size"
        Every item counts the same, every pair, or every query.
    beta : float in [0, 1], default=0.0
        Share of the plain squared error in the loss: 0 ranks, 1 regresses (without intercept).
    kernel, gamma, degree, coef0, kernel_params, basis_selection, random_state
        As in `RLS`.
    cv : splitter or list of splits, default=None
        None: leave-query-out in closed form; ten folds of queries where the rows are very many for
        a subset as basis, ten folds of items where there is one query.
    scoring : None, "squared", "rescaled" or "disagreement", default=None
        What the held-out error is; None is "squared", the loss above. "rescaled": that loss once
        all held-out predictions are multiplied by the one factor >= 0 that fits best; an order does
        not depend on the scale of the function, which a large alpha shrinks.

    Attributes
    ----------
    coef_ : (r,) coefficients of the basis functions
    basis_ : (r,) row numbers of the basis in X; None for basis="features"
    basis_points_ : (r, d) those rows
    alpha_, gamma_ : float, the values used; ``gamma_`` is (d,) where every column has a width
    path_ : what was tried: ``alpha``, ``gamma``, ``error``, ``standard_error``, ``best``; None when
        nothing was tuned
    targets_ : as in `RLS`

    Notes
    -----
    All rows as basis: O(n³) once for all alphas and their leave-query-out errors, n² numbers of
    memory. A basis of r rows: O(n r (r + d)), r² numbers of memory a fold.

    Examples
    --------
    >>> from corank import RankRLS
    >>> from corank.datasets import make_ranking
    >>> data = make_ranking(n_queries=20, random_state=0)
    >>> model = RankRLS().fit(data.X, data.y, qid=data.qid)
    >>> bool(model.score(data.X, data.y, qid=data.qid) > 0.8)
    True
    """

    alpha: Any = "tune"
    basis: Any = "auto"
    weighting: Any = "size"
    beta: float = 0.0
