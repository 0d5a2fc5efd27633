"""The alpha path: which alphas to try, what was found, which one to take.

From training data and settings to one solution: kernel width and alpha chosen, coefficients solved.

From views of the data and settings to one solution: alpha and agreement chosen, every view's coefficients solved.

From a scan with more scored rows than memory to one solution: everything from sums, one pass a kernel width.

Views that agree where the scored rows, too, are only passed over: everything from the sums of all views together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut, check_cv

from corank._arrays import Array, FloatArray, Index, add_diagonal, like, namespace, take, to_numpy
from corank._plotting import draw_path
from corank.basis import (
    Basis,
    BasisSpec,
    FeatureBasis,
    FeatureMap,
    KernelBasis,
    Selection,
    candidate_limit,
    candidate_rows,
    choose_rows,
    make_basis,
)
from corank.gram import Gram, Statistics
from corank.kernels import WITH_GAMMA, Kernel, scale_gamma
from corank.loss import Loss
from corank.model_files.packing import storable
from corank.problem import Problem, ScoredRows
from corank.solvers.co_kernel import CoKernel
from corank.solvers.coordinate_descent import descend
from corank.solvers.folds import (
    N_FOLDS,
    Folding,
    Grid,
    Splits,
    covers_groups,
    folds_of_splits,
    natural_folds,
    own_folds,
    splits_of_folds,
)
from corank.solvers.holdout import (
    HeldOut,
    Scoring,
    chosen_pair,
    chosen_position,
    errors_from_sums,
    has_closed_form,
    held_out,
    held_out_views,
    joined,
    keeps_sums,
    losses_from_sums,
    pooled,
    refitted,
    refitted_views,
)
from corank.solvers.least_squares import (
    AgreementSystem,
    DualAgreement,
    DualSystem,
    JointFeatures,
    PrimalAgreement,
    PrimalSystem,
    System,
    Unscored,
    ViewData,
    block_diagonal,
    mean_score,
    same_scores,
)
from corank.solvers.unscored_effect import Evidence
from corank.streaming import Scan
from corank.streaming.passes import Passes
from corank.streaming.sums import Folds, SumJob
from corank.streaming.survey import Survey

if TYPE_CHECKING:
    from matplotlib.axes import Axes


GRID = np.logspace(-6, 3, 20)  # in units of the mean eigenvalue of the loss


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


def alpha_grid(scale: float) -> FloatArray:
    """Twenty alphas around what the data ask for (math.md section 3)."""
    return np.asarray(GRID * (scale if scale > 0 else 1.0))


def constant_error(problems: Sequence[Problem], offset: float, scoring: str) -> float:
    """The error of a constant: ‖J (s − mean)‖² over the rank of the loss, or one half of the pairs."""
    if scoring == "disagreement":
        return 0.5
    loss = size = 0.0
    for problem in problems:
        targets = problem.targets
        loss += float(namespace(targets).sum((targets[:, 0] - offset * targets[:, 1]) ** 2))
        size += problem.freedom(np.arange(int(targets.shape[0])))
    return loss / max(size, 1.0)


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
class WidthCandidate:
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


def _candidate(training: Training, settings: Settings, kernel: Kernel, given: Index | Splits | None) -> WidthCandidate:
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
    return WidthCandidate(basis, rows, system, alphas, errors)


def alphas_to_try(system: System, settings: Settings) -> FloatArray:
    """Those that were given, or a grid at the scale of the data."""
    return alpha_grid(system.scale) if isinstance(settings.alpha, str) else np.atleast_1d(settings.alpha)


def choose(
    found: Iterable[WidthCandidate], settings: Settings, constant: float
) -> tuple[WidthCandidate, float, Path | None]:
    """The candidate and alpha of least error; without errors the first one at the scale of the data.

    Candidates come one by one, and only the best so far is kept: each holds a factorised system.
    """
    kept: WidthCandidate | None = None
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


STEP = GRID[1] / GRID[0]
AGREEMENTS = np.r_[0.0, 10.0 * STEP ** (2.0 * np.arange(-4, 5))]  # in units of where both losses weigh the same

KEPT_SIZE = 2_000  # of a system that a model keeps to judge fixed parameters with


@dataclass(frozen=True)
class CoSettings:
    """What a learner was asked for, checked.

    dual : every view's basis is its scored and all unscored rows
    splits : of the rows scored in any view, or of the comparisons, where the learner's own folds will not do
    compared : held-out errors are wanted although nothing is chosen by them here
    """

    alpha: float | str | tuple[float, ...]
    agreement: float | str | tuple[float, ...]
    dual: bool
    splits: Splits | None = None
    scoring: Scoring = "squared"
    centred: bool = False
    seed: int = 0
    solver: str = "direct"
    max_iter: int = 1000
    tol: float = 1e-8
    compared: bool = False

    @property
    def tunes(self) -> bool:
        """Whether anything is chosen by held-out error."""
        return self.compared or not (isinstance(self.alpha, float) and isinstance(self.agreement, float))


@dataclass(frozen=True)
class CoSolution:
    """Coefficients (r_v,) of every view, and how they came about.

    gradient : what a descent left, relative to the right-hand side; 0 for a direct solution
    """

    coefficients: list[Array]
    intercept: float
    alpha: float
    agreement: float
    path: Path | None
    system: AgreementSystem
    evidence: Evidence
    n_iter: int | None = None
    gradient: float = 0.0


def solve_views(views: Sequence[ViewData], unscored: Unscored, settings: CoSettings) -> CoSolution:
    """Choose what is to be tuned by held-out error, then solve."""
    make: Any = DualAgreement if settings.dual else PrimalAgreement
    system: AgreementSystem = make(views, unscored)
    grid = grid_of(system, settings)
    alpha, agreement, path = float(grid.alphas[-1]), float(grid.agreements[-1]), None
    offset = mean_score([view.problem for view in views]) if settings.centred else 0.0
    found = None
    if settings.tunes:
        found = _tried(system, unscored, grid, settings)
        if found is None:
            alpha = system.scale if isinstance(settings.alpha, str) and system.scale > 0 else alpha
            agreement = 0.0 if isinstance(settings.agreement, str) else agreement  # no proof, no agreement
        else:
            path = _path(found, grid, views, offset, settings.scoring)
            alpha, agreement = grid.pair(path.best)
    return solved(system, alpha, agreement, offset, path, _evidence(system, grid, found, settings), settings)


def solved(
    system: AgreementSystem,
    alpha: float,
    agreement: float,
    offset: float,
    path: Path | None,
    evidence: Evidence,
    settings: CoSettings,
) -> CoSolution:
    """The solution at a pair of parameters, by the solver that was asked for."""
    if settings.solver == "direct":
        parts = system.solve(alpha, agreement, offset)
        return CoSolution([p[:, 0] for p in parts], offset, alpha, agreement, path, system, evidence)
    assert isinstance(system, PrimalAgreement)
    if settings.solver == "partitioned":
        parts = system.solve_partitioned(alpha, agreement, offset)
        return CoSolution([p[:, 0] for p in parts], offset, alpha, agreement, path, system, evidence)
    descent = descend(
        add_diagonal(system.matrix(agreement), alpha),
        system.right(offset),
        system.ends,
        max_iter=settings.max_iter,
        tol=settings.tol,
        accelerated=settings.solver == "accelerated",
    )
    parts = system.to_bases(descent.solution)
    return CoSolution(
        [p[:, 0] for p in parts],
        offset,
        alpha,
        agreement,
        path,
        system,
        evidence,
        n_iter=descent.n_iter,
        gradient=descent.gradient if descent.gradient > settings.tol else 0.0,
    )


def grid_of(system: AgreementSystem, settings: CoSettings) -> Grid:
    """The alphas and agreements to try; those of the learner's own step alike, so that many pairs share their ratio."""
    alphas = GRID * (system.scale or 1.0) if isinstance(settings.alpha, str) else np.atleast_1d(settings.alpha)
    if not isinstance(settings.agreement, str):
        return Grid(alphas, np.atleast_1d(settings.agreement))
    scale = system.agreement_scale
    if scale > 0 and isinstance(settings.alpha, str):  # onto the grid of the alphas
        scale = float(alphas[0] * STEP ** np.round(np.log(scale / alphas[0]) / np.log(STEP)))
    return Grid(alphas, AGREEMENTS * scale if scale > 0 else np.zeros(1))


