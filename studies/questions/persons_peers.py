"""What `persons` compares AutoRanker with, each over the same number of settings: LightGBM's
lambdarank with three kinds of columns, matrix factorisation, biased means, and one model per person.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from scipy import linalg, sparse
from sklearn.metrics.pairwise import rbf_kernel

from corank.experiments.methods import MethodRows, disagreements, is_graded, levels
from studies.data import Floats, Integers

N_SETTINGS = 24
FEW, MANY_SPLITS, SPLITS = 10, 6, 3  # up to so many ratings per person more splits
ONE_SPLIT = 100_000  # ratings from which one split is enough
N_TREES = (25, 50, 100, 200)
# number of leaves, fewest rows of a leaf, rate
SHAPES = ((4, 5, 0.1), (8, 10, 0.05), (8, 20, 0.1), (16, 10, 0.05), (16, 20, 0.1), (31, 20, 0.05))
FACTORS, RIDGES = (1, 2, 4, 8), (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
ROUNDS, BIAS_RIDGE, CHUNK = 12, 3.0, 100_000
PRIORS = np.logspace(-1, 2, N_SETTINGS)  # ratings that the mean of all counts as
WIDTHS, ALPHAS = (0.3, 1.0, 3.0), np.logspace(-2, 3, 8)
MEAN_FOLDS, MEAN_PRIOR = 5, 2.0
assert len(SHAPES) * len(N_TREES) == len(FACTORS) * len(RIDGES) == N_SETTINGS
assert len(WIDTHS) * len(ALPHAS) == N_SETTINGS


@dataclass(frozen=True)
class RatedRows:
    """Ratings: who gave which item how much, by numbers of people and items."""

    person: Integers
    item: Integers
    y: Floats

    def take(self, rows: Any) -> RatedRows:
        """Some of the rows."""
        return RatedRows(self.person[rows], self.item[rows], self.y[rows])


@dataclass(frozen=True)
class People:
    """What there is to learn from and to be tested on.

    rows, test : ratings that are known, and those that are asked for
    items : (items, d) columns, d = 0 where there are none
    people : (people, e) columns, or None
    """

    rows: RatedRows
    test: RatedRows
    items: Floats
    people: Floats | None
    seed: int


# rows → (n, settings)
Predict: TypeAlias = Callable[[RatedRows], Floats]
# what is fitted at once, and its number of settings
Family: TypeAlias = tuple[Callable[[RatedRows], Predict], int]


def fit_peer(learner: str, data: People, *, quick: bool = False) -> tuple[Floats, int]:
    """Predictions of a peer for the test rows, tuned on the others, and the settings it tried."""
    families = PEERS[learner](data)
    return _tuned(families[:1] if quick else families, data)


def _tuned(families: Sequence[Family], data: People) -> tuple[Floats, int]:
    """The setting of fewest misordered pairs among ratings held out, fitted on all rows.

    In every split a third of the ratings of each person are held out, at least two.
    """
    is_few = len(data.rows.y) <= FEW * len(np.unique(data.rows.person))
    n_splits = MANY_SPLITS if is_few else SPLITS if len(data.rows.y) < ONE_SPLIT else 1
    parts = [_split(data.rows, data.seed, number) for number in range(n_splits)]
    errors = [np.zeros(count) for _, count in families]
    for kept, left in parts:
        for total, (fit, _) in zip(errors, families, strict=True):
            total += misordered(left, fit(kept)(left))
    best = int(np.argmin([total.min() for total in errors]))
    at = int(np.argmin(errors[best]))
    predicted = families[best][0](data.rows)(data.test)[:, at]
    return predicted, sum(len(total) for total in errors)


def _split(rows: RatedRows, seed: int, number: int) -> tuple[RatedRows, RatedRows]:
    rng = np.random.default_rng([seed, number, 61])
    left = np.zeros(len(rows.y), dtype=bool)
    order = np.argsort(rows.person, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(rows.person[order])) + 1):
        left[rng.permutation(members)[: max(2, len(members) // 3)]] = True
    return rows.take(~left), rows.take(left)


def misordered(rows: RatedRows, predicted: Floats) -> Floats:
    """The share of misordered pairs within persons, of every column of predictions (n, k): (k,)."""
    nothing = np.empty((len(rows.y), 0))
    errors = disagreements(MethodRows(nothing, rows.y, rows.person), predicted)
    return np.asarray(errors.mean(axis=0))


# ---- LightGBM


def boosted(kind: str, data: People) -> list[Family]:
    """LightGBM's lambdarank, queries are persons; `kind` says what it sees of a row."""
    return [(partial(_lambdarank, kind, data, shape), len(N_TREES)) for shape in SHAPES]


