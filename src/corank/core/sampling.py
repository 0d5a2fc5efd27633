"""Random numbers that belong to row numbers: the same whatever pieces the rows come in, and
wherever they are drawn.
"""

from __future__ import annotations

import numpy as np

from corank.core.arrays import FloatArray, Index

BLOCK_ROWS = 2**16  # row numbers whose draws come from one generator
BLOCK_FOLD_RUNS = 2**13  # runs of folds that come from one generator
# from which a spread sample comes: fewer stand less well for sorted rows, more take longer to read
N_WINDOWS = 64
MIXING = (  # of bits, by splitmix64
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
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
        distances = np.concatenate(
            [
                block * BLOCK_ROWS + p - begin
                for block, (p, _) in zip(blocks, looked_at, strict=True)
            ]
        )
        draws = np.concatenate([block_draws for _, block_draws in looked_at])
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
    expected = BLOCK_ROWS * limit
    count = (
        BLOCK_ROWS
        if limit >= 1
        else min(BLOCK_ROWS, int(expected + SPREAD * np.sqrt(expected) + SPREAD))
    )
    gaps = rng.standard_exponential(count) / (BLOCK_ROWS - np.arange(count))
    draws = -np.expm1(-np.cumsum(gaps))
    while count < BLOCK_ROWS and draws[-1] <= limit:
        more = min(count, BLOCK_ROWS - count)
        gaps = np.concatenate(
            [gaps, rng.standard_exponential(more) / (BLOCK_ROWS - np.arange(count, count + more))]
        )
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
    for shift, factor in MIXING:
        mixed = (mixed ^ (mixed >> shift)) * factor
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


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
    return (
        np.sort(np.argpartition(values, size - 1)[:size]) if size else np.zeros(0, dtype=np.int64)
    )


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
        blocks.append(
            rng.permuted(np.tile(np.arange(n_folds), (max(needed, 0), 1)), axis=1).ravel()
        )
    offset = begin - first_block * width
    return np.concatenate(blocks)[offset : offset + count]
