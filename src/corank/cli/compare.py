"""`corank compare`: which method is best on a table, by how much, and did unscored rows help?"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from corank._messages import count
from corank.cli.columns import AskedKinds, feature_columns, note_ids, note_kinds, views_of_columns
from corank.cli.console import command, grid, note, show, show_json, typed_command, working
from corank.cli.files import check_report_output, readable, svmlight_columns, title_of
from corank.cli.links import LinkTable, check_named, check_single_table, file_of, link_table
from corank.cli.options import (
    AsJson,
    Baseline,
    CategoryColumns,
    CompareReport,
    CompareTable,
    Curves,
    Directed,
    DroppedColumns,
    FeatureColumns,
    Force,
    Fresh,
    InputFormat,
    ItemColumn,
    Jobs,
    KeptFits,
    LinkColumns,
    LinksFile,
    MaxScored,
    MaxUnscored,
    MeasureName,
    Methods,
    NumberColumns,
    QueryColumn,
    Quiet,
    Repeats,
    ScoreColumn,
    ScoredShare,
    Seed,
    TextColumns,
    ViewColumns,
    check_views,
)
from corank.datasets import load_jokes, make_ranking
from corank.experiments import ComparisonResult, Items, Protocol
from corank.experiments import compare as compare_methods
from corank.experiments.data import read_items
from corank.experiments.jobs import JobsFailed, shown_on
from corank.experiments.measures import READING, TITLES
from corank.experiments.protocol import FEWEST_QUERIES, FEWEST_ROWS, testable
from corank.experiments.verdict import chance
from corank.tables import query_column, read_table, score_column

BUILT_IN = "the built-in jokes"
ARGUMENTS = ("scored_share", "repeats", "max_scored", "max_unscored", "measure", "seed", "methods", "baseline")


def compare(
    context: typer.Context,
    file: CompareTable = None,
    score: ScoreColumn = None,
    query: QueryColumn = None,
    methods: Methods = None,
    baseline: Baseline = None,
    measure: MeasureName = None,
    scored_share: ScoredShare = None,
    repeats: Repeats = 20,
    features: FeatureColumns = None,
    drop: DroppedColumns = None,
    text: TextColumns = None,
    category: CategoryColumns = None,
    number: NumberColumns = None,
    id: ItemColumn = None,
    links: LinksFile = None,
    link_columns: LinkColumns = None,
    directed: Directed = False,
    view: ViewColumns = None,
    format: InputFormat = None,
    report: CompareReport = None,
    max_scored: MaxScored = 300,
    max_unscored: MaxUnscored = 600,
    curves: Curves = True,
    seed: Seed = 0,
    jobs: Jobs = None,
    keep: KeptFits = None,
    fresh: Fresh = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Say which method is best on a table, by how much, and whether unscored rows help.

    Scores of test rows, and of most training rows, are hidden from the methods.
    Interrupted, the same command goes on where it stopped.
    """
    source = None if file is None else readable(context, file, format)
    if source is not None:
        score, query = svmlight_columns(source, score, query)
    if file is not None and score is None:
        raise ValueError("missing option '--score', the column with the scores")
    check_views(view or [])
    if file is None and (score or query or features or drop or text or category or number or id or links or view):
        raise ValueError("say which table: corank compare FILE --score COLUMN")
    linked = link_table(context, links, link_columns, directed=directed)
    if linked is not None and source is not None:
        check_single_table(linked, source)
        check_named(id)
    check_report_output(report, source, file_of(linked), force=force)
    if jobs is not None and jobs < 1:
        raise ValueError(f"--jobs must be at least 1, got {jobs}")
    try:
        with working(quiet=quiet) as step:
            step("reading the data")
            limits: Any = {"max_scored": max_scored, "max_unscored": max_unscored}
            measured: Any = {"measure": measure, "seed": seed}
            protocol = Protocol(scored_share, repeats, curves=curves, **limits, **measured)
            columns: list[dict[str, str]] = []
            if source is None:
                items = _built_in()
            else:
                assert score is not None
                roles = {"score": score, "query": query, "id": id}
                kinds = AskedKinds(text or [], category or [], number or [])
                items, columns = _read(source, roles, features or [], drop or [], kinds, view or [], linked, step)
                _check_enough(items, source, score, query)
        names = None if not methods else [name.strip() for text in methods for name in text.split(",") if name.strip()]
        comparison = compare_methods(
            items,
            names,
            protocol,
            baseline=baseline,
            processes=jobs or os.cpu_count() or 1,
            keep=keep or _cache(),
            fresh=fresh,
            progress=shown_on(Console(stderr=True, quiet=quiet), "comparing", lines=False),
        )
    except JobsFailed as error:
        raise ValueError(f"{error}; --methods leaves a method out, and the other fits are kept") from error
    except ValueError as error:
        raise ValueError(_as_options(str(error))) from error
    except KeyboardInterrupt:
        note("finished fits are kept: the same command goes on from there")
        raise
    title = BUILT_IN if file is None else title_of(file)
    if report is not None:
        from corank.report import write_report

        with working(quiet=quiet) as step:
            step(f"writing {report.name}")
            about: Any = {"title": f"Which method is best on {title}?", "columns": columns}
            write_report(comparison, report, command=typed_command("compare"), overwrite=force, **about)
    if as_json:
        show_json(comparison.to_dict())
    elif report is None or not quiet:
        _show_comparison(comparison, title)
        if report is None:
            show(command("add --report report.html", "For intervals, curves and the model: "))
        else:
            show(Text(f"The page is {report}: open it in a browser."))


