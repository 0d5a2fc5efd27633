"""What cannot be learned from is refused before any work, in one clear sentence that names the
argument.
"""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold

from corank import RLS, RankRLS

RNG = np.random.default_rng(71)
N = 12
X, Y, QID = RNG.normal(size=(N, 3)), RNG.normal(size=N), np.repeat(np.arange(3), 4)
K = X @ X.T
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])


def with_entry(values, place, entry):
    changed = np.array(values, dtype=float)
    changed[place] = entry
    return changed


def fit(x=X, y=Y, qid=None, sample_weight=None, **options):
    return RankRLS(**{"alpha": 1.0, **options}).fit(x, y, qid=qid, sample_weight=sample_weight)


def compare(winners, losers, basis="all", beta=0.0, **options):
    return RankRLS(1.0, basis, beta=beta).fit_comparisons(X, winners, losers, **options)


def refusals(table):
    return pytest.mark.parametrize(("call", "message"), table.values(), ids=table.keys())


@refusals(
    {
        "infinite X": (lambda: fit(with_entry(X, (0, 0), np.inf)), "X contains infinity"),
        "NaN in X": (lambda: fit(with_entry(X, (0, 0), np.nan)), "X contains NaN"),
        "NaN in CSR": (lambda: fit(sparse.csr_array(with_entry(X, (0, 0), np.nan))), "X contains NaN"),
        "NaN in a frame": (lambda: fit(FRAME.assign(a=np.nan)), "X contains NaN"),
        "X of one dimension": (lambda: fit(X[:, 0]), "Expected 2D array"),
        "X without rows": (lambda: fit(X[:0], Y[:0]), "0 sample"),
        "X without columns": (lambda: fit(X[:, :0]), "0 feature"),
        "text column": (lambda: fit(FRAME.assign(city="Turku")), "X has columns without numbers: city"),
        "category column": (lambda: fit(FRAME.assign(city=pd.Categorical(["Turku"] * N))), "X has .*: city"),
        "date column": (lambda: fit(FRAME.assign(day=pd.Timestamp("2020-01-01"))), "X has .*: day"),
        "text column in polars": (lambda: fit(pl.DataFrame({"a": Y, "city": ["Turku"] * N})), "X has .*: city"),
        "column of mixed things": (lambda: fit(FRAME.assign(city=[1, "Turku"] * 6)), "city"),
        "column of durations": (lambda: fit(FRAME.assign(age=pd.Timedelta(1, "D"))), "age"),
    }
)  # fmt: skip
def test_features(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@refusals(
    {
        "no y": (lambda: fit(y=None), "y .*None"),
        "infinite score": (lambda: fit(y=with_entry(Y, 0, np.inf)), "y contains infinity; use NaN"),
        "no scored row": (lambda: fit(y=np.full(N, np.nan)), "y has no scored row"),
        "y too short": (lambda: fit(y=Y[:-1]), "y has 11 scores but X has 12 rows"),
        "y of two columns": (lambda: fit(y=np.stack([Y, Y], axis=1)), "y should be a 1d array"),
        "y of text": (lambda: fit(y=["good"] * N), "y must hold numbers"),
        "qid too short": (lambda: fit(qid=QID[:-1]), "qid has 11 labels but X has 12 rows"),
        "qid of group sizes": (lambda: fit(qid=[4, 4, 4]), "qid has 3 labels but X has 12 rows"),
        "qid of two columns": (lambda: fit(qid=np.stack([QID, QID], axis=1)), "qid must have one label per row"),
        "qid of ragged lists": (lambda: fit(qid=[[1], [2, 3]] * 6), "qid"),
        "qid one label": (lambda: fit(qid=3), "qid must be one label per row"),
        "qid one word": (lambda: fit(qid="abcdefghijkl"), "qid must be one label per row"),
        "NaN in qid": (lambda: fit(qid=with_entry(QID, 0, np.nan)), "qid has a missing label"),
        "None in qid": (lambda: fit(qid=[None, *QID[1:]]), "qid has a missing label in row 0"),
        "NA in qid": (lambda: fit(qid=pd.Series([pd.NA, *QID[1:]], dtype="Int64")), "qid has .*missing label"),
        "null in qid": (lambda: fit(qid=pl.Series([None, *QID[1:].tolist()])), "qid has a missing"),
    }
)  # fmt: skip
def test_scores_and_queries(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@refusals(
    {
        "negative": (
            lambda: fit(sample_weight=with_entry(np.ones(N), 0, -1)),
            "sample_weight contains negative",
        ),
        "NaN": (
            lambda: fit(sample_weight=with_entry(np.ones(N), 0, np.nan)),
            "sample_weight contains NaN",
        ),
        "infinite": (
            lambda: fit(sample_weight=with_entry(np.ones(N), 0, np.inf)),
            "sample_weight contains .*infinity",
        ),
        "too short": (
            lambda: fit(sample_weight=np.ones(11)),
            "sample_weight has 11 values, but 12 are needed",
        ),
        "two dimensions": (lambda: fit(sample_weight=np.ones((N, 1))), "sample_weight"),
        "all zero": (lambda: fit(sample_weight=np.zeros(N)), "sample_weight leaves no scored row"),
        "only on unscored rows": (
            lambda: fit(y=with_entry(Y, slice(0, 6), np.nan), sample_weight=np.repeat([1, 0], 6)),
            "sample_weight leaves no scored row",
        ),
        "with equal queries": (
            lambda: fit(qid=QID, sample_weight=np.ones(N), weighting="query"),
            "sample_weight does not go with weighting='query'",
        ),
    }
)
def test_weights(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "alpha",
    [0, -1.0, np.nan, np.inf, [1, 0], [1, np.nan], [], [[1.0]], None, "scale", {1: 2}],
    ids=str,
)
def test_alpha(alpha):
    with pytest.raises(ValueError, match="alpha"):
        fit(alpha=alpha)


@pytest.mark.parametrize("gamma", [0, -1.0, np.nan, [1, 0], [], None, "wide"], ids=str)
def test_gamma(gamma):
    with pytest.raises(ValueError, match="gamma"):
        fit(gamma=gamma)


@refusals(
    {
        "larger than the rows": (lambda: fit(basis=13), "basis = 13 must lie between 1 and .* 12"),
        "larger than the scored rows": (
            lambda: fit(y=with_entry(Y, 0, np.nan), basis=12),
            "basis = 12 must lie between 1 and the number of scored rows .*11",
        ),
        "zero": (lambda: fit(basis=0), "basis must be 1 or more, got 0"),
        "outside X": (lambda: fit(basis=[0, 12]), "basis holds row 12, but X has rows 0 to 11"),
        "negative": (lambda: fit(basis=[-1]), "basis holds row -1"),
        "twice the same": (lambda: fit(basis=[3, 1, 3]), "basis holds the same row index twice"),
        "empty": (lambda: fit(basis=[]), "basis must be"),
        "fractions": (lambda: fit(basis=[0.5, 1.5]), "basis must be"),
        "a fraction": (lambda: fit(basis=2.5), "basis must be"),
        "a mask": (lambda: fit(basis=[True] * N), "basis must be"),
        "a wrong word": (lambda: fit(basis="some"), "basis 'some' is not known; use 'auto', 'all'"),
        "features of a curved kernel": (
            lambda: fit(basis="features"),
            "basis='features' needs kernel='linear'",
        ),
        "a wrong selection": (
            lambda: fit(basis=3, basis_selection="best"),
            "basis_selection 'best' is not known",
        ),
    }
)
def test_basis(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@refusals(
    {
        "unknown": (lambda: fit(kernel="gauss"), "kernel 'gauss' is not known; choose from .*rbf"),
        "no kernel at all": (lambda: fit(kernel=3), "kernel must be a name or a function"),
        "function of a wrong shape": (
            lambda: fit(kernel=lambda A, B: np.ones(3)),
            r"kernel must return .*\(12, 12\)",
        ),
        "function that gives NaN": (
            lambda: fit(kernel=lambda A, B: np.full((len(A), len(B)), np.nan)),
            "kernel",
        ),
        "function that is no kernel": (lambda: fit(kernel=lambda A, B: -A @ B.T), "kernel"),
        "name that is no kernel here": (lambda: fit(kernel="sigmoid", alpha=1e-6), "kernel"),
        "degree of text": (lambda: fit(kernel="poly", degree="three"), "degree"),
        "degree that gives NaN": (lambda: fit(kernel="poly", degree=np.nan), "degree|kernel"),
        "coef0 that gives NaN": (lambda: fit(kernel="poly", coef0=np.nan), "coef0|kernel"),
        "not square": (
            lambda: fit(X, kernel="precomputed"),
            r"Precomputed matrix X must be a square.*\(12, 3\)",
        ),
        "not symmetric": (
            lambda: fit(with_entry(K, (0, 1), 9.0), kernel="precomputed"),
            "Precomputed matrix X is not symmetric",
        ),
        "not positive": (
            lambda: fit(-K, kernel="precomputed"),
            "Precomputed matrix X is not positive semi-definite",
        ),
        "weighting": (
            lambda: fit(weighting="pair"),
            "weighting 'pair' is not known; use 'size', 'unit' or 'query'",
        ),
        "scoring": (lambda: fit(scoring="auc"), "scoring 'auc' is not known"),
        "beta above": (lambda: fit(beta=1.5), r"beta must lie between 0 .* and 1 .*, got 1\.5"),
        "beta below": (lambda: fit(beta=-0.1), "beta must lie between 0"),
        "beta NaN": (lambda: fit(beta=np.nan), "beta must lie between 0"),
        "beta text": (lambda: fit(beta="half"), "beta"),
    }
)
def test_kernel_and_loss(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@refusals(
    {
        "outside X": (
            lambda: compare([0, 12], [1, 2]),
            "winners points at row 12, but X has rows 0 to 11",
        ),
        "negative row": (lambda: compare([0, 1], [1, -1]), "losers points at row -1"),
        "with itself": (
            lambda: compare([0, 1], [1, 1]),
            "winners and losers hold a comparison of row 1",
        ),
        "unequal numbers": (lambda: compare([0, 1], [1]), "winners has 2 rows and losers 1"),
        "none": (lambda: compare([], []), "winners and losers are empty"),
        "fractions": (lambda: compare([0.0], [1.0]), "winners must be row numbers"),
        "a mask": (lambda: compare([True], [False]), "winners must be row numbers"),
        "negative margin": (lambda: compare([0], [1], margins=[-1]), "margins .*negative"),
        "NaN margin": (lambda: compare([0], [1], margins=[np.nan]), "margins contains NaN"),
        "too few margins": (
            lambda: compare([0, 1], [1, 2], margins=[1]),
            "margins has 1 values, but 2",
        ),
        "negative weight": (lambda: compare([0], [1], weights=[-1]), "weights contains negative"),
        "no weight": (lambda: compare([0], [1], weights=[0]), "weights leaves no comparison"),
        "qid too short": (
            lambda: compare([0], [1], qid=[1, 2]),
            "qid has 2 labels but X has 12 rows",
        ),
        "across queries": (
            lambda: compare([0, 1], [1, 5], qid=QID),
            "comparison 1 is between rows of two queries",
        ),
        "beta": (lambda: compare([0], [1], beta=0.5), "beta must be 0 for comparisons"),
        "basis beyond the compared rows": (
            lambda: compare([0], [1], basis=3),
            "basis = 3 must lie between 1 and",
        ),
    }
)
def test_comparisons(call, message):
    with pytest.raises(ValueError, match=message):
        call()


ALL = np.arange(N)


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        ([], "cv gives no split"),
        ([(ALL, ALL[:0])], "cv gives no split, or one without scored rows"),
        ([([], [1, 2])], "cv gives no split, or one without scored rows"),
        ([(ALL[4:], ALL[:4])], "cv gives .* without scored rows"),  # rows 0 to 3 have no score
        ([(ALL[:5], [20])], "cv"),
        ([(ALL[:5], [-1])], "cv"),
        ([([0.5], [1.0])], "cv"),
        ("folds", "cv"),
        (KFold(20), "n_splits=20"),
    ],
    ids=[
        "no split",
        "no test",
        "no train",
        "unscored test",
        "outside X",
        "negative",
        "fractions",
        "a word",
        "too many",
    ],
)
@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")
def test_splits(cv, message):
    with pytest.raises(ValueError, match=message):
        fit(y=with_entry(Y, slice(0, 4), np.nan), qid=QID, alpha=[0.1, 1.0], cv=cv)


@refusals(
    {
        "fewer columns": (
            lambda: fit().predict(X[:, :2]),
            "X has 2 features, but RankRLS is expecting 3",
        ),
        "NaN": (lambda: fit().predict(with_entry(X, (0, 0), np.nan)), "X contains NaN"),
        "one dimension": (lambda: fit().predict(X[0]), "Expected 2D array"),
        "other names": (
            lambda: fit(FRAME).predict(FRAME.rename(columns={"a": "z"})),
            "feature names(.|\n)*- z",
        ),
        "names in another order": (
            lambda: fit(FRAME).predict(FRAME[["b", "a", "c"]]),
            "same order",
        ),
        "columns of a kernel": (
            lambda: fit(K, kernel="precomputed").predict(K[:, :3]),
            "X has 3 features.*12",
        ),
        "not fitted": (lambda: RankRLS().predict(X), "not fitted yet"),
    }
)
def test_predict(call, message):
    with pytest.raises((ValueError, NotFittedError), match=message):
        call()


@pytest.mark.parametrize("learner", [RLS, RankRLS])
def test_tensors_are_checked_too(learner):
    torch = pytest.importorskip("torch")
    tensor = torch.asarray(X)
    for call, message in (
        (
            lambda: learner(1.0).fit(torch.asarray(with_entry(X, (0, 0), np.nan)), Y),
            "X contains NaN or infinity",
        ),
        (lambda: learner(1.0).fit(tensor[:, 0], Y), "X must have two dimensions"),
        (lambda: learner(1.0).fit(tensor[:0], Y[:0]), "X is empty"),
        (
            lambda: learner(1.0).fit(tensor, torch.asarray(with_entry(Y, 0, np.inf))),
            "y contains infinity",
        ),
        (
            lambda: learner(1.0).fit(tensor, Y, qid=torch.asarray(QID)[:, None]),
            "qid must have one label per row",
        ),
        (lambda: learner(1.0).fit(tensor, Y).predict(tensor[:, :2]), "X has 2 features"),
        (lambda: learner(1.0).fit(tensor + 0j, Y), "X holds complex numbers"),
        (
            lambda: learner(1.0).fit(sparse.csr_array(X), Y).predict(tensor),
            "fitted on a CSR matrix; X must be",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
