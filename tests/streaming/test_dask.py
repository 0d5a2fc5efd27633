"""Dask: workers give the model of the rows in memory, and the same bits every time, also when a
worker dies.

Most tests have workers in this process; those with real processes are slow, but for one.
"""

import json
import os
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scan_files import NAMES, make_rows, scan, table, write_parts

from corank import RLS, CoRankRLS, RankRLS, View
from corank.model_files.container import read_model
from corank.streaming import dask, survey

distributed = pytest.importorskip("distributed")
dask_array = pytest.importorskip("dask.array")
dask_frame = pytest.importorskip("dask.dataframe")

pytestmark = [
    pytest.mark.usefixtures("one_blas_thread"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
    # of sockets of workers that were killed
    pytest.mark.filterwarnings("default::ResourceWarning"),
]
X, Y, QID = make_rows(n=300)
U, _, U_QID = make_rows(n=240, seed=1)
NEW = make_rows(n=20, seed=2)[0]
VIEWS = [View(slice(0, 3)), View(slice(3, 6))]


def start_cluster(*, processes, **options):
    return distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=processes, dashboard_address=":0", **options
    )


@pytest.fixture(scope="module")
def client():
    """A client whose workers are threads of this process."""
    with start_cluster(processes=False) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def client_of_processes():
    with start_cluster(processes=True) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def folders(tmp_path):
    rows = write_parts(table(X, Y, QID), tmp_path / "rows", [37, 41, 200], row_group_size=30)
    return rows, write_parts(table(U, None, U_QID), tmp_path / "others", [50], row_group_size=20)


@pytest.fixture
def nothing_held(monkeypatch):
    monkeypatch.setattr(survey, "HELD_BYTES", 0)


def assert_close(predictions, expected):
    np.testing.assert_allclose(predictions, expected, rtol=0, atol=1e-8 * np.ptp(expected))


@pytest.mark.parametrize(
    ("learner", "kind"), [(RankRLS(basis=20), "csv"), (RLS(basis=20, gamma="scale"), "parquet")]
)
def test_one_view(client, tmp_path, kind, learner, nothing_held):
    folder = write_parts(
        table(X, Y, QID), tmp_path / "rows", [37, 41, 200], kind, row_group_size=30
    )
    expected = learner.fit(X, Y, qid=QID).predict(NEW)
    rows = scan(folder, score="y", query="q", chunk_rows=16, client=client)
    predictions = learner.fit(rows).predict(NEW)
    assert_close(predictions, expected)
    here = scan(folder, score="y", query="q", chunk_rows=16)
    np.testing.assert_array_equal(learner.fit(here).predict(NEW), predictions)


def test_worker_processes_read_the_files_themselves(client_of_processes, folders, nothing_held):
    rows = scan(folders[0], score="y", query="q", chunk_rows=40, client=client_of_processes)
    found = RankRLS(basis=20).fit(rows).predict(NEW)
    assert_close(found, RankRLS(basis=20).fit(X, Y, qid=QID).predict(NEW))
    here = scan(folders[0], score="y", query="q", chunk_rows=40)
    np.testing.assert_array_equal(RankRLS(basis=20).fit(here).predict(NEW), found)


def test_several_views(client, folders):
    model = CoRankRLS(VIEWS, 1.0, 0.1, 20)
    expected = model.fit(X, Y, qid=QID, unscored=U, unscored_qid=U_QID)
    basis, predictions = expected.basis_, expected.predict_views(NEW)
    rows = scan(folders[0], score="y", query="q", chunk_rows=16, client=client)
    others = scan(folders[1], query="q", chunk_rows=16, client=client)
    on_workers = model.fit(rows, unscored=others).predict_views(NEW)
    assert_close(on_workers, predictions)
    for view_basis, view_expected in zip(model.basis_, basis, strict=True):
        np.testing.assert_array_equal(view_basis, view_expected)
    rows, others = (replace(each, client=None) for each in (rows, others))
    np.testing.assert_array_equal(model.fit(rows, unscored=others).predict_views(NEW), on_workers)


def test_workers_read_features_once_but_for_a_few_row_groups(
    client, folders, nothing_held, monkeypatch
):
    monkeypatch.setattr(survey, "MAX_EVEN_ROWS", 50)
    monkeypatch.setattr(survey, "WINDOW_ROWS", 8)
    monkeypatch.setattr("corank.core.sampling.N_WINDOWS", 2)
    monkeypatch.setattr("corank.core.basis.MIN_CANDIDATES", 20)
    monkeypatch.setattr("corank.core.basis.CANDIDATES_PER_BASIS_ROW", 2)
    models = []
    for place in (None, client, client):
        rows = scan(folders[0], score="y", query="q", chunk_rows=16, client=place)
        models.append(CoRankRLS(VIEWS, 1.0, 0.1, 10).fit(rows))
    here, first, second = models
    assert 1 < first.n_readings_ == here.n_readings_ < 2
    for view_basis, view_expected in zip(first.basis_, here.basis_, strict=True):
        np.testing.assert_array_equal(view_basis, view_expected)
    np.testing.assert_array_equal(first.predict(NEW), here.predict(NEW))
    np.testing.assert_array_equal(second.predict(NEW), first.predict(NEW))


