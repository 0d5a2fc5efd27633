"""A fitted model as facts, as words and as HTML, for `summary()`, `corank inspect`, `corank fit`
and reports.

`describe(model)` gives facts that JSON can hold, `in_words(facts)` says them in short sentences,
and `summarise(model)` makes a `Summary` of both, which prints itself and shows itself as a table in
a notebook.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from html import escape
from textwrap import wrap
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import is_regressor

from corank.core.kernels import UNIT_KERNELS
from corank.core.messages import count, distance_in_words, held_out_error, listed, shortened
from corank.core.registry import learner_records
from corank.display import Cell, Table
from corank.metrics import HELD_OUT_ERRORS

Facts: TypeAlias = dict[str, Any]  # by name, as JSON has them
# attribute → name
SIZES = {"alpha": "alpha", "pull": "pull", "n_components": "components", "n_atoms": "atoms"}
TUNED = ("alpha", "agreement", "n_components", "n_atoms", "gamma", "amplitude", "noise", "pull")
COIN_TOSSES = "log_evidence_of_coin_tosses"
MAX_COLUMNS = 12  # listed one by one
MAX_DROPPED = 4  # of them columns that are not learned from
MAX_CATEGORIES, MAX_LABEL = 6, 24  # that are listed, and letters of each
MAX_FEATURES = 12


# ---- facts


def describe(model: Any) -> Facts:
    """Everything worth knowing about a fitted model, as JSON has it."""
    table = model.table_ or {}
    functions = _average(model) if model.is_average else _functions(model)
    return {
        "method": type(model).__name__,
        **_counts(model, table),
        **functions,
        **{f"{role}_column": table.get(role) for role in ("score", "query", "id")},
        "features": model.n_features_in_,
        "columns": _used_columns(model),
        **{
            name: np.asarray(vars(model)[f"{name}_"]).tolist()
            for name in SIZES
            if f"{name}_" in vars(model)
        },
        **(_evidence(model) if model.has_evidence else {}),
        "atoms": _atoms(model) if model.has_atoms else None,
        **({} if model.is_average else _held_out(model)),
        "parameters": _changed_parameters(model),
    }


def _counts(model: Any, table: Facts) -> Facts:
    """Rows, scored rows, queries and comparisons.

    A model counts the queries that it learned from; the table of `corank fit`, where the model was
    not updated since, also those without scores.
    """
    counts = model.counts()
    comparisons = table.get("comparisons")
    if comparisons is None and model.learned_from == "comparison":
        comparisons = model.n_comparisons
    scored, queries, without_scores = counts["scored"], counts["queries"], None
    if table.get("rows") == counts["rows"]:
        all_queries = table.get("queries")
        scored = table.get("scored") if scored is None else scored
        if all_queries is not None and queries is not None and not table.get("comparisons"):
            without_scores = max(all_queries - queries, 0)
            queries += without_scores
        elif queries is None:
            queries = all_queries
    return {
        "rows": counts["rows"],
        "scored": scored,
        "queries": queries,
        "queries_without_scores": without_scores,
        "comparisons": comparisons,
    }


def _average(model: Any) -> Facts:
    """What an average is made of, how many candidates were weighed, and its held-out error beside
    that of a constant.
    """
    meaning = f"{model.error_name}, not used to choose the weights"
    errors = model.held_out_error_, np.nan, model.constant_error
    return {
        "kernel": "average",
        "gamma": None,
        "basis": model.counts()["scored"],
        "basis_of": "rows",
        "average": model.reason_.splitlines(),
        "candidates": [
            {"what": c.what, "weight": c.weight, "error": c.error} for c in model.candidates_
        ],
        **_distance(model, *model.shares_of_distance),
        **_unscored(model, model.known_effect),  # which is not looked for here: that takes a fit
        "gamma_chosen": None,
        "gammas_tried": 1,
        **_errors(max(len(model.candidates_), 1), meaning, *errors),
    }


def _functions(model: Any) -> Facts:
    """Kernel and basis of the fitted function; with views those of each view, and how far the views
    agree.
    """
    functions = [
        {
            "kernel": part.span.kernel.name,
            # a list where every feature has a width of its own
            "gamma": np.asarray(part.span.kernel.width).tolist(),
            "basis": len(part.coefficients),
            "basis_of": "columns" if part.span.points is None else "rows",
        }
        for part in model.function_.parts
    ]
    if model.targets_:  # each has a width and errors of its own
        return {**functions[0], "gamma": None, "targets": len(model.targets_)}
    if not model.has_views:
        return {**functions[0], **_distance(model, model.function_.parts[0].span.column_shares)}
    return {
        "views": [
            {"name": view.name, "columns": len(view.columns), "penalty": view.penalty, **function}
            for view, function in zip(model.views_, functions, strict=True)
        ],
        "agreement": model.agreement_,
        **_unscored(model, model.unscored_effect_),
    }


def _distance(model: Any, shares: Any, weight: float = 1.0) -> Facts:
    """How much of the distance between rows every feature makes by its width, where it has one, in
    models that have a weight.
    """
    if shares is None:
        return {}
    names, parts = _feature_names(model), shares.tolist()
    return {
        "feature_names": names,
        "distance_shares": parts,
        "distances": distance_in_words(names, parts, weight),
    }


def _unscored(model: Any, effect: Any) -> Facts:
    """How many unscored rows there were, and what they did, with the unit of errors where these are
    squared.
    """
    sentence = str(effect)
    if is_regressor(model):
        sentence = sentence.replace("held-out error", "held-out squared error")
    return {
        "unscored": model.n_unscored,
        "unscored_effect": None if effect is None else {**asdict(effect), "words": sentence},
    }


def _used_columns(model: Any) -> list[str] | None:
    """Names of the columns that are learned from, None where they have no names."""
    if model.encoder_ is not None:
        return [column.name for column in model.encoder_.columns_ if not column.dropped]
    names = model.feature_names
    return None if names is None else [str(name) for name in names]


def _feature_names(model: Any) -> list[str]:
    """Names of the features that the kernel sees."""
    if model.encoder_ is not None:
        return [str(name) for name in model.encoder_.get_feature_names_out()]
    return _used_columns(model) or [f"column {at}" for at in range(1, model.n_features_in_ + 1)]


def _evidence(model: Any) -> dict[str, float]:
    """Amplitude, noise and log evidence of a Gaussian process."""
    facts = {"amplitude": float(model.amplitude_), "log_evidence": float(model.log_evidence_)}
    if model.knows_margins:
        return {**facts, "noise": float(model.noise_)}
    return {**facts, COIN_TOSSES: model.n_comparisons * math.log(1 / model.n_outcomes)}


def _atoms(model: Any) -> dict[str, list[Any]]:
    """The atoms as columns of a table, None where there is no number."""
    return {
        name: [None if cell != cell else cell for cell in column]  # noqa: PLR0124 - NaN
        for name, column in model.explain().to_dict().items()
    }


def _held_out(model: Any) -> Facts:
    """How many settings were tried, and the held-out error of the best beside that of a constant."""
    path = model.tuning_path
    gamma = model.get_params(deep=False).get("gamma")
    widths = [part.span.kernel.gamma for part in model.function_.parts]
    has_width = any(width is not None for width in widths) and not model.targets_
    # NaN where views have widths of their own
    n_widths = 1 if path is None else len(np.unique(path.gamma))
    if isinstance(gamma, str) and gamma == "auto":
        gamma = "scale" if n_widths == 1 else "tune"
    chosen = gamma if isinstance(gamma, str) else "given"
    facts: Facts = {
        "gamma_chosen": chosen if has_width else None,
        "gammas_tried": n_widths if has_width else 1,
    }
    if path is None:
        return facts | _errors(1, "", np.nan, np.nan, np.nan)
    tried = len(path.error)
    meaning = HELD_OUT_ERRORS[path.scoring]
    if tried > 1:
        meaning += f"; the lowest of {tried:,} tried, so the error on new rows is probably larger"
    if chosen == "columns":
        meaning += "; widths were learned from the same scores, which makes it lower still"
    errors = path.least, path.standard_error[path.best], path.constant
    return facts | _errors(tried, meaning, *errors)


def _errors(
    tried: int, meaning: str, error: float, standard_error: float, constant: float
) -> Facts:
    """Held-out errors, None where they are not known."""
    errors = {"error": error, "standard_error": standard_error, "constant": constant}
    known = {
        f"held_out_{name}": None if np.isnan(value) else float(value)
        for name, value in errors.items()
    }
    return {"tried": tried, **known, "held_out_meaning": meaning}


def _changed_parameters(model: Any) -> Facts:
    """Parameters that are not at their defaults; views and an encoder are described piece by piece
    instead.
    """
    defaults = type(model)().get_params(deep=False)
    changed = {}
    for name, value in model.get_params(deep=False).items():
        is_default = type(value) is type(defaults[name]) and value == defaults[name]
        has_pieces = name == "encoder" or (name == "views" and isinstance(value, list | tuple))
        if not is_default and not has_pieces:
            changed[name] = _plain(value)
    return changed


def _plain(value: Any) -> Any:
    """A parameter as JSON has it: numbers and short lists of numbers as they are, anything else as
    text.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    is_short = isinstance(value, list | tuple) and len(value) <= 20
    if is_short and all(isinstance(item, int | float) for item in value):
        return list(value)
    return shortened(" ".join(repr(value).split()), 60)


