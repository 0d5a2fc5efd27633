"""The study of votes on a tiny stand-in of its data, its peers, and its words on made-up results."""

import numpy as np
import pytest
from scipy import optimize

from studies.data import LEFT, MACHINES, RIGHT, TIE, joined, language_votes
from studies.questions import votes
from studies.questions.methods import DrawMethod, draw_parts
from studies.questions.votes_peers import (
    PEERS,
    Davidson,
    NoisyBradleyTerry,
    log_losses,
    outcomes,
    predict_peer,
    tie_link,
    wrong_among_untied,
)
from studies.run import run_study
from studies.study import CANNOT_BE_TESTED, DOES_NOT_HOLD, HOLDS, Settings
from studies.tests.stand_ins import write_votes
from studies.write import as_markdown, png


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    write_votes(place)
    return place


def test_votes_are_read_as_they_lie(folder):
    humans, machines = language_votes(folder)
    assert (len(humans), len(machines)) == (160, 120)
    assert set(machines.judge) == {"gpt3", "gpt4"}
    np.testing.assert_array_equal(humans.items.sum(axis=1), 2)
    assert humans.items.shape[1] == len(humans.items) + len(np.unique(humans.model))
    both = joined(humans, machines)
    assert len(both) == 280
    assert both.take(both.judge == "gpt3").left.tolist() == machines.left[:60].tolist()


@pytest.mark.parametrize("learner", PEERS)
def test_peers_come_to_probabilities(folder, learner):
    if learner in ("choix", "evalica"):
        pytest.importorskip(learner)
    humans, _ = language_votes(folder)
    train, test = humans.take(np.arange(160) % 4 > 0), humans.take(np.arange(160) % 4 == 0)
    chances = predict_peer(learner, train, test, 0, quick=True)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert log_losses(chances, test.winner).mean() < np.log(3)


@pytest.mark.parametrize("model", [Davidson(0.5, 0.5), NoisyBradleyTerry(True, 0.5, 0.1)])
def test_gradients_are_those_of_the_objective(folder, model, monkeypatch):
    humans, _ = language_votes(folder)
    errors = []

    def check(objective, start):
        place = start + 0.3 * np.random.default_rng(0).standard_normal(len(start))
        numbers = optimize.approx_fprime(place, lambda w: objective(w)[0], 1e-6)
        errors.append(np.abs(numbers - objective(place)[1]).max())
        return start

    monkeypatch.setattr("studies.questions.votes_peers._minimiser", check)
    model(humans)
    assert errors[0] < 1e-3


def test_link_finds_how_often_ties_come():
    rng = np.random.default_rng(0)
    gaps = 2 * rng.standard_normal(4000)
    chances = outcomes(gaps, np.asarray([0.3, -0.5, 0.4]))
    winner = (rng.random((4000, 1)) > chances.cumsum(axis=1)).sum(axis=1)
    np.testing.assert_allclose(tie_link(gaps, winner), [0.3, -0.5, 0.4], atol=0.15)
    wrong = wrong_among_untied(np.asarray([[0.5, 0.2, 0.3], [0.4, 0.2, 0.4]]), np.asarray([2, 0]))
    np.testing.assert_array_equal(wrong, [1.0, 0.5])


def test_planted_judges_are_as_they_are_said_to_be():
    made, worth = votes.made_votes(1, votes.KINDS, 3000)
    right = (worth[made.left] > worth[made.right]) == (made.winner == LEFT)
    errors = [1 - right[made.judge == f"judge {number}"].mean() for number in range(20)]
    kinds = np.asarray(votes.KINDS)
    np.testing.assert_allclose(np.asarray(errors)[kinds == votes.GOOD], 0.2, atol=0.03)
    np.testing.assert_allclose(np.asarray(errors)[kinds == votes.RANDOM], 0.5, atol=0.03)
    assert errors[list(kinds).index(votes.CONTRARY)] > 0.75
    of_kind = {kind: made.take(np.isin(made.judge, _names(kinds == kind))) for kind in range(5)}
    assert not (of_kind[votes.GOOD].winner == TIE).any()
    assert (of_kind[votes.TIES].winner == TIE).mean() > 0.2
    leaning = of_kind[votes.LEFTS].winner
    assert (leaning == LEFT).mean() > (leaning == RIGHT).mean() + 0.2


def _names(chosen):
    return [f"judge {number}" for number in np.flatnonzero(chosen)]


@pytest.mark.parametrize("share", votes.TIE_SHARES)
def test_so_many_votes_are_ties(share):
    made, _ = votes.made_votes(3, (votes.GOOD,) * 100, 50, votes.tie_threshold(share / 100))
    assert (made.winner == TIE).mean() == pytest.approx(share / 100, abs=0.04)


