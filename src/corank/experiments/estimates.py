"""The numbers of a comparison: means with intervals, gains with tests, effects of unscored rows, curves."""

from __future__ import annotations

from dataclasses import dataclass

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
    """Did unscored rows help a method? `effect`: of the same method with them, against without them."""

    method: str
    title: str
    n_unscored: float
    effect: Gain
    with_them: Estimate
    without: Estimate


@dataclass(frozen=True)
class Curve:
    """Error of a method against the number of scored or unscored rows, with 95 % bands."""

    method: str
    title: str
    over: str
    n: list[float]
    points: list[Estimate]
