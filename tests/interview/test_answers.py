"""The file of answers: what is confirmed is never lost, an undo is a line, one process writes, half
a line harms nothing.
"""

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from corank.interview import (
    Answer,
    AnswersChanged,
    AnswersFile,
    AnswersInUse,
    is_answers_file,
    read_answers,
)
from corank.tables import TableError
from corank.tables.answer_log import HEADER

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


# ---- a file that others delete, replace or change while it is open


def five_answers(file):
    return [file.append("compare", (f"a{number}", "b"), "first") for number in range(5)]


def test_a_file_that_was_deleted_is_written_again_whole(path):
    with AnswersFile(path) as file:
        given = five_answers(file)
        undone = file.undo()
        path.unlink()
        given[-1:] = [file.append("compare", "cd", "second")]
        assert file.log.answers == given
        with pytest.raises(AnswersInUse):
            AnswersFile(path)
    log = read_answers(path)
    assert (log.answers, log.taken_back, log.broken) == (given, [undone], [])


def test_a_file_that_was_moved_leaves_a_whole_one_at_its_path(path, tmp_path):
    with AnswersFile(path) as file:
        given = five_answers(file)
        path.rename(tmp_path / "moved.csv")
        given.append(file.append("compare", "cd", "second"))
    assert read_answers(path).answers == given
    assert read_answers(tmp_path / "moved.csv").answers == given[:-1]


def test_a_file_that_was_deleted_after_the_last_answer_is_written_again_when_asked_for(path):
    with AnswersFile(path) as file:
        given = five_answers(file)
        path.unlink()
        file.ensure_saved()
    assert read_answers(path).answers == given


