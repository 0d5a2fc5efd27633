"""One pass over rows against dense sums, however the rows are cut into chunks, folds and parts."""

import numpy as np
import pytest
from brute_force import Loss, laplacian, small_problem

import corank.core.sums
from corank.core.loss import WEIGHTINGS, Pointwise, blend
from corank.core.sums import Accumulator, gather

PROBLEM = small_problem(seed=1)
N = len(PROBLEM.y)
LOSSES = [Loss(weighting, beta) for weighting in WEIGHTINGS for beta in (0.0, 0.3)] + [
    Loss(beta=1.0)
]
every_loss = pytest.mark.parametrize(
    "loss", LOSSES, ids=lambda loss: f"{loss.weighting}-{loss.beta}"
)


def features(X):
    return np.concatenate([X, X[:, :1] * X[:, 1:2]], axis=1)


def comparison(loss):
    return blend(loss.weighting, loss.beta)


def dense(loss, rows, weights=None, qid=PROBLEM.qid, X=PROBLEM.X, y=PROBLEM.y):
    """Σ z L zᵀ over some rows, from the dense Laplacian of those rows."""
    z = np.concatenate([features(X), y[:, None], np.ones((len(y), 1))], axis=1)[rows]
    return z.T @ laplacian(qid[rows], loss, None if weights is None else weights[rows]) @ z


def gathered(loss, *, weights=None, folds=None, qid=PROBLEM.qid, **options):
    return gather(
        PROBLEM.X, PROBLEM.y, qid, weights, comparison(loss), features, 4, folds, **options
    )


ALL = np.arange(N)


@every_loss
def test_one_pass_is_the_dense_sum(loss):
    total = gathered(loss).total()
    np.testing.assert_allclose(total.matrix, dense(loss, ALL), atol=1e-11)
    assert total.freedom == np.linalg.matrix_rank(laplacian(PROBLEM.qid, loss))
    assert total.weight == pytest.approx(N)


@pytest.mark.parametrize("loss", [one for one in LOSSES if one.weighting != "query"], ids=str)
def test_weighted_pass_is_the_weighted_dense_sum(loss):
    total = gathered(loss, weights=PROBLEM.weights).total()
    np.testing.assert_allclose(total.matrix, dense(loss, ALL, PROBLEM.weights), atol=1e-11)
    assert total.weight == pytest.approx(PROBLEM.weights.sum())


@every_loss
@pytest.mark.parametrize("chunk_rows", [1, 2, 3, 7, N - 1, N])
def test_chunks_of_any_size_are_the_whole(loss, chunk_rows):
    total = gathered(loss, chunk_rows=chunk_rows).total()
    np.testing.assert_allclose(total.matrix, dense(loss, ALL), atol=1e-11)
    assert total.freedom == gathered(loss).total().freedom


@every_loss
@pytest.mark.parametrize(
    "folds", [[0, 1, 2, 3, 4], [0, 1, 0, 1, 0]], ids=["query by query", "two folds"]
)
@pytest.mark.parametrize("chunk_rows", [3, N])
def test_folds_are_the_dense_sums_of_their_queries(loss, folds, chunk_rows):
    folds = np.asarray(folds)
    found = gathered(loss, folds=folds, chunk_rows=chunk_rows)
    assert found.n_folds == folds.max() + 1
    for fold in range(found.n_folds):
        inside = np.flatnonzero(folds[PROBLEM.qid] == fold)
        outside = np.flatnonzero(folds[PROBLEM.qid] != fold)
        np.testing.assert_allclose(found.of(fold).matrix, dense(loss, inside), atol=1e-11)
        np.testing.assert_allclose(found.without(fold).matrix, dense(loss, outside), atol=1e-11)
        assert found.of(fold).freedom == np.linalg.matrix_rank(laplacian(PROBLEM.qid[inside], loss))


