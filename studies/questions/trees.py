"""LightGBM and XGBoost as a careful user would tune them on a few scored queries.

Every setting of a small grid is fitted once for each query, left out, and predicts it after 10, 25, 50, 100 and 200
trees; the setting and number of trees with the least mean disagreement on the queries left out (the error of the
study itself) are fitted to all. Among equals the first, simplest one is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from corank.experiments.peers import MethodRows, Setting, disagreements, lightgbm_stages, xgboost_stages
from studies.questions.data import Floats, Rankings

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
    train, rows = STAGES[library], MethodRows(scored.X, scored.y, scored.qid)
    folds = list(_leave_query_out(rows))
    errors = np.asarray(
        [
            np.concatenate(
                [disagreements(left, train(kept, setting, N_TREES)[0](left.X)) for kept, left in folds]
            ).mean(axis=0)
            for setting in grid
        ]
    )  # (settings, numbers of trees)
    best, stage = np.unravel_index(int(np.argmin(errors)), errors.shape)
    setting, n_trees = grid[int(best)], N_TREES[int(stage)]
    predict, _ = train(rows, setting, (n_trees,))
    return lambda X: predict(X)[:, 0], {**setting, "trees": n_trees, "fits": len(grid) * len(folds) + 1}


def _leave_query_out(scored: MethodRows) -> Iterator[tuple[MethodRows, MethodRows]]:
    """All queries but one, and that one; those whose scores are all the same have no error to be left out for."""
    assert scored.qid is not None
    for query in np.unique(scored.qid):
        out = scored.qid == query
        if len(np.unique(scored.y[out])) > 1:
            yield scored.take(~out), scored.take(out)


STAGES = {"lightgbm": lightgbm_stages, "xgboost": xgboost_stages}