def test_predictions_are_made_and_written_by_workers(client, folders, tmp_path):
    model = RankRLS(1.0, 20).fit(pd.DataFrame(X, columns=NAMES), Y, qid=QID)
    expected = model.predict(pd.DataFrame(X, columns=NAMES))
    rows = scan(folders[0], query="q", chunk_rows=16, client=client)
    np.testing.assert_allclose(model.predict(rows), expected, atol=1e-12)
    assert model.predict_to(rows, tmp_path / "out", columns=["q"]) == len(X)
    written = list(scan(tmp_path / "out", features=["prediction"], query="q").chunks())
    np.testing.assert_allclose(
        np.concatenate([chunk.features[:, 0] for chunk in written]), expected, atol=1e-12
    )
    with pytest.raises(FileExistsError, match="already exists"):
        model.predict_to(rows, tmp_path / "out")
    assert not list(tmp_path.glob(".corank*"))


# ------------------------------------------------------------------ collections


def as_arrays(X, y, qid):
    chunks = (70, 1, 29, len(X) - 100)
    return tuple(
        dask_array.from_array(array, chunks=(chunks, *array.shape[1:])) for array in (X, y, qid)
    )


def as_frames(X, y, qid):
    frame = dask_frame.from_pandas(pd.DataFrame(X, columns=NAMES).assign(y=y, q=qid), npartitions=4)
    return frame[NAMES], frame["y"], frame["q"]


@pytest.mark.parametrize("make", [as_arrays, as_frames])
def test_collections(client, make, nothing_held, monkeypatch):
    expected = RankRLS(basis=20).fit(X, Y, qid=QID)
    rows, y, qid = make(X, Y, QID)
    on_workers = RankRLS(basis=20).fit(rows, y, qid=qid)
    monkeypatch.setattr(dask, "_client", lambda: None)
    model = RankRLS(basis=20).fit(rows, y, qid=qid)
    np.testing.assert_array_equal(model.coef_, on_workers.coef_)
    assert_close(model.predict(NEW), expected.predict(NEW))
    named = X if make is as_arrays else pd.DataFrame(X, columns=NAMES)
    np.testing.assert_allclose(model.predict(rows), model.predict(named), atol=1e-12)
    scored = ~np.isnan(Y)
    assert model.score(rows, y, qid=qid) == pytest.approx(
        expected.score(X[scored], Y[scored], qid=QID[scored])
    )


def test_collections_of_unscored_rows(client):
    model = CoRankRLS(VIEWS, 1.0, 0.1, 20)
    expected = model.fit(X, Y, qid=QID, unscored=U, unscored_qid=U_QID).predict(NEW)
    rows, y, qid = as_arrays(X, Y, QID)
    more, _, more_qid = as_arrays(U, np.zeros(len(U)), U_QID)
    assert_close(
        model.fit(rows, y, qid=qid, unscored=more, unscored_qid=more_qid).predict(NEW), expected
    )


def test_collections_that_do_not_fit_each_other():
    rows, y, _ = as_arrays(X, Y, QID)
    frame = dask_frame.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=3)
    wrong = X.copy()
    wrong[250, 2] = np.nan
    infinite = np.where(np.arange(len(Y)) == 120, np.inf, Y)
    texts = dask_array.from_array(np.full((300, 2), "a"), chunks=100)
    refused = [
        (rows, Y[:200], ValueError, "y has 200 values but X has 300"),
        (X, y, TypeError, "y is a Dask collection"),
        (frame, Y, ValueError, "y .* sizes of the partitions of X"),
        (frame, y, ValueError, "y has 4 partitions and X 3"),
        (as_arrays(wrong, Y, QID)[0], y, ValueError, "'x2' .* data row 151 of partition 3"),
        (
            rows,
            as_arrays(X, infinite, QID)[1],
            ValueError,
            "'y' holds inf in data row 21 of partition 3",
        ),
        (texts, Y, ValueError, r"partition \d should hold numbers"),
        (rows[:, 0], y, ValueError, "X must have two dimensions"),
    ]
    for collection, scores, error, message in refused:
        with pytest.raises(error, match=message):
            RankRLS(basis=5).fit(collection, scores)


# ------------------------------------------------------------------ deaths


class KillsOnce:
    """A map whose first worker dies."""

    def __init__(self, marker):
        self.marker = marker

    def __call__(self, features):
        if not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return features


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_no_bit(
    client_of_processes, folders, tmp_path, nothing_held
):
    marker = tmp_path / "killed"
    marker.touch()
    rows = scan(folders[0], score="y", query="q", chunk_rows=16, client=client_of_processes).map(
        KillsOnce(marker)
    )
    assert rows.n_features == 6  # the first rows are mapped here, where nobody should die
    expected = RankRLS(basis=20).fit(rows).coef_
    marker.unlink()
    np.testing.assert_array_equal(RankRLS(basis=20).fit(rows).coef_, expected)
    assert marker.exists()


