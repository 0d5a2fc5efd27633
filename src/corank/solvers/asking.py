"""What to ask next: rows to score, or pairs to compare, out of a pool with a Gaussian belief about it.

Questions are picked one by one, each the most telling one given that those before it were answered: a batch does not
ask the same thing twice. No chance is involved; among equals the first is taken.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, xlogy

from corank.problem import FloatArray
from corank.statistics import Index

WIDTH = np.sqrt(np.pi * np.log(2) / 2)  # of the Gaussian that stands for the entropy of a probit answer
TIE = 1e-12


def rows_to_score(covariance: FloatArray, noise: float, count: int) -> Index:
    """Rows (count,) whose scores tell most: the largest variance, given the answers before, of noise variance `noise`."""
    left, chosen = covariance.copy(), []
    free = np.ones(len(left), dtype=bool)
    for _ in range(count):
        gain = np.where(free, np.diag(left), -np.inf)
        row = _first_best(gain)
        chosen.append(row)
        free[row] = False
        column = left[:, row]
        left = left - np.outer(column, column) / (column[row] + noise)
    return np.asarray(chosen, dtype=np.int64)


def pairs_to_compare(mean: FloatArray, covariance: FloatArray, count: int) -> Index:
    """Pairs (count, 2) of rows whose comparison tells most about the function (BALD, Houlsby et al. 2011).

    That is the entropy of the answer less what is left of it once the function is known: high where the answer is open
    because the function is, not because the two are equally good. O(count m²) for m rows.
    """
    left, chosen = covariance.copy(), []
    gaps = mean[:, None] - mean[None, :]
    free = np.triu(np.ones(left.shape, dtype=bool), k=1)
    for _ in range(count):
        variances = np.diag(left)
        spread = np.maximum(variances[:, None] + variances[None, :] - 2 * left, 0.0)
        gain = np.where(free, information(gaps, spread), -np.inf)
        first, second = np.unravel_index(_first_best(gain.ravel()), gain.shape)
        pair = (int(first), int(second))
        chosen.append(pair)
        free[pair] = False
        column = left[:, pair[0]] - left[:, pair[1]]
        left = left - np.outer(column, column) / (spread[pair] + _answer_noise(gaps[pair], spread[pair]))
    return np.asarray(chosen, dtype=np.int64).reshape(-1, 2)


def information(gaps: FloatArray, variances: FloatArray) -> FloatArray:
    """Bits that a noisy answer to "is a better than b?" says about f(a) − f(b) ~ N(gap, variance)."""
    probability = ndtr(gaps / np.sqrt(1 + variances))
    entropy = -(xlogy(probability, probability) + xlogy(1 - probability, 1 - probability)) / np.log(2)
    width = WIDTH**2
    known = WIDTH / np.sqrt(variances + width) * np.exp(-(gaps**2) / (2 * (variances + width)))
    return np.asarray(np.maximum(entropy - known, 0.0))


def _answer_noise(gap: float, variance: float) -> float:
    """The noise variance of the Gaussian observation that an answer is worth."""
    scale = 1 + variance
    z = gap / np.sqrt(scale)
    density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    probability = ndtr(z)
    expected = (
        density**2 / np.maximum(probability * (1 - probability), 1e-12) / scale
    )  # mean shrinkage over both answers
    return float(max(1 / max(expected, 1e-12) - variance, 1e-6))


def _first_best(gain: FloatArray) -> int:
    """The first of the largest, where differences that are rounding do not count."""
    most = float(np.max(gain))
    return int(np.flatnonzero(gain >= most - TIE * max(abs(most), 1e-300))[0])
