"""Sparse Co-RankRLS and ranking from noisy scores: on parses, and on data with enough queries
(Jester, LightGBM's).

[Tsivtsivadze2010] table 1 and fig. 1: RankRLS, Sparse RankRLS and Sparse Co-RankRLS, and their
errors against the unscored items. The two views differ in nothing but their basis, 20 training rows
drawn at random for each (sect. 6.1). [Tsivtsivadze2009] table 1: regression and ranking, in the
whole space and on components, from noisy scores (sect. 6.1).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from corank import KPCR, RLS, CoRankRLS, KPCRank, RankRLS, View
from corank.experiments.verdict import two_way_interval
from corank.metrics import disagreement_error
from studies.data import (
    JESTER,
    PARSES,
    RANKING,
    Floats,
    Integers,
    Rankings,
    jester,
    parses,
    rankings,
    stacked,
)
from studies.study import (
    DOES_NOT_HOLD,
    HOLDS,
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
)
from studies.verdicts import growth, smaller_error, smaller_errors

PARSE_DRAWS, JESTER_DRAWS, NOISY_DRAWS, QUICK_DRAWS = 100, 20, 20, 4
ITEMS, TEST_USERS, QUICK_TEST_USERS = 30, 600, 100  # jokes of a user in training; users tested on
SCORED_USERS, UNSCORED_USERS = {"many": 250, "few": 20}, 250
NOISY_USERS, NOISY_ITEMS, NOISY_QUERIES = 20, 20, 40
# unscored queries: 0 to 4,000 jokes
AMOUNTS = {"parses": [0, 2, 4, 6, 8, 10], "jester": [0, 33, 67, 100, 133]}
TIMED = (20_000, 40_000, 80_000, 160_000)  # unscored rows
COSINE, RBF = {"kernel": "linear"}, {"kernel": "rbf"}  # rows of the parses have length 1

N_BASIS = 20
STANDARD, SPARSE, AVERAGE, CO = (
    "RankRLS",
    "Sparse RankRLS",
    "two views, no agreement",
    "Sparse Co-RankRLS",
)
METHODS = (STANDARD, SPARSE, AVERAGE, CO)
# of agreement, beside as many unscored as scored rows
STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
PUBLISHED = {STANDARD: 0.348, CO: 0.326}  # [Tsivtsivadze2010] table 1

LEVELS = (0.0, 0.5, 1.0)  # of noise: standard deviations, in ranges of the score
LEARNERS: dict[str, Any] = {"KPCR": KPCR, "KPCRank": KPCRank, "RLS": RLS, "RankRLS": RankRLS}
PUBLISHED_BY_NOISE = {  # [Tsivtsivadze2009] table 1
    "KPCR": (0.40, 0.46, 0.47),
    "KPCRank": (0.37, 0.41, 0.42),
    "RLS": (0.34, 0.43, 0.46),
    "RankRLS": (0.35, 0.45, 0.47),
}


def parts(settings: Settings) -> list[Part]:
    """Draws of each data set for both papers."""
    quick = settings.quick
    draws = []
    for number in range(QUICK_DRAWS if quick else PARSE_DRAWS):
        for kind in ("table", "curve", "noise"):
            draws.append(Part(f"parses, {kind}, {number}", run_parses, {"kind": kind}))
    for number in range(QUICK_DRAWS if quick else JESTER_DRAWS):
        for scored in SCORED_USERS:
            for kind in ("table", "curve"):
                key = f"jester {scored}, {kind}, {number}"
                draws.append(Part(key, run_jester, {"kind": kind, "scored": scored}))
    long = []
    for number in range(QUICK_DRAWS // 2 if quick else NOISY_DRAWS):
        long.append(Part(f"ltr, noise, {number}", run_ltr_noise))
        long.append(Part(f"jester, noise, {number}", run_jester_noise))
    return [*long, *draws, Part("time", run_time, alone=True)]


# ---- Sparse Co-RankRLS on any queries


@dataclass(frozen=True)
class PartlyScored:
    """Training rows, the scored ones first, and test rows."""

    rows: Rankings
    n_scored: int
    test: Rankings

    @property
    def scores(self) -> Floats:
        """The scores of the training rows, NaN where they are hidden."""
        y = self.rows.y.copy()
        y[self.n_scored :] = np.nan
        return y

    def error(self, model: Any) -> list[float]:
        """One value per test query, in order of first appearance."""
        return _query_errors(self.test, model)


def _query_errors(test: Rankings, model: Any) -> list[float]:
    errors = disagreement_error(test.y, model.predict(test.X), qid=test.qid, average=False)
    return [round(float(error), 6) for error in errors]


def compared(
    task: PartlyScored, kernel: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, list[float]]:
    """Errors of every method on the test queries; all tuned by leave-query-out, by the same rule."""
    scored = task.rows.take(slice(task.n_scored))
    bases = random_bases(len(task.rows.y), rng)
    basis = rng.permutation(task.n_scored)[:N_BASIS]
    rule: dict[str, Any] = {"weighting": "unit", "scoring": "rescaled", "gamma": "scale", **kernel}
    models = {
        STANDARD: RankRLS(basis=distinct(scored.X), **rule).fit(scored.X, scored.y, qid=scored.qid),
        SPARSE: RankRLS(basis=basis, **rule).fit(scored.X, scored.y, qid=scored.qid),
        AVERAGE: (
            co_ranker(bases, kernel, agreement=0.0).fit(task.rows.X, task.scores, qid=task.rows.qid)
        ),
        CO: (
            co_ranker(bases, kernel, agreement=strengths(task)).fit(
                task.rows.X, task.scores, qid=task.rows.qid
            )
        ),
    }
    return {method: task.error(model) for method, model in models.items()}


def curve(
    task: PartlyScored, amounts: list[int], kernel: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, list[float]]:
    """Errors of Sparse Co-RankRLS with the first unscored queries, by their number, 0 first.

    Parameters are those that were tuned with all of them ([Tsivtsivadze2010] sect. 6.3). The basis
    is the same throughout.
    """
    rows, y = task.rows, task.scores
    order = list(dict.fromkeys(rows.qid[task.n_scored :].tolist()))
    used = {
        amount: np.r_[np.arange(task.n_scored), _rows_of(task, order[:amount])]
        for amount in amounts[1:]
    }
    bases = random_bases(len(used[amounts[1]]), rng)
    tuned = co_ranker(bases, kernel, agreement=strengths(task)).fit(rows.X, y, qid=rows.qid)
    errors = {}
    for amount in amounts:
        # without agreement, as for 0, the unscored rows say nothing
        chosen = used[amount or amounts[1]]
        model = co_ranker(
            bases, kernel, agreement=tuned.agreement_ if amount else 0.0, alpha=tuned.alpha_
        )
        errors[str(amount)] = task.error(model.fit(rows.X[chosen], y[chosen], qid=rows.qid[chosen]))
    return errors


def _rows_of(task: PartlyScored, queries: list[int]) -> Integers:
    return task.n_scored + np.flatnonzero(np.isin(task.rows.qid[task.n_scored :], queries))


def co_ranker(
    bases: list[Integers], kernel: Mapping[str, Any], *, agreement: Any, alpha: Any = "tune"
) -> CoRankRLS:
    """Two views of all columns with a basis each."""
    views = [View(basis=basis, **kernel) for basis in bases]
    return CoRankRLS(views, alpha=alpha, agreement=agreement, weighting="unit")


def strengths(task: PartlyScored) -> list[float]:
    """Candidates for agreement; both terms are sums, so that they follow the numbers of rows."""
    share = task.n_scored / max(len(task.rows.y) - task.n_scored, 1)
    return [strength * share for strength in STRENGTHS]


def random_bases(n_rows: int, rng: np.random.Generator) -> list[Integers]:
    """Different rows for the two views."""
    drawn = rng.permutation(n_rows)[: 2 * N_BASIS]
    return [drawn[0::2], drawn[1::2]]


def distinct(X: Floats) -> Integers:
    """One row number per different row: those rows span what all rows span."""
    return np.sort(np.unique(X, axis=0, return_index=True)[1])


# ---- noisy scores on any queries


def noisy(
    train: Rankings,
    test: Rankings,
    spread: float,
    arguments: Mapping[str, Any],
    rng: np.random.Generator,
) -> dict[str, dict[str, list[float]]]:
    """Errors on every test query by level of noise and method; training scores get noise, test
    scores do not.

    `spread`: the range of the scores. Everything is tuned by leave-query-out, the regressors too.
    """
    noise = rng.standard_normal(len(train.y))
    errors: dict[str, dict[str, list[float]]] = {}
    for level in LEVELS:
        y = train.y + level * spread * noise
        models = {
            name: learner(**arguments).fit(train.X, y, qid=train.qid)
            for name, learner in LEARNERS.items()
        }
        errors[str(level)] = {name: _query_errors(test, model) for name, model in models.items()}
    return errors


# ---- the parses: every sentence is tested once in a draw


def run_parses(settings: Settings, rng: np.random.Generator, kind: str) -> Result:
    """Both halves of the sentences are trained on once; errors come in the order of all sentences."""
    data = parses(settings.folder)
    sentences = np.unique(data.qid)
    halves = np.array_split(rng.permutation(sentences), 2)
    by_half: list[tuple[Integers, Any]] = []
    for train, test in (halves, halves[::-1]):
        tested = np.sort(test)
        if kind == "noise":  # at most three parses of a sentence ([Tsivtsivadze2009] sect. 6.1)
            few, judged = (picked(data, queries, 3, rng) for queries in (train, tested))
            by_half.append((tested, noisy(few, judged, 1.0, COSINE, rng)))
            continue
        scored, unscored = (
            picked(data, queries, None, rng) for queries in np.array_split(train, 2)
        )
        task = PartlyScored(
            stacked(scored, unscored), len(scored.y), picked(data, tested, None, rng)
        )
        if kind == "table":
            by_half.append((tested, compared(task, COSINE, rng)))
        else:
            by_half.append((tested, curve(task, AMOUNTS["parses"], COSINE, rng)))
    merged: Result = _in_order(by_half, sentences)
    return merged


def _in_order(by_half: list[tuple[Integers, Any]], queries: Integers) -> Any:
    """Errors of all queries from those of both halves, at whatever depth of the dictionaries they
    are.
    """
    first = by_half[0][1]
    if isinstance(first, dict):
        return {
            key: _in_order([(half, errors[key]) for half, errors in by_half], queries)
            for key in first
        }
    by_query = {
        int(query): error
        for half, errors in by_half
        for query, error in zip(half, errors, strict=True)
    }
    return [by_query[int(query)] for query in queries]


def picked(
    data: Rankings, queries: Integers, most: int | None, rng: np.random.Generator
) -> Rankings:
    """At most `most` rows of each of the queries, query by query."""
    rows = []
    for query in queries:
        of_query = np.flatnonzero(data.qid == query)
        rows.append(of_query if most is None else np.sort(rng.permutation(of_query)[:most]))
    return data.take(np.concatenate(rows))


# ---- Jester and LightGBM's data: the same test queries in every draw


def _users(settings: Settings) -> tuple[Integers, Integers]:
    """Users tested on, the same in all parts, and the others."""
    n_users = len(jester(settings.folder).scores)
    users = np.random.default_rng([settings.seed, 17]).permutation(n_users)
    n_test = min(QUICK_TEST_USERS if settings.quick else TEST_USERS, n_users // 2)
    return np.sort(users[:n_test]), users[n_test:]


def run_jester(settings: Settings, rng: np.random.Generator, kind: str, scored: str) -> Result:
    """Scored and unscored users with thirty jokes each."""
    data, (test, others) = jester(settings.folder), _users(settings)
    users = rng.permutation(others)
    n_scored = min(SCORED_USERS[scored], len(users) // 2)
    scored_rows = data.drawn(users[:n_scored], ITEMS, rng)
    unscored_rows = data.drawn(users[n_scored : n_scored + UNSCORED_USERS], ITEMS, rng)
    rows = stacked(scored_rows, unscored_rows)
    task = PartlyScored(rows, len(scored_rows.y), data.drawn(test, None, rng))
    kernel = {**RBF, "gamma": float(1 / (rows.X.shape[1] * rows.X.var()))}
    if kind == "table":
        return compared(task, kernel, rng)
    return curve(task, AMOUNTS["jester"], kernel, rng)


def run_jester_noise(settings: Settings, rng: np.random.Generator) -> Result:
    """Twenty jokes of each of twenty users."""
    data, (test, others) = jester(settings.folder), _users(settings)
    train = data.drawn(rng.permutation(others)[:NOISY_USERS], NOISY_ITEMS, rng)
    return noisy(train, data.drawn(test, None, rng), 20.0, {**RBF, "gamma": "tune"}, rng)


def run_ltr_noise(settings: Settings, rng: np.random.Generator) -> Result:
    """Forty of the 201 training queries; the 50 test queries."""
    train, test = rankings(settings.folder)
    rows = picked(train, rng.permutation(np.unique(train.qid))[:NOISY_QUERIES], None, rng)
    varies = np.ptp(rows.X, axis=0) > 0
    arguments = {**RBF, "gamma": "tune"}
    return noisy(rows.with_columns(varies), test.with_columns(varies), 4.0, arguments, rng)


def run_time(settings: Settings, rng: np.random.Generator) -> Result:
    """Seconds of one fit of Sparse Co-RankRLS against the number of unscored rows; the best of
    three.
    """
    data = jester(settings.folder)
    # once the users of the rows; kept, so that the numbers after it stay
    rng.integers(len(data.scores), size=2_000)
    X = data.items[rng.integers(data.scores.shape[1], size=2_000)]
    qid = np.repeat(np.arange(len(X) // 20), 20)
    amounts = TIMED[:3] if settings.quick else TIMED
    model = co_ranker(random_bases(len(X), rng), RBF, agreement=0.1, alpha=1.0)
    y, seconds = rng.standard_normal(len(X)), []
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


# ---- what the errors say

TABLE_DATA = {
    "parses": "parses",
    "jester many": "Jester, 250 scored users",
    "jester few": "Jester, 20 scored users",
}
NOISE_DATA = {"parses": "parses", "jester": "Jester", "ltr": "LightGBM ranking"}
UNITS = {
    "parses": "sentences",
    "jester": "test users",
    "jester many": "test users",
    "jester few": "test users",
    "ltr": "test queries",
}
PER_QUERY = {"parses": 5, "jester many": 30, "jester few": 30}  # rows of an unscored query, about
WORTH = -0.005  # a difference that anyone would notice
LINEAR = 1.2  # exponents up to it count as linear growth
NOTES = (
    (
        "The parses are 200 of the papers' many thousands: 42 sentences can show large differences"
        " only."
    ),
    (
        "Whether the RankRLS of Tsivtsivadze2010 table 1 has a basis of 20 rows too is not said"
        " there: both are shown."
    ),
)

ByMethod = Mapping[str, Floats]  # method, or number of unscored queries → errors (draws, queries)
ByLevel = Mapping[float, ByMethod]  # level of noise → errors by method


def conclude(settings: Settings, results: Mapping[str, Result]) -> Outcome:
    """Both papers' tables, the curve over unscored items, and what became of the findings."""
    tables = {name: _errors(results, f"{name}, table, ") for name in TABLE_DATA}
    curves = {name: _errors(results, f"{name}, curve, ") for name in TABLE_DATA}
    by_noise = {
        name: {level: _errors(results, f"{name}, noise, ", str(level)) for level in LEVELS}
        for name in NOISE_DATA
    }
    return Outcome(
        [_method_table(tables), _noise_table(by_noise), _curve_table(curves)],
        [*_agreement_findings(tables, curves, results["time"]), *_noise_findings(by_noise)],
        [_curve_figure(curves), _noise_figure(by_noise)],
        NOTES,
        sum(_fit_count(key, result) for key, result in results.items()),
    )


