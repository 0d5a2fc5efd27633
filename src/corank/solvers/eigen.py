"""The largest eigenvalues of a kernel matrix without its full eigendecomposition."""

from __future__ import annotations

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from corank._backend import Array, eigh, like, namespace, symmetrised
from corank._warnings import warn_user

SHARE = 0.1  # of the eigenvalues: for more of them the full decomposition is as fast
SMALL = 3_000  # rows up to which it always is
LARGE = 10_000  # rows up to which it is an alternative where the iteration does not settle
DEPTH = 3  # products with the matrix between two restarts
RESTARTS = 40
WORTH_IT = 5  # n³ operations that the iteration may take where the full decomposition, about ten, is an alternative
TOLERANCE = 1e-9  # of the residual, beside its own eigenvalue
ROUGHER = 1e-6  # the same for more than LARGE rows
ROUNDING = 1e-13  # of the residual, beside the largest one


def leading_eigenpairs(matrix: Array, count: int, size: float | None = None, seed: int = 0) -> tuple[Array, Array]:
    """The `count` largest eigenvalues, largest first, and their eigenvectors.

    A block Krylov iteration restarted with the Ritz vectors: O(n² count) a product, a few dozen products, next to no
    memory beside the matrix; the full decomposition where that is cheaper.

    Parameters
    ----------
    matrix : (n, n) symmetric positive semi-definite
    size : of kernel values; see `eigh`

    Returns
    -------
    (count,), (n, count)
    """
    n = int(matrix.shape[0])
    if n > SMALL and count <= SHARE * n:
        values, vectors, settled = _restarted(matrix, count, seed)
        if not settled and n > LARGE:
            warn_user(
                f"the {count} leading components did not settle: the last of them explain about the same. "
                "Fewer components, or a basis of some rows, are better determined.",
                ConvergenceWarning,
            )
        if settled or n > LARGE:
            return values, vectors
    values, vectors = eigh(matrix, size)
    xp = namespace(matrix)
    return xp.flip(values[n - count :]), xp.flip(vectors[:, n - count :], axis=1)


def _restarted(matrix: Array, count: int, seed: int) -> tuple[Array, Array, bool]:
    """What was found, and whether it settled."""
    xp = namespace(matrix)
    n = int(matrix.shape[0])
    width = count + max(10, count // 5)
    start = np.random.default_rng(seed).standard_normal((n, width))
    ritz, _ = xp.linalg.qr(like(start, matrix))
    image = matrix @ ritz
    restarts = RESTARTS if n > LARGE else min(RESTARTS, max(2, int(WORTH_IT * n / (3 * DEPTH * width))))
    tolerance = TOLERANCE if n <= LARGE else ROUGHER
    first, settled = 0.0, False
    for restart in range(1, restarts + 1):
        basis, images = ritz, image
        for _ in range(DEPTH):
            block = _orthonormal(images[:, -width:], basis)
            basis = xp.concat([basis, block], axis=1)
            images = xp.concat([images, matrix @ block], axis=1)
        values, vectors = xp.linalg.eigh(symmetrised(basis.T @ images))
        best = xp.flip(vectors[:, -width:], axis=1)
        values = xp.flip(values[-width:])
        ritz, image = basis @ best, images @ best
        gaps = image[:, :count] - ritz[:, :count] * values[None, :count]
        residuals = xp.sqrt(xp.sum(gaps * gaps, axis=0))
        largest = float(values[0])
        allowed = tolerance * xp.abs(values[:count]) + ROUNDING * largest
        settled = bool(xp.all(residuals <= allowed))
        if settled or restart == restarts:
            break
        worst = float(np.log(float(xp.max(residuals)) / float(xp.max(allowed))))
        first = first or worst
        pace = (first - worst) / max(restart - 1, 1)
        if n <= LARGE and restart > 2 and worst > max(pace, 0.0) * (restarts - restart):
            break  # it would take too long
    values = values[:count]
    return xp.where(values > 0, values, xp.zeros_like(values)), ritz[:, :count], settled


def _orthonormal(block: Array, basis: Array) -> Array:
    """An orthonormal basis of what a block adds; directions that add nothing become arbitrary new ones."""
    xp = namespace(block)
    for _ in range(2):
        block = block - basis @ (basis.T @ block)
        block, _ = xp.linalg.qr(block)
    return block
