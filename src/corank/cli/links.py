"""Links between items on the command line: the table that --links names, and how a model takes what
it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corank.cli.comparisons import NamedItems, labels, read_scores
from corank.cli.console import note
from corank.cli.files import DASH
from corank.links import Links, read_links
from corank.tables import (
    TableError,
    TableFile,
    column,
    columns_of,
    is_text,
    numbers,
    plain,
    score_column,
)

MUTUAL, DIRECTED = "mutual", "directed"  # what a model remembers of the links it was fitted with
WEIGHT_NAMES = ("weight", "weights", "count", "times", "strength")


@dataclass(frozen=True)
class LinkTable:
    """A table of links.

    Attributes
    ----------
    file : the table
    columns : names of its two columns of items and perhaps that of weights; empty = the first two
    directed : whether directions are kept
    """

    file: TableFile
    columns: tuple[str, ...]
    directed: bool

    @property
    def kind(self) -> str:
        """What a model remembers of it."""
        return DIRECTED if self.directed else MUTUAL

    def between(
        self, table: pa.Table, item: str, file: TableFile, *, may_be_empty: bool = False
    ) -> Links:
        """The links between the rows of a table from `file`, whose column `item` names the rows.

        may_be_empty : whether it is fine that no link joins two of the rows
        """
        ids = NamedItems(file, item, table).labels
        names = list(self.columns)
        edges = self.file.read(names[:2])
        if not names:
            names = edges.column_names[:2]
            if len(names) < 2:
                raise TableError(
                    f"--links {self.file} has only one column, {names[0]!r}, but a link takes two"
                )
            if not all(is_text(edges.schema.field(name).type) for name in names):
                edges = self.file.read(names)  # labels such as 007 stay as they are
            unused = [name for name in edges.column_names[2:] if name.lower() in WEIGHT_NAMES]
            if unused:
                columns = ",".join([*names, unused[0]])
                note(
                    f"all links count equally: --link-columns {columns} takes column {unused[0]!r}"
                    " as weights"
                )
        ends = {str(at): _trimmed(column(edges, name, "link")) for at, name in enumerate(names[:2])}
        if len(names) == 3:
            ends["weight"] = pa.array(numbers(column(edges, names[2], "weight"), names[2]))
        try:
            links = read_links(
                ends, len(table), ids=ids, directed=self.directed, may_be_empty=may_be_empty
            )
        except ValueError as error:
            message = str(error).removeprefix("links: ").removesuffix(".")
            raise TableError(f"--links {self.file}: {message}") from error
        if links.n_unknown:
            note(links.remark())
        return replace(links, n_unknown=0)  # it is said once


def _trimmed(values: Any) -> Any:
    values = plain(values)
    return pc.utf8_trim_whitespace(values) if is_text(values.type) else values


# ---- options


def links_option(links: Path | None) -> str:
    """The option --links of a command to run next, as it was given to this one."""
    return "" if links is None else f" --links {'LINKS' if links == DASH else links}"


def check_named(item: str | None) -> str:
    """The column that names the items; an error where nothing says what they are called."""
    if item is None:
        raise ValueError("--links needs --id, the column that names the items")
    return item


# ---- scored items


def read_scored_items(
    file: TableFile,
    items: TableFile | None,
    item: str | None,
    score: str,
    text: Sequence[str],
    *,
    every_item: bool,
) -> pa.Table:
    """Read a table with scores, joined by the names in column `item` with the table that describes
    the `items`, if any.

    There is a row per score or, for `every_item`, as links need it, a row per item, scored or not.
    """
    answers = read_scores(file, items, item, score, text)
    if items is None:
        return answers
    assert item is not None
    table = items.read([*text, item])
    rows = NamedItems(items, item, table).rows_of(labels(answers, item, "item", file), file, item)
    if not every_item:
        columns: dict[str, Any] = {}
        # of columns that both have, that of the answers
        for source in (table.take(pa.array(rows)), answers):
            columns |= columns_of(source)
        return pa.table(columns)
    values = score_column(answers, score)
    given = ~np.isnan(values)
    repeated = np.flatnonzero(np.bincount(rows[given], minlength=len(table)) > 1)
    if repeated.size:
        name = table[item][int(repeated[0])].as_py()
        raise TableError(
            f"{name!r} has several scores in {file}: with --links every item is one row, with one"
            " score"
        )
    scores = np.full(len(table), np.nan)
    scores[rows[given]] = values[given]
    if score in table.column_names:
        table = table.drop_columns([score])
    return table.append_column(score, pa.array(scores, from_pandas=True))
