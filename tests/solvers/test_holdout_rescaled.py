"""Held-out losses under the one factor that fits best, against literal refitting, and what that factor is for."""

from fractions import Fraction

import numpy as np
import pytest
from brute_force import REGRESSION, Loss, held_out, held_out_comparisons, kernel, leave_groups_out, small_problem
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, PredefinedSplit, ShuffleSplit

import corank.solvers.tuning
from corank import RLS, RankRLS
from corank.solvers.holdout import HeldOut, best_slope

PROBLEM = small_problem(seed=11, sizes=(1, 4, 7, 3, 5, 4))
X, Y, QID, W = PROBLEM.X, PROBLEM.y, PROBLEM.qid, PROBLEM.weights
N = len(Y)  # more than MANY_FOLDS
GAMMA, ALPHAS = 0.4, [0.01, 1.0, 30.0]
RBF = kernel("rbf", GAMMA)
BASES = {"dual": "all", "primal": np.arange(N), "subset": [0, 2, 3, 9, 14]}
every_basis = pytest.mark.parametrize("basis", BASES)
weighted_or_not = pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
close = {"rtol": 1e-6, "atol": 1e-9}
pytestmark = pytest.mark.filterwarnings("ignore:The groups parameter is ignored")  # see test_folds.py


def rank(loss, basis, cv=None):
    return RankRLS(ALPHAS, BASES[basis], loss.weighting, loss.beta, gamma=GAMMA, cv=cv, scoring="rescaled")


def regress(basis, intercept, cv=None):
    return RLS(ALPHAS, BASES[basis], intercept, gamma=GAMMA, cv=cv, scoring="rescaled")


def literal(splits, basis, loss=REGRESSION, **options):
    points = None if basis == "dual" else X[BASES[basis]]
    return held_out(X, Y, splits, RBF, ALPHAS, loss, basis=points, score="rescaled", **options)


