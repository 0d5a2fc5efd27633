"""Text for people: warnings at the user's line, names that may have been meant, counts and errors
as they are read.
"""

from __future__ import annotations

import difflib
import math
import sys
import warnings
from collections.abc import Iterable, Sequence

MOST_SHARES = 5  # of columns that are named
PACKAGES = ("corank", "corank_federated")  # a warning is shown at the line that called one of them


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first caller outside of corank, however deep in the library the warning arises."""
    level, frame = 2, sys._getframe(1)
    while (
        frame.f_back is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] in PACKAGES
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


class ArgumentError(ValueError):
    """A value that an argument cannot have: its name, and what is wrong, as the sentence goes on.

    A command line that has the argument as an option says it in its own way.
    """

    def __init__(self, argument: str, fault: str) -> None:
        super().__init__(argument, fault)
        self.argument, self.fault = argument, fault

    def __str__(self) -> str:
        return self.argument + self.fault


def near_names(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """At most `most` names that may have been meant by `name`, the nearest first; upper and lower
    case are alike.
    """
    folded = {candidate.lower(): candidate for candidate in names}
    return [folded[match] for match in difflib.get_close_matches(name.lower(), folded, most)]


def did_you_mean(name: str, names: Iterable[str], most: int = 3) -> str:
    """`; did you mean 'rating'?`, or nothing where no name is near: the end of a message about an
    unknown name.
    """
    close = near_names(name, names, most)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


def count(number: int, what: str, plural: str | None = None) -> str:
    """`1 row`, `27,919 rows`."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}"


def listed(names: Sequence[str], most: int = 8) -> str:
    """`a, b and 27 more`: the first `most` of some names."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def shortened(text: str, most: int) -> str:
    """A text of at most `most` characters: the beginning of a longer one, and `…`."""
    return text if len(text) <= most else text[: most - 1] + "…"


def in_bytes(number: float) -> str:
    """A number of bytes, such as `12 kB`."""
    for unit in ("bytes", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def held_out_error(
    error: float | None, spread: float | None, constant: float | None, meaning: str
) -> str:
    """A held-out error beside the error of a constant prediction, and what it means; a squared
    error as its root.
    """
    if error is None:
        return "not measured, because no setting was tuned"
    if meaning.startswith("squared error"):
        root = math.sqrt(error)
        spread = None if spread is None or root == 0 else spread / (2 * root)
        constant = None if constant is None else math.sqrt(constant)
        error, meaning = root, f"root mean {meaning}"
    text = rounded(error) + ("" if spread is None else f" ± {rounded(spread, 2)}")
    if constant is not None:
        text += f", against {rounded(constant)} for a constant prediction"
    return f"{text} ({meaning})"


def distance_in_words(names: Sequence[str], shares: Iterable[float], weight: float = 1.0) -> str:
    """How much of the distance between rows columns make by their widths, in models that have a
    weight.
    """
    ordered = sorted(zip(shares, names, strict=True), key=lambda pair: -pair[0])
    models = "" if round(weight, 2) == 1 else f" in models with {weight:.0%} of the weight"
    parts = listed([f"{name} {share:.0%}" for share, name in ordered], MOST_SHARES)
    return f"by the width of each column{models}, the distance between rows is made of {parts}"


def rounded(value: float, digits: int = 3, sign: str = "") -> str:
    """A number as it is read, with a few significant digits: `0.0123`, `12.3`, `12,346`,
    `6.56e+17`; `sign`: `+` or none.
    """
    if 10**digits - 0.5 <= abs(value) < 999_999.5:
        return f"{value:{sign},.0f}"
    return f"{value:{sign}#.{digits}g}".rstrip(".")


def measured(value: float, sign: str = "") -> str:
    """The value of a measure, which below 100 has four decimals so that values stand below each
    other.
    """
    is_usual = value == 0 or 0.001 <= abs(value) < 100
    return f"{value:{sign}.4f}" if is_usual else rounded(value, sign=sign)
