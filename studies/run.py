"""Runs a study: its parts over several processes, every finished one kept, and then what they say
together.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from corank.experiments.jobs import (
    Done,
    JobsFailed,
    Keep,
    attempt_jobs,
    sources_of_corank,
    version_of,
    written,
)
from studies.study import Outcome, Part, Result, Settings, Study

Progress = Callable[[int, int], Any]
# files of this folder that no result depends on
NO_RESULTS = ("tests", "write.py", "verdicts.py", "__main__.py")


@dataclass(frozen=True)
class Ways:
    """How the parts are computed; the numbers are the same in every way.

    processes : parts at a time; more than one starts processes: call it under ``if __name__ ==
        "__main__":`` then
    keep : folder where finished parts are kept and looked for
    fresh : leave kept parts aside
    reuse : take kept parts also where the sources have changed since
    only : compute parts whose key has one of these texts, all where there is none; for `keep_parts`
    kept : compute nothing: conclude from the parts that are kept
    progress : as `corank.experiments.jobs.attempt_jobs` takes it
    """

    processes: int = 1
    keep: Path | None = None
    fresh: bool = False
    reuse: bool = False
    only: Sequence[str] = ()
    kept: bool = False
    progress: Progress | None = None


@dataclass(frozen=True)
class StudyRun:
    """A study and what came out.

    n_computed : how many parts were computed in this run; the others were kept from an earlier one
    seconds : the computing time of all parts, also of those that were kept
    warnings : what fits warned of, with the number of parts
    code : the states of the sources that the parts were computed by, with the number of parts
    """

    study: Study
    settings: Settings
    outcome: Outcome
    n_parts: int
    n_computed: int
    processes: int
    wall_seconds: float
    seconds: float
    warnings: dict[str, int]
    code: dict[str, int]
    results: dict[str, Result]


def missing_data(study: Study, data: Path | None) -> list[str]:
    """The files that the study needs and the folder does not have; all of them where there is no
    folder.
    """
    return [name for name in study.files if data is None or not (data / name).is_file()]


def run_study(study: Study, settings: Settings, ways: Ways | None = None) -> StudyRun:
    """Run a study, or go on with one that was interrupted: the numbers are the same."""
    ways = Ways() if ways is None else ways
    begin = time.perf_counter()
    parts = _parts(study, settings)
    done, n_computed = _computed(study, settings, parts, ways)
    results: dict[str, Result] = {
        part.key: done[part.key].result["result"] for part in parts if part.key in done
    }
    outcome = study.conclude(settings, results)
    if left_out := [part for part in parts if part.key not in done]:
        names = ", ".join(dict.fromkeys(part.libraries[0] for part in left_out if part.libraries))
        cause = "they are not kept." if ways.kept else f"they need {names}, not there."
        note = f"{len(left_out)} of {len(parts)} parts are left out: {cause}"
        outcome = replace(outcome, notes=[*outcome.notes, note])
    return StudyRun(
        study,
        settings,
        outcome,
        n_parts=len(done),
        n_computed=n_computed,
        processes=ways.processes,
        wall_seconds=round(time.perf_counter() - begin, 1),
        seconds=round(sum(job.seconds for job in done.values()), 1),
        warnings=dict(Counter(text for job in done.values() for text in job.warnings)),
        code=dict(Counter(job.result["sources"] for job in done.values())),
        results=results,
    )


def keep_parts(study: Study, settings: Settings, ways: Ways) -> tuple[int, int]:
    """Compute some of the parts for a later run, of this machine or of another, and conclude
    nothing.

    Returns
    -------
    how many parts were asked for and are kept now, and how many of them were computed
    """
    asked = [
        part
        for part in _parts(study, settings)
        if not ways.only or any(text in part.key for text in ways.only)
    ]
    if not asked:
        raise ValueError(f"no part of {study.name} has {' or '.join(ways.only)} in its name.")
    done, n_computed = _computed(study, settings, asked, ways)
    return len(done), n_computed


def _parts(study: Study, settings: Settings) -> list[Part]:
    """All parts, once everything that they need was found."""
    if missing := missing_data(study, settings.data):
        raise FileNotFoundError(f"{study.name} needs {', '.join(missing)} in the data folder.")
    if study.fixed_draws and settings.seed != 0:
        raise ValueError(
            f"seed is {settings.seed}, but the draws of {study.name} are fixed: leave it out."
        )
    parts = study.parts(settings)
    _check_keys(study, parts)
    _check_libraries(study, parts)
    return parts


def _computed(
    study: Study, settings: Settings, parts: Sequence[Part], ways: Ways
) -> tuple[dict[str, Done], int]:
    """Parts by their keys, without those whose library is missing, and how many were computed."""
    if ways.kept:
        return _kept(study, settings, parts, ways), 0
    absent = [part for part in parts if _is_absent(part)]
    present = [part for part in parts if not _is_absent(part)]
    together = [part for part in present if not part.alone]
    alone = [part for part in present if part.alone]
    done, n_computed = _done(study, settings, together, ways)
    done_alone, n_computed_alone = _done(study, settings, alone, replace(ways, processes=1))
    kept = _kept(study, settings, absent, ways)
    return done | done_alone | kept, n_computed + n_computed_alone


def _kept(study: Study, settings: Settings, parts: Sequence[Part], ways: Ways) -> dict[str, Done]:
    """Those of the parts that are kept."""
    if ways.keep is None or not parts:
        return {}
    keep, data = Keep(ways.keep), digest_of(settings.data, study.files)
    kept = {
        part.key: keep.read(_key(study, settings, data, part, any_sources=ways.reuse))
        for part in parts
    }
    return {key: done for key, done in kept.items() if done is not None}


def _done(
    study: Study, settings: Settings, parts: Sequence[Part], ways: Ways
) -> tuple[dict[str, Done], int]:
    """Parts by their keys, and how many of them were computed now."""
    if not parts:
        return {}, 0
    data = digest_of(settings.data, study.files)
    keep = None if ways.keep is None else Keep(ways.keep, fresh=ways.fresh)
    keyed = [(_key(study, settings, data, part, any_sources=ways.reuse), part) for part in parts]
    attempts, failures = attempt_jobs(
        run_part,
        (study.name, settings),
        keyed,
        keep=keep,
        processes=ways.processes,
        progress=ways.progress,
    )
    if failures:
        lines = [f"{part}: {failures[key]}" for key, part in keyed if key in failures]
        raise JobsFailed("\n".join([f"{len(failures)} of {len(parts)} parts failed:", *lines]))
    done = {part.key: attempts[key][0] for key, part in keyed}
    if keep is not None and not ways.reuse:  # a result of these sources is also one of any sources
        for part in parts:
            keep.write(_key(study, settings, data, part, any_sources=True), done[part.key])
    return done, sum(computed_now for _, computed_now in attempts.values())


def run_part(shared: tuple[str, Settings], part: Part) -> Result:
    """Compute a part. The result is as it would be read from its file, so that a kept part gives
    the same.
    """
    name, settings = shared
    result = part.run(settings, part_rng(name, settings, part), **part.arguments)
    plain: Result = json.loads(json.dumps({"result": result, "sources": _sources(part)}))
    return plain


def part_rng(name: str, settings: Settings, part: Part) -> np.random.Generator:
    """The random numbers of a part, whatever else is computed, and in whatever order."""
    seed_text = f"{name} {part.key if part.draw is None else part.draw}"
    return np.random.default_rng(np.random.SeedSequence([settings.seed, crc32(seed_text.encode())]))


def digest_of(data: Path | None, files: Sequence[str]) -> str:
    """A digest of the files that a study reads."""
    digest = hashlib.sha256()
    for name in files:
        assert data is not None
        digest.update(name.encode() + (data / name).read_bytes())
    return digest.hexdigest()[:16]


def _key(study: Study, settings: Settings, data: str, part: Part, *, any_sources: bool) -> str:
    """All that a result depends on."""
    asked = asdict(settings) | {"data": data}
    sources = "any" if any_sources else [_sources(part), sources_of_studies()]
    run = f"{part.run.__module__}.{part.run.__qualname__}"
    return written(
        [study.name, study.protocol, asked, sources, part.key, run, dict(part.arguments), part.draw]
    )


def _sources(part: Part) -> str:
    """The version of the library that computes the part, or a digest of corank's files and the
    versions below it.
    """
    if part.libraries and (library := version_of(*part.libraries)) is not None:
        return library
    below = [version_of(name) for name in ("numpy", "scipy", "scikit-learn")]
    return ", ".join([sources_of_corank(), *(name for name in below if name is not None)])


@cache
def sources_of_studies() -> str:
    """A digest of the files of this folder that results depend on."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if name.parts[0] not in NO_RESULTS:
            digest.update(name.as_posix().encode() + path.read_bytes())
    return f"studies {digest.hexdigest()[:12]}"


def _is_absent(part: Part) -> bool:
    return bool(part.libraries) and version_of(*part.libraries) is None


def _check_libraries(study: Study, parts: Sequence[Part]) -> None:
    """Raise before long work where a library is missing that some parts cannot do without."""
    names = dict.fromkeys(part.libraries[0] for part in parts if _is_absent(part))
    missing = [name for name in names if name not in study.optional]
    if missing:
        raise ImportError(
            f"{study.name} needs {', '.join(missing)}: pip install {' '.join(missing)}"
        )


def _check_keys(study: Study, parts: Sequence[Part]) -> None:
    twice = [key for key, times in Counter(part.key for part in parts).items() if times > 1]
    if twice:
        raise ValueError(f"{study.name} has several parts called {twice[0]!r}.")
