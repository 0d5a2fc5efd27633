"""From training data and settings to one solution: kernel width and alpha chosen, coefficients solved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut, check_cv

from corank._backend import Array, take, to_numpy
from corank.basis import Basis, BasisSpec, Selection, candidate_rows, make_basis
from corank.kernels import WITH_GAMMA, Kernel, scale_gamma
from corank.problem import FloatArray, Problem, ScoredRows
from corank.solvers.direct import DualSystem, PrimalSystem, System
from corank.solvers.holdout import (
    HeldOut,
    Scoring,
    Splits,
    chosen_position,
    covers_groups,
    folds_of_splits,
    has_closed_form,
    held_out,
    keeps_sums,
    natural_folds,
    refitted,
    splits_of_folds,
)
from corank.solvers.path import Path, alpha_grid, constant_error
from corank.statistics import Index

GAMMA_STEPS = 4.0 ** np.arange(-3, 4)  # around gamma="scale"


@dataclass(frozen=True)
class Training:
    """A problem, and where its rows lie in what the user handed over.

    index : (n,) row numbers in X; everything : X; weights : (n,) or None
    """

    problem: Problem
    index: Index
    everything: Array
    weights: Array | None = None


@dataclass(frozen=True)
class Settings:
    """What a learner was asked for, checked.

    kernel : with gamma still open; gammas, alphas : candidates, or "scale"/"tune"
    centred : the mean score is taken out first and put back (an intercept)
    """

    kernel: Kernel
    gamma: float | str | tuple[float, ...]
    alpha: float | str | tuple[float, ...]
    basis: BasisSpec
    selection: Selection = "pivoted"
    cv: Any = None
    scoring: Scoring = "squared"
    centred: bool = False
    seed: int = 0

    @property
    def tunes(self) -> bool:
        """Whether anything is chosen by held-out error."""
        return not isinstance(self.alpha, float) or self.gamma == "tune" or isinstance(self.gamma, tuple)


@dataclass(frozen=True)
class Solution:
    """A fitted model's numbers: coefficients (r,) of a basis, and how they came about."""

    basis: Basis
    rows: Index | None
    coefficients: Array
    intercept: float
    alpha: float
    system: System
    path: Path | None


@dataclass(frozen=True)
class Candidate:
    """One kernel's system with the errors of its alphas."""

    basis: Basis
    rows: Index | None
    system: System
    alphas: FloatArray
    errors: HeldOut | None = field(default=None)


def solve(training: Training, settings: Settings) -> Solution:
    """Choose what is to be tuned by held-out error, then solve."""
    problem = training.problem
    given = None
    if settings.tunes:
        given = read_splits(settings.cv, problem, training.index, int(training.everything.shape[0]))
    offset = problem.mean_score if settings.centred else 0.0
    kernels = kernels_to_try(training, settings.kernel, settings.gamma, settings.basis, settings.seed)
    constant = constant_error([problem], offset, settings.scoring)
    chosen, alpha, path = choose((_candidate(training, settings, k, given) for k in kernels), settings, constant)
    coefficients = chosen.system.solve(alpha, offset)
    return Solution(chosen.basis, chosen.rows, coefficients, offset, alpha, chosen.system, path)


def kernels_to_try(
    training: Training, kernel: Kernel, gamma: float | str | tuple[float, ...], spec: BasisSpec, seed: int
) -> list[Kernel]:
    """The kernel with every width to try, on a basis as `spec` says."""
    if not (isinstance(kernel.name, str) and kernel.name in WITH_GAMMA):
        return [kernel]
    if isinstance(gamma, float | tuple):
        widths = np.atleast_1d(gamma)
    else:
        features, n = training.problem.features, len(training.index)
        size = n if isinstance(spec, str) else spec if isinstance(spec, int) else len(spec)
        rows = candidate_rows(training.index, size, seed)
        if len(rows) == n:
            scale = scale_gamma(features, training.weights)
        else:
            weights = None if training.weights is None else take(training.weights, rows)
            scale = scale_gamma(take(features, rows), weights)
        widths = scale * (GAMMA_STEPS if gamma == "tune" else np.ones(1))
    return [Kernel(kernel.name, float(w), kernel.degree, kernel.coef0, kernel.params) for w in widths]


