"""004 eq. (11), literally: every query in turn is left out, RankRLS is refitted to all others, and
what it leaves is written down. No formula of corank's; fit for a few dozen rows.

What is left is linear in all scores, known and unknown, so (11) is least squares in the unknown
ones.
"""

import numpy as np

from brute_force import Loss, loss_rows, symmetric_root


def numbered(y, qid):
    """Query numbers; a query with scored and unscored rows is two."""
    labels = [(label, bool(missing)) for label, missing in zip(qid, np.isnan(y), strict=True)]
    known = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return np.array([known[label] for label in labels])


def refitted(X, qid, X_new, k, alpha, loss, basis):
    """The matrix that turns scores of X into the predictions on X_new of the minimiser of RankRLS's
    objective.
    """
    T, _ = loss_rows(np.zeros(len(X)), qid, loss)
    rows = np.concatenate([T @ k(X, basis), np.sqrt(alpha) * symmetric_root(k(basis, basis))])
    right = np.concatenate([T, np.zeros((len(basis), len(X)))])
    return k(X_new, basis) @ np.linalg.lstsq(rows, right, rcond=None)[0]


def left_over(X, qid, k, alpha, loss, basis):
    """The matrix that turns scores of all rows into the held-out residuals of all pairs, whose
    squares (11) sums.
    """
    parts = []
    for query in dict.fromkeys(qid):
        own, rest = np.flatnonzero(qid == query), np.flatnonzero(qid != query)
        residual = np.zeros((len(own), len(X)))
        residual[:, own] = np.eye(len(own))
        residual[:, rest] = -refitted(X[rest], qid[rest], X[own], k, alpha, loss, basis)
        parts.append(loss_rows(np.zeros(len(own)), qid[own], loss)[0] @ residual)
    return np.concatenate(parts)


def rows_of_objective(X, y, qid, k, alpha, pull, weighting, basis):
    """A, b with (11) = ‖A ŷ − b‖² for the scores ŷ of the NaN rows, and what the scored queries
    predict for them.
    """
    loss, codes, unknown = Loss(weighting), numbered(y, qid), np.isnan(y)
    basis = X if basis is None else basis
    alone = refitted(X[~unknown], codes[~unknown], X[unknown], k, alpha, loss, basis) @ y[~unknown]
    residuals = left_over(X, codes, k, alpha, loss, basis)
    A = np.concatenate([residuals[:, unknown], np.sqrt(pull) * np.eye(int(unknown.sum()))])
    return A, np.concatenate([-residuals[:, ~unknown] @ y[~unknown], np.sqrt(pull) * alone]), alone


def transduce(X, y, qid, k, alpha, pull, weighting="query", basis=None):
    """Scores of the NaN rows of y."""
    A, b, _ = rows_of_objective(X, y, qid, k, alpha, pull, weighting, basis)
    return np.linalg.lstsq(A, b, rcond=None)[0]


def refit(X, y, guess, qid, X_new, k, alpha, weighting="query", basis=None):
    """Predictions of RankRLS on the completed scores."""
    completed = np.array(y, dtype=float)
    completed[np.isnan(y)] = guess
    points = X if basis is None else basis
    return refitted(X, numbered(y, qid), X_new, k, alpha, Loss(weighting), points) @ completed


def held_out_pulls(X, y, qid, folds, k, alpha, pulls, weighting="query", basis=None):
    """Held-out loss (folds, pulls) and its rank (folds,): the scored rows of each fold of queries
    in turn lose their scores."""
    loss, scored = Loss(weighting), ~np.isnan(y)
    errors, sizes = np.zeros((len(folds), len(pulls))), np.zeros(len(folds))
    # the unscored rows of a query stay apart from those that are hidden
    labels = np.where(scored, qid, -1 - qid)
    for number, queries in enumerate(folds):
        own = scored & np.isin(qid, queries)
        hidden = np.where(own, np.nan, y)
        T, t = loss_rows(y[own], qid[own], loss)
        sizes[number] = int(own.sum()) - len(np.unique(qid[own]))
        for position, pull in enumerate(pulls):
            completed = np.full(len(y), np.nan)
            completed[np.isnan(hidden)] = transduce(
                X, hidden, labels, k, alpha, pull, weighting, basis
            )
            errors[number, position] = np.sum((t - T @ completed[own]) ** 2)
    return errors, sizes


def strongest_within_one_error(errors, sizes, pulls):
    """The largest pull whose mean loss exceeds the least by no more than the standard error of that
    difference.
    """
    errors, sizes = errors[sizes > 0], sizes[sizes > 0]
    n, total = len(sizes), sizes.sum()
    least = int(np.argmin(errors.sum(axis=0)))
    chosen = []
    for position, pull in enumerate(pulls):
        gap = errors[:, position] - errors[:, least]
        mean = gap.sum() / total
        spread = np.sqrt(np.sum((gap - sizes * mean) ** 2) * n / (n - 1)) / total
        if mean <= spread:
            chosen.append(pull)
    return max(chosen)
