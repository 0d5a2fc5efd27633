"""Which atoms enter next in a pursuit on several views, one per view: the combination of the
largest gain χᵀ X⁻¹ χ.

χ says what a step promises and changes with every atom that enters; X says what a step costs and
stays (docs/mathematics.md, section 3.9; [Tsivtsivadze2013] fig. 2, lines 3 to 7).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import and_, mul
from typing import Literal, TypeAlias

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
from corank.solve.dictionary import Buffers
from corank.solve.pursuit import GAIN_TIE

SearchKind: TypeAlias = Literal["full", "tied", "coordinate"]

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
    """X of every combination of atoms: `diagonal` on the diagonal, 2·agreement·`shared` off it.

    scored : (N_v,) per view, dᵀ L d
    unscored : (N_v,) per view, Σ_u θ_uv d̄_vᵀ L̄ d̄_v; None where nothing couples the views
    shared : (N_v, N_u) per pair of views v < u, −θ_uv d̄_vᵀ L̄ d̄_u
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
        """dᵀ L d + 2·agreement·`unscored`: (N_v,) per view."""
        if self.unscored is None:
            return list(self.scored)
        factor = 2 * self.agreement
        both = zip(self.scored, self.unscored, strict=True)
        return [scored + factor * unscored for scored, unscored in both]

    @cached_property
    def live(self) -> list[Mask]:
        """Which atoms of every view tell rows apart: (N_v,) per view."""
        masks: list[Mask] = []
        for diagonal, floor in zip(self.diagonal, self.floors, strict=True):
            sizes = to_numpy(diagonal)
            masks.append(sizes > max(NEGLIGIBLE_SHARE * sizes.max(initial=0.0), floor))
        return masks

    @cached_property
    def inverse_roots(self) -> list[Array]:
        """1/√diagonal, 0 for atoms that are not live: (N_v,) per view."""
        roots = []
        for diagonal, live in zip(self.diagonal, self.live, strict=True):
            sizes = np.sqrt(np.maximum(to_numpy(diagonal), 0.0))
            roots.append(like(inverse_where(live, sizes), diagonal))
        return roots

    @cached_property
    def buffers(self) -> Buffers:
        """Memory for blocks of pairs, which stay in the cache."""
        return Buffers()

    def inverses(self, labels: Index) -> Array:
        """X⁻¹ of combinations (c, M), in units of the diagonal, without directions in which atoms
        count as one: (c, M, M).
        """
        roots = [take(root, labels[:, v]) for v, root in enumerate(self.inverse_roots)]
        m = self.n_views
        xp = namespace(roots[0])
        ones = xp.ones_like(roots[0])
        rows = [[ones if v == u else 0.0 * ones for u in range(m)] for v in range(m)]
        places = [like(labels[:, v], roots[0], "int64") for v in range(m)]
        for (v, u), shared in self.shared.items():
            units = roots[v] * roots[u]
            couplings = shared[places[v], places[u]]
            rows[v][u] = rows[u][v] = 2 * self.agreement * units * couplings
        stacked = [xp.stack(row, axis=-1) for row in rows]
        matrices = xp.stack(stacked, axis=-2)
        # eigenvalues are at most m, so that such a determinant leaves none below MIN_DETERMINANT
        if bool(xp.all(xp.linalg.det(matrices) > MIN_DETERMINANT * m ** (m - 1))):
            return xp.linalg.inv(matrices)
        values, vectors = xp.linalg.eigh(matrices)
        inverse = inverse_where(values > MIN_DETERMINANT, values)
        scaled = vectors * inverse[:, None, :]
        return scaled @ xp.matrix_transpose(vectors)

    @cached_property
    def tied(self) -> tuple[Index, Array]:
        """Every atom with itself in all views, and `inverses`."""
        labels = np.tile(np.arange(len(self.live[0]))[:, None], self.n_views)
        return labels, self.inverses(labels)

    @cached_property
    def combinations(self) -> tuple[Index, Array]:
        """All combinations, those with the first atoms first, and `inverses`."""
        sizes = [len(live) for live in self.live]
        labels = np.indices(sizes).reshape(self.n_views, -1).T
        return labels, self.inverses(labels)

    @cached_property
    def largest_rho(self) -> FloatArray:
        """What |ρ| of `_best_pair` is at most in each row (N_1,): ρ² is at most the product of the
        unscored shares of both diagonals.
        """
        assert self.unscored is not None
        shares = []
        views = zip(self.unscored, self.diagonal, self.live, strict=True)
        for unscored, diagonal, live in views:
            sizes = np.where(live, to_numpy(diagonal), np.inf)
            lengths = 2 * self.agreement * to_numpy(unscored)
            shares.append(lengths / sizes)
        first, second = shares
        bound: FloatArray = np.sqrt(first * second.max(initial=0.0))
        return bound