@pytest.fixture
def no_refitting(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("refitted where a closed form should serve")

    monkeypatch.setattr(corank.solvers.tuning, "refitted", refuse)


# ------------------------------------------------------------------ against refitting


@pytest.mark.parametrize("loss", [Loss("size"), Loss("unit"), Loss("unit", 0.3)], ids=str)
@every_basis
@weighted_or_not
@pytest.mark.usefixtures("no_refitting")
def test_leave_query_out_equals_refitting(loss, basis, weights):
    found = rank(loss, basis).fit(X, Y, qid=QID, sample_weight=weights).path_.error
    expected = literal(leave_groups_out(QID), basis, loss, qid=QID, weights=weights)
    np.testing.assert_allclose(found, expected, **close)


@every_basis
@pytest.mark.parametrize("intercept", [True, False])
@weighted_or_not
@pytest.mark.usefixtures("no_refitting")
def test_leave_one_out_equals_refitting(basis, intercept, weights):
    found = regress(basis, intercept, LeaveOneOut()).fit(X, Y, sample_weight=weights).path_.error
    expected = literal(leave_groups_out(np.arange(N)), basis, weights=weights, intercept=intercept)
    np.testing.assert_allclose(found, expected, **close)


@every_basis
@pytest.mark.parametrize("intercept", [True, False])
@weighted_or_not
@pytest.mark.usefixtures("no_refitting")
def test_regression_on_whole_queries_equals_refitting(basis, intercept, weights):
    found = regress(basis, intercept).fit(X, Y, qid=QID, sample_weight=weights).path_.error
    expected = literal(leave_groups_out(QID), basis, qid=QID, weights=weights, intercept=intercept)
    np.testing.assert_allclose(found, expected, **close)


@pytest.mark.parametrize("weighting", ["size", "unit"])
@every_basis
@weighted_or_not
@pytest.mark.usefixtures("no_refitting")
def test_folds_of_items_of_one_query_equal_refitting(weighting, basis, weights):
    cv = KFold(5, shuffle=True, random_state=0)
    found = rank(Loss(weighting), basis, cv).fit(X, Y, sample_weight=weights).path_.error
    np.testing.assert_allclose(found, literal(list(cv.split(X)), basis, Loss(weighting), weights=weights), **close)


@pytest.mark.parametrize("qid", [None, QID], ids=["items", "queries"])
@every_basis
@pytest.mark.usefixtures("no_refitting")
def test_what_is_never_held_out_does_not_count(qid, basis):
    marks = (
        np.where(np.arange(N) % 3 == 0, -1, np.arange(N) % 2) if qid is None else np.asarray([-1, 0, 1, 0, -1, 1])[QID]
    )
    cv = PredefinedSplit(marks)
    found = rank(Loss(), basis, cv).fit(X, Y, qid=qid).path_.error
    np.testing.assert_allclose(found, literal(list(cv.split()), basis, Loss(), qid=qid), **close)


SPLITTERS = {
    "GroupKFold": GroupKFold(3),
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
    expected = literal(splits, basis, loss, qid=QID, weights=W, intercept=loss == REGRESSION)
    np.testing.assert_allclose(found, expected, **close)


COMPARISON_BASES = {"dual": (12, "all"), "primal": (60, "all"), "subset": (60, BASES["subset"])}
COMPARISON_SPLITTERS = {
    "LeaveOneOut": LeaveOneOut(),
    "KFold": KFold(4, shuffle=True, random_state=0),
    "ShuffleSplit": ShuffleSplit(4, test_size=0.3, random_state=0),
}


@pytest.mark.parametrize("form", COMPARISON_BASES)
@pytest.mark.parametrize("name", COMPARISON_SPLITTERS)
def test_comparisons_equal_refitting(form, name):
    count, basis = COMPARISON_BASES[form]
    rng = np.random.default_rng(13)
    first, second = np.triu_indices(N, 1)
    chosen = rng.permutation(len(first))[:count]  # distinct pairs, so that each one is left out alone
    given = {"margins": rng.uniform(0, 2, size=count), "weights": rng.uniform(0.2, 2, size=count)}
    cv = COMPARISON_SPLITTERS[name]
    model = RankRLS(ALPHAS, basis, gamma=GAMMA, cv=cv, scoring="rescaled")
    model.fit_comparisons(X, first[chosen], second[chosen], **given)
    expected = held_out_comparisons(
        X, first[chosen], second[chosen], list(cv.split(chosen)), RBF, ALPHAS, **given, basis=X[model.basis_],
        score="rescaled",
    )  # fmt: skip
    np.testing.assert_allclose(model.path_.error, expected, **close)


# ------------------------------------------------------------------ what it is for


@every_basis
@pytest.mark.parametrize("qid", [QID, None], ids=["queries", "no queries"])
@pytest.mark.parametrize("learner", [RLS, RankRLS])
def test_predictions_that_only_shrink_cost_nothing(basis, qid, learner):
    model = learner([1e5, 1e8], BASES[basis], gamma=GAMMA, scoring="rescaled").fit(X, Y, qid=qid)
    np.testing.assert_allclose(*model.path_.error, rtol=1e-4)
    assert model.path_.error[1] < 0.98 * model.set_params(scoring="squared").fit(X, Y, qid=qid).path_.error[1]


@every_basis
@pytest.mark.parametrize("qid", [QID, None], ids=["queries", "no queries"])
@pytest.mark.parametrize("learner", [RLS, RankRLS])
def test_the_best_factor_is_no_worse_than_one(basis, qid, learner):
    model = learner("tune", BASES[basis], gamma=GAMMA)
    plain, rescaled = (
        model.set_params(scoring=scoring).fit(X, Y, qid=qid).path_ for scoring in ("squared", "rescaled")
    )
    assert np.all(rescaled.error <= plain.error * (1 + 1e-9))
    assert (rescaled.scoring, rescaled.constant) == ("rescaled", plain.constant)


@pytest.mark.parametrize("basis", ["all", [0, 1]], ids=["dual", "primal"])
@pytest.mark.parametrize("qid", [np.repeat(np.arange(6), 4), None], ids=["queries", "items"])
@pytest.mark.parametrize("level", [0.0, 1e3])
@pytest.mark.parametrize("kind", ["rbf", "linear"])
def test_predictions_of_zero_cost_what_the_scores_do(basis, qid, level, kind):
    same = np.full((N, 2), 0.0 if kind == "linear" else 0.37)
    model = RankRLS(ALPHAS, basis, kernel=kind, gamma=GAMMA)
    plain, rescaled = (
        model.set_params(scoring=scoring).fit(same, level + np.arange(N) % 7 / 10, qid=qid).path_.error
        for scoring in ("squared", "rescaled")
    )
    np.testing.assert_allclose(rescaled, plain, rtol=1e-9)


@pytest.mark.parametrize("basis", ["all", [1, 3]], ids=["dual", "primal"])
def test_an_order_that_is_wrong_is_not_turned_round(basis):
    items, scores, qid = np.asarray([[0.0], [1.0], [0.0], [1.0]]), [0.0, 1.0, 1.0, 0.0], [0, 0, 1, 1]
    path = RankRLS(ALPHAS, basis, kernel="linear", scoring="rescaled").fit(items, scores, qid=qid).path_
    np.testing.assert_allclose(path.error, path.constant)
    assert path.alpha[path.best] == max(ALPHAS)


@pytest.mark.parametrize("cv", [LeaveOneOut(), [*leave_groups_out(range(9)), ([0, 1], [2])]], ids=["closed", "refit"])
def test_small_losses_keep_their_digits(cv):
    x, alpha = np.arange(1, 10) / 8, 2.0**-20
    found = RLS([alpha], fit_intercept=False, kernel="linear", cv=cv, scoring="rescaled").fit(x[:, None], x).path_
    splits = list(cv.split(x)) if isinstance(cv, LeaveOneOut) else cv
    target = [Fraction(x[i]) for _, (i,) in splits]
    norms = [sum(Fraction(x[j]) ** 2 for j in train) for train, _ in splits]
    fitted = [t * norm / (norm + Fraction(alpha)) for t, norm in zip(target, norms, strict=True)]
    slope = sum(t * f for t, f in zip(target, fitted, strict=True)) / sum(f * f for f in fitted)
    loss = sum((t - slope * f) ** 2 for t, f in zip(target, fitted, strict=True))
    np.testing.assert_allclose(found.error, float(loss / len(splits)), rtol=1e-3)


# ------------------------------------------------------------------ from sums


def some_sums(sizes=(3, 5, 2)):
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=(m, 1)) for m in sizes]
    predictions = [s * [1.0, 0.1, -1.0, 0.0] + rng.normal(size=(len(s), 4)) * [0.3, 0.3, 0.3, 0.0] for s in scores]
    cross = np.stack([(s * f).sum(axis=0) for s, f in zip(scores, predictions, strict=True)])
    own = np.stack([(f**2).sum(axis=0) for f in predictions])
    return scores, predictions, np.stack([(s**2).sum(axis=0) for s in scores]), cross, own, np.asarray(sizes, float)


