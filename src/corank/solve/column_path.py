"""Least squares on the first p columns of a matrix, for every p from one factorisation, and its
hold-out.

With A = Q R the fit to p columns is a running sum over the columns of Q; left-out rows change it by
ranks of one (docs/mathematics.md, section 3.8). Columns that add nothing to those before them get
no weight. `GrowingColumns` makes Q and R while columns are still being chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    inverse_where,
    like,
    namespace,
    solve_lower,
    solve_upper,
    take,
    take_columns,
    to_numpy,
    triangle,
    zeros_beside,
)
from corank.core.sums import BLOCK_ENTRIES

# Shares of squared lengths. What a column adds to others is a difference of sums, so that half of
# the digits are noise where it is small: with 1e-10 about five digits of the direction are left.
# of the squared length that a column could have: one that adds less adds nothing
NEGLIGIBLE_SHARE = 1e-10
# of a direction: what the rows outside of a fold must keep of it to determine its coefficient
MIN_KEPT_SHARE = 1e-10
# of the trace of (I − Q_F Q_Fᵀ)⁻¹ in `left_out`: rounding of that share grows with the trace
ROUNDING_SHARE = 1e-13
# at most so many where nothing can be held out: few enough to be safe, enough to be of use
UNTUNED_COLUMNS = 10
FIRST_CAPACITY = 8  # columns that there is room for at the start; the room doubles when it is full


@dataclass(frozen=True)
class Triangle:
    """The least squares fit min ‖y − A c‖² to the first p columns of A, for every p.

    kept : (k,) numbers of the columns that add something, increasing
    upper : (k, k) = R of those columns
    z : (k, t) = Qᵀ y
    """

    kept: Index
    upper: Array
    z: Array
    n_columns: int

    @property
    def limit(self) -> int:
        """Number of columns beyond which no column adds anything."""
        return int(self.kept[-1]) + 1 if len(self.kept) else 0

    def coefficients(self, numbers: Index, offset: float = 0.0) -> Array:
        """Coefficients of all columns for each number of them: (p, len(numbers)). O(k²
        len(numbers)).
        """
        xp = namespace(self.upper)
        used = like(np.searchsorted(self.kept, numbers)[None, :], self.upper)
        steps = like(np.arange(len(self.kept))[:, None], self.upper)
        z = self.z[:, 0] - (offset * self.z[:, 1] if offset else 0.0)
        masked = xp.where(steps < used, z[:, None], xp.zeros_like(z[:, None]))
        return _spread(
            solve_upper(self.upper, masked) if len(self.kept) else masked, self.kept, self.n_columns
        )

    def orthonormal(self, columns: Array) -> tuple[Array, Array]:
        """Q (n, p) of the columns (n, p) of any rows, zeros where a column adds nothing, and z (p,
        t).
        """
        kept = take_columns(columns, self.kept)
        q = solve_lower(self.upper.T, kept.T) if len(self.kept) else kept.T
        return _spread(q, self.kept, self.n_columns).T, _spread(self.z, self.kept, self.n_columns)

    def steps(self, columns: Array, offset: float = 0.0) -> Array:
        """What every column adds to the predictions of other rows, given their columns (m, p): (m,
        p).

        The predictions for p columns are its running sums.
        """
        q, z = self.orthonormal(columns)
        return q * (z[:, 0] - (offset * z[:, 1] if offset else 0.0))[None, :]


def _spread(rows: Array, kept: Index, n: int) -> Array:
    """Rows (k, c) at their places `kept` among n rows, zeros elsewhere: (n, c)."""
    if len(kept) == n:
        return rows
    xp = namespace(rows)
    zero = zeros_beside((1, rows.shape[1]), rows)
    places = np.full(n, len(kept), dtype=np.int64)
    places[kept] = np.arange(len(kept))
    return take(xp.concat([rows, zero], axis=0), places)


def _floors(scales: Array) -> FloatArray:
    """Squared lengths up to which columns add nothing; infinite where rows are not compared at all."""
    lengths = to_numpy(scales)
    return np.where(lengths > 0, NEGLIGIBLE_SHARE * lengths, np.inf)


def triangle_of(columns: Array, targets: Array, scales: Array, alpha: float) -> Triangle:
    """R and Qᵀ y of root columns (n, p), with √alpha I below them; columns that add nothing are
    left out.

    scales : (p,) squared lengths that the columns could have: what they add is judged beside them
    """
    xp = namespace(columns)
    p = columns.shape[1]
    lengths = to_numpy(xp.sum(columns * columns, axis=0)) + alpha
    floors = _floors(scales)
    kept = np.flatnonzero(lengths > floors)
    while True:
        k = len(kept)
        chosen = columns if k == p else take_columns(columns, kept)
        stack = xp.concat([chosen, targets], axis=1)
        if alpha:
            stack = xp.concat(
                [stack, like(alpha**0.5 * np.eye(k, stack.shape[1]), columns)], axis=0
            )
        upper = triangle(stack)
        diagonal = to_numpy(xp.linalg.diagonal(upper[:, :k])) ** 2
        diagonal = np.concatenate([diagonal, np.zeros(k - len(diagonal))])  # more columns than rows
        weak = np.flatnonzero(diagonal <= floors[kept])
        if len(weak) == 0:
            return Triangle(kept, upper[:k, :k], upper[:k, k:], p)
        first = int(weak[0])
        later = kept[int(weak[0]) :]
        # given the columns before `first`
        remainders = np.sum(np.triu(to_numpy(upper[first:, first:k])) ** 2, axis=0)
        more = later[remainders > floors[later]]
        if len(more) == 0:  # the rank is used up: the usual case
            return Triangle(kept[:first], upper[:first, :first], upper[:first, k:], p)
        kept = np.concatenate([kept[:first], more])


def triangle_of_gram(gram: Array, right: Array, scales: Array, alpha: float) -> Triangle:
    """R and z from the products AᵀA (p, p) and Aᵀ y (p, t): Cholesky, columns that add nothing left
    out. O(p³).
    """
    p = gram.shape[0]
    floors = _floors(scales)
    matrix = to_numpy(gram) + alpha * np.eye(p)
    try:
        lower = np.linalg.cholesky(matrix)
        kept = np.arange(p) if np.all(np.diag(lower) ** 2 > floors) else None
    except np.linalg.LinAlgError:
        kept = None
    if kept is None:
        lower, kept = _cholesky_of_independent(matrix, floors)
    factor = like(lower, gram)
    z = solve_lower(factor, take(right, kept)) if len(kept) else right[:0, :]
    return Triangle(kept, factor.T, z, p)


def _cholesky_of_independent(matrix: FloatArray, floors: FloatArray) -> tuple[FloatArray, Index]:
    """The Cholesky factor of the rows and columns that add something, column by column, and their
    numbers.
    """
    p = len(matrix)
    lower = np.zeros((p, p))
    kept: list[int] = []
    for j in range(p):
        k = len(kept)
        row = (
            solve_lower(lower[:k, :k], matrix[np.asarray(kept), j][:, None])[:, 0]
            if k
            else np.zeros(0)
        )
        remainder = matrix[j, j] - row @ row
        if remainder > floors[j]:
            lower[k, :k] = row
            lower[k, k] = np.sqrt(remainder)
            kept.append(j)
    return lower[: len(kept), : len(kept)], np.asarray(kept, dtype=np.int64)


def left_out(
    q: Array, targets: Array, z: Array, blocks: Sequence[Index], numbers: Index
) -> list[Array]:
    """Residuals of each block under the fit to the first columns of Q without it, for each number
    of columns.

    Of a block F they are X (y_F − Q_F z) with X = (I − Q_F Q_Fᵀ)⁻¹ over the columns so far. One
    more column q changes X by a rank of one: with x = X q, X grows by x xᵀ/kept and the residuals e
    by x (qᵀ e − z)/kept, where kept = 1 − qᵀ x is what the other rows keep of the column. A column
    of which they keep nothing but rounding is passed over (docs/mathematics.md, section 3.8). O(n m
    p) for blocks of m rows.

    Parameters
    ----------
    q : (n, p), orthonormal or with orthonormal rows missing; targets : (n, t); z : (p, t) = Qᵀ y
    blocks : row numbers, disjoint
    numbers : (k,) of columns, from 0 to p

    Returns
    -------
    list of (m, k, t), one per block
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
            block_targets = xp.reshape(take(targets, rows), (*shape, targets.shape[1]))
            residuals = _recursion(cube, block_targets, z, tried)
            gathered = xp.take(residuals, like(places, residuals, "int64"), axis=2)
            results.update((int(i), gathered[position, ...]) for position, i in enumerate(members))
    return [results[i] for i in range(len(blocks))]


