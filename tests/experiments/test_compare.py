"""Comparing methods: hidden scores stay hidden, draws and statistics are what they say, interrupted
runs go on.
"""

import itertools
import json
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse, stats
from sklearn.linear_model import Ridge

from corank import TableEncoder, View
from corank.datasets import make_ranking, make_two_views
from corank.experiments import (
    FittedMethod,
    Items,
    Method,
    Protocol,
    Task,
    compare,
    estimator_method,
    known_methods,
    protocol,
)
from corank.experiments.compare import run
from corank.experiments.jobs import JobsFailed, Keep, _digest, attempt_jobs
from corank.experiments.methods import (
    MethodRows,
    chosen_methods,
    default_methods,
    disagreements,
    folds,
    grouped,
    pairs_of,
)
from corank.experiments.protocol import Draw, draws_of, split
from corank.experiments.verdict import (
    corrected_resampled,
    holm,
    over_repeats,
    signed_rank,
    two_way_interval,
)
from corank.metrics import disagreement_error

pytestmark = pytest.mark.usefixtures("one_blas_thread")
DATA = make_ranking(n_queries=24, query_size=8, n_features=4, random_state=0)
ITEMS = Items(DATA.X, DATA.y, DATA.qid)
QUICK = Protocol(repeats=4, curves=False, scored_share=0.4, test_share=0.25)


# ---------------------------------------------------------------- hidden scores


def _nearest(task):
    """A method that is quick: minus the distance to the mean of the better half."""
    X, y, _ = task.scored
    centre = X[y >= np.median(y)].mean(axis=0)
    return FittedMethod(lambda rows: -np.linalg.norm(rows - centre, axis=1), {}, 1, 8)


def _first_column(task):
    return FittedMethod(lambda rows: rows[:, 0], {}, 1, 8)


NEAREST = Method("nearest", "nearest", "to the mean of the better half", _nearest)
FIRST = Method("first", "first column", "the first column", _first_column)


def test_answers_are_unlocked_only_after_fit_and_predict(monkeypatch):
    told = []

    def fit(task):
        told.append("fit")
        assert not hasattr(task, "y_test")
        return FittedMethod(lambda rows: told.append("predict") or rows[:, 0], {}, 1, 8)

    unlock = protocol.HiddenScores.unlock
    monkeypatch.setattr(
        protocol.HiddenScores,
        "unlock",
        lambda self, given: told.append("unlock") or unlock(self, given),
    )
    for draw in draws_of(ITEMS, replace(QUICK, curves=True)):
        told.clear()
        run((ITEMS, QUICK), (Method("spy", "spy", "", fit), draw))
        assert told == ["fit", "predict", "unlock"]


def test_a_draw_has_the_links_between_its_rows_and_only_averages_follow_them():
    links = np.random.default_rng(0).integers(0, len(ITEMS), (400, 2))
    linked = Items(DATA.X, DATA.y, DATA.qid, links=links)
    assert linked.digest != ITEMS.digest
    rows = split(linked, QUICK, Draw(0))
    task, _ = protocol.masked(linked, rows, judge="disagreement", seed=0)
    order = np.concatenate([rows.train, rows.test])
    whole = linked.links.matrix.toarray()
    np.testing.assert_array_equal(task.links.matrix.toarray(), whole[np.ix_(order, order)])
    np.testing.assert_array_equal(
        task.training_links.matrix.toarray(), whole[np.ix_(rows.train, rows.train)]
    )
    for name, follows in {"ridge": False, "auto": True}.items():
        plain, other = (
            known_methods()[name].fit(seen).predict(task.X_test)
            for seen in (replace(task, links=None), task)
        )
        assert np.array_equal(plain, other) == (not follows)


