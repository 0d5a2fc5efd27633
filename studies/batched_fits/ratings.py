"""Ratings of items by people: who rated what, and what items are to the people who rated them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from corank._arrays import FloatArray, Index


@dataclass(frozen=True)
class Ratings:
    """Who rated what, person by person.

    starts : (people + 1,) where each person's ratings begin, and the end
    items : (n,) numbers of the rated items; scores : (n,) the ratings
    """

    starts: Index
    items: Index
    scores: FloatArray
    n_items: int

    @cached_property
    def counts(self) -> Index:
        """How many items each person rated."""
        return np.diff(self.starts)

    def of(self, person: int) -> tuple[Index, FloatArray]:
        """The items that a person rated, and the ratings."""
        own = slice(self.starts[person], self.starts[person + 1])
        return self.items[own], self.scores[own]

    def rated_between(self, least: int, most: int) -> Index:
        """The people who rated so many items, both ends included."""
        return np.flatnonzero((self.counts >= least) & (self.counts <= most))

    def features(self, people: Index, *, missing: str = "person") -> FloatArray:
        """What the items are to these people: (n_items, people).

        A missing rating is the median of the person's own (003 sect. 6.1), or of the item's ("item").
        """
        table = np.full((self.n_items, len(people)), np.nan)
        for column, person in enumerate(people):
            items, scores = self.of(int(person))
            table[items, column] = scores
        known = ~np.isnan(table)
        personal = np.asarray([np.median(table[known[:, column], column]) for column in range(len(people))])
        if missing == "person":
            return np.where(known, table, personal)
        rated = known.any(axis=1)
        typical = np.full(self.n_items, np.median(personal))
        typical[rated] = [np.median(row[own]) for row, own in zip(table[rated], known[rated], strict=True)]
        return np.where(known, table, typical[:, None])


def from_triples(people: Index, items: Index, scores: FloatArray) -> Ratings:
    """Ratings as a list of (person, item, score), people and items numbered from 0."""
    order = np.lexsort((items, people))
    counts = np.bincount(people)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Ratings(starts, items[order].astype(np.int64), scores[order].astype(np.float64), int(items.max()) + 1)


def from_table(scores: FloatArray) -> Ratings:
    """Ratings as a table of people and items, NaN where there is none."""
    people, items = np.nonzero(~np.isnan(scores))
    return from_triples(people, items, scores[people, items])
