"""The best of a path.

Held-out errors for every alpha without refitting, in closed form or from per-fold sums.

Whole queries, single rows and single comparisons are deleted rows of the root J; items of one query are not, because
the query's mean and weight change with them: see math.md section 3. What has no closed form is refitted.

The pair to take.

Held-out errors of views that agree from the sums of every fold: for many scored rows.

Held-out errors of views that agree: every pair of alpha and agreement, without one pass over the rows a fold.

Whole queries (rows, comparisons) and items of one query are left out in closed form, in every view at once. Many large
folds come from per-fold sums. What has neither is fitted again, with what the unscored rows say kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np

from corank._arrays import (
    Array,
    FloatArray,
    Index,
    device,
    eigh,
    in_order,
    like,
    namespace,
    segment_sum,
    take,
    to_numpy,
)
from corank.basis import Basis, FeatureMap, KernelBasis
from corank.gram import BLOCK_ENTRIES, N_TARGETS, Gram, Statistics
from corank.loss import Blend
from corank.problem import ComparedRows, Problem, ScoredRows
from corank.solvers.co_kernel import CoKernel, grouped_by_ratio
from corank.solvers.folds import N_FOLDS, Folding, Grid, Splits, blocks_of, blocks_of_folds, row_numbers
from corank.solvers.least_squares import (
    AgreementSystem,
    DualAgreement,
    DualSystem,
    Inverse,
    JointFeatures,
    PrimalAgreement,
    PrimalSystem,
    Spectrum,
    System,
    Unscored,
    ViewData,
    block_diagonal,
    mean_score,
    same_scores,
)
from corank.views import SideBySide


def best_position(error: FloatArray, alpha: FloatArray) -> int:
    """The smallest error; among equals the largest alpha, the simplest model."""
    least = np.nanmin(error)
    ties = np.flatnonzero(error <= least + 1e-12 * abs(least))
    return int(ties[np.argmax(alpha[ties])])


Scoring: TypeAlias = Literal["squared", "rescaled", "disagreement"]
SCORINGS: tuple[Scoring, ...] = ("squared", "rescaled", "disagreement")

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
class FoldErrors:
    """Errors (folds, alphas) and sizes (folds,) of some folds.

    Where one factor is to be found for all parts: ‖J r‖², (J r)·(J f) and ‖J f‖² for r = s − f.
    """

    errors: FloatArray
    sizes: FloatArray
    cross: FloatArray | None = None
    own: FloatArray | None = None


def pooled(parts: Sequence[FoldErrors]) -> HeldOut:
    """All parts together; folds in which nothing can be told apart are left out."""
    errors, sizes = np.concatenate([part.errors for part in parts]), np.concatenate([part.sizes for part in parts])
    cross = [part.cross for part in parts if part.cross is not None]
    own = [part.own for part in parts if part.own is not None]
    if cross:
        return HeldOut.rescaled(errors, np.concatenate(cross), np.concatenate(own), sizes, least=-1.0)
    return HeldOut(errors[sizes > 0], sizes[sizes > 0])


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


def losses_from_sums(
    system: PrimalSystem, alphas: FloatArray, n_folds: int, scoring: Scoring, centred: bool
) -> FoldErrors:
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
    return FoldErrors(found[:, 0], np.asarray([size for _, size in results]), *np.moveaxis(found[:, 1:], 1, 0))


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


def errors_of(problem: Problem, predictions: Array, folds: Index, scoring: Scoring, offsets: FloatArray) -> FoldErrors:
    """The errors of held-out predictions (n_units, alphas), which contain the offset (folds,) of their fold."""
    if scoring == "disagreement":
        return _misordered(problem, predictions, folds)
    problem = _within_folds(problem, folds)
    residuals = to_numpy(problem.residuals(predictions))
    blocks = [block for block in blocks_of_folds(folds) if len(block)]
    sizes = np.asarray([float(problem.freedom(block)) for block in blocks])
    errors = _block_sums(residuals**2, blocks)
    if scoring == "squared":
        return FoldErrors(errors, sizes)
    fitted = to_numpy(problem.unit_root(predictions - like(offsets[folds], predictions)[:, None]))
    return FoldErrors(errors, sizes, _block_sums(residuals * fitted, blocks), _block_sums(fitted**2, blocks))


def _misordered(problem: Problem, predictions: Array, folds: Index) -> FoldErrors:
    """Shares of wrongly ordered pairs, one row a query (or comparison) where that is defined."""
    kept = np.flatnonzero(folds >= 0)
    shares = _within_folds(problem, folds).take(kept).misordered(take(predictions, kept))
    shares = shares[np.isfinite(shares).all(axis=1)]
    return FoldErrors(shares, np.ones(len(shares)))


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


def chosen_pair(found: HeldOut, grid: Grid, pairs: Index, scoring: Scoring) -> int:
    """Of these pairs the one to take: an alpha for each agreement, then the agreement of least error."""
    rows = pairs // len(grid.alphas)
    best = []
    for row in np.unique(rows):
        own = pairs[rows == row]
        part = HeldOut(found.errors[:, own], found.sizes)
        best.append(int(own[chosen_position(part, grid.alphas_of(own), scoring)]))
    numbers = np.asarray(best)
    return int(numbers[best_position(found.mean[numbers], grid.alphas_of(numbers))])


Sums: TypeAlias = tuple[FloatArray, ...]


def fold_sums(system: PrimalAgreement, folding: Folding, grid: Grid, centred: bool) -> list[Sums]:
    """‖J s‖², (J s)·(J f), ‖J f‖² of every fold and pair, and the rank of the loss: one entry a view, or one for all.

    One eigendecomposition a fold and agreement, no further pass over the rows. O(folds·agreements·(Σ r_v)³).
    """
    together = same_scores(system.problems)
    sums = _joint_statistics(system, folding) if together else _own_statistics(system, folding)
    return errors_from_sums(system, sums, folding.n_folds, grid, centred=centred, together=together)


def errors_from_sums(
    system: PrimalAgreement, sums: Sequence[Statistics], n_folds: int, grid: Grid, *, centred: bool, together: bool
) -> list[Sums]:
    """The same from sums of every fold with the penalties inside: of all views side by side (`together`), or one a view."""
    jobs = [(fold, row) for fold in range(n_folds) for row in range(len(grid.agreements))]
    ends = system.ends if together else None

    def one(job: tuple[int, int]) -> list[Sums]:
        fold, row = job
        without = [own.without(fold) for own in sums]
        offset = _mean_of(without) if centred else 0.0
        blocks, rights = _parts(without, offset, ends)
        matrix = block_diagonal(blocks) + 2 * float(grid.agreements[row]) * system.disagreement
        spectrum = Spectrum(*eigh(matrix))
        xp = namespace(matrix)
        white = spectrum.solve(xp.concat(rights, axis=0), like(grid.alphas, matrix))
        if together:
            return [_gram_sums(sums[0].of(fold), white / len(system.views), offset)]
        own = [white[b:e, :] for b, e in pairwise(system.ends)]
        return [_gram_sums(part.of(fold), c, offset) for part, c in zip(sums, own, strict=True)]

    results = list(in_order(one, jobs, system.disagreement))
    columns = len(grid.agreements)
    folds = [results[k * columns : (k + 1) * columns] for k in range(n_folds)]
    found: list[Sums] = []
    for view in range(len(results[0])):
        rows = [tuple(np.concatenate([cell[view][part] for cell in row]) for part in range(3)) for row in folds]
        sizes = np.asarray([row[0][view][3][0] for row in folds])
        found.append((*(np.stack([row[part] for row in rows]) for part in range(3)), sizes))
    return found


def _mean_of(grams: Sequence[Gram]) -> float:
    """The mean of all scores that were summed, where single rows count."""
    total, weight = (sum(float(gram.matrix[part, -1]) for gram in grams) for part in (-2, -1))
    return total / weight if weight > 0 else 0.0


def _parts(grams: Sequence[Gram], offset: float, ends: Index | None) -> tuple[list[Array], list[Array]]:
    """Each view's own sums and right-hand side, from those of all views side by side (`ends`) or one by one."""
    if ends is None:
        return [g.features for g in grams], [g.right(offset) for g in grams]
    features, right = grams[0].features, grams[0].right(offset)
    spans = list(pairwise(ends))
    return [features[b:e, b:e] for b, e in spans], [right[b:e, :] for b, e in spans]


