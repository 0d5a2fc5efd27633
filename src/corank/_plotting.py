"""Drawing on a matplotlib axis what lies below the reports: an axis without clutter, and what was tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, BAND, FAINT = "#3182ce", "#90cdf4", "0.6"  # told from white and from near black alike
SIZES = {"n_atoms": "atoms", "n_components": "components"}
ERRORS = {
    "squared": "held-out squared error",
    "rescaled": "held-out error, rescaled",
    "disagreement": "held-out share of misordered pairs",
}


def axis(ax: Axes | None) -> Axes:
    """The axis that was handed over, or a new one, without the lines that say nothing."""
    if ax is None:
        from matplotlib import pyplot as plt  # slow to import, and not needed by whoever brings an axis

        ax = plt.subplots(figsize=(6, 4), layout="constrained")[1]
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def tuned(path: Any) -> tuple[str | None, Any]:
    """What a path is drawn against: components or atoms, or None for alpha, and their values."""
    size = next((name for name in SIZES if getattr(path, name, None) is not None), None)
    return size, np.asarray(path.alpha if size is None else getattr(path, size), dtype=np.float64)


def draw_path(path: Any, ax: Axes | None) -> Axes:
    """Held-out error against what was tuned; see `corank.report.plot_path`."""
    size, x = tuned(path)
    error, spread = np.asarray(path.error, dtype=np.float64), np.asarray(path.standard_error, dtype=np.float64)
    groups = _groups(path, with_alpha=size is not None)
    ax = axis(ax)
    for group in np.unique(groups):
        own = np.flatnonzero(groups == group)
        own = own[np.argsort(x[own], kind="stable")]
        if group == groups[path.best]:
            low, high = error[own] - spread[own], error[own] + spread[own]
            ax.fill_between(x[own], low, high, color=INK, alpha=0.2, linewidth=0)
            ax.plot(x[own], error[own], color=INK, zorder=3, marker="." if len(own) < 30 else None)
        else:
            ax.plot(x[own], error[own], color=FAINT, linewidth=0.6, alpha=0.5)
    ax.plot(x[path.best], error[path.best], "o", color=INK, markersize=8, zorder=4, label="chosen")
    if np.isfinite(path.constant):
        ax.axhline(path.constant, color=FAINT, linestyle=":", label="a constant")
    if size is None and (x > 0).all():
        ax.set_xscale("log")
    _limit(ax, error, float(path.constant))
    ax.set(xlabel="alpha" if size is None else SIZES[size], ylabel=ERRORS.get(path.scoring, "held-out error"))
    ax.legend(frameon=False)
    return ax


def _groups(path: Any, *, with_alpha: bool) -> Any:
    """Candidates that differ in nothing but what the axis shows."""
    others = [np.nan_to_num(np.asarray(path.gamma, dtype=np.float64), nan=-1.0)]
    if path.agreement is not None:
        others.append(np.asarray(path.agreement, dtype=np.float64))
    if with_alpha:
        others.append(np.nan_to_num(np.asarray(path.alpha, dtype=np.float64), nan=-1.0))
    return np.unique(np.stack(others), axis=1, return_inverse=True)[1].ravel()


def _limit(ax: Axes, error: Any, constant: float) -> None:
    """Candidates that are far off would flatten the rest."""
    known = error[np.isfinite(error)]
    top = max(float(np.quantile(known, 0.75)), constant if np.isfinite(constant) else 0.0)
    low = float(known.min())
    if float(known.max()) > low + 2 * (top - low):
        ax.set_ylim(low - 0.1 * (top - low), top + 0.25 * (top - low))
