"""Tables that few people have: rare types, pipes, mixed values; one sentence each, or the right
answer.
"""

import os
import shlex
import subprocess
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command_line import COMMAND, error, run
from pyarrow import parquet

from corank import RankRLS, TableEncoder, scan
from corank.tables import TableError, read_table

N = 30
SCORES = np.arange(N) % 7 + 0.1 * (np.arange(N) % 4)
RARE = {
    "string_view": pa.array([f"k{number % 3}" for number in range(N)], pa.string_view()),
    "binary_view": pa.array([b"k"] * N, pa.binary_view()),
    "a far date": pa.array(np.arange(N) + 10**12, pa.timestamp("s")),
    "a far day": pa.array(range(2**31 - 1 - N, 2**31 - 1), pa.int32()).cast(pa.date32()),
    "an early day": pa.array(range(1 - 2**31, 1 - 2**31 + N), pa.int32()).cast(pa.date32()),
    "a last day": (
        pa.array([2_932_896 - number % 3 for number in range(N)], pa.int32()).cast(pa.date32())
    ),
    "duration": pa.array(np.arange(N), pa.duration("s")),
    "list": pa.array([[1, 2]] * N),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("role", ["feature", "query", "id", "score"])
@pytest.mark.parametrize("kind", RARE)
def test_rare_types_of_parquet(folder, kind, role):
    columns = {"x": np.arange(N) % 5, "y": SCORES, "rare": RARE[kind]}
    parquet.write_table(pa.table(columns), "t.parquet")
    options = [
        "--score",
        "rare" if role == "score" else "y",
        "--method",
        "rankrls",
        "--out",
        "m.corank",
        "--quiet",
    ]
    options += [f"--{role}", "rare"] if role in ("query", "id") else []
    codes = []
    for words in (
        ("fit", "t.parquet", *options),
        ("rank", "m.corank", "t.parquet"),
        ("rank", "m.corank", "t.parquet", "--out", "o.jsonl"),
        ("rank", "m.corank", "*.parquet", "--out", "o.csv"),
    ):
        if words[0] == "fit" or not any(codes):
            try:
                run(*words)
            except AssertionError as failure:
                assert "went wrong inside" not in str(failure)  # noqa: PT017
                codes.append(str(failure))
    readable = kind in ("string_view", "a last day", "duration")
    assert not (readable and role in ("feature", "id") and codes), codes


@pytest.mark.parametrize("kind", ["a far date", "a far day", "an early day"])
def test_dates_outside_of_the_calendar_are_refused_by_name(folder, kind):
    parquet.write_table(pa.table({"y": SCORES, "when": RARE[kind]}), "t.parquet")
    with pytest.raises(TableError, match=r"'when'.*t.parquet.*years 1 to 9999"):
        read_table("t.parquet")
    encoder = TableEncoder().fit(pa.table({"when": RARE["a last day"]}))
    with pytest.raises(TableError, match="years 1 to 9999"):
        RankRLS().fit(scan("t.parquet", score="y", encoder=encoder))


@pytest.mark.parametrize(
    "text", ['{"a": 1}\n{"a": "two"}\n', '{"a": [1]}\n{"a": 2}\n', '{"a": true}\n{"a": "no"}\n']
)
def test_json_lines_of_mixed_types(folder, text):
    (folder / "t.jsonl").write_text(text)
    with pytest.raises(TableError, match=r"column 'a'.*t.jsonl.*some rows") as refusal:
        read_table("t.jsonl")
    assert "damaged" not in str(refusal.value)


def table():
    return pd.DataFrame(
        {"item": [f"i{number}" for number in range(N)], "x": np.arange(N) % 5, "y": SCORES}
    )


FIT = ("--score", "y", "--id", "item", "--method", "rankrls", "--out", "m.corank", "--quiet")


def test_a_pipe_with_a_name_is_read(folder):
    os.mkfifo("p.csv")
    writer = threading.Thread(target=table().to_csv, args=("p.csv",), kwargs={"index": False})
    writer.start()
    run("fit", "p.csv", *FIT)
    writer.join()
    assert (folder / "m.corank").exists()
    with pytest.raises(TableError, match="not a regular file"):
        read_table("p.csv")


def test_process_substitution(folder):
    table().to_csv("t.csv", index=False)
    words = shlex.join([*COMMAND, "fit"])
    done = subprocess.run(
        ["bash", "-c", f"{words} <(cat t.csv) {shlex.join(FIT)}"],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "m.corank").exists()


def test_an_empty_pipe_is_empty(folder):
    os.mkfifo("p.csv")
    writer = threading.Thread(target=(folder / "p.csv").write_bytes, args=(b"",))
    writer.start()
    assert "p.csv is empty" in error("fit", "p.csv", *FIT)
    writer.join()


def test_no_model_stays_where_its_report_cannot_be_written(folder, monkeypatch):
    table().to_csv("t.csv", index=False)

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("corank.report.write_model_report", fail)
    assert "space" in error("fit", "t.csv", *FIT, "--report", "r.html")
    assert sorted(path.name for path in folder.iterdir()) == ["t.csv"]


def test_no_report_stays_where_its_model_cannot_be_written(folder, monkeypatch):
    table().to_csv("t.csv", index=False)

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("corank.learners.rls.RankRLS.save", fail)
    assert "space" in error("fit", "t.csv", *FIT, "--report", "r.html")
    assert sorted(path.name for path in folder.iterdir()) == ["t.csv"]
