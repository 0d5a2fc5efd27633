"""Scans refuse wrong files, rows and columns by name, before the first pass where footers and
headers tell: one table of calls and what the sentence says, by subject.
"""

import gzip

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scan_files import NAMES, make_rows, scan, table, write_parts
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
    """The folder with other rows in one file."""
    parquet.write_table(rows, folder / f"part-{number:03}.parquet")
    return folder


def cut(path, kept=0.5):
    """A file without its end."""
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])


def rows_of(folder, **options):
    return scan(folder, score="y", query="q", **options)


def fit(folder, **options):
    """A fit in passes."""
    return RankRLS(basis=5).fit(rows_of(folder, **options))


def parts(folder, kind, rows=ROWS, ends=(100,)):
    """Files of another kind in a folder beside."""
    return write_parts(rows, folder.parent / "others", ends, kind)


# ------------------------------------------------------------------ before the pass


def made(folder, name):
    """An empty folder."""
    (folder.parent / name).mkdir()
    return folder.parent / name


def of_content(folder, content, name="part-009.parquet"):
    """A file with this content among the others."""
    (folder / name).write_bytes(content)
    return scan(folder)


def of_json(folder):
    (folder / "rows.jsonl").write_text("{}")
    return scan(folder / "rows.jsonl")


def of_no_files(folder):
    made(folder, "folder.parquet")
    return scan(str(folder.parent / "folder.*"))


def of_two_kinds(folder):
    write_parts(ROWS, folder, kind="csv")
    return scan(folder)


def of_a_header(folder):
    others = parts(folder, "csv", table(X, Y))
    (others / "part-001.csv").write_text("x0,x1\n")
    return scan(others)


def of_two_files_of_svmlight(folder):
    write_parts(ROWS.slice(0, 9), parts(folder, "svmlight", table(X, Y)), kind="svmlight")
    return scan(folder.parent / "others")


def of_a_text_column(folder):
    return scan(changed(folder, 0, ROWS.slice(0, 20).append_column("word", pa.array(["a"] * 20))))


def of_the_score_alone(folder):
    parquet.write_table(pa.table({"y": [1.0]}), folder / "only.parquet")
    return scan(folder / "only.parquet", score="y")


def of_a_device_that_is_none(folder):
    pytest.importorskip("torch")
    return scan(folder, device="nowhere")


def of_two_columns_of_one_name(folder):
    twice = pa.table([*ROWS.columns, ROWS["x0"]], [*ROWS.column_names, "x0"])
    return rows_of(changed(folder, 3, twice))


