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
    runs_of_rows,
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
        k = len(self.kept)
        is_used = np.arange(k)[:, None] < np.searchsorted(self.kept, numbers)
        coefficients = _centred(self.z, offset)[:, None] * like(is_used, self.upper)
        if k:
            coefficients = solve_upper(self.upper, coefficients)
        return _spread(coefficients, self.kept, self.n_columns)

    def orthonormal(self, columns: Array) -> tuple[Array, Array]:
        """Q (n, p) of the columns (n, p) of any rows, zeros where a column adds nothing, and z (p,
        t).
        """
        transposed = take_columns(columns, self.kept).T
        if len(self.kept):
            transposed = solve_lower(self.upper.T, transposed)
        q = _spread(transposed, self.kept, self.n_columns).T
        return q, _spread(self.z, self.kept, self.n_columns)

    def steps(self, columns: Array, offset: float = 0.0) -> Array:
        """What every column adds to the predictions of other rows, given their columns (m, p): (m,
        p).

        The predictions for p columns are its running sums.
        """
        q, z = self.orthonormal(columns)
        return q * _centred(z, offset)


def _centred(z: Array, offset: float) -> Array:
    """Qᵀ of the scores with an offset taken out: (k,)."""
    return z[:, 0] if offset == 0 else z[:, 0] - offset * z[:, 1]


def _spread(rows: Array, kept: Index, n: int) -> Array:
    """Rows (k, c) at their places `kept` among n rows, zeros elsewhere: (n, c)."""
    k, width = rows.shape
    if k == n:
        return rows
    with_zero = namespace(rows).concat([rows, zeros_beside((1, width), rows)], axis=0)
    places = np.full(n, k)
    places[kept] = np.arange(k)
    return take(with_zero, places)


def _floors(scales: Array) -> FloatArray:
    """Squared lengths up to which columns add nothing; infinite where rows are not compared at all."""
    lengths = to_numpy(scales)
    return np.where(lengths > 0, NEGLIGIBLE_SHARE * lengths, np.inf)


def triangle_of(columns: Array, targets: Array, scales: Array, alpha: float) -> Triangle:
    """R and Qᵀ y of root columns (n, p), with √alpha I below them; columns that add nothing are
    left out.

    scales : (p,) squared lengths that the columns could have: what they add is judged beside them
    """
    p, xp = columns.shape[1], namespace(columns)
    lengths = to_numpy(xp.sum(columns * columns, axis=0)) + alpha
    floors = _floors(scales)
    kept = np.flatnonzero(lengths > floors)
    while True:
        k = len(kept)
        chosen = columns if k == p else take_columns(columns, kept)
        stack = xp.concat([chosen, targets], axis=1)
        if alpha:
            penalty = alpha**0.5 * np.eye(k, stack.shape[1])
            stack = xp.concat([stack, like(penalty, columns)], axis=0)
        upper = triangle(stack)
        entries = to_numpy(upper[:, :k])
        added = np.zeros(k)  # more columns than rows add nothing
        diagonal = np.diagonal(entries)
        added[: len(diagonal)] = diagonal**2
        weak = np.flatnonzero(added <= floors[kept])
        if len(weak) == 0:
            return Triangle(kept, upper[:k, :k], upper[:k, k:], p)
        first = int(weak[0])
        later = kept[first:]
        # given the columns before `first`
        remainders = np.triu(entries[first:, first:]) ** 2
        more = later[remainders.sum(axis=0) > floors[later]]
        if len(more) == 0:  # the rank is used up: the usual case
            upper = upper[:first, :]
            return Triangle(kept[:first], upper[:, :first], upper[:, k:], p)
        kept = np.concatenate([kept[:first], more])


def triangle_of_gram(gram: Array, right: Array, scales: Array, alpha: float) -> Triangle:
    """R and z from the products AᵀA (p, p) and Aᵀ y (p, t): Cholesky, columns that add nothing left
    out. O(p³).
    """
    p = gram.shape[0]
    floors = _floors(scales)
    matrix = to_numpy(gram) + alpha * np.eye(p)
    kept = np.arange(p)
    try:
        lower = np.linalg.cholesky(matrix)
        dependent = bool(np.any(np.diag(lower) ** 2 <= floors))
    except np.linalg.LinAlgError:
        dependent = True
    if dependent:
        lower, kept = _cholesky_of_independent(matrix, floors)
    factor = like(lower, gram)
    z = take(right, kept)
    if len(kept):
        z = solve_lower(factor, z)
    return Triangle(kept, factor.T, z, p)


