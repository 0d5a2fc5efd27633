"""Sparse Co-RankRLS: on parses, and on data whose unscored and test rows are no copies of scored
ones (LightGBM's queries, Jester with other jokes).

[Tsivtsivadze2010] table 1 and fig. 1: Sparse RankRLS and Sparse Co-RankRLS, and the error against
the unscored items. The two views differ in nothing but their basis, 20 training rows drawn at
random for each (sect. 6.1); the baseline has such a basis too (sect. 6.2: "random selection of the
basis vectors for both methods").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from corank import CoRankRLS, RankRLS, View
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
    share_of_copies,
    stacked,
)
from studies.study import (
    ELSEWHERE,
    NOT_CLAIMED,
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
)
from studies.verdicts import smaller_error, untested

PARSE_DRAWS, DRAWS, QUICK_DRAWS = 100, 20, 4
ITEMS, TEST_USERS, QUICK_TEST_USERS = 30, 600, 100  # jokes of a user in training; users tested on
SCORED_JOKES, UNSCORED_JOKES = 50, 25  # the others are tested on
UNSCORED_USERS, UNSCORED_QUERIES = 250, 100
# data set → its title, and how many queries are scored (None: half of the training sentences)
SETS: dict[str, tuple[str, int | None]] = {
    "parses": ("parses", None),
    "ltr few": ("LightGBM, 10 scored queries", 10),
    "ltr many": ("LightGBM, 60 scored queries", 60),
    "jester few": ("Jester with other jokes, 20 scored users", 20),
    "jester many": ("Jester with other jokes, 250 scored users", 250),
}
# unscored queries: the paper's 0 to 4,000 rows, or what there is
AMOUNTS = {
    "parses": [0, 2, 4, 6, 8, 10],
    "ltr": [0, 25, 50, 75, 100],
    "jester": [0, 33, 67, 100, 133],
}
COSINE, RBF = {"kernel": "linear"}, {"kernel": "rbf"}  # rows of the parses have length 1

N_BASIS = 20
STANDARD, SPARSE, AVERAGE, CO = (
    "RankRLS on all rows",
    "Sparse RankRLS",
    "two views, no agreement",
    "Sparse Co-RankRLS",
)
METHODS = (STANDARD, SPARSE, AVERAGE, CO)
# of agreement, beside as many unscored as scored rows
STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
PUBLISHED = {SPARSE: 0.348, CO: 0.326}  # [Tsivtsivadze2010] table 1
GAIN = -0.022  # its difference
GAIN_OF_CURVE = -0.011  # fig. 1 has no numbers in its text: half of the whole gain


def parts(settings: Settings) -> list[Part]:
    """Draws of each data set."""
    quick, made = settings.quick, []
    for name in SETS:
        full = PARSE_DRAWS if name == "parses" else DRAWS
        for number in range(QUICK_DRAWS if quick else full):
            for kind in ("table", "curve"):
                run = RUNS[name.split()[0]]
                arguments = {"kind": kind}
                if name != "parses":
                    arguments["scored"] = name
                made.append(Part(f"{name}, {kind}, {number}", run, arguments))
    return made


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
        return query_errors(self.test, model)

    @property
    def copies(self) -> dict[str, float]:
        """Shares of the unscored and of the test rows that are copies of scored rows."""
        scored = self.rows.X[: self.n_scored]
        return {
            "unscored": share_of_copies(self.rows.X[self.n_scored :], scored),
            "test": share_of_copies(self.test.X, scored),
        }


def query_errors(test: Rankings, model: Any) -> list[float]:
    """One value per query, in order of first appearance."""
    errors = disagreement_error(test.y, model.predict(test.X), qid=test.qid, average=False)
    return [round(float(error), 6) for error in errors]


def compared(task: PartlyScored, kernel: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Errors of every method on the test queries, all tuned by leave-query-out, by the same rule;
    and how many rows are copies.
    """
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
    errors = {method: task.error(model) for method, model in models.items()}
    return {"errors": errors, "copies": task.copies}


def curve(
    task: PartlyScored, amounts: list[int], kernel: Mapping[str, Any], rng: np.random.Generator
) -> Result:
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
    return {"errors": errors}


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


# ---- the parses: every sentence is tested once in a draw


