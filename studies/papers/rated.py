"""003's experiments on ratings, for any set of them: methods, parts, and the errors of every test user.

A part chooses the parameters of a few methods on the hold-out users of a group and tests them in all repetitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corank._arrays import FloatArray
from studies.batched_fits.drawing import GROUPS, Protocol
from studies.batched_fits.methods import CoPursuit, Method, Pursuit, RankSVM, Ridge
from studies.batched_fits.ratings import Ratings
from studies.batched_fits.trials import WIDTHS, Chosen, Stage, Trial, all_tested, choose
from studies.papers.study import Part, Result, Settings

SUPERVISED, SEMI = "supervised", "semi-supervised"
SHARES = {SUPERVISED: 1.0, SEMI: 0.5}  # of a user's training ratings, those that are seen
WIDE = tuple(range(-25, 16))
QUICK = Protocol(n_holdout=40, n_test=50, n_repetitions=2)
QUICK_STRIDE = 3  # every third width

RLS, MATCHING, SVM, RANK, SPARSE, RANKING = (
    "RLS",
    "Matching pursuit",
    "RankSVM",
    "RankRLS",
    "Sparse RankRLS",
    "Ranking pursuit",
)
CRRP, SS = "CRRP", "SS ranking pursuit"
REGRESSORS, RANKERS = (RLS, MATCHING), (SVM, RANK, SPARSE, RANKING)
TABLED = (*REGRESSORS, *RANKERS)
SS_EXACT, SS_APART = "SS ranking pursuit, exact steps, refitted", "SS ranking pursuit, agreement 0"
SS_USERS = "SS ranking pursuit, exact steps, refitted, views of half of the reference users"
REFITTED = "Ranking pursuit, refitted"


@dataclass(frozen=True)
class Entry:
    """A row of a table: a method and what it chooses from.

    missing : what stands for a missing rating of a reference user: their median ("person") or the item's ("item")
    as_sparse_as : a method before it in the block; the basis is as large as that one's models
    """

    name: str
    method: Method
    widths: Sequence[int] = WIDTHS
    missing: str = "person"
    as_sparse_as: str | None = None


def blocks(task: str, item: str, *, combined: bool) -> dict[str, list[Entry]]:
    """The methods of a task, in blocks of about equal work. `combined`: with CRRP; `item`: what is rated."""
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
            "views, exact": [Entry(SS_EXACT, CoPursuit("exact", "back"))],
            "views of users": [Entry(SS_USERS, CoPursuit("exact", "back", views="people"))],
        }
    squares += [
        Entry(f"{RLS}, mean taken out", Ridge(1.0, centred=True)),
        Entry(f"{RLS}, widths from 2^-25", Ridge(1.0), widths=WIDE),
        Entry(f"{RANK}, widths from 2^-25", Ridge(0.0), widths=WIDE),
        Entry(f"{RANK}, medians of the {item}", Ridge(0.0), missing="item"),
        Entry(f"{SPARSE}, 70 % of the scored {item}s", Ridge(0.0, share=0.7)),
    ]
    pursuits += [Entry(CRRP, Pursuit(0.5, "basic"))] if combined else []
    others = [
        Entry(REFITTED, Pursuit(0.0, "back")),
        Entry(f"{RANKING}, widths from 2^-25", Pursuit(0.0, "basic"), widths=WIDE),
        Entry(f"{MATCHING}, mean taken out", Pursuit(1.0, "basic", centred=True)),
        Entry(f"{MATCHING}, refitted", Pursuit(1.0, "back")),
        Entry(f"{MATCHING}, widths from 2^-25", Pursuit(1.0, "basic"), widths=WIDE),
    ]
    return {
        "least squares": squares,
        "pursuit": pursuits,
        "RankSVM": [Entry(SVM, RankSVM())],
        "pursuit, other ways": others,
    }


def parts(run: Callable[..., Result], item: str, *, combined: bool) -> list[Part]:
    """One for every group, task and block; the long ones first."""
    tasks = [(task, block) for task in (SEMI, SUPERVISED) for block in blocks(task, item, combined=combined)]
    tasks.sort(key=lambda own: not own[1].startswith("views"))
    return [
        Part(key(task, group, block), run, {"group": list(group), "task": task, "block": block})
        for task, block in tasks
        for group in GROUPS
    ]


def key(task: str, group: tuple[int, int], block: str) -> str:
    """The name of a part."""
    return f"{task}, {shown(group)}: {block}"


def shown(group: tuple[int, int]) -> str:
    """A group as tables call it."""
    return f"{group[0]}–{group[1]}"


def run_entries(
    settings: Settings,
    ratings: Ratings,
    entries: Sequence[Entry],
    group: tuple[int, int],
    task: str,
    measures: Sequence[str],
) -> Result:
    """Choose by each of the measures, and test. Gives the test users and, for every method, what `all_tested` says."""
    protocol = replace(QUICK if settings.quick else Protocol(), seed=settings.seed)
    found: dict[str, Any] = {}
    people: list[int] = []
    for missing in dict.fromkeys(entry.missing for entry in entries):
        stage = Stage(ratings, protocol, group, scored_share=SHARES[task], missing=missing)
        some = [entry for entry in entries if entry.missing == missing]
        found |= all_tested(_chosen(some, stage.holdout(), measures, settings), stage)
        people = np.concatenate([own.people for own in stage.casts]).tolist()
    return {"people": people, "repetitions": protocol.n_repetitions, "methods": found}


def _chosen(entries: Sequence[Entry], holdout: Trial, measures: Sequence[str], settings: Settings) -> dict[str, Chosen]:
    """The methods with their parameters, by name."""
    found: dict[str, Chosen] = {}
    for entry in entries:
        method, widths = entry.method, entry.widths[:: QUICK_STRIDE if settings.quick else 1]
        if entry.as_sparse_as is not None:
            assert isinstance(method, Ridge)
            method = replace(method, size=round(found[entry.as_sparse_as].choices["pairs"]["atoms"]))
        found[entry.name] = choose(method, holdout, measures, widths)
    return found


class Tested:
    """Errors of every test user, from the results of all parts."""

    def __init__(self, results: Mapping[str, Result]) -> None:
        self._found: dict[tuple[str, str], dict[str, Any]] = {}
        self._people: dict[tuple[str, str], Any] = {}
        for name, result in results.items():
            place = name.split(": ")[0]
            task, group = place.split(", ")
            self._found.setdefault((task, group), {}).update(result["methods"])
            self._people[task, group] = np.asarray(result["people"])
            self.n_repetitions = int(result["repetitions"])

    @property
    def n_fits(self) -> int:
        """Models that were fitted in all."""
        return sum(int(own["fits"]) for one in self._found.values() for own in one.values())

    @property
    def n_users(self) -> int:
        """Different test users."""
        return len(np.unique(next(iter(self._people.values()))))

    def methods(self, task: str) -> list[str]:
        """The methods that were tried."""
        return list(self._found[task, shown(GROUPS[0])])

    def errors(
        self, task: str, group: tuple[int, int], method: str, measure: str = "pairs", *, chosen_by: str = "pairs"
    ) -> FloatArray:
        """One value a test user, the mean of the repetitions they were tested in; users in the same order for all."""
        values = self.in_repetitions(task, group, method, measure, chosen_by=chosen_by).ravel()
        _, codes = np.unique(self._people[task, shown(group)], return_inverse=True)
        known = ~np.isnan(values)
        counts = np.bincount(codes[known], minlength=codes.max() + 1)
        sums = np.bincount(codes[known], weights=values[known], minlength=codes.max() + 1)
        return np.asarray(np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0))

    def in_repetitions(
        self, task: str, group: tuple[int, int], method: str, measure: str = "pairs", *, chosen_by: str = "pairs"
    ) -> FloatArray:
        """The same repetition by repetition: (repetitions, users)."""
        own = self._found[task, shown(group)][method][chosen_by]["errors"][measure]
        values = np.asarray([np.nan if value is None else value for value in own], dtype=float)
        return values.reshape(self.n_repetitions, -1)

    def choice(self, task: str, group: tuple[int, int], method: str, chosen_by: str = "pairs") -> dict[str, Any]:
        """The parameters that were chosen."""
        choice: dict[str, Any] = self._found[task, shown(group)][method][chosen_by]["choice"]
        return choice

    def curve(self, task: str, group: tuple[int, int], method: str) -> list[dict[str, float]]:
        """Test errors of all candidates around the chosen one."""
        curve: list[dict[str, float]] = self._found[task, shown(group)][method]["pairs"]["curve"]
        return curve
