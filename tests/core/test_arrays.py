"""Arrays of other libraries, and frames, give what NumPy gives, in the library they came in."""

from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from brute_force import small_problem

from corank import RLS, RankRLS
from corank.core.arrays import symmetric_product, to_numpy
from corank.core.loss import WithinQueries

pytestmark = pytest.mark.usefixtures("one_blas_thread")

PROBLEM = small_problem(seed=21, sizes=(1, 4, 7, 3, 5, 4, 6))
QID = PROBLEM.qid
N = len(QID)
LEARNERS = [RLS, RankRLS]
BASES = {"dual": "all", "given": [0, 3, 4, 8, 20], "pivoted": 6}


class Library:
    """How a backend makes arrays and gives them back."""

    def __init__(self, name, dtype):
        self.name, self.dtype = name, dtype
        self.module = pytest.importorskip("torch" if name == "torch" else "array_api_strict")

    def array(self, values):
        return self.module.asarray(values)

    def features(self, values):
        return self.array(np.asarray(values, dtype=self.dtype))

    def check(self, found, dtype=None):
        assert type(found).__module__.split(".")[0] == self.name
        assert dtype is None or found.dtype == getattr(self.module, dtype)

    def numpy(self, values):
        return values.numpy() if self.name == "torch" else np.from_dlpack(values)

    def same(self, found, expected, dtype=None):
        self.check(found, dtype)
        single = self.dtype == "float32"
        np.testing.assert_allclose(
            self.numpy(found),
            expected,
            rtol=1e-5 if single else 1e-8,
            atol=1e-6 if single else 1e-10,
        )


@pytest.fixture(
    params=[("torch", "float64"), ("torch", "float32"), ("array_api_strict", "float64")],
    ids="-".join,
)
def library(request):
    return Library(*request.param)


def rows(library):
    """The same rows for NumPy and for the library: features, scores, new features."""
    X, new = (np.asarray(values, dtype=library.dtype) for values in (PROBLEM.X, PROBLEM.X_new))
    return (X, PROBLEM.y, new), (
        library.features(X),
        library.array(PROBLEM.y),
        library.features(new),
    )


def both(library, learner, *, foreign_qid=False, **options):
    (X, y, new), (own_X, own_y, own_new) = rows(library)
    qid = library.array(QID) if foreign_qid else QID
    expected = learner(**options).fit(X, y, qid=QID)
    found = learner(**options).fit(own_X, own_y, qid=qid)
    library.same(found.predict(own_new), expected.predict(new), library.dtype)
    library.check(found.coef_, "float64")
    return found, expected


def with_learners(*factors):
    """The cross product of the factors, each combination with one of the learners in turn."""
    return [
        (*case, LEARNERS[number % len(LEARNERS)]) for number, case in enumerate(product(*factors))
    ]


@pytest.mark.parametrize(
    ("kernel", "basis", "learner"), with_learners(["linear", "rbf", "poly", "cosine"], BASES)
)
def test_every_kernel_and_basis(library, basis, kernel, learner):
    both(library, learner, alpha=0.5, basis=BASES[basis], kernel=kernel)


@pytest.mark.parametrize("weighting", ["size", "unit", "query"])
@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_every_weighting(library, weighting, beta):
    both(library, RankRLS, alpha=0.5, weighting=weighting, beta=beta)


@pytest.mark.parametrize("learner", [RLS, RankRLS])
@pytest.mark.parametrize(
    "columns", [3, 40], ids=["fewer columns than rows", "more columns than rows"]
)
def test_features_as_basis(library, learner, columns):
    wide = small_problem(seed=22, d=columns)
    X, new = (np.asarray(values, dtype=library.dtype) for values in (wide.X, wide.X_new))
    model = learner([0.1, 1.0], "features", kernel="linear")
    expected = model.fit(X, wide.y, qid=wide.qid).predict(new)
    found = model.fit(library.features(X), library.array(wide.y), qid=wide.qid)
    library.same(found.predict(library.features(new)), expected, library.dtype)


@pytest.mark.parametrize(
    ("scoring", "basis", "learner"), with_learners(["squared", "rescaled", "disagreement"], BASES)
)
def test_tuning_takes_the_same_way(library, learner, basis, scoring):
    found, expected = both(
        library, learner, basis=BASES[basis], scoring=scoring, alpha=[0.01, 0.3, 10.0]
    )
    assert found.alpha_ == expected.alpha_
    np.testing.assert_allclose(found.path_.error, expected.path_.error, rtol=1e-5)


@pytest.mark.parametrize("learner", [RLS, RankRLS])
def test_tuning_of_width_and_alpha_takes_the_same_way(library, learner):
    found, expected = both(library, learner, gamma="tune", alpha=[0.1, 1.0])
    np.testing.assert_allclose(found.path_.error, expected.path_.error, rtol=1e-4)
    np.testing.assert_allclose(
        [found.alpha_, found.gamma_], [expected.alpha_, expected.gamma_], rtol=1e-5
    )


