"""Scans: whatever the files and chunks, a model from a scan is the model of the rows in memory."""

import re
from functools import cache
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from scan_files import NAMES, make_rows, scan, table, write_parts
from sklearn.model_selection import PredefinedSplit
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import corank
from corank import RLS, CoRankingPursuit, CoRankRLS, CoRLS, RankRLS, TableEncoder, View
from corank.core.loss import Pointwise
from corank.core.sampling import fold_numbers
from corank.metrics import disagreement_error
from corank.streaming import group_queries, survey
from corank.streaming.passes import Passes, SumJob
from corank.streaming.scan import sampled_table
from corank.streaming.sources import ParquetSource
from corank.tables import TableError, read_table

pytestmark = [
    pytest.mark.usefixtures("one_blas_thread"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
]
X, Y, QID = make_rows(n=150)
U, _, U_QID = make_rows(seed=1, n=110)
NEW = make_rows(seed=2, n=20)[0]
VIEWS = [View(slice(0, 3)), View(slice(3, 6))]
LINEAR = [View(slice(0, 3), kernel="linear"), View(slice(3, 6), kernel="linear")]
SINGLE = {
    "rank": lambda: RankRLS(basis=20),
    "unit": lambda: RankRLS(basis=20, weighting="unit", beta=0.3, scoring="rescaled"),
    "query": lambda: RankRLS(basis=15, weighting="query", gamma="tune", basis_selection="random"),
    "features": lambda: RankRLS(basis="features", kernel="linear"),
    "regression": lambda: RLS(basis=20),
    "one alpha": lambda: RLS(0.5, basis=20, fit_intercept=False),
}
SEVERAL = {
    "rank": lambda: CoRankRLS(VIEWS, basis=20),
    "all": lambda: CoRankRLS(VIEWS, 0.5, 0.1),
    "scored": lambda: CoRankRLS(VIEWS, basis="scored", weighting="unit"),
    "features": lambda: CoRankRLS(LINEAR, basis="features"),
    "regression": lambda: CoRLS(VIEWS, basis=20, agreement=[0.0, 0.01]),
    "bases": lambda: CoRLS(2, 0.5, 0.1, basis=20),
}
cuts = st.lists(st.integers(0, len(X)), max_size=5).map(sorted)


@pytest.fixture
def nothing_held(monkeypatch):
    """Scored rows are too many for the memory."""
    monkeypatch.setattr(survey, "HELD_BYTES", 0)


def take_ten_folds(monkeypatch):
    """Rows in memory are held out as those of a scan: in ten folds, not one by one."""
    monkeypatch.setattr("corank.core.folds.FEW_UNITS", 0)
    monkeypatch.setattr("corank.core.folds.UNITS_PER_FEATURE", 0)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * np.ptp(expected))


@cache
def one_view_in_memory(learner, held):
    with pytest.MonkeyPatch.context() as patch:
        if not held:
            take_ten_folds(patch)
        return SINGLE[learner]().fit(X, Y, qid=QID)


@cache
def several_views_in_memory(learner):
    return SEVERAL[learner]().fit(X, Y, qid=QID, unscored=U, unscored_qid=U_QID)


@cache
def predictions_in_memory():
    return RankRLS(1.0, 15).fit(X, Y, qid=QID).predict(NEW)


# ------------------------------------------------------------------ streamed = in memory


@pytest.mark.parametrize("learner", SINGLE)
@settings(max_examples=3)
@given(
    held=st.booleans(),
    ends=cuts,
    chunk_rows=st.sampled_from([7, 50, 1000]),
    group=st.sampled_from([5, 13, 100]),
)
def test_one_view(learner, held, ends, chunk_rows, group, tmp_path_factory):
    folder = write_parts(
        table(X, Y, QID), tmp_path_factory.mktemp("rows"), ends, row_group_size=group
    )
    with pytest.MonkeyPatch.context() as patch:
        expected = one_view_in_memory(learner, held)
        patch.setattr(survey, "HELD_BYTES", survey.HELD_BYTES if held else 0)
        model = SINGLE[learner]().fit(scan(folder, score="y", query="q", chunk_rows=chunk_rows))
    close(model.predict(NEW), expected.predict(NEW))
    assert model.alpha_ == pytest.approx(expected.alpha_)
    if expected.basis_ is not None:
        np.testing.assert_array_equal(model.basis_, expected.basis_)


