"""What columns become."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import ndtri

from corank import AutoRegressor, Candidate
from corank.learners.average.encoding import (
    AS_GIVEN,
    BOTH_RANKS,
    QUERY_RANKS,
    RANKS,
    STANDARD,
    NormalScores,
    fit_encoding,
)

rng = np.random.default_rng(0)
X = np.column_stack(
    [rng.standard_normal(60), rng.exponential(size=60), np.full(60, 7.0), rng.integers(0, 3, 60)]
)
QUERIES = np.repeat(np.arange(6), 10)


@pytest.mark.parametrize("name", [STANDARD, RANKS, QUERY_RANKS])
def test_constant_columns_are_dropped(name):
    encoding = fit_encoding(name, X, QUERIES)
    assert encoding.columns.tolist() == [0, 1, 3]
    assert encoding.encode(X, QUERIES).shape == (60, 3)


def test_standardised_columns_have_mean_0_and_spread_1():
    encoded = fit_encoding(STANDARD, X, None).encode(X, None)
    np.testing.assert_allclose(encoded.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(encoded.std(axis=0), 1)


def test_normal_scores_depend_on_ranks_alone():
    column = rng.permutation(41).astype(float)[:, None]
    encoding = fit_encoding(RANKS, column, None)
    np.testing.assert_allclose(
        encoding.encode(column, None)[:, 0], ndtri((column[:, 0] + 0.5) / 41)
    )
    stretched = fit_encoding(RANKS, np.exp(column / 5), None)
    np.testing.assert_allclose(
        stretched.encode(np.exp(column / 5), None), encoding.encode(column, None)
    )


def test_new_values_lie_between_their_neighbours_and_within_the_ends():
    encoding = fit_encoding(RANKS, np.arange(5.0)[:, None], None)
    values = encoding.encode(np.array([[-1e12], [0.0], [1.5], [4.0], [1e12]]), None)[:, 0]
    assert values[0] == values[1]
    assert values[3] == values[4]
    assert values[1] < values[2] < values[3]


def test_normal_scores_within_queries_ignore_other_queries():
    encoding = fit_encoding(QUERY_RANKS, X, QUERIES)
    moved = X + 100.0 * QUERIES[:, None]
    np.testing.assert_allclose(encoding.encode(moved, QUERIES), encoding.encode(X, QUERIES))
    order = rng.permutation(60)
    np.testing.assert_allclose(
        encoding.encode(X[order], QUERIES[order]), encoding.encode(X, QUERIES)[order]
    )


def test_normal_scores_of_both_kinds_stand_side_by_side():
    parts = [fit_encoding(name, X, QUERIES) for name in (RANKS, QUERY_RANKS)]
    both = fit_encoding(BOTH_RANKS, X, QUERIES)
    np.testing.assert_array_equal(
        both.encode(X, QUERIES), np.hstack([part.encode(X, QUERIES) for part in parts])
    )
    assert both.columns.tolist() == [0, 1, 3, 0, 1, 3]
    assert fit_encoding(BOTH_RANKS, X, None) is None
    same_in_queries = QUERIES[:, None].astype(float)  # nothing to rank within them
    assert fit_encoding(BOTH_RANKS, same_in_queries, QUERIES) is None


def test_an_outlier_does_not_hide_the_other_rows():
    with_outlier = X.copy()
    with_outlier[0, 0] = 1e12
    encoded = fit_encoding(STANDARD, with_outlier, None).encode(with_outlier, None)[:, 0]
    assert np.ptp(encoded[1:]) > 0.2
    assert abs(encoded[0]) < 50


@pytest.mark.parametrize("name", [STANDARD, AS_GIVEN])
def test_csr_stays_csr(name):
    rows = sparse.csr_array(np.where(rng.random((20, 8)) < 0.3, 2.0, 0.0))
    encoding = fit_encoding(name, rows, None)
    encoded = encoding.encode(rows, None)
    assert sparse.issparse(encoded)
    dense = rows.toarray()[:, encoding.columns]
    scale = np.sqrt((dense**2).mean(axis=0)) if name == STANDARD else 1.0
    np.testing.assert_allclose(encoded.toarray(), dense / scale)
    assert fit_encoding(RANKS, rows, None) is None


def test_values_beyond_encoded_rows_count_as_the_nearest_where_that_is_asked_for():
    X = np.random.default_rng(3).standard_normal((60, 2))
    encoding = NormalScores.fit(X)
    some = encoding.encode(X[:20], None)
    limited = encoding.within(some)
    expected = np.clip(encoding.encode(4 * X, None), some.min(axis=0), some.max(axis=0))
    np.testing.assert_allclose(limited.encode(4 * X, None), expected)
    np.testing.assert_allclose(limited.limited(encoding.encode(4 * X, None)), expected)
    np.testing.assert_array_equal(limited.encode(X[:20], None), some)


@pytest.mark.parametrize("n", [140, 160])
def test_a_regressor_of_many_scores_predicts_beyond_them_what_it_does_at_the_nearest(n):
    rows = np.linspace(0, 1, 200)[:, None]
    scores = np.where(np.arange(200) < n, rows[:, 0] ** 2, np.nan)
    model = AutoRegressor(candidates=[Candidate(RANKS, "rbf")]).fit(rows, scores)
    beyond, nearest = model.predict(rows[n:]), model.predict(rows[[n - 1]])
    assert np.allclose(beyond, nearest) == (n >= 150)
