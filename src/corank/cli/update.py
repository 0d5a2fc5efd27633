"""`corank update`: a model and new answers, scores or comparisons → a model that has learned from them too."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer
from sklearn.base import is_regressor

from corank._messages import count
from corank.cli.columns import features_of, queries_of, text_columns
from corank.cli.comparisons import UNNAMED, NamedItems, PairColumns, joined, read_pairs
from corank.cli.console import command, facts, note, show, show_json, size_of, working
from corank.cli.files import (
    DASH,
    check_model_and_table,
    check_model_output,
    readable,
    readable_or_none,
    title_of,
)
from corank.cli.links import LinkTable, as_argument, file_of, link_table, links_for, with_scores
from corank.cli.options import (
    AnswersTable,
    AsJson,
    CountInFit,
    Force,
    InputFormat,
    ItemInFit,
    LinkColumns,
    LinksFile,
    LoserInFit,
    MarginInFit,
    ModelFile,
    NamedItemsTable,
    QueryInFit,
    Quiet,
    ScoreInFit,
    UpdateOut,
    WinnerInFit,
)
from corank.describe import learned_from_comparisons
from corank.model_files import load
from corank.tables import TableError, column, query_column, read_table, score_column


def update(
    context: typer.Context,
    model: ModelFile,
    answers: AnswersTable,
    out: UpdateOut,
    items: NamedItemsTable = None,
    id: ItemInFit = None,
    score: ScoreInFit = None,
    query: QueryInFit = None,
    winner: WinnerInFit = None,
    loser: LoserInFit = None,
    margin: MarginInFit = None,
    times: CountInFit = None,
    links: LinksFile = None,
    link_columns: LinkColumns = None,
    format: InputFormat = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Add newly scored rows, or comparisons, to a model.

    Its kernel and its other settings stay; to choose them again, fit again.
    Rows and questions without an answer are left out.
    """
    check_model_and_table("update", model, answers)
    answers_table, items_table = readable(context, answers, format), readable_or_none(context, items)
    linked = link_table(context, links, link_columns)
    check_model_output(out, answers_table, items_table, file_of(linked), force=force)
    began = time.perf_counter()
    with working(quiet=quiet) as step:
        step(f"reading {title_of(answers)}")
        learner = load(model)
        pair_columns = PairColumns(winner, loser, margin, times)
        files = AnswerFiles(answers_table, items_table, id, score, query, pair_columns, linked)
        add = files.add_comparisons if learned_from_comparisons(learner) else files.add_scores
        numbers = add(learner, step)
        table = learner.table_
        if table is not None:
            counts = {name: number for name, number in learner._summary().items() if table.get(name) is not None}
            learner.table_ = {**table, **counts}
        step(f"writing {out.name}")
        learner.save(out, overwrite=force)
    result = {
        "model": str(out),
        "method": type(learner).__name__,
        **numbers,
        **{key: (learner.table_ or {}).get(key) for key in ("rows", "scored", "queries", "comparisons")},
        "seconds": round(time.perf_counter() - began, 3),
    }
    if as_json:
        show_json(result)
    elif not quiet:
        pool = "POOL" if items in (None, DASH) else items
        can_suggest = hasattr(learner, "suggest")
        more = "" if links is None else f" --links {shlex.quote(str(links))}"
        after = f"corank suggest {out} {pool}{more}" if can_suggest else f"corank rank {out} NEW_FILE --out ranked.csv"
        saved = {"saved as": f"{out} ({size_of(out)})"}
        show(facts(f"{result['method']} updated by {title_of(answers)}", _sentences(result) | saved), command(after))


def _sentences(result: dict[str, Any]) -> dict[str, str]:
    """What was added, and what the model has learned from now."""
    compared = result["comparisons"] is not None
    unit, total = ("comparison", result["comparisons"]) if compared else ("scored row", result["scored"])
    added = count(result["added"], unit)
    if "answers" in result:
        both = ": a win for both" if result["method"] == "PreferenceGP" else ""
        added = count(result["answers"], "answer")
        added += f" ({count(result['ties'], 'tie')}{both})" if result["ties"] else ""
        added += f", {result['unanswered']:,} not answered" if result["unanswered"] else ""
    sentences = {"added": added}
    if total is not None:
        sentences["now"] = count(total, unit) + (f" of {count(result['scored'], 'item')}" if compared else "")
    return sentences | {"time": f"{result['seconds']:.1f} s"}