def _fit_count(key: str, result: Result) -> int:
    """The fits of a part; the halves of the sentences count twice."""
    if key == "time":
        return 3 * len(result["rows"])
    fits = {"table": len(result), "curve": len(result) + 1, "noise": len(result) * len(LEARNERS)}
    return fits[key.split(", ")[1]] * (2 if key.startswith("parses") else 1)


def _errors(results: Mapping[str, Result], prefix: str, *path: str) -> dict[str, Floats]:
    """Errors (draws, queries) by method; queries without different scores are left out."""
    draws: list[Any] = [result for key, result in results.items() if key.startswith(prefix)]
    for key in path:
        draws = [draw[key] for draw in draws]
    tables = {
        method: np.asarray([draw[method] for draw in draws], dtype=float) for method in draws[0]
    }
    defined = ~np.any([np.isnan(table).any(axis=0) for table in tables.values()], axis=0)
    return {method: table[:, defined] for method, table in tables.items()}


def _mean(table: Floats) -> tuple[float, float]:
    """Mean, and the standard error that follows from drawing both draws and queries again."""
    low, high = two_way_interval(table)
    return float(table.mean()), (high - low) / (2 * 1.96)


def _method_table(tables: Mapping[str, ByMethod]) -> Table:
    rows = [
        (
            title,
            method,
            PUBLISHED.get(method) if name == "parses" else None,
            *_mean(tables[name][method]),
        )
        for name, title in TABLE_DATA.items()
        for method in METHODS
    ]
    title = "Tsivtsivadze2010 table 1: disagreement on test queries"
    return Table(title, ("data", "method", "paper", "ours", "s.e."), rows)


