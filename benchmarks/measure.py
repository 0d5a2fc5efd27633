"""How time, memory, the machine's rates and where time goes are measured, in the process that asks."""

from __future__ import annotations

import concurrent.futures
import ctypes
import gc
import linecache
import os
import resource
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Self, TypeVar

import numpy as np

import corank
from benchmarks.registry import MB, Rates

Key = TypeVar("Key")

# environment variable: set where processor time counts, not elapsed time
CLOCK = "CORANK_BENCHMARKS_PROCESSOR_TIME"
EXP_BLOCK = 2**15  # numbers, in and out: stays in the cache of a core
SAMPLE_SECONDS = 0.002
PROFILE_SECONDS = 0.3  # a short call is profiled again and again until this is spent
PROFILE_ROWS = 15
CORANK = str(Path(corank.__file__).parent)
# a thread whose innermost frame is in there waits for others
THREADING = {
    threading.__file__,
    *(str(path) for path in Path(concurrent.futures.__file__).parent.glob("*.py")),
}


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# ---------------------------------------------------------------- time


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """How long a call takes, and its result."""
    clock = time.perf_counter if os.environ.get(CLOCK) is None else processor_time
    gc.collect()
    begin = clock()
    result = call()
    return clock() - begin, result


def processor_time() -> float:
    """Seconds that processors have worked for this process and its children so far."""
    usages = [
        resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measured_rates(quick: bool = False) -> Rates:
    """What all cores can do in float64: the best of three of GEMM (4,000 x 4,000) and of exp on
    every core.
    """
    return Rates(
        gemm=_gemm_rate(400 if quick else 4000), exp=_exp_seconds(2**20 if quick else 2**26)
    )


def best_rates(*rates: Rates) -> Rates:
    """The fastest of several measurements: a bound must not profit from noise."""
    return Rates(gemm=max(rate.gemm for rate in rates), exp=min(rate.exp for rate in rates))


def _gemm_rate(size: int) -> float:
    rng = np.random.default_rng(0)
    left, right, out = rng.random((size, size)), rng.random((size, size)), np.empty((size, size))
    return 2 * size**3 / min(seconds(lambda: np.matmul(left, right, out=out))[0] for _ in range(3))


def _exp_seconds(count: int) -> float:
    threads = cores()
    rounds = max(1, count // (threads * EXP_BLOCK))

    def work(_: int) -> None:
        values = np.linspace(-4.0, 0.0, EXP_BLOCK)
        out = np.empty_like(values)
        for _ in range(rounds):
            np.exp(values, out=out)

    with ThreadPoolExecutor(threads) as pool:
        best = min(seconds(lambda: list(pool.map(work, range(threads))))[0] for _ in range(3))
    return best / (threads * rounds * EXP_BLOCK)


# ---------------------------------------------------------------- memory


def peak_memory_mb(call: Callable[[], Any]) -> float | None:
    """How far resident memory rises during a call above what it was just before; None where Linux
    is not.

    The kernel keeps the high-water mark; writing 5 to clear_refs sets it back. What the allocator
    kept from earlier work is handed back first, else the call could use it unseen.
    """
    gc.collect()
    with suppress(OSError, AttributeError):  # glibc only
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
        before = _status_kb("VmRSS")
        call()
        return max(0.0, (_status_kb("VmHWM") - before) * 1024 / MB)
    except OSError:
        return None


def _status_kb(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key + ":"))


# ---------------------------------------------------------------- where the time goes


class Sampler:
    """Looks every 2 ms where each Python thread stands, and gives it the time since the last look.

    cProfile sees neither other threads nor `@` and ufuncs, which are all that matters here. Threads
    that wait for others do not count; those inside BLAS count where they were called from.
    """

    def __init__(self) -> None:
        self.lines: dict[tuple[str, str, int], float] = defaultdict(
            float
        )  # file, function, line: the innermost of corank's
        self.functions: dict[tuple[str, str], float] = defaultdict(float)  # everything on the stack
        self.busy = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._root = sys._getframe(1)  # frames above it are not part of what is profiled

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        last = time.perf_counter()
        while not self._stop.wait(SAMPLE_SECONDS):
            now = time.perf_counter()
            for ident, frame in sys._current_frames().items():
                if ident != self._thread.ident and frame.f_code.co_filename not in THREADING:
                    self._note(frame, now - last)
            last = now

    def _note(self, frame: FrameType, elapsed: float) -> None:
        stack = []
        step: FrameType | None = frame
        while step is not None and step is not self._root:
            if step.f_code.co_filename not in THREADING:
                stack.append((step.f_code.co_filename, step.f_code.co_qualname, step.f_lineno))
            step = step.f_back
        if not stack:
            return
        self.busy += elapsed
        self.lines[next((place for place in stack if place[0].startswith(CORANK)), stack[0])] += (
            elapsed
        )
        for function in {place[:2] for place in stack}:
            self.functions[function] += elapsed

    def report(self) -> dict[str, list[str]]:
        """Shares of the threads' busy time: single lines, and functions with all they call."""
        total = self.busy or 1.0
        lines = [
            f"{spent / total:6.1%}  {_short(file)}:{line} {name}:"
            f" {linecache.getline(file, line).strip()}"
            for (file, name, line), spent in _largest(self.lines)
        ]
        functions = [
            f"{spent / total:6.1%}  {_short(file)} {name}"
            for (file, name), spent in _largest(self.functions)
        ]
        return {"lines": lines, "functions": functions}


def profile(call: Callable[[], Any]) -> dict[str, list[str]]:
    """Where the time of a call goes."""
    end = time.perf_counter() + PROFILE_SECONDS
    with Sampler() as sampler:
        call()
        while time.perf_counter() < end:
            call()
    return sampler.report()


def _largest(spent: dict[Key, float]) -> list[tuple[Key, float]]:
    return sorted(spent.items(), key=lambda item: -item[1])[:PROFILE_ROWS]


def _short(file: str) -> str:
    """A path from its package on."""
    parts = Path(file).parts
    for folder in ("site-packages", "src"):
        if folder in parts:
            return "/".join(parts[parts.index(folder) + 1 :])
    return "/".join(parts[-2:])
