"""What the page and the widget say and hear: messages of JSON about an interview, and the thread
that keeps it fresh; and what the page shows of an item: its name, the cells of its row as short
texts, and its pictures.

How the messages travel is the subject of `server` and `widget`; what they look like that of
`page.js`.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import date, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corank.interview.interview import Interview, Question, StaleQuestion
from corank.tables import MISSING, column, is_text, plain
from corank.tables.answer_log import KINDS, AnswersInUse
from corank.tables.columns import UNNAMED_INDEX
from corank.tables.write import finite

SHOWN_FIELDS, MORE_FIELDS = 12, 100  # of a card: at once, and behind a fold
# characters: from which a column is shown last; of which the beginning is shown
LONG_TEXT, MAX_TEXT = 80, 3_000
MAX_PLAIN_DIGITS = 10_000  # from here on thousands are set apart: 2,019 would not look like a year
MAX_PICTURE_BYTES = 20_000_000
PICTURE_TYPES = {  # served from the folder of the table; no SVG, which may hold scripts
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".avif": "image/avif",
}
PICTURE_URL = re.compile(
    r"https?://(?=\S*\Z)\S+\.(png|jpe?g|gif|webp|avif|svg)([?#]\S*)?", re.IGNORECASE
)
MAX_SCORE = 1e60  # as learners take
RANKED_ITEMS = 100  # are shown, the best
RETRY = 30.0  # seconds until a ranking that failed is tried again
EXPLAINED = 6  # parts of a difference that are shown, the largest


# ---- items as cards


class Cards:
    """Items of a table as cards.

    Parameters
    ----------
    table : pyarrow.Table of n rows
    names : (n,) what the items are called
    id : the column of the names
    show : names of the columns to show, in this order; None for all
    folder : folder below which paths of pictures lead to files; None where no files are shown
    """

    def __init__(
        self,
        table: pa.Table,
        names: Sequence[str],
        id: str,
        show: Sequence[str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self._names = names
        self._folder = None if folder is None else folder.resolve()
        chosen = show
        if show is None:
            names_shown = [name for name in table.column_names if name != id]
            chosen = [name for name in names_shown if not UNNAMED_INDEX.fullmatch(name)]
        columns = {name: plain(column(table, name, "--show")) for name in chosen or ()}
        columns = {name: values for name, values in columns.items() if _can_be_shown(values.type)}
        if show is None:  # long texts last
            columns = dict(sorted(columns.items(), key=lambda entry: _is_long(entry[1])))
        self._columns = columns
        texts = [values for values in columns.values() if is_text(values.type)]
        self.has_remote_pictures = any(
            pc.any(pc.match_substring_regex(values, r"^\s*https?://")).as_py() for values in texts
        )

    def card(self, row: int) -> dict[str, Any]:
        """A row as the page takes it: title, fields and more of them as (name, text, is it long),
        sources of pictures.
        """
        fields, pictures = [], []
        for at, (name, values) in enumerate(self._columns.items()):
            text = cell_text(values[row].as_py())
            if not text:
                continue
            if PICTURE_URL.fullmatch(text):
                pictures.append(text)
            elif self.picture(row, at) is not None:
                pictures.append(f"picture/{row}/{at}")
            else:
                fields.append((name.replace("_", " "), text, len(text) > LONG_TEXT))
        return {
            "row": row,
            "title": self._names[row],
            "fields": fields[:SHOWN_FIELDS],
            "more": fields[SHOWN_FIELDS:][:MORE_FIELDS],
            "pictures": pictures,
        }

    def picture(self, row: int, at: int) -> Path | None:
        """The file of the picture in a cell: an image below the folder, symbolic links followed,
        else None.
        """
        columns = list(self._columns.values())
        if self._folder is None or not 0 <= at < len(columns) or not 0 <= row < len(self._names):
            return None
        value = columns[at][row].as_py()
        if not isinstance(value, str) or Path(value).suffix.lower() not in PICTURE_TYPES:
            return None
        try:
            path = (self._folder / value).resolve()
            inside = path.is_relative_to(self._folder) and path.suffix.lower() in PICTURE_TYPES
            return (
                path
                if inside and path.is_file() and path.stat().st_size <= MAX_PICTURE_BYTES
                else None
            )
        except (OSError, ValueError):  # a name that no file can have
            return None


def cell_text(value: Any) -> str:
    """A cell for people, empty where it is: numbers with four digits that count, dates as in ISO
    8601.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= MAX_PLAIN_DIGITS else str(value)
    if isinstance(value, float) and np.isnan(value):
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if MAX_PLAIN_DIGITS <= abs(value) < 1e15 else f"{value:.4g}"
    if isinstance(value, datetime):
        return value.isoformat(" ", "minutes").removesuffix(" 00:00")
    if isinstance(value, date):
        return value.isoformat()
    text = str(value).strip()
    if text in MISSING:
        return ""
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT].rstrip() + " …"


