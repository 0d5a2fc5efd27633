"""Gaussian processes on comparisons and score differences, literally: sums over nodes, dense normal
distributions.

Nothing here uses expectation propagation, contrasts of corank's or its features; fit for a handful
of items.
"""

from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from scipy.integrate import quad
from scipy.stats import logistic, multivariate_normal, norm

# ------------------------------------------------------------------ the posterior under the probit likelihood


@dataclass(frozen=True)
class Nodes:
    """A posterior as values (S, n) of the function at n items with weights (S,) that add up to 1."""

    values: np.ndarray
    weights: np.ndarray
    log_evidence: float
    relative_error: float  # of the evidence: one standard error

    @property
    def mean(self):
        return self.weights @ self.values

    @property
    def covariance(self):
        gaps = self.values - self.mean
        return (gaps * self.weights[:, None]).T @ gaps


def log_likelihood(values, winners, losers, counts):
    """Σ counts · log Φ(f_winner − f_loser) for every row of values: (S,)."""
    return sum(
        count * norm.logcdf(values[:, winner] - values[:, loser])
        for winner, loser, count in zip(winners, losers, counts, strict=True)
    )


def vote_chance(difference, outcome, reliability, threshold, side, lapse, response, ties=True):
    """P(outcome) of a judge who sees differences (S,): 1 first, 0 tie, −1 second."""
    cdf = {"probit": norm.cdf, "logit": logistic.cdf}[response]
    seen = reliability * difference + side
    first, second = cdf(seen - threshold), cdf(-seen - threshold)
    chance = {1: first, -1: second, 0: 1 - first - second}[outcome]
    return (1 - lapse) * chance + lapse / (3 if ties else 2)


def integrated(K, winners, losers, counts=None, half_width=6.0, steps=None, likelihood=None):
    """The posterior by the trapezoid rule in as many dimensions as there are items, f = root(K) c,
    c ~ N(0, I); likelihood : the log of that of values (S, n), where it is not probit.
    """
    n = len(K)
    axis = np.linspace(-half_width, half_width, steps or {2: 301, 3: 81, 4: 31}[n])
    grid = np.stack(np.meshgrid(*[axis] * n, indexing="ij"), axis=-1).reshape(-1, n)
    values = grid @ np.linalg.cholesky(K).T
    logs = norm.logpdf(axis)
    prior = sum(logs[..., *[None] * (n - 1 - k)] for k in range(n)).ravel()
    if counts is None and likelihood is None:
        counts = np.ones(len(winners))
    logs = (likelihood or partial(log_likelihood, winners=winners, losers=losers, counts=counts))(
        values
    )
    weights = np.exp(prior + logs)
    total = weights.sum()
    return Nodes(values, weights / total, float(np.log(total * (axis[1] - axis[0]) ** n)), 0.0)


