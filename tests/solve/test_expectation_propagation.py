"""Beliefs about a function from comparisons and score differences, against integrals and dense
normal distributions.
"""

from itertools import product

import numpy as np
import pytest
from brute_force import Loss, kernel, laplacian, symmetric_root
from scipy.stats import multivariate_normal, norm
from sklearn.model_selection import ParameterGrid

from corank.core.arrays import like, to_numpy
from corank.core.basis import KernelBasis
from corank.core.kernels import Kernel
from corank.core.loss import WithinQueries
from corank.core.observations import ComparedRows, ScoredRows
from corank.solve import expectation_propagation
from corank.solve.differences import spread_of, width_slopes
from corank.solve.expectation_propagation import PairData, propagate
from corank.solve.preference import (
    EvidenceSearch,
    PreferenceTask,
    amplitude_slope,
    fit_kernel,
    learn,
)
from corank.solve.preference import width_slopes as preference_slopes
from corank.solve.questions import information, pairs_to_compare, rows_to_score
from corank.solve.systems import DualSystem, PrimalSystem, ViewData

pytestmark = pytest.mark.usefixtures("one_blas_thread")

LOSS = Loss("size")
K3 = 3 * np.array([[1, 0.5, 0.2], [0.5, 1, 0.3], [0.2, 0.3, 1.0]])
ROOT = np.linalg.cholesky(K3)  # features of three items whose kernel is K3
BEATS, BEATEN = np.array([0, 1, 0, 2]), np.array([1, 2, 2, 1])  # the last contradicts the second


def compared(items, counts=(1, 1, 1, 1)):
    return PairData(items, BEATS, BEATEN, np.asarray(counts, dtype=float))


def task(X, winners, losers, gamma=1.0, basis=None):
    data = PairData(X, winners, losers, np.ones(len(winners)))
    return PreferenceTask(
        data,
        KernelBasis(Kernel("rbf", gamma), X if basis is None else X[basis]),
        whole=basis is None,
    )


def integrated(features, counts, width=7.0, steps=111):
    """log evidence, mean and covariance of the weights by summing over a grid."""
    x = np.linspace(-width, width, steps)
    grid = np.stack(np.meshgrid(*[x] * features.shape[1], indexing="ij"), -1).reshape(
        -1, features.shape[1]
    )
    logs = norm.logpdf(grid).sum(axis=1) + norm.logcdf(grid @ features.T) @ counts
    weights = np.exp(logs)
    total = weights.sum() * (x[1] - x[0]) ** features.shape[1]
    weights /= weights.sum()
    mean = weights @ grid
    return np.log(total), mean, (grid * weights[:, None]).T @ grid - np.outer(mean, mean)


def test_one_comparison_is_exact():
    items = np.array([[1.7], [0.0]])
    found = propagate(items, PairData(items, np.array([0]), np.array([1]), np.ones(1)))
    evidence, mean, covariance = integrated(np.array([[1.7]]), np.ones(1), steps=4001)
    np.testing.assert_allclose(found.log_evidence, np.log(0.5))
    np.testing.assert_allclose(evidence, np.log(0.5), atol=1e-8)
    np.testing.assert_allclose(found.mean, mean, atol=1e-8)
    np.testing.assert_allclose(1 / found.factor**2, covariance, atol=1e-8)


@pytest.mark.parametrize("counts", [np.ones(4), np.array([3, 1, 2, 2.0])], ids=["once", "repeated"])
def test_moments_and_evidence_are_those_of_integrals(counts):
    found = propagate(ROOT, compared(ROOT, counts))
    evidence, mean, covariance = integrated(ROOT[BEATS] - ROOT[BEATEN], counts)
    assert abs(found.log_evidence - evidence) < 0.03
    np.testing.assert_allclose(found.mean, mean, atol=0.01)
    np.testing.assert_allclose(np.linalg.inv(found.factor @ found.factor.T), covariance, atol=0.03)


