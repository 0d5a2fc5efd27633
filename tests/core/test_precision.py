"""Ill-conditioned problems against fifty digits: how much of the exact minimiser double precision
keeps.

The reference solves the stationarity condition of the stated objective, (L K + alpha I) a = L s,
with mpmath; the tolerances are what holds with a margin of about ten, relative to the largest
prediction.
"""

import mpmath
import numpy as np
import pytest
from brute_force import REGRESSION, Loss, laplacian, leave_groups_out
from mpmath import mp
from scipy import sparse

from corank import RLS, RankRLS
from corank.core.basis import EIGENVALUE_CUT, KernelBasis
from corank.core.kernels import Kernel

N = 24
QID = np.repeat(np.arange(4), 6)


def two_columns():
    rng = np.random.default_rng(61)
    X = rng.normal(size=(N, 2))
    X[7] = X[3]  # the same item twice in two queries, and twice in one
    X[5] = X[4]
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + QID
    y[5] = y[4]
    return X, y, rng.normal(size=(5, 2))


X, Y, NEW = two_columns()


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


def exact_kernel(A, B, gamma):
    """Fifty digits, from the doubles as they are."""

    def value(a, b):
        return mp.exp(
            -mp.mpf(gamma)
            * sum((mp.mpf(float(p)) - mp.mpf(float(q))) ** 2 for p, q in zip(a, b, strict=True))
        )

    return mp.matrix([[value(a, b) for b in B] for a in A])


def exact_laplacian(loss):
    """The dense Laplacian in fifty digits: with queries of six and tenths for beta its entries are
    sixtieths.
    """
    sixtieths = np.round(60 * laplacian(QID, loss))
    np.testing.assert_allclose(sixtieths, 60 * laplacian(QID, loss), atol=1e-9)
    return mp.matrix(sixtieths.astype(int).tolist()) / 60


def exact_dual(loss, gamma, alpha, offset=0):
    """k(NEW)ᵀ a with (L K + alpha I) a = L s."""
    K, L = exact_kernel(X, X, gamma), exact_laplacian(loss)
    s = mp.matrix([mp.mpf(float(v)) - offset for v in Y])
    a = mpmath.lu_solve(L * K + mp.mpf(alpha) * mp.eye(N), L * s)
    return np.asarray([float(v + offset) for v in exact_kernel(NEW, X, gamma) * a])


def exact_primal(loss, gamma, alpha, rows, offset=0):
    """Predictions with a subset of rows as basis, without the directions below EIGENVALUE_CUT."""
    values, vectors = mp.eigsy(exact_kernel(X[rows], X[rows], gamma))
    largest = max(values)
    kept = [i for i in range(len(rows)) if values[i] > EIGENVALUE_CUT * largest]
    gap = min(abs(mp.log10(abs(values[i]) / largest) + 10) for i in range(len(rows)))
    assert gap > 0.1, "an eigenvalue lies at the cut itself; choose another problem"
    white = mp.matrix(len(rows), len(kept))
    for column, i in enumerate(kept):
        for row in range(len(rows)):
            white[row, column] = vectors[row, i] / mp.sqrt(values[i])
    phi, L = exact_kernel(X, X[rows], gamma) * white, exact_laplacian(loss)
    s = mp.matrix([mp.mpf(float(v)) - offset for v in Y])
    c = mpmath.lu_solve(phi.T * L * phi + mp.mpf(alpha) * mp.eye(len(kept)), phi.T * L * s)
    return np.asarray([float(v + offset) for v in exact_kernel(NEW, X[rows], gamma) * white * c])


def relative_error(found, expected):
    return np.max(np.abs(found - expected)) / np.max(np.abs(expected))


# gamma, alpha, what holds in the dual, what holds in the primal; the kernel matrix has condition
# 1e3 to beyond 1e16
HARD = [
    (1.0, 1e-2, 1e-12, 5e-11),
    (0.5, 1e-6, 2e-9, 1e-7),
    (0.05, 1e-6, 1e-8, 1e-7),
    (0.05, 1e-10, 1e-5, 1e-7),
    (1e-3, 1e-10, 1e-4, 2e-6),
    (1e-6, 1e-10, 5e-5, 1e-9),
]
LOSSES = [Loss("size"), Loss("unit"), Loss("size", 0.3)]
ROWS = [0, 1, 2, 3, 4, 8, 9, 10, 12, 13, 14, 18, 19, 20]
every_case = pytest.mark.parametrize(("gamma", "alpha", "dual_tolerance", "primal_tolerance"), HARD)
every_case_with_a_loss = pytest.mark.parametrize(
    ("gamma", "alpha", "dual_tolerance", "primal_tolerance", "loss"),
    [(*case, LOSSES[number % len(LOSSES)]) for number, case in enumerate(HARD)],
)


