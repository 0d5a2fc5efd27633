"""How sure a mean is: standard errors and percentile bootstrap intervals, from a fixed seed."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RESAMPLES = 10_000
LEVEL = 0.95


def standard_error(values: Any) -> float:
    """Of the mean; NaN for a single value."""
    values = np.asarray(values, dtype=float)
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def mean_interval(values: Any) -> tuple[float, float]:
    """95 % bootstrap interval of the mean of (n,) values."""
    values = np.asarray(values, dtype=float)
    return _percentiles(_counts(np.random.default_rng(0), len(values)) @ values / len(values))


def two_way_interval(values: Any) -> tuple[float, float]:
    """95 % bootstrap interval of the mean of a table (draws, queries): both are drawn again, independently."""
    values = np.asarray(values, dtype=float)
    draws, queries = _two_way_counts(*values.shape)
    return _percentiles(((draws @ values) * queries).sum(axis=1) / values.size)


def _counts(rng: np.random.Generator, size: int) -> Floats:
    """How often each of so many is drawn in every resample: (RESAMPLES, size)."""
    return rng.multinomial(size, np.full(size, 1 / size), size=RESAMPLES).astype(float)


@lru_cache(maxsize=4)  # many tables of one shape are looked at in a row
def _two_way_counts(draws: int, queries: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    return _counts(rng, draws), _counts(rng, queries)


def _percentiles(means: Floats) -> tuple[float, float]:
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
