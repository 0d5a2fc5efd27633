"""Kinds of columns of a table, and their values: numbers, days, labels, items and vectors.

A column of text types is a date where one format reads all of it, a number where all of it has one
unit (23.56 EUR), text where most of its values differ and have several words, and else a category.
Numbered columns such as `emb_0`, `emb_1`, … of about one spread are one vector.
"""

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from corank.core.arrays import FloatArray
from corank.core.sampling import in_order_of_contents
from corank.tables import (
    LARGEST,
    MISSING,
    TableError,
    is_list,
    is_number,
    is_text,
    numbers,
    parsed,
    plain,
)

FEWEST_TEXTS = 10  # different values of a column that is text
DISTINCT_SHARE = 0.5  # least share of different values of a column that is text
LEAST_WORDS = 3.0  # in the mean of a column that is text
FEWEST_COMPONENTS = 8  # numbered columns that make a vector
SPREAD_RATIO = 10.0  # between the spreads of the components of a vector and their median, at most
TICKS_PER_DAY = {"s": 86_400.0, "ms": 86_400e3, "us": 86_400e6, "ns": 86_400e9}
DATE_FORMATS = {  # how dates are written, and the shape of such a text
    "%Y-%m-%d": r"^\d{4}-\d{1,2}-\d{1,2}$",
    "%Y/%m/%d": r"^\d{4}/\d{1,2}/\d{1,2}$",
    "%d/%m/%Y": r"^\d{1,2}/\d{1,2}/\d{4}$",
    "%m/%d/%Y": r"^\d{1,2}/\d{1,2}/\d{4}$",
    "%d.%m.%Y": r"^\d{1,2}\.\d{1,2}\.\d{4}$",
    "%d-%m-%Y": r"^\d{1,2}-\d{1,2}-\d{4}$",
    "%m-%d-%Y": r"^\d{1,2}-\d{1,2}-\d{4}$",
    "%d %b %Y": r"^\d{1,2} [A-Za-z]+ \d{4}$",
    "%d-%b-%Y": r"^\d{1,2}-[A-Za-z]+-\d{4}$",
    "%b %d, %Y": r"^[A-Za-z]+ \d{1,2}, \d{4}$",
    "%Y-%m-%d %H:%M": r"^\d{4}-\d\d-\d\d \d\d:\d\d$",
    "%Y-%m-%d %H:%M:%S": r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$",
    "%Y-%m-%dT%H:%M:%S": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$",
}
# what a format that begins with the day may be taken for
DAY_FIRST = {"%d/%m/%Y": "%m/%d/%Y", "%d-%m-%Y": "%m-%d-%Y"}
CURRENCIES = r"[$€£¥₹]|USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|SEK|NOK|DKK|PLN|CZK|BRL"
UNITS = (
    rf"{CURRENCIES}|%|k?g|mg|lbs?|oz|[kcm]?m|mi|ft|[mc]?l|k?Wh?|[kMGT]B|s|sec|ms|min|h|hours?|days?|years?|px|°?[CF]|hp|"
    "rpm|k?cal|[kMG]?Hz"
)
# Languages without spaces: every sign counts as a word.
_WORD = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]|[\p{L}\p{N}]+"
_NUMBERED = re.compile(r"(.*\D)(\d+)")
_AMOUNT = re.compile(rf"({CURRENCIES})?\s*([-+]?\d[\d.,]*)\s*({UNITS})?")
_THOUSANDS = re.compile(
    r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?|[-+]?\d{1,3}(?:\.\d{3}){2,}(?:,\d*)?|[-+]?\d{1,3}(?:\.\d{3})+,\d*"
)
_GENERAL = re.compile(
    r"(x|f|v|c|col|column|feat|feature|var|variable|attr|attribute)[\W_]*", re.IGNORECASE
)


# ---- kinds


