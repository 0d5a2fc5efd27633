"""Answers that a model is to learn from: a table of scored rows or of comparisons, with the items in it or beside it.

`corank update`: a model and new answers, scores or comparisons → a model that has learned from them too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray
from sklearn.base import is_regressor

from corank._messages import count
from corank.cli.columns import features_of, queries_of, text_columns
from corank.cli.comparisons import NamedItems, PairColumns, joined, read_pairs
from corank.cli.console import command, facts, note, show, size_of, working
from corank.cli.files import DASH, check_model_and_table, check_model_output, given, given_too, title_of
from corank.cli.options import (
    TABLE,
    AsJson,
    CountInFit,
    Force,
    IdInFit,
    LoserInFit,
    ModelFile,
    QueryInFit,
    Quiet,
    Read,
    ScoreInFit,
    WinnerInFit,
)
from corank.tables import TableError, column, query_column, read_table, score_column


@dataclass(frozen=True)
class AnswerFiles:
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
            NamedItems(self.items, item, table),
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


def update(
    context: typer.Context,
    model: ModelFile,
    answers: Annotated[
        Path,
        typer.Argument(
            help="Table of newly scored rows or, for a model of comparisons, of who beat whom; also the answered "
            f"questions of `corank suggest`: {TABLE}.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where to save the new model.", show_default=False)],
    items: Annotated[
        Path | None, typer.Option(help="Table that describes the items which answers name.", show_default=False)
    ] = None,
    id: IdInFit = None,
    score: ScoreInFit = None,
    query: QueryInFit = None,
    winner: WinnerInFit = None,
    loser: LoserInFit = None,
    margin: Annotated[
        str | None, typer.Option(help="Column that says by how much. Default: as in fit.", show_default=False)
    ] = None,
    times: CountInFit = None,
    format: Read = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Add newly scored rows, or comparisons, to a model.

    Its kernel and its other settings stay; to choose them anew, fit again.
    Rows and questions without an answer are left out.
    """
    check_model_and_table("update", model, answers)
    answers_file, items_file = given(context, answers, format), given_too(context, items)
    for read in (answers_file, items_file):
        check_model_output(out, read, force=force)
    began = time.perf_counter()
    with working(quiet=quiet) as doing:
        doing(f"reading {title_of(answers)}")
        told = AnswerFiles(answers_file, items_file, id, score, query, winner, loser, margin, times)
        learner, numbers = _updated(model, told, doing)
        doing(f"writing {out.name}")
        learner.save(out, overwrite=force)
    result = {
        "model": str(out),
        "method": type(learner).__name__,
        **numbers,
        **{key: (learner.table_ or {}).get(key) for key in ("rows", "scored", "queries", "comparisons")},
        "seconds": round(time.perf_counter() - began, 3),
    }
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    elif not quiet:
        _show(result, answers, items, out, can_suggest=hasattr(learner, "suggest"))


def _updated(model_file: Path, given: Any, doing: Callable[[str], None]) -> tuple[Any, dict[str, int]]:
    """The model with what was added, and how much that is."""
    from corank.cli.show import is_compared
    from corank.learners import load

    model = load(model_file)
    if is_compared(model):
        numbers: dict[str, int] = given.add_comparisons(model, doing)
    else:
        numbers = given.add_scores(model, doing)
    if model.table_ is not None:
        counts = {key: value for key, value in model._summary().items() if model.table_.get(key) is not None}
        model.table_ = {**model.table_, **counts}
    return model, numbers


def _show(result: dict[str, Any], answers: Path, items: Path | None, out: Path, *, can_suggest: bool) -> None:
    compared = result["comparisons"] is not None
    what = "comparison" if compared else "scored row"
    known = result["comparisons"] if compared else result["scored"]
    pairs = {"added": _answers(result) if "answers" in result else count(result["added"], what)}
    if known is not None:
        pairs["now"] = count(known, what) + (f" of {count(result['scored'], 'item')}" if compared else "")
    pairs |= {"time": f"{result['seconds']:.1f} s", "saved as": f"{out} ({size_of(out)})"}
    pool = "POOL" if items in (None, DASH) else items
    after = f"corank suggest {out} {pool}" if can_suggest else f"corank rank {out} NEW_FILE --out ranked.csv"
    show(facts(f"{result['method']} updated by {title_of(answers)}", pairs), command(after))


def _answers(result: dict[str, Any]) -> str:
    """How many questions were answered, in words."""
    ties, unanswered = result["ties"], result["unanswered"]
    both = ": a win for both" if result["method"] == "PreferenceGP" else ""
    words = count(result["answers"], "answer") + (f" ({count(ties, 'tie')}{both})" if ties else "")
    return words + (f", {unanswered:,} not answered" if unanswered else "")
