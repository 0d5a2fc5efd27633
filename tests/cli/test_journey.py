"""The command line as a user walks through it, on every kind of file: fit, rank, evaluate, compare,
inspect, suggest, update. With CORANK_COMMAND set (tools/release_check.py does) all of it drives the
installed command."""

import json
import os
import resource
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command_line import COMMAND, error, run, shell

from corank import load
from corank.tables import read_table, write_table

pytestmark = pytest.mark.usefixtures("one_blas_thread")
N = 90
QUICK = ("--gamma", "scale", "--quiet")


def frame(seed=0, n=N, unscored=0.3):
    rng = np.random.default_rng(seed)
    a, b, c, d = rng.normal(size=(4, n)).round(3)
    y = (a + 0.5 * b + rng.normal(0, 0.1, n)).round(3)
    y[rng.random(n) < unscored] = np.nan
    return pd.DataFrame(
        {"q": np.arange(n) // 9, "text_a": a, "text_b": b, "img_a": a + 0.2 * c, "img_b": d, "y": y}
    )


KINDS = ("csv", "tsv.gz", "parquet", "jsonl", "svm")
ALL = [
    pytest.param(kind, marks=() if kind in ("parquet", "svm") else pytest.mark.slow)
    for kind in KINDS
]


def written(kind, name="items", **options):
    """A table as a file of that kind, and the options that name its columns; the items have names
    but for svmlight.
    """
    table, path = frame(**options), f"{name}.{kind}"
    if kind == "svm":
        own = table.rename(columns={"text_a": "1", "text_b": "2", "img_a": "3", "img_b": "4"})
        with Path(path).open("w") as file:
            for row in own.to_dict("records"):
                features = " ".join(f"{at}:{row[str(at)]}" for at in range(1, 5))
                file.write(f"{row['y']} qid:{int(row['q'])} {features} # note\n")
        return path, ()
    table.insert(0, "name", [f"{name}{row}" for row in range(len(table))])
    write_table(table, path)
    return path, ("--score", "y", "--query", "q", "--id", "name")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---------------------------------------------------------------- the whole way


@pytest.mark.parametrize("kind", ALL)
def test_from_fit_to_update(kind):
    items, columns = written(kind)
    new, _ = written(kind, "new", seed=1)
    score, query = (columns[1], columns[3]) if columns else ("score", "qid")
    run(
        "fit",
        items,
        *columns,
        "--method",
        "difference",
        "--amplitude",
        "1",
        "--noise",
        "0.1",
        *QUICK,
        "--out",
        "m.corank",
    )
    for out in ("ranked.csv", "ranked.parquet", "ranked.jsonl"):
        run("rank", "m.corank", new, "--out", out, "--quiet")
    tables = [
        read_table(f"ranked.{end}", text=["name"]).to_pandas()
        for end in ("csv", "parquet", "jsonl")
    ]
    own = tables[0].columns[:3].tolist()
    assert [name.removeprefix("predicted_") for name in own] == ["rank", "score", "std"]
    for other in tables[1:]:
        pd.testing.assert_frame_equal(other[own], tables[0][own], rtol=1e-9)
    for _, group in tables[0].groupby(query):
        assert group[own[0]].tolist() == list(range(1, len(group) + 1))
        assert (np.diff(group[own[1]]) <= 0).all()
    found = json.loads(run("evaluate", "m.corank", new, "--json").stdout)
    assert found["disagreement"]["value"] < 0.2
    said = json.loads(run("inspect", "m.corank", "--json").stdout)
    assert (said["method"], said["score_column"], said["queries"]) == (
        "DifferenceGP",
        score,
        N // 9,
    )
    run("suggest", "m.corank", new, "-n", "1", "--out", "questions.csv", "--quiet")
    questions = read_table("questions.csv", text=["name"]).to_pandas()
    questions[score] = 1.0
    questions.to_csv("answers.csv", index=False)
    beside = ("--items", new) if columns else ()
    added = run("update", "m.corank", "answers.csv", *beside, "--out", "m2.corank", "--json")
    assert json.loads(added.stdout)["added"] == len(questions)
    assert "rank" in run("rank", "m2.corank", new).stdout


@pytest.mark.parametrize("kind", ["csv", "svm"])
def test_compare(kind):
    items, columns = written(kind)
    words = (
        "--repeats",
        "2",
        "--no-curves",
        "--jobs",
        "1",
        "--keep",
        "kept",
        "--scored-share",
        "0.5",
        "--quiet",
    )
    found = run(
        "compare",
        items,
        *columns,
        *words,
        "--methods",
        "ridge,rankrls",
        "--report",
        "r.html",
        "--json",
    )
    assert {one["method"] for one in json.loads(found.stdout)["methods"]} == {"ridge", "rankrls"}
    assert Path("r.html").read_text().startswith("<!DOCTYPE html>")
    if kind == "csv":
        views = ("--view", "text=text_*", "--view", "image=img_*")
        assert (
            "CoRankRLS"
            in run(
                "compare", items, *columns, *words, "--methods", "ridge,corankrls", *views
            ).stdout
        )


def test_learning_from_comparisons():
    items, _ = written("csv")
    y = (frame()["text_a"] + 0.5 * frame()["text_b"]).to_numpy()
    rng = np.random.default_rng(0)
    pairs = rng.permutation(N)[:60].reshape(30, 2)
    best = np.where((y[pairs[:, 0]] > y[pairs[:, 1]])[:, None], pairs, pairs[:, ::-1])
    gap = abs(y[pairs[:, 0]] - y[pairs[:, 1]]).round(2)
    table = pa.table(
        {"a": [f"items{k}" for k in best[:, 0]], "b": [f"items{k}" for k in best[:, 1]], "m": gap}
    )
    write_table(table, "pairs.parquet")
    told = (
        "--item",
        "name",
        "--comparisons",
        "pairs.parquet",
        "--winner",
        "a",
        "--loser",
        "b",
        "--features",
        "text_*,img_*",
    )
    plain = json.loads(
        run("fit", items, *told, "--gamma", "scale", "--out", "r.corank", "--json").stdout
    )
    assert (plain["method"], plain["comparisons"]) == ("RankRLS", 30)
    settings = ("--method", "difference", "--amplitude", "1", "--noise", "0.1")
    run("fit", items, *told, "--margin", "m", *settings, *QUICK, "--out", "m.corank")
    found = json.loads(
        run("evaluate", "m.corank", "pairs.parquet", "--items", items, "--json").stdout
    )
    assert found["right_order"]["value"] > 0.8
    run("suggest", "m.corank", items, "-n", "2", "--out", "ask.csv", "--quiet")
    asked = read_table("ask.csv").to_pandas()
    asked.assign(winner=asked["first"], m=1.0).to_csv("told.csv", index=False)
    run("update", "m.corank", "told.csv", "--items", items, "--out", "m2.corank", "--quiet")
    assert (
        "std" in run("rank", "m2.corank", items, "--top", "3", "--out", "-").stdout.splitlines()[0]
    )


def test_views_by_name():
    items, columns = written("csv")
    views = ("--view", "text=text_*", "--view", "image=img_a,img_b")
    run(
        "fit",
        items,
        *columns,
        *views,
        "--method",
        "corankrls",
        "--basis",
        "20",
        *QUICK,
        "--out",
        "v.corank",
    )
    model = load("v.corank")
    assert [view.name for view in model.views_] == ["text", "image"]
    assert [view.columns.tolist() for view in model.views_] == [[0, 1], [2, 3]]
    assert "view 1 text: 2 columns" in " ".join(run("inspect", "v.corank").stdout.split())
    for wrong, what in (
        (
            ("--view", "text=text_*", "--view", "image=immg_*"),
            "--view image: no column matches 'immg_*'",
        ),
        (("--view", "x=text_a", "--view", "x=img_a"), "two views have the same name"),
        (
            (
                "--view",
                "text_*",
            ),
            "--view is given once",
        ),
    ):
        assert what in error("fit", items, *columns, *wrong, "--out", "w.corank")


def test_views_take_all_categories_of_a_column():
    table = frame().assign(text_kind=np.where(frame()["text_a"] > 0, "high", "low"), empty=1.0)
    table.to_csv("k.csv", index=False)
    words = ("--score", "y", "--method", "corls", "--basis", "20", *QUICK, "--out", "k.corank")
    run("fit", "k.csv", "--drop", "q", *words, "--view", "text_kind,text_a", "--view", "img_*")
    first, second = load("k.corank").views_
    assert (first.name, len(first.columns), len(second.columns)) == ("text_kind,text_a", 3, 2)
    wrong = ("--view", "a=empty", "--view", "b=img_*")
    assert "none of its columns is learned from" in error(
        "fit", "k.csv", "--drop", "q", *words, "--force", *wrong
    )


# ---------------------------------------------------------------- --method auto


@pytest.mark.parametrize(
    ("options", "unscored", "method"),
    [
        ((), 0.3, "AutoRegressor"),
        (("--query", "q"), 0.0, "AutoRanker"),
        (("--query", "q", "--view", "text_*", "--view", "img_*"), 0.3, "AutoRanker"),
        (("--query", "q", "--alpha", "1"), 0.3, "RankRLS"),
        (("--drop", "q", "--gamma", "scale"), 0.0, "RLS"),
        (("--gamma", "scale", "--view", "text_*", "--view", "img_*"), 0.3, "CoRLS"),
    ],
)
def test_the_method_follows_from_the_table_and_the_options(options, unscored, method):
    frame(unscored=unscored).to_csv("t.csv", index=False)
    result = run("fit", "t.csv", "--score", "y", *options, "--out", "m.corank", "--json")
    said = json.loads(result.stdout)
    assert said["method"] == method
    assert ("average" in said) == method.startswith("Auto")
    assert ("settings of a single learner are given" in result.stderr) == (
        not method.startswith("Auto")
    )
    if "average" in said:
        assert sum(line["weight"] for line in said["candidates"]) == pytest.approx(1)
        assert ("unscored_effect" in said) == (unscored > 0)


def test_auto_says_in_words_what_it_is_made_of():
    frame().to_csv("t.csv", index=False)
    words = " ".join(
        run("fit", "t.csv", "--score", "y", "--query", "q", "--out", "m.corank").stdout.split()
    )
    assert "AutoRanker fitted on t.csv" in words
    assert "model An average of" in words
    assert "share of misordered pairs in new queries" in words
    assert " without them, " in words


def test_auto_in_passes_is_an_average_but_for_settings_and_more_unscored_rows():
    Path("many").mkdir()
    frame().to_parquet("many/a.parquet")
    words = ("fit", "many", "--score", "y", "--query", "q", "--out")
    assert "AutoRanker fitted on many" in run(*words, "a.corank").stdout
    run("fit", "many/a.parquet", *words[2:], "b.corank", "--passes")
    for name in "ab":
        run("rank", f"{name}.corank", "many", "--out", f"{name}.csv")
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    run("evaluate", "a.corank", "many")
    result = run(*words, "m.corank", "--basis", "20")
    assert "averaged: this is --method rankrls\n" in result.stderr
    assert type(load("m.corank")).__name__ == "RankRLS"
    more = run(*words, "c.corank", "--basis", "20", "--unscored", "many")
    assert "this is --method corankrls\n" in more.stderr
    assert "rows of --unscored are" in run(*words, "d.corank", "--unscored", "many").stderr


# ---------------------------------------------------------------- standard input and output


@pytest.mark.parametrize("kind", KINDS)
def test_standard_input_is_known_by_its_first_bytes(kind):
    items, columns = written(kind)
    content = Path(items).read_bytes()
    words = (*columns, "--method", "rankrls", "--gamma", "scale", "--out")
    assert "fitted on standard input" in run("fit", "-", *words, "a.corank", given=content).stdout
    run("fit", items, *words, "b.corank", "--quiet")
    np.testing.assert_array_equal(load("a.corank").coef_, load("b.corank").coef_)
    piped = run("rank", "a.corank", "-", "--out", "-", given=content).stdout_bytes
    run("rank", "b.corank", items, "--out", "ranked.csv", "--quiet")
    assert piped == Path("ranked.csv").read_bytes()


def test_formats_can_be_told():
    items, columns = written("csv")
    Path("items.data").write_bytes(Path(items).read_bytes())
    Path("items").write_bytes(Path(items).read_bytes())
    words = (*columns, "--method", "rankrls", *QUICK, "--out")
    run("fit", items, *words, "a.corank")
    for name in ("items.data", "items"):
        run("fit", name, "--format", "csv", *words, f"{name}.corank")
        np.testing.assert_array_equal(load("a.corank").coef_, load(f"{name}.corank").coef_)
    for kind in ("csv", "tsv", "parquet", "jsonl"):
        printed = run(
            "rank",
            "a.corank",
            "items.data",
            "--format",
            "csv",
            "--out",
            "-",
            "--out-format",
            kind,
            "--top",
            "2",
        )
        Path(f"back.{kind}").write_bytes(printed.stdout_bytes)
        assert len(read_table(f"back.{kind}")) == 2 * N // 9
    Path("folder").mkdir()
    assert "--format goes with a single table" in error(
        "rank", "a.corank", "folder", "--format", "csv", "--out", "x.csv"
    )
    assert "items.data: " not in error(
        "rank", "a.corank", "items.data", "--format", "parquet", "--out", "x.csv"
    )
    assert "items.data looks like text" in error(
        "rank", "a.corank", "items.data", "--format", "parquet", "--out", "x.csv"
    )


def test_what_is_wrong_with_standard_input_is_said():
    items, columns = written("csv")
    run("fit", items, *columns, "--method", "rankrls", *QUICK, "--out", "m.corank")
    for content, what in (
        (b"", "standard input is empty"),
        (b"q,text_a\n", "standard input has a header but no rows"),
        (b"q,text_a\n1,2\n1\n", "data row 2 of standard input has 1 fields"),
    ):
        assert what in error("rank", "m.corank", "-", given=content)
    twice = ("fit", "-", "--item", "name", "--comparisons", "-", "--out", "x.corank")
    assert "standard input can be read only once" in error(*twice, given=Path(items).read_bytes())
    assert "--out -: a model cannot be printed" in error("fit", items, *columns, "--out", "-")


def test_top_keeps_the_best_of_each_query():
    items, columns = written("csv")
    run("fit", items, *columns, "--method", "rankrls", *QUICK, "--out", "m.corank")
    run("rank", "m.corank", items, "--out", "all.csv", "--quiet")
    assert (
        "the best 20 rows in 10 queries: top.csv"
        in run("rank", "m.corank", items, "--top", "2", "--out", "top.csv").stdout
    )
    whole, top = (read_table(f"{name}.csv").to_pandas() for name in ("all", "top"))
    pd.testing.assert_frame_equal(top, whole[whole["rank"] <= 2].reset_index(drop=True))
    found = json.loads(run("rank", "m.corank", items, "--top", "1", "--json").stdout)
    assert (found["rows"], found["queries"], len(found["ranking"])) == (N, 10, 10)
    assert {"rank", "score", "name"} <= set(found["ranking"][0])
    Path("many").mkdir()
    frame().to_parquet("many/a.parquet")
    run("rank", "m.corank", "many", "--top", "2", "--out", "passes.csv", "--quiet")
    np.testing.assert_allclose(
        read_table("passes.csv")["score"].to_numpy(), top["score"], atol=1e-9
    )


def test_svmlight_files_may_lack_the_last_features():
    Path("a.svm").write_text(
        "0 qid:1 1:0.1 2:1\n1 qid:1 1:0.9\n2 qid:2 1:0.7\n0.5 qid:2 1:0.2 2:2\n"
    )
    run("fit", "a.svm", "--alpha", "1", *QUICK, "--out", "m.corank")
    Path("short.svm").write_text("0 qid:1 1:0.5\n0 qid:1 1:0.1\n")
    Path("long.svm").write_text("0 qid:1 1:0.5 9:3\n0 qid:1 1:0.1\n")
    shown = [
        run("rank", "m.corank", f"{name}.svm", "--out", "-", "--id", "1").stdout
        for name in ("short", "long")
    ]
    assert shown[0] == shown[1]


# ---------------------------------------------------------------- as a process


def limited():
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000))  # as on a disk that is full


