"""Held-out errors of every pair of alpha and agreement, and the pair to take.

`held_out` knows four ways to the same errors, and takes the cheapest that serves:

* "kernel": units (scored rows, comparisons) are deleted rows of the kernel between units, one
  decomposition per ratio of agreement and alpha. For few units beside the features or unscored
  rows.
* "inverse": units are deleted from one decomposition per agreement of the whole system.
* "sums": models without a fold come from the sums of the other folds. For many units in few folds.
* "refit": one fit per split, with the sums over unscored rows kept. For splits that are no folds,
  and for losses without a closed form.

Whole queries, single rows and single comparisons are deleted rows of the root J; items of one query
are not, because the query's mean and weight change with them (docs/mathematics.md, section 3).
Kernel and basis are kept throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    block_diagonal,
    block_of,
    in_order,
    like,
    namespace,
    runs_of_rows,
    segment_sum,
    stack_rows,
    sum_of,
    take,
    take_columns,
    to_numpy,
    zeros_beside,
)
from corank.core.basis import Basis, KernelBasis
from corank.core.folds import (
    MAX_UNIT_FEATURES,
    UNITS_PER_FEATURE,
    Folding,
    Splits,
    fold_blocks,
    has_item_form,
    same_scores,
    split_units,
)
from corank.core.observations import GraphRows, Problem, ScoredRows
from corank.core.sums import BLOCK_ENTRIES, Statistics
from corank.solve.co_kernel import CoKernel, grouped_by_ratio
from corank.solve.spectrum import Spectrum, in_place, leave_out
from corank.solve.systems import DualSystem, PrimalSystem, ViewData, mean_score

if TYPE_CHECKING:
    from corank.solve.tuning import Grid

Scoring: TypeAlias = Literal["squared", "rescaled", "disagreement"]
SCORINGS: tuple[Scoring, ...] = ("squared", "rescaled", "disagreement")
Way: TypeAlias = Literal["kernel", "inverse", "sums", "refit"]

# more of them are left out one by one, or summed in several passes: sums take memory
MAX_FOLDS_WITH_SUMS = 20
# Predictions whose squares are less than this share of the squared scores are zero but for
# rounding, which grows with the level of the scores: 1e-22 where they lie 1e4 times their spread
# from zero.
ROUNDING = 1e-20
NOTHING_HELD_OUT = "held-out predictions: there is too little to hold anything out."
NO_CLOSED_FORM = (
    "held-out predictions have a closed form for folds of whole queries (of rows where there are"
    " none) that are predicted from all other rows; for other splits use cross_val_predict of"
    " scikit-learn."
)


# ---------------------------------------------------------------- errors and choices


@dataclass(frozen=True)
class HeldOut:
    """Errors (folds, pairs) summed over a fold, and how much each fold counts (folds,)."""

    errors: FloatArray
    sizes: FloatArray

    @classmethod
    def rescaled(
        cls,
        target: FloatArray,
        cross: FloatArray,
        square: FloatArray,
        sizes: FloatArray,
        *,
        least: float = 0.0,
    ) -> HeldOut:
        """The loss ‖J (s − slope·f)‖² of predictions f under the one slope per pair that fits all
        folds best.

        An order does not depend on the scale of f, but the plain loss blames alpha for shrinking
        it.

        Parameters
        ----------
        target : (g,) or (g, k), ‖J s‖² of each fold
        cross : (g, k), (J s)·(J f)
        square : (g, k), ‖J f‖²
        sizes : (g,) how much each fold counts; folds of size 0 are left out
        least : the smallest slope; −1 where s stands for what f leaves, s − f, which keeps the
            digits of small losses
        """
        if target.ndim == 1:
            target = target[:, None]
        smallest = ROUNDING * target.sum(axis=0)
        square = np.where(square.sum(axis=0) > smallest, square, 0.0)
        slope = best_slope(cross, square, least)
        losses = target - 2 * slope * cross + slope**2 * square
        errors = np.maximum(losses, 0.0)
        counts = sizes > 0
        return cls(errors[counts], sizes[counts])

    @property
    def mean(self) -> FloatArray:
        """Error of every pair: (pairs,)."""
        return np.asarray(self.errors.sum(axis=0) / self.sizes.sum())

    @property
    def standard_error(self) -> FloatArray:
        """Standard error of the mean, over folds: (pairs,)."""
        k = len(self.sizes)
        if k < 2:
            return np.full(self.errors.shape[1], np.nan)
        spread = self.errors - self.sizes[:, None] * self.mean
        of_total = np.sqrt((spread**2).sum(axis=0) * k / (k - 1))
        return np.asarray(of_total / self.sizes.sum())


def best_slope(cross: FloatArray, square: FloatArray, least: float = 0.0) -> FloatArray:
    """argmin Σ_g ‖J s − slope·J f‖² from cross = (J s)·(J f) and square = ‖J f‖² (g, k), not below
    `least`: (k,).

    0 where all predictions are 0.
    """
    a = cross.sum(axis=0)
    b = square.sum(axis=0)
    slope = np.divide(a, b, out=np.zeros_like(b), where=b > 0)
    return np.asarray(np.maximum(slope, least))


@dataclass(frozen=True)
class FoldErrors:
    """Errors (folds, pairs) and sizes (folds,).

    Where one slope is to be found for all folds: ‖J r‖² as errors, cross = (J r)·(J f) and square =
    ‖J f‖², r = s − f.
    """

    errors: FloatArray
    sizes: FloatArray
    cross: FloatArray | None = None
    square: FloatArray | None = None


def pooled(tables: Sequence[FoldErrors]) -> HeldOut:
    """All tables as one; folds in which nothing can be told apart are left out."""
    errors = np.concatenate([table.errors for table in tables])
    sizes = np.concatenate([table.sizes for table in tables])
    crosses = [table.cross for table in tables if table.cross is not None]
    squares = [table.square for table in tables if table.square is not None]
    if crosses:
        cross, square = np.concatenate(crosses), np.concatenate(squares)
        return HeldOut.rescaled(errors, cross, square, sizes, least=-1.0)
    counts = sizes > 0
    return HeldOut(errors[counts], sizes[counts])


def errors_of(
    problem: Any, predictions: Array, folds: Index, scoring: Scoring, offsets: FloatArray
) -> FoldErrors:
    """The errors of held-out predictions (n_units, pairs), which contain the offset (folds,) of
    their fold.

    `folds` has one number per unit, −1 for units that were never held out.
    """
    if problem.groups is None:  # items of the only query are compared within their fold
        problem = problem.regrouped(np.where(folds < 0, folds.max() + 1, folds))
    if scoring == "disagreement":
        kept = np.flatnonzero(folds >= 0)
        shares = problem.take(kept).misordered(take(predictions, kept))
        shares = shares[np.isfinite(shares).all(axis=1)]
        return FoldErrors(shares, np.ones(len(shares)))
    n_folds = int(folds.max()) + 1
    sizes = [
        float(problem.freedom(block)) if len(block) else 0.0
        for block in fold_blocks(folds, n_folds)
    ]
    residuals = problem.residuals(predictions)
    products = [residuals * residuals]
    if scoring == "rescaled":
        by_unit = like(np.where(folds < 0, 0.0, offsets[folds]), predictions)
        fitted = problem.unit_root(predictions - by_unit[:, None])
        products += [residuals * fitted, fitted * fitted]
    numbers = like(np.where(folds < 0, n_folds, folds), residuals, "int64")
    errors, *others = (
        to_numpy(segment_sum(each, numbers, n_folds + 1))[:n_folds] for each in products
    )
    return FoldErrors(errors, np.asarray(sizes), *others)


def view_errors(
    problems: Sequence[Any],
    folding: Folding,
    predictions: Sequence[Array],
    offsets: FloatArray,
    scoring: Scoring,
    *,
    together: bool,
) -> list[FoldErrors]:
    """Errors of the mean of the views where all have the same scores (`together`), else of every
    view by itself.
    """
    if together and len(predictions) > 1:
        predictions = [sum_of(predictions) / len(predictions)]
    return [
        errors_of(problem, values, codes, scoring, offsets)
        for problem, codes, values in zip(problems, folding.codes, predictions, strict=False)
        if len(codes)
    ]


# ---------------------------------------------------------------- every way


def held_out(
    system: DualSystem | PrimalSystem,
    folds: Folding | Splits,
    grid: Grid,
    *,
    scoring: Scoring,
    centred: bool,
) -> HeldOut:
    """The held-out errors of every pair of parameters.

    Parameters
    ----------
    folds : unions of whole groups or items of the only query; or splits of the units
    centred : whether the mean score of the rows that are kept is taken out first (regression with
        an intercept)
    """
    way = hold_out_way(system, folds)
    if way == "refit" or not isinstance(folds, Folding):
        return pooled(_refitted(system, folds, grid, scoring, centred))
    if way == "sums":
        assert isinstance(system, PrimalSystem)
        return pooled(_errors_from_sums(system, folds, grid, scoring, centred))
    offsets = kept_means(system.targets, folds.blocks(), centred=centred)
    source = system.cokernel if way == "kernel" else system
    predictions = left_out(source, folds, grid, offsets)
    together = same_scores(system.problems)
    return pooled(
        view_errors(system.problems, folds, predictions, offsets, scoring, together=together)
    )


def held_out_predictions(
    system: DualSystem | PrimalSystem, folds: Folding | Splits, grid: Grid, *, centred: bool
) -> list[Array]:
    """Predictions of every unit without its fold, for a grid of one pair: (n_v,) per view, NaN
    where it is never held out.

    Where the level of a query costs nothing its mean is 0; items of the only query have the level
    of the other folds.
    """
    way = hold_out_way(system, folds)
    if way == "refit" or not isinstance(folds, Folding):
        raise ValueError(NO_CLOSED_FORM)
    if way == "sums":
        assert isinstance(system, PrimalSystem)
        predictions = _predicted_from_sums(system, folds, grid, centred, levels=folds.items)
    else:
        offsets = kept_means(system.targets, folds.blocks(), centred=centred)
        source = system.cokernel if way == "kernel" else system
        predictions = left_out(source, folds, grid, offsets)
    parts = zip(system.problems, predictions, folds.codes, strict=True)
    return [as_told(*part) for part in parts]


def as_told(problem: Problem, values: Array, folds: Index) -> Array:
    """Held-out predictions (n_units,), for values (n_units, 1), without what the loss leaves open;
    see `held_out_predictions`.
    """
    if isinstance(problem, GraphRows):  # comparisons come last
        n, problem = len(problem.scored), problem.scored
        values, folds = values[:n, :], folds[:n]
    if isinstance(problem, ScoredRows) and problem.groups is not None:
        values = problem.operator.unroot(problem.operator.root(values))
    return values[:, 0] + like(np.where(folds < 0, np.nan, 0.0), values)


def hold_out_way(system: DualSystem | PrimalSystem, folds: Folding | Splits) -> Way:
    """The cheapest way that serves these folds."""
    if not isinstance(folds, Folding):
        return "refit"
    formless = folds.items and not has_item_form(system.problems)
    weighting = getattr(getattr(system.problems[0], "comparison", None), "weighting", "size")
    # without items the others weigh something else beside the disagreement
    reweighted = folds.items and weighting != "size"
    if isinstance(system, DualSystem):
        if formless:
            return "refit"
        if system.n_unscored == 0:  # the system itself is the kernel between units
            return "inverse"
        return "kernel" if system.few_units or reweighted else "inverse"
    if system.has_fold_sums or formless:
        return "sums"
    if system.few_units:
        return "kernel"
    # leaving units out is cubic in the size of a fold
    size, largest = system.size, max(map(len, folds.blocks()))
    if folds.n_folds > MAX_FOLDS_WITH_SUMS:
        is_large = largest > 4 * size
    else:
        held = system.n_units * size // len(system.views)
        is_large = largest > size or held > MAX_UNIT_FEATURES
        is_large = is_large or system.n_units > UNITS_PER_FEATURE * size
    return "sums" if reweighted or is_large else "inverse"


def kept_means(targets: Array, blocks: Sequence[Index], *, centred: bool = True) -> FloatArray:
    """The mean score of what is kept when a block is left out, where single rows count: (blocks,);
    0 unless scores are to be `centred`.
    """
    if not centred:
        return np.zeros(len(blocks))
    products = to_numpy(targets * targets[:, 1:])  # w s and w
    left_out = np.stack([products[block].sum(axis=0) for block in blocks])
    scores, weights = (products.sum(axis=0) - left_out).T
    return np.asarray(scores / np.where(weights > 0, weights, 1.0))


# ---------------------------------------------------------------- deleted rows


def left_out(
    source: CoKernel | DualSystem | PrimalSystem, folding: Folding, grid: Grid, offsets: FloatArray
) -> list[Array]:
    """Held-out predictions from the kernel between units, one decomposition per ratio, or from the
    whole system, one per agreement: (n_v, pairs) per view.
    """
    if isinstance(source, CoKernel):
        groups = grouped_by_ratio(grid.alphas, grid.agreements)
    else:
        groups = [(float(value), grid.pairs_at(value)) for value in np.unique(grid.agreements)]
    if isinstance(source, PrimalSystem):
        source.right()  # once, before threads need it; so are the features
        if folding.items or source.size * source.n_units // len(source.views) <= MAX_UNIT_FEATURES:
            source.all_unit_features  # noqa: B018

    def residuals_at(group: tuple[float, Index]) -> Array:
        shared, pairs = group
        alphas, spectrum = grid.pairs[pairs, 0], source.spectrum(shared)
        if isinstance(source, PrimalSystem):
            left_at = _items_left_out_of_primal if folding.items else _left_out_of_primal
            return left_at(source, spectrum, folding, alphas, offsets)
        units = Spectrum(spectrum.values, spectrum.vectors[: source.targets.shape[0], :])
        if folding.items:
            return _items_left_out(source.problems, units, alphas, folding.blocks())
        return units.left_out(source.targets, folding.blocks(), alphas, offsets).residuals

    residuals = list(in_order(residuals_at, groups, source.targets))
    stacked = residuals[0] if len(groups) == 1 else _in_order_of_pairs(residuals, groups)
    predictions, begin = [], 0
    for problem, codes in zip(source.problems, folding.codes, strict=True):
        own = stacked[begin : begin + len(codes), :]
        predictions.append(
            problem.predictions_of_items(own) if folding.items else problem.predictions(own)
        )
        begin += len(codes)
    return predictions


def _in_order_of_pairs(columns: Sequence[Array], groups: Sequence[tuple[float, Index]]) -> Array:
    """Columns (n, k) of every group of pairs as one matrix (n, pairs)."""
    numbers = np.concatenate([pairs for _, pairs in groups])
    joined = namespace(columns[0]).concat(columns, axis=1)
    return take_columns(joined, np.argsort(numbers))


def _items_left_out(
    problems: Sequence[Any], spectrum: Spectrum, alphas: FloatArray, blocks: Sequence[Index]
) -> Array:
    """√w (s − f − level) of items left out of the only query of every view: (N, a).

    J = √within P D^½: with the level of the query taken out of the eigenvectors they diagonalise
    the bordered system of docs/mathematics.md, section 3, in which alpha is divided by what the
    query costs without the items.
    """
    operator = problems[0].operator
    targets = stack_rows([(p.operator.root_weights * p.reference)[:, None] for p in problems])
    values = spectrum.values / operator.within[0]
    free = Spectrum(values, spectrum.vectors).without(_levels(problems))
    chosen = [block for block in blocks if len(block)]
    costs = np.asarray([cost_without(problems[0], block) for block in chosen])
    residuals: Any = 0.0
    for cost in np.unique(costs):
        alike = [chosen[number] for number in np.flatnonzero(costs == cost)]
        residuals = residuals + free.left_out(targets, alike, alphas / cost).residuals
    return residuals


def cost_without(problem: ScoredRows, items: Index) -> float:
    """What the only query costs without some of its items."""
    operator = problem.operator
    items = items[items < len(problem)]
    roots = take(operator.root_weights, items)
    total = operator.totals - namespace(roots).sum(roots * roots)
    count = operator.counts - float(len(items))
    _, within = operator.comparison.scales(total, count)
    return float(within[0])


def _levels(problems: Sequence[Any]) -> Array:
    """Unit vectors of the level of every view's only query: (N, M)."""
    return block_diagonal([problem.operator.direction[:, None] for problem in problems])


