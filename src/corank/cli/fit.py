"""`corank fit`: a table and the name of its score column → a model file."""

from __future__ import annotations

import json
import time
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from corank.cli.console import check_output, count, facts, grid, note, show, size_of, working

MOST_COLUMNS = 12  # that are listed one by one


class Method(StrEnum):
    """The learners, as the command line calls them."""

    rankrls = "rankrls"
    rls = "rls"


class Weighting(StrEnum):
    """What counts the same: items, pairs or queries."""

    size = "size"
    unit = "unit"
    query = "query"


def fit(
    file: Annotated[Path, typer.Argument(help="Table of items: .csv, .tsv or .parquet.", show_default=False)],
    score: Annotated[str, typer.Option(help="Column with the scores; empty = unscored.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Where to save the model.", show_default=False)],
    query: Annotated[
        str | None, typer.Option(help="Column that says which rows compete with each other.", show_default=False)
    ] = None,
    method: Annotated[Method, typer.Option(help="rankrls ranks, rls predicts the scores themselves.")] = Method.rankrls,
    features: Annotated[
        list[str] | None,
        typer.Option(help="Columns to learn from, such as a,b,'text_*'. Default: all others.", show_default=False),
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Columns to leave out.", show_default=False)] = None,
    id: Annotated[
        str | None, typer.Option("--id", help="Column that names the items; it is left out.", show_default=False)
    ] = None,
    kernel: Annotated[str, typer.Option(help="How alike two rows are: rbf, linear, poly, cosine, …")] = "rbf",
    gamma: Annotated[str, typer.Option(help="Kernel width: scale, tune or a number.")] = "scale",
    basis: Annotated[str, typer.Option(help="Rows that span the model: auto, all, features or a number.")] = "auto",
    alpha: Annotated[str, typer.Option(help="Strength of smoothing: tune, a number, or several to try.")] = "tune",
    weighting: Annotated[
        Weighting | None, typer.Option(help="What counts the same: items (size), pairs (unit) or queries (query).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is already there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but notes and errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Learn from a table and save the model."""
    check_output(out, file, force=force)
    if weighting is not None and method is Method.rls:
        raise ValueError("--weighting goes with --method rankrls only: rls compares no rows")
    options: dict[str, Any] = {
        "kernel": kernel,
        "gamma": _number_or_word(gamma),
        "basis": int(basis) if basis.isdecimal() else basis,
        "alpha": _number_or_word(alpha),
    }
    if weighting is not None:
        options["weighting"] = weighting.value
    columns = {"score": score, "query": query, "id": id}
    with working(f"fitting on {file.name} …", quiet=quiet or as_json):
        model, encoder, seconds = _fitted(file, columns, method, features or [], drop or [], options)
    model.save(out, overwrite=force, encoder=encoder)
    result = _result(model, encoder, out, seconds)
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    elif not quiet:
        _show(result, file, out)


def _fitted(
    file: Path,
    columns: dict[str, str | None],
    method: Method,
    wanted: list[str],
    dropped: list[str],
    options: dict[str, Any],
) -> tuple[Any, Any, float]:
    """Read, encode, learn: the model, its encoder and how many seconds it took."""
    import numpy as np

    from corank.cli.columns import feature_columns, looks_like_id
    from corank.encoder import TableEncoder
    from corank.learners import RLS, RankRLS
    from corank.tables import column, query_column, read_table, score_column

    began = time.perf_counter()
    if options["kernel"] == "precomputed":
        raise ValueError("--kernel precomputed needs a kernel matrix, not a table: use Python for it")
    score, query = columns["score"], columns["query"]
    assert score is not None
    table = read_table(file, text=[name for name in (query, columns["id"]) if name is not None])
    scores = score_column(table, score)
    queries = None if query is None else query_column(table, query)
    if columns["id"] is not None:
        column(table, columns["id"], "id")
    names = feature_columns(table, columns, wanted, dropped)
    for name in names:
        if looks_like_id(name, table[name]):
            note(
                f"column {name!r} looks like a number of the row, yet it is learned from: leave it out with --id {name}"
            )
    encoder = TableEncoder()
    X = encoder.fit_transform(table.select(names))
    model = RankRLS(**options) if method is Method.rankrls else RLS(**options)
    model.fit(X, scores, qid=queries)
    model.table_ = {
        **columns,
        "rows": len(scores),
        "scored": int(np.count_nonzero(~np.isnan(scores))),
        "queries": None if queries is None else len(np.unique(queries)),
    }
    return model, encoder, time.perf_counter() - began


def _number_or_word(text: str) -> float | str | list[float]:
    """`0.1`, `tune` or `0.1,1,10`."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        return text
    return values if len(values) > 1 else values[0]


def _result(model: Any, encoder: Any, out: Path, seconds: float) -> dict[str, Any]:
    path = model.path_
    return {
        "model": str(out),
        "method": type(model).__name__,
        **model.table_,
        "columns": encoder.summary(),
        "features": model.n_features_in_,
        "kernel": model._kernel.name,
        "gamma": model.gamma_,
        "basis": len(model.coef_),
        "alpha": model.alpha_,
        "alphas_tried": 1 if path is None else len(path.alpha),
        "held_out_error": None if path is None else _finite(path.error[path.best]),
        "held_out_standard_error": None if path is None else _finite(path.standard_error[path.best]),
        "seconds": round(seconds, 3),
    }


def _finite(value: float) -> float | None:
    return float(value) if value == value else None  # noqa: PLR0124


def _show(result: dict[str, Any], file: Path, out: Path) -> None:
    rows, scored = result["rows"], result["scored"]
    used = [column for column in result["columns"] if not column["treatment"].startswith("dropped")]
    error, spread = result["held_out_error"], result["held_out_standard_error"]
    held_out = "not measured, as nothing was tuned"
    if error is not None:
        held_out = f"{error:.4g}" + (f" ± {spread:.2g}" if spread is not None else "") + " (squared)"
    tried = f", the best of {result['alphas_tried']}" if result["alphas_tried"] > 1 else ""
    pairs = {"rows": f"{rows:,}, {scored:,} of them scored" if scored < rows else f"{rows:,}, all scored"}
    if result["queries"] is not None:
        pairs["queries"] = f"{result['queries']:,} ({result['query']})"
    pairs |= {
        "features": f"{count(result['features'], 'number')} from {count(len(used), 'column')}",
        "kernel": result["kernel"] + ("" if result["gamma"] is None else f", gamma {result['gamma']:.3g}"),
        "alpha": f"{result['alpha']:.3g}{tried}",
        "held-out error": held_out,
        "time": f"{result['seconds']:.1f} s",
        "saved as": f"{out} ({size_of(out)})",
    }
    show(
        facts(f"{result['method']} fitted on {file.name}", pairs),
        _columns_table(result["columns"]),
        Text.assemble("Next: ", (f"corank rank {out} NEW_FILE --out ranked.csv", "bold")),
    )


def _columns_table(columns: list[dict[str, str]]) -> Any:
    """What becomes of each column, or of the first few and those that are dropped."""
    listed = columns
    if len(columns) > MOST_COLUMNS:
        dropped = [column for column in columns if column["treatment"].startswith("dropped")][:4]
        others = [column for column in columns if column not in dropped]
        listed = others[: MOST_COLUMNS - len(dropped)] + dropped
    table = grid("", ("column", "kind"), last="what becomes of it")
    for column in listed:
        style = "dim" if column["treatment"].startswith("dropped") else ""
        cells = (column["column"], column["kind"], column["treatment"].split(", minus")[0])
        table.add_row(*(Text(cell, style=style) for cell in cells))
    rest = Counter(column["kind"] for column in columns if column not in listed)
    if rest:
        kinds = ", ".join(f"{number} {kind}" for kind, number in rest.items())
        table.add_row(Text(f"and {sum(rest.values())} more", style="dim"), "", Text(kinds, style="dim"))
    return table
