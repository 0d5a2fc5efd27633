"""From paired errors to a verdict on a published finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, stats

from corank.experiments.uncertainty import FEWEST_PAIRS, mean_interval, signed_rank, two_way_interval
from studies.papers.study import CANNOT_BE_TESTED, DOES_NOT_HOLD, HOLDS, Finding, Verdict

LEVEL = 0.05


@dataclass(frozen=True)
class Gap:
    """How much less one method errs than another: mean of the paired differences, its 95 % interval, p of Wilcoxon's
    two-sided test over the units, the numbers of units and of draws."""

    mean: float
    low: float
    high: float
    p: float
    n_units: int
    n_draws: int

    @property
    def words(self) -> str:
        """In numbers."""
        return f"{self.mean:+.4f} ({self.low:+.4f} to {self.high:+.4f}), {chance(self.p)}"

    def over(self, units: str) -> str:
        """What was counted."""
        return f"over {self.n_units:,} {units}" + (f", {self.n_draws} draws" if self.n_draws > 1 else "")

    def verdict(self, asked: float | None, level: float = LEVEL) -> Verdict:
        """Whether the first errs less. `asked`: the difference that was published, or would be worth having, below 0.

        It does where both test and interval say so. Where they do not, but the interval leaves room for what is asked
        for, there are too few units to tell.
        """
        if self.n_units < FEWEST_PAIRS:
            return CANNOT_BE_TESTED
        if self.mean < 0 and self.p < level and self.high < 0:
            return HOLDS
        return CANNOT_BE_TESTED if asked is not None and self.low <= asked else DOES_NOT_HOLD


def gap_between(better: Any, worse: Any) -> Gap:
    """Of errors (units,) or (draws, units); NaN where undefined, which leaves out the unit.

    With several draws the test is over the means of the units, and the interval takes both draws and units to be drawn
    again: the units of a draw share a model.
    """
    differences = np.atleast_2d(np.asarray(better, dtype=float) - np.asarray(worse, dtype=float))
    differences = differences[:, ~np.isnan(differences).any(axis=0)]
    draws, n = differences.shape
    if n == 0:
        return Gap(np.nan, np.nan, np.nan, 1.0, 0, draws)
    low, high = mean_interval(differences[0]) if draws == 1 else two_way_interval(differences)
    return Gap(float(differences.mean()), low, high, signed_rank(differences.mean(axis=0)), n, draws)


def smaller_error(
    source: str,
    claim: str,
    better: Any,
    worse: Any,
    *,
    units: str,
    published: float | None = None,
    worth: float | None = None,
    where: str = "",
) -> Finding:
    """The finding that one method errs less than another, judged over test queries, users, data sets or repetitions.

    Parameters
    ----------
    better, worse : (units,) or (draws, units)
        Errors of the method that is said to err less, and of the other; see `gap_between`.
    units : what is counted, such as "test sentences"
    published : the paper's difference, better minus worse, where it prints one
    worth : where it prints none, the difference that would be worth having, below 0
    where : the data, where that is not plain from the claim
    """
    gap = gap_between(better, worse)
    verdict = gap.verdict(worth if published is None else published)
    words = f"{where}: " if where else ""
    if gap.n_units < FEWEST_PAIRS:
        return Finding(source, claim, verdict, f"{words}only {gap.n_units} {units}.")
    words += f"difference {gap.words} {gap.over(units)}"
    words += "" if published is None else f"; published {published:+.3f}"
    if verdict == CANNOT_BE_TESTED:
        other = "the published one" if published is not None else f"one of {worth:+.3f}"
        words += f". Too few to exclude either no difference or {other}"
    return Finding(source, claim, verdict, f"{words}.")


def smaller_errors(
    source: str,
    claim: str,
    errors: Mapping[str, Any],
    pairs: Mapping[tuple[str, str], float | None],
    *,
    units: str,
) -> Finding:
    """A claim about several pairs of methods (better, worse), with the published difference of each.

    It holds where it does for all of them, and does not hold where it does not for one.
    """
    gaps = {pair: gap_between(*(errors[method] for method in pair)) for pair in pairs}
    verdicts = {pair: gap.verdict(pairs[pair]) for pair, gap in gaps.items()}
    verdict = next((v for v in (DOES_NOT_HOLD, CANNOT_BE_TESTED) if v in verdicts.values()), HOLDS)
    short = {HOLDS: "holds", DOES_NOT_HOLD: "does not", CANNOT_BE_TESTED: "cannot be told"}
    words = [
        f"{better} less {worse} {gap.words}: {short[verdicts[better, worse]]}" for (better, worse), gap in gaps.items()
    ]
    return Finding(source, claim, verdict, f"{'; '.join(words)} ({next(iter(gaps.values())).over(units)}).")


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


def growth(sizes: Any, seconds: Any) -> float:
    """The exponent of a power of the size that the times follow, by least squares of the logarithms."""
    return float(np.polyfit(np.log(np.asarray(sizes, dtype=float)), np.log(np.asarray(seconds, dtype=float)), 1)[0])


def share_of_degree(degree: int, sizes: Any, seconds: Any) -> float:
    """How much of the time at the greatest size is due to this power of the size, in the polynomial of that degree without
    negative terms that fits best (relative errors)."""
    sizes, seconds = np.asarray(sizes, dtype=float), np.asarray(seconds, dtype=float)
    terms = (sizes[:, None] / sizes.max()) ** np.arange(degree + 1)
    weights, _ = optimize.nnls(terms / seconds[:, None], np.ones(len(sizes)))
    return float(weights[-1] / weights.sum())
