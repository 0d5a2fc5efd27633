"""`corank suggest`: a model and a table of items → the questions whose answers teach the model
most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer
from rich.text import Text

from corank.cli.columns import (
    id_columns,
    remembered,
    remembered_ids,
    unlabelled_score,
)
from corank.cli.console import DASH, cell, command, show, show_json, title_of, working
from corank.cli.items import (
    AppliedModel,
    ItemTable,
    known_person,
    labels_at,
    labels_of_pairs,
    links_option,
    role_labels,
)
from corank.cli.options import (
    TABLE,
    File,
    ForPerson,
    LinkOptions,
    ModelFile,
    QuestionKind,
    RolesInFit,
    TableOutput,
    argument,
    flag,
    option,
)
from corank.core.arrays import FloatArray, Index
from corank.core.messages import count
from corank.describe import learned_from_comparisons
from corank.display import Cell, Table
from corank.tables import TableError, column, score_column
from corank.tables.comparisons import FIRST, SECOND, WINNER

SHOWN_QUESTIONS = 20
FIRST_WINS, PREDICTED = "next answer is first", "predicted score"  # titles of columns


def suggest(
    context: typer.Context,
    *,
    model: ModelFile,
    pool: Path = argument(f"Table of items that could be asked about: {TABLE}."),
    number: int = option(
        "How many questions per query.", "--number", "-n", default=5, min=1, shown=True
    ),
    overall: bool = flag("That many questions over all queries, not per query; only for scores."),
    kind: QuestionKind | None = option(
        "score: how good is an item; comparison: which of two is better. Default: as in fit."
    ),
    out: File = option(
        "Where to write the questions, to be answered for `corank update`; - prints them."
    ),
    roles: RolesInFit,
    for_person: ForPerson = None,
    links: LinkOptions,
    output: TableOutput,
) -> None:
    """Say what to ask next: the questions whose answers teach the model most.

    Write them with --out, fill in the answers, and pass the file to `corank update`.
    Rows of the table that already have a score are not asked about.
    """
    applied = AppliedModel.opened(context, model, pool, output, links)
    output.check(out, *applied.sources)
    with working(quiet=output.quiet) as step:
        step(f"reading {title_of(pool)}")
        learner = applied.model
        if not learner.suggests:
            raise ValueError(
                f"{type(learner).__name__} cannot suggest questions: that takes a model that knows"
                " how certain it is (corank fit --method preference or difference), or views that"
                " can disagree (--method corankrls or corls)"
            )
        person = known_person(learner, for_person)
        items = QuestionPool.read(applied, roles, person)
        linked = applied.linked(items.table, items.item, applied.file)
        step(f"looking for questions about {count(len(items.rows), 'row')}")
        labels = role_labels(learner, items.table, person)
        questions = _ask(learner, items, number, kind, linked, labels, overall=overall)
        who = remembered(learner, "person")
        if who is not None and who != items.query:
            questions = replace(questions, who=who, asked_of=person)
        if out is not None:
            step(f"writing {out.name}")
            output.write(questions.to_fill_in(), out)
    if output.as_json:
        show_json({"kind": questions.kind, "questions": questions.entries()})
    elif out is None or not (output.quiet or out == DASH):
        _show_questions(questions, out, None if overall else number)
        if out is not None:
            show(*_next_steps(questions, model, pool, out, links.links))


@dataclass(frozen=True)
class QuestionPool:
    """Items that could be asked about.

    Attributes
    ----------
    items : the table
    rows : (m,) its rows without a score
    item, names : the column that names the items, and the names (n_rows,); None where nothing does
    beside : further columns that name the items
    score : what the column of scores is called
    missing_query : a query column that the table lacks and answers need, or None
    """

    items: ItemTable
    rows: Index
    item: str | None
    names: Sequence[str | None] | None
    beside: Sequence[str]
    score: str
    missing_query: str | None

    @classmethod
    def read(cls, applied: AppliedModel, roles: RolesInFit, person: str | None) -> QuestionPool:
        """Read a table for a model; by default columns are called as in fit."""
        model = applied.model
        file = applied.file
        given = id_columns(roles.id)
        score = remembered(model, "score")
        ids = given or remembered_ids(model)
        otherwise = "all rows are one query"
        items = ItemTable.read(applied, file, roles.query, *ids, otherwise=otherwise, person=person)
        table = items.table
        for name in given:
            column(table, name, "item")
        item, names = items.names(ids[0] if ids else None, asked=bool(given))
        unscored = np.ones(len(table), dtype=bool)
        if score is not None and score in table.column_names:
            unscored = np.isnan(score_column(table, score, unlabelled_score(model)))
            if not unscored.any():
                raise TableError(
                    f"every row of {file} has a score in {score!r}: there is nothing to ask"
                )
        needed = (roles.query or remembered(model, "query")) if model.with_queries else None
        beside = [name for name in ids[1:] if item is not None and name in table.column_names]
        missing = needed if items.query is None else None
        return cls(items, np.flatnonzero(unscored), item, names, beside, score or "score", missing)

    @property
    def table(self) -> pa.Table:
        """The table of all items."""
        return self.items.table

    @property
    def query(self) -> str | None:
        """The query column."""
        return self.items.query

    def name(self, row: int) -> str | int:
        """What a row is called: its name, or its number, from 1."""
        name = None if self.names is None else self.names[row]
        return int(row) + 1 if name is None else name

    @property
    def has_unique_names(self) -> bool:
        """Whether every item has a name of its own."""
        return (
            self.names is not None
            and None not in self.names
            and len(set(self.names)) == len(self.names)
        )


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
    who : name of the column that says who answers, or None
    asked_of : the one person who is asked, None for anybody
    """

    pool: QuestionPool
    kind: str
    asked: Index
    expected: dict[str, FloatArray]
    answer: str
    margin: str | None
    can_be_answered: bool
    who: str | None
    asked_of: str | None

    @property
    def compares(self) -> bool:
        """Whether two items are compared."""
        return self.kind == QuestionKind.comparison

    @property
    def columns_to_fill(self) -> list[str]:
        """Names of the columns to fill in. Where items are compared, their table says which query
        they belong to.
        """
        missing = None if self.compares else self.pool.missing_query
        who = self.who if self.asked_of is None else None
        return [name for name in (missing, who, self.answer) if name is not None]

    def entries(self) -> list[dict[str, Any]]:
        """One entry per question, with names of items, and what the model expects."""
        entries, pool = [], self.pool
        for at, rows in enumerate(self.asked):
            entry: dict[str, Any] = {}
            if pool.query is not None:
                entry["query"] = pool.table[pool.query][int(rows[0])].as_py()
            sides = (
                {FIRST: f"{FIRST}_row", SECOND: f"{SECOND}_row"}
                if self.compares
                else {"item": "row"}
            )
            entry |= dict(zip(sides, map(pool.name, rows), strict=True))
            entry |= {side: int(row) + 1 for side, row in zip(sides.values(), rows, strict=True)}
            if not self.compares:
                entry |= {name: pool.table[name][int(rows[0])].as_py() for name in pool.beside}
            entries.append(
                entry | {name: float(values[at]) for name, values in self.expected.items()}
            )
        return entries

    def to_fill_in(self) -> pa.Table:
        """The questions with an empty column for the answers.

        What the model expects is left out: it might sway those who answer.
        """
        pool, n = self.pool, len(self.asked)
        table = pool.table.take(pa.array(self.asked[:, 0]))
        queries = {} if pool.query is None else {pool.query: table[pool.query]}
        who = {} if self.who is None else {self.who: pa.array([self.asked_of] * n, pa.string())}
        if self.compares:
            pairs = {
                side: pa.array([str(pool.name(row)) for row in rows])
                for side, rows in zip((FIRST, SECOND), self.asked.T, strict=True)
            }
            margins = {} if self.margin is None else {self.margin: pa.nulls(n, pa.float64())}
            answers = {self.answer: pa.nulls(n, pa.string()), **margins}
            return pa.table({**queries, **pairs, **answers, **who})
        to_fill = {**who, **{name: pa.nulls(n, pa.string()) for name in self.columns_to_fill}}
        to_fill[self.answer] = pa.nulls(n, pa.float64())
        if pool.item is not None and pool.has_unique_names:
            beside = {name: table[name] for name in pool.beside}
            return pa.table({pool.item: table[pool.item], **beside, **queries, **to_fill})
        others = [name for name in table.column_names if name not in (self.answer, self.who)]
        return pa.table({**to_fill, **{name: table[name] for name in others}})


