"""The cases: made-up ranking data, corank and its peers on it, targets beside each. Later ones are
one function each.

Unless a case says otherwise: queries of 40 rows that lie together, 50 columns, float64, the rbf
kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.peers import Floats, Integers, Predict
from benchmarks.registry import (
    Contender,
    Target,
    Work,
    case,
    cholesky_work,
    fit_work,
    linear_work,
    predict_work,
)

QUERY_SIZE = 40
N_COLUMNS = 50
BASIS = 500
QUICK_BASIS = 50
ALPHA = 1.0


@dataclass(frozen=True)
class Data:
    """Rows to fit on, and rows of other queries to judge the models by."""

    X: Floats
    y: Floats
    qid: Integers
    X_test: Floats
    y_test: Floats
    qid_test: Integers

    @property
    def gamma(self) -> float:
        """What gamma="scale" means on all rows; corank may take it from a sample of them."""
        return 1.0 / (int(self.X.shape[1]) * float(np.var(self.X)))

    def error(self, predict: Predict) -> float:
        """Disagreement error on the test rows."""
        from corank.metrics import disagreement_error

        error: float = disagreement_error(self.y_test, predict(self.X_test), self.qid_test)
        return error


def make_data(n: int, *, query_size: int = QUERY_SIZE, n_test: int = 10_000) -> Data:
    """n rows and about n_test more of the same problem."""
    from corank.datasets import make_ranking

    n_queries = n // query_size + max(1, min(n, n_test) // query_size)
    data = make_ranking(n_queries, query_size, N_COLUMNS, random_state=0)
    return Data(data.X[:n], data.y[:n], data.qid[:n], data.X[n:], data.y[n:], data.qid[n:])


def rankrls(data: Data, **parameters: Any) -> Predict:
    """corank's RankRLS, fitted."""
    from corank import RankRLS

    model = RankRLS(**{"gamma": "scale", **parameters}).fit(data.X, data.y, qid=data.qid)
    predict: Predict = model.predict
    return predict


def ours(name: str, run: Callable[[], Any], work: Work | None = None, **options: Any) -> Contender:
    """A contender of corank's, whose time is looked into."""
    return Contender(name, run, work, profiled=True, **options)


# ---------------------------------------------------------------- sparse fits

CORANK, SKLEARN = "corank", "scikit-learn Nystroem+Ridge"


def _sparse(n: int, basis: int, *, trees: bool) -> list[Contender]:
    data = make_data(n)
    rows, gamma = peers.nystroem_rows(data.X, basis), data.gamma
    work = fit_work(n, basis, N_COLUMNS)
    found = [
        ours(CORANK, lambda: rankrls(data, basis=rows, alpha=ALPHA), work, error=data.error),
        Contender(
            SKLEARN,
            lambda: peers.centred_nystroem_ridge(data.X, data.y, QUERY_SIZE, basis, gamma, ALPHA),
            error=data.error,
        ),
    ]
    if not trees:
        return found
    levels = peers.relevance(data.y, QUERY_SIZE)
    return [
        *found,
        Contender(
            "LightGBM lambdarank",
            lambda: peers.lightgbm_lambdarank(data.X, levels, QUERY_SIZE),
            needs="lightgbm",
            error=data.error,
        ),
        Contender(
            "XGBoost rank:pairwise",
            lambda: peers.xgboost_pairwise(data.X, levels, data.qid),
            needs="xgboost",
            error=data.error,
        ),
        Contender(
            "RLScore QueryRankRLS",
            lambda: peers.rlscore_rankrls(data.X, data.y, data.qid, rows, gamma, ALPHA),
            needs="rlscore",
            error=data.error,
        ),
    ]


@case("sparse-100k", Target("share", CORANK, 0.70), Target("time", CORANK, 2.0, than=SKLEARN))
def sparse_100k(quick: bool) -> list[Contender]:
    """Sparse RankRLS on 100,000 rows with 500 given basis rows, alpha = 1. Bound: n r (r + 2 d)
    flops, n r exps.

    scikit-learn takes the same basis rows and gamma; trees get five levels of relevance.
    """
    return _sparse(4_000, QUICK_BASIS, trees=True) if quick else _sparse(100_000, BASIS, trees=True)


@case(
    "sparse-1m",
    Target("share", CORANK, 0.65),
    Target("time", CORANK, 3.0, than=SKLEARN),
    Target("memory", CORANK, 400),
)
def sparse_1m(quick: bool) -> list[Contender]:
    """Sparse RankRLS on 1,000,000 rows with 500 given basis rows, alpha = 1. Bound: n r (r + 2 d)
    flops, n r exps.
    """
    return (
        _sparse(8_000, QUICK_BASIS, trees=False)
        if quick
        else _sparse(1_000_000, BASIS, trees=False)
    )


# ---------------------------------------------------------------- choosing alpha

TUNED, SINGLE = 'corank, alpha="tune"', "corank, one alpha"


