"""Answers of every kind in one shape, and the tables and files that hold them: comparisons with and
without ties, orders of several items, best and worst, scores.

The file that `corank ask` writes is the subject of `answer_log`; how learners take answers is that
of `learners.answers`.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from corank.core.messages import ArgumentError, count, did_you_mean, listed, warn_user
from corank.tables import answer_log
from corank.tables.columns import (
    TableError,
    column,
    columns_of,
    is_list,
    is_text,
    numbers,
    plain,
    to_arrow,
)
from corank.tables.comparisons import ReadPairs
from corank.tables.limits import open_limited
from corank.tables.names import TIE, names_in
from corank.tables.read import read_table, reading
from corank.tables.write import replacing, write_table

STRENGTHS = {"slightly": "0.5", "much": "2"}  # words for the margin of a win
ROLES = {  # what a column holds → other names for it
    "person": ("worker", "judge", "annotator", "user", "judge_hash"),
    "query": ("prompt", "question_id", "qid", "instruction"),
    "strength": ("margin",),
    "winner": ("label",),
    "item": ("id", "name"),
    "score": ("rating", "stars"),
}
RANKS = (1, 2), (2, 1), (1, 1)  # where the left item has won, the right one, neither


@dataclass(frozen=True)
class PairFormat:
    """A kind of table with one comparison per row.

    left, right : columns of the items; the left one has won where no column says who did
    words : that say in column `winner` that the left has won, the right, and neither
    """

    left: str
    right: str
    words: tuple[str, ...] = ()


PAIRS = {
    "arena": PairFormat("model_a", "model_b", ("model_a", "model_b", TIE, "tie (bothbad)")),
    "sides": PairFormat("left", "right", ("left", "right", TIE)),
    "questions": PairFormat("first", "second", ("first", "second", TIE)),
    "argilla": PairFormat("chosen", "rejected"),
    "winners": PairFormat("winner", "loser"),
}
CORANK, LABEL_STUDIO, RECORDS = "corank", "label-studio", "records"
Row = dict[str, Any]
Columns = dict[str, pa.ChunkedArray]
FORMATS = {  # the columns by which a table is recognised
    **{
        format: {kind.left, kind.right, *(["winner"] if kind.words else [])}
        for format, kind in PAIRS.items()
    },
    RECORDS: {"items", "ranks"},
    "orders": {"order"},
    "scores": {"item", "score"},
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """One answer of one person: an order of items, or the score of one.

    Attributes
    ----------
    items : names, left before right where it is known how they were `shown`
    ranks : of each item, 1 for the best; empty for a score
    ties : whether items of one rank are equally good; else nobody compared them, such as those
        between the best and the worst
    score : of the only item, else None
    strength : by how much the better item won: 1, 0.5 for slightly, 2 for much, 0 for a tie
    count : how often the answer was given
    person, query : who gave it and to which prompt, or empty
    shown : whether items stand in the order in which they were shown
    """

    items: tuple[str, ...]
    ranks: tuple[int, ...] = ()
    ties: bool = True
    score: float | None = None
    strength: float = 1.0
    count: float = 1.0
    person: str = ""
    query: str = ""
    shown: bool = True

    def pairs(self) -> Iterator[tuple[str, str, float, float]]:
        """The comparisons that an order implies: better item, other item, margin and weight.

        With m items that are not above the better one, a pair weighs 2 / m, as if the better one
        had been chosen from those m (Plackett and Luce): k items count as 2 (k - 1 - 1/2 - … - 1/k)
        comparisons in all, and two items as one. O(k²) for k items.
        """
        ranked = sorted(zip(self.ranks, self.items, strict=False), key=lambda entry: entry[0])
        for (rank, better), (below, other) in combinations(ranked, 2):
            if rank < below or self.ties:
                standing = sum(each >= rank for each in self.ranks)
                margin = self.strength if rank < below else 0.0
                yield better, other, margin, 2 * self.count / standing


# an answer, and the rows of its items by name
Answered = tuple[Judgement, dict[str, int]]


@dataclass(frozen=True)
class Answers:
    """Answers of every kind, in the order of their file; `read_answers` reads them.

    Attributes
    ----------
    judgements : the answers that say something
    remarks : what is odd about them, or was left out, in words, and how often
    format : of what they were read from
    source : what was read, as it stood
    """

    judgements: Sequence[Judgement]
    remarks: Mapping[str, int] = field(default_factory=dict)
    format: str = RECORDS
    source: Any = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.judgements)

    def at_rows(self, names: Sequence[Any], queries: Any = None) -> list[Answered]:
        """The answers with the rows of their items by name; items that no row has are left out,
        which is said.

        Parameters
        ----------
        names : (n,) what the rows are called
        queries : (n,) of the rows, where a name is that of an item of a query: answers that have a
            query are then about the items of theirs

        Returns
        -------
        list of pairs: an answer, and the rows of its items by name
        """
        names = names_in(to_arrow({"items": names}), "items", "items", "X")
        if not any(said.query for said in self.judgements):
            queries = None
        places = [""] * len(names) if queries is None else map(str, queries)
        rows = {key: row for row, key in enumerate(zip(places, names, strict=True))}
        if len(rows) < len(names):
            raise ArgumentError("items", " must differ, within each query where there are queries")
        unknown: Counter[str] = Counter()
        answered = []
        for said in self.judgements:
            place = "" if queries is None else said.query
            at = {name: rows[place, name] for name in said.items if (place, name) in rows}
            unknown.update(set(said.items) - at.keys())
            if len(at) > (said.score is None):
                answered.append((said, at))
        if unknown:
            name, number = unknown.most_common(1)[0]
            what = (
                f"{count(len(unknown), 'item')} that no row has, such as {name!r} in"
                f" {count(number, 'answer')}{did_you_mean(name, map(str, names))}"
            )
            if not answered:
                raise TableError(f"all answers are about {what}")
            warn_user(f"left out: what is said about {what}")
        return answered

    def write(
        self, path: str | os.PathLike[str], format: str | None = None, *, overwrite: bool = False
    ) -> None:
        """Write the answers; in the format that was read, all of it as it stood.

        Parameters
        ----------
        path : path
            `.csv`, `.jsonl`, `.parquet` and the like; `.json` as Label Studio has it
        format : that of `read_answers`, or "winners", "sides", "questions", "arena" or "argilla",
            which hold comparisons of two items, or "records", which holds everything; None for that
            of `read_answers`
        overwrite : whether a file that is already there may be replaced
        """
        content = self.source
        if content is None or format not in (None, self.format):
            content = self._table(format or RECORDS)
        path = Path(path)
        if isinstance(content, pa.Table) and path.suffix.lower() != ".json":
            write_table(content, path, overwrite=overwrite)
            return
        with replacing(path, overwrite=overwrite) as file:
            if not isinstance(content, bytes):
                rows = content.to_pylist() if isinstance(content, pa.Table) else content
                content = json.dumps(rows, ensure_ascii=False, default=str).encode()
            file.write(content)

    def _table(self, format: str) -> pa.Table:
        if format == RECORDS:
            return pa.Table.from_pylist([asdict(said) for said in self.judgements])
        if format not in PAIRS:
            others = listed([*PAIRS, RECORDS])
            raise ArgumentError("format", f" must be that of the answers, or {others}: {format!r}")
        kind = PAIRS[format]
        rows = []
        for number, said in enumerate(self.judgements, start=1):
            if said.ranks not in RANKS or (said.ranks == RANKS[2] and format == "argilla"):
                raise ValueError(
                    f"answer {number} is none that format {format!r} can hold: take {RECORDS!r}"
                )
            ends, ranks = said.items, said.ranks
            # nobody knows which was on the left: winners must not be there more often than losers
            unknown = bool(kind.words) and not said.shown and ends[0] > ends[1]
            if unknown or (not kind.words and ranks == RANKS[1]):
                ends, ranks = ends[::-1], ranks[::-1]
            won = RANKS.index(ranks)
            row: Row = dict(zip((kind.left, kind.right), ends, strict=True))
            if kind.words:
                row["winner"] = kind.words[won]
            row["strength"] = said.strength if won < 2 else 0.0
            more = {"person": said.person, "query": said.query, "count": said.count}
            rows.append({**row, **more})
        return pa.Table.from_pylist(rows)


def pairs_of(answered: Sequence[Answered], *, margins: bool = True) -> ReadPairs:
    """The comparisons that answers imply, those of one answer in one group.

    Scores are compared within persons and queries: each pair of k scores has weight 2 / k, and as
    margin their difference over the mean difference. O(k²) for the k items of an order or scores of
    a person.

    margins : whether margins say by how much, and weights how sure it is; else margins are 1 for a
        win and 0 for a tie, and weights how often the answer was given
    """
    pairs: list[tuple[Any, ...]] = []
    scored = defaultdict(list)
    for number, (said, at) in enumerate(answered):
        if said.score is not None:
            scored[said.person, said.query].append((said.score, *at.values()))
        for better, other, margin, weight in said.pairs():
            if better in at and other in at:
                ends = at[better], at[other]
                group = frozenset(ends) if len(said.items) == 2 else number
                first = said.items.index(better) < said.items.index(other)
                pairs.append((*ends, margin, weight, said.count, said.person, first, group))
    by_score = [
        (row, other, score - less, 2 / len(given), 1.0, who[0], True, who)
        for who, given in scored.items()
        for (score, row), (less, other) in combinations(sorted(given, reverse=True), 2)
        if row != other
    ]
    scale = sum(pair[2] for pair in by_score) / max(len(by_score), 1) or 1.0
    pairs += [(*pair[:2], pair[2] / scale, *pair[3:]) for pair in by_score]
    if not pairs:
        raise TableError("the answers compare no two of the items: there is nothing to learn")
    columns = map(list, zip(*pairs, strict=True))
    winners, losers, sizes, weights, counts, persons, is_first, groups = columns
    codes = {group: code for code, group in enumerate(dict.fromkeys(groups))}
    more: dict[str, Any] = {"groups": [codes[group] for group in groups]}
    if len(set(persons)) > 1:
        more["person"] = persons
    if all(said.shown and said.ranks for said, _ in answered):
        more["first"] = is_first
    by, times = (sizes, weights) if margins else (np.sign(sizes), counts)
    items = np.array([winners, losers])
    return ReadPairs(items[0], items[1], np.array(by), np.array(times), more=more)


# ---- reading


def read_answers(
    source: Any, format: str | None = None, *, columns: Mapping[str, str] | None = None
) -> Answers:
    """Read answers of any kind: who of two is better, ties, orders of several, scores.

    What was skipped, names that differ only by blanks, and pairs that one person has put in both
    orders, are counted and said in a warning. Tables have one answer per row; who gave it is in a
    column `person`, `worker`, `judge`, `annotator` or `user`, its prompt in `query`, `prompt`,
    `question_id` or `qid`, how often it was given in `count`, and in `strength` or `margin` a number
    (0 for a tie), slightly or much.

    Parameters
    ----------
    source : path, or table of pandas, polars or pyarrow
    format : None to recognise it by the columns, or

        - "corank": the file of `corank ask`
        - "winners": columns winner, loser
        - "sides": left, right, and winner or label: left, right, tie or the name of an item
        - "questions": first, second, winner, as `corank suggest` writes them
        - "arena": model_a, model_b, winner: model_a, model_b, tie or tie (bothbad)
        - "argilla": chosen, rejected: texts, or messages of which the last one counts
        - "label-studio": the JSON that Label Studio exports from a project with `Pairwise`
        - "orders": order, such as `a > b = c`
        - "scores": item, score
        - "records": what `Answers.write` writes by default
    columns : names of columns, or of fields of a task, and what they are called above, where they
        have other names

    Returns
    -------
    Answers
    """
    known = [CORANK, LABEL_STUDIO, *FORMATS]
    if format is not None and format not in known:
        guess = did_you_mean(format, known)
        raise ArgumentError("format", f" must be one of {listed(known, 99)}, got {format!r}{guess}")
    held = (*FORMATS.values(), *ROLES.values(), ROLES, Judgement.__slots__)
    roles = {name for names in held for name in names}
    for name, role in (columns or {}).items():
        if role not in roles:
            guess = did_you_mean(str(role), sorted(roles))
            raise ArgumentError("columns", f": {name!r} cannot hold {role!r}{guess}.")
    is_path = isinstance(source, str | os.PathLike)
    place = str(source) if is_path else "the table"
    reader = AnswerReader(place, columns or {}, Counter())
    rows: Iterable[Row]
    try:
        with reading(place):
            content = _content(Path(source), format, columns or {}) if is_path else to_arrow(source)
            if isinstance(content, bytes):
                format, rows = CORANK, reader.of_log(Path(source))
            elif isinstance(content, list):
                format, rows = LABEL_STUDIO, reader.of_tasks(content)
            else:
                format, rows = reader.of_table(content, format)
            judgements = [Judgement(**row) for row in rows]
            both = _contradictions(judgements)
    # cells of other kinds than expected
    except (AttributeError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise TableError(f"{place} cannot be read as answers: {error}") from error
    reader.remarks["pairs that one person, or people without a name, put in both orders"] = both
    remarks = {what: number for what, number in reader.remarks.items() if number}
    in_words = ", ".join(f"{number:,} {what}" for what, number in remarks.items())
    if not judgements:
        raise TableError(f"{place} has no answers{in_words and f': {in_words}'}")
    if remarks:
        warn_user(f"{place}: {in_words}")
    return Answers(judgements, remarks, format, content)


def _content(path: Path, format: str | None, columns: Mapping[str, str]) -> Any:
    """A file as it stands: bytes of a file of answers, tasks of Label Studio, or a table."""
    if format == CORANK or (format is None and answer_log.is_answers_file(path)):
        answer_log.read_answers(path)  # refuses other files
        return path.read_bytes()
    if path.suffix.lower() != ".json":
        known = (*FORMATS.values(), *ROLES.values(), ROLES, columns)
        text = {name for names in known for name in names}
        return read_table(path, text=text - {"score", "strength", "count"})
    if not path.is_file() or not path.stat().st_size:
        raise TableError(f"{path} is empty" if path.exists() else f"there is no file {path}")
    with open_limited(path, compressed=False) as file:
        try:
            records = json.load(file)
        except (ValueError, RecursionError) as error:
            raise TableError(f"{path} is no JSON: {error}") from None
    if (
        not records
        or not isinstance(records, list)
        or any(not isinstance(entry, dict) for entry in records)
    ):
        raise TableError(f"{path} must be a JSON list of objects")
    is_export = format == LABEL_STUDIO or any("annotations" in entry for entry in records)
    return records if is_export else _as_table(records)


def _contradictions(judgements: Sequence[Judgement]) -> int:
    winners = defaultdict(set)
    for said in judgements:
        for better, other, margin, _ in said.pairs():
            if margin:
                winners[said.person, said.query, frozenset((better, other))].add(better)
    return sum(len(names) > 1 for names in winners.values())


@dataclass(frozen=True)
class AnswerReader:
    """Reads answers as fields of judgements.

    place : what is read, in messages
    columns : as for `read_answers`
    remarks : what is odd, and how often; counted while reading
    """

    place: str
    columns: Mapping[str, str]
    remarks: Counter[str]

    def of_log(self, path: Path) -> Iterator[Row]:
        """A file of `corank ask`."""
        log = answer_log.read_answers(path)
        self.remarks["taken back"] = log.undone
        self.remarks["lines that cannot be read"] = len(log.broken)
        for answer in log.answers:
            if answer.answer == answer_log.SKIP:
                self.remarks["skipped"] += 1
                continue
            places = {answer.answer: 1, answer.worst: 3}
            others = 1 if answer.answer == TIE else 2
            ranks = [places.get(at, others) for at in answer_log.POSITIONS[: len(answer.items)]]
            yield {
                "items": tuple(name.strip() for name in answer.items),
                "ranks": () if answer.score is not None else tuple(ranks),
                "ties": not answer.worst,
                "score": answer.score,
                "person": answer.person,
            }

    def of_tasks(self, tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Tasks of Label Studio; a tie is a choice of that name beside the pair."""
        annotations = [(task, each) for task in tasks for each in task.get("annotations") or []]
        answered = [pair for pair in annotations if not pair[1].get("was_cancelled")]
        self.remarks["skipped"] = len(annotations) - len(answered)
        self.remarks["tasks without an answer"] = sum(not task.get("annotations") for task in tasks)
        results = [result for _, each in answered for result in each.get("result") or []]
        compared = (result.get("to_name", "").split(",") for result in results)
        ends = next((names for names in compared if len(names) == 2), ["", ""])
        ends = [self.columns.get(name, name) for name in ends]
        rows = []
        for task, annotation in answered:
            data = {self.columns.get(name, name): cell for name, cell in task["data"].items()}
            sides = ends if {*ends} <= data.keys() else ["left", "right"]
            if not {*sides} <= data.keys():
                raise TableError(
                    f"{self.place}: tasks have {listed(list(data))}: say which two are compared,"
                    " columns={'ONE': 'left', 'OTHER': 'right'}"
                )
            values = [result.get("value", {}) for result in annotation.get("result") or []]
            said = {word for value in values for word in value.get("choices", [])}
            said |= {value.get("selected") for value in values}
            by = annotation.get("completed_by", "")
            rows.append(
                {
                    "left": data[sides[0]],
                    "right": data[sides[1]],
                    "winner": next((word for word in PAIRS["sides"].words if word in said), None),
                    "person": str(by.get("email") if isinstance(by, dict) else by),
                    "query": next((data[name] for name in ROLES["query"] if name in data), None),
                }
            )
        reader = AnswerReader(self.place, {}, self.remarks)
        return reader.of_table(_as_table(rows), "sides")[1] if rows else []

    def of_table(self, table: pa.Table, format: str | None) -> tuple[str, list[dict[str, Any]]]:
        """The format of a table, and its rows that hold an answer."""
        there: Columns = columns_of(table)
        for name, known in self.columns.items():
            there[known] = column(table, name, known)
        for role, others in ROLES.items():
            known = next((name for name in (role, *others) if name in there), role)
            there |= {role: there[known]} if known in there else {}
        shown = (each for each, needed in FORMATS.items() if needed <= there.keys())
        format = format or next(shown, "")
        if not FORMATS.get(format, set()) <= there.keys() or format in ("", CORANK, LABEL_STUDIO):
            known = "; ".join(", ".join(sorted(needed)) for needed in FORMATS.values() if needed)
            raise TableError(
                f"{self.place} is in no known format of answers{format and f', nor in {format!r}'}:"
                f" its columns are {listed(table.column_names)}; known are {known}; columns= says"
                " what others hold"
            )
        if format == RECORDS:
            return format, [_record(row) for row in pa.table(there).to_pylist()]
        rows = list(self._rows(there, format))
        answered = [{**who, **said} for said, who in rows if said]
        if format in PAIRS:
            self.remarks["not answered"] = len(rows) - len(answered)
        return format, answered

    def _rows(self, there: Columns, format: str) -> Iterator[tuple[Row | None, Row]]:
        """What every row says, None where it has no answer, and who said it, to which prompt, how
        often and how clearly.
        """
        more: dict[str, Any] = {}
        for role in there.keys() & {"person", "query"}:
            more[role] = [label or "" for label in self._names(there, role)[0]]
        for role in there.keys() & {"strength", "count"}:
            more[role] = self._sizes(there[role], role)
        if format == "scores":
            scores = numbers(there["score"], "score").tolist()
            items = self._names(there, "item")[0]
            said = [
                {"items": (item,), "score": score} if item and score == score else None  # noqa: PLR0124
                for item, score in zip(items, scores, strict=True)
            ]
        elif format == "orders":
            said = [_order(text) if text else None for text in self._names(there, "order")[0]]
        else:
            said = list(self._pairs(there, PAIRS[format]))
        for number, row in enumerate(said):
            yield row, {role: values[number] for role, values in more.items()}

    def _pairs(self, there: Columns, kind: PairFormat) -> Iterator[Row | None]:
        """Comparisons of two items."""
        winner = "winner" if kind.words else kind.left
        names = zip(*self._names(there, kind.left, kind.right, winner), strict=True)
        for number, (left, right, won) in enumerate(names, start=1):
            if not left or not right or left == right:
                raise TableError(
                    f"data row {number} of {self.place} must name two different items, but has"
                    f" {left!r} and {right!r}"
                )
            if won is None:
                yield None
                continue
            words = [left, right, *kind.words]
            said = won if won in words else won.lower()
            if said not in words:
                raise TableError(
                    f"data row {number} of {self.place}: the winner must be {listed(kind.words)},"
                    f" or the name of an item, but is {won!r}{did_you_mean(won, words)}"
                )
            at = words.index(said)
            ranks = RANKS[min(at if at < 2 else at - 2, 2)]
            yield {"items": (left, right), "ranks": ranks, "shown": bool(kind.words)}

    def _names(self, there: Columns, *names: str) -> list[list[str | None]]:
        """Columns of names, without blanks around them; of messages the last one counts."""
        cells = []
        for name in names:
            values = plain(there[name])
            if is_list(values.type):
                values = pa.chunked_array([[_last_message(cell) for cell in values.to_pylist()]])
            cells.append(values)
        texts = {
            cell
            for values in cells
            for cell in values.unique().to_pylist()
            if isinstance(cell, str)
        }
        self.remarks["names that differ from others only by blanks"] += len(texts) - len(
            {text.strip() for text in texts}
        )
        return [
            names_in(pa.table({name: values}), name, "item", self.place)
            for name, values in zip(names, cells, strict=True)
        ]

    def _sizes(self, values: pa.ChunkedArray, role: str) -> list[float]:
        """Numbers from 0, 1 where there is none; words for strengths are understood."""
        values = plain(values)
        if is_text(values.type):
            texts = [
                cell and STRENGTHS.get(cell.strip().lower(), cell) for cell in values.to_pylist()
            ]
            values = pa.chunked_array([texts], pa.string())
        sizes = numbers(values, role, "a number, slightly or much")
        if (sizes < 0).any():
            row = int(np.argmax(sizes < 0)) + 1
            raise TableError(f"data row {row} of {self.place}: {role} must not be below 0")
        given: list[float] = np.where(np.isnan(sizes), 1.0, sizes).tolist()
        return given


