"""The evidence of score differences under Gaussian noise, exact, and the search for width,
amplitude and noise.

With y = J s the within-query contrasts of the scores (or the observed margins), y ~ N(0, amplitude
· J K Jᵀ + noise · I) on as many numbers as the loss has rank; docs/mathematics.md, section 1.4,
says why not on all pairs. One eigendecomposition of J K Jᵀ serves every amplitude and noise
(section 3.7).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from corank.core.arrays import Array, FloatArray, namespace
from corank.core.basis import KernelBasis
from corank.core.kernels import Kernel
from corank.core.observations import Problem
from corank.solve.posterior import Widths, seen_rows, weighted_distances, widened
from corank.solve.systems import DualSystem, PrimalSystem, ViewData

# factors of the width at the start, looked at before the search
SCANNED_WIDTHS = 4.0 ** np.arange(-6.0, 7.0)
LOG_WIDTH_TOLERANCE = 0.02  # of that search: 2 % of the width
EQUAL = 1e-10  # relative difference of two evidences up to which they are the same but for rounding
SEARCH_STEPS = 50  # of L-BFGS, for one width per column
SLOPE_STEP = 1e-4  # of the log width, for slopes by differences


def spread_of(system: DualSystem | PrimalSystem, amplitude: float, noise: float) -> Array:
    """Q (r, r): the posterior covariance is amplitude · k(x, x') − Φ(x) Q Φ(x')ᵀ. O(r³)."""
    spectrum = system.kept_spectrum
    xp = namespace(spectrum.values)
    variances = amplitude * spectrum.values + noise
    if isinstance(system, PrimalSystem):
        vectors = system.views[0].basis.whitening.matrix @ spectrum.vectors
        roots = vectors * xp.sqrt(amplitude * amplitude * spectrum.values / variances)[None, :]
    else:
        roots = amplitude * system.problems[0].operator.root_transposed(
            spectrum.vectors / xp.sqrt(variances)[None, :]
        )
    return roots @ roots.T


@dataclass(frozen=True)
class DifferenceSolution:
    """The system of the best kernel, amplitude and noise, and which parameters lie at the end of
    their range.
    """

    system: DualSystem | PrimalSystem
    amplitude: float
    noise: float
    log_evidence: float
    at_bounds: tuple[str, ...]


@dataclass(frozen=True)
class Contrasts:
    """The evidence of a problem for any kernel width.

    basis : with the kernel at the start of the search
    amplitude, noise : None to learn them
    dual : whether the points of the basis are the rows of the problem
    """

    problem: Problem
    basis: KernelBasis
    amplitude: float | None
    noise: float | None
    dual: bool

    def system(self, kernel: Kernel) -> DualSystem | PrimalSystem:
        """The system of the problem for a kernel."""
        view = ViewData(self.problem, replace(self.basis, kernel=kernel))
        if self.dual and self.problem.operator.n_roots <= view.basis.size:
            return DualSystem([view])
        return PrimalSystem([view])

    def best(self, kernel: Kernel) -> DifferenceSolution:
        """The best amplitude and noise for a kernel."""
        system = self.system(kernel)
        amplitude, noise, evidence = system.evidence().best(self.amplitude, self.noise)
        return DifferenceSolution(system, amplitude, noise, evidence, ())

    def learn(self, widths: Widths) -> DifferenceSolution:
        """Width or widths, amplitude and noise of largest evidence."""
        kernel = self.basis.kernel
        if widths == "given":
            return self.best(kernel)
        step, at_end = best_width(lambda step: self.best(widened(kernel, step)).log_evidence)
        if widths == "each":
            kernel, at_end = self._best_columns(kernel, step)
        else:
            kernel = widened(kernel, step)
        return replace(self.best(kernel), at_bounds=("gamma",) if at_end else ())

    def _best_columns(self, kernel: Kernel, start: float) -> tuple[Kernel, bool]:
        """The kernel with one width per column, from a common log width, and whether any lies at
        its upper end.
        """
        reach, d = float(np.log(SCANNED_WIDTHS[-1])), self.problem.features.shape[1]
        result = minimize(
            self._descent,
            np.full(d, start),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-reach, reach)] * d,
            options={"maxiter": SEARCH_STEPS},
        )
        # at the lower end are columns that play no part
        at_end = bool(np.max(result.x) > reach - 1e-6)
        return kernel.stretched(np.asarray(result.x)), at_end

    def _descent(self, logs: FloatArray) -> tuple[float, FloatArray]:
        """Minus the evidence and its slopes in the logarithms of the columns' widths."""
        kernel = self.basis.kernel
        solution = self.best(kernel.stretched(logs))
        if isinstance(solution.system, DualSystem):
            return -solution.log_evidence, -width_slopes(
                solution.system, solution.amplitude, solution.noise
            )
        steps = SLOPE_STEP * np.eye(len(logs))
        ahead = [self.best(kernel.stretched(logs + step)).log_evidence for step in steps]
        return -solution.log_evidence, -(np.asarray(ahead) - solution.log_evidence) / SLOPE_STEP


def width_slopes(system: DualSystem, amplitude: float, noise: float) -> FloatArray:
    """d log evidence / d log gamma, one per column, of an rbf kernel on all rows. O(n² (n + d))."""
    basis, features = system.views[0].basis, system.problems[0].features
    assert isinstance(basis, KernelBasis)
    assert basis.kernel.gamma is not None
    kernel = amplitude * basis.features(features)
    X = seen_rows(basis.kernel, features, each=True)
    pull = system.solve(noise / amplitude)[0] / amplitude
    outer = (pull @ pull.T - spread_of(system, amplitude, noise) / amplitude**2) * kernel
    return -0.5 * basis.kernel.gamma * weighted_distances(outer, X, X, each=True)


def best_width(evidence: Callable[[float], float]) -> tuple[float, bool]:
    """The log width, relative to the start, of largest evidence: a scan, then a search around its
    best.

    Returns it and whether it lies at the end of its range.
    """
    places = np.log(SCANNED_WIDTHS)
    scanned = {float(place): evidence(float(place)) for place in places}
    largest = max(scanned.values())
    least = largest - EQUAL * (1 + abs(largest))
    equal = [place for place in scanned if not scanned[place] < least]
    best = min(equal, key=abs)  # where few scores say nothing of widths, the start is kept
    gap = float(places[1] - places[0])
    low, high = max(best - gap, float(places[0])), min(best + gap, float(places[-1]))
    result = minimize_scalar(
        lambda place: -evidence(float(place)),
        bounds=(low, high),
        method="bounded",
        options={"xatol": LOG_WIDTH_TOLERANCE},
    )
    is_better = -float(result.fun) > largest + EQUAL * (1 + abs(largest))
    place = float(result.x) if is_better else best
    return place, min(place - float(places[0]), float(places[-1]) - place) < 0.1
