"""How tests run commands of the command line."""

from typer.testing import CliRunner

from corank.cli import app


def run(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "100"})
    assert result.exit_code == code, result.output
    return result


def error(*words, **options):
    """What is said on stderr when a command fails: one sentence."""
    result = run(*words, code=2, **options)
    *notes, last = result.stderr.splitlines()
    assert all(line.startswith("corank: note: ") for line in notes), result.stderr
    assert last.startswith("corank: ")
    assert result.stdout == ""
    return last.removeprefix("corank: ")
