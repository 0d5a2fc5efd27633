"""From paired errors to a verdict on a published finding."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from corank.experiments.intervals import mean_interval
from corank.experiments.papers.study import CANNOT_BE_TESTED, DOES_NOT_HOLD, HOLDS, Finding
from corank.experiments.significance import FEWEST_PAIRS, signed_rank

LEVEL = 0.05


def smaller_error(
    source: str,
    claim: str,
    better: Any,
    worse: Any,
    *,
    units: str,
    published: float | None = None,
    level: float = LEVEL,
    where: str = "",
) -> Finding:
    """The finding that one method errs less than another, judged over test queries, users or data sets.

    It holds where Wilcoxon's signed-rank test (two-sided) says so. Where it does not, and the interval of the mean
    difference has both 0 and the published difference inside, there are too few units to tell.

    Parameters
    ----------
    better, worse : (units,) errors of the method that is said to err less, and of the other
    units : what is counted, such as "test sentences"
    published : the paper's difference, better minus worse, where it prints one
    where : the data, where that is not plain from the claim
    """
    differences = np.asarray(better, dtype=float) - np.asarray(worse, dtype=float)
    differences = differences[~np.isnan(differences)]
    place = f"{where}: " if where else ""
    if len(differences) < FEWEST_PAIRS:
        return Finding(source, claim, CANNOT_BE_TESTED, f"{place}only {len(differences)} {units}.")
    mean, p = float(differences.mean()), signed_rank(differences)
    low, high = mean_interval(differences)
    words = f"{place}difference {mean:+.4f} ({low:+.4f} to {high:+.4f}), {chance(p)}, {len(differences):,} {units}"
    if published is not None:
        words += f"; published {published:+.3f}"
    if mean < 0 and p < level:
        return Finding(source, claim, HOLDS, f"{words}.")
    if published is not None and low <= published and high >= 0:
        few = f"{words}. With so few {units} neither no difference nor the published one can be excluded."
        return Finding(source, claim, CANNOT_BE_TESTED, few)
    return Finding(source, claim, DOES_NOT_HOLD, f"{words}.")


def one_sided(better: Any, worse: Any) -> tuple[float, float]:
    """Wilcoxon's statistic as 001 counts it, the ranks of the pairs where `better` errs more, and its one-sided p."""
    differences = np.asarray(better, dtype=float) - np.asarray(worse, dtype=float)
    if not (differences != 0).any():
        return 0.0, 1.0
    test = stats.wilcoxon(differences, alternative="less")
    return float(test.statistic), float(test.pvalue)


def chance(p: float) -> str:
    """A p-value in words."""
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"
