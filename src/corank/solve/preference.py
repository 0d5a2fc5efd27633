"""The evidence of comparisons for a kernel, its gradient, and the search for kernel width and
amplitude.

A function f ~ N(0, amplitude · k), seen through whitened features of a basis; comparisons enter by
expectation propagation. The gradient is that of the evidence at its fixed point, ½ tr((ββᵀ − R) dK)
with β the slopes of the posterior and R = (K + diag(1/τ))⁻¹ (docs/mathematics.md, section 3.11).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from corank.core.arrays import (
    Array,
    FloatArray,
    in_one_thread,
    is_sparse,
    like,
    namespace,
    solve_lower,
    take,
    to_numpy,
)
from corank.core.basis import KernelBasis, pivoted_rows
from corank.core.kernels import Kernel, finite_values, squared_norms
from corank.solve.expectation_propagation import PairData, SitePosterior, Sites, propagate
from corank.solve.posterior import Widths, seen_rows, weighted_distances, widened
from corank.solve.votes import VoteLikelihood

# factors of the width at the start, looked at before the search
FIRST_WIDTHS = 4.0 ** np.arange(-3, 3)
# variances of the function that go with them: undecided answers, and decided ones
FIRST_AMPLITUDES = (1.0, 16.0)
MAX_WIDTH_FACTOR = 4.0**6  # between the width at the start and where the search may go, both ways
AMPLITUDE_RANGE = (1e-4, 1e6)  # variances of the function within which the search stays
# prior of the function's log variance, before any answer
USUAL_LOG_VARIANCE, LOG_VARIANCE_SPREAD = np.log(4.0), 2.0
ROUGH_TOLERANCE = 1e-3  # of expectation propagation in the first look, which only ranks places
SEARCH_TOLERANCE = 1e-6  # of expectation propagation during the search, whose steps need gradients
# of expectation propagation during the search; a place that takes more is no good one
SEARCH_SWEEPS = 100
SEARCH_STEPS = 60  # of L-BFGS
SLOPE_STEP = 1e-3  # of the log width, for slopes by differences where the kernel has no gradient
FEW_POINTS = 200  # of the basis on which the search begins where there are more than twice as many
MAX_ONE_THREAD_ENTRIES = 2**20  # of the features of the items, up to which one thread is fastest
HABIT_TOLERANCE = 1e-3  # of expectation propagation while habits are learned
HABIT_SWEEPS = 60
AVERAGE_STEP = 0.5  # of the log width between two kernels that are averaged
MAX_AVERAGE_STEPS = 8  # each way
MAX_EVIDENCE_FALL = 5.0  # nats below the best width: kernels beyond have a share of less than 1 %


# ---------------------------------------------------------------- one kernel


@dataclass(frozen=True)
class PreferenceTask:
    """Comparisons, and the basis that spans the function; `whole` where its points are the compared
    items; the likelihood of votes, None where answers are probit.
    """

    data: PairData
    basis: KernelBasis
    whole: bool
    likelihood: VoteLikelihood | None = None

    def thinned(self, size: int) -> PreferenceTask:
        """The task on a basis of `size` of the points."""
        rows = pivoted_rows(self.basis.kernel, self.basis.points, size, np.random.default_rng(0))
        basis = replace(self.basis, points=take(self.basis.points, np.sort(rows)))
        return replace(self, basis=basis, whole=False)


@dataclass(frozen=True)
class FittedKernel:
    """A kernel with its posterior; `features` (n, r) are the whitened features of the items that
    the posterior is over.
    """

    basis: KernelBasis
    amplitude: float
    posterior: SitePosterior
    features: Array

    @property
    def kernel(self) -> Kernel:
        """The kernel without its amplitude."""
        return self.basis.kernel

    @property
    def coefficients(self) -> Array:
        """Coefficients of the basis functions for the posterior mean: (r,)."""
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
    data = task.data
    basis = replace(task.basis, kernel=kernel)
    reference = np.empty(0) if is_sparse(data.features) else data.features
    with in_one_thread(reference, wanted=basis.size * data.n_items <= MAX_ONE_THREAD_ENTRIES):
        features = amplitude**0.5 * _whitened(data, basis)
        posterior = propagate(features, data, start, likelihood=task.likelihood, **how)  # type: ignore[arg-type]
        return FittedKernel(basis, amplitude, posterior, features)


def _whitened(data: PairData, basis: KernelBasis) -> Array:
    """Whitened features of the items, centred: (n, r)."""
    return data.centred(finite_values(basis.features(data.features)) @ basis.whitening.matrix)


# ---------------------------------------------------------------- the gradient


def amplitude_slope(data: PairData, fitted: FittedKernel) -> float:
    """d log evidence / d log amplitude. O(n r + N)."""
    posterior = fitted.posterior
    pulled = to_numpy(
        fitted.features.T @ data.transposed(like(posterior.slopes, fitted.features)[:, None])
    )
    explained = np.sum(posterior.counts * posterior.sites.precision * posterior.variances)
    return 0.5 * float(np.sum(pulled * pulled) - explained)


def width_slopes(task: PreferenceTask, fitted: FittedKernel, *, each: bool) -> FloatArray:
    """d log evidence / d log gamma of an rbf kernel: (1,), or one per column where `each`. O(n² (r
    + d)) on all items.

    With H = ββᵀ − R carried to the items the evidence moves by ½ Σ H ∘ dK, dK = −gamma · squared
    distance ∘ K.
    """
    slopes = (_slopes_on_items if task.whole else _slopes_on_points)(task.data, fitted, each)
    gamma = fitted.kernel.gamma
    assert gamma is not None
    return -0.5 * gamma * slopes


def _item_terms(data: PairData, fitted: FittedKernel) -> tuple[Array, Array, FloatArray]:
    """β on the items (n, 1), AᵀTAS for the spread S of the items (n, r) and the sites' total
    precisions (N,).
    """
    posterior = fitted.posterior
    total = posterior.counts * posterior.sites.precision
    pull = data.transposed(like(posterior.slopes, fitted.features)[:, None])
    return pull, data.laplacian_product(total, posterior.spread), total


def _slopes_on_items(data: PairData, fitted: FittedKernel, each: bool) -> FloatArray:
    """Σ H ∘ K ∘ squared distance, where the items are the basis."""
    pull, turned, total = _item_terms(data, fitted)
    X = seen_rows(fitted.kernel, data.features, each=each)
    kernel = fitted.amplitude * fitted.basis.features(data.features)
    outer = (pull @ pull.T + turned @ turned.T) * kernel
    n = kernel.shape[1]
    flat = namespace(kernel).reshape(kernel, (-1,))
    between = 2 * like(total, flat) * take(flat, data.winners * n + data.losers)
    slopes = weighted_distances(outer, X, X, each=each)
    for span in data.spans(X):
        gaps = data.apply(X, span)
        slopes += to_numpy(between[span] @ (gaps * gaps if each else squared_norms(gaps)))
    return slopes


def _slopes_on_points(data: PairData, fitted: FittedKernel, each: bool) -> FloatArray:
    """Σ H ∘ dK for a basis of other points: K = Φ K_rr⁻¹ Φᵀ moves with Φ and with K_rr."""
    pull, turned, total = _item_terms(data, fitted)
    X, points = (
        seen_rows(fitted.kernel, rows, each=each) for rows in (data.features, fitted.basis.points)
    )
    phi = fitted.basis.features(data.features)
    gram = fitted.basis.gram
    white = fitted.basis.whitening.matrix
    back = (phi @ white) @ white.T  # Φ K_rr⁻¹
    moved = (
        pull @ (pull.T @ back) + turned @ (turned.T @ back) - data.laplacian_product(total, back)
    )
    first = weighted_distances(moved * phi, X, points, each=each)
    second = weighted_distances((back.T @ moved) * gram, points, points, each=each)
    return fitted.amplitude * (2 * first - second)


# ---------------------------------------------------------------- the search


@dataclass(frozen=True)
class EvidenceSearch:
    """What is learned from the evidence.

    amplitude : a variance, None to learn it
    widths : whether the width is given, or one is learned for all columns or for each
    """

    amplitude: float | None
    widths: Widths

    @property
    def learns(self) -> bool:
        """Whether anything is learned."""
        return self.amplitude is None or self.widths != "given"


@dataclass(frozen=True)
class PreferenceSolution:
    """The fitted kernel, which parameters lie at the end of their range, and the sweeps it took in
    all.
    """

    fitted: FittedKernel
    at_bounds: tuple[str, ...]
    sweeps: int
    likelihood: VoteLikelihood | None = None


def learn(task: PreferenceTask, search: EvidenceSearch) -> PreferenceSolution:
    """The kernel parameters of largest evidence: a first look at several widths, then L-BFGS with
    the gradient.

    Answers that do not contradict each other leave the amplitude open: a wide prior on it keeps a
    few of them from making the model sure of everything. Where the basis is large the search is
    made on a few of its points first, after which the whole basis takes a step or two. Sites are
    carried from one evaluation to the next.
    """
    ascent = Ascent(task, search)
    place = np.zeros(ascent.size)
    unit = np.ones(ascent.size)
    if search.learns:
        rough = ascent
        if task.basis.size > 2 * FEW_POINTS and not task.basis.kernel.precomputed:
            rough = Ascent(task.thinned(FEW_POINTS), search)
        place, unit = rough.highest(rough.first_look())
        if rough is not ascent:
            ascent.sites = rough.sites
            ascent.sweeps = rough.sweeps
            place, _ = ascent.climb(place, unit)
    return PreferenceSolution(ascent.fitted(place), ascent.at_bounds(place), ascent.sweeps)


def learn_votes(task: PreferenceTask, search: EvidenceSearch) -> PreferenceSolution:
    """The kernel parameters and the habits of judges of largest evidence: in turn, the first on few
    points of a large basis.
    """
    ascent = Ascent(task, search)
    place = np.full(ascent.size, 0.0)
    if search.widths == "given":
        place[: ascent.n_amplitudes] = USUAL_LOG_VARIANCE
    else:
        rough = task
        if task.basis.size > 2 * FEW_POINTS and not task.basis.kernel.precomputed:
            rough = task.thinned(FEW_POINTS)
        climb = Ascent(rough, search)
        place, unit = climb.highest(climb.first_look())
        climb.task, _, climb.sites = with_habits(climb, place)
        place, _ = climb.climb(place, unit)
        ascent.task = replace(task, likelihood=climb.task.likelihood)
        ascent.sites, ascent.sweeps = climb.sites, climb.sweeps
    ascent.task, place, ascent.sites = with_habits(ascent, place)
    return PreferenceSolution(
        ascent.fitted(place), ascent.at_bounds(place), ascent.sweeps, ascent.task.likelihood
    )


def with_habits(ascent: Ascent, place: FloatArray) -> tuple[PreferenceTask, FloatArray, Sites]:
    """The task with habits of largest evidence at the kernel of a place, the place with the
    amplitude that goes with them, and the sites: all of them move with every sweep.
    """
    task, place = ascent.task, np.array(place)
    amplitude, kernel = ascent.split(place)
    white = _whitened(task.data, replace(task.basis, kernel=kernel))
    assert task.likelihood is not None
    likelihood = task.likelihood

    def learn(posterior: SitePosterior) -> tuple[Array, VoteLikelihood, float]:
        nonlocal amplitude, likelihood
        before, step = likelihood.habits.values, 0.0
        likelihood = likelihood.improved(posterior)
        moved = float(np.max(np.abs(likelihood.habits.values - before)))
        if ascent.search.amplitude is None:  # of the effective number of weights, as by MacKay
            weights = to_numpy(posterior.mean)
            total = posterior.counts * posterior.sites.precision
            explained = float(total @ posterior.variances)
            _, slope = ascent.prior(amplitude)
            step = float(weights @ weights - explained + 2 * slope) / (explained + 1.0)
            step = min(max(step, -1.0), 1.0)
            amplitude *= float(np.exp(step))
        return amplitude**0.5 * white, likelihood, max(moved, abs(step))

    posterior = propagate(
        amplitude**0.5 * white,
        task.data,
        ascent.sites,
        likelihood=likelihood,
        learn=learn,
        tolerance=HABIT_TOLERANCE,
        sweeps=HABIT_SWEEPS,
    )
    ascent.sweeps += posterior.sweeps
    if ascent.search.amplitude is None:
        place[0] = np.log(amplitude * ascent.variance)
    return replace(task, likelihood=likelihood), place, posterior.sites


def habits_learned(task: PreferenceTask, amplitude: float) -> PreferenceTask:
    """The task with habits of largest evidence at its kernel."""
    ascent = Ascent(task, EvidenceSearch(amplitude, "given"))
    return with_habits(ascent, np.zeros(0))[0]


class Ascent:
    """The log evidence as a function of log variance and log widths, with a wide prior on the
    function's variance.

    The variance is amplitude times that of the kernel, which is 1 for rbf and has the units of X
    for others.
    """

    def __init__(self, task: PreferenceTask, search: EvidenceSearch) -> None:
        self.task = task
        self.search = search
        self.kernel = task.basis.kernel
        self.n_columns = task.data.features.shape[1]
        self.n_widths = {"given": 0, "one": 1, "each": self.n_columns}[search.widths]
        self.n_amplitudes = int(search.amplitude is None)
        self.size = self.n_amplitudes + self.n_widths
        self.variance = 1.0 if self.kernel.name == "rbf" else _usual_variance(task)
        self.sites: Sites | None = None
        self.sweeps = 0
        low, high = (float(np.log(end)) for end in AMPLITUDE_RANGE)
        reach = float(np.log(MAX_WIDTH_FACTOR))
        self.bounds: list[tuple[float, float]] = [
            *[(low, high)] * self.n_amplitudes,
            *[(-reach, reach)] * self.n_widths,
        ]

    def split(self, parameters: FloatArray) -> tuple[float, Kernel]:
        """The amplitude, and the kernel with its widths."""
        amplitude = self.search.amplitude
        kernel = self.kernel
        widths = parameters
        if amplitude is None:
            amplitude = float(np.exp(parameters[0])) / self.variance
            widths = parameters[1:]
        if self.search.widths == "one":
            kernel = widened(kernel, float(widths[0]))
        elif self.search.widths == "each":
            kernel = kernel.stretched(widths)
        return amplitude, kernel

    def fitted(self, parameters: FloatArray, **how: float) -> FittedKernel:
        """The posterior at these parameters."""
        amplitude, kernel = self.split(parameters)
        fitted = fit_kernel(self.task, kernel, amplitude, self.sites, **how)
        self.sites = fitted.posterior.sites
        self.sweeps += fitted.posterior.sweeps
        return fitted

    def highest(self, starts: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """The highest of the peaks that `climb` reaches from several starts."""
        peaks = [self.climb(start, np.ones(self.size)) for start in starts]
        return min(peaks, key=lambda peak: self.descent(peak[0])[0]) if len(peaks) > 1 else peaks[0]

    def climb(self, start: FloatArray, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
        """From a start to the largest evidence: its place, and the width of the peak in each
        parameter.

        unit : the width that the peak is thought to have; the first step is measured by it, and no
            longer than 1
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
            options={"maxiter": SEARCH_STEPS, "ftol": 1e-7},
        )
        widths = unit * np.sqrt(np.clip(np.diag(result.hess_inv @ np.eye(self.size)), 1e-4, 1e4))
        return np.clip(start + unit * result.x, low, high), np.minimum(widths, 1.0)

    def descent(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """Minus the log evidence and its gradient."""
        fitted = self.fitted(parameters, tolerance=SEARCH_TOLERANCE, sweeps=SEARCH_SWEEPS)
        prior, prior_slope = self.prior(fitted.amplitude)
        slopes = (
            [amplitude_slope(self.task.data, fitted) + prior_slope]
            if self.search.amplitude is None
            else []
        )
        if self.n_widths:
            slopes.extend(self._width_slopes(parameters, fitted))
        return -fitted.posterior.log_evidence - prior, -np.asarray(slopes)

    def prior(self, amplitude: float) -> tuple[float, float]:
        """The log density of an amplitude before any answer, up to a constant, and its slope in log
        amplitude.
        """
        if self.search.amplitude is not None:
            return 0.0, 0.0
        away = (float(np.log(amplitude * self.variance)) - USUAL_LOG_VARIANCE) / LOG_VARIANCE_SPREAD
        return -0.5 * away**2, -away / LOG_VARIANCE_SPREAD

    def _width_slopes(self, parameters: FloatArray, fitted: FittedKernel) -> FloatArray:
        """d log evidence / d log width: by formula for rbf, else by differences of evidences to the
        last digit.
        """
        if self.kernel.name == "rbf":
            return width_slopes(self.task, fitted, each=self.search.widths == "each")
        slopes = []
        for position in range(self.n_amplitudes, self.size):
            step = np.zeros(self.size)
            step[position] = SLOPE_STEP
            above, below = (
                self.fitted(parameters + sign * step).posterior.log_evidence for sign in (1, -1)
            )
            slopes.append((above - below) / (2 * SLOPE_STEP))
        return np.asarray(slopes)

    def first_look(self) -> list[FloatArray]:
        """Places to start from: the best of several widths and amplitudes, judged roughly.

        With one width per column there are several peaks: the best place of every amplitude is a
        start.
        """
        widths = np.log(FIRST_WIDTHS) if self.n_widths else np.zeros(1)
        amplitudes = np.log(FIRST_AMPLITUDES) if self.search.amplitude is None else np.zeros(1)
        best: dict[float, tuple[float, FloatArray]] = {}
        for width in widths:
            for amplitude in amplitudes:
                there = np.concatenate([[amplitude] * self.n_amplitudes, [width] * self.n_widths])
                fitted = self.fitted(there, tolerance=ROUGH_TOLERANCE)
                value = fitted.posterior.log_evidence + self.prior(fitted.amplitude)[0]
                if value > best.get(amplitude, (-np.inf, there))[0]:
                    best[amplitude] = value, there
        ranked = [place for _, place in sorted(best.values(), key=lambda entry: -entry[0])]
        return ranked if self.search.widths == "each" else ranked[:1]

    def at_bounds(self, parameters: FloatArray) -> tuple[str, ...]:
        """Names of the parameters at the end of their range, which the search would have driven
        further.
        """
        low, high = np.asarray(self.bounds).reshape(-1, 2).T  # empty where nothing is learned
        below = parameters < low + 1e-6
        above = parameters > high - 1e-6
        if self.search.widths == "each":  # a column that plays no part is no reason to warn
            below[-self.n_widths :] &= below[-self.n_widths :].all()
        names = ["amplitude"] * self.n_amplitudes + ["gamma"] * self.n_widths
        return tuple(
            dict.fromkeys(name for name, out in zip(names, below | above, strict=True) if out)
        )


def _usual_variance(task: PreferenceTask) -> float:
    """The variance of a function under the kernel at the start, or half that of differences where
    it is not constant.
    """
    basis = task.basis
    data = task.data
    variances = to_numpy(namespace(basis.gram).linalg.diagonal(basis.gram))
    if float(np.ptp(variances)) <= 1e-9 * float(variances.max()):
        return float(variances[0]) or 1.0
    return (
        0.5 * float(np.mean(data.squared_distances(_whitened(data, basis)))) or 1.0
        if len(data)
        else 1.0
    )


# ---------------------------------------------------------------- averaging over widths


def average(task: PreferenceTask, best: FittedKernel) -> list[tuple[float, FittedKernel]]:
    """The best width, then those around it, with their shares: the evidence under a prior flat in
    log width.

    Out to where the evidence has fallen by MAX_EVIDENCE_FALL, both ways, within the range of the
    search ([Tsivtsivadze2009] fig. 1).
    """
    kernels = [best]
    start = task.basis.kernel.gamma
    assert start is not None
    for direction in (1.0, -1.0):
        sites = best.posterior.sites
        for step in range(1, MAX_AVERAGE_STEPS + 1):
            kernel = widened(best.kernel, direction * AVERAGE_STEP * step)
            assert kernel.gamma is not None
            if not 1 / MAX_WIDTH_FACTOR <= kernel.gamma / start <= MAX_WIDTH_FACTOR:
                break
            fitted = fit_kernel(task, kernel, best.amplitude, sites)
            if fitted.posterior.log_evidence < best.posterior.log_evidence - MAX_EVIDENCE_FALL:
                break
            kernels.append(fitted)
            sites = fitted.posterior.sites
    return with_shares(kernels)


def with_shares(kernels: list[FittedKernel]) -> list[tuple[float, FittedKernel]]:
    """Fitted kernels with their shares, which are in proportion to their evidence and sum to 1."""
    logs = np.asarray([fitted.posterior.log_evidence for fitted in kernels])
    shares = np.exp(logs - logs.max())
    return [
        (float(share), fitted) for share, fitted in zip(shares / shares.sum(), kernels, strict=True)
    ]
