"""The evidence of score differences under Gaussian noise, exact, and the search for width, amplitude and noise.

With y = J s the within-query contrasts of the scores (or the observed margins), y ~ N(0, amplitude · J K Jᵀ + noise · I)
on as many numbers as the loss has rank: math.md E-P2-4 says why not on all pairs. One eigendecomposition of J K Jᵀ
serves every amplitude and noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from corank._arrays import Array, FloatArray, float64, is_sparse, namespace, to_numpy
from corank.basis import KernelBasis
from corank.gram import N_TARGETS
from corank.kernels import Kernel
from corank.problem import Problem
from corank.solvers.least_squares import DualSystem, PrimalSystem, ViewData

LOG_TAU = float(np.log(2 * np.pi))
# of the logarithms of amplitude and noise, beside the scale of the data: alpha = noise / amplitude stays above rounding
RANGES = ((-14.0, 12.0), (-16.0, 4.0))
WIDTHS = 4.0 ** np.arange(-6.0, 7.0)  # around the start, looked at before the search
STEPS = 50


@dataclass(frozen=True)
class Spectral:
    """Evidence of contrasts for any amplitude and noise.

    values : (k,) eigenvalues of J K Jᵀ; energies : (k,) squares of y in their directions
    rest : what is left of ‖y‖²; dimension : of y
    """

    values: FloatArray
    energies: FloatArray
    rest: float
    dimension: int

    @classmethod
    def of(cls, system: DualSystem | PrimalSystem) -> Spectral:
        """From the factorised system of a problem."""
        spectrum = system.spectrum()
        values = to_numpy(spectrum.values)
        if isinstance(system, PrimalSystem):
            (gram,) = system.grams
            right = to_numpy(spectrum.vectors.T @ gram.right(0.0))[:, 0]
            live = values > 1e-14 * values[-1]
            energies = np.where(live, right**2 / np.where(live, values, 1.0), 0.0)
            total, dimension = float(gram.matrix[-N_TARGETS, -N_TARGETS]), gram.freedom
        else:
            (problem,) = system.problems
            targets = problem.targets[:, :1]
            energies = to_numpy(spectrum.vectors.T @ targets)[:, 0] ** 2
            total = float(namespace(targets).sum(targets * targets))
            dimension = problem.freedom(np.arange(int(targets.shape[0])))
        return cls(values, energies, max(total - float(energies.sum()), 0.0), dimension)

    def log_evidence(self, amplitude: float, noise: float) -> tuple[float, FloatArray]:
        """The log evidence and its slopes in log amplitude and log noise."""
        variances = amplitude * self.values + noise
        others = self.dimension - len(
            self.values
        )  # directions in which there is noise only; < 0: none of the query means
        log_evidence = -0.5 * (
            float(np.sum(self.energies / variances + np.log(variances)))
            + self.rest / noise
            + others * np.log(noise)
            + self.dimension * LOG_TAU
        )
        pulls = 0.5 * (self.energies / variances - 1) / variances  # squares of variances may overflow
        slopes = amplitude * np.sum(pulls * self.values), noise * np.sum(pulls) + 0.5 * (self.rest / noise - others)
        return log_evidence, np.asarray(slopes)

    def best(self, amplitude: float | None, noise: float | None) -> tuple[float, float, float]:
        """Amplitude, noise and log evidence where it is largest, over those that are None.

        A noise at the lower end of its range stands for none.
        """
        energy = (float(self.energies.sum()) + self.rest) / max(self.dimension, 1) or 1.0
        scale = float(self.values.sum()) / max(self.dimension, 1) or 1.0
        open_ = [amplitude is None, noise is None]
        units = np.log([energy / scale, energy])

        def at(point: FloatArray) -> tuple[float, float]:
            full = np.zeros(2)
            full[open_] = point
            a = float(np.exp(units[0] + full[0])) if amplitude is None else amplitude
            s = float(np.exp(units[1] + full[1])) if noise is None else noise
            return a, s

        def descent(point: FloatArray) -> tuple[float, FloatArray]:
            value, slopes = self.log_evidence(*at(point))
            return -value, -slopes[open_]

        if not any(open_):
            assert amplitude is not None
            assert noise is not None
            return amplitude, noise, self.log_evidence(amplitude, noise)[0]
        starts = [np.full(sum(open_), first) for first in (-0.7, -3.0)]
        bounds = [ends for ends, learned in zip(RANGES, open_, strict=True) if learned]
        found = [minimize(descent, start, jac=True, method="L-BFGS-B", bounds=bounds) for start in starts]
        result = min(found, key=lambda one: float(one.fun))
        return (*at(result.x), -float(result.fun))


def spread_of(system: DualSystem | PrimalSystem, amplitude: float, noise: float) -> Array:
    """Q (r, r): the posterior covariance is amplitude · k(x, x') − Φ(x) Q Φ(x')ᵀ. O(r³)."""
    spectrum = system.spectrum()
    xp = namespace(spectrum.values)
    variances = amplitude * spectrum.values + noise
    if isinstance(system, PrimalSystem):
        vectors = system.views[0].basis.whitening.matrix @ spectrum.vectors
        roots = vectors * xp.sqrt(amplitude * amplitude * spectrum.values / variances)[None, :]
    else:
        roots = amplitude * system.problems[0].operator.root_transposed(spectrum.vectors / xp.sqrt(variances)[None, :])
    return roots @ roots.T


@dataclass(frozen=True)
class DifferenceSolution:
    """The system of the best kernel, amplitude and noise, and which parameters lie at the end of their range."""

    system: DualSystem | PrimalSystem
    amplitude: float
    noise: float
    log_evidence: float
    at_bounds: tuple[str, ...]


@dataclass(frozen=True)
class Contrasts:
    """The evidence of a problem for any kernel width.

    basis : with the kernel to begin with; amplitude, noise : None to learn them
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
        amplitude, noise, evidence = Spectral.of(system).best(self.amplitude, self.noise)
        return DifferenceSolution(system, amplitude, noise, evidence, ())

    def learn(self, widths: str) -> DifferenceSolution:
        """Width(s), amplitude and noise of largest evidence; `widths` as in `preference.Search`."""
        kernel = self.basis.kernel
        if widths == "given":
            return self.best(kernel)
        at, edge = best_width(lambda step: self.best(_widened(kernel, step)).log_evidence)
        if widths == "each":
            kernel, edge = self._best_columns(kernel, at)
            return replace(self.best(kernel), at_bounds=("gamma",) if edge else ())
        return replace(self.best(_widened(kernel, at)), at_bounds=("gamma",) if edge else ())

    def _best_columns(self, kernel: Kernel, start: float) -> tuple[Kernel, bool]:
        """One width a column, from a common one."""
        reach, d = float(np.log(WIDTHS[-1])), int(self.problem.features.shape[1])
        result = minimize(
            self._descent,
            np.full(d, start),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-reach, reach)] * d,
            options={"maxiter": STEPS},
        )
        high = bool(np.max(result.x) > reach - 1e-6)  # a column that plays no part is no reason to warn
        return kernel.stretched(np.asarray(result.x)), high

    def _descent(self, logs: FloatArray) -> tuple[float, FloatArray]:
        """Minus the evidence and its slopes in the logarithms of the columns' widths."""
        kernel = self.basis.kernel.stretched(logs)
        found = self.best(kernel)
        if isinstance(found.system, DualSystem):
            return -found.log_evidence, -width_slopes(found.system, found.amplitude, found.noise)
        steps = 1e-4 * np.eye(len(logs))
        ahead = [self.best(self.basis.kernel.stretched(logs + step)).log_evidence for step in steps]
        return -found.log_evidence, -(np.asarray(ahead) - found.log_evidence) / 1e-4


