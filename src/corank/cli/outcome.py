"""What `corank fit` tells about the model it has fitted."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.text import Text

from corank.cli.choice import effect_in_words, in_words
from corank.cli.console import command, count, facts, held_out_error, note, show, size_of, typed
from corank.cli.encoded import columns_table
from corank.cli.evidence import is_no_better_than_coins, widths_table
from corank.cli.inputs import DASH, title_of
from corank.description import evidence_of, names_of_features, plain_gamma, queries_without_scores
from corank.summary import evidence_in_words

WORTH_IT = 0.98  # of the error of a constant: a model above that has learned nothing
RANKING = ("RankRLS", "CoRankRLS")  # of which unscored rows are judged by pairs
SIZES = ("alpha", "agreement", "n_components", "n_atoms")


def result_of(model: Any, out: Path, seconds: float, compared: dict[str, Any] | None = None) -> dict[str, Any]:
    """Everything that is worth knowing, as JSON has it; `compared` is what `--method auto` found."""
    import numpy as np

    path = getattr(model, "path_", None)
    several = isinstance(model.coef_, list)  # views: the kernel of the first stands for all
    kernel, gamma = (model._kernels[0], model.gamma_[0]) if several else (model._kernel, plain_gamma(model.gamma_))
    gammas = 1 if path is None or gamma is None else len(np.unique(path.gamma))  # NaN where views have their own
    return {
        "model": str(out),
        "method": type(model).__name__,
        **model.table_,
        "queries_without_scores": queries_without_scores(model),
        **({} if compared is None else {"auto": compared}),
        **_effect(model, compared),
        "columns": [] if model.encoder_ is None else model.encoder_.summary(),
        "features": model.n_features_in_,
        **({"feature_names": names_of_features(model)} if isinstance(gamma, list) else {}),
        "kernel": kernel.name,
        "gamma": gamma,
        "gamma_chosen": None if gamma is None else model.gamma if isinstance(model.gamma, str) else "given",
        "gammas_tried": gammas,
        "basis": sum(map(len, model.coef_)) if several else len(model.coef_),
        **{name: getattr(model, f"{name}_") for name in SIZES if hasattr(model, f"{name}_")},
        **evidence_of(model),
        "tried": 1 if path is None else len(path.error) // gammas,
        "held_out_error": None if path is None else _finite(path.error[path.best]),
        "held_out_standard_error": None if path is None else _finite(path.standard_error[path.best]),
        "held_out_constant": None if path is None else _finite(path.constant),
        "seconds": round(seconds, 3),
    }


def _effect(model: Any, compared: dict[str, Any] | None) -> dict[str, Any]:
    """Whether unscored rows helped, where that was asked."""
    if compared is not None:
        return {"unscored_effect": compared.pop("unscored_effect")}
    effect = getattr(model, "unscored_effect_", None)
    return {} if effect is None else {"unscored_effect": asdict(effect)}


def _finite(value: float) -> float | None:
    return float(value) if value == value else None  # noqa: PLR0124


def note_no_better(result: dict[str, Any]) -> None:
    """Say so where the model has learned nothing that helps on rows it has not seen."""
    error, constant = result["held_out_error"], result["held_out_constant"]
    by_errors = error is not None and constant is not None and error > WORTH_IT * constant
    if not by_errors and not is_no_better_than_coins(result):
        return
    about = "who wins" if result.get("comparisons") else repr(result["score"])
    reasons = f"perhaps the features say nothing about {about}"
    if result["query"] is not None:
        reasons += (
            f", what is good differs from {result['query']!r} to {result['query']!r}, as all share one function, or too few "
            f"of {result['query']!r} have several different scores to tell"
        )
    note(f"held out, the model is no better than {'a constant' if by_errors else 'coin tosses'}: {reasons}")


# ---- what is shown


def show_outcome(result: dict[str, Any], file: Path, items: Path | None, comparisons: Path | None, out: Path) -> None:
    """The result as tables."""
    pairs = {**_facts(result, comparisons), "saved as": f"{out} ({size_of(out)})"}
    parts = [facts(f"{result['method']} fitted on {title_of(file)}", pairs)]
    if result["columns"]:
        parts.append(columns_table(result["columns"]))
    if isinstance(result["gamma"], list):
        parts += widths_table(result["gamma"], result["feature_names"])
    show(*parts, *_next(result, items or file, out, joined=items is not None))


def write_page(
    model: Any, result: dict[str, Any], file: Path, comparisons: Path | None, report: Path, *, force: bool
) -> None:
    """The result as a page."""
    from corank.report import write_model_report

    write_model_report(
        model,
        report,
        title=f"{result['method']} fitted on {title_of(file)}",
        summary=_facts(result, comparisons),
        columns=result["columns"],
        command=typed("fit"),
        overwrite=force,
    )


def _facts(result: dict[str, Any], comparisons: Path | None) -> dict[str, str]:
    """What went in and how good the model is."""
    used = [column for column in result["columns"] if not column["treatment"].startswith("dropped")]
    pairs = _rows(result, comparisons)
    if result["queries"] is not None:
        what = f"all share one scoring function; {result['query']} says which rows compete and is not a feature"
        others = result["queries_without_scores"]
        scored = f", {result['queries'] - others:,} of them with scores" if others else ""
        pairs["queries"] = f"{result['queries']:,} ({result['query']}){scored}: {what}"
    if "auto" in result:
        pairs |= in_words(result["auto"])
    return pairs | {
        "features": count(result["features"], "number") + (f" from {count(len(used), 'column')}" if used else ""),
        "kernel": result["kernel"] + _gamma(result),
        **_size(result),
        **effect_in_words(result.get("unscored_effect"), ranks=result["method"] in RANKING),
        "time": f"{result['seconds']:.1f} s",
    }


def _next(result: dict[str, Any], file: Path, out: Path, *, joined: bool) -> list[Text]:
    lines = [f"corank rank {out} NEW_FILE --out ranked.csv"]
    if "log_evidence" in result:
        nothing_open = result["score"] is not None and result["scored"] == result["rows"]
        unknown = (nothing_open and not joined) or file == DASH
        lines.append(f"corank suggest {out} {'NEW_FILE' if unknown else file} --out questions.csv")
    shown = [command(line, "  or: " if at else "Next: ") for at, line in enumerate(lines)]
    if result.get("comparisons") and "log_evidence" not in result:
        shown.append(
            Text("--method preference also says how sure it is, and what to ask next (corank suggest)", style="dim")
        )
    return shown


def _rows(result: dict[str, Any], comparisons: Path | None) -> dict[str, str]:
    rows, scored = result["rows"], result["scored"]
    if comparisons is None:
        return {"rows": f"{rows:,}, {scored:,} of them scored" if scored < rows else f"{rows:,}, all scored"}
    many = f"{rows:,}, {scored:,} of them compared" if scored < rows else f"{rows:,}, all compared"
    return {"items": many, "comparisons": f"{result['comparisons']:,} of {title_of(comparisons)}"}


def _size(result: dict[str, Any]) -> dict[str, str]:
    """How flexible the model is, and how good: alpha, components or atoms and the held-out error, or the evidence."""
    if "log_evidence" in result:
        return evidence_in_words(result, compared=bool(result.get("comparisons")))
    tried = _best_of(result["tried"])
    error = held_out_error(result["held_out_error"], result["held_out_standard_error"], result["held_out_constant"])
    if "n_atoms" in result:
        size = {"atoms": f"{result['n_atoms']}{tried}; `corank inspect` lists them"}
    elif "n_components" in result:
        size = {"components": f"{result['n_components']}{tried}"}
    else:
        size = {"alpha": f"{result['alpha']:.3g}{tried}"}
    if "agreement" in result:
        agreement = result["agreement"]
        size["agreement"] = f"{agreement:.3g}, on unscored rows" if agreement else "0: unscored rows play no part"
    return {**size, "held-out error": error}


def _gamma(result: dict[str, Any]) -> str:
    gamma, chosen = result["gamma"], result["gamma_chosen"]
    if gamma is None:
        return ""
    if isinstance(gamma, list):
        return f", a gamma for each feature from {min(gamma):.3g} to {max(gamma):.3g}, by largest evidence"
    if "log_evidence" in result and chosen == "tune":
        return f", gamma {gamma:.3g} (tune, by largest evidence)"
    how = {"tune": f" (tune{_best_of(result['gammas_tried'])})", "scale": " (scale)"}
    return f", gamma {gamma:.3g}" + how.get(chosen, _best_of(result["gammas_tried"]))


def _best_of(tried: int) -> str:
    return f", the best of {tried}" if tried > 1 else ""
