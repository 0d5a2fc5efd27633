"""Least squares on kernel principal components, for every number of them from one factorisation
([Tsivtsivadze2009]).

Components are those of the kernel centred on the rows of the problem, largest first; a function on
p of them minimises ‖J (s − Ψ_p c)‖² + alpha ‖c‖². With J Ψ = Q R the predictions of all p are
running sums over the columns of Ψ R⁻¹ (docs/mathematics.md, sections 1.1 and 3.8). `RowComponents`
factorises rows, `SummedComponents` the sums of one pass; `solve_components` chooses kernel width,
alpha and number of components.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    eigh,
    like,
    namespace,
    subtract_symmetric,
    take,
    to_numpy,
)
from corank.core.basis import (
    EIGENVALUE_CUT,
    Basis,
    BasisSpec,
    KernelBasis,
    Selection,
    Whitening,
    basis_candidates,
    make_basis,
)
from corank.core.folds import Splits, default_codes, fold_blocks, fold_splits, split_codes
from corank.core.kernels import Kernel, finite_values
from corank.core.loss import PairLoss, QueryLoss, WithinQueries
from corank.core.observations import Problem, ScoredRows, whitened_statistics
from corank.core.sums import N_TARGETS, Gram, Statistics
from corank.solve.column_path import (
    UNTUNED_COLUMNS,
    Triangle,
    left_out,
    triangle_of,
    triangle_of_gram,
)
from corank.solve.holdout import (
    MAX_FOLDS_WITH_SUMS,
    NO_CLOSED_FORM,
    NOTHING_HELD_OUT,
    HeldOut,
    as_told,
    at_level,
    cost_without,
    errors_of,
    kept_means,
    losses_from_sums,
    pooled,
    unit_predictions,
)
from corank.solve.spectrum import in_place
from corank.solve.tuning import (
    KernelSettings,
    Path,
    Training,
    best_of,
    constant_error,
    is_open,
    kernels_to_try,
)

MAX_FULL_ROWS = 3_000  # up to which a full eigendecomposition takes a few seconds at most
# of the eigenvalues: for more of them the full decomposition is as fast as the iteration
MAX_ITERATED_SHARE = 0.1
# The iteration ends where residuals are below RESIDUAL_SHARE of their eigenvalue plus SHIFT_SHARE
# of the largest one: the shift keeps eigenvalues of zero, whose residuals are rounding, from being
# iterated for ever.
RESIDUAL_SHARE = 1e-9
SHIFT_SHARE = 1e-4
# of the iteration; where it has not settled by then the full decomposition takes its place
MAX_RESTARTS = 300

MAX_TUNED_NUMBER = 200  # components that "tune" looks at: all numbers from 1 to it
# of the rows, at most: as many components as rows predict left-out rows by the mean again
TUNED_SHARE = 0.5


# ---------------------------------------------------------------- kernel width, alpha and number of components

ComponentSystem: TypeAlias = "RowComponents | SummedComponents"


@dataclass(frozen=True, kw_only=True)
class ComponentSettings(KernelSettings):
    """What a learner was asked for, checked.

    alpha : candidates; n_components : a number, candidates, or "tune"
    turned : whether components are turned as in `ComponentBasis.turned`
    """

    alpha: tuple[float, ...]
    n_components: int | str | tuple[int, ...]
    basis: BasisSpec
    selection: Selection
    turned: bool = False

    @property
    def tunes(self) -> bool:
        """Whether anything is chosen by held-out error."""
        several = is_open(self.n_components) or is_open(self.gamma) or len(self.alpha) > 1
        return several or self.compared

    @property
    def numbers(self) -> Index:
        """The numbers of components to look at, increasing."""
        if isinstance(self.n_components, str):
            return np.arange(1, MAX_TUNED_NUMBER + 1)
        return np.unique(np.asarray(self.n_components, dtype=np.int64))


@dataclass(frozen=True)
class ComponentSolution:
    """A fitted function on components.

    rows : (r,) row numbers of the basis in X
    steps, shifts : (r, p), (p,) what every component adds to the coefficients of the basis and,
        by its centring, to the constant
    offset : the mean score taken out
    limit : number of components beyond which more change nothing
    """

    components: ComponentBasis
    rows: Index | None
    steps: Array
    shifts: Array
    offset: float
    n_components: int
    alpha: float
    limit: int
    path: Path | None
    held: FittedComponents


@dataclass(frozen=True)
class FittedComponents:
    """What a fit leaves behind to hold rows out, components kept."""

    system: ComponentSystem
    settings: ComponentSettings
    n_components: int

    def held_out(self, splits: Index | Splits | None) -> list[tuple[Problem, Array]]:
        """The problem with held-out predictions of its units (n_units,); see `ChosenViews`."""
        system, settings = self.system, replace(self.settings, compared=True)
        if splits is not None:
            settings = replace(settings, splits=splits)
        problem = system.problem
        folds = _hold_out(problem, settings, every_row=isinstance(system, RowComponents))
        if folds is None:
            raise ValueError(NOTHING_HELD_OUT)
        if not isinstance(folds, np.ndarray):
            raise ValueError(NO_CLOSED_FORM)  # noqa: TRY004
        if isinstance(system, SummedComponents):
            system = SummedComponents.of(problem, system.components, system.alpha, folds)
        numbers = np.full(1, self.n_components)
        values = system.held_out(fold_blocks(folds), numbers, centred=settings.centred)
        return [(problem, as_told(problem, values, folds))]


@dataclass(frozen=True)
class _ComponentTrial:
    """One kernel and alpha: the system, and the numbers of components looked at.

    rows : (r,) row numbers of the basis in X
    """

    system: ComponentSystem
    rows: Index | None
    numbers: Index
    path: Path | None


def solve_components(training: Training, settings: ComponentSettings) -> ComponentSolution:
    """Choose by held-out error what is to be tuned, then solve."""
    kernels = kernels_to_try(
        training, settings.kernel, settings.gamma, settings.basis, settings.seed
    )
    trial, path = best_of(
        trial for kernel in kernels for trial in _trials(training, settings, kernel)
    )
    system, components = trial.system, trial.system.components
    if path is not None and path.n_components is not None:
        number = int(path.n_components[path.best])
    else:  # the largest candidate that still makes a difference
        most = min(UNTUNED_COLUMNS, system.triangle.limit)
        number = int(max(trial.numbers[trial.numbers <= most], default=trial.numbers[0]))
    number = min(number, components.n_components)
    offset = training.problem.mean_score if settings.centred else 0.0
    steps = system.triangle.steps(components.matrix, offset)
    return ComponentSolution(
        components=components,
        rows=trial.rows,
        steps=steps,
        shifts=-(components.centre @ steps),
        offset=offset,
        n_components=number,
        alpha=system.alpha,
        limit=system.triangle.limit,
        path=path,
        held=FittedComponents(replace(system), settings, number),
    )


def _trials(
    training: Training, settings: ComponentSettings, kernel: Kernel
) -> Iterator[_ComponentTrial]:
    """One kernel with every alpha; its components are made once."""
    problem, spec = training.problem, settings.basis
    largest = len(training.index) if settings.turned else int(settings.numbers[-1])
    features, index = basis_candidates(
        spec, problem.features, training.index, training.everything, settings.seed
    )
    basis, rows = make_basis(spec, kernel, features, index, settings.selection, settings.seed)
    every_row = isinstance(basis, KernelBasis) and isinstance(spec, str)
    folds = _hold_out(problem, settings, every_row=every_row)
    system: ComponentSystem
    if isinstance(basis, KernelBasis) and isinstance(spec, str):
        components = row_components(basis, training.weights, largest, settings.seed)
        system = RowComponents(problem, components, 0.0)
    else:
        components = summed_components(problem, basis, largest)
        codes = folds if isinstance(folds, np.ndarray) else None
        system = SummedComponents.of(problem, components, 0.0, codes)
    if settings.turned:
        system = system.turned()
    limit = components.n_components
    if isinstance(settings.n_components, str):
        share = int(TUNED_SHARE * problem.features.shape[0])
        limit = min(limit, max(1, share))
    numbers = np.unique(np.minimum(settings.numbers, limit))
    for alpha in settings.alpha:
        tried = replace(system, alpha=alpha)
        yield _ComponentTrial(tried, rows, numbers, _path(tried, folds, numbers, settings, kernel))


def _hold_out(
    problem: Problem, settings: ComponentSettings, *, every_row: bool
) -> Index | Splits | None:
    """Folds that need no refitting, or splits that do; None where there is nothing to choose or to
    hold out.

    every_row : whether every row is in the basis
    """
    if not settings.tunes:
        return None
    if settings.splits is None:
        return default_codes(problem, settings.seed, n_features=None if every_row else 0)
    folds = split_codes(problem, settings.splits)
    if folds is not None and (every_row or int(folds.max()) < MAX_FOLDS_WITH_SUMS):
        return folds
    return fold_splits(settings.splits)


def _path(
    system: ComponentSystem,
    folds: Index | Splits | None,
    numbers: Index,
    settings: ComponentSettings,
    kernel: Kernel,
) -> Path | None:
    """The held-out errors of every number of components; the fewest among equals are chosen."""
    if folds is None:
        return None
    if isinstance(folds, np.ndarray):
        errors = system.errors(folds, numbers, settings)
    else:
        errors = _refitted(system, folds, numbers, settings)
    if len(errors.sizes) == 0:  # nothing that was held out can be told apart
        return None
    offset = system.problem.mean_score if settings.centred else 0.0
    least = np.nanmin(errors.mean) * (1 + 1e-12)
    return Path.of(
        errors,
        int(np.argmax(errors.mean <= least)),
        settings.scoring,
        constant_error([system.problem], offset, settings.scoring),
        alpha=system.alpha,
        gamma=kernel.gamma,
        n_components=numbers.astype(np.float64),
    )


def _refitted(
    system: ComponentSystem, splits: Splits, numbers: Index, settings: ComponentSettings
) -> HeldOut:
    """Held-out errors by one fit per split, components kept."""
    tables = []
    for train, test in splits:
        kept = system.problem.take(train)
        left = system.problem.take(test)
        offset = kept.mean_score if settings.centred else 0.0
        predictions = system.refitted(kept, train, test, numbers, offset) + offset
        fold = np.zeros(len(test), dtype=np.int64)
        tables.append(errors_of(left, predictions, fold, settings.scoring, np.full(1, offset)))
    return pooled(tables)


# ---------------------------------------------------------------- components


def leading_eigenpairs(
    matrix: Array, count: int, size: float | None, seed: int = 0
) -> tuple[Array, Array]:
    """The `count` largest eigenvalues, largest first, and their eigenvectors.

    For few eigenvalues of a large matrix by the Lanczos iteration of ARPACK: O(n²) per product with
    the matrix, about 2 to 4 `count` products, n × 2 `count` numbers of memory beside the matrix.
    Else by the full decomposition, O(n³).

    Parameters
    ----------
    matrix : (n, n) symmetric positive semi-definite
    size : of kernel values; see `eigh`

    Returns
    -------
    (count,), (n, count)
    """
    n = matrix.shape[0]
    if n > MAX_FULL_ROWS and count <= MAX_ITERATED_SHARE * n:
        try:
            return _iterated_eigenpairs(matrix, count, seed)
        except ArpackError:
            pass  # a matrix of zeros, or one whose last eigenvalues are too close to each other
    values, vectors = eigh(matrix, size)
    xp = namespace(matrix)
    largest = xp.flip(values[n - count :])
    return largest, xp.flip(vectors[:, n - count :], axis=1)


def _iterated_eigenpairs(matrix: Array, count: int, seed: int) -> tuple[Array, Array]:
    """`leading_eigenpairs` by iteration; products are made in the library and on the device of the
    matrix.
    """
    n = matrix.shape[0]
    rng = np.random.default_rng(seed)

    def product(vector: FloatArray) -> FloatArray:
        return to_numpy(matrix @ like(vector, matrix))

    operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
    start = rng.standard_normal(n)
    (largest,) = eigsh(
        operator, 1, which="LA", v0=start, maxiter=MAX_RESTARTS, tol=1e-2, return_eigenvectors=False
    )
    shift = SHIFT_SHARE * float(largest)
    values, vectors = eigsh(
        LinearOperator((n, n), matvec=lambda v: product(v) + shift * v, dtype=np.float64),
        count,
        which="LA",
        v0=rng.standard_normal(n),
        maxiter=MAX_RESTARTS,
        tol=RESIDUAL_SHARE,
    )
    values = np.maximum(values[::-1] - shift, 0.0)
    return like(values, matrix), like(np.ascontiguousarray(vectors[:, ::-1]), matrix)


@dataclass(frozen=True)
class ComponentBasis:
    """Components as functions on a basis: (Φ(x) − centre) · matrix, each of norm 1 and of mean 0
    over the rows.

    matrix : (r, p)
    eigenvalues : (p,) sums of squares of the components over the rows
    centre : (r,) mean of Φ over the rows
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
        """Number of components: as many as were asked for, or fewer where the rows carry fewer."""
        return int(self.matrix.shape[1])

    def turned(self, gram: Array) -> tuple[ComponentBasis, Array]:
        """The components, of which Ψᵀ L Ψ is the Gram matrix, turned so that it is diagonal, the
        largest first, and the turn (p, p).

        Least squares on the first of them are the spectral cut-off (docs/mathematics.md, 1.1).
        """
        _, vectors = eigh(gram)
        vectors = namespace(gram).flip(vectors, axis=1)
        squares = (vectors * vectors).T @ self.eigenvalues
        return replace(self, matrix=self.matrix @ vectors, eigenvalues=squares), vectors

    @property
    def explained(self) -> Array:
        """The eigenvalues; 0 for the one component of a kernel that is constant."""
        xp = namespace(self.matrix)
        live = xp.any(self.matrix != 0, axis=0)
        return xp.where(live, self.eigenvalues, xp.zeros_like(self.eigenvalues))

    def features(self, X: Array) -> Array:
        """Centred features of the basis, which `matrix` makes components of: (n, r)."""
        return self.basis.features(X) - self.centre[None, :]

    @property
    def whitening(self) -> Whitening:
        """The whitening under which sums over basis features are sums over components."""
        return Whitening(self.matrix, np.inf)

    def predictions(self, problem: Problem, weights: Array, units: Index) -> Array:
        """Predictions of units of a problem for columns of weights of components (p, a)."""
        return unit_predictions(problem, self, self.matrix @ weights, units)  # type: ignore[arg-type]


