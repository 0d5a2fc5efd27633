"""KPCR and KPCRank against the stated objective on dense matrices: every number of components,
every held-out error.
"""

import pickle
import warnings

import array_api_strict
import brute_force.components as literal
import numpy as np
import pytest
from brute_force import (
    REGRESSION,
    Loss,
    comparison_rows,
    kernel,
    leave_groups_out,
    loss_rows,
    misordered,
    small_problem,
)
from brute_force.components import components, held_out, held_out_comparisons, nystrom
from brute_force.views import item_folds
from edited_files import round_trip
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, LeaveOneOut, ShuffleSplit

import corank.solve.components
from corank import KPCR, RLS, KPCRank, register_kernel
from corank.core.folds import balanced_folds
from corank.core.loss import WEIGHTINGS
from corank.solve import components as eigen
from corank.solve.components import MAX_TUNED_NUMBER
from corank.solve.holdout import SCORINGS

PROBLEM = small_problem(seed=5, sizes=(1, 4, 6, 3, 5))
X, Y, QID, W, NEW = PROBLEM.X, PROBLEM.y, PROBLEM.qid, PROBLEM.weights, PROBLEM.X_new
N, QUERIES = len(Y), 5
GAMMA = 0.4
KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": GAMMA},
    "poly": {"kernel": "poly", "gamma": 0.3, "degree": 2, "coef0": 0.5},
    "linear": {"kernel": "linear"},
}
RBF = kernel("rbf", GAMMA)
LINEAR = kernel("linear")
WINNERS = np.array([0, 5, 5, 9, 1, 14, 3, 8, 2, 5, 17, 11, 6, 0])
LOSERS = np.array([5, 2, 9, 1, 14, 3, 8, 2, 0, 2, 12, 17, 3, 5])
MARGINS = np.array([1, 2, 0, 0.5, 3, 1, 1, 0, 2, 1, 2, 0.1, 1, 2.0])
COUNTS = np.linspace(0.3, 2, len(WINNERS))
close = {"rtol": 1e-7, "atol": 1e-8}
every_weighting = pytest.mark.parametrize("weighting", WEIGHTINGS)
every_kernel = pytest.mark.parametrize("name", KERNELS)
every_alpha = pytest.mark.parametrize("alpha", [0.0, 0.3, 20.0])
every_scoring = pytest.mark.parametrize("scoring", SCORINGS)
weighted_or_not = pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
both = pytest.mark.parametrize("learner", [KPCR, KPCRank])
pytestmark = [
    pytest.mark.usefixtures("one_blas_thread"),
    pytest.mark.filterwarnings(
        "ignore:n_components = .* is more than these rows carry:UserWarning"
    ),
    pytest.mark.filterwarnings("ignore:The groups parameter is ignored"),
    pytest.mark.filterwarnings("ignore:X. no component tells apart the rows:UserWarning"),
]


@pytest.fixture(autouse=True)
def every_number(request, monkeypatch):
    """Look at every number of components that the rows carry, where a test does not ask for the
    usual half.
    """
    if "usual_share" not in request.keywords:
        monkeypatch.setattr(corank.solve.components, "TUNED_SHARE", 1.0)


def values_of(name):
    options = dict(KERNELS[name])
    return kernel(options.pop("kernel"), **options)


def between(k, A=X, B=NEW, weights=None):
    """The components of rows A, on new points B."""
    return components(k(A, A), k(B, A), weights)


def levelled(predictions):
    """Ranking functions are defined up to a constant."""
    return predictions - predictions[:1]


def same_order_function(found, expected, **options):
    np.testing.assert_allclose(levelled(found), levelled(expected), **(options or close))


# ---- every number of components


def regressed(found, weights=None, alpha=0.0, *, intercept=True, y=Y):
    offset = np.average(y, weights=weights) if intercept else 0.0
    return (
        literal.path(*loss_rows(y - offset, np.zeros(len(y)), REGRESSION, weights), found, alpha)
        + offset
    )


@every_kernel
@every_alpha
@weighted_or_not
@pytest.mark.parametrize("intercept", [True, False])
def test_every_number_of_components_of_kpcr(name, alpha, weights, intercept):
    found = between(values_of(name), weights=weights)
    model = KPCR(N, alpha, intercept, **KERNELS[name]).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(model.eigenvalues_, found.values, rtol=1e-6)
    np.testing.assert_allclose(
        model.predict_path(NEW),
        regressed(found, weights, alpha, intercept=intercept),
        rtol=1e-6,
        atol=1e-7,
    )


@every_kernel
@every_alpha
@every_weighting
def test_every_number_of_components_of_kpcrank(name, alpha, weighting):
    found = between(values_of(name))
    expected = literal.path(*loss_rows(Y, QID, Loss(weighting)), found, alpha)
    model = KPCRank(N, alpha, weighting, **KERNELS[name]).fit(X, Y, qid=QID)
    same_order_function(model.predict_path(NEW), expected, rtol=1e-6, atol=1e-7)


@every_alpha
@pytest.mark.parametrize("weighting", ["size", "unit"])
def test_every_number_of_components_of_kpcrank_with_weights(alpha, weighting):
    expected = literal.path(*loss_rows(Y, QID, Loss(weighting), W), between(RBF, weights=W), alpha)
    model = KPCRank(N, alpha, weighting, gamma=GAMMA).fit(X, Y, qid=QID, sample_weight=W)
    same_order_function(model.predict_path(NEW), expected)


def compared(**options):
    return KPCRank(**{"gamma": GAMMA, **options}).fit_comparisons(
        X, WINNERS, LOSERS, margins=MARGINS, weights=COUNTS
    )


USED, ENDS = np.unique(np.concatenate([WINNERS, LOSERS]), return_inverse=True)
WON, LOST = ENDS[: len(WINNERS)], ENDS[len(WINNERS) :]


@every_alpha
@every_kernel
def test_every_number_of_components_for_comparisons(alpha, name):
    found = between(values_of(name), X[USED])
    expected = literal.path(*comparison_rows(len(USED), WON, LOST, MARGINS, COUNTS), found, alpha)
    same_order_function(
        compared(n_components=len(USED), alpha=alpha, **KERNELS[name]).predict_path(NEW), expected
    )


