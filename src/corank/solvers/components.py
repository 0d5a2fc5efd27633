"""The largest eigenvalues of a kernel matrix without its full eigendecomposition.

Least squares on kernel principal components, for every number of them from one factorisation (002).

Components are those of the kernel centred on the rows of the problem, largest first; a function on p of them minimises
‖J (s − Ψ_p c)‖² + alpha ‖c‖². With J Ψ = Q R the predictions of all p are running sums over the columns of Ψ R⁻¹
(math.md E-P2-1). A component that adds nothing to what is compared, once those before it are there, gets no weight.
`RowComponents` factorises rows, `SummedComponents` the sums of one pass.

From training data and settings to a function on components: width, alpha and number of components chosen, solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from corank._arrays import (
    Array,
    FloatArray,
    Index,
    eigh,
    like,
    namespace,
    subtract_symmetric,
    symmetrised,
    take,
    to_numpy,
)
from corank._messages import warn_user
from corank.basis import EIGENVALUE_CUT, Basis, BasisSpec, KernelBasis, Selection, Whitening, make_basis
from corank.gram import N_TARGETS, Gram, Statistics
from corank.kernels import Kernel, finite_values
from corank.loss import PairLoss, QueryLoss, WithinQueries
from corank.problem import ComparedRows, Problem, ScoredRows
from corank.rows import Rows
from corank.solvers.column_path import Triangle, left_out, triangle_of, triangle_of_gram
from corank.solvers.folds import Splits, default_folding, fold_blocks, fold_splits, read_splits, split_codes
from corank.solvers.holdout import (
    MAX_FOLDS_WITH_SUMS,
    HeldOut,
    Scoring,
    errors_of,
    in_place,
    kept_means,
    losses_from_sums,
    pooled,
    unit_predictions,
    without_offsets,
)
from corank.solvers.least_squares import whitened_statistics
from corank.solvers.tuning import Path, Training, constant_error, kernels_to_try

SHARE = 0.1  # of the eigenvalues: for more of them the full decomposition is as fast
SMALL = 3_000  # rows up to which it always is
LARGE = 10_000  # rows up to which it is an alternative where the iteration does not settle
DEPTH = 3  # products with the matrix between two restarts
RESTARTS = 40
WORTH_IT = 5  # n³ operations that the iteration may take where the full decomposition, about ten, is an alternative
TOLERANCE = 1e-9  # of the residual, beside its own eigenvalue
ROUGHER = 1e-6  # the same for more than LARGE rows
ROUNDING = 1e-13  # of the residual, beside the largest one


def leading_eigenpairs(matrix: Array, count: int, size: float | None = None, seed: int = 0) -> tuple[Array, Array]:
    """The `count` largest eigenvalues, largest first, and their eigenvectors.

    A block Krylov iteration restarted with the Ritz vectors: O(n² count) a product, a few dozen products, next to no
    memory beside the matrix; the full decomposition where that is cheaper.

    Parameters
    ----------
    matrix : (n, n) symmetric positive semi-definite
    size : of kernel values; see `eigh`

    Returns
    -------
    (count,), (n, count)
    """
    n = int(matrix.shape[0])
    if n > SMALL and count <= SHARE * n:
        values, vectors, settled = _restarted(matrix, count, seed)
        if not settled and n > LARGE:
            warn_user(
                f"the {count} leading components did not settle: the last of them explain about the same. "
                "Fewer components, or a basis of some rows, are better determined.",
                ConvergenceWarning,
            )
        if settled or n > LARGE:
            return values, vectors
    values, vectors = eigh(matrix, size)
    xp = namespace(matrix)
    return xp.flip(values[n - count :]), xp.flip(vectors[:, n - count :], axis=1)


def _restarted(matrix: Array, count: int, seed: int) -> tuple[Array, Array, bool]:
    """What was found, and whether it settled."""
    xp = namespace(matrix)
    n = int(matrix.shape[0])
    width = count + max(10, count // 5)
    start = np.random.default_rng(seed).standard_normal((n, width))
    ritz, _ = xp.linalg.qr(like(start, matrix))
    image = matrix @ ritz
    restarts = RESTARTS if n > LARGE else min(RESTARTS, max(2, int(WORTH_IT * n / (3 * DEPTH * width))))
    tolerance = TOLERANCE if n <= LARGE else ROUGHER
    first, settled = 0.0, False
    for restart in range(1, restarts + 1):
        basis, images = ritz, image
        for _ in range(DEPTH):
            block = _orthonormal(images[:, -width:], basis)
            basis = xp.concat([basis, block], axis=1)
            images = xp.concat([images, matrix @ block], axis=1)
        values, vectors = xp.linalg.eigh(symmetrised(basis.T @ images))
        best = xp.flip(vectors[:, -width:], axis=1)
        values = xp.flip(values[-width:])
        ritz, image = basis @ best, images @ best
        gaps = image[:, :count] - ritz[:, :count] * values[None, :count]
        residuals = xp.sqrt(xp.sum(gaps * gaps, axis=0))
        largest = float(values[0])
        allowed = tolerance * xp.abs(values[:count]) + ROUNDING * largest
        settled = bool(xp.all(residuals <= allowed))
        if settled or restart == restarts:
            break
        worst = float(np.log(float(xp.max(residuals)) / float(xp.max(allowed))))
        first = first or worst
        pace = (first - worst) / max(restart - 1, 1)
        if n <= LARGE and restart > 2 and worst > max(pace, 0.0) * (restarts - restart):
            break  # it would take too long
    values = values[:count]
    return xp.where(values > 0, values, xp.zeros_like(values)), ritz[:, :count], settled


def _orthonormal(block: Array, basis: Array) -> Array:
    """An orthonormal basis of what a block adds; directions that add nothing become arbitrary new ones."""
    xp = namespace(block)
    for _ in range(2):
        block = block - basis @ (basis.T @ block)
        block, _ = xp.linalg.qr(block)
    return block


@dataclass(frozen=True)
class ComponentBasis:
    """Components as functions on a basis: (Φ(x) − centre) `matrix`, each of norm 1 and of mean 0 over the rows.

    matrix : (r, p); eigenvalues : (p,) their sums of squares over the rows; centre : (r,)
    """

    basis: Basis
    matrix: Array
    eigenvalues: Array
    centre: Array

    @property
    def size(self) -> int:
        """Number of basis functions."""
        return self.basis.size

    @property
    def n_components(self) -> int:
        """Number of components that the rows carry, at most as many as were asked for."""
        return int(self.matrix.shape[1])

    @property
    def explained(self) -> Array:
        """The eigenvalues, 0 of a component that is none."""
        xp = namespace(self.matrix)
        live = xp.any(self.matrix != 0, axis=0)
        return xp.where(live, self.eigenvalues, xp.zeros_like(self.eigenvalues))

    def features(self, X: Array) -> Array:
        """Of the basis, centred, as `matrix` takes them: (n, r)."""
        return self.basis.features(X) - self.centre[None, :]

    @property
    def whitening(self) -> Whitening:
        """The components, summed as such."""
        return Whitening(self.matrix, np.inf)


# ---- components


def row_components(basis: KernelBasis, weights: Array | None, count: int, seed: int) -> ComponentBasis:
    """Components of the kernel centred on the basis points, which are the rows, with weights (n,).

    O(n² count) a step of the iteration for few components of many rows, else O(n³); n² numbers of memory.
    """
    matrix = finite_values(basis.gram)
    xp = namespace(matrix)
    n = int(matrix.shape[0])
    own = like(np.ones(n), matrix) if weights is None else weights
    size = float(xp.max(own * xp.abs(xp.linalg.diagonal(matrix))))
    means = (own @ matrix) / xp.sum(own)
    centring = QueryLoss(WithinQueries("size"), None, 1, weights, matrix, n)
    level = centring.root_weights / xp.sqrt(centring.totals[0])
    matrix = centring.conjugate(matrix)
    rest = level @ matrix  # what rounding in a sum of n numbers left of the mean
    rest = rest - (rest @ level) / 2 * level
    matrix = subtract_symmetric(matrix, level, rest[None, :], centring.queries)
    values, vectors = leading_eigenpairs(matrix, min(count, n), size, seed)
    values, vectors = _alive(values, vectors, _rounding(n) * size)
    # new points are not centred: a share of the level, which rounding leaves in components of small eigenvalue, would tell
    vectors -= level[:, None] * (level @ vectors)[None, :]
    vectors /= xp.sqrt(values)[None, :]
    functions = vectors if weights is None else centring.root_weights[:, None] * vectors
    return ComponentBasis(replace(basis, own_gram=None), functions, values, means)


def summed_components(problem: Problem, basis: Basis, count: int) -> ComponentBasis:
    """Nyström components: those of the basis features of the rows of a problem, from one pass. O(n r (r + d) + r³)."""
    statistics = whitened_statistics(_one_query(problem), basis)
    (moments,) = statistics.parts
    assert moments is not None
    values, vectors = eigh(statistics.total().features)
    xp = namespace(values)
    first = max(int(values.shape[0]) - count, 0)
    means = moments.mean[:-N_TARGETS]
    lost = _rounding(moments.count) ** 2 * moments.weight * float(xp.max(means**2))
    values, vectors = _alive(xp.flip(values[first:]), xp.flip(vectors[:, first:], axis=1), lost)
    white = basis.whitening.matrix  # its columns are orthogonal
    centre = white @ (means / xp.sum(white * white, axis=0))
    return ComponentBasis(basis, white @ vectors, values, centre)


def _one_query(problem: Problem) -> ScoredRows:
    """The rows of a problem as they enter the centring: all of them one query."""
    features, n = problem.features, int(problem.features.shape[0])
    weights = problem.rows.weights if isinstance(problem, ScoredRows) else None
    zeros = like(np.zeros(n), problem.reference)
    rows = Rows(features, zeros, None, 1, weights, like(np.arange(n), problem.reference, "int64"))
    return ScoredRows(rows, WithinQueries("size"))


def _rounding(n: int) -> float:
    """What taking out a mean of n numbers may leave of equal ones, beside them."""
    return 1e-15 * (n + 10)


def _alive(values: Array, vectors: Array, lost: float) -> tuple[Array, Array]:
    """Those whose eigenvalue is not lost to rounding; one where all are, for a kernel that is constant."""
    floor = max(EIGENVALUE_CUT * float(values[0]), lost)
    count = max(1, int(np.sum(to_numpy(values) > floor)))
    if float(values[0]) <= floor:
        return 0.0 * values[:1] + 1.0, 0.0 * vectors[:, :1]
    return values[:count], vectors[:, :count]


def mean_loss(problem: Problem) -> float:
    """The mean eigenvalue of the loss beside the rows' weights: what lengths of components under it are measured by.

    Beside it a component that is constant in every query is seen to be so, also where all of them are.
    """
    operator = problem.operator
    if isinstance(operator, PairLoss):
        return 2 * operator.weight / operator.n_rows
    assert isinstance(operator, QueryLoss)
    xp = namespace(operator.totals)
    weights = operator.root_weights**2
    share = weights / take(operator.totals, operator.queries)
    own = take(operator.within, operator.queries) * (1 - share) + take(operator.between, operator.queries) * share
    return float(xp.sum(weights * own) / xp.sum(weights))


# ---- rows


class RowComponents:
    """Least squares on components of all rows, by QR of their root columns J Ψ.

    Parameters
    ----------
    problem : Problem
    components : of its rows
    alpha : weight of the norm, 0 for none
    """

    def __init__(self, problem: Problem, components: ComponentBasis, alpha: float) -> None:
        self.problem, self.components, self.alpha = problem, components, alpha
        rows = components.matrix * components.eigenvalues[None, :]
        if isinstance(problem, ScoredRows) and problem.rows.weights is not None:
            rows = rows / problem.rows.weights[:, None]  # Ψ = D^-½ U λ^½, the matrix is D^½ U λ^-½
        self.rows = rows
        self.columns = problem.operator.root(rows)
        self.scales = components.eigenvalues * mean_loss(problem)

    @cached_property
    def triangle(self) -> Triangle:
        """Of J Ψ and the targets. O(n p²)."""
        return triangle_of(self.columns, self.problem.targets, self.scales, self.alpha)

    def coefficients(self, numbers: Index, offset: float) -> Array:
        """Weights of the components for each number of them: (p, len(numbers))."""
        return self.triangle.coefficients(numbers, offset)

    def held_out(self, blocks: Sequence[Index], numbers: Index, *, centred: bool) -> Array:
        """Predictions (n_units, len(numbers)) of blocks of units left out one by one, components kept.

        Blocks are unions of whole groups, or any items of the only query. O(n m p) for blocks of m.
        """
        problem, most = self.problem, int(numbers.max())
        if problem.groups is None:
            return self._items_held_out(blocks, numbers, most)
        columns = self.columns[:, :most]
        q, z = triangle_of(columns, problem.targets, self.scales[:most], self.alpha).orthonormal(columns)
        left = left_out(q, problem.targets, z, blocks, numbers)
        offsets = kept_means(problem.targets, blocks) if centred else np.zeros(len(blocks))
        return problem.predictions(without_offsets(left, blocks, offsets, int(problem.targets.shape[0])))

    def _items_held_out(self, blocks: Sequence[Index], numbers: Index, most: int) -> Array:
        """Items of the only query: their mean is left free instead of taken out, because it changes with them."""
        problem = self.problem
        assert isinstance(problem, ScoredRows)
        operator, xp = problem.operator, namespace(self.columns)
        root = operator.root_weights[:, None]
        level = root / xp.sqrt(operator.totals[0])
        targets = root * problem.reference[:, None]
        free = targets - level @ (level.T @ targets)
        columns = root * self.rows[:, :most]
        columns = columns - level @ (level.T @ columns)
        values = self.components.eigenvalues[:most]
        blocks = [block for block in blocks if len(block)]
        parts: list[Array] = []
        shared: tuple[Array, Array] | None = None
        penalty = self.alpha
        for block in blocks:
            own = take(operator.root_weights, block)
            _, within = operator.comparison.scales(
                operator.totals - xp.sum(own * own), operator.counts - float(len(block))
            )
            if shared is None or self.alpha / float(within[0]) != penalty:
                penalty = self.alpha / float(within[0])
                q, z = triangle_of(columns, free, values, penalty).orthonormal(columns)
                shared = xp.concat([level, q], axis=1), xp.concat([level.T @ targets, z], axis=0)
            (left,) = left_out(shared[0], targets, shared[1], [block], numbers + 1)
            parts.append(left[..., 0])
        return problem.predictions_of_items(in_place(blocks, parts, int(targets.shape[0])))

    def refitted(self, train: Index, test: Index, numbers: Index, *, centred: bool) -> tuple[Array, float]:
        """Predictions of test units (m, len(numbers)) by a fit to the training units, and the mean taken out."""
        kept, rows = self.problem.take(train), self._unit_rows[:, : int(numbers.max())]
        scales = self.components.eigenvalues[: rows.shape[1]] * mean_loss(kept)
        found = triangle_of(kept.unit_root(take(rows, train)), kept.targets, scales, self.alpha)
        offset = kept.mean_score if centred else 0.0
        return take(rows, test) @ found.coefficients(numbers, offset) + offset, offset

    @cached_property
    def _unit_rows(self) -> Array:
        """Ψ of a row, or the difference between the two rows of a comparison: (n_units, p)."""
        problem = self.problem
        if isinstance(problem, ComparedRows):
            return take(self.rows, problem.winners) - take(self.rows, problem.losers)
        return self.rows


# ---- sums


class SummedComponents:
    """Least squares on components, from the sums of one pass: the Cholesky factor of their Gram is R."""

    def __init__(self, components: ComponentBasis, statistics: Statistics, alpha: float, scales: Array) -> None:
        self.components, self.statistics, self.alpha, self.scales = components, statistics, alpha, scales

    @classmethod
    def of(
        cls, problem: Problem, components: ComponentBasis, alpha: float, folds: Index | None = None
    ) -> SummedComponents:
        """In one pass over the rows of a problem."""
        statistics = whitened_statistics(problem, components, folds)  # type: ignore[arg-type]
        return cls(components, statistics, alpha, components.eigenvalues * mean_loss(problem))

    def with_alpha(self, alpha: float) -> SummedComponents:
        """The same sums under another alpha."""
        return type(self)(self.components, self.statistics, alpha, self.scales)

    @cached_property
    def triangle(self) -> Triangle:
        """Of the sums over all rows."""
        return self._triangle(self.statistics.total())

    def _triangle(self, gram: Gram) -> Triangle:
        right = gram.matrix[:-N_TARGETS, -N_TARGETS:]
        return triangle_of_gram(gram.features, right, self.scales, self.alpha)

    def coefficients(self, numbers: Index, offset: float) -> Array:
        """Weights of the components for each number of them: (p, len(numbers))."""
        return self.triangle.coefficients(numbers, offset)

    def coefficients_without(self, fold: int, numbers: Index, *, centred: bool) -> tuple[Array, float]:
        """Weights of the components (p, len(numbers)) without a fold, and the mean score that was taken out."""
        gram = self.statistics.without(fold)
        offset = gram.mean_score if centred else 0.0
        return self._triangle(gram).coefficients(numbers, offset), offset

    def held_out(self, problem: Problem, folds: Index, numbers: Index, scoring: Scoring, *, centred: bool) -> HeldOut:
        """Held-out errors of every number of components from the sums of folds, which were gathered."""
        blocks = fold_blocks(folds)

        def without(fold: int) -> tuple[list[Array], float]:
            weights, offset = self.coefficients_without(fold, numbers, centred=centred)
            return [weights], offset

        if scoring != "disagreement":
            return pooled(losses_from_sums([self.statistics], without, len(blocks), scoring))
        values = []
        for fold, block in enumerate(blocks):
            (weights,), offset = without(fold)
            functions = self.components.matrix @ weights
            values.append(unit_predictions(problem, self.components, functions, block) + offset)  # type: ignore[arg-type]
        predictions = in_place(blocks, values, int(problem.targets.shape[0]))
        return pooled([errors_of(problem, predictions, folds, scoring, np.zeros(len(blocks)))])


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
        groups = None if problem.groups is None else [problem.groups]
        folding = default_folding([problem], groups, settings.seed, n_features=None if by_rows else 0)
        return None if folding is None else folding.codes[0], None
    folds = split_codes(problem, given)
    if folds is not None and (by_rows or int(folds.max()) < MAX_FOLDS_WITH_SUMS):
        return folds, None
    return None, fold_splits(given) if isinstance(given, np.ndarray) else given


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
        return system.held_out(problem, folds, numbers, scoring, centred=centred)
    blocks = fold_blocks(folds)
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
