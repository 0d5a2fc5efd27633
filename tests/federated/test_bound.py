"""What a run costs, counted: rounds grow with the logarithm of the accuracy, and numbers sent with
sites, shared items and rounds ([Brefeld2006], section 4.3).
"""

import numpy as np
import pytest

from corank import CoRLS
from corank_federated import Coordinator, InProcess, Limits, Plan, SharedItems, Site

pytestmark = pytest.mark.usefixtures("one_blas_thread")
FRAME = 200  # bytes of a question and its answer beside their numbers, at most
PLAIN = {"report": False, "accelerate": False}


def run(n_sites=3, n_items=25, tol=1e-6, **how):
    shared = SharedItems(np.random.default_rng(9).normal(size=(n_items, 3)))
    sites = []
    for v in range(n_sites):
        X = np.random.default_rng(v).normal(size=(14, 3))
        y = np.sin(X[:, 0]) + X[:, 1]
        learner = CoRLS(alpha=0.3 + v / 2, gamma=0.3, basis="scored")
        sites.append(Site("abcd"[v], learner, X, y, shared, limits=Limits(rounds=5_000)))
    names = tuple(site.name for site in sites)
    plan = Plan("test", names, 0.4, tol=tol, max_rounds=5_000, **{**PLAIN, **how})
    report = Coordinator(plan, InProcess(sites)).run()
    assert report.converged
    return report


@pytest.mark.parametrize("report", [False, True])
@pytest.mark.parametrize("schedule", ["sequential", "parallel"])
def test_rounds_grow_with_the_logarithm_of_the_accuracy(schedule, report):
    """From the fourth digit on each digit takes as many rounds as the one before, but for one."""
    rounds = [
        run(tol=10.0**-digits, schedule=schedule, report=report).n_rounds for digits in range(4, 12)
    ]
    per_digit = np.diff(rounds)
    assert per_digit.max() <= per_digit.min() + 1
    assert per_digit.min() >= 1


@pytest.mark.parametrize("n_sites", [2, 3, 4])
@pytest.mark.parametrize("n_items", [25, 50, 75])
def test_a_round_sends_two_numbers_per_site_and_item(n_sites, n_items):
    """One to the site and one from it, of 8 bytes, and a frame that does not depend on either."""
    report = run(n_sites, n_items, tol=1e-3)
    numbers = n_sites * 2 * n_items * 8
    for at in report.rounds[1:]:
        assert numbers < at.sent + at.received < numbers + n_sites * FRAME


def test_what_is_sent_in_all_grows_with_the_logarithm_too():
    sent = [run(tol=10.0**-digits).bytes for digits in range(4, 12)]
    per_digit = np.diff(sent) / (2 * 3 * 25 * 8)
    assert per_digit.max() <= per_digit.min() + 1.5