def test_a_file_that_is_written_again_is_as_private_as_before(path):
    with AnswersFile(path) as file:
        path.chmod(0o600)
        path.unlink()
        file.append("compare", "ab", "first")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_stays_a_link_when_its_file_was_deleted(path, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "target.csv"
    path.symlink_to(target)
    with AnswersFile(path) as file:
        given = five_answers(file)
        target.unlink()
        given.append(file.append("compare", "cd", "first"))
    assert path.is_symlink()
    assert read_answers(target).answers == given


def replace(path, content):
    other = path.with_suffix(".new")
    other.write_bytes(content)
    other.replace(path)


def rewrite(path, content):
    path.write_bytes(content)
    later = path.stat().st_mtime_ns + 10**9  # clocks of file systems tick in milliseconds
    os.utime(path, ns=(later, later))


@pytest.mark.parametrize("change", [replace, rewrite])
def test_identical_contents_are_gone_on_with(path, change):
    with AnswersFile(path) as file:
        given = five_answers(file)
        change(path, path.read_bytes())
        given.append(file.append("compare", "cd", "second"))
        with pytest.raises(AnswersInUse):
            AnswersFile(path)
    assert read_answers(path).answers == given


EDITS = {
    "an older file": lambda content: content[:200],
    "an empty file": lambda content: b"",
    "without its header": lambda content: content.partition(b"\n")[2],
    "another cell of the same length": lambda content: content.replace(b"a3", b"x3"),
    "a line without its end": lambda content: content + compare(6).encode(),
    "a line of another program": lambda content: content + compare(6).encode() + b"\n",
    "saved by a spreadsheet": lambda content: content.replace(b"\n", b"\r\n"),
    "another file": lambda content: b"winner,loser\na,b\n",
}


@pytest.mark.parametrize("change", [replace, rewrite])
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_what_others_have_written_stays_and_no_answer_is_lost(path, change, edit):
    with AnswersFile(path) as file:
        given = five_answers(file)
        before = path.read_bytes()
        change(path, edit(before))
        for _ in range(2):
            with pytest.raises(
                AnswersChanged,
                match=r"answers\.csv was changed by another program.* [Ss]tart again",
            ):
                file.append("compare", "cd", "second")
            with pytest.raises(AnswersChanged):
                file.undo()
        assert file.log.answers == given
        assert path.read_bytes() == edit(before)
    kept = [other for other in path.parent.iterdir() if other != path]
    if edit(before).startswith(before):
        assert kept == []
    else:
        assert [other.name for other in kept] == ["answers-kept-1.csv"]
        assert read_answers(kept[0]).answers == given


def test_the_copy_of_the_answers_is_named_and_replaces_nothing(path):
    path.with_name("answers-kept-1.csv").write_text("mine")
    with AnswersFile(path) as file:
        given = five_answers(file)
        path.write_text("")
        with pytest.raises(AnswersChanged, match=r"answers-kept-2\.csv"):
            file.ensure_saved()
    assert path.with_name("answers-kept-1.csv").read_text() == "mine"
    assert read_answers(path.with_name("answers-kept-2.csv")).answers == given


def test_lines_that_others_have_added_are_no_loss_at_the_end(path):
    with AnswersFile(path) as file:
        five_answers(file)
        rewrite(path, path.read_bytes() + compare(6).encode())
        file.ensure_saved()
    with AnswersFile(path) as file:
        file.append("compare", "cd", "first")
    assert [answer.number for answer in read_answers(path).answers] == [1, 2, 3, 4, 5, 6, 7]


def test_answers_go_on_once_the_file_is_put_back(path):
    with AnswersFile(path) as file:
        given = five_answers(file)
        whole = path.read_bytes()
        replace(path, b"")
        with pytest.raises(AnswersChanged):
            file.append("compare", "cd", "second")
        replace(path, whole)
        given.append(file.append("compare", "cd", "second"))
    assert read_answers(path).answers == given


def test_a_folder_that_vanished_is_told_and_taken_up_when_it_is_back(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with AnswersFile(folder / "answers.csv") as file:
        given = five_answers(file)
        shutil.rmtree(folder)
        with pytest.raises(FileNotFoundError, match=r"folder .* does not exist"):
            file.append("compare", "cd", "second")
        folder.mkdir()
        given.append(file.append("compare", "cd", "second"))
    assert read_answers(folder / "answers.csv").answers == given


def test_a_folder_in_place_of_the_file_loses_no_answer(path):
    with AnswersFile(path) as file:
        given = five_answers(file)
        path.unlink()
        path.mkdir()
        with pytest.raises(AnswersChanged, match="answers-kept-1"):
            file.append("compare", "cd", "second")
    assert read_answers(path.with_name("answers-kept-1.csv")).answers == given


def test_a_file_that_another_process_has_put_there_and_writes_to_is_left_alone(path):
    with AnswersFile(path) as file:
        whole = path.read_bytes()
        path.unlink()
        path.write_bytes(whole)
        with AnswersFile(path) as other:
            with pytest.raises(AnswersInUse, match="another process"):
                file.append("compare", "cd", "second")
            assert other.append("compare", "ab", "first").number == 1
        assert [answer.items for answer in read_answers(path).answers] == [("a", "b")]


def test_a_file_made_read_only_takes_what_its_writer_says(path):
    with AnswersFile(path) as file:
        given = five_answers(file)
        path.chmod(0o400)
        given.append(file.append("compare", "cd", "second"))
    assert read_answers(path).answers == given


def test_another_working_folder_changes_nothing(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with AnswersFile(Path("answers.csv")) as file:
        given = five_answers(file)
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path / "other")
        given.append(file.append("compare", "cd", "second"))
    assert list((tmp_path / "other").iterdir()) == []
    assert read_answers(path).answers == given


# ---- disks that are full


class FullDisk:
    """A file on a disk that becomes full within a line."""

    def __init__(self, file, n_bytes):
        self._file, self._n_bytes = file, n_bytes

    def write(self, line):
        if self._n_bytes == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written, self._n_bytes = line[: self._n_bytes], 0
        return self._file.write(written)

    def __getattr__(self, name):
        return getattr(self._file, name)


def fill_disk(file, n_bytes=0):
    """Room for so many bytes is left for an open file of answers; returns a function that makes
    more.
    """
    disk, file._file = file._file, FullDisk(file._file, n_bytes)

    def clear():
        file._file = disk

    return clear


LINE = len(compare(2)) + 1


@pytest.mark.parametrize(
    "n_bytes", [0, 20, LINE - 1], ids=["at once", "within a line", "before its end"]
)
@pytest.mark.parametrize(
    "end", ["\n", ""], ids=["after whole lines", "after a line without its end"]
)
def test_an_answer_that_could_not_be_written_leaves_nothing(path, n_bytes, end):
    whole = write(path, compare(1), end=end).read_bytes()
    with AnswersFile(path) as file:
        clear = fill_disk(file, n_bytes + (not end))
        with pytest.raises(OSError, match="space"):
            file.append("compare", "cd", "first")
        assert path.read_bytes() == whole
        # what a restart would find
        assert [answer.number for answer in read_answers(path).answers] == [1]
        clear()
        given = file.append("compare", "cd", "second")
        assert file.log.answers[1:] == [given]
    log = read_answers(path)
    assert (log.answers[1:], log.broken) == ([given], [])


def test_an_answer_that_could_not_even_be_removed_is_removed_before_the_next(path, monkeypatch):
    with AnswersFile(path) as file:
        file.append("compare", "ab", "first")
        clear = fill_disk(file, LINE - 1)

        def truncate(descriptor, length):
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(os, "ftruncate", truncate)
            with pytest.raises(OSError, match="space"):
                file.append("compare", "cd", "first")
            clear()
            with pytest.raises(OSError, match="Input/output"):
                file.append("compare", "cd", "first")
        given = file.append("compare", "cd", "second")
    log = read_answers(path)
    assert (log.answers[1:], log.broken) == ([given], [])


def test_a_file_that_could_not_be_written_again_is_not_there_by_half(path, monkeypatch):
    def fsync(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with AnswersFile(path) as file:
        given = five_answers(file)
        path.unlink()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fsync)
            with pytest.raises(OSError, match="space") as refused:
                file.append("compare", "cd", "first")
            assert not path.exists()
            path.write_text("")
            with pytest.raises(AnswersChanged, match=r"no copy .* could be written"):
                file.append("compare", "cd", "first")
            assert list(path.parent.iterdir()) == [path]
            path.unlink()
        given.append(file.append("compare", "cd", "second"))
        # whoever keeps the error, as a debugger does, is not in the way of the next answer
        del refused
    assert read_answers(path).answers == given


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
