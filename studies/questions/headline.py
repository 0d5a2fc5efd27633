"""The headline: error against the number of scored queries (papers) on four real sets, for corank
and for trees.

Protocol: scored training queries are the first of a random order, so that larger numbers contain
smaller ones; unscored ones are others of the same order; test queries are the same in every draw.
Jester: 20 jokes of a user, described by the ratings of 100 other users. Ranking: LightGBM's own
split, 50 test queries. Sushi: 10 kinds per user, described by kind and user. Cora: papers labelled
as in `cora` (half of them of the class), error on papers that are neither labelled nor among the
unscored ones, words and links as views; elsewhere views are random halves of the columns. All
methods but XGBoost come from `corank.experiments`: each tries 200 settings on the scored rows alone. Errors are
disagreements on test queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from corank import View, random_split
from corank.experiments import Task
from corank.experiments.verdict import (
    corrected_resampled,
    holm,
    over_repeats,
    signed_rank,
    two_way_interval,
)
from corank.metrics import disagreement_error
from studies.data import (
    CORA,
    JESTER,
    RANKING,
    SUSHI,
    Floats,
    Rankings,
    Ratings,
    cora,
    jester,
    rankings,
    sushi,
)
from studies.peers import fit_method
from studies.questions.cora import labelled
from studies.questions.methods import (
    Draw,
    DrawMethod,
    Results,
    by_draw,
    draw_parts,
    fit_count,
    method_titles,
)
from studies.study import Figure, Outcome, Panel, Part, Result, Series, Settings, Study, Table
from studies.verdicts import mean_interval

METHODS = {
    "supervised": "rankrls",
    "co-regularised": "corankrls",
    "views averaged": "averaged",
    "AutoRanker": "auto",
    "pursuit": "pursuit",
    "LightGBM": "lightgbm",
    "XGBoost": "xgboost",
}
SIZES = {
    "jester": (2, 4, 8, 16),
    "ranking": (4, 8, 16, 32),
    "sushi": (4, 8, 16, 32),
    "cora": (20, 50, 100),
}
UNSCORED = {"jester": 40, "ranking": 60, "sushi": 60, "cora": 600}  # queries; papers
N_DRAWS, N_TEST, N_JOKES = 10, 60, 20
TITLES = {
    "jester": "Jester",
    "ranking": "LightGBM's ranking data",
    "sushi": "sushi",
    "cora": "Cora",
}
LEVEL = 0.05
HIDDEN = "views averaged"  # in the figure: mostly below co-regularised


def parts(settings: Settings) -> list[Part]:
    """One part per set, number of scored queries, draw and method."""
    methods = [DrawMethod(title, name) for title, name in METHODS.items()]
    sizes = {name: counts[:1] for name, counts in SIZES.items()} if settings.quick else SIZES
    numbers = range(1 if settings.quick else N_DRAWS)
    draws: list[Draw] = [
        (name, size, number) for number in numbers for name in sizes for size in sizes[name]
    ]
    return draw_parts(run, draws, methods)


def run(settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod) -> Result:
    """Disagreements of a method on the test queries."""
    name, size, number = str(draw[0]), int(draw[1]), int(draw[2])
    if name == "cora":
        task, scores = _cora_task(settings.folder, size, number)
    else:
        task, scores = query_task(settings.folder, name, size, number)
    fitted = fit_method(method.learner, task)
    errors = disagreement_error(
        scores, fitted.predict(task.X_test), qid=task.qid_test, average=False
    )
    return {
        "errors": [None if np.isnan(error) else round(float(error), 6) for error in errors],
        "chosen": fitted.chosen,
        "n_scored": task.n_scored,
    }


def query_task(folder: Path, name: str, size: int, number: int) -> tuple[Task, Floats]:
    """Training queries in random order, the first of them scored; the test queries are the same in
    every draw.
    """
    train, test = _sets(folder, name)
    rng = np.random.default_rng([number, 11])
    order = rng.permutation(np.unique(train.qid))
    scored = np.flatnonzero(np.isin(train.qid, order[:size]))
    unscored = np.flatnonzero(np.isin(train.qid, order[::-1][: UNSCORED[name]]))
    rows = np.concatenate([scored, unscored])
    X, X_test = (
        _standardised(train.X[rows], test.X)
        if name != "ranking"
        else _varying(train.X[rows], test.X)
    )
    y = np.concatenate([train.y[scored], np.full(len(unscored), np.nan)])
    return (
        Task(X, y, train.qid[rows], X_test, test.qid, random_split(2), "disagreement", number),
        test.y,
    )


@lru_cache(maxsize=4)
def _sets(folder: Path, name: str) -> tuple[Rankings, Rankings]:
    if name == "ranking":
        return rankings(folder)
    ratings: Ratings = jester(folder) if name == "jester" else sushi(folder)
    rng = np.random.default_rng(12)
    enough = np.flatnonzero(
        (~np.isnan(ratings.scores)).sum(axis=1) >= (N_JOKES if name == "jester" else 10)
    )
    users = rng.permutation(enough)
    count = N_JOKES if name == "jester" else None
    return ratings.drawn(users[N_TEST : N_TEST + 200], count, rng), ratings.drawn(
        users[:N_TEST], count, rng
    )


def _standardised(X: Floats, other: Floats) -> tuple[Floats, Floats]:
    centre, spread = X.mean(axis=0), X.std(axis=0)
    varies = spread > 0
    return (X[:, varies] - centre[varies]) / spread[varies], (
        other[:, varies] - centre[varies]
    ) / spread[varies]


def _varying(X: Floats, other: Floats) -> tuple[Floats, Floats]:
    varies = np.ptp(X, axis=0) > 0
    return X[:, varies], other[:, varies]


def _cora_task(folder: Path, size: int, number: int) -> tuple[Task, Floats]:
    """Papers of one class above the others; tested are those neither labelled nor among the
    unscored ones.
    """
    data = cora(folder)
    truth = (data.label == number % 7).astype(float)
    order = np.random.default_rng([number, 13]).permutation(len(truth))
    scored = labelled(order, truth, size, half=True)
    others = order[::-1][~np.isin(order[::-1], scored)]
    unscored, test = others[: UNSCORED["cora"]], others[UNSCORED["cora"] :]
    X: Any = sparse.csr_array(sparse.hstack([data.words, data.links], format="csr"))
    n_words = data.words.shape[1]
    views = [View(slice(0, n_words), name="words"), View(slice(n_words, None), name="links")]
    y = np.concatenate([truth[scored], np.full(len(unscored), np.nan)])
    task = Task(
        X[np.concatenate([scored, unscored])], y, None, X[test], None, views, "disagreement", number
    )
    return task, truth[test]


# ---- what the errors say

# method, number of scored queries → (draws, test queries), one column on Cora
Errors = dict[tuple[str, int], Floats]


def conclude(settings: Settings, results: Results) -> Outcome:
    """Errors by number of scored queries, verdicts against supervised learning, and learning
    curves.
    """
    draws, titles = by_draw(results), method_titles(results)
    tables, notes, panels = [], [], []
    for name in dict.fromkeys(str(draw[0]) for draw in draws):
        sizes = sorted({int(draw[1]) for draw in draws if draw[0] == name})
        errors = {
            (method, size): _errors(draws, name, size, method)
            for method in titles
            for size in sizes
        }
        unit = "papers" if name == "cora" else "queries"
        rows = [(method, *(_cell(errors[method, size]) for size in sizes)) for method in titles]
        head = ("method", *(f"{size} scored {unit}" for size in sizes))
        tables.append(Table(f"{TITLES[name]}: disagreement with 95 % intervals", head, rows))
        for size in sizes:
            by_method = {method: errors[method, size] for method in titles}
            notes.append(_verdict(f"{TITLES[name]}, {size} scored {unit}", by_method))
        panels.append(_panel(name, unit, sizes, errors))
    caption = (
        "Disagreement on test queries against the number of scored queries (papers), with 95 %"
        " bands."
    )
    figure = Figure("curves", caption, panels)
    return Outcome(tables, figures=[figure], notes=notes, n_fits=fit_count(results))


def _errors(
    draws: Mapping[Draw, Mapping[str, Result]], name: str, size: int, method: str
) -> Floats:
    """(draws, test queries), one column on Cora."""
    errors = [
        by_method[method]["errors"] for draw, by_method in draws.items() if draw[:2] == (name, size)
    ]
    return np.asarray(errors, dtype=float)


def _panel(name: str, unit: str, sizes: Sequence[int], errors: Errors) -> Panel:
    series = []
    for method in METHODS:
        if method == HIDDEN or (method, sizes[0]) not in errors:
            continue
        tables = [errors[method, size] for size in sizes]
        ends = [interval(table) for table in tables]
        means = [float(np.nanmean(table)) for table in tables]
        series.append(
            Series(method, sizes, means, [low for low, _ in ends], [high for _, high in ends])
        )
    return Panel(
        TITLES[name], f"scored {unit}", "disagreement on test queries", series, log="x", ticks=sizes
    )


def interval(errors: Floats) -> tuple[float, float]:
    """Over draws and queries, both drawn again; over draws where there are no queries."""
    if errors.shape[1] == 1:
        return mean_interval(errors[:, 0])
    return two_way_interval(errors[:, ~np.isnan(errors).any(axis=0)])


def _cell(errors: Floats) -> str:
    low, high = interval(errors)
    return f"{np.nanmean(errors):.3f} ({low:.3f} to {high:.3f})"


def _verdict(title: str, errors: dict[str, Floats]) -> str:
    """Every method against supervised: over queries averaged over draws; on Cora over draws, with
    the correction.
    """
    base = errors["supervised"]
    others = [method for method in errors if method != "supervised"]
    if base.shape[0] < 2:
        return f"{title}: too few draws to judge by"
    gaps = {method: over_repeats(errors[method]) - over_repeats(base) for method in others}
    if base.shape[1] == 1:
        p_values = [
            corrected_resampled((errors[method] - base)[:, 0], 0.8, 0.2)[0] for method in others
        ]
    else:
        p_values = [signed_rank(gaps[method]) for method in others]
    verdicts = []
    for method, p in zip(others, holm(p_values), strict=True):
        gap = float(np.nanmean(gaps[method]))
        low, high = interval(errors[method] - base)
        clear = p <= LEVEL and (high < 0 or low > 0)
        verdict = ("better" if gap < 0 else "worse") if clear else "cannot tell"
        verdicts.append(f"{method} {gap:+.3f} ({verdict})")
    return f"{title}, against supervised: " + ", ".join(verdicts)


STUDY = Study(
    name="headline",
    title="Error against the number of scores",
    about=(
        f"Four real sets, {N_DRAWS} draws each. Jester and sushi: a query is a user, {N_TEST} test"
        " users; LightGBM's ranking data: its own 50 test queries; Cora: one class of papers above"
        f" the rest, words and links as views. Unscored rows: {UNSCORED['jester']},"
        f" {UNSCORED['sushi']} and {UNSCORED['ranking']} queries, {UNSCORED['cora']} papers. Every"
        " method tries 200 settings on the scored rows alone. Verdicts: Wilcoxon's test over test"
        " queries (averaged over draws) or, on Cora, the corrected resampled t-test over draws; p"
        " at most 0.05 after Holm's correction, and a 95 % interval over draws and queries"
        " without 0."
    ),
    parts=parts,
    conclude=conclude,
    files=(*JESTER, *RANKING, *SUSHI, *CORA),
    fixed_draws=True,
    with_results=True,
)
STUDIES = (STUDY,)
