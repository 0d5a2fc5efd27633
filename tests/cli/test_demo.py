"""`corank demo`: what it shows is what came out, its commands work, and it writes nothing unasked."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import error, run

from corank import AutoRegressor, load
from corank.cli import demo
from corank.datasets import load_peps


@pytest.fixture(scope="module")
def items():
    return demo.DemoItems.load()


@pytest.fixture(scope="module")
def draws(items):
    return list(demo.marked_draws(items, 1))


@pytest.fixture(scope="module")
def questions(items, draws):
    return demo.next_questions(items, draws[0])


@pytest.fixture
def quick(items, draws, questions, tmp_path, monkeypatch):
    monkeypatch.setattr(demo.DemoItems, "load", lambda: items)
    monkeypatch.setattr(demo, "marked_draws", lambda items: draws)
    monkeypatch.setattr(demo, "next_questions", lambda items, draw: questions)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_demo_tells_what_was_marked_what_comes_first_and_what_to_ask(
    quick, items, draws, questions
):
    story = run("demo").stdout
    (draw,) = draws
    first = items.first(draw.predictions[demo.LINKED], draw.marked)
    shown = " ".join(story.split())
    listed = [
        *items.titles(draw.marked),
        *items.titles(first[: demo.N_SHOWN]),
        *items.titles(questions.asked),
    ]
    for pep, _, title in listed:
        assert re.search(rf"\b{pep}\b", shown)
        assert title.split()[0] in shown
    for name in (demo.PLAIN, demo.MARKED, demo.ALL, demo.LINKED, demo.USUAL):
        assert re.search(rf"{re.escape(name)} +\d+\.\d %", story)
    assert all(f"\n  {line}\n" in story for line in demo.COMMANDS)
    assert "corank demo --report" in story


def test_the_demo_writes_nothing_unasked(quick):
    run("demo")
    assert list(quick.iterdir()) == []
    (quick / "a.html").write_text("mine")
    assert "use --force" in error("demo", "--report", "a.html")
    assert (quick / "a.html").read_text() == "mine"
    assert run("demo", "--quiet").output == ""


def test_the_demo_saves_its_model_and_a_page(quick, items, draws):
    story = run("demo", "--out", "a.corank", "--report", "a.html").stdout
    assert "a.corank (" in story
    assert story.rstrip().endswith("to open in a browser: a.html")
    model = load("a.corank")
    assert type(model) is AutoRegressor
    np.testing.assert_array_equal(items.predict(model), draws[0].predictions[demo.LINKED])
    page = Path("a.html").read_text()
    assert page.count("<svg") == 1
    assert all(text in page for text in ("What to ask next", demo.LINKED, *demo.COMMANDS))
    run("inspect", "a.corank")


def test_the_demo_in_json_holds_errors_of_every_way_to_rank(quick):
    result = json.loads(run("demo", "--json").stdout)
    assert (result["items"], result["links"], result["draws"], result["model"]) == (
        736,
        1653,
        1,
        None,
    )
    means = {name: np.mean(errors) for name, errors in result["wrong_pairs"].items()}
    assert means[demo.LINKED] < means[demo.ALL] < means[demo.PLAIN] < 0.5
    assert means[demo.LINKED] < 0.5 * means[demo.USUAL]
    assert len(result["marked"]) == 10
    assert [item["about"] for item in result["ranked"]].count("yes") == result["of_first_20"][
        demo.LINKED
    ][0]
    assert result["wrong_pairs_after"]["after"] < result["wrong_pairs_after"]["before"]


def test_half_of_the_marks_have_the_topic_and_no_marked_item_is_judged_or_asked(
    items, draws, questions
):
    (draw,) = draws
    assert items.truth[draw.marked].tolist() == [1.0] * 5 + [0.0] * 5
    first = items.first(draw.predictions[demo.LINKED], draw.marked)
    assert not set(draw.marked) & {*first, *questions.asked}
    perfect = items.truth.copy()
    # wrong for marked items, which do not count
    perfect[draw.marked] = 1 - items.truth[draw.marked]
    assert items.error(perfect, draw.marked) == 0


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


@pytest.mark.slow
def test_over_all_draws_every_kind_of_column_takes_errors_away(items):
    story = demo.DemoStory(items, list(demo.marked_draws(items)), None)
    means = [
        np.mean(story.errors[name]) for name in (demo.PLAIN, demo.MARKED, demo.ALL, demo.LINKED)
    ]
    assert means == sorted(means, reverse=True)
    assert np.mean(story.hits[demo.LINKED]) > 19
