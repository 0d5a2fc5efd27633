"""How a careful user would do the same with other libraries. Each takes the data, fits, and returns
its `predict`.

Libraries are imported where they are used: not every one is installed everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Predict: TypeAlias = Callable[[Floats], Floats]

N_TREES = 100
N_LEVELS = 5  # of relevance, for those who rank by levels


def nystroem_rows(X: Floats, size: int) -> Integers:
    """The rows that scikit-learn's Nystroem takes as basis, so that others can take the same."""
    from sklearn.kernel_approximation import Nystroem

    rows: Integers = (
        Nystroem(n_components=size, gamma=1.0, random_state=0).fit(X).component_indices_
    )
    return rows


def centred_nystroem_ridge(
    X: Floats, y: Floats, query_size: int, size: int, gamma: float, alpha: float
) -> Predict:
    """scikit-learn: Nystroem features, their query means taken out, Ridge. Queries of one size lie
    together.
    """
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge

    nystroem = Nystroem(kernel="rbf", gamma=gamma, n_components=size, random_state=0)
    features = nystroem.fit_transform(X)
    cube = features.reshape(-1, query_size, features.shape[1])
    cube -= cube.mean(axis=1, keepdims=True)
    ridge = Ridge(alpha=alpha, solver="cholesky", fit_intercept=False, copy_X=False)
    ridge.fit(features, centred(y, query_size))
    return lambda new: ridge.predict(nystroem.transform(new))


def centred_ridge(X: Floats, y: Floats, query_size: int, alpha: float) -> Predict:
    """scikit-learn: query means taken out of the columns, Ridge."""
    from sklearn.linear_model import Ridge

    cube = X.reshape(-1, query_size, X.shape[1])
    features = (cube - cube.mean(axis=1, keepdims=True)).reshape(X.shape)
    ridge = Ridge(alpha=alpha, solver="cholesky", fit_intercept=False, copy_X=False)
    predict: Predict = ridge.fit(features, centred(y, query_size)).predict
    return predict


def kernel_ridge(X: Floats, y: Floats, query_size: int, gamma: float, alpha: float) -> Predict:
    """scikit-learn: KernelRidge on scores without their query means (regression: the kernel is not
    centred).
    """
    from sklearn.kernel_ridge import KernelRidge

    predict: Predict = (
        KernelRidge(alpha=alpha, kernel="rbf", gamma=gamma).fit(X, centred(y, query_size)).predict
    )
    return predict


def kernel_and_cholesky(X: Floats, gamma: float, alpha: float) -> Any:
    """SciPy: the kernel matrix and its Cholesky factor, the least that an exact fit needs."""
    from scipy.linalg import cho_factor

    kernel = kernel_matrix(X, gamma)
    kernel.flat[:: len(X) + 1] += alpha
    return cho_factor(kernel, lower=True, overwrite_a=True, check_finite=False)


def kernel_matrix(X: Floats, gamma: float) -> Floats:
    """scikit-learn's rbf kernel of every row with every row."""
    from sklearn.metrics.pairwise import rbf_kernel

    kernel: Floats = rbf_kernel(X, gamma=gamma)
    return kernel


def lightgbm_lambdarank(X: Floats, levels: Integers, query_size: int) -> Predict:
    """LightGBM: 100 trees by lambdarank."""
    from lightgbm import LGBMRanker

    sizes = np.full(len(X) // query_size, query_size)
    model = LGBMRanker(objective="lambdarank", n_estimators=N_TREES, random_state=0, verbose=-1)
    model.fit(X, levels, group=sizes)
    return lambda new: np.asarray(model.predict(new))


def xgboost_pairwise(X: Floats, levels: Integers, qid: Integers) -> Predict:
    """XGBoost: 100 trees by rank:pairwise."""
    from xgboost import XGBRanker

    model = XGBRanker(
        objective="rank:pairwise", n_estimators=N_TREES, tree_method="hist", random_state=0
    )
    predict: Predict = model.fit(X, levels, qid=qid).predict
    return predict


def rlscore_rankrls(
    X: Floats, y: Floats, qid: Integers, rows: Integers, gamma: float, alpha: float
) -> Predict:
    """RLScore: QueryRankRLS on the same basis rows; its weighting is corank's "size"."""
    from rlscore.learner import QueryRankRLS

    model = QueryRankRLS(
        X, y, qid, regparam=alpha, kernel="GaussianKernel", gamma=gamma, basis_vectors=X[rows]
    )
    predict: Predict = model.predict
    return predict


def pairwise_disagreement(y: Floats, scores: Floats, query_size: int) -> float:
    """NumPy: the share of wrongly ordered pairs, column by column; for queries of one size without
    ties only.
    """
    truth, given = y.reshape(-1, query_size), scores.reshape(-1, query_size)
    wrong = 0
    for i in range(query_size):
        for j in range(i):
            wrong += int(
                np.count_nonzero((truth[:, i] > truth[:, j]) != (given[:, i] > given[:, j]))
            )
    return wrong / (len(truth) * query_size * (query_size - 1) / 2)


def centred(y: Floats, query_size: int) -> Floats:
    """Scores without their query means, for queries of one size that lie together."""
    table = y.reshape(-1, query_size)
    relative: Floats = table - table.mean(axis=1, keepdims=True)
    return relative.ravel()


def relevance(y: Floats, query_size: int) -> Integers:
    """Scores as levels 0 to 4 of equal shares, by how far they lie from their query's mean."""
    relative = centred(y, query_size)
    return np.searchsorted(np.quantile(relative, np.arange(1, N_LEVELS) / N_LEVELS), relative)


def botorch_pairwise(X: Floats, winners: Integers, losers: Integers) -> Predict:
    """BoTorch: PairwiseGP with its own priors, fitted as its tutorial does."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood

    points = torch.as_tensor(X, dtype=torch.float64)
    pairs = torch.as_tensor(np.stack([winners, losers], axis=1))
    model = PairwiseGP(points, pairs)
    fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))

    def predict(new: Floats) -> Floats:
        posterior: Any = model.posterior(torch.as_tensor(new, dtype=torch.float64))
        mean: Floats = posterior.mean.detach().numpy()[:, 0]
        return mean

    return predict