LAST = ROWS.slice(180)
TEXTS = pa.array(["a"] * 20)
PLAIN = table(X, Y)
REFUSALS = {}
REFUSALS["files"] = {
    "one that is not there": (
        lambda folder: scan([folder, folder.parent / "none.parquet"]),
        r"no file .*none\.parquet",
    ),
    "a pattern without a match": (lambda folder: scan(str(folder / "*.pq")), r"\*\.pq"),
    "an empty folder": (lambda folder: scan(made(folder, "empty")), "empty has no files"),
    "a pattern of folders": (of_no_files, "folder.parquet has no files"),
    "none": (lambda folder: scan([]), "no file"),
    "a number": (lambda folder: scan(7), "paths .* 7", TypeError),
    "bytes": (lambda folder: scan([b"rows"]), "paths .* b'rows'", TypeError),
    "of an unknown format": (lambda folder: scan(__file__), "format="),
    "of JSON": (of_json, "cannot be read in passes"),
    "cut off": (
        lambda folder: (cut(folder / "part-009.parquet"), scan(folder)),
        r"part-009\.parquet is no Parquet file",
    ),
    "that are no Parquet": (
        lambda folder: of_content(folder, b"a,b\n1,2\n"),
        r"part-009\.parquet is no Parquet file",
    ),
    "that are empty": (lambda folder: of_content(folder, b""), r"part-009\.parquet is empty"),
    "of several kinds": (of_two_kinds, r"several kinds \(csv, parquet\)"),
    "with a header only": (of_a_header, r"part-001\.csv has a header but no rows"),
    "SVMlight that is cut off": (
        lambda folder: of_svmlight_cut_off(folder),
        r"rows\.svm\.gz cannot be read",
    ),
    "that are no SVMlight": (
        lambda folder: of_content(parts(folder, "svmlight"), b"a,b,c\n1,2,3\n", "part-001.svm"),
        r"part-001\.svm is not an SVMlight file",
    ),
}
REFUSALS["columns"] = {
    "a feature that is missing in the tenth file": (
        lambda folder: rows_of(changed(folder, 9, LAST.drop_columns(["x3"]))),
        r"part-009\.parquet .* feature column 'x3'",
    ),
    "a feature of text in the tenth file": (
        lambda folder: rows_of(changed(folder, 9, LAST.set_column(3, "x3", TEXTS))),
        r"feature column 'x3' of .*part-009\.parquet .* holds str",
    ),
    "a score of text in the tenth file": (
        lambda folder: rows_of(changed(folder, 9, LAST.set_column(6, "y", TEXTS))),
        r"score column 'y' of .*part-009\.parquet .* holds str",
    ),
    "a query of another type in the tenth file": (
        lambda folder: rows_of(changed(folder, 9, LAST.set_column(7, "q", TEXTS))),
        r"query column 'q' holds text in .*part-009.* whole numbers in .*part-000",
    ),
    "a query that is missing in the tenth file": (
        lambda folder: rows_of(changed(folder, 9, LAST.drop_columns(["q"]))),
        r"part-009\.parquet .* query column 'q'",
    ),
    "a query that is missing in headers": (
        lambda folder: scan(parts(folder, "csv", PLAIN), score="y", query="query"),
        r"part-000\.csv .* query column 'query'",
    ),
    "a query of SVMlight": (
        lambda folder: scan(parts(folder, "svmlight", PLAIN), score="score", query="qid"),
        r"no qid.*'qid'",
    ),
    "a score of SVMlight": (
        lambda folder: scan(parts(folder, "svmlight", PLAIN), score="y"),
        r"'y'.*'score'",
    ),
    "a feature of SVMlight": (
        lambda folder: scan(parts(folder, "svmlight", PLAIN), features=["z"]),
        "'z'",
    ),
    "a query of some files of SVMlight": (of_two_files_of_svmlight, r"qid: .* all or none"),
    "of text": (of_a_text_column, "'word'; name the features"),
    "none": (of_the_score_alone, "no column is left"),
    "two of one name": (of_two_columns_of_one_name, r"part-003\.parquet .* same name: 'x0'"),
    "of text among numbers in a CSV": (
        lambda folder: of_text_among_numbers(folder),
        r"part-001\.csv .* holds string",
    ),
}
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
REFUSALS["arguments"] = {
    case: (lambda folder, given=given: scan(folder, **given), message, error)
    for case, (given, error, message) in ARGUMENTS.items()
} | {
    "a map": (lambda folder: scan(folder).map(3), r"map .* 3", TypeError),
    "a device": (of_a_device_that_is_none, "device='nowhere'", ValueError),
}


# ------------------------------------------------------------------ in the pass


def with_feature(folder, value):
    wrong = X.copy()
    wrong[193, 4] = value
    return fit(changed(folder, 9, table(wrong, Y, QID).slice(180)), chunk_rows=8)


def of_text_among_numbers(folder):
    others = parts(folder, "csv")
    lines = (others / "part-001.csv").read_text().splitlines()
    lines = [*lines[:-3], lines[-3].replace(lines[-3].split(",")[1], "abc")]
    (others / "part-001.csv").write_text("\n".join(lines))
    return rows_of(others)