def run_parses(settings: Settings, rng: np.random.Generator, kind: str) -> Result:
    """Both halves of the sentences are trained on once; errors come in the order of all sentences."""
    data = parses(settings.folder)
    sentences = np.unique(data.qid)
    halves = np.array_split(rng.permutation(sentences), 2)
    by_half: list[tuple[Integers, Any]] = []
    shares = []
    for train, test in (halves, halves[::-1]):
        tested = np.sort(test)
        scored, unscored = (
            picked(data, queries, None, rng) for queries in np.array_split(train, 2)
        )
        task = PartlyScored(
            stacked(scored, unscored), len(scored.y), picked(data, tested, None, rng)
        )
        result = judged(task, kind, AMOUNTS["parses"], COSINE, rng)
        by_half.append((tested, result["errors"]))
        shares.append(task.copies)
    copies = {key: float(np.mean([share[key] for share in shares])) for key in shares[0]}
    return {"errors": in_order(by_half, sentences), "copies": copies}


def judged(
    task: PartlyScored,
    kind: str,
    amounts: list[int],
    kernel: Mapping[str, Any],
    rng: np.random.Generator,
) -> Result:
    """The methods of the table, or the curve."""
    if kind == "table":
        return compared(task, kernel, rng)
    return curve(task, amounts, kernel, rng)


