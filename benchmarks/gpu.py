"""corank on one GPU: `python -m benchmarks.gpu [NAME ...]`. Absolute times: they hold on the machine they name."""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

QUERY, FEATURES, BASIS = 20, 25, 1_000
CASES: dict[str, Callable[[Any, bool], dict[str, Any]]] = {}


def case(run: Callable[[Any, bool], dict[str, Any]]) -> Callable[[Any, bool], dict[str, Any]]:
    """Put a case on the list under its name."""
    CASES[run.__name__.replace("_", "-")] = run
    return run


def timed(torch: Any, run: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """The best of so many times, and the last result."""
    best, result = np.inf, None
    for _ in range(repeats):
        torch.cuda.synchronize()
        began = time.perf_counter()
        result = run()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
    return best, result


def scored_rows(torch: Any, n: int = 2_000) -> tuple[Any, Any, Any]:
    """n scored rows of two views, in queries of 20."""
    generator = torch.Generator("cuda").manual_seed(1)
    X = torch.randn((n, 2 * FEATURES), generator=generator, device="cuda", dtype=torch.float64)
    y = torch.sin(X[:, 0]) + X[:, FEATURES]
    return X, y, torch.arange(n, device="cuda") // QUERY


def two_views() -> list[Any]:
    from corank import View

    gamma = 1 / FEATURES
    return [View(slice(0, FEATURES), gamma=gamma), View(slice(FEATURES, None), gamma=gamma)]


def agreeing(torch: Any, quick: bool, qid_of: Callable[[int], Any], **parameters: Any) -> dict[str, Any]:
    """CoRankRLS with unscored rows on the device."""
    from corank import CoRankRLS

    n, r = (200_000, 100) if quick else (10_000_000, BASIS)
    X, y, qid = scored_rows(torch)
    generator = torch.Generator("cuda").manual_seed(2)
    unscored = torch.randn((n, 2 * FEATURES), generator=generator, device="cuda", dtype=torch.float64)
    queries = qid_of(n)
    model = CoRankRLS(two_views(), basis=r, **parameters)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    seconds, _ = timed(torch, lambda: model.fit(X, y, qid=qid, unscored=unscored, unscored_qid=queries))
    flops = n * 2 * r * (2 * r + 2 * FEATURES)
    return {
        "rows": n,
        "basis": r,
        "seconds": seconds,
        "tflops": flops / seconds / 1e12,
        "gpu_memory_gb": (torch.cuda.max_memory_allocated() - before) / 1e9,
    }


FIXED = {"alpha": 1.0, "agreement": 1e-4}


@case
def contiguous(torch: Any, quick: bool) -> dict[str, Any]:
    """Unscored queries of 20, alpha and agreement fixed."""
    return agreeing(torch, quick, lambda n: torch.arange(n, device="cuda") // QUERY, **FIXED)


@case
def ragged(torch: Any, quick: bool) -> dict[str, Any]:
    """Unscored queries of 1 to 39 rows."""

    def queries(n: int) -> Any:
        generator = torch.Generator("cuda").manual_seed(3)
        sizes = torch.randint(1, 2 * QUERY, (n // 10,), generator=generator, device="cuda")
        return torch.repeat_interleave(torch.arange(len(sizes), device="cuda"), sizes)[:n]

    return agreeing(torch, quick, queries, **FIXED)


@case
def tuned(torch: Any, quick: bool) -> dict[str, Any]:
    """alpha and agreement chosen by held-out error."""
    return agreeing(torch, quick, lambda n: torch.arange(n, device="cuda") // QUERY)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("names", nargs="*", help=", ".join(CASES))
    parser.add_argument("--quick", action="store_true", help="sizes that take no time")
    parser.add_argument("--profile", action="store_true", help="say where the time goes")
    parser.add_argument("--out", type=Path, help="JSON to write")
    given = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        parser.error("there is no CUDA device here.")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    found: dict[str, Any] = {
        "machine": {
            "gpu": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "commit": commit.stdout.strip(),
        }
    }
    for name in given.names or CASES:
        CASES[name](torch, True)  # what happens once in a process
        torch.cuda.empty_cache()
        if given.profile:
            _profile(torch, name, given.quick)
        else:
            found[name] = CASES[name](torch, given.quick)
            print(name, json.dumps(found[name]), flush=True)
        torch.cuda.empty_cache()
    if given.out:
        given.out.write_text(json.dumps(found, indent=1))


def _profile(torch: Any, name: str, quick: bool) -> None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        CASES[name](torch, quick)
    print(seen.key_averages().table(sort_by="cuda_time_total", row_limit=25, max_name_column_width=60))


if __name__ == "__main__":
    main()