def _lambdarank(kind: str, data: People, shape: tuple[int, int, float], rows: RatedRows) -> Predict:
    import lightgbm as lgb  # not everywhere

    rows = rows.take(np.argsort(rows.person, kind="stable"))
    X, categories = columns_of(kind, data, rows, rows, held_out=True)
    leaves, least, rate = shape
    settings: dict[str, Any] = {
        "objective": "lambdarank",
        "num_leaves": leaves,
        "min_data_in_leaf": least,
        "learning_rate": rate,
        "min_data_per_group": least,
        "num_threads": 1,
        "deterministic": True,
        "seed": 0,
        "verbosity": -1,
    }
    if not is_graded(rows.y):
        settings["label_gain"] = list(range(32))
    sizes = np.unique(rows.person, return_counts=True)[1]
    train = lgb.Dataset(
        X,
        levels(rows.y),
        group=sizes,
        categorical_feature=categories,
        params={"verbosity": -1, "min_data_per_group": least},
    )
    model = lgb.train(settings, train, num_boost_round=max(N_TREES))

    def predict(new: RatedRows) -> Floats:
        features, _ = columns_of(kind, data, rows, new, held_out=False)
        stages = [model.predict(features, num_iteration=count) for count in N_TREES]
        return np.stack(stages, axis=1)

    return predict


def columns_of(
    kind: str, data: People, rows: RatedRows, new: RatedRows, *, held_out: bool
) -> tuple[Floats, list[int]]:
    """What LightGBM sees of the rows `new`, and which columns are categories.

    "columns": of items and people; "numbers": with the numbers of both as categories; "means": with
    the number of the item, the mean of its other ratings (less the level of those who gave them)
    and how many there are.

    held_out : `new` are the rows that it learns from: means then leave out the row's own fold, and
        counts the row itself
    """
    blocks = [data.items[new.item]]
    if data.people is not None:
        blocks.append(data.people[new.person])
    categories: list[int] = []
    if kind != "columns":
        categories.append(sum(block.shape[1] for block in blocks))
        blocks.append(new.item[:, None].astype(float))
    if kind == "numbers":
        categories.append(categories[0] + 1)
        blocks.append(new.person[:, None].astype(float))
    if kind == "means":
        n_items = len(data.items)
        times = np.bincount(rows.item, minlength=n_items)[new.item]
        counts = np.asarray(times - float(held_out), dtype=np.float64)
        if held_out:
            means = np.empty(len(new.y))
            fold = np.random.default_rng([data.seed, 67]).permutation(len(new.y)) % MEAN_FOLDS
            for number in range(MEAN_FOLDS):
                left = fold == number
                means[left] = _means(rows.take(~left), n_items)[new.item[left]]
        else:
            means = _means(rows, n_items)[new.item]
        blocks += [means[:, None], counts[:, None]]
    return np.hstack(blocks), categories


def _means(rows: RatedRows, n_items: int) -> Floats:
    """Shrunk means of the ratings of every item, less the level of those who gave them."""
    people = np.unique(rows.person, return_inverse=True)[1]
    level = np.bincount(people, weights=rows.y) / np.bincount(people)
    total = np.bincount(rows.item, weights=rows.y - level[people], minlength=n_items)
    return total / (np.bincount(rows.item, minlength=n_items) + MEAN_PRIOR)


# ---- means and factors


def biased_means(data: People) -> list[Family]:
    """The mean of every item, less the levels of those who rated it, shrunk by every prior."""

    def fit(rows: RatedRows) -> Predict:
        values = np.stack([_levels(rows, data, prior)[1] for prior in PRIORS], axis=1)
        return lambda new: values[new.item]

    return [(fit, len(PRIORS))]


def _levels(rows: RatedRows, data: People, prior: float) -> tuple[Floats, Floats]:
    """Levels of people and of items, less the mean of all: shrunk and in turns."""
    n_people = 1 + int(max(rows.person.max(), data.test.person.max()))
    n_items = len(data.items)
    centred = rows.y - rows.y.mean()
    of_people = np.bincount(rows.person, minlength=n_people) + 1.0
    of_items = np.bincount(rows.item, minlength=n_items) + prior
    item = np.zeros(n_items)
    for _ in range(ROUNDS):
        residual = centred - item[rows.item]
        person = np.bincount(rows.person, weights=residual, minlength=n_people) / of_people
        residual = centred - person[rows.person]
        item = np.bincount(rows.item, weights=residual, minlength=n_items) / of_items
    return person, item


