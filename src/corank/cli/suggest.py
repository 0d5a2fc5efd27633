"""`corank suggest`: a model and a table of items → the questions whose answers teach the model most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray
from rich.text import Text

from corank._messages import count
from corank.cli.columns import features_of, predicted_scores, queries_of, text_columns
from corank.cli.comparisons import FIRST, SECOND, WINNER, labels
from corank.cli.console import command, grid, note, show, show_json, working
from corank.cli.files import DASH, check_model_and_table, check_printed, check_table_output, readable, write_result
from corank.cli.links import as_argument, file_of, link_table, links_for
from corank.cli.options import (
    AsJson,
    AskedKind,
    Force,
    InputFormat,
    ItemInFit,
    LinkColumns,
    LinksFile,
    ModelFile,
    OutputFormat,
    Overall,
    PoolTable,
    QueryInFit,
    QuestionKind,
    QuestionNumber,
    QuestionsOut,
    Quiet,
    SpreadsheetSafe,
)
from corank.describe import learned_from_comparisons
from corank.links import Links
from corank.model_files import load
from corank.tables import TableError, column, read_table, score_column

SHOWN_QUESTIONS = 20
FIRST_WINS = "next answer is first"  # title of the column with its probability


def suggest(
    context: typer.Context,
    model: ModelFile,
    pool: PoolTable,
    number: QuestionNumber = 5,
    overall: Overall = False,
    kind: AskedKind = None,
    out: QuestionsOut = None,
    query: QueryInFit = None,
    id: ItemInFit = None,
    links: LinksFile = None,
    link_columns: LinkColumns = None,
    format: InputFormat = None,
    out_format: OutputFormat = None,
    spreadsheet_safe: SpreadsheetSafe = False,
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
    source = readable(context, pool, format)
    linked = link_table(context, links, link_columns)
    check_table_output(out, source, file_of(linked), force=force)
    with working(quiet=quiet) as step:
        step(f"reading {source.name}")
        learner = load(model)
        if not hasattr(learner, "suggest"):
            raise ValueError(
                f"{type(learner).__name__} has nothing to suggest: that takes a model which knows how sure it is (corank "
                "fit --method preference or difference), or views that can disagree (--method corankrls or corls)"
            )
        items = QuestionPool.read(source, learner, query, id)
        joining = links_for(learner, linked, items.table, items.item, source)
        step(f"looking for questions about {count(len(items.rows), 'row')}")
        questions = _ask(learner, items, number, kind, joining, overall=overall)
        if out is not None:
            step(f"writing {out.name}")
            write_result(questions.to_fill_in(), out, out_format, force=force, safe=spreadsheet_safe)
    if as_json:
        show_json({"kind": questions.kind, "questions": questions.entries()})
    elif out is None or not (quiet or out == DASH):
        _show_questions(questions, out, None if overall else number)
        if out is not None:
            show(*_next_steps(questions, model, pool, out, links))


@dataclass(frozen=True)
class QuestionPool:
    """Items that could be asked about.

    Attributes
    ----------
    file, table : where they stand
    rows : (m,) rows of the table without a score
    item, names : the column that names the items, and the names (n_rows,); None where nothing does
    query, queries : the query column, and the numbers of the queries (n_rows,), all 0 where there is one
    score : what the column of scores is called
    missing_query : a query column that the table lacks and answers need, or None
    """

    file: Path
    table: pa.Table
    rows: NDArray[np.int64]
    item: str | None
    names: Sequence[str | None] | None
    query: str | None
    queries: NDArray[np.int64]
    score: str
    missing_query: str | None

    @classmethod
    def read(cls, file: Path, model: Any, query: str | None, item: str | None) -> QuestionPool:
        """Read a table for a model; by default columns are called as in fit."""
        remembered = model.table_ or {}
        by, named_by, score = query or remembered.get("query"), item or remembered.get("id"), remembered.get("score")
        table = read_table(file, text=text_columns(model, by, named_by))
        needed = by if model._with_queries else None
        by, queries = queries_of(table, file, by, asked=query is not None, otherwise="all rows are one query")
        if item is not None:
            column(table, item, "item")
        elif named_by is not None and named_by not in table.column_names:
            note(
                f"{file} has no column {named_by!r}, which named the items in fit: they are called by their row numbers"
            )
            named_by = None
        unscored = np.ones(len(table), dtype=bool)
        if score is not None and score in table.column_names:
            unscored = np.isnan(score_column(table, score))
            if not unscored.any():
                raise TableError(f"every row of {file} has a score in {score!r}: there is nothing to ask")
        names = None if named_by is None else labels(table, named_by, "item", file)
        missing = needed if by is None else None
        rows = np.flatnonzero(unscored)
        return cls(file, table, rows, named_by, names, by, queries, score or "score", missing)

    def name(self, row: int) -> str | int:
        """What a row is called: its name, or its number, from 1."""
        name = None if self.names is None else self.names[row]
        return int(row) + 1 if name is None else name

    @property
    def has_unique_names(self) -> bool:
        """Whether every item has a name of its own."""
        return self.names is not None and None not in self.names and len(set(self.names)) == len(self.names)


@dataclass(frozen=True)
class Questions:
    """What to ask.

    Attributes
    ----------
    pool : the items
    kind : "score" or "comparison"
    asked : (n, 1) rows to score, or (n, 2) rows to compare
    expected : names and (n,) values of what the model expects: score and std, or first_wins
    answer : name of the column that takes the answers
    margin : name of the column that takes the margins, or None
    can_be_answered : whether `corank update` can learn from such answers
    """

    pool: QuestionPool
    kind: str
    asked: NDArray[np.int64]
    expected: dict[str, NDArray[np.float64]]
    answer: str
    margin: str | None
    can_be_answered: bool

    @property
    def compares(self) -> bool:
        """Whether two items are compared."""
        return self.kind == QuestionKind.comparison

    @property
    def columns_to_fill(self) -> list[str]:
        """Names of the columns to fill in. Where items are compared, their table says which query they belong to."""
        missing = self.pool.missing_query
        return [self.answer] if missing is None or self.compares else [missing, self.answer]

    def entries(self) -> list[dict[str, Any]]:
        """One entry per question, with names of items, and what the model expects."""
        entries = []
        for at, rows in enumerate(self.asked):
            entry: dict[str, Any] = {}
            if self.pool.query is not None:
                entry["query"] = self.pool.table[self.pool.query][int(rows[0])].as_py()
            sides = (FIRST, SECOND) if self.compares else ("item",)
            entry |= {side: self.pool.name(row) for side, row in zip(sides, rows, strict=True)}
            entries.append(entry | {name: float(values[at]) for name, values in self.expected.items()})
        return entries

    def to_fill_in(self) -> pa.Table:
        """The questions with an empty column for the answers.

        What the model expects is left out: it might sway those who answer.
        """
        pool, n = self.pool, len(self.asked)
        table = pool.table.take(pa.array(self.asked[:, 0]))
        queries = {} if pool.query is None else {pool.query: table[pool.query]}
        if self.compares:
            pairs = {
                side: pa.array([str(pool.name(row)) for row in rows])
                for side, rows in zip((FIRST, SECOND), self.asked.T, strict=True)
            }
            margins = {} if self.margin is None else {self.margin: pa.nulls(n, pa.float64())}
            return pa.table({**queries, **pairs, self.answer: pa.nulls(n, pa.string()), **margins})
        to_fill = {name: pa.nulls(n, pa.string()) for name in self.columns_to_fill}
        to_fill[self.answer] = pa.nulls(n, pa.float64())
        if pool.item is not None and pool.has_unique_names:
            return pa.table({pool.item: table[pool.item], **queries, **to_fill})
        return pa.table({**to_fill, **{name: table[name] for name in table.column_names if name != self.answer}})


def _ask(
    model: Any, pool: QuestionPool, number: int, kind: str | None, links: Links | None, *, overall: bool
) -> Questions:
    """The `number` most telling questions, within each query or, of scores, `overall`."""
    learned = learned_from_comparisons(model)
    compares = learned if kind is None else kind == QuestionKind.comparison
    if overall and compares:
        raise ValueError("--overall is for scores: comparisons are asked for within each query")
    kind = "comparison" if compares else "score"
    features = features_of(model, pool.table)
    queries = pool.queries[pool.rows]
    groups = np.zeros(len(pool.rows)) if overall else queries
    asked = []
    for group in np.unique(groups):
        rows = pool.rows[groups == group]
        most = len(rows) * (len(rows) - 1) // 2 if compares else len(rows)
        if most > 0:
            n_questions = min(number, most)
            if links is None:
                suggested = rows[np.asarray(model.suggest(features[rows], n_questions, kind))]
            else:
                suggested = _suggested_over_links(model, features, rows, n_questions, kind, links)
            asked.append(suggested.reshape(len(suggested), -1))
    if not asked:
        within = "" if pool.query is None else f" of one {pool.query!r}"
        raise TableError(f"{pool.file} has no two rows{within} that could be compared")
    questions = np.concatenate(asked)
    expected = {}
    if not compares:
        rows = pool.rows if links is None else np.arange(len(pool.table))
        scores, std = predicted_scores(model, features[rows], pool.queries[rows], links)
        places = np.searchsorted(rows, questions[:, 0])
        expected = {"score": scores[places], **({} if std is None else {"std": std[places]})}
    elif hasattr(model, "predict_comparison") and links is None:
        first, second = (features[rows] for rows in questions.T)
        expected = {"first_wins": np.asarray(model.predict_comparison(first, second, observed=True))}
    answer, margin = (WINNER, (model.table_ or {}).get("margin")) if compares else (pool.score, None)
    can_be_answered = learned == compares and (not compares or hasattr(model, "update_comparisons"))
    return Questions(pool, kind, questions, expected, answer, margin, can_be_answered)


def _suggested_over_links(
    model: Any, features: NDArray[np.float64], rows: NDArray[np.int64], number: int, kind: str, links: Links
) -> NDArray[np.int64]:
    """Questions about some of the rows of a table that links join: (number, 1) or (number, 2) row numbers.

    The model sees all rows, as items take after those they are linked with, and is asked for more questions until enough
    of them are about the given rows.
    """
    n = len(features)
    allowed = np.isin(np.arange(n), rows)
    most = n if kind == "score" else n * (n - 1) // 2
    n_asked = number
    while True:
        suggested = np.asarray(model.suggest(features, n_asked, kind, **as_argument(links)))
        suggested = suggested.reshape(n_asked, -1)
        kept: NDArray[np.int64] = suggested[allowed[suggested].all(axis=1)][:number]
        if len(kept) == number or n_asked == most:
            return kept
        n_asked = min(2 * n_asked, most)


def _show_questions(questions: Questions, out: Path | None, per_query: int | None) -> None:
    """The questions, of which there are up to `per_query` for each query, or any number."""
    entries, pool = questions.entries(), questions.pool
    titles = {
        "item": pool.item or "row",
        "query": pool.query or "",
        "first_wins": FIRST_WINS,
        "score": "predicted score",
    }
    what, purpose = ("comparison", "ask for") if questions.compares else ("item", "score")
    title = f"{count(len(entries), what)} to {purpose}, {_order(entries, pool, per_query)}"
    columns = [titles.get(name, name) for name in entries[0]]
    table = grid("", ["", *columns], right=("", FIRST_WINS, "predicted score", "std"))
    for at, entry in enumerate(entries[:SHOWN_QUESTIONS]):
        cells = [_cell(name, value) for name, value in entry.items()]
        table.add_row(Text(str(at + 1), style="dim"), *(Text(cell) for cell in cells))
    remarks = [f"and {len(entries) - SHOWN_QUESTIONS:,} more"] if len(entries) > SHOWN_QUESTIONS else []
    if out is None:
        remarks.append("--out FILE writes them, to be answered for corank update")
    show(Text(title, style="bold"), table, *([Text("; ".join(remarks), style="dim")] if remarks else []))


def _order(entries: list[dict[str, Any]], pool: QuestionPool, per_query: int | None) -> str:
    queries = {str(entry.get("query")) for entry in entries}
    if per_query is None or len(queries) == 1:
        return "the most telling first"
    most = f"{per_query}" if len(entries) == per_query * len(queries) else f"up to {per_query}"
    return f"{most} for each of {count(len(queries), pool.query or 'query')}, the most telling of each first"


def _cell(name: str, value: Any) -> str:
    if name == "first_wins":
        return f"{value:.0%}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _next_steps(questions: Questions, model: Path, pool: Path, out: Path, links: Path | None) -> list[Text]:
    written = Text(f"{count(len(questions.asked), 'question')} written: {out}")
    if not questions.can_be_answered:
        return [written]
    by_name = questions.compares or questions.pool.has_unique_names  # answers name items, and do not describe them
    items = f" --items {'ITEMS' if pool == DASH else pool}" if by_name else ""
    items += "" if links is None else f" --links {'LINKS' if links == DASH else links}"
    how = " with the better of the two, or first, second or tie" if questions.compares else ""
    names = questions.columns_to_fill
    columns = f"{'column' if len(names) == 1 else 'columns'} {' and '.join(map(repr, names))}"
    run = command(f"corank update {model} {out}{items} --out NEW.corank", "      ")
    return [written, Text(f"Next: fill in {columns}{how}, then"), run]
