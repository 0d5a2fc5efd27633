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

NAMES_SHARE = 0.9  # a column of text with a larger share of different values holds names
FEW_ROWS = 10  # below which different values say nothing
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
    for name, role in taken.items():
        column(table, name, role)
    for name in _split(wanted, names):
        if name in taken:
            raise TableError(
                f"--features {name!r}: this column is the {taken[name]}, so it cannot be a feature"
                " too"
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
    wanted = chosen.features or []
    identities = [] if identity is None else [identity]
    features = feature_columns(table, roles, wanted, chosen.drop or [], identity)
    given = [name for names in chosen.kinds.values() for name in names]
    features = without_ids(table, features, [*wanted, *given, *identities])
    kinds: dict[str, Any] = {
        kind: _split(names, table.column_names) for kind, names in chosen.kinds.items()
    }
    kinds["number"] = sorted(matching_columns(table, kinds["number"], "--number"))
    for kind, names in kinds.items():
        for name in names:
            # raises where there is none, and says what may have been meant
            column(table, name, f"--{kind}")
            if name not in features or name == identity:
                raise TableError(f"--{kind} {name!r}: this column is not learned from")
    return features, TableEncoder(**kinds, identity=tuple(identities))


def note_kinds(encoder: TableEncoder) -> None:
    """Say once which columns are read as text, as vectors and as dates without being asked to."""
    texts, dates, units = [], [], []
    vectors: dict[str, None] = {}
    for learned in encoder.columns_:
        name = learned.name
        kind = learned.kind
        format = learned.format
        if learned.dropped:
            continue
        if kind == "text" and name not in encoder.text:
            texts.append(name)
        if learned.vector:
            vectors[f"{learned.vector}*"] = None
        if kind == "date" and format:
            dates.append(f"{name} (like {date_example(format)})")
        if kind == "number" and format:
            units.append(f"{name} ({format})")
    categories = "--category NAMES makes them categories"
    for what, names, remedy in (
        ("text", texts, f"{categories}, --drop NAMES leaves them out"),
        ("components of one vector", list(vectors), "--number NAMES makes them separate numbers"),
        ("dates", dates, categories),
        ("numbers with a unit", units, categories),
    ):
        if names:
            note(f"read as {what}: {listed(names)}; {remedy}")


def _split(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Names and patterns one by one, where there may be several with commas between; a column whose
    name has a comma is found by its whole name.
    """
    single: list[str] = []
    for pattern in patterns:
        if pattern in names:
            single.append(pattern)
        else:
            parts = map(str.strip, pattern.split(","))
            single += [name for name in parts if name or name in names]
    return single


def matching_columns(table: pa.Table, patterns: Sequence[str], option: str) -> list[str]:
    """Names of the columns that patterns name, each once, in the order of the patterns."""
    names = table.column_names
    matched: dict[str, None] = {}
    for pattern in _split(patterns, names):
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
    columns = names if encoder is None else [column.name for column in encoder.columns_]
    views = views_of_columns(patterns, columns, **settings)
    return views if encoder is None else encoded_views(views, encoder.attributes_)


def views_of_columns(patterns: Sequence[str], columns: Sequence[str], **settings: Any) -> Any:
    """Views of the columns of a table; `settings` as in `views_of`."""
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
    for glob in _split([globs], columns):
        matched = match_columns(glob, columns)
        if not matched:  # word=*: its categories
            matched = match_columns(glob.removesuffix("=*"), columns)
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


def remembered_ids(model: Any) -> list[str]:
    """The columns that named the items in fit."""
    table = model.table_ or {}
    roles = [role for role in table if role == "id" or role.startswith("id ")]
    return [table[role] for role in roles if table[role] is not None]


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


def without_ids(table: pa.Table, features: Sequence[str], asked: Sequence[str]) -> list[str]:
    """The features without columns that only number or name the rows, which is said.

    `asked` : names and patterns that are given; columns given by name are learned from whatever
        they look like
    """
    named = _split(asked, features)
    left_out: dict[str, str] = {}
    for name in features:
        values = plain(table[name])
        if name in named:
            continue
        if looks_like_id(name, values):
            left_out[name] = "row number, so it is not learned from; --number"
        elif is_text(values.type) and len(values) >= FEW_ROWS:
            n_different = len(values.unique())
            are_names = n_different >= NAMES_SHARE * len(values)
            if are_names and kind_of_column(name, values)[0] == "category":
                different = f"{n_different:,} different values in {len(table):,} rows"
                left_out[name] = f"name ({different}), so it is not learned from; --category"
    if len(left_out) == len(features):
        return list(features)
    for name, what in left_out.items():
        label = f"column {name!r}" if name else "the column without a name"
        note(f"{label} looks like a {what} {shlex.quote(name)} learns from it anyway")
    return [name for name in features if name not in left_out]


def note_repeated_ids(
    names: Sequence[str | None], queries: Index | None, column: str, *, are_items: bool
) -> bool:
    """Say where one name stands for several rows: of a query, or where they are one item to the
    learner of any; and whether it does.
    """
    labels = [0] * len(names) if queries is None or are_items else queries.tolist()
    counts = Counter(pair for pair in zip(names, labels, strict=True) if pair[0] is not None)
    repeated = [name for (name, _), number in counts.items() if number > 1]
    if repeated:
        meaning = "all rows are learned from, but answers and links by name cannot tell these apart"
        if are_items:
            meaning = "rows of one name are one item, of which an effect is learned, too"
        values = count(len(repeated), "value")
        note(f"column {column!r} has {values} in several rows, such as {repeated[0]!r}: {meaning}")
    return bool(repeated)


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
    names += tuple(remembered(model, role) for role in ("person", "item"))
    return [*texts, *(name for name in names if name is not None)]


def unusual_cells(model: Any, table: pa.Table, file: TableFile) -> list[str | None] | None:
    """For each row the columns whose values are unlike those the model was fitted on; None where
    all are as usual.

    Says how many such rows there are.
    """
    encoder = model.encoder_
    if encoder is None:
        return None
    kinds = {column.name: column.kind for column in encoder.columns_}
    names = [column.name for column in encoder.columns_ if not column.dropped]
    n_absent = len(set(names).difference(table.column_names))
    if 2 * n_absent > len(names):  # features of an SVMlight file
        note(
            f"no row of {file} names {n_absent:,} of the {len(names):,} features of the model: they"
            " count as 0"
        )
    cells = encoder.unusual(with_zeros(table, kinds))
    if not cells:
        return None
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
    unusual = [[name for name, rows in cells.items() if rows[row]] for row in range(len(table))]
    return [", ".join(names) or None for names in unusual]


# ---- scores and ranks


def check_scores(
    file: TableFile, score: str | None, y: FloatArray, query: str | None, queries: Index | None
) -> None:
    """Refuse scores from which nothing can be learned: in a ranker, two rows of a `query`
    must differ.
    """
    scores = f"score column {score!r} of {file}"
    if len(y) == 0:
        raise TableError(f"{scores} is empty: there is nothing to learn from")
    if len(y) == 1:
        raise TableError(f"{scores} has a single score: at least two are needed")
    codes = np.zeros(len(y)) if query is None or queries is None else queries
    order = np.lexsort((y, codes))
    compete = np.diff(codes[order]) == 0
    if not compete.any():
        raise TableError(
            f"no two rows with the same {query!r} have a score in {score!r}, so none can be"
            " compared: leave out its option to compare all rows"
        )
    if not np.any(compete & (np.diff(y[order]) != 0)):
        within = "" if query is None else f" within every {query!r}"
        raise TableError(f"all scores in {score!r} are the same{within}: there is nothing to learn")


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
