"""Comparisons from a table: who beat whom, or the answered questions of `corank suggest`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corank.cli.items import Items, labels
from corank.tables import TableError, column, numbers, read_table

WINNER, LOSER = "winner", "loser"
FIRST, SECOND = "first", "second"  # of a question
TIE = "tie"


@dataclass(frozen=True)
class PairColumns:
    """Names of the columns of a table of comparisons, None where nobody says."""

    winner: str | None = None
    loser: str | None = None
    margin: str | None = None
    count: str | None = None

    def completed(self, table: pa.Table, remembered: PairColumns) -> PairColumns:
        """With names as they were before where nobody says; `loser` is None for answered questions."""
        there = set(table.column_names)
        loser = remembered.loser or LOSER
        questions = {FIRST, SECOND, self.winner or WINNER} <= there and (loser not in there or loser in (FIRST, SECOND))
        asked = self.loser is None and questions
        return PairColumns(
            self.winner or (WINNER if asked else remembered.winner or WINNER),
            None if asked else self.loser or loser,
            self.margin or remembered.margin,
            self.count or (remembered.count if remembered.count in there else None),
        )


NOTHING = PairColumns()


@dataclass(frozen=True)
class Pairs:
    """Comparisons of the rows of a table of items.

    Attributes
    ----------
    winners, losers : (p,) rows
    margins : (p,) by how much, or None
    counts : (p,) how often, or None
    """

    winners: NDArray[np.int64]
    losers: NDArray[np.int64]
    margins: NDArray[np.float64] | None = None
    counts: NDArray[np.float64] | None = None

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


def read_pairs(
    file: Path,
    items: Items,
    told: PairColumns,
    remembered: PairColumns = NOTHING,
    *,
    with_margins: bool,
    query: tuple[str, NDArray[np.int64]] | None = None,
) -> Pairs:
    """Read comparisons and check each.

    Parameters
    ----------
    file : path of a table
    items : what is compared
    told, remembered : its columns by name, as told now and before; `winner` and `loser` by default
    with_margins : whether a tie can be said as a margin of 0; else it is a win for both
    query : name of the query column and (n_items,) the query of each item, which must be the same for both, or None
    """
    ends = [
        FIRST,
        SECOND,
        WINNER,
        LOSER,
        *(name for one in (told, remembered) for name in (one.winner, one.loser) if name),
    ]
    table = read_table(file, text=ends)
    names = told.completed(table, remembered)
    margins = None if names.margin is None else _numbers(table, names.margin, "margin")
    counts = None if names.count is None else _numbers(table, names.count, "count")
    assert names.winner is not None
    if names.loser is None:
        winners, losers, tied, rows = _answers(table, file, items, names.winner)
    else:
        winners = items.rows_of(labels(table, names.winner, "winner", file), file, names.winner)
        losers = items.rows_of(labels(table, names.loser, "loser", file), file, names.loser)
        tied, rows = np.zeros(len(winners), dtype=bool), np.arange(len(winners))
    if (winners == losers).any():
        at = int(np.argmax(winners == losers))
        raise TableError(f"data row {rows[at] + 1} of {file} compares {items.labels[winners[at]]!r} with itself")
    if query is not None:
        _check_queries(file, items, winners, losers, rows, *query)
    if with_margins and (margins is not None or tied.any()):
        margins = np.where(tied, 0.0, 1.0 if margins is None else margins[rows])
        _check(margins >= 0, rows, file, f"column {names.margin!r} must hold 0 or more, by how much the winner won")
        if not margins.any():
            raise TableError(f"all comparisons of {file} are ties: there is nothing to learn")
    if counts is not None:
        counts = counts[rows]
        whole = (counts >= 1) & (counts == np.round(counts))
        _check(whole, rows, file, f"column {names.count!r} must hold whole numbers from 1, how often it was so")
    if tied.any() and not with_margins:
        winners, losers = np.concatenate([winners, losers[tied]]), np.concatenate([losers, winners[tied]])
        counts = None if counts is None else np.concatenate([counts, counts[tied]])
    return Pairs(winners, losers, margins, counts)


def _numbers(table: pa.Table, name: str, role: str) -> NDArray[np.float64]:
    return numbers(column(table, name, role), name)


def _answers(table: pa.Table, file: Path, items: Items, name: str) -> tuple[Any, Any, Any, NDArray[np.int64]]:
    """Winners, losers, which of them are tied, and the rows of the table: questions without an answer are left out."""
    answers = labels(table, name, "winner", file)
    first, second = (labels(table, each, "item", file) for each in (FIRST, SECOND))
    rows = np.array([row for row, answer in enumerate(answers) if answer is not None], dtype=np.int64)
    if not len(rows):
        raise TableError(f"no question of {file} has an answer: fill in column {name!r}")
    ends = [items.rows_of(each, file, column_)[rows] for each, column_ in ((first, FIRST), (second, SECOND))]
    said = [_outcome(answers[row], first[row], second[row], items) for row in rows]
    _check(
        np.array([one is not None for one in said]),
        rows,
        file,
        f"column {name!r} must say which of the two has won (or {TIE!r}); empty = not answered",
    )
    won = np.array([one == SECOND for one in said])
    return np.where(won, ends[1], ends[0]), np.where(won, ends[0], ends[1]), np.array([x == TIE for x in said]), rows


def _outcome(answer: str | None, first: str | None, second: str | None, items: Items) -> str | None:
    """FIRST, SECOND or TIE, None where an answer is none of them. Names of items come before those words."""
    if answer in (first, second):
        return FIRST if answer == first else SECOND
    word = str(answer).lower()
    return word if word in (FIRST, SECOND, TIE) and str(answer) not in items else None


def _check_queries(
    file: Path, items: Items, winners: Any, losers: Any, rows: NDArray[np.int64], name: str, codes: Any
) -> None:
    apart = codes[winners] != codes[losers]
    if apart.any():
        at = int(np.argmax(apart))
        two = f"{items.labels[winners[at]]!r} with {items.labels[losers[at]]!r}"
        raise TableError(f"data row {rows[at] + 1} of {file} compares {two}, which differ in {name!r}")


def _check(sound: NDArray[np.bool_], rows: Sequence[int] | NDArray[np.int64], file: Path, demand: str) -> None:
    if not sound.all():
        raise TableError(f"data row {rows[int(np.argmin(sound))] + 1} of {file}: {demand}")
