"""A model and the tables that a command applies it to: opened, read with the columns that the model
remembers from fit, and linked.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer

from corank.cli.columns import features_of, remembered, text_columns, unlabelled_score
from corank.cli.console import check_model_and_table, check_single, note, readable
from corank.cli.named_tables import DIRECTED, LinkTable, check_named, read_scored_items
from corank.cli.options import CommonOptions, LinkOptions
from corank.core.arrays import FloatArray, Index, Mask, NumpyArray
from corank.core.messages import near_names
from corank.core.queries import encode_queries
from corank.model_files import load
from corank.model_files.known_answers import row_marks
from corank.tables import TableError, TableFile, query_column, score_column
from corank.tables.comparisons import PairColumns
from corank.tables.names import NamedItems, names_in

Step = Callable[[str], None]  # is called with the step that begins


@dataclass(frozen=True)
class AppliedModel:
    """A model and what a command applies it to: the table `file`, perhaps one that describes the
    `items`, and one of links.
    """

    path: Path
    file: TableFile
    items: TableFile | None
    links: LinkTable | None

    @classmethod
    def opened(
        cls,
        context: typer.Context,
        path: Path,
        file: Path,
        common: CommonOptions,
        links: LinkOptions,
        items: Path | None = None,
    ) -> AppliedModel:
        """The tables that a command names; the model is loaded when it is used."""
        check_model_and_table(str(context.info_name), path, file)
        table = readable(context, file, common.format, is_first=True)
        described_in = None if items is None else readable(context, items)
        linked = links.opened(context)
        if linked is not None:
            check_single(table.path, "links")
        return cls(path, table, described_in, linked)

    @cached_property
    def model(self) -> Any:
        """The fitted learner."""
        return load(self.path)

    @property
    def sources(self) -> tuple[TableFile | None, ...]:
        """All tables that are read, which must not be overwritten."""
        return self.file, self.items, None if self.links is None else self.links.file

    def named_by(self, item: str | None) -> str:
        """The column that names the items: the given one, else that of the fit."""
        column = item or remembered(self.model, "id")
        if column is None:
            raise ValueError(
                "the model does not remember which column names the items: name it with --id"
            )
        return str(column)

    def linked(
        self, table: pa.Table, item: str | None, file: TableFile, *, needed: bool = False
    ) -> dict[str, Any]:
        """Links between the rows of a table as the argument of a model's methods; empty where there
        are none.

        The table must hold every item that links should lead to. Direction is that of the fit.
        `needed`: whether a model that was fitted with links cannot do without.
        """
        kind = remembered(self.model, "links")
        has_links = kind is not None or self.model.with_links
        if self.links is None:
            if has_links and needed:
                raise ValueError(
                    "the model was fitted with links: give --links, and a table of all linked items"
                )
            if has_links:
                note(
                    "the model was fitted with links, but --links is not given: only the columns of"
                    " each item are used"
                )
            return {}
        if not has_links:
            raise ValueError(
                "--links: the model was fitted without links; leave it out, or give it to corank"
                " fit"
            )
        item = check_named(item or remembered(self.model, "id"))
        links = replace(self.links, directed=kind == DIRECTED).between(
            table, item, file, may_be_empty=True
        )
        if links.matrix.nnz == 0:
            note(
                f"no link of {self.links.file} joins two items of {file}: only the columns of each"
                " item are used"
            )
        return {"links": links}

    def compared_items(
        self, query: str | None, item: str, otherwise: str
    ) -> tuple[ItemTable, NamedItems]:
        """The table that describes the items of comparisons, and its rows by name."""
        assert self.items is not None
        items = ItemTable.read(self, self.items, query, item, otherwise=otherwise)
        queries = None if items.query is None else (items.query, items.queries)
        return items, NamedItems(self.items, item, items.table, queries)

    @property
    def pair_columns(self) -> PairColumns:
        """Names of the columns of comparisons in fit."""
        return PairColumns.remembered(self.model)


@dataclass(frozen=True)
class ItemTable:
    """A table of items as a model sees it.

    Attributes
    ----------
    applied : the model
    file, table : where the items stand
    query, queries : the query column, and the numbers of the queries (n_rows,), all 0 without such
        a column
    """

    applied: AppliedModel
    file: TableFile
    table: pa.Table
    query: str | None
    queries: Index

    @classmethod
    def read(
        cls,
        applied: AppliedModel,
        file: TableFile,
        query: str | None,
        *names: str | None,
        otherwise: str = "",
    ) -> ItemTable:
        """Read a table, with the query column of the fit if none is given; the columns `names` stay
        text.

        The column of the fit may be missing, which is noted, with what is done `otherwise`.
        """
        by = query or remembered(applied.model, "query")
        table = file.read(text_columns(applied.model, by, *names))
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
        codes = np.asarray(encode_queries(queries, len(table))[0])
        return cls(applied, file, table, by, codes)

    @cached_property
    def features(self) -> FloatArray:
        """What the model learns from: (n_rows, n_features)."""
        return features_of(self.applied.model, self.table)

    def linked(self, item: str | None, *, needed: bool = False) -> dict[str, Any]:
        """Links between the rows, as in `AppliedModel`."""
        return self.applied.linked(self.table, item, self.file, needed=needed)

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
        return column, None if column is None else names_in(self.table, column, "item", self.file)


@dataclass(frozen=True)
class ScoredItems:
    """Rows with scores as a model sees them; with links all rows, as others resemble them.

    Attributes
    ----------
    table : the rows
    scores : (n_rows,), NaN where unscored
    queries : (n_rows,) labels, or None
    features : (n_rows, n_features)
    linked : links between the rows, as in `AppliedModel`
    marks : of the scored rows, by which they are recognised
    """

    table: pa.Table
    scores: FloatArray
    queries: NumpyArray | None
    features: FloatArray
    linked: dict[str, Any]
    marks: list[str]

    @classmethod
    def of(
        cls,
        applied: AppliedModel,
        table: pa.Table,
        score: str,
        query: str | None,
        item: str | None,
        *,
        needed: bool = False,
    ) -> ScoredItems:
        """The rows of a table; links that are `needed` must be there."""
        model = applied.model
        scores = score_column(table, score, unlabelled_score(applied.model))
        file = applied.items or applied.file
        linked = applied.linked(table, item, file, needed=needed)
        if not linked:
            scored = ~np.isnan(scores)
            table = table.filter(pa.array(scored))
            scores = scores[scored]
        queries = None if query is None else query_column(table, query)
        features = features_of(model, table)
        names = None
        if item is not None and item in table.column_names:
            names = names_in(table, item, "item", applied.file)
        marks = row_marks(names, features, scores, queries)
        return cls(table, scores, queries, features, linked, marks)

    @property
    def scored(self) -> Mask:
        """Which rows have a score."""
        return ~np.isnan(self.scores)


def read_scored(
    applied: AppliedModel, score: str, query: str | None, item: str | None, *, empty: str
) -> pa.Table:
    """A table with scores, with the columns of the items that it names; `empty`: what is said where
    no row has a score.
    """
    if applied.items is not None:
        item = applied.named_by(item)
    text = text_columns(applied.model, query, item)
    every_item = applied.links is not None
    table = read_scored_items(applied.file, applied.items, item, score, text, every_item=every_item)
    if np.isnan(score_column(table, score, unlabelled_score(applied.model))).all():
        raise TableError(empty)
    return table
