"""corank on one GPU: `python -m benchmarks.gpu [NAME ...]`. Absolute times: they hold on the
machine they name.
"""

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


def agreeing(
    torch: Any, quick: bool, qid_of: Callable[[int], Any], **parameters: Any
) -> dict[str, Any]:
    """CoRankRLS with unscored rows on the device."""
    from corank import CoRankRLS

    n, r = (200_000, 100) if quick else (10_000_000, BASIS)
    X, y, qid = scored_rows(torch)
    generator = torch.Generator("cuda").manual_seed(2)
    unscored = torch.randn(
        (n, 2 * FEATURES), generator=generator, device="cuda", dtype=torch.float64
    )
    queries = qid_of(n)
    model = CoRankRLS(two_views(), basis=r, **parameters)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    seconds, _ = timed(
        torch, lambda: model.fit(X, y, qid=qid, unscored=unscored, unscored_qid=queries)
    )
    flops = n * 2 * r * (2 * r + 2 * FEATURES)
    return {
        "rows": n,
        "basis": r,
        "seconds": seconds,
        "tflops": flops / seconds / 1e12,
        "gpu_memory_gb": (torch.cuda.max_memory_allocated() - before) / 1e9,
    }


FIXED: dict[str, Any] = {"alpha": 1.0, "agreement": 1e-4}


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


class Made:
    """Chunks of unscored rows made on the device, the same whenever they are read."""

    def __init__(self, torch: Any, n: int, size: int) -> None:
        self.torch, self.n, self.size = torch, n, size

    def __iter__(self) -> Any:
        torch = self.torch
        for begin in range(0, self.n, self.size):
            count = min(self.size, self.n - begin)
            generator = torch.Generator("cuda").manual_seed(begin)
            X = torch.randn(
                (count, 2 * FEATURES), generator=generator, device="cuda", dtype=torch.float32
            )
            yield X, (torch.arange(count, device="cuda") + begin) // QUERY


def capacity(torch: Any, n: int) -> dict[str, Any]:
    """CoRankRLS on n unscored rows that come in chunks made on the device."""
    from corank import CoRankRLS

    X, y, qid = scored_rows(torch)
    model = CoRankRLS(two_views(), basis=BASIS, **FIXED)
    torch.cuda.reset_peak_memory_stats()
    seconds, _ = timed(
        torch, lambda: model.fit(X, y, qid=qid, unscored=Made(torch, n, 2_000_000)), 1
    )
    flops = n * 2 * BASIS * (2 * BASIS + 2 * FEATURES)
    peak = torch.cuda.max_memory_allocated() / 2**30
    return {"rows": n, "seconds": seconds, "tflops": flops / seconds / 1e12, "gpu_memory_gib": peak}


@case
def million(torch: Any, quick: bool) -> dict[str, Any]:
    """1,000,000 rows in chunks made on the device."""
    return capacity(torch, 100_000 if quick else 1_000_000)


@case
def ten_million(torch: Any, quick: bool) -> dict[str, Any]:
    """10,000,000 rows in chunks made on the device."""
    return capacity(torch, 100_000 if quick else 10_000_000)


@case
def hundred_million(torch: Any, quick: bool) -> dict[str, Any]:
    """100,000,000 rows in chunks made on the device."""
    return capacity(torch, 100_000 if quick else 100_000_000)


@case
def billion(torch: Any, quick: bool) -> dict[str, Any]:
    """1,000,000,000 rows in chunks made on the device."""
    return capacity(torch, 100_000 if quick else 1_000_000_000)


