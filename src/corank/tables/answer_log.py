"""The file of answers: one line per answer, only ever appended to, so that nothing a person has
said is lost.

It is CSV. An undo is a line of its own that names the line it takes back; a process that was killed
while writing may leave half a line, which is ignored and reported. What is asked, and what is
learned from the answers, is not decided here.
"""

from __future__ import annotations

import csv
import errno
import io
import math
import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from io import FileIO
from itertools import combinations, count
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import pyarrow as pa

from corank.tables.columns import TableError
from corank.tables.limits import open_limited
from corank.tables.names import TIE, names_in
from corank.tables.read import reading
from corank.tables.write import check_target, lock

POSITIONS = ("first", "second", "third", "fourth")
PERSON = "person"
COLUMNS = ("number", "kind", *POSITIONS, "answer", "worst", "score", "undoes", PERSON, "at")
HEADER = ",".join(COLUMNS)
COMPARE, BEST_WORST, SCORE = "compare", "best-worst", "score"
SKIP, UNDO = "skip", "undo"
# the last field: a line without all of it was cut
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_NUMBER = re.compile(r"\d{1,15}")
MAX_NAME = 10_000  # characters in the name of an item or a person
_UTF8_MARK = b"\xef\xbb\xbf"  # before the header, where a spreadsheet has written the file
# of two people: their names, the judgements that both made, and how many of them are alike
Agreement: TypeAlias = tuple[str, str, int, int]
_IN_USE = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)


class KindOfQuestion(NamedTuple):
    """A kind of question.

    n_items : how many items it may show
    heading : the question in words
    n_comparisons : answers to comparisons that tell about as much as one answer
    """

    n_items: tuple[int, ...]
    heading: str
    n_comparisons: int = 1


KINDS = {
    COMPARE: KindOfQuestion((2,), "Which is better?"),
    BEST_WORST: KindOfQuestion((3, 4), "Which is the best, and which the worst?", n_comparisons=3),
    SCORE: KindOfQuestion((1,), "How good is it?"),
}


@dataclass(frozen=True)
class Answer:
    """One answer of a person.

    Attributes
    ----------
    number : of its line
    kind : "compare", "best-worst" or "score"
    items : names of the items shown, in the order of `POSITIONS`
    answer : position of the better or best item, or "tie", "skip" or "score"
    worst : position of the worst item, for "best-worst"; else empty
    score : for "score", else None
    person : name of who answered, or empty
    at : when, in UTC
    """

    number: int
    kind: str
    items: tuple[str, ...]
    answer: str
    worst: str
    score: float | None
    person: str
    at: str

    def comparisons(self) -> list[tuple[str, str]]:
        """Names of winners and losers that the answer implies; the best of several also beats the
        worst, once.
        """
        if self.answer not in POSITIONS:
            return []
        best = self.items[POSITIONS.index(self.answer)]
        pairs = [(best, other) for other in self.items if other != best]
        if self.worst:
            worst = self.items[POSITIONS.index(self.worst)]
            pairs += [(other, worst) for other in self.items if other not in (best, worst)]
        return pairs

    def ties(self) -> list[tuple[str, str]]:
        """Names of items that the answer says are equally good, two by two."""
        return list(combinations(self.items, 2)) if self.answer == TIE else []

    def check(self) -> None:
        """Refuse an answer that does not go with its question, in a ValueError."""
        if self.kind not in KINDS:
            raise ValueError(f"kind must be {_listed(KINDS)}, got {self.kind!r}")
        n_items = len(self.items)
        possible = KINDS[self.kind].n_items
        if n_items not in possible:
            raise ValueError(
                f"kind {self.kind!r} shows {_listed(possible)} items, but {n_items} are named"
            )
        if "" in self.items:
            raise ValueError(
                f"{POSITIONS[self.items.index('')]!r} is empty, but an item after it is named"
            )
        if len(set(self.items)) < n_items:
            raise ValueError("an item is shown twice: every question is about different items")
        standing = POSITIONS[:n_items]
        words = (SCORE, SKIP) if self.kind == SCORE else (*standing, TIE, SKIP)
        if self.answer not in words:
            raise ValueError(f"answer must be {_listed(words)}, got {self.answer!r}")
        picks = self.kind == BEST_WORST and self.answer in standing
        if picks and (self.worst not in standing or self.worst == self.answer):
            others = [position for position in standing if position != self.answer]
            raise ValueError(f"worst must be {_listed(others)}, got {self.worst!r}")
        if self.worst and not picks:
            raise ValueError(
                f"worst must be empty for {self.kind!r} answered by {self.answer!r}, got"
                f" {self.worst!r}"
            )
        if (self.score is not None) != (self.answer == SCORE):
            raise ValueError(f"score must be a number where the answer is {SCORE!r}, else empty")
        if self.score is not None and not math.isfinite(self.score):
            raise ValueError(f"score must be a finite number, got {self.score}")


