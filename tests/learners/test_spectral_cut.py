"""KPCRank(cut="spectral") against [Tsivtsivadze2009], section 4.2, as it is printed."""

from dataclasses import replace

import numpy as np
import pytest
from brute_force import Loss, comparison_rows, kernel, laplacian, loss_rows, small_problem
from brute_force.components import components, held_out, nystrom, path

import corank.solve.components
from corank import KPCRank, RankRLS, load
from corank.core.loss import WEIGHTINGS

pytestmark = [
    pytest.mark.usefixtures("one_blas_thread"),
    pytest.mark.filterwarnings("ignore:n_components = .* is more than these rows carry"),
]
PROBLEM = small_problem(seed=5, sizes=(1, 4, 6, 3, 5))
X, Y, QID, W, NEW = PROBLEM.X, PROBLEM.y, PROBLEM.qid, PROBLEM.weights, PROBLEM.X_new
N, CARRIED = len(Y), len(Y) - 5  # rows, and rows less queries
RBF = kernel("rbf", 0.4)
BASIS = [1, 4, 5, 9, 12, 16]
close = {"rtol": 1e-6, "atol": 1e-7}


def levelled(predictions):
    """Ranking functions are defined up to a constant."""
    return predictions - predictions[:1]


def learner(n_components=N, **options):
    return KPCRank(n_components, kernel="rbf", gamma=0.4, cut="spectral", **options)


def turned(found, T):
    """Components as columns that are uncorrelated under the loss too, the largest first."""
    _, vectors = np.linalg.eigh((T @ found.rows).T @ (T @ found.rows))
    turn = vectors[:, ::-1]
    squares = np.sum((np.sqrt(found.weights)[:, None] * found.rows @ turn) ** 2, axis=0)
    return replace(found, values=squares, rows=found.rows @ turn, new=found.new @ turn)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_the_printed_inverse(weighting):
    """w = V̂ diag(1/λ_1, …, 1/λ_p, 0, …) V̂ᵀ Λ^½ Ṽᵀ L s, with M = Λ^½ Ṽᵀ L Ṽ Λ^½ = V̂ Λ̂ V̂ᵀ."""
    centring = np.eye(N) - 1 / N
    K, K_new = RBF(X, X), RBF(NEW, X)
    K_train, K_test = centring @ K @ centring, (K_new - np.ones((len(NEW), N)) / N @ K) @ centring
    values, vectors = np.linalg.eigh(K_train)
    kept = values > 1e-10 * values[-1]
    values, vectors = values[kept], vectors[:, kept]
    root = np.sqrt(values)[:, None] * vectors.T
    L = laplacian(QID, Loss(weighting))
    inner, turn = np.linalg.eigh(root @ L @ root.T)
    inner, turn = inner[::-1], turn[:, ::-1]
    model = learner(weighting=weighting).fit(X, Y, qid=QID)
    found = model.predict_path(NEW)
    for p in range(1, CARRIED + 1):
        inverse = turn[:, :p] / inner[:p] @ turn[:, :p].T
        weights = inverse @ root @ L @ Y
        expected = K_test @ vectors / np.sqrt(values) @ weights
        np.testing.assert_allclose(levelled(found[:, p - 1]), levelled(expected), **close)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("basis", ["all", BASIS], ids=["all", "subset"])
def test_the_first_columns_under_the_loss(alpha, weights, basis):
    k = RBF if basis == "all" else nystrom(RBF, X[BASIS])
    T, t = loss_rows(Y, QID, Loss("size"), weights)
    found = turned(components(k(X, X), k(NEW, X), weights), T)
    n_components = N if basis == "all" else len(BASIS)
    model = learner(n_components, alpha=alpha, basis=basis)
    model.fit(X, Y, qid=QID, sample_weight=weights)
    predictions = levelled(model.predict_path(NEW))
    expected = levelled(path(T, t, found, alpha))
    most = min(predictions.shape[1], expected.shape[1], CARRIED)
    np.testing.assert_allclose(predictions[:, :most], expected[:, :most], **close)


@pytest.mark.parametrize("basis", ["all", BASIS], ids=["all", "subset"])
def test_held_out_errors_keep_the_directions(basis, monkeypatch):
    monkeypatch.setattr(corank.solve.components, "TUNED_SHARE", 1.0)
    k = RBF if basis == "all" else nystrom(RBF, X[BASIS])
    T, _ = loss_rows(Y, QID, Loss("size"))
    found = turned(components(k(X, X), k(NEW, X)), T)
    numbers = list(range(1, 7))
    model = learner(numbers, basis=basis).fit(X, Y, qid=QID)
    groups = [np.flatnonzero(query == QID) for query in dict.fromkeys(QID)]
    splits = [(np.setdiff1d(np.arange(N), rows), rows) for rows in groups if len(rows) > 1]
    in_turn = "orthonormalised" if basis == "all" else "as it comes"
    errors = held_out(Y, splits, found, 0.0, Loss("size"), qid=QID, in_turn=in_turn)
    np.testing.assert_allclose(model.path_.error, errors[:6], rtol=1e-6)


def test_comparisons():
    winners, losers = np.array([0, 5, 5, 9, 1, 14, 3, 8, 2]), np.array([5, 2, 9, 1, 14, 3, 8, 2, 0])
    used = np.union1d(winners, losers)
    model = learner(4).fit_comparisons(X, winners, losers)
    T, t = comparison_rows(N, winners, losers)
    found = turned(components(RBF(X[used], X[used]), RBF(NEW, X[used])), T[:, used])
    expected = levelled(path(T[:, used], t, found))
    found = levelled(model.predict_path(NEW))
    np.testing.assert_allclose(found[:, :4], expected[:, :4], **close)
    np.testing.assert_allclose(levelled(model.predict(NEW)), expected[:, 3], **close)


def test_all_directions_are_rankrls_without_a_norm_and_differ_from_components_before():
    spectral = learner().fit(X, Y, qid=QID).predict_path(NEW)
    plain = KPCRank(N, kernel="rbf", gamma=0.4).fit(X, Y, qid=QID).predict_path(NEW)
    ranker = RankRLS(1e-9, kernel="rbf", gamma=0.4).fit(X, Y, qid=QID)
    np.testing.assert_allclose(
        levelled(spectral[:, -1]), levelled(ranker.predict(NEW)), rtol=1e-3, atol=1e-3
    )
    assert np.abs(levelled(spectral) - levelled(plain))[:, 2].max() > 1e-2


def test_files_and_what_is_wrong(tmp_path):
    model = learner("tune").fit(X, Y, qid=QID)
    model.save(tmp_path / "m.corank")
    again = load(tmp_path / "m.corank")
    assert again.cut == "spectral"
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    with pytest.raises(ValueError, match="cut 'tail' is not known; use 'components' or 'spectral'"):
        KPCRank(cut="tail").fit(X, Y, qid=QID)
