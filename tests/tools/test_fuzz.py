"""The fuzzers run, say what they find, and what they once found stays mended."""

import logging
import shlex
import shutil
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from corank import RankRLS
from corank.interview.server import Guard
from corank.tables.answer_log import KINDS, AnswersFile
from fuzz import ask, connections, growth, models, tables
from fuzz.__main__ import block, fuzzers, main
from fuzz.watch import finding_of

CORPUS = Path(__file__).parents[2] / "fuzz" / "corpus"
MODELS = sorted(CORPUS.glob("models/*.corank"))
TABLES = sorted(path for path in CORPUS.glob("tables/*") if path.is_dir())
REQUESTS = sorted(CORPUS.glob("ask/*.json"))
ANSWERS = sorted(CORPUS.glob("ask/*.csv"))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_model_files_that_were_findings(path):
    assert models.examined(path, np.random.default_rng(0)) == []


@pytest.mark.parametrize("folder", TABLES, ids=lambda path: path.name)
def test_tables_that_were_findings(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "case")
    words = shlex.split((folder / "command").read_text(encoding="utf-8"))
    assert tables.examined(tmp_path / "case", words) == []


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.stem)
def test_requests_that_were_findings(path, tmp_path):
    with ask.visited(np.random.default_rng(0), tmp_path) as visitor:
        request = ask.OddRequest.from_json(path.read_text(encoding="utf-8"))
        assert finding_of(lambda: visitor.finding_about(request), ()) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", ANSWERS, ids=lambda path: path.stem)
def test_answers_that_were_findings(path, kind, tmp_path):
    shutil.copy(path, tmp_path / "answers.csv")
    assert ask.answers_examined(tmp_path / "answers.csv", kind, np.random.default_rng(0)) == []


@pytest.mark.parametrize(
    ("fuzzer", "count"), [(ask, 24), (connections, 60), (growth, 3), (models, 60), (tables, 8)]
)
def test_a_few_cases(fuzzer, count):
    assert fuzzer.run(31_000, count) == []


def test_every_fuzzer_has_a_run():
    assert {"ask", "connections", "growth", "messages", "models", "tables"} == set(fuzzers())
    assert all(callable(import_module(f"fuzz.{name}").run) for name in fuzzers())


def test_a_case_can_be_repeated_alone(tmp_path):
    assert models.make(13, tmp_path / "a") == models.make(13, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    assert tables.make(3, one) == tables.make(3, other)
    assert {path.name: path.read_bytes() for path in one.iterdir()} == {
        path.name: path.read_bytes() for path in other.iterdir()
    }


def test_the_fuzzer_finds_a_door_that_stands_open(monkeypatch):
    monkeypatch.setattr(Guard, "_answering", lambda self, request: self._app)
    assert "is let in" in "".join(ask.run(31_000, 24))


def test_the_fuzzer_finds_answers_that_are_lost(monkeypatch):
    def write(file, line):
        file.path.write_bytes(line)

    monkeypatch.setattr(AnswersFile, "_add", write)
    monkeypatch.setattr(AnswersFile, "_check_unchanged", lambda file: None)
    findings = "".join(ask.run(31_000, 24))
    assert "is gone" in findings
    assert "changes what is in the file of answers" in findings


def test_the_fuzzer_finds_answers_that_go_nowhere(monkeypatch, tmp_path):
    monkeypatch.setattr(AnswersFile, "_check_unchanged", lambda file, may_be_longer=False: None)
    assert "is not in the file" in "".join(ask.disturb(np.random.default_rng(0), tmp_path))


def test_the_fuzzer_finds_what_strangers_write_to_the_terminal(monkeypatch):
    monkeypatch.setattr("corank.interview.server.SILENT", logging.getLogger("uvicorn.error"))
    assert "is told on the terminal" in "".join(connections.run(100, 60))


def raised(error):
    raise error


@pytest.mark.parametrize(
    ("act", "finding"),
    [
        (lambda: raised(KeyError("inner")), "KeyError"),
        (lambda: raised(ValueError("not of corank")), "ValueError"),
        (lambda: "a finding of its own", "a finding of its own"),
        (lambda: np.linalg.inv(np.zeros((2, 2))), "LinAlgError"),
        (lambda: __import__("subprocess").run(["true"], check=True), "started"),
    ],
)
def test_what_is_a_finding(act, finding):
    assert finding in finding_of(act)


def test_a_sentence_of_corank_is_no_finding():
    assert finding_of(lambda: RankRLS().fit([[1.0]], ["text"])) is None


def test_a_crash_is_a_finding(tmp_path, capsys, monkeypatch):
    assert "code" in block("models; import os; os._exit(3)", 1, 1)[0]
    assert main(["--count", "3", "models"]) == 0
    assert "3 models: 0 findings" in capsys.readouterr().out
