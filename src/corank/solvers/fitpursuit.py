"""From training data and settings to one sparse solution: kernel width and number of atoms chosen, weights solved.

Folds are redone greedily, side by side with the run on all rows: the model of any number of atoms is the beginning of
that run. Rows that are left out are no atoms either: an atom of their own would say nothing about new rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corank._backend import Array, device, namespace
from corank.kernels import Kernel
from corank.problem import FloatArray, ScoredRows
from corank.solvers.dictionary import Atoms, Dictionary
from corank.solvers.fit import Training, kernels_to_try, read_splits
from corank.solvers.greedy import Refit, Run, advance, start_runs
from corank.solvers.holdout import (
    HeldOut,
    Scoring,
    Splits,
    chosen_position,
    errors_of,
    natural_folds,
    pooled,
    splits_of_folds,
)
from corank.solvers.lengths import RowSet
from corank.solvers.path import Path, constant_error
from corank.statistics import Index

PATIENCE = 10  # steps without a lower held-out error after which a search ends
MOST_STEPS = 1_000  # that are tried
UNTUNED = 10  # atoms where nothing can be held out


@dataclass(frozen=True)
class PursuitSettings:
    """What a learner was asked for, checked.

    kernel : with gamma still open; gamma : candidates, or "scale"/"tune"
    n_atoms : steps, candidates in increasing order, or "tune"
    centred : the mean score of the rows at hand is taken out first (an intercept)
    """

    kernel: Kernel
    gamma: float | str | tuple[float, ...]
    n_atoms: int | tuple[int, ...] | str
    refit: Refit
    cv: Any = None
    scoring: Scoring = "squared"
    centred: bool = False
    seed: int = 0

    @property
    def tunes(self) -> bool:
        """Whether anything is chosen by held-out error."""
        return not isinstance(self.n_atoms, int) or self.gamma == "tune" or isinstance(self.gamma, tuple)


@dataclass(frozen=True)
class SparseSolution:
    """A sparse model's numbers.

    steps : (p,) atoms in order of entry; atoms : (k,) the distinct ones
    weights : (k, p) of the distinct atoms after 1, 2, … steps
    losses : (p + 1,) of 0, 1, … steps
    asked : the number of steps that was wanted; path : None where nothing was tuned
    """

    kernel: Kernel
    steps: Index
    atoms: Index
    weights: FloatArray
    losses: FloatArray
    intercept: float
    asked: int
    path: Path | None


@dataclass(frozen=True)
class _Fold:
    """Rows that are kept and rows that are left out. The features are not needed: kernels come from the dictionary."""

    kept: RowSet
    target: Array
    left: ScoredRows
    rows: Index
    offset: float


@dataclass(frozen=True)
class _Candidate:
    """One kernel: the run on all rows, the numbers of steps tried and their held-out errors."""

    kernel: Kernel
    run: Run
    numbers: Index
    errors: HeldOut | None = None


def pursue(training: Training, settings: PursuitSettings, atoms: Atoms) -> SparseSolution:
    """Choose what is to be tuned by held-out error; the model is the beginning of the run on all rows."""
    problem = training.problem
    assert isinstance(problem, ScoredRows)
    tied = nothing_to_learn(problem, centred=settings.centred)
    splits = _splits(training, settings) if settings.tunes and not tied else None
    offset = problem.mean_score if settings.centred else 0.0
    bare = without_features(problem)
    folds = [] if splits is None else [_fold(bare, train, test, settings.centred) for train, test in splits]
    if folds and not _tell_apart(folds, settings.scoring):
        folds = []
    whole = RowSet(problem.operator)
    target = (problem.targets[:, 0] - offset * problem.targets[:, 1]) * (0.0 if tied else 1.0)

    def candidate(kernel: Kernel) -> _Candidate:
        dictionary = atoms.dictionary(kernel, problem.features)
        runs = start_runs(
            dictionary,
            [whole, *(fold.kept for fold in folds)],
            [target, *(fold.target for fold in folds)],
            [None, *(fold.rows for fold in folds)],
            settings.refit,
            [None, *(atoms.at(training.index[fold.rows]) for fold in folds)],
            alike=atoms.points is not None,
        )
        return _tried(dictionary, runs, folds, kernel, settings, problem.freedom(np.arange(len(problem.rows))))

    constant = constant_error([problem], offset, settings.scoring) if folds else np.nan
    kernels = _kernels(training, settings, atoms, tuned=bool(folds))
    chosen, asked, path = _choose([candidate(kernel) for kernel in kernels], settings.scoring, constant)
    used = min(asked, len(chosen.run.steps))
    steps = np.asarray(chosen.run.steps[:used], dtype=np.int64)
    distinct = len(dict.fromkeys(steps.tolist()))
    return SparseSolution(
        kernel=chosen.kernel,
        steps=steps,
        atoms=np.asarray(chosen.run.entered[:distinct], dtype=np.int64),
        weights=chosen.run.weights()[:distinct, :used],
        losses=np.asarray(chosen.run.losses[: used + 1]),
        intercept=offset,
        asked=asked,
        path=path,
    )


def nothing_to_learn(problem: ScoredRows, *, centred: bool) -> bool:
    """Whether scores are alike, but for rounding, wherever they are compared."""
    if problem.is_tied:
        return True
    size = float(namespace(problem.reference).max(namespace(problem.reference).abs(problem.reference)))
    return size <= 1e-14 * abs(problem.level) if centred else size == 0


def _kernels(training: Training, settings: PursuitSettings, atoms: Atoms, *, tuned: bool) -> list[Kernel]:
    """The widths to try; one that needs no tuning where nothing can be held out."""
    if atoms.points is None:
        return [Kernel("linear")]
    gamma = settings.gamma
    if not tuned:
        gamma = gamma[0] if isinstance(gamma, tuple) else "scale" if gamma == "tune" else gamma
    return kernels_to_try(training, settings.kernel, gamma, "all", settings.seed)


def _choose(found: Sequence[_Candidate], scoring: Scoring, constant: float) -> tuple[_Candidate, int, Path | None]:
    """The candidate of least held-out error and its number of steps; fewer among equals."""
    if found[0].errors is None:
        return found[0], int(found[0].numbers[0]), None
    best, least, chosen, tried = 0, np.inf, found[0], 0
    for candidate in found:
        assert candidate.errors is not None
        position = chosen_position(candidate.errors, -candidate.numbers.astype(np.float64), scoring)
        if candidate.errors.mean[position] < least:
            best, least, chosen = tried + position, float(candidate.errors.mean[position]), candidate
        tried += len(candidate.numbers)
    errors = [candidate.errors for candidate in found if candidate.errors is not None]
    numbers = np.concatenate([candidate.numbers for candidate in found]).astype(np.float64)
    widths = [np.nan if candidate.kernel.gamma is None else candidate.kernel.gamma for candidate in found]
    path = Path(
        alpha=np.full(len(numbers), np.nan),
        gamma=np.repeat(widths, [len(candidate.numbers) for candidate in found]).astype(np.float64),
        error=np.concatenate([own.mean for own in errors]),
        standard_error=np.concatenate([own.standard_error for own in errors]),
        best=best,
        scoring=scoring,
        constant=constant,
        n_atoms=numbers,
    )
    return chosen, int(numbers[best]), path


# ---------------------------------------------------------------- folds


def _splits(training: Training, settings: PursuitSettings) -> Splits | None:
    """What is held out: what `cv` says, else at most ten folds of queries, items or rows; None for too little."""
    problem = training.problem
    given = read_splits(settings.cv, problem, training.index, int(training.everything.shape[0]))
    if given is None:
        given = natural_folds(problem, dual=False, seed=settings.seed)
    return splits_of_folds(given) if isinstance(given, np.ndarray) else given


def without_features(problem: ScoredRows) -> ScoredRows:
    """The same rows, so that folds of them copy no features."""
    xp = namespace(problem.reference)
    nothing = xp.zeros((len(problem.rows), 0), dtype=xp.float64, device=device(problem.reference))
    return replace(problem, rows=replace(problem.rows, features=nothing))


def _fold(problem: ScoredRows, train: Index, test: Index, centred: bool) -> _Fold:
    kept, left = problem.take(train), problem.take(test)
    offset = kept.mean_score if centred else 0.0
    target = kept.targets[:, 0] - offset * kept.targets[:, 1]
    return _Fold(RowSet(kept.operator, train, _cuts(problem, train)), target, left, test, offset)


def _cuts(problem: ScoredRows, rows: Index) -> bool:
    """Whether the loss on these rows is the same as within all of them: whole queries, or rows one by one."""
    if not problem.comparison.needs_queries:
        return True
    if problem.groups is None:
        return False
    counts, sizes = (np.bincount(own, minlength=problem.n_queries) for own in (problem.groups[rows], problem.groups))
    return len(np.unique(rows)) == len(rows) and bool(np.all((counts == 0) | (counts == sizes)))


def _tell_apart(folds: Sequence[_Fold], scoring: Scoring) -> bool:
    """Whether an error can be told on anything that is left out."""
    parts = []
    for fold in folds:
        constant = 0.0 * fold.left.reference[:, None]
        parts.append(errors_of(fold.left, constant, np.zeros(len(fold.rows), dtype=np.int64), scoring, np.zeros(1)))
    return len(pooled(parts).sizes) > 0


def _tried(
    dictionary: Dictionary,
    runs: Sequence[Run],
    folds: Sequence[_Fold],
    kernel: Kernel,
    settings: PursuitSettings,
    rank: int,
) -> _Candidate:
    """Runs, the first on all rows and one a fold, taken as far as they must go."""
    wanted, carried = settings.n_atoms, min(dictionary.size, rank)
    if not folds:
        steps = min(UNTUNED, carried) if isinstance(wanted, str) else wanted if isinstance(wanted, int) else wanted[0]
        advance(dictionary, runs, steps)
        return _Candidate(kernel, runs[0], np.asarray([steps]))
    most = MOST_STEPS if settings.refit in ("basic", "final") else min(MOST_STEPS, carried)
    limit = most if isinstance(wanted, str) else wanted if isinstance(wanted, int) else wanted[-1]
    parts: list[HeldOut] = []
    done = 0
    while done < limit and (done == 0 or not all(run.ended for run in runs[1:])):
        upto = min(done + PATIENCE, limit)
        advance(dictionary, runs, upto)
        parts.append(_errors(folds, runs[1:], done, upto, settings.scoring))
        done = upto
        if isinstance(wanted, str) and (end := _end(np.concatenate([part.mean for part in parts]))) is not None:
            done = end
            break
    if isinstance(wanted, str):
        reached = max(1, max(len(run.steps) for run in runs[1:]))
        numbers = np.arange(1, min(done, reached) + 1)
    else:
        numbers = np.atleast_1d(np.asarray(wanted, dtype=np.int64))
    advance(dictionary, runs[:1], int(numbers[-1]))
    errors = np.concatenate([part.errors for part in parts], axis=1)
    return _Candidate(kernel, runs[0], numbers, HeldOut(errors[:, np.minimum(numbers, done) - 1], parts[0].sizes))


def _errors(folds: Sequence[_Fold], runs: Sequence[Run], begin: int, end: int, scoring: Scoring) -> HeldOut:
    """Held-out errors after steps begin + 1 … end; a run that has ended stays as it is."""
    parts = []
    for fold, run in zip(folds, runs, strict=True):
        xp = namespace(fold.left.reference)
        nothing = xp.zeros_like(fold.left.reference)
        values = [
            run.predictions[min(step, len(run.steps) - 1)] if run.steps else nothing for step in range(begin, end)
        ]
        codes = np.zeros(len(fold.rows), dtype=np.int64)
        predictions = xp.stack(values, axis=1) + fold.offset
        parts.append(errors_of(fold.left, predictions, codes, scoring, np.full(1, fold.offset)))
    return pooled(parts)


def _end(means: FloatArray) -> int | None:
    """The number of steps after which the error has not fallen for PATIENCE of them; None where it still may."""
    best, since = means[0], 0
    for step, error in enumerate(means[1:], start=2):
        since = 0 if error < best * (1 - 1e-12) else since + 1
        best = min(best, error)
        if since == PATIENCE:
            return step
    return None
