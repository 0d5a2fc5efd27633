"""MatchingPursuit and RankingPursuit: functions of a handful of atoms, picked greedily."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import RegressorMixin

from corank.comparison import Comparison, Pointwise
from corank.learners.parameters import read_comparison
from corank.learners.pursuitbase import PursuitLearner
from corank.learners.scoring import R2Mixin, RankerMixin


class MatchingPursuit(R2Mixin, RegressorMixin, PursuitLearner):  # type: ignore[misc]
    r"""Regression on a few atoms, picked greedily: kernel matching pursuit.

    .. math:: \min \sum_i w_i \Big(s_i - \bar s - \sum_{p=1}^P a_p k(x_i, z_p)\Big)^2

    atom by atom, each the one that lowers it most. After Vincent and Bengio, "Kernel Matching Pursuit" (2002).

    Parameters
    ----------
    n_atoms : "tune", int or list, default="tune"
        How many steps are taken. "tune": as many as have the least held-out error in at most ten folds, in which atoms
        are picked anew among the rows that are kept; the search ends when ten steps in a row did not lower it. A list tries those numbers.
    refit : "back", "basic", "final" or "pre", default="back"
        "back": all weights are refitted after every step (orthogonal matching pursuit). "basic": only the atom that
        enters gets a weight, and may be picked again. "final": as "basic", with all weights refitted at the end.
        "pre": the atom enters that is best after refitting.
    dictionary : None, row indices, matrix, "features" or callable, default=None
        What is picked from: kernels at the scored rows, at these rows of X (which may be unscored), or at the rows of a
        matrix with the columns of X; the columns of X themselves (linear kernel); or ``f(X) -> (n, N)`` values.
    fit_intercept : bool, default=True
        Take the weighted mean score out and put it back. Atoms are taken as they are: with dictionary="features" centre
        the columns first.
    kernel, gamma, degree, coef0, kernel_params
        As in `RLS`.
    cv : splitter or list of splits, default=None
        None: at most ten folds of rows, or of whole queries with qid.
    scoring : None, "squared", "rescaled" or "disagreement", default=None
        What the held-out error is, as in `RLS`; None is "squared".
    random_state : int, default=None
        For the folds; None makes the same ones every time.

    Attributes
    ----------
    coef_ : (k,) weights of the distinct atoms, in order of entry
    atoms_ : (k,) which they are: rows of X, rows of the matrix, columns of X, or values of the function
    steps_ : (steps,) the same for every step; with "basic" and "final" an atom may come again
    n_atoms_ : int, the number of steps
    intercept_ : float
    basis_ : (k,) row numbers of the atoms in X, None where they are no rows of it
    basis_points_ : (k, d) those rows or points, None for columns and functions
    training_loss_ : (steps + 1,) the loss above with 0, 1, … steps
    gamma_ : float, the kernel width used
    path_ : what was tried: ``n_atoms``, ``gamma``, ``error``, ``standard_error``, ``best``; None when nothing was tuned

    Notes
    -----
    A step is one product with the n x N matrix of dictionary values, all folds together. Matrices over 512 MB are not
    kept but computed anew in each step.

    Examples
    --------
    >>> import numpy as np
    >>> from corank import MatchingPursuit
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = MatchingPursuit(n_atoms=5).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    >>> len(model.explain())
    5
    """

    def __init__(
        self,
        n_atoms: Any = "tune",
        refit: Any = "back",
        dictionary: Any = None,
        fit_intercept: bool = True,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: Any = None,
        cv: Any = None,
        scoring: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_atoms = n_atoms
        self.refit = refit
        self.dictionary = dictionary
        self.fit_intercept = fit_intercept
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.cv = cv
        self.scoring = scoring
        self.random_state = random_state

    def _comparison(self) -> Comparison:
        return Pointwise()

    @property
    def _centred(self) -> bool:
        return bool(self.fit_intercept)

    def fit(self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None) -> Self:
        """Fit on the rows that have a score.

        Parameters
        ----------
        X : (n, d) array, frame, CSR or tensor
        y : (n,) scores, NaN = unscored (left out, but may be in the dictionary)
        qid : (n,) labels; rows with the same label are held out together, nothing else
        sample_weight : (n,) weights of the squared errors

        Returns
        -------
        self
        """
        return self._fit_labelled(X, y, qid, sample_weight)


class RankingPursuit(RankerMixin, PursuitLearner):
    r"""Ranking by a few atoms, picked greedily for the score differences within queries.

    .. math:: \min \sum_q c_q \sum_{i<j \in q} w_i w_j \big((s_i - s_j) - (f(x_i) - f(x_j))\big)^2,
              \quad f(x) = \sum_{p=1}^P a_p k(x, z_p)

    atom by atom, each the one that lowers it most; c = 1/m ("size"), 1 ("unit") or 1/binom(m, 2) ("query") for a query
    of m rows. `beta` blends in the plain squared error: combined ranking and regression pursuit. After
    Tsivtsivadze and Heskes, "Semi-supervised Ranking Pursuit".

    Parameters
    ----------
    n_atoms, refit, dictionary
        As in `MatchingPursuit`.
    beta : float in [0, 1], default=0.0
        Share of the plain squared error in the loss: 0 ranks, 1 regresses (without intercept).
    weighting : "size", "unit" or "query", default="size"
        Every item counts the same, every pair, or every query.
    kernel, gamma, degree, coef0, kernel_params, random_state
        As in `RLS`.
    cv : splitter or list of splits, default=None
        None: at most ten folds of whole queries, of items where there is one query.
    scoring : None, "squared", "rescaled" or "disagreement", default=None
        What the held-out error is, as in `RankRLS`; None is "squared", the loss above.

    Attributes
    ----------
    coef_ : (k,) weights of the distinct atoms, in order of entry
    atoms_ : (k,) which they are: rows of X, rows of the matrix, columns of X, or values of the function
    steps_ : (steps,) the same for every step; with "basic" and "final" an atom may come again
    n_atoms_ : int, the number of steps
    basis_ : (k,) row numbers of the atoms in X, None where they are no rows of it
    basis_points_ : (k, d) those rows or points, None for columns and functions
    training_loss_ : (steps + 1,) the loss above with 0, 1, … steps
    gamma_ : float, the kernel width used
    path_ : what was tried: ``n_atoms``, ``gamma``, ``error``, ``standard_error``, ``best``; None when nothing was tuned

    Notes
    -----
    As for `MatchingPursuit`. n rows in q queries carry at most n − q atoms.

    Examples
    --------
    >>> from corank import RankingPursuit
    >>> from corank.datasets import make_ranking
    >>> data = make_ranking(n_queries=20, random_state=0)
    >>> model = RankingPursuit(n_atoms=10).fit(data.X, data.y, qid=data.qid)
    >>> bool(model.score(data.X, data.y, qid=data.qid) > 0.8)
    True
    """

    def __init__(
        self,
        n_atoms: Any = "tune",
        refit: Any = "back",
        beta: float = 0.0,
        weighting: Any = "size",
        dictionary: Any = None,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: Any = None,
        cv: Any = None,
        scoring: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_atoms = n_atoms
        self.refit = refit
        self.beta = beta
        self.weighting = weighting
        self.dictionary = dictionary
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.cv = cv
        self.scoring = scoring
        self.random_state = random_state

    def _comparison(self) -> Comparison:
        return read_comparison(self.weighting, self.beta)

    def fit(self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None) -> Self:
        """Fit on the rows that have a score.

        Parameters
        ----------
        X : (n, d) array, frame, CSR or tensor
        y : (n,) scores, NaN = unscored (left out, but may be in the dictionary)
        qid : (n,) query labels, any hashable, in any order; None = one query
        sample_weight : (n,) weights; a pair counts the product of its two

        Returns
        -------
        self
        """
        return self._fit_labelled(X, y, qid, sample_weight)
