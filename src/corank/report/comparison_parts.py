"""Sections of the report of a comparison that look closer: a model, single queries, probabilities, time and memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from corank.drawing import FAINT, INK, axis
from corank.experiments import Comparison, masking
from corank.experiments.measures import LOWER_IS_BETTER, TITLES
from corank.experiments.protocol import Draw, split
from corank.metrics import calibration_error
from corank.report.model_parts import model_parts, parameters
from corank.report.page import Html, Section, figure, table, text
from corank.report.plots import plot_reliability

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


def model_section(found: Comparison) -> Section | None:
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


def refitted(found: Comparison, name: str) -> tuple[Any, Any]:
    """A method as in the first repeat, and the rows on which views can be compared: unscored ones, or test rows."""
    rows = split(found.items, found.protocol, Draw(0))
    record = found.runs(name)[0]
    task, _ = masking.masked(found.items, rows, judge=found.measure, seed=record.result["seed"])
    fitted = found.method(name).fit(task)
    return fitted, task.X[task.n_scored :] if len(rows.unscored) > 1 else task.X_test


def per_query_section(found: Comparison) -> Section | None:
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


def reliability_section(found: Comparison) -> Section | None:
    """Whether probabilities come true, where a method gives any."""
    said = found.probabilities()
    if not said:
        return None

    def draw(ax: Any) -> None:
        for name, (came, chance) in said.items():
            plot_reliability(came, chance, ax=ax, label=found.method(name).title)

    errors = "; ".join(
        f"{found.method(name).title} is {calibration_error(*both):.3f} off" for name, both in said.items()
    )
    n = sum(len(came) for came, _ in said.values())
    caption = f"How often the first of two rows won, by the probability it was given: {n:,} pairs of test rows."
    return Section("Do probabilities come true?", [figure(draw, errors, caption, (5.5, 5.0))])


def resources_section(found: Comparison) -> Section:
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