@pytest.mark.parametrize("learner", SEVERAL)
@settings(max_examples=1)
@example(ends=[40], more=[], chunk_rows=3)  # chunks without unscored rows
@given(
    ends=cuts,
    more=st.lists(st.integers(0, len(U)), max_size=3).map(sorted),
    chunk_rows=st.sampled_from([11, 50, 999]),
)
def test_several_views(learner, ends, more, chunk_rows, tmp_path_factory):
    expected = several_views_in_memory(learner)
    rows = write_parts(table(X, Y, QID), tmp_path_factory.mktemp("rows"), ends)
    others = write_parts(table(U, None, U_QID), tmp_path_factory.mktemp("others"), more)
    model = SEVERAL[learner]().fit(
        scan(rows, score="y", query="q", chunk_rows=chunk_rows),
        unscored=scan(others, query="q", chunk_rows=chunk_rows),
    )
    close(model.predict_views(NEW), expected.predict_views(NEW))
    for view_basis, view_expected in zip(model.basis_, expected.basis_, strict=True):
        np.testing.assert_array_equal(view_basis, view_expected)
    assert model.counts() == expected.counts()


@pytest.mark.parametrize("kind", ["parquet", "csv", "svmlight"])
@pytest.mark.parametrize("learner", ["rank", "regression", "features"])
def test_rows_that_are_read_at_a_time_change_no_bit(learner, kind, tmp_path, nothing_held):
    names = (
        {"score": "score", "query": "qid"} if kind == "svmlight" else {"score": "y", "query": "q"}
    )
    write_parts(table(X, Y, QID), tmp_path, [90], kind, row_group_size=35)
    with patch("corank.streaming.scan.usual_chunk_rows", lambda n_columns: 20):
        scans = [corank.scan(tmp_path, chunk_rows=rows, **names) for rows in (None, 3, 1_000)]
    models = [SINGLE[learner]().fit(rows) for rows in scans]
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)


def test_row_groups_without_rows_change_nothing(tmp_path, nothing_held):
    rows = table(X, Y, QID)
    write_parts(rows, tmp_path / "plain", [90])
    (tmp_path / "gaps").mkdir()
    for number, (begin, end) in enumerate([(0, 90), (90, 90), (90, 150)]):
        with parquet.ParquetWriter(tmp_path / "gaps" / f"{number}.parquet", rows.schema) as writer:
            for part in (rows[:0], rows[begin:end], rows[:0]):
                writer.write_table(part)
    plain, gaps = (
        SINGLE["rank"]().fit(scan(tmp_path / name, 50, score="y", query="q"))
        for name in ("plain", "gaps")
    )
    np.testing.assert_array_equal(gaps.coef_, plain.coef_)
    found = sampled_table(tmp_path / "gaps", 10, [])
    np.testing.assert_array_equal(found["x0"], X[[*range(5), *range(90, 95)], 0])


class Products:
    """Features by products whose bits depend on the threads of BLAS."""

    size = 301
    left, right = (np.random.default_rng(4).normal(size=size) for size in ((6, 997), (997, 301)))

    def __call__(self, rows):
        return (rows @ self.left) @ self.right


def test_threads_of_blas_change_no_bit_of_sums(tmp_path):
    write_parts(table(M, M_SCORES, M_QID), tmp_path, row_group_size=2_000)
    rows = scan(tmp_path, score="y", query="q", chunk_rows=777)
    job = SumJob(Pointwise(), Products(), "all", None)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(Passes().run(rows, job, "sums", "summing").closed())
    np.testing.assert_array_equal(found[0].queries[0].matrix, found[1].queries[0].matrix)


# ------------------------------------------------------------------ candidates of large Parquet files, and readings

M, M_SCORES, M_QID = make_rows(n=2_000, seed=3)
READINGS = {
    "summed": (lambda: RankRLS(1.0, 10), 0, 1),
    "tuned": (lambda: RLS(basis=10, gamma="scale"), 0, 1),
    "columns": (lambda: RankRLS(1.0, "features", kernel="linear"), 0, 1),
    "held": (lambda: RankRLS(1.0, 10), 2**27, 0),
    "several": (lambda: CoRankRLS(VIEWS, 1.0, 0.1, 10), 0, 1),
    "several, tuned": (lambda: CoRLS(VIEWS, basis=10), 0, 1),
    "several, held": (lambda: CoRankRLS(VIEWS, 1.0, 0.1, 10), 2**27, 1),
}


@pytest.fixture
def few_candidates(monkeypatch):
    """Candidates come from five windows of 20 rows, as if there were millions of rows."""
    monkeypatch.setattr(survey, "MAX_EVEN_ROWS", 500)
    monkeypatch.setattr(survey, "WINDOW_ROWS", 20)
    monkeypatch.setattr("corank.core.sampling.N_WINDOWS", 5)
    monkeypatch.setattr("corank.core.basis.MIN_CANDIDATES", 50)
    monkeypatch.setattr("corank.core.basis.CANDIDATES_PER_BASIS_ROW", 1)


