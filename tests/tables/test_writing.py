"""Files that are complete or not there, and what killed processes leave behind."""

import fcntl
import os
import time

import pytest

from corank.tables import read_table, write_table
from corank.tables.write import LEFTOVER_SECONDS, clear_leftovers

OLD = time.time() - 2 * LEFTOVER_SECONDS


@pytest.fixture
def leftover(tmp_path):
    path = tmp_path / ".corank-0123456789abcdef.part"
    path.write_bytes(b"half a table")
    os.utime(path, (OLD, OLD))
    clear_leftovers.cache_clear()
    return path


def test_old_leftovers_are_cleared_at_the_next_start(leftover):
    write_table({"a": [1, 2]}, leftover.with_name("t.csv"))
    assert [path.name for path in leftover.parent.iterdir()] == ["t.csv"]


def test_young_leftovers_stay(leftover):
    os.utime(leftover)
    write_table({"a": [1, 2]}, leftover.with_name("t.csv"))
    assert leftover.exists()


def test_what_another_process_is_writing_stays(leftover):
    with leftover.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write_table({"a": [1, 2]}, leftover.with_name("t.csv"))
        assert leftover.exists()


def test_a_folder_in_which_nothing_may_be_removed_is_no_obstacle(leftover, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError

    monkeypatch.setattr("pathlib.Path.unlink", refuse)
    write_table({"a": [1, 2]}, leftover.with_name("t.csv"))
    assert read_table(leftover.with_name("t.csv")).num_rows == 2


def test_other_files_stay(leftover):
    others = [leftover.with_name(name) for name in ("mine.part", ".corank-x.csv", ".corank-notes")]
    for other in others:
        other.write_text("mine")
        os.utime(other, (OLD, OLD))
    write_table({"a": [1]}, leftover.with_name("t.csv"))
    assert all(other.exists() for other in others)