def test_the_study_runs_from_end_to_end(folder, monkeypatch):
    monkeypatch.setattr(votes, "SIZES", (40,))
    monkeypatch.setattr(votes, "PEERS", {"Davidson": "davidson"})
    monkeypatch.setattr(votes, "N_EACH", 8)
    run = run_study(votes.STUDY, Settings(folder, quick=True))
    assert run.n_computed == len(run.results)
    assert all(len(row) == len(table.columns) for table in run.outcome.tables for row in table.rows)
    assert all(png(figure) for figure in run.outcome.figures)
    untested = [f.claim for f in run.outcome.findings if f.verdict == CANNOT_BE_TESTED]
    # what is only timed, and the settings that a quick run leaves out
    assert all(f.split(" ")[0] in ("8,931", "100,000", "300", "1,000", "40") for f in untested)
    assert "CC BY 4.0" in as_markdown(run, {"command": None, "versions": {}})


def judge(reliability, contrary=False):
    interval = reliability - 0.3, reliability + 0.3
    return {"reliability": reliability, "interval": interval, "contrary": contrary}


def made_up_results(judged=0.75, machines=0.9, contrary=True):
    rng = np.random.default_rng(0)
    results = {}

    def add(run, draw, title, result):
        [part] = draw_parts(run, [draw], [DrawMethod(title, title)])
        results[part.key] = result

    n = 400
    chance = rng.dirichlet((3, 3, 3), size=n)
    winner = (rng.random((n, 1)) > chance.cumsum(axis=1)).sum(axis=1)
    blunt = {votes.JUDGED: judged, votes.PLAIN: 0.2}
    for seed in range(2):
        for fold in range(5):
            rows = np.arange(n) % 5 == fold
            for title in (*votes.OWN, *votes.PEERS, votes.SHARES):
                share = blunt.get(title, 0.1)
                mixed = share * np.eye(3)[winner] + (1 - share) * chance
                found = {
                    "rows": np.flatnonzero(rows).tolist(),
                    "left": mixed[rows, LEFT].tolist(),
                    "tie": mixed[rows, TIE].tolist(),
                    "winner": winner[rows].tolist(),
                }
                add(votes.folded, ("votes", seed, fold), title, found)
                if title in (votes.JUDGED, votes.PLAIN):
                    add(votes.folded, ("judges", seed, fold), title, found)
    for size in votes.SIZES:
        for number in range(5):
            errors = (votes.ALONE, 1.0), (votes.POOLED, 0.95), (votes.BOTH, machines)
            for title, error in errors:
                noisy = error + 0.001 * number
                add(votes.with_machines, ("machines", size, number), title, {"error": noisy})
    about = {name: {"counted": 700, "side": 0.4} for name in MACHINES}
    add(votes.side_of_machines, ("side", 0, 0), votes.JUDGED, about)
    levels = {votes.RANDOM: 0.05, votes.CONTRARY: -0.9}
    for seed in range(20):
        judges = [
            judge(levels.get(kind, 0.9 + 0.02 * at), contrary and kind == votes.CONTRARY)
            for at, kind in enumerate(votes.KINDS)
        ]
        judges[0]["interval"] = (2.0, 3.0)
        noisy = 0.001 * seed
        found = {"misordered": 0.1 + noisy, "without": 0.15 + noisy, "judges": judges}
        add(votes.planted, ("planted", seed, 0), votes.JUDGED, found)
        add(votes.planted, ("equal", seed, 0), votes.JUDGED, found | {"without": 0.1 + noisy})
    for share in votes.TIE_SHARES:
        for seed in range(5):
            losses = {votes.PLAIN: 0.8, votes.HALVES: 0.9 + 0.001 * seed, votes.DROPPED: 0.95}
            add(votes.tied, ("ties", share, seed), votes.PLAIN, {"losses": losses})
    for kind in ("time", "large"):
        found = {"seconds": 9.0, "wall_seconds": 9.0, "memory_mb": 500.0}
        add(votes.timed, (kind, 0, 0), votes.JUDGED, found)
    return results


def verdicts(results):
    outcome = votes.conclude(Settings(), results)
    assert all(len(row) == len(table.columns) for table in outcome.tables for row in table.rows)
    return {finding.claim: finding for finding in outcome.findings}


def test_what_judges_bring_is_said():
    found = verdicts(made_up_results())
    wrong = [claim for claim, entry in found.items() if entry.verdict != HOLDS]
    # these probabilities of ties are surer than right
    assert all("P(tie)" in claim for claim in wrong)


@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_probabilities_of_ties_are_compared_with_what_came(shift):
    rng = np.random.default_rng(0)
    chance = rng.uniform(0, 0.8, (2, 5000))
    is_tie = rng.random(chance.shape) < chance
    judged = {"tie": chance + shift, "winner": np.where(is_tie, TIE, LEFT)}
    findings, [table], _ = votes._calibration(judged)
    assert {found.verdict for found in findings} == {DOES_NOT_HOLD if shift else HOLDS}
    assert len(table.rows) == 10


def test_what_does_harm_is_said():
    found = verdicts(made_up_results(judged=0.1, machines=0.97, contrary=False))
    wrong = [claim for claim, entry in found.items() if entry.verdict == DOES_NOT_HOLD]
    assert sum("folds over" in claim for claim in wrong) == 4
    assert sum("votes of people" in claim for claim in wrong) == 4
    assert any("contrary" in claim for claim in wrong)


def test_what_was_not_run_is_not_judged():
    found = verdicts({})
    assert {entry.verdict for entry in found.values()} == {CANNOT_BE_TESTED}
    assert len(found) == 25
