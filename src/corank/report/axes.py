"""A matplotlib axis without clutter, and the plot of a path: held-out errors of all candidates of a
tuning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, BAND, FAINT = "#3182ce", "#90cdf4", "0.6"  # visible on white and on near black
SIZES = {"n_atoms": "atoms", "n_components": "components"}
ERRORS = {
    "squared": "held-out squared error",
    "rescaled": "held-out error, rescaled",
    "disagreement": "held-out share of misordered pairs",
}


def axis(ax: Axes | None) -> Axes:
    """The axis that was handed over, or a new one, without top and right spines."""
    if ax is None:
        # slow to import, and not needed where an axis is given
        from matplotlib import pyplot as plt

        ax = plt.subplots(figsize=(6, 4), layout="constrained")[1]
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def tuned_axis(path: Any) -> tuple[str | None, Any]:
    """The horizontal axis of a path: the name of a size (components, atoms) or None for alpha, and
    the values.
    """
    size = next((name for name in SIZES if getattr(path, name, None) is not None), None)
    return size, np.asarray(path.alpha if size is None else getattr(path, size), dtype=np.float64)


def draw_path(path: Any, ax: Axes | None) -> Axes:
    """Draw held-out error against the tuned parameter; see `corank.report.plot_path`."""
    size, x = tuned_axis(path)
    error, spread = (
        np.asarray(path.error, dtype=np.float64),
        np.asarray(path.standard_error, dtype=np.float64),
    )
    groups = _groups(path, with_alpha=size is not None)
    ax = axis(ax)
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        members = members[np.argsort(x[members], kind="stable")]
        curve = x[members], error[members]
        if group == groups[path.best]:
            low, high = curve[1] - spread[members], curve[1] + spread[members]
            ax.fill_between(curve[0], low, high, color=INK, alpha=0.2, linewidth=0)
            ax.plot(*curve, color=INK, zorder=3, marker="." if len(members) < 30 else None)
        else:
            ax.plot(*curve, color=FAINT, linewidth=0.6, alpha=0.5)
    ax.plot(x[path.best], error[path.best], "o", color=INK, markersize=8, zorder=4, label="chosen")
    if np.isfinite(path.constant):
        ax.axhline(path.constant, color=FAINT, linestyle=":", label="a constant")
    if size is None and (x > 0).all():
        ax.set_xscale("log")
    _limit(ax, error, float(path.constant))
    ax.set(
        xlabel="alpha" if size is None else SIZES[size],
        ylabel=ERRORS.get(path.scoring, "held-out error"),
    )
    ax.legend(frameon=False)
    return ax


def _groups(path: Any, *, with_alpha: bool) -> Any:
    """Numbers of the groups of candidates that differ only along the horizontal axis."""
    others = [np.nan_to_num(np.asarray(path.gamma, dtype=np.float64), nan=-1.0)]
    if path.agreement is not None:
        others.append(np.asarray(path.agreement, dtype=np.float64))
    if with_alpha:
        others.append(np.nan_to_num(np.asarray(path.alpha, dtype=np.float64), nan=-1.0))
    return np.unique(np.stack(others), axis=1, return_inverse=True)[1].ravel()


def _limit(ax: Axes, error: Any, constant: float) -> None:
    """Cut the vertical axis where candidates that are far off would flatten the others."""
    finite = error[np.isfinite(error)]
    top = max(float(np.quantile(finite, 0.75)), constant if np.isfinite(constant) else 0.0)
    low = float(finite.min())
    if float(finite.max()) > low + 2 * (top - low):
        ax.set_ylim(low - 0.1 * (top - low), top + 0.25 * (top - low))