def _tried(system: AgreementSystem, unscored: Unscored, grid: Grid, settings: CoSettings) -> HeldOut | None:
    """The held-out errors of every pair; None where there is too little to hold anything out."""
    folding = own_folds(system.views, settings.splits, settings.seed)
    if folding is None:
        return None
    if isinstance(folding, Folding):
        found = held_out_views(
            system, folding, grid, scoring=settings.scoring, centred=settings.centred, seed=settings.seed
        )
    else:
        found = refitted_views(system, unscored, folding, grid, scoring=settings.scoring, centred=settings.centred)
    return found if len(found.sizes) else None  # nothing that was held out can be told apart


def _evidence(system: AgreementSystem, grid: Grid, found: HeldOut | None, settings: CoSettings) -> Evidence:
    """What it takes to judge the choice afterwards."""
    folding = own_folds(system.views, settings.splits, settings.seed)
    if not isinstance(folding, Folding) and settings.splits is not None:
        folding, found = own_folds(system.views, None, settings.seed), None
    closed = folding if isinstance(folding, Folding) else None
    few = system.few and closed is not None
    # what is missing is made when it is asked for, as long as it is no burden to keep
    source: CoKernel | AgreementSystem | None = system if system.size <= KEPT_SIZE else None
    if found is not None and (few or 0.0 in grid.agreements):
        source = system.cokernel if few else None
    return Evidence(
        source=source,
        found=None if few else found,
        folding=closed,
        grid=grid,
        scoring=settings.scoring,
        centred=settings.centred,
        seed=settings.seed,
    )


