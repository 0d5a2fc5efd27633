"""What comes from data is shown as text: no markup, no control characters, and no formulas where
that is asked for.
"""

import subprocess

import pandas as pd
import pyarrow as pa
import pytest
from command_line import COMMAND, run

from corank.cli.console import visible
from corank.tables import read_table, spreadsheet_safe

ESCAPE = "\x1b]0;title\x07\x1b[31m"


def evil(n=30):
    """Items, columns and categories with markup and control characters in their names."""
    return pd.DataFrame(
        {
            "[/c]": [f"[red]{ESCAPE}item {number}" for number in range(n)],
            f"[bold]{ESCAPE}width": [number % 7 for number in range(n)],
            "kind[/]": [f"{ESCAPE}[/kind]{number % 3}" for number in range(n)],
            "user": [f"[link=x]{number % 6}\u202e" for number in range(n)],
            "rating": [
                None if number % 11 == 0 else number % 5 + number % 3 for number in range(n)
            ],
        }
    )


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"[red]{ESCAPE}y.csv"
    evil().to_csv(path, index=False)
    return path.name


FIT = ("--score", "rating", "--query", "user", "--id", "[/c]", "--out", "m.corank")


@pytest.mark.parametrize("method", ["rankrls", "corankrls", "pursuit"])
def test_every_command_shows_data_as_text(table, method):
    outputs = [run("fit", table, *FIT, "--method", method)]
    outputs.append(run("rank", "m.corank", table))
    outputs.append(run("inspect", "m.corank"))
    outputs.append(run("evaluate", "m.corank", table))
    outputs.append(run("rank", "m.corank", "gone\x1b.csv", code=2))
    if method == "corankrls":
        outputs.append(run("suggest", "m.corank", table))
    for output in outputs:
        assert "\x1b" not in output.output
        assert "\x07" not in output.output
        assert "\u202e" not in output.output
    shown = " ".join("".join(output.output for output in outputs).split())
    assert "[/c]" in shown
    assert "[red]␛]0;title␇␛[31my.csv" in shown
    assert "gone␛.csv" in shown


def test_compare_shows_data_as_text(table):
    options = (
        "--repeats",
        "3",
        "--methods",
        "rankrls,ridge",
        "--no-curves",
        "--keep",
        "kept",
        "--jobs",
        "1",
    )
    output = run("compare", table, *FIT[:-2], *options).output
    assert "\x1b" not in output
    assert "[red]" in output


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, déjà vu, 猫, 👩‍🚀", "plain, déjà vu, 猫, 👩‍🚀"),
        ("a\tb\0\x7f\x9b", "a␉b␀␡\ufffd"),
        ("two\nlines", "two\nlines"),
        ("\udcff\u202e\u2066", "\ufffd\ufffd\ufffd"),
    ],
)
def test_control_characters_are_made_visible_one_by_one(text, shown):
    assert visible(text) == shown


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_is_no_reason_for_a_traceback(table, closed):
    run("fit", table, *FIT, "--method", "rankrls", "--quiet")
    command = f"{COMMAND[0]} {' '.join(COMMAND[1:])} rank m.corank '{table}' --out - {closed}"
    done = subprocess.run(
        ["sh", "-c", command], check=False, capture_output=True, text=True, timeout=120
    )
    assert "Traceback" not in done.stderr
    if closed == ">&-":
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith("corank: ")
    elif closed == "2>&-":
        assert done.returncode == 0


def test_formulas_are_left_as_they_are_unless_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = evil().rename(columns={"[/c]": "=item", "kind[/]": "kind"})
    frame["=item"] = [f"{'=+-@'[number % 4]}cmd|{number}" for number in range(len(frame))]
    frame.to_csv("items.csv", index=False)
    run(
        "fit",
        "items.csv",
        "--score",
        "rating",
        "--id",
        "=item",
        "--method",
        "rankrls",
        "--out",
        "m.corank",
        "--quiet",
    )
    run("rank", "m.corank", "items.csv", "--out", "plain.csv", "--quiet")
    run("rank", "m.corank", "items.csv", "--out", "safe.csv", "--spreadsheet-safe", "--quiet")
    plain, safe = read_table("plain.csv"), read_table("safe.csv")
    assert set(plain["=item"].to_pylist()) == set(frame["=item"])
    assert safe["'=item"].to_pylist() == [f"'{item}" for item in plain["=item"].to_pylist()]
    assert safe["score"] == plain["score"]


def test_numbers_and_missing_texts_are_no_formulas():
    table = pa.table(
        {"a": [-1.5, None], "b": ["-x", None], "c": pa.array(["@y", "z"]).dictionary_encode()}
    )
    safe = spreadsheet_safe(table)
    assert safe.to_pydict() == {"a": [-1.5, None], "b": ["'-x", None], "c": ["'@y", "z"]}
