"""Transduction with r basis functions for any number of rows: only sums of size r couple the queries.

With Φ the whitened features, L Lᵀ = ΦᵀJᵀJΦ + alpha I and F = J Φ L⁻ᵀ, alpha·S is I − F Fᵀ, and what the model without
query U leaves of z is H_U⁻¹ (z_U − F_U b), H_U = I − F_U F_Uᵀ, b = Fᵀ z (r,). Given b the queries of (11) part; a
multiplier μ (r,) holds b = Fᵀ z. Turned within queries so that H is diagonal (h), with w = 1/(1 + p h²), p = pull/d²,
v what the scored queries alone give for b and δ = b − v:

    (Σ_A Fᵀ h⁻² F + Σ_V Fᵀ p w F) δ − X μ = Σ_A Fᵀ h⁻² (z − F v)
    X δ + (Σ_V Fᵀ h² w F) μ = 0,    X = alpha L⁻¹ L⁻ᵀ + Σ_A FᵀF + Σ_V Fᵀ p h² w F
    z_V = F v + w F δ − h² w F μ

for scored rows A and unscored rows V. The fit to all scores has the coefficients L⁻ᵀ b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self, TypeVar

from corank._backend import (
    Array,
    add_diagonal,
    centre_runs,
    cholesky,
    device,
    namespace,
    solve_lower,
    solve_positive,
    solve_upper,
    take,
    to_numpy,
)
from corank.basis import Basis
from corank.problem import FloatArray, ScoredRows
from corank.solvers.direct import EPSILON
from corank.solvers.transduction import Completion, Layout, Run, completed_scores, row_weights
from corank.statistics import BLOCK_ENTRIES

Sums = TypeVar("Sums", bound="_Sums")

NO_LENGTH = 1e-12  # of a turned row, beside 1


class PrimalTransduction:
    """A subset of the rows, or the columns, as basis. O(N r (r + d)) and 2 N r numbers, whatever the unscored rows.

    Parameters
    ----------
    problem : all rows in the order of the layout, scores 0 where there are none
    basis : of r functions
    """

    def __init__(self, problem: ScoredRows, basis: Basis, layout: Layout) -> None:
        self.problem, self.basis, self.layout = problem, basis, layout
        white, n = basis.whitening, len(problem.rows)
        step = max(64, BLOCK_ENTRIES // basis.size)
        blocks = (basis.features(take(problem.features, slice(i, min(i + step, n)))) for i in range(0, n, step))
        phi = namespace(problem.reference).concat([b if white.trivial else b @ white.matrix for b in blocks], axis=0)
        phi, _, _ = centre_runs(phi, layout.starts, None)
        phi *= namespace(phi).sqrt(row_weights(problem))[:, None]
        self.features = phi  # J Φ
        self.gram = phi.T @ phi

    def solve(self, alpha: float, pull: float, predicted: Array) -> Completion:
        """Two passes over the rows of size N r², and a system of size 2 r."""
        state = _AtAlpha(self, alpha)
        *parts, unscored = state.parts
        scored = ScoredSums.of([block for part in parts for block in part], self.problem.targets[:, :1])
        solved = state.solve(scored, UnscoredSums.of(unscored, pull))
        z = namespace(self.gram).concat([solved.values(block, pull) for block in unscored], axis=0)
        coefficients = (self.basis.whitening.matrix @ solve_upper(state.lower.T, solved.right))[:, 0]
        return Completion(completed_scores(self.problem, predicted, z), coefficients)

    def held_out(self, alpha: float, pulls: FloatArray) -> Array:
        """Every fold's sums once, and those of all unscored rows once for a pull."""
        state, xp = _AtAlpha(self, alpha), namespace(self.gram)
        *parts, unscored = state.parts
        known = [ScoredSums.of(part, self.problem.targets[:, :1]) if part else None for part in parts]
        never = xp.zeros((len(self.layout.rows(self.layout.n_folds)), 1), dtype=xp.float64, device=device(self.gram))
        columns = []
        for pull in (float(pull) for pull in pulls):
            others = UnscoredSums.of(unscored, pull)
            found = []
            for fold, part in enumerate(parts[: self.layout.n_folds]):
                rest = _summed([own for number, own in enumerate(known) if number != fold and own is not None])
                solved = state.solve(rest, others + UnscoredSums.of(part, pull))
                found += [solved.values(block, pull) for block in part]
            columns.append(xp.concat([*found, never], axis=0))
        return xp.concat(columns, axis=1)


