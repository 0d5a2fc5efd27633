"""How alpha, agreement and kernel width are chosen: by held-out error, for one view and for several.

`tune` takes a problem and settings and gives a solution. Rows in memory (`HeldProblem`) and rows of a scan that do not
fit into memory (`ScannedProblem`) are two kinds of problem: each says which views and kernel widths there are, makes
the system of one of them, and says what is held out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from corank._arrays import Array, FloatArray, Index, add_diagonal, namespace, take
from corank._plotting import draw_path
from corank.basis import BasisSpec, candidate_rows
from corank.gram import Statistics
from corank.kernels import Kernel, scale_gamma
from corank.loss import Loss
from corank.model_files.packing import storable
from corank.problem import Problem
from corank.solvers.coordinate_descent import descend
from corank.solvers.folds import (
    N_FOLDS,
    Folding,
    Splits,
    default_folding,
    given_folding,
    has_item_form,
    same_scores,
)
from corank.solvers.holdout import (
    EQUAL,
    MAX_FOLDS_WITH_SUMS,
    Grid,
    HeldOut,
    Scoring,
    chosen_pair,
    held_out,
    hold_out_way,
)
from corank.solvers.least_squares import DualSystem, JointFeatures, PrimalSystem, Unscored, ViewData
from corank.solvers.unscored_effect import Evidence
from corank.streaming import Scan
from corank.streaming.passes import Passes
from corank.streaming.sums import Folds, JointSumJob, SumJob
from corank.streaming.survey import ScannedRows, Survey

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Candidates: TypeAlias = float | str | tuple[float, ...]

GRID = np.logspace(-6, 3, 20)  # of alpha, in units of the mean eigenvalue of the loss
STEP = GRID[1] / GRID[0]
AGREEMENTS = np.r_[0.0, 10.0 * STEP ** (2.0 * np.arange(-4, 5))]  # in units of where both losses weigh the same
GAMMA_STEPS = 4.0 ** np.arange(-3, 4)  # around gamma="scale"
MAX_KEPT_SIZE = 2_000  # rows of the matrix of a system that a model keeps to judge fixed parameters with


# ---------------------------------------------------------------- what was tried


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
    scoring : what the error is: "squared" (held-out loss), "rescaled" (the same under the best factor) or
        "disagreement"
    constant : the same error of a function that is constant: what any model should beat
    agreement : (a,) that go with them, for learners with several views
    n_components, n_atoms : (a,) numbers that go with them, for learners on components or atoms
    """

    alpha: FloatArray
    gamma: FloatArray
    error: FloatArray
    standard_error: FloatArray
    best: int
    scoring: str
    constant: float
    agreement: FloatArray | None = None
    n_components: FloatArray | None = None
    n_atoms: FloatArray | None = None

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
        """The path of held-out errors (a,); alpha may be one for all, gamma is None where the kernel has no width."""
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
        return draw_path(self, ax)


def constant_error(problems: Sequence[Problem], offset: float, scoring: str) -> float:
    """The error of a constant: ‖J (s − offset)‖² over the rank of the loss, or one half of the pairs.

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
    """

    problem: Problem
    index: Index
    everything: Array
    weights: Array | None = None


@dataclass(frozen=True)
class KernelSettings:
    """What a learner with one kernel was asked for, checked.

    kernel : its width still open; gamma : a number, "scale", "tune" or candidates
    """

    kernel: Kernel
    gamma: Candidates
    cv: Any
    scoring: Scoring
    seed: int

    @property
    def tunes_width(self) -> bool:
        """Whether the kernel width is chosen by held-out error."""
        return self.gamma == "tune" or isinstance(self.gamma, tuple)


def untuned_width(gamma: Candidates) -> Candidates:
    """The width where nothing can be held out: the first of a list, or that of the scale of the rows."""
    return gamma[0] if isinstance(gamma, tuple) else "scale" if gamma == "tune" else gamma


def kernels_to_try(training: Training, kernel: Kernel, gamma: Candidates, spec: BasisSpec, seed: int) -> list[Kernel]:
    """The kernel with every width to try, on a basis as `spec` says."""
    if not kernel.has_width:
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
            weights = take(training.weights, rows)
            scale = scale_gamma(take(features, rows), weights)
        widths = scale * (GAMMA_STEPS if gamma == "tune" else np.ones(1))
    return [replace(kernel, gamma=float(width)) for width in widths]


