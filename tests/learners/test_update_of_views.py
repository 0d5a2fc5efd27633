"""`update` of several views with newly scored rows is `fit` on all rows, at the same parameters and
basis.
"""

import numpy as np
import pandas as pd
import pytest
from brute_force import small_problem
from scipy import sparse

from corank import CoRankRLS, CoRLS, View, side_by_side

pytestmark = pytest.mark.usefixtures("one_blas_thread")

PROBLEM = small_problem(seed=51, sizes=(1, 4, 7, 3, 5, 4), d=5)
ORDER = np.argsort(PROBLEM.qid, kind="stable")
X, Y, QID, W = (values[ORDER] for values in (PROBLEM.X, PROBLEM.y, PROBLEM.qid, PROBLEM.weights))
CUT = int(np.searchsorted(QID, 3))
FIRST, LATER = slice(0, CUT), slice(CUT, len(Y))
NEW = PROBLEM.X_new
rng = np.random.default_rng(6)
M = 11
UNSCORED, UNSCORED_QID = rng.standard_normal((M, 5)), np.arange(M) % 3

VIEWS = [View([0, 2], gamma=0.4, penalty=2.0), View([1, 3, 4], gamma=0.2)]
LINEAR = [View([0, 2], kernel="linear"), View([1, 3, 4], kernel="linear", penalty=0.5)]
SUBSET = [[0, 2, 5], [1, 2, 7, 9]]
BASES = {"all": "all", "subset": SUBSET, "features": "features"}
every_basis = pytest.mark.parametrize("basis", BASES)
both = pytest.mark.parametrize("learner", [CoRLS, CoRankRLS])
close = {"rtol": 1e-6, "atol": 1e-8}


def options(basis):
    return {
        "views": LINEAR if basis == "features" else VIEWS,
        "basis": BASES[basis],
        "alpha": 0.3,
        "agreement": 0.7,
    }


def unscored(qid=True):
    return {"unscored": UNSCORED, **({"unscored_qid": UNSCORED_QID} if qid else {})}


def same(updated, fitted):
    np.testing.assert_allclose(updated.predict_views(NEW), fitted.predict_views(NEW), **close)
    assert (updated.alpha_, updated.agreement_) == (fitted.alpha_, fitted.agreement_)
    assert updated.intercept_ == pytest.approx(fitted.intercept_)
    assert (updated._n_seen, updated._n_scored) == (fitted._n_seen, fitted._n_scored)
    assert updated._n_queries == fitted._n_queries


@every_basis
@pytest.mark.parametrize("weighting", ["size", "unit", "query"])
@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_new_queries(basis, weighting, beta):
    model, fitted = (CoRankRLS(weighting=weighting, beta=beta, **options(basis)) for _ in range(2))
    model.fit(X[FIRST], Y[FIRST], qid=QID[FIRST], **unscored())
    same(model.update(X[LATER], Y[LATER], qid=QID[LATER]), fitted.fit(X, Y, qid=QID, **unscored()))


@every_basis
@pytest.mark.parametrize("weighting", ["size", "unit", "query"])
@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_without_qid_the_rows_join_the_one_query(basis, weighting, beta):
    model, fitted = (CoRankRLS(weighting=weighting, beta=beta, **options(basis)) for _ in range(2))
    model.fit(X[FIRST], Y[FIRST], **unscored(qid=False))
    same(model.update(X[LATER], Y[LATER]), fitted.fit(X, Y, **unscored(qid=False)))


@every_basis
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("qid", [QID, None], ids=["qid", "no qid"])
def test_regression(basis, intercept, qid):
    model, fitted = (CoRLS(fit_intercept=intercept, **options(basis)) for _ in range(2))
    before, after = (None, None) if qid is None else (QID[FIRST], QID[LATER])
    model.fit(X[FIRST], 5 + Y[FIRST], qid=before, **unscored())
    same(
        model.update(X[LATER], 5 + Y[LATER], qid=after), fitted.fit(X, 5 + Y, qid=qid, **unscored())
    )