def _gram_sums(gram: Gram, coefficients: Array, offset: float) -> Sums:
    """‖J s‖², (J s)·(J f), ‖J f‖² for columns of coefficients, and the rank of the loss."""
    xp = namespace(coefficients)
    zeros = xp.zeros((coefficients.shape[0], 1), dtype=xp.float64, device=device(coefficients))
    goal = float(gram.loss(zeros, offset)[0])
    cross = to_numpy(xp.sum(coefficients * gram.right(offset), axis=0))
    own = to_numpy(xp.sum(coefficients * (gram.features @ coefficients), axis=0))
    return np.full(len(cross), goal), cross, own, np.asarray([float(gram.freedom)])


def _joint_statistics(system: PrimalAgreement, folding: Folding) -> list[Statistics]:
    """The sums of all views side by side, penalties inside."""
    maps = [FeatureMap(view.basis) for view in system.views]
    problem = system.views[0].problem
    rows = SideBySide(tuple((view.problem.features, None) for view in system.views))
    joint: Any
    if isinstance(problem, ScoredRows):
        joint = replace(problem, rows=replace(problem.rows, features=rows))
    else:
        joint = replace(problem, features=rows)
    features = JointFeatures(maps)
    statistics = joint.statistics(features, features.size, _every(folding.codes[0]))
    return [statistics.mapped(block_diagonal([_finish(system, v, phi) for v, phi in enumerate(maps)]))]