def _ask(
    model: Any,
    pool: QuestionPool,
    number: int,
    kind: str | None,
    linked: dict[str, Any],
    labels: dict[str, Any],
    *,
    overall: bool,
) -> Questions:
    """The `number` most informative questions, within each query or, of scores, `overall`."""
    from corank.interpretation import predicted_scores  # slow to import

    learned = learned_from_comparisons(model)
    compares = learned if kind is None else kind == QuestionKind.comparison
    if overall and compares:
        raise ValueError("--overall is for scores: comparisons are always asked within each query")
    kind = "comparison" if compares else "score"
    features = pool.items.features
    queries = pool.items.queries
    groups = np.zeros(len(pool.rows)) if overall else queries[pool.rows]
    asked = []
    for group in np.unique(groups):
        rows = pool.rows[groups == group]
        most = len(rows) * (len(rows) - 1) // 2 if compares else len(rows)
        if most > 0:
            n_questions = min(number, most)
            if linked:
                more = linked | labels
                suggested = _suggested_over_links(model, features, rows, n_questions, kind, more)
            else:
                of_rows = labels_at(labels, rows)
                chosen = model.suggest(features[rows], n_questions, kind, **of_rows)
                suggested = rows[np.asarray(chosen)]
            asked.append(suggested.reshape(len(suggested), -1))
    if not asked:
        within = "" if pool.query is None else f" of one {pool.query!r}"
        raise TableError(f"{pool.items.file} has no two rows{within} that could be compared")
    questions = np.concatenate(asked)
    expected = {}
    if not compares:
        rows = np.arange(len(pool.table)) if linked else pool.rows
        more = linked | labels_at(labels, rows)
        scores, std = predicted_scores(model, features[rows], queries[rows], more)
        places = np.searchsorted(rows, questions[:, 0])
        expected = {"score": scores[places], **({} if std is None else {"std": std[places]})}
    elif model.has_posterior and not linked:
        first, second = (features[rows] for rows in questions.T)
        chances = model.predict_comparison(
            first, second, observed=True, **labels_of_pairs(labels, *questions.T)
        )
        expected = {"first_wins": np.asarray(chances)}
    answer, margin = (WINNER, remembered(model, "margin")) if compares else (pool.score, None)
    can_be_answered = learned == compares and (not compares or model.updates_comparisons)
    return Questions(pool, kind, questions, expected, answer, margin, can_be_answered, None, None)


