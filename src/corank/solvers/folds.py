"""Folds and splits.

Which pairs of parameters views are tried with, what is held out for it, and which pair is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from corank._arrays import FloatArray, Index, to_numpy
from corank.loss import Blend
from corank.problem import Problem, ScoredRows
from corank.sampling import fold_numbers
from corank.solvers.least_squares import ViewData, same_scores

Splits: TypeAlias = Sequence[tuple[Index, Index]]


N_FOLDS = 10


def natural_folds(problem: Problem, *, dual: bool, seed: int) -> Index | None:
    """The learner's own folds, one number a unit; None where there is too little to hold anything out.

    Queries (or rows, where rows count one by one) one by one in the dual, in ten folds in the primal; items of the
    only query in up to ten folds of two or more.
    """
    groups = problem.groups
    if groups is not None:
        n_groups = int(groups.max()) + 1
        if n_groups < 2:
            return None
        return groups if dual else fold_numbers(0, n_groups, min(N_FOLDS, n_groups), seed)[groups]
    n = int(problem.targets.shape[0])
    return fold_numbers(0, n, min(N_FOLDS, n // 2), seed) if n >= 4 else None


def balanced_folds(n: int, n_folds: int, rng: np.random.Generator) -> Index:
    """Folds of equal size: every run of n_folds neighbours holds each fold once, in random order."""
    runs = -(-n // n_folds)
    return rng.permuted(np.tile(np.arange(n_folds), (runs, 1)), axis=1).ravel()[:n]


def folds_of_splits(problem: Problem, splits: Splits) -> Index | None:
    """The splits as fold numbers (-1: never held out) where a closed form serves them, else None.

    That takes disjoint test sets, everything else as training set, and whole groups.
    """
    n = int(problem.targets.shape[0])
    folds = np.full(n, -1, dtype=np.int64)
    for k, (train, test) in enumerate(splits):
        seen = np.zeros(n, dtype=bool)
        seen[train] = seen[test] = True
        if len(train) + len(test) != n or not seen.all() or np.any(folds[test] >= 0):
            return None
        folds[test] = k
    return folds if covers_groups(problem, folds) else None


def covers_groups(problem: Problem, folds: Index) -> bool:
    """Whether folds, one number a unit, cut through no group."""
    if problem.groups is None:
        return True
    per_group = np.full(int(problem.groups.max()) + 1, -2, dtype=np.int64)
    per_group[problem.groups] = folds
    return bool(np.all(per_group[problem.groups] == folds))


def splits_of_folds(folds: Index) -> Splits:
    """(train, test) unit numbers of every fold."""
    everything = np.arange(len(folds))
    return [(np.setdiff1d(everything, block), block) for block in blocks_of_folds(folds) if len(block)]


def blocks_of_folds(folds: Index) -> list[Index]:
    """The units of every fold; of those never held out none."""
    order = np.argsort(folds, kind="stable")
    bounds = np.searchsorted(folds[order], np.arange(int(folds.max()) + 2))
    return [order[begin:end] for begin, end in pairwise(bounds)]


@dataclass(frozen=True)
class Grid:
    """Pairs of parameters, agreement by agreement."""

    alphas: FloatArray
    agreements: FloatArray

    @property
    def size(self) -> int:
        """Number of pairs."""
        return len(self.alphas) * len(self.agreements)

    def pair(self, number: int) -> tuple[float, float]:
        """(alpha, agreement)."""
        row, column = divmod(int(number), len(self.alphas))
        return float(self.alphas[column]), float(self.agreements[row])

    def pairs_at(self, agreements: FloatArray) -> Index:
        """The numbers of the pairs with these agreements."""
        rows = np.flatnonzero(np.isin(self.agreements, agreements))
        return (rows[:, None] * len(self.alphas) + np.arange(len(self.alphas))).ravel()

    def alphas_of(self, pairs: Index) -> FloatArray:
        """Their alphas."""
        return np.asarray(self.alphas[pairs % len(self.alphas)])


@dataclass(frozen=True)
class Folding:
    """The fold of every unit, one array a view; −1 is never held out. `items`: of the only query, else whole groups."""

    codes: Sequence[Index]
    items: bool

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return 1 + max(int(own.max()) for own in self.codes)

    def blocks(self) -> list[Index]:
        """The units of every fold among those of all views, stacked."""
        return blocks_of(np.concatenate(self.codes), self.n_folds)

    def units(self, folds: Index) -> tuple[list[Index], list[Index]]:
        """The units of every view that are in none of the folds, and those that are in one of them."""
        inside = [np.isin(own, folds) for own in self.codes]
        return [np.flatnonzero(~own) for own in inside], [np.flatnonzero(own) for own in inside]

    def coarser(self, n_folds: int, seed: int) -> Folding:
        """At most so many folds, each a union of these."""
        if self.n_folds <= n_folds:
            return self
        merged = fold_numbers(0, self.n_folds, n_folds, seed)
        return replace(self, codes=[np.where(own < 0, -1, merged[own]) for own in self.codes])

    def take(self, units: Sequence[Index]) -> Folding:
        """The folds of some of the units, numbered anew."""
        kept = [own[u] for own, u in zip(self.codes, units, strict=True)]
        known = np.unique(np.concatenate(kept))
        known = known[known >= 0]
        return replace(self, codes=[np.where(own < 0, -1, np.searchsorted(known, own)) for own in kept])


def blocks_of(codes: Index, n_folds: int) -> list[Index]:
    """The positions of every code from 0."""
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(n_folds + 1))
    return [order[begin:end] for begin, end in pairwise(bounds)]


def own_folds(views: Sequence[ViewData], splits: Splits | None, seed: int) -> Folding | Splits | None:
    """What is held out: queries (rows, comparisons) one by one, items of the only query in ten folds, or `splits`.

    Splits come back as they are where no closed form serves them; None where there is too little to hold anything out.
    """
    problem = views[0].problem
    items = views[0].groups is None
    closed = not items or _has_item_form(views)
    if splits is None:
        if not items:
            codes = _shared_groups(views)
            return None if int(max(own.max() for own in codes)) < 1 else Folding(codes, items=False)
        index = row_numbers(views)
        rows = np.unique(np.concatenate(index))
        n = len(rows)
        if n < 4:
            return None
        places = [np.searchsorted(rows, own) for own in index]
        folds = _spread_folds(views, places, n, np.random.default_rng(seed))
        folds = _without(folds, [int(folds[own[0]]) for own in places if np.ptp(folds[own]) == 0])
        if closed and folds.max() >= 0:
            return Folding([folds[own] for own in places], items=True)
        blocks = blocks_of(folds, int(folds.max()) + 1)
        return [(np.setdiff1d(np.arange(n), block), block) for block in blocks] or None
    given = folds_of_splits(problem, splits) if same_scores([view.problem for view in views]) and closed else None
    return splits if given is None else Folding([given for _ in views], items=items)


def _without(folds: Index, never: Sequence[int]) -> Index:
    """Folds of which some are never held out (−1), the others numbered anew: they hold all scores of a view."""
    known = np.setdiff1d(folds, never)
    return np.where(np.isin(folds, never), -1, np.searchsorted(known, folds))


def _spread_folds(views: Sequence[ViewData], places: Sequence[Index], n: int, rng: np.random.Generator) -> Index:
    """Up to ten folds of two items or more, each with low and high scores: tied items say nothing of an order."""
    scores = np.zeros(n)
    for view, own in zip(views, places, strict=True):
        scores[own] = to_numpy(view.problem.reference)
    order = np.lexsort((rng.random(n), scores))
    folds = np.empty(n, dtype=np.int64)
    folds[order] = balanced_folds(n, min(N_FOLDS, n // 2), rng)
    return folds


def _has_item_form(views: Sequence[ViewData]) -> bool:
    """Whether leaving items out of the only query is deleting rows of its root, up to a factor all views share."""
    if any(not isinstance(v.problem, ScoredRows) or isinstance(v.problem.comparison, Blend) for v in views):
        return False
    weighting = getattr(views[0].problem.comparison, "weighting", None)  # type: ignore[union-attr]
    return weighting == "size" or same_scores([view.problem for view in views])


def row_numbers(views: Sequence[ViewData]) -> list[Index]:
    """The row numbers in X of every view's scored rows."""
    return [np.asarray(to_numpy(view.problem.rows.index)) for view in views]  # type: ignore[union-attr]


def _shared_groups(views: Sequence[ViewData]) -> list[Index]:
    """The groups of every view, numbered from 0: the same query (row) is left out of every view at once."""
    groups = [view.groups for view in views if view.groups is not None]
    known = np.unique(np.concatenate(groups))
    return [np.searchsorted(known, own) for own in groups]
