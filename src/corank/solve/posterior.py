"""What is believed about a function after data: Gaussian processes, and mixtures of them.

One implementation of their moments serves Gaussian processes, the average and the interview. Also
what both Gaussian processes need to learn kernel widths: a kernel of another width, and slopes in
widths.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from scipy.special import ndtr

from corank.core.arrays import (
    Array,
    FloatArray,
    add_diagonal,
    at_least_zero,
    float64,
    in_order,
    is_foreign,
    is_sparse,
    like,
    namespace,
    runs_of_rows,
    symmetrised,
    take,
    to_numpy,
)
from corank.core.kernels import Kernel, finite_values, product, squared_norms
from corank.core.storable import floats, storable
from corank.solve.function import Expansion

# learn none (that of the kernel), one for all columns, one per column
Widths: TypeAlias = Literal["given", "one", "each"]
Moments: TypeAlias = tuple[Array, Array]  # mean, and variance or covariance

# basis points up to which one thread is fastest: matrices are too small to share
MAX_ONE_THREAD_POINTS = 400
BLOCK_ROWS = 2_000  # at a time, where a posterior does not say how many fit into a cache


# ---------------------------------------------------------------- one Gaussian process


class GaussianProcess(ABC):
    """A Gaussian process after data: the covariance before any, less what the data explain of it.

    The data speak through features Φ of the rows. What rows are is up to the process.
    """

    @abstractmethod
    def mean_and_features(self, rows: Any) -> tuple[Array, Array]:
        """The mean at the rows (n,), and Φ (n, r)."""

    @abstractmethod
    def prior(self, rows: Any, features: Array, *, whole: bool = False) -> Array:
        """Variances (n,) before any data, or the `whole` covariance (n, n)."""

    @abstractmethod
    def prior_of_differences(self, first: Any, second: Any) -> Array:
        """Variances (n,) of f(a) − f(b) before any data, row by row."""

    @abstractmethod
    def explained(self, features: Array, *, whole: bool = False) -> Array:
        """What the data take off the variances (n,), or off the `whole` covariance (n, n)."""

    def moments(self, rows: Any) -> Moments:
        """Mean and variance at the rows: (n,) each."""
        mean, features = self.mean_and_features(rows)
        return mean, at_least_zero(self.prior(rows, features) - self.explained(features))

    def covariance(self, rows: Any) -> Moments:
        """Mean (n,) and covariance (n, n) at the rows, but for rounding."""
        mean, features = self.mean_and_features(rows)
        prior = self.prior(rows, features, whole=True)
        return mean, prior - self.explained(features, whole=True)

    def differences(self, first: Any, second: Any) -> Moments:
        """Mean and variance of f(a) − f(b), row by row: (n,) each."""
        first_mean, first_features = self.mean_and_features(first)
        second_mean, second_features = self.mean_and_features(second)
        explained = self.explained(first_features - second_features)
        variances = self.prior_of_differences(first, second) - explained
        return first_mean - second_mean, at_least_zero(variances)


@storable("GaussianPart")
@dataclass(frozen=True)
class GaussianPart:
    """A Gaussian process on basis points z: mean Σ c_i k(x, z_i), covariance amplitude · k − Φ Q Φᵀ.

    weight : its share where several widths are averaged over
    coefficients : (r,) = c
    spread : (r, r) = Q, what the data take off the covariance before any data
    """

    weight: float
    kernel: Kernel
    amplitude: float
    coefficients: Annotated[Array, floats("r")]
    spread: Annotated[Array, floats("r", "r")]


@dataclass(frozen=True)
class KernelProcess(GaussianProcess):
    """The Gaussian process of a part, whose mean is a function on basis points."""

    part: GaussianPart
    mean: Expansion

    def mean_and_features(self, rows: Array) -> tuple[Array, Array]:  # noqa: D102
        phi = self.mean.features(rows)
        return phi @ like(self.part.coefficients, phi), phi

    def prior(self, rows: Array, features: Array, *, whole: bool = False) -> Array:  # noqa: D102
        kernel = self.part.kernel
        values = kernel.block(rows, rows) if whole else kernel.diagonal(rows)
        return self.part.amplitude * values

    def prior_of_differences(self, first: Array, second: Array) -> Array:  # noqa: D102
        kernel = self.part.kernel
        variances = kernel.diagonal(first) + kernel.diagonal(second)
        return self.part.amplitude * (variances - 2 * kernel.row_by_row(first, second))

    def explained(self, features: Array, *, whole: bool = False) -> Array:  # noqa: D102
        half = features @ like(self.part.spread, features)
        if whole:
            return half @ features.T
        return namespace(half).sum(half * features, axis=1)


# ---------------------------------------------------------------- a mixture of them


@dataclass(frozen=True)
class Posterior:
    """What is believed about a function: a mixture of Gaussian processes.

    weights : one per process, their sum is 1
    answer_noise : variance of the noise of an observed difference; half of it is that of a score
    factor : by which standard deviations, but not those of the noise, are multiplied
    block_rows : so many rows are looked at at a time
    as_one : whether chances are those of one Gaussian with the moments of the mixture
    answers_measure : whether answers say by how much one of two is better, not only that it is
    free_level : whether only the order of scores counts, so that their level tells nothing
    """

    processes: Sequence[GaussianProcess]
    weights: Sequence[float]
    answer_noise: float
    factor: float = 1.0
    block_rows: int = BLOCK_ROWS
    as_one: bool = False
    answers_measure: bool = True
    free_level: bool = True

    def moments(self, rows: Any) -> Moments:
        """Mean and variance at the rows: (n,) each, block by block."""

        def moments(run: slice) -> Moments:
            block = take(rows, run)
            return self._mixed(process.moments(block) for process in self.processes)

        blocks = list(self._in_blocks(moments, rows))
        xp = namespace(blocks[0][0])
        means, variances = zip(*blocks, strict=True)
        return xp.concat(means), xp.concat(variances)

    def covariance(self, rows: Any) -> Moments:
        """Mean (n,) and covariance (n, n) at the rows."""
        mean, covariance = self._mixed(process.covariance(rows) for process in self.processes)
        covariance = symmetrised(covariance)
        variances = namespace(covariance).linalg.diagonal(covariance)
        missing = at_least_zero(-variances)  # rounding: no variance is negative
        return mean, finite_values(add_diagonal(covariance, missing))

    def chances(self, first: Any, second: Any, *, observed: bool = False) -> FloatArray:
        """The probability (n,) that f(a) > f(b), row by row; or, if `observed`, that a newly
        observed difference is above 0.
        """
        noise = self.answer_noise if observed else 0.0
        return self.averaged(lambda moments, _: chance_above_zero(moments, noise), first, second)

    def averaged(
        self, chance: Callable[[Moments, slice], FloatArray], first: Any, second: Any
    ) -> FloatArray:
        """What a function says of the moments of f(a) − f(b) and the numbers of their rows, row by
        row, averaged over the mixture: (n, …).
        """

        def average(run: slice) -> FloatArray:
            ends = take(first, run), take(second, run)
            gaps = [process.differences(*ends) for process in self.processes]
            if self.as_one:
                return chance(self._mixed(gaps), run)
            shares = zip(self.weights, gaps, strict=True)
            return np.asarray(sum(weight * chance(gap, run) for weight, gap in shares))

        return np.concatenate(list(self._in_blocks(average, first)))

    def _mixed(self, moments: Iterable[Moments]) -> Moments:
        mean, spread = mixture(self.weights, moments)
        return mean, self.factor**2 * spread

    def _in_blocks(self, values: Callable[[slice], Any], rows: Any) -> Any:
        runs = runs_of_rows(rows.shape[0], self.block_rows)
        return in_order(values, runs, rows if is_foreign(rows) else np.empty(0))


def mixture(weights: Iterable[float], moments: Iterable[Moments]) -> Moments:
    """The mean, and the variance or covariance, of a mixture of Gaussians; only one of them is held
    at a time.
    """
    first: Any = None
    shift: Any = 0.0  # of the mean from that of the first
    total: Any = 0.0
    for weight, (mean, spread) in zip(weights, moments, strict=True):
        first = mean if first is None else first
        gap = mean - first
        shift = shift + weight * gap
        total = total + weight * (spread + _square(gap, spread))
    return first + shift, total - _square(shift, total)


def _square(gap: Array, spread: Array) -> Array:
    """Squares of gaps (n,), or products of all pairs of them, as the spread has it."""
    return gap * gap if len(spread.shape) == 1 else gap[:, None] * gap[None, :]


def chance_above_zero(moments: Moments, noise: float = 0.0) -> FloatArray:
    """The probability that normal variables of a mean and variance, and noise beside it, are above
    0; ½ where both are 0.
    """
    mean = to_numpy(moments[0])
    scale = np.sqrt(to_numpy(moments[1]) + noise)
    sure = np.where(mean == 0, 0.0, np.copysign(np.inf, mean))
    return np.asarray(ndtr(np.divide(mean, scale, out=sure, where=scale > 0)))


def draws(moments: Moments, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """Draws of a Gaussian of some mean (m,) and covariance (m, m): (n_draws, m)."""
    mean, covariance = moments
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(mean + rng.standard_normal((n_draws, len(mean))) @ root.T)


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


def weighted_distances(
    weights: Array, X: Array, Z: Array, *, each: bool, power: int = 2
) -> FloatArray:
    """Σ_ij weights_ij |x_i − z_j|^power, one per column (`each`, dense rows) or summed over all
    columns: (d,) or (1,). The power is 2, or 1 per column of NumPy arrays.
    """
    if power == 1:
        gaps = (np.abs(np.subtract.outer(x, z)) for x, z in zip(X.T, Z.T, strict=True))
        return np.asarray([np.vdot(weights, gap) for gap in gaps])
    xp = namespace(weights)
    if not is_sparse(X) and not is_sparse(Z):
        # distances do not change with the origin; there least is lost to rounding
        origin = xp.mean(Z, axis=0, keepdims=True)
        X, Z = X - origin, Z - origin
    rows, columns = xp.sum(weights, axis=1), xp.sum(weights, axis=0)
    if each:
        return to_numpy(rows @ (X * X) + columns @ (Z * Z) - 2 * xp.sum(X * (weights @ Z), axis=0))
    total = rows @ squared_norms(X) + columns @ squared_norms(Z)
    return np.asarray([float(total - 2 * xp.sum(weights * product(X, Z)))])
