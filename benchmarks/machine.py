"""The machine, the versions and the state of the sources that results belong to."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

from benchmarks.measure import cores

ROOT = Path(__file__).parents[1]
LIBRARIES = (
    "corank",
    "numpy",
    "scipy",
    "scikit-learn",
    "lightgbm",
    "xgboost",
    "xgboost-cpu",
    "rlscore",
    "torch",
    "botorch",
    "gpytorch",
)
RESULTS = "benchmarks/results"


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "cpu": _cpu(),
        "cores": cores(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {
            name: version for name in LIBRARIES if (version := _version(name)) is not None
        },
        "blas": _blas(),
    }


def sources() -> dict[str, Any]:
    """The commit, and whether anything but results differs from it; None where there is no git."""
    commit = _git("rev-parse", "HEAD")
    changes = _git("status", "--porcelain", "--", ".", f":(exclude){RESULTS}")
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}


def file_name(machine: dict[str, Any], sources: dict[str, Any]) -> str:
    """One file a machine and commit."""
    commit = (sources["commit"] or "unknown")[:9] + ("-dirty" if sources["dirty"] else "")
    cpu = re.sub(r"[^a-z0-9]+", "-", machine["cpu"].lower()).strip("-")
    return f"{cpu}-{machine['cores']}-cores-{commit}.json"


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), flags=re.MULTILINE)
        if found:
            return found.group(1)
    return platform.processor() or platform.machine()


def _blas() -> list[str]:
    """Every BLAS that is loaded, with its threads: NumPy and SciPy bring one each."""
    import scipy.linalg  # noqa: F401

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return sorted(
        f"{pool['internal_api']} {pool['version']} ({pool.get('architecture', '?')}),"
        f" {pool['num_threads']} threads"
        for pool in pools
    )


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
