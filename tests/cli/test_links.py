"""`--links` on the command line: links are read, followed and remembered, and what cannot be used
is said.
"""

import json
import shutil
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command_line import run

from corank import load
from corank.datasets import make_shop
from corank.links import read_links
from corank.tables import read_table, write_table

pytestmark = pytest.mark.usefixtures("one_blas_thread")
COLUMNS = ("--score", "rating", "--id", "id")
UNKNOWN = "2 of 242 links name items that are not in the table; they are ignored"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A shop, its links (two of them to items that it does not have), and models fitted with and
    without links.
    """
    folder = tmp_path_factory.mktemp("made")
    shop = make_shop(60, 15, random_state=0)
    items = shop.table.drop_columns(["description", "embedding"])
    links = pa.concat_tables(
        [shop.links, pa.table({"from": ["item-0000", "gone"], "to": ["new", "item-0001"]})]
    )
    write_table(items, folder / "items.csv")
    write_table(links, folder / "links.csv")
    write_table(items.filter(~np.isnan(shop.y)).select(["id", "rating"]), folder / "ratings.csv")
    fit = ("fit", folder / "items.csv", *COLUMNS, "--no-effect")
    said = run(*fit, "--links", folder / "links.csv", "--out", folder / "linked.corank")
    (folder / "said.txt").write_text(said.stderr)
    (folder / "next.txt").write_text(said.stdout)
    run(*fit, "--out", folder / "plain.corank", "--quiet")
    run(*fit, "--out", folder / "single.corank", "--method", "rls", "--gamma", "scale", "--quiet")
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def expected(model, links, **how):
    """Scores in Python, by name."""
    table = read_table("items.csv", text=["id"])
    learner = load(model)
    matrix = None if links is None else read_links(links, len(table), ids=table["id"], **how)
    features = learner.encoder_.transform(table)
    return dict(
        zip(table["id"].to_pylist(), learner.predict(features, links=matrix).tolist(), strict=True)
    )


def ranked(*words):
    """Scores by name, and what was said beside them."""
    result = run("rank", *words, "--json")
    return {row["id"]: row["score"] for row in json.loads(result.stdout)["ranking"]}, result.stderr


# ---- what is followed


def test_fit_and_rank_follow_links_and_say_once_what_they_ignore(folder):
    assert (folder / "said.txt").read_text().count(UNKNOWN) == 1
    assert "corank rank" in (folder / "next.txt").read_text()
    assert "--links" in (folder / "next.txt").read_text()
    scores, said = ranked("linked.corank", "items.csv", "--links", "links.csv")
    assert said.count(UNKNOWN) == 1
    with pytest.warns(UserWarning, match=UNKNOWN):
        assert scores == pytest.approx(expected("linked.corank", pd.read_csv("links.csv")))


def test_a_model_fitted_with_links_ranks_by_columns_alone_where_none_are_given_and_says_so(folder):
    scores, said = ranked("linked.corank", "items.csv")
    assert "the model was fitted with links, but --links is not given" in said
    assert scores == pytest.approx(expected("linked.corank", None))


def test_items_are_linked_by_the_names_of_the_fit_or_those_that_are_there(folder):
    """In `rank` --id says what to write; it names the items where the table calls that column
    otherwise than in fit.
    """
    linked = ("--links", "links.csv")
    scores, _ = ranked("linked.corank", "items.csv", *linked)
    written = json.loads(
        run("rank", "linked.corank", "items.csv", *linked, "--id", "price", "--json").stdout
    )
    assert sorted(row["score"] for row in written["ranking"]) == pytest.approx(
        sorted(scores.values())
    )
    pd.read_csv("items.csv").rename(columns={"id": "name"}).to_csv("named.csv", index=False)
    written = json.loads(
        run("rank", "linked.corank", "named.csv", *linked, "--id", "name", "--json").stdout
    )
    assert {row["name"]: row["score"] for row in written["ranking"]} == pytest.approx(scores)


def test_new_items_are_ranked_with_the_old_ones(folder):
    frame = pd.read_csv("items.csv")
    new = frame.iloc[[3]].assign(id="new", rating=np.nan)
    pd.concat([frame, new]).to_csv("more.csv", index=False)
    scores, said = ranked("linked.corank", "more.csv", "--links", "links.csv")
    assert "1 of 242 links name items" in said
    assert np.isfinite(scores["new"])
    alone, _ = ranked("linked.corank", "more.csv")
    assert scores["new"] != pytest.approx(alone["new"])


def test_names_are_matched_whatever_the_kind_of_file_and_weights_and_direction_count(folder):
    """Numbers as names, in a Parquet file; columns by name; directions, which the model remembers."""
    items = pd.read_csv("items.csv")
    number = {name: int(name.removeprefix("item-")) for name in items["id"]}
    items.assign(id=items["id"].map(number)).to_csv("items.csv", index=False)
    links = pd.read_csv("links.csv").iloc[:-2]
    frame = pd.DataFrame(
        {"to": links["to"].map(number), "strength": 1.0 + np.arange(len(links)) % 3}
    )
    frame["from"] = links["from"].map(number)
    frame.to_parquet("links.parquet")
    given = ("--links", "links.parquet", "--link-columns", "from,to,strength")
    run(
        "fit",
        "items.csv",
        *COLUMNS,
        *given,
        "--directed",
        "--out",
        "m.corank",
        "--no-effect",
        "--quiet",
    )
    assert load("m.corank").table_["links"] == "directed"
    scores, _ = ranked("m.corank", "items.csv", *given)
    edges = frame[["from", "to", "strength"]]
    by_number = expected("m.corank", edges, directed=True)
    assert {str(name): score for name, score in scores.items()} == pytest.approx(by_number)
    _, said = ranked(
        "m.corank", "items.csv", "--links", "links.parquet", "--link-columns", "from,to"
    )
    assert "note: links count alike" not in said
    frame[["from", "to", "strength"]].to_json("links.jsonl", orient="records", lines=True)
    _, said = ranked("m.corank", "items.csv", "--links", "links.jsonl")
    assert "--link-columns from,to,strength" in said


def test_labels_with_zeros_before_them_stay_apart(folder):
    """7 and 007 are two items, and a file of links that holds nothing but digits is read as text."""
    items = pd.read_csv("items.csv").assign(id=["7", "007", *(str(row) for row in range(10, 68))])
    items.to_csv("items.csv", index=False)
    (folder / "links.csv").write_text("from,to\n007,10\n7,11\n12,13\n")
    run(
        "fit",
        "items.csv",
        *COLUMNS,
        "--links",
        "links.csv",
        "--out",
        "m.corank",
        "--no-effect",
        "--quiet",
    )
    scores, _ = ranked("m.corank", "items.csv", "--links", "links.csv")
    edges = pd.DataFrame({"from": ["007", "7", "12"], "to": ["10", "11", "13"]})
    assert scores == pytest.approx(expected("m.corank", edges))


def test_questions_are_asked_and_answers_learned_over_links(folder):
    """Of the items without a rating; the answered questions update the model with all items at
    hand.
    """
    linked = ("--links", "links.csv")
    said = run(
        "suggest", "linked.corank", "items.csv", *linked, "-n", "4", "--out", "asked.csv"
    ).stdout
    assert "--items items.csv --links links.csv" in " ".join(said.split())
    asked = pd.read_csv("asked.csv")
    rated = pd.read_csv("ratings.csv")
    assert len(asked) == 4
    assert not set(asked["id"]) & set(rated["id"])
    asked.assign(rating=[1.0, 2.0, 4.0, 5.0]).to_csv("answers.csv", index=False)
    words = (
        "update",
        "linked.corank",
        "answers.csv",
        "--items",
        "items.csv",
        "--out",
        "new.corank",
        "--json",
    )
    result = json.loads(run(*words, *linked).stdout)
    assert (result["added"], result["scored"]) == (4, 19)
    scores, _ = ranked("new.corank", "items.csv", *linked)
    before, _ = ranked("linked.corank", "items.csv", *linked)
    assert scores != pytest.approx(before)


def test_scores_are_evaluated_over_links_in_one_table_or_two(folder):
    words = ("--links", "links.csv", "--json")
    alone = json.loads(run("evaluate", "linked.corank", "items.csv", *words).stdout)
    joined = json.loads(
        run("evaluate", "linked.corank", "ratings.csv", "--items", "items.csv", *words).stdout
    )
    assert alone == joined
    assert alone["scored"] == 15
    assert json.loads(run("evaluate", "linked.corank", "items.csv", "--json").stdout) != alone


def test_scores_in_a_table_of_their_own_fit_the_same_model(folder):
    pd.read_csv("items.csv").drop(columns="rating").to_csv("plain.csv", index=False)
    words = (
        "--items",
        "plain.csv",
        *COLUMNS,
        "--links",
        "links.csv",
        "--out",
        "m.corank",
        "--no-effect",
        "--quiet",
    )
    run("fit", "ratings.csv", *words)
    scores, _ = ranked("m.corank", "plain.csv", "--links", "links.csv")
    assert scores == pytest.approx(ranked("linked.corank", "items.csv", "--links", "links.csv")[0])


def test_comparisons_are_learned_and_evaluated_over_links(folder):
    ratings = pd.read_csv("ratings.csv").sort_values("rating", ascending=False)["id"].tolist()
    pd.DataFrame(combinations(ratings, 2), columns=["winner", "loser"]).to_csv(
        "pairs.csv", index=False
    )
    linked = ("--links", "links.csv")
    run(
        "fit",
        "items.csv",
        "--id",
        "id",
        "--drop",
        "rating",
        "--comparisons",
        "pairs.csv",
        *linked,
        "--out",
        "c.corank",
    )
    result = json.loads(
        run("evaluate", "c.corank", "pairs.csv", "--items", "items.csv", *linked, "--json").stdout
    )
    assert result["right_order"]["value"] > 0.7
    assert "log_loss" not in result
    run("suggest", "c.corank", "items.csv", *linked, "-n", "3")


@pytest.mark.slow
def test_compare_lets_the_average_follow_links(folder):
    shop = make_shop(60, 60, random_state=0)
    write_table(shop.table.drop_columns(["description", "embedding"]), folder / "all.csv")
    words = (
        "compare",
        "all.csv",
        *COLUMNS,
        "--methods",
        "ridge,auto",
        "--measure",
        "disagreement",
        "--repeats",
        "2",
    )
    words = (
        *words,
        "--no-curves",
        "--jobs",
        "1",
        "--keep",
        "kept",
        "--scored-share",
        "0.5",
        "--json",
    )
    with_links = run(*words, "--links", "links.csv")
    assert "links are used by AutoRanker and AutoRegressor" in with_links.stderr
    errors = [json.loads(result.stdout)["methods"] for result in (with_links, run(*words))]
    assert errors[0] != errors[1]


# ---- what is refused

FIT = ("fit", "items.csv", *COLUMNS, "--out", "x.corank")
RANK = ("rank", "linked.corank", "items.csv", "--out", "x.csv")


REFUSED = {
    "no id": (("fit", "items.csv", "--score", "rating", "--out", "x.corank", "--links", "links.csv"), "--id"),
    "no file": ((*FIT, "--links", "none.csv"), "none.csv"),
    "columns without links": ((*FIT, "--link-columns", "from,to"), ("--link-columns", "--links")),
    "direction without links": ((*FIT, "--directed"), ("--directed", "--links")),
    "one column": ((*FIT, "--links", "links.csv", "--link-columns", "from"), ("--link-columns", "'from'")),
    "a column twice": ((*FIT, "--links", "links.csv", "--link-columns", "to,to"), "'to,to'"),
    "an unknown column": ((*FIT, "--links", "links.csv", "--link-columns", "from,two"), ("'two'", "'to'")),
    "another method": ((*FIT, "--links", "links.csv", "--method", "rls"), ("--method rls", "LinkEncoder")),
    "settings of a learner": ((*FIT, "--links", "links.csv", "--kernel", "linear"), ("--method rls", "LinkEncoder")),
    "many files": (("fit", "many", *COLUMNS, "--out", "x.corank", "--links", "links.csv"), ("--links", "many")),
    "many files to rank": (("rank", "linked.corank", "many", "--out", "x.csv", "--links", "links.csv"), "many"),
    "passes": ((*FIT, "--links", "links.csv", "--checkpoint", "kept"), ("--checkpoint", "--links")),
    "Dask": ((*FIT, "--links", "links.csv", "--dask", "tcp://127.0.0.1:1"), ("--dask", "--links")),
    "the links as output": (("rank", "linked.corank", "items.csv", "--out", "links.csv", "--links", "links.csv"), "--out links.csv"),
    "a model without links": (("rank", "plain.corank", "items.csv", "--links", "links.csv"), "without links"),
    "a single learner": (("rank", "single.corank", "items.csv", "--links", "links.csv"), "without links"),
    "evaluate without links": (("evaluate", "plain.corank", "items.csv", "--links", "links.csv"), "without links"),
    "suggest without links": (("suggest", "plain.corank", "items.csv", "--links", "links.csv"), "without links"),
    "update that lacks them": (("update", "linked.corank", "items.csv", "--out", "x.corank"), "--links"),
    "compare without id": (("compare", "items.csv", "--score", "rating", "--links", "links.csv"), "--id"),
    "compare without a table": (("compare", "--links", "links.csv"), "corank compare FILE"),
    "links of nobody": (
        ("fit", "items.csv", *COLUMNS, "--out", "x.corank", "--links", "strangers.csv"),
        ("strangers.csv", "none joins two different items"),
    ),
    "one column only": ((*RANK, "--links", "single.csv"), ("single.csv", "'from'")),
    "negative weights": ((*RANK, "--links", "weights.csv", "--link-columns", "from,to,strength"), "-2"),
    "no weights": ((*RANK, "--links", "links.csv", "--link-columns", "from,to,weight"), "'weight'"),
    "other names": ((*RANK, "--links", "numbers.parquet"), ("'item-0000'", "numbers")),
    "repeated names": (("fit", "twice.csv", *COLUMNS, "--out", "x.corank", "--links", "links.csv"), ("'item-0000'", "'id'")),
    "several scores": (
        ("fit", "scores.csv", "--items", "items.csv", *COLUMNS, "--out", "x.corank", "--links", "links.csv"),
        ("'item-0001'", "several scores"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_links_that_cannot_be_used(folder, refused, case):
    (folder / "many").mkdir()
    shutil.copy("items.csv", "many/items.csv")
    (folder / "strangers.csv").write_text("from,to\nx,y\ny,z\n")
    (folder / "single.csv").write_text("from\nitem-0000\n")
    (folder / "weights.csv").write_text("from,to,strength\nitem-0000,item-0001,-2\n")
    (folder / "scores.csv").write_text("id,rating\nitem-0001,2\nitem-0001,3\nitem-0002,1\n")
    pd.DataFrame({"from": [1, 2], "to": [2, 3]}).to_parquet("numbers.parquet")
    frame = pd.read_csv("items.csv")
    pd.concat([frame, frame.iloc[:1]]).to_csv("twice.csv", index=False)
    words, mentions = REFUSED[case]
    refused(*words, mentions=mentions)


def test_sites_know_no_links(folder, refused):
    run("federated", "init", "party", "--site", "north", "--site", "south", "--quiet")
    settings = folder / "party/north/site.toml"
    refused("federated", "join", settings, "--links", "links.csv", mentions="--links")
    settings.write_text(settings.read_text().replace("[data]", '[data]\nlinks = "links.csv"\n#', 1))
    refused("federated", "join", "party/north/site.toml", mentions="links in [data] is not known")


def test_items_that_no_link_joins_count_by_their_own_columns(folder):
    (folder / "strangers.csv").write_text("from,to\nx,y\ny,z\n")
    result = run(*RANK, "--links", "strangers.csv")
    assert "no link of strangers.csv joins two items of items.csv" in result.stderr
