"""Mutants: small changes of the formulas, each of which the fast tests of its room must notice.

    python tools/mutants.py [--room average] [--workers 2] [TEXT ...]

Each mutant is applied by itself to a copy of the tree, on which the fast tests of its room run. The
table says which mutants survive; the status is 1 where one does. With TEXT only those run whose
file or new line contains it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import queue
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("src", "federated", "tests", "tools", "pyproject.toml")
# the tests of every room, those first that notice most; the fits of tests/golden are never among them
TESTS = {
    "average": (
        "tests/learners/average/test_closed_form.py",
        "tests/learners/average/test_weights.py",
        "tests/learners/average/test_calibration.py",
        "tests/learners/average",
    ),
    "solve": (
        "tests/solve/test_spectrum.py",
        "tests/solve/test_posterior.py",
        "tests/solve/test_questions.py",
        "tests/solve/test_systems.py",
        "tests/solve/test_holdout.py",
        "tests/solve",
    ),
    "core": ("tests/core",),
}
MINUTES = 10  # after which a run counts as one that noticed
PYTEST = (
    "-m",
    "pytest",
    "--exitfirst",
    "--quiet",
    "--tb=no",
    "--numprocesses=0",
    "-p",
    "no:cacheprovider",
)
NOTICED, UNNOTICED = 1, 0  # of pytest


@dataclass(frozen=True)
class Mutant:
    """One line that is changed.

    room : whose tests must notice; file : below src/corank
    old : what stands in the file exactly once; new : what stands there instead
    """

    room: str
    file: str
    old: str
    new: str

    @property
    def path(self) -> Path:
        """The file, relative to the root of the repository."""
        return Path("src/corank") / self.file

    def applied(self, source: str) -> str:
        """The mutated source."""
        if source.count(self.old) != 1:
            raise ValueError(
                f"{self.path} holds {self.old!r} {source.count(self.old)} times, not once."
            )
        return source.replace(self.old, self.new)

    def describe(self) -> str:
        """The mutant in one line."""
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.file}: {old}  →  {new}"


SPECTRUM = "solve/spectrum.py"
CLOSED_FORM = "learners/average/closed_form.py"
WEIGHING = "learners/average/weighing.py"
FITTING = "learners/average/fitting.py"
COEFFICIENTS = "learners/average/coefficients.py"
MODEL = "learners/average/model.py"
PROCESSES = "learners/average/posterior.py"
POSTERIOR = "solve/posterior.py"
SIMILARITY = "learners/average/similarity.py"
MUTANTS = [
    # solutions, held-out predictions and evidence
    Mutant("solve", SPECTRUM, "return -0.5 * (", "return -1.0 * ("),
    Mutant("solve", SPECTRUM, "squares / max(self.dimension, 1)", "squares / len(self.values)"),
    Mutant(
        "solve",
        SPECTRUM,
        "(self.dimension - len(self.values)) * np.log(noise)",
        "0 * np.log(noise)",
    ),
    Mutant("solve", SPECTRUM, "(right * inverse, inverse) if", "(right * inverse**2, inverse) if"),
    Mutant(
        "solve",
        SPECTRUM,
        "self.vectors - levels @ (levels.T",
        "self.vectors - 0 * levels @ (levels.T",
    ),
    Mutant("solve", SPECTRUM, "identity[None, :, :, None] - systems", "systems"),
    Mutant("solve", SPECTRUM, "systems[:, run.start :, run, :] = values", "pass"),
    Mutant(
        "average",
        CLOSED_FORM,
        "levels is not None and not observations.whole:",
        "levels is not None:",
    ),
    Mutant(
        "average",
        CLOSED_FORM,
        "variances - levels**2 * alphas",
        "variances + levels**2 * alphas",
    ),
    Mutant("average", CLOSED_FORM, "variances * amplitude,", "variances,"),
    # weights
    Mutant("average", WEIGHING, "max(np.sqrt(m), m / 2", "max(1.0, m / 2"),
    Mutant("average", WEIGHING, "m / 2 * m / (m + FEW_ERRORS)", "0.0"),
    Mutant("average", WEIGHING, "LEAST_SLOPE = 0.1", "LEAST_SLOPE = 0.0"),
    Mutant("average", WEIGHING, "reach = (1 + trust) *", "reach = (1 + 0 * trust) *"),
    Mutant("average", WEIGHING, "ALMOST_RIGHT = 0.2", "ALMOST_RIGHT = 0.0"),
    Mutant("average", WEIGHING, "FEW_FOLDS, MANY_FOLDS = 30, 60", "FEW_FOLDS, MANY_FOLDS = 0, 60"),
    Mutant("average", WEIGHING, "MANY_FOLDS = 30, 60", "MANY_FOLDS = 30, 60_000_000"),
    Mutant("average", WEIGHING, "N_BOOTSTRAPS = 100", "N_BOOTSTRAPS = 1"),
    Mutant("average", WEIGHING, "BELIEF = 0.5", "BELIEF = 0.05"),
    Mutant("average", WEIGHING, "against = gaps.sum() > ", "against = gaps.sum() > len(gaps) * "),
    Mutant("average", WEIGHING, "share = 0.0 if marks else", "share = 0.5 if marks else"),
    Mutant("average", WEIGHING, "softmax(log_evidence / 2 +", "softmax(0 * log_evidence +"),
    Mutant("average", WEIGHING, "EVIDENT_UNITS = 25", "EVIDENT_UNITS = 25_000"),
    Mutant(
        "average", WEIGHING, "cross_fitted.get(kernel.candidate, form.held_out)", "form.held_out"
    ),
    Mutant("average", WEIGHING, "np.where(alone, evidence - mean, 0.0)", "0.0"),
    Mutant(
        "average", WEIGHING, "np.where(usable, size / np.where(", "np.where(usable, 1 / np.where("
    ),
    # fits
    Mutant("average", FITTING, "PRIOR_RESIDUALS = 3.0", "PRIOR_RESIDUALS = 0.3"),
    Mutant("average", FITTING, "NEGLIGIBLE = 0.01", "NEGLIGIBLE = 0.5"),
    Mutant("average", FITTING, "JUDGED_UNITS = 480", "JUDGED_UNITS = 4"),
    Mutant(
        "average",
        COEFFICIENTS,
        "if units.groups is None or has_one_level(units):",
        "if True:",
    ),
    Mutant("average", FITTING, "kept = np.setdiff1d(everything, fold)", "kept = everything"),
    Mutant(
        "average",
        COEFFICIENTS,
        "float(np.exp(np.log(judgement.form.alphas) @ shares))",
        "float(judgement.form.alphas @ shares)",
    ),
    # what users are told
    Mutant("average", MODEL, "UNLIKELY_LINKS = 1.0, 0.05", "UNLIKELY_LINKS = 0.05, 0.05"),
    Mutant("average", MODEL, "ALIKE = 4.0", "ALIKE = -40.0"),
    Mutant("average", MODEL, "(rows)[1] + posterior.answer_noise / 2", "(rows)[1]"),
    Mutant("average", POSTERIOR, "return gap * gap if", "return 0 * gap if"),
    Mutant("average", PROCESSES, "2 * levels + self.square_level", "2 * levels"),
    Mutant("average", POSTERIOR, "return mean, self.factor**2 * spread", "return mean, spread"),
    Mutant("average", MODEL, "2 * self.factor**2 * noise", "self.factor**2 * noise"),
    Mutant("average", MODEL, "folds if several is None else several", "folds"),
    Mutant("average", MODEL, "LEAST_DEVIATION = 0.1", "LEAST_DEVIATION = 0.0"),
    Mutant(
        "average", SIMILARITY, "correlations**2 - 1 / max(units.n_free, 1)", "correlations**2 - 0"
    ),
    # choice of alpha, hold-out
    Mutant("solve", "solve/holdout.py", "np.maximum(slope, least)", "np.maximum(slope, -np.inf)"),
    Mutant("solve", "solve/tuning.py", "gap.mean <= gap.standard_error", "gap.mean <= 0"),
    Mutant("solve", "solve/holdout.py", "* k / (k - 1)", "* 1.0"),
    Mutant("solve", "solve/tuning.py", "np.argmax(alpha[ties])", "np.argmin(alpha[ties])"),
    Mutant("solve", "solve/holdout.py", "alphas / cost", "alphas"),
    Mutant("solve", "solve/co_kernel.py", "g = 1 / (1 + self.factor * ratio", "g = 1 / (1 + ratio"),
    # posteriors
    Mutant(
        "solve",
        POSTERIOR,
        "variances - 2 * kernel.row_by_row(first, second)",
        "variances - kernel.row_by_row(first, second)",
    ),
    Mutant("solve", POSTERIOR, "return half @ features.T", "return 0 * half @ features.T"),
    Mutant(
        "solve",
        "solve/questions.py",
        "np.outer(column, column) / (variances[pair] + noise)",
        "np.outer(column, column) / variances[pair]",
    ),
    Mutant(
        "solve",
        "solve/expectation_propagation.py",
        "0.5 * np.log(kept) + 0.5 * gap",
        "0.5 * np.log(kept) + 0 * gap",
    ),
    # sums
    Mutant(
        "core",
        "core/sums.py",
        "(self.weight * other.weight / weight) *",
        "(other.weight / weight) *",
    ),
    Mutant("core", "core/sums.py", "self.count - (between == 0)", "self.count"),
    Mutant("core", "core/sums.py", "if k != fold)", "if k >= fold)"),
    Mutant("core", "core/sums.py", "(self.right(offset) - fitted)", "self.right(offset)"),
    Mutant("core", "core/sums.py", "-offset * ones], axis=0)", "0 * ones], axis=0)"),
]


class Copy:
    """A copy of the tree, in which one mutant lives at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            source, target = ROOT / name, folder / name
            if source.is_dir():
                shutil.copytree(
                    source, target, ignore=shutil.ignore_patterns("__pycache__", "*.npz")
                )
            else:
                shutil.copy(source, target)

    def survives(self, mutant: Mutant) -> bool:
        """Whether the tests of its room pass with the mutant."""
        path = self.folder / mutant.path
        original = path.read_text("utf-8")
        _write(path, mutant.applied(original))
        try:
            return self._passes(TESTS[mutant.room])
        finally:
            _write(path, original)

    def _passes(self, tests: Sequence[str]) -> bool:
        sources = [str(self.folder / source) for source in ("src", "federated/src")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sources),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        try:
            done = subprocess.run(
                [sys.executable, *PYTEST, *tests],
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=60 * MINUTES,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        if done.returncode not in (NOTICED, UNNOTICED):
            raise SystemExit(
                f"the tests could not be run:\n{done.stdout[-3000:]}{done.stderr[-1000:]}"
            )
        return done.returncode == UNNOTICED


def _write(path: Path, source: str) -> None:
    """Write a source, whose bytecode is not told from older one within the same second."""
    path.write_text(source, "utf-8")
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


def survivors(mutants: Sequence[Mutant], workers: int) -> list[Mutant]:
    """The mutants that survive, in their order; says of each what became of it."""
    with TemporaryDirectory() as folder:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(workers):
            copies.put(Copy(Path(folder) / str(number)))

        def survives(mutant: Mutant) -> bool:
            copy, start = copies.get(), time.monotonic()
            try:
                result = copy.survives(mutant)
            finally:
                copies.put(copy)
            word = "SURVIVES" if result else "dies"
            print(f"{word:8} {time.monotonic() - start:5.1f} s  {mutant.describe()}", flush=True)
            return result

        with ThreadPoolExecutor(workers) as pool:
            alive = list(pool.map(survives, mutants))
    return list(itertools.compress(mutants, alive))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument(
        "text", nargs="*", help="run the mutants whose file or new line contains it"
    )
    parser.add_argument("--room", choices=list(TESTS), help="run the mutants of this room only")
    parser.add_argument("--workers", type=int, default=2, help="how many run at a time")
    arguments = parser.parse_args()
    chosen = [
        mutant
        for mutant in MUTANTS
        if arguments.room in (None, mutant.room)
        and (not arguments.text or any(text in mutant.file + mutant.new for text in arguments.text))
    ]
    if not chosen:
        raise SystemExit("no mutant is chosen.")
    alive = survivors(chosen, arguments.workers)
    print(f"{len(chosen)} mutants, {len(alive)} survive")
    for mutant in alive:
        print(f"survives: {mutant.describe()}")
    raise SystemExit(1 if alive else 0)


if __name__ == "__main__":
    main()
