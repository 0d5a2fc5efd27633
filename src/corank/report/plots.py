"""Plots that take an axis, or make one.

Of a path: held-out errors of all candidates of a tuning. Of a fitted model: what was tried, whether
its views agree, its atoms, what a Gaussian process believes. Of probabilities: whether they can be
relied on. Of a comparison: methods with their intervals, and learning curves.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np

from corank.core.arrays import to_numpy
from corank.metrics import MEASURES, calibration_error, reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from corank.experiments import ComparisonResult

INK, BAND, FAINT = "#3182ce", "#90cdf4", "0.6"  # visible on white and on near black
SIZES = {"n_atoms": "atoms", "n_components": "components"}
ERRORS = {
    "squared": "held-out squared error",
    "rescaled": "held-out error, rescaled",
    "disagreement": "held-out share of misordered pairs",
}


# ---- axes, and the plot of a path


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
    error = np.asarray(path.error, dtype=np.float64)
    spread = np.asarray(path.standard_error, dtype=np.float64)
    groups = _groups(path, with_alpha=size is not None)
    ax = axis(ax)
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        members = members[np.argsort(x[members], kind="stable")]
        curve = x[members], error[members]
        if group == groups[path.best]:
            ends = error[members] - spread[members], error[members] + spread[members]
            ax.fill_between(x[members], *ends, color=INK, alpha=0.2, linewidth=0)
            ax.plot(*curve, color=INK, zorder=3, marker="." if len(members) < 30 else None)
        else:
            ax.plot(*curve, color=FAINT, linewidth=0.6, alpha=0.5)
    ax.plot(x[path.best], error[path.best], "o", color=INK, markersize=8, zorder=4, label="chosen")
    if np.isfinite(path.constant):
        ax.axhline(path.constant, color=FAINT, linestyle=":", label="a constant")
    if size is None and (x > 0).all():
        ax.set_xscale("log")
    # candidates that are far off would flatten the others
    finite = error[np.isfinite(error)]
    constant = float(path.constant) if np.isfinite(path.constant) else 0.0
    top, low = max(float(np.quantile(finite, 0.75)), constant), float(finite.min())
    if float(finite.max()) > low + 2 * (top - low):
        ax.set_ylim(low - 0.1 * (top - low), top + 0.25 * (top - low))
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


# ---- plots of models and comparisons


def plot_posterior(
    model: Any,
    X: Any = None,
    *,
    ax: Axes | None = None,
    deviations: float = 2.0,
    label: str | None = None,
) -> Axes:
    """What a Gaussian process on one column believes: its mean, and a band of some standard
    deviations.

    Comparisons say nothing about the level of the scores, so the mean over X is taken out of the
    function, and with it the uncertainty of the level.

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
    if not model.has_evidence or vars(model).get("n_features_in_") != 1:
        raise ValueError(
            "model must be a PreferenceGP or DifferenceGP that was fitted on one column."
        )
    items = _dense(model.basis_points_)[:, 0]
    places = np.linspace(items.min(), items.max(), 200)
    if X is not None:
        places = np.ravel(_dense(X)).astype(np.float64)
    if len(places) == 0:
        raise ValueError("X has no rows; give the places where the function is to be shown.")
    order = np.argsort(places, kind="stable")
    x = places[order]
    mean, covariance = map(to_numpy, model.predict(x[:, None], return_cov=True))
    centring = np.eye(len(x)) - 1.0 / len(x)
    spread = deviations * np.sqrt(np.maximum(np.diag(centring @ covariance @ centring), 0.0))
    mean = mean - mean.mean()
    ax = axis(ax)
    ax.fill_between(x, mean - spread, mean + spread, color=BAND, alpha=0.45, linewidth=0)
    ax.plot(x, mean, color=INK, label=label)
    at_foot = ax.get_xaxis_transform()
    ax.plot(items, 0 * items, "|", color=FAINT, markersize=7, transform=at_foot)
    ax.set(xlabel="x", ylabel="score, up to its level")
    return ax


