"""The evidence of comparisons for a kernel, its gradient, and the search for kernel width and amplitude.

A function f ~ N(0, amplitude · k), seen through whitened features of a basis; comparisons enter by expectation
propagation (`ep`). The gradient is that of the evidence at its fixed point: ½ tr((ββᵀ − R) dK) (math.md section 3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from corank._arrays import (
    Array,
    FloatArray,
    float64,
    in_one_thread,
    is_sparse,
    like,
    namespace,
    solve_lower,
    take,
    to_numpy,
)
from corank.basis import KernelBasis, pivoted_rows
from corank.kernels import Kernel, finite_values, product, squared_norms
from corank.solvers.expectation_propagation import Posterior, Sites, propagate
from corank.solvers.pair_data import PairData

WIDTHS = 4.0 ** np.arange(-3, 3)  # around the start, looked at before the search
REACH = 4.0**6  # how far from the start the search may go, both ways
AMPLITUDES = (1e-4, 1e6)
USUAL, SPREAD = np.log(4.0), 2.0  # of the logarithm of the function's variance, before any answer
ROUGHLY, ON_THE_WAY = 1e-3, 1e-6  # tolerances of the first look and of the search
SWEEPS_ON_THE_WAY = 100  # a place that takes more is no good one
STEPS = 60
FEW = 200  # basis points on which the search begins
SMALL = 400  # basis points up to which one thread is fastest
STEP, SIDEWAYS, FALL = 0.5, 8, 5.0  # of the logarithm of the width when averaging; steps each way; nats to go down


@dataclass(frozen=True)
class PreferenceTask:
    """Comparisons, and the basis that spans the function; `whole` where its points are the compared items."""

    data: PairData
    basis: KernelBasis
    whole: bool

    def with_kernel(self, kernel: Kernel) -> KernelBasis:
        """The basis with another kernel."""
        return replace(self.basis, kernel=kernel)

    def thinned(self, size: int) -> PreferenceTask:
        """The same on some of the points."""
        rows = pivoted_rows(self.basis.kernel, self.basis.points, size, np.random.default_rng(0))
        return PreferenceTask(
            self.data, replace(self.basis, points=take(self.basis.points, np.sort(rows))), whole=False
        )


@dataclass(frozen=True)
class FittedKernel:
    """A kernel with its posterior: `features` (N, r) are those that the posterior speaks of."""

    basis: KernelBasis
    amplitude: float
    posterior: Posterior
    features: Array

    @property
    def kernel(self) -> Kernel:
        """Without its amplitude."""
        return self.basis.kernel

    @property
    def coefficients(self) -> Array:
        """Of the basis functions, for the posterior mean: (r,)."""
        return self.amplitude**0.5 * (self.basis.whitening.matrix @ self.posterior.mean)

    @property
    def spread(self) -> Array:
        """Q (r, r): the posterior covariance is amplitude · k(x, x') − Φ(x) Q Φ(x')ᵀ. O(r³)."""
        white = self.basis.whitening.matrix
        inner = solve_lower(self.posterior.factor, white.T)
        return self.amplitude * (white @ white.T - inner.T @ inner)


def fit_kernel(
    task: PreferenceTask, kernel: Kernel, amplitude: float, start: Sites | None = None, **how: float
) -> FittedKernel:
    """The posterior for one kernel."""
    data, basis = task.data, task.with_kernel(kernel)
    reference = np.empty(0) if is_sparse(data.features) else data.features
    with in_one_thread(reference, wanted=basis.size <= SMALL):
        features = amplitude**0.5 * data.apply(finite_values(basis.features(data.features)) @ basis.whitening.matrix)
        return FittedKernel(basis, amplitude, propagate(features, data.counts, start, **how), features)  # type: ignore[arg-type]


# ---- the gradient


def amplitude_slope(found: FittedKernel) -> float:
    """d log evidence / d log amplitude. O(N r)."""
    posterior, xp = found.posterior, namespace(found.features)
    pulled = found.features.T @ like(posterior.slopes, found.features)
    variances = to_numpy(xp.sum(posterior.spread * posterior.spread, axis=0))
    return 0.5 * (
        float(xp.sum(pulled * pulled)) - float(np.sum(posterior.counts * posterior.sites.precision * variances))
    )


def width_slopes(task: PreferenceTask, found: FittedKernel, *, each: bool) -> FloatArray:
    """d log evidence / d log gamma of an rbf kernel: (1,), or one a column where `each`. O(n² (r + d)) on all items.

    With H = ββᵀ − R carried to the items the evidence moves by ½ Σ H ∘ dK, dK = −gamma · squared distance ∘ K.
    """
    slopes = (_slopes_on_all if task.whole else _slopes_on_some)(task.data, found, each)
    gamma = found.kernel.gamma
    assert gamma is not None
    return -0.5 * gamma * slopes


def _item_terms(data: PairData, found: FittedKernel) -> tuple[Array, Array, Array]:
    """β on the items (n, 1), AᵀTV (n, r) and the sites' total precisions (N,)."""
    posterior = found.posterior
    reference = found.features
    total = like(posterior.counts * posterior.sites.precision, reference)
    pull = data.transposed(like(posterior.slopes, reference)[:, None])
    return pull, data.transposed(total[:, None] * posterior.spread.T), total