def _tune(n: int, basis: int) -> list[Contender]:
    data = make_data(n)
    rows = peers.nystroem_rows(data.X, basis)
    work = fit_work(n, basis, N_COLUMNS)
    return [
        ours(TUNED, lambda: rankrls(data, basis=rows, alpha="tune"), work, error=data.error),
        ours(SINGLE, lambda: rankrls(data, basis=rows, alpha=ALPHA), work, error=data.error),
    ]


@case("tune-100k", Target("cost", TUNED, 2.0, than=SINGLE))
def tune_100k(quick: bool) -> list[Contender]:
    """Sparse RankRLS on 100,000 rows, 500 basis rows: 20 alphas by held-out queries against one
    given alpha.

    Bound: n r (r + 2 d) flops and n r exps, those of the single fit.
    """
    return _tune(4_000, QUICK_BASIS) if quick else _tune(100_000, BASIS)


@case("tune-1m", Target("cost", TUNED, 1.3, than=SINGLE))
def tune_1m(quick: bool) -> list[Contender]:
    """Sparse RankRLS on 1,000,000 rows, 500 basis rows: 20 alphas by held-out queries against one
    given alpha.

    Bound: n r (r + 2 d) flops and n r exps, those of the single fit.
    """
    return _tune(8_000, QUICK_BASIS) if quick else _tune(1_000_000, BASIS)


# ---------------------------------------------------------------- exact fits

EXACT_PATH, EXACT_ONE = "corank, 20 alphas, leave-query-out", "corank, one alpha"
EIGH, FACTOR = "scipy.linalg.eigh", "kernel and Cholesky (SciPy)"


@case(
    "exact-4000",
    Target("cost", EXACT_PATH, 1.5, than=EIGH),
    Target("cost", EXACT_ONE, 2.0, than=FACTOR),
)
def exact_4000(quick: bool) -> list[Contender]:
    """Exact RankRLS on 4,000 rows in 100 queries: all 20 alphas with their leave-query-out errors;
    one given alpha.

    eigh gets the kernel matrix ready-made. Bound of one alpha: 2 n² d + n³/3 flops, n² exps.
    """
    from scipy.linalg import eigh

    n = 400 if quick else 4_000
    data = make_data(n)
    gamma = data.gamma
    kernel = peers.kernel_matrix(data.X, gamma)
    return [
        ours(EXACT_PATH, lambda: rankrls(data, basis="all", alpha="tune"), error=data.error),
        Contender(EIGH, lambda: eigh(kernel)),
        Contender('scipy.linalg.eigh(driver="evd")', lambda: eigh(kernel, driver="evd")),
        ours(
            EXACT_ONE,
            lambda: rankrls(data, basis="all", alpha=ALPHA),
            cholesky_work(n, N_COLUMNS),
            beside=EXACT_ONE,
            error=data.error,
        ),
        Contender(
            FACTOR, lambda: peers.kernel_and_cholesky(data.X, gamma, ALPHA), beside=EXACT_ONE
        ),
        Contender(
            "scikit-learn KernelRidge",
            lambda: peers.kernel_ridge(data.X, data.y, QUERY_SIZE, gamma, ALPHA),
            beside=EXACT_ONE,
            error=data.error,
        ),
    ]


# ---------------------------------------------------------------- predict

PREDICT_1M, PREDICT_100K = "corank, 1,000,000 rows", "corank, 100,000 rows"