def row_components(
    basis: KernelBasis, weights: Array | None, count: int, seed: int
) -> ComponentBasis:
    """Components of the kernel centred on the basis points, which are the rows of the problem, with
    weights (n,).

    O(n² count) for few components of many rows, else O(n³); n² numbers of memory.
    """
    matrix = finite_values(basis.gram)
    xp = namespace(matrix)
    n = matrix.shape[0]
    row_weights = like(np.ones(n), matrix) if weights is None else weights
    diagonal = xp.abs(xp.linalg.diagonal(matrix))
    size = float(xp.max(row_weights * diagonal))
    means = (row_weights @ matrix) / xp.sum(row_weights)
    centring = QueryLoss(WithinQueries("size"), None, 1, weights, matrix, n)
    level = centring.direction
    matrix = centring.conjugate(matrix)
    remainder = level @ matrix  # what rounding in a sum of n numbers left of the mean
    remainder = remainder - (remainder @ level) / 2 * level
    matrix = subtract_symmetric(matrix, level, remainder[None, :], centring.queries)
    values, vectors = leading_eigenpairs(matrix, min(count, n), size, seed)
    values, vectors = _alive(values, vectors, _rounding(n) * size)
    # rounding leaves a share of the level in components of small eigenvalue; at new points, which
    # are not centred, it would be large
    vectors -= level[:, None] * (level @ vectors)[None, :]
    vectors /= xp.sqrt(values)[None, :]
    if weights is not None:
        vectors = centring.root_weights[:, None] * vectors
    return ComponentBasis(replace(basis, own_gram=None), vectors, values, means)


