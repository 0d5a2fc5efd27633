"""What to ask next: rows to score, or pairs to compare, out of a pool with a Gaussian belief about
it.

Questions are picked one by one, each the one that tells most given that those before it were
answered: a batch does not ask for one thing twice (docs/mathematics.md, section 3.15). No chance is
involved; the first of equals is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import ndtr, xlogy

from corank.core.arrays import Array, FloatArray, Index, take, to_numpy
from corank.solve.function import Function, Span
from corank.solve.posterior import Posterior

MOST, MOST_PAIRED = 2_000, 1_000  # rows of a pool that are looked at one by one, and in pairs
SETTLED = 0.1  # of a usual disagreement is what may be left of one once it was asked about
LEAST_NOISE = 1e-12  # of an answer, of the variances of the whole pool
# of the Gaussian that stands for the entropy of a probit answer
ENTROPY_WIDTH = np.sqrt(np.pi * np.log(2) / 2)
# share of the largest gain: others that fall short of it by less are equal but for rounding
GAIN_ROUNDING = 1e-12


# ---------------------------------------------------------------- out of a pool


def ask(posterior: Posterior, rows: Any, kind: Any, n: Any) -> Index:
    """The n questions about the rows of a pool whose answers say most about a function.

    Parameters
    ----------
    posterior : what is believed about the function
    rows : of the pool, as the posterior takes them
    kind : "score" or "comparison"

    Returns
    -------
    row numbers: (n,) for scores, (n, 2) for comparisons
    """
    m = rows.shape[0]
    check_question(n, m, kind)
    compares = kind == "comparison"
    chosen = _sample(m, n)
    if compares:
        chosen = _shortlist(lambda: to_numpy(posterior.moments(rows)[1]), m, n)
    mean, covariance = map(to_numpy, posterior.covariance(take(rows, chosen)))
    noise = max(posterior.answer_noise, LEAST_NOISE * float(np.trace(covariance)), 1e-300)
    if compares and posterior.answers_measure:
        return chosen[pairs_to_measure(covariance, noise, n)]
    if compares:
        return chosen[pairs_to_compare(mean / noise**0.5, covariance / noise, n)]
    if posterior.free_level:  # which says nothing about the order
        covariance = covariance - covariance.mean(axis=0)
        covariance = covariance - covariance.mean(axis=1, keepdims=True)
    return chosen[rows_to_score(covariance, noise / 2, n)]


def ask_views(function: Function, features: Array, kind: Any, n: Any) -> Index:
    """The n rows of a pool, or pairs of them, on which the views of a function disagree most.

    Parameters
    ----------
    function : with one part per view
    features : (m, d) the pool
    kind : "score" or "comparison"

    Returns
    -------
    row numbers: (n,) for scores, (n, 2) for comparisons
    """
    spans = [part.span for part in function.parts]
    if len(spans) < 2:
        raise ValueError("suggest needs at least two views that can disagree; this model has one.")
    if any(span.kernel.precomputed for span in spans):
        raise ValueError(
            "suggest needs the rows themselves; a precomputed kernel does not give the similarity"
            " of new rows."
        )
    m = features.shape[0]
    check_question(n, m, kind)
    by_view = [to_numpy(values) for values in function.part_values(features)]
    values = np.stack(by_view, axis=1)
    gaps = values - values.mean(axis=1, keepdims=True)
    gaps = gaps - gaps.mean(axis=0)  # a difference in level is no disagreement about the order
    n_pairs = n * n if kind == "score" else n
    chosen = _shortlist(lambda: np.sum(gaps**2, axis=1), m, n_pairs)
    gaps = gaps[chosen]
    degrees = len(spans) - 1
    features = take(features, chosen)
    alike = sum(_likeness(span, features) for span in spans) / len(spans)
    covariance = (gaps @ gaps.T) * alike / degrees
    variance = float(np.mean(np.diag(covariance)))
    noise = max(SETTLED * variance, 1e-300)
    if kind == "score":
        return chosen[_rows(covariance, noise, n, np.diag)]
    # the covariance says how much of the variance of a difference between the views an answer about
    # other rows has settled
    contested = cdist(gaps, gaps, "sqeuclidean") / degrees
    ends = np.triu_indices(len(covariance), k=1)
    share = contested[ends] / np.maximum(difference_variances(covariance, *ends), 1e-300)
    return chosen[_pairs(covariance, noise, n, lambda variances: share * variances)]


def check_question(n: Any, m: int, kind: Any) -> None:
    """Refuse an unknown kind, and more questions than a pool of m rows allows."""
    if not isinstance(kind, str) or kind not in ("score", "comparison"):
        raise ValueError(f"kind {kind!r} is not known; use 'score' or 'comparison'.")
    most = m * (m - 1) // 2 if kind == "comparison" else m
    if most == 0:
        raise ValueError("X_pool has one row, and a comparison needs two.")
    is_whole = isinstance(n, Integral) and not isinstance(n, bool)
    if not is_whole or not 1 <= int(n) <= most:
        raise ValueError(
            f"n = {n!r} must lie between 1 and {most}: X_pool has {m} rows, so there are {most}"
            f" {kind}s."
        )


def _shortlist(uncertainty: Callable[[], FloatArray], m: int, n: int) -> Index:
    """The rows of a pool whose n pairs are looked at, in order: all, or the most uncertain ones of
    a large pool.
    """
    fewest = (1 + np.sqrt(1 + 8 * n)) / 2  # rows that make n pairs
    most = max(MOST_PAIRED, int(np.ceil(fewest)))
    if m <= most:
        return np.arange(m)
    order = np.argsort(-uncertainty(), kind="stable")
    return np.sort(order[:most])


def _sample(m: int, n: int) -> Index:
    """The rows of a pool that stand for all where n of them are to be chosen: all, or the same ones
    every time.
    """
    most = max(MOST, n)
    if m <= most:
        return np.arange(m)
    rng = np.random.default_rng(0)
    return np.sort(rng.choice(m, size=most, replace=False))


def _likeness(span: Span, features: Array) -> FloatArray:
    """The kernel of a view between rows, 1 for a row with itself: (m, m)."""
    seen = span.seen(features)
    values = to_numpy(span.kernel.block(seen, seen))
    scale = np.sqrt(np.maximum(np.diag(values), 0.0))
    scale = np.where(scale > 0, scale, 1.0)
    return values / scale[:, None] / scale[None, :]


# ---------------------------------------------------------------- by a covariance


def rows_to_score(covariance: FloatArray, noise: float, count: int) -> Index:
    """Rows (count,) whose scores, with noise of that variance, leave least uncertainty about all
    rows of the pool.

    Uncertainty is the sum of all variances: a row that lies apart from the others may have the
    largest variance, but its score says little about them.
    """
    return _rows(covariance, noise, count, lambda c: score_gains(c, noise))


def score_gains(
    covariance: FloatArray, noise: float, weights: FloatArray | None = None
) -> FloatArray:
    """By how much the score of each row would lower the variances of all, weighted: (m,)."""
    squares = covariance * covariance
    total = np.sum(squares, axis=0) if weights is None else weights @ squares
    return np.asarray(total / (np.diag(covariance) + noise))


def _rows(
    covariance: FloatArray, noise: float, count: int, gain: Callable[[FloatArray], FloatArray]
) -> Index:
    """Rows of largest gain, a function of the covariance (m, m) given the answers before. O(count
    m²) for m rows.
    """
    chosen: list[int] = []
    free = np.ones(len(covariance), dtype=bool)
    for _ in range(count):
        row = _first_best(np.where(free, gain(covariance), -np.inf))
        chosen.append(row)
        free[row] = False
        column = covariance[:, row]
        covariance = covariance - np.outer(column, column) / (column[row] + noise)
    return np.asarray(chosen, dtype=np.int64)


def pairs_to_compare(mean: FloatArray, covariance: FloatArray, count: int) -> Index:
    """Pairs (count, 2) of rows of which to ask who wins: those whose answers tell most about the
    function.

    What an answer tells is its entropy less what is left of it once the function is known
    ([Houlsby2011]): much where the answer is open because the function is, little where the two are
    equally good. Scores are in units of the noise of an answer. For the pairs after it an answer
    counts as if it were the difference, with that noise, so that a batch does not dwell on one
    item.
    """
    first, second = np.triu_indices(len(mean), k=1)
    gaps = mean[first] - mean[second]
    return _pairs(covariance, 1.0, count, lambda variances: information(gaps, variances))


def pairs_to_measure(covariance: FloatArray, noise: float, count: int) -> Index:
    """Pairs (count, 2) of rows of which to ask by how much the better wins: those of the largest
    variance.
    """
    return _pairs(covariance, noise, count, lambda variances: variances)


def _pairs(
    covariance: FloatArray, noise: float, count: int, gain: Callable[[FloatArray], FloatArray]
) -> Index:
    """Pairs of largest gain, a function of the variances of all differences in the order of
    triu_indices.

    Each is chosen given the answers before. O(count m²) for m rows.
    """
    chosen: list[tuple[int, int]] = []
    first, second = np.triu_indices(len(covariance), k=1)
    free = np.ones(len(first), dtype=bool)
    for _ in range(count):
        variances = difference_variances(covariance, first, second)
        pair = _first_best(np.where(free, gain(variances), -np.inf))
        a, b = int(first[pair]), int(second[pair])
        chosen.append((a, b))
        free[pair] = False
        column = covariance[:, a] - covariance[:, b]
        covariance = covariance - np.outer(column, column) / (variances[pair] + noise)
    return np.asarray(chosen, dtype=np.int64).reshape(-1, 2)


def difference_variances(covariance: FloatArray, first: Index, second: Index) -> FloatArray:
    """Variances of the differences between rows `first` and rows `second`."""
    variances = np.diag(covariance)
    both = variances[first] + variances[second]
    return np.maximum(both - 2 * covariance[first, second], 0.0)


def information(gaps: FloatArray, variances: FloatArray) -> FloatArray:
    """Bits that a noisy answer to "is a better than b?" says about f(a) − f(b) ~ N(gap, variance)."""
    probability = ndtr(gaps / np.sqrt(1 + variances))
    opposite = 1 - probability
    nats = -(xlogy(probability, probability) + xlogy(opposite, opposite))
    entropy = nats / np.log(2)
    spread = variances + ENTROPY_WIDTH**2
    share = ENTROPY_WIDTH / np.sqrt(spread)
    noise_entropy = share * np.exp(-(gaps**2) / (2 * spread))
    return np.asarray(np.maximum(entropy - noise_entropy, 0.0))


def _first_best(gain: FloatArray) -> int:
    """The first of the largest gains, equal ones told by GAIN_ROUNDING."""
    largest = float(np.max(gain))
    rounding = GAIN_ROUNDING * max(abs(largest), 1e-300)
    return int(np.argmax(gain >= largest - rounding))
