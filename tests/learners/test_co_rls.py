"""CoRLS and CoRankRLS: what they are equal to, and what unscored rows do."""

import numpy as np
import pytest
from sklearn.base import clone

from corank import RLS, RankRLS
from corank.core.views import View, random_bases, random_split
from corank.datasets import make_two_views
from corank.learners.co_rls import CoRankRLS, CoRLS

pytestmark = pytest.mark.usefixtures("one_blas_thread")

RNG = np.random.default_rng(0)
N, M = 24, 15
X = RNG.normal(size=(N + M, 6))
TRUTH = X[:, 0] + np.sin(X[:, 3])
Y = np.where(np.arange(N + M) < N, TRUTH, np.nan)
QID = np.r_[np.repeat(np.arange(6), 4), np.repeat(np.arange(6, 9), 5)]
NEW = RNG.normal(size=(7, 6))
VIEWS = [View(slice(0, 3), gamma=0.2), View([3, 4, 5], gamma=0.3)]
both = pytest.mark.parametrize(
    "pair", [(CoRLS, RLS), (CoRankRLS, RankRLS)], ids=["regression", "ranking"]
)


@both
@pytest.mark.parametrize(
    "basis", ["all", "scored", np.arange(N + M)], ids=["all", "scored", "given"]
)
def test_without_agreement_every_view_is_a_learner_of_its_own(pair, basis):
    several, single = pair
    model = several(VIEWS, alpha=0.3, agreement=0.0, basis=basis).fit(X, Y, qid=QID)
    expected = [
        single(0.3, gamma=v.gamma).fit(X[:N, c], Y[:N], qid=QID[:N]).predict(NEW[:, c])
        for v, c in parts()
    ]
    np.testing.assert_allclose(model.predict_views(NEW), np.stack(expected, axis=1), atol=1e-8)
    np.testing.assert_allclose(model.predict(NEW), np.mean(expected, axis=0), atol=1e-8)


def parts():
    return [(VIEWS[0], [0, 1, 2]), (VIEWS[1], [3, 4, 5])]


@both
def test_one_view_is_the_single_learner_with_the_same_alpha_chosen(pair):
    several, single = pair
    with pytest.warns(UserWarning, match="only one view"):
        model = several([View(gamma=0.2)]).fit(X, Y, qid=QID)
    expected = single(gamma=0.2, scoring="squared" if single is RLS else "rescaled").fit(
        X, Y, qid=QID
    )
    assert model.alpha_ == pytest.approx(expected.alpha_)
    np.testing.assert_allclose(model.predict(NEW), expected.predict(NEW), atol=1e-8)


@both
def test_all_rows_as_basis_in_the_dual_equal_them_in_the_primal(pair):
    several, _ = pair
    dual, primal = (several(VIEWS, basis=b).fit(X, Y, qid=QID) for b in ("all", np.arange(N + M)))
    told = dual.path_.agreement < 1e8 * dual.path_.alpha  # the rest is lost to rounding
    np.testing.assert_allclose(dual.path_.error[told], primal.path_.error[told], rtol=1e-3)
    assert dual.alpha_ == pytest.approx(primal.alpha_)
    assert dual.agreement_ == pytest.approx(primal.agreement_)
    np.testing.assert_allclose(dual.predict(NEW), primal.predict(NEW), atol=1e-6)


@both
def test_unscored_rows_may_be_handed_over_apart(pair):
    several, _ = pair
    inside = several(VIEWS, alpha=0.3, agreement=0.5).fit(X, Y, qid=QID)
    apart = several(VIEWS, alpha=0.3, agreement=0.5).fit(
        X[:N], Y[:N], qid=QID[:N], unscored=X[N:], unscored_qid=[f"q{q}" for q in QID[N:]]
    )
    np.testing.assert_allclose(apart.predict(NEW), inside.predict(NEW), atol=1e-9)


def test_unscored_query_labels_that_clash_are_kept_apart():
    clash = CoRankRLS(VIEWS, 0.3, 0.5).fit(
        X[:N], Y[:N], qid=QID[:N], unscored=X[N:], unscored_qid=QID[N:] - 6
    )
    clear = CoRankRLS(VIEWS, 0.3, 0.5).fit(
        X[:N], Y[:N], qid=QID[:N], unscored=X[N:], unscored_qid=QID[N:]
    )
    np.testing.assert_allclose(clash.predict(NEW), clear.predict(NEW), atol=1e-12)


