"""The page of one fitted model: its parameters, what was tried, its atoms or basis, whether its
views agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from corank.core.messages import rounded
from corank.describe import chosen_parameters
from corank.display import Table
from corank.interpretation import ColumnEffect, effects_table
from corank.report.axes import tuned_axis
from corank.report.page import (
    Html,
    Section,
    bullets,
    figure,
    folded,
    origins,
    page,
    text,
    write,
)
from corank.report.plots import plot_atoms, plot_path, plot_views

MAX_ATOMS = 25  # in the table
PARAMETERS = {
    "alpha": "alpha (strength of regularisation)",
    "agreement": "agreement (weight of unscored rows)",
    "gamma": "gamma (kernel width)",
    "n_components": "components",
    "n_atoms": "atoms",
    "chosen": "chosen among its candidates",
}


def write_model_report(
    model: Any,
    path: str | PathLike[str],
    *,
    title: str,
    summary: Mapping[str, str],
    verdict: str = "",
    columns: Sequence[Mapping[str, str]] = (),
    effects: Sequence[ColumnEffect] = (),
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
    effects : which columns matter, as `corank.column_effects` says
    command : what was typed to make it, shown at its end
    overwrite : whether a file that is already there may be replaced
    """
    sections = [
        Section(
            "What came in",
            [Table.of_facts("The data and the fit", summary).to_html(), *columns_list(columns)],
        ),
        Section(
            "The model",
            [parameters(chosen_parameters(model)), *model_parts(model), *effects_list(effects)],
        ),
        Section("How it was made", origins(command)),
    ]
    lead = [text(verdict)] if verdict else []
    write(page(title, lead, sections), path, overwrite=overwrite)


def columns_list(columns: Sequence[Mapping[str, str]]) -> list[Html]:
    """What became of each column of a table, folded; nothing where there is no table."""
    if not columns:
        return []
    rows = [
        (column["column"] or "(no name)", column["kind"], column["treatment"]) for column in columns
    ]
    listed = Table("Columns", rows, ("column", "kind", "what becomes of it"))
    return [folded(f"{len(columns):,} columns", listed.to_html())]


def effects_list(effects: Sequence[ColumnEffect]) -> list[Html]:
    """Which columns matter; nothing where that is not known."""
    return [effects_table(effects).to_html()] if effects else []


def parameters(chosen: dict[str, Any]) -> Html:
    """The parameters that were chosen."""
    named = {
        PARAMETERS.get(name, name.replace("_", " ")): _number(value)
        for name, value in chosen.items()
    }
    return Table.of_facts("Parameters", named).to_html()


def model_parts(model: Any, X: Any = None) -> list[Html]:
    """Figures and tables of one of corank's learners; X: rows on which views are compared."""
    contents: list[Html] = []
    if model.is_average:
        chosen, *reasons = model.reason_.splitlines()
        contents += [text(chosen), bullets(reasons)]
    path = model.tuning_path
    if path is not None and len(np.unique(tuned_axis(path)[1])) > 1:
        contents.append(_path_figure(model, path))
    if model.has_atoms:
        contents += _atoms(model)
    elif not model.is_average:
        contents.append(text(_basis(model)))
    if X is not None and model.has_views and X.shape[0] > 1:
        about = "Predictions of the views for the same rows."
        caption = f"Do the views agree? Predictions of each for {X.shape[0]:,} rows."
        contents.append(figure(lambda ax: plot_views(model, X, ax=ax), about, caption, (5.5, 4.2)))
    return contents


def _path_figure(learner: Any, path: Any) -> Html:
    tried, least = len(path.error), float(path.error[path.best])
    about = (
        f"Held-out error of {tried} settings; lowest {rounded(least)}, of a constant"
        f" {rounded(path.constant)}."
    )
    others = "" if path.agreement is None else " and agreement"
    caption = (
        f"Held-out error of {tried} settings. The line shows the chosen kernel width{others} with"
        " one standard error, fainter lines the others; the dot is the chosen setting."
    )
    return figure(lambda ax: plot_path(learner, ax=ax), about, caption)


def _atoms(model: Any) -> list[Html]:
    explanation = model.explain()
    columns, n_atoms = explanation.to_dict(), len(explanation)
    head = [name.replace("_", " ") for name in columns]
    rows = [[_number(value) for value in cells] for cells in zip(*columns.values(), strict=True)]
    numbers = [name for name in head if name not in ("atom", "view")]
    order = (
        "in order of entry"
        if n_atoms <= MAX_ATOMS
        else f"the first {MAX_ATOMS} of {n_atoms}, in order of entry"
    )
    listed = Table(f"Atoms of the model: {order}", rows[:MAX_ATOMS], head, numbers).to_html()
    if n_atoms > MAX_ATOMS:
        return [listed]
    caption = "Weights, and by what share each of them lowered the loss."
    about, size = f"Weights of {n_atoms} atoms as bars.", (7.0, 0.8 + 0.34 * n_atoms)
    return [figure(lambda ax: plot_atoms(model, ax=ax), about, caption, size), listed]


def _basis(model: Any) -> str:
    """How many rows the function is a sum over."""
    functions = model.coef_ if isinstance(model.coef_, list) else [model.coef_]
    sizes = " and ".join(f"{len(coefficients):,}" for coefficients in functions)
    if len(functions) == 1:
        return f"The function is a weighted sum of similarities to {sizes} rows."
    return (
        f"The functions of the {len(functions)} views are weighted sums of similarities to {sizes}"
        " rows."
    )


def _number(value: Any) -> str:
    if isinstance(value, float | np.floating):
        number = float(value)
        whole = number.is_integer() and abs(number) < 1000
        return "" if np.isnan(number) else f"{number:.0f}" if whole else rounded(number)
    return (
        "" if value is None else f"{value:,}" if isinstance(value, int | np.integer) else str(value)
    )
