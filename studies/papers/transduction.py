"""Transductive against inductive RankRLS, on queries that are known, but not scored, when the model
is fitted.

[Pahikkala2007] has no experiment, and does not say that this helps: what comes out is no verdict on
the paper. The unscored items are no copies of scored ones. What the paper says of costs is in the
study `costs`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from corank import RankRLS, TransductiveRankRLS
from corank.metrics import disagreement_error
from studies.data import (
    JESTER,
    RANKING,
    SUSHI,
    Floats,
    Rankings,
    jester,
    rankings,
    share_of_copies,
    stacked,
    sushi,
)
from studies.study import (
    NOT_CLAIMED,
    Finding,
    Measured,
    Outcome,
    Part,
    Result,
    Settings,
    Study,
    Table,
)
from studies.verdicts import smaller_error, standard_error

SETS = {
    "jester": "Jester with other jokes",
    "sushi": "sushi of other kinds",
    "ltr": "LightGBM ranking",
}
SCORED = {"jester": (5, 20), "sushi": (10, 40), "ltr": (5, 20)}  # scored queries: few, and more
ITEMS = 20  # of a user of Jester
DRAWS, QUICK_DRAWS = 40, 6
INDUCTIVE, PULLED, TUNED = "inductive", "transductive, pull 1", "transductive, pull tuned"
METHODS = (INDUCTIVE, PULLED, TUNED)
WORTH = -0.005  # a gain that anyone would notice


def parts(settings: Settings) -> list[Part]:
    """One part per set, number of scored queries and draw; the queries of a draw are the same for
    both numbers.
    """
    numbers = range(QUICK_DRAWS if settings.quick else DRAWS)
    return [
        Part(
            f"{name}, {scored}, {number}",
            run,
            {"name": name, "scored": scored},
            draw=f"{name}, {number}",
        )
        for name in SETS
        for scored in SCORED[name]
        for number in numbers
    ]


def drawn(
    settings: Settings, rng: np.random.Generator, name: str, scored: int
) -> tuple[Rankings, int]:
    """Rows of scored and unscored queries, and how many rows are scored: those stand first.

    The unscored queries are the same however many are scored, and their items are others.
    """
    n_unscored = SCORED[name][-1]
    if name == "ltr":
        train, _ = rankings(settings.folder)
        queries = rng.permutation(np.unique(train.qid))
        unscored_rows = train.take(np.isin(train.qid, queries[:n_unscored]))
        scored_rows = train.take(np.isin(train.qid, queries[n_unscored : n_unscored + scored]))
    else:
        data = jester(settings.folder) if name == "jester" else sushi(settings.folder)
        users, items = rng.permutation(len(data.scores)), rng.permutation(len(data.items))
        known, unknown = np.array_split(items, 2)
        unscored_rows = data.drawn(users[:n_unscored], ITEMS, rng, among=unknown)
        scored_users = users[n_unscored : n_unscored + scored]
        scored_rows = data.drawn(scored_users, ITEMS, rng, among=known)
    return stacked(scored_rows, unscored_rows), len(scored_rows.y)


def run(settings: Settings, rng: np.random.Generator, name: str, scored: int) -> Result:
    """The error on every unscored query, by method."""
    rows, n_scored = drawn(settings, rng, name, scored)
    y = rows.y.copy()
    y[n_scored:] = np.nan
    truth, qid, by_method = rows.y[n_scored:], rows.qid[n_scored:], {}
    for method in METHODS:
        if method == INDUCTIVE:
            predicted = (
                RankRLS(weighting="query", gamma="scale")
                .fit(rows.X, y, qid=rows.qid)
                .predict(rows.X[n_scored:])
            )
        else:
            model = TransductiveRankRLS(weighting="query", pull=1.0 if method == PULLED else "tune")
            predicted = model.fit(rows.X, y, qid=rows.qid).transduction_
        errors = disagreement_error(truth, predicted, qid=qid, average=False)
        by_method[method] = [round(float(error), 6) for error in errors]
    copies = share_of_copies(rows.X[n_scored:], rows.X[:n_scored])
    return {"errors": by_method, "copies": copies}


def conclude(settings: Settings, results: Mapping[str, Result]) -> Outcome:
    """Errors, and differences over draws: the queries of a draw share a model."""
    rows, findings = [], []
    for name, title in SETS.items():
        for scored in SCORED[name]:
            draws = [
                result["errors"]
                for key, result in results.items()
                if key.startswith(f"{name}, {scored}, ")
            ]
            errors = {
                method: np.asarray([np.nanmean(draw[method]) for draw in draws])
                for method in METHODS
            }
            for method in METHODS:
                gap = errors[method] - errors[INDUCTIVE]
                versus = (
                    None
                    if method == INDUCTIVE
                    else Measured(float(gap.mean()), standard_error(gap))
                )
                rows.append(
                    (
                        title,
                        scored,
                        method,
                        float(errors[method].mean()),
                        standard_error(errors[method]),
                        versus,
                    )
                )
            findings.append(_finding(title, scored, errors))
    head = ("data", "scored", "method", "ours", "s.e.", "minus inductive")
    table = Table(
        "Disagreement on the unscored queries (the paper prints no figures)",
        head,
        rows,
        digits=4,
        note="Scored: queries with scores. Standard errors are over draws.",
    )
    notes = [
        (
            "Findings are judged one by one: of six tests at 0.05 one comes out by chance in about a"
            " quarter of all cases."
        ),
        (
            "Share of the unscored rows that are copies of scored ones, over all draws:"
            f" {np.mean([result['copies'] for result in results.values()]):.4f}."
        ),
    ]
    return Outcome([table], findings, notes=notes, n_fits=len(results) * len(METHODS))


def _finding(title: str, scored: int, errors: Mapping[str, Floats]) -> Finding:
    """What one might hope for. It is judged with the pull tuned, as a user would have it."""
    return smaller_error(
        "Pahikkala2007",
        "Exploiting the test items improves their ranking (the paper does not say so)",
        errors[TUNED],
        errors[INDUCTIVE],
        units="draws",
        worth=WORTH,
        case=f"{title}, {scored} scored queries",
        kind=NOT_CLAIMED,
    )


STUDY = Study(
    name="transduction",
    title="Pahikkala2007: test items known in advance",
    sources=("Pahikkala2007, which has no table",),
    about=(
        "Disagreement on queries without scores that were known when the model was fitted. Jester:"
        " 20 jokes of each of 20 unscored and 5 or 20 scored users, who rated one half of the"
        " jokes, the unscored ones the other; sushi: what 40 unscored and 10 or 40 scored users"
        " rated of one half each of the 100 kinds, about five of each; LightGBM's ranking data: 20"
        f" unscored and 5 or 20 scored queries; {DRAWS} draws. rbf kernels, every query counts the same, alpha tuned by"
        " leave-query-out on the scored queries; the pull towards the inductive predictions (the"
        " paper's gamma) 1 or tuned."
    ),
    files=(*JESTER, *SUSHI, *RANKING),
    parts=parts,
    conclude=conclude,
    protocol=2,
)
STUDIES = (STUDY,)
