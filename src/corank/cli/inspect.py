"""`corank inspect`: what a model file holds, and a sparse model atom by atom.

`corank info`: what is installed.
"""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from corank._version import __version__
from corank.cli.console import facts, grid, in_bytes, show
from corank.cli.options import AsJson, ModelFile
from corank.cli.show import columns_table, encoding_of, widths_table, with_categories
from corank.describe import describe, in_words

TRAINING_ONLY = ("cv", "random_state", "dictionary")  # parameters that a file names but does not keep


def inspect(
    model: ModelFile,
    as_json: AsJson = False,
) -> None:
    """Show what a model is, how it was fitted and, where it has few atoms, each of them."""
    found = _model(model)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    show(facts(str(model), _words(found)))
    if found["encoding"] is not None:
        show(columns_table(with_categories(found["encoding"])))
    if found.get("atoms"):
        show(_atoms(found["atoms"]))
    if isinstance(found.get("gamma"), list):
        show(*widths_table(found["gamma"], found["feature_names"]))


def _model(path: Path) -> dict[str, Any]:
    from corank.learners import load
    from corank.model_files.container import read_model

    header, _ = read_model(path)
    summary, model = header["summary"], load(path)
    return {
        **describe(model),
        "encoding": None if model.encoder_ is None else encoding_of(model.encoder_),
        **{f"{key}_in_fit": summary[key] for key in TRAINING_ONLY if key in summary},
        "written_by": header["corank"],
        "bytes": path.stat().st_size,
    }


def _words(found: dict[str, Any]) -> dict[str, str]:
    named = {f"{key} in fit": found[f"{key}_in_fit"] for key in TRAINING_ONLY if f"{key}_in_fit" in found}
    return {**in_words(found), **named, "written by": f"corank {found['written_by']}", "file": in_bytes(found["bytes"])}


def _atoms(table: dict[str, list[Any]]) -> Any:
    """The atoms in order of entry."""
    shown = {"weight": "+.4g", "added": ".1%", "left": ".1%", "held_out_error": ".4g"}
    grid_ = grid("Atoms in order of entry", [key.replace("_", " ") for key in table], right=[*shown, "held out error"])
    for line in zip(*table.values(), strict=True):
        cells = zip(table, line, strict=True)
        grid_.add_row(*(Text("" if cell is None else format(cell, shown.get(key, ""))) for key, cell in cells))
    return grid_


PACKAGES = ("numpy", "scipy", "scikit-learn", "pyarrow", "safetensors", "torch")


def info(as_json: AsJson = False) -> None:
    """Show what is installed."""
    found = _installed()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        show(facts("This installation", _in_words(found)))


def _installed() -> dict[str, Any]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "corank": __version__,
        **{package: _version(package) for package in PACKAGES},
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": cores,
        "devices": ["CPU", *_gpus()],
        "gflops": _products(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _gpus() -> list[str]:
    try:
        import torch
    except ImportError:
        return []
    names = [
        f"{torch.cuda.get_device_name(at)} ({torch.cuda.get_device_properties(at).total_memory / 1e9:.0f} GB)"
        for at in range(torch.cuda.device_count())
    ]
    return [*names, *(["Apple GPU"] if torch.backends.mps.is_available() else [])]


def _products() -> dict[str, float]:
    """Billions of operations a second in a product of matrices in double precision, as measured: device → number."""
    import time

    import numpy as np

    def rate(size: int, multiply: Any) -> float:
        multiply()
        began = time.perf_counter()
        multiply()
        return round(2 * size**3 / (time.perf_counter() - began) / 1e9, 1)

    matrix = np.random.default_rng(0).random((1500, 1500))
    found = {"CPU": rate(1500, lambda: matrix @ matrix)}
    try:
        import torch
    except ImportError:
        return found
    for at in range(torch.cuda.device_count()):
        tensor = torch.rand((4096, 4096), dtype=torch.float64, device=f"cuda:{at}")
        found[f"cuda:{at}"] = rate(4096, lambda own=tensor: float((own @ own)[0, 0]))
    return found


def _in_words(found: dict[str, Any]) -> dict[str, str]:
    words = {name: "not installed" if value is None else str(value) for name, value in found.items()}
    words["matrix products"] = ", ".join(f"{device} {rate:,.0f} GFLOP/s" for device, rate in found["gflops"].items())
    del words["gflops"]
    if found["torch"] is None:
        words["torch"] += ": needed for GPUs only"
    return {**words, "devices": ", ".join(found["devices"])}
