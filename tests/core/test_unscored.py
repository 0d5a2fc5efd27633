"""Unscored rows: in memory or in chunks, however they are cut, they give the same model; unreadable
ones are refused.
"""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from corank import CoRankRLS, CoRLS, View
from corank.core.unscored import PIECE_ROWS, HeldRows, StreamedRows, UnscoredRows

pytestmark = pytest.mark.usefixtures("one_blas_thread")
RNG = np.random.default_rng(0)
N, M = 16, 24
X, U, NEW = RNG.normal(size=(N, 6)), RNG.normal(size=(M, 6)), RNG.normal(size=(5, 6))
Y = X[:, 0] + np.sin(X[:, 3])
QID = np.repeat(np.arange(4), 4)
# whole queries one after the other, names out of order
LABELS = np.repeat([3, 0, 7, 1, 5], [7, 1, 4, 8, 4])
VIEWS = [View(slice(0, 3), gamma=0.3), View(slice(3, 6), gamma=0.2)]
BASES = {"pivoted": 9, "given": [0, 3, 5, 8], "all": "all"}
every_basis = pytest.mark.parametrize("basis", BASES)


def ranker(basis="pivoted", **options):
    return CoRankRLS(VIEWS, 0.3, 0.5, BASES[basis], **options)


def fitted(unscored, labels=None, learner=None, y=Y):
    learner = ranker() if learner is None else learner
    return learner.fit(X, y, qid=QID, unscored=unscored, unscored_qid=labels)


def cut(rows, labels, ends):
    """Chunks of rows and labels that end there."""
    bounds = [0, *ends, len(rows)]
    if labels is None:
        return [rows[begin:end] for begin, end in pairwise(bounds)]
    return [(rows[begin:end], labels[begin:end]) for begin, end in pairwise(bounds)]


class Source:
    """Chunks that start again each time they are asked for."""

    def __init__(self, make):
        self.make = make

    def __iter__(self):
        return iter(self.make())


# ------------------------------------------------------------------ chunks are rows


@every_basis
@settings(max_examples=8)
@given(ends=st.lists(st.integers(0, M), max_size=6).map(sorted))
def test_any_cut_into_chunks_gives_the_model_of_the_whole(basis, ends):
    expected = fitted(U, LABELS, ranker(basis))
    found = fitted(cut(U, LABELS, ends), learner=ranker(basis))
    np.testing.assert_allclose(found.predict_views(NEW), expected.predict_views(NEW), atol=1e-10)
    for view_basis, view_expected in zip(found.basis_, expected.basis_, strict=True):
        np.testing.assert_array_equal(view_basis, view_expected)


@pytest.mark.parametrize(
    ("basis", "weighting"), [("pivoted", "size"), ("given", "unit"), ("all", "query")]
)
def test_chunks_under_every_weighting_and_beside_unscored_rows_of_X(basis, weighting):
    y = np.where(np.arange(N) % 4 == 1, np.nan, Y)
    w = RNG.uniform(0.3, 2, size=N) if weighting != "query" else None
    model = ranker(basis, weighting=weighting)
    expected = model.fit(
        X, y, qid=QID, sample_weight=w, unscored=U, unscored_qid=LABELS
    ).predict_views(NEW)
    chunks = cut(U, LABELS, [3, 3, 9, 20])
    found = model.fit(X, y, qid=QID, sample_weight=w, unscored=chunks).predict_views(NEW)
    np.testing.assert_allclose(found, expected, atol=1e-10)


UNSORTED = {
    "two queries mixed": ([4, 8, 4, 8, 8, 8, 2, 1, 2, 1, 6, 6], [4, 10]),
    "the last row's query came first": ([0, 1, 0, 0, 2, 2, 3, 4, 3, 3, 3, 5], [3, 6, 10]),
    "the open query comes again at the end": ([0, 0, 0, 0, 2, 0, 3, 4, 4, 4, 5, 5], [3, 6, 10]),
    "a query over three chunks": ([1, 0, 1, 1, 1, 1, 1, 2, 1, 3, 4, 3], [3, 6, 9]),
}