class _AtAlpha:
    """What alpha settles: L, and the turned rows of F, part by part."""

    def __init__(self, system: PrimalTransduction, alpha: float) -> None:
        xp, gram = namespace(system.gram), system.gram
        try:
            self.lower = cholesky(add_diagonal(gram, alpha))
        except ValueError:
            size = float(xp.max(xp.linalg.diagonal(gram)))
            raise ValueError(
                f"alpha = {alpha:.3g} is too small for these rows: beside numbers of size {size:.3g} it is lost to "
                "rounding; use a larger one, or alpha='tune'."
            ) from None
        r = int(gram.shape[0])
        inverse = solve_lower(self.lower, xp.eye(r, dtype=xp.float64, device=device(gram)))
        self.penalty = alpha * (inverse @ inverse.T)
        self.parts: list[list[Turned]] = [[] for _ in range(len(system.layout.bounds) - 1)]
        weights = to_numpy(row_weights(system.problem))
        for run in system.layout.runs:
            for piece in run.pieces(BLOCK_ENTRIES // (run.size * r) if run.size <= r else 1):
                own = solve_lower(self.lower, system.features[piece.rows, :].T).T
                self.parts[run.part].append(Turned.of(piece, own, float(weights[piece.begin])))

    def solve(self, scored: ScoredSums, unscored: UnscoredSums) -> Solved:
        """The system above. O(r³)."""
        xp, r = namespace(self.lower), int(self.lower.shape[0])
        alone = solve_positive(self.penalty + scored.plain, scored.right)
        across = self.penalty + scored.plain + unscored.across
        top = xp.concat([scored.telling + unscored.pulled, -across], axis=1)
        bottom = xp.concat([across, unscored.held], axis=1)
        right = xp.concat([scored.telling_right - scored.telling @ alone, xp.zeros_like(alone)], axis=0)
        both = xp.linalg.solve(xp.concat([top, bottom], axis=0), right)
        return Solved(alone, both[:r, :], both[r:, :])


@dataclass(frozen=True)
class Solved:
    """v, δ and μ: (r, 1) each."""

    alone: Array
    change: Array
    multiplier: Array

    @property
    def right(self) -> Array:
        """b = Fᵀ z with the completed scores."""
        return self.alone + self.change

    def values(self, block: Turned, pull: float) -> Array:
        """z of the rows of a block: (rows, 1)."""
        kept = block.kept[:, None]
        free = block.free(pull)[:, None]
        f = block.features
        return block.back(f @ self.alone + free * (f @ self.change) - kept**2 * free * (f @ self.multiplier))


@dataclass(frozen=True)
class Turned:
    """Rows of whole queries, turned within each so that its block of alpha·S = I − F Fᵀ is diagonal.

    rows : where they lie; features : (k, r) turned rows of F; kept : (k,) h, the diagonal; weight : d²
    vectors : (queries, size, size) what they were turned by; for a query of more rows than basis functions the (r, r)
        directions of its `source` (size, r), rows of F: it has r turned rows, the others are zero
    """

    rows: slice
    features: Array
    kept: Array
    weight: float
    vectors: Array
    source: Array | None = None

    @classmethod
    def of(cls, run: Run, features: Array, weight: float) -> Turned:
        """From rows of F (count·size, r), those of one query where it is large. O(count·size²·(size + r)), for a large query O(size·r²)."""
        xp, (k, r) = namespace(features), features.shape
        if run.size <= r:
            cube = xp.reshape(features, (run.count, run.size, r))
            squares, vectors = xp.linalg.eigh(cube @ xp.matrix_transpose(cube))
            turned, source = xp.reshape(xp.matrix_transpose(vectors) @ cube, (k, r)), None
        else:
            squares, vectors = xp.linalg.eigh(features.T @ features)
            turned, source = xp.sqrt(xp.where(squares > 0, squares, 0 * squares))[:, None] * vectors.T, features
        kept = xp.reshape(1 - squares, (-1,))
        return cls(run.rows, turned, xp.where(kept > EPSILON, kept, 0 * kept + EPSILON), weight, vectors, source)

    def free(self, pull: float) -> Array:
        """w = 1/(1 + p h²): (k,)."""
        return 1 / (1 + (pull / self.weight) * self.kept**2)

    def gram(self, weights: Array) -> Array:
        """Fᵀ diag(weights) F for weights (k,) of 0 or more: (r, r)."""
        rooted = namespace(weights).sqrt(weights)[:, None] * self.features
        return rooted.T @ rooted

    def turn(self, z: Array) -> Array:
        """Values of the rows (count·size, 1) as those of the turned ones (k, 1)."""
        xp = namespace(z)
        if self.source is not None:
            return self._in_lengths(self.vectors.T @ (self.source.T @ z))
        cube = xp.reshape(z, (*self.vectors.shape[:2], 1))
        return xp.reshape(xp.matrix_transpose(self.vectors) @ cube, z.shape)

    def back(self, z: Array) -> Array:
        """The inverse of `turn`, for values in the span of F."""
        if self.source is not None:
            return self.source @ (self.vectors @ self._in_lengths(z))
        xp = namespace(z)
        return xp.reshape(self.vectors @ xp.reshape(z, (*self.vectors.shape[:2], 1)), z.shape)

    def _in_lengths(self, z: Array) -> Array:
        """Divided by the lengths of the turned rows; 0 where nothing is left of one."""
        xp = namespace(z)
        lengths = xp.sqrt(xp.sum(self.features**2, axis=1))[:, None]
        there = lengths > NO_LENGTH
        return xp.where(there, z / xp.where(there, lengths, 0 * lengths + 1), 0 * z)


@dataclass(frozen=True)
class _Sums:
    """Sums that add up: over blocks, parts."""

    def __add__(self, other: Self) -> Self:
        names = [field.name for field in fields(self)]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True)