@pytest.fixture
def rows_read(monkeypatch):
    """How often the features of every row of a file were read: (n,) per file."""
    counts, read = {}, ParquetSource._tables

    def counted(source, unit, roles, chunk_rows):
        row = unit.first_row
        for rows in read(source, unit, roles, chunk_rows):
            if roles.features is not None:
                whole = counts.setdefault(unit.file.path, np.zeros(len(M), dtype=int))
                whole[row : row + rows.num_rows] += 1
            row += rows.num_rows
            yield rows

    monkeypatch.setattr(ParquetSource, "_tables", counted)
    return counts


@pytest.mark.parametrize("case", READINGS)
def test_features_of_parquet_are_read_once_but_for_a_few_row_groups(
    case, few_candidates, rows_read, tmp_path, monkeypatch
):
    make, held_bytes, n_sums = READINGS[case]
    monkeypatch.setattr(survey, "HELD_BYTES", held_bytes)
    write_parts(table(M, M_SCORES, M_QID), tmp_path, row_group_size=20)
    model = make().fit(scan(tmp_path, score="y", query="q", chunk_rows=20))
    (readings,) = rows_read.values()
    assert readings.max() <= n_sums + 1
    if held_bytes == 0:
        assert readings.min() == n_sums
        assert readings.mean() < n_sums + 0.5
    assert abs(model.n_readings_ - readings.mean()) < 0.01


def test_unscored_rows_of_parquet_are_read_once_but_for_a_few_row_groups(
    few_candidates, rows_read, tmp_path
):
    write_parts(table(M, None, M_QID), tmp_path, row_group_size=20)
    others = scan(tmp_path, query="q", chunk_rows=20)
    CoRankRLS(VIEWS, 1.0, 0.1, 40).fit(pd.DataFrame(X, columns=NAMES), Y, qid=QID, unscored=others)
    (readings,) = rows_read.values()
    assert readings.min() == 1
    assert 1 < readings.mean() < 1.5


def test_rows_that_only_csv_files_hold_are_read_twice(nothing_held, tmp_path):
    write_parts(table(X, Y, QID), tmp_path, kind="csv")
    assert RankRLS(1.0, 10).fit(scan(tmp_path, score="y", query="q")).n_readings_ == 2


def spread_basis(folder, group, chunk_rows, **options):
    write_parts(table(M, M_SCORES, M_QID), folder, options.pop("ends", ()), row_group_size=group)
    rows = scan(folder, score="y", query="q", chunk_rows=chunk_rows)
    return CoRankRLS(VIEWS, 1.0, 0.1, 10).fit(rows)


def test_candidates_depend_on_the_rows_alone(few_candidates, nothing_held, tmp_path):
    expected = spread_basis(tmp_path / "whole", 2_000, 2_000)
    for group, chunk_rows, ends in ((7, 50, [300]), (100, 33, []), (640, 100, [1, 1_999])):
        model = spread_basis(tmp_path / f"{group}", group, chunk_rows, ends=ends)
        for view_basis, view_expected in zip(model.basis_, expected.basis_, strict=True):
            np.testing.assert_array_equal(view_basis, view_expected)
        close(model.predict_views(NEW), expected.predict_views(NEW))


