"""TableEncoder: a table of numbers, dates, categories, text and vectors becomes a matrix, by rules
that a file can keep.

A `Column` holds what was learned about one column. What kind of column it is, and its values, are
the subject of `kinds`, text that of `text`, files and kinds of tables that of `tables`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from corank.core.arrays import FloatArray, Index, Mask, NumpyArray
from corank.core.messages import did_you_mean, listed, near_names, warn_user
from corank.core.views import View
from corank.encode.columns import (
    ALL_MISSING,
    IGNORED,
    NO_REPEATS,
    Column,
    dropped_column,
    in_blocks,
    learn_categories,
    learn_component,
    learn_quantities,
    learn_text,
    learn_vectors,
)
from corank.encode.kinds import (
    kind_of_column,
    numbered_columns,
    other_reading,
    present_texts,
    quantity,
)
from corank.encode.text import TextFeatures
from corank.tables import column_names, columns_of, is_text, number, to_arrow

KINDS = ("number", "date", "duration", "category", "text", "vector", "identity", "empty")
# a column of categories with a larger share of numbers was probably meant to hold numbers
MAX_NUMBER_SHARE = 0.8
MAX_MISSING_SHOWN = 10  # names of columns in a message
MAX_JOINED_NAMES = 3  # in the name of a group


@dataclass(frozen=True)
class FeatureGroup:
    """Columns of the matrix that belong together.

    Attributes
    ----------
    name : that of the column, a pattern such as `emb_*`, or the first columns of the table between
        commas
    kind : "text", "vector", "identity" (which item it is) or "table": all numbers, dates and
        categories
    columns : (k,) numbers of the columns of the matrix
    """

    name: str
    kind: str
    columns: Index


@dataclass(eq=False, repr=False)
class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn a table into a matrix of numbers.

    Numbers, dates (in days) and true/false: missing values become the median, and are marked in a
    0/1 column where the fitted table has some. Dates of several years and months have features for
    their year and season too; texts such as 31/12/2024 are dates where one way of reading them fits
    the whole column (the day comes first where that fits too), and 23.56 EUR is a number where all
    of the column have one unit. A few numbers that lie more than 10,000 times farther out than half
    of the others count as the farthest of these.

    Categories: a 0/1 column for each of the most frequent values, one for all others, one for
    missing values where the fitted table has some. Text, that is a column of strings of three words
    or more in the mean, at least half of them different: tf-idf of words and character n-grams,
    reduced to at most 50 components, scaled as one.

    Vectors, such as embeddings: a column of lists of numbers of one length, or numbered float
    columns `emb_0`, `emb_1`, … (eight or more, of about one spread; not x0, x1, … and other general
    names); centred, and divided by one number.

    A column that is declared to say which item a row is becomes a number that stands for the name.
    Only the average of models learns from it: one effect per item, beside what the columns say.

    A column without information is dropped: all missing, always the same, or a different label in
    each of more than 20 rows.

    Parameters
    ----------
    max_categories : int
        Number of values of a column of categories that get a 0/1 column each.
    scale : bool
        Whether numbers and vectors are centred and divided by their standard deviation.
    text, category, number, ignore : sequence of str
        Names of columns that are text, categories or numbers whatever they look like, and of
        columns to leave out.
    identity : sequence of str
        Names of the columns, mostly one, that say which item a row is. They may be missing in
        `transform`: rows are then items that were not there in `fit`.

    Attributes
    ----------
    columns_ : tuple of Column
        What was learned about each column.
    dropped_ : dict
        For each column that is not used, why.
    groups_ : list of FeatureGroup
        Columns of the matrix that belong together: each text, each vector, each identity, and all
        numbers, dates and categories.
    feature_names_in_ : ndarray of str
    n_features_in_ : int
    attributes_ : ndarray of int
        Number of the table's column from which each column of the matrix comes.
    """

    max_categories: int = 50
    scale: bool = True
    text: Sequence[str] = ()
    category: Sequence[str] = ()
    number: Sequence[str] = ()
    ignore: Sequence[str] = ()
    identity: Sequence[str] = ()

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

    def fit_transform(self, table: Any, y: object = None, **parameters: object) -> FloatArray:
        """Learn from a table and turn it into a matrix; the same as `fit` and `transform`, with
        texts read once.

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

    def _fit(self, table: pa.Table) -> dict[str, FloatArray]:
        """Learn from a table; returns the texts that are encoded already, by the names of their
        columns.
        """
        most = self.max_categories
        if not isinstance(most, int | np.integer) or isinstance(most, bool) or most < 1:
            raise ValueError(f"max_categories must be a whole number from 1, got {most!r}")
        if table.num_rows == 0 or table.num_columns == 0:
            raise ValueError("the table is empty: at least one row and one column are needed")
        cells = columns_of(table)
        kinds = self._kinds(cells)
        numeric = [name for name, (kind, _) in kinds.items() if kind == "number"]
        vectors_of_columns = numbered_columns(cells, numeric)
        components = {
            name: (vector, at)
            for vector in vectors_of_columns
            for at, name in enumerate(vector.names)
        }
        encoded_texts: dict[str, FloatArray] = {}
        learned: dict[str, Column] = {}
        quantities: dict[str, tuple[str, str]] = {}
        for name, (kind, format) in kinds.items():
            if kind == "ignored":
                learned[name] = dropped_column(name, "empty", IGNORED)
            elif kind == "text":
                learned[name], encoded = learn_text(name, cells[name])
                if encoded is not None:
                    encoded_texts[name] = encoded
            elif kind == "category":
                learned[name] = learn_categories(name, cells[name], self.max_categories)
            elif kind == "vector":
                learned[name] = learn_vectors(name, cells[name], bool(self.scale))
            elif kind == "identity":
                learned[name] = Column(name=name, kind=kind, values=True)
            elif kind == "empty":
                learned[name] = dropped_column(name, kind, ALL_MISSING)
            elif name in components and name not in self._names("number"):
                learned[name] = learn_component(name, *components[name], bool(self.scale))
            else:
                quantities[name] = kind, format
        learned |= learn_quantities(cells, quantities, bool(self.scale))
        columns = [learned[name] for name in cells]
        if all(column.dropped for column in columns):
            raise ValueError(f"no column of the table can be used ({_listed(columns)})")
        for column in columns:
            _warn_of(column, cells[column.name])
        self._learned(tuple(columns))
        return encoded_texts

    def _kinds(self, cells: Mapping[str, pa.ChunkedArray]) -> dict[str, tuple[str, str]]:
        """The kind of each column, as asked or else as it looks, and the format of its dates or the
        unit of its numbers.
        """
        asked: dict[str, str] = {}
        for option in OPTIONS:
            kind = "ignored" if option == "ignore" else option
            for name in self._names(option):
                if name not in cells:
                    raise ValueError(
                        f"{option}: the table has no column"
                        f" {name!r}{did_you_mean(str(name), cells)}"
                    )
                if asked.setdefault(name, kind) != kind:
                    raise ValueError(
                        f"{option}: column {name!r} is called {asked[name]} too; say one of them"
                    )
        return {
            name: (asked[name], "") if name in asked else kind_of_column(name, values)
            for name, values in cells.items()
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

    def transform(self, table: Any) -> FloatArray:
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

    def _matrix(self, table: Any, encoded_texts: Mapping[str, FloatArray]) -> FloatArray:
        used = [column for column in self.columns_ if not column.dropped]
        columns = to_arrow(table, {column.name for column in used})
        cells = columns_of(columns)
        absent = [column.name for column in used if column.name not in cells]
        if any(column.kind != "identity" for column in used):
            identities = {column.name for column in used if column.kind == "identity"}
            nothing = pa.chunked_array([pa.nulls(columns.num_rows)])
            cells |= dict.fromkeys(identities & set(absent), nothing)
            absent = [name for name in absent if name not in identities]
        if absent:
            others = set(column_names(table)) - {column.name for column in self.columns_}
            for at, name in enumerate(absent[:MAX_MISSING_SHOWN]):
                close = " or ".join(map(repr, near_names(name, others)))
                absent[at] = repr(name) + (f" (did you mean {close}?)" if close else "")
            raise ValueError(
                f"the table lacks columns it had in fit: {listed(absent, MAX_MISSING_SHOWN)}"
            )
        matrix = np.zeros((columns.num_rows, len(self.attributes_)))
        single_numbers: list[tuple[int, Column]] = []
        start = 0
        for column in used:
            if column.is_single_number:
                values = cells[column.name], column.name, column.kind, column.format
                matrix[:, start] = quantity(*values)
                single_numbers.append((start, column))
                start += 1
                continue
            stop = start + len(column.feature_names())
            if column.name in encoded_texts:
                matrix[:, start:stop] = encoded_texts[column.name]
            else:
                column.encode(cells[column.name], matrix[:, start:stop])
            start = stop
        for block in in_blocks(single_numbers, columns.num_rows):
            positions = [at for at, _ in block]
            fill, centre, divisor = np.transpose(
                [(column.fill, column.centre, column.divisor) for _, column in block]
            )
            amounts = matrix[:, positions]
            filled = np.where(np.isnan(amounts), fill, amounts)
            matrix[:, positions] = (filled - centre) / divisor
        return matrix

    def unusual(self, table: Any) -> dict[str, Mask]:
        """Find cells on which predictions say little, as the fitted table has nothing like them.

        Parameters
        ----------
        table : pandas, polars or pyarrow table

        Returns
        -------
        dict
            For each column with such cells, (n_rows,) which they are: numbers and dates that lie
            farther outside of the fitted ones than these lie apart, and new categories.
        """
        check_is_fitted(self)
        used = {column.name: column for column in self.columns_ if not column.dropped}
        columns = to_arrow(table, used)
        present = set(columns.column_names)
        cells = {name: used[name].is_unusual(columns[name]) for name in used if name in present}
        return {name: unusual for name, unusual in cells.items() if unusual.any()}

    def views(self) -> list[View]:
        """One view per group of `groups_`, over columns of the matrix; which item a row is, is
        none.

        Returns
        -------
        list of View
        """
        check_is_fitted(self)
        groups = [group for group in self.groups_ if group.kind != "identity"]
        return [View(group.columns, name=group.name) for group in groups]

    def get_feature_names_out(self, input_features: object = None) -> NumpyArray:
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
        """An encoder, not fitted, for which columns are text and categories as they are for this
        one.

        Returns
        -------
        TableEncoder
        """
        check_is_fitted(self)
        kinds: dict[str, Any] = {
            kind: [each.name for each in self.columns_ if each.kind == kind]
            for kind in ("text", "category")
        }
        others = {option: getattr(self, option) for option in ("number", "ignore", "identity")}
        return TableEncoder(self.max_categories, self.scale, **kinds, **others)

    @property
    def text_columns(self) -> list[str]:
        """Columns of text, categories and names: hand them to `read_table(text=...)`, so that a new
        file is read alike.
        """
        check_is_fitted(self)
        kinds = ("text", "category", "identity")
        return [column.name for column in self.columns_ if column.kind in kinds]

    def summary(self) -> list[dict[str, str]]:
        """Say what is done with each column.

        Returns
        -------
        list of dict
            With `column`, `kind` and `treatment`, in plain words.
        """
        check_is_fitted(self)
        return [
            {"column": each.name, "kind": each.kind, "treatment": each.treatment()}
            for each in self.columns_
        ]

    def to_state(self) -> tuple[dict[str, Any], dict[str, NumpyArray]]:
        """Everything learned, for a file.

        Returns
        -------
        header : dict
            Can be written as JSON.
        arrays : dict of ndarray
            `fill`, `centre`, `divisor`, `low` and `high` (n_columns,); for a column of text
            `text.K.idf` and `text.K.components`, for one of vectors `vector.K.centres`, where K is
            the number of the column.
        """
        check_is_fitted(self)
        entries: list[dict[str, Any]] = []
        arrays = {
            key: np.array([getattr(column, key) for column in self.columns_]) for key in SCALING
        }
        for position, column in enumerate(self.columns_):
            entry = {key: getattr(column, key) for key in LEARNED}
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
        header = {
            "max_categories": int(self.max_categories),
            "scale": bool(self.scale),
            "columns": entries,
        }
        return {**header, **{option: self._names(option) for option in OPTIONS}}, arrays

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, NumpyArray]) -> Self:
        """Rebuild an encoder from `to_state`; `corank.load` checks both before.

        Parameters
        ----------
        header : dict
        arrays : dict of ndarray

        Returns
        -------
        TableEncoder
        """
        scaling = np.stack([arrays[key] for key in SCALING], axis=1).tolist()
        columns = []
        for position, (entry, numbers) in enumerate(zip(header["columns"], scaling, strict=True)):
            words, characters = (
                tuple(terms) if isinstance(terms, list) else terms
                for terms in (entry["words"], entry["characters"])
            )
            text = None
            if words is not None and characters is not None:
                numbers_of_text = (
                    arrays[f"text.{position}.{key}"] for key in ("idf", "components")
                )
                text = TextFeatures(words, characters, *numbers_of_text)
            learned = {key: entry[key] for key in LEARNED} | dict(
                zip(SCALING, numbers, strict=True)
            )
            learned |= {"categories": tuple(entry["categories"])}
            columns.append(
                Column(**learned, text=text, centres=arrays.get(f"vector.{position}.centres"))
            )
        options: dict[str, Any] = {option: tuple(header[option]) for option in OPTIONS}
        return cls(header["max_categories"], header["scale"], **options)._learned(tuple(columns))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.categorical = tags.input_tags.string = tags.input_tags.allow_nan = True
        return tags


def _groups(columns: tuple[Column, ...], attributes: Index) -> list[FeatureGroup]:
    """Features that belong together, in the order of their first columns."""
    starts = np.searchsorted(attributes, np.arange(len(columns) + 1))
    names: dict[tuple[str, str], list[str]] = {}
    features: dict[tuple[str, str], list[Index]] = {}
    for column, start, stop in zip(columns, starts, starts[1:], strict=False):
        if start < stop:
            key = column.group()
            names.setdefault(key, []).append(column.name)
            features.setdefault(key, []).append(np.arange(start, stop))
    groups = []
    for key, numbers in features.items():
        kind, name = key
        title = name or listed(names[key], MAX_JOINED_NAMES)
        groups.append(FeatureGroup(title, kind, np.concatenate(numbers)))
    return groups


# ---- what a user should know


def _listed(columns: Sequence[Column]) -> str:
    """Why each column is dropped."""
    shown = columns[:MAX_MISSING_SHOWN]
    reasons = [f"{column.name!r}: {column.dropped}" for column in shown]
    if len(columns) > len(shown):
        reasons.append(f"and {len(columns) - len(shown):,} more")
    return "; ".join(reasons)


def _warn_of(column: Column, values: pa.ChunkedArray) -> None:
    """Warn of a column of names that is dropped, of dates that can be read in two ways, and of
    texts among numbers.
    """
    if column.kind == "date" and column.format and other_reading(values, column.format):
        example = present_texts(values)[0].as_py()
        warn_user(f"column {column.name!r} holds dates such as {example}: read with the day first")
    if column.dropped == NO_REPEATS:
        warn_user(f"column {column.name!r} is dropped: {column.dropped}")
    if column.kind == "category" and (odd := _odd_among_numbers(values)):
        warn_user(
            f"{odd[0]} % of {column.name!r} are numbers, except for instance {odd[1]!r}, so it is"
            " treated as categories: leave such cells empty to have it as numbers"
        )


def _odd_among_numbers(values: pa.ChunkedArray) -> tuple[int, str] | None:
    """Percent of numbers in a column of texts, and the most frequent text that is none; None where
    numbers are few.
    """
    if not is_text(values.type):
        return None
    n, odd = 0, Counter[str]()
    for each in values.drop_null().value_counts().to_pylist():
        n += each["counts"]
        try:
            number(each["values"])
        except ValueError:
            odd[each["values"]] = each["counts"]
    share = 1 - odd.total() / max(n, 1)
    if not odd or share <= MAX_NUMBER_SHARE:
        return None
    return int(100 * share), max(odd, key=odd.__getitem__)


# ---- state

OPTIONS = ("text", "category", "number", "ignore", "identity")
SCALING = ("fill", "centre", "divisor", "low", "high")
LEARNED = tuple(
    entry.name for entry in fields(Column) if entry.name not in (*SCALING, "text", "centres")
)
