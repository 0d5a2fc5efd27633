"""What to ask next: rows to score, or pairs to compare, out of a pool with a Gaussian belief about it.

Questions are picked one by one, each the most telling one given that those before it were answered: a batch does not
ask the same thing twice. No chance is involved; among equals the first is taken.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, xlogy

from corank._arrays import FloatArray, Index

WIDTH = np.sqrt(np.pi * np.log(2) / 2)  # of the Gaussian that stands for the entropy of a probit answer
TIE = 1e-12


def rows_to_score(covariance: FloatArray, noise: float, count: int) -> Index:
    """Rows (count,) whose scores, with noise of that variance, leave least uncertainty about all rows of the pool.

    That is the sum of all variances: where a row lies apart from the others its own variance may be largest, but its
    score says little about them.
    """
    return _rows(covariance, noise, count, lambda left: np.sum(left * left, axis=0) / (np.diag(left) + noise))


def contested_rows(covariance: FloatArray, noise: float, count: int) -> Index:
    """Rows (count,) with the largest variance, given the answers before."""
    return _rows(covariance, noise, count, np.diag)


def _rows(covariance: FloatArray, noise: float, count: int, gain: Callable[[FloatArray], FloatArray]) -> Index:
    """Rows of largest gain, a function of the covariance (m, m) given the answers before. O(count m²) for m rows."""
    left, chosen = covariance.copy(), []
    free = np.ones(len(left), dtype=bool)
    for _ in range(count):
        row = _first_best(np.where(free, gain(left), -np.inf))
        chosen.append(row)
        free[row] = False
        column = left[:, row]
        left = left - np.outer(column, column) / (column[row] + noise)
    return np.asarray(chosen, dtype=np.int64)


def pairs_to_compare(mean: FloatArray, covariance: FloatArray, count: int) -> Index:
    """Pairs (count, 2) of rows of which to ask who wins: the answer tells most about the function (BALD).

    That is the entropy of the answer less what is left of it once the function is known (Houlsby et al. 2011): high
    where the answer is open because the function is, not because the two are equally good. Scores are in units of the
    noise of an answer. For the pairs after it an answer counts as if it said the difference, with that noise: a batch
    does not dwell on one item.
    """
    first, second = np.triu_indices(len(mean), k=1)
    gaps = mean[first] - mean[second]
    return _pairs(covariance, 1.0, count, lambda spread: information(gaps, spread))


def pairs_to_measure(covariance: FloatArray, noise: float, count: int) -> Index:
    """Pairs (count, 2) of rows of which to ask by how much one wins: those of the largest variance."""
    return _pairs(covariance, noise, count, lambda spread: spread)


def contested_pairs(contested: FloatArray, covariance: FloatArray, noise: float, count: int) -> Index:
    """Pairs (count, 2) of rows about whose difference views disagree most, given the answers before.

    contested : (m, m) variance between the views of every difference
    covariance : (m, m) of their disagreement, which says how much of it an answer about other rows has settled
    """
    ends = np.triu_indices(len(covariance), k=1)
    share = contested[ends] / np.maximum(_spread(covariance, *ends), 1e-300)
    return _pairs(covariance, noise, count, lambda spread: share * spread)


def _pairs(covariance: FloatArray, noise: float, count: int, gain: Callable[[FloatArray], FloatArray]) -> Index:
    """Pairs of largest gain, a function of the variances of all differences in the order of triu_indices.

    Each is chosen given the answers before. O(count m²) for m rows.
    """
    left, chosen = covariance.copy(), []
    first, second = np.triu_indices(len(left), k=1)
    free = np.ones(len(first), dtype=bool)
    for _ in range(count):
        spread = _spread(left, first, second)
        pair = _first_best(np.where(free, gain(spread), -np.inf))
        a, b = int(first[pair]), int(second[pair])
        chosen.append((a, b))
        free[pair] = False
        column = left[:, a] - left[:, b]
        left = left - np.outer(column, column) / (spread[pair] + noise)
    return np.asarray(chosen, dtype=np.int64).reshape(-1, 2)


def _spread(covariance: FloatArray, first: Index, second: Index) -> FloatArray:
    """Variances of differences."""
    variances = np.diag(covariance)
    return np.asarray(np.maximum(variances[first] + variances[second] - 2 * covariance[first, second], 0.0))


def information(gaps: FloatArray, variances: FloatArray) -> FloatArray:
    """Bits that a noisy answer to "is a better than b?" says about f(a) − f(b) ~ N(gap, variance)."""
    probability = ndtr(gaps / np.sqrt(1 + variances))
    entropy = -(xlogy(probability, probability) + xlogy(1 - probability, 1 - probability)) / np.log(2)
    width = WIDTH**2
    known = WIDTH / np.sqrt(variances + width) * np.exp(-(gaps**2) / (2 * (variances + width)))
    return np.asarray(np.maximum(entropy - known, 0.0))


def _first_best(gain: FloatArray) -> int:
    """The first of the largest, where differences that are rounding do not count."""
    most = float(np.max(gain))
    return int(np.flatnonzero(gain >= most - TIE * max(abs(most), 1e-300))[0])
