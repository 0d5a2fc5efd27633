"""Questions that are chosen one after the other: each has the largest gain given the answers before,
by conditioning on all of them at once.
"""

import numpy as np
import pytest

from corank.solve.questions import pairs_to_measure, rows_to_score, score_gains

M, COUNT = 6, 5


def covariance_of(seed):
    root = np.random.default_rng(seed).normal(size=(M, M + 2))
    return root @ root.T / M


def conditioned(covariance, contrasts, noise):
    """The covariance after noisy answers about contrasts (q, m)."""
    if not len(contrasts):
        return covariance
    across = covariance @ contrasts.T
    return covariance - across @ np.linalg.solve(
        contrasts @ across + noise * np.eye(len(contrasts)), across.T
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("noise", [0.05, 3.0])
def test_pairs_to_measure_differ_most_given_the_answers_before(seed, noise):
    covariance = covariance_of(seed)
    contrasts = {(a, b): np.eye(M)[a] - np.eye(M)[b] for a in range(M) for b in range(a + 1, M)}
    asked = []
    for pair in pairs_to_measure(covariance, noise, COUNT).tolist():
        known = np.asarray([contrasts[other] for other in asked]).reshape(-1, M)
        left = conditioned(covariance, known, noise)
        variances = {
            other: contrast @ left @ contrast
            for other, contrast in contrasts.items()
            if other not in asked
        }
        assert tuple(pair) == max(variances, key=variances.get)
        asked.append(tuple(pair))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("noise", [0.05, 3.0])
def test_rows_to_score_gain_most_given_the_answers_before(seed, noise):
    covariance = covariance_of(seed)
    asked = []
    for row in rows_to_score(covariance, noise, COUNT).tolist():
        left = conditioned(covariance, np.eye(M)[asked], noise)
        gains = score_gains(left, noise)
        gains[asked] = -np.inf
        assert row == int(np.argmax(gains))
        asked.append(row)