def _recursion(cube: Array, residuals: Array, z: Array, tried: Index) -> Array:
    """`left_out` for b blocks of m rows: cube (b, m, p) of Q, residuals (b, m, t) → (b, m,
    len(tried), t).
    """
    xp = namespace(cube)
    b, m, _ = cube.shape
    inverse = zeros_beside((b, m, m), cube) + like(np.eye(m), cube)[None, :, :]
    trace = zeros_beside(b, cube) + float(m)
    path = []
    for j in range(int(tried[-1]) + 1):
        if j in tried:
            path.append(residuals)
        if j == int(tried[-1]):
            break
        column = cube[:, :, j]
        turned = (inverse @ column[:, :, None])[:, :, 0] if m > 1 else inverse[:, 0, :] * column
        kept = 1 - xp.sum(column * turned, axis=1)
        live = (kept > MIN_KEPT_SHARE) & (kept > ROUNDING_SHARE * trace)
        scaled = turned * inverse_where(live, kept)[:, None]
        gap = (column[:, None, :] @ residuals)[:, 0, :] - z[j, :][None, :]
        residuals = residuals + scaled[:, :, None] * gap[:, None, :]
        inverse = inverse + scaled[:, :, None] * turned[:, None, :]
        trace = trace + xp.sum(scaled * turned, axis=1)
    return xp.stack(path, axis=2)


