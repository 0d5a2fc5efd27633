"""LightGBM and XGBoost as a careful user would tune them on a few scored queries.

Every setting of a small grid is fitted once for each query, left out, and predicts it after 10, 25, 50, 100 and 200
trees; the setting and number of trees with the least mean disagreement on the queries left out (the error of the
study itself) are fitted to all. Among equals the first, simplest one is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from benchmarks.studies.data import Floats, Rankings
from corank.metrics import disagreement_error

Setting: TypeAlias = dict[str, Any]
Stages: TypeAlias = Callable[[Floats, int], Floats]  # rows and a number of trees → scores
Trainer: TypeAlias = Callable[[Rankings, Setting, int], Stages]

N_TREES = (10, 25, 50, 100, 200)
GRIDS: dict[str, dict[str, list[Any]]] = {
    "lightgbm": {
        "num_leaves": [4, 8, 16],
        "min_data_in_leaf": [20, 5],
        "feature_fraction": [0.3, 1.0],
        "learning_rate": [0.05, 0.1],
    },
    "xgboost": {
        "objective": ["rank:pairwise", "rank:ndcg"],
        "max_depth": [2, 3, 5],
        "min_child_weight": [1.0, 0.1],
        "colsample_bytree": [0.3, 1.0],
        "learning_rate": [0.1],
    },
}


def settings_of(library: str, *, quick: bool) -> list[Setting]:
    """Every setting to try; two of them where it should be quick."""
    grid = GRIDS[library]
    every = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    return every[:: len(every) - 1] if quick else every


def fit_tuned(library: str, scored: Rankings, grid: list[Setting]) -> tuple[Callable[[Floats], Floats], dict[str, Any]]:
    """The prediction of the best setting, and what it is."""
    train = TRAINERS[library]
    folds = list(_leave_query_out(scored))
    errors = np.asarray([_left_out_errors(train, folds, setting) for setting in grid])  # (settings, numbers of trees)
    best, stage = np.unravel_index(int(np.argmin(errors)), errors.shape)
    setting, n_trees = grid[int(best)], N_TREES[int(stage)]
    predict = train(scored, setting, n_trees)
    return lambda X: predict(X, n_trees), {**setting, "trees": n_trees, "fits": len(grid) * len(folds) + 1}


def _left_out_errors(train: Trainer, folds: list[tuple[Rankings, Rankings]], setting: Setting) -> Floats:
    """Mean disagreement on the queries left out, for every number of trees."""
    errors = []
    for kept, left in folds:
        predict = train(kept, setting, max(N_TREES))
        errors.append([disagreement_error(left.y, predict(left.X, n)) for n in N_TREES])
    means: Floats = np.asarray(errors).mean(axis=0)
    return means


def _leave_query_out(scored: Rankings) -> Iterator[tuple[Rankings, Rankings]]:
    """All queries but one, and that one; those whose scores are all the same have no error to be left out for."""
    for query in np.unique(scored.qid):
        out = scored.qid == query
        if len(np.unique(scored.y[out])) > 1:
            yield _rows(scored, ~out), _rows(scored, out)


def _rows(data: Rankings, rows: Any) -> Rankings:
    return Rankings(data.X[rows], data.y[rows], data.qid[rows])


def _lightgbm(data: Rankings, setting: Setting, n_trees: int) -> Stages:
    import lightgbm

    fixed = {"objective": "lambdarank", "num_threads": 1, "deterministic": True, "seed": 0, "verbosity": -1}
    rows = lightgbm.Dataset(data.X, data.y, group=_group_sizes(data), params={"verbosity": -1})
    model = lightgbm.train(fixed | setting, rows, num_boost_round=n_trees)
    return lambda X, n: np.asarray(model.predict(X, num_iteration=n), dtype=float)


def _xgboost(data: Rankings, setting: Setting, n_trees: int) -> Stages:
    import xgboost

    fixed = {"nthread": 1, "seed": 0, "verbosity": 0, "tree_method": "hist"}
    rows = xgboost.DMatrix(data.X, label=data.y, qid=data.qid, nthread=1)
    model = xgboost.train(fixed | setting, rows, num_boost_round=n_trees)
    return lambda X, n: np.asarray(model.predict(xgboost.DMatrix(X, nthread=1), iteration_range=(0, n)), dtype=float)


def _group_sizes(data: Rankings) -> Any:
    """Rows of each query; they stand together."""
    return np.diff(np.flatnonzero(np.r_[True, data.qid[1:] != data.qid[:-1], True]))


TRAINERS: dict[str, Trainer] = {"lightgbm": _lightgbm, "xgboost": _xgboost}
