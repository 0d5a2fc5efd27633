"""RLS and RankRLS against a general minimiser of the stated objective: predictions on new points."""

import numpy as np
import pytest
from brute_force import (
    REGRESSION,
    Loss,
    comparison_rows,
    fit_predict,
    fit_predict_comparisons,
    kernel,
    loss_rows,
    objective,
    small_problem,
)

import corank.core.observations
import corank.solve.function
from corank import RLS, RankRLS
from corank.core.basis import FeatureBasis, KernelBasis
from corank.core.kernels import Kernel
from corank.core.loss import WEIGHTINGS, blend
from corank.core.observations import ScoredRows
from corank.solve.systems import DualSystem, PrimalSystem, ViewData

PROBLEM = small_problem()
X, Y, QID, W, NEW = PROBLEM.X, PROBLEM.y, PROBLEM.qid, PROBLEM.weights, PROBLEM.X_new
N = len(Y)
GAMMA, ALPHA = 0.4, 0.3
KERNELS = {
    "linear": {},
    "rbf": {"gamma": GAMMA},
    "poly": {"gamma": GAMMA, "degree": 2, "coef0": 0.5},
    "cosine": {},
    "exponential": {"gamma": GAMMA},
    "laplacian": {"gamma": GAMMA},
}
BASES = {"all": "all", "every row": np.arange(N), "subset": [2, 3, 5, 11, 17], "one": [4]}
LOSSES = [Loss(weighting, beta) for weighting in WEIGHTINGS for beta in (0.0, 0.3, 1.0)]
every_kernel = pytest.mark.parametrize("name", KERNELS)
every_basis = pytest.mark.parametrize("basis", BASES)
every_loss = pytest.mark.parametrize(
    "loss", LOSSES, ids=lambda loss: f"{loss.weighting}-{loss.beta}"
)
weighted_or_not = pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
close = {"rtol": 1e-7, "atol": 1e-8}


def points(basis):
    return X if basis == "all" else X[BASES[basis]]


def ranker(loss, **options):
    return RankRLS(
        **{
            "alpha": ALPHA,
            "gamma": GAMMA,
            "weighting": loss.weighting,
            "beta": loss.beta,
            **options,
        }
    )


@every_kernel
@every_basis
@pytest.mark.parametrize("intercept", [True, False])
def test_rls_is_the_minimiser(name, basis, intercept):
    model = RLS(
        ALPHA, basis=BASES[basis], fit_intercept=intercept, kernel=name, **KERNELS[name]
    ).fit(X, Y)
    k = kernel(name, **KERNELS[name])
    expected = fit_predict(X, Y, NEW, k, ALPHA, basis=points(basis), intercept=intercept)
    np.testing.assert_allclose(model.predict(NEW), expected, **close)


@every_kernel
@every_basis
def test_rankrls_is_the_minimiser(name, basis):
    model = RankRLS(ALPHA, basis=BASES[basis], kernel=name, **KERNELS[name]).fit(X, Y, qid=QID)
    k = kernel(name, **KERNELS[name])
    expected = fit_predict(X, Y, NEW, k, ALPHA, Loss(), qid=QID, basis=points(basis))
    np.testing.assert_allclose(model.predict(NEW), expected, **close)


@every_kernel
def test_a_basis_is_all_rows_under_the_kernel_that_it_spans(name):
    """[Tsivtsivadze2010] sect. 3.4: K = K_XR (K_RR)^-1 K_RX."""
    rows, k = BASES["subset"], kernel(name, **KERNELS[name])
    sparse = RankRLS(ALPHA, basis=rows, kernel=name, **KERNELS[name]).fit(X, Y, qid=QID)
    inverse = np.linalg.pinv(k(X[rows], X[rows]), rcond=1e-12, hermitian=True)
    modified, modified_new = (k(points, X[rows]) @ inverse @ k(X[rows], X) for points in (X, NEW))
    dense = RankRLS(ALPHA, basis="all", kernel="precomputed").fit(modified, Y, qid=QID)
    np.testing.assert_allclose(dense.predict(modified_new), sparse.predict(NEW), atol=1e-7)


@every_loss
@every_basis
def test_every_weighting_and_blend_is_the_minimiser(loss, basis):
    model = ranker(loss, basis=BASES[basis]).fit(X, Y, qid=QID)
    expected = fit_predict(
        X, Y, NEW, kernel("rbf", GAMMA), ALPHA, loss, qid=QID, basis=points(basis)
    )
    np.testing.assert_allclose(model.predict(NEW), expected, **close)


@pytest.mark.parametrize("loss", [one for one in LOSSES if one.weighting != "query"], ids=str)
@every_basis
def test_weighted_rows_are_the_weighted_minimiser(loss, basis):
    model = ranker(loss, basis=BASES[basis]).fit(X, Y, qid=QID, sample_weight=W)
    expected = fit_predict(
        X, Y, NEW, kernel("rbf", GAMMA), ALPHA, loss, qid=QID, weights=W, basis=points(basis)
    )
    np.testing.assert_allclose(model.predict(NEW), expected, **close)


