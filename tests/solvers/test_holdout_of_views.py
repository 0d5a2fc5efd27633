"""Held-out errors of every pair of alpha and agreement, each way of finding them, against literal refitting."""

import warnings
from functools import cache

import numpy as np
import pytest
from brute_force import REGRESSION, Loss
from brute_force.views import (
    Look,
    choose,
    fold_errors,
    item_folds,
    leave_comparisons_out,
    leave_out_of_views,
    mean_error,
    rbf,
    small_views,
)
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, LeaveOneOut, PredefinedSplit, ShuffleSplit

from corank import CoRankRLS, CoRLS, View
from corank.solvers import holdout
from corank.solvers.folds import balanced_folds
from corank.solvers.least_squares import DualAgreement, PrimalAgreement

pytestmark = [
    pytest.mark.usefixtures("one_blas_thread"),
    pytest.mark.filterwarnings("ignore:The groups parameter is ignored"),  # see test_folds.py
]
P = small_views()
SCORED, N = P.scored, len(P.scored)
GAMMAS, PENALTIES = [2.0, 1.5, 3.0], [1.0, 2.0, 0.5]
BASIS = np.asarray([1, 4, 5, 9, 12, 20, 25, 2])
ALPHAS, AGREEMENTS = [0.05, 1.0], [0.0, 0.3, 3.0]
PAIRS = [(alpha, agreement) for agreement in AGREEMENTS for alpha in ALPHAS]
LOSSES = [REGRESSION, Loss("size"), Loss("unit"), Loss("query"), Loss("unit", 0.3)]
SCORINGS = {"squared": "loss", "rescaled": "rescaled", "disagreement": "disagreement"}
WAYS = {"kernel": "left_out", "inverse": "_left_out_by_agreement", "sums": "fold_sums"}

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
every_basis = pytest.mark.parametrize("basis", ["all", "subset"])
every_way = pytest.mark.parametrize("way", WAYS)
every_scoring = pytest.mark.parametrize("scoring", SCORINGS)
weighted_or_not = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])


@pytest.fixture
def take_way(monkeypatch):
    """`take_way(way)` makes every fit after it find its errors that way; the list tells which ones were taken."""

    def take(way):
        taken = []

        def watched(name, original):
            def call(*args, **kwargs):
                taken.append(name)
                return original(*args, **kwargs)

            return call

        for form in (PrimalAgreement, DualAgreement):
            monkeypatch.setattr(form, "few", property(lambda self: way == "kernel"))
        monkeypatch.setattr(holdout, "MANY_UNITS", 0 if way == "sums" else 10**9)
        for name, function in {**WAYS, "refit": "refitted"}.items():
            monkeypatch.setattr(holdout, function, watched(name, getattr(holdout, function)))
        monkeypatch.setattr("corank.solvers.tuning.refitted", holdout.refitted_views)
        return taken

    return take


def learner(loss, basis, n_views=2, intercept=True, **options):
    views = [View(slice(2 * v, 2 * v + 2), gamma=GAMMAS[v], penalty=PENALTIES[v]) for v in range(n_views)]
    rows = BASIS if basis == "subset" else basis
    agreements = AGREEMENTS if n_views > 1 else 0.0
    if loss is REGRESSION:
        return CoRLS(views, ALPHAS, agreements, rows, fit_intercept=intercept, **options)
    return CoRankRLS(views, ALPHAS, agreements, rows, loss.weighting, loss.beta, **options)


def looks(basis, n_views=2):
    points = P.X[BASIS] if basis == "subset" else P.X
    return [Look(slice(2 * v, 2 * v + 2), rbf(GAMMAS[v]), points, PENALTIES[v]) for v in range(n_views)]


def splits_of(groups, rows=SCORED):
    """(train, test) rows of X for groups of those rows; −1 is never left out."""
    groups = np.asarray(groups)
    return [(rows[groups != g], rows[groups == g]) for g in np.unique(groups[groups >= 0])]


def own_splits(loss, with_queries, way, rows=SCORED, y=P.y):
    """What the learners leave out: queries, rows one by one, or items of the only query in folds."""
    if with_queries:
        return splits_of(P.qid[rows], rows)
    n = len(rows)
    if loss.beta == 1:
        merged = way == "sums"  # at most ten folds are summed
        return splits_of(balanced_folds(n, 10, np.random.default_rng(0)) if merged else np.arange(n), rows)
    return splits_of(item_folds(y[rows]), rows)


