"""Held-out errors of one view and of several, each way of finding them, against literal refitting."""

import warnings
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from brute_force import REGRESSION, Loss, held_out, kernel, leave_groups_out, small_problem
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
from forced_way import forced
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    PredefinedSplit,
    ShuffleSplit,
)

import corank.core.sums
import corank.solve.holdout
import corank.solve.spectrum
from corank import RLS, CoRankRLS, CoRLS, RankRLS, View
from corank.solve.holdout import HeldOut, best_slope

pytestmark = [
    pytest.mark.usefixtures("one_blas_thread"),
    pytest.mark.filterwarnings("ignore:The groups parameter is ignored"),  # see test_folds.py
]
P = small_views()
SCORED, N = P.scored, len(P.scored)
GAMMAS, PENALTIES = [2.0, 1.5, 3.0], [1.0, 2.0, 0.5]
ALL_COLUMNS = 0.3  # gamma of one view
BASIS = np.asarray([1, 4, 5, 9, 12, 20, 25, 2])
ALPHAS, AGREEMENTS = [0.05, 1.0], [0.0, 0.3, 3.0]
LOSSES = [REGRESSION, Loss("size"), Loss("unit"), Loss("query"), Loss("unit", 0.3)]
SCORINGS = {"squared": "loss", "rescaled": "rescaled", "disagreement": "disagreement"}

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
every_basis = pytest.mark.parametrize("basis", ["all", "subset"])
every_scoring = pytest.mark.parametrize("scoring", SCORINGS)
one_and_two_views = pytest.mark.parametrize("n_views", [1, 2])
weighted_or_not = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])


def learner(loss, basis, n_views=2, intercept=True, **options):
    rows = BASIS if basis == "subset" else basis
    if n_views == 1:
        options = {"gamma": ALL_COLUMNS, **options}
        if loss is REGRESSION:
            return RLS(ALPHAS, rows, intercept, **options)
        return RankRLS(ALPHAS, rows, loss.weighting, loss.beta, **options)
    views = [
        View(slice(2 * v, 2 * v + 2), gamma=GAMMAS[v], penalty=PENALTIES[v]) for v in range(n_views)
    ]
    if loss is REGRESSION:
        return CoRLS(views, ALPHAS, AGREEMENTS, rows, fit_intercept=intercept, **options)
    return CoRankRLS(views, ALPHAS, AGREEMENTS, rows, loss.weighting, loss.beta, **options)


def looks(basis, n_views=2):
    points = P.X[BASIS] if basis == "subset" else P.X
    if n_views == 1:
        return [Look(slice(None), rbf(ALL_COLUMNS), points, 1.0)]
    return [
        Look(slice(2 * v, 2 * v + 2), rbf(GAMMAS[v]), points, PENALTIES[v]) for v in range(n_views)
    ]


def pairs_of(n_views):
    return [
        (alpha, agreement)
        for agreement in (AGREEMENTS if n_views > 1 else [0.0])
        for alpha in ALPHAS
    ]


def ways_of(loss, basis, *, items=False):
    """Every way that serves; what a query weighs without some of its items no single decomposition
    knows.
    """
    sums = ["sums"] if basis == "subset" else []
    if items and 0 < loss.beta < 1:
        return ["auto", "refit", *sums]
    inverse = [] if items and loss.weighting != "size" else ["inverse"]
    return ["auto", "kernel", "refit", *inverse, *sums]


def splits_of(groups, rows=SCORED):
    """(train, test) rows of X for groups of those rows; −1 is never left out."""
    groups = np.asarray(groups)
    return [(rows[groups != g], rows[groups == g]) for g in np.unique(groups[groups >= 0])]


def default_splits(loss, with_queries, y=P.y):
    """What learners leave out: queries, rows one by one, or items of the only query in folds."""
    if with_queries:
        return splits_of(P.qid[SCORED])
    return splits_of(np.arange(N) if loss.beta == 1 else item_folds(y[SCORED]))


@cache
def literal(loss, basis, with_queries, weighted, n_views=2, own=False, intercept=True):
    y = P.own_scores[:, :n_views] if own else P.y
    return leave_out_of_views(
        looks(basis, n_views),
        P.X,
        y,
        default_splits(loss, with_queries, y),
        pairs_of(n_views),
        loss,
        qid=P.qid if with_queries else None,
        weights=P.weights if weighted else None,
        intercept=loss is REGRESSION and intercept,
    )