@every_loss
@pytest.mark.parametrize("chunk_rows", [3, N])
@pytest.mark.parametrize("weighted", [False, True])
def test_folds_of_items_are_queries_of_what_they_leave(loss, chunk_rows, weighted):
    weights = PROBLEM.weights if weighted and loss.weighting != "query" else None
    folds, one = ALL % 3, np.zeros(N, dtype=np.int64)
    found = gathered(loss, qid=None, folds=folds, weights=weights, chunk_rows=chunk_rows)
    for fold in range(3):
        inside, outside = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        np.testing.assert_allclose(
            found.of(fold).matrix, dense(loss, inside, weights, one), atol=1e-11
        )
        np.testing.assert_allclose(
            found.without(fold).matrix, dense(loss, outside, weights, one), atol=1e-11
        )
    np.testing.assert_allclose(found.total().matrix, dense(loss, ALL, weights, one), atol=1e-11)


def in_query_order():
    order = np.argsort(PROBLEM.qid, kind="stable")
    return PROBLEM.X[order], PROBLEM.y[order], PROBLEM.qid[order], PROBLEM.weights[order]


@pytest.mark.parametrize("loss", LOSSES[:2] + LOSSES[-1:], ids=str)
@pytest.mark.parametrize("cut", range(1, N))
def test_a_cut_anywhere_changes_nothing(loss, cut):
    X, y, qid, w = in_query_order()
    accumulator = Accumulator(comparison(loss), features, 4, y)
    for rows in (slice(0, cut), slice(cut, N)):
        accumulator.add(X[rows], y[rows], qid[rows], w[rows])
    np.testing.assert_allclose(
        accumulator.result().total().matrix, dense(loss, ALL, PROBLEM.weights), atol=1e-11
    )


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_no_weights_are_ones(loss):
    X, y, qid, _ = in_query_order()
    accumulator = Accumulator(comparison(loss), features, 4, y)
    for rows in (slice(0, 9), slice(9, N)):
        accumulator.add(X[rows], y[rows], qid[rows], None)
    np.testing.assert_allclose(accumulator.result().total().matrix, dense(loss, ALL), atol=1e-11)


@pytest.mark.parametrize("loss", LOSSES[:2] + LOSSES[-1:], ids=str)
def test_one_query_over_many_chunks(loss):
    X, y, _, w = in_query_order()
    one = np.zeros(N, dtype=np.int64)
    accumulator = Accumulator(comparison(loss), features, 4, y)
    for row in range(N):
        accumulator.add(X[row : row + 1], y[row : row + 1], one[:1], w[row : row + 1])
    expected = dense(loss, ALL, w, one, X, y)
    np.testing.assert_allclose(accumulator.result().total().matrix, expected, atol=1e-11)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("qid", ["large", "small", None])
def test_blocks_smaller_than_a_query_change_nothing(loss, qid, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(260, 3)), rng.normal(size=260)
    codes = {
        "large": np.repeat([0, 1], [150, 110]),
        "small": np.repeat(np.arange(20), 13),
        None: None,
    }[qid]
    codes = codes if codes is None else rng.permutation(codes)
    expected = gather(X, y, codes, None, comparison(loss), features, 4).total()
    monkeypatch.setattr(corank.core.sums, "GRAM_ENTRIES", 1)  # blocks of 64 rows
    found = gather(X, y, codes, None, comparison(loss), features, 4, chunk_rows=200).total()
    np.testing.assert_allclose(found.matrix, expected.matrix, atol=1e-9)
    assert found.freedom == expected.freedom


def test_merged_sums_are_the_sums_of_all_rows():
    first, second = (np.flatnonzero(np.isin(PROBLEM.qid, own)) for own in ([0, 3], [1, 2, 4]))
    loss = Loss("size", 0.3)
    parts = [
        gather(
            PROBLEM.X[rows], PROBLEM.y[rows], PROBLEM.qid[rows], None, comparison(loss), features, 4
        )
        for rows in (first, second)
    ]
    np.testing.assert_allclose(
        parts[0].merged(parts[1]).total().matrix, dense(loss, ALL), atol=1e-11
    )


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_merged_parts_of_the_nameless_query_become_one_query(weighting):
    loss = Loss(weighting)
    parts = [
        gather(PROBLEM.X[rows], PROBLEM.y[rows], None, None, comparison(loss), features, 4)
        for rows in (slice(0, 8), slice(8, N))
    ]
    merged = parts[0].merged(parts[1]).total()
    np.testing.assert_allclose(merged.matrix, dense(loss, ALL, qid=np.zeros(N)), atol=1e-10)
    assert merged.freedom == N - 1


