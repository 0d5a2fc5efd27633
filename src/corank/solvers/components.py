"""Least squares on kernel principal components, for every number of them from one factorisation (002).

Components are those of the kernel centred on the rows of the problem, largest first; a function on p of them minimises
‖J (s − Ψ_p c)‖² + alpha ‖c‖². With J Ψ = Q R the predictions of all p are running sums over the columns of Ψ R⁻¹
(math.md E-P2-1). A component that adds nothing to what is compared, once those before it are there, gets no weight.
`RowComponents` factorises rows, `SummedComponents` the sums of one pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from corank._backend import Array, eigh, like, namespace, subtract_symmetric, take, to_numpy
from corank.basis import EIGENVALUE_CUT, Basis, KernelBasis, Whitening
from corank.comparison import Pairs, PerQuery, Queries
from corank.kernels import checked
from corank.problem import ComparedRows, FloatArray, Problem, ScoredRows
from corank.rows import Rows
from corank.solvers.direct import PrimalSystem
from corank.solvers.eigen import leading_eigenpairs
from corank.solvers.holdout import in_place, kept_means
from corank.solvers.triangle import Triangle, left_out, triangle_of, triangle_of_gram
from corank.statistics import N_TARGETS, Gram, Index, Statistics


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
    matrix = checked(basis.gram)
    xp = namespace(matrix)
    n = int(matrix.shape[0])
    own = like(np.ones(n), matrix) if weights is None else weights
    size = float(xp.max(own * xp.abs(xp.linalg.diagonal(matrix))))
    means = (own @ matrix) / xp.sum(own)
    centring = PerQuery(Queries("size"), None, 1, weights, matrix, n)
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
    system = PrimalSystem.gathered(_one_query(problem), basis)
    (moments,) = system.statistics.parts
    assert moments is not None
    values, vectors = eigh(system.gram.features)
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
    return ScoredRows(rows, Queries("size"))


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
    if isinstance(operator, Pairs):
        return 2 * operator.weight / operator.n_rows
    assert isinstance(operator, PerQuery)
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
        parts = [both[..., 0] - float(o) * both[..., 1] for both, o in zip(left, offsets, strict=True)]
        return problem.predictions(in_place(blocks, parts, int(problem.targets.shape[0])))

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


class SummedComponents(PrimalSystem):
    """Least squares on components, from the sums of one pass: the Cholesky factor of their Gram is R.

    Where `PrimalSystem` takes alphas this takes numbers of components, so that hold-out from sums serves both.
    """

    def __init__(self, components: ComponentBasis, statistics: Statistics, alpha: float, scales: Array) -> None:
        super().__init__(components, statistics)  # type: ignore[arg-type]
        self.components, self.alpha, self.scales = components, alpha, scales

    @classmethod
    def of(
        cls, problem: Problem, components: ComponentBasis, alpha: float, folds: Index | None = None
    ) -> SummedComponents:
        """In one pass over the rows of a problem."""
        statistics = PrimalSystem.gathered(problem, components, folds).statistics  # type: ignore[arg-type]
        return cls(components, statistics, alpha, components.eigenvalues * mean_loss(problem))

    def with_alpha(self, alpha: float) -> SummedComponents:
        """The same sums under another alpha."""
        return type(self)(self.components, self.statistics, alpha, self.scales)

    @cached_property
    def triangle(self) -> Triangle:
        """Of the sums over all rows."""
        return self._triangle(self.gram)

    def _triangle(self, gram: Gram) -> Triangle:
        right = gram.matrix[:-N_TARGETS, -N_TARGETS:]
        return triangle_of_gram(gram.features, right, self.scales, self.alpha)

    def coefficients(self, numbers: Index, offset: float) -> Array:
        """Weights of the components for each number of them: (p, len(numbers))."""
        return self.triangle.coefficients(numbers, offset)

    def path_without(self, fold: int, alphas: FloatArray, centred: bool) -> tuple[Array, float]:
        """The same without a fold, and the mean score that was taken out; `alphas` are numbers of components."""
        gram = self.statistics.without(fold)
        offset = gram.mean_score if centred else 0.0
        return self._triangle(gram).coefficients(np.asarray(alphas, dtype=np.int64), offset), offset
