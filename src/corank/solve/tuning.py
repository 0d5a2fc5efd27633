"""How alpha, agreement and kernel width are chosen: by held-out error, for one view and for
several; the path of what was tried; and how the chosen parameters are solved for view by view.

`tune` takes a problem and settings and gives a solution. Rows in memory (`HeldProblem`) and rows of
a scan that do not fit into memory (`ScannedProblem` in `corank.streaming.models`) are two kinds of
problem: each says which views and kernel widths there are, makes the system of one of them, and
says what is held out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    add_diagonal,
    cholesky,
    namespace,
    solve_factored,
    sum_of,
    take,
)
from corank.core.basis import BasisSpec, candidate_rows
from corank.core.folds import (
    Folding,
    Splits,
    default_folding,
    given_folding,
    has_item_form,
    same_scores,
)
from corank.core.kernels import Kernel, is_named
from corank.core.observations import Problem
from corank.core.storable import any_floats, storable
from corank.core.unscored import UnscoredRows
from corank.solve.grid import GridSystem, held_out_on_grid, is_by_factors, predictions_on_grid
from corank.solve.holdout import (
    MAX_FOLDS_WITH_SUMS,
    NOTHING_HELD_OUT,
    HeldOut,
    Scoring,
    held_out,
    held_out_predictions,
    hold_out_way,
)
from corank.solve.systems import DualSystem, PrimalSystem, ViewData

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from corank.solve.effect import Evidence

GRID = np.logspace(-6, 3, 20)  # of alpha, in units of the mean eigenvalue of the loss
STEP = GRID[1] / GRID[0]
# in units of where both losses weigh the same
AGREEMENTS = np.r_[0.0, 10.0 * STEP ** (2.0 * np.arange(-4, 5))]
GAMMA_STEPS = 4.0 ** np.arange(-3, 4)  # around gamma="scale"
NO_NORM = "alpha = 0 has no held-out errors: give one number each as alpha, agreement and gamma."
EQUAL = 1e-9  # relative difference of two errors up to which they are the same but for rounding
# rows of the matrix of a system that a model keeps to judge fixed parameters with
MAX_KEPT_SIZE = 2_000

P = TypeVar("P", bound="Path")
Tried: TypeAlias = Annotated[FloatArray, any_floats("p")]  # one number per choice


@storable("Path")
@dataclass(frozen=True)
class Path:
    """Everything that was tried.

    Attributes
    ----------
    alpha : (a,) candidates
    gamma : (a,) kernel widths that go with them, NaN where the kernel has none
    error : (a,) held-out error
    standard_error : (a,) of that error, over what was held out
    best : position of the chosen one
    scoring : what the error is: "squared" (held-out loss), "rescaled" (the same under the best
        factor) or "disagreement"
    constant : the same error of a function that is constant: what any model should beat
    agreement : (a,) that go with them, for learners with several views
    n_components, n_atoms : (a,) numbers that go with them, for learners on components or atoms
    """

    alpha: Tried
    gamma: Tried
    error: Tried
    standard_error: Tried
    best: int
    scoring: str
    constant: float
    agreement: Tried | None = None
    n_components: Tried | None = None
    n_atoms: Tried | None = None

    def is_sound(self) -> bool:
        """Whether the chosen one was tried."""
        return self.best < max(len(self.error), 1)

    @classmethod
    def of(
        cls,
        errors: HeldOut,
        best: int,
        scoring: str,
        constant: float,
        *,
        alpha: FloatArray | float,
        gamma: float | None,
        **numbers: FloatArray,
    ) -> Self:
        """The path of held-out errors (a,); alpha may be one for all, gamma is None where the
        kernel has no width.
        """
        count = errors.errors.shape[1]
        return cls(
            alpha=np.full(count, alpha),
            gamma=np.full(count, np.nan if gamma is None else gamma),
            error=errors.mean,
            standard_error=errors.standard_error,
            best=best,
            scoring=scoring,
            constant=constant,
            **numbers,
        )

    @property
    def least(self) -> float:
        """The error of what was chosen."""
        return float(self.error[self.best])

    def of_atoms(self, numbers: Index) -> FloatArray:
        """The error of numbers of atoms, all else as it was chosen; NaN where one was not tried."""
        assert self.n_atoms is not None
        alike = np.isclose(self.gamma, self.gamma[self.best], equal_nan=True)
        if self.agreement is not None:
            alike &= self.agreement == self.agreement[self.best]
        errors = dict(zip(self.n_atoms[alike].tolist(), self.error[alike].tolist(), strict=True))
        return np.asarray([errors.get(float(number), np.nan) for number in numbers])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Held-out error against what was tuned, as `corank.report.plot_path` draws it.

        Parameters
        ----------
        ax : matplotlib axis, default=None
            None makes a figure.

        Returns
        -------
        ax
        """
        from corank.report.plots import draw_path  # plots are above everything that computes

        return draw_path(self, ax)


