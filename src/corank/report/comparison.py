"""The report of a comparison as one HTML file that opens anywhere: what came in, methods, unscored
rows, curves, the best model, single queries, probabilities, time and memory, and how it was done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from os import PathLike
from typing import Any

import numpy as np

from corank.core.messages import in_bytes, measured, rounded
from corank.core.registry import learner_records
from corank.display import Cell, Table
from corank.experiments import ComparisonResult, protocol
from corank.experiments.protocol import JUDGES, WITHIN, Draw, intake, split
from corank.experiments.verdict import Estimate, Gain, chance, in_numbers
from corank.metrics import MEASURES, calibration_error
from corank.report.page import (
    Html,
    Section,
    bullets,
    columns_list,
    figure,
    folded,
    model_parts,
    origins,
    page,
    parameters,
    text,
    verdict,
    write,
)
from corank.report.plots import (
    FAINT,
    INK,
    axis,
    plot_comparison,
    plot_learning_curve,
    plot_reliability,
)

WORST_QUERIES = 10  # listed
# rows of a listed query: of two or three rows all may be in the wrong order by chance
MIN_SCORED = 5
COLOURS = {"better": "good", "worse": "bad", "cannot tell": ""}
EFFECTS = {"better": "helped", "worse": "hurt", "cannot tell": "cannot tell"}


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
        _data_section(found, columns, problems),
        _methods_section(found),
        _unscored_section(found),
        Section("Learning curves", [_curves(found, "scored")]) if found.curves("scored") else None,
        _model_section(found),
        _queries_section(found),
        _reliability_section(found),
        _resources_section(found),
        _protocol_section(found, command),
    ]
    answer, *reasons = found.verdict()
    html = page(title, [verdict(answer, reasons)], list(filter(None, sections)))
    write(html, path, overwrite=overwrite)


# ---- what came in


def _data_section(
    comparison: ComparisonResult, columns: Sequence[Mapping[str, str]], problems: Sequence[str]
) -> Section:
    data = intake(comparison.items)
    sentences = {
        "rows": f"{data.rows:,}",
        "scored": f"{data.scored:,} ({data.scored / data.rows:.0%})",
        "scores": f"{rounded(data.lowest)} to {rounded(data.highest)}".replace("-", "−"),
        "ties": f"{data.tied:.1%} of the pairs that compete have the same score",
        "queries": "none: all rows compete with each other",
    }
    sizes = data.query_sizes
    if sizes is not None:
        spread = f"{sizes.min():,} to {sizes.max():,} rows each, median {np.median(sizes):,.0f}"
        sentences["queries"] = f"{len(sizes):,}: {spread}"
    warnings = [*problems, *data.problems]
    remarks = bullets(warnings) if warnings else text("Nothing looked wrong.", "soft")
    about = Table.of_facts("The data", sentences).to_html()
    return Section("What came in", [about, remarks, *columns_list(columns)])


# ---- methods


def _methods_section(comparison: ComparisonResult) -> Section:
    rows = {row.method: row for row in comparison.rows()}
    ranked = comparison.ranked()
    measure = comparison.measure
    queries = comparison.has_queries
    measures = [name for name in JUDGES if any(row.estimates[name] for row in rows.values())]
    baseline = comparison.method(comparison.baseline).title
    means = {rows[name].title: rows[name].estimates[measure] for name in ranked}
    about = "; ".join(
        f"{name} {in_numbers(mean, measure)}" for name, mean in means.items() if mean is not None
    )
    caption = (
        f"Means, and gains over {baseline} with 95 % intervals. Green is better, orange worse, grey"
        " no clear difference."
    )
    head = [
        "method",
        *(MEASURES[name].title for name in measures),
        f"gain in {MEASURES[measure].title}",
        "p",
        "verdict",
    ]
    lines = []
    for row in map(rows.__getitem__, ranked):
        gain = _gain_cells(row.against) if row.against else ["", "", "baseline"]
        lines.append([row.title, *(_estimate(row.estimates[name]) for name in measures), *gain])
    reading = [
        f"{_capital(MEASURES[name].title)}: {MEASURES[name].reading}"
        f"{WITHIN if name == 'rmse' and queries else ''}."
        for name in measures
    ]
    unit, draws, test = "repeats", "repeats", "the corrected resampled t-test of Nadeau and Bengio"
    if queries:
        unit, draws = "test queries", "training draws and test queries"
        test = "Wilcoxon's signed-rank test"
    remark = (
        f"Gains are over {baseline}, paired by {unit}; p is that of {test}, corrected by Holm for"
        f" {len(rows) - 1} tests. Intervals are over {draws}. A verdict takes p at most 0.05 and an"
        " interval without 0. All methods were tuned on the scored training rows alone."
    )
    size = (8.0, 1.2 + 0.42 * len(rows))
    return Section(
        "Methods",
        [
            figure(lambda ax: plot_comparison(comparison, ax=ax), about, caption, size),
            Table(
                "The best mean first; 95 % intervals below the means", lines, head, head[1:-1]
            ).to_html(),
            bullets(reading),
            text(remark, "soft"),
        ],
    )


def _gain_cells(gain: Gain, said: Callable[[str], str] = str) -> list[str | Cell]:
    """A gain with its interval, its p, and what is `said` of the verdict."""
    return [
        _estimate(gain.gain, signed=True),
        chance(gain.p_corrected).removeprefix("p = ").removeprefix("p "),
        Cell(said(gain.verdict), kind=COLOURS[gain.verdict]),
    ]


def _estimate(value: Estimate | None, *, signed: bool = False) -> Cell:
    if value is None:
        return Cell("–")
    sign = "+" if signed else ""
    mean, low, high = (measured(number, sign).replace("-", "−") for number in astuple(value))
    return Cell(mean, f"{low} to {high}")


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


# ---- unscored rows, curves


def _unscored_section(comparison: ComparisonResult) -> Section | None:
    effects = comparison.effects()
    if not effects:
        return None
    rows: list[list[str | Cell]] = [
        [
            effect.title,
            f"{effect.n_unscored:,.0f}",
            _estimate(effect.without),
            _estimate(effect.with_them),
            *_gain_cells(effect.effect, EFFECTS.__getitem__),
        ]
        for effect in effects
    ]
    head = ("method", "unscored rows", "without them", "with them", "gain", "p", "did they help?")
    caption = f"{_capital(MEASURES[comparison.measure].title)} with 95 % intervals"
    contents = [
        text("Each method on the same scores, once with the unscored rows and once without."),
        Table(caption, rows, head, head[1:-1]).to_html(),
    ]
    if comparison.curves("unscored"):
        contents.append(_curves(comparison, "unscored"))
    return Section("Did unscored rows help?", contents)


def _curves(comparison: ComparisonResult, over: str) -> Html:
    measure = MEASURES[comparison.measure].title
    repeats = comparison.protocol.repeats
    ends = "; ".join(
        f"{curve.title} {measured(curve.points[0].mean)} at {curve.n[0]:,.0f} and"
        f" {measured(curve.points[-1].mean)} at {curve.n[-1]:,.0f}"
        for curve in comparison.curves(over)
    )
    common = ""
    if comparison.has_queries:
        common = ", without the variation between queries that all methods share"
    caption = (
        f"{_capital(measure)} against the number of {over} rows in training, with 95 %"
        f" bands{common}. The point with all unscored rows and the usual number of scored rows is"
        f" the mean of {repeats} repeats; other points are means of at least"
        f" {min(repeats, comparison.protocol.rounds)}."
    )
    return figure(
        lambda ax: plot_learning_curve(comparison, over=over, ax=ax), f"{measure}: {ends}", caption
    )


# ---- the best model


def _model_section(comparison: ComparisonResult) -> Section | None:
    """The best of corank's own models, fitted again as in the first repeat."""
    for name in comparison.ranked():
        fitted, X = _refitted(comparison, name)
        if fitted.model is None:
            continue
        method = comparison.method(name)
        result = comparison.runs(name)[0].result
        lead = "The best model" if name == comparison.ranked()[0] else "The best of corank's models"
        unscored = (
            f" and {result['n_unscored']:,} unscored rows" if method.uses_unscored else " rows"
        )
        call = f"{type(fitted.model).__name__}().fit(X, y, qid=qid) in Python"
        if name in ["auto", *(record.method for record in learner_records() if record.in_fit)]:
            call = f"corank fit FILE --score … --method {name}"
        about = (
            f"{lead} is {method.title}: {method.about}. Shown as it was fitted in the first repeat,"
            f" on {result['n_scored']:,} scored{unscored}; {call} fits one on all rows."
        )
        return Section(
            "The model", [text(about), parameters(fitted.chosen), *model_parts(fitted.model, X)]
        )
    return None


