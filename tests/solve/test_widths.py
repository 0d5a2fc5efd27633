"""One width per column: evidence, slopes, and which columns are picked up."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from corank.core.loss import Pointwise, WithinQueries
from corank.core.observations import ComparedRows, ScoredRows
from corank.solve.widths import PULL, evidence_of_widths, learn_widths


def make_problem(n=60, d=4, *, loss=None, queries=None, seed=0):
    """Scored rows (n, d) of unit spread, of which the first two columns matter."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d))
    scores = np.sin(2 * rows[:, 0]) * rows[:, 1] + 0.1 * rng.standard_normal(n)
    weights = rng.uniform(0.5, 2.0, n)
    observed = ScoredRows.of(rows, scores - scores.mean(), queries, weights)
    return observed.under(WithinQueries() if loss is None else loss)


def dense_root(problem):
    """J (n, n), column by column."""
    return problem.operator.root(np.eye(len(problem)))


EXPONENTS = {  # of kernels with one width per column, for gaps (n, n, d) between rows
    "rbf": lambda gaps, gammas: (gammas * gaps**2).sum(axis=2),
    "exponential": lambda gaps, gammas: np.sqrt((gammas * gaps**2).sum(axis=2)),
    "laplacian": lambda gaps, gammas: (gammas * np.abs(gaps)).sum(axis=2),
}
every_kernel = pytest.mark.parametrize("kernel", EXPONENTS)


@every_kernel
@pytest.mark.parametrize("loss", [Pointwise(), WithinQueries(), WithinQueries("query")])
@pytest.mark.parametrize("n_queries", [1, 5])
def test_evidence_is_the_density_of_contrasts_at_the_best_amplitude(loss, n_queries, kernel):
    queries = None if n_queries == 1 else np.arange(60) % n_queries
    weighs = loss.needs_queries and loss.weighting != "size"
    problem = make_problem(loss=loss, queries=queries)
    if weighs:
        problem = ScoredRows.of(problem.features, problem.reference, queries, None).under(loss)
    gammas, alpha = np.array([0.5, 0.2, 0.01, 0.03]), 0.3
    root, rows = dense_root(problem), problem.features
    exponents = EXPONENTS[kernel](rows[:, None, :] - rows[None, :, :], gammas)
    values, vectors = np.linalg.eigh(root @ root.T)
    basis = vectors[:, values > 1e-9]  # of the contrasts: what is constant in a query is left out
    contrasts = basis.T @ root @ problem.reference
    covariance = basis.T @ root @ np.exp(-exponents) @ root.T @ basis + alpha * np.eye(
        basis.shape[1]
    )
    n = len(contrasts)
    amplitudes = np.geomspace(1e-3, 1e3, 20_001)
    square = contrasts @ np.linalg.solve(covariance, contrasts)
    densities = -0.5 * (
        square / amplitudes + n * np.log(amplitudes) + np.linalg.slogdet(covariance)[1]
    )
    value, _ = evidence_of_widths(problem, np.log([*gammas, alpha]), kernel)
    assert value == pytest.approx(densities.max() + n / 2, abs=1e-4)


@every_kernel
def test_evidence_of_comparisons_is_the_density_of_margins(kernel):
    rng = np.random.default_rng(0)
    rows, margins, weights = rng.standard_normal((20, 4)), rng.random(30), rng.uniform(0.5, 2, 30)
    winners, losers = (rng.integers(0, 20, 30) for _ in range(2))
    problem = ComparedRows(rows, winners, losers, margins, weights, np.arange(30))
    gammas, alpha = np.array([0.5, 0.2, 0.01, 0.03]), 0.3
    differences = np.eye(20)[winners] - np.eye(20)[losers]
    values = np.exp(-EXPONENTS[kernel](rows[:, None, :] - rows[None, :, :], gammas))
    covariance = differences @ values @ differences.T + alpha * np.diag(1 / weights)
    amplitude = margins @ np.linalg.solve(covariance, margins) / 30  # of the largest density
    expected = multivariate_normal(np.zeros(30), amplitude * covariance).logpdf(margins)
    place = np.log([*gammas, alpha])
    value, slopes = evidence_of_widths(problem, place, kernel)
    # the density of the margins times the roots of their weights, without constants
    assert value == pytest.approx(
        expected - 0.5 * np.log(weights).sum() + 15 * np.log(2 * np.pi) + 15, abs=1e-6
    )
    steps = approx_fprime(place, lambda at: evidence_of_widths(problem, at, kernel)[0], 1e-6)
    np.testing.assert_allclose(slopes, steps, rtol=1e-3, atol=1e-3)


@every_kernel
def test_slopes_are_those_of_the_evidence(kernel):
    problem = make_problem(queries=np.arange(60) // 12)
    problem.features[1] = problem.features[0]  # equal rows, where a distance has no slope
    place = np.log([0.5, 0.2, 0.01, 0.03, 0.3])
    _, slopes = evidence_of_widths(problem, place, kernel)
    expected = approx_fprime(place, lambda at: evidence_of_widths(problem, at, kernel)[0], 1e-6)
    np.testing.assert_allclose(slopes, expected, rtol=1e-3, atol=1e-3)


@every_kernel
def test_columns_that_play_no_part_are_wide(kernel):
    learned = learn_widths(make_problem(n=200, d=12), kernel)
    assert learned.gammas[:2].min() > 50 * learned.gammas[2:].max()
    assert learned.alpha < 0.5


def test_a_search_that_began_on_few_rows_ends_at_the_best_widths_for_all():
    problem = make_problem(n=450, d=3)
    learned = learn_widths(problem)
    logs = np.log(learned.gammas)
    _, slopes = evidence_of_widths(problem, np.append(logs, np.log(learned.alpha)))
    slopes[:-1] -= PULL * (logs - logs.mean())
    assert np.abs(slopes).max() < 0.5  # of an evidence of hundreds


def test_weights_that_are_too_far_apart_keep_widths_within_their_range():
    problem = make_problem(n=120, d=3)
    weights = np.geomspace(1e-12, 1e12, 120)
    apart = ScoredRows.of(problem.features, problem.reference, None, weights)
    learned = learn_widths(apart.under(WithinQueries()))
    assert np.isfinite(learned.gammas).all()
