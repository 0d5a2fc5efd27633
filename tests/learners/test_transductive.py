"""TransductiveRankRLS: completed scores against the stated objective, what is chosen for them, and
what it is fed.
"""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from brute_force import Loss, fit_predict, kernel, leave_groups_out, loss_rows, small_problem
from brute_force.transduction import (
    held_out_pulls,
    numbered,
    refit,
    refitted,
    strongest_within_one_error,
    transduce,
)
from edited_files import round_trip
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, LeaveOneOut
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from corank import RankRLS
from corank.core.basis import BasisNotice
from corank.learners.transductive import TransductiveRankRLS
from corank.solve.tuning import PullPath

pytestmark = [
    pytest.mark.usefixtures("one_blas_thread"),
    pytest.mark.filterwarnings("ignore:.*scored and unscored rows:UserWarning"),
]

GAMMA, ALPHA, PULL = 0.4, 0.3, 0.5
K = kernel("rbf", gamma=GAMMA)
PROBLEM = small_problem(seed=3, sizes=(1, 4, 7, 3, 5, 4, 1, 2))
X, QID, X_NEW = PROBLEM.X, PROBLEM.qid, PROBLEM.X_new
N = len(QID)
WEIGHTINGS = ("query", "size", "unit")
ROWS = [0, 3, 7, 9, 12, 20]  # fewer than the largest query has
FEW = [0, 9, 20]  # fewer than most of them
weightings = pytest.mark.parametrize("weighting", WEIGHTINGS)


def hidden(*queries, mixed=False):
    """The scores without those of some queries, and of some rows of query 2."""
    y = PROBLEM.y.copy()
    y[np.isin(QID, queries)] = np.nan
    if mixed:
        y[np.flatnonzero(QID == 2)[[0, 2, 3]]] = np.nan
    return y


CASES = {
    "one query": hidden(4),
    "several queries": hidden(1, 4, 5),
    "single rows": hidden(0, 3, 6),
    "only a single row": hidden(6),
    "all but one": hidden(0, 1, 3, 4, 5, 6, 7),
    "both kinds of rows": hidden(1, 6, mixed=True),
}
Y = CASES["both kinds of rows"]


def model(alpha=ALPHA, pull=PULL, **options):
    return TransductiveRankRLS(alpha, pull, **{"gamma": GAMMA, **options})


def close(found, expected, tolerance=1e-9):
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max(initial=0.0))
    )


# ---- the completed scores


@weightings
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "basis", ["all", ROWS, FEW, "scored"], ids=["all", "rows", "few rows", "scored"]
)
def test_scores_minimise_the_objective(case, weighting, basis):
    y = CASES[case]
    points = None if basis == "all" else X[~np.isnan(y) if basis == "scored" else basis]
    own = model(weighting=weighting, basis=basis).fit(X, y, qid=QID)
    expected = transduce(X, y, QID, K, ALPHA, PULL, weighting, points)
    close(own.transduction_, expected)
    close(own.predict(X_NEW), refit(X, y, expected, QID, X_NEW, K, ALPHA, weighting, points))


@pytest.mark.parametrize("alpha", [1e-5, 10.0])
@pytest.mark.parametrize("pull", [1e-6, 1e4])
@pytest.mark.parametrize("basis", ["all", ROWS], ids=["all", "rows"])
def test_extreme_parameters(alpha, pull, basis):
    own = model(alpha, pull, basis=basis).fit(X, Y, qid=QID)
    expected = transduce(X, Y, QID, K, alpha, pull, basis=None if basis == "all" else X[basis])
    close(own.transduction_, expected, 1e-6)


@pytest.mark.slow
def test_no_general_minimiser_finds_less():
    """One that refits RankRLS for every guess."""
    found = model().fit(X, Y, qid=QID).transduction_
    codes, unknown = numbered(Y, QID), np.isnan(Y)
    alone = fit_predict(
        X[~unknown], Y[~unknown], X[unknown], K, ALPHA, Loss("query"), qid=codes[~unknown]
    )

    def objective(guess):
        y, total = Y.copy(), PULL * np.sum((guess - alone) ** 2)
        y[unknown] = guess
        for rest, own in leave_groups_out(codes):
            f = fit_predict(X[rest], y[rest], X[own], K, ALPHA, Loss("query"), qid=codes[rest])
            T, t = loss_rows(y[own], codes[own], Loss("query"))
            total += np.sum((t - T @ f) ** 2)
        return total

    best = minimize(
        objective, found + np.random.default_rng(0).normal(size=len(found)), options={"maxiter": 20}
    )
    assert objective(found) <= best.fun + 1e-12
    np.testing.assert_allclose(best.x, found, atol=1e-2)


