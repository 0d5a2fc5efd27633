"""One eigendecomposition A = V diag(λ) Vᵀ serves all alphas: solutions, what is predicted of units
that are held out, and the evidence.

With S = (A + alpha I)⁻¹ and the targets y, the solution is u = S y. Units U that are left out have
the residuals (S_UU)⁻¹ u_U under the model fitted without them (docs/mathematics.md, section 3), and
the variances of those residuals, in units of the amplitude, are the diagonal of (S_UU)⁻¹.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import minimize

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    device,
    eigh,
    like,
    namespace,
    runs_of_rows,
    take,
    to_numpy,
    writable,
    zeros_beside,
)
from corank.core.sums import BLOCK_ENTRIES

OPEN_FUNCTIONS = (
    "alpha = 0 needs scores and agreement that leave no function open, and these rows do: use alpha"
    " greater than 0, basis='scored', or a smaller basis."
)
LEAST = 1e-300  # stands for 0 where it is divided by, or where a logarithm is taken
ROUNDING = 2.0**-52  # share of the largest eigenvalue, per direction, below which another one is 0
PRODUCT_ENTRIES = 2**16  # of products of vectors at a time, which stay in a cache
FEW_ALPHAS = 8  # for which the systems of blocks are made one after the other
SYSTEM_ENTRIES = 2**23  # of the systems of one block for as many alphas as fit: 64 MB
LOG_TAU = float(np.log(2 * np.pi))
# Log amplitude and log noise beside the scale of the data: within them alpha = noise / amplitude
# stays above rounding.
LOG_RANGES = ((-14.0, 12.0), (-16.0, 4.0))
LOG_STARTS = (-0.7, -3.0)  # of both: a noisy function, and one that explains nearly everything


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues (k,) and eigenvectors (n, k) of a positive semi-definite matrix, or some rows of
    them.
    """

    values: Array
    vectors: Array

    @classmethod
    def of(cls, matrix: Array, size: float | None = None) -> Self:
        """The decomposition of a matrix (k, k); `size` of its kernel values, as in `eigh`. O(k³)."""
        return cls(*eigh(matrix, size))

    def inverse(self, alphas: FloatArray) -> Array:
        """1 / (λ + alpha): (k, a)."""
        return 1 / (self.values[:, None] + like(alphas, self.values)[None, :])

    def solve(self, right: Array, alphas: FloatArray) -> Array:
        """(A + alpha I)⁻¹ right for every alpha: right (k, 1), alphas (a,) → (k, a). O(k² a)."""
        return self.vectors @ ((self.vectors.T @ right) * self.inverse(alphas))

    def refuse_open(self) -> None:
        """Refuse alpha = 0 where an eigenvalue is 0, whose direction scores and agreement leave open."""
        values = to_numpy(self.values)
        if values[0] <= len(values) * ROUNDING * values[-1]:
            raise ValueError(OPEN_FUNCTIONS)

    def without(self, levels: Array) -> Spectrum:
        """With orthonormal directions (n, q) taken out of the vectors, which are then no longer
        orthonormal. O(n k q).
        """
        return Spectrum(self.values, self.vectors - levels @ (levels.T @ self.vectors))

    def left_out(
        self,
        targets: Array,
        blocks: Sequence[Index],
        alphas: FloatArray,
        offsets: FloatArray | None = None,
        *,
        with_variances: bool = False,
    ) -> LeftOut:
        """Residuals of every block under the model fitted without it; see `leave_out`."""
        rows = self.vectors, self.inverse(alphas), targets, blocks, offsets
        return leave_out(*rows, with_variances=with_variances)

    def evidence(self, targets: Array, dimension: int) -> LogEvidence:
        """The evidence of targets (k, 1), of which `dimension` are free."""
        energies = to_numpy(self.vectors.T @ targets)[:, 0] ** 2
        return LogEvidence(to_numpy(self.values), energies, 0.0, dimension)


def solve_shifts(matrix: FloatArray, right: FloatArray, alphas: FloatArray) -> FloatArray:
    """(A + alpha I)⁻¹ right for every alpha: A (n, n) positive semi-definite, right (n,), alphas
    (a,) → (n, a). O(4/3 n³ + n² a), a fourth of what all eigenvectors take.

    A = Q T Qᵀ for a tridiagonal T. Q leaves the first entry as it is, and is a product of as many
    reflections as a QR decomposition of one row less would have.
    """
    n = len(matrix)
    if n == 1:
        return right[:, None] / (matrix + alphas)
    work = int(lapack.dsytrd_lwork(n, lower=1)[0])
    reduced, diagonal, beside, scales, _ = lapack.dsytrd(matrix, lower=1, lwork=work)
    reflections = reduced[1:, :-1]
    targets = right[:, None].copy()
    targets[1:] = lapack.dormqr("L", "T", reflections, scales, targets[1:], lwork=work)[0]
    systems = [lapack.dptsv(diagonal + alpha, beside, targets) for alpha in alphas]
    solutions = np.hstack([system[2] for system in systems])
    solutions[1:] = lapack.dormqr("L", "N", reflections, scales, solutions[1:], lwork=work)[0]
    return solutions


