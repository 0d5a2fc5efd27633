"""Query labels of any kind → codes 0, 1, … in order of first appearance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from corank.core.arrays import (
    Array,
    Index,
    NumpyArray,
    first_appearance,
    is_foreign,
    namespace,
    refuse_masked,
    to_numpy,
)


def query_codes(queries: Array | None, n: int) -> Index:
    """Codes of the queries of n rows in NumPy: (n,), all 0 where there are no queries."""
    return np.zeros(n, dtype=np.int64) if queries is None else to_numpy(queries)


def encode_queries(qid: Any, n_rows: int, name: str = "qid") -> tuple[Array, int]:
    """Number query labels (any hashable, any order) in order of first appearance: codes (n,) int64,
    count.

    Labels in an array of another library are numbered on its device. O(n) for hashables, O(n log n)
    for numbers.
    """
    if is_foreign(qid):
        if qid.ndim != 1:
            raise ValueError(f"{name} must have one label per row, got shape {tuple(qid.shape)}.")
        xp = namespace(qid)
        if xp.isdtype(qid.dtype, "real floating") and xp.any(xp.isnan(qid)):
            raise ValueError(f"{name} has missing labels; give every row a query label or drop it.")
        labels: Any = qid
    else:
        labels = as_labels(qid, name)
    if labels.shape[0] != n_rows:
        rows = "unscored" if name == "unscored_qid" else "X"
        raise ValueError(
            f"{name} has {labels.shape[0]} labels but {rows} has {n_rows} rows; one label per row"
            " is needed."
        )
    if not is_foreign(labels) and labels.dtype == object:
        return _encode_hashables(labels, name)
    return first_appearance(labels)


def as_labels(qid: Any, name: str) -> NumpyArray:
    """Labels (n,), one per row: an object array where NumPy has no type for them. Missing labels
    are refused.
    """
    refuse_masked(qid, name, "give every row a query label or drop it")
    if isinstance(qid, Sequence) and any(isinstance(label, tuple) for label in qid):
        labels = np.empty(len(qid), dtype=object)
        labels[:] = qid
        return labels
    if np.isscalar(qid) or qid is None:
        raise ValueError(f"{name} must be one label per row, got {qid!r}.")
    try:
        labels = np.asarray(qid.to_numpy() if hasattr(qid, "to_numpy") else qid)
    except ValueError as error:
        raise ValueError(
            f"{name} must have one label per row, and lists cannot be labels: {error}"
        ) from error
    if (
        isinstance(qid, list | tuple)
        and labels.dtype.kind in "US"
        and not all(isinstance(v, str | bytes) for v in qid)
    ):
        labels = np.array(qid, dtype=object)  # NumPy would turn numbers and None into text
    if labels.ndim != 1:
        raise ValueError(
            f"{name} must have one label per row (one dimension), got shape {labels.shape}."
        )
    if labels.dtype.kind in "fmM" and (missing := np.isnan(labels)).any():
        row = int(np.argmax(missing))
        raise ValueError(
            f"{name} has a missing label in row {row}; give every row a query label or drop it."
        )
    return labels


def _encode_hashables(labels: NumpyArray, name: str) -> tuple[Array, int]:
    numbers: dict[Any, int] = {}
    codes = np.empty(len(labels), dtype=np.int64)
    for row, label in enumerate(labels):
        if label is None or type(label).__name__ in ("NAType", "NaTType") or label != label:  # noqa: PLR0124
            raise ValueError(
                f"{name} has a missing label in row {row}; give every row a query label or drop it."
            )
        try:
            codes[row] = numbers.setdefault(label, len(numbers))
        except TypeError as error:
            raise ValueError(
                f"{name} has a label in row {row} that cannot be hashed: {label!r}."
            ) from error
    return codes, len(numbers)
