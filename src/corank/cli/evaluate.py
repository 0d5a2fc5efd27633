"""How well a model foretells who wins, and what it expects of each pair: the part of `corank evaluate` on comparisons.

`corank evaluate`: how well a model orders the scored rows of a table, or foretells comparisons.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray
from rich.text import Text

from corank._messages import count
from corank.cli.columns import features_of, queries_of, text_columns
from corank.cli.comparisons import FIRST, LOSER, SECOND, WINNER, NamedItems, Outcomes, PairColumns, read_outcomes
from corank.cli.console import grid, is_big, show, working
from corank.cli.files import (
    DASH,
    check_model_and_table,
    check_printed,
    check_table_output,
    given,
    given_too,
    title_of,
    write_result,
)
from corank.cli.options import (
    TABLE,
    AsJson,
    CountInFit,
    Force,
    IdInFit,
    LoserInFit,
    ModelFile,
    Printed,
    QueryInFit,
    Quiet,
    Read,
    ScoreInFit,
    Shuffle,
    WinnerInFit,
)
from corank.cli.show import is_compared
from corank.metrics import calibration_error
from corank.tables import read_table

SMALLEST = 1e-300  # a probability that has a logarithm
MOST_SHOWN = 20
COMPARISON_READING = {
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


@dataclass(frozen=True)
class Foretold:
    """A table of comparisons beside what a model expects.

    Attributes
    ----------
    differences : (n_rows,) score of the first less that of the second
    chances : (n_rows,) probability that the first wins one more comparison, or None
    """

    found: Outcomes
    differences: NDArray[np.float64]
    chances: NDArray[np.float64] | None

    def written(self) -> pa.Table:
        """The table with what the model expects beside it."""
        table = self.found.table
        chance = f"{FIRST if self.found.are_questions else WINNER}_wins"
        parts = {**({} if self.chances is None else {chance: self.chances}), "difference": self.differences}
        for name, values in parts.items():
            taken = name in table.column_names
            table = table.append_column(f"predicted_{name}" if taken else name, pa.array(values))
        return table

    def measured(self) -> dict[str, Any]:
        """The measures, each with its standard error over comparisons; none where no comparison has an outcome.

        Ties have no winner and are left out. A difference of 0 is right by half.
        """
        won, rows = self.found.won.copy(), self.found.rows
        if self.found.margins is not None:
            won[(self.found.margins == 0) & ~np.isnan(won)] = 0.5
        decided = rows[won[rows] != 0.5]
        times = self.found.times(decided)
        at = decided if times is None else np.repeat(decided, times.astype(np.int64))
        result: dict[str, Any] = {
            "comparisons": len(at),
            "ties": len(rows) - len(decided),
            "unanswered": len(won) - len(rows),
        }
        if not len(at):
            return result
        ahead = np.where(won[at] == 1, self.differences[at], -self.differences[at])
        result["right_order"] = _mean_of_answers((np.sign(ahead) + 1) / 2)
        if self.chances is not None:
            chance = np.where(won[at] == 1, self.chances[at], 1 - self.chances[at])
            result["log_loss"] = _mean_of_answers(-np.log(np.maximum(chance, SMALLEST)))
            result["calibration_error"] = {"value": self._calibration_error(won[at], at)}
        return result

    def _calibration_error(self, won: NDArray[np.float64], at: NDArray[np.int64]) -> float:
        """Of the favourites: which of two is named first may depend on who won. Even ones are ordered by their rows."""
        assert self.chances is not None
        chance = self.chances[at]
        earlier = self.found.first[at] < self.found.second[at]
        favoured = (chance > 0.5) | ((chance == 0.5) & earlier)
        return calibration_error(np.where(favoured, won, 1 - won), np.where(favoured, chance, 1 - chance))


def _mean_of_answers(values: NDArray[np.float64]) -> dict[str, float | None]:
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return {"value": float(values.mean()), "standard_error": error}


def compares(model: Any, file: Path, items: Path | None, score: str | None, told: PairColumns) -> bool:
    """Whether a table is one of comparisons: where its columns are told, where the model was fitted on some, and where
    a row names two items and has no score.
    """
    if told != PairColumns():
        return True
    if score is not None:
        return False
    if is_compared(model) or items is None:
        return is_compared(model)
    there = set(read_table(file).column_names)
    pairs = {FIRST, SECOND} <= there or {WINNER, LOSER} <= there
    return pairs and (model.table_ or {}).get("score") not in there


def foretell(
    model: Any,
    file: Path,
    items: Path | None,
    names: dict[str, str | None],
    told: PairColumns,
    doing: Callable[[str], None],
) -> Foretold:
    """What a model expects of the comparisons of a table; `names` of the id and query columns, None where nobody says."""
    remembered = model.table_ or {}
    if items is None:
        raise ValueError(f"{file} compares items: say which table describes them with --items")
    item = names["id"] or remembered.get("id")
    if item is None:
        raise ValueError("the model does not remember which column names the items: say which with --item")
    by = names["query"] or remembered.get("query")
    table = read_table(items, text=text_columns(model, item, by))
    by, codes = queries_of(table, items, by, asked=names["query"] is not None, otherwise="any two items are compared")
    before = PairColumns(*(remembered.get(key) for key in ("winner", "loser", "margin", "count")))
    query = None if by is None else (by, codes)
    found = read_outcomes(file, NamedItems(items, item, table), told, before, query=query, to_learn=False)
    doing(f"evaluating on {count(len(found.won), 'comparison')}")
    features = features_of(model, table)
    scores = np.asarray(model.predict(features))
    chances = None
    if hasattr(model, "predict_comparison"):
        chances = np.asarray(model.predict_comparison(features[found.first], features[found.second], observed=True))
    return Foretold(found, scores[found.first] - scores[found.second], chances)


# ---- what is shown


def show_foretold(result: dict[str, Any], foretold: Foretold, file: Path, out: Path | None) -> None:
    """The measures, or what is expected of each pair where there is nothing to measure."""
    left = [count(result["ties"], "tie")] if result["ties"] else []
    left += [f"{result['unanswered']:,} not answered"] if result["unanswered"] else []
    if result["comparisons"]:
        without = f", without {' and '.join(left)}" if left else ""
        title = f"{result['method']} on {count(result['comparisons'], 'comparison')} of {title_of(file)}{without}"
        table = grid("", ("measure", "value", "±"), right=("value", "±"), last="how to read it")
        for measure, (name, words) in COMPARISON_READING.items():
            if measure in result:
                value, error = result[measure]["value"], result[measure].get("standard_error")
                table.add_row(name, f"{value:.4f}", "" if error is None else f"{error:.4f}", words)
        show(Text(title, style="bold"), table)
    elif out is None:
        _show_pairs(foretold, result["method"], file)
    if out is not None:
        show(Text(f"{count(len(foretold.found.won), 'pair')} written: {out}"))


def _show_pairs(foretold: Foretold, method: str, file: Path) -> None:
    written, names = foretold.written(), foretold.found.names
    sides = [FIRST, SECOND] if names.loser is None else [names.winner or WINNER, names.loser]
    own = written.column_names[-1 if foretold.chances is None else -2 :]
    table = grid(
        "", [*sides, *(name.replace("_", " ") for name in own)], right=[name.replace("_", " ") for name in own]
    )
    for row in written.slice(0, MOST_SHOWN).to_pylist():
        cells = [f"{row[name]:.0%}" if name.endswith("_wins") else f"{row[name]:.4g}" for name in own]
        table.add_row(*(Text(cell) for cell in [*(str(row[side]) for side in sides), *cells]))
    n = len(written)
    rest = f"and {n - MOST_SHOWN:,} more; " if n > MOST_SHOWN else ""
    title = f"What {method} expects of {count(n, 'pair')} of {title_of(file)}"
    show(Text(title, style="bold"), table, Text(f"{rest}--out FILE writes them", style="dim"))


READING = {
    "disagreement": "share of pairs in the wrong order: 0 is perfect, 0.5 is chance",
    "ndcg_at_10": "gain of the first ten beside the best possible: 1 is perfect",
    "r2": "share of the spread of scores that is explained: 1 is perfect, 0 no better than their mean",
}
NAMES = {"disagreement": "disagreement", "ndcg_at_10": "NDCG@10", "r2": "R²"}


def evaluate(
    context: typer.Context,
    model: ModelFile,
    file: Annotated[
        Path,
        typer.Argument(
            help=f"Table of items with scores: {TABLE}; also a folder or pattern of such files. With --items a table of "
            "comparisons: who beat whom, or pairs first,second.",
            show_default=False,
        ),
    ],
    items: Annotated[
        Path | None,
        typer.Option(help="Table that describes the items which FILE names.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the comparisons with the probability that the first of the two, or the winner, wins; "
            "- prints them.",
            show_default=False,
        ),
    ] = None,
    score: ScoreInFit = None,
    query: QueryInFit = None,
    id: IdInFit = None,
    winner: WinnerInFit = None,
    loser: LoserInFit = None,
    margin: Annotated[
        str | None, typer.Option(help="Column that says by how much, 0 = a tie.", show_default=False)
    ] = None,
    times: CountInFit = None,
    shuffle_queries: Shuffle = False,
    format: Read = None,
    out_format: Printed = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Say how well a model ranks rows whose scores are known, or foretells comparisons.

    Of comparisons, ties and those without an outcome are left out.
    A table of nothing but pairs, first and second, is shown with
    the probability that the first wins, where the model knows it.
    """
    check_model_and_table("evaluate", model, file)
    check_printed(out, out_format, as_json=as_json)
    source, items_file = given(context, file, format), given_too(context, items)
    if out is not None:
        for read in (source, items_file):
            check_table_output(out, read, force=force)
    pairs = {"winner": winner, "loser": loser, "margin": margin, "count": times}
    with working(quiet=quiet, status=not is_big(source)) as doing:
        doing(f"reading {title_of(file)}")
        from corank.cli.comparisons import PairColumns
        from corank.learners import load

        learner, told, foretold = load(model), PairColumns(**pairs), None
        result: dict[str, Any] = {"model": str(model), "method": type(learner).__name__}
        if compares(learner, source, items_file, score, told):
            foretold = foretell(learner, source, items_file, {"id": id, "query": query}, told, doing)
            result |= foretold.measured()
            if out is not None:
                write_result(foretold.written(), out, out_format, force=force)
        elif out is not None:
            raise ValueError("--out is for comparisons: for scores use corank rank, which writes them")
        else:
            columns = {"score": score, "query": query, "id": id}
            result |= _measured(learner, source, items_file, columns, doing, shuffles=shuffle_queries)
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    elif foretold is not None and out != DASH:
        show_foretold(result, foretold, file, out)
    elif foretold is None:
        _show(result, file)