def test_without_qid_the_two_kinds_are_two_queries():
    own = model().fit(X, Y)
    expected = transduce(X, Y, np.zeros(N), K, ALPHA, PULL)
    close(own.transduction_, expected)


@pytest.mark.parametrize("sizes", [(150, 8, 140, 9), (8, 150, 9), (130, 5, 6)], ids=str)
@pytest.mark.parametrize("basis", ["all", "given"])
def test_large_queries_are_solved_like_small_ones(sizes, basis, monkeypatch):
    data = small_problem(seed=1, sizes=sizes)
    y = np.where(np.isin(data.qid, [1, 2]), np.nan, data.y)
    rows = "all" if basis == "all" else np.arange(0, len(y), 3)
    large = model(basis=rows, pull=0.05).fit(data.X, y, qid=data.qid)
    monkeypatch.setattr("corank.solve.transduction.LARGE_QUERY_ROWS", 10**9)
    monkeypatch.setattr("corank.solve.transduction.BLOCK_ENTRIES", 1)
    small = model(basis=rows, pull=0.05).fit(data.X, y, qid=data.qid)
    close(large.transduction_, small.transduction_)
    close(large.predict(data.X_new), small.predict(data.X_new))


@weightings
@pytest.mark.parametrize("basis", ["all", ROWS], ids=["all", "rows"])
def test_means_of_queries_are_those_of_the_scored_queries_predictions(weighting, basis):
    own = model(pull=1e-3, weighting=weighting, basis=basis).fit(X, Y, qid=QID)
    y = np.isnan(Y)
    inductive = (
        RankRLS(ALPHA, gamma=GAMMA, weighting=weighting, basis=basis)
        .fit(X, Y, qid=QID)
        .predict(X[y])
    )
    for query in np.unique(QID[y]):
        rows = QID[y] == query
        np.testing.assert_allclose(
            own.transduction_[rows].mean(), inductive[rows].mean(), rtol=1e-9
        )


@weightings
@pytest.mark.parametrize("basis", ["all", ROWS, "scored"], ids=["all", "rows", "scored"])
def test_a_large_pull_gives_the_inductive_predictions(weighting, basis):
    own = model(pull=1e9, weighting=weighting, basis=basis).fit(X, Y, qid=QID)
    inductive = RankRLS(ALPHA, gamma=GAMMA, weighting=weighting, basis=basis).fit(X, Y, qid=QID)
    np.testing.assert_allclose(own.transduction_, inductive.predict(X[np.isnan(Y)]), atol=1e-7)


def test_a_single_unscored_row_gets_its_prediction():
    y = hidden(6)
    own = model(pull=1e-3).fit(X, y, qid=QID)
    inductive = RankRLS(ALPHA, gamma=GAMMA, weighting="query").fit(X, y, qid=QID)
    np.testing.assert_allclose(own.transduction_, inductive.predict(X[np.isnan(y)]), rtol=1e-9)


@pytest.mark.parametrize("basis", ["all", ROWS], ids=["all", "rows"])
def test_predict_is_rankrls_on_the_completed_scores(basis):
    own = model(basis=basis).fit(X, Y, qid=QID)
    completed = Y.copy()
    completed[np.isnan(Y)] = own.transduction_
    halves = 2 * QID + np.isnan(Y)
    again = RankRLS(ALPHA, gamma=GAMMA, weighting="query", basis=basis).fit(
        X, completed, qid=halves
    )
    close(own.predict(X_NEW), again.predict(X_NEW))
    close(own.coef_, again.coef_)
    np.testing.assert_array_equal(own.basis_, again.basis_)


@pytest.mark.parametrize("basis", ["all", ROWS, "features"], ids=["all", "rows", "features"])
@pytest.mark.parametrize("columns", [3, 60])
def test_the_features_as_basis_are_the_linear_kernel(basis, columns):
    wide = np.random.default_rng(0).normal(size=(N, columns))
    own = model(kernel="linear", basis=basis).fit(wide, Y, qid=QID)
    points = wide[ROWS] if basis == ROWS else None
    expected = transduce(wide, Y, QID, kernel("linear"), ALPHA, PULL, basis=points)
    close(own.transduction_, expected)
    close(
        own.predict(wide),
        refit(wide, Y, expected, QID, wide, kernel("linear"), ALPHA, basis=points),
    )


def test_order_of_rows_and_names_of_queries_do_not_matter():
    own = model().fit(X, Y, qid=QID)
    order = np.random.default_rng(2).permutation(N)
    names = np.array([f"query {label}" for label in QID])
    other = model().fit(X[order], Y[order], qid=names[order])
    scores = np.full(N, np.nan)
    scores[order[np.isnan(Y[order])]] = other.transduction_
    close(scores[np.isnan(Y)], own.transduction_)
    close(other.predict(X_NEW), own.predict(X_NEW))