@pytest.mark.parametrize("name", ["ridge", "rankrls", "corankrls", "auto", "pursuit", "lightgbm"])
def test_hidden_scores_change_no_prediction(name, monkeypatch):
    """Scores of test rows and of rows taken for unscored may be anything: predictions stay bitwise
    the same.
    """
    method = known_methods()[name]
    if not method.is_installed:
        pytest.skip(f"{name} is not installed")
    given = []
    unlock = protocol.HiddenScores.unlock
    monkeypatch.setattr(
        protocol.HiddenScores,
        "unlock",
        lambda self, p: given.append(np.array(p)) or unlock(self, p),
    )
    rows = split(ITEMS, QUICK, Draw(0))
    y = ITEMS.y.copy()
    hidden = np.setdiff1d(np.arange(len(y)), rows.scored)
    y[hidden] = np.random.default_rng(1).permutation(1e3 * y[hidden])
    run((ITEMS, QUICK), (method, Draw(0)))
    run((Items(DATA.X, y, DATA.qid), QUICK), (method, Draw(0)))
    np.testing.assert_array_equal(given[0], given[1])


def test_a_task_holds_scores_of_scored_rows_only():
    rows = split(ITEMS, QUICK, Draw(1))
    task, answers = protocol.masked(ITEMS, rows, judge="disagreement", seed=0)
    np.testing.assert_array_equal(task.y[: task.n_scored], ITEMS.y[rows.scored])
    assert np.isnan(task.y[task.n_scored :]).all()
    assert len(task.y) == len(rows.scored) + len(rows.unscored)
    with pytest.raises(ValueError, match="NaN or infinite"):
        answers.unlock(np.full(len(rows.test), np.nan))
    with pytest.raises(ValueError, match="shape"):
        answers.unlock(np.zeros(3))


def test_tables_are_encoded_without_the_test_rows():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": DATA.X[:, 0], "kind": np.where(DATA.qid % 2, "odd", "even")})
    rows = split(ITEMS, QUICK, Draw(0))
    wild = frame.copy()
    wild.loc[rows.test, "a"] *= 1e6
    plain, *_ = Items(frame, DATA.y, DATA.qid).features(rows.train, rows.test)
    other, *_ = Items(wild, DATA.y, DATA.qid).features(rows.train, rows.test)
    np.testing.assert_array_equal(plain, other)


def test_views_of_a_table_are_named_by_its_columns():
    pd = pytest.importorskip("pandas")
    kinds = np.array(["red", "green", "blue"])[DATA.qid % 3]
    frame = pd.DataFrame(
        {"text_a": DATA.X[:, 0], "kind": kinds, "text_b": DATA.X[:, 1], "size": DATA.X[:, 2]}
    )
    named = Items(frame, DATA.y, DATA.qid, views=[View("text_*"), View(["kind", "size"])])
    rows = split(named, QUICK, Draw(0))
    X, _, (text, rest), _ = named.features(rows.train, rows.test)
    assert [list(text.columns), list(rest.columns)] == [[0, 4], [1, 2, 3, 5]]  # a column a kind
    assert X.shape[1] == 6
    halves = (
        Items(frame, DATA.y, DATA.qid)
        .features(rows.train, rows.test)[2]
        .views(6, np.random.default_rng(0))
    )
    assert sorted(np.concatenate([view.columns for view in halves])) == list(range(6))
    # what one column became stays together
    assert any({1, 2, 3} <= set(view.columns) for view in halves)
    assert (
        compare(named, ["ridge", "corankrls"], QUICK).rows()[1].estimates["disagreement"].mean < 0.5
    )


# ---------------------------------------------------------------- draws


@pytest.mark.parametrize("qid", [DATA.qid, None], ids=["queries", "rows"])
def test_rows_of_a_draw_are_apart_and_queries_whole(qid):
    items = Items(DATA.X, DATA.y, qid)
    tested = np.zeros(len(items), dtype=int)
    for repeat in range(4):
        rows = split(items, QUICK, Draw(repeat))
        everything = np.concatenate([rows.scored, rows.unscored, rows.test])
        assert len(np.unique(everything)) == len(everything) == len(items)
        tested[rows.test] += 1
        if qid is not None:
            for part in (rows.scored, rows.unscored, rows.test):
                for other in (rows.scored, rows.unscored, rows.test):
                    assert part is other or not np.isin(qid[part], qid[other]).any()
    assert (tested == 1).all()  # everything is tested once a round


