"""Which rows are held out.

The hold-out of every learner, unless `cv` says otherwise:

* Queries are left out one by one (single rows where rows count one by one and have no query labels,
  single comparisons likewise), as long as that has a cheap closed form: always where all rows are
  the basis, up to the limits of `default_folding` where the basis is a subset of the rows
  (`KPCR` and `KPCRank` take ten folds there).
* Beyond that, and for learners without a closed form: ten folds of whole queries (rows,
  comparisons).
* The items of one query: up to ten folds of two items or more, each with low and high scores. Rows
  of a scan that do not fit into memory are dealt to such folds by their number, because their
  scores only pass by.

A *unit* is what a fold takes out: a scored row or a comparison. A `Folding` has one fold number per
unit and view.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from corank.core.arrays import Index, runs_of_rows, to_numpy
from corank.core.loss import Blend
from corank.core.observations import ComparedRows, Problem, ScoredRows
from corank.core.sampling import fold_numbers

Splits: TypeAlias = Sequence[tuple[Index, Index]]

N_FOLDS = 10
FEW_UNITS = 500  # so many are left out one by one whatever the basis
UNITS_PER_FEATURE = 40  # with more, ten folds from sums are cheaper than leaving single units out
# numbers per view: features of all units that are held for leaving single ones out
MAX_UNIT_FEATURES = 2**25


@dataclass(frozen=True)
class Folding:
    """The fold of every unit, one array per view; −1 is never held out.

    items : whether units are items of the only query, which folds cut; else folds are unions of
        whole groups
    """

    codes: Sequence[Index]
    items: bool = False

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return 1 + max(int(codes.max()) for codes in self.codes)

    def blocks(self) -> list[Index]:
        """The units of every fold, numbered through all views."""
        return fold_blocks(np.concatenate(self.codes))

    def units(self, folds: Index) -> tuple[list[Index], list[Index]]:
        """The units of every view outside these folds, and those inside."""
        outside, inside = [], []
        for codes in self.codes:
            mask = np.isin(codes, folds)
            outside.append(np.flatnonzero(~mask))
            inside.append(np.flatnonzero(mask))
        return outside, inside

    def coarser(self, n_folds: int, seed: int) -> Folding:
        """At most so many folds, each a union of these."""
        if self.n_folds <= n_folds:
            return self
        merged = fold_numbers(0, self.n_folds, n_folds, seed)
        return replace(self, codes=[np.where(codes < 0, -1, merged[codes]) for codes in self.codes])

    def only(self, first: int, end: int) -> Folding:
        """The folds from `first` to before `end`, numbered from 0; units of the others are never
        held out.
        """
        chosen = []
        for codes in self.codes:
            inside = (codes >= first) & (codes < end)
            chosen.append(np.where(inside, codes - first, -1))
        return replace(self, codes=chosen)

    def take(self, units: Sequence[Index]) -> Folding:
        """The folds of chosen units per view, numbered from 0 without gaps."""
        chosen = [codes[numbers] for codes, numbers in zip(self.codes, units, strict=True)]
        return replace(self, codes=_without_gaps(chosen))


def _without_gaps(codes: Sequence[Index]) -> list[Index]:
    """Numbers of folds per view, from 0 without gaps; −1 stays."""
    every = np.concatenate(codes)
    present = np.unique(every[every >= 0])
    return [np.where(own < 0, -1, np.searchsorted(present, own)) for own in codes]


def fold_blocks(codes: Index, n_folds: int | None = None) -> list[Index]:
    """The positions of every fold number from 0; those of −1 are in none."""
    if n_folds is None:
        n_folds = int(codes.max()) + 1
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(n_folds + 1))
    return [order[begin:end] for begin, end in pairwise(bounds)]


def fold_splits(codes: Index | Splits) -> Splits:
    """(train, test) unit numbers of every fold; splits as they are."""
    if not isinstance(codes, np.ndarray):
        return codes
    everything = np.arange(len(codes))
    blocks = [block for block in fold_blocks(codes) if len(block)]
    return [(np.setdiff1d(everything, block), block) for block in blocks]


# ---------------------------------------------------------------- the default


def default_folding(
    problems: Sequence[Problem],
    groups: Sequence[Index] | None,
    seed: int,
    *,
    n_features: int | None,
) -> Folding | None:
    """The hold-out that the module describes; None where there is too little to hold anything out.

    Parameters
    ----------
    problems : one per view
    groups : (n_units,) per view, what is left out together, under numbers that views share; None
        for items of one query
    n_features : of all views where the solution comes from sums over features, 0 where there is no
        closed form; None where leaving one out is always cheap
    """
    if groups is None:
        return _item_folding(problems, seed)
    folding = Folding(_without_gaps(groups))
    blocks = folding.blocks()
    if len(blocks) < 2:
        return None
    if n_features is None:
        return folding
    n_units, largest = sum(map(len, groups)), max(map(len, blocks))
    held = n_units * n_features // len(groups)
    is_small = largest <= n_features and held <= MAX_UNIT_FEATURES
    is_cheap = n_units <= max(n_features, FEW_UNITS) or (
        is_small and n_units <= UNITS_PER_FEATURE * n_features
    )
    return folding if n_features and is_cheap else folding.coarser(N_FOLDS, seed)


def default_codes(problem: Problem, seed: int, *, n_features: int | None) -> Index | None:
    """The fold of every unit of one view by default; None where there is too little to hold
    anything out.
    """
    groups = None if problem.groups is None else [problem.groups]
    folding = default_folding([problem], groups, seed, n_features=n_features)
    return None if folding is None else folding.codes[0]


def _item_folding(problems: Sequence[Any], seed: int) -> Folding | None:
    """Up to ten folds of two items or more, each with low and high scores: tied items say nothing
    about an order.
    """
    index = [to_numpy(problem.index) for problem in problems]
    rows = np.unique(np.concatenate(index))
    n = len(rows)
    if n < 4:
        return None
    places = [np.searchsorted(rows, numbers) for numbers in index]
    scores = np.zeros(n)
    for problem, at in zip(problems, places, strict=True):
        scores[at] = to_numpy(problem.reference)
    rng = np.random.default_rng(seed)
    order = np.lexsort((rng.random(n), scores))
    folds = np.empty(n, dtype=np.int64)
    folds[order] = balanced_folds(n, min(N_FOLDS, n // 2), rng)
    # a fold that holds all scores of a view is never left out: the view could not be fitted without
    # it
    whole = [int(folds[at[0]]) for at in places if np.ptp(folds[at]) == 0]
    present = np.setdiff1d(folds, whole)
    folds = np.where(np.isin(folds, whole), -1, np.searchsorted(present, folds))
    units = [np.full(problem.targets.shape[0], -1) for problem in problems]
    for own, at in zip(units, places, strict=True):
        own[: len(at)] = folds[at]
    return Folding(units, items=True) if len(present) else None


def balanced_folds(n: int, n_folds: int, rng: np.random.Generator) -> Index:
    """Folds of equal size: every run of n_folds neighbours holds each fold once, in random order."""
    in_order = np.tile(np.arange(n_folds), (-(-n // n_folds), 1))
    return rng.permuted(in_order, axis=1).ravel()[:n]


def same_scores(problems: Sequence[Any]) -> bool:
    """Whether every view has the same scores on the same rows."""
    first = problems[0]
    if not isinstance(first, ScoredRows):
        return True
    held = [(to_numpy(problem.index), to_numpy(problem.scores)) for problem in problems]
    return all(all(map(np.array_equal, held[0], other)) for other in held[1:])


def has_item_form(problems: Sequence[Any]) -> bool:
    """Whether leaving items out of the only query is deleting rows of its root, up to a factor that
    views share.
    """
    for problem in problems:
        if not isinstance(problem, ScoredRows) or isinstance(problem.comparison, Blend):
            return False
    return getattr(problems[0].comparison, "weighting", None) == "size" or same_scores(problems)


# ---------------------------------------------------------------- all rows, fold by fold


@dataclass(frozen=True)
class QueryRun:
    """Folds (queries) of one size in one part of a layout, one after the other, from row `begin`."""

    part: int
    begin: int
    size: int
    count: int

    @property
    def rows(self) -> slice:
        """The rows of the queries."""
        return slice(self.begin, self.begin + self.size * self.count)

    def pieces(self, n_queries: int) -> Iterator[QueryRun]:
        """The run cut into runs of at most `n_queries` queries."""
        for run in runs_of_rows(self.count, max(n_queries, 1)):
            begin = self.begin + run.start * self.size
            yield QueryRun(self.part, begin, self.size, run.stop - run.start)


@dataclass(frozen=True)
class Layout:
    """All rows in the order of their parts, within a part by the size of what is left out together
    in eq. (11), then query by query.

    The parts are the folds in which scored queries are held out to choose parameters, the scored
    queries that never are, and, last, the unscored queries.

    order : (N,) row numbers
    bounds : (n_folds + 3,) first row of every part, and the end
    runs : of one size in one part, in order
    """

    order: Index
    bounds: Index
    runs: tuple[QueryRun, ...]
    n_folds: int

    @classmethod
    def of(
        cls, queries: Index, scored: Index, folds: Index, together: Index | None = None
    ) -> Layout:
        """From query codes (N,), the numbers of the scored rows (n,) and their folds (n,), −1 for
        none. O(N log N).

        All rows of a query are scored, in one fold, or none is. So are those that are left out
        `together` (N,), by default the rows of a query.
        """
        together = queries if together is None else together
        n_folds = int(folds.max()) + 1
        parts = np.full(len(queries), n_folds + 1, dtype=np.int64)
        parts[scored] = np.where(folds < 0, n_folds, folds)
        sizes = np.bincount(together)[together]
        order = np.lexsort((queries, together, sizes, parts))
        keys = np.stack([parts[order], sizes[order]])
        changes = np.any(np.diff(keys, prepend=-1), axis=0)
        runs = []
        for begin, end in pairwise([*np.flatnonzero(changes).tolist(), len(order)]):
            part, size = keys[:, begin].tolist()
            runs.append(QueryRun(part, begin, size, (end - begin) // size))
        bounds = np.searchsorted(keys[0], np.arange(n_folds + 3))
        return cls(order, bounds, tuple(runs), n_folds)

    @property
    def n_scored(self) -> int:
        """Number of scored rows; they come first."""
        return int(self.bounds[-2])

    @property
    def folds(self) -> Index:
        """Folds of the scored rows, −1 for none: (n,)."""
        return np.repeat(np.r_[np.arange(self.n_folds), -1], np.diff(self.bounds[:-1]))

    def rows(self, part: int) -> Index:
        """The rows of a part."""
        return np.arange(self.bounds[part], self.bounds[part + 1])


# ---------------------------------------------------------------- what `cv` asks for


def split_codes(problem: Problem, splits: Index | Splits) -> Index | None:
    """Splits as fold numbers (−1: never held out), None where they are no folds of whole groups.

    Folds have disjoint test sets and train on everything else.
    """
    n = problem.targets.shape[0]
    if isinstance(splits, np.ndarray):
        return splits if _covers_groups(problem, splits) else None
    folds = np.full(n, -1, dtype=np.int64)
    for number, (train, test) in enumerate(splits):
        seen = np.zeros(n, dtype=bool)
        seen[train] = True
        seen[test] = True
        all_once = seen.all() and len(train) + len(test) == n
        if not all_once or np.any(folds[test] >= 0):
            return None
        folds[test] = number
    return folds if _covers_groups(problem, folds) else None


def _covers_groups(problem: Problem, folds: Index) -> bool:
    """Whether folds, one number per unit, cut no group."""
    if problem.groups is None:
        return True
    per_group = np.full(int(problem.groups.max()) + 1, -2, dtype=np.int64)
    per_group[problem.groups] = folds
    return bool(np.all(per_group[problem.groups] == folds))


def given_folding(
    problems: Sequence[Problem], splits: Index | Splits, *, items: bool
) -> Folding | Splits:
    """What `read_splits` read as folds of all views, or as splits where it is none."""
    codes = split_codes(problems[0], splits) if same_scores(problems) else None
    if codes is None:
        return fold_splits(splits)
    return Folding([codes for _ in problems], items)


def split_units(problems: Sequence[Any], units: Index) -> list[Index]:
    """Units of every view: the same comparisons, or the same rows of X, numbered among those scored
    in any view.
    """
    if isinstance(problems[0], ComparedRows):
        return [units for _ in problems]
    index = [to_numpy(problem.index) for problem in problems]
    rows = np.unique(np.concatenate(index))[units]
    return [np.flatnonzero(np.isin(numbers, rows)) for numbers in index]
