"""Methods that studies compare beside those of `corank.experiments`: kernel ridge and XGBoost, with
as many settings to choose from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.metrics.pairwise import rbf_kernel

from corank.experiments import FittedMethod, Task, known_methods
from corank.experiments.methods import (
    N_TREES,
    N_WIDTHS,
    SETTINGS,
    Family,
    Fitted,
    MethodRows,
    Setting,
    fit_tuned,
    levels,
    targets,
    tree_families,
    widths,
)
from studies.data import Floats

XGBOOST = (
    {"max_depth": 2, "min_child_weight": 1.0, "colsample_bytree": 0.3, "learning_rate": 0.1},
    {"max_depth": 3, "min_child_weight": 0.1, "colsample_bytree": 0.3, "learning_rate": 0.1},
    {"max_depth": 5, "min_child_weight": 1.0, "colsample_bytree": 1.0, "learning_rate": 0.1},
    {"max_depth": 3, "min_child_weight": 1.0, "colsample_bytree": 1.0, "learning_rate": 0.05},
)
assert len(XGBOOST) * len(N_TREES) == SETTINGS


def fit_method(name: str, task: Task) -> FittedMethod:
    """A method of corank, or one of those here, fitted."""
    fit = METHODS.get(name)
    return known_methods()[name].fit(task) if fit is None else fit(task)


def kernel_ridge(task: Task) -> FittedMethod:
    """Kernel ridge regression (rbf) on the scores; one family per kernel width: all alphas."""
    alphas = np.logspace(-4, 3, SETTINGS // N_WIDTHS)
    families = [
        Family(
            [{"gamma": gamma, "alpha": alpha} for alpha in alphas.tolist()],
            partial(kernel_path, gamma, alphas),
        )
        for gamma in widths(task.scored[0]).tolist()
    ]
    return fit_tuned(families, task)


def kernel_path(gamma: float, alphas: Floats, rows: MethodRows, seed: int) -> Fitted:
    """Dual weights of every alpha from one eigendecomposition, O(n³)."""
    y, level = targets(rows)
    values, vectors = linalg.eigh(rbf_kernel(rows.X, gamma=gamma))
    weights = vectors @ ((vectors.T @ y)[:, None] / (np.maximum(values, 0.0)[:, None] + alphas))
    size = 8 * len(y) * (1 + rows.X.shape[1])

    def predict(new: Any) -> Floats:
        return np.asarray(rbf_kernel(new, rows.X, gamma=gamma) @ weights + level)

    return predict, lambda at: size


def xgboost(task: Task) -> FittedMethod:
    """XGBoost: pairwise ranking with queries, least squares without."""
    return fit_tuned(tree_families(XGBOOST, xgboost_stages), task)


def xgboost_stages(rows: MethodRows, setting: Setting, n_trees: Sequence[int]) -> Fitted:
    """Fit the largest number of trees with XGBoost; predicts one column for each number of trees."""
    import xgboost as xgb

    fixed: dict[str, Any] = {
        "nthread": 1,
        "seed": 0,
        "verbosity": 0,
        "tree_method": "hist",
        "base_score": 0.0,
    }
    labels: Any
    labels, level = targets(rows)
    objective = "reg:squarederror"
    if rows.qid is not None:
        objective, labels = "rank:pairwise", levels(rows.y)
    data = xgb.DMatrix(rows.X, label=labels, qid=rows.qid, nthread=1)
    model = xgb.train(
        {"objective": objective} | fixed | setting, data, num_boost_round=max(n_trees)
    )
    steps = list(zip([0, *n_trees[:-1]], n_trees, strict=True))

    def predict(X: Any) -> Floats:
        new = xgb.DMatrix(X, nthread=1)
        stages = [model.predict(new, iteration_range=step, output_margin=True) for step in steps]
        return level + np.cumsum(np.asarray(stages, dtype=np.float64), axis=0).T

    return predict, lambda at: len(model[: n_trees[at]].save_raw())


METHODS: Mapping[str, Callable[[Task], FittedMethod]] = {
    "kernelridge": kernel_ridge,
    "xgboost": xgboost,
}