@dataclass(frozen=True)
class AnswerFiles:
    """Tables of answers and of the items they name, and what their columns are called, None where not given."""

    file: Path
    items: Path | None
    item: str | None
    score: str | None
    query: str | None
    pair_columns: PairColumns
    links: LinkTable | None

    def add_comparisons(self, model: Any, step: Callable[[str], None]) -> dict[str, int]:
        """Update a model of comparisons; returns how many were `added` and, of questions, how many had an answer."""
        learner, remembered = type(model).__name__, model.table_ or {}
        if not hasattr(model, "update_comparisons"):
            raise ValueError(
                f"{learner} on comparisons cannot be updated: add the new ones to the table and run corank fit again, or "
                "choose --method preference or difference there"
            )
        if self.pair_columns.margin is not None and learner == "PreferenceGP":
            raise ValueError("--margin does not go with PreferenceGP, which learns from who won alone")
        item = self._item(remembered)
        if self.items is None:
            raise ValueError("the model was fitted on comparisons: say which table describes the items with --items")
        query = self.query or remembered.get("query")
        table = read_table(self.items, text=text_columns(model, item, query))
        asked, otherwise = self.query is not None, "any two items may be compared"
        query, codes = queries_of(table, self.items, query, asked=asked, otherwise=otherwise)
        pairs = read_pairs(
            self.file,
            NamedItems(self.items, item, table),
            self.pair_columns,
            PairColumns.remembered(model),
            with_margins=learner != "PreferenceGP",
            query=None if query is None else (query, codes),
        )
        step(f"adding {count(pairs.number, 'comparison')}")
        queries = {"qid": codes} if model._with_queries else {}
        links = links_for(model, self.links, table, item, self.items, needed=True)
        joining = as_argument(links)
        model.update_comparisons(features_of(model, table), **pairs.arguments(), **queries, **joining)
        if remembered.get("comparisons") is not None:
            model.table_ = {**remembered, "comparisons": remembered["comparisons"] + pairs.number}
        return {"added": pairs.number, **(pairs.questions or {})}

    def _item(self, remembered: dict[str, Any]) -> str:
        item: str | None = self.item or remembered.get("id")
        if item is None:
            raise ValueError("the model does not remember which column names the items: say which with --item")
        return item

    def add_scores(self, model: Any, step: Callable[[str], None]) -> dict[str, int]:
        """Update a model of scores; returns how many rows were `added`."""
        if self.pair_columns != UNNAMED:
            name = next(name for name, value in vars(self.pair_columns).items() if value is not None)
            raise ValueError(f"--{name} is for comparisons, but the model was fitted on scores")
        remembered = model.table_ or {}
        query = self._query(model, remembered)
        score = self.score or remembered.get("score") or "score"
        table = read_table(self.file, text=text_columns(model, query, self.item or remembered.get("id")))
        column(table, score, "score")
        if self.items is not None:
            item, text = self._item(remembered), text_columns(model, query)
            if self.links is None:
                table = joined(table, self.file, self.items, item, text)
            else:
                table = with_scores(table, self.file, self.items, item, score, text)
        elif not _describes(table, model):
            raise TableError(
                f"{self.file} has none of the columns that the model learns from: say which table describes the items "
                "with --items"
            )
        scored = ~np.isnan(score_column(table, score))
        if not scored.any():
            raise TableError(f"no row of {self.file} has a score in {score!r}: there is nothing to add")
        if query is not None:
            unlabelled = scored & column(table, query, "query").is_null(nan_is_null=True).to_numpy()
            if unlabelled.any():
                raise TableError(
                    f"data row {np.argmax(unlabelled) + 1} of {self.file} has a score but nothing in {query!r}: every "
                    "scored row needs a query"
                )
            if not is_regressor(model):
                note(
                    f"the new rows form queries of their own, as the model does not remember labels: rows of a {query!r} "
                    "that it knows are compared with each other, not with those before; for that, run corank fit on all "
                    "rows"
                )
        links = links_for(model, self.links, table, self.item, self.items or self.file, needed=True)
        if links is None:
            table = table.filter(pa.array(scored))
        y, queries = score_column(table, score), None if query is None else query_column(table, query)
        n_added = int(np.count_nonzero(scored))
        step(f"adding {count(n_added, 'scored row')}")
        model.update(features_of(model, table), y, qid=queries, **as_argument(links))
        return {"added": n_added}

    def _query(self, model: Any, remembered: dict[str, Any]) -> str | None:
        query: str | None = self.query or remembered.get("query")
        if not model._with_queries:
            if self.query is not None:
                raise ValueError("--query does not go with this model, which was fitted without queries")
            return None
        if query is None:
            raise ValueError("the model was fitted with queries: say which column holds them with --query")
        return query


def _describes(table: pa.Table, model: Any) -> bool:
    """Whether a table has columns that a model learns from."""
    names = getattr(model.encoder_ or model, "feature_names_in_", None)
    return names is None or bool({str(name) for name in names} & set(table.column_names))
