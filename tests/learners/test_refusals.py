"""What cannot be learned from is refused before any work, in one clear sentence that names the
argument: one table of calls and what the sentence says, by subject.
"""

import re
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from brute_force.views import rbf, small_views
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, PredefinedSplit

from corank import (
    RLS,
    CoRankRLS,
    CoRLS,
    DifferenceGP,
    PreferenceGP,
    RankRLS,
    View,
    random_split,
    side_by_side,
)

pytestmark = pytest.mark.usefixtures("one_blas_thread")
RNG = np.random.default_rng(71)
N = 12
X, Y, QID = RNG.normal(size=(N, 3)), RNG.normal(size=N), np.repeat(np.arange(3), 4)
ALL = np.arange(N)
K = X @ X.T
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
P = small_views(seed=2)
NAMES = ["text_a", "text_b", "text_c", "image_a", "image_b", "image_c"]
NAMED_ROWS = pd.DataFrame(P.X, columns=NAMES)
VIEWS = [View(slice(0, 3), gamma=0.5), View(slice(3, 6), gamma=0.4, penalty=2.0)]
WINNERS, LOSERS = ALL, np.roll(ALL, 1)
FIXED = {"amplitude": 1.0, "gamma": 0.5}


def with_entry(values, place, entry):
    changed = np.array(values, dtype=float)
    changed[place] = entry
    return changed


def fit(x=X, y=Y, qid=None, sample_weight=None, **options):
    return RankRLS(**{"alpha": 1.0, **options}).fit(x, y, qid=qid, sample_weight=sample_weight)


def compare(winners, losers, basis="all", beta=0.0, **options):
    return RankRLS(1.0, basis, beta=beta).fit_comparisons(X, winners, losers, **options)


def split(cv):
    """Rows 0 to 3 have no score."""
    return fit(y=with_entry(Y, slice(0, 4), np.nan), qid=QID, alpha=[0.1, 1.0], cv=cv)


def fit_views(learner, views=VIEWS, x=P.X, y=P.y, qid=P.qid, **options):
    return learner(views, **options).fit(x, y, qid=qid)


def prefer(fit="fit_comparisons", **options):
    model = PreferenceGP(**options)
    return model.fit(X, X[:, 0]) if fit == "fit" else compared(model)


def compared(model, x=X, winners=WINNERS, losers=LOSERS, **options):
    return model.fit_comparisons(x, winners, losers, **options)


def preferring():
    """A fitted model."""
    return compared(PreferenceGP(**FIXED))


def for_both(call, table):
    """A table for CoRLS and for CoRankRLS."""
    return {
        f"{case} to {learner.__name__}": (partial(call, learner, given), *says)
        for case, (given, *says) in table.items()
        for learner in (CoRLS, CoRankRLS)
    }


