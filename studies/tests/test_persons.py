"""The study of persons on a tiny stand-in of its data, its peers, and its words on made-up results."""

import numpy as np
import pytest

from corank.experiments.jobs import version_of
from studies.questions import persons
from studies.questions.methods import DrawMethod, draw_parts
from studies.questions.persons_peers import (
    PEERS,
    People,
    RatedRows,
    columns_of,
    fit_peer,
    misordered,
)
from studies.run import run_study
from studies.study import CANNOT_BE_TESTED, DOES_NOT_HOLD, HOLDS, Settings
from studies.tests.stand_ins import write_jester, write_movielens, write_sushi
from studies.write import as_markdown


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    write_movielens(place)
    write_jester(place)
    write_sushi(place)
    return place


@pytest.mark.parametrize(("name", "size"), [("movielens", 5), ("jester", 10), ("sushi", 5)])
def test_draws_test_other_ratings_of_the_same_people(folder, name, size, monkeypatch):
    monkeypatch.setitem(persons.SETTINGS, (name, size), 20)
    data, unknown = persons.sample(folder, name, size, 0)
    assert set(np.unique(data.rows.person, return_counts=True)[1]) == {size}
    assert set(data.rows.person) == set(data.test.person)
    assert not set(unknown.person) & set(data.rows.person)
    known, asked = (set(zip(r.person, r.item, strict=True)) for r in (data.rows, data.test))
    assert not known & asked
    assert np.isfinite(np.concatenate([data.rows.y, data.test.y])).all()
    again, _ = persons.sample(folder, name, size, 0)
    np.testing.assert_array_equal(data.rows.item, again.rows.item)


def made_up_people(n=60, m=30, each=12):
    """Ratings that are levels of people and items, and a taste of one factor."""
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((m, 2))
    scores = columns[:, 0] + np.outer(rng.standard_normal(n), columns[:, 1])
    scores += rng.standard_normal((n, 1))
    rows = [(person, item) for person in range(n) for item in rng.permutation(m)[: 2 * each]]
    person, item = np.asarray(rows).T
    whole = RatedRows(person, item, scores[person, item])
    known = np.tile(np.arange(2 * each) < each, n)
    return People(whole.take(known), whole.take(~known), columns, rng.standard_normal((n, 1)), 0)


@pytest.mark.parametrize("learner", PEERS)
def test_peers_learn_an_order(learner):
    if "lightgbm" in learner:
        pytest.importorskip("lightgbm")
    data = made_up_people()
    predicted, tried = fit_peer(learner, data, quick=True)
    assert predicted.shape == data.test.y.shape
    assert tried >= 1
    most = 0.2 if learner == "one-each" else 0.45
    assert misordered(data.test, predicted[:, None])[0] < most


def test_factors_find_what_is_made_of_factors():
    data = made_up_people()
    predicted, tried = fit_peer("als", data)
    assert tried == 24
    assert misordered(data.test, predicted[:, None])[0] < 0.1


def test_means_of_an_item_leave_out_the_fold_of_the_row():
    data = made_up_people()
    item = np.zeros(20, dtype=int)
    rows = RatedRows(np.repeat(np.arange(10), 2), item, np.zeros(20))
    rows.y[0], rows.y[1] = 1.0, -1.0
    own, categories = columns_of("means", data, rows, rows, held_out=True)
    new, _ = columns_of("means", data, rows, rows, held_out=False)
    assert categories == [3]
    # a row of its own mean alone would have a mean of its own sign
    assert own[0, 4] <= 0 <= own[1, 4]
    np.testing.assert_allclose(new[:, 4], 0, atol=1e-12)
    assert set(own[:, 5]) == {19.0}
    assert set(new[:, 5]) == {20.0}


def made_up_results(ours=0.3, peer=0.31, items=0.32, neither=0.35, gain=0.02):
    results = {}

    def add(draw, title, result):
        [part] = draw_parts(persons.run, [draw], [DrawMethod(title, title)])
        results[part.key] = result

    for name, size in persons.SETTINGS:
        for number in range(4):
            draw = ("known", name, size, number)
            noise = 0.001 * number
            for title, error in (
                (persons.PERSONS, ours),
                (persons.ITEMS, items),
                (persons.NEITHER, neither),
                *((title, peer + 0.01 * at) for at, title in enumerate(persons.PEERS)),
            ):
                add(draw, title, {"error": error + noise, "seconds": 3.0})
    for name, size in persons.NEW_SETTINGS:
        errors = [[0.4, *[0.4 - gain] * 4] for _ in range(20)]
        found = {"errors": errors, "consensus": [0.4] * 20, "seconds": [0.5]}
        add(("new", name, size, 0), persons.PERSONS, found)
    for title in (persons.PERSONS, persons.FACTORS):
        found = {"error": 0.3, "wall_seconds": 60.0, "memory_mb": 900.0}
        add(("all", "movielens", 0, 0), title, found)
    return results


def verdicts(results):
    outcome = persons.conclude(Settings(), results)
    assert all(len(row) == len(table.columns) for table in outcome.tables for row in table.rows)
    return {finding.claim: finding for finding in outcome.findings}


def test_everything_holds_where_persons_help():
    assert {found.verdict for found in verdicts(made_up_results()).values()} == {HOLDS}


def test_what_does_harm_is_said():
    found = verdicts(made_up_results(ours=0.33, gain=-0.02))
    wrong = [claim for claim, entry in found.items() if entry.verdict == DOES_NOT_HOLD]
    assert sum("over the best peer" in claim for claim in wrong) == 2
    assert sum("a new person" in claim for claim in wrong) == 3
    assert any("items alone" in claim for claim in wrong)


def test_the_study_runs_from_end_to_end(folder, monkeypatch):
    monkeypatch.setitem(persons.SETTINGS, ("movielens", 5), 12)
    run = run_study(persons.STUDY, Settings(folder, quick=True))
    for title in (*persons.OWN, *persons.PEERS):
        is_missing = "LightGBM" in title and version_of("lightgbm") is None
        assert any(title in key for key in run.results) != is_missing, title
    assert all(len(row) == len(table.columns) for table in run.outcome.tables for row in table.rows)
    assert "# Persons and items that come back" in as_markdown(
        run, {"command": None, "versions": {}}
    )


def test_draws_that_are_not_whole_are_left_out():
    results = made_up_results()
    [part] = draw_parts(
        persons.run, [("known", "sushi", 5, 0)], [DrawMethod(persons.PERSONS, "persons")]
    )
    results[part.key]["error"] = 9.0
    [other] = draw_parts(
        persons.run, [("known", "sushi", 5, 0)], [DrawMethod(persons.FACTORS, "als")]
    )
    del results[other.key]
    assert {found.verdict for found in verdicts(results).values()} == {HOLDS}
    nothing = verdicts({})
    assert {found.verdict for found in nothing.values()} == {CANNOT_BE_TESTED}