def _suggested_over_links(
    model: Any,
    features: FloatArray,
    rows: Index,
    number: int,
    kind: str,
    linked: dict[str, Any],
) -> Index:
    """Questions about some of the rows of a table that links join: (number, 1) or (number, 2) row
    numbers.

    The model sees all rows, as items take after those they are linked with, and is asked for more
    questions until enough of them are about the given rows.
    """
    n = len(features)
    allowed = np.isin(np.arange(n), rows)
    most = n if kind == "score" else n * (n - 1) // 2
    n_asked = number
    while True:
        suggested = np.asarray(model.suggest(features, n_asked, kind, **linked))
        suggested = suggested.reshape(n_asked, -1)
        kept: Index = suggested[allowed[suggested].all(axis=1)][:number]
        if len(kept) == number or n_asked == most:
            return kept
        n_asked = min(2 * n_asked, most)


def _show_questions(questions: Questions, out: Path | None, per_query: int | None) -> None:
    """The questions, of which there are up to `per_query` for each query, or any number."""
    entries = questions.entries()
    pool = questions.pool
    titles = {
        "item": pool.item or "row",
        "query": pool.query or "",
        "first_wins": FIRST_WINS,
        "score": PREDICTED,
    }
    what, purpose = ("comparison", "ask for") if questions.compares else ("item", "score")
    title = f"{count(len(entries), what)} to {purpose}, "
    n_queries = len({str(entry.get("query")) for entry in entries})
    if per_query is not None and n_queries > 1:
        most = f"{per_query}" if len(entries) == per_query * n_queries else f"up to {per_query}"
        title += f"{most} for each of {count(n_queries, pool.query or 'query')}, "
    title += "the most informative first"
    shown = [name for name in entries[0] if name not in ("row", f"{FIRST}_row", f"{SECOND}_row")]
    rows: list[Any] = [
        [
            Cell(str(at), kind="soft"),
            *(
                f"{entry[name]:.0%}" if name == "first_wins" else cell(entry[name])
                for name in shown
            ),
        ]
        for at, entry in enumerate(entries[:SHOWN_QUESTIONS], start=1)
    ]
    columns = ["", *(titles.get(name, name) for name in shown)]
    remarks = (
        [f"and {len(entries) - SHOWN_QUESTIONS:,} more"] if len(entries) > SHOWN_QUESTIONS else []
    )
    if out is None:
        remarks.append("--out FILE writes them, to be answered for corank update")
    numbers = ("", FIRST_WINS, PREDICTED, "std")
    show(Table(title, rows, columns, numbers, remark="; ".join(remarks)))


def _next_steps(
    questions: Questions, model: Path, pool: Path, out: Path, links: Path | None
) -> list[Text]:
    written = Text(f"{count(len(questions.asked), 'question')} written: {out}")
    if not questions.can_be_answered:
        return [written]
    # answers name items, and do not describe them
    by_name = questions.compares or questions.pool.has_unique_names
    items = f" --items {'ITEMS' if pool == DASH else pool}" if by_name else ""
    how = " with the better of the two, or first, second or tie" if questions.compares else ""
    names = questions.columns_to_fill
    if questions.compares and len(names) > 1:  # the one before says who answered
        how += f", and {names.pop(0)!r} with who says so"
    columns = f"{'column' if len(names) == 1 else 'columns'} {' and '.join(map(repr, names))}"
    run = command(
        f"corank update {model} {out}{items}{links_option(links)} --out NEW.corank", "      "
    )
    return [written, Text(f"Next: fill in {columns}{how}, then"), run]
