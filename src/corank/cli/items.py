"""Items by their names: which row of a table is meant, and what may have been meant where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corank.tables import TableError, column, near_names, plain

GUESSED_UP_TO = 5_000  # names among which one that may have been meant is looked for


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
            near = near_names(label, self._rows) if len(self._rows) <= GUESSED_UP_TO else []
            guess = f"; did you mean {near[0]!r}?" if near else f", by column {self.name!r}"
            raise TableError(f"{label!r} in data row {row + 1} of {file} is no item of {self.file}{guess}")
        return found


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
