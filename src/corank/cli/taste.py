"""What `corank demo` measures: how well a few ratings of one user order the rest of that user's items."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corank.datasets import RankingData, load_jokes, make_ranking
from corank.learners import RLS, RankRLS
from corank.metrics import disagreement_error

FEWEST_RATINGS = 70
POPULARITY = "popularity"


@dataclass(frozen=True)
class Taste:
    """Users to test on, each with the rows of the items they rated, and what every learner is told.

    Attributes
    ----------
    items : (n_items, d) standardised features
    popularity : (n_items,) what everybody thinks of an item, or None
    users : for each user the item numbers (m,) and the scores (m,)
    gamma : kernel width
    table : (n_items, d) features as they came, with `names`
    """

    items: NDArray[np.float64]
    popularity: NDArray[np.float64] | None
    users: list[tuple[NDArray[np.int64], NDArray[np.float64]]]
    gamma: float
    table: NDArray[np.float64]
    names: tuple[str, ...]
    is_made_up: bool = False

    @property
    def learners(self) -> dict[str, Callable[[int, int], Any]]:
        """Each learner, given the number of scored items and a seed. Parameters were chosen on other users."""
        told: dict[str, Any] = {"kernel": "rbf", "gamma": self.gamma, "alpha": 1.0}
        return {
            "RLS": lambda n, seed: RLS(**told),
            "RankRLS": lambda n, seed: RankRLS(weighting="size", **told),
            "Sparse RankRLS": lambda n, seed: RankRLS(
                weighting="size", basis=n // 2, basis_selection="random", random_state=seed, **told
            ),
        }


@dataclass(frozen=True)
class Results:
    """Disagreement of every method: (users, numbers of scored items), the mean over seeds."""

    scored: tuple[int, ...]
    errors: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def mean(self, method: str) -> NDArray[np.float64]:
        """Over the users: one value for each number of scored items."""
        return np.asarray(self.errors[method].mean(axis=0))

    def standard_error(self, method: str) -> NDArray[np.float64]:
        """Of the mean, over the users."""
        errors = self.errors[method]
        return np.asarray(errors.std(axis=0, ddof=1) / np.sqrt(len(errors)))

    def best(self, at: int) -> set[str]:
        """The methods with the least error, to the three digits that are shown."""
        shown = {method: round(float(self.mean(method)[at]), 3) for method in self.errors}
        return {method for method, value in shown.items() if value == min(shown.values())}


def jokes(n_users: int = 100) -> Taste:
    """The last `n_users` of the 200 users of the jokes with at least 70 ratings, in order of first appearance.

    The 100 users before them were used to choose the parameters. Made-up data where the ratings are not installed.
    """
    try:
        data = load_jokes()
    except FileNotFoundError:
        return _made_up(n_users)
    n_items = int(data.item.max())
    raw = np.empty((n_items, data.X.shape[1]))
    raw[data.item - 1] = data.X
    keen = [rows for rows in _rows_of_queries(data) if len(rows) >= FEWEST_RATINGS][:200]
    return Taste(
        items=_standardised(raw),
        popularity=raw.mean(axis=1),
        users=[(data.item[rows] - 1, data.y[rows]) for rows in keen[-n_users:]],
        gamma=0.001,
        table=raw,
        names=data.feature_names,
    )


def _made_up(n_users: int) -> Taste:
    data = make_ranking(n_queries=n_users, query_size=FEWEST_RATINGS, noise=0.5, random_state=0)
    users = [(data.item[rows], data.y[rows]) for rows in _rows_of_queries(data)]
    return Taste(_standardised(data.X), None, users, 0.1, data.X, data.feature_names, is_made_up=True)


def _rows_of_queries(data: RankingData) -> Iterable[NDArray[np.int64]]:
    """The rows of every query, in order of first appearance."""
    labels, first = np.unique(data.qid, return_index=True)
    return (np.flatnonzero(data.qid == label) for label in labels[np.argsort(first)])


def _standardised(X: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


def compare(taste: Taste, scored: tuple[int, ...], seeds: int, tick: Callable[[], None] = lambda: None) -> Results:
    """Score a few items of each user, rank the rest, and compare with what the user thinks of them.

    Parameters
    ----------
    taste : Taste
    scored : numbers of scored items
    seeds : how often to draw them; each seed permutes the items of every user once, for all numbers
    tick : called once a user and seed
    """
    methods = [*([POPULARITY] if taste.popularity is not None else []), *taste.learners]
    errors = {method: np.zeros((len(taste.users), len(scored))) for method in methods}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        for user, (items, scores) in enumerate(taste.users):
            order = rng.permutation(len(items))
            for at, n in enumerate(scored):
                known, rest = order[:n], order[n:]
                for method in methods:
                    predicted = _predicted(taste, method, seed, items, scores, known, rest)
                    errors[method][user, at] += disagreement_error(scores[rest], predicted) / seeds
            tick()
    return Results(scored, errors)


def _predicted(
    taste: Taste,
    method: str,
    seed: int,
    items: NDArray[np.int64],
    scores: NDArray[np.float64],
    known: NDArray[np.int64],
    rest: NDArray[np.int64],
) -> NDArray[np.float64]:
    if method == POPULARITY:
        assert taste.popularity is not None
        return taste.popularity[items[rest]]
    learner = taste.learners[method](len(known), seed).fit(taste.items[items[known]], scores[known])
    return np.asarray(learner.predict(taste.items[items[rest]]))
