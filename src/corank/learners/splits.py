"""What a user gave as `cv` → splits of scored rows or comparisons."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from corank.core.arrays import Index, NumpyArray, to_numpy
from corank.core.folds import Splits
from corank.core.observations import Problem, ScoredRows


def read_splits(cv: Any, problem: Problem, index: Index, n_rows: int) -> Index | Splits | None:
    """What `cv` asks for: fold numbers where it leaves one unit or group out at a time, else
    splits; None for None.

    A splitter is asked about the scored rows (or comparisons); lists of splits speak of the n_rows
    rows of X, of which `index` take part.
    """
    if cv is None:
        return None
    from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut, check_cv

    scores, groups = problem.labels
    n = problem.targets.shape[0]
    if isinstance(cv, LeaveOneOut):
        return np.arange(n)
    if isinstance(cv, LeaveOneGroupOut) and groups is not None:
        return groups
    pairs = check_cv(cv).split(np.empty((n, 1)), to_numpy(scores), groups)
    units = np.arange(n)
    if (
        not hasattr(cv, "split")
        and not isinstance(cv, Integral)
        and isinstance(problem, ScoredRows)
    ):
        units = np.full(n_rows, -1, dtype=np.int64)
        units[index] = np.arange(n)
    splits = []
    for train, test in pairs:
        both = [units[_checked_rows(rows, len(units))] for rows in (train, test)]
        splits.append((both[0][both[0] >= 0], both[1][both[1] >= 0]))
    if not splits or any(len(train) == 0 or len(test) == 0 for train, test in splits):
        raise ValueError("cv gives no split, or one without scored rows to train or test on.")
    return splits


def _checked_rows(given: Any, n_rows: int) -> Index:
    rows: NumpyArray = np.asarray(given)
    if rows.ndim != 1 or (
        rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= n_rows)
    ):
        raise ValueError(f"cv must give row numbers from 0 to {n_rows - 1}, got {rows!r:.80}.")
    return rows.astype(np.int64)