class Waits:
    """A map that leaves a mark when it works, and takes its time."""

    def __init__(self, marker):
        self.marker = marker

    def __call__(self, features):
        self.marker.touch()
        time.sleep(0.05)
        return features


@pytest.mark.slow
def test_a_scheduler_that_is_gone(folders, tmp_path, monkeypatch):
    monkeypatch.setattr(dask, "BATCH_UNITS", 2)
    cluster = start_cluster(processes=True)
    client = distributed.Client(cluster)
    marker = tmp_path / "working"
    rows = scan(folders[0], score="y", query="q", chunk_rows=4, client=client).map(Waits(marker))
    assert rows.n_features == 6
    marker.unlink()

    def end():
        while not (marker.exists() and list((tmp_path / "kept").glob("*.sums"))):
            time.sleep(0.01)
        cluster.close()

    killer = threading.Thread(target=end)
    killer.start()
    try:
        with pytest.raises(ConnectionError, match="scheduler is gone"):
            RankRLS(1.0, 10).fit(rows, checkpoint=tmp_path / "kept")
    finally:
        killer.join()
        client.close()
    assert list((tmp_path / "kept").glob("*.sums"))
    with pytest.raises(ConnectionError, match="client is closed"):
        RankRLS(1.0, 10).fit(rows)


@pytest.mark.slow
def test_workers_behind_tls(folders, nothing_held):
    pytest.importorskip("cryptography")
    expected = RankRLS(1.0, 20).fit(X, Y, qid=QID).predict(NEW)
    with (
        start_cluster(processes=True, security=True) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert client.scheduler.address.startswith("tls://")
        assert_close(
            RankRLS(1.0, 20)
            .fit(scan(folders[0], score="y", query="q", client=client))
            .predict(NEW),
            expected,
        )


def test_a_client_that_is_closed(folders):
    class Closed:
        status = "closed"

    with pytest.raises(ConnectionError, match="client is closed"):
        RankRLS(1.0, 10).fit(scan(folders[0], score="y", query="q", client=Closed()))


def test_a_checkpoint_is_taken_up_by_another_client(
    client, folders, tmp_path, monkeypatch, nothing_held
):
    monkeypatch.setattr(dask, "BATCH_UNITS", 3)
    rows = scan(folders[0], score="y", query="q", chunk_rows=16, client=client)
    model = RankRLS(1.0, 20)
    expected = model.fit(rows).coef_
    gathered, calls = dask._gathered, []

    def interrupt(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return gathered(*arguments)

    monkeypatch.setattr(dask, "_gathered", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(rows, checkpoint=tmp_path / "kept")
    with distributed.Client(client.scheduler.address) as other:
        resumed = scan(folders[0], score="y", query="q", chunk_rows=16, client=other)
        np.testing.assert_array_equal(
            model.fit(resumed, checkpoint=tmp_path / "kept").coef_, expected
        )


def test_a_checkpoint_of_one_machine_is_taken_up_by_workers(client, tmp_path, nothing_held):
    folder = write_parts(table(X, Y, QID), tmp_path / "rows", [100], "csv")
    calls = []

    def interrupt(features):
        calls.append(len(features))
        if len(calls) == 16:  # in the middle of the first file, in the second pass
            raise KeyboardInterrupt
        return features

    model = RankRLS(1.0, 20)
    expected = model.fit(scan(folder, score="y", query="q", chunk_rows=30)).coef_
    rows = scan(folder, score="y", query="q", chunk_rows=30)
    with pytest.raises(KeyboardInterrupt):
        model.fit(rows.map(interrupt), checkpoint=tmp_path / "kept")
    header, _ = read_model(tmp_path / "kept" / "sums-scored-1.sums")
    assert header["cursor"][0] == 0
    assert 0 < header["cursor"][1] < 4
    about = tmp_path / "kept" / "about.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "scan": {"X": rows.about()}}))
    again = scan(folder, score="y", query="q", chunk_rows=30, client=client)
    np.testing.assert_array_equal(model.fit(again, checkpoint=tmp_path / "kept").coef_, expected)


def test_partitions_without_rows(client, tmp_path, monkeypatch, nothing_held):
    monkeypatch.setattr(dask, "BATCH_UNITS", 2)
    frame = pd.DataFrame(X, columns=NAMES).assign(y=Y, q=QID, number=range(len(X)))
    rows = dask_frame.from_pandas(frame, npartitions=8, sort=False)
    rows = rows[rows["number"] < 120]  # the last ones, a whole batch of them, are empty
    kept = frame.iloc[:120]
    expected = RankRLS(1.0, 20).fit(kept[NAMES], kept["y"], qid=kept["q"])
    model = RankRLS(1.0, 20).fit(rows[NAMES], rows["y"], qid=rows["q"])
    assert_close(model.predict(frame[NAMES]), expected.predict(frame[NAMES]))
    assert model.predict_to(rows[NAMES], tmp_path / "out") == 120
    written = pd.read_parquet(tmp_path / "out")["prediction"]
    np.testing.assert_allclose(written, model.predict(kept[NAMES]), atol=1e-12)
