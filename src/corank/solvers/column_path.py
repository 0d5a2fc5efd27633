"""Least squares on the first p columns of a matrix, for every p from one factorisation, and its hold-out.

With A = Q R the fit to p columns is a running sum over the columns of Q; left-out rows change it by ranks of one.
Columns that add nothing to those before them get no weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corank._arrays import (
    Array,
    FloatArray,
    Index,
    device,
    like,
    namespace,
    solve_lower,
    solve_upper,
    take,
    to_numpy,
    triangle,
)
from corank.gram import BLOCK_ENTRIES

DEPENDENT = 1e-10  # squared length that a column adds, beside what it could have, below which it adds nothing
DETERMINED = 1e-10  # the same for what is left of a column when a fold is left out
ROUNDING = 1e-13  # of that, beside the trace of A⁻¹ in `left_out`, which rounding grows with


@dataclass(frozen=True)
class Triangle:
    """‖y − A c‖² for the first p columns of A, every p: R and z = Qᵀ y of those columns that add something.

    kept : (k,) numbers of those columns, increasing; upper : (k, k); z : (k, t)
    """

    kept: Index
    upper: Array
    z: Array
    n_columns: int

    @property
    def limit(self) -> int:
        """The number of columns beyond which nothing is added."""
        return int(self.kept[-1]) + 1 if len(self.kept) else 0

    def coefficients(self, numbers: Index, offset: float = 0.0) -> Array:
        """Of all columns, for each number of them: (p, len(numbers)). O(k² len(numbers))."""
        xp = namespace(self.upper)
        used = like(np.searchsorted(self.kept, numbers)[None, :], self.upper)
        steps = like(np.arange(len(self.kept))[:, None], self.upper)
        z = self.z[:, 0] - (offset * self.z[:, 1] if offset else 0.0)
        masked = xp.where(steps < used, z[:, None], xp.zeros_like(z[:, None]))
        return _spread(solve_upper(self.upper, masked) if len(self.kept) else masked, self.kept, self.n_columns)

    def orthonormal(self, columns: Array) -> tuple[Array, Array]:
        """Q (n, p) of the columns that it was made from, zeros where they add nothing, and z (p, t)."""
        xp = namespace(columns)
        own = xp.take(columns, like(self.kept, columns, "int64"), axis=1)
        q = solve_lower(self.upper.T, own.T) if len(self.kept) else own.T
        return _spread(q, self.kept, self.n_columns).T, _spread(self.z, self.kept, self.n_columns)

    def steps(self, columns: Array, offset: float = 0.0) -> Array:
        """What every column adds, (m, p), for the columns of other rows (m, p): predictions are its running sums."""
        q, z = self.orthonormal(columns)
        return q * (z[:, 0] - (offset * z[:, 1] if offset else 0.0))[None, :]


def _spread(rows: Array, kept: Index, n: int) -> Array:
    """Rows (k, c) at their places among n, zeros elsewhere."""
    if len(kept) == n:
        return rows
    xp = namespace(rows)
    zero = xp.zeros((1, rows.shape[1]), dtype=rows.dtype, device=device(rows))
    places = np.full(n, len(kept), dtype=np.int64)
    places[kept] = np.arange(len(kept))
    return take(xp.concat([rows, zero], axis=0), places)


def _floors(scales: Array) -> FloatArray:
    """Squared lengths up to which columns add nothing; where nothing is compared none does."""
    unit = to_numpy(scales)
    return np.where(unit > 0, DEPENDENT * unit, np.inf)


def triangle_of(columns: Array, targets: Array, scales: Array, alpha: float) -> Triangle:
    """R and Qᵀ y of root columns (n, p), with √alpha I below them; columns that add nothing are left out.

    scales : (p,) squared lengths that the columns could have, which say what nothing is
    """
    xp = namespace(columns)
    p = int(columns.shape[1])
    lengths = to_numpy(xp.sum(columns * columns, axis=0)) + alpha
    floors = _floors(scales)
    kept = np.flatnonzero(lengths > floors)
    while True:
        k = len(kept)
        chosen = columns if k == p else xp.take(columns, like(kept, columns, "int64"), axis=1)
        stack = xp.concat([chosen, targets], axis=1)
        if alpha:
            stack = xp.concat([stack, like(alpha**0.5 * np.eye(k, stack.shape[1]), columns)], axis=0)
        upper = triangle(stack)
        diagonal = to_numpy(xp.linalg.diagonal(upper[:, :k])) ** 2
        diagonal = np.concatenate([diagonal, np.zeros(k - len(diagonal))])  # more columns than rows
        weak = np.flatnonzero(diagonal <= floors[kept])
        if len(weak) == 0:
            return Triangle(kept, upper[:k, :k], upper[:k, k:], p)
        first, later = int(weak[0]), kept[int(weak[0]) :]
        rest = np.sum(np.triu(to_numpy(upper[first:, first:k])) ** 2, axis=0)  # what those before it leave of each
        more = later[rest > floors[later]]
        if len(more) == 0:  # the rank is used up: the usual case
            return Triangle(kept[:first], upper[:first, :first], upper[:first, k:], p)
        kept = np.concatenate([kept[:first], more])


def left_out(q: Array, targets: Array, z: Array, blocks: Sequence[Index], numbers: Index) -> list[Array]:
    """Residuals of each block under the fit to the first columns of Q without it, for each number of columns.

    With A = I − Q_U Q_Uᵀ over the columns so far they are A⁻¹ (y_U − Q_U z). A column changes A by a rank of one:
    a = A⁻¹ q, A⁻¹ grows by a aᵀ/left and the residuals by a (qᵀ e − z)/left, where left = 1 − qᵀ a is what the other
    rows keep of the column; one that they keep nothing of, but for rounding, is passed over. O(n m p) for blocks of m.

    Parameters
    ----------
    q : (n, p), orthonormal or with orthonormal rows missing; targets : (n, t); z : (p, t) = Qᵀ y
    blocks : row numbers, disjoint
    numbers : (k,) of columns, from 0 to p

    Returns
    -------
    list of (m, k, t), one a block
    """
    xp = namespace(q)
    tried, places = np.unique(numbers, return_inverse=True)
    results: dict[int, Array] = {}
    sizes = np.asarray([len(block) for block in blocks])
    for m in (int(size) for size in np.unique(sizes)):
        same = np.flatnonzero(sizes == m)
        step = max(1, BLOCK_ENTRIES // 4 // max(m * m, 1))
        for begin in range(0, len(same), step):
            members = same[begin : begin + step]
            rows = np.concatenate([blocks[i] for i in members])
            shape = (len(members), m)
            cube = xp.reshape(take(q, rows), (*shape, q.shape[1]))
            found = _recursion(cube, xp.reshape(take(targets, rows), (*shape, targets.shape[1])), z, tried)
            gathered = xp.take(found, like(places, found, "int64"), axis=2)
            results.update((int(i), gathered[position, ...]) for position, i in enumerate(members))
    return [results[i] for i in range(len(blocks))]


def _recursion(cube: Array, residuals: Array, z: Array, tried: Index) -> Array:
    """`left_out` for blocks of one size: cube (b, m, p), residuals (b, m, t) → (b, m, len(tried), t)."""
    xp = namespace(cube)
    b, m, _ = cube.shape
    inverse = xp.zeros((b, m, m), dtype=cube.dtype, device=device(cube)) + like(np.eye(m), cube)[None, :, :]
    trace = xp.zeros((b,), dtype=cube.dtype, device=device(cube)) + float(m)
    found = []
    for j in range(int(tried[-1]) + 1):
        if j in tried:
            found.append(residuals)
        if j == int(tried[-1]):
            break
        column = cube[:, :, j]
        turned = (inverse @ column[:, :, None])[:, :, 0] if m > 1 else inverse[:, 0, :] * column
        left = 1 - xp.sum(column * turned, axis=1)
        live = (left > DETERMINED) & (left > ROUNDING * trace)
        scale = xp.where(live, 1 / xp.where(live, left, xp.ones_like(left)), xp.zeros_like(left))
        scaled = turned * scale[:, None]
        gap = (column[:, None, :] @ residuals)[:, 0, :] - z[j, :][None, :]
        residuals = residuals + scaled[:, :, None] * gap[:, None, :]
        inverse = inverse + scaled[:, :, None] * turned[:, None, :]
        trace = trace + xp.sum(scaled * turned, axis=1)
    return xp.stack(found, axis=2)


def triangle_of_gram(gram: Array, right: Array, scales: Array, alpha: float) -> Triangle:
    """R and z from the products AᵀA (p, p) and Aᵀ y (p, t): Cholesky, columns that add nothing left out. O(p³)."""
    p, floors = int(gram.shape[0]), _floors(scales)
    matrix = to_numpy(gram) + alpha * np.eye(p)
    try:
        lower = np.linalg.cholesky(matrix)
        kept = np.arange(p) if np.all(np.diag(lower) ** 2 > floors) else None
    except np.linalg.LinAlgError:
        kept = None
    if kept is None:
        lower, kept = _cholesky_of_some(matrix, floors)
    factor = like(lower, gram)
    z = solve_lower(factor, take(right, kept)) if len(kept) else right[:0, :]
    return Triangle(kept, factor.T, z, p)


def _cholesky_of_some(matrix: FloatArray, floors: FloatArray) -> tuple[FloatArray, Index]:
    """The Cholesky factor of the rows and columns that add something, column by column, and their numbers."""
    p = len(matrix)
    lower = np.zeros((p, p))
    kept: list[int] = []
    for j in range(p):
        k = len(kept)
        row = solve_lower(lower[:k, :k], matrix[np.asarray(kept), j][:, None])[:, 0] if k else np.zeros(0)
        left = matrix[j, j] - row @ row
        if left > floors[j]:
            lower[k, :k], lower[k, k] = row, np.sqrt(left)
            kept.append(j)
    return lower[: len(kept), : len(kept)], np.asarray(kept, dtype=np.int64)
