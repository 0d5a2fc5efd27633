"""Regularised least squares in closed form: min ‖y − F c‖² + alpha ‖c‖², for one alpha or all of them.

`DualSystem` works with J K Jᵀ (rows), `PrimalSystem` with the sums of one pass (basis functions). Both answer the same
questions, so learners and hold-out need not know which one they hold. Stable forms of math.md section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from corank._backend import Array, add_diagonal, eigh, float64, like, namespace, solve_positive
from corank.basis import Basis, FeatureBasis, FeatureMap
from corank.kernels import Kernel, checked
from corank.problem import FloatArray, Problem
from corank.statistics import Gram, Index, Statistics

EPSILON = 2.0**-52


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues (k,) and eigenvectors (k, k) of a positive semi-definite matrix: one factorisation, all alphas."""

    values: Array
    vectors: Array

    def solve(self, right: Array, alphas: Array) -> Array:
        """(A + alpha I)⁻¹ right for every alpha: right (k, 1), alphas (a,) → (k, a). O(k² a)."""
        projected = self.vectors.T @ right
        return self.vectors @ (projected / (self.values[:, None] + alphas[None, :]))


def solve_shifted(matrix: Array, alpha: float, right: Array, size: float | None = None) -> Array:
    """(A + alpha I)⁻¹ right by Cholesky, or a word on why there is none."""
    try:
        return solve_positive(add_diagonal(matrix, alpha), right)
    except ValueError:
        values, _ = eigh(matrix, size)  # refuses what is no kernel
        raise ValueError(_too_small(alpha, float(values[-1]))) from None


def _too_small(alpha: float, size: float) -> str:
    return (
        f"alpha = {alpha:.3g} is too small for these rows: beside numbers of size {size:.3g} it is lost to rounding; "
        "use a larger one, or alpha='tune'."
    )


class System(Protocol):
    """A fitted loss waiting for its alpha."""

    basis: Basis

    @property
    def spectrum(self) -> Spectrum:
        """Its eigendecomposition."""
        ...

    @property
    def scale(self) -> float:
        """Mean eigenvalue: what alpha is measured against."""
        ...

    def solve(self, alpha: float, offset: float) -> Array:
        """Coefficients of the basis for one alpha: (r,)."""
        ...

    def path(self, alphas: FloatArray, offset: float) -> Array:
        """Coefficients of the basis for every alpha: (r, a)."""
        ...


class DualSystem:
    """a = Jᵀ (J K Jᵀ + alpha I)⁻¹ J (s − offset), the expansion over the rows of the problem.

    Valid for singular K; the smallest eigenvalue is at least alpha. Building it costs O(n² d), one alpha O(n³/3),
    all alphas one eigendecomposition. With the features as basis K is linear and the expansion is summed up: Xᵀ a.

    Parameters
    ----------
    problem : Problem with n rows
    basis : a KernelBasis whose points are those rows, or the FeatureBasis
    """

    def __init__(self, problem: Problem, basis: Basis) -> None:
        self.problem = problem
        self.basis = basis
        matrix = (
            Kernel("linear").block(problem.features, problem.features)
            if isinstance(basis, FeatureBasis)
            else basis.features(problem.features)
        )
        xp = namespace(matrix)
        self._size = float(xp.max(xp.abs(xp.linalg.diagonal(matrix))))  # of kernel values, before means are taken out
        self.matrix = problem.operator.conjugate(checked(matrix))

    @property
    def scale(self) -> float:
        """trace(J K Jᵀ) over the weight of the rows."""
        return float(namespace(self.matrix).linalg.trace(self.matrix)) / self.problem.operator.weight

    @cached_property
    def spectrum(self) -> Spectrum:
        """Of J K Jᵀ."""
        return Spectrum(*eigh(self.matrix, self._size))

    def _targets(self, offset: float) -> Array:
        return self.problem.targets[:, :1] - offset * self.problem.targets[:, 1:]

    def _to_basis(self, dual: Array) -> Array:
        rows = self.problem.operator.root_transposed(dual)
        return like(float64(self.problem.features).T @ rows, rows) if isinstance(self.basis, FeatureBasis) else rows

    def solve(self, alpha: float, offset: float) -> Array:
        """One alpha, by Cholesky."""
        if alpha < 4 * EPSILON * self._size:  # coefficients of 1/alpha no longer cancel where they should
            raise ValueError(_too_small(alpha, self._size))
        return self._to_basis(solve_shifted(self.matrix, alpha, self._targets(offset), self._size))[:, 0]

    def path(self, alphas: FloatArray, offset: float) -> Array:
        """Every alpha, from one eigendecomposition."""
        return self._to_basis(self.spectrum.solve(self._targets(offset), like(alphas, self.matrix)))


class PrimalSystem:
    """c = W (Wᵀ Φᵀ L Φ W + alpha I)⁻¹ Wᵀ Φᵀ L (s − offset), from the sums of one pass.

    W whitens the basis, so that ‖c‖ is the norm of the function. One pass O(n r (r + d)), one alpha O(r³/3).

    Parameters
    ----------
    basis : Basis of r functions
    statistics : sums of whitened features
    """

    def __init__(self, basis: Basis, statistics: Statistics) -> None:
        self.basis = basis
        self.statistics = statistics

    @classmethod
    def gathered(cls, problem: Problem, basis: Basis, folds: Index | None = None) -> PrimalSystem:
        """The system of a problem, in one pass over its rows; `folds` has one number a unit."""
        white, features = basis.whitening, FeatureMap(basis)
        statistics = problem.statistics(features, features.size, folds)
        return cls(basis, statistics if white.inside or white.trivial else statistics.mapped(white.matrix))

    @cached_property
    def gram(self) -> Gram:
        """The sums over all folds."""
        return self.statistics.total()

    @property
    def scale(self) -> float:
        """trace(Φᵀ L Φ) over the weight of the rows."""
        features = self.gram.features
        return float(namespace(features).linalg.trace(features)) / self.gram.weight

    @cached_property
    def spectrum(self) -> Spectrum:
        """Of Wᵀ Φᵀ L Φ W."""
        return Spectrum(*eigh(self.gram.features))

    def solve(self, alpha: float, offset: float) -> Array:
        """One alpha, by Cholesky."""
        return (self.basis.whitening.matrix @ solve_shifted(self.gram.features, alpha, self.gram.right(offset)))[:, 0]

    def path(self, alphas: FloatArray, offset: float) -> Array:
        """Every alpha, from one eigendecomposition."""
        white = self.spectrum.solve(self.gram.right(offset), like(alphas, self.gram.matrix))
        return self.basis.whitening.matrix @ white

    def path_without(self, fold: int, alphas: FloatArray, centred: bool) -> tuple[Array, float]:
        """Coefficients of the whitened features (r', a) without a fold, and the mean score that was taken out."""
        gram = self.statistics.without(fold)
        offset = gram.mean_score if centred else 0.0
        spectrum = Spectrum(*eigh(gram.features))
        return spectrum.solve(gram.right(offset), like(alphas, gram.matrix)), offset
