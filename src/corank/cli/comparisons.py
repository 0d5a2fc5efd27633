"""Comparisons and items by their names: who beat whom, the answered questions of `corank suggest`, and tables that name
the items which another table describes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corank.tables import TableError, column, numbers, plain, read_table

WINNER, LOSER = "winner", "loser"
FIRST, SECOND = "first", "second"  # of a question
TIE = "tie"
HOW_TO_TIE = (
    "give a tie as two rows, a win for each, or with --method difference as a margin of 0; the word is understood only "
    "in the answered questions of corank suggest"
)


# ---- items by their names


class NamedItems:
    """The rows of a table by the names that one of its columns gives them."""

    def __init__(self, file: Path, name: str, table: pa.Table) -> None:
        self.file, self.name = file, name
        self.labels = labels(table, name, "item", file)
        self._rows: dict[str, int] = {}
        for row, label in enumerate(self.labels):
            if label is None:
                raise TableError(f"column {name!r} of {file} has no value in data row {row + 1}: every item needs one")
            if self._rows.setdefault(label, row) != row:
                raise TableError(
                    f"{label!r} stands in data rows {self._rows[label] + 1} and {row + 1} of {file}: "
                    f"every item needs a name of its own in column {name!r}"
                )

    def __contains__(self, label: str) -> bool:
        return label in self._rows

    def rows_of(self, wanted: Sequence[str | None], file: Path, name: str) -> NDArray[np.int64]:
        """The rows that the column `name` of another file means: (n,)."""
        rows = np.array([self._rows.get(label or "", -1) for label in wanted], dtype=np.int64)
        if (rows < 0).any():
            at = int(np.argmax(rows < 0))
            label = wanted[at]
            if label is None:
                raise TableError(f"column {name!r} of {file} has no value in data row {at + 1}")
            remedy = f": {HOW_TO_TIE}" if label.lower() == TIE else ""
            raise TableError(
                f"{label!r} in data row {at + 1} of {file} is no item of {self.file}, by column {self.name!r}{remedy}"
            )
        return rows


def joined(answers: pa.Table, file: Path, items_file: Path, item: str, text: Iterable[str]) -> pa.Table:
    """Answers with the columns of the items they name; where both have a column, that of the answers.

    `text`: columns of the items that stay text.
    """
    table = read_table(items_file, text=[*text, item])
    rows = NamedItems(items_file, item, table).rows_of(labels(answers, item, "item", file), file, item)
    columns: dict[str, Any] = {}
    for source in (table.take(pa.array(rows)), answers):
        columns |= zip(source.column_names, source.columns, strict=True)
    return pa.table(columns)


def labels(table: pa.Table, name: str, role: str, file: Path) -> list[str | None]:
    """The names in a column as text, None where there is none; 7, 7.0 and "7" are one name."""
    values = plain(column(table, name, role))
    if pa.types.is_nested(values.type):
        raise TableError(f"column {name!r} of {file} holds {values.type} values: names must be text or numbers")
    return [_label(value) for value in values.to_pylist()]


def _label(value: Any) -> str | None:
    if value is None or value != value:  # noqa: PLR0124
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


# ---- tables of comparisons


@dataclass(frozen=True)
class PairColumns:
    """Names of the columns of a table of comparisons, None where they are not given."""

    winner: str | None = None
    loser: str | None = None
    margin: str | None = None
    count: str | None = None

    @classmethod
    def remembered(cls, model: Any) -> PairColumns:
        """The names that a model remembers from its fit."""
        table = model.table_ or {}
        return cls(*(table.get(role) for role in ("winner", "loser", "margin", "count")))

    def completed(self, table: pa.Table, remembered: PairColumns, *, to_learn: bool) -> PairColumns:
        """Names for this table, by default those remembered from before.

        `loser` is None for questions; so is `winner` where no question has an answer, which is refused where there must
        be answers `to_learn` from.
        """
        there = set(table.column_names)
        loser, winner = remembered.loser or LOSER, self.winner or WINNER
        could_ask = {FIRST, SECOND} <= there and (loser not in there or loser in (FIRST, SECOND))
        asks = self.loser is None and could_ask
        answered = asks and winner in there
        unanswered = asks and not answered and not to_learn
        unanswered = unanswered and self.winner is None and remembered.winner not in there
        margin = remembered.margin if to_learn or remembered.margin in there else None
        count = remembered.count if remembered.count in there else None
        return PairColumns(
            None if unanswered else self.winner or (WINNER if answered else remembered.winner or WINNER),
            None if answered or unanswered else self.loser or loser,
            self.margin or margin,
            self.count or count,
        )


UNNAMED = PairColumns()


@dataclass(frozen=True)
class ReadPairs:
    """Comparisons of the rows of a table of items.

    Attributes
    ----------
    winners, losers : (p,) rows
    margins : (p,) by how much, or None
    counts : (p,) how often, or None
    questions : how many questions were answered and not, and how many of the answers are ties; None where the table
        says who beat whom
    """

    winners: NDArray[np.int64]
    losers: NDArray[np.int64]
    margins: NDArray[np.float64] | None = None
    counts: NDArray[np.float64] | None = None
    questions: dict[str, int] | None = None

    @property
    def number(self) -> int:
        """How many comparisons were made."""
        return len(self.winners) if self.counts is None else int(self.counts.sum())

    @property
    def n_items(self) -> int:
        """How many items were compared."""
        return len(np.unique(np.concatenate([self.winners, self.losers])))

    def arguments(self) -> dict[str, Any]:
        """What a learner's `fit_comparisons` and `update_comparisons` take beside the items."""
        optional = {"margins": self.margins, "weights": self.counts}
        given = {name: values for name, values in optional.items() if values is not None}
        return {"winners": self.winners, "losers": self.losers, **given}


