"""Least squares on complete grids of pairs, every x with every y, under a product of a kernel of x
and one of y: by the eigenvectors of both (docs/mathematics.md, section 3.19).

`grid_of` finds out whether rows are such a grid and the loss has such a form; `GridSystem` is then
what `DualSystem` is for other rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import qr

from corank.core.arrays import Array, FloatArray, Index, in_order, solve_upper
from corank.core.basis import AUTO_LIMIT
from corank.core.folds import Folding
from corank.core.kernels import Kernel, finite_values
from corank.core.loss import QueryLoss
from corank.core.observations import Problem, ScoredRows
from corank.core.views import BlockKernel, PairGrid
from corank.solve.holdout import FoldErrors, HeldOut, Scoring, as_told, errors_of, pooled
from corank.solve.spectrum import LEAST, Spectrum
from corank.solve.systems import EPSILON, DualSystem, ViewData

if TYPE_CHECKING:
    from corank.solve.tuning import Grid

SAMPLED_SHIFTS = 200  # of 1 / (λ + shift), by which such functions are known
NEGLIGIBLE = 1e-11  # λ μ beside alpha
LOST = 1e-14  # relative size of what such a function adds to the others that is rounding
MAX_FOLDS = 10_000  # pairs whose errors are kept one by one


def grid_of(problem: Problem, kernel: Kernel, features: Array) -> tuple[PairGrid, bool] | None:
    """The complete grid of pairs that scored rows are, its left parts the queries where rows are
    held out by queries, and whether they are; None where the rows, the kernel or the loss have no
    such form.
    """
    if not isinstance(kernel, BlockKernel) or not isinstance(problem, ScoredRows):
        return None
    if problem.weights is not None or problem.groups is None:
        return None
    grid = kernel.grid(features)
    if grid is None:
        return None
    groups = problem.groups
    if int(groups.max()) + 1 == len(groups):
        return None if problem.comparison.needs_queries else (grid, False)
    for turned in (grid, grid.transposed()):
        by_row = groups[turned.order].reshape(turned.shape)
        whole = bool((by_row == by_row[:, :1]).all())
        if whole and int(groups.max()) + 1 == turned.shape[0]:
            return turned, True
    return None


def is_by_factors(view: ViewData, splits: Any) -> bool:
    """Whether a grid is learned from by its factors, which splits of `cv` forbid."""
    if splits is not None and len(view.problem) > AUTO_LIMIT:
        raise ValueError(
            f"cv does not go with a complete grid of {len(view.problem):,} pairs; leave it out, or"
            " give a number of basis rows."
        )
    return splits is None


class GridSystem(DualSystem):
    """The dual system of one view of a complete grid of pairs under a product of two kernels:
    J K Jᵀ is a Kronecker product (docs/mathematics.md, section 3.19).

    Two eigendecompositions, of (a, a) and (b, b); one alpha O(a b (a + b)).

    Attributes
    ----------
    grid : of the rows; whole_rows : whether queries are its rows, else every pair is held out alone
    """

    def __init__(self, view: ViewData) -> None:
        super().__init__([view])
        assert view.basis.grid is not None
        self.grid, self.whole_rows = view.basis.grid
        self.shape = self.grid.shape
        self._places = np.argsort(self.grid.order)

    @cached_property
    def factors(self) -> list[Array]:
        """The kernel between left parts, and that between right parts under the loss of a query."""
        problem, kernel = self.problems[0], self.views[0].basis.kernel
        assert isinstance(kernel, BlockKernel)
        left, right = map(finite_values, kernel.factors(self.grid))
        self._sizes = [float(np.max(np.abs(np.diagonal(part)))) for part in (left, right)]
        self._largest = self._sizes[0] * self._sizes[1]
        n = len(right)
        loss = QueryLoss(problem.comparison, None, 1, None, problem.reference, n)
        return [left / self.views[0].penalty, loss.conjugate(right)]

    def on_grid(self, values: Array) -> Array:
        """Values (n,) of the rows as a matrix (a, b)."""
        return values[self.grid.order].reshape(self.shape)

    def in_rows(self, matrix: Array) -> Array:
        """A matrix (a, b) as values (n, 1) of the rows."""
        return matrix.reshape(-1, 1)[self._places]

    @property
    def folding(self) -> Folding:
        """The folds of the rows: queries, or single rows."""
        n = self.shape[0] * self.shape[1]
        rows = np.repeat(np.arange(self.shape[0]), self.shape[1])
        return Folding([rows[self._places] if self.whole_rows else np.arange(n)])

    @property
    def scale(self) -> float:
        """What alpha is measured against, 1 where that is rounding."""
        left, right = (float(np.trace(factor)) for factor in self.factors)
        scale = left * right / self.problems[0].operator.weight
        assert self._largest is not None
        return scale if scale > 16 * EPSILON * self._largest else 1.0

    @cached_property
    def grid_spectrum(self) -> GridSpectrum:
        """The eigendecompositions of both factors."""
        factors = self.factors  # which find the sizes of the kernel values
        return GridSpectrum(*map(Spectrum.of, factors, self._sizes))

    def offsets(self, *, centred: bool) -> FloatArray:
        """What is taken out of the scores for every fold: (a, 1), or (a, b) for single pairs."""
        targets, (a, b) = self.on_grid(self.targets[:, 0]), self.shape
        if not centred:
            return np.zeros((a, 1))
        held = targets.sum(axis=1, keepdims=True) if self.whole_rows else targets
        return np.asarray((targets.sum() - held) / max(a * b - (b if self.whole_rows else 1), 1))

    def centred_targets(self, *, centred: bool) -> FloatArray:
        """J s (a, b) less the offsets, in the directions of residuals."""
        targets, ones = map(self.on_grid, self.targets.T)
        values = targets - self.offsets(centred=centred) * ones
        return np.asarray(values @ self.grid_spectrum.right.vectors if self.whole_rows else values)

    def left_out(self, alphas: FloatArray, *, centred: bool) -> Iterator[FloatArray]:
        """Residuals (a, b) of what is held out, alpha by alpha; see `GridSpectrum.left_out`."""
        targets, offsets = self.on_grid(self.targets[:, 0]), self.offsets(centred=centred)
        return self.grid_spectrum.left_out(targets, alphas, offsets, whole_rows=self.whole_rows)

    def solve(self, alpha: float, agreement: float = 0.0, offset: float = 0.0) -> list[Array]:
        """Coefficients of the rows for one alpha: [(n, 1)]."""
        spectrum = self.grid_spectrum
        self.refuse_small(alpha)
        right = self.on_grid(self._right(offset, len(self.targets))[:, 0])
        solved = self.in_rows(spectrum.solve(right, alpha))
        return [self.problems[0].operator.root_transposed(solved) / self.views[0].penalty]


@dataclass(frozen=True)
class GridSpectrum:
    """The decomposition of the Kronecker product of two matrices (a, a) and (b, b), from theirs.
    Vectors of the product are matrices (a, b).
    """

    left: Spectrum
    right: Spectrum

    def inverse(self, alpha: float) -> FloatArray:
        """1 / (λ_i μ_j + alpha): (a, b)."""
        products: FloatArray = np.multiply.outer(self.left.values, self.right.values)
        return 1 / (products + alpha)

    def turned(self, values: FloatArray) -> FloatArray:
        """Values (a, b) in the directions of the eigenvectors."""
        return np.asarray(self.left.vectors.T @ values @ self.right.vectors)

    def solve(self, right: FloatArray, alpha: float) -> FloatArray:
        """(A ⊗ B + alpha I)⁻¹ right, (a, b)."""
        solved = self.turned(right) * self.inverse(alpha)
        return np.asarray(self.left.vectors @ solved @ self.right.vectors.T)

    def left_out(
        self,
        targets: FloatArray,
        alphas: FloatArray,
        offsets: FloatArray,
        *,
        whole_rows: bool,
    ) -> Iterator[FloatArray]:
        """Residuals (a, b) of every row of the grid, or every pair of it, under the model fitted
        without it, alpha by alpha; those of rows in the directions of the right eigenvectors.
        O(a b (a + b)) for one alpha.

        With W = alpha/(λ_i μ_j + alpha) and V, U the eigenvectors, the diagonal of alpha S is
        V² W (U²)ᵀ, and S_UU of row i is U diag(V_i² W) Uᵀ / alpha. W has a low rank but for rounding:
        some of its rows and columns give all others, whatever alpha is.

        Parameters
        ----------
        targets : y (a, b)
        offsets : (a, 1) or (a, b), constants that are taken out of y for every residual
        """
        left, right = self.left.vectors, self.right.vectors
        values, others = self.left.values, self.right.values
        products = np.multiply.outer(values, others)
        scores, is_centred = self.turned(targets), bool(np.any(offsets))
        rows, of_rows = _representatives(values, others, alphas)
        columns, of_columns = _representatives(others, values, alphas)
        spread_left, level_left = (
            square @ of_rows.T for square in (left**2, left * left.sum(axis=0))
        )
        spread_right, level_right = of_columns, of_columns * right.sum(axis=0)
        if not whole_rows:
            spread_right, level_right = spread_right @ (right**2).T, level_right @ right.T
        (a, b), ends = products.shape, ((values, others.max()), (others, values.max()))
        whole = targets @ right if whole_rows else targets

        def residuals(alpha: float) -> FloatArray:
            core = alpha / (products[np.ix_(rows, columns)] + alpha)
            i, j = (int(np.searchsorted(each * most, NEGLIGIBLE * alpha)) for each, most in ends)
            is_short = (a - i) * (b - j) < a * b / 2
            lives = (slice(i if is_short else 0, a), slice(j if is_short else 0, b))
            weighted = scores[lives] / (products[lives] + alpha)
            weighted *= products[lives] if is_short else alpha
            solved = left[:, lives[0]] @ weighted
            if not whole_rows:
                solved = solved @ right[:, lives[1]].T
            if is_short:  # the other directions stay as they are
                taken, solved = solved, whole.copy()
                solved[:, lives[1] if whole_rows else slice(b)] -= taken
            if is_centred:
                solved -= offsets * (level_left @ (core @ level_right))
            solved /= np.maximum(spread_left @ (core @ spread_right), LEAST)
            return np.asarray(solved)

        return in_order(residuals, alphas, left)


def _representatives(
    values: FloatArray, others: FloatArray, alphas: FloatArray
) -> tuple[Index, FloatArray]:
    """Numbers (k,) of values λ (a,), and (k, a): all functions 1/(λ μ + alpha) of λ are sums of the
    columns, times what they are at those values.
    """
    largest = max(float(values.max() * others.max()), LOST * min(alphas))
    first, last = np.log10([min(alphas) / largest, 1e3 * max(1.0, max(alphas) / largest)])
    shifts = max(values.max(), LOST) * np.logspace(first, last, SAMPLED_SHIFTS)[:, None]
    samples = (values.min() + shifts) / (values + shifts)
    _, triangle, order = qr(samples, mode="economic", pivoting=True)
    sizes = np.abs(np.diagonal(triangle))
    rank = max(1, int((sizes > LOST * sizes[0]).sum()))
    sums = np.eye(rank, len(values))
    sums[:, rank:] = solve_upper(triangle[:rank, :rank], triangle[:rank, rank:])
    spread = np.empty_like(sums)
    spread[:, order] = sums
    return order[:rank], spread


# ---------------------------------------------------------------- what is held out


def held_out_on_grid(
    system: Any, folds: Any, grid: Grid, *, scoring: Scoring, centred: bool
) -> HeldOut:
    """As `holdout.held_out`; of a complete grid of pairs one alpha at a time, and of very many pairs
    that are held out one by one the errors of a row of the grid are added up.
    """
    if scoring == "disagreement":
        tables = [
            errors_of(system.problems[0], values, folds.codes[0], scoring, np.zeros(0))
            for values in _predictions(system, grid.alphas, centred=centred)
        ]
        return HeldOut(np.hstack([table.errors for table in tables]), tables[0].sizes)
    (a, b), n_folds = system.shape, system.shape[0]
    if not system.whole_rows and a * b <= MAX_FOLDS:
        n_folds = a * b
    rescaled = scoring == "rescaled"
    targets = system.centred_targets(centred=centred) if rescaled else 0.0
    sums: Any = [[], [], []]
    for residuals in system.left_out(grid.alphas, centred=centred):
        pairs = [(residuals, residuals)]
        if rescaled:
            fitted = targets - residuals
            pairs += [(residuals, fitted), (fitted, fitted)]
        for kept, (first, second) in zip(sums, pairs, strict=False):
            shape = n_folds, -1
            kept.append(np.einsum("ij,ij->i", first.reshape(shape), second.reshape(shape)))
    errors, *others = (np.stack(columns, axis=1) for columns in sums if columns)
    sizes = np.full(n_folds, system.problems[0].freedom() / n_folds)
    return pooled([FoldErrors(errors, sizes, *others)])


def predictions_on_grid(
    system: GridSystem, folds: Folding, grid: Grid, *, centred: bool
) -> list[Array]:
    """As `holdout.held_out_predictions`."""
    (values,) = _predictions(system, grid.alphas, centred=centred)
    return [as_told(system.problems[0], values, folds.codes[0])]


def _predictions(system: GridSystem, alphas: FloatArray, *, centred: bool) -> Iterator[FloatArray]:
    """Held-out predictions (n, 1) of the rows, alpha by alpha."""
    for residuals in system.left_out(alphas, centred=centred):
        if system.whole_rows:
            residuals = residuals @ system.grid_spectrum.right.vectors.T
        yield system.problems[0].predictions(system.in_rows(residuals))
