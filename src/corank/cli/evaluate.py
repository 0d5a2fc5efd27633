"""`corank evaluate`: how well a model orders the scored rows of a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from corank.cli.console import check_model_and_table, count, grid, is_big, show, working

READING = {
    "disagreement": "share of pairs in the wrong order: 0 is perfect, 0.5 is chance",
    "ndcg_at_10": "gain of the first ten beside the best possible: 1 is perfect",
    "r2": "share of the spread of scores that is explained: 1 is perfect, 0 no better than their mean",
}
NAMES = {"disagreement": "disagreement", "ndcg_at_10": "NDCG@10", "r2": "R²"}


def evaluate(
    model: Annotated[Path, typer.Argument(help="Model that `corank fit` saved.", show_default=False)],
    file: Annotated[Path, typer.Argument(help="Table of items with scores.", show_default=False)],
    score: Annotated[
        str | None, typer.Option(help="Column with the scores. Default: as in fit.", show_default=False)
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="Column with the queries. Default: as in fit.", show_default=False)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No notes, only the result and errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Say how well a model ranks rows whose scores are known."""
    check_model_and_table("evaluate", model, file)
    with working(quiet=quiet, status=not is_big(file)) as doing:
        result = _measured(model, file, score, query, doing)
    if as_json:
        typer.echo(json.dumps(result, indent=2))
        return
    rows = f"{count(result['scored'], 'scored row')} of {file.name}"
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
    model_file: Path, file: Path, score: str | None, query: str | None, doing: Callable[[str], None]
) -> dict[str, Any]:
    doing(f"reading {file.name}")
    import numpy as np
    from sklearn.base import is_regressor
    from sklearn.metrics import r2_score

    from corank.learners import load
    from corank.metrics import disagreement_error, ndcg

    model = load(model_file)
    remembered = model.table_ or {}
    score, query = score or remembered.get("score"), query or remembered.get("query")
    if score is None:
        raise ValueError("the model does not remember a score column: say which with --score")
    y, predicted, labels, n_rows = _scored(model, file, score, query, doing)
    if len(y) == 0:
        raise ValueError(f"score column {score!r} of {file} is empty: there is nothing to compare with")
    result: dict[str, Any] = {
        "model": str(model_file),
        "method": type(model).__name__,
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
    model: Any, file: Path, score: str, query: str | None, doing: Callable[[str], None]
) -> tuple[Any, Any, Any, int | None]:
    """Scores, predictions and query labels of the rows that have a score, and the number of all rows where known."""
    import numpy as np

    from corank.cli.columns import features_of, text_columns
    from corank.tables import query_column, read_table, score_column

    if is_big(file):
        from corank.cli.bigger import scored_rows

        return *scored_rows(model, file, score, query), None
    table = read_table(file, text=text_columns(model, query, (model.table_ or {}).get("id")))
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
