"""Kernel widths are compared on the same folds, also where a splitter draws new ones whenever it is
asked.
"""

from functools import partial

import numpy as np
import pytest
from sklearn.model_selection import KFold

from corank import (
    KPCR,
    RLS,
    CoRankingPursuit,
    CoRankRLS,
    CoRLS,
    KPCRank,
    MatchingPursuit,
    RankingPursuit,
    RankRLS,
    TransductiveRankRLS,
)

pytestmark = pytest.mark.usefixtures("one_blas_thread")

rng = np.random.default_rng(4)
X = rng.normal(size=(24, 4))
Y = np.sin(X[:, 0]) + X[:, 2] + 0.1 * rng.normal(size=24)
HALF = np.where(np.arange(24) % 3 == 0, np.nan, Y)


class CountedFolds(KFold):
    """Folds without a seed: others every time."""

    def __init__(self, n_splits=4, *, shuffle=True, random_state=None):
        super().__init__(n_splits, shuffle=shuffle, random_state=random_state)
        self.asked = 0

    def split(self, X, y=None, groups=None):
        self.asked += 1
        return super().split(X, y)


WIDTHS = [0.1, 0.3, 1.0]
SINGLE = (RLS, RankRLS, KPCR, KPCRank, MatchingPursuit, RankingPursuit)


@pytest.mark.parametrize("learner", SINGLE)
@pytest.mark.parametrize("gamma", ["tune", WIDTHS], ids=["tune", "list"])
def test_a_splitter_is_asked_once_for_all_widths(learner, gamma):
    folds = CountedFolds()
    learner(gamma=gamma, cv=folds).fit(X, Y)
    assert folds.asked == 1


@pytest.mark.parametrize("learner", [CoRLS, CoRankRLS, partial(CoRankingPursuit, n_atoms=[1, 2])])
@pytest.mark.parametrize("gamma", ["tune", WIDTHS], ids=["tune", "list"])
def test_a_splitter_is_asked_once_for_all_widths_of_several_views(learner, gamma):
    folds = CountedFolds()
    learner(views=2, gamma=gamma, cv=folds, random_state=0).fit(X, HALF)
    assert folds.asked == 1


@pytest.mark.filterwarnings("ignore:alpha was set to")  # folds without a seed may cut every query
@pytest.mark.parametrize("gamma", ["tune", WIDTHS], ids=["tune", "list"])
def test_a_splitter_is_asked_once_for_all_widths_of_completed_scores(gamma):
    folds = CountedFolds()
    scores, queries = np.where(np.arange(24) < 6, np.nan, Y), np.arange(24) // 3
    TransductiveRankRLS(gamma=gamma, cv=folds).fit(X, scores, qid=queries)
    assert folds.asked == 1


@pytest.mark.parametrize("learner", [CoRLS, CoRankRLS])
def test_equal_widths_have_equal_errors(learner):
    """The same width given twice: any difference in error would come from the folds."""
    model = learner(2, gamma=[0.3, 0.3], cv=KFold(4, shuffle=True), random_state=0).fit(X, HALF)
    first, second = np.split(model.path_.error, 2)
    np.testing.assert_array_equal(first, second)
