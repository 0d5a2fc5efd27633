"""What must not matter does not: properties that hold for every problem hypothesis can think of."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from corank import RLS, RankRLS

pytestmark = pytest.mark.usefixtures("one_blas_thread")

repeatable = settings(max_examples=12, deadline=None, derandomize=True, database=None)
NEW = np.random.default_rng(0).normal(size=(6, 3))
close = {"rtol": 1e-6, "atol": 1e-7}


@dataclass(frozen=True)
class Case:
    X: np.ndarray
    y: np.ndarray
    qid: np.ndarray


@st.composite
def cases(draw, equal_sizes=False):
    """Small problems: whole-number features (duplicates happen), few distinct scores (ties happen)."""
    n_queries = draw(st.integers(2, 4))
    size = st.just(draw(st.integers(2, 4))) if equal_sizes else st.integers(1, 5)
    sizes = [draw(size) for _ in range(n_queries)]
    n = sum(sizes)
    entries = st.integers(-3, 3)
    X = np.asarray(
        draw(st.lists(st.tuples(entries, entries, entries), min_size=n, max_size=n)), dtype=float
    )
    y = np.asarray(draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)), dtype=float)
    order = np.asarray(draw(st.permutations(range(n))))
    return Case(X, y, np.repeat(np.arange(n_queries), sizes)[order])


losses = st.tuples(st.sampled_from(["size", "unit", "query"]), st.sampled_from([0.0, 0.3]))
without_query = st.tuples(st.sampled_from(["size", "unit"]), st.sampled_from([0.0, 0.3]))
alphas = st.sampled_from([0.01, 0.3, 5.0])
rankings = st.sampled_from(["size", "unit", "query"])


def predictions(model, *rows, **options):
    with warnings.catch_warnings():  # that all scores are tied is no matter here
        warnings.filterwarnings("ignore", message="y: all scores are tied")
        return model.fit(*rows, **options).predict(NEW)


def ranker(weighting="size", beta=0.0, alpha=0.3, basis="all"):
    return RankRLS(alpha, basis, weighting, beta, gamma=0.2)


@repeatable
@given(cases(), losses, alphas, st.randoms(use_true_random=False))
@pytest.mark.parametrize("dual", [True, False], ids=["dual", "primal"])
def test_the_order_of_rows_does_not_matter(dual, case, loss, alpha, random):
    order = np.asarray(random.sample(range(len(case.y)), len(case.y)))
    basis = "all" if dual else np.arange(len(case.y))
    one = predictions(ranker(*loss, alpha, basis), case.X, case.y, qid=case.qid)
    other = predictions(
        ranker(*loss, alpha, basis), case.X[order], case.y[order], qid=case.qid[order]
    )
    np.testing.assert_allclose(one, other, **close)


@repeatable
@given(cases(), losses, st.permutations(range(4)))
def test_the_names_of_queries_do_not_matter(case, loss, names):
    expected = predictions(ranker(*loss), case.X, case.y, qid=case.qid)
    for labels in (
        np.asarray(names)[case.qid],
        [f"query {names[q]}" for q in case.qid],
        [(names[q], "a") for q in case.qid],
        np.asarray([0.5, -2.0, 1e9, 3.0])[case.qid],
    ):
        np.testing.assert_allclose(
            predictions(ranker(*loss), case.X, case.y, qid=labels), expected, **close
        )


@repeatable
@given(cases(), rankings, st.lists(st.integers(-50, 50), min_size=4, max_size=4))
@pytest.mark.parametrize("dual", [True, False], ids=["dual", "primal"])
def test_the_level_of_a_query_does_not_matter(dual, case, weighting, levels):
    basis = "all" if dual else np.arange(len(case.y))
    shifted = case.y + np.asarray(levels, dtype=float)[case.qid]
    one, other = (
        predictions(ranker(weighting, basis=basis), case.X, y, qid=case.qid)
        for y in (case.y, shifted)
    )
    np.testing.assert_allclose(one, other, **close)


@repeatable
@given(cases(), alphas)
@pytest.mark.parametrize("level", [1e3, -1e6])
def test_a_regressor_with_intercept_follows_the_level_of_all_scores(level, case, alpha):
    one, other = (predictions(RLS(alpha, gamma=0.2), case.X, y) for y in (case.y, case.y + level))
    np.testing.assert_allclose(one, other - level, **close)


@repeatable
@given(cases(), losses, st.sampled_from([-2.0, 0.5, 10.0]))
def test_predictions_scale_with_the_scores(case, loss, factor):
    one, other = (
        predictions(ranker(*loss), case.X, y, qid=case.qid) for y in (case.y, factor * case.y)
    )
    np.testing.assert_allclose(factor * one, other, **close)


@repeatable
@given(cases(), rankings, st.integers(1, 3))
def test_added_queries_of_one_item_do_not_matter(case, weighting, count):
    X = np.concatenate([case.X, np.arange(3.0 * count).reshape(count, 3)])
    y, qid = np.append(case.y, np.arange(count) * 7.0), np.append(case.qid, 100 + np.arange(count))
    one = predictions(ranker(weighting), case.X, case.y, qid=case.qid)
    np.testing.assert_allclose(predictions(ranker(weighting), X, y, qid=qid), one, **close)


@repeatable
@given(cases(), rankings, alphas)
@pytest.mark.parametrize("dual", [True, False], ids=["dual", "primal"])
def test_ties_everywhere_give_a_constant_function(dual, case, weighting, alpha):
    basis = "all" if dual else np.arange(len(case.y))
    tied = np.asarray([3.0, -1.0, 0.0, 2.0])[case.qid]
    found = predictions(ranker(weighting, 0.0, alpha, basis), case.X, tied, qid=case.qid)
    np.testing.assert_allclose(found, 0, atol=1e-12)


@repeatable
@given(cases(), st.sampled_from([2, 3]), alphas)
def test_all_rows_repeated_are_a_heavier_loss(case, times, alpha):
    X, y, qid = (np.concatenate([values] * times) for values in (case.X, case.y, case.qid))
    regress = [RLS(a, gamma=0.2) for a in (alpha, times * alpha)]
    np.testing.assert_allclose(
        predictions(regress[0], case.X, case.y), predictions(regress[1], X, y), **close
    )
    for weighting, factor in (("size", times), ("unit", times**2)):
        one = predictions(ranker(weighting, 0.0, alpha), case.X, case.y, qid=case.qid)
        other = predictions(ranker(weighting, 0.0, factor * alpha), X, y, qid=qid)
        np.testing.assert_allclose(one, other, **close)


@repeatable
@given(cases(), without_query, st.data())
@pytest.mark.parametrize("gamma", [0.2, "scale"])
def test_a_whole_weight_is_that_many_repetitions(gamma, case, loss, data):
    n = len(case.y)
    weights = np.asarray(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    assume(weights.sum() > 0)
    X, y, qid = (np.repeat(values, weights, axis=0) for values in (case.X, case.y, case.qid))
    for model in (RankRLS(0.3, "all", *loss, gamma=gamma), RLS(0.3, gamma=gamma)):
        one = predictions(model, case.X, case.y, qid=case.qid, sample_weight=weights)
        np.testing.assert_allclose(one, predictions(model, X, y, qid=qid), **close)


@repeatable
@given(cases(), without_query, st.sampled_from([0.1, 4.0]))
def test_a_common_weight_is_a_scale_of_alpha(case, loss, weight):
    weighting, beta = loss
    factor = weight if weighting == "size" or beta == 1 else weight**2
    # a blend of unit pairs and residuals has no common factor
    assume(weighting == "size" or beta == 0)
    weights = np.full(len(case.y), weight)
    one = predictions(ranker(weighting, beta), case.X, case.y, qid=case.qid)
    other = predictions(
        ranker(weighting, beta, 0.3 * factor), case.X, case.y, qid=case.qid, sample_weight=weights
    )
    np.testing.assert_allclose(one, other, **close)


@repeatable
@given(cases(equal_sizes=True), alphas)
@pytest.mark.parametrize("dual", [True, False], ids=["dual", "primal"])
def test_weightings_of_equal_queries_differ_by_a_scale_of_alpha(dual, case, alpha):
    m = int(np.bincount(case.qid)[0])
    basis = "all" if dual else np.arange(len(case.y))
    size, unit, query = (
        predictions(ranker(weighting, 0.0, own, basis), case.X, case.y, qid=case.qid)
        for weighting, own in (("size", alpha), ("unit", m * alpha), ("query", 2 * alpha / (m - 1)))
    )
    np.testing.assert_allclose(unit, size, **close)
    np.testing.assert_allclose(query, size, **close)


@repeatable
@given(cases(), losses, alphas)
def test_dual_and_primal_are_one_model(case, loss, alpha):
    dual = predictions(ranker(*loss, alpha), case.X, case.y, qid=case.qid)
    primal = predictions(ranker(*loss, alpha, np.arange(len(case.y))), case.X, case.y, qid=case.qid)
    np.testing.assert_allclose(dual, primal, **close)


@repeatable
@given(cases(), alphas)
def test_all_pairs_as_comparisons_are_the_unit_weighting(case, alpha):
    i, j = np.triu_indices(len(case.y), 1)
    same = case.qid[i] == case.qid[j]
    assume(same.any())
    better = case.y[i] >= case.y[j]
    winners, losers = np.where(better, i, j)[same], np.where(better, j, i)[same]
    model = RankRLS(alpha, np.arange(len(case.y)), gamma=0.2)
    model.fit_comparisons(case.X, winners, losers, margins=np.abs(case.y[i] - case.y[j])[same])
    expected = predictions(ranker("unit", 0.0, alpha), case.X, case.y, qid=case.qid)
    np.testing.assert_allclose(model.predict(NEW), expected, **close)


@repeatable
@given(cases(), losses, st.integers(0, 10**6))
def test_unscored_rows_do_not_matter(case, loss, seed):
    rng = np.random.default_rng(seed)
    X = np.concatenate([case.X, rng.normal(size=(4, 3))])
    y, qid = np.append(case.y, [np.nan] * 4), np.append(case.qid, rng.integers(0, 6, size=4))
    order = rng.permutation(len(y))
    one = predictions(ranker(*loss), case.X, case.y, qid=case.qid)
    np.testing.assert_allclose(
        predictions(ranker(*loss), X[order], y[order], qid=qid[order]), one, **close
    )


@repeatable
@given(cases(), rankings)
@pytest.mark.parametrize("dual", [True, False], ids=["dual", "primal"])
def test_held_out_errors_do_not_depend_on_names_and_levels(dual, case, weighting):
    basis = "all" if dual else np.arange(len(case.y))
    model = RankRLS([0.1, 1.0], basis, weighting, gamma=0.2)
    shifted = case.y + np.asarray([4.0, -8.0, 0.5, 16.0])[case.qid]
    errors = []
    for y, qid in ((case.y, case.qid), (shifted, [f"q{7 - q}" for q in case.qid])):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="y: all scores are tied|nothing was tuned")
            model.fit(case.X, y, qid=qid)
        errors.append(None if model.path_ is None else model.path_.error)
    assert (errors[0] is None) == (errors[1] is None)
    if errors[0] is not None:
        np.testing.assert_allclose(errors[0], errors[1], rtol=1e-6, atol=1e-9)
