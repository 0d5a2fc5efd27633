"""How time and memory grow: one quantity is doubled or tripled at a time, and the exponent of the
growth is measured.

    python -m benchmarks.growth [--quick] [--only NAME ...]

Every point is a process of its own on one thread. An exponent of 1 says that twice as much takes
twice as long; it is the slope of log time against log size over the larger half of the points,
where fixed costs show least. Time is processor time, which other processes disturb little. `theory`
is what the formulas of docs/mathematics.md say for large sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.machine import ROOT

QUERY_SIZE, N_COLUMNS, BASIS = 40, 20, 200


@dataclass(frozen=True)
class Growth:
    """One quantity: what is fitted at each of its sizes, and the exponents of time and memory that
    theory expects.
    """

    what: str
    sizes: tuple[int, ...]
    fit: Callable[[int], Callable[[], Any]]
    time: str
    memory: str


def _ranking(n: int, *, columns: int = N_COLUMNS, query_size: int = QUERY_SIZE) -> Any:
    from corank.datasets import make_ranking

    return make_ranking(max(1, n // query_size), query_size, columns, random_state=0)


def _rankrls(
    n: int, *, columns: int = N_COLUMNS, basis: int = BASIS, query_size: int = QUERY_SIZE
) -> Callable[[], Any]:
    from corank import RankRLS

    data = _ranking(n, columns=columns, query_size=query_size)
    chosen: Any = "all" if basis >= n else np.arange(basis)
    return lambda: RankRLS(1.0, gamma=1.0 / columns, basis=chosen).fit(data.X, data.y, qid=data.qid)


def _views(count: int) -> Callable[[], Any]:
    from corank import CoRankRLS, View

    data, unscored = (
        _ranking(2_000, columns=40),
        np.random.default_rng(1).standard_normal((100_000, 40)),
    )
    width = 40 // count
    views = [
        View(slice(v * width, (v + 1) * width), gamma=0.1, basis=np.arange(100))
        for v in range(count)
    ]
    model = CoRankRLS(views, 1.0, 0.01)
    qid = np.arange(len(unscored)) // QUERY_SIZE
    return lambda: model.fit(data.X, data.y, qid=data.qid, unscored=unscored, unscored_qid=qid)


def _auto(n: int) -> Callable[[], Any]:
    from corank import AutoRegressor

    data = _ranking(n, columns=10)
    return lambda: AutoRegressor().fit(data.X, data.y)


def _comparisons(count: int) -> Callable[[], Any]:
    from benchmarks.comparison_cases import make_comparisons, preference

    data = make_comparisons(2_000, count)
    return lambda: preference(data, gamma=2.0, amplitude=10.0, basis=100)


GROWTHS = {
    "rows": Growth(
        f"rows, basis of {BASIS}",
        (1_000, 10_000, 100_000, 300_000, 1_000_000),
        _rankrls,
        "n: 1",
        "0 (beside the rows)",
    ),
    "exact": Growth(
        "rows, all of them the basis",
        (1_000, 2_000, 4_000, 8_000),
        lambda n: _rankrls(n, basis=n),
        "n³: 3",
        "n²: 2",
    ),
    "basis": Growth(
        "basis rows, 50,000 rows",
        (100, 200, 400, 800, 1_600),
        lambda r: _rankrls(50_000, basis=r),
        "r²: 2",
        "r²: 2",
    ),
    "columns": Growth(
        "columns, 50,000 rows",
        (10, 50, 200, 800),
        lambda d: _rankrls(50_000, columns=d),
        "d: 1",
        "0 (beside the rows)",
    ),
    "queries": Growth(
        "queries of 100,000 rows",
        (100, 1_000, 10_000, 50_000),
        lambda q: _rankrls(100_000, query_size=100_000 // q),
        "0",
        "0",
    ),
    "views": Growth(
        "views of 100 basis rows, 100,000 unscored rows", (2, 4, 8), _views, "M²: 2", "M²: 2"
    ),
    "candidates": Growth("scores of AutoRegressor", (100, 200, 400), _auto, "n³: 3", "n²: 2"),
    "comparisons": Growth(
        "comparisons of 2,000 items", (2_000, 8_000, 32_000, 128_000), _comparisons, "N: 1", "N: 1"
    ),
}


def measure(name: str, size: int) -> dict[str, float]:
    """Processor time and additional peak memory (MB) of one fit, after a small one."""
    growth = GROWTHS[name]
    growth.fit(growth.sizes[0])()
    fit = growth.fit(size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    fit()
    spent = time.process_time() - begin
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": spent, "memory": (after - before) / 1024}


def slope(sizes: list[int], values: list[float]) -> float:
    """The exponent of growth over the larger half of the points."""
    begin = max(0, min(len(sizes) // 2, len(sizes) - 2))
    logs = np.log(np.maximum(values[begin:], 1e-3))
    return float(np.polyfit(np.log(sizes[begin:]), logs, 1)[0])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--only", nargs="*", choices=GROWTHS, default=list(GROWTHS))
    parser.add_argument("--quick", action="store_true", help="the two smallest sizes of each")
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.point is not None:
        print(json.dumps(measure(given.point[0], int(given.point[1]))))
        return 0
    print(
        "| what grows | sizes | seconds on one core | exponent, theory | measured | memory above"
        " the data (MB) | exponent, theory |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in given.only:
        growth = GROWTHS[name]
        sizes = list(growth.sizes[:2] if given.quick else growth.sizes)
        points = [_point(name, size) for size in sizes]
        exponent = slope(sizes, [point["seconds"] for point in points])
        cells = [
            growth.what,
            ", ".join(f"{size:,}" for size in sizes),
            ", ".join(f"{point['seconds']:.2g}" for point in points),
            growth.time,
            f"{exponent:.1f}",
            ", ".join(f"{point['memory']:.0f}" for point in points),
            growth.memory,
        ]
        print("| " + " | ".join(cells) + " |", flush=True)
    return 0


def _point(name: str, size: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.growth", "--point", name, str(size)]
    environment = os.environ | {
        f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")
    }
    output = subprocess.run(
        command, check=True, cwd=ROOT, capture_output=True, text=True, env=environment
    ).stdout
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found


if __name__ == "__main__":
    sys.exit(main())
