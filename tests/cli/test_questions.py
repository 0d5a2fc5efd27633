"""The command line on comparisons: fit, rank, suggest, answer, update, and what is wrong said in
one sentence.
"""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import error, run

from corank import RLS, CoRankRLS, DifferenceGP, PreferenceGP, RankRLS, TableEncoder, View, load
from corank.core.registry import learner_class, stored_learners
from corank.metrics import calibration_error, disagreement_error

ITEMS = ("--item", "wine")
PAIRS = ("--comparisons", "pairs.csv", "--winner", "a", "--loser", "b")
QUICK = ("--gamma", "0.3", "--amplitude", "2")


def wines(n=24, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "wine": [f"{number:03d}" for number in range(n)],
            "grape": rng.choice(["riesling", "merlot", "syrah"], n),
            "sweetness": rng.uniform(0, 10, n).round(1),
            "country": np.where(np.arange(n) % 2, "it", "fr"),
        }
    )


def quality(table):
    return (-0.2 * (table["sweetness"] - 6) ** 2 + 2.0 * (table["grape"] == "riesling")).to_numpy()


def compared(table, n=40, seed=1, within=None):
    """Who beat whom, by how much and how often; `within` a column both have the same value of."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, len(table), (2, n * 6))
    keep = first != second
    if within is not None:
        keep &= table[within].to_numpy()[first] == table[within].to_numpy()[second]
    first, second = first[keep][:n], second[keep][:n]
    gap = quality(table)[first] - quality(table)[second]
    won = gap + rng.normal(0, 1, len(gap)) > 0
    names = table["wine"].to_numpy()
    return pd.DataFrame(
        {
            "a": np.where(won, names[first], names[second]),
            "b": np.where(won, names[second], names[first]),
            "m": np.abs(gap).round(2),
            "times": rng.integers(1, 4, len(gap)),
        }
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wines().to_csv("wines.csv", index=False)
    compared(wines()).to_csv("pairs.csv", index=False)
    return tmp_path


@pytest.fixture(scope="module")
def preference_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("preference")
    wines().to_csv(folder / "wines.csv", index=False)
    compared(wines()).to_csv(folder / "pairs.csv", index=False)
    pairs = ("--comparisons", folder / "pairs.csv", *PAIRS[2:])
    words = (
        *ITEMS,
        *pairs,
        "--method",
        "preference",
        *QUICK,
        "--out",
        folder / "w.corank",
        "--quiet",
    )
    run("fit", folder / "wines.csv", *words)
    return folder / "w.corank"


@pytest.fixture
def preference(folder, preference_file):
    shutil.copy(preference_file, folder)
    return folder


def rows_of(names, table=None):
    places = {name: row for row, name in enumerate((wines() if table is None else table)["wine"])}
    return [places[name] for name in names]


def encoded(drop=("wine",)):
    features = wines().drop(columns=list(drop))
    return TableEncoder().fit_transform(features)


# ---- fit


@pytest.mark.parametrize(
    ("method", "options", "more"),
    [
        ("rankrls", {"gamma": "tune"}, ("margins", "weights")),
        ("kpcrank", {"gamma": "tune"}, ()),
        ("preference", {"gamma": 0.3, "amplitude": 2.0}, ("weights",)),
        ("difference", {"gamma": "tune"}, ("margins",)),
    ],
)
def test_fit_on_comparisons_is_what_python_does(folder, method, options, more):
    pairs = compared(wines())
    words = QUICK if method == "preference" else ()
    words += ("--margin", "m") if "margins" in more else ()
    words += ("--count", "times") if "weights" in more else ()
    run(
        "fit",
        "wines.csv",
        *ITEMS,
        *PAIRS,
        "--method",
        method,
        *words,
        "--out",
        "w.corank",
        "--quiet",
    )
    given = {"margins": pairs["m"], "weights": pairs["times"]}
    found = load("w.corank")
    model = type(found)(**options).fit_comparisons(
        encoded(), rows_of(pairs["a"]), rows_of(pairs["b"]), **{name: given[name] for name in more}
    )
    np.testing.assert_array_equal(found.predict(encoded()), model.predict(encoded()))
    expected = {"id": "wine", "winner": "a", "loser": "b", "rows": 24, "score": None}
    assert {key: found.table_[key] for key in expected} == expected
    assert found.table_["comparisons"] == (
        pairs["times"].sum() if "weights" in more else len(pairs)
    )


def test_comparisons_are_fitted_by_an_average_unless_told(folder):
    said = json.loads(run("fit", "wines.csv", *ITEMS, *PAIRS, "--out", "w.corank", "--json").stdout)
    assert (said["method"], said["comparisons"], said["rows"]) == ("AutoRanker", 40, 24)
    assert said["held_out_error"] < said["held_out_constant"]
    words = " ".join(run("inspect", "w.corank").stdout.split())
    assert f"fitted on 40 comparisons of {said['scored']} items" in words


def test_a_table_of_nothing_but_names_is_ranked(folder):
    wines()[["wine"]].to_csv("names.csv", index=False)
    order = wines()["wine"].tolist()
    chosen = np.sort(np.random.default_rng(2).integers(0, 24, (150, 2)), axis=1)
    pairs = [(order[first], order[second]) for first, second in chosen if first < second]
    pd.DataFrame(pairs, columns=["a", "b"]).to_csv("pairs.csv", index=False)
    said = json.loads(run("fit", "names.csv", *ITEMS, *PAIRS, "--out", "n.corank", "--json").stdout)
    assert said["held_out_error"] < 0.2
    assert [(line["column"], line["kind"]) for line in said["columns"]] == [("wine", "identity")]
    assert "one effect per item" in run("inspect", "n.corank").stdout
    run("rank", "n.corank", "names.csv", "--out", "ranked.csv")
    ranks = pd.read_csv("ranked.csv", dtype={"wine": str})["wine"].tolist()
    assert np.corrcoef([order.index(wine) for wine in ranks], np.arange(24))[0, 1] > 0.95
    pd.DataFrame({"wine": ["000", "stranger", "023"]}).to_csv("more.csv", index=False)
    run("rank", "n.corank", "more.csv", "--out", "more_ranked.csv")
    more = pd.read_csv("more_ranked.csv", dtype={"wine": str}).set_index("wine")
    assert more.index.tolist() == ["000", "stranger", "023"]
    assert more["std"].idxmax() == "stranger"
    run("suggest", "n.corank", "names.csv", "-n", 2, "--out", "questions.csv")
    asked = pd.read_csv("questions.csv", dtype=str)
    assert len(asked) == 2
    assert set(asked["first"]) | set(asked["second"]) <= set(order)
    assert "'wine'" in error("rank", "n.corank", "pairs.csv")


def test_item_effects_stand_beside_columns_for_comparisons_by_default_alone(folder):
    run("fit", "wines.csv", *ITEMS, *PAIRS, "--out", "w.corank", "--quiet")
    model = load("w.corank")
    assert {line.candidate.identity for line in model.candidates_} == {0.0, 0.1, 1.0}
    wines().drop(columns="wine").to_csv("unnamed.csv", index=False)
    run("rank", "w.corank", "unnamed.csv", "--out", "ranked.csv")  # as items that are not known
    assert "--id COLUMN" in error(
        "fit", "wines.csv", *ITEMS, *PAIRS, "--drop", "*", "--method", "rankrls", "--out", "x"
    )
    assert "--text 'wine'" in error(
        "fit", "wines.csv", *ITEMS, *PAIRS, "--text", "wine", "--out", "x"
    )


def test_numbers_that_most_items_lack_are_noted_beside_comparisons(folder):
    wines().assign(points=[90.0] * 3 + [None] * 21).to_csv("rated.csv", index=False)
    said = run(
        "fit", "rated.csv", *ITEMS, *PAIRS, "--method", "rankrls", "--alpha", 1, "--out", "w.corank"
    ).stderr
    assert (
        "column 'points' is empty in 88% of the rows, yet it is learned from: if it is a score"
        in " ".join(said.split())
    )


def test_fit_says_how_decided_comparisons_are_and_how_good_the_model_is(folder):
    shown = run(
        "fit", "wines.csv", *ITEMS, *PAIRS, "--method", "preference", *QUICK, "--out", "w.corank"
    ).stdout
    words, model = " ".join(shown.split()), load("w.corank")
    n_items = len(set(compared(wines())[["a", "b"]].to_numpy().ravel()))
    for part in (
        "PreferenceGP fitted on wines.csv",
        f"fitted on 40 comparisons of {n_items} items",
        # 1/2 + atan(2)/pi
        (
            "amplitude 2: the better of two items with very different features wins about 85% of"
            " comparisons"
        ),
        (
            f"log evidence {model.log_evidence_:.1f} (higher is better), against"
            f" {40 * np.log(0.5):.1f} for coin tosses"
        ),
        "corank suggest w.corank wines.csv --out questions.csv",
    ):
        assert part in words
    assert "held-out" not in words
    inspected = " ".join(run("inspect", "w.corank").stdout.split())
    assert "PreferenceGP: ranks items by who beats whom, and says how sure it is" in inspected
    assert (
        "amplitude 2: the better of two items with very different features wins about 85% of"
        " comparisons" in inspected
    )


def test_difference_learns_from_scores_too_and_says_how_far_off_one_is(folder):
    table = wines()
    table.assign(rating=quality(table) + np.random.default_rng(3).normal(0, 0.3, 24)).to_csv(
        "rated.csv", index=False
    )
    words = ("--method", "difference", "--gamma", "columns", "--amplitude", "4", "--noise", "0.09")
    shown = run("fit", "rated.csv", *ITEMS, "--score", "rating", *words, "--out", "w.corank").stdout
    model = load("w.corank")
    said = " ".join(shown.split())
    assert "amplitude 4: scores vary by about ±2" in said
    assert "noise 0.09: an observed score is off by about ±0.3" in said
    assert "one gamma per feature, from" in said
    inspected = run("inspect", "w.corank").stdout
    strongest = re.search(r"between rows\s+─+\s+(\S+) +(\S+) +(\S+)", inspected)
    names = model.encoder_.get_feature_names_out()
    in_json = json.loads(run("inspect", "w.corank", "--json").stdout)
    shares = np.asarray(in_json["distance_shares"])
    best = np.argmax(shares)
    assert strongest.groups() == (names[best], f"{model.gamma_[best]:.3g}", f"{shares[best]:.0%}")
    expected = model.gamma_ * model.basis_points_.var(axis=0)
    np.testing.assert_allclose(shares, expected / expected.sum())
    assert f"the distance between rows is made of {names[best]} {shares[best]:.0%}" in said
    np.testing.assert_allclose(in_json["gamma"], model.gamma_)
    assert in_json["feature_names"] == list(names)
    assert (in_json["amplitude"], in_json["noise"], in_json["log_evidence"]) == (
        4.0,
        0.09,
        model.log_evidence_,
    )
    assert in_json["comparisons"] is None


def test_comparisons_that_features_do_not_explain_are_noted(folder):
    rng = np.random.default_rng(0)
    pairs = compared(wines(), 60)
    swap = rng.random(60) < 0.5
    pairs.loc[swap, ["a", "b"]] = pairs.loc[swap, ["b", "a"]].to_numpy()
    pairs.to_csv("pairs.csv", index=False)
    words = (
        *ITEMS,
        *PAIRS,
        "--method",
        "preference",
        "--gamma",
        "1",
        "--amplitude",
        "5",
        "--out",
        "w.corank",
    )
    said = run("fit", "wines.csv", *words).stderr
    assert "no better than coin tosses: perhaps the features say nothing about who wins" in said


def test_comparisons_within_queries(folder):
    table = wines()
    compared(table, within="country").to_csv("pairs.csv", index=False)
    words = (
        *ITEMS,
        *PAIRS,
        "--query",
        "country",
        "--method",
        "preference",
        *QUICK,
        "--out",
        "w.corank",
        "--force",
    )
    said = json.loads(run("fit", "wines.csv", *words, "--json").stdout)
    assert said["queries"] == 2
    questions = json.loads(
        run("suggest", "w.corank", "wines.csv", "--number", "3", "--json").stdout
    )["questions"]
    assert [one["query"] for one in questions] == ["fr"] * 3 + ["it"] * 3
    countries = dict(zip(table["wine"], table["country"], strict=True))
    assert all(
        countries[one["first"]] == countries[one["second"]] == one["query"] for one in questions
    )
    Path("answers.csv").write_text("a,b\n000,001\n")
    for command in (
        ("fit", "wines.csv", *ITEMS, "--comparisons", "answers.csv", "--query", "country"),
        ("update",),
    ):
        more = ("w.corank", "answers.csv", "--items", "wines.csv") if command == ("update",) else ()
        said = error(*command, *more, "--winner", "a", "--loser", "b", "--out", "n.corank")
        assert said.startswith("data row 1 of answers.csv compares '000' with '001'")
        assert "'country'" in said


@pytest.mark.parametrize(
    ("items", "pairs"),
    [(int, int), (int, str), (float, int)],
    ids=["whole", "whole and text", "decimal and whole"],
)
def test_numbers_are_names_too(folder, items, pairs):
    table = wines()
    table.assign(wine=table["wine"].astype(int).astype(items)).to_parquet(
        "wines.parquet", index=False
    )
    some = compared(table)[["a", "b"]].astype(int).astype(pairs)
    some.rename(columns={"a": "winner", "b": "loser"}).to_csv("pairs.csv", index=False)
    words = (
        "fit",
        "wines.parquet",
        *ITEMS,
        "--comparisons",
        "pairs.csv",
        "--method",
        "preference",
        *QUICK,
    )
    run(*words, "--out", "w.corank")
    assert load("w.corank").table_["winner"] == "winner"


WRONG_PAIRS = {  # the table, options, and what the message mentions
    "unknown item": (
        "a,b\n001,002\n003,0O4\n",
        (),
        ("'0O4'", "data row 2", "pairs.csv", "wines.csv"),
    ),
    "a near name": ("a,b\n001,0002\n", (), ("'0002'", "'wine'")),
    "a tie": ("a,b\n001,002\n001,tie\n", (), ("'tie'", "--method difference")),
    "itself": ("a,b\n001,002\n003,003\n", (), ("data row 2", "'003'")),
    "empty": ("a,b\n", (), "pairs.csv"),
    "no file": (None, (), "pairs.csv"),
    "no winner": ("a,b\n001,002\n,003\n", (), ("'a'", "data row 2")),
    "no column": ("x,b\n001,002\n", (), "'a'"),
    "negative": ("a,b,m\n001,002,-1\n", ("--margin", "m"), ("'m'", "data row 1")),
    "no margin": ("a,b,m\n001,002,1\n002,003,\n", ("--margin", "m"), ("'m'", "data row 2")),
    "all ties": ("a,b,m\n001,002,0\n", ("--margin", "m"), "pairs.csv"),
    "half": ("a,b,m\n001,002,1.5\n", ("--count", "m"), "'m'"),
    "margins and preference": (
        "a,b,m\n001,002,1\n",
        ("--margin", "m", "--method", "preference"),
        ("--margin", "--method preference"),
    ),
    "a method without": ("a,b\n001,002\n", ("--method", "rls"), ("--comparisons", "--method rls")),
    "both": ("a,b\n001,002\n", ("--score", "sweetness"), ("--score", "--comparisons")),
    "noise": ("a,b\n001,002\n", ("--noise", "1"), ("--noise", "--method difference")),
    "amplitude": ("a,b\n001,002\n", ("--method", "preference", "--amplitude", "-1"), "amplitude"),
    "gamma": (
        "a,b\n001,002\n",
        ("--method", "preference", "--gamma", "columns", "--kernel", "poly"),
        ("--gamma columns", "rbf", "--kernel poly"),
    ),
}


@pytest.mark.parametrize("case", WRONG_PAIRS)
def test_what_is_wrong_with_comparisons(folder, refused, case):
    text, options, mentions = WRONG_PAIRS[case]
    Path("pairs.csv").unlink()
    if text is not None:
        Path("pairs.csv").write_text(text)
    refused("fit", "wines.csv", *ITEMS, *PAIRS, "--out", "w.corank", *options, mentions=mentions)


def test_items_must_have_names_of_their_own(folder):
    table = wines()
    table.loc[5, "wine"] = "002"
    table.to_csv("wines.csv", index=False)
    said = error("fit", "wines.csv", *ITEMS, *PAIRS, "--out", "w.corank")
    assert said.startswith("'002' is in data rows 3 and 6 of wines.csv")
    table.loc[5, "wine"] = None
    table.to_csv("wines.csv", index=False)
    assert "has no value in data row 6" in error(
        "fit", "wines.csv", *ITEMS, *PAIRS, "--out", "w.corank"
    )


def test_what_to_learn_from_must_be_said(folder):
    assert "'--comparisons', a table of who beat whom" in error(
        "fit", "wines.csv", "--out", "w.corank"
    )
    assert "--comparisons needs --id" in error("fit", "wines.csv", *PAIRS, "--out", "w.corank")
    assert (
        error("fit", "wines.csv", *PAIRS, "--id", " ,", "--out", "w.corank")
        == "--id must name a column, got ' ,'"
    )
    said = error("fit", "wines.csv", "--score", "sweetness", "--winner", "a", "--out", "w.corank")
    assert said.startswith("--winner needs a table of comparisons")


# ---- rank


def without_level(cov):
    """Standard deviations of scores less their mean."""
    centre = np.eye(len(cov)) - 1 / len(cov)
    return np.sqrt(np.diag(centre @ cov @ centre))


def test_rank_writes_how_sure_it_is(preference):
    run("rank", "w.corank", "wines.csv", "--out", "ranked.csv")
    ranked = pd.read_csv("ranked.csv", dtype={"wine": str})
    assert list(ranked.columns) == [
        "rank",
        "score",
        "std",
        "wine",
        "row",
        *wines().columns.drop("wine"),
    ]
    mean, cov = load("w.corank").predict(encoded(), return_cov=True)
    order = rows_of(ranked["wine"])
    np.testing.assert_allclose(ranked["score"], mean[order])
    np.testing.assert_allclose(ranked["std"], without_level(cov)[order])
    wines().assign(std=1).to_csv("named.csv", index=False)
    run("rank", "w.corank", "named.csv", "--out", "other.csv")
    assert list(pd.read_csv("other.csv").columns)[:3] == ["rank", "score", "predicted_std"]
    assert re.search(r"rank +score +std +wine", run("rank", "w.corank", "wines.csv").stdout)


def test_rank_takes_the_level_out_of_each_query(folder, monkeypatch):
    table = wines().assign(rating=quality(wines()))
    table.to_csv("rated.csv", index=False)
    words = (
        "--query",
        "country",
        "--score",
        "rating",
        "--method",
        "difference",
        *QUICK,
        "--noise",
        "1",
    )
    run("fit", "rated.csv", "--id", "wine", *words, "--out", "d.corank", "--quiet")
    run("rank", "d.corank", "rated.csv", "--out", "ranked.csv")
    ranked = pd.read_csv("ranked.csv", dtype={"wine": str})
    model = load("d.corank")
    for country, some in table.groupby("country"):
        mean, cov = model.predict(model.encoder_.transform(some), return_cov=True)
        own = ranked[ranked["country"] == country].set_index("wine").loc[some["wine"]]
        np.testing.assert_allclose(own["score"], mean)
        np.testing.assert_allclose(own["std"], without_level(cov))
    monkeypatch.setattr("corank.interpretation.MAX_ROWS_WITHOUT_LEVEL", 11)
    said = run("rank", "d.corank", "rated.csv", "--out", "plain.csv").stderr
    assert "in queries of more than 11 rows" in said
    plain = pd.read_csv("plain.csv", dtype={"wine": str})
    std = model.predict(model.encoder_.transform(table), return_std=True)[1]
    np.testing.assert_allclose(plain["std"], std[rows_of(plain["wine"])])


# ---- evaluate


def held_out(**more):
    """Comparisons that were not learned from: `a` beat `b`."""
    return compared(wines(), 30, seed=7).assign(**more)


def probabilities(model, pairs):
    first, second = (encoded()[rows_of(pairs[side])] for side in ("a", "b"))
    return model.predict_comparison(first, second, observed=True)


@pytest.mark.parametrize("method", ["preference", "difference", "rankrls"])
def test_evaluate_says_how_well_comparisons_are_foretold(folder, method):
    words = ("--method", method) if method == "rankrls" else (*QUICK, "--method", method)
    run("fit", "wines.csv", *ITEMS, *PAIRS, *words, "--out", "w.corank", "--quiet")
    pairs = held_out()
    pairs.to_csv("held.csv", index=False)
    beside = ("--items", "wines.csv", "--out", "told.csv", "--json")
    said = json.loads(run("evaluate", "w.corank", "held.csv", *beside).stdout)
    model, told = load("w.corank"), pd.read_csv("told.csv", dtype={"a": str, "b": str})
    scores = model.predict(encoded())
    gap = scores[rows_of(pairs["a"])] - scores[rows_of(pairs["b"])]
    assert said["right_order"]["value"] == pytest.approx(np.mean(gap > 0))
    assert said["right_order"]["standard_error"] == pytest.approx(np.std(gap > 0, ddof=1) / 30**0.5)
    assert (said["comparisons"], said["ties"], said["unanswered"]) == (30, 0, 0)
    np.testing.assert_allclose(told["difference"], gap)
    assert list(told["a"]) == list(pairs["a"])
    if method == "rankrls":
        assert "log_loss" not in said
        assert "winner_wins" not in told
        return
    chance = probabilities(model, pairs)
    np.testing.assert_allclose(told["winner_wins"], chance)
    assert said["log_loss"]["value"] == pytest.approx(-np.log(chance).mean())
    favourite = calibration_error(chance > 0.5, np.maximum(chance, 1 - chance))
    assert said["calibration_error"]["value"] == pytest.approx(favourite)


def assert_same_numbers(found, expected):
    """The same JSON but for rounding: other numbers of rows are added in another order."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, dict):
            assert_same_numbers(found[name], value)
        elif isinstance(value, float):
            assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name
        else:
            assert found[name] == value, name


