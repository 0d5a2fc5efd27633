"""`corank ask`: what it says before and after, and tables and files of answers that it refuses."""

import socket
import sys
from contextlib import suppress

import pandas as pd
import pytest
from command_line import INSTALLED, error, run

from corank.interview import AnswersFile, read_answers
from corank.tables.answer_log import HEADER

ASK = ("ask", "items.csv", "--id", "name", "--out", "answers.csv", "--no-browser")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    names = [f"item-{number}" for number in range(12)]
    frame = pd.DataFrame({"name": names, "size": range(12), "kind": ["round", "square"] * 6})
    frame.to_csv(tmp_path / "items.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def interruptions():
    """What happens while the page is shown, by the number of answers before it."""
    return {}


@pytest.fixture
def between(interruptions):
    """`between(n, act)`: act after n answers."""
    return interruptions.__setitem__


@pytest.fixture
def answered(monkeypatch, interruptions):
    """`answered(n)`: while the page is shown, n questions are answered, the item of the lower
    number always better.
    """
    if INSTALLED:
        pytest.skip("the page is answered in this process")
    from corank.interview.server import PageServer

    def prepare(number):
        def answer_questions(server):
            page = server._page
            for answers in range(number + 1):
                interruptions.pop(answers, lambda: None)()
                if answers == number:
                    break
                question = page.interview.next()
                word = "first" if question.rows[0] < question.rows[1] else "second"
                with suppress(ValueError):  # the page shows it
                    page.reply({"action": "answer", "number": question.number, "answer": word})
            server._socket.close()

        monkeypatch.setattr(PageServer, "run", answer_questions)

    return prepare


def words_of(*command):
    return " ".join(run(*command).stdout.split())


def test_answers_are_taken_up_where_they_end(folder, answered):
    answered(8)
    first = words_of(*ASK)
    assert "http://127.0.0.1:" in first
    assert "8 answers in answers.csv, 8 of them new" in first
    assert "item-0" in first
    assert "corank fit items.csv --comparisons answers.csv --id name --out model.corank" in first
    answered(3)
    second = words_of(*ASK, "--model-out", "model.corank")
    assert "8 answers in answers.csv" in second
    assert "11 answers in answers.csv, 3 of them new" in second
    assert len(read_answers("answers.csv").answers) == 11
    assert "item-" in run("rank", "model.corank", "items.csv", "--out", "-").stdout


def test_answers_are_in_the_file_that_is_named_although_it_was_deleted(folder, answered, between):
    answered(8)
    between(5, (folder / "answers.csv").unlink)
    assert "8 answers in answers.csv, 8 of them new" in words_of(*ASK)
    assert [answer.number for answer in read_answers("answers.csv").answers] == [*range(1, 9)]
    answered(2)
    between(2, (folder / "answers.csv").unlink)  # after the last one
    assert "10 answers in answers.csv, 2 of them new" in words_of(*ASK)
    assert len(read_answers("answers.csv").answers) == 10


def test_a_file_that_was_changed_is_told_when_the_page_ends(folder, answered, between):
    answered(8)
    between(5, lambda: (folder / "answers.csv").write_text("mine"))
    assert "answers-kept-1.csv" in run(*ASK, code=2).stderr
    assert (folder / "answers.csv").read_text() == "mine"
    assert len(read_answers("answers-kept-1.csv").answers) == 5


def test_a_page_without_answers_says_so_and_saves_no_model(folder, answered):
    answered(0)
    result = run(*ASK, "--model-out", "model.corank")
    assert "0 answers in answers.csv" in result.stdout
    assert "no model is saved" in result.stderr
    assert not (folder / "model.corank").exists()


def test_a_table_of_nothing_but_names_needs_no_id(folder, answered):
    answered(4)
    pd.DataFrame({"opera": ["Carmen", "Tosca", "Aida", "Norma"]}).to_csv("operas.csv", index=False)
    assert "4 items" in words_of("ask", "operas.csv", "--out", "answers.csv", "--no-browser")
    assert len(read_answers("answers.csv").answers) == 4


def test_the_only_column_is_read_as_names(folder, answered):
    answered(4)
    (folder / "rooms.csv").write_text("room\n007\n7\n008\n1.50\n")
    assert "4 items" in words_of("ask", "rooms.csv", "--out", "answers.csv", "--no-browser")
    answers = read_answers("answers.csv").answers
    assert {name for answer in answers for name in answer.items} <= {"007", "7", "008", "1.50"}


def test_a_cut_line_is_told_and_nothing_is_lost(folder, answered):
    answered(4)
    run(*ASK)
    whole = (folder / "answers.csv").read_bytes()
    (folder / "answers.csv").write_bytes(whole[:-20])
    result = run(*ASK)
    assert "1 line of answers.csv that cannot be read, such as line 5" in " ".join(
        result.stderr.split()
    )
    assert (folder / "answers.csv").read_bytes().startswith(whole[:-20])
    assert len(read_answers("answers.csv").answers) == 7


def test_it_needs_its_extra(folder, monkeypatch):
    if INSTALLED:
        pytest.skip("modules are hidden in this process")
    for name in ("corank.cli.ask", "corank.interview.server"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert error(*ASK) == "ask needs uvicorn: pip install 'corank[ask]'"


# ---- what is refused


@pytest.mark.parametrize(
    ("case", "mentions"),
    [("no such column", "'nam'"), ("no id", "--id"), ("repeated", "item-1"), ("unnamed", "'name'"), ("one item", "2 items"), ("no items", "rows"), ("empty", "empty")],
)  # fmt: skip
def test_a_table_that_cannot_be_asked_about(folder, refused, case, mentions):
    frame = pd.read_csv("items.csv")
    words = list(ASK)
    if case == "no such column":
        words[3] = "nam"
    elif case == "no id":
        del words[2:4]
    elif case == "repeated":
        frame.loc[7, "name"] = "item-1"
    elif case == "unnamed":
        frame.loc[7, "name"] = None
    elif case == "one item":
        frame = frame[:1]
    elif case == "no items":
        frame = frame[:0]
    frame.to_csv("items.csv", index=False)
    if case == "empty":
        (folder / "items.csv").write_text("")
    refused(*words, mentions=mentions)


def test_a_file_of_other_answers(folder, refused):
    row = "1,compare,Carmen,Tosca,,,first,,,,,2026-01-01T00:00:00Z\n"
    (folder / "answers.csv").write_text(f"{HEADER}\n{row}")
    refused(*ASK, mentions=("'Carmen'", "answers.csv"))
    (folder / "answers.csv").write_text(
        f"{HEADER}\n{row.replace('Carmen', 'item-1').replace('Tosca', 'item-2')}"
    )
    refused(*ASK, "--kind", "score", mentions="answers.csv")
    (folder / "answers.csv").write_text("winner,loser\nitem-1,item-2\n")
    refused(*ASK, mentions="answers.csv")
    assert (folder / "answers.csv").read_text() == "winner,loser\nitem-1,item-2\n"


def test_a_file_that_another_process_writes_to(folder, refused):
    with AnswersFile(folder / "answers.csv"):
        refused(*ASK, mentions="another process")


def test_places_that_cannot_be_written(folder, refused):
    words = ASK[:5]
    refused(*words, "items.csv", mentions="items.csv")
    refused(*words, "answers.parquet", mentions="answers.csv")
    refused(*words, "nowhere/answers.csv", mentions="nowhere")
    (folder / "model.corank").write_text("here")
    refused(*ASK, "--model-out", "model.corank", mentions="--force")
    refused(*ASK, "--model-out", "model.csv", mentions="--model-out")


def test_options_that_make_no_sense(folder, refused):
    refused(*ASK, "--show", "colour", mentions="colour")
    refused(*ASK, "--drop", "sise", mentions="'size'")
    refused(*ASK, "--kind", "comparison", mentions="compare")
    refused(*ASK, "--repeat", "2", mentions="--repeat")


def test_a_port_in_use(folder):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert str(port) in error(*ASK, "--port", port)
