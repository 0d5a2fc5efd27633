"""The evidence of comparisons for a kernel, its gradient, and the search for kernel width and amplitude.

A function f ~ N(0, amplitude · k), seen through whitened features of a basis; comparisons enter by expectation
propagation (`ep`). The gradient is that of the evidence at its fixed point: ½ tr((ββᵀ − R) dK) (math.md section 3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from corank._backend import Array, like, namespace, segment_sum, take, to_numpy
from corank.basis import KernelBasis
from corank.kernels import Kernel, rows_of
from corank.problem import FloatArray
from corank.solvers.ep import Posterior, Sites, propagate
from corank.statistics import Index

WIDTHS = 4.0 ** np.arange(-3, 3)  # around the start, looked at before the search
REACH = 4.0**6  # how far from the start the search may go, both ways
AMPLITUDES = (1e-4, 1e6)
ROUGHLY = 1e-3  # tolerance of the first look
STEPS = 60


@dataclass(frozen=True)
class Compared:
    """Comparisons between items, each pair of winner and loser once.

    features : (n, d) the items that take part; winners, losers : (N,) rows of it; counts : (N,) how often
    basis : rows of it whose kernels span the function, None for all
    """

    features: Array
    winners: Index
    losers: Index
    counts: FloatArray
    basis: Index | None = None

    def apply(self, rows: Array) -> Array:
        """Winner less loser, (N, c), of values at the items (n, c)."""
        return take(rows, self.winners) - take(rows, self.losers)

    def transposed(self, values: Array) -> Array:
        """Its transpose: (N, c) → (n, c)."""
        n = int(self.features.shape[0])
        ends = [like(rows, values, "int64") for rows in (self.winners, self.losers)]
        return segment_sum(values, ends[0], n) - segment_sum(values, ends[1], n)


@dataclass(frozen=True)
class Fitted:
    """A kernel with its posterior: `features` (N, r) are those that the posterior speaks of."""

    kernel: Kernel
    amplitude: float
    basis: KernelBasis
    posterior: Posterior
    features: Array


def fit_kernel(data: Compared, kernel: Kernel, amplitude: float, start: Sites | None, **how: float) -> Fitted:
    """The posterior for one kernel."""
    points = data.features if data.basis is None else take(data.features, data.basis)
    own_gram = None
    if kernel.precomputed:
        numbers = np.arange(int(data.features.shape[0])) if data.basis is None else data.basis
        points = rows_of(kernel, data.features, numbers)
        own_gram = kernel.block(take(data.features, numbers), points)
    basis = KernelBasis(kernel, points, own_gram)
    white = basis.features(data.features) @ basis.whitening.matrix
    features = amplitude**0.5 * data.apply(white)
    return Fitted(kernel, amplitude, basis, propagate(features, data.counts, start, **how), features)  # type: ignore[arg-type]


# ---- the gradient


def amplitude_slope(found: Fitted) -> float:
    """d log evidence / d log amplitude. O(N r)."""
    posterior, xp = found.posterior, namespace(found.features)
    pulled = found.features.T @ like(posterior.slopes, found.features)
    variances = to_numpy(xp.sum(posterior.spread * posterior.spread, axis=0))
    return 0.5 * (
        float(xp.sum(pulled * pulled)) - float(np.sum(posterior.counts * posterior.sites.precision * variances))
    )


def width_slopes(data: Compared, found: Fitted, *, each: bool) -> FloatArray:
    """d log evidence / d log gamma of an rbf kernel: (1,), or one a column where `each`. O(n² (r + d)) on all items.

    With H = ββᵀ-part less R on the items the evidence moves by ½ Σ H ∘ dK, dK = −gamma · squared distance ∘ K.
    """
    return _slopes_on_all(data, found, each) if data.basis is None else _slopes_on_some(data, found, each)


def _item_terms(data: Compared, found: Fitted) -> tuple[Array, Array, Array]:
    """β on the items (n, 1), AᵀTV (n, r) and the sites' total precisions (N,)."""
    posterior = found.posterior
    reference = found.features
    total = like(posterior.counts * posterior.sites.precision, reference)
    pull = data.transposed(like(posterior.slopes, reference)[:, None])
    return pull, data.transposed(total[:, None] * posterior.spread.T), total