def test_evaluate_counts_repeats_and_leaves_out_ties_and_open_questions(preference):
    pairs = held_out()
    pairs.to_csv("held.csv", index=False)
    words = ("evaluate", "w.corank", "--items", "wines.csv", "--json")
    repeated = json.loads(run(*words, "held.csv", "--count", "times").stdout)
    pairs.loc[pairs.index.repeat(pairs["times"])].to_csv("long.csv", index=False)
    alone = json.loads(run(*words, "long.csv").stdout)
    assert_same_numbers(repeated, alone)
    assert repeated["comparisons"] == pairs["times"].sum()
    pairs.assign(m=[0.0] * 10 + [1.0] * 20).to_csv("held.csv", index=False)
    said = json.loads(run(*words, "held.csv", "--margin", "m").stdout)
    pairs[10:].to_csv("decided.csv", index=False)
    assert_same_numbers({**json.loads(run(*words, "decided.csv").stdout), "ties": 10}, said)
    questions = pairs.rename(columns={"a": "first", "b": "second"})[["first", "second"]]
    questions.assign(winner=["tie"] * 4 + [None] * 6 + ["first"] * 20).to_csv(
        "answers.csv", index=False
    )
    assert_same_numbers(
        {**said, "ties": 4, "unanswered": 6}, json.loads(run(*words, "answers.csv").stdout)
    )
    shown = run("evaluate", "w.corank", "answers.csv", "--items", "wines.csv").stdout
    assert (
        "PreferenceGP on 20 comparisons of answers.csv, without 4 ties and 6 not answered" in shown
    )
    assert re.search(rf"log loss +{said['log_loss']['value']:.4f}", shown)


