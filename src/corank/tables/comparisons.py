"""Tables of comparisons: who beat whom, or which of two is better, as rows of a table of items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from corank.core.arrays import FloatArray, Index, Mask, take
from corank.tables.columns import TableError, column, numbers, plain
from corank.tables.names import TIE, NamedItems, names_in
from corank.tables.read import TableFile

WINNER, LOSER = "winner", "loser"
FIRST, SECOND = "first", "second"  # of a question


@dataclass(frozen=True)
class PairColumns:
    """Names of the columns of a table of comparisons, None where they are not given."""

    winner: str | None = None
    loser: str | None = None
    margin: str | None = None
    count: str | None = None

    @property
    def first_given(self) -> str | None:
        """Which of them is given, if any."""
        return next((role for role, name in vars(self).items() if name is not None), None)

    @property
    def sides(self) -> tuple[str, str]:
        """The two columns that name items; without a loser, these are asked about."""
        return (FIRST, SECOND) if self.loser is None else (self.winner or WINNER, self.loser)

    @classmethod
    def remembered(cls, model: Any) -> PairColumns:
        """The names that a model remembers from its fit."""
        table = model.table_ or {}
        return cls(*(table.get(role) for role in ("winner", "loser", "margin", "count")))

    def among(self, there: Sequence[str]) -> PairColumns:
        """The names that one of several tables has: of each role the first of those given with
        commas between.
        """
        names = (
            [] if value is None else [value, *map(str.strip, value.split(","))]
            for value in vars(self).values()
        )
        return PairColumns(
            *(next((name for name in given if name in there), None) for given in names)
        )

    def completed(self, table: pa.Table, remembered: PairColumns, *, to_learn: bool) -> PairColumns:
        """Names for this table, by default those remembered from before.

        `loser` is None for questions; so is `winner` where no question has an answer, which is
        refused where there must be answers `to_learn` from.
        """
        there = set(table.column_names)
        margin = remembered.margin if to_learn or remembered.margin in there else None
        count = remembered.count if remembered.count in there else None
        optional = self.margin or margin, self.count or count
        winner = self.winner or WINNER
        loser = remembered.loser or LOSER
        names_losers = loser in there and loser not in (FIRST, SECOND)
        asks = self.loser is None and {FIRST, SECOND} <= there and not names_losers
        if asks and winner in there:
            return PairColumns(winner, None, *optional)
        needs_winner = to_learn or self.winner is not None or remembered.winner in there
        if asks and not needs_winner:
            return PairColumns(None, None, *optional)
        winner = self.winner or remembered.winner or WINNER
        return PairColumns(winner, self.loser or loser, *optional)


UNNAMED = PairColumns()


@dataclass(frozen=True)
class ReadPairs:
    """Comparisons of the rows of a table of items.

    Attributes
    ----------
    winners, losers : (p,) rows
    margins : (p,) by how much, or None
    counts : (p,) how often, or None
    questions : how many questions were answered, how many of the answers are ties, and how many
        questions were left out, by why; None where the table says who beat whom
    more : (p,) each, by names of arguments of `fit_comparisons`: who made a comparison (`person`),
        whether the winner was shown `first`, and what is held out together (`groups`), if known
    """

    winners: Index
    losers: Index
    margins: FloatArray | None
    counts: FloatArray | None = None
    questions: dict[str, int] | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """How many comparisons were made."""
        return len(self.winners) if self.counts is None else int(self.counts.sum())

    @property
    def n_items(self) -> int:
        """How many items were compared."""
        return len(np.unique(np.concatenate([self.winners, self.losers])))

    def only(self, chosen: Mask) -> ReadPairs:
        """Some of the comparisons."""
        margins = take(self.margins, chosen)
        counts = take(self.counts, chosen)
        winners = self.winners[chosen]
        losers = self.losers[chosen]
        more = {name: np.asarray(values)[chosen] for name, values in self.more.items()}
        return ReadPairs(winners, losers, margins, counts, self.questions, more)

    @classmethod
    def joined(cls, tables: Sequence[ReadPairs]) -> ReadPairs:
        """The comparisons of several tables; a win is by 1, and once, where a table does not say it
        and others do.
        """
        if len(tables) == 1:
            return tables[0]
        columns: list[Any] = []
        for name in ("winners", "losers", "margins", "counts"):
            values = [getattr(table, name) for table in tables]
            if all(one is None for one in values):
                columns.append(None)
                continue
            parts = [
                np.ones(len(table.winners)) if one is None else one
                for table, one in zip(tables, values, strict=True)
            ]
            columns.append(np.concatenate(parts))
        names = set.intersection(*(set(table.more) for table in tables))
        more = {
            name: np.concatenate([np.asarray(table.more[name]) for table in tables])
            for name in names
        }
        winners, losers, margins, counts = columns
        return cls(winners, losers, margins, counts, more=more)

    def arguments(self) -> dict[str, Any]:
        """What a learner's `fit_comparisons` and `update_comparisons` take beside the items."""
        columns = {
            "winners": self.winners,
            "losers": self.losers,
            "margins": self.margins,
            "weights": self.counts,
        }
        return {name: values for name, values in columns.items() if values is not None}


