"""Comparisons and items by their names: who beat whom, the answered questions of `corank suggest`,
files of answers, and tables that name the items which another table describes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from corank.cli.console import note
from corank.core.arrays import FloatArray, Index, Mask, take
from corank.core.messages import count
from corank.encode.kinds import rows_by_name
from corank.interview.answers import (
    COLUMNS,
    SCORE,
    SKIP,
    TIE,
    AnswerLog,
    is_answers_file,
    mean_scores,
    pair_outcomes,
    read_answers,
    running_scores,
)
from corank.tables import TableError, TableFile, column, numbers, plain

WINNER, LOSER = "winner", "loser"
FIRST, SECOND = "first", "second"  # of a question
HOW_TO_TIE = (
    "write a tie as two rows, a win for each, or with --method difference as a margin of 0; the"
    " word tie is understood only in answered questions of corank suggest"
)
# questions → in words
LEFT_OUT = {"unanswered": "not answered", "skipped": "skipped", "undone": "taken back"}


# ---- items by their names


class NamedItems:
    """The rows of a table by the names that one of its columns gives them.

    `query` : the name of the query column and (n_rows,) the query of each row, where only items of
    one query are compared; or None
    """

    def __init__(
        self, file: TableFile, name: str, table: pa.Table, query: tuple[str, Index] | None = None
    ) -> None:
        self.file, self.name, self.query = file, name, query
        self.labels = labels(table, name, "item", file)
        self._rows = rows_by_name(self.labels, name, f" of {file}")

    def __contains__(self, label: str) -> bool:
        return label in self._rows

    def rows_of(self, wanted: Sequence[str | None], file: TableFile, name: str) -> Index:
        """The rows that the column `name` of another file means: (n,)."""
        rows = np.array([self._rows.get(label or "", -1) for label in wanted], dtype=np.int64)
        if (rows < 0).any():
            at = int(np.argmax(rows < 0))
            label = wanted[at]
            if label is None:
                raise TableError(f"column {name!r} of {file} has no value in data row {at + 1}")
            remedy = f": {HOW_TO_TIE}" if label.lower() == TIE else ""
            raise TableError(
                f"{label!r} in {_place(file, at)} is not in column {self.name!r} of"
                f" {self.file}{remedy}"
            )
        return rows

    def pairs_of(
        self, labels: Sequence[Sequence[str | None]], file: TableFile, names: tuple[str, str]
    ) -> tuple[Index, Index]:
        """The rows that two columns of another file mean, of different items of one query."""
        first, second = (
            self.rows_of(wanted, file, name) for wanted, name in zip(labels, names, strict=True)
        )
        if (first == second).any():
            at = int(np.argmax(first == second))
            raise TableError(
                f"data row {at + 1} of {file} compares {self.labels[first[at]]!r} with itself"
            )
        if self.query is None:
            return first, second
        query, queries = self.query
        apart = queries[first] != queries[second]
        if apart.any():
            at = int(np.argmax(apart))
            pair = f"{self.labels[first[at]]!r} with {self.labels[second[at]]!r}"
            raise TableError(
                f"{_place(file, at)} compares {pair}, which differ in the query column {query!r}"
            )
        return first, second


def _place(file: TableFile, row: int) -> str:
    """Where a row of comparisons or scores stands; a file of answers has other lines too, so its
    rows have no number.
    """
    return f"an answer of {file}" if is_answers_file(file) else f"data row {row + 1} of {file}"


def labels(table: pa.Table, name: str, role: str, file: TableFile) -> list[str | None]:
    """The names in a column as text, None where there is none; 7, 7.0 and "7" are one name."""
    values = plain(column(table, name, role))
    if pa.types.is_nested(values.type):
        raise TableError(
            f"column {name!r} of {file} holds {values.type} values: names must be text or numbers"
        )
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

    def in_file(self, file: TableFile) -> PairColumns:
        """The names that one of several files has: of each role the first of those given with
        commas between.
        """
        there = () if is_answers_file(file) else column_names_of(file)
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
        winner, loser = self.winner or WINNER, remembered.loser or LOSER
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
    questions : how many questions were answered and how many of the answers are ties, how many were
        left out (keys of `LEFT_OUT`) and, of a file of answers, how many lines are broken; None
        where the table says who beat whom
    """

    winners: Index
    losers: Index
    margins: FloatArray | None
    counts: FloatArray | None = None
    questions: dict[str, int] | None = None

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
        margins, counts = take(self.margins, chosen), take(self.counts, chosen)
        winners, losers = self.winners[chosen], self.losers[chosen]
        return ReadPairs(winners, losers, margins, counts, self.questions)

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
        return cls(*columns)

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
        first, second = self.first[rows], self.second[rows]
        winners, losers = np.where(lost, second, first), np.where(lost, first, second)
        return ReadPairs(winners, losers, take(self.margins, rows), take(self.counts, rows))

    def to_learn(self, *, with_margins: bool) -> ReadPairs:
        """What a model learns from, checked; questions without an answer are left out.

        `with_margins`: whether a tie can be said as a margin of 0; else it is a win for both.
        """
        rows = self.answered
        pairs, tied, counts = self.pairs_of(rows), self.won[rows] == 0.5, self.counts_of(rows)
        winners, losers, margins = pairs.winners, pairs.losers, pairs.margins
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
        return ReadPairs(winners, losers, margins, counts, questions)

    def _check(self, sound: Mask, rows: Index, demand: str) -> None:
        if not sound.all():
            row = rows[int(np.argmin(sound))]
            raise TableError(f"data row {row + 1} of {self.file}: {demand}")


