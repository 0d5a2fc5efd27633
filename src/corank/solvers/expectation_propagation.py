"""Expectation propagation for comparisons: a Gaussian that stands for the posterior under the probit likelihood.

Every comparison k says g_k > 0 for g = G c, with c ~ N(0, I) the weights of whitened features and P = Φ(g_k). It is
replaced by a site, a Gaussian factor in g_k with precision τ and shift ν; then c ~ N(m, M⁻¹) with
M = I + Gᵀ diag(τ) G, whose eigenvalues are at least 1. Kernel matrices are never inverted (math.md section 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from corank._arrays import (
    Array,
    FloatArray,
    add_diagonal,
    cholesky,
    like,
    namespace,
    solve_lower,
    solve_lower_of_many,
    solve_upper,
    symmetrised,
    to_numpy,
)
from corank.kernels import squared_norms

LOG_ROOT_TAU = 0.5 * np.log(2 * np.pi)
ROOT_2_OVER_PI = float(np.sqrt(2 / np.pi))
TOLERANCE, SWEEPS = 1e-9, 1000
ROUNDED, STALLED = 1e-6, 100  # a residual below which rounding may keep it from falling, for so many sweeps
SHRINK, GROW, PATIENCE = 0.5, 1.3, 20  # of the damping in one sweep; sweeps before it is shrunk at every turn
LEAST = 0.01


@dataclass(frozen=True)
class Sites:
    """What stands for the comparisons: precisions and shifts (N,) of one site each."""

    precision: FloatArray
    shift: FloatArray

    @classmethod
    def none(cls, n: int) -> Sites:
        """No comparison has said anything yet."""
        return cls(np.zeros(n), np.zeros(n))


@dataclass(frozen=True)
class Posterior:
    """The Gaussian over the weights c: mean (r,), lower factor (r, r) of M, and how it came about.

    spread : (r, N) = L⁻¹ Gᵀ, whose columns' squares add up to the variances of g
    differences : (N,) the mean of g
    counts : (N,) how often each comparison was made
    """

    mean: Array
    factor: Array
    spread: Array
    differences: FloatArray
    sites: Sites
    counts: FloatArray
    log_evidence: float
    sweeps: int
    residual: float

    @property
    def slopes(self) -> FloatArray:
        """β = K_g⁻¹ times the mean of g, without the inverse: (N,)."""
        sites = self.sites
        return self.counts * (sites.shift - sites.precision * self.differences)


def propagate(
    features: Array,
    counts: FloatArray,
    start: Sites | None = None,
    *,
    tolerance: float = TOLERANCE,
    sweeps: int = SWEEPS,
) -> Posterior:
    """All sites updated side by side, each damped where it swings. O(N r²) a sweep.

    Parameters
    ----------
    features : (N, r) whitened features of the winner less those of the loser
    counts : (N,) how often each comparison was made: as many sites, which are alike
    start : sites to begin with, as found for other kernel parameters
    """
    sites = Sites.none(len(counts)) if start is None else start
    damping, last = np.ones(len(counts)), None
    least, fallen = np.inf, 0
    for sweep in range(1, sweeps + 1):
        posterior, new, moves = _sweep(features, counts, sites, sweep)
        if posterior.residual < 0.9 * least:
            least, fallen = posterior.residual, sweep
        as_far_as_it_goes = least < ROUNDED and sweep - fallen >= STALLED  # what is left is rounding
        if posterior.residual <= tolerance or as_far_as_it_goes or sweep == sweeps:
            return posterior
        if last is not None:
            damping = _damped(damping, moves, last, cautious=sweep > PATIENCE)
        last = moves
        sites = Sites(
            sites.precision + damping * (new.precision - sites.precision),
            sites.shift + damping * (new.shift - sites.shift),
        )
    raise AssertionError("at least one sweep is made")


def _damped(damping: FloatArray, moves: FloatArray, last: FloatArray, *, cautious: bool) -> FloatArray:
    """The damping of each site (N,) by what is left of its last move: moves (2, N).

    Were the update linear along a move, with `kept` of it left, damping / (1 − kept) would leave nothing.
    """
    kept = np.sum(moves * last, axis=0) / np.maximum(np.sum(last * last, axis=0), 1e-300)
    factor = np.where(kept < 0, SHRINK, GROW) if cautious else 1 / np.clip(1 - kept, 1 / GROW, 1 / SHRINK)
    return np.clip(damping * factor, LEAST, 1.0)


def _sweep(features: Array, counts: FloatArray, sites: Sites, number: int) -> tuple[Posterior, Sites, FloatArray]:
    """The posterior under the sites, the sites that it asks for, and how far these are away (2, N), in deviations."""
    xp = namespace(features)
    total = counts * sites.precision
    roots = like(np.sqrt(total), features)[:, None] * features
    factor = cholesky(add_diagonal(symmetrised(roots.T @ roots), 1.0))
    half = solve_lower(factor, (features.T @ like(counts * sites.shift, features))[:, None])
    spread = solve_lower_of_many(factor, xp.matrix_transpose(features))  # (r, N); no eigenvalue of M is below 1
    differences = to_numpy(spread.T @ half)[:, 0]
    variances = to_numpy(squared_norms(spread.T))
    new, evidence = _matched(differences, variances, sites)
    weights = solve_upper(xp.matrix_transpose(factor), half)[:, 0]
    log_evidence = (
        0.5 * float(xp.sum(half * half))
        - float(xp.sum(xp.log(xp.linalg.diagonal(factor))))
        + float(np.sum(counts * evidence))
    )
    moves = np.stack([(new.precision - sites.precision) * variances, (new.shift - sites.shift) * np.sqrt(variances)])
    residual = float(np.max(np.abs(moves), initial=0.0))
    return Posterior(weights, factor, spread, differences, sites, counts, log_evidence, number, residual), new, moves


def _density_over_probability(z: FloatArray) -> FloatArray:
    """N(z) / Φ(z), to the last digits far below 0 too."""
    below = np.minimum(z, 0.0)
    above = np.maximum(z, 0.0)
    return np.asarray(
        np.where(z < 0, ROOT_2_OVER_PI / erfcx(-below / 2**0.5), np.exp(-0.5 * above**2 - LOG_ROOT_TAU) / ndtr(above))
    )


def _matched(mean: FloatArray, variance: FloatArray, sites: Sites) -> tuple[Sites, FloatArray]:
    """Sites whose Gaussian has the moments of the cavity times Φ, and each one's share of the log evidence.

    Written without 1/variance, which is infinite for two items that are the same.
    """
    kept = np.maximum(1 - variance * sites.precision, 1e-12)  # of the precision, once the site is taken out
    cavity_variance = variance / kept
    cavity_mean = (mean - variance * sites.shift) / kept
    scale = np.sqrt(1 + cavity_variance)
    z = cavity_mean / scale
    log_probability = log_ndtr(z)
    ratio = _density_over_probability(z)
    slope = ratio / scale
    bend = np.clip(ratio * (z + ratio), 0.0, 1.0) / scale**2
    left = 1 - cavity_variance * bend
    new = Sites(bend / left, (slope + cavity_mean * bend) / left)
    gap = sites.precision * mean**2 - 2 * mean * sites.shift + variance * sites.shift**2
    return new, log_probability - 0.5 * np.log(kept) + 0.5 * gap / kept
