"""Odd but legal: one row, one query, ties, constant or duplicate rows give a sane model, and a word
where one is due.
"""

import numpy as np
import pytest

from corank import RLS, RankRLS
from corank.core.registry import learner_class, learner_records

pytestmark = pytest.mark.usefixtures("one_blas_thread")

RNG = np.random.default_rng(72)
N = 12
X, Y, QID = RNG.normal(size=(N, 3)), RNG.normal(size=N), np.repeat(np.arange(3), 4)
BASES = {"dual": ("all", {}), "subset": ([0], {}), "features": ("features", {"kernel": "linear"})}
every_basis = pytest.mark.parametrize("basis", BASES)
both = pytest.mark.parametrize("learner", [RLS, RankRLS])
every_alpha = pytest.mark.parametrize("alpha", [1.0, [0.1, 1.0], "tune"], ids=str)
untuned = pytest.mark.filterwarnings("ignore:nothing was tuned")
tied = pytest.mark.filterwarnings("ignore:y. all scores are tied")


def make(learner, basis, alpha=1.0, **options):
    spec, own = BASES[basis]
    return learner(alpha, spec, **own, **options)


@every_basis
@both
@every_alpha
@untuned
@tied
def test_one_row(basis, learner, alpha):
    found = make(learner, basis, alpha).fit(X[:1], Y[:1]).predict(X)
    np.testing.assert_allclose(found, Y[0] if learner is RLS else 0, atol=1e-12)


@every_basis
@both
@every_alpha
@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("scoring", ["squared", "rescaled", "disagreement"])
@untuned
@tied
def test_a_few_rows(basis, learner, alpha, n, scoring):
    found = make(learner, basis, alpha, scoring=scoring).fit(X[:n], Y[:n]).predict(X)
    assert np.all(np.isfinite(found))
    assert np.max(np.abs(found)) < 100


@every_basis
@every_alpha
def test_one_query_is_no_query(basis, alpha):
    one = make(RankRLS, basis, alpha).fit(X, Y, qid=["only"] * N).predict(X)
    none = make(RankRLS, basis, alpha).fit(X, Y).predict(X)
    # means within queries may be added in another order than the mean of all; 1e-6: a small alpha
    # magnifies that
    np.testing.assert_allclose(one, none, rtol=0, atol=1e-6 * np.ptp(none))


@every_basis
@every_alpha
@pytest.mark.parametrize("scoring", ["squared", "rescaled", "disagreement"])
@untuned
@tied
def test_queries_of_one_item_each(basis, alpha, scoring):
    found = make(RankRLS, basis, alpha, scoring=scoring).fit(X, Y, qid=np.arange(N)).predict(X)
    np.testing.assert_allclose(found, 0, atol=1e-12)


@every_basis
@every_alpha
@pytest.mark.parametrize("level", [0.0, 1.0, 1e9 + 0.1])
@pytest.mark.parametrize("scoring", ["squared", "rescaled", "disagreement"])
@untuned
def test_a_ranker_says_that_all_scores_are_tied(basis, alpha, level, scoring):
    scores = level + np.asarray([0.0, 5.0, 2.0])[QID]
    with pytest.warns(UserWarning, match="all scores are tied within every query"):
        model = make(RankRLS, basis, alpha, scoring=scoring).fit(X, scores, qid=QID)
    np.testing.assert_allclose(model.predict(X), 0, atol=1e-6 if level > 1e6 else 1e-12)


@every_basis
@pytest.mark.parametrize("alpha", [1.0, "tune"])
@pytest.mark.parametrize("level", [0.0, 3.0])
def test_a_regressor_has_nothing_against_equal_scores(basis, alpha, level):
    found = make(RLS, basis, alpha).fit(X, np.full(N, level)).predict(X)
    np.testing.assert_allclose(found, level, atol=1e-12)


def test_ties_of_a_single_query_among_others_are_no_matter():
    scores = np.where(np.isin(QID, 0), 1.0, Y)
    assert np.ptp(RankRLS(1.0).fit(X, scores, qid=QID).predict(X)) > 0.1


@every_basis
@both
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_constant_columns(basis, learner, value):
    same = np.full((N, 2), value)
    found = make(learner, basis, "tune").fit(same, Y, qid=QID).predict(same)
    assert np.ptp(found) < 1e-12
    np.testing.assert_allclose(found, 0 if learner is RankRLS else Y.mean(), atol=0.5 * np.std(Y))


