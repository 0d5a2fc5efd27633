"""scikit-learn's own checks, for every learner, and how learners go with its pipelines and
searches.
"""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_regressor
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from corank import (
    KPCR,
    RLS,
    AutoRanker,
    AutoRegressor,
    Candidate,
    CoRankingPursuit,
    CoRankRLS,
    CoRLS,
    DifferenceGP,
    KPCRank,
    MatchingPursuit,
    PreferenceGP,
    RankingPursuit,
    RankRLS,
    TransductiveRankRLS,
    View,
    random_bases,
    random_split,
)
from corank.core.registry import learner_records
from corank.datasets import make_ranking

pytestmark = pytest.mark.usefixtures("one_blas_thread")

ROWS_DRAWN = (
    "a number of basis rows is drawn by row number, and repeating rows changes those numbers"
)
SCORES_REPEATED = (
    "repeated scores show how much noise there is, and noise is learned; a weight only divides it"
)
ROWS_HELD_OUT = (
    "chosen by held-out rows: copies of a row stand on both sides, and no cv= keeps them together"
)


def allowed_failures(estimator):
    reason = ROWS_DRAWN if isinstance(estimator.get_params().get("basis"), int) else None
    if isinstance(estimator, AutoRanker | AutoRegressor):
        reason = ROWS_HELD_OUT
    learns_noise = isinstance(estimator, DifferenceGP) and estimator.noise == "tune"
    if learns_noise or estimator.get_params().get("gamma") == "columns":
        reason = SCORES_REPEATED
    checks = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    return {} if reason is None else dict.fromkeys(checks, reason)


FEW_CANDIDATES = [Candidate(kernel="linear"), Candidate(width=2.0)]
EVERY_CLASS = [
    RLS(),
    RankRLS(),
    CoRLS(),
    CoRankRLS(),
    KPCR(),
    KPCRank(),
    MatchingPursuit(),
    RankingPursuit(),
    CoRankingPursuit(n_atoms=2, agreement=1.0),
    TransductiveRankRLS(),
    PreferenceGP(1.0, "scale", 3, max_pairs=100),
    DifferenceGP(),
    AutoRegressor(candidates=FEW_CANDIDATES),
    AutoRanker(candidates=FEW_CANDIDATES),
]
OTHER_SETTINGS = [
    RLS(alpha=1.0),
    RLS(kernel="linear", basis="features"),
    RLS(kernel="laplacian", gamma="columns"),
    RankRLS(gamma="columns"),
    RankRLS(kernel="exponential"),
    RankRLS(alpha=1.0),
    RankRLS(basis=3),
    RankRLS(beta=0.5),
    CoRLS(alpha=1.0, agreement=1.0),
    CoRLS(kernel="linear", basis=5),
    CoRLS(kernel="linear", basis="features"),
    CoRLS(basis="all", solver="coordinate"),
    CoRankRLS(alpha=1.0, agreement=1.0),
    CoRankRLS(basis=3),
    CoRankRLS(kernel="linear", basis="features"),
    CoRankRLS(basis="all", solver="coordinate"),
    KPCR(n_components=2),
    KPCR(basis=3),
    KPCRank(n_components=2),
    KPCRank(kernel="linear", basis="features"),
    MatchingPursuit(3),
    MatchingPursuit(30, "basic"),
    MatchingPursuit(2, dictionary="features", kernel="linear"),
    RankingPursuit(3, "pre"),
    RankingPursuit(3, "final", beta=0.5),
    CoRankingPursuit(n_atoms=[1, 3], refit="final"),
    TransductiveRankRLS(alpha=1.0, weighting="size"),
    TransductiveRankRLS(basis=3),
    PreferenceGP(max_pairs=100),
    DifferenceGP(1.0, "scale", 0.1),
    DifferenceGP(basis=3),
    AutoRegressor(),
    AutoRanker(),
]
ignored_warnings = pytest.mark.filterwarnings(
    "ignore:y has no unscored row and unscored= was not given:UserWarning",
    "ignore:(gamma|amplitude) was tuned to the end of its range:UserWarning",
    "ignore:the comparisons fall into .* parts:UserWarning",
)


