"""Warnings that point at the user's line, however deep in the library they arise.

Numbers as people read them: counts with their noun, a held-out error beside that of a constant.
"""

from __future__ import annotations

import sys
import warnings


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first caller outside of corank."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "corank":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def count(number: int, what: str, plural: str | None = None) -> str:
    """`1 row`, `27,919 rows`."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}"


def held_out_error(error: float | None, spread: float | None, constant: float | None) -> str:
    """A held-out error beside that of a constant."""
    if error is None:
        return "not measured, as nothing was tuned"
    words = _rounded(error) + ("" if spread is None else f" ± {_rounded(spread, 2)}")
    return words if constant is None else f"{words}, against {_rounded(constant)} for a constant"


def _rounded(value: float, digits: int = 3) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:#.{digits}g}".rstrip(".")
