"""Items by their names: which row of a table is meant, and answers joined with the items they name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corank.tables import TableError, column, plain, read_table

TIE = "tie"
HOW_TO_TIE = (
    "give a tie as two rows, a win for each, or with --method difference as a margin of 0; the word is understood only "
    "in the answered questions of corank suggest"
)


class Items:
    """The rows of a table by the names that one of its columns gives them."""

    def __init__(self, file: Path, name: str, table: pa.Table) -> None:
        self.file, self.name = file, name
        self.labels = labels(table, name, "item", file)
        self._rows: dict[str, int] = {}
        for row, label in enumerate(self.labels):
            if label is None:
                raise TableError(f"column {name!r} of {file} has no value in data row {row + 1}: every item needs one")
            if self._rows.setdefault(label, row) != row:
                raise TableError(
                    f"{label!r} stands in data rows {self._rows[label] + 1} and {row + 1} of {file}: "
                    f"every item needs a name of its own in column {name!r}"
                )

    def __contains__(self, label: str) -> bool:
        return label in self._rows

    def rows_of(self, wanted: Sequence[str | None], file: Path, name: str) -> NDArray[np.int64]:
        """The rows that the column `name` of another file means: (n,)."""
        found = np.array([self._rows.get(label or "", -1) for label in wanted], dtype=np.int64)
        if (found < 0).any():
            row = int(np.argmax(found < 0))
            label = wanted[row]
            if label is None:
                raise TableError(f"column {name!r} of {file} has no value in data row {row + 1}")
            more = f": {HOW_TO_TIE}" if label.lower() == TIE else ""
            where = f"{self.file}, by column {self.name!r}"
            raise TableError(f"{label!r} in data row {row + 1} of {file} is no item of {where}{more}")
        return found


def joined(answers: pa.Table, file: Path, items_file: Path, item: str, text: Iterable[str]) -> pa.Table:
    """Answers with the columns of the items they name; where both have a column, that of the answers.

    `text`: columns of the items that stay text.
    """
    table = read_table(items_file, text=[*text, item])
    rows = Items(items_file, item, table).rows_of(labels(answers, item, "item", file), file, item)
    both = [*zip(table.column_names, table.take(pa.array(rows)).columns, strict=True)]
    return pa.table(dict([*both, *zip(answers.column_names, answers.columns, strict=True)]))


def labels(table: pa.Table, name: str, role: str, file: Path) -> list[str | None]:
    """The names in a column as text, None where there is none; 7, 7.0 and "7" are one name."""
    values = plain(column(table, name, role))
    if pa.types.is_nested(values.type):
        raise TableError(f"column {name!r} of {file} holds {values.type} values: names must be text or numbers")
    return [_label(value) for value in values.to_pylist()]


def _label(value: Any) -> str | None:
    if value is None or value != value:  # noqa: PLR0124
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()