@storable("PullPath")
@dataclass(frozen=True)
class PullPath(Path):
    """Everything that was tried, with one pull per entry (a,): infinite for RankRLS on the scored
    queries.
    """

    pull: Tried | None = None


def joined_path(paths: Sequence[P], best: int) -> P | None:
    """The paths of several kernel widths as one; None for no paths. best : number of the path to
    take.
    """
    if not paths:
        return None
    arrays = [name for name, value in vars(paths[best]).items() if isinstance(value, np.ndarray)]
    joined: Any = {name: np.concatenate([vars(path)[name] for path in paths]) for name in arrays}
    before = sum(len(path.error) for path in paths[:best])
    return replace(paths[best], **joined, best=before + paths[best].best)


Candidates: TypeAlias = float | str | tuple[float, ...]


def constant_error(problems: Sequence[Problem], offset: float, scoring: str) -> float:
    """The error of a constant: ‖J (s − offset)‖² over the rank of the loss, or one half of the
    pairs.

    From the scored rows of all views; of one view where all have the same scores.
    """
    if scoring == "disagreement":
        return 0.5
    loss = size = 0.0
    for problem in problems[:1] if same_scores(problems) else problems:
        targets = problem.targets
        loss += float(namespace(targets).sum((targets[:, 0] - offset * targets[:, 1]) ** 2))
        size += problem.freedom()
    return loss / max(size, 1.0)


# ---------------------------------------------------------------- one problem with one view


@dataclass(frozen=True)
class Training:
    """A problem of one view, and where its rows lie in what the user handed over.

    index : (n,) row numbers in X; everything : X; weights : (n,) or None
    level : was taken out of the scores
    with_queries : whether the rows came with query labels
    """

    problem: Problem
    index: Index
    everything: Array
    weights: Array | None = None
    level: float = 0.0
    with_queries: bool = False


# ---------------------------------------------------------------- what a learner was asked for


@dataclass(frozen=True, kw_only=True)
class TuningSettings:
    """What every learner that chooses by held-out error was asked for, checked. A kind of learner
    adds its parameters.

    centred : whether the mean score is taken out first and put back (an intercept)
    compared : whether held-out errors are wanted although nothing is chosen by them here
    splits : what `read_splits` read, None for the default hold-out
    """

    scoring: Scoring = "squared"
    centred: bool = False
    seed: int = 0
    compared: bool = False
    splits: Index | Splits | None = None


def is_open(value: Any) -> bool:
    """Whether a parameter is to be chosen: "tune", or several candidates."""
    return isinstance(value, tuple) or is_named(value, "tune")


@dataclass(frozen=True, kw_only=True)
class KernelSettings(TuningSettings):
    """What a learner with one kernel was asked for, checked.

    kernel : its width still open; gamma : a number, "scale", "mean-distance", "tune" or candidates
    """

    kernel: Kernel
    gamma: Candidates


def untuned_width(gamma: Candidates) -> Candidates:
    """The width where nothing can be held out: the first of a list, or that of the scale of the
    rows.
    """
    return gamma[0] if isinstance(gamma, tuple) else "scale" if gamma == "tune" else gamma


def widths_to_try(gamma: Candidates, scale: float | None) -> Sequence[float]:
    """The kernel widths that `gamma` asks for; scale : that of the rows, None for candidates."""
    if not isinstance(gamma, str):
        return gamma if isinstance(gamma, tuple) else (gamma,)
    assert scale is not None
    steps = GAMMA_STEPS if gamma == "tune" else np.ones(1)
    return [float(width) for width in scale * steps]


def kernels_to_try(
    training: Training, kernel: Kernel, gamma: Candidates, spec: BasisSpec, seed: int
) -> list[Kernel]:
    """The kernel with every width to try, on a basis as `spec` says."""
    if not kernel.has_width:
        return [kernel]
    scale = None
    if isinstance(gamma, str):
        features, weights = training.problem.features, training.weights
        rows = candidate_rows(training.index, spec, seed)
        if len(rows) < len(training.index):
            features, weights = take(features, rows), take(weights, rows)
        scale = kernel.scale_width(features, weights, gamma)
    return [replace(kernel, gamma=width) for width in widths_to_try(gamma, scale)]


