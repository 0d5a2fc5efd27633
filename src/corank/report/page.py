"""A self-contained HTML page: sections, tables with headers, figures as inline SVG with a
description, and its origin.

The page asks for nothing from outside: styles and figures are inside it, and it has no scripts.
Figures take the colour of the text around them, so that they are right on a light and on a dark
page.
"""

from __future__ import annotations

import io
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from corank.display import Table
from corank.tables import replacing

LIBRARIES = (
    "corank",
    "numpy",
    "scipy",
    "scikit-learn",
    "pyarrow",
    "lightgbm",
)
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
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed


def origins(command: str | None) -> list[Html]:
    """The command that makes the page again, and what it was made with."""
    typed = [] if command is None else [text("The command that made this page:"), code(command)]
    system = {
        "date": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        "system": platform.platform(terse=True),
    }
    return [*typed, Table.of_facts("Versions", {**system, **versions()}).to_html()]
