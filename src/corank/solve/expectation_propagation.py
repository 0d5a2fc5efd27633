"""Expectation propagation for comparisons: a Gaussian that stands for the posterior under the
probit likelihood.

Comparison k comes out as it did with probability Φ(g_k), Φ the normal distribution function, for g
= A W c with c ~ N(0, I) the weights of whitened features W (n, r) of the items, and A the
differences of winner and loser. It is replaced by a site, a Gaussian factor in g_k with precision τ
and shift ν; then c ~ N(m, M⁻¹) with M = I + Wᵀ Aᵀ diag(τ) A W, whose eigenvalues are at least 1.
Kernel matrices are never inverted, and A W, a row per comparison, is never held
(docs/mathematics.md, section 3.11).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from corank.core.arrays import (
    Array,
    FloatArray,
    add_diagonal,
    cholesky,
    like,
    namespace,
    solve_lower,
    solve_lower_of_many,
    solve_upper,
    symmetric_product,
    to_numpy,
)
from corank.solve.pair_data import PairData

LOG_ROOT_TAU = 0.5 * np.log(2 * np.pi)
ROOT_2_OVER_PI = float(np.sqrt(2 / np.pi))
TOLERANCE = 1e-9  # of the largest move of a site, in standard deviations of its difference
MAX_SWEEPS = 1_000  # after which the posterior is returned as it is
ROUNDED_RESIDUAL = 1e-6  # below which rounding may keep the residual from falling
# without a residual lower by a tenth, after which it counts as kept by rounding
STALLED_SWEEPS = 100
MIN_FACTOR, MAX_FACTOR = 0.5, 1.3  # of the damping of a site from one sweep to the next
# in which the damping follows what is left of the last move; after them it only shrinks or grows
BOLD_SWEEPS = 20
MIN_DAMPING = 0.01  # a site always moves by some of the way
# of the precision that is left once a site is taken out, for sites that say nearly everything
MIN_CAVITY_SHARE = 1e-12


@dataclass(frozen=True)
class Sites:
    """The sites that stand for the comparisons: precisions and shifts, (N,) each."""

    precision: FloatArray
    shift: FloatArray


@dataclass(frozen=True)
class SitePosterior:
    """The Gaussian over the weights c: mean (r,), lower Cholesky factor L (r, r) of M, and how it
    came about.

    spread : (n, r) = W L⁻ᵀ, whose rows' squares add up to the variances of the items
    differences, variances : (N,) mean and variance of g
    counts : (N,) how often each comparison was made
    """

    mean: Array
    factor: Array
    spread: Array
    differences: FloatArray
    variances: FloatArray
    sites: Sites
    counts: FloatArray
    log_evidence: float
    sweeps: int
    residual: float

    @property
    def slopes(self) -> FloatArray:
        """β, the inverse of the covariance of g before any comparison times the mean of g, without
        that inverse: (N,).
        """
        sites = self.sites
        return self.counts * (sites.shift - sites.precision * self.differences)


def propagate(
    features: Array,
    pairs: PairData,
    start: Sites | None = None,
    *,
    tolerance: float = TOLERANCE,
    sweeps: int = MAX_SWEEPS,
) -> SitePosterior:
    """The posterior at the fixed point of all sites, updated side by side, each damped where it
    swings.

    O(n r² + N r) per sweep.

    Parameters
    ----------
    features : (n, r) whitened features of the items, centred: see `PairData.centred`
    pairs : N comparisons between the items, each with as many sites, which are alike, as it was
        made
    start : sites to begin with, those of other kernel parameters; None for sites that say nothing
    """
    n = len(pairs)
    sites = Sites(np.zeros(n), np.zeros(n)) if start is None else start
    damping = np.ones(n)
    last_moves = None
    least_residual = np.inf
    least_at = 0
    for sweep in range(1, sweeps + 1):
        posterior, new, moves = _sweep(features, pairs, sites, sweep)
        if posterior.residual < 0.9 * least_residual:
            least_residual = posterior.residual
            least_at = sweep
        stalled = least_residual < ROUNDED_RESIDUAL and sweep - least_at >= STALLED_SWEEPS
        if posterior.residual <= tolerance or stalled or sweep == sweeps:
            return posterior
        if last_moves is not None:
            damping = _damped(damping, moves, last_moves, cautious=sweep > BOLD_SWEEPS)
        last_moves = moves
        sites = Sites(
            sites.precision + damping * (new.precision - sites.precision),
            sites.shift + damping * (new.shift - sites.shift),
        )
    raise AssertionError("at least one sweep is made")


def _damped(
    damping: FloatArray, moves: FloatArray, last_moves: FloatArray, *, cautious: bool
) -> FloatArray:
    """The next damping of each site (N,), by the share of its last move that is still to be made;
    moves are (2, N).

    Were the update linear along a move, damping / (1 − share) would leave nothing to be made.
    """
    share = np.sum(moves * last_moves, axis=0) / np.maximum(
        np.sum(last_moves * last_moves, axis=0), 1e-300
    )
    if cautious:
        factor = np.where(share < 0, MIN_FACTOR, MAX_FACTOR)
    else:
        factor = 1 / np.clip(1 - share, 1 / MAX_FACTOR, 1 / MIN_FACTOR)
    return np.clip(damping * factor, MIN_DAMPING, 1.0)


def _sweep(
    features: Array, pairs: PairData, sites: Sites, number: int
) -> tuple[SitePosterior, Sites, FloatArray]:
    """The posterior under the sites, the sites that match it, and the moves to them (2, N), in
    standard deviations.
    """
    xp = namespace(features)
    counts = pairs.counts
    turned = xp.matrix_transpose(features)
    inner = symmetric_product(features, pairs.laplacian_product(counts * sites.precision, features))
    factor = cholesky(add_diagonal(inner, 1.0))
    half = solve_lower(
        factor, turned @ pairs.transposed(like(counts * sites.shift, features)[:, None])
    )
    # no eigenvalue of M is below 1
    spread = xp.matrix_transpose(solve_lower_of_many(factor, turned))
    differences = to_numpy(pairs.apply(spread @ half))[:, 0]
    variances = pairs.squared_distances(spread)
    new, evidence = _matched(differences, variances, sites)
    weights = solve_upper(xp.matrix_transpose(factor), half)[:, 0]
    log_evidence = (
        0.5 * float(xp.sum(half * half))
        - float(xp.sum(xp.log(xp.linalg.diagonal(factor))))
        + float(np.sum(counts * evidence))
    )
    moves = np.stack(
        [
            (new.precision - sites.precision) * variances,
            (new.shift - sites.shift) * np.sqrt(variances),
        ]
    )
    residual = float(np.max(np.abs(moves), initial=0.0))
    posterior = SitePosterior(
        weights,
        factor,
        spread,
        differences,
        variances,
        sites,
        counts,
        log_evidence,
        number,
        residual,
    )
    return posterior, new, moves


def _density_over_probability(z: FloatArray) -> FloatArray:
    """Normal density over normal distribution function at z, to the last digits also far below 0."""
    below = np.minimum(z, 0.0)
    above = np.maximum(z, 0.0)
    return np.asarray(
        np.where(
            z < 0,
            ROOT_2_OVER_PI / erfcx(-below / 2**0.5),
            np.exp(-0.5 * above**2 - LOG_ROOT_TAU) / ndtr(above),
        )
    )


def _matched(mean: FloatArray, variance: FloatArray, sites: Sites) -> tuple[Sites, FloatArray]:
    """Sites whose Gaussian has the moments of the cavity times Φ, and the share of each in the log
    evidence.

    Written without 1/variance, which is infinite for two items that are equal.
    """
    # of the precision, once the site is taken out
    kept = np.maximum(1 - variance * sites.precision, MIN_CAVITY_SHARE)
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
