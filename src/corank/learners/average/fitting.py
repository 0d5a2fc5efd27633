"""Fit the average: weigh candidates, fit those that carry weight, and say how large the error on
new rows is.

Few scored rows: weights, alphas and coefficients come from the same eigendecompositions. More rows:
some teach, by which candidates are shortlisted and widths per column learned; others weigh the
shortlist and choose alphas. Then all rows give coefficients, exactly or in a basis as far as that
is affordable, and weights follow from how the weighing rows are predicted, each left out of that
fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from timeit import repeat
from typing import TypeAlias

import numpy as np

from corank.core.arrays import FloatArray, Index, in_one_thread, in_order
from corank.core.messages import count as count_of
from corank.core.messages import in_bytes, rounded
from corank.display import progress_bar, say
from corank.learners.average.candidates import Candidate
from corank.learners.average.closed_form import Observations
from corank.learners.average.coefficients import (
    Fits,
    FittedCandidate,
    RowsToSum,
    UnitsToSum,
    alpha_shares,
    at_mean_alpha,
)
from corank.learners.average.encoding import WITHIN_QUERIES
from corank.learners.average.similarity import LearnedWidths, Space, widths_per_column
from corank.learners.average.weighing import (
    Judged,
    Mixture,
    bounds,
    coarse_folds,
    judge,
    mix,
    trust_in,
)
from corank.solve.spectrum import LEAST

# Scored rows by which candidates are weighed: all up to the first number, beyond half of the rows up
# to the second. The others teach: by some of them candidates are shortlisted, from more of them
# widths are learned.
FEW_WEIGHED, MAX_WEIGHED = 200, 1_000
MAX_TEACHING = 800
TIED = 1e-9  # range of scores, over the largest, that says nothing about widths
MAX_WIDTHS = 500  # columns: evidence of so few rows says nothing about more
# units from which candidates are judged in threads: with fewer, those would wait for Python
LEAST_THREADED = 150
FEWEST_WIDTHS = 30  # scored rows from which widths per column are learned
JUDGED_UNITS = 480  # of all folds together, by three to five of which the average is judged
# units from which it is judged by more folds, that weights alone are chosen without
FEW_REFITTED, MANY_FOLDS = 150, 10
# What coefficients may cost, in multiplications, grows with the rows, beyond MANY_ROWS less and less.
WORK_PER_ROW, MANY_ROWS = 1.2e8, 100_000
FEWEST_EXACT = 2  # candidates whose points are all rows, else
FEW_IN_BASIS = 2  # have some of the rows as points
LEAST_BASIS, MAX_BASIS = 1_000, 10_000
MAX_BASIS_ENTRIES = 3e7  # of matrices of bases that stand in a file, 240 MB
MAX_ENTRIES = 1e9  # of all matrices of an exact fit, 8 GB
BASIS_COST = 3  # cubes of the number of points, to solve for their coefficients
MOST_PARTS = 6  # of a kernel between answers of persons
FEW_CARRIERS = 4  # candidates that carry weight in the end, as a rule
LONG = 10.0  # seconds from which a fit says how many
SLOWEST = 1e10  # operations per second: with fewer than that in LONG, time is not measured
NEGLIGIBLE = 0.01  # weight of all candidates together that are left out
# residuals as large as their standard deviation, added to those that were observed
PRIOR_RESIDUALS = 3.0
# whether rows come with query labels, with links
SIDES = ((True, True), (False, True), (True, False), (False, False))

Done: TypeAlias = Callable[[str, float], None]  # a step of a fit, and the share of it


@dataclass(frozen=True)
class FittedAverage:
    """What a fit finds out.

    candidates : those that carry weight, heaviest first
    table : (what, weight, held-out error) of every candidate that was tried
    points : (r,) numbers of the scored rows that are points of the model
    low, high : between which predictions lie
    residual_factor : by which standard deviations are multiplied
    held_out : (N,) held-out predictions of the average for the units that candidates were weighed
        by, each without its fold in weights, alphas and coefficients; NaN where too little is left
        without it
    judged_units : those units; judged : their numbers, of scored rows those that they were given with
    """

    candidates: list[FittedCandidate]
    table: list[tuple[Candidate, float, float]]
    points: Index
    low: float
    high: float
    residual_factor: float
    held_out: FloatArray
    judged_units: Observations
    judged: Index

    @property
    def residuals(self) -> FloatArray:
        """Held-out residuals in units of the scores: (N,)."""
        units = self.judged_units
        return (units.truth - self.held_out) / units.roots


def fit_average(
    space: Space,
    candidates: Sequence[Candidate],
    units: Observations,
    *,
    ranks: bool,
    seed: int,
    honest: bool = True,
    rows: RowsToSum | None = None,
    done: Done = lambda step, share: None,
) -> FittedAverage:
    """Weigh and fit candidates.

    Parameters
    ----------
    space : encoded scored rows, or items
    candidates : all of them can be built
    units : what is fitted, or a sample of it
    ranks : whether only the order counts
    seed : for samples of rows
    honest : whether held-out predictions of the average are wanted, which take most of the time;
        else they are NaN
    rows : what is fitted, where that is not in memory
    done : called with steps of a fit and shares of them
    """
    weighing, teaching = split(units, seed)
    sampled, sample_space = sample_of(space, units, weighing)
    folds = honest_folds(sampled) if honest else []
    all_rows = rows or UnitsToSum(space, units, partial(done, "coefficients"))
    # without whole folds that did not teach, weights and errors are those of the sample
    is_apart = len(teaching) > 0 and all_rows.has_whole_folds
    if units.has_levels:  # which sums over all rows do not leave out row by row
        is_apart = is_apart and affordable(units.size, MOST_PARTS)[1] >= units.size
    with in_one_thread(units.scores, with_jobs=len(sampled) >= LEAST_THREADED):
        candidates, lines = _shortlisted(space, candidates, units, teaching, seed, ranks=ranks)
        judged = judge(sample_space, candidates, sampled, done=partial(done, "weights"))
        mixtures = _mixtures(judged, sampled, ranks=ranks)
        if not is_apart and len(sampled) >= FEW_REFITTED:
            held_out = mixed_predictions(judged, sampled, folds, ranks=ranks)
        elif not is_apart:
            held_out = honest_predictions(sample_space, candidates, sampled, folds, ranks=ranks)
    chosen = _carriers(mixtures)
    points = np.arange(units.n_points)
    if rows is None and sampled is units:
        fits = Fits(judged, mixtures, units)
        fitted = [fits.closed(number, space) for number in chosen]
    else:
        del sample_space  # and its kernels
        n_parts = max(len(judged[number].similarities) for number in chosen)
        count, n_points = affordable(all_rows.n_rows, n_parts)
        heaviest = _heaviest(mixtures, chosen, count)
        dropped = sorted(set(range(len(judged))) - set(heaviest))
        lines += [(each, 0.0, error) for each, _, error in _table(judged, mixtures[0], dropped)]
        judges = weighing if is_apart else None
        fits = Fits(judged, mixtures, units, judges, partial(done, "coefficients"))
        if rows is None and n_points >= units.size and not _is_smaller_in_items(units):
            found = fits.all_dual(heaviest, space)
        else:
            points = _points(units, min(n_points, all_rows.most_points), seed)
            found = fits.on_basis(heaviest, space, points, all_rows)
        fitted, judged = map(list, zip(*found, strict=True))
        mixtures = _mixtures(judged, sampled, ranks=ranks)
        fitted = [_weighed(each, mixtures, number) for number, each in enumerate(fitted)]
        if is_apart:
            held_out = mixed_predictions(judged, sampled, folds, ranks=ranks)
    factor = _residual_factor(judged, mixtures[0], sampled, held_out, ranks=ranks)
    fitted = sorted((each for each in fitted if any(each.weights)), key=lambda f: -f.weights[0])
    fitted = _heaviest_with_bases(fitted)
    totals = np.maximum(np.sum([candidate.weights for candidate in fitted], axis=0), LEAST)
    lines += _table(judged, mixtures[0], range(len(judged)))
    low, high = bounds(units, trust_in(mixtures[0], sampled))
    return FittedAverage(
        candidates=[
            replace(each, weights=tuple((each.weights / totals).tolist())) for each in fitted
        ],
        table=sorted(lines, key=lambda line: -line[1]),
        points=points,
        low=low,
        high=high,
        residual_factor=factor,
        held_out=held_out,
        judged_units=sampled,
        judged=weighing,
    )


def _is_smaller_in_items(units: Observations) -> bool:
    """Whether there are so many comparisons between few items that matrices of items are smaller."""
    return units.size > 2 * units.n_points


def _points(units: Observations, most: int, seed: int) -> Index:
    """Numbers of the points of a basis, drawn at random, in ascending order."""
    rng = np.random.default_rng([seed, 2])
    return np.sort(rng.permutation(np.arange(units.n_points))[:most])


def affordable(n: int, n_parts: int = 1) -> tuple[int, int]:
    """How many candidates are fitted to n rows, and how many of the rows are their points: all, as
    long as at least two candidates can have them, and the kernels of their parts fit into memory.
    """
    work = WORK_PER_ROW * n / (1 + n / MANY_ROWS)
    n_exact = int(3 * work / n**3)
    if n_exact >= FEWEST_EXACT and (4 + 2 * n_parts) * n**2 <= MAX_ENTRIES:
        return n_exact, n
    size = np.arange(1, MAX_BASIS + 1, dtype=np.float64)
    cost = FEW_IN_BASIS * (n * size**2 + BASIS_COST * size**3)
    return FEW_IN_BASIS, max(int(np.searchsorted(cost, work)), min(n, LEAST_BASIS))


@contextmanager
def told(
    units: Observations, candidates: Sequence[Candidate], shape: tuple[int, int], most_points: int
) -> Iterator[Done]:
    """A function of a step of a fit and the share of it that was done since. A fit that will take
    long says so beforehand, with the bytes that it takes, and shows how far it has come.

    Operations are counted as fast as those of products of matrices, and right within a factor of
    two: as a rule, half of the candidates carry weight by rows that teach, and a few in the end; of
    the points of a basis, a rough kernel needs all and a smooth one few.

    units : that weigh the candidates; shape : of the rows that are fitted, as candidates see them
    """
    n, d = shape
    weighing, teaching = map(len, split(units, 0))
    taught = min(teaching or weighing, MAX_TEACHING)
    learned = {each.rows for each in candidates if each.per_column and d <= MAX_WIDTHS}
    count, points = affordable(n)
    count, points = min(count, len(candidates)), min(points, most_points)
    each = 2 * n * points * (points + 4 * d) / 3 + 3 * points**3
    if points == n:
        count, each = min(count, FEW_CARRIERS), 1.75 * n**2 * (n / 3 + weighing + 4 * d)
    steps = {
        "widths": 200 * len(learned) * taught**2 * (taught + 2 * d),
        "weights": (5 if teaching else 25) * len(candidates) * weighing**2 * (weighing + d),
        "coefficients": count * each,
    }
    work = sum(steps.values())
    seconds = 0.0 if work < LONG * SLOWEST else work / product_rate()
    if seconds < LONG:
        yield lambda step, share: None
        return
    memory = 8 * (len(candidates) / 2 * weighing**2 + 5 * points**2 + 4 * units.n_points * d)
    what = f"{count_of(n, 'row')} and {count_of(len(candidates), 'model')}"
    size = f"about {rounded(seconds, 2)} s and {in_bytes(memory)} of memory"
    say(f"corank: a fit to {what} takes {size}")
    with progress_bar("fitting", work, of_rows=False) as advance:
        yield lambda step, share: advance(steps[step] * share)


def product_rate() -> float:
    """Operations per second in products of matrices, measured."""
    square = np.ones((1_000, 1_000))
    return 2e9 / min(repeat(lambda: square @ square, number=1, repeat=3))


def _heaviest_with_bases(fitted: Sequence[FittedCandidate]) -> list[FittedCandidate]:
    """The candidates, of which only the heaviest of every side keep the matrices of their basis where
    those are large: they say how uncertain predictions are.
    """
    sizes = [sum(matrix.size for matrix in each.basis or ()) for each in fitted]
    if sum(sizes) <= MAX_BASIS_ENTRIES:
        return list(fitted)
    kept = {int(np.argmax(weights)) for weights in zip(*(f.weights for f in fitted), strict=True)}
    return [
        each if number in kept else replace(each, basis=None) for number, each in enumerate(fitted)
    ]


def _table(
    judged: Sequence[Judged], mixture: Mixture, numbers: Iterable[int]
) -> list[tuple[Candidate, float, float]]:
    """What was tried, its weight and its held-out error."""
    return [
        (judged[number].candidate, float(mixture.weights[number]), float(mixture.errors[number]))
        for number in numbers
    ]


def _weighed(fitted: FittedCandidate, mixtures: Sequence[Mixture], number: int) -> FittedCandidate:
    return replace(
        fitted,
        weights=tuple(float(mixture.weights[number]) for mixture in mixtures),
        multipliers=tuple(float(mixture.multipliers[number]) for mixture in mixtures),
    )


def split(units: Observations, seed: int) -> tuple[Index, Index]:
    """The units that weigh candidates, and those that teach: none where they would share folds, as
    where queries are few and large, or where they are too few.
    """
    n_weighing = min(len(units) // 2, MAX_WEIGHED)
    if n_weighing < FEW_WEIGHED:
        return np.arange(len(units)), np.arange(0)
    weighing = some(units, n_weighing, [seed, 1])
    others = np.setdiff1d(np.arange(len(units)), weighing)
    is_cut = np.isin(units.folds[others], units.folds[weighing]).any()
    return weighing, others[:0] if is_cut or len(others) < FEW_WEIGHED else others


def some(units: Observations, most: int, seed: list[int]) -> Index:
    """All units, or whole folds or persons as long as they fit, or some of all rows."""
    if len(units) <= most:
        return np.arange(len(units))
    rng = np.random.default_rng(seed)
    folds = (
        units.folds if units.persons is None else np.unique(units.persons, return_inverse=True)[1]
    )
    order = rng.permutation(int(folds.max()) + 1)
    whole, room = [], most
    for fold, size in zip(order.tolist(), np.bincount(folds)[order].tolist(), strict=True):
        if size <= room:
            whole.append(fold)
            room -= size
    if len(whole) >= min(len(order), 8) and room <= most // 2:
        return np.flatnonzero(np.isin(folds, whole))
    return np.sort(rng.choice(len(units), most, replace=False))


def honest_folds(units: Observations) -> list[Index]:
    """Folds by which the average is judged."""
    if len(units) >= FEW_REFITTED:
        return coarse_folds(units, MANY_FOLDS)
    return coarse_folds(units, int(np.clip(JUDGED_UNITS // len(units), 3, 5)))


def sample_of(space: Space, units: Observations, chosen: Index) -> tuple[Observations, Space]:
    """The chosen units, and the space of their rows."""
    if len(chosen) == len(units):
        return units, space
    sample = units.take(chosen)
    rows = np.unique(
        sample.first if sample.second is None else np.concatenate([sample.first, sample.second])
    )
    return sample.renumbered(rows), space.take(rows)


def learned_widths(
    space: Space, candidates: Sequence[Candidate], units: Observations, seed: int
) -> LearnedWidths | None:
    """The widths of the candidates that have one per column, from units that teach. Where there are
    too few, from those that weigh candidates, and without each of their folds.
    """
    names = {c.rows for c in candidates if c.per_column} & set(space.scored)
    names = {name for name in names if 0 < space.scored[name].shape[1] <= MAX_WIDTHS}
    has_one_level = units.groups is None or int(units.groups.max()) == 0
    if not names or units.second is not None or not has_one_level or len(units) < FEWEST_WIDTHS:
        return None
    weighing, teaching = split(units, seed)
    rng = np.random.default_rng([seed, 5])
    blocks = [weighing[fold] for fold in honest_folds(units.take(weighing))]
    if len(teaching):
        weighing, blocks = teaching, []
    parts = [weighing, *(np.setdiff1d(weighing, block) for block in blocks)]
    parts = [rng.permutation(part)[:MAX_TEACHING] for part in parts]
    if min(np.ptp(units.scores[part]) for part in parts) <= TIED * np.max(np.abs(units.scores)):
        return None
    factors: list[dict[str, FloatArray]] = [{} for _ in parts]
    with in_one_thread(units.scores, with_jobs=len(weighing) >= LEAST_THREADED):
        for name in sorted(names):
            rows = space.scored[name]
            first = widths_per_column(units.take(parts[0]), rows)
            # few rows begin anew without a fold, where it is best with all rows: going on from the
            # widths of all rows would keep what the fold said
            known = None if len(parts[0]) < FEW_REFITTED else first
            again = partial(widths_per_column, rows=rows, starts=(first.start,), known=known)
            others = in_order(again, map(units.take, parts[1:]), units.scores)
            for each, widths in zip(factors, [first, *others], strict=True):
                each[name] = np.sqrt(widths.gammas)
    folds = np.zeros(units.n_points, dtype=np.int64)
    for number, block in enumerate(blocks):
        folds[units.first[block]] = number
    return LearnedWidths(factors[0], factors[1:], folds if blocks else None)


def _shortlisted(
    space: Space,
    candidates: Sequence[Candidate],
    units: Observations,
    teaching: Index,
    seed: int,
    *,
    ranks: bool,
) -> tuple[Sequence[Candidate], list[tuple[Candidate, float, float]]]:
    """The candidates that carry weight by some of the units that teach, and the others with their
    errors; all of them where no units teach.
    """
    if not len(teaching):
        return candidates, []
    few = teaching[some(units.take(teaching), FEW_WEIGHED, [seed, 6])]
    rows, few_space = sample_of(space, units, few)
    # widths were learned from these rows, so they cannot be judged by them
    # and of few rows nothing is known of items and persons
    taught = [candidate for candidate in candidates if candidate.per_column or candidate.shares]
    others = [candidate for candidate in candidates if candidate not in taught]
    if not others:
        return candidates, []
    judged = judge(few_space, others, rows, with_variances=False)
    mixtures = _mixtures(judged, rows, ranks=ranks)
    chosen = set(_carriers(mixtures).tolist())
    failed = [
        (candidate, 0.0, float(error))
        for number, (candidate, error) in enumerate(zip(others, mixtures[0].errors, strict=True))
        if number not in chosen
    ]
    return [*taught, *(others[number] for number in sorted(chosen))], failed


def _mixtures(judged: Sequence[Judged], units: Observations, *, ranks: bool) -> Sequence[Mixture]:
    """Weights for every side: where rows come with query labels and links, and where they do not."""
    mixture = mix(judged, units, ranks=ranks)
    mixtures = []
    for queries, links in SIDES:
        allowed = np.asarray(
            [sees(judgement.candidate, queries=queries, links=links) for judgement in judged]
        )
        everything = allowed.all() or not allowed.any()
        mixtures.append(mixture if everything else mix(judged, units, ranks=ranks, allowed=allowed))
    return mixtures


def side_of(*, queries: bool, links: bool) -> int:
    """The number of the side of rows that come with query labels or links, or without."""
    return SIDES.index((queries, links))


def sees(candidate: Candidate, *, queries: bool, links: bool) -> bool:
    """Whether a candidate can be had from rows with query labels or links, or without."""
    return (queries or candidate.encoding not in WITHIN_QUERIES) and (links or not candidate.hops)


def _carriers(mixtures: Sequence[Mixture]) -> Index:
    """The candidates that carry weight, heaviest first; the others weigh next to nothing together."""
    carrying = np.zeros(len(mixtures[0].weights), dtype=bool)
    for mixture in mixtures:
        order = np.argsort(mixture.weights)
        carrying[order[np.cumsum(mixture.weights[order]) > NEGLIGIBLE]] = True
    chosen = np.flatnonzero(carrying)
    return chosen[np.argsort(-mixtures[0].weights[chosen], kind="stable")]


def _heaviest(mixtures: Sequence[Mixture], chosen: Index, count: int) -> list[int]:
    """So many of the chosen candidates, heaviest first, and at least the heaviest one of every
    side.
    """
    first = dict.fromkeys(int(np.argmax(mixture.weights)) for mixture in mixtures)
    others = [int(number) for number in chosen if int(number) not in first]
    few = [*first, *others[: max(count - len(first), 0)]]
    return sorted(few, key=lambda number: -mixtures[0].weights[number])


# ---------------------------------------------------------------- honest errors


def honest_predictions(
    space: Space,
    candidates: Sequence[Candidate],
    units: Observations,
    folds: Sequence[Index],
    *,
    ranks: bool,
) -> FloatArray:
    """Held-out predictions of the average (N,), as `Observations.left_out` gives them.

    Weights and alphas are chosen without the fold that is predicted.
    """
    predictions = np.full(len(units), np.nan)
    everything = np.arange(len(units))
    for fold in folds:
        kept = np.setdiff1d(everything, fold)
        train = units.take(kept)
        if int(train.folds.max()) < 1:
            continue
        values = values_at_points(space, candidates, train, ranks=ranks)
        predictions[fold] = units.without(fold, values)
    return predictions


def mixed_predictions(
    judged: Sequence[Judged], units: Observations, folds: Sequence[Index], *, ranks: bool
) -> FloatArray:
    """Held-out predictions of the average (N,), whose weights and alphas are chosen without the fold
    that is predicted.
    """
    predictions = np.full(len(units), np.nan)
    for fold in folds:
        train = units.take(np.setdiff1d(np.arange(len(units)), fold))
        if int(train.folds.max()) < 1:
            continue
        mixture = mix([judgement.without(fold, units) for judgement in judged], train, ranks=ranks)
        held_out = np.stack([judgement.held_out[fold] for judgement in judged])
        shares = mixture.shares * mixture.multipliers[:, None]
        predictions[fold] = np.einsum("ca,cna->n", shares, held_out)
    return predictions


def values_at_points(
    space: Space, candidates: Sequence[Candidate], units: Observations, *, ranks: bool
) -> FloatArray:
    """Predictions at all points (n_points,) of the average that is fitted on the units alone."""
    judged = judge(space, candidates, units, with_variances=False)
    mixture = mix(judged, units, ranks=ranks)
    low, high = bounds(units, trust_in(mixture, units))
    total = np.zeros(units.n_points)
    for number in np.flatnonzero(mixture.weights > 0):
        judgement = judged[number]
        dual = judgement.form.duals @ alpha_shares([mixture], int(number))
        coefficients = units.root_transposed(dual[:, None])[:, 0]
        values = space.kernel(judgement) @ coefficients
        values = mixture.multipliers[number] * (values + units.centre(values))
        total += mixture.weights[number] * np.clip(units.base + values, low, high)
    return total


def _residual_factor(
    judged: Sequence[Judged],
    mixture: Mixture,
    units: Observations,
    held_out: FloatArray,
    *,
    ranks: bool,
) -> float:
    """By how much standard deviations must be multiplied to fit held-out residuals.

    Variances are formed as those of new rows are: every candidate at its mean alpha, and what lies
    between candidates.
    held_out : (N,) predictions of averages that chose without the units, NaN where there are none
    """
    truth = units.targets if ranks else units.truth
    mean, square = np.zeros(len(units)), np.zeros(len(units))
    for number in np.flatnonzero(mixture.weights > 0):
        weight, judgement, multiplier = (
            mixture.weights[number],
            judged[int(number)],
            mixture.multipliers[number],
        )
        shares = mixture.shares[number] / mixture.shares[number].sum()
        predictions = (
            multiplier
            * (units.centred(judgement.held_out) if ranks else judgement.held_out)
            @ shares
        )
        mean += weight * predictions
        square += weight * (
            multiplier**2 * at_mean_alpha(judgement, shares, judgement.form.variance)
            + predictions**2
        )
    variance = np.maximum(square - mean**2, LEAST)
    if np.isfinite(held_out).all():
        mean = units.centred(held_out) if ranks else held_out
    # of sums: single variances may be far too small
    ratio = np.sum((truth - mean) ** 2) / np.sum(variance)
    return float(np.sqrt((PRIOR_RESIDUALS + len(units) * ratio) / (PRIOR_RESIDUALS + units.n_free)))
