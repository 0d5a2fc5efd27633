"""Thirty-two small regression sets with random halves of the attributes as views: does the chooser keep out of trouble?

Protocol: columns standardised over all rows, constant ones dropped. A repeat divides the rows at random into ten
folds; the first is scored, the other nine are unscored, and the root mean squared error is taken on those. Five
repeats. A repeat also divides the *attributes* in two (all columns of a nominal attribute go together); all learners
with views get the same halves. rbf kernels, everything tuned by the library. A set's log error ratio is the mean over
its repeats; sets that share their rows (cpu and machine_cpu, cholesterol and cleveland) count as one, with the mean
of their ratios. Bootstrap intervals are over sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
from sklearn.metrics import root_mean_squared_error

from corank import random_split
from corank.experiments.uncertainty import mean_interval
from studies.questions.data import REGRESSION, Floats, regression_names, regression_set
from studies.questions.methods import CHOICES, REGRESSOR, SUPERVISED, choice_table, choices, chosen, make, regressors
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

N_REPEATS, N_FOLDS = 5, 10
SAME_ROWS = (("cpu", "machine_cpu"), ("cholesterol", "cleveland"))
QUICK = ("baskball", "pollution", "sleep")
LIMIT = 1.01
METHODS = regressors(kernel="rbf")


def jobs(options: Options) -> list[Job]:
    names = QUICK if options.quick else regression_names(options.folder)
    repeats = 1 if options.quick else N_REPEATS
    return all_jobs([(name, repeat) for name in names for repeat in range(repeats)], METHODS)


def run(options: Options, job: Job) -> Result:
    name, repeat = str(job.draw[0]), int(job.draw[1])
    data = regression_set(options.folder, name).standardised()
    rng = np.random.default_rng([repeat, crc32(name.encode())])
    scored, *rest = np.array_split(rng.permutation(len(data.y)), N_FOLDS)
    unscored = np.concatenate(rest)
    views = random_split(2, data.attributes).views(data.X.shape[1], rng)
    y = np.full(len(data.y), np.nan)
    y[scored] = data.y[scored]
    model = make(job.method, views, repeat).fit(data.X, y)
    error = root_mean_squared_error(data.y[unscored], model.predict(data.X[unscored]))
    return {"error": float(error), "scored": len(scored), "unscored": len(unscored), **chosen(model)}


def summarise(records: Sequence[Record]) -> Summary:
    draws, methods = by_draw(records), method_titles(records)
    sets: dict[str, list[dict[str, Result]]] = {}
    for (name, _), results in draws.items():
        sets.setdefault(str(name), []).append(results)
    ratios = {method: {name: _log_ratios(own, method) for name, own in sets.items()} for method in methods}
    counted = {method: _merged({name: float(r.mean()) for name, r in own.items()}) for method, own in ratios.items()}
    overall = [_overall_row(method, counted[method]) for method in methods if method != SUPERVISED]
    head = ("method", "mean log ratio to RLS", "95 % interval over sets", "ratio", "sets better", "worst set")
    picks = {name: choices(results[REGRESSOR] for results in own) for name, own in sets.items()}
    total = [sum(counts) for counts in zip(*picks.values(), strict=True)]
    upper = mean_interval(counted[REGRESSOR])[1]
    text = f"{REGRESSOR} ÷ RLS: upper 95 % bound of the mean log ratio at most log {LIMIT} = {np.log(LIMIT):.5f}"
    return Summary(
        [
            Table(f"Error beside RLS, {len(counted[REGRESSOR])} sets", head, overall),
            choice_table(REGRESSOR, [("fits", total)]),
            _set_table(sets, ratios, picks),
        ],
        [Target(text, upper, f"{upper:+.5f}", bool(upper <= np.log(LIMIT)))],
    )


def _log_ratios(results: Sequence[Mapping[str, Result]], method: str) -> Floats:
    """Log of a method's error over that of RLS, one a repeat."""
    return np.log([own[method]["error"] / own[SUPERVISED]["error"] for own in results])


def _merged(values: dict[str, float]) -> Floats:
    """One value a set, those with the same rows averaged."""
    groups = [tuple(name for name in group if name in values) for group in SAME_ROWS]
    together = {name for group in groups for name in group}
    alone = [value for name, value in values.items() if name not in together]
    return np.asarray(alone + [float(np.mean([values[name] for name in group])) for group in groups if group])


def _overall_row(method: str, logs: Floats) -> tuple[str, ...]:
    low, high = mean_interval(logs)
    return (
        method,
        f"{logs.mean():+.4f}",
        f"{low:+.4f} to {high:+.4f}",
        f"{np.exp(logs.mean()):.4f}",
        f"{int((logs < 0).sum())} of {len(logs)}",
        f"{np.exp(logs.max()):.3f}",
    )


def _set_table(sets: Mapping[str, Any], ratios: Mapping[str, Mapping[str, Floats]], picks: Mapping[str, Any]) -> Table:
    others = [method for method in ratios if method != SUPERVISED]
    rows = []
    for name, results in sets.items():
        first = results[0][SUPERVISED]
        error = float(np.mean([own[SUPERVISED]["error"] for own in results]))
        cells = [f"{np.exp(ratios[method][name].mean()):.3f}" for method in others]
        rows.append(
            (name, f"{first['scored']} + {first['unscored']}", f"{error:.4g}", *cells, "/".join(map(str, picks[name])))
        )
    head = ("set", "scored + unscored", "rmse of RLS", *(f"{method} ÷ RLS" for method in others), "/".join(CHOICES))
    return Table("Set by set", head, rows)


STUDY = Study(
    name="regression",
    title="Thirty-two regression sets, random halves of the attributes as views",
    about=(
        "Columns standardised; one fold of ten scored, nine unscored, errors (rmse) on the unscored rows; "
        f"{N_REPEATS} repeats; rbf kernels, everything tuned on the scored rows. cpu and machine_cpu count as one "
        "set, and so do cholesterol and cleveland."
    ),
    draw_names=("set", "repeat"),
    protocol=1,
    jobs=jobs,
    run=run,
    summarise=summarise,
    needs=REGRESSION,
)
