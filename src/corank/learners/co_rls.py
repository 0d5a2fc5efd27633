"""CoRLS and CoRankRLS: several views of the same items that must agree on the unscored ones.

`ViewLearner` is what all learners with several views read, keep and say beside those with one.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from corank.core.arrays import Array, Index, namespace
from corank.core.kernels import is_named
from corank.core.messages import warn_user
from corank.core.observations import ComparedRows, Question
from corank.core.unscored import Part, UnscoredRows
from corank.core.views import View, read_bonds, read_views, scale_and_pairs
from corank.inputs import is_scan, scans, unscored_parts
from corank.learners.base import R2Mixin, RankerMixin
from corank.learners.comparisons import AnswersMixin
from corank.learners.parameters import (
    GAMMA_RULES,
    WITH_UNSCORED,
    BasisParameters,
    candidates,
    check_choice,
    read_kernel,
)
from corank.learners.rls import KernelLeastSquares
from corank.learners.training import AskedBases, AskedView, TrainingData
from corank.learners.update import CHUNKS, COMPARED
from corank.model_files.container import all_or_nothing
from corank.model_files.schema import SEVERAL_VIEWS
from corank.solve.effect import Evidence, UnscoredEffect, unscored_effect
from corank.solve.questions import ask_views
from corank.solve.systems import DualSystem, PrimalSystem
from corank.solve.tuning import Settings, Solution, TuningProblem

SOLVERS = ("direct", "partitioned", "coordinate", "accelerated")


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
        scale, _ = scale_and_pairs(self.agreement)
        agreement = candidates(scale, "agreement", ("tune",), zero=True)
        return replace(super()._settings(), agreement=agreement, judged=True)

    def _asked_bases(self, n_columns: int, settings: Settings, names: Any = None) -> AskedBases:
        names = self.feature_names if names is None else names
        views = read_views(self.views, n_columns, names, np.random.default_rng(settings.seed))
        drawn = not isinstance(self.views, list | tuple)
        if drawn:
            views = [replace(view, kernel=self.kernel, gamma=self.gamma) for view in views]
        if settings.solver == "partitioned" and len(views) != 2:
            raise ValueError(
                f"solver='partitioned' is for two views, got {len(views)}; use solver='direct'."
            )
        self.views_ = views
        _, pairs = scale_and_pairs(self.agreement)
        self._bonds = None if pairs is None else read_bonds(pairs, [str(v.name) for v in views])
        asked = []
        for view, basis in zip(views, self._specs(len(views)), strict=True):
            kernel, gamma = settings.kernel, settings.gamma
            if view.kernel is not self.kernel or view.gamma is not self.gamma:
                kernel = read_kernel(view.kernel, self.degree, self.coef0, self.kernel_params)
                gamma = None
                if kernel.has_width or kernel.is_joint:
                    gamma = candidates(view.gamma, f"gamma of {view.name}", GAMMA_RULES)
            spec = basis if view.basis is None else view.basis
            asked.append(AskedView(view, kernel, gamma, spec))
        chosen = self.basis_selection, self._auto_basis
        return AskedBases(asked, *chosen, settings.seed, drawn, names)

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
        plain: Sequence[Part],
        others: tuple[Any, Any],
        asked: AskedBases,
        passes: Any = None,
    ) -> TrainingData:
        unscored, labels = others
        apart: list[Part]  # the rows of `unscored=`, numbered behind those of X
        with_queries = self.unscored_loss().needs_queries
        first = int(data.everything.shape[0])
        if not is_scan(unscored):
            features = data.problem.features
            apart = unscored_parts(
                self, features, unscored, labels, with_queries=with_queries, first=first
            )
        elif labels is not None:
            raise ValueError(
                "unscored_qid does not go with a scan; name its column in scan(..., query=)."
            )
        else:
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
            apart = [part]
        rows = UnscoredRows((*plain, *apart), self.unscored_loss(), self._bonds)
        n_apart = sum(part.n_rows for part in apart)
        return replace(data, unscored=rows, n_apart=n_apart) if rows.n_rows else data

    # ---------------------------------------------------------------- what is kept

    def _keep(
        self, solution: Solution, problem: TuningProblem, data: TrainingData, settings: Settings
    ) -> None:
        self._evidence = problem.evidence(solution.trial, settings)
        self.agreement_, self.n_iter_ = solution.agreement, solution.n_iter
        self._compared = type(data.problem) is ComparedRows
        self._n_unscored = data.n_unscored
        self._effect: UnscoredEffect | None = None
        self._warn_of_agreement(self._n_unscored)
        super()._keep(solution, problem, data, settings)
        self.path_ = solution.path
        if solution.path is not None and not settings.compared:  # one width
            self.path_ = replace(solution.path, gamma=np.full(len(solution.path.gamma), np.nan))
        if solution.gradient:
            warn_user(
                f"solver={settings.solver!r} stopped after {solution.n_iter} sweeps with the"
                f" gradient at {solution.gradient:.2g} of the right-hand side, above"
                f" tol={settings.tol:g}; raise max_iter, lower agreement, or use solver='direct'.",
                ConvergenceWarning,
            )

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
        can_agree = len(self.views_) > 1 and self._n_unscored > 0 and self.alpha_ > 0
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
        values = self.function_.part_values(features)
        stacked = namespace(values[0]).stack(values, axis=1)
        return self._scores(stacked + self.function_.level, features)

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


class ComparisonsWithUnscored(AnswersMixin):
    """`fit_comparisons` for learners with several views."""

    _fit_comparisons: Callable[..., Any]

    @all_or_nothing
    def fit_comparisons(
        self,
        X: Any,
        winners: Any,
        losers: Any,
        *,
        margins: Any = None,
        weights: Any = None,
        qid: Any = None,
        groups: Any = None,
        unscored: Any = None,
        unscored_qid: Any = None,
    ) -> Self:
        """Fit on explicit comparisons: rows `winners` of X beat rows `losers`; rows in no
        comparison are unscored.

        Parameters
        ----------
        X : (n, d) items
        winners, losers : (p,) row numbers of X, or labels of the index of a pandas frame (not whole
            numbers)
        margins : (p,) >= 0, by how much; default 1, 0 = a tie
        weights : (p,) >= 0
        qid : (n,) one label per row of X; comparisons of one query are held out together
        groups : (p,) without qid, one label per comparison: those of one group are held out
            together; None for those of the same two items
        unscored, unscored_qid : as in `fit`

        Returns
        -------
        self
        """
        fitted: Self = self._fit_comparisons(
            X, winners, losers, margins, weights, qid, groups, unscored, unscored_qid
        )
        return fitted


class LeastSquaresOnViews(ViewLearner):
    """Least squares on several views that agree on unscored rows."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        sample_weight: Any = None,
        unscored: Any = None,
        unscored_qid: Any = None,
        edges: Any = None,
        checkpoint: Any = None,
    ) -> Self:
        """Fit on scored rows, with the views agreeing on unscored ones.

        Parameters
        ----------
        X : (n, d) array, frame, CSR or tensor; or a `corank.scan`, which brings its scores and
            queries
        y : (n,) scores, NaN = unscored; or (n, n_views), each view's own scores
        qid : (n,) query labels, any hashable, in any order; None = one query. For CoRLS, rows with
            the same label are held out together, nothing else
        sample_weight : (n,) weights, of unscored rows too
        unscored : (m, d) more rows without scores, or chunks of them that can be read again: a
            list, or an object whose iterator starts anew, of X or (X, qid). Only a chunk is held at
            a time; a query may go on in the next one but not come back later. Or a `corank.scan`,
            which brings its queries
        unscored_qid : (m,) their query labels, which are never the same queries as those of `qid`
        edges : as in `RLS.fit`, for every view; rows of X that they name are not unscored
        checkpoint : folder for the sums so far of scans; the same fit takes them up again

        Returns
        -------
        self
        """
        return self._fit(X, y, qid, sample_weight, unscored, unscored_qid, checkpoint, edges)

    def _settings(self) -> Settings:
        check_choice(self.solver, "solver", SOLVERS)
        if not isinstance(self.max_iter, numbers.Integral) or self.max_iter < 1:
            raise ValueError(f"max_iter must be a whole number from 1, got {self.max_iter!r}.")
        if not isinstance(self.tol, numbers.Real) or not 0 < float(self.tol) < 1:
            raise ValueError(f"tol must lie between 0 and 1, got {self.tol!r}.")
        return replace(
            super()._settings(),
            solver=self.solver,
            max_iter=int(self.max_iter),
            tol=float(self.tol),
        )