def of_svmlight_cut_off(folder):
    others = write_parts(ROWS, folder.parent / "others", (), "svmlight")
    file = folder.parent / "rows.svm.gz"
    file.write_bytes(gzip.compress((others / "part-000.svm").read_bytes()))
    cut(file)
    return scan(file, score="score", query="qid")


def with_a_gzip_file_cut_off(folder):
    others = parts(folder, "csv.gz")
    cut(others / "part-001.csv.gz")
    return fit(others)


def with_a_line_that_is_no_svmlight(folder):
    others = parts(folder, "svmlight")
    with (others / "part-001.svm").open("a") as file:
        file.write("0.5 qid:7 1:0.3 2:oops\n")
    return RankRLS(basis=5).fit(scan(others, score="score", query="qid"))


def with_an_infinite_score(folder):
    y = Y.copy()
    y[185] = -np.inf
    return fit(changed(folder, 9, table(X, y, QID).slice(180)))


def with_a_missing_label(folder):
    labels = pa.array([*QID[180:199].tolist(), None])
    return fit(changed(folder, 9, PLAIN.slice(180).append_column("q", labels)))


def with_a_change(folder, change):
    """A fit after a file was changed or removed that the scan has seen."""
    rows = rows_of(folder)
    change(folder)
    return RankRLS(basis=5).fit(rows)


def through(folder, function):
    return RankRLS(basis=5).fit(rows_of(folder).map(function))


def narrower(features):
    return features if len(features) == 64 or features[0, 0] == X[0, 0] else features[:, :3]


def without_scores(folder, learner):
    empty = write_parts(table(X, np.full(len(X), np.nan), QID), folder.parent / "empty")
    return learner(basis=5).fit(rows_of(empty))


REFUSALS["rows"] = {
    **{
        f"a feature that is {value} deep in the data": (
            lambda folder, value=value: with_feature(folder, value),
            r"'x4' .* data row 14 of .*part-009\.parquet",
        )
        for value in (np.nan, np.inf, 1e200)
    },
    "of a gzip file that is cut off": (
        with_a_gzip_file_cut_off,
        r"part-001\.csv\.gz cannot be read",
    ),
    "a line that is no SVMlight": (with_a_line_that_is_no_svmlight, r"part-001\.svm"),
    "an infinite score": (
        with_an_infinite_score,
        r"'y' holds -inf in data row 6 of .*part-009",
    ),
    "a missing label": (
        with_a_missing_label,
        r"'q' has no value in data row 20 of .*part-009",
    ),
    "a file that changed": (
        lambda folder: with_a_change(folder, lambda place: changed(place, 9, ROWS.slice(150))),
        r"part-009\.parquet was changed after the scan was made",
    ),
    "a file that is gone": (
        lambda folder: with_a_change(folder, lambda place: (place / "part-009.parquet").unlink()),
        r"part-009\.parquet no longer exists",
    ),
    "maps that change their width": (
        lambda folder: RankRLS(1.0, 5).fit(rows_of(folder).map(narrower)),
        r"3 columns from data row 1 of .*part-001\.parquet on, and 6",
        ValueError,
    ),
    "maps that lose rows": (
        lambda folder: through(folder, lambda features: features[:3]),
        "map .* one row per row",
        ValueError,
    ),
    "maps to no numbers": (
        lambda folder: through(folder, lambda features: np.full_like(features, np.nan)),
        "feature 0 has no value in data row 1 of",
        ValueError,
    ),
    "maps to CSR": (
        lambda folder: through(folder, sparse.csr_array),
        "map must give NumPy arrays",
        ValueError,
    ),
    "no score column": (
        lambda folder: RankRLS().fit(scan(folder, features=NAMES, query="q")),
        "no score column",
        ValueError,
    ),
    **{
        f"no score for {learner.__name__}": (
            lambda folder, learner=learner: without_scores(folder, learner),
            "no scored row",
            ValueError,
        )
        for learner in (RankRLS, CoRankRLS)
    },
}


