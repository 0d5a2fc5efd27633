"""`corank update`: a model and new answers, scores or comparisons → a model that has learned from
them too.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer
from sklearn.base import is_regressor

from corank.cli.columns import features_of, remembered, text_columns, unlabelled_score
from corank.cli.comparisons import (
    NamedItems,
    PairColumns,
    answers_in_words,
    labels,
    pairs_taken_back,
    read_pairs,
    scores_taken_back,
)
from corank.cli.console import command, note, show, show_json, size_of, working
from corank.cli.files import DASH, check_model_output, title_of
from corank.cli.items import ItemTable, OpenedTables, Step, named_by
from corank.cli.known_answers import are_new, pair_marks, row_marks, with_marks
from corank.cli.links import as_argument, links_for, read_scored_items
from corank.cli.options import (
    TABLE,
    CommonOptions,
    ItemsTable,
    LinkOptions,
    ModelFile,
    PairsInFit,
    ScoresInFit,
    argument,
    flag,
    option,
)
from corank.core.arrays import Mask
from corank.core.messages import count
from corank.describe import Facts, learned_from_comparisons
from corank.display import Table
from corank.model_files import load
from corank.tables import TableError, column, query_column, score_column


def update(
    context: typer.Context,
    *,
    model: ModelFile,
    answers: Path = argument(
        "Table of newly scored rows or, for a model of comparisons, of who beat whom; also the"
        f" answered questions of `corank suggest` and the answers of `corank ask`: {TABLE}."
    ),
    out: Path = option("Where to save the new model.", default=...),
    items: ItemsTable = None,
    roles: ScoresInFit,
    pairs: PairsInFit,
    links: LinkOptions,
    again: bool = flag("Count answers again that the model has already learned from."),
    common: CommonOptions,
) -> None:
    """Add newly scored rows, or comparisons, to a model.

    A single learner keeps its settings; an average weighs its models again.
    Rows and questions without an answer are left out, and so are answers
    that the model has already learned from. A corrected score counts in
    addition to the old one: fit again to replace it.
    """
    tables = OpenedTables.open(context, model, answers, common, links, items)
    check_model_output(out, *tables.paths, force=common.force)
    began = time.perf_counter()
    with working(quiet=common.quiet) as step:
        step(f"reading {title_of(answers)}")
        learner = load(model)
        update = ModelUpdate(learner, tables, roles, pairs, again)
        numbers = (
            update.add_comparisons if learned_from_comparisons(learner) else update.add_scores
        )(step)
        table = learner.table_
        if table is not None:
            counts = {
                name: number
                for name, number in learner.counts().items()
                if table.get(name) is not None
            }
            learner.table_ = {**table, **counts}
        step(f"writing {out.name}")
        learner.save(out, overwrite=common.force)
    result = {
        "model": str(out),
        "method": type(learner).__name__,
        **numbers,
        **{key: remembered(learner, key) for key in ("rows", "scored", "queries", "comparisons")},
        "seconds": round(time.perf_counter() - began, 3),
    }
    if common.as_json:
        show_json(result)
    elif not common.quiet:
        pool = "POOL" if items in (None, DASH) else items
        more = "" if links.links is None else f" --links {shlex.quote(str(links.links))}"
        after = f"corank rank {out} NEW_FILE --out ranked.csv"
        if hasattr(learner, "suggest"):
            after = f"corank suggest {out} {pool}{more}"
        saved = {"saved as": f"{out} ({size_of(out)})"}
        title = f"{result['method']} updated with {title_of(answers)}"
        show(Table.of_facts(title, _sentences(result) | saved), command(after))


def _sentences(result: Facts) -> dict[str, str]:
    """What was added, and what the model has learned from now."""
    compared = result["comparisons"] is not None
    unit, total = (
        ("comparison", result["comparisons"]) if compared else ("scored row", result["scored"])
    )
    added = count(result["added"], unit)
    if "answers" in result:
        answers = answers_in_words(
            result, ": a win for both" if result["method"] == "PreferenceGP" else ""
        )
        added = f"{added} of {answers}" if result["known"] else answers
    sentences = {"added": added}
    if result["known"]:
        sentences["left out"] = f"{count(result['known'], unit)} that the model already knows"
    if total is not None:
        sentences["now"] = count(total, unit) + (
            f" of {count(result['scored'], 'item')}" if compared else ""
        )
    return sentences | {"time": f"{result['seconds']:.1f} s"}


@dataclass(frozen=True)
class ModelUpdate:
    """A model, the tables of answers and of the items they name, and their columns; `again`: known
    answers count too.
    """

    model: Any
    tables: OpenedTables
    roles: ScoresInFit
    pair_columns: PairColumns
    again: bool

    def add_comparisons(self, step: Step) -> dict[str, int]:
        """Update a model of comparisons; returns how many were `added` and, of questions, how many
        had an answer.
        """
        model, file, described_in = self.model, self.tables.file, self.tables.items
        learner = type(model).__name__
        with_margins = learner != "PreferenceGP"
        if not hasattr(model, "update_comparisons"):
            raise ValueError(
                f"{learner} on comparisons cannot be updated: add the new ones to the table and run"
                " corank fit again, or choose --method preference or difference there"
            )
        if self.pair_columns.margin is not None and not with_margins:
            raise ValueError(
                "--margin does not go with PreferenceGP, which learns only from who won"
            )
        item = named_by(model, self.roles.id)
        if described_in is None:
            raise ValueError(
                "the model was fitted on comparisons: name the table that describes the items with"
                " --items"
            )
        otherwise = "any two items may be compared"
        items = ItemTable.read(model, described_in, self.roles.query, item, otherwise=otherwise)
        named = NamedItems(described_in, item, items.table)
        query = None if items.query is None else (items.query, items.queries)
        fitted = PairColumns.remembered(model)
        pairs = read_pairs(
            file, named, self.pair_columns, fitted, with_margins=with_margins, query=query
        )
        marks = pair_marks(named.labels, pairs)
        taken_back = pairs_taken_back(file, named, with_margins=with_margins)
        self._note_taken_back(
            marks, [pair_marks(named.labels, answer) for answer in taken_back], "taken back"
        )
        new, n_known = self._new(marks, "comparison")
        if n_known:
            arguments = {name: values[new] for name, values in pairs.arguments().items()}
            pairs = replace(pairs, counts=arguments.pop("weights", None), **arguments)
        step(f"adding {count(pairs.number, 'comparison')}")
        queries = {"qid": items.queries} if model._with_queries else {}
        joining = as_argument(items.links(self.tables.links, item, needed=True))
        model.update_comparisons(items.features, **pairs.arguments(), **queries, **joining)
        if remembered(model, "comparisons") is not None:
            model.table_ = {
                **model.table_,
                "comparisons": remembered(model, "comparisons") + pairs.number,
            }
            self._remember(marks, new)
        return {"added": pairs.number, "known": n_known, **(pairs.questions or {})}

    def add_scores(self, step: Step) -> dict[str, int]:
        """Update a model of scores; returns how many rows were `added`."""
        if self.pair_columns.first_given is not None:
            raise ValueError(
                f"--{self.pair_columns.first_given} is for comparisons, but the model was fitted on"
                " scores"
            )
        model, file, links = self.model, self.tables.file, self.tables.links
        query, item = self._query(), self.roles.id or remembered(model, "id")
        score = self.roles.score or remembered(model, "score") or "score"
        table = self._scored_table(score, query, item)
        unlabelled = unlabelled_score(model)
        scored = ~np.isnan(score_column(table, score, unlabelled))
        if not scored.any():
            raise TableError(f"no row of {file} has a score in {score!r}: there is nothing to add")
        if query is not None:
            self._check_queries(table, scored, query)
        joining = links_for(
            model, links, table, self.roles.id, self.tables.items or file, needed=True
        )
        if joining is None:
            table = table.filter(pa.array(scored))
        y, queries = (
            score_column(table, score, unlabelled),
            (None if query is None else query_column(table, query)),
        )
        features = features_of(model, table)
        names = labels(table, item, "item", file) if item in table.column_names else None
        rows = np.flatnonzero(~np.isnan(y))
        marks = row_marks(names, features, y, queries)
        if queries is None:
            gone = scores_taken_back(file)
            scores = np.asarray([value for _, value in gone])
            marks_gone = row_marks(
                [name for name, _ in gone], np.zeros((len(gone), 1)), scores, None
            )
            self._note_taken_back(marks, [[mark] for mark in marks_gone], "taken back or changed")
        new, n_known = self._new(marks, "scored row")
        if n_known:
            y = np.where(np.isin(np.arange(len(y)), rows[~new]), np.nan, y)
        n_added = len(rows) - n_known
        step(f"adding {count(n_added, 'scored row')}")
        model.update(features, y, qid=queries, **as_argument(joining))
        self._remember(marks, new)
        return {"added": n_added, "known": n_known}

    def _scored_table(self, score: str, query: str | None, item: str | None) -> pa.Table:
        """The answers with the columns of the items they name."""
        file, described_in = self.tables.file, self.tables.items
        if described_in is not None:
            item = named_by(self.model, item)
        text, every_item = text_columns(self.model, query, item), self.tables.links is not None
        table = read_scored_items(file, described_in, item, score, text, every_item=every_item)
        column(table, score, "score")
        learned = getattr(self.model.encoder_ or self.model, "feature_names_in_", None)
        if (
            described_in is None
            and learned is not None
            and not set(map(str, learned)) & set(table.column_names)
        ):
            raise TableError(
                f"{file} has none of the columns that the model learns from: name the table that"
                " describes the items with --items"
            )
        return table

    def _check_queries(self, table: pa.Table, scored: Mask, query: str) -> None:
        without_query = scored & column(table, query, "query").is_null(nan_is_null=True).to_numpy()
        if without_query.any():
            row = f"data row {np.argmax(without_query) + 1} of {self.tables.file}"
            raise TableError(
                f"{row} has a score but no value in {query!r}: every scored row needs a query"
            )
        if not is_regressor(self.model):
            note(
                f"new rows are compared only with each other, even in a {query!r} that the model"
                " has seen: to compare them with earlier rows, run corank fit on all rows"
            )

    def _note_taken_back(
        self, marks: Sequence[str], taken_back: Sequence[Sequence[str]], how: str
    ) -> None:
        """Say how many answers the model has learned from that do not count any more.

        `marks`: of the answers that count; `taken_back`: those of each answer that does not; `how`:
        it was lost.
        """
        answer_of = [at for at, answer in enumerate(taken_back) for _ in answer]
        new = are_new([*marks, *(mark for answer in taken_back for mark in answer)], self.model)[
            len(marks) :
        ]
        number = len({at for at, is_new in zip(answer_of, new, strict=True) if not is_new})
        if number:
            learned = (
                f"the model has learned from {count(number, 'answer')} since {how} in"
                f" {self.tables.file}"
            )
            note(f"{learned}: run corank fit again to forget {'it' if number == 1 else 'them'}")

    def _new(self, marks: Sequence[str], unit: str) -> tuple[Mask, int]:
        """Which answers are new, and how many the model has learned from before; all are new where
        they count again.
        """
        new = np.ones(len(marks), dtype=bool) if self.again else are_new(marks, self.model)
        n_known = int(np.count_nonzero(~new))
        if n_known:
            known = (
                f"the model has already learned from {count(n_known, unit)} of {self.tables.file}"
            )
            if not new.any():
                raise TableError(
                    f"{known}, which has no others, so nothing is added; --again counts them again"
                )
            note(f"{known}: left out; --again counts them again")
        return new, n_known

    def _remember(self, marks: Sequence[str], new: Mask) -> None:
        if self.model.table_ is not None:
            added = [mark for mark, is_new in zip(marks, new, strict=True) if is_new]
            self.model.table_ = with_marks(self.model.table_, added)

    def _query(self) -> str | None:
        query: str | None = self.roles.query or remembered(self.model, "query")
        if not self.model._with_queries:
            if self.roles.query is not None:
                raise ValueError(
                    "--query does not go with this model, which was fitted without queries"
                )
            return None
        if query is None:
            raise ValueError(
                "the model was fitted with queries: name the column that holds them with --query"
            )
        return query