@every_basis
@pytest.mark.parametrize("kind", UNSORTED)
def test_labels_inside_a_chunk_may_be_unsorted(basis, kind):
    labels, ends = UNSORTED[kind]
    labels, rows = np.asarray(labels), U[: len(labels)]
    expected = fitted(rows, labels, ranker(basis)).predict_views(NEW)
    found = fitted(cut(rows, labels, ends), learner=ranker(basis)).predict_views(NEW)
    np.testing.assert_allclose(found, expected, atol=1e-10)


LABEL_KINDS = {
    "text": [f"user {label}" for label in LABELS],
    "array of text": np.asarray([f"user {label}" for label in LABELS]),
    "tuples": [("user", int(label)) for label in LABELS],
    "numbers and text": [int(label) if label % 2 else f"{label}" for label in LABELS],
    "series": pd.Series(LABELS),
    "categories": pd.Series(pd.Categorical(LABELS)),
    "dates": np.datetime64("2020-01-01") + LABELS,
}


@pytest.mark.parametrize("kind", LABEL_KINDS)
def test_labels_of_any_kind(kind):
    expected = fitted(U, LABELS).predict_views(NEW)
    for model in (fitted(U, LABEL_KINDS[kind]), fitted(cut(U, LABEL_KINDS[kind], [5, 12]))):
        np.testing.assert_allclose(model.predict_views(NEW), expected, atol=1e-10)


def test_numbers_and_the_same_numbers_as_text_are_different_queries():
    labels = [1] * 6 + ["1"] * 6
    expected = fitted(U[:12], labels).predict_views(NEW)
    np.testing.assert_allclose(
        fitted(cut(U[:12], labels, [9])).predict_views(NEW), expected, atol=1e-10
    )
    one_query = fitted(U[:12], [1] * 12).predict_views(NEW)
    assert np.abs(one_query - expected).max() > 1e-6


def test_chunks_without_labels_are_one_query():
    expected = fitted(U, np.zeros(M)).predict_views(NEW)
    np.testing.assert_allclose(
        fitted(cut(U, None, [5, 5, 12])).predict_views(NEW), expected, atol=1e-10
    )
    np.testing.assert_allclose(fitted(U).predict_views(NEW), expected, atol=1e-10)


def test_a_source_may_be_anything_that_starts_again():
    expected = fitted(U, LABELS).predict_views(NEW)
    source = Source(lambda: ((U[b : b + 5], LABELS[b : b + 5]) for b in range(0, M, 5)))
    np.testing.assert_allclose(fitted(source).predict_views(NEW), expected, atol=1e-10)


def test_frames_and_csr_and_single_precision_come_in_chunks_too():
    expected = fitted(U, LABELS).predict_views(NEW)
    names = list("abcdef")
    frames = [
        (pd.DataFrame(rows, columns=names), labels) for rows, labels in cut(U, LABELS, [5, 12])
    ]
    found = ranker().fit(pd.DataFrame(X, columns=names), Y, qid=QID, unscored=frames)
    np.testing.assert_allclose(
        found.predict_views(pd.DataFrame(NEW, columns=names)), expected, atol=1e-10
    )
    csr = [(sparse.csr_array(rows), labels) for rows, labels in cut(U, LABELS, [5, 5, 12])]
    found = ranker().fit(sparse.csr_array(X), Y, qid=QID, unscored=csr)
    np.testing.assert_allclose(found.predict_views(sparse.csr_array(NEW)), expected, atol=1e-9)
    singles = [(rows.astype(np.float32), labels) for rows, labels in cut(U, LABELS, [5, 12])]
    np.testing.assert_allclose(fitted(singles).predict_views(NEW), expected, atol=1e-5)


def test_a_query_larger_than_a_block_may_span_chunks(monkeypatch):
    rows, labels = (
        np.random.default_rng(1).normal(size=(300, 6)),
        np.repeat([0, 1, 2], [190, 5, 105]),
    )
    expected = fitted(rows, labels).predict_views(NEW)
    monkeypatch.setattr("corank.core.sums.GRAM_ENTRIES", 1)  # 64 rows a block
    for unscored in (cut(rows, labels, [100, 192, 250]), cut(rows, labels, [])):
        np.testing.assert_allclose(fitted(unscored).predict_views(NEW), expected, atol=1e-10)


def test_rows_without_any_are_no_rows():
    with pytest.warns(UserWarning, match="nothing to agree on"):
        expected = ranker().fit(X, Y, qid=QID)
    for nothing in (U[:0], [U[:0], U[:0]], [(U[:0], LABELS[:0])]):
        with pytest.warns(UserWarning, match="nothing to agree on"):
            found = fitted(nothing)
        np.testing.assert_allclose(found.predict(NEW), expected.predict(NEW), atol=1e-10)