def test_a_repeated_comparison_is_so_many_comparisons():
    times = [3, 1, 2, 2]
    once = propagate(
        ROOT, PairData(ROOT, np.repeat(BEATS, times), np.repeat(BEATEN, times), np.ones(8))
    )
    counted = propagate(ROOT, compared(ROOT, times))
    np.testing.assert_allclose(counted.mean, once.mean, rtol=1e-7)
    np.testing.assert_allclose(counted.log_evidence, once.log_evidence, rtol=1e-9)


def test_small_problems_of_all_kinds_converge_to_something_finite():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n, N = int(rng.integers(2, 8)), int(rng.integers(1, 20))
        amplitude, width = 10 ** rng.uniform(-4, 6), 10 ** rng.uniform(-4, 4)
        X = rng.normal(size=(n, 2))
        winners = rng.integers(0, n, N)
        losers = (winners + rng.integers(1, n, N)) % n
        found = fit_kernel(task(X, winners, losers), Kernel("rbf", width), amplitude).posterior
        assert np.isfinite(found.log_evidence)
        assert np.isfinite(found.mean).all()
        assert found.residual < 1e-4


def test_warm_sites_lead_to_the_same_place():
    pairs = compared(ROOT)
    cold = propagate(ROOT, pairs)
    warm = propagate(1.1 * ROOT, pairs, cold.sites)
    np.testing.assert_allclose(warm.mean, propagate(1.1 * ROOT, pairs).mean, rtol=1e-7)


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
def test_sums_over_items_are_those_over_comparisons(library, monkeypatch):
    xp = pytest.importorskip(library)
    # several blocks, which need not be of one size
    monkeypatch.setattr(expectation_propagation, "BLOCK_ENTRIES", 50)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(7, 12)) + 3 * np.repeat([0, 1], [4, 3])[:, None]
    # two parts
    winners, losers = np.array([0, 1, 2, 0, 3, 4, 5, 6]), np.array([1, 2, 0, 2, 1, 5, 4, 4])
    pairs, weights = PairData(rows, winners, losers, np.ones(8)), rng.random(8)
    gaps = rows[winners] - rows[losers]
    incidence = np.eye(7)[winners] - np.eye(7)[losers]
    other = xp.asarray(rows)
    np.testing.assert_allclose(pairs.squared_distances(other), np.sum(gaps**2, axis=1))
    product = to_numpy(pairs.laplacian_product(weights, other))
    np.testing.assert_allclose(product, incidence.T @ (weights[:, None] * gaps), atol=1e-13)
    centred = to_numpy(pairs.centred(other))
    np.testing.assert_allclose(incidence @ centred, gaps, atol=1e-13)
    np.testing.assert_allclose([centred[:4].sum(axis=0), centred[4:].sum(axis=0)], 0, atol=1e-13)


def test_a_level_that_parts_share_does_not_cost_digits():
    rng = np.random.default_rng(0)
    items = rng.normal(size=(8, 3))
    levels = 1e6 * np.repeat([[1.0, -2.0, 3.0], [-4.0, 1.0, 1.0]], 4, axis=0)
    pairs = PairData(items, np.array([0, 1, 2, 4, 5, 6]), np.array([1, 2, 3, 5, 6, 7]), np.ones(6))
    expected = propagate(items, pairs)
    found = propagate(pairs.centred(items + levels), pairs)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-8)
    np.testing.assert_allclose(found.variances, expected.variances, rtol=1e-8)


# ---- the gradient and the search

rng = np.random.default_rng(3)
ITEMS = rng.normal(size=(30, 3))
WINNERS = rng.integers(0, 30, 60)
LOSERS = (WINNERS + rng.integers(1, 30, 60)) % 30
TRUTH = np.sin(2 * ITEMS[:, 0])
SWAPPED = TRUTH[WINNERS] < TRUTH[LOSERS]
WINNERS, LOSERS = np.where(SWAPPED, LOSERS, WINNERS), np.where(SWAPPED, WINNERS, LOSERS)


