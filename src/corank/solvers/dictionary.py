"""The functions that a pursuit picks from: held in memory, computed anew block by block, or columns of CSR features.

D has one row a scored row and one column an atom. What rows cost is no business of it: the root J is applied to the
few vectors that meet D, so that all folds share one D and one pass over it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Protocol

import numpy as np
from scipy.linalg.blas import dsymv

from corank._backend import Array, float64, in_order, is_sparse, like, namespace, take
from corank.basis import KernelBasis
from corank.kernels import NATIVE, Kernel
from corank.solvers.lengths import InBlocks, RowSet, sparse_lengths
from corank.statistics import CHUNK_ROWS, WRITE_ROWS, Index

HELD_BYTES = 2**29  # of kernel values; more of them are computed anew in each pass
TILE = 512  # rows and points of a tile of kernel values
JOB_TILES = 32  # of one job


class Dictionary(Protocol):
    """D (n, N), seen through its products only."""

    @property
    def size(self) -> int:
        """N."""
        ...

    def products(self, vectors: Array) -> Array:
        """V D for V (t, n): (t, N). O(n N t)."""
        ...

    def columns(self, atoms: Index) -> Array:
        """The columns of some atoms, as rows: (t, n)."""
        ...

    def squared_lengths(self, sets: Sequence[RowSet]) -> Array:
        """diag(Dᵀ L D) over each set of rows, of which the first is all of them: (len(sets), N). O(n N)."""
        ...


class HeldValues(InBlocks):
    """D as one array (n, N); `symmetric` where atoms are kernels at the rows themselves."""

    def __init__(self, values: Array, *, symmetric: bool = False) -> None:
        self.values = values
        self.size = int(values.shape[1])
        self._halved = symmetric and isinstance(values, np.ndarray)

    def block(self, atoms: slice, out: Array | None = None) -> Array:
        """Columns of D."""
        if out is None:
            return self.values[:, atoms]
        out[...] = self.values[:, atoms]
        return out

    def products(self, vectors: Array) -> Array:
        """V D; one vector with a symmetric D reads half of it."""
        if self._halved and vectors.shape[0] == 1:
            return dsymv(1.0, self.values.T, vectors[0])[None, :]
        return vectors @ self.values

    def columns(self, atoms: Index) -> Array:
        """Dᵀ at some atoms."""
        return namespace(self.values).take(self.values, like(atoms, self.values, "int64"), axis=1).T


class StreamedKernels(InBlocks):
    """Kernels at N points, computed anew in each pass: memory for tiles only.

    `symmetric` where the points are the rows themselves: a tile then serves its mirror image too.
    """

    def __init__(self, kernel: Kernel, features: Array, points: Array, *, symmetric: bool = False) -> None:
        self.kernel, self.features, self.points = kernel, features, points
        self.size = int(points.shape[0])
        self._tiled = isinstance(features, np.ndarray) or is_sparse(features)
        self._mirrored = symmetric and self._tiled
        self._workspace = threading.local()

    def block(self, atoms: slice, out: Array | None = None) -> Array:
        """Columns of D."""
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
        """V D, tile by tile; sums do not depend on the number of threads."""
        if not self._tiled:
            return namespace(vectors).concat([self._of_chunks(basis, vectors) for basis in self._bases], axis=1)
        result = np.zeros((vectors.shape[0], self.size))
        jobs = [
            (number, first)
            for number, first in product(range(len(self._bases)), range(0, len(self._tiles), JOB_TILES))
            if first <= number or not self._mirrored
        ]
        parts = in_order(lambda job: self._of_tiles(*job, vectors), jobs, vectors)
        for (number, first), (own, mirrored) in zip(jobs, parts, strict=True):
            result[:, number * TILE : number * TILE + own.shape[1]] += own
            result[:, first * TILE : first * TILE + mirrored.shape[1]] += mirrored
        return result

    def _of_chunks(self, basis: KernelBasis, vectors: Array) -> Array:
        """V D for one run of points, on a device that likes large blocks."""
        chunks = _runs(self.features, CHUNK_ROWS)
        parts = [vectors[:, rows] @ basis.features(self.features[rows, :]) for rows in chunks]
        return sum(parts[1:], parts[0])

    def _of_tiles(self, number: int, first: int, vectors: np.ndarray[Any, Any]) -> tuple[Array, Array]:
        """V D for one run of points over some tiles of rows, and what those tiles give for points that are their rows.

        Of a symmetric D only the tiles up to the diagonal are looked at.
        """
        space = getattr(self._workspace, "tile", None)
        if space is None:
            space = self._workspace.tile = np.empty(TILE * TILE)
        basis, last = self._bases[number], min(first + JOB_TILES, len(self._tiles))
        own, mirrored = np.zeros((len(vectors), basis.size)), []
        for place in range(first, min(last, number + 1) if self._mirrored else last):
            rows = self._tiles[place]
            begin, count = place * TILE, int(rows.shape[0])
            tile = space[: count * basis.size].reshape(count, basis.size)
            basis.write(rows, tile)
            own += vectors[:, begin : begin + count] @ tile
            if self._mirrored and place < number:
                mirrored.append(vectors[:, number * TILE : number * TILE + basis.size] @ tile.T)
        return own, np.concatenate(mirrored, axis=1) if mirrored else own[:, :0]

    def columns(self, atoms: Index) -> Array:
        """Dᵀ at some atoms. O(n t d)."""
        return self.kernel.block(self.features, take(self.points, atoms)).T


def _runs(rows: Array, length: int | None = None) -> list[slice]:
    """Rows, or points, cut into runs: those of tiles, or of a given length."""
    n, length = int(rows.shape[0]), length or TILE
    return [slice(begin, min(begin + length, n)) for begin in range(0, n, length)]


class SparseColumns:
    """D as CSR features or values, never made dense."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        self.size = int(matrix.shape[1])

    @cached_property
    def _by_atom(self) -> Any:
        return float64(self.matrix).T.tocsr()

    def products(self, vectors: Array) -> Array:
        """V D. O(t nnz)."""
        return np.asarray(self._by_atom @ vectors.T).T

    def columns(self, atoms: Index) -> Array:
        """Dᵀ at some atoms."""
        return self._by_atom[atoms].toarray()

    def squared_lengths(self, sets: Sequence[RowSet]) -> Array:
        """diag(Dᵀ L D) over each set of rows. O(nnz log nnz) a set."""
        return np.stack(
            [sparse_lengths(self.matrix if own.rows is None else self.matrix[own.rows], own.operator) for own in sets]
        )


