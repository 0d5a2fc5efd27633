"""`corank inspect`: what a model file holds, and a sparse model atom by atom."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from corank.cli.console import count, facts, grid, held_out_error, in_bytes, show
from corank.cli.encoded import columns_table, encoding_of, with_categories
from corank.cli.evidence import (
    comparisons_of,
    evidence_in_words,
    evidence_of,
    names_of_features,
    plain_gamma,
    widths_table,
)
from corank.cli.options import AsJson, ModelFile

WHAT = {
    "RankRLS": "ranks items within a query",
    "RLS": "predicts scores",
    "CoRankRLS": "ranks items within a query, by views that agree on unscored rows",
    "CoRLS": "predicts scores, by views that agree on unscored rows",
    "KPCRank": "ranks items within a query, on the leading components",
    "KPCR": "predicts scores, on the leading components",
    "RankingPursuit": "ranks items within a query, by a handful of atoms",
    "MatchingPursuit": "predicts scores, by a handful of atoms",
    "CoRankingPursuit": "ranks items within a query, by a handful of atoms a view that agree on unscored rows",
    "TransductiveRankRLS": "ranks items within a query, with the scores of unscored rows filled in",
    "PreferenceGP": "ranks items by who beats whom, and says how sure it is",
    "DifferenceGP": "ranks items by differences of scores, and says how sure it is",
}
NUMBERS = {"alpha": "alpha", "pull": "pull", "n_components": "components", "n_atoms": "atoms"}


def inspect(
    model: ModelFile,
    as_json: AsJson = False,
) -> None:
    """Show what a model is, how it was fitted and, where it has few atoms, each of them."""
    found = _model(model)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    show(facts(str(model), _in_words(found)))
    if found["encoding"] is not None:
        show(columns_table(with_categories(found["encoding"])))
    if found.get("atoms"):
        show(_atoms(found["atoms"]))
    if isinstance(found.get("gamma"), list):
        show(*widths_table(found["gamma"], found["feature_names"]))


def _model(path: Path) -> dict[str, Any]:
    from corank.learners import load
    from corank.persistence import read_model

    header, _ = read_model(path)
    model = load(path)
    summary, table = header["summary"], model.table_ or {}
    counts = dict(table) if table.get("rows") == summary["rows"] else {}  # after an update those of the table are old
    counts |= {key: value for key, value in summary.items() if value is not None}
    tuned = getattr(model, "path_", None)
    return {
        "method": type(model).__name__,
        **{key: counts.get(key) for key in ("rows", "scored", "queries")},
        "comparisons": table.get("comparisons") or comparisons_of(model),
        **_functions(model),
        **{f"{key}_column": table.get(key) for key in ("score", "query", "id")},
        "features": model.n_features_in_,
        "columns": _columns(model),
        "encoding": None if model.encoder_ is None else encoding_of(model.encoder_),
        **{name: getattr(model, f"{name}_") for name in NUMBERS if hasattr(model, f"{name}_")},
        **evidence_of(model),
        "atoms": _read_atoms(model) if hasattr(model, "explain") else None,
        "tried": 1 if tuned is None else len(tuned.alpha),
        "held_out_error": None if tuned is None else float(tuned.error[tuned.best]),
        "held_out_constant": None if tuned is None else float(tuned.constant),
        "parameters": {key: _plain(value) for key, value in model.get_params().items() if _differs(model, key, value)},
        **{f"{key}_in_fit": summary[key] for key in ("cv", "random_state", "dictionary") if key in summary},
        "written_by": header["corank"],
        "bytes": path.stat().st_size,
    }


def _read_atoms(model: Any) -> dict[str, list[Any]]:
    """The atoms as columns of a table, None where there is no number."""
    table = model.explain().to_dict()
    return {key: [None if cell != cell else cell for cell in column] for key, column in table.items()}  # noqa: PLR0124


def _functions(model: Any) -> dict[str, Any]:
    """What was fitted: one function, or one a view and how they agree."""
    functions = [
        {
            "kernel": function.kernel.name,
            "gamma": _gamma_of(function.kernel),
            "basis": len(function.coefficients),
            "basis_of": "columns" if function.points is None else "rows",
        }
        for function in model._expansions()
    ]
    views = getattr(model, "views_", None)
    if views is None:
        named = isinstance(functions[0]["gamma"], list)
        return {**functions[0], **({"feature_names": names_of_features(model)} if named else {})}
    effect = model.unscored_effect_
    return {
        "unscored": model._n_unscored,
        "views": [
            {"name": view.name, "columns": len(view.columns), "penalty": view.penalty, **function}
            for view, function in zip(views, functions, strict=True)
        ],
        "agreement": model.agreement_,
        "unscored_effect": None if effect is None else {**asdict(effect), "words": str(effect)},
    }


def _gamma_of(kernel: Any) -> float | list[float] | None:
    """One width, or one for each feature where the kernel scales them."""
    if getattr(kernel, "scales", None) is None:
        return plain_gamma(kernel.gamma)
    return [float(kernel.gamma * scale**2) for scale in kernel.scales]


def _columns(model: Any) -> list[str] | None:
    """Names of the columns that are used, None where they have none."""
    if model.encoder_ is not None:
        return [column.name for column in model.encoder_.columns_ if not column.dropped]
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _differs(model: Any, key: str, value: Any) -> bool:
    default = type(model)().get_params()[key]
    if key == "views" and isinstance(value, list | tuple):
        return False  # they are shown one by one
    return not (type(value) is type(default) and value == default)


def _plain(value: Any) -> Any:
    """A parameter as JSON has it: numbers and short lists of them as they are, anything else in words."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple) and len(value) <= 20 and all(isinstance(each, int | float) for each in value):
        return list(value)
    words = " ".join(repr(value).split())
    return words if len(words) <= 60 else words[:59] + "…"