def _own_statistics(system: PrimalAgreement, folding: Folding) -> list[Statistics]:
    result = []
    for v, (view, codes) in enumerate(zip(system.views, folding.codes, strict=True)):
        phi = FeatureMap(view.basis)
        sums = view.problem.statistics(phi, phi.size, _every(codes))
        result.append(_with_folds(sums.mapped(_finish(system, v, phi)), folding.n_folds))
    return result


def _with_folds(statistics: Statistics, n_folds: int) -> Statistics:
    """The same with folds that are empty at the end: a view need not have scores in all of them."""
    empty = Gram(0.0 * statistics.queries[0].matrix)
    more = n_folds - statistics.n_folds
    return replace(
        statistics,
        queries=(*statistics.queries, *(empty for _ in range(more))),
        parts=(*statistics.parts, *(None for _ in range(more))),
    )


def _every(codes: Index) -> Index:
    return np.where(codes < 0, codes.max() + 1, codes)


def _finish(system: PrimalAgreement, view: int, phi: FeatureMap) -> Array:
    """What turns the summed features of a view into whitened ones, its penalty inside."""
    white = system.maps[view]
    if not phi.whitened:
        return white
    xp = namespace(white)
    eye = xp.eye(white.shape[1], dtype=xp.float64, device=device(white))
    return eye / float(np.sqrt(system.views[view].penalty))


MANY_UNITS = 40  # times as many units as features: then sums of ten folds are cheaper than leaving single ones out
LARGE_UNITS = 2**25  # entries of the features of all units that may be held


# ---------------------------------------------------------------- errors


