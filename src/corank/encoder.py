"""TableEncoder: a table of numbers, dates, categories, text and vectors becomes a matrix, by rules that a file can keep.

A `Column` holds what was learned about one column. What kind of column it is, and its values, are the subject of
`column_kinds`, text that of `text`, files and kinds of tables that of `tables`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from corank._messages import did_you_mean, in_bytes, near_names, warn_user
from corank.column_kinds import (
    NumberedColumns,
    kind_of_column,
    labels,
    numbered_columns,
    quantity,
    texts,
    vectors,
)
from corank.tables import LARGEST, column_names, is_text, number, to_arrow
from corank.text import TextFeatures

if TYPE_CHECKING:
    from corank.views import View

Item = TypeVar("Item")
KINDS = ("number", "date", "duration", "category", "text", "vector", "empty")
MAX_UNREPEATED_ROWS = 20  # with more rows, all with different labels, a column holds names, not a property
MAX_NUMBER_SHARE = 0.8  # a column of categories with a larger share of numbers was probably meant to hold numbers
MAX_MISSING_SHOWN = 10  # names of columns in a message
MAX_BLOCK_NUMBERS = 2**20  # that are summarised at a time
MAX_JOINED_NAMES = 3  # in the name of a group
NO_REPEATS = "no text occurs twice, as in a column of names or labels"
ALL_MISSING, CONSTANT, IGNORED = "all values are missing", "always the same value", "ignored as asked"
DAYS_PER_YEAR = 365.2425


@dataclass(frozen=True)
class FeatureGroup:
    """Columns of the matrix that belong together.

    Attributes
    ----------
    name : that of the column, a pattern such as `emb_*`, or the first columns of the table between commas
    kind : "text", "vector" or "table": all numbers, dates and categories
    columns : (k,) numbers of the columns of the matrix
    """

    name: str
    kind: str
    columns: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Column:
    """What was learned about one column.

    dropped : why the column is not used; empty if it is
    values : whether its numbers are used; not where only missing values tell rows apart
    missing : whether missing values are marked in an extra feature
    categories : labels with a feature each; other : whether all other labels share one
    year, season : whether a date has features for its year, and for the place of its day in the year
    date_format : how dates are written, empty for that of ISO
    vector : the name of the vector that a numbered column is a component of
    fill : stands for a missing number; a number becomes (number - centre) / divisor
    text : features of a column of text
    centres : (n,) the mean of a column of vectors, whose differences from it are divided by `divisor`
    """

    name: str
    kind: str
    dropped: str = ""
    values: bool = False
    missing: bool = False
    categories: tuple[str, ...] = ()
    other: bool = False
    year: bool = False
    season: bool = False
    date_format: str = ""
    vector: str = ""
    fill: float = 0.0
    centre: float = 0.0
    divisor: float = 1.0
    text: TextFeatures | None = field(default=None, compare=False)
    centres: NDArray[np.float64] | None = field(default=None, compare=False)

    def feature_names(self) -> list[str]:
        """Names of the features of this column, in their order."""
        if self.dropped:
            return []
        if self.text is not None:
            return [f"{self.name} component {at}" for at in range(1, len(self.text.components) + 1)]
        if self.centres is not None:
            return [f"{self.name} {at}" for at in range(1, len(self.centres) + 1)]
        names = [self.name] if self.values else [f"{self.name}={label}" for label in self.categories]
        names += [f"{self.name} year"] * self.year
        names += [f"{self.name} season (sine)", f"{self.name} season (cosine)"] * self.season
        return names + [f"{self.name} other"] * self.other + [f"{self.name} missing"] * self.missing

    @property
    def is_single_number(self) -> bool:
        """Whether a number is all that becomes of a cell."""
        return self.kind in ("number", "vector") and self.values and not self.missing

    def group(self) -> tuple[str, str]:
        """Kind and name of the group that the features of this column belong to."""
        if self.kind == "text":
            return "text", self.name
        if self.kind == "vector":
            return "vector", f"{self.vector}*" if self.vector else self.name
        return "table", ""

    def encode(self, values: pa.ChunkedArray, out: NDArray[np.float64]) -> None:
        """Fill `out`, zeros of shape (n_rows, n_features of this column)."""
        if self.text is not None:
            self.text.encode(texts(values, self.name), out)
        elif self.centres is not None:
            matrix, rows = vectors(values, self.name, len(self.centres))
            out[rows] = (matrix - self.centres) / self.divisor
        elif self.kind == "category":
            self._encode_labels(values, out)
        else:
            self._encode_quantity(values, out)

    def _encode_labels(self, values: pa.ChunkedArray, out: NDArray[np.float64]) -> None:
        distinct, codes = labels(values, self.name)
        positions: dict[str | None, int] = {label: position for position, label in enumerate(self.categories)}
        positions[None] = out.shape[1] - 1 if self.missing else -1
        other = len(self.categories) if self.other else -1
        features = np.array([positions.get(label, other) for label in distinct], dtype=np.intp)[codes]
        rows = np.flatnonzero(features >= 0)
        out[rows, features[rows]] = 1.0

    def _encode_quantity(self, values: pa.ChunkedArray, out: NDArray[np.float64]) -> None:
        amounts = quantity(values, self.name, self.kind, self.date_format)
        missing = np.isnan(amounts)
        filled = np.where(missing, self.fill, amounts)
        if self.values:
            out[:, 0] = (filled - self.centre) / self.divisor
        if self.year:
            out[:, 1] = (_first_days_of_years(filled) - self.centre) / self.divisor
        if self.season:
            angle = 2 * np.pi * (filled - _first_days_of_years(filled)) / DAYS_PER_YEAR
            start = 1 + self.year
            out[:, start], out[:, start + 1] = np.sin(angle), np.cos(angle)
        if self.missing:
            out[:, -1] = missing

    def treatment(self) -> str:
        """How the column becomes features, in plain words."""
        if self.dropped:
            return f"dropped: {self.dropped}"
        if self.text is not None:
            return f"{self.text.treatment()} ({in_bytes(self.text.nbytes)})"
        if self.centres is not None:
            return f"{len(self.centres)} components, minus their means, divided by {self.divisor:.6g}"
        if self.vector:
            return f"component of a vector, {self.vector}*, minus {self.centre:.6g}, divided by {self.divisor:.6g}"
        if self.kind == "category":
            steps = [f"one 0/1 column for each of {len(self.categories)} values"]
            steps += ["one for all others"] * self.other + ["one for missing"] * self.missing
            return ", ".join(steps)
        if not self.values:
            return "always the same where known: only a 0/1 column for missing is kept"
        steps = [{"number": "as a number", "date": "as days since 1970", "duration": "in days"}[self.kind]]
        steps += ["its year"] * self.year + ["its season as sine and cosine"] * self.season
        steps += [f"missing becomes {self.fill:.6g}" + " and is marked in a 0/1 column" * self.missing]
        if (self.centre, self.divisor) != (0.0, 1.0):
            steps += [f"minus {self.centre:.6g}, divided by {self.divisor:.6g}"]
        return ", ".join(steps)


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn a table into a matrix of numbers.

    Numbers, dates (in days) and true/false: missing values become the median, and are marked in a 0/1 column where the
    fitted table has some. Dates of several years and months have features for their year and season too; texts such as
    31/12/2024 are dates where one way of reading them fits the whole column.

    Categories: a 0/1 column for each of the most frequent values, one for all others, one for missing values where the
    fitted table has some. Text, that is a column of strings of three words or more in the mean, at least half of them
    different: tf-idf of words and character n-grams, reduced to at most 50 components, scaled as one.

    Vectors, such as embeddings: a column of lists of numbers of one length, or numbered float columns `emb_0`, `emb_1`, …
    (eight or more, of about one spread; not x0, x1, … and other general names); centred, and divided by one number.

    A column without information is dropped: all missing, always the same, or a different label in each of more than 20
    rows.

    Parameters
    ----------
    max_categories : int
        Number of values of a column of categories that get a 0/1 column each.
    scale : bool
        Whether numbers and vectors are centred and divided by their standard deviation.
    text, category, number, ignore : sequence of str
        Names of columns that are text, categories or numbers whatever they look like, and of columns to leave out.

    Attributes
    ----------
    columns_ : tuple of Column
        What was learned about each column.
    dropped_ : dict
        For each column that is not used, why.
    groups_ : list of FeatureGroup
        Columns of the matrix that belong together: each text, each vector, and all numbers, dates and categories.
    feature_names_in_ : ndarray of str
    n_features_in_ : int
    attributes_ : ndarray of int
        Number of the table's column from which each column of the matrix comes.
    """

    def __init__(
        self,
        max_categories: int = 50,
        scale: bool = True,
        text: Sequence[str] = (),
        category: Sequence[str] = (),
        number: Sequence[str] = (),
        ignore: Sequence[str] = (),
    ) -> None:
        self.max_categories = max_categories
        self.scale = scale
        self.text = text
        self.category = category
        self.number = number
        self.ignore = ignore

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
        self._fit(to_arrow(table))
        return self

    def fit_transform(self, table: Any, y: object = None, **parameters: object) -> NDArray[np.float64]:
        """Learn from a table and turn it into a matrix; the same as `fit` and `transform`, with texts read once.

        Parameters
        ----------
        table : pandas, polars or pyarrow table
        y, parameters : ignored

        Returns
        -------
        ndarray of shape (n_rows, n_features)
        """
        table = to_arrow(table)
        encoded_texts = self._fit(table)
        return self._matrix(table, encoded_texts)

    def _fit(self, table: pa.Table) -> dict[str, NDArray[np.float64]]:
        """Learn from a table; returns the texts that are encoded already, by the names of their columns."""
        _check_max_categories(self.max_categories)
        if table.num_rows == 0 or table.num_columns == 0:
            raise ValueError("the table is empty: at least one row and one column are needed")
        cells = dict(zip(table.column_names, table.columns, strict=True))
        kinds = self._kinds(cells)
        components = _components_of_vectors(cells, [name for name, (kind, _) in kinds.items() if kind == "number"])
        encoded_texts: dict[str, NDArray[np.float64]] = {}
        learned: dict[str, Column] = {}
        quantities: dict[str, tuple[str, str]] = {}
        for name, (kind, date_format) in kinds.items():
            if kind == "ignored":
                learned[name] = Column(name=name, kind="empty", dropped=IGNORED)
            elif kind == "text":
                learned[name], encoded = _learn_text(name, cells[name])
                if encoded is not None:
                    encoded_texts[name] = encoded
            elif kind == "category":
                learned[name] = _learn_categories(name, cells[name], self.max_categories)
            elif kind == "vector":
                learned[name] = _learn_vectors(name, cells[name], bool(self.scale))
            elif kind == "empty":
                learned[name] = Column(name=name, kind=kind, dropped=ALL_MISSING)
            elif name in components and name not in self._names("number"):
                learned[name] = _learn_component(name, *components[name], bool(self.scale))
            else:
                quantities[name] = kind, date_format
        learned |= _learn_quantities(cells, quantities, bool(self.scale))
        columns = [learned[name] for name in cells]
        if all(column.dropped for column in columns):
            raise ValueError(f"no column of the table can be used ({_listed(columns)})")
        for column in columns:
            _warn_of(column, cells[column.name])
        self._learned(tuple(columns))
        return encoded_texts

    def _kinds(self, cells: Mapping[str, pa.ChunkedArray]) -> dict[str, tuple[str, str]]:
        """The kind of each column, as asked or else as it looks, and the format of its dates."""
        asked: dict[str, str] = {}
        for option, kind in (("text", "text"), ("category", "category"), ("number", "number"), ("ignore", "ignored")):
            for name in self._names(option):
                if name not in cells:
                    raise ValueError(f"{option}: the table has no column {name!r}{did_you_mean(str(name), cells)}")
                if asked.setdefault(name, kind) != kind:
                    raise ValueError(f"{option}: column {name!r} is called {asked[name]} too; say one of them")
        return {
            name: (asked[name], "") if name in asked else kind_of_column(name, values) for name, values in cells.items()
        }

    def _names(self, option: str) -> list[str]:
        """The columns that an option names, also where it is a single name."""
        names = getattr(self, option)
        return [names] if isinstance(names, str) else list(names)

    def _learned(self, columns: tuple[Column, ...]) -> Self:
        self.columns_ = columns
        self.dropped_ = {column.name: column.dropped for column in columns if column.dropped}
        self.feature_names_in_ = np.array([column.name for column in columns], dtype=object)
        self.n_features_in_ = len(columns)
        widths = [len(column.feature_names()) for column in columns]
        self.attributes_ = np.repeat(np.arange(len(columns)), widths)
        self.groups_ = _groups(columns, self.attributes_)
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
        return self._matrix(table, {})

    def _matrix(self, table: Any, encoded_texts: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        used = [column for column in self.columns_ if not column.dropped]
        columns = to_arrow(table, {column.name for column in used})
        cells = dict(zip(columns.column_names, columns.columns, strict=True))
        absent = [column.name for column in used if column.name not in cells]
        if absent:
            others = set(column_names(table)) - {column.name for column in self.columns_}
            listed = ", ".join(_with_near_names(name, others) for name in absent[:MAX_MISSING_SHOWN])
            more = f" and {len(absent) - MAX_MISSING_SHOWN:,} more" if len(absent) > MAX_MISSING_SHOWN else ""
            raise ValueError(f"the table lacks columns it had in fit: {listed}{more}")
        matrix = np.zeros((columns.num_rows, len(self.attributes_)))
        single_numbers: list[tuple[int, Column]] = []
        start = 0
        for column in used:
            if column.is_single_number:
                matrix[:, start] = quantity(cells[column.name], column.name, column.kind)
                single_numbers.append((start, column))
                start += 1
                continue
            stop = start + len(column.feature_names())
            if column.name in encoded_texts:
                matrix[:, start:stop] = encoded_texts[column.name]
            else:
                column.encode(cells[column.name], matrix[:, start:stop])
            start = stop
        for block in _blocks(single_numbers, columns.num_rows):
            _scale([at for at, _ in block], [column for _, column in block], matrix)
        return matrix

    def views(self) -> list[View]:
        """One view per group of `groups_`, over columns of the matrix.

        Returns
        -------
        list of View
        """
        from corank.views import View  # views know model files, which know this encoder

        check_is_fitted(self)
        return [View(group.columns, name=group.name) for group in self.groups_]

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

    def with_these_kinds(self) -> TableEncoder:
        """An encoder, not fitted, for which columns are text and categories as they are for this one.

        Returns
        -------
        TableEncoder
        """
        check_is_fitted(self)
        kinds = {kind: [each.name for each in self.columns_ if each.kind == kind] for kind in ("text", "category")}
        return TableEncoder(self.max_categories, self.scale, **kinds, number=self.number, ignore=self.ignore)

    @property
    def text_columns(self) -> list[str]:
        """Columns of text and categories: hand them to `read_table(text=...)`, so that a new file is read alike."""
        check_is_fitted(self)
        return [column.name for column in self.columns_ if column.kind in ("text", "category")]

    def summary(self) -> list[dict[str, str]]:
        """Say what is done with each column.

        Returns
        -------
        list of dict
            With `column`, `kind` and `treatment`, in plain words.
        """
        check_is_fitted(self)
        return [{"column": each.name, "kind": each.kind, "treatment": each.treatment()} for each in self.columns_]

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything learned, for a file.

        Returns
        -------
        header : dict
            Can be written as JSON.
        arrays : dict of ndarray
            `fill`, `centre` and `divisor` (n_columns,); for a column of text `text.K.idf` and `text.K.components`, for one
            of vectors `vector.K.centres`, where K is the number of the column.
        """
        check_is_fitted(self)
        entries: list[dict[str, Any]] = []
        arrays = {key: np.array([getattr(column, key) for column in self.columns_]) for key in _SCALING}
        for position, column in enumerate(self.columns_):
            entry = {key: getattr(column, key) for key in _HEADER}
            entry |= {"categories": list(column.categories), "words": None, "characters": None}
            if column.text is not None:
                for key in ("words", "characters"):
                    terms = getattr(column.text, key)
                    entry[key] = terms if isinstance(terms, int) else list(terms)
                arrays[f"text.{position}.idf"] = column.text.idf
                arrays[f"text.{position}.components"] = column.text.components
            if column.centres is not None:
                arrays[f"vector.{position}.centres"] = column.centres
            entries.append(entry)
        header = {"max_categories": int(self.max_categories), "scale": bool(self.scale), "columns": entries}
        return {**header, **{option: self._names(option) for option in _OPTIONS}}, arrays

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Rebuild an encoder from `to_state`; `corank.load` checks both before.

        Parameters
        ----------
        header : dict
        arrays : dict of ndarray

        Returns
        -------
        TableEncoder
        """
        scaling = np.stack([arrays[key] for key in _SCALING], axis=1).tolist()
        columns = []
        for position, (entry, numbers) in enumerate(zip(header["columns"], scaling, strict=True)):
            words, characters = (_terms(entry[key]) for key in ("words", "characters"))
            text = None
            if words is not None and characters is not None:
                text = TextFeatures(
                    words, characters, arrays[f"text.{position}.idf"], arrays[f"text.{position}.components"]
                )
            learned = {key: entry[key] for key in _HEADER} | dict(zip(_SCALING, numbers, strict=True))
            learned |= {"categories": tuple(entry["categories"])}
            columns.append(Column(**learned, text=text, centres=arrays.get(f"vector.{position}.centres")))
        options = {option: tuple(header[option]) for option in _OPTIONS}
        return cls(header["max_categories"], header["scale"], **options)._learned(tuple(columns))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.categorical = tags.input_tags.string = tags.input_tags.allow_nan = True
        return tags


# ---- learning


def _learn_quantities(
    cells: Mapping[str, pa.ChunkedArray], kinds: Mapping[str, tuple[str, str]], scale: bool
) -> dict[str, Column]:
    """What was learned about columns of numbers, dates and durations, many columns at a time.

    `kinds` : the kind of each of these columns, and the format of its dates
    """
    learned: dict[str, Column] = {}
    names = list(kinds)
    for block in _blocks(names, len(next(iter(cells.values())))):
        amounts = np.stack([quantity(cells[name], name, *kinds[name]) for name in block])
        for name, row, numbers in zip(block, amounts, _summaries(amounts), strict=True):
            learned[name] = _learn_quantity(name, row, *kinds[name], numbers, scale)
    return learned


def _blocks(columns: list[Item], n_rows: int) -> Iterator[list[Item]]:
    """Columns in blocks of at most MAX_BLOCK_NUMBERS numbers, or of one column."""
    size = max(1, MAX_BLOCK_NUMBERS // max(n_rows, 1))
    for start in range(0, len(columns), size):
        yield columns[start : start + size]


def _scale(positions: list[int], columns: list[Column], matrix: NDArray[np.float64]) -> None:
    """Fill and scale the given columns of a matrix, numbers as they are in the table."""
    fill, centre, divisor = np.array([(each.fill, each.centre, each.divisor) for each in columns]).T
    amounts = matrix[:, positions]
    matrix[:, positions] = (np.where(np.isnan(amounts), fill, amounts) - centre) / divisor


def _summaries(amounts: NDArray[np.float64]) -> list[tuple[float, float, float, bool, bool]]:
    """Median, mean and spread of each row (k, n) without NaN, whether it is constant, and whether it has NaN.

    Mean and spread are those of the row with its median in place of NaN.
    """
    missing = np.isnan(amounts)
    marked = missing.any(axis=1)
    fill = np.zeros(len(amounts))
    fill[~marked] = np.median(amounts[~marked], axis=1)
    for row in np.flatnonzero(marked & ~missing.all(axis=1)):
        fill[row] = np.median(amounts[row, ~missing[row]])
    filled = np.where(missing, fill[:, None], amounts)
    low, high = filled.min(axis=1), filled.max(axis=1)
    largest = np.maximum(np.abs(low), np.abs(high))
    largest[largest == 0] = 1.0
    spread = np.std(filled / largest[:, None], axis=1) * largest  # squares of large numbers would overflow
    constant = (low == high) | (spread < np.maximum(4 * np.finfo(float).eps * largest, 1 / LARGEST))
    columns = (fill, np.mean(filled, axis=1), spread, constant, marked)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _learn_quantity(
    name: str,
    amounts: NDArray[np.float64],
    kind: str,
    date_format: str,
    numbers: tuple[float, float, float, bool, bool],
    scale: bool,
) -> Column:
    fill, mean, spread, constant, marked = numbers
    if constant and not marked:
        return Column(name=name, kind=kind, dropped=CONSTANT)
    if marked and np.isnan(amounts).all():
        return Column(name=name, kind=kind, dropped=ALL_MISSING)
    learned: dict[str, Any] = {"values": not constant, "missing": marked, "fill": fill}
    if scale and not constant:
        learned |= {"centre": mean, "divisor": spread}
    if kind == "date" and not constant:
        days = np.floor(amounts[~np.isnan(amounts)]).astype("datetime64[D]")
        learned["year"] = len(np.unique(days.astype("datetime64[Y]"))) > 1
        learned["season"] = len(np.unique(days.astype("datetime64[M]").astype(np.int64) % 12)) > 1
        learned["date_format"] = date_format
    return Column(name=name, kind=kind, **learned)


def _first_days_of_years(days: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first of January of the year of each day, in days since 1970 as the days are."""
    years = np.floor(days).astype("datetime64[D]").astype("datetime64[Y]")
    return years.astype("datetime64[D]").astype(np.float64)


def _learn_categories(name: str, values: pa.ChunkedArray, max_categories: int) -> Column:
    distinct, codes = labels(values, name)
    counts: Counter[str] = Counter()
    for label, count in zip(distinct, np.bincount(codes, minlength=len(distinct)).tolist(), strict=True):
        if label is not None:
            counts[label] += count  # different values may have one label, such as 1 and 1.0
    missing = len(codes) > counts.total()
    if not counts:
        return Column(name=name, kind="category", dropped=ALL_MISSING)
    if len(counts) == 1 and not missing:
        return Column(name=name, kind="category", dropped=CONSTANT)
    if MAX_UNREPEATED_ROWS < len(counts) == counts.total():
        return Column(name=name, kind="category", dropped=NO_REPEATS)
    frequent = sorted(counts, key=lambda label: (-counts[label], label))[:max_categories]
    other = len(counts) > max_categories
    return Column(name=name, kind="category", categories=tuple(sorted(frequent)), other=other, missing=missing)


def _learn_text(name: str, values: pa.ChunkedArray) -> tuple[Column, NDArray[np.float64] | None]:
    """What was learned about a column of text, and its texts encoded where that was a by-product."""
    cells = texts(values, name)
    if len(cells) > 1 and len(cells.unique()) == 1 and cells[0].as_py():
        return Column(name=name, kind="text", dropped=CONSTANT), None
    features, encoded = TextFeatures.learn(cells)
    if features is None:
        return Column(name=name, kind="text", dropped="all texts are empty, or none has a word"), None
    return Column(name=name, kind="text", text=features), encoded


def _learn_vectors(name: str, values: pa.ChunkedArray, scale: bool) -> Column:
    matrix, _ = vectors(values, name)
    if len(matrix) == 0:
        return Column(name=name, kind="vector", dropped=ALL_MISSING)
    largest = float(np.abs(matrix).max(initial=0.0)) or 1.0
    spread = float(np.sqrt(np.mean(np.var(matrix / largest, axis=0)))) * largest if matrix.size else 0.0
    if spread < max(4 * np.finfo(float).eps * largest, 1 / LARGEST):
        return Column(name=name, kind="vector", dropped=CONSTANT)
    if not scale:
        return Column(name=name, kind="vector", centres=np.zeros(matrix.shape[1]))
    return Column(name=name, kind="vector", centres=matrix.mean(axis=0), divisor=spread)


def _components_of_vectors(
    cells: Mapping[str, pa.ChunkedArray], names: Iterable[str]
) -> dict[str, tuple[NumberedColumns, int]]:
    """For each numbered column that is a component of a vector, the vector and the position in it."""
    return {name: (vector, at) for vector in numbered_columns(cells, names) for at, name in enumerate(vector.names)}


def _learn_component(name: str, vector: NumberedColumns, position: int, scale: bool) -> Column:
    if vector.spreads[position] == 0:
        return Column(name=name, kind="vector", dropped=CONSTANT)
    mean = float(vector.centres[position])
    centre, divisor = (mean, vector.divisor) if scale else (0.0, 1.0)
    return Column(
        name=name, kind="vector", vector=vector.prefix, values=True, fill=mean, centre=centre, divisor=divisor
    )


def _groups(columns: tuple[Column, ...], attributes: NDArray[np.int64]) -> list[FeatureGroup]:
    """Features that belong together, in the order of their first columns."""
    starts = np.searchsorted(attributes, np.arange(len(columns) + 1))
    names: dict[tuple[str, str], list[str]] = {}
    features: dict[tuple[str, str], list[NDArray[np.int64]]] = {}
    for position, column in enumerate(columns):
        if starts[position] < starts[position + 1]:
            key = column.group()
            names.setdefault(key, []).append(column.name)
            features.setdefault(key, []).append(np.arange(starts[position], starts[position + 1]))
    return [
        FeatureGroup(name or _joined(names[kind, name]), kind, np.concatenate(numbers))
        for (kind, name), numbers in features.items()
    ]


def _joined(names: list[str]) -> str:
    """Names between commas; of many the first."""
    more = len(names) - MAX_JOINED_NAMES
    return ", ".join(names[:MAX_JOINED_NAMES]) + (f" and {more:,} more" if more > 0 else "")


# ---- what a user should know


def _listed(columns: Sequence[Column]) -> str:
    """Why each column is dropped."""
    reasons = "; ".join(f"{column.name!r}: {column.dropped}" for column in columns[:MAX_MISSING_SHOWN])
    return reasons + (f"; and {len(columns) - MAX_MISSING_SHOWN:,} more" if len(columns) > MAX_MISSING_SHOWN else "")


def _warn_of(column: Column, values: pa.ChunkedArray) -> None:
    """Warn of a column of names that is dropped, and of numbers among which are texts."""
    if column.dropped == NO_REPEATS:
        warn_user(f"column {column.name!r} is dropped: {column.dropped}")
    if column.kind == "category" and (odd := _odd_among_numbers(values)):
        warn_user(
            f"{odd[0]} % of {column.name!r} are numbers, except for instance {odd[1]!r}, so it is treated as categories: "
            "leave such cells empty to have it as numbers"
        )


def _odd_among_numbers(values: pa.ChunkedArray) -> tuple[int, str] | None:
    """Percent of numbers in a column of texts, and the most frequent text that is none; None where numbers are few."""
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


# ---- state

_OPTIONS = ("text", "category", "number", "ignore")
_SCALING = ("fill", "centre", "divisor")
_HEADER = tuple(entry.name for entry in fields(Column) if entry.name not in (*_SCALING, "text", "centres"))


def _terms(terms: Any) -> Any:
    return tuple(terms) if isinstance(terms, list) else terms


def _check_max_categories(value: object) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ValueError(f"max_categories must be a whole number from 1, got {value!r}")
