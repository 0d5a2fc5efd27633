"""TableEncoder: a table of numbers, dates and text becomes a matrix, by rules that can be kept as JSON and arrays.

A `Column` holds what was learned about one column. Files and kinds of tables are the subject of `tables`.
"""

import datetime as dt
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from corank._messages import near_names
from corank.tables import (
    LARGEST,
    TableError,
    column_names,
    is_number,
    is_text,
    number,
    numbers,
    parsed,
    plain,
    to_arrow,
)

KINDS = ("number", "date", "duration", "text", "empty")
MAX_UNREPEATED_ROWS = 20  # with more rows, all with different texts, a column holds names, not a property
MAX_NUMBER_SHARE = 0.8  # a text column with a larger share of numbers was probably meant to hold numbers
NO_REPEATS = "no text occurs twice, as in a column of names or labels"
TICKS_PER_DAY = {"s": 86_400.0, "ms": 86_400e3, "us": 86_400e6, "ns": 86_400e9}


@dataclass(frozen=True, kw_only=True)
class Column:
    """What was learned about one column.

    dropped : why the column is not used; empty if it is
    values : whether its numbers are used; not where only missing values tell rows apart
    missing : whether missing values are marked in an extra feature
    categories : texts with a feature each; other : whether all other texts share one
    fill : stands for a missing number; a number becomes (number - centre) / divisor
    """

    name: str
    kind: str
    dropped: str = ""
    values: bool = False
    missing: bool = False
    categories: tuple[str, ...] = ()
    other: bool = False
    fill: float = 0.0
    centre: float = 0.0
    divisor: float = 1.0

    def feature_names(self) -> list[str]:
        """Names of the features of this column, in their order."""
        if self.dropped:
            return []
        names = [self.name] if self.values else [f"{self.name}={label}" for label in self.categories]
        return names + [f"{self.name} other"] * self.other + [f"{self.name} missing"] * self.missing

    def encode(self, values: pa.ChunkedArray, out: NDArray[np.float64]) -> None:
        """Fill `out`, zeros of shape (n_rows, n_features of this column)."""
        if self.kind == "text":
            labels, codes = _labels(values, self.name)
            positions: dict[str | None, int] = {label: position for position, label in enumerate(self.categories)}
            positions[None] = out.shape[1] - 1 if self.missing else -1
            other = len(self.categories) if self.other else -1
            features = np.array([positions.get(label, other) for label in labels], dtype=np.intp)[codes]
            rows = np.flatnonzero(features >= 0)
            out[rows, features[rows]] = 1.0
            return
        quantity = _quantity(values, self.name, self.kind)
        missing = np.isnan(quantity)
        if self.values:
            out[:, 0] = (np.where(missing, self.fill, quantity) - self.centre) / self.divisor
        if self.missing:
            out[:, -1] = missing

    def treatment(self) -> str:
        """How the column becomes features, in plain words."""
        if self.dropped:
            return f"dropped: {self.dropped}"
        if self.kind == "text":
            steps = [f"one 0/1 column for each of {len(self.categories)} values"]
            steps += ["one for all others"] * self.other + ["one for missing"] * self.missing
            return ", ".join(steps)
        if not self.values:
            return "always the same where known: only a 0/1 column for missing is kept"
        steps = [{"number": "as a number", "date": "as days since 1970", "duration": "in days"}[self.kind]]
        steps += [f"missing becomes {self.fill:.6g}" + " and is marked in a 0/1 column" * self.missing]
        if (self.centre, self.divisor) != (0.0, 1.0):
            steps += [f"minus {self.centre:.6g}, divided by {self.divisor:.6g}"]
        return ", ".join(steps)


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn a table into a matrix of numbers.

    Numbers, dates (in days) and true/false: missing values become the median, and are marked in a 0/1 column where the
    fitted table has some. Text and categories: a 0/1 column for each of the most frequent values, one for all others, one
    for missing values where the fitted table has some. A column without information is dropped: all missing, always the
    same, or a different text in each of more than 20 rows.

    Parameters
    ----------
    max_categories : int
        Number of values of a text column that get a 0/1 column each.
    scale : bool
        Whether numbers are centred and divided by their standard deviation.

    Attributes
    ----------
    columns_ : tuple of Column
        What was learned about each column.
    dropped_ : dict
        For each column that is not used, why.
    feature_names_in_ : ndarray of str
    n_features_in_ : int
    attributes_ : ndarray of int
        Number of the table's column from which each column of the matrix comes.
    """

    def __init__(self, max_categories: int = 50, scale: bool = True) -> None:
        self.max_categories = max_categories
        self.scale = scale

    def fit(self, table: Any, y: object = None) -> Self:
        """Learn medians, scales and categories.

        Parameters
        ----------
        table : pandas, polars or pyarrow table
        y : ignored

        Returns
        -------
        self
        """
        _check_max_categories(self.max_categories)
        table = to_arrow(table)
        if table.num_rows == 0 or table.num_columns == 0:
            raise ValueError("the table is empty: at least one row and one column are needed")
        columns = tuple(_learn(name, table[name], self.max_categories, bool(self.scale)) for name in table.column_names)
        if all(column.dropped for column in columns):
            why = "; ".join(f"{column.name!r}: {column.dropped}" for column in columns)
            raise ValueError(f"no column of the table can be used ({why})")
        for column in columns:
            if column.dropped == NO_REPEATS:
                warnings.warn(f"column {column.name!r} is dropped: {column.dropped}", UserWarning, stacklevel=2)
            if column.kind == "text" and (odd := _odd_among_numbers(table[column.name])):
                warnings.warn(
                    f"{odd[0]} % of {column.name!r} are numbers, except for instance {odd[1]!r}, so it is treated as text: "
                    "leave such cells empty to have it as numbers",
                    UserWarning,
                    stacklevel=2,
                )
        return self._learned(columns)

    def _learned(self, columns: tuple[Column, ...]) -> Self:
        self.columns_ = columns
        self.dropped_ = {column.name: column.dropped for column in columns if column.dropped}
        self.feature_names_in_ = np.array([column.name for column in columns], dtype=object)
        self.n_features_in_ = len(columns)
        widths = [len(column.feature_names()) for column in columns]
        self.attributes_ = np.repeat(np.arange(len(columns)), widths)
        return self

    def transform(self, table: Any) -> NDArray[np.float64]:
        """Turn a table into a matrix by what was learned.

        Parameters
        ----------
        table : pandas, polars or pyarrow table
            Columns in any order; those that were not there in `fit` are ignored.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
        """
        check_is_fitted(self)
        used = [column for column in self.columns_ if not column.dropped]
        columns = to_arrow(table, {column.name for column in used})
        absent = [column.name for column in used if column.name not in columns.column_names]
        if absent:
            others = set(column_names(table)) - {column.name for column in self.columns_}
            listed = ", ".join(_with_near_names(name, others) for name in absent)
            raise ValueError(f"the table lacks columns it had in fit: {listed}")
        matrix = np.zeros((columns.num_rows, len(self.attributes_)))
        start = 0
        for column in used:
            stop = start + len(column.feature_names())
            column.encode(columns[column.name], matrix[:, start:stop])
            start = stop
        return matrix

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:
        """Names of the columns of the matrix.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        taken: Counter[str] = Counter()
        names = []
        for name in (name for column in self.columns_ for name in column.feature_names()):
            taken[name] += 1
            names.append(name if taken[name] == 1 else f"{name} ({taken[name]})")
        return np.array(names, dtype=object)

    @property
    def text_columns(self) -> list[str]:
        """Columns that hold text: hand them to `read_table(text=...)`, so that a new file is read alike."""
        check_is_fitted(self)
        return [column.name for column in self.columns_ if column.kind == "text"]

    def summary(self) -> list[dict[str, str]]:
        """Say what is done with each column.

        Returns
        -------
        list of dict
            With `column`, `kind` and `treatment`, in plain words.
        """
        check_is_fitted(self)
        return [{"column": each.name, "kind": each.kind, "treatment": each.treatment()} for each in self.columns_]

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
        """Everything learned, for a file.

        Returns
        -------
        header : dict
            Can be written as JSON.
        arrays : dict of ndarray
            Each of shape (n_columns,).
        """
        check_is_fitted(self)
        columns = [{key: getattr(column, key) for key in _HEADER} for column in self.columns_]
        header = {
            "max_categories": int(self.max_categories),
            "scale": bool(self.scale),
            "columns": [{**column, "categories": list(column["categories"])} for column in columns],
        }
        return header, {key: np.array([getattr(column, key) for column in self.columns_]) for key in _SCALING}

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, NDArray[np.float64]]) -> Self:
        """Rebuild an encoder from `to_state`; `corank.load` checks both before.

        Parameters
        ----------
        header : dict
        arrays : dict of ndarray

        Returns
        -------
        TableEncoder
        """
        scaling = [dict(zip(arrays, row, strict=True)) for row in np.stack([*arrays.values()], axis=1).tolist()]
        columns = tuple(
            Column(**{**entry, **scaled, "categories": tuple(entry["categories"])})
            for entry, scaled in zip(header["columns"], scaling, strict=True)
        )
        return cls(max_categories=header["max_categories"], scale=header["scale"])._learned(columns)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.categorical = tags.input_tags.string = tags.input_tags.allow_nan = True
        return tags