def factorised(data: People) -> list[Family]:
    """Matrix factorisation with levels of people and items, by alternating least squares."""
    return [
        (partial(_alternating, data, factors, ridge), 1)
        for factors, ridge in product(FACTORS, RIDGES)
    ]


def _alternating(data: People, factors: int, ridge: float, rows: RatedRows) -> Predict:
    """A row of `people` is (level, 1, factors), one of `items` (1, level, factors): their product is
    the rating less the mean of all.
    """
    person, item = _levels(rows, data, BIAS_RIDGE)
    rng = np.random.default_rng([data.seed, 71])
    people = np.column_stack([person, np.ones(len(person)), np.zeros((len(person), factors))])
    tastes = 0.1 * rng.standard_normal((len(item), factors))
    items = np.column_stack([np.ones(len(item)), item, tastes])
    centred = rows.y - rows.y.mean()
    penalties = np.concatenate([[BIAS_RIDGE], np.full(factors, ridge)])
    # a level of the one side and the factors are free, the level of the other side is fixed
    for _ in range(ROUNDS):
        people[:, [0, *range(2, factors + 2)]] = _ridge(
            rows.person, rows.item, centred, items, people, 0, penalties
        )
        items[:, [1, *range(2, factors + 2)]] = _ridge(
            rows.item, rows.person, centred, people, items, 1, penalties
        )
    return lambda new: (people[new.person] * items[new.item]).sum(axis=1)[:, None]


def _ridge(
    own: Integers,
    other: Integers,
    targets: Floats,
    features: Floats,
    current: Floats,
    level: int,
    penalties: Floats,
) -> Floats:
    """Coefficients of every one of `current` (m, k) by least squares, but for the level of the other
    side: (m, k - 1). O(ratings k²), in chunks.
    """
    m, k = len(current), features.shape[1] - 1
    free = [column for column in range(k + 1) if column != 1 - level]
    gram, right = np.zeros((m, k * k)), np.zeros((m, k))
    for start in range(0, len(own), CHUNK):
        rows = slice(start, start + CHUNK)
        used = features[other[rows]]
        residual = targets[rows] - used[:, 1 - level] * current[own[rows], 1 - level]
        used = used[:, free]
        places = np.arange(len(used))
        ones = np.ones(len(used))
        sums = sparse.csr_array((ones, (own[rows], places)), shape=(m, len(used)))
        gram += sums @ (used[:, :, None] * used[:, None, :]).reshape(len(used), -1)
        right += sums @ (used * residual[:, None])
    system = gram.reshape(m, k, k) + np.diag(penalties)
    return np.linalg.solve(system, right[:, :, None])[:, :, 0]


# ---- one model per person


def one_each(data: People) -> list[Family]:
    """Kernel ridge (rbf) on the ratings of each person alone; one width and alpha for all of them."""
    used = data.items[np.unique(np.concatenate([data.rows.item, data.test.item]))]
    spread = np.where(used.std(axis=0) > 0, used.std(axis=0), 1.0)
    items = (data.items - used.mean(axis=0)) / spread
    return [(partial(_alone, items, width / items.shape[1]), len(ALPHAS)) for width in WIDTHS]


def _alone(items: Floats, gamma: float, rows: RatedRows) -> Predict:
    def predict(new: RatedRows) -> Floats:
        predicted = np.zeros((len(new.y), len(ALPHAS)))
        for person in np.unique(new.person):
            own, asked = rows.person == person, new.person == person
            X, y = items[rows.item[own]], rows.y[own] - rows.y[own].mean()
            values, vectors = linalg.eigh(rbf_kernel(X, gamma=gamma))
            shrunk = np.maximum(values, 0.0)[:, None] + ALPHAS
            weights = vectors @ ((vectors.T @ y)[:, None] / shrunk)
            predicted[asked] = rbf_kernel(items[new.item[asked]], X, gamma=gamma) @ weights
        return predicted

    return predict


PEERS: Mapping[str, Callable[[People], list[Family]]] = {
    "lightgbm-columns": partial(boosted, "columns"),
    "lightgbm-numbers": partial(boosted, "numbers"),
    "lightgbm-means": partial(boosted, "means"),
    "als": factorised,
    "means": biased_means,
    "one-each": one_each,
}