def _numbers_at(values: Sequence[Array], labels: Sequence[int]) -> FloatArray:
    """The value of one atom per view."""
    pairs = zip(values, labels, strict=True)
    return np.asarray([float(own[label]) for own, label in pairs])


def solve_step(matrix: FloatArray, chi: FloatArray) -> FloatArray:
    """X⁻¹ χ of one combination, (M, M) and (M,); where two atoms count as one, the better of them
    enters alone.
    """
    diagonal = np.maximum(np.diag(matrix), 0.0)
    size = np.sqrt(diagonal)
    scale: FloatArray = inverse_where(size > 0, size)
    unit_matrix = scale[:, None] * matrix * scale
    u = scale * chi
    if len(chi) == 2 and 1 - unit_matrix[0, 1] ** 2 <= MIN_DETERMINANT:
        better = np.argmax(u**2)
        alone = np.zeros(2)
        alone[better] = u[better]
        return scale * alone
    values, vectors = np.linalg.eigh(unit_matrix)
    apart = values > MIN_DETERMINANT
    vectors = vectors[:, apart]
    shares = (vectors.T @ u) / values[apart]
    weights: FloatArray = scale * (vectors @ shares)
    return weights


# ---------------------------------------------------------------- the best step


def best_step(
    costs: Costs, search: SearchKind, promises: Sequence[Array], allowed: Sequence[Mask]
) -> Step | None:
    """The best step with allowed atoms, the first of equals, given χ of all atoms; None where
    nothing is allowed.

    search : "full", every combination of atoms, "tied", one atom for every view, or "coordinate",
        one view after the other
    """
    units = list(map(mul, promises, costs.inverse_roots))
    open_atoms = list(map(and_, allowed, costs.live))
    if search == "tied" or costs.n_views == 1:
        labels = _best_among(*costs.tied, units, open_atoms)
    elif not costs.shared:
        labels = _best_apart(units, open_atoms)
    elif search == "coordinate":
        labels = _best_by_turns(costs, units, open_atoms)
    elif costs.n_views == 2:
        labels = _best_pair(costs, units, open_atoms)
    else:
        labels = _best_among(*costs.combinations, units, open_atoms)
    if labels is None:
        return None
    chi = _numbers_at(promises, labels)
    matrix = np.diag(_numbers_at(costs.diagonal, labels))
    for (v, u), shared in costs.shared.items():
        matrix[v, u] = matrix[u, v] = 2 * costs.agreement * float(shared[labels[v], labels[u]])
    weights = solve_step(matrix, chi)
    return Step(tuple(labels), weights, float(weights @ chi))


def _best_apart(units: Sequence[Array], allowed: Sequence[Mask]) -> list[int] | None:
    """Views that nothing couples: each takes its best atom, given χ/√diagonal. O(Σ N_v)."""
    best = [
        _first_greatest(to_numpy(unit) ** 2, mask)
        for unit, mask in zip(units, allowed, strict=True)
    ]
    labels = [label for label in best if label is not None]
    return labels if len(labels) == len(best) else None


def _best_among(
    labels: Index, inverses: Array, units: Sequence[Array], allowed: Sequence[Mask]
) -> list[int] | None:
    """The best of combinations (c, M), each a small system that was decomposed once. O(c M²).

    [Tsivtsivadze2013], fig. 2, and footnote 4 for the same atom in every view.
    """
    xp = namespace(units[0])
    chosen = [take(unit, labels[:, v]) for v, unit in enumerate(units)]
    rows = xp.stack(chosen, axis=-1)
    u = rows[:, :, None]
    products = inverses @ u
    gains = xp.matrix_transpose(u) @ products
    everywhere = np.all([mask[labels[:, v]] for v, mask in enumerate(allowed)], axis=0)
    number = _first_greatest(to_numpy(gains)[:, 0, 0], everywhere)
    return None if number is None else labels[number].tolist()


