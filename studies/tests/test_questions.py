"""The studies of questions on made-up data."""

import numpy as np
import pytest
from rich.console import Console

from studies.questions import calibration, headline, questions
from studies.questions.data import Ratings
from studies.questions.runner import Ways, run_study
from studies.questions.study import Options, Record

# ---------------------------------------------------------------- studies of uncertainty


def made_up_people(n_users=300, n_items=12):
    """Users whose tastes are smooth functions of two columns."""
    rng = np.random.default_rng(0)
    items = rng.standard_normal((n_items, 2))
    scores = np.sin(items @ rng.standard_normal((2, n_users))).T + 0.1 * rng.standard_normal((n_users, n_items))
    return Ratings(scores, items, np.zeros((n_users, 1)))


@pytest.fixture
def made_up(monkeypatch):
    """The studies on made-up data instead of Jester and sushi."""
    data = made_up_people()
    orders = np.argsort(-data.scores, axis=1)[:, :10]
    for module in (calibration, questions):
        monkeypatch.setattr(module, "sushi", lambda folder: data)
        monkeypatch.setattr(module, "sushi_orders", lambda folder: orders)
    monkeypatch.setattr(questions, "jester", lambda folder: data)
    monkeypatch.setattr(calibration, "installed", lambda: False)
    for kept in (questions.people, questions.learned):
        kept.cache_clear()
    yield data
    for kept in (questions.people, questions.learned):
        kept.cache_clear()


@pytest.mark.parametrize("study", [calibration.STUDY, questions.STUDY], ids=lambda study: study.name)
def test_studies_of_uncertainty_run_from_end_to_end(study, made_up, tmp_path):
    records, run_now = run_study(study, Options(tmp_path, quick=True), Ways(), tmp_path, Console(quiet=True))
    assert run_now == len(records) == len(study.jobs(Options(tmp_path, quick=True)))
    summary = study.summarise(records)
    assert all(len(row) == len(table.head) for table in summary.tables for row in table.rows)


def test_calibration_error_sees_what_is_right_and_what_is_overconfident():
    rng = np.random.default_rng(0)
    stated = rng.uniform(0.5, 1.0, (400, 45))
    right = np.where(rng.random(stated.shape) < stated, stated, 1 - stated)
    bold = np.where(rng.random(stated.shape) < 0.5 + (stated - 0.5) / 2, stated, 1 - stated)
    found, other = calibration.measured(right), calibration.measured(bold)
    assert found["calibration"] < 0.02
    assert found["calibration"] < 3 * found["if_right"]
    assert other["calibration"] == pytest.approx(0.125, abs=0.02)
    low, high = np.quantile(other["calibration_again"], [0.025, 0.975])
    assert low < other["calibration"] < high
    assert sum(found["counts"]) == stated.size


@pytest.mark.parametrize("kind", ["comparison", "score"])
def test_both_ways_of_asking_begin_and_end_alike(kind, made_up, tmp_path):
    """They start from the same answers, and once everything was asked nothing is left to choose."""
    person = questions.people(tmp_path, "jester", kind)[0]
    total = len(person.X) * (len(person.X) - 1) // 2 if kind == "comparison" else len(person.X)
    settings = {"gamma": 0.3, "amplitude": 2.0} | ({"noise": 0.1} if kind == "score" else {})
    loop = questions._compare if kind == "comparison" else questions._score
    ends = [loop(person, settings, np.random.default_rng(1), 4, total - 4, chosen) for chosen in (True, False)]
    assert len(ends[0]) == len(ends[1]) == total - 3
    assert ends[0][0] == ends[1][0]
    assert ends[0][-1] == pytest.approx(ends[1][-1], abs=1e-9)


def test_headline_says_what_it_cannot_tell():
    rng = np.random.default_rng(0)
    hard = rng.random(30)
    records = []
    for draw in range(4):
        for title in headline.METHODS:
            shift = {"LightGBM": 0.2, "supervised": 0.0}.get(title, 0.001 * rng.standard_normal(30))
            errors = (0.3 + 0.2 * hard + shift + 0.01 * rng.standard_normal(30)).tolist()
            records.append(Record(("jester", 2, draw), title, {"errors": errors}, 0.1, (), "corank"))
    found = headline.summarise(records)
    [note] = found.notes
    assert "LightGBM +0.1" in note or "LightGBM +0.2" in note
    assert "(worse)" in note
    assert "AutoRanker" in note
    assert "(cannot tell)" in note
    assert [row[0] for row in found.tables[0].rows] == list(headline.METHODS)
