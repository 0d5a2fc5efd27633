"""CSR features give what the same dense features give, and are never made dense as a whole."""

import numpy as np
import pytest
from brute_force import small_problem
from scipy import sparse
from sklearn.model_selection import ShuffleSplit

import corank.core.folds
import corank.core.sums
import corank.solve.function
import corank.solve.holdout
import corank.solve.systems
from corank import RLS, RankRLS

pytestmark = pytest.mark.usefixtures("one_blas_thread")

PROBLEM = small_problem(seed=31, sizes=(1, 30, 40, 20, 39), d=12)
DENSE = np.where(np.abs(PROBLEM.X) > 0.8, PROBLEM.X, 0.0)
DENSE[5] = 0  # an empty row
NEW = np.where(np.abs(PROBLEM.X_new) > 0.8, PROBLEM.X_new, 0.0)
Y, QID = PROBLEM.y, PROBLEM.qid
N = len(Y)
BASES = {"dual": "all", "given": [0, 5, 17, 60, 110], "pivoted": 6}
every_kind = pytest.mark.parametrize(
    "kind", [sparse.csr_matrix, sparse.csr_array], ids=["matrix", "array"]
)
every_basis = pytest.mark.parametrize("basis", BASES)
every_learner = pytest.mark.parametrize("learner", [RLS, RankRLS])


@pytest.fixture
def never_dense(monkeypatch):
    """Small blocks, and an error where all of X becomes dense at once; rows of kernel values may."""
    monkeypatch.setattr(corank.core.sums, "GRAM_ENTRIES", 1)  # blocks of 64 rows
    for module in (corank.solve.function, corank.solve.holdout):
        monkeypatch.setattr(module, "BLOCK_ENTRIES", 1)
    for module in (corank.core.folds, corank.solve.systems):  # as with many rows
        monkeypatch.setattr(module, "FEW_UNITS", 0)
    for module in (corank.core.folds, corank.solve.holdout):
        monkeypatch.setattr(module, "MAX_UNIT_FEATURES", 0)

    def watched(name):
        original = getattr(sparse.csr_array, name)

        def convert(self, *args, **kwargs):
            assert self.shape not in {(N, 12), (12, N)}, f"X was made dense as a whole by {name}"
            return original(self, *args, **kwargs)

        return convert

    for cls in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.csc_matrix):
        for name in ("toarray", "todense"):
            monkeypatch.setattr(cls, name, watched(name))


def test_the_watch_sees_a_dense_copy(never_dense):
    with pytest.raises(AssertionError, match="made dense as a whole"):
        sparse.csr_array(DENSE).toarray()


@every_kind
@every_basis
@every_learner
@pytest.mark.parametrize("kernel", ["linear", "rbf", "exponential", "poly", "cosine"])
@pytest.mark.usefixtures("never_dense")
def test_every_kernel_and_basis(kind, basis, learner, kernel):
    model = learner(0.5, basis=BASES[basis], kernel=kernel)
    expected = model.fit(DENSE, Y, qid=QID).predict(NEW)
    found = model.fit(kind(DENSE), Y, qid=QID)
    np.testing.assert_allclose(found.predict(kind(NEW)), expected, rtol=1e-7, atol=1e-9)
    assert sparse.issparse(found.basis_points_)