def test_parts_of_scored_and_unscored_rows_nest():
    protocol = replace(QUICK, max_unscored=60)
    whole, double = split(ITEMS, protocol, Draw(2)), split(ITEMS, protocol, Draw(2, scored=2.0))
    half, none = (
        split(ITEMS, protocol, Draw(2, scored=0.5)),
        split(ITEMS, protocol, Draw(2, unscored=0.0)),
    )
    quarter = split(ITEMS, protocol, Draw(2, unscored=0.25))
    assert set(half.scored) < set(whole.scored) < set(double.scored)
    assert len(double.scored) == 2 * len(whole.scored)
    assert set(quarter.unscored) < set(whole.unscored)
    assert len(none.unscored) == 0
    assert {draw.scored for draw in draws_of(ITEMS, replace(protocol, curves=True))} == {
        0.25,
        0.5,
        1.0,
        2.0,
        4.0,
    }
    capped = replace(protocol, curves=True, max_scored=40, scored_share=1.0)
    assert {draw.scored for draw in draws_of(ITEMS, capped)} == {0.25, 1.0}
    for other in (half, none, quarter):
        np.testing.assert_array_equal(other.test, whole.test)


def test_limits_leave_out_whole_queries():
    rows = split(ITEMS, replace(QUICK, scored_share=1.0, max_scored=40, max_unscored=20), Draw(0))
    assert len(rows.scored) == 40
    assert len(rows.unscored) == 16
    assert set(np.bincount(DATA.qid[rows.scored]).tolist()) == {0, 8}


def test_rows_without_a_score_are_never_tested_on():
    y = DATA.y.copy()
    y[::3] = np.nan
    items = Items(DATA.X, y, DATA.qid)
    assert QUICK.share(items) == 0.4
    assert Protocol().share(items) == 0.1
    rows = split(items, QUICK, Draw(0))
    assert not np.isnan(y[rows.test]).any()
    assert not np.isnan(y[rows.scored]).any()
    # a scored query has unscored rows of its own
    assert np.isin(DATA.qid[rows.unscored], DATA.qid[rows.scored]).any()
    y[::2] = np.nan
    assert Protocol().share(Items(DATA.X, y, DATA.qid)) == 1.0


# ---------------------------------------------------------------- statistics


def test_signed_rank_equals_counting_every_sign():
    differences = np.array([0.3, -0.1, 0.25, 0.7, -0.05, 0.4, 0.15])
    ranks = stats.rankdata(np.abs(differences))
    observed = ranks[differences > 0].sum()
    sums = np.array(
        [ranks[np.array(signs)].sum() for signs in itertools.product([False, True], repeat=7)]
    )
    centre = ranks.sum() / 2
    expected = np.mean(np.abs(sums - centre) >= abs(observed - centre) - 1e-12)
    assert signed_rank(differences) == pytest.approx(expected)
    assert signed_rank([0.0, 0.0]) == 1.0
    assert signed_rank([np.nan, *differences]) == signed_rank(differences)


def test_corrected_test_without_correction_is_students():
    differences = np.random.default_rng(0).normal(0.3, 1.0, 15)
    p, (low, high) = corrected_resampled(differences, 1e18, 1.0)
    student = stats.ttest_1samp(differences, 0.0)
    assert p == pytest.approx(student.pvalue)
    np.testing.assert_allclose([low, high], student.confidence_interval(0.95))


def test_corrected_test_by_hand_and_its_size():
    p, _ = corrected_resampled([1.0, 2.0, 3.0], 8, 2)
    t = 2.0 / np.sqrt((1 / 3 + 0.25) * 1.0)
    assert p == pytest.approx(2 * stats.t.sf(t, 2))
    assert corrected_resampled([0.0, 0.0], 8, 2)[0] == 1.0
    # repeats that share a fifth of their noise, as subsamples do: the corrected test keeps its
    # level, the plain one not
    rng = np.random.default_rng(0)
    shared, own = rng.normal(0, np.sqrt(0.2), (2000, 1)), rng.normal(0, np.sqrt(0.8), (2000, 20))
    corrected = np.mean([corrected_resampled(line, 8, 2)[0] < 0.05 for line in shared + own])
    plain = np.mean([corrected_resampled(line, 1e18, 1)[0] < 0.05 for line in shared + own])
    assert 0.03 < corrected < 0.07
    assert plain > 0.3


