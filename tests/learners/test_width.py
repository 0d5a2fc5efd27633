"""gamma="auto", the default of RLS and RankRLS: the width is tuned where scored rows are few and
alpha is tuned.
"""

import numpy as np
import pytest

from corank import RLS, CoRLS, RankRLS
from corank.learners import rls

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 3))
Y = X[:, 0] + np.sin(X[:, 1])
QID = np.arange(40) // 5


@pytest.mark.parametrize("learner", [RLS, RankRLS])
def test_auto_tunes_few_scored_rows(learner, monkeypatch):
    few = learner().fit(X, Y, qid=QID)
    tuned = learner(gamma="tune").fit(X, Y, qid=QID)
    np.testing.assert_array_equal(few.path_.error, tuned.path_.error)
    assert few.gamma_ == tuned.gamma_
    assert "tune, the best of 7" in few.summary().facts["kernel"]
    monkeypatch.setattr(rls, "MAX_ROWS_WITH_WIDTHS", 39)
    many = learner().fit(X, Y, qid=QID)
    np.testing.assert_array_equal(
        many.path_.error, learner(gamma="scale").fit(X, Y, qid=QID).path_.error
    )
    assert "(scale)" in many.summary().facts["kernel"]


def test_auto_leaves_the_width_alone_where_alpha_is_given():
    assert RLS(alpha=1.0).fit(X, Y).gamma_ == RLS(alpha=1.0, gamma="scale").fit(X, Y).gamma_
    assert RLS(alpha=1.0).fit(X, Y).path_ is None


def test_auto_counts_comparisons(monkeypatch):
    winners, losers = np.arange(1, 40), np.zeros(39, dtype=int)
    monkeypatch.setattr(rls, "MAX_ROWS_WITH_WIDTHS", 39)
    assert len(np.unique(RankRLS().fit_comparisons(X, winners, losers).path_.gamma)) == 7
    monkeypatch.setattr(rls, "MAX_ROWS_WITH_WIDTHS", 38)
    assert len(np.unique(RankRLS().fit_comparisons(X, winners, losers).path_.gamma)) == 1


def test_learners_with_views_have_no_auto():
    with pytest.raises(ValueError, match="gamma 'auto' is not known"):
        CoRLS(gamma="auto").fit(X, Y)
