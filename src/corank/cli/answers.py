"""Answers that a model is to learn from: a table of scored rows or of comparisons, with the items in it or beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import is_regressor

from corank.cli.columns import features_of, queries_of, text_columns
from corank.cli.console import count, note
from corank.cli.items import Items, joined
from corank.cli.pairs import PairColumns, read_pairs
from corank.tables import TableError, column, query_column, read_table, score_column


@dataclass(frozen=True)
class Answers:
    """Where the answers are and what their columns are called, None where nobody says."""

    file: Path
    items: Path | None
    item: str | None
    score: str | None
    query: str | None
    winner: str | None
    loser: str | None
    margin: str | None
    count: str | None

    # ---- comparisons

    def add_comparisons(self, model: Any, doing: Callable[[str], None]) -> dict[str, int]:
        """Update a model of comparisons; returns how many were `added` and, of questions, how many had an answer."""
        name = type(model).__name__
        if not hasattr(model, "update_comparisons"):
            raise ValueError(
                f"a {name} of comparisons cannot be updated: add the new ones to the table and run corank fit again, or "
                "choose --method preference or difference there"
            )
        if self.margin is not None and name == "PreferenceGP":
            raise ValueError("--margin does not go with PreferenceGP, which learns from who won alone")
        remembered = model.table_ or {}
        item = self._item(remembered)
        if self.items is None:
            raise ValueError("the model was fitted on comparisons: say which table describes the items with --items")
        by = self.query or remembered.get("query")
        table = read_table(self.items, text=text_columns(model, item, by))
        by, codes = queries_of(
            table, self.items, by, asked=self.query is not None, otherwise="any two items may be compared"
        )
        pairs = read_pairs(
            self.file,
            Items(self.items, item, table),
            PairColumns(self.winner, self.loser, self.margin, self.count),
            PairColumns(*(remembered.get(key) for key in ("winner", "loser", "margin", "count"))),
            with_margins=name != "PreferenceGP",
            query=None if by is None else (by, codes),
        )
        doing(f"adding {count(pairs.number, 'comparison')}")
        own = pairs.given()
        if model._with_queries:
            own["qid"] = codes
        model.update_comparisons(features_of(model, table), **own)
        if remembered.get("comparisons") is not None:
            model.table_ = {**remembered, "comparisons": remembered["comparisons"] + pairs.number}
        return {"added": pairs.number, **(pairs.questions or {})}

    def _item(self, remembered: dict[str, Any]) -> str:
        item: str | None = self.item or remembered.get("id")
        if item is None:
            raise ValueError("the model does not remember which column names the items: say which with --item")
        return item

    # ---- scores

    def add_scores(self, model: Any, doing: Callable[[str], None]) -> dict[str, int]:
        """Update a model of scores; returns how many rows were `added`."""
        for name in ("winner", "loser", "margin", "count"):
            if getattr(self, name) is not None:
                raise ValueError(f"--{name} is for comparisons, but the model was fitted on scores")
        remembered = model.table_ or {}
        query = self._query(model, remembered)
        score = self.score or remembered.get("score") or "score"
        item = self.item or remembered.get("id")
        table = read_table(self.file, text=text_columns(model, query, item))
        column(table, score, "score")
        if self.items is not None:
            table = joined(table, self.file, self.items, self._item(remembered), text_columns(model, query))
        elif not _describes(table, model):
            raise TableError(
                f"{self.file} has none of the columns that the model learns from: say which table describes the items "
                "with --items"
            )
        scored = ~np.isnan(score_column(table, score))
        if not scored.any():
            raise TableError(f"no row of {self.file} has a score in {score!r}: there is nothing to add")
        if query is not None:
            _check_labels(table, query, scored, self.file)
            _note_queries(model, query)
        table = table.filter(pa.array(scored))
        y, queries = score_column(table, score), None if query is None else query_column(table, query)
        doing(f"adding {count(len(y), 'scored row')}")
        model.update(features_of(model, table), y, qid=queries)
        return {"added": len(y)}

    def _query(self, model: Any, remembered: dict[str, Any]) -> str | None:
        query: str | None = self.query or remembered.get("query")
        if not model._with_queries:
            if self.query is not None:
                raise ValueError("--query does not go with this model, which was fitted without queries")
            return None
        if query is None:
            raise ValueError("the model was fitted with queries: say which column holds them with --query")
        return query


def _check_labels(table: pa.Table, query: str, scored: NDArray[np.bool_], file: Path) -> None:
    """Refuse scored rows whose query nobody says, by their number in the file."""
    missing = np.flatnonzero(scored & column(table, query, "query").is_null(nan_is_null=True).to_numpy())
    if missing.size:
        raise TableError(
            f"data row {missing[0] + 1} of {file} has a score but nothing in {query!r}: every scored row needs a query"
        )


def _note_queries(model: Any, query: str) -> None:
    """Say what a ranker does not do: it keeps no labels, so that rows of a known query make a new one."""
    if not is_regressor(model):
        note(
            f"the new rows form queries of their own, as the model does not remember labels: rows of a {query!r} that it "
            "knows are compared with each other, not with those before; for that, run corank fit on all rows"
        )


def _describes(table: pa.Table, model: Any) -> bool:
    """Whether a table has columns that a model learns from."""
    source = model if model.encoder_ is None else model.encoder_
    names = getattr(source, "feature_names_in_", None)
    return names is None or bool({str(name) for name in names} & set(table.column_names))