# ---------------------------------------------------------------- what is held out


class LeftOut(NamedTuple):
    """Residuals (n, a) of units that are left out with their block, zeros where there is none; and
    their variances (n, a), in units of the amplitude, None where they were not asked for.
    """

    residuals: Array
    variances: Any = None


def leave_out(
    vectors: Array,
    weights: Array,
    targets: Array,
    blocks: Sequence[Index],
    offsets: FloatArray | None = None,
    *,
    projected: Array | None = None,
    complement: bool = False,
    with_variances: bool = False,
) -> LeftOut:
    """Residuals of each block under the model fitted without it, for every alpha.

    With S = V diag(w) Vᵀ they are (S_UU)⁻¹ (S y)_U; with `complement`, S = I − V diag(w) Vᵀ. O(n k
    m a) for n rows in blocks of m.

    Parameters
    ----------
    vectors : (n, k)
    weights : (k, a), one column per alpha
    targets : (n, 1), or (n, 2) where a mean is taken out: y = targets[:, 0] − offset targets[:, 1]
    blocks : row numbers, disjoint
    offsets : (blocks,), None for zeros
    projected : (k, 1) or (k, 2), Vᵀ targets over all rows where `vectors` and `targets` are some of
        them
    with_variances : whether the diagonal of (S_UU)⁻¹ is wanted
    """
    xp = namespace(vectors)
    k, a = weights.shape
    t = 2 if offsets is not None and np.any(offsets) else 1
    projected = vectors.T @ targets if projected is None else projected
    filtered = xp.reshape(weights[:, :, None] * projected[:, None, :t], (k, a * t))
    places: list[Index] = []
    residuals: list[Array] = []
    variances: list[Array] = []
    for members, rows in _alike(blocks, k):
        shape = len(members), len(rows) // len(members)
        chosen = take(vectors, rows)
        right = xp.reshape(chosen @ filtered, (*shape, a, t))
        if complement:
            right = xp.reshape(take(targets[:, :t], rows), (*shape, 1, t)) - right
        solved = right[..., 0]
        if t == 2:
            assert offsets is not None
            solved = solved - like(offsets[members], right)[:, None, None] * right[..., 1]
        cube = xp.reshape(chosen, (*shape, k))
        parts = [
            _solve_blocks(cube, weights[:, run], solved[:, :, run], complement, with_variances)
            for run in runs_of_rows(a, max(1, SYSTEM_ENTRIES // shape[1] ** 2))
        ]
        places.append(rows)
        for results, values in zip((residuals, variances), zip(*parts, strict=True), strict=False):
            joined = values[0] if len(values) == 1 else xp.concat(values, axis=2)
            results.append(xp.reshape(joined, (-1, a)))
    n = vectors.shape[0]
    spreads = in_place(places, variances, n) if with_variances else None
    return LeftOut(in_place(places, residuals, n), spreads)


def _alike(blocks: Sequence[Index], width: int) -> Iterator[tuple[Index, Index]]:
    """Blocks of the same size together, as many as fit: their numbers, and all their rows."""
    sizes = np.asarray([len(block) for block in blocks])
    for size in np.unique(sizes[sizes > 0]):
        numbers = np.flatnonzero(sizes == size)
        step = max(1, BLOCK_ENTRIES // 2 // (int(size) * width))
        for run in runs_of_rows(len(numbers), step):
            members = numbers[run]
            yield members, np.concatenate([blocks[number] for number in members])


def _solve_blocks(
    cube: Array, weights: Array, right: Array, complement: bool, with_variances: bool
) -> tuple[Array, ...]:
    """(S_UU)⁻¹ right and, where they are wanted, the diagonals of (S_UU)⁻¹: (blocks, m, a) each.

    cube : (blocks, m, k), weights (k, a), right (blocks, m, a)
    """
    xp = namespace(cube)
    systems = _block_systems(cube, weights)
    m = cube.shape[1]
    if complement:
        identity = xp.eye(m, dtype=cube.dtype, device=device(cube))
        systems = identity[None, :, :, None] - systems
    if m == 1:
        inner = systems[:, 0, ...]
        inverse = 1 / xp.where(inner > LEAST, inner, LEAST * xp.ones_like(inner))
        return (right * inverse, inverse) if with_variances else (right * inverse,)
    systems = xp.permute_dims(systems, (0, 3, 1, 2))
    right = xp.permute_dims(right, (0, 2, 1))[..., None]
    if not with_variances:
        return (xp.permute_dims(xp.linalg.solve(systems, right)[..., 0], (0, 2, 1)),)
    inverse = xp.linalg.inv(systems)
    both = (inverse @ right)[..., 0], xp.linalg.diagonal(inverse)
    return tuple(xp.permute_dims(values, (0, 2, 1)) for values in both)


def _block_systems(cube: Array, weights: Array) -> Array:
    """V_U diag(w) V_Uᵀ for every block and alpha: (blocks, m, m, a).

    Row by row of the blocks, products of whose vectors serve all alphas; few alphas one by one.
    """
    xp = namespace(cube)
    (g, m, k), a = cube.shape, weights.shape[1]
    if a < min(m / 2, FEW_ALPHAS) or not writable(cube):
        turned = xp.matrix_transpose(cube)
        return xp.stack([(cube * weights[:, j]) @ turned for j in range(a)], axis=3)
    systems = zeros_beside((g, m, m, a), cube)
    for run in runs_of_rows(m, max(1, PRODUCT_ENTRIES // (g * m * k))):
        products = cube[:, run.start :, None, :] * cube[:, None, run, :]
        values = xp.reshape(xp.reshape(products, (-1, k)) @ weights, (*products.shape[:3], a))
        systems[:, run.start :, run, :] = values
        systems[:, run, run.start :, :] = xp.permute_dims(values, (0, 2, 1, 3))
    return systems


def in_place(blocks: Sequence[Index], values: Sequence[Array], n: int) -> Array:
    """The rows (m, a) of each block where they belong, zeros where there is no block: (n, a)."""
    placed = np.concatenate(blocks)
    rows = values[0] if len(values) == 1 else namespace(values[0]).concat(values, axis=0)
    if len(placed) < n:
        others = np.setdiff1d(np.arange(n), placed)
        placed = np.concatenate([placed, others])
        rows = namespace(rows).concat([rows, zeros_beside((len(others), rows.shape[1]), rows)])
    return take(rows, np.argsort(placed))


# ---------------------------------------------------------------- evidence


@dataclass(frozen=True)
class LogEvidence:
    """The log evidence of targets y ~ N(0, amplitude · A + noise · I) for any amplitude and noise.

    values : (k,) eigenvalues of A; energies : (k,) squares of y in their directions
    remainder : ‖y‖² outside of those directions; dimension : of y, less than k where levels that
        were taken out are among the directions
    """

    values: FloatArray
    energies: FloatArray
    remainder: float
    dimension: int

    def at(self, amplitude: Any, noise: Any) -> Any:
        """The log evidence of an amplitude and a noise, or of as many of both (a,)."""
        variances = np.multiply.outer(amplitude, self.values) + np.asarray(noise)[..., None]
        return -0.5 * (
            np.sum(self.energies / variances + np.log(variances), axis=-1)
            + self.remainder / noise
            + (self.dimension - len(self.values)) * np.log(noise)
            + self.dimension * LOG_TAU
        )

    def slopes(self, amplitude: float, noise: float) -> FloatArray:
        """The slopes of `at` in log amplitude and log noise."""
        variances = amplitude * self.values + noise
        # squares of variances may overflow
        pulls = 0.5 * (self.energies / variances - 1) / variances
        n_others = self.dimension - len(self.values)
        amplitude_slope = amplitude * np.sum(pulls * self.values)
        noise_slope = noise * np.sum(pulls) + 0.5 * (self.remainder / noise - n_others)
        return np.asarray([amplitude_slope, noise_slope])

    def best_amplitudes(self, alphas: FloatArray) -> FloatArray:
        """The amplitude of largest evidence for every alpha = noise / amplitude: (a,)."""
        squares = np.sum(self.energies / (self.values + alphas[:, None]), axis=1)
        squares += self.remainder / alphas
        return np.asarray(np.maximum(squares / max(self.dimension, 1), LEAST))

    def best(self, amplitude: float | None, noise: float | None) -> tuple[float, float, float]:
        """Amplitude, noise and log evidence at its largest, over those parameters that are None.

        A noise at the lower end of its range stands for no noise.
        """
        energy = (float(self.energies.sum()) + self.remainder) / max(self.dimension, 1) or 1.0
        scale = float(self.values.sum()) / max(self.dimension, 1) or 1.0
        learned = [amplitude is None, noise is None]
        units = np.log([energy / scale, energy])

        def at(point: FloatArray) -> tuple[float, float]:
            full = np.zeros(2)
            full[learned] = point
            a = float(np.exp(units[0] + full[0])) if amplitude is None else amplitude
            s = float(np.exp(units[1] + full[1])) if noise is None else noise
            return a, s

        def descent(point: FloatArray) -> tuple[float, FloatArray]:
            place = at(point)
            return -float(self.at(*place)), -self.slopes(*place)[learned]

        if amplitude is not None and noise is not None:
            return amplitude, noise, float(self.at(amplitude, noise))
        starts = [np.full(sum(learned), start) for start in LOG_STARTS]
        bounds = [ends for ends, is_learned in zip(LOG_RANGES, learned, strict=True) if is_learned]
        search = partial(minimize, descent, jac=True, method="L-BFGS-B", bounds=bounds)
        result = min(map(search, starts), key=lambda end: float(end.fun))
        return (*at(result.x), -float(result.fun))
