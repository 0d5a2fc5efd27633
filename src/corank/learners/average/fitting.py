"""Fit the average: weigh candidates, fit those that carry weight, and say how large the error on
new rows is.

Few scored rows: weights, alphas and coefficients come from the same eigendecompositions. More rows:
candidates are weighed on a sample of them, then fitted on all rows with their alphas, each exactly.
More than MANY_ROWS: the sample is larger, and only the heaviest candidates are fitted. More than
MAX_DUAL rows: they are fitted in a basis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from corank.core.arrays import FloatArray, Index, in_one_thread
from corank.learners.average.candidates import Candidate
from corank.learners.average.closed_form import Observations
from corank.learners.average.coefficients import (
    Fits,
    FittedCandidate,
    alpha_shares,
    at_mean_alpha,
)
from corank.learners.average.encoding import QUERY_RANKS
from corank.learners.average.similarity import Space, factors_per_column
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

MANY_ROWS = 2_000  # beyond which a fit takes seconds
MAX_WEIGHED, MAX_WEIGHED_OF_MANY = 300, 1_000  # rows by which candidates are weighed
# from which widths per column are learned, all of them others than those that weigh candidates
WIDTH_ROWS = 800
TIED = 1e-9  # range of scores, over the largest, that says nothing about widths
MAX_WIDTHS = 500  # columns: evidence of so few rows says nothing about more
# units from which candidates are judged in threads: with fewer, those would wait for Python
LEAST_THREADED = 150
FEW_UNITS = 200  # up to which the average is judged by five folds, beyond by three
MAX_DUAL = 5_000  # rows that are all points of the model
N_BASIS = 2_000  # rows that span the model beyond
# candidates that are fitted to many rows; each with a basis adds 64 MB to a file
MAX_HEAVIEST, MAX_IN_BASIS = 8, 4
# rows times candidates that are read in a basis, but for one candidate per side
MAX_BASIS_WORK = 100_000
NEGLIGIBLE = 0.01  # weight of all candidates together that are left out
# residuals as large as their standard deviation, added to those that were observed
PRIOR_RESIDUALS = 3.0
# whether rows come with query labels, with links
SIDES = ((True, True), (False, True), (True, False), (False, False))


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
    judged_units : those units
    """

    candidates: list[FittedCandidate]
    table: list[tuple[Candidate, float, float]]
    points: Index
    low: float
    high: float
    residual_factor: float
    held_out: FloatArray
    judged_units: Observations

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
) -> FittedAverage:
    """Weigh and fit candidates.

    Parameters
    ----------
    space : encoded scored rows, or items
    candidates : all of them can be built
    units : what is fitted
    ranks : whether only the order counts
    seed : for samples of rows
    honest : whether held-out predictions of the average are wanted, which take most of the time;
        else they are NaN
    """
    sampled, sample_space = _sample(space, units, seed)
    with in_one_thread(units.scores, with_jobs=len(sampled) >= LEAST_THREADED):
        judged = judge(sample_space, candidates, sampled)
        mixtures = _mixtures(judged, sampled, ranks=ranks)
        folds = coarse_folds(sampled, 5 if len(sampled) < FEW_UNITS else 3) if honest else []
        held_out = honest_predictions(sample_space, candidates, sampled, folds, ranks=ranks)
        factor = _residual_factor(judged, mixtures[0], sampled, held_out, ranks=ranks)
    del sample_space  # and its kernels
    fits, chosen = Fits(judged, mixtures, units), _carriers(mixtures)
    points = np.arange(units.n_points)
    if sampled is units:
        fitted = [fits.closed(number, space) for number in chosen]
    elif not _are_many(units):
        fitted = fits.all_dual(chosen.tolist(), space)
    elif units.size <= MAX_DUAL:
        fitted = fits.all_dual(_heaviest(mixtures, chosen, MAX_HEAVIEST), space)
    else:
        if units.n_points > N_BASIS:
            points = np.sort(
                np.random.default_rng([seed, 2]).choice(points, N_BASIS, replace=False)
            )
        count = min(MAX_IN_BASIS, MAX_BASIS_WORK // units.size)
        fitted = fits.on_basis(_heaviest(mixtures, chosen, count), space, points)
    totals = np.maximum(np.sum([candidate.weights for candidate in fitted], axis=0), LEAST)
    table = [
        (judgement.candidate, float(weight), float(error))
        for judgement, weight, error in zip(
            judged, mixtures[0].weights, mixtures[0].errors, strict=True
        )
    ]
    low, high = bounds(units, trust_in(mixtures[0], sampled))
    return FittedAverage(
        candidates=[
            replace(each, weights=tuple((each.weights / totals).tolist())) for each in fitted
        ],
        table=sorted(table, key=lambda line: -line[1]),
        points=points,
        low=low,
        high=high,
        residual_factor=factor,
        held_out=held_out,
        judged_units=sampled,
    )


def _are_many(units: Observations) -> bool:
    """Whether exact fits of all candidates would take long: then fewer are fitted, and weighed by
    more rows.
    """
    return units.size > MANY_ROWS


def column_factors(
    space: Space, candidates: Sequence[Candidate], units: Observations, seed: int
) -> dict[str, FloatArray]:
    """`Space.column_factors` for the candidates that have widths per column, where there are many
    scored rows; learned from rows that candidates are not weighed by.
    """
    names = {candidate.rows for candidate in candidates if candidate.per_column}
    names = {
        name for name in names & set(space.scored) if 0 < space.scored[name].shape[1] <= MAX_WIDTHS
    }
    has_one_level = units.groups is None or int(units.groups.max()) == 0
    if not names or units.second is not None or not has_one_level or not _are_many(units):
        return {}
    others = np.setdiff1d(np.arange(len(units)), _sampled(units, seed))
    rng = np.random.default_rng([seed, 5])
    chosen = units.take(rng.choice(others, min(WIDTH_ROWS, len(others)), replace=False))
    if np.ptp(chosen.scores) <= TIED * np.max(np.abs(units.scores)):
        return {}
    with in_one_thread(units.scores):
        return {name: factors_per_column(chosen, space.scored[name]) for name in names}


def _sampled(units: Observations, seed: int) -> Index:
    """The units that candidates are weighed by: all, or whole folds as long as they fit, or some of
    all rows.
    """
    most = MAX_WEIGHED_OF_MANY if _are_many(units) else MAX_WEIGHED
    if len(units) <= most:
        return np.arange(len(units))
    rng = np.random.default_rng([seed, 1])
    order = rng.permutation(int(units.folds.max()) + 1)
    sizes = np.bincount(units.folds)[order]
    whole = order[np.cumsum(sizes) <= most]
    if len(whole) >= min(len(order), 8):
        return np.flatnonzero(np.isin(units.folds, whole))
    return np.sort(rng.choice(len(units), most, replace=False))


def _sample(space: Space, units: Observations, seed: int) -> tuple[Observations, Space]:
    """The units that candidates are weighed by, and the space of their rows."""
    chosen = _sampled(units, seed)
    if len(chosen) == len(units):
        return units, space
    sample = units.take(chosen)
    rows = np.unique(
        sample.first if sample.second is None else np.concatenate([sample.first, sample.second])
    )
    return sample.renumbered(rows), space.take(rows)


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
    return (queries or candidate.encoding != QUERY_RANKS) and (links or not candidate.hops)


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
        train, left = units.take(kept), units.take(fold)
        if int(train.folds.max()) < 1:
            continue
        predictions[fold] = left.left_out(values_at_points(space, candidates, train, ranks=ranks))
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
