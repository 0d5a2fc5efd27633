"""`corank info`: what is installed, or what a model file holds."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from corank.cli.console import count, facts, show, size_of

PACKAGES = ("corank", "numpy", "scipy", "scikit-learn", "pyarrow", "safetensors", "torch")
WHAT = {"RankRLS": "ranks items within a query", "RLS": "predicts scores"}


def info(
    model: Annotated[Path | None, typer.Argument(help="Model that `corank fit` saved.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Show what is installed, or what a model is and how it was fitted."""
    found = _installed() if model is None else _model(model)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        show(facts("This installation" if model is None else str(model), found))


def _installed() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed: needed for GPUs only" if package == "torch" else "not installed"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found |= {"Python": platform.python_version(), "system": platform.platform(), "cores": str(cores)}
    found["devices"] = ", ".join(["CPU", *_gpus()])
    return found


def _gpus() -> list[str]:
    try:
        import torch
    except ImportError:
        return []
    names = [torch.cuda.get_device_name(at) for at in range(torch.cuda.device_count())]
    return [*names, *(["Apple GPU"] if torch.backends.mps.is_available() else [])]


def _model(path: Path) -> dict[str, str]:
    from corank.learners import load
    from corank.persistence import read_model

    header, _ = read_model(path)
    model = load(path)
    summary, table = header["summary"], model.table_ or {}
    name = type(model).__name__
    counts = dict(table) if table.get("rows") == summary["rows"] else {}  # after an update those of the table are old
    counts |= {key: value for key, value in summary.items() if value is not None}
    rows, scored, queries = (counts.get(key) for key in ("rows", "scored", "queries"))
    found = {
        "what": f"{name}: {WHAT[name]}",
        "fitted on": f"{rows:,} rows" + ("" if scored is None else f", {scored:,} scored") + _by(queries, table),
        "features": _features(model),
        "kernel": model._kernel.name + ("" if model.gamma_ is None else f", gamma {model.gamma_:.3g}"),
        "basis": f"{count(len(model.coef_), 'column' if model.basis_points_ is None else 'row')}",
        "alpha": f"{model.alpha_:.3g}",
    }
    if model.path_ is not None:
        path_, best = model.path_, model.path_.best
        found["held-out error"] = f"{path_.error[best]:.4g} ({path_.scoring}), the best of {len(path_.alpha)} tried"
    changed = {key: value for key, value in model.get_params().items() if _differs(model, key, value)}
    if changed:
        found["parameters"] = ", ".join(f"{key}={_short(value)}" for key, value in changed.items())
    found |= {f"{key} in fit": summary[key] for key in ("cv", "random_state") if key in summary}
    found["written by"] = f"corank {header['corank']}"
    found["file"] = size_of(path)
    return found


def _by(queries: Any, table: dict[str, Any]) -> str:
    if queries is None:
        return ""
    name = table.get("query")
    return f", {count(queries, 'query', 'queries')}" + (f" ({name})" if name else "")


def _features(model: Any) -> str:
    if model.encoder_ is not None:
        used = [column.name for column in model.encoder_.columns_ if not column.dropped]
        return f"{count(model.n_features_in_, 'number')} from {count(len(used), 'column')}: {_listed(used)}"
    names = getattr(model, "feature_names_in_", None)
    known = "columns without names" if names is None else _listed(list(names))
    return f"{count(model.n_features_in_, 'number')}: {known}"


def _listed(names: list[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _differs(model: Any, key: str, value: Any) -> bool:
    default = type(model)().get_params()[key]
    return not (type(value) is type(default) and value == default)


def _short(value: Any) -> str:
    words = " ".join(repr(value).split())
    return words if len(words) <= 60 else words[:59] + "…"
