"""Links between items: how they are read, how features spread along them, and the transformer for
pipelines.
"""

import tracemalloc

import dask.array
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline, make_union
from sklearn.utils.estimator_checks import parametrize_with_checks

from corank import AutoRegressor, LinkEncoder, RankRLS, scan
from corank.links import COLUMNS_AT_A_TIME, propagated, read_links, spread_matrix

EDGES = [(0, 1), (1, 0), (1, 2), (1, 2), (3, 3)]
NAMES = ["a", "b", "c", "d"]
NAMED = [(NAMES[first], NAMES[second]) for first, second in EDGES]
MUTUAL = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]


def columns(edges):
    first, second = zip(*edges, strict=True)
    return {"from": list(first), "to": list(second)}


def random_links(n, m, seed=0, *, directed=False):
    edges = np.random.default_rng(seed).integers(0, n, (m, 2))
    return read_links(edges, n, directed=directed).matrix


def literal_spread(A):
    """P of dense weights, as the formula says."""
    looped = A + np.eye(len(A))
    return np.diag(looped.sum(axis=1) ** -0.5) @ looped @ np.diag(looped.sum(axis=0) ** -0.5)


def literal_propagation(P, W, hops, kept):
    """F of dense matrices, as the formula says."""
    return (
        sum((1 - kept) * np.linalg.matrix_power(P, k) @ W + kept * W for k in range(1, hops + 1))
        / hops
    )


# ---- reading


@pytest.mark.parametrize(
    "given",
    [
        EDGES,
        np.array(EDGES),
        np.array(EDGES, dtype=float),
        pa.table(columns(EDGES)),
        pd.DataFrame(columns(EDGES)),
        pl.DataFrame(columns(EDGES)),
        columns(EDGES),
    ],
    ids=["list", "array", "floats", "arrow", "pandas", "polars", "dict"],
)
def test_edges_are_read_alike_in_every_form(given):
    result = read_links(given, 4)
    assert result.matrix.toarray().tolist() == MUTUAL
    assert (result.n_given, result.n_unknown, result.n_self, result.n_repeated) == (5, 0, 1, 1)


@pytest.mark.parametrize(
    "ids", [NAMES, np.array(NAMES), pd.Series(NAMES), pd.Categorical(NAMES), pa.array(NAMES)]
)
def test_edges_by_name_are_those_of_the_rows_with_these_names(ids):
    for given in (
        NAMED,
        pd.DataFrame(columns(NAMED)),
        pd.DataFrame(columns(NAMED), dtype="category"),
    ):
        result = read_links(given, 4, ids=ids)
        assert result.matrix.toarray().tolist() == MUTUAL
    shuffled = [3, 1, 0, 2]
    result = read_links(NAMED, 4, ids=[NAMES[row] for row in shuffled])
    assert result.matrix.toarray().tolist() == np.array(MUTUAL)[np.ix_(shuffled, shuffled)].tolist()


@pytest.mark.parametrize(
    "kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.lil_array]
)
def test_a_sparse_matrix_holds_weights(kind):
    weights = np.array([[5.0, 2, 0], [1, 0, 0], [0, 0.5, 0]])
    result = read_links(kind(weights), 3)
    assert result.matrix.toarray().tolist() == [[0, 2, 0], [2, 0, 0.5], [0, 0.5, 0]]
    assert result.n_self == 1
    directed = read_links(kind(weights), 3, directed=True)
    assert directed.matrix.toarray().tolist() == [[0, 2, 0], [1, 0, 0], [0, 0.5, 0]]


def test_a_matrix_of_yes_and_no_and_links_that_were_read_before_are_taken():
    first = read_links(sparse.csr_array(np.array(MUTUAL, dtype=bool)), 4)
    assert first.matrix.toarray().tolist() == MUTUAL
    assert read_links(first, 4).matrix.toarray().tolist() == MUTUAL
    directed = read_links([(0, 1)], 2, directed=True)
    assert read_links(directed, 2) is directed
    with pytest.raises(ValueError, match=r"links has shape \(2, 2\), but X has 3 rows"):
        read_links(directed, 3)


def test_links_between_some_of_the_rows_are_taken_in_their_order():
    taken = read_links(EDGES, 4).take(np.array([2, 1]))
    assert taken.matrix.toarray().tolist() == [[0, 1], [1, 0]]