@case(
    "predict-1m",
    Target("share", PREDICT_1M, 0.5),
    Target("growth", PREDICT_1M, 25, than=PREDICT_100K),
)
def predict_1m(quick: bool) -> list[Contender]:
    """Predictions of a model with 500 basis rows for 1,000,000 rows, and for a tenth of them.
    Bound: 2 n r d flops, n r exps.

    Memory must not grow with the rows beyond the result (7 MB between the two) and what joins its
    parts.
    """
    n, basis = (8_000, QUICK_BASIS) if quick else (1_000_000, BASIS)
    data = make_data(4_000 if quick else 20_000, n_test=0)
    X = np.random.default_rng(1).standard_normal((n, N_COLUMNS))
    few = X[: n // 10]
    corank = rankrls(data, basis=peers.nystroem_rows(data.X, basis), alpha=ALPHA)
    sklearn = peers.centred_nystroem_ridge(data.X, data.y, QUERY_SIZE, basis, data.gamma, ALPHA)
    return [
        ours(PREDICT_1M, partial(corank, X), predict_work(n, basis, N_COLUMNS)),
        ours(
            PREDICT_100K,
            partial(corank, few),
            predict_work(n // 10, basis, N_COLUMNS),
            beside=PREDICT_100K,
        ),
        Contender(f"{SKLEARN}, 1,000,000 rows", partial(sklearn, X)),
        Contender(f"{SKLEARN}, 100,000 rows", partial(sklearn, few), beside=PREDICT_100K),
    ]


# ---------------------------------------------------------------- queries of different sizes

RAGGED, EQUAL_100, EQUAL_40 = "sizes 1 to 200", "all of 100", "all of 40"


@case(
    "ragged",
    Target("cost", RAGGED, 1.3, than=EQUAL_100),
    Target("cost", RAGGED, 1.3, than=EQUAL_40),
)
def ragged(quick: bool) -> list[Contender]:
    """Sparse RankRLS on 200,000 rows with 500 basis rows, alpha = 1: queries of 1 to 200 rows
    against equal ones.

    Bound: n r (r + 2 d) flops, n r exps.
    """
    n, basis = (8_000, QUICK_BASIS) if quick else (200_000, BASIS)
    data = make_data(n, n_test=0)
    rows = peers.nystroem_rows(data.X, basis)
    sizes = np.random.default_rng(2).integers(1, 201, n)
    queries = {
        RAGGED: np.repeat(np.arange(n), sizes)[:n],
        EQUAL_100: np.arange(n) // 100,
        EQUAL_40: np.arange(n) // 40,
    }

    def fit(qid: Integers) -> Predict:
        return rankrls(
            Data(data.X, data.y, qid, data.X_test, data.y_test, data.qid_test),
            basis=rows,
            alpha=ALPHA,
        )

    work = fit_work(n, basis, N_COLUMNS)
    return [ours(name, partial(fit, qid), work) for name, qid in queries.items()]


# ---------------------------------------------------------------- linear

RIDGE = "scikit-learn centring and Ridge"


@case("linear-1m", Target("cost", CORANK, 1.0, than=RIDGE))
def linear_1m(quick: bool) -> list[Contender]:
    """Linear RankRLS in the primal, 1,000,000 x 50, alpha = 1. Bound: n d² flops; reading the rows
    is not counted.
    """
    n = 8_000 if quick else 1_000_000
    data = make_data(n)
    return [
        ours(
            CORANK,
            lambda: rankrls(data, kernel="linear", basis="features", alpha=ALPHA),
            linear_work(n, N_COLUMNS),
            error=data.error,
        ),
        Contender(
            RIDGE, lambda: peers.centred_ridge(data.X, data.y, QUERY_SIZE, ALPHA), error=data.error
        ),
    ]


# ---------------------------------------------------------------- metrics

ONE_QUERY, MANY_QUERIES = "corank, one query", "corank, queries of ten"


@case("metrics")
def metrics(quick: bool) -> list[Contender]:
    """disagreement_error of one query of 1,000,000 rows, and of 1,000,000 queries of ten. No bound."""
    from corank.metrics import disagreement_error

    n = 2_000 if quick else 1_000_000
    rng = np.random.default_rng(0)
    y = rng.standard_normal(10 * n)
    scores = y + rng.standard_normal(10 * n)
    qid = np.repeat(np.arange(n), 10)

    def kendall() -> float:
        from scipy.stats import kendalltau

        return float(kendalltau(y[:n], scores[:n], method="asymptotic").statistic)

    return [
        ours(ONE_QUERY, lambda: disagreement_error(y[:n], scores[:n])),
        Contender("scipy.stats.kendalltau", kendall),
        ours(MANY_QUERIES, lambda: disagreement_error(y, scores, qid), beside=MANY_QUERIES),
        Contender(
            "NumPy, pair by pair (equal sizes)",
            lambda: peers.pairwise_disagreement(y, scores, 10),
            beside=MANY_QUERIES,
        ),
    ]


# ---------------------------------------------------------------- basis


@case("basis")
def basis(quick: bool) -> list[Contender]:
    """Choosing 300 and 1,000 basis rows out of 20,000 candidates, pivoted against random; fits of
    100,000 rows with 1,000.

    Bound of a pivoted choice of r out of n: n r (r + 2 d) flops, n r exps, as for a fit.
    """
    from corank.core.basis import Selection, choose_rows
    from corank.core.kernels import Kernel

    n, few, many = (2_000, 30, 100) if quick else (20_000, 300, 1_000)
    data = make_data(5 * n)
    kernel, candidates = Kernel("rbf", data.gamma), data.X[:n]

    def choose(size: int, selection: Selection) -> Integers:
        return choose_rows(kernel, candidates, size, selection, np.random.default_rng(0))

    def fit(selection: Selection) -> Predict:
        return rankrls(data, basis=many, basis_selection=selection, alpha=ALPHA)

    work = fit_work(5 * n, many, N_COLUMNS)
    return [
        ours("pivoted, 300", lambda: choose(few, "pivoted"), fit_work(n, few, N_COLUMNS)),
        Contender("random, 300", lambda: choose(few, "random")),
        ours(
            "pivoted, 1,000",
            lambda: choose(many, "pivoted"),
            fit_work(n, many, N_COLUMNS),
            beside="pivoted, 1,000",
        ),
        Contender("random, 1,000", lambda: choose(many, "random"), beside="pivoted, 1,000"),
        ours("fit, pivoted", lambda: fit("pivoted"), work, beside="fit, pivoted", error=data.error),
        ours("fit, random", lambda: fit("random"), work, beside="fit, pivoted", error=data.error),
    ]
