"""The items that all sites know: agreed by content, without sending them, or made by everyone from
the same recipe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corank.core.arrays import is_sparse, to_numpy


class SharedItemsError(ValueError):
    """Sites do not hold the same shared items; says where they first differ."""


def row_digests(columns: Sequence[Any]) -> list[bytes]:
    """One SHA-256 per row, over its values in every column (n,): text as UTF-8, numbers as float64,
    missing ones alike.

    O(n) for a fixed number of columns.
    """
    encoded = [_encoded(column) for column in columns]
    return [hashlib.sha256(b"".join(row)).digest() for row in zip(*encoded, strict=True)]


def _encoded(column: Any) -> list[bytes]:
    """Every value with its length before it, so that no two rows run into the same bytes."""
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        numbers = values.astype("<f8") + 0.0  # one zero
        numbers[np.isnan(numbers)] = np.nan
        return [b"n" + number.tobytes() for number in numbers]
    texts = [b"" if value is None else str(value).encode() for value in values.tolist()]
    return [b"t" + len(text).to_bytes(4, "little") + text for text in texts]


class Fingerprint:
    """Digests of rows in their order: of all, or of the first few."""

    def __init__(self, rows: Sequence[bytes]) -> None:
        self.rows = list(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def upto(self, count: int) -> str:
        """The digest of the first `count` rows."""
        if not 0 <= count <= len(self.rows):
            raise ValueError(f"upto must lie between 0 and {len(self.rows)}, got {count}.")
        return hashlib.sha256(b"".join(self.rows[:count])).hexdigest()

    @cached_property
    def digest(self) -> str:
        """The digest of all rows."""
        return self.upto(len(self.rows))


def first_difference(
    ours: Callable[[int], str], theirs: Callable[[int], str], rows: int
) -> int | None:
    """The first row, from 0, where two parties differ, by asking for digests of the first few rows:
    O(log rows) of them.

    None where the first `rows` rows are alike.
    """
    if ours(rows) == theirs(rows):
        return None
    same, different = 0, rows
    while different - same > 1:
        middle = (same + different) // 2
        if ours(middle) == theirs(middle):
            same = middle
        else:
            different = middle
    return same


@dataclass(frozen=True)
class SharedItems:
    """The shared items as one site sees them.

    Parameters
    ----------
    features : (m, d) array, frame or CSR: the site's own features of the items
    ids : (m,) names of the items, unique; what sites must have in common. None: the features
        themselves are what is compared, so that every site must have the same
    queries : (m,) query labels for ranking, also compared; None = one query
    agreed : more columns (m,) each that must be the same everywhere
    """

    features: Any
    ids: Any = None
    queries: Any = None
    agreed: Sequence[Any] = ()

    def __post_init__(self) -> None:
        m = int(self.features.shape[0])
        for name, column in (
            ("ids", self.ids),
            ("queries", self.queries),
            *(("agreed", more) for more in self.agreed),
        ):
            if column is not None and len(column) != m:
                raise ValueError(
                    f"{name} has {len(column)} entries, but there are {m} shared items."
                )
        if m == 0:
            raise ValueError("features has no row: sites need shared items to agree on.")
        if self.ids is not None:
            names, counts = np.unique(self._names, return_counts=True)
            if len(names) < m:
                raise ValueError(
                    f"ids holds {str(names[np.argmax(counts)])!r} more than once; every item needs"
                    " its own id."
                )

    @property
    def _names(self) -> NDArray[Any]:
        return np.asarray([str(name) for name in np.asarray(self.ids).tolist()])

    def __len__(self) -> int:
        return int(self.features.shape[0])

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Digests of the rows, which sites compare with each other."""
        columns: list[Any] = [] if self.ids is None else [self._names]
        if self.queries is not None:
            columns.append(np.asarray([str(label) for label in np.asarray(self.queries).tolist()]))
        columns += list(self.agreed)
        if self.ids is None:
            dense = self.features.toarray() if is_sparse(self.features) else to_numpy(self.features)
            columns += list(np.asarray(dense, dtype=np.float64).T)
        return Fingerprint(row_digests(columns))

    def name(self, row: int) -> str:
        """What a row, from 0, is called in messages."""
        return f"row {row + 1}" + ("" if self.ids is None else f" (id {str(self._names[row])!r})")


# ---- items that nobody has


def synthetic_table(
    items: int, seed: int, columns: Sequence[Mapping[str, Any]], query_size: int | None = None
) -> pa.Table:
    """Shared items made up from an agreed seed and schema: every site gets the same table.

    Parameters
    ----------
    items : how many
    seed : int
    columns : one mapping each, with a "name" and either "low" and "high" (uniform numbers; whole
        ones where both are and "whole" is true), "mean" and "deviation" (normal), or "values" (a
        list to draw from)
    query_size : how many items make a query, for ranking; the column is called "query"

    Returns
    -------
    table with the columns "id", those asked for, and "query"
    """
    if type(items) is not int or items < 1:
        raise ValueError(f"items must be a whole number from 1, got {items!r}.")
    if not columns:
        raise ValueError("columns is empty: synthetic items need at least one.")
    rng = np.random.Generator(np.random.PCG64(seed))  # by name: its stream is fixed
    made: dict[str, Any] = {"id": [f"item-{number + 1}" for number in range(items)]}
    for column in columns:
        name = column.get("name")
        if not isinstance(name, str) or name in made or name == "query":
            raise ValueError(f"columns: {name!r} is no name for a column, or it is taken.")
        made[name] = _drawn(name, column, items, rng)
    if query_size is not None:
        if type(query_size) is not int or query_size < 2:
            raise ValueError(f"query_size must be a whole number from 2, got {query_size!r}.")
        made["query"] = [f"query-{number // query_size + 1}" for number in range(items)]
    return pa.table(made)


def _drawn(name: str, column: Mapping[str, Any], items: int, rng: np.random.Generator) -> Any:
    given = set(column) - {"name"}
    if given == {"values"} and isinstance(column["values"], list) and column["values"]:
        chosen = rng.integers(len(column["values"]), size=items)
        return [column["values"][index] for index in chosen]
    if given in ({"low", "high"}, {"low", "high", "whole"}) and column["low"] < column["high"]:
        if column.get("whole"):
            return rng.integers(int(column["low"]), int(column["high"]) + 1, size=items)
        return column["low"] + (column["high"] - column["low"]) * rng.random(items)
    if given == {"mean", "deviation"} and column["deviation"] > 0:
        return column["mean"] + column["deviation"] * _normal(rng, items)
    raise ValueError(
        f"columns: {name!r} needs low and high (low < high), mean and deviation (> 0), or values (a"
        f" list); got {', '.join(sorted(given)) or 'nothing'}."
    )


def _normal(rng: np.random.Generator, items: int) -> NDArray[np.float64]:
    """By Box and Muller, to six places: logarithms differ in their last digit between machines."""
    radius = np.sqrt(-2 * np.log(1 - rng.random(items)))
    return np.asarray(np.round(radius * np.cos(2 * np.pi * rng.random(items)), 6), dtype=np.float64)
