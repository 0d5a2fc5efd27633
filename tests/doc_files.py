"""Files that pages of the documentation speak of without making them: small tables of the kind that
the page describes.
"""

import csv
import shutil
from pathlib import Path

import numpy as np
import pandas as pd

from corank.datasets import make_ranking

EXAMPLES = Path(__file__).parents[1] / "examples"


def make_files(folder):
    """Everything a page may name, in a folder of its own; tables of `examples` are there under the
    same path.
    """
    (folder / "examples").mkdir()
    for table in EXAMPLES.glob("*.csv"):
        shutil.copy(table, folder / "examples")
    _rated_items(folder)
    _wines(folder)
    _rows_in_files(folder)
    _people(folder)


def _rated_items(folder):
    """`items.csv` (column item, user, rating: empty for some), `held_out.csv`, `new_items.csv`;
    `pairs.csv` and `later.csv` say who beat whom (columns winner and loser)."""
    data = make_ranking(n_queries=12, query_size=8, n_features=4, random_state=0)
    table = pd.DataFrame(data.X.round(3), columns=["text_a", "text_b", "image_a", "image_b"])
    table.insert(0, "item", [f"item-{n}" for n in range(len(table))])
    table["user"], table["rating"] = data.qid, data.y.round(2)
    new = table["user"] >= 9
    unrated = np.random.default_rng(0).random(len(table)) < 0.4
    table.assign(rating=table["rating"].mask(unrated))[~new].to_csv(
        folder / "items.csv", index=False
    )
    table[new].to_csv(folder / "held_out.csv", index=False)
    table[new].drop(columns="rating").to_csv(folder / "new_items.csv", index=False)
    _pairs(table[~new], "item", "rating", 40).to_csv(folder / "pairs.csv", index=False)
    _pairs(table[~new], "item", "rating", 20, seed=5).to_csv(folder / "later.csv", index=False)


def _wines(folder):
    """`wines.csv` describes 40 wines, `tasted.csv` says which was better and which worse,
    `tasted_later.csv` too, `rated.csv` rates some.
    """
    rng = np.random.default_rng(1)
    wines = pd.DataFrame(rng.normal(size=(40, 3)).round(3), columns=["acid", "sugar", "age"])
    wines.insert(0, "wine", [f"wine-{n}" for n in range(40)])
    rated = wines.assign(
        rating=(np.sin(wines["acid"]) + wines["sugar"] + 0.2 * rng.normal(size=40)).round(2)
    )
    wines.to_csv(folder / "wines.csv", index=False)
    names = {"winner": "better", "loser": "worse"}
    _pairs(rated, "wine", "rating", 60).rename(columns=names).to_csv(
        folder / "tasted.csv", index=False
    )
    _pairs(rated, "wine", "rating", 30, seed=5).rename(columns=names).to_csv(
        folder / "tasted_later.csv", index=False
    )
    rated.assign(rating=rated["rating"].mask(rng.random(40) < 0.4)).to_csv(
        folder / "rated.csv", index=False
    )


def _rows_in_files(folder):
    """Folders of Parquet files: `rows`, `test-rows` with a rating, `more`, `new-rows` without."""
    data = make_ranking(n_queries=40, query_size=8, n_features=4, random_state=3)
    table = pd.DataFrame(data.X, columns=["text_a", "text_b", "image_a", "image_b"]).assign(
        user=data.qid, rating=data.y
    )
    for name, queries in {
        "rows": (0, 20),
        "test-rows": (20, 25),
        "more": (25, 35),
        "new-rows": (35, 40),
    }.items():
        (folder / name).mkdir()
        part = table[table["user"].between(queries[0], queries[1] - 1)]
        part = part if name in ("rows", "test-rows") else part.drop(columns="rating")
        middle = (queries[0] + queries[1]) // 2
        part[part["user"] < middle].to_parquet(folder / name / "part-0.parquet")
        part[part["user"] >= middle].to_parquet(folder / name / "part-1.parquet")


def _people(folder):
    """`all_films.csv`; `seen.csv` has ratings of six people, `gus.csv` of another one, `people.csv`
    their ages; `votes.csv` says who of them preferred which film.
    """
    rng = np.random.default_rng(4)
    films = pd.DataFrame({"film": [f"film-{n}" for n in range(20)]})
    films = films.assign(length=rng.integers(80, 180, 20), year=rng.integers(1980, 2025, 20))
    films.to_csv(folder / "all_films.csv", index=False)
    people = pd.DataFrame({"who": ["ann", "bob", "cem", "dana", "eve", "fay", "gus"]})
    people.assign(age=[25, 64, 31, 58, 22, 70, 35]).to_csv(folder / "people.csv", index=False)
    rated, votes = [], []
    for number, name in enumerate(people["who"]):
        liked = (films["length"] - 130) / 30 * (-1) ** number + (films["year"] - 2000) / 15
        stars = (3 + liked + rng.normal(size=20) / 4).clip(1, 5).round()
        rated.append(films.assign(who=name, stars=stars).sample(9, random_state=number))
        votes.append(_pairs(rated[-1], "film", "stars", 25, number).assign(who=name))
    pd.concat(rated[:-1]).to_csv(folder / "seen.csv", index=False)
    rated[-1].to_csv(folder / "gus.csv", index=False)
    pd.concat(votes).to_csv(folder / "votes.csv", index=False)


def _pairs(table, name, score, size, seed=0):
    rng = np.random.default_rng(seed)
    table = table[table[score].notna()]
    first, second = (
        table.iloc[rng.integers(0, len(table), size)].reset_index(drop=True) for _ in range(2)
    )
    wins = (first[score] > second[score]).to_numpy()
    pairs = pd.DataFrame(
        {
            "winner": np.where(wins, first[name], second[name]),
            "loser": np.where(wins, second[name], first[name]),
        }
    )
    return pairs[pairs["winner"] != pairs["loser"]]


def answer(path):
    """Fill in what `corank suggest` left open, as a person would: the first of two, or a score."""
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    for number, row in enumerate(rows):
        for column, value in row.items():
            if value == "":
                row[column] = "first" if column == "winner" else str(number)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
