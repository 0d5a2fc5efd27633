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
from itertools import groupby
from typing import Annotated

import numpy as np
import scipy.linalg

from corank.core.arrays import FloatArray, Index, in_one_thread, in_order, symmetrised, take
from corank.core.loss import Pointwise, WithinQueries
from corank.core.storable import storable
from corank.core.stored_fields import Finite, floats, pair
from corank.core.sums import Accumulator
from corank.learners.average.candidates import Candidate
from corank.learners.average.closed_form import Observations
from corank.learners.average.encoding import QUERY_RANKS
from corank.learners.average.similarity import (
    CandidateKernel,
    Distances,
    Space,
    factors_per_column,
    second_order_features,
)
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
# kernel values at a time of every candidate in a basis, 8 MB: sums of larger blocks are no faster
BASIS_BLOCK_ENTRIES = 2**20
# of a kernel over the largest: what lies in directions of smaller ones is lost in rounding
LEAST_EIGENVALUE = 1e-8
# whether rows come with query labels, with links
SIDES = ((True, True), (False, True), (True, False), (False, False))
JITTERS = (1e-11, 1e-9, 1e-7, 1e-5)  # of the mean of the diagonal of a matrix that is factorised


BASIS = pair(floats(".b", ".b"), floats("f", ".b"))


@storable("FittedCandidate")
@dataclass(frozen=True)
class FittedCandidate(CandidateKernel):
    """A candidate with its coefficients: the function Σ c_i k(x, x_i) + level.

    weights, multipliers : one per pair of SIDES
    alpha, amplitude : noise variance per amplitude, and amplitude, both in units of the kernel
    coefficients : (r,) of the points; view_coefficients : (M, u) of the unscored rows where views
        agree, (1, u) where rows are alike by what they are similar to; means : (u,) for the latter,
        as in `second_order_features`
    basis : where the points are not all rows, the Gram matrix (k, k) over all rows, and the
        directions (r, k) that it is a matrix of
    """

    weights: tuple[Finite, ...]
    multipliers: tuple[Finite, ...]
    alpha: Finite
    amplitude: Finite
    coefficients: Annotated[FloatArray, floats("f")]
    view_coefficients: Annotated[FloatArray | None, floats("_", "_") | None]
    level: Finite
    basis: Annotated[tuple[FloatArray, FloatArray] | None, BASIS | None] = None
    means: Annotated[FloatArray | None, floats("_") | None] = None

    def variance(self, side: int) -> float:
        """The prior variance of its function, as it counts on a side."""
        return self.amplitude * self.multipliers[side] ** 2


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
    judged = judge(sample_space, candidates, sampled)
    mixtures = _mixtures(judged, sampled, ranks=ranks)
    folds = coarse_folds(sampled, 5 if len(sampled) < FEW_UNITS else 3) if honest else []
    held_out = honest_predictions(sample_space, candidates, sampled, folds, ranks=ranks)
    factor = _residual_factor(judged, mixtures[0], sampled, held_out, ranks=ranks)
    del sample_space  # and its kernels
    fits, chosen = _Fits(judged, mixtures, units), _carriers(mixtures)
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


# ---------------------------------------------------------------- coefficients


def _alpha_shares(mixtures: Sequence[Mixture], number: int) -> FloatArray:
    """The shares of the alphas of a candidate, by the first mixture in which it has any: (a,),
    their sum is 1.
    """
    shares = next(
        (m.shares[number] for m in mixtures if m.shares[number].sum() > 0),
        mixtures[0].shares[number],
    )
    total = float(shares.sum())
    return shares / total if total > 0 else np.full(len(shares), 1 / len(shares))


def mean_alpha(judgement: Judged, shares: FloatArray) -> float:
    """The geometric mean of the alphas of a candidate, by their shares."""
    return float(np.exp(np.log(judgement.form.alphas) @ shares))


def _at_mean_alpha(judgement: Judged, shares: FloatArray, values: FloatArray) -> FloatArray:
    """Positive values (..., a) at the mean alpha, between those at the two alphas beside it."""
    logarithms = np.log(judgement.form.alphas)
    place = float(np.interp(logarithms @ shares, logarithms, np.arange(len(logarithms))))
    left = min(int(place), len(logarithms) - 2) if len(logarithms) > 1 else 0
    right = min(left + 1, len(logarithms) - 1)
    ends = np.log(np.maximum(values[..., [left, right]], LEAST))
    result: FloatArray = np.exp(ends @ np.asarray([1 - (place - left), place - left]))
    return result