@pytest.mark.parametrize("basis", [None, np.arange(0, 30, 3)], ids=["all", "some"])
def test_slopes_of_the_evidence_are_those_of_differences(basis):
    def at(logs):
        scales = tuple(np.exp(logs[1:] / 2).tolist())
        kernel = Kernel("rbf", 1.0, scales=scales)
        own = task(ITEMS, WINNERS, LOSERS, basis=basis)
        return own, fit_kernel(own, kernel, float(np.exp(logs[0])), tolerance=1e-12)

    start = np.log([2.0, 0.3, 0.5, 0.2])
    data, found = at(start)
    slopes = np.concatenate(
        [[amplitude_slope(data.data, found)], preference_slopes(data, found, each=True)]
    )
    steps = 1e-5 * np.eye(4)
    expected = [
        (at(start + h)[1].posterior.log_evidence - at(start - h)[1].posterior.log_evidence) / 2e-5
        for h in steps
    ]
    np.testing.assert_allclose(slopes, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(preference_slopes(data, found, each=False), [slopes[1:].sum()])


@pytest.mark.parametrize("widths", ["given", "one", "each"])
def test_what_is_learned_has_no_less_evidence_than_random_places(widths):
    own = task(ITEMS, WINNERS, LOSERS, 0.3)
    found = learn(own, EvidenceSearch(None, widths))
    places = np.random.default_rng(0).uniform(-2, 2, size=(10, 2))
    for amplitude, width in places:
        gamma = 0.3 if widths == "given" else 0.3 * float(np.exp(width))
        other = fit_kernel(own, Kernel("rbf", gamma), float(np.exp(amplitude)))
        assert found.fitted.posterior.log_evidence > other.posterior.log_evidence - 1e-4


# ---- score differences

QID = np.repeat([0, 1, 2, 3], [6, 1, 8, 5])
X = np.random.default_rng(4).normal(size=(20, 2))
Y = np.sin(X[:, 0]) + QID


def differences(basis=None):
    rows = ScoredRows(X, Y, QID, 4, None, np.arange(20))
    problem = rows.under(WithinQueries("size"))
    if basis is None:
        return problem, DualSystem([ViewData(problem, KernelBasis(Kernel("rbf", 0.5), X))])
    return problem, PrimalSystem([ViewData(problem, KernelBasis(Kernel("rbf", 0.5), X[basis]))])


@pytest.mark.parametrize(
    "basis", [None, np.arange(20), np.arange(0, 20, 2)], ids=["dual", "all", "some"]
)
def test_evidence_of_contrasts_is_that_of_a_normal_distribution(basis):
    _, system = differences(basis)
    points = X if basis is None else X[basis]
    k = kernel("rbf", 0.5)
    gram = k(X, points) @ np.linalg.pinv(k(points, points), rcond=1e-10) @ k(points, X)
    root = symmetric_root(laplacian(QID, LOSS))
    live = np.linalg.norm(root, axis=1) > 1e-8
    contrasts = root[live] / np.linalg.norm(root[live], axis=1, keepdims=True)  # orthonormal rows
    for amplitude, noise in product([0.3, 4.0], [0.01, 1.0]):
        covariance = amplitude * contrasts @ gram @ contrasts.T + noise * np.eye(len(contrasts))
        expected = multivariate_normal(np.zeros(len(contrasts)), covariance).logpdf(contrasts @ Y)
        evidence = system.evidence()
        found, slopes = evidence.at(amplitude, noise), evidence.slopes(amplitude, noise)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        steps = [evidence.at(amplitude * np.exp(a), noise * np.exp(b)) - found
                 for a, b in ((1e-6, 0), (0, 1e-6))]  # fmt: skip
        np.testing.assert_allclose(slopes, np.asarray(steps) / 1e-6, rtol=1e-3, atol=1e-4)


def test_the_best_amplitude_and_noise_beat_a_grid():
    _, system = differences()
    evidence = system.evidence()
    best = evidence.best(None, None)[2]
    for place in ParameterGrid(
        {"amplitude": np.logspace(-3, 3, 13), "noise": np.logspace(-5, 1, 13)}
    ):
        assert best >= evidence.at(**place) - 1e-6


@pytest.mark.parametrize("basis", [None, np.arange(20)], ids=["dual", "all"])
def test_covariance_is_that_of_conditioning(basis):
    _, system = differences(basis)
    k = kernel("rbf", 0.5)
    new = np.random.default_rng(5).normal(size=(4, 2))
    spread = spread_of(system, 2.0, 0.1)
    found = 2 * k(new, new) - k(new, X) @ spread @ k(X, new)
    L = laplacian(QID, LOSS)
    root = symmetric_root(L)
    inner = np.linalg.inv(2 * root @ k(X, X) @ root.T + 0.1 * np.eye(len(root)))
    expected = 2 * k(new, new) - 4 * k(new, X) @ root.T @ inner @ root @ k(X, new)
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_width_slopes_of_contrasts_are_those_of_differences():
    def at(logs):
        problem, _ = differences()
        kernel = Kernel("rbf", 0.5, scales=tuple(np.exp(logs / 2).tolist()))
        return problem, DualSystem([ViewData(problem, KernelBasis(kernel, X))])

    start = np.array([0.3, -0.2])
    _, system = at(start)
    slopes = width_slopes(system, 2.0, 0.1)
    expected = [
        (at(start + h)[1].evidence().at(2.0, 0.1) - at(start - h)[1].evidence().at(2.0, 0.1)) / 2e-5
        for h in 1e-5 * np.eye(2)
    ]
    np.testing.assert_allclose(slopes, expected, rtol=1e-5)


def test_evidence_of_margins_is_that_of_a_normal_distribution():
    margins = np.abs(TRUTH[WINNERS] - TRUTH[LOSERS])
    weights = np.linspace(0.5, 2, 60)
    problem = ComparedRows(ITEMS, WINNERS, LOSERS, margins, weights, np.arange(60))
    system = PrimalSystem([ViewData(problem, KernelBasis(Kernel("rbf", 0.5), ITEMS))])
    A = np.zeros((60, 30))
    A[np.arange(60), WINNERS], A[np.arange(60), LOSERS] = 1, -1
    A *= np.sqrt(weights)[:, None]
    covariance = 2 * A @ kernel("rbf", 0.5)(ITEMS, ITEMS) @ A.T + 0.3 * np.eye(60)
    expected = multivariate_normal(np.zeros(60), covariance).logpdf(np.sqrt(weights) * margins)
    np.testing.assert_allclose(system.evidence().at(2.0, 0.3), expected, rtol=1e-6)


# ---- what to ask


def test_information_is_that_of_integrals():
    for gap, variance in product([-2.0, 0.0, 1.0], [0.1, 1.0, 9.0]):
        g = gap + np.sqrt(variance) * np.linspace(-8, 8, 20001)
        density = norm.pdf(g, gap, np.sqrt(variance))
        density /= density.sum()

        def entropy(p):
            p = np.clip(p, 1e-300, 1 - 1e-16)
            return -(p * np.log2(p) + (1 - p) * np.log2(1 - p))

        expected = entropy(density @ norm.cdf(g)) - density @ entropy(norm.cdf(g))
        assert abs(information(np.array([gap]), np.array([variance]))[0] - expected) < 0.02


def test_questions_are_telling_and_not_asked_twice():
    k = kernel("rbf", 0.5)
    pool = np.concatenate([ITEMS, ITEMS[:5]])  # five items stand twice
    covariance = k(pool, pool)
    rows = rows_to_score(covariance, 1e-6, 10)
    assert (
        len(set(rows.tolist()) & set(range(5))) + len(set(rows.tolist()) & set(range(30, 35))) <= 5
    )
    pairs = pairs_to_compare(np.zeros(35), 4 * covariance, 6)
    assert pairs.shape == (6, 2)
    assert len({tuple(pair) for pair in pairs.tolist()}) == 6
    assert all(np.abs(pool[a] - pool[b]).sum() > 0 for a, b in pairs)
    np.testing.assert_array_equal(pairs, pairs_to_compare(np.zeros(35), 4 * covariance, 6))


def test_other_libraries_find_the_same():
    torch = pytest.importorskip("torch")
    pairs = compared(ROOT)
    found = propagate(torch.asarray(ROOT), pairs)
    np.testing.assert_allclose(found.mean.numpy(), propagate(ROOT, pairs).mean, rtol=1e-9)
    assert like(found.sites.precision, found.mean).dtype == torch.float64
