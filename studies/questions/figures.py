"""The figures of docs/uncertainty.md and docs/compare.md: reliability of probabilities, learning curves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from studies.questions import calibration, headline, questions
from studies.questions.data import Floats
from studies.questions.study import Record, by_draw

INK, FIRST, SECOND, THIRD, PALE = "#333333", "#1f6fb4", "#d9731a", "#3a923a", "0.6"
LINES = (INK, FIRST, "#6b46c1", THIRD, SECOND, "#b7791f")


def reliability_figure(results: Path) -> Any:
    """How often the favourite won, by the probability it was given."""
    found = _kept(results, "calibration")
    settings = list(dict.fromkeys(tuple(result["draw"]) for result in found))
    figure, panels = plt.subplots(1, len(settings), figsize=(4 * len(settings), 3.9), layout="constrained", sharey=True)
    colours = {calibration.ONE: FIRST, calibration.EACH: THIRD, calibration.PEER: SECOND}
    for axes, setting in zip(np.atleast_1d(panels), settings, strict=True):
        axes.plot([0.5, 1], [0.5, 1], color=PALE, lw=1, ls="--")
        for result in found:
            if tuple(result["draw"]) == setting:
                _reliability(axes, result, colours[result["method"]])
        axes.set(title=f"{setting[0]}; {setting[1]} users seen", xlabel="probability of the favourite")
        _finish(axes)
    np.atleast_1d(panels)[0].set_ylabel("share of favourites that won")
    return figure


def _reliability(axes: Any, result: Mapping[str, Any], colour: str) -> None:
    some = np.asarray(result["counts"]) >= 100  # of fewer nothing can be seen
    said, came, bands = (np.asarray(result[name])[some] for name in ("said", "came", "bands"))
    error = np.abs(bands.T - came)
    label = f"{result['method']} ({result['calibration']:.3f})"
    axes.errorbar(said, came, yerr=error, color=colour, marker="o", ms=3.5, lw=1.2, elinewidth=0.8, label=label)


def questions_figure(results: Path) -> Any:
    """Mean error after every question, with standard errors."""
    found = _kept(results, "questions")
    figure, panels = plt.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
    for axes, (which, n_start) in zip(panels.ravel(), questions.START.items(), strict=True):
        for method, colour in ((questions.SUGGESTED, FIRST), (questions.RANDOM, SECOND)):
            errors = np.asarray([r["errors"] for r in found if (*r["draw"][:2],) == which and r["method"] == method])
            _learning(axes, n_start, errors, method, colour)
        axes.set(title=f"{questions.TITLES[which[0]]}, {which[1]}s", xlabel="answers", ylabel="disagreement")
        _finish(axes)
    return figure


def _learning(axes: Any, n_start: int, errors: Floats, method: str, colour: str) -> None:
    answers, mean = n_start + np.arange(errors.shape[1]), errors.mean(axis=0)
    spread = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    axes.plot(answers, mean, color=colour, label=method)
    axes.fill_between(answers, mean - spread, mean + spread, color=colour, alpha=0.2, lw=0)


def headline_figure(results: Path) -> Any:
    """Error against the number of scores on four sets, with 95 % intervals as bands."""
    found = by_draw([Record(tuple(r["draw"]), r["method"], dict(r), 0.0, (), "") for r in _kept(results, "headline")])
    figure, panels = plt.subplots(1, 4, figsize=(14, 4.1), layout="constrained")
    for axes, (name, sizes) in zip(panels, headline.SIZES.items(), strict=True):
        shown = [method for method in headline.METHODS if method != "views averaged"]  # mostly below co-regularised
        for (method, colour), marker in zip(zip(shown, LINES, strict=True), "osD^vP", strict=True):
            errors = [headline.errors_of(found, name, size, method) for size in sizes]
            low, high = np.transpose([headline.interval(own) for own in errors])
            axes.fill_between(sizes, low, high, color=colour, alpha=0.1, lw=0)
            means = [float(np.nanmean(own)) for own in errors]
            axes.plot(sizes, means, color=colour, marker=marker, ms=4, lw=1.4, label=method)
        axes.set_xscale("log")
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.set(title=headline.TITLES[name], xlabel="scored papers" if name == "cora" else "scored queries")
        _finish(axes)
        if name != "cora":
            axes.get_legend().remove()
    panels[0].set_ylabel("disagreement on test queries")
    return figure


def _kept(results: Path, name: str) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = json.loads((results / f"study-{name}.json").read_text())["results"]
    return found


def _finish(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.title.set_fontsize(10)
    axes.legend(frameon=False, fontsize=8)