def held_out_views(
    system: AgreementSystem, folding: Folding, grid: Grid, *, scoring: Scoring, centred: bool, seed: int
) -> HeldOut:
    """The errors of every pair: (folds, pairs)."""
    by_kernel = system.few or _only_by_kernel(system, folding, scoring)
    if not by_kernel and isinstance(system, PrimalAgreement) and _wants_sums(system, folding):
        if scoring == "disagreement":
            raise ValueError(
                "scoring='disagreement' needs every held-out row with several views; with this many scored rows use "
                "'squared' or 'rescaled'."
            )
        return joined(fold_sums(system, folding.coarser(N_FOLDS, seed), grid, centred), scoring)
    problems = system.problems
    offsets = means_without(problems, folding) if centred else np.zeros(folding.n_folds)
    if by_kernel:
        residuals = left_out(system.cokernel, folding, grid, offsets)
    else:
        residuals = _left_out_by_agreement(system, folding, grid, offsets)
    return scored(problems, folding, residuals, offsets, scoring, together=same_scores(system.problems))


def _items_change_weight(system: AgreementSystem, folding: Folding) -> bool:
    """Whether leaving items out changes what the rest of their query weighs beside the disagreement."""
    return folding.items and getattr(system.problems[0].comparison, "weighting", "size") != "size"  # type: ignore[union-attr]


def _only_by_kernel(system: AgreementSystem, folding: Folding, scoring: Scoring) -> bool:
    """Whether only ratios of the parameters will do: no decomposition at one agreement serves all folds."""
    if not _items_change_weight(system, folding):
        return False
    return not isinstance(system, PrimalAgreement) or (scoring == "disagreement" and not _has_many_units(system))


def _has_many_units(system: PrimalAgreement) -> bool:
    return system.n_units > MANY_UNITS * int(system.ends[-1])


def _wants_sums(system: PrimalAgreement, folding: Folding) -> bool:
    """Whether per-fold sums are cheaper than leaving single groups out, or the only way."""
    size, largest = int(system.ends[-1]), max(len(block) for block in folding.blocks())
    if _items_change_weight(system, folding):
        return True
    held = system.n_units * size // len(system.views)
    return _has_many_units(system) or largest > size or held > LARGE_UNITS


def means_without(problems: Sequence[Problem], folding: Folding) -> FloatArray:
    """The mean of all given scores but a fold's."""
    targets = np.concatenate([to_numpy(problem.targets) for problem in problems])
    products = targets * targets[:, 1:]
    kept = products.sum(axis=0) - np.stack([products[block].sum(axis=0) for block in folding.blocks()])
    return np.asarray(kept[:, 0] / np.where(kept[:, 1] > 0, kept[:, 1], 1.0))


def left_out(cokernel: CoKernel, folding: Folding, grid: Grid, offsets: FloatArray) -> Array:
    """Residuals of everything held out, roots stacked over the views: (N, pairs)."""
    blocks = folding.blocks()
    groups = grouped_by_ratio(grid.alphas, grid.agreements)
    problems = cokernel.problems

    def one(group: tuple[float, Index]) -> tuple[Index, Array]:
        ratio, pairs = group
        values, vectors = cokernel.spectrum(ratio)
        alphas = grid.alphas_of(pairs)
        if folding.items:
            return pairs, _items_left_out(problems, values, vectors, alphas, blocks)
        inverse = Inverse(vectors, values)
        return pairs, _blocks_left_out(inverse, cokernel.targets, alphas, blocks, offsets)

    found = list(in_order(one, groups, cokernel.targets))
    columns = np.concatenate([pairs for pairs, _ in found])
    xp = namespace(cokernel.targets)
    together = xp.concat([residuals for _, residuals in found], axis=1)
    return xp.take(together, like(np.argsort(columns), together, "int64"), axis=1)


def _blocks_left_out(
    inverse: Inverse, targets: Array, alphas: FloatArray, blocks: Sequence[Index], offsets: FloatArray
) -> Array:
    """Whole groups: (N, a)."""
    weights = 1 / (inverse.values[:, None] + like(alphas, inverse.values)[None, :])
    left = leave_out(
        inverse.vectors, weights, targets, blocks, projected=inverse.projected, complement=inverse.complement
    )
    parts = [both[..., 0] - float(offset) * both[..., 1] for both, offset in zip(left, offsets, strict=True)]
    return in_place(blocks, parts, int(targets.shape[0]))