def read_outcomes(
    file: TableFile,
    items: NamedItems,
    given: PairColumns = UNNAMED,
    remembered: PairColumns = UNNAMED,
    *,
    to_learn: bool = True,
) -> Outcomes:
    """Read comparisons, with or without answers.

    Parameters
    ----------
    file : a table, or a file of answers
    items : what is compared
    given, remembered : names of its columns, as given now and before; `winner` and `loser` by
        default
    to_learn : whether there must be answers
    """
    if is_answers_file(file):
        return _outcomes_of_answers(file, items, given)
    named = [
        name for columns in (given, remembered) for name in (columns.winner, columns.loser) if name
    ]
    table = file.read([FIRST, SECOND, WINNER, LOSER, *named])
    names = given.completed(table, remembered, to_learn=to_learn)
    asks = names.loser is None
    roles = ("item", "item") if asks else ("winner", "loser")
    left, right = (
        labels(table, side, role, file) for side, role in zip(names.sides, roles, strict=True)
    )
    first, second = items.pairs_of((left, right), file, names.sides)
    won = np.full(len(table), np.nan if asks else 1.0)
    if asks and names.winner is not None:
        answers = labels(table, names.winner, "winner", file)
        won = _read_answers(answers, left, right, items, file, names.winner)
    if to_learn and np.isnan(won).all():
        raise TableError(f"no question of {file} has an answer: fill in column {names.winner!r}")
    margins, counts = (
        None if name is None else numbers(column(table, name, role), name)
        for role, name in (("margin", names.margin), ("count", names.count))
    )
    return Outcomes(file, table, names, first, second, won, margins, counts)


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


# ---- files of answers


def column_names_of(file: TableFile) -> list[str]:
    """Names of the columns of a table of comparisons or a file of answers."""
    return list(COLUMNS) if is_answers_file(file) else file.read().column_names


def holds_comparisons(file: TableFile) -> bool:
    """Whether a file of answers compares items, rather than scoring them."""
    return any(answer.kind != SCORE for answer in read_answers(file).answers)


def read_scores(
    file: TableFile, items: TableFile | None, item: str | None, score: str, text: Iterable[str]
) -> pa.Table:
    """Read a table with scores; of a file of answers the columns `item` and `score`, one row per
    item: the mean of the last scores that people gave it.

    `items` and `item`: the table that describes the items, and what their names are called, None
    where not given.
    """
    if not is_answers_file(file):
        return file.read(text)
    if items is None or item is None:
        raise TableError(
            f"{file} holds answers about items: name the table that describes them with --items,"
            " and its column of names with --id"
        )
    scores = mean_scores(_log_of(file).answers)
    if not scores:
        raise TableError(f"{file} has comparisons but no scores: give it as --comparisons {file}")
    return pa.table({item: [name.strip() for name in scores], score: list(scores.values())})


