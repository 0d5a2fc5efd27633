"""`corank inspect`: what a model file holds, a sparse model atom by atom. `corank info`: what is
installed.
"""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from corank._version import __version__
from corank.cli.columns import features_of, remembered, text_columns, unlabelled_score
from corank.cli.console import readable, show, show_json
from corank.cli.options import AsJson, File, ModelFile, option
from corank.core.messages import in_bytes
from corank.describe import (
    Facts,
    columns_table,
    describe,
    encoding_of,
    in_words,
    learned_from_comparisons,
    widths_table,
    with_categories,
)
from corank.display import Table
from corank.model_files import load
from corank.model_files.container import read_model
from corank.tables import TableFile, query_column, score_column

if TYPE_CHECKING:
    from corank.interpretation import ColumnEffect

# parameters that a file names but does not keep
TRAINING_ONLY = ("cv", "random_state", "dictionary")
ATOM_FORMATS = {"weight": "+.4g", "added": ".1%", "left": ".1%", "held_out_error": ".4g"}
PACKAGES = ("numpy", "scipy", "scikit-learn", "pyarrow", "safetensors", "torch")
CPU_SIZE, GPU_SIZE = 1500, 4096  # rows of the matrices whose product is timed


def inspect(
    context: typer.Context,
    model: ModelFile,
    data: File = option(
        "Table with scores, such as that of the fit, to find out which columns matter."
    ),
    as_json: AsJson = False,
) -> None:
    """Show what a model is and how it was fitted; small models are shown item by item.

    With --data also which columns matter: by how much the error on held-out
    rows grows if a column is shuffled, and for which of its values
    predictions are high and low.
    """
    table = None if data is None else readable(context, data)
    contents = _contents(model)
    effects = [] if table is None else _effects(load(model), table)
    if effects:
        contents["column_effects"] = [
            {
                key: value.tolist() if isinstance(value, np.ndarray) else value
                for key, value in vars(effect).items()
            }
            for effect in effects
        ]
    if as_json:
        show_json(contents)
        return
    in_fit = {
        f"{name} in fit": contents[f"{name}_in_fit"]
        for name in TRAINING_ONLY
        if f"{name}_in_fit" in contents
    }
    file = {"written by": f"corank {contents['written_by']}", "file": in_bytes(contents["bytes"])}
    tables = [Table.of_facts(str(model), {**in_words(contents), **in_fit, **file})]
    if contents["encoding"] is not None:
        tables.append(columns_table(with_categories(contents["encoding"])))
    if contents["atoms"]:
        tables.append(_atoms_table(contents["atoms"]))
    tables += widths_table(contents)
    if effects:
        from corank.interpretation import effects_table  # slow to import

        tables.append(effects_table(effects))
    show(*tables)


def _effects(model: Any, file: TableFile) -> list[ColumnEffect]:
    """Which columns matter to a model of scores, by a table with scores."""
    from corank.interpretation import column_effects  # slow to import

    if learned_from_comparisons(model):
        raise ValueError(
            "--data is for models of scores; corank explain shows which columns matter to a model"
            " of comparisons"
        )
    score = remembered(model, "score")
    query = remembered(model, "query")
    if score is None:
        raise ValueError(
            "--data needs a model of corank fit: this one does not remember a score column"
        )
    table = file.read(text_columns(model, query))
    scores = score_column(table, score, unlabelled_score(model))
    labels = None if query is None else query_column(table, query)
    return column_effects(model, features_of(model, table), scores, qid=labels)


def _contents(path: Path) -> Facts:
    header, _ = read_model(path)
    summary = header["summary"]
    model = load(path)
    return {
        **describe(model),
        "encoding": None if model.encoder_ is None else encoding_of(model.encoder_),
        **{f"{name}_in_fit": summary[name] for name in TRAINING_ONLY if name in summary},
        "written_by": header["corank"],
        "bytes": path.stat().st_size,
    }


def _atoms_table(atoms: dict[str, list[Any]]) -> Table:
    columns = [
        ["" if value is None else format(value, ATOM_FORMATS.get(name, "")) for value in values]
        for name, values in atoms.items()
    ]
    head = [name.replace("_", " ") for name in atoms]
    numbers = [name.replace("_", " ") for name in ATOM_FORMATS]
    return Table("Atoms in order of entry", list(zip(*columns, strict=True)), head, numbers)


# ---- info


def info(as_json: AsJson = False) -> None:
    """Show versions, devices, and how fast the devices multiply matrices."""
    devices, speeds = _devices()
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    versions = {package: _installed_version(package) for package in PACKAGES}
    installed = {
        "corank": __version__,
        **versions,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": cores,
    }
    if as_json:
        show_json({**installed, "devices": devices, "gflops": speeds})
        return
    sentences = {
        name: "not installed" if value is None else str(value) for name, value in installed.items()
    }
    if versions["torch"] is None:
        sentences["torch"] += ": needed for GPUs only"
    products = ", ".join(f"{device} {speed:,.0f} GFLOP/s" for device, speed in speeds.items())
    sentences |= {"devices": ", ".join(devices), "matrix products": products}
    show(Table.of_facts("This installation", sentences))


def _installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices() -> tuple[list[str], dict[str, float]]:
    """Names of the devices, and what each does in a product of matrices in double precision, in
    GFLOP/s.
    """
    matrix = np.random.default_rng(0).random((CPU_SIZE, CPU_SIZE))
    names = ["CPU"]
    speeds = {"CPU": _speed(matrix)}
    try:
        import torch
    except ImportError:
        return names, speeds
    for at in range(torch.cuda.device_count()):
        memory = torch.cuda.get_device_properties(at).total_memory / 1e9
        names.append(f"{torch.cuda.get_device_name(at)} ({memory:.0f} GB)")
        tensor = torch.rand((GPU_SIZE, GPU_SIZE), dtype=torch.float64, device=f"cuda:{at}")
        speeds[f"cuda:{at}"] = _speed(tensor)
    return [*names, *(["Apple GPU"] if torch.backends.mps.is_available() else [])], speeds


def _speed(matrix: Any) -> float:
    began = 0.0
    for _ in range(2):  # the first product also loads libraries
        began = time.perf_counter()
        float((matrix @ matrix)[0, 0])  # a number on this side: the product is finished
    return round(2 * len(matrix) ** 3 / (time.perf_counter() - began) / 1e9, 1)
