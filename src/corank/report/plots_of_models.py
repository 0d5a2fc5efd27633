"""Plots of one fitted model that take an axis, or make one: what was tried, whether views agree, which atoms it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from corank._backend import to_numpy
from corank.drawing import FAINT, INK, axis, draw_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_path(model: Any, *, ax: Axes | None = None) -> Axes:
    """Held-out error against what was tuned: alpha, or the number of atoms or components.

    The line is that of the chosen kernel width and agreement, its band one standard error; fainter lines are the other
    ones, the dot is what was chosen, and the dotted line is what a constant would score.

    Parameters
    ----------
    model : fitted learner that tuned something: it has a `path_`. An `AutoRanker` shows the model it chose
    ax : matplotlib axis, default=None
        None makes a figure.

    Returns
    -------
    ax
    """
    model = getattr(model, "best_estimator_", model)
    path = getattr(model, "path_", None)
    if path is None:
        raise ValueError("model has no path_: it tuned nothing. Fit it with 'tune', or with a list of candidates.")
    return draw_path(path, ax)


def plot_views(model: Any, X: Any, *, ax: Axes | None = None) -> Axes:
    """Do the views agree? Predictions of two views against each other; of more, their rank correlations.

    Parameters
    ----------
    model : fitted learner with several views
    X : rows to predict, such as the unscored ones
    ax : matplotlib axis, default=None
        None makes a figure.

    Returns
    -------
    ax
    """
    model = getattr(model, "best_estimator_", model)
    if not hasattr(model, "predict_views"):
        raise ValueError("model has one view; plot_views shows learners with several, such as CoRankRLS.")
    from scipy.stats import spearmanr

    predicted = to_numpy(model.predict_views(X)).astype(np.float64)
    names = [getattr(view, "name", None) or f"view {at + 1}" for at, view in enumerate(model.views_)]
    ax = axis(ax)
    if predicted.shape[1] == 2:
        first, second = predicted.T
        ax.plot(first, second, ".", color=INK, markersize=4, alpha=0.6)
        ends = [float(predicted.min()), float(predicted.max())]
        ax.plot(ends, ends, color=FAINT, linestyle=":")
        same = float(spearmanr(first, second).statistic)
        ax.set(xlabel=f"predicted by {names[0]}", ylabel=f"predicted by {names[1]}")
        ax.locator_params(nbins=5)  # small numbers have long labels
        ax.set_title(f"rank correlation {same:.2f}", loc="left", fontsize="medium")
        return ax
    m = predicted.shape[1]
    table = np.array([[float(spearmanr(a, b).statistic) for b in predicted.T] for a in predicted.T])
    ax.imshow(table, vmin=-1, vmax=1, cmap="RdBu")
    for row, column in np.ndindex(m, m):
        dark = abs(table[row, column]) > 0.6
        ax.text(column, row, f"{table[row, column]:.2f}", ha="center", va="center", color="white" if dark else "black")
    ax.set_xticks(range(m), names)
    ax.set_yticks(range(m), names)
    ax.set_title("rank correlation", loc="left", fontsize="medium")
    return ax


def plot_atoms(model: Any, *, ax: Axes | None = None) -> Axes:
    """The atoms of a sparse model as bars, in order of entry.

    Parameters
    ----------
    model : fitted RankingPursuit, MatchingPursuit or CoRankingPursuit
    ax : matplotlib axis, default=None
        None makes a figure.

    Returns
    -------
    ax
    """
    if not hasattr(model, "explain"):
        raise ValueError("model has no atoms; plot_atoms shows RankingPursuit, MatchingPursuit and CoRankingPursuit.")
    shown: Axes = model.explain().plot(ax)
    return shown