@ignored_warnings
@parametrize_with_checks(EVERY_CLASS, expected_failed_checks=allowed_failures)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.slow
@ignored_warnings
@parametrize_with_checks(OTHER_SETTINGS, expected_failed_checks=allowed_failures)
def test_scikit_learn_contract_of_other_settings(estimator, check):
    check(estimator)


def test_every_public_learner_is_checked():
    assert {type(estimator).__name__ for estimator in EVERY_CLASS} == {
        record.name for record in learner_records()
    }


# ---- pipelines, searches, metadata

rng = np.random.default_rng(8)
N = 48
X = rng.standard_normal((N, 4)) * [1, 10, 0.1, 5] + 3
Y = (X[:, 0] - 3) + (X[:, 1] - 3) / 10 + 0.1 * rng.standard_normal(N)
Y[::4] = np.nan
GROUPS = np.repeat(np.arange(12), 4)
UNSCORED = rng.standard_normal((15, 4)) * [1, 10, 0.1, 5] + 3
UNSCORED_QID = np.repeat([0, 1, 2], 5)
VIEWS = [View([0, 2], name="left"), View([1, 3], kernel="linear", penalty=2.0)]
LEARNERS = {
    "CoRLS": CoRLS(VIEWS),
    "CoRankRLS": CoRankRLS(VIEWS, basis=10),
    "AutoRegressor": AutoRegressor(VIEWS, FEW_CANDIDATES),
    "AutoRanker": AutoRanker(VIEWS, FEW_CANDIDATES),
}
learners = pytest.mark.parametrize("learner", LEARNERS)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_rankers_are_no_regressors():
    assert [is_regressor(learner) for learner in LEARNERS.values()] == [True, False, True, False]


@learners
def test_groups_feed_splitter_fit_and_score(learner, routing, monkeypatch):
    model, seen = LEARNERS[learner], []
    fit, score = type(model).fit, type(model).score

    def watched_fit(self, X, y, *, qid=None, sample_weight=None, unscored=None, unscored_qid=None):
        seen.append(("fit", set(qid)))
        return fit(
            self,
            X,
            y,
            qid=qid,
            sample_weight=sample_weight,
            unscored=unscored,
            unscored_qid=unscored_qid,
        )

    def watched_score(self, X, y, *, qid=None, sample_weight=None):
        seen.append(("score", set(qid)))
        return score(self, X, y, qid=qid, sample_weight=sample_weight)

    monkeypatch.setattr(type(model), "fit", watched_fit)
    monkeypatch.setattr(type(model), "score", watched_score)
    scores = cross_val_score(model, X, Y, cv=GroupKFold(3), params={"groups": GROUPS})
    assert np.all(scores > 0.2)
    for (first, train), (second, test) in zip(seen[::2], seen[1::2], strict=True):
        assert (first, second) == ("fit", "score")
        assert train | test == set(GROUPS)
        assert not train & test


def test_a_search_over_a_pipeline_with_groups(routing):
    pipeline = make_pipeline(StandardScaler(), CoRankRLS(basis=8))
    grid = {"corankrls__views": [2, VIEWS, random_bases(2)], "corankrls__agreement": [0.0, 1.0]}
    search = GridSearchCV(pipeline, grid, cv=GroupKFold(3)).fit(X, Y, groups=GROUPS)
    assert search.best_score_ > 0.7
    assert search.best_estimator_[-1]._with_queries
    assert len(search.cv_results_["params"]) == 6


@learners
def test_pipelines_transform_unscored_rows_too(learner, routing):
    model = LEARNERS[learner]
    pipeline = Pipeline(
        [("scale", StandardScaler()), ("learn", clone(model))], transform_input=["unscored"]
    )
    pipeline.fit(X, Y, groups=GROUPS, unscored=UNSCORED, unscored_qid=UNSCORED_QID)
    scaler = StandardScaler().fit(X)
    expected = clone(model).fit(
        scaler.transform(X),
        Y,
        qid=GROUPS,
        unscored=scaler.transform(UNSCORED),
        unscored_qid=UNSCORED_QID,
    )
    np.testing.assert_array_equal(pipeline.predict(X), expected.predict(scaler.transform(X)))


