"""CoRLS and CoRankRLS on what users hold: kernels made before, CSR, frames, other array libraries;
and what they warn of.
"""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from brute_force import REGRESSION, Loss
from brute_force.views import Look, fit_views, rbf, small_views
from edited_files import round_trip
from forced_way import forced
from scipy import sparse
from tests.core.test_arrays import Library

from corank import CoRankRLS, CoRLS, View, side_by_side

pytestmark = pytest.mark.usefixtures("one_blas_thread")
P = small_views(seed=2)
X, Y, QID, W, NEW = P.X, P.y, P.qid, P.weights, P.X_new
N = len(X)
NAMES = ["text_a", "text_b", "text_c", "image_a", "image_b", "image_c"]
VIEWS = [View(slice(0, 3), gamma=0.5), View(slice(3, 6), gamma=0.4, penalty=2.0)]
BASES = {"all": "all", "scored": "scored", "number": 8, "given": [1, 4, 5, 9, 12]}
APART = {"unscored": P.apart, "unscored_qid": P.apart_qid}
learners = pytest.mark.parametrize("learner", [CoRLS, CoRankRLS])
every_basis = pytest.mark.parametrize("basis", BASES)


def tuned(learner, basis="all", **options):
    return learner(VIEWS, [0.1, 1.0], [0.0, 0.5, 5.0], BASES.get(basis, basis), **options)


# ------------------------------------------------------------------ kernels made before


@learners
@every_basis
@pytest.mark.parametrize("csr", [False, True], ids=["dense", "CSR"])
def test_precomputed_kernels_equal_the_same_kernels_computed(learner, basis, csr):
    expected = tuned(learner, basis).fit(X, Y, qid=QID)
    kernels, new = (
        np.hstack([rbf(v.gamma)(rows[:, v.columns], X[:, v.columns]) for v in VIEWS])
        for rows in (X, NEW)
    )
    views = [
        View(slice(k * N, (k + 1) * N), "precomputed", penalty=v.penalty)
        for k, v in enumerate(VIEWS)
    ]
    form = sparse.csr_array if csr else np.asarray
    found = learner(views, [0.1, 1.0], [0.0, 0.5, 5.0], BASES[basis]).fit(form(kernels), Y, qid=QID)
    np.testing.assert_allclose(found.path_.error, expected.path_.error, rtol=1e-6)
    np.testing.assert_allclose(
        found.predict_views(form(new)), expected.predict_views(NEW), atol=1e-8
    )
    for own, other in zip(found.basis_, expected.basis_, strict=True):
        np.testing.assert_array_equal(own, other)


@learners
@pytest.mark.parametrize("basis", ["scored", "given"])
def test_unscored_rows_apart_bring_their_kernel_values(learner, basis):
    expected = learner(VIEWS, 0.3, 0.5, BASES[basis]).fit(X, Y, qid=QID, **APART)
    kernels, new, apart = (
        np.hstack([rbf(v.gamma)(rows[:, v.columns], X[:, v.columns]) for v in VIEWS])
        for rows in (X, NEW, P.apart)
    )
    views = [
        View(slice(k * N, (k + 1) * N), "precomputed", penalty=v.penalty)
        for k, v in enumerate(VIEWS)
    ]
    found = learner(views, 0.3, 0.5, BASES[basis]).fit(
        kernels, Y, qid=QID, unscored=apart, unscored_qid=P.apart_qid
    )
    np.testing.assert_allclose(found.predict_views(new), expected.predict_views(NEW), atol=1e-8)


# ------------------------------------------------------------------ the same rows in other forms