# ---------------------------------------------------------------- problems


@dataclass(frozen=True)
class Settings(TuningSettings):
    """What a learner of least squares was asked for, checked.

    alpha, agreement : a number, "tune" or candidates
    kernel, gamma : of views that have none of their own, the width still open
    judged : whether what it takes to judge the choice afterwards is kept
    solver, max_iter, tol : how the chosen parameters are solved for; see `CoRLS`
    """

    alpha: Candidates
    agreement: Candidates = 0.0
    kernel: Any = None
    gamma: Candidates | None = None
    judged: bool = False
    solver: str = "direct"
    max_iter: int = 1000
    tol: float = 1e-8

    @property
    def tunes(self) -> bool:
        """Whether anything is chosen by held-out error."""
        return self.compared or is_open(self.alpha) or is_open(self.agreement)


@dataclass(frozen=True)
class HeldProblem:
    """Views of rows in memory.

    choices : the views with every choice of kernel widths
    dual : whether the basis of every view is its scored and all unscored rows, or the columns of
        one view
    holds_out : whether anything may be held out
    """

    choices: Iterable[Sequence[ViewData]]
    unscored: UnscoredRows | None = None
    dual: bool = False
    holds_out: bool = True

    def prepared(
        self, views: Sequence[ViewData], settings: Settings, system: Any = None
    ) -> tuple[DualSystem | PrimalSystem, Folding | Splits | None]:
        """The system, unless it is there, and its folds; sums of folds take no pass of their own."""
        dual = self.dual
        if views[0].basis.grid is not None and is_by_factors(views[0], settings.splits):
            pairs = system or GridSystem(views[0])
            return pairs, pairs.folding if settings.tunes and self.holds_out else None
        if len(views) == 1:  # more comparisons than rows are cheaper by rows
            dual = dual and views[0].problem.operator.n_roots <= views[0].basis.size
        if system is None:
            system = (DualSystem if dual else PrimalSystem)(views, self.unscored)
        if not (settings.tunes and self.holds_out):
            return system, None
        folds = self._folds(system, settings)
        if (
            isinstance(system, PrimalSystem)
            and isinstance(folds, Folding)
            and folds.n_folds <= MAX_FOLDS_WITH_SUMS
            and hold_out_way(system, folds) == "sums"
            and not system.has_fold_sums
        ):
            system.gather(folds)
        return system, folds

    def _folds(
        self, system: DualSystem | PrimalSystem, settings: Settings
    ) -> Folding | Splits | None:
        if settings.splits is not None:
            return given_folding(system.problems, settings.splits, items=system.groups is None)
        n_features = system.size if isinstance(system, PrimalSystem) else None
        return default_folding(system.problems, system.groups, settings.seed, n_features=n_features)

    def constant(self, system: Any, offset: float, scoring: Scoring) -> float:
        """From the scored rows."""
        return constant_error(system.problems, offset, scoring)

    def evidence(self, trial: Trial, settings: Settings) -> Evidence:
        """The kernel between units where they are few, else the errors, or the system as long as it
        is small.
        """
        system, errors = trial.system, trial.errors
        folding: Any = self._folds(system, settings) if trial.folds is None else trial.folds
        if not isinstance(folding, Folding | None):
            folding, errors = self._folds(system, replace(settings, splits=None)), None
        if folding is not None and folding.items and not has_item_form(system.problems):
            folding = None
        few = folding is not None and system.few_units
        # what is missing is made when it is asked for, as long as it is no burden to keep
        source: Any = system if system.size <= MAX_KEPT_SIZE else None
        if errors is not None and (few or 0.0 in trial.grid.agreements):
            source = system.cokernel if few else None
        from corank.solve.effect import Evidence  # few learners judge theirs

        return Evidence(source, None if few else errors, folding, trial.grid, settings)


class TuningProblem(Protocol):
    """Views of rows, with every choice of kernel widths."""

    @property
    def choices(self) -> Iterable[Sequence[ViewData]]:
        """The views with every choice of kernel widths."""
        ...

    def prepared(
        self, views: Sequence[ViewData], settings: Settings
    ) -> tuple[Any, Folding | Splits | None]:
        """The system of the views, and what is held out."""
        ...

    def constant(self, system: Any, offset: float, scoring: Scoring) -> float:
        """The held-out error of a constant."""
        ...

    def evidence(self, trial: Trial, settings: Settings) -> Evidence:
        """What stays behind to judge the choice."""
        ...