@dataclass(eq=False, repr=False)
class CoRLS(R2Mixin, RegressorMixin, BasisParameters, LeastSquaresOnViews):  # type: ignore[misc]
    r"""Co-regularised least squares: views that fit the scores and agree on unscored rows.

    .. math:: \min \sum_v \sum_i w_i (s_i - f_v(x_i))^2 + \alpha \sum_v \rho_v \|f_v\|^2 +
              2\,\text{agreement} \sum_{u<v} \sum_j (f_v(x_j) - f_u(x_j))^2

    with i over the scored rows and j over the unscored ones; the prediction is the mean of the
    views. After Brefeld, Gärtner, Scheffer and Wrobel, "Efficient Co-Regularised Least Squares
    Regression" (2006).

    Parameters
    ----------
    views : int, random_split, random_bases or list of View, default=2
        The views. A number divides the columns at random; natural views, such as text and image
        columns, are better: ``[View("text_*"), View("image_*")]``.
    alpha : "tune", "mean-length", float or list, default="tune"
        Weight of the norms. "tune" tries 20 values around the scale of the data, a list those
        values, each with every agreement; all of them from few factorisations. 0, with numbers as
        agreement and gamma, where scores and agreement leave no function open, as with
        ``basis="scored"``. "mean-length" weighs the norm of every view by one over the mean length
        of its scored rows, times its penalty; ``alpha_`` is that of the first view, and
        ``views_`` have penalties that make it those of the others.
    agreement : "tune", float, list, matrix or mapping of pairs, default="tune"
        Weight of the disagreement between views on unscored rows. "tune" tries 0 and nine values
        around the point where the disagreement weighs as much as the loss on the scored rows. A
        symmetric matrix (M, M), 0 on the diagonal, or a mapping of pairs of names of views, such as
        ``{("text", "image"): 0.5}``, has one weight per pair, 0 for those that it does not name;
        ``(matrix, "tune")``, or a number or list in place of "tune", multiplies all of them.
    basis : "auto", "all", "scored", "features", int, row indices or one list of them per view,
        default="auto"
        The rows whose kernels span each view's function: out of all rows, scored and unscored;
        indices count X, then `unscored`. "auto": all up to 5,000, else 1,000 of them. "scored":
        only scored rows (semi-parametric). "features": the columns themselves (linear kernel).
        `View.basis` comes first.
    fit_intercept : bool, default=True
        Whether the mean of all given scores is taken out first and put back.
    solver : "direct", "partitioned", "coordinate" or "accelerated", default="direct"
        How the chosen parameters are solved for: Cholesky; the same for two views by halves; one
        view after the other (Algorithm 1 of Brefeld and others) until the gradient is `tol` times
        the right-hand side, at most `max_iter` sweeps; or conjugate gradients with such sweeps as
        preconditioner.
    kernel, gamma : as in `RLS`
        For views that were not given as `View`, which have their own. gamma="tune" tries widths
        around "scale" for all views together.
    degree, coef0, kernel_params, basis_selection, random_state
        As in `RLS`.
    cv : splitter or list of splits, default=None
        None: rows one by one (queries, where qid is given), in closed form; from sums of ten folds
        where there are many.
    scoring : None, "squared", "rescaled" or "disagreement", default=None
        What the held-out error is; None is "squared".

    Attributes
    ----------
    views_ : list of View, with their columns as numbers
    coef_, basis_, basis_points_, gamma_ : one entry per view, as in `RLS`; row numbers count X,
        then `unscored`
    intercept_ : float
    n_readings_ : float, how often the features of a scan were read (docs/big-data.md); only after a
        fit on a scan
    alpha_, agreement_ : float, the values used; of pairs of views what multiplies their weights
    path_ : what was tried: ``alpha``, ``agreement``, ``gamma``, ``error``, ``standard_error``,
        ``best``
    n_iter_ : sweeps of a solver that makes any, else 1

    Notes
    -----
    All rows as basis: O((M n + (M − 1) m)³) for n scored and m unscored rows and M views; all pairs
    of parameters and their held-out errors from one decomposition of size (M − 1) m. A basis of r
    rows per view: one pass over the unscored rows, O(m (M r)²), in memory that does not depend on
    m.

    Examples
    --------
    >>> from corank import CoRLS, View
    >>> from corank.datasets import make_two_views
    >>> data = make_two_views(random_state=0)  # 20 scores, 2,000 rows without
    >>> views = [View(columns, kernel="linear") for columns in data.views]
    >>> model = CoRLS(views, basis="features", fit_intercept=False).fit(data.X, data.y)
    >>> bool(model.score(data.X_test, data.y_test) > 0.98)
    True
    >>> model.unscored_effect_.verdict
    'helped'
    """

    views: Any = 2
    alpha: Any = "tune"
    agreement: Any = "tune"
    basis: Any = "auto"
    fit_intercept: bool = True
    solver: str = "direct"
    max_iter: int = 1000
    tol: float = 1e-8


