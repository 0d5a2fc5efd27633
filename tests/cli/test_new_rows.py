"""What people see of new rows: ids and numbers of rows, the screen, values that a model does not
know, and how sure it is.
"""

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command_line import error, run

from corank import load
from corank.cli.rank import _most_likely

N = 40


def shop(n=N, scored=30):
    rng = np.random.default_rng(0)
    price = rng.uniform(5, 99, n).round(2)
    rating = (price / 10 + rng.normal(0, 0.5, n)).round(1)
    return pd.DataFrame(
        {
            "sku": [f"{row:03d}" for row in range(n)],
            "price": price,
            "colour": rng.choice(["red", "blue"], n),
            "story": [
                f"a long story about item {row}, told in several words each time"
                for row in range(n)
            ],
            "title": [f"Item {row}" for row in range(n)],
            "rating": np.where(np.arange(n) < scored, rating, np.nan),
        }
    )


FIT = ("--score", "rating", "--drop", "story", "--quiet")


@pytest.fixture
def fitted(tmp_path, monkeypatch):
    """A shop, and a model that knows its items by two columns."""
    monkeypatch.chdir(tmp_path)
    shop().to_csv("shop.csv", index=False)
    run("fit", "shop.csv", "--id", "sku,title", *FIT, "--out", "m.corank")


def columns_of(*words):
    return run(*words, "--out", "-").stdout.splitlines()[0].replace('"', "").split(",")


# ---- ids


def test_several_ids_are_not_learned_from_and_come_first(fitted):
    model = load("m.corank")
    assert {"sku", "title"}.isdisjoint(model.encoder_.feature_names_in_)
    results = ["rank", "score", "std"]
    assert columns_of("rank", "m.corank", "shop.csv") == [
        *results,
        "sku",
        "title",
        "row",
        "price",
        "colour",
        "story",
        "rating",
    ]
    assert columns_of("rank", "m.corank", "shop.csv", "--id", "title,sku") == [
        *results,
        "title",
        "sku",
        "row",
    ]
    assert "'nothing'" in error("rank", "m.corank", "shop.csv", "--id", "sku,nothing")
    run("suggest", "m.corank", "shop.csv", "-n", "3", "--out", "ask.csv", "--quiet")
    asked = pd.read_csv("ask.csv", dtype=str)
    assert list(asked.columns) == ["sku", "title", "rating"]
    questions = json.loads(run("suggest", "m.corank", "shop.csv", "-n", "3", "--json").stdout)[
        "questions"
    ]
    assert [(entry["item"], entry["row"]) for entry in questions] == [
        (sku, int(sku) + 1) for sku in asked["sku"]
    ]


def letor(path, unlabelled):
    rng = np.random.default_rng(1)
    with Path(path).open("w") as file:
        for query in range(10):
            for item in range(6):
                x = rng.normal(size=3).round(3)
                score = unlabelled if query > 7 else int(np.clip(round(x[0] + 1.5), 0, 4))
                features = " ".join(f"{number}:{value}" for number, value in enumerate(x, 1))
                file.write(
                    f"{score} qid:{query} {features} #docid = GX{query}-{item} inc = 1 prob = 0.5\n"
                )


@pytest.mark.parametrize(("unlabelled", "words"), [("nan", ()), ("-1", ("--unlabelled", "-1"))])
def test_comments_of_letor_files_name_the_rows(fitted, unlabelled, words):
    letor("q.letor", unlabelled)
    said = json.loads(run("fit", "q.letor", *words, "--out", "l.corank", "--json").stdout)
    assert (said["id"], said["scored"], said["rows"], said["features"]) == ("docid", 48, 60, 3)
    ranked = json.loads(run("rank", "l.corank", "q.letor", "--json").stdout)["ranking"]
    assert ranked[0]["docid"] == f"GX0-{ranked[0]['row'] - 1}"
    asked = json.loads(run("suggest", "l.corank", "q.letor", "-n", "1", "--json").stdout)[
        "questions"
    ]
    assert {entry["item"][:3] for entry in asked} == {"GX8", "GX9"}
    assert "unlabelled" in error(
        "fit", "*.letor", "--score", "score", "--unlabelled", "-1", "--out", "x.corank"
    )


def test_a_folder_of_letor_files_keeps_the_names(fitted):
    Path("many").mkdir()
    letor("many/a.letor", "nan")
    Path("many/b.letor").write_text(Path("many/a.letor").read_text().replace("qid:", "qid:1"))
    run("fit", "many", "--method", "rankrls", "--out", "f.corank", "--quiet")
    run("rank", "f.corank", "many", "--id", "docid", "--out", "ranked.csv", "--quiet")
    ranked = pd.read_csv("ranked.csv")
    assert list(ranked.columns) == ["rank", "score", "docid", "row", "qid"]
    assert sorted(ranked["row"]) == list(range(1, 121))


