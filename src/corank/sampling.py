"""Random numbers that belong to row numbers: the same whatever pieces the rows come in, and wherever they are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from corank._arrays import Index

BLOCK = 2**16  # rows whose numbers come from one generator
RUNS = 2**13  # of folds that come from one generator


def luck_of(numbers: Index, seed: int) -> np.ndarray[Any, Any]:
    """One number in [0, 1) for each row number: (n,)."""
    result = np.empty(len(numbers))
    order = np.argsort(numbers // BLOCK, kind="stable")
    blocks, begins = np.unique(numbers[order] // BLOCK, return_index=True)
    for block, own in zip(blocks.tolist(), np.split(order, begins)[1:], strict=True):
        places, luck = _luckiest_of_block(block, seed, 1.0)
        table = np.empty(BLOCK)
        table[places] = luck
        result[own] = table[numbers[own] - block * BLOCK]
    return result


def luckiest_from(begin: int, count: int, size: int, seed: int) -> tuple[Index, np.ndarray[Any, Any]]:
    """Of `count` row numbers from `begin` on the `size` luckiest: how far from `begin` they are, sorted, and their luck.

    Of a block only the luckiest rows are looked at, so that most rows cost nothing: O(size + count / BLOCK).
    """
    size = min(size, count)
    if size == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    limit = 1.0 if size == count else min(1.0, (size + 8 * np.sqrt(size) + 8) / count)
    while True:
        found = [
            (block * BLOCK + places - begin, luck)
            for block in range(begin // BLOCK, (begin + count - 1) // BLOCK + 1)
            for places, luck in [_luckiest_of_block(block, seed, limit)]
        ]
        places, luck = (np.concatenate([part[at] for part in found]) for at in (0, 1))
        inside = (places >= 0) & (places < count)
        places, luck = places[inside], luck[inside]
        if len(places) >= size or limit == 1.0:
            kept = luckiest(luck, size)
            order = np.argsort(places[kept])
            return places[kept][order], luck[kept][order]
        limit = min(1.0, 2 * limit)


def _luckiest_of_block(block: int, seed: int, limit: float) -> tuple[Index, np.ndarray[Any, Any]]:
    """Places in a block whose luck is at most `limit`, by rising luck, and the luck.

    Sorted uniform numbers are drawn one after the other (their logarithms have exponential gaps); where the rows lie that
    have them is a permutation of the places that mixes bits. Neither depends on how many are looked at.
    """
    rng = np.random.default_rng([seed, block])
    keys = rng.integers(0, 2**16, 3)
    count = BLOCK if limit >= 1 else min(BLOCK, int(BLOCK * limit + 8 * np.sqrt(BLOCK * limit) + 8))
    gaps = rng.standard_exponential(count) / (BLOCK - np.arange(count))
    luck = -np.expm1(-np.cumsum(gaps))
    while count < BLOCK and luck[-1] <= limit:
        more = min(count, BLOCK - count)
        gaps = np.concatenate([gaps, rng.standard_exponential(more) / (BLOCK - np.arange(count, count + more))])
        count += more
        luck = -np.expm1(-np.cumsum(gaps))
    if limit < 1:
        luck = luck[: int(np.searchsorted(luck, limit, side="right"))]
    places = np.arange(len(luck), dtype=np.int64)
    for key, shift in zip(keys.tolist(), (7, 9, 8), strict=True):
        places = (places * (2 * key + 1) + key) % BLOCK
        places ^= places >> shift
    return places, luck


def luckiest(values: np.ndarray[Any, Any], size: int) -> Index:
    """The positions of the `size` smallest values, sorted."""
    if len(values) <= size:
        return np.arange(len(values))
    return np.sort(np.argpartition(values, size - 1)[:size]) if size else np.zeros(0, dtype=np.int64)


def fold_numbers(begin: int, count: int, n_folds: int, seed: int) -> Index:
    """The folds of the things numbered from `begin` on: every run of n_folds holds each fold once, in random order."""
    width = RUNS * n_folds
    parts = []
    for block in range(begin // width, (begin + max(count, 1) - 1) // width + 1):
        needed = min(RUNS, -(-(begin + count - block * width) // n_folds))
        rng = np.random.default_rng([seed, block] if block else seed)
        parts.append(rng.permuted(np.tile(np.arange(n_folds), (max(needed, 0), 1)), axis=1).ravel())
    offset = begin - begin // width * width
    return np.concatenate(parts)[offset : offset + count]