@dataclass(eq=False, repr=False)
class CoRankRLS(RankerMixin, ComparisonsWithUnscored, BasisParameters, LeastSquaresOnViews):
    r"""Co-regularised ranking: views that rank the scored rows and agree on the order of unscored
    ones.

    .. math:: \min \sum_v \|J (s - f_v)\|^2 + \alpha \sum_v \rho_v \|f_v\|^2 + 2\,\text{agreement}
              \sum_{u<v} \|\bar J (f_v - f_u)\|^2

    where ‖J·‖² is the loss of `RankRLS` on the scored rows and J̄ the same on the unscored ones;
    the prediction is the mean of the views. A subset of the rows as basis gives Sparse Co-RankRLS
    of Tsivtsivadze, Pahikkala, Boberg, Salakoski and Heskes, "Co-Regularized Least-Squares for
    Label Ranking" (2010).

    Parameters
    ----------
    views : int, random_split, random_bases or list of View, default=2
        The views. A number divides the columns at random; natural views, such as text and image
        columns, are better: ``[View("text_*"), View("image_*")]``.
    alpha : "tune", "mean-length", float or list, default="tune"
        Weight of the norms. "tune" tries 20 values around the scale of the data, a list those
        values, each with every agreement; all of them from few factorisations. 0, with numbers as
        agreement and gamma, where scores and agreement leave no function open, as with
        ``basis="scored"``. "mean-length" weighs the norm of every view by one over the mean length
        of its scored rows, times its penalty; ``alpha_`` is that of the first view, and
        ``views_`` have penalties that make it those of the others.
    agreement : "tune", float, list, matrix or mapping of pairs, default="tune"
        Weight of the disagreement between views on unscored rows. "tune" tries 0 and nine values
        around the point where the disagreement weighs as much as the loss on the scored rows. A
        symmetric matrix (M, M), 0 on the diagonal, or a mapping of pairs of names of views, such as
        ``{("text", "image"): 0.5}``, has one weight per pair, 0 for those that it does not name;
        ``(matrix, "tune")``, or a number or list in place of "tune", multiplies all of them.
    basis : "auto", "all", "scored", "features", int, row indices or one list of them per view,
        default="auto"
        The rows whose kernels span each view's function: out of all rows, scored and unscored;
        indices count X, then `unscored`. "auto": all up to 5,000, else 1,000 of them. "scored":
        only scored rows (semi-parametric). "features": the columns themselves (linear kernel).
        `View.basis` comes first.
    weighting : "size", "unit" or "query", default="size"
        Every item counts the same, every pair, or every query; on unscored rows too.
    beta : float in [0, 1], default=0.0
        Share of the plain squared error in the loss on scored rows.
    solver : "direct", "partitioned", "coordinate" or "accelerated", default="direct"
        How the chosen parameters are solved for: Cholesky; the same for two views by halves; one
        view after the other (Algorithm 1 of Brefeld and others) until the gradient is `tol` times
        the right-hand side, at most `max_iter` sweeps; or conjugate gradients with such sweeps as
        preconditioner.
    kernel, gamma : as in `RLS`
        For views that were not given as `View`, which have their own. gamma="tune" tries widths
        around "scale" for all views together.
    degree, coef0, kernel_params, basis_selection, random_state
        As in `RLS`.
    cv : splitter or list of splits, default=None
        None: queries one by one in closed form (ten folds of items where there is one query); from
        sums of ten folds where there are many rows.
    scoring : None, "squared", "rescaled" or "disagreement", default=None
        What the held-out error is; None is "rescaled": the squared loss after the one factor that
        fits best, since the scale of a ranking function does not matter; the largest alpha within
        one standard error is taken.

    Attributes
    ----------
    views_ : list of View, with their columns as numbers
    coef_, basis_, basis_points_, gamma_ : one entry per view, as in `RLS`; row numbers count X,
        then `unscored`
    alpha_, agreement_ : float, the values used; of pairs of views what multiplies their weights
    path_ : what was tried: ``alpha``, ``agreement``, ``gamma``, ``error``, ``standard_error``,
        ``best``
    n_iter_ : sweeps of a solver that makes any, else 1

    Notes
    -----
    All rows as basis: O((M n + (M − 1) m)³) for n scored and m unscored rows and M views; all pairs
    of parameters and their held-out errors from one decomposition of size (M − 1) m. A basis of r
    rows per view: one pass over the unscored rows, O(m (M r)²), in memory that does not depend on
    m.

    Examples
    --------
    >>> from corank import CoRankRLS, View
    >>> from corank.datasets import make_two_views
    >>> data = make_two_views(n_scored=40, queries=8, random_state=0)
    >>> views = [View(columns, kernel="linear") for columns in data.views]
    >>> model = CoRankRLS(views, basis="features").fit(data.X, data.y, qid=data.qid)
    >>> bool(model.score(data.X_test, data.y_test, qid=data.qid_test) > 0.9)
    True
    """

    views: Any = 2
    alpha: Any = "tune"
    agreement: Any = "tune"
    basis: Any = "auto"
    weighting: Any = "size"
    beta: float = 0.0
    solver: str = "direct"
    max_iter: int = 1000
    tol: float = 1e-8

    _own_scoring = "rescaled"
