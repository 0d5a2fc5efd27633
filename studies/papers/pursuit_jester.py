"""[Tsivtsivadze2013] tables 1, 2 and 5: preferences for jokes, from the ratings of other users
(Jester).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

from studies.batched_fits.protocol import GROUPS, RatingLists, ratings_from_table
from studies.data import JESTER, jester_ratings
from studies.papers.pursuit_findings import (
    ABOUT,
    WRONG,
    PaperTable,
    Published,
    alike_findings,
    common_figures,
    common_findings,
    common_notes,
    common_tables,
    err_less,
    fewer_scores_findings,
    margins,
    method_pairs,
    not_better,
    not_worse,
    paper_table,
    user_gap,
    with_readings,
)
from studies.papers.pursuit_ratings import (
    CENTRED,
    CRRP,
    RANKERS,
    RANKING,
    REGRESSORS,
    SEMI,
    SUPERVISED,
    TABLED,
    UserErrors,
    block_parts,
    blocks,
    run_entries,
    span,
)
from studies.study import (
    CANNOT_BE_TESTED,
    DOES_NOT_HOLD,
    HOLDS,
    OWN,
    Finding,
    Outcome,
    Part,
    Result,
    Settings,
    Study,
    Table,
)

TABLE_1: Published = {
    "RLS": (0.425, 0.419, 0.383),
    "Matching pursuit": (0.428, 0.417, 0.381),
    "RankSVM": (0.412, 0.404, 0.372),
    "RankRLS": (0.409, 0.407, 0.374),
    "Sparse RankRLS": (0.414, 0.410, 0.380),
    "Ranking pursuit": (0.410, 0.404, 0.373),
}
TABLE_2: Published = {
    "RLS": (0.449, 0.434, 0.405),
    "Matching pursuit": (0.451, 0.433, 0.404),
    "RankSVM": (0.428, 0.417, 0.391),
    "RankRLS": (0.429, 0.418, 0.393),
    "Sparse RankRLS": (0.431, 0.424, 0.397),
    "Ranking pursuit": (0.428, 0.417, 0.393),
    "SS ranking pursuit": (0.419, 0.411, 0.381),
}
TABLE_5: Published = TABLE_1 | {"CRRP": (0.413, 0.408, 0.373)}
TABLE_5_SQUARED: Published = {
    "RLS": (21.6, 19.3, 15.2),
    "Matching pursuit": (20.1, 18.7, 14.9),
    "RankSVM": (34.2, 31.6, 28.9),
    "RankRLS": (33.8, 31.3, 29.2),
    "Sparse RankRLS": (36.5, 33.8, 32.9),
    "Ranking pursuit": (34.0, 30.9, 29.1),
}


@lru_cache(maxsize=1)
def _ratings(folder: Path) -> RatingLists:
    return ratings_from_table(jester_ratings(folder))


def parts(settings: Settings) -> list[Part]:
    """One part per group, task and block of methods."""
    return block_parts(run, "joke", combined=True)


def run(
    settings: Settings, rng: np.random.Generator, group: list[int], task: str, block: str
) -> Result:
    """Choose and test the methods of a block. Draws follow from the seed and the users, not from
    the part.
    """
    entries = blocks(task, "joke", combined=True)[block]
    measures = ("pairs", "squared") if task == SUPERVISED else ("pairs",)
    return run_entries(
        settings, _ratings(settings.folder), entries, (group[0], group[1]), task, measures
    )


def conclude(settings: Settings, results: Mapping[str, Result]) -> Outcome:
    """Tables 1, 2 and 5."""
    tested = UserErrors(results)
    supervised = PaperTable(tested, SUPERVISED, with_readings(TABLE_1))
    semi = PaperTable(tested, SEMI, with_readings(TABLE_2))
    ranking = PaperTable(tested, SUPERVISED, TABLE_5)
    squared = PaperTable(
        tested, SUPERVISED, TABLE_5_SQUARED, measure="squared", chosen_by="squared"
    )
    table_1, table_2 = "Tsivtsivadze2013 table 1, sect. 6.1", "Tsivtsivadze2013 table 2, sect. 6.1"
    ranked = "Ranking methods err less than regression methods"
    findings = [
        *err_less(
            table_1, ranked, method_pairs(supervised, RANKERS, (*REGRESSORS, *CENTRED.values()))
        ),
        *alike_findings(table_1, supervised, "ranking", RANKERS),
        *alike_findings(table_1, supervised, "regression", REGRESSORS),
        *common_findings(supervised, semi, table_1, table_2, share=0.30),
        *fewer_scores_findings(table_2, supervised, semi),
    ]
    first, second, *others = common_tables(
        supervised, semi, "Tsivtsivadze2013 table 1", "Tsivtsivadze2013 table 2"
    )
    return Outcome(
        [first, second, *_combined_tables(tested, ranking, squared), *others],
        [*findings, *_combined_findings(ranking, squared)],
        common_figures(supervised, semi),
        [*common_notes(supervised, semi), PART_1],
        tested.n_fits,
    )


def _combined_tables(tested: UserErrors, ranking: PaperTable, squared: PaperTable) -> list[Table]:
    """Table 5: both tasks, each with parameters chosen by its own measure, and one model for both."""
    methods = (*TABLED, CRRP)
    one_model = PaperTable(tested, SUPERVISED, {}, measure="squared")
    return [
        paper_table(f"Tsivtsivadze2013 table 5, ranking task: {WRONG}", ranking, methods),
        paper_table(
            "Tsivtsivadze2013 table 5, regression task: mean squared error",
            squared,
            methods,
            digits=1,
            note=(
                "Parameters chosen by the squared error of hold-out users. The paper's row of CRRP"
                " is not in the text at hand."
            ),
        ),
        paper_table(
            "The models of the ranking task in the regression task: mean squared error",
            one_model,
            methods,
            digits=1,
            note=(
                "Parameters chosen by the order of pairs: one model for both tasks. A ranking"
                " function has no level."
            ),
        ),
    ]


def _combined_findings(ranking: PaperTable, squared: PaperTable) -> list[Finding]:
    source = "Tsivtsivadze2013 table 5, sect. 6.3"
    return [
        *not_worse(
            source,
            "With beta = 0.5 CRRP ranks almost as well as ranking pursuit",
            method_pairs(ranking, [CRRP], [RANKING]),
            margins(ranking),
        ),
        *err_less(
            source,
            "CRRP ranks better than the regression methods",
            method_pairs(ranking, [CRRP], REGRESSORS),
        ),
        *err_less(
            source,
            "CRRP has a smaller squared error than the ranking methods",
            method_pairs(squared, [CRRP], RANKERS),
        ),
        *not_better(
            source,
            "CRRP does not outperform the regression methods in regression",
            method_pairs(squared, [CRRP], REGRESSORS),
        ),
        *(_between(source, squared, group) for group in GROUPS),
    ]


def _between(source: str, squared: PaperTable, group: tuple[int, int]) -> Finding:
    """Where CRRP lies between the best of the regression and the best of the ranking methods; its
    row is lost.
    """
    best_of = [
        min(methods, key=lambda method: _mean(squared, group, method))
        for methods in (REGRESSORS, RANKERS)
    ]
    regression, ranking = (squared.errors(group, method) for method in best_of)
    own = squared.errors(group, CRRP)
    place = user_gap(own - regression, ranking - own)
    verdict = HOLDS if place.high < 0 else DOES_NOT_HOLD if place.low > 0 else CANNOT_BE_TESTED
    evidence = (
        f"squared error {_mean(squared, group, CRRP):.1f}, {best_of[0]}"
        f" {_mean(squared, group, best_of[0]):.1f}, {best_of[1]}"
        f" {_mean(squared, group, best_of[1]):.1f}; nearer to regression than to ranking by"
        f" {-place.mean:.1f} ({-place.high:.1f} to {-place.low:.1f}), which counts as almost as"
        " well."
    )
    claim = "With beta = 0.5 CRRP regresses almost as well as the regression methods"
    interval = place.interval
    return Finding(source, claim, verdict, evidence, span(group), OWN, interval)


def _mean(table: PaperTable, group: tuple[int, int], method: str) -> float:
    return float(np.nanmean(table.errors(group, method)))


PART_1 = (
    "Only part 1 of Jester is at hand, whose users rated 36 jokes or more: the reference users of"
    " the first group rated 36 to 40. Jester has 100 jokes, so the test users rated 50 to 100."
)

STUDY = Study(
    name="jester",
    title="Tsivtsivadze2013: preferences for jokes",
    sources=("Tsivtsivadze2013 table 1", "Tsivtsivadze2013 table 2", "Tsivtsivadze2013 table 5"),
    about=ABOUT.format(item="joke", items="jokes"),
    files=JESTER,
    parts=parts,
    conclude=conclude,
)
STUDIES = (STUDY,)
