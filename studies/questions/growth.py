"""How the error falls with scores: AutoRegressor and AutoRanker from 20 scores to 20,000 and from
16 queries to 180, beside tuned peers, with what they say of themselves and what they cost.

Protocol
--------
* regression: five sets of 8,192 to 40,000 rows and the small ones that have 400; as many scores as
  leave a fifth of the rows (at most 2,000) to test on. Within a draw the scored rows of a size
  contain those of the smaller sizes, and the test rows are the same. Up to 1,000 of the other rows
  are unscored. Columns are standardised over training rows. Error: root mean square over the
  spread of all scores of the set.
* ranking: LightGBM's ranking data, drawn in the same way by queries; 60 queries are tested on, up
  to 60 of the others are unscored. Disagreement and NDCG@10.
* peers choose among equally many settings by three folds of the scored rows (`growth_peers`); the
  Gaussian process, up to 1,000 scores, by evidence. The peer of a setting (a set and a number of
  scores) is the method of the lowest mean error over draws.
* time is processor time of `fit`, on one thread; memory what `fit` needs above what was there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np
from benchmarks.machine import machine
from benchmarks.measure import peak_memory_mb
from scipy import stats

from corank import AutoRanker, AutoRegressor
from corank.experiments import Task
from corank.metrics import disagreement_error, ndcg
from studies.data import (
    MEDIUM,
    MEDIUM_SETS,
    RANKING,
    REGRESSION,
    Floats,
    Rankings,
    RegressionSet,
    medium_set,
    rankings,
    regression_names,
    regression_set,
    stacked,
)
from studies.questions.default import rmse, standardised
from studies.questions.growth_peers import GP_MOST, N_SETTINGS, RANK_SETTINGS, fit_peer
from studies.questions.methods import Draw, DrawMethod, Results, by_draw, draw_parts, fit_count
from studies.study import (
    CANNOT_BE_TESTED,
    TARGET,
    Cell,
    Figure,
    Finding,
    Outcome,
    Panel,
    Part,
    Result,
    Series,
    Settings,
    Study,
    Table,
    target,
)
from studies.verdicts import growth, mean_interval

SIZES = (20, 50, 100, 300, 1000, 2000, 5000, 10_000, 20_000)
SMALLEST_SET, SMALL_SET_SIZE = 400, 300  # of the small sets only those, at this number of scores
TEST_SHARE, MOST_TESTED, MOST_UNSCORED = 0.2, 2000, 1000
HONEST_SIZES = (300, 2000, 10_000)  # where intervals and stated errors are judged
QUERY_COUNTS, TEST_QUERIES, UNSCORED_QUERIES = (16, 50, 100, 180), 60, 60
N_REPEATS, N_DRAWS = 3, 10
PLACES = 10  # of NDCG
QUICK_SIZES, QUICK_SETS = (50, 300), ("bike", "kin40k", "housing")

AUTO, WITHOUT = "the default", "the default, scored rows alone"
LIGHTGBM, GP = "LightGBM", "Gaussian process (a width per column)"
PEERS = {
    LIGHTGBM: "lightgbm-grid",
    "extra trees": "trees-grid",
    "histogram boosting": "boosting-grid",
    GP: "gp-widths",
}
LAMBDARANK = "LightGBM lambdarank"
RANK_PEERS = {
    "RankRLS (least squared error)": "rankrls-squared",
    "RankRLS (least disagreement)": "rankrls-disagreement",
}
Setting: TypeAlias = tuple[str, int]  # a set and its number of scores, or of queries
Means: TypeAlias = dict[str, dict[Setting, float]]  # method → setting → mean over draws


def parts(settings: Settings) -> list[Part]:
    """One part per draw and method, the long ones first."""
    found: list[Part] = []
    repeats = range(1 if settings.quick else N_REPEATS)
    for name, size in sorted(_settings(settings), key=lambda setting: -setting[1]):
        methods = [DrawMethod(AUTO, "auto")]
        if size in HONEST_SIZES:
            methods.append(DrawMethod(WITHOUT, "without"))
        for title, learner in PEERS.items():
            if learner != "gp-widths" or size <= GP_MOST:
                methods.append(DrawMethod(title, learner))
        found += draw_parts(run, [("regression", name, size, k) for k in repeats], methods)
    counts = QUERY_COUNTS[:1] if settings.quick else QUERY_COUNTS
    methods = [DrawMethod(AUTO, "auto"), DrawMethod(LAMBDARANK, "lambdarank-grid")]
    methods += [DrawMethod(title, learner) for title, learner in RANK_PEERS.items()]
    draws: list[Draw] = [
        ("ranking", "ranking", count, number)
        for count in reversed(counts)
        for number in range(1 if settings.quick else N_DRAWS)
    ]
    return found + draw_parts(run, draws, methods)


def _settings(settings: Settings) -> list[Setting]:
    """The sets and numbers of scores that leave enough rows to test on."""
    folder = settings.folder
    names = [*MEDIUM_SETS, *regression_names(folder)]
    if settings.quick and set(QUICK_SETS) <= set(names):
        names = list(QUICK_SETS)
    found = []
    for name in names:
        n = len(data_set(folder, name).y)
        sizes = SIZES if name in MEDIUM_SETS else (SMALL_SET_SIZE,) if n >= SMALLEST_SET else ()
        found += [
            (name, size)
            for size in sizes
            if size + tested(n) <= n and (size in QUICK_SIZES or not settings.quick)
        ]
    return found


def data_set(folder: Path, name: str) -> RegressionSet:
    """A regression set, not scaled."""
    return (medium_set if name in MEDIUM_SETS else regression_set)(folder, name)


def tested(n: int) -> int:
    """How many of n rows are tested on."""
    return min(MOST_TESTED, int(np.ceil(TEST_SHARE * n)))


def run(settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod) -> Result:
    """The test error of a method on a draw, and what its fit cost; for the defaults also what they
    say of themselves.
    """
    kind, name, size, number = str(draw[0]), str(draw[1]), int(draw[2]), int(draw[3])
    if kind == "ranking":
        task, truth = ranking_task(settings.folder, size, number)
        return _ranking(task, truth, method.learner, quick=settings.quick)
    task, truth, spread = regression_task(settings.folder, name, size, number)
    if method.learner in ("auto", "without"):
        return _default(task, truth, spread, with_unscored=method.learner == "auto")
    cost, fitted = measured(lambda: fit_peer(method.learner, task, quick=settings.quick))
    error = rmse(truth, fitted.predict(task.X_test)) / spread
    return {"error": error, "chosen": str(fitted.chosen), **cost}


def measured(call: Callable[[], Any]) -> tuple[Result, Any]:
    """Processor time, time by the clock, and memory above what was there; with what was called."""
    made: list[Any] = []
    begin, processor = time.perf_counter(), time.process_time()
    memory = peak_memory_mb(lambda: made.append(call()))
    if not made:  # memory cannot be measured here
        made.append(call())
    cost = {
        "seconds": time.process_time() - processor,
        "wall_seconds": time.perf_counter() - begin,
        "memory_mb": memory,
    }
    return cost, made[0]


# ---- rows of a draw


def regression_task(folder: Path, name: str, size: int, number: int) -> tuple[Task, Floats, float]:
    """The rows of a draw, the scores of the test rows, and the spread of all scores."""
    data = data_set(folder, name)
    n = len(data.y)
    order = np.random.default_rng([number, crc32(name.encode())]).permutation(n)
    others, test = np.split(order, [n - tested(n)])
    scored, unscored = others[:size], others[size : size + MOST_UNSCORED]
    X, X_test = standardised(data.X[np.concatenate([scored, unscored])], data.X[test])
    y = np.concatenate([data.y[scored], np.full(len(unscored), np.nan)])
    task = Task(X, y, None, X_test, None, None, "rmse", number)
    return task, data.y[test], float(data.y.std())


def ranking_task(folder: Path, size: int, number: int) -> tuple[Task, Floats]:
    """The rows of a draw of queries, and the scores of the test rows."""
    data = _all_rankings(folder)
    queries = np.random.default_rng([number, 17]).permutation(np.unique(data.qid))
    others, tested_queries = np.split(queries, [-min(TEST_QUERIES, len(queries) // 4)])
    scored = np.flatnonzero(np.isin(data.qid, others[:size]))
    unscored = np.flatnonzero(np.isin(data.qid, others[size:][:UNSCORED_QUERIES]))
    rows = data.take(np.concatenate([scored, unscored]))
    test = data.take(np.isin(data.qid, tested_queries))
    varies = np.ptp(rows.X, axis=0) > 0
    X, X_test = rows.X[:, varies], test.X[:, varies]
    y = np.concatenate([data.y[scored], np.full(len(unscored), np.nan)])
    task = Task(X, y, rows.qid, X_test, test.qid, None, "disagreement", number)
    return task, test.y


def _all_rankings(folder: Path) -> Rankings:
    train, test = rankings(folder)
    return stacked(train, Rankings(test.X, test.y, test.qid + train.qid.max() + 1))


# ---- fits


def _default(task: Task, truth: Floats, spread: float, *, with_unscored: bool) -> Result:
    """Errors and intervals are over the spread, squared errors over its square."""
    X, y = (task.X, task.y) if with_unscored else task.scored[:2]
    cost, model = measured(lambda: AutoRegressor(random_state=task.seed).fit(X, y))
    begin = time.process_time()
    mean, deviation = model.predict(task.X_test, return_std=True)
    predict_seconds = time.process_time() - begin
    inside = np.abs(truth - mean) <= stats.norm.ppf(0.975) * np.maximum(deviation, 1e-12)
    result = {
        "error": rmse(truth, mean) / spread,
        "inside": float(inside.mean()),
        "stated": float(model.held_out_error_) / spread**2,
        "predict_seconds": predict_seconds,
        "machine": machine()["cpu"],
        **cost,
    }
    if with_unscored and task.n_scored in HONEST_SIZES and (effect := model.unscored_effect_):
        result["verdict"] = effect.verdict
    return result


def _ranking(task: Task, truth: Floats, learner: str, *, quick: bool) -> Result:
    if learner == "auto":
        cost, model = measured(
            lambda: AutoRanker(random_state=task.seed).fit(task.X, task.y, qid=task.qid)
        )
        predicted = model.predict(task.X_test, qid=task.qid_test)
        about: Result = {"stated": float(model.held_out_error_)}
    else:
        cost, fitted = measured(lambda: fit_peer(learner, task, quick=quick))
        predicted = fitted.predict(task.X_test)
        about = {"chosen": str(fitted.chosen)}
    return {
        "error": float(disagreement_error(truth, predicted, qid=task.qid_test)),
        "ndcg": float(ndcg(truth, predicted, qid=task.qid_test, k=PLACES)),
        **about,
        **cost,
    }


# ---- what the errors say

Draws: TypeAlias = Mapping[Draw, Mapping[str, Result]]


def conclude(settings: Settings, results: Results) -> Outcome:
    """Ratios to the peers, whether more is better, honesty, and what it costs."""
    draws = by_draw(results)
    regression = {draw: found for draw, found in draws.items() if draw[0] == "regression"}
    orders = {draw: found for draw, found in draws.items() if draw[0] == "ranking"}
    errors, disagreements = _means(regression, "error"), _means(orders, "error")
    gains = _means(orders, "ndcg")
    honesty, honest = _honesty(regression)
    tables = [
        _ratio_table(errors),
        _error_table("Regression: error over the spread of the scores", errors, "set, scores"),
        _error_table("Ranking: disagreement", disagreements, "data, queries"),
        _error_table(f"Ranking: NDCG@{PLACES}", gains, "data, queries"),
        honesty,
        _cost_table(draws),
    ]
    findings = [
        *_regression_findings(errors),
        _more_is_better("regression", errors.get(AUTO, {})),
        _more_is_better("ranking", disagreements.get(AUTO, {})),
        *_ranking_findings(disagreements, gains),
        *honest,
    ]
    figures = [
        _error_figure(regression, errors),
        _ranking_figure(disagreements, gains),
        _cost_figure(regression),
    ]
    machines = {str(found[AUTO]["machine"]) for found in regression.values() if AUTO in found}
    notes = [f"Times and memory of the defaults were measured on {', '.join(sorted(machines))}."]
    return Outcome(tables, findings, figures, notes, n_fits=fit_count(results))


def _means(draws: Draws, value: str) -> Means:
    lists: dict[str, dict[Setting, list[float]]] = {}
    for (_, name, size, _), by_method in draws.items():
        for method, result in by_method.items():
            if result.get(value) is not None:
                found = lists.setdefault(method, {}).setdefault((str(name), int(size)), [])
                found.append(float(result[value]))
    return {
        method: {setting: float(np.mean(values)) for setting, values in found.items()}
        for method, found in lists.items()
    }


def _ratios(errors: Means, peers: Iterable[str]) -> dict[Setting, float]:
    """Of the default to the best of the peers that were fitted, by setting."""
    peers = list(peers)
    ratios = {}
    for setting, error in errors.get(AUTO, {}).items():
        others = [errors[peer][setting] for peer in peers if setting in errors.get(peer, {})]
        if others:
            ratios[setting] = error / min(others)
    return ratios


def _at(ratios: Mapping[Setting, float], sizes: Iterable[int]) -> dict[Setting, float]:
    sizes = set(sizes)
    return {setting: ratio for setting, ratio in ratios.items() if setting[1] in sizes}


def _geometric(ratios: Mapping[Setting, float]) -> float:
    return float(np.exp(np.mean(np.log(list(ratios.values())))))


def _with_interval(ratios: Mapping[Setting, float]) -> str:
    """A geometric mean with its bootstrap interval over the settings."""
    if len(ratios) < 2:
        return f"{_geometric(ratios):.3f}"
    low, high = np.exp(mean_interval(np.log(list(ratios.values()))))
    return f"{_geometric(ratios):.3f} ({low:.3f} to {high:.3f})"


def _worst(ratios: Mapping[Setting, float]) -> str:
    (name, size), ratio = max(ratios.items(), key=lambda entry: entry[1])
    return f"{ratio:.3f} ({name}, {size:,})"


def _untested(claim: str) -> Finding:
    return Finding(TARGET, claim, CANNOT_BE_TESTED, "No such setting was run.")


def _mean_at_most(claim: str, ratios: Mapping[Setting, float], limit: float) -> Finding:
    claim = f"{claim}: geometric mean at most {limit:.2f}"
    if not ratios:
        return _untested(claim)
    several = "" if len(ratios) == 1 else f", {len(ratios)} settings"
    return target(claim, f"{_with_interval(ratios)}{several}.", _geometric(ratios) <= limit)


def _none_above(claim: str, ratios: Mapping[Setting, float], limit: float) -> Finding:
    claim = f"{claim}: no setting above {limit:.2f}"
    if not ratios:
        return _untested(claim)
    return target(claim, f"{_worst(ratios)}.", max(ratios.values()) <= limit)


def _regression_findings(errors: Means) -> list[Finding]:
    ratios = _ratios(errors, PEERS)
    at_kin40k = {entry: ratio for entry, ratio in ratios.items() if entry[0] == "kin40k"}
    even = {entry: ratio for entry, ratio in ratios.items() if entry[0] in ("pol", "elevators")}
    over = "regression, over the best peer"
    return [
        _mean_at_most(f"{over}, 300 scores", _at(ratios, [300]), 0.94),
        _mean_at_most(f"{over}, 1,000 scores", _at(ratios, [1000]), 0.85),
        _mean_at_most(f"{over}, 2,000 to 10,000 scores", _at(ratios, SIZES[5:8]), 0.60),
        _mean_at_most(f"{over}, kin40k, 20,000 scores", _at(at_kin40k, [20_000]), 0.50),
        _mean_at_most(
            f"{over}, pol and elevators, from 2,000 scores on", _at(even, SIZES[5:]), 0.92
        ),
        _none_above(f"{over}, 300 scores", _at(ratios, [300]), 1.12),
        _none_above(f"{over}, from 1,000 scores on", _at(ratios, SIZES[4:]), 1.05),
    ]


def _more_is_better(what: str, errors: Mapping[Setting, float]) -> Finding:
    """The error at each size over that at the next smaller one."""
    claim = f"{what}, more is better: error over that at the next smaller size at most 1.02"
    steps = {}
    for name in dict.fromkeys(name for name, _ in errors):
        sizes = sorted(size for other, size in errors if other == name)
        for smaller, larger in pairwise(sizes):
            steps[name, larger] = errors[name, larger] / errors[name, smaller]
    if not steps:
        return _untested(claim)
    return target(claim, f"{_worst(steps)}, {len(steps)} steps.", max(steps.values()) <= 1.02)


def _ranking_findings(errors: Means, gains: Means) -> list[Finding]:
    over_trees, over_grid = _ratios(errors, [LAMBDARANK]), _ratios(errors, RANK_PEERS)
    trees, grid = "ranking, over LightGBM", "ranking, over the best RankRLS of a grid"
    claim = f"ranking, NDCG@{PLACES} less that of LightGBM: at least −0.005"
    gaps = {
        setting: gain - gains[LAMBDARANK][setting]
        for setting, gain in gains.get(AUTO, {}).items()
        if setting in gains.get(LAMBDARANK, {})
    }
    ndcg_finding = _untested(claim)
    if gaps:
        shown = ", ".join(f"{gap:+.4f} at {size}" for (_, size), gap in sorted(gaps.items()))
        ndcg_finding = target(claim, f"{shown} queries.", min(gaps.values()) >= -0.005)
    return [
        _mean_at_most(trees, over_trees, 0.92),
        _none_above(trees, over_trees, 0.96),
        _mean_at_most(grid, over_grid, 0.98),
        _none_above(grid, over_grid, 1.00),
        ndcg_finding,
    ]


def _honesty(draws: Draws) -> tuple[Table, list[Finding]]:
    """Intervals, stated errors, and what was said of unscored rows, by numbers of scores."""
    rows: list[tuple[Cell, ...]] = []
    findings = []
    said: list[bool] = []
    for size in HONEST_SIZES:
        fits = {draw: found[AUTO] for draw, found in draws.items() if draw[2] == size}
        said_here = _true_words({draw: found for draw, found in draws.items() if draw[2] == size})
        said += said_here
        scores = f"{size:,} scores"
        claims = (
            f"{scores}: 95 % intervals hold 92 to 97 % in the mean over sets",
            f"{scores}: 95 % intervals hold at least 85 % on every set",
            f"{scores}: stated over true squared error, geometric mean of 0.95 to 1.08",
        )
        if not fits:
            findings += [_untested(claim) for claim in claims]
            continue
        inside = _means({draw: {AUTO: fit} for draw, fit in fits.items()}, "inside")[AUTO]
        mean = float(np.mean(list(inside.values())))
        lowest, share = min(inside.items(), key=lambda entry: entry[1])
        logs = [np.log(fit["stated"] / fit["error"] ** 2) for fit in fits.values()]
        stated = float(np.exp(np.mean(logs)))
        low, high = np.exp(mean_interval(logs))
        shown = f"{stated:.3f} ({low:.3f} to {high:.3f})"
        findings += [
            target(claims[0], f"{mean:.3f}, {len(inside)} sets.", 0.92 <= mean <= 0.97),
            target(claims[1], f"{share:.3f} ({lowest[0]}).", share >= 0.85),
            target(claims[2], f"{shown}, {len(fits)} fits.", 0.95 <= stated <= 1.08),
        ]
        true = f"{sum(said_here)} of {len(said_here)}"
        rows.append((scores, f"{mean:.3f}", f"{share:.3f} ({lowest[0]})", shown, true))
    claim = '"helped" and "hurt" are true in 95 % of the cases'
    findings.append(
        target(claim, f"{sum(said)} of {len(said)}.", sum(said) >= 0.95 * len(said))
        if said
        else _untested(claim)
    )
    head = (
        "",
        "share within 95 % intervals, mean over sets",
        "least of a set",
        "stated over true squared error",
        '"helped" or "hurt", and true',
    )
    return Table("Honesty of AutoRegressor", head, rows), findings


def _true_words(draws: Draws) -> list[bool]:
    """Whether "helped" and "hurt" were true on the test rows, one entry per case."""
    said = []
    for found in draws.values():
        verdict = found[AUTO].get("verdict")
        if verdict in ("helped", "hurt") and WITHOUT in found:
            helped = found[AUTO]["error"] < found[WITHOUT]["error"]
            said.append(helped == (verdict == "helped"))
    return said


# ---- tables and figures


def _ratio_table(errors: Means) -> Table:
    """The default over the best peer and over each of them, by numbers of scores."""
    peers = [peer for peer in PEERS if peer in errors]
    rows: list[tuple[Cell, ...]] = []
    for size in SIZES:
        groups = [_at(_ratios(errors, group), [size]) for group in (peers, *([p] for p in peers))]
        if groups[0]:
            cells = [_with_interval(ratios) if ratios else None for ratios in groups]
            rows.append((f"{size:,}", *cells, _worst(groups[0]), len(groups[0])))
    head = ("scores", "the best of all", *peers, "worst setting, over the best", "settings")
    title = "Regression: error of the default over that of peers, geometric means"
    return Table(title, head, rows)


def _error_table(title: str, values: Means, first: str) -> Table:
    methods = [method for method in values if method != WITHOUT]
    settings = sorted({setting for method in methods for setting in values[method]})
    rows: list[tuple[Cell, ...]] = [
        (f"{name}, {size:,}", *(values[method].get((name, size)) for method in methods))
        for name, size in settings
    ]
    return Table(title, (first, *methods), rows, digits=4, details="over" in title)


def _cost_table(draws: Draws) -> Table:
    """What fits cost, means over draws."""
    peers = list(dict.fromkeys([*PEERS, LAMBDARANK, *RANK_PEERS]))
    rows: list[tuple[Cell, ...]] = []
    seconds, memory = _means(draws, "seconds"), _means(draws, "memory_mb").get(AUTO, {})
    predicting = _means(draws, "predict_seconds").get(AUTO, {})
    for name, size in sorted(seconds.get(AUTO, {})):
        setting = name, size
        row: list[Cell] = [
            f"{name}, {size:,}",
            seconds[AUTO][setting],
            round(memory[setting]) if setting in memory else None,
            predicting.get(setting),
        ]
        row += [seconds.get(peer, {}).get(setting) for peer in peers]
        rows.append(tuple(row))
    head = (
        "set, scores or queries",
        "fit of the default, s",
        "its memory, MB",
        "predict of test rows, s",
        *(f"{peer}, tuned, s" for peer in peers),
    )
    note = "Processor seconds on one thread, with other fits on the other cores of the machine."
    return Table("Time and memory", head, rows, digits=2, note=note, details=True)


def _line(
    name: str, values: Mapping[Setting, float], of: str, band: Mapping[int, Sequence[float]] = {}
) -> Series:
    """The values of one set by size; `band`: all that were measured at each size."""
    sizes = sorted(size for other, size in values if other == of)
    bands = [band[size] for size in sizes] if band else None
    return Series(
        name,
        sizes,
        [values[of, size] for size in sizes],
        None if bands is None else [min(entries) for entries in bands],
        None if bands is None else [max(entries) for entries in bands],
    )


def _error_figure(draws: Draws, errors: Means) -> Figure:
    methods = [method for method in (AUTO, *PEERS) if method in errors]
    panels = []
    for name in dict.fromkeys(name for name, _ in errors.get(AUTO, {}) if name in MEDIUM_SETS):
        of_default: dict[int, list[float]] = {}
        for (_, other, size, _), found in draws.items():
            if other == name:
                of_default.setdefault(int(size), []).append(found[AUTO]["error"])
        lines = [
            _line(method, errors[method], name, of_default if method == AUTO else {})
            for method in methods
        ]
        panels.append(
            Panel(name, "scores", "error over spread", lines, "xy", ticks=(20, 300, 2000, 20_000))
        )
    caption = (
        "How the error falls with scores: the default beside tuned peers. The band is from the"
        " least to the greatest error of the draws."
    )
    return Figure("errors", caption, panels)


def _ranking_figure(errors: Means, gains: Means) -> Figure:
    panels = [
        Panel(
            title,
            "queries",
            title,
            [_line(method, values[method], "ranking") for method in values],
            "x",
            ticks=QUERY_COUNTS,
        )
        for title, values in (("disagreement", errors), (f"NDCG@{PLACES}", gains))
    ]
    return Figure("ranking", "LightGBM's ranking data: AutoRanker beside tuned peers.", panels)


def _cost_figure(draws: Draws) -> Figure:
    panels = []
    for title, key in (("processor seconds", "seconds"), ("memory, MB", "memory_mb")):
        values = _means(draws, key).get(AUTO, {})
        lines = []
        for name in dict.fromkeys(name for name, _ in values if name in MEDIUM_SETS):
            line = _line(name, values, name)
            if len(line.x) > 1 and min(line.y) > 0:
                power = growth(line.x[-3:], line.y[-3:])
                line = _line(f"{name}: size to the power {power:.1f}", values, name)
            lines.append(line)
        panels.append(Panel(title, "scores", title, lines, "xy", ticks=(20, 300, 2000, 20_000)))
    caption = (
        "How time and memory of one fit of AutoRegressor grow; the powers are those of the three"
        " largest sizes."
    )
    return Figure("costs", caption, panels)


STUDY = Study(
    name="growth",
    title="How the error falls with scores",
    about=(
        "AutoRegressor() from 20 to 20,000 scores on five sets of 8,192 to 40,000 rows and at 300 on"
        " the small sets that have 400 rows, with up to 1,000 unscored rows; a fifth of the rows, at"
        " most 2,000, are tested on, never unscored ones. AutoRanker() at 16 to 180 queries of"
        " LightGBM's ranking data. Three draws, ten for ranking; within a draw more scores contain"
        f" the fewer. Trees choose among {N_SETTINGS} settings each by three folds,"
        f" LightGBM's lambdarank and RankRLS among {RANK_SETTINGS} each by held-out queries; the"
        " Gaussian process has a width per column, white noise and three restarts, up to 1,000"
        " scores. The peer of a setting is the method of the lowest mean error over draws. Errors"
        " are root mean squares over the spread of the scores; ratios are summed up by geometric"
        " means, with bootstrap intervals over the settings. Time is processor time on one thread."
    ),
    parts=parts,
    conclude=conclude,
    files=(*MEDIUM, *REGRESSION, *RANKING),
    fixed_draws=True,
    optional=("lightgbm",),
)
STUDIES = (STUDY,)
