"""Kernel least squares on scored rows or comparisons, for every alpha from one eigendecomposition.

With A the operator that weighs and centres units (docs/mathematics.md: the root of the loss), t = A
s and M = A K Aᵀ, the solution for alpha is u = (M + alpha I)⁻¹ t, with coefficients c = Aᵀ u. From
the eigensystem of M follow

* held-out residuals of a fold B: r_B = (G_BB)⁻¹ u_B, where G = (M + alpha I)⁻¹;
* their variances, in units of the amplitude: the diagonal of (G_BB)⁻¹;
* the log evidence, the amplitude integrated out at its best value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

import numpy as np
import scipy.linalg

from corank.core.arrays import FloatArray, Index, segment_sum, take
from corank.core.folds import fold_blocks
from corank.core.storable import storable
from corank.core.stored_fields import are_below, floats, whole

ALPHAS = 10.0 ** np.linspace(-5, 2.5, 16)  # relative to the mean eigenvalue
FEW_GROUPS = 32  # whose levels are taken out by a product of matrices
LEAST_SCALE = 1e-300  # stands for 0 where a logarithm is taken
# of a centred kernel over the kernel: what is less is rounding, and tells no rows apart
LEAST_SIZE = 1e-13


@storable("Units")
@dataclass(frozen=True)
class Units:
    """Scored rows or comparisons, and what is held out together.

    scores : (N,) scores of rows, margins of comparisons
    roots : (N,) square roots of the weights
    first : (N,) the point of every unit: its row, or the item that won
    second : (N,) the items that lost, None for scored rows
    groups : (N,) codes of the queries whose level is free, None where no level is
    folds : (N,) codes of the folds
    whole : whether folds are made of whole groups, so that held-out predictions have no level
    n_points : number of rows or items
    queries : (N,) codes of the queries that were given, None without
    """

    scores: Annotated[FloatArray, floats("e")]
    roots: Annotated[FloatArray, floats("e")]
    first: Annotated[Index, whole("e")]
    second: Annotated[Index | None, whole("e") | None]
    groups: Annotated[Index | None, whole("e", below="e") | None]
    folds: Annotated[Index, whole("e", below="e")]
    whole: bool
    n_points: int
    queries: Annotated[Index | None, whole("e", below="e") | None] = None

    def is_sound(self) -> bool:
        """Whether a model can have kept such units."""
        if len(self) == 0 or not (self.roots > 0).all():
            return False
        return are_below(self.first, self.n_points) and are_below(self.second, self.n_points)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def size(self) -> int:
        """Rows of the largest matrix between units or between points."""
        return max(len(self), self.n_points)

    def take(self, units: Index) -> Units:
        """The chosen units; points keep their numbers."""
        return replace(
            self,
            scores=self.scores[units],
            roots=self.roots[units],
            first=self.first[units],
            second=take(self.second, units),
            groups=(
                None
                if self.groups is None
                else np.unique(self.groups[units], return_inverse=True)[1]
            ),
            folds=np.unique(self.folds[units], return_inverse=True)[1],
            queries=take(self.queries, units),
        )

    def renumbered(self, points: Index) -> Units:
        """The units with points numbered anew among those given, in ascending order."""
        second = None if self.second is None else np.searchsorted(points, self.second)
        return replace(
            self, first=np.searchsorted(points, self.first), second=second, n_points=len(points)
        )

    @cached_property
    def n_groups(self) -> int:
        """Number of free levels."""
        return 0 if self.groups is None else int(self.groups.max()) + 1

    @cached_property
    def directions(self) -> FloatArray:
        """What free levels take out, one unit vector per group, as their nonzero entries: (N,)."""
        if self.groups is None:
            return np.zeros(len(self))
        return self.roots / np.sqrt(np.bincount(self.groups, self.roots**2))[self.groups]

    @cached_property
    def _level_matrix(self) -> FloatArray:
        """What free levels take out, one unit vector per group: (N, groups)."""
        matrix = np.zeros((len(self), self.n_groups))
        matrix[np.arange(len(self)), self.groups] = self.directions
        return matrix

    @cached_property
    def _in_order(self) -> bool:
        """Whether unit i is point i."""
        return self.second is None and np.array_equal(self.first, np.arange(self.n_points))

    @cached_property
    def targets(self) -> FloatArray:
        """A s: (N,)."""
        return self.centred(self.roots * self.scores)

    @cached_property
    def n_free(self) -> int:
        """Units less free levels."""
        return len(self) - self.n_groups

    def centred(self, values: FloatArray) -> FloatArray:
        """Weighted values (N,) or (N, k) without the level of every group."""
        if self.groups is None:
            return values
        columns = values.reshape(len(self), -1)
        if self.n_groups <= FEW_GROUPS:
            return (columns - self._level_matrix @ (self._level_matrix.T @ columns)).reshape(
                values.shape
            )
        levels: FloatArray = segment_sum(columns, self.groups, self.n_groups, self.directions)
        return (columns - self.directions[:, None] * levels[self.groups]).reshape(values.shape)

    def differences(self, values: FloatArray) -> FloatArray:
        """Values at points (n_points, …) as values at units: (N, …)."""
        if self._in_order:
            return values
        return (
            values[self.first] if self.second is None else values[self.first] - values[self.second]
        )

    def root(self, values: FloatArray) -> FloatArray:
        """A Z for Z (n_points, k): (N, k)."""
        return self.centred(self.roots[:, None] * self.differences(values))

    def root_transposed(self, values: FloatArray) -> FloatArray:
        """Aᵀ U for U (N,) or (N, k): (n_points,) or (n_points, k)."""
        columns = (self.roots * self.centred(values).T).T
        result = np.zeros((self.n_points, *values.shape[1:]))
        np.add.at(result, self.first, columns)
        if self.second is not None:
            np.subtract.at(result, self.second, columns)
        return result

    def matrix(self, kernel: FloatArray) -> FloatArray:
        """A K Aᵀ: (N, N), for K (n_points, n_points)."""
        half = self.root(kernel)
        matrix = self.root(half.T)
        return (matrix + matrix.T) / 2

    def level(self, values: FloatArray) -> FloatArray:
        """What is missing from predictions at points (n_points, a) to the mean score: (a,); 0 where
        no level is free.
        """
        if self.groups is None:
            return np.zeros(values.shape[1:])
        weights = self.roots**2 / np.sum(self.roots**2)
        return weights @ self.scores - weights @ values[self.first]

    def left_out(self, predictions: FloatArray) -> FloatArray:
        """Predictions at points (n_points, …) as those of held-out units: weighted, and centred
        where folds are whole.
        """
        values = (self.roots * self.differences(predictions).T).T
        return self.centred(values) if self.whole else values

    @property
    def truth(self) -> FloatArray:
        """What held-out predictions should be: (N,)."""
        return self.targets if self.whole else self.roots * self.scores


@dataclass(frozen=True)
class ClosedForm:
    """All alphas of one kernel.

    alphas : (a,); log_evidence : (a,); amplitude : (a,) variance of the function in units of the
        kernel
    held_out : (N, a) held-out predictions, as `Units.left_out` gives them; variance : (N, a) of
        their residuals
    duals : (N, a) u
    """

    alphas: FloatArray
    log_evidence: FloatArray
    amplitude: FloatArray
    held_out: FloatArray
    variance: FloatArray
    duals: FloatArray

    def dual(self, shares: FloatArray) -> FloatArray:
        """u (N,), the mean over alphas by their shares (a,)."""
        return self.duals @ shares


def solve_kernel(kernel: FloatArray, units: Units, *, with_held_out: bool = True) -> ClosedForm:
    """Held-out predictions and evidence of kernel least squares for every alpha. O(N³ + a Σ_B |B|²
    (N + |B|)).

    Parameters
    ----------
    kernel : (n_points, n_points)
    units : what is fitted
    with_held_out : whether held-out predictions are wanted; else they are NaN
    """
    matrix = units.matrix(kernel)
    n = len(units)
    size = float(np.trace(matrix)) / n
    # rows are all alike
    if size <= LEAST_SIZE * float(np.trace(kernel) / len(kernel) * np.mean(units.roots**2)):
        matrix[:], size = 0.0, 1.0
    # Free levels are directions of eigenvalue 0. They get the mean eigenvalue instead, so that they
    # stay apart from small eigenvalues and can be subtracted without loss.
    if units.groups is not None:
        same = units.groups[:, None] == units.groups[None, :]
        matrix += size * same * np.outer(units.directions, units.directions)
    values, vectors = scipy.linalg.eigh(matrix, driver="evd", overwrite_a=True, check_finite=False)
    values = np.maximum(values, 0.0)
    alphas = size * ALPHAS
    projections = vectors.T @ units.targets
    inverse = 1 / (values[:, None] + alphas)
    duals = vectors @ (projections[:, None] * inverse)
    amplitude = np.maximum(projections**2 @ inverse / max(units.n_free, 1), LEAST_SCALE)
    logarithms = np.log(values[:, None] + alphas).sum(axis=0) - units.n_groups * np.log(
        size + alphas
    )
    evidence = -0.5 * (units.n_free * np.log(amplitude) + logarithms)
    residuals = variances = np.full_like(duals, np.nan)
    if with_held_out:
        residuals, variances = _held_out_residuals(vectors, inverse, duals, size + alphas, units)
    predictions = units.truth[:, None] - residuals
    return ClosedForm(alphas, evidence, amplitude, predictions, variances * amplitude, duals)


def _held_out_residuals(
    vectors: FloatArray,
    inverse: FloatArray,
    duals: FloatArray,
    level_values: FloatArray,
    units: Units,
) -> tuple[FloatArray, FloatArray]:
    """Residuals (N, a) of units that are held out with their folds, and their variances (N, a) per
    amplitude.

    inverse : (N, a) 1 / (eigenvalue + alpha); duals : (N, a); level_values : (a,) eigenvalue +
        alpha of free levels
    """
    blocks = fold_blocks(units.folds)
    directions = units.directions
    if len(blocks) == len(units):
        diagonal = vectors**2 @ inverse
        if units.groups is not None and not units.whole:
            diagonal -= directions[:, None] ** 2 / level_values
        diagonal = np.maximum(diagonal, LEAST_SCALE)
        return duals / diagonal, 1 / diagonal
    residuals, variances = np.empty_like(duals), np.empty_like(duals)
    by_alpha = np.ascontiguousarray(inverse.T)
    for block in blocks:
        rows = np.ascontiguousarray(vectors[block])
        scaled = (rows * by_alpha[:, None, :]).reshape(-1, len(vectors))
        system = (scaled @ rows.T).reshape(-1, len(block), len(block))  # (a, b, b)
        along = directions[block]
        if units.groups is not None and not units.whole:
            along_level = np.outer(along, along) * (
                units.groups[block][:, None] == units.groups[block][None, :]
            )
            system -= along_level / level_values[:, None, None]
        inverted = np.linalg.inv(system)
        residuals[block] = np.einsum("abc,ca->ba", inverted, duals[block])
        variances[block] = np.diagonal(inverted, axis1=1, axis2=2).T
        if units.groups is not None and units.whole:
            variances[block] -= along[:, None] ** 2 * level_values
    return residuals, np.maximum(variances, LEAST_SCALE)
