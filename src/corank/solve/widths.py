"""One width per column of a kernel, by the largest evidence of scored rows or comparisons.

With M = J K Jᵀ and t = J s, the log evidence for alpha, the amplitude at its best value, is

    −½ [ N log(tᵀ (M + alpha I)⁻¹ t / N) + log |M + alpha I| ]

on the N directions in which the loss does not vanish. One Cholesky factor gives it with all its
slopes. It has several maxima: a column that plays no part at first may never be picked up. So the
search begins at several places, on few rows, and goes on from where each of them led, on all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

from corank.core.arrays import (
    FloatArray,
    float64,
    inverse_where,
    is_sparse,
    take,
    to_numpy,
)
from corank.core.kernels import Kernel, scale_gamma
from corank.core.loss import Pointwise, WithinQueries
from corank.core.observations import ComparedRows, Problem
from corank.solve.posterior import weighted_distances

FIRST_ROWS = 300  # by which the search begins
# gamma of every column, times their number, and alpha: wide and narrow, noisy and nearly exact
STARTS = ((0.5, 0.1), (0.5, 0.01), (0.1, 0.1))
FIRST_STEPS, LAST_STEPS = 25, 30  # of L-BFGS, on few rows and on all
MORE_STEPS = 10  # from widths of other rows of the same kind
# what pulls the logarithms of the widths together: few rows shall not tell columns apart by chance
PULL = 0.02
# of gamma, down and up: beyond, a column plays no part, or only equal rows are alike
LOG_REACH = 12.0
ALPHA_RANGE = (1e-6, 1e2)
MOST_ROWS = 800  # or comparisons, from which a learner learns widths
LEAST_SPREAD = 1e-10  # of columns or differences of scores, relative to their size: less is none
UNSOLVABLE = -1e25  # the evidence of widths at which the matrix is not positive definite


@dataclass(frozen=True)
class ColumnWidths:
    """Widths that were learned.

    gammas : (d,) as in `Kernel.with_widths`
    alpha : noise over the amplitude of the function
    start : of the search that found them
    """

    gammas: FloatArray
    alpha: float
    start: tuple[float, float]


def with_learned_widths(problem: Problem, kernel: Kernel, seed: int) -> Kernel:
    """The kernel with the widths of largest evidence of a sample of scored rows (differences within
    queries, where these are compared) or comparisons, unless it has some. Columns that do not vary
    play no part.
    """
    if kernel.scales is not None:
        return kernel
    sample = _sample(problem, np.random.default_rng(seed))
    rows = sample.features.toarray() if is_sparse(sample.features) else to_numpy(sample.features)
    rows = float64(rows)
    spread = rows.std(axis=0)
    varies = spread > LEAST_SPREAD * np.abs(rows).max(axis=0)
    size = np.abs(to_numpy(problem.labels[0])).max()  # of scores, their level included
    if not varies.any() or np.abs(sample.targets[:, 0]).max() <= LEAST_SPREAD * size:
        return kernel.with_widths(np.full(len(spread), scale_gamma(rows)))
    learned = learn_widths(
        replace(sample, features=rows[:, varies] / spread[varies]), str(kernel.name)
    )
    widths = np.zeros(len(spread))
    widths[varies] = learned.gammas / spread[varies] ** kernel.width_power
    return kernel.with_widths(widths)


def _sample(problem: Problem, rng: np.random.Generator) -> Problem:
    """At most MOST_ROWS rows, query by query in random order, or comparisons; as NumPy arrays, and
    with weights of about 1.
    """
    order = rng.permutation(len(problem.targets))
    if isinstance(problem, ComparedRows):
        chosen = problem.take(order[:MOST_ROWS])
        ends = [chosen.winners, chosen.losers]
        items, places = np.unique(ends, return_inverse=True)
        winners, losers = places.reshape(2, -1)
        features = take(problem.features, items)
        few: Problem = replace(chosen, features=features, winners=winners, losers=losers)
    else:
        if problem.queries is not None:
            ranks = rng.permutation(problem.n_queries)[to_numpy(problem.queries)[order]]
            order = order[np.argsort(ranks, kind="stable")]
        loss = WithinQueries() if problem.comparison.needs_queries else Pointwise()
        few = problem.take(order[:MOST_ROWS]).beside(np.empty(0)).under(loss)
    if few.weights is None:
        return few
    weights = to_numpy(few.weights)
    return replace(few, weights=weights / weights.mean())


def learn_widths(
    problem: Problem,
    kernel: str = "rbf",
    starts: Sequence[tuple[float, float]] = STARTS,
    known: ColumnWidths | None = None,
) -> ColumnWidths:
    """The widths of largest evidence of an "rbf", "exponential" or "laplacian" kernel, in dense
    columns of about unit spread, for scores that differ and weights of about 1. The first rows of
    the problem should be a random sample of them. O(n² (n + d)) per step.

    known : those of more rows, or of some, from which the search goes on a little
    """
    if known is not None:
        place = np.log(np.append(known.gammas, known.alpha))
        end, _ = _search(problem, kernel, place, MORE_STEPS)
        return ColumnWidths(np.exp(end[:-1]), float(np.exp(end[-1])), known.start)
    n, d = len(problem.targets), problem.features.shape[1]
    few = problem.take(np.arange(min(n, FIRST_ROWS)))
    places = [np.append(np.full(d, np.log(gamma / d)), np.log(alpha)) for gamma, alpha in starts]
    ends = [_search(few, kernel, place, FIRST_STEPS) for place in places]
    if n > FIRST_ROWS:
        ends = [_search(problem, kernel, place, LAST_STEPS) for place, _ in ends]
    number = int(np.argmin([np.nan_to_num(objective, nan=np.inf) for _, objective in ends]))
    best = ends[number][0]
    return ColumnWidths(np.exp(best[:-1]), float(np.exp(best[-1])), starts[number])


def _search(
    problem: Problem, kernel: str, start: FloatArray, steps: int
) -> tuple[FloatArray, float]:
    """The end of the search from a place: (d + 1,) logarithms of gammas and alpha; and the objective
    there, which is least at the best place.
    """
    low, high = np.log(ALPHA_RANGE)
    reach = [(-LOG_REACH, LOG_REACH)] * (len(start) - 1)

    def descent(place: FloatArray) -> tuple[float, FloatArray]:
        try:
            value, slopes = evidence_of_widths(problem, place, kernel)
        except np.linalg.LinAlgError:  # weights are too far apart
            value, slopes = UNSOLVABLE, np.zeros(len(place))
        apart = place[:-1] - place[:-1].mean()
        slopes[:-1] -= PULL * apart
        return 0.5 * PULL * float(apart @ apart) - value, -slopes

    end = minimize(
        descent,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[*reach, (low, high)],
        options={"maxiter": steps},
    )
    return np.asarray(end.x), float(end.fun)


def evidence_of_widths(
    problem: Problem, place: FloatArray, kernel: str = "rbf"
) -> tuple[float, FloatArray]:
    """The log evidence up to a constant, and its slopes (d + 1,), at logarithms of gammas and
    alpha: (d + 1,). O(n² (n + d)).
    """
    rows, operator = problem.features, problem.operator
    gammas, alpha = np.exp(place[:-1]), float(np.exp(place[-1]))
    function = Kernel(kernel).with_widths(gammas)
    values = function.block(rows, rows)
    matrix = operator.conjugate(values.copy())
    matrix[np.diag_indices_from(matrix)] += alpha
    factor = scipy.linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    targets = problem.targets[:, 0]
    duals = scipy.linalg.cho_solve((factor, True), targets, check_finite=False)
    freedom = problem.freedom()
    n_others = len(targets) - freedom  # directions in which there is nothing but alpha
    square = float(targets @ duals)
    logarithm = 2 * float(np.sum(np.log(np.diag(factor)))) - n_others * place[-1]
    value = -0.5 * (freedom * np.log(square / freedom) + logarithm)
    lower, _ = dpotri(factor, lower=1, overwrite_c=1)  # zeros above the diagonal
    pull = (freedom / square) * np.outer(duals, duals) - lower  # twice the slope in the matrix
    pull -= lower.T
    pull[np.diag_indices_from(pull)] += np.diag(lower)
    alpha_slope = 0.5 * (alpha * float(np.trace(pull)) + n_others)
    weights = operator.root_transposed(operator.root_transposed(pull).T) * values
    if kernel == "exponential":  # the slope of a root is half of its inverse; equal rows have none
        distances = -np.log(np.maximum(values, np.finfo(float).tiny))
        weights *= 0.5 * inverse_where(distances > 0, distances)
    power = function.width_power
    slopes = -0.5 * gammas * weighted_distances(weights, rows, rows, each=True, power=power)
    return float(value), np.append(slopes, alpha_slope)