# ---------------------------------------------------------------- problems


@dataclass(frozen=True)
class Settings:
    """What a learner was asked for, checked.

    alpha, agreement : a number, "tune" or candidates
    centred : whether the mean score is taken out first and put back (an intercept)
    compared : whether held-out errors are wanted although neither alpha nor agreement is chosen by them
    solver, max_iter, tol : how the chosen parameters are solved for; see `CoRLS`
    """

    alpha: Candidates
    agreement: Candidates = 0.0
    scoring: Scoring = "squared"
    centred: bool = False
    seed: int = 0
    compared: bool = False
    solver: str = "direct"
    max_iter: int = 1000
    tol: float = 1e-8

    @property
    def tunes(self) -> bool:
        """Whether anything is chosen by held-out error."""
        return self.compared or not (isinstance(self.alpha, float) and isinstance(self.agreement, float))


@dataclass(frozen=True)
class HeldProblem:
    """Views of rows in memory.

    choices : the views with every choice of kernel widths
    dual : whether the basis of every view is its scored and all unscored rows, or the columns of one view
    splits : what `read_splits` read, None for the default
    """

    choices: Iterable[Sequence[ViewData]]
    unscored: Unscored | None = None
    dual: bool = False
    splits: Index | Splits | None = None

    def prepared(
        self, views: Sequence[ViewData], settings: Settings
    ) -> tuple[DualSystem | PrimalSystem, Folding | Splits | None]:
        """The system and its folds; sums of folds are gathered in the same pass as the system."""
        dual = self.dual
        if len(views) == 1:  # more comparisons than rows are cheaper by rows
            dual = dual and views[0].problem.operator.n_roots <= views[0].basis.size
        system = DualSystem(views, self.unscored) if dual else PrimalSystem(views, self.unscored)
        if not settings.tunes:
            return system, None
        folds = self._folds(system, settings.seed)
        if (
            isinstance(system, PrimalSystem)
            and isinstance(folds, Folding)
            and folds.n_folds <= MAX_FOLDS_WITH_SUMS
            and hold_out_way(system, folds) == "sums"
        ):
            system.gather(folds)
        return system, folds

    def _folds(self, system: DualSystem | PrimalSystem, seed: int) -> Folding | Splits | None:
        if self.splits is not None:
            return given_folding(system.problems, self.splits, items=system.groups is None)
        return self._default_folding(system, seed)

    def _default_folding(self, system: DualSystem | PrimalSystem, seed: int) -> Folding | None:
        n_features = system.size if isinstance(system, PrimalSystem) else None
        return default_folding(system.problems, system.groups, seed, n_features=n_features)

    def constant(self, system: Any, offset: float, scoring: Scoring) -> float:
        """From the scored rows."""
        return constant_error(system.problems, offset, scoring)

    def evidence(self, trial: Trial, settings: Settings) -> Evidence:
        """The kernel between units where they are few, else the errors, or the system as long as it is small."""
        system, errors = trial.system, trial.errors
        folding = self._folds(system, settings.seed) if trial.folds is None else trial.folds
        if folding is not None and not isinstance(folding, Folding):
            folding, errors = self._default_folding(system, settings.seed), None
        if folding is not None and folding.items and not has_item_form(system.problems):
            folding = None
        few = folding is not None and system.few_units
        # what is missing is made when it is asked for, as long as it is no burden to keep
        source: Any = system if system.size <= MAX_KEPT_SIZE else None
        if errors is not None and (few or 0.0 in trial.grid.agreements):
            source = system.cokernel if few else None
        return _evidence(trial, settings, source, None if few else errors, folding)