def _refitted(comparison: ComparisonResult, name: str) -> tuple[Any, Any]:
    """A method as in the first repeat, and the rows on which views can be compared: unscored ones,
    or test rows.
    """
    rows = split(comparison.items, comparison.protocol, Draw(0))
    seed = comparison.runs(name)[0].result["seed"]
    task, _ = protocol.masked(comparison.items, rows, judge=comparison.measure, seed=seed)
    fitted = comparison.method(name).fit(task)
    return fitted, task.X[task.n_scored :] if len(rows.unscored) > 1 else task.X_test


# ---- single queries


def _queries_section(comparison: ComparisonResult) -> Section | None:
    """How errors spread over queries, and where they are worst."""
    if not comparison.has_queries:
        return None
    items = comparison.items
    measure = comparison.measure
    best = comparison.ranked()[0]
    baseline = comparison.baseline
    title = comparison.method(best).title
    errors = comparison.units(measure, best)
    tested = np.flatnonzero(~np.isnan(errors))
    quarters = np.quantile(errors[tested], [0.25, 0.5, 0.75])

    def draw(ax: Any) -> None:
        ax = axis(ax)
        ax.hist(errors[tested], bins=min(30, max(5, len(tested) // 5)), color=INK)
        ax.axvline(errors[tested].mean(), color=FAINT, linestyle="--", label="mean")
        ax.set(
            xlabel=f"{MEASURES[measure].title} of a query, mean of the repeats", ylabel="queries"
        )
        ax.legend(frameon=False)

    about = (
        f"Histogram; a quarter of the queries lie below {rounded(quarters[0])}, half below"
        f" {rounded(quarters[1])}, three quarters below {rounded(quarters[2])}."
    )
    sizes = np.bincount(items.qid, minlength=len(errors))
    scored = np.bincount(items.qid[items.scored], minlength=len(errors))
    well_scored = tested[scored[tested] >= MIN_SCORED]
    listed = well_scored if len(well_scored) >= WORST_QUERIES else tested
    losses = errors if MEASURES[measure].lower_is_better else -errors
    worst = listed[np.argsort(-losses[listed], kind="stable")][:WORST_QUERIES]
    head = ["query", "rows", "scored", f"{MEASURES[measure].title} of {title}"]
    values = [errors]
    if best != baseline:
        head.append(f"of {comparison.method(baseline).title}")
        values.append(comparison.units(measure, baseline))
    rows = [
        [
            items.query_names[query],
            f"{sizes[query]:,}",
            f"{scored[query]:,}",
            *(measured(errors_of_method[query]) for errors_of_method in values),
        ]
        for query in worst
    ]
    histogram = figure(
        draw, about, f"{title} on single queries: {len(tested):,} of them.", (8.0, 3.2)
    )
    caption = f"The {len(worst)} queries on which {title} does worst"
    return Section("Single queries", [histogram, Table(caption, rows, head, head[1:]).to_html()])


# ---- probabilities


def _reliability_section(comparison: ComparisonResult) -> Section | None:
    """Whether probabilities come true, where a method gives any."""
    probabilities = {
        comparison.method(name).title: outcomes
        for name, outcomes in comparison.probabilities().items()
    }
    if not probabilities:
        return None

    def draw(ax: Any) -> None:
        for title, (came_true, probability) in probabilities.items():
            plot_reliability(came_true, probability, ax=ax, label=title)

    about = "; ".join(
        f"{title} is {calibration_error(*both):.3f} off" for title, both in probabilities.items()
    )
    n_pairs = sum(len(came_true) for came_true, _ in probabilities.values())
    caption = (
        f"How often the first of two rows won, against its predicted probability: {n_pairs:,} pairs"
        " of test rows."
    )
    return Section("Do probabilities come true?", [figure(draw, about, caption, (5.5, 5.0))])


# ---- time and memory


def _resources_section(comparison: ComparisonResult) -> Section:
    rows = [
        (
            row.title,
            _seconds(row.fit_seconds),
            _seconds(row.predict_seconds),
            "–" if row.tried is None else f"{row.tried:,}",
            in_bytes(row.size),
        )
        for row in comparison.rows()
    ]
    head = ("method", "fit and tune", "predict the test rows", "settings tried", "model")
    listed = Table("Medians over the repeats, on one thread", rows, head, head[1:])
    contents = [listed.to_html()]
    memory = max(record.memory for record in comparison.records)
    if memory:
        contents.append(text(f"Peak memory of one process: {in_bytes(memory)}.", "soft"))
    if comparison.processes > 1:
        n = comparison.processes
        contents.append(
            text(f"{n} fits ran at the same time, which makes each of them slower.", "soft")
        )
    return Section("Time and memory", contents)


def _seconds(value: float) -> str:
    return f"{1000 * value:,.1f} ms" if value < 1 else f"{value:,.1f} s"


# ---- how it was done


def _protocol_section(comparison: ComparisonResult, command: str | None) -> Section:
    rules = comparison.protocol
    records = comparison.records
    whole = [record.result for record in records if record.draw.scored == record.draw.unscored == 1]
    n_test, n_scored = (
        np.mean([result[name] for result in whole]) for name in ("n_test", "n_scored")
    )
    n_unscored = np.mean([result["n_unscored"] for result in whole if result["n_unscored"]] or [0])
    unit = "queries" if comparison.has_queries else "rows"
    sentences = {
        "repeats": f"{rules.repeats}, each with different test, scored and unscored {unit}",
        "test": f"{rules.test_share:.0%} of the {unit}, in turn: about {n_test:,.0f} rows",
        "scored": (
            f"{rules.share(comparison.items):.0%} of the training {unit} keep their scores, at most"
            f" {rules.max_scored:,} rows: {n_scored:,.0f} rows on average"
        ),
        "unscored": f"at most {rules.max_unscored:,} rows: {n_unscored:,.0f} on average",
        "tuning": "methods that choose settings try up to 200, judged on held-out scored rows only",
        "judged by": MEASURES[comparison.measure].title,
        "seed": f"{rules.seed}; --json lists the seeds of single fits",
        "fits": (
            f"{len(records):,}, {comparison.run_now:,} of them made now in"
            f" {comparison.seconds:,.0f} s, {comparison.processes} at a time"
        ),
    }
    contents = [Table.of_facts("Protocol", sentences).to_html()]
    if comparison.failed:
        failures = [f"{name}: {reason}" for name, reason in comparison.failed.items()]
        contents += [text("Left out because fits failed:"), bullets(failures)]
    warned = [f"{message} ({n} fits)" for message, n in comparison.warnings().items()]
    if warned:
        contents.append(folded("Warnings of fits", bullets(warned)))
    return Section("How it was done", [*contents, *origins(command)])