def _slopes_on_all(data: PairData, found: FittedKernel, each: bool) -> FloatArray:
    """Σ H ∘ K ∘ squared distance, where all items are the basis."""
    pull, turned, total = _item_terms(data, found)
    X = _seen(found.kernel, data.features, each)
    kernel = found.amplitude * found.basis.features(data.features)
    outer = (pull @ pull.T + turned @ turned.T) * kernel
    n = int(kernel.shape[1])
    flat = namespace(kernel).reshape(kernel, (-1,))
    between = 2 * total * take(flat, data.winners * n + data.losers)
    gaps = data.apply(X)
    own = between @ (gaps * gaps) if each else namespace(between).sum(between * squared_norms(gaps))
    return np.atleast_1d(to_numpy(own)) + _distances(outer, X, X, each)


def _slopes_on_some(data: PairData, found: FittedKernel, each: bool) -> FloatArray:
    """The same for other points: K = Φ K_rr⁻¹ Φᵀ moves with Φ and with K_rr."""
    pull, turned, total = _item_terms(data, found)
    X, points = (_seen(found.kernel, rows, each) for rows in (data.features, found.basis.points))
    phi, gram, white = found.basis.features(data.features), found.basis.gram, found.basis.whitening.matrix
    back = (phi @ white) @ white.T  # Φ K_rr⁻¹
    moved = pull @ (pull.T @ back) + turned @ (turned.T @ back) - data.transposed(total[:, None] * data.apply(back))
    first = _distances(moved * phi, X, points, each)
    second = _distances((back.T @ moved) * gram, points, points, each)
    return found.amplitude * (2 * first - second)


def _seen(kernel: Kernel, rows: Array, each: bool) -> Array:
    """Rows as the kernel weighs them; dense where every column is looked at for itself."""
    X = kernel.seen(float64(rows))
    return X.toarray() if each and is_sparse(X) else X


def _distances(weights: Array, X: Array, Z: Array, each: bool) -> FloatArray:
    """Σ_ij weights_ij (x_i − z_j)², one a column (dense rows) or of all columns (1,)."""
    xp = namespace(weights)
    rows, columns = xp.sum(weights, axis=1), xp.sum(weights, axis=0)
    if each:
        return to_numpy(rows @ (X * X) + columns @ (Z * Z) - 2 * xp.sum(X * (weights @ Z), axis=0))
    total = rows @ squared_norms(X) + columns @ squared_norms(Z) - 2 * xp.sum(weights * product(X, Z))
    return np.asarray([float(total)])


# ---- the search


@dataclass(frozen=True)
class EvidenceSearch:
    """What is learned from the evidence.

    amplitude : a variance, None to learn it
    widths : "given" (that of the kernel), "one" to learn it, "each" to learn one a column
    """

    amplitude: float | None = None
    widths: str = "given"

    @property
    def learns(self) -> bool:
        """Whether anything is learned."""
        return self.amplitude is None or self.widths != "given"


@dataclass(frozen=True)
class PreferenceSolution:
    """The fitted kernel, which parameters lie at the end of their range, and the sweeps it took in all."""

    fitted: FittedKernel
    at_bounds: tuple[str, ...]
    sweeps: int


