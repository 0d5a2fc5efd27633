"""Runs the jobs of a study, several processes at a time with BLAS on one thread each, and keeps every finished one.

Kept results stand in a file of JSON lines, so that an interrupted run goes on where it stopped. A result counts only
for the sources it was made with, unless the caller takes any.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import multiprocessing
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import scipy.linalg  # noqa: F401  (its BLAS must be loaded before threads are limited)
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from threadpoolctl import threadpool_limits

import corank
from benchmarks.studies.study import Job, Options, Record, Result, Study

Run = Callable[[Options, Job], Result]
LIBRARIES = {  # learners that are not of corank
    "lightgbm": ("lightgbm",),
    "xgboost": ("xgboost-cpu", "xgboost"),
    "botorch": ("botorch",),
}


class FitsFailed(RuntimeError):
    """Some fits raised an exception; the others are kept."""


@dataclass(frozen=True)
class Ways:
    """How many processes; whether to leave kept results aside (fresh), or take them whatever the sources (reuse)."""

    processes: int = 1
    fresh: bool = False
    reuse: bool = False


def run_study(study: Study, options: Options, ways: Ways, folder: Path, console: Console) -> tuple[list[Record], int]:
    """The records of all jobs in their order, and how many of them were run now."""
    jobs = study.jobs(options)
    kept = Kept(folder / f"{study.name}.jsonl", study.protocol)
    found = {} if ways.fresh else kept.read(any_sources=ways.reuse)
    missing = [job for job in jobs if kept.key(job) not in found]
    failures = []
    with _progress(console, study.name, len(jobs), len(jobs) - len(missing)) as advance:
        for job, outcome in _outcomes(study.run, options, missing, ways.processes):
            if isinstance(outcome, Record):
                kept.add(job, outcome)
                found[kept.key(job)] = outcome
            else:
                failures.append(f"{job.method.title} on {job.draw}: {outcome}")
            advance()
    if failures:
        raise FitsFailed(f"{len(failures)} of {len(jobs)} fits failed:\n" + "\n".join(failures))
    return [found[kept.key(job)] for job in jobs], len(missing)


# ---------------------------------------------------------------- computing


def _outcomes(run: Run, options: Options, jobs: Sequence[Job], processes: int) -> Iterator[tuple[Job, Record | str]]:
    """Every job with its record or what went wrong, as they finish."""
    if processes == 1:
        with threadpool_limits(limits=1):
            for job in jobs:
                yield job, _attempt(run, options, job, sources_of(job.method.learner))
        return
    pool = ProcessPoolExecutor(
        min(processes, max(1, len(jobs))), multiprocessing.get_context("spawn"), initializer=_one_thread
    )
    try:
        waiting: dict[Future[Record | str], Job] = {
            pool.submit(_attempt, run, options, job, sources_of(job.method.learner)): job for job in jobs
        }
        for future in as_completed(waiting):
            yield waiting.pop(future), future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _one_thread() -> None:
    """For the life of a process, which an interruption ends without many words."""
    threadpool_limits(limits=1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _attempt(run: Run, options: Options, job: Job, made_with: str) -> Record | str:
    """Run a job, noting how long it took and what it was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begin = time.perf_counter()
        try:
            result = run(options, job)
        except Exception as error:  # noqa: BLE001  (a fit that fails must not end the others)
            return f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - begin
    told = tuple(sorted({f"{warning.category.__name__}: {warning.message}" for warning in caught}))
    return Record(job.draw, job.method.title, result, round(seconds, 4), told, made_with)


# ---------------------------------------------------------------- keeping


class Kept:
    """Finished jobs in a file of JSON lines, of which git is told to know nothing."""

    def __init__(self, path: Path, protocol: int) -> None:
        self.path = path
        self.protocol = protocol

    def key(self, job: Job) -> str:
        """What a result depends on, besides the sources."""
        return _written([self.protocol, job.draw, job.method.title, job.method.learner, dict(job.method.settings)])

    def read(self, *, any_sources: bool) -> dict[str, Record]:
        """Key → record; of several the last."""
        found: dict[str, Record] = {}
        if not self.path.exists():
            return found
        for line in self.path.read_text().splitlines():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue  # cut off when a run was killed
            record = Record(**{**entry["record"], "draw": tuple(entry["record"]["draw"])})
            if any_sources or record.sources == sources_of(entry["learner"]):
                found[entry["key"]] = record
        return found

    def add(self, job: Job, record: Record) -> None:
        """Write one line, at once."""
        folder = self.path.parent
        if not folder.exists():
            folder.mkdir(parents=True)
            (folder / ".gitignore").write_text("*\n")
        entry = {"key": self.key(job), "learner": job.method.learner, "record": asdict(record)}
        with self.path.open("a") as file:
            file.write("\n" + _written(entry))  # a line of its own, even after one that was cut off


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@cache
def sources_of(learner: str) -> str:
    """The version of another library, or a digest of corank's own files; its command line plays no part."""
    for name in LIBRARIES.get(learner, ()):
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    root = Path(corank.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] != "cli":
            digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return f"corank {digest.hexdigest()[:12]}"


# ---------------------------------------------------------------- progress


@contextmanager
def _progress(console: Console, name: str, total: int, done: int) -> Iterator[Callable[[], None]]:
    """A bar on a terminal; elsewhere a line at every tenth."""
    if console.is_terminal:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(name, total=total, completed=done)
            yield lambda: bar.advance(task)
        return
    count, begin = done, time.perf_counter()

    def tell() -> None:
        nonlocal count
        count += 1
        if count * 10 // total > (count - 1) * 10 // total:
            console.print(f"{name}: {count} of {total}, {time.perf_counter() - begin:.0f} s", highlight=False)

    yield tell
