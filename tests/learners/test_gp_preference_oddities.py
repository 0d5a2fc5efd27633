"""PreferenceGP on input that is odd or extreme: finite, with a warning that says why."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from corank import DifferenceGP, PreferenceGP
from corank.solve import expectation_propagation
from corank.solve.expectation_propagation import PairData

pytestmark = pytest.mark.usefixtures("one_blas_thread")

rng = np.random.default_rng(7)
X = rng.normal(size=(12, 2))
FIRST, SECOND = np.arange(12), np.roll(np.arange(12), 1)
WINS = X[FIRST, 0] > X[SECOND, 0]
WINNERS, LOSERS = np.where(WINS, FIRST, SECOND), np.where(WINS, SECOND, FIRST)
NEW = rng.normal(size=(4, 2))


def finite(model, rows=NEW):
    parts = [
        model.predict(rows),
        *model.predict(rows, return_std=True),
        *model.predict(rows, return_cov=True),
    ]
    chances = model.predict_comparison(rows, rows[::-1])
    assert np.all((chances >= 0) & (chances <= 1))
    return all(np.isfinite(part).all() for part in parts) and np.isfinite(model.log_evidence_)


# ---- warned about


def test_parts_that_were_never_compared_are_warned_about():
    with pytest.warns(UserWarning, match="fall into 2 parts that are not compared with each other"):
        model = PreferenceGP(1.0, 0.5).fit_comparisons(X, [0, 1, 5], [1, 2, 6])
    assert finite(model)
    PreferenceGP(1.0, 0.5).fit_comparisons(
        X, [0, 1, 5], [1, 2, 6], qid=np.repeat([0, 1, 2], [5, 5, 2])
    )


def test_rows_in_no_comparison_are_no_part():
    data = PairData.merged(np.zeros((6, 1)), np.array([0, 3, 1]), np.array([1, 1, 0]), np.ones(3))
    assert data.n_parts == 1
    PreferenceGP(1.0, 0.5).fit(X, np.repeat([0.0, 1.0, 2.0], 4), qid=np.repeat([0, 1], [11, 1]))


def test_what_has_not_settled_is_warned_about_and_finite(monkeypatch):
    monkeypatch.setattr(
        expectation_propagation.propagate,
        "__kwdefaults__",
        {**expectation_propagation.propagate.__kwdefaults__, "sweeps": 2},
    )
    with pytest.warns(
        ConvergenceWarning,
        match=r"stopped after 2 sweeps, still moving by .* of a standard deviation",
    ):
        model = PreferenceGP(100.0, 0.5).fit_comparisons(X, WINNERS, LOSERS, weights=[50] * 12)
    assert finite(model)


def test_a_width_at_its_bound_is_warned_about():
    shuffled = X[np.random.default_rng(0).permutation(12)]
    with pytest.warns(UserWarning, match="gamma was tuned to the end of its range"):
        model = PreferenceGP(0.5).fit_comparisons(shuffled, np.arange(11), np.arange(1, 12))
    assert finite(model)


def test_answers_without_contradiction_do_not_make_the_amplitude_endless():
    model = PreferenceGP(gamma=0.5).fit_comparisons(X, np.repeat(WINNERS, 5), np.repeat(LOSERS, 5))
    assert 4 < model.amplitude_ < 1e4


# ---- odd but fine


def test_two_items_and_one_comparison():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        tuned = PreferenceGP().fit_comparisons(X[:2], [0], [1])
    fixed = PreferenceGP(2.0, 0.5).fit_comparisons(X[:2], [0], [1])
    for model in (tuned, fixed):
        assert finite(model)
        assert model.predict_comparison(X[:1], X[1:2])[0] > 0.5
        np.testing.assert_allclose(model.log_evidence_, np.log(0.5))


def test_ties_alone_leave_a_constant():
    with pytest.warns(UserWarning, match="all scores are tied within every query"):
        model = PreferenceGP().fit(X, np.repeat([1.0, 2.0], 6), qid=np.repeat([0, 1], 6))
    np.testing.assert_array_equal(model.predict(NEW), 0)
    np.testing.assert_allclose(model.predict(NEW, return_std=True)[1], 1.0)
    np.testing.assert_allclose(model.predict_comparison(NEW[:2], NEW[2:]), 0.5)
    assert (model.log_evidence_, model.amplitude_) == (0.0, 1.0)
    for both in (WINNERS, LOSERS):
        tied = PreferenceGP(2.0, 0.5).fit_comparisons(X, [*WINNERS, *LOSERS], [*LOSERS, *WINNERS])
        np.testing.assert_allclose(tied.predict_comparison(X[both], X[WINNERS]), 0.5, atol=1e-7)


def test_a_model_of_ties_learns_from_an_update():
    with pytest.warns(UserWarning, match="tied"):
        model = PreferenceGP(gamma=0.5).fit(X, np.ones(12))
    model.update(NEW, NEW[:, 0])
    assert np.ptp(model.predict(NEW)) > 0


@pytest.mark.parametrize("twin", ["copies", "constant", "one column constant"])
def test_singular_kernels_are_fine(twin):
    rows = {
        "copies": np.repeat(X[:4], 3, axis=0),
        "constant": np.ones((12, 2)),
        "one column constant": X * [1, 0],
    }
    with warnings.catch_warnings():
        # where nothing tells items apart no width is the best
        warnings.simplefilter("ignore", UserWarning)
        for options in ({}, {"amplitude": 2.0, "gamma": 0.5}, {"gamma": "columns"}, {"basis": 5}):
            model = PreferenceGP(**options).fit_comparisons(rows[twin], WINNERS, LOSERS)
            assert finite(model, np.concatenate([NEW, rows[twin]]))
    if twin == "constant":
        np.testing.assert_allclose(model.predict_comparison(rows[twin][:3], rows[twin][3:6]), 0.5)
        np.testing.assert_allclose(model.log_evidence_, 12 * np.log(0.5))


@pytest.mark.parametrize("kernel", ["linear", "cosine", "poly", "exponential", "laplacian"])
def test_kernels_of_low_rank_are_fine(kernel):
    line = X[:, :1] + 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = PreferenceGP(kernel=kernel).fit_comparisons(line, WINNERS, LOSERS)
    assert finite(model, np.linspace(0, 3, 7)[:, None])
    if kernel == "linear":
        assert np.all(np.diff(model.predict(np.linspace(0, 3, 7)[:, None])) > 0)


@pytest.mark.parametrize("size", [1e-50, 1e-8, 1e8, 1e50])
def test_the_scale_of_the_features_does_not_matter(size):
    model, scaled = (
        PreferenceGP(2.0, "scale").fit_comparisons(rows, WINNERS, LOSERS) for rows in (X, size * X)
    )
    np.testing.assert_allclose(scaled.predict(size * NEW), model.predict(NEW), atol=1e-6)


def test_the_names_of_items_do_not_matter():
    order = np.random.default_rng(1).permutation(12)
    place = np.argsort(order)
    model = PreferenceGP(2.0, 0.5).fit_comparisons(X, WINNERS, LOSERS)
    moved = PreferenceGP(2.0, 0.5).fit_comparisons(X[order], place[WINNERS], place[LOSERS])
    np.testing.assert_allclose(moved.predict(NEW), model.predict(NEW), atol=1e-8)
    swapped = PreferenceGP(2.0, 0.5).fit_comparisons(X, LOSERS, WINNERS)
    np.testing.assert_allclose(swapped.predict(NEW), -model.predict(NEW), atol=1e-8)


# ---- small problems of all kinds


def random_problem(rng):
    """Items, winners, losers, counts, gamma, amplitude: extreme widths and amplitudes,
    contradictions, duplicates.
    """
    n, size = int(rng.integers(2, 9)), int(rng.integers(1, 25))
    items = rng.normal(size=(n, int(rng.integers(1, 4)))) * 10 ** rng.uniform(-2, 2)
    if rng.random() < 0.3:
        items[rng.integers(n)] = items[rng.integers(n)]
    first = rng.integers(0, n, size)
    second = (first + rng.integers(1, n, size)) % n
    kind = rng.random()
    if kind < 0.3:  # without contradiction
        wrong = items[first, 0] < items[second, 0]
        first, second = np.where(wrong, second, first), np.where(wrong, first, second)
    elif kind < 0.5:  # ties
        first, second = np.concatenate([first, second]), np.concatenate([second, first])
    counts = (
        np.ones(len(first)) if rng.random() < 0.5 else np.floor(10 ** rng.uniform(0, 3, len(first)))
    )
    return (
        items,
        first,
        second,
        counts,
        float(10 ** rng.uniform(-6, 6)),
        float(10 ** rng.uniform(-6, 8)),
    )


def check_random_problems(count, seed=0):
    """The most sweeps that any of them took."""
    rng, most = np.random.default_rng(seed), 0
    for _ in range(count):
        items, winners, losers, counts, gamma, amplitude = random_problem(rng)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings(
                "ignore",
                message=(
                    "the comparisons fall into|X: all columns are constant|The columns of X have"
                    " ranges"
                ),
            )
            model = PreferenceGP(amplitude, gamma).fit_comparisons(
                items, winners, losers, weights=counts
            )
        assert finite(model, items)
        most = max(most, model.n_iter_)
    return most


def test_small_problems_of_all_kinds_settle():
    assert check_random_problems(60, seed=1) < expectation_propagation.MAX_SWEEPS


@pytest.mark.slow
def test_ten_thousand_small_problems_settle():
    assert check_random_problems(10_000) < expectation_propagation.MAX_SWEEPS


# ---- what the answers decide, and what they do not


@pytest.mark.filterwarnings("ignore:the comparisons fall into")
def test_an_update_keeps_every_comparison_it_had():
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 2)), rng.random(61)
    model = PreferenceGP(4.0, 1.0, max_pairs=50).fit(X, y[:60])
    before = set(zip(model._data.winners.tolist(), model._data.losers.tolist(), strict=True))
    model.update(rng.random((1, 2)), y[60:])
    after = set(zip(model._data.winners.tolist(), model._data.losers.tolist(), strict=True))
    assert before < after
    assert all(60 in pair for pair in after - before)
    assert len(after - before) == min(50, 60)


def test_units_of_the_features_do_not_decide_how_sure_a_linear_model_is():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    winners, losers = rng.integers(0, 20, 80), rng.integers(20, 40, 80)
    swap = (X @ [1, 2, 0])[winners] + rng.normal(size=80) < (X @ [1, 2, 0])[losers]
    winners, losers = np.where(swap, losers, winners), np.where(swap, winners, losers)
    small, large = (
        PreferenceGP(kernel="linear").fit_comparisons(s * X, winners, losers) for s in (1.0, 1e5)
    )
    np.testing.assert_allclose(small.amplitude_, large.amplitude_ * 1e10, rtol=1e-3)
    np.testing.assert_allclose(small.log_evidence_, large.log_evidence_, rtol=1e-6)


def test_many_answers_against_one_settle():
    X = np.append(np.random.default_rng(0).random(20), 1000.0)[:, None]
    winners, losers = np.r_[np.full(20, 20), 0], np.r_[np.arange(20), 20]
    counts = np.r_[np.full(20, 2_000), 1]
    model = PreferenceGP(1.0, kernel="linear").fit_comparisons(X, winners, losers, weights=counts)
    assert model.n_iter_ < 200


@pytest.mark.parametrize("learner", [PreferenceGP, DifferenceGP])
def test_a_column_that_never_changes_has_no_width(learner):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=30), np.full(30, 3.0), rng.normal(size=30)])
    model = learner(gamma="columns").fit(X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=30))
    assert model.gamma_[1] < 1e-3 * model.gamma_[0]


@pytest.mark.parametrize("learner", [PreferenceGP, DifferenceGP])
def test_new_comparisons_within_queries_are_learned_from(learner):
    X, qid = np.random.default_rng(0).random((6, 2)), [0, 0, 0, 1, 1, 1]
    model = learner(amplitude=1.0, gamma=1.0).fit_comparisons(X, [0, 3], [1, 4], qid=qid)
    before = model.predict(X)
    assert (model.update_comparisons(X, [0], [2], qid=qid).predict(X) != before).any()


@pytest.mark.filterwarnings("ignore:gamma was tuned to the end")
def test_averaging_stays_within_the_range_of_the_search():
    rng = np.random.default_rng(1)
    X = rng.random((12, 2))
    winners, losers = np.arange(11), np.arange(1, 12)
    model = PreferenceGP(average_width=True).fit_comparisons(X, winners, losers)
    start = 1 / (2 * X.var())
    widths = np.array([part.kernel.gamma for part in model._parts])
    assert ((widths >= start / 4**6 * 0.999) & (widths <= start * 4**6 * 1.001)).all()
    np.testing.assert_array_equal(model.coef_, model._parts[0].coefficients)
    assert model.gamma_ == widths[0]
    model.update_comparisons(X, [0], [5])
    assert model.gamma_ == widths[0]