def test_candidates_of_every_kind_come_with_their_features(few_candidates, nothing_held, tmp_path):
    write_parts(table(M, M_SCORES, M_QID), tmp_path, [700], row_group_size=60)
    rows = scan(tmp_path, score="y", query="q", chunk_rows=100)
    look = survey.run_survey(
        rows, Passes(), survey.SurveyJob(60, 0, 0, first_number=1_000), "X", contiguous=True
    )
    for reservoir, is_scored in ((look.scored, True), (look.unscored, False)):
        numbers, features = reservoir.rows()
        assert len(np.unique(numbers)) == 60
        np.testing.assert_array_equal(features, M[numbers - 1_000])
        assert np.all(~np.isnan(M_SCORES[numbers - 1_000]) == is_scored)
        ranks = np.searchsorted(np.flatnonzero(~np.isnan(M_SCORES) == is_scored), numbers - 1_000)
        count = np.sum(~np.isnan(M_SCORES) == is_scored)
        # every fifth has its share
        np.testing.assert_allclose(np.bincount(5 * ranks // count), 12, atol=1)


def test_a_model_of_spread_candidates_is_that_of_memory_with_its_basis(
    few_candidates, nothing_held, tmp_path
):
    write_parts(table(M, M_SCORES, M_QID), tmp_path, row_group_size=100)
    model = RankRLS(1.0, 10).fit(scan(tmp_path, score="y", query="q", chunk_rows=100))
    expected = RankRLS(1.0, model.basis_, gamma=model.gamma_).fit(M, M_SCORES, qid=M_QID)
    close(model.predict(NEW), expected.predict(NEW))


def test_a_bad_cell_of_a_candidate_is_named_by_its_row(few_candidates, nothing_held, tmp_path):
    bad = M.copy()
    bad[1_234:, 2] = np.nan
    write_parts(table(bad, M_SCORES, M_QID), tmp_path, row_group_size=100)
    with pytest.raises(TableError, match=r"'x2' has no value in data row (\d+)") as error:
        RankRLS(1.0, 10).fit(scan(tmp_path, score="y", query="q", chunk_rows=100))
    row = int(re.search(r"data row (\d+)", str(error.value))[1]) - 1
    assert np.isnan(bad[row, 2])
    assert not np.isnan(M_SCORES[row])


MANY = {
    "rank": lambda: CoRankRLS(VIEWS, basis=6),
    "weights": lambda: CoRankRLS(
        [VIEWS[0], View(slice(3, 6), penalty=3.0)], basis=6, weighting="unit", beta=0.2
    ),
    "widths": lambda: CoRankRLS(VIEWS, 1.0, [0.0, 0.1], 6, kernel="rbf", scoring="squared"),
    "features": lambda: CoRankRLS(LINEAR, basis="features"),
    "regression": lambda: CoRLS(VIEWS, basis=6, solver="coordinate"),
}


@pytest.mark.parametrize(
    ("learner", "chunk_rows"), list(zip(MANY, [37, 400, 90, 130, 250], strict=True))
)
def test_several_views_with_more_scored_rows_than_memory(
    learner, chunk_rows, tmp_path, nothing_held
):
    X, y, qid = make_rows(n=500, scored=0.8)
    expected = MANY[learner]().fit(X, y, qid=qid, unscored=U, unscored_qid=U_QID)
    rows = write_parts(table(X, y, qid), tmp_path / "rows", [150, 151], row_group_size=90)
    others = write_parts(table(U, None, U_QID), tmp_path / "others", [50])
    found = MANY[learner]().fit(
        scan(rows, score="y", query="q", chunk_rows=chunk_rows),
        unscored=scan(others, query="q", chunk_rows=chunk_rows),
    )
    close(found.predict_views(NEW), expected.predict_views(NEW))
    np.testing.assert_allclose(found.path_.error, expected.path_.error, rtol=1e-8)
    assert found.path_.constant == pytest.approx(expected.path_.constant)
    assert found.counts() == expected.counts()
    effects = [str(model.unscored_effect_) for model in (found, expected)]
    assert effects[0] == effects[1]
    more = make_rows(n=40, seed=9)
    close(*(model.update(*more[:2], qid=more[2]).predict(NEW) for model in (found, expected)))


def test_several_views_of_many_rows_without_queries(tmp_path, nothing_held):
    X, y, _ = make_rows(n=1_000, scored=0.8)
    rows = write_parts(table(X, y), tmp_path / "rows", [300])
    model = CoRLS(VIEWS, basis=6, fit_intercept=True)
    expected = model.fit(X, y).predict(NEW)
    close(model.fit(scan(rows, score="y", chunk_rows=90)).predict(NEW), expected)
    ranker = CoRankRLS(VIEWS, 1.0, 0.1, 6)
    more = make_rows(n=40, seed=9)
    expected = ranker.fit(X, y)
    predictions, updated = expected.predict(NEW), expected.update(*more[:2]).predict(NEW)
    found = ranker.fit(scan(rows, score="y", chunk_rows=90))
    close(found.predict(NEW), predictions)
    close(found.update(*more[:2]).predict(NEW), updated)


@pytest.mark.parametrize("learner", [RankRLS, CoRankRLS])
def test_items_of_one_query_without_a_name_are_held_out_by_their_number(
    learner, tmp_path, nothing_held
):
    X, y, _ = make_rows(n=300, scored=0.8)
    rows = write_parts(table(X, y), tmp_path / "rows", [130])
    views = {"views": VIEWS} if learner is CoRankRLS else {}
    found = learner(basis=6, **views).fit(scan(rows, score="y", chunk_rows=90))
    folds = fold_numbers(0, int(np.isfinite(y).sum()), 10, 0)
    expected = learner(basis=6, cv=PredefinedSplit(folds), **views).fit(X, y)
    np.testing.assert_allclose(found.path_.error, expected.path_.error, rtol=1e-6)
    close(found.predict(NEW), expected.predict(NEW))


@pytest.mark.parametrize(
    "learner", [RankRLS(1.0, basis=10), RLS(basis=10), RankRLS(1.0, basis=10, weighting="unit")]
)
def test_without_queries_all_rows_are_one(learner, tmp_path, nothing_held, monkeypatch):
    take_ten_folds(monkeypatch)
    expected = learner.fit(X, Y).predict(NEW)
    folder = write_parts(table(X, Y), tmp_path / "rows", [17, 80])
    close(learner.fit(scan(folder, score="y", chunk_rows=30)).predict(NEW), expected)


@pytest.mark.parametrize("chunk_rows", [5, 64])
def test_unscored_rows_of_one_query_without_a_name(tmp_path, chunk_rows):
    model = CoRankRLS(VIEWS, 0.5, 0.1, 15)
    expected = model.fit(X, Y, qid=QID, unscored=U).predict(NEW)
    folder = write_parts(table(U), tmp_path / "rows", [17, 80])
    close(
        model.fit(
            X, Y, qid=QID, unscored=scan(folder, features=NAMES, chunk_rows=chunk_rows)
        ).predict(NEW),
        expected,
    )


def test_candidates_of_many_rows_are_those_of_the_rows_in_memory(tmp_path, nothing_held):
    many, y, qid = make_rows(n=11_000)
    folder = write_parts(
        table(many, np.nan_to_num(y), qid), tmp_path / "rows", [4_000], row_group_size=3_000
    )
    model = RankRLS(1.0, basis=12)
    expected = model.fit(many, np.nan_to_num(y), qid=qid)
    basis, predictions = expected.basis_, expected.predict(NEW)
    found = model.fit(scan(folder, score="y", query="q", chunk_rows=1_700))
    np.testing.assert_array_equal(found.basis_, basis)
    close(found.predict(NEW), predictions)


def test_update_goes_on_from_the_sums_of_a_scan(tmp_path, nothing_held):
    folder = write_parts(table(X, Y, QID), tmp_path / "rows", [90])
    new = make_rows(seed=5, n=30)
    expected = RankRLS(0.5, basis=15).fit(X, Y, qid=QID).update(*new[:2], qid=new[2]).predict(NEW)
    found = RankRLS(0.5, basis=15).fit(scan(folder, score="y", query="q", chunk_rows=50))
    close(found.update(*new[:2], qid=new[2]).predict(NEW), expected)


def test_a_model_of_a_scan_is_saved_and_loaded(tmp_path):
    from corank import load

    folder = write_parts(table(X, Y, QID), tmp_path / "rows", [90])
    model = CoRankRLS(VIEWS, basis=15).fit(scan(folder, score="y", query="q"))
    model.save(tmp_path / "model.corank")
    np.testing.assert_array_equal(load(tmp_path / "model.corank").predict(NEW), model.predict(NEW))


# ------------------------------------------------------------------ kinds of files


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "svmlight"])
def test_text_files(tmp_path, kind, nothing_held):
    folder = write_parts(table(X, Y, QID), tmp_path / "rows", [1, 77, 120], kind)
    score, query = ("score", "qid") if kind == "svmlight" else ("y", "q")
    rows = scan(folder, score=score, query=query, chunk_rows=33)
    assert rows.n_rows is None
    close(RankRLS(1.0, 15).fit(rows).predict(NEW), predictions_in_memory())
    names = ["1", "2", "3"] if kind == "svmlight" else ["x0", "x1", "x2"]
    chunks = scan(folder, features=names, score=score).chunks()
    np.testing.assert_allclose(np.concatenate([chunk.features for chunk in chunks]), X[:, :3])


