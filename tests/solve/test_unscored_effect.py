"""Did the unscored rows help? Against a literal nested loop; verdicts; what a fitted model carries
with it.
"""

import pickle

import numpy as np
import pytest
from brute_force import REGRESSION, Loss
from brute_force.views import (
    LeftOut,
    Look,
    best_slopes,
    choose,
    fit_views_comparisons,
    fit_views_path,
    fold_errors,
    item_folds,
    leave_comparisons_out,
    leave_out_of_views,
    rbf,
    small_views,
    standard_error,
)
from sklearn.base import clone

from corank import CoRankRLS, CoRLS, View
from corank.core.folds import balanced_folds
from corank.datasets import make_two_views
from corank.solve.effect import UnscoredEffect, unscored_effect
from corank.solve.holdout import HeldOut
from corank.solve.tuning import Grid

pytestmark = pytest.mark.usefixtures("one_blas_thread")
P = small_views(seed=3, sizes=(1, 4, 5, 3, 4))
SCORED, N = P.scored, len(P.scored)
GAMMAS, PENALTIES = [2.0, 1.5], [1.0, 2.0]
BASIS = np.asarray([1, 4, 5, 9, 12, 20, 25, 2, 7, 8])
ALPHAS, AGREEMENTS = [0.05, 0.5, 5.0], [0.0, 0.3, 3.0]
SCORINGS = {"squared": "loss", "rescaled": "rescaled", "disagreement": "disagreement"}


def views():
    return [View(slice(2 * v, 2 * v + 2), gamma=GAMMAS[v], penalty=PENALTIES[v]) for v in range(2)]


def learner(loss, basis="all", alphas=ALPHAS, agreements=AGREEMENTS, **options):
    rows = BASIS if basis == "subset" else basis
    if loss is REGRESSION:
        return CoRLS(views(), alphas, agreements, rows, **options)
    return CoRankRLS(views(), alphas, agreements, rows, loss.weighting, loss.beta, **options)


def looks(basis="all"):
    points = P.X[BASIS] if basis == "subset" else P.X
    return [Look(slice(2 * v, 2 * v + 2), rbf(GAMMAS[v]), points, PENALTIES[v]) for v in range(2)]


# ------------------------------------------------------------------ the nested loop, literally


def summed(errors, sizes):
    """The mean error and its standard error over what was held out."""
    errors, sizes = np.asarray(errors), np.asarray(sizes)
    return errors.sum() / sizes.sum(), standard_error(errors, sizes)


def literal_effect(
    loss,
    scoring,
    folds,
    *,
    basis="all",
    y=P.y,
    qid=None,
    weights=None,
    pairs=None,
    asked=AGREEMENTS,
):
    """folds : (N,) what is held out together. Every round leaves some folds out, chooses on the
    others, predicts them.
    """
    pairs = pairs or [(alpha, agreement) for agreement in AGREEMENTS for alpha in ALPHAS]
    labels, w = (
        np.zeros(len(P.X)) if qid is None else qid,
        (np.ones(len(P.X)) if weights is None else weights),
    )
    n = folds.max() + 1
    rounds = balanced_folds(n, min(10, n), np.random.default_rng([0, 1]))
    # an order is what rankers are for
    judge = "disagreement" if scoring == "rescaled" and loss.beta < 1 else scoring
    procedures = {"with": asked, "without": [0.0]}
    errors, sizes = {name: [] for name in procedures}, []
    intercept = loss is REGRESSION
    for number in np.unique(rounds):
        out = np.isin(folds, np.flatnonzero(rounds == number))
        # kept scored ones and all unscored ones
        rows = np.setdiff1d(np.arange(len(P.X)), SCORED[out])
        inner_rows, inner_folds = np.searchsorted(rows, SCORED[~out]), folds[~out]
        splits = [
            (inner_rows[inner_folds != k], inner_rows[inner_folds == k])
            for k in np.unique(inner_folds)
        ]
        data = {"qid": labels[rows], "weights": w[rows], "intercept": intercept}
        inner = leave_out_of_views(looks(basis), P.X[rows], y[rows], splits, pairs, loss, **data)
        found = fold_errors(inner, SCORINGS[scoring])
        slopes = best_slopes([part for part in inner if part.rank])
        models = fit_views_path(looks(basis), P.X[rows], y[rows], pairs, loss, **data)
        for k in np.unique(folds[out]):
            test = SCORED[folds == k]
            told = None
            for name, allowed in procedures.items():
                chosen = choose(*found, pairs, SCORINGS[scoring], allowed)
                f = models[chosen](P.X[test]).mean(axis=1)[:, None]
                part = LeftOut.of(y[test], f, labels[test], w[test], loss, models[chosen].offset)
                if judge == "disagreement":
                    told = len(part.shares)
                    errors[name] += [share[0] for share in part.shares]
                elif part.rank:
                    told = part.rank
                    errors[name].append(
                        part.losses(slopes[chosen] if judge == "rescaled" else 1.0)[0]
                    )
            if told:
                sizes.append(1 if judge == "disagreement" else told)
    return errors, sizes


