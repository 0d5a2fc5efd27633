"""`corank fit`: a table and the name of its score column → a model file."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from corank.cli.console import (
    check_model_output,
    count,
    facts,
    grid,
    held_out_error,
    is_big,
    note,
    show,
    size_of,
    working,
)

if TYPE_CHECKING:
    from corank.cli.training import Training

MOST_COLUMNS = 12  # that are listed one by one
WORTH_IT = 0.98  # of the error of a constant: a model above that has learned nothing


class Method(StrEnum):
    """The learners, as the command line calls them."""

    rankrls = "rankrls"
    rls = "rls"
    corankrls = "corankrls"
    corls = "corls"
    kpcrank = "kpcrank"
    kpcr = "kpcr"
    pursuit = "pursuit"
    matching = "matching"


LEARNERS = {
    Method.rankrls: "RankRLS",
    Method.rls: "RLS",
    Method.corankrls: "CoRankRLS",
    Method.corls: "CoRLS",
    Method.kpcrank: "KPCRank",
    Method.kpcr: "KPCR",
    Method.pursuit: "RankingPursuit",
    Method.matching: "MatchingPursuit",
}
RANKERS = (Method.rankrls, Method.corankrls, Method.kpcrank, Method.pursuit)
AGREEING = (Method.corankrls, Method.corls)
STREAMED = (Method.rankrls, Method.rls, *AGREEING)
GOES_WITH = {  # options that only some methods have
    "weighting": RANKERS,
    "basis": (Method.rankrls, Method.rls, Method.corankrls, Method.corls, Method.kpcrank, Method.kpcr),
    "alpha": STREAMED,
    "unscored": AGREEING,
    "view": AGREEING,
    "checkpoint": STREAMED,
    "dask": STREAMED,
    "components": (Method.kpcrank, Method.kpcr),
    "atoms": (Method.pursuit, Method.matching),
}


class Weighting(StrEnum):
    """What counts the same: items, pairs or queries."""

    size = "size"
    unit = "unit"
    query = "query"


def fit(
    file: Annotated[
        Path,
        typer.Argument(
            help="Table of items: .csv, .tsv or .parquet; or a folder or pattern of such files, or of svmlight ones, "
            "which need not fit into memory.",
            show_default=False,
        ),
    ],
    score: Annotated[str, typer.Option(help="Column with the scores; empty = unscored.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Where to save the model, by custom NAME.corank.", show_default=False)],
    query: Annotated[
        str | None,
        typer.Option(
            help="Column that says which rows compete with each other; all queries share one scoring function.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        Method,
        typer.Option(
            help="rankrls, kpcrank (for noisy scores) and pursuit (a handful of items) rank; rls, kpcr and matching "
            "predict the scores themselves; corankrls and corls learn from unscored rows too."
        ),
    ] = Method.rankrls,
    features: Annotated[
        list[str] | None,
        typer.Option(help="Columns to learn from, such as a,b,'text_*'. Default: all others.", show_default=False),
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Columns to leave out.", show_default=False)] = None,
    id: Annotated[
        str | None, typer.Option("--id", help="Column that names the items; it is left out.", show_default=False)
    ] = None,
    kernel: Annotated[str, typer.Option(help="How alike two rows are: rbf, linear, poly, cosine, …")] = "rbf",
    gamma: Annotated[
        str,
        typer.Option(
            help="Kernel width: tune, scale or a number. auto is tune for up to 1,500 scored rows, else scale."
        ),
    ] = "auto",
    basis: Annotated[
        str | None,
        typer.Option(help="Rows that span the model: auto, all, features or a number.", show_default="auto"),
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(help="Strength of smoothing: tune, a number, or several to try.", show_default="tune"),
    ] = None,
    components: Annotated[
        str | None,
        typer.Option(help="Number of components of kpcrank and kpcr, or tune.", show_default="tune"),
    ] = None,
    atoms: Annotated[
        str | None,
        typer.Option(help="Number of items that make up a pursuit's model, or tune.", show_default="tune"),
    ] = None,
    unscored: Annotated[
        str | None,
        typer.Option(help="More rows without scores: file, folder or pattern (corankrls, corls).", show_default=False),
    ] = None,
    view: Annotated[
        list[str] | None,
        typer.Option(help="Columns of one view, such as 'text_*'; once a view.", show_default="two random halves"),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder for what is done so far: the same command goes on from there.", show_default=False),
    ] = None,
    dask: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler whose workers do the work.", show_default=False)
    ] = None,
    weighting: Annotated[
        Weighting | None, typer.Option(help="What counts the same: items (size), pairs (unit) or queries (query).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is already there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Learn from a table and save the model.

    All queries share one scoring function, learned from the features.
    The query column says which rows compete and is not a feature.
    To learn one person's taste, fit on that person's rows, without --query.
    """
    check_model_output(out, file, force=force)
    given = {"weighting": weighting, "basis": basis, "alpha": alpha, "components": components, "atoms": atoms}
    passes = {"unscored": unscored, "view": view or None, "checkpoint": checkpoint, "dask": dask}
    options = {"kernel": kernel, "gamma": _number_or_word(gamma), **_own_options(method, given | passes)}
    options = {name: value for name, value in options.items() if name not in passes}
    if kernel == "precomputed":
        raise ValueError("--kernel precomputed needs a kernel matrix, not a table: use Python for it")
    began = time.perf_counter()
    roles = {"score": score, "query": query, "id": id}
    columns = (roles, features or [], drop or [])
    streamed = is_big(file) or any(passes[name] is not None for name in ("unscored", "checkpoint", "dask"))
    with working(quiet=quiet, status=not streamed) as doing:
        doing(f"reading {file.name}")
        if streamed:
            model, encoder = _fitted_in_passes(file, columns, method, options, passes, doing)
        else:
            from corank.cli.training import read_training

            training = read_training(file, *columns, doing)
            model, encoder = _fitted(training, method, options, view or [], doing), training.encoder
        seconds = time.perf_counter() - began
        doing(f"writing {out.name}")
        model.save(out, overwrite=force, encoder=encoder)
        result = _result(model, encoder, out, seconds)
        _note_no_better(result)
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    elif not quiet:
        _show(result, file, out)