@cache
def literal(loss, basis, with_queries, weighted, merged=False, n_views=2, own=False, intercept=True):
    return leave_out_of_views(
        looks(basis, n_views),
        P.X,
        P.own_scores[:, :n_views] if own else P.y,
        own_splits(loss, with_queries, "sums" if merged else "", y=P.own_scores[:, :n_views] if own else P.y),
        PAIRS if n_views > 1 else [(alpha, 0.0) for alpha in ALPHAS],
        loss,
        qid=P.qid if with_queries else None,
        weights=P.weights if weighted else None,
        intercept=loss is REGRESSION and intercept,
    )


def check(model, parts, scoring, *, with_queries, weighted=False, y=P.y):
    model.set_params(scoring=scoring)
    model.fit(P.X, y, qid=P.qid if with_queries else None, sample_weight=P.weights if weighted else None)
    expected = mean_error(parts, SCORINGS[scoring])
    np.testing.assert_allclose(model.path_.error, expected, rtol=1e-6)
    assert (model.alpha_, model.agreement_) == (
        model.path_.alpha[model.path_.best],
        model.path_.agreement[model.path_.best],
    )
    pairs = list(zip(model.path_.alpha, model.path_.agreement, strict=True))
    chosen = choose(*fold_errors(parts, SCORINGS[scoring]), pairs, scoring, sorted(set(model.path_.agreement)))
    assert expected[model.path_.best] == pytest.approx(expected[chosen], rel=1e-6)


# ------------------------------------------------------------------ queries, rows, items


@every_loss
@every_basis
@every_way
@weighted_or_not
def test_leave_query_out_equals_refitting(take_way, loss, basis, way, weighted):
    if weighted and loss.weighting == "query":
        pytest.skip("refuses weights")
    for scoring in SCORINGS:
        if way == "sums" and basis == "subset" and scoring == "disagreement":
            continue  # refused: see below
        taken = take_way(way)
        check(learner(loss, basis), literal(loss, basis, True, weighted), scoring, with_queries=True, weighted=weighted)
        assert taken == [way if basis == "subset" or way == "kernel" else "inverse"]


@every_basis
@every_way
@weighted_or_not
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("scoring", ["squared", "rescaled"])
def test_leave_one_out_equals_refitting(take_way, basis, way, weighted, intercept, scoring):
    taken = take_way(way)
    merged = way == "sums" and basis == "subset"
    parts = literal(REGRESSION, basis, False, weighted, merged=merged, intercept=intercept)
    check(learner(REGRESSION, basis, intercept=intercept), parts, scoring, with_queries=False, weighted=weighted)
    assert taken == [way if basis == "subset" or way == "kernel" else "inverse"]


@pytest.mark.parametrize("loss", [Loss("size"), Loss("unit"), Loss("query")], ids=str)
@every_basis
@every_way
@weighted_or_not
def test_items_of_the_one_nameless_query_equal_refitting(take_way, loss, basis, way, weighted):
    if weighted and loss.weighting == "query":
        pytest.skip("refuses weights")
    for scoring in SCORINGS:
        if way == "sums" and basis == "subset" and scoring == "disagreement":
            continue
        taken = take_way(way)
        parts = literal(loss, basis, False, weighted)
        check(learner(loss, basis), parts, scoring, with_queries=False, weighted=weighted)
        # what the rest of the query weighs changes: no one decomposition a pair of parameters serves all folds
        if loss.weighting != "size" and way == "inverse":
            expected = "kernel" if basis == "all" or scoring == "disagreement" else "sums"
        elif loss.weighting != "size" and basis == "all":
            expected = "kernel"
        else:
            expected = way if basis == "subset" or way == "kernel" else "inverse"
        assert taken == [expected]


@every_basis
@every_scoring
def test_a_blend_of_items_is_refitted(take_way, basis, scoring):
    loss, weighted = Loss("unit", 0.3), basis == "subset"
    for way in ("kernel", "inverse"):
        taken = take_way(way)
        parts = literal(loss, basis, False, weighted)
        check(learner(loss, basis), parts, scoring, with_queries=False, weighted=weighted)
        assert taken == ["refit"]