@dataclass(frozen=True)
class Outcomes:
    """A table of comparisons as it stands, row by row.

    Attributes
    ----------
    names : what its columns are called
    first, second : (n_rows,) rows of the items; the winners and losers where the table says who beat whom
    won : (n_rows,) 1 where the first has won, 0 where the second, 0.5 for a tie, NaN where not answered
    margins, counts : (n_rows,) as they stand, or None
    """

    file: Path
    table: pa.Table
    names: PairColumns
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    won: NDArray[np.float64]
    margins: NDArray[np.float64] | None
    counts: NDArray[np.float64] | None

    @property
    def are_questions(self) -> bool:
        """Whether the table asks which of two is better, rather than saying who beat whom."""
        return self.names.loser is None

    @property
    def sides(self) -> tuple[str, str]:
        """Names of the two columns that name items."""
        return _sides(self.names)

    @property
    def answered(self) -> NDArray[np.int64]:
        """The rows with an answer."""
        return np.flatnonzero(~np.isnan(self.won))

    def counts_of(self, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """How often the comparisons of these rows were made, checked; None where the table does not say."""
        if self.counts is None:
            return None
        counts = self.counts[rows]
        whole = (counts >= 1) & (counts == np.round(counts))
        demand = f"column {self.names.count!r} must hold whole numbers from 1, how often it was so"
        _check(whole, rows, self.file, demand)
        return counts


def _sides(names: PairColumns) -> tuple[str, str]:
    return (FIRST, SECOND) if names.loser is None else (names.winner or WINNER, names.loser)


def read_outcomes(
    file: Path,
    items: NamedItems,
    given: PairColumns,
    remembered: PairColumns = UNNAMED,
    *,
    query: tuple[str, NDArray[np.int64]] | None = None,
    to_learn: bool = True,
) -> Outcomes:
    """Read comparisons, with or without answers.

    Parameters
    ----------
    file : path of a table
    items : what is compared
    given, remembered : names of its columns, as given now and before; `winner` and `loser` by default
    query : name of the query column and (n_items,) the query of each item, which must be the same for both, or None
    to_learn : whether there must be answers
    """
    named = [name for columns in (given, remembered) for name in (columns.winner, columns.loser) if name]
    table = read_table(file, text=[FIRST, SECOND, WINNER, LOSER, *named])
    names = given.completed(table, remembered, to_learn=to_learn)
    sides, asks = _sides(names), names.loser is None
    roles = ("item", "item") if asks else ("winner", "loser")
    left, right = (labels(table, side, role, file) for side, role in zip(sides, roles, strict=True))
    first, second = items.rows_of(left, file, sides[0]), items.rows_of(right, file, sides[1])
    won = np.full(len(table), np.nan if asks else 1.0)
    if asks and names.winner is not None:
        answers = labels(table, names.winner, "winner", file)
        won = _read_answers(answers, left, right, items, file, names.winner)
    if to_learn and np.isnan(won).all():
        raise TableError(f"no question of {file} has an answer: fill in column {names.winner!r}")
    if (first == second).any():
        at = int(np.argmax(first == second))
        raise TableError(f"data row {at + 1} of {file} compares {items.labels[first[at]]!r} with itself")
    if query is not None:
        _check_queries(file, items, first, second, *query)
    margins = None if names.margin is None else numbers(column(table, names.margin, "margin"), names.margin)
    counts = None if names.count is None else numbers(column(table, names.count, "count"), names.count)
    return Outcomes(file, table, names, first, second, won, margins, counts)


def read_pairs(
    file: Path,
    items: NamedItems,
    given: PairColumns,
    remembered: PairColumns = UNNAMED,
    *,
    with_margins: bool,
    query: tuple[str, NDArray[np.int64]] | None = None,
) -> ReadPairs:
    """Read comparisons to learn from and check each; questions without an answer are left out.

    Parameters
    ----------
    file, items, given, remembered, query : as in `read_outcomes`
    with_margins : whether a tie can be said as a margin of 0; else it is a win for both
    """
    outcomes = read_outcomes(file, items, given, remembered, query=query)
    rows = outcomes.answered
    won, first, second = outcomes.won[rows], outcomes.first[rows], outcomes.second[rows]
    tied = won == 0.5
    winners, losers = np.where(won == 0, second, first), np.where(won == 0, first, second)
    margins = outcomes.margins
    if with_margins and (margins is not None or tied.any()):
        margins = np.where(tied, 0.0, 1.0 if margins is None else margins[rows])
        demand = f"column {outcomes.names.margin!r} must hold 0 or more, by how much the winner won"
        _check(margins >= 0, rows, file, demand)
        if not margins.any():
            raise TableError(f"all comparisons of {file} are ties: there is nothing to learn")
    counts = outcomes.counts_of(rows)
    questions = None
    if outcomes.are_questions:
        questions = {"answers": len(rows), "ties": int(tied.sum()), "unanswered": len(outcomes.won) - len(rows)}
    if tied.any() and not with_margins:
        winners, losers = np.concatenate([winners, losers[tied]]), np.concatenate([losers, winners[tied]])
        counts = None if counts is None else np.concatenate([counts, counts[tied]])
    return ReadPairs(winners, losers, margins, counts, questions)


def _read_answers(
    answers: Sequence[str | None],
    first: Sequence[str | None],
    second: Sequence[str | None],
    items: NamedItems,
    file: Path,
    name: str,
) -> NDArray[np.float64]:
    """Who has won, as in `Outcomes`. Names of items come before the words first, second and tie."""
    won = np.full(len(answers), np.nan)
    for row, (answer, left, right) in enumerate(zip(answers, first, second, strict=True)):
        if answer is None:
            continue
        value = {left: 1.0, right: 0.0}.get(answer)
        if value is None and answer not in items:
            value = {FIRST: 1.0, SECOND: 0.0, TIE: 0.5}.get(answer.lower())
        if value is None:
            raise TableError(
                f"data row {row + 1} of {file}: column {name!r} must say which of the two has won, {left!r} or {right!r} "
                f"(or {TIE!r}), but says {answer!r}; empty = not answered"
            )
        won[row] = value
    return won


def _check_queries(file: Path, items: NamedItems, first: Any, second: Any, name: str, queries: Any) -> None:
    apart = queries[first] != queries[second]
    if apart.any():
        at = int(np.argmax(apart))
        labels_of_pair = f"{items.labels[first[at]]!r} with {items.labels[second[at]]!r}"
        raise TableError(f"data row {at + 1} of {file} compares {labels_of_pair}, which differ in {name!r}")


def _check(sound: NDArray[np.bool_], rows: NDArray[np.int64], file: Path, demand: str) -> None:
    if not sound.all():
        raise TableError(f"data row {rows[int(np.argmin(sound))] + 1} of {file}: {demand}")
