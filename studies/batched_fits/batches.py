"""People side by side: items and scores padded to the longest of a few people, kernels cut from one
table of distances.

All arrays have one row per person. Padding is marked False in `…_mask` and is zero in kernels and
scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import euclidean_distances

from studies.batched_fits.protocol import Person
from studies.data import Floats, Integers

Mask = NDArray[np.bool_]
Halves = tuple[Floats, Floats]
CELLS = 2**17  # kernel values of a batch: about what the cache holds


def squared_distances(features: Floats) -> Floats:
    """Between the rows of features (n, d): (n, n)."""
    centred = features - features.mean(axis=0)
    return np.asarray(euclidean_distances(centred, squared=True))


@dataclass(frozen=True)
class LossRoot:
    """J = within·C + between·(I − C), with C taking the mean out: the root of every loss for one
    query.

    (docs/mathematics.md, section 3.)

    Ranking: between = 0; regression: both 1; the blend between them √(β + (1−β)·w) and √β.
    """

    within: Floats
    between: Floats

    def apply(self, x: Floats, mask: Mask) -> Floats:
        """J x for x (u, n, …), padding left zero."""
        is_item = mask.reshape(mask.shape + (1,) * (x.ndim - 2)).astype(np.float64)
        mean = (x * is_item).sum(axis=1, keepdims=True) / np.maximum(
            is_item.sum(axis=1, keepdims=True), 1.0
        )
        ends = (slice(None), *(None,) * (x.ndim - 1))
        return np.asarray(
            (self.within[ends] * x + (self.between - self.within)[ends] * mean) * is_item
        )


def loss_root(beta: float, counts: Integers, *, weighting: str = "unit") -> LossRoot:
    """The root of β·regression + (1 − β)·ranking, of people with `counts` scores each."""
    weight = counts.astype(np.float64) if weighting == "unit" else np.ones(len(counts))
    return LossRoot(np.sqrt(beta + (1 - beta) * weight), np.full(len(counts), np.sqrt(beta)))


@dataclass(frozen=True)
class Batch:
    """A few people, padded.

    people : (u,) their places in the list they were taken from
    scored, unscored, test : (u, …) items; scores : (u, n) of the scored ones
    """

    people: Integers
    scored: Integers
    scored_mask: Mask
    scores: Floats
    unscored: Integers
    unscored_mask: Mask
    test: Integers
    test_mask: Mask

    @property
    def counts(self) -> Integers:
        """Scored items of every person."""
        return np.asarray(self.scored_mask.sum(axis=1))

    @property
    def means(self) -> Floats:
        """The mean score of every person."""
        return np.asarray(self.scores.sum(axis=1) / self.counts)

    def kernels(
        self, distances: Floats, gamma: float, halves: Callable[[], Halves] | None = None
    ) -> Kernels:
        """Kernels between every person's items."""
        return Kernels(self, distances, gamma, halves)


@dataclass(frozen=True)
class Kernels:
    """exp(−gamma·distance) between items of a batch, computed when asked for.

    halves : gives the distances for one half of the reference people and for the other, for methods
        with such views
    """

    batch: Batch
    distances: Floats
    gamma: float
    halves: Callable[[], Halves] | None = None

    def half(self, side: int) -> Kernels:
        """The kernels of one half of the reference people."""
        if self.halves is None:
            raise ValueError("halves are needed for views of reference people.")
        return Kernels(self.batch, self.halves()[side], self.gamma)

    def between(self, rows: tuple[Integers, Mask], columns: tuple[Integers, Mask]) -> Floats:
        """(u, rows, columns), zero where either is padding."""
        values = self.distances[rows[0][:, :, None], columns[0][:, None, :]]
        values *= -self.gamma
        np.exp(values, out=values)
        values *= rows[1][:, :, None]
        values *= columns[1][:, None, :]
        return values

    @property
    def scored(self) -> Floats:
        """Kernel values among the scored items."""
        scored = self.batch.scored, self.batch.scored_mask
        return self.between(scored, scored)

    @property
    def test(self) -> Floats:
        """Kernel values of the test items with the scored ones."""
        batch = self.batch
        return self.between((batch.test, batch.test_mask), (batch.scored, batch.scored_mask))


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
    chosen = [people[place] for place in places]
    scored, scored_mask = padded([person.scored for person in chosen])
    unscored, unscored_mask = padded([person.unscored for person in chosen])
    test, test_mask = padded([person.test for person in chosen])
    scores, _ = padded([person.scores for person in chosen])
    return Batch(
        np.asarray(places), scored, scored_mask, scores, unscored, unscored_mask, test, test_mask
    )


def padded(rows: Sequence[NDArray[Any]]) -> tuple[Any, Mask]:
    """Rows of different lengths as one table filled up with zeros, and a mask that is False there."""
    width = max(len(row) for row in rows)
    table = np.zeros((len(rows), width), dtype=rows[0].dtype)
    mask = np.zeros((len(rows), width), dtype=bool)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
        mask[place, : len(row)] = True
    return table, mask