@pytest.mark.parametrize("learned", ["comparisons", "scores"])
def test_evaluate_tells_the_chances_of_named_pairs(preference, learned):
    if learned == "scores":
        wines().assign(rating=quality(wines())).to_csv("rated.csv", index=False)
        more = (
            "--score",
            "rating",
            "--method",
            "difference",
            *QUICK,
            "--noise",
            "1",
            "--out",
            "w.corank",
            "--force",
        )
        run("fit", "rated.csv", *ITEMS, *more, "--quiet")
    pairs = pd.DataFrame({"a": ["000", "003"], "b": ["001", "002"]})
    named = pairs.set_axis(["first", "second"], axis=1)
    named.to_csv("which.csv", index=False)
    named.assign(winner=None).to_csv("open.csv", index=False)
    chance = probabilities(load("w.corank"), pairs)
    for file in ("which.csv", "open.csv"):
        shown = run(
            "evaluate", "w.corank", file, "--items", "wines.csv", "--out", "told.csv", "--force"
        ).stdout
        assert shown == "2 pairs written: told.csv\n"
        told = pd.read_csv("told.csv", dtype={"first": str, "second": str})
        np.testing.assert_allclose(told["first_wins"], chance)
        assert list(told["first"]) == ["000", "003"]
    shown = run("evaluate", "w.corank", "which.csv", "--items", "wines.csv").stdout
    assert re.search(rf"000 +001 +{chance[0]:.0%}", shown)
    assert "--out FILE writes them" in shown
    pairs.assign(m=0).to_csv("tied.csv", index=False)
    told = ("--winner", "a", "--loser", "b", "--margin", "m")
    assert re.search(
        rf"000 +001 +{chance[0]:.0%}",
        run("evaluate", "w.corank", "tied.csv", "--items", "wines.csv", *told).stdout,
    )


