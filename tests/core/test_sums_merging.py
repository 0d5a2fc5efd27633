"""Sums over stretches of rows: however rows are cut and however the pieces are merged, they are the
sums of the whole.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corank.core.loss import Blend, Pointwise, WithinQueries
from corank.core.sums import Accumulator, Spans
from corank.model_files.container import Packer, Unpacker

pytestmark = pytest.mark.usefixtures("one_blas_thread")
N, D = 24, 3
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(N, D)), RNG.normal(size=N)
COMPARISONS = {
    "size": WithinQueries("size"),
    "unit": WithinQueries("unit"),
    "query": WithinQueries("query"),
    "blend": Blend("unit", 0.3),
    "pointwise": Pointwise(),
}
every_comparison = pytest.mark.parametrize("comparison", COMPARISONS.values(), ids=COMPARISONS)


def same(X):
    return X


def stretch(comparison, codes, folds, begin, end):
    present, local = np.unique(codes[begin:end], return_inverse=True)
    of_query = np.asarray([folds[code] for code in present], dtype=np.int64)
    sums = Accumulator(
        comparison, same, D, Y[:1], of_query, n_folds=3, keeps_ends=comparison.needs_queries
    )
    if end > begin:
        sums.add(X[begin:end], Y[begin:end], local, None)
    return Spans.of(sums, present)


def expected(comparison, codes, folds, fold):
    """Σ z L zᵀ with the dense Laplacian of the fold's queries."""
    total = np.zeros((D + 2, D + 2))
    for code in np.unique(codes):
        if folds[code] != fold:
            continue
        z = np.c_[X, Y, np.ones(N)][codes == code]
        m = len(z)
        centring = np.eye(m) - 1 / m
        if isinstance(comparison, Pointwise):
            L = np.eye(m)
        else:
            weight = {"size": 1.0, "unit": m, "query": 2 / max(m - 1, 1)}[comparison.weighting]
            beta = getattr(comparison, "beta", 0.0)
            L = beta * np.eye(m) + (1 - beta) * weight * centring
        total += z.T @ L @ z
    return total


def merged_as_tree(spans, shape):
    """Neighbours merged in an order that the numbers in `shape` give."""
    for number in shape:
        if len(spans) == 1:
            break
        at = number % (len(spans) - 1)
        spans[at : at + 2] = [spans[at].merged(spans[at + 1])]
    while len(spans) > 1:
        spans[:2] = [spans[0].merged(spans[1])]
    return spans[0]


@every_comparison
@settings(max_examples=20)
@given(
    cuts=st.lists(st.integers(0, N), max_size=8).map(sorted),
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=24),
    shape=st.lists(st.integers(0, 30), max_size=10),
)
def test_any_cut_and_any_tree_give_the_sums_of_the_whole(comparison, cuts, sizes, shape):
    codes = np.repeat(np.arange(len(sizes)), sizes)[:N]
    codes = np.r_[codes, np.full(N - len(codes), len(sizes))].astype(np.int64)
    folds = np.arange(codes.max() + 1) % 3
    bounds = [0, *cuts, N]
    spans = [stretch(comparison, codes, folds, begin, end) for begin, end in pairwise(bounds)]
    sums = merged_as_tree(spans, shape).closed()
    for fold in range(3):
        np.testing.assert_allclose(
            sums.of(fold).matrix, expected(comparison, codes, folds, fold), atol=1e-12
        )
    assert sum(sums.of(fold).weight for fold in range(3)) == N


def test_sums_come_back_from_their_arrays_with_the_same_bits():
    codes = np.repeat([0, 1, 2, 3], [5, 9, 1, 9])
    spans = stretch(WithinQueries("size"), codes, [0, 1, 2, 0], 2, 20)
    packer = Packer()
    header = packer.pack(spans, "sums")
    again = Unpacker(packer.arrays).unpack(header).beside(Y)
    assert again.head.query == spans.head.query
    assert again.tail.moments.count == spans.tail.moments.count
    following = stretch(WithinQueries("size"), codes, [0, 1, 2, 0], 20, N)
    totals = [first.merged(following).closed().total().matrix for first in (spans, again)]
    np.testing.assert_array_equal(*totals)


def test_a_query_that_comes_back_is_refused():
    sums = Accumulator(WithinQueries("size"), same, D, Y)
    with pytest.raises(ValueError, match="must lie together"):
        sums.add(X[:4], Y[:4], np.asarray([0, 1, 0, 2]), None)
    sums = Accumulator(WithinQueries("size"), same, D, Y)
    sums.add(X[:2], Y[:2], np.asarray([0, 3]), None)
    with pytest.raises(ValueError, match="must lie together"):
        sums.add(X[:2], Y[:2], np.asarray([2, 3]), None)