def check(model, parts, scoring, *, with_queries, weighted=False, y=P.y, way="auto", n_views=2):
    model.set_params(scoring=scoring)
    with forced(way):
        model.fit(
            P.X,
            y,
            qid=P.qid if with_queries else None,
            sample_weight=P.weights if weighted else None,
        )
    expected = mean_error(parts, SCORINGS[scoring])
    path = model.path_
    np.testing.assert_allclose(path.error, expected, rtol=1e-6, err_msg=f"{way} {scoring}")
    assert model.alpha_ == path.alpha[path.best]
    if n_views > 1:
        assert model.agreement_ == path.agreement[path.best]
    pairs = pairs_of(n_views)
    chosen = choose(
        *fold_errors(parts, SCORINGS[scoring]), pairs, scoring, sorted({pair[1] for pair in pairs})
    )
    assert expected[path.best] == pytest.approx(expected[chosen], rel=1e-6)


# ------------------------------------------------------------------ queries, rows, items


@every_loss
@every_basis
@one_and_two_views
@weighted_or_not
def test_leave_query_out_equals_refitting(loss, basis, n_views, weighted):
    if weighted and loss.weighting == "query":
        pytest.skip("refuses weights")
    parts = literal(loss, basis, True, weighted, n_views=n_views)
    for way in ways_of(loss, basis):
        for scoring in SCORINGS:
            model = learner(loss, basis, n_views)
            check(
                model,
                parts,
                scoring,
                with_queries=True,
                weighted=weighted,
                way=way,
                n_views=n_views,
            )


@every_basis
@one_and_two_views
@weighted_or_not
@pytest.mark.parametrize("intercept", [True, False])
def test_leave_one_out_equals_refitting(basis, n_views, weighted, intercept):
    parts = literal(REGRESSION, basis, False, weighted, n_views=n_views, intercept=intercept)
    for way in ways_of(REGRESSION, basis):
        for scoring in ("squared", "rescaled"):
            model = learner(REGRESSION, basis, n_views, intercept)
            check(
                model,
                parts,
                scoring,
                with_queries=False,
                weighted=weighted,
                way=way,
                n_views=n_views,
            )


@pytest.mark.parametrize("loss", LOSSES[1:], ids=str)
@every_basis
@one_and_two_views
@weighted_or_not
def test_items_of_the_one_nameless_query_equal_refitting(loss, basis, n_views, weighted):
    if weighted and loss.weighting == "query":
        pytest.skip("refuses weights")
    parts = literal(loss, basis, False, weighted, n_views=n_views)
    for way in ways_of(loss, basis, items=True):
        for scoring in SCORINGS:
            model = learner(loss, basis, n_views)
            check(
                model,
                parts,
                scoring,
                with_queries=False,
                weighted=weighted,
                way=way,
                n_views=n_views,
            )


@pytest.mark.parametrize("loss", [REGRESSION, Loss("size"), Loss("unit")], ids=str)
@pytest.mark.parametrize("with_queries", [True, False], ids=["queries", "items"])
@every_basis
def test_three_views_equal_refitting(loss, with_queries, basis):
    parts = literal(loss, basis, with_queries, False, n_views=3)
    for way in ways_of(loss, basis, items=not with_queries and loss is not REGRESSION):
        check(
            learner(loss, basis, 3), parts, "squared", with_queries=with_queries, way=way, n_views=3
        )


# ------------------------------------------------------------------ scores of their own


@pytest.mark.parametrize(
    "loss", [REGRESSION, Loss("size"), Loss("unit"), Loss("unit", 0.3)], ids=str
)
@every_basis
@pytest.mark.parametrize("with_queries", [True, False], ids=["queries", "items"])
def test_views_with_scores_of_their_own_are_judged_one_by_one(loss, basis, with_queries):
    weighted = basis == "subset"
    parts = literal(loss, basis, with_queries, weighted, own=True)
    items = not with_queries and loss is not REGRESSION
    ways = ways_of(loss, basis, items=items)
    if items and loss.weighting != "size":  # views share no factor
        ways = [way for way in ways if way != "kernel"]
    for way in ways:
        for scoring in ("squared", "rescaled"):
            model, y = learner(loss, basis), P.own_scores[:, :2]
            check(model, parts, scoring, with_queries=with_queries, weighted=weighted, y=y, way=way)


