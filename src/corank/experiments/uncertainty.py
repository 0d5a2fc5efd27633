"""How sure a mean is: standard errors, bootstrap intervals from a fixed seed, and paired tests of
differences, over test queries or, without queries, over repeats."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from corank.core.arrays import FloatArray

RESAMPLES = 10_000
LEVEL = 0.95
BLOCK_ENTRIES = 2**22  # numbers held in memory at a time


def two_way_interval(values: Any) -> tuple[float, float]:
    """95 % bootstrap interval of the mean of a table (draws, queries): both are drawn again,
    independently.

    NaN marks queries that were not tested in a draw. O(RESAMPLES · draws · queries).
    """
    values = np.asarray(values, dtype=float)
    is_tested = ~np.isnan(values)
    filled = np.where(is_tested, values, 0.0)
    means = []
    for draws, queries in _two_way_counts(*values.shape):
        totals = (draws @ filled) * queries
        numbers = (draws @ is_tested) * queries
        total, number = totals.sum(axis=1), numbers.sum(axis=1)
        means.append(total[number > 0] / number[number > 0])
    ends = (1 - LEVEL) / 2, (1 + LEVEL) / 2
    low, high = np.quantile(np.concatenate(means), ends)
    return float(low), float(high)


def _counts(rng: np.random.Generator, size: int, resamples: int) -> FloatArray:
    """How often each unit is drawn in every resample: (resamples, size)."""
    chances = np.full(size, 1 / size)
    return rng.multinomial(size, chances, size=resamples).astype(float)


@lru_cache(maxsize=4)  # many tables of one shape are looked at in a row
def _two_way_counts(draws: int, queries: int) -> list[tuple[FloatArray, FloatArray]]:
    """Counts of draws and queries for all resamples, in blocks of bounded size."""
    rng = np.random.default_rng(0)
    step = max(1, BLOCK_ENTRIES // max(draws, queries))
    blocks = []
    for begin in range(0, RESAMPLES, step):
        size = min(step, RESAMPLES - begin)
        blocks.append((_counts(rng, draws, size), _counts(rng, queries, size)))
    return blocks


FEWEST_PAIRS = 6  # below that no signed-rank test can reach 0.05 on both sides


def over_repeats(values: Any) -> FloatArray:
    """One value per query: the mean of the repeats in which it was tested, NaN where there was
    none. (repeats, queries)
    """
    values = np.asarray(values, dtype=float)
    is_tested = ~np.isnan(values)
    counts = is_tested.sum(axis=0)
    sums = np.where(is_tested, values, 0.0).sum(axis=0)
    means = np.full(values.shape[1], np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def signed_rank(differences: Any) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test of paired differences; 1 where all are 0."""
    differences = np.asarray(differences, dtype=float)
    differences = differences[~np.isnan(differences)]
    if not (differences != 0).any():
        return 1.0
    from scipy.stats import wilcoxon

    return float(wilcoxon(differences, zero_method="wilcox").pvalue)


def corrected_resampled(
    differences: Any, n_train: float, n_test: float
) -> tuple[float, tuple[float, float]]:
    """Nadeau and Bengio's corrected resampled t-test: p-value, and the 95 % interval of the mean
    difference.

    Repeats share training rows, so their plain variance is too small: it is multiplied by 1/J +
    n_test/n_train.
    """
    differences = np.asarray(differences, dtype=float)
    repeats = len(differences)
    mean = float(differences.mean())
    variance = float(differences.var(ddof=1))
    spread = float(np.sqrt((1 / repeats + n_test / n_train) * variance))
    if spread == 0:
        return float(mean == 0), (mean, mean)
    p = float(2 * stdtr(repeats - 1, -abs(mean) / spread))
    reach = float(stdtrit(repeats - 1, (1 + LEVEL) / 2)) * spread
    return p, (mean - reach, mean + reach)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction for as many tests: no p-value gets smaller, and their order is kept."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    n_left = len(p) - np.arange(len(p))
    stepped = np.maximum.accumulate(n_left * p[order])
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(stepped, 1.0)
    return list(map(float, corrected))
