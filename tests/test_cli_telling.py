"""The command line: that what it prints says what was done, how long it took and what to do next."""

import json
import time

import numpy as np
import pandas as pd
import pytest
from command_line import run

from corank import load
from corank.cli import choice
from corank.datasets import make_ranking

COLUMNS = ("--score", "rating", "--query", "user", "--id", "item")


def items(n_queries=12, unscored_users=3):
    """Items of users, some of whom have no score."""
    data = make_ranking(n_queries=n_queries, query_size=8, n_features=4, random_state=0)
    frame = pd.DataFrame(data.X.round(3), columns=["price", "size", "weight", "age"])
    frame.insert(0, "item", [f"item-{n}" for n in range(len(frame))])
    scored = (np.random.default_rng(0).random(len(frame)) < 0.7) & (data.qid >= unscored_users)
    return frame.assign(user=data.qid, rating=np.where(scored, data.y.round(2), np.nan))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    items().to_csv("items.csv", index=False)
    return tmp_path


def words_of(*command):
    return " ".join(run(*command).stdout.split())


def test_inspect_says_what_auto_compared_and_found(folder):
    said = json.loads(run("fit", "items.csv", *COLUMNS, "--out", "m.corank", "--json").stdout)
    found = json.loads(run("inspect", "m.corank", "--json").stdout)["auto"]
    assert found["unscored_verdict"] == said["unscored_effect"]["verdict"]
    assert found["chosen"] == choice.WORDS[said["auto"]["chosen"]]
    for candidate in said["auto"]["candidates"]:
        assert f"{candidate['error']:.3g} ± " in found["reason"]
    words = words_of("inspect", "m.corank")
    for part in (f"chosen by auto {found['chosen']}", f"compared {found['reason']}", found["unscored_verdict"]):
        assert part in words
    run("fit", "items.csv", *COLUMNS, "--method", "rankrls", "--out", "plain.corank", "--quiet")
    assert json.loads(run("inspect", "plain.corank", "--json").stdout)["auto"] is None
    assert "auto" not in words_of("inspect", "plain.corank")


@pytest.mark.parametrize("chosen", ["average", "agreement"])
def test_the_reason_names_the_gain_of_what_was_chosen(chosen):
    ways = [("supervised", None, None, ""), ("average", 0.05, 0.01, "supervised"), ("agreement", 0.02, 0.01, "average")]
    keys = ("name", "gain", "gain_error", "beside")
    candidates = [{"error": 0.3, "standard_error": 0.02, **dict(zip(keys, way, strict=True))} for way in ways]
    words = choice.reason_of({"chosen": chosen, "candidates": candidates})
    assert words.startswith("held-out error 0.3 ± 0.02 for one model on all columns, 0.3 ± 0.02 for the mean of ")
    assert words.endswith("by 0.05 ± 0.01" if chosen == "average" else "by 0.02 ± 0.01")
    assert "too few scores" in choice.reason_of({"chosen": "supervised", "candidates": []})


def test_queries_without_scores_are_counted_alike_everywhere(folder):
    fitted = words_of("fit", "items.csv", *COLUMNS, "--method", "rankrls", "--out", "m.corank")
    assert "queries 12 (user), 9 of them with scores: " in fitted
    assert "12 queries (user), 9 of them with scores" in words_of("inspect", "m.corank")
    found = json.loads(run("inspect", "m.corank", "--json").stdout)
    assert (found["queries"], found["queries_without_scores"]) == (12, 3)
    items(unscored_users=0).to_csv("all.csv", index=False)
    fitted = words_of("fit", "all.csv", *COLUMNS, "--method", "rankrls", "--out", "all.corank")
    assert "queries 12 (user): " in fitted
    assert "12 queries (user) features" in words_of("inspect", "all.corank")


@pytest.mark.parametrize("method", ["auto", "corankrls"])
def test_the_check_of_unscored_rows_is_told_and_counted_in_the_time(folder, method, monkeypatch):
    words = ("fit", "items.csv", *COLUMNS, "--method", method, "--out", "m.corank", "--force", "--json")
    clock = {"now": 0.0}
    monkeypatch.setattr(time, "perf_counter", lambda: clock["now"])
    original = choice.with_effect

    def takes_a_minute(model, doing, *, wanted):
        clock["now"] += 60 if wanted else 0
        return original(model, doing, wanted=wanted)

    monkeypatch.setattr(choice, "with_effect", takes_a_minute)
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
        unscored_effect_ = None

    told = []
    choice.with_effect(Views(), told.append, wanted=True)
    assert told == ["checking whether unscored rows help"]
