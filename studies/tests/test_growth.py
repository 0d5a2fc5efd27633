"""The study of growth on tiny stand-ins of its data, and its words on made-up results."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from corank.experiments.jobs import version_of
from studies.data import MEDIUM_SETS
from studies.questions import growth
from studies.questions.growth_peers import encodings, negative_evidence
from studies.questions.methods import DrawMethod, draw_parts
from studies.run import run_study
from studies.study import CANNOT_BE_TESTED, DOES_NOT_HOLD, HOLDS, Settings
from studies.tests.stand_ins import write_medium, write_rankings, write_regression
from studies.write import as_markdown, png


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    write_medium(place, MEDIUM_SETS)
    write_regression(place)
    write_rankings(place)
    return place


def test_the_study_runs_from_end_to_end(folder, monkeypatch):
    monkeypatch.setattr(growth, "MEDIUM_SETS", MEDIUM_SETS[:1])
    monkeypatch.setattr(growth, "QUICK_SIZES", (300,))
    run = run_study(growth.STUDY, Settings(folder, quick=True))
    for title in (growth.AUTO, *growth.PEERS, growth.LAMBDARANK, *growth.RANK_PEERS):
        is_trees = "LightGBM" in title
        found = [key for key in run.results if title in key]
        assert bool(found) == (not is_trees or version_of("lightgbm") is not None), title
    assert all(result["error"] < 1 and result["seconds"] > 0 for result in run.results.values())
    assert all(len(row) == len(table.columns) for table in run.outcome.tables for row in table.rows)
    assert all(png(figure) for figure in run.outcome.figures)
    if version_of("lightgbm") is None:
        assert "parts are left out: they need lightgbm" in run.outcome.notes[-1]
    entry = {"command": None, "versions": {}}
    assert "# How the error falls with scores" in as_markdown(run, entry)


def test_draws_are_nested_and_never_train_on_test_rows(folder):
    few, many = (growth.regression_task(folder, "pol", size, 1)[0] for size in (50, 300))
    truth = [growth.regression_task(folder, "pol", size, 1)[1] for size in (50, 300)]
    np.testing.assert_array_equal(*truth)
    assert len(truth[0]) == 90
    assert (few.n_scored, many.n_scored) == (50, 300)
    np.testing.assert_array_equal(few.y[:50], many.y[:50])
    assert len(few.y) == len(many.y) == 360
    task, scores = growth.ranking_task(folder, 16, 0)
    assert len(np.unique(task.qid[: task.n_scored])) == 16
    assert not set(task.qid) & set(task.qid_test)
    assert len(scores) == len(task.qid_test)


def test_encodings_of_queries_stay_within_them(folder):
    task, _ = growth.ranking_task(folder, 16, 0)
    for name, rows, X_test in encodings(task):
        assert rows.X.shape == (task.n_scored, task.X.shape[1])
        assert X_test.shape == task.X_test.shape
        assert np.isfinite(X_test).all()
        if name == "normal scores within queries":
            for query in np.unique(task.qid_test):
                means = X_test[task.qid_test == query].mean(axis=0)
                np.testing.assert_allclose(means, 0, atol=0.2)


def test_evidence_of_the_gaussian_process_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    kernel = ConstantKernel(1.0) * RBF(np.ones(3)) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
    theta = np.log([2.0, 0.5, 1.5, 3.0, 0.3])
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    negative, slope = negative_evidence(theta, X, y)
    assert negative == pytest.approx(-value, rel=1e-9)
    np.testing.assert_allclose(slope, -gradient, rtol=1e-7)


def made_up_results(error_of, stated=1.0, inside=0.95):
    """Results of all sizes; peers have the same errors at each."""
    results = {}

    def add(draw, title, result):
        [part] = draw_parts(growth.run, [draw], [DrawMethod(title, title)])
        results[part.key] = {"seconds": 1.0, "memory_mb": 1.0, **result}

    for name in MEDIUM_SETS:
        for size in growth.SIZES:
            for number in range(2):
                draw = ("regression", name, size, number)
                error = error_of(name, size)
                own = {"error": error, "stated": stated * error**2, "inside": inside}
                add(draw, growth.AUTO, own | {"verdict": "helped", "machine": "A"})
                add(draw, growth.WITHOUT, {"error": 2 * error})
                for at, peer in enumerate(growth.PEERS):
                    if peer != growth.GP or size <= 1000:
                        # no peer is best in every draw: the mean decides
                        add(draw, peer, {"error": 0.5 + 0.01 * at + 0.2 * (at == number)})
    for size in growth.QUERY_COUNTS:
        draw = ("ranking", "ranking", size, 0)
        add(draw, growth.AUTO, {"error": 0.2, "ndcg": 0.8})
        add(draw, growth.LAMBDARANK, {"error": 0.25, "ndcg": 0.801})
        for peer in growth.RANK_PEERS:
            add(draw, peer, {"error": 0.22, "ndcg": 0.8})
    return results


def verdicts(results):
    outcome = growth.conclude(Settings(), results)
    return {finding.claim: finding for finding in outcome.findings}


def test_everything_holds_where_the_default_is_better():
    found = verdicts(made_up_results(lambda name, size: 0.45 / np.log10(size)))
    assert {finding.verdict for finding in found.values()} == {HOLDS}
    # others are best in one draw each, the third peer in the mean over draws
    at_300 = "regression, over the best peer, 300 scores: geometric mean at most 0.94"
    assert found[at_300].evidence.startswith(f"{0.45 / np.log10(300) / 0.52:.3f} ")


def test_one_bad_setting_is_named():
    results = made_up_results(lambda name, size: 0.7 if (name, size) == ("pol", 5000) else 0.2)
    found = verdicts(results)
    bad = {claim: finding for claim, finding in found.items() if finding.verdict == DOES_NOT_HOLD}
    assert any("no setting above 1.05" in claim for claim in bad)
    assert any("more is better" in claim for claim in bad)
    assert all(
        "pol, 5,000" in finding.evidence for claim, finding in bad.items() if "no set" in claim
    )


def test_stated_errors_and_intervals_are_judged_at_each_size():
    found = verdicts(made_up_results(lambda name, size: 0.2, stated=1.2, inside=0.8))
    wrong = [claim for claim, finding in found.items() if finding.verdict == DOES_NOT_HOLD]
    assert sum("intervals hold" in claim for claim in wrong) == 6
    assert sum("stated over true" in claim for claim in wrong) == 3


def test_what_was_not_run_is_not_judged():
    results = made_up_results(lambda name, size: 0.2)
    without = {key: result for key, result in results.items() if growth.LAMBDARANK not in key}
    found = verdicts(without)
    untested = [claim for claim, finding in found.items() if finding.verdict == CANNOT_BE_TESTED]
    assert len(untested) == 3
    assert all("LightGBM" in claim for claim in untested)