def check(effect, errors, sizes, rtol=1e-5):
    assert isinstance(effect, UnscoredEffect)
    assert effect.error_with == pytest.approx(summed(errors["with"], sizes)[0], rel=rtol)
    assert effect.error_without == pytest.approx(summed(errors["without"], sizes)[0], rel=rtol)
    gap, spread = summed(np.subtract(errors["without"], errors["with"]), sizes)
    assert effect.difference == pytest.approx(gap, rel=1e-4, abs=1e-9)
    assert effect.standard_error == pytest.approx(spread, rel=1e-4, abs=1e-9)
    assert effect.n_held_out == len(sizes)
    sure = abs(gap) > 2 * spread
    unsure = (
        "made no difference"
        if effect.difference == effect.standard_error == 0
        else "cannot tell with this many scores"
    )
    assert effect.verdict == (("helped" if gap > 0 else "hurt") if sure else unsure)


def numbered(labels):
    return {label: k for k, label in enumerate(dict.fromkeys(labels))}


QUERY_FOLDS = np.asarray([numbered(P.qid[SCORED])[label] for label in P.qid[SCORED]])
ITEM_FOLDS = item_folds(P.y[SCORED])


@pytest.mark.parametrize(
    "loss", [REGRESSION, Loss("size"), Loss("unit"), Loss("unit", 0.3)], ids=str
)
@pytest.mark.parametrize("basis", ["all", "subset"])
@pytest.mark.parametrize("scoring", SCORINGS)
def test_queries_equal_a_literal_nested_loop(loss, basis, scoring):
    model = learner(loss, basis, scoring=scoring).fit(P.X, P.y, qid=P.qid)
    check(
        model.unscored_effect_, *literal_effect(loss, scoring, QUERY_FOLDS, basis=basis, qid=P.qid)
    )


@pytest.mark.parametrize("scoring", ["squared", "rescaled"])
@pytest.mark.parametrize("weights", [None, P.weights], ids=["plain", "weighted"])
def test_rows_equal_a_literal_nested_loop(scoring, weights):
    model = learner(REGRESSION, scoring=scoring).fit(P.X, P.y, sample_weight=weights)
    check(
        model.unscored_effect_, *literal_effect(REGRESSION, scoring, np.arange(N), weights=weights)
    )


@pytest.mark.parametrize("loss", [Loss("size"), Loss("unit"), Loss("query")], ids=str)
@pytest.mark.parametrize("scoring", SCORINGS)
def test_items_equal_a_literal_nested_loop(loss, scoring):
    model = learner(loss, scoring=scoring).fit(P.X, P.y)
    check(model.unscored_effect_, *literal_effect(loss, scoring, ITEM_FOLDS))


def test_fixed_parameters_are_judged_too():
    pairs = [(0.5, 0.0), (0.5, 3.0)]
    model = learner(Loss("size"), alphas=0.5, agreements=3.0, scoring="squared").fit(
        P.X, P.y, qid=P.qid
    )
    expected = literal_effect(
        Loss("size"), "squared", QUERY_FOLDS, qid=P.qid, pairs=pairs, asked=[3.0]
    )
    check(model.unscored_effect_, *expected)
    assert model.agreement_ == 3.0


