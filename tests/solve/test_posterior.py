"""What is believed after data: moments of Gaussian processes and of their mixtures, against the
formulas of the field.
"""

import numpy as np
import pytest
from scipy.stats import norm

from corank.core.kernels import Kernel
from corank.solve.function import Expansion, Span
from corank.solve.posterior import GaussianPart, KernelProcess, Posterior

RNG = np.random.default_rng(5)
POINTS = RNG.normal(size=(9, 2))
TARGETS = RNG.normal(size=9)
NOISE = 0.3
NEW, OTHERS = RNG.normal(size=(6, 2)), RNG.normal(size=(6, 2))
PARTS = [("rbf", 0.5, 2.0, 0.3), ("rbf", 2.0, 0.7, 0.5), ("linear", None, 1.0, 0.2)]


def kernel_values(name, gamma, X, Z):
    if name == "linear":
        return X @ Z.T
    return np.exp(-gamma * ((X[:, None] - Z[None]) ** 2).sum(axis=2))


def process(name, gamma, amplitude, weight):
    """A Gaussian process that has seen the targets at the points."""
    system = amplitude * kernel_values(name, gamma, POINTS, POINTS) + NOISE * np.eye(9)
    inverse = np.linalg.inv(system)
    kernel = Kernel(name, gamma)
    coefficients = amplitude * inverse @ TARGETS
    part = GaussianPart(weight, kernel, amplitude, coefficients, amplitude**2 * inverse)
    return KernelProcess(part, Expansion(Span(kernel, POINTS), coefficients))


def by_formula(name, gamma, amplitude, rows):
    """Mean and covariance at the rows."""
    across = amplitude * kernel_values(name, gamma, rows, POINTS)
    system = amplitude * kernel_values(name, gamma, POINTS, POINTS) + NOISE * np.eye(9)
    prior = amplitude * kernel_values(name, gamma, rows, rows)
    return across @ np.linalg.solve(system, TARGETS), prior - across @ np.linalg.solve(
        system, across.T
    )


@pytest.mark.parametrize(("name", "gamma", "amplitude", "weight"), PARTS)
def test_a_process_has_the_moments_of_its_formulas(name, gamma, amplitude, weight):
    found = process(name, gamma, amplitude, weight)
    mean, covariance = by_formula(name, gamma, amplitude, NEW)
    np.testing.assert_allclose(found.moments(NEW)[0], mean, rtol=1e-8)
    np.testing.assert_allclose(found.moments(NEW)[1], np.diag(covariance), rtol=1e-7)
    np.testing.assert_allclose(found.covariance(NEW)[1], covariance, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize(("name", "gamma", "amplitude", "weight"), PARTS)
def test_differences_have_the_moments_of_two_rows(name, gamma, amplitude, weight):
    found = process(name, gamma, amplitude, weight).differences(NEW, OTHERS)
    mean, covariance = by_formula(name, gamma, amplitude, np.concatenate([NEW, OTHERS]))
    contrast = np.hstack([np.eye(6), -np.eye(6)])
    np.testing.assert_allclose(found[0], contrast @ mean, rtol=1e-7)
    np.testing.assert_allclose(found[1], np.diag(contrast @ covariance @ contrast.T), rtol=1e-7)


@pytest.mark.parametrize("factor", [1.0, 1.7])
@pytest.mark.parametrize("block_rows", [2_000, 4])
def test_a_mixture_has_the_moments_of_a_mixture(factor, block_rows):
    weights = [weight for *_, weight in PARTS]
    posterior = Posterior(
        [process(*part) for part in PARTS], weights, 0.4, factor=factor, block_rows=block_rows
    )
    moments = [by_formula(*part[:3], NEW) for part in PARTS]
    mean = sum(weight * mean for weight, (mean, _) in zip(weights, moments, strict=True))
    covariance = sum(
        weight * (covariance + np.outer(own - mean, own - mean))
        for weight, (own, covariance) in zip(weights, moments, strict=True)
    )
    np.testing.assert_allclose(posterior.moments(NEW)[0], mean, rtol=1e-8)
    variances = factor**2 * np.diag(covariance)
    np.testing.assert_allclose(posterior.moments(NEW)[1], variances, rtol=1e-7)
    found = posterior.covariance(NEW)
    np.testing.assert_allclose(found[0], mean, rtol=1e-8)
    np.testing.assert_allclose(found[1], factor**2 * covariance, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("as_one", [False, True])
def test_chances_are_those_of_the_mixture_or_of_one_gaussian(observed, as_one):
    weights = [weight for *_, weight in PARTS]
    processes = [process(*part) for part in PARTS]
    found = Posterior(processes, weights, 0.4, as_one=as_one).chances(
        NEW, OTHERS, observed=observed
    )
    noise = 0.4 if observed else 0.0
    gaps = [each.differences(NEW, OTHERS) for each in processes]
    expected = sum(
        weight * norm.cdf(mean / np.sqrt(variance + noise))
        for weight, (mean, variance) in zip(weights, gaps, strict=True)
    )
    if as_one:
        mean = sum(weight * own for weight, (own, _) in zip(weights, gaps, strict=True))
        variance = sum(
            weight * (variance + (own - mean) ** 2)
            for weight, (own, variance) in zip(weights, gaps, strict=True)
        )
        expected = norm.cdf(mean / np.sqrt(variance + noise))
    np.testing.assert_allclose(found, expected, rtol=1e-8)
