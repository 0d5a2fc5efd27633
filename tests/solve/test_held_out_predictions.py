"""Held-out predictions, each way of finding them, against literal refitting."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from brute_force import REGRESSION, Loss, fit_predict_comparisons, loss_rows, small_problem
from brute_force.components import coefficients, components, nystrom, sizes_of
from brute_force.views import Look, fit_views, item_folds, rbf, small_views
from edited_files import round_trip
from forced_way import forced
from scipy import sparse
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, PredefinedSplit, ShuffleSplit

from corank import (
    KPCR,
    RLS,
    CoRankingPursuit,
    CoRankRLS,
    CoRLS,
    DifferenceGP,
    KPCRank,
    MatchingPursuit,
    PreferenceGP,
    RankingPursuit,
    RankRLS,
    TransductiveRankRLS,
    View,
    scan,
)

pytestmark = [
    pytest.mark.usefixtures("one_blas_thread"),
    pytest.mark.filterwarnings("ignore:The groups parameter is ignored"),
]
P = small_views()
N, SCORED = len(P.y), P.scored
GAMMAS, PENALTIES = [2.0, 1.5], [1.0, 2.0]
GAMMA, ALPHA, AGREEMENT = 0.3, 0.4, 0.3
BASIS = np.asarray([1, 4, 5, 9, 12, 20, 25, 2])
LOSSES = [REGRESSION, Loss("size"), Loss("unit"), Loss("query"), Loss("unit", 0.3)]

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
every_basis = pytest.mark.parametrize("basis", ["all", "subset"])
one_and_two_views = pytest.mark.parametrize("n_views", [1, 2])


def learner(loss, basis, n_views, **options):
    rows = BASIS if basis == "subset" else basis
    if n_views == 1:
        if loss is REGRESSION:
            return RLS(ALPHA, rows, gamma=GAMMA, **options)
        return RankRLS(ALPHA, rows, loss.weighting, loss.beta, gamma=GAMMA, **options)
    views = [View(slice(2 * v, 2 * v + 2), gamma=GAMMAS[v], penalty=PENALTIES[v]) for v in range(2)]
    if loss is REGRESSION:
        return CoRLS(views, ALPHA, AGREEMENT, rows, **options)
    return CoRankRLS(views, ALPHA, AGREEMENT, rows, loss.weighting, loss.beta, **options)


def looks(basis, n_views):
    points = P.X[BASIS] if basis == "subset" else P.X
    if n_views == 1:
        return [Look(slice(None), rbf(GAMMA), points)]
    return [Look(slice(2 * v, 2 * v + 2), rbf(GAMMAS[v]), points, PENALTIES[v]) for v in range(2)]


def centred(values, labels, weights):
    """With the weighted mean of every query at 0."""
    values = np.array(values)
    for query in np.unique(labels):
        rows = (labels == query) & ~np.isnan(values)
        if rows.any():
            values[rows] -= np.average(values[rows], weights=weights[rows])
    return values


def literal(loss, basis, n_views, folds, y=P.y, qid=None, weights=None):
    """(n,) or (n, n_views) by one refit per fold, whose number every row of X has, −1 for none."""
    own = y.ndim == 2
    w = np.ones(N) if weights is None else weights
    columns, expected = y.reshape(N, -1), np.full((N, y.shape[1] if own else 1), np.nan)
    plain = np.isnan(columns).all(axis=1)
    for fold in np.unique(folds[folds >= 0]):
        kept = plain | (folds != fold)
        labels = None if qid is None else qid[kept]
        options = {"qid": labels, "weights": w[kept], "intercept": loss is REGRESSION}
        model = fit_views(
            looks(basis, n_views), P.X[kept], y[kept], ALPHA, AGREEMENT, loss, **options
        )
        values = model(P.X) if own else model(P.X).mean(axis=1, keepdims=True)
        if qid is None and loss.beta == 0:  # the level of the rows that are kept
            for column, scores in zip(values.T, columns.T, strict=True):
                rows = kept & ~np.isnan(scores)
                column += np.average(scores[rows] - column[rows], weights=w[rows])
        expected[~kept] = values[~kept]
    expected[np.isnan(columns)] = np.nan
    if qid is not None and loss.beta == 0:
        expected = np.stack([centred(column, qid, w) for column in expected.T], axis=1)
    return expected if own else expected[:, 0]


def on_all_rows(folds, rows=SCORED):
    every = np.full(N, -1)
    every[rows] = folds
    return every


def close(found, expected):
    assert np.isfinite(expected).any()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


# ---- one view and several


@one_and_two_views
@every_basis
@every_loss
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_queries_left_out_equal_refitting(loss, basis, weighted, n_views):
    weights = P.weights if weighted and loss.weighting != "query" else None
    model = learner(loss, basis, n_views)
    model.fit(P.X, P.y, qid=P.qid, sample_weight=weights)
    expected = literal(loss, basis, n_views, on_all_rows(P.qid[SCORED]), P.y, P.qid, weights)
    close(model.held_out_predictions_, expected)
    for way in ["kernel", "inverse", *(["sums"] if basis == "subset" else [])]:
        with forced(way):
            close(model.predict_held_out(), expected)


@one_and_two_views
@every_basis
@every_loss
def test_rows_left_out_without_qid_equal_refitting(loss, basis, n_views):
    model = learner(loss, basis, n_views)
    model.fit(P.X, P.y, sample_weight=P.weights if loss.weighting != "query" else None)
    folds = np.arange(len(SCORED)) if loss.beta == 1 else item_folds(P.y[SCORED])
    if loss.beta == 0.3 and basis == "all":
        with pytest.raises(ValueError, match="closed form"):
            model.predict_held_out()
        return
    weights = P.weights if loss.weighting != "query" else None
    expected = literal(loss, basis, n_views, on_all_rows(folds), P.y, None, weights)
    close(model.held_out_predictions_, expected)
    if basis == "subset":
        with forced("sums"):
            close(model.predict_held_out(), expected)


@every_basis
@pytest.mark.parametrize("loss", [REGRESSION, Loss("size")], ids=str)
def test_views_with_scores_of_their_own_have_predictions_of_their_own(loss, basis):
    y = P.own_scores[:, :2]
    given = np.flatnonzero(~np.isnan(y).all(axis=1))
    model = learner(loss, basis, 2).fit(P.X, y, qid=P.qid)
    assert model.held_out_predictions_.shape == (N, 2)
    expected = literal(loss, basis, 2, on_all_rows(P.qid[given], given), y, P.qid)
    close(model.held_out_predictions_, expected)


@pytest.mark.parametrize("loss", [REGRESSION, Loss("size")], ids=str)
def test_folds_of_ones_own(loss):
    folds = np.array([{0: 0, 1: 1, 2: 0, 3: 1, 4: -1}.get(query, -1) for query in P.qid])
    folds[np.isnan(P.y)] = -1
    splits = [
        (np.flatnonzero((folds != f) & ~np.isnan(P.y)), np.flatnonzero(folds == f)) for f in (0, 1)
    ]
    model = learner(loss, "all", 1).fit(P.X, P.y, qid=P.qid)
    expected = literal(loss, "all", 1, folds, P.y, P.qid)
    close(model.predict_held_out(splits), expected)
    close(model.predict_held_out(PredefinedSplit(folds[SCORED])), expected)
    chosen = learner(loss, "all", 1, cv=splits).fit(P.X, P.y, qid=P.qid)
    close(chosen.held_out_predictions_, expected)
    assert model.predict_held_out(GroupKFold(3)).shape == (N,)


def test_single_items_of_the_only_query_can_be_told_apart():
    model = RankRLS(ALPHA, gamma=GAMMA).fit(P.X, P.y)
    expected = literal(Loss("size"), "all", 1, on_all_rows(np.arange(len(SCORED))))
    close(model.predict_held_out(LeaveOneOut()), expected)


def test_they_are_what_the_held_out_error_is_of():
    model = RankRLS([0.1, 1.0, 10.0]).fit(P.X, P.y, qid=P.qid)
    T, t = loss_rows(P.y[SCORED], P.qid[SCORED], Loss("size"))
    residuals = t - T @ model.held_out_predictions_[SCORED]
    freedom = len(SCORED) - len(np.unique(P.qid[SCORED]))
    np.testing.assert_allclose(residuals @ residuals / freedom, model.path_.least, rtol=1e-9)


def test_many_folds_from_sums_come_in_several_passes(monkeypatch):
    monkeypatch.setattr("corank.solve.holdout.MAX_FOLDS_WITH_SUMS", 3)
    model = RankRLS(ALPHA, BASIS, gamma=GAMMA).fit(P.X, P.y, qid=P.qid)
    with forced("sums"):
        found = model.predict_held_out()
    close(found, model.held_out_predictions_)


# ---- comparisons, components, Gaussian processes


WINNERS, LOSERS = SCORED[:12], np.roll(SCORED, 5)[:12]
MARGINS = np.linspace(0, 2, 12)


def test_comparisons_left_out_one_by_one():
    model = RankRLS(ALPHA, gamma=GAMMA).fit_comparisons(P.X, WINNERS, LOSERS, margins=MARGINS)
    expected = []
    for number in range(12):
        kept = np.delete(np.arange(12), number)
        ends = P.X[[WINNERS[number], LOSERS[number]]]
        values = fit_predict_comparisons(
            P.X, WINNERS[kept], LOSERS[kept], ends, rbf(GAMMA), ALPHA, margins=MARGINS[kept]
        )
        expected.append(values[0] - values[1])
    close(model.held_out_predictions_, np.asarray(expected))


def test_a_gaussian_process_has_those_of_rankrls():
    process = DifferenceGP(2.0, GAMMA, 0.5).fit(P.X, P.y, qid=P.qid)
    model = RankRLS(process.alpha_, gamma=GAMMA).fit(P.X, P.y, qid=P.qid)
    close(process.held_out_predictions_, model.held_out_predictions_)
    process.fit_comparisons(P.X, WINNERS, LOSERS, margins=MARGINS)
    model.fit_comparisons(P.X, WINNERS, LOSERS, margins=MARGINS)
    close(process.held_out_predictions_, model.held_out_predictions_)


@pytest.mark.parametrize("with_queries", [True, False], ids=["qid", "one query"])
@every_basis
@pytest.mark.parametrize("loss", [REGRESSION, Loss("size"), Loss("unit")], ids=str)
def test_components_stay_while_rows_are_left_out(loss, basis, with_queries):
    Q = small_problem(seed=2, sizes=(1, 4, 7, 3, 5))
    rows = np.arange(0, 20, 2) if basis == "subset" else "all"
    if loss is REGRESSION:
        model = KPCR(3, 0.2, basis=rows, gamma=GAMMA)
    else:
        model = KPCRank(3, 0.2, loss.weighting, basis=rows, gamma=GAMMA)
    qid = Q.qid if with_queries else None
    model.fit(Q.X, Q.y, qid=qid, sample_weight=Q.weights)
    labels = Q.qid if with_queries else np.zeros(20)
    folds = Q.qid if with_queries else item_folds(Q.y)
    if not with_queries and loss is REGRESSION:
        folds = np.arange(20) % 10
    cv = PredefinedSplit(folds)
    k = rbf(GAMMA) if basis == "all" else nystrom(rbf(GAMMA), Q.X[rows])
    found = components(k(Q.X, Q.X), k(Q.X, Q.X), Q.weights)
    T_all, _ = loss_rows(Q.y, labels, loss, Q.weights)
    sizes, expected = sizes_of(T_all, found), np.zeros(20)
    for fold in np.unique(folds):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        offset = np.average(Q.y[train], weights=Q.weights[train]) * (loss is REGRESSION)
        T, t = loss_rows(Q.y[train] - offset, labels[train], loss, Q.weights[train])
        turned = np.eye(len(found.values))
        weights = coefficients(T, t, found.rows[train], 0.2, sizes, turned)[:, 2]
        values = found.rows @ weights + offset
        if loss is not REGRESSION and not with_queries:
            gaps = Q.y[train] - values[train]
            values = values + np.average(gaps, weights=Q.weights[train])
        expected[test] = values[test]
    if loss is not REGRESSION and with_queries:
        expected = centred(expected, labels, Q.weights)
    close(model.predict_held_out(cv), expected)


# ---- rows and precision


def test_unscored_rows_and_rows_without_weight_have_none():
    weights = np.where(np.arange(N) % 5 == 0, 0.0, 1.0)
    model = RLS(ALPHA).fit(P.X.astype(np.float32), P.y, sample_weight=weights)
    found = model.held_out_predictions_
    np.testing.assert_array_equal(np.isnan(found), np.isnan(P.y) | (weights == 0))
    assert found.dtype == np.float32


@pytest.mark.parametrize("cv", [KFold(3), ShuffleSplit(3, random_state=0)], ids=str)
def test_splits_without_a_closed_form_are_refused(cv):
    model = RankRLS(ALPHA).fit(P.X, P.y, qid=P.qid)
    with pytest.raises(ValueError, match="closed form for folds of whole queries"):
        model.predict_held_out(cv)
    with pytest.raises(ValueError, match=r"a list of splits .*PredefinedSplit of scikit-learn"):
        model.predict_held_out(P.qid)


def test_one_query_of_few_items_leaves_nothing_to_hold_out():
    model = RankRLS(ALPHA).fit(P.X[:3], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="too little to hold anything out"):
        model.predict_held_out()


@pytest.mark.filterwarnings("ignore:y has no unscored row:UserWarning")
@pytest.mark.parametrize(
    "model",
    [
        PreferenceGP(1.0, 0.3),
        RankingPursuit(2),
        MatchingPursuit(2),
        CoRankingPursuit([View([0, 1]), View([2, 3])], 2, 0.1),
        TransductiveRankRLS(1.0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_learners_without_a_closed_form_say_why(model):
    model.fit(P.X[SCORED], P.y[SCORED], qid=P.qid[SCORED])
    with pytest.raises(ValueError, match=f"{type(model).__name__} has no .* closed form: "):
        model.predict_held_out()
    assert not hasattr(model, "held_out_predictions_")


def test_rows_are_not_in_files_pickles_and_updated_models(tmp_path):
    model = RankRLS(ALPHA).fit(P.X, P.y, qid=P.qid)
    size = len(pickle.dumps(RankRLS(ALPHA, BASIS).fit(P.X, P.y, qid=P.qid)))
    wide = np.repeat(P.X, 50, axis=0)
    large = RankRLS(ALPHA, BASIS).fit(wide, np.repeat(P.y, 50), qid=np.repeat(P.qid, 50))
    assert len(pickle.dumps(large)) < 1.1 * size
    for other in (
        round_trip(model, tmp_path / "model"),
        pickle.loads(pickle.dumps(model)),
        copy.copy(model),
    ):
        with pytest.raises(ValueError, match="need the rows of fit"):
            other.predict_held_out()
        np.testing.assert_array_equal(other.predict(P.X), model.predict(P.X))
    assert model.held_out_predictions_.shape == (N,)
    model.update(P.X, P.y, qid=P.qid)
    with pytest.raises(AttributeError, match="need the rows of fit"):
        model.held_out_predictions_  # noqa: B018


def test_rows_of_a_scan_pass_by(tmp_path):
    path = tmp_path / "rows.csv"
    rows = np.column_stack([P.X[SCORED], P.y[SCORED]])
    names = [*(f"c{number}" for number in range(P.X.shape[1])), "y"]
    lines = [",".join(map(str, row)) for row in [names, *rows.tolist()]]
    path.write_text("\n".join(lines))
    model = RLS(ALPHA).fit(scan(path, score="y"))
    with pytest.raises(ValueError, match="rows of a scan only pass by"):
        model.predict_held_out()


def test_a_glance_does_not_hold_anything_out():
    model = RankRLS(ALPHA).fit(P.X, P.y, qid=P.qid)
    assert "held_out_predictions_" not in model._repr_html_() or model._fitted_rows is not None
    assert "predictions" not in vars(model._fitted_rows)


@pytest.mark.parametrize("library", ["torch", "CSR", "frame"])
def test_other_libraries_have_the_same(library):
    expected = RankRLS(ALPHA, gamma=GAMMA).fit(P.X, P.y, qid=P.qid).held_out_predictions_
    X, y = sparse.csr_array(P.X), P.y
    if library == "torch":
        torch = pytest.importorskip("torch")
        X, y = torch.tensor(P.X), torch.tensor(P.y)
    elif library == "frame":
        X = pd.DataFrame(P.X, columns=list("abcdef"))
    found = RankRLS(ALPHA, gamma=GAMMA).fit(X, y, qid=P.qid).held_out_predictions_
    assert type(found).__name__ == ("Tensor" if library == "torch" else "ndarray")
    np.testing.assert_allclose(np.asarray(found), expected, atol=1e-10)


def test_views_with_bonds_of_pairs_and_chunks_of_unscored_rows():
    bonds = np.asarray([[0, 1, 0], [1, 0, 2], [0, 2, 0.0]])
    views = [View([0, 1], gamma=1.0), View([2, 3], gamma=1.0), View([4, 5], gamma=1.0)]
    chunks = [P.apart[:3], P.apart[3:]]
    model = CoRLS(views, ALPHA, bonds).fit(P.X, P.y, unscored=chunks)
    found = model.held_out_predictions_
    for row in SCORED[:3]:
        y = P.y.copy()
        kept = np.delete(np.arange(N), row)
        again = CoRLS(views, ALPHA, bonds).fit(P.X[kept], y[kept], unscored=chunks)
        np.testing.assert_allclose(again.predict(P.X[[row]]), found[row], atol=1e-8)