def test_holm_rejects_what_stepping_down_rejects():
    rng = np.random.default_rng(0)
    for p in rng.random((50, 6)) ** 3:
        rejected = np.zeros(6, dtype=bool)
        for step, at in enumerate(np.argsort(p)):  # by its definition
            if p[at] > 0.05 / (6 - step):
                break
            rejected[at] = True
        np.testing.assert_array_equal(np.array(holm(p)) <= 0.05, rejected)
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_units_are_queries_averaged_over_repeats():
    values = np.array([[0.1, np.nan, 0.3], [0.3, 0.5, np.nan], [np.nan, np.nan, np.nan]])
    np.testing.assert_allclose(over_repeats(values), [0.2, 0.5, 0.3])
    assert np.isnan(over_repeats(np.full((2, 1), np.nan)))[0]
    found = compare(ITEMS, [NEAREST, FIRST], QUICK)
    own = found.values("disagreement", "nearest")
    assert own.shape == (4, 24)
    np.testing.assert_array_equal((~np.isnan(own)).sum(axis=0), np.ones(24))
    row = found.rows()[1]
    gains = found.units("disagreement", "nearest") - found.units("disagreement", "first")
    assert row.against.p == signed_rank(gains)
    table = found.values("disagreement", "nearest") - found.values("disagreement", "first")
    assert (row.against.gain.low, row.against.gain.high) == two_way_interval(table)
    assert row.against.units == 24


def test_without_queries_repeats_are_tested_with_the_correction():
    found = compare(Items(DATA.X, DATA.y), [NEAREST, FIRST], replace(QUICK, repeats=6))
    assert found.measure == "rmse"
    gains = found.units("rmse", "nearest") - found.units("rmse", "first")
    assert found.rows()[1].against.p == pytest.approx(
        corrected_resampled(gains, 0.75 * 192, 0.25 * 192)[0]
    )
    assert all(len(record.result["queries"]) == 1 for record in found.records)


def _mostly(sign, task):
    """The first column, or its reverse, which are the other way round in some draws."""
    rng = np.random.default_rng(task.seed)
    scale = sign if rng.random() < 0.7 else -sign
    return FittedMethod(
        lambda rows: scale * rows[:, 0] + 0.02 * rng.normal(size=len(rows)), {}, 1, 8
    )


@pytest.mark.parametrize("measure", ["disagreement", "ndcg", "rmse"])
@pytest.mark.parametrize("has_queries", [True, False])
def test_intervals_lie_within_the_range_of_their_measure(measure, has_queries):
    X = np.random.default_rng(0).normal(size=(96, 2))
    items = Items(X, X[:, 0], np.repeat(np.arange(12), 8) if has_queries else None)
    right = Method("right", "mostly right", "", partial(_mostly, 1), scale="always")
    wrong = Method("wrong", "mostly reversed", "", partial(_mostly, -1), scale="always")
    found = compare(items, [right, wrong], replace(QUICK, repeats=4, curves=True, measure=measure))
    largest = 1.0 if measure != "rmse" else np.inf
    points = [point for curve in found.curves() for point in curve.points]
    assert len(points) > 2
    for point in points:
        assert 0 <= point.low <= point.mean <= point.high <= largest
    for row in found.rows():
        for name, estimate in row.estimates.items():
            assert (
                0
                <= estimate.low
                <= estimate.mean
                <= estimate.high
                <= (1.0 if name != "rmse" else np.inf)
            )
    gain = found.rows()[1].against.gain
    assert -largest <= gain.low <= gain.mean <= gain.high <= largest


def test_errors_are_those_of_the_metrics():
    found = run((ITEMS, QUICK), (FIRST, Draw(0)))
    rows = split(ITEMS, QUICK, Draw(0)).test
    for at, query in enumerate(found["queries"]):
        own = rows[DATA.qid[rows] == query]
        y, f = DATA.y[own], DATA.X[own, 0]
        wrong = [(y[i] - y[j]) * (f[i] - f[j]) < 0 for i in range(len(own)) for j in range(i)]
        assert found["disagreement"][at] == pytest.approx(np.mean(wrong))
        assert found["rmse"][at] == pytest.approx(np.std(y - f))


# ---------------------------------------------------------------- verdicts


def _oracle(task):
    return FittedMethod(lambda rows: rows[:, 0] + rows[:, 1], {}, 1, 8)