# ------------------------------------------------------------------ what does not go with a scan

REFUSALS["beside a scan"] = {
    "y": (lambda folder: RankRLS().fit(rows_of(folder), Y), "^y .*score=", ValueError),
    "qid": (lambda folder: CoRankRLS().fit(rows_of(folder), qid=QID), "^qid ", ValueError),
    "sample_weight": (
        lambda folder: RLS().fit(rows_of(folder), sample_weight=Y),
        "^sample_weight ",
        ValueError,
    ),
    "unscored_qid": (
        lambda folder: CoRankRLS().fit(
            X, Y, qid=QID, unscored=scan(folder, features=NAMES), unscored_qid=QID
        ),
        "^unscored_qid ",
        ValueError,
    ),
    "no y without it": (lambda folder: RankRLS().fit(X), "requires y", ValueError),
    "checkpoint without it": (
        lambda folder: RankRLS().fit(X, Y, checkpoint="nowhere"),
        "^checkpoint ",
        ValueError,
    ),
    "predict_to without it": (
        lambda folder: RankRLS(basis=5).fit(X, Y).predict_to(X, "out.csv"),
        r"predict_to .*scan",
        TypeError,
    ),
    **{
        f"{model.__name__}": (
            lambda folder, model=model: model().fit(rows_of(folder), Y),
            f"{model.__name__} needs its rows in memory",
            TypeError,
        )
        for model in (KPCR, CoRankingPursuit, TransductiveRankRLS)
    },
}
for gaussian in (PreferenceGP, DifferenceGP):
    needs = f"{gaussian.__name__} needs its rows in memory"
    REFUSALS[f"a scan for {gaussian.__name__}"] = {
        "fit": (lambda folder, model=gaussian: model().fit(rows_of(folder)), needs, TypeError),
        "fit_comparisons": (
            lambda folder, model=gaussian: model().fit_comparisons(rows_of(folder), [0], [1]),
            needs,
            TypeError,
        ),
        "no y": (
            lambda folder, model=gaussian: model().fit(X),
            "requires y to be passed",
            ValueError,
        ),
    }


def cases():
    for subject, of_subject in REFUSALS.items():
        for case, (call, message, *error) in of_subject.items():
            yield pytest.param(call, message, *error or [TableError], id=f"{subject}: {case}")


@pytest.mark.parametrize(("call", "message", "error"), list(cases()))
def test_refused_in_a_sentence_that_names_file_row_or_argument(folder, call, message, error):
    with pytest.raises(error, match=message):
        call(folder)


# ------------------------------------------------------------------ what goes on


def test_a_format_goes_before_the_ending_of_a_name(tmp_path):
    folder = write_parts(ROWS, tmp_path / "rows", kind="csv")
    file = (folder / "part-000.csv").rename(tmp_path / "rows.data")
    (chunk,) = scan(file, format="csv", score="y", query="q").chunks()
    np.testing.assert_allclose(chunk.features, X)


def test_a_format_picks_the_files_of_one_kind(folder):
    write_parts(ROWS, folder, kind="csv")
    assert scan(folder, format="parquet").n_rows == len(X)


def test_maps_may_change_the_type_of_features(folder):
    whole = rows_of(folder).map(lambda features: features.astype(int))
    assert next(whole.chunks()).features.dtype == np.float64


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
    monkeypatch.setattr("corank.learners.training.MAX_WHOLE_SCAN", 100)
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


@pytest.mark.parametrize(
    "wrong", [{"alpha": -1.0}, {"gamma": "no"}, {"scoring": "no"}, {"basis": "no"}, {"basis": 0}]
)
def test_parameters_are_checked_before_the_first_pass(folder, wrong):
    calls = []
    rows = scan(folder, score="y", query="q").map(lambda features: (calls.append(1), features)[1])
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RankRLS(**wrong).fit(rows)
    assert not calls
