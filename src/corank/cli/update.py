"""`corank update`: a model and new answers, scores or comparisons → a model that has learned from
them too.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import typer
from rich.text import Text
from sklearn.base import is_regressor

from corank.cli.columns import remembered, unlabelled_score
from corank.cli.console import (
    DASH,
    check_model_output,
    command,
    note,
    show,
    show_json,
    size_of,
    title_of,
    working,
)
from corank.cli.items import (
    AppliedModel,
    ScoredItems,
    Step,
    answers_in_words,
    pairs_taken_back,
    read_outcomes,
    read_scored,
    scores_taken_back,
)
from corank.cli.options import (
    TABLE,
    CommonOptions,
    File,
    ItemsTable,
    LinkOptions,
    ModelFile,
    PairsInFit,
    ScoresInFit,
    Word,
    argument,
    flag,
    option,
)
from corank.core.arrays import Mask
from corank.core.messages import count
from corank.describe import Facts, learned_from_comparisons
from corank.display import Table
from corank.model_files import load
from corank.model_files.known_answers import MARKS, are_new, pair_marks, row_marks, with_marks
from corank.tables import TableError, column, score_column
from corank.tables.comparisons import PairColumns


def update(
    context: typer.Context,
    *,
    model: ModelFile,
    answers: File = argument(
        "Table of newly scored rows or, for a model of comparisons, of who beat whom; also the"
        f" answered questions of `corank suggest` and the answers of `corank ask`: {TABLE}.",
        default=None,
    ),
    out: Path = option("Where to save the new model.", default=...),
    items: ItemsTable = None,
    roles: ScoresInFit,
    pairs: PairsInFit,
    links: LinkOptions,
    again: bool = flag("Count answers again that the model has already learned from."),
    forget: Word = option(
        "Instead of adding answers: take the name, columns and answers of this person out of the"
        " model, which is then fitted anew.",
        metavar="NAME",
    ),
    common: CommonOptions,
) -> None:
    """Add newly scored rows, or comparisons, to a model.

    A single learner keeps its settings; an average weighs its models again.
    Rows and questions without an answer are left out, and so are answers
    that the model has already learned from. A corrected score counts in
    addition to the old one: fit again to replace it.
    """
    if (answers is None) == (forget is None):
        raise ValueError("name a table of new ANSWERS, or a person to --forget, and not both")
    if answers is None:
        _forget(model, str(forget), out, common)
        return
    applied = AppliedModel.opened(context, model, answers, common, links, items)
    check_model_output(out, *applied.sources, force=common.force)
    began = time.perf_counter()
    with working(quiet=common.quiet) as step:
        step(f"reading {title_of(answers)}")
        learner = applied.model
        update = ModelUpdate(applied, roles, pairs, again)
        if learned_from_comparisons(learner):
            numbers = update.add_comparisons(step)
        else:
            numbers = update.add_scores(step)
        table = learner.table_
        if table is not None:
            counts = learner.counts().items()
            known = {name: number for name, number in counts if table.get(name) is not None}
            learner.table_ = {**table, **known}
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
        after = f"corank rank {out} NEW_FILE --out ranked.csv"
        if learner.suggests:
            pool = "POOL" if items in (None, DASH) else items
            more = "" if links.links is None else f" --links {shlex.quote(str(links.links))}"
            after = f"corank suggest {out} {pool}{more}"
        saved = {"saved as": f"{out} ({size_of(out)})"}
        title = f"{result['method']} updated with {title_of(answers)}"
        sentences = _sentences(result, tie="" if learner.knows_margins else ": a win for both")
        show(Table.of_facts(title, sentences | saved), command(after))


def _forget(path: Path, person: str, out: Path, common: CommonOptions) -> None:
    """Save the model without a person."""
    check_model_output(out, force=common.force)
    with working(quiet=common.quiet) as step:
        step(f"fitting without {person}")
        learner = load(path)
        if not learner.is_average:
            raise ValueError(
                "--forget needs a model of the default method with --person, or fit again without"
                " the person's answers"
            )
        learner.forget(person)
        if learner.table_ is not None:  # marks of answers are those of the person, too
            counts = {key: n for key, n in learner.counts().items() if key in learner.table_}
            learner.table_ = {**learner.table_, **counts, MARKS: None}
        learner.save(out, overwrite=common.force)
    if common.as_json:
        show_json({"model": str(out), "forgotten": person})
    elif not common.quiet:
        known = "answers that it has learned from are no longer known again"
        show(Text(f"{out} has forgotten {person}; {known}"))


def _sentences(result: Facts, tie: str) -> dict[str, str]:
    """What was added, and what the model has learned from now; `tie` as in `answers_in_words`."""
    compared = result["comparisons"] is not None
    unit, key = ("comparison", "comparisons") if compared else ("scored row", "scored")
    added = count(result["added"], unit)
    if "answers" in result:
        answers = answers_in_words(result, tie)
        added = f"{added} of {answers}" if result["known"] else answers
    sentences = {"added": added}
    if result["known"]:
        sentences["left out"] = f"{count(result['known'], unit)} that the model already knows"
    if result[key] is not None:
        items = f" of {count(result['scored'], 'item')}" if compared else ""
        sentences["now"] = count(result[key], unit) + items
    return sentences | {"time": f"{result['seconds']:.1f} s"}


@dataclass(frozen=True)
class ModelUpdate:
    """A model, the tables of answers and of the items they name, and their columns; `again`: known
    answers count too.
    """

    applied: AppliedModel
    roles: ScoresInFit
    pair_columns: PairColumns
    again: bool

    def add_comparisons(self, step: Step) -> dict[str, int]:
        """Update a model of comparisons; returns how many were `added` and, of questions, how many
        had an answer.
        """
        applied = self.applied
        model = self.applied.model
        file = self.applied.file
        learner = type(model).__name__
        with_margins = model.knows_margins
        if not model.updates_comparisons:
            raise ValueError(
                f"{learner} on comparisons cannot be updated: add the new ones to the table and run"
                " corank fit again, or choose --method preference or difference there"
            )
        if self.pair_columns.margin is not None and not with_margins:
            raise ValueError(f"--margin does not go with {learner}, which learns only from who won")
        item = applied.named_by(self.roles.id)
        if applied.items is None:
            raise ValueError(
                "the model was fitted on comparisons: name the table that describes the items with"
                " --items"
            )
        items, named = applied.compared_items(
            self.roles.query, item, "any two items may be compared"
        )
        person = remembered(model, "person") and (self.roles.person or remembered(model, "person"))
        with_margins |= person is not None
        columns = self.pair_columns, applied.pair_columns
        outcomes = read_outcomes(file, named, *columns, person=person)
        pairs = outcomes.to_learn(with_margins=with_margins)
        marks = pair_marks(named.labels, **pairs.arguments(), person=pairs.more.get("person"))
        taken_back = pairs_taken_back(file, named, with_margins=with_margins)
        marks_gone = [pair_marks(named.labels, **answer.arguments()) for answer in taken_back]
        self._note_taken_back(marks, marks_gone, "taken back")
        new, n_known = self._new(marks, "comparison")
        pairs = pairs.only(new) if n_known else pairs
        step(f"adding {count(pairs.number, 'comparison')}")
        queries = {"qid": items.queries} if model.with_queries else {}
        linked = items.linked(item, needed=True)
        more = {**pairs.more, **queries, **linked}
        model.update_comparisons(items.features, **pairs.arguments(), **more)
        number = remembered(model, "comparisons")
        if number is not None:
            model.table_ = {**model.table_, "comparisons": number + pairs.number}
            self._remember(marks, new)
        return {"added": pairs.number, "known": n_known, **(pairs.questions or {})}

    def add_scores(self, step: Step) -> dict[str, int]:
        """Update a model of scores; returns how many rows were `added`."""
        if self.pair_columns.first_given is not None:
            raise ValueError(
                f"--{self.pair_columns.first_given} is for comparisons, but the model was fitted on"
                " scores"
            )
        model = self.applied.model
        file = self.applied.file
        query = self._query()
        item = self.roles.id or remembered(model, "id")
        score = self.roles.score or remembered(model, "score") or "score"
        empty = f"no row of {file} has a score in {score!r}: there is nothing to add"
        table = read_scored(self.applied, score, query, item, empty=empty)
        self._check_described(table)
        if query is not None:
            self._check_queries(table, score, query)
        person = self.roles.person
        rows = ScoredItems.of(self.applied, table, score, query, item, person, needed=True)
        marks, y = rows.marks, rows.scores
        if rows.queries is None:
            gone = scores_taken_back(file)
            names = [name for name, _ in gone]
            scores = np.array([score for _, score in gone])
            marks_gone = row_marks(names, np.zeros((len(gone), 1)), scores, None)
            self._note_taken_back(marks, [[mark] for mark in marks_gone], "taken back or changed")
        new, n_known = self._new(marks, "scored row")
        if n_known:
            y = y.copy()
            y[np.flatnonzero(rows.scored)[~new]] = np.nan
        n_added = int(rows.scored.sum()) - n_known
        step(f"adding {count(n_added, 'scored row')}")
        model.update(rows.features, y, qid=rows.queries, **rows.linked)
        self._remember(marks, new)
        return {"added": n_added, "known": n_known}

    def _check_described(self, table: pa.Table) -> None:
        """Refuse answers without any column that the model learns from."""
        model = self.applied.model
        encoder = model.encoder_
        learned = model.feature_names if encoder is None else encoder.feature_names_in_
        if self.applied.items is not None or learned is None:
            return
        if not set(map(str, learned)) & set(table.column_names):
            raise TableError(
                f"{self.applied.file} has none of the columns that the model learns from: name"
                " the table that describes the items with --items"
            )

    def _check_queries(self, table: pa.Table, score: str, query: str) -> None:
        scored = ~np.isnan(score_column(table, score, unlabelled_score(self.applied.model)))
        without_query = scored & column(table, query, "query").is_null(nan_is_null=True).to_numpy()
        if without_query.any():
            row = f"data row {np.argmax(without_query) + 1} of {self.applied.file}"
            raise TableError(
                f"{row} has a score but no value in {query!r}: every scored row needs a query"
            )
        if not is_regressor(self.applied.model):
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
        gone = [mark for answer in taken_back for mark in answer]
        new = are_new([*marks, *gone], self.applied.model)[len(marks) :]
        number = len({at for at, is_new in zip(answer_of, new, strict=True) if not is_new})
        if number:
            learned = (
                f"the model has learned from {count(number, 'answer')} since {how} in"
                f" {self.applied.file}"
            )
            note(f"{learned}: run corank fit again to forget {'it' if number == 1 else 'them'}")

    def _new(self, marks: Sequence[str], unit: str) -> tuple[Mask, int]:
        """Which answers are new, and how many the model has learned from before; all are new where
        they count again.
        """
        new = np.ones(len(marks), dtype=bool) if self.again else are_new(marks, self.applied.model)
        n_known = int(np.count_nonzero(~new))
        if n_known:
            known = (
                f"the model has already learned from {count(n_known, unit)} of {self.applied.file}"
            )
            if not new.any():
                raise TableError(
                    f"{known}, which has no others, so nothing is added; --again counts them again"
                )
            note(f"{known}: left out; --again counts them again")
        return new, n_known

    def _remember(self, marks: Sequence[str], new: Mask) -> None:
        model = self.applied.model
        if model.table_ is not None:
            added = [mark for mark, is_new in zip(marks, new, strict=True) if is_new]
            model.table_ = with_marks(model.table_, added)

    def _query(self) -> str | None:
        query: str | None = self.roles.query or remembered(self.applied.model, "query")
        if not self.applied.model.with_queries:
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