def _coin(task):
    rng = np.random.default_rng(task.seed)
    return FittedMethod(lambda rows: rng.random(len(rows)), {}, 1, 8)


def test_verdicts_say_better_worse_and_cannot_tell():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    items = Items(X, X[:, 0] + X[:, 1] + 0.1 * rng.normal(size=400), np.repeat(np.arange(40), 10))
    coin, other = Method("coin", "coin", "", _coin), Method("other", "other coin", "", _coin)
    oracle = Method("oracle", "oracle", "", _oracle)
    found = compare(items, [coin, oracle, other], replace(QUICK, repeats=4))
    answer, *rest = found.verdict()
    assert answer.startswith("oracle has the best mean")
    assert any(line.startswith("other coin: cannot be told apart from coin") for line in rest)
    against = compare(items, [oracle, coin], QUICK)
    assert against.verdict()[0].startswith("Nothing was better than the baseline, oracle")
    assert against.rows()[1].against.verdict == "worse"
    same = compare(items, [coin, other], QUICK)
    assert same.rows()[1].against.verdict == "cannot tell"


def test_unscored_rows_that_help_are_found_out():
    whole = make_two_views(
        n_scored=400, n_unscored=0, n_test=0, queries=40, n_features=30, random_state=0
    )
    views = [View(columns, kernel="linear", basis="features") for columns in whole.views]
    items = Items(whole.X, whole.y, whole.qid, views)
    protocol = Protocol(repeats=5, curves=True, scored_share=0.1, max_unscored=200)
    found = compare(items, ["ridge", "corankrls"], protocol)
    (effect,) = found.effects()
    assert effect.effect.verdict == "better"
    assert "helped" in found.verdict()[-1]
    (curve,) = found.curves("unscored")
    assert curve.n[0] == 0
    assert curve.points[0].mean > curve.points[-1].mean
    assert {curve.method for curve in found.curves("scored")} == {"ridge", "corankrls"}


# ---------------------------------------------------------------- methods


def test_every_method_fits_and_predicts_better_than_chance():
    found = []
    for method in known_methods().values():
        if method.for_queries and method.is_installed:
            result = run((ITEMS, QUICK), (method, Draw(0)))
            assert np.mean(result["disagreement"]) < 0.42, method.name
            assert result["size"] > 0
            found.append(method.name)
            assert ("said" in result) == (method.name in ("auto", "difference", "preference"))
            if method.name not in (
                "auto",
                "difference",
                "preference",
                "kpcrank",
                "copursuit",
                "transductive",
                "ranksvm",
                "gp",
                "forest",
                "averaged",
            ):
                assert result["tried"] == 200, method.name
    assert len(found) >= 10


def test_methods_without_queries_predict_scores():
    items = Items(sparse.csr_array(DATA.X), DATA.y - 5.0)
    for method in default_methods(queries=False, judge="rmse"):
        result = run((items, QUICK), (method, Draw(0)))
        assert result["rmse"][0] < np.std(DATA.y), method.name


def test_staged_trees_predict_what_the_libraries_predict():
    lgb = pytest.importorskip("lightgbm")
    from corank.experiments.methods import levels, lightgbm_stages

    rows, setting = MethodRows(DATA.X, DATA.y, DATA.qid), {"num_leaves": 4, "min_data_in_leaf": 5}
    predict, _ = lightgbm_stages(rows, setting, (3, 10))
    same = {
        "objective": "lambdarank",
        "num_threads": 1,
        "deterministic": True,
        "seed": 0,
        "verbosity": -1,
    }
    data = lgb.Dataset(
        DATA.X,
        levels(DATA.y),
        group=np.unique(DATA.qid, return_counts=True)[1],
        params={"verbosity": -1},
    )
    model = lgb.train(same | setting | {"label_gain": list(range(32))}, data, num_boost_round=10)
    expected = [model.predict(DATA.X, num_iteration=n) for n in (3, 10)]
    np.testing.assert_allclose(predict(DATA.X), np.transpose(expected), rtol=1e-12)


