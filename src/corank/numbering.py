"""Random numbers that belong to row numbers: the same whatever pieces the rows come in, and wherever they are drawn."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Index: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
BLOCK = 2**16  # rows whose numbers come from one generator
RUNS = 2**13  # of folds that come from one generator


def luck_of(numbers: Index, seed: int) -> np.ndarray[Any, Any]:
    """One number in [0, 1) for each row number: (n,)."""
    result = np.empty(len(numbers))
    blocks = numbers // BLOCK
    for block in np.unique(blocks):
        own = blocks == block
        result[own] = np.random.default_rng([seed, int(block)]).random(BLOCK)[numbers[own] - block * BLOCK]
    return result


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
