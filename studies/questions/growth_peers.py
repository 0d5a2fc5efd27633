"""What `growth` compares the defaults with, each over the same number of settings: boosted trees,
extra trees and a Gaussian process with one width per column for scores, LightGBM's lambdarank and a
grid of RankRLS for orders.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy import linalg, optimize
from scipy.special import ndtri
from scipy.stats import rankdata
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from corank import RankRLS
from corank.core.kernels import scale_gamma
from corank.experiments import FittedMethod, Task
from corank.experiments.methods import (
    Family,
    Fitted,
    MethodRows,
    Setting,
    fit_tuned,
    grouped,
    lightgbm_stages,
)
from studies.data import Floats, Integers

N_SETTINGS, QUICK_SETTINGS = 24, 4  # of every method for scores but the Gaussian process
N_TREES = (100, 300, 1000, 2000)
# number of leaves, fewest rows of a leaf, rate, share of the columns
SHAPES = (
    (8, 5, 0.1, 1.0),
    (16, 10, 0.1, 0.5),
    (31, 20, 0.1, 1.0),
    (31, 5, 0.05, 0.7),
    (64, 10, 0.05, 1.0),
    (128, 20, 0.05, 0.7),
)
TREES, LEAVES, SHARES = 200, (1, 2, 3, 5, 8, 12), (0.25, 0.5, 0.75, 1.0)
assert len(SHAPES) * len(N_TREES) == len(LEAVES) * len(SHARES) == N_SETTINGS

RANK_TREES = tuple(range(5, 326, 5))
RANK_SHAPES = tuple(product((4, 8, 16), (0.3, 1.0), (0.05, 0.1)))  # leaves, share, rate
RANK_KERNELS, RANK_WIDTHS = ("linear", "rbf", "laplacian"), np.logspace(-1.5, 1.0, 6)
RANK_ALPHAS = 20  # as alpha="tune" tries
# three encodings; a linear kernel has no width
RANK_SETTINGS = 3 * (1 + 2 * len(RANK_WIDTHS)) * RANK_ALPHAS
assert len(RANK_SHAPES) * len(RANK_TREES) == RANK_SETTINGS

GP_MOST, RESTARTS = 1000, 3
Scoring: TypeAlias = Literal["squared", "disagreement"]


def fit_peer(learner: str, task: Task, *, quick: bool = False) -> FittedMethod:
    """A peer, tuned on the scored rows of the task; `quick`: over a few of its settings."""
    return PEERS[learner](task, quick)


# ---- scores


def boosting(
    stages: Callable[..., Fitted], names: Sequence[str], task: Task, quick: bool
) -> FittedMethod:
    """Boosted trees of every shape, each with every number of trees; `names`: what leaves, rows of
    a leaf, rate and share of columns are called.
    """
    shapes, counts = (SHAPES[:2], N_TREES[:2]) if quick else (SHAPES, N_TREES)
    families = []
    for shape in shapes:
        setting = dict(zip(names, shape, strict=True))
        settings = [{**setting, "trees": count} for count in counts]
        families.append(Family(settings, partial(_stages, stages, setting, counts)))
    return fit_tuned(families, task)


def _stages(
    stages: Callable[..., Fitted],
    setting: Setting,
    counts: Sequence[int],
    rows: MethodRows,
    seed: int,
) -> Fitted:
    return stages(rows, setting, counts)


def histogram_stages(rows: MethodRows, setting: Setting, n_trees: Sequence[int]) -> Fitted:
    """scikit-learn's histogram boosting; one column of predictions for each number of trees."""
    model = HistGradientBoostingRegressor(
        **setting, max_iter=max(n_trees), early_stopping=False, random_state=0
    ).fit(rows.X, rows.y)

    def predict(X: Any) -> Floats:
        stages = enumerate(model.staged_predict(X), start=1)
        return np.stack([stage for count, stage in stages if count in n_trees], axis=1)

    return predict, lambda at: 0