def _items_left_out(
    problems: Sequence[Any], values: Array, vectors: Array, alphas: FloatArray, blocks: Sequence[Index]
) -> Array:
    """√w (s − f − level) of items left out of the only query of every view: (N, a). See holdout._leave_items_out."""
    levels, targets = _levels(problems), _weighted_scores(problems)
    vectors = vectors - levels @ (levels.T @ vectors)
    operator = problems[0].operator
    values = values / operator.within[0]
    ends = np.cumsum([0, *(len(problem.rows) for problem in problems)])
    parts, kept = [], [block for block in blocks if len(block)]
    projected = vectors.T @ targets
    for block in kept:
        first = block[block < ends[1]]
        within = operator.within
        if operator.comparison.weighting != "size":
            own = take(operator.root_weights, first)
            total = operator.totals - namespace(own).sum(own * own)
            _, within = operator.comparison.scales(total, operator.counts - float(len(first)))
        weights = 1 / (values[:, None] + like(alphas / float(within[0]), values)[None, :])
        (left,) = leave_out(vectors, weights, targets, [block], projected=projected)
        parts.append(left[..., 0])
    return in_place(kept, parts, int(targets.shape[0]))


def _levels(problems: Sequence[Any]) -> Array:
    """Unit vectors of the level of every view's only query: (N, M)."""
    own = [
        (p.operator.root_weights / namespace(p.operator.totals).sqrt(p.operator.totals[0]))[:, None] for p in problems
    ]
    return block_diagonal(own)


def _weighted_scores(problems: Sequence[Any]) -> Array:
    xp = namespace(problems[0].reference)
    return xp.concat([(p.operator.root_weights * p.reference)[:, None] for p in problems], axis=0)


def _left_out_by_agreement(system: AgreementSystem, folding: Folding, grid: Grid, offsets: FloatArray) -> Array:
    """The same for many units: one decomposition an agreement."""
    blocks, problems = folding.blocks(), system.problems
    xp = namespace(problems[0].reference)
    targets = xp.concat([problem.targets for problem in problems], axis=0)
    if isinstance(system, PrimalAgreement):
        system.inverse(0.0)  # what all agreements share is made once, before threads need it

    def one(agreement: float) -> Array:
        inverse = system.inverse(float(agreement))
        if not folding.items:
            return _blocks_left_out(inverse, targets, grid.alphas, blocks, offsets)
        if not inverse.complement:
            return _items_left_out(problems, inverse.values, inverse.vectors, grid.alphas, blocks)
        # I − V V' on what is orthogonal to the levels: the levels are taken out like directions without a penalty
        levels = _levels(problems)
        weights = 1 / (inverse.values[:, None] + like(grid.alphas, inverse.values)[None, :])
        ones = xp.ones((levels.shape[1], weights.shape[1]), dtype=xp.float64, device=device(weights))
        assert inverse.projected is not None
        zeros = xp.zeros((levels.shape[1], 1), dtype=xp.float64, device=device(weights))
        left = leave_out(
            xp.concat([inverse.vectors, levels], axis=1),
            xp.concat([weights, ones], axis=0),
            targets[:, :1],
            blocks,
            projected=xp.concat([inverse.projected[:, :1], zeros], axis=0),
            complement=True,
        )
        return in_place(blocks, [part[..., 0] for part in left], int(targets.shape[0]))

    return xp.concat(list(in_order(one, grid.agreements, targets)), axis=1)


