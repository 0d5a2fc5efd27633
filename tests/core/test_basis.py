"""Which rows become the basis, and that its whitening changes the numbers and never the model."""

import numpy as np
import pytest
from brute_force import Loss, fit_predict, kernel, small_problem
from scipy import sparse
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

import corank.core.basis
from corank import RLS, RankRLS
from corank.core.basis import (
    AUTO_LIMIT,
    AUTO_SIZE,
    EIGENVALUE_CUT,
    WHITEN_INSIDE,
    BasisNotice,
    KernelBasis,
    candidate_rows,
    choose_rows,
    pivoted_rows,
)
from corank.core.kernels import Kernel
from corank.core.storable import BUILT_IN_KERNELS

RNG = np.random.default_rng(51)
X = RNG.normal(size=(60, 4))
RBF = Kernel("rbf", 0.3)
PROBLEM = small_problem(seed=52)


def pivoted(X, size, seed=0, own=RBF):
    return pivoted_rows(own, X, size, np.random.default_rng(seed))


def residual(X, rows, own=RBF):
    """The trace of the kernel matrix that the rows leave unexplained, by plain linear algebra."""
    K = own.block(X, X)
    return np.trace(
        K - K[:, rows] @ np.linalg.pinv(K[np.ix_(rows, rows)], rcond=1e-12) @ K[rows]
    ) / np.trace(K)


@pytest.mark.parametrize("size", [1, 2, 9, 25, 60])
@pytest.mark.parametrize("seed", range(3))
def test_pivoted_rows_are_distinct_and_as_many_as_asked(size, seed):
    rows = pivoted(X, size, seed)
    assert len(np.unique(rows)) == len(rows) == size
    assert rows.min() >= 0
    assert rows.max() < len(X)


@pytest.mark.parametrize(
    "own",
    [RBF, Kernel("linear"), Kernel("poly", 0.2, 2, 1.0), Kernel("cosine")],
    ids=lambda k: k.name,
)
def test_duplicate_rows_are_never_chosen_twice(own):
    twice = np.concatenate([X[:8], X[:8], X[:8]])
    rows = pivoted(twice, 24, own=own)
    assert len(np.unique(rows % 8)) == len(rows)
    assert residual(twice, rows, own) < 1e-9


@pytest.mark.parametrize("rank", [1, 3, 4])
def test_selection_stops_at_the_rank_of_the_rows(rank):
    low = X[:, :rank] @ RNG.normal(size=(rank, 6))
    rows = pivoted(low, 40, own=Kernel("linear"))
    assert len(rows) == rank
    assert residual(low, rows, Kernel("linear")) < 1e-10


def test_a_basis_as_large_as_the_rank_is_exact():
    low = PROBLEM.X[:, :2] @ RNG.normal(size=(2, 5))
    model = RankRLS(0.3, 5, kernel="linear").fit(low, PROBLEM.y, qid=PROBLEM.qid)
    assert len(model.basis_) == 2
    expected = RankRLS(0.3, "all", kernel="linear").fit(low, PROBLEM.y, qid=PROBLEM.qid)
    np.testing.assert_allclose(model.predict(low), expected.predict(low), rtol=1e-7, atol=1e-9)


def test_all_rows_chosen_are_the_exact_model():
    n = len(PROBLEM.y)
    whole = RankRLS(0.3, "all", gamma=0.4).fit(PROBLEM.X, PROBLEM.y, qid=PROBLEM.qid)
    for selection in ("pivoted", "random"):
        chosen = RankRLS(0.3, n, gamma=0.4, basis_selection=selection).fit(
            PROBLEM.X, PROBLEM.y, qid=PROBLEM.qid
        )
        assert sorted(chosen.basis_) == list(range(n))
        np.testing.assert_allclose(
            chosen.predict(PROBLEM.X_new), whole.predict(PROBLEM.X_new), rtol=1e-6, atol=1e-8
        )


