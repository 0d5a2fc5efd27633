"""A Gaussian posterior over a function in the span of a basis: means, variances, covariances,
differences.

Also what both Gaussian processes need to learn kernel widths: a kernel of another width, and slopes
in widths.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeAlias

import numpy as np

from corank.core.arrays import (
    Array,
    FloatArray,
    add_diagonal,
    at_least_zero,
    float64,
    is_sparse,
    like,
    namespace,
    symmetrised,
    to_numpy,
)
from corank.core.basis import KernelBasis
from corank.core.kernels import Kernel, product, squared_norms
from corank.core.storable import storable
from corank.core.stored_fields import floats

Widths: TypeAlias = Literal[
    "given", "one", "each"
]  # learn none (that of the kernel), one for all columns, one per column

# basis points up to which one thread is fastest: matrices are too small to share
MAX_ONE_THREAD_POINTS = 400


# ---------------------------------------------------------------- the posterior


@storable("GaussianPart")
@dataclass(frozen=True)
class GaussianPart:
    """A Gaussian process: mean Σ c_i k(x, z_i), covariance amplitude · k − Φ Q Φᵀ.

    weight : its share where several widths are averaged over
    coefficients : (r,) = c
    spread : (r, r) = Q, what the data take off the covariance before any data
    """

    weight: float
    kernel: Kernel
    amplitude: float
    coefficients: Annotated[Array, floats("r")]
    spread: Annotated[Array, floats("r", "r")]

    def _basis(self, features: Array, points: Array) -> Array:
        """Φ, the kernel values with the basis points: (n, r)."""
        return KernelBasis(self.kernel, points).features(features)

    def moments(self, features: Array, points: Array) -> tuple[Array, Array]:
        """Mean and variance at the rows: (n,) each. O(n r (r + d))."""
        phi = self._basis(features, points)
        variances = self.amplitude * self.kernel.diagonal(features) - self._explained(phi)
        return phi @ like(self.coefficients, phi), at_least_zero(variances)

    def covariance(self, features: Array, points: Array) -> tuple[Array, Array]:
        """Mean (n,) and covariance (n, n) at the rows."""
        phi = self._basis(features, points)
        prior = self.amplitude * self.kernel.block(features, features)
        covariance = symmetrised(prior - phi @ like(self.spread, phi) @ phi.T)
        variances = namespace(covariance).linalg.diagonal(covariance)
        missing = at_least_zero(-variances)  # rounding: no variance is negative
        return phi @ like(self.coefficients, phi), add_diagonal(covariance, missing)

    def differences(self, first: Array, second: Array, points: Array) -> tuple[Array, Array]:
        """Mean and variance of f(a) − f(b), row by row: (n,) each."""
        phi = self._basis(first, points) - self._basis(second, points)
        prior = (
            self.kernel.diagonal(first)
            + self.kernel.diagonal(second)
            - 2 * self.kernel.row_by_row(first, second)
        )
        variances = self.amplitude * prior - self._explained(phi)
        return phi @ like(self.coefficients, phi), at_least_zero(variances)

    def _explained(self, phi: Array) -> Array:
        """The diagonal of Φ Q Φᵀ: (n,)."""
        return namespace(phi).sum((phi @ like(self.spread, phi)) * phi, axis=1)


# ---------------------------------------------------------------- kernel widths


def widened(kernel: Kernel, step: float) -> Kernel:
    """The kernel with gamma times exp(step)."""
    assert kernel.gamma is not None
    return replace(kernel, gamma=kernel.gamma * float(np.exp(step)))


def seen_rows(kernel: Kernel, rows: Array, *, each: bool) -> Array:
    """Rows with the column scales of the kernel; dense where every column has a slope of its own
    (`each`).
    """
    X = kernel.seen(float64(rows))
    return X.toarray() if each and is_sparse(X) else X


def weighted_distances(weights: Array, X: Array, Z: Array, *, each: bool) -> FloatArray:
    """Σ_ij weights_ij (x_i − z_j)², one per column (`each`, dense rows) or summed over all columns:
    (d,) or (1,).
    """
    xp = namespace(weights)
    if not is_sparse(X) and not is_sparse(
        Z
    ):  # distances do not change with the origin; there least is lost to rounding
        origin = xp.mean(Z, axis=0, keepdims=True)
        X, Z = X - origin, Z - origin
    rows, columns = xp.sum(weights, axis=1), xp.sum(weights, axis=0)
    if each:
        return to_numpy(rows @ (X * X) + columns @ (Z * Z) - 2 * xp.sum(X * (weights @ Z), axis=0))
    total = (
        rows @ squared_norms(X) + columns @ squared_norms(Z) - 2 * xp.sum(weights * product(X, Z))
    )
    return np.asarray([float(total)])
