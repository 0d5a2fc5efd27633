"""What the errors on parses, jokes and documents say about the findings of 000 and 002."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from corank.experiments.uncertainty import two_way_interval
from studies.papers import agreement, noise
from studies.papers.agreement import AVERAGE, CO, SPARSE, STANDARD
from studies.papers.data_sets import Floats
from studies.papers.judging import growth, smaller_error, smaller_errors
from studies.papers.study import DOES_NOT_HOLD, HOLDS, Figure, Finding, Outcome, Panel, Result, Series, Settings, Table

TABLE_DATA = {"parses": "parses", "jester many": "Jester, 250 scored users", "jester few": "Jester, 20 scored users"}
NOISE_DATA = {"parses": "parses", "jester": "Jester", "ltr": "LightGBM ranking"}
UNITS = {
    "parses": "sentences",
    "jester": "test users",
    "jester many": "test users",
    "jester few": "test users",
    "ltr": "test queries",
}
PAPER_000 = {STANDARD: 0.348, CO: 0.326}
PER_QUERY = {"parses": 5, "jester many": 30, "jester few": 30}  # rows of an unscored query, about
WORTH = -0.005  # a difference that anyone would notice
LINEAR = 1.2  # exponents up to it count as linear growth


def conclude(settings: Settings, results: Mapping[str, Result]) -> Outcome:
    """Both papers' tables, 000's curve, and what became of the findings."""
    compared = {name: _stacked(results, f"{name}, table, ") for name in TABLE_DATA}
    curves = {name: _stacked(results, f"{name}, curve, ") for name in TABLE_DATA}
    noisy = {
        name: {level: _stacked(results, f"{name}, noise, ", str(level)) for level in noise.LEVELS}
        for name in NOISE_DATA
    }
    findings = [*_findings_000(compared, curves, results["time"]), *_findings_002(noisy)]
    tables = [_table_000(compared), _table_002(noisy), _curve_table(curves)]
    n_fits = sum(_fits(key, one) for key, one in results.items())
    return Outcome(tables, findings, [_curve_figure(curves), _noise_figure(noisy)], NOTES, n_fits)


def _fits(key: str, result: Result) -> int:
    """Of a part; the halves of the sentences count twice."""
    if key == "time":
        return 3 * len(result["rows"])
    methods = {"table": len(result), "curve": len(result) + 1, "noise": len(result) * len(noise.LEARNERS)}
    return methods[key.split(", ")[1]] * (2 if key.startswith("parses") else 1)


def _stacked(results: Mapping[str, Result], prefix: str, *path: str) -> dict[str, Floats]:
    """Errors (draws, queries) by method; queries without different scores are left out."""
    own: list[Any] = [one for key, one in results.items() if key.startswith(prefix)]
    for key in path:
        own = [one[key] for one in own]
    tables = {method: np.asarray([one[method] for one in own], dtype=float) for method in own[0]}
    defined = ~np.any([np.isnan(table).any(axis=0) for table in tables.values()], axis=0)
    return {method: table[:, defined] for method, table in tables.items()}


def _mean(table: Floats) -> tuple[float, float]:
    """Mean, and the standard error that follows from drawing both draws and queries again."""
    low, high = two_way_interval(table)
    return float(table.mean()), (high - low) / (2 * 1.96)


# ---- 000


def _table_000(compared: Mapping[str, Mapping[str, Floats]]) -> Table:
    rows = [
        (title, method, PAPER_000.get(method) if name == "parses" else None, *_mean(compared[name][method]))
        for name, title in TABLE_DATA.items()
        for method in agreement.METHODS
    ]
    return Table("000 table 1: disagreement on test queries", ("data", "method", "paper", "ours", "s.e."), rows)


def _findings_000(
    compared: Mapping[str, Mapping[str, Floats]], curves: Mapping[str, Mapping[str, Floats]], timed: Result
) -> list[Finding]:
    found = []
    for name, title in TABLE_DATA.items():
        errors = compared[name]
        claim = f"Sparse Co-RankRLS errs less than {{}} (0.326 against 0.348, p < 0.05): {title}"
        for other in (STANDARD, SPARSE):
            gap = -0.022
            found.append(
                smaller_error(
                    "000 table 1", claim.format(other), errors[CO], errors[other], units=UNITS[name], published=gap
                )
            )
    for name, title in TABLE_DATA.items():
        claim = (
            f"Unscored items improve the ranking significantly (against the same two views without agreement): {title}"
        )
        errors = compared[name]
        found.append(smaller_error("000 abstract", claim, errors[CO], errors[AVERAGE], units=UNITS[name], worth=WORTH))
    for name, title in TABLE_DATA.items():
        least, most = list(curves[name])[1], list(curves[name])[-1]
        claim = f"The error falls as unscored items are added ({least} to {most} unscored queries): {title}"
        errors = curves[name]
        found.append(smaller_error("000 fig. 1", claim, errors[most], errors[least], units=UNITS[name], worth=WORTH))
    exponent = growth(timed["rows"], timed["seconds"])
    claim = "Sparse Co-RankRLS takes time linear in the number of unscored items"
    rows = f"{timed['rows'][0]:,} to {timed['rows'][-1]:,} unscored rows"
    evidence = f"time grows as the number to the power {exponent:.2f} ({rows}, {timed['seconds'][-1]:.2f} s at most)."
    return [*found, Finding("000 sect. 4, 7", claim, HOLDS if exponent <= LINEAR else DOES_NOT_HOLD, evidence)]


def _curve_table(curves: Mapping[str, Mapping[str, Floats]]) -> Table:
    rows = [
        (title, int(amount), int(amount) * PER_QUERY[name], *_mean(errors))
        for name, title in TABLE_DATA.items()
        for amount, errors in curves[name].items()
    ]
    return Table(
        "000 fig. 1: disagreement of Sparse Co-RankRLS by unscored items",
        ("data", "unscored queries", "rows, about", "ours", "s.e."),
        rows,
        note="The points of the paper's figure are not in its text.",
        details=True,
    )


def _curve_figure(curves: Mapping[str, Mapping[str, Floats]]) -> Figure:
    panels = []
    for name, title in TABLE_DATA.items():
        amounts = [int(amount) * PER_QUERY[name] for amount in curves[name]]
        panels.append(Panel(title, "unscored rows", "disagreement", [_band(CO, amounts, list(curves[name].values()))]))
    return Figure(
        "unscored", "Error against unscored items, with 95 % bands over draws and queries (000 fig. 1).", panels
    )


def _band(name: str, x: list[Any], tables: list[Floats]) -> Series:
    intervals = [two_way_interval(table) for table in tables]
    means = [float(table.mean()) for table in tables]
    return Series(name, x, means, [low for low, _ in intervals], [high for _, high in intervals])


# ---- 002

Noisy = Mapping[str, Mapping[float, Mapping[str, Floats]]]


def _table_002(noisy: Noisy) -> Table:
    rows = [
        (
            title,
            f"{level:g}",
            method,
            noise.PAPER[method][at] if name == "parses" else None,
            *_mean(noisy[name][level][method]),
        )
        for name, title in NOISE_DATA.items()
        for at, level in enumerate(noise.LEVELS)
        for method in noise.LEARNERS
    ]
    return Table("002 table 1: disagreement by noise", ("data", "noise", "method", "paper", "ours", "s.e."), rows)


def _findings_002(noisy: Noisy) -> list[Finding]:
    found, whole, few = [], ("RLS", "RankRLS"), ("KPCRank", "KPCR")
    for name, title in NOISE_DATA.items():
        for at, level in enumerate(noise.LEVELS):
            if level == 0:
                claim = f"Without noise RLS and RankRLS err less than KPCRank and KPCR: {title}"
                pairs = [(better, worse) for better in whole for worse in few]
            else:
                claim = f"With noise {level:g} KPCRank errs less than RLS, RankRLS and KPCR: {title}"
                pairs = [("KPCRank", worse) for worse in (*whole, "KPCR")]
            published: dict[tuple[str, str], float | None] = {
                (better, worse): noise.PAPER[better][at] - noise.PAPER[worse][at] for better, worse in pairs
            }
            found.append(smaller_errors("002 table 1", claim, noisy[name][level], published, units=UNITS[name]))
    claim = "RankRLS ranks parses better than RLS (said of an earlier paper; 002 table 1 prints the contrary)"
    errors = noisy["parses"][0.0]
    return [
        *found,
        smaller_error("004 sect. 2", claim, errors["RankRLS"], errors["RLS"], units=UNITS["parses"], worth=WORTH),
    ]


def _noise_figure(noisy: Noisy) -> Figure:
    panels = [
        Panel(
            title,
            "noise, in ranges of the score",
            "disagreement",
            [
                _band(method, list(noise.LEVELS), [noisy[name][level][method] for level in noise.LEVELS])
                for method in noise.LEARNERS
            ],
        )
        for name, title in NOISE_DATA.items()
    ]
    return Figure("noise", "Error against noise in the training scores, with 95 % bands (002 table 1).", panels)


NOTES = (
    "The parses are 200 of the papers' many thousands: 42 sentences can show large differences only.",
    "Whether the RankRLS of 000 table 1 has a basis of 20 rows too is not said there: both are shown.",
)