# ---------------------------------------------------------------- what was asked for


@dataclass(frozen=True)
class Atoms:
    """What a dictionary is made of, checked: kernels at points, or values that a function or X itself gives.

    points : (N, d) rows or column numbers (N,) of a precomputed kernel; None for values
    index : (N,) the rows of X that the points are, None where they are none
    values : (n, N) at the scored rows, dense or CSR; None for kernels
    function : what gave the values; None for the columns of X
    """

    points: Array | None = None
    index: Index | None = None
    values: Array | None = None
    function: Callable[[Any], Any] | None = None

    @property
    def size(self) -> int:
        """N."""
        return int(self.points.shape[0] if self.points is not None else self.values.shape[1])  # type: ignore[union-attr]

    def at(self, rows: Index) -> Index | None:
        """The atoms that are these rows of X."""
        return None if self.index is None else np.flatnonzero(np.isin(self.index, rows))

    def dictionary(self, kernel: Kernel, features: Array) -> Dictionary:
        """Its values at the scored rows, features (n, d), in the form that fits into memory."""
        if self.points is None:
            return SparseColumns(self.values) if is_sparse(self.values) else HeldValues(float64(self.values))
        symmetric = self.points is features and kernel.name in NATIVE
        if 8 * int(features.shape[0]) * self.size > HELD_BYTES:
            return StreamedKernels(kernel, features, self.points, symmetric=symmetric)
        return HeldValues(_held(KernelBasis(kernel, self.points), features), symmetric=symmetric)


def _held(basis: KernelBasis, features: Array) -> Array:
    """Φ (n, N), written by runs of rows where the library is NumPy."""
    if not (isinstance(features, np.ndarray) or is_sparse(features)):
        return basis.features(features)
    values = np.empty((int(features.shape[0]), basis.size))
    for _ in in_order(lambda run: basis.write(take(features, run), values[run]), _runs(features, WRITE_ROWS), values):
        pass
    return values
