"""`corank demo`: what it shows is what came out, its commands work, and it writes nothing unasked."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import error, run

from corank import AutoRegressor, load
from corank.cli import demo
from corank.datasets import load_peps
from corank.links import read_links


@pytest.fixture(scope="module")
def ranking():
    return demo.DemoRanking.of(load_peps())


@pytest.fixture
def quick(ranking, tmp_path, monkeypatch):
    monkeypatch.setattr(demo.DemoRanking, "of", lambda data: ranking)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_demo_tells_what_was_marked_what_comes_first_and_what_to_ask(quick, ranking):
    story = run("demo").stdout
    shown = " ".join(story.split())
    listed = [
        *ranking.titles(ranking.marked),
        *ranking.titles(ranking.others[: demo.N_SHOWN]),
        *ranking.titles(ranking.asked),
    ]
    for pep, _, title in listed:
        assert re.search(rf"\b{pep}\b", shown)
        assert title.split()[0] in shown
    assert ranking.finding() in shown
    assert all(f"\n  {line}\n" in story for line in demo.COMMANDS)
    assert "corank demo --report" in story


def test_the_demo_writes_nothing_unasked(quick):
    run("demo")
    assert list(quick.iterdir()) == []
    (quick / "a.html").write_text("mine")
    assert "use --force" in error("demo", "--report", "a.html")
    assert (quick / "a.html").read_text() == "mine"
    assert run("demo", "--quiet").output == ""


def test_the_demo_saves_its_model_and_a_page(quick, ranking):
    story = run("demo", "--out", "a.corank", "--report", "a.html").stdout
    assert "a.corank (" in story
    assert story.rstrip().endswith("to open in a browser: a.html")
    model = load("a.corank")
    assert type(model) is AutoRegressor
    data = load_peps()
    links = read_links(data.links, len(data.ids), ids=data.ids)
    predicted = model.predict(model.encoder_.transform(data.X), links=links)
    np.testing.assert_array_equal(predicted, ranking.scores)
    page = Path("a.html").read_text()
    assert all(text in page for text in ("What to ask next", ranking.finding(), *demo.COMMANDS))
    run("inspect", "a.corank")


def test_the_demo_in_json_holds_its_lists_and_how_good_they_are(quick, ranking):
    result = json.loads(run("demo", "--json").stdout)
    assert (result["items"], result["links"], result["model"]) == (736, 1653, None)
    assert result["wrong_pairs"] < 0.05
    assert len(result["marked"]) == 10
    about = [item["about"] for item in result["ranked"]]
    assert about.count("yes") == result["of_first_20"] > 15


def test_half_of_the_marks_have_the_topic_and_no_marked_item_is_judged_or_asked(ranking):
    assert ranking.truth[ranking.marked].tolist() == [True] * 5 + [False] * 5
    assert not set(ranking.marked) & {*ranking.others, *ranking.asked}
    perfect = ranking.truth.astype(float)
    # wrong for marked items, which do not count
    perfect[ranking.marked] = 1 - perfect[ranking.marked]
    assert replace(ranking, scores=perfect).wrong_pairs == 0


def test_the_commands_for_a_table_of_your_own_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = load_peps()
    kept = np.flatnonzero((data.ids >= 500) & (data.ids < 660))
    table = data.table.take(kept).rename_columns(["item", *data.X.column_names]).to_pandas()
    marks = pd.Series(data.has_topic("Typing")[kept].astype(float))
    table["mark"] = marks.where(
        np.isin(np.arange(len(kept)), [*np.flatnonzero(marks)[:5], 0, 1, 2, 3, 4])
    )
    table.to_csv("items.csv", index=False)
    links = data.links.to_pandas()
    links[links.isin(data.ids[kept]).all(axis=1)].to_csv("links.csv", index=False)
    for line in demo.COMMANDS:
        program, *words = line.split()
        assert program == "corank"
        run(*words)
    ranked = pd.read_csv("ranked.csv")
    order = ranked["score"].to_numpy()
    assert len(ranked) == len(table)
    about = marks.set_axis(table["item"])[ranked["item"]].to_numpy()
    assert about[np.argsort(-order)][:10].mean() > 0.8
    assert pd.read_csv("questions.csv")["item"].isin(table["item"]).all()
