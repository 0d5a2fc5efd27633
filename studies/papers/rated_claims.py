"""Verdicts on what 003 says about ratings: who errs less than whom, who alike, and how sparse models are.

A claim is about all three groups of reference users: it holds where it holds in each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corank._arrays import FloatArray
from corank.experiments.uncertainty import signed_rank, standard_error
from studies.batched_fits.drawing import GROUPS
from studies.papers.judging import LEVEL, Gap, chance
from studies.papers.rated import Tested, shown
from studies.papers.study import CANNOT_BE_TESTED, DOES_NOT_HOLD, HOLDS, Finding, Verdict

NORMAL = 1.96  # standard errors to either end of a 95 % interval
ALIKE = 0.005  # differences of the share of wrong pairs up to this count as alike; the paper's are up to 0.004

Published = dict[str, tuple[float, float, float]]  # by method, one number a group


@dataclass(frozen=True)
class Setting:
    """One of the paper's tables: where its errors are found here, and what it prints."""

    tested: Tested
    task: str
    published: Published
    measure: str = "pairs"
    chosen_by: str = "pairs"

    def errors(self, group: tuple[int, int], method: str) -> FloatArray:
        """One value a test user."""
        return self.tested.errors(self.task, group, method, self.measure, chosen_by=self.chosen_by)

    def runs(self, group: tuple[int, int], method: str) -> FloatArray:
        """The same repetition by repetition: (repetitions, users)."""
        return self.tested.in_repetitions(self.task, group, method, self.measure, chosen_by=self.chosen_by)


@dataclass(frozen=True)
class Pair:
    """Two methods over the same test users of a group.

    once : share of single repetitions in which they differ by more than chance
    """

    group: tuple[int, int]
    better: str
    worse: str
    gap: Gap
    published: float | None = None
    once: float = float("nan")

    @property
    def verdict(self) -> Verdict:
        """Whether the first errs less."""
        return self.gap.verdict(self.published, LEVEL)

    @property
    def words(self) -> str:
        """In short."""
        return f"{self.better} minus {self.worse} {self.gap.mean:+.4f}, {chance(self.gap.p)}"


def pair(setting: Setting, group: tuple[int, int], better: str, worse: str) -> Pair:
    """Of two methods in one table."""
    at, printed = GROUPS.index(group), setting.published
    published = printed[better][at] - printed[worse][at] if better in printed and worse in printed else None
    runs = setting.runs(group, better) - setting.runs(group, worse)
    once = float(np.mean([signed_rank(own) < LEVEL for own in runs]))
    return Pair(group, better, worse, gap(setting.errors(group, better), setting.errors(group, worse)), published, once)


def gap(better: FloatArray, worse: FloatArray) -> Gap:
    """Of errors (users,). There are hundreds of users, or thousands: the mean is as good as normal."""
    values = better - worse
    values = values[~np.isnan(values)]
    mean, reach = float(values.mean()), NORMAL * standard_error(values)
    return Gap(mean, mean - reach, mean + reach, signed_rank(values), len(values), 1)


def pairs(setting: Setting, better: Sequence[str], worse: Sequence[str]) -> list[Pair]:
    """Of all pairs in all groups."""
    return [pair(setting, group, one, other) for group in GROUPS for one in better for other in worse if one != other]


def err_less(source: str, claim: str, found: Sequence[Pair]) -> Finding:
    """The claim that the first of each pair errs less."""
    verdicts = [own.verdict for own in found]
    verdict = next((one for one in (DOES_NOT_HOLD, CANNOT_BE_TESTED) if one in verdicts), HOLDS)
    by_group = {group: [own for own in found if own.group == group] for group in GROUPS}
    evidence = "; ".join(f"{shown(group)}: {_summary(own)}" for group, own in by_group.items() if own)
    if verdict == CANNOT_BE_TESTED:
        evidence += "; too few test users to tell no difference from the published one"
    return Finding(source, claim, verdict, f"{evidence}.")


def _summary(found: Sequence[Pair]) -> str:
    """How many of the pairs of a group are as claimed, and those that are not."""
    if len(found) == 1:
        return found[0].words
    against = [own for own in found if own.verdict != HOLDS]
    means = [own.gap.mean for own in found]
    words = f"{len(found) - len(against)} of {len(found)} pairs so (differences {min(means):+.4f} to {max(means):+.4f})"
    return words + (f", not {', '.join(own.words for own in against)}" if against else "")


def err_alike(source: str, claim: str, found: Sequence[Pair]) -> Finding:
    """The claim that no difference of a pair is more than chance."""
    apart = [own for own in found if own.gap.p < LEVEL]
    verdict: Verdict = DOES_NOT_HOLD if apart else HOLDS
    largest = max(found, key=lambda own: abs(own.gap.mean))
    evidence = (
        f"{len(apart)} of {len(found)} pairs differ (p < {LEVEL}) over all test users, {np.mean([own.once for own in found]):.0%} "
        f"of them over those of a single repetition; the largest difference is {_placed(largest)}"
    )
    return Finding(source, claim, verdict, f"{evidence}.")


def _placed(own: Pair) -> str:
    return f"{own.words} ({shown(own.group)})"


def not_worse(source: str, claim: str, found: Sequence[Pair]) -> Finding:
    """The claim that the first of each pair does about as well, whatever chance says: it errs by at most `ALIKE` more."""
    verdict: Verdict = HOLDS if all(own.gap.mean <= ALIKE for own in found) else DOES_NOT_HOLD
    evidence = "; ".join(_placed(own) for own in found)
    return Finding(source, claim, verdict, f"{evidence}. About as well is here: at most {ALIKE} more.")


def not_better(source: str, claim: str, found: Sequence[Pair]) -> Finding:
    """The claim that the first of each pair does not err less."""
    verdict: Verdict = DOES_NOT_HOLD if any(own.verdict == HOLDS for own in found) else HOLDS
    return Finding(source, claim, verdict, f"{'; '.join(_placed(own) for own in found)}.")


def sparser(source: str, claim: str, setting: Setting, method: str, share: float) -> Finding:
    """The claim that models have so much fewer kernel functions than scored items."""
    saved = [1 - sparsity(setting, group, method) for group in GROUPS]
    verdict: Verdict = HOLDS if min(saved) >= share else DOES_NOT_HOLD
    evidence = ", ".join(f"{shown(group)}: {own:.0%}" for group, own in zip(GROUPS, saved, strict=True))
    return Finding(source, claim, verdict, f"Kernel functions that {method} has less than RankRLS: {evidence}.")


def sparsity(setting: Setting, group: tuple[int, int], method: str) -> float:
    """Kernel functions of a model over scored items, the mean over test users."""
    return float(np.nanmean(setting.tested.errors(setting.task, group, method, "share", chosen_by=setting.chosen_by)))