@every_basis
@both
@pytest.mark.parametrize(
    "weights", [(W, W), (None, W), (W, None)], ids=["both", "only later", "only first"]
)
def test_weights(basis, learner, weights):
    before, after = [
        None if w is None else w[part] for w, part in zip(weights, (FIRST, LATER), strict=True)
    ]
    whole = [
        np.ones(len(own)) if w is None else w
        for w, own in zip((before, after), (Y[FIRST], Y[LATER]), strict=True)
    ]
    model = learner(**options(basis)).fit(
        X[FIRST], Y[FIRST], qid=QID[FIRST], sample_weight=before, **unscored()
    )
    fitted = learner(**options(basis)).fit(
        X, Y, qid=QID, sample_weight=np.concatenate(whole), **unscored()
    )
    same(model.update(X[LATER], Y[LATER], qid=QID[LATER], sample_weight=after), fitted)


@every_basis
@both
def test_unscored_rows_of_x_count_where_the_model_was_fitted(basis, learner):
    """With their weights and queries; those that come with new scores are left out."""
    rows, y = np.concatenate([X[FIRST], UNSCORED]), np.concatenate([Y[FIRST], np.full(M, np.nan)])
    qid, weights = (
        np.concatenate([QID[FIRST], 100 + UNSCORED_QID]),
        np.concatenate([W[FIRST], W[:M]]),
    )
    model = learner(**options(basis)).fit(rows, y, qid=qid, sample_weight=weights)
    later = np.append(Y[LATER], np.nan)
    model.update(
        np.vstack([X[LATER], NEW[:1]]),
        later,
        qid=np.append(QID[LATER], 7),
        sample_weight=np.ones(len(later)),
    )
    fitted = learner(**options(basis)).fit(
        np.concatenate([rows, X[LATER]]),
        np.concatenate([y, Y[LATER]]),
        qid=np.concatenate([qid, QID[LATER]]),
        sample_weight=np.concatenate([weights, np.ones(len(later) - 1)]),
    )
    np.testing.assert_allclose(model.predict_views(NEW), fitted.predict_views(NEW), **close)
    assert model._n_unscored == M


@every_basis
@both
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_without_any_unscored_row(basis, learner, kind):
    own = {**options(basis), "agreement": 0.0}
    model = learner(**own).fit(kind(X[FIRST]), Y[FIRST], qid=QID[FIRST])
    same(model.update(kind(X[LATER]), Y[LATER], qid=QID[LATER]), learner(**own).fit(X, Y, qid=QID))


@every_basis
@both
def test_one_by_one_is_all_at_once(basis, learner):
    model = learner(**options(basis)).fit(X[FIRST], Y[FIRST], qid=QID[FIRST], **unscored())
    for query in (3, 4, 5):
        rows = np.flatnonzero(query == QID)
        model.update(X[rows], Y[rows], qid=QID[rows])
    same(model, learner(**options(basis)).fit(X, Y, qid=QID, **unscored()))


@every_basis
def test_the_first_rows_may_be_a_single_query(basis):
    one, rest = np.flatnonzero(QID == 2), np.flatnonzero(QID > 2)
    every = np.concatenate([one, rest])
    own = {**options(basis), **({"basis": [[0, 1], [2, 3]]} if basis == "subset" else {})}
    model = CoRankRLS(**own).fit(X[one], Y[one], qid=QID[one], **unscored())
    same(
        model.update(X[rest], Y[rest], qid=QID[rest]),
        CoRankRLS(**own).fit(X[every], Y[every], qid=QID[every], **unscored()),
    )


@every_basis
@both
@pytest.mark.parametrize("qid", [QID, None], ids=["qid", "no qid"])
def test_scores_of_every_view(basis, learner, qid):
    """The later rows have scores in one view only."""
    scores = np.stack([Y, 2 * Y], axis=1)
    scores[[1, 4], [0, 1]] = np.nan
    scores[LATER, 1] = np.nan
    before, after = (None, None) if qid is None else (QID[FIRST], QID[LATER])
    model = learner(**options(basis)).fit(X[FIRST], scores[FIRST], qid=before, **unscored())
    fitted = learner(**options(basis)).fit(X, scores, qid=qid, **unscored())
    same(model.update(X[LATER], scores[LATER], qid=after), fitted)


