"""What becomes of each column of a table, for people and as JSON.

What a Gaussian process has learned besides its function, as a table, and whether it learned anything.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.text import Text

from corank.cli.console import grid
from corank.describe import COIN, kind_of

MOST_COLUMNS = 12  # that are listed one by one
MOST_CATEGORIES = 6


def encoding_of(encoder: Any) -> list[dict[str, Any]]:
    """Every column: its kind, what becomes of it, its categories, and what a missing value becomes."""
    return [
        {
            **said,
            "categories": list(column.categories),
            "missing_becomes": None if column.dropped or column.kind == "text" or not column.values else column.fill,
            "missing_is_marked": column.missing,
        }
        for said, column in zip(encoder.summary(), encoder.columns_, strict=True)
    ]


def with_categories(encoding: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The same for a table, with the first categories by name."""
    shown = []
    for entry in encoding:
        words, labels = entry["treatment"], entry["categories"]
        if labels:
            more = f" and {len(labels) - MOST_CATEGORIES} more" if len(labels) > MOST_CATEGORIES else ""
            listed = ", ".join(_short(label) for label in labels[:MOST_CATEGORIES])
            words = words.replace(f"{len(labels)} values", f"{len(labels)} values ({listed}{more})", 1)
        shown.append({"column": entry["column"], "kind": entry["kind"], "treatment": words})
    return shown


def _short(label: str) -> str:
    return label if len(label) <= 24 else label[:23] + "…"


def columns_table(columns: list[dict[str, str]]) -> Any:
    """What becomes of each column, or of the first few and those that are dropped."""
    listed = columns
    if len(columns) > MOST_COLUMNS:
        dropped = [column for column in columns if column["treatment"].startswith("dropped")][:4]
        others = [column for column in columns if column not in dropped]
        listed = others[: MOST_COLUMNS - len(dropped)] + dropped
    table = grid("", ("column", "kind"), last="what becomes of it")
    for column in listed:
        style = "dim" if column["treatment"].startswith("dropped") else ""
        cells = (column["column"] or "(no name)", column["kind"], column["treatment"].split(", minus")[0])
        table.add_row(*(Text(cell, style=style) for cell in cells))
    rest = Counter(column["kind"] for column in columns if column not in listed)
    if rest:
        kinds = ", ".join(f"{number} {kind}" for kind, number in rest.items())
        table.add_row(Text(f"and {sum(rest.values())} more", style="dim"), "", Text(kinds, style="dim"))
    return table


MOST_FEATURES = 12  # whose widths are listed one by one


def is_compared(model: Any) -> bool:
    """Whether a model was fitted on comparisons."""
    asked = kind_of(model) == "comparison" or getattr(model, "_compared", None) is True
    return asked or bool((model.table_ or {}).get("comparisons"))


def is_no_better_than_coins(found: dict[str, Any]) -> bool:
    """Whether comparisons are as likely without the features as with them."""
    return COIN in found and bool(found["log_evidence"] <= found[COIN])


def widths_table(gammas: list[float], names: list[str]) -> list[Any]:
    """Kernel widths feature by feature, those along which the function changes most first."""
    table = grid("", ("feature", "gamma"), right=("gamma",))
    order = sorted(range(len(gammas)), key=lambda at: -gammas[at])
    for at in order[:MOST_FEATURES]:
        table.add_row(Text(names[at]), f"{gammas[at]:.3g}")
    if len(order) > MOST_FEATURES:
        table.add_row(Text(f"and {len(order) - MOST_FEATURES} more", style="dim"), "")
    return [Text("Features by how much they matter", style="bold"), table]
