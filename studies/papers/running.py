"""Runs a study: its parts over several processes, every finished one kept, and then what they say together."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from corank.experiments.jobs import Keep, run_jobs, sources_of_corank, version_of, written
from studies.papers.study import Outcome, Part, Result, Settings, Study

Progress = Callable[[int, int], Any]


@dataclass(frozen=True)
class Reproduction:
    """A study and what came out.

    seconds : the computing time of all parts, also of those that were kept from an earlier start
    run_now : how many parts were computed now
    warnings : what fits warned of, with the number of parts
    """

    study: Study
    settings: Settings
    outcome: Outcome
    n_parts: int
    run_now: int
    processes: int
    wall_seconds: float
    seconds: float
    warnings: dict[str, int]
    results: dict[str, Result]


def missing_data(study: Study, data: Path | None) -> list[str]:
    """What the study needs and the folder does not have; all of it where there is no folder."""
    return [name for name in study.files if data is None or not (data / name).is_file()]


def reproduce(
    study: Study,
    settings: Settings,
    *,
    processes: int = 1,
    keep: str | Path | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> Reproduction:
    """Run a study, or go on with one that was interrupted: the numbers are the same.

    Parameters
    ----------
    study : what to run
    settings : data folder, quick or not, seed
    processes : parts at a time; more than one starts processes: call it under ``if __name__ == "__main__":`` then
    keep : folder where finished parts are kept and looked for
    fresh : leave kept parts aside
    progress : as `corank.experiments.jobs.run_jobs` takes it
    """
    if missing := missing_data(study, settings.data):
        raise FileNotFoundError(f"{study.name} needs {', '.join(missing)} in the data folder.")
    begin = time.perf_counter()
    parts = study.parts(settings)
    _check_keys(study, parts)
    data = digest_of(settings.data, study.files)
    kept = None if keep is None else Keep(Path(keep), fresh=fresh)
    crowd, alone = ([part for part in parts if part.alone == one] for one in (False, True))
    found, run_now, warned, seconds = {}, 0, Counter[str](), 0.0
    for some, at_once in ((crowd, processes), (alone, 1)):
        if not some:
            continue
        jobs = [(_key(study, settings, data, part), part) for part in some]
        done, computed = run_jobs(
            run_part, (study.name, settings), jobs, keep=kept, processes=at_once, progress=progress
        )
        run_now += computed
        for part, one in zip(some, done, strict=True):
            found[part.key] = one.result
            seconds += one.seconds
            warned.update(one.warnings)
    results = {part.key: found[part.key] for part in parts}
    outcome = study.conclude(settings, results)
    wall = round(time.perf_counter() - begin, 1)
    return Reproduction(
        study, settings, outcome, len(parts), run_now, processes, wall, round(seconds, 1), dict(warned), results
    )


def run_part(shared: tuple[str, Settings], part: Part) -> Result:
    """Compute a part. What comes back is as it would be read from its file, so that a kept part gives the same."""
    name, settings = shared
    result = part.run(settings, part_rng(name, settings, part), **part.arguments)
    plain: Result = json.loads(json.dumps(result))
    return plain


def part_rng(name: str, settings: Settings, part: Part) -> np.random.Generator:
    """The random numbers of a part: whatever else is computed, and in whatever order."""
    words = f"{name} {part.key if part.draw is None else part.draw}"
    return np.random.default_rng(np.random.SeedSequence([settings.seed, crc32(words.encode())]))


def digest_of(data: Path | None, files: Sequence[str]) -> str:
    """Of the files that a study reads."""
    digest = hashlib.sha256()
    for name in files:
        assert data is not None
        digest.update(name.encode() + (data / name).read_bytes())
    return digest.hexdigest()[:16]


def _key(study: Study, settings: Settings, data: str, part: Part) -> str:
    """All that a result depends on."""
    asked = asdict(settings) | {"data": data}
    run = f"{part.run.__module__}.{part.run.__qualname__}"
    below = [version_of(name) for name in ("numpy", "scipy", "scikit-learn")]
    return written([study.name, asked, sources_of_corank(), below, part.key, run, dict(part.arguments), part.draw])


def _check_keys(study: Study, parts: Sequence[Part]) -> None:
    twice = [key for key, times in Counter(part.key for part in parts).items() if times > 1]
    if twice:
        raise ValueError(f"{study.name} has several parts called {twice[0]!r}.")
