"""What scans refuse: by file, row and column, before the pass where footers and headers tell."""

import gzip

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scan_files import NAMES, make_rows, table, write_parts

from corank import (
    KPCR,
    RLS,
    CoRankingPursuit,
    CoRankRLS,
    DifferenceGP,
    PreferenceGP,
    RankRLS,
    TransductiveRankRLS,
    View,
    scan,
)
from corank.learners import _scans
from corank.streaming import survey
from corank.tables import TableError

pytestmark = pytest.mark.usefixtures("one_blas_thread")
X, Y, QID = make_rows(n=200, scored=1.0)
ENDS = list(range(20, 200, 20))
ROWS = table(X, Y, QID)


@pytest.fixture
def folder(tmp_path):
    return write_parts(ROWS, tmp_path / "rows", ENDS)


def changed(folder, number, rows):
    parquet.write_table(rows, folder / f"part-{number:03}.parquet")


# ------------------------------------------------------------------ before the pass


def test_missing_files(folder, tmp_path):
    with pytest.raises(TableError, match=r"there is no file .*none\.parquet"):
        scan([folder, tmp_path / "none.parquet"])
    with pytest.raises(TableError, match=r"no file is called like .*\*\.pq"):
        scan(str(tmp_path / "*.pq"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(TableError, match="empty has no files to read"):
        scan(tmp_path / "empty")
    with pytest.raises(TypeError, match="paths must be a path"):
        scan(7)
    with pytest.raises(TableError, match="does not end like a table"):
        scan(__file__)


def test_files_that_are_no_parquet_or_cut_off(folder):
    file = folder / "part-009.parquet"
    content = file.read_bytes()
    for wrong in (content[: len(content) // 2], b"a,b\n1,2\n"):
        file.write_bytes(wrong)
        with pytest.raises(TableError, match=r"part-009\.parquet is no Parquet file, or it is damaged or cut off"):
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
    part = ROWS.slice(180)
    changed(folder, 9, part.drop_columns(["x3"]))
    with pytest.raises(TableError, match=r"part-009\.parquet has no feature column 'x3'"):
        scan(folder, score="y", query="q")
    changed(folder, 9, part.set_column(3, "x3", pa.array(["a"] * 20)))
    with pytest.raises(
        TableError, match=r"feature column 'x3' of .*part-009\.parquet should hold numbers, but holds str"
    ):
        scan(folder, score="y", query="q")
    changed(folder, 9, part.set_column(7, "q", pa.array(["a"] * 20)))
    with pytest.raises(
        TableError, match=r"query column 'q' holds text in .*part-009.* and whole numbers in .*part-000"
    ):
        scan(folder, score="y", query="q")
    changed(folder, 9, part.drop_columns(["q"]))
    with pytest.raises(TableError, match=r"part-009\.parquet has no query column 'q'"):
        scan(folder, score="y", query="q")


def test_headers_without_the_query_column(tmp_path):
    folder = write_parts(table(X, Y), tmp_path / "rows", [100], "csv")
    with pytest.raises(TableError, match=r"part-000\.csv has no query column 'query'"):
        scan(folder, score="y", query="query")
    letor = write_parts(table(X, Y), tmp_path / "letor", [100], "svmlight")
    with pytest.raises(TableError, match="has no qid:"):
        scan(letor, score="score", query="qid")


def test_arguments(folder):
    for wrong in (0, -3, 2.5, True):
        with pytest.raises(ValueError, match="chunk_rows must be a whole number from 1"):
            scan(folder, chunk_rows=wrong)
    with pytest.raises(ValueError, match="format 'json' is not known"):
        scan(folder, format="json")
    with pytest.raises(TableError, match="no column is called 'X3'; did you mean 'x3'"):
        scan(folder, features=["x1", "X3"])
    with pytest.raises(TableError, match="'y' is the score or the query: it cannot be a feature too"):
        scan(folder, features=["y", "x1"], score="y")
    with pytest.raises(ValueError, match="shuffle_queries=True needs a query column"):
        scan(folder, shuffle_queries=True)
    with pytest.raises(TypeError, match="map needs a function"):
        scan(folder).map(3)
    with pytest.raises(ValueError, match="features is empty"):
        scan(folder, features=[])
    with pytest.raises(TypeError, match="features must be names or patterns of columns, got 3"):
        scan(folder, features=3)
    for name, wrong in (("score", 5), ("query", ["q"]), ("encoder", "e"), ("client", "tcp://127.0.0.1:1")):
        with pytest.raises(TypeError, match=f"^{name} must be"):
            scan(folder, **{name: wrong})
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match="device='nowhere' cannot be used"):
        scan(folder, device="nowhere")


def test_text_columns_are_named(folder):
    changed(folder, 0, ROWS.slice(0, 20).append_column("word", pa.array(["a"] * 20)))
    with pytest.raises(TableError, match="columns without numbers: 'word'; name the features"):
        scan(folder)


# ------------------------------------------------------------------ in the pass


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_a_feature_that_is_no_number_deep_in_the_data(folder, value):
    wrong = X.copy()
    wrong[193, 4] = value
    changed(folder, 9, table(wrong, Y, QID).slice(180))
    with pytest.raises(TableError, match=r"column 'x4' has .* in data row 14 of .*part-009\.parquet"):
        RankRLS(basis=5).fit(scan(folder, score="y", query="q", chunk_rows=8))


def test_text_among_numbers_in_a_csv(tmp_path):
    folder = write_parts(ROWS, tmp_path / "rows", [100], "csv")
    lines = (folder / "part-001.csv").read_text().splitlines()
    (folder / "part-001.csv").write_text("\n".join([*lines[:-3], lines[-3].replace(lines[-3].split(",")[1], "abc")]))
    with pytest.raises(TableError, match=r"part-001\.csv should hold numbers, but holds string"):
        scan(folder, score="y", query="q")


def test_a_gzip_file_that_is_cut_off(tmp_path):
    folder = write_parts(ROWS, tmp_path / "rows", [100], "csv.gz")
    content = (folder / "part-001.csv.gz").read_bytes()
    (folder / "part-001.csv.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(TableError, match=r"part-001\.csv\.gz cannot be read, it may be damaged or cut off"):
        RankRLS(basis=5).fit(scan(folder, score="y", query="q"))


def test_a_gzipped_svmlight_file_that_is_cut_off(tmp_path):
    folder = write_parts(ROWS, tmp_path / "rows", (), "svmlight")
    content = gzip.compress((folder / "part-000.svm").read_bytes())
    (tmp_path / "rows.svm.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(TableError, match=r"rows\.svm\.gz cannot be read, it may be damaged or cut off"):
        scan(tmp_path / "rows.svm.gz", score="score", query="qid")


def test_a_line_that_is_no_svmlight(tmp_path):
    folder = write_parts(ROWS, tmp_path / "rows", [100], "svmlight")
    with (folder / "part-001.svm").open("a") as file:
        file.write("0.5 qid:7 1:0.3 2:oops\n")
    with pytest.raises(TableError, match=r"part-001\.svm"):
        RankRLS(basis=5).fit(scan(folder, score="score", query="qid"))
    (folder / "part-001.svm").write_text("a,b,c\n1,2,3\n")
    with pytest.raises(TableError, match=r"part-001\.svm is no svmlight file"):
        scan(folder)


def test_infinite_scores_and_missing_labels(folder):
    y = Y.copy()
    y[185] = -np.inf
    changed(folder, 9, table(X, y, QID).slice(180))
    with pytest.raises(TableError, match=r"score column 'y' holds -inf in data row 6 of .*part-009"):
        RankRLS(basis=5).fit(scan(folder, score="y", query="q"))
    missing = pa.array([*QID[180:199].tolist(), None])
    changed(folder, 9, table(X, Y).slice(180).append_column("q", missing))
    with pytest.raises(TableError, match=r"query column 'q' has no value in data row 20 of .*part-009"):
        RankRLS(basis=5).fit(scan(folder, score="y", query="q"))


@pytest.mark.parametrize("kind", ["text", "numbers"])
@pytest.mark.parametrize("chunk_rows", [3, 50, 500])
def test_a_query_that_comes_back_is_named(tmp_path, kind, chunk_rows):
    qid = np.repeat(np.arange(20), 10)
    qid[150:160] = 4
    labels = pa.array([f"user {label}" for label in qid]) if kind == "text" else pa.array(qid)
    folder = write_parts(table(X, Y).append_column("q", labels), tmp_path / "rows", ENDS)
    name = "'user 4'" if kind == "text" else "4"
    for model in (RankRLS(basis=5), RLS(basis=5), CoRankRLS(basis=5)):
        with pytest.raises(
            TableError, match=rf"query {name} comes back after other queries, in data row 11 of .*part-007"
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
    with pytest.raises(TableError, match=r"part-009\.parquet is gone"):
        RankRLS(basis=5).fit(rows)


def test_maps_that_change_their_width(folder):
    def narrower(part):
        return part if len(part) == 64 or part[0, 0] == X[0, 0] else part[:, :3]

    with pytest.raises(
        ValueError, match=r"map gives 3 columns from data row 1 of .*part-001\.parquet on, and 6 at first"
    ):
        RankRLS(1.0, 5).fit(scan(folder, score="y", query="q").map(narrower))


def test_maps_that_do_not_keep_rows(folder):
    rows = scan(folder, score="y", query="q")
    with pytest.raises(ValueError, match="map must give one row per row"):
        RankRLS(basis=5).fit(rows.map(lambda part: part[:3]))
    with pytest.raises(TableError, match="feature 0 has no value in data row 1 of"):
        RankRLS(basis=5).fit(rows.map(lambda part: np.log(-np.abs(part), where=False, out=np.full_like(part, np.nan))))


def test_no_scores(folder, tmp_path):
    with pytest.raises(ValueError, match="the scan has no score column"):
        RankRLS().fit(scan(folder, features=NAMES, query="q"))
    empty = write_parts(table(X, np.full(len(X), np.nan), QID), tmp_path / "empty")
    for model in (RankRLS(basis=5), CoRankRLS(basis=5)):
        with pytest.raises(ValueError, match="no scored row"):
            model.fit(scan(empty, score="y", query="q"))


# ------------------------------------------------------------------ what does not go with a scan


def test_what_a_scan_brings_itself(folder):
    rows = scan(folder, score="y", query="q")
    with pytest.raises(ValueError, match=r"y comes from the scan: name its column in scan\(\.\.\., score=\)"):
        RankRLS().fit(rows, Y)
    with pytest.raises(ValueError, match="qid comes from the scan"):
        CoRankRLS().fit(rows, qid=QID)
    with pytest.raises(ValueError, match="sample_weight does not go with a scan"):
        RLS().fit(rows, sample_weight=Y)
    with pytest.raises(ValueError, match="unscored_qid does not go with a scan"):
        CoRankRLS().fit(X, Y, qid=QID, unscored=scan(folder, features=NAMES), unscored_qid=QID)
    with pytest.raises(ValueError, match="requires y to be passed"):
        RankRLS().fit(X)
    with pytest.raises(ValueError, match="checkpoint goes with a scan"):
        RankRLS().fit(X, Y, checkpoint="nowhere")
    with pytest.raises(TypeError, match=r"predict_to takes a corank\.scan"):
        RankRLS(basis=5).fit(X, Y).predict_to(X, "out.csv")


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


def test_gaussian_processes_tell_scores_of_scans_but_no_spread(folder, tmp_path):
    rows = scan(folder, score="y", query="q", chunk_rows=30)
    models = (DifferenceGP(1.0, 0.1, 0.1, basis=20), PreferenceGP(1.0, basis=20, max_pairs=50, average_width=True))
    for model in models:
        model.fit(X, Y, qid=QID)
        expected = model.predict(X)
        np.testing.assert_allclose(model.predict(rows), expected, rtol=1e-9, atol=1e-12)
        assert model.predict_to(rows, tmp_path / "scores.parquet", overwrite=True) == len(X)
        np.testing.assert_allclose(parquet.read_table(tmp_path / "scores.parquet")["prediction"], expected, rtol=1e-9)
        assert model.score(rows) == pytest.approx(model.score(X, Y, qid=QID))
        with pytest.raises(TypeError, match="needs its rows in memory"):
            model.predict(rows, return_std=True)


def test_what_needs_scored_rows_in_memory(folder, monkeypatch):
    monkeypatch.setattr(survey, "HELD_BYTES", 0)
    rows = scan(folder, score="y", query="q")
    for basis in ("all", "scored", [1, 2, 3]):
        with pytest.raises(ValueError, match=r"needs the rows in memory, but the scored rows .* do not fit"):
            RankRLS(basis=basis).fit(rows)
        with pytest.raises(ValueError, match=r"needs the rows in memory, but the scored rows .* do not fit"):
            CoRankRLS(basis=basis).fit(rows)
    with pytest.raises(ValueError, match="cv needs the scored rows in memory"):
        CoRankRLS(basis=5, cv=3).fit(rows)
    with pytest.raises(ValueError, match="scoring='disagreement' needs the scored rows in memory"):
        RankRLS(basis=5, scoring="disagreement").fit(rows)
    with pytest.raises(ValueError, match="cv needs the scored rows in memory"):
        RankRLS(basis=5, cv=3).fit(rows)
    with pytest.raises(ValueError, match="kernel='precomputed' needs all kernel values in memory"):
        RankRLS(kernel="precomputed").fit(rows)
    with pytest.raises(ValueError, match="basis='features' needs kernel='linear'"):
        RankRLS(basis="features").fit(rows)
    with pytest.raises(ValueError, match="basis = 500 must lie between 1 and"):
        RankRLS(basis=500).fit(rows)


def test_all_rows_as_basis_are_refused_where_they_are_many(folder, monkeypatch):
    from corank.learners import _bases as viewbasis

    monkeypatch.setattr(viewbasis, "MOST_WHOLE", 100)
    with pytest.raises(ValueError, match="basis='all' would take 200 rows of a scan"):
        CoRankRLS(basis="all").fit(scan(folder, score="y", query="q"))


def test_a_scan_says_what_it_is(folder):
    assert "part-000.parquet …, 200 rows, 6 columns, score 'y', query 'q'>" in repr(scan(folder, score="y", query="q"))


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
    with pytest.raises(FileNotFoundError, match="does not exist"):
        model.predict_to(rows, tmp_path / "none" / "out.csv")
    with pytest.raises(ValueError, match="'x1' is the name of the predictions"):
        model.predict_to(rows, tmp_path / "out.csv", columns=["x1"], name="x1")


def test_files_without_rows_leave_no_file(tmp_path):
    model = RankRLS(1.0, basis=5).fit(X, Y, qid=QID)
    rows = scan(write_parts(ROWS.slice(0, 0), tmp_path / "rows"), features=NAMES)
    with pytest.raises(ValueError, match="the scan has no rows"):
        model.predict_to(rows, tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]
    assert "files without rows, 0 rows" in repr(rows)
    with pytest.raises(TableError, match="the files have no rows"):
        _ = rows.map(lambda part: part).n_features


def test_what_a_killed_worker_began_is_not_among_the_predictions(folder, tmp_path, monkeypatch):
    def with_a_death(rows, function, *others):
        (others[1] / ".corank-00.part").touch()
        return [function(rows, number, *others) for number in range(len(rows.source.units))]

    class Client:
        status = "running"

    monkeypatch.setattr(_scans, "unit_results", with_a_death)
    model = RankRLS(1.0, basis=5).fit(X, Y, qid=QID)
    assert model.predict_to(scan(folder, features=NAMES, client=Client()), tmp_path / "out") == 200
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [f"part-{k:06}.parquet" for k in range(10)]


def test_columns_that_cannot_be_written(folder, tmp_path):
    model = RankRLS(1.0, basis=5).fit(X, Y, qid=QID)
    changed(folder, 0, ROWS.slice(0, 20).append_column("other", pa.array([{"a": 1}] * 20)))
    rows = scan(folder / "part-000.parquet", features=NAMES)
    with pytest.raises(TableError, match=r"cannot be written as \.csv: Unsupported Type"):
        model.predict_to(rows, tmp_path / "out.csv", columns=["other"])
    for number, values in ((0, range(20)), (1, [f"n{k}" for k in range(20)])):
        changed(folder, number, ROWS.slice(20 * number, 20).append_column("id", pa.array(values)))
    rows = scan([folder / "part-000.parquet", folder / "part-001.parquet"], features=NAMES)
    with pytest.raises(TableError, match="column 'id' holds string in some files and int64 in those before"):
        model.predict_to(rows, tmp_path / "out.parquet", columns=["id"])
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]


def test_grouped_rows_carry_no_other_columns_along(folder, tmp_path):
    changed(folder, 0, ROWS.slice(0, 20).append_column("id", pa.array(range(20))))
    rows = scan(folder / "part-000.parquet", features=NAMES, query="q", shuffle_queries=True)
    with pytest.raises(TableError, match="'id' cannot be carried along: shuffle_queries=True keeps"):
        RankRLS(1.0, basis=5).fit(X, Y, qid=QID).predict_to(rows, tmp_path / "out.csv", columns=["id"])


def test_two_columns_of_one_name_in_a_parquet_file(folder):
    parquet.write_table(pa.table([*ROWS.columns, ROWS["x0"]], [*ROWS.column_names, "x0"]), folder / "part-003.parquet")
    with pytest.raises(TableError, match=r"part-003\.parquet has several columns of one name: 'x0'"):
        scan(folder, score="y", query="q")


@pytest.mark.parametrize("wrong", [{"alpha": -1.0}, {"gamma": "no"}, {"scoring": "no"}, {"basis": "no"}, {"basis": 0}])
def test_parameters_are_checked_before_the_first_pass(folder, wrong):
    calls = []
    rows = scan(folder, score="y", query="q").map(lambda part: (calls.append(1), part)[1])
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RankRLS(**wrong).fit(rows)
    assert not calls
