"""Scores of unscored queries that make the leave-query-out error of all queries small.

[Pahikkala2007] eqs. (10) and (11), in the forms of docs/mathematics.md, section 3.10. With S = (J K
Jᵀ + alpha I)⁻¹ over all rows, scored and unscored, and z = J y, the model without query U leaves
the residuals (S_UU)⁻¹ (S z)_U: linear in the unknown scores, so (11) is least squares. Only z
counts in it; the mean of an unscored query is that of the predictions it is pulled to. With d² the
weight of a query in the loss, J y = d·(y − mean), the unknown z_V is pulled by pull/d² to z of
those predictions.

`DualTransduction` works with S (a basis of all rows), `PrimalTransduction` with sums of size r over
any number of rows (a basis of r functions).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Self, TypeAlias, TypeVar

import numpy as np
from scipy.linalg import lapack

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    add_diagonal,
    at_least_zero,
    block_of,
    centre_runs,
    cholesky,
    float64,
    like,
    namespace,
    runs_of_rows,
    solve_lower,
    solve_positive,
    solve_upper,
    take,
    to_numpy,
    zeros_beside,
)
from corank.core.basis import Basis, FeatureBasis
from corank.core.observations import ScoredRows
from corank.core.sums import BLOCK_ENTRIES
from corank.solve.systems import EPSILON, DualSystem, ViewData, too_small

# from which a query is solved for alone, without the columns whose answer is the identity
LARGE_QUERY_ROWS = 128
# of a block of a matrix that is mirrored: the block and its image stay in the cache
MIRROR_ROWS = 256
# of a turned row, in units of the unit vectors it was turned with: a shorter one is zero
MIN_LENGTH = 1e-12

Sums = TypeVar("Sums", bound="_Sums")


@dataclass(frozen=True)
class QueryRun:
    """Queries of one size in one part of a layout, one after the other, from row `begin`."""

    part: int
    begin: int
    size: int
    count: int

    @property
    def rows(self) -> slice:
        """The rows of the queries."""
        return slice(self.begin, self.begin + self.size * self.count)

    def pieces(self, n_queries: int) -> Iterator[QueryRun]:
        """The run cut into runs of at most `n_queries` queries."""
        for first in range(0, self.count, max(n_queries, 1)):
            count = min(max(n_queries, 1), self.count - first)
            yield QueryRun(self.part, self.begin + first * self.size, self.size, count)


@dataclass(frozen=True)
class Layout:
    """All rows in the order of their parts, within a part by the size of queries, query by query.

    The parts are the folds in which scored queries are held out to choose parameters, the scored
    queries that never are, and, last, the unscored queries.

    order : (N,) row numbers
    bounds : (n_folds + 3,) first row of every part, and the end
    runs : queries of one size in one part, in order
    """

    order: Index
    bounds: Index
    runs: tuple[QueryRun, ...]
    n_folds: int

    @classmethod
    def of(cls, queries: Index, scored: Index, folds: Index) -> Layout:
        """From query codes (N,), the numbers of the scored rows (n,) and their folds (n,), −1 for
        none. O(N log N).

        All rows of a query are scored, in one fold, or none is.
        """
        n_folds = int(folds.max()) + 1
        part_numbers = np.full(len(queries), n_folds + 1, dtype=np.int64)
        part_numbers[scored] = np.where(folds < 0, n_folds, folds)
        sizes = np.bincount(queries)[queries]
        order = np.lexsort((queries, sizes, part_numbers))
        keys = np.stack([part_numbers[order], sizes[order]])
        changes = np.flatnonzero(np.any(keys[:, 1:] != keys[:, :-1], axis=0)) + 1
        runs = []
        for begin, end in zip(np.r_[0, changes], np.r_[changes, len(order)], strict=True):
            number, size = (int(key) for key in keys[:, begin])
            runs.append(QueryRun(number, int(begin), size, int(end - begin) // size))
        return cls(order, np.searchsorted(keys[0], np.arange(n_folds + 3)), tuple(runs), n_folds)

    @property
    def n_scored(self) -> int:
        """Number of scored rows; they come first."""
        return int(self.bounds[-2])

    @property
    def starts(self) -> Index:
        """The first row of every query."""
        return np.concatenate([run.begin + run.size * np.arange(run.count) for run in self.runs])

    @property
    def folds(self) -> Index:
        """Folds of the scored rows, −1 for none: (n,)."""
        return np.repeat(np.r_[np.arange(self.n_folds), -1], np.diff(self.bounds[:-1]))

    def rows(self, part: int) -> Index:
        """The rows of a part."""
        return np.arange(self.bounds[part], self.bounds[part + 1])


@dataclass(frozen=True)
class Completion:
    """Scores (m,) of the unscored rows, and the coefficients (r,) of RankRLS on all rows with them."""

    scores: Array
    coefficients: Array


# ---------------------------------------------------------------- what both forms share


def row_weights(problem: ScoredRows) -> Array:
    """d², the weight of the query in the loss, of every row: (N,)."""
    return take(problem.operator.within, problem.operator.queries)


def root_of_unscored(problem: ScoredRows, values: Array) -> Array:
    """J of values (m,) of the last rows of a problem: (m, 1)."""
    xp = namespace(values)
    n = len(problem.rows) - values.shape[0]
    everything = xp.concat([zeros_beside(n, values), values])
    return problem.operator.root(everything[:, None])[n:, :]


def completed_scores(problem: ScoredRows, predicted: Array, z: Array) -> Array:
    """Scores (m,) of the last rows with J y = z (m, 1) whose means are those of the predictions
    (m,).
    """
    xp, m = namespace(z), z.shape[0]
    shift = z - root_of_unscored(problem, predicted)
    zeros = zeros_beside((len(problem.rows) - m, 1), z)
    return predicted + problem.operator.unroot(xp.concat([zeros, shift]))[-m:, 0]


# ---------------------------------------------------------------- a basis of all rows


class DualTransduction:
    """All rows as basis: S is built once per alpha, the held-out residuals of all queries are T z,
    T = diag(S_UU)⁻¹ S.

    min ‖T (z_A + z_V)‖² + ‖√p (z_V − t)‖² with t = J f and p = pull/d²: (TᵀT + diag p)_VV z_V = p t
    − (TᵀT z_A)_V. The means of queries are eigenvectors of S, so T leaves them alone and no unknown
    has to be taken out of z_V. O(N³): one Cholesky factorisation with inverse, TᵀT in N m² and a
    Cholesky factorisation of size m for m of N rows.

    Parameters
    ----------
    problem : all rows in the order of the layout, scores 0 where there are none
    basis : these rows, or the columns
    """

    def __init__(self, problem: ScoredRows, basis: Basis, layout: Layout) -> None:
        self.problem, self.basis, self.layout = problem, basis, layout
        self.system = DualSystem([ViewData(problem, basis)])

    def _inverse(self, alpha: float) -> Array:
        """S (N, N)."""
        try:
            return inverse_positive(add_diagonal(self.system.matrix(), alpha))
        except ValueError:
            self.system.solve(alpha)  # says what is wrong
            raise

    def solve(self, alpha: float, pull: float, predicted: Array) -> Completion:
        """One Cholesky factorisation with inverse, and one of size m."""
        n, targets, inverse = (
            self.layout.n_scored,
            self.problem.targets[:, :1],
            self._inverse(alpha),
        )
        xp = namespace(inverse)
        columns = xp.concat([inverse[:, n:], inverse @ targets], axis=1)
        left = held_out_residuals(inverse, columns, self.layout.runs, first=n)
        products = left.T @ left
        target = root_of_unscored(self.problem, predicted)
        weights = pull / row_weights(self.problem)[n:]
        z = _solve_pulled(products[:-1, :-1], weights, target, products[:-1, -1:])
        coefficients = self.problem.operator.root_transposed(
            inverse @ xp.concat([targets[:n, :], z])
        )
        if isinstance(self.basis, FeatureBasis):
            coefficients = like(float64(self.problem.features).T @ coefficients, coefficients)
        return Completion(completed_scores(self.problem, predicted, z), coefficients[:, 0])

    def held_out(self, alpha: float, pulls: FloatArray) -> Array:
        """TᵀT once; per fold and pull one Cholesky factorisation of the size of the fold and the
        unscored rows.
        """
        layout, targets, inverse = self.layout, self.problem.targets[:, :1], self._inverse(alpha)
        xp, weights, n = namespace(inverse), row_weights(self.problem), layout.n_scored
        left = held_out_residuals(inverse, inverse, layout.runs, first=0)
        products = left.T @ left
        result = []
        for fold in range(layout.n_folds):
            fold_rows = layout.rows(fold)
            unscored = np.concatenate([fold_rows, np.arange(n, len(layout.order))])
            scored = np.setdiff1d(np.arange(n), fold_rows)
            z, strength = take(targets, scored), 1 / take(weights, unscored)
            predicted = -solve_positive(
                block_of(inverse, unscored, unscored), block_of(inverse, unscored, scored) @ z
            )
            inner, right = (
                block_of(products, unscored, unscored),
                block_of(products, unscored, scored) @ z,
            )
            columns = [
                _solve_pulled(inner, float(pull) * strength, predicted, right) for pull in pulls
            ]
            result.append(xp.concat(columns, axis=1)[: len(fold_rows), :])
        n_never = len(layout.rows(layout.n_folds))
        result.append(zeros_beside((n_never, len(pulls)), inverse))
        return xp.concat(result, axis=0)


def _solve_pulled(products: Array, weights: Array, target: Array, right: Array) -> Array:
    """(A + diag(weights))⁻¹ (weights·target − right): (m, 1)."""
    return solve_positive(add_diagonal(products, weights), weights[:, None] * target - right)


def held_out_residuals(inverse: Array, right: Array, runs: Sequence[QueryRun], first: int) -> Array:
    """(S_UU)⁻¹ B_U for every query U: S (N, N), B (N, c) → (N, c). O(N c m) for queries of m rows.

    The first columns of B are those of S from row `first` on: for a large query, those at its rows
    become the identity.
    """
    xp = namespace(inverse)
    blocks = []
    for run in runs:
        if run.size >= LARGE_QUERY_ROWS:
            queries = (query.rows for query in run.pieces(1))
            blocks += [
                _large_query(inverse[rows, rows], right[rows, :], rows.start - first)
                for rows in queries
            ]
            continue
        run_right = right[run.rows, :]
        ends = run.begin + run.size * np.arange(run.count + 1)
        pairs = zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        inner = xp.stack([inverse[begin:end, begin:end] for begin, end in pairs])
        # as products: `solve` copies all columns there and back
        residuals = xp.linalg.inv(inner) @ xp.reshape(run_right, (run.count, run.size, -1))
        blocks.append(xp.reshape(residuals, run_right.shape))
    return xp.concat(blocks, axis=0)


def _large_query(inner: Array, right: Array, column: int) -> Array:
    """(S_UU)⁻¹ B_U, of which the columns from `column` on, where that is not negative, are S_UU."""
    xp, m = namespace(inner), inner.shape[0]
    inner = xp.asarray(inner, copy=True)
    if column < 0:
        return solve_positive(inner, right)
    others = xp.concat([right[:, :column], right[:, column + m :]], axis=1)
    residuals = solve_positive(inner, others) if others.shape[1] else others
    identity = like(np.eye(m), inner)
    return xp.concat([residuals[:, :column], identity, residuals[:, column:]], axis=1)


def inverse_positive(matrix: Array) -> Array:
    """The inverse of a symmetric positive definite matrix (k, k), which may be overwritten;
    ValueError for others.

    O(k³): a third for the Cholesky factor, the rest for the inverse.
    """
    if not isinstance(matrix, np.ndarray):
        xp, factor = namespace(matrix), cholesky(matrix)
        return (
            xp.cholesky_inverse(factor)
            if hasattr(xp, "cholesky_inverse")
            else xp.linalg.inv(matrix)
        )
    lower, failed = lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
    if failed:
        raise ValueError("matrix is not positive definite")
    result = np.ascontiguousarray(lapack.dpotri(lower, lower=1, overwrite_c=1)[0].T)
    k = len(result)
    for begin in range(0, k, MIRROR_ROWS):  # only the upper half is there
        end = min(begin + MIRROR_ROWS, k)
        block = result[begin:end, begin:end]
        block[...] = np.triu(block) + np.triu(block, 1).T
        result[end:, begin:end] = result[begin:end, end:].T
    return result


# ---------------------------------------------------------------- a basis of r functions


class PrimalTransduction:
    """A subset of the rows, or the columns, as basis: only sums of size r couple the queries.

    With Φ the whitened features, L Lᵀ = ΦᵀJᵀJΦ + alpha I and F = J Φ L⁻ᵀ, alpha·S is I − F Fᵀ, and
    what the model without query U leaves of z is H_U⁻¹ (z_U − F_U b), H_U = I − F_U F_Uᵀ, b = Fᵀ z
    (r,). Given b the queries of (11) part; a multiplier μ (r,) holds b = Fᵀ z. Turned within
    queries so that H is diagonal (h), with w = 1/(1 + p h²), p = pull/d², v what the scored queries
    alone give for b and δ = b − v:

        (Σ_A Fᵀ h⁻² F + Σ_V Fᵀ p w F) δ − X μ = Σ_A Fᵀ h⁻² (z − F v)
        X δ + (Σ_V Fᵀ h² w F) μ = 0,    X = alpha L⁻¹ L⁻ᵀ + Σ_A FᵀF + Σ_V Fᵀ p h² w F
        z_V = F v + w F δ − h² w F μ

    for scored rows A and unscored rows V. The fit to all scores has the coefficients L⁻ᵀ b. O(N r
    (r + d)) for N rows, and 2 N r numbers of memory.

    Parameters
    ----------
    problem : all rows in the order of the layout, scores 0 where there are none
    basis : of r functions
    """

    def __init__(self, problem: ScoredRows, basis: Basis, layout: Layout) -> None:
        self.problem, self.basis, self.layout = problem, basis, layout
        white, n = basis.whitening, len(problem.rows)
        step = max(64, BLOCK_ENTRIES // basis.size)
        blocks = (basis.features(take(problem.features, run)) for run in runs_of_rows(n, step))
        phi = namespace(problem.reference).concat(
            [b if white.trivial else b @ white.matrix for b in blocks], axis=0
        )
        phi, _, _ = centre_runs(phi, layout.starts, None)
        phi *= namespace(phi).sqrt(row_weights(problem))[:, None]
        self.features = phi  # J Φ
        self.gram = phi.T @ phi

    def solve(self, alpha: float, pull: float, predicted: Array) -> Completion:
        """Two passes over the rows of size N r², and a system of size 2 r."""
        state = _AtAlpha(self, alpha)
        *scored_blocks, unscored_blocks = state.blocks
        scored = ScoredSums.of(
            [block for blocks in scored_blocks for block in blocks], self.problem.targets[:, :1]
        )
        solution = state.solve(scored, UnscoredSums.of(unscored_blocks, pull))
        z = namespace(self.gram).concat(
            [solution.values(block, pull) for block in unscored_blocks], axis=0
        )
        coefficients = (self.basis.whitening.matrix @ solve_upper(state.lower.T, solution.right))[
            :, 0
        ]
        return Completion(completed_scores(self.problem, predicted, z), coefficients)

    def held_out(self, alpha: float, pulls: FloatArray) -> Array:
        """The sums of every fold once, and those of all unscored rows once per pull."""
        state, xp = _AtAlpha(self, alpha), namespace(self.gram)
        *scored_blocks, unscored_blocks = state.blocks
        scored = [
            ScoredSums.of(blocks, self.problem.targets[:, :1]) if blocks else None
            for blocks in scored_blocks
        ]
        never = zeros_beside((len(self.layout.rows(self.layout.n_folds)), 1), self.gram)
        columns = []
        for pull in (float(pull) for pull in pulls):
            unscored = UnscoredSums.of(unscored_blocks, pull)
            values = []
            for fold, blocks in enumerate(scored_blocks[: self.layout.n_folds]):
                kept = _summed(
                    [
                        sums
                        for number, sums in enumerate(scored)
                        if number != fold and sums is not None
                    ]
                )
                solution = state.solve(kept, unscored + UnscoredSums.of(blocks, pull))
                values += [solution.values(block, pull) for block in blocks]
            columns.append(xp.concat([*values, never], axis=0))
        return xp.concat(columns, axis=1)


Transduction: TypeAlias = DualTransduction | PrimalTransduction


class _AtAlpha:
    """What depends on alpha but not on pull: L, and the turned rows of F in blocks, one list per
    part of the layout.
    """

    def __init__(self, system: PrimalTransduction, alpha: float) -> None:
        xp, gram = namespace(system.gram), system.gram
        try:
            self.lower = cholesky(add_diagonal(gram, alpha))
        except ValueError:
            size = float(xp.max(xp.linalg.diagonal(gram)))
            raise ValueError(too_small(alpha, size)) from None
        r = gram.shape[0]
        inverse = solve_lower(self.lower, like(np.eye(r), gram))
        self.penalty = alpha * (inverse @ inverse.T)
        self.blocks: list[list[Turned]] = [[] for _ in range(len(system.layout.bounds) - 1)]
        weights = to_numpy(row_weights(system.problem))
        for run in system.layout.runs:
            for piece in run.pieces(BLOCK_ENTRIES // (run.size * r) if run.size <= r else 1):
                rows = solve_lower(self.lower, system.features[piece.rows, :].T).T
                self.blocks[run.part].append(Turned.of(piece, rows, float(weights[piece.begin])))

    def solve(self, scored: ScoredSums, unscored: UnscoredSums) -> PrimalCompletion:
        """The system in the docstring of `PrimalTransduction`. O(r³)."""
        xp, r = namespace(self.lower), self.lower.shape[0]
        alone = solve_positive(self.penalty + scored.plain, scored.right)
        across = self.penalty + scored.plain + unscored.across
        top = xp.concat([scored.telling + unscored.pulled, -across], axis=1)
        bottom = xp.concat([across, unscored.held], axis=1)
        right = xp.concat(
            [scored.telling_right - scored.telling @ alone, xp.zeros_like(alone)], axis=0
        )
        both = xp.linalg.solve(xp.concat([top, bottom], axis=0), right)
        return PrimalCompletion(alone, both[:r, :], both[r:, :])


@dataclass(frozen=True)
class PrimalCompletion:
    """The solution of the system of size 2 r: v, δ and μ, (r, 1) each."""

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
        return block.back(
            f @ self.alone + free * (f @ self.change) - kept**2 * free * (f @ self.multiplier)
        )


@dataclass(frozen=True)
class Turned:
    """Rows of whole queries, turned within each query so that its block of alpha·S = I − F Fᵀ is
    diagonal.

    rows : their place in the layout
    features : (k, r) turned rows of F; kept : (k,) h, the diagonal; weight : d²
    vectors : (queries, size, size) what they were turned by; for a query of more rows than basis
        functions the (r, r) directions of its `source` (size, r), rows of F: it has r turned rows,
        the others are zero
    """

    rows: slice
    features: Array
    kept: Array
    weight: float
    vectors: Array
    source: Array | None

    @classmethod
    def of(cls, run: QueryRun, features: Array, weight: float) -> Turned:
        """From the rows of F (count·size, r) of a run, which is one query where that has more than
        r rows.

        O(count·size²·(size + r)), for such a large query O(size·r²).
        """
        xp, (k, r) = namespace(features), features.shape
        if run.size <= r:
            cube = xp.reshape(features, (run.count, run.size, r))
            squares, vectors = xp.linalg.eigh(cube @ xp.matrix_transpose(cube))
            turned, source = xp.reshape(xp.matrix_transpose(vectors) @ cube, (k, r)), None
        else:
            squares, vectors = xp.linalg.eigh(features.T @ features)
            turned, source = xp.sqrt(at_least_zero(squares))[:, None] * vectors.T, features
        kept = xp.reshape(1 - squares, (-1,))
        return cls(
            run.rows,
            turned,
            xp.where(kept > EPSILON, kept, 0 * kept + EPSILON),
            weight,
            vectors,
            source,
        )

    def free(self, pull: float) -> Array:
        """w = 1/(1 + p h²): (k,)."""
        return 1 / (1 + (pull / self.weight) * self.kept**2)

    def gram(self, weights: Array) -> Array:
        """Fᵀ diag(weights) F for weights (k,) of 0 or more: (r, r)."""
        rooted = namespace(weights).sqrt(weights)[:, None] * self.features
        return rooted.T @ rooted

    def turn(self, z: Array) -> Array:
        """Values of the rows (count·size, 1), turned like them: (k, 1)."""
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
        """Values (k, 1) divided by the lengths of the turned rows; 0 where a row is zero."""
        xp = namespace(z)
        lengths = xp.sqrt(xp.sum(self.features**2, axis=1))[:, None]
        there = lengths > MIN_LENGTH
        return xp.where(there, z / xp.where(there, lengths, 0 * lengths + 1), 0 * z)


@dataclass(frozen=True)
class _Sums:
    """Sums over rows, which add up field by field."""

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
        """The sums over blocks of rows, given z (N, 1) of all rows."""
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
        """The sums over blocks of rows."""
        return _summed([cls._of_block(block, pull) for block in blocks])

    @classmethod
    def _of_block(cls, block: Turned, pull: float) -> UnscoredSums:
        free, strength = block.free(pull), pull / block.weight
        held = block.gram(block.kept**2 * free)
        return cls(strength * block.gram(free), strength * held, held)


def _summed(terms: Sequence[Sums]) -> Sums:
    return sum(terms[1:], terms[0])
