"""The data sets of the studies as they lie in the data folder, read once per process.

SOURCE.md beside each of them says where it comes from.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
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
MEDIUM_SETS = ("bike", "elevators", "kin40k", "pol", "pumadyn32nm")
MEDIUM = tuple(f"uci_medium/{name}.parquet" for name in MEDIUM_SETS)
RANKING = ("ltr_lightgbm/rank.npz",)
JESTER = ("jester/jester_part1.npz",)
MOVIELENS = (
    "movielens1m/ratings.npz",
    "movielens1m/movies.parquet",
    "movielens1m/users.parquet",
)
VOTES = ("llmfao/crowd.parquet", "llmfao/gpt3.parquet", "llmfao/gpt4.parquet")
SUSHI = ("sushi/sushi.npz", "sushi/items.parquet", "sushi/users.parquet")
PARSES = ("parse_ranking/parse_rank.npz",)
DONATIONS = ("kdd98_pva97nk/pva97nk.parquet",)
CORA = ("cora/cora.npz",)
PEPS = ("peps/peps.parquet", "peps/cites.parquet")

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
    index: dict[str, dict[str, Any]] = json.loads(
        (folder / REGRESSION[0]).read_text(encoding="utf-8")
    )
    return index


def regression_names(folder: Path) -> list[str]:
    """The sets there are."""
    return sorted(_index(folder))


@lru_cache(maxsize=4)
def regression_set(folder: Path, name: str) -> RegressionSet:
    """One set; a nominal attribute with several values has a column for each, named
    `attribute=value`.
    """
    about = _index(folder)[name]
    with np.load(folder / REGRESSION[1], allow_pickle=False) as data:
        X, y = data[f"{name}__X"], data[f"{name}__y"]
    originals = pq.read_schema(folder / "uci_regression" / about["file"]).names
    attributes = np.asarray([_attribute(column, originals) for column in about["feature_names"]])
    return RegressionSet(X, y, attributes)


@lru_cache(maxsize=2)
def medium_set(folder: Path, name: str) -> RegressionSet:
    """One of MEDIUM_SETS, of some thousand rows; every column is an attribute."""
    table = pq.read_table(folder / "uci_medium" / f"{name}.parquet")
    names = [column for column in table.column_names if column != "y"]
    X = np.stack([table[column].to_numpy().astype(float) for column in names], axis=1)
    return RegressionSet(X, table["y"].to_numpy().astype(float), np.arange(len(names)))


def _attribute(column: str, originals: list[str]) -> int:
    """The position of the attribute that a column stems from; the longest name that fits."""
    fits = [name for name in originals if column == name or column.startswith(f"{name}=")]
    if not fits:
        raise ValueError(f"column {column!r} stems from none of the attributes {originals}.")
    return originals.index(max(fits, key=len))


@lru_cache(maxsize=1)
def donations(folder: Path) -> RegressionSet:
    """What 9,686 people gave after a mailing, 0 where nothing.

    Encoded as in [Brefeld2006] sect. 5.2: a column of 0 and 1 for each value of a nominal
    attribute, one that says where a number is missing. Missing numbers are the mean of the others.
    """
    table = pq.read_table(folder / DONATIONS[0])
    y = np.nan_to_num(table["TARGET_D"].to_numpy().astype(float), nan=0.0)
    columns: list[Floats] = []
    attributes: list[int] = []
    names = [name for name in table.column_names if name not in ("TARGET_B", "TARGET_D", "ID")]
    for at, name in enumerate(names):
        encoded = _encoded(table[name])
        columns.append(encoded)
        attributes += [at] * encoded.shape[1]
    return RegressionSet(np.hstack(columns), y, np.asarray(attributes))


def _encoded(column: Any) -> Floats:
    if pa.types.is_dictionary(column.type) or pa.types.is_string(column.type):
        values = np.asarray(column.to_pylist(), dtype=object)
        return np.stack([values == value for value in sorted(set(values) - {None})], axis=1).astype(
            float
        )
    numbers = column.to_numpy().astype(float)
    missing = np.isnan(numbers)
    filled = np.where(missing, np.mean(numbers[~missing]), numbers)
    return np.stack([filled, missing], axis=1) if missing.any() else filled[:, None]


@dataclass(frozen=True)
class Rankings:
    """Items of queries: features (dense), score, query; rows of a query stand together."""

    X: Floats
    y: Floats
    qid: Integers

    def take(self, rows: Any) -> Rankings:
        """Some of the rows, by numbers or by a mask."""
        return Rankings(self.X[rows], self.y[rows], self.qid[rows])

    def with_columns(self, columns: Any) -> Rankings:
        """All rows with some of the columns."""
        return Rankings(self.X[:, columns], self.y, self.qid)


def stacked(*rankings: Rankings) -> Rankings:
    """Rows one below the other."""
    X = np.concatenate([block.X for block in rankings])
    y = np.concatenate([block.y for block in rankings])
    qid = np.concatenate([block.qid for block in rankings])
    return Rankings(X, y, qid)


def share_of_copies(rows: Floats, of: Floats) -> float:
    """The share of `rows` that are equal to one of the rows `of`."""
    there = {row.tobytes() for row in np.ascontiguousarray(of)}
    return float(np.mean([row.tobytes() in there for row in np.ascontiguousarray(rows)]))


@lru_cache(maxsize=1)
def rankings(folder: Path) -> tuple[Rankings, Rankings]:
    """LightGBM's lambdarank example: 201 training and 50 test queries, relevance 0 to 4; features
    not stored are 0.
    """
    with np.load(folder / RANKING[0], allow_pickle=False) as data:
        return _rankings(data, "train"), _rankings(data, "test")


def _rankings(data: Any, split: str) -> Rankings:
    return Rankings(
        _stored(data, split).toarray(),
        data[f"{split}_y"].astype(float),
        data[f"{split}_qid"].astype(np.int64),
    )


def _stored(data: Any, split: str) -> sparse.csr_array:
    values = (
        data[f"{split}_data"].astype(np.float64),
        data[f"{split}_indices"].astype(np.int32),
        data[f"{split}_indptr"],
    )
    return sparse.csr_array(values, shape=tuple(data[f"{split}_shape"]))


@lru_cache(maxsize=1)
def parses(folder: Path) -> Rankings:
    """Parses of 42 sentences: F-score against the right parse, query = sentence.

    Rows have unit length (cosine kernel = linear kernel) and are expressed in as many columns as
    there are rows, which leaves all inner products as they are.
    """
    with np.load(folder / PARSES[0], allow_pickle=False) as data:
        X = sparse.vstack([_stored(data, split) for split in ("train", "test")]).tocsr()
        y = np.concatenate([data["train_y"], data["test_y"]]).astype(float)
        qid = np.concatenate(
            [data["train_qid"], data["test_qid"].astype(np.int64) + data["train_qid"].max() + 1]
        )
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
    """What users gave to items.

    scores : (users, items), NaN where there is none
    items : features of the items
    users : features of the users, or None
    """

    scores: Floats
    items: Floats
    users: Floats | None

    def rows(self, user: Integers, item: Integers) -> Rankings:
        """One row per pair of a user and an item; a query is a user."""
        X = self.items[item]
        return Rankings(
            X if self.users is None else np.hstack([X, self.users[user]]),
            self.scores[user, item],
            user,
        )

    def drawn(
        self,
        user: Integers,
        count: int | None,
        rng: np.random.Generator,
        *,
        among: Integers | None = None,
    ) -> Rankings:
        """At most `count` items of each of the users, drawn at random among those with a score;
        None for all of them. `among`: the items to draw from, None for all.
        """
        pairs = []
        for number in user:
            scored = np.flatnonzero(~np.isnan(self.scores[number]))
            scored = scored if among is None else np.intersect1d(scored, among)
            chosen = scored if count is None else rng.permutation(scored)[:count]
            pairs += [(number, item) for item in np.sort(chosen)]
        return self.rows(*np.asarray(pairs).T)


@lru_cache(maxsize=1)
def jester_ratings(folder: Path) -> Floats:
    """What 24,983 users gave to 100 jokes, -10 to 10; NaN where there is no rating."""
    with np.load(folder / JESTER[0], allow_pickle=False) as data:
        ratings = data["ratings"]
    return np.where(ratings == NOT_RATED, np.nan, ratings / 100.0)


@lru_cache(maxsize=1)
def jester(folder: Path) -> Ratings:
    """Users of Jester but for the reference users, 100 who rated every joke, whose ratings are the
    features.
    """
    ratings = jester_ratings(folder)
    complete = np.flatnonzero(~np.isnan(ratings).any(axis=1))
    reference = np.random.default_rng(0).choice(
        complete, min(N_REFERENCE, len(complete) // 2), replace=False
    )
    others = np.setdiff1d(np.arange(len(ratings)), reference)
    return Ratings(ratings[others], ratings[reference].T, None)


@lru_cache(maxsize=1)
def sushi(folder: Path) -> Ratings:
    """Scores 0 to 4 that 5,000 users gave to 10 of 100 kinds of sushi.

    Kinds of items and users are columns of 0 and 1; all columns are standardised.
    """
    with np.load(folder / SUSHI[0], allow_pickle=False) as data:
        scores = data["score_b"].astype(float)
    items, users = (pq.read_table(folder / name) for name in SUSHI[1:])
    numbers = np.stack(
        [items[name].to_numpy() for name in ("heaviness", "freq_eaten", "price", "freq_sold")],
        axis=1,
    )
    kinds = [_one_hot(items[name]) for name in ("style", "major_group", "minor_group")]
    people = [_one_hot(users[name]) for name in ("gender", "age_band", "eastwest_now")]
    return Ratings(
        np.where(scores < 0, np.nan, scores),
        _standard(np.hstack([numbers, *kinds])),
        _standard(np.hstack(people)),
    )


@lru_cache(maxsize=1)
def movielens(folder: Path) -> Ratings:
    """Stars 1 to 5 that 6,040 people gave to 3,706 films: columns of a film are its genres and its
    year, those of a person age and columns of 0 and 1 for gender and occupation.
    """
    with np.load(folder / MOVIELENS[0], allow_pickle=False) as data:
        user, movie, rating = (data[name].astype(np.int64) for name in ("user", "movie", "rating"))
    films, people = (pq.read_table(folder / name) for name in MOVIELENS[1:])
    rated, film = np.unique(movie, return_inverse=True)
    known, person = np.unique(user, return_inverse=True)
    scores = np.full((len(known), len(rated)), np.nan)
    scores[person, film] = rating
    columns = [name for name in films.column_names if name.startswith("genre_") or name == "year"]
    items = np.stack([films[name].to_numpy().astype(float) for name in columns], axis=1)
    age = people["age"].to_numpy().astype(float)[:, None]
    others = [_one_hot(people[name]) for name in ("gender", "occupation")]
    return Ratings(
        scores,
        items[_places(rated, films["movie"])],
        np.hstack([age, *others])[_places(known, people["user"])],
    )


def _places(labels: Integers, column: Any) -> Integers:
    """The row of a table that each label stands in."""
    row = {label: number for number, label in enumerate(column.to_pylist())}
    return np.asarray([row[label] for label in labels.tolist()])


LEFT, TIE, RIGHT = 0, 1, 2  # above, tie, below of what stands on the left
MACHINES = ("gpt3", "gpt4")


@dataclass(frozen=True)
class Votes:
    """Votes on pairs of items.

    items : (n, d) features; model : (n,) which language model gave the answer that the item is
    left, right : (m,) row numbers of items; winner : (m,) LEFT, TIE or RIGHT
    judge : (m,) who voted
    """

    items: Floats
    model: Integers
    left: Integers
    right: Integers
    winner: Integers
    judge: NDArray[Any]

    def __len__(self) -> int:
        return len(self.winner)

    def take(self, rows: Any) -> Votes:
        """Some of the votes, by numbers or by a mask, on the same items."""
        chosen = (column[rows] for column in (self.left, self.right, self.winner, self.judge))
        return Votes(self.items, self.model, *chosen)

    def with_judges(self, judge: NDArray[Any]) -> Votes:
        """All votes, as if these had given them."""
        return Votes(self.items, self.model, self.left, self.right, self.winner, judge)


def joined(*votes: Votes) -> Votes:
    """Votes on the same items, one after the other."""
    names = ("left", "right", "winner", "judge")
    columns = (np.concatenate([getattr(block, name) for block in votes]) for name in names)
    return Votes(votes[0].items, votes[0].model, *columns)


@lru_cache(maxsize=1)
def language_votes(folder: Path) -> tuple[Votes, Votes]:
    """Votes of 124 people on answers of 59 language models to 13 prompts, and those of two language
    models, called gpt3 and gpt4.

    An item is an answer; its features are columns of 0 and 1 that say which model gave it, and
    which answer it is.
    """
    tables = [pq.read_table(folder / name) for name in VOTES]
    ends = [
        np.stack([table[side].to_numpy(), table["prompt"].to_numpy()], axis=1)
        for side in ("left", "right")
        for table in tables
    ]
    answers, place = np.unique(np.concatenate(ends), axis=0, return_inverse=True)
    model = np.unique(answers[:, 0], return_inverse=True)[1]
    items = np.hstack([model[:, None] == np.arange(model.max() + 1), np.eye(len(answers))])
    lefts, rights = np.split(place.ravel(), 2)
    first = np.cumsum([0, *(table.num_rows for table in tables)])
    found = []
    for number, table in enumerate(tables):
        rows = slice(first[number], first[number + 1])
        words = table["winner"].to_pylist()
        winner = np.asarray([("left", "tie", "right").index(word) for word in words])
        if number:
            judge = np.full(len(words), MACHINES[number - 1])
        else:
            judge = np.asarray([f"worker {worker}" for worker in table["worker"].to_pylist()])
        found.append(Votes(items.astype(float), model, lefts[rows], rights[rows], winner, judge))
    return found[0], joined(*found[1:])


@lru_cache(maxsize=1)
def sushi_orders(folder: Path) -> Integers:
    """(5000, 10): the ten kinds of sushi that each user put in order, the best first; row numbers
    of `sushi().items`.
    """
    with np.load(folder / SUSHI[0], allow_pickle=False) as data:
        return np.asarray(data["order_b"], dtype=np.int64)


@contextmanager
def unconnected_comparisons() -> Iterator[None]:
    """For comparisons drawn at random: that they do not all hang together is no news."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the comparisons fall into")
        yield