def test_one_slope_serves_all_folds():
    scores, predictions, target, cross, own, sizes = some_sums()
    slope = best_slope(cross, own)
    t, p = np.concatenate(scores)[:, 0], np.concatenate(predictions)
    np.testing.assert_allclose(slope[:2], [np.linalg.lstsq(p[:, [k]], t)[0][0] for k in range(2)])
    np.testing.assert_array_equal(slope[2:], 0)  # the wrong way round, and nothing
    literal = [((s - slope * f) ** 2).sum(axis=0) for s, f in zip(scores, predictions, strict=True)]
    for each in (target[:, 0], target, np.repeat(target, 4, axis=1)):
        found = HeldOut.rescaled(each, cross, own, sizes)
        np.testing.assert_allclose(found.errors, literal)
        np.testing.assert_array_equal(found.sizes, sizes)


def test_sums_of_what_is_left_give_the_same():
    _, _, target, cross, own, sizes = some_sums()
    left = target - 2 * cross + own
    found = HeldOut.rescaled(left, cross - own, own, sizes, least=-1.0)
    np.testing.assert_allclose(found.errors, HeldOut.rescaled(target, cross, own, sizes).errors)


def test_folds_of_no_size_are_left_out_and_no_loss_is_negative():
    _, _, target, _, _, sizes = some_sums()
    sizes[1] = 0
    found = HeldOut.rescaled(target[:, 0], target * (1 + 1e-12), target * (1 - 1e-12), sizes)  # but for rounding f = s
    np.testing.assert_array_equal(found.errors, np.zeros((2, 1)))
    np.testing.assert_array_equal(found.sizes, [3, 2])