@both
def test_a_model_on_all_rows_takes_the_new_ones_into_its_basis(learner):
    model = learner(**options("all")).fit(X[FIRST], Y[FIRST], qid=QID[FIRST], **unscored())
    model.update(X[LATER], Y[LATER], qid=QID[LATER])
    beyond = CUT + np.arange(M)  # row numbers: of X, of unscored=, of the update
    expected = np.concatenate([np.arange(CUT), CUT + M + np.arange(len(Y) - CUT), beyond])
    every = np.concatenate([X[FIRST], UNSCORED, X[LATER]])
    for view, index, points in zip(model.views_, model.basis_, model.basis_points_, strict=True):
        np.testing.assert_array_equal(index, expected)
        np.testing.assert_array_equal(points, every[index][:, view.columns])


@pytest.mark.parametrize("basis", ["all", 6])
def test_a_tuned_model_keeps_what_was_chosen(basis):
    model = CoRankRLS(2, basis=basis, gamma="tune").fit(
        X[FIRST], Y[FIRST], qid=QID[FIRST], **unscored()
    )
    chosen = model.alpha_, model.agreement_, list(model.gamma_)
    model.update(X[LATER], Y[LATER], qid=QID[LATER])
    assert (model.alpha_, model.agreement_, model.gamma_) == chosen
    views = [
        View(view.columns, gamma=gamma)
        for view, gamma in zip(model.views_, model.gamma_, strict=True)
    ]
    if basis == "all":
        again = CoRankRLS(views, *chosen[:2], basis).fit(X, Y, qid=QID, **unscored())
        np.testing.assert_allclose(model.predict(NEW), again.predict(NEW), **close)


def test_descent_is_not_repeated():
    own = {**options("subset"), "tol": 1e-11}
    model = CoRLS(solver="coordinate", **own).fit(X[FIRST], Y[FIRST], **unscored())
    assert model.n_iter_ > 1
    same(model.update(X[LATER], Y[LATER]), CoRLS(**own).fit(X, Y, **unscored()))
    assert model.n_iter_ == 1


@pytest.mark.parametrize("basis", ["all", "subset", "features"])
@pytest.mark.parametrize(
    "kind", [np.ndarray.tolist, pd.DataFrame, sparse.csr_array], ids=["list", "frame", "CSR"]
)
def test_rows_come_in_any_kind(basis, kind):
    fitted = CoRankRLS(**options(basis)).fit(X, Y, qid=QID, **unscored())
    model = CoRankRLS(**options(basis)).fit(
        kind(X[FIRST]), Y[FIRST], qid=QID[FIRST], unscored=kind(UNSCORED), unscored_qid=UNSCORED_QID
    )
    model.update(kind(X[LATER]), Y[LATER], qid=QID[LATER])
    np.testing.assert_allclose(model.predict(kind(NEW)), fitted.predict(NEW), **close)


@every_basis
def test_torch_rows(basis):
    torch = pytest.importorskip("torch")
    model = CoRLS(**options(basis)).fit(
        *map(torch.asarray, (X[FIRST], Y[FIRST])), unscored=torch.asarray(UNSCORED)
    )
    model.update(torch.asarray(X[LATER]), torch.asarray(Y[LATER]))
    found = model.predict(torch.asarray(NEW))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(
        found.numpy(), CoRLS(**options(basis)).fit(X, Y, unscored=UNSCORED).predict(NEW), **close
    )


def test_chunks_of_unscored_rows_stay_in_the_sums_of_a_subset():
    chunks = [(UNSCORED[:4], [0] * 4), (UNSCORED[4:], [1] * 7)]
    qid = [0] * 4 + [1] * 7
    model = CoRankRLS(**options("subset")).fit(X[FIRST], Y[FIRST], qid=QID[FIRST], unscored=chunks)
    fitted = CoRankRLS(**options("subset")).fit(X, Y, qid=QID, unscored=UNSCORED, unscored_qid=qid)
    same(model.update(X[LATER], Y[LATER], qid=QID[LATER]), fitted)


