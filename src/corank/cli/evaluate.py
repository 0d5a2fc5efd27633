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

from corank.cli.columns import features_of, remembered, result_names, text_columns, unlabelled_score
from corank.cli.comparisons import (
    FIRST,
    LOSER,
    SECOND,
    WINNER,
    NamedItems,
    Outcomes,
    PairColumns,
    ReadPairs,
    holds_comparisons,
    labels,
    read_outcomes,
)
from corank.cli.console import cell, is_big, note, show, show_json, working
from corank.cli.files import DASH, title_of
from corank.cli.items import ItemTable, OpenedTables, Step, named_by
from corank.cli.known_answers import are_new, pair_marks, row_marks
from corank.cli.links import as_argument, links_for, read_scored_items
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
from corank.core.arrays import FloatArray, take
from corank.core.messages import count, measured
from corank.describe import Facts, describe, in_words, learned_from_comparisons
from corank.display import Table
from corank.interview.answers import is_answers_file
from corank.metrics import calibration_error, disagreement_error, ndcg
from corank.model_files import load
from corank.tables import query_column, read_table, score_column

SMALLEST_PROBABILITY = 1e-300  # has a logarithm
SHOWN_PAIRS = 20
READING = {  # measure → its title, and how to read it
    "disagreement": (
        "disagreement",
        "share of pairs in the wrong order: 0 is perfect, 0.5 is chance",
    ),
    "ndcg_at_10": ("NDCG@10", "gain of the first ten beside the best possible: 1 is perfect"),
    "rmse": ("RMSE", "root mean squared error, in the unit of the scores"),
    "mae": ("MAE", "mean absolute error, in the unit of the scores"),
    "r2": (
        "R²",
        (
            "share of the spread of scores that is explained: 1 is perfect, 0 no better than their"
            " mean"
        ),
    ),
    "right_order": (
        "right order",
        "share of comparisons that the model orders as they came out: 1 is perfect, 0.5 chance",
    ),
    "log_loss": (
        "log loss",
        "how surprising the outcomes are: 0 is perfect, a coin toss has 0.6931",
    ),
    "calibration_error": (
        "calibration error",
        (
            "how far the probability of the favourite lies from how often it wins, on average: 0 is"
            " perfect"
        ),
    ),
}


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
    tables = OpenedTables.open(context, model, file, output, links, items)
    output.check(out, *tables.paths)
    expectations = None
    with working(quiet=output.quiet, status=not is_big(tables.file)) as step:
        step(f"reading {title_of(file)}")
        learner = load(model)
        result: Facts = {"model": str(model), "method": type(learner).__name__}
        if _holds_comparisons(learner, tables, roles.score, pairs):
            expectations = _expect(learner, tables, roles, pairs, step)
            result |= expectations.measures()
            n_seen = expectations.number_seen(learner)
            if n_seen:
                result["seen_in_training"] = n_seen
                fitted_on = (
                    f"the model was fitted on {count(n_seen, 'comparison')} in {title_of(file)}"
                )
                note(f"{fitted_on}: its predictions of these say nothing about new ones")
            if out is not None:
                output.write(expectations.table(), out)
        elif out is not None:
            raise ValueError(
                "--out is for comparisons: to write predicted scores, use corank predict"
            )
        else:
            result |= _measure_scores(learner, tables, roles, step, shuffles=shuffle_queries)
    if output.as_json:
        show_json(result)
    elif expectations is None:
        _show_scores(result, file)
    elif out != DASH:
        _show_comparisons(result, expectations, file, out)


def _show_measures(title: str, result: Facts, remark: str = "") -> None:
    rows = []
    for measure, (name, reading) in READING.items():
        if result.get(measure) is not None:
            value, error = result[measure]["value"], result[measure].get("standard_error")
            rows.append((name, measured(value), "" if error is None else measured(error), reading))
        elif measure in result:
            rows.append((name, "–", "", f"left out: {result[f'{measure}_left_out']}"))
    head = ("measure", "value", "±", "how to read it")
    show(Table(title, rows, head, numbers=head[1:3], folds=True, remark=remark))


def _mean(values: Any) -> dict[str, float | None] | None:
    """Mean and standard error over the values that are defined."""
    defined = values[~np.isnan(values)]
    if len(defined) == 0:
        return None
    error = float(np.std(defined, ddof=1) / np.sqrt(len(defined))) if len(defined) > 1 else None
    return {"value": float(defined.mean()), "standard_error": error}


# ---- scores