def sampled(K, winners, losers, counts=None, size=200_000, seed=0):
    """The posterior by samples of the prior weighted by their likelihood."""
    half = np.random.default_rng(seed).standard_normal((size // 2, len(K)))
    values = np.concatenate([half, -half]) @ np.linalg.cholesky(K).T
    counts = np.ones(len(winners)) if counts is None else counts
    weights = np.exp(log_likelihood(values, winners, losers, counts))
    error = weights.std() / np.sqrt(size) / weights.mean()
    return Nodes(values, weights / weights.sum(), float(np.log(weights.mean())), float(error))


# ------------------------------------------------------------------ at new points


def at_new_points(nodes, k, X, X_new):
    """Mean (m,) and covariance (m, m) at new points: the function is known at the items of each
    node, then mixed.
    """
    onto = np.linalg.solve(k(X, X), k(X, X_new)).T
    left = k(X_new, X_new) - onto @ k(X, X_new)
    return onto @ nodes.mean, left + onto @ nodes.covariance @ onto.T


def chance(nodes, k, X, X_a, X_b, noise=0.0):
    """P(f(a) + noise > f(b)) for pairs of new points: (m,), node by node."""
    both = np.concatenate([X_a, X_b])
    onto = np.linalg.solve(k(X, X), k(X, both)).T
    left = k(both, both) - onto @ k(X, both)
    m = len(X_a)
    pick = np.concatenate([np.eye(m), -np.eye(m)], axis=1)
    spread = np.maximum(np.diag(pick @ left @ pick.T), 0) + noise
    return nodes.weights @ norm.cdf(nodes.values @ (pick @ onto).T / np.sqrt(spread))


def mixed(parts, logs):
    """Mean and covariance of a mixture of (mean, covariance), whose shares are as exp(logs)."""
    shares = np.exp(np.asarray(logs) - np.max(logs))
    shares /= shares.sum()
    mean = sum(share * m for share, (m, _) in zip(shares, parts, strict=True))
    second = sum(share * (C + np.outer(m, m)) for share, (m, C) in zip(shares, parts, strict=True))
    return mean, second - np.outer(mean, mean), shares


# ------------------------------------------------------------------ score differences with Gaussian noise


def helmert(qid):
    """Orthonormal contrasts within queries, (n − q, n): row k of a query is its item k against
    those before it.
    """
    qid, rows = np.asarray(qid), []
    for query in dict.fromkeys(qid.tolist()):
        members = np.flatnonzero(qid == query)
        for k in range(1, len(members)):
            row = np.zeros(len(qid))
            row[members[:k]], row[members[k]] = 1.0, -float(k)
            rows.append(row / np.linalg.norm(row))
    return np.stack(rows)


def pair_matrix(n, winners, losers):
    """+1 at the winner, −1 at the loser: (p, n)."""
    rows = np.zeros((len(winners), n))
    for k, (i, j) in enumerate(zip(winners, losers, strict=True)):
        rows[k, i] += 1
        rows[k, j] -= 1
    return rows


def conditioned(observed, rows, noises, k, X, X_new):
    """log density of `observed` = rows f + N(0, noises); mean and covariance of f at new points
    given it.
    """
    covariance = rows @ k(X, X) @ rows.T + np.diag(noises)
    log_evidence = multivariate_normal(np.zeros(len(rows)), covariance).logpdf(observed)
    onto = np.linalg.solve(covariance, rows @ k(X, X_new)).T
    return log_evidence, onto @ observed, k(X_new, X_new) - onto @ rows @ k(X, X_new)


# ------------------------------------------------------------------ what to ask


def entropy(p):
    """Bits of a yes with probability p."""
    return sum(-q * np.log2(q) if q > 0 else 0.0 for q in (p, 1 - p))


def mutual_information(mean, variance, noise):
    """Bits that the sign of g + N(0, noise) says about g ~ N(mean, variance), by quadrature."""
    sd = np.sqrt(variance)
    open_ = entropy(norm.cdf(mean / np.sqrt(variance + noise)))
    known = quad(
        lambda t: norm.pdf(t) * entropy(norm.cdf((mean + sd * t) / np.sqrt(noise))),
        -9,
        9,
        limit=200,
        epsabs=1e-10,
    )[0]
    return open_ - known


def most_telling_pair(mean, covariance, noise):
    """Information of every pair of rows: {(i, j): bits}."""
    return {
        (i, j): mutual_information(
            mean[i] - mean[j], covariance[i, i] + covariance[j, j] - 2 * covariance[i, j], noise
        )
        for i, j in combinations(range(len(mean)), 2)
    }


def unknown_after(covariance, row, noise):
    """The sum of the variances of all values less their mean, once the one of a row was seen with
    noise.
    """
    m = len(covariance)
    about = np.eye(m) - np.ones((m, m)) / m
    centred = about @ covariance @ about.T
    joint = np.block(
        [[centred, centred[:, [row]]], [centred[[row]], centred[[row]][:, [row]] + noise]]
    )
    precision = np.linalg.inv(joint[m:, m:])
    return np.trace(joint[:m, :m] - joint[:m, m:] @ precision @ joint[m:, :m])