def _left_out_of_primal(
    system: Any, spectrum: Spectrum, folding: Folding, alphas: FloatArray, offsets: FloatArray
) -> Array:
    """From the decomposition of the sums, in a second pass over the units. O(n r (r + d + m a))."""
    projected = system.projected_targets(spectrum.vectors)
    weights = spectrum.inverse(alphas)
    blocks = folding.blocks()
    starts = np.cumsum([0, *(len(codes) for codes in folding.codes)])
    places, residuals = [], []
    batches = [np.flatnonzero([len(block) > 0 for block in blocks])]
    if "all_unit_features" not in vars(system):  # about one block of features at a time
        rows_so_far = np.cumsum([len(blocks[fold]) for fold in batches[0]])
        numbers = rows_so_far * system.size // (4 * BLOCK_ENTRIES)
        batches = np.split(batches[0], np.flatnonzero(np.diff(numbers)) + 1)
    for folds in batches:
        _, units = folding.units(folds)
        rows, targets = _unit_roots(system, spectrum.vectors, units)
        inner = folding.take(units).blocks()
        left = leave_out(
            rows, weights, targets, inner, offsets[folds], projected=projected, complement=True
        )
        places.append(np.concatenate(list(map(np.add, starts, units))))
        residuals.append(left.residuals)
    return in_place(places, residuals, int(starts[-1]))