@pytest.mark.parametrize("loss", [REGRESSION, Loss("size"), Loss("unit")], ids=str)
@every_way
@pytest.mark.parametrize("n_views", [1, 3])
@pytest.mark.parametrize("with_queries", [True, False], ids=["queries", "items"])
def test_one_and_three_views_equal_refitting(take_way, loss, way, n_views, with_queries):
    for basis in ("all", "subset"):
        take_way(way)
        merged = way == "sums" and basis == "subset" and not with_queries and loss is REGRESSION
        parts = literal(loss, basis, with_queries, False, merged=merged, n_views=n_views)
        check(learner(loss, basis, n_views), parts, "squared", with_queries=with_queries)


# ------------------------------------------------------------------ scores of their own


@pytest.mark.parametrize("loss", [REGRESSION, Loss("size"), Loss("unit"), Loss("unit", 0.3)], ids=str)
@every_basis
@every_way
@pytest.mark.parametrize("with_queries", [True, False], ids=["queries", "items"])
def test_views_with_scores_of_their_own_are_judged_one_by_one(take_way, loss, basis, way, with_queries):
    take_way(way)
    merged = way == "sums" and basis == "subset" and not with_queries and loss is REGRESSION
    weighted = basis == "subset"
    parts = literal(loss, basis, with_queries, weighted, merged=merged, own=True)
    for scoring in ("squared", "rescaled"):
        model, y = learner(loss, basis), P.own_scores[:, :2]
        check(model, parts, scoring, with_queries=with_queries, weighted=weighted, y=y)


@every_way
@every_basis
@pytest.mark.parametrize("loss", [REGRESSION, Loss("size")], ids=str)
def test_a_view_may_lose_all_its_scores_with_a_query(take_way, way, basis, loss):
    query = P.qid[SCORED] == np.unique(P.qid[SCORED])[1]
    y = np.stack([P.y, P.y], axis=1)
    y[SCORED[~query], 1] = np.nan
    take_way(way)
    parts = leave_out_of_views(
        looks(basis), P.X, y, splits_of(P.qid[SCORED]), PAIRS, loss, qid=P.qid, intercept=loss is REGRESSION
    )
    check(learner(loss, basis), parts, "squared", with_queries=True, y=y)


@every_basis
@pytest.mark.parametrize("loss", [Loss("size"), Loss("unit"), Loss("unit", 0.3)], ids=str)
def test_a_fold_of_items_that_holds_all_scores_of_a_view_is_never_left_out(basis, loss):
    y = np.stack([P.y, P.y], axis=1)
    y[SCORED[1:], 1] = np.nan
    folds = item_folds(y[SCORED])
    splits = splits_of(np.where(folds == folds[0], -1, folds))
    parts = leave_out_of_views(looks(basis), P.X, y, splits, PAIRS, loss)
    check(learner(loss, basis), parts, "squared", with_queries=False, y=y)


# ------------------------------------------------------------------ comparisons

RNG = np.random.default_rng(5)
WINNERS = RNG.integers(0, 12, size=40)
LOSERS = (WINNERS + RNG.integers(1, 12, size=40)) % 12
SAME = P.qid[WINNERS] == P.qid[LOSERS]
MARGINS, PAIR_WEIGHTS = np.round(RNG.uniform(0, 2, size=40), 1), RNG.uniform(0.3, 2, size=40)
MARGINS[::7] = 0.0


@every_basis
@every_way
@pytest.mark.parametrize("with_queries", [True, False], ids=["queries", "pairs"])
@every_scoring
def test_comparisons_equal_refitting(take_way, basis, way, with_queries, scoring):
    chosen = np.flatnonzero(SAME) if with_queries else np.arange(14)
    winners, losers, margins, weights = (v[chosen] for v in (WINNERS, LOSERS, MARGINS, PAIR_WEIGHTS))
    qid = P.qid if with_queries else None
    groups = P.qid[winners] if with_queries else np.minimum(winners, losers) * 99 + np.maximum(winners, losers)
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    codes = np.argsort(np.argsort(first))[codes]
    if way == "sums" and basis == "subset":
        if scoring == "disagreement":
            pytest.skip("refused: see below")
        if len(first) > 10:
            codes = balanced_folds(len(first), 10, np.random.default_rng(0))[codes]
    splits = [(np.flatnonzero(codes != k), np.flatnonzero(codes == k)) for k in np.unique(codes)]
    options = {"margins": margins, "weights": weights, "qid": qid}
    parts = leave_comparisons_out(looks(basis), P.X, winners, losers, splits, PAIRS, weighting="unit", **options)
    taken = take_way(way)
    model = learner(Loss("unit"), basis, scoring=scoring).fit_comparisons(P.X, winners, losers, **options)
    np.testing.assert_allclose(model.path_.error, mean_error(parts, SCORINGS[scoring]), rtol=1e-6)
    assert taken == [way if basis == "subset" or way == "kernel" else "inverse"]