# ---- learning


def _learn(name: str, values: pa.ChunkedArray, max_categories: int, scale: bool) -> Column:
    kind = _kind(name, values.type)
    if kind == "text":
        return _learn_categories(name, values, max_categories)
    quantity = np.empty(0) if kind == "empty" else _quantity(values, name, kind)
    missing = np.isnan(quantity)
    if missing.all():
        return Column(name=name, kind=kind, dropped="all values are missing")
    fill = float(np.median(quantity[~missing]))
    filled = np.where(missing, fill, quantity)
    largest = float(np.abs(filled).max()) or 1.0
    spread = float(np.std(filled / largest)) * largest  # squares of large numbers would overflow
    constant = bool(filled.min() == filled.max()) or spread < max(4 * np.finfo(float).eps * largest, 1 / LARGEST)
    if constant and not missing.any():
        return Column(name=name, kind=kind, dropped="always the same value")
    centre, divisor = (float(np.mean(filled)), spread) if scale and not constant else (0.0, 1.0)
    marked = bool(missing.any())
    return Column(name=name, kind=kind, values=not constant, missing=marked, fill=fill, centre=centre, divisor=divisor)


def _learn_categories(name: str, values: pa.ChunkedArray, max_categories: int) -> Column:
    labels, codes = _labels(values, name)
    counts: Counter[str] = Counter()
    for label, count in zip(labels, np.bincount(codes, minlength=len(labels)).tolist(), strict=True):
        if label is not None:
            counts[label] += count  # different values may have one label, such as 1 and 1.0
    missing = len(codes) > counts.total()
    if not counts:
        return Column(name=name, kind="text", dropped="all values are missing")
    if len(counts) == 1 and not missing:
        return Column(name=name, kind="text", dropped="always the same value")
    if MAX_UNREPEATED_ROWS < len(counts) == counts.total():
        return Column(name=name, kind="text", dropped=NO_REPEATS)
    frequent = sorted(counts, key=lambda label: (-counts[label], label))[:max_categories]
    other = len(counts) > max_categories
    return Column(name=name, kind="text", categories=tuple(sorted(frequent)), other=other, missing=missing)