def test_views_may_have_scores_of_their_own():
    own = np.stack([Y, Y], axis=1)
    own[:8, 0] = np.nan
    model = CoRLS(VIEWS, alpha=0.3, agreement=0.0, fit_intercept=False).fit(X, own)
    first = RLS(0.3, gamma=0.2, fit_intercept=False).fit(X[8:N, :3], Y[8:N])
    np.testing.assert_allclose(model.predict_views(NEW)[:, 0], first.predict(NEW[:, :3]), atol=1e-9)
    assert np.isfinite(CoRLS(VIEWS).fit(X, own).path_.error).all()


def test_agreement_takes_most_of_the_error_off_two_views_with_private_structure():
    data = make_two_views(n_unscored=500, random_state=0)
    views = [View(columns, kernel="linear") for columns in data.views]

    def rmse(model):
        return np.sqrt(np.mean((model.predict(data.X_test) - data.y_test) ** 2))

    together = CoRLS(views, basis="features", fit_intercept=False).fit(data.X, data.y)
    alone = RLS(kernel="linear", basis="features", fit_intercept=False).fit(data.X, data.y)
    assert together.agreement_ > 0
    assert rmse(together) < 0.5 * rmse(alone)


@pytest.mark.parametrize("views", [2, random_split(3), random_bases(2)], ids=str)
def test_views_drawn_at_random_are_the_same_every_time(views):
    model = CoRankRLS(views, basis=10, random_state=3)
    first, second = (clone(model).fit(X, Y, qid=QID).predict(NEW) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_random_split_keeps_columns_of_one_attribute_together():
    views = random_split(2, attributes=[0, 0, 1, 1, 2, 2]).views(6, np.random.default_rng(0))
    assert sorted(np.concatenate([v.columns for v in views])) == list(range(6))
    assert all(len(v.columns) % 2 == 0 for v in views)


# ---- what once went wrong


def test_a_fit_that_is_refused_leaves_the_model_as_it_was():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 4)), np.where(np.arange(20) < 12, rng.normal(size=20), np.nan)
    model = CoRLS(alpha=0.1, agreement=0.1).fit(X, y)
    before = model.predict(X)
    model.set_params(random_state=1)
    with pytest.raises(ValueError, match="3 columns for 2 views"):
        model.fit(X, np.stack([y] * 3, axis=1))
    np.testing.assert_array_equal(model.predict(X), before)


def test_a_view_with_scores_in_a_single_query_has_a_summary():
    X, y = np.random.default_rng(0).normal(size=(24, 4)), np.full((24, 2), np.nan)
    y[:12, 0], y[12:14, 1] = X[:12, 0], X[12:14, 0]
    assert "CoRLS" in str(CoRLS().fit(X, y, qid=np.repeat(np.arange(6), 4)).summary())


@pytest.mark.parametrize("n", [11, 19, 29])
def test_rows_that_are_all_alike_are_fitted(n):
    model = RankRLS().fit(np.ones((n, 2)), np.arange(float(n)))
    assert np.ptp(model.predict(np.ones((2, 2)))) == 0


def test_what_is_wrong_is_named():
    X, y = (
        np.random.default_rng(0).normal(size=(20, 4)),
        np.where(np.arange(20) < 12, 1.0 * np.arange(20), np.nan),
    )
    with pytest.raises(ValueError, match="basis must be 1 or more, got 0"):
        RankRLS(basis=0).fit(X, y)
    with pytest.raises(
        ValueError, match="sample_weight leaves no scored row: all of them have weight zero"
    ):
        CoRLS().fit(X, y, sample_weight=(np.arange(20) >= 12) * 1.0)
    with pytest.raises(ValueError, match="unscored_qid has 1 labels but unscored has 12 rows"):
        CoRankRLS().fit(X, y, qid=np.arange(20) // 4, unscored=X[:12], unscored_qid=[1])
    with pytest.raises((TypeError, ValueError), match="views"):
        CoRLS(views=np.array([1, 2])).fit(X, y)


@pytest.mark.parametrize("learner", [RLS(), RankRLS()], ids=lambda learner: type(learner).__name__)
def test_learners_with_one_view_say_that_unscored_rows_play_no_part(learner):
    X = np.linspace(0, 1, 8)[:, None]
    learner.fit(X, X[:, 0])
    assert not hasattr(learner, "unscored_effect_")
    with pytest.raises(AttributeError, match="one view"):
        _ = learner.unscored_effect_
