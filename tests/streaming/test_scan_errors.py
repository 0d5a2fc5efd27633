"""Scans refuse wrong files, rows and columns by name, before the first pass where footers and
headers tell.
"""

import gzip

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scan_files import NAMES, make_rows, table, write_parts
from scipy import sparse

from corank import (
    KPCR,
    RLS,
    CoRankingPursuit,
    CoRankRLS,
    DifferenceGP,
    PreferenceGP,
    RankRLS,
    TableEncoder,
    TransductiveRankRLS,
    View,
    scan,
)
from corank.streaming import models, survey
from corank.tables import TableError

pytestmark = pytest.mark.usefixtures("one_blas_thread")
X, Y, QID = make_rows(n=200, scored=1.0)
ENDS = list(range(20, 200, 20))
ROWS = table(X, Y, QID)
ENCODER = TableEncoder().fit(table(X))


class CLIENT:
    """Stands for a Dask client that is never asked."""

    status = "running"


@pytest.fixture
def folder(tmp_path):
    return write_parts(ROWS, tmp_path / "rows", ENDS)


def changed(folder, number, rows):
    parquet.write_table(rows, folder / f"part-{number:03}.parquet")


# ------------------------------------------------------------------ before the pass


def test_missing_files(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "rows.jsonl").write_text("{}")
    (tmp_path / "folder.parquet").mkdir()
    refused = [
        ([folder, tmp_path / "none.parquet"], TableError, r"no file .*none\.parquet"),
        (str(tmp_path / "*.pq"), TableError, r"\*\.pq"),
        (tmp_path / "empty", TableError, "empty has no files"),
        (str(tmp_path / "folder.*"), TableError, "folder.parquet has no files"),
        ([], TableError, "no file"),
        (7, TypeError, "paths .* 7"),
        ([b"rows"], TypeError, "paths .* b'rows'"),
        (__file__, TableError, "format="),
        (tmp_path / "rows.jsonl", TableError, "format="),
    ]
    for paths, error, message in refused:
        with pytest.raises(error, match=message):
            scan(paths)


def test_a_format_goes_before_the_ending_of_a_name(tmp_path):
    folder = write_parts(ROWS, tmp_path / "rows", kind="csv")
    file = (folder / "part-000.csv").rename(tmp_path / "rows.data")
    (chunk,) = scan(file, format="csv", score="y", query="q").chunks()
    np.testing.assert_allclose(chunk.features, X)


