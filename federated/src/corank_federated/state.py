"""What a site or a coordinator remembers across restarts: one small file, written whole or not at
all.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from corank.model_files.container import checksum
from corank.tables import replacing

STATE_FORMAT = "corank-federated"


class StateError(ValueError):
    """A state file that cannot be used; says why and what to do."""


def write_state(path: Path, facts: dict[str, Any], arrays: dict[str, NDArray[np.float64]]) -> None:
    """Replace the state, which its owner alone can read; a process killed meanwhile leaves the one
    before.
    """
    text = json.dumps(facts, allow_nan=False)
    numbers = {name: np.ascontiguousarray(array, dtype="<f8") for name, array in arrays.items()}
    content = to_safetensors(
        numbers, metadata={STATE_FORMAT: text, "sha256": checksum(text, numbers)}
    )
    with replacing(path, overwrite=True, private=True) as file:
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
            metadata = file.metadata() or {}
            text = metadata[STATE_FORMAT]
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        facts = json.loads(text)
        if metadata.get("sha256") != checksum(text, arrays):
            old = "sha256" not in metadata
            raise ValueError(
                "it has no checksum, as those of corank 0.1"
                if old
                else "it does not match its checksum"
            )
        if not isinstance(facts, dict) or any(
            array.dtype != np.float64 for array in arrays.values()
        ):
            raise ValueError("it holds something else")
    except (
        SafetensorError,
        OSError,
        KeyError,
        ValueError,
        TypeError,
        RecursionError,
        MemoryError,
    ) as error:
        raise StateError(
            f"{path} is not the state of a federated run, or it is damaged: {error}; move it away"
            " to begin anew, with every round that a site has answered forgotten."
        ) from error
    return facts, arrays