def _one_hot(column: Any) -> Floats:
    values = column.to_numpy()
    return np.asarray(values[:, None] == np.unique(values)[None, :], dtype=float)


def _standard(X: Floats) -> Floats:
    spread = X.std(axis=0)
    X, spread = X[:, spread > 0], spread[spread > 0]
    return np.asarray((X - X.mean(axis=0)) / spread)


@dataclass(frozen=True)
class Cora:
    """Papers: their words and their citations, one row per paper, their class, and those of the
    public test set.
    """

    words: sparse.csr_array
    links: sparse.csr_array
    label: Integers
    test: Integers


@lru_cache(maxsize=1)
def cora(folder: Path) -> Cora:
    """Words are binary; a row of links is that of the adjacency matrix, with a one for the paper
    itself.
    """
    with np.load(folder / CORA[0], allow_pickle=False) as data:
        indices, starts = data["word_indices"].astype(np.int32), data["word_indptr"]
        words = sparse.csr_array(
            (np.ones(len(indices)), indices, starts), shape=tuple(data["shape"])
        )
        first, second = data["edges"].T.astype(np.int64)
        label, test = data["label"].astype(np.int64), data["test_index"].astype(np.int64)
    n, itself = len(label), np.arange(len(label))
    places = np.concatenate([first, second, itself]), np.concatenate([second, first, itself])
    links = sparse.csr_array((np.ones(len(places[0])), places), shape=(n, n))
    return Cora(words, links, label, test)