def extra_trees(task: Task, quick: bool) -> FittedMethod:
    """Extremely randomised trees: sizes of leaves by shares of the columns."""
    grid = [
        {"min_samples_leaf": leaf, "max_features": share} for leaf in LEAVES for share in SHARES
    ]
    families = [
        Family([setting], partial(_forest, setting))
        for setting in grid[: QUICK_SETTINGS if quick else N_SETTINGS]
    ]
    return fit_tuned(families, task)


def _forest(setting: Setting, rows: MethodRows, seed: int) -> Fitted:
    model = ExtraTreesRegressor(TREES, **setting, random_state=seed).fit(rows.X, rows.y)
    return lambda X: np.asarray(model.predict(X))[:, None], lambda at: 0


def gaussian_process(task: Task, quick: bool) -> FittedMethod:
    """scikit-learn's Gaussian process with one width per column and white noise, by the evidence
    of the best of several starts.
    """
    X, y, _ = task.scored
    kernel = ConstantKernel(1.0, (1e-2, 1e3)) * RBF(
        np.full(X.shape[1], np.sqrt(X.shape[1])), (0.05, 1e4)
    ) + WhiteKernel(0.1, (1e-6, 10.0))
    model = GaussianProcessRegressor(
        kernel,
        optimizer=partial(_most_evidence, X, (y - y.mean()) / (y.std() or 1.0)),
        normalize_y=True,
        n_restarts_optimizer=0 if quick else RESTARTS,
        random_state=task.seed,
    )
    with warnings.catch_warnings():
        # a parameter at the end of its range
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return FittedMethod(model.predict, {"kernel": str(model.kernel_)}, None, 0)


def _most_evidence(
    X: Floats, y: Floats, objective: Any, start: Floats, bounds: Any
) -> tuple[Floats, float]:
    """L-BFGS as scikit-learn runs it, on a gradient that takes n² d instead of n² d² operations and
    no n² d numbers of memory.
    """
    theta, value, _ = optimize.fmin_l_bfgs_b(
        negative_evidence, start, args=(X, y), bounds=bounds, maxiter=15_000
    )
    return np.asarray(theta), float(value)


def negative_evidence(theta: Floats, X: Floats, y: Floats) -> tuple[float, Floats]:
    """− log evidence and its gradient in the logarithms of amplitude, widths (d,) and noise.

    Where scikit-learn's is not finite, the kernel matrix is singular: infinite, with gradient 0.
    """
    amplitude, noise, widths = np.exp(theta[0]), np.exp(theta[-1]), np.exp(theta[1:-1])
    scaled = X / widths
    lengths = (scaled**2).sum(axis=1)
    distances = np.maximum(lengths[:, None] + lengths - 2 * scaled @ scaled.T, 0.0)
    kernel = amplitude * np.exp(-0.5 * distances)
    full = kernel.copy()
    full[np.diag_indices_from(full)] += noise + 1e-10
    try:
        factor = linalg.cho_factor(full, lower=True)
    except linalg.LinAlgError:
        return np.inf, np.zeros_like(theta)
    weights = linalg.cho_solve(factor, y)
    inverse = linalg.cho_solve(factor, np.eye(len(y)))
    half_log_determinant = float(np.log(np.diag(factor[0])).sum())
    value = 0.5 * y @ weights + half_log_determinant + 0.5 * len(y) * np.log(2 * np.pi)

    slope = np.outer(weights, weights) - inverse
    product_ = slope * kernel
    # sum over i, j of product_ · (x_i − x_j)², column by column
    spread = 2 * (product_.sum(axis=1) @ scaled**2 - (scaled * (product_ @ scaled)).sum(axis=0))
    gradient = 0.5 * np.concatenate([[product_.sum()], spread, [noise * np.trace(slope)]])
    return float(value), -gradient


# ---- orders


def lambdarank(task: Task, quick: bool) -> FittedMethod:
    """LightGBM's lambdarank of every shape, each with every number of trees, by disagreement of
    held-out queries.
    """
    families = []
    for leaves, share, rate in RANK_SHAPES[: 2 if quick else None]:
        setting = {
            "num_leaves": leaves,
            "feature_fraction": share,
            "learning_rate": rate,
            "min_data_in_leaf": 10,
        }
        settings = [{**setting, "trees": count} for count in RANK_TREES]
        families.append(Family(settings, partial(_rank_stages, setting)))
    return fit_tuned(families, task)


