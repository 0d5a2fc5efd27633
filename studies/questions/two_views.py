"""Two views that share the target only, and the same with one view replaced by noise.

Protocol: `make_two_views` with its defaults (20 scored, 2,000 unscored and 1,000 test rows, 50
columns and 20 private factors per view), 20 seeds; linear kernels, no intercept, root mean squared
error on the test rows. Supervised is RLS on the columns of both views. basis="features" is the
linear kernel on all rows computed in the primal: the same functions, sooner.

Noise: every column of the second view, in training and test rows alike, is drawn again from a
normal distribution with mean zero and that column's variance. "Within 2 % of supervised" means at
most 2 % worse.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import root_mean_squared_error

from corank import View
from corank.datasets import make_two_views
from studies.questions.methods import (
    REGRESSOR,
    SUPERVISED,
    TUNED,
    Draw,
    DrawMethod,
    Results,
    by_draw,
    choice_counts,
    choice_of,
    choice_table,
    draw_parts,
    fit_count,
    make,
    method_titles,
    regressors,
)
from studies.study import Outcome, Part, Result, Settings, Study, Table, target
from studies.verdicts import standard_error

FIRST_SEED, N_SEEDS, WANTED = 1000, 20, 18  # seeds on which nothing was developed
METHODS = regressors(kernel="linear", basis="features", fit_intercept=False)


def parts(settings: Settings, *, noise: bool) -> list[Part]:
    """One part per seed and method."""
    seeds = range(FIRST_SEED, FIRST_SEED + (2 if settings.quick else N_SEEDS))
    return draw_parts(run, [(seed,) for seed in seeds], METHODS, noise=noise)


def run(
    settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod, noise: bool
) -> Result:
    """The test error of a method, with a second view of signal or of noise."""
    seed = int(draw[0])
    data = make_two_views(random_state=seed)
    if noise:
        data = with_noise(data, np.random.default_rng([seed, 1]))
    views = [View(columns, kernel="linear") for columns in data.views]
    model = make(method, views, seed).fit(data.X, data.y)
    error = root_mean_squared_error(data.y_test, model.predict(data.X_test))
    return {"error": float(error), **choice_of(model)}


def with_noise(data: Any, rng: np.random.Generator) -> Any:
    """The data with noise in the place of the second view, in training and test rows."""
    X, X_test = data.X.copy(), data.X_test.copy()
    spread = X[:, data.views[1]].std(axis=0)
    for rows in (X, X_test):
        rows[:, data.views[1]] = spread * rng.standard_normal((len(rows), len(spread)))
    return replace(data, X=X, X_test=X_test)


def conclude_two_views(settings: Settings, results: Results) -> Outcome:
    """Errors beside those of supervised learning, and whether they are at most half of them."""
    errors, tables = _tables(results)
    n = len(errors[SUPERVISED])
    findings = []
    for method in (REGRESSOR, TUNED):
        halved = int((errors[method] <= 0.5 * errors[SUPERVISED]).sum())
        claim = f"{method}: error at least 50 % below supervised in {WANTED} of {N_SEEDS} seeds"
        findings.append(target(claim, f"{halved} of {n}.", halved >= WANTED))
    return Outcome(tables, findings, n_fits=fit_count(results))


def conclude_noise_view(settings: Settings, results: Results) -> Outcome:
    """Errors beside those of supervised learning, and whether noise does harm."""
    errors, tables = _tables(results)
    ratio = errors[REGRESSOR] / errors[SUPERVISED]
    within, better = int((ratio <= 1.02).sum()), int((ratio < 0.98).sum())
    claim = f"{REGRESSOR}: error at most 2 % above supervised in {WANTED} of {N_SEEDS} seeds"
    note = (
        f"{REGRESSOR} was more than 2 % better than supervised in {better} seeds; worst ratio"
        f" {ratio.max():.3f}."
    )
    finding = target(claim, f"{within} of {len(ratio)}.", within >= WANTED)
    return Outcome(tables, [finding], notes=[note], n_fits=fit_count(results))


def _tables(results: Results) -> tuple[dict[str, Any], list[Table]]:
    """Errors of every method (seeds,), and tables of them and of what was chosen."""
    draws = by_draw(results).values()
    errors = {
        method: np.asarray([draw[method]["error"] for draw in draws])
        for method in method_titles(results)
    }
    base = errors[SUPERVISED]
    rows = []
    for method, values in errors.items():
        ratio = values / base
        rows.append(
            (
                method,
                f"{values.mean():.4f} ± {standard_error(values):.4f}",
                f"{np.exp(np.log(ratio).mean()):.3f}",
                f"{ratio.min():.3f} to {ratio.max():.3f}",
                f"{int((values < base).sum())} of {len(values)}",
            )
        )
    head = (
        "method",
        "test rmse ± s.e.",
        "÷ supervised (geometric mean)",
        "least to greatest",
        "better in",
    )
    counts = choice_counts(draw[REGRESSOR] for draw in draws)
    return errors, [
        Table(f"Test error over {len(base)} seeds", head, rows),
        choice_table(REGRESSOR, [("seeds", counts)]),
    ]


_SETTING = (
    "20 scored, 2,000 unscored and 1,000 test rows, 20 private factors per view, linear kernels, no"
    " intercept."
)

TWO_VIEWS = Study(
    name="two-views",
    title="Two views that share the target only",
    about=(
        f"`make_two_views`, {N_SEEDS} seeds: {_SETTING} Supervised: RLS on the columns of both"
        " views."
    ),
    parts=partial(parts, noise=False),
    conclude=conclude_two_views,
    fixed_draws=True,
    with_results=True,
)
NOISE_VIEW = replace(
    TWO_VIEWS,
    name="noise-view",
    title="One of two views is noise",
    about=(
        f"`make_two_views`, {N_SEEDS} seeds, the second view replaced by noise of the same"
        f" variances: {_SETTING}"
    ),
    parts=partial(parts, noise=True),
    conclude=conclude_noise_view,
)
STUDIES = (TWO_VIEWS, NOISE_VIEW)
