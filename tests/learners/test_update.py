"""`update` with newly scored rows is `fit` on all rows, at the same alpha, kernel and basis."""

import numpy as np
import pandas as pd
import pytest
from brute_force import small_problem
from scipy import sparse

from corank import RLS, RankRLS

pytestmark = pytest.mark.usefixtures("one_blas_thread")

PROBLEM = small_problem(seed=41, sizes=(1, 4, 7, 3, 5, 4))
X, Y, QID, W, NEW = PROBLEM.X, PROBLEM.y, PROBLEM.qid, PROBLEM.weights, PROBLEM.X_new
ORDER = np.argsort(QID, kind="stable")
X, Y, QID, W = X[ORDER], Y[ORDER], QID[ORDER], W[ORDER]
CUT = int(np.searchsorted(QID, 3))
FIRST, LATER = slice(0, CUT), slice(CUT, len(Y))
BASES = {"dual": "all", "primal": list(range(CUT)), "subset": [0, 2, 5, 9], "features": "features"}
every_basis = pytest.mark.parametrize("basis", BASES)
close = {"rtol": 1e-7, "atol": 1e-9}


def options(basis):
    return {
        "basis": BASES[basis],
        **({"kernel": "linear"} if basis == "features" else {"gamma": 0.4}),
    }


def same(updated, fitted):
    np.testing.assert_allclose(updated.predict(NEW), fitted.predict(NEW), **close)
    assert updated.alpha_ == fitted.alpha_
    assert updated.intercept_ == pytest.approx(fitted.intercept_)


@every_basis
@pytest.mark.parametrize("weighting", ["size", "unit", "query"])
@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_new_queries(basis, weighting, beta):
    model = RankRLS(0.3, weighting=weighting, beta=beta, **options(basis))
    fitted = RankRLS(**model.get_params()).fit(X, Y, qid=QID)
    same(
        model.fit(X[FIRST], Y[FIRST], qid=QID[FIRST]).update(X[LATER], Y[LATER], qid=QID[LATER]),
        fitted,
    )


@every_basis
@pytest.mark.parametrize("weighting", ["size", "unit", "query"])
@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_without_qid_the_rows_join_the_one_query(basis, weighting, beta):
    model = RankRLS(0.3, weighting=weighting, beta=beta, **options(basis))
    fitted = RankRLS(**model.get_params()).fit(X, Y)
    same(model.fit(X[FIRST], Y[FIRST]).update(X[LATER], Y[LATER]), fitted)


@every_basis
@pytest.mark.parametrize("intercept", [True, False])
def test_regression(basis, intercept):
    model = RLS(0.3, fit_intercept=intercept, **options(basis))
    fitted = RLS(**model.get_params()).fit(X, Y)
    same(model.fit(X[FIRST], Y[FIRST]).update(X[LATER], Y[LATER]), fitted)


@every_basis
@pytest.mark.parametrize("learner", [RLS, RankRLS])
@pytest.mark.parametrize(
    "weights", [(W, W), (None, W), (W, None)], ids=["both", "only later", "only first"]
)
def test_weights(basis, learner, weights):
    before, after = [
        None if w is None else w[part] for w, part in zip(weights, (FIRST, LATER), strict=True)
    ]
    whole = np.concatenate(
        [
            np.ones(CUT) if before is None else before,
            np.ones(len(Y) - CUT) if after is None else after,
        ]
    )
    model = learner(0.3, **options(basis))
    fitted = learner(0.3, **options(basis)).fit(X, Y, qid=QID, sample_weight=whole)
    model.fit(X[FIRST], Y[FIRST], qid=QID[FIRST], sample_weight=before)
    same(model.update(X[LATER], Y[LATER], qid=QID[LATER], sample_weight=after), fitted)


@every_basis
@pytest.mark.parametrize("learner", [RLS, RankRLS])
def test_one_by_one_is_all_at_once(basis, learner):
    model = learner(0.3, **options(basis)).fit(X[FIRST], Y[FIRST], qid=QID[FIRST])
    for query in (3, 4, 5):
        rows = np.flatnonzero(np.isin(QID, query))
        model.update(X[rows], Y[rows], qid=QID[rows])
    same(model, learner(0.3, **options(basis)).fit(X, Y, qid=QID))


@every_basis
def test_the_first_rows_may_be_a_single_query(basis):
    one, rest = np.flatnonzero(QID == 2), np.flatnonzero(QID > 2)
    both = np.concatenate([one, rest])
    own = {**options(basis), **({"basis": [0, 1, 2]} if isinstance(BASES[basis], list) else {})}
    model = RankRLS(0.3, **own).fit(X[one], Y[one], qid=QID[one])
    fitted = RankRLS(0.3, **own).fit(X[both], Y[both], qid=QID[both])
    same(model.update(X[rest], Y[rest], qid=QID[rest]), fitted)


@every_basis
def test_labels_seen_before_name_queries_of_their_own(basis):
    model = RankRLS(0.3, **options(basis)).fit(X[FIRST], Y[FIRST], qid=QID[FIRST])
    same(
        model.update(X[LATER], Y[LATER], qid=QID[LATER] - 3),
        RankRLS(0.3, **options(basis)).fit(X, Y, qid=QID),
    )


@every_basis
@pytest.mark.parametrize("learner", [RLS, RankRLS])
def test_unscored_rows_are_left_out(basis, learner):
    y = Y.copy()
    y[[3, CUT + 1, CUT + 4]] = np.nan
    model = learner(0.3, **options(basis)).fit(X[FIRST], y[FIRST], qid=QID[FIRST])
    same(
        model.update(X[LATER], y[LATER], qid=QID[LATER]),
        learner(0.3, **options(basis)).fit(X, y, qid=QID),
    )