def _rank_stages(setting: Setting, rows: MethodRows, seed: int) -> Fitted:
    return lightgbm_stages(rows, setting, RANK_TREES)


def best_rankrls(scoring: Scoring, task: Task, quick: bool) -> FittedMethod:
    """The RankRLS of least leave-query-out error among kernels, widths, alphas and encodings."""
    best: Any = None
    for name, rows, X_test in encodings(task):
        for kernel in RANK_KERNELS[:2] if quick else RANK_KERNELS:
            widths = scale_gamma(rows.X) * RANK_WIDTHS
            gamma: Any = "scale" if kernel == "linear" else widths.tolist()
            model = RankRLS(kernel=kernel, gamma=gamma, scoring=scoring)
            model.fit(rows.X, rows.y, qid=rows.qid)
            assert model.path_ is not None
            if best is None or model.path_.least < best[0]:
                best = model.path_.least, model, name, X_test
    _, model, name, X_test = best
    chosen = {"encoding": name, "kernel": model.kernel, "alpha": float(model.alpha_)}

    def predict(X: Any) -> Floats:
        # the test rows of the task, whose encoding may depend on all rows of a query
        assert X is task.X_test
        return np.asarray(model.predict(X_test))

    return FittedMethod(predict, chosen, RANK_SETTINGS, 0)


def encodings(task: Task) -> Iterator[tuple[str, MethodRows, Floats]]:
    """The scored and the test rows: columns standardised, as normal quantiles of ranks over all
    training rows, and of ranks within their query.
    """
    scored = ~np.isnan(task.y)
    X = np.asarray(task.X, dtype=float)
    centre, spread = X.mean(axis=0), X.std(axis=0)
    encoded = {
        "standardised": ((X - centre) / spread, (task.X_test - centre) / spread),
        "normal scores": (normal_scores(X), _between(task.X_test, X)),
        "normal scores within queries": (
            _within(X, task.qid),
            _within(task.X_test, task.qid_test),
        ),
    }
    assert task.qid is not None
    for name, (rows, X_test) in encoded.items():
        yield name, grouped(rows[scored], task.y[scored], task.qid[scored]), X_test


def normal_scores(X: Floats) -> Floats:
    """Normal quantiles of the ranks of every column."""
    return np.asarray(ndtri((rankdata(X, axis=0) - 0.5) / len(X)))


def _between(new: Floats, X: Floats) -> Floats:
    """Normal scores of new rows between those of their neighbours in X."""
    scores = normal_scores(X)
    encoded = np.empty(new.shape)
    for column in range(X.shape[1]):
        knots, first = np.unique(X[:, column], return_index=True)
        encoded[:, column] = np.interp(new[:, column], knots, scores[first, column])
    return encoded


def _within(X: Floats, qid: Integers | None) -> Floats:
    assert qid is not None
    encoded = np.empty(X.shape)
    for query in np.unique(qid):
        members = qid == query
        encoded[members] = normal_scores(X[members])
    return encoded


LIGHTGBM_NAMES = ("num_leaves", "min_data_in_leaf", "learning_rate", "feature_fraction")
HISTOGRAM_NAMES = ("max_leaf_nodes", "min_samples_leaf", "learning_rate", "max_features")
PEERS: Mapping[str, Callable[[Task, bool], FittedMethod]] = {
    "lightgbm-grid": partial(boosting, lightgbm_stages, LIGHTGBM_NAMES),
    "boosting-grid": partial(boosting, histogram_stages, HISTOGRAM_NAMES),
    "trees-grid": extra_trees,
    "gp-widths": gaussian_process,
    "lambdarank-grid": lambdarank,
    "rankrls-squared": partial(best_rankrls, "squared"),
    "rankrls-disagreement": partial(best_rankrls, "disagreement"),
}
