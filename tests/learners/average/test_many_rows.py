"""Averages of thousands of scored rows: more of them never make the model worse, nor its matrices
too large.
"""

import numpy as np
import pytest
from brute_force import REGRESSION, Loss, comparison_rows, kernel, loss_rows, minimise
from scipy.linalg import block_diag

from corank import AutoRanker, AutoRegressor, Candidate, load
from corank.core.arrays import take
from corank.learners.average import fitting
from corank.learners.average.encoding import STANDARD

NARROW = [Candidate(kernel="rbf", width=0.5), Candidate(kernel="laplacian", width=2.0)]


def rough_surface(n, seed):
    """Rows (n, 5) and scores (n,) of a function with more edges than 500 points can follow."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-2, 2, (n, 5))
    largest = np.abs(rows).max(axis=1)
    return rows, largest * np.sign(rows[:, 0] * rows[:, 1]) + 0.01 * rng.standard_normal(n)


def test_scores_beyond_2000_do_not_make_the_error_jump():
    X, y = rough_surface(3_100, seed=1)
    errors = []
    for n in (1_900, 2_100):
        model = AutoRegressor(candidates=NARROW, random_state=0).fit(X[:n], y[:n])
        errors.append(np.sqrt(np.mean((model.predict(X[2_100:]) - y[2_100:]) ** 2)))
    assert errors[1] <= 1.01 * errors[0]


def test_queries_beyond_2000_rows_do_not_make_the_order_worse():
    X, y = rough_surface(3_100, seed=2)
    queries = np.arange(len(y)) // 20
    scores = []
    for n in (1_900, 2_100):
        model = AutoRanker(candidates=NARROW, random_state=0).fit(X[:n], y[:n], qid=queries[:n])
        scores.append(model.score(X[2_100:], y[2_100:], qid=queries[2_100:]))
    assert scores[1] >= scores[0] - 0.005


@pytest.mark.parametrize("learner", [AutoRegressor, AutoRanker])
def test_the_posterior_on_a_basis_has_one_covariance(learner, monkeypatch):
    monkeypatch.setattr(fitting, "FEW_WEIGHED", 40)
    monkeypatch.setattr(fitting, "affordable", lambda n, n_parts=1: (2, 30))
    X, y = rough_surface(140, seed=3)
    model = learner(candidates=[Candidate(), Candidate(kernel="linear")]).fit(X[:100], y[:100])
    posterior, rows = model.posterior_at(X)
    mean, variances = posterior.moments(rows)
    centre, covariance = posterior.covariance(take(rows, slice(None)))
    np.testing.assert_allclose(centre, mean, atol=1e-9)
    np.testing.assert_allclose(np.diag(covariance), variances, rtol=1e-6)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9 * np.trace(covariance)
    np.testing.assert_allclose(model.predict(X), mean, atol=1e-9)


def test_one_good_model_keeps_its_weight_among_many_that_explain_nothing():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((1_000, 12))
    y = np.sin(3 * X[:, 0]) * np.sign(X[:, 1]) + 0.8 * rng.standard_normal(1_000)
    narrow = Candidate(kernel="laplacian", width=0.5)
    blind = [Candidate(kernel="rbf", width=float(width)) for width in np.geomspace(4, 64, 15)]
    model = AutoRegressor(candidates=[*blind, narrow], random_state=0).fit(X, y)
    assert next(line.weight for line in model.candidates_ if line.candidate == narrow) > 0.45


def test_columns_that_do_not_matter_do_not_hide_those_that_do():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((2_600, 20))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(2_600)
    alike = [Candidate(kernel="rbf", width=width) for width in (0.5, 1.0, 4.0)]
    errors = []
    for candidates in (alike, [*alike, Candidate(per_column=True)]):
        model = AutoRegressor(candidates=candidates, random_state=0).fit(X[:2_100], y[:2_100])
        errors.append(np.std(model.predict(X[2_100:]) - y[2_100:]))
    assert errors[1] < 0.15
    assert errors[1] < 0.3 * errors[0]
    assert "rbf with one width per column" in model.reason_


@pytest.mark.parametrize("n_events", [0, 2])
def test_scores_that_hardly_differ_teach_no_widths(n_events):
    X, y = rough_surface(2_050, seed=11)[0], np.zeros(2_050)
    y[:n_events] = [1, -1][:n_events]
    model = AutoRegressor(candidates=[*NARROW, Candidate(per_column=True)], random_state=0)
    assert np.isfinite(model.fit(X, y).predict(X)).all()


@pytest.mark.parametrize("weight", [1e-8, 1e8])
def test_widths_do_not_depend_on_the_size_of_all_weights(weight, few_are_many):
    X, y = rough_surface(100, seed=12)
    candidates = [NARROW[0], Candidate(per_column=True)]
    plain = AutoRegressor(candidates=candidates, random_state=0).fit(X, y)
    weighed = AutoRegressor(candidates=candidates, random_state=0)
    weighed.fit(X, y, sample_weight=np.full(100, weight))
    spread = np.ptp(plain.predict(X))
    np.testing.assert_allclose(weighed.predict(X), plain.predict(X), atol=1e-5 * spread)


def test_an_average_says_which_columns_its_widths_see(few_are_many):
    X, y = rough_surface(140, seed=13)
    model = AutoRegressor(candidates=[NARROW[0], Candidate(per_column=True)], random_state=0)
    model.fit(np.column_stack([np.ones(140), X]), y)  # a constant column has no width
    shares, weight = model.shares_of_distance
    (line,) = [line for line in model.candidates_ if line.candidate.per_column]
    assert weight == pytest.approx(line.weight)
    (fitted,) = [each for each in model._model.candidates if each.candidate.per_column]
    seen = fitted.similarities[0].sight.factors ** 2 * model._model.points[STANDARD].var(axis=0)
    np.testing.assert_allclose(shares, [0, *(seen / seen.sum())])
    first = (
        f"the distance between rows is made of column {1 + np.argmax(shares)} {shares.max():.0%}"
    )
    assert first in model.summary().facts["distances"]
    assert f"{weight:.0%} of the weight" in model.summary().facts["distances"]


def test_too_few_scores_teach_no_widths():
    X, y = rough_surface(20, seed=9)
    model = AutoRegressor(candidates=[*NARROW, Candidate(per_column=True)]).fit(X, y)
    assert {line.candidate for line in model.candidates_} == set(NARROW)


def test_what_fits_may_cost_grows_with_the_rows():
    counts, points = zip(*map(fitting.affordable, (2_000, 5_000, 9_000)), strict=True)
    assert points == (2_000, 5_000, 9_000)
    assert list(counts) == sorted(counts, reverse=True)
    assert counts[-1] >= 2
    sizes = [fitting.affordable(n)[1] for n in (15_000, 20_000, 50_000)]
    assert sizes == sorted(sizes)
    assert sizes[0] > 2_000
    assert sizes[-1] < 6_000


@pytest.mark.parametrize("wrong", [{"kernel": "linear"}, {"relevance": True}, {"hops": 2}])
def test_widths_per_column_are_those_of_an_rbf_kernel_alone(wrong):
    X, y = rough_surface(20, seed=10)
    with pytest.raises(ValueError, match="per_column"):
        AutoRegressor(candidates=[Candidate(per_column=True, **wrong)]).fit(X, y)


@pytest.fixture
def few_are_many(monkeypatch):
    """Fifty rows count as many, a hundred as too many to be all points of a model."""
    monkeypatch.setattr(fitting, "FEW_WEIGHED", 20)
    monkeypatch.setattr(fitting, "MAX_WEIGHED", 40)
    monkeypatch.setattr(fitting, "affordable", lambda n, n_parts=1: (8, n) if n <= 100 else (3, 60))


@pytest.mark.parametrize("kind", ["regressor", "ranker", "comparisons"])
@pytest.mark.parametrize("candidate", NARROW, ids=["rbf", "laplacian"])
def test_a_fit_in_a_basis_minimises_the_stated_objective(candidate, kind, monkeypatch):
    monkeypatch.setattr(fitting, "affordable", lambda n, n_parts=1: (1, 60))
    X, y = rough_surface(600, seed=15)
    rng = np.random.default_rng(16)
    weights, queries, ends = rng.uniform(0.5, 2, 600), np.arange(600) // 12, np.arange(600)
    if kind == "regressor":
        model = AutoRegressor(candidates=[candidate]).fit(X, y, sample_weight=weights)
        T, t = loss_rows(y, queries, REGRESSION, weights)
    elif kind == "ranker":
        model = AutoRanker(candidates=[candidate]).fit(X, y, qid=queries)
        T, t = loss_rows(y, queries, Loss())
    else:
        ends = np.stack([ends, np.roll(ends, 7)])
        winners, losers = np.where(y[ends[0]] > y[ends[1]], ends, ends[::-1])
        model = AutoRanker(candidates=[candidate]).fit_comparisons(X, winners, losers)
        T, t = comparison_rows(600, winners, losers)
    [fitted], [encoding] = model._model.candidates, model._model.encodings
    points = model._model.points[encoding.name]
    assert len(points) == 60
    of_points = kernel(candidate.kernel, fitted.similarities[0].gamma)
    rows, new = (
        np.column_stack([of_points(encoding.encode(each, None), points), np.ones(len(each))])
        for each in (X, rough_surface(40, seed=17)[0])
    )
    norm = block_diag(of_points(points, points), 0)  # the level is free
    expected = new @ minimise(T, t, rows, norm, fitted.alpha)
    found = new[:, :60] @ fitted.coefficients + fitted.level + model._model.base
    if kind != "regressor":
        found, expected = found - found.mean(), expected - expected.mean()
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.std(expected))
    if kind == "regressor":
        predictions = model.predict(rough_surface(40, seed=17)[0])
        np.testing.assert_allclose(predictions, model._model.limited(found - model._model.base))


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize(
    ("n", "weighed", "points"), [(20, 20, 20), (50, 25, 50), (100, 40, 100), (101, 40, 60)]
)
def test_rows_that_weigh_candidates_and_points_of_the_model_by_number_of_rows(n, weighed, points):
    X, y = rough_surface(n, seed=3)
    model = AutoRegressor(random_state=0).fit(X, y)
    assert len(model._average.judged_units) == weighed
    assert len(model._average.points) == points
    mean, deviation = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (deviation > 0).all()


@pytest.mark.usefixtures("few_are_many")
def test_points_that_are_some_of_the_rows_are_called_by_their_numbers(tmp_path):
    X, y = rough_surface(140, seed=3)
    y[:20] = np.nan
    model = AutoRegressor(candidates=NARROW).fit(X, y)
    model.save(tmp_path / "m.corank")
    for each in (model, load(tmp_path / "m.corank")):
        explained = each.explain_pair(X[30], X[31])
        rows = [int(item.name.removeprefix("row ")) for item in explained.by_item]
        assert len(rows) == len(set(rows)) == 60
        assert min(rows) >= 20
        encoding = each._model.encodings[0]
        found = encoding.encode(X[np.sort(rows)], None)
        np.testing.assert_array_equal(each._model.points[encoding.name], found)


def test_comparisons_of_few_items_take_matrices_of_the_items(memory_limit):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((150, 3))
    ends = rng.integers(0, 150, (12_000, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    better = X[ends[:, 0], 0] > X[ends[:, 1], 0]
    winners, losers = np.where(better, ends.T, ends.T[::-1])
    with memory_limit(250):  # a matrix of all comparisons would take 1,150 MB
        model = AutoRanker(candidates=NARROW, random_state=0).fit_comparisons(X, winners, losers)
    assert np.corrcoef(model.predict(X), X[:, 0])[0, 1] > 0.95


def test_queries_that_are_few_and_large_are_never_cut_between_teachers_and_judges():
    rng = np.random.default_rng(0)
    queries = np.repeat(np.arange(3), 134)
    means = rng.normal(size=(3, 4))
    X = means[queries] + 0.1 * rng.normal(size=(402, 4))
    y = 3 * rng.normal(size=3)[queries] + 0.3 * rng.normal(size=402)
    model = AutoRegressor().fit(X, y, qid=queries)
    assert model.held_out_error_ > 1.0  # of a new query nothing is known
    assert sum(line.weight for line in model.candidates_) == pytest.approx(1)


def test_one_large_query_among_small_ones_leaves_enough_to_weigh_by():
    rng = np.random.default_rng(0)
    queries = np.concatenate([np.zeros(900, dtype=int), 1 + np.arange(100)])
    X = rng.normal(size=(1_000, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=1_000)
    model = AutoRegressor().fit(X, y, qid=queries)
    assert len(model._average.judged_units) >= 250


def test_weights_of_all_candidates_sum_to_one_where_some_are_dropped(monkeypatch):
    monkeypatch.setattr(fitting, "affordable", lambda n, n_parts=1: (2, n))
    X, y = rough_surface(450, seed=14)
    model = AutoRegressor(random_state=0).fit(X, y)
    assert sum(line.weight for line in model.candidates_) == pytest.approx(1)


def bad_rows(name):
    """Rows and scores that say little, at sizes at which matrices are large."""
    rng = np.random.default_rng(18)
    X, y = rough_surface(1_200, seed=18)
    if name == "constant columns":
        return np.ones((2_100, 4)), rng.standard_normal(2_100)
    if name == "duplicates by the thousand":
        return np.repeat(X[:2], 1_000, axis=0), rng.standard_normal(2_000)
    if name == "a column of 1e12":
        return np.column_stack([X, np.full(1_200, 1e12), 1e12 * X[:, 0]]), y
    if name == "identical scores":
        return rng.standard_normal((5_000, 3)), np.full(5_000, 2.0)
    return rng.standard_normal((1_000, 2_000)), y[:1_000]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:y. all scores are tied:UserWarning")
@pytest.mark.parametrize("learner", [AutoRegressor, AutoRanker])
@pytest.mark.parametrize(
    "name",
    [
        "constant columns",
        "duplicates by the thousand",
        "a column of 1e12",
        "identical scores",
        "many columns",
    ],
)
def test_many_rows_that_say_little_give_a_model_in_bounded_memory(learner, name, memory_limit):
    X, y = bad_rows(name)
    with memory_limit(900):
        model = learner().fit(X, y)
        mean, deviation = model.predict(np.vstack([X[:20], -5 * X[:20]]), return_std=True)
    reach = 2 * y.std() + 1e-9
    assert np.all((mean >= y.min() - reach) & (mean <= y.max() + reach))
    assert np.isfinite(deviation).all()
    assert model.reason_
