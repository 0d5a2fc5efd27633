"""RankSVM of many people at once, the peer of 003's tables: squared hinge loss on pairs, by Newton's method.

    min ½ ‖f‖² + C Σ_{s_i > s_j} max(0, 1 − (f_i − f_j))²

Pairs within the margin make a graph with Laplacian L; while it stays, a = 2C (I + 2C L K)⁻¹ b is the minimum, b the
number of items that should lie below less those that should lie above, over the graph. O(n³) an iteration.
"""

from __future__ import annotations

import numpy as np

from corank._arrays import FloatArray, Index
from studies.batched_fits.batches import Kernels, Mask

MOST_ITERATIONS = 50
ENOUGH = 1e-10  # relative fall of the objective below which it is the minimum
HALVINGS = 30


def ranksvm_paths(kernels: Kernels, scores: FloatArray, costs: FloatArray) -> tuple[FloatArray, Index]:
    """Predictions for every cost C, in increasing order (u, costs, test items), and numbers of items with a weight."""
    known, gram = kernels.batch.scored_known, kernels.scored
    ordered = (scores[:, :, None] > scores[:, None, :]) & known[:, :, None] & known[:, None, :]
    weights, found = np.zeros(scores.shape), []
    for cost in costs:
        weights = _minimum(gram, ordered, float(cost), weights)
        found.append(weights)
    stacked = np.stack(found, axis=2)
    largest = np.abs(stacked).max(axis=1, keepdims=True)
    return np.swapaxes(kernels.test @ stacked, 1, 2), np.sum(np.abs(stacked) > 1e-9 * largest, axis=1)


def _minimum(gram: FloatArray, ordered: Mask, cost: float, start: FloatArray) -> FloatArray:
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
        newton = np.linalg.solve(identity + 2 * cost * laplacian @ gram[open_], 2 * cost * (above - below)[:, :, None])
        step = newton[:, :, 0] - weights[open_]
        fallen = _line_search(gram[open_], ordered[open_], cost, weights[open_], step, value[open_])
        weights[open_], gain = fallen[0], value[open_] - fallen[1]
        value[open_], within[open_] = fallen[1], fallen[2]
        open_ = open_[gain > ENOUGH * np.maximum(value[open_], 1e-300)]
        if len(open_) == 0:
            break
    return weights


def _line_search(
    gram: FloatArray, ordered: Mask, cost: float, weights: FloatArray, step: FloatArray, value: FloatArray
) -> tuple[FloatArray, FloatArray, Mask]:
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


def _objective(gram: FloatArray, ordered: Mask, cost: float, weights: FloatArray) -> tuple[FloatArray, Mask]:
    """Of everyone, (u,), and the pairs that lie within the margin, (u, n, n)."""
    values = (gram @ weights[:, :, None])[:, :, 0]
    slack = 1 - (values[:, :, None] - values[:, None, :])
    within = ordered & (slack > 0)
    slack *= within
    return np.asarray(np.sum(weights * values, axis=1) / 2 + cost * np.sum(slack * slack, axis=(1, 2))), within