def _widened(kernel: Kernel, step: float) -> Kernel:
    """The kernel with its width times exp(step)."""
    assert kernel.gamma is not None
    return replace(kernel, gamma=kernel.gamma * float(np.exp(step)))


def width_slopes(system: DualSystem, amplitude: float, noise: float) -> FloatArray:
    """d log evidence / d log gamma, one a column, of an rbf kernel on all rows. O(n² (n + d))."""
    basis, features = system.views[0].basis, system.problems[0].features
    assert isinstance(basis, KernelBasis)
    assert basis.kernel.gamma is not None
    kernel = amplitude * basis.features(features)
    xp = namespace(kernel)
    X = basis.kernel.seen(float64(features))
    X = X.toarray() if is_sparse(X) else X
    pull = system.solve(noise / amplitude)[0] / amplitude
    outer = (pull @ pull.T - spread_of(system, amplitude, noise) / amplitude**2) * kernel
    quadratic = 2 * (xp.sum(outer, axis=1) @ (X * X)) - 2 * xp.sum(X * (outer @ X), axis=0)
    return np.asarray(-0.5 * basis.kernel.gamma * to_numpy(quadratic))


def best_width(evidence: Callable[[float], float]) -> tuple[float, bool]:
    """The logarithm of the width, beside the start, of largest evidence: a scan, then a search around its best.

    Returns it and whether it lies at the end of its range.
    """
    places = np.log(WIDTHS)
    known = {float(place): evidence(float(place)) for place in places}
    best = max(known, key=known.__getitem__)
    gap = float(places[1] - places[0])
    low, high = max(best - gap, float(places[0])), min(best + gap, float(places[-1]))
    result = minimize_scalar(
        lambda at: -evidence(float(at)), bounds=(low, high), method="bounded", options={"xatol": 0.02}
    )
    at = float(result.x) if -float(result.fun) > known[best] else best
    return at, min(at - float(places[0]), float(places[-1]) - at) < 0.1