def test_evaluate_says_what_is_missing_for_comparisons(preference):
    held_out().to_csv("held.csv", index=False)
    said = error("evaluate", "w.corank", "held.csv")
    assert said.startswith("held.csv compares items")
    assert "--items" in said
    more = ("--items", "wines.csv")
    assert "is also an input file" in error(
        "evaluate", "w.corank", "held.csv", *more, "--out", "held.csv", "--force"
    )
    assert "use --force" in error("evaluate", "w.corank", "held.csv", *more, "--out", "pairs.csv")
    assert "there is no winner column 'x'" in error(
        "evaluate", "w.corank", "held.csv", *more, "--winner", "x"
    )
    Path("held.csv").write_text("a,b\n000,999\n")
    assert "'999' in data row 1 of held.csv" in error("evaluate", "w.corank", "held.csv", *more)
    RLS(1.0).fit(wines()[["sweetness"]], quality(wines())).save("r.corank")
    named = ("--winner", "a", "--loser", "b", *more)
    assert "--id" in error("evaluate", "r.corank", "pairs.csv", *named)
    assert (
        json.loads(run("evaluate", "r.corank", "pairs.csv", *named, *ITEMS, "--json").stdout)[
            "comparisons"
        ]
        == 40
    )
    assert "--out is for comparisons" in error(
        "evaluate", "r.corank", "wines.csv", "--score", "sweetness", "--out", "o.csv"
    )


