"""Which atoms enter next, one a view: the combination with the largest gain eᵀ (B + C)⁻¹ e (003 Fig. 2, lines 3-7).

B + C says what a step costs; it stays while atoms enter. e, what a step promises, changes with each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from corank._arrays import Array, FloatArray, Mask, like, namespace, to_numpy

DEAD = 1e-10  # atoms whose size is at most this share of the largest tell nothing apart
SINGULAR = 1e-10  # relative determinant below which two atoms count as one
TIE = 1e-12  # relative gap below which gains count as equal
BLOCK = 2**15  # pairs that are looked at together, to stay in the cache
FOREIGN_BLOCK = 2**24  # the same where another library splits the work itself


@dataclass(frozen=True)
class Step:
    """One atom a view and the weights with which they enter, (M,) each; `gain` is what the step takes away."""

    labels: tuple[int, ...]
    weights: FloatArray
    gain: float


@dataclass(frozen=True)
class Costs:
    """B + C of every combination of atoms: `diagonal` on the diagonal, −2·agreement·k̄_vᵀ L̄ k̄_u off it.

    scored : (N_v,) a view, kᵀLk
    unscored : (N_v,) a view, k̄ᵀL̄k̄; None where nothing couples the views
    shared : (N_v, N_u) a pair of views v < u, k̄_vᵀL̄k̄_u
    floors : sizes of every view that are rounding
    """

    scored: Sequence[Array]
    unscored: Sequence[Array] | None
    shared: Mapping[tuple[int, int], Array]
    agreement: float
    floors: Sequence[float]

    @property
    def n_views(self) -> int:
        """M."""
        return len(self.scored)

    @cached_property
    def diagonal(self) -> list[Array]:
        """kᵀLk + 2·agreement·(M − 1)·k̄ᵀL̄k̄: (N_v,) a view."""
        if self.unscored is None:
            return list(self.scored)
        factor = 2 * self.agreement * (self.n_views - 1)
        return [own + factor * other for own, other in zip(self.scored, self.unscored, strict=True)]

    @cached_property
    def live(self) -> list[Mask]:
        """The atoms of every view that are not dead."""
        sizes = zip([to_numpy(own) for own in self.diagonal], self.floors, strict=True)
        return [np.asarray(own > max(DEAD * own.max(initial=0.0), floor)) for own, floor in sizes]

    @cached_property
    def inverse_roots(self) -> list[Array]:
        """1/√diagonal, 0 for dead atoms: (N_v,) a view."""
        sizes = [to_numpy(own) for own in self.diagonal]
        pairs = zip(sizes, self.live, strict=True)
        parts = [np.where(live, 1 / np.sqrt(np.where(live, size, 1.0)), 0.0) for size, live in pairs]
        return [like(part, own) for part, own in zip(parts, self.scored, strict=True)]

    def at(self, labels: Sequence[int], right: Sequence[Array]) -> Step:
        """The step with these atoms, for e = `right`, one (N_v,) a view."""
        e = np.asarray([float(own[label]) for own, label in zip(right, labels, strict=True)])
        matrix = np.diag([float(own[label]) for own, label in zip(self.diagonal, labels, strict=True)])
        for (v, u), shared in self.shared.items():
            matrix[v, u] = matrix[u, v] = -2 * self.agreement * float(shared[labels[v], labels[u]])
        weights = solve_step(matrix, e)
        return Step(tuple(int(label) for label in labels), weights, float(weights @ e))


def solve_step(matrix: FloatArray, e: FloatArray) -> FloatArray:
    """(B + C)⁻¹ e of one combination, (M, M) and (M,); where two atoms are one, the better of them alone."""
    size = np.diag(matrix)
    scale = np.where(size > 0, 1 / np.sqrt(np.where(size > 0, size, 1.0)), 0.0)
    close, u = scale[:, None] * matrix * scale[None, :], scale * e
    if len(e) == 2 and 1 - close[0, 1] ** 2 <= SINGULAR:
        return np.asarray(scale * np.where(np.arange(2) == np.argmax(u**2), u, 0.0))
    values, vectors = np.linalg.eigh(close)
    vectors, values = vectors[:, values > SINGULAR], values[values > SINGULAR]
    return np.asarray(scale * (vectors @ ((vectors.T @ u) / values)))


class AtomSearch:
    """Finds the best step. A kind of search says how."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs

    def best(self, right: Sequence[Array], allowed: Sequence[Mask]) -> Step | None:
        """The best step with allowed atoms for e = `right`, of equals the first; None where nothing is allowed."""
        units = [e * root for e, root in zip(right, self.costs.inverse_roots, strict=True)]
        labels = self._labels(units, [own & live for own, live in zip(allowed, self.costs.live, strict=True)])
        return None if labels is None else self.costs.at(labels, right)

    def _labels(self, units: Sequence[Array], allowed: Sequence[Mask]) -> list[int] | None:
        """The atoms, from e/√diagonal."""
        raise AssertionError("a kind of search says which atoms")


def make_search(costs: Costs, kind: str) -> AtomSearch:
    """`kind` "full": every combination, of two views; "tied": the same atom in every view."""
    if kind == "tied" or costs.n_views == 1:
        return TiedSearch(costs)
    return PairSearch(costs) if costs.shared else SeparateSearch(costs)


