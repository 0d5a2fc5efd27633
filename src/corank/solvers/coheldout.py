"""Held-out errors of views that agree: every pair of alpha and agreement, without one pass over the rows a fold.

Whole queries (rows, comparisons) and items of one query are left out in closed form, in every view at once. Many large
folds come from per-fold sums. What has neither is fitted again, with what the unscored rows say kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from corank._backend import Array, device, in_order, like, namespace, segment_sum, take, to_numpy
from corank.basis import KernelBasis
from corank.problem import ComparedRows, FloatArray, Problem, ScoredRows
from corank.solvers.agreement import (
    AgreementSystem,
    DualAgreement,
    Inverse,
    PrimalAgreement,
    Unscored,
    ViewData,
    block_diagonal,
    mean_score,
    same_scores,
)
from corank.solvers.cokernel import CoKernel, grouped_by_ratio
from corank.solvers.cosums import Sums, fold_sums
from corank.solvers.folding import Folding, Grid, blocks_of, row_numbers
from corank.solvers.holdout import N_FOLDS, HeldOut, Scoring, Splits, in_place, leave_out
from corank.statistics import Index

MANY_UNITS = 40  # times as many units as features: then sums of ten folds are cheaper than leaving single ones out
LARGE_UNITS = 2**25  # entries of the features of all units that may be held


# ---------------------------------------------------------------- errors


def held_out(
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


def refitted(
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
    restricted = [_restricted(view, units, system) for view, units in zip(views, kept, strict=True)]
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


def _restricted(view: ViewData, units: Index, system: AgreementSystem) -> ViewData:
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