# ---------------------------------------------------------------- choices


@dataclass(frozen=True)
class Grid:
    """Pairs of parameters, agreement by agreement."""

    alphas: FloatArray
    agreements: FloatArray

    @cached_property
    def pairs(self) -> FloatArray:
        """(alpha, agreement) of every pair: (p, 2)."""
        alphas = np.tile(self.alphas, len(self.agreements))
        agreements = np.repeat(self.agreements, len(self.alphas))
        return np.stack([alphas, agreements], axis=1)

    def pairs_at(self, agreements: FloatArray) -> Index:
        """The numbers of the pairs with these agreements."""
        return np.flatnonzero(np.isin(self.pairs[:, 1], agreements))


def best_position(error: FloatArray, alpha: FloatArray) -> int:
    """The smallest error; among equals the largest alpha, the simplest model."""
    least = np.nanmin(error)
    highest = least + EQUAL * abs(least)
    ties = np.flatnonzero(error <= highest)
    return int(ties[np.argmax(alpha[ties])])


def chosen_position(held: HeldOut, alphas: FloatArray, scoring: Scoring) -> int:
    """The least error. For "rescaled" the largest alpha within one standard error of it, paired by
    what was held out.

    Where predictions may be rescaled a large alpha costs nothing by shrinking them, and few scores
    cannot tell it from a smaller one: then the simpler model is taken.
    """
    best = best_position(held.mean, alphas)
    if scoring != "rescaled" or len(held.sizes) < 2:
        return best
    gap = HeldOut(held.errors - held.errors[:, best : best + 1], held.sizes)
    close = np.flatnonzero(gap.mean <= gap.standard_error)
    return int(close[np.argmax(alphas[close])]) if len(close) else best


def chosen_pair(held: HeldOut, grid: Grid, pairs: Index, scoring: Scoring) -> int:
    """Of these pairs the one to take: an alpha for each agreement, then the agreement of least
    error.
    """
    alphas, agreements = grid.pairs.T
    best = []
    for agreement in grid.agreements:
        candidates = pairs[agreements[pairs] == agreement]
        if len(candidates) == 0:
            continue
        errors = HeldOut(held.errors[:, candidates], held.sizes)
        best.append(int(candidates[chosen_position(errors, alphas[candidates], scoring)]))
    numbers = np.asarray(best)
    return int(numbers[best_position(held.mean[numbers], alphas[numbers])])


# ---------------------------------------------------------------- tuning


@dataclass(frozen=True)
class Trial:
    """One choice of kernel widths: its system, and the errors of its pairs of parameters; None
    where there are none.
    """

    system: Any
    folds: Folding | Splits | None
    grid: Grid
    errors: HeldOut | None
    best: int = -1
    path: Path | None = None


@dataclass(frozen=True)
class Solution:
    """A fitted model's numbers, and how they came about.

    system : that was solved
    coefficients : (r_v,) per view
    gradient : what a descent left, relative to the right-hand side, where that is above its
        tolerance; else 0
    """

    system: Any
    coefficients: list[Array]
    intercept: float
    alpha: float
    agreement: float
    path: Path | None
    trial: Trial
    n_iter: int
    gradient: float


class Attempt(Protocol):
    """One choice of kernel widths, or of anything that needs a fit of its own."""

    @property
    def path(self) -> Path | None:
        """What was tried with it; None where nothing could be held out."""
        ...


T = TypeVar("T", bound=Attempt)


def best_of(trials: Iterable[T]) -> tuple[T, Path | None]:
    """The trial of the least held-out error, and all that was tried.

    Trials come one by one, and only the best so far is kept: each may hold a factorised system.
    Among equals it is the first: rounding does not choose. Where nothing can be held out the first
    trial is taken, and no other is made.
    """
    best: T | None = None
    paths: list[Path] = []
    number, least = 0, np.inf  # of the path of the best, and its error
    for trial in trials:
        if trial.path is None:
            best = trial if best is None else best
            break
        paths.append(trial.path)
        error = float(trial.path.error[trial.path.best])
        if best is None or error < (1 - EQUAL) * least:
            best, number, least = trial, len(paths) - 1, error
    assert best is not None
    return best, joined_path(paths, number)


def tune(problem: TuningProblem, settings: Settings) -> Solution:
    """Choose what is to be tuned by held-out error, then solve."""
    trials = (
        _trial(problem, *problem.prepared(views, settings), settings) for views in problem.choices
    )
    trial, path = best_of(trials)
    return _solved(trial, path, settings)


