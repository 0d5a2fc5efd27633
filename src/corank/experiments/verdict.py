"""The numbers of a comparison (means with intervals, gains with tests, effects of unscored rows,
curves) and its verdict in plain words, "cannot tell" included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

from corank.core.messages import rounded
from corank.metrics import MEASURES

LEVEL = 0.05  # of a test


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Gain:
    """How much better one method is than another; above 0 = better, whatever the measure.

    p : of the test alone; p_corrected : for all tests made together (Holm)
    verdict : "better", "worse" or "cannot tell"
    units : number of queries (repeats) behind it
    """

    gain: Estimate
    p: float
    p_corrected: float
    units: int

    @property
    def verdict(self) -> str:
        """Better or worse only where test and interval say so."""
        if self.p_corrected <= LEVEL and self.gain.low > 0:
            return "better"
        return "worse" if self.p_corrected <= LEVEL and self.gain.high < 0 else "cannot tell"


@dataclass(frozen=True)
class Row:
    """One method in the table. `against` is None for the baseline."""

    method: str
    title: str
    estimates: dict[str, Estimate | None]
    against: Gain | None
    fit_seconds: float
    predict_seconds: float
    size: float
    tried: int | None


@dataclass(frozen=True)
class Effect:
    """Did unscored rows help a method? `effect`: of the same method with them, against without
    them.
    """

    method: str
    title: str
    n_unscored: float
    effect: Gain
    with_them: Estimate
    without: Estimate


@dataclass(frozen=True)
class LearningCurve:
    """Error of a method against the number of scored or unscored rows, with 95 % bands."""

    method: str
    title: str
    over: str
    n: list[float]
    points: list[Estimate]


@dataclass(frozen=True)
class Finding:
    """The facts behind a verdict: titles of the methods, the best mean first, and gains over the
    baseline.
    """

    measure: str
    baseline: str
    order: Sequence[str]
    gains: Mapping[str, Gain]
    effects: Sequence[Effect]
    by_query: bool


def sentences(finding: Finding) -> list[str]:
    """The answer, then the methods against the baseline, then the effects of unscored rows."""
    return [
        _answer(finding),
        *_against(finding),
        *(_effect(finding, effect) for effect in finding.effects),
    ]


def in_numbers(value: Estimate, measure: str, *, signed: bool = False) -> str:
    """A mean with its interval; disagreement in points, hundredths of all pairs."""
    sign = "+" if signed else ""
    scale, unit = (100, " points") if measure == "disagreement" else (1, "")
    mean, low, high = (
        rounded(scale * number, sign=sign).replace("-", "−") for number in astuple(value)
    )
    return f"{mean}{unit} ({low} to {high})"


def chance(p: float) -> str:
    """A p-value as text."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3g}"


def _answer(finding: Finding) -> str:
    best, base = finding.order[0], finding.baseline
    against = finding.gains.get(best)
    winners = [
        title
        for title in finding.order
        if title in finding.gains and finding.gains[title].verdict == "better"
    ]
    if against is None:
        return f"Nothing was better than the baseline, {base}: it has the best mean itself."
    if against.verdict == "better":
        others = [title for title in winners if title != best]
        also = f" Also better than it: {', '.join(others)}." if others else ""
        return (
            f"{best} has the best mean, {_amount(against.gain, finding)} better than {base}: more"
            f" than chance would explain.{also}"
        )
    if winners:
        return (
            f"Better than {base}: {', '.join(winners)}. {best} has the best mean, but too unevenly"
            " to be sure."
        )
    needed = _needed(against, finding)
    return (
        f"Cannot tell: {best} has the best mean, but by no more than chance could explain{needed}."
    )


def _against(finding: Finding) -> list[str]:
    lines = []
    for title in finding.order:
        if title in finding.gains:
            gain = finding.gains[title]
            amount = in_numbers(gain.gain, finding.measure, signed=True)
            verdicts = {
                "better": "better than",
                "worse": "worse than",
                "cannot tell": "cannot be told apart from",
            }
            lines.append(
                f"{title}: {verdicts[gain.verdict]} {finding.baseline}; gain {amount},"
                f" {chance(gain.p_corrected)}."
            )
    return lines


def _effect(finding: Finding, effect: Effect) -> str:
    gain = effect.effect
    rows = f"{effect.n_unscored:,.0f} unscored rows"
    if gain.gain.mean == gain.gain.low == gain.gain.high == 0:
        return f"{effect.title}: {rows} made no difference."
    amount = (
        f"gain {in_numbers(gain.gain, finding.measure, signed=True)}, {chance(gain.p_corrected)}"
    )
    if gain.verdict == "cannot tell":
        return (
            f"{effect.title}: cannot tell whether {rows} helped; {amount}{_needed(gain, finding)}."
        )
    return f"{effect.title}: {rows} {'helped' if gain.verdict == 'better' else 'hurt'}; {amount}."


def _amount(gain: Estimate, finding: Finding) -> str:
    if finding.measure == "disagreement":
        low, high = rounded(100 * gain.low, 2), rounded(100 * gain.high, 2)
        return (
            f"{rounded(100 * gain.mean, 2)} percentage points of misordered pairs ({low} to {high})"
        )
    return (
        f"{rounded(gain.mean)} {MEASURES[finding.measure].title} ({rounded(gain.low)} to"
        f" {rounded(gain.high)})"
    )


def _needed(gain: Gain, finding: Finding) -> str:
    """Roughly how many queries would settle a difference of this size."""
    half = (gain.gain.high - gain.gain.low) / 2
    more = "; more repeats or more scores may tell"
    if not finding.by_query or gain.gain.mean == 0 or half == 0:
        return more
    needed = gain.units * (half / abs(gain.gain.mean)) ** 2
    if needed <= gain.units or needed > 100 * gain.units:
        return more
    needed = float(f"{needed:.2g}")
    return (
        f"; about {needed:,.0f} test queries instead of {gain.units} would settle a difference of"
        " this size"
    )
