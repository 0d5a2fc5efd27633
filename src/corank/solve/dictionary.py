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
from dataclasses import dataclass, replace
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
from corank.core.loss import PairLoss, QueryLoss
from corank.core.observations import ComparedRows, Problem, ScoredRows
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

    problem : these rows; rows : their numbers among n_rows, None for all
    cut : whether their root J is made of blocks of the J of all rows, as it is where whole queries
        are left out
    """

    problem: ScoredRows
    n_rows: int
    rows: Index | None = None
    cut: bool = True

    @property
    def operator(self) -> QueryLoss:
        """J of these rows."""
        return self.problem.operator

    @property
    def counts(self) -> NumpyArray:
        """How often each of all rows is in the set: (n,)."""
        if self.rows is None:
            return np.ones(self.n_rows)
        return np.bincount(self.rows, minlength=self.n_rows).astype(np.float64)

    def taken(self, values: Array) -> Array:
        """Values of these rows, of values of all rows."""
        return values if self.rows is None else take(values, self.rows)

    def root(self, values: Array) -> Array:
        """J of these rows for values of all rows (n, c): (k, c)."""
        return self.operator.root(self.taken(values))

    def root_transposed(self, z: Array) -> Array:
        """Jᵀ z (n,) for z (k,): zeros at other rows, sums at rows that are in the set twice."""
        values = self.operator.root_transposed(z[:, None])
        if self.rows is not None:
            places = like(self.rows, values, "int64")
            values = segment_sum(values, places, self.n_rows)
        return values[:, 0]


class Buffers(threading.local):
    """Memory that a thread writes blocks into again and again, where the library is NumPy: fresh
    memory costs more than the arithmetic.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, NumpyArray] = {}

    def array(self, name: str, rows: int, columns: int) -> NumpyArray:
        """The array (rows, columns) of a name, whatever it held."""
        size = rows * columns
        if name not in self._arrays or self._arrays[name].size < size:
            self._arrays[name] = np.empty(max(size, LENGTH_ENTRIES))
        return self._arrays[name][:size].reshape(rows, columns)

    def product(self, name: str, left: Array, right: Array) -> Array:
        """The product of numbers (n, b) with others (n, b or 1)."""
        if not isinstance(left, np.ndarray):
            return left * right
        out = self.array(name, *left.shape)
        return np.multiply(left, right, out=out)

    def taken(self, name: str, values: Array, rows: Array) -> Array:
        """Some rows of values (n, b)."""
        if not isinstance(values, np.ndarray):
            return take(values, rows)
        out = self.array(name, len(rows), values.shape[1])
        return np.take(values, rows, axis=0, out=out, mode="clip")