@every_case_with_a_loss
def test_ranking_keeps_these_digits(gamma, alpha, dual_tolerance, primal_tolerance, loss):
    dual, primal = (
        RankRLS(alpha, basis, loss.weighting, loss.beta, gamma=gamma)
        .fit(X, Y, qid=QID)
        .predict(NEW)
        for basis in ("all", ROWS)
    )
    assert relative_error(dual, exact_dual(loss, gamma, alpha)) < dual_tolerance
    assert relative_error(primal, exact_primal(loss, gamma, alpha, ROWS)) < primal_tolerance


@every_case
def test_regression_keeps_these_digits(gamma, alpha, dual_tolerance, primal_tolerance):
    dual, primal = (RLS(alpha, basis, gamma=gamma).fit(X, Y) for basis in ("all", ROWS))
    expected = exact_dual(REGRESSION, gamma, alpha, mp.mpf(dual.intercept_))
    assert relative_error(dual.predict(NEW), expected) < dual_tolerance
    expected = exact_primal(REGRESSION, gamma, alpha, ROWS, mp.mpf(primal.intercept_))
    assert relative_error(primal.predict(NEW), expected) < primal_tolerance


@pytest.mark.parametrize(("gamma", "loss"), list(zip([1.0, 0.05, 1e-3], LOSSES, strict=True)))
def test_the_cut_of_the_primal_costs_little_at_a_usual_alpha(gamma, loss):
    model = RankRLS(1e-2, np.arange(N), loss.weighting, loss.beta, gamma=gamma).fit(X, Y, qid=QID)
    assert relative_error(model.predict(NEW), exact_dual(loss, gamma, 1e-2)) < 1e-6


@pytest.mark.parametrize("basis", ["all", ROWS, "features"], ids=["dual", "primal", "features"])
@pytest.mark.parametrize("level", [1e4, 1e8])
def test_a_common_level_of_the_scores_does_not_drown_a_regressor(basis, level):
    y = np.round(Y * 2**20) / 2**20  # so that adding the level loses nothing
    options = {"kernel": "linear"} if basis == "features" else {"gamma": 0.5}
    low, high = (
        RLS([1e-3, 0.1, 10.0], basis, **options).fit(X, scores) for scores in (y, y + level)
    )
    np.testing.assert_allclose(high.path_.error, low.path_.error, rtol=1e-4)
    np.testing.assert_allclose(high.predict(NEW) - level, low.predict(NEW), atol=1e-5)


@pytest.mark.parametrize("basis", ["all", ROWS, "features"], ids=["dual", "primal", "features"])
def test_a_common_level_of_the_scores_does_not_drown_a_ranker(basis):
    y = np.round(Y * 2**20) / 2**20
    options = {"kernel": "linear"} if basis == "features" else {"gamma": 0.5}
    low, high = (
        RankRLS([1e-3, 0.1, 10.0], basis, **options).fit(X, s, qid=QID) for s in (y, y + 1e8)
    )
    np.testing.assert_allclose(high.path_.error, low.path_.error, rtol=1e-4)
    np.testing.assert_allclose(high.predict(NEW), low.predict(NEW), atol=1e-5)


@pytest.mark.parametrize("basis", ["all", ROWS], ids=["dual", "primal"])
def test_features_far_from_the_origin_keep_their_distances(basis):
    far = np.round(X * 2**20) / 2**20
    near = RankRLS(1e-2, basis, gamma=0.5).fit(far, Y, qid=QID).predict(far)
    moved = RankRLS(1e-2, basis, gamma=0.5).fit(far + 1e6, Y, qid=QID).predict(far + 1e6)
    np.testing.assert_allclose(moved, near, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("basis", ["all", ROWS], ids=["dual", "primal"])
@pytest.mark.parametrize("learner", [RLS, RankRLS])
def test_held_out_errors_of_the_path_keep_their_digits_at_tiny_alphas(basis, learner):
    alphas = [1e-8, 1e-6]
    splits = leave_groups_out(QID)
    closed = learner(alphas, basis, gamma=0.05).fit(X, Y, qid=QID).path_.error
    # test sets that overlap are refitted
    overlapping = (
        learner(alphas, basis, gamma=0.05, cv=[*splits, *splits]).fit(X, Y, qid=QID).path_.error
    )
    np.testing.assert_allclose(closed, overlapping, rtol=1e-6)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("spread", [1.0, 1e4, 1e8, 1e10])
def test_a_kernel_of_distances_lies_between_zero_and_one(make, spread):
    kernel, rows = Kernel("rbf", 1.0), make(spread * X)
    for values in (kernel.block(rows, rows), KernelBasis(kernel, rows).gram):
        assert np.all(np.isfinite(values))
        assert values.min() >= 0
        assert values.max() <= 1 + 1e-12


@pytest.mark.parametrize("basis", ["all", ROWS], ids=["dual", "primal"])
def test_columns_on_a_huge_scale_do_no_harm(basis):
    model = RLS(1e-3, basis, gamma=1.0).fit(1e10 * X, Y)
    assert np.max(np.abs(model.predict(1e10 * X))) <= 2 * np.max(np.abs(Y))
