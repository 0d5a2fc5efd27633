"""Columns of tables: any kind of table becomes a `pyarrow.Table`, its columns become scores, query
labels or numbers.
"""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from narwhals.exceptions import DuplicateError

from corank.core.arrays import FloatArray, NumpyArray
from corank.core.messages import did_you_mean

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "?", "-")
NUMBER_START = re.compile(r"\s*(?:[-+]\s*)?(\.?\d|inf)", re.IGNORECASE)
LARGEST = 1e150  # the square of a feature must stay a finite number
MAX_LISTED_COLUMNS = 20
# what an index without a name is called in a file
UNNAMED_INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__")
# of the years 1 to 9999, counted from 1970
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799


class TableError(ValueError):
    """A table that cannot be used as it is; the message says what is wrong with it."""


def to_arrow(table: Any, names: Container[object] | None = None) -> pa.Table:
    """Any table (pandas without its index, polars, pyarrow, a dict of columns), only the columns
    `names` if given.

    Names of columns must be text and unique; columns that are not asked for may hold anything.
    """
    columns: Iterable[tuple[object, Any]]
    if isinstance(table, pa.Table):
        check_unique(table.column_names, "the table")
        columns = columns_of(table).items()
    elif isinstance(table, Mapping):
        columns = table.items()
    else:
        try:
            frame = nw.from_native(table, eager_only=True)
        except DuplicateError as error:
            raise TableError(
                f"the table has several columns with the same name: {' '.join(str(error).split())}"
            ) from error
        except TypeError as error:
            kind = type(table).__name__
            raise TypeError(
                f"expected a table of pandas, polars (not lazy) or pyarrow, got {kind}"
            ) from error
        columns = ((series.name, series) for series in frame.iter_columns())
    arrays = {
        name: _arrow_column(name, values)
        for name, values in columns
        if names is None or name in names
    }
    try:
        return pa.table(arrays)
    except pa.ArrowInvalid as error:
        raise TableError(f"the columns do not make a table: {error}") from error


def _arrow_column(name: object, values: Any) -> Any:
    if not isinstance(name, str):
        raise TableError(f"column names must be text, but one is {name!r}: rename the columns")
    if isinstance(values, pa.ChunkedArray):
        return values
    try:
        return (
            values.to_arrow()
            if isinstance(values, nw.Series)
            else pa.array(values, from_pandas=True)
        )
    except (pa.ArrowException, TypeError, UnicodeEncodeError) as error:
        raise TableError(
            f"column {name!r} does not hold values of one known kind: {error}"
        ) from error


def column_names(table: Any) -> list[str]:
    """Names of the columns of anything that `to_arrow` takes, as far as they are text."""
    names = table if isinstance(table, Mapping) else nw.from_native(table, eager_only=True).columns
    return [name for name in names if isinstance(name, str)]


def columns_of(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    """The columns of a table by their names, which are unique."""
    return dict(zip(table.column_names, table.columns, strict=True))


def check_unique(names: list[str], where: str) -> None:
    """Refuse names that occur twice; `where` is the table or file that has them."""
    if len(set(names)) < len(names):
        repeated = sorted(name for name, number in Counter(names).items() if number > 1)
        raise TableError(f"{where} has several columns with the same name: {_listed(repeated)}")


# ---- scores, labels, numbers


def column(table: pa.Table, name: str, role: str = "") -> pa.ChunkedArray:
    """The column of that name; `role` is its purpose in one word, or an option, for the error where
    there is none.
    """
    if table.schema.get_field_index(name) < 0:
        names = table.column_names
        guess = did_you_mean(name, names) or "."
        which = (
            f"{role}: there is no column"
            if role.startswith("-")
            else f"there is no {f'{role} column'.strip()}"
        )
        raise TableError(f"{which} {name!r}{guess} The columns are {_listed(names)}")
    return table[name]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MAX_LISTED_COLUMNS} more" if len(names) > MAX_LISTED_COLUMNS else ""
    return ", ".join(map(repr, names[:MAX_LISTED_COLUMNS])) + more


def score_column(table: pa.Table, name: str, unlabelled: float | None = None) -> FloatArray:
    """Scores: (n_rows,), NaN where a row is unscored, also by the score `unlabelled`."""
    values = plain(column(table, name, "score"))
    if is_text(values.type):
        texts = [
            text
            for text in values.unique().to_pylist()
            if text is not None and text.strip() not in MISSING
        ]
        if texts and not any(NUMBER_START.match(text) for text in texts):
            raise TableError(
                f"score column {name!r} holds text, such as {texts[0]!r}, not numbers: is it the"
                " right column?"
            )
    scores = numbers(values, name, "a number: leave the cell empty if the row is unscored")
    return scores if unlabelled is None else np.where(scores == unlabelled, np.nan, scores)