def summed_components(problem: Problem, basis: Basis, count: int) -> ComponentBasis:
    """Nyström components: principal components of the basis features at the rows of a problem, from
    one pass.

    O(n r (r + d) + r³).
    """
    zeros = like(np.zeros(problem.features.shape[0]), problem.reference)
    rows = ScoredRows.of(problem.features, zeros, None, weights_of(problem))
    statistics = whitened_statistics(rows.under(WithinQueries("size")), basis)  # centred
    (moments,) = statistics.parts
    assert moments is not None
    values, vectors = eigh(statistics.total().features)
    xp = namespace(values)
    first = max(values.shape[0] - count, 0)
    means = moments.mean[:-N_TARGETS]
    largest = float(xp.max(means**2))
    lost = _rounding(moments.count) ** 2 * moments.weight * largest
    values = xp.flip(values[first:])
    vectors = xp.flip(vectors[:, first:], axis=1)
    values, vectors = _alive(values, vectors, lost)
    white = basis.whitening.matrix  # its columns are orthogonal
    lengths = xp.sum(white * white, axis=0)
    centre = white @ (means / lengths)
    return ComponentBasis(basis, white @ vectors, values, centre)


def _rounding(n: int) -> float:
    """Share of n equal numbers that may be left by rounding when their mean is taken out."""
    return 1e-15 * (n + 10)