def scored(
    problems: Sequence[Any],
    folding: Folding,
    residuals: Array,
    offsets: FloatArray,
    scoring: Scoring,
    *,
    together: bool,
) -> HeldOut:
    """Errors of the mean of the views where all have the same scores (`together`), else of every view on its own."""
    return joined([raw_sums(problems, folding, residuals, offsets, scoring, together=together)], scoring)


def raw_sums(
    problems: Sequence[Any],
    folding: Folding,
    residuals: Array,
    offsets: FloatArray,
    scoring: Scoring,
    *,
    together: bool,
) -> Sums:
    """What `_fold_sums` says of every fold, views on their own below each other."""
    ends = np.cumsum([0, *(len(own) for own in folding.codes)])
    parts = [residuals[b:e, :] for b, e in pairwise(ends)]
    if together:
        xp = namespace(residuals)
        parts = [xp.mean(xp.stack(parts, axis=0), axis=0)]
    found = [
        _fold_sums(problem, codes, part, offsets, folding.items, scoring)
        for problem, codes, part in zip(problems, folding.codes, parts, strict=False)
    ]
    return tuple(np.concatenate(column) for column in zip(*found, strict=True))


def joined(found: Sequence[Sums], scoring: Scoring) -> HeldOut:
    """One HeldOut of the sums of several views."""
    target, cross, own, sizes = (np.concatenate(column) for column in zip(*found, strict=True))
    if scoring == "rescaled":
        return HeldOut.rescaled(target, cross, own, sizes)
    keep = sizes > 0
    return HeldOut(np.maximum(target - 2 * cross + own, 0)[keep], sizes[keep])


def _fold_sums(
    problem: Any, codes: Index, residuals: Array, offsets: FloatArray, items: bool, scoring: Scoring
) -> Sums:
    """‖J s‖², (J s)·(J f), ‖J f‖² and the rank of the loss, fold by fold: (folds, 1) or (folds, pairs).

    For "disagreement" the shares of misordered pairs stand in the first place.
    """
    if items:
        predictions = problem.predictions_of_items(residuals)
        problem = problem.regrouped(np.where(codes < 0, codes.max() + 1, codes))
        residuals = problem.residuals(predictions)
    n_folds = int(codes.max()) + 1
    if scoring == "disagreement":
        kept = np.flatnonzero(codes >= 0)
        shares = problem.take(kept).misordered(take(problem.predictions(residuals), kept))
        defined = np.isfinite(shares).all(axis=1)
        zeros = np.zeros_like(shares[defined])
        return shares[defined], zeros, zeros, np.ones(int(defined.sum()))
    blocks = blocks_of(codes, n_folds)
    sizes = np.asarray([float(problem.freedom(block)) if len(block) else 0.0 for block in blocks])
    by_unit = like(np.where(codes < 0, 0.0, offsets[codes]), residuals)
    target = problem.targets[:, :1] - by_unit[:, None] * problem.targets[:, 1:]
    fitted = target - residuals
    xp = namespace(residuals)
    numbers = like(np.where(codes < 0, n_folds, codes), residuals, "int64")
    # residuals² is what counts where predictions are not rescaled: keep its precision
    squares = to_numpy(segment_sum(residuals * residuals, numbers, n_folds + 1))[:n_folds]
    if scoring == "squared":
        return squares, np.zeros_like(squares), np.zeros_like(squares), sizes
    sums = [to_numpy(segment_sum(xp.asarray(x), numbers, n_folds + 1))[:n_folds] for x in (target * fitted, fitted**2)]
    goal = to_numpy(segment_sum(target * target, numbers, n_folds + 1))[:n_folds]
    return np.broadcast_to(goal, squares.shape), sums[0], sums[1], sizes


# ---------------------------------------------------------------- refitting