@pytest.mark.parametrize("selection", ["pivoted", "random"])
def test_the_choice_is_seeded_and_sorted(selection):
    one, again, other = (
        choose_rows(RBF, X, 12, selection, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, again)
    np.testing.assert_array_equal(one, np.unique(one))
    assert set(one) != set(other)


@pytest.mark.parametrize("selection", ["pivoted", "random"])
def test_random_state_decides_on_the_basis(selection):
    def rows(seed):
        model = RLS(1.0, 6, basis_selection=selection, random_state=seed)
        return list(model.fit(PROBLEM.X, PROBLEM.y).basis_)

    assert rows(0) == rows(0)
    assert rows(None) == rows(None)
    assert len({tuple(rows(seed)) for seed in range(5)}) > 1


def assert_shares(found, expected, draws):
    """Within four standard deviations of what was drawn."""
    assert np.all(
        np.abs(found - expected) <= 4 * np.sqrt(expected * (1 - expected) / draws) + 1 / draws
    )


def test_the_first_pivot_is_drawn_in_proportion_to_the_diagonal():
    rows = np.sqrt(np.asarray([1.0, 2.0, 3.0, 4.0]))[:, None] * np.eye(4)
    rng = np.random.default_rng(0)
    counts = np.bincount(
        [pivoted_rows(Kernel("linear"), rows, 1, rng)[0] for _ in range(500)], minlength=4
    )
    assert_shares(counts / 500, np.asarray([0.1, 0.2, 0.3, 0.4]), 500)


def test_blocks_draw_sets_of_rows_with_the_probability_of_one_by_one():
    rows = np.asarray([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.7, 0.7]])
    K = rows @ rows.T
    expected = np.zeros((4, 4))
    for i in range(4):
        left = np.diag(K) - K[:, i] ** 2 / K[i, i]
        expected[i] = K[i, i] / np.trace(K) * np.clip(left, 0, None) / left.sum()
    rng, found = np.random.default_rng(3), np.zeros((4, 4))
    for _ in range(500):
        i, j = pivoted_rows(Kernel("linear"), rows, 2, rng)
        found[i, j] += 1 / 500
    assert_shares(found, expected, 500)


def test_pivoted_rows_explain_more_than_random_ones():
    clusters = np.concatenate([RNG.normal(scale=0.05, size=(94, 3)), 3 * np.eye(3), -3 * np.eye(3)])
    own = Kernel("rbf", 1.0)
    shares = {
        selection: np.mean(
            [
                residual(
                    clusters,
                    choose_rows(own, clusters, 8, selection, np.random.default_rng(s)),
                    own,
                )
                for s in range(9)
            ]
        )
        for selection in ("pivoted", "random")
    }
    assert shares["pivoted"] < 0.5 * shares["random"]


def test_a_kernel_that_is_zero_everywhere_still_gives_a_basis():
    assert len(pivoted(np.zeros((5, 2)), 3, own=Kernel("linear"))) == 1


def test_candidates_are_limited_and_seeded(monkeypatch):
    np.testing.assert_array_equal(candidate_rows(np.arange(9_000), 10, 0), np.arange(9_000))
    some = candidate_rows(np.arange(30_000), 10, 0)
    assert len(some) == 10_000
    np.testing.assert_array_equal(some, np.unique(some))
    np.testing.assert_array_equal(some, candidate_rows(np.arange(30_000), 10, 0))
    assert len(candidate_rows(np.arange(30_000), 1_000, 0)) == 20_000


def test_basis_rows_are_row_numbers_of_X():
    y = np.where(np.arange(len(PROBLEM.y)) % 3 == 0, np.nan, PROBLEM.y)
    for selection in ("pivoted", "random"):
        model = RankRLS(1.0, 5, basis_selection=selection).fit(PROBLEM.X, y, qid=PROBLEM.qid)
        assert not np.isnan(y[model.basis_]).any()
        np.testing.assert_array_equal(model.basis_points_, PROBLEM.X[model.basis_])


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_a_precomputed_kernel_has_the_same_pivots(make):
    one = RankRLS(1.0, 6, gamma=0.3).fit(make(X), X[:, 0])
    other = RankRLS(1.0, 6, kernel="precomputed").fit(make(RBF.block(X, X)), X[:, 0])
    np.testing.assert_array_equal(one.basis_, other.basis_)


