"""`corank evaluate`: how well a model orders the scored rows of a table, or predicts who wins a comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray
from rich.text import Text
from sklearn.base import is_regressor
from sklearn.metrics import r2_score

from corank._messages import count
from corank.cli.columns import features_of, queries_of, result_names, text_columns
from corank.cli.comparisons import (
    FIRST,
    LOSER,
    SECOND,
    UNNAMED,
    WINNER,
    NamedItems,
    Outcomes,
    PairColumns,
    joined,
    read_outcomes,
)
from corank.cli.console import grid, is_big, show, show_json, working
from corank.cli.files import (
    DASH,
    check_model_and_table,
    check_printed,
    check_table_output,
    readable,
    readable_or_none,
    title_of,
    write_result,
)
from corank.cli.links import LinkTable, as_argument, check_single_table, file_of, link_table, links_for, with_scores
from corank.cli.options import (
    AsJson,
    CountInFit,
    EvaluateOut,
    EvaluateTable,
    Force,
    InputFormat,
    ItemInFit,
    LinkColumns,
    LinksFile,
    LoserInFit,
    MarginInFit,
    ModelFile,
    NamedItemsTable,
    OutputFormat,
    QueryInFit,
    Quiet,
    ScoreInFit,
    ShuffleQueries,
    SpreadsheetSafe,
    WinnerInFit,
)
from corank.describe import learned_from_comparisons
from corank.metrics import calibration_error, disagreement_error, ndcg
from corank.model_files import load
from corank.tables import query_column, read_table, score_column

SMALLEST_PROBABILITY = 1e-300  # has a logarithm
SHOWN_PAIRS = 20
READING = {  # measure → its title, and how to read it
    "disagreement": ("disagreement", "share of pairs in the wrong order: 0 is perfect, 0.5 is chance"),
    "ndcg_at_10": ("NDCG@10", "gain of the first ten beside the best possible: 1 is perfect"),
    "r2": ("R²", "share of the spread of scores that is explained: 1 is perfect, 0 no better than their mean"),
    "right_order": (
        "right order",
        "share of comparisons that the model orders as they came out: 1 is perfect, 0.5 chance",
    ),
    "log_loss": ("log loss", "how surprising the outcomes are: 0 is perfect, a coin toss has 0.6931"),
    "calibration_error": (
        "calibration error",
        "how far the probability of the favourite lies from how often it wins, on average: 0 is perfect",
    ),
}


def evaluate(
    context: typer.Context,
    model: ModelFile,
    file: EvaluateTable,
    items: NamedItemsTable = None,
    out: EvaluateOut = None,
    score: ScoreInFit = None,
    query: QueryInFit = None,
    id: ItemInFit = None,
    winner: WinnerInFit = None,
    loser: LoserInFit = None,
    margin: MarginInFit = None,
    times: CountInFit = None,
    links: LinksFile = None,
    link_columns: LinkColumns = None,
    shuffle_queries: ShuffleQueries = False,
    format: InputFormat = None,
    out_format: OutputFormat = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Say how well a model ranks rows whose scores are known, or predicts comparisons.

    Of comparisons, ties and those without an outcome are left out.
    A table of nothing but pairs, first and second, is shown with
    the probability that the first wins, where the model knows it.
    """
    check_model_and_table("evaluate", model, file)
    check_printed(out, out_format, as_json=as_json)
    source, items_table = readable(context, file, format), readable_or_none(context, items)
    linked = link_table(context, links, link_columns)
    check_single_table(linked, source)
    check_table_output(out, source, items_table, file_of(linked), force=force)
    pair_columns = PairColumns(winner, loser, margin, times)
    expectations = None
    with working(quiet=quiet, status=not is_big(source)) as step:
        step(f"reading {title_of(file)}")
        learner = load(model)
        result: dict[str, Any] = {"model": str(model), "method": type(learner).__name__}
        if _holds_comparisons(learner, source, items_table, score, pair_columns):
            expectations = _expect(learner, source, items_table, id, query, pair_columns, linked, step)
            result |= expectations.measures()
            if out is not None:
                write_result(expectations.table(), out, out_format, force=force, safe=spreadsheet_safe)
        elif out is not None:
            raise ValueError("--out is for comparisons: for scores use corank rank, which writes them")
        else:
            columns = {"score": score, "query": query, "id": id}
            result |= _measure_scores(learner, source, items_table, columns, linked, step, shuffles=shuffle_queries)
    if as_json:
        show_json(result)
    elif expectations is None:
        _show_scores(result, file)
    elif out != DASH:
        _show_comparisons(result, expectations, file, out)


