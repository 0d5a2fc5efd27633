"""`corank compare`: which method is best on a table, by how much, and did unscored rows help?"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from corank._messages import count
from corank.cli.console import command, grid, note, show, typed, working
from corank.cli.files import check_report_output, given, svmlight_columns, title_of
from corank.cli.options import TABLE, AsJson, Drop, Features, Force, IdLeftOut, Quiet, Read, View, check_views

if TYPE_CHECKING:
    from corank.experiments import ComparisonResult, Items

BUILT_IN = "the built-in jokes"


def compare(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(help=f"Table of items: {TABLE}. Default: the built-in jokes.", show_default=False),
    ] = None,
    score: Annotated[
        str | None, typer.Option(help="Column with the scores; empty = unscored.", show_default=False)
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="Column that says which rows compete with each other.", show_default=False)
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            help="Methods to compare, such as ridge,rankrls,lightgbm. Default: a baseline, corank's main learners, and "
            "LightGBM (or else XGBoost) where installed.",
            show_default=False,
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Method the others are tested against. Default: ridge.", show_default=False)
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(
            help="disagreement, ndcg or rmse. Default: disagreement with --query, rmse without.", show_default=False
        ),
    ] = None,
    scored_share: Annotated[
        float | None,
        typer.Option(
            help="Share of the training queries (rows) that keep their scores. Default: 0.1, or all where most rows are "
            "unscored.",
            show_default=False,
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Draws of test, scored and unscored queries (rows).")] = 20,
    features: Features = None,
    drop: Drop = None,
    id: IdLeftOut = None,
    view: View = None,
    format: Read = None,
    report: Annotated[Path | None, typer.Option(help="Write everything as one HTML page.", show_default=False)] = None,
    max_scored: Annotated[int, typer.Option(help="Most scored rows in one fit.")] = 300,
    max_unscored: Annotated[int, typer.Option(help="Most unscored rows in one fit.")] = 600,
    curves: Annotated[bool, typer.Option("--curves/--no-curves", help="Also fit on fewer rows.")] = True,
    seed: Annotated[int, typer.Option(help="All draws follow from it.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Fits at a time. Default: one a core.", show_default=False)] = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="Folder for finished fits. Default: in the user's cache.", show_default=False),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not take up fits of an earlier start.")] = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Say which method is best on a table, by how much, and whether unscored rows help.

    Scores of test rows, and of most training rows, are hidden from the methods.
    Interrupted, the same command goes on where it stopped.
    """
    source = None if file is None else given(context, file, format)
    if source is not None:
        score, query = svmlight_columns(source, score, query)
    if file is not None and score is None:
        raise ValueError("missing option '--score', the column with the scores")
    check_views(view or [])
    if file is None and (score or query or features or drop or id or view):
        raise ValueError("say which table: corank compare FILE --score COLUMN")
    if report is not None:
        check_report_output(report, source, force=force)
    if jobs is not None and jobs < 1:
        raise ValueError(f"--jobs must be at least 1, got {jobs}")
    with working(quiet=quiet) as doing:
        doing("reading the data")
        from corank.experiments import Protocol
        from corank.experiments import compare as compare_methods
        from corank.experiments.jobs import JobsFailed, shown_on

        try:
            protocol = Protocol(
                scored_share, repeats, curves=curves, max_scored=max_scored, max_unscored=max_unscored,
                measure=measure, seed=seed,  # type: ignore[arg-type]
            )  # fmt: skip
        except ValueError as error:
            raise ValueError(_as_options(str(error))) from error
        items, columns = _built_in() if source is None else _read(source, score, query, id, features, drop, view, doing)
        _check_enough(items, source, score, query)
    names = None if not methods else [name.strip() for word in methods for name in word.split(",") if name.strip()]
    console = Console(stderr=True, quiet=quiet)
    try:
        found = compare_methods(
            items,
            names,
            protocol,
            baseline=baseline,
            processes=jobs or os.cpu_count() or 1,
            keep=keep or _cache(),
            fresh=fresh,
            progress=shown_on(console, "comparing", lines=False),
        )
    except JobsFailed as error:
        raise ValueError(f"{error}; --methods leaves a method out, and the other fits are kept") from error
    except ValueError as error:
        raise ValueError(_as_options(str(error))) from error
    except KeyboardInterrupt:
        note("finished fits are kept: the same command goes on from there")
        raise
    if report is not None:
        with working(quiet=quiet) as doing:
            doing(f"writing {report.name}")
            _write(found, report, file, columns, force=force)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
    elif report is None or not quiet:
        _show(found, file, report)


# ---- what goes in