@every_basis
@pytest.mark.parametrize("intercept", [True, False])
def test_weighted_regression_is_the_weighted_minimiser(basis, intercept):
    model = RLS(ALPHA, basis=BASES[basis], gamma=GAMMA, fit_intercept=intercept).fit(
        X, Y, sample_weight=W
    )
    expected = fit_predict(
        X, Y, NEW, kernel("rbf", GAMMA), ALPHA, weights=W, basis=points(basis), intercept=intercept
    )
    np.testing.assert_allclose(model.predict(NEW), expected, **close)


@every_loss
def test_no_qid_is_one_query(loss):
    model = ranker(loss).fit(X, Y)
    expected = fit_predict(X, Y, NEW, kernel("rbf", GAMMA), ALPHA, loss)
    np.testing.assert_allclose(model.predict(NEW), expected, **close)


@weighted_or_not
@every_basis
@pytest.mark.parametrize("n_comparisons", [8, 60], ids=["fewer than rows", "more than rows"])
def test_comparisons_are_the_minimiser(weights, basis, n_comparisons):
    rng = np.random.default_rng(5)
    winners = rng.integers(0, N, size=n_comparisons)
    losers = (winners + rng.integers(1, N, size=n_comparisons)) % N
    margins = rng.integers(0, 3, size=n_comparisons).astype(float)
    w = None if weights is None else rng.uniform(0.2, 3, size=n_comparisons)
    model = RankRLS(ALPHA, basis=BASES[basis], gamma=GAMMA)
    model.fit_comparisons(X, winners, losers, margins=margins, weights=w)
    own = X[np.union1d(winners, losers)] if basis == "all" else points(basis)
    expected = fit_predict_comparisons(
        X, winners, losers, NEW, kernel("rbf", GAMMA), ALPHA, margins=margins, weights=w, basis=own
    )
    np.testing.assert_allclose(model.predict(NEW), expected, **close)


def test_comparisons_without_margins_have_margin_one():
    winners, losers = np.asarray([0, 4, 4]), np.asarray([1, 0, 7])
    model = RankRLS(ALPHA, gamma=GAMMA).fit_comparisons(X, winners, losers)
    expected = fit_predict_comparisons(X, winners, losers, NEW, kernel("rbf", GAMMA), ALPHA)
    np.testing.assert_allclose(model.predict(NEW), expected, **close)


@pytest.mark.parametrize("alpha", [ALPHA, "tune"])
@pytest.mark.parametrize("held", [True, False], ids=["all items at once", "block by block"])
def test_an_item_of_many_comparisons_costs_one_row_of_kernel_values(alpha, held, monkeypatch):
    rng = np.random.default_rng(0)
    winners = rng.integers(0, N, size=40 * N)
    losers = (winners + rng.integers(1, N, size=40 * N)) % N
    if not held:
        monkeypatch.setattr(corank.core.observations, "MAX_ITEM_FEATURES", 0)
    n_rows = []

    def counted(A, B):
        n_rows.append(len(A))
        return kernel("rbf", GAMMA)(A, B)

    model = RankRLS(alpha, kernel=counted).fit_comparisons(X, winners, losers)
    assert max(n_rows) == N
    assert sum(n_rows) <= 5 * N
    monkeypatch.undo()
    expected = RankRLS(model.alpha_, gamma=GAMMA).fit_comparisons(X, winners, losers)
    np.testing.assert_allclose(model.predict(NEW), expected.predict(NEW), **close)


@pytest.mark.parametrize("d", [2, 30], ids=["fewer columns than rows", "more columns than rows"])
@every_loss
def test_features_are_the_linear_kernel(d, loss):
    wide = small_problem(seed=3, d=d)
    model = ranker(loss, kernel="linear", basis="features").fit(wide.X, wide.y, qid=wide.qid)
    expected = fit_predict(wide.X, wide.y, wide.X_new, kernel("linear"), ALPHA, loss, qid=wide.qid)
    np.testing.assert_allclose(model.predict(wide.X_new), expected, **close)
    np.testing.assert_allclose(wide.X_new @ model.coef_, expected, **close)


@pytest.mark.parametrize("d", [2, 30], ids=["fewer columns than rows", "more columns than rows"])
@pytest.mark.parametrize("intercept", [True, False])
@weighted_or_not
def test_features_of_a_regressor_are_the_linear_kernel(d, intercept, weights):
    wide = small_problem(seed=3, d=d)
    w = None if weights is None else wide.weights
    model = RLS(ALPHA, "features", intercept, kernel="linear").fit(wide.X, wide.y, sample_weight=w)
    expected = fit_predict(
        wide.X, wide.y, wide.X_new, kernel("linear"), ALPHA, weights=w, intercept=intercept
    )
    np.testing.assert_allclose(model.predict(wide.X_new), expected, **close)