def test_auto_says_once_that_it_takes_a_subset(monkeypatch):
    monkeypatch.setattr("corank.learners.base.Learner._auto_basis", (50, 10))
    with pytest.warns(BasisNotice, match=r"basis='auto' takes 10 of 60 rows") as notices:
        model = RLS(1.0).fit(X, X[:, 0])
    assert len(notices) == 1
    assert notices[0].filename == __file__
    assert len(model.basis_) == 10
    RLS(1.0, 10).fit(X, X[:, 0])
    RLS(1.0).fit(X[:50], X[:50, 0])


def test_auto_is_all_rows_up_to_the_limit():
    assert (AUTO_LIMIT, AUTO_SIZE) == (5_000, 1_000)
    np.testing.assert_array_equal(RLS(1.0).fit(X, X[:, 0]).basis_, np.arange(60))


def test_whitened_features_have_the_identity_as_gram():
    basis = KernelBasis(RBF, X[:20])
    white = basis.whitening.matrix
    np.testing.assert_allclose(white.T @ basis.gram @ white, np.eye(white.shape[1]), atol=1e-9)


@pytest.mark.parametrize("gamma", [1e-4, 1e-2, 1.0])
def test_small_eigenvalues_are_dropped_and_no_others(gamma):
    basis = KernelBasis(Kernel("rbf", gamma), X[:20])
    values = np.linalg.eigvalsh(basis.gram)
    assert basis.whitening.matrix.shape == (20, int(np.sum(values > EIGENVALUE_CUT * values[-1])))
    assert basis.whitening.condition <= 1 / EIGENVALUE_CUT


@pytest.mark.parametrize("gamma", [0.003, 0.4])
@pytest.mark.parametrize("learner", [RLS, RankRLS])
def test_whitening_inside_and_after_the_pass_give_the_same_model(gamma, learner, monkeypatch):
    rows = [0, 2, 3, 7, 9, 13, 15]
    condition = KernelBasis(Kernel("rbf", gamma), PROBLEM.X[rows]).whitening.condition
    assert (condition > WHITEN_INSIDE) == (gamma < 0.1)
    found = []
    for limit in (0.0, np.inf):  # always inside, always after
        monkeypatch.setattr(corank.core.basis, "WHITEN_INSIDE", limit)
        model = learner([0.1, 1.0], rows, gamma=gamma).fit(PROBLEM.X, PROBLEM.y, qid=PROBLEM.qid)
        found.append(np.concatenate([model.predict(PROBLEM.X_new), model.path_.error]))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)


def test_duplicate_points_in_a_given_basis_change_nothing():
    twice = np.concatenate([PROBLEM.X, PROBLEM.X[:3]])
    y, qid = np.append(PROBLEM.y, [np.nan] * 3), np.append(PROBLEM.qid, [0] * 3)
    rows = [0, 1, 2, 9, len(y) - 3, len(y) - 2, len(y) - 1]
    model = RankRLS(0.3, rows, gamma=0.4).fit(twice, y, qid=qid)
    expected = fit_predict(
        PROBLEM.X,
        PROBLEM.y,
        PROBLEM.X_new,
        kernel("rbf", 0.4),
        0.3,
        Loss(),
        qid=PROBLEM.qid,
        basis=PROBLEM.X[rows[:4]],
    )
    np.testing.assert_allclose(model.predict(PROBLEM.X_new), expected, rtol=1e-7, atol=1e-9)


def test_built_in_kernels_are_those_of_scikit_learn_and_one_more():
    assert set(BUILT_IN_KERNELS) == {*PAIRWISE_KERNEL_FUNCTIONS, "exponential"}
