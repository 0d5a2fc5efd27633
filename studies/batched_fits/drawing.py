"""Who is asked and who is tested (003 sect. 6.1), and which half of the ratings is for testing.

Reference people come from a group; hold-out and test people are those with 50 to 300 ratings. Nobody whose ratings have
a part in choosing parameters is ever tested: hold-out people and their reference people are set aside first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corank._arrays import FloatArray, Index
from studies.batched_fits.ratings import Ratings

GROUPS = ((20, 40), (40, 60), (60, 80))  # numbers of ratings of the reference people
TESTED = (50, 300)  # numbers of ratings of those who are tested


@dataclass(frozen=True)
class Protocol:
    """How many of everything; the paper's by default."""

    n_reference: int = 300
    n_holdout: int = 300
    n_test: int = 300
    n_repetitions: int = 10
    seed: int = 0


@dataclass(frozen=True)
class Cast:
    """Who takes part: the reference people as columns of features, and those whose ratings are learned."""

    reference: Index
    people: Index


@dataclass(frozen=True)
class Person:
    """What a method sees of a person: `train` items with their scores, of which `n_scored` come first and count.

    test : items to predict. Their ratings are in `Answers` alone.
    """

    train: Index
    scores: FloatArray
    test: Index
    n_scored: int

    @property
    def scored(self) -> Index:
        """The items whose scores count."""
        return self.train[: self.n_scored]

    @property
    def unscored(self) -> Index:
        """The items whose scores are hidden."""
        return self.train[self.n_scored :]


class Answers:
    """Ratings of one person's test items, given only against predictions."""

    def __init__(self, scores: FloatArray) -> None:
        self._scores = scores

    def unlock(self, predictions: FloatArray) -> FloatArray:
        """The ratings (m,), in exchange for finite predictions (…, m)."""
        if predictions.shape[-1:] != self._scores.shape:
            raise ValueError(f"predictions have shape {predictions.shape} for {len(self._scores)} test items.")
        if not np.isfinite(predictions).all():
            raise ValueError("predictions have NaN or infinite values.")
        return self._scores


def cast(ratings: Ratings, protocol: Protocol, group: tuple[int, int]) -> tuple[Cast, list[Cast]]:
    """Those on whom parameters are chosen, and those of every repetition, for reference people of a group.

    Test people are the same for all groups. Those of different repetitions are different people where there are enough;
    reference people are never among the tested of their repetition.
    """
    setting_aside = np.random.default_rng([protocol.seed, 0])
    guides = {own: _some(setting_aside, ratings.rated_between(*own), protocol.n_reference) for own in GROUPS}
    pool = np.setdiff1d(ratings.rated_between(*TESTED), np.concatenate(list(guides.values())))
    if len(pool) < protocol.n_holdout + protocol.n_test:
        raise ValueError(
            f"only {len(pool)} people rated {TESTED[0]} to {TESTED[1]} items and are no reference people; "
            f"{protocol.n_holdout} to choose parameters on and {protocol.n_test} to test are wanted."
        )
    order = setting_aside.permutation(pool)
    holdout, tested = order[: protocol.n_holdout], order[protocol.n_holdout :]
    repetitions = []
    for repetition in range(protocol.n_repetitions):
        places = np.arange(repetition * protocol.n_test, (repetition + 1) * protocol.n_test) % len(tested)
        free = np.setdiff1d(ratings.rated_between(*group), np.concatenate([tested[places], holdout]))
        rng = np.random.default_rng([protocol.seed, 1, repetition, *group])
        repetitions.append(Cast(_some(rng, free, protocol.n_reference), tested[places]))
    return Cast(guides[group], holdout), repetitions


def _some(rng: np.random.Generator, people: Index, number: int) -> Index:
    if len(people) < number:
        raise ValueError(f"{number} reference people are wanted, but there are only {len(people)} in their group.")
    return np.sort(rng.choice(people, size=number, replace=False))


def halved(
    ratings: Ratings, people: Index, seed: Sequence[int], *, scored_share: float = 1.0
) -> tuple[list[Person], list[Answers]]:
    """Half of every person's ratings for training, the rest for testing; of the former only a share is scored.

    The order of a person's items depends on `seed` and the person alone, so all groups and methods see the same halves.
    """
    seen, hidden = [], []
    for person in people:
        items, scores = ratings.of(int(person))
        order = np.random.default_rng([*seed, int(person)]).permutation(len(items))
        train, test = np.split(order, [len(items) // 2])
        n_scored = round(scored_share * len(train))
        seen.append(Person(items[train], scores[train[:n_scored]], items[test], n_scored))
        hidden.append(Answers(scores[test]))
    return seen, hidden