def _cholesky_of_independent(matrix: FloatArray, floors: FloatArray) -> tuple[FloatArray, Index]:
    """The Cholesky factor of the rows and columns that add something, column by column, and their
    numbers.
    """
    lower = np.zeros_like(matrix)
    kept: list[int] = []
    for j, floor in enumerate(floors):
        k = len(kept)
        row = matrix[j, kept]
        if k:
            row = solve_lower(lower[:k, :k], row[:, None])[:, 0]
        remainder = matrix[j, j] - row @ row
        if remainder > floor:
            lower[k, :k] = row
            lower[k, k] = np.sqrt(remainder)
            kept.append(j)
    k = len(kept)
    return lower[:k, :k], np.asarray(kept, dtype=np.int64)


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
    places = like(places, q, "int64")
    results: dict[int, Array] = {}
    sizes = np.asarray([len(block) for block in blocks])
    for m in np.unique(sizes).tolist():
        same = np.flatnonzero(sizes == m)
        most = BLOCK_ENTRIES // 4 // max(m * m, 1)
        for run in runs_of_rows(len(same), max(1, most)):
            members = same[run].tolist()
            rows = np.concatenate([blocks[block] for block in members])
            shape = len(members), m, -1
            cube = xp.reshape(take(q, rows), shape)
            values = xp.reshape(take(targets, rows), shape)
            residuals = _recursion(cube, values, z, tried)
            gathered = xp.take(residuals, places, axis=2)
            for position, block in enumerate(members):
                results[block] = gathered[position, ...]
    return [results[block] for block in range(len(blocks))]


def _recursion(cube: Array, residuals: Array, z: Array, tried: Index) -> Array:
    """`left_out` for b blocks of m rows: cube (b, m, p) of Q, residuals (b, m, t) → (b, m,
    len(tried), t).
    """
    xp = namespace(cube)
    b, m, _ = cube.shape
    identity = like(np.eye(m), cube)
    inverse = zeros_beside((b, m, m), cube) + identity[None, :, :]
    trace = zeros_beside(b, cube) + float(m)
    path = []
    for j in range(int(tried[-1]) + 1):
        if j in tried:
            path.append(residuals)
        if j == int(tried[-1]):
            break
        column = cube[:, :, j]
        if m > 1:
            turned = (inverse @ column[:, :, None])[:, :, 0]
        else:
            turned = inverse[:, 0, :] * column
        kept = 1 - xp.sum(column * turned, axis=1)
        live = (kept > MIN_KEPT_SHARE) & (kept > ROUNDING_SHARE * trace)
        scaled = turned * inverse_where(live, kept)[:, None]
        fitted = column[:, None, :] @ residuals
        gap = fitted[:, 0, :] - z[j, :][None, :]
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
        known = self.directions
        k = len(self.leading)
        q = column
        projection = 0.0 * known[:, 0]
        for _ in range(2 if k else 0):
            share = known @ q
            q = q - share @ known
            projection = projection + share
        squared_length = float(xp.sum(q * q))
        if squared_length <= self._negligible * float(xp.sum(column * column)):
            self.coordinates.append(to_numpy(projection))
            return None
        length = squared_length**0.5
        q = q / length
        if k == self._unit.shape[0]:
            self._unit = _doubled(self._unit)
            self._watched = _doubled(self._watched)
        elsewhere = self._watched[k, :]
        if watched is not None:
            elsewhere = (watched - projection @ self._watched[:k, :]) / length
        self._unit[k, :] = q
        self._watched[k, :] = elsewhere
        self.leading.append(len(self.coordinates))
        self.coordinates.append(np.append(to_numpy(projection), length))
        return q, elsewhere


def _doubled(rows: Array) -> Array:
    """The rows, with room for as many more."""
    xp = namespace(rows)
    return xp.concat([rows, xp.zeros_like(rows)], axis=0)