def _unit_roots(
    system: PrimalSystem, vectors: Array, units: Sequence[Index]
) -> tuple[Array, Array]:
    """J Φ V and (J s, J 1) of chosen units, which are whole groups: (N, k), (N, 2)."""
    roots, targets = [], []
    for v, (view, span, chosen) in enumerate(zip(system.views, system.spans, units, strict=True)):
        if "all_unit_features" in vars(system):
            problem, features = view.problem, system.all_unit_features[v]
            if len(chosen) < features.shape[0]:
                problem, features = problem.take(chosen), take(features, chosen)
        else:
            problem, features = view.problem.take(chosen), system.unit_features(v, chosen)
        roots.append(problem.unit_root(features @ vectors[span, :]))
        targets.append(problem.targets)
    xp = namespace(vectors)
    return xp.concat(roots, axis=0), xp.concat(targets, axis=0)


def _items_left_out_of_primal(
    system: Any, spectrum: Spectrum, folding: Folding, alphas: FloatArray, offsets: FloatArray
) -> Array:
    """I − V Vᵀ orthogonal to the levels: the levels are taken out like directions without a
    penalty.
    """
    every = [np.arange(len(codes)) for codes in folding.codes]
    rows, targets = _unit_roots(system, spectrum.vectors, every)
    levels = _levels(system.problems)
    xp, weights, n_levels = namespace(rows), spectrum.inverse(alphas), levels.shape[1]
    free = like(np.ones((n_levels, len(alphas))), weights)
    projected = system.projected_targets(spectrum.vectors)
    return leave_out(
        xp.concat([rows, levels], axis=1),
        xp.concat([weights, free], axis=0),
        targets,
        folding.blocks(),
        projected=xp.concat([projected, zeros_beside((n_levels, 2), rows)], axis=0),
        complement=True,
    ).residuals