def _fitted_in_passes(
    file: Path,
    columns: tuple[dict[str, str | None], list[str], list[str]],
    method: Method,
    options: dict[str, Any],
    passes: dict[str, Any],
    doing: Callable[[str], None],
) -> tuple[Any, Any]:
    """A model of files that need not fit into memory, and the encoder of their columns."""
    from corank import learners, scan
    from corank.cli.bigger import client_at, scan_training, views_of

    if method not in STREAMED:
        raise ValueError(f"--method {method} needs its rows in memory; of files in passes learn {', '.join(STREAMED)}")
    client = client_at(passes["dask"])
    try:
        rows = scan_training(file, *columns, client, doing)
        more: dict[str, Any] = {}
        if method in AGREEING:
            options = {**options, "views": views_of(passes["view"] or [], rows.encoder, rows.feature_names or [])}
            if passes["unscored"] is not None:
                own = {"encoder": rows.encoder} if rows.encoder is not None else {}
                more["unscored"] = scan(passes["unscored"], query=rows.wanted.query, client=client, **own)
        if options["gamma"] == "auto":
            options = {**options, "gamma": "scale"}
        model = getattr(learners, LEARNERS[method])(**options)
        doing(f"fitting {type(model).__name__}")
        model.fit(rows, checkpoint=passes["checkpoint"], **more)
    finally:
        if client is not None:
            client.close()
    summary = model._summary()
    queries = None if rows.wanted.query is None else summary["queries"]
    model.table_ = {**columns[0], "rows": summary["rows"], "scored": summary["scored"], "queries": queries}
    return model, rows.encoder


def _own_options(method: Method, given: dict[str, Any]) -> dict[str, Any]:
    """The options that only some methods have, as their learners take them; refuses those that do not go with this."""
    options: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        if method not in GOES_WITH[name]:
            others = " or ".join(f"--method {other}" for other in GOES_WITH[name])
            raise ValueError(f"--{name} does not go with --method {method}; it goes with {others}")
        if name == "alpha":
            options[name] = _number_or_word(value)
        elif name == "weighting":
            options[name] = value.value
        elif not isinstance(value, str):
            options[name] = value
        else:
            own = {"components": "n_components", "atoms": "n_atoms"}.get(name, name)
            options[own] = _whole_numbers(name, value) if own != name else int(value) if value.isdecimal() else value
    return options


def _fitted(
    training: Training, method: Method, options: dict[str, Any], views: list[str], doing: Callable[[str], None]
) -> Any:
    from corank import learners

    training.check_scores(ranks=method in RANKERS)
    if options["gamma"] == "auto":
        gamma = "scale" if method in AGREEING else training.automatic_gamma(options["kernel"])
        options = {**options, "gamma": gamma}
    if method in AGREEING:
        from corank.cli.bigger import views_of

        options = {
            **options,
            "views": views_of(views, training.encoder, list(training.encoder.get_feature_names_out())),
        }
    model = getattr(learners, LEARNERS[method])(**options)
    doing(f"fitting {type(model).__name__} on {count(training.n_scored, 'scored row')}")
    model.fit(training.features, training.scores, qid=training.queries)
    model.table_ = training.remembered
    if training.names is not None and hasattr(model, "atoms_"):
        model.name_atoms([training.names[row] for row in model.atoms_])
    return model


def _whole_numbers(name: str, text: str) -> int | str | list[int]:
    """`5`, `tune` or `2,5,10`."""
    parts = [part.strip() for part in text.split(",")]
    if text != "tune" and not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"--{name} must be tune, a number greater than 0, or several such as 2,5,10; got {text!r}")
    numbers = [] if text == "tune" else [int(part) for part in parts]
    return "tune" if not numbers else numbers[0] if len(numbers) == 1 else numbers