# ---- rows of unscored=


@pytest.mark.parametrize("basis", ["all", ROWS], ids=["all", "rows"])
@pytest.mark.parametrize("form", ["array", "frame", "csr", "chunks", "chunks with qid"])
def test_unscored_rows_apart_are_queries_of_their_own(form, basis):
    more, labels = PROBLEM.X_new, np.array(list("aabbbbccc"))
    first, qid = X, labels
    if form == "frame":
        first, more_given = (
            pd.DataFrame(X, columns=list("uvw")),
            pd.DataFrame(more, columns=list("uvw")),
        )
    elif form == "csr":
        first, more_given = sparse.csr_array(X), sparse.csr_array(more)
    elif form == "chunks":
        more_given, qid, labels = [more[:4], more[4:]], None, np.array(["a"] * 9)
    elif form == "chunks with qid":
        more_given, qid = [(more[:3], labels[:3]), (more[3:], labels[3:])], None
    else:
        more_given = more
    own = model(basis=basis).fit(first, Y, qid=QID, unscored=more_given, unscored_qid=qid)
    together, y = np.concatenate([X, more]), np.concatenate([Y, np.full(9, np.nan)])
    names = np.concatenate([QID.astype(str), labels])
    points = None if basis == "all" else X[ROWS]
    expected = transduce(together, y, names, K, ALPHA, PULL, basis=points)
    close(own.transduction_, expected)
    np.testing.assert_array_equal(own.basis_, np.arange(N + 9) if basis == "all" else ROWS)
    close(own.predict(first), refit(together, y, expected, names, X, K, ALPHA, basis=points))


def test_unscored_rows_without_labels_are_one_query():
    own = model().fit(X, hidden(), qid=QID, unscored=X_NEW)
    named = model().fit(X, hidden(), qid=QID, unscored=X_NEW, unscored_qid=np.zeros(len(X_NEW)))
    close(own.transduction_, named.transduction_)


def test_no_rows_in_unscored():
    own = model().fit(X, Y, qid=QID, unscored=X[:0])
    close(own.transduction_, model().fit(X, Y, qid=QID).transduction_)


# ---- kernels, libraries, precision


def test_a_precomputed_kernel():
    own = model(kernel="precomputed").fit(K(X, X), Y, qid=QID)
    plain = model().fit(X, Y, qid=QID)
    close(own.transduction_, plain.transduction_)
    close(own.predict(K(X_NEW, X)), plain.predict(X_NEW))
    subset = model(kernel="precomputed", basis=ROWS).fit(K(X, X), Y, qid=QID)
    close(subset.transduction_, model(basis=ROWS).fit(X, Y, qid=QID).transduction_)


@pytest.mark.parametrize("basis", ["all", 6])
def test_precomputed_values_of_unscored_rows_apart(basis):
    """Their values among themselves are not given, so the rows of X are the basis."""
    own = model(kernel="precomputed", basis=basis).fit(K(X, X), Y, qid=QID, unscored=K(X_NEW, X))
    rows = np.arange(N) if basis == "all" else own.basis_
    plain = model(basis=rows).fit(X, Y, qid=QID, unscored=X_NEW)
    close(own.transduction_, plain.transduction_, 1e-6)
    close(own.predict(K(X_NEW, X)), plain.predict(X_NEW), 1e-6)


@pytest.mark.parametrize("basis", ["all", ROWS, 8], ids=["all", "rows", "pivoted"])
def test_csr_is_the_same(basis):
    own = model(basis=basis).fit(sparse.csr_array(X), Y, qid=QID)
    plain = model(basis=basis).fit(X, Y, qid=QID)
    close(own.transduction_, plain.transduction_)
    close(own.predict(sparse.csr_array(X_NEW)), plain.predict(X_NEW))


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
@pytest.mark.parametrize("basis", ["all", ROWS], ids=["all", "rows"])
@pytest.mark.parametrize(
    "options", [{}, {"pull": "tune", "alpha": [0.1, 0.3, 1.0]}], ids=["fixed", "tuned"]
)
def test_other_libraries(library, basis, options):
    xp = pytest.importorskip(library)
    plain = model(basis=basis, **options).fit(X, Y, qid=QID, unscored=X_NEW)
    own = model(basis=basis, **options).fit(
        xp.asarray(X), xp.asarray(Y), qid=QID, unscored=xp.asarray(X_NEW)
    )
    assert type(own.transduction_) is type(xp.asarray(X))
    assert (own.alpha_, own.pull_) == (plain.alpha_, plain.pull_)
    close(np.from_dlpack(own.transduction_), plain.transduction_)
    close(np.from_dlpack(own.predict(xp.asarray(X_NEW))), plain.predict(X_NEW))


