"""What a Gaussian process has learned besides its function, as a table, and whether it learned anything."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from corank.cli.console import grid
from corank.description import COIN, kind_of

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
