"""000 table 1 and fig. 1, 002 table 1: on the parses at hand, and on data with enough queries (Jester, LightGBM's).

What is drawn and computed; what it says is in `parses_said`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from studies.papers import agreement, noise
from studies.papers.agreement import Task
from studies.papers.data_sets import (
    JESTER,
    PARSES,
    RANKING,
    Integers,
    Rankings,
    jester,
    parses,
    rankings,
)
from studies.papers.parses_said import conclude
from studies.papers.study import Part, Result, Settings, Study

PARSE_DRAWS, JESTER_DRAWS, NOISY_DRAWS, QUICK_DRAWS = 100, 20, 20, 4
ITEMS, TEST_USERS, QUICK_TEST_USERS = 30, 600, 100  # jokes of a user in training; users tested on
SCORED_USERS, UNSCORED_USERS = {"many": 250, "few": 20}, 250
NOISY_USERS, NOISY_ITEMS, NOISY_QUERIES = 20, 20, 40
AMOUNTS = {"parses": [0, 2, 4, 6, 8, 10], "jester": [0, 33, 67, 100, 133]}  # unscored queries: 0 to 4,000 jokes
TIMED = (20_000, 40_000, 80_000, 160_000)  # unscored rows
COSINE, RBF = {"kernel": "linear"}, {"kernel": "rbf"}  # rows of the parses have length 1


def parts(settings: Settings) -> list[Part]:
    """Draws of each data set for both papers."""
    quick = settings.quick
    found = []
    for n in range(QUICK_DRAWS if quick else PARSE_DRAWS):
        found.append(Part(f"parses, table, {n}", run_parses, {"kind": "table"}))
        found.append(Part(f"parses, curve, {n}", run_parses, {"kind": "curve"}))
        found.append(Part(f"parses, noise, {n}", run_parses, {"kind": "noise"}))
    for n in range(QUICK_DRAWS if quick else JESTER_DRAWS):
        for scored in SCORED_USERS:
            for kind in ("table", "curve"):
                found.append(Part(f"jester {scored}, {kind}, {n}", run_jester, {"kind": kind, "scored": scored}))
    long = []
    for n in range(QUICK_DRAWS // 2 if quick else NOISY_DRAWS):
        long += [Part(f"ltr, noise, {n}", run_ltr_noise), Part(f"jester, noise, {n}", run_jester_noise)]
    return [*long, *found, Part("time", run_time, alone=True)]


# ---- the parses: every sentence is tested once in a draw


def run_parses(settings: Settings, rng: np.random.Generator, kind: str) -> Result:
    """Both halves of the sentences are trained on once; errors come in the order of all sentences."""
    data = parses(settings.folder)
    sentences = np.unique(data.qid)
    halves = np.array_split(rng.permutation(sentences), 2)
    found: list[tuple[Integers, Any]] = []
    for train, test in (halves, halves[::-1]):
        if kind == "noise":  # at most three parses of a sentence (002 sect. 6.1)
            few, judged = (picked(data, some, 3, rng) for some in (train, np.sort(test)))
            found.append((test, noise.noisy(few, judged, 1.0, COSINE, rng)))
            continue
        scored, unscored = np.array_split(train, 2)
        rows = [picked(data, some, None, rng) for some in (scored, unscored)]
        task = Task(joined(*rows), len(rows[0].y), picked(data, np.sort(test), None, rng))
        if kind == "table":
            found.append((test, agreement.compared(task, COSINE, rng)))
        else:
            found.append((test, agreement.curve(task, AMOUNTS["parses"], COSINE, rng)))
    merged: Result = _in_order([(np.sort(test), errors) for test, errors in found], sentences)
    return merged


def _in_order(found: list[tuple[Integers, Any]], queries: Integers) -> Any:
    """Merge errors of parts of the queries, at whatever depth of the dictionaries they are."""
    first = found[0][1]
    if isinstance(first, dict):
        return {key: _in_order([(own, errors[key]) for own, errors in found], queries) for key in first}
    by_query = {int(query): error for own, errors in found for query, error in zip(own, errors, strict=True)}
    return [by_query[int(query)] for query in queries]


def picked(data: Rankings, queries: Integers, most: int | None, rng: np.random.Generator) -> Rankings:
    """At most so many rows of each of the queries, query by query."""
    rows = []
    for query in queries:
        own = np.flatnonzero(data.qid == query)
        rows.append(own if most is None else np.sort(rng.permutation(own)[:most]))
    order = np.concatenate(rows)
    return Rankings(data.X[order], data.y[order], data.qid[order])


def joined(*some: Rankings) -> Rankings:
    """Rows one below the other."""
    X, y, qid = (np.concatenate([getattr(one, field) for one in some]) for field in ("X", "y", "qid"))
    return Rankings(X, y, qid)


# ---- Jester and LightGBM's data: the same test queries in every draw


def _users(settings: Settings) -> tuple[Integers, Integers]:
    """Users tested on, the same in all parts, and the others."""
    n = len(jester(settings.folder).scores)
    users = np.random.default_rng([settings.seed, 17]).permutation(n)
    n_test = QUICK_TEST_USERS if settings.quick else TEST_USERS
    n_test = min(n_test, n // 2)
    return np.sort(users[:n_test]), users[n_test:]


def run_jester(settings: Settings, rng: np.random.Generator, kind: str, scored: str) -> Result:
    """Scored and unscored users with thirty jokes each."""
    data, (test, others) = jester(settings.folder), _users(settings)
    users = rng.permutation(others)
    n_scored = min(SCORED_USERS[scored], len(users) // 2)
    known = data.drawn(users[:n_scored], ITEMS, rng)
    hidden = data.drawn(users[n_scored : n_scored + UNSCORED_USERS], ITEMS, rng)
    task = Task(joined(known, hidden), len(known.y), data.drawn(test, None, rng))
    width = 1 / (task.rows.X.shape[1] * task.rows.X.var())
    kernel = {**RBF, "gamma": float(width)}
    if kind == "table":
        return agreement.compared(task, kernel, rng)
    return agreement.curve(task, AMOUNTS["jester"], kernel, rng)


def run_jester_noise(settings: Settings, rng: np.random.Generator) -> Result:
    """Twenty jokes of each of twenty users."""
    data, (test, others) = jester(settings.folder), _users(settings)
    train = data.drawn(rng.permutation(others)[:NOISY_USERS], NOISY_ITEMS, rng)
    return noise.noisy(train, data.drawn(test, None, rng), 20.0, {**RBF, "gamma": "tune"}, rng)


def run_ltr_noise(settings: Settings, rng: np.random.Generator) -> Result:
    """Forty of the 201 training queries; the 50 test queries."""
    train, test = rankings(settings.folder)
    rows = picked(train, rng.permutation(np.unique(train.qid))[:NOISY_QUERIES], None, rng)
    varies = np.ptp(rows.X, axis=0) > 0
    rows, test = (Rankings(one.X[:, varies], one.y, one.qid) for one in (rows, test))
    return noise.noisy(rows, test, 4.0, {**RBF, "gamma": "tune"}, rng)


def run_time(settings: Settings, rng: np.random.Generator) -> Result:
    """Seconds of one fit of Sparse Co-RankRLS against the number of unscored rows; the best of three."""
    data = jester(settings.folder)
    pairs = rng.integers(len(data.scores), size=2_000), rng.integers(data.scores.shape[1], size=2_000)
    X, seconds = data.items[pairs[1]], []
    qid = np.repeat(np.arange(len(X) // 20), 20)
    amounts = TIMED[:3] if settings.quick else TIMED
    model = agreement.co_ranker(agreement.random_bases(len(X), rng), RBF, agreement=0.1, alpha=1.0)
    y = rng.standard_normal(len(X))
    for amount in amounts:
        unscored = data.items[rng.integers(len(data.items), size=amount)]
        groups = np.repeat(np.arange(amount // 20), 20)
        best = np.inf
        for _ in range(3):
            begin = time.perf_counter()
            model.fit(X, y, qid=qid, unscored=unscored, unscored_qid=groups)
            best = min(best, time.perf_counter() - begin)
        seconds.append(best)
    return {"rows": list(amounts), "seconds": seconds}


STUDY = Study(
    name="parses",
    title="000 and 002: ranking parses, and users' jokes",
    sources=("000 table 1", "000 fig. 1", "002 table 1"),
    about=(
        "Parses: 200 parses of 42 sentences (of the papers' 1,100 sentences), cosine kernel. In each of "
        f"{PARSE_DRAWS} draws the sentences are divided in two halves, each trained on once and tested on once. 000: half of "
        "the training sentences are scored, two views with a basis of 20 training rows each; 002: at most three parses of a "
        "sentence. Jester: 600 test users; 000: 30 jokes of each of 250 scored and 250 unscored users, as the paper's "
        "sentences, and of 20 scored users, where scores are scarce; 002: 20 jokes of each of 20 users. LightGBM's ranking "
        "data: 40 training queries, 50 test queries (002 only). Features of a joke are the ratings by 100 reference users; "
        f"rbf kernels; {JESTER_DRAWS} draws. Noise is Gaussian with 0, 0.5 and 1 times the range of the scores as its "
        "standard deviation, on training scores only. Everything is tuned by leave-query-out on the scored training queries "
        "(the papers: five folds of sentences). Errors are of single queries, pairs with different scores only. A claim "
        "holds where Wilcoxon's test over queries, as the papers test, and the interval over draws and queries agree."
    ),
    files=(*PARSES, *JESTER, *RANKING),
    parts=parts,
    conclude=conclude,
)
