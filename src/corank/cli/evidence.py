"""What a Gaussian process has learned besides its function, as numbers and in words."""

from __future__ import annotations

import math
from typing import Any

from rich.text import Text

from corank.cli.console import grid

ONE_FOR_ITSELF = ("rbf", "laplacian", "cosine")  # kernels by which every item is 1 with itself
MOST_FEATURES = 12  # whose widths are listed one by one
COIN = "log_evidence_of_coin_tosses"


def evidence_of(model: Any) -> dict[str, float]:
    """Amplitude, noise and log evidence; empty for a model that has none."""
    if not hasattr(model, "log_evidence_"):
        return {}
    found = {name: float(getattr(model, f"{name}_")) for name in ("amplitude", "noise") if hasattr(model, f"{name}_")}
    found["log_evidence"] = float(model.log_evidence_)
    if type(model).__name__ == "PreferenceGP" and (tosses := _n_comparisons(model)) is not None:
        found[COIN] = tosses * math.log(0.5)
    return found


def is_compared(model: Any) -> bool:
    """Whether a model was fitted on comparisons."""
    asked = _kind(model) == "comparison" or getattr(model, "_compared", None) is True
    return asked or bool((model.table_ or {}).get("comparisons"))


def _kind(model: Any) -> str | None:
    """What a Gaussian process was fitted on: "score" or "comparison"; None for other models."""
    kind: str | None = getattr(model, "_kind", None) or getattr(model, "_asked", None)
    return kind


def _n_comparisons(model: Any) -> int | None:
    """How many comparisons a Gaussian process has seen, those between scores too; None where it does not say."""
    known = getattr(model, "_n_comparisons", None)
    if known is not None:
        return int(known)
    data = getattr(model, "_data", None)
    return None if data is None else int(data.counts.sum())


def comparisons_of(model: Any) -> int | None:
    """How many comparisons a Gaussian process was fitted on, None for scores and other models."""
    if _kind(model) != "comparison":
        return None
    seen, kept = _n_comparisons(model), getattr(model, "_compared", None)
    return len(kept.margins) if seen is None and kept is not None else seen


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


def is_no_better_than_coins(found: dict[str, Any]) -> bool:
    """Whether comparisons are as likely without the features as with them."""
    return COIN in found and bool(found["log_evidence"] <= found[COIN])


def plain_gamma(gamma: Any) -> float | list[float] | None:
    """A kernel width as JSON has it: a number, or one for each feature."""
    if gamma is None:
        return None
    return [float(one) for one in gamma] if hasattr(gamma, "__len__") else float(gamma)


def names_of_features(model: Any) -> list[str]:
    """What the columns are called that the kernel sees."""
    if model.encoder_ is not None:
        return [str(name) for name in model.encoder_.get_feature_names_out()]
    names = getattr(model, "feature_names_in_", None)
    return [f"column {at}" for at in range(1, model.n_features_in_ + 1)] if names is None else list(map(str, names))


def widths_table(gammas: list[float], names: list[str]) -> list[Any]:
    """Kernel widths feature by feature, those along which the function changes most first."""
    table = grid("", ("feature", "gamma"), right=("gamma",))
    order = sorted(range(len(gammas)), key=lambda at: -gammas[at])
    for at in order[:MOST_FEATURES]:
        table.add_row(Text(names[at]), f"{gammas[at]:.3g}")
    if len(order) > MOST_FEATURES:
        table.add_row(Text(f"and {len(order) - MOST_FEATURES} more", style="dim"), "")
    return [Text("Features by how much they matter", style="bold"), table]
