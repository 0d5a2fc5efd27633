"""Is a difference more than chance? Paired tests over test queries, or over repeats where there are no queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from corank.experiments.intervals import LEVEL
from corank.experiments.items import Floats

FEWEST_PAIRS = 6  # below that no signed-rank test can reach 0.05 on both sides


def over_repeats(values: Any) -> Floats:
    """One value a query: the mean of the repeats in which it was tested, NaN where there was none. (repeats, queries)"""
    values = np.asarray(values, dtype=float)
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    sums = np.where(known, values, 0.0).sum(axis=0)
    return np.asarray(np.divide(sums, counts, out=np.full(values.shape[1], np.nan), where=counts > 0))


def signed_rank(differences: Any) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test of paired differences; 1 where all are 0."""
    differences = np.asarray(differences, dtype=float)
    differences = differences[~np.isnan(differences)]
    if not (differences != 0).any():
        return 1.0
    return float(stats.wilcoxon(differences, zero_method="wilcox").pvalue)


def corrected_resampled(differences: Any, n_train: float, n_test: float) -> tuple[float, tuple[float, float]]:
    """Nadeau and Bengio's corrected resampled t-test: p-value, and the 95 % interval of the mean difference.

    Repeats share training rows, so their plain variance is too small: it is multiplied by 1/J + n_test/n_train.
    """
    differences = np.asarray(differences, dtype=float)
    repeats = len(differences)
    mean, variance = float(differences.mean()), float(differences.var(ddof=1))
    spread = float(np.sqrt((1 / repeats + n_test / n_train) * variance))
    if spread == 0:
        return (1.0 if mean == 0 else 0.0), (mean, mean)
    p = float(2 * stats.t.sf(abs(mean) / spread, repeats - 1))
    reach = float(stats.t.ppf((1 + LEVEL) / 2, repeats - 1)) * spread
    return p, (mean - reach, mean + reach)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction for as many tests: no p-value gets smaller, and their order is kept."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate((len(p) - np.arange(len(p))) * p[order])
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in corrected]
