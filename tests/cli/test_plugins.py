"""Commands that other distributions bring: found by their entry points, imported when they are
called.
"""

import sys

import pytest
from command_line import error, run

from corank.cli.console import PLUGINS

MODULE = """
import typer

def stars(name: str) -> None:
    '''Count the stars of an item.'''
    typer.echo(f"{name} has five stars")

several = typer.Typer()

@several.command()
def first() -> None:
    '''The first of them.'''
    typer.echo("first")

@several.command()
def second() -> None:
    '''The second of them.'''
    raise ValueError("there is no second")
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A distribution `corank-stars` with two commands, one whose module is absent, and one that
    corank has itself.
    """
    points = {
        "stars": "corank_stars:stars",
        "several": "corank_stars:several",
        "absent": "corank_absent:command",
        "fit": "corank_stars:stars",
    }
    about = tmp_path / "corank_stars-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: corank-stars\nVersion: 1.0\nSummary: Stars of items.\n")
    lines = [f"[{PLUGINS}]", *(f"{name} = {value}" for name, value in points.items())]
    (about / "entry_points.txt").write_text("\n".join(lines))
    (tmp_path / "corank_stars.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("corank_stars", None)


@pytest.mark.usefixtures("plugin")
def test_a_command_of_another_distribution_is_listed_with_its_summary_and_not_imported():
    lines = run("--help").stdout.splitlines()
    assert sum("Stars of items." in line for line in lines) == 3
    assert "corank_stars" not in sys.modules


@pytest.mark.usefixtures("plugin")
def test_a_command_of_another_distribution_is_called():
    assert run("stars", "a").stdout == "a has five stars\n"
    assert "Count the stars" in run("stars", "--help").stdout
    assert run("several", "first").stdout == "first\n"
    assert error("several", "second") == "there is no second"
    assert "did you mean corank stars?" in error("star")


@pytest.mark.usefixtures("plugin")
def test_what_another_distribution_lacks_is_named():
    assert error("absent") == "absent needs corank_absent: pip install corank-stars"


@pytest.mark.usefixtures("plugin")
def test_commands_of_corank_are_not_replaced():
    assert "--score" in run("fit", "--help").stdout


def test_commands_of_corank_do_not_wait_for_those_of_others(monkeypatch):
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda **group: pytest.fail("were looked for")
    )
    assert "--score" in run("fit", "--help").stdout
