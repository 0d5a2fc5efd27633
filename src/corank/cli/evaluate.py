"""`corank evaluate`: how well a model orders the scored rows of a table, or foretells comparisons."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from corank.cli.console import count, grid, is_big, show, working
from corank.cli.inputs import DASH, check_printed, given, given_too, title_of, write_result
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
from corank.cli.outputs import check_model_and_table, check_table_output

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
        from corank.cli.foretold import compares, foretell, show_foretold
        from corank.cli.pairs import PairColumns
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
        from corank.cli.bigger import scored_rows

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
    from corank.cli.items import joined
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