def test_a_model_on_all_rows_takes_the_new_ones_into_its_basis():
    y = Y.copy()
    y[[3, CUT + 1]] = np.nan
    model = (
        RankRLS(0.3, "all")
        .fit(X[FIRST], y[FIRST], qid=QID[FIRST])
        .update(X[LATER], y[LATER], qid=QID[LATER])
    )
    np.testing.assert_array_equal(model.basis_, np.flatnonzero(~np.isnan(y)))
    np.testing.assert_array_equal(model.basis_points_, X[model.basis_])


@pytest.mark.parametrize("basis", ["dual", "subset"])
def test_a_tuned_model_keeps_what_was_chosen(basis):
    model = RankRLS(gamma="tune", basis=BASES[basis]).fit(X[FIRST], Y[FIRST], qid=QID[FIRST])
    alpha, gamma = model.alpha_, model.gamma_
    model.update(X[LATER], Y[LATER], qid=QID[LATER])
    assert (model.alpha_, model.gamma_) == (alpha, gamma)
    same(model, RankRLS(alpha, BASES[basis], gamma=gamma).fit(X, Y, qid=QID))


@pytest.mark.parametrize("basis", ["dual", "subset", "features"])
@pytest.mark.parametrize(
    "kind", [np.ndarray.tolist, pd.DataFrame, sparse.csr_array], ids=["list", "frame", "CSR"]
)
def test_rows_come_in_any_kind(basis, kind):
    fitted = RankRLS(0.3, **options(basis)).fit(X, Y, qid=QID)
    model = RankRLS(0.3, **options(basis)).fit(kind(X[FIRST]), Y[FIRST], qid=QID[FIRST])
    model.update(kind(X[LATER]), Y[LATER], qid=QID[LATER])
    np.testing.assert_allclose(model.predict(kind(NEW)), fitted.predict(NEW), **close)


@pytest.mark.parametrize("basis", ["dual", "subset", "features"])
@pytest.mark.parametrize("first", [np.asarray, sparse.csr_array], ids=["dense first", "CSR first"])
def test_dense_rows_and_csr_rows_go_together(basis, first):
    later = sparse.csr_array if first is np.asarray else np.asarray
    model = RankRLS(0.3, **options(basis)).fit(first(X[FIRST]), Y[FIRST], qid=QID[FIRST])
    same(
        model.update(later(X[LATER]), Y[LATER], qid=QID[LATER]),
        RankRLS(0.3, **options(basis)).fit(X, Y, qid=QID),
    )


@every_basis
def test_torch_rows(basis):
    torch = pytest.importorskip("torch")
    model = RLS(0.3, **options(basis)).fit(torch.asarray(X[FIRST]), torch.asarray(Y[FIRST]))
    model.update(torch.asarray(X[LATER]), torch.asarray(Y[LATER]))
    found = model.predict(torch.asarray(NEW))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(
        found.numpy(), RLS(0.3, **options(basis)).fit(X, Y).predict(NEW), **close
    )


def test_precomputed_kernel_with_a_subset_as_basis():
    K = np.exp(-0.4 * ((X[:, None] - X[FIRST]) ** 2).sum(axis=-1))
    model = RankRLS(0.3, [0, 2, 5, 9], kernel="precomputed").fit(K[FIRST], Y[FIRST], qid=QID[FIRST])
    model.update(K[LATER], Y[LATER], qid=QID[LATER])
    expected = RankRLS(0.3, [0, 2, 5, 9], gamma=0.4).fit(X, Y, qid=QID)
    np.testing.assert_allclose(model.predict(K), expected.predict(X), **close)


def test_what_cannot_be_updated_says_so():
    with pytest.raises(
        ValueError, match=r"update adds scored rows, but this model was fitted on comparisons"
    ):
        RankRLS(1.0).fit_comparisons(X, [0, 1], [2, 3]).update(X, Y)
    with pytest.raises(ValueError, match="update cannot extend a precomputed kernel"):
        RankRLS(1.0, kernel="precomputed").fit(X @ X.T, Y, qid=QID).update(X @ X.T, Y, qid=QID)


@pytest.mark.parametrize("basis", ["dual", "subset"])
def test_qid_is_given_to_update_as_it_was_to_fit(basis):
    with pytest.raises(
        ValueError,
        match="qid must be given to update as it was to fit: the model was fitted with qid",
    ):
        RankRLS(1.0, **options(basis)).fit(X, Y, qid=QID).update(X, Y)
    with pytest.raises(ValueError, match=r"qid must be given .* fitted without qid"):
        RankRLS(1.0, **options(basis)).fit(X, Y).update(X, Y, qid=QID)


@pytest.mark.parametrize("basis", ["dual", "subset"])
def test_weights_do_not_go_with_equal_queries_in_update_either(basis):
    model = RankRLS(1.0, weighting="query", **options(basis)).fit(X, Y, qid=QID)
    with pytest.raises(ValueError, match="sample_weight does not go with weighting='query'"):
        model.update(X, Y, qid=QID, sample_weight=W)


@pytest.mark.parametrize("basis", ["dual", "subset"])
def test_a_refused_update_changes_nothing(basis):
    model = RankRLS(1.0, **options(basis)).fit(X, Y, qid=QID)
    before = model.predict(NEW)
    for rows, scores, queries, message in (
        (X[:, :2], Y, QID, "features"),
        (X, Y[:-1], QID, "y has"),
        (X, Y, QID[:-1], "qid has"),
        (X, np.full(len(Y), np.nan), QID, "y has no scored row"),
    ):
        with pytest.raises(ValueError, match=message):
            model.update(rows, scores, qid=queries)
    np.testing.assert_array_equal(model.predict(NEW), before)
