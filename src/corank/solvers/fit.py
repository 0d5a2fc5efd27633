"""From training data and settings to one solution: kernel width and alpha chosen, coefficients solved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from corank._backend import Array, take, to_numpy
from corank.basis import Basis, BasisSpec, Selection, candidate_rows, make_basis
from corank.kernels import WITH_GAMMA, Kernel, scale_gamma
from corank.problem import FloatArray, Problem, ScoredRows
from corank.solvers.direct import DualSystem, PrimalSystem, System
from corank.solvers.holdout import (
    MANY_FOLDS,
    HeldOut,
    Scoring,
    Splits,
    folds_of_splits,
    has_closed_form,
    held_out,
    natural_folds,
    refitted,
    splits_of_folds,
)
from corank.solvers.path import Path, alpha_grid, best_position, constant_error
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
class _Candidate:
    """One kernel's system with the errors of its alphas."""

    basis: Basis
    rows: Index | None
    system: System
    alphas: FloatArray
    errors: HeldOut | None = field(default=None)


def solve(training: Training, settings: Settings) -> Solution:
    """Choose what is to be tuned by held-out error, then solve."""
    splits = _splits(training, settings.cv) if settings.tunes else None
    found = [_candidate(training, settings, kernel, splits) for kernel in _kernels(training, settings)]
    offset = training.problem.mean_score if settings.centred else 0.0
    chosen, alpha, path = _choose(found, settings, constant_error([training.problem], offset, settings.scoring))
    coefficients = chosen.system.solve(alpha, offset)
    return Solution(chosen.basis, chosen.rows, coefficients, offset, alpha, chosen.system, path)


def _kernels(training: Training, settings: Settings) -> list[Kernel]:
    """The kernel with every width to try."""
    kernel, gamma = settings.kernel, settings.gamma
    if not (isinstance(kernel.name, str) and kernel.name in WITH_GAMMA):
        return [kernel]
    if isinstance(gamma, float | tuple):
        widths = np.atleast_1d(gamma)
    else:
        features, n, spec = training.problem.features, len(training.index), settings.basis
        size = n if isinstance(spec, str) else spec if isinstance(spec, int) else len(spec)
        rows = candidate_rows(n, size, np.random.default_rng(settings.seed))
        if len(rows) == n:
            scale = scale_gamma(features, training.weights)
        else:
            weights = None if training.weights is None else take(training.weights, rows)
            scale = scale_gamma(take(features, rows), weights)
        widths = scale * (GAMMA_STEPS if gamma == "tune" else np.ones(1))
    return [Kernel(kernel.name, float(w), kernel.degree, kernel.coef0, kernel.params) for w in widths]


def _splits(training: Training, cv: Any) -> Splits | None:
    """What `cv` says, as (train, test) unit numbers; None for the learner's own folds.

    A splitter is asked about the scored rows (or comparisons); lists of splits speak of rows of X.
    """
    if cv is None:
        return None
    problem = training.problem
    n = problem.operator.n_roots
    scores, groups = problem.labels
    parts = check_cv(cv).split(np.empty((n, 1)), to_numpy(scores), groups)
    listed = not hasattr(cv, "split") and not isinstance(cv, int) and isinstance(problem, ScoredRows)
    units = np.arange(n)
    if listed:
        units = np.full(int(training.everything.shape[0]), -1, dtype=np.int64)
        units[training.index] = np.arange(n)
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


def _candidate(training: Training, settings: Settings, kernel: Kernel, splits: Splits | None) -> _Candidate:
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
    folds = None
    if settings.tunes:
        rng = np.random.default_rng(settings.seed)
        folds = natural_folds(problem, dual=dual, rng=rng) if splits is None else folds_of_splits(problem, splits)
    closed = folds is not None and has_closed_form(problem, folds, dual=dual)
    system: System
    if dual:
        system = DualSystem(problem, basis)
    else:
        sums = folds if closed and folds is not None and folds.max() < MANY_FOLDS else None
        system = PrimalSystem.gathered(
            problem, basis, None if sums is None else np.where(sums < 0, sums.max() + 1, sums)
        )
    alphas = _alphas(system, settings)
    errors = None
    if closed and folds is not None:
        errors = held_out(problem, system, alphas, folds, scoring=settings.scoring, centred=settings.centred)
    elif splits is not None or folds is not None:
        parts = splits if splits is not None else splits_of_folds(folds)  # type: ignore[arg-type]
        errors = refitted(problem, basis, alphas, parts, dual=dual, scoring=settings.scoring, centred=settings.centred)
    return _Candidate(basis, rows, system, alphas, errors)


def _alphas(system: System, settings: Settings) -> FloatArray:
    return alpha_grid(system.scale) if isinstance(settings.alpha, str) else np.atleast_1d(settings.alpha)


def _choose(found: list[_Candidate], settings: Settings, constant: float) -> tuple[_Candidate, float, Path | None]:
    """The candidate and alpha of least error; without errors the middle one at the scale of the data."""
    results = [c.errors for c in found if c.errors is not None and len(c.errors.sizes)]
    if len(results) < len(found):
        middle = found[len(found) // 2]
        fallback = middle.system.scale if isinstance(settings.alpha, str) else float(middle.alphas[-1])
        return middle, fallback if fallback > 0 else 1.0, None
    counts = [len(c.alphas) for c in found]
    alpha = np.concatenate([c.alphas for c in found])
    error = np.concatenate([result.mean for result in results])
    widths = [getattr(getattr(c.basis, "kernel", None), "gamma", None) for c in found]
    best = best_position(error, alpha)
    path = Path(
        alpha=alpha,
        gamma=np.repeat([np.nan if w is None else w for w in widths], counts),
        error=error,
        standard_error=np.concatenate([result.standard_error for result in results]),
        best=best,
        scoring=settings.scoring,
        constant=constant,
    )
    return found[int(np.searchsorted(np.cumsum(counts), best, side="right"))], float(alpha[best]), path