def _odd_among_numbers(values: pa.ChunkedArray) -> tuple[int, str] | None:
    """Percent of numbers in a text column, and the most frequent text that is none; None where numbers are few."""
    if not is_text(values.type):
        return None
    table = values.drop_null().value_counts()
    texts, counts = table.field("values").to_pylist(), table.field("counts").to_numpy(zero_copy_only=False)
    odd = np.array([not _is_number(text) for text in texts], dtype=bool)
    share = 1 - counts[odd].sum() / counts.sum() if len(counts) else 0.0
    if share <= MAX_NUMBER_SHARE or not odd.any():
        return None
    return int(100 * share), texts[int(np.argmax(np.where(odd, counts, 0)))]


def _is_number(text: str) -> bool:
    try:
        number(text)
    except ValueError:
        return False
    return True


def _with_near_names(name: str, others: Iterable[str]) -> str:
    """The name of a missing column, and the names of columns that may have been meant."""
    close = near_names(name, others)
    return repr(name) + (f" (did you mean {' or '.join(map(repr, close))}?)" if close else "")


# ---- values of a column


def _kind(name: str, kind: pa.DataType) -> str:
    types = pa.types
    if is_text(kind) or (types.is_dictionary(kind) and _kind(name, kind.value_type)):
        return "text"
    if is_number(kind):
        return "number"
    if types.is_date(kind) or types.is_timestamp(kind):
        return "date"
    if types.is_time(kind) or types.is_duration(kind):
        return "duration"
    if types.is_null(kind):
        return "empty"
    raise TableError(f"column {name!r} holds {kind} values, which cannot become features: leave it out")


