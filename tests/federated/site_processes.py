"""Real processes over TLS on loopback: folders as `corank federated init` makes them, and the
commands run in them.
"""

import multiprocessing
import os
import runpy
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

for name in ("cryptography", "grpc"):
    pytest.importorskip(name, reason="sites over a network need corank-federated")

from corank.cli import app
from corank.tables import write_table
from corank_federated import Coordinator, InProcess, Plan
from corank_federated.cli import site_of
from corank_federated.settings import read_site

NAMES = ("north", "south", "west")
AGREEMENT = 0.5

# Processes of their own, forked from one that has imported what takes seconds; grpc they import
# themselves.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["corank.learners", "corank.encode.encoder", "corank_federated", "corank_federated.cli"]
)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def corank(*words):
    """Run a command in this process."""
    with pytest.raises(SystemExit) as end:
        app([str(word) for word in words], prog_name="corank")
    assert end.value.code in (0, None)


def make_run(folder, *, names=NAMES, items=40, coordinator=(), site=(), ranking=False):
    """Certificates, settings and tables of a run; `coordinator` and `site` are replacements in
    their settings.
    """
    port = free_port()
    corank(
        "federated",
        "init",
        folder,
        *(word for name in names for word in ("--site", name)),
        "--port",
        port,
    )
    edit(
        folder / "coordinator/coordinator.toml",
        ("0.0.0.0", "127.0.0.1"),
        ("agreement = 0.01", f"agreement = {AGREEMENT}"),
    )
    edit(folder / "coordinator/coordinator.toml", *coordinator)
    rng = np.random.default_rng(5)
    shared = {
        "id": [f"i{row}" for row in range(items)],
        **{c: rng.normal(size=items) for c in "xyz"},
    }
    for name in names:
        X = rng.normal(size=(30, 3))
        scores = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=30)
        write_table(
            pa.table({"score": scores, **dict(zip("xyz", X.T, strict=True))}),
            folder / name / "rows.csv",
        )
        write_table(pa.table(shared), folder / name / "shared.csv")
        edit(
            folder / name / "site.toml",
            ("localhost", "127.0.0.1"),
            ('alpha = "tune"', "alpha = 0.5\ngamma = 0.3"),
        )
        edit(folder / name / "site.toml", *(("regression", "ranking"),) if ranking else (), *site)
    return port


def edit(path, *changes):
    text = path.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path.write_text(text)


def _run(words, log):
    """A command line, as the whole of a process that writes to its log."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    if words[0] == "corank":
        app(words[1:], prog_name="corank")
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


class Processes:
    """The processes of a run; those that are left are ended with it."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.started = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.started.values():
            if process.exitcode is None:
                with suppress(ProcessLookupError):  # it has ended, and nobody has heard of it yet
                    os.kill(process.pid, signal.SIGCONT)
                process.kill()
            process.join()

    def coordinate(self, *words):
        toml = self.folder / "coordinator/coordinator.toml"
        return self.command("coordinator", "corank", "federated", "coordinate", toml, *words)

    def join(self, name, *words):
        return self.command(
            name, "corank", "federated", "join", self.folder / name / "site.toml", *words
        )

    def misbehave(self, name, how):
        script = Path(__file__).with_name("bad_site.py")
        return self.command(name, script, self.folder / name / "site.toml", how)

    def command(self, who, *words):
        self.started[who] = FORKS.Process(
            target=_run, args=([str(word) for word in words], self.log(who))
        )
        self.started[who].start()
        return self.started[who]

    def log(self, who):
        return self.folder / f"{who}.log"

    def said(self, who):
        path = self.log(who)
        return path.read_text() if path.exists() else ""

    def ends(self, who, seconds=60):
        """The exit code."""
        self.started[who].join(seconds)
        logs = "\n".join(f"== {name}\n{self.said(name)[-3000:]}" for name in self.started)
        assert self.started[who].exitcode is not None, f"{who} did not end\n{logs}"
        return self.started[who].exitcode

    def until(self, who, words, seconds=60):
        """Wait until a process has said something."""
        deadline = time.monotonic() + seconds
        while words not in self.said(who):
            assert time.monotonic() < deadline, f"{who} did not say {words!r}:\n{self.said(who)}"
            time.sleep(0.02)


def in_one_place(folder, names=NAMES, agreement=AGREEMENT):
    """The same run inside this process: the models that sites should end with."""
    sites = [site_of(read_site(folder / name / "site.toml"))[0] for name in names]
    for site in sites:
        site._memory.path = None
        site._memory.enter("in one place")
    Coordinator(Plan("in one place", tuple(names), agreement), InProcess(sites)).run()
    return {site.name: site.model for site in sites}
