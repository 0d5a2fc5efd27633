"""Which folds a learner takes when none are given, and what a splitter is shown when one is."""

import warnings

import numpy as np
import pytest
from brute_force import Loss, held_out, kernel, leave_groups_out, small_problem
from sklearn.model_selection import KFold, LeaveOneGroupOut

from corank import RLS, RankRLS
from corank.loss import Pointwise, WithinQueries
from corank.problem import ScoredRows
from corank.rows import Rows
from corank.sampling import fold_numbers, uniform_draws
from corank.solvers.folds import N_FOLDS, natural_folds
from corank.solvers.holdout import best_position

PROBLEM = small_problem(seed=11, sizes=(1, 4, 7, 3, 5, 4))
X, Y, QID = PROBLEM.X, PROBLEM.y, PROBLEM.qid
N = len(Y)
ALPHAS = [0.01, 1.0, 30.0]


def scored_rows(n, comparison, queries=None):
    n_queries = 1 if queries is None else int(queries.max()) + 1
    return ScoredRows(Rows(np.zeros((n, 1)), np.zeros(n), queries, n_queries, None, np.arange(n)), comparison)


@pytest.mark.parametrize("n", [4, 5, 13, 20, 57])
def test_natural_folds_of_items_are_balanced_and_seeded(n):
    problem = scored_rows(n, WithinQueries())
    folds, again, other = (natural_folds(problem, dual=True, seed=seed) for seed in (0, 0, 1))
    sizes = np.bincount(folds)
    assert len(sizes) == min(N_FOLDS, n // 2)
    assert sizes.min() >= 2
    assert sizes.max() - sizes.min() <= 1
    np.testing.assert_array_equal(folds, again)
    assert n < 13 or np.any(folds != other)


def test_natural_folds_keep_queries_whole():
    queries = np.asarray([0, 1, 2, 0, 3, 3, 1] * 5 + list(range(4, 34)))
    problem = scored_rows(len(queries), WithinQueries(), queries)
    np.testing.assert_array_equal(natural_folds(problem, dual=True, seed=0), queries)
    folds = natural_folds(problem, dual=False, seed=0)
    assert len(np.unique(folds)) == N_FOLDS
    assert all(len(np.unique(folds[queries == query])) == 1 for query in range(34))


def test_fold_numbers_do_not_depend_on_where_they_begin():
    whole = fold_numbers(0, 200_000, 10, 3)
    for begin, count in ((0, 7), (81_915, 10), (81_920, 5), (123, 100_000), (199_999, 1), (5, 0)):
        np.testing.assert_array_equal(fold_numbers(begin, count, 10, 3), whole[begin : begin + count])
    assert all(len(np.unique(run)) == 10 for run in whole.reshape(-1, 10)[::997])


def test_luck_belongs_to_row_numbers():
    numbers = np.sort(np.random.default_rng(0).choice(300_000, 1_000, replace=False))
    np.testing.assert_array_equal(uniform_draws(numbers, 1), uniform_draws(np.arange(300_000), 1)[numbers])
    assert uniform_draws(numbers[:0], 1).shape == (0,)


def test_too_little_to_hold_out_has_no_natural_folds():
    assert natural_folds(scored_rows(3, WithinQueries()), dual=True, seed=0) is None
    assert natural_folds(scored_rows(1, Pointwise()), dual=True, seed=0) is None


@pytest.mark.parametrize("form", ["dual", "primal"])
def test_natural_folds_of_items_are_what_is_held_out(form):
    folds = natural_folds(scored_rows(N, WithinQueries()), dual=form == "dual", seed=0)
    found = RankRLS(ALPHAS, "all" if form == "dual" else np.arange(N), gamma=0.4).fit(X, Y).path_.error
    expected = held_out(X, Y, leave_groups_out(folds), kernel("rbf", 0.4), ALPHAS, Loss())
    np.testing.assert_allclose(found, expected, rtol=1e-6)


class Recorder:
    """A splitter that keeps what it was shown."""

    def split(self, X, y=None, groups=None):
        self.y, self.groups = y, groups
        yield np.arange(2, len(X)), np.arange(2)

    def get_n_splits(self, X=None, y=None, groups=None):
        return 1


@pytest.mark.parametrize("learner", [RLS, RankRLS])
def test_a_splitter_sees_scores_and_queries_of_the_scored_rows(learner):
    y = Y.copy()
    y[3] = np.nan
    cv = Recorder()
    learner(ALPHAS, cv=cv).fit(X, y, qid=QID)
    np.testing.assert_allclose(cv.y, np.delete(Y, 3))
    kept = np.delete(QID, 3)
    np.testing.assert_array_equal(cv.groups[:, None] == cv.groups, kept[:, None] == kept)


def test_a_splitter_is_not_handed_groups_that_nobody_gave():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RLS(ALPHAS, cv=KFold(3)).fit(X, Y)


def test_the_largest_of_equally_good_alphas_is_taken():
    alpha, error = np.asarray([1.0, 10.0, 0.1, 100.0]), np.asarray([0.5, 0.5, 0.5, 0.7])
    assert best_position(error, alpha) == 1
    assert best_position(np.asarray([0.5, np.nan, 0.4, 0.7]), alpha) == 2


@pytest.mark.parametrize("scoring", ["squared", "rescaled", "disagreement"])
def test_many_large_folds_are_summed_in_batches(scoring, monkeypatch):
    rng = np.random.default_rng(0)
    features, scores = rng.normal(size=(300, 3)), rng.normal(size=300)
    model = RLS([0.1, 1.0], [0, 1], gamma=0.3, cv=KFold(25), scoring=scoring)
    batched = model.fit(features, scores).path_
    monkeypatch.setattr("corank.solvers.holdout.MANY_FOLDS", 100)
    at_once = model.fit(features, scores).path_
    np.testing.assert_allclose(batched.error, at_once.error, rtol=1e-9)


def test_leaving_one_out_by_name_is_leaving_one_out():
    rng = np.random.default_rng(0)
    features, scores = rng.normal(size=(40, 3)), rng.normal(size=40)
    qid = np.arange(40) // 4
    named, listed = LeaveOneGroupOut(), list(LeaveOneGroupOut().split(features, scores, qid))
    for cv in (named, listed):
        found = RankRLS([0.1, 1.0], gamma=0.3, cv=cv).fit(features, scores, qid=qid).path_.error
        np.testing.assert_allclose(found, RankRLS([0.1, 1.0], gamma=0.3).fit(features, scores, qid=qid).path_.error)
