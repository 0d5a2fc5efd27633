"""The real data sets as the studies use them, read once a process. DIR/*/SOURCE.md says where they come from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import sparse

REGRESSION = ("uci_regression/index.json", "uci_regression/design.npz")
CORA = ("cora/cora.npz",)
RANKING = ("ltr_lightgbm/rank.npz",)
JESTER = ("jester/jester_part1.npz",)
SUSHI = ("sushi/sushi.npz", "sushi/items.parquet", "sushi/users.parquet")

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class RegressionSet:
    """A regression set, not scaled. `attributes`: (d,) the attribute each column stems from."""

    X: Floats
    y: Floats
    attributes: Integers

    def standardised(self) -> RegressionSet:
        """Columns of mean 0 and variance 1 over all rows; constant ones dropped."""
        spread = self.X.std(axis=0)
        varies = spread > 1e-12 * np.maximum(1, np.abs(self.X).max(axis=0))
        X = (self.X[:, varies] - self.X[:, varies].mean(axis=0)) / spread[varies]
        return RegressionSet(X, self.y, self.attributes[varies])


@lru_cache(maxsize=1)
def _index(folder: Path) -> dict[str, dict[str, Any]]:
    index: dict[str, dict[str, Any]] = json.loads((folder / REGRESSION[0]).read_text())
    return index


def regression_names(folder: Path) -> list[str]:
    """The sets there are."""
    return sorted(_index(folder))


@lru_cache(maxsize=4)
def regression_set(folder: Path, name: str) -> RegressionSet:
    """One set; a nominal attribute with several values has a column for each, named `attribute=value`."""
    about = _index(folder)[name]
    with np.load(folder / REGRESSION[1]) as data:
        X, y = data[f"{name}__X"], data[f"{name}__y"]
    originals = pq.read_schema(folder / "uci_regression" / about["file"]).names
    attributes = np.asarray([_attribute(column, originals) for column in about["feature_names"]])
    return RegressionSet(X, y, attributes)


def _attribute(column: str, originals: list[str]) -> int:
    """The position of the attribute that a column stems from; the longest name that fits."""
    fits = [name for name in originals if column == name or column.startswith(f"{name}=")]
    if not fits:
        raise ValueError(f"column {column!r} stems from none of the attributes {originals}.")
    return originals.index(max(fits, key=len))


@dataclass(frozen=True)
class Cora:
    """Papers: their words and their citations as rows of unit length (cosine kernel = linear kernel), their class."""

    words: sparse.csr_array
    links: sparse.csr_array
    label: Integers


@lru_cache(maxsize=1)
def cora(folder: Path) -> Cora:
    """Words are binary; a row of links is that of the adjacency matrix, with a one for the paper itself."""
    with np.load(folder / CORA[0]) as data:
        indices, starts = data["word_indices"].astype(np.int32), data["word_indptr"]
        words = sparse.csr_array((np.ones(len(indices)), indices, starts), shape=tuple(data["shape"]))
        first, second = data["edges"].T.astype(np.int64)
        label = data["label"].astype(np.int64)
    n, itself = len(label), np.arange(len(label))
    places = np.concatenate([first, second, itself]), np.concatenate([second, first, itself])
    links = sparse.csr_array((np.ones(len(places[0])), places), shape=(n, n))
    return Cora(words, links, label)


@dataclass(frozen=True)
class Rankings:
    """Documents of queries: features (dense), relevance 0 to 4, query; rows of a query stand together."""

    X: Floats
    y: Floats
    qid: Integers


@lru_cache(maxsize=1)
def rankings(folder: Path) -> tuple[Rankings, Rankings]:
    """LightGBM's lambdarank example: 201 training and 50 test queries; features that are not stored are 0."""
    with np.load(folder / RANKING[0]) as data:
        return _rankings(data, "train"), _rankings(data, "test")


def _rankings(data: Any, part: str) -> Rankings:
    values = data[f"{part}_data"].astype(np.float64), data[f"{part}_indices"].astype(np.int32), data[f"{part}_indptr"]
    X = sparse.csr_array(values, shape=tuple(data[f"{part}_shape"])).toarray()
    return Rankings(X, data[f"{part}_y"].astype(float), data[f"{part}_qid"].astype(np.int64))


N_REFERENCE = 100  # users of Jester whose ratings are the features of a joke
NOT_RATED = 9900


@dataclass(frozen=True)
class Ratings:
    """What users gave to items: scores (users, items), NaN where there is none; features of the items and, or None, of the users."""

    scores: Floats
    items: Floats
    users: Floats | None

    def rows(self, user: Integers, item: Integers) -> Rankings:
        """One row a pair of a user and an item; a query is a user."""
        X = self.items[item]
        return Rankings(X if self.users is None else np.hstack([X, self.users[user]]), self.scores[user, item], user)

    def drawn(self, user: Integers, count: int | None, rng: np.random.Generator) -> Rankings:
        """Up to so many items of each of the users, drawn at random among those with a score; None for all of them."""
        pairs = []
        for one in user:
            known = np.flatnonzero(~np.isnan(self.scores[one]))
            chosen = known if count is None else rng.permutation(known)[:count]
            pairs += [(one, item) for item in np.sort(chosen)]
        return self.rows(*np.asarray(pairs).T)


@lru_cache(maxsize=1)
def jester(folder: Path) -> Ratings:
    """Users of Jester but for the reference users, 100 who rated every joke, whose ratings are the features."""
    with np.load(folder / JESTER[0]) as data:
        ratings = data["ratings"]
    complete = np.flatnonzero((ratings != NOT_RATED).all(axis=1))
    reference = np.random.default_rng(0).choice(complete, N_REFERENCE, replace=False)
    others = np.setdiff1d(np.arange(len(ratings)), reference)
    scores = np.where(ratings[others] == NOT_RATED, np.nan, ratings[others] / 100.0)
    return Ratings(scores, ratings[reference].T / 100.0, None)


@lru_cache(maxsize=1)
def sushi(folder: Path) -> Ratings:
    """Scores 0 to 4 that 5,000 users gave to 10 of 100 kinds of sushi; kinds of items and users as columns of 0 and 1, all
    columns standardised."""
    with np.load(folder / SUSHI[0]) as data:
        scores = data["score_b"].astype(float)
    items, users = (pq.read_table(folder / name) for name in SUSHI[1:])
    numbers = np.stack([items[name].to_numpy() for name in ("heaviness", "freq_eaten", "price", "freq_sold")], axis=1)
    kinds = [_one_hot(items[name]) for name in ("style", "major_group", "minor_group")]
    people = [_one_hot(users[name]) for name in ("gender", "age_band", "eastwest_now")]
    return Ratings(
        np.where(scores < 0, np.nan, scores), _standard(np.hstack([numbers, *kinds])), _standard(np.hstack(people))
    )


def _one_hot(column: Any) -> Floats:
    values = column.to_numpy()
    return np.asarray(values[:, None] == np.unique(values)[None, :], dtype=float)


def _standard(X: Floats) -> Floats:
    spread = X.std(axis=0)
    X, spread = X[:, spread > 0], spread[spread > 0]
    return np.asarray((X - X.mean(axis=0)) / spread)