@every_basis
@pytest.mark.parametrize("loss", [REGRESSION, Loss("size")], ids=str)
def test_a_view_may_lose_all_its_scores_with_a_query(basis, loss):
    query = P.qid[SCORED] == np.unique(P.qid[SCORED])[1]
    y = np.stack([P.y, P.y], axis=1)
    y[SCORED[~query], 1] = np.nan
    parts = leave_out_of_views(
        looks(basis),
        P.X,
        y,
        splits_of(P.qid[SCORED]),
        pairs_of(2),
        loss,
        qid=P.qid,
        intercept=loss is REGRESSION,
    )
    for way in ways_of(loss, basis):
        if way != "refit":  # which has no rows to fit the second view to
            check(learner(loss, basis), parts, "squared", with_queries=True, y=y, way=way)


@every_basis
@pytest.mark.parametrize("loss", [Loss("size"), Loss("unit"), Loss("unit", 0.3)], ids=str)
def test_a_fold_of_items_that_holds_all_scores_of_a_view_is_never_left_out(basis, loss):
    y = np.stack([P.y, P.y], axis=1)
    y[SCORED[1:], 1] = np.nan
    folds = item_folds(y[SCORED])
    splits = splits_of(np.where(folds == folds[0], -1, folds))
    parts = leave_out_of_views(looks(basis), P.X, y, splits, pairs_of(2), loss)
    check(learner(loss, basis), parts, "squared", with_queries=False, y=y)


# ------------------------------------------------------------------ comparisons

RNG = np.random.default_rng(5)
WINNERS = RNG.integers(0, 12, size=40)
LOSERS = (WINNERS + RNG.integers(1, 12, size=40)) % 12
SAME = P.qid[WINNERS] == P.qid[LOSERS]
MARGINS, PAIR_WEIGHTS = np.round(RNG.uniform(0, 2, size=40), 1), RNG.uniform(0.3, 2, size=40)
MARGINS[::7] = 0.0


@every_basis
@one_and_two_views
@pytest.mark.parametrize(
    "count", [14, 40, None], ids=["few pairs", "more pairs than items", "queries"]
)
def test_comparisons_equal_refitting(basis, n_views, count):
    chosen = np.flatnonzero(SAME) if count is None else np.arange(count)
    winners, losers, margins, weights = (
        v[chosen] for v in (WINNERS, LOSERS, MARGINS, PAIR_WEIGHTS)
    )
    qid = P.qid if count is None else None
    groups = (
        np.minimum(winners, losers) * 99 + np.maximum(winners, losers)
        if qid is None
        else P.qid[winners]
    )
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    codes = np.argsort(np.argsort(first))[codes]
    splits = [(np.flatnonzero(codes != k), np.flatnonzero(codes == k)) for k in np.unique(codes)]
    options = {"margins": margins, "weights": weights, "qid": qid}
    pairs = pairs_of(n_views)
    parts = leave_comparisons_out(
        looks(basis, n_views), P.X, winners, losers, splits, pairs, weighting="unit", **options
    )
    dual = basis == "all" and (n_views > 1 or len(winners) <= len(np.unique([*winners, *losers])))
    for way in ways_of(Loss("unit"), "all" if dual else "subset"):
        for scoring, score in SCORINGS.items():
            model = learner(Loss("unit"), basis, n_views, scoring=scoring)
            with forced(way):
                model.fit_comparisons(P.X, winners, losers, **options)
            np.testing.assert_allclose(model.path_.error, mean_error(parts, score), rtol=1e-6)


@one_and_two_views
@pytest.mark.parametrize(
    "cv", [KFold(4, shuffle=True, random_state=1), ShuffleSplit(4, random_state=0), LeaveOneOut()]
)
def test_comparisons_under_a_splitter_equal_refitting(n_views, cv):
    winners, losers = np.triu_indices(6, 1)  # no pair twice
    winners, losers = winners[:12], losers[:12]
    options = {"margins": MARGINS[:12], "weights": PAIR_WEIGHTS[:12]}
    splits, pairs = list(cv.split(winners)), pairs_of(n_views)
    parts = leave_comparisons_out(
        looks("all", n_views), P.X, winners, losers, splits, pairs, **options
    )
    model = learner(Loss("size"), "all", n_views, cv=cv, scoring="squared")
    model.fit_comparisons(P.X, winners, losers, **options)
    np.testing.assert_allclose(model.path_.error, mean_error(parts, "loss"), rtol=1e-6)