# ---- scores of items that another table describes


def ratings():
    """Who gave what to which wine."""
    rng = np.random.default_rng(5)
    rows = np.concatenate([rng.permutation(24)[:12] for _ in range(3)])
    scores = quality(wines())[rows] + rng.normal(0, 0.2, 36)
    return pd.DataFrame(
        {
            "friend": np.repeat(["ann", "bob", "eve"], 12),
            "wine": wines()["wine"][rows],
            "rating": scores,
        }
    )


@pytest.fixture
def rated(folder):
    ratings().to_csv("ratings.csv", index=False)
    words = (
        "--score",
        "rating",
        "--query",
        "friend",
        "--id",
        "wine",
        "--method",
        "difference",
        *QUICK,
        "--noise",
        "1",
    )
    result = run("fit", "ratings.csv", *words, "--items", "wines.csv", "--out", "s.corank")
    assert "corank suggest s.corank wines.csv --out questions.csv" in result.stdout
    return folder


def test_scores_may_name_items_that_another_table_describes(rated):
    table = ratings()
    features, rows = encoded(), rows_of(table["wine"])
    whole = wines().drop(columns="wine").iloc[rows]
    encoder = TableEncoder().fit(whole)
    model = DifferenceGP(2.0, 0.3, 1.0).fit(
        encoder.transform(whole), table["rating"], qid=table["friend"]
    )
    found = load("s.corank")
    np.testing.assert_allclose(found.predict(features), model.predict(features))
    said = json.loads(
        run("evaluate", "s.corank", "ratings.csv", "--items", "wines.csv", "--json").stdout
    )
    error_ = disagreement_error(
        table["rating"], model.predict(encoder.transform(whole)), qid=table["friend"]
    )
    assert said["disagreement"]["value"] == pytest.approx(error_)
    words = ("fit", "ratings.csv", "--score", "rating", "--query", "friend", "--out", "x.corank")
    assert error(*words, "--id", "wine").startswith(
        "no column is left to learn from: add columns that describe the items"
    )
    assert "--items needs --id" in error(*words, "--items", "wines.csv")
    said = error("fit", "wines.csv", *ITEMS, *PAIRS, "--items", "wines.csv", "--out", "x.corank")
    assert said == "--items is for scores: with --comparisons the first table describes the items"


def test_questions_leave_room_for_a_query_that_the_pool_does_not_say(rated):
    result = run("suggest", "s.corank", "wines.csv", "-n", "3", "--out", "q.csv")
    assert "Next: fill in columns 'friend' and 'rating', then" in result.stdout
    update = ("update", "s.corank", "q.csv", "--items", "wines.csv", "--out", "t.corank")
    assert " ".join(("corank", *update[:-1])) in result.stdout
    questions = pd.read_csv("q.csv", dtype={"wine": str})
    assert list(questions.columns) == ["wine", "friend", "rating"]
    questions["rating"] = [None, 2.0, 3.0]
    questions["friend"] = ["ann", "ann", None]
    questions.to_csv("q.csv", index=False)
    said = error(*update)
    assert said.startswith("data row 3 of q.csv")
    assert "'friend'" in said
    questions.assign(friend="ann").to_csv("q.csv", index=False)
    said = run(*update).stderr
    assert "note: new rows are compared only with each other, even in a 'friend'" in said
    model = load("s.corank")
    features = model.encoder_.transform(wines())
    model.update(features[rows_of(questions["wine"][1:])], [2.0, 3.0], qid=["ann", "ann"])
    np.testing.assert_allclose(
        load("t.corank").predict(features), model.predict(features), rtol=1e-9
    )
    wines().drop(columns="wine").to_csv("nameless.csv", index=False)
    run("suggest", "s.corank", "nameless.csv", "--out", "whole.csv")
    assert list(pd.read_csv("whole.csv").columns)[:2] == ["friend", "rating"]


def test_fit_suggests_only_what_can_be_asked(folder):
    table = wines().assign(rating=quality(wines()))
    table.to_csv("rated.csv", index=False)
    words = (
        "fit",
        "rated.csv",
        *ITEMS,
        "--score",
        "rating",
        "--method",
        "difference",
        *QUICK,
        "--out",
        "d.corank",
    )
    assert "corank suggest d.corank NEW_FILE --out" in run(*words).stdout
    table.assign(rating=table["rating"].where(table.index < 20)).to_csv("rated.csv", index=False)
    assert "corank suggest d.corank rated.csv --out" in run(*words, "--force").stdout
    shown = run("fit", "wines.csv", *ITEMS, *PAIRS, "--out", "r.corank").stdout
    assert "--method preference can be updated with answers to what corank suggest asks" in shown


def test_wins_without_margins_are_noted(folder):
    words = (
        "fit",
        "wines.csv",
        *ITEMS,
        *PAIRS,
        "--method",
        "difference",
        *QUICK,
        "--out",
        "w.corank",
        "--force",
    )
    assert (
        "note: no --margin: every win counts as 1; --margin m would take column 'm'"
        in run(*words).stderr
    )
    assert run(*words, "--margin", "m").stderr == ""
    compared(wines())[["a", "b"]].to_csv("pairs.csv", index=False)
    assert run(*words).stderr == "corank: note: no --margin: every win counts as 1\n"


def test_who_answered_is_no_query(folder):
    held_out(friend="ann").to_csv("pairs.csv", index=False)
    said = error("fit", "wines.csv", *ITEMS, *PAIRS, "--query", "friend", "--out", "w.corank")
    assert said.startswith("--query 'friend'")
    assert "pairs.csv" in said
    assert "wines.csv" in said


def test_help_says_how_to_give_ties_and_what_std_is():
    said = " ".join(re.sub("[│╭╰─]", " ", run("fit", "--help").stdout).split())
    assert "also the answered questions of `corank suggest`" in said
    assert "A tie: two rows, a win for each, or with --method difference a margin of 0." in said
    assert "the level of the scores says nothing about the order" in " ".join(
        run("rank", "--help").stdout.split()
    )


# ---- suggest