def _outcomes_of_answers(file: TableFile, items: NamedItems, given: PairColumns) -> Outcomes:
    """The comparisons that answers imply, the better item first; what was skipped or taken back is
    left out.
    """
    if given.first_given is not None:
        raise ValueError(
            f"--{given.first_given} does not go with {file}: the columns of a file of answers are"
            " known"
        )
    log = _log_of(file)
    answers = [answer for answer in log.answers if answer.kind != SCORE and answer.answer != SKIP]
    if not answers:
        raise TableError(
            f"{file} has scores but no comparisons: use corank fit {file} --items TABLE --id COLUMN"
            " --score score"
        )
    outcomes = pair_outcomes(answers)
    left = [name.strip() for name, _, _ in outcomes]
    right = [name.strip() for _, name, _ in outcomes]
    won = np.array([value for _, _, value in outcomes])
    first, second = items.pairs_of((left, right), file, (FIRST, SECOND))
    winners = [TIE if tied else name for name, tied in zip(left, won == 0.5, strict=True)]
    questions = {
        "answers": len(answers),
        "ties": sum(answer.answer == TIE for answer in answers),
        "skipped": sum(answer.answer == SKIP for answer in log.answers),
        "undone": log.undone,
        "broken": len(log.broken),
    }
    table = pa.table({FIRST: left, SECOND: right, WINNER: winners})
    names = PairColumns(WINNER)
    return Outcomes(file, table, names, first, second, won, questions=questions)


def pairs_taken_back(file: TableFile, items: NamedItems, *, with_margins: bool) -> list[ReadPairs]:
    """What each answer that was taken back had said, as a model would have learned it; items that
    are gone are left out.
    """
    if not is_answers_file(file):
        return []
    taken_back = []
    for answer in read_answers(file).taken_back:
        pairs = []
        for first, second, won in pair_outcomes([answer]):
            first, second = first.strip(), second.strip()
            if first not in items or second not in items:
                continue
            tied = won == 0.5
            pairs.append((first, second, 0.0 if tied and with_margins else 1.0))
            if tied and not with_margins:
                pairs.append((second, first, 1.0))
        winners = items.rows_of([first for first, _, _ in pairs], file, FIRST)
        losers = items.rows_of([second for _, second, _ in pairs], file, SECOND)
        taken_back.append(ReadPairs(winners, losers, np.array([margin for _, _, margin in pairs])))
    return taken_back


def scores_taken_back(file: TableFile) -> list[tuple[str, float]]:
    """Names and scores of items that a file of answers has given at some time and gives no more."""
    if not is_answers_file(file):
        return []
    log = read_answers(file)
    now = set(mean_scores(log.answers).items())
    everything = sorted([*log.answers, *log.taken_back], key=lambda answer: answer.number)
    gone = {pair for answers in (log.answers, everything) for pair in running_scores(answers)} - now
    return sorted((name.strip(), score) for name, score in gone)


def _log_of(file: TableFile) -> AnswerLog:
    """A file of answers, with notes about what is left out of it."""
    log = read_answers(file)
    note_broken_lines(log, file)
    if not log.answers:
        undone = " that were not taken back" if log.undone else ""
        raise TableError(f"{file} has no answers{undone}: collect some with corank ask")
    if len({answer.kind == SCORE for answer in log.answers}) > 1:
        note(f"{file} holds both scores and comparisons: only one of them is used at a time")
    return log


def note_broken_lines(log: AnswerLog, file: TableFile) -> None:
    """Say how many lines of a file of answers are left out because they cannot be read."""
    if log.broken:
        lines = count(len(log.broken), "line")
        note(
            f"left out: {lines} of {file} that cannot be read, such as line {log.broken[0]},"
            " perhaps cut off while writing"
        )


def answers_in_words(questions: dict[str, int], tie: str = "") -> str:
    """How many questions were answered, and what was left out; `tie` says what a tie counts for."""
    words = count(questions["answers"], "answer")
    if questions["ties"]:
        words += f" ({count(questions['ties'], 'tie')}{tie})"
    left_out = [
        f"{questions[key]:,} {meaning}" for key, meaning in LEFT_OUT.items() if questions.get(key)
    ]
    return ", ".join([words, *left_out])
