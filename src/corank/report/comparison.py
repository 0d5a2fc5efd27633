"""Sections of the report of a comparison that look closer: a model, single queries, probabilities, time and memory.

The report of a comparison as one HTML file that opens anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from corank._plotting import FAINT, INK, axis
from corank.experiments import ComparisonResult, protocol
from corank.experiments.data import intake
from corank.experiments.measures import LOWER_IS_BETTER, READING, TITLES, WITHIN
from corank.experiments.protocol import MEASURES, Draw, split
from corank.experiments.verdict import Estimate, Row, chance, in_numbers
from corank.metrics import calibration_error
from corank.report.model import model_parts, parameters
from corank.report.page import (
    Cell,
    Html,
    Section,
    bullets,
    facts,
    figure,
    folded,
    origins,
    page,
    table,
    text,
    verdict,
    write,
)
from corank.report.plots import plot_comparison, plot_learning_curve, plot_reliability

WORST, TELLING = 10, 5  # queries that are listed, and scored rows that one should have
IN_THE_SHELL = (
    "auto",
    "rankrls",
    "rls",
    "corankrls",
    "corls",
    "kpcrank",
    "kpcr",
    "pursuit",
    "matching",
    "preference",
    "difference",
)


def model_section(found: ComparisonResult) -> Section | None:
    """The best of corank's own models, fitted once more as in the first repeat."""
    for name in found.ranked():
        fitted, X = refitted(found, name)
        if fitted.model is None:
            continue
        method, result = found.method(name), found.runs(name)[0].result
        used = f" and {result['n_unscored']:,} unscored rows" if method.uses_unscored else " rows"
        words = (
            f"{method.title}: {method.about}. Shown as it was fitted in the first repeat, on {result['n_scored']:,} scored"
            f"{used}; {_on_all_rows(name, fitted.model)}"
        )
        lead = "The best of corank's models" if name != found.ranked()[0] else "The best model"
        return Section(
            "The model", [text(f"{lead} is {words}"), parameters(fitted.chosen), *model_parts(fitted.model, X)]
        )
    return None


def _on_all_rows(name: str, model: Any) -> str:
    if name in IN_THE_SHELL:
        return f"corank fit FILE --score … --method {name} fits one on all rows."
    return f"{type(model).__name__}().fit(X, y, qid=qid) in Python fits one on all rows."


def refitted(found: ComparisonResult, name: str) -> tuple[Any, Any]:
    """A method as in the first repeat, and the rows on which views can be compared: unscored ones, or test rows."""
    rows = split(found.items, found.protocol, Draw(0))
    record = found.runs(name)[0]
    task, _ = protocol.masked(found.items, rows, judge=found.measure, seed=record.result["seed"])
    fitted = found.method(name).fit(task)
    return fitted, task.X[task.n_scored :] if len(rows.unscored) > 1 else task.X_test


def per_query_section(found: ComparisonResult) -> Section | None:
    """How errors spread over queries, and where they are worst."""
    if not found.has_queries:
        return None
    best = found.ranked()[0]
    own, base = (found.units(found.measure, name) for name in (best, found.baseline))
    known = np.flatnonzero(~np.isnan(own))
    title = found.method(best).title
    sizes = np.bincount(found.items.qid, minlength=len(own))
    scored = np.bincount(found.items.qid[found.items.scored], minlength=len(own))
    telling = known[scored[known] >= TELLING]  # of two or three rows all may be in the wrong order by chance
    listed = telling if len(telling) >= WORST else known
    worst = listed[np.argsort(-own[listed] if LOWER_IS_BETTER[found.measure] else own[listed], kind="stable")][:WORST]
    against = [] if best == found.baseline else [found.method(found.baseline).title]
    rows = [
        (
            found.items.query_names[query],
            f"{sizes[query]:,}",
            f"{scored[query]:,}",
            f"{own[query]:.4f}",
            *([f"{base[query]:.4f}"] if against else []),
        )
        for query in worst
    ]
    quarters = np.quantile(own[known], [0.25, 0.5, 0.75])

    def draw(ax: Any) -> None:
        ax = axis(ax)
        ax.hist(own[known], bins=min(30, max(5, len(known) // 5)), color=INK)
        ax.axvline(own[known].mean(), color=FAINT, linestyle="--", label="mean")
        ax.set(xlabel=f"{TITLES[found.measure]} of a query, mean of the repeats", ylabel="queries")
        ax.legend(frameon=False)

    about = f"Histogram; a quarter of the queries lie below {quarters[0]:.3f}, half below {quarters[1]:.3f}, three quarters "
    caption = f"{title} on single queries: {len(known):,} of them."
    return Section(
        "Single queries",
        [
            figure(draw, f"{about}below {quarters[2]:.3f}.", caption, (8.0, 3.2)),
            table(
                f"The {len(worst)} queries on which {title} does worst",
                ("query", "rows", "scored", f"{TITLES[found.measure]} of {title}", *(f"of {name}" for name in against)),
                rows,
            ),
        ],
    )


def reliability_section(found: ComparisonResult) -> Section | None:
    """Whether probabilities come true, where a method gives any."""
    said = found.probabilities()
    if not said:
        return None

    def draw(ax: Any) -> None:
        for name, (came, probability) in said.items():
            plot_reliability(came, probability, ax=ax, label=found.method(name).title)

    errors = "; ".join(
        f"{found.method(name).title} is {calibration_error(*both):.3f} off" for name, both in said.items()
    )
    n = sum(len(came) for came, _ in said.values())
    caption = f"How often the first of two rows won, by the probability it was given: {n:,} pairs of test rows."
    return Section("Do probabilities come true?", [figure(draw, errors, caption, (5.5, 5.0))])


def resources_section(found: ComparisonResult) -> Section:
    """Time, size and memory."""
    rows = [
        (
            row.title,
            _seconds(row.fit_seconds),
            _seconds(row.predict_seconds),
            "–" if row.tried is None else f"{row.tried:,}",
            _bytes(row.size),
        )
        for row in found.rows()
    ]
    head = ("method", "fit and tune", "predict the test rows", "settings tried", "model")
    parts: list[Html] = [table("Medians over the repeats, on one thread", head, rows)]
    memory = max(record.memory for record in found.records)
    if memory:
        parts.append(text(f"The most memory that one process held: {_bytes(memory)}.", "soft"))
    if found.processes > 1:
        parts.append(text(f"{found.processes} fits ran at a time, which makes each of them slower.", "soft"))
    return Section("Time and memory", parts)


def _seconds(value: float) -> str:
    return f"{1000 * value:,.1f} ms" if value < 1 else f"{value:,.1f} s"


def _bytes(value: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


COLOURS = {"better": "good", "worse": "bad", "cannot tell": ""}


def write_report(
    found: ComparisonResult,
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


def _came_in(found: ComparisonResult, columns: Sequence[Mapping[str, str]], problems: Sequence[str]) -> Section:
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


def _methods(found: ComparisonResult) -> Section:
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


def _unscored(found: ComparisonResult) -> Section | None:
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


def _curves(found: ComparisonResult) -> Section | None:
    return Section("Learning curves", [_curve(found, "scored")]) if found.curves("scored") else None


def _curve(found: ComparisonResult, over: str) -> Html:
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


def _protocol(found: ComparisonResult, command: str | None) -> Section:
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
