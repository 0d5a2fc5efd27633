"""Columns of a table: which of them are features, which make up a view, how a model sees them, and
how rows are ranked.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sklearn.base import is_regressor

from corank.cli.console import note
from corank.core.arrays import FloatArray, Index, run_starts
from corank.core.kernels import kernel_names
from corank.core.messages import count, did_you_mean, listed
from corank.core.views import View, encoded_views, match_columns, random_bases, random_split
from corank.encode.encoder import TableEncoder
from corank.encode.kinds import date_example, kind_of_column
from corank.tables import (
    TableError,
    TableFile,
    column,
    is_number,
    is_text,
    numbers,
    plain,
    with_zeros,
)
from corank.tables.columns import UNNAMED_INDEX

if TYPE_CHECKING:
    from corank.cli.options import KindOptions

MAX_ROWS_WITHOUT_LEVEL = 2_000  # of a query: the covariance of its scores takes the square of that
NAMES_SHARE = 0.9  # a column of text with a larger share of different values holds names
SPARSE_SHARE = 0.5  # of the rows without a value, above which a column of numbers may be a score
ID_NAME = re.compile(r"(?i:(^|[\W_])(id|ids|nr|no|number|index|key|row)$)|[a-z](Id|ID|Nr|No)$")
NAMED_VIEW = re.compile(r"([\w .-]+)=(.+)")


# ---- features and views by name


def feature_columns(
    table: pa.Table,
    roles: dict[str, str | None],
    wanted: Sequence[str],
    dropped: Sequence[str],
    identity: str | None = None,
) -> list[str]:
    """Names of the feature columns, in the order of the table.

    Parameters
    ----------
    table : pyarrow.Table
    roles : dict
        What other columns are for (score, query, id) and their names.
    wanted, dropped : sequence of str
        Names and patterns such as `text_*`, each possibly several with commas between. Nothing
        wanted = every column.
    identity : str, default=None
        The column that says which item a row is, where effects of items are learned: it stands
        among the features.
    """
    names = table.column_names
    taken = {name: role for role, name in roles.items() if name is not None}
    for role, name in roles.items():
        if name is not None:
            column(table, name, role)
    for pattern in wanted:
        for name in _split(pattern, names):
            if name in taken:
                raise TableError(
                    f"--features {name!r}: this column is the {taken[name]}, so it cannot be a"
                    " feature too"
                )
    features = set(matching_columns(table, wanted, "--features") if wanted else names)
    features -= {*matching_columns(table, dropped, "--drop"), *taken}
    if not features and identity is None:
        raise TableError(
            "no column is left to learn from: add columns that describe the items, or name a table"
            " that describes them with --items TABLE --id COLUMN"
        )
    return [name for name in names if name in features or name == identity]


def learned_columns(
    table: pa.Table, roles: dict[str, str | None], chosen: KindOptions, identity: str | None = None
) -> tuple[list[str], TableEncoder]:
    """Names of the columns to learn from, and their encoder, which is not fitted yet; parameters as
    in `feature_columns`.
    """
    wanted, identities = chosen.features or [], [] if identity is None else [identity]
    features = feature_columns(table, roles, wanted, chosen.drop or [], identity)
    given = [name for names in chosen.kinds.values() for name in names]
    features = without_ids(table, features, [*wanted, *given, *identities])
    kinds: dict[str, Any] = {
        "number": sorted(matching_columns(table, chosen.kinds["number"], "--number"))
    }
    for kind in ("text", "category"):
        kinds[kind] = [
            name for names in chosen.kinds[kind] for name in _split(names, table.column_names)
        ]
    for kind, names in kinds.items():
        for name in names:
            # raises where there is none, and says what may have been meant
            column(table, name, f"--{kind}")
            if name not in features or name == identity:
                raise TableError(f"--{kind} {name!r}: this column is not learned from")
    return features, TableEncoder(**kinds, identity=tuple(identities))


def note_kinds(encoder: TableEncoder) -> None:
    """Say once which columns are read as text, as vectors and as dates without being asked to."""
    columns = [column for column in encoder.columns_ if not column.dropped]
    texts = [
        column.name
        for column in columns
        if column.kind == "text" and column.name not in encoder.text
    ]
    if texts:
        note(
            f"read as text: {listed(texts)}; --category NAMES makes them categories, --drop NAMES"
            " leaves them out"
        )
    vectors = dict.fromkeys(f"{column.vector}*" for column in columns if column.vector)
    if vectors:
        note(
            f"read as components of one vector: {listed(list(vectors))}; --number NAMES makes them"
            " separate numbers"
        )
    written = [column for column in columns if column.format]
    dates = [
        f"{column.name} (like {date_example(column.format)})"
        for column in written
        if column.kind == "date"
    ]
    if dates:
        note(f"read as dates: {listed(dates)}; --category NAMES makes them categories")
    units = [f"{column.name} ({column.format})" for column in written if column.kind == "number"]
    if units:
        note(
            f"read as numbers with a unit: {listed(units)}; --category NAMES makes them categories"
        )


def _split(pattern: str, names: Sequence[str]) -> list[str]:
    """Names and patterns between commas; a column whose name has a comma is found by its whole
    name.
    """
    if pattern in names:
        return [pattern]
    return [name for name in map(str.strip, pattern.split(",")) if name or name in names]


def matching_columns(table: pa.Table, patterns: Sequence[str], option: str) -> list[str]:
    """Names of the columns that patterns name, each once, in the order of the patterns."""
    names = table.column_names
    matched: dict[str, None] = {}
    for pattern in [single for several in patterns for single in _split(several, names)]:
        positions = match_columns(pattern, names)
        if not positions:
            if not set(pattern) & set("*?["):
                column(table, pattern, option)  # raises, and says what may have been meant
            raise TableError(f"{option}: no column matches {pattern!r}")
        matched |= dict.fromkeys(names[at] for at in positions)
    return list(matched)


def views_of(
    patterns: Sequence[str], encoder: TableEncoder | None, names: Sequence[str], **settings: Any
) -> Any:
    """Views of features by the names of the columns they come from, or two halves of the columns.

    Parameters
    ----------
    patterns : one per view, such as `text_*,title`, with a name and a kernel
        `text=text_*,title:cosine`
    encoder : what makes features of the columns of a table, or None where they are features
    names : of the features
    settings : kernel and gamma of views that do not name a kernel
    """
    if not patterns:
        attributes = np.arange(len(names)) if encoder is None else encoder.attributes_
        if len(np.unique(attributes)) < 2:
            return random_bases(2)
        return random_split(2, attributes=None if encoder is None else attributes)
    if encoder is None:
        return views_of_columns(patterns, [str(name) for name in names], **settings)
    columns = [column.name for column in encoder.columns_]
    return encoded_views(views_of_columns(patterns, columns, **settings), encoder.attributes_)


def views_of_columns(patterns: Sequence[str], columns: Sequence[str], **settings: Any) -> Any:
    """Views of the columns of a table, or 2 for random halves where no view is given; `settings` as
    in `views_of`.
    """
    if not patterns:
        return 2
    views = [_view(pattern, columns, settings) for pattern in patterns]
    if len({view.name for view in views}) < len(views):
        raise ValueError("--view: two views have the same name")
    return views


def _view(pattern: str, columns: Sequence[str], settings: dict[str, Any]) -> View:
    named = None if match_columns(pattern, columns) else NAMED_VIEW.fullmatch(pattern)
    globs, kernel = _without_kernel(pattern if named is None else named[2], columns)
    name = globs if named is None else named[1]
    if kernel is not None:
        settings = {**settings, "kernel": kernel}
    positions: set[int] = set()
    for glob in _split(globs, columns):
        matched = match_columns(glob, columns) or match_columns(
            glob.removesuffix("=*"), columns
        )  # word=*: its categories
        if not matched:
            raise TableError(
                f"--view {name}: no column matches {glob!r}{did_you_mean(glob, columns)}"
            )
        positions |= set(matched)
    return View(sorted(positions), name=name, **settings)


def _without_kernel(globs: str, columns: Sequence[str]) -> tuple[str, str | None]:
    """The columns of a view, and its kernel where one is named after a colon."""
    patterns, _, kernel = globs.rpartition(":")
    last = globs.rpartition(",")[2].strip()
    if not patterns or ":" not in last or match_columns(last, columns):
        return globs, None
    kernels = [name for name in kernel_names() if name != "precomputed"]
    if kernel not in kernels:
        raise ValueError(
            f"--view {globs}: {kernel!r} is neither a column nor a"
            f" kernel{did_you_mean(kernel, kernels)}"
        )
    return patterns, kernel


# ---- columns that name or number the rows


def id_columns(names: str | None) -> list[str]:
    """The columns that name the items, of which the first identifies them: `sku` or `sku,name`."""
    if names is None:
        return []
    columns = [name for name in map(str.strip, names.split(",")) if name]
    if not columns:
        raise ValueError(f"--id must name a column, got {names!r}")
    return columns


def id_roles(names: str | None) -> dict[str, str | None]:
    """The columns that name the items, by what a model file calls them: id, id 2, …"""
    columns = id_columns(names)
    return {"id": None} | {
        "id" if at == 1 else f"id {at}": name for at, name in enumerate(columns, 1)
    }


def remembered_ids(model: Any) -> list[str]:
    """The columns that named the items in fit."""
    table = model.table_ or {}
    return [
        name
        for role, name in table.items()
        if (role == "id" or role.startswith("id ")) and name is not None
    ]


def looks_like_id(name: str, values: pa.ChunkedArray) -> bool:
    """Whether a column numbers the rows rather than saying something about them."""
    if not (ID_NAME.search(name) or UNNAMED_INDEX.fullmatch(name)):
        return False
    if len(values) < 2 or not is_number(values.type) or pa.types.is_boolean(values.type):
        return False
    cells = numbers(values, name)
    return bool(
        np.isfinite(cells).all()
        and (cells == np.round(cells)).all()
        and len(np.unique(cells)) == len(cells)
    )


def looks_like_name(values: pa.ChunkedArray) -> bool:
    """Whether a column of text says something else in nearly every row."""
    values = plain(values)
    return (
        is_text(values.type)
        and len(values) >= 10
        and len(values.unique()) >= NAMES_SHARE * len(values)
    )


def without_ids(table: pa.Table, features: Sequence[str], asked: Sequence[str]) -> list[str]:
    """The features without columns that only number or name the rows, which is said.

    `asked` : names and patterns that are given; columns given by name are learned from whatever
        they look like
    """
    named = {name for pattern in asked for name in _split(pattern, features)}
    left_out: dict[str, str] = {}
    for name in features:
        values = table[name]
        if name in named:
            continue
        if looks_like_id(name, values):
            left_out[name] = "row number"
        elif looks_like_name(values) and kind_of_column(name, values)[0] == "category":
            left_out[name] = (
                f"name ({len(values.unique()):,} different values in {len(table):,} rows)"
            )
    if len(left_out) == len(features):
        return list(features)
    for name, what in left_out.items():
        label, kind = (
            f"column {name!r}" if name else "the column without a name",
            "category" if "name" in what else "number",
        )
        note(
            f"{label} looks like a {what}, so it is not learned from; --{kind} {shlex.quote(name)}"
            " learns from it anyway"
        )
    return [name for name in features if name not in left_out]


def note_repeated_ids(names: Sequence[str | None], queries: Index | None, column: str) -> None:
    """Say where one name stands for several rows of a query."""
    labels = [0] * len(names) if queries is None else queries.tolist()
    counts = Counter(pair for pair in zip(names, labels, strict=True) if pair[0] is not None)
    repeated = [name for (name, _), number in counts.items() if number > 1]
    if repeated:
        note(
            f"column {column!r} has {count(len(repeated), 'value')} in several rows, such as"
            f" {repeated[0]!r}: all rows are learned from, but answers and links by name cannot"
            " tell these apart"
        )


def note_sparse_numbers(table: pa.Table, encoder: TableEncoder) -> None:
    """Say which features are numbers that most rows lack: beside comparisons they may be scores."""
    for learned in encoder.columns_:
        share = table[learned.name].null_count / max(len(table), 1)
        if not learned.dropped and learned.kind == "number" and share > SPARSE_SHARE:
            remedy = f"if it is a score, leave it out with --drop {shlex.quote(learned.name)}"
            note(
                f"column {learned.name!r} is empty in {share:.0%} of the rows, yet it is learned"
                f" from: {remedy}"
            )


# ---- a table as a model sees it


def features_of(model: Any, table: pa.Table) -> FloatArray:
    """A table as the features of a model: by its encoder, or by the names of the columns it was
    fitted on.
    """
    if model.encoder_ is not None:
        names = [column.name for column in model.encoder_.columns_]
        features: FloatArray = model.encoder_.transform(with_zeros(table, names))
        return features
    names = column_names_of(model)
    table = with_zeros(table, names)
    return np.stack([numbers(column(table, name, "feature"), name) for name in names], axis=1)


def column_names_of(model: Any) -> list[str]:
    """Names of the columns that a model without an encoder was fitted on."""
    names = model.feature_names
    if names is None:
        raise ValueError(
            "the model was fitted in Python on an array, so it does not know the names of its"
            " columns: fit it with encoder=, or use corank fit"
        )
    return [str(name) for name in names]


def remembered(model: Any, role: str) -> Any:
    """What a model remembers of the table it was fitted on, such as the name of its query column;
    None for nothing.
    """
    return (model.table_ or {}).get(role)


def unlabelled_score(model: Any) -> float | None:
    """The score that meant unscored in fit."""
    value = remembered(model, "unlabelled")
    return None if value is None else float(value)


def text_columns(model: Any, *names: str | None) -> list[str]:
    """Columns that stay text when a file is read for this model, among them those of the given
    names.
    """
    texts = [] if model.encoder_ is None else model.encoder_.text_columns
    return [*texts, *(name for name in names if name is not None)]


def unusual_cells(model: Any, table: pa.Table, file: TableFile) -> list[str | None] | None:
    """For each row the columns whose values are unlike those the model was fitted on; None where
    all are as usual.

    Says how many such rows there are.
    """
    if model.encoder_ is None:
        return None
    names = [column.name for column in model.encoder_.columns_ if not column.dropped]
    n_absent = len(set(names).difference(table.column_names))
    if 2 * n_absent > len(names):  # features of an SVMlight file
        note(
            f"no row of {file} names {n_absent:,} of the {len(names):,} features of the model: they"
            " count as 0"
        )
    cells = model.encoder_.unusual(
        with_zeros(table, [column.name for column in model.encoder_.columns_])
    )
    if not cells:
        return None
    kinds = {column.name: column.kind for column in model.encoder_.columns_}
    new = {name: rows for name, rows in cells.items() if kinds[name] == "category"}
    far = {name: rows for name, rows in cells.items() if name not in new}
    for columns, what, remedy in (
        (
            far,
            "values far outside those the model was fitted on",
            "their scores are unreliable; is the unit the same?",
        ),
        (new, "values that the model has not seen", "they are treated as unknown"),
    ):
        if columns:
            n_rows = int(np.any(list(columns.values()), axis=0).sum())
            counts = listed([f"{name} in {int(rows.sum()):,}" for name, rows in columns.items()])
            note(f"{n_rows:,} of {len(table):,} rows of {file} have {what} ({counts}): {remedy}")
    return [
        ", ".join(name for name, rows in cells.items() if rows[row]) or None
        for row in range(len(table))
    ]


# ---- scores and ranks


def predicted_scores(
    model: Any, features: FloatArray, queries: Index, linked: dict[str, Any]
) -> tuple[FloatArray, FloatArray | None]:
    """Scores (n_rows,) and, where the model knows how sure it is, their standard deviations
    (n_rows,).

    The level of a ranker's scores is arbitrary and most of their uncertainty, so its standard
    deviations are those of a score less the mean of its query: diag((I − J) C (I − J)) with J =
    11ᵀ/m. O(m²) memory, hence only for queries of up to MAX_ROWS_WITHOUT_LEVEL rows.
    """
    if not model.knows_uncertainty:
        return np.asarray(model.predict(features)), None
    if model.is_average and model.with_queries:
        linked = {**linked, "qid": queries}
    scores, std = map(np.asarray, model.predict(features, return_std=True, **linked))
    if model.is_average or is_regressor(model):  # the level is that of the scores
        return scores, std
    sizes = np.bincount(queries)
    for query in np.flatnonzero((sizes > 0) & (sizes <= MAX_ROWS_WITHOUT_LEVEL)):
        rows = np.flatnonzero(queries == query)
        covariance = np.asarray(model.predict(features[rows], return_cov=True)[1])
        shared = covariance.mean(axis=0)
        std[rows] = np.sqrt(np.maximum(np.diag(covariance) - 2 * shared + shared.mean(), 0))
    if (sizes > MAX_ROWS_WITHOUT_LEVEL).any():
        note(
            "std includes the uncertainty of the level of the scores in queries of more than "
            f"{MAX_ROWS_WITHOUT_LEVEL:,} rows"
        )
    return scores, std


def ranked_order(scores: FloatArray, queries: Index) -> tuple[Any, Any]:
    """Rows in order, query by query and the best first, and the rank of each within its query, from
    1.

    Rows with the same score stay in the order of the table.
    """
    order = np.lexsort((-scores, queries))
    begins = run_starts(queries[order])
    ranks = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order))) + 1
    return order, ranks


def result_names(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Names of result columns beside those of a table, with `predicted_` before a name that the
    table has.
    """
    free = []
    for name in names:
        if name in taken and f"predicted_{name}" in taken:
            raise ValueError(
                f"the table has columns {name!r} and 'predicted_{name}': rename one of them"
            )
        free.append(f"predicted_{name}" if name in taken else name)
    return free