@both
@pytest.mark.parametrize("basis", ["all", [0, 3, 4, 8, 15, 18]], ids=["all", "some"])
def test_each_number_is_what_fitting_with_it_gives(learner, basis):
    path = learner(6, 0.1, basis=basis).fit(X, Y, qid=QID).predict_path(NEW)
    for p in range(1, 7):
        model = learner(p, 0.1, basis=basis).fit(X, Y, qid=QID)
        assert model.n_components_ == p
        assert len(model.eigenvalues_) == p
        np.testing.assert_allclose(model.predict(NEW), path[:, p - 1], rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(model.predict_path(NEW), path[:, :p], rtol=1e-9, atol=1e-11)


@both
@every_alpha
def test_the_path_at_the_chosen_number_is_the_prediction(learner, alpha):
    model = learner(alpha=alpha).fit(X, Y, qid=QID)
    np.testing.assert_allclose(
        model.predict_path(NEW)[:, model.n_components_ - 1], model.predict(NEW), rtol=1e-10
    )
    assert model.predict_path(NEW).shape == (len(NEW), len(model.eigenvalues_))


@pytest.mark.parametrize("qid", [None, ["a"] * N], ids=["no query", "one query"])
@weighted_or_not
def test_with_one_query_both_are_the_same_but_for_a_constant(qid, weights):
    rank = KPCRank(N, gamma=GAMMA).fit(X, Y, qid=qid, sample_weight=weights).predict_path(NEW)
    regression = KPCR(N, gamma=GAMMA).fit(X, Y, qid=qid, sample_weight=weights).predict_path(NEW)
    same_order_function(rank, regression)
    steps = KPCRank(4, gamma=GAMMA).fit(X, Y, sample_weight=weights).predict(NEW)
    np.testing.assert_allclose(steps - steps[0], levelled(regression)[:, 3], **close)


@every_weighting
def test_the_fit_is_a_minimum_over_its_span_and_alpha_weighs_the_norm(weighting):
    alpha, K = 0.7, RBF(X, X)
    T, t = loss_rows(Y, QID, Loss(weighting))
    found = components(K, K)
    coefficients = np.linalg.solve(K, found.rows[:, :4])  # of the components as expansions
    own = KPCRank(4, alpha, weighting, gamma=GAMMA).fit(X, Y, qid=QID).coef_
    assert abs(own.sum()) < 1e-12

    def objective(c):
        return np.sum((t - T @ K @ c) ** 2) + alpha * c @ K @ c

    for direction in coefficients.T:
        direction = (
            direction
            - np.linalg.solve(K, np.ones(N))
            * direction.sum()
            / np.linalg.solve(K, np.ones(N)).sum()
        )
        for step in (1e-3, -1e-3):
            assert objective(own + step * direction) > objective(own)


@both
def test_the_order_of_rows_and_the_names_of_queries_do_not_matter(learner):
    order = np.random.default_rng(0).permutation(N)
    expected = learner(gamma=GAMMA).fit(X, Y, qid=QID)
    found = learner(gamma=GAMMA).fit(X[order], Y[order], qid=[f"user {q}" for q in QID[order]])
    assert found.n_components_ == expected.n_components_
    np.testing.assert_allclose(found.predict(NEW), expected.predict(NEW), rtol=1e-8)


def test_a_shift_of_a_query_changes_nothing():
    expected = KPCRank(N).fit(X, Y, qid=QID).predict_path(NEW)
    shifted = KPCRank(N).fit(X, Y + np.arange(5.0)[QID] * 100, qid=QID).predict_path(NEW)
    np.testing.assert_allclose(shifted, expected, rtol=1e-7, atol=1e-7)


@both
def test_unscored_rows_are_left_out(learner):
    y = np.where(np.arange(N) % 4 == 1, np.nan, Y)
    kept = ~np.isnan(y)
    model = learner(6).fit(X, y, qid=QID)
    np.testing.assert_array_equal(model.basis_, np.flatnonzero(kept))
    expected = learner(6).fit(X[kept], Y[kept], qid=QID[kept])
    # rows are gathered in another way, so that sums may be added in another order
    np.testing.assert_allclose(
        model.predict_path(NEW), expected.predict_path(NEW), rtol=1e-9, atol=1e-12
    )


@both
@pytest.mark.parametrize("basis", ["all", np.arange(2 * N)], ids=["all", "rows"])
def test_whole_weights_are_repeated_rows(learner, basis):
    counts = np.arange(N) % 3
    twice, y, qid = np.repeat(X, counts, axis=0), np.repeat(Y, counts), np.repeat(QID, counts)
    some = "all" if isinstance(basis, str) else np.flatnonzero(counts)
    others = "all" if isinstance(basis, str) else np.cumsum(counts)[counts > 0] - 1
    found = learner(8, 0.1, basis=some, gamma=GAMMA).fit(X, Y, qid=QID, sample_weight=counts)
    expected = learner(8, 0.1, basis=others, gamma=GAMMA).fit(twice, y, qid=qid)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(
        found.predict_path(NEW), expected.predict_path(NEW), rtol=1e-7, atol=1e-9
    )


@both
@pytest.mark.parametrize("basis", ["all", [0, 5, 7, 11]], ids=["all", "some"])
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_scale_of_the_weights_does_not_matter_without_alpha(learner, basis, scale):
    expected = learner(basis=basis, gamma=GAMMA).fit(X, Y, qid=QID)
    found = learner(basis=basis, gamma=GAMMA).fit(X, Y, qid=QID, sample_weight=np.full(N, scale))
    assert len(found.eigenvalues_) == len(expected.eigenvalues_)
    np.testing.assert_allclose(found.predict(NEW), expected.predict(NEW), rtol=1e-6)


@pytest.mark.parametrize("gamma", [0.3, 0.03])
def test_components_of_small_eigenvalue_are_still_centred_on_new_points(gamma):
    rows = np.random.default_rng(0).normal(size=(40, 2))
    y = np.sin(rows[:, 0]) + rows[:, 1]
    model = KPCR(40, gamma=gamma).fit(rows, y)
    assert model.eigenvalues_[-1] < 1e-9 * model.eigenvalues_[0]
    found = between(kernel("rbf", gamma), rows, rows)
    count = min(len(found.values), len(model.eigenvalues_))
    np.testing.assert_allclose(
        model.predict_path(rows)[:, :count], regressed(found, y=y)[:, :count], rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(model.coef_.sum(), 0, atol=1e-13 * np.abs(model.coef_).sum())


# ---- components that add nothing


def from_columns(*columns):
    """A kernel whose components are the given columns, which must be orthogonal and of mean 0."""
    stacked = np.stack(columns, axis=1)
    np.testing.assert_allclose(stacked.sum(axis=0), 0, atol=1e-12)
    gram = stacked.T @ stacked
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12)
    return stacked @ stacked.T


FOUR = np.repeat(np.arange(4), 3)


def across_and_within(count):
    """Orthonormal columns that are constant in every query of FOUR, and others of mean 0 in each."""
    across = np.repeat(
        np.array([[1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]]) / np.sqrt(12), 3, axis=1
    )
    draws = np.random.default_rng(2).normal(size=(12, count))
    centred = draws - np.repeat(draws.reshape(4, 3, count).mean(axis=1), 3, axis=0)
    return across, np.linalg.qr(centred)[0].T


SCORES = np.random.default_rng(3).normal(size=12)


def within_queries(predictions, queries=FOUR):
    means = np.stack([predictions[queries == q].mean(axis=0) for q in queries])
    return predictions - means


def rank_kernel(K, n_components, y=SCORES, **options):
    model = KPCRank(n_components, kernel="precomputed", **options).fit(K, y, qid=FOUR)
    expected = literal.path(
        *loss_rows(y, FOUR, Loss()), components(K, K), options.get("alpha", 0.0)
    )
    np.testing.assert_allclose(
        within_queries(model.predict_path(K)), within_queries(expected), rtol=1e-9, atol=1e-10
    )
    return model.predict_path(K)


@pytest.mark.parametrize("basis", ["all", np.arange(12)], ids=["rows", "sums"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_component_that_is_constant_in_every_query_gets_no_weight_and_later_ones_are_used(
    basis, place
):
    across, within = across_and_within(2)
    columns = list(within)
    columns.insert(place, across[0])
    K = from_columns(*(c * s for c, s in zip(columns, (3, 2, 1), strict=True)))
    path = rank_kernel(K, 3, basis=basis)
    before = path[:, place - 1] if place else np.zeros(12)
    np.testing.assert_allclose(
        levelled(path[:, place : place + 1])[:, 0], before - before[0], atol=1e-12
    )
    assert np.ptp(path[:, 2] - path[:, place]) > 0.01 or place == 2


@pytest.mark.parametrize("basis", ["all", np.arange(12)], ids=["rows", "sums"])
def test_a_component_that_the_ones_before_it_explain_gets_no_weight(basis):
    across, within = across_and_within(2)
    K = from_columns(3 * (within[0] + across[0]), 2 * (within[0] - across[0]), 1 * within[1])
    path = rank_kernel(K, 3, basis=basis)
    np.testing.assert_allclose(path[:, 1], path[:, 0], atol=1e-12)
    assert np.ptp(path[:, 2] - path[:, 1]) > 0.01


@pytest.mark.parametrize("basis", ["all", np.arange(12)], ids=["rows", "sums"])
def test_what_little_a_passed_over_component_adds_is_left_to_later_ones(basis):
    across, within = across_and_within(2)
    little = 1e-6
    second = within[0] - across[0] + little * (within[1] + across[1])
    K = from_columns(3 * (within[0] + across[0]), 2 * second, within[1] - across[1])
    path = rank_kernel(K, 3, basis=basis)
    np.testing.assert_allclose(path[:, 1], path[:, 0], atol=1e-5)
    assert np.ptp(path[:, 2] - path[:, 1]) > 0.01


def test_as_many_comparisons_as_they_tell_apart():
    # two odd components and an even one; odd ones have equal differences here
    x = np.array([-2.0, -1.0, 1.0, 2.0])
    rows = np.stack([10 * x, x**3 - 3.4 * x, 0.1 * x**2], axis=1)
    model = KPCRank(3, kernel="linear").fit_comparisons(rows, [0, 3], [1, 2], margins=[1.0, 2.0])
    path = model.predict_path(rows)
    np.testing.assert_allclose(
        path[[0, 3]] - path[[1, 2]], [[-0.5, -0.5, 1], [0.5, 0.5, 2]], atol=1e-12
    )


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.filterwarnings("error")
def test_more_components_than_rows_less_queries_change_nothing_and_it_is_said(weighting):
    with pytest.warns(
        UserWarning,
        match=rf"n_components = {N - 1} .* from {N - QUERIES} on .*rows less the queries",
    ):
        model = KPCRank(N - 1, weighting=weighting, gamma=GAMMA).fit(X, Y, qid=QID)
    path = model.predict_path(NEW)
    np.testing.assert_array_equal(
        path[:, N - QUERIES :], np.repeat(path[:, [N - QUERIES - 1]], QUERIES - 1, axis=1)
    )
    assert np.ptp(path[:, N - QUERIES - 1] - path[:, N - QUERIES - 2]) > 1e-3
    fitted = model.predict(X)
    np.testing.assert_allclose(within_queries(fitted, QID), within_queries(Y, QID), atol=1e-8)
    KPCRank(N - QUERIES, gamma=GAMMA).fit(X, Y, qid=QID)  # says nothing


@pytest.mark.filterwarnings("error")
def test_what_the_kernel_cannot_tell_apart_is_said():
    with pytest.warns(
        UserWarning, match="n_components = 8 is more than these rows carry: from 3 on"
    ):
        model = KPCR(8, kernel="linear").fit(X, Y)
    assert model.n_components_ == 3
    assert model.predict_path(NEW).shape == (9, 3)
    KPCR(N - 1, gamma=GAMMA).fit(X, Y)


ALIKE = {
    "all rows": {},
    "poly": {"kernel": "poly", "degree": 2},
    "linear": {"kernel": "linear"},
    "features": {"kernel": "linear", "basis": "features"},
    "one row": {"basis": 1},
    "two rows": {"kernel": "linear", "basis": [0, 1]},
}


@both
@pytest.mark.parametrize("way", ALIKE)
@pytest.mark.parametrize("constant", [0.0, 0.1, 1 / 3, 1e3 / 7])
@pytest.mark.parametrize("n_components", [1, "tune"])
def test_rows_that_are_all_alike(learner, way, constant, n_components):
    rows = np.full((13, 3), constant) * [1, 2, 0.7]
    y = np.arange(13.0)
    for weights in (None, np.full(13, 1e9), np.linspace(0.1, 3, 13)):
        model = learner(n_components, **ALIKE[way]).fit(rows, y, sample_weight=weights)
        assert model.eigenvalues_.tolist() == [0.0]
        assert model.n_components_ == 1
        mean = np.average(y, weights=weights) if learner is KPCR else 0.0
        np.testing.assert_allclose(model.predict(rng_rows(5, 3)), mean, rtol=1e-12)
        np.testing.assert_allclose(model.predict_path(rows), mean, rtol=1e-12)


@pytest.mark.parametrize("name", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("n", [333, 1_200])
def test_many_rows_that_are_all_alike(name, n):
    model = KPCR(2, kernel=name).fit(np.full((n, 3), 1 / 3), np.arange(n) % 7)
    assert model.eigenvalues_.tolist() == [0.0]
    np.testing.assert_allclose(model.predict(rng_rows(5, 3)), np.mean(np.arange(n) % 7), rtol=1e-12)


def rng_rows(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize(
    "options", [{}, {"kernel": "linear"}, {"kernel": "linear", "basis": "features"}, {"basis": 5}]
)
@pytest.mark.parametrize("n_components", [2, "tune"])
def test_rows_that_are_alike_in_every_query(options, n_components):
    rows = rng_rows(4, 3)[FOUR]
    model = KPCRank(n_components, **options).fit(rows, SCORES, qid=FOUR)
    assert np.abs(model.coef_).max() == 0
    assert np.all(model.predict_path(rng_rows(6, 3, seed=1)) == 0)
    if n_components == "tune":
        assert model.n_components_ == 1
        np.testing.assert_allclose(model.path_.error, model.path_.constant)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("options", [{}, {"kernel": "linear", "basis": "features"}, {"basis": 5}])
def test_queries_of_one_row_each(options):
    for weights in (None, W):
        with pytest.warns(UserWarning, match="tied|tuned") as said:
            model = KPCRank(**options).fit(X, Y, qid=np.arange(N), sample_weight=weights)
        assert [str(w.message)[:20] for w in said] == [
            "y: all scores are ti",
            "nothing was tuned: t",
        ]
        assert np.all(model.predict(NEW) == 0)


@pytest.mark.parametrize("options", [{}, {"kernel": "linear", "basis": "features"}, {"basis": 5}])
@pytest.mark.filterwarnings("ignore:y. all scores are tied:UserWarning")
def test_rounding_in_queries_of_one_row_each_is_nothing(options):
    rows, weights = rng_rows(300, 3), np.random.default_rng(1).uniform(0.1, 3, 300)
    model = KPCRank(3, **options).fit(rows, rows[:, 0], qid=np.arange(300), sample_weight=weights)
    assert np.all(model.coef_ == 0)


@both
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(
    "options", [{}, {"basis": 1}, {"kernel": "linear", "basis": "features"}, {"alpha": 0.5}]
)
@pytest.mark.filterwarnings(
    "ignore:y. all scores are tied:UserWarning", "ignore:nothing was tuned:UserWarning"
)
def test_hardly_any_rows(learner, n, options):
    model = learner(**options).fit(X[:n], Y[:n])
    path = model.predict_path(X[:n])
    assert np.isfinite(path).all()
    if n == 2 and not options:
        np.testing.assert_allclose(levelled(path[:, 0]), levelled(Y[:2]), atol=1e-12)
    if n == 1:
        np.testing.assert_allclose(path, Y[0] if learner is KPCR else 0.0)


@both
def test_duplicate_rows_carry_no_components_of_their_own(learner):
    rows, qid = np.tile(X[:5], (3, 1)), np.repeat(np.arange(3), 5)
    model = learner(15, gamma=GAMMA).fit(rows, Y[:15], qid=qid)
    assert model.n_components_ == 4
    found = between(RBF, rows)
    loss = REGRESSION if learner is KPCR else Loss()
    offset = Y[:15].mean() if learner is KPCR else 0.0
    expected = literal.path(*loss_rows(Y[:15] - offset, qid, loss), found) + offset
    same_order_function(model.predict_path(NEW), expected)


def test_scores_that_are_all_tied_give_a_constant():
    with pytest.warns(UserWarning, match="all scores are tied within every query"):
        model = KPCRank(gamma=GAMMA).fit(X, QID * 2.0, qid=QID)
    np.testing.assert_allclose(model.predict(NEW), 0, atol=1e-12)
    model = KPCR(gamma=GAMMA).fit(X, np.full(N, 7.0))
    np.testing.assert_allclose(model.predict(NEW), 7.0, rtol=1e-12)


# ---- held-out errors


def rank_error(scoring="squared", cv=None, qid=QID, **options):
    return (
        KPCRank(**{"gamma": GAMMA, "scoring": scoring, "cv": cv, **options})
        .fit(X, Y, qid=qid)
        .path_
    )


@pytest.fixture
def no_refitting(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("refitted where a closed form should serve")

    monkeypatch.setattr(corank.solve.components, "_refitted", refuse)


@every_weighting
@every_scoring
@every_alpha
@pytest.mark.usefixtures("no_refitting")
def test_leave_query_out_equals_refitting(weighting, scoring, alpha):
    found = rank_error(scoring, weighting=weighting, alpha=alpha)
    expected = held_out(
        Y, leave_groups_out(QID), between(RBF), alpha, Loss(weighting), qid=QID, score=scoring
    )
    assert len(found.error) == N - 1
    np.testing.assert_allclose(found.error, expected, rtol=1e-6)


@pytest.mark.parametrize("weighting", ["size", "unit"])
@every_scoring
@pytest.mark.usefixtures("no_refitting")
def test_weighted_leave_query_out_equals_refitting(weighting, scoring):
    model = KPCRank(gamma=GAMMA, weighting=weighting, scoring=scoring).fit(
        X, Y, qid=QID, sample_weight=W
    )
    expected = held_out(
        Y,
        leave_groups_out(QID),
        between(RBF, weights=W),
        0.0,
        Loss(weighting),
        qid=QID,
        weights=W,
        score=scoring,
    )
    np.testing.assert_allclose(model.path_.error, expected, rtol=1e-6)


@every_alpha
@weighted_or_not
@pytest.mark.parametrize("scoring", ["squared", "rescaled"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.usefixtures("no_refitting")
def test_leave_one_out_equals_refitting(alpha, weights, scoring, intercept):
    model = KPCR("tune", alpha, intercept, gamma=GAMMA, scoring=scoring).fit(
        X, Y, sample_weight=weights
    )
    expected = held_out(
        Y, leave_groups_out(np.arange(N)), between(RBF, weights=weights), alpha,
        weights=weights, intercept=intercept, score=scoring,
    )  # fmt: skip
    np.testing.assert_allclose(model.path_.error, expected, rtol=1e-5)


@every_scoring
@weighted_or_not
@pytest.mark.usefixtures("no_refitting")
def test_regression_leaves_whole_queries_out_too(scoring, weights):
    model = KPCR(gamma=GAMMA, scoring=scoring).fit(X, Y, qid=QID, sample_weight=weights)
    expected = held_out(
        Y, leave_groups_out(QID), between(RBF, weights=weights), 0.0,
        qid=QID, weights=weights, intercept=True, score=scoring,
    )  # fmt: skip
    np.testing.assert_allclose(model.path_.error, expected, rtol=1e-6)


def test_disagreement_of_rows_left_out_one_by_one_is_that_of_all_of_them():
    found = between(RBF)
    predictions = np.zeros((N, 4))
    for train, test in leave_groups_out(np.arange(N)):
        offset = Y[train].mean()
        for p in range(1, 5):
            c = np.linalg.lstsq(found.rows[train, :p], Y[train] - offset, rcond=None)[0]
            predictions[test, p - 1] = found.rows[test, :p] @ c + offset
    expected = [misordered(Y, f, np.ones(N)) for f in predictions.T]
    model = KPCR([1, 2, 3, 4], gamma=GAMMA, scoring="disagreement").fit(X, Y)
    np.testing.assert_allclose(model.path_.error, expected, rtol=1e-12)


ITEMS = leave_groups_out(item_folds(Y))


@every_weighting
@every_alpha
@every_scoring
@pytest.mark.usefixtures("no_refitting")
def test_items_of_a_nameless_query_in_ten_folds_equal_refitting(weighting, alpha, scoring):
    found = rank_error(scoring, weighting=weighting, alpha=alpha, qid=None)
    expected = held_out(Y, ITEMS, between(RBF), alpha, Loss(weighting), score=scoring)
    np.testing.assert_allclose(found.error, expected, rtol=1e-5)


@pytest.mark.parametrize("weighting", ["size", "unit"])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_weighted_items_of_a_nameless_query_equal_refitting(weighting, alpha):
    model = KPCRank(gamma=GAMMA, weighting=weighting, alpha=alpha).fit(X, Y, sample_weight=W)
    expected = held_out(Y, ITEMS, between(RBF, weights=W), alpha, Loss(weighting), weights=W)
    np.testing.assert_allclose(model.path_.error, expected, rtol=1e-5)


@every_weighting
@pytest.mark.parametrize("n", [4, 5, 6, 7])
def test_the_weight_of_a_nameless_query_follows_the_items_that_are_kept(weighting, n):
    model = KPCRank(alpha=[0.3, 2.0], weighting=weighting, kernel="linear").fit(X[:n], Y[:n])
    splits = leave_groups_out(item_folds(Y[:n]))
    found = between(LINEAR, X[:n])
    expected = [held_out(Y[:n], splits, found, alpha, Loss(weighting)) for alpha in (0.3, 2.0)]
    np.testing.assert_allclose(model.path_.error, np.concatenate(expected), rtol=1e-8)


GROUPS = {"pairs": None, "queries": np.array([0] * 10 + [0, 1, 1] + [0] * 4 + [1, 0])}


def grouped(qid):
    pairs = [(min(a, b), max(a, b)) for a, b in zip(WINNERS, LOSERS, strict=True)]
    labels = pairs if qid is None else [qid[i] for i in WINNERS]
    return np.array([list(dict.fromkeys(labels)).index(label) for label in labels])


@every_scoring
@every_alpha
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.usefixtures("no_refitting")
def test_comparisons_left_out_by_group_equal_refitting(scoring, alpha, groups):
    qid = GROUPS[groups]
    some = (
        np.flatnonzero(qid[WINNERS] == qid[LOSERS]) if qid is not None else np.arange(len(WINNERS))
    )
    model = KPCRank(gamma=GAMMA, alpha=alpha, scoring=scoring).fit_comparisons(
        X[: len(GROUPS["queries"])], WINNERS[some], LOSERS[some],
        margins=MARGINS[some], weights=COUNTS[some], qid=qid,
    )  # fmt: skip
    used, ends = np.unique(np.concatenate([WINNERS[some], LOSERS[some]]), return_inverse=True)
    expected = held_out_comparisons(
        ends[: len(some)], ends[len(some) :], leave_groups_out(grouped(qid)[some]), between(RBF, X[used]), alpha,
        margins=MARGINS[some], weights=COUNTS[some], score=scoring,
    )  # fmt: skip
    np.testing.assert_allclose(model.path_.error, expected, rtol=1e-6)


CUTS = {
    "splitter of queries": (GroupKFold(3), "orthonormalised"),
    "one query at a time": (LeaveOneGroupOut(), "orthonormalised"),
    "rows": (KFold(4, shuffle=True, random_state=0), "as they come"),
    "overlapping": (ShuffleSplit(4, test_size=0.4, random_state=1), "as they come"),
}


@pytest.mark.parametrize("kind", CUTS)
@every_scoring
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_splits_that_are_given_equal_refitting(kind, scoring, alpha):
    cv, in_turn = CUTS[kind]
    splits = list(cv.split(X, Y, QID))
    expected = held_out(
        Y, splits, between(RBF), alpha, Loss(), qid=QID, score=scoring, in_turn=in_turn
    )
    for given in (cv, splits):
        found = rank_error(scoring, given, n_components=list(range(1, 12)), alpha=alpha).error
        np.testing.assert_allclose(found, expected[:11], rtol=1e-4)


@pytest.mark.parametrize("kind", ["rows", "overlapping"])
@weighted_or_not
def test_splits_of_regression_equal_refitting(kind, weights):
    cv = CUTS[kind][0]
    splits = list(cv.split(X))
    in_turn = "orthonormalised" if kind == "rows" else "as they come"
    found = between(RBF, weights=weights)
    expected = held_out(Y, splits, found, 0.0, weights=weights, intercept=True, in_turn=in_turn)
    model = KPCR(gamma=GAMMA, cv=cv).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(model.path_.error[:12], expected[:12], rtol=1e-5)


@pytest.mark.parametrize("kind", ["rows", "overlapping"])
@every_weighting
def test_splits_of_the_items_of_a_nameless_query_equal_refitting(kind, weighting):
    cv = CUTS[kind][0]
    in_turn = "orthonormalised" if kind == "rows" else "as they come"
    expected = held_out(Y, list(cv.split(X)), between(RBF), 0.2, Loss(weighting), in_turn=in_turn)
    np.testing.assert_allclose(
        rank_error(cv=cv, weighting=weighting, alpha=0.2, qid=None).error, expected, rtol=1e-6
    )


def test_splits_of_comparisons_equal_refitting():
    cv = KFold(4, shuffle=True, random_state=0)
    splits = list(cv.split(WINNERS))
    expected = held_out_comparisons(
        WON,
        LOST,
        splits,
        between(RBF, X[USED]),
        0.2,
        margins=MARGINS,
        weights=COUNTS,
        in_turn="as they come",
    )
    for given in (cv, splits):
        np.testing.assert_allclose(compared(alpha=0.2, cv=given).path_.error, expected, rtol=1e-6)


def test_lists_of_splits_speak_of_the_rows_of_x():
    y = np.where(np.arange(N) % 5 == 0, np.nan, Y)
    kept = ~np.isnan(y)
    splits = list(KFold(3).split(X))
    places = np.cumsum(kept) - 1
    inner = [(places[a[kept[a]]], places[b[kept[b]]]) for a, b in splits]
    found = KPCRank(gamma=GAMMA, cv=splits, alpha=0.2).fit(X, y, qid=QID).path_.error
    expected = (
        KPCRank(gamma=GAMMA, cv=inner, alpha=0.2).fit(X[kept], y[kept], qid=QID[kept]).path_.error
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_single_rows_of_queries_cannot_be_told_apart_and_it_is_said():
    with pytest.warns(UserWarning, match="nothing was tuned: too little to hold anything out"):
        model = KPCRank([2, 5, 9], gamma=GAMMA, cv=LeaveOneOut()).fit(X, Y, qid=QID)
    assert model.n_components_ == 9
    assert model.path_ is None


def test_the_number_that_was_asked_for_stays_where_only_the_width_could_not_be_tuned():
    with pytest.warns(UserWarning, match="nothing was tuned.* n_components was set to 15"):
        model = KPCR(15, gamma="tune", scoring="disagreement").fit(X, Y, qid=np.arange(N))
    assert model.n_components_ == 15


@pytest.mark.parametrize("weighting", ["size", "unit"])
def test_columns_that_the_kept_rows_keep_nothing_of_are_passed_over(weighting):
    # the second component lives in one query alone; the third is mixed with it
    across, within = across_and_within(4)
    alone = np.zeros(12)
    alone[3:6] = [2, -1, -1] / np.sqrt(6)
    rest = within[:3] - np.outer(within[:3] @ alone, alone)
    a, b, c = np.linalg.qr(rest.T)[0].T
    K = from_columns(4 * a, 3 * (alone + across[0]), 2 * (b + alone - across[0]), 1 * c)
    found = components(K, K)
    for scoring in SCORINGS:
        model = KPCRank(kernel="precomputed", weighting=weighting, scoring=scoring).fit(
            K, SCORES, qid=FOUR
        )
        expected = held_out(
            SCORES, leave_groups_out(FOUR), found, 0.0, Loss(weighting), qid=FOUR, score=scoring
        )
        np.testing.assert_allclose(model.path_.error, expected, rtol=1e-8)


@pytest.mark.parametrize("seed", [3, 8, 20, 24, 49, 50])
def test_held_out_errors_stay_as_they_are_once_the_kept_rows_are_used_up(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 20))
    rows, y = rng.normal(size=(n, 2)), rng.normal(size=n)
    model = KPCRank(gamma=0.5).fit(rows, y)
    folds = item_folds(y)
    expected = held_out(
        y, leave_groups_out(folds), between(kernel("rbf", 0.5), rows, rows), 0.0, Loss()
    )
    np.testing.assert_allclose(model.path_.error, expected, rtol=1e-6)
    least = n - np.bincount(folds).max() - 1  # what the other rows of the largest fold carry
    assert least < len(expected)


# ---- components of some rows, and of the columns


SOME = np.array([0, 3, 4, 8, 15, 18])


@every_alpha
@weighted_or_not
@pytest.mark.parametrize("basis", [SOME, np.arange(N)], ids=["some", "every row"])
def test_every_number_of_components_on_a_basis(alpha, weights, basis):
    found = between(nystrom(RBF, X[basis]), weights=weights)
    model = KPCR(len(basis), alpha, basis=basis, gamma=GAMMA).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(
        model.predict_path(NEW), regressed(found, weights, alpha), rtol=1e-6, atol=1e-6
    )
    np.testing.assert_array_equal(model.basis_, basis)
    np.testing.assert_allclose(model.eigenvalues_, found.values, rtol=1e-6)
    rank = KPCRank(len(basis), alpha, basis=basis, gamma=GAMMA).fit(
        X, Y, qid=QID, sample_weight=weights
    )
    same_order_function(
        rank.predict_path(NEW),
        literal.path(*loss_rows(Y, QID, Loss(), weights), found, alpha),
        rtol=1e-6,
        atol=1e-6,
    )


@both
def test_a_basis_of_every_row_is_all_of_them(learner):
    found = learner(N, basis=np.arange(N), gamma=GAMMA).fit(X, Y, qid=QID)
    expected = learner(N, basis="all", gamma=GAMMA).fit(X, Y, qid=QID)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-8)
    same_order_function(found.predict_path(NEW), expected.predict_path(NEW), rtol=1e-6, atol=1e-6)


@both
@pytest.mark.parametrize("selection", ["pivoted", "random"])
def test_a_number_of_rows_is_a_choice_of_them(learner, selection):
    model = learner(5, basis=7, basis_selection=selection, random_state=3).fit(X, Y, qid=QID)
    assert len(model.basis_) == 7
    np.testing.assert_array_equal(model.basis_points_, X[model.basis_])
    expected = learner(5, basis=model.basis_).fit(X, Y, qid=QID)
    np.testing.assert_allclose(model.predict_path(NEW), expected.predict_path(NEW), rtol=1e-9)


@both
def test_a_basis_may_hold_rows_without_a_score(learner):
    y = np.where(np.isin(np.arange(N), SOME[:3]), np.nan, Y)
    kept = ~np.isnan(y)
    model = learner(5, basis=SOME, gamma=GAMMA).fit(X, y, qid=QID)
    found = between(nystrom(RBF, X[SOME]), X[kept])
    offset = Y[kept].mean() if learner is KPCR else 0.0
    loss = REGRESSION if learner is KPCR else Loss()
    expected = literal.path(*loss_rows(Y[kept] - offset, QID[kept], loss), found)[:, :5] + offset
    same_order_function(model.predict_path(NEW), expected, rtol=1e-6, atol=1e-7)


def test_components_of_the_columns_are_principal_component_regression():
    rows, new = rng_rows(40, 6) @ rng_rows(6, 6, 1) + 3, rng_rows(10, 6, 2) + 3
    y = rows[:, 0] - rows[:, 1] + rng_rows(40, 1, 3)[:, 0]
    model = KPCR(6, kernel="linear", basis="features").fit(rows, y)
    path = model.predict_path(new)
    for p in range(1, 7):
        pca = PCA(p).fit(rows)
        regression = LinearRegression().fit(pca.transform(rows), y)
        np.testing.assert_allclose(
            path[:, p - 1], regression.predict(pca.transform(new)), rtol=1e-9
        )
    np.testing.assert_allclose(
        model.eigenvalues_, PCA(6).fit(rows).explained_variance_ * 39, rtol=1e-9
    )
    np.testing.assert_allclose(
        path, KPCR(6, kernel="linear").fit(rows, y).predict_path(new), rtol=1e-8
    )
    assert model.coef_.shape == (6,)
    assert model.basis_ is None


def test_more_columns_than_rows():
    rows = rng_rows(12, 30)
    found = KPCRank(30, kernel="linear", basis="features").fit(rows, SCORES, qid=FOUR)
    assert found.n_components_ == 11
    expected = KPCRank(11, kernel="linear").fit(rows, SCORES, qid=FOUR)
    np.testing.assert_allclose(
        found.predict_path(rows), expected.predict_path(rows), rtol=1e-6, atol=1e-8
    )


@every_scoring
@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("kind", [*CUTS, "own"])
def test_hold_out_from_sums_equals_refitting(scoring, alpha, kind):
    found = between(nystrom(RBF, X[SOME]))
    cv = None if kind == "own" else CUTS[kind][0]
    own = balanced_folds(QUERIES, QUERIES, np.random.default_rng(0))[QID]
    splits = leave_groups_out(own) if cv is None else list(cv.split(X, Y, QID))
    expected = held_out(
        Y, splits, found, alpha, Loss(), qid=QID, score=scoring, in_turn="as they come"
    )
    np.testing.assert_allclose(
        rank_error(scoring, cv, basis=SOME, alpha=alpha).error, expected, rtol=1e-6
    )


@every_weighting
def test_hold_out_of_items_from_sums_equals_refitting(weighting):
    found = between(nystrom(RBF, X[SOME]))
    for alpha in (0.0, 0.3):
        expected = held_out(Y, ITEMS, found, alpha, Loss(weighting), in_turn="as they come")
        path = rank_error(basis=SOME, alpha=alpha, weighting=weighting, qid=None)
        np.testing.assert_allclose(path.error, expected, rtol=1e-6)


@pytest.mark.parametrize("scoring", ["squared", "rescaled"])
@weighted_or_not
def test_hold_out_of_regression_from_sums_equals_refitting(scoring, weights):
    found = between(nystrom(RBF, X[SOME]), weights=weights)
    splits = leave_groups_out(balanced_folds(N, 10, np.random.default_rng(0)))
    model = KPCR(gamma=GAMMA, basis=SOME, scoring=scoring, alpha=[0.0, 0.3]).fit(
        X, Y, sample_weight=weights
    )
    expected = [
        held_out(
            Y,
            splits,
            found,
            alpha,
            weights=weights,
            intercept=True,
            score=scoring,
            in_turn="as they come",
        )
        for alpha in (0.0, 0.3)
    ]
    np.testing.assert_allclose(model.path_.error, np.concatenate(expected), rtol=1e-6)


def test_splits_of_regression_on_a_basis_equal_refitting():
    cv = CUTS["overlapping"][0]
    found = between(nystrom(RBF, X[SOME]))
    expected = held_out(Y, list(cv.split(X)), found, 0.3, intercept=True, in_turn="as they come")
    np.testing.assert_allclose(
        KPCR(alpha=0.3, gamma=GAMMA, basis=SOME, cv=cv).fit(X, Y).path_.error, expected, rtol=1e-6
    )


def test_hold_out_of_comparisons_from_sums_equals_refitting():
    found = between(nystrom(RBF, X[SOME]), X[USED])
    groups = grouped(None)
    folds = balanced_folds(groups.max() + 1, 10, np.random.default_rng(0))[groups]
    expected = held_out_comparisons(
        WON,
        LOST,
        leave_groups_out(folds),
        found,
        0.0,
        margins=MARGINS,
        weights=COUNTS,
        in_turn="as they come",
    )
    np.testing.assert_allclose(compared(basis=SOME).path_.error, expected, rtol=1e-6)


# ---- other kernels and arrays


@both
@pytest.mark.parametrize("basis", ["all", SOME], ids=["all", "some"])
def test_a_kernel_matrix_is_its_kernel(learner, basis):
    y = np.where(np.arange(N) == 7, np.nan, Y)
    for alpha in (0.0, 0.2):
        expected = learner(alpha=alpha, basis=basis, gamma=GAMMA).fit(X, y, qid=QID)
        found = learner(alpha=alpha, basis=basis, kernel="precomputed").fit(RBF(X, X), y, qid=QID)
        assert found.n_components_ == expected.n_components_
        same_order_function(
            found.predict_path(RBF(NEW, X)), expected.predict_path(NEW), rtol=1e-6, atol=1e-7
        )


@both
def test_a_kernel_matrix_is_not_changed(learner):
    K = RBF(X, X)
    for options in ({}, {"basis": SOME}, {"basis": 4}):
        learner(3, kernel="precomputed", **options).fit(K, Y, qid=QID)
    np.testing.assert_array_equal(K, RBF(X, X))


@both
@pytest.mark.parametrize(
    "options", [{}, {"basis": SOME}, {"kernel": "linear", "basis": "features"}], ids=str
)
def test_csr_is_its_dense_matrix(learner, options):
    dense = np.where(np.abs(X) > 0.4, X, 0.0)
    new = np.where(np.abs(NEW) > 0.4, NEW, 0.0)
    expected = learner(**options).fit(dense, Y, qid=QID)
    for kind in (sparse.csr_array, sparse.csr_matrix):
        found = learner(**options).fit(kind(dense), Y, qid=QID)
        assert found.n_components_ == expected.n_components_
        np.testing.assert_allclose(found.path_.error, expected.path_.error, rtol=1e-6)
        for own in (new, kind(new)):
            same_order_function(found.predict_path(own), expected.predict_path(new))
            np.testing.assert_allclose(
                found.predict(own), expected.predict(new), rtol=1e-7, atol=1e-8
            )
    same_order_function(expected.predict_path(sparse.csr_array(new)), expected.predict_path(new))


@both
def test_a_function_may_be_the_kernel(learner):
    found = learner(
        5, kernel=lambda A, B, power: (A @ B.T + 1) ** power, kernel_params={"power": 2}
    )
    expected = learner(5, kernel="poly", gamma=1.0, degree=2)
    np.testing.assert_allclose(
        found.fit(X, Y, qid=QID).predict_path(NEW),
        expected.fit(X, Y, qid=QID).predict_path(NEW),
        rtol=1e-8,
    )


@both
@pytest.mark.parametrize(
    "options", [{}, {"basis": SOME}, {"kernel": "linear", "basis": "features"}], ids=str
)
def test_single_precision(learner, options):
    narrow = learner(3, **options).fit(X.astype(np.float32), Y, qid=QID)
    wide = learner(3, **options).fit(X.astype(np.float32).astype(float), Y, qid=QID)
    for name in ("predict", "predict_path"):
        found = getattr(narrow, name)(NEW.astype(np.float32))
        assert found.dtype == np.float32
        np.testing.assert_allclose(
            found, getattr(wide, name)(NEW.astype(np.float32).astype(float)), rtol=1e-4
        )
    assert narrow.eigenvalues_.dtype == narrow.coef_.dtype == np.float64


class Library:
    """How a backend makes arrays and gives them back."""

    def __init__(self, name):
        self.module = pytest.importorskip(name)

    def array(self, values):
        return None if values is None else self.module.asarray(values)

    def numpy(self, values):
        assert type(values).__module__.split(".")[0] == self.module.__name__
        return values.numpy() if hasattr(values, "numpy") else np.from_dlpack(values)


WAYS = {
    "tuned": {},
    "fixed": {"n_components": 4},
    "all there are": {"n_components": N - 1},
    "alphas": {"alpha": [0.0, 0.5]},
    "widths": {"gamma": [0.1, 0.5], "n_components": [1, 2, 5]},
    "rescaled": {"scoring": "rescaled"},
    "disagreement": {"scoring": "disagreement"},
    "some": {"basis": SOME},
    "a number": {"basis": 5},
    "columns": {"kernel": "linear", "basis": "features"},
    "cut queries": {"cv": KFold(3), "n_components": [1, 2, 3]},
    "poly": {"kernel": "poly", "degree": 2},
}


@pytest.fixture(params=["torch", pytest.param("array_api_strict", marks=pytest.mark.slow)])
def library(request):
    return Library(request.param)


@both
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("with_queries", [True, False])
def test_other_libraries_give_what_numpy_gives(library, learner, way, with_queries):
    qid, weights = (QID, None) if with_queries else (None, W)
    expected = learner(**WAYS[way]).fit(X, Y, qid=qid, sample_weight=weights)
    found = learner(**WAYS[way]).fit(
        library.array(X), library.array(Y), qid=qid, sample_weight=library.array(weights)
    )
    new = library.array(NEW)
    np.testing.assert_allclose(
        library.numpy(found.predict(new)), expected.predict(NEW), rtol=1e-6, atol=1e-8
    )
    for path in (library.numpy(found.predict_path(new)), found.predict_path(NEW)):
        np.testing.assert_allclose(path, expected.predict_path(NEW), rtol=1e-6, atol=1e-6)
    assert found.n_components_ == expected.n_components_
    if expected.path_ is not None:
        np.testing.assert_allclose(found.path_.error, expected.path_.error, rtol=1e-5)


@pytest.mark.parametrize("way", ["tuned", "alphas", "disagreement", "some"])
def test_comparisons_of_other_libraries(library, way):
    expected = KPCRank(**WAYS[way]).fit_comparisons(X, WINNERS, LOSERS, margins=MARGINS)
    ends = [library.array(v) for v in (WINNERS, LOSERS)]
    found = KPCRank(**WAYS[way]).fit_comparisons(
        library.array(X), *ends, margins=library.array(MARGINS)
    )
    np.testing.assert_allclose(
        library.numpy(found.predict(library.array(NEW))), expected.predict(NEW), rtol=1e-6
    )


@both
@pytest.mark.parametrize(
    "rows", [np.ones((5, 2)), np.zeros((5, 2)), X[:1], X[:2]], ids=["alike", "zero", "one", "two"]
)
@pytest.mark.filterwarnings(
    "ignore:y. all scores are tied:UserWarning", "ignore:nothing was tuned:UserWarning"
)
def test_rows_of_other_libraries_that_carry_hardly_anything(library, learner, rows):
    for options in (
        {},
        {"kernel": "linear"},
        {"basis": 1},
        {"kernel": "linear", "basis": "features"},
    ):
        model = learner(**options).fit(library.array(rows), library.array(Y[: len(rows)]))
        expected = learner(**options).fit(rows, Y[: len(rows)])
        np.testing.assert_allclose(
            library.numpy(model.predict_path(library.array(rows))),
            expected.predict_path(rows),
            atol=1e-12,
        )


@both
@pytest.mark.parametrize("way", WAYS)
def test_everything_stays_where_the_rows_are(learner, way):
    torch = pytest.importorskip("torch")
    rows, y, weights, new = (torch.asarray(v) for v in (X, Y, W, NEW))
    with torch.device("meta"):  # what is made without saying where cannot be computed with
        model = learner(**WAYS[way]).fit(rows, y, qid=QID, sample_weight=weights)
        model = learner(**WAYS[way]).fit(rows, y)
        assert model.predict_path(new).device == new.device
        assert model.predict(new).device == new.device


@both
@pytest.mark.parametrize("name", ["predict", "predict_path"])
def test_models_on_csr_refuse_other_libraries_in_words(learner, name):
    model = learner(2).fit(sparse.csr_array(X), Y)
    with pytest.raises(ValueError, match="fitted on a CSR matrix; X must be a NumPy array or CSR"):
        getattr(model, name)(array_api_strict.asarray(NEW))


# ---- the leading eigenvalues


def symmetric(values, seed=0):
    q = np.linalg.qr(rng_rows(len(values), len(values), seed))[0]
    matrix = (q * values) @ q.T
    return (matrix + matrix.T) / 2


SPECTRA = {
    "fast": lambda n: 0.7 ** np.arange(n),
    "slow": lambda n: 1 / np.sqrt(np.arange(1.0, n + 1)),
    "equal": np.ones,
    "pairs": lambda n: np.repeat(np.arange(n // 2, 0, -1.0) ** 2, 2),
    "rank three": lambda n: np.r_[3.0, 3.0, 1.0, np.zeros(n - 3)],
    "zero": np.zeros,
}


def leading(matrix, count, **settings):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"MAX_FULL_ROWS": 50, **settings}.items():
            patch.setattr(eigen, name, value)
        return eigen.leading_eigenpairs(matrix, count, float(np.abs(matrix).max()))


def check_pairs(matrix, values, vectors, count):
    expected = np.clip(np.linalg.eigvalsh(matrix)[::-1][:count], 0, None)
    size = max(expected[0], 1e-300)
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-13 * size)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(count), atol=1e-10)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=2e-9 * size)


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("count", [1, 12])
def test_leading_eigenvalues_are_those_of_the_full_decomposition(spectrum, count, monkeypatch):
    matrix = symmetric(SPECTRA[spectrum](300))

    def refuse(*args):
        raise AssertionError("decomposed as a whole")

    if spectrum != "zero":
        monkeypatch.setattr(eigen, "eigh", refuse)
    check_pairs(matrix, *leading(matrix, count), count)


def test_leading_components_of_many_rows(monkeypatch):
    n = 400
    rows = rng_rows(n, 3)
    y = np.sin(rows[:, 0]) + rows[:, 1]
    qid = np.arange(n) // 11
    expected = KPCRank(12, gamma=0.2).fit(rows, y, qid=qid)
    monkeypatch.setattr(eigen, "MAX_FULL_ROWS", 50)
    found = KPCRank(12, gamma=0.2).fit(rows, y, qid=qid)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(
        found.predict_path(rows[:50]), expected.predict_path(rows[:50]), rtol=1e-6, atol=1e-7
    )


def test_where_the_iteration_does_not_settle_all_are_found():
    matrix = symmetric(np.linspace(2, 1, 200))
    check_pairs(matrix, *leading(matrix, 5, MAX_RESTARTS=1), 5)


@pytest.mark.parametrize("spectrum", ["fast", "rank three", "zero"])
def test_leading_eigenvalues_in_other_libraries(library, spectrum):
    matrix = symmetric(SPECTRA[spectrum](120))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eigen, "MAX_FULL_ROWS", 50)
        values, vectors = eigen.leading_eigenpairs(library.array(matrix), 6, 1.0)
    check_pairs(matrix, library.numpy(values), library.numpy(vectors), 6)


def test_few_components_of_many_rows_with_weights(monkeypatch):
    rows, weights = rng_rows(150, 3), np.random.default_rng(1).uniform(0.2, 2, 150)
    y = rows[:, 0] ** 2
    expected = KPCR(9, gamma=0.2).fit(rows, y, sample_weight=weights).predict_path(rows)
    monkeypatch.setattr(eigen, "MAX_FULL_ROWS", 50)
    found = KPCR(9, gamma=0.2).fit(rows, y, sample_weight=weights).predict_path(rows)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


# ---- what is chosen


@both
@every_scoring
def test_the_least_held_out_error_is_chosen(learner, scoring):
    path = (
        learner(alpha=[0.0, 0.1, 3.0], gamma=[0.05, 0.5], scoring=scoring).fit(X, Y, qid=QID).path_
    )
    assert path.scoring == scoring
    assert path.error[path.best] == path.error.min()
    assert (
        len(path.error)
        == len(path.alpha)
        == len(path.gamma)
        == len(path.n_components)
        == len(path.standard_error)
    )


@both
def test_a_search_is_the_searches_of_its_parts(learner):
    model = learner([1, 3, 6], [0.0, 0.5], gamma=[0.1, 1.0]).fit(X, Y, qid=QID)
    parts = [
        learner([1, 3, 6], alpha, gamma=gamma).fit(X, Y, qid=QID)
        for gamma in (0.1, 1.0)
        for alpha in (0.0, 0.5)
    ]
    np.testing.assert_allclose(
        model.path_.error, np.concatenate([part.path_.error for part in parts]), rtol=1e-9
    )
    np.testing.assert_array_equal(model.path_.n_components, np.tile([1, 3, 6], 4))
    np.testing.assert_array_equal(model.path_.alpha, np.tile(np.repeat([0.0, 0.5], 3), 2))
    np.testing.assert_array_equal(model.path_.gamma, np.repeat([0.1, 1.0], 6))
    best = min(parts, key=lambda part: part.path_.error.min())
    chosen = (model.n_components_, model.alpha_, model.gamma_)
    assert chosen == (best.n_components_, best.alpha_, best.gamma_)
    np.testing.assert_allclose(model.predict(NEW), best.predict(NEW), rtol=1e-10)
    np.testing.assert_allclose(model.predict_path(NEW), best.predict_path(NEW), rtol=1e-10)


@both
def test_among_equal_errors_the_fewest_components_are_taken(learner):
    across, within = across_and_within(1)
    y = 10 * within[0] + across[2]
    K = from_columns(3 * within[0], 2 * across[0], across[1])
    if learner is KPCR:
        y = y - across[2]
        K = from_columns(3 * within[0])  # one component, asked for in many ways
    model = learner([1, 2, 3] if learner is KPCRank else [1], kernel="precomputed").fit(
        K, y, qid=FOUR
    )
    assert model.n_components_ == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tied = KPCRank([1, 2, 3], kernel="precomputed", scoring="disagreement").fit(K, y, qid=FOUR)
    assert tied.n_components_ == 1


@both
def test_every_width_around_the_scale_is_tried(learner):
    model = learner([1, 2], gamma="tune").fit(X, Y, qid=QID)
    assert len(np.unique(model.path_.gamma)) == 7
    assert model.gamma_ == model.path_.gamma[model.path_.best]
    assert model.n_components_ == model.path_.n_components[model.path_.best]


def test_the_constant_is_what_any_number_should_beat():
    model = KPCRank(gamma=GAMMA).fit(X, Y, qid=QID)
    _, t = loss_rows(Y, QID, Loss())
    np.testing.assert_allclose(model.path_.constant, t @ t / (N - QUERIES), rtol=1e-12)


def test_tuning_looks_at_no_more_than_two_hundred():
    rows = rng_rows(MAX_TUNED_NUMBER + 30, 40)
    model = KPCR(gamma=0.05).fit(rows, rows[:, 0])
    np.testing.assert_array_equal(model.path_.n_components, np.arange(1, MAX_TUNED_NUMBER + 1))
    assert model.predict_path(rows[:2]).shape == (2, MAX_TUNED_NUMBER)
    wider = KPCR(MAX_TUNED_NUMBER + 10, gamma=0.05).fit(rows, rows[:, 0])
    np.testing.assert_allclose(
        wider.predict_path(rows[:2])[:, :MAX_TUNED_NUMBER],
        model.predict_path(rows[:2]),
        rtol=1e-7,
        atol=1e-9,
    )


def test_numbers_may_come_in_any_order_and_twice():
    model = KPCR(np.array([6, 2, 2, 4]), gamma=GAMMA).fit(X, Y)
    np.testing.assert_array_equal(model.path_.n_components, [2, 4, 6])
    assert model.predict_path(NEW).shape == (9, 6)


# ---- bad input


def refusals(table):
    return pytest.mark.parametrize(("options", "message"), table.values(), ids=table.keys())


@both
@refusals(
    {
        "zero": ({"n_components": 0}, "n_components must be .* got 0"),
        "negative": ({"n_components": -1}, "n_components must be .* got -1"),
        "over the rows": ({"n_components": 20}, "n_components = 20 must lie between 1 and 19"),
        "over the basis": ({"n_components": 4, "basis": 3}, "n_components = 4 must lie between 1 and 3"),
        "over the rows of a basis": ({"n_components": 4, "basis": [1, 2]}, "n_components = 4 .* between 1 and 2"),
        "over the columns": (
            {"n_components": 4, "basis": "features", "kernel": "linear"},
            "n_components = 4 must lie between 1 and 3",
        ),
        "one of a list": ({"n_components": [1, 30]}, "n_components = 30 must lie between"),
        "a fraction": ({"n_components": 1.5}, "n_components must be .* got 1.5"),
        "a whole float": ({"n_components": 2.0}, "n_components must be .* got "),
        "fractions": ({"n_components": [1, 2.5]}, "n_components must be .* got "),
        "text": ({"n_components": "all"}, "n_components must be .* got 'all'"),
        "no number": ({"n_components": []}, "n_components must be .* got "),
        "yes": ({"n_components": True}, "n_components must be .* got "),
        "yeses": ({"n_components": [True, 2]}, "n_components must be .* got "),
        "nothing": ({"n_components": None}, "n_components must be .* got "),
        "a table": ({"n_components": [[1, 2]]}, "n_components must be .* got "),
        "alpha negative": ({"alpha": -0.1}, "alpha must be 0 or more"),
        "alpha NaN": ({"alpha": np.nan}, "alpha must be 0 or more"),
        "alpha infinite": ({"alpha": np.inf}, "alpha must be 0 or more"),
        "alpha of text": ({"alpha": "tune"}, "alpha 'tune' is not known"),
        "alpha None": ({"alpha": None}, "alpha must be a number"),
        "one alpha negative": ({"alpha": [0.1, -1]}, "alpha must be 0 or more"),
        "no alpha": ({"alpha": []}, "alpha must be 0 or more"),
        "gamma zero": ({"gamma": 0}, "gamma"),
        "gamma text": ({"gamma": "auto"}, "gamma 'auto' is not known"),
        "scoring": ({"scoring": "square"}, "scoring 'square' is not known; use None or 'squared'"),
        "basis": ({"basis": "some"}, "basis 'some' is not known"),
        "basis outside": ({"basis": [0, 99]}, "basis holds row 99"),
        "basis too large": ({"basis": 20}, "basis = 20 must lie between 1 and"),
        "basis of columns": ({"basis": "features"}, "basis='features' needs kernel='linear'"),
        "selection": ({"basis": 3, "basis_selection": "best"}, "basis_selection 'best' is not known"),
        "kernel": ({"kernel": "gauss"}, "kernel 'gauss' is not known; choose from"),
    }
)  # fmt: skip
def test_what_cannot_be_is_refused_in_words(learner, options, message):
    with pytest.raises(ValueError, match=message):
        learner(**options).fit(X, Y, qid=QID)


def test_weightings_and_weights_are_refused_in_words():
    with pytest.raises(
        ValueError, match="weighting 'sizes' is not known; use 'size', 'unit' or 'query'"
    ):
        KPCRank(weighting="sizes").fit(X, Y)
    with pytest.raises(ValueError, match="sample_weight does not go with weighting='query'"):
        KPCRank(weighting="query").fit(X, Y, qid=QID, sample_weight=W)
    with pytest.raises(ValueError, match="between rows of two queries"):
        KPCRank().fit_comparisons(X, [0], [1], qid=np.arange(N))
    with pytest.raises(ValueError, match="n_components = 5 must lie between 1 and 4"):
        KPCRank(5).fit_comparisons(X, [0, 2], [1, 3])  # four rows are compared


@both
def test_a_kernel_that_is_none_is_refused(learner):
    K = RBF(X, X)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        learner(kernel="precomputed").fit(K - 2 * np.eye(N), Y)
    with pytest.raises(ValueError, match="kernel is not positive semi-definite on these rows"):
        learner(3, kernel=lambda A, B: -(A @ B.T)).fit(X, Y)
    with pytest.raises(ValueError, match="kernel gives NaN or infinity"):
        learner(3, kernel=lambda A, B: np.full((len(A), len(B)), np.nan)).fit(X, Y)


@both
def test_what_is_not_fitted_says_so(learner):
    for call in (lambda m: m.predict(X), lambda m: m.predict_path(X), lambda m: m.update(X, Y)):
        with pytest.raises(NotFittedError):
            call(learner())


@both
@pytest.mark.parametrize("options", [{}, {"basis": SOME}], ids=["all", "some"])
def test_update_is_refused(learner, options):
    with pytest.raises(
        ValueError, match="update cannot add to components, which change with the rows; fit again"
    ):
        learner(3, **options).fit(X, Y, qid=QID).update(X, Y, qid=QID)


@both
def test_new_rows_of_another_width_are_refused(learner):
    model = learner(3).fit(X, Y)
    for call in (model.predict, model.predict_path):
        with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3 features"):
            call(NEW[:, :2])


# ---- files, copies, scikit-learn


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.corank"


@both
@pytest.mark.parametrize("way", [*WAYS, "csr", "precomputed"])
def test_what_is_loaded_predicts_as_what_was_saved(learner, way, path):
    rows, new, options = X, NEW, WAYS.get(way, {})
    if way == "csr":
        rows, new = sparse.csr_array(X), sparse.csr_array(NEW)
    if way == "precomputed":
        rows, new, options = RBF(X, X), RBF(NEW, X), {"kernel": "precomputed"}
    model = learner(**options).fit(rows, Y, qid=QID)
    loaded = round_trip(model, path)
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    for name in ("n_components_", "alpha_", "gamma_", "intercept_"):
        assert getattr(loaded, name) == getattr(model, name)
    np.testing.assert_array_equal(loaded.eigenvalues_, model.eigenvalues_)
    if model.path_ is not None:
        np.testing.assert_array_equal(loaded.path_.n_components, model.path_.n_components)
        np.testing.assert_array_equal(loaded.path_.error, model.path_.error)
    with pytest.raises(ValueError, match="predict_path needs the factorisation that fit made"):
        loaded.predict_path(new)
    with pytest.raises(ValueError, match="update cannot add to components"):
        loaded.update(rows, Y, qid=QID)
    again = loaded.fit(rows, Y, qid=QID)
    np.testing.assert_array_equal(again.predict_path(new), model.predict_path(new))


def test_models_on_tensors_load_as_numpy(path):
    torch = pytest.importorskip("torch")
    model = KPCRank().fit(torch.asarray(X), torch.asarray(Y), qid=QID)
    loaded = round_trip(model, path)
    assert isinstance(loaded.eigenvalues_, np.ndarray)
    np.testing.assert_allclose(
        loaded.predict(NEW), model.predict(torch.asarray(NEW)).numpy(), rtol=1e-10
    )


def test_comparisons_and_registered_kernels_are_saved(path, named_functions):
    register_kernel("shifted", lambda A, B: A @ B.T + 2.0)
    model = compared(kernel="shifted", alpha=[0.0, 1.0])
    np.testing.assert_array_equal(round_trip(model, path).predict(NEW), model.predict(NEW))


@both
@pytest.mark.parametrize("way", ["tuned", "some", "columns"])
def test_pickles_and_clones(learner, way):
    model = learner(**WAYS[way]).fit(X, Y, qid=QID)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(NEW), model.predict(NEW))
    np.testing.assert_array_equal(copy.predict_path(NEW), model.predict_path(NEW))
    fresh = clone(model)
    assert not hasattr(fresh, "coef_")
    np.testing.assert_array_equal(
        fresh.fit(X, Y, qid=QID).predict_path(NEW), model.predict_path(NEW)
    )


def test_regression_without_a_cut_is_what_rls_tends_to():
    rows = rng_rows(30, 2)
    y = rows[:, 0] + 0.1 * rng_rows(30, 1, 1)[:, 0]
    ridge = RLS(1e-9, kernel="linear").fit(rows - rows.mean(axis=0), y)
    np.testing.assert_allclose(
        KPCR(2, kernel="linear").fit(rows, y).predict(rows),
        ridge.predict(rows - rows.mean(axis=0)),
        atol=1e-6,
    )


ROWS_DRAWN = (
    "a number of basis rows is drawn by row number, and repeating rows changes those numbers"
)


def allowed_failures(estimator):
    checks = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    return dict.fromkeys(checks, ROWS_DRAWN) if isinstance(estimator.basis, int) else {}


@pytest.mark.usual_share
@both
def test_tuning_looks_at_no_more_than_half_as_many_components_as_rows(learner):
    model = learner(gamma=GAMMA).fit(X, Y, qid=QID)
    assert np.array_equal(model.path_.n_components, np.arange(1, N // 2 + 1))


@pytest.mark.usual_share
def test_noise_is_not_taken_for_many_components():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 3))
    chosen = [
        KPCR(gamma=0.5).fit(rows, rng.normal(size=100) + 0.3 * rows[:, 0]).n_components_
        for _ in range(8)
    ]
    assert max(chosen) <= 50


def test_rows_that_no_component_tells_apart_are_said():
    with pytest.warns(
        UserWarning,
        match="no component tells apart the rows that are compared; the model is constant",
    ):
        model = KPCRank(1).fit(X[QID], Y, qid=QID)  # features are constant within queries
    np.testing.assert_array_equal(model.coef_, 0)