def test_suggest_asks_what_the_model_asks(preference):
    said = json.loads(run("suggest", "w.corank", "wines.csv", "--number", "4", "--json").stdout)
    model, features, names = load("w.corank"), encoded(), wines()["wine"]
    pairs = model.suggest(features, 4)
    assert said["kind"] == "comparison"
    assert [(one["first"], one["second"]) for one in said["questions"]] == [
        (names[i], names[j]) for i, j in pairs
    ]
    chances = model.predict_comparison(features[pairs[:, 0]], features[pairs[:, 1]], observed=True)
    np.testing.assert_allclose([one["first_wins"] for one in said["questions"]], chances)
    shown = run("suggest", "w.corank", "wines.csv", "--number", "4").stdout
    assert "4 comparisons to ask for, the most informative first" in shown
    assert re.search(rf"1 +{names[pairs[0, 0]]} +{names[pairs[0, 1]]} +{chances[0]:.0%}", shown)
    assert "--out FILE writes them" in shown
    assert "next answer is first" in shown
    shown = run("suggest", "w.corank", "wines.csv", "-n", "4", "--out", "q.csv").stdout
    assert (
        "fill in column 'winner' with the better of the two, or first, second or tie, then" in shown
    )


def test_suggest_can_ask_for_scores(preference):
    said = json.loads(run("suggest", "w.corank", "wines.csv", "--kind", "score", "--json").stdout)
    model, features = load("w.corank"), encoded()
    rows = model.suggest(features, 5, "score")
    mean, cov = model.predict(features, return_cov=True)
    assert [one["item"] for one in said["questions"]] == list(wines()["wine"][rows])
    np.testing.assert_allclose([one["score"] for one in said["questions"]], mean[rows])
    np.testing.assert_allclose([one["std"] for one in said["questions"]], without_level(cov)[rows])
    result = run("suggest", "w.corank", "wines.csv", "--kind", "score", "--out", "q.csv")
    assert "corank update" not in result.stdout  # comparisons taught the model, scores cannot
    assert list(pd.read_csv("q.csv").columns) == ["wine", "score"]


def test_suggest_asks_no_more_than_there_is(preference):
    wines(3).to_csv("three.csv", index=False)
    assert (
        len(json.loads(run("suggest", "w.corank", "three.csv", "--json").stdout)["questions"]) == 3
    )
    wines(1).to_csv("one.csv", index=False)
    assert (
        error("suggest", "w.corank", "one.csv") == "one.csv has no two rows that could be compared"
    )
    assert "--number" in error("suggest", "w.corank", "three.csv", "--number", "0")


def test_suggest_without_names_speaks_of_rows(preference):
    wines().drop(columns="wine").to_csv("nameless.csv", index=False)
    result = run("suggest", "w.corank", "nameless.csv", "--json")
    assert "note: nameless.csv has no column 'wine', which named the items in fit" in result.stderr
    asked = load("w.corank").suggest(encoded(), 5) + 1
    found = json.loads(result.stdout)["questions"]
    assert [[one["first"], one["second"]] for one in found] == asked.tolist()
    assert "there is no item column 'wne'" in error(
        "suggest", "w.corank", "wines.csv", "--item", "wne"
    )


def test_models_that_suggest_nothing_are_told_from_those_that_do(folder):
    RankRLS(1.0).fit(wines()[["sweetness"]], quality(wines())).save("r.corank")
    said = error("suggest", "r.corank", "wines.csv")
    assert said.startswith("RankRLS cannot suggest questions")
    able = {name for name in stored_learners() if hasattr(learner_class(name), "suggest")}
    assert {"PreferenceGP", "DifferenceGP", "CoRankRLS"} <= able
    assert "--method preference or difference" in said
    assert "--method corankrls or corls" in said


def test_models_of_several_views_suggest_too(folder):
    table = wines().assign(rating=np.where(np.arange(24) < 12, quality(wines()), np.nan))
    columns = ["grape", "sweetness", "country"]
    encoder = TableEncoder().fit(table[columns])
    views = [View([0, 1, 2]), View(slice(3, None))]
    model = CoRankRLS(views, 1.0, 0.1).fit(encoder.transform(table[columns]), table["rating"])
    model.table_ = {"score": "rating", "id": "wine"}
    model.save("v.corank", encoder=encoder)
    table.to_csv("rated.csv", index=False)
    said = json.loads(run("suggest", "v.corank", "rated.csv", "--number", "2", "--json").stdout)
    assert [sorted(one) for one in said["questions"]] == [["item", "row", "score"]] * 2
    assert all(int(one["item"]) >= 12 for one in said["questions"])
    pairs = json.loads(
        run("suggest", "v.corank", "rated.csv", "--kind", "comparison", "--json").stdout
    )
    assert all(
        sorted(one) == ["first", "first_row", "second", "second_row"] for one in pairs["questions"]
    )


def test_suggest_overwrites_nothing_unasked(preference):
    assert "is also an input file" in error(
        "suggest", "w.corank", "wines.csv", "--out", "wines.csv", "--force"
    )
    assert "use --force" in error("suggest", "w.corank", "wines.csv", "--out", "pairs.csv")
    assert run("suggest", "w.corank", "wines.csv", "--out", "q.csv", "--quiet").output == ""
    assert "the model comes first" in error("suggest", "wines.csv", "w.corank")


# ---- update


def answered(file, better):
    """The questions of a file, each answered by whoever is better."""
    questions = pd.read_csv(file, dtype=str)
    names, values = list(wines()["wine"]), better
    pairs = zip(questions["first"], questions["second"], strict=True)
    questions["winner"] = [max(pair, key=lambda name: values[names.index(name)]) for pair in pairs]
    return questions


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_fit_suggest_answer_update_is_a_loop_on_comparisons(preference, kind):
    truth, table = quality(wines()), wines()
    Path("w.corank").rename("w0.corank")
    for turn in range(2):
        model, new, file = f"w{turn}.corank", f"w{turn + 1}.corank", f"q{turn}.{kind}"
        shown = run("suggest", model, "wines.csv", "--out", file).stdout
        assert f"corank update {model} {file} --items wines.csv --out NEW.corank" in shown
        questions = pd.read_csv(file, dtype=str) if kind == "csv" else pd.read_parquet(file)
        assert list(questions.columns) == ["first", "second", "winner"]
        assert questions["winner"].isna().all()
        assert "fill in column 'winner'" in error(
            "update", model, file, "--items", "wines.csv", "--out", new
        )
        names = list(table["wine"])
        pairs = [*zip(questions["first"], questions["second"], strict=True)]
        questions["winner"] = [
            max(pair, key=lambda name: truth[names.index(name)]) for pair in pairs
        ]
        getattr(questions, f"to_{kind}")(file, index=False)
        result = run("update", model, file, "--items", "wines.csv", "--out", new)
        words = " ".join(result.stdout.split())
        assert (
            f"PreferenceGP updated with {file} added 5 answers now {45 + 5 * turn} comparisons of"
            in words
        )
        # the same as handing the answers to the model in Python
        losers = [
            pair[0] if winner == pair[1] else pair[1]
            for pair, winner in zip(pairs, questions["winner"], strict=True)
        ]
        by_hand = load(model).update_comparisons(
            encoded(), rows_of(questions["winner"]), rows_of(losers)
        )
        np.testing.assert_allclose(
            load(new).predict(encoded()), by_hand.predict(encoded()), rtol=1e-9
        )
    assert "fitted on 50 comparisons of" in " ".join(run("inspect", "w2.corank").stdout.split())
    assert json.loads(run("inspect", "w2.corank", "--json").stdout)["id_column"] == "wine"