@pytest.mark.parametrize("basis", ["dual", "subset"])
@both
def test_a_constant_column_among_others_does_not_matter_to_distances(basis, learner):
    more = np.concatenate([X, np.full((N, 1), 7.0)], axis=1)
    one, other = (
        make(learner, basis, gamma=0.3).fit(rows, Y, qid=QID).predict(rows) for rows in (X, more)
    )
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@every_basis
@both
@every_alpha
def test_duplicate_rows_get_one_prediction(basis, learner, alpha):
    twice = np.repeat(X[:6], 2, axis=0)
    found = make(learner, basis, alpha).fit(twice, Y, qid=QID).predict(twice)
    np.testing.assert_allclose(found[::2], found[1::2], rtol=1e-10, atol=1e-12)
    assert np.max(np.abs(found)) < 10


@every_basis
@both
@every_alpha
def test_one_column(basis, learner, alpha):
    found = make(learner, basis, alpha).fit(X[:, :1], Y, qid=QID).predict(X[:, :1])
    assert np.all(np.isfinite(found))


@both
@pytest.mark.parametrize("alpha", [1e-20, 1e-300])
@pytest.mark.parametrize("seed", range(4))
def test_an_alpha_below_rounding_is_refused_or_harmless(learner, alpha, seed):
    # every query is one item, four times
    twice = np.repeat(np.random.default_rng(seed).normal(size=(3, 3)), 4, axis=0)
    try:
        found = learner(alpha, "all").fit(twice, Y, qid=QID).predict(twice)
    except ValueError as error:
        assert "alpha" in str(error)  # noqa: PT017
    else:
        assert np.max(np.abs(found)) < 100


@both
def test_tiny_and_large_features_and_scores(learner):
    expected = learner(basis="all").fit(X, Y, qid=QID).predict(X)
    for scale in (1e-50, 1e50):
        np.testing.assert_allclose(
            learner(basis="all").fit(X * scale, Y, qid=QID).predict(X * scale), expected, rtol=1e-6
        )
        found = learner(basis="all").fit(X, Y * scale, qid=QID).predict(X)
        np.testing.assert_allclose(found, expected * scale, rtol=1e-6)


def test_too_little_to_hold_out_is_said():
    with pytest.warns(UserWarning, match="nothing was tuned") as said:
        model = RankRLS().fit(X[:3], Y[:3])
    assert said[0].filename == __file__
    assert model.path_ is None
    assert model.alpha_ > 0


def test_a_list_that_cannot_be_tuned_is_not_called_the_scale_of_the_data():
    with pytest.warns(UserWarning, match="nothing was tuned") as said:
        model = RankRLS([5.0, 1.0, 3.0]).fit(X[:3], Y[:3])
    assert model.alpha_ in (5.0, 1.0, 3.0)
    assert "the scale of the data" not in str(said[0].message)


def test_one_comparison_is_enough():
    model = RankRLS(1.0).fit_comparisons(X, [3], [7])
    assert model.predict(X)[3] > model.predict(X)[7]
    np.testing.assert_array_equal(np.sort(model.basis_), [3, 7])


def test_ties_alone_are_a_constant():
    found = RankRLS(1.0).fit_comparisons(X, [0, 1], [2, 3], margins=[0, 0]).predict(X)
    np.testing.assert_allclose(found, 0, atol=1e-14)


def test_contradicting_comparisons_cancel():
    found = RankRLS(1.0).fit_comparisons(X, [0, 1], [1, 0]).predict(X)
    np.testing.assert_allclose(found, 0, atol=1e-12)


def test_lists_are_arrays():
    found = RankRLS([0.1, 1.0]).fit(
        X.tolist(), Y.tolist(), qid=QID.tolist(), sample_weight=[2.0] * N
    )
    expected = RankRLS([0.1, 1.0]).fit(X, Y, qid=QID, sample_weight=np.full(N, 2.0))
    np.testing.assert_array_equal(found.predict(X.tolist()), expected.predict(X))


@pytest.mark.parametrize("record", learner_records(), ids=lambda record: record.name)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_interrupted_fit_leaves_the_model_as_it_was(record):
    learner = learner_class(record.name)
    left = [-1]  # how many attributes may be set before Ctrl-C is pressed; below 0: any number

    def interrupted(self, name, value):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        object.__setattr__(self, name, value)

    model = type(learner.__name__, (learner,), {"__setattr__": interrupted})()
    model.fit(X, Y, qid=QID)
    before = dict(vars(model))
    columns, most = X[:, :2], 100
    for moment in (1, 4, 8, 12, most):
        left[0] = moment
        try:
            model.fit(columns, Y, qid=QID)
        except KeyboardInterrupt:
            assert vars(model).keys() == before.keys()
            assert all(vars(model)[name] is before[name] for name in before)
        else:
            assert 0 < left[0] < most
            assert model.n_features_in_ == 2
            break