@pytest.mark.parametrize(
    "learner",
    [
        CoRLS,
        CoRankRLS,
        *(pytest.param(slow, marks=pytest.mark.slow) for slow in (AutoRegressor, AutoRanker)),
    ],
)
@pytest.mark.parametrize(
    "views",
    [
        3,
        VIEWS,
        tuple(VIEWS),
        [View(np.array([3, 2])), View(slice(0, 2))],
        random_split(2),
        random_bases(3),
    ],
    ids=["a number", "a list", "a tuple", "arrays", "a split", "bases"],
)
def test_views_are_parameters_like_others(learner, views):
    model = learner(views)
    assert model.get_params()["views"] is views
    copy = clone(model)
    assert type(copy.views) is type(views)
    assert repr(copy) == repr(model)
    assert learner().set_params(views=views).views is views
    copy.fit(X, Y)
    if not isinstance(views, int | random_split | random_bases):
        assert all(own is not view for own, view in zip(copy.views, views, strict=True))
    np.testing.assert_array_equal(copy.predict(X), clone(copy).fit(X, Y).predict(X))


@pytest.mark.parametrize(
    ("model", "pairwise"),
    [
        (RLS(), False),
        (RankRLS(kernel="precomputed"), True),
        (CoRLS(1, kernel="precomputed"), True),
        (CoRLS(2, kernel="precomputed"), False),
        (CoRankRLS([View(kernel="precomputed")]), True),
        (CoRankRLS([View(kernel="precomputed")] * 2), False),
        (CoRankRLS([View([0, 1], kernel="precomputed")]), False),
        (CoRankRLS([View()], kernel="precomputed"), False),
        (CoRankRLS(random_split(1), kernel="rbf"), False),
    ],
)
def test_one_square_matrix_is_pairwise(model, pairwise):
    assert get_tags(model).input_tags.pairwise is pairwise


def test_a_single_precomputed_view_is_split_both_ways():
    K = (X - X.mean(axis=0)) @ (X - X.mean(axis=0)).T
    single = cross_val_score(RLS(0.1, kernel="precomputed"), K, np.nan_to_num(Y), cv=3)
    several = cross_val_score(CoRLS(1, 0.1, 0.0, kernel="precomputed"), K, np.nan_to_num(Y), cv=3)
    np.testing.assert_allclose(several, single, rtol=1e-6)


# ---- what a user should know


@pytest.mark.parametrize("learner", [RankRLS(), KPCRank(), CoRankRLS()])
def test_columns_of_very_different_scales_are_said_where_they_matter(learner):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 4)), rng.normal(size=40)
    y[30:] = np.nan
    learner.fit(X, y)  # in silence
    X = X * [1, 1, 1e4, 1]
    if isinstance(learner, CoRankRLS):  # every view has a width of its own
        learner.fit(X, y)
        return
    with pytest.warns(UserWarning, match="StandardScaler"):
        learner.fit(X, y)


@pytest.mark.parametrize("search", ["cross_val_score", "GridSearchCV"])
def test_groups_that_do_not_reach_the_ranker_are_said(search):
    data = make_ranking(n_queries=12, query_size=6, random_state=0)
    model, folds = RankRLS(1.0, gamma="scale"), GroupKFold(3)

    def run(**params):
        if search == "cross_val_score":
            return cross_val_score(model, data.X, data.y, cv=folds, **params)
        given = params.get("params", params)
        return GridSearchCV(model, {"alpha": [1.0]}, cv=folds, refit=False).fit(
            data.X, data.y, **given
        )

    with pytest.warns(UserWarning, match="does not reach the ranker"):
        run(groups=data.qid)
    with sklearn.config_context(enable_metadata_routing=True):
        run(params={"groups": data.qid})  # in silence
    cross_val_score(model, data.X, data.y, cv=3)  # in silence: no groups