def _show_measures(title: str, result: dict[str, Any]) -> None:
    table = grid("", ("measure", "value", "±"), right=("value", "±"), last="how to read it")
    for measure, (name, reading) in READING.items():
        if result.get(measure) is not None:
            value, error = result[measure]["value"], result[measure].get("standard_error")
            table.add_row(name, f"{value:.4f}", "" if error is None else f"{error:.4f}", reading)
        elif measure in result:
            table.add_row(name, "–", "", f"left out: {result[f'{measure}_left_out']}")
    show(Text(title, style="bold"), table)


def _mean(values: Any) -> dict[str, float | None] | None:
    """Mean and standard error over the values that are defined."""
    defined = values[~np.isnan(values)]
    if len(defined) == 0:
        return None
    error = float(np.std(defined, ddof=1) / np.sqrt(len(defined))) if len(defined) > 1 else None
    return {"value": float(defined.mean()), "standard_error": error}


# ---- scores


def _measure_scores(
    model: Any,
    file: Path,
    items: Path | None,
    columns: dict[str, str | None],
    links: LinkTable | None,
    step: Callable[[str], None],
    *,
    shuffles: bool,
) -> dict[str, Any]:
    columns = {role: name or (model.table_ or {}).get(role) for role, name in columns.items()}
    score = columns["score"]
    if score is None:
        raise ValueError("the model does not remember a score column: say which with --score")
    if is_big(file) and items is None and links is None:
        from corank.cli.large_files import scored_rows

        y, predicted, queries = scored_rows(model, file, score, columns["query"], shuffles=shuffles)
        n_rows = None
    else:
        y, predicted, queries, n_rows = _scored_rows(model, file, items, columns, links, step)
    if len(y) == 0:
        raise ValueError(f"score column {score!r} of {file} is empty: there is nothing to compare with")
    result: dict[str, Any] = {
        "rows": n_rows,
        "scored": len(y),
        "queries": None if queries is None else len(np.unique(queries)),
        "disagreement": _mean(disagreement_error(y, predicted, qid=queries, average=False)),
        "ndcg_at_10": _mean(ndcg(y, predicted, qid=queries, k=10, average=False)) if y.min() >= 0 else None,
    }
    if result["ndcg_at_10"] is None:
        result["ndcg_at_10_left_out"] = "negative scores" if y.min() < 0 else "no positive scores"
    if result["disagreement"] is None:
        raise ValueError(f"there is nothing to compare: no query of {file} has two rows with different scores")
    if is_regressor(model):
        result["r2"] = {"value": float(r2_score(y, predicted))}
    return result


