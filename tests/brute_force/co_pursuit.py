"""Pursuit on several views: every combination of atoms tried, the stated objective evaluated with
dense Laplacians.

Nothing here uses a formula of corank's; it is slow on purpose and fit for a few dozen rows.
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from brute_force import Loss, laplacian, symmetric_root
from brute_force.views import LeftOut, unscored_rows


@dataclass(frozen=True)
class Steps:
    """Atoms (p, M), weights of the model after every step (one (q, M) a step), the objective after
    0, 1, … steps.
    """

    labels: np.ndarray
    weights: list
    objective: list


class CoPursuit:
    """Scored rows, unscored rows and the dictionaries of all views, each a `Look` of
    brute_force_views.

    y (n,) or one column a view, NaN = unscored. `keep` are the rows whose scores count, None for
    all that have one.
    """

    def __init__(
        self, looks, X, y, agreement, loss=None, *, qid=None, weights=None, keep=None, **apart
    ):
        loss, n = loss or Loss(), len(X)
        w, labels = (
            np.ones(n) if weights is None else weights,
            (np.zeros(n) if qid is None else np.asarray(qid)),
        )
        self.looks, self.agreement = looks, agreement
        shared, T = unscored_rows(X, y, loss, qid, weights, **apart)
        self.L_bar, self.D_bar = T.T @ T, [look.values(shared) for look in looks]
        self.scores, self.L, self.D = [], [], []
        for v, look in enumerate(looks):
            own = y if y.ndim == 1 else y[:, v]
            rows = (
                ~np.isnan(own)
                & (w > 0)
                & (np.ones(n, dtype=bool) if keep is None else np.isin(np.arange(n), keep))
            )
            self.scores.append(own[rows])
            self.L.append(laplacian(labels[rows], loss, w[rows]))
            self.D.append(look.values(X[rows]))

    def objective(self, f, f_bar):
        """003 eq. (3) of function values on scored and unscored rows: the sum over ordered pairs of
        views.
        """
        total = sum(
            (s - own) @ L @ (s - own) for s, L, own in zip(self.scores, self.L, f, strict=True)
        )
        for one, other in product(f_bar, f_bar):
            total += self.agreement * (one - other) @ self.L_bar @ (one - other)
        return total

    def printed(self, a, labels, residual):
        """J(a, γ) of 003 Fig. 2, as printed: one residual for all views, the disagreement of the
        increments alone.
        """
        steps = [weight * D[:, label] for weight, D, label in zip(a, self.D, labels, strict=True)]
        bars = [
            weight * D[:, label] for weight, D, label in zip(a, self.D_bar, labels, strict=True)
        ]
        total = sum(
            (residual - own) @ L @ (residual - own) for L, own in zip(self.L, steps, strict=True)
        )
        for one, other in product(bars, bars):
            total += self.agreement * (one - other) @ self.L_bar @ (one - other)
        return total

    def least(self, columns, residuals, gaps):
        """The weights of (view, atom) `columns` that make the objective least, for residuals and
        disagreements so far.

        One stacked least-squares problem, one row block a view and one an ordered pair of views.
        """
        rows, right = [], []
        for v, (L, residual) in enumerate(zip(self.L, residuals, strict=True)):
            root = symmetric_root(L)
            rows.append(
                np.stack(
                    [
                        root @ self.D[v][:, k] * (u == v) if u == v else 0 * root[:, 0]
                        for u, k in columns
                    ],
                    1,
                )
            )
            right.append(root @ residual)
        root = np.sqrt(self.agreement) * symmetric_root(self.L_bar)
        for v, u in product(range(len(self.looks)), repeat=2):
            signs = [(w == v) * 1.0 - (w == u) * 1.0 for w, _ in columns]
            parts = [
                sign * root @ self.D_bar[w][:, k]
                for sign, (w, k) in zip(signs, columns, strict=True)
            ]
            rows.append(np.stack(parts, axis=1))
            right.append(-root @ (gaps[v] - gaps[u]))
        return np.linalg.lstsq(np.concatenate(rows), np.concatenate(right), rcond=1e-12)[0]

    def values(self, labels, weights):
        """Function values of every view on scored and on unscored rows."""
        f, f_bar = [], []
        for v, (D, D_bar) in enumerate(zip(self.D, self.D_bar, strict=True)):
            own = [row[v] for row in labels]
            f.append(
                D[:, own] @ np.asarray([row[v] for row in weights]) if own else np.zeros(len(D))
            )
            f_bar.append(
                D_bar[:, own] @ np.asarray([row[v] for row in weights])
                if own
                else np.zeros(len(D_bar))
            )
        return f, f_bar

    def refitted(self, labels):
        """All weights of all views at the minimum of the objective: (p, M)."""
        m = len(self.looks)
        columns = [(v, row[v]) for v in range(m) for row in labels]
        zeros = [np.zeros(len(D)) for D in self.D_bar]
        return self.least(columns, self.scores, zeros).reshape(m, len(labels)).T

    def candidate(self, labels, objective, f, f_bar):
        """The weights with which a combination enters, and what the step objective then is."""
        columns = list(enumerate(labels))
        if objective == "paper":
            residual = self.scores[0] - np.mean(f, axis=0)
            a = self.least(columns, [residual] * len(f), [np.zeros_like(own) for own in f_bar])
            return a, self.printed(a, labels, residual)
        a = self.least(columns, [s - own for s, own in zip(self.scores, f, strict=True)], f_bar)
        after = [own + w * D[:, k] for own, w, D, k in zip(f, a, self.D, labels, strict=True)]
        after_bar = [
            own + w * D[:, k] for own, w, D, k in zip(f_bar, a, self.D_bar, labels, strict=True)
        ]
        return a, self.objective(after, after_bar)

    def pursue(self, n_steps, objective="exact", search="full", refit="back", first=None):
        """A loop over all labelings, step after step; `first` forces the first one."""
        labels, running, history = [], np.zeros((0, len(self.looks))), []
        values = [self.objective(*self.values([], []))]
        for step in range(n_steps):
            f, f_bar = self.values(labels, running)
            sizes = [range(D.shape[1]) for D in self.D]
            every = product(*sizes) if search == "full" else ((k,) * len(sizes) for k in sizes[0])
            if refit == "back":
                every = (
                    row
                    for row in every
                    if all(row[v] != old[v] for old in labels for v in range(len(row)))
                )
            every = [first] if step == 0 and first is not None else list(every)
            tried = [self.candidate(row, objective, f, f_bar) for row in every]
            costs = np.asarray([cost for _, cost in tried])
            best = int(np.argmax(costs <= costs.min() + 1e-10 * values[0]))
            labels.append(every[best])
            running = np.vstack([running, tried[best][0]])
            model = running if refit == "basic" else self.refitted(labels)
            running = model if refit == "back" else running
            history.append(model)
            values.append(self.objective(*self.values(labels, model)))
        return Steps(np.asarray(labels), history, values)

    def predict(self, steps, number, X):
        """(n, M) after so many steps."""
        weights, labels = steps.weights[number - 1], steps.labels[:number]
        return np.stack(
            [look.values(X)[:, labels[:, v]] @ weights[:, v] for v, look in enumerate(self.looks)],
            axis=1,
        )


def left_out(
    looks,
    X,
    y,
    splits,
    agreements,
    numbers,
    loss=None,
    *,
    qid=None,
    weights=None,
    rules=(),
    **apart,
):
    """Literal refitting without each test set, as scores and as atoms: one LeftOut a split, one
    column a pair.
    """
    loss, n = loss or Loss(), len(X)
    w, labels = (
        np.ones(n) if weights is None else weights,
        (np.zeros(n) if qid is None else np.asarray(qid)),
    )
    parts = []
    for train, test in splits:
        columns = []
        known = [
            replace(
                look,
                points=np.asarray([z for z in look.points if z.tolist() not in X[test].tolist()]),
            )
            for look in looks
        ]
        for agreement in agreements:
            model = CoPursuit(
                known, X, y, agreement, loss, qid=qid, weights=weights, keep=train, **apart
            )
            steps = model.pursue(max(numbers), *rules)
            columns += [model.predict(steps, number, X[test]).mean(axis=1) for number in numbers]
        parts.append(
            LeftOut.of(y[test], np.stack(columns, axis=1), labels[test], w[test], loss, 0.0)
        )
    return parts
