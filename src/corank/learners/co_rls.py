"""CoRLS and CoRankRLS: several views of the same items that must agree on the unscored ones."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from typing import Any, Self

from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning

from corank.core.messages import warn_user
from corank.learners.base import R2Mixin, RankerMixin
from corank.learners.parameters import BasisParameters, check_choice
from corank.learners.views import ViewLearner
from corank.solve.tuning import Settings, Solution

SOLVERS = ("direct", "partitioned", "coordinate", "accelerated")


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
        checkpoint : folder for the sums so far of scans; the same fit takes them up again

        Returns
        -------
        self
        """
        return self._fit(X, y, qid, sample_weight, unscored, unscored_qid, checkpoint)

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

    def _warn(self, solution: Solution, settings: Settings) -> None:
        super()._warn(solution, settings)
        if solution.gradient:
            warn_user(
                f"solver={settings.solver!r} stopped after {solution.n_iter} sweeps with the"
                f" gradient at {solution.gradient:.2g} of the right-hand side, above"
                f" tol={settings.tol:g}; raise max_iter, lower agreement, or use solver='direct'.",
                ConvergenceWarning,
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
    alpha : "tune", float or list, default="tune"
        Weight of the norms. "tune" tries 20 values around the scale of the data, a list those
        values, each with every agreement; all of them from few factorisations.
    agreement : "tune", float or list, default="tune"
        Weight of the disagreement between views on unscored rows. "tune" tries 0 and nine values
        around the point where the disagreement weighs as much as the loss on the scored rows.
    basis : "auto", "all", "scored", "features", int, row indices or one list of them per view,
        default="auto"
        The rows whose kernels span each view's function: out of all rows, scored and unscored.
        "auto": all up to 5,000, else 1,000 of them. "scored": only scored rows (semi-parametric).
        "features": the columns themselves (linear kernel). `View.basis` comes first.
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
    alpha_, agreement_ : float, the values used
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
class CoRankRLS(RankerMixin, BasisParameters, LeastSquaresOnViews):
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
    alpha : "tune", float or list, default="tune"
        Weight of the norms. "tune" tries 20 values around the scale of the data, a list those
        values, each with every agreement; all of them from few factorisations.
    agreement : "tune", float or list, default="tune"
        Weight of the disagreement between views on unscored rows. "tune" tries 0 and nine values
        around the point where the disagreement weighs as much as the loss on the scored rows.
    basis : "auto", "all", "scored", "features", int, row indices or one list of them per view,
        default="auto"
        The rows whose kernels span each view's function: out of all rows, scored and unscored.
        "auto": all up to 5,000, else 1,000 of them. "scored": only scored rows (semi-parametric).
        "features": the columns themselves (linear kernel). `View.basis` comes first.
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
    alpha_, agreement_ : float, the values used
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

    def fit_comparisons(
        self,
        X: Any,
        winners: Any,
        losers: Any,
        *,
        margins: Any = None,
        weights: Any = None,
        qid: Any = None,
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
        unscored, unscored_qid : as in `fit`

        Returns
        -------
        self
        """
        return self._fit_comparisons(
            X, winners, losers, margins, weights, qid, unscored, unscored_qid
        )