def _quantity(values: pa.ChunkedArray, name: str, kind: str) -> NDArray[np.float64]:
    """Numbers as they are, dates and durations in days; NaN where missing."""
    values = plain(values)
    if kind == "number":
        return numbers(values, name)
    if kind == "date" and is_text(values.type):
        return parsed(values, name, "a date like 2024-12-31", _days)
    present_kind = _kind(name, values.type)
    if present_kind not in (kind, "empty"):
        raise TableError(f"column {name!r} should hold a {kind} in each row as in fit, but holds {values.type} values")
    if pa.types.is_date(values.type):
        values = values.cast(pa.timestamp("ms"))
    elif pa.types.is_time32(values.type):
        values = values.cast(pa.time64("us"))
    if present_kind == "empty":
        return np.full(len(values), np.nan)
    days = values.cast(pa.int64()).cast(pa.float64(), safe=False).to_numpy() / TICKS_PER_DAY[values.type.unit]
    return np.asarray(days, dtype=np.float64)


def _days(text: str) -> float:
    moment = dt.datetime.fromisoformat(text.strip())
    return (moment - dt.datetime(1970, 1, 1, tzinfo=moment.tzinfo and dt.UTC)) / dt.timedelta(days=1)


def _labels(values: pa.ChunkedArray, name: str) -> tuple[list[str | None], NDArray[np.intp]]:
    """Distinct labels, None for missing, and for each row the position of its label."""
    _kind(name, values.type)  # refuses types that have no labels
    values = plain(values)
    values = values.cast(pa.large_string()) if is_text(values.type) or pa.types.is_null(values.type) else values
    encoded = values.combine_chunks().dictionary_encode()
    labels = [_label(value) for value in encoded.dictionary.to_pylist()]
    codes = encoded.indices.fill_null(len(labels)).to_numpy(zero_copy_only=False).astype(np.intp)
    return [*labels, None], codes


def _label(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):  # whole numbers turn into floats where some are missing
        if np.isnan(value):
            return None
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)


# ---- state

_SCALING = ("fill", "centre", "divisor")
_HEADER = tuple(field.name for field in fields(Column) if field.name not in _SCALING)


def _check_max_categories(value: object) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ValueError(f"max_categories must be a whole number from 1, got {value!r}")