def _agreement_findings(
    tables: Mapping[str, ByMethod], curves: Mapping[str, ByMethod], timed: Result
) -> list[Finding]:
    findings = []
    for name, title in TABLE_DATA.items():
        errors = tables[name]
        for other in (STANDARD, SPARSE):
            claim = (
                f"Sparse Co-RankRLS errs less than {other} (0.326 against 0.348, p < 0.05): {title}"
            )
            gap = -0.022
            findings.append(
                smaller_error(
                    "Tsivtsivadze2010 table 1",
                    claim,
                    errors[CO],
                    errors[other],
                    units=UNITS[name],
                    published=gap,
                )
            )
    for name, title in TABLE_DATA.items():
        claim = (
            "Unscored items improve the ranking significantly (against the same two views without"
            f" agreement): {title}"
        )
        errors = tables[name]
        findings.append(
            smaller_error(
                "Tsivtsivadze2010 abstract",
                claim,
                errors[CO],
                errors[AVERAGE],
                units=UNITS[name],
                worth=WORTH,
            )
        )
    for name, title in TABLE_DATA.items():
        errors = curves[name]
        _, least, *_, most = errors
        claim = (
            f"The error falls as unscored items are added ({least} to {most} unscored queries):"
            f" {title}"
        )
        findings.append(
            smaller_error(
                "Tsivtsivadze2010 fig. 1",
                claim,
                errors[most],
                errors[least],
                units=UNITS[name],
                worth=WORTH,
            )
        )
    exponent = growth(timed["rows"], timed["seconds"])
    claim = "Sparse Co-RankRLS takes time linear in the number of unscored items"
    rows = f"{timed['rows'][0]:,} to {timed['rows'][-1]:,} unscored rows"
    evidence = (
        f"time grows as the number to the power {exponent:.2f} ({rows}, {timed['seconds'][-1]:.2f}"
        " s at most)."
    )
    verdict = HOLDS if exponent <= LINEAR else DOES_NOT_HOLD
    return [*findings, Finding("Tsivtsivadze2010 sect. 4, 7", claim, verdict, evidence)]