def tune_each(
    problem: HeldProblem, settings: Settings, targets: Sequence[Problem]
) -> list[Solution]:
    """What `tune` finds for every column of scores of the same rows; what does not depend on scores
    is made once per kernel width, and kept for that width only.
    """
    tried = []
    for views in problem.choices:
        first, folds = problem.prepared(views, settings)
        solutions = []
        for system in first.with_each(targets, folds):
            prepared = problem.prepared(system.views, settings, system)
            trial = _trial(problem, *prepared, settings)
            solutions.append(_solved(trial, trial.path, settings))
        tried.append(solutions)
    best = [best_of(by_width) for by_width in zip(*tried, strict=True)]
    return [replace(solution, path=path) for solution, path in best]


def _trial(
    problem: TuningProblem, system: Any, folds: Folding | Splits | None, settings: Settings
) -> Trial:
    """The system of one choice of kernel widths, and the errors of its pairs of parameters."""
    grid = parameter_grid(system, settings)
    trial = Trial(system, folds, grid, None)
    if folds is None:
        return trial
    if not grid.alphas.all():
        raise ValueError(NO_NORM)
    judge: Any = held_out_on_grid if isinstance(system, GridSystem) else held_out
    errors = judge(system, folds, grid, scoring=settings.scoring, centred=settings.centred)
    if len(errors.sizes) == 0:  # nothing that was held out can be told apart
        return trial
    best = chosen_pair(errors, grid, np.arange(len(grid.pairs)), settings.scoring)
    offset = system.mean_score if settings.centred else 0.0
    alphas, agreements = grid.pairs.T
    kernel = system.views[0].basis.kernel
    path = Path.of(
        errors,
        best,
        settings.scoring,
        problem.constant(system, offset, settings.scoring),
        alpha=alphas,
        gamma=kernel.gamma if kernel.scales is None else None,
        agreement=agreements,
    )
    return replace(trial, errors=errors, best=best, path=path)


def parameter_grid(system: DualSystem | PrimalSystem, settings: Settings) -> Grid:
    """The alphas and agreements to try; "tune" makes both step alike, so that many pairs share
    their ratio.
    """
    alphas = (
        GRID * system.scale if isinstance(settings.alpha, str) else np.atleast_1d(settings.alpha)
    )
    if not isinstance(settings.agreement, str):
        return Grid(alphas, np.atleast_1d(settings.agreement))
    scale = system.agreement_scale
    if scale > 0 and isinstance(settings.alpha, str):  # onto the grid of the alphas
        scale = float(alphas[0] * STEP ** np.round(np.log(scale / alphas[0]) / np.log(STEP)))
    return Grid(alphas, AGREEMENTS * scale if scale > 0 else np.zeros(1))


def _solved(trial: Trial, path: Path | None, settings: Settings) -> Solution:
    """The solution of a trial at its best pair of parameters."""
    system, grid = trial.system, trial.grid
    alpha, agreement = grid.pairs[trial.best].tolist()  # the last where nothing was held out
    if trial.errors is None and isinstance(settings.alpha, str):
        alpha = system.scale
    if trial.errors is None and isinstance(settings.agreement, str):
        agreement = 0.0  # no held-out error shows that agreement helps
    offset = system.mean_score if settings.centred else 0.0
    if alpha == 0:
        system.spectrum(agreement).refuse_open()
    n_iter, gradient = 1, 0.0
    if settings.solver == "direct":
        coefficients = system.solve(alpha, agreement, offset)
    elif settings.solver == "partitioned":
        coefficients = system.solve_partitioned(alpha, agreement, offset)
    else:
        descent = descend(
            add_diagonal(system.matrix(agreement), alpha),
            system.right(offset),
            system.ends,
            max_iter=settings.max_iter,
            tol=settings.tol,
            accelerated=settings.solver == "accelerated",
        )
        coefficients, n_iter = system.to_bases(descent.solution), descent.n_iter
        gradient = descent.gradient if descent.gradient > settings.tol else 0.0
    vectors = [columns[:, 0] for columns in coefficients]
    return Solution(system, vectors, offset, alpha, agreement, path, trial, n_iter, gradient)


