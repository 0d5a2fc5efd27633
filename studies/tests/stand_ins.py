"""Tiny made-up stand-ins of the data folders that the studies of the papers read, in the formats of
their SOURCE.md.
"""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse


def write_all(folder):
    """Every folder."""
    for write in (
        write_regression,
        write_donations,
        write_rankings,
        write_parses,
        write_jester,
        write_sushi,
        write_movielens,
        write_votes,
    ):
        write(folder)
    return folder


def write_regression(folder, n_sets=6, n_rows=60):
    place = folder / "uci_regression"
    (place / "raw").mkdir(parents=True)
    rng, index, arrays = np.random.default_rng(0), {}, {}
    for k in range(n_sets):
        name = f"set{k}"
        X = rng.standard_normal((n_rows, 4)) * [1, 5, 1, 1] + 3
        y = 20 + X @ rng.standard_normal(4) + 0.1 * rng.standard_normal(n_rows)
        kind = rng.integers(3, size=n_rows)
        hot = (kind[:, None] == np.arange(3)).astype(float)
        columns = {f"a{j}": X[:, j] for j in range(4)} | {
            "kind": pa.array([f"v{v}" for v in kind]),
            "y": y,
        }
        pq.write_table(pa.table(columns), place / "raw" / f"{name}.parquet")
        arrays |= {f"{name}__X": np.hstack([X, hot]), f"{name}__y": y}
        names = [*(f"a{j}" for j in range(4)), *(f"kind=v{v}" for v in range(3))]
        index[name] = {"file": f"raw/{name}.parquet", "feature_names": names}
    np.savez(place / "design.npz", **arrays)
    (place / "index.json").write_text(json.dumps(index))


def write_medium(folder, names, n_rows=450):
    """Sets of which half of the columns do not matter."""
    (folder / "uci_medium").mkdir(parents=True)
    for seed, name in enumerate(names):
        rng = np.random.default_rng(seed)
        X = rng.random((n_rows, 4))
        y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n_rows)
        columns = {f"x{j}": X[:, j] for j in range(4)} | {"y": y}
        pq.write_table(pa.table(columns), folder / "uci_medium" / f"{name}.parquet")


def write_donations(folder, n_rows=700):
    place = folder / "kdd98_pva97nk"
    place.mkdir(parents=True)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n_rows, 5))
    given = np.maximum(0, 10 + 5 * X[:, 0] + rng.standard_normal(n_rows))
    gave = given > 9
    age = np.where(rng.random(n_rows) < 0.3, np.nan, 50 + 10 * X[:, 1])
    columns = {
        "TARGET_B": gave.astype(np.int16),
        "ID": np.arange(n_rows, dtype=np.int32),
        "TARGET_D": pa.array(np.where(gave, given, np.nan), from_pandas=True),
        **{f"Gift{j}": X[:, j] for j in range(5)},
        "DemAge": pa.array(age, from_pandas=True),
        "DemGender": pa.array(rng.choice(["F", "M", "U"], n_rows)).dictionary_encode(),
    }
    pq.write_table(pa.table(columns), place / "pva97nk.parquet")


def write_rankings(folder, n_queries=90):
    (folder / "ltr_lightgbm").mkdir(parents=True)
    np.savez(
        folder / "ltr_lightgbm" / "rank.npz",
        **_svmlight(2, n_queries, 6),
        **_svmlight(3, 16, 6, "test"),
    )


def write_parses(folder):
    (folder / "parse_ranking").mkdir(parents=True)
    arrays = _svmlight(4, 12, 4, scale=0.25) | _svmlight(5, 12, 4, "test", scale=0.25)
    np.savez(folder / "parse_ranking" / "parse_rank.npz", **arrays)


def _svmlight(seed, n_queries, size, split="train", scale=1.0):
    rng = np.random.default_rng(seed)
    n = n_queries * size
    X = rng.random((n, 12)) * (rng.random((n, 12)) < 0.7)
    y = np.clip(np.round(4 * X[:, 1] + 0.5 * rng.standard_normal(n)), 0, 4)
    stored = sparse.csr_array(X)
    return {
        f"{split}_data": stored.data.astype(np.float32),
        f"{split}_indices": stored.indices.astype(np.int16),
        f"{split}_indptr": stored.indptr.astype(np.int32),
        f"{split}_shape": np.asarray(X.shape),
        f"{split}_y": y * scale,
        f"{split}_qid": np.repeat(np.arange(n_queries), size).astype(np.int32),
    }


