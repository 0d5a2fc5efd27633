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
from functools import cached_property
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
    make_basis,
)
from corank.core.folds import Splits, default_codes, fold_blocks, fold_splits, split_codes
from corank.core.kernels import Kernel, finite_values
from corank.core.loss import PairLoss, QueryLoss, WithinQueries
from corank.core.observations import Problem, Rows, ScoredRows
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
    HeldOut,
    Scoring,
    errors_of,
    kept_means,
    losses_from_sums,
    pooled,
    unit_predictions,
)
from corank.solve.path import Path, joined_path
from corank.solve.spectrum import in_place
from corank.solve.systems import whitened_statistics
from corank.solve.tuning import KernelSettings, Training, constant_error, kernels_to_try

MAX_FULL_ROWS = 3_000  # up to which a full eigendecomposition takes a few seconds at most
# of the eigenvalues: for more of them the full decomposition is as fast as the iteration
MAX_ITERATED_SHARE = 0.1
# The iteration ends where residuals are below RESIDUAL_SHARE of their eigenvalue plus SHIFT_SHARE
# of the largest one: the shift keeps eigenvalues of zero, whose residuals are rounding, from being
# iterated for ever.
RESIDUAL_SHARE, SHIFT_SHARE = 1e-9, 1e-4
# of the iteration; where it has not settled by then the full decomposition takes its place
MAX_RESTARTS = 300