def test_features_of_svmlight_files_are_the_numbered_columns(tmp_path):
    folder = write_parts(table(X, Y, QID), tmp_path / "rows", [77], "svmlight")
    for rows in (
        scan(folder),
        scan(folder, features=6),
        scan(folder, score="score"),
        scan(folder, query="qid"),
    ):
        assert rows.feature_names == ["1", "2", "3", "4", "5", "6"]
        np.testing.assert_allclose(np.concatenate([chunk.features for chunk in rows.chunks()]), X)


def test_scores_that_are_missing_at_first_are_still_numbers_in_a_csv(tmp_path):
    y = np.where(np.arange(len(Y)) < 60, np.nan, Y)
    folder = write_parts(table(X, y, QID), tmp_path / "rows", [], "csv")
    expected = RankRLS(1.0, basis=10).fit(X, y, qid=QID).predict(NEW)
    close(
        RankRLS(1.0, basis=10).fit(scan(folder, score="y", query="q", chunk_rows=33)).predict(NEW),
        expected,
    )


def test_semicolons_and_decimal_commas(tmp_path):
    file = tmp_path / "rows.csv"
    lines = [
        f"{a:.4f};{b:.4f};{c}".replace(".", ",")
        for a, b, c in zip(X[:, 0], np.nan_to_num(Y), QID, strict=True)
    ]
    file.write_text("\n".join(["a;y;q", *lines]))
    (chunk,) = scan(file, score="y", query="q").chunks()
    np.testing.assert_allclose(chunk.features[:, 0], X[:, 0], atol=1e-4)