def _slopes_on_all(data: Compared, found: Fitted, each: bool) -> FloatArray:
    """`width_slopes` where all items are the basis."""
    xp = namespace(found.features)
    pull, turned, total = _item_terms(data, found)
    kernel = found.amplitude * found.kernel.block(data.features, data.features)
    outer = (pull @ pull.T + turned @ turned.T) * kernel
    ends = (data.winners, data.losers)
    between = 2 * total * kernel[ends] if isinstance(kernel, np.ndarray) else 2 * total * _pairs(kernel, *ends)
    X = data.features
    quadratic = 2 * (xp.sum(outer, axis=1) @ (X * X)) - 2 * xp.sum(X * (outer @ X), axis=0)
    gaps = data.apply(X)
    slopes = quadratic + between @ (gaps * gaps)
    return _gathered(found.kernel, to_numpy(slopes), each)


def _pairs(matrix: Array, rows: Index, columns: Index) -> Array:
    xp = namespace(matrix)
    n = int(matrix.shape[1])
    return xp.take(xp.reshape(matrix, (-1,)), like(rows * n + columns, matrix, "int64"), axis=0)


def _slopes_on_some(data: Compared, found: Fitted, each: bool) -> FloatArray:
    """The same for a subset: K = Φ K_rr⁻¹ Φᵀ moves with Φ and with K_rr."""
    assert data.basis is not None
    xp = namespace(found.features)
    pull, turned, total = _item_terms(data, found)
    X, points = data.features, take(data.features, data.basis)
    phi, gram, white = found.basis.features(X), found.basis.gram, found.basis.whitening.matrix
    back = (phi @ white) @ white.T  # Φ K_rr⁻¹
    moved = pull @ (pull.T @ back) + turned @ (turned.T @ back) - data.transposed(total[:, None] * data.apply(back))
    outer, inner = moved * phi, (back.T @ moved) * gram
    first = (
        xp.sum(outer, axis=1) @ (X * X)
        + xp.sum(outer, axis=0) @ (points * points)
        - 2 * xp.sum(X * (outer @ points), axis=0)
    )
    second = 2 * (xp.sum(inner, axis=1) @ (points * points)) - 2 * xp.sum(points * (inner @ points), axis=0)
    return _gathered(found.kernel, found.amplitude * to_numpy(2 * first - second), each)


def _gathered(kernel: Kernel, slopes: FloatArray, each: bool) -> FloatArray:
    """Times −gamma/2, for one width or one a column (whose gamma is in the scale of the columns)."""
    assert kernel.gamma is not None
    slopes = -0.5 * kernel.gamma * slopes
    return slopes if each else np.asarray([slopes.sum()])


# ---- the search


@dataclass(frozen=True)
class Search:
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
class Learned:
    """The fitted kernel, the factors (d,) of the columns it sees, and which parameters lie at the end of their range."""

    fitted: Fitted
    scales: FloatArray
    at_bounds: tuple[str, ...]
    evaluations: int


def learn(data: Compared, kernel: Kernel, search: Search) -> Learned:
    """The kernel parameters of largest evidence: a first look at several widths, then L-BFGS with the gradient.

    Sites are carried from one evaluation to the next.
    """
    ascent = _Ascent(data, kernel, search)
    if not search.learns:
        found, scales = ascent.fitted(np.zeros(ascent.size))
        return Learned(found, scales, (), 1)
    start = ascent.first_look()
    result = minimize(
        ascent.descent,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=ascent.bounds,
        options={"maxiter": STEPS, "ftol": 1e-7},
    )
    found, scales = ascent.fitted(result.x)
    return Learned(found, scales, ascent.at_bounds(result.x), ascent.evaluations)