def _show(result: dict[str, Any], file: Path) -> None:
    rows = f"{count(result['scored'], 'scored row')} of {title_of(file)}"
    queries = f", {count(result['queries'], 'query', 'queries')}" if result["queries"] is not None else ""
    table = grid(
        f"{result['method']} on {rows}{queries}", ("measure", "value", "±"), right=("value", "±"), last="how to read it"
    )
    for measure, words in READING.items():
        if result.get(measure) is not None:
            value, error = result[measure]["value"], result[measure].get("standard_error")
            table.add_row(NAMES[measure], f"{value:.4f}", "" if error is None else f"{error:.4f}", words)
        elif measure in result:
            table.add_row(NAMES[measure], "–", "", f"left out: {result[f'{measure}_left_out']}")
    show(table)
    if result["queries"] is None:
        show(Text("all rows as one query; --query COLUMN compares within groups", style="dim"))


def _measured(
    model: Any,
    file: Path,
    items: Path | None,
    columns: dict[str, str | None],
    doing: Callable[[str], None],
    *,
    shuffles: bool,
) -> dict[str, Any]:
    import numpy as np
    from sklearn.base import is_regressor
    from sklearn.metrics import r2_score

    from corank.metrics import disagreement_error, ndcg

    columns = {role: name or (model.table_ or {}).get(role) for role, name in columns.items()}
    score = columns["score"]
    if score is None:
        raise ValueError("the model does not remember a score column: say which with --score")
    if is_big(file) and items is None:
        from corank.cli.large_files import scored_rows

        y, predicted, labels = scored_rows(model, file, score, columns["query"], shuffles=shuffles)
        n_rows = None
    else:
        y, predicted, labels, n_rows = _scored(model, file, items, columns, doing)
    if len(y) == 0:
        raise ValueError(f"score column {score!r} of {file} is empty: there is nothing to compare with")
    result: dict[str, Any] = {
        "rows": n_rows,
        "scored": len(y),
        "queries": None if labels is None else len(np.unique(labels)),
        "disagreement": _mean(disagreement_error(y, predicted, qid=labels, average=False)),
        "ndcg_at_10": _mean(ndcg(y, predicted, qid=labels, k=10, average=False)) if y.min() >= 0 else None,
    }
    if result["ndcg_at_10"] is None:
        result["ndcg_at_10_left_out"] = "negative scores" if y.min() < 0 else "no positive scores"
    if result["disagreement"] is None:
        raise ValueError(f"there is nothing to compare: no query of {file} has two rows with different scores")
    if is_regressor(model):
        result["r2"] = {"value": float(r2_score(y, predicted))}
    return result