def test_weights_of_repeated_links_add_up_and_the_heavier_direction_counts():
    edges, weights = [(0, 1), (0, 1), (1, 0), (1, 2), (2, 0)], [1.0, 2.0, 2.5, 0.25, 0.0]
    with_weights = [(*edge, weight) for edge, weight in zip(edges, weights, strict=True)]
    for given in (
        (edges, weights),
        with_weights,
        pd.DataFrame(with_weights, columns=["from", "to", "weight"]),
    ):
        result = read_links(given, 3)
        assert result.matrix.toarray().tolist() == [[0, 3, 0], [3, 0, 0.25], [0, 0.25, 0]]
        assert result.n_repeated == 1
        directed = read_links(given, 3, directed=True)
        assert directed.matrix.toarray().tolist() == [[0, 3, 0], [2.5, 0, 0.25], [0, 0, 0]]


def test_links_to_unknown_items_are_ignored_counted_and_said():
    result = read_links([*NAMED, ("a", "x"), ("y", None)], 4, ids=NAMES)
    assert result.matrix.toarray().tolist() == MUTUAL
    assert result.n_unknown == 2
    assert result.remark() == "2 of 7 links name items that are not in the table; they are ignored"
    assert read_links(NAMED, 4, ids=NAMES).remark() == ""


@pytest.mark.parametrize(
    ("edges", "ids"),
    [
        ([("12", "7"), ("7", "x")], [7, 12]),
        ([(12, 7), (7, 9)], ["7", "12"]),
        ([(12, 7), (7, 9)], ["007", "012"]),
        ([(12.0, 7.0), (7.0, 9.0)], ["7", "12"]),
        ([(12, 7), (7, 9)], [7.0, 12.0]),
        ([("+12", " 7"), ("7", "-7")], [7, 12]),
    ],
)
def test_numbers_match_texts_that_are_the_same_number(edges, ids):
    result = read_links(columns(edges), 2, ids=ids)
    assert result.matrix.toarray().tolist() == [[0, 1], [1, 0]]
    assert result.n_unknown == 1


def test_texts_are_matched_as_they_are():
    result = read_links([("07", "7"), ("07", "x")], 2, ids=["7", "07"])
    assert result.matrix.toarray().tolist() == [[0, 1], [1, 0]]


def test_no_links_are_fine_where_that_is_said():
    for given in ([], sparse.csr_array((3, 3)), np.empty((0, 2)), [(1, 1)]):
        assert read_links(given, 3, may_be_empty=True).matrix.nnz == 0