def test_peers_solve_what_scikit_learn_solves():
    from corank.experiments.methods import _ridge_path

    rows, alphas = MethodRows(DATA.X, DATA.y, None), np.array([0.1, 10.0])
    predict, _ = _ridge_path(alphas, rows, 0)
    expected = [Ridge(alpha).fit(DATA.X, DATA.y).predict(DATA.X) for alpha in alphas]
    np.testing.assert_allclose(predict(DATA.X), np.transpose(expected))
    first, second = pairs_of(rows, 10**6, np.random.default_rng(0))
    assert len(first) == sum(a > b for a in DATA.y for b in DATA.y)
    assert (DATA.y[first] > DATA.y[second]).all()


@pytest.mark.parametrize("qid", [None, DATA.qid], ids=["rows", "queries"])
def test_any_estimator_of_scikit_learn_is_a_method(qid):
    mine = estimator_method("mine", Ridge(2.0), title="my ridge")
    assert (mine.title, mine.about) == ("my ridge", "Ridge of scikit-learn")
    task = Task(DATA.X, DATA.y, qid, DATA.X[:5], None, None, "disagreement", 0)
    means = np.full(len(DATA.y), DATA.y.mean())
    if qid is not None:
        means = np.array([DATA.y[qid == query].mean() for query in qid])
    expected = Ridge(2.0).fit(DATA.X, DATA.y - means).predict(DATA.X[:5])
    level = 0.0 if qid is not None else DATA.y.mean()
    np.testing.assert_allclose(mine.fit(task).predict(task.X_test), expected + level)
    items = Items(DATA.X, DATA.y, qid)
    result = compare(items, ["ridge", mine], replace(QUICK, curves=False))
    assert [row.method for row in result.rows()] == ["ridge", "mine"]


def test_tuning_holds_out_whole_queries():
    rows = grouped(DATA.X, DATA.y, DATA.qid)
    for kept, left in folds(rows, 0):
        assert not np.isin(rows.qid[kept], rows.qid[left]).any()
        assert len(kept) + len(left) == len(rows.y)


def test_tuning_counts_pairs_as_the_metric_does():
    rng = np.random.default_rng(0)
    y, qid = rng.integers(4, size=60).astype(float), np.repeat(np.arange(12), 5)
    y[:5] = 1.0  # a query without different scores
    predicted = rng.integers(6, size=(60, 7)).astype(float)
    expected = [disagreement_error(y, column, qid=qid, average=False) for column in predicted.T]
    np.testing.assert_allclose(
        disagreements(MethodRows(None, y, qid), predicted), np.transpose(expected)[1:]
    )


# ---------------------------------------------------------------- going on


def _square(shared, job):
    if job == "bad":
        raise ValueError("no number")
    shared["done"].append(job)
    return {"square": job * job}


def test_finished_jobs_are_kept_and_not_done_again(tmp_path):
    keep, shared = Keep(tmp_path / "kept"), {"done": []}
    _, failures = attempt_jobs(_square, shared, [("a", 2), ("b", "bad"), ("c", 4)], keep=keep)
    assert failures == {"b": "ValueError: no number"}
    finished, failures = attempt_jobs(_square, shared, [("a", 2), ("c", 4), ("d", 5)], keep=keep)
    assert failures == {}
    assert {key: (done.result["square"], now) for key, (done, now) in finished.items()} == {
        "a": (4, False),
        "c": (16, False),
        "d": (25, True),
    }
    assert shared["done"] == [2, 4, 5]
    keep.path("a").write_text('{"key": "a", "don')  # cut off
    for again in (keep, Keep(tmp_path / "kept", fresh=True)):
        assert attempt_jobs(_square, shared, [("a", 2)], keep=again)[0]["a"][1]
    assert not list((tmp_path / "kept").glob("*.part"))