def test_folders_may_name_a_column(tmp_path):
    for day in (1, 2, 10):
        rows = table(X, Y).slice(day, 20).append_column("kind", pa.array(["a"] * 20))
        path = tmp_path / f"day={day}"
        path.mkdir()
        parquet.write_table(rows, path / "part.parquet")
    (tmp_path / "_SUCCESS").touch()
    chunks = list(scan(tmp_path, features=NAMES, score="y", query="day").chunks())
    assert [chunk.runs.labels.to_pylist() for chunk in chunks] == [[1], [10], [2]]
    days = [chunk.features[0, -1] for chunk in scan(tmp_path, features=["x0", "day"]).chunks()]
    assert days == [1.0, 10.0, 2.0]
    for pattern in ("day=*", "day=*/*.parquet", "**/*.parquet"):
        assert "day" in scan(str(tmp_path / pattern), features=NAMES).columns
    (tmp_path / "day=1").rename(tmp_path / "day=98765432109876543210")  # more than 64 bits
    chunks = scan(tmp_path, features=NAMES, query="day").chunks()
    assert [chunk.runs.labels.to_pylist() for chunk in chunks] == [
        ["10"],
        ["2"],
        ["98765432109876543210"],
    ]


def test_only_columns_that_are_needed_are_read(tmp_path):
    rows = table(X, Y, QID).append_column("text", pa.array(["a"] * len(X)))
    folder = write_parts(rows, tmp_path / "rows")
    (chunk,) = scan(folder, features=["x[01]", "x5"], score="y", query="q").chunks()
    np.testing.assert_array_equal(chunk.features, X[:, [0, 1, 5]])


def test_single_precision_stays(tmp_path):
    columns = {
        name: pa.array(column.astype(np.float32)) for name, column in zip(NAMES, X.T, strict=True)
    }
    parquet.write_table(pa.table(columns), tmp_path / "rows.parquet")
    (chunk,) = scan(tmp_path / "rows.parquet").chunks()
    assert chunk.features.dtype == np.float32


LABELS = {
    "text": pa.array([f"user {label}" for label in QID]),
    "categories": pa.array([f"user {label}" for label in QID]).dictionary_encode(),
    "large text": pa.array([f"user {label}" for label in QID], pa.large_string()),
    "small numbers": pa.array(QID, pa.int16()),
    "unsigned": pa.array(QID.astype(np.uint64) + 2**63),
    "dates": pa.array(QID.astype("datetime64[D]")),
    "numbers": pa.array(QID / 4),
}


@pytest.mark.parametrize("kind", LABELS)
def test_queries_of_any_kind(tmp_path, kind, nothing_held):
    folder = write_parts(table(X, Y).append_column("q", LABELS[kind]), tmp_path / "rows", [33, 120])
    rows = scan(folder, score="y", query="q", chunk_rows=40)
    close(RankRLS(1.0, 15).fit(rows).predict(NEW), predictions_in_memory())


# ------------------------------------------------------------------ maps, encoders, grouping


def test_map_is_what_it_is_in_memory(tmp_path):
    scaler = StandardScaler().fit(X)
    folder = write_parts(table(X, Y, QID), tmp_path / "rows", [90])
    expected = RankRLS(1.0, 15).fit(scaler.transform(X), Y, qid=QID).predict(scaler.transform(NEW))
    rows = (
        scan(folder, score="y", query="q", chunk_rows=50)
        .map(lambda features: features)
        .map(scaler.transform)
    )
    close(RankRLS(1.0, 15).fit(rows).predict(scaler.transform(NEW)), expected)
    frame = scan(folder, score="y", query="q").map(
        lambda features: pd.DataFrame(features[:, :2], columns=["a", "b"])
    )
    assert frame.feature_names == ["a", "b"]
    assert list(RankRLS(1.0, 15).fit(frame).feature_names_in_) == ["a", "b"]


def test_an_encoder_turns_text_into_features(tmp_path):
    texts = pa.array(np.where(X[:, 5] > 0, "high", "low").tolist())
    rows = table(X, Y, QID).append_column("word", texts)
    encoder = TableEncoder().fit(rows.select([*NAMES, "word"]))
    expected = (
        RankRLS(1.0, 15).fit(encoder.transform(rows), Y, qid=QID).predict(encoder.transform(rows))
    )
    for kind in ("parquet", "csv"):
        folder = write_parts(rows, tmp_path / kind, [90], kind)
        encoded = scan(folder, score="y", query="q", encoder=encoder, chunk_rows=50)
        close(RankRLS(1.0, 15).fit(encoded).predict(encoded), expected)