def test_single_precision():
    own = model().fit(X.astype(np.float32), Y, qid=QID)
    assert own.transduction_.dtype == np.float64
    assert own.predict(X_NEW.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(
        own.transduction_, model().fit(X, Y, qid=QID).transduction_, atol=1e-4
    )


# ---- what is chosen


def test_alpha_and_gamma_are_chosen_as_rankrls_on_the_scored_queries_chooses_them():
    gammas = [0.05, 0.4, 3.0]
    scored = ~np.isnan(Y)
    for basis in ("all", ROWS):
        own = model("tune", gamma=gammas, basis=basis).fit(X, Y, qid=QID)
        plain = RankRLS(
            gamma=gammas, weighting="query", basis="scored" if basis == "all" else basis
        )
        plain.fit(X, np.where(scored, Y, np.nan), qid=QID)
        assert own.gamma_ == plain.gamma_
        # of grids that two learners scale to the data
        assert own.alpha_ == pytest.approx(plain.alpha_, rel=1e-9)
        for name in ("alpha", "gamma", "error", "standard_error"):
            np.testing.assert_allclose(
                getattr(own.path_, name), getattr(plain.path_, name), rtol=1e-9
            )
        assert own.path_.best == plain.path_.best


def test_gamma_alone_is_chosen_too():
    own = model(gamma=[0.05, 0.4, 3.0]).fit(X, Y, qid=QID)
    plain = RankRLS(ALPHA, gamma=[0.05, 0.4, 3.0], weighting="query", basis="scored").fit(
        X, Y, qid=QID
    )
    assert own.gamma_ == plain.gamma_
    assert own.alpha_ == ALPHA
    np.testing.assert_allclose(own.path_.error, plain.path_.error)


@weightings
@pytest.mark.parametrize("basis", ["all", ROWS, FEW], ids=["all", "rows", "few rows"])
def test_pull_is_chosen_by_hiding_scored_queries(weighting, basis):
    own = model([0.05, 0.3, 1.0, 4.0], "tune", weighting=weighting, basis=basis).fit(X, Y, qid=QID)
    path, points = own.path_, None if basis == "all" else X[basis]
    pulls = path.pull[4:]
    folds = [[query] for query in np.unique(QID[~np.isnan(Y)])]
    errors, sizes = held_out_pulls(X, Y, QID, folds, K, own.alpha_, pulls, weighting, points)
    np.testing.assert_allclose(path.error[4:], errors.sum(axis=0) / sizes.sum(), rtol=1e-7)
    assert own.pull_ == path.pull[path.best] == strongest_within_one_error(errors, sizes, pulls)
    fixed = model(own.alpha_, own.pull_, weighting=weighting, basis=basis).fit(X, Y, qid=QID)
    close(own.transduction_, fixed.transduction_)
    close(own.predict(X_NEW), fixed.predict(X_NEW))


def test_alpha_does_not_depend_on_how_pull_is_chosen():
    alphas = [4.0, 0.05, 0.3, 1.0]
    own, plain = (model(alphas, pull).fit(X, Y, qid=QID) for pull in ([0.1, 10.0], 1.0))
    assert own.alpha_ == plain.alpha_
    assert isinstance(own.path_, PullPath)
    np.testing.assert_array_equal(own.path_.pull, [np.inf] * 4 + [10.0, 0.1])
    np.testing.assert_array_equal(own.path_.alpha, [*alphas, own.alpha_, own.alpha_])
    np.testing.assert_allclose(own.path_.error[:4], plain.path_.error, rtol=1e-9)
    only = model(0.7, [0.1, 10.0]).fit(X, Y, qid=QID).path_
    np.testing.assert_array_equal(only.pull, [10.0, 0.1])
    np.testing.assert_array_equal(only.alpha, [0.7, 0.7])


@weightings
def test_the_grid_of_pulls_is_scaled_to_what_an_unscored_row_weighs(weighting):
    y = hidden(4)  # a query of 5
    path = model(pull="tune", weighting=weighting).fit(X, y, qid=QID).path_
    np.testing.assert_allclose(
        np.sort(path.pull), np.logspace(-3, 3, 7) * {"query": 0.5, "size": 1, "unit": 5}[weighting]
    )


@pytest.mark.parametrize("basis", ["all", ROWS], ids=["all", "rows"])
def test_pull_is_chosen_on_given_folds_of_queries(basis):
    folds, points = [[0, 5, 7], [2]], None if basis == "all" else X[ROWS]
    splits = [
        (np.flatnonzero(~np.isin(QID, own)), np.flatnonzero(np.isin(QID, own))) for own in folds
    ]
    own = model(pull=[0.01, 1.0], basis=basis, cv=splits).fit(X, Y, qid=QID)
    errors, sizes = held_out_pulls(X, Y, QID, folds, K, ALPHA, own.path_.pull, basis=points)
    np.testing.assert_allclose(own.path_.error, errors.sum(axis=0) / sizes.sum(), rtol=1e-8)
    assert own.pull_ == strongest_within_one_error(errors, sizes, own.path_.pull)
    assert (
        len(model(pull=[0.01, 1.0], basis=basis, cv=GroupKFold(3)).fit(X, Y, qid=QID).path_.pull)
        == 2
    )


@pytest.mark.parametrize("scoring", ["disagreement", "rescaled"])
def test_other_ways_to_score_what_is_held_out(scoring):
    own = model("tune", "tune", scoring=scoring).fit(X, Y, qid=QID)
    assert own.path_.scoring == scoring
    assert np.isfinite(own.path_.error).all()
    assert own.pull_ == own.path_.pull[own.path_.best]
    finite = np.isfinite(own.path_.pull)
    assert (
        own.path_.error[own.path_.best]
        <= own.path_.error[finite].min() + own.path_.standard_error[finite].max()
    )
    plain = RankRLS(gamma=GAMMA, weighting="query", scoring=scoring, basis="scored").fit(
        X, Y, qid=QID
    )
    # of grids that two learners scale to the data
    assert own.alpha_ == pytest.approx(plain.alpha_, rel=1e-9)


def test_more_queries_than_folds_are_hidden_in_ten_folds():
    data = small_problem(seed=5, sizes=(3,) * 14)
    y = np.where(data.qid >= 12, np.nan, data.y)
    first, again = (
        model("tune", "tune", random_state=7).fit(data.X, y, qid=data.qid) for _ in range(2)
    )
    np.testing.assert_array_equal(first.path_.error, again.path_.error)
    assert np.isfinite(first.path_.standard_error).all()


# ---- a number of rows as basis


def test_many_rows_take_a_subset(monkeypatch):
    monkeypatch.setattr("corank.learners.base.Learner._auto_basis", (20, 8))
    with pytest.warns(BasisNotice, match="8 of 36 rows"):
        own = model().fit(X, Y, qid=QID, unscored=X_NEW)
    assert len(own.basis_) == 8
    both = np.concatenate([X, X_NEW])
    np.testing.assert_array_equal(own.basis_points_, both[own.basis_])
    expected = transduce(
        both,
        np.concatenate([Y, np.full(9, np.nan)]),
        np.concatenate([QID, np.full(9, 99)]),
        K,
        ALPHA,
        PULL,
        basis=own.basis_points_,
    )
    close(own.transduction_, expected, 1e-7)


@weightings
def test_every_row_listed_as_basis_is_the_basis_of_all_rows(weighting):
    options = {"weighting": weighting, "pull": [0.02, 3.0]}
    listed, own = (
        model(basis=basis, **options).fit(X, Y, qid=QID) for basis in (np.arange(N), "all")
    )
    close(listed.transduction_, own.transduction_, 1e-7)
    np.testing.assert_allclose(listed.path_.error, own.path_.error, rtol=1e-7)


def test_every_kernel_width_chooses_its_own_rows():
    own = model("tune", gamma="tune", basis=8).fit(X, Y, qid=QID, unscored=X_NEW)
    assert len(own.path_.error) == 7 * 20
    assert own.gamma_ == own.path_.gamma[own.path_.best]
    fixed = model(own.alpha_, gamma=own.gamma_, basis=8).fit(X, Y, qid=QID, unscored=X_NEW)
    np.testing.assert_array_equal(own.basis_, fixed.basis_)
    close(own.transduction_, fixed.transduction_)


def test_unscored_rows_can_be_in_the_basis():
    y = hidden(0, 1, 2, 3, 4, 6)
    own = model(basis=12).fit(X, y, qid=QID)
    assert np.isnan(y[own.basis_]).any()


def test_a_subset_needs_no_square_matrix(memory_limit):
    rng = np.random.default_rng(0)
    n = 20_000
    many = rng.normal(size=(n, 3))
    y = many[:, 0] + rng.normal(size=n)
    y[n // 2 :] = np.nan
    labels = np.concatenate(
        [np.arange(n // 2) // 10, np.full(n // 4, -1), -2 - np.arange(n // 4) // 20]
    )
    with memory_limit(60):  # 5 matrices of n x 50; a square one would be 3,200 MB
        own = model(basis=50).fit(many, y, qid=labels)
    assert own.score(many[n // 2 :], many[n // 2 :, 0], qid=labels[n // 2 :]) > 0.9


# ---- too little, too much, or wrong


def test_without_unscored_rows_it_is_rankrls():
    with pytest.warns(
        UserWarning, match="Transduction needs rows without a score: NaN in y, or unscored="
    ):
        own = TransductiveRankRLS(pull="tune").fit(X, PROBLEM.y, qid=QID)
    plain = RankRLS(gamma="scale", weighting="query").fit(X, PROBLEM.y, qid=QID)
    close(own.predict(X_NEW), plain.predict(X_NEW))
    assert own.transduction_.shape == (0,)
    assert own.pull_ == 1.0
    with pytest.raises(ValueError, match="fit it again"):
        own.update(X, PROBLEM.y, qid=QID)


def test_one_scored_query_leaves_nothing_to_hold_out():
    y = CASES["all but one"]
    with pytest.warns(
        UserWarning, match=r"alpha was set to .*, gamma was set to .*, pull was set to .* not tuned"
    ):
        own = TransductiveRankRLS(pull="tune", gamma="tune", weighting="size").fit(X, y, qid=QID)
    assert own.path_ is None
    assert own.pull_ == 1.0
    scored = ~np.isnan(y)
    centred = K(X[scored], X[scored])
    with pytest.warns(UserWarning, match="alpha was set to"):
        scaled = model("tune", weighting="size").fit(X, y, qid=QID)
    centred = centred - centred.mean(axis=0) - centred.mean(axis=1)[:, None] + centred.mean()
    np.testing.assert_allclose(scaled.alpha_, np.trace(centred) / scored.sum())
    with pytest.warns(UserWarning, match="alpha was set to 2, pull was set to 3"):
        listed = model([1.0, 2.0], [3.0, 0.5]).fit(X, y, qid=QID)
    close(listed.transduction_, transduce(X, y, QID, K, 2.0, 3.0))


def test_scored_queries_of_single_rows_cannot_tell_pulls_apart():
    y = np.where(np.isin(QID, [0, 6]), PROBLEM.y, np.nan)
    with (
        pytest.warns(UserWarning, match="nothing to rank"),
        pytest.warns(UserWarning, match="not tuned"),
    ):
        own = model("tune", "tune").fit(X, y, qid=QID)
    np.testing.assert_array_equal(own.transduction_, 0.0)


@pytest.mark.filterwarnings("default:.*scored and unscored rows:UserWarning")
def test_a_half_scored_query_is_split_and_said_once():
    with pytest.warns(UserWarning, match="A query has") as caught:
        model().fit(X, Y, qid=QID)
    assert [str(one.message) for one in caught] == [
        (
            "A query has scored and unscored rows; it counts as two queries, the scored rows and the"
            " unscored rows."
        )
    ]
    y = Y.copy()
    y[np.flatnonzero(QID == 4)[:1]] = np.nan
    with pytest.warns(
        UserWarning, match="^2 queries have scored and unscored rows; each counts as two"
    ):
        model().fit(X, y, qid=QID)


@pytest.mark.parametrize("pull", [0, -1.0, [1.0, 0.0], np.array([-1.0])])
def test_pull_must_be_positive_because_of_the_level(pull):
    with pytest.raises(ValueError, match=r"pull must be greater than 0, got .*at what level"):
        model(pull=pull).fit(X, Y, qid=QID)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pull": "auto"}, "pull 'auto' is not known; use 'tune', a number or a list"),
        ({"pull": None}, "pull must be a number"),
        ({"pull": np.nan}, "pull must be greater than 0"),
        ({"pull": True}, "pull must be a number"),
        ({"weighting": "item"}, "weighting 'item' is not known"),
        ({"alpha": 0.0}, "alpha must be greater than 0"),
        ({"basis": 400}, "basis = 400 must lie between"),
        ({"basis": [40]}, "basis holds row 40, but X has rows 0 to 26"),
        ({"basis": "features"}, "basis='features' needs kernel='linear'"),
        ({"basis_selection": "best"}, "basis_selection 'best' is not known"),
        ({"scoring": "ndcg"}, "scoring 'ndcg' is not known"),
        ({"kernel": "rfb"}, "kernel 'rfb' is not known"),
        (
            {"pull": "tune", "cv": LeaveOneOut()},
            "cv: to choose pull every split must leave out whole queries",
        ),
        ({"alpha": 1e-20}, "alpha = 1e-20 is too small"),
    ],
    ids=str,
)
def test_parameters_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        model(**options).fit(X, Y, qid=QID)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"sample_weight": np.ones(N)},
            ValueError,
            "sample_weight does not go with TransductiveRankRLS",
        ),
        ({"groups": QID}, TypeError, "unexpected argument 'groups'"),
        ({"unscored_qid": [1]}, ValueError, "unscored_qid was given without unscored"),
        ({"unscored": X_NEW, "unscored_qid": [1]}, ValueError, "unscored_qid has 1 labels"),
        ({"unscored": X_NEW[:, :2]}, ValueError, "unscored does not fit X"),
        (
            {"unscored": sparse.csr_array(X_NEW)},
            ValueError,
            "unscored is a CSR matrix but X is not",
        ),
        ({"unscored": (X_NEW, np.zeros(9))}, TypeError, "unscored is a pair"),
        (
            {"unscored": [X_NEW], "unscored_qid": np.zeros(9)},
            ValueError,
            "unscored_qid does not go with chunks",
        ),
        ({"unscored": iter([X_NEW])}, TypeError, "read only once"),
    ],
    ids=lambda value: "" if isinstance(value, str | type) else next(iter(value)),
)
def test_arguments_are_refused_by_name(options, error, message):
    with pytest.raises(error, match=message):
        model().fit(X, Y, **{"qid": QID, **options})


