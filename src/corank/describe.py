"""What a fitted model is, as plain numbers and words that JSON can hold: `summary`, `corank inspect` and reports show it.

A fitted model in words: `summary()`, the page of a notebook, `corank inspect`.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from html import escape
from textwrap import wrap
from typing import Any

from corank._messages import count, held_out_error
from corank.learners.registry import learner_records

NUMBERS = {"alpha": "alpha", "pull": "pull", "n_components": "components", "n_atoms": "atoms"}
COIN = "log_evidence_of_coin_tosses"


def describe(model: Any) -> dict[str, Any]:
    """Everything worth knowing."""
    counts, table = _counts(model), model.table_ or {}
    tuned, without = getattr(model, "path_", None), queries_without_scores(model)
    return {
        "method": type(model).__name__,
        **{key: counts.get(key) for key in ("rows", "scored")},
        "queries": None if counts.get("queries") is None else counts["queries"] + (without or 0),
        "queries_without_scores": without,
        "comparisons": table.get("comparisons") or comparisons_of(model),
        **_functions(model),
        **{f"{key}_column": table.get(key) for key in ("score", "query", "id")},
        "features": model.n_features_in_,
        "columns": _columns(model),
        **{name: getattr(model, f"{name}_") for name in NUMBERS if hasattr(model, f"{name}_")},
        **evidence_of(model),
        "atoms": _read_atoms(model) if hasattr(model, "explain") else None,
        "tried": 1 if tuned is None else len(tuned.alpha),
        "held_out_error": None if tuned is None else float(tuned.error[tuned.best]),
        "held_out_constant": None if tuned is None else float(tuned.constant),
        "auto": _auto(table),
        "parameters": {key: _plain(value) for key, value in model.get_params().items() if _differs(model, key, value)},
    }


def _counts(model: Any) -> dict[str, Any]:
    """Rows, scored ones, queries; of the table only where the model was not updated since."""
    summary, table = model._summary(), model.table_ or {}
    counts = dict(table) if table.get("rows") == summary["rows"] else {}
    return counts | {key: value for key, value in summary.items() if value is not None}


def queries_without_scores(model: Any) -> int | None:
    """How many more queries the table of `corank fit` has than the model learned from, None where nobody knows."""
    summary, table = model._summary(), model.table_ or {}
    known = table.get("rows") == summary["rows"] and table.get("queries") is not None and not table.get("comparisons")
    return max(table["queries"] - summary["queries"], 0) if known and summary["queries"] is not None else None


def _auto(table: dict[str, Any]) -> dict[str, Any] | None:
    """What `--method auto` compared and found, in words; None where it compared nothing."""
    if "auto_chosen" not in table:
        return None
    keys = {"chosen": "chosen", "reason": "reason", "verdict": "unscored_verdict", "unscored": "unscored_rows"}
    return {name: table.get(f"auto_{key}") for key, name in keys.items()}


def _read_atoms(model: Any) -> dict[str, list[Any]]:
    """The atoms as columns of a table, None where there is no number."""
    table = model.explain().to_dict()
    return {key: [None if cell != cell else cell for cell in column] for key, column in table.items()}  # noqa: PLR0124


def _functions(model: Any) -> dict[str, Any]:
    """What was fitted: one function, or one a view and how they agree."""
    functions = [
        {
            "kernel": function.kernel.name,
            "gamma": _gamma_of(function.kernel),
            "basis": len(function.coefficients),
            "basis_of": "columns" if function.points is None else "rows",
        }
        for function in model._expansions()
    ]
    views = getattr(model, "views_", None)
    if views is None:
        named = isinstance(functions[0]["gamma"], list)
        return {**functions[0], **({"feature_names": names_of_features(model)} if named else {})}
    effect = model.unscored_effect_
    return {
        "unscored": model._n_unscored,
        "views": [
            {"name": view.name, "columns": len(view.columns), "penalty": view.penalty, **function}
            for view, function in zip(views, functions, strict=True)
        ],
        "agreement": model.agreement_,
        "unscored_effect": None if effect is None else {**asdict(effect), "words": str(effect)},
    }


def _gamma_of(kernel: Any) -> float | list[float] | None:
    """One width, or one for each feature where the kernel scales them."""
    if getattr(kernel, "scales", None) is None:
        return plain_gamma(kernel.gamma)
    return [float(kernel.gamma * scale**2) for scale in kernel.scales]


def _columns(model: Any) -> list[str] | None:
    """Names of the columns that are used, None where they have none."""
    if model.encoder_ is not None:
        return [column.name for column in model.encoder_.columns_ if not column.dropped]
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _differs(model: Any, key: str, value: Any) -> bool:
    default = type(model)().get_params()[key]
    if key == "views" and isinstance(value, list | tuple):
        return False  # they are shown one by one
    return not (type(value) is type(default) and value == default)


def _plain(value: Any) -> Any:
    """A parameter as JSON has it: numbers and short lists of them as they are, anything else in words."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple) and len(value) <= 20 and all(isinstance(each, int | float) for each in value):
        return list(value)
    words = " ".join(repr(value).split())
    return words if len(words) <= 60 else words[:59] + "…"


def evidence_of(model: Any) -> dict[str, float]:
    """Amplitude, noise and log evidence; empty for a model that has none."""
    if not hasattr(model, "log_evidence_"):
        return {}
    found = {name: float(getattr(model, f"{name}_")) for name in ("amplitude", "noise") if hasattr(model, f"{name}_")}
    found["log_evidence"] = float(model.log_evidence_)
    if type(model).__name__ == "PreferenceGP" and (tosses := _n_comparisons(model)) is not None:
        found[COIN] = tosses * math.log(0.5)
    return found


def kind_of(model: Any) -> str | None:
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
    if kind_of(model) != "comparison":
        return None
    seen, kept = _n_comparisons(model), getattr(model, "_compared", None)
    return len(kept.margins) if seen is None and kept is not None else seen


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


ONE_FOR_ITSELF = ("rbf", "laplacian", "cosine")  # kernels by which every item is 1 with itself


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
    sentences = {record.name: record.sentence for record in learner_records()}
    words = {
        "what": f"{found['method']}: {sentences.get(found['method'], 'a model of corank')}",
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
