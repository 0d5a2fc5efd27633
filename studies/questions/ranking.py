"""Learning to rank from eight scored queries, beside gradient-boosted trees.

Protocol: of the 201 training queries of LightGBM's example 8 are scored and 72 unscored, drawn at random, 20 draws;
error is the disagreement on each of the 50 test queries. Columns lie between 0 and 1 already and are taken as they are,
constant ones dropped. rbf kernels; the learners with views get the same random halves of the columns, drawn again for
every draw. Kernel learners are tuned by the library, all methods on the 8 scored queries. Trees see scored queries only.
Intervals: bootstrap over draws and test queries, both drawn again.

Trees are tuned as a careful user would: every setting of a small grid is fitted once for each query, left out, and
predicts it after 10, 25, 50, 100 and 200 trees; the setting and number of trees with the least mean disagreement on the
queries left out are fitted to all. Among equals the first, simplest one is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from corank import random_split
from corank.experiments.peers import MethodRows, Setting, disagreements, lightgbm_stages, xgboost_stages
from corank.experiments.uncertainty import two_way_interval
from corank.metrics import disagreement_error
from studies.data import RANKING, Floats, Integers, Rankings, rankings
from studies.questions.methods import (
    RANKER,
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
    rankers,
)
from studies.study import Finding, Outcome, Part, Result, Settings, Study, Table, target
from studies.verdicts import mean_interval, standard_error

N_SCORED, N_UNSCORED, N_DRAWS = 8, 72, 20
TREES = {"LightGBM": "lightgbm", "XGBoost": "xgboost"}
STAGES = {"lightgbm": lightgbm_stages, "xgboost": xgboost_stages}
N_TREES = (10, 25, 50, 100, 200)
GRIDS: dict[str, dict[str, list[Any]]] = {
    "lightgbm": {
        "num_leaves": [4, 8, 16],
        "min_data_in_leaf": [20, 5],
        "feature_fraction": [0.3, 1.0],
        "learning_rate": [0.05, 0.1],
    },
    "xgboost": {
        "objective": ["rank:pairwise", "rank:ndcg"],
        "max_depth": [2, 3, 5],
        "min_child_weight": [1.0, 0.1],
        "colsample_bytree": [0.3, 1.0],
        "learning_rate": [0.1],
    },
}
LIMIT = 0.003


@dataclass(frozen=True)
class Drawn:
    """Training rows, which of them are scored, the test rows, and views."""

    train: Rankings
    scored: Any
    test: Rankings
    views: Any


def parts(settings: Settings) -> list[Part]:
    """One part per draw and method."""
    n_scored, n_unscored, n_draws = (4, 12, 1) if settings.quick else (N_SCORED, N_UNSCORED, N_DRAWS)
    trees = [
        DrawMethod(title, library, {"grid": settings_of(library, quick=settings.quick)})
        for title, library in TREES.items()
    ]
    draws = [(n_scored, n_unscored, number) for number in range(n_draws)]
    return draw_parts(run, draws, [*rankers(kernel="rbf"), *trees])


def _drawn(settings: Settings, n_scored: int, n_unscored: int, number: int) -> Drawn:
    train, test = rankings(settings.folder)
    rng = np.random.default_rng([number, 5])
    queries: Integers = rng.permutation(np.unique(train.qid))[: n_scored + n_unscored]
    train = train.take(np.isin(train.qid, queries))
    varies = np.ptp(train.X, axis=0) > 0
    return Drawn(
        train.with_columns(varies),
        np.isin(train.qid, queries[:n_scored]),
        test.with_columns(varies),
        random_split(2).views(int(varies.sum()), rng),
    )


def run(settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod) -> Result:
    """Disagreements of a method on the test queries."""
    n_scored, n_unscored, number = (int(value) for value in draw)
    data = _drawn(settings, n_scored, n_unscored, number)
    train, test = data.train, data.test
    if method.learner in STAGES:
        predict, choice = fit_tuned(method.learner, train.take(data.scored), method.settings["grid"])
    else:
        y = np.where(data.scored, train.y, np.nan)
        model = make(method, data.views, number).fit(train.X, y, qid=train.qid)
        predict, choice = model.predict, choice_of(model)
    errors = disagreement_error(test.y, predict(test.X), qid=test.qid, average=False)
    return {"errors": [None if np.isnan(error) else round(float(error), 6) for error in errors], **choice}


# ---- trees


def settings_of(library: str, *, quick: bool) -> list[Setting]:
    """Every setting to try; two of them for a quick run."""
    grid = GRIDS[library]
    every = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    return every[:: len(every) - 1] if quick else every


def fit_tuned(library: str, scored: Rankings, grid: list[Setting]) -> tuple[Callable[[Floats], Floats], dict[str, Any]]:
    """The prediction of the best setting, and that setting."""
    train, rows = STAGES[library], MethodRows(scored.X, scored.y, scored.qid)
    folds = list(_leave_query_out(rows))
    errors = []  # (settings, numbers of trees)
    for setting in grid:
        held_out = [disagreements(left, train(kept, setting, N_TREES)[0](left.X)) for kept, left in folds]
        errors.append(np.concatenate(held_out).mean(axis=0))
    best, stage = np.unravel_index(int(np.argmin(errors)), np.shape(errors))
    setting, n_trees = grid[int(best)], N_TREES[int(stage)]
    predict, _ = train(rows, setting, (n_trees,))
    return lambda X: predict(X)[:, 0], {**setting, "trees": n_trees, "fits": len(grid) * len(folds) + 1}


def _leave_query_out(scored: MethodRows) -> Iterator[tuple[MethodRows, MethodRows]]:
    """All queries but one, and that one; a query whose scores are all the same has no error to be left out for."""
    assert scored.qid is not None
    for query in np.unique(scored.qid):
        out = scored.qid == query
        if len(np.unique(scored.y[out])) > 1:
            yield scored.take(~out), scored.take(out)


# ---- what the errors say


def conclude(settings: Settings, results: Results) -> Outcome:
    """Errors of all methods, and what AutoRanker has less than the others."""
    draws = by_draw(results).values()
    errors = {
        method: np.asarray([draw[method]["errors"] for draw in draws], dtype=float) for method in method_titles(results)
    }  # (draws, queries)
    defined = ~np.isnan(errors[SUPERVISED]).any(axis=0)
    errors = {method: table[:, defined] for method, table in errors.items()}
    base = errors[SUPERVISED].mean(axis=1)
    rows = []
    for method, table in errors.items():
        means = table.mean(axis=1)
        better = "" if method == SUPERVISED else f"{int((means < base).sum())} of {len(means)}"
        rows.append((method, f"{means.mean():.4f} ± {standard_error(means):.4f}", better))
    n_draws, n_queries = errors[SUPERVISED].shape
    title = f"Disagreement on {n_queries} test queries ± s.e. over {n_draws} draws"
    gaps = {method: errors[RANKER] - errors[method] for method in errors if method != RANKER}
    tables = [
        Table(title, ("method", "disagreement", "draws better than supervised"), rows),
        _gap_table(gaps),
        choice_table(RANKER, [("draws", choice_counts(draw[RANKER] for draw in draws))]),
    ]
    return Outcome(tables, _findings(gaps), n_fits=fit_count(results))


def _gap_table(gaps: dict[str, Floats]) -> Table:
    rows = []
    for method, gap in gaps.items():
        intervals = two_way_interval(gap), mean_interval(gap.mean(axis=1))
        cells = (f"{low:+.4f} to {high:+.4f}" for low, high in intervals)
        rows.append((method, f"{gap.mean():+.4f}", *cells))
    head = ("method", "difference", "95 % interval over draws and queries", "over draws alone")
    return Table(f"{RANKER} minus the others", head, rows)


def _findings(gaps: dict[str, Floats]) -> list[Finding]:
    findings = []
    for title in TREES:
        high = two_way_interval(gaps[title])[1]
        findings.append(target(f"{RANKER} minus {title}: 95 % interval below 0", f"up to {high:+.4f}.", bool(high < 0)))
    gap = float(gaps[SUPERVISED].mean())
    return [*findings, target(f"{RANKER} minus supervised at most {LIMIT}", f"{gap:+.4f}.", gap <= LIMIT)]


STUDY = Study(
    name="ranking",
    title="Learning to rank from eight scored queries",
    about=(
        f"LightGBM's ranking data: {N_SCORED} scored and {N_UNSCORED} unscored training queries, {N_DRAWS} draws, "
        "disagreement on the test queries; rbf kernels on the columns as they are, random halves of the columns as views. "
        "Everything is tuned on the scored queries; trees by leaving out a query, on disagreement."
    ),
    parts=parts,
    conclude=conclude,
    files=RANKING,
    fixed_draws=True,
    with_results=True,
)
STUDIES = (STUDY,)