def test_a_splitter_of_comparisons_is_not_handed_groups_that_nobody_gave():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RankRLS(ALPHAS, cv=KFold(3)).fit_comparisons(P.X, WINNERS[:12], LOSERS[:12])


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
@one_and_two_views
def test_splitters_equal_refitting(name, loss, basis, n_views):
    options = {"qid": P.qid, "weights": P.weights, "intercept": loss is REGRESSION}
    splits, pairs = given_splits(CVS[name]), pairs_of(n_views)
    parts = leave_out_of_views(looks(basis, n_views), P.X, P.y, splits, pairs, loss, **options)
    for scoring in SCORINGS:
        model = learner(loss, basis, n_views, cv=CVS[name])
        check(model, parts, scoring, with_queries=True, weighted=True, n_views=n_views)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@every_basis
@one_and_two_views
@pytest.mark.parametrize(
    "cv", [KFold(4), PredefinedSplit(np.arange(N) % 4 - 1)], ids=["all", "some"]
)
def test_splitters_of_items_equal_refitting(loss, basis, n_views, cv):
    options = {"intercept": loss is REGRESSION}
    splits, pairs = given_splits(cv), pairs_of(n_views)
    parts = leave_out_of_views(looks(basis, n_views), P.X, P.y, splits, pairs, loss, **options)
    for scoring in SCORINGS:
        # whose rows are compared across folds
        if loss is not REGRESSION or scoring != "disagreement":
            check(
                learner(loss, basis, n_views, cv=cv),
                parts,
                scoring,
                with_queries=False,
                n_views=n_views,
            )


@pytest.mark.parametrize("loss", [REGRESSION, Loss("unit")], ids=str)
@every_basis
@pytest.mark.parametrize("kind", ["one view", "same scores", "own scores"])
def test_a_list_of_splits_speaks_of_rows_of_X(loss, basis, kind):
    y = P.own_scores[:, :2] if kind == "own scores" else P.y
    n_views = 1 if kind == "one view" else 2
    options = {"qid": P.qid, "intercept": loss is REGRESSION}
    splits = [(np.intersect1d(train, SCORED), test) for train, test in LISTED]
    parts = leave_out_of_views(
        looks(basis, n_views), P.X, y, splits, pairs_of(n_views), loss, **options
    )
    model = learner(loss, basis, n_views, cv=LISTED)
    check(model, parts, "squared", with_queries=True, y=y, n_views=n_views)


@pytest.mark.parametrize("loss", [REGRESSION, Loss("unit")], ids=str)
def test_splitters_see_the_rows_that_are_scored_in_any_view(loss):
    y = P.own_scores[:, :2]  # every fourth row is scored in the second view only
    cv = KFold(3)
    options = {"qid": P.qid, "intercept": loss is REGRESSION}
    parts = leave_out_of_views(looks("all"), P.X, y, given_splits(cv), pairs_of(2), loss, **options)
    check(learner(loss, "all", cv=cv), parts, "squared", with_queries=True, y=y)


def test_a_split_that_leaves_a_view_nothing_to_train_on_is_refused():
    y = np.stack([P.y, P.y], axis=1)
    y[SCORED[2:], 1] = np.nan
    with pytest.raises(ValueError, match=r"cv .* view"):
        learner(Loss("size"), "all", cv=[(SCORED[2:], SCORED[:2])]).fit(P.X, y, qid=P.qid)


# ------------------------------------------------------------------ sizes, unscored rows, edges