def _scored_rows(
    model: Any,
    file: Path,
    items: Path | None,
    columns: dict[str, str | None],
    links: LinkTable | None,
    step: Callable[[str], None],
) -> tuple[Any, Any, Any, int]:
    """Scores, predictions and query labels of the rows that have a score, and the number of all rows.

    The columns of the items may stand in another table. With links, unscored rows are predicted too: others take after
    them.
    """
    score, query, item = columns["score"], columns["query"], columns["id"]
    assert score is not None
    text = text_columns(model, query, item)
    table = read_table(file, text=text)
    if items is not None:
        if item is None:
            raise ValueError("the model does not remember which column names the items: say which with --item")
        if links is None:
            table = joined(table, file, items, item, text)
        else:
            table = with_scores(table, file, items, item, score, text)
    y = score_column(table, score)
    scored = ~np.isnan(y)
    if not scored.any():
        return y[scored], y[scored], None, len(table)
    joining = links_for(model, links, table, item, items or file)
    labels = None if query is None else query_column(table, query)
    step(f"evaluating on {count(int(scored.sum()), 'scored row')}")
    rows = scored if joining is None else np.ones(len(table), dtype=bool)
    features = features_of(model, table.filter(rows))
    more = as_argument(joining)
    if hasattr(model, "reason_") and labels is not None:
        more["qid"] = labels[rows]
    predicted = np.asarray(model.predict(features, **more))[scored[rows]]
    return y[scored], predicted, None if labels is None else labels[scored], len(table)


def _show_scores(result: dict[str, Any], file: Path) -> None:
    rows = f"{count(result['scored'], 'scored row')} of {title_of(file)}"
    queries = "" if result["queries"] is None else f", {count(result['queries'], 'query', 'queries')}"
    _show_measures(f"{result['method']} on {rows}{queries}", result)
    if result["queries"] is None:
        show(Text("all rows as one query; --query COLUMN compares within groups", style="dim"))


# ---- comparisons


@dataclass(frozen=True)
class ExpectedOutcomes:
    """A table of comparisons beside what a model expects.

    Attributes
    ----------
    outcomes : the table
    differences : (n_rows,) score of the first less that of the second
    chances : (n_rows,) probability that the first wins one more comparison, or None
    """

    outcomes: Outcomes
    differences: NDArray[np.float64]
    chances: NDArray[np.float64] | None

    def table(self) -> pa.Table:
        """The table with what the model expects beside it, in the last columns."""
        table = self.outcomes.table
        chance = f"{FIRST if self.outcomes.are_questions else WINNER}_wins"
        results = {**({} if self.chances is None else {chance: self.chances}), "difference": self.differences}
        names = result_names(list(results), table.column_names)
        for name, values in zip(names, results.values(), strict=True):
            table = table.append_column(name, pa.array(values))
        return table

    def measures(self) -> dict[str, Any]:
        """The measures, each with its standard error over comparisons; none where no comparison has an outcome.

        Ties have no winner and are left out. A difference of 0 is right by half.
        """
        won, answered = self.outcomes.won.copy(), self.outcomes.answered
        if self.outcomes.margins is not None:
            won[(self.outcomes.margins == 0) & ~np.isnan(won)] = 0.5
        decided = answered[won[answered] != 0.5]
        counts = self.outcomes.counts_of(decided)
        rows = decided if counts is None else np.repeat(decided, counts.astype(np.int64))
        result: dict[str, Any] = {
            "comparisons": len(rows),
            "ties": len(answered) - len(decided),
            "unanswered": len(won) - len(answered),
        }
        if not len(rows):
            return result
        ahead = np.where(won[rows] == 1, self.differences[rows], -self.differences[rows])
        result["right_order"] = _mean((np.sign(ahead) + 1) / 2)
        if self.chances is not None:
            chance = np.where(won[rows] == 1, self.chances[rows], 1 - self.chances[rows])
            result["log_loss"] = _mean(-np.log(np.maximum(chance, SMALLEST_PROBABILITY)))
            result["calibration_error"] = {"value": self._calibration_error(won[rows], rows)}
        return result

    def _calibration_error(self, won: NDArray[np.float64], rows: NDArray[np.int64]) -> float:
        """Calibration of the favourites, as who is named first may depend on who won; of equals the earlier item."""
        assert self.chances is not None
        chance = self.chances[rows]
        earlier = self.outcomes.first[rows] < self.outcomes.second[rows]
        favoured = (chance > 0.5) | ((chance == 0.5) & earlier)
        return calibration_error(np.where(favoured, won, 1 - won), np.where(favoured, chance, 1 - chance))


