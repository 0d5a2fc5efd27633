"""Beliefs about items: moments against draws, questions against literal search, what is foreseen
against simulation.
"""

import numpy as np
import pytest
from scipy.special import ndtr

from corank.interview.belief import VARIANCES, Belief, Beliefs, Prior, pairs_within
from corank.solve.questions import information


def some_belief(m: int = 7, seed: int = 0) -> Belief:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(m, m))
    return Belief(np.arange(m) * 3, np.ones(m), rng.normal(size=m), root @ root.T / m)


def drawn(belief: Belief, n: int = 400_000):
    return np.random.default_rng(1).multivariate_normal(belief.mean, belief.covariance, size=n)


def test_a_win_changes_moments_as_weighing_draws_by_the_probit_does():
    belief = some_belief(4)
    draws = drawn(belief)
    weights = ndtr(draws[:, 2] - draws[:, 0])
    after = belief.after_win(2, 0)
    mean = np.average(draws, axis=0, weights=weights)
    np.testing.assert_allclose(after.mean, mean, atol=0.02)
    np.testing.assert_allclose(after.covariance, np.cov(draws.T, aweights=weights), atol=0.03)


def test_a_tie_brings_two_scores_together():
    belief = some_belief()
    after = belief.after_tie(1, 4)
    assert abs(after.mean[1] - after.mean[4]) < abs(belief.mean[1] - belief.mean[4])


def test_a_score_shrinks_the_variance_of_its_row_most():
    belief = some_belief()
    after = belief.after_score(3, 0.0)
    np.testing.assert_allclose(after.mean, belief.mean)
    assert after.covariance[3, 3] == pytest.approx(
        belief.covariance[3, 3] / (1 + belief.covariance[3, 3])
    )


def test_the_best_pair_is_that_of_most_information_among_those_not_asked():
    belief = some_belief()

    def gain(a: int, b: int) -> float:
        c = belief.covariance
        return float(information(belief.mean[a] - belief.mean[b], c[a, a] + c[b, b] - 2 * c[a, b]))

    ranked = sorted(pairs_within(range(7)), key=lambda pair: -gain(*pair))
    assert belief.best_pair([]) == tuple(3 * place for place in ranked[0])
    # in either order, beside rows that are not in the pool
    asked = [(3 * b, 3 * a) for a, b in ranked[:4]]
    assert belief.best_pair([*asked, (1, 2)]) == tuple(3 * place for place in ranked[4])
    assert belief.best_pair(pairs_within(belief.rows.tolist())) is None


def test_fours_are_different_items_and_begin_with_the_best_pair():
    belief = some_belief()
    four = belief.best_four([])
    assert four is not None
    assert len(set(four)) == 4
    assert set(belief.best_pair([]) or ()) <= set(four)
    assert len(some_belief(3).best_four([]) or ()) == 3


def test_the_expected_share_of_misordered_pairs_is_that_of_draws():
    belief = some_belief()
    draws = drawn(belief, 50_000)
    wrong = [
        np.mean((draws[:, a] > draws[:, b]) != (belief.mean[a] > belief.mean[b]))
        for a, b in pairs_within(range(7))
    ]
    assert belief.misordered == pytest.approx(np.mean(wrong), abs=0.01)


def test_drawn_places_are_permutations_and_count_items_that_others_stand_for():
    belief = some_belief()
    places = belief.drawn_places(0)
    np.testing.assert_array_equal(
        np.sort(places, axis=1), np.tile(np.arange(1, 8), (len(places), 1))
    )
    heavy = Belief(belief.rows, np.full(7, 10.0), belief.mean, belief.covariance)
    np.testing.assert_allclose(heavy.drawn_places(0), 10 * (places - 1) + 1)


def test_what_is_foreseen_is_what_simulated_answers_bring():
    belief = some_belief(6, seed=3)
    shares = belief.foreseen(1, 5)
    assert shares[0] == pytest.approx(belief.misordered)
    rng = np.random.default_rng(4)
    errors = []
    for _ in range(400):
        truth = rng.multivariate_normal(belief.mean, belief.covariance)
        later, asked = belief, []
        for _ in range(5):
            pair = later.best_pair(asked)
            assert pair is not None
            asked.append(pair)
            a, b = later.places(pair) or []
            later = (
                later.after_win(a, b)
                if rng.random() < ndtr(truth[a] - truth[b])
                else later.after_win(b, a)
            )
        errors.append(
            np.mean(
                [
                    (truth[a] > truth[b]) != (later.mean[a] > later.mean[b])
                    for a, b in pairs_within(range(6))
                ]
            )
        )
    assert shares[1] == pytest.approx(np.mean(errors), abs=0.03)


def test_beliefs_do_not_depend_on_where_propagation_began():
    rng = np.random.default_rng(5)
    columns = rng.normal(size=(12, 2))
    outcomes = rng.permutation(np.stack(np.triu_indices(12, 1), axis=1))[:20]
    rows, weights = np.arange(12), np.ones(12)
    step_by_step = Beliefs(Prior.of(columns, 0))
    for count in range(len(outcomes) + 1):
        last = step_by_step.after(outcomes[:count], rows, weights)
    at_once = Beliefs(Prior.of(columns, 0)).after(outcomes, rows, weights)
    np.testing.assert_allclose(last.mean, at_once.mean, atol=5e-3)
    np.testing.assert_allclose(last.covariance, at_once.covariance, atol=2e-2)
    undone = step_by_step.after(outcomes[:3], rows, weights)
    fresh = Beliefs(Prior.of(columns, 0)).after(outcomes[:3], rows, weights)
    np.testing.assert_allclose(undone.mean, fresh.mean, atol=5e-3)


def test_without_answers_the_belief_is_the_prior():
    prior = Prior.of(np.zeros((4, 0)), 0)
    belief = Beliefs(prior).after(np.empty((0, 2), dtype=np.int64), np.arange(4), np.ones(4))
    np.testing.assert_allclose(belief.mean, 0.0)
    np.testing.assert_allclose(belief.covariance, np.mean([1.0, 4.0, 16.0]) * np.eye(4))


def test_few_comparisons_of_many_items_are_believed_as_one_after_the_other():
    """Pairs without a common item, of items that are not alike, say nothing about each other."""
    rows, weights = np.arange(5), np.ones(5)
    belief = Beliefs(Prior.of(np.zeros((5, 0)), 0)).after(
        np.asarray([[0, 1], [3, 2]]), rows, weights
    )
    parts = [
        Belief(rows, weights, np.zeros(5), variance * np.eye(5)).after_win(0, 1).after_win(3, 2)
        for variance in VARIANCES
    ]  # whose evidence is the same: no answer was to be expected
    mean = np.mean([part.mean for part in parts], axis=0)
    spread = np.mean([part.covariance + np.outer(part.mean, part.mean) for part in parts], axis=0)
    np.testing.assert_allclose(belief.mean, mean, atol=1e-5)
    np.testing.assert_allclose(belief.covariance, spread - np.outer(mean, mean), atol=1e-4)