@pytest.mark.parametrize("loss", [REGRESSION, Loss("unit")], ids=str)
def test_unscored_rows_handed_over_apart_stay_when_queries_are_left_out(loss):
    apart = {"unscored": P.apart, "unscored_qid": P.apart_qid}
    points = np.concatenate([P.X, P.apart])
    shown = [Look(look.columns, look.k, points, look.penalty) for look in looks("all")]
    options = {"qid": P.qid, "intercept": loss is REGRESSION}
    parts = leave_out_of_views(
        shown, P.X, P.y, splits_of(P.qid[SCORED]), pairs_of(2), loss, **options, **apart
    )
    for way in ("kernel", "inverse", "refit"):
        model = learner(loss, "all", scoring="squared")
        with forced(way):
            model.fit(P.X, P.y, qid=P.qid, **apart)
        np.testing.assert_allclose(model.path_.error, mean_error(parts, "loss"), rtol=1e-6)


def test_ways_that_sizes_call_for_agree():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(260, 6))
    y = np.where(np.arange(260) < 240, X[:, 0], np.nan)
    views = [View(slice(0, 3), "linear"), View(slice(3, 6), "linear")]
    # three columns: 70 rows span what all rows span; from sums, and from the inverse of the dual
    models = [
        CoRLS(views, ALPHAS, AGREEMENTS, basis, cv=KFold(5)).fit(X, y)
        for basis in (np.arange(70), "all")
    ]
    np.testing.assert_allclose(models[0].path_.error, models[1].path_.error, rtol=1e-6)
    np.testing.assert_allclose(models[0].predict(X), models[1].predict(X), rtol=1e-6, atol=1e-9)


@every_scoring
@one_and_two_views
@pytest.mark.parametrize("cv", [KFold(25), LeaveOneOut()], ids=["large folds", "single rows"])
def test_very_many_folds_take_several_passes(scoring, n_views, cv, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 4)), rng.normal(size=150)
    paths = []
    for way in ("sums", "kernel", "inverse"):
        views = (
            {"views": [View(slice(0, 2)), View(slice(2, 4))], "agreement": 0.0}
            if n_views == 2
            else {"gamma": 0.3}
        )
        model = (CoRLS if n_views == 2 else RLS)(
            alpha=[0.1, 1.0], basis=[0, 1], cv=cv, scoring=scoring, **views
        )
        with forced(way):
            paths.append(model.fit(X, y).path_.error)
        # the inverse goes through batches of rows
        monkeypatch.setattr("corank.solve.holdout.MAX_UNIT_FEATURES", 0)
        monkeypatch.setattr("corank.solve.holdout.BLOCK_ENTRIES", 8)
    for errors in paths[1:]:
        np.testing.assert_allclose(errors, paths[0], rtol=1e-9)


def test_all_agreements_at_one_alpha_are_those_of_the_alpha_path(monkeypatch):
    monkeypatch.setattr("corank.solve.systems.FEW_UNITS", 0)
    cv = ShuffleSplit(3, test_size=0.3, random_state=0)  # fitted again, split by split
    single, several = (
        learner(Loss("size"), "subset", cv=cv).set_params(alpha=alpha).fit(P.X, P.y).path_
        for alpha in (0.3, [0.3, 2.0])
    )
    np.testing.assert_allclose(single.error, several.error[several.alpha == 0.3], rtol=1e-8)
    np.testing.assert_array_equal(single.agreement, several.agreement[several.alpha == 0.3])


@pytest.mark.parametrize(
    "qid", [P.qid, np.arange(len(P.X))], ids=["one row a split", "one row a query"]
)
@one_and_two_views
def test_where_nothing_left_out_can_be_told_apart_nothing_is_tuned(qid, n_views):
    cv = LeaveOneOut() if qid is P.qid else None
    model = learner(Loss("size"), "all", n_views, cv=cv)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(P.X, P.y, qid=qid)
    assert sum("nothing was tuned" in str(warning.message) for warning in caught) == 1
    assert any("tied" in str(warning.message) for warning in caught) == (cv is None)
    assert model.path_ is None
    assert np.isfinite(model.predict(P.X_new)).all()


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("loss", [REGRESSION, Loss("size")], ids=str)
@one_and_two_views
def test_too_few_scores_to_leave_any_out(n, loss, n_views):
    y = np.where(np.isin(np.arange(len(P.X)), SCORED[:n]), P.y, np.nan)
    model = learner(loss, "all", n_views)
    if loss is REGRESSION and n > 1:
        assert model.fit(P.X, y).path_ is not None
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(P.X, y)
    assert any("nothing was tuned" in str(warning.message) for warning in caught)
    assert model.alpha_ > 0
    assert np.isfinite(model.predict(P.X_new)).all()