@pytest.mark.parametrize("d", [2, 30])
@pytest.mark.parametrize("n_comparisons", [8, 60])
def test_features_with_comparisons_are_the_linear_kernel(d, n_comparisons):
    wide = small_problem(seed=3, d=d)
    rng = np.random.default_rng(6)
    winners = rng.integers(0, N, size=n_comparisons)
    losers = (winners + 1) % N
    model = RankRLS(ALPHA, "features", kernel="linear").fit_comparisons(wide.X, winners, losers)
    expected = fit_predict_comparisons(wide.X, winners, losers, wide.X_new, kernel("linear"), ALPHA)
    np.testing.assert_allclose(model.predict(wide.X_new), expected, **close)


@every_basis
@pytest.mark.parametrize("learner", [RLS, RankRLS])
def test_precomputed_kernel_is_the_kernel(basis, learner):
    k = kernel("rbf", GAMMA)
    own = (
        learner(ALPHA, basis=BASES[basis], kernel="precomputed")
        .fit(k(X, X), Y, qid=QID)
        .predict(k(NEW, X))
    )
    expected = learner(ALPHA, basis=BASES[basis], gamma=GAMMA).fit(X, Y, qid=QID).predict(NEW)
    np.testing.assert_allclose(own, expected, **close)


@pytest.mark.parametrize("basis", ["all", [0, 1, 5, 9], 4, "features"], ids=str)
@pytest.mark.parametrize("learner", [RLS, RankRLS])
def test_unscored_rows_are_left_out(basis, learner):
    y = Y.copy()
    y[[0, 7, 8]] = np.nan
    scored = ~np.isnan(y)
    given = [0, 1, 5, 9]  # row 0 is unscored, yet may serve as a basis point
    options = {"kernel": "linear"} if basis == "features" else {"gamma": GAMMA}
    model = learner(ALPHA, basis=basis, **options).fit(X, y, qid=QID)
    own = (
        {"all": X[scored], "features": X[scored]}.get(basis)
        if isinstance(basis, str)
        else X[model.basis_]
    )
    if isinstance(basis, list):
        assert list(model.basis_) == given
    loss = REGRESSION if learner is RLS else Loss()
    k = kernel("linear") if basis == "features" else kernel("rbf", GAMMA)
    expected = fit_predict(
        X[scored],
        y[scored],
        NEW,
        k,
        ALPHA,
        loss,
        qid=QID[scored],
        basis=own,
        intercept=learner is RLS,
    )
    np.testing.assert_allclose(model.predict(NEW), expected, **close)


def test_unscored_rows_of_a_precomputed_kernel_are_left_out():
    y = Y.copy()
    y[[0, 7, 8]] = np.nan
    k = kernel("rbf", GAMMA)
    for basis in ("all", [0, 1, 5, 9]):
        own = (
            RankRLS(ALPHA, basis, kernel="precomputed").fit(k(X, X), y, qid=QID).predict(k(NEW, X))
        )
        expected = RankRLS(ALPHA, basis, gamma=GAMMA).fit(X, y, qid=QID).predict(NEW)
        np.testing.assert_allclose(own, expected, **close)


@pytest.mark.parametrize("basis", ["all", "subset"])
@every_loss
def test_no_other_function_has_a_lower_objective(basis, loss):
    model = ranker(loss, basis=BASES[basis]).fit(X, Y, qid=QID)
    k = kernel("rbf", GAMMA)
    phi, omega = k(X, points(basis)), k(points(basis), points(basis))
    stated = (*loss_rows(Y, QID, loss), phi, omega, ALPHA)
    least = objective(*stated, model.coef_)
    for step in np.random.default_rng(7).normal(size=(20, len(omega))):
        assert objective(*stated, model.coef_ + 1e-3 * step) > least


def test_no_other_function_has_a_lower_objective_on_comparisons():
    winners, losers = np.asarray([0, 4, 4, 9]), np.asarray([1, 0, 7, 4])
    model = RankRLS(ALPHA, np.arange(N), gamma=GAMMA).fit_comparisons(X, winners, losers)
    phi = kernel("rbf", GAMMA)(X, X)
    stated = (*comparison_rows(N, winners, losers), phi, phi, ALPHA)
    least = objective(*stated, model.coef_)
    for step in np.random.default_rng(8).normal(size=(20, N)):
        assert objective(*stated, model.coef_ + 1e-3 * step) > least


@every_loss
def test_dual_equals_primal(loss):
    dual = ranker(loss, basis="all").fit(X, Y, qid=QID)
    primal = ranker(loss, basis=np.arange(N)).fit(X, Y, qid=QID)
    np.testing.assert_allclose(dual.predict(NEW), primal.predict(NEW), **close)


