"""How wrong many predictions for the same person are: the share of pairs in the wrong order, and the squared error."""

from __future__ import annotations

import numpy as np

from corank.experiments.items import Floats
from corank.experiments.people.drawing import Answers


def pair_errors(answers: Answers, predictions: Floats) -> Floats:
    """`metrics.disagreement_error` of each of many predictions (c, m) for one person: (c,), NaN without a pair.

    Pairs with equal ratings are left out; a pair that only the prediction ties costs one half.
    """
    scores = answers.unlock(predictions)
    order = np.argsort(-scores, kind="stable")
    falling, columns = scores[order], np.ascontiguousarray(predictions[:, order].T)
    worse = np.searchsorted(-falling, -falling, side="right")  # where the items with a lower rating begin
    n_pairs = int(np.sum(len(scores) - worse))
    if n_pairs == 0:
        return np.full(len(predictions), np.nan)
    twice = np.zeros(len(predictions), dtype=np.int64)
    for item, begin in enumerate(worse):
        others = columns[begin:]
        twice += np.add.reduce(columns[item] < others, axis=0, dtype=np.int16)
        twice += np.add.reduce(columns[item] <= others, axis=0, dtype=np.int16)
    return np.asarray(twice / (2 * n_pairs))


def tied_share(answers: Answers, predictions: Floats) -> float:
    """The share of a person's test pairs that have equal ratings; predictions (m,) are what it is given for."""
    scores = answers.unlock(predictions)
    pairs = len(scores) * (len(scores) - 1)
    return float(((scores[:, None] == scores[None, :]).sum() - len(scores)) / pairs) if pairs else float("nan")


def squared_errors(answers: Answers, predictions: Floats) -> Floats:
    """The mean squared error of each of many predictions (c, m): (c,)."""
    residuals = predictions - answers.unlock(predictions)
    return np.asarray(np.mean(residuals * residuals, axis=-1))
