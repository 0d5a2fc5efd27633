"""Tables about a model that `corank fit` and `corank inspect` both show: its columns, and its
kernel widths.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from corank.core.messages import listed, shortened
from corank.describe import Facts
from corank.display import Cell, Table

MAX_COLUMNS = 12  # listed one by one
MAX_DROPPED = 4  # of them columns that are not learned from
MAX_CATEGORIES, MAX_LABEL = 6, 24  # that are listed, and letters of each
MAX_FEATURES = 12


def encoding_of(encoder: Any) -> list[Facts]:
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


def with_categories(encoding: list[Facts]) -> list[dict[str, str]]:
    """Columns with what becomes of each, the first categories by name."""
    columns = []
    for entry in encoding:
        treatment, labels = (
            entry["treatment"],
            [shortened(label, MAX_LABEL) for label in entry["categories"]],
        )
        if labels:
            number = f"{len(labels)} values"
            treatment = treatment.replace(number, f"{number} ({listed(labels, MAX_CATEGORIES)})", 1)
        columns.append({"column": entry["column"], "kind": entry["kind"], "treatment": treatment})
    return columns


def columns_table(columns: list[dict[str, str]]) -> Table:
    """What becomes of each column; of many columns the first, and some of those that are dropped."""
    shown = columns
    if len(columns) > MAX_COLUMNS:
        dropped = [column for column in columns if column["treatment"].startswith("dropped")][
            :MAX_DROPPED
        ]
        others = [column for column in columns if column not in dropped][
            : MAX_COLUMNS - len(dropped)
        ]
        shown = [column for column in columns if column in others or column in dropped]
    rows: list[Any] = []
    for column in shown:
        kind = "soft" if column["treatment"].startswith("dropped") else ""
        cells = (
            column["column"] or "(no name)",
            column["kind"],
            column["treatment"].split(", minus")[0],
        )
        rows.append([Cell(entry, kind=kind) for entry in cells])
    hidden = Counter(column["kind"] for column in columns if column not in shown)
    if hidden:
        kinds = ", ".join(f"{number} {kind}" for kind, number in hidden.items())
        rows.append([Cell(text, kind="soft") for text in (f"and {hidden.total()} more", "", kinds)])
    return Table("", rows, ("column", "kind", "what becomes of it"), folds=True)


def widths_table(facts: Facts) -> list[Table]:
    """Kernel widths feature by feature, where there is one for each; those along which the function
    changes most first.
    """
    if not isinstance(facts.get("gamma"), list):
        return []
    widths = sorted(
        zip(facts["gamma"], facts["feature_names"], strict=True), key=lambda pair: -pair[0]
    )
    rows: list[Any] = [(name, f"{gamma:.3g}") for gamma, name in widths[:MAX_FEATURES]]
    if len(widths) > MAX_FEATURES:
        rows.append((Cell(f"and {len(widths) - MAX_FEATURES} more", kind="soft"), ""))
    return [Table("Features by how much they matter", rows, ("feature", "gamma"), ("gamma",))]