def test_a_regressor_needs_no_order_of_queries():
    chunks = cut(U, LABELS, [5, 12])
    model = CoRLS(VIEWS, 0.3, 0.5, 9)
    expected = model.fit(X, Y, unscored=U).predict(NEW)
    back = [*chunks, (chunks[0][0][:0], []), (chunks[0][0], chunks[0][1])]
    np.testing.assert_allclose(model.fit(X, Y, unscored=chunks).predict(NEW), expected, atol=1e-10)
    assert np.isfinite(model.fit(X, Y, unscored=back).predict(NEW)).all()


def test_tuning_from_chunks_equals_tuning_in_memory():
    expected = fitted(U, LABELS, CoRankRLS(VIEWS, basis=9))
    found = fitted(cut(U, LABELS, [5, 12]), learner=CoRankRLS(VIEWS, basis=9))
    np.testing.assert_allclose(found.path_.error, expected.path_.error, rtol=1e-6)
    assert (found.alpha_, found.agreement_) == pytest.approx((expected.alpha_, expected.agreement_))


# ------------------------------------------------------------------ what is refused


def nan_in_third():
    chunks = cut(U.copy(), LABELS, [5, 12])
    chunks[2][0][1, 4] = np.nan
    return chunks


REFUSED = {
    "a query that comes back": (
        [(U[:4], [1] * 4), (U[4:8], [2] * 4), (U[8:], [1] * 16)],
        "query 1 comes back",
    ),
    "a query that comes back, sorted": (
        [(U[:4], ["b"] * 4), (U[4:], ["a"] * 19 + ["b"])],
        "query 'b' comes back",
    ),
    "an unsorted query that comes back": (
        [(U[:4], [1, 2, 1, 2]), (U[4:8], [2, 2, 3, 3]), (U[8:], [1] * 16)],
        "query 1 comes back",
    ),
    "other columns in a later chunk": ([(U, LABELS), (U[:, :4], LABELS)], "chunk 1: .*4 features"),
    "NaN in a later chunk": (nan_in_third(), "chunk 2: .*NaN, first in row 1, column 4"),
    "too few labels": ([(U, LABELS), (U[:5], [9, 9])], "chunk 1: qid has 2 labels for 5 rows"),
    "labels for some chunks only": ([(U, LABELS), U], "chunk 1 differs .* all or none"),
    "a missing label": ([(U[:3], ["a", None, "b"])], "missing label in row 1"),
    "a label that is NaN": ([(U[:3], [1.0, np.nan, 2.0])], "missing label in row 1"),
    "text for rows": ([(np.full((3, 6), "a"), [1, 1, 1])], "chunk 0: "),
    "CSR beside dense rows": ([sparse.csr_array(U)], "chunk 0: .*CSR matrix but X is not"),
}


def test_a_pair_that_is_no_list_of_chunks_is_refused():
    with pytest.raises(TypeError, match=r"unscored is a pair \(X, qid\)"):
        fitted((U, np.asarray(LABELS)))
    with pytest.raises(TypeError, match="must be rows or chunks of rows, got str"):
        fitted("rows.csv")


@pytest.mark.parametrize("kind", REFUSED)
def test_chunks_that_cannot_be_are_refused(kind):
    chunks, message = REFUSED[kind]
    with pytest.raises(ValueError, match=message):
        fitted(chunks)


@pytest.mark.parametrize(
    "make", [lambda: iter([U]), lambda: (rows for rows in [U])], ids=["iterator", "generator"]
)
def test_what_can_be_read_only_once_is_refused(make):
    with pytest.raises(TypeError, match="read only once"):
        fitted(make())


def test_what_is_no_rows_is_refused():
    with pytest.raises(TypeError, match="unscored must be rows or chunks of rows, got int"):
        fitted(3)
    with pytest.raises(ValueError, match="unscored does not fit X"):
        fitted(U[0])
    with pytest.raises(ValueError, match="unscored_qid was given without unscored"):
        fitted(None, LABELS)
    with pytest.raises(ValueError, match="unscored_qid does not go with chunks"):
        fitted([U], LABELS)
    with pytest.raises(ValueError, match="unscored_qid has 5 labels"):
        fitted(U, LABELS[:5])


