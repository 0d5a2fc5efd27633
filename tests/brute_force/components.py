"""002's learners, literally: a centred dense kernel, its full eigendecomposition, components as
columns, least squares.

Nothing here uses a formula of corank's. Losses and pairs are those of `brute_force`; hold-out is
refitting.
"""

from dataclasses import dataclass

import numpy as np

from brute_force import (
    REGRESSION,
    comparison_rows,
    laplacian,
    loss_rows,
    misordered,
    rescaled_losses,
)

NOTHING = 1e-10  # of a column's squared length: less than this share of it is rounding


@dataclass(frozen=True)
class Components:
    """Eigenvalues (p,), largest first, and the components' values on the rows (n, p) and on new
    points (m, p).
    """

    values: np.ndarray
    rows: np.ndarray
    new: np.ndarray
    weights: np.ndarray


def components(K, K_new, weights=None):
    """Functions of norm 1 in the span of the kernel centred on the rows, uncorrelated over them.

    K (n, n) between the rows, K_new (m, n) of new points with the rows; both uncentred (002 sect.
    6.1).
    """
    n = len(K)
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    mean = w / w.sum()
    centred = K - np.outer(np.ones(n), mean @ K) - np.outer(K @ mean, np.ones(n)) + mean @ K @ mean
    new = (
        K_new
        - np.outer(np.ones(len(K_new)), mean @ K)
        - np.outer(K_new @ mean, np.ones(n))
        + mean @ K @ mean
    )
    root = np.diag(np.sqrt(w))
    values, vectors = np.linalg.eigh(root @ centred @ root)
    keep = values > NOTHING * max(values.max(), 1e-4 * np.abs(K).max())
    values, vectors = values[keep][::-1], vectors[:, keep][:, ::-1]
    coefficients = root @ vectors / np.sqrt(values)
    return Components(values, centred @ coefficients, new @ coefficients, w)


def nystrom(k, points):
    """The kernel of the functions on some points: k(x, points) K⁺ k(points, z)."""
    values, vectors = np.linalg.eigh(k(points, points))
    keep = values > NOTHING * values.max()
    root = vectors[:, keep] / np.sqrt(values[keep])
    return lambda A, B: (k(A, points) @ root) @ (k(B, points) @ root).T


# ------------------------------------------------------------------ least squares on the first p columns


def minimise(T, t, columns, alpha, norms=None):
    """argmin ‖t − T Ψ c‖² + alpha ‖N c‖², N the identity unless `norms` says what the columns'
    norms are.
    """
    p = columns.shape[1]
    norms = np.eye(p) if norms is None else norms
    rows = np.concatenate([T @ columns, np.sqrt(alpha) * norms])
    scales = np.linalg.norm(rows, axis=0) + (p == 0)
    return (
        np.linalg.lstsq(rows / scales, np.concatenate([t, np.zeros(len(norms))]), rcond=None)[0]
        / scales
    )


def that_add(T, columns, sizes, alpha=0.0, norms=None):
    """Which columns add something to those before them: one after the other, those that add nothing
    passed over.
    """
    norms = np.eye(columns.shape[1]) if norms is None else norms
    rows = np.concatenate([T @ columns, np.sqrt(alpha) * norms])
    kept = []
    for j in range(columns.shape[1]):
        left = rows[:, j]
        if kept:
            before = rows[:, kept] / np.linalg.norm(rows[:, kept], axis=0)
            left = left - before @ np.linalg.lstsq(before, left, rcond=None)[0]
        if left @ left > NOTHING * sizes[j]:
            kept.append(j)
    return kept


def sizes_of(T, found):
    """What the squared length of every column is measured by: its own, under the mean weight of the
    loss.
    """
    return found.values * np.sum(T**2) / np.sum(found.weights)


def path(T, t, found, alpha=0.0):
    """Predictions on new points for every number of components: (m, p)."""
    kept = that_add(T, found.rows, sizes_of(T, found), alpha)
    result = np.zeros_like(found.new)
    for p in range(1, len(found.values) + 1):
        own = [j for j in kept if j < p]
        result[:, p - 1] = found.new[:, own] @ minimise(T, t, found.rows[:, own], alpha)
    return result


# ------------------------------------------------------------------ hold-out by refitting, components kept


