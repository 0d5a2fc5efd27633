"""Kernel least squares on scored rows or comparisons, for every alpha from one eigendecomposition.

With J the root of the loss of the observations (docs/mathematics.md), t = J s and M = J K Jᵀ, the
solution for alpha is u = (M + alpha I)⁻¹ t, with coefficients c = Jᵀ u. A regressor whose level is
free is a ranker with one query. `Spectrum` does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated

import numpy as np

from corank.core.arrays import Array, FloatArray, Index, take
from corank.core.folds import fold_blocks
from corank.core.loss import PairLoss, Pointwise, QueryLoss, WithinQueries
from corank.core.storable import ADDED_LATER, are_below, floats, storable, whole
from corank.solve.spectrum import LEAST, Spectrum, solve_shifts

ALPHAS = 10.0 ** np.linspace(-5, 2.5, 16)  # relative to the mean eigenvalue
# of a centred kernel over the kernel: what is less is rounding, and tells no rows apart
LEAST_SIZE = 1e-13


@storable("Units")
@dataclass(frozen=True)
class Observations:
    """Scored rows or comparisons, and what is held out together.

    scores : (N,) scores of rows, margins of comparisons
    roots : (N,) square roots of the weights
    first : (N,) the point of every observation: its row, or the item that won
    second : (N,) the items that lost, None for scored rows
    groups : (N,) codes of the queries whose level is free, None where no level is
    folds : (N,) codes of the folds
    whole : whether folds are made of whole groups, so that held-out predictions have no level
    n_points : number of rows or items
    queries : (N,) codes of the queries that were given, None without
    persons : (N,) codes of who answered, None where nobody knows; samples take all of a person's
    """

    scores: Annotated[FloatArray, floats("e")]
    roots: Annotated[FloatArray, floats("e")]
    first: Annotated[Index, whole("e")]
    second: Annotated[Index | None, whole("e") | None]
    groups: Annotated[Index | None, whole("e", below="e") | None]
    folds: Annotated[Index, whole("e", below="e")]
    whole: bool
    n_points: int
    queries: Annotated[Index | None, whole("e", below="e") | None] = None
    persons: Annotated[Index | None, whole("e") | None] = field(
        default=None, metadata={ADDED_LATER: True}
    )

    def is_sound(self) -> bool:
        """Whether a model can have kept such observations."""
        if len(self) == 0 or not (self.roots > 0).all():
            return False
        return are_below(self.first, self.n_points) and are_below(self.second, self.n_points)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def size(self) -> int:
        """Rows of the largest matrix between observations or between points."""
        return max(len(self), self.n_points)

    def take(self, chosen: Index) -> Observations:
        """The chosen observations; points keep their numbers."""
        groups = take(self.groups, chosen)
        return replace(
            self,
            scores=self.scores[chosen],
            roots=self.roots[chosen],
            first=self.first[chosen],
            second=take(self.second, chosen),
            groups=None if groups is None else np.unique(groups, return_inverse=True)[1],
            folds=np.unique(self.folds[chosen], return_inverse=True)[1],
            queries=take(self.queries, chosen),
            persons=take(self.persons, chosen),
        )

    def renumbered(self, points: Index) -> Observations:
        """With points numbered anew by their places among those given."""
        places = np.zeros(self.n_points, dtype=np.int64)
        places[points] = np.arange(len(points))
        return replace(
            self,
            first=places[self.first],
            second=None if self.second is None else places[self.second],
            n_points=len(points),
        )

    @cached_property
    def operator(self) -> QueryLoss | PairLoss:
        """The loss: of scored rows between observations, of comparisons between points."""
        weights = self.roots**2
        if self.second is not None:
            return PairLoss(self.first, self.second, self.scores, weights, self.n_points)
        loss = Pointwise() if self.groups is None else WithinQueries("size")
        n_queries = 1 if self.groups is None else int(self.groups.max()) + 1
        return QueryLoss(loss, self.groups, n_queries, weights, self.scores, len(self))

    @cached_property
    def n_free(self) -> int:
        """Observations less free levels."""
        return len(self) - (0 if self.groups is None else int(self.groups.max()) + 1)

    @cached_property
    def blocks(self) -> list[Index]:
        """The observations of every fold."""
        return fold_blocks(self.folds)

    @cached_property
    def targets(self) -> Array:
        """J s: (N,)."""
        return self.centred(self.roots * self.scores)

    @property
    def truth(self) -> FloatArray:
        """What held-out predictions should be: (N,)."""
        return self.targets if self.whole or self.has_levels else self.roots * self.scores

    @cached_property
    def base(self) -> float:
        """The mean score, to which functions without a level are added; 0 where no level is free."""
        return 0.0 if self.groups is None else float(np.average(self.scores, weights=self.roots**2))

    def centre(self, values: FloatArray) -> Array:
        """What makes the mean of values at points (n_points, …) 0 over the observations: (…); 0
        where no level is free, and for comparisons over the points.
        """
        if self.second is not None:
            return -np.mean(values, axis=0)
        if self.groups is None:
            return np.zeros(values.shape[1:])
        weights = self.roots**2
        return -(weights @ values[self.first]) / weights.sum()

    def centred(self, values: FloatArray) -> Array:
        """Weighted values (N,) or (N, k) without the level of every group."""
        if self.groups is None:
            return values
        columns = values.reshape(len(self), -1) / self.roots[:, None]
        return self.operator.root(columns).reshape(values.shape)

    @property
    def has_levels(self) -> bool:
        """Whether there are several free levels, and units are held out one by one: what is predicted of
        them is then centred with those of their group.
        """
        return not self.whole and self.groups is not None and int(self.groups.max()) > 0

    def at(self, values: FloatArray) -> FloatArray:
        """Values at points (n_points, …) as values of observations: (N, …)."""
        if self.second is not None:
            return values[self.first] - values[self.second]
        return values[self.first]

    def root(self, values: FloatArray) -> Array:
        """J Z for Z (n_points, k): (N, k)."""
        return self.operator.root(values if self.second is not None else self.at(values))

    def root_transposed(self, values: FloatArray) -> Array:
        """Jᵀ U for U (N, k): (n_points, k)."""
        coefficients = self.operator.root_transposed(values)
        if self.second is not None:
            return coefficients
        result = np.zeros((self.n_points, values.shape[1]))
        result[self.first] = coefficients
        return result

    def matrix(self, kernel: FloatArray) -> Array:
        """J K Jᵀ: (N, N), for K (n_points, n_points)."""
        if self.second is not None:
            return self.operator.conjugate(kernel)
        every = len(self) == self.n_points  # in ascending order, as all scored rows are
        inner = kernel.copy() if every else kernel[self.first][:, self.first]
        return self.operator.conjugate(inner)

    def left_out(self, predictions: FloatArray) -> FloatArray:
        """Predictions at points (n_points, …) as those of held-out observations: weighted, and
        centred where folds are whole.
        """
        values = (self.roots * self.at(predictions).T).T
        return self.centred(values) if self.whole else values

    def without(self, block: Index, predictions: FloatArray) -> FloatArray:
        """Predictions at points (n_points, …), made without a block of observations, as those of the
        block; of scores whose level is free they are centred with what is predicted of the others.
        """
        if not self.has_levels:
            return self.take(block).left_out(predictions)
        centred: FloatArray = self.centred((self.roots * self.at(predictions).T).T)
        return centred[block]


@dataclass(frozen=True)
class ClosedForm:
    """All alphas of one kernel.

    alphas : (a,); log_evidence : (a,); amplitude : (a,) variance of the function in units of the
        kernel
    held_out : (N, a) held-out predictions, as `Observations.left_out` gives them; variance : (N, a)
        of their residuals
    duals : (N, a) u
    """

    alphas: FloatArray
    log_evidence: FloatArray
    amplitude: FloatArray
    held_out: FloatArray
    variance: FloatArray
    duals: FloatArray


def system_of(kernel: FloatArray, observations: Observations) -> tuple[FloatArray, FloatArray]:
    """J K Jᵀ for K (n_points, n_points), and the alphas (a,)."""
    matrix = observations.matrix(kernel)
    size = float(np.trace(matrix)) / len(matrix)
    # rows are all alike
    if size <= LEAST_SIZE * float(np.trace(kernel)) / len(kernel) * np.mean(observations.roots**2):
        matrix, size = np.zeros_like(matrix), 1.0
    return matrix, size * ALPHAS


def predict_of_kernel(kernel: FloatArray, observations: Observations) -> FloatArray:
    """Predictions at all points (n_points, a) of kernel least squares for every alpha, levels
    included. O(N³), and a fourth of the time of `solve_kernel`.
    """
    matrix, alphas = system_of(kernel, observations)
    duals = solve_shifts(matrix, observations.targets, alphas)
    values = kernel @ observations.root_transposed(duals)
    return np.asarray(values + observations.base + observations.centre(values))


def solve_kernel(
    kernel: FloatArray, observations: Observations, *, with_variances: bool = True
) -> ClosedForm:
    """Held-out predictions and evidence of kernel least squares for every alpha. O(N³ + a Σ_B |B|²
    (N + |B|)), for K (n_points, n_points).

    with_variances : whether the variances of residuals are wanted, else they are NaN
    """
    matrix, alphas = system_of(kernel, observations)
    spectrum = Spectrum.of(matrix)
    targets = observations.targets[:, None]
    evidence = spectrum.evidence(targets, observations.n_free)
    amplitude = evidence.best_amplitudes(alphas)
    operator, levels, codes = observations.operator, None, np.zeros(len(observations))
    if isinstance(operator, QueryLoss) and operator.comparison.needs_queries:
        levels, codes = operator.direction[:, None], operator.queries
    free = spectrum
    if levels is not None and not observations.whole:
        free = spectrum.without(levels * (codes[:, None] == np.unique(codes)))
    share = 1.0 if levels is None or not observations.has_levels else 1 - levels**2
    left = free.left_out(targets, observations.blocks, alphas, with_variances=with_variances)
    variances = left.variances if with_variances else np.full_like(left.residuals, np.nan)
    if levels is not None and observations.whole:  # they do not count: their eigenvalue is 0
        variances = np.maximum(variances - levels**2 * alphas, LEAST)
    return ClosedForm(
        alphas=alphas,
        log_evidence=evidence.at(amplitude, alphas * amplitude),
        amplitude=amplitude,
        held_out=observations.truth[:, None] - share * left.residuals,
        variance=share**2 * variances * amplitude,
        duals=spectrum.solve(targets, alphas),
    )
