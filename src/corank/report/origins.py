"""Where a page comes from: the command, the day, and the versions of what took part."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version

from corank.report.page import Html, code, facts, text

LIBRARIES = ("corank", "numpy", "scipy", "scikit-learn", "pyarrow", "lightgbm", "xgboost-cpu", "xgboost")


def versions(names: Sequence[str] = LIBRARIES) -> dict[str, str]:
    """Of Python and of what is installed of these."""
    found = {"Python": platform.python_version()}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def origins(command: str | None) -> list[Html]:
    """The command that makes the page again, and what it was made with."""
    parts = [] if command is None else [text("The command that made this page:"), code(command)]
    system = {"date": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"), "system": platform.platform(terse=True)}
    return [*parts, facts("Versions", {**system, **versions()})]