def test_a_source_that_changes_between_readings_is_refused():
    for make in (lambda k: U[: M - k], lambda k: U[:, : 7 - k]):
        times = iter(range(1, 9))
        with pytest.raises(ValueError, match=r"first read|features"):
            fitted(Source(lambda make=make, times=times: [make(next(times))]))


# ------------------------------------------------------------------ samples


def streamed(rows, ends):
    bounds = [0, *ends, len(rows)]
    chunks = [rows[b:e] for b, e in pairwise(bounds)]
    return UnscoredRows((StreamedRows(chunks, lambda chunk, check: chunk),))


@settings(max_examples=25)
@given(
    ends=st.lists(st.integers(0, 200), max_size=5).map(sorted),
    size=st.integers(0, 230),
    seed=st.integers(0, 5),
)
def test_the_sample_does_not_depend_on_chunks(ends, size, seed):
    rows = np.arange(200.0)[:, None]
    expected, features = UnscoredRows((HeldRows(rows, None),)).sample(size, seed)
    numbers, streamed_features = streamed(rows, ends).sample(size, seed)
    np.testing.assert_array_equal(numbers, expected)
    assert len(numbers) == min(size, 200)
    assert np.all(np.diff(numbers) > 0)
    if size:
        np.testing.assert_array_equal(streamed_features[:, 0], numbers)
        np.testing.assert_array_equal(features[:, 0], numbers)
    else:
        assert streamed_features is None


def test_every_row_is_as_likely_to_be_drawn_and_seeds_differ():
    rows = streamed(np.zeros((100, 1)), [30, 31, 77])
    counts = sum(np.bincount(rows.sample(20, seed)[0], minlength=100) for seed in range(100))
    assert counts.sum() == 100 * 20
    assert 4 < counts.min() <= counts.max() < 37  # 20 each, standard deviation 4


def test_samples_of_more_rows_than_a_piece_are_the_same_whatever_the_chunks():
    rows = np.arange(2.5 * PIECE_ROWS)[:, None]
    expected = UnscoredRows((HeldRows(rows, None),)).sample(50, 3)[0]
    np.testing.assert_array_equal(
        streamed(rows, [PIECE_ROWS - 1, 2 * PIECE_ROWS + 5]).sample(50, 3)[0], expected
    )
    assert expected.max() > 2 * PIECE_ROWS


def test_row_numbers_count_through_the_parts():
    first, second = np.arange(5.0)[:, None], np.arange(5.0, 12.0)[:, None]
    chunks = StreamedRows([second[:3], second[3:]], lambda chunk, check: chunk, first=5)
    both = UnscoredRows((HeldRows(first, None), chunks))
    numbers, features = both.sample(8, 0)
    np.testing.assert_array_equal(features[:, 0], numbers)
    np.testing.assert_array_equal(
        numbers, UnscoredRows((HeldRows(np.concatenate([first, second]), None),)).sample(8, 0)[0]
    )


def test_queries_of_different_parts_are_different_ones_and_rows_stay_in_order():
    rows = np.arange(8.0)[:, None]
    labels = [np.asarray([5, 6, 5]), np.asarray([5, 7, 5, 8, 8])]
    chunks = [(rows[:3], labels[0]), (rows[3:], labels[1])]
    held = HeldRows(
        rows, np.asarray([1, 0, 1, 0, 2, 2, 1, 0]), np.arange(8)[::-1], np.arange(1.0, 9.0)
    )
    both = UnscoredRows((held, StreamedRows(chunks, lambda chunk, check: chunk)))
    features, codes, weights = both.everything()
    np.testing.assert_array_equal(features[:, 0], [*range(7, -1, -1), *range(8)])
    np.testing.assert_array_equal(weights, [*range(1, 9), *[1] * 8])
    expected = [1, 0, 1, 0, 2, 2, 1, 0, *("5", "6", "5", "5", "7", "5", "8", "8")]
    assert len(set(codes)) == len(set(expected))
    assert len(set(zip(codes, expected, strict=True))) == len(set(expected))
    pieces = list(both.pieces())
    together = np.concatenate([piece.queries for piece in pieces])
    runs = 1 + np.count_nonzero(np.diff(together))
    assert runs == len(set(expected))  # whole queries lie together
