"""`corank explain`: a journey from a table to the reasons, and what is refused."""

import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import run

from corank.tables import read_table

pytestmark = pytest.mark.usefixtures("one_blas_thread")

N = 60
PAIR = ("--id", "book 40", "--id", "book 51")


def books():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {
            "title": [f"book {row}" for row in range(N)],
            "kind": rng.choice(["poetry", "travel", "crime"], N),
            "pages": rng.integers(40, 900, N),
            "price": rng.gamma(3, 5, N).round(2),
        }
    )
    truth = 3 + (frame.kind == "poetry") - 0.003 * frame.pages
    scores = np.where(np.arange(N) < 24, (truth + rng.normal(0, 0.1, N)).round(2), np.nan)
    better = truth.to_numpy()[:, None] > truth.to_numpy()
    pairs = [
        (k, (7 * k + 3) % N) if better[k, (7 * k + 3) % N] else ((7 * k + 3) % N, k)
        for k in range(30)
    ]
    answers = pd.DataFrame(
        [(f"book {first}", f"book {second}") for first, second in pairs],
        columns=["winner", "loser"],
    )
    return frame.assign(rating=scores), answers


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    frame, answers = books()
    frame.to_csv(folder / "books.csv", index=False)
    frame.drop(columns="rating").to_csv(folder / "plain.csv", index=False)
    answers.to_csv(folder / "answers.csv", index=False)
    named = ("--id", "title", "--quiet", "--out")
    run("fit", folder / "books.csv", "--score", "rating", *named, folder / "scores.corank")
    run(
        "fit",
        folder / "books.csv",
        "--score",
        "rating",
        "--method",
        "rls",
        *named,
        folder / "rls.corank",
    )
    compared = ("--comparisons", folder / "answers.csv")
    run("fit", folder / "plain.csv", *compared, *named, folder / "compared.corank")
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("model", ["scores", "rls", "compared"])
def test_parts_sum_to_the_difference_of_ranked_scores(folder, model):
    run("rank", f"{model}.corank", "plain.csv", "--id", "title", "--out", "ranked.csv")
    ranked = read_table("ranked.csv").to_pandas().set_index("title").score
    said = json.loads(run("explain", f"{model}.corank", "books.csv", *PAIR, "--json").stdout)
    assert (said["first"], said["second"]) == ("book 40", "book 51")
    assert said["difference"] == pytest.approx(ranked["book 40"] - ranked["book 51"], abs=1e-9)
    for parts in ("by_item", "by_view", "by_column"):
        assert math.fsum(part["value"] for part in said[parts]) == pytest.approx(
            said["difference"], abs=1e-9
        )
    columns = {"kind", "pages", "price"} | (
        {"title"} if model == "compared" else set()
    )  # items have effects of their own
    assert {part["name"] for part in said["by_column"]} <= columns
    assert all(re.fullmatch(r"book \d+", part["name"]) for part in said["by_item"])


def test_a_person_reads_columns_cells_and_scores(folder):
    frame, _ = books()
    shown = run("explain", "scores.corank", "books.csv", *PAIR).stdout
    above = re.search(
        r"The score of\s+(book \d+) is\s+[\d.]+\s+higher than that of\s+(book \d+)\.", shown
    )
    assert set(above.groups()) == {"book 40", "book 51"}
    pages = re.search(r"pages +(\d+) +(\d+) +[+-][\d.e-]+", shown)
    assert [int(cell) for cell in pages.groups()] == frame.pages[[40, 51]].tolist()
    item, score = re.search(
        r"book (\d+) +([\d.]+) +[+-][\d.e-]+ *\n", shown[shown.index("By score") :]
    ).groups()
    assert float(score) == frame.rating[int(item)]
    assert "the other 16 scores" in shown


def test_comparisons_are_called_by_the_names_of_their_items(folder):
    shown = run("explain", "compared.corank", "plain.csv", *PAIR).stdout
    assert re.search(r"book \d+ over book \d+ +[+-]", shown)


