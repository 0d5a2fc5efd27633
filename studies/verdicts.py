"""From paired errors to a verdict on a published finding, and how sure a mean is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from corank.experiments.verdict import FEWEST_PAIRS, signed_rank, two_way_interval
from studies.study import (
    CANNOT_BE_TESTED,
    DOES_NOT_HOLD,
    HOLDS,
    NOT_CLAIMED,
    OWN,
    PARTLY,
    Finding,
    Kind,
    Verdict,
)

LEVEL = 0.05
NORMAL = 1.96  # standard errors to either end of a 95 % interval


def standard_error(values: Any) -> float:
    """The standard error of the mean; NaN for a single value."""
    values = np.asarray(values, dtype=float)
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def mean_interval(values: Any) -> tuple[float, float]:
    """The 95 % bootstrap interval of the mean of (n,) values."""
    return two_way_interval(np.asarray(values, dtype=float)[None, :])


def student_interval(values: Any) -> tuple[float, float, float]:
    """Mean of a few values and Student's 95 % interval; without bounds for a single one."""
    values = np.asarray(values, dtype=float)
    mean = float(values.mean())
    if len(values) < 2:
        return mean, -np.inf, np.inf
    reach = float(stats.t.ppf(0.975, len(values) - 1)) * standard_error(values)
    return mean, mean - reach, mean + reach


def small_sample(size: int) -> float:
    """How much wider than a bootstrap interval of `size` draws an honest one is: as Student's is
    than the normal one, with the variance that the bootstrap leaves out.
    """
    if size < 2:
        return float("inf")
    return float(stats.t.ppf(0.975, size - 1)) / NORMAL * float(np.sqrt(size / (size - 1)))


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

    @property
    def interval(self) -> tuple[float, float, float]:
        """Mean, low and high end."""
        return self.mean, self.low, self.high

    def over(self, units: str) -> str:
        """How many units and draws it is a mean of."""
        return f"over {self.n_units:,} {units}" + (
            f", {self.n_draws} draws" if self.n_draws > 1 else ""
        )

    def verdict(self, asked: float | None, level: float = LEVEL) -> Verdict:
        """Whether the first method errs less.

        asked : the difference that was published or would be worth having (below 0)

        It does where both test and interval say so, but only partly where the interval excludes
        half of `asked`. Where they do not say so, it does not if the interval excludes half of
        `asked`, and there are too few units to tell if it does not. So more of the same draws
        settle what could not be told, and turn no verdict round but by chance.
        """
        if self.n_units < FEWEST_PAIRS:
            return CANNOT_BE_TESTED
        is_small = asked is not None and self.low > asked / 2
        if self.mean < 0 and self.p < level and self.high < 0:
            return PARTLY if is_small else HOLDS
        return DOES_NOT_HOLD if is_small or self.low > 0 else CANNOT_BE_TESTED


def gap_between(better: Any, worse: Any) -> Gap:
    """The gap between errors (units,) or (draws, units); NaN where undefined, which leaves out the
    unit.

    With several draws the test is over the means of the units, and the interval takes both draws
    and units to be drawn again: the units of a draw share a model. It is widened as far as the
    smaller of both numbers asks for.
    """
    differences = np.atleast_2d(np.asarray(better, dtype=float) - np.asarray(worse, dtype=float))
    differences = differences[:, ~np.isnan(differences).any(axis=0)]
    draws, n = differences.shape
    if n == 0:
        return Gap(np.nan, np.nan, np.nan, 1.0, 0, draws)
    mean = float(differences.mean())
    low, high = mean_interval(differences[0]) if draws == 1 else two_way_interval(differences)
    wider = small_sample(n if draws == 1 else min(draws, n))
    return Gap(
        mean,
        mean - wider * (mean - low),
        mean + wider * (high - mean),
        signed_rank(differences.mean(axis=0)),
        n,
        draws,
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
    case: str = "",
    kind: Kind = OWN,
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
    case, kind : as of `Finding`
    """
    gap, asked = gap_between(better, worse), worth if published is None else published
    verdict = gap.verdict(asked)
    if gap.n_units < FEWEST_PAIRS:
        evidence = f"only {gap.n_units} {units}."
        return Finding(source, claim, verdict, evidence, case, kind)
    if not np.asarray(worse).any():
        evidence = f"without an error {gap.over(units)} there is none to make less of."
        return Finding(source, claim, CANNOT_BE_TESTED, evidence, case, kind, gap.interval)
    evidence = f"difference {gap.shown} {gap.over(units)}"
    evidence += "" if published is None else f"; published {published:+.3f}"
    if asked is not None and verdict == PARTLY:
        evidence += f": less, but not by half of {asked:+.3f}"
    if asked is not None and verdict == CANNOT_BE_TESTED:
        evidence += f". Too few to exclude either no difference or half of {asked:+.3f}"
    return Finding(source, claim, verdict, f"{evidence}.", case, kind, gap.interval)


def smaller_errors(
    source: str,
    claim: str,
    errors: Mapping[str, Any],
    pairs: Mapping[tuple[str, str], float | None],
    *,
    units: str,
    case: str = "",
    kind: Kind = OWN,
) -> list[Finding]:
    """A claim about several pairs of methods (better, worse), with the published difference of
    each: one finding per pair.
    """
    where = f"{case}, " if case else ""
    return [
        smaller_error(
            source,
            claim,
            errors[better],
            errors[worse],
            units=units,
            published=published,
            case=f"{where}{better} against {worse}",
            kind=kind,
        )
        for (better, worse), published in pairs.items()
    ]


def at_most(
    source: str,
    claim: str,
    values: Any,
    limit: float,
    evidence: str,
    *,
    case: str = "",
    kind: Kind = OWN,
    digits: int = 2,
) -> Finding:
    """The finding that a number, measured a few times, is at most `limit`.

    evidence : what was measured, with "{}" for the number and its interval
    """
    mean, low, high = student_interval(values)
    verdict = HOLDS if high <= limit else DOES_NOT_HOLD if low > limit else CANNOT_BE_TESTED
    shown = f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
    sentence = f"{evidence.format(shown)}; at most {limit:g} counts."
    return Finding(source, claim, verdict, sentence, case, kind, (mean, low, high))


def untested(found: Sequence[Finding], why: str, case: str) -> list[Finding]:
    """The claims of these findings on the paper's own ground, where that is not at hand."""
    places = {finding.claim: finding.source for finding in found if finding.kind != NOT_CLAIMED}
    return [Finding(source, claim, CANNOT_BE_TESTED, why, case) for claim, source in places.items()]


def joint_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """Of a claim about several cases: it holds where it does in all of them, and partly where it
    does in some. Where it does in none, it does not hold if that is so in most of them, and cannot
    be tested if most of them cannot.
    """
    if all(verdict == HOLDS for verdict in verdicts):
        return HOLDS
    if HOLDS in verdicts or PARTLY in verdicts:
        return PARTLY
    against = sum(verdict == DOES_NOT_HOLD for verdict in verdicts)
    return DOES_NOT_HOLD if 2 * against > len(verdicts) else CANNOT_BE_TESTED


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


def growths(sizes: Any, seconds: Any) -> Any:
    """The exponents of `growth`, one per repetition: seconds (repetitions, sizes)."""
    return np.asarray([growth(sizes, times) for times in np.asarray(seconds, dtype=float)])
