"""`edges=`: preferences beside scores, against the stated objective and literal refitting."""

import numpy as np
import pytest
from brute_force import REGRESSION, Loss, comparison_rows, loss_rows, minimise
from brute_force.views import Look, StackedViews, rbf, unscored_rows
from scipy import sparse

from corank import RLS, CoRankRLS, CoRLS, RankRLS, View, load, scan

pytestmark = pytest.mark.usefixtures("one_blas_thread")

RNG = np.random.default_rng(3)
N = 26
X, NEW, APART = (RNG.normal(size=(n, 4)) for n in (N, 7, 6))
QID = np.asarray([0] * 5 + [1] * 7 + [2] * 1 + [3] * 6 + [4] * 7)
Y = np.round(X[:, 0] - X[:, 2] + RNG.normal(size=N), 1)
Y[[2, 8, 20, 25]] = np.nan
W = RNG.uniform(0.4, 2.0, size=N)
# within a query, between queries, with rows without a score, a tie
EDGES = np.asarray(
    [[0, 3, 1.5, 0.7], [6, 21, 0.5, 2.0], [12, 1, 1.0, 0.4], [2, 9, 2.0, 1.0], [8, 20, 1.0, 1.2],
     [13, 14, 0.0, 0.8], [22, 24, 1.0, 1.0]]
)  # fmt: skip
ENDS, MARGINS, WEIGHTS = EDGES[:, :2].astype(int).T, EDGES[:, 2], EDGES[:, 3]
LOSSES = [REGRESSION, Loss("size"), Loss("unit"), Loss("query"), Loss("unit", 0.3)]
GAMMA, ALPHA = 0.3, 0.2
BASES = {"all": "all", "rows": [1, 2, 8, 13, 21], "columns": "features"}


def learner(loss, **options):
    if loss is REGRESSION:
        return RLS(**options)
    return RankRLS(weighting=loss.weighting, beta=loss.beta, **options)


def literal_rows(loss, qid, weights, level, kept=None, edges=None):
    """(T, t) on all rows of X: the loss of the scores that are kept, then that of the edges."""
    kept = np.flatnonzero(~np.isnan(Y)) if kept is None else kept
    own = np.ones(len(kept)) if weights is None else weights[kept]
    labels = np.zeros(len(kept)) if qid is None else qid[kept]
    scored, t = loss_rows(Y[kept] - level, labels, loss, own)
    T = np.zeros((len(scored), N))
    T[:, kept] = scored
    edges = np.arange(len(EDGES)) if edges is None else edges
    if len(edges) == 0:
        return T, t
    rows, margins = comparison_rows(N, *ENDS[:, edges], MARGINS[edges], WEIGHTS[edges])
    return np.concatenate([T, rows]), np.concatenate([t, margins])


def level_of(loss, weights, kept=None):
    if loss is not REGRESSION:
        return 0.0
    kept = np.flatnonzero(~np.isnan(Y)) if kept is None else kept
    return np.average(Y[kept], weights=None if weights is None else weights[kept])


def features(basis):
    """Φ(X), Φ(NEW) and the Gram of the basis."""
    if basis == "features":
        return X, NEW, np.eye(X.shape[1])
    used = np.union1d(np.flatnonzero(~np.isnan(Y)), ENDS.ravel())
    points = X[used] if basis == "all" else X[basis]
    k = rbf(GAMMA)
    return k(X, points), k(NEW, points), k(points, points)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("qid", [None, QID], ids=["one query", "queries"])
@pytest.mark.parametrize("basis", BASES)
def test_the_fit_minimises_the_stated_objective(loss, qid, basis):
    weights = None if loss.weighting == "query" else W
    kernel = {"kernel": "linear"} if basis == "columns" else {"gamma": GAMMA}
    model = learner(loss, alpha=ALPHA, basis=BASES[basis], **kernel)
    model.fit(X, Y, qid=qid, sample_weight=weights, edges=EDGES)
    level = level_of(loss, weights)
    phi, new, gram = features(BASES[basis])
    T, t = literal_rows(loss, qid, weights, level)
    expected = new @ minimise(T, t, phi, gram, ALPHA) + level
    np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("alphas", [[0.05, 0.5, 5.0]])
def test_held_out_errors_are_those_of_refitting_without_a_query_and_the_edges_within(
    loss, basis, alphas
):
    kernel = {"kernel": "linear"} if basis == "columns" else {"gamma": GAMMA}
    model = learner(loss, alpha=alphas, basis=BASES[basis], **kernel)
    model.fit(X, Y, qid=QID, edges=EDGES)
    phi, _, gram = features(BASES[basis])
    scored = ~np.isnan(Y)
    inner = (QID[ENDS[0]] == QID[ENDS[1]]) & scored[ENDS[0]] & scored[ENDS[1]]
    errors, size = np.zeros(len(alphas)), 0
    for query in range(5):
        out = np.flatnonzero(scored & (query == QID))
        of_query = inner & (QID[ENDS[0]] == query)
        kept, stay = np.flatnonzero(scored & (query != QID)), np.flatnonzero(~of_query)
        level = level_of(loss, None, kept)
        T, t = literal_rows(loss, QID, None, level, kept, stay)
        held, goal = literal_rows(loss, QID, None, level, out, np.flatnonzero(of_query))
        rank = np.linalg.matrix_rank(held)
        size += rank
        for j, alpha in enumerate(alphas):
            f = phi @ minimise(T, t, phi, gram, alpha)
            errors[j] += np.sum((goal - held @ f) ** 2) if rank else 0.0
    freedom = (len(Y[scored]) - (0 if loss is REGRESSION or loss.beta else 5)) + inner.sum()
    np.testing.assert_allclose(model.path_.error, errors / freedom, rtol=1e-6)


