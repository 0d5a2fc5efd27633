"""One decomposition for all alphas: what it solves and predicts of blocks that are left out, against
the inverse of every system; and the evidence, against a normal distribution.
"""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from corank.solve import spectrum
from corank.solve.spectrum import LogEvidence, Spectrum, leave_out, solve_shifts

RNG = np.random.default_rng(11)
N = 20
ROOT = RNG.normal(size=(N, N))
MATRIX = ROOT @ ROOT.T / N
TARGETS = RNG.normal(size=(N, 1))
ALPHAS = np.array([0.01, 0.1, 0.5, 1.0, 7.0])
BLOCKS = [np.arange(7), np.arange(7, 14), np.arange(14, 16), np.array([17])]
# how many products of vectors are made at a time: of all rows of a block, of some, of one
PRODUCTS = {"whole": 2**16, "some": 2 * 7 * N * 3, "one": 1}


def by_definition(inverse, targets):
    """Residuals and variances of every block from the inverse of the system (n, n)."""
    residuals, variances = np.zeros(N), np.zeros(N)
    for block in BLOCKS:
        inner = np.linalg.inv(inverse[np.ix_(block, block)])
        residuals[block] = inner @ (inverse @ targets[:, 0])[block]
        variances[block] = np.diag(inner)
    return residuals, variances


@pytest.mark.parametrize("n", [1, 2, 3, N])
@pytest.mark.parametrize("way", ["eigenvectors", "a tridiagonal form"])
def test_it_solves_every_system(way, n):
    matrix, targets = MATRIX[:n, :n], TARGETS[:n]
    if way == "eigenvectors":
        found = Spectrum.of(matrix).solve(targets, ALPHAS)
    else:
        found = solve_shifts(matrix, targets[:, 0], ALPHAS)
    for at, alpha in enumerate(ALPHAS):
        expected = np.linalg.solve(matrix + alpha * np.eye(n), targets[:, 0])
        np.testing.assert_allclose(found[:, at], expected, rtol=1e-8)


@pytest.mark.parametrize("products", PRODUCTS)
@pytest.mark.parametrize("few", [0, 8], ids=["all alphas at once", "one after the other"])
def test_blocks_that_are_left_out(products, few, monkeypatch):
    monkeypatch.setattr(spectrum, "PRODUCT_ENTRIES", PRODUCTS[products])
    monkeypatch.setattr(spectrum, "FEW_ALPHAS", few)
    found = Spectrum.of(MATRIX).left_out(TARGETS, BLOCKS, ALPHAS, with_variances=True)
    for at, alpha in enumerate(ALPHAS):
        inverse = np.linalg.inv(MATRIX + alpha * np.eye(N))
        residuals, variances = by_definition(inverse, TARGETS)
        np.testing.assert_allclose(found.residuals[:, at], residuals, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(found.variances[:, at], variances, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("products", PRODUCTS)
@pytest.mark.parametrize("few", [0, 8], ids=["all alphas at once", "one after the other"])
def test_blocks_that_are_left_out_of_a_complement(products, few, monkeypatch):
    monkeypatch.setattr(spectrum, "PRODUCT_ENTRIES", PRODUCTS[products])
    monkeypatch.setattr(spectrum, "FEW_ALPHAS", few)
    vectors = np.linalg.qr(ROOT[:, :6])[0]
    weights = np.linspace(0.1, 0.9, 6 * len(ALPHAS)).reshape(6, len(ALPHAS))
    found = leave_out(vectors, weights, TARGETS, BLOCKS, complement=True)
    assert found.variances is None
    for at in range(len(ALPHAS)):
        inverse = np.eye(N) - (vectors * weights[:, at]) @ vectors.T
        residuals, _ = by_definition(inverse, TARGETS)
        np.testing.assert_allclose(found.residuals[:, at], residuals, rtol=1e-8, atol=1e-12)


def test_a_mean_that_is_taken_out_of_each_block():
    ones = np.ones((N, 1))
    offsets = np.array([0.3, -1.0, 2.0, 0.5])
    found = Spectrum.of(MATRIX).left_out(np.hstack([TARGETS, ones]), BLOCKS, ALPHAS, offsets)
    for at, alpha in enumerate(ALPHAS):
        inverse = np.linalg.inv(MATRIX + alpha * np.eye(N))
        for block, offset in zip(BLOCKS, offsets, strict=True):
            expected, _ = by_definition(inverse, TARGETS - offset * ones)
            np.testing.assert_allclose(found.residuals[block, at], expected[block], rtol=1e-8)


@pytest.mark.parametrize("amplitude", [0.3, 5.0])
@pytest.mark.parametrize("noise", [0.2, 2.0])
def test_the_evidence_is_that_of_a_normal_distribution(amplitude, noise):
    evidence = Spectrum.of(MATRIX).evidence(TARGETS, N)
    covariance = amplitude * MATRIX + noise * np.eye(N)
    expected = multivariate_normal(cov=covariance).logpdf(TARGETS[:, 0])
    assert evidence.at(amplitude, noise) == pytest.approx(expected, rel=1e-9)
    # of a few directions, the rest is noise alone
    values, vectors = np.linalg.eigh(MATRIX)
    energies = (vectors.T @ TARGETS)[:, 0] ** 2
    some = LogEvidence(values[5:], energies[5:], float(energies[:5].sum()), N)
    low_rank = amplitude * (vectors[:, 5:] * values[5:]) @ vectors[:, 5:].T + noise * np.eye(N)
    expected = multivariate_normal(cov=low_rank).logpdf(TARGETS[:, 0])
    assert some.at(amplitude, noise) == pytest.approx(expected, rel=1e-9)
    place = np.log([amplitude, noise])
    steps = 1e-5 * np.eye(2)
    slopes = [
        (some.at(*np.exp(place + step)) - some.at(*np.exp(place - step))) / 2e-5 for step in steps
    ]
    np.testing.assert_allclose(some.slopes(amplitude, noise), slopes, rtol=1e-5, atol=1e-7)


def test_the_best_amplitude_of_every_alpha_has_the_largest_evidence():
    values, vectors = np.linalg.eigh(MATRIX)
    energies = (vectors.T @ TARGETS)[:, 0] ** 2
    evidence = LogEvidence(values[5:], energies[5:], float(energies[:5].sum()), N)
    best = evidence.best_amplitudes(ALPHAS)
    for factor in (0.9, 1.1):
        assert (
            evidence.at(best, best * ALPHAS) > evidence.at(factor * best, factor * best * ALPHAS)
        ).all()


def test_directions_that_are_taken_out_are_gone():
    level = np.full((N, 1), N**-0.5)
    whole = Spectrum.of(MATRIX)
    np.testing.assert_allclose(whole.without(level).vectors.sum(axis=0), 0, atol=1e-12)
    np.testing.assert_array_equal(whole.without(level).values, whole.values)
