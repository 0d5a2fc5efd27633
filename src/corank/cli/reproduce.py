"""`corank reproduce` went with the studies of the papers out of the package; until 0.3 it says where they are."""

from __future__ import annotations

from typing import Any

import typer

OPTIONS: Any = {"hidden": True, "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True}}


def reproduce(context: typer.Context) -> None:
    """Say where the studies of the papers are."""
    raise ValueError(
        "`corank reproduce` is no part of the package any more: the studies are in the folder studies of corank's "
        "sources. There, run python -m studies NAME --data DIR; python -m studies --list names them"
    )