def write_jester(folder, n_users=300):
    (folder / "jester").mkdir(parents=True)
    rng = np.random.default_rng(6)
    taste, jokes = (
        rng.standard_normal((n_users, 3)) + np.eye(3)[0] * 2,
        rng.standard_normal((100, 3)),
    )
    ratings = np.clip(
        np.round(250 * taste @ jokes.T + 100 * rng.standard_normal((n_users, 100))), -1000, 1000
    )
    missing = rng.random(ratings.shape) < 0.4
    missing[: n_users // 3] = False
    ratings = np.where(missing, 9900, ratings).astype(np.int16)
    np.savez(folder / "jester" / "jester_part1.npz", ratings=ratings)


def write_sushi(folder, n_users=150):
    place = folder / "sushi"
    place.mkdir(parents=True)
    rng = np.random.default_rng(7)
    scores = np.full((n_users, 100), -1, dtype=np.int8)
    for user in range(n_users):
        scores[user, rng.permutation(100)[:10]] = rng.integers(5, size=10)
    np.savez(place / "sushi.npz", score_b=scores)
    numbers = {name: rng.random(100) for name in ("heaviness", "freq_eaten", "price", "freq_sold")}
    kinds = {
        name: rng.integers(k, size=100)
        for name, k in (("style", 2), ("major_group", 2), ("minor_group", 4))
    }
    pq.write_table(pa.table(numbers | kinds), place / "items.parquet")
    people = {
        name: rng.integers(k, size=n_users)
        for name, k in (("gender", 2), ("age_band", 4), ("eastwest_now", 2))
    }
    pq.write_table(pa.table(people), place / "users.parquet")


def write_movielens(folder, n_users=60, n_films=40):
    """People who differ in one genre, and films of which some are better."""
    place = folder / "movielens1m"
    place.mkdir(parents=True)
    rng = np.random.default_rng(8)
    genres = rng.integers(2, size=(n_films, 3))
    taste, worth = rng.standard_normal(n_users), rng.standard_normal(n_films)
    signal = worth + np.outer(taste, genres[:, 0]) + 0.3 * rng.standard_normal((n_users, n_films))
    user, film = np.nonzero(rng.random((n_users, n_films)) < 0.8)
    rating = np.clip(np.round(3 + signal[user, film]), 1, 5)
    np.savez(
        place / "ratings.npz",
        user=(user + 1).astype(np.int16),
        movie=(2 * film + 1).astype(np.int16),
        rating=rating.astype(np.uint8),
    )
    films = {"movie": 2 * np.arange(n_films) + 1, "title": [f"film {k}" for k in range(n_films)]}
    films |= {"year": rng.integers(1930, 2000, n_films)}
    films |= {f"genre_{name}": genres[:, at] for at, name in enumerate("abc")}
    pq.write_table(pa.table(films), place / "movies.parquet")
    users = {
        "user": np.arange(n_users) + 1,
        "gender": np.where(taste > 0, "F", "M"),
        "age": rng.choice([1, 18, 25], n_users),
        "occupation": rng.integers(3, size=n_users),
    }
    pq.write_table(pa.table(users), place / "users.parquet")


def write_votes(folder, n_models=6, n_prompts=3, n_judges=8, n_each=20):
    """Votes of judges and of two machines, of which the first favours the left."""
    place = folder / "llmfao"
    place.mkdir(parents=True)
    rng = np.random.default_rng(9)
    worth = rng.standard_normal((n_prompts, n_models))

    def votes(n, side):
        prompt, left = rng.integers(n_prompts, size=n), rng.integers(n_models, size=n)
        right = (left + rng.integers(1, n_models, size=n)) % n_models
        gap = worth[prompt, left] - worth[prompt, right] + side + rng.standard_normal(n)
        winner = np.where(np.abs(gap) < 0.4, "tie", np.where(gap > 0, "left", "right"))
        columns = {"pair": np.arange(n), "prompt": prompt, "left": left, "right": right}
        return columns | {"winner": winner}

    crowd = votes(n_judges * n_each, 0.0) | {"worker": np.repeat(np.arange(n_judges), n_each)}
    pq.write_table(pa.table(crowd), place / "crowd.parquet")
    for name, side in (("gpt3", 1.0), ("gpt4", 0.0)):
        pq.write_table(pa.table(votes(60, side)), place / f"{name}.parquet")