def _record(row: Row) -> Row:
    """An answer as `Answers.write` writes it."""
    said = {
        each.name: row[each.name] for each in fields(Judgement) if row.get(each.name) is not None
    }
    for name in ("items", "ranks"):
        cell = said.get(name, ())
        said[name] = tuple(json.loads(cell) if isinstance(cell, str) else cell)
    if len(said["items"]) != (len(said["ranks"]) if "score" not in said else 1):
        raise TableError(f"items and ranks of a record must be as many, got {said}")
    return said


def _order(text: str) -> Row:
    """Items and ranks of `a > b = c`."""
    levels = [[name.strip() for name in level.split(" = ")] for level in text.split(" > ")]
    items = tuple(name for level in levels for name in level)
    if len(set(items)) < max(len(items), 2) or "" in items:
        raise TableError(f"an order names two or more different items, as a > b = c, not {text!r}")
    return {
        "items": items,
        "ranks": tuple(n for n, level in enumerate(levels, 1) for _ in level),
        "shown": False,
    }


def _last_message(cell: Any) -> Any:
    last = cell[-1] if cell else None
    return last.get("content") if isinstance(last, dict) else last


def _as_table(records: Sequence[Row]) -> pa.Table:
    names = dict.fromkeys(name for record in records for name in record)
    return pa.table({name: [record.get(name) for record in records] for name in names})
