"""How methods that are not corank's choose their parameters: by held-out error on the scored training rows.

Settings come in families that share their work (one decomposition for all alphas, one ensemble for all numbers of
trees); every method tries as many settings as corank's own learners with views do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from corank.experiments.items import Floats, Integers
from corank.experiments.masking import Task

SETTINGS = 200  # 20 alphas x 10 agreements, as a learner with views tries
FOLDS = 3
Setting: TypeAlias = dict[str, Any]
Predict: TypeAlias = Callable[[Any], Floats]  # rows → (n, settings)


@dataclass(frozen=True)
class Rows:
    """Scored rows, those of a query together."""

    X: Any
    y: Floats
    qid: Integers | None

    def take(self, rows: Any) -> Rows:
        """Some of them."""
        return Rows(self.X[rows], self.y[rows], None if self.qid is None else self.qid[rows])


@dataclass(frozen=True)
class Family:
    """Settings that are fitted together: `fit(rows, seed)` predicts one column a setting, and says how big a model is."""

    settings: Sequence[Setting]
    fit: Callable[[Rows, int], tuple[Predict, Callable[[int], int]]]


@dataclass(frozen=True)
class Fitted:
    """A method after fitting.

    Attributes
    ----------
    predict : rows → (n,) scores
    chosen : the parameters that were chosen
    tried : number of settings that were compared; None where nothing was held out
    size : bytes that predictions need
    model : the learner, where it is one of corank
    """

    predict: Callable[[Any], Floats]
    chosen: Setting
    tried: int | None
    size: int
    model: Any = None


def fit_tuned(families: Sequence[Family], task: Task) -> Fitted:
    """The setting with the least held-out error, fitted on all scored rows; among equals the first one."""
    rows = grouped(*task.scored)
    errors = [np.zeros(len(family.settings)) for family in families]
    for kept, left in folds(rows, task.seed):
        for family, total in zip(families, errors, strict=True):
            predict, _ = family.fit(rows.take(kept), task.seed)
            total += _errors(rows.take(left), predict(rows.X[left]), task.judge)
    best = int(np.argmin([total.min() for total in errors]))
    at = int(np.argmin(errors[best]))
    predict, size = families[best].fit(rows, task.seed)
    chosen = families[best].settings[at]
    return Fitted(lambda X: predict(X)[:, at], dict(chosen), sum(map(len, errors)), size(at))


def grouped(X: Any, y: Floats, qid: Integers | None) -> Rows:
    """Rows of a query together, as trees want them; the order is kept otherwise."""
    if qid is None:
        return Rows(X, y, None)
    order = np.argsort(qid, kind="stable")
    return Rows(X[order], y[order], qid[order])


def folds(rows: Rows, seed: int) -> list[tuple[Integers, Integers]]:
    """Rows to fit on and rows to judge on: whole queries where there are several, else rows."""
    units = np.arange(len(rows.y)) if rows.qid is None else np.unique(rows.qid, return_inverse=True)[1]
    n = int(units.max()) + 1
    if n < 2:
        units, n = np.arange(len(rows.y)), len(rows.y)
    fold = np.random.default_rng([seed, 2]).permutation(n) % min(FOLDS, n)
    own = fold[units]
    return [(np.flatnonzero(own != k), np.flatnonzero(own == k)) for k in range(int(fold.max()) + 1)]


def _errors(left: Rows, predicted: Floats, judge: str) -> Floats:
    """Sum of the errors of the held-out queries (rows), one a setting."""
    if judge == "rmse":
        residuals = left.y[:, None] - predicted
        if left.qid is not None:
            for query in np.unique(left.qid):
                own = left.qid == query
                residuals[own] -= residuals[own].mean(axis=0)
        return np.asarray((residuals**2).sum(axis=0))
    return np.asarray(disagreements(left, predicted).sum(axis=0))


def disagreements(rows: Rows, predicted: Floats) -> Floats:
    """Of every query with two different scores and every column: `disagreement_error` for many predictions at once.

    O(pairs) a column; held-out queries are small.
    """
    codes = np.zeros(len(rows.y), dtype=np.int64) if rows.qid is None else rows.qid
    found = []
    for query in np.unique(codes):
        own = np.flatnonzero(codes == query)
        better, worse = np.nonzero(rows.y[own][:, None] > rows.y[own][None, :])
        if len(better):
            gaps = predicted[own[better]] - predicted[own[worse]]
            found.append((np.count_nonzero(gaps < 0, axis=0) + 0.5 * np.count_nonzero(gaps == 0, axis=0)) / len(better))
    return np.asarray(found).reshape(len(found), predicted.shape[1])