# ---------------------------------------------------------------- sums of folds

# the number of a fold and units of every view → their predictions
OfFold: TypeAlias = Callable[[int, Sequence[Index]], Sequence[Array]]
CoefficientsWithout: TypeAlias = Callable[[int], tuple[Sequence[Array], float]]


def losses_from_sums(
    statistics: Sequence[Statistics], without: CoefficientsWithout, n_folds: int, scoring: Scoring
) -> list[FoldErrors]:
    """The losses of every fold under coefficients that did not see it, from its sums: one table per
    entry.

    Parameters
    ----------
    statistics : one or more sets of sums
    without : the number of a fold → coefficients (r, pairs) for every set of sums, and the mean
        that was taken out
    """

    def products(fold: int) -> list[tuple[list[FloatArray], float]]:
        coefficients, offset = without(fold)
        result = []
        for sums, columns in zip(statistics, coefficients, strict=True):
            gram = sums.of(fold)
            values = [gram.loss(columns, offset)]
            if scoring == "rescaled":
                values += gram.explained(columns, offset)
            result.append(([to_numpy(value) for value in values], float(gram.freedom)))
        return result

    present = [
        fold for fold in range(n_folds) if any(sums.of(fold).freedom > 0 for sums in statistics)
    ]
    results = list(in_order(products, present, statistics[0].queries[0].matrix))
    if not results:
        return [FoldErrors(np.zeros((0, 1)), np.zeros(0)) for _ in statistics]
    tables = []
    for rows in zip(*results, strict=True):
        values, sizes = zip(*rows, strict=True)
        errors, *others = np.stack(values, axis=1)
        tables.append(FoldErrors(errors, np.asarray(sizes), *others))
    return tables


