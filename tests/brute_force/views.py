"""Several views: the stated objective, literally, and refitting for hold-out. See brute_force.py.

Sums over pairs of rows and of views, stacked into one least-squares problem; nothing here uses a
formula of corank's.
"""

from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from scipy.linalg import lstsq
from scipy.optimize import nnls

from brute_force import (
    REGRESSION,
    Loss,
    comparison_rows,
    laplacian,
    loss_rows,
    misordered,
    symmetric_root,
)
from corank.core.folds import balanced_folds


def rbf(gamma):
    """exp(−gamma |a − b|²), written out."""
    return lambda A, B: np.exp(-gamma * ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2))


@dataclass(frozen=True)
class Look:
    """One view of rows: which columns it sees, its kernel, the points (with all columns) that span
    it, its penalty.
    """

    columns: object
    k: object
    points: np.ndarray
    penalty: float = 1.0

    def values(self, X):
        """Φ(X): (n, r)."""
        return self.k(X[:, self.columns], self.points[:, self.columns])


class StackedViews:
    """Σ_v ‖t_v − T_v Φ_v c_v‖² + alpha Σ_v ρ_v c_vᵀ Ω_v c_v + 2·agreement Σ_{u<v} ‖T̄ (Φ̄_v c_v −
    Φ̄_u c_u)‖².

    losses : (rows, T, t) a view; shared : (rows, T̄). All c_v are the unknowns of one least-squares
        problem.
    """

    def __init__(self, looks, losses, shared):
        self.looks = looks
        self.ends = np.cumsum([0, *(len(look.points) for look in looks)])
        losses = [(X, *rotated(T, t)) for X, T, t in losses]
        self.right = np.concatenate([t for _, _, t in losses])
        own = [
            {v: T @ look.values(X)}
            for v, (look, (X, T, _)) in enumerate(zip(looks, losses, strict=True))
        ]
        norms = [np.sqrt(look.penalty) * symmetric_root(look.values(look.points)) for look in looks]
        X, (T, _) = shared[0], rotated(shared[1], np.zeros(len(shared[1])))
        gaps = [
            {v: T @ looks[v].values(X), u: -T @ looks[u].values(X)}
            for u, v in combinations(range(len(looks)), 2)
        ]
        self.scored = self._rows(own)
        self.norms = self._rows([{v: norm} for v, norm in enumerate(norms)])
        self.gaps = self._rows(gaps)

    def _rows(self, parts):
        rows = [np.zeros((0, self.ends[-1]))]
        for blocks in parts:
            rows.append(np.zeros((len(next(iter(blocks.values()))), self.ends[-1])))
            for v, block in blocks.items():
                rows[-1][:, self.ends[v] : self.ends[v + 1]] = block
        return np.concatenate(rows)

    def minimiser(self, alpha, agreement, offset=0.0):
        """The function X_new → (n, M) at the minimum; it knows the `offset` that was taken out of
        the scores.
        """
        rows = np.concatenate(
            [self.scored, np.sqrt(alpha) * self.norms, np.sqrt(2 * agreement) * self.gaps]
        )
        right = np.concatenate([self.right, np.zeros(len(rows) - len(self.right))])
        solution = lstsq(rows, right, lapack_driver="gelsy", check_finite=False)[0]
        parts = [solution[begin:end] for begin, end in pairwise(self.ends)]

        def predict(new):
            return (
                np.stack(
                    [look.values(new) @ c for look, c in zip(self.looks, parts, strict=True)],
                    axis=1,
                )
                + offset
            )

        predict.offset = offset
        return predict


def rotated(T, t):
    """Fewer rows with the same ‖t − T f‖² for every f: what a rotation leaves of a row a pair."""
    triangle = np.linalg.qr(np.column_stack([T, t]), mode="r")
    return triangle[:, :-1], triangle[:, -1]