def test_items_of_a_loop_stay_the_same_items(preference):
    Path("answers.csv").write_text("a,b\n000,001\n")
    before = len(load("w.corank").coef_)
    run("update", "w.corank", "pairs.csv", "--again", "--items", "wines.csv", "--out", "v.corank")
    assert len(load("v.corank").coef_) == before
    assert load("v.corank")._data.counts.sum() == 80


@pytest.mark.parametrize("method", ["preference", "difference"])
def test_answers_may_be_words_and_ties(folder, method):
    words = (
        *ITEMS,
        *PAIRS,
        *QUICK,
        "--method",
        method,
        *(("--margin", "m") if method == "difference" else ()),
    )
    run("fit", "wines.csv", *words, "--out", "w.corank")
    run("suggest", "w.corank", "wines.csv", "--number", "4", "--out", "q.csv")
    questions = pd.read_csv("q.csv", dtype=str)
    assert ("m" in questions) == (method == "difference")
    questions["winner"] = ["first", "Second", "tie", None]
    if method == "difference":
        questions["m"] = ["0.5", "1.5", None, None]
    questions.to_csv("q.csv", index=False)
    shown = " ".join(
        run(
            "update", "w.corank", "q.csv", "--items", "wines.csv", "--out", "v.corank"
        ).stdout.split()
    )
    assert (
        f"added 3 answers (1 tie{': a win for both' if method == 'preference' else ''}), 1 not"
        " answered" in shown
    )
    first, second = rows_of(questions["first"]), rows_of(questions["second"])
    model = load("w.corank")
    if method == "difference":
        won, lost = [first[0], second[1], first[2]], [second[0], first[1], second[2]]
        model.update_comparisons(encoded(), won, lost, margins=[0.5, 1.5, 0])
    else:
        won, lost = (
            [first[0], second[1], first[2], second[2]],
            [
                second[0],
                first[1],
                second[2],
                first[2],
            ],
        )
        model.update_comparisons(encoded(), won, lost)
    np.testing.assert_allclose(
        load("v.corank").predict(encoded()), model.predict(encoded()), rtol=1e-9
    )


@pytest.mark.parametrize("names", [("first", "second"), ("winner", "loser"), ("a", "b")])
def test_answered_questions_are_told_from_comparisons(folder, names):
    compared(wines())[["a", "b"]].set_axis(names, axis=1).to_csv("pairs.csv", index=False)
    told = (
        "--comparisons",
        "pairs.csv",
        "--winner",
        names[0],
        "--loser",
        names[1],
        "--method",
        "preference",
        *QUICK,
    )
    run("fit", "wines.csv", *ITEMS, *told, "--out", "w.corank")
    better = pd.DataFrame(
        {"first": ["000", "001"], "second": ["002", "003"], "winner": ["002", "001"]}
    )
    better.to_csv("answers.csv", index=False)
    pd.DataFrame([("002", "000"), ("001", "003")], columns=names).to_csv("same.csv", index=False)
    both = better.assign(**{names[0]: better["winner"], names[1]: ["000", "003"]})
    both.to_csv("both.csv", index=False)
    expected = load("w.corank").update_comparisons(encoded(), [2, 1], [0, 3]).predict(encoded())
    for file in ("answers.csv", "same.csv", *(["both.csv"] if names[0] != "first" else [])):
        run("update", "w.corank", file, "--items", "wines.csv", "--out", "v.corank", "--force")
        np.testing.assert_allclose(load("v.corank").predict(encoded()), expected, rtol=1e-9)


@pytest.mark.parametrize("ids", [True, False], ids=["by id", "whole rows"])
def test_fit_suggest_answer_update_is_a_loop_on_scores(folder, ids):
    truth = quality(wines())
    rated = wines().assign(rating=np.where(np.arange(24) < 10, truth, np.nan))
    rated.to_csv("rated.csv", index=False)
    name = ("--id", "wine") if ids else ("--drop", "wine")
    words = (*name, "--score", "rating", "--method", "difference", *QUICK, "--noise", "0.1")
    run("fit", "rated.csv", *words, "--out", "w0.corank", "--quiet")
    for turn in range(2):
        model, new, file = f"w{turn}.corank", f"w{turn + 1}.corank", f"q{turn}.csv"
        shown = run("suggest", model, "rated.csv", "--number", "3", "--out", file).stdout
        beside = ("--items", "rated.csv") if ids else ()
        assert " ".join(("corank", "update", model, file, *beside, "--out", "NEW.corank")) in shown
        questions = pd.read_csv(file, dtype={"wine": str})
        assert list(questions.columns) == (
            ["wine", "rating"] if ids else ["rating", *wines().columns]
        )
        rows = [int(name) for name in questions["wine"]]
        assert min(rows) >= 10  # the others are scored
        assert "there is nothing to add" in error("update", model, file, *beside, "--out", new)
        questions.loc[[0, 1], "rating"] = truth[rows][:2]  # the third is left unanswered
        questions.to_csv(file, index=False)
        run("update", model, file, *beside, "--out", new)
        by_hand = load(model).update(encoded()[rows[:2]], truth[rows[:2]])
        np.testing.assert_allclose(
            load(new).predict(encoded()), by_hand.predict(encoded()), rtol=1e-9
        )
        rated.loc[rows[:2], "rating"] = truth[rows[:2]]
        rated.to_csv("rated.csv", index=False)
    assert json.loads(run("inspect", "w2.corank", "--json").stdout)["scored"] == 14


def test_update_with_scored_rows_of_any_learner(folder):
    truth = quality(wines())
    table = wines().assign(rating=truth, person=np.arange(24) % 3)
    table[:15].to_csv("old.csv", index=False)
    table[15:].to_csv("new.csv", index=False)
    words = ("--id", "wine", "--query", "person", "--score", "rating")
    for method in ("rankrls", "rls", "difference"):
        run(
            "fit",
            "old.csv",
            *words,
            "--method",
            method,
            "--gamma",
            "0.3",
            "--out",
            f"{method}.corank",
            "--quiet",
        )
        said = json.loads(
            run(
                "update", f"{method}.corank", "new.csv", "--out", f"{method}2.corank", "--json"
            ).stdout
        )
        assert (said["added"], said["scored"], said["queries"]) == (9, 24, 6)
        model = load(f"{method}.corank")
        by_hand = model.update(
            model.encoder_.transform(table[15:]), truth[15:], qid=np.arange(15, 24) % 3
        )
        np.testing.assert_allclose(
            load(f"{method}2.corank").predict(table), by_hand.predict(table), rtol=1e-9
        )
    run("fit", "old.csv", *words, "--method", "pursuit", "--out", "p.corank", "--quiet")
    assert "fit again with all rows" in error("update", "p.corank", "new.csv", "--out", "p2.corank")


