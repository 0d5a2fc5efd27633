"""`corank evaluate`: how well a model orders the scored rows of a table, or predicts who wins a
comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer
from rich.text import Text
from sklearn.base import is_regressor

from corank.cli.columns import remembered, result_names
from corank.cli.console import DASH, cell, is_big, note, show, show_json, title_of, working
from corank.cli.items import (
    AppliedModel,
    ScoredItems,
    Step,
    holds_comparisons,
    labels_at,
    labels_of_pairs,
    read_outcomes,
    read_scored,
    role_labels,
)
from corank.cli.options import (
    TABLE,
    File,
    ItemsTable,
    LinkOptions,
    ModelFile,
    PairsInFit,
    ScoresInFit,
    ShuffleQueries,
    TableOutput,
    argument,
    option,
)
from corank.core.arrays import FloatArray, Index, Mask, NumpyArray, take
from corank.core.messages import count, measured
from corank.describe import Facts, describe, in_words, learned_from_comparisons
from corank.display import Table
from corank.metrics import MEASURES, disagreement_error, outcome_measures, score_measures
from corank.model_files.known_answers import are_new, pair_marks
from corank.tables.answer_log import is_answers_file
from corank.tables.comparisons import FIRST, LOSER, SECOND, WINNER, Outcomes, PairColumns

SHOWN_PAIRS = 20
IN_JSON = {"ndcg": "ndcg_at_10"}  # measures that have another name there


def evaluate(
    context: typer.Context,
    *,
    model: ModelFile,
    file: Path = argument(
        f"Table of items with scores: {TABLE}; or a folder or pattern of such files. With --items a"
        " table of comparisons: who beat whom, or pairs first,second."
    ),
    items: ItemsTable = None,
    out: File = option(
        "Where to write the comparisons with the probability that the first item, or the winner,"
        " wins; - prints them."
    ),
    roles: ScoresInFit,
    pairs: PairsInFit,
    links: LinkOptions,
    shuffle_queries: ShuffleQueries = False,
    output: TableOutput,
) -> None:
    """Say how well a model ranks rows whose scores are known, or predicts comparisons.

    Ties and comparisons without an outcome are left out.
    For a table of nothing but pairs, first and second, the probability
    that the first wins is shown, if the model knows it.
    """
    applied = AppliedModel.opened(context, model, file, output, links, items)
    output.check(out, *applied.sources)
    expected = None
    with working(quiet=output.quiet, status=not is_big(applied.file.path)) as step:
        step(f"reading {title_of(file)}")
        result: Facts = {"model": str(model), "method": type(applied.model).__name__}
        if _holds_comparisons(applied, roles.score, pairs):
            expected = ExpectedOutcomes.of(applied, roles, pairs, step)
            result |= expected.measures()
            n_seen = expected.number_seen(applied.model)
            if n_seen:
                result["seen_in_training"] = n_seen
                seen = f"{count(n_seen, 'comparison')} in {title_of(file)}"
                note(
                    f"the model was fitted on {seen}: its predictions of these say nothing about"
                    " new ones"
                )
            if out is not None:
                output.write(expected.table(), out)
        elif out is not None:
            raise ValueError(
                "--out is for comparisons: to write predicted scores, use corank predict"
            )
        else:
            result |= _measure_scores(applied, roles, step, shuffles=shuffle_queries)
    if output.as_json:
        show_json(result)
    elif expected is None:
        _show_scores(result, file)
    elif out != DASH:
        _show_comparisons(result, expected, file, out)


def _show_measures(title: str, result: Facts, remark: str = "") -> None:
    rows = []
    for name, measure in MEASURES.items():
        key = IN_JSON.get(name, name)
        if key not in result:
            continue
        if result[key] is None:
            rows.append((measure.title, "–", "", f"left out: {result[f'{key}_left_out']}"))
            continue
        value = result[key]["value"]
        error = result[key].get("standard_error")
        spread = "" if error is None else measured(error)
        rows.append((measure.title, measured(value), spread, measure.reading))
    head = ("measure", "value", "±", "how to read it")
    show(Table(title, rows, head, numbers=head[1:3], folds=True, remark=remark))


# ---- scores


@dataclass(frozen=True)
class Predictions:
    """Rows with a score and what a model predicts.

    Attributes
    ----------
    y, predicted : (n,)
    queries : (n,) labels, or None
    new : (n,) whether the model has not learned from a row
    n_rows : number of all rows, None where it is not known
    """

    y: FloatArray
    predicted: FloatArray
    queries: NumpyArray | None
    new: Mask
    n_rows: int | None

    def only(self, chosen: Mask) -> Predictions:
        """Some of the rows."""
        y = self.y[chosen]
        predicted = self.predicted[chosen]
        queries = take(self.queries, chosen)
        return Predictions(y, predicted, queries, self.new[chosen], self.n_rows)

    @property
    def can_be_compared(self) -> bool:
        """Whether two rows of a query have different scores."""
        shares = disagreement_error(self.y, self.y, qid=self.queries, average=False)
        return bool(np.isfinite(shares).any())


def _measure_scores(
    applied: AppliedModel, roles: ScoresInFit, step: Step, *, shuffles: bool
) -> Facts:
    model = applied.model
    file = applied.file
    query = roles.query or remembered(model, "query")
    score = roles.score or remembered(model, "score")
    if score is None:
        raise ValueError("the model does not remember a score column: name it with --score")
    empty = f"score column {score!r} of {file} is empty: there is nothing to evaluate"
    if is_big(file.path) and applied.items is None and applied.links is None:
        from corank.cli.large_files import scored_rows

        y, predicted, queries = scored_rows(model, file, score, query, shuffles=shuffles)
        rows = Predictions(y, predicted, queries, np.ones(len(y), dtype=bool), None)
        if len(y) == 0:
            raise ValueError(empty)
    else:
        rows = _predictions(applied, score, query, roles, step, empty)
    n_seen = int(np.count_nonzero(~rows.new))
    if n_seen and rows.only(rows.new).can_be_compared:  # then only new rows count
        seen = f"{count(n_seen, 'scored row')} of {file}"
        note(
            f"the model was fitted on {seen}: they are left out, as they do not show how good it"
            " is on new rows"
        )
        rows, n_seen = rows.only(rows.new), 0
    y, queries = rows.y, rows.queries
    measures = score_measures(y, rows.predicted, queries, are_scores=is_regressor(model))
    result: Facts = {
        "rows": rows.n_rows,
        "scored": len(y),
        "queries": None if queries is None else len(np.unique(queries)),
        **{IN_JSON.get(name, name): values for name, values in measures.items()},
    }
    if measures["ndcg"] is None:
        result["ndcg_at_10_left_out"] = "negative scores" if y.min() < 0 else "no positive scores"
    if measures["disagreement"] is None:
        raise ValueError(
            f"no query of {file} has two rows with different scores: there is nothing to evaluate"
        )
    if n_seen:
        result["seen_in_training"] = n_seen
        result["held_out_error"] = in_words(describe(model)).get("held-out error", "not known")
        seen = f"{n_seen:,} of these {count(len(y), 'row')}"
        note(f"the model was fitted on {seen}: its errors there say nothing about new rows")
    return result


def _predictions(
    applied: AppliedModel,
    score: str,
    query: str | None,
    roles: ScoresInFit,
    step: Step,
    empty: str,
) -> Predictions:
    """The rows of a table with a score; the columns of the items may stand in another table."""
    item = roles.id or remembered(applied.model, "id")
    table = read_scored(applied, score, query, item, empty=empty)
    items = ScoredItems.of(applied, table, score, query, item, roles.person)
    scored = items.scored
    step(f"evaluating on {count(int(scored.sum()), 'scored row')}")
    more: dict[str, Any] = {**items.linked}
    if applied.model.is_average and items.queries is not None:
        more["qid"] = items.queries
    predicted = np.asarray(applied.model.predict(items.features, **more))[scored]
    marks = items.marks
    new = are_new(marks, applied.model) if marks else np.ones(len(predicted), dtype=bool)
    compared = items.queries
    if compared is None and "person" in more:
        compared = np.array(list(map(str, more["person"])))
    queries = take(compared, scored)
    return Predictions(items.scores[scored], predicted, queries, new, len(table))


def _show_scores(result: Facts, file: Path) -> None:
    rows = f"{count(result['scored'], 'scored row')} of {title_of(file)}"
    queries = (
        "" if result["queries"] is None else f", {count(result['queries'], 'query', 'queries')}"
    )
    title = f"{result['method']} on {rows}{queries}"
    if "seen_in_training" in result:
        seen = f"{result['seen_in_training']:,} of {count(result['scored'], 'row')}"
        facts = {"seen in training": seen, "held-out error": result["held_out_error"]}
        show(Table.of_facts(title, facts))
        return
    as_one = "all rows as one query; --query COLUMN compares within groups"
    _show_measures(title, result, as_one if result["queries"] is None else "")


# ---- comparisons


@dataclass(frozen=True)
class ExpectedOutcomes:
    """A table of comparisons beside what a model expects.

    Attributes
    ----------
    outcomes : the table
    names : of the items
    differences : (n_rows,) score of the first less that of the second
    chances : (n_rows,) probability that the first wins one more comparison, or None
    """

    outcomes: Outcomes
    names: Sequence[str | None]
    differences: FloatArray
    chances: FloatArray | None

    @classmethod
    def of(
        cls, applied: AppliedModel, roles: ScoresInFit, given: PairColumns, step: Step
    ) -> ExpectedOutcomes:
        """What a model expects of the comparisons of a table."""
        model = applied.model
        file = applied.file
        if applied.items is None:
            raise ValueError(
                f"{file} compares items: name the table that describes them with --items"
            )
        item = applied.named_by(roles.id)
        items, named = applied.compared_items(roles.query, item, "any two items are compared")
        person = roles.person or remembered(model, "person")
        if not is_answers_file(file) and person not in file.read().column_names:
            person = roles.person  # that of the fit may be missing
        columns = given, applied.pair_columns
        outcomes = read_outcomes(file, named, *columns, person=person, to_learn=False)
        step(f"evaluating on {count(len(outcomes.won), 'comparison')}")
        features = items.features
        first = outcomes.first
        second = outcomes.second
        linked = applied.linked(items.table, item, items.file)
        labels = role_labels(model, items.table)
        who = {"person": outcomes.persons} if model.is_average and outcomes.persons else {}

        def scores(rows: Index) -> FloatArray:
            about = labels_at(labels, rows) | who
            return np.asarray(model.predict(features[rows], **about))

        if linked or not (labels or who):
            predicted = np.asarray(model.predict(features, **linked, **labels))
            differences = predicted[first] - predicted[second]
        else:
            differences = scores(first) - scores(second)
        chances = None
        if model.has_posterior and not linked:
            about = labels_of_pairs(labels, first, second) | who
            ends = features[first], features[second]
            chances = np.asarray(model.predict_comparison(*ends, observed=True, **about))
        return cls(outcomes, named.labels, differences, chances)

    def results(self) -> dict[str, FloatArray]:
        """What the model expects, by the names of columns."""
        chance = f"{FIRST if self.outcomes.names.loser is None else WINNER}_wins"
        chances = {} if self.chances is None else {chance: self.chances}
        return {**chances, "difference": self.differences}

    def table(self) -> pa.Table:
        """The table with what the model expects beside it, in the last columns."""
        table = self.outcomes.table
        results = self.results()
        names = result_names(list(results), table.column_names)
        for name, values in zip(names, results.values(), strict=True):
            table = table.append_column(name, pa.array(values))
        return table

    def measures(self) -> Facts:
        """The measures, each with its standard error over comparisons; none where no comparison has
        an outcome.

        Ties have no winner and are left out.
        """
        outcomes = self.outcomes
        won = outcomes.won.copy()
        answered = outcomes.answered
        if outcomes.margins is not None:
            won[(outcomes.margins == 0) & ~np.isnan(won)] = 0.5
        decided = answered[won[answered] != 0.5]
        counts = outcomes.counts_of(decided)
        rows = decided if counts is None else np.repeat(decided, counts.astype(np.int64))
        result: Facts = {
            "comparisons": len(rows),
            "ties": len(answered) - len(decided),
            "unanswered": len(won) - len(answered),
        }
        if len(rows):
            result |= outcome_measures(
                won[rows] == 1,
                self.differences[rows],
                take(self.chances, rows),
                outcomes.first[rows] < outcomes.second[rows],
            )
        return result

    def number_seen(self, model: Any) -> int:
        """How many of the comparisons with a winner the model was fitted on."""
        won = self.outcomes.won
        pairs = self.outcomes.pairs_of(np.flatnonzero((won == 0) | (won == 1)))
        who = pairs.more.get("person")
        marks = pair_marks(self.names, **pairs.arguments(), person=who)
        return int(np.count_nonzero(~are_new(marks, model)))


def _holds_comparisons(applied: AppliedModel, score: str | None, given: PairColumns) -> bool:
    """Whether a table holds comparisons: its columns are given as such, the model was fitted on
    comparisons, or a row names two items and has no score.
    """
    if given.first_given is not None or score is not None:
        return given.first_given is not None
    if learned_from_comparisons(applied.model) or applied.items is None:
        return learned_from_comparisons(applied.model)
    if is_answers_file(applied.file):
        return holds_comparisons(applied.file)
    there = set(applied.file.read().column_names)
    pairs = {FIRST, SECOND} <= there or {WINNER, LOSER} <= there
    return pairs and remembered(applied.model, "score") not in there


def _show_comparisons(
    result: Facts, expected: ExpectedOutcomes, file: Path, out: Path | None
) -> None:
    """The measures, or what is expected of each pair where there is nothing to measure."""
    if result["comparisons"]:
        left_out = [count(result["ties"], "tie")] if result["ties"] else []
        left_out += [f"{result['unanswered']:,} not answered"] if result["unanswered"] else []
        without = f", without {' and '.join(left_out)}" if left_out else ""
        compared = f"{count(result['comparisons'], 'comparison')} of {title_of(file)}"
        _show_measures(f"{result['method']} on {compared}{without}", result)
    elif out is None:
        _show_pairs(expected, result["method"], file)
    if out is not None:
        show(Text(f"{count(len(expected.outcomes.won), 'pair')} written: {out}"))


def _show_pairs(expected: ExpectedOutcomes, method: str, file: Path) -> None:
    pairs = expected.table()
    sides = expected.outcomes.names.sides
    results = pairs.column_names[-len(expected.results()) :]
    rows = []
    for row in pairs.slice(0, SHOWN_PAIRS).to_pylist():
        shown = (
            f"{row[name]:.0%}" if name.endswith("_wins") else cell(row[name]) for name in results
        )
        rows.append([*(str(row[side]) for side in sides), *shown])
    titles = [name.replace("_", " ") for name in results]
    title = f"What {method} expects of {count(len(pairs), 'pair')} in {title_of(file)}"
    more = f"and {len(pairs) - SHOWN_PAIRS:,} more; " if len(pairs) > SHOWN_PAIRS else ""
    remark = f"{more}--out FILE writes them all"
    show(Table(title, rows, [*sides, *titles], titles, remark=remark))