def _measure_scores(
    model: Any, tables: OpenedTables, roles: ScoresInFit, step: Step, *, shuffles: bool
) -> Facts:
    file, query = tables.file, roles.query or remembered(model, "query")
    score = roles.score or remembered(model, "score")
    if score is None:
        raise ValueError("the model does not remember a score column: name it with --score")
    if is_big(file) and tables.items is None and tables.links is None:
        from corank.cli.large_files import scored_rows

        y, predicted, queries = scored_rows(model, file, score, query, shuffles=shuffles)
        n_rows, new = None, np.ones(len(y), dtype=bool)
    else:
        y, predicted, queries, new, n_rows = _scored_rows(
            model, tables, score, query, roles.id, step
        )
    if len(y) == 0:
        raise ValueError(f"score column {score!r} of {file} is empty: there is nothing to evaluate")
    n_seen = int(np.count_nonzero(~new))
    # where two new rows of a query have different scores, only new rows count
    if (
        n_seen
        and np.isfinite(
            disagreement_error(y[new], y[new], qid=take(queries, new), average=False)
        ).any()
    ):
        fitted_on = f"the model was fitted on {count(n_seen, 'scored row')} of {file}"
        note(f"{fitted_on}: they are left out, as they do not show how good it is on new rows")
        y, predicted, queries = y[new], predicted[new], take(queries, new)
        n_seen = 0
    result: Facts = {
        "rows": n_rows,
        "scored": len(y),
        "queries": None if queries is None else len(np.unique(queries)),
        "disagreement": _mean(disagreement_error(y, predicted, qid=queries, average=False)),
        "ndcg_at_10": (
            _mean(ndcg(y, predicted, qid=queries, k=10, average=False)) if y.min() >= 0 else None
        ),
    }
    if result["ndcg_at_10"] is None:
        result["ndcg_at_10_left_out"] = "negative scores" if y.min() < 0 else "no positive scores"
    if result["disagreement"] is None:
        raise ValueError(
            f"no query of {file} has two rows with different scores: there is nothing to evaluate"
        )
    if is_regressor(model):
        errors = predicted - y
        result["rmse"] = {"value": float(np.sqrt(np.mean(errors**2)))}
        result["mae"] = _mean(np.abs(errors))
        result["r2"] = {"value": float(1 - np.sum(errors**2) / np.sum((y - y.mean()) ** 2))}
    if n_seen:
        result["seen_in_training"] = n_seen
        result["held_out_error"] = in_words(describe(model)).get("held-out error", "not known")
        fitted_on = f"the model was fitted on {n_seen:,} of these {count(len(y), 'row')}"
        note(f"{fitted_on}: its errors there say nothing about new rows")
    return result


def _scored_rows(
    model: Any, tables: OpenedTables, score: str, query: str | None, item: str | None, step: Step
) -> tuple[Any, Any, Any, Any, int]:
    """Scores, predictions and query labels of the rows that have a score, whether each is new to
    the model, and the number of all rows.

    The columns of the items may stand in another table. With links, unscored rows are predicted
    too: others resemble them.
    """
    item = item or remembered(model, "id")
    if tables.items is not None:
        item = named_by(model, item)
    text, every_item = text_columns(model, query, item), tables.links is not None
    table = read_scored_items(tables.file, tables.items, item, score, text, every_item=every_item)
    y = score_column(table, score, unlabelled_score(model))
    scored = ~np.isnan(y)
    if not scored.any():
        return y[scored], y[scored], None, scored[scored], len(table)
    joining = links_for(model, tables.links, table, item, tables.items or tables.file)
    step(f"evaluating on {count(int(scored.sum()), 'scored row')}")
    rows = scored if joining is None else np.ones(len(table), dtype=bool)
    queries = None if query is None else query_column(table, query)[rows]
    table, y, scored = table.filter(rows), y[rows], scored[rows]
    features, more = features_of(model, table), as_argument(joining)
    if hasattr(model, "reason_") and queries is not None:
        more["qid"] = queries
    predicted = np.asarray(model.predict(features, **more))[scored]
    names = None
    if item is not None and item in table.column_names:
        names = labels(table, item, "item", tables.file)
    marks = row_marks(names, features, y, queries)
    new = are_new(marks, model) if marks else np.ones(len(predicted), dtype=bool)
    return y[scored], predicted, take(queries, scored), new, len(rows)


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

    def table(self) -> pa.Table:
        """The table with what the model expects beside it, in the last columns."""
        table = self.outcomes.table
        chance = f"{FIRST if self.outcomes.names.loser is None else WINNER}_wins"
        results = {
            **({} if self.chances is None else {chance: self.chances}),
            "difference": self.differences,
        }
        names = result_names(list(results), table.column_names)
        for name, values in zip(names, results.values(), strict=True):
            table = table.append_column(name, pa.array(values))
        return table

    def measures(self) -> Facts:
        """The measures, each with its standard error over comparisons; none where no comparison has
        an outcome.

        Ties have no winner and are left out. A difference of 0 is right by half.
        """
        outcomes = self.outcomes
        won, answered = outcomes.won.copy(), outcomes.answered
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
        if not len(rows):
            return result
        first_won = won[rows] == 1
        ahead = np.where(first_won, self.differences[rows], -self.differences[rows])
        result["right_order"] = _mean((np.sign(ahead) + 1) / 2)
        if self.chances is not None:
            first_chance = self.chances[rows]
            chance = np.where(first_won, first_chance, 1 - first_chance)
            result["log_loss"] = _mean(-np.log(np.maximum(chance, SMALLEST_PROBABILITY)))
            # that of the favourites, as who is named first may depend on who won; of equals the
            # earlier item
            earlier = outcomes.first[rows] < outcomes.second[rows]
            favoured = (first_chance > 0.5) | ((first_chance == 0.5) & earlier)
            came_true, probability = (
                np.where(favoured, x, 1 - x) for x in (won[rows], first_chance)
            )
            result["calibration_error"] = {"value": calibration_error(came_true, probability)}
        return result

    def number_seen(self, model: Any) -> int:
        """How many of the comparisons with a winner the model was fitted on."""
        outcomes = self.outcomes
        rows = np.flatnonzero((outcomes.won == 0) | (outcomes.won == 1))
        first_won = outcomes.won[rows] == 1
        sides = outcomes.first[rows], outcomes.second[rows]
        margins, counts = (take(values, rows) for values in (outcomes.margins, outcomes.counts))
        pairs = ReadPairs(
            np.where(first_won, *sides), np.where(first_won, *sides[::-1]), margins, counts
        )
        return int(np.count_nonzero(~are_new(pair_marks(self.names, pairs), model)))