def _holds_comparisons(model: Any, file: Path, items: Path | None, score: str | None, given: PairColumns) -> bool:
    """Whether a table holds comparisons: its columns are given as such, the model was fitted on comparisons, or a row
    names two items and has no score.
    """
    if given != UNNAMED:
        return True
    if score is not None:
        return False
    if learned_from_comparisons(model) or items is None:
        return learned_from_comparisons(model)
    there = set(read_table(file).column_names)
    pairs = {FIRST, SECOND} <= there or {WINNER, LOSER} <= there
    return pairs and (model.table_ or {}).get("score") not in there


def _expect(
    model: Any,
    file: Path,
    items: Path | None,
    item: str | None,
    query: str | None,
    given: PairColumns,
    links: LinkTable | None,
    step: Callable[[str], None],
) -> ExpectedOutcomes:
    """What a model expects of the comparisons of a table; names of columns are None where they are not given."""
    remembered = model.table_ or {}
    if items is None:
        raise ValueError(f"{file} compares items: say which table describes them with --items")
    item = item or remembered.get("id")
    if item is None:
        raise ValueError("the model does not remember which column names the items: say which with --item")
    by = query or remembered.get("query")
    table = read_table(items, text=text_columns(model, item, by))
    by, codes = queries_of(table, items, by, asked=query is not None, otherwise="any two items are compared")
    named, queries = NamedItems(items, item, table), None if by is None else (by, codes)
    outcomes = read_outcomes(file, named, given, PairColumns.remembered(model), query=queries, to_learn=False)
    step(f"evaluating on {count(len(outcomes.won), 'comparison')}")
    features = features_of(model, table)
    first, second = outcomes.first, outcomes.second
    joining = links_for(model, links, table, item, items)
    scores, chances = np.asarray(model.predict(features, **as_argument(joining))), None
    if hasattr(model, "predict_comparison") and joining is None:
        chances = np.asarray(model.predict_comparison(features[first], features[second], observed=True))
    return ExpectedOutcomes(outcomes, scores[first] - scores[second], chances)


def _show_comparisons(result: dict[str, Any], expectations: ExpectedOutcomes, file: Path, out: Path | None) -> None:
    """The measures, or what is expected of each pair where there is nothing to measure."""
    if result["comparisons"]:
        left_out = [count(result["ties"], "tie")] if result["ties"] else []
        left_out += [f"{result['unanswered']:,} not answered"] if result["unanswered"] else []
        without = f", without {' and '.join(left_out)}" if left_out else ""
        title = f"{result['method']} on {count(result['comparisons'], 'comparison')} of {title_of(file)}{without}"
        _show_measures(title, result)
    elif out is None:
        _show_pairs(expectations, result["method"], file)
    if out is not None:
        show(Text(f"{count(len(expectations.outcomes.won), 'pair')} written: {out}"))


def _show_pairs(expectations: ExpectedOutcomes, method: str, file: Path) -> None:
    pairs, sides = expectations.table(), expectations.outcomes.sides
    results = pairs.column_names[-1 if expectations.chances is None else -2 :]
    titles = [name.replace("_", " ") for name in results]
    table = grid("", [*sides, *titles], right=titles)
    for row in pairs.slice(0, SHOWN_PAIRS).to_pylist():
        cells = [f"{row[name]:.0%}" if name.endswith("_wins") else f"{row[name]:.4g}" for name in results]
        table.add_row(*(Text(cell) for cell in [*(str(row[side]) for side in sides), *cells]))
    title = f"What {method} expects of {count(len(pairs), 'pair')} of {title_of(file)}"
    more = f"and {len(pairs) - SHOWN_PAIRS:,} more; " if len(pairs) > SHOWN_PAIRS else ""
    show(Text(title, style="bold"), table, Text(f"{more}--out FILE writes them", style="dim"))