@dataclass(frozen=True)
class AnswerLog:
    """What a file of answers says.

    Attributes
    ----------
    answers : the answers that count, in the order in which they were given; those that were taken
        back are left out
    taken_back : the answers that were taken back
    broken : numbers of the lines that cannot be read, counted from 1 for the header
    next_number : of the next line
    """

    answers: list[Answer] = field(default_factory=list)
    taken_back: list[Answer] = field(default_factory=list)
    broken: list[int] = field(default_factory=list)
    next_number: int = 1

    @property
    def n_told(self) -> int:
        """How many answers say something: those that were not skipped."""
        return sum(answer.answer != SKIP for answer in self.answers)

    @property
    def undone(self) -> int:
        """How many answers were taken back."""
        return len(self.taken_back)

    def last(self, person: str | None = None, kind: str | None = None) -> Answer | None:
        """The last answer, of a person and of a kind where given."""
        for answer in reversed(self.answers):
            if person in (None, answer.person) and kind in (None, answer.kind):
                return answer
        return None

    def with_answer(self, answer: Answer) -> AnswerLog:
        """The log after one more answer."""
        next_number = max(self.next_number, answer.number + 1)
        return replace(self, answers=[*self.answers, answer], next_number=next_number)

    def without(self, answer: Answer, number: int) -> AnswerLog:
        """The log after line `number` has taken an answer back."""
        return replace(
            self,
            answers=[other for other in self.answers if other is not answer],
            taken_back=[*self.taken_back, answer],
            next_number=max(self.next_number, number + 1),
        )


def pair_outcomes(answers: Iterable[Answer]) -> list[tuple[str, str, float]]:
    """What answers say about pairs of items, in their order: two names, and 1 where the first is
    better or 0.5 for a tie.
    """
    outcomes: list[tuple[str, str, float]] = []
    for answer in answers:
        outcomes += [(*pair, 1.0) for pair in answer.comparisons()]
        outcomes += [(*pair, 0.5) for pair in answer.ties()]
    return outcomes


def running_scores(answers: Iterable[Answer]) -> Iterator[tuple[str, float]]:
    """With every score the name of its item and what the item has by then: the mean over people of
    the last score of each.
    """
    by_person: dict[str, dict[str, float]] = {}
    for answer in answers:
        if answer.score is not None:
            scores = by_person.setdefault(answer.items[0], {})
            scores[answer.person] = answer.score
            yield answer.items[0], sum(scores.values()) / len(scores)


def mean_scores(answers: Iterable[Answer]) -> dict[str, float]:
    """The score of every item that has one, by name."""
    return dict(running_scores(answers))


