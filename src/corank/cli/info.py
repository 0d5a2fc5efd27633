"""`corank info`: what is installed."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

from corank.cli.console import facts, show

PACKAGES = ("corank", "numpy", "scipy", "scikit-learn", "pyarrow", "safetensors", "torch")


def info(as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False) -> None:
    """Show what is installed."""
    found = _installed()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        show(facts("This installation", _in_words(found)))


def _installed() -> dict[str, Any]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        **{package: _version(package) for package in PACKAGES},
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": cores,
        "devices": ["CPU", *_gpus()],
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
    names = [torch.cuda.get_device_name(at) for at in range(torch.cuda.device_count())]
    return [*names, *(["Apple GPU"] if torch.backends.mps.is_available() else [])]


def _in_words(found: dict[str, Any]) -> dict[str, str]:
    words = {name: "not installed" if value is None else str(value) for name, value in found.items()}
    if found["torch"] is None:
        words["torch"] += ": needed for GPUs only"
    return {**words, "devices": ", ".join(found["devices"])}