def test_every_row_unscored_is_refused():
    with pytest.raises(ValueError, match="y has no scored row"):
        model().fit(X, np.full(N, np.nan), qid=QID)


def test_no_weights_are_no_weights():
    assert model().fit(X, Y, qid=QID, sample_weight=None).alpha_ == ALPHA


def test_update_is_refused():
    with pytest.raises(ValueError, match="fit it again with all rows"):
        model().fit(X, Y, qid=QID).update(X, Y, qid=QID)


# ---- files, copies, scikit-learn


@pytest.mark.parametrize(
    "own",
    [
        model(),
        model("tune", "tune", basis=6),
        model(kernel="linear", basis="features"),
        model(kernel="precomputed"),
    ],
    ids=["all", "tuned subset", "features", "precomputed"],
)
def test_a_model_survives_saving_pickling_and_cloning(own, tmp_path):
    given, new = (K(X, X), K(X_NEW, X)) if own.kernel == "precomputed" else (X, X_NEW)
    own.fit(given, Y, qid=QID)
    for copy in (round_trip(own, tmp_path / "a.corank"), pickle.loads(pickle.dumps(own))):
        np.testing.assert_array_equal(copy.predict(new), own.predict(new))
        np.testing.assert_array_equal(copy.transduction_, own.transduction_)
        assert (copy.alpha_, copy.pull_, copy.gamma_) == (own.alpha_, own.pull_, own.gamma_)
        assert repr(copy.path_) == repr(own.path_)
        with pytest.raises(ValueError, match="fit it again"):
            copy.update(given, Y, qid=QID)
    again = clone(own).fit(given, Y, qid=QID)
    np.testing.assert_array_equal(again.transduction_, own.transduction_)


