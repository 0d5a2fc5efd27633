"""The headline: error against the number of scored queries (papers) on four real sets, for corank and for trees.

Protocol: scored training queries are the first of a random order, so that larger numbers contain smaller ones; unscored
ones are others of the same order; test queries are the same in every draw. Jester: 20 jokes of a user, described by the
ratings of 100 other users. Ranking: LightGBM's own split, 50 test queries. Sushi: 10 kinds a user, described by kind and user.
Cora: papers labelled as in `cora` (half of them of the class), error on papers that are neither labelled nor among
the unscored ones, words and links as views; elsewhere views are random halves of the columns. All methods come from
`corank.experiments`: each tries 200 settings on the scored rows alone. Errors are disagreements on test queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from corank import View, random_split
from corank.experiments import Task, known_methods
from corank.experiments.uncertainty import (
    corrected_resampled,
    holm,
    mean_interval,
    over_repeats,
    signed_rank,
    two_way_interval,
)
from corank.metrics import disagreement_error
from studies.questions.cora import labelled
from studies.questions.data import (
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
from studies.questions.study import (
    Draw,
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

METHODS = {
    "supervised": "rankrls",
    "co-regularised": "corankrls",
    "views averaged": "averaged",
    "AutoRanker": "auto",
    "pursuit": "pursuit",
    "LightGBM": "lightgbm",
    "XGBoost": "xgboost",
}
SIZES = {"jester": (2, 4, 8, 16), "ranking": (4, 8, 16, 32), "sushi": (4, 8, 16, 32), "cora": (20, 50, 100)}
UNSCORED = {"jester": 40, "ranking": 60, "sushi": 60, "cora": 600}  # queries; papers
N_DRAWS, N_TEST, N_JOKES = 10, 60, 20
TITLES = {"jester": "Jester", "ranking": "LightGBM's ranking data", "sushi": "sushi", "cora": "Cora"}
LEVEL = 0.05


def jobs(options: Options) -> list[Job]:
    methods = [Method(title, name) for title, name in METHODS.items()]
    sizes = {name: own[:1] for name, own in SIZES.items()} if options.quick else SIZES
    draws: list[Draw] = [
        (name, size, draw) for draw in range(1 if options.quick else N_DRAWS) for name in sizes for size in sizes[name]
    ]
    return all_jobs(draws, methods)


def run(options: Options, job: Job) -> Result:
    name, size, draw = str(job.draw[0]), int(job.draw[1]), int(job.draw[2])
    task, scores = _cora(options.folder, size, draw) if name == "cora" else _queries(options.folder, name, size, draw)
    fitted = known_methods()[job.method.learner].fit(task)
    errors = disagreement_error(scores, fitted.predict(task.X_test), qid=task.qid_test, average=False)
    return {
        "errors": [None if np.isnan(e) else round(float(e), 6) for e in errors],
        "chosen": fitted.chosen,
        "n_scored": task.n_scored,
    }


def _queries(folder: Path, name: str, size: int, draw: int) -> tuple[Task, Floats]:
    """Training queries in random order, the first of them scored; the test queries are the same in every draw."""
    train, test = _sets(folder, name)
    rng = np.random.default_rng([draw, 11])
    order = rng.permutation(np.unique(train.qid))
    scored, unscored = order[:size], order[::-1][: UNSCORED[name]]
    known = np.flatnonzero(np.isin(train.qid, scored))
    other = np.flatnonzero(np.isin(train.qid, unscored))
    rows = np.concatenate([known, other])
    X, X_test = _standardised(train.X[rows], test.X) if name != "ranking" else _varying(train.X[rows], test.X)
    y = np.concatenate([train.y[known], np.full(len(other), np.nan)])
    views = random_split(2).views(X.shape[1], rng)
    return Task(X, y, train.qid[rows], X_test, test.qid, views, "disagreement", draw), test.y


@lru_cache(maxsize=4)
def _sets(folder: Path, name: str) -> tuple[Rankings, Rankings]:
    if name == "ranking":
        return rankings(folder)
    ratings: Ratings = jester(folder) if name == "jester" else sushi(folder)
    rng = np.random.default_rng(12)
    enough = np.flatnonzero((~np.isnan(ratings.scores)).sum(axis=1) >= (N_JOKES if name == "jester" else 10))
    users = rng.permutation(enough)
    count = N_JOKES if name == "jester" else None
    return ratings.drawn(users[N_TEST : N_TEST + 200], count, rng), ratings.drawn(users[:N_TEST], count, rng)


def _standardised(X: Floats, other: Floats) -> tuple[Floats, Floats]:
    centre, spread = X.mean(axis=0), X.std(axis=0)
    varies = spread > 0
    return (X[:, varies] - centre[varies]) / spread[varies], (other[:, varies] - centre[varies]) / spread[varies]


def _varying(X: Floats, other: Floats) -> tuple[Floats, Floats]:
    varies = np.ptp(X, axis=0) > 0
    return X[:, varies], other[:, varies]


def _cora(folder: Path, size: int, draw: int) -> tuple[Task, Floats]:
    data = cora(folder)
    truth = (data.label == draw % 7).astype(float)
    order = np.random.default_rng([draw, 13]).permutation(len(truth))
    known = labelled(order, truth, size, half=True)
    rest = order[::-1][~np.isin(order[::-1], known)]
    other, test = rest[: UNSCORED["cora"]], rest[UNSCORED["cora"] :]
    X: Any = sparse.csr_array(sparse.hstack([data.words, data.links], format="csr"))
    n_words = data.words.shape[1]
    views = [View(slice(0, n_words), name="words"), View(slice(n_words, None), name="links")]
    y = np.concatenate([truth[known], np.full(len(other), np.nan)])
    task = Task(X[np.concatenate([known, other])], y, None, X[test], None, views, "disagreement", draw)
    return task, truth[test]


def summarise(records: Sequence[Record]) -> Summary:
    draws, titles = by_draw(records), method_titles(records)
    tables, notes = [], []
    for name in dict.fromkeys(str(draw[0]) for draw in draws):
        sizes = sorted({int(draw[1]) for draw in draws if draw[0] == name})
        errors = {(m, s): errors_of(draws, name, s, m) for m in titles for s in sizes}
        what = "papers" if name == "cora" else "queries"
        rows = [(m, *(_shown(errors[m, s]) for s in sizes)) for m in titles]
        head = ("method", *(f"{size} scored {what}" for size in sizes))
        tables.append(Table(f"{TITLES[name]}: disagreement with 95 % intervals", head, rows))
        notes += [_verdict(TITLES[name], what, size, {m: errors[m, size] for m in titles}) for size in sizes]
    return Summary(tables, [], notes)


def errors_of(draws: Any, name: str, size: int, method: str) -> Floats:
    """(draws, test queries), one column on Cora."""
    found = [own[method]["errors"] for draw, own in draws.items() if draw[0] == name and draw[1] == size]
    return np.asarray(found, dtype=float)


def interval(errors: Floats) -> tuple[float, float]:
    """Over draws and queries, both drawn again; over draws where there are no queries."""
    if errors.shape[1] == 1:
        return mean_interval(errors[:, 0])
    return two_way_interval(errors[:, ~np.isnan(errors).any(axis=0)])


def _shown(errors: Floats) -> str:
    low, high = interval(errors)
    return f"{np.nanmean(errors):.3f} ({low:.3f} to {high:.3f})"


def _verdict(title: str, what: str, size: int, errors: dict[str, Floats]) -> str:
    """Every method against supervised: over queries averaged over draws; on Cora over draws, with the correction."""
    base, others = errors["supervised"], [m for m in errors if m != "supervised"]
    if base.shape[0] < 2:
        return f"{title}, {size} scored {what}: too few draws to judge by"
    gaps = {m: over_repeats(errors[m]) - over_repeats(base) for m in others}
    if base.shape[1] == 1:
        p = [corrected_resampled((errors[m] - base)[:, 0], 0.8, 0.2)[0] for m in others]
    else:
        p = [signed_rank(gaps[m]) for m in others]
    sure = dict(zip(others, holm(p), strict=True))
    words = []
    for m in others:
        gap = float(np.nanmean(gaps[m]))
        low, high = interval(errors[m] - base)
        clear = sure[m] <= LEVEL and (high < 0 or low > 0)
        verdict = ("better" if gap < 0 else "worse") if clear else "cannot tell"
        words.append(f"{m} {gap:+.3f} ({verdict})")
    return f"{title}, {size} scored {what}, against supervised: " + ", ".join(words)


STUDY = Study(
    name="headline",
    title="Error against the number of scores",
    about=(
        f"Four real sets, {N_DRAWS} draws each. Jester and sushi: a query is a user, {N_TEST} test users; LightGBM's ranking "
        "data: its own 50 test queries; Cora: one class of papers above the rest, words and links as views. Unscored rows: "
        f"{UNSCORED['jester']}, {UNSCORED['sushi']} and {UNSCORED['ranking']} queries, {UNSCORED['cora']} papers. Every method "
        "tries 200 settings on the scored rows alone. Verdicts: Wilcoxon's test over test queries (averaged over draws) or, "
        "on Cora, the corrected resampled t-test over draws; p at most 0.05 after Holm's correction, and a 95 % interval over draws "
        "and queries without 0."
    ),
    draw_names=("set", "scored", "draw"),
    protocol=1,
    jobs=jobs,
    run=run,
    summarise=summarise,
    needs=(*JESTER, *RANKING, *SUSHI, *CORA),
)