def test_repeated_ids_are_noted_within_queries_unless_they_are_items(fitted):
    table = shop().assign(sku=["000", *shop()["sku"][:-1]], who=np.arange(N) % 2)
    table.to_csv("twice.csv", index=False)
    words = (
        "fit",
        "twice.csv",
        "--id",
        "sku",
        "--score",
        "rating",
        "--drop",
        "story,title",
        "--out",
        "t.corank",
        "--force",
    )
    assert "'sku' has 1 value in several rows, such as '000'" in run(*words).stderr
    assert "several rows" not in run(*words, "--query", "who", "--method", "rankrls").stderr
    assert "are one item" in run(*words, "--query", "who").stderr
    assert load("t.corank").table_["item"] == "sku"


# ---- predict


def test_predict_keeps_the_order_of_the_rows(fitted):
    run("predict", "m.corank", "shop.csv", "--out", "p.csv")
    run("rank", "m.corank", "shop.csv", "--out", "r.csv")
    predicted, ranked = (pd.read_csv(name, dtype={"sku": str}) for name in ("p.csv", "r.csv"))
    assert list(predicted["sku"]) == list(shop()["sku"])
    assert "rank" not in predicted
    pd.testing.assert_series_equal(
        predicted.set_index("sku")["score"],
        ranked.set_index("sku")["score"].loc[list(predicted["sku"])],
    )
    assert (
        json.loads(run("predict", "m.corank", "shop.csv", "--json").stdout)["predictions"][0]["sku"]
        == "000"
    )
    assert "The first of 40 rows" in run("predict", "m.corank", "shop.csv").stdout


# ---- the screen


def test_a_narrow_screen_shows_rank_score_and_ids_and_says_what_is_left_out(fitted, monkeypatch):
    monkeypatch.setattr("corank.cli.rank.width_of_screen", lambda: 60)
    lines = run("rank", "m.corank", "shop.csv", "--top", "3").stdout.splitlines()
    header = next(line for line in lines if "rank" in line)
    assert header.split()[:5] == ["rank", "score", "std", "sku", "title"]
    assert "…" not in header
    assert "not shown: " in lines[-1]
    assert "story" in lines[-1]
    assert max(map(len, lines[1:-1])) <= 60


# ---- values that a model does not know


def test_rows_unlike_those_of_the_fit_are_counted_and_named(fitted):
    new = shop()
    new.loc[2, "price"] = 4_999.0
    new.loc[[3, 4], "colour"] = "teal"
    new.to_csv("new.csv", index=False)
    result = run("predict", "m.corank", "new.csv", "--json")
    assert "1 of 40 rows of new.csv have values far outside" in result.stderr
    assert "price in 1" in result.stderr
    assert (
        "2 of 40 rows of new.csv have values that the model has not seen (colour in 2)"
        in result.stderr
    )
    rows = json.loads(result.stdout)["predictions"]
    assert [row["unusual"] for row in rows[:6]] == [None, None, "price", "colour", "colour", None]
    assert (
        "unusual"
        not in json.loads(run("predict", "m.corank", "shop.csv", "--json").stdout)["predictions"][0]
    )


def test_prices_with_a_unit_and_dates_are_read_and_said(fitted):
    table = shop().assign(price=[f"{price} EUR" for price in shop()["price"]])
    table["day"] = [f"{1 + row % 28:02d}/{1 + row % 12:02d}/2024" for row in range(N)]
    table.to_csv("units.csv", index=False)
    result = run("fit", "units.csv", "--score", "rating", "--id", "sku", "--out", "u.corank")
    assert "read as numbers with a unit: price (EUR)" in result.stderr
    assert "read as dates: day (like 31/12/2024)" in result.stderr
    assert "'title' looks like a name" in result.stderr
    assert "as a number of EUR" in result.stdout


# ---- evaluate


def test_rows_of_the_fit_are_not_evaluated_as_new_ones(fitted):
    result = run("evaluate", "m.corank", "shop.csv", "--json")
    measures = json.loads(result.stdout)
    assert measures["seen_in_training"] == measures["scored"] == 30
    assert "root mean squared error" in measures["held_out_error"]
    shown = run("evaluate", "m.corank", "shop.csv").stdout
    assert "seen in training" in shown
    assert "disagreement" not in shown
    shop(scored=N).to_csv("all.csv", index=False)
    result = run("evaluate", "m.corank", "all.csv", "--json")
    measures = json.loads(result.stdout)
    assert measures["scored"] == 10
    assert "30 scored rows" in result.stderr
    assert 0 < measures["mae"]["value"] <= measures["rmse"]["value"] < 2