class ScoredSums(_Sums):
    """Σ FᵀF, Σ Fᵀ h⁻² F (r, r) and Σ Fᵀ z, Σ Fᵀ h⁻² z (r, 1) over scored rows."""

    plain: Array
    telling: Array
    right: Array
    telling_right: Array

    @classmethod
    def of(cls, blocks: Sequence[Turned], z: Array) -> ScoredSums:
        """Over blocks of rows, z (N, 1)."""
        return _summed([cls._of_block(block, block.turn(z[block.rows, :])) for block in blocks])

    @classmethod
    def _of_block(cls, block: Turned, z: Array) -> ScoredSums:
        f, telling = block.features, 1 / block.kept**2
        return cls(f.T @ f, block.gram(telling), f.T @ z, f.T @ (telling[:, None] * z))


@dataclass(frozen=True)
class UnscoredSums(_Sums):
    """Σ Fᵀ p w F, Σ Fᵀ p h² w F and Σ Fᵀ h² w F over unscored rows: (r, r) each."""

    pulled: Array
    across: Array
    held: Array

    @classmethod
    def of(cls, blocks: Sequence[Turned], pull: float) -> UnscoredSums:
        """Over blocks of rows."""
        return _summed([cls._of_block(block, pull) for block in blocks])

    @classmethod
    def _of_block(cls, block: Turned, pull: float) -> UnscoredSums:
        free, strength = block.free(pull), pull / block.weight
        held = block.gram(block.kept**2 * free)
        return cls(strength * block.gram(free), strength * held, held)


def _summed(parts: Sequence[Sums]) -> Sums:
    return sum(parts[1:], parts[0])