# ------------------------------------------------------------------ one view: columns as basis, levels, scales

PROBLEM = small_problem(seed=11, sizes=(1, 4, 7, 3, 5, 4))
X, Y, QID, W = PROBLEM.X, PROBLEM.y, PROBLEM.qid, PROBLEM.weights
GAMMA = 0.4
ONE_VIEW_ALPHAS = [0.01, 1.0, 30.0]
BASES = {"dual": "all", "primal": np.arange(len(Y)), "subset": [0, 2, 3, 9, 14]}
every_form = pytest.mark.parametrize("form", BASES)
close = {"rtol": 1e-6, "atol": 1e-9}


@pytest.mark.parametrize("d", [3, 30], ids=["fewer columns than rows", "more columns than rows"])
@pytest.mark.parametrize("kind", [RLS, RankRLS])
@pytest.mark.parametrize("cv", [None, ShuffleSplit(3, random_state=0)], ids=["queries", "refitted"])
def test_columns_as_basis_equal_refitting(d, kind, cv):
    wide = small_problem(seed=12, sizes=(1, 4, 7, 3, 5, 4), d=d)
    model = kind(ONE_VIEW_ALPHAS, "features", kernel="linear", cv=cv).fit(
        wide.X, wide.y, qid=wide.qid
    )
    loss = REGRESSION if kind is RLS else Loss()
    splits = leave_groups_out(wide.qid) if cv is None else list(cv.split(wide.X))
    options = {"qid": wide.qid, "intercept": kind is RLS}
    expected = held_out(wide.X, wide.y, splits, kernel("linear"), ONE_VIEW_ALPHAS, loss, **options)
    np.testing.assert_allclose(model.path_.error, expected, **close)


@pytest.mark.parametrize("form", ["dual", "primal"])
@pytest.mark.parametrize("qid", [np.repeat(np.arange(6), 4), None], ids=["queries", "items"])
def test_rows_that_no_function_can_tell_apart_are_half_misordered(form, qid):
    same = np.ones((len(Y), 2))
    model = RankRLS(
        ONE_VIEW_ALPHAS, "all" if form == "dual" else [0, 1], gamma=GAMMA, scoring="disagreement"
    )
    np.testing.assert_array_equal(
        model.fit(same, np.arange(len(Y)) % 7 / 10, qid=qid).path_.error, 0.5
    )


@every_form
@every_scoring
@pytest.mark.parametrize(
    "cv", [LeaveOneOut(), ShuffleSplit(3, random_state=0)], ids=["closed form", "refitted"]
)
def test_small_blocks_change_nothing(form, scoring, cv, monkeypatch):
    model = RLS(ONE_VIEW_ALPHAS, BASES[form], gamma=GAMMA, cv=cv, scoring=scoring)
    expected = model.fit(X, Y).path_.error
    monkeypatch.setattr(corank.core.sums, "GRAM_ENTRIES", 1)
    monkeypatch.setattr(corank.solve.holdout, "BLOCK_ENTRIES", 1)
    monkeypatch.setattr(corank.solve.spectrum, "BLOCK_ENTRIES", 1)
    monkeypatch.setattr(corank.solve.spectrum, "SYSTEM_ENTRIES", 8)
    np.testing.assert_allclose(model.fit(X, Y).path_.error, expected, rtol=1e-9)


@every_form
@every_scoring
@pytest.mark.parametrize("level", [1e3, 1e8])
def test_the_level_of_a_query_does_not_matter_to_what_is_held_out(form, scoring, level):
    scores = np.round(Y * 2**10) / 2**10  # so that adding a level loses nothing
    model = RankRLS(ONE_VIEW_ALPHAS, BASES[form], gamma=GAMMA, scoring=scoring)
    expected = model.fit(X, scores, qid=QID).path_.error
    shifted = model.fit(X, scores + level * QID, qid=QID).path_.error
    np.testing.assert_allclose(shifted, expected, rtol=1e-4)


