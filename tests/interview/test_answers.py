"""The file of answers: what is confirmed is never lost, an undo is a line, one process writes, half
a line harms nothing.
"""

import errno
import os
import signal
import subprocess
import sys

import pytest

from corank.interview import Answer, AnswersFile, AnswersInUse, is_answers_file, read_answers
from corank.interview.answers import HEADER
from corank.tables import TableError

AT = "2026-01-31T12:00:00Z"
NAMES = ('a, "quoted"', "tie", "first", "ünï", " spaced", "=1+1")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers.csv"


def write(path, *lines, end="\n"):
    path.write_text("\n".join([HEADER, *lines]) + end)
    return path


def compare(number, first="a", second="b", answer="first", at=AT):
    return f"{number},compare,{first},{second},,,{answer},,,,,{at}"


def undo(number, undoes):
    return f"{number},compare,a,b,,,undo,,,{undoes},,{AT}"


# ---- what is written is read


def test_answers_are_read_as_they_were_written(path):
    with AnswersFile(path) as file:
        given = [
            file.append("compare", NAMES[:2], "second", person="Ada"),
            file.append("compare", NAMES[2:4], "tie"),
            file.append("compare", NAMES[4:6], "skip"),
            file.append("best-worst", NAMES[:4], "fourth", "first"),
            file.append("best-worst", NAMES[:3], "first", "second"),
            file.append("score", NAMES[5:], "score", score=0.1),
            file.append("score", NAMES[:1], "skip"),
        ]
        assert file.log.answers == given
    log = read_answers(path)
    assert (log.answers, log.undone, log.broken, log.next_number) == (given, 0, [], 8)
    assert [answer.number for answer in given] == [1, 2, 3, 4, 5, 6, 7]
    assert path.read_text().splitlines()[0] == HEADER


def answer(kind, items, answer, worst=""):
    return Answer(1, kind, tuple(items), answer, worst, None, "", AT)


@pytest.mark.parametrize(
    ("given", "comparisons", "ties"),
    [
        (answer("compare", "ab", "first"), ["ab"], []),
        (answer("compare", "ab", "second"), ["ba"], []),
        (answer("compare", "ab", "tie"), [], ["ab"]),
        (answer("compare", "ab", "skip"), [], []),
        (answer("best-worst", "abcd", "second", "third"), ["ba", "bc", "bd", "ac", "dc"], []),
        (answer("best-worst", "abc", "third", "first"), ["ca", "cb", "ba"], []),
        (answer("best-worst", "abc", "tie"), [], ["ab", "ac", "bc"]),
    ],
)
def test_what_an_answer_says_about_pairs(given, comparisons, ties):
    assert given.comparisons() == [tuple(pair) for pair in comparisons]
    assert given.ties() == [tuple(pair) for pair in ties]


def test_an_undo_is_a_line_and_goes_back_answer_by_answer(path):
    with AnswersFile(path) as file:
        first, second, third = (
            file.append("compare", pair, "first", person=pair[0]) for pair in ("ab", "cd", "ae")
        )
        assert file.undo() == third
        assert file.undo() == second
        fourth = file.append("compare", "fg", "first")
        assert file.log.answers == [first, fourth]
        assert file.undo("a") == first
        assert file.undo("a") is None
    log = read_answers(path)
    assert (log.answers, log.undone, log.next_number) == ([fourth], 3, 8)
    assert len(path.read_text().splitlines()) == 1 + 7


def test_an_undo_in_files_put_together_takes_back_the_answer_of_its_own_file(path):
    write(path, compare(1), compare(1, "c", "d"), undo(2, 1))
    assert [answer.items for answer in read_answers(path).answers] == [("a", "b")]


# ---- lines that are cut, damaged or make no sense


@pytest.mark.parametrize("n_characters", [1, 5, 12, 20, len(compare(2, '"x, ""y"""')) - 1])
def test_half_a_line_is_ignored_reported_and_never_deleted(path, n_characters):
    half = compare(2, '"x, ""y"""')[:n_characters]
    write(path, compare(1), half, end="")
    assert read_answers(path).broken == [3]
    with AnswersFile(path) as file:
        assert [answer.number for answer in file.log.answers] == [1]
        file.append("compare", "cd", "second")
    log = read_answers(path)
    assert [answer.items for answer in log.answers] == [("a", "b"), ("c", "d")]
    assert log.broken == [3]
    assert path.read_text().splitlines()[2] == half


