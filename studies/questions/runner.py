"""Runs the jobs of a study with the machinery of corank.experiments, which keeps every finished one.

A result counts only for the sources it was made with, unless the caller takes any.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from corank.experiments.jobs import JobsFailed, Keep, run_jobs, shown_on, sources_of_corank, version_of, written
from studies.questions.study import Job, Options, Record, Result, Study

LIBRARIES = {  # learners that are not of corank
    "lightgbm": ("lightgbm",),
    "xgboost": ("xgboost-cpu", "xgboost"),
    "botorch": ("botorch",),
}
FitsFailed = JobsFailed


@dataclass(frozen=True)
class Ways:
    """How many processes; whether to leave kept results aside (fresh), or take them whatever the sources (reuse)."""

    processes: int = 1
    fresh: bool = False
    reuse: bool = False


def run_study(study: Study, options: Options, ways: Ways, folder: Path, console: Console) -> tuple[list[Record], int]:
    """The records of all jobs in their order, and how many of them were run now."""
    if not folder.exists():
        folder.mkdir(parents=True)
        (folder / ".gitignore").write_text("*\n")  # of what is kept git is told to know nothing
    jobs = study.jobs(options)
    keys = [_key(study.protocol, job, any_sources=ways.reuse) for job in jobs]
    keep = Keep(folder / study.name, fresh=ways.fresh)
    done, run_now = run_jobs(
        partial(_run, study.run),
        options,
        list(zip(keys, jobs, strict=True)),
        keep=keep,
        processes=ways.processes,
        progress=shown_on(console, study.name),
    )
    if not ways.reuse:  # what holds for these sources is also what is known whatever the sources
        for job, one in zip(jobs, done, strict=True):
            keep.write(_key(study.protocol, job, any_sources=True), one)
    records = [
        Record(job.draw, job.method.title, one.result["result"], one.seconds, one.warnings, one.result["sources"])
        for job, one in zip(jobs, done, strict=True)
    ]
    return records, run_now


def _run(run: object, options: Options, job: Job) -> Result:
    assert callable(run)
    return {"result": run(options, job), "sources": sources_of(job.method.learner)}


def _key(protocol: int, job: Job, *, any_sources: bool) -> str:
    """What a result depends on."""
    method = job.method
    sources = "any" if any_sources else sources_of(method.learner)
    return written([protocol, sources, job.draw, method.title, method.learner, dict(method.settings)])


def sources_of(learner: str) -> str:
    """The version of another library, or a digest of corank's own files."""
    return (version_of(*LIBRARIES[learner]) if learner in LIBRARIES else None) or sources_of_corank()
