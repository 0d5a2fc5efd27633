"""A fitted model on a page: its parameters, what was tried, its atoms or basis, whether its views agree.

The report of one fitted model as an HTML file that opens anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from corank._plotting import tuned_axis
from corank.experiments.methods import chosen_parameters
from corank.report.page import Html, Section, bullets, facts, figure, folded, origins, page, table, text, write
from corank.report.plots import plot_atoms, plot_path, plot_views

MOST_ATOMS = 25
PARAMETERS = {
    "alpha": "alpha (strength of smoothing)",
    "agreement": "agreement (weight of unscored rows)",
    "gamma": "gamma (kernel width)",
    "n_components": "components",
    "n_atoms": "atoms",
    "amplitude": "amplitude",
    "noise": "noise",
    "trees": "trees",
    "C": "C",
    "chosen": "chosen among its candidates",
}


def parameters(chosen: dict[str, Any], more: dict[str, str] | None = None) -> Html:
    """What was chosen."""
    shown = {PARAMETERS.get(name, name.replace("_", " ")): _number(value) for name, value in chosen.items()}
    return facts("Parameters", {**(more or {}), **shown})


def model_parts(model: Any, X: Any = None) -> list[Html]:
    """Figures and tables of one of corank's learners; X: rows on which views are compared."""
    parts: list[Html] = []
    if hasattr(model, "reason_"):
        first, *rest = model.reason_.splitlines()
        parts += [text(first), bullets(rest)]
    inner = getattr(model, "best_estimator_", model)
    path = getattr(inner, "path_", None)
    if path is not None and len(np.unique(tuned_axis(path)[1])) > 1:
        best = float(path.error[path.best])
        about = f"Held-out error of {len(path.error)} settings; the least is {best:.4g}, a constant has {path.constant:.4g}."
        parts.append(
            figure(
                lambda ax: plot_path(inner, ax=ax),
                about,
                f"What was tried: {len(path.error)} settings by their held-out error. The line is that of the chosen kernel "
                f"width{'' if path.agreement is None else ' and agreement'} with one standard error, fainter lines are the "
                "others, the dot is the choice.",
            )
        )
    if hasattr(inner, "explain"):
        parts += _atoms(inner)
    elif getattr(inner, "coef_", None) is not None:
        parts.append(text(_basis(inner)))
    if X is not None and hasattr(inner, "predict_views") and X.shape[0] > 1:
        parts.append(
            figure(
                lambda ax: plot_views(inner, X, ax=ax),
                "Predictions of the views for the same rows.",
                f"Do the views agree? What each of them predicts for {X.shape[0]:,} rows.",
                (5.5, 4.2),
            )
        )
    return parts


def _atoms(model: Any) -> list[Html]:
    explanation = model.explain()
    listed, n = explanation.to_dict(), len(explanation)
    head = [name.replace("_", " ") for name in listed]
    rows = [[_number(value) for value in line] for line in zip(*listed.values(), strict=True)]
    words = [at for at, name in enumerate(listed) if name in ("atom", "view")]
    which = "in order of entry" if n <= MOST_ATOMS else f"the first {MOST_ATOMS} of {n}, in order of entry"
    parts = [table(f"What the model is made of: {which}", head, rows[:MOST_ATOMS], words=words)]
    if n <= MOST_ATOMS:
        size = (7.0, 0.8 + 0.34 * n)
        about = f"Weights of {n} atoms as bars."
        caption = "Weights, and what share of the loss each of them took away."
        parts.insert(0, figure(lambda ax: plot_atoms(model, ax=ax), about, caption, size))
    return parts


def _basis(model: Any) -> str:
    """How many rows span the function."""
    sizes = [len(part) for part in model.coef_] if isinstance(model.coef_, list) else [len(model.coef_)]
    if len(sizes) > 1:
        return f"The functions of its {len(sizes)} views are spanned by {' and '.join(f'{n:,}' for n in sizes)} rows."
    return f"The function is spanned by {sizes[0]:,} rows."


def _number(value: Any) -> str:
    if isinstance(value, bool | str) or value is None:
        return "" if value is None else str(value)
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"
    return str(value)


def write_model_report(
    model: Any,
    path: str | PathLike[str],
    *,
    title: str,
    summary: Mapping[str, str],
    verdict: str = "",
    columns: Sequence[Mapping[str, str]] = (),
    command: str | None = None,
    overwrite: bool = False,
) -> None:
    """Write a fitted model as one HTML file: no script, no request, light and dark, fit to print.

    Parameters
    ----------
    model : fitted learner
    path : where to write it
    title : heading of the page
    summary : what it was fitted on and how good it is, by name
    verdict : a sentence at the top
    columns : what became of each column of a table, as `TableEncoder.summary()` says
    command : what was typed to make it, shown at its end
    overwrite : whether a file that is already there may be replaced
    """
    came_in = [facts("The data and the fit", dict(summary))]
    if columns:
        rows = [(column["column"] or "(no name)", column["kind"], column["treatment"]) for column in columns]
        listed = table("Columns", ("column", "kind", "what becomes of it"), rows, words=(1, 2))
        came_in.append(folded(f"{len(columns):,} columns", listed))
    sections = [
        Section("What came in", came_in),
        Section("The model", [parameters(chosen_parameters(model)), *model_parts(model)]),
        Section("How it was made", origins(command)),
    ]
    lead = [text(verdict)] if verdict else []
    write(page(title, lead, sections), path, overwrite=overwrite)
