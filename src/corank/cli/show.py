"""Tables about a model that `corank fit` and `corank inspect` both show: its columns, and its kernel widths."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.text import Text

from corank.cli.console import grid

MAX_COLUMNS = 12  # listed one by one
MAX_DROPPED = 4  # of them columns that are not learned from
MAX_CATEGORIES = 6
MAX_FEATURES = 12


def encoding_of(encoder: Any) -> list[dict[str, Any]]:
    """Every column: its kind, what becomes of it, its categories, and what a missing value becomes."""
    return [
        {
            **entry,
            "categories": list(column.categories),
            "missing_becomes": column.fill if column.values and not column.dropped else None,
            "missing_is_marked": column.missing,
        }
        for entry, column in zip(encoder.summary(), encoder.columns_, strict=True)
    ]


def with_categories(encoding: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Columns with what becomes of each, the first categories by name."""
    columns = []
    for entry in encoding:
        treatment, labels = entry["treatment"], entry["categories"]
        if labels:
            more = f" and {len(labels) - MAX_CATEGORIES} more" if len(labels) > MAX_CATEGORIES else ""
            listed = ", ".join(_short(label) for label in labels[:MAX_CATEGORIES])
            treatment = treatment.replace(f"{len(labels)} values", f"{len(labels)} values ({listed}{more})", 1)
        columns.append({"column": entry["column"], "kind": entry["kind"], "treatment": treatment})
    return columns


def _short(label: str) -> str:
    return label if len(label) <= 24 else label[:23] + "…"


def columns_table(columns: list[dict[str, str]]) -> Any:
    """What becomes of each column; of many columns the first, and some of those that are dropped."""
    listed = columns
    if len(columns) > MAX_COLUMNS:
        dropped = [column for column in columns if column["treatment"].startswith("dropped")][:MAX_DROPPED]
        others = [column for column in columns if column not in dropped]
        listed = others[: MAX_COLUMNS - len(dropped)] + dropped
    table = grid("", ("column", "kind"), last="what becomes of it")
    for column in listed:
        style = "dim" if column["treatment"].startswith("dropped") else ""
        cells = (column["column"] or "(no name)", column["kind"], column["treatment"].split(", minus")[0])
        table.add_row(*(Text(cell, style=style) for cell in cells))
    unlisted = Counter(column["kind"] for column in columns if column not in listed)
    if unlisted:
        kinds = ", ".join(f"{number} {kind}" for kind, number in unlisted.items())
        table.add_row(Text(f"and {unlisted.total()} more", style="dim"), "", Text(kinds, style="dim"))
    return table


def widths_table(facts: dict[str, Any]) -> list[Any]:
    """Kernel widths feature by feature, where there is one for each; those along which the function changes most first."""
    if not isinstance(facts.get("gamma"), list):
        return []
    widths = sorted(zip(facts["gamma"], facts["feature_names"], strict=True), key=lambda pair: -pair[0])
    table = grid("", ("feature", "gamma"), right=("gamma",))
    for gamma, name in widths[:MAX_FEATURES]:
        table.add_row(Text(name), f"{gamma:.3g}")
    if len(widths) > MAX_FEATURES:
        table.add_row(Text(f"and {len(widths) - MAX_FEATURES} more", style="dim"), "")
    return [Text("Features by how much they matter", style="bold"), table]
