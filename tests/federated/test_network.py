"""Sites over gRPC with mutual TLS, as processes of their own: the same models, faults, and kill -9."""

import json
import os
import signal
import stat
import time
from dataclasses import replace

import numpy as np
import pytest
from tests.federated.site_processes import AGREEMENT, NAMES, Processes, edit, in_one_place, make_run

from corank import load
from corank.tables import read_table, write_table
from corank_federated import Coordinator
from corank_federated.messages import KINDS, decoded
from corank_federated.network import GrpcChannel
from corank_federated.settings import read_coordinator

QUICK = ("answer_timeout = 600", "answer_timeout = 4")


def check_models(folder, names=NAMES, agreement=AGREEMENT):
    """Every site keeps the model that all data in one place would have given it."""
    models = in_one_place(folder, names, agreement)
    new = np.random.default_rng(1).normal(size=(20, 3))
    for name in names:
        kept = load(folder / name / f"{name}.corank").predict(new)
        wanted = models[name].predict(new)
        assert np.linalg.norm(kept - wanted) <= 1e-8 * np.linalg.norm(wanted)


def test_three_processes_agree_and_predict_together(tmp_path):
    make_run(tmp_path, site=[("allowed = false", "allowed = true")])
    with Processes(tmp_path) as run:
        run.coordinate("--json", "--log", tmp_path / "rounds.jsonl")
        for name in NAMES:
            run.join(name, "--serve")
        assert run.ends("coordinator") == 0
        result = json.loads(run.said("coordinator")[run.said("coordinator").index("{") :])
        assert result["converged"]
        assert result["sites"] == list(NAMES)
        events = [json.loads(line) for line in (tmp_path / "rounds.jsonl").read_text().splitlines()]
        assert sum(event["event"] == "round" for event in events) == result["rounds"]
        for name in NAMES:
            run.until(name, "saved as")
            assert stat.S_IMODE((tmp_path / name / f"{name}.corank").stat().st_mode) == 0o600
        check_models(tmp_path)
        write_table(read_table(tmp_path / "north/shared.csv").slice(0, 7), tmp_path / "new.csv")
        toml = tmp_path / "coordinator/coordinator.toml"
        run.command(
            "predict",
            "corank",
            "federated",
            "predict",
            toml,
            tmp_path / "new.csv",
            "--out",
            tmp_path / "out.csv",
        )
        assert run.ends("predict") == 0, run.said("predict")
    new = read_table(tmp_path / "new.csv", text=["id"])
    mean = np.mean(
        [
            load(tmp_path / name / f"{name}.corank").predict(new.drop_columns("id"))
            for name in NAMES
        ],
        axis=0,
    )
    np.testing.assert_allclose(
        read_table(tmp_path / "out.csv")["score"].to_numpy(), mean, rtol=1e-12
    )


def test_other_shared_items_stop_the_run_and_name_the_row_on_both_ends(tmp_path):
    make_run(tmp_path)
    edit(tmp_path / "south/shared.csv", ("i7", "i777"))
    with Processes(tmp_path) as run:
        run.coordinate()
        for name in NAMES:
            run.join(name)
        assert run.ends("coordinator") == 2
        assert "'north' and site 'south' first differ in row 8" in run.said("coordinator")
        assert run.ends("south") == 2
        assert "(here: row 8 (id 'i777'))" in run.said("south")
        assert run.ends("north") == 2
        assert not (tmp_path / "north/north.corank").exists()