def test_a_last_line_that_only_lacks_its_end_counts(path):
    write(path, compare(1), end="")
    with AnswersFile(path) as file:
        file.append("compare", "cd", "second")
    assert [answer.number for answer in read_answers(path).answers] == [1, 2]


@pytest.mark.parametrize("n_characters", [0, 10, len(HEADER)])
def test_a_header_that_was_cut_is_completed(path, n_characters):
    path.write_text(HEADER[:n_characters])
    with AnswersFile(path) as file:
        file.append("compare", "ab", "first")
    assert read_answers(path).broken == []
    assert path.read_text().startswith(HEADER + "\n")


def test_a_file_saved_by_a_spreadsheet_is_read(path):
    path.write_bytes(b"\xef\xbb\xbf" + f"{HEADER}\r\n{compare(1)}\r\n".encode())
    assert is_answers_file(path)
    assert len(read_answers(path).answers) == 1


def test_damaged_lines_are_reported(path):
    lines = (
        b"2,com\0pare",
        b"\xff\xfe",
        b'3,"compare',
        b"four" + compare(4).encode()[1:],
        b"9" * 5000,
        b"x" * 200_000,
    )
    path.write_bytes(
        b"\n".join([HEADER.encode(), compare(1).encode(), b"", *lines, compare(8).encode(), b""])
    )
    log = read_answers(path)
    assert [answer.number for answer in log.answers] == [1, 8]
    assert log.broken == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("line", "mentions"),
    [
        (undo(2, 7), ("undoes", "'7'")),
        (undo(2, 2), ("undoes", "'2'")),
        (undo(2, ""), ("undoes", "''")),
        (compare(2, answer="third"), ("answer", "'third'")),
        (compare(2, answer="a"), ("answer", "'a'")),
        (compare(2, answer="First"), ("answer", "'First'")),
        (compare(2, second=""), ("compare", "1 are named")),
        (compare(2, first=""), ("first", "empty")),
        (compare(2, second="a"), ("twice",)),
        (f"2,guess,a,b,,,first,,,,,{AT}", ("kind", "'guess'")),
        (f"2,compare,a,b,,,first,second,,,,{AT}", ("worst", "'second'")),
        (f"2,best-worst,a,b,c,d,first,,,,,{AT}", ("worst", "''")),
        (f"2,best-worst,a,b,c,,first,fourth,,,,{AT}", ("worst", "'fourth'")),
        (f"2,best-worst,a,b,c,d,first,first,,,,{AT}", ("worst", "'first'")),
        (f"2,score,a,,,,score,,high,,,{AT}", ("score", "'high'")),
        (f"2,score,a,,,,score,,inf,,,{AT}", ("score", "inf")),
        (f"2,score,a,,,,score,,,,,{AT}", ("score",)),
        (f"2,score,a,,,,tie,,,,,{AT}", ("answer", "'tie'")),
    ],
)
def test_a_line_that_makes_no_sense_is_refused_by_its_number(path, line, mentions):
    with pytest.raises(TableError) as caught:
        read_answers(write(path, compare(1), line))
    for part in ("line 3", path.name, *mentions):
        assert part in str(caught.value)


def test_an_answer_is_undone_once(path):
    with pytest.raises(TableError, match=r"line 4 of .*undoes"):
        read_answers(write(path, compare(1), undo(2, 1), undo(3, 1)))


def test_other_files_are_refused_and_left_alone(path, tmp_path):
    path.write_text("winner,loser\na,b\n")
    assert not is_answers_file(path)
    for take in (read_answers, AnswersFile):
        with pytest.raises(TableError, match=r"answers\.csv is no file of answers"):
            take(path)
    assert path.read_text() == "winner,loser\na,b\n"
    assert not is_answers_file(tmp_path)
    assert not is_answers_file(tmp_path / "none.csv")
    with pytest.raises(TableError, match="there is no file"):
        read_answers(tmp_path / "none.csv")
    with pytest.raises(FileNotFoundError, match="none"):
        AnswersFile(tmp_path / "none" / "answers.csv")