def learn(task: PreferenceTask, search: EvidenceSearch) -> PreferenceSolution:
    """The kernel parameters of largest evidence: a first look at several widths, then L-BFGS with the gradient.

    Answers that do not contradict each other leave the amplitude open: a wide prior on it keeps a few of them from
    making the model sure of everything. Where the basis is large the search is made on a few of its points first: what
    is left is a step or two. Sites are carried from one evaluation to the next.
    """
    ascent = Ascent(task, search)
    place, unit = np.zeros(ascent.size), np.ones(ascent.size)
    if search.learns:
        rough = ascent
        if task.basis.size > 2 * FEW and not task.basis.kernel.precomputed:
            rough = Ascent(task.thinned(FEW), search)
        place, unit = rough.highest(rough.first_look())
        if rough is not ascent:
            ascent.sites, ascent.sweeps = rough.sites, rough.sweeps
            place, _ = ascent.climb(place, unit)
    found = ascent.fitted(place)
    return PreferenceSolution(found, ascent.at_bounds(place), ascent.sweeps)


class Ascent:
    """log evidence, with a wide prior on the function's variance, by its logarithm and those of the widths.

    The variance is amplitude times that of the kernel, which is 1 for rbf and has the units of X for others.
    """

    def __init__(self, task: PreferenceTask, search: EvidenceSearch) -> None:
        self.task, self.search, self.kernel = task, search, task.basis.kernel
        self.n_columns = int(task.data.features.shape[1])
        self.n_widths = {"given": 0, "one": 1, "each": self.n_columns}[search.widths]
        self.size = int(search.amplitude is None) + self.n_widths
        self.variance = 1.0 if self.kernel.name == "rbf" else _usual_variance(task)
        self.sites: Sites | None = None
        self.sweeps = 0
        ends = float(np.log(AMPLITUDES[0])), float(np.log(AMPLITUDES[1]))
        reach = float(np.log(REACH))
        self.bounds: list[tuple[float, float]] = [
            *[ends] * (self.size - self.n_widths),
            *[(-reach, reach)] * self.n_widths,
        ]

    def split(self, parameters: FloatArray) -> tuple[float, Kernel]:
        """The amplitude, and the kernel with its widths."""
        own, kernel = self.search.amplitude, self.kernel
        widths = parameters if own is not None else parameters[1:]
        if self.search.widths == "one":
            assert kernel.gamma is not None
            kernel = replace(kernel, gamma=kernel.gamma * float(np.exp(widths[0])))
        elif self.search.widths == "each":
            kernel = kernel.stretched(widths)
        return float(np.exp(parameters[0])) / self.variance if own is None else own, kernel

    def fitted(self, parameters: FloatArray, **how: float) -> FittedKernel:
        """The posterior there."""
        amplitude, kernel = self.split(parameters)
        found = fit_kernel(self.task, kernel, amplitude, self.sites, **how)
        self.sites = found.posterior.sites
        self.sweeps += found.posterior.sweeps
        return found

    def highest(self, starts: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """The best of what `climb` finds from several starts."""
        found = [self.climb(start, np.ones(self.size)) for start in starts]
        return min(found, key=lambda one: self.descent(one[0])[0]) if len(found) > 1 else found[0]

    def climb(self, start: FloatArray, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
        """From a start to the largest evidence: where it is, and how wide the peak is in each parameter.

        unit : how wide it is thought to be: the first step is measured by it, and no longer than 1
        """
        here = self.descent(start)
        unit = np.minimum(unit, 1 / np.sqrt(np.maximum(np.abs(here[1]), 1.0)))
        low, high = np.asarray(self.bounds).T

        def descent(steps: FloatArray, *_: Any) -> tuple[float, FloatArray]:
            value, slopes = self.descent(start + unit * steps) if steps.any() else here
            return value, unit * slopes

        result = minimize(
            descent,
            np.zeros(self.size),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip((low - start) / unit, (high - start) / unit, strict=True)),
            options={"maxiter": STEPS, "ftol": 1e-7},
        )
        widths = unit * np.sqrt(np.clip(np.diag(result.hess_inv @ np.eye(self.size)), 1e-4, 1e4))
        return np.clip(start + unit * result.x, low, high), np.minimum(widths, 1.0)

    def descent(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """Minus the log evidence and its gradient."""
        found = self.fitted(parameters, tolerance=ON_THE_WAY, sweeps=SWEEPS_ON_THE_WAY)
        prior, pull = self._prior(found.amplitude)
        slopes = [amplitude_slope(found) + pull] if self.search.amplitude is None else []
        if self.n_widths:
            slopes.extend(self._width_slopes(parameters, found))
        return -found.posterior.log_evidence - prior, -np.asarray(slopes)

    def _prior(self, amplitude: float) -> tuple[float, float]:
        """The log density of an amplitude before any answer, up to a constant, and its slope in log amplitude."""
        if self.search.amplitude is not None:
            return 0.0, 0.0
        away = (float(np.log(amplitude * self.variance)) - USUAL) / SPREAD
        return -0.5 * away**2, -away / SPREAD

    def _width_slopes(self, parameters: FloatArray, found: FittedKernel) -> FloatArray:
        if self.kernel.name == "rbf":
            return width_slopes(self.task, found, each=self.search.widths == "each")
        slopes = []
        for position in range(self.size - self.n_widths, self.size):
            step = np.zeros(self.size)
            step[position] = 1e-3
            ends = [
                self.fitted(parameters + sign * step).posterior.log_evidence for sign in (1, -1)
            ]  # to the last digit
            slopes.append((ends[0] - ends[1]) / 2e-3)
        return np.asarray(slopes)

    def first_look(self) -> list[FloatArray]:
        """Where to begin: the best of several widths and amplitudes, found roughly.

        With one width a column there are several peaks: the best place of every amplitude is a start.
        """
        widths = np.log(WIDTHS) if self.n_widths else np.zeros(1)
        amplitudes = np.log([1.0, 16.0]) if self.search.amplitude is None else np.zeros(1)
        best: dict[float, tuple[float, FloatArray]] = {}
        for width in widths:
            for amplitude in amplitudes:
                there = np.concatenate([[amplitude] * (self.size - self.n_widths), [width] * self.n_widths])
                found = self.fitted(there, tolerance=ROUGHLY)
                value = found.posterior.log_evidence + self._prior(found.amplitude)[0]
                if value > best.get(amplitude, (-np.inf, there))[0]:
                    best[amplitude] = value, there
        ranked = [place for _, place in sorted(best.values(), key=lambda one: -one[0])]
        return ranked if self.search.widths == "each" else ranked[:1]

    def at_bounds(self, parameters: FloatArray) -> tuple[str, ...]:
        """The parameters that the search would have driven further."""
        low, high = np.asarray(self.bounds).reshape(-1, 2).T  # none where nothing is learned
        below, above = parameters < low + 1e-6, parameters > high - 1e-6
        if self.search.widths == "each":  # a column that plays no part is no reason to warn
            below[-self.n_widths :] &= below[-self.n_widths :].all()
        names = ["amplitude"] * (self.size - self.n_widths) + ["gamma"] * self.n_widths
        return tuple(dict.fromkeys(name for name, out in zip(names, below | above, strict=True) if out))


def _usual_variance(task: PreferenceTask) -> float:
    """Of the function under the kernel to begin with: the same everywhere, else half that of the compared differences."""
    basis, data = task.basis, task.data
    own = to_numpy(namespace(basis.gram).linalg.diagonal(basis.gram))
    if float(np.ptp(own)) <= 1e-9 * float(own.max()):
        return float(own[0]) or 1.0
    features = data.apply(finite_values(basis.features(data.features)) @ basis.whitening.matrix)
    return 0.5 * float(np.mean(to_numpy(squared_norms(features)))) or 1.0 if len(data) else 1.0


# ---- averaging over widths


def average(task: PreferenceTask, best: FittedKernel) -> list[tuple[float, FittedKernel]]:
    """The best width, then those around it, with their shares: the evidence under a prior flat in log width.

    Out to where the evidence has fallen by a factor exp(FALL), both ways, within the range of the search (002 Fig. 1).
    """
    found, gamma, start = [best], best.kernel.gamma, task.basis.kernel.gamma
    assert gamma is not None
    assert start is not None
    for direction in (1.0, -1.0):
        sites = best.posterior.sites
        for step in range(1, SIDEWAYS + 1):
            kernel = replace(best.kernel, gamma=gamma * float(np.exp(direction * STEP * step)))
            assert kernel.gamma is not None
            if not 1 / REACH <= kernel.gamma / start <= REACH:
                break
            one = fit_kernel(task, kernel, best.amplitude, sites)
            if one.posterior.log_evidence < best.posterior.log_evidence - FALL:
                break
            found.append(one)
            sites = one.posterior.sites
    return shared_out(found)


def shared_out(found: list[FittedKernel]) -> list[tuple[float, FittedKernel]]:
    """Posteriors with their shares, which are as their evidence."""
    logs = np.asarray([one.posterior.log_evidence for one in found])
    shares = np.exp(logs - logs.max())
    return [(float(share), one) for share, one in zip(shares / shares.sum(), found, strict=True)]