class InBlocks:
    """Squared lengths from blocks of columns, so that means are taken out before anything is
    squared.
    """

    size: int

    def block(self, atoms: slice) -> Array:
        """Columns of D (n, b)."""
        raise AssertionError("a dictionary says what its columns are")

    def squared_lengths(self, sets: Sequence[RowSet]) -> Array:
        """diag(Dᵀ L D) over each set of rows: (len(sets), N)."""
        whole = sets[0].operator
        n = whole.n_rows
        # sets whose J is cut from that of all rows share the squares of one block; the others root
        # their rows themselves
        cuts = [number for number, rows in enumerate(sets) if rows.cut]
        shared = SquaredRoots(whole, np.stack([sets[number].counts for number in cuts]))
        alone = {
            number: SquaredRoots(rows.operator, np.ones((1, rows.operator.n_rows)))
            for number, rows in enumerate(sets)
            if not rows.cut
        }
        buffers = Buffers()

        def lengths(atoms: slice) -> Array:
            block = self.block(atoms)
            with np.errstate(all="ignore"):  # values that are not finite are refused below
                shared_sums = shared.sums(block, buffers)
                sums = {number: shared_sums[place, ...] for place, number in enumerate(cuts)}
                for number, squares in alone.items():
                    kept = buffers.taken("columns", block, sets[number].rows)
                    sums[number] = squares.sums(kept, buffers)[0, ...]
            return namespace(block).stack([sums[number] for number in range(len(sets))])

        step = min(self.size, max(4, LENGTH_ENTRIES // n))
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
        within = take(operator.within, operator.queries)
        self._rows = counts * within[None, :]
        self._queries: Array | None = None
        if operator.comparison.needs_queries and xp.any(operator.between > 0):
            per_query = segment_sum(counts.T, operator.queries, operator.n_queries)
            weights = operator.between / operator.counts
            self._queries = (per_query * weights[:, None]).T

    def sums(self, columns: Array, buffers: Buffers) -> Array:
        """The t sums of every column: (t, b)."""
        operator = self._operator
        weights = operator.root_weights[:, None]
        columns = buffers.product("columns", columns, weights)
        squares = buffers.product("others", columns, columns)
        raw = self._rows @ squares
        if not operator.comparison.needs_queries:
            return raw
        levels = segment_sum(columns, operator.queries, operator.n_queries, operator.direction)
        means = buffers.taken("others", levels, operator.queries)
        means *= operator.direction[:, None]
        columns -= means
        columns *= columns
        lengths = self._rows @ columns
        if self._queries is not None:
            lengths = lengths + self._queries @ (levels * levels)
        return namespace(lengths).where(lengths <= ROUNDING * raw, 0.0 * lengths, lengths)


def sparse_lengths(matrix: Any, operator: QueryLoss) -> NumpyArray:
    """diag(Dᵀ L D) for a CSR matrix (n, N): (N,). Means are taken out of the entries, then zeros
    are counted in.

    O(nnz log nnz).
    """
    entries = matrix.tocoo()
    size = matrix.shape[1]
    rows = entries.row
    columns = entries.col.astype(np.int64)
    values = entries.data.astype(np.float64)
    weights = operator.root_weights[rows] ** 2
    queries = operator.queries[rows]
    within = operator.within[queries]
    raw = np.bincount(columns, weights * within * values**2, minlength=size)
    if not operator.comparison.needs_queries:
        return raw
    cells, inverse = np.unique(queries * size + columns, return_inverse=True)
    query, column = np.divmod(cells, size)

    def per_cell(numbers: NumpyArray) -> NumpyArray:
        return np.bincount(inverse, weights * numbers, minlength=len(cells))

    total = operator.totals[query]
    sums = per_cell(values)
    means = sums / total
    zeros = total - per_cell(np.ones(len(values)))
    deviations = values - means[inverse]
    spread = per_cell(deviations**2) + zeros * means**2
    squares = operator.within[query] * spread
    squares += operator.between[query] * sums * means
    lengths = np.bincount(column, squares, minlength=size)
    return np.where(lengths <= ROUNDING * raw, 0.0, lengths)


# ---------------------------------------------------------------- dense values, kernels, CSR columns


class HeldValues(InBlocks):
    """D as one array (n, N); `symmetric` where atoms are kernels at the rows of the problem."""

    def __init__(self, values: Array, *, symmetric: bool = False) -> None:
        self.values = values
        self.size = values.shape[1]
        self._halved = symmetric and isinstance(values, np.ndarray)

    def block(self, atoms: slice) -> Array:
        """Columns of D (n, b)."""
        return self.values[:, atoms]

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
        self.kernel = kernel
        self.features = features
        self.points = points
        self.size = points.shape[0]
        self._tiled = isinstance(features, np.ndarray) or is_sparse(features)
        self._mirrored = symmetric and self._tiled
        self._buffers = Buffers()

    def block(self, atoms: slice) -> Array:
        """Columns of D (n, b)."""
        basis = KernelBasis(self.kernel, take(self.points, atoms))
        if not self._tiled:
            return basis.features(self.features)
        values = np.empty((self.features.shape[0], basis.size))
        for run, rows in zip(_runs(self.features), self._tiles, strict=True):
            basis.write(rows, values[run])
        return values

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
            # on a device that likes large blocks
            runs = _runs(self.features, CHUNK_ROWS)
            products = [
                sum_of([vectors[:, run] @ basis.features(self.features[run, :]) for run in runs])
                for basis in self._bases
            ]
            return namespace(vectors).concat(products, axis=1)
        result = np.zeros((vectors.shape[0], self.size))
        firsts = range(0, len(self._tiles), JOB_TILES)
        every_job = product(range(len(self._bases)), firsts)
        jobs = [job for job in every_job if job[1] <= job[0] or not self._mirrored]
        sums = in_order(lambda job: self._of_tiles(*job, vectors), jobs, vectors)
        for job, both in zip(jobs, sums, strict=True):
            for tile, values in zip(job, both, strict=True):
                begin = tile * TILE_ROWS
                result[:, begin : begin + values.shape[1]] += values
        return result

    def _of_tiles(self, number: int, first: int, vectors: NumpyArray) -> tuple[Array, Array]:
        """V D for one run of points over a job's tiles of rows, and what those tiles give for
        points that are their rows.

        Of a symmetric D only the tiles up to the diagonal are computed.
        """
        basis = self._bases[number]
        own_vectors = vectors[:, number * TILE_ROWS : number * TILE_ROWS + basis.size]
        direct = np.zeros((len(vectors), basis.size))
        mirrored = []
        last = min(first + JOB_TILES, len(self._tiles))
        if self._mirrored:
            last = min(last, number + 1)
        for place in range(first, last):
            rows, begin = self._tiles[place], place * TILE_ROWS
            tile = self._buffers.array("tile", rows.shape[0], basis.size)
            basis.write(rows, tile)
            direct += vectors[:, begin : begin + len(tile)] @ tile
            if self._mirrored and place < number:
                mirrored.append(own_vectors @ tile.T)
        if not mirrored:
            return direct, direct[:, :0]
        return direct, np.concatenate(mirrored, axis=1)

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
        return np.stack([sparse_lengths(rows.taken(self.matrix), rows.operator) for rows in sets])


class Differences(InBlocks):
    """D at the winner less D at the loser of every comparison, from D at the rows."""

    def __init__(self, at_rows: HeldValues | StreamedKernels, pairs: PairLoss) -> None:
        self.size = at_rows.size
        self._at_rows = at_rows
        self._pairs = replace(pairs, weights=namespace(pairs.weights).ones_like(pairs.weights))

    def block(self, atoms: slice) -> Array:
        """Columns of the differences (p, b)."""
        return self._pairs.root(self._at_rows.block(atoms))

    def products(self, vectors: Array) -> Array:
        """V times the differences (t, N), for V (t, p)."""
        return self._at_rows.products(self._pairs.root_transposed(vectors.T).T)

    def columns(self, atoms: Index) -> Array:
        """The differences of some atoms, as rows: (t, p)."""
        return self._pairs.root(self._at_rows.columns(atoms).T).T


Dictionary: TypeAlias = HeldValues | StreamedKernels | SparseColumns | Differences


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

    def numbers(self, atoms: Index) -> Index:
        """What some atoms are called: row numbers in X where they are rows of it."""
        return atoms if self.index is None else self.index[atoms]

    def at(self, rows: Index) -> Index:
        """Numbers of the atoms at these rows of X."""
        if self.index is None:
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(np.isin(self.index, rows))

    def dictionary(self, kernel: Kernel, problem: Problem) -> Dictionary:
        """The dictionary at the units of a problem with features (n, d), in a form that fits into
        memory.
        """
        if is_sparse(self.values):
            return SparseColumns(problem.per_unit(self.values))
        at_rows = self._at_rows(kernel, problem.features)
        if isinstance(problem, ComparedRows):
            return Differences(at_rows, problem.operator)
        return at_rows

    def _at_rows(self, kernel: Kernel, features: Array) -> HeldValues | StreamedKernels:
        if self.points is None:
            return HeldValues(float64(self.values))
        symmetric = self.points is features and kernel.name in NATIVE
        if 8 * features.shape[0] * self.size > MAX_HELD_BYTES:
            return StreamedKernels(kernel, features, self.points, symmetric=symmetric)
        return HeldValues(_held(KernelBasis(kernel, self.points), features), symmetric=symmetric)


def _held(basis: KernelBasis, features: Array) -> Array:
    """Kernel values (n, N), written by runs of rows where the library is NumPy."""
    if not (isinstance(features, np.ndarray) or is_sparse(features)):
        return basis.features(features)
    values = np.empty((features.shape[0], basis.size))

    def write(run: slice) -> None:
        basis.write(take(features, run), values[run])

    for _ in in_order(write, _runs(features, WRITE_ROWS), values):
        pass
    return values