def plot_reliability(
    y_true: Any, y_prob: Any, *, n_bins: int = 10, ax: Axes | None = None, label: str | None = None
) -> Axes:
    """Predicted probabilities against how often they came true, with 95 % intervals; the diagonal
    is perfect.

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
    bins = reliability(y_true, y_prob, n_bins)
    error = calibration_error(y_true, y_prob, n_bins)
    ax = axis(ax)
    if not ax.lines:
        ax.plot([0, 1], [0, 1], color=FAINT, linestyle=":", label="perfect")
    name = f"{label}: {error:.3f} off" if label else f"{error:.3f} off on average"
    gaps = np.abs(np.stack(bins.interval) - bins.observed)
    ax.errorbar(
        bins.predicted, bins.observed, yerr=gaps, marker="o", markersize=4, capsize=2, label=name
    )
    ax.set(
        xlim=(0, 1),
        ylim=(0, 1),
        xlabel="predicted probability",
        ylabel="share that came true",
        aspect="equal",
    )
    ax.legend(frameon=False, loc="upper left")
    return ax


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else to_numpy(X)


def plot_path(model: Any, *, ax: Axes | None = None) -> Axes:
    """Held-out error against what was tuned: alpha, or the number of atoms or components.

    The line is that of the chosen kernel width and agreement, its band one standard error; fainter
    lines are those of other widths, the dot is what was chosen, and the dotted line is what a
    constant would score.

    Parameters
    ----------
    model : fitted learner that tuned something: it has a `path_`.
    ax : matplotlib axis, default=None
        None makes a figure.

    Returns
    -------
    ax
    """
    model.refuse_targets("plot_path")
    path = model.tuning_path
    if path is None:
        raise ValueError(
            "model has no path_: it tuned nothing. Fit it with 'tune', or with a list of"
            " candidates."
        )
    return draw_path(path, ax)


def plot_views(model: Any, X: Any, *, ax: Axes | None = None) -> Axes:
    """Do the views agree? Predictions of two views against each other; of more, their rank
    correlations.

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
    if not model.has_views:
        raise ValueError(
            "model has one view; plot_views shows learners with several, such as CoRankRLS."
        )
    from scipy.stats import spearmanr

    predicted = to_numpy(model.predict_views(X)).astype(np.float64)
    names = [view.name or f"view {at}" for at, view in enumerate(model.views_, start=1)]
    ax = axis(ax)
    if predicted.shape[1] == 2:
        ax.plot(*predicted.T, ".", color=INK, markersize=4, alpha=0.6)
        ends = [float(predicted.min()), float(predicted.max())]
        ax.plot(ends, ends, color=FAINT, linestyle=":")
        correlation = float(spearmanr(*predicted.T).statistic)
        ax.set(xlabel=f"predicted by {names[0]}", ylabel=f"predicted by {names[1]}")
        ax.locator_params(nbins=5)  # small numbers have long labels
        ax.set_title(f"rank correlation {correlation:.2f}", loc="left", fontsize="medium")
        return ax
    columns = predicted.T
    correlations = np.array([[spearmanr(a, b).statistic for b in columns] for a in columns])
    ax.imshow(correlations, vmin=-1, vmax=1, cmap="RdBu")
    for (row, column), value in np.ndenumerate(correlations):
        colour = "white" if abs(value) > 0.6 else "black"
        ax.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour)
    ax.set_xticks(range(len(names)), names)
    ax.set_yticks(range(len(names)), names)
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
    if not model.has_atoms:
        raise ValueError(
            "model has no atoms; plot_atoms shows RankingPursuit, MatchingPursuit and"
            " CoRankingPursuit."
        )
    bars: Axes = model.explain().plot(ax)
    return bars


