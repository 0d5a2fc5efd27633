"""Test items known in advance: transductive against inductive RankRLS (004, which has no table).

Protocol: some queries are scored, others are not and are what is predicted; error is the disagreement on each of the
latter. Jester: 20 jokes of each of 20 scored and 20 unscored users; sushi: the 10 items of each of 40 scored and 40
unscored users; LightGBM's ranking data: 20 scored and 20 unscored of the 201 training queries. 20 draws. rbf kernels,
every query counts the same (weighting="query"), alpha tuned by leave-query-out on the scored queries.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.studies.data import JESTER, RANKING, SUSHI, Rankings, jester, rankings, sushi
from benchmarks.studies.study import (
    Job,
    Method,
    Options,
    Record,
    Result,
    Study,
    Summary,
    Table,
    all_jobs,
    by_draw,
    method_titles,
)
from corank import RankRLS, TransductiveRankRLS
from corank.experiments.intervals import mean_interval, standard_error
from corank.metrics import disagreement_error

N_DRAWS = 20
SETS = {"jester": "Jester", "sushi": "sushi", "ltr": "LightGBM ranking"}
INDUCTIVE = "inductive"


def jobs(options: Options) -> list[Job]:
    draws = [(name, draw) for name in SETS for draw in range(1 if options.quick else N_DRAWS)]
    methods = [
        Method(INDUCTIVE, "RankRLS"),
        Method("transductive, pull 1", "TransductiveRankRLS"),
        Method("transductive, pull tuned", "TransductiveRankRLS", {"pull": "tune"}),
    ]
    return all_jobs(draws, methods)


def drawn(options: Options, name: str, draw: int) -> tuple[Rankings, int]:
    """Rows of scored and unscored queries, and how many of them are scored: those stand first."""
    rng = np.random.default_rng([draw, 13])
    count = {"jester": 20, "sushi": 40, "ltr": 20}[name] // (4 if options.quick else 1)
    if name == "ltr":
        train, _ = rankings(options.folder)
        queries = rng.permutation(np.unique(train.qid))[: 2 * count]
        order = np.concatenate([np.flatnonzero(train.qid == query) for query in queries])
        rows = Rankings(train.X[order], train.y[order], train.qid[order])
        return rows, int(np.isin(rows.qid, queries[:count]).sum())
    data = jester(options.folder) if name == "jester" else sushi(options.folder)
    users = rng.permutation(len(data.scores))[: 2 * count]
    rows = data.drawn(users, 20, rng)
    return rows, int(np.isin(rows.qid, users[:count]).sum())


def run(options: Options, job: Job) -> Result:
    rows, n_scored = drawn(options, str(job.draw[0]), int(job.draw[1]))
    y = rows.y.copy()
    y[n_scored:] = np.nan
    kind = RankRLS if job.method.learner == "RankRLS" else TransductiveRankRLS
    model = kind(weighting="query", **job.method.settings).fit(rows.X, y, qid=rows.qid)
    predictions = model.predict(rows.X[n_scored:]) if kind is RankRLS else model.transduction_
    error = disagreement_error(rows.y[n_scored:], predictions, qid=rows.qid[n_scored:])
    found = {"error": float(error), "alpha": float(model.alpha_)}
    return found if kind is RankRLS else found | {"pull": float(model.pull_)}


def summarise(records: Sequence[Record]) -> Summary:
    draws, methods = by_draw(records), method_titles(records)
    rows, notes = [], []
    for name, title in SETS.items():
        errors = {m: np.asarray([found[m]["error"] for key, found in draws.items() if key[0] == name]) for m in methods}
        for method, own in errors.items():
            gap = own - errors[INDUCTIVE]
            low, high = mean_interval(gap)
            versus = ("", "") if method == INDUCTIVE else (f"{gap.mean():+.4f}", f"{low:+.4f} to {high:+.4f}")
            rows.append((title, method, f"{own.mean():.4f} ± {standard_error(own):.4f}", *versus))
            if method != INDUCTIVE:
                verdict = "cannot be told apart" if low <= 0 <= high else "better" if high < 0 else "worse"
                notes.append(f"{title}: {method} against inductive: {verdict}.")
    head = ("data", "method", "disagreement ± s.e.", "minus inductive", "95 % interval over draws")
    return Summary([Table("Disagreement on the unscored queries", head, rows)], [], notes)


STUDY = Study(
    name="transduction",
    title="Test items known in advance: transductive against inductive RankRLS",
    about=(
        "Disagreement on queries without scores that were known when the model was fitted. Jester: 20 jokes of each of 20 "
        "scored and 20 unscored users; sushi: 10 items of each of 40 and 40 users; LightGBM's ranking data: 20 and 20 "
        f'queries; {N_DRAWS} draws. rbf kernels, weighting="query", alpha tuned by leave-query-out on the scored queries.'
    ),
    draw_names=("set", "draw"),
    protocol=1,
    jobs=jobs,
    run=run,
    summarise=summarise,
    needs=(*JESTER, *SUSHI, *RANKING),
)
