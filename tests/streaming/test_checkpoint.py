"""Checkpoints: a fit that breaks off anywhere gives, when it is resumed, the bits of one that did
not.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scan_files import NAMES, make_rows, scan, table, write_parts
from sklearn.preprocessing import StandardScaler

from corank import CoRankRLS, RankRLS, View
from corank.model_files.container import read_model, write_model
from corank.streaming import survey

pytestmark = pytest.mark.usefixtures("one_blas_thread")
X, Y, QID = make_rows(n=160)
U, _, U_QID = make_rows(n=120, seed=1)
VIEWS = [View(slice(0, 3)), View(slice(3, 6))]
CHUNK_ROWS = 20


class Breaks:
    """A map that breaks the fit off when it has been called `after` times."""

    def __init__(self, after=None, how=KeyboardInterrupt):
        self.after, self.how, self.calls = after, how, 0

    def __call__(self, features):
        self.calls += 1
        if self.calls == self.after:
            if self.how is signal.SIGTERM:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(0.05)
            else:
                raise self.how
        return features


@pytest.fixture
def folders(tmp_path):
    rows = write_parts(table(X, Y, QID), tmp_path / "rows", [37, 110], row_group_size=45)
    return rows, write_parts(table(U, None, U_QID), tmp_path / "others", [50])


def single(folders, breaks, checkpoint=None, **options):
    rows = scan(folders[0], score="y", query="q", chunk_rows=CHUNK_ROWS).map(breaks)
    return RankRLS(**{"basis": 15, **options}).fit(rows, checkpoint=checkpoint)


def several(folders, breaks, checkpoint=None, **options):
    rows = scan(folders[0], score="y", query="q", chunk_rows=CHUNK_ROWS).map(breaks)
    others = scan(folders[1], features=NAMES, query="q", chunk_rows=CHUNK_ROWS).map(breaks)
    return CoRankRLS(VIEWS, **{"basis": 15, **options}).fit(
        rows, unscored=others, checkpoint=checkpoint
    )


def coefficients(model):
    per_view = model.coef_ if isinstance(model.coef_, list) else [model.coef_]
    return np.concatenate([np.ravel(view) for view in per_view])


@pytest.mark.parametrize(
    ("fit", "how", "held", "spread"),
    [
        (single, KeyboardInterrupt, False, False),
        (single, KeyboardInterrupt, False, True),
        (several, OSError, True, False),
        (several, OSError, False, True),
    ],
    ids=["single", "single, spread candidates", "several", "several, summed, spread candidates"],
)
def test_a_fit_that_breaks_off_in_any_pass_is_resumed(
    folders, tmp_path, fit, how, held, spread, monkeypatch
):
    if not held:
        monkeypatch.setattr(survey, "HELD_BYTES", 0)
    if spread:
        monkeypatch.setattr(survey, "MAX_EVEN_ROWS", 50)
        monkeypatch.setattr("corank.core.sampling.N_WINDOWS", 3)
        monkeypatch.setattr("corank.core.basis.MIN_CANDIDATES", 30)
        monkeypatch.setattr("corank.core.basis.CANDIDATES_PER_BASIS_ROW", 2)
    uninterrupted = Breaks()
    expected = coefficients(fit(folders, uninterrupted, tmp_path / "whole", alpha=1.0))
    for after in range(7, uninterrupted.calls, 9):
        checkpoint = tmp_path / f"{fit.__name__} {after}"
        with pytest.raises(how):
            fit(folders, Breaks(after, how), checkpoint, alpha=1.0)
        resumed = Breaks()
        np.testing.assert_array_equal(
            coefficients(fit(folders, resumed, checkpoint, alpha=1.0)), expected
        )
        assert resumed.calls < uninterrupted.calls
        again = Breaks()
        np.testing.assert_array_equal(
            coefficients(fit(folders, again, checkpoint, alpha=1.0)), expected
        )
        # the first rows show the width of the mapped features, nothing is summed again
        assert again.calls <= 2


def test_many_breaks_in_one_fit(folders, tmp_path):
    expected = coefficients(several(folders, Breaks()))
    for _ in range(100):
        try:
            model = several(folders, Breaks(9), tmp_path / "kept")
        except KeyboardInterrupt:
            continue
        break
    np.testing.assert_array_equal(coefficients(model), expected)


def test_sigterm_ends_like_an_interruption_and_gets_its_handler_back(folders, tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as stopped:
        several(folders, Breaks(12, signal.SIGTERM), tmp_path / "kept")
    assert stopped.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before
    expected = coefficients(several(folders, Breaks()))
    np.testing.assert_array_equal(
        coefficients(several(folders, Breaks(), tmp_path / "kept")), expected
    )


PROGRAM = """
import os, signal, sys
from pathlib import Path
import numpy as np
from corank import CoRankRLS, View
from scan_files import scan

