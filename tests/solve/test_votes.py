"""Votes of judges: probabilities, moments and slopes against integrals and differences."""

from dataclasses import replace

import numpy as np
import pytest
from brute_force import kernel
from brute_force.gaussian_processes import integrated, vote_chance
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import norm

from corank.core.basis import KernelBasis
from corank.core.kernels import Kernel
from corank.solve.preference import PreferenceTask, fit_kernel, habits_learned
from corank.solve.votes import VoteLikelihood, Votes, agreement, first_habits

pytestmark = pytest.mark.usefixtures("one_blas_thread")

X = np.random.default_rng(1).normal(size=(3, 2))
FIRST, SECOND = np.array([0, 1, 0, 2, 1, 0]), np.array([1, 2, 2, 1, 0, 1])
OUTCOMES, JUDGES = np.array([1, 0, 1, -1, -1, 1]), np.array([0, 0, 1, 1, 0, 1])
# reliability, log threshold, side, log odds of lapses of two judges
VALUES = np.array([[1.3, -0.5, 0.3, logit(0.04)], [0.4, 0.2, -0.6, logit(0.02)]])
CASES = pytest.mark.parametrize(
    ("response", "ties", "lapse"),
    [
        (response, ties, lapse)
        for response in ("probit", "logit")
        for ties in (True, False)
        for lapse in (0.0, 0.1)
    ],
)


def votes_and_habits(response="probit", *, ties=True, values=VALUES):
    keep = slice(None) if ties else OUTCOMES != 0
    ends = FIRST[keep], SECOND[keep]
    votes = Votes.gathered(X, ends, OUTCOMES[keep], JUDGES[keep], np.ones(len(OUTCOMES[keep])))
    habits = first_habits(votes, response, with_judges=True, with_sides=True, tie=None, lapse=None)
    return votes, replace(habits, values=values)


def moments(values, response, ties, outcome, mean, variance):
    _, habits = votes_and_habits(response, ties=ties)
    columns = np.repeat(np.asarray(values, dtype=float)[:, None], 1, axis=1)
    return habits.tilted(np.array([outcome]), columns, np.array([mean]), np.array([variance]))


@CASES
@pytest.mark.parametrize("outcome", [1, 0, -1])
@pytest.mark.parametrize(("mean", "variance"), [(0.4, 0.7), (-2.5, 0.1), (1.5, 6.0)])
def test_probabilities_and_slopes_are_those_of_integrals(
    response, ties, lapse, outcome, mean, variance
):
    if outcome == 0 and not ties:
        return
    values = np.array([-0.8, 0.1, 0.4, logit(lapse) if lapse else -1e6])

    def log_chance(values, mean=mean):
        shift, threshold = values[2], np.exp(values[1]) * ties
        rate = expit(values[3])
        return np.log(
            quad(
                lambda d: (
                    norm.pdf(d, mean, variance**0.5)
                    * vote_chance(d, outcome, values[0], threshold, shift, rate, response, ties)
                ),
                mean - 9 * variance**0.5,
                mean + 9 * variance**0.5,
                epsabs=1e-12,
                epsrel=1e-12,
            )[0]
        )

    tilted = moments(values, response, ties, outcome, mean, variance)
    np.testing.assert_allclose(tilted.log_probability[0], log_chance(values), atol=2e-7)

    def slope(habit, step=1e-4):
        there = step * np.eye(4)[habit]
        return (log_chance(values + there) - log_chance(values - there)) / (2 * step)

    np.testing.assert_allclose(tilted.by_shift[0], slope(2), atol=1e-5)
    np.testing.assert_allclose(tilted.by_threshold[0] * ties, slope(1) * ties, atol=1e-5)
    np.testing.assert_allclose(tilted.by_lapse[0], slope(3) if lapse else 0.0, atol=1e-5)
    by_reliability = mean * tilted.by_shift[0] - values[0] * variance * tilted.curving[0]
    np.testing.assert_allclose(by_reliability, slope(0), atol=1e-5)
    step = 1e-3
    bend = (
        log_chance(values, mean + step) - 2 * log_chance(values) + log_chance(values, mean - step)
    ) / step**2
    expected = -(values[0] ** 2) * (tilted.by_shift[0] ** 2 + tilted.curving[0])
    np.testing.assert_allclose(expected, bend, atol=1e-4)


def test_far_tails_keep_their_digits():
    for outcome, mean in ((1, -40.0), (-1, 40.0), (0, 60.0), (0, -60.0)):
        tilted = moments([1.0, -1.0, 0.0, -1e6], "probit", True, outcome, mean, 0.0)
        bound = np.exp(-1.0) if outcome == 0 else -np.exp(-1.0)
        expected = norm.logcdf(bound - abs(mean))
        np.testing.assert_allclose(tilted.log_probability[0], expected, rtol=1e-9)
        assert np.isfinite(tilted.curving).all()


