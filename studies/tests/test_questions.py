"""The studies of questions on made-up data."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from corank.datasets import make_ranking
from corank.experiments.methods import MethodRows
from studies.data import Ratings
from studies.peers import kernel_path, xgboost_stages
from studies.questions import calibration, headline, questions
from studies.questions.methods import DrawMethod, by_draw, draw_parts, method_titles
from studies.run import run_study
from studies.study import Settings


def made_up_people(n_users=300, n_items=12):
    """Users whose tastes are smooth functions of two columns."""
    rng = np.random.default_rng(0)
    items = rng.standard_normal((n_items, 2))
    scores = np.sin(items @ rng.standard_normal((2, n_users))).T + 0.1 * rng.standard_normal(
        (n_users, n_items)
    )
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


@pytest.mark.parametrize(
    "study", [calibration.STUDY, questions.STUDY], ids=lambda study: study.name
)
def test_studies_of_uncertainty_run_from_end_to_end(study, made_up, tmp_path):
    run = run_study(replace(study, files=()), Settings(tmp_path, quick=True))
    assert run.n_computed == len(run.results) == len(study.parts(Settings(tmp_path, quick=True)))
    assert all(len(row) == len(table.columns) for table in run.outcome.tables for row in table.rows)
    assert run.outcome.n_fits >= run.n_parts


def test_calibration_error_sees_what_is_right_and_what_is_overconfident():
    rng = np.random.default_rng(0)
    stated = rng.uniform(0.5, 1.0, (400, 45))
    right = np.where(rng.random(stated.shape) < stated, stated, 1 - stated)
    bold = np.where(rng.random(stated.shape) < 0.5 + (stated - 0.5) / 2, stated, 1 - stated)
    calibrated, overconfident = calibration.measures_of(right), calibration.measures_of(bold)
    assert calibrated["calibration"] < 0.02
    assert calibrated["calibration"] < 3 * calibrated["if_right"]
    assert overconfident["calibration"] == pytest.approx(0.125, abs=0.02)
    low, high = np.quantile(overconfident["calibration_again"], [0.025, 0.975])
    assert low < overconfident["calibration"] < high
    assert sum(calibrated["counts"]) == stated.size


@pytest.mark.parametrize("kind", ["comparison", "score"])
def test_both_ways_of_asking_begin_and_end_alike(kind, made_up, tmp_path):
    """They start from the same answers, and once everything was asked nothing is left to choose."""
    person = questions.people(tmp_path, "jester", kind)[0]
    total = len(person.X) * (len(person.X) - 1) // 2 if kind == "comparison" else len(person.X)
    settings = {"gamma": 0.3, "amplitude": 2.0} | ({"noise": 0.1} if kind == "score" else {})
    loop = questions.ask_comparisons if kind == "comparison" else questions.ask_scores
    ends = [
        loop(person, settings, np.random.default_rng(1), 4, total - 4, chosen)
        for chosen in (True, False)
    ]
    assert len(ends[0]) == len(ends[1]) == total - 3
    assert ends[0][0] == ends[1][0]
    assert ends[0][-1] == pytest.approx(ends[1][-1], abs=1e-9)


def test_headline_says_what_it_cannot_tell():
    rng = np.random.default_rng(0)
    hard = rng.random(30)
    results = {}
    for draw in range(4):
        for title in headline.METHODS:
            shift = {"LightGBM": 0.2, "supervised": 0.0}.get(title, 0.001 * rng.standard_normal(30))
            errors = (0.3 + 0.2 * hard + shift + 0.01 * rng.standard_normal(30)).tolist()
            [part] = draw_parts(headline.run, [("jester", 2, draw)], [DrawMethod(title, title)])
            results[part.key] = {"errors": errors}
    outcome = headline.conclude(Settings(), results)
    [note] = outcome.notes
    assert "LightGBM +0.1" in note or "LightGBM +0.2" in note
    assert "(worse)" in note
    assert "AutoRanker" in note
    assert "(cannot tell)" in note
    assert [row[0] for row in outcome.tables[0].rows] == list(headline.METHODS)


def test_results_come_back_by_draw_and_method():
    methods = [DrawMethod("a", "RLS"), DrawMethod("b", "lightgbm", {"x": 1})]
    parts = draw_parts(headline.run, [("set", 2, 1), ("set", 2, 0)], methods, kernel="rbf")
    assert [part.libraries for part in parts[:2]] == [(), ("lightgbm",)]
    assert parts[1].arguments == {"draw": ("set", 2, 1), "method": methods[1], "kernel": "rbf"}
    results = {part.key: {"number": number} for number, part in enumerate(parts)}
    assert method_titles(results) == ["a", "b"]
    assert list(by_draw(results)) == [("set", 2, 0), ("set", 2, 1)]
    assert by_draw(results)["set", 2, 0] == {"a": {"number": 2}, "b": {"number": 3}}


def test_kernel_ridge_solves_what_scikit_learn_solves():
    data, alphas = make_ranking(n_queries=24, query_size=8, random_state=0), np.array([0.1, 10.0])
    predict, _ = kernel_path(0.3, alphas, MethodRows(data.X, data.y, None), 0)
    level = data.y.mean()
    models = [
        KernelRidge(alpha=alpha, kernel="rbf", gamma=0.3).fit(data.X, data.y - level)
        for alpha in alphas
    ]
    expected = [model.predict(data.X) + level for model in models]
    np.testing.assert_allclose(predict(data.X), np.transpose(expected))


def test_staged_trees_predict_what_xgboost_predicts():
    xgb = pytest.importorskip("xgboost")
    data = make_ranking(n_queries=24, query_size=8, random_state=0)
    predict, _ = xgboost_stages(MethodRows(data.X, data.y, None), {"max_depth": 2}, (3, 10))
    model = xgb.XGBRegressor(
        n_estimators=10, max_depth=2, n_jobs=1, tree_method="hist", base_score=0.0
    )
    model.fit(data.X, data.y - data.y.mean())
    expected = [data.y.mean() + model.predict(data.X, iteration_range=(0, n)) for n in (3, 10)]
    np.testing.assert_allclose(predict(data.X), np.transpose(expected), rtol=1e-4, atol=1e-4)
