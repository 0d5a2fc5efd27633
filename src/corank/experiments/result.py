"""The result of a comparison: tables with intervals and tests, the effect of unscored rows, curves,
and the verdict.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from corank.core.arrays import FloatArray
from corank.experiments.data import Items
from corank.experiments.measures import JUDGES
from corank.experiments.methods import Method
from corank.experiments.protocol import Draw, Protocol, split
from corank.experiments.uncertainty import (
    corrected_resampled,
    holm,
    over_repeats,
    signed_rank,
    two_way_interval,
)
from corank.experiments.verdict import (
    Effect,
    Estimate,
    Finding,
    Gain,
    LearningCurve,
    Row,
    sentences,
)
from corank.metrics import MEASURES, Measure
from corank.tables import replacing
from corank.tables.write import finite

VERSION = 1  # of the file


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
        return len(split(self.items, free, Draw(0)).scored) > len(
            split(self.items, self.protocol, Draw(0)).scored
        )

    def method(self, name: str) -> Method:
        """A method by its name."""
        return next(method for method in self.methods if method.name == name)

    @cached_property
    def _by_place(self) -> dict[tuple[str, float, float], list[Record]]:
        places: dict[tuple[str, float, float], list[Record]] = {}
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
        n_queries = 1 if not self.has_queries else int(self.items.qid.max()) + 1
        table = np.full((len(records), n_queries), np.nan)
        for line, record in zip(table, records, strict=True):
            line[record.result["queries"] if self.has_queries else [0]] = np.asarray(
                record.result[measure], dtype=float
            )
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
        return None if np.isnan(values).all() else self._estimate(values, MEASURES[measure])

    def _estimate(self, values: FloatArray, measure: Measure) -> Estimate:
        """Mean and interval of (repeats, queries): bootstrap over both; without queries the
        corrected interval over repeats.

        The mean is that of the units that tests are made on. No mean lies outside of the range of
        the measure, so what an interval has there is cut off, which leaves the mean in it just as
        often.
        """
        if self.has_queries:
            mean, interval = float(np.nanmean(over_repeats(values))), two_way_interval(values)
        else:
            mean, interval = (
                float(values.mean()),
                corrected_resampled(values[:, 0], *self._sizes)[1],
            )
        return Estimate(*np.clip([mean, *interval], measure.least, measure.largest).tolist())

    @property
    def _sizes(self) -> tuple[float, float]:
        """Scored rows outside and inside the test set, for the correction of repeats."""
        n_test = float(np.mean([record.result["n_test"] for record in self.records]))
        return float(self.items.scored.sum()) - n_test, n_test

    def _gains(self, pairs: Sequence[tuple[FloatArray, FloatArray]]) -> list[Gain]:
        """Gains of the first of every pair over the second, both (repeats, queries), by tests that
        are made together.
        """
        measure = MEASURES[self.measure]
        most = measure.largest - measure.least  # of a gain
        in_range = measure._replace(least=-most, largest=most)
        tests = []
        for first, second in pairs:
            gains = second - first if measure.lower_is_better else first - second
            if self.has_queries:
                units = over_repeats(gains)
                p, n_units = signed_rank(units), int(np.count_nonzero(~np.isnan(units)))
            else:
                p, n_units = corrected_resampled(gains[:, 0], *self._sizes)[0], len(gains)
            tests.append((self._estimate(gains, in_range), p, n_units))
        corrected = holm([p for _, p, _ in tests])
        return [
            Gain(gain, p, q, n_units)
            for (gain, p, n_units), q in zip(tests, corrected, strict=True)
        ]

    @cached_property
    def _against(self) -> dict[str, Gain]:
        baseline = self.values(self.measure, self.baseline)
        names = [
            m.name
            for m in self.methods
            if m.name != self.baseline and self.estimate(self.measure, m.name)
        ]
        gains = self._gains([(self.values(self.measure, name), baseline) for name in names])
        return dict(zip(names, gains, strict=True))

    def rows(self) -> list[Row]:
        """One line per method, the baseline first."""
        order = sorted(self.methods, key=lambda method: method.name != self.baseline)
        return [self._row(method) for method in order]

    def _row(self, method: Method) -> Row:
        records = self.runs(method.name)

        def median(name: str) -> float:
            return float(np.median([record.result[name] for record in records]))

        return Row(
            method=method.name,
            title=method.title,
            estimates={measure: self.estimate(measure, method.name) for measure in JUDGES},
            against=self._against.get(method.name),
            fit_seconds=median("fit_seconds"),
            predict_seconds=median("predict_seconds"),
            size=median("size"),
            tried=records[0].result["tried"],
        )

    def ranked(self) -> list[str]:
        """Names of the methods, the best mean first."""
        means = {
            m.name: e.mean
            for m in self.methods
            if (e := self.estimate(self.measure, m.name)) is not None
        }
        lower_is_better = MEASURES[self.measure].lower_is_better
        return sorted(means, key=lambda name: means[name] if lower_is_better else -means[name])

    def effects(self) -> list[Effect]:
        """For every method that uses unscored rows: the same method with and without them."""
        pairs = [
            method
            for method in self.methods
            if method.uses_unscored and (method.name, 1.0, 0.0) in self._by_place
        ]
        both = [
            (self.values(self.measure, m.name), self.values(self.measure, m.name, unscored=0.0))
            for m in pairs
        ]
        effects = []
        for method, gain in zip(pairs, self._gains(both), strict=True):
            with_them, without = (
                self.estimate(self.measure, method.name, unscored=share) for share in (1.0, 0.0)
            )
            assert with_them is not None
            assert without is not None
            n = np.mean([record.result["n_unscored"] for record in self.runs(method.name)])
            effects.append(Effect(method.name, method.title, float(n), gain, with_them, without))
        return effects

    def curves(self, over: str = "scored") -> list[LearningCurve]:
        """Error against the number of rows: `over` "scored" or "unscored".

        How hard a query is for all methods at all points says nothing about them: bands leave that
        out.
        """
        if over not in ("scored", "unscored"):
            raise ValueError(f'over={over!r} is unknown; give "scored" or "unscored".')
        places: dict[str, list[tuple[str, float, float]]] = {}
        for method in self.methods:
            fitted = sorted(
                (name, scored, unscored)
                for name, scored, unscored in self._by_place
                if name == method.name and (unscored if over == "scored" else scored) == 1
            )
            if len(fitted) > 1 and self.estimate(self.measure, method.name) is not None:
                places[method.name] = fitted
        common: FloatArray | float = 0.0  # by how much each query is harder than the mean of all
        if self.has_queries and places:
            levels = [
                self.units(self.measure, *place) for fitted in places.values() for place in fitted
            ]
            level = np.mean(levels, axis=0)  # NaN where one has none
            common = level - np.nanmean(level)
        return [
            LearningCurve(
                name,
                self.method(name).title,
                over,
                [
                    float(np.mean([record.result[f"n_{over}"] for record in self.runs(*place)]))
                    for place in fitted
                ],
                [
                    self._estimate(
                        self.values(self.measure, *place) - common, MEASURES[self.measure]
                    )
                    for place in fitted
                ],
            )
            for name, fitted in places.items()
        ]

    def probabilities(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Outcomes (0 or 1) of pairs and their predicted probabilities, for every method that gives
        any.
        """
        probabilities = {}
        for method in self.methods:
            records = self.runs(method.name)
            if "said" in records[0].result:
                came, said = (
                    np.concatenate([record.result[key] for record in records])
                    for key in ("came", "said")
                )
                probabilities[method.name] = (came.astype(float), said.astype(float))
        return probabilities

    def warnings(self) -> Counter[str]:
        """Warnings of fits, and how many fits had each."""
        return Counter(
            f"{record.method}: {text}" for record in self.records for text in record.warnings
        )

    def verdict(self) -> list[str]:
        """The conclusions, in sentences; the first is the answer."""
        titles = {method.name: method.title for method in self.methods}
        order = [titles[name] for name in self.ranked()]
        gains = {titles[name]: gain for name, gain in self._against.items()}
        return sentences(
            Finding(
                self.measure, titles[self.baseline], order, gains, self.effects(), self.has_queries
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the data, as JSON has it."""
        return {
            "version": VERSION,
            "measure": self.measure,
            "baseline": self.baseline,
            "protocol": asdict(self.protocol),
            "scored_share": self.protocol.share(self.items),
            "data": self.items.digest,
            "verdict": self.verdict(),
            "methods": finite(
                [
                    asdict(row) | {"verdict": row.against and row.against.verdict}
                    for row in self.rows()
                ]
            ),
            "unscored": finite(
                [asdict(effect) | {"verdict": effect.effect.verdict} for effect in self.effects()]
            ),
            "curves": finite(
                [asdict(curve) for over in ("scored", "unscored") for curve in self.curves(over)]
            ),
            "failed": self.failed,
            "fits": len(self.records),
            "fits_made_now": self.run_now,
            "seconds": self.seconds,
            "runs": [
                {"method": r.method, "draw": list(r.draw), "seconds": r.seconds, **r.result}
                for r in self.records
            ],
        }

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write `to_dict()` as JSON, whole or not at all."""
        with replacing(Path(path), overwrite=overwrite) as file:
            file.write(json.dumps(self.to_dict(), indent=1).encode())

    def __repr__(self) -> str:
        return (
            f"ComparisonResult({len(self.methods)} methods, {len(self.records)} fits)\n"
            + "\n".join(self.verdict())
        )
