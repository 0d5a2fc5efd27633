"""Closed forms of the average against literal refitting and densities."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.stats import multivariate_normal

from corank.learners.average.closed_form import Observations, solve_kernel

rng = np.random.default_rng(3)
N = 14
X = rng.standard_normal((N, 3))
KERNEL = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
SCORES = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(N)
WEIGHTS = rng.uniform(0.5, 2.0, N)
QUERIES = np.repeat([0, 1, 2, 3], [3, 4, 5, 2])
ROWS, ONE = np.arange(N), np.zeros(N, dtype=np.int64)
WINNERS, LOSERS = rng.integers(0, 7, 12), rng.integers(7, 14, 12)


def rows(groups, folds, whole):
    return Observations(SCORES, np.sqrt(WEIGHTS), ROWS, None, groups, folds, whole, N)


CASES = {
    "rows one by one": rows(ONE, ROWS, False),
    "rows in folds": rows(ONE, QUERIES, False),
    "without intercept": rows(None, ROWS, False),
    "whole queries": rows(QUERIES, QUERIES, True),
    "pairs of queries": rows(QUERIES, QUERIES // 2, True),
    "comparisons": Observations(
        np.ones(12), np.sqrt(WEIGHTS[:12]), WINNERS, LOSERS, None, np.arange(12) // 2, True, N
    ),
}
cases = pytest.mark.parametrize("units", CASES.values(), ids=CASES)


def literal_predictions(units, alpha):
    """The minimiser of Σ w (s − b_group − f)² + alpha |f|², by its normal equations, at all points,
    without a level.
    """
    K, w = KERNEL, units.roots**2
    features = units.at(K)
    design = features
    penalty = alpha * K
    n_groups = 0 if units.groups is None else int(units.groups.max()) + 1
    if n_groups:
        design = np.hstack([features, np.eye(n_groups)[units.groups]])
        penalty = np.block(
            [[alpha * K, np.zeros((N, n_groups))], [np.zeros((n_groups, N + n_groups))]]
        )
    system = design.T @ (w[:, None] * design) + penalty
    solution = np.linalg.lstsq(system, design.T @ (w * units.scores), rcond=None)[0]
    level = solution[N] if n_groups == 1 else 0.0
    return K @ solution[:N] + level


@cases
def test_held_out_predictions_equal_refitting_without_the_fold(units):
    form = solve_kernel(KERNEL, units)
    for number, alpha in enumerate(form.alphas[5:12], start=5):
        for fold in np.unique(units.folds):
            kept, left = np.flatnonzero(units.folds != fold), np.flatnonzero(units.folds == fold)
            expected = units.take(left).left_out(literal_predictions(units.take(kept), alpha))
            np.testing.assert_allclose(form.held_out[left, number], expected, atol=1e-6)


@cases
def test_solutions_equal_literal_minimisers(units):
    form = solve_kernel(KERNEL, units)
    values = KERNEL @ units.root_transposed(form.duals)
    expected = literal_predictions(units, form.alphas[8])
    gaps = units.centred(units.roots * units.at(values[:, 8])) - units.centred(
        units.roots * units.at(expected)
    )
    np.testing.assert_allclose(gaps, 0, atol=1e-7)


@cases
def test_evidence_is_the_largest_density_of_the_contrasts(units):
    form = solve_kernel(KERNEL, units)
    free = np.eye(len(units))
    if units.groups is not None:
        levels = np.eye(units.groups.max() + 1)[units.groups] * units.roots[:, None]
        free = null_space(levels.T)
    contrasts = free.T @ units.targets
    n = len(contrasts)
    for number in (4, 8, 12):
        covariance = free.T @ units.matrix(KERNEL) @ free + form.alphas[number] * np.eye(n)
        amplitude = contrasts @ np.linalg.solve(covariance, contrasts) / n
        density = multivariate_normal(np.zeros(n), amplitude * covariance).logpdf(contrasts)
        np.testing.assert_allclose(form.amplitude[number], amplitude, rtol=1e-8)
        np.testing.assert_allclose(form.log_evidence[number], density, atol=1e-6)


@cases
def test_variances_of_held_out_residuals_are_those_of_a_gaussian_process(units):
    """Of one whose levels have a variance without end: 1e6."""
    number = 8
    form = solve_kernel(KERNEL, units)
    plain = replace(units, groups=None, whole=False)
    covariance = plain.matrix(KERNEL) + form.alphas[number] * np.eye(len(units))
    if units.groups is not None:
        same = units.groups[:, None] == units.groups[None, :]
        covariance += 1e6 * same * np.outer(units.roots, units.roots)
    for fold in np.unique(units.folds):
        kept, left = np.flatnonzero(units.folds != fold), np.flatnonzero(units.folds == fold)
        cross = covariance[np.ix_(left, kept)]
        known = cross @ np.linalg.solve(covariance[np.ix_(kept, kept)], cross.T)
        unknown = covariance[np.ix_(left, left)] - known
        if units.whole:  # then levels do not count
            inner = units.take(left)
            unknown = inner.centred(inner.centred(unknown).T)
        expected = form.amplitude[number] * np.diag(unknown)
        np.testing.assert_allclose(form.variance[left, number], expected, rtol=1e-4, atol=1e-9)


@cases
@pytest.mark.parametrize("size", [1e-50, 1.0, 1e4, 1e60])
def test_rows_that_are_all_alike_are_predicted_by_their_level_whatever_the_size_of_the_scores(
    units, size
):
    # without a free level only zeros say nothing
    alike = 0.0 if units.groups is None and units.second is None else 0.7
    form = solve_kernel(np.full((N, N), alike), replace(units, scores=units.scores * size))
    assert all(
        np.isfinite(values).all()
        for values in (form.log_evidence, form.amplitude, form.variance, form.duals)
    )
    for fold in np.unique(units.folds):
        kept, left = units.take(np.flatnonzero(units.folds != fold)), units.folds == fold
        level = (
            np.average(kept.scores, weights=kept.roots**2)
            if units.groups is not None and not units.whole
            else 0.0
        )
        expected = units.roots[left, None] * level
        np.testing.assert_allclose(
            form.held_out[left] / size, expected + np.zeros_like(form.alphas), atol=1e-9
        )
