"""`corank suggest`: a model and a table of items → the questions whose answers teach the model most."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from corank.cli.console import command, count, grid, show, working
from corank.cli.inputs import DASH, check_printed, given, write_result
from corank.cli.options import TABLE, AsJson, Force, IdInFit, ModelFile, Printed, QueryInFit, Quiet, Read
from corank.cli.outputs import check_model_and_table, check_table_output

if TYPE_CHECKING:
    from corank.cli.questions import Questions

MOST_SHOWN = 20
FORETOLD = "next answer is first"  # how likely that is


class Kind(StrEnum):
    """What to ask for."""

    score = "score"
    comparison = "comparison"


def suggest(
    context: typer.Context,
    model: ModelFile,
    pool: Annotated[
        Path, typer.Argument(help=f"Table of items that could be asked about: {TABLE}.", show_default=False)
    ],
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="How many questions, for each query.")] = 5,
    overall: Annotated[
        bool, typer.Option("--overall", help="So many over all queries, not for each; only for scores.")
    ] = False,
    kind: Annotated[
        Kind | None,
        typer.Option(
            help="score: how good is an item; comparison: which of two is better. Default: as in fit.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the questions, to be answered for `corank update`; - prints them.", show_default=False
        ),
    ] = None,
    query: QueryInFit = None,
    id: IdInFit = None,
    format: Read = None,
    out_format: Printed = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Say what to ask next: the questions whose answers teach the model most.

    Write them with --out, fill in the answers, and hand the file to `corank update`.
    Rows of the table that have a score are not asked about again.
    """
    check_model_and_table("suggest", model, pool)
    check_printed(out, out_format, as_json=as_json)
    source = given(context, pool, format)
    if out is not None:
        check_table_output(out, source, force=force)
    with working(quiet=quiet) as doing:
        questions = _questions(model, source, number, kind, query, id, doing, overall=overall)
        if out is not None:
            doing(f"writing {out.name}")
            write_result(questions.to_fill_in(), out, out_format, force=force)
    if as_json:
        typer.echo(json.dumps({"kind": questions.kind, "questions": questions.entries()}, indent=2, default=str))
    elif out is None or not (quiet or out == DASH):
        _show(questions, model, pool, out, 0 if overall else number)


def _questions(
    model_file: Path,
    pool: Path,
    number: int,
    kind: Kind | None,
    query: str | None,
    item: str | None,
    doing: Callable[[str], None],
    *,
    overall: bool,
) -> Questions:
    doing(f"reading {pool.name}")
    from corank.cli.questions import Pool, ask
    from corank.learners import load

    model = load(model_file)
    if not hasattr(model, "suggest"):
        raise ValueError(
            f"{type(model).__name__} has nothing to suggest: that takes a model which knows how sure it is (corank fit "
            "--method preference or difference), or views that can disagree (--method corankrls or corls)"
        )
    table = Pool.read(pool, model, query, item)
    doing(f"looking for questions about {count(len(table.rows), 'row')}")
    return ask(model, table, number, None if kind is None else kind.value, overall=overall)


def _show(questions: Questions, model: Path, pool: Path, out: Path | None, each: int) -> None:
    """The questions, of which there are up to `each` for a query, or 0: any number."""
    entries = questions.entries()
    names = {
        "item": questions.pool.item or "row",
        "query": questions.pool.query or "",
        "first_wins": FORETOLD,
        "score": "predicted score",
    }
    columns = [names.get(name, name) for name in entries[0] if name != "row"]
    what = count(len(entries), "comparison") if questions.kind == "comparison" else count(len(entries), "item")
    title = f"{what} to {'ask for' if questions.kind == 'comparison' else 'score'}, {_order(entries, questions, each)}"
    table = grid("", ["", *columns], right=("", FORETOLD, "predicted score", "std"))
    for at, entry in enumerate(entries[:MOST_SHOWN]):
        cells = [_cell(name, value) for name, value in entry.items() if name != "row"]
        table.add_row(Text(str(at + 1), style="dim"), *(Text(cell) for cell in cells))
    more = [f"and {len(entries) - MOST_SHOWN:,} more"] if len(entries) > MOST_SHOWN else []
    if out is None:
        more.append("--out FILE writes them, to be answered for corank update")
    show(Text(title, style="bold"), table, *([Text("; ".join(more), style="dim")] if more else []))
    if out is not None:
        show(Text(f"{count(len(entries), 'question')} written: {out}"), *_next(questions, model, pool, out))


def _order(entries: list[dict[str, Any]], questions: Questions, each: int) -> str:
    labels = {str(entry.get("query")) for entry in entries}
    if not each or len(labels) == 1:
        return "the most telling first"
    most = f"{each}" if len(entries) == each * len(labels) else f"up to {each}"
    return f"{most} for each of {count(len(labels), questions.pool.query or 'query')}, the most telling of each first"


def _next(questions: Questions, model: Path, pool: Path, out: Path) -> list[Text]:
    if not questions.can_be_answered:
        return []
    items = f" --items {'ITEMS' if pool == DASH else pool}" if questions.by_name else ""
    what = " with the better of the two, or first, second or tie" if questions.kind == "comparison" else ""
    columns = " and ".join(map(repr, questions.to_fill))
    run = f"corank update {model} {out}{items} --out NEW.corank"
    words = f"Next: fill in {'column' if len(questions.to_fill) == 1 else 'columns'} {columns}{what}, then"
    return [Text(words), command(run, "      ")]


def _cell(name: str, value: Any) -> str:
    if name == "first_wins":
        return f"{value:.0%}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