@pytest.mark.parametrize("qid", [PROBLEM.qid, None], ids=["queries", "items"])
def test_collapsed_folds_have_the_same_total(qid):
    folds = np.asarray([0, 1, 2, 0, 1]) if qid is not None else ALL % 4
    found = gathered(Loss("unit"), qid=qid, folds=folds)
    one = found.collapsed()
    assert one.n_folds == 1
    np.testing.assert_allclose(one.total().matrix, found.total().matrix, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("qid", [PROBLEM.qid, None], ids=["queries", "items"])
def test_mapped_is_the_pass_over_mapped_features(qid):
    W = np.random.default_rng(2).normal(size=(4, 2))
    folds = None if qid is not None else ALL % 2
    found = gathered(Loss("size", 0.3), qid=qid, folds=folds).mapped(W)
    expected = gather(
        PROBLEM.X,
        PROBLEM.y,
        qid,
        None,
        comparison(Loss("size", 0.3)),
        lambda X: features(X) @ W,
        2,
        folds,
    )
    for fold in range(found.n_folds):
        np.testing.assert_allclose(found.of(fold).matrix, expected.of(fold).matrix, atol=1e-11)


def test_right_loss_and_what_is_explained_are_the_literal_ones():
    loss, c = Loss("unit", 0.3), np.random.default_rng(4).normal(size=(4, 3))
    gram, L, phi = gathered(loss).total(), laplacian(PROBLEM.qid, loss), features(PROBLEM.X)
    s = PROBLEM.y - 0.7
    np.testing.assert_allclose(gram.features, phi.T @ L @ phi, atol=1e-10)
    np.testing.assert_allclose(gram.right(0.7)[:, 0], phi.T @ L @ s, atol=1e-10)
    literal = [(s - phi @ column) @ L @ (s - phi @ column) for column in c.T]
    np.testing.assert_allclose(gram.loss(c, 0.7), literal, rtol=1e-10)
    cross, own = gram.explained(c, 0.7)
    np.testing.assert_allclose(
        cross, [(s - phi @ column) @ L @ phi @ column for column in c.T], rtol=1e-10
    )
    np.testing.assert_allclose(
        own, [(phi @ column) @ L @ phi @ column for column in c.T], rtol=1e-10
    )


def test_mean_score_is_the_weighted_mean():
    gram = gathered(Loss(beta=1.0), weights=PROBLEM.weights).total()
    assert gram.mean_score == pytest.approx(np.average(PROBLEM.y, weights=PROBLEM.weights))


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("chunk_rows", [3, N])
@pytest.mark.parametrize("qid", [PROBLEM.qid, None], ids=["queries", "items"])
def test_a_huge_common_offset_does_not_destroy_accuracy(weighting, chunk_rows, qid):
    # the sum is exact, so only the pass can lose digits
    y, offset = np.round(PROBLEM.y * 2**10) / 2**10, 2.0**30
    X = np.round(PROBLEM.X * 2**10) / 2**10
    own = Loss(weighting)
    exact = gather(X, y, qid, None, comparison(own), lambda x: x, 3).total().matrix
    shifted = gather(
        X + offset, y + offset, qid, None, comparison(own), lambda x: x, 3, chunk_rows=chunk_rows
    )
    np.testing.assert_allclose(
        shifted.total().matrix[:4, :4], exact[:4, :4], atol=1e-5 * np.abs(exact).max()
    )


def test_pointwise_sums_ignore_queries():
    with_queries = gather(PROBLEM.X, PROBLEM.y, PROBLEM.qid, None, Pointwise(), features, 4).total()
    without = gather(PROBLEM.X, PROBLEM.y, None, None, Pointwise(), features, 4).total()
    np.testing.assert_allclose(with_queries.matrix, without.matrix, atol=1e-12)
