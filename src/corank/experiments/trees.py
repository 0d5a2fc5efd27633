"""LightGBM and XGBoost, where installed: one ensemble gives the predictions of every number of trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from corank.experiments.items import Floats, Integers
from corank.experiments.masking import Task
from corank.experiments.tuning import SETTINGS, Family, Fitted, Predict, Rows, Setting, fit_tuned

N_TREES = tuple(range(2, 101, 2))
LEVELS = 32  # of relevance, which LightGBM and XGBoost want as whole numbers
LIGHTGBM = (
    {"num_leaves": 4, "min_data_in_leaf": 20, "feature_fraction": 0.3, "learning_rate": 0.1},
    {"num_leaves": 8, "min_data_in_leaf": 5, "feature_fraction": 0.3, "learning_rate": 0.1},
    {"num_leaves": 16, "min_data_in_leaf": 20, "feature_fraction": 1.0, "learning_rate": 0.1},
    {"num_leaves": 8, "min_data_in_leaf": 10, "feature_fraction": 1.0, "learning_rate": 0.05},
)
XGBOOST = (
    {"max_depth": 2, "min_child_weight": 1.0, "colsample_bytree": 0.3, "learning_rate": 0.1},
    {"max_depth": 3, "min_child_weight": 0.1, "colsample_bytree": 0.3, "learning_rate": 0.1},
    {"max_depth": 5, "min_child_weight": 1.0, "colsample_bytree": 1.0, "learning_rate": 0.1},
    {"max_depth": 3, "min_child_weight": 1.0, "colsample_bytree": 1.0, "learning_rate": 0.05},
)
assert len(LIGHTGBM) * len(N_TREES) == len(XGBOOST) * len(N_TREES) == SETTINGS
Size = Callable[[int], int]


def lightgbm(task: Task) -> Fitted:
    """LightGBM: lambdarank with queries, least squares without."""
    return fit_tuned(families(LIGHTGBM, N_TREES, lightgbm_stages), task)


def xgboost(task: Task) -> Fitted:
    """XGBoost: pairwise ranking with queries, least squares without."""
    return fit_tuned(families(XGBOOST, N_TREES, xgboost_stages), task)


def families(
    grid: Sequence[Setting], n_trees: Sequence[int], fit: Callable[[Rows, Setting, Sequence[int]], tuple[Predict, Size]]
) -> list[Family]:
    """One family a setting: all numbers of trees."""

    def family(setting: Setting) -> Family:
        settings = [{**setting, "trees": n} for n in n_trees]
        return Family(settings, lambda rows, seed: fit(rows, setting, n_trees))

    return [family(setting) for setting in grid]


def lightgbm_stages(rows: Rows, setting: Setting, n_trees: Sequence[int]) -> tuple[Predict, Size]:
    """Fit as many trees as are asked for at most; predicts one column for each number of them."""
    import lightgbm as lgb

    fixed: dict[str, Any] = {"num_threads": 1, "deterministic": True, "seed": 0, "verbosity": -1}
    if rows.qid is None:
        level, labels, group = float(rows.y.mean()), rows.y - rows.y.mean(), None
        fixed |= {"objective": "regression", "boost_from_average": False}
    else:
        level, labels, group = 0.0, levels(rows.y), group_sizes(rows.qid)
        fixed |= {"objective": "lambdarank"}
        if not is_graded(rows.y):
            fixed["label_gain"] = list(range(LEVELS))
    data = lgb.Dataset(_matrix(rows.X), labels, group=group, params={"verbosity": -1})
    model = lgb.train(fixed | setting, data, num_boost_round=max(n_trees))
    grown = model.num_trees()  # fewer than asked for where nothing is left to split

    def leaves(X: Any) -> Integers:
        return np.asarray(model.predict(_matrix(X), pred_leaf=True), dtype=np.int64).reshape(X.shape[0], grown)

    counts = leaves(rows.X).max(axis=0) + 1  # training rows reach every leaf
    values = np.zeros((grown, int(counts.max())))
    for tree, count in enumerate(counts.tolist()):
        values[tree, :count] = [model.get_leaf_output(tree, leaf) for leaf in range(count)]
    last = np.minimum(n_trees, grown) - 1

    def predict(X: Any) -> Floats:
        return np.asarray(level + np.cumsum(values[np.arange(grown), leaves(X)], axis=1)[:, last])

    return predict, lambda at: len(model.model_to_string(num_iteration=n_trees[at]))


def xgboost_stages(rows: Rows, setting: Setting, n_trees: Sequence[int]) -> tuple[Predict, Size]:
    """The same with XGBoost."""
    import xgboost as xgb

    fixed: dict[str, Any] = {"nthread": 1, "seed": 0, "verbosity": 0, "tree_method": "hist", "base_score": 0.0}
    if rows.qid is None:
        level, objective, labels = float(rows.y.mean()), "reg:squarederror", rows.y - rows.y.mean()
    else:
        level, objective, labels = 0.0, "rank:pairwise", levels(rows.y)
    data = xgb.DMatrix(rows.X, label=labels, qid=rows.qid, nthread=1)
    model = xgb.train({"objective": objective} | fixed | setting, data, num_boost_round=max(n_trees))
    steps = list(zip([0, *n_trees[:-1]], n_trees, strict=True))

    def predict(X: Any) -> Floats:
        new = xgb.DMatrix(X, nthread=1)
        parts = [model.predict(new, iteration_range=step, output_margin=True) for step in steps]
        return np.asarray(level + np.cumsum(np.asarray(parts, dtype=np.float64), axis=0).T)

    return predict, lambda at: len(model[: n_trees[at]].save_raw())


def _matrix(X: Any) -> Any:
    """LightGBM knows CSR matrices, but not CSR arrays."""
    return sparse.csr_matrix(X) if hasattr(X, "indptr") else X


def is_graded(y: Floats) -> bool:
    """Whether scores are whole numbers from 0 on, few enough to be levels of relevance."""
    return bool((y >= 0).all() and (y == np.round(y)).all() and y.max() < LEVELS)


def levels(y: Floats) -> Integers:
    """Scores as levels of relevance: as they are, or by quantiles."""
    if is_graded(y):
        return y.astype(np.int64)
    borders = np.quantile(y, np.linspace(0, 1, LEVELS + 1)[1:-1])
    return np.searchsorted(borders, y, side="right").astype(np.int64)


def group_sizes(qid: Integers) -> Integers:
    """Rows of each query; they stand together."""
    return np.diff(np.flatnonzero(np.r_[True, qid[1:] != qid[:-1], True]))
