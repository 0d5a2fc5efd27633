"""Does it pay to choose basis rows by pivoting instead of at random? Disagreement on three real ranking sets.

    python -m benchmarks.basis_study --data DIR [--seeds 10] [--sizes 100 300 1000]

DIR holds the folders jester, ltr_lightgbm and movielens1m. Training and test queries are fixed; a seed changes the basis
rows only. alpha is tuned on the training queries, gamma is "scale".
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from corank import RankRLS
from corank.metrics import disagreement_error

Split = tuple[Any, Any, Any]  # features, scores, queries


def ltr(folder: Path) -> tuple[Split, Split]:
    """LightGBM's lambdarank example: 201 training and 50 test queries as given, columns scaled by their maximum."""
    data = np.load(folder / "ltr_lightgbm" / "rank.npz")
    parts = [
        sparse.csr_array(
            (data[f"{s}_data"].astype(np.float64), data[f"{s}_indices"].astype(np.int32), data[f"{s}_indptr"]),
            shape=tuple(data[f"{s}_shape"]),
        )
        for s in ("train", "test")
    ]
    scaler = MaxAbsScaler().fit(parts[0])
    train, test = (
        (scaler.transform(part).toarray(), data[f"{s}_y"].astype(float), data[f"{s}_qid"])
        for part, s in zip(parts, ("train", "test"), strict=True)
    )
    return train, test


def jester(folder: Path) -> tuple[Split, Split]:
    """400 training and 300 test users; a row is (user, joke): 10 gauge ratings of the user, 30 users' of the joke."""
    ratings = np.load(folder / "jester" / "jester_part1.npz")["ratings"]
    rated = ratings != 9900
    rng = np.random.default_rng(0)
    gauge = np.flatnonzero(rated.mean(axis=0) > 0.999)[:10]
    users = rng.permutation(np.flatnonzero(rated[:, gauge].all(axis=1)))
    complete = rng.permutation(np.flatnonzero(rated.all(axis=1)))[:30]
    users = users[~np.isin(users, complete)][:700]
    items = np.setdiff1d(np.arange(100), gauge)
    who, what = np.nonzero(rated[np.ix_(users, items)])
    own = ratings[np.ix_(users, gauge)] / 100
    others = ratings[np.ix_(complete, items)].T / 100
    X = np.hstack([own[who], others[what]])
    y = ratings[users[who], items[what]] / 100
    return _split_scaled(X, y, who, 400)


def movielens(folder: Path) -> tuple[Split, Split]:
    """400 training and 300 test users; a row is (user, movie): genres, year, age, gender, occupation, popularity.

    Popularity (mean and number of ratings) is that of the other 5,340 users.
    """
    data = np.load(folder / "movielens1m" / "ratings.npz")
    movies = pq.read_table(folder / "movielens1m" / "movies.parquet").to_pandas().set_index("movie")
    people = pq.read_table(folder / "movielens1m" / "users.parquet").to_pandas().set_index("user")
    chosen = np.random.default_rng(0).permutation(people.index.to_numpy())[:700]
    inside = np.isin(data["user"], chosen)
    counts = np.bincount(data["movie"][~inside], minlength=4000)
    means = np.bincount(data["movie"][~inside], data["rating"][~inside], minlength=4000) / np.maximum(counts, 1)
    user, movie, y = data["user"][inside], data["movie"][inside], data["rating"][inside].astype(float)
    item = movies.drop(columns="title").reindex(movie).to_numpy(dtype=float)
    person = people.loc[user]
    jobs = np.eye(21)[person["occupation"].to_numpy()]
    own = np.column_stack([person["gender"] == "M", person["age"]]).astype(float)
    X = np.hstack([item, own, jobs, means[movie][:, None], np.log1p(counts[movie])[:, None]])
    position = {u: k for k, u in enumerate(chosen)}
    return _split_scaled(X, y, np.asarray([position[u] for u in user]), 400)


def _split_scaled(X: Any, y: Any, who: Any, n_train: int) -> tuple[Split, Split]:
    train = who < n_train
    scaler = StandardScaler().fit(X[train])
    return (scaler.transform(X[train]), y[train], who[train]), (scaler.transform(X[~train]), y[~train], who[~train])


SETS: dict[str, Callable[[Path], tuple[Split, Split]]] = {
    "Jester": jester,
    "LightGBM ranking": ltr,
    "MovieLens 1M": movielens,
}


def errors(train: Split, test: Split, size: int, selection: str, seeds: int) -> np.ndarray[Any, Any]:
    """Disagreement on the test queries for every seed: (seeds,)."""
    values = []
    for seed in range(seeds):
        model = RankRLS(basis=size, basis_selection=selection, random_state=seed).fit(train[0], train[1], qid=train[2])
        values.append(disagreement_error(test[1], model.predict(test[0]), qid=test[2]))
    return np.asarray(values)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 1000])
    arguments = parser.parse_args()
    table = Table(
        "data", "rows", "basis", "random", "pivoted", "pivoted − random", title="Disagreement on test queries"
    )
    for name, read in SETS.items():
        train, test = read(arguments.data)
        for size in arguments.sizes:
            random, pivoted = (errors(train, test, size, s, arguments.seeds) for s in ("random", "pivoted"))
            gap = pivoted - random
            table.add_row(
                name,
                str(len(train[1])),
                str(size),
                *(f"{e.mean():.4f} ± {e.std(ddof=1):.4f}" for e in (random, pivoted)),
                f"{gap.mean():+.4f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.4f}",
            )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
