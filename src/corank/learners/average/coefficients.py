"""The coefficients of candidates that were judged and weighed: from their eigensystems, exactly on all
rows, or from sums over all rows in a basis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated

import numpy as np
import scipy.linalg

from corank.core.arrays import FloatArray, Index, in_order, symmetrised, take
from corank.core.loss import Pointwise, WithinQueries
from corank.core.storable import Finite, floats, pair, storable
from corank.core.sums import Accumulator
from corank.learners.average.closed_form import Observations
from corank.learners.average.similarity import (
    CandidateKernel,
    Distances,
    Space,
    second_order_features,
)
from corank.learners.average.weighing import Judged, Mixture
from corank.solve.spectrum import LEAST

# kernel values at a time of every candidate in a basis, 8 MB: sums of larger blocks are no faster
BASIS_BLOCK_ENTRIES = 2**20
# of a kernel over the largest: what lies in directions of smaller ones is lost in rounding
LEAST_EIGENVALUE = 1e-8
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

    def variance(self, side: int) -> float:
        """The prior variance of its function, as it counts on a side."""
        return self.amplitude * self.multipliers[side] ** 2


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
        at_once = self.units.size <= MAX_AT_ONCE
        results = in_order(fit, groups, self.units.scores) if at_once else map(fit, groups)
        fitted = [each for group in results for each in group]
        return [fitted[order.index(number)] for number in chosen]

    def _dual(self, number: int, space: Space) -> FittedCandidate:
        """Coefficients of all rows, at the alpha that the candidate was given on a sample. O(n³ /
        3).
        """
        units = self.units
        judgement = self.judged[number]
        kernel = space.new_kernel(judgement)
        alpha = mean_alpha(judgement, alpha_shares(self.mixtures, number))
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
            alpha = mean_alpha(self.judged[number], alpha_shares(self.mixtures, number))
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
