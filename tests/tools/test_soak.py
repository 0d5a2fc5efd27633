"""The table of `make soak`: it says what was lost, counted twice, or grew."""

import json
import random
from types import SimpleNamespace

import pytest
from tools import soak


@pytest.fixture
def finished(tmp_path):
    """A soak of one minute with two runs, in which nothing went wrong."""
    write(tmp_path, "coordinator", [run(1, 5), run(2, 7)])
    for name in soak.NAMES:
        write(tmp_path, name, [kept("run 1", 5, 5), kept("run 2", 7, 12)])
    for name in ("stream", "dask"):
        write(tmp_path, name, [{"failures": 2, "difference": 0.0}])
    made = soak.Soak(tmp_path, 1.0, random.Random(0))
    made.began = 0.0
    for who in soak.PARTIES:
        made.processes[who] = SimpleNamespace(pid=1)
        made.samples[who] = [soak.Sample(float(second), 1, 100.0, 8) for second in range(90)]
    return made


def write(folder, name, lines):
    (folder / f"{name}.lines").write_text("".join(json.dumps(line) + "\n" for line in lines))


def run(number, rounds):
    return {"run": number, "rounds": rounds, "converged": True, "difference": 1e-10}


def kept(name, rounds, answered):
    return {"run": name, "rounds": rounds, "answered": answered, "difference": 1e-10}


def wrong(finished):
    return [what for what, _, right in soak.table(finished)[0] if not right]


def test_nothing_is_wrong(finished):
    assert wrong(finished) == []


@pytest.mark.parametrize(
    ("name", "lines", "what"),
    [
        ("south", [kept("run 1", 5, 5)], "site south"),  # a model is lost
        # a round is counted twice
        ("south", [kept("run 1", 5, 6), kept("run 2", 7, 13)], "site south"),
        ("west", [kept("run 1", 5, 5), kept("run 2", 6, 11)], "site west"),  # a round is lost
        (
            "coordinator",
            [run(1, 5), run(2, 7) | {"difference": 1e-6}],
            "difference from the unbroken run",
        ),
        ("coordinator", [run(1, 5), run(2, 7) | {"converged": False}], "all converged"),
        ("stream", [{"failures": 2, "difference": 1.0}], "streamed fits, disk full"),
        # no fault has struck
        ("dask", [{"failures": 0, "difference": 0.0}], "Dask fits, scheduler killed"),
    ],
)
def test_what_is_wrong_is_called_that(finished, name, lines, what):
    write(finished.folder, name, lines)
    assert wrong(finished) == [what]


@pytest.mark.parametrize("change", [{"megabytes": 110.0}, {"files": 20}])
def test_what_grows_is_called_wrong(finished, change):
    samples = finished.samples["north"]
    samples[-30:] = [soak.Sample(**{**vars(sample), **change}) for sample in samples[-30:]]
    assert wrong(finished) == ["north, memory and files"]