def _scored(
    model: Any, file: Path, items: Path | None, columns: dict[str, str | None], doing: Callable[[str], None]
) -> tuple[Any, Any, Any, int]:
    """Scores, predictions and query labels of the rows that have a score, and the number of all rows.

    The columns of the items may stand in another table.
    """
    import numpy as np

    from corank.cli.columns import features_of, text_columns
    from corank.cli.comparisons import joined
    from corank.tables import query_column, read_table, score_column

    score, query, item = columns["score"], columns["query"], columns["id"]
    assert score is not None
    text = text_columns(model, query, item)
    table = read_table(file, text=text)
    if items is not None:
        if item is None:
            raise ValueError("the model does not remember which column names the items: say which with --item")
        table = joined(table, file, items, item, text)
    y = score_column(table, score)
    scored = ~np.isnan(y)
    if not scored.any():
        return y[scored], y[scored], None, len(table)
    labels = None if query is None else query_column(table, query)[scored]
    doing(f"evaluating on {count(int(scored.sum()), 'scored row')}")
    return y[scored], np.asarray(model.predict(features_of(model, table.filter(scored)))), labels, len(table)


def _mean(values: Any) -> dict[str, float | None] | None:
    """Mean and standard error over the queries where the measure is defined."""
    import numpy as np

    defined = values[~np.isnan(values)]
    if len(defined) == 0:
        return None
    error = float(np.std(defined, ddof=1) / np.sqrt(len(defined))) if len(defined) > 1 else None
    return {"value": float(defined.mean()), "standard_error": error}
