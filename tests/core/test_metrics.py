"""The metrics against their definitions, pair by pair, and the scorers inside scikit-learn."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import kendalltau
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate

from corank.experiments.protocol import JUDGES
from corank.metrics import (
    HELD_OUT_ERRORS,
    MEASURES,
    average_precision,
    disagreement_error,
    ndcg,
    scorer,
)
from corank.solve.holdout import SCORINGS

TIES = ["skip", "half"]


def brute_force_error(y, score, weight, ties):
    """[Pahikkala2007] eq. 1 over the ordered pairs of one query: half of |sign - sign| over the
    number of pairs.
    """
    cost = total = 0.0
    for i in range(len(y)):
        for j in range(len(y)):
            if i == j or np.isnan(y[i]) or np.isnan(y[j]) or (ties == "skip" and y[i] == y[j]):
                continue
            pair = weight[i] * weight[j]
            cost += pair * abs(np.sign(y[i] - y[j]) - np.sign(score[i] - score[j])) / 2
            total += pair
    return cost / total if total > 0 else np.nan


def brute_force_errors(y, score, qid, weight, ties):
    labels = list(dict.fromkeys(qid))
    rows = [np.flatnonzero(np.array([q == label for q in qid])) for label in labels]
    return np.array([brute_force_error(y[r], score[r], weight[r], ties) for r in rows])


@st.composite
def tables(draw, weights=(1.0,)):
    few = st.integers(-2, 2).map(float)
    row = st.tuples(
        st.one_of(few, few, st.just(np.nan)),
        st.one_of(few, st.floats(-1e3, 1e3)),
        st.sampled_from(["b", "a", "d", "c"]),
        st.sampled_from(weights),
    )
    y, score, qid, weight = zip(*draw(st.lists(row, min_size=1, max_size=40)), strict=True)
    return np.array(y), np.array(score), list(qid), np.array(weight)


@pytest.mark.parametrize("ties", TIES)
@settings(max_examples=50, deadline=None, derandomize=True)
@given(table=tables())
def test_disagreement_equals_counting_every_pair(ties, table):
    y, score, qid, weight = table
    expected = brute_force_errors(y, score, qid, weight, ties)
    np.testing.assert_array_equal(
        disagreement_error(y, score, qid, ties=ties, average=False), expected
    )
    if not np.isnan(expected).all():
        assert disagreement_error(y, score, qid, ties=ties) == pytest.approx(
            np.nanmean(expected), rel=1e-12
        )


@pytest.mark.parametrize("ties", TIES)
@settings(max_examples=50, deadline=None, derandomize=True)
@given(table=tables(weights=(0.0, 1e-6, 0.3, 1.0, 7.0, 1e6)))
def test_weighted_disagreement_equals_weighing_every_pair(ties, table):
    y, score, qid, weight = table
    errors = disagreement_error(y, score, qid, sample_weight=weight, ties=ties, average=False)
    np.testing.assert_allclose(
        errors, brute_force_errors(y, score, qid, weight, ties), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("ties", TIES)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(table=tables(), seed=st.integers(0, 2**32 - 1))
def test_disagreement_ignores_row_order_and_monotone_transforms(ties, table, seed):
    y, score, qid, _ = table
    order = np.random.default_rng(seed).permutation(len(y))
    qid = np.array(qid)
    label_order = np.argsort(list(dict.fromkeys(qid)))
    shuffled_order = np.argsort(list(dict.fromkeys(qid[order])))
    # same order and ties, other values
    levels = np.unique(score, return_inverse=True)[1].astype(float) ** 3 - 5
    before = disagreement_error(y, score, qid, ties=ties, average=False)
    after = disagreement_error(y[order], levels[order], qid[order], ties=ties, average=False)
    np.testing.assert_array_equal(after[shuffled_order], before[label_order])


@pytest.mark.parametrize("ties", TIES)
def test_queries_of_every_size_equal_counting_every_pair(ties):
    rng = np.random.default_rng(0)
    qid = rng.permutation(np.repeat(np.arange(40), np.arange(40)))
    y, score, weight = (
        rng.integers(0, 6, len(qid)).astype(float),
        rng.integers(0, 9, len(qid)),
        rng.random(len(qid)),
    )
    ones = np.ones(len(qid))
    errors = disagreement_error(y, score, qid, ties=ties, average=False)
    np.testing.assert_array_equal(errors, brute_force_errors(y, score, qid, ones, ties))
    errors = disagreement_error(y, score, qid, weight, ties=ties, average=False)
    np.testing.assert_allclose(errors, brute_force_errors(y, score, qid, weight, ties), rtol=1e-12)


@pytest.mark.parametrize("n_rows", [65_535, 65_537])
def test_large_query_agrees_with_kendall(n_rows):
    rng = np.random.default_rng(1)
    y = rng.normal(size=n_rows)
    score = y + rng.normal(size=n_rows)
    expected = (1 - kendalltau(y, score).statistic) / 2
    assert disagreement_error(y, score) == pytest.approx(expected, rel=1e-12)
    assert disagreement_error(y, score, sample_weight=np.full(n_rows, 0.1)) == pytest.approx(
        expected, rel=1e-12
    )


def test_many_queries_are_independent_of_how_they_are_batched():
    rng = np.random.default_rng(2)
    sizes = rng.integers(0, 20, 30_000)
    qid = np.repeat(np.arange(30_000), sizes)
    y, score = rng.integers(0, 3, len(qid)), rng.normal(size=len(qid))
    errors = disagreement_error(y, score, qid, average=False)
    present = np.flatnonzero(sizes)
    assert len(errors) == len(present)
    for place in rng.choice(len(present), 50, replace=False):
        rows = qid == present[place]
        np.testing.assert_array_equal(
            errors[place], disagreement_error(y[rows], score[rows], average=False)[0]
        )


def test_perfect_reversed_and_constant_scores():
    y = np.arange(10.0)
    assert disagreement_error(y, y) == 0
    assert disagreement_error(y, -y) == 1
    for ties in TIES:
        assert disagreement_error(y, np.zeros(10), ties=ties) == 0.5


def test_disagreement_of_two_classes_is_one_less_the_area():
    rng = np.random.default_rng(0)
    classes = np.arange(40) % 2
    scores = np.round(classes + rng.standard_normal(40), 1)  # some are tied
    area = roc_auc_score(classes, scores)
    assert disagreement_error(classes, scores) == pytest.approx(1 - area, abs=1e-12)


def test_ties_modes_on_a_case_done_by_hand():
    # pairs: 01 tied in y only, 02 and 12 in order, 03 tied in both, 13 tied in y only, 23 in order
    y, score = [1, 1, 2, 1], [3, 4, 5, 3]
    assert disagreement_error(y, score, ties="skip") == 0
    assert disagreement_error(y, score, ties="half") == 1 / 6
    # 01 and 02 tied in score only, 12 in order
    assert disagreement_error([1, 2, 3], [0, 0, 0.5], ties="skip") == 0.5 / 3


def test_light_rows_keep_their_precision_beside_heavy_ones():
    y, score = np.array([0, 0, 1, 2]), np.array([5, 5, 7, 6])
    weight = np.array([1e12, 1e12, 1e-12, 1e-12])
    assert disagreement_error(y, score + 0.0, sample_weight=weight) == pytest.approx(
        1e-24 / 4, rel=1e-12
    )
    for scale in (1e-200, 1e200):
        assert disagreement_error(
            [0, 1, 2], [0, 2, 1], sample_weight=np.full(3, scale)
        ) == pytest.approx(1 / 3)


def test_integer_weights_equal_repeated_rows_in_skip_mode():
    rng = np.random.default_rng(3)
    y, score, times = rng.integers(0, 4, 30), rng.integers(0, 5, 30), rng.integers(0, 4, 30)
    repeated = disagreement_error(np.repeat(y, times), np.repeat(score, times))
    assert disagreement_error(y, score, sample_weight=times) == pytest.approx(repeated, rel=1e-14)


def test_average_false_keeps_order_of_first_appearance_and_a_slot_for_every_query():
    y = [1, np.nan, 2, 3, 1, np.nan, 5, 5]
    qid = ["z", "gone", "b", "z", "b", "a", "tied", "tied"]
    score = [1, 0, 2, 0, 1, 7, 1, 2]
    skip = disagreement_error(y, score, qid, average=False)
    np.testing.assert_array_equal(skip, [1, np.nan, 0, np.nan, np.nan])  # z, gone, b, a, tied
    half = disagreement_error(y, score, qid, ties="half", average=False)
    np.testing.assert_array_equal(half, [1, np.nan, 0, np.nan, 0.5])
    assert disagreement_error(y, score, qid) == 0.5


def test_large_integers_are_compared_exactly():
    y = np.array([2**60, 2**60 + 1, 2**60 + 2])
    assert disagreement_error(y, y[::-1]) == 1


@pytest.mark.parametrize("metric", [disagreement_error, ndcg, average_precision])
def test_nothing_to_compare_is_nan_with_a_warning(metric):
    for y in ([np.nan, np.nan], [0.0, 0.0], [0.0], []):
        with pytest.warns(UserWarning, match="nothing to compare"):
            assert np.isnan(metric(y, np.zeros(len(y))))
        np.testing.assert_array_equal(metric(y, np.zeros(len(y)), average=False), [np.nan])


@pytest.mark.parametrize("metric", [disagreement_error, ndcg, average_precision])
@pytest.mark.parametrize(
    ("y", "score", "message"),
    [
        ([0, 1], [np.nan, 1], "y_score has NaN or infinite"),
        ([0, 1], [np.inf, 1], "y_score has NaN or infinite"),
        ([0, np.inf], [0, 1], "y_true has infinite"),
        ([0, 1], [0, 1, 2], "y_score has 3 values for the 2 rows"),
        ([[0], [1]], [0, 1], r"y_true has shape \(2, 1\)"),
        (["a", "b"], [0, 1], "y_true has dtype"),
        ([0, 1], np.array([0, "a"], dtype=object), "y_score holds values that are not numbers"),
    ],
)
def test_bad_columns_are_named(metric, y, score, message):
    with pytest.raises(ValueError, match=message):
        metric(y, score)


@pytest.mark.parametrize("weight", [[1, -1], [1, np.nan], [np.inf, 1]])
def test_bad_weights_are_refused(weight):
    with pytest.raises(ValueError, match="sample_weight has negative, NaN or infinite"):
        disagreement_error([0, 1], [0, 1], sample_weight=weight)


def test_other_bad_arguments_are_named():
    with pytest.raises(ValueError, match="ties='none' is unknown"):
        disagreement_error([0, 1], [0, 1], ties="none")
    with pytest.raises(ValueError, match="qid"):
        disagreement_error([0, 1], [0, 1], qid=[1])
    with pytest.raises(ValueError, match="y_true has negative values"):
        ndcg([-1, 1], [0, 1])
    with pytest.raises(ValueError, match="y_true has values other than 0 and 1"):
        average_precision([0, 2], [0, 1])


def test_frames_and_tensors_give_the_same_as_arrays():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    y, score, qid = [2.0, 1.0, np.nan, 0.0, 3.0], [1.0, 2.0, 0.0, 3.0, 0.5], [1, 2, 2, 2, 1]
    expected = disagreement_error(y, score, qid)
    assert (
        disagreement_error(pd.Series(y, index=list("edcba")), pd.Series(score), pd.Series(qid))
        == expected
    )
    assert disagreement_error(pd.Series([2, 1, pd.NA, 0, 3], dtype="Int64"), score, qid) == expected
    assert (
        disagreement_error(pl.Series([2, 1, None, 0, 3]), pl.Series(score), pl.Series(qid))
        == expected
    )


def test_torch_tensors_give_the_same_as_arrays():
    torch = pytest.importorskip("torch")
    y, score, qid = [2.0, 1.0, np.nan, 0.0, 3.0], [1.0, 2.0, 0.0, 3.0, 0.5], [1, 2, 2, 2, 1]
    tensors = torch.tensor(y), torch.tensor(score, requires_grad=True), torch.tensor(qid)
    assert disagreement_error(*tensors) == disagreement_error(y, score, qid)


@pytest.mark.parametrize("k", [None, 2])
def test_ndcg_equals_scikit_learn_query_by_query(k):
    rng = np.random.default_rng(4)
    sizes = [5, 3, 8, 1, 4]
    qid = np.repeat(list("cabed"), sizes)
    y, score = (
        rng.integers(0, 4, len(qid)).astype(float),
        rng.integers(0, 4, len(qid)).astype(float),
    )
    y[qid == "d"] = 0  # no gain
    expected = [ndcg_score([y[qid == q]], [score[qid == q]], k=k) for q in "cab"]
    y, score, qid = (np.append(a, extra) for a, extra in ((y, np.nan), (score, 9.0), (qid, "c")))
    # logarithms and sums of arrays of another length may round otherwise
    np.testing.assert_allclose(
        ndcg(y, score, qid, k=k, average=False), [*expected, np.nan, np.nan], rtol=1e-12
    )
    assert ndcg(y, score, qid, k=k) == pytest.approx(np.mean(expected), rel=1e-12)


def test_average_precision_equals_scikit_learn_query_by_query():
    rng = np.random.default_rng(5)
    qid = np.repeat(list("cabd"), [5, 3, 8, 4])
    y, score = rng.random(len(qid)) < 0.5, rng.integers(0, 4, len(qid))
    y[[0, 5, 8]] = True
    y[qid == "d"] = False
    expected = [average_precision_score(y[qid == q], score[qid == q]) for q in "cab"]
    np.testing.assert_allclose(
        average_precision(y, score, qid, average=False), [*expected, np.nan], rtol=1e-12
    )
    with_unscored = np.append(y.astype(float), np.nan), np.append(score, 9), np.append(qid, "c")
    assert average_precision(*with_unscored) == pytest.approx(np.mean(expected), rel=1e-12)


class Column(BaseEstimator):
    """Predicts one column of X."""

    def __init__(self, column=0):
        self.column = column

    def fit(self, X, y):
        return self

    def predict(self, X):
        return X[:, self.column]


@pytest.fixture
def items():
    rng = np.random.default_rng(6)
    users = rng.permutation(np.repeat(np.arange(12), 6))
    y = rng.integers(0, 2, len(users)).astype(float)
    X = np.column_stack([rng.normal(size=len(users)), y + rng.normal(size=len(users))])
    X += 100 * users[:, np.newaxis]  # only comparisons within a user make sense
    y[rng.choice(len(users), 5, replace=False)] = np.nan
    return X, y, users


@pytest.mark.parametrize(
    ("name", "metric", "sign"),
    [
        ("disagreement", disagreement_error, -1),
        ("ndcg", ndcg, 1),
        ("average_precision", average_precision, 1),
    ],
)
def test_scorers_read_the_queries_from_groups(items, name, metric, sign):
    X, y, users = items
    with config_context(enable_metadata_routing=True):
        cv = GroupKFold(3)
        result = cross_validate(
            Column(1), X, y, scoring=scorer(name), cv=cv, params={"groups": users}
        )
        tests = [test for _, test in cv.split(X, y, users)]
        search = GridSearchCV(Column(), {"column": [0, 1]}, scoring=scorer(name), cv=cv).fit(
            X, y, groups=users
        )
    expected = [sign * metric(y[test], X[test, 1], users[test]) for test in tests]
    np.testing.assert_array_equal(result["test_score"], expected)
    assert search.best_params_ == {"column": 1}
    assert search.best_score_ == pytest.approx(np.mean(expected), rel=1e-12)


def test_disagreement_scorer_uses_weights_where_passed(items):
    X, y, users = items
    weight = np.random.default_rng(7).random(len(y))
    with config_context(enable_metadata_routing=True):
        cv = GroupKFold(2)
        params = {"groups": users, "sample_weight": weight}
        result = cross_validate(
            Column(1), X, y, scoring=scorer("disagreement"), cv=cv, params=params
        )
        tests = [test for _, test in cv.split(X, y, users)]
    expected = [
        -disagreement_error(y[test], X[test, 1], users[test], weight[test]) for test in tests
    ]
    np.testing.assert_array_equal(result["test_score"], expected)


def test_scorer_asks_for_metadata_routing_and_a_known_name():
    with (
        config_context(enable_metadata_routing=False),
        pytest.raises(RuntimeError, match="enable_metadata_routing=True"),
    ):
        scorer("ndcg")
    with pytest.raises(ValueError, match="name='auc' is unknown; give \"disagreement\""):
        scorer("auc")


def test_every_measure_says_how_it_is_read():
    for name, measure in MEASURES.items():
        least, largest = measure.range
        assert least < largest, name
        assert measure.title
        # the end that is best is told apart from the worse one
        best = least if measure.lower_is_better else largest
        if np.isfinite(best) and "perfect" in measure.reading:
            assert f"{best:g} is perfect" in measure.reading, name
    assert MEASURES["ndcg"].lower_is_better is False
    assert set(JUDGES) <= set(MEASURES)
    assert set(SCORINGS) == set(HELD_OUT_ERRORS)
