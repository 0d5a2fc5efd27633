"""Questions about the items of a table: which to ask, how they are shown, and the file in which they are answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corank.cli.columns import features_of, queries_of, ranked, text_columns
from corank.cli.console import note
from corank.cli.evidence import is_compared
from corank.cli.items import labels
from corank.cli.pairs import FIRST, SECOND, WINNER
from corank.tables import TableError, column, read_table, score_column

COMPARISON = "comparison"


@dataclass(frozen=True)
class Pool:
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
    def read(cls, file: Path, model: Any, query: str | None, item: str | None) -> Pool:
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

    pool: Pool
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


def ask(model: Any, pool: Pool, number: int, kind: str | None, *, overall: bool = False) -> Questions:
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
