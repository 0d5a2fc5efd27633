"""A Gaussian belief about a function, in the span of a basis: means, variances, covariances, differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corank._arrays import Array, like, namespace, symmetrised, take
from corank.basis import KernelBasis
from corank.kernels import Kernel
from corank.model_files.packing import storable


@storable("GaussianPart")
@dataclass(frozen=True)
class GaussianPart:
    """A Gaussian process: mean Σ c_i k(x, z_i), covariance amplitude · k − Φ Q Φᵀ.

    weight : its share where several widths are averaged over; coefficients : (r,); spread : (r, r) = Q
    """

    weight: float
    kernel: Kernel
    amplitude: float
    coefficients: Array
    spread: Array

    def _basis(self, features: Array, points: Array) -> Array:
        """Φ, the kernel values with the basis points: (n, r)."""
        return KernelBasis(self.kernel, points).features(features)

    def moments(self, features: Array, points: Array) -> tuple[Array, Array]:
        """Mean and variance at the rows: (n,) each. O(n r (r + d))."""
        phi = self._basis(features, points)
        left = self.amplitude * self.kernel.diagonal(features) - self._explained(phi)
        return phi @ like(self.coefficients, phi), _at_least_zero(left)

    def covariance(self, features: Array, points: Array) -> tuple[Array, Array]:
        """Mean (n,) and covariance (n, n)."""
        phi = self._basis(features, points)
        prior = self.amplitude * self.kernel.block(features, features)
        left = symmetrised(prior - phi @ like(self.spread, phi) @ phi.T)
        own = namespace(left).linalg.diagonal(left)
        below = _at_least_zero(-own)  # rounding: no variance is negative
        return phi @ like(self.coefficients, phi), left + below[:, None] * like(np.eye(int(own.shape[0])), left)

    def differences(self, first: Array, second: Array, points: Array) -> tuple[Array, Array]:
        """Mean and variance of f(a) − f(b), row by row: (n,) each."""
        phi = self._basis(first, points) - self._basis(second, points)
        prior = self.kernel.diagonal(first) + self.kernel.diagonal(second) - 2 * _row_by_row(self.kernel, first, second)
        left = self.amplitude * prior - self._explained(phi)
        return phi @ like(self.coefficients, phi), _at_least_zero(left)

    def _explained(self, phi: Array) -> Array:
        return namespace(phi).sum((phi @ like(self.spread, phi)) * phi, axis=1)


def _at_least_zero(values: Array) -> Array:
    xp = namespace(values)
    return xp.where(values > 0, values, xp.zeros_like(values))


def _row_by_row(kernel: Kernel, first: Array, second: Array) -> Array:
    """k(a_i, b_i): (n,)."""
    n, parts = int(first.shape[0]), []
    for begin in range(0, n, 64):
        rows = slice(begin, min(begin + 64, n))
        values = kernel.block(take(first, rows), take(second, rows))
        parts.append(namespace(values).linalg.diagonal(values))
    return namespace(parts[0]).concat(parts)
