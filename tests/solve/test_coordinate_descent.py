"""One view after the other: descent reaches the direct solution, stops on the gradient, and says
when it did not.
"""

from itertools import pairwise

import numpy as np
import pytest
from brute_force import REGRESSION, Loss
from brute_force.views import Look, fit_views, rbf, small_views
from sklearn.exceptions import ConvergenceWarning

from corank import CoRankRLS, CoRLS, View
from corank.solve.tuning import descend

pytestmark = pytest.mark.usefixtures("one_blas_thread")
P = small_views()
GAMMAS, PENALTIES = [1.0, 0.8, 1.2], [1.0, 2.0, 0.5]
SOLVERS = ["coordinate", "accelerated"]
every_solver = pytest.mark.parametrize("solver", SOLVERS)
every_loss = pytest.mark.parametrize(
    "loss", [REGRESSION, Loss("size"), Loss("unit"), Loss("unit", 0.3)], ids=str
)


def learner(loss, n_views, alpha, agreement, basis="all", **options):
    views = [
        View(slice(2 * v, 2 * v + 2), gamma=GAMMAS[v], penalty=PENALTIES[v]) for v in range(n_views)
    ]
    if loss is REGRESSION:
        return CoRLS(views, alpha, agreement, basis, **options)
    return CoRankRLS(views, alpha, agreement, basis, loss.weighting, loss.beta, **options)


def mean_diagonal(loss, n_views):
    """Of the loss under the kernel: what alpha is measured against. k(x, x) = 1 for an rbf kernel."""
    model = learner(loss, n_views, "tune", 0.0).fit(P.X, P.y, qid=P.qid)
    return model.path_.alpha[0] / 1e-6


@every_solver
@every_loss
@pytest.mark.parametrize("n_views", [1, 2, 3])
@pytest.mark.parametrize("basis", ["all", "scored", 9])
def test_descent_reaches_the_direct_solution(solver, loss, n_views, basis):
    alpha = 1e-2 * mean_diagonal(loss, n_views)
    for agreement in (0.0, 0.1, 1.0) if n_views > 1 else (0.0,):
        direct = learner(loss, n_views, alpha, agreement, basis).fit(P.X, P.y, qid=P.qid)
        found = learner(loss, n_views, alpha, agreement, basis, solver=solver).fit(
            P.X, P.y, qid=P.qid
        )
        expected = direct.predict_views(P.X_new)
        gap = np.abs(found.predict_views(P.X_new) - expected).max()
        assert gap < 1e-6 * np.abs(expected).max()
        assert 1 <= found.n_iter_ <= 1000


@every_solver
def test_descent_reaches_the_minimum_of_the_stated_objective(solver):
    loss = Loss("unit")
    looks = [Look(slice(2 * v, 2 * v + 2), rbf(GAMMAS[v]), P.X, PENALTIES[v]) for v in range(3)]
    expected = fit_views(looks, P.X, P.y, 0.5, 1.0, loss, qid=P.qid, weights=P.weights)(P.X_new)
    found = learner(loss, 3, 0.5, 1.0, solver=solver, tol=1e-10).fit(
        P.X, P.y, qid=P.qid, sample_weight=P.weights
    )
    np.testing.assert_allclose(found.predict_views(P.X_new), expected, atol=1e-6)


def system(seed=0, sizes=(4, 6, 3), coupling=1.0):
    rng = np.random.default_rng(seed)
    k = sum(sizes)
    rows = rng.normal(size=(2 * k, k))
    matrix = coupling * rows.T @ rows + np.eye(k)
    return matrix, rng.normal(size=(k, 1)), np.cumsum([0, *sizes])


@pytest.mark.parametrize("accelerated", [False, True])
def test_gauss_seidel_solves_a_positive_definite_system(accelerated):
    matrix, right, ends = system()
    found = descend(matrix, right, ends, max_iter=10_000, tol=1e-12, accelerated=accelerated)
    np.testing.assert_allclose(
        found.solution, np.linalg.solve(matrix, right), rtol=1e-8, atol=1e-10
    )
    gradient = np.linalg.norm(matrix @ found.solution - right) / np.linalg.norm(right)
    assert found.gradient == pytest.approx(gradient, rel=1e-3, abs=1e-15)


@pytest.mark.parametrize("coupling", [0.1, 1.0, 10.0])
def test_sweeps_grow_with_the_logarithm_of_the_accuracy(coupling):
    """001 section 4.3: each sweep reduces Q(c) − Q(c*) by a factor of the eigenvalues at least, so that
    N sweeps reduce it to its N-th power.
    """
    matrix, right, ends = system(coupling=coupling)
    lower, diagonal = np.tril(matrix), np.zeros_like(matrix)
    for begin, end in pairwise(ends):
        diagonal[begin:end, begin:end] = matrix[begin:end, begin:end]
        lower[begin:end, begin:end] = matrix[begin:end, begin:end]
    root = np.linalg.cholesky(matrix)
    step = np.linalg.solve(lower, root)  # what a sweep takes off an error, in the norm of Q
    factor = 1 - np.linalg.eigvalsh(step.T @ diagonal @ step)[0]
    assert 0 < factor < 1
    best = np.linalg.solve(matrix, right)

    def error(solution):
        return ((solution - best).T @ matrix @ (solution - best)).item()

    start = error(np.zeros_like(best))
    for sweeps in (1, 2, 5, 10, 20, 40):
        with_sweeps = descend(matrix, right, ends, max_iter=sweeps, tol=1e-300)
        assert with_sweeps.n_iter == sweeps
        assert error(with_sweeps.solution) <= start * factor**sweeps * (1 + 1e-9) + 1e-18


