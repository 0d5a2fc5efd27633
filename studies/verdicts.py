"""From paired errors to a verdict on a published finding, and how sure a mean is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, stats

from corank.experiments.verdict import FEWEST_PAIRS, signed_rank, two_way_interval
from studies.study import CANNOT_BE_TESTED, DOES_NOT_HOLD, HOLDS, Finding, Verdict

LEVEL = 0.05


def standard_error(values: Any) -> float:
    """The standard error of the mean; NaN for a single value."""
    values = np.asarray(values, dtype=float)
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def mean_interval(values: Any) -> tuple[float, float]:
    """The 95 % bootstrap interval of the mean of (n,) values."""
    return two_way_interval(np.asarray(values, dtype=float)[None, :])


@dataclass(frozen=True)
class Gap:
    """How much less one method errs than another.

    mean : of the paired differences; low, high : its 95 % interval
    p : of Wilcoxon's two-sided test over the units
    n_units, n_draws : how many units (such as test queries) and draws there are
    """

    mean: float
    low: float
    high: float
    p: float
    n_units: int
    n_draws: int

    @property
    def shown(self) -> str:
        """The difference with its interval and test."""
        return f"{self.mean:+.4f} ({self.low:+.4f} to {self.high:+.4f}), {chance(self.p)}"

    def over(self, units: str) -> str:
        """How many units and draws it is a mean of."""
        return f"over {self.n_units:,} {units}" + (
            f", {self.n_draws} draws" if self.n_draws > 1 else ""
        )

    def verdict(self, asked: float | None, level: float = LEVEL) -> Verdict:
        """Whether the first method errs less.

        It does where both test and interval say so. Where they do not, but the interval leaves room
        for `asked`, the difference that was published or would be worth having (below 0), there are
        too few units to tell.
        """
        if self.n_units < FEWEST_PAIRS:
            return CANNOT_BE_TESTED
        if self.mean < 0 and self.p < level and self.high < 0:
            return HOLDS
        return CANNOT_BE_TESTED if asked is not None and self.low <= asked else DOES_NOT_HOLD


def gap_between(better: Any, worse: Any) -> Gap:
    """The gap between errors (units,) or (draws, units); NaN where undefined, which leaves out the
    unit.

    With several draws the test is over the means of the units, and the interval takes both draws
    and units to be drawn again: the units of a draw share a model.
    """
    differences = np.atleast_2d(np.asarray(better, dtype=float) - np.asarray(worse, dtype=float))
    differences = differences[:, ~np.isnan(differences).any(axis=0)]
    draws, n = differences.shape
    if n == 0:
        return Gap(np.nan, np.nan, np.nan, 1.0, 0, draws)
    low, high = mean_interval(differences[0]) if draws == 1 else two_way_interval(differences)
    return Gap(
        float(differences.mean()), low, high, signed_rank(differences.mean(axis=0)), n, draws
    )


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
    """The finding that one method errs less than another, judged over test queries, users, data
    sets or repetitions.

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
    evidence = f"{where}: " if where else ""
    if gap.n_units < FEWEST_PAIRS:
        return Finding(source, claim, verdict, f"{evidence}only {gap.n_units} {units}.")
    evidence += f"difference {gap.shown} {gap.over(units)}"
    evidence += "" if published is None else f"; published {published:+.3f}"
    if verdict == CANNOT_BE_TESTED:
        other = "the published one" if published is not None else f"one of {worth:+.3f}"
        evidence += f". Too few to exclude either no difference or {other}"
    return Finding(source, claim, verdict, f"{evidence}.")


def smaller_errors(
    source: str,
    claim: str,
    errors: Mapping[str, Any],
    pairs: Mapping[tuple[str, str], float | None],
    *,
    units: str,
) -> Finding:
    """A claim about several pairs of methods (better, worse), with the published difference of
    each.

    It holds where it does for all of them, and does not hold where it does not for one.
    """
    gaps = {pair: gap_between(*(errors[method] for method in pair)) for pair in pairs}
    verdicts = {pair: gap.verdict(pairs[pair]) for pair, gap in gaps.items()}
    verdict = joint_verdict(list(verdicts.values()))
    short = {HOLDS: "holds", DOES_NOT_HOLD: "does not", CANNOT_BE_TESTED: "cannot be told"}
    evidence = [
        f"{better} less {worse} {gap.shown}: {short[verdicts[better, worse]]}"
        for (better, worse), gap in gaps.items()
    ]
    return Finding(
        source, claim, verdict, f"{'; '.join(evidence)} ({next(iter(gaps.values())).over(units)})."
    )


def joint_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """Of a claim about several pairs: it holds where it does for all of them, and does not where it
    does not for one.
    """
    return next(
        (verdict for verdict in (DOES_NOT_HOLD, CANNOT_BE_TESTED) if verdict in verdicts), HOLDS
    )


def one_sided(better: Any, worse: Any) -> tuple[float, float]:
    """Wilcoxon's statistic as [Brefeld2006] counts it, the ranks of the pairs where `better` errs
    more, and its one-sided p.
    """
    differences = np.asarray(better, dtype=float) - np.asarray(worse, dtype=float)
    if not (differences != 0).any():
        return 0.0, 1.0
    test = stats.wilcoxon(differences, alternative="less")
    return float(test.statistic), float(test.pvalue)


def chance(p: float) -> str:
    """A p-value in words."""
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def growth(sizes: Any, seconds: Any) -> float:
    """The exponent of a power of the size that the times follow, by least squares of the
    logarithms.
    """
    return float(
        np.polyfit(
            np.log(np.asarray(sizes, dtype=float)), np.log(np.asarray(seconds, dtype=float)), 1
        )[0]
    )


def share_of_degree(degree: int, sizes: Any, seconds: Any) -> float:
    """How much of the time at the greatest size is due to this power of the size.

    In the polynomial of that degree without negative terms that fits best, by relative errors.
    """
    sizes, seconds = np.asarray(sizes, dtype=float), np.asarray(seconds, dtype=float)
    terms = (sizes[:, None] / sizes.max()) ** np.arange(degree + 1)
    weights, _ = optimize.nnls(terms / seconds[:, None], np.ones(len(sizes)))
    return float(weights[-1] / weights.sum())