@every_form
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_an_order_is_an_order_on_any_scale_of_scores(form, scale):
    alphas = [1e-2, 1.0, 1e4]
    model = RankRLS(alphas, BASES[form], gamma=GAMMA, scoring="disagreement").fit(
        X, scale * Y, qid=QID
    )
    points = None if form == "dual" else X[BASES[form]]
    splits, options = leave_groups_out(QID), {"qid": QID, "basis": points, "score": "disagreement"}
    expected = held_out(X, Y, splits, kernel("rbf", GAMMA), alphas, Loss(), **options)
    np.testing.assert_allclose(model.path_.error, expected, rtol=1e-12)


def test_standard_error_is_that_of_the_mean_over_folds_of_one_size():
    model = RLS(ONE_VIEW_ALPHAS, gamma=GAMMA, fit_intercept=False).fit(X, Y)
    splits = leave_groups_out(np.arange(len(Y)))
    residuals = np.asarray(
        [held_out(X, Y, [split], kernel("rbf", GAMMA), ONE_VIEW_ALPHAS) for split in splits]
    )
    expected = residuals.std(axis=0, ddof=1) / np.sqrt(len(Y))
    np.testing.assert_allclose(model.path_.standard_error, expected, **close)


def test_every_width_has_its_own_alphas_and_errors():
    widths = (0.1, 2.0)
    model = RankRLS(ONE_VIEW_ALPHAS, gamma=list(widths)).fit(X, Y, qid=QID)
    path = model.path_
    np.testing.assert_array_equal(path.gamma, np.repeat(widths, len(ONE_VIEW_ALPHAS)))
    np.testing.assert_array_equal(path.alpha, ONE_VIEW_ALPHAS * 2)
    splits = leave_groups_out(QID)
    expected = [
        held_out(X, Y, splits, kernel("rbf", g), ONE_VIEW_ALPHAS, Loss(), qid=QID) for g in widths
    ]
    np.testing.assert_allclose(path.error, np.concatenate(expected), **close)
    best = np.argmin(path.error)
    assert (model.gamma_, model.alpha_) == (path.gamma[best], path.alpha[best])


# ------------------------------------------------------------------ what rescaling is for


@every_form
@pytest.mark.parametrize("qid", [QID, None], ids=["queries", "no queries"])
@pytest.mark.parametrize("kind", [RLS, RankRLS])
def test_predictions_that_only_shrink_cost_nothing(form, qid, kind):
    model = kind([1e5, 1e8], BASES[form], gamma=GAMMA, scoring="rescaled").fit(X, Y, qid=qid)
    np.testing.assert_allclose(*model.path_.error, rtol=1e-4)
    assert (
        model.path_.error[1]
        < 0.98 * model.set_params(scoring="squared").fit(X, Y, qid=qid).path_.error[1]
    )


@every_form
@pytest.mark.parametrize("qid", [QID, None], ids=["queries", "no queries"])
@pytest.mark.parametrize("kind", [RLS, RankRLS])
def test_the_best_factor_is_no_worse_than_one(form, qid, kind):
    model = kind("tune", BASES[form], gamma=GAMMA)
    plain, rescaled = (
        model.set_params(scoring=scoring).fit(X, Y, qid=qid).path_
        for scoring in ("squared", "rescaled")
    )
    assert np.all(rescaled.error <= plain.error * (1 + 1e-9))
    assert (rescaled.scoring, rescaled.constant) == ("rescaled", plain.constant)


@pytest.mark.parametrize("basis", ["all", [0, 1]], ids=["dual", "primal"])
@pytest.mark.parametrize("qid", [np.repeat(np.arange(6), 4), None], ids=["queries", "items"])
@pytest.mark.parametrize("level", [0.0, 1e3])
@pytest.mark.parametrize("kind", ["rbf", "linear"])
def test_predictions_of_zero_cost_what_the_scores_do(basis, qid, level, kind):
    same = np.full((len(Y), 2), 0.0 if kind == "linear" else 0.37)
    model = RankRLS(ONE_VIEW_ALPHAS, basis, kernel=kind, gamma=GAMMA)
    plain, rescaled = (
        model.set_params(scoring=scoring)
        .fit(same, level + np.arange(len(Y)) % 7 / 10, qid=qid)
        .path_.error
        for scoring in ("squared", "rescaled")
    )
    # predictions are zero but for rounding, which is 1e-16 of the level beside scores of size 1
    np.testing.assert_allclose(rescaled, plain, rtol=1e-9)


