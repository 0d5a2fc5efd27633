"""From training data and settings to a function on components: width, alpha and number of components chosen, solved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from corank._backend import Array, namespace
from corank.basis import BasisSpec, KernelBasis, Selection, make_basis
from corank.kernels import Kernel
from corank.problem import FloatArray, Problem
from corank.solvers.components import (
    ComponentBasis,
    RowComponents,
    SummedComponents,
    row_components,
    summed_components,
)
from corank.solvers.fit import Training, kernels_to_try, read_splits
from corank.solvers.holdout import (
    HeldOut,
    Scoring,
    Splits,
    blocks_of_folds,
    covers_groups,
    errors_of,
    folds_of_splits,
    held_out,
    keeps_sums,
    kept_means,
    natural_folds,
    pooled,
    splits_of_folds,
    unit_predictions,
)
from corank.solvers.path import Path, constant_error
from corank.statistics import Index

TRIED = 200  # numbers of components that "tune" looks at, from 1 on
TUNED_SHARE = 0.5  # of the rows, at most: as many components as rows predict left-out ones by the mean again
UNTUNED = 10  # at most so many of them where nothing can be held out

System: TypeAlias = RowComponents | SummedComponents


@dataclass(frozen=True)
class ComponentSettings:
    """What a learner was asked for, checked.

    n_components : a number, numbers to try, or "tune"; alpha : a number or numbers to try
    """

    kernel: Kernel
    gamma: float | str | tuple[float, ...]
    alpha: tuple[float, ...]
    n_components: int | str | tuple[int, ...]
    basis: BasisSpec
    selection: Selection = "pivoted"
    cv: Any = None
    scoring: Scoring = "squared"
    centred: bool = False
    seed: int = 0

    @property
    def tunes(self) -> bool:
        """Whether anything is chosen by held-out error."""
        widths = self.gamma == "tune" or isinstance(self.gamma, tuple)
        return not isinstance(self.n_components, int) or len(self.alpha) > 1 or widths

    @property
    def numbers(self) -> Index:
        """The numbers of components to look at."""
        asked = range(1, TRIED + 1) if isinstance(self.n_components, str) else self.n_components
        return np.unique(np.asarray(asked, dtype=np.int64))


@dataclass(frozen=True)
class ComponentSolution:
    """A fitted function on components.

    coefficients : (r,) of the basis; constant : what centring adds to the function; offset : the mean score taken out
    steps, shifts : (r, p), (p,) what every component added to both
    limit : number of components that the data carry
    """

    components: ComponentBasis
    rows: Index | None
    coefficients: Array
    constant: float
    offset: float
    steps: Array
    shifts: Array
    n_components: int
    alpha: float
    limit: int
    path: Path | None


@dataclass(frozen=True)
class _Found:
    system: System
    rows: Index | None
    numbers: Index
    errors: HeldOut | None


def solve_components(training: Training, settings: ComponentSettings) -> ComponentSolution:
    """Choose what is to be tuned by held-out error, then solve."""
    problem = training.problem
    given = None
    if settings.tunes:
        given = read_splits(settings.cv, problem, training.index, int(training.everything.shape[0]))
    offset = problem.mean_score if settings.centred else 0.0
    best: _Found | None = None
    number, least, at = 0, np.inf, 0
    tried: list[FloatArray] = []  # one row a number: alpha, gamma, number, error, standard error
    for kernel in kernels_to_try(training, settings.kernel, settings.gamma, settings.basis, settings.seed):
        for found in _systems(training, settings, kernel, given):
            if found.errors is None or len(found.errors.sizes) == 0:
                return _solution(found, _untuned(found), offset, None)
            mean = found.errors.mean
            position = int(np.flatnonzero(mean <= np.nanmin(mean) * (1 + 1e-12))[0])  # the fewest among equals
            if best is None or mean[position] < least:
                best, number, least = found, int(found.numbers[position]), float(mean[position])
                at = sum(map(len, tried)) + position
            width = np.nan if kernel.gamma is None else kernel.gamma
            shape = np.ones(len(mean))
            spread = found.errors.standard_error
            tried.append(np.stack([found.system.alpha * shape, width * shape, found.numbers, mean, spread], axis=1))
    assert best is not None
    constant = constant_error([problem], offset, settings.scoring)
    alpha, gamma, numbers, error, spread = np.concatenate(tried).T.copy()
    path = Path(alpha, gamma, error, spread, at, settings.scoring, constant, n_components=numbers)
    return _solution(best, number, offset, path)


def _untuned(found: _Found) -> int:
    """The number of components where nothing can be held out: of those asked for the last that makes a difference."""
    sensible = found.numbers[found.numbers <= min(UNTUNED, found.system.triangle.limit)]
    return int(sensible[-1] if len(sensible) else found.numbers[0])


def _systems(training: Training, settings: ComponentSettings, kernel: Kernel, given: Index | Splits | None) -> Any:
    """One kernel with every alpha: the components are made once."""
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
    by_rows = isinstance(settings.basis, str) and isinstance(basis, KernelBasis)
    most = int(settings.numbers[-1])
    if by_rows:
        assert isinstance(basis, KernelBasis)
        components = row_components(basis, training.weights, most, settings.seed)
    else:
        components = summed_components(problem, basis, most)
    limit = components.n_components
    if isinstance(settings.n_components, str):
        limit = min(limit, max(1, int(TUNED_SHARE * int(problem.features.shape[0]))))
    numbers = np.unique(np.minimum(settings.numbers, limit))
    folds, splits = _folding(problem, settings, given, by_rows=by_rows)
    system: System | None = None
    for alpha in settings.alpha:
        if by_rows:
            system = RowComponents(problem, components, alpha)
        elif isinstance(system, SummedComponents):
            system = system.with_alpha(alpha)
        else:
            sums = None if folds is None else np.where(folds < 0, folds.max() + 1, folds)
            system = SummedComponents.of(problem, components, alpha, sums)
        yield _Found(system, rows, numbers, _errors(problem, system, numbers, folds, splits, settings))


def _folding(
    problem: Problem, settings: ComponentSettings, given: Index | Splits | None, *, by_rows: bool
) -> tuple[Index | None, Splits | None]:
    """Folds that need no refitting, or splits that do; neither where there is nothing to choose or to hold out."""
    if not settings.tunes:
        return None, None
    if given is None:
        return natural_folds(problem, dual=by_rows, seed=settings.seed), None
    if isinstance(given, np.ndarray):
        folds, splits = (given if covers_groups(problem, given) else None), splits_of_folds(given)
    else:
        folds, splits = folds_of_splits(problem, given), given
    serves = folds is not None and (by_rows or keeps_sums(folds))
    return (folds, None) if serves else (None, splits)


def _errors(
    problem: Problem,
    system: System,
    numbers: Index,
    folds: Index | None,
    splits: Splits | None,
    settings: ComponentSettings,
) -> HeldOut | None:
    """Held-out errors for every number of components."""
    scoring, centred = settings.scoring, settings.centred
    if splits is not None:
        return _refitted(problem, system, numbers, splits, settings)
    if folds is None:
        return None
    if isinstance(system, SummedComponents):
        return held_out(problem, system, numbers.astype(np.float64), folds, scoring=scoring, centred=centred)
    blocks = blocks_of_folds(folds)
    predictions = system.held_out(blocks, numbers, centred=centred)
    rescaled = scoring == "rescaled" and centred
    offsets = kept_means(problem.targets, blocks) if rescaled else np.zeros(len(blocks))
    return pooled([errors_of(problem, predictions, folds, scoring, offsets)])


def _refitted(problem: Problem, system: System, numbers: Index, splits: Splits, settings: ComponentSettings) -> HeldOut:
    """By fitting once a split, components kept."""
    parts = []
    for train, test in splits:
        left = problem.take(test)
        if isinstance(system, RowComponents):
            predictions, offset = system.refitted(train, test, numbers, centred=settings.centred)
        else:
            kept, components = problem.take(train), system.components
            offset = kept.mean_score if settings.centred else 0.0
            own = SummedComponents.of(kept, components, system.alpha).coefficients(numbers, offset)
            every = np.arange(len(test))
            predictions = unit_predictions(left, components, components.matrix @ own, every) + offset  # type: ignore[arg-type]
        zeros = np.zeros(len(test), dtype=np.int64)
        parts.append(errors_of(left, predictions, zeros, settings.scoring, np.full(1, offset)))
    return pooled(parts)


def _solution(found: _Found, number: int, offset: float, path: Path | None) -> ComponentSolution:
    system = found.system
    components = system.components
    number = min(number, components.n_components)
    xp = namespace(components.matrix)
    steps = system.triangle.steps(components.matrix, offset)
    coefficients = xp.sum(steps[:, :number], axis=1)
    shifts = -(components.centre @ steps)
    return ComponentSolution(
        components=components,
        rows=found.rows,
        coefficients=coefficients,
        constant=float(xp.sum(shifts[:number])),
        offset=offset,
        steps=steps,
        shifts=shifts,
        n_components=number,
        alpha=system.alpha,
        limit=system.triangle.limit,
        path=path,
    )