# ---- how sure the ranks are


def test_chances_say_how_likely_each_item_is_the_best(fitted):
    rows = json.loads(run("rank", "m.corank", "shop.csv", "--chances", "--json").stdout)["ranking"]
    assert sum(row["best"] for row in rows) == pytest.approx(1)
    assert (
        f"the first is the best with a probability of {rows[0]['best']:.0%}"
        in run("rank", "m.corank", "shop.csv").stdout
    )
    assert all(row["rank_low"] <= row["rank"] <= row["rank_high"] for row in rows[:5])
    run("fit", "shop.csv", "--method", "rls", *FIT, "--out", "plain.corank")
    assert "--chances" in error("rank", "plain.corank", "shop.csv", "--chances")


def test_chances_that_are_not_known_are_left_out_with_their_sentence(fitted):
    shop(1_001).to_csv("large.csv", index=False)
    result = run("rank", "m.corank", "large.csv", "--chances")
    assert "nan" not in result.stdout
    assert "probability" not in result.stdout
    assert "more than 1,000 rows" in result.stderr
    assert "--top 1000" in result.stderr
    assert not {"best", "rank_low", "rank_high"} & set(
        columns_of("rank", "m.corank", "large.csv", "--chances")
    )
    # what the note says to do
    run("rank", "m.corank", "large.csv", "--top", "1000", "--out", "best.csv")
    rows = json.loads(run("rank", "m.corank", "best.csv", "--chances", "--json").stdout)["ranking"]
    assert sum(row["best"] for row in rows) == pytest.approx(1)


@pytest.mark.parametrize("first", ["small", "large"])
def test_chances_are_those_of_the_queries_that_are_small_enough(fitted, first):
    wide, narrow = shop(1_001).assign(user="large"), shop(5).assign(user="small")
    tables = [narrow, wide] if first == "small" else [wide, narrow]
    pd.concat(tables).to_csv("both.csv", index=False)
    result = run("rank", "m.corank", "both.csv", "--query", "user", "--chances")
    assert ("the first is the best with a probability" in result.stdout) == (first == "small")
    assert "nan" not in result.stdout
    assert "1 of 2 queries" in result.stderr
    rows = json.loads(
        run("rank", "m.corank", "both.csv", "--query", "user", "--chances", "--json").stdout
    )["ranking"]
    assert sum(row["best"] for row in rows if row["user"] == "small") == pytest.approx(1)
    empty = [
        row[name]
        for row in rows
        if row["user"] == "large"
        for name in ("best", "rank_low", "rank_high")
    ]
    assert set(empty) == {None}


def test_chances_of_a_folder_are_refused(fitted):
    Path("shops").mkdir()
    shop().to_csv("shops/one.csv", index=False)
    assert "--chances needs all rows in memory" in error(
        "rank", "m.corank", "shops", "--chances", "--out", "r.csv"
    )


def test_a_less_certain_item_that_is_more_likely_the_best_is_named():
    table = pa.table({"name": ["a", "b", "c"]})
    assert _most_likely(np.array([0.5, 0.2, 0.3]), table, ["name"]).endswith("50%")
    sentence = _most_likely(np.array([0.2, 0.1, 0.7]), table, ["name"])
    assert "number 3, c, of 70%" in sentence


# ---- tables


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_a_table_without_a_header_has_numbered_columns(fitted, ending):
    rows = shop()[["price", "colour", "rating"]].to_csv(index=False, header=False).encode()
    Path(f"rows.{ending}").write_bytes(gzip.compress(rows) if ending == "csv.gz" else rows)
    said = json.loads(
        run(
            "fit", f"rows.{ending}", "--no-header", "--score", "3", "--out", "n.corank", "--json"
        ).stdout
    )
    assert (said["rows"], said["score"]) == (N, "3")
    assert columns_of("--no-header", "predict", "n.corank", f"rows.{ending}")[:5] == [
        "score",
        "std",
        "row",
        "1",
        "2",
    ]
    assert "--no-header" in error("fit", ".", "--no-header", "--score", "3", "--out", "x.corank")


def test_spreadsheets_are_to_be_saved_as_csv(fitted):
    Path("shop.xlsx").write_bytes(b"PK")
    assert "save it as CSV" in error("fit", "shop.xlsx", "--score", "rating", "--out", "x.corank")


