"""Several people: who gave a score or made a comparison, everybody's own order, and judges."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import error, run

from corank import AutoRanker, load

PEOPLE, ITEMS, SCORED = 6, 14, 9
NAMES = ["ann", "bob", "cem", "dana", "eve", "fay"]
FIT = ("fit", "ratings.csv", "--score", "stars", "--id", "film", "--person", "who")


def films():
    draw = np.random.default_rng(0)
    columns = draw.standard_normal((ITEMS, 2)).round(3)
    names = [f"{number:02d}" for number in range(ITEMS)]
    return pd.DataFrame({"film": names, "length": columns[:, 0], "speed": columns[:, 1]})


def value(person, table):
    """What a person makes of films: half of the persons like speed, the others do not."""
    sign = 1 if NAMES.index(person) % 2 else -1
    return table["length"] + 2 * sign * table["speed"]


def ratings():
    draw = np.random.default_rng(1)
    rows = []
    for person in NAMES:
        table = films().iloc[draw.permutation(ITEMS)[:SCORED]].assign(who=person)
        rows.append(table.assign(stars=value(person, table).round(2)))
    return pd.concat(rows, ignore_index=True)


def votes(n=150):
    draw = np.random.default_rng(2)
    table = films()
    liked = table["length"].to_numpy() * 3
    rows = []
    for _ in range(n):
        first, second = draw.choice(ITEMS, 2, replace=False)
        who = NAMES[draw.integers(PEOPLE)]
        better = liked[first] + draw.normal() > liked[second]
        better = draw.random() < 0.5 if who == "fay" else better  # who answers at random
        better = not better if who == "eve" else better  # who means the opposite
        ends = (first, second) if better else (second, first)
        rows.append([who, *table["film"].iloc[list(ends)]])
    return pd.DataFrame(rows, columns=["who", "winner", "loser"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    films().to_csv("films.csv", index=False)
    ratings().to_csv("ratings.csv", index=False)
    ages = [30 + 10 * (number % 2) for number in range(PEOPLE)]
    pd.DataFrame({"age": ages, "who": NAMES}).to_csv("persons.csv", index=False)
    votes().to_csv("votes.csv", index=False)
    return tmp_path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A model of persons, fitted once."""
    path = tmp_path_factory.mktemp("persons")
    ratings().to_csv(path / "ratings.csv", index=False)
    file = path / "m.corank"
    words = ["fit", path / "ratings.csv", *FIT[2:], "--out", file]
    said = run(*words).stderr
    assert "'film' has 13 values in several rows" in said
    assert "are one item" in said
    return file


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A model of judges, fitted once."""
    path = tmp_path_factory.mktemp("judges")
    films().to_csv(path / "films.csv", index=False)
    votes().to_csv(path / "votes.csv", index=False)
    words = ("--comparisons", path / "votes.csv", "--id", "film", "--person", "who")
    report = ("--report", path / "m.html", "--out", path / "m.corank")
    run("fit", path / "films.csv", *words, "--method", "preference", *report)
    assert "Reliability of 6 judges" in (path / "m.html").read_text()
    return path / "m.corank"


def table_of(*words):
    run(*words, "--out", "out.csv", "--force")
    return pd.read_csv("out.csv", dtype={"film": str})


# ---- an own order for everybody


def test_a_model_of_persons_is_that_of_python(folder, fitted):
    model = load(fitted)
    assert model.table_["person"] == "who"
    assert model.table_["item"] == "film"
    table = ratings()
    columns = ["length", "speed"]
    other = AutoRanker(random_state=0, encoder=model.encoder_)
    features = model.encoder_.transform(table[columns])
    other.fit(features, table["stars"], person=table["who"], item=table["film"])
    expected = other.predict(
        model.encoder_.transform(films()[columns]), person="bob", item=films()["film"]
    )
    predicted = table_of("predict", fitted, "films.csv", "--for", "bob")
    np.testing.assert_allclose(predicted["score"], expected, rtol=1e-4, atol=1e-6)


def test_a_ranking_for_a_person_leaves_out_what_is_known(folder, fitted):
    known = set(ratings().query("who == 'ann'")["film"])
    ranked = table_of("rank", fitted, "films.csv", "--for", "ann")
    assert set(ranked["film"]) == set(films()["film"]) - known
    assert ranked["rank"].tolist() == list(range(1, ITEMS - SCORED + 1))
    everything = table_of("rank", fitted, "films.csv", "--for", " ann ", "--all", "--chances")
    assert len(everything) == ITEMS
    own = np.corrcoef(everything["score"], value("ann", everything))[0, 1]
    shared = table_of("rank", fitted, "films.csv")
    assert own > 0.9 > np.corrcoef(shared["score"], value("ann", shared))[0, 1]
    assert "'ann' has scored" in run("rank", fitted, "films.csv", "--for", "ann").stderr
    Path("folder").mkdir()
    films().to_csv("folder/part.csv", index=False)
    assert "--for needs all rows" in error(
        "rank", fitted, "folder", "--for", "ann", "--out", "passes.csv"
    )
    said = run("predict", fitted, "folder", "--out", "passes.csv").stderr
    assert "what all persons have in common" in said
    assert len(pd.read_csv("passes.csv")) == ITEMS


def test_persons_whom_a_table_names_are_ranked_for_each(folder, fitted):
    ranked = table_of("rank", fitted, "ratings.csv")
    assert ranked.groupby("who")["rank"].max().eq(SCORED).all()
    of_bob = ranked[ranked["who"] == "bob"].sort_values("film")
    alone = table_of("predict", fitted, "films.csv", "--for", "bob")
    alone = alone[alone["film"].isin(of_bob["film"])].sort_values("film")
    np.testing.assert_allclose(of_bob["score"], alone["score"], rtol=1e-6)


def test_questions_and_reasons_for_a_person(folder, fitted):
    asked = json.loads(
        run("suggest", fitted, "films.csv", "--for", "ann", "-n", "2", "--json").stdout
    )
    assert len(asked["questions"]) == 2
    words = ("films.csv", "--id", "00", "--id", "01", "--for", "bob", "--json")
    why = json.loads(run("explain", fitted, *words).stdout)
    scores = table_of("predict", fitted, "films.csv", "--for", "bob")["score"]
    assert why["difference"] == pytest.approx(scores[0] - scores[1], rel=1e-3)


def test_evaluations_and_updates_know_persons(folder, fitted):
    new = films().tail(4).assign(who="bob")
    new["stars"] = value("bob", new)
    new.assign(stars=lambda table: table["stars"] + 0.001).to_csv("new.csv", index=False)
    measures = json.loads(run("evaluate", fitted, "new.csv", "--json").stdout)
    assert measures["disagreement"]["value"] < 0.2
    assert measures["queries"] == 1
    gus = films().head(5).assign(who="gus", stars=[5, 4, 3, 2, 1])
    gus.to_csv("gus.csv", index=False)
    run("update", fitted, "gus.csv", "--out", "more.corank")
    assert "gus" in load("more.corank").persons_
    ranked = table_of("rank", "more.corank", "films.csv", "--for", "gus")
    assert set(ranked["film"]) == set(films()["film"][5:])
    assert "already learned" in error("update", "more.corank", "gus.csv", "--out", "m2.corank")
    same = gus.assign(who="hal")  # the same scores of somebody else are other answers
    same.to_csv("hal.csv", index=False)
    run("update", "more.corank", "hal.csv", "--out", "m2.corank")


def test_columns_of_persons(folder):
    said = run(*FIT, "--persons", "persons.csv", "--out", "p.corank")
    assert "note: persons" not in said.stderr
    assert load("p.corank").n_columns_of_persons == 1
    pd.DataFrame({"who": ["zoe", "max"], "age": [40, 30]}).to_csv("new.csv", index=False)
    words = ("rank", "p.corank", "films.csv", "--persons", "new.csv", "--chances", "--for")
    zoe, others = table_of(*words, "zoe"), table_of(*words, "max")
    assert len(zoe) == ITEMS
    assert np.corrcoef(zoe["score"], value("bob", zoe))[0, 1] > 0.5  # who is as old
    assert zoe["film"].tolist() != others["film"].tolist()
    assert "--for 'yan'" in error(*words, "yan")


def test_comparisons_of_persons_have_own_orders(folder):
    words = ("--comparisons", "votes.csv", "--id", "film", "--person", "who")
    run("fit", "films.csv", *words, "--out", "c.corank")
    eve = table_of("rank", "c.corank", "films.csv", "--for", "eve")
    ann = table_of("rank", "c.corank", "films.csv", "--for", "ann")
    assert len(eve) == ITEMS  # who compared an item may still be told where it stands
    scores = [table.sort_values("film")["score"].to_numpy() for table in (eve, ann)]
    assert np.corrcoef(*scores)[0, 1] < 0.5
    result = json.loads(
        run("evaluate", "c.corank", "votes.csv", "--items", "films.csv", "--json").stdout
    )
    assert result["comparisons"] == 150


# ---- judges


def test_judges_are_listed_with_their_reliability(folder, judged):
    result = json.loads(run("judges", judged, "--items", "films.csv", "--json").stdout)
    names = [entry["judge"] for entry in result["judges"]]
    assert names[-1] == "eve"
    assert set(names[:-2]) == {"ann", "bob", "cem", "dana"}
    assert result["judges"][-1]["to"] < 0
    assert sum(entry["answers"] for entry in result["judges"]) == 150
    assert "eve" not in result["ask_next"] or len(result["ask_next"]) == 3
    assert {entry["item"] for entry in result["disputed"]} <= set(films()["film"])
    assert result["agreement"]["pairs"] > 0
    said = run("judges", judged)
    assert "Krippendorff" in said.stdout
    assert "eve" in said.stderr
    written = table_of("judges", judged)
    assert written["judge"].tolist() == names


def test_votes_of_judges_update_a_model(folder, judged):
    new = pd.DataFrame({"who": ["ann", "gus"], "winner": ["01", "03"], "loser": ["02", "04"]})
    new.to_csv("new.csv", index=False)
    words = ("update", judged, "new.csv", "--items", "films.csv")
    run(*words, "--out", "more.corank")
    result = json.loads(run("judges", "more.corank", "--json").stdout)
    assert "gus" in [entry["judge"] for entry in result["judges"]]


def test_the_answers_of_a_page_say_who_answered(folder):
    header = "number,kind,first,second,third,fourth,answer,worst,score,undoes,person,at\n"
    lines = [
        f"{at},compare,{winner},{loser},,,{'tie' if at == 3 else 'first'},,,,{who},2026-01-01T00:00:00Z\n"
        for at, (who, winner, loser) in enumerate(votes(40).itertuples(index=False), 1)
    ]
    Path("answers.csv").write_text(header + "".join(lines))
    words = ("--comparisons", "answers.csv", "--id", "film", "--person", "person")
    run("fit", "films.csv", *words, "--method", "preference", "--out", "a.corank")
    assert {judge.name for judge in load("a.corank").judges_} == set(NAMES)


def test_the_scores_of_a_page_are_those_of_each_person(folder):
    header = "number,kind,first,second,third,fourth,answer,worst,score,undoes,person,at\n"
    lines = [
        f"{at},score,{row.film},,,,score,,{row.stars},,{row.who},2026-01-01T00:00:00Z\n"
        for at, row in enumerate(ratings().itertuples(index=False), 1)
    ]
    Path("scores.csv").write_text(header + "".join(lines))
    words = ("--items", "films.csv", "--id", "film", "--score", "score", "--person", "person")
    run("fit", "scores.csv", *words, "--out", "s.corank")
    assert load("s.corank").persons_ == NAMES


def test_answers_of_every_kind_say_who_judged(folder):
    table = votes(60)
    table.rename(columns={"who": "worker"}).to_csv("answers.csv", index=False)
    words = ("fit", "films.csv", "--answers", "answers.csv", "--id", "film", "--out", "a.corank")
    words = (*words, "--force", "--method", "preference")
    run(*words)
    assert {judge.name for judge in load("a.corank").judges_} == set(NAMES)
    table.to_csv("answers.csv", index=False)
    run(*words, "--person", "who")
    model = load("a.corank")
    assert {judge.name for judge in model.judges_} == set(NAMES)
    assert model.table_["person"] == "who"
    assert "'whom'" in error(*words, "--person", "whom")


# ---- bad input


@pytest.mark.parametrize(
    ("words", "mentions"),
    [
        (("--person", "whom"), "did you mean 'who'"),
        (("--person", "stars"), "--score"),
        (("--person", "film"), "--id"),
        (("--persons", "persons.csv"), "--persons needs --person"),
        (("--person", "who", "--persons", "films.csv"), "'who'"),
        (("--person", "who", "--persons", "twice.csv"), "several rows for 'ann'"),
        (("--person", "who", "--method", "rankrls"), "not with --method rankrls"),
        (("--person", "who", "--passes"), "read in passes"),
        (("--person", "nobody"), "no label"),
    ],
)
def test_columns_of_persons_that_cannot_be(folder, words, mentions):
    pd.DataFrame({"who": ["ann", "ann"], "age": [1, 2]}).to_csv("twice.csv", index=False)
    ratings().assign(nobody=None).to_csv("ratings.csv", index=False)
    fit = ("fit", "ratings.csv", "--score", "stars", "--id", "film", "--out", "m.corank")
    assert mentions in error(*fit, *words)
    assert not Path("m.corank").exists()


def test_odd_persons_are_counted_and_said(folder):
    table = ratings()
    table.loc[0, "who"] = " ann"
    more = films().head(2).assign(who="zoe", stars=None)
    pd.concat([table, more]).to_csv("ratings.csv", index=False)
    said = run(*FIT, "--out", "m.corank").stderr
    assert "1 name differ from others by blanks" in said
    assert "1 person without a score" in said


def test_orders_of_persons_that_nobody_knows(folder, fitted, judged):
    assert "did you mean 'ann'" in error("rank", fitted, "films.csv", "--for", "anne")
    run("fit", "films.csv", "--score", "length", "--quiet", "--out", "plain.corank")
    for model in ("plain.corank", judged):
        assert "--for needs a model" in error("rank", model, "films.csv", "--for", "ann")
    assert "does not know who answered" in error("judges", fitted)


def test_a_person_is_forgotten(folder, fitted):
    run("update", fitted, "--forget", "cem", "--out", "n.corank")
    model = load("n.corank")
    assert "cem" in load(fitted).persons_
    assert "cem" not in model.persons_
    assert b"cem" not in Path("n.corank").read_bytes()
    assert model.table_["scored"] == SCORED * (PEOPLE - 1)
    expected = load(fitted).forget("cem")
    np.testing.assert_array_equal(model.predict(films()), expected.predict(films()))
    assert "cem" in error("rank", "n.corank", "films.csv", "--for", "cem")


@pytest.mark.parametrize(
    "words",
    [
        ("--out", "n.corank"),
        ("ratings.csv", "--forget", "cem", "--out", "n.corank"),
        ("--forget", "nobody", "--out", "n.corank"),
    ],
)
def test_what_cannot_be_forgotten(folder, fitted, words):
    said = error("update", fitted, *words)
    assert "--forget" in said or "nobody" in said
    assert not Path("n.corank").exists()


# ---- the commands that are printed


def test_questions_for_a_person_are_answered_as_printed(folder, fitted):
    printed = run("suggest", fitted, "films.csv", "--for", "ann", "-n", "2", "--out", "q.csv")
    assert "fill in column 'stars'" in printed.stdout
    asked = pd.read_csv("q.csv", dtype={"film": str})
    assert asked["who"].tolist() == ["ann", "ann"]
    asked.assign(stars=3.0).to_csv("q.csv", index=False)
    run("update", fitted, "q.csv", "--items", "films.csv", "--out", "n.corank")
    assert load("n.corank").table_["scored"] == SCORED * PEOPLE + 2
    printed = run("suggest", fitted, "films.csv", "-n", "2", "--out", "q2.csv").stdout
    assert "columns 'who' and 'stars'" in printed
    assert pd.read_csv("q2.csv")["who"].isna().all()


def test_questions_to_judges_are_answered_as_printed(folder, judged):
    printed = run("suggest", judged, "films.csv", "-n", "3", "--out", "q.csv").stdout
    assert "'who' with who says so" in " ".join(printed.split())
    asked = pd.read_csv("q.csv", dtype={"first": str, "second": str})
    asked.assign(winner=["first", "second", "tie"], who="ann").to_csv("q.csv", index=False)
    run("update", judged, "q.csv", "--items", "films.csv", "--out", "n.corank")
    assert load("n.corank").n_comparisons == len(votes()) + 3
