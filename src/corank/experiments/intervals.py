"""How sure a mean is: standard errors and percentile bootstrap intervals, from a fixed seed."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RESAMPLES = 10_000
LEVEL = 0.95
ENTRIES = 2**22  # numbers held at a time


def standard_error(values: Any) -> float:
    """Of the mean; NaN for a single value."""
    values = np.asarray(values, dtype=float)
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def mean_interval(values: Any) -> tuple[float, float]:
    """95 % bootstrap interval of the mean of (n,) values."""
    return two_way_interval(np.asarray(values, dtype=float)[None, :])


def two_way_interval(values: Any) -> tuple[float, float]:
    """95 % bootstrap interval of the mean of a table (draws, queries): both are drawn again, independently.

    NaN marks queries that were not tested in a draw. O(RESAMPLES · draws · queries).
    """
    values = np.asarray(values, dtype=float)
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    means = []
    for draws, queries in _two_way_counts(*values.shape):
        total = ((draws @ filled) * queries).sum(axis=1)
        counted = ((draws @ known) * queries).sum(axis=1)
        means.append(total[counted > 0] / counted[counted > 0])
    return _percentiles(np.concatenate(means))


def _counts(rng: np.random.Generator, size: int, resamples: int) -> Floats:
    """How often each of so many is drawn in every resample: (resamples, size)."""
    return rng.multinomial(size, np.full(size, 1 / size), size=resamples).astype(float)


@lru_cache(maxsize=4)  # many tables of one shape are looked at in a row
def _two_way_counts(draws: int, queries: int) -> list[tuple[Floats, Floats]]:
    """For all resamples, so many at a time."""
    rng, step = np.random.default_rng(0), max(1, ENTRIES // max(draws, queries))
    sizes = [min(step, RESAMPLES - begin) for begin in range(0, RESAMPLES, step)]
    return [(_counts(rng, draws, size), _counts(rng, queries, size)) for size in sizes]


def _percentiles(means: Floats) -> tuple[float, float]:
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