def _read(
    file: Path,
    score: str | None,
    query: str | None,
    item: str | None,
    wanted: list[str] | None,
    dropped: list[str] | None,
    views: list[str] | None,
    doing: Callable[[str], None],
) -> tuple[Items, list[dict[str, str]]]:
    from corank.cli.columns import feature_columns, note_ids, views_of_columns
    from corank.encoder import TableEncoder
    from corank.experiments import Items
    from corank.tables import query_column, read_table, score_column

    assert score is not None
    doing(f"reading {file.name}")
    table = read_table(file, text=[name for name in (query, item) if name is not None])
    y = score_column(table, score)
    labels = None if query is None else query_column(table, query)
    names = feature_columns(table, {"score": score, "query": query, "id": item}, wanted or [], dropped or [])
    note_ids(table, names)
    encoder = TableEncoder()
    encoder.fit(table.select(names))  # what it says of the columns; every fit has an encoder of its own
    if not (y == y).any():  # noqa: PLR0124  (all NaN)
        raise ValueError(f"score column {score!r} of {file} is empty: there is nothing to compare by")
    return Items(table.select(names), y, labels, views_of_columns(views or [], names)), encoder.summary()


def _built_in() -> tuple[Items, list[dict[str, str]]]:
    from corank.datasets import load_jokes, make_ranking
    from corank.experiments.data import read_items

    try:
        return read_items(load_jokes()), []
    except FileNotFoundError:
        note("the joke ratings are not part of this installation (they are in the sources): made-up data instead")
        return read_items(make_ranking(n_queries=200, query_size=40, noise=0.5, random_state=0)), []


def _check_enough(items: Items, file: Path | None, score: str | None, query: str | None) -> None:
    """Refuse, in the words of the columns, what no test could say anything about."""
    from corank.experiments.protocol import FEWEST_QUERIES, FEWEST_ROWS, testable

    units = len(testable(items))
    if query is not None and units < FEWEST_QUERIES:
        raise ValueError(
            f"only {count(units, 'value')} of {query!r} {'has' if units == 1 else 'have'} two rows with different "
            f"{score!r} in {file}: at least {FEWEST_QUERIES} are needed; leave out --query to compare all rows"
        )
    if query is None and file is not None and units < FEWEST_ROWS:
        raise ValueError(f"{file} has {count(units, 'score')} in {score!r}: comparing methods takes {FEWEST_ROWS}")


def _as_options(words: str) -> str:
    for name in ("scored_share", "repeats", "max_scored", "max_unscored", "measure", "seed", "methods", "baseline"):
        words = words.replace(f"{name}=", f"--{name.replace('_', '-')} ") if f"{name}=" in words else words
        if words.startswith((f"{name} ", f"{name}:")):
            words = f"--{name.replace('_', '-')}{words[len(name) :]}"
    return words


def _cache() -> Path:
    """Where finished fits are kept when nobody says where."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "corank" / "compare"


# ---- what comes out


def _write(found: ComparisonResult, report: Path, file: Path | None, columns: Any, *, force: bool) -> None:
    from corank.report import write_report

    name = BUILT_IN if file is None else title_of(file)
    title = f"Which method is best on {name}?"
    write_report(found, report, title=title, command=typed("compare"), columns=columns, overwrite=force)


def _show(found: ComparisonResult, file: Path | None, report: Path | None) -> None:
    from corank.experiments.measures import READING, TITLES

    rows = {row.method: row for row in found.rows()}
    head = ("method", TITLES[found.measure], "gain", "p", "fit")
    name = BUILT_IN if file is None else title_of(file)
    table = grid(f"{count(len(rows), 'method')} on {name}", head, right=head[1:], last="verdict")
    for method in found.ranked():
        row, gain = rows[method], rows[method].against
        value = row.estimates[found.measure]
        assert value is not None
        more = ("", "", "baseline") if gain is None else (f"{gain.gain.mean:+.4f}", _chance(gain), gain.verdict)
        style = {"better": "bold green", "worse": "yellow"}.get(more[2], "")
        seconds = f"{row.fit_seconds:.2f} s"
        table.add_row(Text(row.title), f"{value.mean:.4f}", *more[:2], seconds, Text(more[2], style=style))
    answer, *rest = found.verdict()
    reading = f"{TITLES[found.measure]} decides: {READING[found.measure]}"
    main = [record.result for record in found.records if record.draw.scored == record.draw.unscored == 1]
    scored = sum(result["n_scored"] for result in main) / len(main)
    done = f"{count(found.protocol.repeats, 'repeat')}, about {scored:,.0f} scored rows in training{_capped(found)}"
    failed = [Text(f"Left out: {name}: {why}", style="yellow") for name, why in found.failed.items()]
    effects = [line for line in rest if "unscored rows" in line]
    parts: list[Any] = [table, Text(reading, style="dim"), Text(), Text(answer, style="bold"), *map(Text, effects)]
    show(*parts, *failed, Text(done, style="dim"))
    if report is not None:
        show(Text(f"The page is {report}: open it in a browser."))
    else:
        show(command("add --report report.html", "For intervals, curves and the model: "))


def _capped(found: ComparisonResult) -> str:
    """A word on scored rows that were left out, where the share alone would have kept more."""
    if not found.is_capped:
        return ""
    asked = f"{found.protocol.share(found.items):.0%}"
    return f", fewer than {asked} of them (--max-scored {found.protocol.max_scored})"


def _chance(gain: Any) -> str:
    from corank.experiments.verdict import chance

    return chance(gain.p_corrected).removeprefix("p = ").removeprefix("p ")