def unscored_rows(X, y, loss, qid=None, weights=None, unscored=None, unscored_qid=None):
    """(rows, T̄): rows of X without any score, then those of `unscored`, whose queries are others."""
    plain = np.isnan(y.reshape(len(y), -1)).all(axis=1)
    weights = np.ones(len(X)) if weights is None else weights
    plain &= weights > 0
    labels = [("X", 0 if qid is None else qid[row]) for row in np.flatnonzero(plain)]
    rows, w = X[plain], weights[plain]
    if unscored is not None:
        labels += [
            ("apart", 0 if unscored_qid is None else unscored_qid[row])
            for row in range(len(unscored))
        ]
        rows, w = np.concatenate([rows, unscored]), np.concatenate([w, np.ones(len(unscored))])
    shared = REGRESSION if loss is REGRESSION else Loss(loss.weighting)
    return rows, loss_rows(np.zeros(len(rows)), labels, shared, w)[0]


def fit_views(looks, X, y, alpha, agreement, loss=REGRESSION, **options):
    """The function X_new → (n, M) of the minimiser: see `fit_views_path`."""
    return fit_views_path(looks, X, y, [(alpha, agreement)], loss, **options)[0]


def fit_views_path(
    looks,
    X,
    y,
    pairs,
    loss=REGRESSION,
    *,
    qid=None,
    weights=None,
    unscored=None,
    unscored_qid=None,
    intercept=False,
):
    """One minimiser for each (alpha, agreement). y (n,) or one column a view; NaN = not scored.

    REGRESSION compares unscored rows one by one, every other loss within their queries.
    """
    n = len(X)
    columns = np.broadcast_to(y.reshape(n, -1), (n, len(looks)))
    w, labels = (
        np.ones(n) if weights is None else weights,
        (np.zeros(n) if qid is None else np.asarray(qid)),
    )
    given = ~np.isnan(columns) & (w > 0)[:, None]
    own = given if y.ndim == 2 else given[:, :1]
    offset = np.average(
        columns[:, : own.shape[1]][own], weights=np.broadcast_to(w[:, None], own.shape)[own]
    )
    offset = offset if intercept else 0.0
    losses = []
    for scores, rows in zip(columns.T, given.T, strict=True):
        if losses and y.ndim == 1:
            losses.append(losses[0])
        else:
            losses.append((X[rows], *loss_rows(scores[rows] - offset, labels[rows], loss, w[rows])))
    shared = unscored_rows(X, y, loss, qid, weights, unscored, unscored_qid)
    stacked = StackedViews(looks, losses, shared)
    return [stacked.minimiser(alpha, agreement, offset) for alpha, agreement in pairs]


def fit_views_comparisons(
    looks, X, winners, losers, pairs, weighting="size", *, margins=None, weights=None, qid=None, unscored=None,
    unscored_qid=None, plain=None,
):  # fmt: skip
    """The same for explicit comparisons; rows in none of them (or `plain`, where given) are
    unscored.
    """
    losses = [(X, *comparison_rows(len(X), winners, losers, margins, weights)) for _ in looks]
    y = np.zeros(len(X))
    y[np.setdiff1d(np.arange(len(X)), [*winners, *losers]) if plain is None else plain] = np.nan
    stacked = StackedViews(
        looks, losses, unscored_rows(X, y, Loss(weighting), qid, None, unscored, unscored_qid)
    )
    return [stacked.minimiser(alpha, agreement) for alpha, agreement in pairs]


# ------------------------------------------------------------------ hold-out by refitting


@dataclass(frozen=True)
class LeftOut:
    """What one refit without some rows says of them: one column of predictions a pair of
    parameters.
    """

    T: np.ndarray
    t: np.ndarray
    rank: int
    predictions: np.ndarray
    shares: list
    offset: float = 0.0

    @classmethod
    def of(cls, scores, predictions, labels, weights, loss, offset):
        """Rows with scores; shares of wrongly ordered pairs are those of each query."""
        rank = np.linalg.matrix_rank(laplacian(labels, loss, weights)) if len(labels) else 0
        shares = []
        for query in dict.fromkeys(labels):
            rows = labels == query
            own = [misordered(scores[rows], f, weights[rows]) for f in predictions[rows].T]
            shares += [own] if np.isfinite(own).all() else []
        return cls(*loss_rows(scores, labels, loss, weights), rank, predictions, shares, offset)

    def losses(self, slope=1.0):
        """‖t − T f‖² for every pair."""
        f = slope * (self.predictions - self.offset) + self.offset
        return ((self.t[:, None] - self.T @ f) ** 2).sum(axis=0)