@dataclass(frozen=True)
class ChosenViews:
    """What a fit leaves behind to hold rows out with what was chosen: views whose bases have no kernel
    matrices, settings with the splits of the fit, and whether the system is `dual`.
    """

    views: Sequence[ViewData]
    settings: Settings
    alpha: float
    agreement: float = 0.0
    unscored: UnscoredRows | None = None
    dual: bool = False

    def held_out(self, splits: Index | Splits | None) -> list[tuple[Problem, Array]]:
        """Every problem with held-out predictions of its units (n_units,), the mean of views that
        share it; None = the folds of the fit.
        """
        if self.alpha == 0:
            raise ValueError("alpha = 0 has no held-out predictions in closed form.")
        settings = replace(self.settings, compared=True)
        if splits is not None:
            settings = replace(settings, splits=splits)
        rows = HeldProblem([], self.unscored, self.dual)
        system, folds = rows.prepared(self.views, settings)
        if folds is None:
            raise ValueError(NOTHING_HELD_OUT)
        grid = Grid(np.full(1, self.alpha), np.full(1, self.agreement))
        told: Any = predictions_on_grid if isinstance(system, GridSystem) else held_out_predictions
        parts = told(system, folds, grid, centred=settings.centred)
        if same_scores(system.problems):
            parts = [sum_of(parts) / len(parts)]
        return list(zip(system.problems, parts, strict=False))


# ---------------------------------------------------------------- block coordinate descent


@dataclass(frozen=True)
class Descent:
    """Where descent stopped: the solution (k, 1), how many sweeps, and the gradient relative to the
    right-hand side.
    """

    solution: Array
    n_iter: int
    gradient: float


def descend(
    matrix: Array,
    right: Array,
    ends: Index,
    *,
    max_iter: int,
    tol: float,
    accelerated: bool = False,
) -> Descent:
    """Solve A c = b for a positive definite A, block by block from zero, the others held (001
    Algorithm 1), until ‖A c − b‖ <= tol ‖b‖.

    Plain: Gauss-Seidel sweeps, each block factorised once. They always converge, but may take very
    long where views are strongly tied together (docs/mathematics.md, 3.12). Accelerated: conjugate
    gradients with one sweep forth and one back as preconditioner, a step as much work as two
    sweeps. Set-up O(Σ r_v³), a sweep O((Σ r_v)²).

    Parameters
    ----------
    matrix : (k, k), right : (k, 1)
    ends : (M + 1,) where the blocks begin, and k
    """
    blocks = [slice(int(b), int(e)) for b, e in pairwise(ends)]
    factors = [cholesky(matrix[block, block]) for block in blocks]
    goal = tol * _norm(right)
    if accelerated:
        return _conjugate(matrix, right, blocks, factors, max_iter, goal)
    solution = namespace(right).zeros_like(right)
    left, sweeps = _norm(right), 0
    while left > goal and sweeps < max_iter:
        solution = _sweep(matrix, right, solution, blocks, factors)
        sweeps += 1
        left = _norm(right - matrix @ solution)
    return Descent(solution, sweeps, left / (_norm(right) or 1.0))


def _sweep(
    matrix: Array, right: Array, start: Array, blocks: list[slice], factors: list[Array]
) -> Array:
    """Every block once, in the order given."""
    solution = start * 1.0
    for block, factor in zip(blocks, factors, strict=True):
        others = right[block, :] - matrix[block, :] @ solution
        rest = others + matrix[block, block] @ solution[block, :]
        solution[block, :] = solve_factored(factor, rest)
    return solution


def _conjugate(
    matrix: Array,
    right: Array,
    blocks: list[slice],
    factors: list[Array],
    max_iter: int,
    goal: float,
) -> Descent:
    xp = namespace(right)

    def prepared(residual: Array) -> Array:
        forth = _sweep(matrix, residual, xp.zeros_like(residual), blocks, factors)
        return _sweep(matrix, residual, forth, blocks[::-1], factors[::-1])

    solution = xp.zeros_like(right)
    residual, sweeps = right * 1.0, 0
    direction = step = prepared(residual)
    power = float(xp.sum(residual * step))
    while _norm(residual) > goal and sweeps < max_iter:
        image = matrix @ direction
        length = power / float(xp.sum(direction * image))
        solution = solution + length * direction
        residual = residual - length * image
        sweeps += 2
        step = prepared(residual)
        before, power = power, float(xp.sum(residual * step))
        direction = step + (power / before) * direction if before > 0 else step
    return Descent(solution, sweeps, _norm(right - matrix @ solution) / (_norm(right) or 1.0))


def _norm(x: Array) -> float:
    return float(namespace(x).linalg.vector_norm(x))