def test_comparisons_equal_a_literal_nested_loop():
    rng = np.random.default_rng(1)
    winners, losers = np.arange(8), np.asarray([8, 9, 10, 11, 9, 10, 11, 8])
    margins, weights = rng.uniform(0.1, 2, size=8), rng.uniform(0.3, 2, size=8)
    pairs = [(alpha, agreement) for agreement in AGREEMENTS for alpha in ALPHAS]
    plain = np.setdiff1d(np.arange(len(P.X)), [*winners, *losers])
    errors = {"with": [], "without": []}
    rounds = balanced_folds(8, 8, np.random.default_rng([0, 1]))
    every = np.arange(7)
    splits = [(np.delete(every, k), every[k : k + 1]) for k in every]
    for number in range(8):
        kept, left = np.flatnonzero(rounds != number), np.flatnonzero(rounds == number)
        own = {"margins": margins[kept], "weights": weights[kept], "plain": plain}
        inner = leave_comparisons_out(
            looks(), P.X, winners[kept], losers[kept], splits, pairs, **own
        )
        found = fold_errors(inner, "loss")
        models = fit_views_comparisons(looks(), P.X, winners[kept], losers[kept], pairs, **own)
        for name, allowed in {"with": AGREEMENTS, "without": [0.0]}.items():
            f = models[choose(*found, pairs, "loss", allowed)](P.X).mean(axis=1)
            gap = f[winners[left]] - f[losers[left]]
            errors[name].append(float((weights[left] * (margins[left] - gap) ** 2)[0]))
    model = learner(Loss("size"), scoring="squared").fit_comparisons(
        P.X, winners, losers, margins=margins, weights=weights
    )
    check(model.unscored_effect_, errors, np.ones(8))


# ------------------------------------------------------------------ many scored rows


@pytest.mark.parametrize("basis", ["all", "subset"])
def test_with_many_scored_rows_the_choice_is_made_on_the_other_folds(monkeypatch, basis):
    monkeypatch.setattr("corank.solve.systems.FEW_UNITS", 0)
    pairs = [(alpha, agreement) for agreement in AGREEMENTS for alpha in ALPHAS]
    splits = [(SCORED[k != QUERY_FOLDS], SCORED[k == QUERY_FOLDS]) for k in range(5)]
    parts = leave_out_of_views(looks(basis), P.X, P.y, splits, pairs, Loss("size"), qid=P.qid)
    losses, sizes = fold_errors(parts, "loss")
    errors = {"with": [], "without": []}
    for name, allowed in {"with": AGREEMENTS, "without": [0.0]}.items():
        for k in range(len(losses)):  # fewer than ten folds: a round each
            others = np.delete(losses, k, axis=0), np.delete(sizes, k)
            errors[name].append(losses[k, choose(*others, pairs, "loss", allowed)])
    model = learner(Loss("size"), basis, scoring="squared").fit(P.X, P.y, qid=P.qid)
    check(model.unscored_effect_, errors, sizes)


# ------------------------------------------------------------------ verdicts


class Told:
    """Evidence whose nested errors are known."""

    grid, judge = Grid(np.ones(1), np.asarray([0.0, 1.0])), "disagreement"

    def __init__(self, with_, without):
        self.errors = {"with": with_, "without": without}

    def nested(self, agreements, judge):
        assert judge == "disagreement"
        assert list(agreements) == ["with", "without"]
        assert list(agreements["without"]) == [0.0]
        return {k: HeldOut(np.asarray(v)[:, None], np.ones(len(v))) for k, v in self.errors.items()}


@pytest.mark.parametrize(
    ("with_", "without", "verdict"),
    [
        ([1.0, 1.1, 0.9, 1.0], [2.0, 2.2, 1.9, 2.0], "helped"),
        ([2.0, 2.2, 1.9, 2.0], [1.0, 1.1, 0.9, 1.0], "hurt"),
        ([1.0, 3.0, 0.9, 1.0], [2.0, 2.2, 1.9, 0.5], "cannot tell with this many scores"),
        ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], "made no difference"),
    ],
)
def test_the_verdict_asks_for_two_standard_errors_of_the_paired_difference(with_, without, verdict):
    effect = unscored_effect(Told(with_, without))
    gaps = np.subtract(without, with_)
    assert effect.verdict == verdict
    assert effect.difference == pytest.approx(gaps.mean())
    assert effect.standard_error == pytest.approx(gaps.std(ddof=1) / np.sqrt(len(gaps)))
    assert str(effect).startswith(f"unscored rows: {verdict} (held-out error ")


