"""Held-out errors for every alpha without refitting, in closed form or from per-fold sums.

Whole queries, single rows and single comparisons are deleted rows of the root J; items of one query are not, because
the query's mean and weight change with them: see math.md section 3. What has no closed form is refitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np

from corank._backend import Array, device, in_order, like, namespace, take, to_numpy
from corank.basis import Basis, KernelBasis
from corank.comparison import Blend
from corank.numbering import fold_numbers
from corank.problem import ComparedRows, FloatArray, Problem, ScoredRows
from corank.solvers.direct import DualSystem, PrimalSystem, System
from corank.solvers.path import best_position
from corank.statistics import BLOCK_ENTRIES, N_TARGETS, Index

Scoring: TypeAlias = Literal["squared", "rescaled", "disagreement"]
SCORINGS: tuple[Scoring, ...] = ("squared", "rescaled", "disagreement")
Splits: TypeAlias = Sequence[tuple[Index, Index]]

N_FOLDS = 10
MANY_FOLDS = 20  # more of them are left out one by one instead of keeping sums for each
# Predictions whose squares are less than this share of the scores' are zero but for rounding, which grows with the level
# of the scores: 1e-22 where they lie 1e4 times their spread from zero.
ROUNDING = 1e-20


@dataclass(frozen=True)
class HeldOut:
    """Errors (folds, alphas) summed over a fold, and how much each fold counts (folds,)."""

    errors: FloatArray
    sizes: FloatArray

    @classmethod
    def rescaled(
        cls, target: FloatArray, cross: FloatArray, own: FloatArray, sizes: FloatArray, *, least: float = 0.0
    ) -> HeldOut:
        """The loss ‖J (s − slope·f)‖² of predictions f under the one slope an alpha that fits all folds best.

        An order does not depend on the scale of f, but the plain loss blames alpha for shrinking it.

        Parameters
        ----------
        target : (g,) or (g, k), ‖J s‖² of each fold
        cross : (g, k), (J s)·(J f)
        own : (g, k), ‖J f‖²
        sizes : (g,) how much each fold counts; folds of size 0 are left out
        least : the smallest slope; −1 where s stands for what f leaves, s − f, which keeps the digits of small losses
        """
        target = target if target.ndim == 2 else target[:, None]
        own = np.where(own.sum(axis=0) > ROUNDING * target.sum(axis=0), own, 0.0)
        slope = best_slope(cross, own, least)
        telling = sizes > 0
        errors = np.maximum(target - 2 * slope * cross + slope**2 * own, 0.0)
        return cls(errors[telling], sizes[telling])

    @property
    def mean(self) -> FloatArray:
        """Error for every alpha: (alphas,)."""
        return np.asarray(self.errors.sum(axis=0) / self.sizes.sum())

    @property
    def standard_error(self) -> FloatArray:
        """Of the mean, over folds: (alphas,)."""
        k = len(self.sizes)
        if k < 2:
            return np.full(self.errors.shape[1], np.nan)
        spread = self.errors - self.sizes[:, None] * self.mean
        return np.asarray(np.sqrt((spread**2).sum(axis=0) * k / (k - 1)) / self.sizes.sum())


def chosen_position(found: HeldOut, alphas: FloatArray, scoring: Scoring) -> int:
    """The least error. For "rescaled" the largest alpha within one standard error of it, paired by what was held out.

    Where predictions may be rescaled a large alpha costs nothing by shrinking them, and few scores cannot tell it from
    a smaller one: then the simpler model is taken.
    """
    best = best_position(found.mean, alphas)
    if scoring != "rescaled" or len(found.sizes) < 2:
        return best
    gap = HeldOut(found.errors - found.errors[:, best : best + 1], found.sizes)
    close = np.flatnonzero(gap.mean <= gap.standard_error)
    return int(close[np.argmax(alphas[close])]) if len(close) else best


def best_slope(cross: FloatArray, own: FloatArray, least: float = 0.0) -> FloatArray:
    """argmin Σ_g ‖J s − slope·J f‖² from cross = (J s)·(J f) and own = ‖J f‖² (g, k), not below `least`: (k,).

    0 where all predictions are 0.
    """
    a, b = cross.sum(axis=0), own.sum(axis=0)
    return np.asarray(np.maximum(np.divide(a, b, out=np.zeros_like(b), where=b > 0), least))


@dataclass(frozen=True)
class Part:
    """Errors (folds, alphas) and sizes (folds,) of some folds.

    Where one factor is to be found for all parts: ‖J r‖², (J r)·(J f) and ‖J f‖² for r = s − f.
    """

    errors: FloatArray
    sizes: FloatArray
    cross: FloatArray | None = None
    own: FloatArray | None = None


def pooled(parts: Sequence[Part]) -> HeldOut:
    """All parts together; folds in which nothing can be told apart are left out."""
    errors, sizes = np.concatenate([part.errors for part in parts]), np.concatenate([part.sizes for part in parts])
    cross = [part.cross for part in parts if part.cross is not None]
    own = [part.own for part in parts if part.own is not None]
    if cross:
        return HeldOut.rescaled(errors, np.concatenate(cross), np.concatenate(own), sizes, least=-1.0)
    return HeldOut(errors[sizes > 0], sizes[sizes > 0])


def natural_folds(problem: Problem, *, dual: bool, seed: int) -> Index | None:
    """The learner's own folds, one number a unit; None where there is too little to hold anything out.

    Queries (or rows, where rows count one by one) one by one in the dual, in ten folds in the primal; items of the
    only query in up to ten folds of two or more.
    """
    groups = problem.groups
    if groups is not None:
        n_groups = int(groups.max()) + 1
        if n_groups < 2:
            return None
        return groups if dual else fold_numbers(0, n_groups, min(N_FOLDS, n_groups), seed)[groups]
    n = int(problem.targets.shape[0])
    return fold_numbers(0, n, min(N_FOLDS, n // 2), seed) if n >= 4 else None


def balanced_folds(n: int, n_folds: int, rng: np.random.Generator) -> Index:
    """Folds of equal size: every run of n_folds neighbours holds each fold once, in random order."""
    runs = -(-n // n_folds)
    return rng.permuted(np.tile(np.arange(n_folds), (runs, 1)), axis=1).ravel()[:n]


def folds_of_splits(problem: Problem, splits: Splits) -> Index | None:
    """The splits as fold numbers (-1: never held out) where a closed form serves them, else None.

    That takes disjoint test sets, everything else as training set, and whole groups.
    """
    n = int(problem.targets.shape[0])
    folds = np.full(n, -1, dtype=np.int64)
    for k, (train, test) in enumerate(splits):
        seen = np.zeros(n, dtype=bool)
        seen[train] = seen[test] = True
        if len(train) + len(test) != n or not seen.all() or np.any(folds[test] >= 0):
            return None
        folds[test] = k
    return folds if covers_groups(problem, folds) else None


def covers_groups(problem: Problem, folds: Index) -> bool:
    """Whether folds, one number a unit, cut through no group."""
    if problem.groups is None:
        return True
    per_group = np.full(int(problem.groups.max()) + 1, -2, dtype=np.int64)
    per_group[problem.groups] = folds
    return bool(np.all(per_group[problem.groups] == folds))


def has_closed_form(problem: Problem, folds: Index, *, dual: bool) -> bool:
    """Whether `held_out` serves these folds: whole groups always, items of the only query in most cases."""
    if problem.groups is not None:
        return True
    if dual:
        return isinstance(problem, ScoredRows) and not isinstance(problem.comparison, Blend)
    return int(folds.max()) < MANY_FOLDS


def keeps_sums(folds: Index) -> bool:
    """Whether one pass keeps sums for every fold."""
    return int(folds.max()) < MANY_FOLDS


def leaves_rows_out(system: PrimalSystem, blocks: Sequence[Index]) -> bool:
    """Whether folds are small enough to be left out row by row, which is cubic in their size."""
    return max(len(block) for block in blocks) <= 4 * system.basis.size


def _in_batches(
    problem: Problem, system: PrimalSystem, alphas: FloatArray, folds: Index, *, scoring: Scoring, centred: bool
) -> HeldOut:
    """Many large folds: sums for some of them a pass."""
    parts, predictions = [], 0.0 * problem.targets[:, :1]
    for first in range(0, int(folds.max()) + 1, MANY_FOLDS - 1):
        own = np.where((folds >= first) & (folds < first + MANY_FOLDS - 1), folds - first, -1)
        part = PrimalSystem.gathered(problem, system.basis, np.where(own < 0, own.max() + 1, own))
        if scoring == "disagreement":
            predictions = predictions + _predictions_from_sums(problem, part, alphas, blocks_of_folds(own), centred)
        else:
            parts.append(losses_from_sums(part, alphas, int(own.max()) + 1, scoring, centred))
    return pooled(parts or [_misordered(problem, predictions, folds)])


def splits_of_folds(folds: Index) -> Splits:
    """(train, test) unit numbers of every fold."""
    everything = np.arange(len(folds))
    return [(np.setdiff1d(everything, block), block) for block in blocks_of_folds(folds) if len(block)]


def held_out(
    problem: Problem, system: System, alphas: FloatArray, folds: Index, *, scoring: Scoring, centred: bool
) -> HeldOut:
    """Held-out errors of every alpha in closed form, kernel and basis kept.

    Parameters
    ----------
    problem : Problem
    system : its system; a PrimalSystem gathered with these folds, or with none where they are more than MANY_FOLDS
    folds : (n_units,) fold numbers, -1 is never held out; unions of whole groups, or any items of the only query
    centred : whether the mean score of the rows that are kept is taken out first (regression with an intercept)
    """
    blocks = blocks_of_folds(folds)
    if isinstance(system, PrimalSystem) and not keeps_sums(folds) and not leaves_rows_out(system, blocks):
        return _in_batches(problem, system, alphas, folds, scoring=scoring, centred=centred)
    if isinstance(system, PrimalSystem) and system.statistics.n_folds > 1:
        if scoring != "disagreement":
            return pooled([losses_from_sums(system, alphas, len(blocks), scoring, centred)])
        predictions = _predictions_from_sums(problem, system, alphas, blocks, centred)
    elif problem.groups is None:
        assert isinstance(problem, ScoredRows)
        assert isinstance(system, DualSystem)
        predictions = problem.predictions_of_items(_leave_items_out(problem, system, alphas, blocks))
    elif isinstance(system, DualSystem):
        predictions = problem.predictions(_leave_groups_out(problem, system, alphas, blocks, centred))
    else:
        assert isinstance(system, PrimalSystem)
        predictions = problem.predictions(_leave_groups_out_primal(problem, system, alphas, blocks, centred))
    rescaled = scoring == "rescaled" and centred
    offsets = kept_means(problem.targets, blocks) if rescaled else np.zeros(len(blocks))
    return pooled([errors_of(problem, predictions, folds, scoring, offsets)])


def refitted(
    problem: Problem, basis: Basis, alphas: FloatArray, splits: Splits, *, dual: bool, scoring: Scoring, centred: bool
) -> HeldOut:
    """Held-out errors by fitting once a split, for splits that have no closed form."""
    parts = []
    for train, test in splits:
        kept, left = problem.take(train), problem.take(test)
        own = _restricted(problem, basis, train) if dual else basis
        system: System = DualSystem(kept, own) if dual else PrimalSystem.gathered(kept, own)
        offset = kept.mean_score if centred else 0.0
        coefficients = system.path(alphas, offset)
        predictions = unit_predictions(left, own, coefficients, np.arange(len(test))) + offset
        parts.append(errors_of(left, predictions, np.zeros(len(test), dtype=np.int64), scoring, np.full(1, offset)))
    return pooled(parts)


def leave_out(
    vectors: Array,
    weights: Array,
    targets: Array,
    blocks: Sequence[Index],
    *,
    projected: Array | None = None,
    complement: bool = False,
) -> list[Array]:
    """Residuals of each block under the model fitted without it, for every alpha.

    With S = V diag(w) Vᵀ = (J K Jᵀ + alpha I)⁻¹ they are (S_UU)⁻¹ (S y)_U; with `complement`, S = I − V diag(w) Vᵀ.
    O(n k m) an alpha for n rows in blocks of m.

    Parameters
    ----------
    vectors : (n, k)
    weights : (k, a), one column an alpha
    targets : (n, t)
    blocks : row numbers, disjoint
    projected : (k, t), Vᵀ y over all rows where `vectors` and `targets` are some of them

    Returns
    -------
    list of (m, a, t), one a block
    """
    xp = namespace(vectors)
    (k, a), t = weights.shape, int(targets.shape[1])
    projected = vectors.T @ targets if projected is None else projected
    filtered = xp.reshape(weights[:, :, None] * projected[:, None, :], (k, a * t))
    results: dict[int, Array] = {}
    sizes = np.asarray([len(block) for block in blocks])
    for m in (int(size) for size in np.unique(sizes) if size):
        same = np.flatnonzero(sizes == m)
        step = max(1, BLOCK_ENTRIES // 2 // (m * k))
        for begin in range(0, len(same), step):
            members = same[begin : begin + step]
            rows = np.concatenate([blocks[i] for i in members])
            part, shape = take(vectors, rows), (len(members), m)
            right = xp.reshape(part @ filtered, (*shape, a, t))
            if complement:
                right = xp.reshape(take(targets, rows), (*shape, 1, t)) - right
            if m == 1:
                inner = (part * part) @ weights
                solved = right / (1 - inner if complement else inner)[:, None, :, None]
            else:
                cube = xp.reshape(part, (*shape, k))
                parts = [_solve_blocks(cube, weights[:, j], right[:, :, j, :], complement) for j in range(a)]
                solved = xp.stack(parts, axis=2)
            results.update((int(i), solved[position, ...]) for position, i in enumerate(members))
    empty = xp.zeros((0, a, t), dtype=xp.float64, device=device(vectors))
    return [results.get(i, empty) for i in range(len(blocks))]


def _solve_blocks(part: Array, w: Array, right: Array, complement: bool) -> Array:
    """(S_UU)⁻¹ right for one alpha: part (blocks, m, k), right (blocks, m, t)."""
    xp = namespace(part)
    inner = (part * w[None, None, :]) @ xp.matrix_transpose(part)
    if complement:
        inner = xp.eye(inner.shape[1], dtype=inner.dtype, device=device(inner))[None, :, :] - inner
    return xp.linalg.solve(inner, right)


def _leave_groups_out(
    problem: Problem, system: DualSystem, alphas: FloatArray, blocks: Sequence[Index], centred: bool
) -> Array:
    """Root residuals (n_units, a) of blocks that are whole groups."""
    weights = _inverse(system.spectrum.values, alphas)
    left = leave_out(system.spectrum.vectors, weights, problem.targets, blocks)
    return scattered(problem.targets, blocks, left, centred)


def _leave_groups_out_primal(
    problem: Problem, system: PrimalSystem, alphas: FloatArray, blocks: Sequence[Index], centred: bool
) -> Array:
    """The same from the spectrum of the sums, in a second pass over the rows. O(n r (r + d + m a))."""
    white, vectors = system.basis.whitening.matrix, system.spectrum.vectors
    projected = vectors.T @ system.gram.matrix[:-N_TARGETS, -N_TARGETS:]
    weights = _inverse(system.spectrum.values, alphas)
    left: list[Array] = []
    for part in _batches(blocks, int(vectors.shape[0])):
        rows = np.concatenate(part)
        own = problem.take(rows)
        phi = own.unit_features(system.basis.features, np.arange(len(rows))) @ (white @ vectors)
        ends = np.cumsum([len(block) for block in part])
        local = [np.arange(end - len(block), end) for block, end in zip(part, ends, strict=True)]
        left += leave_out(own.unit_root(phi), weights, own.targets, local, projected=projected, complement=True)
    return scattered(problem.targets, blocks, left, centred)


def scattered(targets: Array, blocks: Sequence[Index], left: Sequence[Array], centred: bool) -> Array:
    """Residuals of s, less those of the mean score of the rows kept: (n_units, a)."""
    if not centred:
        return in_place(blocks, [both[..., 0] for both in left], targets.shape[0])
    offsets = kept_means(targets, blocks)
    parts = [both[..., 0] - float(offset) * both[..., 1] for both, offset in zip(left, offsets, strict=True)]
    return in_place(blocks, parts, targets.shape[0])


def kept_means(targets: Array, blocks: Sequence[Index]) -> FloatArray:
    """The mean score of the rows that are kept when a block is left out, where single rows count: (blocks,)."""
    products = to_numpy(targets * targets[:, 1:])  # w s and w
    kept = products.sum(axis=0) - _block_sums(products, blocks)
    return np.asarray(kept[:, 0] / kept[:, 1])


def in_place(blocks: Sequence[Index], parts: Sequence[Array], n: int) -> Array:
    """The rows of each block's part (m, a) where they belong, zeros where there is no block: (n, a)."""
    xp = namespace(parts[0])
    placed = np.concatenate(blocks)
    rest = np.setdiff1d(np.arange(n), placed)
    zeros = xp.zeros((len(rest), parts[0].shape[1]), dtype=xp.float64, device=device(parts[0]))
    return take(xp.concat([*parts, zeros], axis=0), np.argsort(np.concatenate([placed, rest])))