def _curve_table(curves: Mapping[str, ByMethod]) -> Table:
    rows = [
        (title, int(amount), int(amount) * PER_QUERY[name], *_mean(errors))
        for name, title in TABLE_DATA.items()
        for amount, errors in curves[name].items()
    ]
    return Table(
        "Tsivtsivadze2010 fig. 1: disagreement of Sparse Co-RankRLS by unscored items",
        ("data", "unscored queries", "rows, about", "ours", "s.e."),
        rows,
        note="The points of the paper's figure are not in its text.",
        details=True,
    )


def _curve_figure(curves: Mapping[str, ByMethod]) -> Figure:
    panels = []
    for name, title in TABLE_DATA.items():
        amounts = [int(amount) * PER_QUERY[name] for amount in curves[name]]
        panels.append(
            Panel(
                title,
                "unscored rows",
                "disagreement",
                [_band(CO, amounts, list(curves[name].values()))],
            )
        )
    caption = (
        "Error against unscored items, with 95 % bands over draws and queries (Tsivtsivadze2010"
        " fig. 1)."
    )
    return Figure("unscored", caption, panels)


def _band(name: str, x: list[Any], tables: list[Floats]) -> Series:
    intervals = [two_way_interval(table) for table in tables]
    means = [float(table.mean()) for table in tables]
    return Series(name, x, means, [low for low, _ in intervals], [high for _, high in intervals])


