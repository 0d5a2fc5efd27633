"""Plots of a comparison that take an axis, or make one: methods with their intervals, and learning curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from corank.drawing import FAINT, axis
from corank.experiments.measures import TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from corank.experiments import Comparison

UNSURE = "#718096"
COLOUR_OF = {"better": "#2f855a", "worse": "#c05621", "cannot tell": UNSURE}
COLOURS = ("#3182ce", "#c05621", "#2f855a", "#805ad5", "#b7791f", "#d53f8c", "#319795", "#718096", "#e53e3e", "#5a67d8")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")


def plot_comparison(found: Comparison, *, ax: Axes | None = None) -> Axes:
    """How much better than the baseline the methods are, with 95 % intervals of the paired differences.

    Right of the line is better, whatever the measure. Green beats the baseline, orange is beaten by it, grey cannot be
    told apart from it.

    Parameters
    ----------
    found : Comparison
    ax : matplotlib axis, default=None
        None makes a figure.

    Returns
    -------
    ax
    """
    rows = {row.method: row for row in found.rows()}
    order = found.ranked()
    ax = axis(ax)
    ax.axvline(0.0, color=FAINT, linestyle=":", zorder=0)
    labels = []
    for at, name in enumerate(order):
        row = rows[name]
        mean = row.estimates[found.measure]
        labels.append(row.title if mean is None else f"{row.title}  {mean.mean:.3f}")
        if row.against is None:
            ax.plot(0.0, at, "D", color=UNSURE, markersize=7)
            continue
        gain, colour = row.against.gain, COLOUR_OF[row.against.verdict]
        ax.plot([gain.low, gain.high], [at, at], color=colour, linewidth=2.5, solid_capstyle="butt")
        ax.plot(gain.mean, at, "o", color=colour, markersize=7)
    ax.set_yticks(range(len(order)), labels)
    ax.set_ylim(len(order) - 0.5, -0.5)
    title = rows[found.baseline].title
    ax.set_xlabel(f"{TITLES[found.measure]} better than {title} by (right is better)")
    return ax


def plot_learning_curve(found: Comparison, *, over: str = "scored", ax: Axes | None = None) -> Axes:
    """Error against the number of scored or unscored rows, one line a method, with 95 % bands.

    Parameters
    ----------
    found : Comparison, or a sequence of Curve
    over : "scored" or "unscored", default="scored"
        What is on the axis.
    ax : matplotlib axis, default=None
        None makes a figure.

    Returns
    -------
    ax
    """
    curves: Any = found.curves(over) if hasattr(found, "curves") else found
    if not curves:
        raise ValueError(f"there is no curve over {over} rows; compare with Protocol(curves=True).")
    ax = axis(ax)
    shade = 0.12 if len(curves) <= 4 else 0.05  # many bands on top of each other hide the lines
    for at, curve in enumerate(curves):
        colour, marker = COLOURS[at % len(COLOURS)], MARKERS[at % len(MARKERS)]
        mean, low, high = (np.asarray([getattr(p, k) for p in curve.points]) for k in ("mean", "low", "high"))
        ax.fill_between(curve.n, low, high, color=colour, alpha=shade, linewidth=0)
        ax.plot(curve.n, mean, color=colour, marker=marker, markersize=5, label=curve.title)
    _limit(ax, curves)
    measure = getattr(found, "measure", None)
    ax.set(xlabel=f"{over} rows", ylabel=TITLES[measure] if measure else "error")
    if over == "scored" and all(min(curve.n) > 0 for curve in curves):
        ax.set_xscale("log", base=2)
        ticks = sorted({round(n) for curve in curves for n in curve.n})
        ax.set_xticks(ticks, [f"{n:,}" for n in ticks])
        ax.minorticks_off()
    ax.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def _limit(ax: Axes, curves: Any) -> None:
    """One wide band would flatten all lines: the axis follows the means and the usual width of a band."""
    points = [point for curve in curves for point in curve.points]
    means = np.asarray([point.mean for point in points])
    half = float(np.median([(point.high - point.low) / 2 for point in points]))
    margin = max(0.15 * float(np.ptp(means)), 1.2 * half) or 0.05
    ax.set_ylim(float(means.min()) - margin, float(means.max()) + margin)
