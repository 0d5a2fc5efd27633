"""Who rated what, who is asked and who is tested ([Tsivtsivadze2013] sect. 6.1), and which ratings
are for testing.

Reference people come from a group; hold-out and test people are those with 50 to 300 ratings.
Nobody whose ratings have a part in choosing parameters is ever tested: hold-out people and their
reference people are set aside first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from studies.data import Floats, Integers

GROUPS = ((20, 40), (40, 60), (60, 80))  # numbers of ratings of the reference people
TESTED = (50, 300)  # numbers of ratings of those who are tested


# ---- ratings


@dataclass(frozen=True)
class RatingLists:
    """Who rated what, person by person.

    starts : (people + 1,) where each person's ratings begin, and the end
    items : (n,) numbers of the rated items; scores : (n,) the ratings
    """

    starts: Integers
    items: Integers
    scores: Floats
    n_items: int

    @cached_property
    def counts(self) -> Integers:
        """How many items each person rated."""
        return np.diff(self.starts)

    def rated_by(self, person: int) -> tuple[Integers, Floats]:
        """The items that a person rated, and the ratings."""
        place = slice(self.starts[person], self.starts[person + 1])
        return self.items[place], self.scores[place]

    def rated_between(self, least: int, most: int) -> Integers:
        """The people who rated `least` to `most` items, both ends included."""
        return np.flatnonzero((self.counts >= least) & (self.counts <= most))

    def features(self, people: Integers, *, missing: str = "person") -> Floats:
        """The items as these people rated them: (n_items, people).

        A missing rating is the median of the person's ratings ([Tsivtsivadze2013] sect. 6.1), or of
        the item's ("item").
        """
        table = np.full((self.n_items, len(people)), np.nan)
        for column, person in enumerate(people):
            items, scores = self.rated_by(int(person))
            table[items, column] = scores
        is_rated = ~np.isnan(table)
        of_people = np.asarray(
            [np.median(table[is_rated[:, column], column]) for column in range(len(people))]
        )
        if missing == "person":
            return np.where(is_rated, table, of_people)
        with_ratings = np.flatnonzero(is_rated.any(axis=1))
        of_items = np.full(self.n_items, np.median(of_people))
        of_items[with_ratings] = [np.median(table[item, is_rated[item]]) for item in with_ratings]
        return np.where(is_rated, table, of_items[:, None])


def ratings_from_triples(people: Integers, items: Integers, scores: Floats) -> RatingLists:
    """Ratings as a list of (person, item, score), people and items numbered from 0."""
    order = np.lexsort((items, people))
    counts = np.bincount(people)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return RatingLists(
        starts,
        items[order].astype(np.int64),
        scores[order].astype(np.float64),
        int(items.max()) + 1,
    )


def ratings_from_table(scores: Floats) -> RatingLists:
    """Ratings as a table of people and items, NaN where there is none."""
    people, items = np.nonzero(~np.isnan(scores))
    return ratings_from_triples(people, items, scores[people, items])


# ---- who takes part


@dataclass(frozen=True)
class SampleSizes:
    """How many people of each kind and how many repetitions, the paper's by default, and the seed
    of all draws.
    """

    n_reference: int = 300
    n_holdout: int = 300
    n_test: int = 300
    n_repetitions: int = 10
    seed: int = 0


@dataclass(frozen=True)
class Cast:
    """Who takes part: the reference people as columns of features, and those whose ratings are
    learned.
    """

    reference: Integers
    people: Integers


def draw_casts(
    ratings: RatingLists, sizes: SampleSizes, group: tuple[int, int]
) -> tuple[Cast, list[Cast]]:
    """Those on whom parameters are chosen, and those of every repetition, for reference people of a
    group.

    Test people are the same for all groups. Those of different repetitions are different people
    where there are enough; reference people are never among the tested of their repetition.
    """
    setting_aside = np.random.default_rng([sizes.seed, 0])
    guides = {
        other: _sample(setting_aside, ratings.rated_between(*other), sizes.n_reference)
        for other in GROUPS
    }
    pool = np.setdiff1d(ratings.rated_between(*TESTED), np.concatenate(list(guides.values())))
    if len(pool) < sizes.n_holdout + sizes.n_test:
        raise ValueError(
            f"only {len(pool)} people rated {TESTED[0]} to {TESTED[1]} items and are no reference"
            f" people; {sizes.n_holdout} to choose parameters on and {sizes.n_test} to test are"
            " wanted."
        )
    order = setting_aside.permutation(pool)
    holdout, tested = order[: sizes.n_holdout], order[sizes.n_holdout :]
    repetitions = []
    for repetition in range(sizes.n_repetitions):
        places = np.arange(repetition * sizes.n_test, (repetition + 1) * sizes.n_test) % len(tested)
        free = np.setdiff1d(
            ratings.rated_between(*group), np.concatenate([tested[places], holdout])
        )
        rng = np.random.default_rng([sizes.seed, 1, repetition, *group])
        repetitions.append(Cast(_sample(rng, free, sizes.n_reference), tested[places]))
    return Cast(guides[group], holdout), repetitions


def _sample(rng: np.random.Generator, people: Integers, number: int) -> Integers:
    if len(people) < number:
        raise ValueError(
            f"{number} reference people are wanted, but there are only {len(people)} in their"
            " group."
        )
    return np.sort(rng.choice(people, size=number, replace=False))


# ---- what is seen of a person


@dataclass(frozen=True)
class Person:
    """What a method sees of a person.

    train : items for training, of which the first `n_scored` have scores; scores : (n_scored,)
    test : items to predict. Their ratings are in `Answers` alone.
    """

    train: Integers
    scores: Floats
    test: Integers
    n_scored: int

    @property
    def scored(self) -> Integers:
        """The items with scores."""
        return self.train[: self.n_scored]

    @property
    def unscored(self) -> Integers:
        """The items whose scores are hidden."""
        return self.train[self.n_scored :]


class Answers:
    """Ratings of a person's test items, given only against predictions."""

    def __init__(self, scores: Floats) -> None:
        self._scores = scores

    def unlock(self, predictions: Floats) -> Floats:
        """The ratings (m,), in exchange for finite predictions (…, m)."""
        if predictions.shape[-1:] != self._scores.shape:
            raise ValueError(
                f"predictions have shape {predictions.shape} for {len(self._scores)} test items."
            )
        if not np.isfinite(predictions).all():
            raise ValueError("predictions have NaN or infinite values.")
        return self._scores


def split_people(
    ratings: RatingLists, people: Integers, seed: Sequence[int], *, scored_share: float = 1.0
) -> tuple[list[Person], list[Answers]]:
    """Half of every person's ratings for training, the others for testing; of the former only a
    share is scored.

    The order of a person's items depends on `seed` and the person alone, so all groups and methods
    see the same halves.
    """
    seen, hidden = [], []
    for person in people:
        items, scores = ratings.rated_by(int(person))
        order = np.random.default_rng([*seed, int(person)]).permutation(len(items))
        train, test = np.split(order, [len(items) // 2])
        n_scored = round(scored_share * len(train))
        seen.append(Person(items[train], scores[train[:n_scored]], items[test], n_scored))
        hidden.append(Answers(scores[test]))
    return seen, hidden
