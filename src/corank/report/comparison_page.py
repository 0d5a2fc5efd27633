"""The report of a comparison as one HTML file that opens anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike

import numpy as np

from corank.experiments import Comparison
from corank.experiments.estimates import Estimate, Row
from corank.experiments.intake import intake
from corank.experiments.measures import READING, TITLES, WITHIN
from corank.experiments.protocol import MEASURES
from corank.experiments.verdict import chance, in_numbers
from corank.report.comparison_parts import model_section, per_query_section, reliability_section, resources_section
from corank.report.origins import origins
from corank.report.page import Cell, Html, Section, bullets, facts, figure, folded, page, table, text, verdict, write
from corank.report.plots_of_comparisons import plot_comparison, plot_learning_curve

COLOURS = {"better": "good", "worse": "bad", "cannot tell": ""}


def write_report(
    found: Comparison,
    path: str | PathLike[str],
    *,
    title: str = "Which method is best?",
    command: str | None = None,
    columns: Sequence[Mapping[str, str]] = (),
    problems: Sequence[str] = (),
    overwrite: bool = False,
) -> None:
    """Write a comparison as one HTML file: no script, no request, light and dark, fit to print.

    Parameters
    ----------
    found : what `compare` gave
    path : where to write it
    title : heading of the page
    command : what was typed to make it, shown at its end
    columns : what became of each column of a table, as `TableEncoder.summary()` says
    problems : what else a reader should know of the data
    overwrite : whether a file that is already there may be replaced
    """
    sections = [
        _came_in(found, columns, problems),
        _methods(found),
        _unscored(found),
        _curves(found),
        model_section(found),
        per_query_section(found),
        reliability_section(found),
        resources_section(found),
        _protocol(found, command),
    ]
    answer, *rest = found.verdict()
    html = page(title, [verdict(answer, rest)], [section for section in sections if section is not None])
    write(html, path, overwrite=overwrite)


def _came_in(found: Comparison, columns: Sequence[Mapping[str, str]], problems: Sequence[str]) -> Section:
    data = intake(found.items)
    pairs = {
        "rows": f"{data.rows:,}",
        "scored": f"{data.scored:,} ({data.scored / data.rows:.0%})",
        "scores": f"{data.lowest:,.4g} to {data.highest:,.4g}".replace("-", "−"),
        "ties": f"{data.tied:.1%} of the pairs that compete have the same score",
    }
    if data.queries is not None:
        sizes = f"{data.smallest_query:,} to {data.largest_query:,} rows each, {data.median_query:,.0f} in the middle"
        pairs["queries"] = f"{data.queries:,}: {sizes}"
    else:
        pairs["queries"] = "none: all rows compete with each other"
    worth_knowing = [*problems, *data.problems]
    parts = [facts("The data", pairs)]
    parts.append(bullets(worth_knowing) if worth_knowing else text("Nothing looked wrong.", "soft"))
    if columns:
        rows = [(column["column"] or "(no name)", column["kind"], column["treatment"]) for column in columns]
        listed = table("Columns", ("column", "kind", "what becomes of it"), rows, words=(1, 2))
        parts.append(folded(f"{len(columns):,} columns", listed))
    return Section("What came in", parts)


def _methods(found: Comparison) -> Section:
    rows = {row.method: row for row in found.rows()}
    shown = [m for m in MEASURES if any(row.estimates[m] is not None for row in rows.values())]
    head = ["method", *(TITLES[m] for m in shown), f"gain in {TITLES[found.measure]}", "p", "verdict"]
    lines = [_line(rows[name], shown, found.measure) for name in found.ranked()]
    unit = "test queries" if found.has_queries else "repeats"
    test = "Wilcoxon's signed-rank test" if found.has_queries else "the corrected resampled t-test of Nadeau and Bengio"
    reading = [
        f"{_capital(TITLES[m])}: {READING[m]}{WITHIN if m == 'rmse' and found.has_queries else ''}." for m in shown
    ]
    base = found.method(found.baseline).title
    return Section(
        "Methods",
        [
            figure(
                lambda ax: plot_comparison(found, ax=ax),
                "; ".join(
                    f"{rows[name].title} {in_numbers(value, found.measure)}"
                    for name in found.ranked()
                    if (value := rows[name].estimates[found.measure]) is not None
                ),
                f"Means, and gains over {base} with 95 % intervals. Green is better, orange worse, grey cannot be told apart.",
                (8.0, 1.2 + 0.42 * len(rows)),
            ),
            table("The best mean first; 95 % intervals below the means", head, lines, words=(len(head) - 1,)),
            bullets(reading),
            text(
                f"Gains are over {base}, paired by {unit}; p is that of {test}, corrected by Holm for {len(rows) - 1} tests. "
                f"Intervals are over {'training draws and test queries' if found.has_queries else 'repeats'}. "
                f"A verdict takes p at most 0.05 and an interval without 0. All methods were tuned on the scored training "
                "rows alone.",
                "soft",
            ),
        ],
    )


def _line(row: Row, shown: Sequence[str], measure: str) -> list[str | Cell]:
    cells: list[str | Cell] = [row.title, *(_estimate(row.estimates[m]) for m in shown)]
    if row.against is None:
        return [*cells, "", "", "baseline"]
    gain = row.against
    return [
        *cells,
        _estimate(gain.gain, signed=True),
        chance(gain.p_corrected).removeprefix("p = ").removeprefix("p "),
        Cell(gain.verdict, kind=COLOURS[gain.verdict]),
    ]


def _estimate(value: Estimate | None, *, signed: bool = False) -> Cell:
    if value is None:
        return Cell("–")
    sign = "+" if signed else ""
    mean, low, high = (f"{number:{sign}.4f}".replace("-", "−") for number in (value.mean, value.low, value.high))
    return Cell(mean, f"{low} to {high}")


def _unscored(found: Comparison) -> Section | None:
    effects = found.effects()
    if not effects:
        return None
    rows = [
        (
            effect.title,
            f"{effect.n_unscored:,.0f}",
            _estimate(effect.without),
            _estimate(effect.with_them),
            _estimate(effect.effect.gain, signed=True),
            chance(effect.effect.p_corrected).removeprefix("p = ").removeprefix("p "),
            Cell(_HELPED[effect.effect.verdict], kind=COLOURS[effect.effect.verdict]),
        )
        for effect in effects
    ]
    head = ("method", "unscored rows", "without them", "with them", "gain", "p", "did they help?")
    parts: list[Html] = [
        text("The same method on the same scores, once with the unscored rows and once without."),
        table(f"{_capital(TITLES[found.measure])} with 95 % intervals", head, rows, words=(6,)),
    ]
    if found.curves("unscored"):
        parts.append(_curve(found, "unscored"))
    return Section("Did unscored rows help?", parts)


_COMMON = ", in which what all methods have in common on a query is left out"
_HELPED = {"better": "helped", "worse": "hurt", "cannot tell": "cannot tell"}


def _curves(found: Comparison) -> Section | None:
    return Section("Learning curves", [_curve(found, "scored")]) if found.curves("scored") else None


def _curve(found: Comparison, over: str) -> Html:
    ends = "; ".join(
        f"{curve.title} {curve.points[0].mean:.4f} at {curve.n[0]:,.0f} and {curve.points[-1].mean:.4f} at {curve.n[-1]:,.0f}"
        for curve in found.curves(over)
    )
    few = min(found.protocol.repeats, found.protocol.rounds)
    caption = (
        f"{_capital(TITLES[found.measure])} against the number of {over} rows in training, with 95 % bands"
        f"{_COMMON if found.has_queries else ''}. "
        f"The point with all unscored rows and the usual number of scored ones is the mean of {found.protocol.repeats} "
        f"repeats, the others of {few} or more."
    )
    return figure(lambda ax: plot_learning_curve(found, over=over, ax=ax), f"{TITLES[found.measure]}: {ends}", caption)


def _protocol(found: Comparison, command: str | None) -> Section:
    protocol, records = found.protocol, found.records
    main = [record.result for record in records if record.draw.scored == record.draw.unscored == 1]
    uses = [result["n_unscored"] for result in main if result["n_unscored"]]
    unit = "queries" if found.has_queries else "rows"
    pairs = {
        "repeats": f"{protocol.repeats}, each with other test, scored and unscored {unit}",
        "test": f"{protocol.test_share:.0%} of the {unit}, in turn: about {np.mean([r['n_test'] for r in main]):,.0f} rows",
        "scored": f"{protocol.share(found.items):.0%} of the training {unit} keep their scores, at most "
        f"{protocol.max_scored:,} rows: {np.mean([r['n_scored'] for r in main]):,.0f} rows on average",
        "unscored": f"at most {protocol.max_unscored:,} rows: {np.mean(uses) if uses else 0:,.0f} on average",
        "tuning": "every method tries 200 settings (RankSVM 20) and is judged on held-out scored rows only",
        "judged by": TITLES[found.measure],
        "seed": f"{protocol.seed}; those of single fits are in the JSON file",
        "fits": f"{len(records):,}, {found.run_now:,} of them made now in {found.seconds:,.0f} s, "
        f"{found.processes} at a time",
    }
    parts: list[Html] = [facts("Protocol", pairs)]
    if found.failed:
        parts += [
            text("Left out, because fits failed:"),
            bullets([f"{name}: {why}" for name, why in found.failed.items()]),
        ]
    warned = found.warnings()
    if warned:
        parts.append(folded("What fits warned of", bullets([f"{words} ({n} fits)" for words, n in warned.items()])))
    return Section("How it was done", [*parts, *origins(command)])


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