@pytest.mark.parametrize("basis", ["dual", "given"])
def test_items_of_one_query_without_qid(library, basis):
    (X, y, new), (own_X, own_y, own_new) = rows(library)
    model = RankRLS([0.1, 1.0], BASES[basis])
    expected = model.fit(X, y).predict(new)
    library.same(model.fit(own_X, own_y).predict(own_new), expected, library.dtype)


@pytest.mark.parametrize("learner", [RLS, RankRLS])
def test_weights_and_unscored_rows(library, learner):
    (X, y, new), (own_X, _, own_new) = rows(library)
    y = np.where(np.arange(N) % 5 == 2, np.nan, y)
    for basis in BASES.values():
        model = learner(0.5, basis=basis)
        expected = model.fit(X, y, qid=QID, sample_weight=PROBLEM.weights).predict(new)
        weights = library.array(PROBLEM.weights)
        found = model.fit(own_X, library.array(y), qid=QID, sample_weight=weights).predict(own_new)
        library.same(found, expected, library.dtype)


@pytest.mark.parametrize(("basis", "learner"), with_learners(BASES))
def test_query_labels_may_be_an_array_of_the_library(library, learner, basis):
    both(library, learner, foreign_qid=True, basis=BASES[basis], alpha=[0.1, 1.0])


@pytest.mark.parametrize(
    ("n_comparisons", "foreign", "scoring"),
    [(8, False, "squared"), (60, True, "rescaled"), (8, True, "disagreement")],
)
def test_comparisons(library, n_comparisons, foreign, scoring):
    (X, _, new), (own_X, _, own_new) = rows(library)
    rng = np.random.default_rng(0)
    winners = rng.integers(0, N, size=n_comparisons)
    losers = (winners + rng.integers(1, N, size=n_comparisons)) % N
    margins = rng.uniform(0, 2, size=n_comparisons)
    model = RankRLS([0.1, 1.0], scoring=scoring)
    expected = model.fit_comparisons(X, winners, losers, margins=margins).predict(new)
    given = [library.array(v) if foreign else v for v in (winners, losers, margins)]
    found = model.fit_comparisons(own_X, *given[:2], margins=given[2]).predict(own_new)
    library.same(found, expected, library.dtype)


@pytest.mark.parametrize("learner", [RLS, RankRLS])
@pytest.mark.parametrize("basis", ["dual", "given"])
def test_update(library, learner, basis):
    (X, y, new), (_, _, own_new) = rows(library)
    first = np.flatnonzero(QID < 4)
    later = np.flatnonzero(QID >= 4)
    given = {"dual": "all", "given": [0, 1, 2, 5]}[basis]
    models = []
    for array in (np.asarray, library.array):
        parts = [(array(X[part]), array(y[part])) for part in (first, later)]
        model = learner(0.5, basis=given).fit(*parts[0], qid=QID[first])
        models.append(model.update(*parts[1], qid=QID[later]))
    library.same(models[1].predict(own_new), models[0].predict(new), library.dtype)


def test_precomputed_kernel(library):
    (X, y, new), (_, own_y, _) = rows(library)
    K, K_new = (
        np.asarray(np.exp(-((A[:, None] - X) ** 2).sum(axis=-1) / 3), library.dtype)
        for A in (X, new)
    )
    for basis in BASES.values():
        model = RankRLS(0.5, basis, kernel="precomputed")
        expected = model.fit(K, y, qid=QID).predict(K_new)
        found = model.fit(library.features(K), own_y, qid=QID).predict(library.features(K_new))
        library.same(found, expected, library.dtype)


def test_fitted_on_numpy_predicts_where_the_rows_are(library):
    (X, y, new), (own_X, own_y, own_new) = rows(library)
    one, other = RankRLS(0.5).fit(X, y, qid=QID), RankRLS(0.5).fit(own_X, own_y, qid=QID)
    library.same(one.predict(own_new), one.predict(new), library.dtype)
    assert isinstance(other.predict(new), np.ndarray)
    library.same(other.predict(own_new), other.predict(new), library.dtype)


def test_tensors_that_ask_for_gradients_are_data():
    torch = pytest.importorskip("torch")
    X = torch.asarray(PROBLEM.X, requires_grad=True)
    expected = RankRLS(0.5).fit(PROBLEM.X, PROBLEM.y, qid=QID).predict(PROBLEM.X_new)
    found = (
        RankRLS(0.5).fit(X, torch.asarray(PROBLEM.y), qid=QID).predict(torch.asarray(PROBLEM.X_new))
    )
    assert not found.requires_grad
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-8)