@dataclass(frozen=True)
class _Fits:
    """Fits coefficients of candidates, which were judged and weighed on a sample, to units."""

    judged: Sequence[Judged]
    mixtures: Sequence[Mixture]
    units: Observations

    def _fitted(
        self,
        number: int,
        coefficients: FloatArray,
        space: Space,
        level: float,
        basis: tuple[FloatArray, FloatArray] | None = None,
    ) -> FittedCandidate:
        judgement = self.judged[number]
        candidate, similarities = judgement.candidate, judgement.similarities
        view_coefficients = means = None
        if candidate.second_order:
            means = space.unscored_means(similarities)
            features = second_order_features(similarities, means, space.to_unscored)
            view_coefficients = (features.T @ coefficients)[None, :]
        if candidate.views == "agreement":
            agreement = space.agreement(judgement)
            view_coefficients = agreement.view_coefficients(coefficients, space.to_unscored)
        shares = _alpha_shares(self.mixtures, number)
        return FittedCandidate(
            candidate=candidate,
            similarities=similarities,
            weights=tuple(float(mixture.weights[number]) for mixture in self.mixtures),
            multipliers=tuple(float(mixture.multipliers[number]) for mixture in self.mixtures),
            alpha=mean_alpha(judgement, shares),
            amplitude=float(_at_mean_alpha(judgement, shares, judgement.form.amplitude)),
            coefficients=coefficients,
            view_coefficients=view_coefficients,
            level=level,
            basis=basis,
            means=means,
        )

    def closed(self, number: int, space: Space) -> FittedCandidate:
        """Coefficients from the eigensystem that the candidate was weighed by, the mean over its
        alphas.
        """
        units = self.units
        judgement = self.judged[number]
        dual = judgement.form.duals @ _alpha_shares(self.mixtures, number)
        coefficients = units.root_transposed(dual[:, None])[:, 0]
        level = float(units.centre(space.kernel(judgement) @ coefficients))
        return self._fitted(number, coefficients, space, level)

    def all_dual(self, chosen: Sequence[int], space: Space) -> list[FittedCandidate]:
        """Fit candidates on all rows, those that are functions of the same distances one after the
        other.
        """

        def distances(number: int) -> list[tuple[str, str]]:
            return [
                (similarity.sight.name, similarity.kernel)
                for similarity in self.judged[number].similarities
            ]

        def fit(numbers: Sequence[int]) -> list[FittedCandidate]:
            shared = space.emptied()
            return [self._dual(number, shared) for number in numbers]

        order = sorted(chosen, key=distances)
        groups = [list(numbers) for _, numbers in groupby(order, key=distances)]
        fitted = [each for group in in_order(fit, groups, self.units.scores) for each in group]
        return [fitted[order.index(number)] for number in chosen]

    def _dual(self, number: int, space: Space) -> FittedCandidate:
        """Coefficients of all rows, at the alpha that the candidate was given on a sample. O(n³ /
        3).
        """
        units = self.units
        judgement = self.judged[number]
        kernel = space.new_kernel(judgement)
        alpha = mean_alpha(judgement, _alpha_shares(self.mixtures, number))
        factor = dual_factor(kernel, units, alpha)
        dual = scipy.linalg.cho_solve(factor, units.targets[:, None], check_finite=False)
        coefficients = units.root_transposed(dual)[:, 0]
        level = float(units.centre(kernel @ coefficients))
        return self._fitted(number, coefficients, space, level)

    def on_basis(self, chosen: Sequence[int], space: Space, points: Index) -> list[FittedCandidate]:
        """Coefficients of r points from all rows. O(n r (r + d)) per candidate.

        The system (Φᵀ AᵀA Φ + alpha K) c = Φᵀ Aᵀ t is solved in directions T in which the kernel of
        the points is the identity, TᵀKT = I and c = T w: the solution for a wide kernel is
        otherwise lost in rounding. All candidates read the rows together, block by block and query
        by query.
        """
        units = self.units
        basis = space.take(points)
        names = {
            similarity.sight.encoding
            for number in chosen
            for similarity in self.judged[number].similarities
        }
        r, weights = len(points), units.roots**2
        codes = np.zeros(len(units), dtype=np.int64) if units.groups is None else units.groups
        order = np.argsort(codes, kind="stable")
        loss = Pointwise() if units.groups is None else WithinQueries("size")
        sums = {n: Accumulator(loss, lambda features: features, r, units.scores) for n in chosen}
        totals = {number: np.zeros(r) for number in chosen}
        step = BASIS_BLOCK_ENTRIES // len(points)

        def distances(rows: Index) -> tuple[Distances, Distances]:
            encoded = {name: take(space.scored[name], rows) for name in names}
            return Distances(encoded, basis.scored), Distances(encoded, basis.unscored)

        for begin in range(0, len(units), step):
            block = order[begin : begin + step]
            first = distances(units.first[block])
            second = None if units.second is None else distances(units.second[block])
            for number in chosen:
                features = basis.kernel_to_scored(self.judged[number], *first)
                if second is not None:
                    features -= basis.kernel_to_scored(self.judged[number], *second)
                totals[number] += weights[block] @ features
                sums[number].add(features, units.scores[block], codes[block], weights[block])
        fitted = []
        for number, total in sums.items():
            alpha = mean_alpha(self.judged[number], _alpha_shares(self.mixtures, number))
            kernel = basis.kernel(self.judged[number])
            directions = basis_directions(kernel, centred=units.groups is not None)
            gathered = total.result().total()
            gram = symmetrised(directions.T @ gathered.features @ directions)
            right = directions.T @ gathered.right()[:, 0]
            solution = scipy.linalg.cho_solve(basis_factor(gram, alpha), right, check_finite=False)
            coefficients = directions @ solution
            level = 0.0
            if units.groups is not None:
                level = -float(totals[number] @ coefficients) / float(weights.sum())
            elif units.second is not None:
                level = float(units.centre(kernel @ coefficients))
            fitted.append(self._fitted(number, coefficients, basis, level, (gram, directions)))
        return fitted