def _leave_items_out(problem: ScoredRows, system: DualSystem, alphas: FloatArray, blocks: Sequence[Index]) -> Array:
    """√w (s − f − level) of items left out of the only query: (n_units, a).

    J = √within P D^½: with the mean direction taken out of the eigenvectors they diagonalise the bordered system of
    math.md, in which alpha is divided by what the query costs without the items.
    """
    operator, spectrum = problem.operator, system.spectrum
    xp = namespace(spectrum.values)
    level = (operator.root_weights / xp.sqrt(operator.totals[0]))[:, None]
    vectors = spectrum.vectors - level @ (level.T @ spectrum.vectors)
    values = spectrum.values / operator.within[0]
    targets = (operator.root_weights * problem.reference)[:, None]
    projected = vectors.T @ targets
    blocks = [block for block in blocks if len(block)]
    parts = []
    for block in blocks:
        own = take(operator.root_weights, block)
        _, within = operator.comparison.scales(operator.totals - xp.sum(own * own), operator.counts - float(len(block)))
        weights = _inverse(values, alphas / float(within[0]))
        (left,) = leave_out(vectors, weights, targets, [block], projected=projected)
        parts.append(left[..., 0])
    return in_place(blocks, parts, targets.shape[0])


def losses_from_sums(system: PrimalSystem, alphas: FloatArray, n_folds: int, scoring: Scoring, centred: bool) -> Part:
    """The losses of every fold under the coefficients that did not see it, from its sums."""

    def products(fold: int) -> tuple[list[FloatArray], float]:
        own = system.statistics.of(fold)
        coefficients, offset = system.path_without(fold, alphas, centred)
        found = [own.loss(coefficients, offset)]
        if scoring == "rescaled":
            found += own.explained(coefficients, offset)
        return [to_numpy(one) for one in found], float(own.freedom)

    telling = [fold for fold in range(n_folds) if system.statistics.of(fold).freedom > 0]
    results = list(in_order(products, telling, system.gram.matrix))
    kinds = 3 if scoring == "rescaled" else 1
    found = np.reshape([found for found, _ in results], (len(results), kinds, len(alphas)))
    return Part(found[:, 0], np.asarray([size for _, size in results]), *np.moveaxis(found[:, 1:], 1, 0))


