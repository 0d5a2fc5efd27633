"""A self-contained HTML page: sections, tables with headers, figures as inline SVG with a
description, and its origin; and the page about one fitted model: what it learned from, what was
tried, what it consists of.

The page asks for nothing from outside: styles and figures are inside it, and it has no scripts.
Figures take the colour of the text around them, so that they are right on a light and on a dark
page.
"""

from __future__ import annotations

import io
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from html import escape
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from corank.core.messages import rounded
from corank.describe import chosen_parameters
from corank.display import Table
from corank.interpretation import ColumnEffect, effects_table
from corank.report.plots import plot_atoms, plot_judges, plot_path, plot_views, tuned_axis
from corank.tables import replacing

LIBRARIES = ("corank", "numpy", "scipy", "scikit-learn", "pyarrow", "lightgbm")
TEXT_COLOUR = "#010203"  # in a figure: becomes the colour of the page's text
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 11.0,
    "text.color": TEXT_COLOUR,
    "axes.labelcolor": TEXT_COLOUR,
    "axes.edgecolor": TEXT_COLOUR,
    "axes.titlecolor": TEXT_COLOUR,
    "xtick.color": TEXT_COLOUR,
    "ytick.color": TEXT_COLOUR,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.labelcolor": TEXT_COLOUR,
}
Html: TypeAlias = str
MAX_ATOMS = 25  # in the table
PARAMETERS = {
    "alpha": "alpha (strength of regularisation)",
    "agreement": "agreement (weight of unscored rows)",
    "gamma": "gamma (kernel width)",
    "n_components": "components",
    "n_atoms": "atoms",
    "chosen": "chosen among its candidates",
}


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    contents: Sequence[Html]

    @property
    def anchor(self) -> str:
        """Name of the section in links."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


def text(paragraph: str, kind: str = "") -> Html:
    """A paragraph."""
    return f'<p class="{kind}">{escape(paragraph)}</p>' if kind else f"<p>{escape(paragraph)}</p>"


def bullets(lines: Sequence[str]) -> Html:
    """A list."""
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def code(lines: str) -> Html:
    """Commands as they are typed."""
    return f"<pre><code>{escape(lines)}</code></pre>"


def folded(title: str, *contents: Html) -> Html:
    """Contents that are opened on demand."""
    return f"<details><summary>{escape(title)}</summary>{''.join(contents)}</details>"


def verdict(answer: str, reasons: Sequence[str]) -> Html:
    """The answer, and what it rests on."""
    return f'<div class="verdict">{text(answer)}{bullets(reasons) if reasons else ""}</div>'


def figure(
    draw: Callable[[Any], Any], about: str, caption: str, size: tuple[float, float] = (8.0, 4.0)
) -> Html:
    """What `draw` draws on an axis, as SVG; `about` says what it shows, for those who do not see
    it.
    """
    return picture(lambda panels: draw(panels.add_subplot()), about, caption, size)


def picture(
    draw: Callable[[Any], Any], about: str, caption: str, size: tuple[float, float]
) -> Html:
    """What `draw` draws on a whole matplotlib figure, such as several panels, as SVG; `about` says
    what it shows.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context({**_STYLE, "svg.hashsalt": caption + about}):
        panels = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(panels)
        draw(panels)
        file = io.StringIO()
        panels.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :].replace(TEXT_COLOUR, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # the same in every figure; ids that are referred to are not
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(
        r"font: ([\d.]+px) [^;\"]*",
        r"font: \1 system-ui, 'Liberation Sans', Arial, sans-serif",
        svg,
    )
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(about, quote=True)}" ', 1)
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def page(title: str, lead: Sequence[Html], sections: Sequence[Section]) -> Html:
    """The whole page."""
    style = resources.files("corank.report").joinpath("page.css").read_text(encoding="utf-8")
    links = "".join(
        f'<li><a href="#{section.anchor}">{escape(section.title)}</a></li>' for section in sections
    )
    body = "".join(
        f'<section aria-labelledby="{section.anchor}"><h2'
        f' id="{section.anchor}">{escape(section.title)}</h2>'
        f"{''.join(section.contents)}</section>"
        for section in sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src'
        " 'unsafe-inline'; img-src data:\">"
        '<link rel="icon"'
        f' href="data:,"><title>{escape(title)}</title><style>{style}</style></head>'
        f"<body><header><h1>{escape(title)}</h1>{''.join(lead)}</header>"
        f'<nav aria-label="Contents"><ul>{links}</ul></nav><main>{body}</main></body></html>\n'
    )


def write(html: Html, path: str | PathLike[str], *, overwrite: bool) -> None:
    """Write a page, whole or not at all."""
    with replacing(Path(path), overwrite=overwrite) as file:
        file.write(html.encode())


def versions(names: Sequence[str] = LIBRARIES) -> dict[str, str]:
    """Versions of Python and of those of these libraries that are installed."""
    installed = {"Python": platform.python_version()}
    for name in names:
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


def origins(command: str | None) -> list[Html]:
    """The command that makes the page again, and what it was made with."""
    typed = [] if command is None else [text("The command that made this page:"), code(command)]
    system = {
        "date": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        "system": platform.platform(terse=True),
    }
    return [*typed, Table.of_facts("Versions", {**system, **versions()}).to_html()]


# ---- the page about a model


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
    contents = [parameters(chosen_parameters(model)), *model_parts(model)]
    if effects:
        contents.append(effects_table(effects).to_html())
    sections = [
        Section(
            "What came in",
            [Table.of_facts("The data and the fit", summary).to_html(), *columns_list(columns)],
        ),
        Section("The model", contents),
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
    if model.has_judges and model.judges_:
        about = f"Reliability of {len(model.judges_)} judges with 95 % intervals."
        caption = f"Who can be trusted? {about} Below 0: the opposite of what all others say."
        contents.append(figure(lambda ax: plot_judges(model, ax=ax), about, caption))
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
    tried = len(path.error)
    about = (
        f"Held-out error of {tried} settings; lowest {rounded(path.least)}, of a constant"
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
    which = f"the first {MAX_ATOMS} of {n_atoms}, " if n_atoms > MAX_ATOMS else ""
    title = f"Atoms of the model: {which}in order of entry"
    listed = Table(title, rows[:MAX_ATOMS], head, numbers).to_html()
    if n_atoms > MAX_ATOMS:
        return [listed]
    caption = "Weights, and by what share each of them lowered the loss."
    about = f"Weights of {n_atoms} atoms as bars."
    size = (7.0, 0.8 + 0.34 * n_atoms)
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
    if value is None or value != value:  # noqa: PLR0124 - NaN
        return ""
    if isinstance(value, float | np.floating):
        number = float(value)
        return f"{number:.0f}" if number.is_integer() and abs(number) < 1000 else rounded(number)
    return f"{value:,}" if isinstance(value, int | np.integer) else str(value)
