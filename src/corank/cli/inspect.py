"""`corank inspect`: what a model file holds, and a sparse model atom by atom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from corank.cli.console import facts, grid, in_bytes, show
from corank.cli.encoded import columns_table, encoding_of, with_categories
from corank.cli.evidence import widths_table
from corank.cli.options import AsJson, ModelFile
from corank.description import describe
from corank.summary import in_words

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
    from corank.persistence import read_model

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