def test_whole_numbers_and_half_precision_are_features_too():
    torch = pytest.importorskip("torch")
    X = np.round(10 * PROBLEM.X).astype(np.int64)
    expected = RankRLS(0.5).fit(X, PROBLEM.y, qid=QID).predict(X)
    found = RankRLS(0.5).fit(torch.asarray(X), PROBLEM.y, qid=QID).predict(torch.asarray(X))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-8, atol=1e-10)
    half = torch.asarray(PROBLEM.X).to(torch.float16)
    same = (
        RankRLS(0.5).fit(half.to(torch.float32), PROBLEM.y, qid=QID).predict(half.to(torch.float32))
    )
    np.testing.assert_allclose(
        RankRLS(0.5).fit(half, PROBLEM.y, qid=QID).predict(half).numpy(), same.numpy()
    )


def test_other_kernels_are_refused_with_a_pointer(library):
    _, (X, y, _) = rows(library)
    with pytest.raises(
        ValueError, match=r"kernel 'sigmoid' runs on NumPy arrays only; use one of linear, rbf"
    ):
        RankRLS(0.5, kernel="sigmoid").fit(X, y, qid=QID)


FRAMES = {
    "pandas": (pd.DataFrame, pd.Series),
    "pandas nullable": (
        lambda d: pd.DataFrame(d).convert_dtypes(),
        lambda v: pd.Series(v).convert_dtypes(),
    ),
    "polars": (pl.DataFrame, pl.Series),
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("learner", [RLS, RankRLS])
@pytest.mark.parametrize("basis", BASES)
def test_frames_are_their_numbers(kind, learner, basis):
    frame, series = FRAMES[kind]
    table = frame({f"column {i}": PROBLEM.X[:, i] for i in range(3)})
    y = np.where(np.arange(N) % 5 == 2, np.nan, PROBLEM.y)
    names = [f"user {q}" for q in QID]
    expected = learner([0.1, 1.0], BASES[basis]).fit(
        PROBLEM.X, y, qid=QID, sample_weight=PROBLEM.weights
    )
    missing = [None if np.isnan(v) else v for v in y]
    found = learner([0.1, 1.0], BASES[basis])
    found.fit(table, series(missing), qid=series(names), sample_weight=series(PROBLEM.weights))
    assert list(found.feature_names_in_) == ["column 0", "column 1", "column 2"]
    np.testing.assert_allclose(found.predict(table), expected.predict(PROBLEM.X), rtol=1e-10)


@pytest.mark.parametrize("columns", [5, 191, 192, 430])
@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
def test_tiles_of_a_symmetric_product_make_it_whole(library, columns):
    xp = pytest.importorskip(library)
    x = np.random.default_rng(0).normal(size=(20, columns))
    weights = np.linspace(0.1, 1, 20)
    found = symmetric_product(xp.asarray(x), xp.asarray(weights[:, None] * x))
    np.testing.assert_allclose(to_numpy(found), x.T @ (weights[:, None] * x), atol=1e-13)


# ---- devices that are short of memory, or not there


@pytest.mark.parametrize(
    "queries", [np.repeat(np.arange(1_000), 8), np.zeros(8_000, dtype=np.int64)]
)
def test_blocks_without_room_are_tried_smaller(monkeypatch, queries):
    torch = pytest.importorskip("torch")
    from corank.core import sums as statistics

    rows = np.random.default_rng(0).normal(size=(8_000, 3))
    scores, comparison = torch.as_tensor(rows[:, 0]), WithinQueries("size")
    expected = statistics.gather(
        rows, rows[:, 0], queries, None, comparison, lambda X: X, 3
    ).total()
    product, tried = statistics.gram_of, []

    def short_of_memory(z):
        tried.append(len(z))
        if len(z) > 1_500:
            raise torch.OutOfMemoryError
        return product(z)

    monkeypatch.setattr(statistics, "gram_of", short_of_memory)
    found = statistics.gather(
        torch.as_tensor(rows), scores, queries, None, comparison, lambda X: X, 3
    ).total()
    np.testing.assert_allclose(found.matrix.numpy(), expected.matrix, rtol=1e-9, atol=1e-9)
    assert max(tried) > 1_500 > min(tried)
    monkeypatch.setattr(
        statistics, "gram_of", lambda z: (_ for _ in ()).throw(torch.OutOfMemoryError())
    )
    with pytest.raises(MemoryError, match="the device has no room for blocks of 1024 rows"):
        statistics.gather(torch.as_tensor(rows), scores, queries, None, comparison, lambda X: X, 3)


def test_a_device_that_is_not_there_is_refused():
    torch = pytest.importorskip("torch")
    from corank.core.arrays import check_device

    check_device("cpu")
    with pytest.raises(ValueError, match="device='nonsense' cannot be used: PyTorch"):
        check_device("nonsense")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="finds no GPU here"):
            check_device("cuda")