class SeparateSearch(AtomSearch):
    """Views that nothing couples: each takes its best atom. O(Σ N_v)."""

    def _labels(self, units: Sequence[Array], allowed: Sequence[Mask]) -> list[int] | None:
        labels = [_first_greatest(to_numpy(unit) ** 2, own) for unit, own in zip(units, allowed, strict=True)]
        return None if None in labels else labels  # type: ignore[return-value]


class TiedSearch(AtomSearch):
    """The same atom in every view (003, footnote 4): one small system an atom, decomposed once. O(N M²) a step."""

    @cached_property
    def _inverses(self) -> Array:
        """(B + C)⁻¹ in units of the diagonal, without directions in which atoms are one: (N, M, M)."""
        roots, m = self.costs.inverse_roots, self.costs.n_views
        xp = namespace(roots[0])
        ones = xp.ones_like(roots[0])
        rows = [[ones if v == u else 0.0 * ones for u in range(m)] for v in range(m)]
        for (v, u), shared in self.costs.shared.items():
            rows[v][u] = rows[u][v] = -2 * self.costs.agreement * roots[v] * roots[u] * xp.linalg.diagonal(shared)
        values, vectors = xp.linalg.eigh(xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2))
        kept = xp.where(values > SINGULAR, values, xp.ones_like(values))
        inverse = xp.where(values > SINGULAR, 1 / kept, xp.zeros_like(values))
        return (vectors * inverse[:, None, :]) @ xp.matrix_transpose(vectors)

    def _labels(self, units: Sequence[Array], allowed: Sequence[Mask]) -> list[int] | None:
        xp = namespace(units[0])
        u = xp.stack(list(units), axis=-1)[:, :, None]
        gains = to_numpy(xp.matrix_transpose(u) @ self._inverses @ u)[:, 0, 0]
        label = _first_greatest(gains, np.all(allowed, axis=0))
        return None if label is None else [label] * len(units)


class PairSearch(AtomSearch):
    """All pairs of two views as one array formula, a block of rows after the other. O(N1 N2) a step.

    With u = e/√diagonal and ρ = −2·agreement·k̄_1ᵀL̄k̄_2 in the same units the gain of a pair is
    u_2² + (u_1 − ρ u_2)²/(1 − ρ²), or that of the better atom where both are one. One thread: the operations on a
    block are so short that several would wait for each other.
    """

    @cached_property
    def _singular(self) -> bool:
        """Whether two atoms may be one: ρ² is at most the product of what the unscored rows are of both diagonals."""
        assert self.costs.unscored is not None
        limit, parts = 1.0, zip(self.costs.unscored, self.costs.diagonal, self.costs.live, strict=True)
        for own, diagonal, live in parts:
            shares = 2 * self.costs.agreement * to_numpy(own)[live] / to_numpy(diagonal)[live]
            limit *= float(shares.max(initial=0.0))
        return limit > 1 - 2 * SINGULAR

    def _labels(self, units: Sequence[Array], allowed: Sequence[Mask]) -> list[int] | None:
        if not all(own.any() for own in allowed):
            return None
        falls = self._falls(units, like(np.where(allowed[1], 0.0, np.inf), units[0]))
        xp, (n, width), here = namespace(units[0]), self.costs.shared[0, 1].shape, isinstance(units[0], np.ndarray)
        step = max(1, (BLOCK if here else FOREIGN_BLOCK) // width)
        space = np.empty((2, min(step, n), width)) if here else None
        blocks = [slice(begin, min(begin + step, n)) for begin in range(0, n, step)]
        best = np.concatenate([-to_numpy(xp.min(falls(rows, space), axis=1)) for rows in blocks])
        row = _first_greatest(best, allowed[0])
        assert row is not None
        column = _first_greatest(-to_numpy(falls(slice(row, row + 1), None))[0], allowed[1])
        return None if column is None else [row, column]

    def _falls(self, units: Sequence[Array], barred: Array) -> Callable[[slice, FloatArray | None], Array]:
        """What pairs of some rows change the objective by, minus their gain; `barred` (N2,) is added.

        NumPy works in `space` (2, rows, N2), which stays in the cache.
        """
        shared, (first, second), (left, right) = self.costs.shared[0, 1], units, self.costs.inverse_roots
        left, square = -2 * self.costs.agreement * left, barred - second * second

        def falls(rows: slice, space: FloatArray | None) -> Array:
            values, k = shared[rows, :], rows.stop - rows.start
            rho = values * right[None, :] if space is None else np.multiply(values, right, out=space[0, :k])
            rho *= left[rows, None]
            rest = rho * second[None, :] if space is None else np.multiply(rho, second, out=space[1, :k])
            rest -= first[rows, None]
            rest *= rest
            rho *= rho
            rho -= 1
            if self._singular:
                rest = self._alone(rest, rho, first[rows, None] ** 2 - second[None, :] ** 2)
            else:
                rest /= rho
            rest += square[None, :]
            return rest

        return falls

    @staticmethod
    def _alone(rest: Array, rho: Array, lead: Array) -> Array:
        """rest / rho, or what the first atom alone has ahead of the second where both are one."""
        xp = namespace(rest)
        apart, ones = rho < -SINGULAR, xp.ones_like(rho)
        return xp.where(apart, rest / xp.where(apart, rho, -ones), -xp.where(lead > 0, lead, 0.0 * ones))


def _first_greatest(gains: FloatArray, allowed: Mask) -> int | None:
    """The first of the allowed that no other exceeds."""
    if not allowed.any():
        return None
    own = np.where(allowed, gains, -np.inf)
    return int(np.argmax(own >= own.max() * (1 - TIE)))
