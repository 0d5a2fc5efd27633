"""The data sets of the studies as they lie in the data folder, read once a process. SOURCE.md beside each says where it
comes from.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import sparse

REGRESSION = ("uci_regression/index.json", "uci_regression/design.npz")
RANKING = ("ltr_lightgbm/rank.npz",)
JESTER = ("jester/jester_part1.npz",)
SUSHI = ("sushi/sushi.npz", "sushi/items.parquet", "sushi/users.parquet")
PARSES = ("parse_ranking/parse_rank.npz",)
DONATIONS = ("kdd98_pva97nk/pva97nk.parquet",)

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
    index: dict[str, dict[str, Any]] = json.loads((folder / REGRESSION[0]).read_text(encoding="utf-8"))
    return index


def regression_names(folder: Path) -> list[str]:
    """The sets there are."""
    return sorted(_index(folder))


@lru_cache(maxsize=4)
def regression_set(folder: Path, name: str) -> RegressionSet:
    """One set; a nominal attribute with several values has a column for each, named `attribute=value`."""
    about = _index(folder)[name]
    with np.load(folder / REGRESSION[1], allow_pickle=False) as data:
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


@lru_cache(maxsize=1)
def donations(folder: Path) -> RegressionSet:
    """What 9,686 people gave after a mailing, 0 where nothing; encoded as 001 sect. 5.2 has it: a column of 0 and 1 for each
    value of a nominal attribute, one that says where a number is missing. Missing numbers are the mean of the others.
    """
    table = pq.read_table(folder / DONATIONS[0])
    y = np.nan_to_num(table["TARGET_D"].to_numpy().astype(float), nan=0.0)
    columns: list[Floats] = []
    attributes: list[int] = []
    names = [name for name in table.column_names if name not in ("TARGET_B", "TARGET_D", "ID")]
    for at, name in enumerate(names):
        own = _encoded(table[name])
        columns.append(own)
        attributes += [at] * own.shape[1]
    return RegressionSet(np.hstack(columns), y, np.asarray(attributes))


def _encoded(column: Any) -> Floats:
    if pa.types.is_dictionary(column.type) or pa.types.is_string(column.type):
        values = np.asarray(column.to_pylist(), dtype=object)
        return np.stack([values == value for value in sorted(set(values) - {None})], axis=1).astype(float)
    numbers = column.to_numpy().astype(float)
    missing = np.isnan(numbers)
    filled = np.where(missing, np.mean(numbers[~missing]), numbers)
    return np.stack([filled, missing], axis=1) if missing.any() else filled[:, None]


@dataclass(frozen=True)
class Rankings:
    """Documents of queries: features (dense), relevance 0 to 4, query; rows of a query stand together."""

    X: Floats
    y: Floats
    qid: Integers


@lru_cache(maxsize=1)
def rankings(folder: Path) -> tuple[Rankings, Rankings]:
    """LightGBM's lambdarank example: 201 training and 50 test queries; features that are not stored are 0."""
    with np.load(folder / RANKING[0], allow_pickle=False) as data:
        return _rankings(data, "train"), _rankings(data, "test")


def _rankings(data: Any, part: str) -> Rankings:
    return Rankings(
        _stored(data, part).toarray(), data[f"{part}_y"].astype(float), data[f"{part}_qid"].astype(np.int64)
    )


def _stored(data: Any, part: str) -> sparse.csr_array:
    values = data[f"{part}_data"].astype(np.float64), data[f"{part}_indices"].astype(np.int32), data[f"{part}_indptr"]
    return sparse.csr_array(values, shape=tuple(data[f"{part}_shape"]))


@lru_cache(maxsize=1)
def parses(folder: Path) -> Rankings:
    """Parses of 42 sentences: F-score against the right parse, query = sentence. Rows of unit length (cosine kernel =
    linear kernel), expressed in as many columns as there are rows, which leaves all inner products as they are.
    """
    with np.load(folder / PARSES[0], allow_pickle=False) as data:
        X = sparse.vstack([_stored(data, part) for part in ("train", "test")]).tocsr()
        y = np.concatenate([data["train_y"], data["test_y"]]).astype(float)
        qid = np.concatenate([data["train_qid"], data["test_qid"].astype(np.int64) + data["train_qid"].max() + 1])
    gram = np.asarray((X @ X.T).toarray(), dtype=float)
    lengths = np.sqrt(np.diag(gram))
    gram /= np.where(lengths > 0, lengths, 1.0)[:, None] * np.where(lengths > 0, lengths, 1.0)
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-12 * values[-1]
    return Rankings(vectors[:, kept] * np.sqrt(values[kept]), y, qid.astype(np.int64))


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
def jester_ratings(folder: Path) -> Floats:
    """What 24,983 users gave to 100 jokes, -10 to 10; NaN where there is no rating."""
    with np.load(folder / JESTER[0], allow_pickle=False) as data:
        ratings = data["ratings"]
    return np.where(ratings == NOT_RATED, np.nan, ratings / 100.0)


@lru_cache(maxsize=1)
def jester(folder: Path) -> Ratings:
    """Users of Jester but for the reference users, 100 who rated every joke, whose ratings are the features."""
    ratings = jester_ratings(folder)
    complete = np.flatnonzero(~np.isnan(ratings).any(axis=1))
    reference = np.random.default_rng(0).choice(complete, min(N_REFERENCE, len(complete) // 2), replace=False)
    others = np.setdiff1d(np.arange(len(ratings)), reference)
    return Ratings(ratings[others], ratings[reference].T, None)


@lru_cache(maxsize=1)
def sushi(folder: Path) -> Ratings:
    """Scores 0 to 4 that 5,000 users gave to 10 of 100 kinds of sushi; kinds of items and users as columns of 0 and 1, all
    columns standardised."""
    with np.load(folder / SUSHI[0], allow_pickle=False) as data:
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
