"""What a site or a coordinator remembers across restarts: one small file, written whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from corank.tables import replacing

FORMAT = "corank-federated"


class StateError(ValueError):
    """A state file that cannot be used; says why and what to do."""


def write_state(path: Path, facts: dict[str, Any], arrays: dict[str, NDArray[np.float64]]) -> None:
    """Replace the state; a process killed meanwhile leaves the one before."""
    content = to_safetensors(
        {name: np.ascontiguousarray(array, dtype="<f8") for name, array in arrays.items()},
        metadata={FORMAT: json.dumps(facts, allow_nan=False)},
    )
    with replacing(path, overwrite=True) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read_state(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]] | None:
    """Facts and arrays; None where there is no file."""
    if not path.parent.is_dir():
        raise StateError(f"the folder {path.parent} for the state does not exist: create it first.")
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="np") as file:
            facts = json.loads((file.metadata() or {})[FORMAT])
            return facts, {name: np.asarray(file.get_tensor(name), dtype=np.float64) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise StateError(
            f"{path} is not the state of a federated run, or it is damaged: {error}; move it away to begin anew, "
            "with every round that a site has answered forgotten."
        ) from error
