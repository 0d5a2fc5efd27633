"""Which columns of a table are features, and how a model sees a table.

Views by the names of columns: `--view text='text_*' --view image='img_*'`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import is_regressor

from corank.cli.console import note
from corank.encoder import TableEncoder
from corank.rows import encode_queries
from corank.tables import TableError, column, is_number, is_text, near_names, numbers, plain, query_column, with_zeros
from corank.views import View, encoded_views, random_bases, random_split

WITHIN_UP_TO = 2_000  # rows of a query whose scores are told apart from their level
MOSTLY_UNLIKE = 0.9  # a larger share of different texts in a column is that of names
ID_NAME = re.compile(r"(?i:(^|[\W_])(id|ids|nr|no|number|index|key|row)$)|[a-z](Id|ID|Nr|No)$")
NO_NAME = re.compile(r"|Unnamed: \d+|__index_level_\d+__")  # what an index without a name is called in a file


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
    taken = {name: role for role, name in roles.items() if name is not None}
    for name in _split(wanted, table):
        if name in taken:
            raise TableError(f"column {name!r} is the {taken[name]}: it cannot be a feature too")
    chosen = _matching(table, wanted, "--features") if wanted else set(table.column_names)
    chosen -= _matching(table, dropped, "--drop") | set(taken)
    if not chosen:
        raise TableError(
            "no column is left as a feature: add columns that describe the items, or say which table describes them with "
            "--items TABLE --id COLUMN"
        )
    return [name for name in table.column_names if name in chosen]


def _split(patterns: Sequence[str], table: pa.Table) -> list[str]:
    """One name or pattern each; a column whose name has a comma is found by its whole name."""
    parts: list[str] = []
    for pattern in patterns:
        parts += [pattern] if pattern in table.column_names else [part.strip() for part in pattern.split(",")]
    return [part for part in parts if part or part in table.column_names]


def _matching(table: pa.Table, patterns: Sequence[str], option: str) -> set[str]:
    found: set[str] = set()
    for pattern in _split(patterns, table):
        here = {name for name in table.column_names if name == pattern or fnmatchcase(name, pattern)}
        if not here:
            if not set(pattern) & set("*?["):
                column(table, pattern, option)  # raises, and says what may have been meant
            raise TableError(f"{option}: no column is called like {pattern!r}")
        found |= here
    return found


def looks_like_id(name: str, values: pa.ChunkedArray) -> bool:
    """Whether a column numbers the rows rather than saying something about them."""
    if len(values) < 2 or not is_number(values.type) or pa.types.is_boolean(values.type):
        return False
    if not (ID_NAME.search(name) or NO_NAME.fullmatch(name)):
        return False
    found = numbers(values, name)
    return bool(np.isfinite(found).all() and (found == np.round(found)).all() and len(np.unique(found)) == len(found))


def looks_like_name(values: pa.ChunkedArray) -> bool:
    """Whether a column of text says something else in nearly every row."""
    values = plain(values)
    return is_text(values.type) and len(values) >= 10 and len(values.unique()) >= MOSTLY_UNLIKE * len(values)


def note_ids(table: pa.Table, names: Sequence[str]) -> None:
    """Say which features only number or name the rows, and how to leave them out."""
    for name in names:
        if looks_like_name(table[name]):
            many = f"{len(table[name].unique()):,} values in {len(table):,} rows"
            how = f"leave it out with --id {shlex.quote(name)} or --drop {shlex.quote(name)}"
            note(f"column {name!r} looks like a name of the row ({many}), yet it is learned from: {how}")
        if looks_like_id(name, table[name]):
            what = f"column {name!r}" if name else "the column without a name"
            option = "--drop" if NO_NAME.fullmatch(name) else "--id"
            how = f"leave it out with {option} {shlex.quote(name)}"
            note(f"{what} looks like a number of the row, yet it is learned from: {how}")


def features_of(model: Any, table: pa.Table) -> NDArray[np.float64]:
    """A table as the features of a model: by its encoder, or by the names of the columns it was fitted on."""
    if model.encoder_ is not None:
        known = [column.name for column in model.encoder_.columns_]
        features: NDArray[np.float64] = model.encoder_.transform(with_zeros(table, known))
        return features
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise ValueError(
            "the model does not know names of columns, as it was fitted in Python on an array: "
            "save it with encoder=, or use corank fit"
        )
    table = with_zeros(table, names)
    return np.stack([numbers(column(table, name, "feature"), name) for name in names], axis=1)


def predicted(model: Any, features: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Scores (n_rows,) and, where the model knows how sure it is, their standard deviations (n_rows,)."""
    if "return_std" not in signature(model.predict).parameters or model._kernel.precomputed:
        return np.asarray(model.predict(features)), None
    scores, std = model.predict(features, return_std=True)
    return np.asarray(scores), np.asarray(std)