@pytest.mark.parametrize("basis", ["all", [1, 3]], ids=["dual", "primal"])
def test_an_order_that_is_wrong_is_not_turned_round(basis):
    items, scores, qid = (
        np.asarray([[0.0], [1.0], [0.0], [1.0]]),
        [0.0, 1.0, 1.0, 0.0],
        [0, 0, 1, 1],
    )
    path = (
        RankRLS(ONE_VIEW_ALPHAS, basis, kernel="linear", scoring="rescaled")
        .fit(items, scores, qid=qid)
        .path_
    )
    np.testing.assert_allclose(path.error, path.constant)
    assert path.alpha[path.best] == max(ONE_VIEW_ALPHAS)


@pytest.mark.parametrize(
    "cv", [LeaveOneOut(), [*leave_groups_out(range(9)), ([0, 1], [2])]], ids=["closed", "refit"]
)
def test_small_losses_keep_their_digits(cv):
    x, alpha = np.arange(1, 10) / 8, 2.0**-20
    path = (
        RLS([alpha], fit_intercept=False, kernel="linear", cv=cv, scoring="rescaled")
        .fit(x[:, None], x)
        .path_
    )
    splits = list(cv.split(x)) if isinstance(cv, LeaveOneOut) else cv
    target = [Fraction(x[i]) for _, (i,) in splits]
    norms = [sum(Fraction(x[j]) ** 2 for j in train) for train, _ in splits]
    fitted = [t * norm / (norm + Fraction(alpha)) for t, norm in zip(target, norms, strict=True)]
    slope = sum(t * f for t, f in zip(target, fitted, strict=True)) / sum(f * f for f in fitted)
    loss = sum((t - slope * f) ** 2 for t, f in zip(target, fitted, strict=True))
    np.testing.assert_allclose(path.error, float(loss / len(splits)), rtol=1e-3)


def some_sums(sizes=(3, 5, 2)):
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=(m, 1)) for m in sizes]
    predictions = [
        s * [1.0, 0.1, -1.0, 0.0] + rng.normal(size=(len(s), 4)) * [0.3, 0.3, 0.3, 0.0]
        for s in scores
    ]
    cross = np.stack([(s * f).sum(axis=0) for s, f in zip(scores, predictions, strict=True)])
    square = np.stack([(f**2).sum(axis=0) for f in predictions])
    target = np.stack([(s**2).sum(axis=0) for s in scores])
    return scores, predictions, target, cross, square, np.asarray(sizes, float)


def test_one_slope_serves_all_folds():
    scores, predictions, target, cross, square, sizes = some_sums()
    slope = best_slope(cross, square)
    t, p = np.concatenate(scores)[:, 0], np.concatenate(predictions)
    np.testing.assert_allclose(slope[:2], [np.linalg.lstsq(p[:, [k]], t)[0][0] for k in range(2)])
    np.testing.assert_array_equal(slope[2:], 0)  # the wrong way round, and nothing
    expected = [
        ((s - slope * f) ** 2).sum(axis=0) for s, f in zip(scores, predictions, strict=True)
    ]
    for each in (target[:, 0], target, np.repeat(target, 4, axis=1)):
        held = HeldOut.rescaled(each, cross, square, sizes)
        np.testing.assert_allclose(held.errors, expected)
        np.testing.assert_array_equal(held.sizes, sizes)


def test_sums_of_residuals_give_the_same():
    _, _, target, cross, square, sizes = some_sums()
    residual = target - 2 * cross + square
    held = HeldOut.rescaled(residual, cross - square, square, sizes, least=-1.0)
    np.testing.assert_allclose(held.errors, HeldOut.rescaled(target, cross, square, sizes).errors)


def test_folds_of_no_size_are_left_out_and_no_loss_is_negative():
    _, _, target, _, _, sizes = some_sums()
    sizes[1] = 0
    # but for rounding f = s
    held = HeldOut.rescaled(target[:, 0], target * (1 + 1e-12), target * (1 - 1e-12), sizes)
    np.testing.assert_array_equal(held.errors, np.zeros((2, 1)))
    np.testing.assert_array_equal(held.sizes, [3, 2])
