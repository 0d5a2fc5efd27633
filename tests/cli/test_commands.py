"""The command line: what each command promises, and that errors are one sentence and lose nothing."""

import importlib
import inspect
import itertools
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from command_line import error, run

import corank
from corank import (
    RLS,
    AutoRanker,
    CoRankRLS,
    CoRLS,
    RankRLS,
    TableEncoder,
    View,
    load,
)
from corank.cli.columns import looks_like_id
from corank.cli.console import COMMANDS, FILES, expanded
from corank.learners.average.fitting import fit_average
from corank.metrics import disagreement_error, ndcg
from corank.tables import read_table, to_arrow


def books(n=160, seed=0, users=12):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "book_id": np.arange(n) + 1,
            "user": [f"{user:03d}" for user in rng.integers(0, users, n)],
            "kind": rng.choice(["poetry", "travel", "crime"], n),
            "pages": rng.integers(40, 900, n).astype(float),
            "price": rng.gamma(3, 5, n).round(2),
            "language": "en",
        }
    )
    frame["rating"] = (
        (3 + (frame["kind"] == "poetry") - 0.003 * frame["pages"] + rng.normal(0, 0.2, n))
        .clip(0)
        .round(2)
    )
    frame.loc[rng.random(n) < 0.1, "pages"] = np.nan
    frame.loc[rng.random(n) < 0.3, "rating"] = np.nan
    return frame