def _alive(values: Array, vectors: Array, lost: float) -> tuple[Array, Array]:
    """The eigenpairs that are not lost to rounding; a zero function where all are, for a kernel
    that is constant.
    """
    largest = float(values[0])
    floor = max(EIGENVALUE_CUT * largest, lost)
    if largest <= floor:
        return 0.0 * values[:1] + 1.0, 0.0 * vectors[:, :1]
    count = int(np.sum(to_numpy(values) > floor))
    return values[:count], vectors[:, :count]


def weights_of(problem: Problem) -> Array | None:
    """The weights of the rows (n,), None for ones, as in comparisons."""
    return problem.weights if isinstance(problem, ScoredRows) else None


def mean_loss(problem: Problem) -> float:
    """The mean eigenvalue of the loss in units of the rows' weights, which lengths of components
    are judged by.

    Beside it a component that is constant in every query is seen to be so, even where all
    components are.
    """
    operator = problem.operator
    if isinstance(operator, PairLoss):
        return 2 * operator.weight / operator.n_rows
    assert isinstance(operator, QueryLoss)
    xp = namespace(operator.totals)
    weights = operator.root_weights**2
    share = weights / take(operator.totals, operator.queries)
    within, between = (
        take(scale, operator.queries) for scale in (operator.within, operator.between)
    )
    means = within * (1 - share) + between * share
    return float(xp.sum(weights * means) / xp.sum(weights))


