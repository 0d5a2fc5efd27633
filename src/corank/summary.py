"""A fitted model in words: `summary()`, the page of a notebook, `corank inspect`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any

from corank.description import COIN, NUMBERS, describe
from corank.wording import count, held_out_error

ONE_FOR_ITSELF = ("rbf", "laplacian", "cosine")  # kernels by which every item is 1 with itself
WHAT = {
    "RankRLS": "ranks items within a query",
    "RLS": "predicts scores",
    "CoRankRLS": "ranks items within a query, by views that agree on unscored rows",
    "CoRLS": "predicts scores, by views that agree on unscored rows",
    "KPCRank": "ranks items within a query, on the leading components",
    "KPCR": "predicts scores, on the leading components",
    "RankingPursuit": "ranks items within a query, by a handful of atoms",
    "MatchingPursuit": "predicts scores, by a handful of atoms",
    "CoRankingPursuit": "ranks items within a query, by a handful of atoms a view that agree on unscored rows",
    "TransductiveRankRLS": "ranks items within a query, with the scores of unscored rows filled in",
    "PreferenceGP": "ranks items by who beats whom, and says how sure it is",
    "DifferenceGP": "ranks items by differences of scores, and says how sure it is",
}


@dataclass(frozen=True)
class Summary:
    """A fitted model at a glance. Print it; notebooks show it as a table.

    Attributes
    ----------
    title : which learner it is, and what it does
    facts : what was fitted on what, one sentence a fact
    details : more text below, such as the atoms of a sparse model; may be empty
    """

    title: str
    facts: dict[str, str]
    details: str = ""

    def __str__(self) -> str:
        width = max(map(len, self.facts), default=0)
        lines = [self.title, "-" * len(self.title)]
        for name, value in self.facts.items():
            first, *rest = wrap(value, 100 - width - 2) or [""]
            lines += [f"{name:<{width}}  {first}", *(" " * (width + 2) + line for line in rest)]
        return "\n".join([*lines, *(["", self.details] if self.details else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cell = "style='text-align:left;vertical-align:top'"
        rows = "".join(
            f"<tr><th {cell}>{escape(name)}</th><td {cell}>{escape(value)}</td></tr>"
            for name, value in self.facts.items()
        )
        below = f"<pre>{escape(self.details)}</pre>" if self.details else ""
        return f"<table><caption {cell}>{escape(self.title)}</caption>{rows}</table>{below}"


def summarise(model: Any) -> Summary:
    """A fitted learner in words."""
    words = in_words(describe(model))
    return Summary(words.pop("what"), words, str(model.explain()) if hasattr(model, "explain") else "")


def in_words(found: dict[str, Any]) -> dict[str, str]:
    """What `describe` found, for people."""
    words = {
        "what": f"{found['method']}: {WHAT.get(found['method'], 'a model of corank')}",
        "fitted on": _rows(found),
        **_auto_in_words(found),
        "features": _features(found),
        **(_views_in_words(found) if "views" in found else {"kernel": _kernel(found), "basis": _basis(found)}),
        **{word: f"{found[name]:.3g}" for name, word in NUMBERS.items() if name in found and "noise" not in found},
        **evidence_in_words(found, compared=bool(found["comparisons"])),
    }
    if found["held_out_error"] is not None:
        error = held_out_error(found["held_out_error"], None, found["held_out_constant"])
        words["held-out error"] = f"{error}; the best of {found['tried']} tried"
    if found["parameters"]:
        words["parameters"] = ", ".join(f"{key}={value!r}" for key, value in found["parameters"].items())
    return words


def _auto_in_words(found: dict[str, Any]) -> dict[str, str]:
    """What `corank fit --method auto` compared, and whether unscored rows helped where the model does not say."""
    auto = found.get("auto")
    if auto is None:
        return {}
    words = {"chosen by auto": auto["chosen"], "compared": auto["reason"]}
    if auto["unscored_rows"] is not None and not found.get("unscored_effect"):
        words["unscored rows"] = auto["unscored_rows"]
    return words


def _views_in_words(found: dict[str, Any]) -> dict[str, str]:
    words = {}
    for number, view in enumerate(found["views"], start=1):
        called = "" if view["name"] == f"view {number}" else f"{view['name']}: "
        penalty = "" if view["penalty"] == 1 else f"; penalty {view['penalty']:.3g}"
        size = count(view["columns"], "column")
        basis = "" if view["basis_of"] == "columns" else f"; basis of {_basis(view)}"
        words[f"view {number}"] = f"{called}{size}; {_kernel(view)}{basis}{penalty}"
    unscored = count(found["unscored"], "unscored row")
    words["agreement"] = (
        f"{found['agreement']:.3g}, on {unscored}" if found["agreement"] else f"0: {unscored} play no part"
    )
    if found["unscored_effect"] is not None:
        words["effect"] = found["unscored_effect"]["words"]
    return words


def _kernel(function: dict[str, Any]) -> str:
    gamma = function["gamma"]
    if isinstance(gamma, list):
        return f"{function['kernel']}, a gamma for each feature from {min(gamma):.3g} to {max(gamma):.3g}"
    return str(function["kernel"]) + ("" if gamma is None else f", gamma {gamma:.3g}")


def _basis(function: dict[str, Any]) -> str:
    return count(function["basis"], function["basis_of"].removesuffix("s"))


def _rows(found: dict[str, Any]) -> str:
    words = f"{found['rows']:,} rows" + ("" if found["scored"] is None else f", {found['scored']:,} scored")
    if found["comparisons"]:
        words = f"{count(found['comparisons'], 'comparison')} of {count(found['scored'], 'item')}"
    alone = found["comparisons"] or found["queries"] == 1
    if found["queries"] is None or (alone and found["query_column"] is None):
        return words
    name, others = found["query_column"], found.get("queries_without_scores")
    words += f", {count(found['queries'], 'query', 'queries')}" + (f" ({name})" if name else "")
    return words + (f", {found['queries'] - others:,} of them with scores" if others else "")


def _features(found: dict[str, Any]) -> str:
    names, numbers = found["columns"], count(found["features"], "number")
    if names is None:
        return f"{numbers}: columns without names"
    listed = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"{numbers} from {count(len(names), 'column')}: {listed}"


def evidence_in_words(found: dict[str, Any], *, compared: bool) -> dict[str, str]:
    """The same for people; `compared`: fitted on comparisons. The kernel is among what was found."""
    if "log_evidence" not in found:
        return {}
    amplitude, noise = found["amplitude"], found.get("noise")
    words = {"amplitude": f"{amplitude:.3g}", "noise": f"{noise:.3g}" if noise is not None else ""}
    if found.get("kernel") in ONE_FOR_ITSELF:
        if noise is None:  # E Φ(|d|) for a difference d of variance 2·amplitude
            share = 0.5 + math.atan(math.sqrt(2 * amplitude)) / math.pi
            words["amplitude"] += (
                f": of two items far apart in their features the better one wins about {share:.0%} of comparisons"
            )
        else:
            words["amplitude"] += f": the scores of items spread by about ±{math.sqrt(amplitude):.3g}"
    if noise is not None:
        what = "an observed difference" if compared else "an observed score"
        words["noise"] += f": {what} is off by about ±{math.sqrt(noise):.3g}"
    words["log evidence"] = f"{found['log_evidence']:,.1f} (higher is better)"
    if COIN in found:
        words["log evidence"] += f", against {found[COIN]:,.1f} for coin tosses"
    return {name: value for name, value in words.items() if value}
