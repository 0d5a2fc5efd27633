"""The coefficients of candidates that were judged and weighed: from their eigensystems, exactly on all
rows, or from sums over all rows in a basis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Annotated, Protocol

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dpstrf, dtrtri

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    in_order,
    runs_of_rows,
    stack_rows,
    sum_of,
    symmetrised,
    take,
)
from corank.core.basis import WHITEN_INSIDE
from corank.core.loss import Loss, Pointwise, QueryLoss, WithinQueries
from corank.core.storable import (
    Finite,
    by_name,
    feature_rows,
    floats,
    pair,
    several,
    storable,
    whole,
)
from corank.core.sums import N_TARGETS, Statistics, gather
from corank.learners.average.closed_form import Observations
from corank.learners.average.encoding import PERSON
from corank.learners.average.similarity import (
    CandidateKernel,
    Distances,
    Encoded,
    Similarity,
    Space,
    second_order_features,
)
from corank.learners.average.weighing import Judged, LeftOutUnits, Mixture
from corank.solve.spectrum import LEAST

# of a kernel over the largest: what lies in directions of smaller ones is lost in rounding
LEAST_EIGENVALUE = 1e-8
FEW_DIRECTIONS = 0.4  # of the points: fewer make features cheaper to sum
BLOCK_ROWS = 500  # whose kernel values are held at a time
MAX_AT_ONCE = 2_500  # rows up to which every thread has a matrix of its own: beyond, all share one
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

    @property
    def own_similarities(self) -> list[Similarity]:
        """The kernels of what persons have alone."""
        return [
            part
            for part in self.similarities
            if any(each.kernel == PERSON for each in part.factors)
        ]

    def with_points(self, order: Index) -> FittedCandidate:
        """The candidate with its points in another order."""
        basis = None if self.basis is None else (self.basis[0], self.basis[1][order])
        return replace(self, coefficients=self.coefficients[order], basis=basis)

    def variance(self, side: int) -> float:
        """The prior variance of its function, as it counts on a side."""
        return self.amplitude * self.multipliers[side] ** 2


@storable("LaterAnswers")
@dataclass(frozen=True)
class LaterAnswers:
    """Answers of persons who were not there in the fit, by which they have deviations of their own
    from what all share, which stays what it is.

    rows : encoded, by the name of the encoding; scores, weights : (a,); persons : (a,) their codes
    coefficients : (a,) for every candidate of the model
    roots : (a, a) for every candidate, turn kernel values with the rows, by their squares, into what
        they know of a variance, in units of its kernel
    """

    rows: Annotated[Mapping[str, Array], by_name(feature_rows(".a", "_"))]
    scores: Annotated[FloatArray, floats(".a")]
    weights: Annotated[FloatArray, floats(".a")]
    persons: Annotated[Index, whole(".a")]
    coefficients: Annotated[Sequence[FloatArray], several(floats(".a"))] = ()
    roots: Annotated[Sequence[FloatArray], several(floats(".a", ".a"))] = ()

    def is_sound(self) -> bool:
        """Whether a model can have kept such answers."""
        return len(self.scores) > 0 and bool((self.weights > 0).all())

    def followed_by(self, later: LaterAnswers) -> LaterAnswers:
        """With further answers, whose coefficients are not known."""
        rows = {name: stack_rows([values, later.rows[name]]) for name, values in self.rows.items()}
        return LaterAnswers(
            rows,
            np.concatenate([self.scores, later.scores]),
            np.concatenate([self.weights, later.weights]),
            np.concatenate([self.persons, later.persons]),
        )

    def fitted(
        self, candidates: Sequence[FittedCandidate], shared: FloatArray, *, free_level: bool
    ) -> LaterAnswers:
        """With the coefficients of deviations of every person: kernel least squares on what shared
        functions (C, a) leave of the scores. O(C Σ m³) for persons with m answers.

        free_level : whether the level of a person's scores says nothing
        """
        n = len(self.scores)
        coefficients, roots = [], []
        for fitted, values in zip(candidates, shared, strict=True):
            distances = Distances(self.rows, self.rows)
            parts = [distances.kernel(part) for part in fitted.own_similarities]
            kernel = np.asarray(sum_of(parts)) if parts else np.zeros((n, n))
            solution, root = np.zeros(n), np.zeros((n, n))
            for person in np.unique(self.persons):
                rows = np.flatnonzero(self.persons == person)
                residuals = (self.scores - values)[rows]
                weights = np.sqrt(self.weights[rows])
                units = Observations(
                    residuals,
                    weights,
                    np.arange(len(rows)),
                    None,
                    np.zeros(len(rows), dtype=np.int64) if free_level else None,
                    np.arange(len(rows)),
                    False,
                    len(rows),
                )
                lower = dual_factor(kernel[np.ix_(rows, rows)], units, fitted.alpha)
                dual = scipy.linalg.cho_solve(lower, units.targets[:, None])
                solution[rows] = units.root_transposed(dual)[:, 0]
                inner = units.root(np.eye(len(rows)))
                root[np.ix_(rows, rows)] = scipy.linalg.solve_triangular(
                    np.tril(lower[0]), inner, lower=True
                )
            coefficients.append(solution)
            roots.append(root)
        return replace(self, coefficients=coefficients, roots=roots)


def alpha_shares(mixtures: Sequence[Mixture], number: int) -> FloatArray:
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


def at_mean_alpha(judgement: Judged, shares: FloatArray, values: FloatArray) -> FloatArray:
    """Positive values (..., a) at the mean alpha, between those at the two alphas beside it."""
    logarithms = np.log(judgement.form.alphas)
    place = float(np.interp(logarithms @ shares, logarithms, np.arange(len(logarithms))))
    left = min(int(place), len(logarithms) - 2) if len(logarithms) > 1 else 0
    right = min(left + 1, len(logarithms) - 1)
    ends = np.log(np.maximum(values[..., [left, right]], LEAST))
    result: FloatArray = np.exp(ends @ np.asarray([1 - (place - left), place - left]))
    return result


@dataclass(frozen=True)
class Fits:
    """Fits coefficients of candidates, which were judged and weighed on a sample, to units.

    weighing : numbers of the units of that sample, whole folds, by which they are judged again; None
        where they are not
    done : called with the share of every fit to all rows
    """

    judged: Sequence[Judged]
    mixtures: Sequence[Mixture]
    units: Observations
    weighing: Index | None = None
    done: Callable[[float], None] = lambda share: None

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
        shares = alpha_shares(self.mixtures, number)
        return FittedCandidate(
            candidate=candidate,
            similarities=similarities,
            weights=tuple(float(mixture.weights[number]) for mixture in self.mixtures),
            multipliers=tuple(float(mixture.multipliers[number]) for mixture in self.mixtures),
            alpha=mean_alpha(judgement, shares),
            amplitude=float(at_mean_alpha(judgement, shares, judgement.form.amplitude)),
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
        dual = judgement.form.duals @ alpha_shares(self.mixtures, number)
        coefficients = units.root_transposed(dual[:, None])[:, 0]
        level = float(units.centre(space.kernel(judgement) @ coefficients))
        return self._fitted(number, coefficients, space, level)

    def all_dual(self, chosen: Sequence[int], space: Space) -> list[tuple[FittedCandidate, Judged]]:
        """Fit candidates on all rows, those that are functions of the same distances one after the
        other.
        """

        def distances(number: int) -> list[tuple[str, str]]:
            return [
                (similarity.sight.name, similarity.kernel)
                for similarity in self.judged[number].similarities
            ]

        def fit(numbers: Sequence[int]) -> list[tuple[FittedCandidate, Judged]]:
            shared, fitted = space.emptied(), []
            for number in numbers:
                fitted.append(self._dual(number, shared))
                self.done(1 / len(chosen))
            return fitted

        order = sorted(chosen, key=distances)
        groups = [list(numbers) for _, numbers in groupby(order, key=distances)]
        at_once = self.units.size <= MAX_AT_ONCE
        results = in_order(fit, groups, self.units.scores) if at_once else map(fit, groups)
        fitted = [each for group in results for each in group]
        return [fitted[order.index(number)] for number in chosen]

    def _dual(self, number: int, space: Space) -> tuple[FittedCandidate, Judged]:
        """Coefficients of all rows, at the alpha that the candidate was given on a sample, and how
        the units of the sample are predicted without each other. O(n³ / 3 + n² N).
        """
        units, judgement = self.units, self.judged[number]
        kernel = space.new_kernel(judgement)
        alpha = mean_alpha(judgement, alpha_shares(self.mixtures, number))
        factor = dual_factor(kernel, units, alpha)
        dual = scipy.linalg.cho_solve(factor, units.targets[:, None], check_finite=False)
        coefficients = units.root_transposed(dual)[:, 0]
        level = float(units.centre(kernel @ coefficients))
        fitted = self._fitted(number, coefficients, space, level)
        if self.weighing is None:
            return fitted, judgement
        left = left_out_of_dual(factor[0], dual[:, 0], units, self.weighing, alpha)
        sample = units.take(self.weighing)
        return fitted, judgement.again(alpha, fitted.amplitude, left, sample)

    def on_basis(
        self, chosen: Sequence[int], space: Space, points: Index, rows: RowsToSum
    ) -> list[tuple[FittedCandidate, Judged]]:
        """Coefficients of r points from all rows. O(n r (r + d)) per candidate, less where k is
        small.

        The system (Φᵀ AᵀA Φ + alpha K) c = Φᵀ Aᵀ t is solved in directions T (r, k) in which the
        kernel of the points is the identity, TᵀKT = I and c = T w: the solution for a wide kernel
        is otherwise lost in rounding.
        """
        basis = space.take(points)
        held, has_level = UnitsToSum(space, self.units), self.units.groups is not None
        features = [
            held.centred(PointFeatures.of(self.judged[number], basis, centred=has_level))
            for number in chosen
        ]
        sums = rows.summed(features, sum_loss(self.units), self.units.base)
        return [
            self._solved(number, each, statistics, held)
            for number, each, statistics in zip(chosen, features, sums, strict=True)
        ]

    def _solved(
        self, number: int, features: PointFeatures, statistics: Statistics, held: UnitsToSum
    ) -> tuple[FittedCandidate, Judged]:
        """Coefficients from the sums over all rows, and how the units of the sample are predicted
        without each other. O(r³ + r² N).
        """
        units, directions = self.units, features.directions
        gram = (statistics if features.projected else statistics.mapped(directions)).total()
        matrix, offsets, level = gram.features, np.zeros(len(directions.T)), 0.0
        if has_one_level(units):
            offsets = gram.matrix[:-N_TARGETS, -1] / gram.weight
            level = gram.mean_score
            matrix = matrix - gram.weight * np.outer(offsets, offsets)
        matrix = symmetrised(matrix)
        alpha = mean_alpha(self.judged[number], alpha_shares(self.mixtures, number))
        right = gram.right(level)[:, 0]
        factor = basis_factor(matrix, alpha)
        solution = scipy.linalg.cho_solve(factor, right, check_finite=False)
        coefficients = directions @ solution
        own_level = level - float(features.centre @ coefficients + offsets @ solution)
        basis = matrix, directions
        fitted = self._fitted(number, coefficients, features.basis, own_level, basis)
        judgement = self.judged[number]
        if self.weighing is None:
            return fitted, judgement
        sample = units.take(self.weighing)
        rows = held.features(features, self.weighing)
        rows = (rows if features.projected else rows @ directions) - offsets
        left = left_out_of_basis(
            factor[0], solution, rows, sample, alpha, gram.weight, units.base + level
        )
        return fitted, judgement.again(alpha, fitted.amplitude, left, sample)


# ---------------------------------------------------------------- sums over all rows


@dataclass(frozen=True)
class PointFeatures:
    """What rows are summed as: their kernel values with r points, less a centre; in directions of
    the points where sums of kernel values would lose too much in rounding, or cost more.

    built : the candidate; basis : the points; directions : (r, k); centre : (r,)
    """

    built: CandidateKernel
    basis: Space
    directions: FloatArray
    centre: FloatArray

    @classmethod
    def of(cls, built: CandidateKernel, basis: Space, *, centred: bool) -> PointFeatures:
        """Features around 0; centred : as in `basis_directions`. O(r³)."""
        kernel = basis.emptied().new_kernel(built)
        return cls(built, basis, basis_directions(kernel, centred=centred), np.zeros(len(kernel)))

    @cached_property
    def projected(self) -> bool:
        """Whether features are those of directions."""
        r, k = self.directions.shape
        squares = np.sum(self.directions**2, axis=0)
        return bool(k <= FEW_DIRECTIONS * r or squares.max() > WHITEN_INSIDE * squares.min())

    @property
    def size(self) -> int:
        """The number of features."""
        return int(self.directions.shape[1 if self.projected else 0])

    @property
    def names(self) -> list[str]:
        """The encodings that rows need."""
        similarities = [each for part in self.built.similarities for each in part.factors]
        return [similarity.sight.encoding for similarity in similarities]

    def kernel(self, rows: Encoded) -> FloatArray:
        """Kernel values of encoded rows with the points: (n, r)."""
        to_unscored = Distances(rows, self.basis.unscored)
        to_points = Distances(rows, self.basis.scored)
        return self.basis.kernel_to_scored(self.built, to_points, to_unscored)

    def of_rows(self, rows: Encoded) -> FloatArray:
        """Features of encoded rows: (n, size). O(n r d), in blocks."""
        n = int(next(iter(rows.values())).shape[0])
        result = np.empty((n, self.size))
        for run in runs_of_rows(n, BLOCK_ROWS):
            block = {name: take(values, run) for name, values in rows.items()}
            values = self.kernel(block) - self.centre
            result[run] = values @ self.directions if self.projected else values
        return result


class RowsToSum(Protocol):
    """All rows that are learned from, of which candidates may have been weighed on a few."""

    @property
    def n_rows(self) -> int:
        """How many there are."""
        ...

    @property
    def most_points(self) -> int:
        """How many points there may be for sums over the rows."""
        ...

    @property
    def has_whole_folds(self) -> bool:
        """Whether the folds of what candidates are weighed by have no other rows."""
        ...

    def summed(
        self, features: Sequence[PointFeatures], loss: Loss, level: float
    ) -> Sequence[Statistics]:
        """The sums of every feature map over the rows, whose scores are taken from a level."""
        ...


@dataclass(frozen=True)
class UnitsToSum:
    """Rows in memory, or comparisons between them.

    done : called with the share of rows whose features were summed
    """

    space: Space
    units: Observations
    done: Callable[[float], None] = lambda share: None

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return self.units.size

    @property
    def most_points(self) -> int:
        """All of the rows."""
        return self.units.n_points

    @property
    def has_whole_folds(self) -> bool:
        """As far as `units` have."""
        return True

    def centred(self, features: PointFeatures) -> PointFeatures:
        """Features whose mean over the rows, or over the points of comparisons, is 0 where levels
        are free.
        """
        units = self.units
        if units.second is not None:
            return replace(features, centre=features.basis.kernel(features.built).mean(axis=0))
        if units.groups is None:
            return features
        total = np.zeros(len(features.centre))
        for rows in runs_of_rows(len(units), BLOCK_ROWS):
            encoded = self._encoded(features, units.first[rows])
            total += units.roots[rows] ** 2 @ features.kernel(encoded)
        return replace(features, centre=total / np.sum(units.roots**2))

    def summed(
        self, features: Sequence[PointFeatures], loss: Loss, level: float
    ) -> Sequence[Statistics]:
        """One pass per feature map."""
        units = self.units
        numbers, weights = np.arange(len(units)), units.roots**2
        codes = units.groups if loss.needs_queries else None
        sums = []
        for each in features:

            def of_numbers(rows: Index, each: PointFeatures = each) -> FloatArray:
                self.done(len(rows) / (len(units) * len(features)))
                return self.features(each, rows)

            scores = units.scores - level
            sums.append(gather(numbers, scores, codes, weights, loss, of_numbers, each.size))
        return sums

    def features(self, features: PointFeatures, numbers: Index) -> FloatArray:
        """Features of units: (n, r), differences for comparisons."""
        units = self.units
        values = features.of_rows(self._encoded(features, units.first[numbers]))
        if units.second is None:
            return values
        return values - features.of_rows(self._encoded(features, units.second[numbers]))

    def _encoded(self, features: PointFeatures, rows: Index) -> Encoded:
        return {name: take(self.space.scored[name], rows) for name in features.names}


def has_one_level(units: Observations) -> bool:
    """Whether one level is free, and not one per query."""
    return units.groups is not None and int(units.groups.max()) == 0


def sum_loss(units: Observations) -> Loss:
    """The loss by which rows are summed; one free level is taken out of the sums."""
    if units.groups is None or has_one_level(units):
        return Pointwise()
    return WithinQueries("size")


def left_out_of_dual(
    factor: FloatArray, dual: FloatArray, units: Observations, chosen: Index, alpha: float
) -> LeftOutUnits:
    """Units predicted without their folds, all of which are among the chosen ones. O(n² N).

    factor : (n, n) lower Cholesky factor of A K Aᵀ + alpha I; dual : (n,) the solution
    """
    columns = np.zeros((len(units), len(chosen)), order="F")
    columns[chosen, np.arange(len(chosen))] = 1.0
    half = scipy.linalg.solve_triangular(
        factor, columns, lower=True, overwrite_b=True, check_finite=False
    )
    sample = units.take(chosen)
    levels = free_levels(units)[chosen]  # their directions have nothing but alpha
    alone = np.zeros(len(chosen)) if units.whole else levels / np.sqrt(alpha)
    residuals, variances = np.zeros(len(chosen)), np.zeros(len(chosen))
    for block in sample.blocks:
        inner = half[:, block].T @ half[:, block] - np.outer(alone[block], alone[block])
        covariance = np.linalg.inv(inner)
        residuals[block] = covariance @ dual[chosen[block]]
        variances[block] = np.diag(covariance)
    if units.whole:
        variances -= alpha * levels**2
    if sample.has_levels:
        residuals *= 1 - levels**2
        variances *= (1 - levels**2) ** 2
    return LeftOutUnits(residuals, np.maximum(variances, LEAST))


def free_levels(units: Observations) -> FloatArray:
    """The unit vectors of the levels that are free, (n,) with those of other queries in other
    entries; zeros where none is.
    """
    operator = units.operator
    if isinstance(operator, QueryLoss) and operator.comparison.needs_queries:
        return np.asarray(operator.direction)
    return np.zeros(len(units))


def left_out_of_basis(
    factor: FloatArray,
    solution: FloatArray,
    rows: FloatArray,
    sample: Observations,
    alpha: float,
    weight: float,
    level: float,
) -> LeftOutUnits:
    """Units predicted without their folds, by points that stay what they are. O(N k²).

    factor : (k, k) lower Cholesky factor of the system; solution : (k,); rows : (N, k) the units in
        its directions; weight : of all rows; level : of the scores
    """
    features = sample.roots[:, None] * rows
    targets = sample.roots * (sample.scores - level)
    one = np.zeros(len(sample))  # a level that every unit has a part in
    if sample.whole and sample.second is None:
        features, targets = sample.centred(features), sample.targets
    elif has_one_level(sample):
        one = sample.roots / np.sqrt(weight)
    errors = targets - features @ solution
    half = scipy.linalg.solve_triangular(factor, features.T, lower=True, check_finite=False)
    residuals, variances = np.zeros(len(sample)), np.zeros(len(sample))
    for block in sample.blocks:
        inner = half[:, block].T @ half[:, block] + np.outer(one[block], one[block])
        covariance = np.linalg.inv((1 + LEAST_EIGENVALUE) * np.eye(len(block)) - inner)
        residuals[block] = covariance @ errors[block]
        variances[block] = alpha * np.diag(covariance)
    if sample.whole:
        variances -= alpha * free_levels(sample) ** 2
    return LeftOutUnits(residuals, np.maximum(variances, LEAST))


def dual_factor(kernel: FloatArray, units: Observations, alpha: float) -> tuple[FloatArray, bool]:
    """The Cholesky factor of A K Aᵀ + alpha I, for K (n_points, n_points)."""
    matrix = units.matrix(kernel)
    matrix.flat[:: len(matrix) + 1] += alpha
    return jittered_factor(matrix)


def basis_directions(kernel: FloatArray, *, centred: bool) -> FloatArray:
    """Directions T (r, k) in which the kernel (r, r) of points is the identity, TᵀKT = I: of those
    points that say something beside those picked before, most first.

    centred : whether levels are free, so that a constant may be taken out of the kernel: most of a
        wide one is
    """
    varying = kernel.diagonal() - 2 * kernel.mean(axis=0) * centred + kernel.mean() * centred
    least = LEAST_EIGENVALUE * float(np.sum(varying))
    lower, pivots, rank, _ = dpstrf(kernel, tol=least, lower=1)
    kept = np.tril(lower[:rank, :rank])
    directions = np.zeros((len(kernel), rank))
    directions[pivots[:rank] - 1] = dtrtri(kept, lower=1, overwrite_c=1)[0].T
    return directions


def basis_factor(gram: FloatArray, alpha: float) -> tuple[FloatArray, bool]:
    """The Cholesky factor of the system of a basis in its directions, for their Gram matrix (k, k)."""
    return jittered_factor(gram + alpha * np.eye(len(gram)))


def jittered_factor(matrix: FloatArray) -> tuple[FloatArray, bool]:
    """The Cholesky factor of a positive semi-definite matrix, with as little added to its diagonal
    as it takes. The matrix may be overwritten.
    """
    diagonal = np.diag(matrix).copy()
    size = max(float(diagonal.mean()), LEAST)
    for jitter in JITTERS:
        np.fill_diagonal(matrix, diagonal + jitter * size)
        # LAPACK takes its transpose for a matrix by columns: what is below the diagonal stays
        factor, failed = scipy.linalg.lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
        if not failed:
            return factor, True
        below = np.tril(matrix, -1)
        matrix = below + below.T
    raise ValueError("the kernel of a candidate is not positive semi-definite on these rows.")