def refitted_views(
    system: AgreementSystem, unscored: Unscored, splits: Splits, grid: Grid, *, scoring: Scoring, centred: bool
) -> HeldOut:
    """Fitted once a split, for splits that have no closed form: of rows scored in any view, or of comparisons."""
    results = []
    together = same_scores(system.problems)
    for train, test in splits:
        kept, left = _units(system.views, train), _units(system.views, test)
        if any(len(units) == 0 for units in kept):
            raise ValueError("cv leaves a view without scored rows to train on.")
        told = [v for v, units in enumerate(left) if len(units)]
        problems = [system.views[v].problem.take(left[v]) for v in told]
        offset = 0.0
        if centred:
            offset = mean_score([view.problem.take(units) for view, units in zip(system.views, kept, strict=True)])
        predictions = _predictions(system, unscored, kept, left, grid, offset)
        residuals = [problem.residuals(predictions[v]) for problem, v in zip(problems, told, strict=True)]
        one = Folding([np.zeros(len(left[v]), dtype=np.int64) for v in told], items=False)
        stacked = namespace(residuals[0]).concat(residuals, axis=0)
        results.append(raw_sums(problems, one, stacked, np.asarray([offset]), scoring, together=together))
    return joined(results, scoring)


def _units(views: Sequence[ViewData], units: Index) -> list[Index]:
    """Units of every view: the same comparisons, or the same rows of X, numbered among those scored in any view."""
    if isinstance(views[0].problem, ComparedRows):
        return [units for _ in views]
    index = row_numbers(views)
    rows = np.unique(np.concatenate(index))[units]
    return [np.flatnonzero(np.isin(own, rows)) for own in index]


def _predictions(
    system: AgreementSystem,
    unscored: Unscored,
    kept: Sequence[Index],
    left: Sequence[Index],
    grid: Grid,
    offset: float,
) -> list[Array]:
    """Of models fitted on some units for those left, every pair: one (n, pairs) a view."""
    views = system.views
    xp = namespace(views[0].problem.reference)
    if system.few:
        groups = grouped_by_ratio(grid.alphas, grid.agreements)
        found = [
            system.cokernel.predictions(kept, left, grid.alphas_of(pairs), ratio, offset) for ratio, pairs in groups
        ]
        order = np.argsort(np.concatenate([pairs for _, pairs in groups]))
        columns = [xp.concat([part[v] for part in found], axis=1) for v in range(len(views))]
        return [xp.take(own, like(order, own, "int64"), axis=1) for own in columns]
    restricted = [_restricted_view(view, units, system) for view, units in zip(views, kept, strict=True)]
    again: AgreementSystem
    if isinstance(system, PrimalAgreement):
        again = PrimalAgreement(restricted, unscored, system.disagreement)
    else:
        again = DualAgreement(restricted, unscored)
    if isinstance(again, PrimalAgreement) and len(grid.alphas) == 1:
        paths = [again.agreement_path(float(grid.alphas[0]), grid.agreements, offset)]
    else:
        paths = [again.path(grid.alphas, float(agreement), offset) for agreement in grid.agreements]
    result = []
    for v, (view, units) in enumerate(zip(views, left, strict=True)):
        if len(units) == 0:
            result.append(xp.zeros((0, grid.size), dtype=xp.float64, device=device(views[0].problem.reference)))
            continue
        coefficients = xp.concat([path[v] for path in paths], axis=1)
        phi = view.problem.unit_features(restricted[v].basis.features, units)
        result.append(phi @ coefficients + offset)
    return result


def _restricted_view(view: ViewData, units: Index, system: AgreementSystem) -> ViewData:
    """The view with some of its units; in the dual form rows leave its basis with them."""
    basis = view.basis
    if isinstance(system, DualAgreement) and isinstance(view.problem, ScoredRows):
        assert isinstance(basis, KernelBasis)
        points = np.concatenate([units, np.arange(len(view.problem.rows), basis.size)])
        gram = basis.own_gram
        if gram is not None:
            gram = namespace(gram).take(take(gram, points), like(points, gram, "int64"), axis=1)
        basis = KernelBasis(basis.kernel, take(basis.points, points), gram)
    return replace(view, problem=view.problem.take(units), basis=basis)