def _errors_from_sums(
    system: PrimalSystem, folding: Folding, grid: Grid, scoring: Scoring, centred: bool
) -> list[FoldErrors]:
    """Errors of models from the sums of all folds but one."""
    if scoring != "disagreement":
        tables: list[FoldErrors] = []
        for part, folds in _with_fold_sums(system, folding):

            def without(fold: int, part: PrimalSystem = part) -> tuple[Sequence[Array], float]:
                white, offset = part.path_without(
                    fold, grid.alphas, grid.agreements, centred=centred
                )
                if len(part.statistics) > 1:
                    return [white[span, :] for span in part.spans], offset
                n_views = len(part.views)
                return [white if n_views == 1 else white / n_views], offset

            tables += losses_from_sums(part.statistics, without, folds.n_folds, scoring)
        return tables
    problems, offsets = system.problems, np.zeros(folding.n_folds)
    predictions = _predicted_from_sums(system, folding, grid, centred)
    together = same_scores(problems)
    return view_errors(problems, folding, predictions, offsets, scoring, together=together)


def _with_fold_sums(
    system: PrimalSystem, folding: Folding
) -> Iterator[tuple[PrimalSystem, Folding]]:
    """The system with sums of all folds but one; very many folds in several passes, some of them at
    a time.
    """
    if system.has_fold_sums:
        yield system, folding
    elif folding.n_folds <= MAX_FOLDS_WITH_SUMS:
        system.gather(folding)
        yield system, folding
    else:
        for first in range(0, folding.n_folds, MAX_FOLDS_WITH_SUMS - 1):
            part = PrimalSystem(system.views, system.unscored, disagreement=system.disagreement)
            folds = folding.only(first, first + MAX_FOLDS_WITH_SUMS - 1)
            part.gather(folds)
            yield part, folds


