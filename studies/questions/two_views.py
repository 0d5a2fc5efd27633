"""Two views that share the target only, and the same with one view replaced by noise.

Protocol: `make_two_views` with its defaults (20 scored, 2,000 unscored and 1,000 test rows, 50 columns and 20 private
factors a view), 20 seeds; linear kernels, no intercept, root mean squared error on the test rows. Supervised is RLS
on the columns of both views. basis="features" is the linear kernel on all rows computed in the primal: the same
functions, sooner.

Noise: every column of the second view, in training and test rows alike, is drawn anew from a normal distribution with
mean zero and that column's variance. "Within 2 % of supervised" means at most 2 % worse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.metrics import root_mean_squared_error

from corank import View
from corank.datasets import make_two_views
from corank.experiments.uncertainty import standard_error
from studies.questions.methods import REGRESSOR, SUPERVISED, TUNED, choice_table, choices, chosen, make, regressors
from studies.questions.study import (
    Job,
    Options,
    Record,
    Result,
    Study,
    Summary,
    Table,
    Target,
    all_jobs,
    by_draw,
    method_titles,
)

FIRST_SEED, N_SEEDS, WANTED = 1000, 20, 18  # seeds on which nothing was developed
METHODS = regressors(kernel="linear", basis="features", fit_intercept=False)


def jobs(options: Options) -> list[Job]:
    seeds = range(FIRST_SEED, FIRST_SEED + (2 if options.quick else N_SEEDS))
    return all_jobs([(seed,) for seed in seeds], METHODS)


def run_two_views(options: Options, job: Job) -> Result:
    return _run(make_two_views(random_state=int(job.draw[0])), job)


def run_noise_view(options: Options, job: Job) -> Result:
    seed = int(job.draw[0])
    data, rng = make_two_views(random_state=seed), np.random.default_rng([seed, 1])
    X, X_test = data.X.copy(), data.X_test.copy()
    spread = X[:, data.views[1]].std(axis=0)
    for rows in (X, X_test):
        rows[:, data.views[1]] = spread * rng.standard_normal((len(rows), len(spread)))
    return _run(replace(data, X=X, X_test=X_test), job)


def _run(data: Any, job: Job) -> Result:
    views = [View(columns, kernel="linear") for columns in data.views]
    model = make(job.method, views, int(job.draw[0])).fit(data.X, data.y)
    return {"error": float(root_mean_squared_error(data.y_test, model.predict(data.X_test))), **chosen(model)}


def summarise_two_views(records: Sequence[Record]) -> Summary:
    errors, table, choice = _tables(records)
    n = len(errors[SUPERVISED])
    targets = []
    for method in (REGRESSOR, TUNED):
        halved = int((errors[method] <= 0.5 * errors[SUPERVISED]).sum())
        text = f"{method}: error at least 50 % below supervised in {WANTED} of {N_SEEDS} seeds"
        targets.append(Target(text, halved, f"{halved} of {n}", halved >= WANTED))
    return Summary([table, choice], targets)


def summarise_noise_view(records: Sequence[Record]) -> Summary:
    errors, table, choice = _tables(records)
    ratio = errors[REGRESSOR] / errors[SUPERVISED]
    within, better = int((ratio <= 1.02).sum()), int((ratio < 0.98).sum())
    text = f"{REGRESSOR}: error at most 2 % above supervised in {WANTED} of {N_SEEDS} seeds"
    note = f"{REGRESSOR} was more than 2 % better than supervised in {better} seeds; worst ratio {ratio.max():.3f}."
    return Summary([table, choice], [Target(text, within, f"{within} of {len(ratio)}", within >= WANTED)], [note])


def _tables(records: Sequence[Record]) -> tuple[dict[str, Any], Table, Table]:
    """Errors of every method (seeds,), their table, and what was chosen."""
    draws = by_draw(records).values()
    errors = {m: np.asarray([draw[m]["error"] for draw in draws]) for m in method_titles(records)}
    base = errors[SUPERVISED]
    rows = [
        (
            method,
            f"{own.mean():.4f} ± {standard_error(own):.4f}",
            f"{np.exp(np.log(own / base).mean()):.3f}",
            f"{(own / base).min():.3f} to {(own / base).max():.3f}",
            f"{int((own < base).sum())} of {len(own)}",
        )
        for method, own in errors.items()
    ]
    head = ("method", "test rmse ± s.e.", "÷ supervised (geometric mean)", "least to greatest", "better in")
    table = Table(f"Test error over {len(base)} seeds", head, rows)
    picks = choices(draw[REGRESSOR] for draw in draws)
    return errors, table, choice_table(REGRESSOR, [("seeds", picks)])


_SETTING = "20 scored, 2,000 unscored and 1,000 test rows, 20 private factors a view, linear kernels, no intercept."

TWO_VIEWS = Study(
    name="two-views",
    title="Two views that share the target only",
    about=f"`make_two_views`, {N_SEEDS} seeds: {_SETTING} Supervised: RLS on the columns of both views.",
    draw_names=("seed",),
    protocol=1,
    jobs=jobs,
    run=run_two_views,
    summarise=summarise_two_views,
)
NOISE_VIEW = replace(
    TWO_VIEWS,
    name="noise-view",
    title="One of two views is noise",
    about=f"`make_two_views`, {N_SEEDS} seeds, the second view replaced by noise of the same variances: {_SETTING}",
    run=run_noise_view,
    summarise=summarise_noise_view,
)