# ------------------------------------------------------------------ splits that the user asks for

LISTED = [(SCORED[4:], SCORED[:4]), (np.setdiff1d(np.arange(len(P.X)), SCORED[3:9]), SCORED[3:9])]
CVS = {
    "GroupKFold": GroupKFold(3),
    "LeaveOneGroupOut": LeaveOneGroupOut(),
    "KFold": KFold(4, shuffle=True, random_state=0),
    "ShuffleSplit": ShuffleSplit(3, test_size=0.3, random_state=0),
    "PredefinedSplit": PredefinedSplit(np.asarray([-1, 0, 1, 0, 1])[P.qid[SCORED]]),
    "a number": 3,
}


def given_splits(cv, rows=SCORED, y=P.y):
    cv = KFold(cv) if isinstance(cv, int) else cv
    return [(rows[train], rows[test]) for train, test in cv.split(P.X[rows], y[rows], P.qid[rows])]


@pytest.mark.parametrize("name", CVS)
@pytest.mark.parametrize("loss", [REGRESSION, Loss("unit", 0.3)], ids=str)
@every_basis
@pytest.mark.parametrize("way", ["kernel", "inverse"])
def test_splitters_equal_refitting(take_way, name, loss, basis, way):
    take_way(way)
    options = {"qid": P.qid, "intercept": loss is REGRESSION}
    parts = leave_out_of_views(looks(basis), P.X, P.y, given_splits(CVS[name]), PAIRS, loss, **options)
    for scoring in ("squared", "rescaled"):
        check(learner(loss, basis, cv=CVS[name]), parts, scoring, with_queries=True)


@pytest.mark.parametrize("loss", [REGRESSION, Loss("size"), Loss("unit")], ids=str)
@every_basis
@pytest.mark.parametrize("cv", [KFold(4), PredefinedSplit(np.arange(N) % 4 - 1)], ids=["all", "some"])
def test_splitters_of_items_equal_refitting(loss, basis, cv):
    options = {"intercept": loss is REGRESSION}
    parts = leave_out_of_views(looks(basis), P.X, P.y, given_splits(cv), PAIRS, loss, **options)
    check(learner(loss, basis, cv=cv), parts, "squared", with_queries=False)


@pytest.mark.parametrize("loss", [REGRESSION, Loss("unit")], ids=str)
@every_basis
@pytest.mark.parametrize("own", [False, True], ids=["same scores", "own scores"])
def test_a_list_of_splits_speaks_of_rows_of_X(loss, basis, own):
    y = P.own_scores[:, :2] if own else P.y
    options = {"qid": P.qid, "intercept": loss is REGRESSION}
    splits = [(np.intersect1d(train, SCORED), test) for train, test in LISTED]
    parts = leave_out_of_views(looks(basis), P.X, y, splits, PAIRS, loss, **options)
    check(learner(loss, basis, cv=LISTED), parts, "squared", with_queries=True, y=y)


@pytest.mark.parametrize("loss", [REGRESSION, Loss("unit")], ids=str)
def test_splitters_see_the_rows_that_are_scored_in_any_view(loss):
    y = P.own_scores[:, :2]  # every fourth row is scored in the second view only
    cv = KFold(3)
    options = {"qid": P.qid, "intercept": loss is REGRESSION}
    parts = leave_out_of_views(looks("all"), P.X, y, given_splits(cv), PAIRS, loss, **options)
    check(learner(loss, "all", cv=cv), parts, "squared", with_queries=True, y=y)


def test_a_split_that_leaves_a_view_nothing_to_train_on_is_refused():
    y = np.stack([P.y, P.y], axis=1)
    y[SCORED[2:], 1] = np.nan
    with pytest.raises(ValueError, match="cv leaves a view without scored rows to train on"):
        learner(Loss("size"), "all", cv=[(SCORED[2:], SCORED[:2])]).fit(P.X, y, qid=P.qid)


def test_comparisons_under_a_splitter_equal_refitting():
    winners, losers, margins, weights = (v[:12] for v in (WINNERS, LOSERS, MARGINS, PAIR_WEIGHTS))
    cv = KFold(4, shuffle=True, random_state=1)
    options = {"margins": margins, "weights": weights}
    splits = list(cv.split(winners))
    parts = leave_comparisons_out(looks("all"), P.X, winners, losers, splits, PAIRS, **options)
    model = learner(Loss("size"), "all", cv=cv, scoring="squared").fit_comparisons(P.X, winners, losers, **options)
    np.testing.assert_allclose(model.path_.error, mean_error(parts, "loss"), rtol=1e-6)