class GrowingColumns:
    """Columns made orthonormal one after the other, A = Q R, while more of them are being chosen.

    Gram–Schmidt, twice: O(n k) for the k-th column. Directions are also evaluated at m watched
    rows.

    Parameters
    ----------
    reference : (n,) whose library and device are used
    n_watched : m
    negligible : share of a column's squared length; a column that adds less brings no direction

    Attributes
    ----------
    coordinates : one array per column, what it is in the directions so far and, last, in its own
        where it brings one
    leading : numbers of the columns that brought a direction
    """

    def __init__(
        self, reference: Array, n_watched: int = 0, negligible: float = NEGLIGIBLE_SHARE
    ) -> None:
        # Qᵀ, filled from above
        self._unit = zeros_beside((FIRST_CAPACITY, reference.shape[0]), reference)
        self._watched = zeros_beside((FIRST_CAPACITY, n_watched), reference)
        self._negligible = negligible
        self.coordinates: list[FloatArray] = []
        self.leading: list[int] = []

    @property
    def directions(self) -> Array:
        """Qᵀ: (k, n)."""
        return self._unit[: len(self.leading), :]

    @property
    def upper(self) -> FloatArray:
        """R (k, p): square, and upper triangular, where every column brought a direction."""
        matrix = np.zeros((len(self.leading), len(self.coordinates)))
        for column, entries in enumerate(self.coordinates):
            matrix[: len(entries), column] = entries
        return matrix

    def add(self, column: Array, watched: Array | None = None) -> tuple[Array, Array] | None:
        """Take in a column (n,), and its values at the watched rows (m,).

        Returns its direction (n,) and the values of that at the watched rows (m,); None where it
        adds no direction.
        """
        xp = namespace(column)
        k = len(self.leading)
        known_directions = self.directions
        q = column
        projection = 0.0 * known_directions[:, 0]
        for _ in range(2 if k else 0):
            share = known_directions @ q
            q = q - share @ known_directions
            projection = projection + share
        squared_length = float(xp.sum(q * q))
        if squared_length <= self._negligible * float(xp.sum(column * column)):
            self.coordinates.append(to_numpy(projection))
            return None
        length = squared_length**0.5
        q = q / length
        if k == self._unit.shape[0]:
            self._unit, self._watched = (
                xp.concat([rows, xp.zeros_like(rows)], axis=0)
                for rows in (self._unit, self._watched)
            )
        elsewhere = self._watched[k, :]
        if watched is not None:
            elsewhere = (watched - projection @ self._watched[:k, :]) / length
        self._unit[k, :] = q
        self._watched[k, :] = elsewhere
        self.leading.append(len(self.coordinates))
        self.coordinates.append(np.append(to_numpy(projection), length))
        return q, elsewhere
