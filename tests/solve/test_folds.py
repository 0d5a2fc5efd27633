"""Which folds a learner takes when none are given, and what a splitter is shown when one is."""

import warnings

import numpy as np
import pytest
from brute_force import Loss, held_out, kernel, leave_groups_out, small_problem
from sklearn.model_selection import KFold, LeaveOneGroupOut

from corank import RLS, RankRLS
from corank.core.folds import N_FOLDS, default_folding
from corank.core.loss import Pointwise, WithinQueries
from corank.core.observations import ScoredRows
from corank.core.sampling import fold_numbers, uniform_draws
from corank.solve.tuning import best_position

PROBLEM = small_problem(seed=11, sizes=(1, 4, 7, 3, 5, 4))
X, Y, QID = PROBLEM.X, PROBLEM.y, PROBLEM.qid
N = len(Y)
ALPHAS = [0.01, 1.0, 30.0]


def default_folds(n, loss, queries=None, seed=0, n_features=None, scores=None):
    """The fold of every row under the default hold-out."""
    n_queries = 1 if queries is None else int(queries.max()) + 1
    scores = np.arange(n) % 5 / 4 if scores is None else scores
    problem = ScoredRows(np.zeros((n, 1)), scores, queries, n_queries, None, np.arange(n), loss)
    groups = None if problem.groups is None else [problem.groups]
    folding = default_folding([problem], groups, seed, n_features=n_features)
    return None if folding is None else folding.codes[0]


@pytest.mark.parametrize("n", [4, 5, 13, 20, 57])
def test_folds_of_items_are_balanced_and_seeded(n):
    folds, again, other = (default_folds(n, WithinQueries(), seed=seed) for seed in (0, 0, 1))
    sizes = np.bincount(folds)
    assert len(sizes) == min(N_FOLDS, n // 2)
    assert sizes.min() >= 2
    assert sizes.max() - sizes.min() <= 1
    np.testing.assert_array_equal(folds, again)
    assert n < 13 or np.any(folds != other)


def test_every_fold_of_items_has_low_and_high_scores():
    scores = np.repeat([0.0, 1.0], 30)
    folds = default_folds(60, WithinQueries(), scores=scores)
    assert all(np.ptp(scores[folds == fold]) == 1 for fold in range(N_FOLDS))


def test_queries_are_left_out_one_by_one_or_in_ten_folds():
    queries = np.asarray([0, 1, 2, 0, 3, 3, 1] * 5 + list(range(4, 34)))
    n = len(queries)
    for n_features in (None, 5):  # 65 rows are few
        np.testing.assert_array_equal(
            default_folds(n, WithinQueries(), queries, n_features=n_features), queries
        )
    folds = default_folds(n, WithinQueries(), queries, n_features=0)
    assert len(np.unique(folds)) == N_FOLDS
    assert all(len(np.unique(folds[queries == query])) == 1 for query in range(34))


@pytest.mark.parametrize(
    ("n", "size", "n_features", "one_by_one"),
    [
        (500, 1, 1, True),  # few rows
        (600, 1, 10, False),  # more than 40 rows per feature
        (600, 1, 20, True),
        (600, 30, 20, False),  # queries larger than the number of features
        (600, 20, 20, True),
        (600, 30, 600, True),  # no more rows than features
        (40_000, 1, 1_000, False),  # too many numbers to hold
    ],
)
def test_the_limits_of_leaving_one_out(n, size, n_features, one_by_one):
    queries = np.arange(n) // size
    folds = default_folds(n, WithinQueries(), queries, n_features=n_features)
    assert len(np.unique(folds)) == (int(queries.max()) + 1 if one_by_one else N_FOLDS)


def test_fold_numbers_do_not_depend_on_where_they_begin():
    whole = fold_numbers(0, 200_000, 10, 3)
    for begin, count in ((0, 7), (81_915, 10), (81_920, 5), (123, 100_000), (199_999, 1), (5, 0)):
        np.testing.assert_array_equal(
            fold_numbers(begin, count, 10, 3), whole[begin : begin + count]
        )
    assert all(len(np.unique(run)) == 10 for run in whole.reshape(-1, 10)[::997])


def test_luck_belongs_to_row_numbers():
    numbers = np.sort(np.random.default_rng(0).choice(300_000, 1_000, replace=False))
    np.testing.assert_array_equal(
        uniform_draws(numbers, 1), uniform_draws(np.arange(300_000), 1)[numbers]
    )
    assert uniform_draws(numbers[:0], 1).shape == (0,)


def test_too_little_to_hold_out_has_no_folds():
    assert default_folds(3, WithinQueries()) is None
    assert default_folds(1, Pointwise()) is None


@pytest.mark.parametrize("form", ["dual", "primal"])
def test_default_folds_of_items_are_what_is_held_out(form):
    folds = default_folds(N, WithinQueries(), scores=Y)
    found = (
        RankRLS(ALPHAS, "all" if form == "dual" else np.arange(N), gamma=0.4).fit(X, Y).path_.error
    )
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


def test_leaving_one_out_by_name_is_leaving_one_out():
    rng = np.random.default_rng(0)
    features, scores = rng.normal(size=(40, 3)), rng.normal(size=40)
    qid = np.arange(40) // 4
    named, listed = LeaveOneGroupOut(), list(LeaveOneGroupOut().split(features, scores, qid))
    for cv in (named, listed):
        found = RankRLS([0.1, 1.0], gamma=0.3, cv=cv).fit(features, scores, qid=qid).path_.error
        np.testing.assert_allclose(
            found, RankRLS([0.1, 1.0], gamma=0.3).fit(features, scores, qid=qid).path_.error
        )