def test_files_that_are_no_parquet_or_cut_off(folder):
    file = folder / "part-009.parquet"
    content = file.read_bytes()
    for wrong in (content[: len(content) // 2], b"a,b\n1,2\n"):
        file.write_bytes(wrong)
        with pytest.raises(TableError, match=r"part-009\.parquet is no Parquet file"):
            scan(folder)
    file.write_bytes(b"")
    with pytest.raises(TableError, match=r"part-009\.parquet is empty"):
        scan(folder)


def test_files_of_several_kinds(folder):
    write_parts(ROWS, folder, kind="csv")
    with pytest.raises(TableError, match=r"several kinds \(csv, parquet\)"):
        scan(folder)
    assert scan(folder, format="parquet").n_rows == len(X)


def test_a_column_that_is_missing_or_of_another_type_in_the_tenth_file(folder):
    last = ROWS.slice(180)
    texts = pa.array(["a"] * 20)
    refused = [
        (last.drop_columns(["x3"]), r"part-009\.parquet .* feature column 'x3'"),
        (
            last.set_column(3, "x3", texts),
            r"feature column 'x3' of .*part-009\.parquet .* holds str",
        ),
        (last.set_column(6, "y", texts), r"score column 'y' of .*part-009\.parquet .* holds str"),
        (
            last.set_column(7, "q", texts),
            r"query column 'q' holds text in .*part-009.* whole numbers in .*part-000",
        ),
        (last.drop_columns(["q"]), r"part-009\.parquet .* query column 'q'"),
    ]
    for rows, message in refused:
        changed(folder, 9, rows)
        with pytest.raises(TableError, match=message):
            scan(folder, score="y", query="q")


def test_headers_without_the_query_column(tmp_path):
    folder = write_parts(table(X, Y), tmp_path / "rows", [100], "csv")
    with pytest.raises(TableError, match=r"part-000\.csv .* query column 'query'"):
        scan(folder, score="y", query="query")
    (folder / "part-001.csv").write_text("x0,x1\n")
    with pytest.raises(TableError, match=r"part-001\.csv has a header but no rows"):
        scan(folder)


def test_columns_that_svmlight_files_do_not_have(tmp_path):
    folder = write_parts(table(X, Y), tmp_path / "letor", [100], "svmlight")
    with pytest.raises(TableError, match=r"no qid.*'qid'"):
        scan(folder, score="score", query="qid")
    with pytest.raises(TableError, match=r"'y'.*'score'"):
        scan(folder, score="y")
    with pytest.raises(TableError, match="'z'"):
        scan(folder, features=["z"])
    write_parts(ROWS.slice(0, 9), folder, kind="svmlight")
    with pytest.raises(TableError, match=r"qid: .* all or none"):
        scan(folder)


ARGUMENTS = {
    "chunk_rows=0": ({"chunk_rows": 0}, ValueError, "chunk_rows .* 0"),
    "chunk_rows=2.5": ({"chunk_rows": 2.5}, ValueError, r"chunk_rows .* 2\.5"),
    "chunk_rows=True": ({"chunk_rows": True}, ValueError, "chunk_rows .* True"),
    "format": ({"format": "json"}, ValueError, "format 'json'"),
    "unknown feature": ({"features": ["x1", "X3"]}, TableError, "'X3'; did you mean 'x3'"),
    "score as feature": ({"features": ["y", "x1"], "score": "y"}, TableError, "'y' is the score"),
    "no features": ({"features": []}, ValueError, "features is empty"),
    "features=3": ({"features": 3}, TypeError, "features .* 3"),
    "a feature that is no name": ({"features": ["x1", 3]}, TypeError, "features .* 3"),
    "features and encoder": (
        {"features": ["x1"], "encoder": ENCODER},
        ValueError,
        "features .* encoder",
    ),
    "shuffle_queries": ({"shuffle_queries": True}, ValueError, "shuffle_queries=True .* query="),
    "shuffle_queries on workers": (
        {"shuffle_queries": True, "query": "q", "client": CLIENT},
        ValueError,
        "shuffle_queries=True .* client=",
    ),
    "score": ({"score": 5}, TypeError, "^score .* 5"),
    "query": ({"query": ["q"]}, TypeError, r"^query .* \['q'\]"),
    "encoder": ({"encoder": "e"}, TypeError, "^encoder .* 'e'"),
    "client": ({"client": "tcp://127.0.0.1:1"}, TypeError, "^client .* 'tcp"),
}


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_arguments(folder, kind):
    arguments, error, message = ARGUMENTS[kind]
    with pytest.raises(error, match=message):
        scan(folder, **arguments)


def test_maps_and_devices_that_are_none(folder):
    with pytest.raises(TypeError, match=r"map .* 3"):
        scan(folder).map(3)
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match="device='nowhere'"):
        scan(folder, device="nowhere")


def test_text_columns_are_named(folder):
    changed(folder, 0, ROWS.slice(0, 20).append_column("word", pa.array(["a"] * 20)))
    with pytest.raises(TableError, match="'word'; name the features"):
        scan(folder)
    parquet.write_table(pa.table({"y": [1.0]}), folder / "only.parquet")
    with pytest.raises(TableError, match="no column is left"):
        scan(folder / "only.parquet", score="y")


# ------------------------------------------------------------------ in the pass


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_a_feature_that_is_no_number_deep_in_the_data(folder, value):
    wrong = X.copy()
    wrong[193, 4] = value
    changed(folder, 9, table(wrong, Y, QID).slice(180))
    with pytest.raises(TableError, match=r"'x4' .* data row 14 of .*part-009\.parquet"):
        RankRLS(basis=5).fit(scan(folder, score="y", query="q", chunk_rows=8))


def test_text_among_numbers_in_a_csv(tmp_path):
    folder = write_parts(ROWS, tmp_path / "rows", [100], "csv")
    lines = (folder / "part-001.csv").read_text().splitlines()
    (folder / "part-001.csv").write_text(
        "\n".join([*lines[:-3], lines[-3].replace(lines[-3].split(",")[1], "abc")])
    )
    with pytest.raises(TableError, match=r"part-001\.csv .* holds string"):
        scan(folder, score="y", query="q")


def test_a_gzip_file_that_is_cut_off(tmp_path):
    folder = write_parts(ROWS, tmp_path / "rows", [100], "csv.gz")
    content = (folder / "part-001.csv.gz").read_bytes()
    (folder / "part-001.csv.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(TableError, match=r"part-001\.csv\.gz cannot be read"):
        RankRLS(basis=5).fit(scan(folder, score="y", query="q"))


def test_a_gzipped_svmlight_file_that_is_cut_off(tmp_path):
    folder = write_parts(ROWS, tmp_path / "rows", (), "svmlight")
    content = gzip.compress((folder / "part-000.svm").read_bytes())
    (tmp_path / "rows.svm.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(TableError, match=r"rows\.svm\.gz cannot be read"):
        scan(tmp_path / "rows.svm.gz", score="score", query="qid")


def test_a_line_that_is_no_svmlight(tmp_path):
    folder = write_parts(ROWS, tmp_path / "rows", [100], "svmlight")
    with (folder / "part-001.svm").open("a") as file:
        file.write("0.5 qid:7 1:0.3 2:oops\n")
    with pytest.raises(TableError, match=r"part-001\.svm"):
        RankRLS(basis=5).fit(scan(folder, score="score", query="qid"))
    (folder / "part-001.svm").write_text("a,b,c\n1,2,3\n")
    with pytest.raises(TableError, match=r"part-001\.svm is not an SVMlight file"):
        scan(folder)


def test_infinite_scores_and_missing_labels(folder):
    y = Y.copy()
    y[185] = -np.inf
    changed(folder, 9, table(X, y, QID).slice(180))
    with pytest.raises(TableError, match=r"'y' holds -inf in data row 6 of .*part-009"):
        RankRLS(basis=5).fit(scan(folder, score="y", query="q"))
    missing = pa.array([*QID[180:199].tolist(), None])
    changed(folder, 9, table(X, Y).slice(180).append_column("q", missing))
    with pytest.raises(TableError, match=r"'q' has no value in data row 20 of .*part-009"):
        RankRLS(basis=5).fit(scan(folder, score="y", query="q"))


@pytest.mark.parametrize(("kind", "chunk_rows"), [("text", 3), ("numbers", 50), ("text", 500)])
def test_a_query_that_comes_back_is_named(tmp_path, kind, chunk_rows):
    qid = np.repeat(np.arange(20), 10)
    qid[150:160] = 4
    labels = pa.array([f"user {label}" for label in qid]) if kind == "text" else pa.array(qid)
    folder = write_parts(table(X, Y).append_column("q", labels), tmp_path / "rows", ENDS)
    name = "'user 4'" if kind == "text" else "4"
    for model in (RankRLS(basis=5), RLS(basis=5), CoRankRLS(basis=5)):
        with pytest.raises(
            TableError, match=rf"query {name} comes back .* data row 11 of .*part-007"
        ):
            model.fit(scan(folder, score="y", query="q", chunk_rows=chunk_rows))
    with pytest.raises(TableError, match="comes back"):
        CoRankRLS([View(slice(0, 3)), View(slice(3, 6))], basis=5).fit(
            X, Y, qid=QID, unscored=scan(folder, features=NAMES, query="q", chunk_rows=chunk_rows)
        )


def test_a_file_that_changes_after_the_scan_was_made(folder):
    rows = scan(folder, score="y", query="q")
    changed(folder, 9, ROWS.slice(150))
    with pytest.raises(TableError, match=r"part-009\.parquet was changed after the scan was made"):
        RankRLS(basis=5).fit(rows)
    (folder / "part-009.parquet").unlink()
    with pytest.raises(TableError, match=r"part-009\.parquet no longer exists"):
        RankRLS(basis=5).fit(rows)


def test_maps_that_change_their_width(folder):
    def narrower(features):
        return features if len(features) == 64 or features[0, 0] == X[0, 0] else features[:, :3]

    with pytest.raises(
        ValueError, match=r"3 columns from data row 1 of .*part-001\.parquet on, and 6"
    ):
        RankRLS(1.0, 5).fit(scan(folder, score="y", query="q").map(narrower))


def test_maps_that_do_not_keep_rows(folder):
    refused = [
        (lambda features: features[:3], "map .* one row per row"),
        (
            lambda features: np.full_like(features, np.nan),
            "feature 0 has no value in data row 1 of",
        ),
        (sparse.csr_array, "map must give NumPy arrays"),
    ]
    for function, message in refused:
        with pytest.raises(ValueError, match=message):
            RankRLS(basis=5).fit(scan(folder, score="y", query="q").map(function))
    whole = scan(folder, score="y", query="q").map(lambda features: features.astype(int))
    assert next(whole.chunks()).features.dtype == np.float64


def test_no_scores(folder, tmp_path):
    with pytest.raises(ValueError, match="no score column"):
        RankRLS().fit(scan(folder, features=NAMES, query="q"))
    empty = write_parts(table(X, np.full(len(X), np.nan), QID), tmp_path / "empty")
    for model in (RankRLS(basis=5), CoRankRLS(basis=5)):
        with pytest.raises(ValueError, match="no scored row"):
            model.fit(scan(empty, score="y", query="q"))


# ------------------------------------------------------------------ what does not go with a scan


def test_arguments_that_a_scan_brings_itself(folder):
    rows = scan(folder, score="y", query="q")
    unscored = scan(folder, features=NAMES)
    refused = [
        (lambda: RankRLS().fit(rows, Y), ValueError, "^y .*score="),
        (lambda: CoRankRLS().fit(rows, qid=QID), ValueError, "^qid "),
        (lambda: RLS().fit(rows, sample_weight=Y), ValueError, "^sample_weight "),
        (
            lambda: CoRankRLS().fit(X, Y, qid=QID, unscored=unscored, unscored_qid=QID),
            ValueError,
            "^unscored_qid ",
        ),
        (lambda: RankRLS().fit(X), ValueError, "requires y"),
        (lambda: RankRLS().fit(X, Y, checkpoint="nowhere"), ValueError, "^checkpoint "),
        (
            lambda: RankRLS(basis=5).fit(X, Y).predict_to(X, "out.csv"),
            TypeError,
            r"predict_to .*scan",
        ),
    ]
    for fit, error, message in refused:
        with pytest.raises(error, match=message):
            fit()


def test_learners_that_need_their_rows(folder):
    rows = scan(folder, score="y", query="q")
    for model in (KPCR(), CoRankingPursuit(), TransductiveRankRLS()):
        with pytest.raises(TypeError, match=f"{type(model).__name__} needs its rows in memory"):
            model.fit(rows, Y)
    for gaussian in (PreferenceGP(), DifferenceGP()):
        with pytest.raises(TypeError, match=f"{type(gaussian).__name__} needs its rows in memory"):
            gaussian.fit(rows)
        with pytest.raises(TypeError, match=f"{type(gaussian).__name__} needs its rows in memory"):
            gaussian.fit_comparisons(rows, [0], [1])
        with pytest.raises(ValueError, match="requires y to be passed"):
            gaussian.fit(X)


def test_gaussian_processes_predict_scores_of_scans_but_no_spread(folder, tmp_path):
    rows = scan(folder, score="y", query="q", chunk_rows=30)
    models = (
        DifferenceGP(1.0, 0.1, 0.1, basis=20),
        PreferenceGP(1.0, basis=20, max_pairs=50, average_width=True),
    )
    for model in models:
        model.fit(X, Y, qid=QID)
        expected = model.predict(X)
        np.testing.assert_allclose(model.predict(rows), expected, rtol=1e-9, atol=1e-12)
        assert model.predict_to(rows, tmp_path / "scores.parquet", overwrite=True) == len(X)
        np.testing.assert_allclose(
            parquet.read_table(tmp_path / "scores.parquet")["prediction"], expected, rtol=1e-9
        )
        assert model.score(rows) == pytest.approx(model.score(X, Y, qid=QID))
        with pytest.raises(TypeError, match="needs its rows in memory"):
            model.predict(rows, return_std=True)


def test_parameters_that_need_scored_rows_in_memory(folder, monkeypatch):
    monkeypatch.setattr(survey, "HELD_BYTES", 0)
    rows = scan(folder, score="y", query="q")
    refused = [
        (learner(basis=basis), "in memory")
        for learner in (RankRLS, CoRankRLS)
        for basis in ("all", [1, 2, 3])
    ]
    refused += [
        (RankRLS(basis="scored"), "basis"),
        (CoRankRLS(basis=5, cv=3), "^cv "),
        (RankRLS(basis=5, cv=3), "^cv "),
        (RankRLS(basis=5, scoring="disagreement"), "scoring='disagreement'"),
        (RankRLS(kernel="precomputed"), "kernel='precomputed'"),
        (RankRLS(basis="features"), "basis='features' .*kernel='linear'"),
        (RankRLS(basis=500), "basis = 500"),
    ]
    for model, message in refused:
        with pytest.raises(ValueError, match=message):
            model.fit(rows)


def test_all_rows_as_basis_are_refused_where_they_are_many(folder, monkeypatch):
    monkeypatch.setattr("corank.learners.bases.MAX_WHOLE_SCAN", 100)
    with pytest.raises(ValueError, match=r"basis='all' .* 200 rows"):
        CoRankRLS(basis="all").fit(scan(folder, score="y", query="q"))


def test_a_scan_says_what_it_is(folder):
    assert "part-000.parquet …, 200 rows, 6 columns, score 'y', query 'q'>" in repr(
        scan(folder, score="y", query="q")
    )


# ------------------------------------------------------------------ writing


def test_a_full_disk_leaves_nothing_behind(folder, tmp_path):
    resource = pytest.importorskip("resource")
    model = RankRLS(1.0, basis=5).fit(X, Y, qid=QID)
    rows = scan(folder, features=NAMES, chunk_rows=50)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for ending in ("parquet", "csv", "csv.gz"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                model.predict_to(rows, tmp_path / f"out.{ending}", columns=NAMES)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert [path.name for path in tmp_path.iterdir()] == ["rows"]
    with pytest.raises(FileNotFoundError, match="none"):
        model.predict_to(rows, tmp_path / "none" / "out.csv")
    with pytest.raises(ValueError, match="'x1'"):
        model.predict_to(rows, tmp_path / "out.csv", columns=["x1"], name="x1")


def test_files_without_rows_leave_no_file(tmp_path):
    model = RankRLS(1.0, basis=5).fit(X, Y, qid=QID)
    rows = scan(write_parts(ROWS.slice(0, 0), tmp_path / "rows"), features=NAMES)
    with pytest.raises(ValueError, match="the scan has no rows"):
        model.predict_to(rows, tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]
    assert "files without rows, 0 rows" in repr(rows)
    with pytest.raises(TableError, match="the files have no rows"):
        _ = rows.map(lambda features: features).n_features


def test_what_a_killed_worker_began_is_not_among_the_predictions(folder, tmp_path, monkeypatch):
    def with_a_death(rows, function, *others):
        (others[1] / ".corank-00.part").touch()
        return [function(rows, number, *others) for number in range(len(rows.source.units))]

    monkeypatch.setattr(models, "unit_results", with_a_death)
    model = RankRLS(1.0, basis=5).fit(X, Y, qid=QID)
    assert model.predict_to(scan(folder, features=NAMES, client=CLIENT), tmp_path / "out") == 200
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        f"part-{k:06}.parquet" for k in range(10)
    ]


def test_columns_that_cannot_be_written(folder, tmp_path):
    model = RankRLS(1.0, basis=5).fit(X, Y, qid=QID)
    changed(folder, 0, ROWS.slice(0, 20).append_column("other", pa.array([{"a": 1}] * 20)))
    rows = scan(folder / "part-000.parquet", features=NAMES)
    with pytest.raises(TableError, match=r"cannot be written as \.csv"):
        model.predict_to(rows, tmp_path / "out.csv", columns=["other"])
    for number, values in ((0, range(20)), (1, [f"n{k}" for k in range(20)])):
        changed(folder, number, ROWS.slice(20 * number, 20).append_column("id", pa.array(values)))
    rows = scan([folder / "part-000.parquet", folder / "part-001.parquet"], features=NAMES)
    with pytest.raises(TableError, match="'id' holds string in some files and int64"):
        model.predict_to(rows, tmp_path / "out.parquet", columns=["id"])
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]


def test_grouped_rows_carry_no_other_columns_along(folder, tmp_path):
    changed(folder, 0, ROWS.slice(0, 20).append_column("id", pa.array(range(20))))
    rows = scan(folder / "part-000.parquet", features=NAMES, query="q", shuffle_queries=True)
    with pytest.raises(TableError, match=r"'id' .* shuffle_queries=True"):
        RankRLS(1.0, basis=5).fit(X, Y, qid=QID).predict_to(
            rows, tmp_path / "out.csv", columns=["id"]
        )


def test_two_columns_of_one_name_in_a_parquet_file(folder):
    parquet.write_table(
        pa.table([*ROWS.columns, ROWS["x0"]], [*ROWS.column_names, "x0"]),
        folder / "part-003.parquet",
    )
    with pytest.raises(TableError, match=r"part-003\.parquet .* same name: 'x0'"):
        scan(folder, score="y", query="q")


@pytest.mark.parametrize(
    "wrong", [{"alpha": -1.0}, {"gamma": "no"}, {"scoring": "no"}, {"basis": "no"}, {"basis": 0}]
)
def test_parameters_are_checked_before_the_first_pass(folder, wrong):
    calls = []
    rows = scan(folder, score="y", query="q").map(lambda features: (calls.append(1), features)[1])
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RankRLS(**wrong).fit(rows)
    assert not calls