rows, others, kept, log, out = map(Path, sys.argv[1:6])
last = int(sys.argv[6])

def counted(features):
    with log.open("a") as file:
        file.write(".")
    if log.stat().st_size == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return features

model = CoRankRLS([View(slice(0, 3)), View(slice(3, 6))], basis=15).fit(
    scan(rows, score="y", query="q", chunk_rows=20).map(counted),
    unscored=scan(others, query="q", chunk_rows=5).map(counted),
    checkpoint=kept,
)
np.save(out, np.concatenate([*model.coef_, model.predict(scan(others, query="q"))]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("n_kills", [2, 5])
def test_killed_several_times(folders, tmp_path, n_kills):
    (tmp_path / "fit.py").write_text(PROGRAM)
    environment = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }

    def run(name, last):
        log = tmp_path / f"{name}.log"
        paths = [*folders, tmp_path / name, log, tmp_path / f"{name}.npy"]
        command = [sys.executable, tmp_path / "fit.py", *map(str, [*paths, last])]
        done = subprocess.run(command, env=environment, timeout=120, check=False)
        return done.returncode, log.stat().st_size

    status, n_chunks = run("whole", -1)
    assert status == 0
    points, read = random.Random(0), 0
    for _ in range(n_kills):
        status, read = run("broken", read + points.randint(3, n_chunks // n_kills))
        assert status == -signal.SIGKILL
    assert run("broken", -1)[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "broken.npy"), np.load(tmp_path / "whole.npy"))
    assert not list((tmp_path / "broken").glob("*.part"))


# ------------------------------------------------------------------ checkpoints of something else


def test_other_data_or_parameters_are_refused_by_name(folders, tmp_path):
    kept = tmp_path / "kept"
    single(folders, Breaks(), kept, alpha=1.0)
    with pytest.raises(ValueError, match=r"alpha was 1\.0 then and is 2\.0 now"):
        single(folders, Breaks(), kept, alpha=2.0)
    with pytest.raises(ValueError, match="learner was RankRLS then and is CoRankRLS now"):
        several(folders, Breaks(), kept)
    with pytest.raises(ValueError, match="chunk_rows was 20 then and is 30 now"):
        RankRLS(1.0, 15).fit(
            scan(folders[0], score="y", query="q", chunk_rows=30).map(Breaks()), checkpoint=kept
        )
    rows = scan(folders[0], features=NAMES, score="y", chunk_rows=CHUNK_ROWS).map(Breaks())
    with pytest.raises(ValueError, match="query was q then and is null now"):
        RankRLS(1.0, 15).fit(rows, checkpoint=kept)
    write_parts(table(X[:20], Y[:20], QID[:20]), folders[0])
    with pytest.raises(ValueError, match=r"part-000\.parquet was changed"):
        single(folders, Breaks(), kept, alpha=1.0)


def test_a_map_that_has_learned_something_else_is_refused(folders, tmp_path):
    rows = scan(folders[0], score="y", query="q", chunk_rows=CHUNK_ROWS)
    scalers = [StandardScaler().fit(X), StandardScaler().fit(2 * X)]
    RankRLS(1.0, 15).fit(rows.map(scalers[0].transform), checkpoint=tmp_path / "kept")
    with pytest.raises(ValueError, match="scan X maps"):
        RankRLS(1.0, 15).fit(rows.map(scalers[1].transform), checkpoint=tmp_path / "kept")


def test_kernels_that_are_functions_are_recognised(folders, tmp_path):
    def kernel(X, Z):
        return np.asarray(X @ Z.T)

    rows = scan(folders[0], score="y", query="q", chunk_rows=CHUNK_ROWS)
    first, again = (
        RankRLS(1.0, 15, kernel=kernel).fit(rows, checkpoint=tmp_path / "kept").coef_
        for _ in range(2)
    )
    np.testing.assert_array_equal(again, first)


def test_other_rows_in_memory_are_refused(folders, tmp_path):
    others = scan(folders[1], features=NAMES, query="q", chunk_rows=CHUNK_ROWS)
    model = CoRankRLS(VIEWS, 1.0, 0.1, 15)
    expected = coefficients(model.fit(X, Y, qid=QID, unscored=others, checkpoint=tmp_path / "kept"))
    again = coefficients(model.fit(X, Y, qid=QID, unscored=others, checkpoint=tmp_path / "kept"))
    np.testing.assert_array_equal(again, expected)
    with pytest.raises(ValueError, match="rows y was"):
        model.fit(X, Y + 1, qid=QID, unscored=others, checkpoint=tmp_path / "kept")


def test_folders_that_are_something_else(folders, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file is a file"):
        single(folders, Breaks(), tmp_path / "file")
    with pytest.raises(FileExistsError, match="holds other files"):
        single(folders, Breaks(), folders[0])


def test_damaged_checkpoints_are_refused(folders, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        several(folders, Breaks(12), tmp_path / "kept")
    file, *_ = (tmp_path / "kept").glob("*.sums")
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"damaged.*delete the folder"):
        several(folders, Breaks(), tmp_path / "kept")
    (tmp_path / "kept" / "about.json").write_text("{")
    with pytest.raises(ValueError, match=r"about\.json is damaged"):
        several(folders, Breaks(), tmp_path / "kept")


def test_files_that_are_no_checkpoints_are_refused(folders, tmp_path):
    RankRLS(1.0).fit(X, Y, qid=QID).save(tmp_path / "model")
    for header in ({}, None):
        with pytest.raises(KeyboardInterrupt):
            single(folders, Breaks(5), tmp_path / "kept")
        file = tmp_path / "kept" / "look-X.sums"
        if header is None:  # a model under the name of a checkpoint
            file.write_bytes((tmp_path / "model").read_bytes())
        else:
            saved, arrays = read_model(file)
            write_model(file, {"job": saved["job"], **header}, arrays, overwrite=True)
        with pytest.raises(ValueError, match=r"delete it|an earlier corank wrote it; delete"):
            single(folders, Breaks(), tmp_path / "kept")
        shutil.rmtree(tmp_path / "kept")


def test_a_fit_that_was_refused_leaves_the_folder_to_the_next(tmp_path):
    folders = [write_parts(table(X, Y, QID), tmp_path / "rows", [37], "csv")]
    with pytest.raises(ZeroDivisionError):
        # one call is for the width
        single(folders, Breaks(2, ZeroDivisionError), tmp_path / "kept")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["about.json"]
    model = single(folders, Breaks(), tmp_path / "kept", basis=10)
    np.testing.assert_array_equal(
        coefficients(model), coefficients(single(folders, Breaks(), basis=10))
    )


def test_chunks_that_can_only_be_read_in_order_go_with_a_checkpoint(folders, tmp_path):
    class Chunks:
        def __iter__(self):
            for rows in (slice(0, 70), slice(70, None)):
                yield pd.DataFrame(X[rows], columns=NAMES), QID[rows]

    rows = scan(folders[0], score="y", query="q", chunk_rows=CHUNK_ROWS)
    model = CoRankRLS(VIEWS, 1.0, 0.1, 15)
    expected = coefficients(model.fit(rows, unscored=Chunks()))
    kept = coefficients(model.fit(rows, unscored=Chunks(), checkpoint=tmp_path / "kept"))
    np.testing.assert_array_equal(kept, expected)


def test_a_full_disk_keeps_the_last_checkpoint(folders, tmp_path):
    resource = pytest.importorskip("resource")
    expected = coefficients(several(folders, Breaks(), alpha=1.0))
    with pytest.raises(KeyboardInterrupt):
        several(folders, Breaks(12), tmp_path / "kept", alpha=1.0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            several(folders, Breaks(), tmp_path / "kept", alpha=1.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list((tmp_path / "kept").glob(".*"))
    np.testing.assert_array_equal(
        coefficients(several(folders, Breaks(), tmp_path / "kept", alpha=1.0)), expected
    )


def test_progress_on_a_terminal_says_rows_and_speed(folders, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    single(folders, Breaks())
    shown = capsys.readouterr().err
    assert "looking at X" in shown
    assert "160 rows" in shown


def test_progress_is_silent_without_a_terminal(folders, capfd):
    single(folders, Breaks())
    assert capfd.readouterr() == ("", "")
    assert Path(folders[0]).exists()
