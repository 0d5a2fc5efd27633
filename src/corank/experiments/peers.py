"""Methods from scikit-learn and NumPy that corank's learners are compared with, each tuned over the same number of
settings. All settings of a family come from one decomposition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC

from corank.experiments.items import Floats, Integers
from corank.experiments.masking import Task
from corank.experiments.tuning import SETTINGS, Family, Fitted, Predict, Rows, Setting, fit_tuned

N_WIDTHS = 10
N_BASIS = 300  # of Nystroem
MOST_PAIRS = 4_000  # of the pairwise transform
SVM_SETTINGS = 20  # each costs a fit of its own


def widths(X: Any) -> Floats:
    """Kernel widths around 1 / (columns · variance): (N_WIDTHS,)."""
    square = X.multiply(X).mean() if hasattr(X, "multiply") else np.mean(np.square(X))
    variance = float(square - X.mean() ** 2)
    scale = 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
    return np.asarray(scale * np.logspace(-1.5, 1.0, N_WIDTHS))


def ridge(task: Task) -> Fitted:
    """Ridge regression on the columns, each query's mean score taken out."""
    alphas = np.logspace(-4, 5, SETTINGS)
    return fit_tuned([Family([{"alpha": float(alpha)} for alpha in alphas], _ridge_path(alphas))], task)


def kernel_ridge(task: Task) -> Fitted:
    """Kernel ridge regression (rbf) on the scores."""
    alphas = np.logspace(-4, 3, SETTINGS // N_WIDTHS)
    return fit_tuned([_width_family(gamma, alphas, _kernel_path) for gamma in widths(task.scored[0])], task)


def nystroem(task: Task) -> Fitted:
    """Ridge regression on features of Nystroem's kernel approximation."""
    alphas = np.logspace(-4, 3, SETTINGS // N_WIDTHS)
    return fit_tuned([_width_family(gamma, alphas, _nystroem_path) for gamma in widths(task.scored[0])], task)


def rank_svm(task: Task) -> Fitted:
    """A linear support vector machine on differences of rows of a query."""
    families = [Family([{"C": float(C)}], _pairwise(float(C))) for C in np.logspace(-5, 2, SVM_SETTINGS)]
    return fit_tuned(families, task)


def _width_family(
    gamma: float, alphas: Floats, path: Callable[[Rows, float, Floats, int], tuple[Predict, Callable[[int], int]]]
) -> Family:
    settings: Sequence[Setting] = [{"gamma": float(gamma), "alpha": float(alpha)} for alpha in alphas]
    return Family(settings, lambda rows, seed: path(rows, gamma, alphas, seed))


def _targets(rows: Rows) -> tuple[Floats, float]:
    """Scores less their mean, or less the means of their queries where the level of a query means nothing."""
    if rows.qid is None:
        return rows.y - rows.y.mean(), float(rows.y.mean())
    codes = np.unique(rows.qid, return_inverse=True)[1]
    means = np.bincount(codes, weights=rows.y) / np.bincount(codes)
    return rows.y - means[codes], 0.0


def _ridge_path(alphas: Floats) -> Callable[[Rows, int], tuple[Predict, Callable[[int], int]]]:
    def fit(rows: Rows, seed: int) -> tuple[Predict, Callable[[int], int]]:
        X = rows.X.toarray() if hasattr(rows.X, "toarray") else np.asarray(rows.X, dtype=np.float64)
        centre, (y, level) = X.mean(axis=0), _targets(rows)
        U, s, Vt = linalg.svd(X - centre, full_matrices=False)
        shrunk = s[:, None] / (s[:, None] ** 2 + alphas)  # (rank, alphas)
        weights = Vt.T @ (shrunk * (U.T @ y)[:, None])
        return (lambda new: np.asarray(new @ weights - centre @ weights + level)), lambda at: 8 * (X.shape[1] + 1)

    return fit


def _kernel_path(rows: Rows, gamma: float, alphas: Floats, seed: int) -> tuple[Predict, Callable[[int], int]]:
    """Dual weights of every alpha from one eigendecomposition, O(n³)."""
    y, level = _targets(rows)
    values, vectors = linalg.eigh(rbf_kernel(rows.X, gamma=gamma))
    weights = vectors @ ((vectors.T @ y)[:, None] / (np.maximum(values, 0.0)[:, None] + alphas))
    size = 8 * len(y) * (1 + int(rows.X.shape[1]))
    return (lambda new: np.asarray(rbf_kernel(new, rows.X, gamma=gamma) @ weights + level)), lambda at: size


def _nystroem_path(rows: Rows, gamma: float, alphas: Floats, seed: int) -> tuple[Predict, Callable[[int], int]]:
    n = min(N_BASIS, len(rows.y))
    map_ = Nystroem(gamma=gamma, n_components=n, random_state=seed).fit(rows.X)
    inner = Rows(map_.transform(rows.X), rows.y, rows.qid)
    predict, _ = _ridge_path(alphas)(inner, seed)
    size = 8 * n * (n + 1 + int(rows.X.shape[1]))
    return (lambda new: predict(map_.transform(new))), lambda at: size


def _pairwise(C: float) -> Callable[[Rows, int], tuple[Predict, Callable[[int], int]]]:
    def fit(rows: Rows, seed: int) -> tuple[Predict, Callable[[int], int]]:
        first, second = pairs_of(rows, MOST_PAIRS, np.random.default_rng([seed, 3]))
        sign = np.where(np.arange(len(first)) % 2 == 0, 1.0, -1.0)  # both classes alike
        differences = rows.X[first] - rows.X[second]
        differences = sparse.diags_array(sign) @ differences if sparse.issparse(rows.X) else sign[:, None] * differences
        model = LinearSVC(C=C, fit_intercept=False, dual="auto", max_iter=2_000, random_state=seed, tol=1e-3)
        model.fit(differences, sign)
        weights = model.coef_[0]
        return (lambda new: np.asarray(new @ weights)[:, None]), lambda at: 8 * len(weights)

    return fit


def pairs_of(rows: Rows, most: int, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Row numbers (better, worse) of pairs of a query with different scores; at most so many, drawn at random."""
    better, worse = [], []
    codes = np.zeros(len(rows.y), dtype=np.int64) if rows.qid is None else rows.qid
    for query in np.unique(codes):
        own = np.flatnonzero(codes == query)
        a, b = np.nonzero(rows.y[own][:, None] > rows.y[own][None, :])
        better.append(own[a])
        worse.append(own[b])
    first, second = np.concatenate(better), np.concatenate(worse)
    if len(first) > most:
        chosen = np.sort(rng.choice(len(first), most, replace=False))
        first, second = first[chosen], second[chosen]
    return first, second