@pytest.mark.slow
@pytest.mark.parametrize("report", [True, False])
def test_every_message_on_the_wire_is_predictions_and_three_numbers(tmp_path, report):
    make_run(tmp_path)
    given = read_coordinator(tmp_path / "coordinator/coordinator.toml")
    identity, authority = given.certificates.load("coordinator")
    seen = []

    class Recorder(GrpcChannel):
        def record(self, way, site, content):
            super().record(way, site, content)
            seen.append((way, site, decoded(content)))

    with Processes(tmp_path) as run:
        for name in NAMES:
            run.join(name)
        channel = Recorder(
            given.address, identity, authority, given.pins, join_timeout=60, answer_timeout=60
        )
        try:
            result = Coordinator(replace(given.plan, report=report), channel).run()
        finally:
            channel.close()
        assert all(run.ends(name) == 0 for name in NAMES)
    kinds = {"to": {"terms", "round", "finish"}, "from": {"hello", "accepted", "answer", "saved"}}
    for way, _, message in seen:
        assert message.kind in kinds[way]
        assert set(message.fields) == set(KINDS[message.kind][0])
        assert (message.numbers is not None) == (
            message.kind == "answer" or (message.kind == "round" and message["round"] > 1)
        )
        if message.kind == "answer":
            assert message.numbers.shape == (40,)
            assert (message["report"] is None) == (not report)
            assert not report or [type(number) for number in message["report"]] == [float] * 3
    assert sum(message.kind == "answer" for _, _, message in seen) == 3 * result.n_rounds
    check_models(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("nan", "it sent nan as prediction of item 1"),
        ("shape", "it sent 39 predictions for 40 shared items"),
        ("nonsense", "not a message of corank"),
        ("replay", "it did not answer within 4 s: it is connected, but slow"),
        ("slow", "it did not answer within 4 s: it is connected, but slow"),
        ("vanish", "it did not answer within 4 s: it is not connected"),
    ],
)
def test_a_site_that_misbehaves_stops_the_run_or_is_left_behind(tmp_path, how, words):
    make_run(tmp_path, coordinator=[QUICK])
    with Processes(tmp_path) as run:
        run.coordinate()
        run.misbehave("south", how)
        run.join("north")
        run.join("west")
        assert run.ends("coordinator") == 2
        assert "site 'south' is lost in round 3" in run.said("coordinator")
        assert words in run.said("coordinator")
        assert run.ends("north") == 2
        assert "the coordinator stopped: site 'south' is lost" in run.said("north")
        assert not (tmp_path / "north/north.corank").exists()
    for name in ("coordinator/coordinator", *(f"{name}/{name}" for name in NAMES)):
        (tmp_path / f"{name}.state").unlink(missing_ok=True)
    edit(tmp_path / "coordinator/coordinator.toml", ('"stop"', '"continue"'))
    with Processes(tmp_path) as run:
        run.coordinate()
        run.misbehave("south", how)
        run.join("north")
        run.join("west")
        assert run.ends("coordinator") == 0, run.said("coordinator")
        assert "lost south" in run.said("coordinator")
        assert run.ends("north") == run.ends("west") == 0
    check_models(tmp_path, ("north", "west"))


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["coordinator", "south"])
@pytest.mark.parametrize("schedule", ["sequential", "parallel"])
def test_a_killed_process_goes_on_from_the_last_completed_round(tmp_path, victim, schedule):
    # enough of them to be hit in the middle
    slow_rounds = ("report = true", "report = true\naccelerate = false")
    make_run(
        tmp_path,
        coordinator=[('"sequential"', f'"{schedule}"'), slow_rounds, ("= 200", "= 2000")],
        site=[("= 200", "= 5000")],
    )
    with Processes(tmp_path) as run:
        run.coordinate()
        for name in NAMES:
            run.join(name)
        run.until("coordinator", "round=8 ")
        run.started[victim].kill()
        run.started[victim].join()
        before = run.said(victim)
        run.coordinate() if victim == "coordinator" else run.join(victim)
        assert run.ends("coordinator") == 0, run.said("coordinator")
        assert all(run.ends(name) == 0 for name in NAMES)
        if victim == "coordinator":
            assert "resuming run=first after=" in run.said("coordinator")
        else:
            assert "answered" in before
            first = run.said(victim)[len(before) :].split("kind=round round=")[1].split()[0]
            assert int(first) > 7
    check_models(tmp_path)


@pytest.mark.slow
def test_a_stopped_site_is_waited_for(tmp_path):
    make_run(tmp_path)
    with Processes(tmp_path) as run:
        run.coordinate()
        for name in NAMES:
            run.join(name)
        run.until("coordinator", "round=3 ")
        os.kill(run.started["west"].pid, signal.SIGSTOP)
        before = run.said("coordinator").count("INFO round")
        time.sleep(1.0)
        assert run.said("coordinator").count("INFO round") <= before + 1
        os.kill(run.started["west"].pid, signal.SIGCONT)
        assert run.ends("coordinator") == 0
    check_models(tmp_path)