@learners
@every_basis
def test_csr_gives_the_model_of_dense_rows(learner, basis):
    sparser = np.where(np.abs(X) < 0.5, 0.0, X)
    apart = np.where(np.abs(P.apart) < 0.5, 0.0, P.apart)
    options = {"qid": QID, "sample_weight": W, "unscored_qid": P.apart_qid}
    expected = tuned(learner, basis).fit(sparser, Y, unscored=apart, **options)
    found = tuned(learner, basis).fit(
        sparse.csr_array(sparser), Y, unscored=sparse.csr_array(apart), **options
    )
    np.testing.assert_allclose(found.path_.error, expected.path_.error, rtol=1e-6)
    np.testing.assert_allclose(
        found.predict_views(sparse.csr_array(NEW)), expected.predict_views(NEW), atol=1e-8
    )
    assert basis == "given" or all(sparse.issparse(points) for points in found.basis_points_)


@learners
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_by_name_and_glob(learner, kind):
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[kind]
    expected = learner(VIEWS, 0.3, 0.5).fit(X, Y, qid=QID, sample_weight=W, **APART)
    table, new, apart = (frame(dict(zip(NAMES, rows.T, strict=True))) for rows in (X, NEW, P.apart))
    by_name = [View("text_*", gamma=0.5), View(["image_a", "image_[bc]"], gamma=0.4, penalty=2.0)]
    mixed = [View(["text_a", 1, 2], gamma=0.5), View("im*", gamma=0.4, penalty=2.0)]
    for views in (by_name, mixed):
        model = learner(views, 0.3, 0.5)
        model.fit(table, pd.Series(Y), qid=pd.Series(QID), sample_weight=pd.Series(W), unscored=apart,
                  unscored_qid=list(P.apart_qid))  # fmt: skip
        np.testing.assert_allclose(model.predict_views(new), expected.predict_views(NEW), atol=1e-9)
        assert list(model.feature_names_in_) == NAMES


def test_scores_of_their_own_may_be_a_frame():
    own = P.own_scores[:, :2]
    expected = CoRankRLS(VIEWS, 0.3, 0.5).fit(X, own, qid=QID).predict(NEW)
    for y in (pd.DataFrame(own), pl.DataFrame(own), own.tolist()):
        np.testing.assert_allclose(
            CoRankRLS(VIEWS, 0.3, 0.5).fit(X, y, qid=QID).predict(NEW), expected, atol=1e-12
        )


@pytest.fixture(
    params=[
        ("torch", "float64"),
        ("torch", "float32"),
        pytest.param(("array_api_strict", "float64"), marks=pytest.mark.slow),
    ],
    ids="-".join,
)
def library(request):
    """Of many small problems, where a second thread only waits."""
    own = Library(*request.param)
    if own.name != "torch":
        yield own
        return
    threads = own.module.get_num_threads()
    own.module.set_num_threads(1)
    yield own
    own.module.set_num_threads(threads)


def in_both(library, values):
    """The same numbers for NumPy and for the library, with the library's precision."""
    values = np.asarray(values, dtype=library.dtype)
    return values, library.array(values)