def query_column(table: pa.Table, name: str) -> NumpyArray:
    """Query labels: (n_rows,) whole numbers where the column holds them, else text or dates; none
    may be missing.
    """
    labels = plain(column(table, name, "query"))
    if pa.types.is_nested(labels.type):
        raise TableError(
            f"query column {name!r} holds {labels.type} values: labels must be text, numbers or"
            " dates"
        )
    missing = np.flatnonzero(pc.is_null(labels, nan_is_null=True).to_numpy())
    if missing.size:
        raise TableError(
            f"query column {name!r} has no value in data row {missing[0] + 1}: every row needs a"
            " query"
        )
    return np.asarray(labels.to_numpy())


def numbers(values: pa.ChunkedArray, name: str, what: str = "a number") -> FloatArray:
    """Values of the column `name` as numbers: (n_rows,), NaN where missing; text is parsed, and
    must hold `what`.
    """
    values = plain(values)
    if pa.types.is_float64(values.type):  # the usual case in wide tables
        result = values.to_numpy()
    elif is_text(values.type):
        result = parsed(values, name, what, number)
    elif is_number(values.type) or pa.types.is_null(values.type):
        result = values.cast(pa.float64(), safe=False).to_numpy()
    else:
        raise TableError(
            f"column {name!r} should hold numbers, but holds values of type {values.type}"
        )
    too_large = np.flatnonzero(np.abs(result) > LARGEST)
    if too_large.size:
        row = too_large[0]
        raise TableError(
            f"column {name!r} has an infinite or far too large value, {result[row]}, in data row"
            f" {row + 1}"
        )
    return np.asarray(result, dtype=np.float64)


def parsed(
    values: pa.ChunkedArray, name: str, what: str, parse: Callable[[str], float]
) -> FloatArray:
    """Texts of the column `name` as numbers by `parse`: (n_rows,), NaN where missing; each text
    must be `what`.
    """
    result = np.full(len(values), np.nan)
    for row, text in enumerate(values.to_pylist()):
        try:
            if text is not None and text.strip() not in MISSING:
                result[row] = parse(text)
        except ValueError as error:
            raise TableError(
                f"column {name!r}: {text!r} in data row {row + 1} is not {what}"
            ) from error
    return result


def number(text: str) -> float:
    """The number that a text is; a ValueError where it is none."""
    if "_" in text:  # Python reads 1_000 as a number, people do not
        raise ValueError
    return float(text)


# ---- types of values


def usual_types(table: pa.Table, where: object) -> pa.Table:
    """A table without types that few functions of pyarrow take; dates that no calendar of Python
    has are refused.
    """
    for position, (name, values) in enumerate(zip(table.column_names, table.columns, strict=True)):
        kind = values.type
        if pa.types.is_string_view(kind):
            table = table.set_column(position, name, values.cast(pa.string()))
        elif pa.types.is_binary_view(kind):
            table = table.set_column(position, name, values.cast(pa.binary()))
        elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            _check_dates(values, name, where)
    return table


def _check_dates(values: pa.ChunkedArray, name: str, where: object) -> None:
    if pa.types.is_date(values.type):
        values = values.cast(pa.timestamp("ms"))
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[values.type.unit]
    ends = pc.min_max(values.cast(pa.int64())).as_py()
    if ends["min"] is None:
        return
    if ends["min"] // per_second < FIRST_SECOND or ends["max"] // per_second > LAST_SECOND:
        raise TableError(
            f"column {name!r} of {where} has a date outside the years 1 to 9999: correct it, or"
            " drop the column"
        )


def plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values without the dictionary that categories have."""
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, without the dictionary that categories have."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Whether values of this type are text."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_list(kind: pa.DataType) -> bool:
    """Whether values of this type are lists."""
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether values of this type are numbers, or true and false."""
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
    )


def stacked_tables(first: Any, second: Any) -> pa.Table:
    """The rows of one table and then those of another, whose further columns are left out."""
    first = to_arrow(first)
    second = to_arrow(second, set(first.column_names))
    try:
        for at, name in enumerate(second.column_names):
            declared = first.schema.field(name).type
            if pa.types.is_dictionary(declared) and not pa.types.is_dictionary(
                second.schema.types[at]
            ):
                second = second.set_column(
                    at, name, second[name].cast(declared.value_type).dictionary_encode()
                )
        return pa.concat_tables([first, second], promote_options="permissive")
    except pa.ArrowException as error:
        raise ValueError(f"unscored does not fit X: {error}.") from error
