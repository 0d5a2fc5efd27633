"""Standard deviations and chances: on a known process, and as one posterior tells all of them."""

import numpy as np
import pytest
from scipy.stats import norm

from corank import AutoRanker, AutoRegressor, Candidate
from corank.core.arrays import take
from corank.learners.average.fitting import fit_average
from corank.learners.average.model import score_units
from corank.learners.average.scored_table import AverageSettings
from corank.learners.average.similarity import Space

N, N_NEW = 30, 20
NOISE = 0.3
CANDIDATES = [Candidate(width=1.0), Candidate(kernel="linear"), Candidate(kernel="laplacian")]


def process(seed):
    """Rows (N + N_NEW, 1) and noisy scores of a Gaussian process, its variance 1."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-2, 2, (N + N_NEW, 1))
    covariance = np.exp(-0.5 * (rows - rows.T) ** 2) + 1e-9 * np.eye(len(rows))
    function = np.linalg.cholesky(covariance) @ rng.standard_normal(len(rows))
    return rows, function + NOISE * rng.standard_normal(len(rows))


def test_new_scores_lie_as_far_from_predictions_as_their_deviations_say():
    gaps = []
    for seed in range(30):
        rows, scores = process(seed)
        model = AutoRegressor(candidates=CANDIDATES).fit(rows[:N], scores[:N])
        mean, deviation = model.predict(rows[N:], return_std=True)
        gaps.append((scores[N:] - mean) / deviation)
    assert 0.85 < np.sqrt(np.mean(np.square(gaps))) < 1.15
    assert 0.02 < np.mean(np.abs(gaps) > 2) < 0.09


def exact_line(n):
    rows = np.linspace(-1, 1, n)[:, None]
    units = score_units(rows[:, 0], None, None, AverageSettings(ranks=False))
    return fit_average(
        Space({"standardised": rows}), [Candidate(kernel="linear")], units, ranks=False, seed=0
    )


def test_few_residuals_hardly_change_deviations_and_many_do():
    assert exact_line(4).residual_factor > 0.5
    assert exact_line(100).residual_factor < 0.3


def test_scores_on_a_line_leave_a_doubt_that_goes_with_their_spread():
    rows = np.linspace(-1, 1, 30)[:, None]
    for size in (1.0, 1e6):
        model = AutoRegressor(candidates=[Candidate(kernel="linear")]).fit(rows, size * rows[:, 0])
        _, deviations = model.predict(rows, return_std=True)
        assert (deviations > 0.01 * size * rows.std()).all()


@pytest.fixture(scope="module", params=["scores", "comparisons"])
def fitted(request):
    """A model whose predictions stay within its bounds, new rows, and the belief about them."""
    rows, scores = process(0)
    if request.param == "scores":
        model = AutoRegressor(candidates=CANDIDATES).fit(rows[:N], scores[:N])
    else:
        order = np.argsort(-scores[:N])
        model = AutoRanker(candidates=CANDIDATES).fit_comparisons(rows[:N], order[:-1], order[1:])
    posterior, table = model.posterior_at(rows)
    belief = posterior.covariance(take(table, np.arange(N, N + N_NEW)))
    return model, rows[N:], (*belief, posterior.answer_noise / 2)


def test_deviations_are_those_of_the_belief_and_the_noise(fitted):
    model, rows, (mean, covariance, noise) = fitted
    predictions, deviations = model.predict(rows, return_std=True)
    np.testing.assert_allclose(predictions, mean, atol=1e-9)
    np.testing.assert_allclose(deviations**2, np.diag(covariance) + noise, rtol=1e-6)


def test_deviations_are_those_of_the_mixture_and_its_noise_times_the_factor(fitted):
    model, rows, _ = fitted
    posterior, table = model.posterior_at(rows)
    processes = posterior.processes
    moments = [process.moments(take(table, slice(None))) for process in processes]
    means, variances = (np.array(values) for values in zip(*moments, strict=True))
    weights = np.array(posterior.weights)
    between = weights @ means**2 - (weights @ means) ** 2
    noise = sum(
        weight * process.variance * process.fitted.alpha
        for weight, process in zip(weights, processes, strict=True)
    )
    factor = model._model.factor
    assert abs(factor - 1) > 0.01
    expected = factor * np.sqrt(weights @ variances + between + noise)
    np.testing.assert_allclose(model.predict(rows, return_std=True)[1], expected, rtol=1e-6)


@pytest.mark.parametrize("observed", [False, True])
def test_chances_are_those_of_the_belief_and_of_two_noises(fitted, observed):
    model, rows, (mean, covariance, noise) = fitted
    first, second = np.arange(10), np.arange(10, 20)
    variance = (
        np.diag(covariance)[first] + np.diag(covariance)[second] - 2 * covariance[first, second]
    )
    expected = norm.cdf((mean[first] - mean[second]) / np.sqrt(variance + 2 * noise * observed))
    chances = model.predict_comparison(rows[first], rows[second], observed=observed)
    np.testing.assert_allclose(chances, expected, atol=1e-6)
