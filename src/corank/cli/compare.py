"""`corank compare`: which method is best on a table, by how much, and did unscored rows help?"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from corank.cli.columns import learned_columns, note_kinds, views_of_columns
from corank.cli.console import (
    bold,
    check_report_output,
    check_single,
    command,
    dim,
    note,
    readable,
    show,
    show_json,
    title_of,
    typed_command,
    working,
)
from corank.cli.items import Step
from corank.cli.named_tables import LinkTable, check_named
from corank.cli.options import (
    TABLE,
    CommonOptions,
    Directed,
    File,
    KindOptions,
    LinkOptions,
    RoleOptions,
    Unlabelled,
    Word,
    Words,
    argument,
    check_views,
    flag,
    option,
)
from corank.core.messages import count, measured
from corank.datasets import load_jokes, make_ranking
from corank.display import Cell, Table
from corank.experiments import ComparisonResult, Items, Protocol
from corank.experiments import compare as compare_methods
from corank.experiments.jobs import JobsFailed, shown_on
from corank.experiments.protocol import FEWEST_QUERIES, FEWEST_ROWS, read_items, testable
from corank.experiments.verdict import chance
from corank.metrics import MEASURES
from corank.tables import TableFile, query_column, score_column

BUILT_IN = "the built-in jokes"


@dataclass(frozen=True)
class MethodOptions:
    """What is compared."""

    methods: Words = option(
        "Methods to compare, such as ridge,rankrls,lightgbm. Default: ridge, corank's main"
        " learners, a Gaussian process, a forest, and LightGBM if installed."
    )
    baseline: Word = option("Method that the others are tested against. Default: ridge.")
    jobs: int | None = option("How many fits run at the same time. Default: one per core.")
    keep: File = option("Folder for finished fits. Default: in the user's cache.")
    fresh: bool = flag("Do not reuse fits of an earlier run.")

    @property
    def names(self) -> list[str] | None:
        """The methods one by one, or None."""
        return [
            name.strip()
            for names in self.methods or []
            for name in names.split(",")
            if name.strip()
        ] or None


@dataclass(frozen=True)
class ProtocolOptions:
    """How they are compared."""

    measure: Word = option(
        "disagreement, ndcg or rmse. Default: disagreement with --query, rmse without."
    )
    scored_share: float | None = option(
        "Share of the training queries (without --query: rows) that keep their scores. Default:"
        " 0.1, or all if most rows are unscored."
    )
    repeats: int = option(
        "How often test, scored and unscored queries (without --query: rows) are drawn.",
        default=20,
        shown=True,
    )
    max_scored: int = option("Maximum number of scored rows in one fit.", default=300, shown=True)
    max_unscored: int = option(
        "Maximum number of unscored rows in one fit.", default=600, shown=True
    )
    curves: bool = option("Also fit on fewer rows, for learning curves.", default=True, shown=True)
    seed: int = option("Seed of all random draws.", default=0, shown=True)


def compare(
    context: typer.Context,
    *,
    file: File = argument(
        f"Table of items: {TABLE}. Default: the built-in jokes, which wheels do not contain.",
        default=None,
    ),
    roles: RoleOptions,
    unlabelled: Unlabelled = None,
    compared: MethodOptions,
    rules: ProtocolOptions,
    chosen: KindOptions,
    links: LinkOptions,
    directed: Directed = False,
    report: File = option("Also write everything as one HTML page, NAME.html."),
    common: CommonOptions,
) -> None:
    """Say which method is best on a table, by how much, and whether unscored rows help.

    Scores of test rows, and of most training rows, are hidden from the methods.
    If interrupted, the same command continues where it stopped.
    """
    source = None if file is None else readable(context, file, common.format, is_first=True)
    if source is not None:
        roles = roles.in_file(source)
    if file is not None and roles.score is None:
        raise ValueError("missing option '--score', the column with the scores")
    check_views(chosen.view)
    if file is None and any((*vars(roles).values(), *vars(chosen).values(), links.links)):
        raise ValueError("options about columns need a table: corank compare FILE --score COLUMN")
    linked = links.opened(context, directed=directed)
    if linked is not None and source is not None:
        check_single(source.path, "links")
        check_named(roles.id)
    check_report_output(report, source, None if linked is None else linked.file, force=common.force)
    if compared.jobs is not None and compared.jobs < 1:
        raise ValueError(f"--jobs must be at least 1, got {compared.jobs}")
    try:
        with working(quiet=common.quiet) as step:
            step("reading the data")
            rules_given: Any = vars(rules)
            protocol = Protocol(**rules_given)
            items, columns = (
                _built_in()
                if source is None
                else _read(source, roles, unlabelled, chosen, linked, step)
            )
        comparison = compare_methods(
            items,
            compared.names,
            protocol,
            baseline=compared.baseline,
            processes=compared.jobs or os.cpu_count() or 1,
            keep=compared.keep or _cache(),
            fresh=compared.fresh,
            progress=shown_on(Console(stderr=True, quiet=common.quiet), "comparing"),
        )
    except JobsFailed as error:
        raise ValueError(
            f"{error}; leave the method out with --methods: the other fits are kept"
        ) from error
    except KeyboardInterrupt:
        note("finished fits are kept: the same command continues from there")
        raise
    title = BUILT_IN if file is None else title_of(file)
    if report is not None:
        from corank.report import write_report

        with working(quiet=common.quiet) as step:
            step(f"writing {report.name}")
            about: Any = {"title": f"Which method is best on {title}?", "columns": columns}
            write_report(
                comparison,
                report,
                command=typed_command("compare"),
                overwrite=common.force,
                **about,
            )
    if common.as_json:
        show_json(comparison.to_dict())
    elif report is None or not common.quiet:
        _show_comparison(comparison, title)
        if report is None:
            show(command("add --report report.html", "For intervals, curves and the model: "))
        else:
            show(Text(f"The page is {report}: open it in a browser."))


# ---- the data


def _read(
    file: TableFile,
    roles: RoleOptions,
    unlabelled: float | None,
    chosen: KindOptions,
    links: LinkTable | None,
    step: Step,
) -> tuple[Items, list[dict[str, str]]]:
    """A table as items, and what becomes of its columns."""
    assert roles.score is not None
    step(f"reading {file.path.name}")
    table = file.read([*roles.read_as_text, *chosen.read_as_text])
    y = score_column(table, roles.score, unlabelled)
    labels = None if roles.query is None else query_column(table, roles.query)
    names, encoder = learned_columns(table, roles.columns, chosen)
    encoder.fit(table.select(names))  # says what becomes of columns; every fit has its own
    note_kinds(encoder)
    if np.isnan(y).all():
        raise ValueError(
            f"score column {roles.score!r} of {file} is empty: there is nothing to compare by"
        )
    joining = None
    if links is not None:
        joining = links.between(table, check_named(roles.columns["id"]), file)
        note(
            "links are used by AutoRanker and AutoRegressor; the other methods use only the columns"
        )
    views = views_of_columns(chosen.view, names) if chosen.view else 2  # random halves
    items = Items(
        table.select(names), y, labels, views, encoder=encoder.with_these_kinds(), links=joining
    )
    _check_enough(items, file, roles)
    return items, encoder.summary()


def _built_in() -> tuple[Items, list[dict[str, str]]]:
    try:
        return read_items(load_jokes()), []
    except FileNotFoundError:
        note(
            "the joke ratings are not part of this installation (they are in the sources):"
            " generated data is used instead"
        )
        return read_items(make_ranking(n_queries=200, query_size=40, noise=0.5, random_state=0)), []


def _check_enough(items: Items, file: TableFile, roles: RoleOptions) -> None:
    """Refuse, by the names of the columns, a table on which no test could say anything."""
    units = len(testable(items))
    if roles.query is not None and units < FEWEST_QUERIES:
        raise ValueError(
            f"only {count(units, 'value')} of {roles.query!r} {'has' if units == 1 else 'have'} two"
            f" rows with different {roles.score!r} in {file}: at least {FEWEST_QUERIES} are needed;"
            " leave out --query to compare all rows"
        )
    if roles.query is None and units < FEWEST_ROWS:
        scores = count(units, "score")
        raise ValueError(
            f"{file} has only {scores} in {roles.score!r}: at least {FEWEST_ROWS} are needed"
        )


def _cache() -> Path:
    """Where finished fits are kept when no folder is given."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "corank" / "compare"