# ---------------------------------------------------------------- least squares from rows


@dataclass(frozen=True)
class RowComponents:
    """Least squares on components of all rows, by QR of their root columns J Ψ.

    components : of the rows of the problem; alpha : weight of the norm, 0 for none
    values : (n, p) = Ψ, where components were turned
    """

    problem: Problem
    components: ComponentBasis
    alpha: float
    values: Array | None = None

    def turned(self) -> RowComponents:
        """With components as `ComponentBasis.turned` makes them."""
        components, turn = self.components.turned(self.columns.T @ self.columns)
        return replace(self, components=components, values=self.rows @ turn)

    @cached_property
    def rows(self) -> Array:
        """Ψ: (n, p)."""
        if self.values is not None:
            return self.values
        rows = self.components.matrix * self.components.eigenvalues[None, :]
        weights = weights_of(self.problem)
        # Ψ = D^-½ U λ^½, the matrix is D^½ U λ^-½
        return rows if weights is None else rows / weights[:, None]

    @cached_property
    def columns(self) -> Array:
        """J Ψ: (k, p)."""
        return self.problem.operator.root(self.rows)

    @cached_property
    def scales(self) -> Array:
        """Squared lengths that these columns could have: (p,)."""
        return self.components.eigenvalues * mean_loss(self.problem)

    @cached_property
    def triangle(self) -> Triangle:
        """The factorisation of J Ψ and the targets. O(n p²)."""
        return triangle_of(self.columns, self.problem.targets, self.scales, self.alpha)

    def errors(self, folds: Index, numbers: Index, settings: ComponentSettings) -> HeldOut:
        """Held-out errors of every number of components."""
        problem = self.problem
        blocks = fold_blocks(folds)
        predictions = self.held_out(blocks, numbers, centred=settings.centred)
        centred = settings.scoring == "rescaled" and settings.centred
        offsets = kept_means(problem.targets, blocks, centred=centred)
        return pooled([errors_of(problem, predictions, folds, settings.scoring, offsets)])

    def held_out(self, blocks: Sequence[Index], numbers: Index, *, centred: bool) -> Array:
        """Predictions (n_units, len(numbers)) of blocks of units, each left out in turn, components
        kept.

        Blocks are unions of whole groups, or any items of the only query. O(n m p) for blocks of m
        units.
        """
        problem = self.problem
        most = int(numbers.max())
        if problem.groups is None:
            return self._items_held_out(blocks, numbers, most)
        columns = self.columns[:, :most]
        targets = problem.targets
        triangle = triangle_of(columns, targets, self.scales[:most], self.alpha)
        q, z = triangle.orthonormal(columns)
        left = left_out(q, targets, z, blocks, numbers)
        offsets = kept_means(targets, blocks, centred=centred)
        residuals = [
            both[..., 0] - offset * both[..., 1] if offset else both[..., 0]
            for both, offset in zip(left, offsets.tolist(), strict=True)
        ]
        return problem.predictions(in_place(blocks, residuals, targets.shape[0]))

    def _items_held_out(self, blocks: Sequence[Index], numbers: Index, most: int) -> Array:
        """`held_out` for items of the only query: its mean is fitted instead of taken out, because
        it changes with them.
        """
        problem = self.problem
        assert isinstance(problem, ScoredRows)
        operator = problem.operator
        xp = namespace(self.columns)
        roots = operator.root_weights
        level = operator.direction[:, None]
        targets = roots[:, None] * problem.reference[:, None]
        free = targets - level @ (level.T @ targets)
        columns = roots[:, None] * self.rows[:, :most]
        columns = columns - level @ (level.T @ columns)
        scales = self.components.eigenvalues[:most]
        blocks = [block for block in blocks if len(block)]
        residuals: list[Array] = []
        penalty: float | None = None
        for block in blocks:
            asked = self.alpha / cost_without(problem, block)
            if asked != penalty:
                penalty = asked
                q, z = triangle_of(columns, free, scales, penalty).orthonormal(columns)
                q = xp.concat([level, q], axis=1)
                z = xp.concat([level.T @ targets, z], axis=0)
            (left,) = left_out(q, targets, z, [block], numbers + 1)
            residuals.append(left[..., 0])
        return problem.predictions_of_items(in_place(blocks, residuals, targets.shape[0]))

    def refitted(
        self, kept: Problem, train: Index, test: Index, numbers: Index, offset: float
    ) -> Array:
        """Predictions of test units (m, len(numbers)), without the offset, by a fit to the training
        units, which are `kept`.
        """
        most = int(numbers.max())
        rows = self.problem.per_unit(self.rows[:, :most])
        scales = self.components.eigenvalues[:most] * mean_loss(kept)
        columns = kept.unit_root(take(rows, train))
        triangle = triangle_of(columns, kept.targets, scales, self.alpha)
        return take(rows, test) @ triangle.coefficients(numbers, offset)


