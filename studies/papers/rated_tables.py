"""Tables and figures of 003's experiments on ratings: the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from corank.experiments.uncertainty import standard_error
from studies.batched_fits.drawing import GROUPS
from studies.papers.rated import RANK, RANKING, REFITTED, TABLED, Tested, shown
from studies.papers.rated_claims import NORMAL, Pair, Setting, sparsity
from studies.papers.study import Cell, Figure, Measured, Panel, Series, Table

WRONG = "share of pairs in the wrong order"


def measured(setting: Setting, group: tuple[int, int], method: str) -> Measured:
    """The mean over test users and its standard error."""
    values = setting.errors(group, method)
    values = values[~np.isnan(values)]
    return Measured(float(values.mean()), standard_error(values))


def beside_paper(title: str, setting: Setting, methods: Sequence[str], *, digits: int = 3, note: str = "") -> Table:
    """The paper's numbers and ours, one row a method."""
    rows: list[list[Cell]] = []
    for method in methods:
        row: list[Cell] = [method]
        for at, group in enumerate(GROUPS):
            printed = setting.published.get(method)
            row += [None if printed is None else printed[at], measured(setting, group, method)]
        rows.append(row)
    head = [word for group in GROUPS for word in (f"{shown(group)}, paper", f"{shown(group)}, ours")]
    return Table(title, ("method", *head), rows, digits=digits, note=note)


def open_choices(setting: Setting, methods: Sequence[str]) -> Table:
    """What becomes of a method where the paper leaves a choice open, less the method as it is in the other tables."""
    rows: list[list[Cell]] = []
    for method in methods:
        base = next(own for own in TABLED if method.startswith(f"{own},"))
        row: list[Cell] = [method]
        for group in GROUPS:
            gap = setting.errors(group, method) - setting.errors(group, base)
            gap = gap[~np.isnan(gap)]
            row += [measured(setting, group, method), Measured(float(gap.mean()), standard_error(gap))]
        rows.append(row)
    head = [word for group in GROUPS for word in (f"{shown(group)}, ours", "change")]
    return Table(
        f"Choices that the paper leaves open: {WRONG}",
        ("method", *head),
        rows,
        note="change: beside the method of the same name in the table above, over the same test users.",
    )


def tests(found: Sequence[Pair]) -> Table:
    """Paired differences with their tests."""
    rows: list[list[Cell]] = []
    for own in found:
        p = "< 0.0001" if own.gap.p < 1e-4 else f"{own.gap.p:.2g}"
        span = f"{own.gap.low:+.4f} to {own.gap.high:+.4f}".replace("-", "−")
        rows.append([shown(own.group), f"{own.better} minus {own.worse}", own.published, own.gap.mean, span, p])
    return Table(
        f"Differences over the same test users: {WRONG}",
        ("group", "difference", "paper", "ours", "95 % interval", "p"),
        rows,
        digits=4,
        note="Wilcoxon's signed-rank test over test users, two-sided.",
    )


def sparsities(settings: Sequence[Setting], methods: Sequence[str]) -> Table:
    """Kernel functions a scored item."""
    rows: list[list[Cell]] = [
        [setting.task, method, *(sparsity(setting, group, method) for group in GROUPS)]
        for setting in settings
        for method in methods
        if method in setting.tested.methods(setting.task)
    ]
    return Table(
        "Kernel functions of a model for every scored item",
        ("task", "method", *(shown(group) for group in GROUPS)),
        rows,
        digits=2,
        note="1 is a model with a kernel function at every scored item, as RankRLS has it.",
    )


def choices(settings: Sequence[Setting]) -> Table:
    """Parameters that hold-out users chose."""
    rows: list[list[Cell]] = []
    for setting in settings:
        for method in setting.tested.methods(setting.task):
            for group in GROUPS:
                own = setting.tested.choice(setting.task, group, method)
                other = ", ".join(f"{name} {value:.3g}" for name, value in own["candidate"].items())
                rows.append([setting.task, method, shown(group), f"2^{own['width']}", other, own["error"]])
    return Table(
        "Parameters chosen on hold-out users",
        ("task", "method", "group", "gamma", "others", "error on them"),
        rows,
        digits=4,
    )


def errors_figure(settings: Sequence[Setting], methods: Sequence[Sequence[str]]) -> Figure:
    """Errors by group beside the paper's, one panel a task."""
    at = [float(sum(group)) / 2 for group in GROUPS]
    panels = []
    for setting, own in zip(settings, methods, strict=True):
        series = []
        for method in own:
            cells = [measured(setting, group, method) for group in GROUPS]
            low, high = ([cell.value + sign * NORMAL * (cell.error or 0.0) for cell in cells] for sign in (-1, 1))
            series.append(Series(method, at, [cell.value for cell in cells], low, high))
        series += [
            Series(f"{method}, paper", at, list(setting.published[method]), kind="dashed", colour_of=method)
            for method in own
            if method in setting.published
        ]
        panels.append(Panel(setting.task, "ratings of a reference user (middle of the group)", WRONG, series))
    return Figure(
        "errors",
        "Share of pairs in the wrong order by group of reference users; bands of 95 % over test users; dashed: the paper.",
        panels,
    )


def atoms_figure(tested: Tested, setting: Setting) -> Figure:
    """Test errors against the number of greedy steps, at the width that was chosen."""
    panels = []
    for group in GROUPS:
        series = []
        for method in (RANKING, REFITTED):
            curve = tested.curve(setting.task, group, method)
            steps, means = [own["steps"] for own in curve], [own["error"] for own in curve]
            low, high = ([own["error"] + sign * NORMAL * own["spread"] for own in curve] for sign in (-1, 1))
            series.append(Series(method, steps, means, low, high))
        level = measured(setting, group, RANK).value
        series.append(Series(RANK, [series[0].x[0], series[0].x[-1]], [level, level], kind="dashed"))
        panels.append(Panel(shown(group), "steps", WRONG, series, log="x"))
    return Figure(
        "steps",
        "Ranking pursuit: share of pairs in the wrong order on test users against the number of steps, supervised; bands "
        "of 95 %; dashed: RankRLS. The number of steps was chosen on hold-out users, not here.",
        panels,
    )
