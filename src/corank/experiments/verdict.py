"""The numbers of a comparison (means with intervals, gains with tests, effects of unscored rows,
curves) and its verdict in plain words, "cannot tell" included; and how sure a mean is: standard
errors, bootstrap intervals from a fixed seed, and paired tests of differences, over test queries
or, without queries, over repeats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from corank.core.arrays import FloatArray, runs_of_rows
from corank.core.messages import rounded
from corank.metrics import MEASURES

LEVEL = 0.05  # of a test
RESAMPLES = 10_000
CONFIDENCE = 0.95
BLOCK_ENTRIES = 2**22  # numbers held in memory at a time


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
    """The facts behind a verdict.

    gains : over the baseline, by the titles of the methods, the best mean first; None for the
        baseline itself
    """

    measure: str
    baseline: str
    gains: Mapping[str, Gain | None]
    effects: Sequence[Effect]
    by_query: bool

    def sentences(self) -> list[str]:
        """The answer, then the methods against the baseline, then the effects of unscored rows."""
        against = [
            self._against(title, gain) for title, gain in self.gains.items() if gain is not None
        ]
        return [self._answer(), *against, *map(self._effect, self.effects)]

    def _answer(self) -> str:
        base = self.baseline
        best, against = next(iter(self.gains.items()))
        if against is None:
            return f"Nothing was better than the baseline, {base}: it has the best mean itself."
        winners = [title for title, gain in self.gains.items() if gain and gain.verdict == "better"]
        if against.verdict == "better":
            others = f" Also better than it: {', '.join(winners[1:])}." if winners[1:] else ""
            return (
                f"{best} has the best mean, {self._amount(against.gain)} better than {base}: more"
                f" than chance would explain.{others}"
            )
        if winners:
            return (
                f"Better than {base}: {', '.join(winners)}. {best} has the best mean, but too"
                " unevenly to be sure."
            )
        return (
            f"Cannot tell: {best} has the best mean, but by no more than chance could explain"
            f"{self._needed(against)}."
        )

    def _amount(self, gain: Estimate) -> str:
        if self.measure == "disagreement":
            return _interval(gain, 100, " percentage points of misordered pairs", digits=2)
        return _interval(gain, 1, f" {MEASURES[self.measure].title}")

    def _against(self, title: str, gain: Gain) -> str:
        verdict = {
            "better": "better than",
            "worse": "worse than",
            "cannot tell": "cannot be told apart from",
        }[gain.verdict]
        return f"{title}: {verdict} {self.baseline}; {self._tested(gain)}."

    def _tested(self, gain: Gain) -> str:
        amount = in_numbers(gain.gain, self.measure, signed=True)
        return f"gain {amount}, {chance(gain.p_corrected)}"

    def _effect(self, effect: Effect) -> str:
        gain = effect.effect
        rows = f"{effect.n_unscored:,.0f} unscored rows"
        if gain.gain == Estimate(0.0, 0.0, 0.0):
            return f"{effect.title}: {rows} made no difference."
        tested = self._tested(gain)
        if gain.verdict == "cannot tell":
            needed = self._needed(gain)
            return f"{effect.title}: cannot tell whether {rows} helped; {tested}{needed}."
        verdict = "helped" if gain.verdict == "better" else "hurt"
        return f"{effect.title}: {rows} {verdict}; {tested}."

    def _needed(self, gain: Gain) -> str:
        """Roughly how many queries would settle a difference of this size."""
        more = "; more repeats or more scores may tell"
        half = (gain.gain.high - gain.gain.low) / 2
        if not self.by_query or gain.gain.mean == 0 or half == 0:
            return more
        needed = gain.units * (half / abs(gain.gain.mean)) ** 2
        if not gain.units < needed <= 100 * gain.units:
            return more
        return (
            f"; about {float(f'{needed:.2g}'):,.0f} test queries instead of {gain.units} would"
            " settle a difference of this size"
        )


def in_numbers(value: Estimate, measure: str, *, signed: bool = False) -> str:
    """A mean with its interval; disagreement in points, hundredths of all pairs."""
    scale, unit = (100, " points") if measure == "disagreement" else (1, "")
    return _interval(value, scale, unit, sign="+" if signed else "")


def _interval(value: Estimate, scale: int, unit: str, digits: int = 3, sign: str = "") -> str:
    mean, low, high = (
        rounded(scale * number, digits, sign).replace("-", "−") for number in astuple(value)
    )
    return f"{mean}{unit} ({low} to {high})"


def chance(p: float) -> str:
    """A p-value as text."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3g}"


# ---- how sure a mean is


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
    ends = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
    low, high = np.quantile(np.concatenate(means), ends)
    return float(low), float(high)


@lru_cache(maxsize=4)  # many tables of one shape are looked at in a row
def _two_way_counts(draws: int, queries: int) -> list[tuple[FloatArray, FloatArray]]:
    """Counts of draws and queries for all resamples, in blocks of bounded size."""
    rng = np.random.default_rng(0)

    def counts(run: slice, n: int) -> FloatArray:
        """How often each of n units is drawn in every resample of a run: (resamples, n)."""
        return rng.multinomial(n, np.full(n, 1 / n), size=run.stop - run.start).astype(float)

    runs = runs_of_rows(RESAMPLES, max(1, BLOCK_ENTRIES // max(draws, queries)))
    return [(counts(run, draws), counts(run, queries)) for run in runs]


FEWEST_PAIRS = 6  # below that no signed-rank test can reach 0.05 on both sides


def over_repeats(values: Any) -> FloatArray:
    """One value per query: the mean of the repeats in which it was tested, NaN where there was
    none. (repeats, queries)
    """
    values = np.asarray(values, dtype=float)
    counts = (~np.isnan(values)).sum(axis=0)
    means = np.full(values.shape[1], np.nan)
    np.divide(np.nansum(values, axis=0), counts, out=means, where=counts > 0)
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
    reach = float(stdtrit(repeats - 1, (1 + CONFIDENCE) / 2)) * spread
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