@pytest.mark.parametrize("loss", [Loss("unit"), Loss("size", 0.3), REGRESSION], ids=str)
@pytest.mark.parametrize(
    "basis", [KernelBasis(Kernel("rbf", GAMMA), X), FeatureBasis(3, X)], ids=["rows", "features"]
)
@pytest.mark.parametrize("form", ["dual", "primal"])
def test_path_equals_refitting_each_alpha(form, basis, loss):
    rows = ScoredRows(features=X, scores=Y, queries=QID, n_queries=5, weights=W, index=np.arange(N))
    problem = rows.under(blend(loss.weighting, loss.beta))
    system = (DualSystem if form == "dual" else PrimalSystem)([ViewData(problem, basis)])
    alphas, offset = np.logspace(-3, 2, 4), 0.7
    k = kernel("linear") if isinstance(basis, FeatureBasis) else kernel("rbf", GAMMA)
    (path,) = system.path(alphas, offset=offset)
    for column, alpha in zip(path.T, alphas, strict=True):
        expected = fit_predict(X, Y - offset, NEW, k, alpha, loss, qid=QID, weights=W)
        np.testing.assert_allclose(basis.features(NEW) @ column, expected, **close)
        np.testing.assert_allclose(
            basis.features(NEW) @ system.solve(alpha, offset=offset)[0][:, 0], expected, **close
        )


@pytest.mark.parametrize("basis", ["all", [1, 2, 3, 9]], ids=str)
@pytest.mark.parametrize("learner", [RLS, RankRLS])
def test_a_list_of_alphas_ends_at_the_model_of_the_chosen_one(basis, learner):
    tuned = learner([0.01, 0.1, 1.0, 10.0], basis=basis, gamma=GAMMA).fit(X, Y, qid=QID)
    assert (
        tuned.alpha_
        == tuned.path_.alpha[tuned.path_.best]
        == tuned.path_.alpha[np.argmin(tuned.path_.error)]
    )
    expected = learner(tuned.alpha_, basis=basis, gamma=GAMMA).fit(X, Y, qid=QID)
    np.testing.assert_allclose(tuned.predict(NEW), expected.predict(NEW), rtol=1e-10)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_dual_coefficients_sum_to_zero_in_every_query(weighting):
    model = ranker(Loss(weighting)).fit(X, Y, qid=QID)
    sums = np.bincount(QID, weights=model.coef_)
    np.testing.assert_allclose(sums, 0, atol=1e-12)
    assert model.coef_[np.bincount(QID)[QID] == 1] == pytest.approx(0, abs=1e-15)


@every_basis
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_shifting_the_scores_of_a_query_changes_nothing(basis, weighting):
    shifted = Y + np.asarray([0.0, 50.0, -3.0, 0.25, 7.0])[QID]
    one, other = (
        ranker(Loss(weighting), basis=BASES[basis]).fit(X, y, qid=QID) for y in (Y, shifted)
    )
    np.testing.assert_allclose(one.predict(NEW), other.predict(NEW), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_a_query_of_one_item_is_irrelevant(weighting):
    several = np.bincount(QID)[QID] > 1
    whole = ranker(Loss(weighting)).fit(X, Y, qid=QID)
    without = ranker(Loss(weighting)).fit(X[several], Y[several], qid=QID[several])
    np.testing.assert_allclose(whole.predict(NEW), without.predict(NEW), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("basis", ["all", [1, 2, 3, 9], "features"], ids=str)
def test_prediction_in_blocks_is_prediction_at_once(basis, monkeypatch):
    options = {"kernel": "linear"} if basis == "features" else {"gamma": GAMMA}
    model = RLS(ALPHA, basis, **options).fit(X, Y)
    many = np.random.default_rng(9).normal(size=(200, 3))
    expected = model.predict(many)
    monkeypatch.setattr(corank.solve.function, "WRITE_ROWS", 64)
    np.testing.assert_allclose(model.predict(many), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(model.predict(many[:64]), expected[:64], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("basis", ["all", [1, 2, 3, 9], "features"], ids=str)
@pytest.mark.parametrize("learner", [RLS, RankRLS])
def test_the_grid_of_alphas_follows_the_scale_of_the_kernel(basis, learner):
    one, other = (
        learner(basis=basis, kernel="linear").fit(factor * X, Y, qid=QID) for factor in (1, 10)
    )
    np.testing.assert_allclose(other.path_.alpha, 100 * one.path_.alpha)
    np.testing.assert_allclose(other.path_.error, one.path_.error, rtol=1e-6)
    np.testing.assert_allclose(other.predict(10 * NEW), one.predict(NEW), rtol=1e-6, atol=1e-9)
