"""The stated objective, literally: sums over pairs, dense matrices, a general minimiser, refitting
for hold-out.

Nothing here uses a formula of corank's; it is slow on purpose and fit for a few dozen rows.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.optimize import nnls
from sklearn.metrics.pairwise import pairwise_kernels


@dataclass(frozen=True)
class Loss:
    """What a learner is asked to make small: beta = 1 is regression, 0 ranking, between the blend."""

    weighting: str = "size"
    beta: float = 0.0


REGRESSION = Loss(beta=1.0)


# ------------------------------------------------------------------ what is compared with what


def pairs(qid):
    """Every unordered pair of rows of one query, once."""
    return [(i, j) for i, j in combinations(range(len(qid)), 2) if qid[i] == qid[j]]


def pair_weight(i, j, qid, weights, weighting):
    """w_i·w_j times 1/m ("size"), 1 ("unit") or 1/binom(m, 2) ("query"); m is the weight of the
    query.
    """
    members = [k for k in range(len(qid)) if qid[k] == qid[i]]
    m = sum(weights[k] for k in members)
    share = {"size": 1 / m, "unit": 1.0, "query": 2 / (len(members) * max(len(members) - 1, 1))}[
        weighting
    ]
    return weights[i] * weights[j] * share


def laplacian(qid, loss, weights=None):
    """beta·D + (1 − beta)·L as a dense matrix, one pair after the other."""
    n = len(qid)
    weights = np.ones(n) if weights is None else weights
    matrix = np.diag(loss.beta * np.asarray(weights, dtype=float))
    for i, j in pairs(qid):
        e = np.zeros(n)
        e[i], e[j] = 1, -1
        matrix += (1 - loss.beta) * pair_weight(i, j, qid, weights, loss.weighting) * np.outer(e, e)
    return matrix


def loss_rows(scores, qid, loss, weights=None):
    """T (rows, n) and t (rows,) with loss = ‖t − T f‖²: one row a pair and one a scored row."""
    n = len(scores)
    weights = np.ones(n) if weights is None else weights
    rows, targets = [np.zeros((0, n))], []
    for i, j in pairs(qid) if loss.beta < 1 else []:
        root = np.sqrt((1 - loss.beta) * pair_weight(i, j, qid, weights, loss.weighting))
        row = np.zeros((1, n))
        row[0, i], row[0, j] = root, -root
        rows.append(row)
        targets.append(root * (scores[i] - scores[j]))
    for i in range(n) if loss.beta > 0 else []:
        root = np.sqrt(loss.beta * weights[i])
        rows.append(root * np.eye(n)[i : i + 1])
        targets.append(root * scores[i])
    return np.concatenate(rows), np.asarray(targets)


def comparison_rows(n, winners, losers, margins=None, weights=None):
    """T and t of explicit comparisons, Σ w (margin − (f_winner − f_loser))²."""
    margins = np.ones(len(winners)) if margins is None else margins
    weights = np.ones(len(winners)) if weights is None else weights
    rows = np.zeros((len(winners), n))
    for k, (i, j) in enumerate(zip(winners, losers, strict=True)):
        rows[k, i] += np.sqrt(weights[k])
        rows[k, j] -= np.sqrt(weights[k])
    return rows, np.sqrt(weights) * margins


# ------------------------------------------------------------------ minimising


def kernel(name, gamma=None, degree=3, coef0=1):
    """scikit-learn's kernel, or exp(−gamma · distance), as a function of two sets of rows."""
    if name == "exponential":
        return lambda A, B: np.exp([[-gamma * np.sqrt(sum((a - b) ** 2)) for b in B] for a in A])
    return lambda A, B: pairwise_kernels(
        A, B, metric=name, filter_params=True, gamma=gamma, degree=degree, coef0=coef0
    )