@pytest.mark.parametrize(
    "forged",
    [
        lambda result: {},
        lambda result: {name: value for name, value in result.items() if name != "disagreement"},
        lambda result: {**result, "disagreement": ["much"]},
        lambda result: {**result, "queries": [10**9]},
        lambda result: {**result, "queries": "all", "n_test": None},
        lambda result: {**result, "said": [[1]], "came": 2},
    ],
)
def test_kept_fits_that_are_empty_or_forged_do_not_count(tmp_path, forged):
    methods, few = ["ridge", "rankrls"], replace(QUICK, repeats=2)
    expected = compare(ITEMS, methods, few, keep=tmp_path)
    for path in tmp_path.glob("*.json"):
        entry = json.loads(path.read_text())
        entry["done"]["result"] = forged(entry["done"]["result"])
        entry["digest"] = _digest(entry["done"])
        path.write_text(json.dumps(entry))
    again = compare(ITEMS, methods, few, keep=tmp_path)
    assert again.run_now == 4
    assert [row.estimates for row in again.rows()] == [row.estimates for row in expected.rows()]


def test_an_interrupted_comparison_goes_on_to_the_same_numbers(tmp_path):
    methods, protocol = ["ridge", "rankrls"], replace(QUICK, repeats=2)
    count = itertools.count()

    def stopping(task):
        if next(count) == 4:
            raise KeyboardInterrupt
        return known_methods()["ridge"].fit(task)

    whole = compare(ITEMS, methods, protocol)
    with pytest.raises(KeyboardInterrupt):
        compare(
            ITEMS,
            [*methods, Method("stop", "stop", "", stopping)],
            replace(protocol, repeats=9),
            keep=tmp_path,
        )
    resumed = compare(ITEMS, methods, protocol, keep=tmp_path)
    assert resumed.run_now == 0
    assert compare(ITEMS, methods, replace(protocol, seed=1), keep=tmp_path).run_now == 4
    for one, other in zip(whole.records, resumed.records, strict=True):
        for name in ("queries", "disagreement", "ndcg", "rmse", "chosen", "seed"):
            assert one.result[name] == other.result[name]


_KILLED = """
import os, sys
from corank.experiments import Items, Protocol, compare
from corank.datasets import make_ranking

def dying(total, done):
    from contextlib import contextmanager
    @contextmanager
    def progress():
        count = 0
        def advance():
            nonlocal count
            count += 1
            if count == 5:
                os.kill(os.getpid(), 9)
        yield advance
    return progress()

data = make_ranking(n_queries=24, query_size=8, n_features=4, random_state=0)
protocol = Protocol(repeats=4, curves=False, scored_share=0.4, test_share=0.25)
compare(Items(data.X, data.y, data.qid), ["ridge", "rankrls"], protocol, keep=sys.argv[1], progress=dying)
"""


def test_a_killed_comparison_goes_on_in_another_process_to_the_same_numbers(tmp_path):
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, tmp_path], check=False, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL
    resumed, whole = (
        compare(ITEMS, ["ridge", "rankrls"], QUICK, keep=folder) for folder in (tmp_path, None)
    )
    assert resumed.run_now == 3  # five of eight were kept
    for one, other in zip(whole.records, resumed.records, strict=True):
        assert one.result["disagreement"] == pytest.approx(other.result["disagreement"], abs=1e-12)


def test_a_method_that_fails_is_left_out_and_said(tmp_path):
    def failing(task):
        if task.seed % 2 == 0:
            raise ValueError("no number")
        return _nearest(task)

    broken = Method("broken", "broken", "", failing)
    found = compare(ITEMS, [NEAREST, FIRST, broken], replace(QUICK, repeats=12), keep=tmp_path)
    assert [method.name for method in found.methods] == ["nearest", "first"]
    assert "fits failed; the first: ValueError: no number" in found.failed["broken"]
    with pytest.raises(JobsFailed, match=r"broken: .* no number"):
        compare(ITEMS, [NEAREST, broken], replace(QUICK, repeats=12))
    with pytest.raises(JobsFailed, match="no number"):
        compare(ITEMS, [NEAREST, FIRST, broken], replace(QUICK, repeats=12), baseline="broken")


def test_a_changed_method_of_the_same_name_is_fitted_again(tmp_path):
    def mine(column):
        return Method(
            "mine", "mine", "", lambda task: FittedMethod(lambda rows: rows[:, column], {}, 1, 8)
        )

    first = compare(ITEMS, [NEAREST, mine(0)], QUICK, keep=tmp_path)
    assert compare(ITEMS, [NEAREST, mine(0)], QUICK, keep=tmp_path).run_now == 0
    other = compare(ITEMS, [NEAREST, mine(1)], QUICK, keep=tmp_path)
    assert other.run_now == 4
    assert first.rows()[1].estimates != other.rows()[1].estimates