def kind_of_type(name: str, kind: pa.DataType) -> str:
    """The kind of a column as far as the type of its values says it: text types are categories
    here.
    """
    types = pa.types
    if is_text(kind) or (types.is_dictionary(kind) and kind_of_type(name, kind.value_type)):
        return "category"
    if is_number(kind):
        return "number"
    if types.is_date(kind) or types.is_timestamp(kind):
        return "date"
    if types.is_time(kind) or types.is_duration(kind):
        return "duration"
    if types.is_null(kind):
        return "empty"
    if is_list(kind):
        if is_number(kind.value_type) or types.is_null(kind.value_type):
            return "vector"
        raise TableError(
            f"column {name!r} holds lists of {kind.value_type}, which cannot become features: a"
            " list of numbers of one length can; leave the column out"
        )
    raise TableError(
        f"column {name!r} holds {kind} values, which cannot become features: leave it out"
    )


def kind_of_column(name: str, values: pa.ChunkedArray) -> tuple[str, str]:
    """The kind of a column, and the format of its dates or the unit of its numbers where they are
    text.
    """
    kind = kind_of_type(name, values.type)
    if not is_text(values.type):
        return kind, ""
    values = values.cast(pa.large_string())
    if date_format := format_of_dates(values):
        return "date", date_format
    if unit := unit_of_numbers(values):
        return "number", unit
    return ("text" if is_free_text(values) else "category"), ""


def is_free_text(values: pa.ChunkedArray) -> bool:
    """Whether most values that are not empty differ and have several words."""
    present = present_texts(values)
    if len(present.unique()) < max(FEWEST_TEXTS, DISTINCT_SHARE * len(present)):
        return False
    return bool(pc.mean(pc.count_substring_regex(present, _WORD)).as_py() >= LEAST_WORDS)


def format_of_dates(values: pa.ChunkedArray) -> str:
    """The format that reads every text of a column as a date, the day first where it could be the
    month; or nothing.
    """
    texts = present_texts(values.unique())
    if len(texts) == 0:
        return ""
    has_year = pc.match_substring_regex(texts[0:1], r"\d{4}")
    if not has_year[0].as_py():
        return ""
    formats = [date_format for date_format in DATE_FORMATS if _reads_all(date_format, texts)]
    is_only = len(formats) == 1 or (len(formats) == 2 and DAY_FIRST.get(formats[0]) == formats[1])
    return formats[0] if is_only else ""


def other_reading(values: pa.ChunkedArray, date_format: str) -> bool:
    """Whether the days of a column could all be months too."""
    return date_format in DAY_FIRST and _reads_all(
        DAY_FIRST[date_format], present_texts(values.unique())
    )


def unit_of_numbers(values: pa.ChunkedArray) -> str:
    """The one unit or currency of every text of a column of numbers, such as EUR; nothing where
    there is none.
    """
    texts = present_texts(values.unique())
    if len(texts) < 2 or not _AMOUNT.fullmatch(texts[0].as_py()):
        return ""
    units = set()
    for text in texts.to_pylist():
        match = _AMOUNT.fullmatch(text)
        if match is None or (match[1] and match[3]):
            return ""
        units.add(match[1] or match[3] or "")
    return units.pop() if len(units) == 1 else ""


