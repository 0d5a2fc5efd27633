"""What to ask next: rows to score, or pairs to compare, out of a pool with a Gaussian belief about
it.

Questions are picked one by one, each the one that tells most given that those before it were
answered: a batch does not ask for one thing twice (docs/mathematics.md, section 3.15). No chance is
involved; the first of equals is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import ndtr, xlogy

from corank.core.arrays import FloatArray, Index

Question: TypeAlias = Literal["score", "comparison"]

# of the Gaussian that stands for the entropy of a probit answer
ENTROPY_WIDTH = np.sqrt(np.pi * np.log(2) / 2)
# share of the largest gain: others that fall short of it by less are equal but for rounding
GAIN_ROUNDING = 1e-12


def rows_to_score(covariance: FloatArray, noise: float, count: int) -> Index:
    """Rows (count,) whose scores, with noise of that variance, leave least uncertainty about all
    rows of the pool.

    Uncertainty is the sum of all variances: a row that lies apart from the others may have the
    largest variance, but its score says little about them.
    """
    return _rows(covariance, noise, count, lambda c: np.sum(c * c, axis=0) / (np.diag(c) + noise))


def contested_rows(covariance: FloatArray, noise: float, count: int) -> Index:
    """Rows (count,) with the largest variance, given the answers before."""
    return _rows(covariance, noise, count, np.diag)


def _rows(
    covariance: FloatArray, noise: float, count: int, gain: Callable[[FloatArray], FloatArray]
) -> Index:
    """Rows of largest gain, a function of the covariance (m, m) given the answers before. O(count
    m²) for m rows.
    """
    chosen: list[int] = []
    free = np.ones(len(covariance), dtype=bool)
    for _ in range(count):
        row = _first_best(np.where(free, gain(covariance), -np.inf))
        chosen.append(row)
        free[row] = False
        column = covariance[:, row]
        covariance = covariance - np.outer(column, column) / (column[row] + noise)
    return np.asarray(chosen, dtype=np.int64)


def pairs_to_compare(mean: FloatArray, covariance: FloatArray, count: int) -> Index:
    """Pairs (count, 2) of rows of which to ask who wins: those whose answers tell most about the
    function.

    What an answer tells is its entropy less what is left of it once the function is known
    ([Houlsby2011]): much where the answer is open because the function is, little where the two are
    equally good. Scores are in units of the noise of an answer. For the pairs after it an answer
    counts as if it were the difference, with that noise, so that a batch does not dwell on one
    item.
    """
    first, second = np.triu_indices(len(mean), k=1)
    gaps = mean[first] - mean[second]
    return _pairs(covariance, 1.0, count, lambda variances: information(gaps, variances))


def pairs_to_measure(covariance: FloatArray, noise: float, count: int) -> Index:
    """Pairs (count, 2) of rows of which to ask by how much the better wins: those of the largest
    variance.
    """
    return _pairs(covariance, noise, count, lambda variances: variances)


def contested_pairs(
    contested: FloatArray, covariance: FloatArray, noise: float, count: int
) -> Index:
    """Pairs (count, 2) of rows about whose difference views disagree most, given the answers
    before.

    contested : (m, m) variance between the views of every difference
    covariance : (m, m) of their disagreement, which says how much of it an answer about other rows
        has settled
    """
    ends = np.triu_indices(len(covariance), k=1)
    share = contested[ends] / np.maximum(_difference_variances(covariance, *ends), 1e-300)
    return _pairs(covariance, noise, count, lambda variances: share * variances)


def _pairs(
    covariance: FloatArray, noise: float, count: int, gain: Callable[[FloatArray], FloatArray]
) -> Index:
    """Pairs of largest gain, a function of the variances of all differences in the order of
    triu_indices.

    Each is chosen given the answers before. O(count m²) for m rows.
    """
    chosen: list[tuple[int, int]] = []
    first, second = np.triu_indices(len(covariance), k=1)
    free = np.ones(len(first), dtype=bool)
    for _ in range(count):
        variances = _difference_variances(covariance, first, second)
        pair = _first_best(np.where(free, gain(variances), -np.inf))
        a, b = int(first[pair]), int(second[pair])
        chosen.append((a, b))
        free[pair] = False
        column = covariance[:, a] - covariance[:, b]
        covariance = covariance - np.outer(column, column) / (variances[pair] + noise)
    return np.asarray(chosen, dtype=np.int64).reshape(-1, 2)


def _difference_variances(covariance: FloatArray, first: Index, second: Index) -> FloatArray:
    """Variances of the differences between rows `first` and rows `second`."""
    variances = np.diag(covariance)
    return np.maximum(variances[first] + variances[second] - 2 * covariance[first, second], 0.0)


def information(gaps: FloatArray, variances: FloatArray) -> FloatArray:
    """Bits that a noisy answer to "is a better than b?" says about f(a) − f(b) ~ N(gap, variance)."""
    probability = ndtr(gaps / np.sqrt(1 + variances))
    entropy = -(xlogy(probability, probability) + xlogy(1 - probability, 1 - probability)) / np.log(
        2
    )
    spread = variances + ENTROPY_WIDTH**2
    noise_entropy = ENTROPY_WIDTH / np.sqrt(spread) * np.exp(-(gaps**2) / (2 * spread))
    return np.asarray(np.maximum(entropy - noise_entropy, 0.0))


def _first_best(gain: FloatArray) -> int:
    """The first of the largest gains, equal ones told by GAIN_ROUNDING."""
    largest = float(np.max(gain))
    return int(np.flatnonzero(gain >= largest - GAIN_ROUNDING * max(abs(largest), 1e-300))[0])
