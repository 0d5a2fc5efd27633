"""Noisy scores: least squares in the whole space against components (002 sect. 6.1), on data with enough queries.

Protocol: training scores get Gaussian noise whose standard deviation is 0, 0.5 or 1 times the range of the scores;
test scores get none. Jester: 20 jokes of each of 20 users for training, all jokes of 200 others for the test, features
are the ratings by 100 reference users. LightGBM's ranking data: 40 of 201 training queries, the 50 test queries. 20
draws of queries, items and noise. rbf kernels; width and alpha, or width and number of components, are tuned by the
library on the training rows (leave-query-out; leave-one-query-out for the regressors too, which get qid).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.studies.data import JESTER, RANKING, Floats, Rankings, jester, rankings
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
from corank import KPCR, RLS, KPCRank, RankRLS
from corank.experiments.intervals import mean_interval, standard_error
from corank.metrics import disagreement_error

LEVELS = (0.0, 0.5, 1.0)
N_DRAWS = 20
SETS = ("jester", "ltr")
TITLES = {"jester": "Jester", "ltr": "LightGBM ranking"}
RANGES = {"jester": 20.0, "ltr": 4.0}
LEARNERS = {"RLS": RLS, "RankRLS": RankRLS, "KPCR": KPCR, "KPCRank": KPCRank}


def jobs(options: Options) -> list[Job]:
    draws = [
        (name, int(100 * level), draw)
        for name in SETS
        for level in LEVELS
        for draw in range(1 if options.quick else N_DRAWS)
    ]
    return all_jobs(draws, [Method(name, name, {"gamma": "tune"}) for name in LEARNERS])


def drawn(options: Options, name: str, draw: int) -> tuple[Rankings, Rankings]:
    """Training and test rows, without noise."""
    rng = np.random.default_rng([draw, 7])
    if name == "jester":
        data = jester(options.folder)
        users = rng.permutation(len(data.scores))
        n_train, n_test = (8, 20) if options.quick else (20, 200)
        return data.drawn(users[:n_train], 20, rng), data.drawn(users[n_train : n_train + n_test], None, rng)
    train, test = rankings(options.folder)
    queries = rng.permutation(np.unique(train.qid))[: 10 if options.quick else 40]
    rows = np.isin(train.qid, queries)
    varies = np.ptp(train.X[rows], axis=0) > 0
    return (
        Rankings(train.X[rows][:, varies], train.y[rows], train.qid[rows]),
        Rankings(test.X[:, varies], test.y, test.qid),
    )


def run(options: Options, job: Job) -> Result:
    name, share, draw = str(job.draw[0]), int(job.draw[1]), int(job.draw[2])
    train, test = drawn(options, name, draw)
    noise = np.random.default_rng([draw, 11]).standard_normal(len(train.y))
    y = train.y + share / 100 * RANGES[name] * noise
    model = LEARNERS[job.method.learner](**job.method.settings).fit(train.X, y, qid=train.qid)
    error = disagreement_error(test.y, model.predict(test.X), qid=test.qid)
    found = {"error": float(error), "gamma": float(model.gamma_), "alpha": float(model.alpha_)}
    return found | ({"n_components": int(model.n_components_)} if hasattr(model, "n_components_") else {})


def summarise(records: Sequence[Record]) -> Summary:
    draws, methods = by_draw(records), method_titles(records)
    tables, notes = [], []
    for name in SETS:
        errors = {
            (share, m): np.asarray([found[m]["error"] for key, found in draws.items() if key[:2] == (name, share)])
            for share in (int(100 * level) for level in LEVELS)
            for m in methods
        }
        tables.append(_table(name, methods, errors))
        tables.append(_gaps(name, errors))
        parts = [
            f"{np.median([found['KPCRank']['n_components'] for key, found in draws.items() if key[:2] == (name, share)]):.0f}"
            for share in (0, 50, 100)
        ]
        notes.append(f"{TITLES[name]}: KPCRank took {', '.join(parts)} components in the median for noise 0, 0.5, 1.")
    return Summary(tables, [], [*notes, *_findings(draws)])


def _table(name: str, methods: Sequence[str], errors: dict[tuple[int, str], Floats]) -> Table:
    rows = [
        (m, *(f"{errors[share, m].mean():.4f} ± {standard_error(errors[share, m]):.4f}" for share in (0, 50, 100)))
        for m in methods
    ]
    title = f"{TITLES[name]}: disagreement ± s.e. over draws, by noise (in ranges of the score)"
    return Table(title, ("method", "0", "0.5", "1"), rows)


def _gaps(name: str, errors: dict[tuple[int, str], Floats]) -> Table:
    rows = []
    for other in ("RLS", "RankRLS", "KPCR"):
        cells = []
        for share in (0, 50, 100):
            gap = errors[share, "KPCRank"] - errors[share, other]
            low, high = mean_interval(gap)
            cells.append(f"{gap.mean():+.4f} ({low:+.4f} to {high:+.4f})")
        rows.append((other, *cells))
    return Table(
        f"{TITLES[name]}: KPCRank minus the others, 95 % interval over draws", ("method", "0", "0.5", "1"), rows
    )


def _findings(draws: dict[tuple[int | str, ...], dict[str, Result]]) -> list[str]:
    """002's findings: the whole space wins without noise, KPCRank wins with it."""
    verdicts = []
    for name in SETS:
        for share, wanted in ((0, +1), (50, -1), (100, -1)):
            gap = np.asarray(
                [
                    found["KPCRank"]["error"] - found["RankRLS"]["error"]
                    for key, found in draws.items()
                    if key[:2] == (name, share)
                ]
            )
            low, high = mean_interval(gap)
            holds = "cannot be told" if low <= 0 <= high else "holds" if (low > 0) == (wanted > 0) else "does not hold"
            finding = (
                "RankRLS is better than KPCRank without noise"
                if wanted > 0
                else "KPCRank is better than RankRLS with noise"
            )
            verdicts.append(f"002 on {TITLES[name]}, noise {share / 100:g}: {finding}: {holds}.")
    return verdicts


STUDY = Study(
    name="noise",
    title="Noisy scores: components or the whole space",
    about=(
        "Gaussian noise of 0, 0.5 and 1 times the range of the scores on the training scores, none on the test scores (002 "
        f"sect. 6.1). Jester: 20 jokes of each of 20 users, 200 other users for the test; LightGBM's ranking data: 40 "
        f"training queries, 50 test queries; {N_DRAWS} draws. rbf kernels; width and alpha, or width and number of components, "
        "tuned by leave-query-out on the training rows."
    ),
    draw_names=("set", "noise", "draw"),
    protocol=1,
    jobs=jobs,
    run=run,
    summarise=summarise,
    needs=(*JESTER, *RANKING),
)