@dataclass(frozen=True)
class Proposals:
    """Python proposals, one row each.

    features : columns to learn from; texts : title and abstract; topic : empty for most; created :
        days
    adopted : 1, 0, or NaN where still open; cites : (m, 2) row numbers
    """

    features: pa.Table
    texts: list[str]
    topic: NDArray[Any]
    created: Floats
    adopted: Floats
    cites: Integers


@lru_cache(maxsize=1)
def proposals(folder: Path) -> Proposals:
    """Number, status, outcome and topic are no features."""
    table, cites = (pq.read_table(folder / name) for name in PEPS)
    rows = {number: row for row, number in enumerate(table["pep"].to_pylist())}
    ends = zip(cites["pep"].to_pylist(), cites["cites"].to_pylist(), strict=True)
    pairs = [
        (rows[first], rows[second]) for first, second in ends if first in rows and second in rows
    ]
    columns = ("title", "abstract")
    texts = [
        " ".join(text or "" for text in both)
        for both in zip(*(table[c].to_pylist() for c in columns), strict=True)
    ]
    created = np.asarray(
        table["created"].cast(pa.date32()).cast(pa.int32()).to_numpy(), dtype=np.float64
    )
    adopted = np.asarray(table["adopted"].cast(pa.float64()).to_numpy(), dtype=np.float64)
    topic = np.asarray([name or "" for name in table["topic"].to_pylist()])
    features = table.drop_columns(["pep", "status", "adopted", "topic"])
    return Proposals(features, texts, topic, created, adopted, np.asarray(pairs))
