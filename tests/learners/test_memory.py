"""Peak memory stays within its bounds: CSR is never made dense, and blocks do not grow with the
rows.
"""

import numpy as np
import pytest
from scipy import sparse

from corank import RLS, PreferenceGP, ProductKernel, RankRLS, View

# every thread holds a block: the bounds are those of one
pytestmark = pytest.mark.usefixtures("one_blas_thread")

COLUMNS = 195_098  # of the parse ranking data


def text_like(n_rows, per_row, seed=0):
    """CSR with `per_row` values per row."""
    rng = np.random.default_rng(seed)
    columns = np.sort(rng.integers(0, COLUMNS, (n_rows, per_row), dtype=np.int32), axis=1)
    values = rng.random((n_rows, per_row), dtype=np.float32)
    starts = np.arange(0, n_rows * per_row + 1, per_row, dtype=np.int32)
    X = sparse.csr_array((values.ravel(), columns.ravel(), starts), shape=(n_rows, COLUMNS))
    X.sum_duplicates()
    return X, rng.normal(size=n_rows), np.arange(n_rows) // 5


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"kernel": "linear"},
        {"kernel": "linear", "basis": "features"},
        {"basis": 30},
        {"kernel": "cosine"},
    ],
    ids=str,
)
def test_a_hundred_parses_fit_and_predict_within_20_mb(parameters, memory_limit):
    X, y, qid = text_like(100, 520)
    with memory_limit(20):
        RankRLS(**parameters).fit(X, y, qid=qid).predict(X)


def test_forty_thousand_sparse_rows_fit_within_250_mb(memory_limit):
    X, y, qid = text_like(40_000, 100)  # 62 GB as a dense matrix
    with memory_limit(250):
        model = RankRLS(basis=150).fit(X, y, qid=qid)
    with memory_limit(50):
        model.predict(X)


def test_memory_of_a_pass_does_not_grow_with_the_rows(memory_limit):
    rng = np.random.default_rng(0)
    model = RankRLS(basis=np.arange(100), alpha=1.0)
    for n in (20_000, 80_000):
        X, y, qid = rng.normal(size=(n, 20)), rng.normal(size=n), np.arange(n) // 40
        rows = n * 8 / 1e6  # one number per row
        with memory_limit(80 + 8 * rows):
            model.fit(X, y, qid=qid)
        with memory_limit(40 + 2 * rows):
            model.predict(X)


def test_memory_of_comparisons_does_not_grow_with_the_basis(memory_limit):
    rng = np.random.default_rng(0)
    X = rng.random((300, 4))
    winners = rng.integers(0, 300, 20_000)
    losers = (winners + rng.integers(1, 300, 20_000)) % 300
    with memory_limit(25):  # 48 MB for one number per comparison and basis row
        PreferenceGP(amplitude=1.0, gamma=1.0).fit_comparisons(X, winners, losers)


def test_features_of_single_precision_are_not_copied_to_predict(memory_limit):
    X = np.random.default_rng(0).normal(size=(200_000, 40)).astype(np.float32)
    model = RankRLS(alpha=1.0, kernel="linear", basis="features").fit(X[:200], np.arange(200.0))
    with memory_limit(20):  # 64 MB as float64
        assert model.predict(X).dtype == np.float32


@pytest.mark.parametrize("qid", [None, np.repeat(np.arange(300), 250)], ids=["pairs", "queries"])
def test_a_complete_grid_holds_forty_numbers_per_pair(qid, memory_limit):
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(300, 2)), rng.normal(size=(250, 2))
    X = np.hstack([np.repeat(left, 250, axis=0), np.tile(right, (300, 1))])
    kernel = ProductKernel([View([0, 1]), View([2, 3])])
    learner = RLS(kernel=kernel) if qid is None else RankRLS(kernel=kernel)
    with memory_limit(40 * len(X) * 8 / 1e6):  # a kernel matrix has 75,000 per pair
        model = learner.fit(X, X[:, 0] * X[:, 2], qid=qid)
        model.predict(X)