def _number_or_word(text: str) -> float | str | list[float]:
    """`0.1`, `tune` or `0.1,1,10`."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        return text
    return values if len(values) > 1 else values[0]


def _result(model: Any, encoder: Any, out: Path, seconds: float) -> dict[str, Any]:
    path = model.path_
    several = isinstance(model.coef_, list)
    kernel, gamma = (model._kernels[0], model.gamma_[0]) if several else (model._kernel, model.gamma_)
    gammas = 1 if path is None else len(set(path.gamma.tolist())) if gamma is not None else 1
    return {
        "model": str(out),
        "method": type(model).__name__,
        **model.table_,
        "columns": [] if encoder is None else encoder.summary(),
        "features": model.n_features_in_,
        "kernel": kernel.name,
        "gamma": gamma,
        "gamma_chosen": None if gamma is None else model.gamma if isinstance(model.gamma, str) else "given",
        "gammas_tried": gammas,
        "basis": sum(len(own) for own in model.coef_) if several else len(model.coef_),
        **{
            name: getattr(model, f"{name}_")
            for name in ("alpha", "agreement", "n_components", "n_atoms")
            if hasattr(model, f"{name}_")
        },
        "tried": 1 if path is None else len(path.error) // gammas,
        "held_out_error": None if path is None else _finite(path.error[path.best]),
        "held_out_standard_error": None if path is None else _finite(path.standard_error[path.best]),
        "held_out_constant": None if path is None else _finite(path.constant),
        "seconds": round(seconds, 3),
    }


def _finite(value: float) -> float | None:
    return float(value) if value == value else None  # noqa: PLR0124


def _note_no_better(result: dict[str, Any]) -> None:
    """Say so where the model has learned nothing that helps on rows it has not seen."""
    error, constant = result["held_out_error"], result["held_out_constant"]
    if error is None or constant is None or error <= WORTH_IT * constant:
        return
    reasons = f"perhaps the features say nothing about {result['score']!r}"
    if result["query"] is not None:
        reasons += (
            f", or what is good differs from {result['query']!r} to {result['query']!r}, as all share one function"
        )
    note(f"the model is no better than a constant: {reasons}")


# ---- what is shown


def _show(result: dict[str, Any], file: Path, out: Path) -> None:
    rows, scored = result["rows"], result["scored"]
    used = [column for column in result["columns"] if not column["treatment"].startswith("dropped")]
    pairs = {"rows": f"{rows:,}, {scored:,} of them scored" if scored < rows else f"{rows:,}, all scored"}
    if result["queries"] is not None:
        what = f"all share one scoring function; {result['query']} says which rows compete and is not a feature"
        pairs["queries"] = f"{result['queries']:,} ({result['query']}): {what}"
    pairs |= {
        "features": f"{count(result['features'], 'number')} from {count(len(used), 'column')}",
        "kernel": result["kernel"] + _gamma(result),
        **_size(result),
        "held-out error": held_out_error(
            result["held_out_error"], result["held_out_standard_error"], result["held_out_constant"]
        ),
        "time": f"{result['seconds']:.1f} s",
        "saved as": f"{out} ({size_of(out)})",
    }
    show(
        facts(f"{result['method']} fitted on {file.name}", pairs),
        _columns_table(result["columns"]),
        Text.assemble("Next: ", (f"corank rank {out} NEW_FILE --out ranked.csv", "bold")),
    )


def _size(result: dict[str, Any]) -> dict[str, str]:
    """How flexible the model is: its number of atoms, of components, or its alpha."""
    tried = _best_of(result["tried"])
    if "n_atoms" in result:
        return {"atoms": f"{result['n_atoms']}{tried}; `corank inspect` lists them"}
    if "n_components" in result:
        return {"components": f"{result['n_components']}{tried}"}
    return {"alpha": f"{result['alpha']:.3g}{tried}"}


def _gamma(result: dict[str, Any]) -> str:
    if result["gamma"] is None:
        return ""
    how = {"tune": f" (tune{_best_of(result['gammas_tried'])})", "scale": " (scale)"}
    return f", gamma {result['gamma']:.3g}" + how.get(result["gamma_chosen"], _best_of(result["gammas_tried"]))


def _best_of(tried: int) -> str:
    return f", the best of {tried}" if tried > 1 else ""


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
        cells = (column["column"] or "(no name)", column["kind"], column["treatment"].split(", minus")[0])
        table.add_row(*(Text(cell, style=style) for cell in cells))
    rest = Counter(column["kind"] for column in columns if column not in listed)
    if rest:
        kinds = ", ".join(f"{number} {kind}" for kind, number in rest.items())
        table.add_row(Text(f"and {sum(rest.values())} more", style="dim"), "", Text(kinds, style="dim"))
    return table
