"""Plots that take an axis, or make one: what a model believes, and whether its probabilities can be relied on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from corank._backend import to_numpy
from corank.drawing import BAND, FAINT, INK, axis
from corank.metrics import calibration_error, reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_posterior(
    model: Any, X: Any = None, *, ax: Axes | None = None, deviations: float = 2.0, label: str | None = None
) -> Axes:
    """What a Gaussian process on one column believes: its mean, and a band of so many standard deviations.

    Comparisons say nothing about the level of the scores, so the mean over X is taken out of the function, and with it
    the uncertainty of the level.

    Parameters
    ----------
    model : PreferenceGP or DifferenceGP, fitted on one column
    X : (n,) or (n, 1) where to show it, default=None
        None: 200 places from the least to the greatest row of the basis.
    ax : matplotlib axis, default=None
        None makes a figure.
    deviations : float, default=2.0
        Half the height of the band.
    label : str, default=None
        What the mean is called in a legend.

    Returns
    -------
    ax

    Examples
    --------
    >>> import numpy as np
    >>> from corank import PreferenceGP
    >>> from corank.report import plot_posterior
    >>> X = np.linspace(0, 1, 6)[:, None]
    >>> model = PreferenceGP(gamma=1.0).fit_comparisons(X, [1, 2, 3, 4, 5], [0, 1, 2, 3, 4])
    >>> ax = plot_posterior(model)
    """
    if getattr(model, "n_features_in_", None) != 1 or not hasattr(model, "predict_comparison"):
        raise ValueError("model must be a PreferenceGP or DifferenceGP that was fitted on one column.")
    items = _dense(model.basis_points_)[:, 0]
    places = np.linspace(items.min(), items.max(), 200) if X is None else np.ravel(_dense(X)).astype(np.float64)
    if len(places) == 0:
        raise ValueError("X has no rows; give the places where the function is to be shown.")
    order = np.argsort(places, kind="stable")
    mean, covariance = model.predict(places[order][:, None], return_cov=True)
    centring = np.eye(len(places)) - 1.0 / len(places)
    spread = np.sqrt(np.maximum(np.diag(centring @ to_numpy(covariance) @ centring), 0.0))
    mean = to_numpy(mean) - to_numpy(mean).mean()
    ax = axis(ax)
    low, high = mean - deviations * spread, mean + deviations * spread
    ax.fill_between(places[order], low, high, color=BAND, alpha=0.45, linewidth=0)
    ax.plot(places[order], mean, color=INK, label=label)
    ax.plot(items, np.zeros(len(items)), "|", color=FAINT, markersize=7, transform=ax.get_xaxis_transform())
    ax.set(xlabel="x", ylabel="score, up to its level")
    return ax


def plot_reliability(
    y_true: Any, y_prob: Any, *, n_bins: int = 10, ax: Axes | None = None, label: str | None = None
) -> Axes:
    """Predicted probabilities against how often they came true, with 95 % intervals; the diagonal is perfect.

    Parameters
    ----------
    y_true : (n,) 1 or True where it came true, 0 or False where not
    y_prob : (n,) predicted probabilities, such as those of `predict_comparison(..., observed=True)`
    n_bins : int, default=10
        Bins of equal width.
    ax : matplotlib axis, default=None
        None makes a figure.
    label : str, default=None
        What it is called in a legend; the expected calibration error is added.

    Returns
    -------
    ax
    """
    found = reliability(y_true, y_prob, n_bins)
    error = calibration_error(y_true, y_prob, n_bins)
    ax = axis(ax)
    if not ax.lines:
        ax.plot([0, 1], [0, 1], color=FAINT, linestyle=":", label="perfect")
    name = f"{label}: {error:.3f} off" if label else f"{error:.3f} off on average"
    gaps = np.abs(np.stack(found.interval) - found.observed)
    ax.errorbar(found.predicted, found.observed, yerr=gaps, marker="o", markersize=4, capsize=2, label=name)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="predicted probability", ylabel="share that came true", aspect="equal")
    ax.legend(frameon=False, loc="upper left")
    return ax


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else to_numpy(X)
