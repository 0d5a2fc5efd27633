"""The learners as the command line calls them, and which options go with which."""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class Method(StrEnum):
    """The learners, as the command line calls them."""

    rankrls = "rankrls"
    rls = "rls"
    corankrls = "corankrls"
    corls = "corls"
    kpcrank = "kpcrank"
    kpcr = "kpcr"
    pursuit = "pursuit"
    matching = "matching"
    preference = "preference"
    difference = "difference"


class Weighting(StrEnum):
    """What counts the same: items, pairs or queries."""

    size = "size"
    unit = "unit"
    query = "query"


LEARNERS = {
    Method.rankrls: "RankRLS",
    Method.rls: "RLS",
    Method.corankrls: "CoRankRLS",
    Method.corls: "CoRLS",
    Method.kpcrank: "KPCRank",
    Method.kpcr: "KPCR",
    Method.pursuit: "RankingPursuit",
    Method.matching: "MatchingPursuit",
    Method.preference: "PreferenceGP",
    Method.difference: "DifferenceGP",
}
BY_EVIDENCE = (Method.preference, Method.difference)
AGREEING = (Method.corankrls, Method.corls)  # views that agree on unscored rows
STREAMED = (Method.rankrls, Method.rls, *AGREEING)  # that learn from files in passes
WEIGHTED = (Method.rankrls, Method.corankrls, Method.kpcrank, Method.pursuit)
RANKERS = (*WEIGHTED, *BY_EVIDENCE)
COMPARING = (Method.rankrls, Method.corankrls, Method.kpcrank, *BY_EVIDENCE)  # that learn from comparisons
GOES_WITH = {  # options that only some methods have
    "weighting": WEIGHTED,
    "basis": (*STREAMED, Method.kpcrank, Method.kpcr, *BY_EVIDENCE),
    "alpha": STREAMED,
    "components": (Method.kpcrank, Method.kpcr),
    "atoms": (Method.pursuit, Method.matching),
    "amplitude": BY_EVIDENCE,
    "noise": (Method.difference,),
    "comparisons": COMPARING,
    "view": AGREEING,
    "unscored": AGREEING,
    "checkpoint": STREAMED,
    "dask": STREAMED,
}
OWN_NAMES = {"components": "n_components", "atoms": "n_atoms"}


def own_options(method: Method, given: dict[str, Any]) -> dict[str, Any]:
    """The options that only some methods have, as their learners take them; refuses those that do not go with this."""
    options: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        check_goes_with(name, method)
        if name in ("alpha", "amplitude", "noise"):
            options[name] = number_or_word(value)
        elif name == "weighting":
            options[name] = value.value
        elif name in OWN_NAMES:
            options[OWN_NAMES[name]] = _whole_numbers(name, value)
        else:
            options[name] = int(value) if value.isdecimal() else value
    return options


def check_goes_with(name: str, method: Method) -> None:
    """Refuse an option that a method does not have."""
    if method not in GOES_WITH[name]:
        others = " or ".join(f"--method {other}" for other in GOES_WITH[name])
        raise ValueError(f"--{name} does not go with --method {method}; it goes with {others}")


def _whole_numbers(name: str, text: str) -> int | str | list[int]:
    """`5`, `tune` or `2,5,10`."""
    parts = [part.strip() for part in text.split(",")]
    if text != "tune" and not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"--{name} must be tune, a number greater than 0, or several such as 2,5,10; got {text!r}")
    numbers = [] if text == "tune" else [int(part) for part in parts]
    return "tune" if not numbers else numbers[0] if len(numbers) == 1 else numbers


def number_or_word(text: str) -> float | str | list[float]:
    """`0.1`, `tune` or `0.1,1,10`."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        return text
    return values if len(values) > 1 else values[0]
