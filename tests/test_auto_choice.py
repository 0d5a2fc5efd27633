"""Ranking inside scikit-learn's searches: one `groups` feeds the splitter, fit and score."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from corank import RLS, RankRLS
from corank.datasets import make_ranking
from corank.metrics import disagreement_error, scorer


@pytest.fixture
def data():
    return make_ranking(n_queries=12, query_size=8, n_features=4, random_state=0)


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def test_cross_validate_feeds_groups_to_splitter_fit_and_score(data, routing):
    model = make_pipeline(StandardScaler(), RankRLS(alpha=1.0))
    result = cross_validate(model, data.X, data.y, cv=GroupKFold(3), params={"groups": data.qid}, error_score="raise")
    expected = []
    for train, test in GroupKFold(3).split(data.X, data.y, data.qid):
        scaler = StandardScaler().fit(data.X[train])
        own = RankRLS(alpha=1.0).fit(scaler.transform(data.X[train]), data.y[train], qid=data.qid[train])
        predicted = own.predict(scaler.transform(data.X[test]))
        expected.append(1 - disagreement_error(data.y[test], predicted, qid=data.qid[test]))
    np.testing.assert_allclose(result["test_score"], expected)


def test_grid_search_over_a_pipeline_ranks_within_queries(data, routing):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), RankRLS()),
        {"rankrls__gamma": [0.01, 0.1], "rankrls__weighting": ["size", "unit"]},
        cv=GroupKFold(3),
        error_score="raise",
    ).fit(data.X, data.y, groups=data.qid)
    assert search.best_score_ > 0.6
    assert search.best_estimator_[-1]._with_queries


def test_search_with_a_scorer_that_carries_queries(data, routing):
    search = GridSearchCV(
        RankRLS(), {"alpha": [0.1, 10.0]}, scoring=scorer("disagreement"), cv=GroupKFold(3), error_score="raise"
    ).fit(data.X, data.y, groups=data.qid)
    assert -0.5 < search.best_score_ < 0


def test_sample_weight_reaches_fit_and_score_in_a_pipeline(data, routing):
    weights = np.random.default_rng(0).uniform(0.5, 2, len(data.y))
    learner = RankRLS(alpha=1.0).set_fit_request(qid="groups", sample_weight=True)
    result = cross_validate(
        make_pipeline(StandardScaler().set_fit_request(sample_weight=False), learner),
        data.X,
        data.y,
        cv=GroupKFold(3),
        params={"groups": data.qid, "sample_weight": weights},
        error_score="raise",
    )
    train, test = next(iter(GroupKFold(3).split(data.X, data.y, data.qid)))
    scaler = StandardScaler().fit(data.X[train])
    own = RankRLS(alpha=1.0).fit(
        scaler.transform(data.X[train]), data.y[train], qid=data.qid[train], sample_weight=weights[train]
    )
    expected = own.score(scaler.transform(data.X[test]), data.y[test], qid=data.qid[test], sample_weight=weights[test])
    np.testing.assert_allclose(result["test_score"][0], expected)


def test_a_regressor_runs_through_the_same_search(data, routing):
    result = cross_validate(RLS(), data.X, data.y, cv=GroupKFold(3), params={"groups": data.qid}, error_score="raise")
    assert np.all(np.isfinite(result["test_score"]))


def test_unscored_rows_pass_through_cross_validation(data, routing):
    y = data.y.copy()
    y[::5] = np.nan
    result = cross_validate(RankRLS(), data.X, y, cv=GroupKFold(3), params={"groups": data.qid}, error_score="raise")
    assert np.all(result["test_score"] > 0.5)


def test_scoring_without_queries_a_model_fitted_with_them_warns(data):
    model = RankRLS(alpha=1.0).fit(data.X, data.y, qid=data.qid)
    with pytest.warns(UserWarning, match="fitted with qid but is scored without"):
        model.score(data.X, data.y)


def test_cross_val_predict_gives_one_score_a_row(data, routing):
    predicted = cross_val_predict(RankRLS(alpha=1.0), data.X, data.y, cv=GroupKFold(3), params={"groups": data.qid})
    assert predicted.shape == data.y.shape