def test_groups_and_transformed_unscored_rows_in_a_pipeline():
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = Pipeline(
            [("scale", StandardScaler()), ("rank", model())], transform_input=["unscored"]
        )
        pipeline.fit(X, Y, groups=QID, unscored=X_NEW)
    scaler = StandardScaler().fit(X)
    own = model().fit(scaler.transform(X), Y, qid=QID, unscored=scaler.transform(X_NEW))
    np.testing.assert_array_equal(pipeline[-1].transduction_, own.transduction_)


# ---- folds of several queries


SCORED_FOLDS = {
    0: 0,
    2: 1,
    3: 0,
    5: 1,
    6: 2,
    7: 2,
}  # of the queries 1 and 4, which are not scored, one
IN_FOLDS = hidden(1, 4)
TOGETHER = np.array([SCORED_FOLDS.get(query, 3) for query in QID])
SPLITS = [
    (np.flatnonzero((fold != TOGETHER) & (TOGETHER < 3)), np.flatnonzero(fold == TOGETHER))
    for fold in range(3)
]


def transduced_in_folds(y, together, pull, weighting, points=X, codes=QID):
    """(11) literally, whole folds of queries left out at a time."""
    loss, unknown, parts = Loss(weighting), np.isnan(y), []
    for fold in np.unique(together):
        own, rest = np.flatnonzero(together == fold), np.flatnonzero(together != fold)
        residual = np.zeros((len(own), N))
        residual[:, own] = np.eye(len(own))
        residual[:, rest] = -refitted(X[rest], codes[rest], X[own], K, ALPHA, loss, points)
        parts.append(loss_rows(np.zeros(len(own)), codes[own], loss)[0] @ residual)
    rows = np.concatenate(parts)
    alone = refitted(X[~unknown], codes[~unknown], X[unknown], K, ALPHA, loss, points)
    A = np.concatenate([rows[:, unknown], np.sqrt(pull) * np.eye(int(unknown.sum()))])
    b = np.concatenate([-rows[:, ~unknown] @ y[~unknown], np.sqrt(pull) * alone @ y[~unknown]])
    return np.linalg.lstsq(A, b, rcond=None)[0]