@dataclass
class ScoredScan:
    """The scored rows of a scan after its first pass.

    level : is taken out of the scores
    """

    scan: Scan
    look: Survey
    passes: Passes
    comparison: Loss
    level: float
    _n_passes: int = field(default=0, init=False)

    @property
    def n_queries(self) -> int:
        """Queries with a score, 1 where there is no query column."""
        return self.look.offsets()[1] if self.scan.has_queries else 1

    def folds(self, seed: int) -> Folds | None:
        """At most ten folds of queries, of rows, or of items of the only query; None for too little."""
        offsets, _ = self.look.offsets()
        n = self.n_queries
        if n > 1:
            return Folds("query", min(N_FOLDS, n), seed, offsets)
        n = self.look.n_scored
        if self.comparison.needs_queries:
            return Folds("row", min(N_FOLDS, n // 2), seed, offsets) if n >= 4 else None
        return Folds("row", min(N_FOLDS, n), seed, offsets) if n > 1 else None

    def summed(
        self, features: Any, folds: Folds | None, columns: list[Index] | None, unscored: Unscored | None
    ) -> Statistics:
        """One pass: the sums of every fold, and those of the unscored rows of the scan, which are kept. O(n r (r + d))."""
        items = self.comparison.needs_queries and self.n_queries == 1
        job = SumJob(self.comparison, features, "scored", columns, folds, items, self.level)
        self._n_passes += 1
        others = [] if unscored is None else [part for part in unscored.rows.parts if isinstance(part, ScannedRows)]
        beside = [part for part in others if part.scan is self.scan]
        jobs = [job, *(part.sum_job(unscored.comparison, features, columns) for part in beside)]  # type: ignore[union-attr]
        name = f"sums-scored-{self._n_passes}"
        sums = self.passes.run(self.scan, JointSumJob(tuple(jobs)), name, "summing scored rows", self.look.n_rows).sums
        for part, part_job, part_sums in zip(beside, jobs[1:], sums[1:], strict=True):
            part.keep(part_job, part_sums.closed())
        return sums[0].closed()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class SummedRows:
    """Stands for scored rows of which there are only sums."""

    comparison: Loss
    n_queries: int
    reference: Array


@dataclass(frozen=True)
class ScannedProblem:
    """Views of the scored rows of a scan, which only pass by: everything comes from sums, one pass per kernel width."""

    choices: Iterable[Sequence[ViewData]]
    rows: ScoredScan
    unscored: Unscored | None

    def prepared(self, views: Sequence[ViewData], settings: Settings) -> tuple[PrimalSystem, Folding | None]:
        """The system from one pass, with sums for every fold."""
        folds = self.rows.folds(settings.seed) if settings.tunes else None
        joint = JointFeatures([view.basis for view in views])
        features: Any = joint
        columns: Any = [view.columns for view in views]
        if len(views) == 1 and views[0].columns is None:
            features, columns = joint.maps[0], None
        sums = self.rows.summed(features, folds, columns, None if settings.agreement == 0.0 else self.unscored)
        system = PrimalSystem(views, self.unscored, statistics=[joint.whitened(sums)])
        return system, None if folds is None else Folding([np.arange(folds.n_folds)])

    def constant(self, system: Any, offset: float, scoring: Scoring) -> float:
        """From the sums over all scored rows."""
        gram = system.grams[0]
        return float(gram.loss(0.0 * gram.right(), offset)[0] / max(gram.freedom, 1))

    def evidence(self, trial: Trial, settings: Settings) -> Evidence:
        """The errors that were found."""
        folding = trial.folds if trial.errors is not None and isinstance(trial.folds, Folding) else None
        return _evidence(trial, settings, None, trial.errors, folding)


TuningProblem: TypeAlias = HeldProblem | ScannedProblem


def _evidence(
    trial: Trial, settings: Settings, source: Any, errors: HeldOut | None, folding: Folding | None
) -> Evidence:
    return Evidence(
        source=source,
        found=errors,
        folding=folding,
        grid=trial.grid,
        scoring=settings.scoring,
        centred=settings.centred,
        seed=settings.seed,
    )


# ---------------------------------------------------------------- tuning


@dataclass(frozen=True)
class Trial:
    """One choice of kernel widths: its system, and the errors of its pairs of parameters; None where there are none."""

    system: Any
    folds: Folding | Splits | None
    grid: Grid
    errors: HeldOut | None
    best: int = -1

    @property
    def error(self) -> float:
        """The least error, infinite where there is none."""
        return float("inf") if self.errors is None else float(self.errors.mean[self.best])


@dataclass(frozen=True)
class Solution:
    """A fitted model's numbers, and how they came about.

    coefficients : (r_v,) per view
    gradient : what a descent left, relative to the right-hand side, where that is above its tolerance; else 0
    """

    views: Sequence[ViewData]
    coefficients: list[Array]
    intercept: float
    alpha: float
    agreement: float
    path: Path | None
    trial: Trial
    n_iter: int
    gradient: float

    @property
    def system(self) -> Any:
        """The system that was solved."""
        return self.trial.system


def tune(problem: TuningProblem, settings: Settings) -> Solution:
    """Choose what is to be tuned by held-out error, then solve.

    Choices come one by one, and only the best so far is kept: each holds a factorised system. Among equals it is the first:
    rounding does not choose.
    """
    best: Trial | None = None
    paths: list[Path] = []
    number = 0  # of the path of the best
    for views in problem.choices:
        system, folds = problem.prepared(views, settings)
        grid = parameter_grid(system, settings)
        trial = Trial(system, folds, grid, None)
        if folds is not None:
            errors = held_out(system, folds, grid, scoring=settings.scoring, centred=settings.centred)
            if len(errors.sizes):  # else nothing that was held out can be told apart
                trial = replace(
                    trial, errors=errors, best=chosen_pair(errors, grid, np.arange(grid.size), settings.scoring)
                )
                paths.append(_path(problem, trial, settings))
        if best is None or trial.error < (1 - EQUAL) * best.error:
            best, number = trial, max(len(paths) - 1, 0)
        if trial.errors is None:
            break
    assert best is not None
    return _solved(best, joined_path(paths, number), settings)


def parameter_grid(system: DualSystem | PrimalSystem, settings: Settings) -> Grid:
    """The alphas and agreements to try; "tune" makes both step alike, so that many pairs share their ratio."""
    alphas = GRID * system.scale if isinstance(settings.alpha, str) else np.atleast_1d(settings.alpha)
    if not isinstance(settings.agreement, str):
        return Grid(alphas, np.atleast_1d(settings.agreement))
    scale = system.agreement_scale
    if scale > 0 and isinstance(settings.alpha, str):  # onto the grid of the alphas
        scale = float(alphas[0] * STEP ** np.round(np.log(scale / alphas[0]) / np.log(STEP)))
    return Grid(alphas, AGREEMENTS * scale if scale > 0 else np.zeros(1))


def _path(problem: TuningProblem, trial: Trial, settings: Settings) -> Path:
    grid, errors = trial.grid, trial.errors
    assert errors is not None
    pairs = np.asarray([grid.pair(number) for number in range(grid.size)])
    offset = trial.system.mean_score if settings.centred else 0.0
    width = getattr(getattr(trial.system.views[0].basis, "kernel", None), "gamma", None)
    constant = problem.constant(trial.system, offset, settings.scoring)
    alphas, agreements = pairs.T
    return Path.of(errors, trial.best, settings.scoring, constant, alpha=alphas, gamma=width, agreement=agreements)


def joined_path(paths: Sequence[Any], best: int | None = None) -> Any:
    """The paths of several kernel widths as one; None for no paths. best : number of the path to take, None: least error."""
    if len(paths) < 2:
        return paths[0] if paths else None
    if best is None:
        best = int(np.argmin([float(path.error[path.best]) for path in paths]))
    columns = [name for name, value in vars(paths[best]).items() if isinstance(value, np.ndarray)]
    joined: Any = {name: np.concatenate([getattr(path, name) for path in paths]) for name in columns}
    return replace(paths[best], **joined, best=sum(len(path.error) for path in paths[:best]) + paths[best].best)


def _solved(trial: Trial, path: Path | None, settings: Settings) -> Solution:
    """The solution of a trial at its best pair of parameters."""
    system, grid = trial.system, trial.grid
    alpha, agreement = grid.pair(trial.best if trial.errors is not None else grid.size - 1)
    if trial.errors is None and isinstance(settings.alpha, str):
        alpha = system.scale
    if trial.errors is None and isinstance(settings.agreement, str):
        agreement = 0.0  # no held-out error shows that agreement helps
    offset = system.mean_score if settings.centred else 0.0
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
        coefficients = system.to_bases(descent.solution)
        n_iter, gradient = descent.n_iter, descent.gradient if descent.gradient > settings.tol else 0.0
    vectors = [columns[:, 0] for columns in coefficients]
    return Solution(system.views, vectors, offset, alpha, agreement, path, trial, n_iter, gradient)
