"""From what sites answer to what they are asked next: extrapolation, and how far there is still to go."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from corank.federated.messages import FloatArray

LEAST, MOST = 20, 100  # differences that extrapolation looks back on
NUMBERS = 1 << 24  # that it may keep of each kind; few differences where there are many items
WORSE = 10.0  # a residual that has grown by this factor: forget the past
DEPENDENT = 1e-13  # a difference that others explain but for this share says nothing new


class Extrapolation:
    """Anderson's acceleration of x → F(x) for an affine F: the mix of past steps that leaves the least residual.

    With as many steps kept as there are, these are the iterates of GMRES (Walker and Ni 2011): as few evaluations of F
    as any method that sees nothing else can need. O(k N) a step for N numbers and k past steps, by a QR decomposition
    that grows; when it is full, the older half is forgotten.

    Parameters
    ----------
    memory : steps to look back on; None as many as fit, 0 is the plain iteration
    """

    def __init__(self, memory: int | None = None) -> None:
        self.memory = memory
        self.forget()

    def forget(self) -> None:
        """Begin anew, as after a change of F."""
        self._moves: list[FloatArray] = []  # of x and F(x) − x together: how far a step goes
        self._residuals: list[FloatArray] = []  # differences of F(x) − x = Q R
        self._q: list[FloatArray] = []
        self._r: list[FloatArray] = []  # columns
        self._last: tuple[FloatArray, FloatArray] | None = None

    def next(self, x: FloatArray, image: FloatArray) -> FloatArray:
        """Where to evaluate next, after F(x) = image."""
        most = min(MOST, max(LEAST, NUMBERS // x.size)) if self.memory is None else self.memory
        if most == 0:
            return image
        residual = image - x
        if self._last is not None and np.linalg.norm(residual) > WORSE * np.linalg.norm(self._last[1]):
            self.forget()
        if self._last is not None:
            if len(self._q) == most:
                self._keep_newer(most // 2)
            change = residual - self._last[1]
            self._add((x - self._last[0] + change).ravel(), change.ravel())
        self._last = (x, residual)
        if not self._q:
            return image
        triangle = np.zeros((len(self._r), len(self._r)))
        for k, column in enumerate(self._r):
            triangle[: len(column), k] = column
        sizes = np.linalg.norm(triangle, axis=0)
        right = np.asarray([q @ residual.ravel() for q in self._q])
        mix = np.linalg.lstsq(triangle / sizes, right, rcond=1e-12)[0] / sizes
        moved = np.zeros(x.size)
        for share, move in zip(mix, self._moves, strict=True):
            moved += share * move
        return np.asarray(image - moved.reshape(x.shape))

    def _add(self, move: FloatArray, change: FloatArray) -> None:
        """One more column of the decomposition, orthogonalised twice; none where it is a mix of the others."""
        left, column = change.copy(), np.zeros(len(self._q) + 1)
        for _ in range(2):
            for k, q in enumerate(self._q):
                share = float(q @ left)
                column[k] += share
                left -= share * q
        column[-1] = np.linalg.norm(left)
        if column[-1] <= DEPENDENT * np.linalg.norm(change):
            return
        self._q.append(left / column[-1])
        self._r.append(column)
        self._moves.append(move)
        self._residuals.append(change)

    def _keep_newer(self, count: int) -> None:
        moves, residuals = self._moves[-count:], self._residuals[-count:]
        self._moves, self._residuals, self._q, self._r = [], [], [], []
        for move, change in zip(moves, residuals, strict=True):
            self._add(move, change)


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
