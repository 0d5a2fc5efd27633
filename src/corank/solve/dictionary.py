"""The functions that a pursuit picks from, as a matrix D with one row per scored row and one column
per atom.

D is held in memory, computed again in each pass (`StreamedKernels`), or made of the columns of CSR
features. It knows nothing of the loss: the root J is applied to the few vectors that meet D, so
that all folds share one D and one pass over it. Only squared lengths, diag(Dᵀ L D), need the loss;
they are summed over all rows and over those of each fold.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg.blas import dsymv

from corank.core.arrays import (
    Array,
    Index,
    NumpyArray,
    float64,
    in_order,
    is_sparse,
    like,
    namespace,
    runs_of_rows,
    segment_sum,
    sum_of,
    take,
    take_columns,
)
from corank.core.basis import KernelBasis
from corank.core.kernels import NATIVE, Kernel, finite_values
from corank.core.loss import QueryLoss
from corank.core.sums import CHUNK_ROWS, WRITE_ROWS

# of kernel values that are kept; more of them are computed again in each pass
MAX_HELD_BYTES = 2**29
# rows and points of a tile of kernel values: 2 MB, which stay in the cache of one core
TILE_ROWS = 512
# tiles per job of a thread: sums of jobs are added in order, so that threads do not change results
JOB_TILES = 32
LENGTH_ENTRIES = 2**19  # entries of a block whose squares are summed: 4 MB
# share of the squared length before means are taken out: a smaller one is their rounding
ROUNDING = 1e-26


# ---------------------------------------------------------------- squared lengths


@dataclass(frozen=True)
class RowSet:
    """A set of rows under a loss.

    operator : J of these rows; rows : their numbers, None for all
    cut : whether J is made of blocks of the J of all rows, as it is where whole queries are left
        out
    """

    operator: QueryLoss
    rows: Index | None = None
    cut: bool = True


class InBlocks:
    """Squared lengths from blocks of columns, so that means are taken out before anything is
    squared.
    """

    size: int

    def block(self, atoms: slice, out: Array | None = None) -> Array:
        """Columns of D (n, b): a new array or, where the library is NumPy, written into `out`."""
        raise AssertionError("a dictionary says what its columns are")

    def squared_lengths(self, sets: Sequence[RowSet]) -> Array:
        """diag(Dᵀ L D) over each set of rows: (len(sets), N)."""
        whole = sets[0].operator
        n, workspace = whole.n_rows, threading.local()
        step = min(self.size, max(4, LENGTH_ENTRIES // n))
        # sets whose J is cut from that of all rows share the squares of one block; the others root
        # their rows themselves
        cuts = [number for number, rows in enumerate(sets) if rows.cut]
        shared = SquaredRoots(whole, np.stack([_counts(sets[number].rows, n) for number in cuts]))
        others = {
            number: SquaredRoots(rows.operator, np.ones((1, rows.operator.n_rows)))
            for number, rows in enumerate(sets)
            if not rows.cut
        }

        def lengths(atoms: slice) -> Array:
            space = None
            if isinstance(whole.root_weights, np.ndarray):
                if not hasattr(workspace, "space"):
                    # kept: fresh memory costs more than the arithmetic
                    workspace.space = np.empty((3, n * step))
                space = workspace.space[:, : n * (atoms.stop - atoms.start)].reshape(3, n, -1)
            block = self.block(atoms, None if space is None else space[0])
            with np.errstate(all="ignore"):  # values that are not finite are refused below
                sums = {
                    number: squares.sums(*_picked(block, sets[number].rows, space))[0, ...]
                    for number, squares in others.items()
                }
                shared_sums = shared.sums(block, None if space is None else space[1])
            sums |= {number: shared_sums[place, ...] for place, number in enumerate(cuts)}
            return namespace(block).stack([sums[number] for number in range(len(sets))])

        blocks = list(in_order(lengths, runs_of_rows(self.size, step), whole.root_weights))
        return finite_values(namespace(blocks[0]).concat(blocks, axis=1))


class SquaredRoots:
    """Σ (J d)_i² over rows, for columns d (n, b): t_q Σ w (d − mean)² + b_q W_q mean², summed over
    queries q.

    counts : (t, n) how often each row is counted in t sums, equal for all rows of a query
    """

    def __init__(self, operator: QueryLoss, counts: NumpyArray) -> None:
        xp = namespace(operator.root_weights)
        self._operator = operator
        counts = like(counts, operator.root_weights)
        self._rows = counts * take(operator.within, operator.queries)[None, :]
        self._queries: Array | None = None
        if operator.comparison.needs_queries:
            per_query = (
                segment_sum(counts.T, operator.queries, operator.n_queries)
                / operator.counts[:, None]
            )
            if xp.any(operator.between > 0):
                self._queries = (per_query * operator.between[:, None]).T

    def sums(self, columns: Array, space: Array | None) -> Array:
        """The t sums of every column: (t, b). Columns are overwritten where there is space (>= n,
        b) for their means.
        """
        operator = self._operator
        weights = operator.root_weights[:, None]
        if space is None:
            columns = columns * weights
        else:
            columns *= weights
        squares = (
            columns * columns
            if space is None
            else np.multiply(columns, columns, out=space[: len(columns)])
        )
        raw = self._rows @ squares
        if not operator.comparison.needs_queries:
            return raw
        levels = segment_sum(columns, operator.queries, operator.n_queries, operator.direction)
        if space is None:
            columns = columns - operator.direction[:, None] * take(levels, operator.queries)
            lengths = self._rows @ (columns * columns)
        else:
            row_levels = np.take(
                levels, operator.queries, axis=0, out=space[: len(columns)], mode="clip"
            )
            row_levels *= operator.direction[:, None]
            columns -= row_levels
            lengths = self._rows @ np.multiply(columns, columns, out=columns)
        if self._queries is not None:
            lengths = lengths + self._queries @ (levels * levels)
        return namespace(lengths).where(lengths <= ROUNDING * raw, 0.0 * lengths, lengths)


def _picked(block: Array, rows: Index | None, space: Array | None) -> tuple[Array, Array | None]:
    """The given rows of a block, and space for their means where it holds them."""
    if space is None or rows is None or len(rows) > len(block):
        return take(block, rows), None
    return np.take(block, rows, axis=0, out=space[2, : len(rows)], mode="clip"), space[1]


def _counts(rows: Index | None, n: int) -> NumpyArray:
    """How often each of n rows is in a set: (n,)."""
    return np.ones(n) if rows is None else np.bincount(rows, minlength=n).astype(np.float64)


def sparse_lengths(matrix: Any, operator: QueryLoss) -> NumpyArray:
    """diag(Dᵀ L D) for a CSR matrix (n, N): (N,). Means are taken out of the entries, then zeros
    are counted in.

    O(nnz log nnz).
    """
    entries, size = matrix.tocoo(), matrix.shape[1]
    rows, columns, values = (
        entries.row,
        entries.col.astype(np.int64),
        entries.data.astype(np.float64),
    )
    weights = operator.root_weights[rows] ** 2
    if not operator.comparison.needs_queries:
        return np.bincount(columns, weights * values**2, minlength=size)
    cells, inverse = np.unique(operator.queries[rows] * size + columns, return_inverse=True)
    query, column = np.divmod(cells, size)
    total = operator.totals[query]
    sums = np.bincount(inverse, weights * values, minlength=len(cells))
    present = np.bincount(inverse, weights, minlength=len(cells))
    means = sums / total
    spread = np.bincount(inverse, weights * (values - means[inverse]) ** 2, minlength=len(cells))
    spread += (total - present) * means**2
    squares = operator.within[query] * spread + operator.between[query] * sums * means
    lengths = np.bincount(column, squares, minlength=size)
    raw = np.bincount(
        columns, weights * operator.within[operator.queries[rows]] * values**2, minlength=size
    )
    return np.where(lengths <= ROUNDING * raw, 0.0, lengths)


# ---------------------------------------------------------------- dense values, kernels, CSR columns


class HeldValues(InBlocks):
    """D as one array (n, N); `symmetric` where atoms are kernels at the rows of the problem."""

    def __init__(self, values: Array, *, symmetric: bool = False) -> None:
        self.values = values
        self.size = values.shape[1]
        self._halved = symmetric and isinstance(values, np.ndarray)

    def block(self, atoms: slice, out: Array | None = None) -> Array:
        """Columns of D (n, b)."""
        if out is None:
            return self.values[:, atoms]
        out[...] = self.values[:, atoms]
        return out

    def products(self, vectors: Array) -> Array:
        """V D (t, N); for one vector and a symmetric D only half of D is read."""
        if self._halved and vectors.shape[0] == 1:
            return dsymv(1.0, self.values.T, vectors[0])[None, :]
        return vectors @ self.values

    def columns(self, atoms: Index) -> Array:
        """The columns of some atoms, as rows: (t, n)."""
        return take_columns(self.values, atoms).T


class StreamedKernels(InBlocks):
    """Kernels at N points, computed again in each pass: memory for tiles only.

    `symmetric` where the points are the rows of the problem: a tile then serves its mirror image
    too.
    """

    def __init__(self, kernel: Kernel, features: Array, points: Array, *, symmetric: bool) -> None:
        self.kernel, self.features, self.points = kernel, features, points
        self.size = points.shape[0]
        self._tiled = isinstance(features, np.ndarray) or is_sparse(features)
        self._mirrored = symmetric and self._tiled
        self._workspace = threading.local()

    def block(self, atoms: slice, out: Array | None = None) -> Array:
        """Columns of D (n, b)."""
        if out is None:
            return self.kernel.block(self.features, take(self.points, atoms))
        basis = KernelBasis(self.kernel, take(self.points, atoms))
        for run, rows in zip(_runs(self.features), self._tiles, strict=True):
            basis.write(rows, out[run])
        return out

    @cached_property
    def _tiles(self) -> list[Array]:
        """The features in runs of rows; CSR is cut once."""
        return [take(self.features, run) for run in _runs(self.features)]

    @cached_property
    def _bases(self) -> list[KernelBasis]:
        """The points in runs, ready for many passes."""
        return [KernelBasis(self.kernel, take(self.points, run)) for run in _runs(self.points)]

    def products(self, vectors: Array) -> Array:
        """V D (t, N), tile by tile; sums do not depend on the number of threads."""
        if not self._tiled:
            return namespace(vectors).concat(
                [self._of_chunks(basis, vectors) for basis in self._bases], axis=1
            )
        result = np.zeros((vectors.shape[0], self.size))
        jobs = [
            (number, first)
            for number, first in product(
                range(len(self._bases)), range(0, len(self._tiles), JOB_TILES)
            )
            if first <= number or not self._mirrored
        ]
        sums = in_order(lambda job: self._of_tiles(*job, vectors), jobs, vectors)
        for (number, first), (direct, mirrored) in zip(jobs, sums, strict=True):
            result[:, number * TILE_ROWS : number * TILE_ROWS + direct.shape[1]] += direct
            result[:, first * TILE_ROWS : first * TILE_ROWS + mirrored.shape[1]] += mirrored
        return result

    def _of_chunks(self, basis: KernelBasis, vectors: Array) -> Array:
        """V D for one run of points, on a device that likes large blocks."""
        chunks = _runs(self.features, CHUNK_ROWS)
        products = [vectors[:, rows] @ basis.features(self.features[rows, :]) for rows in chunks]
        return sum_of(products)

    def _of_tiles(self, number: int, first: int, vectors: NumpyArray) -> tuple[Array, Array]:
        """V D for one run of points over a job's tiles of rows, and what those tiles give for
        points that are their rows.

        Of a symmetric D only the tiles up to the diagonal are computed.
        """
        space = getattr(self._workspace, "tile", None)
        if space is None:
            space = self._workspace.tile = np.empty(TILE_ROWS * TILE_ROWS)
        basis, last = self._bases[number], min(first + JOB_TILES, len(self._tiles))
        direct, mirrored = np.zeros((len(vectors), basis.size)), []
        for place in range(first, min(last, number + 1) if self._mirrored else last):
            rows = self._tiles[place]
            begin, count = place * TILE_ROWS, rows.shape[0]
            tile = space[: count * basis.size].reshape(count, basis.size)
            basis.write(rows, tile)
            direct += vectors[:, begin : begin + count] @ tile
            if self._mirrored and place < number:
                mirrored.append(
                    vectors[:, number * TILE_ROWS : number * TILE_ROWS + basis.size] @ tile.T
                )
        return direct, np.concatenate(mirrored, axis=1) if mirrored else direct[:, :0]

    def columns(self, atoms: Index) -> Array:
        """The columns of some atoms, as rows: (t, n). O(n t d)."""
        return self.kernel.block(self.features, take(self.points, atoms)).T


def _runs(rows: Array, length: int | None = None) -> list[slice]:
    """Rows, or points, cut into runs: as long as tiles, or of a given length."""
    return runs_of_rows(rows.shape[0], length or TILE_ROWS)


class SparseColumns:
    """D as CSR features or values, never made dense."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        self.size = matrix.shape[1]

    @cached_property
    def _by_atom(self) -> Any:
        """Dᵀ as CSR."""
        return float64(self.matrix).T.tocsr()

    def products(self, vectors: Array) -> Array:
        """V D (t, N). O(t nnz)."""
        return np.asarray(self._by_atom @ vectors.T).T

    def columns(self, atoms: Index) -> Array:
        """The columns of some atoms, as rows: (t, n)."""
        return self._by_atom[atoms].toarray()

    def squared_lengths(self, sets: Sequence[RowSet]) -> Array:
        """diag(Dᵀ L D) over each set of rows: (len(sets), N). O(nnz log nnz) per set."""
        matrices = [self.matrix if rows.rows is None else self.matrix[rows.rows] for rows in sets]
        return np.stack(
            [
                sparse_lengths(matrix, rows.operator)
                for matrix, rows in zip(matrices, sets, strict=True)
            ]
        )