def read_splits(cv: Any, problem: Problem, index: Index, n_rows: int) -> Index | Splits | None:
    """What `cv` says: fold numbers a unit where it leaves one out at a time, else splits; None for the learner's own.

    A splitter is asked about the scored rows (or comparisons); lists of splits speak of the n_rows rows of X, of which
    `index` take part.
    """
    if cv is None:
        return None
    scores, groups = problem.labels
    n = int(problem.targets.shape[0])
    if isinstance(cv, LeaveOneOut):
        return np.arange(n)
    if isinstance(cv, LeaveOneGroupOut) and groups is not None:
        return groups
    parts = check_cv(cv).split(np.empty((n, 1)), to_numpy(scores), groups)
    units = np.arange(n)
    if not hasattr(cv, "split") and not isinstance(cv, Integral) and isinstance(problem, ScoredRows):
        units = np.full(n_rows, -1, dtype=np.int64)
        units[index] = np.arange(n)
    splits = []
    for train, test in parts:
        both = [units[_checked_rows(rows, len(units))] for rows in (train, test)]
        splits.append((both[0][both[0] >= 0], both[1][both[1] >= 0]))
    if not splits or any(len(train) == 0 or len(test) == 0 for train, test in splits):
        raise ValueError("cv gives no split, or one without scored rows to train or test on.")
    return splits


def _checked_rows(given: Any, n_rows: int) -> Index:
    rows: np.ndarray[Any, Any] = np.asarray(given)
    if rows.ndim != 1 or (rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= n_rows)):
        raise ValueError(f"cv must give row numbers from 0 to {n_rows - 1}, got {rows!r:.80}.")
    return rows.astype(np.int64)


def _candidate(training: Training, settings: Settings, kernel: Kernel, given: Index | Splits | None) -> Candidate:
    """One kernel: its basis, its system, the held-out errors of its alphas."""
    problem = training.problem
    basis, rows = make_basis(
        settings.basis,
        kernel,
        problem.features,
        training.index,
        training.everything,
        settings.selection,
        settings.seed,
    )
    dual = isinstance(settings.basis, str) and problem.operator.n_roots <= basis.size
    folds, splits = None, None
    if isinstance(given, np.ndarray):
        folds = given if covers_groups(problem, given) else None
        splits = None if folds is not None else splits_of_folds(given)
    elif given is not None:
        folds, splits = folds_of_splits(problem, given), given
    elif settings.tunes:
        folds = natural_folds(problem, dual=dual, seed=settings.seed)
    closed = folds is not None and has_closed_form(problem, folds, dual=dual)
    system: System
    if dual:
        system = DualSystem(problem, basis)
    else:
        sums = folds if closed and folds is not None and keeps_sums(folds) else None
        system = PrimalSystem.gathered(
            problem, basis, None if sums is None else np.where(sums < 0, sums.max() + 1, sums)
        )
    alphas = alphas_to_try(system, settings)
    errors = None
    if closed and folds is not None:
        errors = held_out(problem, system, alphas, folds, scoring=settings.scoring, centred=settings.centred)
    elif splits is not None or folds is not None:
        parts = splits if splits is not None else splits_of_folds(folds)  # type: ignore[arg-type]
        errors = refitted(problem, basis, alphas, parts, dual=dual, scoring=settings.scoring, centred=settings.centred)
    return Candidate(basis, rows, system, alphas, errors)


def alphas_to_try(system: System, settings: Settings) -> FloatArray:
    """Those that were given, or a grid at the scale of the data."""
    return alpha_grid(system.scale) if isinstance(settings.alpha, str) else np.atleast_1d(settings.alpha)


def choose(found: Iterable[Candidate], settings: Settings, constant: float) -> tuple[Candidate, float, Path | None]:
    """The candidate and alpha of least error; without errors the first one at the scale of the data.

    Candidates come one by one, and only the best so far is kept: each holds a factorised system.
    """
    kept: Candidate | None = None
    best, least = 0, np.inf
    tried: list[FloatArray] = []  # one row an alpha: alpha, gamma, error, standard error
    for candidate in found:
        if candidate.errors is None or len(candidate.errors.sizes) == 0:
            fallback = candidate.system.scale if isinstance(settings.alpha, str) else float(candidate.alphas[-1])
            return candidate, fallback if fallback > 0 else 1.0, None
        alphas, error = candidate.alphas, candidate.errors.mean
        width = getattr(getattr(candidate.basis, "kernel", None), "gamma", None)
        position = chosen_position(candidate.errors, alphas, settings.scoring)
        if kept is None or error[position] < least:
            kept, best, least = candidate, sum(map(len, tried)) + position, float(error[position])
        widths = np.full(len(alphas), np.nan if width is None else width)
        tried.append(np.stack([alphas, widths, error, candidate.errors.standard_error], axis=1))
    assert kept is not None
    alpha, gamma, mean, spread = np.concatenate(tried).T.copy()
    path = Path(alpha, gamma, mean, spread, best=best, scoring=settings.scoring, constant=constant)
    return kept, float(alpha[best]), path
