"""Questions about the items of a table: which to ask, how they are shown, and the file in which they are answered.

`corank suggest`: a model and a table of items → the questions whose answers teach the model most.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray
from rich.text import Text

from corank._messages import count
from corank.cli.columns import features_of, queries_of, ranked, text_columns
from corank.cli.comparisons import FIRST, SECOND, WINNER, labels
from corank.cli.console import command, grid, note, show, working
from corank.cli.files import DASH, check_model_and_table, check_printed, check_table_output, given, write_result
from corank.cli.options import TABLE, AsJson, Force, IdInFit, ModelFile, Printed, QueryInFit, Quiet, Read
from corank.cli.show import is_compared
from corank.tables import TableError, column, read_table, score_column

COMPARISON = "comparison"


@dataclass(frozen=True)
class QuestionPool:
    """Items that could be asked about.

    Attributes
    ----------
    rows : (m,) rows of the table without a score
    item, names : the column that names the items, and the names (n_rows,); None where nothing does
    query, queries : the same for queries; codes (n_rows,), all 0 where there is one
    score : what the column of scores is called
    lacking : a query column that the table lacks and answers need, or None
    """

    file: Path
    table: pa.Table
    rows: NDArray[np.int64]
    item: str | None
    names: Sequence[str | None] | None
    query: str | None
    queries: NDArray[np.int64]
    score: str
    lacking: str | None = None

    @classmethod
    def read(cls, file: Path, model: Any, query: str | None, item: str | None) -> QuestionPool:
        """Read a table for a model; columns are called as in fit where nobody says."""
        remembered = model.table_ or {}
        by, known, score = query or remembered.get("query"), item or remembered.get("id"), remembered.get("score")
        table = read_table(file, text=text_columns(model, by, known))
        wanted = by if model._with_queries else None
        by, codes = queries_of(table, file, by, asked=query is not None, otherwise="all rows are one query")
        lacking = wanted if by is None else None
        if item is not None:
            column(table, item, "item")
        elif known is not None and known not in table.column_names:
            note(f"{file} has no column {known!r}, which named the items in fit: they are called by their row numbers")
            known = None
        open_ = np.ones(len(table), dtype=bool)
        if score is not None and score in table.column_names:
            open_ = np.isnan(score_column(table, score))
            if not open_.any():
                raise TableError(f"every row of {file} has a score in {score!r}: there is nothing to ask")
        names = None if known is None else labels(table, known, "item", file)
        return cls(file, table, np.flatnonzero(open_), known, names, by, codes, score or "score", lacking)

    def name(self, row: int) -> str | int:
        """What a row is called: its name, or its number, from 1."""
        name = None if self.names is None else self.names[row]
        return int(row) + 1 if name is None else name

    @property
    def names_tell_apart(self) -> bool:
        """Whether every item has a name of its own."""
        return self.names is not None and None not in self.names and len(set(self.names)) == len(self.names)


@dataclass(frozen=True)
class Questions:
    """What to ask.

    Attributes
    ----------
    asked : (n,) rows to score, or (n, 2) rows to compare
    predicted : (n,) scores and (n,) standard deviations or None; for comparisons (n,) that the first wins, or None
    answer : name of the column that takes the answers
    margin : name of the column that takes the margins, or None
    can_be_answered : whether `corank update` can learn from such answers
    """

    pool: QuestionPool
    kind: str
    asked: NDArray[np.int64]
    predicted: tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]
    answer: str
    margin: str | None
    can_be_answered: bool

    @property
    def to_fill(self) -> list[str]:
        """Names of the columns to fill in. Queries are those of the items where two are compared."""
        lacking = [] if self.pool.lacking is None or self.kind == COMPARISON else [self.pool.lacking]
        return [*lacking, self.answer]

    @property
    def by_name(self) -> bool:
        """Whether the answers will say the names of items, which are looked up in a table, and not describe them."""
        return self.kind == COMPARISON or self.pool.names_tell_apart

    def entries(self) -> list[dict[str, Any]]:
        """One a question, with names of items, and what the model expects."""
        value, spread = self.predicted
        found = []
        for at, rows in enumerate(self.asked.reshape(len(self.asked), -1)):
            entry: dict[str, Any] = {}
            if self.pool.query is not None:
                entry["query"] = self.pool.table[self.pool.query][int(rows[0])].as_py()
            if self.kind == COMPARISON:
                entry |= {FIRST: self.pool.name(rows[0]), SECOND: self.pool.name(rows[1])}
                entry |= {} if value is None else {"first_wins": float(value[at])}
            else:
                entry |= {"item": self.pool.name(rows[0])}
                entry |= {} if value is None else {"score": float(value[at])}
                entry |= {} if spread is None else {"std": float(spread[at])}
            found.append(entry)
        return found

    def to_fill_in(self) -> pa.Table:
        """The questions with an empty column for the answers. What the model expects is left out: who answers should
        not be told.
        """
        empty = pa.nulls(len(self.asked), pa.string() if self.kind == COMPARISON else pa.float64())
        pool, first = self.pool, self.asked.reshape(len(self.asked), -1)[:, 0]
        table = pool.table.take(pa.array(first))
        columns = {} if pool.query is None else {pool.query: table[pool.query]}
        unknown = {name: pa.nulls(len(first), pa.string()) for name in self.to_fill[:-1]}
        if self.kind == COMPARISON:
            for name, rows in zip((FIRST, SECOND), self.asked.T, strict=True):
                columns[name] = pa.array([str(pool.name(row)) for row in rows])
            columns[self.answer] = empty
            if self.margin is not None:
                columns[self.margin] = pa.nulls(len(self.asked), pa.float64())
            return pa.table(columns)
        if pool.item is not None and pool.names_tell_apart:
            return pa.table({pool.item: table[pool.item], **columns, **unknown, self.answer: empty})
        rest = {name: table[name] for name in table.column_names if name != self.answer}
        return pa.table({**unknown, self.answer: empty, **rest})


def ask(model: Any, pool: QuestionPool, number: int, kind: str | None, *, overall: bool = False) -> Questions:
    """The `number` most telling questions, within each query or, of scores, `overall`."""
    compared = is_compared(model)
    kind = kind or (COMPARISON if compared else "score")
    if overall and kind == COMPARISON:
        raise ValueError("--overall is for scores: comparisons are asked for within each query")
    features = features_of(model, pool.table)
    needed = 2 if kind == COMPARISON else 1
    asked = []
    codes = np.zeros(len(pool.rows)) if overall else pool.queries[pool.rows]
    for code in np.unique(codes):
        rows = pool.rows[codes == code]
        most = len(rows) * (len(rows) - 1) // 2 if kind == COMPARISON else len(rows)
        if len(rows) >= needed:
            asked.append(rows[np.asarray(model.suggest(features[rows], min(number, most), kind))])
    if not asked:
        where = "" if pool.query is None else f" of one {pool.query!r}"
        raise TableError(f"{pool.file} has no two rows{where} that could be compared")
    rows = np.concatenate(asked)
    expected: Any = (None, None)
    if kind != COMPARISON:
        value, spread = ranked(model, features[pool.rows], pool.queries[pool.rows])
        places = np.searchsorted(pool.rows, rows)
        expected = (value[places], None if spread is None else spread[places])
    elif hasattr(model, "predict_comparison"):
        expected = (
            np.asarray(model.predict_comparison(features[rows[:, 0]], features[rows[:, 1]], observed=True)),
            None,
        )
    answer, margin = (WINNER, (model.table_ or {}).get("margin")) if kind == COMPARISON else (pool.score, None)
    usable = compared == (kind == COMPARISON) and (kind != COMPARISON or hasattr(model, "update_comparisons"))
    return Questions(pool, kind, rows, expected, answer, margin, usable)


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
    from corank.learners import load

    model = load(model_file)
    if not hasattr(model, "suggest"):
        raise ValueError(
            f"{type(model).__name__} has nothing to suggest: that takes a model which knows how sure it is (corank fit "
            "--method preference or difference), or views that can disagree (--method corankrls or corls)"
        )
    table = QuestionPool.read(pool, model, query, item)
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
