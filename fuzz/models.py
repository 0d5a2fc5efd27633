"""Mutated model files, a third of them with a checksum that is right: refused in a sentence, or
finite numbers.

Those that load go through predict, update, suggest, summary and `describe`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from corank import AutoRanker, AutoRegressor, load
from corank.core.storable import ModelFileError
from corank.describe import describe, in_words
from corank.model_files.container import read_model, write_model
from fuzz.mutations import Rng, changed_array, changed_bytes, changed_json
from fuzz.watch import finding_of

STORED = Path(__file__).parent.parent / "tests" / "models"
N_ROWS, MAX_COLUMNS = 5, 10_000


def run(rng_seed: int, count: int) -> list[str]:
    """Findings of so many model files."""
    findings = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.corank"
        for seed in range(rng_seed, rng_seed + count):
            name = make(seed, path)
            for finding in examined(path, np.random.default_rng(seed)):
                findings.append(f"models {seed} ({name}): {finding}")
    return findings


def make(seed: int, path: Path) -> str:
    """Write the model file of a seed; gives the name of the file that was mutated."""
    rng = np.random.default_rng(seed)
    originals = _originals()
    name = sorted(originals)[int(rng.integers(len(originals)))]
    content, header, arrays = originals[name]
    if seed % 3:
        path.write_bytes(changed_bytes(rng, content))
        return name
    header = _copied(header)
    arrays = dict(arrays)
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.5 and arrays:
            key = sorted(arrays)[int(rng.integers(len(arrays)))]
            arrays[key] = changed_array(rng, arrays[key])
        else:
            header = changed_json(rng, header)
    try:
        write_model(path, header, arrays, overwrite=True)
    except (ValueError, TypeError):  # such a file cannot even be written
        path.write_bytes(changed_bytes(rng, content))
    return f"{name}, signed again"


def examined(path: Path, rng: Rng) -> list[str]:
    """Findings about one model file."""
    loaded: list[Any] = []
    finding = finding_of(lambda: loaded.append(load(path)), (ModelFileError,))
    if finding is not None:
        return [f"load: {finding}"]
    if not loaded:
        return []
    model = loaded[0]
    rows = _rows(model, rng)
    if rows is None:
        return []
    acts: dict[str, Any] = {
        "predict": lambda: _finite(model.predict(rows)),
        "summary": lambda: None if str(model.summary()) else "is empty",
        "inspect": lambda: None if in_words(describe(model)) else "is empty",
        "suggest": lambda: _suggested(model, rows),
        "update": lambda: _updated(model, rows, rng),
    }
    findings = {act: finding_of(function) for act, function in acts.items()}
    return [f"{act}: {finding}" for act, finding in findings.items() if finding is not None]


def _rows(model: Any, rng: Rng) -> Any:
    n_columns = int(model.n_features_in_)
    if n_columns > MAX_COLUMNS:
        return None
    if any(part.span.kernel.precomputed for part in _parts(model)):
        return None
    return rng.normal(size=(N_ROWS, n_columns))


def _parts(model: Any) -> Sequence[Any]:
    return model.function_.parts if hasattr(model, "function_") else ()


def _finite(values: Any) -> str | None:
    values = np.asarray(values, dtype=np.float64)
    return None if np.all(np.isfinite(values)) else f"predicts {values[~np.isfinite(values)][0]}"


def _suggested(model: Any, rows: Any) -> str | None:
    if not hasattr(model, "suggest"):
        return None
    asked = np.asarray(model.suggest(rows, 2))
    return (
        None
        if asked.size and np.all((asked >= 0) & (asked < len(rows)))
        else f"asks about row {asked}"
    )


def _updated(model: Any, rows: Any, rng: Rng) -> str | None:
    if not hasattr(model, "update"):
        return None
    options = {"qid": np.zeros(len(rows), dtype=np.int64)} if model._with_queries else {}
    model.update(rows, rng.normal(size=len(rows)), **options)
    return _finite(model.predict(rows))


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


@cache
def _originals() -> dict[str, tuple[bytes, dict[str, Any], dict[str, Any]]]:
    """Files of every kind of model: their bytes, header and arrays."""
    originals = {}
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        X, y, qid = rng.normal(size=(12, 3)), rng.normal(size=12), np.repeat([0, 1, 2], 4)
        AutoRanker().fit(X, y, qid=qid).save(Path(folder) / "AutoRanker.safetensors")
        AutoRegressor().fit(X, y).save(Path(folder) / "AutoRegressor.safetensors")
        for path in [*sorted(STORED.glob("**/*.safetensors")), *sorted(Path(folder).iterdir())]:
            header, arrays = read_model(path)
            header.pop("corank")
            originals[path.stem] = path.read_bytes(), header, arrays
    return originals