# ---- the result


def _show_comparison(comparison: ComparisonResult, name: str) -> None:
    rows = {row.method: row for row in comparison.rows()}
    measure = MEASURES[comparison.measure].title
    head = ("method", measure, "gain", "p", "fit", "verdict")
    lines = []
    for method in comparison.ranked():
        row = rows[method]
        against = rows[method].against
        estimate = row.estimates[comparison.measure]
        assert estimate is not None
        gain, p, verdict = "", "", "baseline"
        if against is not None:
            p = chance(against.p_corrected).removeprefix("p = ").removeprefix("p ")
            gain = measured(against.gain.mean, "+")
            verdict = against.verdict
        kind = {"better": "good", "worse": "bad"}.get(verdict, "")
        cells = (row.title, measured(estimate.mean), gain, p, f"{row.fit_seconds:.2f} s")
        lines.append((*cells, Cell(verdict, kind=kind)))
    answer, *others = comparison.verdict()
    title = f"{count(len(rows), 'method')} on {name}"
    remark = f"{measure} decides: {MEASURES[comparison.measure].reading}"
    show(
        Table(title, lines, head, numbers=head[1:-1], folds=True, remark=remark),
        Text(),
        bold(answer),
        *(Text(line) for line in others if "unscored rows" in line),
        *(
            Text(f"Left out: {name}: {reason}", style="yellow")
            for name, reason in comparison.failed.items()
        ),
    )
    protocol = comparison.protocol
    whole = [
        record.result
        for record in comparison.records
        if record.draw.scored == record.draw.unscored == 1
    ]
    scored = np.mean([result["n_scored"] for result in whole])
    done = f"{count(protocol.repeats, 'repeat')}, about {scored:,.0f} scored rows in training"
    if comparison.is_capped:
        done += (
            f", fewer than {protocol.share(comparison.items):.0%} of them (--max-scored"
            f" {protocol.max_scored})"
        )
    show(dim(done))