def _path(found: HeldOut, grid: Grid, views: Sequence[ViewData], offset: float, scoring: Scoring) -> Path:
    pairs = np.asarray([grid.pair(k) for k in range(grid.size)])
    problems = [view.problem for view in (views[:1] if same_scores([v.problem for v in views]) else views)]
    return Path(
        alpha=pairs[:, 0],
        gamma=np.full(grid.size, np.nan),
        error=found.mean,
        standard_error=found.standard_error,
        best=chosen_pair(found, grid, np.arange(grid.size), scoring),
        scoring=scoring,
        constant=constant_error(problems, offset, scoring),
        agreement=pairs[:, 1],
    )


@dataclass
class ScoredScan:
    """The scored rows of a scan, which was looked at.

    level : is taken out of the scores
    """

    scan: Scan
    look: Survey
    passes: Passes
    comparison: Loss
    level: float = 0.0
    _passed: int = field(default=0, init=False)

    @property
    def n_queries(self) -> int:
        """Queries with a score, 1 where there is no query column."""
        return self.look.offsets()[1] if self.scan.has_queries else 1

    def folds(self, seed: int) -> Folds | None:
        """The learner's own: at most ten of queries, of rows, or of items of the only query; None for too little."""
        offsets, _ = self.look.offsets()
        n = self.n_queries
        if n > 1:
            return Folds("query", min(N_FOLDS, n), seed, offsets)
        n = self.look.n_scored
        if self.comparison.needs_queries:
            return Folds("row", min(N_FOLDS, n // 2), seed, offsets) if n >= 4 else None
        return Folds("row", min(N_FOLDS, n), seed, offsets) if n > 1 else None

    def summed(self, features: Any, size: int, folds: Folds | None, columns: list[Index] | None = None) -> Statistics:
        """One pass: the sums of every fold. O(n r (r + d))."""
        items = self.comparison.needs_queries and self.n_queries == 1
        job = SumJob(self.comparison, features, size, "scored", columns, folds, items, self.level)
        self._passed += 1
        name, what = f"sums-scored-{self._passed}", "summing scored rows"
        return self.passes.run(self.scan, job, name, what, self.look.n_rows).closed()  # type: ignore[no-any-return]


def solve_streamed(rows: ScoredScan, settings: Settings) -> tuple[Solution, Gram]:
    """Choose what is to be tuned by held-out error, then solve; the sums over all rows beside it.

    The same choices as `solve` makes in memory, on the same folds and candidates. `basis` is a number or "features".
    """
    folds = rows.folds(settings.seed) if settings.tunes else None
    found = list(_candidates(rows, settings, folds))
    gram = found[0].system.gram  # type: ignore[attr-defined]
    offset = gram.mean_score if settings.centred else 0.0
    chosen, alpha, path = choose(found, settings, constant_loss(gram, offset))
    coefficients = chosen.system.solve(alpha, offset)
    return Solution(chosen.basis, chosen.rows, coefficients, offset, alpha, chosen.system, path), gram


def constant_loss(gram: Gram, offset: float) -> float:
    """The error of a constant: ‖J (s − offset)‖² over the rank of the loss."""
    return float(gram.loss(0.0 * gram.right(), offset)[0]) / max(gram.freedom, 1)


def _candidates(rows: ScoredScan, settings: Settings, folds: Folds | None) -> Iterator[WidthCandidate]:
    for kernel in _kernels(rows, settings):
        basis, numbers = _basis(rows, settings, kernel)
        phi = FeatureMap(basis)
        white = basis.whitening
        sums = rows.summed(phi, phi.size, folds)
        system = PrimalSystem(basis, sums if white.inside or white.trivial else sums.mapped(white.matrix))
        alphas: FloatArray = alphas_to_try(system, settings)
        errors = None
        if folds is not None:
            parts = losses_from_sums(system, alphas, folds.n_folds, settings.scoring, settings.centred)
            errors = pooled([parts])
        yield WidthCandidate(basis, numbers, system, alphas, errors)


def _pool(rows: ScoredScan, settings: Settings) -> tuple[Index, Array]:
    """Row numbers and features of the candidates for the basis."""
    assert isinstance(settings.basis, int)
    numbers, features = rows.look.scored.cut(candidate_limit(settings.basis)).rows()
    return numbers, features


def _kernels(rows: ScoredScan, settings: Settings) -> list[Kernel]:
    """The kernel with every width to try."""
    kernel, gamma = settings.kernel, settings.gamma
    if not (isinstance(kernel.name, str) and kernel.name in WITH_GAMMA):
        return [kernel]
    if isinstance(gamma, float | tuple):
        widths = np.atleast_1d(gamma)
    else:
        scale = scale_gamma(_pool(rows, settings)[1], None)
        widths = scale * (GAMMA_STEPS if gamma == "tune" else np.ones(1))
    return [replace(kernel, gamma=float(width)) for width in widths]


def _basis(rows: ScoredScan, settings: Settings, kernel: Kernel) -> tuple[Basis, Index | None]:
    if isinstance(settings.basis, str):
        return FeatureBasis(rows.scan.n_features, rows.scan.reference()), None
    assert isinstance(settings.basis, int)
    numbers, pool = _pool(rows, settings)
    rng = np.random.default_rng(settings.seed)
    chosen = choose_rows(kernel, pool, min(settings.basis, len(numbers)), settings.selection, rng)
    return KernelBasis(kernel, take(pool, chosen)), numbers[chosen]


@dataclass(frozen=True)
class SummedRows:
    """Stands for scored rows of which there are only sums."""

    comparison: Loss
    n_queries: int
    reference: Array


class StreamedAgreement(PrimalAgreement):
    """The same system from sums of all views' features side by side.

    Parameters
    ----------
    views : whose problems are `SummedRows`
    sums : of every fold, over the features of all views, before whitening
    """

    def __init__(self, views: Sequence[ViewData], unscored: Unscored, sums: Statistics) -> None:
        super().__init__(views, unscored)
        maps = [FeatureMap(view.basis) for view in views]
        white = [
            like(np.eye(phi.size), views[0].problem.reference) if phi.whitened else view.basis.whitening.matrix
            for phi, view in zip(maps, views, strict=True)
        ]
        self.sums = sums.mapped(block_diagonal(white))

    @cached_property
    def total(self) -> Gram:
        """The sums over all scored rows."""
        return self.sums.total()

    @cached_property
    def kept(self) -> list[Statistics]:
        """Each view's part of them; parts of the only query, which may grow, apart from its Gram matrix."""
        whole = self.sums.collapsed()
        return [whole.of_features(np.arange(begin, end)) for begin, end in pairwise(self.ends)]

    @cached_property
    def grams(self) -> list[Gram]:
        """The same, the only query closed."""
        return [own.total() for own in self.kept]

    def penalised(self) -> Statistics:
        """The sums of features that have the penalties of their views inside."""
        roots = np.concatenate([np.full(e - b, v.penalty**-0.5) for v, (b, e) in self._spans()])
        return self.sums.mapped(like(np.diag(roots), self.total.matrix))

    def _spans(self) -> list[tuple[ViewData, tuple[int, int]]]:
        return list(zip(self.views, pairwise(self.ends), strict=True))

    @property
    def n_units(self) -> int:
        """Scored rows, over all views."""
        return len(self.views) * round(self.total.weight)

    @property
    def few(self) -> bool:
        """They are many."""
        return False


def solve_streamed_views(
    views: Sequence[ViewData], unscored: Unscored, rows: ScoredScan, settings: CoSettings
) -> CoSolution:
    """Choose what is to be tuned by held-out error, then solve; as `solve_views` does where sums of folds serve it."""
    folds = _folds(rows, settings) if settings.tunes else None
    features = JointFeatures([FeatureMap(view.basis) for view in views])
    sums = rows.summed(features, features.size, folds, [view.columns for view in views])
    system = StreamedAgreement(views, unscored, sums)
    grid = grid_of(system, settings)
    alpha, agreement, path, found = float(grid.alphas[-1]), float(grid.agreements[-1]), None, None
    offset = system.total.mean_score if settings.centred else 0.0
    folding = None
    if folds is not None:
        errors = errors_from_sums(
            system, [system.penalised()], folds.n_folds, grid, centred=settings.centred, together=True
        )
        found = joined(errors, settings.scoring)
        found = found if len(found.sizes) else None  # nothing that was held out can be told apart
    if found is None and settings.tunes:
        alpha = system.scale if isinstance(settings.alpha, str) and system.scale > 0 else alpha
        agreement = 0.0 if isinstance(settings.agreement, str) else agreement
    elif found is not None and folds is not None:
        folding = Folding([np.arange(folds.n_folds)], items=False)
        pairs = np.asarray([grid.pair(k) for k in range(grid.size)])
        path = Path(
            alpha=pairs[:, 0],
            gamma=np.full(grid.size, np.nan),
            error=found.mean,
            standard_error=found.standard_error,
            best=chosen_pair(found, grid, np.arange(grid.size), settings.scoring),
            scoring=settings.scoring,
            constant=constant_loss(system.total, offset),
            agreement=pairs[:, 1],
        )
        alpha, agreement = grid.pair(path.best)
    known: dict[str, Any] = {"scoring": settings.scoring, "centred": settings.centred, "seed": settings.seed}
    evidence = Evidence(source=None, found=found, folding=folding, grid=grid, **known)
    return solved(system, alpha, agreement, offset, path, evidence, settings)


def _folds(rows: ScoredScan, settings: CoSettings) -> Folds | None:
    if rows.comparison.needs_queries and rows.n_queries == 1:
        raise ValueError(
            "to tune alpha and agreement on items of one query their scores must be in memory, but they are too many; "
            "name a query column, or give both as numbers."
        )
    return rows.folds(settings.seed)