@weightings
@pytest.mark.parametrize("basis", ["all", ROWS], ids=["all", "rows"])
@pytest.mark.parametrize("pull", [0.05, 2.0])
def test_folds_of_queries_minimise_the_objective(weighting, basis, pull):
    own = model(pull=pull, weighting=weighting, basis=basis, folds="cv", cv=SPLITS)
    if basis == ROWS and weighting != "size":
        with pytest.raises(ValueError, match=r"cv: folds .* need weighting='size'.*basis='all'"):
            own.fit(X, IN_FOLDS, qid=QID)
        return
    own.fit(X, IN_FOLDS, qid=QID)
    points = X if basis == "all" else X[ROWS]
    expected = transduced_in_folds(IN_FOLDS, TOGETHER, pull, weighting, points)
    close(own.transduction_, expected)
    single = model(pull=pull, weighting=weighting, basis=basis).fit(X, IN_FOLDS, qid=QID)
    assert not np.allclose(single.transduction_, expected, atol=1e-4)
    predicted = refit(X, IN_FOLDS, expected, QID, X_NEW, K, ALPHA, weighting, points)
    close(own.predict(X_NEW), predicted)


def test_unscored_queries_are_dealt_to_folds_of_as_many():
    y = hidden(1, 4, 5)
    labels = np.where(np.isnan(y), 9, QID % 2)
    splits = [
        (np.flatnonzero(labels == 1 - fold), np.flatnonzero(labels == fold)) for fold in (0, 1)
    ]
    found = model(folds="cv", cv=splits).fit(X, y, qid=QID).transduction_
    partitions = [np.where(alone == QID, 8, labels) for alone in (1, 4, 5)]
    gaps = [
        np.abs(transduced_in_folds(y, together, PULL, "query") - found).max()
        for together in partitions
    ]
    assert min(gaps) < 1e-9