def fold_errors(parts, score):
    """Errors (folds, pairs) and how much each fold counts (folds,): score as in
    `brute_force.held_out`.
    """
    if score == "disagreement":
        shares = [own for part in parts for own in part.shares]
        return np.asarray(shares), np.ones(len(shares))
    told = [part for part in parts if part.rank]
    slope = best_slopes(told) if score == "rescaled" else 1.0
    return np.asarray([part.losses(slope) for part in told]), np.asarray(
        [part.rank for part in told]
    )


def mean_error(parts, score):
    """The held-out error of every pair."""
    errors, sizes = fold_errors(parts, score)
    return errors.sum(axis=0) / sizes.sum()


def best_slopes(parts):
    """The factor a pair, not below 0, that fits all predictions best, the offset taken out:
    (pairs,).
    """
    t = np.concatenate([p.t - p.T.sum(axis=1) * p.offset for p in parts])
    values = np.concatenate([p.T @ (p.predictions - p.offset) for p in parts])
    return np.asarray([nnls(column[:, None], t)[0][0] for column in values.T])


def standard_error(errors, sizes):
    """Of the mean error, over what was held out."""
    k, mean = len(errors), errors.sum(axis=0) / sizes.sum()
    spread = errors - sizes.reshape(-1, *(1,) * (errors.ndim - 1)) * mean
    return np.sqrt((spread**2).sum(axis=0) * k / (k - 1)) / sizes.sum()


def choose(errors, sizes, pairs, score, agreements):
    """The pair that learners take among those agreements: an alpha for each of them, then the one
    of least error.

    With "rescaled" the largest alpha whose error is within one standard error of the best, paired
    fold by fold.
    """
    mean, taken = errors.sum(axis=0) / sizes.sum(), []
    for agreement in agreements:
        own = [k for k, pair in enumerate(pairs) if pair[1] == agreement]
        best = min(own, key=lambda k: (mean[k], -pairs[k][0]))
        if score == "rescaled" and len(sizes) > 1:
            gaps = errors[:, own] - errors[:, [best]]
            close = gaps.sum(axis=0) / sizes.sum() <= standard_error(gaps, sizes)
            best = max(
                (k for k, near in zip(own, close, strict=True) if near), key=lambda k: pairs[k][0]
            )
        taken.append(best)
    return min(taken, key=lambda k: (mean[k], -pairs[k][0]))


def leave_out_of_views(
    looks, X, y, splits, pairs, loss=REGRESSION, *, qid=None, weights=None, **options
):
    """Literal refitting, the rows left out dropped from X; unscored rows stay. Splits are rows of X
    with a score.

    The mean of the views is judged where all have the same scores, else every view on its own ones.
    """
    n = len(X)
    labels, w = (
        np.zeros(n) if qid is None else np.asarray(qid),
        (np.ones(n) if weights is None else weights),
    )
    plain = np.flatnonzero(np.isnan(y.reshape(n, -1)).all(axis=1))
    parts = []
    for train, test in splits:
        kept = np.sort(np.concatenate([train, plain]))
        models = fit_views_path(
            looks, X[kept], y[kept], pairs, loss, qid=labels[kept], weights=w[kept], **options
        )
        for v in range(y.shape[1] if y.ndim == 2 else 1):
            scores = y[:, v] if y.ndim == 2 else y
            rows = np.asarray(
                [row for row in test if not np.isnan(scores[row]) and w[row] > 0], dtype=int
            )
            own = [
                model(X[rows])[:, v] if y.ndim == 2 else model(X[rows]).mean(axis=1)
                for model in models
            ]
            own = np.stack(own, axis=1)
            parts.append(
                LeftOut.of(scores[rows], own, labels[rows], w[rows], loss, models[0].offset)
            )
    return parts