def fitted(votes, habits, amplitude=2.0):
    likelihood = VoteLikelihood(votes, habits)
    task = PreferenceTask(votes, KernelBasis(Kernel("rbf", 0.7), X), True, likelihood)
    return task, fit_kernel(task, task.basis.kernel, amplitude)


@pytest.mark.parametrize("response", ["probit", "logit"])
@pytest.mark.parametrize("ties", [True, False])
def test_evidence_and_moments_are_those_of_integrals(response, ties):
    votes, habits = votes_and_habits(response, ties=ties)

    def likelihood(values):
        return sum(
            np.log(
                vote_chance(
                    values[:, first] - values[:, second],
                    outcome,
                    habits.values[judge, 0],
                    np.exp(habits.values[judge, 1]) * ties,
                    habits.values[judge, 2],
                    expit(habits.values[judge, 3]),
                    response,
                    ties,
                )
            )
            for first, second, outcome, judge in zip(
                votes.winners, votes.losers, votes.outcomes, votes.judges, strict=True
            )
        )

    exact = integrated(2.0 * kernel("rbf", 0.7)(X, X), None, None, likelihood=likelihood)
    _, found = fitted(votes, habits)
    assert abs(found.posterior.log_evidence - exact.log_evidence) < 0.02
    gaps = np.array([[1, -1, 0], [0, 1, -1.0]])
    mean = gaps @ (found.features @ found.posterior.mean)
    np.testing.assert_allclose(mean, gaps @ exact.mean, atol=0.02)
    spread = gaps @ found.posterior.spread
    np.testing.assert_allclose(spread @ spread.T, gaps @ exact.covariance @ gaps.T, rtol=0.08)


def test_the_evidence_moves_with_habits_as_the_probabilities_do_where_sites_are_taken_out():
    votes, habits = votes_and_habits()
    _, found = fitted(votes, habits)
    posterior = found.posterior
    kept = 1 - posterior.variances * posterior.sites.precision
    mean = (posterior.differences - posterior.variances * posterior.sites.shift) / kept
    variance = posterior.variances / kept
    own = habits.values[votes.judges].T
    tilted = habits.tilted(votes.outcomes, own, mean, variance)
    slopes = np.stack(
        [
            mean * tilted.by_shift - own[0] * variance * tilted.curving,
            tilted.by_threshold,
            tilted.by_shift,
            tilted.by_lapse,
        ]
    )
    for judge in range(2):
        for habit in range(4):
            step = np.zeros((2, 4))
            step[judge, habit] = 1e-4
            above, below = (
                fitted(votes, replace(habits, values=VALUES + sign * step))[1] for sign in (1, -1)
            )
            slope = (above.posterior.log_evidence - below.posterior.log_evidence) / 2e-4
            expected = slopes[habit] @ (votes.counts * (votes.judges == judge))
            np.testing.assert_allclose(slope, expected, atol=2e-5)


def test_one_judge_is_learned_to_the_largest_evidence():
    """Of threshold, side and lapses, with the prior of a usual judge."""
    rng = np.random.default_rng(3)
    first, second = rng.integers(0, 3, (2, 200))
    keep = first != second
    first, second = first[keep], second[keep]
    truth = np.array([0.0, 0.8, -0.8])
    seen = truth[first] - truth[second] + 0.4 + rng.normal(size=len(first))
    outcomes = np.where(np.abs(seen) < 0.5, 0, np.sign(seen)).astype(np.int64)
    votes = Votes.gathered(X, (first, second), outcomes, 0 * first, np.ones(len(first)))
    habits = first_habits(votes, "probit", with_judges=False, with_sides=True, tie=None, lapse=0.0)
    task, _ = fitted(votes, habits)
    learned = habits_learned(task, 2.0).likelihood.habits

    def value(values):
        prior = -0.5 * (values[1] / 2) ** 2 - 0.5 * values[2] ** 2
        return (
            fitted(votes, replace(learned, values=values[None]))[1].posterior.log_evidence + prior
        )

    best = value(learned.values[0])
    for habit in (1, 2):
        for step in (-0.1, 0.1):
            assert value(learned.values[0] + step * np.eye(4)[habit]) < best
    assert abs(learned.values[0, 2] - 0.4) < 0.3
    assert abs(np.exp(learned.values[0, 1]) - 0.5) < 0.2


def test_alpha_is_krippendorffs():
    """Three pairs: one without dispute, one with, one answered once."""
    first, second = np.array([0, 1, 0, 2, 1]), np.array([1, 0, 2, 0, 2])
    outcomes = np.array([1, -1, 1, 1, 1])
    votes = Votes.gathered(X, (first, second), outcomes, np.arange(5), np.ones(5))
    found = agreement(votes, np.array([5, 6, 7]))
    # of four answers that can be compared two disagree, by chance half of them would
    assert found.alpha == pytest.approx(1 - (2 * 4.0) / (4 * 2.0))
    assert found.n_pairs == 2
    assert found.items.tolist() == [7, 5, 6]
    np.testing.assert_allclose(found.disputes, [2.0, 1.0, 0.0])