@learners
@every_basis
def test_other_array_libraries_give_what_numpy_gives(library, learner, basis):
    (x, own_x), (new, own_new), (apart, own_apart) = (
        in_both(library, v) for v in (X, NEW, P.apart)
    )
    options = {"unscored_qid": P.apart_qid, "qid": QID}
    expected = tuned(learner, basis).fit(x, Y, sample_weight=W, unscored=apart, **options)
    found = tuned(learner, basis).fit(
        own_x, library.array(Y), sample_weight=library.array(W), unscored=own_apart, **options
    )
    library.same(found.predict_views(own_new), expected.predict_views(new), library.dtype)
    library.same(found.predict(own_new), expected.predict(new), library.dtype)
    np.testing.assert_allclose(found.path_.error, expected.path_.error, rtol=1e-5)
    assert (found.alpha_, found.agreement_) == (expected.alpha_, expected.agreement_)
    effects = found.unscored_effect_, expected.unscored_effect_
    assert effects[0].difference == pytest.approx(effects[1].difference, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    "way", ["kernel", "inverse", "sums", pytest.param("refit", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("scoring", ["rescaled", "disagreement"])
@pytest.mark.parametrize("with_queries", [True, False], ids=["queries", "items"])
def test_other_array_libraries_take_every_way_to_held_out_errors(
    library, way, scoring, with_queries
):
    if library.dtype == "float32":
        pytest.skip("one precision is enough")
    qid = QID if with_queries else None
    for learner in (CoRLS, CoRankRLS):
        for basis in ("given",) if way == "sums" else ("all", "given"):
            model = tuned(learner, basis, scoring=scoring)
            with forced(way):
                expected = model.fit(X, P.own_scores[:, :2], qid=qid).path_.error
                found = model.fit(
                    library.array(X), library.array(P.own_scores[:, :2]), qid=qid
                ).path_.error
            np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_other_array_libraries_descend_compare_and_come_in_chunks(library):
    (x, own_x), (new, own_new), (apart, own_apart) = (
        in_both(library, v) for v in (X, NEW, P.apart)
    )
    order = np.argsort(P.apart_qid, kind="stable")
    labels = P.apart_qid[order]
    apart, own_apart = apart[order], library.array(np.asarray(apart)[order])
    for solver in ("coordinate", "accelerated"):
        model = CoRankRLS(VIEWS, 0.5, 0.5, 8, solver=solver)
        expected = model.fit(x, Y, qid=QID).predict(new)
        library.same(
            model.fit(own_x, library.array(Y), qid=library.array(QID)).predict(own_new),
            expected,
            library.dtype,
        )
    for basis in ("all", 8):
        model = CoRankRLS(VIEWS, 0.5, 0.5, basis)
        expected = model.fit(x, Y, qid=QID, unscored=apart, unscored_qid=labels).predict(new)
        chunks = [
            (own_apart[:2, ...], library.array(labels[:2])),
            (own_apart[2:, ...], library.array(labels[2:])),
        ]
        library.same(
            model.fit(own_x, library.array(Y), qid=QID, unscored=chunks).predict(own_new),
            expected,
            library.dtype,
        )
        expected = model.fit_comparisons(x, [0, 1, 2], [3, 4, 5], margins=[1.0, 0.0, 2.0]).predict(
            new
        )
        found = model.fit_comparisons(own_x, [0, 1, 2], [3, 4, 5], margins=[1.0, 0.0, 2.0]).predict(
            own_new
        )
        library.same(found, expected, library.dtype)


def test_arrays_side_by_side_are_views():
    arrays = [X[:, :2], X[:, 2:]]
    stacked, views = side_by_side(arrays, kernel="linear")
    np.testing.assert_array_equal(stacked, X)
    expected = (
        CoRLS([View([0, 1], "linear"), View([2, 3, 4, 5], "linear")], 0.3, 0.5)
        .fit(X, Y)
        .predict(NEW)
    )
    np.testing.assert_allclose(
        CoRLS(views, 0.3, 0.5).fit(stacked, Y).predict(NEW), expected, atol=1e-12
    )
    both, views = side_by_side([sparse.csr_array(arrays[0]), arrays[1]], kernel="linear")
    np.testing.assert_allclose(
        CoRLS(views, 0.3, 0.5).fit(both, Y).predict(sparse.csr_array(NEW)), expected, atol=1e-10
    )


# ------------------------------------------------------------------ warnings


@learners
def test_overlapping_views_are_said_but_not_those_of_all_columns(learner):
    with pytest.warns(UserWarning, match="views 'left' and 'view 2' share 2 columns"):
        learner([View([0, 1, 2], name="left"), View([1, 2, 3])], 0.3, 0.5).fit(X, Y, qid=QID)
    learner([View(gamma=0.1), View(gamma=1.0)], 0.3, 0.5).fit(X, Y, qid=QID)


@learners
def test_nothing_to_agree_on_is_said_unless_none_was_asked_for(learner):
    scored = P.scored
    for agreement in ("tune", 1.0, [0.0, 1.0]):
        with pytest.warns(UserWarning, match="only one view, so there is nothing to agree on"):
            one = learner([View(gamma=0.5)], 0.3, agreement).fit(X, Y, qid=QID)
        with pytest.warns(UserWarning, match=r"no unscored row .* nothing to agree on"):
            none = learner(VIEWS, 0.3, agreement).fit(X[scored], Y[scored], qid=QID[scored])
        assert (one.agreement_, none.agreement_) == (0.0, 0.0)
    learner([View(gamma=0.5)], 0.3, 0.0).fit(X, Y, qid=QID)
    learner(VIEWS, 0.3, 0.0).fit(X[scored], Y[scored], qid=QID[scored])


def test_scores_that_are_all_tied_are_said():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = CoRankRLS(VIEWS).fit(X, np.where(np.isnan(Y), np.nan, 1.0), qid=QID)
    assert [str(w.message)[:34] for w in told] == ["y: all scores are tied within ever"]
    np.testing.assert_allclose(model.predict(NEW), 0.0, atol=1e-12)


# ------------------------------------------------------------------ no norm at all

FREE = small_views(seed=5)
FREE_VIEWS = [View(slice(0, 3), gamma=2.0), View(slice(3, 6), gamma=1.5, penalty=2.0)]


def free_looks(points):
    return [Look(v.columns, rbf(v.gamma), points, v.penalty) for v in FREE_VIEWS]


@pytest.mark.parametrize("solver", ["direct", "partitioned", "coordinate", "accelerated"])
@pytest.mark.parametrize(
    ("learner", "basis"), [(CoRLS, "scored"), (CoRLS, "given"), (CoRankRLS, "given")]
)
def test_alpha_of_zero_is_the_least_loss_and_disagreement(learner, basis, solver):
    rows = FREE.scored if basis == "scored" else np.asarray([0, 3, 7, 11, 12])
    model = learner(FREE_VIEWS, 0, 0.7, BASES[basis] if basis == "scored" else rows, solver=solver)
    model.set_params(max_iter=100_000, tol=1e-12).fit(FREE.X, FREE.y, qid=FREE.qid)
    loss = REGRESSION if learner is CoRLS else Loss("size")
    expected = fit_views(
        free_looks(FREE.X[rows]),
        FREE.X,
        FREE.y,
        0.0,
        0.7,
        loss,
        qid=FREE.qid,
        intercept=learner is CoRLS,
    )
    np.testing.assert_allclose(model.predict_views(FREE.X), expected(FREE.X), atol=1e-6)
    assert model.alpha_ == 0
    assert model.unscored_effect_ is None
    with pytest.raises(ValueError, match="alpha = 0 has no held-out predictions"):
        model.predict_held_out()


@learners
def test_alpha_of_zero_is_refused_where_a_function_is_open(learner):
    with pytest.raises(ValueError, match="alpha = 0 needs scores and agreement that leave no"):
        learner(FREE_VIEWS, 0, 0.7, "all", solver="coordinate").fit(FREE.X, FREE.y, qid=FREE.qid)
    with pytest.raises(ValueError, match="alpha = 0 needs scores and agreement"):
        learner(FREE_VIEWS, 0, 0.7, "all").fit(FREE.X, FREE.y, qid=FREE.qid)
    with pytest.raises(ValueError, match="alpha = 0 needs scores and agreement"):
        CoRankRLS(FREE_VIEWS, 0, 0.0, "scored").fit(FREE.X, FREE.y, qid=FREE.qid)


@pytest.mark.parametrize("options", [{"alpha": [0, 1]}, {"agreement": "tune"}], ids=str)
def test_alpha_of_zero_is_not_judged(options):
    model = CoRLS(FREE_VIEWS, 0, 0.7, "scored").set_params(**options)
    with pytest.raises(ValueError, match="alpha = 0 has no held-out errors: give one number each"):
        model.fit(FREE.X, FREE.y, qid=FREE.qid)


def test_a_model_without_a_norm_is_saved_and_updated(tmp_path):
    model = CoRLS(FREE_VIEWS, 0, 0.7, "scored").fit(FREE.X, FREE.y)
    again = round_trip(model, tmp_path / "model")
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    assert np.isfinite(again.update(FREE.X_new, np.arange(7.0)).predict(NEW)).all()