def judgements_again(answers: Sequence[Answer]) -> tuple[int, int, list[Agreement]]:
    """How many judgements a person made again and how many of them came out alike, and the
    agreement of any two people.

    A judgement is about a pair of items, or about the score of one; scores are alike within a tenth
    of their range.
    """
    judged: dict[Any, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    scores = []
    for answer in answers:
        for first, second, won in pair_outcomes([answer]):
            verdict = 0.0
            if won == 1:
                verdict = 1.0 if first < second else -1.0
            pair = frozenset((first, second))
            judged[pair][answer.person].append(verdict)
        if answer.score is not None:
            judged[answer.items][answer.person].append(answer.score)
            scores.append(answer.score)
    tolerance = (max(scores) - min(scores)) / 10 if scores else 0.5
    repeated = consistent = 0
    shared: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for by_person in judged.values():
        for first_value, *later in by_person.values():
            repeated += len(later)
            consistent += sum(abs(first_value - value) <= tolerance for value in later)
        for one, other in combinations(sorted(by_person), 2):
            gap = by_person[one][0] - by_person[other][0]
            shared[one, other].append(abs(gap) <= tolerance)
    agreement = []
    for people, alike in sorted(shared.items()):
        agreement.append((*people, len(alike), sum(alike)))
    return repeated, consistent, agreement


def item_names(table: pa.Table, id: str) -> list[str]:
    """The names of the items as an answer can hold them: on one line, and not too long."""
    names = [name or "" for name in names_in(table, id, "id", "the table")]
    for row, name in enumerate(names):
        if not fits_an_answer(name):
            raise TableError(
                f"the name in data row {row + 1} of column {id!r} must be one line of at most"
                f" {MAX_NAME:,} characters: {name[:40]!r}"
            )
    return names


def fits_an_answer(name: str) -> bool:
    """Whether a name of an item or a person stands on one line, and is not too long."""
    return len(name) <= MAX_NAME and not set("\n\r\0") & set(name)


class AnswersInUse(ValueError):
    """Another process writes to the file of answers."""


class AnswersChanged(OSError):
    """Another program has changed the file of answers while it was open."""


# ---- reading


def is_answers_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins with the header of a file of answers."""
    path = Path(path)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        beginning = file.read(len(_UTF8_MARK) + len(HEADER) + 1)
    line = beginning.removeprefix(_UTF8_MARK)[: len(HEADER) + 1]
    return line.rstrip(b"\r\n") == HEADER.encode()


def read_answers(path: str | os.PathLike[str]) -> AnswerLog:
    """Read a file of answers.

    Lines that were cut or are no text are reported as broken. A line that can be read but makes no
    sense is refused, in a TableError that names it.
    """
    path = Path(path)
    if not path.exists():
        raise TableError(f"there is no file {path}")
    if not is_answers_file(path):
        raise TableError(f"{path} is no file of answers: its first line must be {HEADER}")
    answers: dict[int, Answer] = {}  # by the places of their lines
    # by their numbers, which may be used again where two files were put together
    places: dict[str, list[int]] = {}
    broken: list[int] = []
    taken_back: list[Answer] = []
    highest, place = 0, 1
    with reading(path), open_limited(path, compressed=False) as file:
        file.readline()
        for place, line in enumerate(file, start=2):
            if not line.strip():
                continue
            fields = _fields(line)
            if fields is None:
                broken.append(place)
                continue
            number = int(fields["number"])
            highest = max(highest, number)
            try:
                if fields["answer"] != UNDO:
                    answers[place] = _answer(number, fields)
                    places.setdefault(str(number), []).append(place)
                elif places.get(fields["undoes"]):
                    taken_back.append(answers.pop(places[fields["undoes"]].pop()))
                else:
                    raise ValueError(
                        "undoes must be the number of an answer before it that still counts, got"
                        f" {fields['undoes']!r}"
                    )
            except ValueError as error:
                raise TableError(
                    f"line {place} of {path}: {error}; correct the line or remove it"
                ) from None
    return AnswerLog(list(answers.values()), taken_back, broken, max(highest + 1, place))


def _fields(line: bytes) -> dict[str, str] | None:
    """The fields of a line by the names of their columns; None where the line was cut or is
    damaged.
    """
    if b"\0" in line:
        return None
    try:
        (values,) = csv.reader([line.decode().rstrip("\r\n")], strict=True)
    except (ValueError, csv.Error):
        return None
    if len(values) != len(COLUMNS):
        return None
    fields = dict(zip(COLUMNS, values, strict=True))
    return fields if _NUMBER.fullmatch(fields["number"]) and _TIME.fullmatch(fields["at"]) else None


def _answer(number: int, fields: dict[str, str]) -> Answer:
    """The answer of a line, checked."""
    names = [fields[position] for position in POSITIONS]
    while names and not names[-1]:
        names.pop()
    try:
        score = float(fields["score"]) if fields["score"] else None
    except ValueError:
        raise ValueError(f"score must be a number, got {fields['score']!r}") from None
    words = {name: fields[name] for name in ("kind", "answer", "worst", "person", "at")}
    answer = Answer(number=number, items=tuple(names), score=score, **words)
    answer.check()
    return answer


# ---- writing


class AnswersInMemory:
    """Answers that are kept in memory only.

    Attributes
    ----------
    log : AnswerLog
        What was said, kept up to date. Each change makes a new one.
    """

    def __init__(self) -> None:
        self.log = AnswerLog()

    def append(
        self,
        kind: str,
        items: Sequence[str],
        answer: str,
        worst: str = "",
        score: float | None = None,
        person: str = "",
    ) -> Answer:
        """Keep an answer; that in a file is on the disk when this returns. Takes what `Answer` has."""
        score = None if score is None else float(score)
        number = self.log.next_number
        said = Answer(number, kind, tuple(items), answer, worst, score, person, _now())
        said.check()
        self._write_line(said)
        self.log = self.log.with_answer(said)
        return said

    def undo(self, person: str | None = None, kind: str | None = None) -> Answer | None:
        """Take the last answer back, of a person and of a kind where given; in a file, by a line
        that says so. None without one."""
        last = self.log.last(person, kind)
        if last is None:
            return None
        number = self.log.next_number
        undo = replace(last, number=number, answer=UNDO, worst="", score=None, at=_now())
        self._write_line(undo, undoes=str(last.number))
        self.log = self.log.without(last, number)
        return last

    def _write_line(self, answer: Answer, undoes: str = "") -> None:
        """Memory has no lines."""

    def ensure_saved(self) -> None:
        """Memory has no file."""

    def close(self) -> None:
        """Nothing is open."""


class AnswersFile(AnswersInMemory):
    """A file of answers to write to: created, or taken up where it ends. One process at a time may
    have it open.

    Other programs may delete or change the file in the meantime. One that is gone is written again,
    whole; one that was changed is left as it is, and takes no more answers.

    Attributes
    ----------
    log : AnswerLog
        What the file says, kept up to date. Each change makes a new one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._place = path.absolute()  # the working folder may change
        check_target(path, overwrite=True)
        # unbuffered: what failed to be written is not written later
        self._file = path.open("a+b", buffering=0)
        self._content = b""  # what the file must hold: every answer that was confirmed
        self._unconfirmed = b""  # what a write that failed may have left behind it
        # of the contents, where another program has changed the file
        self._copy: Path | None = None
        try:
            self._take(self._file)
            self._complete_header()
            # before it is read, so that no later change is missed
            self._left = _state(os.fstat(self._file.fileno()))
            self.log = read_answers(path)
            self._file.seek(0)
            self._content = self._file.read()
        except BaseException:
            self._file.close()
            raise

    def _take(self, file: FileIO) -> None:
        try:
            lock(file)
        except OSError as error:
            if error.errno in _IN_USE:  # others: some file systems have no locks
                raise AnswersInUse(
                    f"{self.path} is being written to by another process: close that one, or choose"
                    " another file"
                ) from None

    def _complete_header(self) -> None:
        """Write the header, or the rest of it where a process was killed while it wrote it."""
        header = f"{HEADER}\n".encode()
        self._file.seek(0)
        beginning = self._file.read(len(header))
        if len(beginning) < len(header) and header.startswith(beginning):
            self._content = beginning
            self._add(header[len(beginning) :])

    def _write_line(self, answer: Answer, undoes: str = "") -> None:
        no_names = [""] * (len(POSITIONS) - len(answer.items))
        values = [
            str(answer.number),
            answer.kind,
            *answer.items,
            *no_names,
            answer.answer,
            answer.worst,
            "" if answer.score is None else repr(answer.score),
            undoes,
            answer.person,
            answer.at,
        ]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(values)
        line = text.getvalue().encode()
        fields = _fields(line) if line.count(b"\n") == 1 else None
        if fields is None or list(fields.values()) != values:  # could not be read again
            beginnings = ", ".join(repr(name[:40]) for name in (*answer.items, answer.person))
            raise ValueError(
                "names of items and people must be one line of text each, without NUL and of less"
                f" than 100,000 characters, got {beginnings}"
            )
        self._check_unchanged()
        self._add(line if self._content.endswith(b"\n") else b"\n" + line)

    def _add(self, addition: bytes) -> None:
        """Write bytes at the end of the file and on to the disk; all of them or, with an OSError,
        none.
        """
        self._unconfirmed = addition
        try:
            _write_whole(self._file, addition)
        except OSError:  # what is not confirmed must not count when the file is taken up again
            with suppress(OSError):
                self._cut_back()
            raise
        self._content += addition
        self._confirm()

    def _cut_back(self) -> None:
        """Remove from the end of the file what was never confirmed."""
        os.ftruncate(self._file.fileno(), len(self._content))
        self._confirm()

    def _confirm(self) -> None:
        """Remember how the file is left: it holds the contents, and nothing else."""
        self._left = _state(os.fstat(self._file.fileno()))
        self._unconfirmed = b""
        self._copy = None

    # ---- what other programs do to the file

    def ensure_saved(self) -> None:
        """Make sure that the file at the path holds every answer, as other programs may have
        deleted or changed it.

        Raises
        ------
        AnswersChanged
            If it was changed, so that it lacks answers; they are in a copy beside it, then.
        """
        self._check_unchanged(may_be_longer=True)

    def _check_unchanged(self, *, may_be_longer: bool = False) -> None:
        """Refuse to write to a file that another program has changed; write one that is gone again."""
        try:
            if _state(self._place.stat()) == self._left:
                return
        except OSError:
            pass  # the reason comes below
        if not self._place.exists():
            check_target(self._place, overwrite=True)  # whether its folder is still there
            # where it is a link, the file that it names
            self._go_on_with(self._new_file(Path(os.path.realpath(self._place))))
            return
        try:
            check_target(self._place, overwrite=True)
            present = FileIO(self._place, "r+", opener=_appending)
        except OSError:  # a folder, or a file that nobody may write to
            raise self._change(has_all=False) from None
        try:
            if os.path.sameopenfile(present.fileno(), self._file.fileno()):
                present.close()
                present = self._file
            self._compare(present, may_be_longer=may_be_longer)
        finally:
            if present is not self._file:
                present.close()

    def _compare(self, present: FileIO, *, may_be_longer: bool) -> None:
        """Go on with the file at the path where it holds what it must; else refuse to write to it."""
        is_other = present is not self._file
        in_use = None
        if is_other:
            try:
                self._take(present)
            except AnswersInUse as error:
                in_use = error
        present.seek(0)
        has_all = present.read(len(self._content)) == self._content
        rest = present.read(len(self._unconfirmed) + 1)
        if has_all and rest and not is_other and self._unconfirmed.startswith(rest):
            self._cut_back()
        elif has_all and may_be_longer:
            return
        elif not has_all or rest:
            raise self._change(has_all=has_all)
        elif in_use is not None:
            raise in_use
        else:
            self._go_on_with(present)

    def _go_on_with(self, file: FileIO) -> None:
        """Write to another file from now on, which has the same contents."""
        before, self._file = self._file, file
        if before is not file:
            before.close()
        self._confirm()

    def _new_file(self, path: Path) -> FileIO:
        """A file of its own with all contents, open and as private as the one before it."""
        mode = stat.S_IMODE(os.fstat(self._file.fileno()).st_mode)
        file = FileIO(path, "x+", opener=partial(_appending, mode=mode))
        try:
            self._take(file)
            _write_whole(file, self._content)
        except BaseException:
            file.close()
            path.unlink(missing_ok=True)
            raise
        return file

    def _change(self, *, has_all: bool) -> AnswersChanged:
        """What to say of a file that another program has changed; answers that it lacks are written
        to a copy.
        """
        change = f"{self.path} was changed by another program while it was open here"
        if not has_all:
            try:
                change += f"; what was in it before is in {self._copied().name}"
            except OSError as error:
                change += f", and no copy of what was in it before could be written: {error}"
        return AnswersChanged(f"{change}. Start again to go on with {self.path.name} as it is now")

    def _copied(self) -> Path:
        """A file with all contents beside the one at the path, written once per change."""
        numbers = count(1)
        while self._copy is None or not self._copy.exists():
            copy = self._place.with_stem(f"{self._place.stem}-kept-{next(numbers)}")
            with suppress(FileExistsError):
                self._new_file(copy).close()
                self._copy = copy
        return self._copy

    def close(self) -> None:
        """Close the file, and let another process write to it."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _state(status: os.stat_result) -> tuple[int, ...]:
    """By what it is seen whether a file is the same one, unchanged."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _appending(name: str, flags: int, mode: int = 0o777) -> int:
    return os.open(name, flags | os.O_APPEND, mode)


def _write_whole(file: FileIO, content: bytes) -> None:
    """Write all bytes to an open file, and on to the disk."""
    unwritten = memoryview(content)
    while unwritten:
        unwritten = unwritten[file.write(unwritten) or 0 :]
    os.fsync(file.fileno())


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _listed(words: Any) -> str:
    return " or ".join(map(repr, words))
