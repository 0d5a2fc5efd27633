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
from zlib import crc32

import numpy as np
from sklearn.metrics import root_mean_squared_error

from corank import random_split
from studies.data import REGRESSION, Floats, regression_names, regression_set
from studies.questions.methods import (
    CHOICES,
    REGRESSOR,
    SUPERVISED,
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
from studies.verdicts import mean_interval

N_REPEATS, N_FOLDS = 5, 10
SAME_ROWS = (("cpu", "machine_cpu"), ("cholesterol", "cleveland"))
QUICK = ("baskball", "pollution", "sleep")
LIMIT = 1.01
METHODS = regressors(kernel="rbf")
SetResults = dict[str, list[dict[str, Result]]]  # set → one entry per repeat, by method


def parts(settings: Settings) -> list[Part]:
    """One part per set, repeat and method."""
    names = QUICK if settings.quick else regression_names(settings.folder)
    repeats = 1 if settings.quick else N_REPEATS
    return draw_parts(run, [(name, repeat) for name in names for repeat in range(repeats)], METHODS)


def run(settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod) -> Result:
    """The error of a method on the unscored rows of a set."""
    name, repeat = str(draw[0]), int(draw[1])
    data = regression_set(settings.folder, name).standardised()
    rng = np.random.default_rng([repeat, crc32(name.encode())])
    scored, *folds = np.array_split(rng.permutation(len(data.y)), N_FOLDS)
    unscored = np.concatenate(folds)
    views = random_split(2, data.attributes).views(data.X.shape[1], rng)
    y = np.full(len(data.y), np.nan)
    y[scored] = data.y[scored]
    model = make(method, views, repeat).fit(data.X, y)
    error = root_mean_squared_error(data.y[unscored], model.predict(data.X[unscored]))
    return {"error": float(error), "scored": len(scored), "unscored": len(unscored), **choice_of(model)}


def conclude(settings: Settings, results: Results) -> Outcome:
    """Errors beside those of RLS, over sets and set by set."""
    methods = method_titles(results)
    sets: SetResults = {}
    for (name, _), by_method in by_draw(results).items():
        sets.setdefault(str(name), []).append(by_method)
    ratios = {method: {name: _log_ratios(repeats, method) for name, repeats in sets.items()} for method in methods}
    means = {method: _merged({name: float(r.mean()) for name, r in ratios[method].items()}) for method in methods}
    overall = [_overall_row(method, means[method]) for method in methods if method != SUPERVISED]
    head = ("method", "mean log ratio to RLS", "95 % interval over sets", "ratio", "sets better", "worst set")
    counts = {name: choice_counts(by_method[REGRESSOR] for by_method in repeats) for name, repeats in sets.items()}
    total = [sum(column) for column in zip(*counts.values(), strict=True)]
    upper = mean_interval(means[REGRESSOR])[1]
    claim = f"{REGRESSOR} ÷ RLS: upper 95 % bound of the mean log ratio at most log {LIMIT} = {np.log(LIMIT):.5f}"
    tables = [
        Table(f"Error beside RLS, {len(means[REGRESSOR])} sets", head, overall),
        choice_table(REGRESSOR, [("fits", total)]),
        _set_table(sets, ratios, counts),
    ]
    finding = target(claim, f"{upper:+.5f}.", bool(upper <= np.log(LIMIT)))
    return Outcome(tables, [finding], n_fits=fit_count(results))


def _log_ratios(repeats: Sequence[Mapping[str, Result]], method: str) -> Floats:
    """Log of a method's error over that of RLS, one per repeat."""
    return np.log([by_method[method]["error"] / by_method[SUPERVISED]["error"] for by_method in repeats])


def _merged(values: dict[str, float]) -> Floats:
    """One value per set, those with the same rows averaged."""
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


def _set_table(
    sets: SetResults, ratios: Mapping[str, Mapping[str, Floats]], counts: Mapping[str, Sequence[int]]
) -> Table:
    others = [method for method in ratios if method != SUPERVISED]
    rows = []
    for name, repeats in sets.items():
        first = repeats[0][SUPERVISED]
        error = float(np.mean([by_method[SUPERVISED]["error"] for by_method in repeats]))
        cells = [f"{np.exp(ratios[method][name].mean()):.3f}" for method in others]
        choices = "/".join(map(str, counts[name]))
        rows.append((name, f"{first['scored']} + {first['unscored']}", f"{error:.4g}", *cells, choices))
    head = ("set", "scored + unscored", "rmse of RLS", *(f"{method} ÷ RLS" for method in others), "/".join(CHOICES))
    return Table("Set by set", head, rows, details=True)


STUDY = Study(
    name="regression",
    title="Thirty-two regression sets, random halves of the attributes as views",
    about=(
        "Columns standardised; one fold of ten scored, nine unscored, errors (rmse) on the unscored rows; "
        f"{N_REPEATS} repeats; rbf kernels, everything tuned on the scored rows. cpu and machine_cpu count as one "
        "set, and so do cholesterol and cleveland."
    ),
    parts=parts,
    conclude=conclude,
    files=REGRESSION,
    fixed_draws=True,
    with_results=True,
)
STUDIES = (STUDY,)