# ------------------------------------------------------------------ unscored rows, edges


@every_way
@pytest.mark.parametrize("loss", [REGRESSION, Loss("unit")], ids=str)
def test_unscored_rows_handed_over_apart_stay_when_queries_are_left_out(take_way, way, loss):
    take_way(way)
    apart = {"unscored": P.apart, "unscored_qid": P.apart_qid}
    points = np.concatenate([P.X, P.apart])
    own = [Look(look.columns, look.k, points, look.penalty) for look in looks("all")]
    options = {"qid": P.qid, "intercept": loss is REGRESSION}
    parts = leave_out_of_views(own, P.X, P.y, splits_of(P.qid[SCORED]), PAIRS, loss, **options, **apart)
    model = learner(loss, "all", scoring="squared").fit(P.X, P.y, qid=P.qid, **apart)
    np.testing.assert_allclose(model.path_.error, mean_error(parts, "loss"), rtol=1e-6)


def test_ways_that_sizes_call_for_agree():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(260, 6))
    y = np.where(np.arange(260) < 240, X[:, 0], np.nan)
    views = [View(slice(0, 3), "linear"), View(slice(3, 6), "linear")]
    # three columns: 70 rows span what all rows span; from sums, and from the inverse of the dual
    models = [CoRLS(views, ALPHAS, AGREEMENTS, basis, cv=KFold(5)).fit(X, y) for basis in (np.arange(70), "all")]
    np.testing.assert_allclose(models[0].path_.error, models[1].path_.error, rtol=1e-6)
    np.testing.assert_allclose(models[0].predict(X), models[1].predict(X), rtol=1e-6, atol=1e-9)


def test_disagreement_of_very_many_rows_is_refused_with_a_way_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    y = np.where(np.arange(400) < 390, X[:, 0], np.nan)
    model = CoRankRLS([View(slice(0, 3)), View(slice(3, 6))], basis=3, scoring="disagreement")
    with pytest.raises(ValueError, match=r"scoring='disagreement' .* use 'squared' or 'rescaled'"):
        model.fit(X, y, qid=np.arange(400) // 5)


@pytest.mark.parametrize("qid", [P.qid, np.arange(len(P.X))], ids=["one row a split", "one row a query"])
def test_where_nothing_left_out_can_be_told_apart_alpha_is_not_tuned(qid):
    cv = LeaveOneOut() if qid is P.qid else None
    model = CoRankRLS([View(slice(0, 3)), View(slice(3, 6))], cv=cv)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(P.X, P.y, qid=qid)
    expected = {"nothing was tuned: "} if cv else {"nothing was tuned: ", "y: all scores are t"}
    assert {str(warning.message)[:19] for warning in told} == expected
    assert cv or model.unscored_effect_ is None
    assert model.path_ is None
    assert np.isfinite(model.predict(P.X_new)).all()


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("loss", [REGRESSION, Loss("size")], ids=str)
def test_too_few_scores_to_leave_any_out(n, loss):
    y = np.where(np.isin(np.arange(len(P.X)), SCORED[:n]), P.y, np.nan)
    model = CoRLS(2) if loss is REGRESSION else CoRankRLS(2)
    if loss is REGRESSION and n > 1:
        assert model.fit(P.X, y).path_ is not None
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(P.X, y)
    assert any("nothing was tuned" in str(warning.message) for warning in told)
    assert model.alpha_ > 0
    assert np.isfinite(model.predict(P.X_new)).all()
    assert model.unscored_effect_ is None


def test_all_agreements_at_one_alpha_are_those_of_the_alpha_path(monkeypatch):
    monkeypatch.setattr(PrimalAgreement, "few", property(lambda self: False))
    cv = ShuffleSplit(3, test_size=0.3, random_state=0)  # fitted again, split by split
    one, several = (
        learner(Loss("size"), "subset", cv=cv).set_params(alpha=alpha).fit(P.X, P.y).path_
        for alpha in (0.3, [0.3, 2.0])
    )
    np.testing.assert_allclose(one.error, several.error[several.alpha == 0.3], rtol=1e-8)
    np.testing.assert_allclose(one.agreement, several.agreement[several.alpha == 0.3], rtol=1e-9)
