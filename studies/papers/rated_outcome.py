"""What 003 says about ratings in both of its data sets, in tables, verdicts, figures and notes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from studies.batched_fits.drawing import GROUPS
from studies.papers import rated_tables
from studies.papers.rated import (
    MATCHING,
    RANK,
    RANKING,
    REFITTED,
    RLS,
    SPARSE,
    SS,
    SS_APART,
    SS_EXACT,
    SS_USERS,
    SUPERVISED,
    SVM,
    TABLED,
    Tested,
    shown,
)
from studies.papers.rated_claims import (
    Pair,
    Setting,
    err_alike,
    err_less,
    gap,
    not_worse,
    pair,
    pairs,
    sparser,
)
from studies.papers.rated_tables import WRONG, beside_paper, measured
from studies.papers.study import Figure, Finding, Table

ABOUT = (
    "The features of a {item} are its ratings by 300 reference users who rated 20 to 40, 40 to 60 or 60 to 80 {items}, the "
    "median of a user's ratings where one is missing. Test users rated 50 to 300 {items}; half of their ratings is for "
    "training, half for testing. 300 test users, ten repetitions with other reference and test users, one model a user. "
    "Gaussian kernels exp(−gamma·d²), gamma from 2^-15 to 2^15. All parameters (gamma, alpha, cost, numbers of steps, weight "
    "of the agreement) are chosen once a group, by the mean error of 300 hold-out users who, like their reference users, are "
    "never tested. Semi-supervised: only half of the training ratings are seen; the dictionaries of the two views are "
    "kernels at one half each of the seen and unseen {items}, both views are fitted to all that is seen and agree on all "
    "that is not. Where the paper is silent: pursuit goes as its figures print it, without refitting (refitted variants "
    "beside it); regression has no intercept; RankSVM has the squared hinge loss; Sparse RankRLS has as many basis functions "
    "as ranking pursuit has, the first ones of a random order; pairs with equal ratings are left out. --quick: 40 hold-out "
    "users, two times 50 test users, every third width."
)


def about(item: str, items: str) -> str:
    """The protocol in words."""
    return ABOUT.format(item=item, items=items)


def findings_on(supervised: Setting, semi: Setting, first: str, second: str, share: float) -> list[Finding]:
    """What the paper says of both data sets; `share`: how much sparser models are said to be."""
    return [
        not_worse(
            first, "Ranking pursuit performs like RankSVM and RankRLS", pairs(supervised, [RANKING], [SVM, RANK])
        ),
        sparser(
            first,
            f"The models of ranking pursuit are on average {share:.0%} sparser than those of RankSVM and RankRLS",
            supervised,
            RANKING,
            share,
        ),
        err_less(
            f"{first}, sect. 5",
            "Choosing kernel functions greedily (ranking pursuit) errs less than choosing as many at random (Sparse RankRLS)",
            pairs(supervised, [RANKING], [SPARSE]),
        ),
        err_less(
            second,
            "Semi-supervised ranking pursuit errs less than every supervised method (p < 0.05)",
            pairs(semi, [SS], TABLED),
        ),
    ]


def alike(source: str, setting: Setting, kind: str, methods: Sequence[str]) -> Finding:
    """The claim that methods of a kind do not differ."""
    return err_alike(source, f"The {kind} methods do not differ significantly", _among(setting, methods))


def _among(setting: Setting, methods: Sequence[str]) -> list[Pair]:
    return [
        pair(setting, group, one, other)
        for group in GROUPS
        for at, one in enumerate(methods)
        for other in methods[at + 1 :]
    ]


def fewer_scores(source: str, supervised: Setting, semi: Setting) -> Finding:
    """The same test users with all training ratings, and with half of them."""
    found = []
    for at, group in enumerate(GROUPS):
        for method in TABLED:
            published = supervised.published[method][at] - semi.published[method][at]
            own = gap(supervised.errors(group, method), semi.errors(group, method))
            found.append(Pair(group, f"{method} with all", "with half of them", own, published))
    return err_less(source, "Every supervised method errs more with half of the scores", found)


def tables_on(supervised: Setting, semi: Setting, first: str, second: str) -> list[Table]:
    """Both tables of the paper, what it leaves open, tests, sparsity and choices."""
    tested = supervised.tested
    others = [own for own in tested.methods(SUPERVISED) if any(own.startswith(f"{base},") for base in TABLED)]
    some = [(RANKING, RANK), (RANK, RLS), (RANKING, MATCHING), (RANKING, SPARSE), (RANKING, SVM)]
    co_some = [(SS, own) for own in (*TABLED, SS_APART)]
    found = [pair(supervised, group, *own) for group in GROUPS for own in some]
    co_found = [pair(semi, group, *own) for group in GROUPS for own in co_some]
    return [
        beside_paper(f"{first}, supervised: {WRONG}", supervised, TABLED, note=_users(tested)),
        beside_paper(f"{second}, half of the scores: {WRONG}", semi, (*TABLED, SS, SS_EXACT, SS_USERS, SS_APART)),
        rated_tables.open_choices(supervised, others),
        rated_tables.tests([*found, *co_found]),
        rated_tables.sparsities(
            [supervised, semi], (SVM, RANK, SPARSE, RANKING, REFITTED, MATCHING, SS, SS_EXACT, SS_USERS)
        ),
        rated_tables.choices([supervised, semi]),
    ]


def _users(tested: Tested) -> str:
    return f"± one standard error over {tested.n_users:,} test users, who are the same for all methods and groups."


def figures_on(supervised: Setting, semi: Setting) -> list[Figure]:
    """Errors by group, and by the number of steps."""
    names = [[RLS, RANK, RANKING], [RLS, RANK, RANKING, SS]]
    return [
        rated_tables.errors_figure([supervised, semi], names),
        rated_tables.atoms_figure(supervised.tested, supervised),
    ]


def notes_on(supervised: Setting, semi: Setting) -> list[str]:
    """How far RankRLS is from the paper, where the gap to regression comes from, and what agreement did."""
    away = [
        f"{shown(group)}: {measured(supervised, group, RANK).value - supervised.published[RANK][at]:+.3f}"
        for at, group in enumerate(GROUPS)
    ]
    centred = [_mean_gap(supervised, group, f"{RLS}, mean taken out", RANK) for group in GROUPS]
    plain = [_mean_gap(supervised, group, RLS, RANK) for group in GROUPS]
    agreed = [pair(semi, group, SS, SS_APART) for group in GROUPS]
    intercept = (
        f"RLS with the mean score of a user taken out minus RankRLS: {', '.join(f'{own:+.4f}' for own in centred)}; as the "
        f"paper has it, without an intercept: {', '.join(f'{own:+.4f}' for own in plain)}."
    )
    agreement = (
        "What agreement itself does to semi-supervised ranking pursuit, beside the same two views without it: "
        f"{'; '.join(f'{shown(own.group)} {own.gap.words}' for own in agreed)}."
    )
    return [f"Supervised RankRLS minus the paper's number: {', '.join(away)}.", intercept, agreement]


def _mean_gap(setting: Setting, group: tuple[int, int], one: str, other: str) -> float:
    return float(np.nanmean(setting.errors(group, one) - setting.errors(group, other)))
