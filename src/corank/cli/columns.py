"""Columns of a table: which of them are features, which make up a view, how a model sees them, and how rows are ranked."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import is_regressor

from corank._messages import did_you_mean, near_names
from corank.cli.console import note
from corank.column_kinds import date_example
from corank.encoder import TableEncoder
from corank.links import Links
from corank.rows import encode_queries
from corank.tables import TableError, column, is_number, is_text, numbers, plain, query_column, with_zeros
from corank.views import View, encoded_views, match_columns, random_bases, random_split

MAX_ROWS_WITHOUT_LEVEL = 2_000  # of a query: the covariance of its scores takes the square of that
NAMES_SHARE = 0.9  # a column of text with a larger share of different values holds names
SPARSE_SHARE = 0.5  # of the rows without a value, above which a column of numbers may be a score
ID_NAME = re.compile(r"(?i:(^|[\W_])(id|ids|nr|no|number|index|key|row)$)|[a-z](Id|ID|Nr|No)$")
NO_NAME = re.compile(r"|Unnamed: \d+|__index_level_\d+__")  # what an index without a name is called in a file
MAX_LISTED_COLUMNS = 8
NAMED_VIEW = re.compile(r"([\w .-]+)=(.+)")


# ---- features and views by name


def feature_columns(
    table: pa.Table, roles: dict[str, str | None], wanted: Sequence[str], dropped: Sequence[str]
) -> list[str]:
    """Names of the feature columns, in the order of the table.

    Parameters
    ----------
    table : pyarrow.Table
    roles : dict
        What other columns are for (score, query, id) and their names.
    wanted, dropped : sequence of str
        Names and patterns such as `text_*`, each possibly several with commas between. Nothing wanted = every column.
    """
    names = table.column_names
    taken = {name: role for role, name in roles.items() if name is not None}
    for pattern in wanted:
        for name in _split(pattern, names):
            if name in taken:
                raise TableError(f"column {name!r} is the {taken[name]}: it cannot be a feature too")
    features = _matching_names(table, wanted, "--features") if wanted else set(names)
    features -= _matching_names(table, dropped, "--drop") | set(taken)
    if not features:
        raise TableError(
            "no column is left as a feature: add columns that describe the items, or say which table describes them with "
            "--items TABLE --id COLUMN"
        )
    return [name for name in names if name in features]


@dataclass(frozen=True)
class AskedKinds:
    """Columns that are called text, categories or numbers: names, possibly several with commas between.

    Only numbers may be given by patterns: which columns stay text must be known before a file is read.
    """

    text: Sequence[str] = ()
    category: Sequence[str] = ()
    number: Sequence[str] = ()

    @property
    def read_as_text(self) -> list[str]:
        """Columns that stay text when a file is read, so that the category 007 is not 7."""
        asked = [*self.text, *self.category]
        return [*asked, *(name.strip() for names in asked for name in names.split(","))]

    def encoder(self, table: pa.Table, features: Sequence[str]) -> TableEncoder:
        """An encoder, not yet fitted, for the columns `features` of a table."""
        names = {"number": sorted(_matching_names(table, self.number, "--number"))}
        for kind, asked in (("text", self.text), ("category", self.category)):
            names[kind] = [name for several in asked for name in _split(several, table.column_names)]
        used = set(features)
        for kind, chosen in names.items():
            for name in chosen:
                column(table, name, f"--{kind}")  # raises where there is none, and says what may have been meant
                if name not in used:
                    raise TableError(f"--{kind}: column {name!r} is not learned from")
        return TableEncoder(text=names["text"], category=names["category"], number=names["number"])


def note_kinds(encoder: TableEncoder) -> None:
    """Say once which columns are read as text, as vectors and as dates without being asked to."""
    columns = [column for column in encoder.columns_ if not column.dropped]
    texts = [column.name for column in columns if column.kind == "text" and column.name not in encoder.text]
    if texts:
        note(
            f"read as text: {_listed(texts)}; --category NAMES makes categories of them, --ignore NAMES leaves them out"
        )
    vectors = dict.fromkeys(f"{column.vector}*" for column in columns if column.vector)
    if vectors:
        note(f"read as components of one vector: {_listed(list(vectors))}; --number NAMES makes numbers of them")
    dates = {column.name: date_example(column.date_format) for column in columns if column.date_format}
    if dates:
        listed = _listed([f"{name} (like {example})" for name, example in dates.items()])
        note(f"read as dates: {listed}; --category NAMES makes categories of them")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MAX_LISTED_COLUMNS
    return ", ".join(names[:MAX_LISTED_COLUMNS]) + (f" and {more:,} more" if more > 0 else "")


def _split(pattern: str, names: Sequence[str]) -> list[str]:
    """Names and patterns between commas; a column whose name has a comma is found by its whole name."""
    if pattern in names:
        return [pattern]
    return [name for name in map(str.strip, pattern.split(",")) if name or name in names]


def _matching_names(table: pa.Table, patterns: Sequence[str], option: str) -> set[str]:
    names = table.column_names
    matched: set[str] = set()
    for pattern in [single for several in patterns for single in _split(several, names)]:
        positions = match_columns(pattern, names)
        if not positions:
            if not set(pattern) & set("*?["):
                column(table, pattern, option)  # raises, and says what may have been meant
            raise TableError(f"{option}: no column is called like {pattern!r}")
        matched |= {names[at] for at in positions}
    return matched


def views_of(patterns: Sequence[str], encoder: TableEncoder | None, names: Sequence[str]) -> Any:
    """Views of features by the names of the columns they come from, or two halves of the columns.

    Parameters
    ----------
    patterns : one per view, such as `text_*,title` or with a name `text=text_*,title`
    encoder : what makes features of the columns of a table, or None where they are features
    names : of the features
    """
    if not patterns:
        attributes = np.arange(len(names)) if encoder is None else encoder.attributes_
        if len(np.unique(attributes)) < 2:
            return random_bases(2)
        return random_split(2, attributes=None if encoder is None else attributes)
    if encoder is None:
        return views_of_columns(patterns, [str(name) for name in names])
    return encoded_views(views_of_columns(patterns, [column.name for column in encoder.columns_]), encoder.attributes_)


def views_of_columns(patterns: Sequence[str], columns: Sequence[str]) -> Any:
    """Views of the columns of a table, or 2 for random halves where no view is given."""
    if not patterns:
        return 2
    views = [_view(pattern, columns) for pattern in patterns]
    if len({view.name for view in views}) < len(views):
        raise ValueError("--view: two views have the same name")
    return views


def _view(pattern: str, columns: Sequence[str]) -> View:
    named = None if match_columns(pattern, columns) else NAMED_VIEW.fullmatch(pattern)
    name, globs = (pattern, pattern) if named is None else (named[1], named[2])
    positions: set[int] = set()
    for glob in _split(globs, columns):
        matched = match_columns(glob, columns) or match_columns(
            glob.removesuffix("=*"), columns
        )  # word=*: its categories
        if not matched:
            raise TableError(f"--view {name}: no column is called like {glob!r}{did_you_mean(glob, columns)}")
        positions |= set(matched)
    return View(sorted(positions), name=name)


# ---- columns that name or number the rows


def looks_like_id(name: str, values: pa.ChunkedArray) -> bool:
    """Whether a column numbers the rows rather than saying something about them."""
    if not (ID_NAME.search(name) or NO_NAME.fullmatch(name)):
        return False
    if len(values) < 2 or not is_number(values.type) or pa.types.is_boolean(values.type):
        return False
    cells = numbers(values, name)
    return bool(np.isfinite(cells).all() and (cells == np.round(cells)).all() and len(np.unique(cells)) == len(cells))


def looks_like_name(values: pa.ChunkedArray) -> bool:
    """Whether a column of text says something else in nearly every row."""
    values = plain(values)
    return is_text(values.type) and len(values) >= 10 and len(values.unique()) >= NAMES_SHARE * len(values)


def note_ids(table: pa.Table, encoder: TableEncoder) -> None:
    """Say which features only number or name the rows, and how to leave them out."""
    cells = dict(zip(table.column_names, table.columns, strict=True))
    for learned in encoder.columns_:
        name = learned.name
        if learned.dropped:
            continue
        if learned.kind == "category" and looks_like_name(cells[name]):
            values = f"{len(cells[name].unique()):,} values in {len(table):,} rows"
            remedy = f"leave it out with --id {shlex.quote(name)} or --drop {shlex.quote(name)}"
            note(f"column {name!r} looks like a name of the row ({values}), yet it is learned from: {remedy}")
        if learned.kind == "number" and looks_like_id(name, cells[name]):
            label = f"column {name!r}" if name else "the column without a name"
            option = "--drop" if NO_NAME.fullmatch(name) else "--id"
            remedy = f"leave it out with {option} {shlex.quote(name)}"
            note(f"{label} looks like a number of the row, yet it is learned from: {remedy}")


def note_sparse_numbers(table: pa.Table, encoder: TableEncoder) -> None:
    """Say which features are numbers that most rows lack: beside comparisons they may be scores."""
    for learned in encoder.columns_:
        share = table[learned.name].null_count / max(len(table), 1)
        if not learned.dropped and learned.kind == "number" and share > SPARSE_SHARE:
            remedy = f"if it is a score, leave it out with --drop {shlex.quote(learned.name)}"
            note(f"column {learned.name!r} is empty in {share:.0%} of the rows, yet it is learned from: {remedy}")


# ---- a table as a model sees it


def features_of(model: Any, table: pa.Table) -> NDArray[np.float64]:
    """A table as the features of a model: by its encoder, or by the names of the columns it was fitted on."""
    if model.encoder_ is not None:
        names = [column.name for column in model.encoder_.columns_]
        features: NDArray[np.float64] = model.encoder_.transform(with_zeros(table, names))
        return features
    names = column_names_of(model)
    table = with_zeros(table, names)
    return np.stack([numbers(column(table, name, "feature"), name) for name in names], axis=1)


def column_names_of(model: Any) -> list[str]:
    """Names of the columns that a model without an encoder was fitted on."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise ValueError(
            "the model does not know names of columns, as it was fitted in Python on an array: "
            "save it with encoder=, or use corank fit"
        )
    return [str(name) for name in names]


