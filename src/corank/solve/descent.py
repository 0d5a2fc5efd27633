"""Block coordinate descent: one view after the other, the others held (001 Algorithm 1), and its
acceleration.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from corank.core.arrays import Array, Index, cholesky, namespace, solve_lower, solve_upper


@dataclass(frozen=True)
class Descent:
    """Where descent stopped: the solution (k, 1), how many sweeps, and the gradient relative to the
    right-hand side.
    """

    solution: Array
    n_iter: int
    gradient: float


def descend(
    matrix: Array,
    right: Array,
    ends: Index,
    *,
    max_iter: int,
    tol: float,
    accelerated: bool = False,
) -> Descent:
    """Solve A c = b for a positive definite A, block by block from zero, until ‖A c − b‖ <= tol
    ‖b‖.

    Plain: Gauss-Seidel sweeps, each block factorised once. They always converge, but may take very
    long where views are strongly tied together (docs/mathematics.md, 3.12). Accelerated: conjugate
    gradients with one sweep forth and one back as preconditioner, a step as much work as two
    sweeps. Set-up O(Σ r_v³), a sweep O((Σ r_v)²).

    Parameters
    ----------
    matrix : (k, k), right : (k, 1)
    ends : (M + 1,) where the blocks begin, and k
    """
    blocks = [slice(int(b), int(e)) for b, e in pairwise(ends)]
    factors = [cholesky(matrix[block, block]) for block in blocks]
    goal = tol * _norm(right)
    if accelerated:
        return _conjugate(matrix, right, blocks, factors, max_iter, goal)
    solution = namespace(right).zeros_like(right)
    left, sweeps = _norm(right), 0
    while left > goal and sweeps < max_iter:
        solution = _sweep(matrix, right, solution, blocks, factors)
        sweeps += 1
        left = _norm(right - matrix @ solution)
    return Descent(solution, sweeps, left / (_norm(right) or 1.0))


def _sweep(
    matrix: Array, right: Array, start: Array, blocks: list[slice], factors: list[Array]
) -> Array:
    """Every block once, in the order given."""
    parts = {block.start: start[block, :] for block in blocks}
    xp = namespace(right)
    for block, factor in zip(blocks, factors, strict=True):
        whole = xp.concat([parts[key] for key in sorted(parts)], axis=0)
        rest = (
            right[block, :] - matrix[block, :] @ whole + matrix[block, block] @ parts[block.start]
        )
        parts[block.start] = solve_factored(factor, rest)
    return xp.concat([parts[key] for key in sorted(parts)], axis=0)


def solve_factored(factor: Array, right: Array) -> Array:
    """(L Lᵀ)⁻¹ right."""
    return solve_upper(factor.T, solve_lower(factor, right))


def _conjugate(
    matrix: Array,
    right: Array,
    blocks: list[slice],
    factors: list[Array],
    max_iter: int,
    goal: float,
) -> Descent:
    xp = namespace(right)

    def prepared(residual: Array) -> Array:
        forth = _sweep(matrix, residual, xp.zeros_like(residual), blocks, factors)
        return _sweep(matrix, residual, forth, blocks[::-1], factors[::-1])

    solution = xp.zeros_like(right)
    residual, sweeps = right * 1.0, 0
    direction = step = prepared(residual)
    power = float(xp.sum(residual * step))
    while _norm(residual) > goal and sweeps < max_iter:
        image = matrix @ direction
        length = power / float(xp.sum(direction * image))
        solution = solution + length * direction
        residual = residual - length * image
        sweeps += 2
        step = prepared(residual)
        before, power = power, float(xp.sum(residual * step))
        direction = step + (power / before) * direction if before > 0 else step
    return Descent(solution, sweeps, _norm(right - matrix @ solution) / (_norm(right) or 1.0))


def _norm(x: Array) -> float:
    return float(namespace(x).linalg.vector_norm(x))