@pytest.mark.parametrize("kind", ["parquet", "csv", "svmlight"])
def test_shuffle_queries_brings_them_together(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(group_queries, "BUCKET_BYTES", 4_000)
    order = np.random.default_rng(3).permutation(len(X))
    folder = write_parts(table(X, Y, QID).take(order), tmp_path / "rows", [100], kind)
    score, query = ("score", "qid") if kind == "svmlight" else ("y", "q")
    rows = scan(folder, score=score, query=query, chunk_rows=40, shuffle_queries=True)
    where = rows.kept.path
    ids = np.concatenate(
        [chunk.runs.ids[chunk.runs.codes(chunk.n_rows)] for chunk in rows.chunks()]
    )
    assert len(ids) == len(X)
    starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]])
    assert len(np.unique(ids[starts])) == len(starts)
    in_memory = RankRLS(1.0, "features", kernel="linear").fit(X, Y, qid=QID)
    close(RankRLS(1.0, "features", kernel="linear").fit(rows).predict(NEW), in_memory.predict(NEW))
    del rows
    assert not where.exists()


@pytest.mark.parametrize("first", [pa.int32(), pa.int64()])
def test_grouped_files_may_hold_labels_and_features_in_several_types(tmp_path, first):
    rows = table(X, Y, QID)
    wide, narrow = (
        rows.set_column(7, "q", rows["q"].cast(kind)) for kind in (pa.int64(), pa.int32())
    )
    tables = [wide, narrow] if first == pa.int64() else [narrow, wide]
    for number, rows in enumerate(tables):
        parquet.write_table(
            rows.slice(100 * number, 100 if number == 0 else None), tmp_path / f"{number}.parquet"
        )
    rows = scan(tmp_path, score="y", query="q", shuffle_queries=True)
    expected = RankRLS(1.0, "features", kernel="linear").fit(X, Y, qid=QID).predict(NEW)
    close(RankRLS(1.0, "features", kernel="linear").fit(rows).predict(NEW), expected)


@pytest.mark.parametrize("learner", [RankRLS, CoRankRLS])
def test_queries_of_one_scored_row_leave_nothing_to_hold_out(tmp_path, learner, nothing_held):
    y = np.where(np.arange(len(X)) % 2, Y, np.nan)
    folder = write_parts(table(X, y, np.arange(len(X))), tmp_path / "rows")
    model = learner(kernel="linear", basis="features")
    with pytest.warns(UserWarning, match=r"tuned|tied|chosen"):
        found = model.fit(scan(folder, score="y", query="q"))
    assert found.path_ is None
    np.testing.assert_allclose(found.predict(NEW), 0, atol=1e-12)


# ------------------------------------------------------------------ predictions and scores


@pytest.fixture
def fitted(tmp_path):
    folder = write_parts(table(X, Y, QID), tmp_path / "rows", [1, 70, 120])
    names = pd.DataFrame(X, columns=NAMES)
    return CoRankRLS(VIEWS, 1.0, 0.1, 15).fit(names, Y, qid=QID), folder


@pytest.mark.parametrize("chunk_rows", [1, 37])
def test_predictions_of_a_scan(fitted, tmp_path, chunk_rows):
    model, folder = fitted
    expected = model.predict(pd.DataFrame(X, columns=NAMES))
    rows = scan(folder, features="x*", score="y", query="q", chunk_rows=chunk_rows)
    np.testing.assert_allclose(model.predict(rows), expected, atol=1e-12)
    for ending in ("parquet", "csv", "csv.gz"):
        path = tmp_path / f"out.{ending}"
        assert model.predict_to(rows, path, columns=["q", "x1"], name="found") == len(X)
        written = read_table(path)
        assert written.column_names == ["q", "x1", "found"]
        np.testing.assert_allclose(written["found"].to_numpy(), expected, atol=1e-12)
        np.testing.assert_array_equal(written["q"].to_numpy(), QID)
    with pytest.raises(FileExistsError, match="already exists"):
        model.predict_to(rows, tmp_path / "out.csv")


def test_labels_of_a_csv_are_written_as_they_were_read(fitted, tmp_path):
    model, _ = fitted
    labels = [*(f"{k:03}" for k in range(100)), *(str(2**53 + k) for k in range(100, len(X)))]
    rows = (
        table(X)
        .append_column("id", pa.array(labels))
        .append_column("late", pa.array([None] * 100 + labels[100:]))
    )
    folder = write_parts(rows, tmp_path / "texts", [100], "csv")
    rows = scan(folder, features="x*", chunk_rows=30)
    for ending in ("csv", "parquet"):
        model.predict_to(rows, tmp_path / f"out.{ending}", columns=["id", "late"])
        written = read_table(tmp_path / f"out.{ending}", text=["id", "late"])
        assert written["id"].to_pylist() == labels
        assert written["late"].to_pylist()[100:] == labels[100:]


def test_a_column_in_several_types_is_written_in_the_first(fitted, tmp_path):
    model, folder = fitted
    for path, kind in zip(
        sorted(folder.iterdir()), (pa.int64(), pa.int32(), pa.int16(), pa.int64()), strict=True
    ):
        rows = parquet.read_table(path)
        parquet.write_table(rows.append_column("id", pa.array(range(len(rows)), kind)), path)
    model.predict_to(scan(folder, features="x*"), tmp_path / "out.parquet", columns=["id"])
    assert read_table(tmp_path / "out.parquet").schema.field("id").type == pa.int64()


