"""Which atoms enter next in a pursuit on several views, one per view: the combination of the
largest gain χᵀ X⁻¹ χ.

χ says what a step promises and changes with every atom that enters; X says what a step costs and
stays (docs/mathematics.md, section 3.9; [Tsivtsivadze2013] fig. 2, lines 3 to 7).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    Mask,
    inverse_where,
    like,
    namespace,
    take,
    to_numpy,
)
from corank.solve.column_path import NEGLIGIBLE_SHARE
from corank.solve.pursuit import GAIN_TIE

ROUNDING = 1e-9  # far more than that of gains, and than they may differ by to count as equal
MIN_DETERMINANT = 1e-10  # of X in units of its diagonal: below it two atoms count as one
# pairs of atoms whose gains are computed together: 256 KB per array, which stay in the cache
BLOCK_PAIRS = 2**15
# where another library splits the work among threads or on a device: 128 MB per array
FOREIGN_BLOCK_PAIRS = 2**24


@dataclass(frozen=True)
class Step:
    """One atom per view and the weights (M,) with which they enter; `gain` is by how much the
    objective falls.
    """

    labels: tuple[int, ...]
    weights: FloatArray
    gain: float


@dataclass(frozen=True)
class Costs:
    """X of every combination of atoms: `diagonal` on the diagonal, −2·agreement·d̄_vᵀ L̄ d̄_u off
    it.

    scored : (N_v,) per view, dᵀ L d
    unscored : (N_v,) per view, d̄ᵀ L̄ d̄; None where nothing couples the views
    shared : (N_v, N_u) per pair of views v < u, d̄_vᵀ L̄ d̄_u
    floors : one number per view; smaller entries of the diagonal are rounding
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
        """dᵀ L d + 2·agreement·(M − 1)·d̄ᵀ L̄ d̄: (N_v,) per view."""
        if self.unscored is None:
            return list(self.scored)
        factor = 2 * self.agreement * (self.n_views - 1)
        return [
            scored + factor * unscored
            for scored, unscored in zip(self.scored, self.unscored, strict=True)
        ]

    @cached_property
    def live(self) -> list[Mask]:
        """Which atoms of every view tell rows apart: (N_v,) per view."""
        masks = []
        for diagonal, floor in zip(self.diagonal, self.floors, strict=True):
            sizes = to_numpy(diagonal)
            masks.append(np.asarray(sizes > max(NEGLIGIBLE_SHARE * sizes.max(initial=0.0), floor)))
        return masks

    @cached_property
    def inverse_roots(self) -> list[Array]:
        """1/√diagonal, 0 for atoms that are not live: (N_v,) per view."""
        roots = []
        for diagonal, live in zip(self.diagonal, self.live, strict=True):
            sizes = np.sqrt(np.maximum(to_numpy(diagonal), 0.0))
            roots.append(like(inverse_where(live, sizes), diagonal))
        return roots

    def step_with(self, labels: Sequence[int], promises: Sequence[Array]) -> Step:
        """The step with these atoms, given χ of all atoms, (N_v,) per view."""
        chi = np.asarray(
            [float(promise[label]) for promise, label in zip(promises, labels, strict=True)]
        )
        matrix = np.diag(
            [float(diagonal[label]) for diagonal, label in zip(self.diagonal, labels, strict=True)]
        )
        for (v, u), shared in self.shared.items():
            matrix[v, u] = matrix[u, v] = -2 * self.agreement * float(shared[labels[v], labels[u]])
        weights = solve_step(matrix, chi)
        return Step(tuple(int(label) for label in labels), weights, float(weights @ chi))


def solve_step(matrix: FloatArray, chi: FloatArray) -> FloatArray:
    """X⁻¹ χ of one combination, (M, M) and (M,); where two atoms count as one, the better of them
    enters alone.
    """
    size = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    scale: FloatArray = inverse_where(size > 0, size)
    unit_matrix, u = scale[:, None] * matrix * scale[None, :], scale * chi
    if len(chi) == 2 and 1 - unit_matrix[0, 1] ** 2 <= MIN_DETERMINANT:
        return scale * np.where(np.arange(2) == np.argmax(u**2), u, 0.0)
    values, vectors = np.linalg.eigh(unit_matrix)
    vectors, values = vectors[:, values > MIN_DETERMINANT], values[values > MIN_DETERMINANT]
    return np.asarray(scale * (vectors @ ((vectors.T @ u) / values)))