def text_columns(model: Any, *names: str | None) -> list[str]:
    """Columns that stay text when a file is read for this model, among them those of the given names."""
    texts = [] if model.encoder_ is None else model.encoder_.text_columns
    return [*texts, *(name for name in names if name is not None)]


def queries_of(
    table: pa.Table, file: Path, query: str | None, *, asked: bool, otherwise: str
) -> tuple[str | None, NDArray[np.int64]]:
    """Name of the query column, and the number of the query of each row: (n_rows,), all 0 where there are no queries.

    A column that was not `asked` for may be missing: that is noted, with what is done `otherwise`.
    """
    if query is not None and not asked and query not in table.column_names:
        near = near_names(query, table.column_names)
        guess = f"; did you mean --query {shlex.quote(near[0])}?" if near else ""
        note(f"{file} has no column {query!r}, by which the model was fitted: {otherwise}{guess}")
        query = None
    labels = np.zeros(len(table), dtype=np.int64) if query is None else query_column(table, query)
    return query, np.asarray(encode_queries(labels, len(table))[0])


# ---- scores and ranks


def predicted_scores(
    model: Any, features: NDArray[np.float64], queries: NDArray[np.int64], links: Links | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Scores (n_rows,) and, where the model knows how sure it is, their standard deviations (n_rows,).

    The level of a ranker's scores is arbitrary and most of their uncertainty, so its standard deviations are those of a
    score less the mean of its query: diag((I − J) C (I − J)) with J = 11ᵀ/m. O(m²) memory, hence only for queries of
    up to MAX_ROWS_WITHOUT_LEVEL rows.
    """
    if hasattr(model, "reason_"):  # an average, whose level is that of the scores
        more: dict[str, Any] = {} if links is None else {"links": links}
        labels = queries if model._with_queries else None
        scores, std = (np.asarray(values) for values in model.predict(features, qid=labels, return_std=True, **more))
        return scores, std
    if "return_std" not in signature(model.predict).parameters or model._kernel.precomputed:
        return np.asarray(model.predict(features)), None
    scores, std = (np.asarray(values) for values in model.predict(features, return_std=True))
    if is_regressor(model):
        return scores, std
    sizes = np.bincount(queries)
    for query in np.flatnonzero((sizes > 0) & (sizes <= MAX_ROWS_WITHOUT_LEVEL)):
        rows = np.flatnonzero(queries == query)
        covariance = np.asarray(model.predict(features[rows], return_cov=True)[1])
        shared = covariance.mean(axis=0)
        std[rows] = np.sqrt(np.maximum(np.diag(covariance) - 2 * shared + shared.mean(), 0))
    if (sizes > MAX_ROWS_WITHOUT_LEVEL).any():
        note(
            "std is that of the score itself, level included, where more than "
            f"{MAX_ROWS_WITHOUT_LEVEL:,} rows are ranked together"
        )
    return scores, std


def ranked_order(scores: NDArray[np.float64], queries: NDArray[np.int64]) -> tuple[Any, Any]:
    """Rows in order, query by query and the best first, and the rank of each within its query, from 1.

    Rows with the same score stay in the order of the table.
    """
    order = np.lexsort((-scores, queries))
    begins = np.flatnonzero(np.r_[True, np.diff(queries[order]) != 0])
    ranks = np.arange(len(order)) - np.repeat(begins, np.diff(np.r_[begins, len(order)])) + 1
    return order, ranks


def result_names(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Names of result columns beside those of a table, with `predicted_` before a name that the table has."""
    free = []
    for name in names:
        if name in taken and f"predicted_{name}" in taken:
            raise ValueError(f"the table has columns {name!r} and 'predicted_{name}': rename one of them")
        free.append(f"predicted_{name}" if name in taken else name)
    return free