def test_several_processes_find_the_same(tmp_path):
    protocol = replace(QUICK, repeats=2)
    alone = compare(ITEMS, ["ridge", "rankrls"], protocol)
    together = compare(ITEMS, ["ridge", "rankrls"], protocol, processes=2)
    for one, other in zip(alone.records, together.records, strict=True):
        np.testing.assert_allclose(one.result["disagreement"], other.result["disagreement"])


def test_everything_is_saved_as_json(tmp_path):
    found = compare(ITEMS, [NEAREST, FIRST], QUICK)
    found.save(tmp_path / "found.json")
    read = json.loads((tmp_path / "found.json").read_text())
    assert [row["verdict"] for row in read["methods"]] == [None, found.rows()[1].against.verdict]
    assert len(read["runs"]) == 8
    assert read["protocol"]["seed"] == 0
    with pytest.raises(FileExistsError):
        found.save(tmp_path / "found.json")


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"methods": ["ridge", "rankrsl"]}, "did you mean 'rankrls'"),
        ({"methods": ["ridge"]}, "at least two"),
        ({"methods": ["ridge", "ridge"]}, "named twice"),
        ({"methods": ["ridge", "matching"]}, "not meant for data with queries"),
        ({"methods": ["ridge", "rankrls"], "baseline": "rls"}, "not among the methods"),
        ({"processes": 0}, "processes"),
    ],
)
def test_bad_arguments_are_refused_at_once(arguments, message):
    with pytest.raises(ValueError, match=message):
        compare(ITEMS, **arguments)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scored_share": 0.0}, "scored_share"),
        ({"scored_share": 1.5}, "scored_share"),
        ({"repeats": 1}, "repeats"),
        ({"test_share": 1.0}, "test_share"),
        ({"measure": "mae"}, "measure"),
        ({"max_scored": 1}, "max_scored"),
    ],
)
def test_bad_protocols_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Protocol(**settings)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((DATA.X, DATA.y[:5]), "one score per row"),
        ((DATA.X, np.full(192, np.nan)), "no scored row"),
        ((DATA.X, np.where(np.arange(192) == 3, np.inf, DATA.y)), "infinite"),
        ((np.where(DATA.X > 2, np.nan, DATA.X), DATA.y), "NaN or infinite"),
        ((DATA.X, np.ones(192)), "same score everywhere"),
        ((DATA.X, np.ones(192), DATA.qid), "only 0 queries"),
        ((DATA.X[:10], DATA.y[:10]), "at least 20"),
    ],
)
def test_bad_data_are_refused(data, message):
    with pytest.raises(ValueError, match=message):
        compare(data)


def test_other_data_are_refused():
    with pytest.raises(TypeError, match="give Items"):
        compare("items.csv")
    with pytest.raises(ValueError, match="gives an order"):
        compare((DATA.X, DATA.y), ["ridge", "ranksvm"])
    with pytest.raises(ValueError, match="'nothing' is not known"):
        chosen_methods(["nothing"], queries=True, judge="disagreement")


def test_a_table_is_encoded_once_per_draw_by_the_encoder_that_is_given(monkeypatch):
    fits = []
    fit_transform = TableEncoder.fit_transform

    def counted(self, table, *others, **more):
        fits.append(self.get_params())
        return fit_transform(self, table, *others, **more)

    monkeypatch.setattr(TableEncoder, "fit_transform", counted)
    table = pa.table({"code": [1, 2, 3, 1, 2, 3], "x": [0.5, 1.0, 2.0, 3.0, 4.0, 6.0]})
    items = Items(table, np.arange(6.0), encoder=TableEncoder(category=["code"]))
    first, second = np.arange(4), np.arange(4, 6)
    training, test, *_ = items.features(first, second)
    training[:] = 0  # what a method does to its features is its own affair
    again, test_again, *_ = items.features(first, second)
    assert again.any()
    assert (test == test_again).all()
    assert again.shape == (4, 4)
    items.features(second, first)
    assert [parameters["category"] for parameters in fits] == [["code"]] * 2
    assert items.digest != Items(table, np.arange(6.0)).digest