def test_precomputed_kernels_with_a_subset_as_basis():
    def kernels(rows, views=((0, 2), (1, 3, 4)), widths=(0.4, 0.2)):
        return [
            np.exp(-gamma * ((rows[:, None, list(v)] - X[FIRST][:, list(v)]) ** 2).sum(axis=-1))
            for v, gamma in zip(views, widths, strict=True)
        ]

    K, views = side_by_side(kernels(X[FIRST]), kernel="precomputed")
    model = CoRankRLS(views, 0.3, 0.7, SUBSET).fit(
        K, np.where(QID[FIRST] == 1, np.nan, Y[FIRST]), qid=QID[FIRST]
    )
    model.update(side_by_side(kernels(X[LATER]))[0], Y[LATER], qid=QID[LATER])
    plain = [View([0, 2], gamma=0.4), View([1, 3, 4], gamma=0.2)]
    fitted = CoRankRLS(plain, 0.3, 0.7, SUBSET).fit(X, np.where(QID == 1, np.nan, Y), qid=QID)
    np.testing.assert_allclose(
        model.predict(side_by_side(kernels(NEW))[0]), fitted.predict(NEW), **close
    )


def test_what_cannot_be_updated_says_so():
    with pytest.raises(
        ValueError, match=r"update adds scored rows, but this model was fitted on comparisons"
    ):
        CoRankRLS(2, 1.0, 1.0).fit_comparisons(X, [0, 1], [2, 3]).update(X, Y)
    with pytest.raises(ValueError, match="update cannot extend a precomputed kernel"):
        CoRLS([View(kernel="precomputed")] * 2, 1.0, 0.0).fit(X @ X.T, Y).update(X @ X.T, Y)
    with pytest.raises(
        ValueError, match=r"unscored rows that came in chunks; fit again, or take a number of rows"
    ):
        CoRLS(2, 1.0, 1.0).fit(X, Y, unscored=[UNSCORED[:4], UNSCORED[4:]]).update(X, Y)


@pytest.mark.parametrize("basis", ["all", "subset"])
def test_qid_is_given_to_update_as_it_was_to_fit(basis):
    with pytest.raises(
        ValueError,
        match="qid must be given to update as it was to fit: the model was fitted with qid",
    ):
        CoRankRLS(**options(basis)).fit(X, Y, qid=QID, **unscored()).update(X, Y)
    with pytest.raises(ValueError, match=r"qid must be given .* fitted without qid"):
        CoRankRLS(**options(basis)).fit(X, Y, **unscored()).update(X, Y, qid=QID)
    model = CoRankRLS(weighting="query", **options(basis)).fit(X, Y, qid=QID, **unscored())
    with pytest.raises(ValueError, match="sample_weight does not go with weighting='query'"):
        model.update(X, Y, qid=QID, sample_weight=W)


@pytest.mark.parametrize("basis", ["all", "subset"])
def test_rows_that_cannot_be_compared_are_said_to_teach_nothing(basis):
    model = CoRankRLS(**options(basis)).fit(X, Y, qid=QID, **unscored())
    before = model.predict(NEW)
    with pytest.warns(UserWarning, match="no two of the new rows can be compared"):
        model.update(X[:2], Y[:2], qid=["a", "b"])
    np.testing.assert_allclose(model.predict(NEW), before, **close)


@pytest.mark.parametrize("basis", ["all", "subset"])
def test_a_refused_update_changes_nothing(basis):
    model = CoRankRLS(**options(basis)).fit(X, Y, qid=QID, **unscored())
    before = model.predict(NEW)
    for rows, scores, queries, message in (
        (X[:, :2], Y, QID, "features"),
        (X, Y[:-1], QID, "y has"),
        (X, Y, QID[:-1], "qid has"),
        (X, np.full(len(Y), np.nan), QID, "y has no scored row"),
        (X, np.stack([Y, Y, Y], axis=1), QID, "y has 3 columns for 2 views"),
    ):
        with pytest.raises(ValueError, match=message):
            model.update(rows, scores, qid=queries)
    np.testing.assert_array_equal(model.predict(NEW), before)