def test_update_says_what_is_missing(preference):
    update = ("update", "w.corank")
    Path("answers.csv").write_text("first,second,winner\n000,001,002\n")
    assert "--items" in error(*update, "answers.csv", "--out", "v.corank")
    whole = ("--items", "wines.csv", "--out", "v.corank")
    said = error(*update, "answers.csv", *whole)
    assert said.startswith("data row 1 of answers.csv: column 'winner' must name the winner, ")
    Path("other.csv").write_text("a,b\n000,999\n")
    assert "'999' in data row 1 of other.csv" in error(*update, "other.csv", *whole)
    assert "--margin does not go with PreferenceGP" in error(
        *update, "pairs.csv", *whole, "--margin", "m"
    )
    wines()[["wine", "country"]].to_csv("lack.csv", index=False)
    assert "'sweetness'" in error(
        *update, "pairs.csv", "--again", "--items", "lack.csv", "--out", "v.corank"
    )
    assert not Path("v.corank").exists()


def test_update_overwrites_only_when_told(preference):
    words = ("update", "w.corank", "pairs.csv", "--again", "--items", "wines.csv", "--out")
    before = Path("w.corank").read_bytes()
    assert "w.corank already exists: use --force" in error(*words, "w.corank")
    assert Path("w.corank").read_bytes() == before
    assert "extension of a table" in error(*words, "w.csv")
    run(*words, "w.corank", "--force", "--quiet")
    assert load("w.corank").table_["comparisons"] == 80


def test_models_that_cannot_be_updated_say_what_to_do(folder):
    run("fit", "wines.csv", *ITEMS, *PAIRS, "--method", "rankrls", "--out", "r.corank", "--quiet")
    said = error("update", "r.corank", "pairs.csv", "--items", "wines.csv", "--out", "s.corank")
    assert said.startswith(
        "RankRLS on comparisons cannot be updated: add the new ones to the table"
    )
    table = wines().assign(rating=quality(wines()), person="x")
    encoder = TableEncoder().fit(wines()[["sweetness"]])
    features = encoder.transform(wines()[["sweetness"]])
    RLS(1.0).fit(features, table["rating"]).save("p.corank", encoder=encoder)
    table[["wine", "rating"]].to_csv("scores.csv", index=False)
    table.to_csv("all.csv", index=False)
    more = ("--score", "rating", "--out", "s.corank")
    assert "has none of the columns that the model learns from" in error(
        "update", "p.corank", "scores.csv", *more
    )
    said = error("update", "p.corank", "scores.csv", *more, "--items", "wines.csv")
    assert said == "the model does not remember which column names the items: name it with --id"
    run("update", "p.corank", "scores.csv", *more, "--items", "wines.csv", "--item", "wine")
    assert "fitted without queries" in error(
        "update", "p.corank", "all.csv", *more, "--query", "person", "--force"
    )
    assert "--winner is for comparisons" in error(
        "update", "p.corank", "all.csv", *more, "--winner", "a", "--force"
    )
    RankRLS(1.0).fit(features, table["rating"], qid=table["person"]).save(
        "q.corank", encoder=encoder
    )
    assert "holds them with --query" in error("update", "q.corank", "all.csv", *more, "--force")
    run("update", "q.corank", "all.csv", *more, "--query", "person", "--force")


def test_models_from_python_suggest_and_are_updated(folder):
    encoder = TableEncoder().fit(wines().drop(columns="wine"))
    pairs, features = compared(wines()), encoded()
    for model in (PreferenceGP(2.0, 0.3), DifferenceGP(2.0, 0.3, 1.0)):
        name = type(model).__name__
        model.fit_comparisons(features, rows_of(pairs["a"]), rows_of(pairs["b"])).save(
            f"{name}.corank", encoder=encoder
        )
        run("suggest", f"{name}.corank", "wines.csv", "--item", "wine", "--out", f"{name}.csv")
        answered(f"{name}.csv", quality(wines())).to_csv(f"{name}.csv", index=False)
        beside = ("--items", "wines.csv", "--item", "wine")
        run("update", f"{name}.corank", f"{name}.csv", *beside, "--out", f"{name}2.corank")
        assert "fitted on 45 comparisons" in " ".join(
            run("inspect", f"{name}2.corank").stdout.split()
        )


def test_updates_with_comparisons_within_queries_say_which(folder):
    compared(wines(), within="country").to_csv("pairs.csv", index=False)
    for method in ("preference", "difference"):
        words = (
            *ITEMS,
            *PAIRS,
            "--query",
            "country",
            "--method",
            method,
            *QUICK,
            "--out",
            f"{method}.corank",
        )
        run("fit", "wines.csv", *words, "--quiet")
        run(
            "update",
            f"{method}.corank",
            "pairs.csv",
            "--again",
            "--items",
            "wines.csv",
            "--out",
            f"{method}2.corank",
        )
        assert load(f"{method}2.corank").table_["comparisons"] == 80


@pytest.mark.parametrize("learner", [PreferenceGP, DifferenceGP])
def test_inspect_of_a_precomputed_kernel(folder, learner):
    pairs, features = compared(wines()), encoded()
    model = learner(kernel="precomputed", amplitude=2.0)
    model.fit_comparisons(features @ features.T, rows_of(pairs["a"]), rows_of(pairs["b"])).save(
        "k.corank"
    )
    said = json.loads(run("inspect", "k.corank", "--json").stdout)
    assert said["comparisons"] == 40
    assert "fitted on 40 comparisons" in " ".join(run("inspect", "k.corank").stdout.split())


# ---- files that are no tables


def test_names_that_are_lists_and_cells_that_are_long(preference, refused):
    pd.DataFrame({"first": [["000"]], "second": ["001"], "winner": ["001"]}).to_parquet(
        "lists.parquet"
    )
    wines().assign(sweetness="dry" * 4000).to_csv("long.csv", index=False)
    out = ("--out", "v.corank")
    refused("update", "w.corank", "lists.parquet", "--items", "wines.csv", *out, mentions="'first'")
    assert len(refused("suggest", "w.corank", "long.csv", mentions="data row 1")) < 150
    Path("answers.csv").write_text("first,second,winner\r\n000,001,001\r\n")
    run("update", "w.corank", "answers.csv", "--items", "wines.csv", *out)
