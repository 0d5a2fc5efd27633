"""Items by their names, whole numbers or text: the rows of a table by what one of its columns calls
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corank.core.arrays import Index
from corank.core.messages import count
from corank.tables.columns import TableError, column, plain, to_arrow
from corank.tables.read import TableFile

TIE = "tie"  # a word that takes the place of a name
HOW_TO_TIE = (
    "write a tie as two rows, a win for each, or with --method difference as a margin of 0; the"
    " word tie is understood only in answered questions of corank suggest"
)
WHOLE_NUMBER = r"^\s*[+-]?\d{1,18}\s*$"


class NamedItems:
    """The rows of a table by the names that one of its columns gives them.

    `query` : the name of the query column and (n_rows,) the query of each row, where only items of
    one query are compared; or None
    """

    def __init__(
        self, file: TableFile, name: str, table: pa.Table, query: tuple[str, Index] | None = None
    ) -> None:
        self.file = file
        self.name = name
        self.query = query
        self.labels = names_in(table, name, "item", file)
        self._rows = rows_by_name(self.labels, name, f" of {file}")

    def __contains__(self, label: str) -> bool:
        return label in self._rows

    def rows_of(
        self, wanted: Sequence[str | None], file: TableFile, name: str, place: str = ""
    ) -> Index:
        """The rows that the column `name` of another file means: (n,); `place` of a name in it,
        where that is no row.
        """
        rows = np.array([self._rows.get(label or "", -1) for label in wanted], dtype=np.int64)
        if (rows < 0).any():
            at = int(np.argmax(rows < 0))
            label = wanted[at]
            if label is None:
                raise TableError(f"column {name!r} of {file} has no value in data row {at + 1}")
            remedy = f": {HOW_TO_TIE}" if label.lower() == TIE else ""
            raise TableError(
                f"{label!r} in {place or f'data row {at + 1} of {file}'} is not in column"
                f" {self.name!r} of {self.file}{remedy}"
            )
        return rows

    def pairs_of(
        self,
        labels: Sequence[Sequence[str | None]],
        file: TableFile,
        names: tuple[str, str],
        place: str = "",
    ) -> tuple[Index, Index]:
        """The rows that two columns of another file mean, of different items of one query; `place`
        as in `rows_of`.
        """
        first, second = (
            self.rows_of(wanted, file, name, place)
            for wanted, name in zip(labels, names, strict=True)
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
                f"{place or f'data row {at + 1} of {file}'} compares {pair}, which differ in the"
                f" query column {query!r}"
            )
        return first, second


def rows_by_name(names: Iterable[str | None], column: str, place: str = "") -> dict[str, int]:
    """The row of every item by its name, of which each must have one of its own; place : of the
    column, in words.
    """
    rows: dict[str, int] = {}
    for row, name in enumerate(names):
        if not name:
            raise TableError(
                f"column {column!r}{place} has no value in data row {row + 1}: every item needs a"
                " name"
            )
        if rows.setdefault(name, row) != row:
            raise TableError(
                f"{name!r} is in data rows {rows[name] + 1} and {row + 1}{place}: names in column"
                f" {column!r} must be unique"
            )
    return rows


def names_in(table: pa.Table, name: str, role: str, file: object) -> list[str | None]:
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


# ---- names of linked items in columns, and the rows that have them


def identifiers(values: Any) -> pa.ChunkedArray:
    """A column of names of items, checked."""
    if not isinstance(values, pa.ChunkedArray):
        values = to_arrow({"ids": values})["ids"]
    column = plain(values)
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        raise ValueError(
            f"links: items are named by whole numbers or text, but a column holds {column.type}"
            " values."
        )
    return column


def row_numbers(column: pa.ChunkedArray, n: int) -> Index:
    """Row numbers from 0: (m,), all of them in range."""
    numbers = _whole_numbers(column)
    if numbers is None or numbers.null_count:
        example = next((value for value in column.to_pylist() if not _is_whole(value)), None)
        raise ValueError(
            f"links: without ids= links hold row numbers, whole numbers from 0 to {n - 1}, but one"
            f" is {example!r}."
        )
    rows = np.asarray(numbers.to_numpy(), dtype=np.int64)
    wrong = np.flatnonzero((rows < 0) | (rows >= n))
    if wrong.size:
        raise ValueError(
            f"links: row number {rows[wrong[0]]} of link {wrong[0]} is out of range: X has"
            f" {count(n, 'row')}, numbered from 0. Where links name items by ids, give ids=."
        )
    return rows


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def rows_of_ids(columns: Sequence[pa.ChunkedArray], ids: Any, n: int) -> list[Index]:
    """The row of every name in the columns: (m,) each, -1 where no row has that id."""
    names = identifiers(ids)
    if len(names) != n:
        raise ValueError(f"ids has {count(len(names), 'name')}, but X has {count(n, 'row')}.")
    missing = np.flatnonzero(pc.is_null(names, nan_is_null=True).to_numpy())
    if missing.size:
        raise ValueError(f"ids has no value in row {missing[0]}: every item needs a name.")
    _check_no_repeats(names)
    return [_positions(column, names) for column in columns]


def _check_no_repeats(names: pa.ChunkedArray, alike: str = "") -> None:
    counts = pc.value_counts(names)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        first = repeated[0].as_py()
        raise ValueError(
            f"ids: {first['values']!r} names {first['counts']} rows{alike}, but a link must lead to"
            " a single row."
        )


def _positions(values: pa.ChunkedArray, names: pa.ChunkedArray) -> Index:
    """Positions (m,) in `names` of the values of a column, -1 where they are not there.

    Numbers and text are matched where the texts are whole numbers, such as 12 and "12".
    """
    name_numbers = _whole_numbers(names)
    value_numbers = _whole_numbers(values)
    if name_numbers is None and value_numbers is None:
        name_numbers = _texts(names)
        value_numbers = _texts(values)
    elif name_numbers is None:
        name_numbers = _parsed_numbers(names, "ids hold text", "links hold numbers")
        alike = " when read as a number, as links hold numbers"
        _check_no_repeats(name_numbers.drop_null(), alike)
    elif value_numbers is None:
        value_numbers = _parsed_numbers(values, "links hold text", "ids are numbers")
    known = name_numbers.combine_chunks()
    positions = pc.index_in(value_numbers, value_set=known, skip_nulls=True)
    return np.asarray(pc.fill_null(positions, -1).to_numpy(), dtype=np.int64)


def _whole_numbers(values: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Values as int64, null where missing; None where they are not whole numbers."""
    if pa.types.is_integer(values.type):
        return values.cast(pa.int64(), safe=False)
    if pa.types.is_null(values.type):
        return values.cast(pa.int64())
    if not pa.types.is_floating(values.type):
        return None
    present = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    try:
        return present.cast(pa.int64())
    except pa.ArrowInvalid:
        return None


def _texts(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return values.cast(pa.large_string())


def _parsed_numbers(values: pa.ChunkedArray, holder: str, other: str) -> pa.ChunkedArray:
    """Texts as int64, null where a text is no whole number; an error where none is."""
    texts = _texts(values)
    is_number = pc.match_substring_regex(texts, WHOLE_NUMBER)
    trimmed = pc.utf8_trim_whitespace(texts)
    digits = pc.if_else(is_number, trimmed, pa.scalar(None, pa.large_string()))
    numbers = pc.ascii_ltrim(digits, "+").cast(pa.int64())
    if numbers.null_count == len(numbers) and len(numbers):
        example = next((text for text in texts.to_pylist() if text is not None), None)
        raise ValueError(f"{holder}, such as {example!r}, but {other}: is it the right column?")
    return numbers
