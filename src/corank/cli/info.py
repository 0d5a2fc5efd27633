"""`corank info`: what is installed."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer

from corank._version import __version__
from corank.cli.console import facts, show
from corank.cli.options import AsJson

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