REFUSALS = {}
REFUSALS["features"] = {
    "infinite X": (lambda: fit(with_entry(X, (0, 0), np.inf)), "X contains infinity"),
    "NaN in X": (lambda: fit(with_entry(X, (0, 0), np.nan)), "X contains NaN"),
    "NaN in CSR": (lambda: fit(sparse.csr_array(with_entry(X, (0, 0), np.nan))), "X contains NaN"),
    "NaN in a frame": (lambda: fit(FRAME.assign(a=np.nan)), "X contains NaN"),
    "X of one dimension": (lambda: fit(X[:, 0]), "Expected 2D array"),
    "X without rows": (lambda: fit(X[:0], Y[:0]), "0 sample"),
    "X without columns": (lambda: fit(X[:, :0]), "0 feature"),
    "text column": (lambda: fit(FRAME.assign(city="Turku")), "X has columns without numbers: city"),
    "category column": (
        lambda: fit(FRAME.assign(city=pd.Categorical(["Turku"] * N))),
        "X has .*: city",
    ),
    "date column": (lambda: fit(FRAME.assign(day=pd.Timestamp("2020-01-01"))), "X has .*: day"),
    "text column in polars": (
        lambda: fit(pl.DataFrame({"a": Y, "city": ["Turku"] * N})),
        "X has .*: city",
    ),
    "column of mixed things": (lambda: fit(FRAME.assign(city=[1, "Turku"] * 6)), "city"),
    "column of durations": (lambda: fit(FRAME.assign(age=pd.Timedelta(1, "D"))), "age"),
}
REFUSALS["scores and queries"] = {
    "no y": (lambda: fit(y=None), "y .*None"),
    "infinite score": (lambda: fit(y=with_entry(Y, 0, np.inf)), "y contains infinity; use NaN"),
    "no scored row": (lambda: fit(y=np.full(N, np.nan)), "y has no scored row"),
    "y too short": (lambda: fit(y=Y[:-1]), "y has 11 scores but X has 12 rows"),
    "y of three dimensions": (lambda: fit(y=np.ones((N, 2, 2))), "y should be a 1d array"),
    "y of text": (lambda: fit(y=["good"] * N), "y must hold numbers"),
    "qid too short": (lambda: fit(qid=QID[:-1]), "qid has 11 labels but X has 12 rows"),
    "qid of group sizes": (lambda: fit(qid=[4, 4, 4]), "qid has 3 labels but X has 12 rows"),
    "qid of two columns": (
        lambda: fit(qid=np.stack([QID, QID], axis=1)),
        "qid must have one label per row",
    ),
    "qid of ragged lists": (lambda: fit(qid=[[1], [2, 3]] * 6), "qid"),
    "qid one label": (lambda: fit(qid=3), "qid must be one label per row"),
    "qid one word": (lambda: fit(qid="abcdefghijkl"), "qid must be one label per row"),
    "NaN in qid": (lambda: fit(qid=with_entry(QID, 0, np.nan)), "qid has a missing label"),
    "None in qid": (lambda: fit(qid=[None, *QID[1:]]), "qid has a missing label in row 0"),
    "NA in qid": (
        lambda: fit(qid=pd.Series([pd.NA, *QID[1:]], dtype="Int64")),
        "qid has .*missing label",
    ),
    "null in qid": (lambda: fit(qid=pl.Series([None, *QID[1:].tolist()])), "qid has a missing"),
}
REFUSALS["weights"] = {
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
REFUSALS["basis"] = {
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
REFUSALS["kernel and loss"] = {
    "unknown": (lambda: fit(kernel="gauss"), "kernel 'gauss' is not known; choose from .*rbf"),
    "no kernel at all": (lambda: fit(kernel=3), "kernel must be a name or a function", TypeError),
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
REFUSALS["comparisons"] = {
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
REFUSALS["predict"] = {
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
REFUSALS["numbers that are tuned"] = {
    **{
        f"alpha={alpha}": (partial(fit, alpha=alpha), "alpha")
        for alpha in (
            0,
            -1.0,
            np.nan,
            np.inf,
            [1, 0],
            [1, np.nan],
            [],
            [[1.0]],
            None,
            "scale",
            {1: 2},
        )
    },
    **{
        f"gamma={gamma}": (partial(fit, gamma=gamma), "gamma")
        for gamma in (0, -1.0, np.nan, [1, 0], [], None, "wide")
    },
}
REFUSALS["splits"] = {
    "no split": (partial(split, []), "cv gives no split"),
    "no test": (partial(split, [(ALL, ALL[:0])]), "cv gives no split, or one without scored rows"),
    "no train": (
        partial(split, [([], [1, 2])]),
        "cv gives no split, or one without scored rows",
    ),
    "unscored test": (partial(split, [(ALL[4:], ALL[:4])]), "cv gives .* without scored rows"),
    "outside X": (partial(split, [(ALL[:5], [20])]), "cv"),
    "negative": (partial(split, [(ALL[:5], [-1])]), "cv"),
    "fractions": (partial(split, [([0.5], [1.0])]), "cv"),
    "a word": (partial(split, "folds"), "cv"),
    "fold numbers": (partial(split, ALL % 3), "cv must be .*splitter or a list of splits"),
    "folds of all rows": (partial(split, PredefinedSplit(ALL % 3)), "of a splitter count scored"),
    "too many": (partial(split, KFold(20)), "n_splits=20"),
}

# ---- views

WRONG_VIEWS = {
    "none": ([], "views must be a list of View", TypeError),
    "no list of views": (["text"], "views must be a list of View", TypeError),
    "a number below one": (0, "views must be at least 1"),
    "more parts than columns": (
        random_split(7),
        "6 columns cannot be divided into 7 views; see random_bases",
    ),
    "empty": ([View([]), View([1])], "columns of view 1 are empty"),
    "an empty slice": ([View([1]), View(slice(6, 9))], "columns of view 2 are empty"),
    "a glob that matches nothing": (
        [View("sound_*"), View([1])],
        "nothing in X matches 'sound_\\*'",
    ),
    "a name that is not there": (
        [View(["text_a", "text_z"])],
        "nothing in X matches 'text_z'",
    ),
    "a column outside": (
        [View([0, 6])],
        "columns of view 1 lie outside X, which has 6 columns",
    ),
    "columns that are no numbers": (
        [View([0.5])],
        "must be names, globs, indices or a slice",
    ),
    "a penalty of zero": (
        [View(penalty=0.0, name="left")],
        "penalty of left must be greater than 0",
    ),
    "a penalty without end": (
        [View(penalty=np.inf)],
        "penalty of view 1 must be greater than 0",
    ),
    "a width below zero": (
        [View(gamma=-1.0)],
        "gamma of view 1 must be greater than 0",
    ),
    "an unknown width": ([View(gamma="wide")], "gamma of view 1 'wide' is not known"),
    "an unknown kernel": ([View(kernel="rfb")], "kernel 'rfb' is not known"),
    "widths that do not go together": (
        [View([0, 1], gamma=[1, 2]), View([2, 3], gamma=[1, 2, 3])],
        "gamma: views that are tuned together need equally many candidates",
    ),
    "features of another kernel": (
        [View([0, 1], basis="features")],
        "basis='features' needs kernel='linear'",
    ),
}
REFUSALS["views"] = for_both(
    lambda learner, views: fit_views(learner, views, NAMED_ROWS, agreement=0.0), WRONG_VIEWS
)
WRONG_SETTINGS = {
    "agreement below zero": ({"agreement": -1.0}, "agreement must be 0 or more"),
    "an agreement that is no number": ({"agreement": np.nan}, "agreement must be 0 or more"),
    "a list with one below zero": ({"agreement": [0.0, -1.0]}, "agreement must be 0 or more"),
    "an unknown word": ({"agreement": "auto"}, "agreement 'auto' is not known"),
    "alpha of zero": ({"alpha": 0.0}, "alpha = 0"),
    "alpha below zero": ({"alpha": -1.0}, "alpha must be 0 or more, got -1.0"),
    "an empty basis": ({"basis": []}, "basis must be"),
    "a basis of no rows": ({"basis": 0}, "basis must be 1 or more, got 0"),
    "a basis of too many rows": ({"basis": 1000}, "basis = 1000 must lie between 1 and"),
    "half a row": ({"basis": 1.5}, "basis must be"),
    "no basis": ({"basis": None}, "basis must be"),
    "rows that are not there": ({"basis": [0, len(P.X)]}, f"basis holds row {len(P.X)}"),
    "a row twice": ({"basis": [1, 1]}, "same row index twice"),
    "lists for another number of views": (
        {"basis": [[0], [1], [2]]},
        "basis lists rows for 3 views, but there are 2",
    ),
    "an unknown selection": ({"basis_selection": "best"}, "basis_selection 'best' is not known"),
    "an unknown scoring": ({"scoring": "ndcg"}, "scoring 'ndcg' is not known"),
}
REFUSALS["settings of views"] = for_both(
    lambda learner, options: fit_views(learner, **options), WRONG_SETTINGS
)
WRONG_ROWS = {
    "a view without scores": (
        {"y": np.stack([P.y, np.full(len(P.X), np.nan)], axis=1)},
        "y has no score for view 2",
    ),
    "three columns for two views": (
        {"y": np.stack([P.y, P.y, P.y], axis=1)},
        "y has 3 columns for 2 views",
    ),
    "no score at all": ({"y": np.full(len(P.X), np.nan)}, "y has no scored row"),
    "infinite scores": (
        {"y": np.where(np.arange(len(P.X)) == 3, np.inf, P.y)},
        "y contains infinity",
    ),
    "infinite scores of a view": (
        {"y": np.stack([P.y, np.where(np.arange(len(P.X)) == 3, np.inf, P.y)], axis=1)},
        "infinity",
    ),
    "too few scores": ({"y": P.y[:-1]}, "y has .* scores but X has"),
    "scores without weight": (
        {"y": P.y, "sample_weight": np.where(np.isnan(P.y), 1.0, 0.0)},
        "sample_weight",
    ),
    "weights below zero": (
        {"y": P.y, "sample_weight": -P.weights},
        "sample_weight contains negative values",
    ),
    "unscored rows with other columns": (
        {"y": P.y, "unscored": P.X[:, :4]},
        "unscored does not fit X: .*4 features",
    ),
    "unscored rows with NaN": (
        {"y": P.y, "unscored": P.X * np.nan},
        "unscored does not fit X: .*NaN",
    ),
    "unscored labels missing": (
        {"y": P.y, "unscored": P.X[:3], "unscored_qid": [1, 2]},
        "unscored_qid has 2 labels",
    ),
    "unscored labels alone": (
        {"y": P.y, "unscored_qid": [1, 2]},
        "unscored_qid was given without unscored",
    ),
    "CSR unscored rows beside dense ones": (
        {"y": P.y, "unscored": sparse.csr_array(P.X)},
        "CSR matrix but X is not",
    ),
    "no scores": ({"y": None}, "y is None"),
}
REFUSALS["rows of views"] = for_both(
    lambda learner, given: learner(VIEWS).fit(P.X, **given), WRONG_ROWS
)
KERNELS = np.hstack([rbf(0.5)(P.X, P.X)] * 2)
KERNEL_VIEWS = [
    View(slice(0, len(P.X)), "precomputed"),
    View(slice(len(P.X), 2 * len(P.X)), "precomputed"),
]
NAMED_VIEWS = [View("text_*"), View("image_*")]
REFUSALS["tables of views"] = {
    "kernels that are not square": (
        lambda: CoRLS(KERNEL_VIEWS).fit(KERNELS[:-1], P.y[:-1]),
        "square",
    ),
    "a kernel that is not symmetric": (
        lambda: CoRLS(KERNEL_VIEWS).fit(with_entry(KERNELS, (0, len(P.X) + 1), 9.0), P.y),
        "symmetric",
    ),
    "no arrays side by side": (lambda: side_by_side([]), "empty"),
    "arrays of other rows side by side": (
        lambda: side_by_side([P.X, P.X[:3]]),
        r"arrays\[1\] has 3 rows",
    ),
    "an array of one dimension side by side": (lambda: side_by_side([P.X[0]]), "two dimensions"),
    "unscored rows with other names": (
        lambda: CoRLS(NAMED_VIEWS, 0.3, 0.5).fit(
            NAMED_ROWS, P.y, unscored=pd.DataFrame(P.apart, columns=[*NAMES[:-1], "sound"])
        ),
        "unscored does not fit X: The feature names should match",
    ),
    "names for an array": (
        lambda: CoRLS(NAMED_VIEWS, 0.3, 0.5).fit(P.X, P.y),
        "X has no column names",
    ),
    "weights of queries that all count the same": (
        lambda: CoRankRLS(VIEWS, weighting="query").fit(P.X, P.y, sample_weight=P.weights),
        "sample_weight does not go with weighting='query'",
    ),
    **{
        f"fewer columns to predict by {learner.__name__}": (
            lambda learner=learner: fit_views(learner, alpha=0.3, agreement=0.5).predict(
                P.X_new[:, :4]
            ),
            "4 features",
        )
        for learner in (CoRLS, CoRankRLS)
    },
}

# ---- Gaussian processes

PARAMETERS = [
    ({"amplitude": 0.0}, "amplitude must be 'tune' or a number greater than 0, got 0.0"),
    ({"amplitude": "learn"}, "amplitude"),
    ({"amplitude": np.nan}, "amplitude"),
    ({"amplitude": True}, "amplitude"),
    ({"amplitude": [1.0, 2.0]}, "amplitude"),
    (
        {"gamma": [0.1, 1.0]},
        "gamma must be 'tune', 'columns', 'scale', 'mean-distance' or a number greater than 0",
    ),
    ({"gamma": -1.0}, "gamma"),
    ({"gamma": np.inf}, "gamma"),
    ({"gamma": "auto"}, "gamma"),
    (
        {"gamma": "columns", "kernel": "poly"},
        "gamma='columns' needs an rbf, exponential or laplacian kernel",
    ),
    (
        {"gamma": "columns", "kernel": "linear"},
        "gamma='columns' needs an rbf, exponential or laplacian kernel",
    ),
    ({"kernel": "nothing"}, "kernel"),
    (
        {"basis": "features", "kernel": "linear"},
        "basis='features' does not go with Gaussian processes",
    ),
    ({"basis": 13}, "basis = 13"),
    ({"basis": [0, 99]}, "basis holds row 99"),
    ({"basis": []}, "basis"),
    ({"basis_selection": "best"}, "basis_selection"),
    ({"average_width": True, "gamma": 0.5}, "average_width"),
    ({"average_width": True, "gamma": "columns"}, "average_width"),
    ({"average_width": True, "kernel": "linear"}, "average_width"),
    ({"average_width": "yes"}, "average_width"),
]
REFUSALS["parameters of preferences"] = {
    f"{options} to {fit}": (partial(prefer, fit, **options), re.escape(message))
    for options, message in PARAMETERS
    for fit in ("fit", "fit_comparisons")
}
TIMES = "weights must be whole numbers"
REFUSALS["weights of preferences"] = {
    **{
        f"max_pairs={most}": (
            partial(prefer, "fit", max_pairs=most),
            "max_pairs must be a whole number greater than 0",
        )
        for most in (0, -3, 2.5, True, "many", None)
    },
    **{
        f"{weights} to {act}": (lambda make=make, weights=weights: make(weights), TIMES)
        for weights in ([0.5] * 12, [1.0] * 11 + [2.5])
        for act, make in {
            "fit": lambda weights: compared(PreferenceGP(), weights=weights),
            "update": lambda weights: preferring().update_comparisons(
                X, WINNERS, LOSERS, weights=weights
            ),
        }.items()
    },
    **{
        f"weights of {weights}": (
            partial(compared, PreferenceGP(), weights=weights),
            "weights",
        )
        for weights in ([-1] * 12, [np.nan] * 12, [np.inf] * 12, [1] * 11, ["a"] * 12, [0] * 12)
    },
    "margins": (
        lambda: compared(PreferenceGP(), margins=np.full(12, 2.0)),
        r"margins of PreferenceGP are 0 .*use DifferenceGP",
    ),
    "margins of an update": (
        lambda: preferring().update_comparisons(X, [0], [1], margins=[2.0]),
        "DifferenceGP",
    ),
    "weights of scores": (
        lambda: PreferenceGP().fit(X, X[:, 0], sample_weight=np.ones(12)),
        "sample_weight does not go with PreferenceGP",
    ),
    "weights of scores of an update": (
        lambda: prefer("fit", **FIXED).update(X, X[:, 0], sample_weight=np.ones(12)),
        "sample_weight does not go with PreferenceGP",
    ),
}
ITSELF = "comparison of row 3 of X with itself"
REFUSALS["comparisons of preferences"] = {
    "unequal numbers": (
        lambda: compared(PreferenceGP(), X, [0, 1], [2]),
        "winners has 2 rows and losers 1",
    ),
    "none": (lambda: compared(PreferenceGP(), X, [], []), "empty"),
    "outside X": (lambda: compared(PreferenceGP(), X, [0], [12]), "losers points at row 12"),
    "negative row": (lambda: compared(PreferenceGP(), X, [-1], [1]), "winners points at row -1"),
    "fractions": (
        lambda: compared(PreferenceGP(), X, [0.5], [1]),
        "winners must be row numbers",
    ),
    "with itself": (lambda: compared(PreferenceGP(), X, [1, 3], [2, 3]), ITSELF),
    "with itself in an update": (
        lambda: preferring().update_comparisons(X, [1, 3], [2, 3]),
        ITSELF,
    ),
    "across queries": (
        lambda: compared(PreferenceGP(), X, [0], [1], qid=ALL),
        "between rows of two queries",
    ),
    "a width for each of too many columns": (
        lambda: compared(PreferenceGP(gamma="columns"), np.ones((5, 501)), [0, 1], [2, 3]),
        "gamma='columns' learns one width per column, but X has 501",
    ),
}
REFUSALS["fitted preferences"] = {
    "both uncertainties": (
        lambda: preferring().predict(X, return_std=True, return_cov=True),
        "return_std and return_cov",
    ),
    "pairs of unequal numbers": (
        lambda: preferring().predict_comparison(X[:4], X[:3]),
        "X_a has 4 rows and X_b 3",
    ),
    "pairs of unequal columns": (
        lambda: preferring().predict_comparison(X, X[:, :1]),
        "features",
    ),
    "scores for comparisons": (
        lambda: preferring().update(X[:4], Y[:4]),
        "fitted on comparisons; use update_comparisons",
    ),
    "comparisons for scores": (
        lambda: prefer("fit", **FIXED).update_comparisons(X, [0], [1]),
        "fitted on scores; use update",
    ),
    "queries for none": (
        lambda: prefer("fit", **FIXED).update(X[:4], Y[:4], qid=[0] * 4),
        "fitted without qid",
    ),
}
for learner in (PreferenceGP, DifferenceGP):
    name = learner.__name__
    REFUSALS[f"queries of {name}"] = {
        "none in an update": (
            lambda learner=learner: compared(
                learner(**FIXED), X, [0, 5], [1, 6], qid=QID
            ).update_comparisons(X, [0], [2]),
            "qid must be given to update_comparisons as it was to fit: with qid",
        ),
        "across them in an update": (
            lambda learner=learner: compared(
                learner(**FIXED), X, [0, 5], [1, 6], qid=QID
            ).update_comparisons(X, [0], [5], qid=QID),
            "between rows of two queries",
        ),
        "only in an update": (
            lambda learner=learner: compared(
                learner(**FIXED), X, [0, 1], [1, 2]
            ).update_comparisons(X, [0], [2], qid=QID),
            "without qid",
        ),
    }
    REFUSALS[f"{name} that is not fitted"] = {
        "predict": (lambda learner=learner: learner().predict(X), "not fitted", NotFittedError),
        "predict_comparison": (
            lambda learner=learner: learner().predict_comparison(X, X),
            "not fitted",
            NotFittedError,
        ),
        "suggest": (lambda learner=learner: learner().suggest(X), "not fitted", NotFittedError),
        "update": (lambda learner=learner: learner().update(X, Y), "not fitted", NotFittedError),
        "update_comparisons": (
            lambda learner=learner: learner().update_comparisons(X, [0], [1]),
            "not fitted",
            NotFittedError,
        ),
    }


def cases():
    for subject, table in REFUSALS.items():
        for case, (call, message, *error) in table.items():
            yield pytest.param(call, message, *error or [ValueError], id=f"{subject}: {case}")


@pytest.mark.parametrize(("call", "message", "error"), list(cases()))
@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")
def test_refused_in_a_sentence_that_names_the_argument(call, message, error):
    with pytest.raises(error, match=message):
        call()


# ---- tensors


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


def test_tensors_for_a_model_on_csr_are_refused_in_words():
    torch = pytest.importorskip("torch")
    model = compared(PreferenceGP(**FIXED), sparse.csr_array(X))
    rows = torch.asarray(X[:4])
    for act in (
        model.predict,
        lambda rows: model.predict(rows, return_std=True),
        lambda rows: model.predict(rows, return_cov=True),
        lambda rows: model.predict_comparison(rows, rows),
        lambda rows: model.suggest(rows, 1),
    ):
        with pytest.raises(ValueError, match="fitted on a CSR matrix"):
            act(rows)
