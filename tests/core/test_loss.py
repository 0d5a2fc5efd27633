"""The loss operators against dense Laplacians that were summed up pair by pair."""

import numpy as np
import pytest
from brute_force import Loss, comparison_rows, laplacian, loss_rows, small_problem

from corank.core.loss import WEIGHTINGS, Blend, PairLoss, Pointwise, QueryLoss, WithinQueries, blend

PROBLEM = small_problem()
N = len(PROBLEM.y)
LOSSES = [Loss(weighting, beta) for weighting in WEIGHTINGS for beta in (0.0, 0.3, 1.0)]
PLAIN = [pytest.param(loss, None, id=f"{loss.weighting}-{loss.beta}") for loss in LOSSES]
WEIGHTED = [  # weighting="query" takes no weights
    pytest.param(loss, PROBLEM.weights, id=f"{loss.weighting}-{loss.beta}-weighted")
    for loss in LOSSES
    if loss.weighting != "query"
]
every_loss = pytest.mark.parametrize(("loss", "weights"), PLAIN + WEIGHTED)


def operator(loss, weights=None, qid=PROBLEM.qid):
    codes = None if qid is None else np.asarray(qid, dtype=np.int64)
    n_queries = 1 if qid is None else int(codes.max()) + 1
    return QueryLoss(blend(loss.weighting, loss.beta), codes, n_queries, weights, np.empty(0), N)


@every_loss
def test_apply_is_the_dense_laplacian(loss, weights):
    applied = operator(loss, weights).apply(np.eye(N))
    np.testing.assert_allclose(applied, laplacian(PROBLEM.qid, loss, weights), atol=1e-13)


@every_loss
def test_root_times_its_transpose_is_the_laplacian(loss, weights):
    own = operator(loss, weights)
    J = own.root(np.eye(N))
    np.testing.assert_allclose(J.T @ J, laplacian(PROBLEM.qid, loss, weights), atol=1e-13)
    np.testing.assert_allclose(own.root_transposed(np.eye(own.n_roots)), J.T, atol=1e-14)


@every_loss
def test_squared_root_of_residuals_is_the_sum_over_pairs(loss, weights):
    predictions = PROBLEM.X @ [0.5, -1.0, 0.2]
    T, t = loss_rows(PROBLEM.y, PROBLEM.qid, loss, weights)
    own = operator(loss, weights)
    residuals = own.targets(PROBLEM.y) - own.root(predictions[:, None])
    np.testing.assert_allclose(np.sum(residuals**2), np.sum((t - T @ predictions) ** 2), rtol=1e-12)


@every_loss
def test_unroot_undoes_root_up_to_the_level_of_a_query_where_that_costs_nothing(loss, weights):
    own = operator(loss, weights)
    back = own.unroot(own.root(PROBLEM.X))
    expected = PROBLEM.X.copy()
    if loss.beta == 0:
        for query in np.unique(PROBLEM.qid):
            rows = PROBLEM.qid == query
            expected[rows] -= np.average(
                expected[rows],
                axis=0,
                weights=np.ones(N)[rows] if weights is None else weights[rows],
            )
    np.testing.assert_allclose(back, expected, atol=1e-13)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_no_qid_is_one_query(weighting):
    applied = operator(Loss(weighting), qid=None).apply(PROBLEM.X)
    np.testing.assert_allclose(
        applied, laplacian(np.zeros(N), Loss(weighting)) @ PROBLEM.X, atol=1e-12
    )


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_single_item_query_costs_nothing(weighting):
    alone = np.flatnonzero(PROBLEM.qid == np.flatnonzero(np.bincount(PROBLEM.qid) == 1)[0])
    own = operator(Loss(weighting))
    assert np.all(own.apply(np.eye(N))[alone] == 0)
    assert np.all(own.targets(PROBLEM.y)[alone] == 0)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_root_forgets_the_level_of_every_query(weighting):
    own = operator(Loss(weighting))
    levels = np.asarray([3.0, -70.0, 0.1, 12.0, 5.0])[PROBLEM.qid]
    np.testing.assert_allclose(own.targets(PROBLEM.y + levels), own.targets(PROBLEM.y), atol=1e-12)


@pytest.mark.parametrize("weights", [None, PROBLEM.weights], ids=["plain", "weighted"])
def test_weight_is_the_sum_of_weights(weights):
    assert operator(Loss(), weights).weight == pytest.approx(
        N if weights is None else weights.sum()
    )


def test_blend_at_its_ends_is_ranking_and_regression():
    assert blend("unit", 0.0) == WithinQueries("unit")
    assert blend("unit", 1.0) == Pointwise()
    assert blend("unit", 0.4) == Blend("unit", 0.4)


@pytest.fixture
def comparisons():
    rng = np.random.default_rng(3)
    winners = rng.integers(0, N, size=30)
    # never an item against itself; repeats happen
    losers = (winners + rng.integers(1, N, size=30)) % N
    margins, weights = rng.uniform(0, 3, size=30), rng.uniform(0.1, 2, size=30)
    margins[:3] = 0
    own = PairLoss(winners, losers, margins, weights, N)
    return own, *comparison_rows(N, winners, losers, margins, weights)


def test_pairs_are_their_incidence_rows(comparisons):
    own, T, t = comparisons
    assert own.n_roots == 30
    np.testing.assert_allclose(own.root(np.eye(N)), T, atol=1e-15)
    np.testing.assert_allclose(own.root_transposed(np.eye(30)), T.T, atol=1e-15)
    np.testing.assert_allclose(own.apply(PROBLEM.X), T.T @ T @ PROBLEM.X, atol=1e-13)
    np.testing.assert_allclose(own.targets()[:, 0], t, atol=1e-15)


def test_all_pairs_of_a_query_as_comparisons_are_the_unit_weighting():
    winners, losers = np.triu_indices(N, 1)
    own = PairLoss(winners, losers, np.ones(len(winners)), np.ones(len(winners)), N)
    np.testing.assert_allclose(
        own.apply(np.eye(N)), laplacian(np.zeros(N), Loss("unit")), atol=1e-13
    )
