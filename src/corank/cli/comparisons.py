"""Items by their names: which row of a table is meant, and answers joined with the items they name.

Comparisons from a table: who beat whom, or the answered questions of `corank suggest`.
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

TIE = "tie"
HOW_TO_TIE = (
    "give a tie as two rows, a win for each, or with --method difference as a margin of 0; the word is understood only "
    "in the answered questions of corank suggest"
)


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
        found = np.array([self._rows.get(label or "", -1) for label in wanted], dtype=np.int64)
        if (found < 0).any():
            row = int(np.argmax(found < 0))
            label = wanted[row]
            if label is None:
                raise TableError(f"column {name!r} of {file} has no value in data row {row + 1}")
            more = f": {HOW_TO_TIE}" if label.lower() == TIE else ""
            where = f"{self.file}, by column {self.name!r}"
            raise TableError(f"{label!r} in data row {row + 1} of {file} is no item of {where}{more}")
        return found


def joined(answers: pa.Table, file: Path, items_file: Path, item: str, text: Iterable[str]) -> pa.Table:
    """Answers with the columns of the items they name; where both have a column, that of the answers.

    `text`: columns of the items that stay text.
    """
    table = read_table(items_file, text=[*text, item])
    rows = NamedItems(items_file, item, table).rows_of(labels(answers, item, "item", file), file, item)
    both = [*zip(table.column_names, table.take(pa.array(rows)).columns, strict=True)]
    return pa.table(dict([*both, *zip(answers.column_names, answers.columns, strict=True)]))


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


WINNER, LOSER = "winner", "loser"
FIRST, SECOND = "first", "second"  # of a question


@dataclass(frozen=True)
class PairColumns:
    """Names of the columns of a table of comparisons, None where nobody says."""

    winner: str | None = None
    loser: str | None = None
    margin: str | None = None
    count: str | None = None

    def completed(self, table: pa.Table, remembered: PairColumns, *, to_learn: bool) -> PairColumns:
        """With names as they were before where nobody says; `loser` is None for questions, `winner` too where none has
        an answer, which is refused where there is something `to_learn`.
        """
        there = set(table.column_names)
        loser, winner = remembered.loser or LOSER, self.winner or WINNER
        questions = {FIRST, SECOND} <= there and (loser not in there or loser in (FIRST, SECOND))
        asked = self.loser is None and questions and winner in there
        open_ = self.loser is None and questions and not to_learn and self.winner is None
        open_ = open_ and not asked and remembered.winner not in there
        margin = remembered.margin if to_learn or remembered.margin in there else None
        return PairColumns(
            None if open_ else self.winner or (WINNER if asked else remembered.winner or WINNER),
            None if asked or open_ else self.loser or loser,
            self.margin or margin,
            self.count or (remembered.count if remembered.count in there else None),
        )


NOTHING = PairColumns()


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

    def given(self) -> dict[str, Any]:
        """What a learner's `fit_comparisons` and `update_comparisons` take beside the items."""
        more = {"margins": self.margins, "weights": self.counts}
        own = {name: value for name, value in more.items() if value is not None}
        return {"winners": self.winners, "losers": self.losers, **own}


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
        """Whether it asks which of two is better, rather than saying who beat whom."""
        return self.names.loser is None

    @property
    def rows(self) -> NDArray[np.int64]:
        """The rows with an answer."""
        return np.flatnonzero(~np.isnan(self.won))

    def times(self, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """How often each of some comparisons was made, checked; None where the table does not say."""
        if self.counts is None:
            return None
        counts = self.counts[rows]
        whole = (counts >= 1) & (counts == np.round(counts))
        demand = f"column {self.names.count!r} must hold whole numbers from 1, how often it was so"
        _check(whole, rows, self.file, demand)
        return counts


def read_outcomes(
    file: Path,
    items: NamedItems,
    told: PairColumns,
    remembered: PairColumns = NOTHING,
    *,
    query: tuple[str, NDArray[np.int64]] | None = None,
    to_learn: bool = True,
) -> Outcomes:
    """Read comparisons, with or without answers.

    Parameters
    ----------
    file : path of a table
    items : what is compared
    told, remembered : its columns by name, as told now and before; `winner` and `loser` by default
    query : name of the query column and (n_items,) the query of each item, which must be the same for both, or None
    to_learn : whether there must be answers
    """
    ends = [name for one in (told, remembered) for name in (one.winner, one.loser) if name]
    table = read_table(file, text=[FIRST, SECOND, WINNER, LOSER, *ends])
    names = told.completed(table, remembered, to_learn=to_learn)
    sides = (FIRST, SECOND) if names.loser is None else (names.winner or WINNER, names.loser)
    roles = ("item", "item") if names.loser is None else ("winner", "loser")
    said = [labels(table, side, role, file) for side, role in zip(sides, roles, strict=True)]
    first, second = (items.rows_of(each, file, side) for each, side in zip(said, sides, strict=True))
    won = np.ones(len(table)) if names.loser is not None else np.full(len(table), np.nan)
    if names.loser is None and names.winner is not None:
        answers = labels(table, names.winner, "winner", file)
        won = _answers(answers, said[0], said[1], items, file, names.winner)
    if to_learn and np.isnan(won).all():
        raise TableError(f"no question of {file} has an answer: fill in column {names.winner!r}")
    if (first == second).any():
        at = int(np.argmax(first == second))
        raise TableError(f"data row {at + 1} of {file} compares {items.labels[first[at]]!r} with itself")
    if query is not None:
        _check_queries(file, items, first, second, *query)
    margins = None if names.margin is None else _numbers(table, names.margin, "margin")
    counts = None if names.count is None else _numbers(table, names.count, "count")
    return Outcomes(file, table, names, first, second, won, margins, counts)


def read_pairs(
    file: Path,
    items: NamedItems,
    told: PairColumns,
    remembered: PairColumns = NOTHING,
    *,
    with_margins: bool,
    query: tuple[str, NDArray[np.int64]] | None = None,
) -> ReadPairs:
    """Read comparisons to learn from and check each; questions without an answer are left out.

    Parameters
    ----------
    file, items, told, remembered, query : as in `read_outcomes`
    with_margins : whether a tie can be said as a margin of 0; else it is a win for both
    """
    found = read_outcomes(file, items, told, remembered, query=query)
    rows = found.rows
    tied, lost = found.won[rows] == 0.5, found.won[rows] == 0
    winners, losers = (
        np.where(lost, one[rows], other[rows])
        for one, other in ((found.second, found.first), (found.first, found.second))
    )
    margins = found.margins
    if with_margins and (margins is not None or tied.any()):
        margins = np.where(tied, 0.0, 1.0 if margins is None else margins[rows])
        demand = f"column {found.names.margin!r} must hold 0 or more, by how much the winner won"
        _check(margins >= 0, rows, file, demand)
        if not margins.any():
            raise TableError(f"all comparisons of {file} are ties: there is nothing to learn")
    counts = found.times(rows)
    questions = None
    if found.are_questions:
        questions = {"answers": len(rows), "ties": int(tied.sum()), "unanswered": len(found.won) - len(rows)}
    if tied.any() and not with_margins:
        winners, losers = np.concatenate([winners, losers[tied]]), np.concatenate([losers, winners[tied]])
        counts = None if counts is None else np.concatenate([counts, counts[tied]])
    return ReadPairs(winners, losers, margins, counts, questions)


def _numbers(table: pa.Table, name: str, role: str) -> NDArray[np.float64]:
    return numbers(column(table, name, role), name)


def _answers(
    answers: Sequence[str | None],
    first: Sequence[str | None],
    second: Sequence[str | None],
    items: NamedItems,
    file: Path,
    name: str,
) -> NDArray[np.float64]:
    """Who has won, as in `Outcomes`."""
    won = np.full(len(answers), np.nan)
    for row, (answer, one, other) in enumerate(zip(answers, first, second, strict=True)):
        if answer is None:
            continue
        outcome = _outcome(answer, one, other, items)
        if outcome is None:
            raise TableError(
                f"data row {row + 1} of {file}: column {name!r} must say which of the two has won, {one!r} or {other!r} (or "
                f"{TIE!r}), but says {answer!r}; empty = not answered"
            )
        won[row] = {FIRST: 1.0, SECOND: 0.0, TIE: 0.5}[outcome]
    return won


def _outcome(answer: str, first: str | None, second: str | None, items: NamedItems) -> str | None:
    """FIRST, SECOND or TIE, None where an answer is none of them. Names of items come before those words."""
    if answer in (first, second):
        return FIRST if answer == first else SECOND
    word = answer.lower()
    return word if word in (FIRST, SECOND, TIE) and answer not in items else None


def _check_queries(file: Path, items: NamedItems, first: Any, second: Any, name: str, codes: Any) -> None:
    apart = codes[first] != codes[second]
    if apart.any():
        at = int(np.argmax(apart))
        two = f"{items.labels[first[at]]!r} with {items.labels[second[at]]!r}"
        raise TableError(f"data row {at + 1} of {file} compares {two}, which differ in {name!r}")


def _check(sound: NDArray[np.bool_], rows: Sequence[int] | NDArray[np.int64], file: Path, demand: str) -> None:
    if not sound.all():
        raise TableError(f"data row {rows[int(np.argmin(sound))] + 1} of {file}: {demand}")