VIEWS = [View([0, 1], gamma=GAMMA), View([2, 3], gamma=0.5, penalty=2.0)]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("basis", ["all", [1, 2, 8, 13, 21, N + 2]])
@pytest.mark.parametrize("solver", ["direct", "coordinate"])
def test_views_share_the_edges_and_do_not_agree_on_their_rows(loss, basis, solver):
    options = {"solver": solver, "tol": 1e-12, "max_iter": 20_000}
    model = (
        CoRLS(VIEWS, ALPHA, 0.7, basis, **options)
        if loss is REGRESSION
        else CoRankRLS(VIEWS, ALPHA, 0.7, basis, loss.weighting, loss.beta, **options)
    )
    model.fit(X, Y, qid=QID, unscored=APART, edges=EDGES)
    rows = np.concatenate([X, APART])
    looks = [
        Look(view.columns, rbf(gamma), rows[numbers], view.penalty)
        for view, gamma, numbers in zip(model.views_, model.gamma_, model.basis_, strict=True)
    ]
    level = level_of(loss, None)
    losses = [(X, *literal_rows(loss, QID, None, level))] * 2
    plain = np.where(np.isin(np.arange(N), ENDS), 0.0, Y)
    shared = unscored_rows(X, plain, loss, QID, None, APART)
    expected = StackedViews(looks, losses, shared).minimiser(ALPHA, 0.7, level)(NEW)
    np.testing.assert_allclose(model.predict_views(NEW), expected, atol=1e-6)
    assert model.learned_from == "score"


@pytest.mark.parametrize("make", [RLS, RankRLS, CoRLS, CoRankRLS])
@pytest.mark.parametrize("qid", [None, QID], ids=["one query", "queries"])
@pytest.mark.parametrize("basis", ["all", 9])
def test_everything_is_tuned_saved_and_loaded(make, qid, basis, tmp_path):
    options = {"unscored": APART} if make in (CoRLS, CoRankRLS) else {}
    model = make(basis=basis).fit(X, Y, qid=qid, edges=EDGES, **options)
    assert np.isfinite(model.path_.error).all()
    model.save(tmp_path / "model.corank")
    np.testing.assert_array_equal(load(tmp_path / "model.corank").predict(NEW), model.predict(NEW))
    assert model.counts()["scored"] == np.sum(~np.isnan(Y))
    labels = None if qid is None else np.zeros(7)
    if basis == "all" and options:
        with pytest.raises(ValueError, match="which keeps sums; so it is with edges"):
            model.update(NEW, NEW[:, 0], qid=labels)
    else:
        assert np.isfinite(model.update(NEW, NEW[:, 0], qid=labels).predict(NEW)).all()


@pytest.mark.parametrize("make", [RLS, RankRLS])
@pytest.mark.parametrize("qid", [None, QID], ids=["one query", "queries"])
def test_update_adds_to_sums_with_edges(make, qid):
    options = {"alpha": ALPHA, "gamma": GAMMA, "basis": BASES["rows"]}
    if make is RLS:
        options["fit_intercept"] = False
    model = make(**options).fit(X, Y, qid=qid, edges=EDGES)
    model.update(NEW, NEW[:, 0], qid=None if qid is None else np.full(7, 9))
    rows, y = np.concatenate([X, NEW]), np.concatenate([Y, NEW[:, 0]])
    labels = None if qid is None else np.concatenate([qid, np.full(7, 9)])
    expected = make(**options).fit(rows, y, qid=labels, edges=EDGES)
    np.testing.assert_allclose(model.predict(APART), expected.predict(APART), atol=1e-9)


def test_many_rows_are_summed():
    """Ten folds of queries, from sums; the edges within them go with them."""
    rng = np.random.default_rng(0)
    rows, qid = rng.normal(size=(900, 3)), np.arange(900) // 3
    y = rows[:, 0] + rng.normal(size=900)
    edges = rng.choice(900, size=(40, 2), replace=False)
    model = RankRLS(basis=5, gamma=0.2).fit(rows, y, qid=qid, edges=edges)
    again = RankRLS(model.alpha_, model.basis_, gamma=0.2).fit(rows, y, qid=qid, edges=edges)
    np.testing.assert_allclose(model.predict(rows[:5]), again.predict(rows[:5]), atol=1e-9)
    k, points = rbf(0.2), rows[model.basis_]
    T, t = loss_rows(y, qid, Loss("size"), np.ones(900))
    pairs, margins = comparison_rows(900, *edges.T)
    T, t = np.concatenate([T, pairs]), np.concatenate([t, margins])
    found = minimise(T, t, k(rows, points), k(points, points), model.alpha_)
    np.testing.assert_allclose(model.predict(rows[:5]), k(rows[:5], points) @ found, atol=1e-7)


