"""Figures of the papers: panels side by side from plain data, on a figure that is handed over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from corank._plotting import FAINT, axis
from corank.report.plots import COLOURS, MARKERS
from studies.papers.study import Figure, Panel, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 10.0, 4.0


def size_of(figure: Figure) -> tuple[float, float]:
    """Inches; one panel is not as wide as several."""
    return (0.65 * WIDTH if len(figure.panels) == 1 else WIDTH, HEIGHT)


def draw_panels(figure: Figure, picture: Any) -> None:
    """All panels of a figure on a matplotlib figure."""
    axes = picture.subplots(1, len(figure.panels), squeeze=False)[0]
    for panel, ax in zip(figure.panels, axes, strict=True):
        draw_panel(panel, axis(ax))


def draw_panel(panel: Panel, ax: Axes) -> None:
    """One panel on an axis."""
    places = {series.name: at for at, series in enumerate(panel.series)}
    for series in panel.series:
        at = places[series.colour_of or series.name]
        _draw(series, ax, COLOURS[at % len(COLOURS)], MARKERS[at % len(MARKERS)])
    if "x" in panel.log:
        ax.set_xscale("log")
    if "y" in panel.log:
        ax.set_yscale("log")
    ax.set(xlabel=panel.x_label, ylabel=panel.y_label)
    ax.set_title(panel.title, fontsize="medium")
    if panel.diagonal:
        low = min(ax.get_xlim()[0], ax.get_ylim()[0])
        high = max(ax.get_xlim()[1], ax.get_ylim()[1])
        ax.plot([low, high], [low, high], color=FAINT, linestyle=":", zorder=0)
        ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    if len(panel.series) > 1:
        ax.legend(frameon=False, fontsize="small")


def _draw(series: Series, ax: Axes, colour: str, marker: str) -> None:
    banded = series.low is not None and series.high is not None
    if series.kind == "points":
        bars: Any = None
        if banded:
            assert series.low is not None and series.high is not None  # noqa: PT018
            bars = [
                [max(y - low, 0.0) for y, low in zip(series.y, series.low, strict=True)],
                [max(high - y, 0.0) for y, high in zip(series.y, series.high, strict=True)],
            ]
        ax.errorbar(
            series.x, series.y, yerr=bars, fmt=marker, color=colour, markersize=4, elinewidth=0.8, label=series.name
        )
        return
    if banded:
        assert series.low is not None and series.high is not None  # noqa: PT018
        ax.fill_between(series.x, series.low, series.high, color=colour, alpha=0.15, linewidth=0)
    if series.kind == "dashed":
        ax.plot(series.x, series.y, color=colour, linestyle="--", label=series.name)
    else:
        ax.plot(
            series.x,
            series.y,
            color=colour,
            marker=marker if len(series.x) < 60 else None,
            markersize=4,
            label=series.name,
        )