def _noise_table(by_noise: Mapping[str, ByLevel]) -> Table:
    rows = [
        (
            title,
            f"{level:g}",
            method,
            PUBLISHED_BY_NOISE[method][at] if name == "parses" else None,
            *_mean(by_noise[name][level][method]),
        )
        for name, title in NOISE_DATA.items()
        for at, level in enumerate(LEVELS)
        for method in LEARNERS
    ]
    head = ("data", "noise", "method", "paper", "ours", "s.e.")
    return Table("Tsivtsivadze2009 table 1: disagreement by noise", head, rows)


def _noise_findings(by_noise: Mapping[str, ByLevel]) -> list[Finding]:
    findings, whole, components = [], ("RLS", "RankRLS"), ("KPCRank", "KPCR")
    for name, title in NOISE_DATA.items():
        for at, level in enumerate(LEVELS):
            if level == 0:
                claim = f"Without noise RLS and RankRLS err less than KPCRank and KPCR: {title}"
                pairs = [(better, worse) for better in whole for worse in components]
            else:
                claim = (
                    f"With noise {level:g} KPCRank errs less than RLS, RankRLS and KPCR: {title}"
                )
                pairs = [("KPCRank", worse) for worse in (*whole, "KPCR")]
            published: dict[tuple[str, str], float | None] = {
                (better, worse): PUBLISHED_BY_NOISE[better][at] - PUBLISHED_BY_NOISE[worse][at]
                for better, worse in pairs
            }
            findings.append(
                smaller_errors(
                    "Tsivtsivadze2009 table 1",
                    claim,
                    by_noise[name][level],
                    published,
                    units=UNITS[name],
                )
            )
    claim = (
        "RankRLS ranks parses better than RLS (said of an earlier paper; Tsivtsivadze2009 table 1"
        " prints the contrary)"
    )
    errors = by_noise["parses"][0.0]
    earlier = smaller_error(
        "Pahikkala2007 sect. 2",
        claim,
        errors["RankRLS"],
        errors["RLS"],
        units=UNITS["parses"],
        worth=WORTH,
    )
    return [*findings, earlier]