class _Ascent:
    """log evidence as a function of log amplitude and of the logarithms of widths beside the kernel's own."""

    def __init__(self, data: Compared, kernel: Kernel, search: Search) -> None:
        self.data, self.kernel, self.search = data, kernel, search
        self.n_columns = int(data.features.shape[1])
        self.n_widths = {"given": 0, "one": 1, "each": self.n_columns}[search.widths]
        self.size = int(search.amplitude is None) + self.n_widths
        self.sites: Sites | None = None
        self.evaluations = 0
        ends = float(np.log(AMPLITUDES[0])), float(np.log(AMPLITUDES[1]))
        reach = float(np.log(REACH))
        self.bounds: list[tuple[float, float]] = [
            *[ends] * (self.size - self.n_widths),
            *[(-reach, reach)] * self.n_widths,
        ]

    def split(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """The amplitude, and the logarithms of the widths."""
        own = self.search.amplitude
        if own is not None:
            return own, parameters
        return float(np.exp(parameters[0])), parameters[1:]

    def fitted(self, parameters: FloatArray, **how: float) -> tuple[Fitted, FloatArray]:
        """The posterior there, and the factors of the columns."""
        amplitude, widths = self.split(parameters)
        kernel, data, scales = self.kernel, self.data, np.ones(self.n_columns)
        if self.search.widths == "one":
            assert kernel.gamma is not None
            kernel = replace(kernel, gamma=kernel.gamma * float(np.exp(widths[0])))
        elif self.search.widths == "each":
            scales = np.exp(widths / 2)
            data = replace(data, features=data.features * like(scales, data.features)[None, :])
        found = fit_kernel(data, kernel, amplitude, self.sites, **how)
        self.sites = found.posterior.sites
        self.evaluations += 1
        return found, scales

    def descent(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """Minus the log evidence and its gradient."""
        found, scales = self.fitted(parameters)
        slopes = [amplitude_slope(found)] if self.search.amplitude is None else []
        if self.n_widths:
            slopes.extend(self._width_slopes(parameters, found, scales))
        return -found.posterior.log_evidence, -np.asarray(slopes)

    def _width_slopes(self, parameters: FloatArray, found: Fitted, scales: FloatArray) -> FloatArray:
        if self.kernel.name == "rbf":
            each = self.search.widths == "each"
            data = self.data
            if each:
                data = replace(data, features=data.features * like(scales, data.features)[None, :])
            return width_slopes(data, found, each=each)
        slopes = []
        for position in range(self.size - self.n_widths, self.size):
            step = np.zeros(self.size)
            step[position] = 1e-3
            ends = [self.fitted(parameters + sign * step)[0].posterior.log_evidence for sign in (1, -1)]
            slopes.append((ends[0] - ends[1]) / 2e-3)
        return np.asarray(slopes)

    def first_look(self) -> FloatArray:
        """Where to begin: the best of several widths and amplitudes, found roughly."""
        widths = np.log(WIDTHS) if self.n_widths else np.zeros(1)
        amplitudes = np.log([1.0, 16.0]) if self.search.amplitude is None else np.zeros(1)
        best, most = np.zeros(self.size), -np.inf
        for width in widths:
            for amplitude in amplitudes:
                there = np.concatenate([[amplitude] * (self.size - self.n_widths), [width] * self.n_widths])
                found, _ = self.fitted(there, tolerance=ROUGHLY)
                if found.posterior.log_evidence > most:
                    best, most = there, found.posterior.log_evidence
        return best

    def at_bounds(self, parameters: FloatArray) -> tuple[str, ...]:
        """The parameters that the search would have driven further."""
        names = ["amplitude"] * (self.size - self.n_widths) + ["gamma"] * self.n_widths
        ends = zip(parameters, self.bounds, names, strict=True)
        return tuple(dict.fromkeys(name for x, (low, high), name in ends if min(x - low, high - x) < 1e-6))