def symmetric_root(matrix):
    """R with RᵀR = matrix, for a positive semi-definite one."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.sqrt(np.clip(values, 0, None))[:, None] * vectors.T


def minimise(T, t, phi, omega, alpha):
    """argmin_c ‖t − T Φ c‖² + alpha cᵀ Ω c, as one least-squares problem on stacked rows."""
    rows = np.concatenate([T @ phi, np.sqrt(alpha) * symmetric_root(omega)])
    return np.linalg.lstsq(rows, np.concatenate([t, np.zeros(len(omega))]), rcond=None)[0]


def objective(T, t, phi, omega, alpha, c):
    """The stated objective at c."""
    return np.sum((t - T @ phi @ c) ** 2) + alpha * c @ omega @ c


def fit_predict(
    X,
    scores,
    X_new,
    k,
    alpha,
    loss=REGRESSION,
    *,
    qid=None,
    weights=None,
    basis=None,
    intercept=False,
):
    """Predictions of the minimiser on X_new; `basis` are points, None for the rows themselves."""
    points = X if basis is None else basis
    weights = np.ones(len(X)) if weights is None else weights
    offset = np.average(scores, weights=weights) if intercept else 0.0
    qid = np.zeros(len(X)) if qid is None else qid
    T, t = loss_rows(np.asarray(scores) - offset, qid, loss, weights)
    return k(X_new, points) @ minimise(T, t, k(X, points), k(points, points), alpha) + offset


def fit_predict_comparisons(
    X, winners, losers, X_new, k, alpha, *, margins=None, weights=None, basis=None
):
    """The same for explicit comparisons."""
    points = X if basis is None else basis
    T, t = comparison_rows(len(X), winners, losers, margins, weights)
    return k(X_new, points) @ minimise(T, t, k(X, points), k(points, points), alpha)


# ------------------------------------------------------------------ hold-out by refitting


def held_out(
    X,
    scores,
    splits,
    k,
    alphas,
    loss=REGRESSION,
    *,
    qid=None,
    weights=None,
    basis=None,
    intercept=False,
    score="loss",
):
    """Mean held-out error of every alpha: one literal refit a split and alpha, kernel and basis
    kept.

    score="loss": the loss on the rows left out, as queries of their own, over the rank of that
    loss. score="rescaled": the same once all predictions, less the intercept, are multiplied by the
    factor that fits best. score="disagreement": the mean over the queries left out of their share
    of wrongly ordered pairs.
    """
    n = len(X)
    qid = np.zeros(n) if qid is None else np.asarray(qid)
    w = np.ones(n) if weights is None else weights
    errors, sizes, compared = [], [], []
    for train, test in splits:
        own = [
            fit_predict(
                X[train], scores[train], X[test], k, a, loss,
                qid=qid[train], weights=w[train], basis=basis, intercept=intercept,
            )
            for a in alphas
        ]  # fmt: skip
        if score == "loss":
            L = laplacian(qid[test], loss, w[test])
            rank = np.linalg.matrix_rank(L)
            if rank:
                errors.append([(scores[test] - f) @ L @ (scores[test] - f) for f in own])
                sizes.append(rank)
        elif score == "rescaled":
            offset = np.average(scores[train], weights=w[train]) if intercept else 0.0
            T, t = loss_rows(scores[test] - offset, qid[test], loss, w[test])
            compared.append(np.column_stack([t, *(T @ (f - offset) for f in own)]))
            sizes.append(np.linalg.matrix_rank(laplacian(qid[test], loss, w[test])))
        else:
            for query in dict.fromkeys(qid[test]):
                rows = np.flatnonzero(qid[test] == query)
                shares = [misordered(scores[test][rows], f[rows], w[test][rows]) for f in own]
                if np.isfinite(shares).all():
                    errors.append(shares)
                    sizes.append(1)
    total = rescaled_losses(np.concatenate(compared)) if compared else np.sum(errors, axis=0)
    return total / np.sum(sizes)


def rescaled_losses(compared):
    """min ‖t − slope·p‖² over slope >= 0, for the first column t and every other column p."""
    return np.asarray(
        [nnls(column[:, None], compared[:, 0])[1] ** 2 for column in compared[:, 1:].T]
    )


def held_out_comparisons(
    X, winners, losers, splits, k, alphas, *, margins=None, weights=None, basis=None, score="loss"
):
    """Mean held-out squared error of comparisons, by refitting; `score` as in `held_out`."""
    margins = np.ones(len(winners)) if margins is None else margins
    weights = np.ones(len(winners)) if weights is None else weights
    total, count, compared = np.zeros(len(alphas)), 0, []
    for train, test in splits:
        compared.append(np.zeros((len(test), 1 + len(alphas))))
        compared[-1][:, 0] = np.sqrt(weights[test]) * margins[test]
        for a, alpha in enumerate(alphas):
            f = fit_predict_comparisons(
                X, winners[train], losers[train], X, k, alpha,
                margins=margins[train], weights=weights[train], basis=basis,
            )  # fmt: skip
            total[a] += np.sum(
                weights[test] * (margins[test] - f[winners[test]] + f[losers[test]]) ** 2
            )
            compared[-1][:, 1 + a] = np.sqrt(weights[test]) * (f[winners[test]] - f[losers[test]])
        count += len(test)
    return (rescaled_losses(np.concatenate(compared)) if score == "rescaled" else total) / count


def misordered(scores, predictions, weights):
    """Share of the pairs with different scores that the predictions put in the wrong order; a tie
    costs 1/2.
    """
    wrong = compared = 0.0
    for i, j in combinations(range(len(scores)), 2):
        if scores[i] != scores[j]:
            product = np.sign(scores[i] - scores[j]) * np.sign(predictions[i] - predictions[j])
            wrong += weights[i] * weights[j] * (1 - product) / 2
            compared += weights[i] * weights[j]
    return wrong / compared if compared else np.nan


def leave_groups_out(groups):
    """(train, test) for every distinct group."""
    groups = np.asarray(groups)
    return [
        (np.flatnonzero(groups != g), np.flatnonzero(groups == g)) for g in dict.fromkeys(groups)
    ]


# ------------------------------------------------------------------ data


@dataclass(frozen=True)
class Problem:
    """A small ranking problem: unsorted queries of unequal size, one of a single item, ties in the
    scores.
    """

    X: np.ndarray
    y: np.ndarray
    qid: np.ndarray
    weights: np.ndarray
    X_new: np.ndarray


def small_problem(seed=0, sizes=(1, 4, 7, 3, 5), d=3):
    """The same numbers for the same seed."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    qid = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    X = rng.normal(size=(n, d))
    y = np.round(X[:, 0] - X[:, -1] ** 2 + qid + rng.normal(size=n), 1)
    return Problem(X, y, qid, rng.uniform(0.3, 2.5, size=n), rng.normal(size=(9, d)))
