"""From what sites answer to what they are asked next: extrapolation, and how far there is still to go."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from corank.federated.messages import FloatArray

MEMORY = 20  # differences that extrapolation looks back on
WORSE = 10.0  # a residual that has grown by this factor: forget the past


@dataclass
class Extrapolation:
    """Anderson's acceleration of x → F(x) for an affine F: the mix of past steps that leaves the least residual.

    With as many steps kept as there are, these are the iterates of GMRES (Walker and Ni 2011): as few evaluations of F
    as any method that sees nothing else can need. memory = 0 is the plain iteration. O(k² N) a step for N numbers.
    """

    memory: int = MEMORY
    _points: list[FloatArray] = field(default_factory=list)  # differences of x
    _residuals: list[FloatArray] = field(default_factory=list)  # and of F(x) − x
    _last: tuple[FloatArray, FloatArray] | None = None

    def next(self, x: FloatArray, image: FloatArray) -> FloatArray:
        """Where to evaluate next, after F(x) = image."""
        residual = image - x
        if self.memory == 0:
            return image
        if self._last is not None:
            if np.linalg.norm(residual) > WORSE * np.linalg.norm(self._last[1]):
                self.forget()
            else:
                self._points.append(x - self._last[0])
                self._residuals.append(residual - self._last[1])
                del self._points[: -self.memory], self._residuals[: -self.memory]
        self._last = (x, residual)
        if not self._points:
            return image
        columns = np.stack([own.ravel() for own in self._residuals], axis=1)
        sizes = np.linalg.norm(columns, axis=0)
        sizes[sizes == 0] = 1.0
        mix = np.linalg.lstsq(columns / sizes, residual.ravel(), rcond=1e-12)[0] / sizes
        moved = sum((m * (p + r) for m, p, r in zip(mix, self._points, self._residuals, strict=True)), 0.0 * x)
        return np.asarray(image - moved)

    def forget(self) -> None:
        """Begin anew, as after a change of F."""
        self._points.clear()
        self._residuals.clear()
        self._last = None


@dataclass
class Distance:
    """How far from the fixed point, judged from residuals alone.

    A small step is not a small error where every step gains little: with a contraction of rho a round the error is
    rho / (1 − rho) residuals. Extrapolation says itself how far it thinks it has to go.
    """

    before: float | None = None
    steps: list[float] = field(default_factory=list)

    def left(self, residual: float, step: float, *, extrapolated: bool) -> float:
        """The estimated error of the latest values; `step` is how far extrapolation goes."""
        before, self.before = self.before, residual
        if residual == 0:
            return 0.0
        if before is None:
            return np.inf
        if extrapolated:
            self.steps = [*self.steps[-1:], step]
            return max(*self.steps, residual)  # one lucky step is not enough
        rho = residual / before
        return residual * rho / (1 - rho) if rho < 1 else np.inf


def spread(values: FloatArray) -> float:
    """The size of predictions (M, m), one mean taken out: what errors are measured against."""
    return float(np.linalg.norm(values - values.mean())) or 1.0


def disagreement(values: FloatArray) -> float:
    """Root mean square of the differences from the sites' mean, (M, m)."""
    return float(np.sqrt(np.mean((values - values.mean(axis=0)) ** 2)))