def test_a_model_picks_its_columns_by_name(fitted, tmp_path):
    model, _ = fitted
    mixed = table(X).select(NAMES[::-1]).append_column("other", pa.array(np.ones(len(X))))
    folder = write_parts(mixed, tmp_path / "mixed")
    np.testing.assert_allclose(
        model.predict(scan(folder)), model.predict(pd.DataFrame(X, columns=NAMES)), atol=1e-12
    )
    with pytest.raises(ValueError, match=r"CoRankRLS .* order differs"):
        model.predict(scan(folder, features=NAMES[::-1]))


@pytest.mark.parametrize("chunk_rows", [1, 500])
def test_scores_of_a_scan(fitted, chunk_rows):
    model, folder = fitted
    frame = pd.DataFrame(X, columns=NAMES)
    rows = scan(folder, score="y", query="q", chunk_rows=chunk_rows)
    assert model.score(rows) == pytest.approx(
        1 - disagreement_error(Y, model.predict(frame), qid=QID)
    )
    regressor = RLS(basis=15).fit(frame, Y)
    assert regressor.score(rows) == pytest.approx(
        regressor.score(frame[~np.isnan(Y)], Y[~np.isnan(Y)])
    )


def test_the_score_of_a_regressor_does_not_ask_where_queries_lie(tmp_path):
    names = pd.DataFrame(X, columns=NAMES)
    model = RLS(1.0, 15).fit(names, Y)
    folder = write_parts(table(X, Y, np.arange(len(X)) % 7), tmp_path / "rows", [70])
    given = ~np.isnan(Y)
    expected = model.score(names[given], Y[given])
    assert model.score(scan(folder, score="y", query="q", chunk_rows=30)) == pytest.approx(expected)
    with pytest.raises(ValueError, match="has no score column"):
        model.score(scan(folder, features=NAMES))


def test_atoms_agree_on_a_scan_too(tmp_path):
    folder = write_parts(table(U, None, U_QID), tmp_path / "rows", [70])
    model = CoRankingPursuit(VIEWS, 3, 0.1)
    expected = model.fit(X, Y, qid=QID, unscored=U, unscored_qid=U_QID).predict(NEW)
    close(
        model.fit(X, Y, qid=QID, unscored=scan(folder, query="q", chunk_rows=40)).predict(NEW),
        expected,
    )


def test_torch_takes_chunks_to_its_device(tmp_path, nothing_held):
    pytest.importorskip("torch")
    folder = write_parts(table(X, Y, QID), tmp_path / "rows", [90])
    model = RankRLS(1.0, 15).fit(scan(folder, score="y", query="q", device="cpu", chunk_rows=40))
    assert type(model.coef_).__module__ == "torch"
    close(model.predict(NEW), predictions_in_memory())


def test_torch_takes_unscored_chunks_to_its_device(tmp_path):
    pytest.importorskip("torch")
    folder = write_parts(table(X, Y, QID), tmp_path / "rows", [90])
    more = write_parts(table(U, None, U_QID), tmp_path / "others", [70])
    model = CoRankRLS(VIEWS, 1.0, 0.1, 15)
    expected = model.fit(X, Y, qid=QID, unscored=U, unscored_qid=U_QID).predict(NEW)
    rows, others = (
        scan(path, score=s, query="q", device="cpu", chunk_rows=40)
        for path, s in ((folder, "y"), (more, None))
    )
    close(model.fit(rows, unscored=others).predict(NEW), expected)


def test_torch_sums_scored_rows_of_several_views(tmp_path, nothing_held):
    pytest.importorskip("torch")
    folder = write_parts(table(X, Y, QID), tmp_path / "rows", [90])
    model = CoRankRLS(VIEWS, 1.0, 0.1, 15)
    expected = model.fit(scan(folder, score="y", query="q", chunk_rows=40)).predict(NEW)
    close(
        model.fit(scan(folder, score="y", query="q", device="cpu", chunk_rows=40)).predict(NEW),
        expected,
    )


def test_memory_does_not_grow_with_the_rows(tmp_path, memory_limit, nothing_held):
    rng = np.random.default_rng(0)
    n = 100_000
    columns = {name: rng.normal(size=n) for name in NAMES}
    parquet.write_table(
        pa.table({**columns, "y": columns["x0"], "q": np.arange(n) // 20}),
        tmp_path / "rows.parquet",
        row_group_size=20_000,
    )
    rows = scan(tmp_path / "rows.parquet", score="y", query="q", chunk_rows=10_000)
    with memory_limit(12):  # the features alone are 5 MB, the chunks 0.5 MB
        RankRLS(1.0, basis=20, gamma=0.1).fit(rows)