def orthonormalised(T, found, alpha=0.0):
    """Combinations (p, p) of the components that are orthonormal under the loss T, each of those up
    to its own place.

    Zero where a component adds nothing to those before it.
    """
    p = len(found.values)
    rows = np.concatenate([T @ found.rows, np.sqrt(alpha) * np.eye(p)])
    turned = np.zeros((p, p))
    kept = that_add(T, found.rows, sizes_of(T, found), alpha)
    for position, j in enumerate(kept):
        before = kept[:position]
        turned[j, j] = 1.0
        if before:
            scales = np.linalg.norm(rows[:, before], axis=0)
            turned[before, j] = (
                -np.linalg.lstsq(rows[:, before] / scales, rows[:, j], rcond=None)[0] / scales
            )
        turned[:, j] /= np.linalg.norm(rows @ turned[:, j])
    return turned


def coefficients(T, t, columns, alpha, sizes, turned):
    """Of the components, for every number of them: (p, p). Turned columns that add nothing are
    passed over.
    """
    p = columns.shape[1]
    kept = that_add(T, columns @ turned, sizes, alpha, turned)
    result = np.zeros((p, p))
    for number in range(1, p + 1):
        own = turned[:, [j for j in kept if j < number]]
        result[:, number - 1] = own @ minimise(T, t, columns @ own, alpha, own)
    return result


def _refits(T, found, alpha, in_turn):
    """Sizes and combinations of the columns that a refit takes in turn: orthonormalised on all
    rows, or as they come.
    """
    if in_turn == "orthonormalised":
        return np.ones(len(found.values)), orthonormalised(T, found, alpha)
    return sizes_of(T, found), np.eye(len(found.values))


def held_out(
    scores,
    splits,
    found,
    alpha,
    loss=REGRESSION,
    *,
    qid=None,
    weights=None,
    intercept=False,
    score="squared",
    in_turn="orthonormalised",
):
    """Mean held-out error of every number of components: one refit a split, `score` as in
    `brute_force.held_out`.

    in_turn: a column of which the kept rows keep nothing is passed over, "orthonormalised" on all
    rows or as it comes.
    """
    n = len(scores)
    qid = np.zeros(n) if qid is None else np.asarray(qid)
    w = np.ones(n) if weights is None else weights
    how = _refits(loss_rows(scores, qid, loss, w)[0], found, alpha, in_turn)
    errors, sizes, compared = [], [], []
    for train, test in splits:
        offset = np.average(scores[train], weights=w[train]) if intercept else 0.0
        T, t = loss_rows(scores[train] - offset, qid[train], loss, w[train])
        predictions = np.round(
            found.rows[test] @ coefficients(T, t, found.rows[train], alpha, *how), 10
        )
        T, t = loss_rows(scores[test] - offset, qid[test], loss, w[test])
        rank = np.linalg.matrix_rank(laplacian(qid[test], loss, w[test]))
        if score == "disagreement":
            for query in dict.fromkeys(qid[test]):
                rows = np.flatnonzero(qid[test] == query)
                shares = [
                    misordered(scores[test][rows], f[rows], w[test][rows]) for f in predictions.T
                ]
                if np.isfinite(shares).all():
                    errors.append(shares)
                    sizes.append(1)
        elif rank:
            errors.append(np.sum((t[:, None] - T @ predictions) ** 2, axis=0))
            compared.append(np.column_stack([t, np.round(T @ predictions, 9)]))
            sizes.append(rank)
    total = (
        rescaled_losses(np.concatenate(compared)) if score == "rescaled" else np.sum(errors, axis=0)
    )
    return total / np.sum(sizes)


def held_out_comparisons(
    winners,
    losers,
    splits,
    found,
    alpha,
    *,
    margins=None,
    weights=None,
    score="squared",
    in_turn="orthonormalised",
):
    """The same for comparisons."""
    n, margins = len(found.rows), np.ones(len(winners)) if margins is None else margins
    T_all, t_all = comparison_rows(n, winners, losers, margins, weights)
    how = _refits(T_all, found, alpha, in_turn)
    total, count, compared = 0.0, 0, []
    for train, test in splits:
        gaps = (
            T_all[test]
            @ found.rows
            @ coefficients(T_all[train], t_all[train], found.rows, alpha, *how)
        )
        compared.append(np.column_stack([t_all[test], np.round(gaps, 9)]))
        if score == "disagreement":
            gaps = np.round(gaps[margins[test] > 0], 10)
            total, count = (
                total + np.sum(np.where(gaps == 0, 0.5, gaps < 0), axis=0),
                count + len(gaps),
            )
        else:
            total, count = (
                total + np.sum((t_all[test][:, None] - gaps) ** 2, axis=0),
                count + len(test),
            )
    return (rescaled_losses(np.concatenate(compared)) if score == "rescaled" else total) / count