def dual_factor(kernel: FloatArray, units: Observations, alpha: float) -> tuple[FloatArray, bool]:
    """The Cholesky factor of A K Aᵀ + alpha I, for K (n_points, n_points)."""
    matrix = units.matrix(kernel)
    matrix.flat[:: len(matrix) + 1] += alpha
    return jittered_factor(matrix)


def basis_directions(kernel: FloatArray, *, centred: bool) -> FloatArray:
    """Directions T (r, k) in which the kernel (r, r) of points is the identity, TᵀKT = I.

    centred : whether levels are free, so that a constant may be taken out of the kernel: most of a
        wide one is
    """
    varying = kernel - kernel.mean(axis=0) if centred else kernel
    values, vectors = np.linalg.eigh(kernel)
    kept = values > LEAST_EIGENVALUE * np.linalg.norm(varying, 2)
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def basis_factor(gram: FloatArray, alpha: float) -> tuple[FloatArray, bool]:
    """The Cholesky factor of the system of a basis in its directions, for their Gram matrix (k, k)."""
    return jittered_factor(gram + alpha * np.eye(len(gram)))


def jittered_factor(matrix: FloatArray) -> tuple[FloatArray, bool]:
    """The Cholesky factor of a positive semi-definite matrix, with as little added to its diagonal
    as it takes.
    """
    size = max(float(np.trace(matrix)) / len(matrix), LEAST)
    for jitter in JITTERS:
        system = matrix.copy()
        system.flat[:: len(system) + 1] += jitter * size
        try:
            # a symmetric matrix is its transpose, which LAPACK factorises where it stands
            factor: tuple[FloatArray, bool] = scipy.linalg.cho_factor(
                system.T, lower=True, overwrite_a=True, check_finite=False
            )
        except scipy.linalg.LinAlgError:
            continue
        return factor
    raise ValueError("the kernel of a candidate is not positive semi-definite on these rows.")


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
        dual = judgement.form.duals @ _alpha_shares([mixture], int(number))
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
            multiplier**2 * _at_mean_alpha(judgement, shares, judgement.form.variance)
            + predictions**2
        )
    variance = np.maximum(square - mean**2, LEAST)
    if np.isfinite(held_out).all():
        mean = units.centred(held_out) if ranks else held_out
    # of sums: single variances may be far too small
    ratio = np.sum((truth - mean) ** 2) / np.sum(variance)
    return float(np.sqrt((PRIOR_RESIDUALS + len(units) * ratio) / (PRIOR_RESIDUALS + units.n_free)))