@pytest.mark.slow
def test_the_real_command(folder):
    """Pipes that are closed or full, a disk that is full, completion of words in the shell."""
    items, columns = written("csv", n=900)
    run("fit", items, *columns, "--method", "rankrls", "--basis", "20", *QUICK, "--out", "m.corank")
    before = sorted(folder.iterdir())
    full = shell("rank", "m.corank", items, "--out", "x.csv", preexec_fn=limited)
    assert (full.exit_code, full.stderr) == (2, "corank: x.csv: file too large\n")
    with Path("/dev/full").open("wb") as nowhere:
        printed = shell("rank", "m.corank", items, "--quiet", stdout=nowhere)
    assert (printed.exit_code, printed.stderr) == (2, "corank: no space left on device\n")
    process = subprocess.Popen(
        [*COMMAND, "rank", "m.corank", items, "--out", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    assert (process.stderr.read(), process.wait()) == (b"", 141)
    process.stderr.close()
    assert sorted(folder.iterdir()) == before
    environment = {
        **os.environ,
        "_CORANK_COMPLETE": "complete_bash",
        "COMP_WORDS": "corank fit --method ran",
        "COMP_CWORD": "3",
    }
    known = subprocess.run(COMMAND, env=environment, capture_output=True, check=False)
    assert known.stdout.split() == [b"rankrls"]


# ---------------------------------------------------------------- answers that a model knows


def scored_items(rows, *, named):
    table = pd.DataFrame(
        np.random.default_rng(7).normal(size=(40, 3)), columns=["a", "b", "c"]
    ).round(3)
    table = table.assign(y=(table["a"] + table["b"]).round(3))
    return table.assign(sku=[f"s{n}" for n in range(40)])[rows] if named else table[rows]


@pytest.mark.parametrize("named", [True, False])
def test_update_counts_a_row_once(named):
    words = ("--score", "y", *(("--id", "sku") if named else ()), "--json")
    scored_items(slice(0, 20), named=named).to_csv("first.csv", index=False)
    scored_items(slice(10, 30), named=named).to_csv("more.csv", index=False)
    first = json.loads(run("fit", "first.csv", *words, "--out", "m.corank").stdout)
    assert "marks" not in first
    result = run("update", "m.corank", "more.csv", "--out", "m2.corank", "--json")
    assert "10 scored rows of more.csv" in result.stderr
    assert {key: json.loads(result.stdout)[key] for key in ("added", "known", "scored")} == {
        "added": 10,
        "known": 10,
        "scored": 30,
    }
    assert "--again" in error("update", "m2.corank", "more.csv", "--out", "m3.corank")
    insists = run("update", "m2.corank", "more.csv", "--again", "--out", "m3.corank", "--json")
    assert json.loads(insists.stdout)["scored"] == 50
    scored_items(slice(10, 12), named=named).assign(y=9.0).to_csv("other.csv", index=False)
    assert (
        json.loads(run("update", "m2.corank", "other.csv", "--out", "m4.corank", "--json").stdout)[
            "added"
        ]
        == 2
    )


def test_rows_that_features_cannot_tell_apart_all_count():
    table = pd.DataFrame({"colour": ["red", "blue"] * 10, "y": [1.0, 0.0] * 10})
    table.to_csv("t.csv", index=False)
    run("fit", "t.csv", "--score", "y", "--out", "m.corank", "--quiet")
    assert (
        json.loads(run("update", "m.corank", "t.csv", "--out", "m2.corank", "--json").stdout)[
            "added"
        ]
        == 20
    )


def test_update_counts_a_comparison_once():
    scored_items(slice(0, 12), named=True).drop(columns="y").to_csv("items.csv", index=False)
    pairs = [("s0", "s1"), ("s2", "s3"), ("s0", "s4"), ("s5", "s1")]
    pd.DataFrame(pairs[:3], columns=["winner", "loser"]).to_csv("a.csv", index=False)
    pd.DataFrame([*pairs, pairs[0]], columns=["winner", "loser"]).to_csv("b.csv", index=False)
    words = (
        "--id",
        "sku",
        "--comparisons",
        "a.csv",
        "--method",
        "preference",
        "--amplitude",
        "1",
        "--gamma",
        "0.3",
    )
    run("fit", "items.csv", *words, "--out", "m.corank", "--quiet")
    said = run(
        "update", "m.corank", "b.csv", "--items", "items.csv", "--out", "m2.corank", "--json"
    )
    added = json.loads(said.stdout)
    # s0 beat s1 a second time
    assert (added["added"], added["known"], added["comparisons"]) == (2, 3, 5)
    said = run("evaluate", "m.corank", "b.csv", "--items", "items.csv", "--json")
    assert json.loads(said.stdout)["seen_in_training"] == 3
    assert "3 comparisons in b.csv" in said.stderr


def test_a_view_has_the_kernel_that_it_names_or_else_that_of_the_command():
    items, columns = written("csv")
    views = ("--view", "text=text_*:linear", "--view", "image=img_a,img_b")
    quick = ("--method", "corankrls", "--basis", "20", "--quiet")
    run(
        "fit",
        items,
        *columns,
        *views,
        *quick,
        "--kernel",
        "laplacian",
        "--gamma",
        "0.5",
        "--out",
        "k.corank",
    )
    model = load("k.corank")
    assert [(view.name, view.kernel) for view in model.views_] == [
        ("text", "linear"),
        ("image", "laplacian"),
    ]
    assert model.gamma_ == [None, 0.5]
    run("fit", items, *columns, *views, "--out", "a.corank", "--no-effect", "--quiet")
    assert [view.kernel for view in load("a.corank")._views] == ["linear", "rbf"]
    wrong = ("--view", "text_*:linaer", "--view", "img_*")
    assert "did you mean 'linear'" in error("fit", items, *columns, *wrong, "--out", "w.corank")


def test_tables_of_comparisons_are_joined():
    scored_items(slice(0, 12), named=True).drop(columns="y").to_csv("items.csv", index=False)
    pd.DataFrame([("s0", "s1"), ("s2", "s3")], columns=["winner", "loser"]).to_csv(
        "a.csv", index=False
    )
    other = pd.DataFrame([("s4", "s5", 2), ("s6", "s1", 1)], columns=["good", "bad", "times"])
    other.to_csv("b.csv", index=False)
    words = (
        "fit",
        "items.csv",
        "--id",
        "sku",
        "--winner",
        "winner,good",
        "--loser",
        "loser,bad",
        "--count",
        "times",
    )
    said = json.loads(
        run(*words, "--comparisons", "a.csv", "b.csv", "--out", "m.corank", "--json").stdout
    )
    assert (said["comparisons"], said["scored"]) == (5, 7)
    assert "'good'" in error(
        *words[:-4],
        "--loser",
        "bad",
        "--comparisons",
        "a.csv",
        "--winner",
        "good",
        "--out",
        "x.corank",
    )