def _predicted_from_sums(
    whole: PrimalSystem, folding: Folding, grid: Grid, centred: bool, *, levels: bool = False
) -> list[Array]:
    """Every fold under the coefficients that did not see it, in a second pass: (n_v, pairs) per
    view.

    levels : whether items of the only query get the level of those of other folds
    """
    predictions: list[Any] = [0.0 for _ in whole.views]
    for system, folds in _with_fold_sums(whole, folding):
        of_fold = _fold_from_sums(system, grid, centred)
        values = _placed(folds, at_level(whole.problems, of_fold) if levels else of_fold)
        predictions = [before + more for before, more in zip(predictions, values, strict=True)]
    return predictions


def at_level(problems: Sequence[Any], of_fold: OfFold) -> OfFold:
    """`of_fold` for items of the only query, whose level is that of the items that are kept, unless
    it costs something.
    """

    def levelled(fold: int, left: Sequence[Index]) -> list[Array]:
        every = [np.arange(len(problem)) for problem in problems]
        result = []
        for problem, values, own in zip(problems, of_fold(fold, every), left, strict=True):
            gaps = problem.scores[:, None] - values
            kept = np.setdiff1d(np.arange(len(problem)), own)
            weights = take(problem.operator.root_weights, kept) ** 2
            level = weights @ take(gaps, kept) / namespace(weights).sum(weights)
            free = float(problem.operator.between[0]) == 0
            result.append(take(values, own) + float(free) * level)
        return result

    return levelled


def _fold_from_sums(system: PrimalSystem, grid: Grid, centred: bool) -> OfFold:
    """Predictions of units of every view under the coefficients that did not see a fold."""

    def of_fold(fold: int, left: Sequence[Index]) -> list[Array]:
        white, offset = system.path_without(fold, grid.alphas, grid.agreements, centred=centred)
        predictions = []
        for view, span, units in zip(system.views, system.spans, left, strict=True):
            columns = view.basis.whitening.matrix @ white[span, :]
            predictions.append(unit_predictions(view.problem, view.basis, columns, units) + offset)
        return predictions

    return of_fold


def _placed(folding: Folding, of_fold: OfFold) -> list[Array]:
    """Predictions of every fold, given its units of every view, where they belong: (n_v, pairs) per
    view.
    """
    blocks = [fold_blocks(codes, folding.n_folds) for codes in folding.codes]
    by_fold = [of_fold(fold, left) for fold, left in enumerate(zip(*blocks, strict=True))]
    sizes = map(len, folding.codes)
    return list(map(in_place, blocks, zip(*by_fold, strict=True), sizes))