MAX_TUNED_NUMBER = 200  # components that "tune" looks at: all numbers from 1 to it
# of the rows, at most: as many components as rows predict left-out rows by the mean again
TUNED_SHARE = 0.5


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
    return xp.flip(values[n - count :]), xp.flip(vectors[:, n - count :], axis=1)


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
    shifted = LinearOperator(
        (n, n), matvec=lambda vector: product(vector) + shift * vector, dtype=np.float64
    )
    values, vectors = eigsh(
        shifted,
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
    size = float(xp.max(row_weights * xp.abs(xp.linalg.diagonal(matrix))))
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
    functions = vectors if weights is None else centring.root_weights[:, None] * vectors
    return ComponentBasis(replace(basis, own_gram=None), functions, values, means)


def summed_components(problem: Problem, basis: Basis, count: int) -> ComponentBasis:
    """Nyström components: principal components of the basis features at the rows of a problem, from
    one pass.

    O(n r (r + d) + r³).
    """
    features, n = problem.features, problem.features.shape[0]
    weights = problem.rows.weights if isinstance(problem, ScoredRows) else None
    zeros = like(np.zeros(n), problem.reference)
    rows = Rows(features, zeros, None, 1, weights, like(np.arange(n), zeros, "int64"))
    # centred as one query
    statistics = whitened_statistics(ScoredRows(rows, WithinQueries("size")), basis)
    (moments,) = statistics.parts
    assert moments is not None
    values, vectors = eigh(statistics.total().features)
    xp = namespace(values)
    first = max(values.shape[0] - count, 0)
    means = moments.mean[:-N_TARGETS]
    lost = _rounding(moments.count) ** 2 * moments.weight * float(xp.max(means**2))
    values, vectors = _alive(xp.flip(values[first:]), xp.flip(vectors[:, first:], axis=1), lost)
    white = basis.whitening.matrix  # its columns are orthogonal
    centre = white @ (means / xp.sum(white * white, axis=0))
    return ComponentBasis(basis, white @ vectors, values, centre)


def _rounding(n: int) -> float:
    """Share of n equal numbers that may be left by rounding when their mean is taken out."""
    return 1e-15 * (n + 10)


def _alive(values: Array, vectors: Array, lost: float) -> tuple[Array, Array]:
    """The eigenpairs that are not lost to rounding; a zero function where all are, for a kernel
    that is constant.
    """
    floor = max(EIGENVALUE_CUT * float(values[0]), lost)
    count = max(1, int(np.sum(to_numpy(values) > floor)))
    if float(values[0]) <= floor:
        return 0.0 * values[:1] + 1.0, 0.0 * vectors[:, :1]
    return values[:count], vectors[:, :count]


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
    means = (
        take(operator.within, operator.queries) * (1 - share)
        + take(operator.between, operator.queries) * share
    )
    return float(xp.sum(weights * means) / xp.sum(weights))


# ---------------------------------------------------------------- least squares from rows


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
        """The factorisation of J Ψ and the targets. O(n p²)."""
        return triangle_of(self.columns, self.problem.targets, self.scales, self.alpha)

    def held_out(self, blocks: Sequence[Index], numbers: Index, *, centred: bool) -> Array:
        """Predictions (n_units, len(numbers)) of blocks of units, each left out in turn, components
        kept.

        Blocks are unions of whole groups, or any items of the only query. O(n m p) for blocks of m
        units.
        """
        problem, most = self.problem, int(numbers.max())
        if problem.groups is None:
            return self._items_held_out(blocks, numbers, most)
        columns = self.columns[:, :most]
        q, z = triangle_of(columns, problem.targets, self.scales[:most], self.alpha).orthonormal(
            columns
        )
        left = left_out(q, problem.targets, z, blocks, numbers)
        offsets = kept_means(problem.targets, blocks) if centred else np.zeros(len(blocks))
        return problem.predictions(
            _without_offsets(left, blocks, offsets, problem.targets.shape[0])
        )

    def _items_held_out(self, blocks: Sequence[Index], numbers: Index, most: int) -> Array:
        """`held_out` for items of the only query: its mean is fitted instead of taken out, because
        it changes with them.
        """
        problem = self.problem
        assert isinstance(problem, ScoredRows)
        operator, xp = problem.operator, namespace(self.columns)
        root = operator.root_weights[:, None]
        level = operator.direction[:, None]
        targets = root * problem.reference[:, None]
        free = targets - level @ (level.T @ targets)
        columns = root * self.rows[:, :most]
        columns = columns - level @ (level.T @ columns)
        values = self.components.eigenvalues[:most]
        blocks = [block for block in blocks if len(block)]
        residuals: list[Array] = []
        shared: tuple[Array, Array] | None = None
        penalty = self.alpha
        for block in blocks:
            roots = take(operator.root_weights, block)
            _, within = operator.comparison.scales(
                operator.totals - xp.sum(roots * roots), operator.counts - float(len(block))
            )
            if shared is None or self.alpha / float(within[0]) != penalty:
                penalty = self.alpha / float(within[0])
                q, z = triangle_of(columns, free, values, penalty).orthonormal(columns)
                shared = xp.concat([level, q], axis=1), xp.concat([level.T @ targets, z], axis=0)
            (left,) = left_out(shared[0], targets, shared[1], [block], numbers + 1)
            residuals.append(left[..., 0])
        return problem.predictions_of_items(in_place(blocks, residuals, targets.shape[0]))

    def refitted(
        self, train: Index, test: Index, numbers: Index, *, centred: bool
    ) -> tuple[Array, float]:
        """Predictions of test units (m, len(numbers)) by a fit to the training units, and the mean
        taken out of those.
        """
        kept, rows = (
            self.problem.take(train),
            self.problem.per_unit(self.rows[:, : int(numbers.max())]),
        )
        scales = self.components.eigenvalues[: rows.shape[1]] * mean_loss(kept)
        triangle = triangle_of(kept.unit_root(take(rows, train)), kept.targets, scales, self.alpha)
        offset = kept.mean_score if centred else 0.0
        return take(rows, test) @ triangle.coefficients(numbers, offset) + offset, offset


# ---------------------------------------------------------------- least squares from sums


def _without_offsets(
    left: Sequence[Array], blocks: Sequence[Index], offsets: FloatArray, n: int
) -> Array:
    """Residuals of the scores less those of the mean that was taken out, where they belong: (n, a)."""
    residuals = [
        both[..., 0] - float(o) * both[..., 1] if o else both[..., 0]
        for both, o in zip(left, offsets, strict=True)
    ]
    return in_place(blocks, residuals, n)


@dataclass(frozen=True)
class SummedComponents:
    """Least squares on components, from the sums of one pass: the Cholesky factor of their Gram is
    R.
    """

    components: ComponentBasis
    statistics: Statistics
    alpha: float
    scales: Array

    @classmethod
    def of(
        cls, problem: Problem, components: ComponentBasis, alpha: float, folds: Index | None = None
    ) -> SummedComponents:
        """The system of a problem, in one pass over its rows; `folds` (n_units,) to keep the sums
        of each fold.
        """
        statistics = whitened_statistics(problem, components, folds)  # type: ignore[arg-type]
        return cls(components, statistics, alpha, components.eigenvalues * mean_loss(problem))

    @cached_property
    def triangle(self) -> Triangle:
        """The factorisation of the sums over all rows."""
        return self._triangle(self.statistics.total())

    def _triangle(self, gram: Gram) -> Triangle:
        right = gram.matrix[:-N_TARGETS, -N_TARGETS:]
        return triangle_of_gram(gram.features, right, self.scales, self.alpha)

    def held_out(
        self, problem: Problem, folds: Index, numbers: Index, scoring: Scoring, *, centred: bool
    ) -> HeldOut:
        """Held-out errors of every number of components from the sums of folds, which were
        gathered.
        """
        blocks = fold_blocks(folds)

        def without(fold: int) -> tuple[list[Array], float]:
            gram = self.statistics.without(fold)
            offset = gram.mean_score if centred else 0.0
            return [self._triangle(gram).coefficients(numbers, offset)], offset

        if scoring != "disagreement":
            return pooled(losses_from_sums([self.statistics], without, len(blocks), scoring))
        values = []
        for fold, block in enumerate(blocks):
            (weights,), offset = without(fold)
            functions = self.components.matrix @ weights
            values.append(unit_predictions(problem, self.components, functions, block) + offset)  # type: ignore[arg-type]
        predictions = in_place(blocks, values, problem.targets.shape[0])
        return pooled([errors_of(problem, predictions, folds, scoring, np.zeros(len(blocks)))])


# ---------------------------------------------------------------- kernel width, alpha and number of components

ComponentSystem: TypeAlias = RowComponents | SummedComponents


@dataclass(frozen=True)
class ComponentSettings(KernelSettings):
    """What a learner was asked for, checked.

    alpha : candidates; n_components : a number, candidates, or "tune"
    centred : the mean score is taken out first and put back (an intercept)
    """

    alpha: tuple[float, ...]
    n_components: int | str | tuple[int, ...]
    basis: BasisSpec
    selection: Selection
    centred: bool

    @property
    def tunes(self) -> bool:
        """Whether anything is chosen by held-out error."""
        return not isinstance(self.n_components, int) or len(self.alpha) > 1 or self.tunes_width

    @property
    def numbers(self) -> Index:
        """The numbers of components to look at, increasing."""
        candidates = (
            range(1, MAX_TUNED_NUMBER + 1)
            if isinstance(self.n_components, str)
            else self.n_components
        )
        return np.unique(np.asarray(candidates, dtype=np.int64))


@dataclass(frozen=True)
class ComponentSolution:
    """A fitted function on components.

    coefficients : (r,) of the basis; constant : what centring adds to the function; offset : the
        mean score taken out
    steps, shifts : (r, p), (p,) what every component adds to the coefficients and to the constant
    limit : number of components beyond which more change nothing
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
class _ComponentTrial:
    """One kernel and alpha: the system, the numbers of components looked at and their held-out
    errors.

    gamma : the width of the kernel, None where it has none; rows : (r,) row numbers of the basis in
        X
    """

    system: ComponentSystem
    gamma: float | None
    rows: Index | None
    numbers: Index
    errors: HeldOut | None


def solve_components(
    training: Training, settings: ComponentSettings, splits: Index | Splits | None
) -> ComponentSolution:
    """Choose by held-out error what is to be tuned, then solve; `splits` None is the default
    hold-out.
    """
    problem = training.problem
    offset = problem.mean_score if settings.centred else 0.0
    constant = constant_error([problem], offset, settings.scoring)
    kernels = kernels_to_try(
        training, settings.kernel, settings.gamma, settings.basis, settings.seed
    )
    best: _ComponentTrial | None = None
    least = np.inf
    paths: list[Path] = []
    for trial in (
        trial for kernel in kernels for trial in _trials(training, settings, kernel, splits)
    ):
        if trial.errors is None or len(trial.errors.sizes) == 0:
            return _solution(trial, _untuned_number(trial), offset, None)
        paths.append(_path(trial, trial.errors, settings.scoring, constant))
        error = float(paths[-1].error[paths[-1].best])
        if best is None or error < least:  # others are not kept: each holds a factorised system
            best, least = trial, error
    assert best is not None
    path = joined_path(paths)
    assert path.n_components is not None
    return _solution(best, int(path.n_components[path.best]), offset, path)


def _path(trial: _ComponentTrial, errors: HeldOut, scoring: Scoring, constant: float) -> Path:
    """The held-out errors of one kernel and alpha; the fewest components among equals are chosen."""
    mean, numbers = errors.mean, trial.numbers.astype(np.float64)
    best = int(np.flatnonzero(mean <= np.nanmin(mean) * (1 + 1e-12))[0])
    alpha = trial.system.alpha
    return Path.of(
        errors, best, scoring, constant, alpha=alpha, gamma=trial.gamma, n_components=numbers
    )


def _untuned_number(trial: _ComponentTrial) -> int:
    """The number of components where nothing can be held out: the largest candidate that still
    makes a difference.
    """
    sensible = trial.numbers[trial.numbers <= min(UNTUNED_COLUMNS, trial.system.triangle.limit)]
    return int(sensible[-1] if len(sensible) else trial.numbers[0])


def _trials(
    training: Training, settings: ComponentSettings, kernel: Kernel, given: Index | Splits | None
) -> Iterator[_ComponentTrial]:
    """One kernel with every alpha; its components are made once."""
    problem, spec = training.problem, settings.basis
    index, everything = training.index, training.everything
    basis, rows = make_basis(
        spec, kernel, problem.features, index, everything, settings.selection, settings.seed
    )
    by_rows = isinstance(spec, str) and isinstance(basis, KernelBasis)
    largest = int(settings.numbers[-1])
    if by_rows:
        assert isinstance(basis, KernelBasis)
        components = row_components(basis, training.weights, largest, settings.seed)
    else:
        components = summed_components(problem, basis, largest)
    limit = components.n_components
    if isinstance(settings.n_components, str):
        limit = min(limit, max(1, int(TUNED_SHARE * problem.features.shape[0])))
    numbers = np.unique(np.minimum(settings.numbers, limit))
    folds, splits = _folding(problem, settings, given, by_rows=by_rows)
    system: ComponentSystem | None = None
    for alpha in settings.alpha:
        if by_rows:
            system = RowComponents(problem, components, alpha)
        elif isinstance(system, SummedComponents):
            system = replace(system, alpha=alpha)
        else:
            fold_codes = None if folds is None else np.where(folds < 0, folds.max() + 1, folds)
            system = SummedComponents.of(problem, components, alpha, fold_codes)
        errors = _errors(problem, system, numbers, folds, splits, settings)
        yield _ComponentTrial(system, kernel.gamma, rows, numbers, errors)


def _folding(
    problem: Problem, settings: ComponentSettings, given: Index | Splits | None, *, by_rows: bool
) -> tuple[Index | None, Splits | None]:
    """Folds that need no refitting, or splits that do; neither where there is nothing to choose or
    to hold out.
    """
    if not settings.tunes:
        return None, None
    if given is None:
        return default_codes(problem, settings.seed, n_features=None if by_rows else 0), None
    folds = split_codes(problem, given)
    if folds is not None and (by_rows or int(folds.max()) < MAX_FOLDS_WITH_SUMS):
        return folds, None
    return None, fold_splits(given)


def _errors(
    problem: Problem,
    system: ComponentSystem,
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


def _refitted(
    problem: Problem,
    system: ComponentSystem,
    numbers: Index,
    splits: Splits,
    settings: ComponentSettings,
) -> HeldOut:
    """Held-out errors by one fit per split, components kept."""
    tables = []
    for train, test in splits:
        held_out_units = problem.take(test)
        if isinstance(system, RowComponents):
            predictions, offset = system.refitted(train, test, numbers, centred=settings.centred)
        else:
            kept, components = problem.take(train), system.components
            offset = kept.mean_score if settings.centred else 0.0
            weights = SummedComponents.of(kept, components, system.alpha).triangle.coefficients(
                numbers, offset
            )
            every = np.arange(len(test))
            functions = components.matrix @ weights
            predictions = unit_predictions(held_out_units, components, functions, every) + offset  # type: ignore[arg-type]
        zeros = np.zeros(len(test), dtype=np.int64)
        tables.append(
            errors_of(held_out_units, predictions, zeros, settings.scoring, np.full(1, offset))
        )
    return pooled(tables)


def _solution(
    trial: _ComponentTrial, number: int, offset: float, path: Path | None
) -> ComponentSolution:
    """The function on the first `number` components."""
    system = trial.system
    components = system.components
    number = min(number, components.n_components)
    xp = namespace(components.matrix)
    steps = system.triangle.steps(components.matrix, offset)
    shifts = -(components.centre @ steps)
    return ComponentSolution(
        components=components,
        rows=trial.rows,
        coefficients=xp.sum(steps[:, :number], axis=1),
        constant=float(xp.sum(shifts[:number])),
        offset=offset,
        steps=steps,
        shifts=shifts,
        n_components=number,
        alpha=system.alpha,
        limit=system.triangle.limit,
        path=path,
    )