def chosen_parameters(model: Any) -> Facts:
    """The tuned parameters of a fitted learner that are numbers, and how many models an average is
    made of.
    """
    if model.is_average:
        return {"models": len(model.candidates_)}
    fitted = {**vars(model), "gamma_": model.gamma_}
    values = {name: fitted.get(f"{name}_") for name in TUNED}
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float | np.number) and not isinstance(value, bool)
    }


def learned_from_comparisons(model: Any) -> bool:
    """Whether a model was fitted on comparisons, not on scores."""
    return model.learned_from == "comparison" or bool((model.table_ or {}).get("comparisons"))


# ---- words


def in_words(facts: Facts) -> dict[str, str]:
    """The facts of `describe` as short sentences, by name; "what" is the title."""
    purposes = {record.name: record.sentence for record in learner_records()}
    names, columns = facts["columns"], ": columns without names"
    if names is not None:
        columns = f" from {count(len(names), 'column')}: {listed(names)}"
    sentences = {
        "what": f"{facts['method']}: {purposes.get(facts['method'], 'a model of corank')}",
        "fitted on": _rows_in_words(facts),
        "features": f"{count(facts['features'], 'number')}{columns}",
    }
    if "average" in facts:
        sentences["model"], *others = facts["average"]
        sentences["weights"] = " ".join(line for line in others if "held-out error" not in line)
    elif "views" in facts:
        sentences |= _views_in_words(facts)
    else:
        sentences |= {
            "kernel": _kernel_in_words(facts) + _width_choice(facts),
            "basis": _basis_in_words(facts),
        }
    if facts.get("unscored_effect") is not None:
        sentences["unscored rows"] = facts["unscored_effect"]["words"].removeprefix(
            "unscored rows: "
        )
    if "distances" in facts:
        sentences["distances"] = facts["distances"]
    if "log_evidence" in facts:
        sentences |= _evidence_in_words(facts)
    else:
        best_of = _best_of(facts["tried"] // facts["gammas_tried"])
        sentences |= {
            SIZES[name]: ", ".join(f"{value:.3g}" for value in np.atleast_1d(facts[name])) + best_of
            for name in SIZES
            if name in facts
        }
        measured = ("error", "standard_error", "constant", "meaning")
        sentences["held-out error"] = held_out_error(
            *(facts[f"held_out_{name}"] for name in measured)
        )
    if "targets" in facts:
        sentences["fitted on"] += f", {facts['targets']} columns of y"
        sentences["held-out error"] = "of each column: model.targets_[0].summary() and so on"
    if facts["parameters"]:
        sentences["parameters"] = ", ".join(
            f"{name}={value!r}" for name, value in facts["parameters"].items()
        )
    return sentences


def _rows_in_words(facts: Facts) -> str:
    text = f"{facts['rows']:,} rows"
    if facts["comparisons"]:
        text = f"{count(facts['comparisons'], 'comparison')} of {count(facts['scored'], 'item')}"
    elif facts["scored"] is not None:
        text += f", {facts['scored']:,} scored"
    queries, column = facts["queries"], facts["query_column"]
    if queries is None or (column is None and (facts["comparisons"] or queries == 1)):
        return text
    text += f", {count(queries, 'query', 'queries')}" + (f" ({column})" if column else "")
    without_scores = facts["queries_without_scores"]
    return text + (f", {queries - without_scores:,} of them with scores" if without_scores else "")


def _views_in_words(facts: Facts) -> dict[str, str]:
    sentences = {}
    for number, view in enumerate(facts["views"], start=1):
        name = "" if view["name"] == f"view {number}" else f"{view['name']}: "
        size = count(view["columns"], "column")
        basis = "" if view["basis_of"] == "columns" else f"; basis of {_basis_in_words(view)}"
        penalty = "" if view["penalty"] == 1 else f"; penalty {view['penalty']:.3g}"
        sentences[f"view {number}"] = f"{name}{size}; {_kernel_in_words(view)}{basis}{penalty}"
    unscored, agreement = count(facts["unscored"], "unscored row"), facts["agreement"]
    sentences["agreement"] = (
        f"{agreement:.3g}, on {unscored}" if agreement else f"0: {unscored} are not used"
    )
    return sentences


def _kernel_in_words(function: Facts) -> str:
    kernel, gamma = function["kernel"], function["gamma"]
    if gamma is None:
        return str(kernel)
    if isinstance(gamma, list):
        return f"{kernel}, one gamma per feature, from {min(gamma):.3g} to {max(gamma):.3g}"
    return f"{kernel}, gamma {gamma:.3g}"


def _width_choice(facts: Facts) -> str:
    """How the width of a kernel was chosen."""
    chosen, tried = facts["gamma_chosen"], _best_of(facts["gammas_tried"])
    best_of = ", by largest evidence" if "log_evidence" in facts else tried
    if isinstance(facts["gamma"], list):
        return best_of
    if chosen in ("scale", "mean-distance"):
        return f" ({chosen})"
    return {"tune": f" (tune{best_of})", "given": tried}.get(chosen, "")


def _best_of(tried: int) -> str:
    return f", the best of {tried}" if tried > 1 else ""


def _basis_in_words(function: Facts) -> str:
    return count(function["basis"], function["basis_of"].removesuffix("s"))


def _evidence_in_words(facts: Facts) -> dict[str, str]:
    amplitude, noise, meaning = facts["amplitude"], facts.get("noise"), ""
    # E Φ(|d|) for a difference d of variance 2·amplitude
    if facts["kernel"] in UNIT_KERNELS and noise is None:
        share = 0.5 + math.atan(math.sqrt(2 * amplitude)) / math.pi
        meaning = (
            f": the better of two items with very different features wins about {share:.0%} of"
            " comparisons"
        )
    elif facts["kernel"] in UNIT_KERNELS:
        meaning = f": scores vary by about ±{math.sqrt(amplitude):.3g}"
    sentences = {"amplitude": f"{amplitude:.3g}{meaning}"}
    if noise is not None:
        observed = "difference" if facts["comparisons"] else "score"
        sentences["noise"] = (
            f"{noise:.3g}: an observed {observed} is off by about ±{math.sqrt(noise):.3g}"
        )
    coin_tosses = (
        f", against {facts[COIN_TOSSES]:,.1f} for coin tosses" if COIN_TOSSES in facts else ""
    )
    sentences["log evidence"] = f"{facts['log_evidence']:,.1f} (higher is better){coin_tosses}"
    return sentences


# ---- tables


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
        treatment = entry["treatment"]
        labels = [shortened(label, MAX_LABEL) for label in entry["categories"]]
        if labels:
            number = f"{len(labels)} values"
            treatment = treatment.replace(number, f"{number} ({listed(labels, MAX_CATEGORIES)})", 1)
        columns.append({"column": entry["column"], "kind": entry["kind"], "treatment": treatment})
    return columns


def columns_table(columns: list[dict[str, str]]) -> Table:
    """What becomes of each column; of many columns the first, and some of those that are dropped."""
    shown = columns
    if len(columns) > MAX_COLUMNS:
        dropped = [column for column in columns if column["treatment"].startswith("dropped")]
        few = dropped[:MAX_DROPPED]
        others = [column for column in columns if column not in few][: MAX_COLUMNS - len(few)]
        shown = [column for column in columns if column in [*others, *few]]
    rows: list[Any] = []
    for column in shown:
        kind = "soft" if column["treatment"].startswith("dropped") else ""
        treatment = column["treatment"].split(", minus")[0]
        cells = column["column"] or "(no name)", column["kind"], treatment
        rows.append([Cell(entry, kind=kind) for entry in cells])
    hidden = Counter(column["kind"] for column in columns if column not in shown)
    if hidden:
        kinds = ", ".join(f"{number} {kind}" for kind, number in hidden.items())
        rows.append([Cell(text, kind="soft") for text in (f"and {hidden.total()} more", "", kinds)])
    return Table("", rows, ("column", "kind", "what becomes of it"), folds=True)


def widths_table(facts: Facts) -> list[Table]:
    """Kernel widths feature by feature, where there is one for each; those that make most of the
    distance between rows first.
    """
    if not isinstance(facts.get("gamma"), list):
        return []
    features = zip(facts["distance_shares"], facts["gamma"], facts["feature_names"], strict=True)
    widths = sorted(features, key=lambda feature: -feature[0])
    rows: list[Any] = [
        (name, f"{gamma:.3g}", f"{share:.0%}") for share, gamma, name in widths[:MAX_FEATURES]
    ]
    if len(widths) > MAX_FEATURES:
        rows.append((Cell(f"and {len(widths) - MAX_FEATURES} more", kind="soft"), "", ""))
    head = ("feature", "gamma", "of the distance between rows")
    return [Table("Features by how much they matter", rows, head, head[1:])]


# ---- a summary that prints itself


@dataclass(frozen=True)
class Summary:
    """A fitted model at a glance. Print it; notebooks show it as a table.

    Attributes
    ----------
    title : which learner it is, and what it does
    facts : what was fitted on what, one sentence per fact
    details : more text below, such as the atoms of a sparse model; may be empty
    """

    title: str
    facts: dict[str, str]
    details: str = ""

    def __str__(self) -> str:
        width = max(map(len, self.facts), default=0)
        lines = [self.title, "-" * len(self.title)]
        for name, sentence in self.facts.items():
            first, *others = wrap(sentence, 100 - width - 2) or [""]
            lines += [f"{name:<{width}}  {first}", *(" " * (width + 2) + line for line in others)]
        return "\n".join([*lines, *(["", self.details] if self.details else [])])

    __repr__ = __str__

    def to_html(self) -> str:
        """A table for notebooks."""
        style = "style='text-align:left;vertical-align:top'"
        rows = "".join(
            f"<tr><th {style}>{escape(name)}</th><td {style}>{escape(sentence)}</td></tr>"
            for name, sentence in self.facts.items()
        )
        details = f"<pre>{escape(self.details)}</pre>" if self.details else ""
        return f"<table><caption {style}>{escape(self.title)}</caption>{rows}</table>{details}"

    _repr_html_ = to_html


def summarise(model: Any) -> Summary:
    """A fitted learner as a `Summary`."""
    sentences = in_words(describe(model))
    details = str(model.explain()) if model.has_atoms else ""
    return Summary(sentences.pop("what"), sentences, details)