def unit_predictions(problem: Problem, basis: Basis, coefficients: Array, units: Index) -> Array:
    """Predictions of units for columns of basis coefficients (r, a): (len(units), a)."""
    rows = [
        problem.unit_features(basis.features, units[run]) @ coefficients
        for run in runs_of_rows(len(units), max(64, BLOCK_ENTRIES // basis.size))
    ]
    return namespace(coefficients).concat(rows, axis=0) if rows else coefficients[:0, :]


# ---------------------------------------------------------------- refitting


def _refitted(
    system: DualSystem | PrimalSystem,
    folds: Folding | Splits,
    grid: Grid,
    scoring: Scoring,
    centred: bool,
) -> list[FoldErrors]:
    """One fit per fold or split: of rows scored in any view, or of comparisons."""
    problems = system.problems

    def refit(kept: Sequence[Index], left: Sequence[Index]) -> tuple[list[Array], float]:
        if any(len(units) == 0 for units in kept):
            raise ValueError("cv leaves a view without scored rows to train on.")
        offset = 0.0
        if centred:
            offset = mean_score(
                [problem.take(units) for problem, units in zip(problems, kept, strict=True)]
            )
        return _refitted_predictions(system, kept, left, grid, offset), offset

    together = same_scores(problems)
    if isinstance(folds, Folding):
        offsets = np.zeros(folds.n_folds)

        def of_fold(fold: int, left: Sequence[Index]) -> list[Array]:
            predictions, offsets[fold] = refit(folds.units(np.asarray([fold]))[0], left)
            return predictions

        return view_errors(
            problems, folds, _placed(folds, of_fold), offsets, scoring, together=together
        )
    tables: list[FoldErrors] = []
    for train, test in folds:
        left = split_units(problems, test)
        predictions, offset = refit(split_units(problems, train), left)
        judged = [v for v, units in enumerate(left) if len(units)]
        tested = [problems[v].take(left[v]) for v in judged]
        codes = [np.zeros(len(left[v]), dtype=np.int64) for v in judged]
        predictions = [predictions[v] for v in judged]
        tables += view_errors(
            tested, Folding(codes), predictions, np.full(1, offset), scoring, together=together
        )
    return tables


def _refitted_predictions(
    system: DualSystem | PrimalSystem,
    kept: Sequence[Index],
    left: Sequence[Index],
    grid: Grid,
    offset: float,
) -> list[Array]:
    """Predictions for the units left by models fitted on the units kept, every pair: one (n, pairs)
    per view.
    """
    views = system.views
    xp = namespace(views[0].problem.reference)
    if system.few_units:
        groups = grouped_by_ratio(grid.alphas, grid.agreements)
        found = [
            system.cokernel.predictions(kept, left, grid.pairs[pairs, 0], r, offset)
            for r, pairs in groups
        ]
        return [_in_order_of_pairs(columns, groups) for columns in zip(*found, strict=True)]
    restricted = [_restricted(view, units, system) for view, units in zip(views, kept, strict=True)]
    again: Any
    if isinstance(system, DualSystem):
        again = DualSystem(restricted, system.unscored)
    else:
        again = PrimalSystem(restricted, system.unscored, disagreement=system.disagreement)
    one_alpha = len(grid.alphas) == 1 < len(grid.agreements)
    if one_alpha and isinstance(system, PrimalSystem):
        paths = [again.agreement_path(float(grid.alphas[0]), grid.agreements, offset)]
    else:
        paths = [again.path(grid.alphas, float(agreement), offset) for agreement in grid.agreements]
    result = []
    for v, (view, units) in enumerate(zip(views, left, strict=True)):
        coefficients = xp.concat([path[v] for path in paths], axis=1)
        result.append(
            unit_predictions(view.problem, restricted[v].basis, coefficients, units) + offset
        )
    return result


def _restricted(view: ViewData, units: Index, system: DualSystem | PrimalSystem) -> ViewData:
    """The view with some of its units; in the dual form rows leave its basis with them."""
    basis = view.basis
    if (
        isinstance(system, DualSystem)
        and isinstance(view.problem, ScoredRows)
        and isinstance(basis, KernelBasis)
    ):
        points = np.concatenate([units, np.arange(len(view.problem), basis.size)])
        gram = basis.own_gram
        if gram is not None:
            gram = block_of(gram, points, points)
        basis = KernelBasis(basis.kernel, take(basis.points, points), gram)
    return replace(view, problem=view.problem.take(units), basis=basis)
