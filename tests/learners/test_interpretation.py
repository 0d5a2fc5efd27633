"""What a model says beyond its scores: how sure the ranks are, and which columns matter."""

import numpy as np
import pytest

from corank import (
    AutoRanker,
    AutoRegressor,
    DifferenceGP,
    RankRLS,
    column_effects,
    rank_uncertainty,
)
from corank.datasets import make_ranking


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=12, query_size=8, n_features=4, noise=0.5, random_state=0)


@pytest.mark.parametrize(
    "learner", [AutoRanker(), DifferenceGP(amplitude=1.0, gamma=0.2, noise=0.3)]
)
def test_chances_to_be_the_best_add_up_in_every_query(data, learner):
    model = learner.fit(data.X, data.y, qid=data.qid)
    sure = rank_uncertainty(model, data.X, qid=data.qid)
    scores = model.predict(data.X, **({"qid": data.qid} if isinstance(model, AutoRanker) else {}))
    for query in np.unique(data.qid):
        rows = np.flatnonzero(data.qid == query)
        assert sure.best[rows].sum() == pytest.approx(1)
        assert (
            (sure.low[rows] >= 1)
            & (sure.low[rows] <= sure.high[rows])
            & (sure.high[rows] <= len(rows))
        ).all()
        ranks = np.argsort(np.argsort(-scores[rows])) + 1
        assert ((sure.low[rows] <= ranks) & (ranks <= sure.high[rows])).all()


def test_ranks_are_less_sure_with_fewer_scores(data):
    few = np.where(np.arange(len(data.y)) < 24, data.y, np.nan)
    widths = []
    for y in (data.y, few):
        sure = rank_uncertainty(AutoRegressor().fit(data.X, y), data.X)
        widths.append((sure.high - sure.low).mean())
    assert widths[0] < widths[1]


def test_a_query_that_is_too_large_has_no_chances(data, monkeypatch):
    monkeypatch.setattr("corank.interpretation.MAX_UNCERTAIN_ROWS", 8)
    model = AutoRegressor().fit(data.X, data.y)
    assert np.isnan(rank_uncertainty(model, data.X).best).all()
    assert not np.isnan(rank_uncertainty(model, data.X, qid=data.qid).best).any()


def test_a_model_that_is_never_unsure_is_refused(data):
    with pytest.raises(TypeError, match="RankRLS"):
        rank_uncertainty(RankRLS(1.0).fit(data.X, data.y, qid=data.qid), data.X)


@pytest.mark.parametrize("learner", [AutoRegressor(), AutoRanker(), RankRLS(1.0, gamma="scale")])
def test_the_columns_that_matter_come_first(learner):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    y = 2 * X[:, 1] - X[:, 3] + 0.1 * rng.normal(size=80)
    y[70:] = np.nan
    effects = column_effects(learner.fit(X, y), X, y)
    assert [effect.column for effect in effects[:2]] == ["1", "3"]
    assert effects[1].increase > 3 * effects[1].standard_error > 0
    assert np.all(np.diff(effects[0].effects) > 0)
    assert np.all(np.diff(effects[1].effects) < 0)
    assert (effects[0].deviations is None) == isinstance(learner, RankRLS)


def test_whole_queries_are_held_out(data):
    effects = column_effects(
        RankRLS(1.0).fit(data.X, data.y, qid=data.qid), data.X, data.y, qid=data.qid
    )
    assert effects[0].increase > effects[0].standard_error > 0
    with pytest.raises(ValueError, match="y has 3 scored rows"):
        column_effects(
            RankRLS(1.0).fit(data.X, data.y),
            data.X,
            np.where(np.arange(len(data.y)) < 3, data.y, np.nan),
        )


def test_only_the_columns_that_matter_most_are_looked_at_value_by_value():
    X = np.random.default_rng(0).normal(size=(60, 30))
    effects = column_effects(AutoRegressor().fit(X, X[:, 3]), X, X[:, 3])
    assert effects[0].column == "3"
    assert len(effects) == 30
    assert [bool(effect.values) for effect in effects] == [True] * 20 + [False] * 10