def test_a_sweep_is_algorithm_1_of_001():
    """Each block is solved with the others held, in order, from zero."""
    matrix, right, ends = system()
    found = descend(matrix, right, ends, max_iter=3, tol=1e-300)
    c = np.zeros_like(right)
    for _ in range(3):
        for begin, end in pairwise(ends):
            rest = np.delete(np.arange(len(c)), np.s_[begin:end])
            right_side = right[begin:end] - matrix[begin:end, rest] @ c[rest]
            c[begin:end] = np.linalg.solve(matrix[begin:end, begin:end], right_side)
    np.testing.assert_allclose(found.solution, c, rtol=1e-10)
    assert found.n_iter == 3


def test_it_stops_at_the_first_sweep_whose_gradient_is_small_enough():
    matrix, right, ends = system()
    gradients = [
        descend(matrix, right, ends, max_iter=k, tol=1e-300).gradient for k in range(1, 12)
    ]
    assert all(np.diff(gradients) < 0)
    tol = gradients[6] * 1.001
    assert descend(matrix, right, ends, max_iter=1000, tol=tol).n_iter == 7


@pytest.mark.parametrize("accelerated", [False, True])
def test_blocks_that_do_not_touch_take_one_step(accelerated):
    matrix, right, ends = system()
    for begin, end in pairwise(ends):
        matrix[begin:end, :begin] = matrix[begin:end, end:] = 0
    found = descend(matrix, right, ends, max_iter=50, tol=1e-10, accelerated=accelerated)
    assert found.n_iter == (2 if accelerated else 1)
    nothing = descend(matrix, 0 * right, ends, max_iter=50, tol=1e-10, accelerated=accelerated)
    assert (nothing.n_iter, nothing.gradient) == (0, 0.0)
    assert not nothing.solution.any()


def test_acceleration_needs_far_fewer_sweeps_where_views_are_strongly_tied():
    options = {"max_iter": 200_000, "tol": 1e-6}
    plain, fast = (
        learner(REGRESSION, 2, 0.01, 20.0, solver=s, **options).fit(P.X, P.y) for s in SOLVERS
    )
    assert fast.n_iter_ < plain.n_iter_ / 10
    np.testing.assert_allclose(fast.predict(P.X_new), plain.predict(P.X_new), atol=1e-3)


@every_solver
def test_no_convergence_is_said_with_the_gradient_reached(solver):
    model = learner(REGRESSION, 2, 1e-4, 50.0, solver=solver, max_iter=4, tol=1e-8)
    with pytest.warns(
        ConvergenceWarning,
        match=rf"solver='{solver}' stopped after 4 sweeps .* gradient at (\S+) of",
    ) as told:
        model.fit(P.X, P.y)
    assert model.n_iter_ == 4
    said = float(str(told[0].message).split("gradient at ")[1].split(" ")[0])
    assert 1e-8 < said < 10


@every_solver
def test_tuning_chooses_the_same_pair_whatever_the_solver(solver):
    options = {"max_iter": 100_000}
    direct = learner(Loss("size"), 2, [0.1, 1.0], [0.0, 0.5], np.arange(len(P.X))).fit(
        P.X, P.y, qid=P.qid
    )
    found = learner(Loss("size"), 2, [0.1, 1.0], [0.0, 0.5], solver=solver, **options).fit(
        P.X, P.y, qid=P.qid
    )
    np.testing.assert_allclose(found.path_.error, direct.path_.error, rtol=1e-6)
    assert (found.alpha_, found.agreement_) == (direct.alpha_, direct.agreement_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "newton"}, "solver 'newton' is not known"),
        ({"max_iter": 0}, "max_iter must be a whole number from 1"),
        ({"max_iter": 2.5}, "max_iter must be a whole number from 1"),
        ({"tol": 0.0}, "tol must lie between 0 and 1"),
        ({"tol": "small"}, "tol must lie between 0 and 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        learner(REGRESSION, 2, 1.0, 1.0, **options).fit(P.X, P.y)


def test_partitioned_is_direct_by_halves_and_for_two_views_only():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 6))
    y = np.where(np.arange(40) < 25, X[:, 0] - X[:, 4], np.nan)
    views = [View(slice(0, 3), penalty=2.0), View(slice(3, 6))]
    for options in ({"basis": 15}, {"basis": "all"}, {"basis": 15, "agreement": 0.0}):
        parameters = {"alpha": 0.2, "agreement": 0.7, **options}
        halves, whole = (
            CoRankRLS(views, solver=s, **parameters).fit(X, y) for s in ("partitioned", "direct")
        )
        np.testing.assert_allclose(halves.predict(X), whole.predict(X), atol=1e-7)
    with pytest.raises(ValueError, match="solver='partitioned' is for two views, got 3"):
        CoRankRLS(3, solver="partitioned").fit(X, y)
