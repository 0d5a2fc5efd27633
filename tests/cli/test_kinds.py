"""Kinds of columns on the command line: text, vectors, dates and categories, recognised or asked
for.
"""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command_line import error, run

from corank import load
from corank.tables import read_table, write_table

NOUNS = ["lamp", "table", "chair", "shelf", "carpet", "mirror", "clock", "vase"]
FIT = (
    "fit",
    "shop.csv",
    "--score",
    "rating",
    "--method",
    "rls",
    "--gamma",
    "scale",
    "--id",
    "item",
    "--out",
    "s.corank",
)


def shop(n=60):
    rng = np.random.default_rng(0)
    days = zip(rng.integers(1, 29, n), rng.integers(1, 13, n), strict=True)
    table = {
        "item": [f"i{row}" for row in range(n)],
        "title": [" ".join(rng.choice(NOUNS, 5)) for _ in range(n)],
        "code": [f"{code:03d}" for code in rng.integers(7, 10, n)],
        "added": [f"{day}/{month}/2021" for day, month in days],
        **{f"emb_{at}": rng.normal(size=n).round(3) for at in range(8)},
    }
    scores = [title.count("lamp") + 0.1 * rng.normal() for title in table["title"]]
    return {**table, "rating": np.where(np.arange(n) < 30, scores, np.nan).round(2)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    pd.DataFrame(shop()).to_csv(tmp_path / "shop.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def kinds(path="s.corank"):
    return {column.name: column.kind for column in load(path).encoder_.columns_}


def test_what_was_recognised_is_noted_once(folder):
    notes = run(*FIT).stderr
    assert notes.count("note: read as text: title;") == 1
    assert notes.count("note: read as components of one vector: emb_*;") == 1
    assert notes.count("note: read as dates: added (like 31/12/2024);") == 1
    assert kinds() == {"title": "text", "code": "number", "added": "date"} | dict.fromkeys(
        (f"emb_{at}" for at in range(8)), "vector"
    )
    assert run(*FIT, "--force", "--quiet").stderr == ""


def test_kinds_are_asked_for_by_name_and_nothing_is_noted(folder):
    result = run(*FIT, "--category", "added,code", "--text", "title", "--number", "emb_*")
    assert "read as" not in result.stderr
    assert kinds() == {"title": "text", "code": "category", "added": "category"} | dict.fromkeys(
        (f"emb_{at}" for at in range(8)), "number"
    )
    assert "code=007" in load("s.corank").encoder_.get_feature_names_out()


def test_ignored_columns_are_left_out(folder):
    run(*FIT, "--ignore", "emb_*,added", "--drop", "code")
    assert kinds() == {"title": "text"}


def test_other_commands_take_the_kinds_from_the_model(folder):
    run(*FIT, "--category", "code")
    run("rank", "s.corank", "shop.csv", "--out", "ranked.csv")
    ranked = read_table(folder / "ranked.csv", text=["code"])
    model = load("s.corank")
    expected = np.sort(model.predict(read_table(folder / "shop.csv", text=["code"])))[::-1]
    score = next(
        name for name in ranked.column_names if name.endswith(("score", "predicted_score"))
    )
    np.testing.assert_allclose(ranked[score].to_numpy(), expected, rtol=1e-9)
    assert set(ranked["code"].to_pylist()) == {"007", "008", "009"}
    words = " ".join(run("inspect", "s.corank").stdout.split())
    assert "components of the tf-idf of 8 words" in words
    assert "kB)" in words


@pytest.mark.parametrize("option", ["--text", "--category", "--number"])
@pytest.mark.parametrize("command", ["fit", "compare"])
def test_a_name_of_no_column_is_answered_with_one_that_is_near(folder, command, option):
    arguments = (
        FIT if command == "fit" else ("compare", "shop.csv", "--score", "rating", "--id", "item")
    )
    said = error(*arguments, option, "titel")
    assert said.startswith(option)
    assert "'titel'; did you mean 'title'" in said


def test_the_score_has_no_kind(folder):
    assert "--category 'rating'" in error(*FIT, "--category", "rating")


def test_a_column_that_is_called_two_things_is_refused(folder):
    assert "column 'title' is called text too" in error(
        *FIT, "--text", "title", "--category", "title"
    )


def test_texts_called_numbers_are_named(folder):
    assert "in data row 1 is not a number" in error(*FIT, "--number", "title")


def test_embeddings_of_parquet_are_learned_from_and_ranked_into_csv(folder):
    table = pa.table({**shop(), "picture": list(np.random.default_rng(1).normal(size=(60, 3)))})
    write_table(table, folder / "shop.parquet")
    run("fit", "shop.parquet", *FIT[2:])
    assert kinds()["picture"] == "vector"
    run("rank", "s.corank", "shop.parquet", "--out", "ranked.csv")
    first = read_table(folder / "ranked.csv")["picture"][0].as_py()
    assert len(json.loads(first)) == 3


def test_ragged_vectors_are_refused_by_row(folder):
    rows = [
        {"x": [1.0, 2.0], "rating": 1},
        {"x": [1.0], "rating": 2},
        {"x": [3.0, 1.0], "rating": 3},
    ]
    (folder / "shop.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    message = error("fit", "shop.jsonl", "--score", "rating", "--out", "s.corank")
    assert "column 'x' has a vector of length 1 in data row 2 and others of length 2" in message


def test_a_table_of_nothing_but_text_is_learned_from(folder):
    run(*FIT, "--features", "title")
    assert kinds() == {"title": "text"}


def test_compare_takes_kinds_too(folder):
    arguments = (
        "--methods",
        "ridge,rls",
        "--repeats",
        "2",
        "--no-curves",
        "--jobs",
        "1",
        "--keep",
        "fits",
    )
    result = run(
        "compare",
        "shop.csv",
        "--score",
        "rating",
        "--id",
        "item",
        "--category",
        "code",
        *arguments,
        "--scored-share",
        "0.9",
    )
    assert "read as text: title" in result.stderr
    assert "ridge" in result.stdout.lower()


def test_text_in_a_folder_of_files_is_read_in_passes(folder):
    parts = folder / "parts"
    parts.mkdir()
    frame = pd.DataFrame(shop())
    frame[:40].to_csv(parts / "a.csv", index=False)
    frame[40:].to_csv(parts / "b.csv", index=False)
    notes = run("fit", "parts", *FIT[2:], "--category", "code").stderr
    assert "read as text: title" in notes
    assert kinds()["code"] == "category"
    run("rank", "s.corank", "parts", "--out", "ranked.csv")
    table = read_table(folder / "shop.csv", text=["code"])
    ranked = read_table(folder / "ranked.csv")
    np.testing.assert_allclose(
        ranked["score"].to_numpy(), load("s.corank").predict(table), rtol=1e-9
    )
