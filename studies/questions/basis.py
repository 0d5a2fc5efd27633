"""Does it pay to choose basis rows by pivoting instead of at random? Disagreement on three real
ranking sets.

Training and test queries are fixed; a seed changes the basis rows only. alpha is tuned on the
training queries, gamma is "scale".
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from corank import RankRLS
from corank.metrics import disagreement_error
from studies.data import JESTER, RANKING, Integers, Rankings, jester_ratings, rankings
from studies.questions.methods import Draw, DrawMethod, Results, by_draw, draw_parts, fit_count
from studies.study import Outcome, Part, Result, Settings, Study, Table

SIZES, N_SEEDS = (100, 300, 1000), 10
N_TRAIN_USERS, N_USERS = 400, 700
MOVIELENS = ("movielens1m/ratings.npz", "movielens1m/movies.parquet", "movielens1m/users.parquet")
RANDOM, PIVOTED = "random", "pivoted"
METHODS = tuple(
    DrawMethod(title, "RankRLS", {"basis_selection": title}) for title in (RANDOM, PIVOTED)
)


def parts(settings: Settings) -> list[Part]:
    """One part per set, number of basis rows, seed and selection."""
    sizes, seeds = (SIZES[:1], range(2)) if settings.quick else (SIZES, range(N_SEEDS))
    return draw_parts(
        run, [(name, size, seed) for name in SETS for size in sizes for seed in seeds], METHODS
    )


def run(settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod) -> Result:
    """The disagreement on the test queries."""
    name, size, seed = str(draw[0]), int(draw[1]), int(draw[2])
    train, test = _sets(settings.folder, name)
    model = RankRLS(basis=size, gamma="scale", random_state=seed, **method.settings).fit(
        train.X, train.y, qid=train.qid
    )
    return {
        "error": float(disagreement_error(test.y, model.predict(test.X), qid=test.qid)),
        "rows": len(train.y),
    }


@lru_cache(maxsize=1)
def _sets(folder: Path, name: str) -> tuple[Rankings, Rankings]:
    return SETS[name](folder)


def ltr(folder: Path) -> tuple[Rankings, Rankings]:
    """LightGBM's lambdarank example: 201 training and 50 test queries as given, columns scaled by
    their maximum.
    """
    train, test = rankings(folder)
    scaler = MaxAbsScaler().fit(train.X)
    train, test = (Rankings(scaler.transform(rows.X), rows.y, rows.qid) for rows in (train, test))
    return train, test


def jester(folder: Path) -> tuple[Rankings, Rankings]:
    """400 training and 300 test users; a row is (user, joke): 10 gauge ratings of the user, 30
    users' of the joke.
    """
    ratings = jester_ratings(folder)
    rated = ~np.isnan(ratings)
    rng = np.random.default_rng(0)
    gauge = np.flatnonzero(rated.mean(axis=0) > 0.999)[:10]
    users = rng.permutation(np.flatnonzero(rated[:, gauge].all(axis=1)))
    complete = rng.permutation(np.flatnonzero(rated.all(axis=1)))[:30]
    users = users[~np.isin(users, complete)][:N_USERS]
    items = np.setdiff1d(np.arange(100), gauge)
    user, item = np.nonzero(rated[np.ix_(users, items)])
    of_user = ratings[np.ix_(users, gauge)]
    of_others = ratings[np.ix_(complete, items)].T
    X = np.hstack([of_user[user], of_others[item]])
    return _split_scaled(X, ratings[users[user], items[item]], user)


def movielens(folder: Path) -> tuple[Rankings, Rankings]:
    """400 training and 300 test users; a row is (user, film): genres, year, age, gender,
    occupation, popularity.

    Popularity (mean and number of ratings) is that of the other 5,340 users.
    """
    with np.load(folder / MOVIELENS[0], allow_pickle=False) as data:
        users, films, ratings = (data[name] for name in ("user", "movie", "rating"))
    about_films = pq.read_table(folder / MOVIELENS[1]).to_pandas().set_index("movie")
    about_users = pq.read_table(folder / MOVIELENS[2]).to_pandas().set_index("user")
    chosen = np.random.default_rng(0).permutation(about_users.index.to_numpy())[:N_USERS]
    inside = np.isin(users, chosen)
    counts = np.bincount(films[~inside], minlength=4000)
    means = np.bincount(films[~inside], ratings[~inside], minlength=4000) / np.maximum(counts, 1)
    user, film = users[inside], films[inside]
    item = about_films.drop(columns="title").reindex(film).to_numpy(dtype=float)
    person = about_users.loc[user]
    occupation = np.eye(21)[person["occupation"].to_numpy()]
    gender_and_age = np.column_stack([person["gender"] == "M", person["age"]]).astype(float)
    X = np.hstack(
        [item, gender_and_age, occupation, means[film][:, None], np.log1p(counts[film])[:, None]]
    )
    position = {number: place for place, number in enumerate(chosen)}
    return _split_scaled(
        X, ratings[inside].astype(float), np.asarray([position[number] for number in user])
    )


def _split_scaled(X: Any, y: Any, user: Integers) -> tuple[Rankings, Rankings]:
    """Rows of the first users for training, those of the others for testing; columns standardised
    on the former.
    """
    train = user < N_TRAIN_USERS
    scaler = StandardScaler().fit(X[train])
    whole = Rankings(scaler.transform(X), y, user)
    return whole.take(train), whole.take(~train)


SETS = {"Jester": jester, "LightGBM ranking": ltr, "MovieLens 1M": movielens}


def conclude(settings: Settings, results: Results) -> Outcome:
    """Errors with both ways of choosing, and their difference."""
    draws = by_draw(results)
    rows = []
    for name, size in dict.fromkeys((str(draw[0]), int(draw[1])) for draw in draws):
        seeds = [by_method for draw, by_method in draws.items() if draw[:2] == (name, size)]
        random, pivoted = (
            np.asarray([seed[method]["error"] for seed in seeds]) for method in (RANDOM, PIVOTED)
        )
        gap = pivoted - random
        rows.append(
            (
                name,
                str(seeds[0][RANDOM]["rows"]),
                str(size),
                *(
                    f"{errors.mean():.4f} ± {errors.std(ddof=1):.4f}"
                    for errors in (random, pivoted)
                ),
                f"{gap.mean():+.4f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.4f}",
            )
        )
    head = ("data", "rows", "basis", RANDOM, PIVOTED, "pivoted − random")
    note = "± one standard deviation over seeds; of the difference, one standard error."
    return Outcome(
        [Table("Disagreement on test queries", head, rows, note=note)], n_fits=fit_count(results)
    )


STUDY = Study(
    name="basis",
    title="Basis rows chosen by pivoting or at random",
    about=(
        "Three ranking sets with fixed training and test queries; RankRLS with"
        f" {', '.join(map(str, SIZES))} basis rows, {N_SEEDS} seeds, which change the basis rows"
        " only; alpha tuned on the training queries, gamma 'scale'."
    ),
    parts=parts,
    conclude=conclude,
    files=(*JESTER, *RANKING, *MOVIELENS),
    fixed_draws=True,
    with_results=True,
)
STUDIES = (STUDY,)
