"""The command line: that what it prints says what was done, how long it took and what to do next."""

import json
import shutil
import time

import numpy as np
import pandas as pd
import pytest
from command_line import error, run

from corank import load
from corank.cli import fit
from corank.cli.console import show_json
from corank.datasets import make_ranking
from corank.learners import co_rls
from corank.learners.average import learner as average_learner

COLUMNS = ("--score", "rating", "--query", "user", "--id", "item")


def items(n_queries=12, unscored_users=3):
    """Items of users, some of whom have no score."""
    data = make_ranking(n_queries=n_queries, query_size=8, n_features=4, random_state=0)
    frame = pd.DataFrame(data.X.round(3), columns=["price", "size", "weight", "age"])
    frame.insert(0, "item", [f"item-{n}" for n in range(len(frame))])
    scored = (np.random.default_rng(0).random(len(frame)) < 0.7) & (data.qid >= unscored_users)
    return frame.assign(user=data.qid, rating=np.where(scored, data.y.round(2), np.nan))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table, and models of it: chosen by auto, without views, with views."""
    folder = tmp_path_factory.mktemp("made")
    items().to_csv(folder / "items.csv", index=False)
    fit = ("fit", folder / "items.csv", *COLUMNS, "--gamma", "scale", "--basis", "30", "--out")
    said = run(
        "fit", folder / "items.csv", *COLUMNS, "--out", folder / "auto.corank", "--json"
    ).stdout
    (folder / "auto.json").write_text(said)
    run(*fit, folder / "plain.corank", "--method", "rankrls", "--quiet")
    run(*fit, folder / "views.corank", "--method", "corankrls", "--no-effect", "--quiet")
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words_of(*command):
    return " ".join(run(*command).stdout.split())


def test_inspect_says_what_an_average_is_made_of(folder):
    said = json.loads((folder / "auto.json").read_text())
    facts = json.loads(run("inspect", "auto.corank", "--json").stdout)
    assert facts["average"] == said["average"]
    assert facts["unscored_effect"]["verdict"] == said["unscored_effect"]["verdict"]
    words = words_of("inspect", "auto.corank")
    lines = [line for line in said["average"] if "held-out error" not in line]
    for sentence in (*lines, said["unscored_effect"]["verdict"]):
        assert sentence in words
    assert "average" not in words_of("inspect", "plain.corank")


def test_queries_without_scores_are_counted_alike_everywhere(folder):
    fitted = words_of(
        "fit", "items.csv", *COLUMNS, "--method", "rankrls", "--gamma", "scale", "--out", "m.corank"
    )
    assert "12 queries (user), 9 of them with scores features" in fitted
    assert "12 queries (user), 9 of them with scores" in words_of("inspect", "m.corank")
    found = json.loads(run("inspect", "m.corank", "--json").stdout)
    assert (found["queries"], found["queries_without_scores"]) == (12, 3)
    items(unscored_users=0).to_csv("all.csv", index=False)
    fitted = words_of(
        "fit", "all.csv", *COLUMNS, "--method", "rankrls", "--gamma", "scale", "--out", "all.corank"
    )
    assert "12 queries (user) features" in fitted
    assert "12 queries (user) features" in words_of("inspect", "all.corank")


@pytest.mark.parametrize("method", ["auto", "corankrls"])
def test_the_check_of_unscored_rows_is_told_and_counted_in_the_time(folder, method, monkeypatch):
    settings = () if method == "auto" else ("--gamma", "scale", "--basis", "20")
    words = (
        "fit",
        "items.csv",
        *COLUMNS,
        "--method",
        method,
        *settings,
        "--out",
        "m.corank",
        "--force",
        "--json",
    )
    clock = {"now": 0.0}
    monkeypatch.setattr(time, "perf_counter", lambda: clock["now"])
    owner, name = (
        (average_learner, "unscored_effect_of") if method == "auto" else (co_rls, "unscored_effect")
    )
    original = getattr(owner, name)

    def takes_a_minute(*evidence):
        clock["now"] += 60
        return original(*evidence)

    monkeypatch.setattr(owner, name, takes_a_minute)
    said = json.loads(run(*words).stdout)
    assert said["seconds"] == 60
    assert said["unscored_effect"] is not None
    without = json.loads(run(*words, "--no-effect", "--report", "page.html").stdout)
    assert without["seconds"] == 0
    assert without.get("unscored_effect") is None
    if method == "corankrls":
        assert load("m.corank").unscored_effect_ is None


def test_the_stage_is_named():
    class Views:
        has_views = True
        unscored_effect_ = None

    told = []
    fit.with_effect(Views(), told.append, wanted=True)
    assert told == ["checking whether unscored rows help"]


# ---- suggest, rank


def test_suggest_says_how_many_questions_a_query_gets(folder):
    own = items()
    users = own.loc[own["rating"].isna(), "user"]
    assert users.value_counts().min() < 3
    few, n = users.value_counts().clip(upper=3).sum(), users.nunique()
    shown = words_of("suggest", "views.corank", "items.csv", "-n", "3")
    assert (
        f"{few} items to score, up to 3 for each of {n} users, the most informative first" in shown
    )
    shown = words_of("suggest", "views.corank", "items.csv", "-n", "1")
    assert f"{n} items to score, 1 for each of {n} users, the most informative first" in shown


def test_suggest_overall_asks_so_many_in_all(folder):
    assert "3 items to score, the most informative first" in words_of(
        "suggest", "views.corank", "items.csv", "-n", "3", "--overall"
    )
    found = json.loads(
        run("suggest", "views.corank", "items.csv", "-n", "3", "--overall", "--json").stdout
    )["questions"]
    model, own = load("views.corank"), items()
    pool = own[own["rating"].isna()].reset_index(drop=True)
    rows = model.suggest(model.encoder_.transform(pool), 3, "score")
    assert [entry["item"] for entry in found] == pool["item"][rows].tolist()
    said = error("suggest", "views.corank", "items.csv", "--overall", "--kind", "comparison")
    assert said.startswith("--overall is for scores")


def test_rank_into_a_pipe_says_how_to_print_csv(folder):
    words = ("rank", "plain.corank", "items.csv")
    assert run(*words).stderr == "corank: note: this is a table for people; --out - prints CSV\n"
    for options in (("--quiet",), ("--json",), ("--out", "-"), ("--out", "ranked.csv")):
        assert run(*words, *options).stderr == ""
    assert run(*words, "--out", "-").stdout.startswith('"rank","score",')


# ---- what is wrong


def test_a_wrong_answer_is_shown_with_those_that_are_allowed(folder, refused):
    items().drop(columns="rating").to_csv("all.csv", index=False)
    (folder / "asked.csv").write_text("first,second,winner\nitem-0,item-1,item-7\n")
    words = (
        "fit",
        "all.csv",
        "--comparisons",
        "asked.csv",
        "--item",
        "item",
        "--drop",
        "user",
        "--out",
        "m.corank",
    )
    refused(*words, mentions=("'winner'", "'item-0'", "'item-1'", "'item-7'"))


def test_a_score_column_of_text_is_questioned(folder, refused):
    refused(
        "fit", "items.csv", "--score", "item", "--out", "m.corank", mentions=("'item'", "'item-0'")
    )
    table = items().astype({"rating": object})
    table.loc[40, "rating"] = "good"
    table.to_csv("one.csv", index=False)
    refused(
        "fit",
        "one.csv",
        "--score",
        "rating",
        "--out",
        "m.corank",
        mentions=("'rating'", "'good'", "data row 41"),
    )


def test_json_has_neither_nan_nor_infinity(capsys):
    show_json({"a": [float("inf"), 1.0, {"b": float("nan")}], "c": (2, "x")})
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {
        "a": [None, 1.0, {"b": None}],
        "c": [2, "x"],
    }