@dataclass(frozen=True)
class Outcomes:
    """A table of comparisons as it stands, row by row.

    Attributes
    ----------
    names : what its columns are called
    first, second : (n_rows,) rows of the items; the winners and losers where the table says who
        beat whom
    won : (n_rows,) 1 where the first has won, 0 where the second, 0.5 for a tie, NaN where not
        answered
    margins, counts : (n_rows,) as they stand, or None
    questions : of a file of answers as in `ReadPairs`, else None
    persons : (n_rows,) who answered; empty where that is not asked for
    """

    file: TableFile
    table: pa.Table
    names: PairColumns
    first: Index
    second: Index
    won: FloatArray
    margins: FloatArray | None = None
    counts: FloatArray | None = None
    questions: dict[str, int] | None = None
    persons: Sequence[Any] = ()

    @property
    def answered(self) -> Index:
        """The rows with an answer."""
        return np.flatnonzero(~np.isnan(self.won))

    def counts_of(self, rows: Index) -> FloatArray | None:
        """How often the comparisons of these rows were made, checked; None where the table does not
        say.
        """
        if self.counts is None:
            return None
        counts = self.counts[rows]
        demand = (
            f"column {self.names.count!r} must hold whole numbers from 1: how often the comparison"
            " was made"
        )
        self._check((counts >= 1) & (counts == np.round(counts)), rows, demand)
        return counts

    def pairs_of(self, rows: Index) -> ReadPairs:
        """Who has won in some rows that have an answer, as they stand: of a tie the first."""
        lost = self.won[rows] == 0
        first = self.first[rows]
        second = self.second[rows]
        winners = np.where(lost, second, first)
        losers = np.where(lost, first, second)
        margins = take(self.margins, rows)
        more: dict[str, Any] = {}
        if self.persons:
            more["person"] = np.array(self.persons, dtype=object)[rows]
            if self.names.loser is None:
                more["first"] = ~lost
        return ReadPairs(winners, losers, margins, take(self.counts, rows), more=more)

    def to_learn(self, *, with_margins: bool) -> ReadPairs:
        """What a model learns from, checked; questions without an answer are left out.

        `with_margins`: whether a tie can be said as a margin of 0, as it must where persons are
        known; else it is a win for both.
        """
        rows = self.answered
        pairs = self.pairs_of(rows)
        tied = self.won[rows] == 0.5
        counts = self.counts_of(rows)
        winners = pairs.winners
        losers = pairs.losers
        margins = pairs.margins
        if with_margins and (margins is not None or tied.any()):
            margins = np.where(tied, 0.0, 1.0 if margins is None else margins)
            demand = (
                f"column {self.names.margin!r} must hold numbers from 0: by how much the winner won"
            )
            self._check(margins >= 0, rows, demand)
            if not margins.any():
                raise TableError(
                    f"all comparisons of {self.file} are ties: there is nothing to learn"
                )
        elif tied.any():
            other_way = losers[tied], winners[tied]
            winners = np.concatenate([winners, other_way[0]])
            losers = np.concatenate([losers, other_way[1]])
            counts = None if counts is None else np.concatenate([counts, counts[tied]])
        questions = self.questions
        if questions is None and self.names.loser is None:
            questions = {
                "answers": len(rows),
                "ties": int(tied.sum()),
                "unanswered": len(self.won) - len(rows),
            }
        return ReadPairs(winners, losers, margins, counts, questions, pairs.more)

    def _check(self, sound: Mask, rows: Index, demand: str) -> None:
        if not sound.all():
            row = rows[int(np.argmin(sound))]
            raise TableError(f"data row {row + 1} of {self.file}: {demand}")


def read_comparisons(
    file: TableFile,
    items: NamedItems,
    given: PairColumns = UNNAMED,
    remembered: PairColumns = UNNAMED,
    *,
    person: str | None = None,
    to_learn: bool = True,
) -> Outcomes:
    """Read comparisons, with or without answers.

    Parameters
    ----------
    items : what is compared
    given, remembered : names of its columns, as given now and before; `winner` and `loser` by
        default
    person : name of the column that says who answered, or None
    to_learn : whether there must be answers
    """
    named = [
        name for columns in (given, remembered) for name in (columns.winner, columns.loser) if name
    ]
    table = file.read([FIRST, SECOND, WINNER, LOSER, *named, *([person] if person else [])])
    names = given.completed(table, remembered, to_learn=to_learn)
    asks = names.loser is None
    roles = ("item", "item") if asks else ("winner", "loser")
    left, right = (
        names_in(table, side, role, file) for side, role in zip(names.sides, roles, strict=True)
    )
    first, second = items.pairs_of((left, right), file, names.sides)
    won = np.full(len(table), np.nan if asks else 1.0)
    if asks and names.winner is not None:
        answers = names_in(table, names.winner, "winner", file)
        won = _read_answers(answers, left, right, items, file, names.winner)
    if to_learn and np.isnan(won).all():
        raise TableError(f"no question of {file} has an answer: fill in column {names.winner!r}")
    margins, counts = (
        None if name is None else numbers(column(table, name, role), name)
        for role, name in (("margin", names.margin), ("count", names.count))
    )
    persons = [] if person is None else plain(column(table, person, "person")).to_pylist()
    return Outcomes(file, table, names, first, second, won, margins, counts, persons=persons)


def _read_answers(
    answers: Sequence[str | None],
    first: Sequence[str | None],
    second: Sequence[str | None],
    items: NamedItems,
    file: TableFile,
    name: str,
) -> FloatArray:
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
                f"data row {row + 1} of {file}: column {name!r} must name the winner, {left!r},"
                f" {right!r} or {TIE!r}, but has {answer!r}; leave it empty without an answer"
            )
        won[row] = value
    return won
