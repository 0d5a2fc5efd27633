"""Squared lengths of a dictionary's atoms under a comparison, diag(Dᵀ L D), over all rows and over those of each fold."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corank._backend import Array, in_order, like, namespace, segment_sum, take
from corank.comparison import PerQuery
from corank.kernels import checked
from corank.statistics import Index

LENGTH_ENTRIES = 2**19  # of a block whose squares are summed
ROUNDING = 1e-26  # squared length, beside that of the values before their means were taken out, that is rounding


@dataclass(frozen=True)
class RowSet:
    """Some of the rows under a comparison of their own.

    operator : J of these rows; rows : their numbers, None for all
    cut : whether J is made of blocks of the J of all rows, as it is where whole queries are left out
    """

    operator: PerQuery
    rows: Index | None = None
    cut: bool = True


class InBlocks:
    """Squared lengths from blocks of columns, so that means are taken out before anything is squared."""

    size: int

    def block(self, atoms: slice, out: Array | None = None) -> Array:
        """Columns of D: (n, b), a new array or, where the library is NumPy, written into `out`."""
        raise AssertionError("a dictionary says what its columns are")

    def squared_lengths(self, sets: Sequence[RowSet]) -> Array:
        """diag(Dᵀ L D) over each set of rows: (len(sets), N)."""
        whole = sets[0].operator
        n, workspace = whole.n_rows, threading.local()
        step = min(self.size, max(4, LENGTH_ENTRIES // n))
        # where J is cut from that of all rows, squares are added up over some rows; else the set is looked at by itself
        cuts = [number for number, own in enumerate(sets) if own.cut]
        squares = SquaredRoots(whole, np.stack([_counts(sets[number].rows, n) for number in cuts]))
        others = {
            number: SquaredRoots(own.operator, np.ones((1, own.operator.n_rows)))
            for number, own in enumerate(sets)
            if not own.cut
        }

        def lengths(begin: int) -> Array:
            atoms = slice(begin, min(begin + step, self.size))
            space = None
            if isinstance(whole.root_weights, np.ndarray):
                if not hasattr(workspace, "space"):
                    workspace.space = np.empty((3, n * step))  # kept: fresh memory costs more than the arithmetic
                space = workspace.space[:, : n * (atoms.stop - begin)].reshape(3, n, -1)
            block = self.block(atoms, None if space is None else space[0])
            with np.errstate(all="ignore"):  # values that are not finite are refused below
                found = {
                    number: own.sums(*_picked(block, sets[number].rows, space))[0, ...]
                    for number, own in others.items()
                }
                together = squares.sums(block, None if space is None else space[1])
            found |= {number: together[place, ...] for place, number in enumerate(cuts)}
            return namespace(block).stack([found[number] for number in range(len(sets))])

        parts = list(in_order(lengths, range(0, self.size, step), whole.root_weights))
        return checked(namespace(parts[0]).concat(parts, axis=1))


class SquaredRoots:
    """Σ (J d)_i² over rows, for columns d (n, b): within_q Σ w (d − mean)² + between_q W mean², query by query.

    counts : (t, n), how often each row is counted in t sums, the same for all rows of a query
    """

    def __init__(self, operator: PerQuery, counts: np.ndarray[Any, Any]) -> None:
        xp = namespace(operator.root_weights)
        self._operator = operator
        counts = like(counts, operator.root_weights)
        self._rows = counts * take(operator.within, operator.queries)[None, :]
        self._queries: Array | None = None
        if operator.comparison.needs_queries:
            self._direction = operator.root_weights / take(xp.sqrt(operator.totals), operator.queries)
            per_query = segment_sum(counts.T, operator.queries, operator.n_queries) / operator.counts[:, None]
            if bool(xp.any(operator.between > 0)):
                self._queries = (per_query * operator.between[:, None]).T

    def sums(self, columns: Array, space: Array | None) -> Array:
        """(t, b). Columns are overwritten where there is space (>= n, b) for their means."""
        operator = self._operator
        weights = operator.root_weights[:, None]
        if space is None:
            columns = columns * weights
        else:
            columns *= weights
        squares = columns * columns if space is None else np.multiply(columns, columns, out=space[: len(columns)])
        whole = self._rows @ squares
        if not operator.comparison.needs_queries:
            return whole
        sums = segment_sum(columns, operator.queries, operator.n_queries, self._direction)
        if space is None:
            columns = columns - self._direction[:, None] * take(sums, operator.queries)
            found = self._rows @ (columns * columns)
        else:
            levels = np.take(sums, operator.queries, axis=0, out=space[: len(columns)], mode="clip")
            levels *= self._direction[:, None]
            columns -= levels
            found = self._rows @ np.multiply(columns, columns, out=columns)
        if self._queries is not None:
            found = found + self._queries @ (sums * sums)
        return namespace(found).where(found <= ROUNDING * whole, 0.0 * found, found)


def _picked(block: Array, rows: Index | None, space: Array | None) -> tuple[Array, Array | None]:
    """Some rows of a block, and the space to work with them, where it holds them."""
    if space is None or rows is None or len(rows) > len(block):
        return take(block, rows), None
    return np.take(block, rows, axis=0, out=space[2, : len(rows)], mode="clip"), space[1]


def _counts(rows: Index | None, n: int) -> np.ndarray[Any, Any]:
    return np.ones(n) if rows is None else np.bincount(rows, minlength=n).astype(np.float64)


def sparse_lengths(matrix: Any, operator: PerQuery) -> np.ndarray[Any, Any]:
    """diag(Dᵀ L D) for a CSR matrix (n, N): (N,). Means are taken out of the entries, then zeros are counted in."""
    entries, size = matrix.tocoo(), int(matrix.shape[1])
    rows, columns, values = entries.row, entries.col.astype(np.int64), entries.data.astype(np.float64)
    weights = operator.root_weights[rows] ** 2
    if not operator.comparison.needs_queries:
        return np.bincount(columns, weights * values**2, minlength=size)
    cells, inverse = np.unique(operator.queries[rows] * size + columns, return_inverse=True)
    query, column = np.divmod(cells, size)
    total = operator.totals[query]
    sums, present = (np.bincount(inverse, part, minlength=len(cells)) for part in (weights * values, weights))
    means = sums / total
    spread = np.bincount(inverse, weights * (values - means[inverse]) ** 2, minlength=len(cells))
    spread += (total - present) * means**2
    found = np.bincount(
        column, operator.within[query] * spread + operator.between[query] * sums * means, minlength=size
    )
    whole = np.bincount(columns, weights * operator.within[operator.queries[rows]] * values**2, minlength=size)
    return np.where(found <= ROUNDING * whole, 0.0, found)
