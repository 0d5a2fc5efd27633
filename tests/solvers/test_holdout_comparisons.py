"""Held-out errors of explicit comparisons against literal refitting, kernel and basis kept, for every alpha."""

import warnings

import numpy as np
import pytest
from brute_force import fit_predict_comparisons, held_out_comparisons, kernel, leave_groups_out, small_problem
from sklearn.model_selection import KFold, LeaveOneOut, ShuffleSplit

import corank.solvers.tuning
from corank import RankRLS

X = small_problem(seed=11, sizes=(1, 4, 7, 3, 5, 4)).X
N = len(X)  # more than MANY_FOLDS
GAMMA, ALPHAS = 0.4, [0.01, 1.0, 30.0]
RBF = kernel("rbf", GAMMA)
SUBSET = [0, 2, 3, 9, 14]
close = {"rtol": 1e-6, "atol": 1e-9}
pytestmark = pytest.mark.filterwarnings("ignore:The groups parameter is ignored")  # but see the test of its own


@pytest.fixture
def no_refitting(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("refitted where a closed form should serve")

    monkeypatch.setattr(corank.solvers.tuning, "refitted", refuse)


def some_comparisons(count):
    """Distinct pairs of items, so that each one is left out alone."""
    rng = np.random.default_rng(13)
    first, second = np.triu_indices(N, 1)
    chosen = rng.permutation(len(first))[:count]
    winners, losers = first[chosen], second[chosen]
    return winners, losers, rng.uniform(0, 2, size=count), rng.uniform(0.2, 2, size=count)


COMPARISON_BASES = {"dual": (12, "all"), "primal": (60, "all"), "subset": (60, SUBSET)}


@pytest.mark.parametrize("form", COMPARISON_BASES)
@pytest.mark.usefixtures("no_refitting")
def test_leave_one_comparison_out_equals_refitting(form):
    count, basis = COMPARISON_BASES[form]
    winners, losers, margins, weights = some_comparisons(count)
    model = RankRLS(ALPHAS, basis, gamma=GAMMA, cv=LeaveOneOut())
    model.fit_comparisons(X, winners, losers, margins=margins, weights=weights)
    own = X[model.basis_]
    splits = leave_groups_out(np.arange(count))
    expected = held_out_comparisons(
        X, winners, losers, splits, RBF, ALPHAS, margins=margins, weights=weights, basis=own
    )
    np.testing.assert_allclose(model.path_.error, expected, **close)


@pytest.mark.usefixtures("no_refitting")
def test_comparisons_of_the_same_two_items_are_left_out_together():
    winners, losers = np.asarray([0, 1, 2, 3, 5, 2, 7]), np.asarray([1, 0, 3, 4, 6, 3, 8])
    model = RankRLS(ALPHAS, gamma=GAMMA).fit_comparisons(X, winners, losers)
    splits = leave_groups_out([0, 0, 1, 2, 3, 1, 4])
    np.testing.assert_allclose(
        model.path_.error, held_out_comparisons(X, winners, losers, splits, RBF, ALPHAS), **close
    )


@pytest.mark.parametrize("basis", ["all", SUBSET], ids=["dual", "subset"])
def test_comparisons_of_a_query_are_left_out_together(basis):
    qid = np.repeat(np.arange(4), 6)
    winners = np.asarray([0, 2, 7, 8, 13, 15, 22])
    losers = np.asarray([1, 0, 6, 11, 14, 16, 18])
    model = RankRLS(ALPHAS, basis, gamma=GAMMA).fit_comparisons(X, winners, losers, qid=qid)
    splits = leave_groups_out(qid[winners])
    expected = held_out_comparisons(X, winners, losers, splits, RBF, ALPHAS, basis=X[model.basis_])
    np.testing.assert_allclose(model.path_.error, expected, **close)


@pytest.mark.parametrize("form", COMPARISON_BASES)
def test_disagreement_of_comparisons_left_out_is_the_literal_one(form):
    count, basis = COMPARISON_BASES[form]
    winners, losers, margins, _ = some_comparisons(count)
    margins[:3] = 0  # ties have no right order
    model = RankRLS(ALPHAS, basis, gamma=GAMMA, cv=LeaveOneOut(), scoring="disagreement")
    model.fit_comparisons(X, winners, losers, margins=margins)
    wrong = np.zeros(len(ALPHAS))
    for train, test in leave_groups_out(np.arange(count))[3:]:
        for a, alpha in enumerate(ALPHAS):
            f = fit_predict_comparisons(
                X, winners[train], losers[train], X, RBF, alpha, margins=margins[train], basis=X[model.basis_]
            )
            wrong[a] += float((f[winners[test]] < f[losers[test]])[0])
    np.testing.assert_allclose(model.path_.error, wrong / (count - 3))


@pytest.mark.parametrize("form", COMPARISON_BASES)
def test_overlapping_test_sets_equal_refitting(form):
    count, basis = COMPARISON_BASES[form]
    winners, losers, margins, weights = some_comparisons(count)
    cv = ShuffleSplit(4, test_size=0.3, random_state=0)
    model = RankRLS(ALPHAS, basis, gamma=GAMMA, cv=cv)
    model.fit_comparisons(X, winners, losers, margins=margins, weights=weights)
    expected = held_out_comparisons(
        X,
        winners,
        losers,
        list(cv.split(winners)),
        RBF,
        ALPHAS,
        margins=margins,
        weights=weights,
        basis=X[model.basis_],
    )
    np.testing.assert_allclose(model.path_.error, expected, **close)


def test_a_splitter_is_not_handed_groups_that_nobody_gave():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RankRLS(ALPHAS, cv=KFold(3)).fit_comparisons(X, *some_comparisons(12)[:2])
