"""Names of items in columns, whole numbers or text, and the rows that have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corank.core.arrays import Index
from corank.core.messages import count
from corank.tables.columns import plain, to_arrow

WHOLE_NUMBER = r"^\s*[+-]?\d{1,18}\s*$"


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