@every_learner
@pytest.mark.parametrize(
    "columns", [12, 300], ids=["fewer columns than rows", "more columns than rows"]
)
@pytest.mark.usefixtures("never_dense")
def test_features_as_basis(learner, columns):
    X, new = (np.tile(values, columns // 12) for values in (DENSE, NEW))
    model = learner([0.1, 1.0], "features", kernel="linear")
    expected = model.fit(X, Y, qid=QID)
    errors, predictions = expected.path_.error, expected.predict(new)
    found = model.fit(sparse.csr_array(X), Y, qid=QID)
    np.testing.assert_allclose(found.path_.error, errors, rtol=1e-7)
    np.testing.assert_allclose(
        found.predict(sparse.csr_array(new)), predictions, rtol=1e-7, atol=1e-9
    )


@every_basis
@every_learner
@pytest.mark.parametrize(
    "cv", [None, ShuffleSplit(3, random_state=0)], ids=["closed form", "refitted"]
)
@pytest.mark.parametrize("scoring", ["squared", "disagreement"])
@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")
@pytest.mark.usefixtures("never_dense")
def test_tuning_takes_the_same_way(basis, learner, cv, scoring):
    model = learner([0.1, 1.0, 10.0], basis=BASES[basis], cv=cv, scoring=scoring)
    expected = model.fit(DENSE, Y, qid=QID).path_.error
    found = model.fit(sparse.csr_array(DENSE), Y, qid=QID).path_.error
    np.testing.assert_allclose(found, expected, rtol=1e-7)


@every_basis
@pytest.mark.usefixtures("never_dense")
def test_weights_decide_on_the_width_as_for_dense_rows(basis):
    w = np.linspace(0.5, 2, N)
    found = RankRLS(1.0, BASES[basis]).fit(sparse.csr_array(DENSE), Y, qid=QID, sample_weight=w)
    expected = RankRLS(1.0, BASES[basis]).fit(DENSE, Y, qid=QID, sample_weight=w)
    assert found.gamma_ == pytest.approx(expected.gamma_, rel=1e-12)
    np.testing.assert_allclose(
        found.predict(sparse.csr_array(NEW)), expected.predict(NEW), rtol=1e-7, atol=1e-9
    )


@every_basis
@pytest.mark.usefixtures("never_dense")
def test_comparisons(basis):
    winners, losers = np.arange(0, 120, 2), np.arange(1, 121, 2)
    model = RankRLS([0.1, 1.0], BASES[basis])
    expected = model.fit_comparisons(DENSE, winners, losers).predict(NEW)
    found = model.fit_comparisons(sparse.csr_array(DENSE), winners, losers).predict(
        sparse.csr_array(NEW)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@every_kind
@every_basis
def test_single_precision_keeps_its_type(kind, basis):
    X, new = DENSE.astype(np.float32), NEW.astype(np.float32)
    model = RankRLS(0.5, BASES[basis])
    expected = model.fit(X, Y, qid=QID).predict(new)
    found = model.fit(kind(X), Y, qid=QID)
    assert found.basis_points_.dtype == np.float32
    assert found.predict(kind(new)).dtype == np.float32
    np.testing.assert_allclose(found.predict(kind(new)), expected, rtol=1e-5, atol=1e-6)


@every_kind
def test_a_model_on_csr_scores_dense_rows_and_the_other_way_round(kind):
    on_csr, on_dense = (
        RankRLS(0.5).fit(kind(DENSE), Y, qid=QID),
        RankRLS(0.5).fit(DENSE, Y, qid=QID),
    )
    expected = on_dense.predict(NEW)
    np.testing.assert_allclose(on_csr.predict(NEW), expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(on_dense.predict(kind(NEW)), expected, rtol=1e-7, atol=1e-9)


@every_kind
@every_basis
@pytest.mark.usefixtures("never_dense")
def test_update(kind, basis):
    first, later = np.flatnonzero(QID < 3), np.flatnonzero(QID >= 3)
    expected, found = (
        RankRLS(0.5, BASES[basis] if basis != "given" else [0, 5, 17], gamma=0.1)
        .fit(make(DENSE[first]), Y[first], qid=QID[first])
        .update(make(DENSE[later]), Y[later], qid=QID[later])
        for make in (np.asarray, kind)
    )
    np.testing.assert_allclose(
        found.predict(kind(NEW)), expected.predict(NEW), rtol=1e-7, atol=1e-9
    )


def test_precomputed_kernel_may_be_csr():
    K = DENSE @ DENSE.T
    for basis in BASES.values():
        model = RankRLS(0.5, basis, kernel="precomputed")
        expected = model.fit(K, Y, qid=QID).predict(NEW @ DENSE.T)
        found = model.fit(sparse.csr_array(K), Y, qid=QID).predict(sparse.csr_array(NEW @ DENSE.T))
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