def _predictions_from_sums(
    problem: Problem, system: PrimalSystem, alphas: FloatArray, blocks: Sequence[Index], centred: bool
) -> Array:
    """A second pass: each fold under the coefficients that did not see it, (n_units, a)."""
    parts = []
    for fold, block in enumerate(blocks):
        coefficients, offset = system.path_without(fold, alphas, centred)
        own = system.basis.whitening.matrix @ coefficients
        parts.append(unit_predictions(problem, system.basis, own, block) + offset)
    return in_place(blocks, parts, problem.targets.shape[0])


def unit_predictions(problem: Problem, basis: Basis, coefficients: Array, units: Index) -> Array:
    """Predictions of units for columns of basis coefficients (r, a): (len(units), a)."""
    step = max(64, BLOCK_ENTRIES // basis.size)
    parts = [
        problem.unit_features(basis.features, units[begin : begin + step]) @ coefficients
        for begin in range(0, len(units), step)
    ]
    return namespace(coefficients).concat(parts, axis=0)


def errors_of(problem: Problem, predictions: Array, folds: Index, scoring: Scoring, offsets: FloatArray) -> Part:
    """The errors of held-out predictions (n_units, alphas), which contain the offset (folds,) of their fold."""
    if scoring == "disagreement":
        return _misordered(problem, predictions, folds)
    problem = _within_folds(problem, folds)
    residuals = to_numpy(problem.residuals(predictions))
    blocks = [block for block in blocks_of_folds(folds) if len(block)]
    sizes = np.asarray([float(problem.freedom(block)) for block in blocks])
    errors = _block_sums(residuals**2, blocks)
    if scoring == "squared":
        return Part(errors, sizes)
    fitted = to_numpy(problem.unit_root(predictions - like(offsets[folds], predictions)[:, None]))
    return Part(errors, sizes, _block_sums(residuals * fitted, blocks), _block_sums(fitted**2, blocks))


def _misordered(problem: Problem, predictions: Array, folds: Index) -> Part:
    """Shares of wrongly ordered pairs, one row a query (or comparison) where that is defined."""
    kept = np.flatnonzero(folds >= 0)
    shares = _within_folds(problem, folds).take(kept).misordered(take(predictions, kept))
    shares = shares[np.isfinite(shares).all(axis=1)]
    return Part(shares, np.ones(len(shares)))


def _within_folds(problem: Problem, folds: Index) -> Problem:
    """Items of the only query are compared within their fold."""
    if problem.groups is not None:
        return problem
    assert isinstance(problem, ScoredRows)
    return problem.regrouped(np.where(folds < 0, folds.max() + 1, folds))


def _block_sums(values: FloatArray, blocks: Sequence[Index]) -> FloatArray:
    """The sum over each block of rows (n, k): (blocks, k)."""
    return np.stack([values[block].sum(axis=0) for block in blocks])


def _restricted(problem: Problem, basis: Basis, units: Index) -> Basis:
    """The basis that the dual system of some units has: their rows, where units are rows."""
    if isinstance(problem, ComparedRows) or not isinstance(basis, KernelBasis):
        return basis
    return replace(basis, points=take(basis.points, units), own_gram=None)


def _inverse(values: Array, alphas: FloatArray) -> Array:
    """1 / (eigenvalue + alpha): (k, a)."""
    return 1 / (values[:, None] + like(alphas, values)[None, :])


def blocks_of_folds(folds: Index) -> list[Index]:
    """The units of every fold; of those never held out none."""
    order = np.argsort(folds, kind="stable")
    bounds = np.searchsorted(folds[order], np.arange(int(folds.max()) + 2))
    return [order[begin:end] for begin, end in pairwise(bounds)]


def _batches(blocks: Sequence[Index], width: int) -> Iterator[list[Any]]:
    """Runs of blocks that make about one block of features together."""
    batch: list[Any] = []
    rows = 0
    for block in blocks:
        batch.append(block)
        rows += len(block)
        if rows * width >= 4 * BLOCK_ENTRIES:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch
