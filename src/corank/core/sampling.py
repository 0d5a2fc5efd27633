"""Random numbers that belong to row numbers: the same whatever pieces the rows come in, and
wherever they are drawn. And an order of rows that follows from what they hold, not from where they
stand: what is drawn and summed in it is the same for every permutation of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from corank.core.arrays import Array, FloatArray, Index, is_sparse, run_starts, runs_of_rows

Digests: TypeAlias = NDArray[np.uint64]
Edges: TypeAlias = tuple[Index, Index, FloatArray]  # first and second rows (m,), and values (m, k)

BLOCK_ROWS = 2**16  # row numbers whose draws come from one generator
BLOCK_FOLD_RUNS = 2**13  # runs of folds that come from one generator
# from which a spread sample comes: fewer stand less well for sorted rows, more take longer to read
N_WINDOWS = 64
MIXING = (  # of bits, by splitmix64
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
LAST_SHIFT = np.uint64(31)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # keys of columns lie so far apart, as in splitmix64
BLOCK_CELLS = 2**16  # digested at a time: 512 KB, which stay in a cache
ROUNDS = 3  # links, or comparisons, away lie the rows that tell apart rows of equal contents
SPREAD = 8  # standard deviations by which more draws are looked at than are needed on average


def uniform_draws(numbers: Index, seed: int) -> FloatArray:
    """One draw from [0, 1) per row number: (n,)."""
    result = np.empty(len(numbers))
    order = np.argsort(numbers // BLOCK_ROWS, kind="stable")
    blocks, begins = np.unique(numbers[order] // BLOCK_ROWS, return_index=True)
    for block, positions in zip(blocks.tolist(), np.split(order, begins)[1:], strict=True):
        places, draws = _smallest_of_block(block, seed, 1.0)
        table = np.empty(BLOCK_ROWS)
        table[places] = draws
        result[positions] = table[numbers[positions] - block * BLOCK_ROWS]
    return result


def smallest_draws(begin: int, count: int, size: int, seed: int) -> tuple[Index, FloatArray]:
    """The `size` smallest draws of `count` row numbers from `begin` on: sorted distances from
    `begin`, and the draws.

    Of a block only the smallest draws are looked at, so that most rows cost nothing: O(size + count
    / BLOCK_ROWS).
    """
    size = min(size, count)
    if size == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    limit = 1.0 if size == count else min(1.0, (size + SPREAD * np.sqrt(size) + SPREAD) / count)
    while True:
        blocks = range(begin // BLOCK_ROWS, (begin + count - 1) // BLOCK_ROWS + 1)
        looked_at = [_smallest_of_block(block, seed, limit) for block in blocks]
        starts = [block * BLOCK_ROWS - begin for block in blocks]
        places, draws = map(np.concatenate, zip(*looked_at, strict=True))
        distances = places + np.repeat(starts, [len(own) for own, _ in looked_at])
        inside = (distances >= 0) & (distances < count)
        distances, draws = distances[inside], draws[inside]
        if len(distances) >= size or limit == 1.0:
            kept = smallest(draws, size)
            order = np.argsort(distances[kept])
            return distances[kept][order], draws[kept][order]
        limit = min(1.0, 2 * limit)


def _smallest_of_block(block: int, seed: int, limit: float) -> tuple[Index, FloatArray]:
    """Places in a block whose draw is at most `limit`, by rising draw, and the draws.

    Sorted uniform numbers are drawn one after the other (their logarithms have exponential gaps);
    the places that have them are a permutation that mixes bits. Neither depends on how many are
    looked at.
    """
    rng = np.random.default_rng([seed, block])
    keys = rng.integers(0, 2**16, 3)
    count, expected = BLOCK_ROWS, BLOCK_ROWS * limit
    if limit < 1:
        count = min(count, int(expected + SPREAD * np.sqrt(expected) + SPREAD))
    gaps = rng.standard_exponential(count) / (BLOCK_ROWS - np.arange(count))
    draws = -np.expm1(-np.cumsum(gaps))
    while count < BLOCK_ROWS and draws[-1] <= limit:
        more = min(count, BLOCK_ROWS - count)
        left = BLOCK_ROWS - np.arange(count, count + more)
        gaps = np.concatenate([gaps, rng.standard_exponential(more) / left])
        count += more
        draws = -np.expm1(-np.cumsum(gaps))
    if limit < 1:
        draws = draws[: int(np.searchsorted(draws, limit, side="right"))]
    places = np.arange(len(draws), dtype=np.int64)
    for key, shift in zip(keys.tolist(), (7, 9, 8), strict=True):
        places = (places * (2 * key + 1) + key) % BLOCK_ROWS
        places ^= places >> shift
    return places, draws


def label_draws(labels: Index, seed: int) -> FloatArray:
    """One draw from [0, 1) per label of 64 bits, the same for the same label: (n,)."""
    mixed = labels.astype(np.uint64) + np.random.default_rng(seed).integers(2**63, dtype=np.uint64)
    return (_mixed(mixed) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def spread_places(count: int, size: int, seed: int, width: int) -> Index:
    """Sorted places of `size` out of `count` rows that lie in few stretches of them, windows of
    `width` rows: (size,).

    All rows fall into parts of the same length. Each has a window somewhere, from which an equal
    share is drawn.
    """
    rng = np.random.default_rng([seed, count])
    places = []
    for window in range(N_WINDOWS):
        begin, end = (count * edge // N_WINDOWS for edge in (window, window + 1))
        share = size * (window + 1) // N_WINDOWS - size * window // N_WINDOWS
        width = min(max(width, share), end - begin)
        first = begin + int(rng.integers(end - begin - width + 1))
        places.append(first + np.sort(rng.choice(width, size=min(share, width), replace=False)))
    return np.concatenate(places)


def smallest(values: FloatArray, size: int) -> Index:
    """The positions of the `size` smallest values, sorted."""
    if len(values) <= size:
        return np.arange(len(values))
    return np.sort(np.argpartition(values, max(size - 1, 0))[:size])


def fold_numbers(begin: int, count: int, n_folds: int, seed: int) -> Index:
    """The folds of `count` units numbered from `begin` on: every run of n_folds units has each fold
    once, shuffled.
    """
    width = BLOCK_FOLD_RUNS * n_folds
    first_block = begin // width
    blocks = []
    for block in range(first_block, (begin + max(count, 1) - 1) // width + 1):
        needed = min(BLOCK_FOLD_RUNS, -(-(begin + count - block * width) // n_folds))
        rng = np.random.default_rng([seed, block] if block else seed)
        runs = np.tile(np.arange(n_folds), (max(needed, 0), 1))
        blocks.append(rng.permuted(runs, axis=1).ravel())
    offset = begin - first_block * width
    return np.concatenate(blocks)[offset : offset + count]


# ---------------------------------------------------------------- by contents


def canonical_order(
    of_features: Digests,
    values: FloatArray | None = None,
    *,
    queries: Index | None = None,
    edges: Sequence[Edges] = (),
    groups: Sequence[Index] = (),
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
    groups : (n,) codes from 0 each, of rows that belong together, as those of one person; how they
        are numbered does not matter
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
    for _ in range(ROUNDS * min(len(groups), 1)):
        joined = digests
        for codes in groups:
            of_groups = np.zeros(int(codes.max()) + 1, dtype=np.uint64)
            np.add.at(of_groups, codes, _mixed(digests))
            joined = _mixed(joined * GOLDEN ^ of_groups[codes])
        digests = joined
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
        bits = (bits ^ (bits >> shift)) * factor
    return bits ^ (bits >> LAST_SHIFT)
