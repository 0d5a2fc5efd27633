"""How tests run commands of the command line: in this process or, where CORANK_COMMAND names one,
as an installed command.
"""

import os
import shlex
import subprocess
import sys
from types import SimpleNamespace

from typer.testing import CliRunner

from corank.cli import app

INSTALLED = os.environ.get("CORANK_COMMAND")
COMMAND = shlex.split(INSTALLED) if INSTALLED else [sys.executable, "-m", "corank"]


def run(*words, code=0, given=None):
    """Run a command and check its exit code; `given` (bytes) is its standard input."""
    words = [str(word) for word in words]
    if INSTALLED:
        result = shell(*words, given=given)
    else:
        result = CliRunner().invoke(app, words, env={"COLUMNS": "100"}, input=given)
    assert result.exit_code == code, result.output
    return result


def shell(*words, given=None, **options):
    """The same as a process of its own, whatever its exit code."""
    where = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 300, **options}
    environment = {**os.environ, "COLUMNS": "100"}
    if INSTALLED:
        environment.pop("PYTHONPATH", None)  # the installed corank, not the sources
    done = subprocess.run(
        [*COMMAND, *map(str, words)], check=False, input=given or b"", env=environment, **where
    )
    out, err = done.stdout or b"", done.stderr or b""
    return SimpleNamespace(
        exit_code=done.returncode,
        stdout=out.decode(errors="replace"),
        stdout_bytes=out,
        stderr=err.decode(),
        output=out.decode(errors="replace") + err.decode(),
    )


def error(*words, **options):
    """What is said on stderr when a command fails: one sentence."""
    result = run(*words, code=2, **options)
    *notes, last = result.stderr.splitlines()
    assert all(line.startswith("corank: note: ") for line in notes), result.stderr
    assert last.startswith("corank: ")
    assert result.stdout == ""
    return last.removeprefix("corank: ")
