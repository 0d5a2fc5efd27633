"""People side by side: items and scores padded to the longest of a few people, kernels cut from one table of distances.

All arrays have one person a row. What is padding is marked False in `…_known` and is zero in kernels and scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import euclidean_distances

from corank._arrays import FloatArray, Index
from studies.batched_fits.drawing import Person

Mask = NDArray[np.bool_]
Halves = tuple[FloatArray, FloatArray]
CELLS = 2**17  # kernel values of a batch: about what the cache holds


def squared_distances(features: FloatArray) -> FloatArray:
    """Between the rows of features (n, d): (n, n)."""
    centred = features - features.mean(axis=0)
    return np.asarray(euclidean_distances(centred, squared=True))


@dataclass(frozen=True)
class Root:
    """J = within·C + between·(I − C), with C taking the mean out: the root of every loss for one query (math.md 3).

    Ranking: between = 0; regression: both 1; the blend between them √(β + (1−β)·w) and √β.
    """

    within: FloatArray
    between: FloatArray

    def apply(self, x: FloatArray, known: Mask) -> FloatArray:
        """J x for x (u, n, …), padding left zero."""
        mask = known.reshape(known.shape + (1,) * (x.ndim - 2)).astype(np.float64)
        mean = (x * mask).sum(axis=1, keepdims=True) / np.maximum(mask.sum(axis=1, keepdims=True), 1.0)
        ends = (slice(None), *(None,) * (x.ndim - 1))
        return np.asarray((self.within[ends] * x + (self.between - self.within)[ends] * mean) * mask)


def root(beta: float, counts: Index, *, weighting: str = "unit") -> Root:
    """The loss β·regression + (1 − β)·ranking of people with so many scores each."""
    weight = counts.astype(np.float64) if weighting == "unit" else np.ones(len(counts))
    return Root(np.sqrt(beta + (1 - beta) * weight), np.full(len(counts), np.sqrt(beta)))


@dataclass(frozen=True)
class Batch:
    """Some people, padded.

    people : (u,) their places in the list they were taken from
    scored, unscored, test : (u, …) items; scores : (u, n) of the scored ones
    """

    people: Index
    scored: Index
    scored_known: Mask
    scores: FloatArray
    unscored: Index
    unscored_known: Mask
    test: Index
    test_known: Mask

    @property
    def counts(self) -> Index:
        """Scored items of every person."""
        return np.asarray(self.scored_known.sum(axis=1))

    @property
    def means(self) -> FloatArray:
        """The mean score of every person."""
        return np.asarray(self.scores.sum(axis=1) / self.counts)

    def kernels(self, distances: FloatArray, gamma: float, halves: Callable[[], Halves] | None = None) -> Kernels:
        """Between every person's items."""
        return Kernels(self, distances, gamma, halves)


@dataclass(frozen=True)
class Kernels:
    """exp(−gamma·distance) between items of a batch, computed when asked for.

    halves : gives the distances for one half of the reference people and for the other, for methods with such views
    """

    batch: Batch
    distances: FloatArray
    gamma: float
    halves: Callable[[], Halves] | None = None

    def half(self, side: int) -> Kernels:
        """As one half of the reference people see the items."""
        if self.halves is None:
            raise ValueError("halves are needed for views of reference people.")
        return Kernels(self.batch, self.halves()[side], self.gamma)

    def between(self, rows: tuple[Index, Mask], columns: tuple[Index, Mask]) -> FloatArray:
        """(u, rows, columns), zero where either is padding."""
        values = self.distances[rows[0][:, :, None], columns[0][:, None, :]]
        values *= -self.gamma
        np.exp(values, out=values)
        values *= rows[1][:, :, None]
        values *= columns[1][:, None, :]
        return values

    @property
    def scored(self) -> FloatArray:
        """Among the scored items."""
        own = self.batch.scored, self.batch.scored_known
        return self.between(own, own)

    @property
    def test(self) -> FloatArray:
        """Of the test items with the scored ones."""
        batch = self.batch
        return self.between((batch.test, batch.test_known), (batch.scored, batch.scored_known))


def batches(people: Sequence[Person], cells: int = CELLS) -> Iterator[Batch]:
    """People of about equal length together, so that little is padding."""
    order = sorted(range(len(people)), key=lambda place: len(people[place].train))
    begin = 0
    while begin < len(order):
        end = begin + 1
        while end < len(order) and (end + 1 - begin) * len(people[order[end]].train) ** 2 <= cells:
            end += 1
        yield _batch(people, order[begin:end])
        begin = end


def _batch(people: Sequence[Person], places: Sequence[int]) -> Batch:
    some = [people[place] for place in places]
    scored, scored_known = padded([person.scored for person in some])
    unscored, unscored_known = padded([person.unscored for person in some])
    test, test_known = padded([person.test for person in some])
    scores, _ = padded([person.scores for person in some])
    return Batch(np.asarray(places), scored, scored_known, scores, unscored, unscored_known, test, test_known)


def padded(rows: Sequence[NDArray[Any]]) -> tuple[Any, Mask]:
    """Rows of different lengths as one table filled up with zeros, and what is no filling."""
    width = max(len(row) for row in rows)
    table = np.zeros((len(rows), width), dtype=rows[0].dtype)
    known = np.zeros((len(rows), width), dtype=bool)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
        known[place, : len(row)] = True
    return table, known
