"""An order of rows that follows from what they hold, not from where they stand: what is drawn and
summed in it is the same for every permutation of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from corank.core.arrays import Array, FloatArray, Index, is_sparse, run_starts, runs_of_rows

Digests: TypeAlias = NDArray[np.uint64]
Edges: TypeAlias = tuple[Index, Index, FloatArray]  # first and second rows (m,), and values (m, k)

BLOCK_CELLS = 2**16  # digested at a time: 512 KB, which stay in a cache
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # keys of columns lie so far apart, as in splitmix64
MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
LAST_SHIFT = np.uint64(31)
ROUNDS = 3  # links, or comparisons, away lie the rows that tell apart rows of equal contents


def canonical_order(
    of_features: Digests,
    values: FloatArray | None = None,
    *,
    queries: Index | None = None,
    edges: Sequence[Edges] = (),
) -> Index:
    """Numbers of the rows in a random order that is the same whatever order they are given in:
    (n,). O(n log n).

    Features alone say where a row comes; the rest tells apart rows with the same features. Rows
    that still tie hold the same, and so do their queries and the rows that they are joined with.

    Parameters
    ----------
    of_features : (n,) digests of the features
    values : (n, k) what else is known of the rows, NaN where it is not
    queries : (n,) codes from 0; how queries are numbered does not matter
    edges : what joins pairs of rows
    """
    order = np.argsort(of_features)
    ordered = of_features[order]
    if not (ordered[1:] == ordered[:-1]).any():
        return order
    digests = of_features if values is None else _mixed(of_features ^ row_digests(values, 1))
    if queries is not None:
        of_queries = np.zeros(int(queries.max()) + 1, dtype=np.uint64)
        np.add.at(of_queries, queries, digests)
        digests = _mixed(digests ^ of_queries[queries])
    for first, second, labels in edges:
        of_labels = row_digests(labels, 2)
        for _ in range(ROUNDS):
            joined = _mixed(digests)
            np.add.at(joined, first, _mixed(digests[second] + of_labels))
            np.add.at(joined, second, _mixed(digests[first] ^ of_labels))
            digests = joined
    keys = (digests, of_features) if queries is None else (queries, digests, of_features)
    # rows with the same features shall not stand side by side: the first ones are a sample of all
    starts = run_starts(ordered)
    repeats = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    places = _mixed(ordered + repeats.astype(np.uint64) * GOLDEN)
    return np.asarray(np.lexsort(keys)[np.argsort(places)])


def in_order_of_contents(rows: FloatArray) -> FloatArray:
    """The rows (n, d), for sums over them that do not depend on the order in which they are given."""
    return rows[np.argsort(row_digests(rows, 0))]


def row_digests(rows: Array, seed: int) -> Digests:
    """A number per row (n, d) that follows from its numbers; 0 and -0 are one, and so are all NaN.
    O(n d).
    """
    n, d = rows.shape
    keys = _mixed(np.arange(1, d + 1, dtype=np.uint64) * GOLDEN + np.uint64(seed))
    if is_sparse(rows):
        cells = _mixed(_bits(rows.data) ^ keys[rows.indices])
        cells[rows.data == 0] = 0
        sums = np.append(np.zeros(1, dtype=np.uint64), np.cumsum(cells))
        return _mixed(sums[rows.indptr[1:]] - sums[rows.indptr[:-1]])
    runs = runs_of_rows(n, max(1, BLOCK_CELLS // max(d, 1)))
    sums_of_runs = [_mixed(_bits(rows[run]) ^ keys).sum(axis=1) for run in runs]
    return _mixed(np.concatenate([np.zeros(0, dtype=np.uint64), *sums_of_runs]))


def _bits(values: FloatArray) -> Digests:
    return np.where(np.isnan(values), np.nan, values + 0.0).view(np.uint64)


def _mixed(bits: Digests) -> Digests:
    """Numbers of which every bit depends on all bits of the given ones, as in splitmix64."""
    for shift, factor in MIXING:
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> LAST_SHIFT)