def test_a_sparse_matrix_of_weights_is_a_graph():
    matrix = sparse.coo_array((WEIGHTS, ENDS), shape=(N, N))
    found = RankRLS(ALPHA, gamma=GAMMA).fit(X, Y, qid=QID, edges=matrix.tocsr())
    ones = np.ones(len(EDGES))
    listed = np.column_stack([*ENDS, ones, WEIGHTS])
    expected = RankRLS(ALPHA, gamma=GAMMA).fit(X, Y, qid=QID, edges=listed)
    np.testing.assert_allclose(found.predict(NEW), expected.predict(NEW), atol=1e-9)
    plain = RankRLS(ALPHA, gamma=GAMMA).fit(X, Y, qid=QID, edges=ENDS.T)
    listed[:, 3] = 1.0
    expected = RankRLS(ALPHA, gamma=GAMMA).fit(X, Y, qid=QID, edges=listed)
    np.testing.assert_allclose(plain.predict(NEW), expected.predict(NEW), atol=1e-9)


def test_zeros_that_a_sparse_matrix_stores_are_no_edges():
    matrix = sparse.coo_array((WEIGHTS, ENDS), shape=(N, N))
    entries = np.r_[WEIGHTS, np.zeros(2)], (np.r_[ENDS[0], 3, 0], np.r_[ENDS[1], 3, 9])
    with_zeros = sparse.coo_array(entries, shape=(N, N))
    models = [
        RankRLS(ALPHA, gamma=GAMMA).fit(X, Y, qid=QID, edges=graph)
        for graph in (matrix, with_zeros)
    ]
    np.testing.assert_array_equal(models[0].predict(NEW), models[1].predict(NEW))


def test_scores_without_order_learn_from_the_edges():
    """No warning of ties, and held-out predictions of the rows with scores."""
    model = RankRLS(gamma=GAMMA).fit(X, np.zeros(N), qid=QID, edges=EDGES)
    gaps = model.predict(X[ENDS[0]]) - model.predict(X[ENDS[1]])
    assert gaps[MARGINS > 0].mean() > 0
    held = RankRLS(ALPHA, gamma=GAMMA).fit(X, Y, qid=QID, edges=EDGES).held_out_predictions_
    assert held.shape == (N,)
    np.testing.assert_array_equal(np.isnan(held), np.isnan(Y))


def fit(edges, make=RankRLS, y=Y, **options):
    return make(**options).fit(X, y, qid=QID, edges=edges)


REFUSED = {
    "one column": (
        lambda: fit([[1], [2]]),
        r"edges must be rows \(winner, loser\).* shape \(2, 1\)",
    ),
    "outside": (lambda: fit([[0, N]]), f"edges: losers points at row {N}"),
    "masked": (lambda: fit(np.ma.masked_equal([[0, 1], [2, 3]], 2)), "edges has masked entries"),
    "itself": (lambda: fit([[3, 3]]), "edges: winners and losers hold a comparison of row 3"),
    "fractions": (lambda: fit([[0.5, 1.0]]), "edges: winners and losers must be row numbers of X"),
    "no number": (lambda: fit([[0, np.nan]]), "edges: winners and losers must be row numbers of X"),
    "other lengths": (lambda: fit([[0, 1], [2]]), "edges must be rows of the same length"),
    "negative margin": (lambda: fit([[0, 1, -1.0]]), "edges: margins contains negative values"),
    "no edge": (lambda: fit(np.zeros((0, 2))), "edges: winners and losers are empty"),
    "shape": (
        lambda: fit(sparse.eye_array(3)),
        r"edges is a matrix of shape \(3, 3\), but X has 26",
    ),
    "several columns": (lambda: fit(EDGES, y=np.stack([Y, Y], 1)), "edges go with one column of y"),
    "cv": (lambda: fit(EDGES, cv=3), "cv does not go with edges; leave it out"),
    "widths": (lambda: fit(EDGES, gamma="columns"), "gamma='columns' does not go with edges"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_named(case):
    call, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_scans_have_no_edges(tmp_path):
    np.savetxt(tmp_path / "rows.csv", np.column_stack([X, X[:, 0]]), delimiter=",", header="a,b,c,d,s", comments="")  # fmt: skip
    rows = scan(str(tmp_path / "rows.csv"), features=list("abcd"), score="s")
    with pytest.raises(ValueError, match="edges does not go with a scan"):
        RankRLS().fit(rows, edges=EDGES)
