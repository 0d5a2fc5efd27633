"""Held-out errors of views that agree: every pair of alpha and agreement, without one pass over the rows a fold.

Whole queries (rows, comparisons) and items of one query are left out in closed form, in every view at once. Many large
folds come from per-fold sums. What has neither is fitted again, with what the unscored rows say kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from corank._backend import Array, device, eigh, in_order, like, namespace, segment_sum, take, to_numpy
from corank.basis import FeatureMap, KernelBasis
from corank.comparison import Blend
from corank.problem import ComparedRows, FloatArray, Problem, ScoredRows
from corank.solvers.agreement import (
    AgreementSystem,
    DualAgreement,
    Inverse,
    JointFeatures,
    PrimalAgreement,
    Unscored,
    ViewData,
    block_diagonal,
    same_scores,
)
from corank.solvers.cokernel import CoKernel, grouped_by_ratio
from corank.solvers.direct import Spectrum
from corank.solvers.holdout import (
    N_FOLDS,
    HeldOut,
    Scoring,
    Splits,
    balanced_folds,
    chosen_position,
    folds_of_splits,
    in_place,
    leave_out,
)
from corank.solvers.path import best_position
from corank.statistics import Gram, Index, Statistics
from corank.views import SideBySide

MANY_UNITS = 40  # times as many units as features: then sums of ten folds are cheaper than leaving single ones out
LARGE_UNITS = 2**25  # entries of the features of all units that may be held


@dataclass(frozen=True)
class Grid:
    """Pairs of parameters, agreement by agreement."""

    alphas: FloatArray
    agreements: FloatArray

    @property
    def size(self) -> int:
        """Number of pairs."""
        return len(self.alphas) * len(self.agreements)

    def pair(self, number: int) -> tuple[float, float]:
        """(alpha, agreement)."""
        row, column = divmod(int(number), len(self.alphas))
        return float(self.alphas[column]), float(self.agreements[row])

    def pairs_at(self, agreements: FloatArray) -> Index:
        """The numbers of the pairs with these agreements."""
        rows = np.flatnonzero(np.isin(self.agreements, agreements))
        return (rows[:, None] * len(self.alphas) + np.arange(len(self.alphas))).ravel()

    def alphas_of(self, pairs: Index) -> FloatArray:
        """Their alphas."""
        return np.asarray(self.alphas[pairs % len(self.alphas)])


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


@dataclass(frozen=True)
class Folding:
    """The fold of every unit, one array a view; −1 is never held out. `items`: of the only query, else whole groups."""

    codes: Sequence[Index]
    items: bool

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return 1 + max(int(own.max()) for own in self.codes)

    def blocks(self) -> list[Index]:
        """The units of every fold among those of all views, stacked."""
        return blocks_of(np.concatenate(self.codes), self.n_folds)

    def units(self, folds: Index) -> tuple[list[Index], list[Index]]:
        """The units of every view that are in none of the folds, and those that are in one of them."""
        inside = [np.isin(own, folds) for own in self.codes]
        return [np.flatnonzero(~own) for own in inside], [np.flatnonzero(own) for own in inside]

    def coarser(self, n_folds: int, seed: int) -> Folding:
        """At most so many folds, each a union of these."""
        if self.n_folds <= n_folds:
            return self
        merged = balanced_folds(self.n_folds, n_folds, np.random.default_rng(seed))
        return replace(self, codes=[np.where(own < 0, -1, merged[own]) for own in self.codes])

    def take(self, units: Sequence[Index]) -> Folding:
        """The folds of some of the units, numbered anew."""
        kept = [own[u] for own, u in zip(self.codes, units, strict=True)]
        known = np.unique(np.concatenate(kept))
        known = known[known >= 0]
        return replace(self, codes=[np.where(own < 0, -1, np.searchsorted(known, own)) for own in kept])


def blocks_of(codes: Index, n_folds: int) -> list[Index]:
    """The positions of every code from 0."""
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(n_folds + 1))
    return [order[begin:end] for begin, end in pairwise(bounds)]


def mean_score(problems: Sequence[Problem]) -> float:
    """The weighted mean of all given scores."""
    weights = [problem.operator.weight for problem in problems]
    return float(np.average([problem.mean_score for problem in problems], weights=weights))


def own_folds(views: Sequence[ViewData], splits: Splits | None, seed: int) -> Folding | Splits | None:
    """What is held out: queries (rows, comparisons) one by one, items of the only query in ten folds, or `splits`.

    Splits come back as they are where no closed form serves them; None where there is too little to hold anything out.
    """
    problem = views[0].problem
    items = views[0].groups is None
    closed = not items or _has_item_form(views)
    if splits is None:
        if not items:
            codes = _shared_groups(views)
            return None if int(max(own.max() for own in codes)) < 1 else Folding(codes, items=False)
        index = _row_numbers(views)
        rows = np.unique(np.concatenate(index))
        n = len(rows)
        if n < 4:
            return None
        places = [np.searchsorted(rows, own) for own in index]
        folds = _spread_folds(views, places, n, np.random.default_rng(seed))
        folds = _without(folds, [int(folds[own[0]]) for own in places if np.ptp(folds[own]) == 0])
        if closed and folds.max() >= 0:
            return Folding([folds[own] for own in places], items=True)
        blocks = blocks_of(folds, int(folds.max()) + 1)
        return [(np.setdiff1d(np.arange(n), block), block) for block in blocks] or None
    given = folds_of_splits(problem, splits) if same_scores([view.problem for view in views]) and closed else None
    return splits if given is None else Folding([given for _ in views], items=items)


def _without(folds: Index, never: Sequence[int]) -> Index:
    """Folds of which some are never held out (−1), the others numbered anew: they hold all scores of a view."""
    known = np.setdiff1d(folds, never)
    return np.where(np.isin(folds, never), -1, np.searchsorted(known, folds))


def _spread_folds(views: Sequence[ViewData], places: Sequence[Index], n: int, rng: np.random.Generator) -> Index:
    """Up to ten folds of two items or more, each with low and high scores: tied items say nothing of an order."""
    scores = np.zeros(n)
    for view, own in zip(views, places, strict=True):
        scores[own] = to_numpy(view.problem.reference)
    order = np.lexsort((rng.random(n), scores))
    folds = np.empty(n, dtype=np.int64)
    folds[order] = balanced_folds(n, min(N_FOLDS, n // 2), rng)
    return folds


def _has_item_form(views: Sequence[ViewData]) -> bool:
    """Whether leaving items out of the only query is deleting rows of its root, up to a factor all views share."""
    if any(not isinstance(v.problem, ScoredRows) or isinstance(v.problem.comparison, Blend) for v in views):
        return False
    weighting = getattr(views[0].problem.comparison, "weighting", None)  # type: ignore[union-attr]
    return weighting == "size" or same_scores([view.problem for view in views])


def _row_numbers(views: Sequence[ViewData]) -> list[Index]:
    return [np.asarray(to_numpy(view.problem.rows.index)) for view in views]  # type: ignore[union-attr]


def _shared_groups(views: Sequence[ViewData]) -> list[Index]:
    """The groups of every view, numbered from 0: the same query (row) is left out of every view at once."""
    groups = [view.groups for view in views if view.groups is not None]
    known = np.unique(np.concatenate(groups))
    return [np.searchsorted(known, own) for own in groups]


# ---------------------------------------------------------------- errors


def held_out(
    system: AgreementSystem, folding: Folding, grid: Grid, *, scoring: Scoring, centred: bool, seed: int
) -> HeldOut:
    """The errors of every pair: (folds, pairs)."""
    by_kernel = system.few or _only_by_kernel(system, folding, scoring)
    if not by_kernel and isinstance(system, PrimalAgreement) and _wants_sums(system, folding):
        return _from_sums(system, folding.coarser(N_FOLDS, seed), grid, scoring, centred)
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
    return _joined([raw_sums(problems, folding, residuals, offsets, scoring, together=together)], scoring)


def raw_sums(
    problems: Sequence[Any],
    folding: Folding,
    residuals: Array,
    offsets: FloatArray,
    scoring: Scoring,
    *,
    together: bool,
) -> tuple[FloatArray, ...]:
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


def _joined(found: Sequence[tuple[FloatArray, ...]], scoring: Scoring) -> HeldOut:
    """One HeldOut of the sums of several views."""
    target, cross, own, sizes = (np.concatenate(column) for column in zip(*found, strict=True))
    if scoring == "rescaled":
        return HeldOut.rescaled(target, cross, own, sizes)
    keep = sizes > 0
    return HeldOut(np.maximum(target - 2 * cross + own, 0)[keep], sizes[keep])


def _fold_sums(
    problem: Any, codes: Index, residuals: Array, offsets: FloatArray, items: bool, scoring: Scoring
) -> tuple[FloatArray, ...]:
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


# ---------------------------------------------------------------- per-fold sums


def _from_sums(system: PrimalAgreement, folding: Folding, grid: Grid, scoring: Scoring, centred: bool) -> HeldOut:
    """Ten folds from their sums: one eigendecomposition a fold and agreement, no further pass over the rows."""
    if scoring == "disagreement":
        raise ValueError(
            "scoring='disagreement' needs every held-out row with several views; with this many scored rows use "
            "'squared' or 'rescaled'."
        )
    together = same_scores(system.problems)
    sums = _joint_statistics(system, folding) if together else _own_statistics(system, folding)
    jobs = [(fold, row) for fold in range(folding.n_folds) for row in range(len(grid.agreements))]
    ends = system.ends if together else None

    def one(job: tuple[int, int]) -> list[tuple[FloatArray, ...]]:
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
    folds = [results[k * columns : (k + 1) * columns] for k in range(folding.n_folds)]
    found = []
    for view in range(len(results[0])):
        rows = [tuple(np.concatenate([cell[view][part] for cell in row]) for part in range(3)) for row in folds]
        sizes = np.asarray([row[0][view][3][0] for row in folds])
        found.append((*(np.stack([row[part] for row in rows]) for part in range(3)), sizes))
    return _joined(found, scoring)


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


def _gram_sums(gram: Gram, coefficients: Array, offset: float) -> tuple[FloatArray, ...]:
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
    return _joined(results, scoring)


def _units(views: Sequence[ViewData], units: Index) -> list[Index]:
    """Units of every view: the same comparisons, or the same rows of X, numbered among those scored in any view."""
    if isinstance(views[0].problem, ComparedRows):
        return [units for _ in views]
    index = _row_numbers(views)
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
