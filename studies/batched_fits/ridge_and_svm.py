"""RLS, RankRLS, Sparse RankRLS and RankSVM of many people at once.

Least squares: every alpha from one factorisation per person and width. RankSVM, the peer of the
tables of [Tsivtsivadze2013], has the squared hinge loss on pairs, minimised by Newton's method:

    min ½ ‖f‖² + C Σ_{s_i > s_j} max(0, 1 − (f_i − f_j))²

Pairs within the margin make a graph with Laplacian L; while it stays, a = 2C (I + 2C L K)⁻¹ b is
the minimum, b the number of items that should lie below less those that should lie above, over the
graph. O(n³) per iteration.
"""

from __future__ import annotations

import numpy as np

from corank.core.basis import EIGENVALUE_CUT
from studies.batched_fits.batches import Kernels, LossRoot, Mask
from studies.data import Floats, Integers

MOST_ITERATIONS = 50
ENOUGH = 1e-10  # relative fall of the objective below which it is the minimum
HALVINGS = 30


def ridge_paths(kernels: Kernels, loss: LossRoot, targets: Floats, alphas: Floats) -> Floats:
    """Predictions of a = Jᵀ(J K Jᵀ + αI)⁻¹ J s for every alpha: (u, alphas, test items). O(u n³).

    (docs/mathematics.md, section 3.)

    targets : (u, n), s
    """
    mask = kernels.batch.scored_mask
    conjugate = loss.apply(np.swapaxes(loss.apply(kernels.scored, mask), 1, 2), mask)
    values, vectors = np.linalg.eigh((conjugate + np.swapaxes(conjugate, 1, 2)) / 2)
    rooted = loss.apply(np.swapaxes(kernels.test, 1, 2), mask)
    return _along(
        np.swapaxes(rooted, 1, 2) @ vectors, loss.apply(targets, mask), values, vectors, alphas
    )


def subset_paths(
    kernels: Kernels, loss: LossRoot, targets: Floats, alphas: Floats, sizes: Integers
) -> Floats:
    """Predictions with everyone's first `sizes` (u,) scored items as basis, for every alpha: (u,
    alphas, test items).

    The order of the items is random ([Tsivtsivadze2013] sect. 5). O(u n size²).
    """
    mask = kernels.batch.scored_mask
    width = min(int(sizes.max()), mask.shape[1])
    chosen = np.arange(width) < sizes[:, None]
    gram = kernels.scored[:, :, :width] * chosen[:, None, :]
    values, vectors = np.linalg.eigh(gram[:, :width] * chosen[:, :, None])
    kept = values > EIGENVALUE_CUT * values[:, -1:]
    whitening = vectors * np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)[:, None, :]
    features = loss.apply(gram @ whitening, mask)
    values, vectors = np.linalg.eigh(np.swapaxes(features, 1, 2) @ features)
    right = np.swapaxes(features, 1, 2) @ loss.apply(targets, mask)[:, :, None]
    outside = (kernels.test[:, :, :width] * chosen[:, None, :]) @ whitening @ vectors
    return _along(outside, right[:, :, 0], values, vectors, alphas)


def _along(
    outside: Floats, right: Floats, values: Floats, vectors: Floats, alphas: Floats
) -> Floats:
    """Outside · (Λ + αI)⁻¹ Vᵀ right for every alpha: (u, alphas, m)."""
    turned = np.swapaxes(vectors, 1, 2) @ right[:, :, None]
    shrunk = turned / (np.maximum(values, 0.0)[:, :, None] + alphas)
    return np.swapaxes(outside @ shrunk, 1, 2)


# ---- RankSVM


def ranksvm_paths(kernels: Kernels, scores: Floats, costs: Floats) -> tuple[Floats, Integers]:
    """Predictions for every cost C, in increasing order (u, costs, test items), and numbers of
    items with a weight.
    """
    mask, gram = kernels.batch.scored_mask, kernels.scored
    ordered = (scores[:, :, None] > scores[:, None, :]) & mask[:, :, None] & mask[:, None, :]
    weights, per_cost = np.zeros(scores.shape), []
    for cost in costs:
        weights = _minimum(gram, ordered, float(cost), weights)
        per_cost.append(weights)
    solutions = np.stack(per_cost, axis=2)
    largest = np.abs(solutions).max(axis=1, keepdims=True)
    return np.swapaxes(kernels.test @ solutions, 1, 2), np.sum(
        np.abs(solutions) > 1e-9 * largest, axis=1
    )


def _minimum(gram: Floats, ordered: Mask, cost: float, start: Floats) -> Floats:
    """The dual weights of everyone, (u, n), from those of a smaller cost."""
    weights, identity = start.copy(), np.eye(gram.shape[1])
    value, within = _objective(gram, ordered, cost, weights)
    open_ = np.arange(len(weights))
    for _ in range(MOST_ITERATIONS):
        graph = within[open_].astype(np.float64)
        above, below = graph.sum(axis=2), graph.sum(axis=1)
        both = graph + np.swapaxes(graph, 1, 2)
        laplacian = -both
        laplacian[:, np.arange(both.shape[1]), np.arange(both.shape[1])] += above + below
        newton = np.linalg.solve(
            identity + 2 * cost * laplacian @ gram[open_], 2 * cost * (above - below)[:, :, None]
        )
        step = newton[:, :, 0] - weights[open_]
        fallen = _line_search(gram[open_], ordered[open_], cost, weights[open_], step, value[open_])
        weights[open_], gain = fallen[0], value[open_] - fallen[1]
        value[open_], within[open_] = fallen[1], fallen[2]
        open_ = open_[gain > ENOUGH * np.maximum(value[open_], 1e-300)]
        if len(open_) == 0:
            break
    return weights


def _line_search(
    gram: Floats, ordered: Mask, cost: float, weights: Floats, step: Floats, value: Floats
) -> tuple[Floats, Floats, Mask]:
    """The longest halved step that does not raise the objective of a person."""
    length = np.ones(len(weights))
    for _ in range(HALVINGS):
        tried, within = _objective(gram, ordered, cost, weights + length[:, None] * step)
        worse = tried > value
        if not worse.any():
            break
        length[worse] /= 2
    else:
        length[worse] = 0.0
        tried, within = _objective(gram, ordered, cost, weights + length[:, None] * step)
    return weights + length[:, None] * step, tried, within


def _objective(gram: Floats, ordered: Mask, cost: float, weights: Floats) -> tuple[Floats, Mask]:
    """The objective of everyone, (u,), and the pairs that lie within the margin, (u, n, n)."""
    values = (gram @ weights[:, :, None])[:, :, 0]
    slack = 1 - (values[:, :, None] - values[:, None, :])
    within = ordered & (slack > 0)
    slack *= within
    return (
        np.asarray(
            np.sum(weights * values, axis=1) / 2 + cost * np.sum(slack * slack, axis=(1, 2))
        ),
        within,
    )