def _holds_comparisons(
    model: Any, tables: OpenedTables, score: str | None, given: PairColumns
) -> bool:
    """Whether a table holds comparisons: its columns are given as such, the model was fitted on
    comparisons, or a row names two items and has no score.
    """
    if given.first_given is not None or score is not None:
        return given.first_given is not None
    if learned_from_comparisons(model) or tables.items is None:
        return learned_from_comparisons(model)
    if is_answers_file(tables.file):
        return holds_comparisons(tables.file)
    there = set(read_table(tables.file).column_names)
    pairs = {FIRST, SECOND} <= there or {WINNER, LOSER} <= there
    return pairs and remembered(model, "score") not in there


def _expect(
    model: Any, tables: OpenedTables, roles: ScoresInFit, given: PairColumns, step: Step
) -> ExpectedOutcomes:
    """What a model expects of the comparisons of a table."""
    if tables.items is None:
        raise ValueError(
            f"{tables.file} compares items: name the table that describes them with --items"
        )
    item = named_by(model, roles.id)
    items = ItemTable.read(
        model, tables.items, roles.query, item, otherwise="any two items are compared"
    )
    named = NamedItems(tables.items, item, items.table)
    query = None if items.query is None else (items.query, items.queries)
    outcomes = read_outcomes(
        tables.file, named, given, PairColumns.remembered(model), query=query, to_learn=False
    )
    step(f"evaluating on {count(len(outcomes.won), 'comparison')}")
    features, first, second = items.features, outcomes.first, outcomes.second
    joining = items.links(tables.links, item)
    scores, chances = np.asarray(model.predict(features, **as_argument(joining))), None
    if hasattr(model, "predict_comparison") and joining is None:
        chances = np.asarray(
            model.predict_comparison(features[first], features[second], observed=True)
        )
    return ExpectedOutcomes(outcomes, named.labels, scores[first] - scores[second], chances)


def _show_comparisons(
    result: Facts, expectations: ExpectedOutcomes, file: Path, out: Path | None
) -> None:
    """The measures, or what is expected of each pair where there is nothing to measure."""
    if result["comparisons"]:
        left_out = [count(result["ties"], "tie")] if result["ties"] else []
        left_out += [f"{result['unanswered']:,} not answered"] if result["unanswered"] else []
        without = f", without {' and '.join(left_out)}" if left_out else ""
        title = (
            f"{result['method']} on {count(result['comparisons'], 'comparison')} of"
            f" {title_of(file)}{without}"
        )
        _show_measures(title, result)
    elif out is None:
        _show_pairs(expectations, result["method"], file)
    if out is not None:
        show(Text(f"{count(len(expectations.outcomes.won), 'pair')} written: {out}"))


def _show_pairs(expectations: ExpectedOutcomes, method: str, file: Path) -> None:
    pairs, sides = expectations.table(), expectations.outcomes.names.sides
    results = pairs.column_names[-1 if expectations.chances is None else -2 :]
    titles = [name.replace("_", " ") for name in results]
    rows = [
        [
            *(str(row[side]) for side in sides),
            *(
                f"{row[name]:.0%}" if name.endswith("_wins") else cell(row[name])
                for name in results
            ),
        ]
        for row in pairs.slice(0, SHOWN_PAIRS).to_pylist()
    ]
    title = f"What {method} expects of {count(len(pairs), 'pair')} in {title_of(file)}"
    more = f"and {len(pairs) - SHOWN_PAIRS:,} more; " if len(pairs) > SHOWN_PAIRS else ""
    remark = f"{more}--out FILE writes them all"
    show(Table(title, rows, [*sides, *titles], titles, remark=remark))
