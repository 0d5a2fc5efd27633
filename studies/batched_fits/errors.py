"""How wrong many predictions for the same person are: the share of pairs in the wrong order, and the squared error."""

from __future__ import annotations

import numpy as np

from corank._arrays import FloatArray
from studies.batched_fits.drawing import Answers


def pair_errors(answers: Answers, predictions: FloatArray) -> FloatArray:
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


def all_pair_errors(answers: Answers, predictions: FloatArray) -> FloatArray:
    """The same over all pairs, those with equal ratings too: one that is tied on one side only costs one half (004)."""
    scores = answers.unlock(predictions)
    truth = np.sign(scores[:, None] - scores[None, :])
    pairs = len(scores) * (len(scores) - 1)
    if pairs == 0:
        return np.full(len(predictions), np.nan)
    return np.asarray([np.abs(truth - np.sign(own[:, None] - own[None, :])).sum() / (2 * pairs) for own in predictions])


def squared_errors(answers: Answers, predictions: FloatArray) -> FloatArray:
    """The mean squared error of each of many predictions (c, m): (c,)."""
    residuals = predictions - answers.unlock(predictions)
    return np.asarray(np.mean(residuals * residuals, axis=-1))