COLUMNS = ("--score", "rating", "--method", "rankrls", "--query", "user", "--id", "book_id")
FIT = ("fit", "books.csv", *COLUMNS, "--out", "b.corank")
QUICK = ("--gamma", "scale")  # without --query, or where the width does not matter
VIEWS = [View([0, 1, 2], name="kind"), View(slice(3, None), kernel="linear", penalty=2.0)]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Tables, and models that were fitted once: one of the command line, two with views."""
    folder, table = tmp_path_factory.mktemp("shelf"), books()
    table.to_csv(folder / "books.csv", index=False)
    books(seed=1, n=60, users=4).to_csv(folder / "new.csv", index=False)
    run("fit", folder / "books.csv", *COLUMNS, "--out", folder / "b.corank", "--quiet")
    encoder = TableEncoder().fit(table[["kind", "pages", "price"]])
    features = encoder.transform(table[["kind", "pages", "price"]])
    for name, model in (("rank", CoRankRLS(VIEWS)), ("regress", CoRLS(2, 0.3, 0.1, 9))):
        model.fit(features, table["rating"], qid=table["user"])
        assert name == "regress" or model.unscored_effect_ is not None
        model.table_ = {"score": "rating", "query": "user", "rows": len(table)}
        model.save(folder / f"{name}.corank", encoder=encoder)
    return folder


def copied(shelf, folder, monkeypatch, pattern):
    for path in shelf.glob(pattern):
        shutil.copy(path, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def folder(shelf, tmp_path, monkeypatch):
    return copied(shelf, tmp_path, monkeypatch, "*.csv")


@pytest.fixture
def fitted(shelf, tmp_path, monkeypatch):
    return copied(shelf, tmp_path, monkeypatch, "*")


# ---- fit


def test_fit_is_what_python_does(fitted):
    frame = books()
    features = frame[["kind", "pages", "price", "language"]]
    encoder = TableEncoder().fit(features)
    model = RankRLS(gamma="tune").fit(
        encoder.transform(features), frame["rating"], qid=frame["user"]
    )
    loaded = load("b.corank")
    assert type(loaded) is RankRLS
    assert loaded.encoder_.summary() == encoder.summary()
    np.testing.assert_array_equal(
        loaded.predict(encoder.transform(features)), model.predict(encoder.transform(features))
    )


def test_fit_says_what_it_did(folder):
    result = run(*FIT)
    scored = int(books()["rating"].notna().sum())
    words = " ".join(result.stdout.split())
    for part in (
        "RankRLS fitted on books.csv",
        f"fitted on 160 rows, {scored} scored, 12 queries (user)",
        "queries all share one scoring function; user says which rows compete and is not a feature",
        "features 6 numbers from 3 columns",
        "the best of 20",
        "held-out error",
        "time",
        "saved as b.corank",
        "language category dropped: always the same value",
        "corank rank b.corank",
    ):
        assert part in words
    assert result.stderr == ""


def test_fit_in_json(folder):
    options = (
        "--kernel",
        "linear",
        "--alpha",
        "0.1,1",
        "--weighting",
        "query",
        "--drop",
        "lang*,price",
        "--json",
    )
    result = run(
        "fit",
        "books.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        "--id",
        "book_id",
        "--query",
        "user",
        "--out",
        "b.corank",
        *options,
    )
    said = json.loads(result.stdout)
    assert said["method"] == "RankRLS"
    assert said["alpha"] in (0.1, 1.0)
    assert (said["rows"], said["queries"], said["kernel"]) == (160, 12, "linear")
    assert [column["column"] for column in said["columns"]] == ["kind", "pages"]
    model = load("b.corank")
    assert (model.weighting, model.alpha, said["held_out_error"]) == (
        "query",
        [0.1, 1.0],
        model.path_.error.min(),
    )
    assert said["held_out_constant"] == model.path_.constant
    assert (said["tried"], said["gamma"], said["gamma_chosen"]) == (2, None, None)


@pytest.mark.parametrize(
    ("method", "learner", "size"),
    [
        ("kpcrank", "KPCRank", ("--components", "3")),
        ("kpcr", "KPCR", ("--components", "tune")),
        ("pursuit", "RankingPursuit", ("--atoms", "4")),
        ("matching", "MatchingPursuit", ("--atoms", "tune")),
    ],
)
def test_fit_by_other_methods(folder, method, learner, size):
    words = (
        "--score",
        "rating",
        "--query",
        "user",
        "--id",
        "book_id",
        "--gamma",
        "scale",
        "--method",
        method,
        *size,
    )
    shown = run("fit", "books.csv", *words, "--out", "m.corank").stdout
    assert f"{learner} fitted on books.csv" in shown
    model = load("m.corank")
    assert type(model).__name__ == learner
    number = model.n_atoms_ if hasattr(model, "n_atoms_") else model.n_components_
    assert f"{size[0][2:]} {number}" in " ".join(shown.split())
    run("rank", "m.corank", "new.csv", "--out", "ranked.csv")


def test_help_says_that_all_queries_share_one_scoring_function():
    words = re.sub(r"[\s│]+", " ", run("fit", "--help").stdout)
    assert "All queries share one scoring function, learned from the features." in words
    assert "The query column says which rows compete and is not a feature." in words
    assert "all queries share one scoring function." in words


def test_the_query_column_is_no_feature(fitted):
    assert "user" not in load("b.corank").encoder_.feature_names_in_


def test_quiet_silences_notes_and_results(folder):
    words = (
        "fit",
        "books.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        "--out",
        "b.corank",
        "--force",
    )
    assert "book_id" in run(*words).stderr
    assert run(*words, "--quiet").output == ""
    books(seed=1, n=60).drop(columns="user").to_csv("one.csv", index=False)
    run(*words, "--quiet", "--query", "user")
    assert run("rank", "b.corank", "one.csv", "--out", "ranked.csv", "--quiet").output == ""
    assert "there is no file" in error(
        "fit",
        "nothing.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        "--out",
        "c.corank",
        "--quiet",
    )


@pytest.mark.parametrize(
    ("rows", "options", "gamma", "words"),
    [
        (1_000, (), "auto", "(tune, the best of 7)"),
        (1_001, (), "auto", "(scale)"),
        (1_001, ("--gamma", "tune"), "tune", "(tune, the best of 7)"),
        (100, ("--gamma", "scale"), "scale", "(scale)"),
        (100, ("--gamma", "0.25"), 0.25, "gamma 0.25 "),
        (100, ("--gamma", "0.1,0.2"), [0.1, 0.2], ", the best of 2 "),
        (100, ("--kernel", "linear"), "auto", "linear "),
    ],
)
def test_gamma_is_that_of_the_learner_unless_told(folder, monkeypatch, rows, options, gamma, words):
    asked = []

    def quickly(self, X, y, **others):
        asked.append(self.gamma)
        self.basis = 5
        return fit(self, X, y, **others)

    fit = RankRLS.fit
    monkeypatch.setattr(RankRLS, "fit", quickly)
    frame = books(n=rows + 20).assign(rating=np.arange(rows + 20) % 7)
    frame.loc[rows:, "rating"] = np.nan
    frame.to_csv("some.csv", index=False)
    result = run(
        "fit",
        "some.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        "--id",
        "book_id",
        "--out",
        "s.corank",
        *options,
    )
    assert asked == [gamma]
    assert words in result.stdout
    assert "the best of 20" in result.stdout


def test_the_held_out_error_stands_beside_that_of_a_constant(fitted):
    words = (
        "fit",
        "books.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        *QUICK,
        "--query",
        "user",
        "--id",
        "book_id",
        "--out",
        "b.corank",
    )
    result = run(*words, "--force")
    assert re.search(
        r"held-out error +0\.\d{3} ± 0\.\d+, against 0\.\d{3} for a constant", result.stdout
    )
    assert result.stderr == ""
    same = r"held-out error +0\.\d{3} ± 0\.\d+, against 0\.\d{3} for a constant"
    assert re.search(same, run("inspect", "b.corank").stdout)


@pytest.mark.parametrize("query", [(), ("--query", "user")])
def test_a_model_no_better_than_a_constant_is_noted_with_likely_reasons(folder, query):
    frame = books()
    frame["rating"] = np.random.default_rng(5).normal(size=len(frame))
    frame.to_csv("noise.csv", index=False)
    result = run(
        "fit",
        "noise.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        *QUICK,
        "--id",
        "book_id",
        "--out",
        "n.corank",
        "--json",
        *query,
    )
    said = json.loads(result.stdout)
    assert said["held_out_error"] > 0.98 * said["held_out_constant"]
    assert (
        "no better than a constant prediction: perhaps the features say nothing about 'rating'"
        in result.stderr
    )
    assert ("differs between values of 'user'" in result.stderr) == bool(query)


def test_nothing_is_measured_where_nothing_is_tuned(folder):
    words = ("--alpha", "1", "--gamma", "0.1", "--id", "book_id")
    result = run(
        "fit",
        "books.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        *QUICK,
        "--out",
        "b.corank",
        *words,
    )
    assert "not measured, because no setting was tuned" in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ((), ["kind", "pages", "price", "language"]),
        (("--features", "p*"), ["pages", "price"]),
        (("--features", "kind,pri*"), ["kind", "price"]),
        (("--features", "kind", "--features", "price"), ["kind", "price"]),
        (("--features", "*", "--drop", "p*"), ["kind", "language"]),
        (("--drop", "price", "--drop", "kind,language"), ["pages"]),
    ],
)
def test_features_are_chosen_by_name_and_pattern(folder, options, columns):
    run(*FIT, *QUICK, *options)
    assert list(load("b.corank").encoder_.feature_names_in_) == columns


def test_a_numeric_id_is_noticed(folder):
    result = run(
        "fit",
        "books.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        *QUICK,
        "--query",
        "user",
        "--out",
        "b.corank",
    )
    assert re.search(
        r"^corank: note: column 'book_id' looks like .*--number book_id learns from it anyway$",
        result.stderr,
        re.MULTILINE,
    )


@pytest.mark.parametrize(
    ("name", "values", "like"),
    [
        ("id", [1, 2, 3], True),
        ("item_id", [7.0, 5.0, 6.0], True),
        ("ItemID", [1, 2, 3], True),
        ("row", [1, 2, 3], True),
        ("id", [1, 1, 2], False),
        ("id", [1.5, 2.5, 3.5], False),
        ("id", [1, None, 2], False),
        ("id", ["a", "b", "c"], False),
        ("grid", [1, 2, 3], False),
        ("price", [1, 2, 3], False),
        ("id", [True, False], False),
        ("", [0, 1, 2], True),
        ("Unnamed: 0", [0, 1, 2], True),
        ("__index_level_0__", [5, 3, 4], True),
        ("", [0, 0, 1], False),
        ("Unnamed: 0", [0.5, 1.5], False),
        ("Unnamed: 0 price", [0, 1, 2], False),
    ],
)
def test_what_looks_like_an_id(name, values, like):
    assert looks_like_id(name, to_arrow({name: values})[name]) is like


@pytest.mark.parametrize(("name", "drop"), [("", "''"), ("Unnamed: 0", "'Unnamed: 0'")])
def test_an_index_without_a_name_is_not_learned_from_unless_asked(folder, name, drop):
    frame = books().drop(columns="book_id")
    frame.insert(0, name, np.arange(len(frame)))
    frame.to_csv("indexed.csv", index=False)
    words = (
        "fit",
        "indexed.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        *QUICK,
        "--query",
        "user",
        "--out",
        "b.corank",
        "--force",
    )
    result = run(*words)
    what = f"column '{name}'" if name else "the column without a name"
    assert (
        f"note: {what} looks like a row number, so it is not learned from; --number {drop}"
        in result.stderr
    )
    assert name not in load("b.corank").encoder_.feature_names_in_
    assert run(*words, "--drop", name).stderr == ""
    run(*words, "--number", name)
    assert name in load("b.corank").encoder_.feature_names_in_


def test_a_column_of_names_is_not_learned_from(folder):
    frame = books()
    frame["title"] = [f"title {row // 2 if row < 10 else row}" for row in range(len(frame))]
    frame.to_csv("titled.csv", index=False)
    words = (
        "fit",
        "titled.csv",
        "--score",
        "rating",
        "--drop",
        "book_id",
        "--method",
        "rls",
        "--gamma",
        "1",
        "--out",
        "b.corank",
        "--force",
    )
    what = (
        "column 'title' looks like a name (155 different values in 160 rows), so it is not learned"
        " from"
    )
    assert f"note: {what}; --category title learns from it anyway\n" in run(*words).stderr
    assert "title" not in load("b.corank").encoder_.feature_names_in_
    assert (
        "'title' has 5 values in several rows, such as 'title 0'"
        in run(*words, "--id", "title").stderr
    )


def test_a_basis_of_some_rows_is_noted_in_the_words_of_the_command_line(folder, monkeypatch):
    monkeypatch.setattr("corank.learners.base.Learner._auto_basis", (50, 20))
    result = run(
        "fit",
        "books.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        *QUICK,
        "--id",
        "book_id",
        "--out",
        "b.corank",
    )
    assert "note: --basis auto takes 20 of 112 rows as basis. Say --basis 20, " in result.stderr


def test_a_column_that_is_mostly_numbers_is_noted(folder):
    frame = books()
    frame["price"] = [
        str(price) if row % 12 else "unknown" for row, price in enumerate(frame["price"])
    ]
    frame.to_csv("books.csv", index=False)
    result = run(
        "fit",
        "books.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        *QUICK,
        "--id",
        "book_id",
        "--out",
        "b.corank",
    )
    assert (
        "note: 91 % of 'price' are numbers, except for instance 'unknown', so it is treated as"
        " categories" in result.stderr
    )


def test_notes_are_said_in_every_run_and_once_in_each(folder):
    for _ in range(2):
        result = run(
            "fit",
            "books.csv",
            "--score",
            "rating",
            "--method",
            "rankrls",
            *QUICK,
            "--out",
            "b.corank",
            "--force",
        )
        assert result.stderr.count("looks like a row number") == 1
    shown = run(
        "--debug",
        "fit",
        "books.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        *QUICK,
        "--out",
        "b.corank",
        "--force",
    ).stderr
    assert "corank: note: column 'book_id'" in shown


def test_warnings_are_notes_of_one_line(folder):
    frame = books()
    frame["title"] = [f"title {row}" for row in range(len(frame))]
    frame.to_csv("books.csv", index=False)
    result = run(
        "fit",
        "books.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        *QUICK,
        "--id",
        "book_id",
        "--out",
        "b.corank",
    )
    assert "corank: note: column 'title' looks like a name" in result.stderr
    assert "Warning" not in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "semicolon"])
def test_every_kind_of_table_gives_the_same_model(folder, kind):
    frame = books()
    if kind == "parquet":
        frame.to_parquet("same.parquet", index=False)
    elif kind == "semicolon":
        frame.to_csv("same.csv", index=False, sep=";", decimal=",")
    else:
        frame.to_csv(f"same.{kind}", index=False, sep="\t" if kind == "tsv" else ",")
    file = "same.csv" if kind == "semicolon" else f"same.{kind}"
    for source, model in (("books.csv", "a.corank"), (file, "b.corank")):
        run(
            "fit",
            source,
            "--score",
            "rating",
            "--method",
            "rankrls",
            *QUICK,
            "--query",
            "user",
            "--id",
            "book_id",
            "--out",
            model,
            "--quiet",
        )
    np.testing.assert_array_equal(load("a.corank").coef_, load("b.corank").coef_)


WRONG = {  # options, and what the message mentions
    "score": (["--score", "ratng"], ("'ratng'", "'rating'")),
    "text as score": (["--score", "kind"], "'kind'"),
    "query": (["--score", "rating", "--query", "usr"], ("'usr'", "'user'")),
    "id": (["--score", "rating", "--id", "bok_id"], "'bok_id'"),
    "feature": (["--score", "rating", "--features", "pags"], ("--features", "'pags'", "'pages'")),
    "pattern": (["--score", "rating", "--features", "text_*"], ("--features", "'text_*'")),
    "score as feature": (["--score", "rating", "--features", "rating"], "'rating'"),
    "nothing left": (["--score", "rating", "--drop", "*"], "--items"),
    "kernel": (["--score", "rating", "--kernel", "rfb"], "'rfb'"),
    "precomputed kernel": (
        ["--score", "rating", "--kernel", "precomputed"],
        "--kernel precomputed",
    ),
    "negative alpha": (["--score", "rating", "--alpha", "-1"], "alpha"),
    "alpha": (["--score", "rating", "--alpha", "much"], ("alpha", "'much'")),
    "basis and kernel": (
        ["--score", "rating", "--basis", "features"],
        ("--basis features", "--kernel linear"),
    ),
    "basis": (["--score", "rating", "--basis", "100000"], ("basis", "100000")),
    "weighting": (
        ["--score", "rating", "--method", "rls", "--weighting", "unit"],
        ("--weighting", "--method rls"),
    ),
    "atoms": (
        ["--score", "rating", "--atoms", "3"],
        ("--atoms", "--method auto", "--method pursuit"),
    ),
    "alpha and pursuit": (
        ["--score", "rating", "--method", "pursuit", "--alpha", "1"],
        ("--alpha", "--method pursuit"),
    ),
    "components": (
        ["--score", "rating", "--method", "kpcrank", "--components", "0"],
        ("--components", "'0'"),
    ),
    "method": (["--score", "rating", "--method", "svm"], ("--method", "'svm'")),
    "misspelt method": (["--score", "rating", "--method", "rankrsl"], "did you mean 'rankrls'?"),
    "no score": ([], "--score"),
    "option": (["--score", "rating", "--colour", "red"], "--colour"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options(folder, refused, case):
    words, mentions = WRONG[case]
    refused("fit", "books.csv", "--out", "b.corank", *words, mentions=mentions)


def test_nothing_is_overwritten_without_force(folder):
    words = (
        "fit",
        "books.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        *QUICK,
        "--id",
        "book_id",
        "--quiet",
        "--out",
    )
    run(*words, "b.corank")
    before = (folder / "b.corank").read_bytes()
    assert "b.corank already exists: use --force to replace it" in error(*words, "b.corank")
    assert (folder / "b.corank").read_bytes() == before
    run(*words, "b.corank", "--method", "rls", "--force")
    assert type(load("b.corank")) is RLS
    (folder / "link").symlink_to("books.csv")
    assert "is also an input file" in error(*words, "link", "--force")
    assert "does not exist" in error(*words, "nowhere/b.corank")
    assert "is a folder" in error(*words, ".", "--force")


@pytest.mark.parametrize(
    ("name", "better"),
    [("m.csv", "m"), ("m.v2.csv", "m.v2"), ("m.csv.gz", "m"), ("m.parquet", "m")],
)
def test_a_model_called_like_a_table_is_refused(folder, name, better):
    what = (
        f"--out {name}: this is the file extension of a table, but a model is saved; call it"
        f" {better}.corank"
    )
    assert (
        error("fit", "books.csv", "--score", "rating", "--method", "rankrls", *QUICK, "--out", name)
        == what
    )
    assert error("demo", "--out", name) == what


def test_a_folder_without_permission_is_named_before_any_work(folder, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    assert "no permission in the folder" in error(
        "fit",
        "nothing.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        *QUICK,
        "--out",
        "b.corank",
    )


NOTHING_TO_LEARN = {
    "all empty": ({"rating": np.nan}, ("--query", "user")),
    "one score": ({"rating": [3] + [np.nan] * 159}, ()),
    "all tied": ({"rating": 3}, ()),
    "all tied, rls": ({"rating": 3}, ("--query", "user", "--method", "rls")),
    "tied in every query": (
        {"rating": np.arange(160) % 5, "user": np.arange(160) % 5},
        ("--query", "user"),
    ),
    "one score in every query": (
        {"rating": np.arange(160), "user": np.arange(160)},
        ("--query", "user"),
    ),
}


@pytest.mark.parametrize("case", NOTHING_TO_LEARN)
def test_scores_from_which_nothing_can_be_learned(folder, refused, case):
    columns, options = NOTHING_TO_LEARN[case]
    books().assign(**columns).to_csv("odd.csv", index=False)
    words = (
        "fit",
        "odd.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        *QUICK,
        "--id",
        "book_id",
        "--out",
        "b.corank",
    )
    refused(*words, *options, mentions="'rating'")


def test_rls_learns_from_queries_of_one_row(folder):
    books().assign(user=np.arange(160)).to_csv("odd.csv", index=False)
    words = ("--score", "rating", "--query", "user", "--id", "book_id", "--out", "b.corank")
    run("fit", "odd.csv", "--method", "rls", *words)
    assert load("b.corank").table_["queries"] == 160


# ---- rank


def ranked(file):
    return read_table(file, text=["user", "book_id"]).to_pandas()


def test_rank_orders_within_queries(fitted):
    result = run("rank", "b.corank", "new.csv", "--out", "ranked.csv")
    assert "60 rows ranked in 4 queries: ranked.csv" in result.stdout
    table, new = ranked("ranked.csv"), books(seed=1, n=60, users=4)
    others = [name for name in new.columns if name != "book_id"]
    assert list(table.columns) == ["rank", "score", "book_id", "row", *others]
    assert list(new["book_id"].iloc[table["row"].astype(int) - 1].astype(str)) == list(
        table["book_id"]
    )
    assert list(dict.fromkeys(table["user"])) == list(dict.fromkeys(new["user"]))
    for _, part in table.groupby("user", sort=False):
        assert list(part["rank"]) == list(range(1, len(part) + 1))
        assert part["score"].is_monotonic_decreasing
    model = load("b.corank")
    scores = dict(
        zip(new["book_id"].astype(str), model.predict(model.encoder_.transform(new)), strict=True)
    )
    assert [scores[book] for book in table["book_id"]] == list(table["score"])


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "csv.gz"])
def test_rank_writes_any_kind_of_table(fitted, kind):
    run("rank", "b.corank", "new.csv", "--id", "book_id", "--out", f"ranked.{kind}")
    table = ranked(f"ranked.{kind}")
    assert list(table.columns) == ["rank", "score", "book_id", "row", "user"]
    assert table["book_id"].nunique() == 60


def test_rank_understands_labels_that_look_like_numbers_and_other_layouts(fitted):
    books(seed=1, n=60, users=4).drop(columns="rating").iloc[:, ::-1].to_csv(
        "semi.csv", index=False, sep=";", decimal=","
    )
    run("rank", "b.corank", "new.csv", "--id", "book_id", "--out", "a.csv")
    run("rank", "b.corank", "semi.csv", "--id", "book_id", "--out", "b.csv")
    pd.testing.assert_frame_equal(ranked("a.csv"), ranked("b.csv"))
    assert set(ranked("a.csv")["user"]) == {"000", "001", "002", "003"}


def test_rank_without_the_query_column_ranks_all_rows_together(fitted):
    books(seed=1, n=60).drop(columns="user").to_csv("one.csv", index=False)
    result = run("rank", "b.corank", "one.csv", "--out", "ranked.csv")
    assert "corank: note: one.csv has no column 'user'" in result.stderr
    assert list(ranked("ranked.csv")["rank"]) == list(range(1, 61))
    assert "did you mean" not in result.stderr
    assert "there is no query column 'user'" in error(
        "rank", "b.corank", "one.csv", "--query", "user"
    )
    books(seed=1, n=60).rename(columns={"user": "User"}).to_csv("case.csv", index=False)
    result = run("rank", "b.corank", "case.csv")
    assert "all rows are ranked together; did you mean --query User?\n" in result.stderr


def test_rank_can_be_told_another_query_column(fitted):
    run("rank", "b.corank", "new.csv", "--query", "kind", "--out", "ranked.csv")
    assert ranked("ranked.csv").groupby("kind")["rank"].min().to_dict() == {
        "crime": 1,
        "poetry": 1,
        "travel": 1,
    }


def test_rank_keeps_ties_in_the_order_of_the_file(fitted):
    frame = pd.concat([books(seed=1, n=1)] * 4).assign(book_id=["d", "b", "c", "a"])
    frame.to_csv("ties.csv", index=False)
    run("rank", "b.corank", "ties.csv", "--out", "ranked.csv")
    assert list(ranked("ranked.csv")["book_id"]) == ["d", "b", "c", "a"]


def test_rank_gives_way_to_columns_that_have_its_names(fitted):
    books(seed=1, n=20).assign(score=1, rank=2).to_csv("named.csv", index=False)
    run("rank", "b.corank", "named.csv", "--out", "ranked.csv")
    assert list(ranked("ranked.csv").columns)[:2] == ["predicted_rank", "predicted_score"]
    assert set(ranked("ranked.csv")["rank"]) == {2}


def test_rank_shows_the_best_ten(fitted):
    result = run("rank", "b.corank", "new.csv")
    lines = result.stdout.splitlines()
    first = books(seed=1, n=60, users=4)["user"][0]
    assert f"with user {first} in" in lines[0]
    assert [line.split()[0] for line in lines if re.match(r"\s+\d", line)] == [
        str(n) for n in range(1, 11)
    ]
    assert "and 3 more queries; --out FILE writes them all" in result.stdout
    assert max(map(len, lines)) <= 100


def test_columns_that_are_not_there_are_named(fitted):
    books(seed=1).drop(columns=["pages", "price"]).to_csv("lack.csv", index=False)
    assert error("rank", "b.corank", "lack.csv").endswith("'pages', 'price'")
    books(seed=1).rename(columns={"pages": "Pages", "price": "prices"}).to_csv(
        "near.csv", index=False
    )
    for command in ("rank", "evaluate"):
        said = error(command, "b.corank", "near.csv")
        assert said.endswith("'pages' (did you mean 'Pages'?), 'price' (did you mean 'prices'?)")
    books(seed=1).assign(pages="many").to_csv("words.csv", index=False)
    assert "column 'pages': 'many' in data row 1 is not a number" in error(
        "rank", "b.corank", "words.csv"
    )


def test_rank_overwrites_nothing_unasked(fitted):
    before = (fitted / "new.csv").read_bytes()
    assert "is also an input file" in error(
        "rank", "b.corank", "new.csv", "--out", "new.csv", "--force"
    )
    assert "use --force" in error("rank", "b.corank", "new.csv", "--out", "books.csv")
    assert (fitted / "new.csv").read_bytes() == before
    run("rank", "b.corank", "new.csv", "--out", "books.csv", "--force")


def test_models_that_python_saved_can_rank_too(folder):
    frame = books()[["price", "pages"]].fillna(0)
    RankRLS(0.3).fit(frame, books()["rating"]).save("named.corank")
    frame.assign(id="x").iloc[:, ::-1].to_csv("items.csv", index=False)
    run("rank", "named.corank", "items.csv", "--out", "ranked.csv")
    RankRLS(0.3).fit(frame.to_numpy(), books()["rating"]).save("plain.corank")
    assert "encoder=" in error("rank", "plain.corank", "items.csv")
    assert "--score" in error("evaluate", "plain.corank", "items.csv")


def test_a_file_that_is_no_model_is_refused(folder):
    (folder / "text.corank").write_text("no model")
    assert "text.corank is not a model file" in error("rank", "text.corank", "books.csv")
    assert error("rank", "no.corank", "books.csv") == "there is no file no.corank"
    assert error("inspect", ".") == ". is a folder, not a model file"


@pytest.mark.parametrize("command", ["rank", "evaluate"])
def test_swapped_arguments_are_named(fitted, command):
    what = "new.csv is a table, but the model comes first: corank"
    assert error(command, "new.csv", "b.corank") == f"{what} {command} b.corank new.csv"
    assert error(command, "new.csv", "books.csv") == f"{what} {command} MODEL.corank books.csv"


# ---- evaluate


@pytest.mark.parametrize("method", ["rankrls", "rls"])
def test_evaluate_measures_on_the_scored_rows(folder, method):
    fit = (
        "fit",
        "books.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        *QUICK,
        "--query",
        "user",
        "--id",
        "book_id",
        "--out",
        "b.corank",
    )
    run(*fit, "--method", method, "--quiet")
    said = json.loads(run("evaluate", "b.corank", "new.csv", "--json").stdout)
    new, model = books(seed=1, n=60, users=4), load("b.corank")
    predicted = model.predict(model.encoder_.transform(new))
    errors = disagreement_error(new["rating"], predicted, qid=new["user"], average=False)
    assert said["disagreement"]["value"] == pytest.approx(errors.mean())
    assert said["disagreement"]["standard_error"] == pytest.approx(errors.std(ddof=1) / 2)
    assert said["ndcg_at_10"]["value"] == pytest.approx(
        ndcg(new["rating"], predicted, qid=new["user"], k=10)
    )
    assert (said["scored"], said["queries"]) == (new["rating"].notna().sum(), 4)
    assert ("r2" in said) == (method == "rls")
    if method == "rls":
        features = model.encoder_.transform(new)
        assert said["r2"]["value"] == pytest.approx(model.score(features, new["rating"]))
    shown = run("evaluate", "b.corank", "new.csv").stdout
    assert f"{errors.mean():.4f}" in shown
    assert ("R²" in shown) == (method == "rls")


def test_evaluate_has_no_ndcg_for_negative_scores_and_no_error_for_one_query(fitted):
    new = books(seed=1, n=60)
    new.assign(rating=new["rating"] - 5, user="u").to_csv("negative.csv", index=False)
    said = json.loads(run("evaluate", "b.corank", "negative.csv", "--json").stdout)
    assert said["ndcg_at_10"] is None
    assert said["ndcg_at_10_left_out"] == "negative scores"
    assert said["disagreement"]["standard_error"] is None
    assert re.search(
        r"NDCG@10 +– +left out: negative scores", run("evaluate", "b.corank", "negative.csv").stdout
    )


def test_evaluate_without_a_query_says_that_all_rows_are_one(folder):
    run(
        "fit",
        "books.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        *QUICK,
        "--id",
        "book_id",
        "--out",
        "b.corank",
        "--quiet",
    )
    what = "all rows as one query; --query COLUMN compares within groups"
    assert what in run("evaluate", "b.corank", "new.csv").stdout
    assert what not in run("evaluate", "b.corank", "new.csv", "--query", "user").stdout


def test_evaluate_needs_scores_to_compare_with(fitted):
    new = books(seed=1, n=60)
    new.assign(rating=np.nan).to_csv("unscored.csv", index=False)
    assert "there is nothing to evaluate" in error("evaluate", "b.corank", "unscored.csv")
    new.assign(rating=3).to_csv("tied.csv", index=False)
    assert "no query of tied.csv has two rows with different scores" in error(
        "evaluate", "b.corank", "tied.csv"
    )
    new.rename(columns={"rating": "stars"}).to_csv("renamed.csv", index=False)
    assert "there is no score column 'rating'" in error("evaluate", "b.corank", "renamed.csv")
    run("evaluate", "b.corank", "renamed.csv", "--score", "stars")
    new.drop(columns="user").to_csv("one.csv", index=False)
    assert "there is no query column 'user'" in error("evaluate", "b.corank", "one.csv")


# ---- info, inspect


def test_info_names_what_is_installed():
    shown = run("info").stdout
    for word in ("corank", "numpy", "scipy", "scikit-learn", "torch", "cores", "devices"):
        assert word in shown
    assert json.loads(run("info", "--json").stdout)["corank"] == corank.__version__


def test_inspect_says_what_a_model_is(fitted):
    words = " ".join(run("inspect", "b.corank").stdout.split())
    scored = int(books()["rating"].notna().sum())
    assert "RankRLS: ranks items within a query" in words
    assert f"fitted on 160 rows, {scored} scored, 12 queries (user)" in words
    assert "6 numbers from 3 columns: kind, pages, price" in words
    assert f"written by corank {corank.__version__}" in words
    assert "kB" in words


def test_inspect_shows_categories_and_missing_values(fitted):
    words = " ".join(run("inspect", "b.corank").stdout.split())
    assert "one 0/1 column for each of 3 values (crime, poetry, travel)" in words
    assert "is marked in a 0/1 column" in words
    assert "dropped: always the same value" in words
    kind, pages, *_ = json.loads(run("inspect", "b.corank", "--json").stdout)["encoding"]
    assert kind["categories"] == ["crime", "poetry", "travel"]
    assert (pages["missing_becomes"], pages["missing_is_marked"]) == (
        books()["pages"].median(),
        True,
    )


def test_inspect_lists_the_atoms_of_a_sparse_model_by_the_names_of_the_items(folder):
    words = (
        "--score",
        "rating",
        "--id",
        "book_id",
        "--method",
        "pursuit",
        "--atoms",
        "3",
        "--gamma",
        "scale",
    )
    run("fit", "books.csv", *words, "--out", "p.corank", "--quiet")
    model, shown = load("p.corank"), run("inspect", "p.corank").stdout
    said = json.loads(run("inspect", "p.corank", "--json").stdout)["atoms"]
    names = [str(books()["book_id"][row]) for row in model.atoms_]
    assert said["atom"] == names
    assert said["weight"] == model.coef_.tolist()
    assert all(name in shown for name in names)
    assert "Atoms in order of entry" in shown


def test_inspect_in_json_has_numbers_as_numbers(fitted):
    said, model = json.loads(run("inspect", "b.corank", "--json").stdout), load("b.corank")
    assert all(re.fullmatch("[a-z0-9_]+", key) for key in said)
    expected = {
        "method": "RankRLS",
        "rows": 160,
        "scored": int(books()["rating"].notna().sum()),
        "queries": 12,
        "query_column": "user",
        "features": 6,
        "columns": ["kind", "pages", "price"],
        "gamma": model.gamma_,
        "basis": len(model.coef_),
        "alpha": model.alpha_,
        "held_out_error": model.path_.error.min(),
        "held_out_constant": model.path_.constant,
        "parameters": {},
        "written_by": corank.__version__,
        "bytes": (fitted / "b.corank").stat().st_size,
    }
    assert {key: said[key] for key in expected} == expected
    installed = json.loads(run("info", "--json").stdout)
    assert isinstance(installed["cores"], int)
    assert isinstance(installed["devices"], list)


def test_inspect_counts_the_rows_of_an_update(fitted):
    model, new = load("b.corank"), books(seed=1, n=60)
    model.update(model.encoder_.transform(new), new["rating"], qid=new["user"])
    model.save("b.corank", overwrite=True)
    scored = int(books()["rating"].notna().sum() + new["rating"].notna().sum())
    assert f"fitted on 220 rows, {scored} scored" in " ".join(
        run("inspect", "b.corank").stdout.split()
    )


@pytest.mark.parametrize("basis", ["all", 7, "features"])
def test_inspect_of_any_model(folder, basis):
    X = books()[["price", "pages"]].fillna(0).to_numpy()
    RLS(0.3, kernel="linear", basis=basis).fit(X, books()["rating"]).save("p.corank")
    words = " ".join(run("inspect", "p.corank").stdout.split())
    assert "RLS: predicts scores" in words
    assert "columns without names" in words


# ---- models of several views


def test_inspect_shows_the_views_of_a_model(fitted):
    words = " ".join(run("inspect", "rank.corank").stdout.split())
    scored, model = int(books()["rating"].notna().sum()), load("rank.corank")
    assert "CoRankRLS: ranks items within a query, by views that agree on unscored rows" in words
    assert f"fitted on 160 rows, {scored} scored, 12 queries (user)" in words
    assert f"view 1 kind: 3 columns; rbf, gamma {model.gamma_[0]:.3g}; basis of 160 rows" in words
    assert "view 2 3 columns; linear; basis of 160 rows; penalty 2" in words
    assert re.search(rf"agreement [\d.e+-]+(, on|:) {160 - scored} unscored rows", words)
    assert str(model.unscored_effect_).replace("rows:", "rows") in words
    assert "View(" not in words
    other = " ".join(run("inspect", "regress.corank").stdout.split())
    assert (
        f"view 1 part 1: 3 columns; rbf, gamma {load('regress.corank').gamma_[0]:.3g}; basis of 9"
        " rows" in other
    )
    assert f"agreement 0.1, on {160 - scored} unscored rows" in other
    assert "held-out error 0." not in other


def test_inspect_on_views_in_json(fitted):
    said, model = json.loads(run("inspect", "rank.corank", "--json").stdout), load("rank.corank")
    assert [view["name"] for view in said["views"]] == ["kind", "view 2"]
    assert [view["columns"] for view in said["views"]] == [3, 3]
    assert [view["kernel"] for view in said["views"]] == ["rbf", "linear"]
    assert [view["gamma"] for view in said["views"]] == model.gamma_
    assert said["agreement"] == model.agreement_
    assert said["unscored"] == int(books()["rating"].isna().sum())
    assert said["unscored_effect"]["verdict"] == model.unscored_effect_.verdict
    assert said["parameters"] == {}
    assert json.loads(run("inspect", "regress.corank", "--json").stdout)["unscored_effect"] is None


@pytest.mark.parametrize("name", ["rank", "regress"])
def test_models_of_several_views_rank_and_are_evaluated(fitted, name):
    run("rank", f"{name}.corank", "new.csv", "--out", "ranked.csv")
    new, model = books(seed=1, n=60, users=4), load(f"{name}.corank")
    ranked = pd.read_csv("ranked.csv", dtype={"user": str})
    expected = dict(zip(new["book_id"], model.predict(new), strict=True))
    np.testing.assert_allclose(
        ranked["score"], [expected[book] for book in ranked["book_id"]], rtol=1e-9
    )
    said = json.loads(run("evaluate", f"{name}.corank", "new.csv", "--json").stdout)
    wrong = disagreement_error(new["rating"], model.predict(new), qid=new["user"])
    assert said["disagreement"]["value"] == pytest.approx(wrong)
    assert ("r2" in said) == (name == "regress")
    assert "R²" in run("evaluate", "regress.corank", "new.csv").stdout


@pytest.mark.slow
def test_an_average_can_be_used_on_the_command_line(fitted):
    table, encoder = books(), load("rank.corank").encoder_
    model = AutoRanker(VIEWS).fit(encoder.transform(table), table["rating"], qid=table["user"])
    model.save("auto.corank", encoder=encoder)
    assert "AutoRanker" in run("inspect", "auto.corank").stdout
    run("rank", "auto.corank", "new.csv", "--query", "user", "--out", "ranked.csv")


# ---- the frame


def test_the_version_can_be_asked_for():
    assert run("--version").stdout == f"corank {corank.__version__}\n"


@pytest.fixture
def terminal(monkeypatch):
    """What a terminal is shown while something goes on; notes interrupt it."""
    shown = []

    class Status:
        def __init__(self, words):
            shown.append(str(words))

        def __enter__(self):
            return self

        def __exit__(self, *error):
            shown.append("the end")

        def update(self, words):
            shown.append(str(words))

        def stop(self):
            shown.append("stop")

        def start(self):
            shown.append("start")

    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    monkeypatch.setattr("rich.console.Console.status", Status)
    return shown


def test_a_terminal_is_shown_what_is_being_done(folder, terminal):
    run("fit", "books.csv", "--score", "rating", "--method", "rankrls", *QUICK, "--out", "b.corank")
    scored = int(books()["rating"].notna().sum())
    assert terminal == [
        "starting …",
        "reading books.csv …",
        "stop",  # for the note on book_id
        "start",
        "encoding 160 rows …",
        f"fitting RankRLS on {scored} scored rows …",
        "writing b.corank …",
        "the end",
    ]
    terminal.clear()
    run("rank", "b.corank", "new.csv", "--out", "ranked.csv")
    steps = [
        "starting",
        "reading new.csv",
        "encoding 60 rows",
        "ranking 60 rows",
        "writing ranked.csv",
    ]
    assert terminal == [*(f"{step} …" for step in steps), "the end"]
    terminal.clear()
    run(
        "fit",
        "books.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        *QUICK,
        "--out",
        "c.corank",
        "--quiet",
    )
    run("rank", "b.corank", "new.csv", "--out", "quiet.csv", "--quiet")
    assert terminal == []


def test_an_interrupt_leaves_nothing_behind(folder, monkeypatch):
    def interrupted(self, *args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(RankRLS, "fit", interrupted)
    before = sorted(folder.iterdir())
    result = run(
        "fit",
        "books.csv",
        "--score",
        "rating",
        "--method",
        "rankrls",
        *QUICK,
        "--id",
        "book_id",
        "--out",
        "b.corank",
        code=130,
    )
    assert result.stderr == "corank: interrupted\n"
    assert sorted(folder.iterdir()) == before


def test_a_full_disk_is_said_and_leaves_nothing_behind(fitted, monkeypatch):
    def full(self, target):
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr("pathlib.Path.replace", full)
    before = sorted(fitted.iterdir())
    assert (
        error("rank", "b.corank", "new.csv", "--out", "ranked.csv") == ".: no space left on device"
    )
    assert sorted(fitted.iterdir()) == before


def test_debug_shows_where_an_error_arose(folder):
    for words in (["--debug", "inspect", "books.csv"], ["inspect", "books.csv", "--debug"]):
        result = run(*words, code=2)
        assert "Traceback" in result.stderr
        assert "ModelFileError" in result.stderr
    assert "Traceback" not in run("inspect", "books.csv", code=2).stderr


def test_errors_of_our_own_are_owned_up_to(folder, refused, monkeypatch):
    def broken(*args, **kwargs):
        raise KeyError("oops")

    monkeypatch.setattr(RankRLS, "fit", broken)
    refused(*FIT, mentions="KeyError: 'oops'")
    monkeypatch.setattr(RankRLS, "fit", lambda *args, **kwargs: np.empty((10**8, 10**8)))
    refused(*FIT, mentions="memory")


def test_unknown_commands_are_refused_with_a_guess(folder, refused):
    refused("fti", mentions="did you mean corank fit?")
    refused("sort", "m.corank", mentions="did you mean corank rank?")
    refused("xyzzy", mentions="demo, fit, rank")
    refused("rank", mentions="corank rank --help")


def test_without_words_there_is_help():
    shown = run().stdout
    assert run("help").stdout == shown
    assert run("help", "rank").stdout == run("rank", "--help").stdout
    for command in (
        "demo",
        "fit",
        "rank",
        "explain",
        "suggest",
        "update",
        "evaluate",
        "inspect",
        "info",
    ):
        assert command in shown
        assert "--" in run(command, "--help").stdout


def test_fields_of_groups_become_options_and_come_back_in_their_groups():
    @dataclass(frozen=True)
    class Inner:
        depth: int = 1

    @dataclass(frozen=True)
    class Outer:
        name: str
        inner: Inner

    called = []

    def command(*, group: Outer, flag: bool = False) -> None:
        called.append((group, flag))

    with_options = expanded(command)
    options = inspect.signature(with_options).parameters
    assert list(options) == ["name", "depth", "flag"]
    assert options["name"].default is inspect.Parameter.empty
    assert options["depth"].default == 1
    with_options(name="a", depth=2, flag=True)
    assert called == [(Outer("a", Inner(2)), True)]


def shell(*words, cwd):
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_real_command_line(fitted):
    wrong = shell("-m", "corank", "rank", "b.corank", "nothing.csv", cwd=fitted)
    assert (wrong.returncode, wrong.stdout, wrong.stderr) == (
        2,
        "",
        "corank: there is no file nothing.csv\n",
    )


@pytest.mark.slow
def test_fit_and_rank_as_processes(folder):
    fit = shell("-m", "corank", *FIT[:6], "--query", "user", "--out", "b.corank", cwd=folder)
    assert (fit.returncode, len(fit.stderr.splitlines())) == (0, 1)  # the note on book_id
    rank = shell("-m", "corank", "rank", "b.corank", "new.csv", "--out", "ranked.csv", cwd=folder)
    assert (rank.returncode, rank.stderr) == (0, "")


def test_the_list_of_commands_says_what_their_help_says():
    for name, line in COMMANDS.items():
        module = importlib.import_module(f"corank.cli.{FILES.get(name, name)}")
        first = getattr(module, name).__doc__.split("\n\n")[0]
        assert " ".join(first.split()) == line


def test_help_does_not_wait_for_what_it_does_not_need(tmp_path):
    program = (
        "import sys, corank.cli; print({'numpy', 'sklearn', 'pyarrow', 'scipy'} & set(sys.modules))"
    )
    assert shell("-c", program, cwd=tmp_path).stdout == "set()\n"


@pytest.mark.parametrize(
    ("n_rows", "n_fits"), [(20, 2), (12, 1)], ids=["unscored rows", "all scored"]
)
def test_fit_makes_no_fit_twice(n_rows, n_fits, tmp_path, monkeypatch):
    """One average and, to say whether unscored rows helped, one without them."""
    table = tmp_path / "items.csv"
    rows = [f"{i * i % 7},{i % 3},{i if i < 12 else ''}" for i in range(n_rows)]
    table.write_text("\n".join(["a,b,rating", *rows]))
    seen = []

    def count(space, *others, **options):
        seen.append([matrix.tolist() for matrix in space.scored.values()])
        return fit_average(space, *others, **options)

    monkeypatch.setattr("corank.learners.average.model.fit_average", count)
    run("fit", table, "--score", "rating", "--out", tmp_path / "model.corank")
    assert len(seen) == n_fits
    assert all(first != second for first, second in itertools.combinations(seen, 2))


def test_names_are_found_when_first_used():
    assert (corank.metrics.__name__, corank.load.__name__) == ("corank.metrics", "load")
    assert "RLS" in dir(corank)
    assert not hasattr(corank, "x")
    for name in corank.__all__:
        assert getattr(corank, name) is not None


@pytest.mark.parametrize("words", [(), ("uci", "--data", "folder"), ("--list",)])
def test_reproduce_says_where_the_studies_are(words):
    told = " ".join(run("reproduce", *words, code=2).output.split())
    assert "python -m studies NAME --data DIR" in told
    assert "reproduce" not in run("--help").output
