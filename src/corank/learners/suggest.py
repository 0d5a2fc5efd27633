"""What to ask next: checks of the question, and the answer of learners with several views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from corank.core.arrays import Array, FloatArray, Index, take, to_numpy
from corank.learners.base import check_choice, is_whole
from corank.solve.function import Function, Span
from corank.solve.questions import contested_pairs, contested_rows

MOST, MOST_PAIRED = 2_000, 1_000  # rows of a pool that are looked at one by one, and in pairs
SETTLED = 0.1  # of a usual disagreement is what may be left of one once it was asked about


def check_question(n: Any, m: int, kind: Any) -> None:
    """Refuse an unknown kind, and more questions than a pool of m rows allows."""
    check_choice(kind, "kind", ("score", "comparison"))
    most = m * (m - 1) // 2 if kind == "comparison" else m
    if most == 0:
        raise ValueError("X_pool has one row, and a comparison needs two.")
    if not is_whole(n) or n > most:
        raise ValueError(
            f"n = {n!r} must lie between 1 and {most}: X_pool has {m} rows, so there are {most}"
            f" {kind}s."
        )


def shortlist(uncertainty: Callable[[], FloatArray], m: int, n: int) -> Index:
    """The rows of a pool whose n pairs are looked at, in order: all, or the most uncertain ones of
    a large pool.
    """
    most = max(MOST_PAIRED, int(np.ceil((1 + np.sqrt(1 + 8 * n)) / 2)))
    if m <= most:
        return np.arange(m)
    return np.sort(np.argsort(-uncertainty(), kind="stable")[:most])


def sample(m: int, n: int) -> Index:
    """The rows of a pool that stand for all where n of them are to be chosen: all, or the same ones
    every time.
    """
    most = max(MOST, n)
    return (
        np.arange(m)
        if m <= most
        else np.sort(np.random.default_rng(0).choice(m, size=most, replace=False))
    )


def suggest_contested(function: Function, features: Array, n: int, kind: str) -> Index:
    """The rows of a pool, or pairs of them, on which the views of a function disagree most.

    Parameters
    ----------
    function : with one part per view
    features : (m, d) the pool
    n, kind : as in `CoRankRLS.suggest`
    """
    spans = [part.span for part in function.parts]
    if len(spans) < 2:
        raise ValueError("suggest needs at least two views that can disagree; this model has one.")
    if any(span.kernel.precomputed for span in spans):
        raise ValueError(
            "suggest needs the rows themselves; a precomputed kernel does not give the similarity"
            " of new rows."
        )
    check_question(n, features.shape[0], kind)
    values = np.stack([to_numpy(own) for own in function.part_values(features)], axis=1)
    gaps = values - values.mean(axis=1, keepdims=True)
    gaps = gaps - gaps.mean(axis=0)  # a difference in level is no disagreement about the order
    rows = shortlist(lambda: np.sum(gaps**2, axis=1), len(gaps), n * n if kind == "score" else n)
    gaps, degrees = gaps[rows], len(spans) - 1
    alike = sum(_likeness(span, take(features, rows)) for span in spans) / len(spans)
    covariance = (gaps @ gaps.T) * alike / degrees
    noise = max(SETTLED * float(np.mean(np.diag(covariance))), 1e-300)
    if kind == "score":
        return rows[contested_rows(covariance, noise, n)]
    contested = cdist(gaps, gaps, "sqeuclidean") / degrees
    return rows[contested_pairs(contested, covariance, noise, n)]


def _likeness(span: Span, features: Array) -> FloatArray:
    """The kernel of a view between rows, 1 for a row with itself: (m, m)."""
    values = span.kernel.block(span.seen(features), span.seen(features))
    values = to_numpy(values)
    scale = np.sqrt(np.maximum(np.diag(values), 0.0))
    scale = np.where(scale > 0, scale, 1.0)
    return values / scale[:, None] / scale[None, :]