def _best_by_turns(
    costs: Costs, units: Sequence[Array], allowed: Sequence[Mask]
) -> list[int] | None:
    """From each view's best atom on, every view in turn takes the best beside those of the others,
    until none changes: no other atom of a single view would gain more. O(Σ N_v M³) per round.
    """
    labels = _best_apart(units, allowed)
    unchanged = 0
    v = 0
    while labels is not None and unchanged < costs.n_views:
        tried = np.tile(labels, (len(allowed[v]), 1))
        tried[:, v] = np.arange(len(tried))
        # the atom at hand comes first, so that only one that gains more replaces it
        tried[[0, labels[v]]] = tried[[labels[v], 0]]
        best = _best_among(tried, costs.inverses(tried), units, allowed)
        unchanged = unchanged + 1 if best == labels else 0
        labels = best
        v = (v + 1) % costs.n_views
    return labels


def _best_pair(costs: Costs, units: Sequence[Array], allowed: Sequence[Mask]) -> list[int] | None:
    """All pairs of two views as one array formula, one block of rows after the other. O(N_1 N_2)
    at most.

    With u = χ/√diagonal and ρ = 2·agreement·`shared` in the same units the gain of a pair is
    u_2² + (u_1 − ρ u_2)²/(1 − ρ²), or that of the better atom where both count as one. It is at
    most (u_1² + u_2²)/(1 − |ρ|), so that most rows need no look at their pairs. One thread: the
    operations on a block are so short that several would wait for each other.
    """
    if not all(mask.any() for mask in allowed):
        return None
    barred = like(np.where(allowed[1], 0.0, np.inf), units[0])
    changes = _changes_of_pairs(costs, units, barred)
    xp = namespace(units[0])
    is_numpy = isinstance(units[0], np.ndarray)
    n, width = costs.shared[0, 1].shape
    step = max(1, (BLOCK_PAIRS if is_numpy else FOREIGN_BLOCK_PAIRS) // width)
    squares = [to_numpy(unit) ** 2 for unit in units]
    apart = np.maximum(1 - costs.largest_rho, MIN_DETERMINANT / 4)
    best_second = squares[1][allowed[1]].max()
    bounds = (squares[0] + best_second) / apart
    order = np.argsort(np.where(allowed[0], -bounds, np.inf), kind="stable")
    order = order[: np.count_nonzero(allowed[0])]
    best = np.full(n, -np.inf)
    greatest = -np.inf
    for begin in range(0, len(order), step):
        rows = order[begin : begin + step]
        if bounds[rows[0]] * (1 + ROUNDING) < greatest:
            break
        least = xp.min(changes(rows), axis=1)
        best[rows] = -to_numpy(least)
        greatest = max(greatest, float(best[rows].max()))
    row = _first_greatest(best, allowed[0])
    assert row is not None
    gains = -to_numpy(changes(np.asarray([row])))
    column = _first_greatest(gains[0], allowed[1])
    return None if column is None else [row, column]


def _changes_of_pairs(
    costs: Costs, units: Sequence[Array], barred: Array
) -> Callable[[Index], Array]:
    """A function of some rows: by how much pairs change the objective, minus their gain, plus
    `barred` (N_2,).
    """
    shared = costs.shared[0, 1]
    first, second = units
    left, right = costs.inverse_roots
    left = 2 * costs.agreement * left
    second_alone = barred - second * second
    may_be_singular = bool(costs.largest_rho.max(initial=0.0) ** 2 > 1 - 2 * MIN_DETERMINANT)
    buffers = costs.buffers

    def changes(rows: Index) -> Array:
        values = take(shared, rows)
        rho = buffers.product("rho", values, right[None, :])
        rho *= take(left, rows)[:, None]
        change = buffers.product("change", rho, second[None, :])
        alone = take(first, rows)[:, None]
        change -= alone
        change *= change
        rho *= rho
        rho -= 1
        if may_be_singular:
            lead = alone**2 - second[None, :] ** 2
            change = _or_alone(change, rho, lead)
        else:
            change /= rho
        change += second_alone[None, :]
        return change

    return changes


def _or_alone(change: Array, rho: Array, lead: Array) -> Array:
    """change / rho; where both atoms count as one, minus what the first gains alone ahead of the
    second.
    """
    xp = namespace(change)
    apart = rho < -MIN_DETERMINANT
    ones = xp.ones_like(rho)
    together = change / xp.where(apart, rho, -ones)
    ahead = xp.where(lead > 0, lead, 0.0 * ones)
    return xp.where(apart, together, -ahead)


def _first_greatest(gains: FloatArray, allowed: Mask) -> int | None:
    """The first of the allowed atoms whose gain no other exceeds; None where none is allowed."""
    if not allowed.any():
        return None
    open_gains = np.where(allowed, gains, -np.inf)
    least = open_gains.max() * (1 - GAIN_TIE)
    return int(np.argmax(open_gains >= least))
