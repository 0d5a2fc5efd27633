"""[Tsivtsivadze2013]'s experiments on any set of ratings: methods, parts, and the errors of every
test user.

A part chooses the parameters of a few methods on the hold-out users of a group and tests them in
all repetitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from studies.batched_fits.co_pursuit import HALVES, HALVES_ON_ALL
from studies.batched_fits.protocol import GROUPS, RatingLists, SampleSizes
from studies.batched_fits.trials import (
    WIDTHS,
    BatchedMethod,
    ChosenMethod,
    CoPursuit,
    Pursuit,
    RankSVM,
    Ridge,
    Stage,
    Trial,
    choose,
    results_of,
)
from studies.data import Floats
from studies.study import Part, Result, Settings

# the least and the greatest number of ratings of a reference user
Group: TypeAlias = tuple[int, int]

SUPERVISED, SEMI = "supervised", "semi-supervised"
SHARES = {SUPERVISED: 1.0, SEMI: 0.5}  # of a user's training ratings, those that are seen
WIDE = tuple(range(-25, 16))
QUICK = SampleSizes(n_holdout=40, n_test=50, n_repetitions=2)
QUICK_STRIDE = 3  # every third width

RLS, MATCHING, SVM, RANK, SPARSE, RANKING = (
    "RLS",
    "Matching pursuit",
    "RankSVM",
    "RankRLS",
    "Sparse RankRLS",
    "Ranking pursuit",
)
# regression with an intercept, on which the paper is silent
CENTRED = {name: f"{name}, mean taken out" for name in (RLS, MATCHING)}
CRRP, SS = "CRRP", "SS ranking pursuit"
REGRESSORS, RANKERS = (RLS, MATCHING), (SVM, RANK, SPARSE, RANKING)
TABLED = (*REGRESSORS, *RANKERS)
SS_EXACT, SS_APART = "SS ranking pursuit, exact steps, refitted", "SS ranking pursuit, agreement 0"
SS_USERS = "SS ranking pursuit, exact steps, refitted, views of half of the reference users"
# the other readings of "two views, each containing half of the scored and half of the unscored"
SS_HALVES, SS_HALVES_APART, SS_ON_ALL = (
    "SS ranking pursuit, each view fitted to its half",
    "SS ranking pursuit, each view fitted to its half, agreement 0",
    "SS ranking pursuit, each view fitted to its half, agreeing on all",
)
READINGS = (SS, SS_HALVES, SS_ON_ALL)
SEMI_SUPERVISED = (SS, SS_APART, SS_HALVES, SS_HALVES_APART, SS_ON_ALL, SS_EXACT, SS_USERS)
REFITTED = "Ranking pursuit, refitted"


@dataclass(frozen=True)
class Entry:
    """A row of a table: a method and what it chooses from.

    missing : what stands for a missing rating of a reference user: their median ("person") or the
        item's ("item")
    as_sparse_as : a method before it in the block; the basis is as large as that method's models
    """

    name: str
    method: BatchedMethod
    widths: Sequence[int] = WIDTHS
    missing: str = "person"
    as_sparse_as: str | None = None


def blocks(task: str, item: str, *, combined: bool) -> dict[str, list[Entry]]:
    """The methods of a task, in blocks of about equal work. `combined`: with CRRP; `item`: what is
    rated.
    """
    pursuits = [
        Entry(RANKING, Pursuit(0.0, "basic")),
        Entry(SPARSE, Ridge(0.0), as_sparse_as=RANKING),
        Entry(MATCHING, Pursuit(1.0, "basic")),
    ]
    squares = [Entry(RLS, Ridge(1.0)), Entry(RANK, Ridge(0.0))]
    if task == SEMI:
        return {
            "least squares": squares,
            "pursuit": pursuits,
            "RankSVM": [Entry(SVM, RankSVM())],
            "views": [
                Entry(SS, CoPursuit("paper", "basic")),
                Entry(SS_APART, CoPursuit("paper", "basic", agreements=(0.0,))),
            ],
            "views, halves": [
                Entry(SS_HALVES, CoPursuit("exact", "basic", fitted=HALVES)),
                Entry(
                    SS_HALVES_APART,
                    CoPursuit("exact", "basic", fitted=HALVES, agreements=(0.0,)),
                ),
            ],
            "views, halves agreeing on all": [
                Entry(SS_ON_ALL, CoPursuit("exact", "basic", fitted=HALVES_ON_ALL)),
            ],
            "views, exact": [Entry(SS_EXACT, CoPursuit("exact", "back"))],
            "views of users": [Entry(SS_USERS, CoPursuit("exact", "back", views="people"))],
        }
    squares += [
        Entry(CENTRED[RLS], Ridge(1.0, centred=True)),
        Entry(f"{RLS}, widths from 2^-25", Ridge(1.0), widths=WIDE),
        Entry(f"{RANK}, widths from 2^-25", Ridge(0.0), widths=WIDE),
        Entry(f"{RANK}, medians of the {item}", Ridge(0.0), missing="item"),
        Entry(f"{SPARSE}, 70 % of the scored {item}s", Ridge(0.0, share=0.7)),
    ]
    pursuits += [Entry(CRRP, Pursuit(0.5, "basic"))] if combined else []
    others = [
        Entry(REFITTED, Pursuit(0.0, "back")),
        Entry(f"{RANKING}, widths from 2^-25", Pursuit(0.0, "basic"), widths=WIDE),
        Entry(CENTRED[MATCHING], Pursuit(1.0, "basic", centred=True)),
        Entry(f"{MATCHING}, refitted", Pursuit(1.0, "back")),
        Entry(f"{MATCHING}, widths from 2^-25", Pursuit(1.0, "basic"), widths=WIDE),
    ]
    return {
        "least squares": squares,
        "pursuit": pursuits,
        "RankSVM": [Entry(SVM, RankSVM())],
        "pursuit, other ways": others,
    }


def block_parts(run: Callable[..., Result], item: str, *, combined: bool) -> list[Part]:
    """One part per group, task and block; the long ones first."""
    tasks = [
        (task, block)
        for task in (SEMI, SUPERVISED)
        for block in blocks(task, item, combined=combined)
    ]
    tasks.sort(key=lambda pair: not pair[1].startswith("views"))
    return [
        Part(
            f"{task}, {span(group)}: {block}",
            run,
            {"group": list(group), "task": task, "block": block},
        )
        for task, block in tasks
        for group in GROUPS
    ]


def span(group: Group) -> str:
    """A group as tables call it."""
    return f"{group[0]}–{group[1]}"


def run_entries(
    settings: Settings,
    ratings: RatingLists,
    entries: Sequence[Entry],
    group: Group,
    task: str,
    measures: Sequence[str],
) -> Result:
    """Choose by each of the measures, and test: the test users and, for every method, what
    `results_of` says.
    """
    sizes = replace(QUICK if settings.quick else SampleSizes(), seed=settings.seed)
    tested: dict[str, Any] = {}
    people: list[int] = []
    for missing in dict.fromkeys(entry.missing for entry in entries):
        stage = Stage(ratings, sizes, group, scored_share=SHARES[task], missing=missing)
        together = [entry for entry in entries if entry.missing == missing]
        tested |= results_of(_chosen_methods(together, stage.holdout(), measures, settings), stage)
        people = np.concatenate([cast.people for cast in stage.casts]).tolist()
    return {"people": people, "repetitions": sizes.n_repetitions, "methods": tested}


def _chosen_methods(
    entries: Sequence[Entry], holdout: Trial, measures: Sequence[str], settings: Settings
) -> dict[str, ChosenMethod]:
    """The methods with their parameters, by name."""
    chosen: dict[str, ChosenMethod] = {}
    for entry in entries:
        method, widths = entry.method, entry.widths[:: QUICK_STRIDE if settings.quick else 1]
        if entry.as_sparse_as is not None:
            assert isinstance(method, Ridge)
            method = replace(
                method, size=round(chosen[entry.as_sparse_as].choices["pairs"]["atoms"])
            )
        chosen[entry.name] = choose(method, holdout, measures, widths)
    return chosen


class UserErrors:
    """Errors of every test user, from the results of all parts."""

    def __init__(self, results: Mapping[str, Result]) -> None:
        self._methods: dict[tuple[str, str], dict[str, Any]] = {}
        self._people: dict[tuple[str, str], Any] = {}
        for key, result in results.items():
            task, group = key.split(": ")[0].split(", ")
            self._methods.setdefault((task, group), {}).update(result["methods"])
            self._people[task, group] = np.asarray(result["people"])
            self.n_repetitions = int(result["repetitions"])

    @property
    def n_fits(self) -> int:
        """Models that were fitted in all."""
        return sum(
            int(method["fits"]) for methods in self._methods.values() for method in methods.values()
        )

    @property
    def n_users(self) -> int:
        """Different test users."""
        return len(np.unique(next(iter(self._people.values()))))

    def methods(self, task: str) -> list[str]:
        """The methods that were tried."""
        return list(self._methods[task, span(GROUPS[0])])

    def errors(
        self,
        task: str,
        group: Group,
        method: str,
        measure: str = "pairs",
        *,
        chosen_by: str = "pairs",
    ) -> Floats:
        """One value per test user, the mean of the repetitions they were tested in; users in the
        same order for all.
        """
        values = self.in_repetitions(task, group, method, measure, chosen_by=chosen_by).ravel()
        _, codes = np.unique(self._people[task, span(group)], return_inverse=True)
        defined = ~np.isnan(values)
        counts = np.bincount(codes[defined], minlength=codes.max() + 1)
        sums = np.bincount(codes[defined], weights=values[defined], minlength=codes.max() + 1)
        return np.asarray(np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0))

    def in_repetitions(
        self,
        task: str,
        group: Group,
        method: str,
        measure: str = "pairs",
        *,
        chosen_by: str = "pairs",
    ) -> Floats:
        """Errors repetition by repetition: (repetitions, users)."""
        stored = self._methods[task, span(group)][method][chosen_by]["errors"][measure]
        values = np.asarray([np.nan if value is None else value for value in stored], dtype=float)
        return values.reshape(self.n_repetitions, -1)

    def choice(
        self, task: str, group: Group, method: str, chosen_by: str = "pairs"
    ) -> dict[str, Any]:
        """The parameters that were chosen."""
        choice: dict[str, Any] = self._methods[task, span(group)][method][chosen_by]["choice"]
        return choice

    def curve(self, task: str, group: Group, method: str) -> list[dict[str, float]]:
        """Test errors of all candidates around the chosen one."""
        curve: list[dict[str, float]] = self._methods[task, span(group)][method]["pairs"]["curve"]
        return curve
