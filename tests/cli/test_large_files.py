"""The command line on folders and patterns: the models, rankings and measures of the same rows in
one file.
"""

import json
import shutil

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scan_files import make_rows, table, write_parts
from typer.testing import CliRunner

from corank import RLS, load
from corank.cli import app, console
from corank.tables import read_table, write_table

pytestmark = pytest.mark.usefixtures("one_blas_thread")
X, Y, QID = make_rows(n=240)
U, _, U_QID = make_rows(n=120, seed=1)


def run(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "100"})
    assert result.exit_code == code, result.output
    return result.output


def with_words(rows, numbers):
    words = pa.array(np.where(numbers > 0, "high", "low").tolist())
    return rows.append_column("word", words).append_column(
        "name", pa.array([f"n{k}" for k in range(rows.num_rows)])
    )


COLUMNS = ("--score", "y", "--query", "q", "--id", "name", "--basis", "20", "--gamma", "scale")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The same rows in one file and in several, unscored rows, and a model of them."""
    folder = tmp_path_factory.mktemp("made")
    rows = with_words(table(X, Y, QID), X[:, 4])
    parquet.write_table(rows, folder / "rows.parquet")
    write_parts(rows, folder / "parts", [30, 111])
    write_parts(rows, folder / "texts", [30, 111], "csv")
    write_parts(with_words(table(U, None, U_QID), U[:, 4]), folder / "more", [70])
    run(
        "fit",
        folder / "rows.parquet",
        *COLUMNS,
        "--method",
        "rankrls",
        "--out",
        folder / "m.corank",
    )
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "method"), [("texts", "rankrls"), ("parts", "rls"), ("parts", "corankrls")]
)
def test_a_folder_gives_the_model_of_one_file(folder, kind, method):
    words = (*COLUMNS, "--method", method, "--no-effect", "--out")
    run("fit", folder / "rows.parquet", *words, folder / "one.corank")
    said = run("fit", folder / kind, *words, folder / "many.corank")
    assert "240" in said
    one, many = (load(folder / f"{name}.corank") for name in ("one", "many"))
    rows = read_table(folder / "rows.parquet")
    expected = one.predict(one.encoder_.transform(rows))
    np.testing.assert_allclose(
        many.predict(many.encoder_.transform(rows)), expected, atol=1e-8 * np.ptp(expected)
    )
    kept = {name: value for name, value in one.table_.items() if name != "marks"}
    # a scan counts those with a score
    assert many.table_ == {**kept, "queries": many.table_["queries"]}


def test_more_unscored_rows_and_a_checkpoint(folder):
    words = (
        "fit",
        folder / "parts" / "*.parquet",
        *COLUMNS,
        "--method",
        "corankrls",
        "--unscored",
        folder / "more",
    )
    words = (*words, "--no-effect")
    views = ("--view", "x0,x1,x2", "--view", "x3,x4,x5,word=*")
    result = json.loads(
        run(*words, *views, "--checkpoint", folder / "kept", "--out", folder / "a.corank", "--json")
    )
    assert result["method"] == "CoRankRLS"
    assert result["agreement"] >= 0
    assert (result["gammas_tried"], result["tried"]) == (
        1,
        len(load(folder / "a.corank").path_.error),
    )
    assert (folder / "kept" / "about.json").exists()
    run(*words, *views, "--checkpoint", folder / "kept", "--out", folder / "b.corank")
    a, b = (load(folder / f"{name}.corank") for name in "ab")
    assert a.counts()["unscored"] == 120 + int(np.isnan(Y).sum())
    for own, other in zip(a.coef_, b.coef_, strict=True):
        np.testing.assert_array_equal(own, other)
    said = run(
        *words,
        "--alpha",
        "1",
        "--checkpoint",
        folder / "kept",
        "--out",
        folder / "c.corank",
        code=2,
    )
    assert "belongs to another fit" in said
    assert not (folder / "c.corank").exists()


def test_rank_and_evaluate_a_folder(folder):
    run(
        "rank",
        folder / "m.corank",
        folder / "rows.parquet",
        "--id",
        "name",
        "--out",
        folder / "one.parquet",
    )
    said = run(
        "rank",
        folder / "m.corank",
        folder / "parts",
        "--id",
        "name",
        "--out",
        folder / "many.parquet",
    )
    assert "240 rows ranked in" in said
    one, many = read_table(folder / "one.parquet"), read_table(folder / "many.parquet")
    assert many.column_names == one.column_names
    assert many["name"].to_pylist() == one["name"].to_pylist()
    assert many["rank"].to_pylist() == one["rank"].to_pylist()
    np.testing.assert_allclose(many["score"].to_numpy(), one["score"].to_numpy(), atol=1e-10)
    run("rank", folder / "m.corank", folder / "parts", "--out", folder / "all.csv")
    assert {"rank", "score", "word", "y"} <= set(read_table(folder / "all.csv").column_names)
    results = [
        json.loads(run("evaluate", folder / "m.corank", folder / name, "--json", "--quiet"))
        for name in ("rows.parquet", "parts")
    ]
    assert results[1]["disagreement"]["value"] == pytest.approx(results[0]["disagreement"]["value"])
    assert results[1]["queries"] == results[0]["queries"]


def test_large_files_are_read_in_passes(folder, monkeypatch):
    monkeypatch.setattr(console, "BIG_BYTES", 1_000)
    assert "240 rows ranked" in run(
        "rank", folder / "m.corank", folder / "rows.parquet", "--out", folder / "ranked.csv.gz"
    )


def test_svmlight(folder):
    rows = write_parts(table(X, Y, QID), folder / "letor", [100], "svmlight")
    run("fit", rows, "--basis", "20", "--out", folder / "letor.corank")
    assert load(folder / "letor.corank").n_features_in_ == 6
    assert load(folder / "letor.corank").table_["query"] == "qid"


@pytest.mark.parametrize(
    ("words", "mentions"),
    [
        (("parts", "--score", "nope"), "'nope'"),
        (("parts", "--score", "y", "--query", "Q"), ("'Q'", "'q'")),
        (("parts", "--score", "y", "--method", "kpcr"), "--method kpcr"),
        (
            ("parts", "--score", "y", "--unscored", "more", "--method", "rls"),
            ("--unscored", "--method rls"),
        ),
        (("parts", "--score", "y", "--method", "preference"), "--method preference"),
        (("parts", "--comparisons", "who.csv", "--item", "name"), "--comparisons"),
        (("parts", "--score", "y", "--items", "who.csv", "--id", "name"), "--items"),
        (
            ("rows.parquet", "--comparisons", "who.csv", "--item", "name", "--checkpoint", "kept"),
            ("--checkpoint", "--comparisons"),
        ),
        (
            ("rows.parquet", "--score", "y", "--view", "x0", "--method", "rls"),
            ("--view", "--method rls"),
        ),
        (("rows.parquet", "--score", "y", "--view", "x0"), "--view"),
        (("none/*.parquet", "--score", "y"), "none/*.parquet"),
        (("parts", "--score", "y", "--dask", "tcp://127.0.0.1:1"), ("--dask", "tcp://127.0.0.1:1")),
        (("parts", "--score", "y", "--device", "cpu"), ("--device", "average")),
        (("rows.jsonl", "--score", "y", "--passes"), ("rows.jsonl", "passes", "Parquet")),
        (("parts", "--score", "y", "--shuffle-queries"), ("--shuffle-queries", "--query")),
        (
            (
                "parts",
                "--score",
                "y",
                "--query",
                "q",
                "--shuffle-queries",
                "--dask",
                "tcp://127.0.0.1:1",
            ),
            ("--shuffle-queries", "--dask"),
        ),
    ],
    ids=[
        "no score column",
        "no query column",
        "a method that needs memory",
        "unscored rows and a method without views",
        "a Gaussian process",
        "comparisons",
        "items",
        "a checkpoint and comparisons",
        "a view and a method without views",
        "a single view",
        "a pattern of nothing",
        "no scheduler",
        "a device and an average",
        "lines of JSON in passes",
        "queries brought together without queries",
        "queries brought together by Dask",
    ],
)
def test_what_is_wrong(folder, refused, words, mentions, monkeypatch):
    if "--dask" in words:
        distributed = pytest.importorskip("distributed")

        def unreachable(*address, **options):
            raise OSError("nobody answers")

        monkeypatch.setattr(distributed, "Client", unreachable)
    (folder / "rows.jsonl").write_text('{"y": 1, "x0": 2}\n')
    refused("fit", *words, "--out", "x.corank", mentions=mentions)


@pytest.mark.parametrize("option", ["--effect", "--no-effect"])
def test_an_average_in_passes_says_that_no_effect_is_checked(folder, option):
    said = run("fit", "parts", "--score", "y", "--id", "name", option, "--out", "x.corank")
    assert ("whether unscored rows help is not checked" in said) == (option == "--effect")


def test_views_learn_from_comparisons_and_suggest(folder, monkeypatch):
    monkeypatch.chdir(folder)
    best = np.argsort(-np.nan_to_num(Y[:40], nan=-9.0))
    who = pa.table(
        {"winner": [f"n{k}" for k in best[:10]], "loser": [f"n{k}" for k in best[10:20]]}
    )
    parquet.write_table(who, "who.parquet")
    words = (
        "--method",
        "corankrls",
        "--view",
        "x0,x1,x2",
        "--view",
        "x3,x4,x5,word=*",
        "--drop",
        "y,q",
        "--no-effect",
    )
    learned = json.loads(
        run(
            "fit", "rows.parquet", "--comparisons", "who.parquet", "--item", "name", *words, "--out", "v.corank",
            "--basis", "20", "--quiet", "--json",
        )
    )  # fmt: skip
    assert (learned["method"], learned["comparisons"], learned["scored"]) == ("CoRankRLS", 10, 20)
    assert load("v.corank").views_[0].columns.tolist() == [0, 1, 2]
    asked = json.loads(run("suggest", "v.corank", "rows.parquet", "-n", "3", "--quiet", "--json"))
    assert asked["kind"] == "comparison"
    assert len(asked["questions"]) == 3
    assert "cannot be updated" in run(
        "update", "v.corank", "who.parquet", "--items", "rows.parquet", "--out", "n.corank", code=2
    )
    run(
        "fit",
        "rows.parquet",
        *COLUMNS,
        "--method",
        "corls",
        "--no-effect",
        "--out",
        "s.corank",
        "--quiet",
    )
    assert (
        json.loads(run("suggest", "s.corank", "rows.parquet", "-n", "2", "--quiet", "--json"))[
            "kind"
        ]
        == "score"
    )
    assert "agreement" in run("inspect", "s.corank")


def test_ranking_a_folder_needs_a_place(folder, refused):
    refused("rank", "m.corank", "parts", mentions="--out")


def test_a_model_of_numbers_ranks_a_folder_without_queries(folder, refused):
    frame = read_table("rows.parquet").select(["x0", "x1"]).to_pandas()
    RLS(1.0).fit(frame, Y).save("plain.corank")
    said = run("rank", "plain.corank", "parts", "--out", "scores.csv")
    assert "no query column: rows stay in their order" in " ".join(said.split())
    np.testing.assert_allclose(
        read_table("scores.csv")["score"].to_numpy(), load("plain.corank").predict(frame)
    )
    refused("rank", "plain.corank", "parts", "--top", "3", "--out", "top.csv", mentions="--top")
    RLS(1.0).fit(frame.to_numpy(), Y).save("nameless.corank")
    refused("rank", "nameless.corank", "parts", "--out", "top.csv", mentions="encoder=")


def test_a_device_is_computed_on(tmp_path):
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 60))
    items = pa.table({"a": a, "b": b, "q": np.repeat(np.arange(6), 10), "y": a - b})
    write_table(items, tmp_path / "items.csv")
    (tmp_path / "parts").mkdir()
    parquet.write_table(items, tmp_path / "parts" / "one.parquet")
    frame = items.select(["a", "b"]).to_pandas()
    for source, name in (("items.csv", "whole"), ("parts", "passes")):
        for device in ([], ["--device", "cpu"]):
            out = tmp_path / f"{name}{len(device)}.corank"
            run(
                "fit",
                tmp_path / source,
                "--score",
                "y",
                "--query",
                "q",
                "--alpha",
                "1",
                *device,
                "--out",
                out,
            )
        first, second = (load(tmp_path / f"{name}{size}.corank").predict(frame) for size in (0, 2))
        np.testing.assert_allclose(first, second, atol=1e-9)


def test_a_device_that_is_not_there_is_refused_before_any_work(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "items.csv").write_text("a,y\n1,2\n2,3\n")
    run(
        *(
            "fit",
            tmp_path / "items.csv",
            "--score",
            "y",
            "--device",
            "nonsense",
            "--out",
            tmp_path / "m.corank",
        ),
        code=2,
    )
    assert not (tmp_path / "m.corank").exists()


def test_columns_of_an_older_ranking_stay_beside_the_new_one(folder):
    rows = parquet.read_table(folder / "rows.parquet")
    older = rows.append_column("rank", pa.array(range(240))).append_column(
        "score", pa.array(range(240))
    )
    write_parts(older, folder / "older", [100])
    run("rank", folder / "m.corank", folder / "older", "--out", folder / "new.parquet")
    assert {"rank", "score", "predicted_rank", "predicted_score"} <= set(
        read_table(folder / "new.parquet").column_names
    )
    write_parts(read_table(folder / "new.parquet"), folder / "twice", [100])
    said = run(
        "rank", folder / "m.corank", folder / "twice", "--out", folder / "newer.parquet", code=2
    )
    assert "has columns 'rank' and 'predicted_rank'" in " ".join(said.split())


def test_whole_numbers_in_csv_files_are_numbers(folder):
    whole = table(np.round(X * 10), Y, QID)
    kinds = [
        pa.field(field.name, pa.int64()) if field.name.startswith("x") else field
        for field in whole.schema
    ]
    rows = whole.cast(pa.schema(kinds))
    parquet.write_table(rows, folder / "whole.parquet")
    write_parts(rows, folder / "whole", [30, 111], "csv")
    words = (*COLUMNS[:4], *COLUMNS[6:], "--method", "rankrls", "--out")
    for name in ("whole.parquet", "whole"):
        run("fit", folder / name, *words, folder / f"{name}.corank")
    one, many = (load(folder / f"{name}.corank") for name in ("whole.parquet", "whole"))
    expected = one.predict(rows)
    np.testing.assert_allclose(many.predict(rows), expected, atol=1e-8 * np.ptp(expected))


def test_columns_of_two_kinds_name_their_files(folder):
    for number, values in enumerate(([1, 2], ["a", "b"])):
        rows = table(X[:2], Y[:2], QID[:2]).append_column("c", pa.array(values))
        parquet.write_table(rows, folder / f"c{number}.parquet")
    said = run("fit", folder / "c?.parquet", *COLUMNS, "--out", folder / "c.corank", code=2)
    assert "column 'c' holds string in" in " ".join(said.split())


def test_files_without_rows_are_not_ranked(folder):
    write_parts(parquet.read_table(folder / "rows.parquet").slice(0, 0), folder / "none")
    said = run(
        "rank", folder / "m.corank", folder / "none", "--out", folder / "none.parquet", code=2
    )
    assert "has no rows" in said
    assert "has no rows" in run("evaluate", folder / "m.corank", folder / "none", code=2)
    assert not (folder / "none.parquet").exists()


@pytest.mark.parametrize("kind", [pytest.param("parquet", marks=pytest.mark.slow), "csv"])
def test_rows_that_are_not_sorted_by_query_are_brought_together(folder, kind):
    rows = parquet.read_table(folder / "rows.parquet").append_column(
        "007", pa.array([f"{k:03}" for k in range(240)])
    )
    parquet.write_table(rows, folder / "sorted.parquet")
    mixed = write_parts(
        rows.take(np.random.default_rng(0).permutation(240)), folder / "mixed", [30, 111], kind
    )
    words = (*COLUMNS, "--alpha", "1", "--drop", "007", "--out")
    said = " ".join(run("fit", mixed, *words, folder / "s.corank", code=2).split())
    assert "sort the files by query, or use --shuffle-queries" in said
    assert "scan(" not in said
    run(
        "fit",
        mixed,
        *words,
        folder / "s.corank",
        "--shuffle-queries",
        "--basis",
        "features",
        "--kernel",
        "linear",
    )
    same = ("--basis", "features", "--kernel", "linear")
    run(
        "fit",
        folder / "sorted.parquet",
        *words,
        folder / "one.corank",
        "--method",
        "rankrls",
        *same,
    )
    expected = load(folder / "one.corank").predict(rows)
    np.testing.assert_allclose(
        load(folder / "s.corank").predict(rows), expected, atol=1e-8 * np.ptp(expected)
    )

    assert "--shuffle-queries" in run(
        "rank", folder / "one.corank", mixed, "--out", folder / "r.parquet", code=2
    )
    run("rank", folder / "one.corank", mixed, "--out", folder / "r.parquet", "--shuffle-queries")
    run("rank", folder / "one.corank", folder / "sorted.parquet", "--out", folder / "s.parquet")
    ranked, other = (read_table(folder / f"{name}.parquet").to_pandas() for name in "rs")
    assert sorted(ranked.columns) == sorted(other.columns.drop("row"))
    own, expected = (
        frame.set_index("name").loc[[f"n{k}" for k in range(240)]] for frame in (ranked, other)
    )
    np.testing.assert_array_equal(own["rank"], expected["rank"])
    assert (own["007"] == expected["007"]).all()

    measured = ("evaluate", folder / "one.corank", mixed, "--json")
    assert "--shuffle-queries" in run(*measured, code=2)
    found = json.loads(run(*measured, "--shuffle-queries", "--quiet"))
    known = json.loads(
        run("evaluate", folder / "one.corank", folder / "sorted.parquet", "--json", "--quiet")
    )
    assert found["disagreement"]["value"] == pytest.approx(known["disagreement"]["value"])