def _can_be_shown(kind: pa.DataType) -> bool:
    return not (
        pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    )


def _is_long(values: pa.ChunkedArray) -> bool:
    longest = pc.max(pc.utf8_length(values)).as_py() if is_text(values.type) else 0
    return (longest or 0) > LONG_TEXT


# ---- messages about an interview


def page_file(name: str) -> str:
    """Text of page.html, page.css or page.js."""
    return resources.files("corank.interview").joinpath(name).read_text(encoding="utf-8")


class Page:
    """An interview as a page shows it.

    Parameters
    ----------
    interview : Interview
    cards : what is shown of its items
    heading : the question in words; None for that of its kind
    commands : what to run when it is done
    place : where the answers are, in words
    download : whether the ranking can be had as a file
    on_news : is called, from another thread, when there is a new ranking
    """

    def __init__(
        self,
        interview: Interview,
        cards: Cards,
        *,
        heading: str | None = None,
        commands: Sequence[str] = (),
        place: str = "",
        download: bool = False,
        on_news: Callable[[], None] = lambda: None,
    ) -> None:
        self.interview = interview
        self.cards = cards
        self._about = {
            "kind": interview.kind,
            "heading": heading or KINDS[interview.kind].heading,
            "person": interview.person,
            "items": len(interview.names),
            "place": place,
            "commands": list(commands),
            "download": download,
        }
        self._on_news = on_news
        self._version = 0
        self._problem = ""
        self._learning = True  # from an answer until the ranking has it
        self._wake = threading.Event()
        self._wake.set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep_fresh, name="corank ask", daemon=True)

    def begin(self) -> None:
        """Start to learn from the answers, beside those who give them."""
        self._thread.start()

    def end(self) -> None:
        """Stop learning, once what is under way is done."""
        self._stopped.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _keep_fresh(self) -> None:
        while not self._stopped.is_set():
            self._wake.wait(RETRY if self._problem else None)
            self._wake.clear()
            if self._stopped.is_set():
                return
            self._learning = True
            try:
                self.interview.refresh()
                self._problem = ""
            except Exception as error:  # noqa: BLE001 - answers are safe, and the page must go on
                self._problem = (
                    f"The ranking could not be updated, and is tried again in {RETRY:g} seconds:"
                    f" {error}"
                )
            # glibc would keep more and more memory; others do not
            with suppress(AttributeError, OSError, TypeError):
                ctypes.CDLL(None).malloc_trim(0)
            self._learning = self._wake.is_set()
            self._version += 1
            self._on_news()

    # ---- messages

    def reply(self, message: Any) -> dict[str, Any]:
        """What is said to a message: an object with the entry "action" and those that the action
        needs.
        """
        if not isinstance(message, dict):
            raise TypeError("a message must be an object")
        match message.get("action"):
            case "start":
                asked = self._asked(self.interview.next())
                return {"about": self._about, **asked, "news": self.news()}
            case "news" if message.get("version") == self._version:
                return {"learning": self._learning}
            case "news":
                return {"news": self.news()}
            case "answer":
                return self._answered(message)
            case "undo":
                return self._undone()
            case "why":
                ends = _whole_number(message, "first"), _whole_number(message, "second")
                return {"why": self._why(*ends)}
            case action:
                raise ValueError(f"action must be start, news, answer, undo or why, got {action!r}")

    def _answered(self, message: dict[str, Any]) -> dict[str, Any]:
        number = _whole_number(message, "number")
        answer = _text(message, "answer")
        worst = _text(message, "worst")
        score = message.get("score")
        if score is not None and (isinstance(score, bool) or not isinstance(score, int | float)):
            raise TypeError(f"score must be a number, got {score!r}")
        if score is not None and not abs(score) <= MAX_SCORE:
            raise ValueError(f"score must be a finite number up to {MAX_SCORE:g}")
        try:
            following = self.interview.answer(
                answer, worst, None if score is None else float(score), number=number
            )
        except (OSError, AnswersInUse) as error:
            raise ValueError(
                f"This answer could not be written, so it is not saved: {error}"
            ) from error
        except StaleQuestion:
            note = "That question is not open any more, perhaps because of another page."
            return {**self._asked(self.interview.next()), "note": note}
        self._wake.set()
        return {**self._asked(following), **self._counts()}

    def _undone(self) -> dict[str, Any]:
        try:
            question = self.interview.undo()
        except (OSError, AnswersInUse) as error:
            raise ValueError(
                f"This could not be written, so nothing was taken back: {error}"
            ) from error
        if question is None:
            return {"note": "There is nothing to undo."}
        self._wake.set()
        return {**self._asked(question), **self._counts(), "note": "Taken back."}

    def _counts(self) -> dict[str, int]:
        log = self.interview.log
        return {"answers": log.n_told, "skipped": len(log.answers) - log.n_told}

    def _asked(self, question: Question | None) -> dict[str, Any]:
        if question is None:
            return {"question": None}
        entry = {
            "number": question.number,
            "kind": question.kind,
            "repeated": question.repeated,
            "cards": [self.cards.card(int(row)) for row in question.rows],
        }
        return {"question": entry}

    def news(self) -> dict[str, Any]:
        """The ranking and how settled it is."""
        settled = asdict(self.interview.settled())
        settled["people"] = [[person, number] for person, number in settled["people"].items()]
        learned = self.interview.ranking()
        ranking = None
        if learned is not None:
            rows = learned.order[:RANKED_ITEMS].tolist()
            places = {"low": learned.low, "high": learned.high, "moved": learned.moved}
            items = [
                {
                    "row": row,
                    "name": self.interview.names[row],
                    **{key: int(of[row]) for key, of in places.items()},
                }
                for row in rows
            ]
            ranking = {"items": items, "answers": learned.answers}
        news = {"version": self._version, **self._counts(), "ranking": ranking, "settled": settled}
        message: dict[str, Any] = finite(
            {**news, "learning": self._learning, "problem": self._problem}
        )
        return message

    def _why(self, first: int, second: int) -> dict[str, Any]:
        names = self.interview.names
        if first == second or not all(0 <= row < len(names) for row in (first, second)):
            raise ValueError("two different items are needed")
        explanation = self.interview.explain(first, second)
        tables = explanation.tables(EXPLAINED)
        reasons: dict[str, Any] = finite(
            {
                "first": names[first],
                "second": names[second],
                "sentences": explanation.sentences()[:1],
                "groups": [
                    [title, [[part.name, part.value] for part in parts]]
                    for title, parts in tables.items()
                ],
            }
        )
        return reasons

    def ranking_table(self) -> pa.Table:
        """The latest ranking: place, name, score and its uncertainty."""
        ranking = self.interview.ranking()
        if ranking is None:
            raise ValueError("there is no ranking yet: answer a few questions")
        order = ranking.order
        values = {
            "score": ranking.scores[order],
            "std": ranking.std[order],
            "rank_low": ranking.low[order],
            "rank_high": ranking.high[order],
        }
        id = self.interview.id
        name = f"{id} of the item" if id in ("rank", *values) else id
        names = [self.interview.names[row] for row in order]
        return pa.table({"rank": np.arange(1, len(order) + 1), name: names, **values})


def _whole_number(message: dict[str, Any], name: str) -> int:
    value = message.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    return value


def _text(message: dict[str, Any], name: str) -> str:
    value = message.get(name, "")
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, got {value!r}")
    return value