def leave_comparisons_out(
    looks, X, winners, losers, splits, pairs, *, margins, weights, plain=None, **options
):
    """The same for comparisons; rows in none of them (or `plain`) are the unscored ones, whatever
    is left out.
    """
    plain = np.setdiff1d(np.arange(len(X)), [*winners, *losers]) if plain is None else plain
    parts = []
    for train, test in splits:
        models = fit_views_comparisons(
            looks, X, winners[train], losers[train], pairs,
            margins=margins[train], weights=weights[train], plain=plain, **options,
        )  # fmt: skip
        T, t = comparison_rows(len(X), winners[test], losers[test], margins[test], weights[test])
        predictions = np.stack([model(X).mean(axis=1) for model in models], axis=1)
        gaps = predictions[winners[test]] - predictions[losers[test]]
        shares = [
            (np.where(gap < 0, 1.0, np.where(gap == 0, 0.5, 0.0)))
            for gap in gaps[margins[test] > 0]
        ]
        parts.append(LeftOut(T, t, len(test), predictions, shares))
    return parts


# ------------------------------------------------------------------ data


@dataclass(frozen=True)
class ViewsProblem:
    """Scored and unscored rows mixed, three pairs of columns; an unscored query may share its name
    with a scored one.
    """

    X: np.ndarray
    y: np.ndarray
    qid: np.ndarray
    weights: np.ndarray
    X_new: np.ndarray
    apart: np.ndarray
    apart_qid: np.ndarray

    @property
    def scored(self):
        """Row numbers of X."""
        return np.flatnonzero(~np.isnan(self.y))

    @property
    def own_scores(self):
        """One column a view, each view with rows of its own that it does not see, a few with other
        scores.
        """
        columns = np.stack([self.y, self.y + 0.1, self.y], axis=1)
        for v in range(3):
            columns[self.scored[v::4], v] = np.nan
        return columns


def small_views(seed=0, sizes=(1, 4, 6, 3, 4), unscored=(3, 1, 4, 2)):
    """The same numbers for the same seed: unsorted queries of unequal size, ties, single-item
    queries.
    """
    rng = np.random.default_rng(seed)
    n, m = sum(sizes), sum(unscored)
    scored_first = np.concatenate(
        [np.repeat(np.arange(len(sizes)), sizes), 2 + np.repeat(np.arange(len(unscored)), unscored)]
    )
    order = rng.permutation(n + m)
    X = rng.normal(size=(n + m, 6))
    y = np.round(X[:, 0] + np.sin(X[:, 2]) - X[:, 4] ** 2 + rng.normal(size=n + m), 1)
    y[n:] = np.nan
    return ViewsProblem(
        X[order],
        y[order],
        scored_first[order],
        rng.uniform(0.3, 2.5, size=n + m),
        rng.normal(size=(7, 6)),
        rng.normal(size=(6, 6)),
        np.asarray([2, 3, 2, 2, 3, 9]),
    )


def item_folds(scores, seed=0):
    """The folds of items of the only query: dealt out by score, so that each fold has low and high
    ones.
    """
    scores = np.asarray(scores, dtype=float)
    if scores.ndim == 2:  # one column a view: the last one that is there
        last = scores.shape[1] - 1 - np.argmax(~np.isnan(scores[:, ::-1]), axis=1)
        scores = scores[np.arange(len(scores)), last]
    n, rng = len(scores), np.random.default_rng(seed)
    order, folds = np.lexsort((rng.random(n), scores)), np.empty(n, dtype=int)
    folds[order] = balanced_folds(n, min(10, n // 2), rng)
    return folds