# ---------------------------------------------------------------- least squares from sums


@dataclass(frozen=True)
class SummedComponents:
    """Least squares on components, from the sums of one pass: the Cholesky factor of their Gram is
    R.

    statistics : of the components at the rows of the problem
    """

    problem: Problem
    components: ComponentBasis
    alpha: float
    statistics: Statistics

    @classmethod
    def of(
        cls, problem: Problem, components: ComponentBasis, alpha: float, folds: Index | None = None
    ) -> SummedComponents:
        """The system of a problem, in one pass over its rows; `folds` (n_units,) to keep the sums
        of each fold.
        """
        if folds is not None:
            folds = np.where(folds < 0, folds.max() + 1, folds)
        statistics = whitened_statistics(problem, components, folds)  # type: ignore[arg-type]
        return cls(problem, components, alpha, statistics)

    def turned(self) -> SummedComponents:
        """With components as `ComponentBasis.turned` makes them."""
        components, turn = self.components.turned(self.statistics.total().features)
        return replace(self, components=components, statistics=self.statistics.mapped(turn))

    @cached_property
    def triangle(self) -> Triangle:
        """The factorisation of the sums over all rows."""
        return self._triangle(self.statistics.total())

    def _triangle(self, gram: Gram) -> Triangle:
        right = gram.matrix[:-N_TARGETS, -N_TARGETS:]
        scales = self.components.eigenvalues * mean_loss(self.problem)
        return triangle_of_gram(gram.features, right, scales, self.alpha)

    def errors(self, folds: Index, numbers: Index, settings: ComponentSettings) -> HeldOut:
        """Held-out errors of every number of components from the sums of folds, which were
        gathered.
        """
        blocks = fold_blocks(folds)
        if settings.scoring != "disagreement":
            without = partial(self._without, numbers=numbers, centred=settings.centred)
            tables = losses_from_sums([self.statistics], without, len(blocks), settings.scoring)
            return pooled(tables)
        predictions = self.held_out(blocks, numbers, centred=settings.centred)
        offsets = np.zeros(len(blocks))
        return pooled([errors_of(self.problem, predictions, folds, settings.scoring, offsets)])

    def _without(self, fold: int, numbers: Index, centred: bool) -> tuple[list[Array], float]:
        """Coefficients of components (p, len(numbers)) without a fold, and the mean taken out."""
        gram = self.statistics.without(fold)
        offset = gram.mean_score if centred else 0.0
        return [self._triangle(gram).coefficients(numbers, offset)], offset

    def held_out(self, blocks: Sequence[Index], numbers: Index, *, centred: bool) -> Array:
        """Predictions (n_units, len(numbers)) of the blocks whose sums were gathered."""
        problem = self.problem

        def of_fold(fold: int, left: Sequence[Index]) -> list[Array]:
            (weights,), offset = self._without(fold, numbers, centred)
            return [self.components.predictions(problem, weights, left[0]) + offset]

        values_of = of_fold if problem.groups is not None else at_level([problem], of_fold)
        values = [values_of(fold, [block])[0] for fold, block in enumerate(blocks)]
        return in_place(blocks, values, problem.targets.shape[0])

    def refitted(
        self, kept: Problem, train: Index, test: Index, numbers: Index, offset: float
    ) -> Array:
        """Predictions of test units (m, len(numbers)), without the offset, by a fit to the training
        units, which are `kept`.
        """
        again = SummedComponents.of(kept, self.components, self.alpha)
        weights = again.triangle.coefficients(numbers, offset)
        return self.components.predictions(self.problem, weights, test)