def _in_words(found: dict[str, Any]) -> dict[str, str]:
    words = {
        "what": f"{found['method']}: {WHAT.get(found['method'], 'a model of corank')}",
        "fitted on": _rows(found),
        "features": _features(found),
        **(_views_in_words(found) if "views" in found else {"kernel": _kernel(found), "basis": _basis(found)}),
        **{word: f"{found[name]:.3g}" for name, word in NUMBERS.items() if name in found and "noise" not in found},
        **evidence_in_words(found, compared=bool(found["comparisons"])),
    }
    if found["held_out_error"] is not None:
        error = held_out_error(found["held_out_error"], None, found["held_out_constant"])
        words["held-out error"] = f"{error}; the best of {found['tried']} tried"
    if found["parameters"]:
        words["parameters"] = ", ".join(f"{key}={value!r}" for key, value in found["parameters"].items())
    words |= {
        f"{key} in fit": found[f"{key}_in_fit"]
        for key in ("cv", "random_state", "dictionary")
        if f"{key}_in_fit" in found
    }
    return {**words, "written by": f"corank {found['written_by']}", "file": in_bytes(found["bytes"])}


def _atoms(table: dict[str, list[Any]]) -> Any:
    """The atoms in order of entry."""
    shown = {"weight": "+.4g", "added": ".1%", "left": ".1%", "held_out_error": ".4g"}
    grid_ = grid("Atoms in order of entry", [key.replace("_", " ") for key in table], right=[*shown, "held out error"])
    for line in zip(*table.values(), strict=True):
        cells = zip(table, line, strict=True)
        grid_.add_row(*(Text("" if cell is None else format(cell, shown.get(key, ""))) for key, cell in cells))
    return grid_


def _views_in_words(found: dict[str, Any]) -> dict[str, str]:
    words = {}
    for number, view in enumerate(found["views"], start=1):
        called = "" if view["name"] == f"view {number}" else f"{view['name']}: "
        penalty = "" if view["penalty"] == 1 else f"; penalty {view['penalty']:.3g}"
        size = count(view["columns"], "column")
        basis = "" if view["basis_of"] == "columns" else f"; basis of {_basis(view)}"
        words[f"view {number}"] = f"{called}{size}; {_kernel(view)}{basis}{penalty}"
    unscored = count(found["unscored"], "unscored row")
    words["agreement"] = (
        f"{found['agreement']:.3g}, on {unscored}" if found["agreement"] else f"0: {unscored} play no part"
    )
    if found["unscored_effect"] is not None:
        words["effect"] = found["unscored_effect"]["words"]
    return words


def _kernel(function: dict[str, Any]) -> str:
    gamma = function["gamma"]
    if isinstance(gamma, list):
        return f"{function['kernel']}, a gamma for each feature from {min(gamma):.3g} to {max(gamma):.3g}"
    return str(function["kernel"]) + ("" if gamma is None else f", gamma {gamma:.3g}")


def _basis(function: dict[str, Any]) -> str:
    return count(function["basis"], function["basis_of"].removesuffix("s"))


def _rows(found: dict[str, Any]) -> str:
    words = f"{found['rows']:,} rows" + ("" if found["scored"] is None else f", {found['scored']:,} scored")
    if found["comparisons"]:
        words = f"{count(found['comparisons'], 'comparison')} of {count(found['scored'], 'item')}"
    alone = found["comparisons"] or found["queries"] == 1
    if found["queries"] is None or (alone and found["query_column"] is None):
        return words
    name = found["query_column"]
    return f"{words}, {count(found['queries'], 'query', 'queries')}" + (f" ({name})" if name else "")


def _features(found: dict[str, Any]) -> str:
    names, numbers = found["columns"], count(found["features"], "number")
    if names is None:
        return f"{numbers}: columns without names"
    listed = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"{numbers} from {count(len(names), 'column')}: {listed}"