def ranked(
    model: Any, features: NDArray[np.float64], codes: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Scores and standard deviations as in `predicted`; those of a ranker within a query, `codes` (n_rows,).

    The level of a ranker's scores is arbitrary and most of their uncertainty, so that of a score less the mean of its
    query is told: diag((I − J) C (I − J)) with J = 11ᵀ/m. O(m²) memory, hence up to WITHIN_UP_TO rows a query.
    """
    scores, std = predicted(model, features)
    if std is None or is_regressor(model):
        return scores, std
    sizes = np.bincount(codes)
    for code in np.flatnonzero((sizes > 0) & (sizes <= WITHIN_UP_TO)):
        rows = np.flatnonzero(codes == code)
        covariance = np.asarray(model.predict(features[rows], return_cov=True)[1])
        shared = covariance.mean(axis=0)
        std[rows] = np.sqrt(np.maximum(np.diag(covariance) - 2 * shared + shared.mean(), 0))
    if (sizes > WITHIN_UP_TO).any():
        note(
            f"std is that of the score itself, level included, where more than {WITHIN_UP_TO:,} rows are ranked together"
        )
    return scores, std


def queries_of(
    table: pa.Table, file: Path, by: str | None, *, asked: bool, otherwise: str
) -> tuple[str | None, NDArray[np.int64]]:
    """Name of the query column, and the number of the query of each row: (n_rows,), all 0 where there are no queries.

    A column that nobody `asked` for may be missing: that is noted, with what is done `otherwise`.
    """
    if by is not None and not asked and by not in table.column_names:
        near = near_names(by, table.column_names)
        guess = f"; did you mean --query {shlex.quote(near[0])}?" if near else ""
        note(f"{file} has no column {by!r}, by which the model was fitted: {otherwise}{guess}")
        by = None
    labels = np.zeros(len(table), dtype=np.int64) if by is None else query_column(table, by)
    return by, np.asarray(encode_queries(labels, len(table))[0])


def text_columns(model: Any, *names: str | None) -> list[str]:
    """Columns that stay text when a file is read for this model, among them those of the given names."""
    known = [] if model.encoder_ is None else model.encoder_.text_columns
    return [*known, *(name for name in names if name is not None)]


_NAMED = re.compile(r"([\w .-]+)=(.+)")


def views_of(patterns: Sequence[str], encoder: TableEncoder | None, names: Sequence[str]) -> Any:
    """Views of features by the names of the columns they come from, or two halves of the columns.

    Parameters
    ----------
    patterns : one a view, such as `text_*,title` or with a name `text=text_*,title`
    encoder : what makes features of the columns of a table, or None where they are features
    names : of the features
    """
    if not patterns:
        attributes = np.arange(len(names)) if encoder is None else encoder.attributes_
        halves = len(np.unique(attributes)) >= 2
        return random_split(2, attributes=None if encoder is None else attributes) if halves else random_bases(2)
    if encoder is None:
        return views_of_columns(patterns, [str(name) for name in names])
    return encoded_views(views_of_columns(patterns, [column.name for column in encoder.columns_]), encoder.attributes_)


def views_of_columns(patterns: Sequence[str], columns: Sequence[str]) -> Any:
    """Views of the columns of a table, or 2 for random halves where nobody says."""
    if not patterns:
        return 2
    views = [_view(pattern, columns) for pattern in patterns]
    called = [view.name for view in views]
    if len(set(called)) < len(called):
        raise ValueError("--view: two views have the same name")
    return views


def _view(pattern: str, columns: Sequence[str]) -> View:
    named = None if _matching_positions(pattern, columns) else _NAMED.fullmatch(pattern)
    name, globs = (pattern, pattern) if named is None else (named[1], named[2])
    parts = [globs] if globs in columns else [part.strip() for part in globs.split(",") if part.strip()]
    chosen: set[int] = set()
    for part in parts:
        found = _matching_positions(part, columns) or _matching_positions(
            part.removesuffix("=*"), columns
        )  # word=*: its categories
        if not found:
            near = near_names(part, columns)
            guess = f"; did you mean {near[0]!r}?" if near else ""
            raise TableError(f"--view {name}: no column is called like {part!r}{guess}")
        chosen |= set(found)
    return View(sorted(chosen), name=name)


def _matching_positions(part: str, names: Sequence[str]) -> list[int]:
    return [at for at, name in enumerate(names) if name == part or fnmatchcase(name, part)]