def in_order(by_half: list[tuple[Integers, Any]], queries: Integers) -> Any:
    """Errors of all queries from those of both halves, at whatever depth of the dictionaries they
    are.
    """
    first = by_half[0][1]
    if isinstance(first, dict):
        return {
            key: in_order([(half, errors[key]) for half, errors in by_half], queries)
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


def test_and_other_users(settings: Settings) -> tuple[Integers, Integers]:
    """Users of Jester who are tested on, the same in all parts, and the others."""
    n_users = len(jester(settings.folder).scores)
    users = np.random.default_rng([settings.seed, 17]).permutation(n_users)
    n_test = min(QUICK_TEST_USERS if settings.quick else TEST_USERS, n_users // 2)
    return np.sort(users[:n_test]), users[n_test:]


def run_jester(settings: Settings, rng: np.random.Generator, kind: str, scored: str) -> Result:
    """Scored and unscored users with thirty jokes each; scored, unscored and tested jokes are
    different ones.
    """
    data, (test, others) = jester(settings.folder), test_and_other_users(settings)
    users, jokes = rng.permutation(others), rng.permutation(len(data.items))
    n_scored = min(int(SETS[scored][1] or 0), len(users) // 2)
    known, unknown, judged_on = np.split(jokes, [SCORED_JOKES, SCORED_JOKES + UNSCORED_JOKES])
    scored_rows = data.drawn(users[:n_scored], ITEMS, rng, among=known)
    unscored_users = users[n_scored : n_scored + UNSCORED_USERS]
    unscored_rows = data.drawn(unscored_users, ITEMS, rng, among=unknown)
    rows = stacked(scored_rows, unscored_rows)
    task = PartlyScored(rows, len(scored_rows.y), data.drawn(test, None, rng, among=judged_on))
    return judged(task, kind, AMOUNTS["jester"], _rbf(rows), rng)


def run_ltr(settings: Settings, rng: np.random.Generator, kind: str, scored: str) -> Result:
    """Training queries, scored and unscored ones; the 50 test queries. Queries share no documents
    but empty ones.
    """
    train, test = rankings(settings.folder)
    queries = rng.permutation(np.unique(train.qid))
    n_scored = min(int(SETS[scored][1] or 0), len(queries) // 2)
    known = picked(train, queries[:n_scored], None, rng)
    unscored = queries[n_scored : n_scored + UNSCORED_QUERIES]
    rows = stacked(known, picked(train, unscored, None, rng))
    varies = np.ptp(rows.X, axis=0) > 0
    rows, test = rows.with_columns(varies), test.with_columns(varies)
    task = PartlyScored(rows, len(known.y), test)
    return judged(task, kind, AMOUNTS["ltr"], _rbf(rows), rng)


def _rbf(rows: Rankings) -> dict[str, Any]:
    return {**RBF, "gamma": float(1 / (rows.X.shape[1] * rows.X.var()))}


RUNS: dict[str, Callable[..., Result]] = {
    "parses": run_parses,
    "ltr": run_ltr,
    "jester": run_jester,
}


# ---- what the errors say

UNITS = {"parses": "sentences", "ltr": "test queries", "jester": "test users"}
PER_QUERY = {"parses": 5, "ltr": 15, "jester": 19}  # rows of an unscored query, about
NOTES = (
    (
        "The parses are the 200 of RLScore's test data (rank_train.light, rank_test.light). That"
        " they are BioInfer's, the papers' 1,100 sentences, is an inference from their format:"
        " RLScore does not say so. 42 sentences can show large differences only."
    ),
    (
        "The paper's RankRLS is taken to be sparse, as its sect. 6.2 says of both methods;"
        " RankRLS on all rows is shown beside it, a comparison that the paper does not make."
    ),
    (
        "The paper has no experiment without agreement. That unscored items improve the ranking is"
        " judged against the same two views without agreement; sizes are judged by half of the"
        " difference of table 1."
    ),
)

SENTENCES = "the paper's 1,100 sentences"
WHY = (
    "they are not at hand; 42 sentences with five parses each stand in for them below, where the"
    " paper has 500 sentences with thirty, half of them unscored."
)
ByMethod = Mapping[str, Floats]  # method, or number of unscored queries → errors (draws, queries)


def conclude(settings: Settings, results: Mapping[str, Result]) -> Outcome:
    """The table, the curve over unscored items, and what became of the findings."""
    tables = {name: errors_in(results, f"{name}, table, ") for name in SETS}
    curves = {name: errors_in(results, f"{name}, curve, ") for name in SETS}
    findings = [*_table_findings(tables), *_curve_findings(curves)]
    return Outcome(
        [_method_table(tables), _curve_table(curves), _copy_table(results)],
        [*untested(findings, WHY, SENTENCES), *findings],
        [_curve_figure(curves)],
        NOTES,
        sum(_fit_count(key, result) for key, result in results.items()),
    )


def _fit_count(key: str, result: Result) -> int:
    """The fits of a part; the halves of the sentences count twice."""
    fits = len(result["errors"]) + (", curve, " in key)
    return fits * (2 if key.startswith("parses") else 1)


def errors_in(results: Mapping[str, Result], prefix: str, *path: str) -> dict[str, Floats]:
    """Errors (draws, queries) by method; queries without different scores in a draw are left
    out.
    """
    draws: list[Any] = [
        result["errors"] for key, result in results.items() if key.startswith(prefix)
    ]
    for key in path:
        draws = [draw[key] for draw in draws]
    tables = {
        method: np.asarray([draw[method] for draw in draws], dtype=float) for method in draws[0]
    }
    defined = ~np.any([np.isnan(table).any(axis=0) for table in tables.values()], axis=0)
    return {method: table[:, defined] for method, table in tables.items()}


def mean_and_error(table: Floats) -> tuple[float, float]:
    """Mean, and the standard error that follows from drawing both draws and queries again."""
    low, high = two_way_interval(table)
    return float(table.mean()), (high - low) / (2 * 1.96)


def _method_table(tables: Mapping[str, ByMethod]) -> Table:
    rows = [
        (
            title,
            method,
            PUBLISHED.get(method) if name == "parses" else None,
            *mean_and_error(tables[name][method]),
        )
        for name, (title, _) in SETS.items()
        for method in METHODS
    ]
    title = "Tsivtsivadze2010 table 1: disagreement on test queries"
    return Table(title, ("data", "method", "paper", "ours", "s.e."), rows)


def _table_findings(tables: Mapping[str, ByMethod]) -> list[Finding]:
    claims = (
        ("table 1", f"Sparse Co-RankRLS errs less than {SPARSE} (0.326 against 0.348)", SPARSE),
        ("abstract", "Unscored items improve the ranking significantly", AVERAGE),
        ("table 1", f"Sparse Co-RankRLS errs less than {STANDARD}", STANDARD),
    )
    return [
        smaller_error(
            f"Tsivtsivadze2010 {place}",
            claim,
            tables[name][CO],
            tables[name][other],
            units=UNITS[name.split()[0]],
            published=GAIN if other == SPARSE else None,
            worth=GAIN,
            case=title,
            kind=NOT_CLAIMED if other == STANDARD else ELSEWHERE,
        )
        for place, claim, other in claims
        for name, (title, _) in SETS.items()
    ]


def _curve_findings(curves: Mapping[str, ByMethod]) -> list[Finding]:
    findings = []
    for name, (title, _) in SETS.items():
        _, least, *_, most = curves[name]
        findings.append(
            smaller_error(
                "Tsivtsivadze2010 fig. 1",
                "The error falls as unscored items are added",
                curves[name][most],
                curves[name][least],
                units=UNITS[name.split()[0]],
                worth=GAIN_OF_CURVE,
                case=f"{title}, {least} to {most} unscored queries",
                kind=ELSEWHERE,
            )
        )
    return findings


def _curve_table(curves: Mapping[str, ByMethod]) -> Table:
    rows = [
        (title, int(amount), int(amount) * PER_QUERY[name.split()[0]], *mean_and_error(errors))
        for name, (title, _) in SETS.items()
        for amount, errors in curves[name].items()
    ]
    return Table(
        "Tsivtsivadze2010 fig. 1: disagreement of Sparse Co-RankRLS by unscored items",
        ("data", "unscored queries", "rows, about", "ours", "s.e."),
        rows,
        note="The points of the paper's figure are not in its text.",
        details=True,
    )


def _copy_table(results: Mapping[str, Result]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, (title, _) in SETS.items():
        draws = [
            result["copies"]
            for key, result in results.items()
            if key.startswith(f"{name}, table, ")
        ]
        shares = [float(np.mean([draw[key] for draw in draws])) for key in ("unscored", "test")]
        rows.append((title, *shares))
    return Table(
        "Share of rows that are copies of scored rows",
        ("data", "unscored rows", "test rows"),
        rows,
        note="A copy says nothing new: unscored rows that are copies cannot help.",
    )


def _curve_figure(curves: Mapping[str, ByMethod]) -> Figure:
    panels = []
    for name, (title, _) in SETS.items():
        amounts = [int(amount) * PER_QUERY[name.split()[0]] for amount in curves[name]]
        series = band(CO, amounts, list(curves[name].values()))
        panels.append(Panel(title, "unscored rows", "disagreement", [series]))
    caption = (
        "Error against unscored items, with 95 % bands over draws and queries (Tsivtsivadze2010"
        " fig. 1)."
    )
    return Figure("unscored", caption, panels)


def band(name: str, x: list[Any], tables: list[Floats]) -> Series:
    """Means of errors (draws, queries) with 95 % bands."""
    intervals = [two_way_interval(table) for table in tables]
    means = [float(table.mean()) for table in tables]
    return Series(name, x, means, [low for low, _ in intervals], [high for _, high in intervals])


STUDY = Study(
    name="parses",
    title="Tsivtsivadze2010: unscored items in ranking",
    sources=("Tsivtsivadze2010 table 1", "Tsivtsivadze2010 fig. 1"),
    about=(
        "Parses: 200 parses of 42 sentences, cosine kernel. In each of"
        f" {PARSE_DRAWS} draws the sentences are divided in two halves, each trained on once and"
        " tested on once; half of the training sentences are scored. LightGBM's ranking data: 10"
        f" or 60 scored and {UNSCORED_QUERIES} unscored training queries, 50 test queries. Jester:"
        f" {SCORED_JOKES} jokes are rated by the scored users (20 or 250), {UNSCORED_JOKES} others"
        f" by {UNSCORED_USERS} unscored ones, and 600 users are tested on the rest, so that no"
        " unscored or test row is a copy of a scored one; up to 30 jokes of a user; features of a"
        f" joke are the ratings by 100 reference users. rbf kernels; {DRAWS} draws. Two views with"
        " a basis of 20 training rows each. Everything is tuned by leave-query-out on the scored"
        " training queries (the paper: five folds of sentences). Errors are of single queries,"
        " pairs with different scores only. A claim holds where Wilcoxon's test over queries, as"
        " the paper tests, and the interval over draws and queries agree."
    ),
    files=(*PARSES, *JESTER, *RANKING),
    parts=parts,
    conclude=conclude,
    protocol=2,
)
STUDIES = (STUDY,)