@pytest.mark.parametrize(
    ("given", "ids", "says"),
    [
        (sparse.csr_array((2, 3)), None, r"links has shape \(2, 3\), but X has 3 rows"),
        (
            sparse.csr_array(-np.eye(3)[[1, 0, 2]]),
            None,
            "weight must be .* not negative, but that of link 0 is -1.0",
        ),
        (sparse.csr_array(np.array([[0, np.nan, 0]] * 3)), None, "is nan"),
        (sparse.csr_array((3, 3), dtype=complex), None, "numbers, got complex128"),
        (([(0, 1)], [np.inf]), None, "is inf"),
        (([(0, 1)], ["heavy"]), None, "weights must be numbers .*heavy"),
        (([(0, 1)], [1.0, 2.0]), None, r"1 edges, but weights have shape \(2,\)"),
        (pd.DataFrame({"from": [0], "to": [1], "weight": [None]}), None, "is nan"),
        ([(0, 3)], None, "row number 3 of link 0 is out of range: X has 3 rows"),
        ([(0, -1)], None, "row number -1"),
        ([(0, 0.5)], None, "one is 0.5"),
        ([("a", "b")], None, "without ids= links hold row numbers.* one is 'a'"),
        ([], None, "links is empty"),
        (sparse.csr_array((3, 3)), None, "links is empty"),
        ([(1, 1)], None, "of 1 link none joins two different items"),
        ([("x", "y")], ["a", "b", "c"], "of 1 link none joins two different items"),
        (np.zeros((5, 5)), None, r"shape \(5, 5\).* scipy.sparse.csr_array\(links\)"),
        (np.zeros(4), None, r"got an array of shape \(4,\)"),
        (
            pd.DataFrame(np.zeros((1, 4)), columns=list("pqrs")),
            None,
            "links has 4 columns: 'p', 'q', 'r', 's'",
        ),
        (pd.DataFrame({"from": [0]}), None, "links has 1 column: 'from'"),
        ([("a", "b")], ["a", "b"], "ids has 2 names, but X has 3 rows"),
        ([("a", "b")], ["a", "b", "b"], "ids: 'b' names 2 rows"),
        ([("a", "b")], ["a", None, "b"], "ids has no value in row 1"),
        ([("a", "b")], [1, 2, 3], "links hold text, such as 'a', but ids are numbers"),
        ([(1, 2)], ["a", "b", "c"], "ids hold text, such as 'a', but links hold numbers"),
        ([(1, 2)], ["1", "01", "2"], "ids: 1 names 2 rows when read as a number"),
        ([(1, 2)], [[1], [2], [3]], "whole numbers or text, but a column holds list"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(given, ids, says):
    with pytest.raises(ValueError, match=says):
        read_links(given, 3, ids=ids)


@pytest.mark.parametrize("given", ["cites.csv", 3, None])
def test_what_is_no_list_of_links_is_refused_by_its_type(given):
    with pytest.raises(TypeError, match=f"links must be .*; got {type(given).__name__}"):
        read_links(given, 3)


# ---- spreading


@pytest.mark.parametrize("directed", [False, True])
def test_the_spread_matrix_is_that_of_the_formula(directed):
    A = random_links(30, 60, directed=directed)
    P = spread_matrix(A)
    np.testing.assert_allclose(P.toarray(), literal_spread(A.toarray()), rtol=1e-14)
    assert np.linalg.norm(P.toarray(), 2) < 1 + 1e-12


def test_an_item_without_links_keeps_what_it_has():
    P = spread_matrix(read_links([(0, 1)], 3).matrix)
    assert P.toarray()[2].tolist() == [0, 0, 1]
    W = np.arange(6.0).reshape(3, 2)
    np.testing.assert_allclose(propagated(P, W, [5], 0.1)[5][2], W[2], rtol=1e-14)


@pytest.mark.parametrize(
    "kind", [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csc_array]
)
@pytest.mark.parametrize("kept", [0.0, 0.05, 1.0])
def test_propagation_is_that_of_the_formula(kind, kept):
    P = spread_matrix(random_links(25, 40, directed=True))
    W = np.random.default_rng(1).standard_normal((25, 2 * COLUMNS_AT_A_TIME + 3))
    W[W < 0.5] = 0
    results = propagated(P, kind(W), [4, 1, 7], kept)
    assert sorted(results) == [1, 4, 7]
    for hops, features in results.items():
        np.testing.assert_allclose(
            features, literal_propagation(P.toarray(), W, hops, kept), atol=1e-13
        )


def test_propagation_does_not_change_its_input_and_repeats_bit_for_bit():
    P = spread_matrix(random_links(50, 100))
    W = np.random.default_rng(1).standard_normal((50, 40))
    before = W.copy()
    first, again = (propagated(P, W, [2, 3], 0.05) for _ in range(2))
    np.testing.assert_array_equal(W, before)
    for hops in (2, 3):
        np.testing.assert_array_equal(first[hops], again[hops])
    alone = propagated(P, W, [2], 0.05)[2]
    np.testing.assert_array_equal(alone, first[2])


def test_propagation_holds_at_most_three_times_the_features_beside_them():
    P = spread_matrix(random_links(2000, 4000))
    W = np.random.default_rng(0).standard_normal((2000, 200))
    tracemalloc.start()
    propagated(P, W, [3], 0.05)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * W.nbytes


# ---- LinkEncoder


@parametrize_with_checks([LinkEncoder()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_the_encoder_gives_propagated_features():
    A = random_links(20, 30)
    X = np.random.default_rng(0).standard_normal((20, 3))
    expected = propagated(spread_matrix(A), X, [2, 5], 0.1)
    single = LinkEncoder(A, hops=np.int64(5), kept=0.1)
    np.testing.assert_array_equal(single.fit_transform(X), expected[5])
    encoder = LinkEncoder(A, hops=(5, 2), kept=0.1)
    np.testing.assert_array_equal(encoder.fit_transform(X), np.hstack([expected[5], expected[2]]))
    np.testing.assert_array_equal(clone(encoder).fit(X).transform(X), encoder.transform(X))
    np.testing.assert_allclose(
        encoder.fit_transform(sparse.csr_array(X)), encoder.transform(X), atol=1e-14
    )
    assert encoder.get_feature_names_out()[:4].tolist() == [
        *(f"x{at} in 5 hops" for at in range(3)),
        "x0 in 2 hops",
    ]


def test_names_of_columns_are_kept():
    frame = pd.DataFrame({"price": [1.0, 2.0], "size": [3.0, 4.0]})
    encoder = LinkEncoder([(0, 1)], hops=1).set_output(transform="pandas").fit(frame)
    assert encoder.transform(frame).columns.tolist() == ["price in 1 hops", "size in 1 hops"]


def test_without_links_features_stay_as_they_are():
    X = np.random.default_rng(0).standard_normal((5, 2))
    np.testing.assert_array_equal(LinkEncoder().fit_transform(X), X)
    assert sparse.issparse(LinkEncoder().fit_transform(sparse.csr_array(X)))
    assert LinkEncoder().fit(X).get_feature_names_out().tolist() == ["x0", "x1"]


def test_rows_that_are_not_in_memory_are_refused(tmp_path):
    file = tmp_path / "items.csv"
    file.write_text("price,rating\n1,1\n2,2\n3,1\n")
    ratings = dask.array.ones(3)
    for X, y in ((scan(file, score="rating"), None), (dask.array.ones((3, 1)), ratings)):
        with pytest.raises(TypeError, match="LinkEncoder needs its rows in memory"):
            LinkEncoder([(0, 1)]).fit(X, y)
        with pytest.raises(ValueError, match="links"):
            AutoRegressor().fit(X, y, links=[(0, 1)])


def test_new_items_come_with_the_old_ones_and_the_links_among_all():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6, 2))
    encoder = LinkEncoder([("a", "b"), ("b", "c")], ids=list("abc")).fit(X[:3])
    edges = [("a", "b"), ("b", "c"), ("f", "a"), ("d", "e")]
    expected = LinkEncoder([(0, 1), (1, 2), (5, 0), (3, 4)]).fit_transform(X)
    np.testing.assert_array_equal(encoder.transform(X, links=edges, ids=list("abcdef")), expected)
    with pytest.raises(ValueError, match="X has 6 rows, but links join 3 items"):
        encoder.transform(X)


def test_the_encoder_warns_of_links_that_it_ignores():
    with pytest.warns(
        UserWarning, match="1 of 2 links name items that are not in the table; they are ignored"
    ):
        LinkEncoder([("a", "b"), ("a", "x")], ids=["a", "b"]).fit(np.zeros((2, 1)))


def test_items_are_ranked_by_those_they_are_linked_with():
    """A column that says nothing about an item, but everything about the group that its links lie
    in.
    """
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], 40)
    X = (group[:, None] == [0, 1]) * 0.5 + rng.standard_normal((80, 2))
    edges = [
        (first, second)
        for first, second in rng.integers(0, 80, (1200, 2))
        if group[first] == group[second]
    ]
    y = np.full(80, np.nan)
    y[[0, 1, 40, 41]] = 0, 0, 1, 1
    encoder = LinkEncoder(edges)
    ranked = make_pipeline(encoder, RankRLS(kernel="linear", alpha=1e-3)).fit(X, y).predict(X)
    assert ranked[group == 1].min() > ranked[group == 0].max()
    both = make_union("passthrough", encoder).fit_transform(X)
    assert both.shape == (80, 4)
    with pytest.raises(ValueError, match="X has 10 rows, but links join 80 items"):
        make_pipeline(encoder, Ridge()).fit(X, group).predict(X[:10])


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"hops": 0}, "hops must be .* got 0"),
        ({"hops": 1.5}, "hops must be .* got 1.5"),
        ({"hops": (2, 2)}, "hops must be"),
        ({"hops": ()}, "hops must be"),
        ({"kept": 1.5}, "kept must be .* got 1.5"),
        ({"kept": float("nan")}, "kept must be .* got nan"),
        ({"links": [(0, 9)]}, "row number 9"),
    ],
)
def test_parameters_are_checked(parameters, says):
    with pytest.raises(ValueError, match=says):
        LinkEncoder(**{"links": [(0, 1)], **parameters}).fit(np.zeros((3, 2)))
