"""Columns of tables: any kind of table becomes a `pyarrow.Table`, its columns scores, query labels or numbers."""

import difflib
import re
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "none", "?", "-")
NUMBER_LIKE = re.compile(r"\s*[-+]?\s*(\.?\d|inf)", re.IGNORECASE)
LARGEST = 1e150  # the square of a feature must stay a number


class TableError(ValueError):
    """A table that cannot be used as it is; the message says what is wrong with it."""


def to_arrow(table: Any, names: Container[object] | None = None) -> pa.Table:
    """Any table (pandas without its index, polars, pyarrow, a dict of columns), only `names` if given.

    Names of columns are text and unique; columns that are not asked for may hold anything.
    """
    columns: Iterable[tuple[object, Any]]
    if isinstance(table, pa.Table):
        check_unique(table.column_names, "the table")
        columns = zip(table.column_names, table.columns, strict=True)
    elif isinstance(table, Mapping):
        columns = table.items()
    else:
        try:
            frame = nw.from_native(table, eager_only=True)
        except DuplicateError as error:
            raise TableError(f"the table has several columns of one name: {' '.join(str(error).split())}") from error
        except TypeError as error:
            kind = type(table).__name__
            raise TypeError(f"expected a table of pandas, polars (not lazy) or pyarrow, got {kind}") from error
        columns = ((series.name, series) for series in frame.iter_columns())
    try:
        return pa.table({name: _arrow_column(name, each) for name, each in columns if names is None or name in names})
    except pa.ArrowInvalid as error:
        raise TableError(f"the columns do not make a table: {error}") from error


def column_names(table: Any) -> list[str]:
    """Names of the columns of anything that `to_arrow` takes, as far as they are text."""
    names = table if isinstance(table, Mapping) else nw.from_native(table, eager_only=True).columns
    return [name for name in names if isinstance(name, str)]


def _arrow_column(name: object, values: Any) -> Any:
    if not isinstance(name, str):
        raise TableError(f"column names must be text, but one is {name!r}: rename the columns")
    if isinstance(values, pa.ChunkedArray):
        return values
    try:
        return values.to_arrow() if isinstance(values, nw.Series) else pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, UnicodeEncodeError) as error:
        raise TableError(f"column {name!r} does not hold values of one known kind: {error}") from error


def check_unique(names: list[str], where: str) -> None:
    """Refuse names that occur twice; `where` is what has them."""
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise TableError(f"{where} has several columns of one name: {', '.join(map(repr, twice))}")


# ---- columns


def column(table: pa.Table, name: str, role: str = "") -> pa.ChunkedArray:
    """Pick a column; `role` is what it is for, in a word, said in the error if it is not there."""
    names = table.column_names
    if name not in names:
        close = near_names(name, names)
        guess = f"; did you mean {' or '.join(map(repr, close))}?" if close else "."
        there = ", ".join(map(repr, names[:20])) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
        raise TableError(f"there is no {role + ' ' if role else ''}column {name!r}{guess} The columns are {there}")
    return table[name]


def near_names(name: str, names: Iterable[str]) -> list[str]:
    """Those of the names that may have been meant, the nearest first; upper and lower case are alike."""
    folded = {each.lower(): each for each in names}
    return [folded[each] for each in difflib.get_close_matches(name.lower(), folded)]


def score_column(table: pa.Table, name: str) -> NDArray[np.float64]:
    """Scores: (n_rows,), NaN where missing."""
    values = plain(column(table, name, "score"))
    if is_text(values.type) and (example := _if_only_words(values)) is not None:
        raise TableError(f"score column {name!r} holds text, such as {example!r}, not numbers: is it the right column?")
    return numbers(values, name, "a number: leave the cell empty where a row is unscored")


def _if_only_words(values: pa.ChunkedArray) -> str | None:
    """The first of texts none of which even begins like a number, None where one does or there is nothing at all."""
    told = [value for value in values.unique().to_pylist() if value is not None and value.strip() not in MISSING]
    return told[0] if told and not any(NUMBER_LIKE.match(value) for value in told) else None


def query_column(table: pa.Table, name: str) -> NDArray[Any]:
    """Query labels: (n_rows,) whole numbers where the column holds them, else text or dates; none may be missing."""
    labels = plain(column(table, name, "query"))
    if pa.types.is_nested(labels.type):
        raise TableError(f"query column {name!r} holds {labels.type} values: labels must be text, numbers or dates")
    missing = np.flatnonzero(pc.is_null(labels, nan_is_null=True).to_numpy())
    if missing.size:
        raise TableError(f"query column {name!r} has no value in data row {missing[0] + 1}: every row needs a query")
    return np.asarray(labels.to_numpy())


def plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values without a dictionary, as categories have one."""
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, without a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Whether values of this type are text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether values of this type are numbers or true and false."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def numbers(values: pa.ChunkedArray, name: str, what: str = "a number") -> NDArray[np.float64]:
    """Values of the column `name`, each `what`, as numbers: (n_rows,), NaN where missing; text is parsed."""
    values = plain(values)
    if is_text(values.type):
        result = parsed(values, name, what, number)
    elif is_number(values.type) or pa.types.is_null(values.type):
        result = values.cast(pa.float64(), safe=False).to_numpy()
    else:
        raise TableError(f"column {name!r} should hold numbers, but holds values of type {values.type}")
    wild = np.flatnonzero(np.abs(result) > LARGEST)
    if wild.size:
        value = result[wild[0]]
        raise TableError(f"column {name!r} has an infinite or far too large value, {value}, in data row {wild[0] + 1}")
    return np.asarray(result, dtype=np.float64)


def parsed(values: pa.ChunkedArray, name: str, what: str, parse: Callable[[str], float]) -> NDArray[np.float64]:
    """Texts of the column `name`, each `what`, as numbers: (n_rows,), NaN where missing."""
    result = np.full(len(values), np.nan)
    for row, value in enumerate(values.to_pylist()):
        try:
            if value is not None and value.strip() not in MISSING:
                result[row] = parse(value)
        except ValueError as error:
            raise TableError(f"column {name!r}: {value!r} in data row {row + 1} is not {what}") from error
    return result


def number(text: str) -> float:
    """The number that a text is; a ValueError if it is none."""
    if "_" in text:  # Python reads 1_000 as a number, people do not
        raise ValueError
    return float(text)
