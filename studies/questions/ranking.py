"""Learning to rank from eight scored queries, beside gradient-boosted trees.

Protocol: of the 201 training queries of LightGBM's example 8 are scored and 72 unscored, drawn at random, 20 draws;
error is the disagreement on each of the 50 test queries. Columns lie between 0 and 1 already and are taken as they
are, constant ones dropped. rbf kernels; the learners with views get the same random halves of the columns, drawn anew for every draw. Kernel learners
are tuned by the library, trees as `trees.py` says, all on the 8 scored queries. Trees see scored queries only.
Intervals: bootstrap over draws and test queries, both drawn again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corank import random_split
from corank.experiments.uncertainty import mean_interval, standard_error, two_way_interval
from corank.metrics import disagreement_error
from studies.questions.data import RANKING, Floats, Integers, Rankings, rankings
from studies.questions.methods import RANKER, SUPERVISED, choice_table, choices, chosen, make, rankers
from studies.questions.study import (
    Job,
    Method,
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
from studies.questions.trees import fit_tuned, settings_of

N_SCORED, N_UNSCORED, N_DRAWS = 8, 72, 20
TREES = {"LightGBM": "lightgbm", "XGBoost": "xgboost"}
LIMIT = 0.003


@dataclass(frozen=True)
class Drawn:
    """Training rows, which of them are scored, and the test rows."""

    train: Rankings
    scored: Any
    test: Rankings
    views: Any


def jobs(options: Options) -> list[Job]:
    sizes = (4, 12, 1) if options.quick else (N_SCORED, N_UNSCORED, N_DRAWS)
    trees = [
        Method(title, library, {"grid": settings_of(library, quick=options.quick)}) for title, library in TREES.items()
    ]
    return all_jobs([(*sizes[:2], draw) for draw in range(sizes[2])], [*rankers(kernel="rbf"), *trees])


def _drawn(options: Options, n_scored: int, n_unscored: int, draw: int) -> Drawn:
    train, test = rankings(options.folder)
    rng = np.random.default_rng([draw, 5])
    queries: Integers = rng.permutation(np.unique(train.qid))[: n_scored + n_unscored]
    rows = np.isin(train.qid, queries)
    X, y, qid = train.X[rows], train.y[rows], train.qid[rows]
    varies = np.ptp(X, axis=0) > 0
    return Drawn(
        Rankings(X[:, varies], y, qid),
        np.isin(qid, queries[:n_scored]),
        Rankings(test.X[:, varies], test.y, test.qid),
        random_split(2).views(int(varies.sum()), rng),
    )


def run(options: Options, job: Job) -> Result:
    n_scored, n_unscored, draw = (int(part) for part in job.draw)
    data = _drawn(options, n_scored, n_unscored, draw)
    train, test, scored = data.train, data.test, data.scored
    if job.method.learner in TREES.values():
        known = Rankings(train.X[scored], train.y[scored], train.qid[scored])
        predict, found = fit_tuned(job.method.learner, known, job.method.settings["grid"])
    else:
        y = np.where(scored, train.y, np.nan)
        model = make(job.method, data.views, draw).fit(train.X, y, qid=train.qid)
        predict, found = model.predict, chosen(model)
    errors = disagreement_error(test.y, predict(test.X), qid=test.qid, average=False)
    return {"errors": [None if np.isnan(e) else round(float(e), 6) for e in errors], **found}


def summarise(records: Sequence[Record]) -> Summary:
    draws = by_draw(records).values()
    errors = {
        m: np.asarray([draw[m]["errors"] for draw in draws], dtype=float) for m in method_titles(records)
    }  # (draws, queries)
    defined = ~np.isnan(errors[SUPERVISED]).any(axis=0)
    errors = {method: own[:, defined] for method, own in errors.items()}
    rows = []
    for method, own in errors.items():
        means = own.mean(axis=1)
        better = "" if method == SUPERVISED else f"{int((means < errors[SUPERVISED].mean(axis=1)).sum())} of {len(own)}"
        rows.append((method, f"{means.mean():.4f} ± {standard_error(means):.4f}", better))
    n_draws, n_queries = errors[SUPERVISED].shape
    title = f"Disagreement on {n_queries} test queries ± s.e. over {n_draws} draws"
    gaps = {method: errors[RANKER] - errors[method] for method in errors if method != RANKER}
    return Summary(
        [
            Table(title, ("method", "disagreement", "draws better than supervised"), rows),
            _gap_table(gaps),
            choice_table(RANKER, [("draws", choices(draw[RANKER] for draw in draws))]),
        ],
        _targets(gaps),
    )


def _gap_table(gaps: dict[str, Floats]) -> Table:
    rows = []
    for method, gap in gaps.items():
        both, draws = two_way_interval(gap), mean_interval(gap.mean(axis=1))
        shown = (f"{low:+.4f} to {high:+.4f}" for low, high in (both, draws))
        rows.append((method, f"{gap.mean():+.4f}", *shown))
    head = ("method", "difference", "95 % interval over draws and queries", "over draws alone")
    return Table(f"{RANKER} minus the others", head, rows)


def _targets(gaps: dict[str, Floats]) -> list[Target]:
    targets = []
    for title in TREES:
        high = two_way_interval(gaps[title])[1]
        targets.append(
            Target(f"{RANKER} minus {title}: 95 % interval below 0", high, f"up to {high:+.4f}", bool(high < 0))
        )
    gap = float(gaps[SUPERVISED].mean())
    return [*targets, Target(f"{RANKER} minus supervised at most {LIMIT}", gap, f"{gap:+.4f}", gap <= LIMIT)]


STUDY = Study(
    name="ranking",
    title="Learning to rank from eight scored queries",
    about=(
        f"LightGBM's ranking data: {N_SCORED} scored and {N_UNSCORED} unscored training queries, {N_DRAWS} draws, "
        "disagreement on the test queries; rbf kernels on the columns as they are, random halves of the columns as views. "
        "Everything is tuned on the scored queries; trees by leaving out a query, on disagreement."
    ),
    draw_names=("scored", "unscored", "draw"),
    protocol=2,
    jobs=jobs,
    run=run,
    summarise=summarise,
    needs=RANKING,
)