def test_a_page_holds_the_same(folder):
    written = run("explain", "scores.corank", "books.csv", *PAIR, "--report", "why.html")
    assert "why.html" in written.stdout
    page = Path("why.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    for text in ("book 40", "book 51", "pages", "By score"):
        assert text in page
    assert "<script" not in page


def test_without_a_column_of_names_items_are_row_numbers(folder):
    named = json.loads(run("explain", "rls.corank", "books.csv", *PAIR, "--json").stdout)
    books()[0].drop(columns="title").to_csv("unnamed.csv", index=False)
    result = run("explain", "rls.corank", "unnamed.csv", "--id", "41", "--id", "52", "--json")
    assert "'title'" in result.stderr
    assert json.loads(result.stdout)["difference"] == pytest.approx(named["difference"])
    other = books()[0].rename(columns={"title": "name"})
    other.to_csv("renamed.csv", index=False)
    said = json.loads(
        run("explain", "rls.corank", "renamed.csv", *PAIR, "--id-column", "name", "--json").stdout
    )
    assert said == {**named, "table": "renamed.csv"}


def test_queries_and_links_count_as_in_rank(folder):
    frame = books()[0].assign(shop=np.arange(N) % 6)
    frame.to_csv("shops.csv", index=False)
    links = pd.DataFrame(
        {"from": frame.title, "to": frame.title.to_numpy()[(np.arange(N) + 6) % N]}
    )
    links.to_csv("links.csv", index=False)
    columns = ("--score", "rating", "--id", "title", "--quiet")
    run("fit", "shops.csv", *columns, "--query", "shop", "--out", "q.corank")
    run("fit", "books.csv", *columns, "--links", "links.csv", "--out", "l.corank")
    for model, table, more in (
        ("q.corank", "shops.csv", ()),
        ("l.corank", "books.csv", ("--links", "links.csv")),
    ):
        run("rank", model, table, *more, "--id", "title", "--out", "ranked.csv", "--force")
        ranked = read_table("ranked.csv").to_pandas().set_index("title").score
        said = json.loads(run("explain", model, table, *more, *PAIR, "--json").stdout)
        assert said["difference"] == pytest.approx(ranked["book 40"] - ranked["book 51"], abs=1e-9)


# ---- what is refused


@pytest.mark.parametrize(
    ("options", "mentions"),
    [
        ((), ("--id",)),
        (("--id", "book 1"), ("1 time", "--id")),
        (("--id", "title"), ("--id-column title",)),
        (("--id", "book 1", "--id", "book 2", "--id", "book 3"), ("3 times",)),
        (("--id", "book 1", "--id", "book 1"), ("'book 1'", "twice")),
        (("--id", "book 1", "--id", "bok 2"), ("'bok 2'", "'book 2'", "'title'")),
        ((*PAIR, "--id-column", "titel"), ("'titel'", "'title'")),
        ((*PAIR, "--report", "why.pdf"), ("why.pdf",)),
    ],
    ids=[
        "no id",
        "one id",
        "a column",
        "three ids",
        "the same twice",
        "a typo",
        "no such column",
        "no page",
    ],
)
def test_what_is_wrong_with_the_two_items(folder, refused, options, mentions):
    refused("explain", "scores.corank", "books.csv", *options, mentions=mentions)


def test_a_name_that_two_rows_have(folder, refused):
    frame, _ = books()
    pd.concat([frame, frame.iloc[[40]]]).to_csv("twice.csv", index=False)
    refused("explain", "scores.corank", "twice.csv", *PAIR, mentions=("'book 40'", "41 and 61"))
    run("explain", "scores.corank", "twice.csv", "--id", "book 41", "--id", "book 51")


def test_a_number_that_no_row_has(folder, refused):
    books()[0].drop(columns="title").to_csv("unnamed.csv", index=False)
    refused(
        "explain",
        "rls.corank",
        "unnamed.csv",
        "--id",
        "1",
        "--id",
        "61",
        mentions=("'61'", "60", "--id-column"),
    )


def test_a_table_in_place_of_the_model(folder, refused):
    refused(
        "explain",
        "books.csv",
        "scores.corank",
        *PAIR,
        mentions="corank explain scores.corank books.csv",
    )