Dictionary: TypeAlias = HeldValues | StreamedKernels | SparseColumns


# ---------------------------------------------------------------- what a learner was asked for


@dataclass(frozen=True)
class Atoms:
    """The atoms of a dictionary, checked: kernels at points, or values that a function or X gives.

    points : (N, d) rows, or column numbers (N,) of a precomputed kernel; None for values
    index : (N,) row numbers of the points in X, None where they are not rows of X
    values : (n, N) at the scored rows, dense or CSR; None for kernels
    function : the function that gave the values; None for the columns of X
    """

    points: Array | None = None
    index: Index | None = None
    values: Array | None = None
    function: Callable[[Any], Any] | None = None

    @property
    def size(self) -> int:
        """N."""
        return int(self.points.shape[0] if self.points is not None else self.values.shape[1])  # type: ignore[union-attr]

    def at(self, rows: Index) -> Index:
        """Numbers of the atoms at these rows of X."""
        return np.flatnonzero(np.isin([] if self.index is None else self.index, rows))

    def dictionary(self, kernel: Kernel, features: Array) -> Dictionary:
        """The dictionary at the scored rows, with features (n, d), in a form that fits into memory."""
        if self.points is None:
            return (
                SparseColumns(self.values)
                if is_sparse(self.values)
                else HeldValues(float64(self.values))
            )
        symmetric = self.points is features and kernel.name in NATIVE
        if 8 * features.shape[0] * self.size > MAX_HELD_BYTES:
            return StreamedKernels(kernel, features, self.points, symmetric=symmetric)
        return HeldValues(_held(KernelBasis(kernel, self.points), features), symmetric=symmetric)


def _held(basis: KernelBasis, features: Array) -> Array:
    """Kernel values (n, N), written by runs of rows where the library is NumPy."""
    if not (isinstance(features, np.ndarray) or is_sparse(features)):
        return basis.features(features)
    values = np.empty((features.shape[0], basis.size))
    for _ in in_order(
        lambda run: basis.write(take(features, run), values[run]),
        _runs(features, WRITE_ROWS),
        values,
    ):
        pass
    return values