def _amount(unit: str, text: str) -> float:
    """The number of a text that has this unit, or none."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or (match[1] or match[3] or unit) != unit:
        raise ValueError
    digits = match[2]
    if _THOUSANDS.fullmatch(digits):
        comma_is_decimal = digits.rfind(",") > digits.rfind(".") >= 0 or "," not in digits
        digits = digits.replace("." if comma_is_decimal else ",", "")
    return float(digits.replace(",", "."))


def _reads_all(date_format: str, texts: pa.Array) -> bool:
    shaped = pc.all(pc.match_substring_regex(texts, DATE_FORMATS[date_format])).as_py()
    return bool(shaped) and pc.strptime(texts, date_format, "s", error_is_null=True).null_count == 0


def present_texts(texts: Any) -> Any:
    """Texts without blanks around them, and without those that mark a missing value."""
    trimmed = pc.utf8_trim_whitespace(texts.cast(pa.large_string()))
    is_missing = pc.is_in(trimmed, pa.array([*MISSING, None], pa.large_string()))
    return trimmed.filter(pc.invert(is_missing))


# ---- vectors in numbered columns


@dataclass(frozen=True)
class NumberedColumns:
    """Columns `prefix0`, `prefix1`, … that are the components of one vector.

    names : of the columns; centres, spreads : (n,) their means and standard deviations
    divisor : the root of the mean of their variances
    """

    prefix: str
    names: tuple[str, ...]
    centres: FloatArray
    spreads: FloatArray
    divisor: float


def numbered_columns(
    table: Mapping[str, pa.ChunkedArray], names: Iterable[str]
) -> list[NumberedColumns]:
    """The vectors among the columns `names`: float numbers without gaps whose names count on, and
    whose spreads are alike.

    General names, such as x0, x1, … or feature_0, feature_1, …, say nothing of a vector.
    """
    runs: dict[str, dict[int, str]] = {}
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match and not _GENERAL.fullmatch(match[1]):
            runs.setdefault(match[1], {})[int(match[2])] = name
    vectors = []
    for prefix, columns in runs.items():
        positions = sorted(columns)
        are_consecutive = positions[-1] - positions[0] == len(positions) - 1
        if len(positions) < FEWEST_COMPONENTS or positions[0] > 1 or not are_consecutive:
            continue
        ordered = tuple(columns[position] for position in positions)
        vectors.append(_vector(prefix, ordered, [table[name] for name in ordered]))
    return [vector for vector in vectors if vector is not None]


def _vector(
    prefix: str, names: tuple[str, ...], columns: list[pa.ChunkedArray]
) -> NumberedColumns | None:
    """The columns as one vector, None where they are rather numbers on their own."""
    if not all(pa.types.is_floating(values.type) and values.null_count == 0 for values in columns):
        return None
    matrix = np.stack([values.cast(pa.float64()).to_numpy() for values in columns], axis=1)
    if not np.isfinite(matrix).all() or np.abs(matrix).max(initial=0.0) > LARGEST:
        return None  # each column says for itself what is missing or too large
    matrix = in_order_of_contents(matrix)
    spreads = matrix.std(axis=0)
    varying = spreads[spreads > 0]
    if len(varying) < FEWEST_COMPONENTS or (matrix == np.round(matrix)).all():
        return None
    median = np.median(varying)
    if not median / SPREAD_RATIO <= varying.min() <= varying.max() <= median * SPREAD_RATIO:
        return None
    divisor = float(np.sqrt(np.mean(spreads**2)))
    return NumberedColumns(prefix, names, matrix.mean(axis=0), spreads, divisor)


# ---- values


def quantity(values: pa.ChunkedArray, name: str, kind: str, format: str = "") -> FloatArray:
    """Numbers as they are, dates and durations in days: (n_rows,), NaN where missing.

    `format` : how dates are written, or the unit of numbers
    """
    values = plain(values)
    if kind == "number" and format and is_text(values.type):
        return parsed(values, name, f"a number of {format}", partial(_amount, format))
    if kind in ("number", "vector"):
        return numbers(values, name)
    if kind == "date" and is_text(values.type):
        return parsed(values, name, f"a date like {date_example(format)}", partial(_days, format))
    present_kind = kind_of_type(name, values.type)
    if present_kind not in (kind, "empty"):
        raise TableError(
            f"column {name!r} should hold a {kind} in each row as in fit, but holds {values.type}"
            " values"
        )
    if pa.types.is_date(values.type):
        values = values.cast(pa.timestamp("ms"))
    elif pa.types.is_time32(values.type):
        values = values.cast(pa.time64("us"))
    if present_kind == "empty":
        return np.full(len(values), np.nan)
    ticks = values.cast(pa.int64()).cast(pa.float64(), safe=False).to_numpy()
    return np.asarray(ticks / TICKS_PER_DAY[values.type.unit], dtype=np.float64)


def date_example(date_format: str) -> str:
    """A date as a format writes it; that of ISO where there is none."""
    return dt.date(2024, 12, 31).strftime(date_format or "%Y-%m-%d")


def _days(date_format: str, text: str) -> float:
    """Days since 1970 of a text in a format, or in that of ISO."""
    text = text.strip()
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        if not date_format:
            raise
        try:
            moment = dt.datetime.strptime(text, date_format)
        except ValueError:  # the names of months may be long
            moment = dt.datetime.strptime(text, date_format.replace("%b", "%B"))
    start = dt.datetime(1970, 1, 1, tzinfo=moment.tzinfo and dt.UTC)
    return (moment - start) / dt.timedelta(days=1)


def labels(values: pa.ChunkedArray, name: str) -> tuple[list[str | None], NDArray[np.intp]]:
    """Distinct labels, None for missing, and for each row the position of its label."""
    if kind_of_type(name, values.type) == "vector":
        raise TableError(f"column {name!r} holds {values.type} values, which have no labels")
    values = plain(values)
    if is_text(values.type) or pa.types.is_null(values.type):
        values = values.cast(pa.large_string())
    encoded = values.combine_chunks().dictionary_encode()
    distinct = [_label(value) for value in encoded.dictionary.to_pylist()]
    codes = encoded.indices.fill_null(len(distinct))
    positions = codes.to_numpy(zero_copy_only=False).astype(np.intp)
    return [*distinct, None], positions


def _label(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):  # whole numbers turn into floats where some are missing
        if np.isnan(value):
            return None
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)


def item_codes(values: pa.ChunkedArray, name: str) -> FloatArray:
    """A whole number per row that stands for the name of its item: (n_rows,); 7, 7.0 and "7" are
    one name.

    Rows without a name are items of their own, with numbers below 0. Two of a million names have
    the same number with a chance of 0.2 %.
    """
    distinct, positions = labels(values, name)
    codes = np.full(len(distinct), -1.0)
    for position, label in enumerate(distinct):
        if label is not None and label.strip():
            digest = blake2b(label.strip().encode(), digest_size=6).digest()
            # of 48 bits, which float64 holds exactly
            codes[position] = int.from_bytes(digest, "big")
    of_rows = codes[positions]
    unnamed = -1.0 - np.arange(len(of_rows))
    return np.where(of_rows < 0, unnamed, of_rows)


def texts(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """The texts of a column."""
    values = plain(values)
    if not is_text(values.type) and not pa.types.is_null(values.type):
        raise TableError(f"column {name!r} should hold text, but holds {values.type} values")
    return values.cast(pa.large_string())


def vectors(
    values: pa.ChunkedArray, name: str, size: int | None = None
) -> tuple[FloatArray, NDArray[np.intp]]:
    """The vectors of a column of lists, (n_present, size), and the rows that have one."""
    if pa.types.is_null(values.type):
        values = values.cast(pa.list_(pa.float64()))
    if not is_list(values.type) or kind_of_type(name, values.type) != "vector":
        raise TableError(
            f"column {name!r} should hold a list of numbers in each row, but holds {values.type}"
            " values"
        )
    rows = np.flatnonzero(values.is_valid().to_numpy())
    present = values.drop_null()
    sizes = pc.list_value_length(present).to_numpy()
    expected = size if size is not None else int(sizes[0]) if len(sizes) else 0
    if (odd := np.flatnonzero(sizes != expected)).size:
        raise TableError(
            f"column {name!r} has a vector of length {sizes[odd[0]]} in data row {rows[odd[0]] + 1}"
            f" and others of length {expected}: all must have one length"
        )
    numbers_of_all = pc.list_flatten(present).cast(pa.float64()).to_numpy()
    matrix = np.asarray(numbers_of_all, dtype=np.float64).reshape(len(rows), expected)
    bad = np.flatnonzero(~(np.abs(matrix) <= LARGEST).all(axis=1))
    if bad.size:
        row = rows[bad[0]] + 1
        raise TableError(
            f"column {name!r} has a missing, infinite or far too large number in the vector of data"
            f" row {row}"
        )
    return matrix, rows