def plot_judges(model: Any, *, ax: Axes | None = None) -> Axes:
    """How reliable the judges of a model are, the most reliable on top, with 95 % intervals.

    Parameters
    ----------
    model : PreferenceGP, fitted with ``person=``
    ax : matplotlib axis, default=None
        None makes a figure.

    Returns
    -------
    ax
    """
    if not model.judges_:
        raise ValueError("model knows no judges: give person= to PreferenceGP.fit_comparisons.")
    ax = axis(ax)
    judges = sorted(model.judges_, key=lambda judge: judge.reliability)
    shown = judges if len(judges) <= MOST_JUDGES else [*judges[:HALF], *judges[-HALF:]]
    values = np.array([[judge.low, judge.reliability, judge.high] for judge in shown])
    reach = np.abs(values[:, [0, 2]] - values[:, [1]]).T
    ax.errorbar(values[:, 1], range(len(shown)), xerr=reach, fmt="o", color=COLOURS[0])
    ax.axvline(0, color=UNSURE)
    ax.set_yticks(range(len(shown)), [str(judge.name) for judge in shown])
    ax.set_xlabel("reliability: 1 for a usual judge, 0 for answers at random")
    return ax


MOST_JUDGES, HALF = 30, 15  # of those that a figure shows, the most and the least reliable ones
UNSURE = "#718096"
COLOUR_OF = {"better": "#2f855a", "worse": "#c05621", "cannot tell": UNSURE}
COLOURS = (
    "#3182ce",
    "#c05621",
    "#2f855a",
    "#805ad5",
    "#b7791f",
    "#d53f8c",
    "#319795",
    "#718096",
    "#e53e3e",
    "#5a67d8",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")


def plot_comparison(found: ComparisonResult, *, ax: Axes | None = None) -> Axes:
    """How much better than the baseline the methods are, with 95 % intervals of the paired
    differences.

    Right of the line is better, whatever the measure. Green beats the baseline, orange is beaten by
    it, grey cannot be told apart from it.

    Parameters
    ----------
    found : ComparisonResult
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
        gain = row.against.gain
        colour = COLOUR_OF[row.against.verdict]
        ax.plot([gain.low, gain.high], [at, at], color=colour, linewidth=2.5, solid_capstyle="butt")
        ax.plot(gain.mean, at, "o", color=colour, markersize=7)
    ax.set_yticks(range(len(order)), labels)
    ax.set_ylim(len(order) - 0.5, -0.5)
    title = rows[found.baseline].title
    ax.set_xlabel(f"gain in {MEASURES[found.measure].title} over {title} (right is better)")
    return ax


def plot_learning_curve(
    found: ComparisonResult, *, over: str = "scored", ax: Axes | None = None
) -> Axes:
    """Error against the number of scored or unscored rows, one line per method, with 95 % bands.

    Parameters
    ----------
    found : ComparisonResult, or a sequence of LearningCurve
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
        mean, low, high = np.asarray([astuple(point) for point in curve.points]).T
        ax.fill_between(curve.n, low, high, color=colour, alpha=shade, linewidth=0)
        ax.plot(curve.n, mean, color=colour, marker=marker, markersize=5, label=curve.title)
    # one wide band would flatten all lines: the axis follows the means and the usual width of a band
    means, low, high = np.asarray([astuple(each) for curve in curves for each in curve.points]).T
    margin = float(max(0.15 * np.ptp(means), 0.6 * np.median(high - low))) or 0.05
    ax.set_ylim(float(means.min()) - margin, float(means.max()) + margin)
    measure = getattr(found, "measure", None)
    ax.set(xlabel=f"{over} rows", ylabel=MEASURES[measure].title if measure else "error")
    if over == "scored" and all(min(curve.n) > 0 for curve in curves):
        ax.set_xscale("log", base=2)
        ticks = sorted({round(n) for curve in curves for n in curve.n})
        ax.set_xticks(ticks, [f"{n:,}" for n in ticks])
        ax.minorticks_off()
    ax.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax
