"""Held-out errors against literal refitting of the stated objective, kernel and basis kept, for every alpha."""

import numpy as np
import pytest
from brute_force import REGRESSION, Loss, held_out, kernel, leave_groups_out, small_problem
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, LeaveOneOut, PredefinedSplit, ShuffleSplit

import corank.gram
import corank.solvers.holdout
import corank.solvers.tuning
from corank import RLS, RankRLS
from corank.loss import WEIGHTINGS

PROBLEM = small_problem(seed=11, sizes=(1, 4, 7, 3, 5, 4))
X, Y, QID, W = PROBLEM.X, PROBLEM.y, PROBLEM.qid, PROBLEM.weights
N = len(Y)  # more than MANY_FOLDS
GAMMA, ALPHAS = 0.4, [0.01, 1.0, 30.0]
RBF = kernel("rbf", GAMMA)
BASES = {"dual": "all", "primal": np.arange(N), "subset": [0, 2, 3, 9, 14]}
LOSSES = [Loss(weighting, beta) for weighting in WEIGHTINGS for beta in (0.0, 0.3)] + [Loss(beta=1.0)]
every_basis = pytest.mark.parametrize("basis", BASES)
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.weighting}-{loss.beta}")
weighted_or_not = pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
close = {"rtol": 1e-6, "atol": 1e-9}
pytestmark = pytest.mark.filterwarnings("ignore:The groups parameter is ignored")  # see test_folds.py


def points(basis):
    return None if basis == "dual" else X[BASES[basis]]


def rank(loss, basis, cv=None, scoring=None):
    return RankRLS(ALPHAS, BASES[basis], loss.weighting, loss.beta, gamma=GAMMA, cv=cv, scoring=scoring)


def regress(basis, intercept, cv=None):
    return RLS(ALPHAS, BASES[basis], intercept, gamma=GAMMA, cv=cv)


@pytest.fixture
def no_refitting(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("refitted where a closed form should serve")

    monkeypatch.setattr(corank.solvers.tuning, "refitted", refuse)


@every_loss
@every_basis
@pytest.mark.usefixtures("no_refitting")
def test_leave_query_out_equals_refitting(loss, basis):
    found = rank(loss, basis).fit(X, Y, qid=QID).path_.error
    expected = held_out(X, Y, leave_groups_out(QID), RBF, ALPHAS, loss, qid=QID, basis=points(basis))
    np.testing.assert_allclose(found, expected, **close)


@pytest.mark.parametrize("loss", [Loss("size"), Loss("unit"), Loss("unit", 0.3)], ids=str)
@every_basis
@pytest.mark.usefixtures("no_refitting")
def test_weighted_leave_query_out_equals_refitting(loss, basis):
    found = rank(loss, basis).fit(X, Y, qid=QID, sample_weight=W).path_.error
    expected = held_out(X, Y, leave_groups_out(QID), RBF, ALPHAS, loss, qid=QID, weights=W, basis=points(basis))
    np.testing.assert_allclose(found, expected, **close)


@every_basis
@pytest.mark.parametrize("intercept", [True, False])
@weighted_or_not
@pytest.mark.usefixtures("no_refitting")
def test_leave_one_out_equals_refitting(basis, intercept, weights):
    model = regress(basis, intercept, cv=None if basis == "dual" else LeaveOneOut()).fit(X, Y, sample_weight=weights)
    expected = held_out(
        X, Y, leave_groups_out(np.arange(N)), RBF, ALPHAS, weights=weights, basis=points(basis), intercept=intercept
    )
    np.testing.assert_allclose(model.path_.error, expected, **close)


@every_basis
@weighted_or_not
@pytest.mark.usefixtures("no_refitting")
def test_regression_with_qid_leaves_whole_queries_out(basis, weights):
    found = regress(basis, True).fit(X, Y, qid=QID, sample_weight=weights).path_.error
    expected = held_out(
        X, Y, leave_groups_out(QID), RBF, ALPHAS, qid=QID, weights=weights, basis=points(basis), intercept=True
    )
    np.testing.assert_allclose(found, expected, **close)


@pytest.mark.parametrize("d", [3, 30], ids=["fewer columns than rows", "more columns than rows"])
@pytest.mark.parametrize("learner", [RLS, RankRLS])
@pytest.mark.usefixtures("no_refitting")
def test_features_left_out_equal_refitting(d, learner):
    wide = small_problem(seed=12, sizes=(1, 4, 7, 3, 5, 4), d=d)
    found = learner(ALPHAS, "features", kernel="linear", cv=LeaveOneGroupOut()).fit(wide.X, wide.y, qid=wide.qid)
    regression = learner is RLS
    expected = held_out(
        wide.X, wide.y, leave_groups_out(wide.qid), kernel("linear"), ALPHAS,
        REGRESSION if regression else Loss(), qid=wide.qid, intercept=regression,
    )  # fmt: skip
    np.testing.assert_allclose(found.path_.error, expected, **close)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@every_basis
@pytest.mark.usefixtures("no_refitting")
def test_folds_of_items_of_one_query_equal_refitting(weighting, basis):
    cv = KFold(5, shuffle=True, random_state=0)
    found = rank(Loss(weighting), basis, cv).fit(X, Y).path_.error
    expected = held_out(X, Y, list(cv.split(X)), RBF, ALPHAS, Loss(weighting), basis=points(basis))
    np.testing.assert_allclose(found, expected, **close)


@pytest.mark.parametrize("weighting", ["size", "unit"])
@every_basis
@pytest.mark.usefixtures("no_refitting")
def test_weighted_folds_of_items_equal_refitting(weighting, basis):
    cv = KFold(7, shuffle=True, random_state=1)
    found = rank(Loss(weighting), basis, cv).fit(X, Y, sample_weight=W).path_.error
    expected = held_out(X, Y, list(cv.split(X)), RBF, ALPHAS, Loss(weighting), weights=W, basis=points(basis))
    np.testing.assert_allclose(found, expected, **close)


@every_basis
def test_blended_folds_of_items_equal_refitting(basis):
    cv = KFold(5, shuffle=True, random_state=0)
    found = rank(Loss("unit", 0.3), basis, cv).fit(X, Y).path_.error
    expected = held_out(X, Y, list(cv.split(X)), RBF, ALPHAS, Loss("unit", 0.3), basis=points(basis))
    np.testing.assert_allclose(found, expected, **close)


@pytest.mark.parametrize("qid", [None, QID], ids=["items", "queries"])
@every_basis
@pytest.mark.usefixtures("no_refitting")
def test_what_is_never_held_out_is_always_trained_on(qid, basis):
    marks = (
        np.where(np.arange(N) % 3 == 0, -1, np.arange(N) % 2) if qid is None else np.asarray([-1, 0, 1, 0, -1, 1])[QID]
    )
    cv = PredefinedSplit(marks)
    found = rank(Loss(), basis, cv).fit(X, Y, qid=qid).path_.error
    expected = held_out(X, Y, list(cv.split()), RBF, ALPHAS, Loss(), qid=qid, basis=points(basis))
    np.testing.assert_allclose(found, expected, **close)


SPLITTERS = {
    "GroupKFold": GroupKFold(3),
    "LeaveOneGroupOut": LeaveOneGroupOut(),
    "KFold through queries": KFold(4, shuffle=True, random_state=0),
    "ShuffleSplit": ShuffleSplit(5, test_size=0.3, random_state=0),
}


@pytest.mark.parametrize("name", SPLITTERS)
@every_basis
@pytest.mark.parametrize("loss", [Loss("unit"), Loss("size", 0.3), REGRESSION], ids=str)
def test_any_splitter_equals_refitting(name, basis, loss):
    cv = SPLITTERS[name]
    model = regress(basis, True, cv) if loss == REGRESSION else rank(loss, basis, cv)
    found = model.fit(X, Y, qid=QID, sample_weight=W).path_.error
    splits = list(cv.split(X, Y, QID))
    expected = held_out(
        X, Y, splits, RBF, ALPHAS, loss, qid=QID, weights=W, basis=points(basis), intercept=loss == REGRESSION
    )
    np.testing.assert_allclose(found, expected, **close)


@every_basis
@pytest.mark.parametrize("learner", [RLS, RankRLS])
def test_a_list_of_splits_speaks_of_rows_of_X(basis, learner):
    y = Y.copy()
    y[[1, 5, 20]] = np.nan
    splits = [(np.arange(8, N), np.arange(8)), (np.arange(16), np.arange(16, N))]
    options = {"basis": BASES[basis], "gamma": GAMMA, "cv": splits}
    found = learner(ALPHAS, **options).fit(X, y, qid=QID).path_.error
    scored = [(train[~np.isnan(y[train])], test[~np.isnan(y[test])]) for train, test in splits]
    loss = REGRESSION if learner is RLS else Loss()
    own = X[BASES[basis]] if basis != "dual" else None
    expected = held_out(X, y, scored, RBF, ALPHAS, loss, qid=QID, basis=own, intercept=learner is RLS)
    np.testing.assert_allclose(found, expected, **close)


@every_basis
@pytest.mark.parametrize("name", ["natural", *SPLITTERS])
@weighted_or_not
def test_disagreement_of_what_is_held_out_is_the_literal_one(basis, name, weights):
    cv = SPLITTERS.get(name)
    splits = leave_groups_out(QID) if cv is None else list(cv.split(X, Y, QID))
    found = rank(Loss(), basis, cv, "disagreement").fit(X, Y, qid=QID, sample_weight=weights).path_.error
    expected = held_out(
        X, Y, splits, RBF, ALPHAS, Loss(), qid=QID, weights=weights, basis=points(basis), score="disagreement"
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@every_basis
def test_disagreement_of_items_is_counted_within_their_fold(basis):
    cv = KFold(4, shuffle=True, random_state=0)
    found = rank(Loss("unit"), basis, cv, "disagreement").fit(X, Y).path_.error
    expected = held_out(X, Y, list(cv.split(X)), RBF, ALPHAS, Loss("unit"), basis=points(basis), score="disagreement")
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("form", ["dual", "primal"])
@pytest.mark.parametrize("qid", [np.repeat(np.arange(6), 4), None], ids=["queries", "items"])
def test_rows_that_no_function_can_tell_apart_are_half_misordered(form, qid):
    same = np.ones((N, 2))
    model = RankRLS(ALPHAS, "all" if form == "dual" else [0, 1], gamma=GAMMA, scoring="disagreement")
    np.testing.assert_array_equal(model.fit(same, np.arange(N) % 7 / 10, qid=qid).path_.error, 0.5)


@every_basis
@pytest.mark.parametrize("scoring", ["squared", "rescaled", "disagreement"])
@pytest.mark.parametrize("cv", [LeaveOneOut(), ShuffleSplit(3, random_state=0)], ids=["closed form", "refitted"])
def test_small_blocks_change_nothing(basis, scoring, cv, monkeypatch):
    model = RLS(ALPHAS, BASES[basis], gamma=GAMMA, cv=cv, scoring=scoring)
    expected = model.fit(X, Y).path_.error
    monkeypatch.setattr(corank.gram, "GRAM_ENTRIES", 1)
    monkeypatch.setattr(corank.solvers.holdout, "BLOCK_ENTRIES", 1)
    np.testing.assert_allclose(model.fit(X, Y).path_.error, expected, rtol=1e-9)


@every_basis
@pytest.mark.parametrize("scoring", ["squared", "rescaled", "disagreement"])
@pytest.mark.parametrize("level", [1e3, 1e8])
def test_the_level_of_a_query_does_not_matter_to_what_is_held_out(basis, scoring, level):
    scores = np.round(Y * 2**10) / 2**10  # so that adding a level loses nothing
    model = rank(Loss(), basis, scoring=scoring)
    expected = model.fit(X, scores, qid=QID).path_.error
    found = model.fit(X, scores + level * QID, qid=QID).path_.error
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@every_basis
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_an_order_is_an_order_on_any_scale_of_scores(basis, scale):
    found = RankRLS([1e-2, 1.0, 1e4], BASES[basis], gamma=GAMMA, scoring="disagreement").fit(X, scale * Y, qid=QID)
    expected = held_out(
        X, Y, leave_groups_out(QID), RBF, [1e-2, 1.0, 1e4], Loss(), qid=QID, basis=points(basis),
        score="disagreement",
    )  # fmt: skip
    np.testing.assert_allclose(found.path_.error, expected, rtol=1e-12)


def test_standard_error_is_that_of_the_mean_over_folds_of_one_size():
    model = RLS(ALPHAS, gamma=GAMMA, fit_intercept=False).fit(X, Y)
    residuals = np.asarray([held_out(X, Y, [split], RBF, ALPHAS) for split in leave_groups_out(np.arange(N))])
    expected = residuals.std(axis=0, ddof=1) / np.sqrt(N)
    np.testing.assert_allclose(model.path_.standard_error, expected, **close)


def test_every_width_has_its_own_alphas_and_errors():
    model = RankRLS(ALPHAS, gamma=[0.1, 2.0]).fit(X, Y, qid=QID)
    np.testing.assert_array_equal(model.path_.gamma, np.repeat([0.1, 2.0], len(ALPHAS)))
    np.testing.assert_array_equal(model.path_.alpha, ALPHAS * 2)
    expected = np.concatenate(
        [held_out(X, Y, leave_groups_out(QID), kernel("rbf", g), ALPHAS, Loss(), qid=QID) for g in (0.1, 2.0)]
    )
    np.testing.assert_allclose(model.path_.error, expected, **close)
    assert (model.gamma_, model.alpha_) == (
        model.path_.gamma[np.argmin(expected)],
        model.path_.alpha[np.argmin(expected)],
    )