# ---- the data


def _read(
    file: Path,
    roles: dict[str, str | None],
    wanted: list[str],
    dropped: list[str],
    kinds: AskedKinds,
    views: list[str],
    links: LinkTable | None,
    step: Callable[[str], None],
) -> tuple[Items, list[dict[str, str]]]:
    """The items of a table, and what becomes of its columns."""
    score, query = roles["score"], roles["query"]
    assert score is not None
    step(f"reading {file.name}")
    text = [name for name in (query, roles["id"]) if name is not None]
    table = read_table(file, text=[*text, *kinds.read_as_text])
    y = score_column(table, score)
    labels = None if query is None else query_column(table, query)
    names = feature_columns(table, roles, wanted, dropped)
    encoder = kinds.encoder(table, names).fit(
        table.select(names)
    )  # says what becomes of columns; every fit has its own
    note_kinds(encoder)
    note_ids(table, encoder)
    if np.isnan(y).all():
        raise ValueError(f"score column {score!r} of {file} is empty: there is nothing to compare by")
    joining = None
    if links is not None:
        joining = links.between(table, check_named(roles["id"]), file)
        note("links are used by AutoRanker and AutoRegressor; the other methods know the columns alone")
    declared = views_of_columns(views, names)
    items = Items(table.select(names), y, labels, declared, encoder=encoder.with_these_kinds(), links=joining)
    return items, encoder.summary()


def _built_in() -> Items:
    try:
        return read_items(load_jokes())
    except FileNotFoundError:
        note("the joke ratings are not part of this installation (they are in the sources): made-up data instead")
        return read_items(make_ranking(n_queries=200, query_size=40, noise=0.5, random_state=0))


def _check_enough(items: Items, file: Path, score: str, query: str | None) -> None:
    """Refuse, by the names of the columns, a table on which no test could say anything."""
    units = len(testable(items))
    if query is not None and units < FEWEST_QUERIES:
        raise ValueError(
            f"only {count(units, 'value')} of {query!r} {'has' if units == 1 else 'have'} two rows with different "
            f"{score!r} in {file}: at least {FEWEST_QUERIES} are needed; leave out --query to compare all rows"
        )
    if query is None and units < FEWEST_ROWS:
        raise ValueError(f"{file} has {count(units, 'score')} in {score!r}: comparing methods takes {FEWEST_ROWS}")


def _as_options(message: str) -> str:
    """A message of the library, in which arguments are options."""
    for name in ARGUMENTS:
        option = f"--{name.replace('_', '-')}"
        message = message.replace(f"{name}=", f"{option} ")
        if message.startswith((f"{name} ", f"{name}:")):
            message = option + message.removeprefix(name)
    return message


def _cache() -> Path:
    """Where finished fits are kept when no folder is given."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "corank" / "compare"


# ---- the result


def _show_comparison(comparison: ComparisonResult, name: str) -> None:
    rows = {row.method: row for row in comparison.rows()}
    measure = TITLES[comparison.measure]
    head = ("method", measure, "gain", "p", "fit")
    table = grid(f"{count(len(rows), 'method')} on {name}", head, right=head[1:], last="verdict")
    for method in comparison.ranked():
        row, against = rows[method], rows[method].against
        estimate = row.estimates[comparison.measure]
        assert estimate is not None
        gain, p, verdict = "", "", "baseline"
        if against is not None:
            p = chance(against.p_corrected).removeprefix("p = ").removeprefix("p ")
            gain, verdict = f"{against.gain.mean:+.4f}", against.verdict
        style = {"better": "bold green", "worse": "yellow"}.get(verdict, "")
        seconds = f"{row.fit_seconds:.2f} s"
        table.add_row(Text(row.title), f"{estimate.mean:.4f}", gain, p, seconds, Text(verdict, style=style))
    answer, *others = comparison.verdict()
    show(table, Text(f"{measure} decides: {READING[comparison.measure]}", style="dim"))
    show(Text(), Text(answer, style="bold"), *(Text(line) for line in others if "unscored rows" in line))
    for method, reason in comparison.failed.items():
        show(Text(f"Left out: {method}: {reason}", style="yellow"))
    protocol = comparison.protocol
    whole = [record.result for record in comparison.records if record.draw.scored == record.draw.unscored == 1]
    scored = np.mean([result["n_scored"] for result in whole])
    done = f"{count(protocol.repeats, 'repeat')}, about {scored:,.0f} scored rows in training"
    if comparison.is_capped:
        done += f", fewer than {protocol.share(comparison.items):.0%} of them (--max-scored {protocol.max_scored})"
    show(Text(done, style="dim"))
