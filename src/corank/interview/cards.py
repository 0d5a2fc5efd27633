"""What the page shows of an item: its name, the cells of its row as short texts, and its pictures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corank.encode.kinds import labels
from corank.tables import MISSING, TableError, column, is_text, plain
from corank.tables.columns import UNNAMED_INDEX

MAX_NAME = 10_000  # characters in the name of an item or a person
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


def item_names(table: pa.Table, id: str) -> list[str]:
    """The names of the items as an answer can hold them: on one line, and not too long."""
    distinct, positions = labels(column(table, id, "id"), id)
    names = [(distinct[position] or "").strip() for position in positions]
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
