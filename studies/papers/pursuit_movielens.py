"""[Tsivtsivadze2013] tables 3 and 4: preferences for films, from the ratings of other users
(MovieLens 1M).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from studies.batched_fits.protocol import RatingLists, ratings_from_triples
from studies.papers.pursuit_findings import (
    ABOUT,
    PaperTable,
    Published,
    common_figures,
    common_findings,
    common_notes,
    common_tables,
    err_less,
    method_pairs,
    paper_table,
    with_readings,
)
from studies.papers.pursuit_ratings import (
    CENTRED,
    RANKING,
    REGRESSORS,
    SEMI,
    SEMI_SUPERVISED,
    SUPERVISED,
    TABLED,
    UserErrors,
    block_parts,
    blocks,
    run_entries,
)
from studies.study import Outcome, Part, Result, Settings, Study

MOVIELENS = ("movielens1m/ratings.npz",)
TABLE_3: Published = {
    "RLS": (0.495, 0.494, 0.482),
    "Matching pursuit": (0.494, 0.497, 0.484),
    "RankSVM": (0.481, 0.472, 0.453),
    "RankRLS": (0.479, 0.472, 0.455),
    "Sparse RankRLS": (0.484, 0.478, 0.460),
    "Ranking pursuit": (0.480, 0.472, 0.453),
}
TABLE_4: Published = {
    "RLS": (0.497, 0.495, 0.487),
    "Matching pursuit": (0.498, 0.495, 0.485),
    "RankSVM": (0.487, 0.479, 0.464),
    "RankRLS": (0.486, 0.479, 0.463),
    "Sparse RankRLS": (0.490, 0.485, 0.470),
    "Ranking pursuit": (0.487, 0.479, 0.462),
    "SS ranking pursuit": (0.481, 0.474, 0.458),
}


@lru_cache(maxsize=1)
def movielens_ratings(folder: Path) -> RatingLists:
    """What 6,040 users gave to films, 1 to 5; films that nobody rated are left out."""
    with np.load(folder / MOVIELENS[0], allow_pickle=False) as data:
        user, movie, rating = (data[name].astype(np.int64) for name in ("user", "movie", "rating"))
    users, films = (np.unique(column, return_inverse=True)[1] for column in (user, movie))
    return ratings_from_triples(users, films, rating.astype(np.float64))


def parts(settings: Settings) -> list[Part]:
    """One part per group, task and block of methods."""
    return block_parts(run, "film", combined=False)


def run(
    settings: Settings, rng: np.random.Generator, group: list[int], task: str, block: str
) -> Result:
    """Choose and test the methods of a block. Draws follow from the seed and the users, not from
    the part.
    """
    entries = blocks(task, "film", combined=False)[block]
    ratings = movielens_ratings(settings.folder)
    return run_entries(settings, ratings, entries, (group[0], group[1]), task, ("pairs",))


def conclude(settings: Settings, results: Mapping[str, Result]) -> Outcome:
    """Tables 3 and 4."""
    tested = UserErrors(results)
    supervised = PaperTable(tested, SUPERVISED, with_readings(TABLE_3))
    semi = PaperTable(tested, SEMI, with_readings(TABLE_4))
    table_3, table_4 = "Tsivtsivadze2013 table 3", "Tsivtsivadze2013 table 4"
    first, second, *others = common_tables(supervised, semi, table_3, table_4)
    with_ties = [
        paper_table(
            f"{name}: share of all pairs in the wrong order, where a pair with equal ratings costs"
            " one half",
            replace(table, measure="all pairs"),
            methods,
            note=(
                "From the same predictions. A pair that is tied on both sides costs nothing, which"
                " favours models that tie all."
            ),
        )
        for name, table, methods in (
            (table_3, supervised, TABLED),
            (table_4, semi, (*TABLED, *SEMI_SUPERVISED)),
        )
    ]
    claim = "Ranking pursuit errs less than the regression methods"
    findings = [
        *err_less(
            f"{table_3}, sect. 7",
            claim,
            method_pairs(supervised, [RANKING], (*REGRESSORS, *CENTRED.values())),
        ),
        *common_findings(
            supervised, semi, f"{table_3}, sect. 6.2", f"{table_4}, sect. 6.2", share=0.35
        ),
    ]
    notes = [*common_notes(supervised, semi), TIES, AGAIN]
    figures = common_figures(supervised, semi)
    return Outcome([first, second, *with_ties, *others], findings, figures, notes, tested.n_fits)


TIES = (
    "Many pairs of films have equal ratings. The paper does not say how its normalised error counts"
    " them; counted as one half each they lift every error towards 0.5, which may be part of why"
    " the printed errors are so high."
)
AGAIN = (
    "Reference and hold-out users take many of the 3,342 users with 50 to 300 ratings, so some"
    " users are tested in two repetitions; their errors are averaged."
)

STUDY = Study(
    name="movielens",
    title="Tsivtsivadze2013: preferences for films",
    sources=("Tsivtsivadze2013 table 3", "Tsivtsivadze2013 table 4"),
    about=ABOUT.format(item="film", items="films"),
    files=MOVIELENS,
    parts=parts,
    conclude=conclude,
)
STUDIES = (STUDY,)
