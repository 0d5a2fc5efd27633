"""A sparse model read by a person: its atoms in order of entry, their weights, and what each of
them added.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from corank.core.arrays import FloatArray, Index


@dataclass(frozen=True)
class Explanation:
    """The atoms of a sparse model, one line each, in order of entry. Print it, or `plot` it.

    Attributes
    ----------
    names : (p,) what the atoms are: rows of X, or columns
    atoms : (p,) their numbers
    weights : (p,) in the fitted function
    left : (p,) share of the training loss that is left once the atom has entered
    added : (p,) share of the training loss that the atom took away
    held_out : (p,) held-out error with that many atoms, NaN where it was not looked at; None where
        nothing was tuned
    views : (p,) the view that each atom belongs to, None where there is one
    """

    names: tuple[str, ...]
    atoms: Index
    weights: FloatArray
    left: FloatArray
    held_out: FloatArray | None = None
    views: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def added(self) -> FloatArray:
        """Share of the training loss that each atom took away; of atoms that enter together the
        first line says it.
        """
        shares = 0.0 - np.diff(self.left, prepend=1.0)
        shares[np.arange(len(self)) % self._together != 0] = np.nan
        return shares

    @property
    def _together(self) -> int:
        """Number of atoms that enter in one step: one per view."""
        return 1 if self.views is None else len(set(self.views))

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns of a table, as `pandas.DataFrame` and `polars.DataFrame` take them."""
        table: dict[str, list[Any]] = {
            "step": [1 + line // self._together for line in range(len(self))]
        }
        if self.views is not None:
            table["view"] = list(self.views)
        table |= {
            "atom": list(self.names),
            "weight": self.weights.tolist(),
            "added": self.added.tolist(),
        }
        table["left"] = self.left.tolist()
        if self.held_out is not None:
            table["held_out_error"] = self.held_out.tolist()
        return table

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """The table as text: names of the columns, and one list of cells per line."""
        shown = {
            "step": "d",
            "weight": "+.4g",
            "added": ".1%",
            "left": ".1%",
            "held_out_error": ".4g",
        }
        table = self.to_dict()
        columns = [
            ["" if value != value else format(value, shown.get(key, "")) for value in column]  # noqa: PLR0124
            for key, column in table.items()
        ]
        return [key.replace("_", " ") for key in table], [
            list(line) for line in zip(*columns, strict=True)
        ]

    def __str__(self) -> str:
        head, lines = self._cells()
        widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
        text = [
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
            for line in [head, *lines]
        ]
        return "\n".join([text[0], "  ".join("-" * width for width in widths), *text[1:]])

    def _repr_html_(self) -> str:
        head, lines = self._cells()
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>"
            for line in lines
        )
        return (
            f"<table><tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>{rows}</table>"
        )

    def plot(self, ax: Any = None) -> Any:
        """Weights as bars in order of entry, on a matplotlib axis.

        Parameters
        ----------
        ax : matplotlib axis, default=None
            None makes a new figure.

        Returns
        -------
        the axis
        """
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(figsize=(6, 0.5 + 0.32 * len(self)), layout="constrained")
        at = np.arange(len(self))[::-1]
        colours = np.where(self.weights >= 0, "#2b6cb0", "#c05621")
        ax.barh(at, self.weights, color=colours)
        labels = (
            self.names
            if self.views is None
            else [f"{n} ({v})" for n, v in zip(self.names, self.views, strict=True)]
        )
        ax.set_yticks(at, labels)
        ax.axvline(0, color="0.4", linewidth=0.8)
        ax.set_xlabel("weight")
        for y, share in zip(at, self.added, strict=True):
            if share == share:  # noqa: PLR0124
                ax.annotate(
                    f"{share:.0%}",
                    (1.01, y),
                    xycoords=("axes fraction", "data"),
                    va="center",
                    color="0.5",
                )
        ax.spines[["top", "right"]].set_visible(False)
        return ax
