"""Tables that a command applies a model to: opened, read with the columns that the model remembers
from fit, and linked.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer

from corank.cli.columns import features_of, remembered, text_columns
from corank.cli.comparisons import labels
from corank.cli.console import note
from corank.cli.files import check_model_and_table, check_single, readable, readable_or_none
from corank.cli.links import LinkTable, links_for
from corank.cli.options import CommonOptions, LinkOptions
from corank.core.arrays import FloatArray, Index
from corank.core.labels import encode_queries
from corank.core.messages import near_names
from corank.links import Links
from corank.tables import query_column, read_table

Step = Callable[[str], None]  # is called with the step that begins


@dataclass(frozen=True)
class OpenedTables:
    """The tables that a command reads: `file`, perhaps one that describes the `items`, and one of
    links.
    """

    file: Path
    items: Path | None
    links: LinkTable | None

    @classmethod
    def open(
        cls,
        context: typer.Context,
        model: Path,
        file: Path,
        common: CommonOptions,
        links: LinkOptions,
        items: Path | None = None,
    ) -> OpenedTables:
        """Open the tables of a command that applies a model."""
        check_model_and_table(str(context.info_name), model, file)
        source = readable(context, file, common.format)
        described_in = readable_or_none(context, items)
        linked = links.opened(context).table()
        if linked is not None:
            check_single(source, "links")
        return cls(source, described_in, linked)

    @property
    def paths(self) -> tuple[Path | None, ...]:
        """All that are read, which must not be overwritten."""
        return self.file, self.items, None if self.links is None else self.links.file


@dataclass(frozen=True)
class ItemTable:
    """A table of items as a model sees it.

    Attributes
    ----------
    model : fitted learner
    file, table : where the items stand
    query, queries : the query column, and the numbers of the queries (n_rows,), all 0 without such
        a column
    """

    model: Any
    file: Path
    table: pa.Table
    query: str | None
    queries: Index

    @classmethod
    def read(
        cls, model: Any, file: Path, query: str | None, *names: str | None, otherwise: str = ""
    ) -> ItemTable:
        """Read a table, with the query column of the fit if none is given; the columns `names` stay
        text.

        The column of the fit may be missing, which is noted, with what is done `otherwise`.
        """
        by = query or remembered(model, "query")
        table = read_table(file, text=text_columns(model, by, *names))
        if by is not None and query is None and by not in table.column_names:
            near = near_names(by, table.column_names)
            guess = f"; did you mean --query {shlex.quote(near[0])}?" if near else ""
            if otherwise:
                note(
                    f"{file} has no column {by!r}, which held the queries in fit:"
                    f" {otherwise}{guess}"
                )
            by = None
        queries = np.zeros(len(table), dtype=np.int64) if by is None else query_column(table, by)
        return cls(model, file, table, by, np.asarray(encode_queries(queries, len(table))[0]))

    @cached_property
    def features(self) -> FloatArray:
        """What the model learns from: (n_rows, n_features)."""
        return features_of(self.model, self.table)

    def links(
        self, links: LinkTable | None, item: str | None, *, needed: bool = False
    ) -> Links | None:
        """Links between the rows, as in `links_for`."""
        return links_for(self.model, links, self.table, item, self.file, needed=needed)

    def names(
        self, column: str | None, *, asked: bool
    ) -> tuple[str | None, list[str | None] | None]:
        """The column that names the items, and the names; a column that was not `asked` for may be
        missing, which is noted.
        """
        if column is not None and not asked and column not in self.table.column_names:
            note(
                f"{self.file} has no column {column!r}, which named the items in fit: row numbers"
                " are used instead"
            )
            column = None
        return column, None if column is None else labels(self.table, column, "item", self.file)


def named_by(model: Any, item: str | None) -> str:
    """The column that names the items: the given one, else that of the fit."""
    column = item or remembered(model, "id")
    if column is None:
        raise ValueError(
            "the model does not remember which column names the items: name it with --id"
        )
    return str(column)
