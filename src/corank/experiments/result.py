"""The result of a comparison: tables with intervals and tests, the effect of unscored rows, curves,
and the verdict.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from corank.core.arrays import FloatArray
from corank.experiments.methods import Method
from corank.experiments.protocol import JUDGES, Draw, Items, Protocol, split
from corank.experiments.verdict import (
    Effect,
    Estimate,
    Finding,
    Gain,
    LearningCurve,
    Row,
    corrected_resampled,
    holm,
    over_repeats,
    signed_rank,
    two_way_interval,
)
from corank.metrics import MEASURES
from corank.tables import replacing
from corank.tables.write import finite

VERSION = 1  # of the file
# the name of a method, and the multiples of scored and unscored rows of its draws
Place: TypeAlias = tuple[str, float, float]


@dataclass(frozen=True)
class Record:
    """One fit: its method and draw, its result, time, warnings and memory."""

    method: str
    draw: Draw
    result: dict[str, Any]
    seconds: float
    warnings: tuple[str, ...]
    memory: int


@dataclass(frozen=True, eq=False, repr=False)
class ComparisonResult:
    """What `compare` found. Print it, `save` it, or write it as a page with
    `corank.report.write_report`.

    Attributes
    ----------
    items, protocol, methods, baseline : what was compared
    records : every fit
    processes, run_now, seconds : how it was run: fits made now (others were kept), wall time
    failed : methods that are left out because they failed, and why
    """

    items: Items
    protocol: Protocol
    methods: tuple[Method, ...]
    baseline: str
    records: tuple[Record, ...]
    processes: int
    run_now: int
    seconds: float
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def measure(self) -> str:
        """The measure that decides."""
        return self.protocol.judge(self.items)

    @property
    def has_queries(self) -> bool:
        """Whether the unit of tests is the query."""
        return self.items.qid is not None

    @property
    def is_capped(self) -> bool:
        """Whether fits were made on fewer scored rows than the share alone asks for."""
        free = replace(self.protocol, max_scored=len(self.items))
        n_free, n_scored = (
            len(split(self.items, protocol, Draw(0)).scored) for protocol in (free, self.protocol)
        )
        return n_free > n_scored

    def method(self, name: str) -> Method:
        """A method by its name."""
        return next(method for method in self.methods if method.name == name)

    @cached_property
    def _by_place(self) -> dict[Place, list[Record]]:
        """The fits of every method with each number of scored and unscored rows."""
        places: dict[Place, list[Record]] = {}
        for record in self.records:
            place = (record.method, record.draw.scored, record.draw.unscored)
            places.setdefault(place, []).append(record)
        return places

    def runs(self, method: str, scored: float = 1.0, unscored: float = 1.0) -> list[Record]:
        """The fits of a method, one per repeat; `scored` and `unscored` as in `Draw`."""
        return self._by_place[method, scored, unscored]

    def values(
        self, measure: str, method: str, scored: float = 1.0, unscored: float = 1.0
    ) -> FloatArray:
        """(repeats, queries), NaN where a query was not tested; one column without queries."""
        records = self.runs(method, scored, unscored)
        table = np.full((len(records), self.items.n_queries), np.nan)
        for line, record in zip(table, records, strict=True):
            tested = record.result["queries"] if self.has_queries else [0]
            line[tested] = np.asarray(record.result[measure], dtype=float)
        return table

    def units(
        self, measure: str, method: str, scored: float = 1.0, unscored: float = 1.0
    ) -> FloatArray:
        """The values that tests compare: one per query, averaged over repeats; without queries one
        per repeat.
        """
        values = self.values(measure, method, scored, unscored)
        return over_repeats(values) if self.has_queries else values[:, 0]

    def estimate(
        self, measure: str, method: str, scored: float = 1.0, unscored: float = 1.0
    ) -> Estimate | None:
        """Mean and interval; None where the measure means nothing for the method."""
        values = self.values(measure, method, scored, unscored)
        return None if np.isnan(values).all() else self._estimate(values, *MEASURES[measure].range)

    def _estimate(self, values: FloatArray, least: float, largest: float) -> Estimate:
        """Mean and interval of (repeats, queries): bootstrap over both; without queries the
        corrected interval over repeats.

        The mean is that of the units that tests are made on. No mean lies outside of the range from
        `least` to `largest`, so what an interval has there is cut off, which leaves the mean in it
        just as often.
        """
        if self.has_queries:
            mean = float(np.nanmean(over_repeats(values)))
            interval = two_way_interval(values)
        else:
            mean = float(values.mean())
            _, interval = corrected_resampled(values[:, 0], *self._sizes)
        return Estimate(*np.clip([mean, *interval], least, largest).tolist())

    @property
    def _sizes(self) -> tuple[float, float]:
        """Scored rows outside and inside the test set, for the correction of repeats."""
        n_test = _mean_of("n_test", self.records)
        return float(self.items.scored.sum()) - n_test, n_test

    def _gains(self, pairs: Sequence[tuple[FloatArray, FloatArray]]) -> list[Gain]:
        """Gains of the first of every pair over the second, both (repeats, queries), by tests that
        are made together.
        """
        measure = MEASURES[self.measure]
        least, largest = measure.range
        most = largest - least  # of a gain
        gains = [first - second for first, second in pairs]
        if measure.lower_is_better:
            gains = [second - first for first, second in pairs]
        units = [over_repeats(gain) if self.has_queries else gain[:, 0] for gain in gains]
        counts = [int(np.count_nonzero(~np.isnan(own))) for own in units]
        if self.has_queries:
            tests = list(map(signed_rank, units))
        else:
            tests = [corrected_resampled(own, *self._sizes)[0] for own in units]
        intervals = [self._estimate(gain, -most, most) for gain in gains]
        return list(map(Gain, intervals, tests, holm(tests), counts))

    @cached_property
    def _means(self) -> dict[str, float]:
        """By the measure that decides, of the methods for which it means something, by name."""
        estimates = {
            method.name: self.estimate(self.measure, method.name) for method in self.methods
        }
        return {name: found.mean for name, found in estimates.items() if found is not None}

    @cached_property
    def _against(self) -> dict[str, Gain]:
        """The gains over the baseline, by name."""
        baseline = self.values(self.measure, self.baseline)
        names = [name for name in self._means if name != self.baseline]
        gains = self._gains([(self.values(self.measure, name), baseline) for name in names])
        return dict(zip(names, gains, strict=True))

    def rows(self) -> list[Row]:
        """One line per method, the baseline first."""
        order = sorted(self.methods, key=lambda method: method.name != self.baseline)
        return [self._row(method) for method in order]

    def _row(self, method: Method) -> Row:
        results = [record.result for record in self.runs(method.name)]
        medians = {
            name: float(np.median([result[name] for result in results]))
            for name in ("fit_seconds", "predict_seconds", "size")
        }
        return Row(
            method=method.name,
            title=method.title,
            estimates={measure: self.estimate(measure, method.name) for measure in JUDGES},
            against=self._against.get(method.name),
            tried=results[0]["tried"],
            **medians,
        )

    def ranked(self) -> list[str]:
        """Names of the methods, the best mean first."""
        sign = 1 if MEASURES[self.measure].lower_is_better else -1
        return sorted(self._means, key=lambda name: sign * self._means[name])

    def effects(self) -> list[Effect]:
        """For every method that uses unscored rows: the same method with and without them."""
        methods = [
            method
            for method in self.methods
            if method.uses_unscored and (method.name, 1.0, 0.0) in self._by_place
        ]
        values, ends = partial(self.values, self.measure), MEASURES[self.measure].range
        pairs = [(values(method.name), values(method.name, unscored=0.0)) for method in methods]
        effects = []
        for method, pair, gain in zip(methods, pairs, self._gains(pairs), strict=True):
            estimates = [self._estimate(table, *ends) for table in pair]
            n = _mean_of("n_unscored", self.runs(method.name))
            effects.append(Effect(method.name, method.title, n, gain, *estimates))
        return effects

    def curves(self, over: str = "scored") -> list[LearningCurve]:
        """Error against the number of rows: `over` "scored" or "unscored".

        How hard a query is for all methods at all points says nothing about them: bands leave that
        out.
        """
        if over not in ("scored", "unscored"):
            raise ValueError(f'over={over!r} is unknown; give "scored" or "unscored".')
        places = {name: self._places(name, over) for name in self._means}
        places = {name: fitted for name, fitted in places.items() if len(fitted) > 1}
        common: FloatArray | float = 0.0  # by how much each query is harder than the mean of all
        if self.has_queries and places:
            every_place = chain.from_iterable(places.values())
            levels = [self.units(self.measure, *place) for place in every_place]
            level = np.mean(levels, axis=0)  # NaN where one has none
            common = level - np.nanmean(level)
        curves = []
        for name, fitted in places.items():
            numbers = [_mean_of(f"n_{over}", self.runs(*place)) for place in fitted]
            values = [self.values(self.measure, *place) - common for place in fitted]
            points = [self._estimate(table, *MEASURES[self.measure].range) for table in values]
            curves.append(LearningCurve(name, self.method(name).title, over, numbers, points))
        return curves

    def _places(self, name: str, over: str) -> list[Place]:
        """Where a method was fitted with all numbers of scored (unscored) rows and all of the
        others.
        """
        other = 2 if over == "scored" else 1
        return sorted(place for place in self._by_place if place[0] == name and place[other] == 1)

    def probabilities(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Outcomes (0 or 1) of pairs and their predicted probabilities, for every method that gives
        any.
        """
        probabilities = {}
        for method in self.methods:
            results = [record.result for record in self.runs(method.name)]
            if "said" in results[0]:
                came = np.concatenate([result["came"] for result in results]).astype(float)
                said = np.concatenate([result["said"] for result in results]).astype(float)
                probabilities[method.name] = (came, said)
        return probabilities

    def warnings(self) -> Counter[str]:
        """Warnings of fits, and how many fits had each."""
        return Counter(
            f"{record.method}: {text}" for record in self.records for text in record.warnings
        )

    def verdict(self) -> list[str]:
        """The conclusions, in sentences; the first is the answer."""
        gains = {self.method(name).title: self._against.get(name) for name in self.ranked()}
        baseline = self.method(self.baseline).title
        return Finding(self.measure, baseline, gains, self.effects(), self.has_queries).sentences()

    def to_dict(self) -> dict[str, Any]:
        """Everything but the data, as JSON has it."""
        rows = [
            asdict(row) | {"verdict": row.against and row.against.verdict} for row in self.rows()
        ]
        effects = [asdict(effect) | {"verdict": effect.effect.verdict} for effect in self.effects()]
        curves = [asdict(curve) for over in ("scored", "unscored") for curve in self.curves(over)]
        runs = [
            {
                "method": record.method,
                "draw": list(record.draw),
                "seconds": record.seconds,
                **record.result,
            }
            for record in self.records
        ]
        return {
            "version": VERSION,
            "measure": self.measure,
            "baseline": self.baseline,
            "protocol": asdict(self.protocol),
            "scored_share": self.protocol.share(self.items),
            "data": self.items.digest,
            "verdict": self.verdict(),
            "methods": finite(rows),
            "unscored": finite(effects),
            "curves": finite(curves),
            "failed": self.failed,
            "fits": len(self.records),
            "fits_made_now": self.run_now,
            "seconds": self.seconds,
            "runs": runs,
        }

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write `to_dict()` as JSON, whole or not at all."""
        content = json.dumps(self.to_dict(), indent=1)
        with replacing(Path(path), overwrite=overwrite) as file:
            file.write(content.encode())

    def __repr__(self) -> str:
        return (
            f"ComparisonResult({len(self.methods)} methods, {len(self.records)} fits)\n"
            + "\n".join(self.verdict())
        )


def _mean_of(name: str, records: Sequence[Record]) -> float:
    return float(np.mean([record.result[name] for record in records]))
