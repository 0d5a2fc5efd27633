"""Runs many independent jobs, several processes at a time with BLAS on one thread each, and keeps
every finished one.

A finished job is one small JSON file, written whole or not at all, under a name that follows from
everything its result depends on: an interrupted run goes on where it stopped. What a job computes
is the caller's business.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import scipy.linalg  # noqa: F401  (its BLAS must be loaded before threads are limited)
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from threadpoolctl import threadpool_limits

import corank
from corank.display import silence
from corank.tables import replacing

# shared data, a job → a result that JSON can hold
Run: TypeAlias = Callable[[Any, Any], dict[str, Any]]
Advance: TypeAlias = Callable[[], None]
_shared: dict[str, Any] = {}  # data of a process that runs jobs: sent once, not with every job


class JobsFailed(RuntimeError):
    """Some jobs raised an exception; the others are kept."""


@dataclass(frozen=True)
class Done:
    """A finished job: its result, seconds, warnings, and the peak memory of its process in bytes."""

    result: dict[str, Any]
    seconds: float
    warnings: tuple[str, ...]
    memory: int


@dataclass(frozen=True)
class Keep:
    """A folder of finished jobs.

    fresh : those of earlier runs do not count
    is_whole : whether a result has what the caller will ask of it; others do not count
    """

    folder: Path
    fresh: bool = False
    is_whole: Callable[[dict[str, Any]], bool] = bool

    def path(self, key: str) -> Path:
        """The file of the job with this key."""
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"

    def read(self, key: str) -> Done | None:
        """A finished job, or None: not there, damaged, or of another key."""
        try:
            entry = json.loads(self.path(key).read_text(encoding="utf-8"))
            done = entry["done"]
            is_own = entry["key"] == key and entry["digest"] == _digest(done)
            if not is_own or not isinstance(done["result"], dict):
                return None
            if not self.is_whole(done["result"]):
                return None
            return Done(
                done["result"],
                float(done["seconds"]),
                tuple(map(str, done["warnings"])),
                int(done["memory"]),
            )
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def write(self, key: str, done: Done) -> None:
        """One file, whole or not at all."""
        if not self.folder.exists():
            self.folder.mkdir(parents=True)
            (self.folder / ".gitignore").write_text("*\n")
        entry = json.loads(json.dumps(asdict(done)))
        with replacing(self.path(key), overwrite=True) as file:
            file.write(json.dumps({"key": key, "digest": _digest(entry), "done": entry}).encode())


def _digest(done: Any) -> str:
    """Tells whether a file was damaged."""
    return hashlib.sha256(json.dumps(done, sort_keys=True).encode()).hexdigest()[:16]


def attempt_jobs(
    run: Run,
    shared: Any,
    jobs: Sequence[tuple[str, Any]],
    *,
    keep: Keep | None,
    processes: int = 1,
    progress: Callable[[int, int], Any] | None = None,
) -> tuple[dict[str, tuple[Done, bool]], dict[str, str]]:
    """By key: every finished job, with whether it ran now, and the error of every other job.

    Parameters
    ----------
    run : function of a module, called with `shared` and a job; the only part that computes
    shared : data that all jobs need, sent to each process once
    jobs : pairs of a key, which names everything the result depends on, and the job
    keep : where finished jobs are kept and looked for
    processes : number of processes; 1 works in this process
    progress : called with the number of jobs and of those that are there already; gives a context
        of an `advance`
    """
    finished: dict[str, tuple[Done, bool]] = {}
    if keep is not None and not keep.fresh:
        finished = {key: (done, False) for key, _ in jobs if (done := keep.read(key)) is not None}
    missing = [(key, job) for key, job in jobs if key not in finished]
    failures: dict[str, str] = {}
    bar = progress(len(jobs), len(jobs) - len(missing)) if progress else nullcontext(lambda: None)
    with bar as advance:
        for key, outcome in _outcomes(run, shared, missing, processes):
            if isinstance(outcome, Done):
                if keep is not None:
                    keep.write(key, outcome)
                finished[key] = (outcome, True)
            else:
                failures[key] = outcome
            advance()
    return finished, failures


def _outcomes(
    run: Run, shared: Any, jobs: Sequence[tuple[str, Any]], processes: int
) -> Iterator[tuple[str, Done | str]]:
    """The key of every job with its result or its error, in the order in which jobs finish."""
    if processes == 1 or len(jobs) < 2:
        with threadpool_limits(limits=1):
            for key, job in jobs:
                yield key, _attempt(run, shared, job)
        return
    pool = ProcessPoolExecutor(
        min(processes, len(jobs)),
        multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(shared,),
    )
    try:
        keys: dict[Future[Done | str], str] = {
            pool.submit(_attempt_shared, run, job): key for key, job in jobs
        }
        for future in as_completed(keys):
            yield keys.pop(future), future.result()
    except BrokenProcessPool as error:
        raise JobsFailed(
            "a process was ended from outside, perhaps for want of memory: try fewer --jobs"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(shared: Any) -> None:
    """Prepare a process for its jobs: one BLAS thread, and an end when the parent ends or is
    interrupted.
    """
    threadpool_limits(limits=1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _shared["data"] = shared


def _end_with_parent() -> None:
    """End this process when its parent was killed. (joblib's workers live on then.)"""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _attempt_shared(run: Run, job: Any) -> Done | str:
    return _attempt(run, _shared["data"], job)


def _attempt(run: Run, shared: Any, job: Any) -> Done | str:
    """Run a job and record its time and warnings."""
    with warnings.catch_warnings(record=True) as caught, silence():
        warnings.simplefilter("always")
        begin = time.perf_counter()
        try:
            result = run(shared, job)
        except Exception as error:  # noqa: BLE001  (a fit that fails must not end the others)
            return f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - begin
    messages = {f"{warning.category.__name__}: {warning.message}" for warning in caught}
    return Done(result, round(seconds, 4), tuple(sorted(messages)), _peak_memory())


def _peak_memory() -> int:
    """Peak memory of this process in bytes; 0 where the system does not report it."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit


def written(value: Any) -> str:
    """A key: the same value gives the same text in every process, so memory addresses are left out."""
    return json.dumps(
        value, sort_keys=True, default=lambda other: re.sub(r" at 0x[0-9a-fA-F]+", "", repr(other))
    )


@cache
def sources_of_corank() -> str:
    """A digest of corank's own files; its command line and its pictures play no part."""
    root = Path(corank.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] not in ("cli", "report"):
            digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return f"corank {digest.hexdigest()[:12]}"


@cache
def version_of(*names: str) -> str | None:
    """Name and version of the first of these distributions that is installed."""
    for name in names:
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


# ---------------------------------------------------------------- progress


def shown_on(console: Console, name: str) -> Callable[[int, int], Any]:
    """A bar on a terminal; elsewhere one line at every tenth."""

    @contextmanager
    def progress(total: int, done: int) -> Iterator[Advance]:
        if console.is_terminal:
            description = TextColumn("{task.description}")
            counts = MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
            with Progress(
                description, BarColumn(), *counts, console=console, transient=True
            ) as bar:
                task = bar.add_task(name, total=total, completed=done)
                yield lambda: bar.advance(task)
            return
        count = done
        begin = time.perf_counter()

        def print_tenths() -> None:
            nonlocal count
            count += 1
            if count * 10 // total > (count - 1) * 10 // total:
                console.print(
                    f"{name}: {count} of {total}, {time.perf_counter() - begin:.0f} s",
                    highlight=False,
                )

        yield print_tenths

    return progress