def test_pull_is_tuned_with_the_folds_of_the_objective():
    pulls = [0.01, 1.0, 100.0]
    own = model(pull=pulls, folds="cv", cv=SPLITS).fit(X, IN_FOLDS, qid=QID)
    loss, errors = Loss("query"), np.zeros(3)
    for fold in range(3):
        rows = fold == TOGETHER
        y = np.where(rows, np.nan, IN_FOLDS)
        T, t = loss_rows(PROBLEM.y[rows], QID[rows], loss)
        for position, pull in enumerate(pulls):
            completed = np.zeros(N)
            completed[np.isnan(y)] = transduced_in_folds(y, TOGETHER, pull, "query")
            errors[position] += np.sum((t - T @ completed[rows]) ** 2)
    freedom = sum(int(np.sum(query == QID)) - 1 for query in SCORED_FOLDS)
    tuned = np.isfinite(own.path_.pull)
    found = dict(zip(own.path_.pull[tuned].tolist(), own.path_.error[tuned].tolist(), strict=True))
    np.testing.assert_allclose([found[pull] for pull in pulls], errors / freedom, rtol=1e-8)


@pytest.mark.parametrize("cv", [None, LeaveOneOut()], ids=str)
def test_folds_need_splits_of_whole_queries(cv):
    with pytest.raises(ValueError, match="folds='cv' needs cv= with splits that leave out whole"):
        model(folds="cv", cv=cv).fit(X, IN_FOLDS, qid=QID)
    with pytest.raises(ValueError, match="folds 'rows' is not known"):
        model(folds="rows").fit(X, IN_FOLDS, qid=QID)


def test_a_model_of_folds_is_saved_and_loaded(tmp_path):
    own = model(folds="cv", cv=SPLITS).fit(X, IN_FOLDS, qid=QID)
    again = round_trip(own, tmp_path / "model")
    assert again.folds == "cv"
    np.testing.assert_array_equal(again.predict(X_NEW), own.predict(X_NEW))


@pytest.mark.parametrize("basis", ["all", ROWS], ids=["all", "rows"])
def test_leaving_one_query_out_is_the_default(basis):
    own = model(folds="cv", cv=LeaveOneGroupOut(), basis=basis).fit(X, IN_FOLDS, qid=QID)
    close(own.transduction_, model(basis=basis).fit(X, IN_FOLDS, qid=QID).transduction_, 1e-12)


def test_folds_of_unscored_queries_are_as_large_as_those_that_are_held_out():
    scored = np.flatnonzero(~np.isnan(IN_FOLDS))
    first = QID[scored] == QID[scored[0]]
    splits = [(scored[~first], scored[first])]
    own = model(folds="cv", cv=splits).fit(X, IN_FOLDS, qid=QID)
    close(own.transduction_, model().fit(X, IN_FOLDS, qid=QID).transduction_, 1e-12)
