"""RLS, RankRLS and Sparse RankRLS of many people at once: every alpha from one factorisation a person and width."""

from __future__ import annotations

import numpy as np

from corank._arrays import FloatArray, Index
from corank.basis import EIGENVALUE_CUT
from studies.batched_fits.batches import Kernels, Root


def ridge_paths(kernels: Kernels, loss: Root, targets: FloatArray, alphas: FloatArray) -> FloatArray:
    """Predictions of a = Jᵀ(J K Jᵀ + αI)⁻¹ J s (math.md 3) for every alpha: (u, alphas, test items). O(u n³).

    targets : (u, n), s
    """
    known = kernels.batch.scored_known
    conjugate = loss.apply(np.swapaxes(loss.apply(kernels.scored, known), 1, 2), known)
    values, vectors = np.linalg.eigh((conjugate + np.swapaxes(conjugate, 1, 2)) / 2)
    rooted = loss.apply(np.swapaxes(kernels.test, 1, 2), known)
    return _along(np.swapaxes(rooted, 1, 2) @ vectors, loss.apply(targets, known), values, vectors, alphas)


def subset_paths(kernels: Kernels, loss: Root, targets: FloatArray, alphas: FloatArray, sizes: Index) -> FloatArray:
    """The same with everyone's first `sizes` (u,) scored items as basis (003 sect. 5); their order is random.

    O(u n size²).
    """
    known = kernels.batch.scored_known
    width = min(int(sizes.max()), known.shape[1])
    chosen = np.arange(width) < sizes[:, None]
    gram = kernels.scored[:, :, :width] * chosen[:, None, :]
    values, vectors = np.linalg.eigh(gram[:, :width] * chosen[:, :, None])
    kept = values > EIGENVALUE_CUT * values[:, -1:]
    whitening = vectors * np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)[:, None, :]
    features = loss.apply(gram @ whitening, known)
    values, vectors = np.linalg.eigh(np.swapaxes(features, 1, 2) @ features)
    right = np.swapaxes(features, 1, 2) @ loss.apply(targets, known)[:, :, None]
    outside = (kernels.test[:, :, :width] * chosen[:, None, :]) @ whitening @ vectors
    return _along(outside, right[:, :, 0], values, vectors, alphas)


def _along(
    outside: FloatArray, right: FloatArray, values: FloatArray, vectors: FloatArray, alphas: FloatArray
) -> FloatArray:
    """Outside · (Λ + αI)⁻¹ Vᵀ right for every alpha: (u, alphas, m)."""
    turned = np.swapaxes(vectors, 1, 2) @ right[:, :, None]
    shrunk = turned / (np.maximum(values, 0.0)[:, :, None] + alphas)
    return np.swapaxes(outside @ shrunk, 1, 2)