class AtomSearch:
    """Finds the best step. A kind of search says how."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs

    def best(self, promises: Sequence[Array], allowed: Sequence[Mask]) -> Step | None:
        """The best step with allowed atoms, the first of equals, given χ of all atoms; None where
        nothing is allowed.
        """
        units = [
            promise * root for promise, root in zip(promises, self.costs.inverse_roots, strict=True)
        ]
        open_atoms = [mask & live for mask, live in zip(allowed, self.costs.live, strict=True)]
        labels = self._labels(units, open_atoms)
        return None if labels is None else self.costs.step_with(labels, promises)

    def _labels(self, units: Sequence[Array], allowed: Sequence[Mask]) -> list[int] | None:
        """The atoms of the best step, given χ/√diagonal."""
        raise AssertionError("a kind of search says which atoms")


def make_search(costs: Costs, kind: str) -> AtomSearch:
    """A search of the kind "full" (every combination of atoms of two views) or "tied" (one atom for
    every view).
    """
    if kind == "tied" or costs.n_views == 1:
        return TiedSearch(costs)
    return PairSearch(costs) if costs.shared else SeparateSearch(costs)


class SeparateSearch(AtomSearch):
    """Views that nothing couples: each takes its best atom. O(Σ N_v) per step."""

    def _labels(self, units: Sequence[Array], allowed: Sequence[Mask]) -> list[int] | None:
        labels = [
            _first_greatest(to_numpy(unit) ** 2, mask)
            for unit, mask in zip(units, allowed, strict=True)
        ]
        return None if None in labels else labels  # type: ignore[return-value]


class TiedSearch(AtomSearch):
    """The same atom in every view: one small system per atom, decomposed once. O(N M²) per step.

    [Tsivtsivadze2013], footnote 4.
    """

    @cached_property
    def _inverses(self) -> Array:
        """X⁻¹ in units of the diagonal, without directions in which atoms count as one: (N, M, M)."""
        roots, m = self.costs.inverse_roots, self.costs.n_views
        xp = namespace(roots[0])
        ones = xp.ones_like(roots[0])
        rows = [[ones if v == u else 0.0 * ones for u in range(m)] for v in range(m)]
        for (v, u), shared in self.costs.shared.items():
            rows[v][u] = rows[u][v] = (
                -2 * self.costs.agreement * roots[v] * roots[u] * xp.linalg.diagonal(shared)
            )
        values, vectors = xp.linalg.eigh(
            xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)
        )
        inverse = inverse_where(values > MIN_DETERMINANT, values)
        return (vectors * inverse[:, None, :]) @ xp.matrix_transpose(vectors)

    def _labels(self, units: Sequence[Array], allowed: Sequence[Mask]) -> list[int] | None:
        xp = namespace(units[0])
        u = xp.stack(list(units), axis=-1)[:, :, None]
        gains = to_numpy(xp.matrix_transpose(u) @ self._inverses @ u)[:, 0, 0]
        label = _first_greatest(gains, np.all(allowed, axis=0))
        return None if label is None else [label] * len(units)


class PairSearch(AtomSearch):
    """All pairs of two views as one array formula, one block of rows after the other. O(N_1 N_2)
    per step at most.

    With u = χ/√diagonal and ρ = −2·agreement·d̄_1ᵀ L̄ d̄_2 in the same units the gain of a pair is
    u_2² + (u_1 − ρ u_2)²/(1 − ρ²), or that of the better atom where both count as one. It is at
    most (u_1² + u_2²)/(1 − |ρ|), so that most rows need no look at their pairs. One thread: the
    operations on a block are so short that several would wait for each other.
    """

    @cached_property
    def _largest_rho(self) -> FloatArray:
        """What |ρ| is at most in each row (N_1,): ρ² is at most the product of the unscored shares
        of both diagonals.
        """
        assert self.costs.unscored is not None
        shares = []
        for unscored, diagonal, live in zip(
            self.costs.unscored, self.costs.diagonal, self.costs.live, strict=True
        ):
            sizes = np.where(live, to_numpy(diagonal), np.inf)
            shares.append(2 * self.costs.agreement * to_numpy(unscored) / sizes)
        return np.asarray(np.sqrt(shares[0] * shares[1].max(initial=0.0)))

    def _labels(self, units: Sequence[Array], allowed: Sequence[Mask]) -> list[int] | None:
        if not all(mask.any() for mask in allowed):
            return None
        changes = self._changes(units, like(np.where(allowed[1], 0.0, np.inf), units[0]))
        xp, is_numpy = namespace(units[0]), isinstance(units[0], np.ndarray)
        n, width = self.costs.shared[0, 1].shape
        step = max(1, (BLOCK_PAIRS if is_numpy else FOREIGN_BLOCK_PAIRS) // width)
        space = np.empty((2, min(step, n), width)) if is_numpy else None
        squares = [to_numpy(unit) ** 2 for unit in units]
        bounds = (squares[0] + squares[1][allowed[1]].max()) / np.maximum(
            1 - self._largest_rho, MIN_DETERMINANT / 4
        )
        order = np.argsort(np.where(allowed[0], -bounds, np.inf), kind="stable")[
            : np.count_nonzero(allowed[0])
        ]
        best, greatest = np.full(n, -np.inf), -np.inf
        for begin in range(0, len(order), step):
            rows = order[begin : begin + step]
            if bounds[rows[0]] * (1 + ROUNDING) < greatest:
                break
            best[rows] = -to_numpy(xp.min(changes(rows, space), axis=1))
            greatest = max(greatest, float(best[rows].max()))
        row = _first_greatest(best, allowed[0])
        assert row is not None
        column = _first_greatest(-to_numpy(changes(np.asarray([row]), None))[0], allowed[1])
        return None if column is None else [row, column]

    def _changes(
        self, units: Sequence[Array], barred: Array
    ) -> Callable[[Index, FloatArray | None], Array]:
        """A function of some rows: by how much pairs change the objective, minus their gain, plus
        `barred` (N_2,).

        NumPy works in `space` (2, rows, N_2), which stays in the cache.
        """
        shared, (first, second), (left, right) = (
            self.costs.shared[0, 1],
            units,
            self.costs.inverse_roots,
        )
        left = -2 * self.costs.agreement * left
        second_alone = barred - second * second
        may_be_singular = bool(self._largest_rho.max(initial=0.0) ** 2 > 1 - 2 * MIN_DETERMINANT)

        def changes(rows: Index, space: FloatArray | None) -> Array:
            values, k = take(shared, rows), len(rows)
            rho = (
                values * right[None, :]
                if space is None
                else np.multiply(values, right, out=space[0, :k])
            )
            rho *= take(left, rows)[:, None]
            change = (
                rho * second[None, :]
                if space is None
                else np.multiply(rho, second, out=space[1, :k])
            )
            alone = take(first, rows)[:, None]
            change -= alone
            change *= change
            rho *= rho
            rho -= 1
            if may_be_singular:
                change = self._or_alone(change, rho, alone**2 - second[None, :] ** 2)
            else:
                change /= rho
            change += second_alone[None, :]
            return change

        return changes

    @staticmethod
    def _or_alone(change: Array, rho: Array, lead: Array) -> Array:
        """change / rho; where both atoms count as one, minus what the first gains alone ahead of
        the second.
        """
        xp = namespace(change)
        apart, ones = rho < -MIN_DETERMINANT, xp.ones_like(rho)
        return xp.where(
            apart, change / xp.where(apart, rho, -ones), -xp.where(lead > 0, lead, 0.0 * ones)
        )


def _first_greatest(gains: FloatArray, allowed: Mask) -> int | None:
    """The first of the allowed atoms whose gain no other exceeds; None where none is allowed."""
    if not allowed.any():
        return None
    open_gains = np.where(allowed, gains, -np.inf)
    return int(np.argmax(open_gains >= open_gains.max() * (1 - GAIN_TIE)))
