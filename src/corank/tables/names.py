"""Items by their names: the rows of a table by what one of its columns calls them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from corank.core.arrays import Index
from corank.tables.columns import TableError, column, plain
from corank.tables.read import TableFile

TIE = "tie"  # a word that takes the place of a name
HOW_TO_TIE = (
    "write a tie as two rows, a win for each, or with --method difference as a margin of 0; the"
    " word tie is understood only in answered questions of corank suggest"
)


class NamedItems:
    """The rows of a table by the names that one of its columns gives them.

    `query` : the name of the query column and (n_rows,) the query of each row, where only items of
    one query are compared; or None
    """

    def __init__(
        self, file: TableFile, name: str, table: pa.Table, query: tuple[str, Index] | None = None
    ) -> None:
        self.file, self.name, self.query = file, name, query
        self.labels = names_in(table, name, "item", file)
        self._rows = rows_by_name(self.labels, name, f" of {file}")

    def __contains__(self, label: str) -> bool:
        return label in self._rows

    def rows_of(
        self, wanted: Sequence[str | None], file: TableFile, name: str, place: str = ""
    ) -> Index:
        """The rows that the column `name` of another file means: (n,); `place` of a name in it,
        where that is no row.
        """
        rows = np.array([self._rows.get(label or "", -1) for label in wanted], dtype=np.int64)
        if (rows < 0).any():
            at = int(np.argmax(rows < 0))
            label = wanted[at]
            if label is None:
                raise TableError(f"column {name!r} of {file} has no value in data row {at + 1}")
            remedy = f": {HOW_TO_TIE}" if label.lower() == TIE else ""
            raise TableError(
                f"{label!r} in {place or f'data row {at + 1} of {file}'} is not in column"
                f" {self.name!r} of {self.file}{remedy}"
            )
        return rows

    def pairs_of(
        self,
        labels: Sequence[Sequence[str | None]],
        file: TableFile,
        names: tuple[str, str],
        place: str = "",
    ) -> tuple[Index, Index]:
        """The rows that two columns of another file mean, of different items of one query; `place`
        as in `rows_of`.
        """
        first, second = (
            self.rows_of(wanted, file, name, place)
            for wanted, name in zip(labels, names, strict=True)
        )
        if (first == second).any():
            at = int(np.argmax(first == second))
            raise TableError(
                f"data row {at + 1} of {file} compares {self.labels[first[at]]!r} with itself"
            )
        if self.query is None:
            return first, second
        query, queries = self.query
        apart = queries[first] != queries[second]
        if apart.any():
            at = int(np.argmax(apart))
            pair = f"{self.labels[first[at]]!r} with {self.labels[second[at]]!r}"
            raise TableError(
                f"{place or f'data row {at + 1} of {file}'} compares {pair}, which differ in the"
                f" query column {query!r}"
            )
        return first, second


def rows_by_name(names: Iterable[str | None], column: str, place: str = "") -> dict[str, int]:
    """The row of every item by its name, of which each must have one of its own; place : of the
    column, in words.
    """
    rows: dict[str, int] = {}
    for row, name in enumerate(names):
        if not name:
            raise TableError(
                f"column {column!r}{place} has no value in data row {row + 1}: every item needs a"
                " name"
            )
        if rows.setdefault(name, row) != row:
            raise TableError(
                f"{name!r} is in data rows {rows[name] + 1} and {row + 1}{place}: names in column"
                f" {column!r} must be unique"
            )
    return rows


def names_in(table: pa.Table, name: str, role: str, file: TableFile) -> list[str | None]:
    """The names in a column as text, None where there is none; 7, 7.0 and "7" are one name."""
    values = plain(column(table, name, role))
    if pa.types.is_nested(values.type):
        raise TableError(
            f"column {name!r} of {file} holds {values.type} values: names must be text or numbers"
        )
    return [_label(value) for value in values.to_pylist()]


def _label(value: Any) -> str | None:
    if value is None or value != value:  # noqa: PLR0124
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()