def _noise_figure(by_noise: Mapping[str, ByLevel]) -> Figure:
    panels = []
    for name, title in NOISE_DATA.items():
        series = [
            _band(method, list(LEVELS), [by_noise[name][level][method] for level in LEVELS])
            for method in LEARNERS
        ]
        panels.append(Panel(title, "noise, in ranges of the score", "disagreement", series))
    caption = (
        "Error against noise in the training scores, with 95 % bands (Tsivtsivadze2009 table 1)."
    )
    return Figure("noise", caption, panels)


STUDY = Study(
    name="parses",
    title="Tsivtsivadze2010 and Tsivtsivadze2009: ranking parses, and users' jokes",
    sources=("Tsivtsivadze2010 table 1", "Tsivtsivadze2010 fig. 1", "Tsivtsivadze2009 table 1"),
    about=(
        "Parses: 200 parses of 42 sentences (of the papers' 1,100 sentences), cosine kernel. In"
        f" each of {PARSE_DRAWS} draws the sentences are divided in two halves, each trained on"
        " once and tested on once. Tsivtsivadze2010: half of the training sentences are scored,"
        " two views with a basis of 20 training rows each; Tsivtsivadze2009: at most three parses"
        " of a sentence. Jester: 600 test users; Tsivtsivadze2010: 30 jokes of each of 250 scored"
        " and 250 unscored users, as the paper's sentences, and of 20 scored users, where scores"
        " are scarce; Tsivtsivadze2009: 20 jokes of each of 20 users. LightGBM's ranking data: 40"
        " training queries, 50 test queries (Tsivtsivadze2009 only). Features of a joke are the"
        f" ratings by 100 reference users; rbf kernels; {JESTER_DRAWS} draws. Noise is Gaussian"
        " with 0, 0.5 and 1 times the range of the scores as its standard deviation, on training"
        " scores only. Everything is tuned by leave-query-out on the scored training queries (the"
        " papers: five folds of sentences). Errors are of single queries, pairs with different"
        " scores only. A claim holds where Wilcoxon's test over queries, as the papers test, and"
        " the interval over draws and queries agree."
    ),
    files=(*PARSES, *JESTER, *RANKING),
    parts=parts,
    conclude=conclude,
)
STUDIES = (STUDY,)