@case
def parquet(torch: Any, quick: bool) -> dict[str, Any]:
    """Unscored rows from Parquet files through `scan(..., device="cuda")`: the whole fit, beside
    reading them alone.
    """
    import tempfile

    import pyarrow as pa
    from pyarrow import parquet as files

    from corank import CoRankRLS, scan

    n, r, parts = (100_000, 100, 2) if quick else (10_000_000, BASIS, 10)
    X, y, qid = scored_rows(torch)
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        for part in range(parts):
            values = rng.standard_normal((n // parts, 2 * FEATURES), dtype=np.float32)
            columns = {f"x{at:02d}": values[:, at] for at in range(2 * FEATURES)}
            queries = (np.arange(n // parts) + part * (n // parts)) // QUERY
            files.write_table(pa.table({**columns, "q": queries}), f"{folder}/{part:02d}.parquet")
        rows = scan(folder, query="q", device="cuda")
        reading, _ = timed(torch, lambda: sum(chunk.n_rows for chunk in rows.chunks()), 2)
        model = CoRankRLS(two_views(), basis=r, **FIXED)
        seconds, _ = timed(torch, lambda: model.fit(X, y, qid=qid, unscored=rows), 2)
    return {"rows": n, "seconds": seconds, "one_reading": reading, "readings": 2}


@case
def exact(torch: Any, quick: bool) -> dict[str, Any]:
    """Exact RankRLS on 30,000 rows at one alpha, beside the Cholesky factor of a matrix of that
    size.
    """
    from corank import RankRLS

    n = 2_000 if quick else 30_000
    X, y, qid = scored_rows(torch, n)
    model = RankRLS(alpha=1.0, gamma=1 / FEATURES, basis="all")
    seconds, _ = timed(torch, lambda: model.fit(X, y, qid=qid), 2)
    matrix = torch.eye(n, device="cuda", dtype=torch.float64) * 2 + 1.0 / n
    cholesky, _ = timed(torch, lambda: torch.linalg.cholesky(matrix), 2)
    return {"rows": n, "seconds": seconds, "cholesky": cholesky, "times": seconds / cholesky}


@case
def components(torch: Any, quick: bool) -> dict[str, Any]:
    """KPCRank on 20,000 rows, 200 components, beside the eigendecomposition of the kernel matrix."""
    from corank import KPCRank

    n = 1_000 if quick else 20_000
    X, y, qid = scored_rows(torch, n)
    model = KPCRank(n_components=20 if quick else 200, gamma=1 / FEATURES, basis="all")
    seconds, _ = timed(torch, lambda: model.fit(X, y, qid=qid), 2)
    kernel = torch.exp(-(torch.cdist(X, X) ** 2) / FEATURES)
    eigh, _ = timed(torch, lambda: torch.linalg.eigh(kernel), 1)
    return {"rows": n, "seconds": seconds, "eigh": eigh, "times": seconds / eigh}


@case
def pursuit(torch: Any, quick: bool) -> dict[str, Any]:
    """RankingPursuit, 100 atoms out of 50,000 rows."""
    from corank import RankingPursuit

    n = 1_000 if quick else 50_000
    X, y, qid = scored_rows(torch, n)
    model = RankingPursuit(n_atoms=10 if quick else 100, gamma=1 / FEATURES)
    seconds, _ = timed(torch, lambda: model.fit(X, y, qid=qid), 1)
    return {"rows": n, "seconds": seconds}


@case
def predict(torch: Any, quick: bool) -> dict[str, Any]:
    """Predictions of 1,000 kernels for 10,000,000 rows, beside the time of their products and
    exponentials.
    """
    from corank import RankRLS

    n, r = (100_000, 100) if quick else (10_000_000, BASIS)
    X, y, qid = scored_rows(torch, 20_000)
    model = RankRLS(alpha=1.0, gamma=1 / FEATURES, basis=r).fit(X, y, qid=qid)
    new = torch.randn((n, 2 * FEATURES), device="cuda", dtype=torch.float64)
    seconds, _ = timed(torch, lambda: model.predict(new))
    left = torch.randn((100_000, 2 * FEATURES), device="cuda", dtype=torch.float64)
    right = torch.randn((2 * FEATURES, r), device="cuda", dtype=torch.float64)
    product, values = timed(torch, lambda: left @ right, 5)
    exps, _ = timed(torch, lambda: values.exp_(), 5)
    bound = (product + exps) * n / 100_000
    return {"rows": n, "seconds": seconds, "bound": bound, "share": bound / seconds}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("names", nargs="*", help=", ".join(CASES))
    parser.add_argument("--quick", action="store_true", help="sizes that take no time")
    parser.add_argument("--profile", action="store_true", help="say where the time goes")
    parser.add_argument("--commit", help="of the sources, where git does not know it")
    parser.add_argument("--out", type=Path, help="JSON to write")
    given = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        parser.error("there is no CUDA device here.")
    if given.commit is None:
        head = ["git", "rev-parse", "--short", "HEAD"]
        given.commit = subprocess.run(
            head, capture_output=True, text=True, check=False
        ).stdout.strip()
    found: dict[str, Any] = {
        "machine": {
            "gpu": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "commit": given.commit,
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
    print(
        seen.key_averages().table(sort_by="cuda_time_total", row_limit=25, max_name_column_width=60)
    )


if __name__ == "__main__":
    main()
