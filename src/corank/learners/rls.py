"""RLS and RankRLS: kernel least squares on scores, and on differences of scores within queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from sklearn.base import RegressorMixin

from corank.learners.base import ComparisonMixin, R2Mixin, RankerMixin
from corank.learners.least_squares import KernelLeastSquares
from corank.learners.parameters import WidthParameters


class LeastSquares(KernelLeastSquares):
    """Least squares on one view."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        sample_weight: Any = None,
        checkpoint: Any = None,
    ) -> Self:
        """Fit on the rows that have a score.

        Parameters
        ----------
        X : (n, d) array, frame, CSR or tensor; or a `corank.scan`, which brings its scores and
            queries
        y : (n,) scores, NaN = unscored (left out)
        qid : (n,) query labels, any hashable, in any order; None = one query. For RLS, rows with
            the same label are held out together, nothing else
        sample_weight : (n,) weights of the squared errors; of RankRLS a pair counts the product of
            its two
        checkpoint : folder for the sums so far of a scan; the same fit takes them up again

        Returns
        -------
        self
        """
        return self._fit(X, y, qid, sample_weight, checkpoint=checkpoint)

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
    alpha : "tune", float or list, default="tune"
        Weight of the norm. "tune" tries 20 values around the scale of the data, a list those
        values; the one with the least held-out error is taken, all of them from one factorisation.
    basis : "auto", "all", "scored", "features", int or row indices, default="auto"
        The rows whose kernels span the function. "auto": all up to 5,000, else 1,000 of them.
        "features": the columns themselves (linear kernel).
    fit_intercept : bool, default=True
        Take the weighted mean score out and put it back.
    kernel : str or callable, default="rbf"
        scikit-learn's names, "exponential" (of the Euclidean distance), a name given to
        `register_kernel`, ``f(X, Z) -> matrix``, or "precomputed".
    gamma : "auto", "scale", "tune", float or list, default="auto"
        Kernel width; "scale" is 1 / (columns · variance), of an exponential kernel the root of
        that; "tune" tries seven widths around it.
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
    alpha_, gamma_ : float, the values used
    path_ : what was tried: ``alpha``, ``gamma``, ``error``, ``standard_error``, ``best``; None when
        nothing was tuned

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
    alpha : "tune", float or list, default="tune"
        Weight of the norm. "tune" tries 20 values around the scale of the data, a list those
        values; the one with the least held-out error is taken, all of them from one factorisation.
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
    alpha_, gamma_ : float, the values used
    path_ : what was tried: ``alpha``, ``gamma``, ``error``, ``standard_error``, ``best``; None when
        nothing was tuned

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