def test_settings_are_chosen_by_the_scoring_that_is_given(fitted):
    words = ("--method", "rankrls", "--scoring", "disagreement", *FIT)
    run("fit", "shop.csv", *words, "--id", "sku", "--out", "s.corank")
    assert load("s.corank").path_.scoring == "disagreement"
    assert "--scoring does not go with --method preference" in error(
        "fit",
        "shop.csv",
        "--method",
        "preference",
        "--scoring",
        "squared",
        *FIT,
        "--out",
        "x.corank",
    )


@pytest.mark.parametrize("method", ["rls", "kpcr", "matching"])
def test_the_shell_has_the_defaults_of_python(fitted, method):
    run("fit", "shop.csv", "--method", method, *FIT, "--id", "sku", "--out", "d.corank")
    model = load("d.corank")
    assert model.get_params() == type(model)().get_params()


# ---- which columns matter


def test_inspect_and_the_report_say_which_columns_matter(fitted):
    said = json.loads(run("inspect", "m.corank", "--data", "shop.csv", "--json").stdout)[
        "column_effects"
    ]
    assert [effect["column"] for effect in said] == ["price", "colour"]
    price = said[0]
    assert price["increase"] > 5 * price["standard_error"] > 0
    assert price["effects"] == sorted(price["effects"])
    assert max(price["deviations"]) < price["effects"][-1]
    assert sorted(said[1]["values"]) == ["blue", "red"]
    assert "highest at" in run("inspect", "m.corank", "--data", "shop.csv").stdout
    run("fit", "shop.csv", *FIT, "--id", "sku,title", "--out", "r.corank", "--report", "r.html")
    assert "Columns by how much they matter" in Path("r.html").read_text()


# ---- more rows without scores


def test_rows_of_a_second_table_have_no_scores_and_queries_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = shop()
    table[:30].to_csv("scored.csv", index=False)
    table[30:].assign(rating=9.0, size=1).to_csv("more.csv", index=False)
    fit = ("fit", "scored.csv", "--score", "rating", "--id", "sku")
    learned = json.loads(run(*fit, "--out", "m.corank", "--unscored", "more.csv", "--json").stdout)
    assert (learned["method"], learned["rows"], learned["scored"]) == ("AutoRegressor", N, 30)
    table.to_csv("all.csv", index=False)
    run("fit", "all.csv", *fit[2:], "--out", "same.corank")
    features = load("m.corank").encoder_.transform(table)
    np.testing.assert_allclose(
        load("m.corank").predict(features), load("same.corank").predict(features), rtol=1e-9
    )
    by_colour = (
        "--query",
        "colour",
        "--out",
        "q.corank",
        "--force",
        "--json",
        "--unscored",
        "more.csv",
    )
    assert json.loads(run(*fit, *by_colour).stdout)["queries"] == 4
    assert "column 'colour'" in _refused(table[30:].drop(columns="colour"), *fit, *by_colour)
    assert "incompatible types" in _refused(
        table[30:].assign(price="dear"), *fit, "--out", "n.corank", "--unscored", "more.csv"
    )


def _refused(more, *words):
    more.to_csv("more.csv", index=False)
    return error(*words)


def test_several_ids_go_into_one_option(fitted):
    message = error("rank", "m.corank", "shop.csv", "--id", "sku", "--id", "title")
    assert "--id sku,name" in message


def test_features_that_no_row_of_an_svmlight_file_names_are_counted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).random((30, 6)).round(3)
    lines = [" ".join(f"{at}:{value}" for at, value in enumerate(row, start=1)) for row in rows]
    Path("all.txt").write_text(
        "".join(f"{number % 5} {line}\n" for number, line in enumerate(lines))
    )
    Path("few.txt").write_text("".join(f"0 {' '.join(line.split()[:2])}\n" for line in lines))
    run("fit", "all.txt", "--out", "m.corank")
    assert "4 of the 6 features" in run("rank", "m.corank", "few.txt").stderr
    fit = run("fit", "all.txt", "--unscored", "few.txt", "--out", "u.corank")
    assert "the scores in few.txt are not learned from" in fit.stderr


def test_names_of_wide_letters_are_not_cut(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shop().assign(sku=[f"東京都新宿区{number}" for number in range(N)]).to_csv(
        "wide.csv", index=False
    )
    run(
        "fit",
        "wide.csv",
        "--score",
        "rating",
        "--id",
        "sku",
        "--drop",
        "title",
        "--out",
        "m.corank",
    )
    screen = run("rank", "m.corank", "wide.csv", "--id", "sku", "--top", str(N)).stdout
    assert all(f"東京都新宿区{number} " in screen for number in range(N))