def test_unscored_rows_of_two_views_with_private_structure_help_and_a_view_of_noise_does_not():
    data = make_two_views(n_unscored=300, random_state=1)
    own = [View(columns, kernel="linear") for columns in data.views]
    effect = CoRLS(own, basis="features", fit_intercept=False).fit(data.X, data.y).unscored_effect_
    assert effect.verdict == "helped"
    assert effect.difference > 2 * effect.standard_error > 0
    X = data.X.copy()
    X[:, data.views[1]] = np.random.default_rng(0).normal(size=X[:, data.views[1]].shape)
    noise = CoRLS(own, basis="features", fit_intercept=False).fit(X, data.y).unscored_effect_
    assert noise.verdict != "helped"


# ------------------------------------------------------------------ what there is nothing to say about


def test_nothing_to_agree_on_has_no_effect():
    with pytest.warns(UserWarning, match="only one view"):
        one = CoRLS([View(gamma=0.5)]).fit(P.X, P.y)
    assert one.unscored_effect_ is None
    with pytest.warns(UserWarning, match="nothing to agree on"):
        scored = CoRLS(views()).fit(P.X[SCORED], P.y[SCORED])
    assert scored.unscored_effect_ is None


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_few_scores_say_little_but_never_fail(n):
    y = np.where(np.isin(np.arange(len(P.X)), SCORED[:n]), P.y, np.nan)
    effect = CoRLS(views()).fit(P.X, y).unscored_effect_
    assert effect is None if n == 2 else isinstance(effect, UnscoredEffect)


# ------------------------------------------------------------------ what a model carries with it


@pytest.mark.parametrize("asked", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("parameters", ["tuned", "fixed"])
@pytest.mark.parametrize("unscored", [None, [(P.apart, P.apart_qid)]], ids=["in X", "in chunks"])
def test_a_fitted_model_pickles_before_and_after_it_was_asked(asked, parameters, unscored):
    chunks = (
        None if unscored is None else [(rows[np.argsort(q)], np.sort(q)) for rows, q in unscored]
    )
    fixed = {"alphas": 0.5, "agreements": 0.3} if parameters == "fixed" else {}
    model = learner(Loss("size"), **fixed).fit(P.X, P.y, qid=P.qid, unscored=chunks)
    expected = model.unscored_effect_ if asked else None
    copy = pickle.loads(pickle.dumps(model))
    assert copy.unscored_effect_ == (expected if asked else model.unscored_effect_)
    assert copy.unscored_effect_ is not None
    np.testing.assert_array_equal(copy.predict(P.X_new), model.predict(P.X_new))


def test_a_clone_forgets_what_was_fitted():
    model = learner(Loss("size")).fit(P.X, P.y, qid=P.qid)
    assert model.unscored_effect_ is not None
    fresh = clone(model)
    assert not hasattr(fresh, "coef_")
    assert fresh.get_params()["alpha"] == ALPHAS
    np.testing.assert_array_equal(
        fresh.fit(P.X, P.y, qid=P.qid).predict(P.X_new), model.predict(P.X_new)
    )


def test_fitting_again_forgets_the_effect_of_before():
    model = learner(REGRESSION).fit(P.X, P.y)
    first = model.unscored_effect_
    y = np.where(np.isnan(P.y), np.nan, np.random.default_rng(0).normal(size=len(P.y)))
    assert model.fit(P.X, y).unscored_effect_ != first


def test_a_large_model_of_one_agreement_keeps_nothing_to_judge_it_with(monkeypatch):
    monkeypatch.setattr("corank.solve.tuning.MAX_KEPT_SIZE", 0)
    monkeypatch.setattr("corank.solve.systems.FEW_UNITS", 0)
    model = learner(Loss("size"), "subset", agreements=3.0).fit(P.X, P.y, qid=P.qid)
    assert model.path_ is not None
    assert model.unscored_effect_ is None
