"""The page on sites: its three terminals run as written. Its Python is run by `test_docs`."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corank.tables import read_table

PAGE = Path(__file__).parents[2] / "docs" / "federated.md"


def commands():
    """What each heading of the walk-through says to type."""
    text = PAGE.read_text(encoding="utf-8").split("## Three terminals")[1].split("\n## ")[0]
    parts = re.split(r"^### (.*)$", text, flags=re.MULTILINE)[1:]
    blocks = (re.findall(r"```bash\n(.*?)```", part, flags=re.DOTALL) for part in parts[1::2])
    return {title: "".join(block) for title, block in zip(parts[::2], blocks, strict=True)}


def free(port):
    import socket

    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.slow
def test_the_three_terminals_run_as_written(tmp_path):
    pytest.importorskip("grpc")
    if not free(8470):
        pytest.skip("something else listens on the port of the walk-through")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, words in (("corank", "-m corank"), ("python", "")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (tools / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    typed = commands()
    assert list(typed) == ["Before", "Terminal 1", "Terminal 2", "Terminal 3", "After"]

    def terminal(title):
        words = ["bash", "-e", "-c", typed[title]]
        return subprocess.Popen(words, cwd=tmp_path, env=environment, start_new_session=True)

    assert terminal("Before").wait(60) == 0
    running = [terminal(f"Terminal {number}") for number in (1, 2, 3)]
    try:
        assert running[0].wait(180) == 0
        for site in running[1:]:
            os.killpg(site.pid, signal.SIGINT)
        assert {site.wait(30) for site in running[1:]} == {130}
    finally:
        for process in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert terminal("After").wait(60) == 0
    assert len(read_table(tmp_path / "scored.csv")) == 5
    deadline = time.monotonic() + 5
    while not (tmp_path / "rounds.jsonl").exists():
        assert time.monotonic() < deadline
