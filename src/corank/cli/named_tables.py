"""Tables that name items which another table describes: comparisons and scores, also those of a
file of answers, and links.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corank.cli.console import DASH, note
from corank.core.messages import count
from corank.interview.answers import (
    COLUMNS,
    SCORE,
    SKIP,
    AnswerLog,
    is_answers_file,
    mean_scores,
    pair_outcomes,
    read_answers,
    running_scores,
)
from corank.links import Links, read_links
from corank.tables import (
    TableError,
    TableFile,
    column,
    columns_of,
    is_text,
    numbers,
    plain,
    score_column,
)
from corank.tables.comparisons import (
    FIRST,
    SECOND,
    UNNAMED,
    WINNER,
    Outcomes,
    PairColumns,
    ReadPairs,
    read_comparisons,
)
from corank.tables.names import TIE, NamedItems, names_in

MUTUAL, DIRECTED = "mutual", "directed"  # what a model remembers of the links it was fitted with
WEIGHT_NAMES = ("weight", "weights", "count", "times", "strength")
# questions → in words
LEFT_OUT = {"unanswered": "not answered", "skipped": "skipped", "undone": "taken back"}


# ---- comparisons


def read_outcomes(
    file: TableFile,
    items: NamedItems,
    given: PairColumns = UNNAMED,
    remembered: PairColumns = UNNAMED,
    *,
    to_learn: bool = True,
) -> Outcomes:
    """Read comparisons of a table or a file of answers, with or without answers; parameters as in
    `read_comparisons`.
    """
    if is_answers_file(file):
        return _outcomes_of_answers(file, items, given)
    return read_comparisons(file, items, given, remembered, to_learn=to_learn)


def place_of(file: TableFile) -> str:
    """Where a row of a file of answers stands, which has other lines too; nothing for a table."""
    return f"an answer of {file}" if is_answers_file(file) else ""


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
    first, second = items.pairs_of((left, right), file, (FIRST, SECOND), place_of(file))
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
            first = first.strip()
            second = second.strip()
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


# ---- links


@dataclass(frozen=True)
class LinkTable:
    """A table of links.

    Attributes
    ----------
    file : the table
    columns : names of its two columns of items and perhaps that of weights; empty = the first two
    directed : whether directions are kept
    """

    file: TableFile
    columns: tuple[str, ...]
    directed: bool

    @property
    def kind(self) -> str:
        """What a model remembers of it."""
        return DIRECTED if self.directed else MUTUAL

    def between(
        self, table: pa.Table, item: str, file: TableFile, *, may_be_empty: bool = False
    ) -> Links:
        """The links between the rows of a table from `file`, whose column `item` names the rows.

        may_be_empty : whether it is fine that no link joins two of the rows
        """
        ids = NamedItems(file, item, table).labels
        names = list(self.columns)
        edges = self.file.read(names[:2])
        if not names:
            names = edges.column_names[:2]
            if len(names) < 2:
                raise TableError(
                    f"--links {self.file} has only one column, {names[0]!r}, but a link takes two"
                )
            if not all(is_text(edges.schema.field(name).type) for name in names):
                edges = self.file.read(names)  # labels such as 007 stay as they are
            unused = [name for name in edges.column_names[2:] if name.lower() in WEIGHT_NAMES]
            if unused:
                columns = ",".join([*names, unused[0]])
                note(
                    f"all links count equally: --link-columns {columns} takes column {unused[0]!r}"
                    " as weights"
                )
        ends = {str(at): _trimmed(column(edges, name, "link")) for at, name in enumerate(names[:2])}
        if len(names) == 3:
            ends["weight"] = pa.array(numbers(column(edges, names[2], "weight"), names[2]))
        try:
            links = read_links(
                ends, len(table), ids=ids, directed=self.directed, may_be_empty=may_be_empty
            )
        except ValueError as error:
            message = str(error).removeprefix("links: ").removesuffix(".")
            raise TableError(f"--links {self.file}: {message}") from error
        if links.n_unknown:
            note(links.remark())
        return replace(links, n_unknown=0)  # it is said once


def _trimmed(values: Any) -> Any:
    values = plain(values)
    return pc.utf8_trim_whitespace(values) if is_text(values.type) else values


def links_option(links: Path | None) -> str:
    """The option --links of a command to run next, as it was given to this one."""
    return "" if links is None else f" --links {'LINKS' if links == DASH else links}"


def check_named(item: str | None) -> str:
    """The column that names the items; an error where nothing says what they are called."""
    if item is None:
        raise ValueError("--links needs --id, the column that names the items")
    return item


# ---- scores


def read_scored_items(
    file: TableFile,
    items: TableFile | None,
    item: str | None,
    score: str,
    text: Sequence[str],
    *,
    every_item: bool,
) -> pa.Table:
    """Read a table with scores, joined by the names in column `item` with the table that describes
    the `items`, if any.

    There is a row per score or, for `every_item`, as links need it, a row per item, scored or not.
    """
    answers = read_scores(file, items, item, score, text)
    if items is None:
        return answers
    assert item is not None
    table = items.read([*text, item])
    named = names_in(answers, item, "item", file)
    rows = NamedItems(items, item, table).rows_of(named, file, item, place_of(file))
    if not every_item:
        columns: dict[str, Any] = {}
        # of columns that both have, that of the answers
        for source in (table.take(pa.array(rows)), answers):
            columns |= columns_of(source)
        return pa.table(columns)
    values = score_column(answers, score)
    given = ~np.isnan(values)
    repeated = np.flatnonzero(np.bincount(rows[given], minlength=len(table)) > 1)
    if repeated.size:
        name = table[item][int(repeated[0])].as_py()
        raise TableError(
            f"{name!r} has several scores in {file}: with --links every item is one row, with one"
            " score"
        )
    scores = np.full(len(table), np.nan)
    scores[rows[given]] = values[given]
    if score in table.column_names:
        table = table.drop_columns([score])
    return table.append_column(score, pa.array(scores, from_pandas=True))