def test_an_endless_line_is_refused(path, monkeypatch):
    monkeypatch.setenv("CORANK_MAX_LINE_BYTES", "1000000")
    with pytest.raises(TableError, match="CORANK_MAX_LINE_BYTES"):
        read_answers(write(path, "1" * 3_000_000))


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\0b", "a" * 200_000])
def test_names_that_could_not_be_read_again_are_refused_before_anything_is_written(path, name):
    with AnswersFile(path) as file:
        for items, person in (((name, "c"), ""), (("d", "c"), name)):
            with pytest.raises(ValueError, match="one line of text"):
                file.append("compare", items, "first", person=person)
        assert path.read_text() == HEADER + "\n"
        assert file.append("compare", "ab", "first").number == 1


class FullDisk:
    """A file on a disk that becomes full in the middle of a line."""

    def __init__(self, file):
        self.file = file

    def write(self, line):
        self.file.write(line[:20])
        raise OSError(errno.ENOSPC, "No space left on device")


def test_after_an_answer_that_could_not_be_written_the_next_one_can(path):
    with AnswersFile(path) as file:
        file.append("compare", "ab", "first")
        disk, file._file = file._file, FullDisk(file._file)
        with pytest.raises(OSError, match="space"):
            file.append("compare", "cd", "first")
        file._file = disk
        given = file.append("compare", "cd", "second")
        assert file.log.answers[1:] == [given]
    log = read_answers(path)
    assert (log.answers[1:], log.broken) == ([given], [3])


# ---- one writer, and what is left when it is killed


WRITER = """
import sys
from pathlib import Path
from corank.interview import AnswersFile
file = AnswersFile(Path(sys.argv[1]))
print("open", flush=True)
while True:
    print(file.append("compare", ("a, b", "c" * 3000), "first").number, flush=True)
    if sys.argv[2:]:
        sys.stdin.read()
"""


def writer(path, *words):
    command = [sys.executable, "-c", WRITER, str(path), *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_one_process_writes_and_others_read(path):
    with writer(path, "once") as process:
        assert process.stdout.readline() == "open\n"
        process.stdout.readline()
        assert len(read_answers(path).answers) == 1
        with pytest.raises(AnswersInUse, match=r"answers\.csv"):
            AnswersFile(path)
        process.kill()
        process.communicate()
    with AnswersFile(path) as file:
        assert len(file.log.answers) == 1
        with pytest.raises(AnswersInUse):
            AnswersFile(path)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_no_confirmed_answer_is_lost_when_the_writer_is_killed(path):
    confirmed = set()
    for n_answers in (3, 40):
        with writer(path) as process:
            assert process.stdout.readline() == "open\n"
            lines = [process.stdout.readline() for _ in range(n_answers)]
            process.send_signal(signal.SIGKILL)
            lines += process.communicate()[0].splitlines(keepends=True)
        confirmed |= {int(line) for line in lines if line.endswith("\n")}
        assert confirmed <= {answer.number for answer in read_answers(path).answers}
    assert len(confirmed) >= 3 + 40
    with AnswersFile(path) as file:
        file.append("compare", "xy", "first")
    assert confirmed < {answer.number for answer in read_answers(path).answers}


def test_an_answer_whose_way_to_the_disk_fails_is_not_in_the_file(tmp_path, monkeypatch):
    with AnswersFile(tmp_path / "a.csv") as file:
        file.append("compare", ("a", "b"), "first")
        with monkeypatch.context() as broken:
            broken.setattr(
                os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(5, "broken disk"))
            )
            with pytest.raises(OSError, match="broken disk"):
                file.append("compare", ("a", "c"), "first")
        file.append("compare", ("a", "c"), "second")
    assert [answer.answer for answer in read_answers(tmp_path / "a.csv").answers] == [
        "first",
        "second",
    ]
