"""A site behind a link that is cut and mended, in a network namespace of its own; where the system
allows that.
"""

import os
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from tests.federated.site_processes import NAMES, Processes, edit, make_run
from tests.federated.test_network import check_models

pytestmark = pytest.mark.slow

HOST, GUEST = "10.213.47.1", "10.213.47.2"


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, check=True)


@contextmanager
def namespace():
    """A network namespace, joined to this one by a link; its two names."""
    space, link = f"corank-{os.getpid()}", f"ck{os.getpid()}"
    try:
        ip("netns", "add", space)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("network namespaces are not allowed here")
    try:
        ip("link", "add", link, "type", "veth", "peer", "name", f"{link}p", "netns", space)
        ip("addr", "add", f"{HOST}/24", "dev", link)
        ip("link", "set", link, "up")
        ip("-n", space, "addr", "add", f"{GUEST}/24", "dev", f"{link}p")
        ip("-n", space, "link", "set", f"{link}p", "up")
        yield space, link
    finally:
        subprocess.run(["ip", "link", "del", link], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)


@pytest.mark.parametrize("seconds", [2, 25])
def test_a_run_survives_a_cut_link(tmp_path, seconds):
    plain = ("report = true", "report = true\naccelerate = false")  # many rounds
    make_run(
        tmp_path,
        coordinator=[("127.0.0.1", HOST), plain, ("= 200", "= 5000")],
        site=[("127.0.0.1", HOST), ("= 200", "= 9000")],
    )
    edit(tmp_path / "coordinator/coordinator.toml", ("agreement = 0.5", "agreement = 3.0"))
    with namespace() as (space, link), Processes(tmp_path) as run:
        run.coordinate()
        run.join("north")
        run.join("south")
        command = [
            sys.executable,
            "-m",
            "corank",
            "federated",
            "join",
            str(tmp_path / "west/site.toml"),
        ]
        with run.log("west").open("wb") as log:
            west = subprocess.Popen(
                ["ip", "netns", "exec", space, *command], stdout=log, stderr=log
            )
        try:
            run.until("coordinator", "round=20 ", 120)
            ip("link", "set", link, "down")
            time.sleep(1.0)
            before = run.said("coordinator").count("INFO round")
            time.sleep(seconds)
            assert run.said("coordinator").count("INFO round") == before  # it waits
            ip("link", "set", link, "up")
            assert run.ends("coordinator", 180) == 0, run.said("coordinator")[-2000:]
            assert west.wait(30) == 0
        finally:
            west.kill()
            west.wait()
        assert seconds < 20 or run.said("coordinator").count("joined site=west") > 1
    check_models(tmp_path, NAMES, 3.0)
