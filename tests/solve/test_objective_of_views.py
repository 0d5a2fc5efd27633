"""CoRLS and CoRankRLS, as a user calls them, against least squares on the stated objective."""

import numpy as np
import pytest
from brute_force import REGRESSION, Loss, kernel
from brute_force.views import Look, fit_views, fit_views_comparisons, rbf, small_views

from corank import CoRankRLS, CoRLS, View, load, random_bases, random_split

pytestmark = pytest.mark.usefixtures("one_blas_thread")
P = small_views(seed=1)
SCORED = P.scored
COLUMNS, GAMMAS, PENALTIES = [slice(0, 2), [2, 3], slice(4, 6)], [2.0, 1.5, 3.0], [1.0, 2.0, 0.5]
ALPHA, AGREEMENT = 0.2, 0.7
LOSSES = [REGRESSION, Loss("size"), Loss("unit"), Loss("query"), Loss("unit", 0.3)]
APART = {"unscored": P.apart, "unscored_qid": P.apart_qid}
BASES = {
    "all": "all",
    "auto": "auto",
    "scored": "scored",
    "number": 7,
    "given": [1, 4, 5, 9, 12, 20],
    "a list a view": [[1, 4, 5], [9, 12, 20, 25], [2, 3]],
}

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
every_basis = pytest.mark.parametrize("basis", BASES)
view_counts = pytest.mark.parametrize("n_views", [1, 2, 3])


def views(n_views=3):
    return [View(COLUMNS[v], gamma=GAMMAS[v], penalty=PENALTIES[v]) for v in range(n_views)]


def learner(loss, basis="all", own=None, intercept=True, agreement=AGREEMENT, **options):
    own = views() if own is None else own
    agreement = agreement if not isinstance(own, list) or len(own) > 1 else 0.0
    if loss is REGRESSION:
        return CoRLS(own, ALPHA, agreement, basis, fit_intercept=intercept, **options)
    return CoRankRLS(own, ALPHA, agreement, basis, loss.weighting, loss.beta, **options)


def looks(model, rows=P.X):
    """The views of a fitted model with its basis rows, taken from X and then from what was handed
    over apart.
    """
    return [
        Look(view.columns, rbf(gamma), rows[own], view.penalty)
        for view, gamma, own in zip(model.views_, model.gamma_, model.basis_, strict=True)
    ]


def check(model, loss, y=P.y, rows=P.X, intercept=True, agreement=AGREEMENT, own=None, **data):
    """Fit, and compare every view's predictions with those of the literal minimiser on the same
    basis rows.
    """
    names = {"weights": "sample_weight"}
    model.fit(P.X, y, **{names.get(name, name): value for name, value in data.items()})
    literal = fit_views(
        looks(model, rows) if own is None else own, P.X, y, ALPHA, agreement, loss,
        intercept=loss is REGRESSION and intercept, **data,
    )  # fmt: skip
    found = model.predict_views(P.X_new)
    np.testing.assert_allclose(found, literal(P.X_new), atol=1e-7)
    np.testing.assert_allclose(model.predict(P.X_new), found.mean(axis=1), atol=1e-12)
    return model


# ------------------------------------------------------------------ comparisons, views, bases


@every_loss
@every_basis
@view_counts
def test_every_loss_basis_and_number_of_views(loss, basis, n_views):
    if basis == "a list a view" and n_views < 3:
        pytest.skip("lists rows for three views")
    model = check(learner(loss, BASES[basis], views(n_views)), loss, qid=P.qid)
    sizes = [len(own) for own in model.basis_]
    everything = len(SCORED) if basis == "scored" else len(P.X)
    expected = {"number": [7] * 3, "given": [6] * 3, "a list a view": [3, 4, 2]}.get(
        basis, [everything] * 3
    )
    assert sizes == expected[:n_views]


@every_loss
@pytest.mark.parametrize("basis", ["all", "number"])
def test_without_query_labels_all_rows_are_one_query(loss, basis):
    check(learner(loss, BASES[basis]), loss)


@every_loss
@pytest.mark.parametrize("basis", ["all", "scored", "number", "given"])
@pytest.mark.parametrize("both", [True, False], ids=["and NaN rows", "alone"])
def test_unscored_rows_apart_and_clashing_labels_are_kept_apart(loss, basis, both):
    """The labels 2 and 3 name a scored query, an unscored one in X and one apart: three different
    ones.
    """
    if both:
        check(
            learner(loss, BASES[basis]),
            loss,
            rows=np.concatenate([P.X, P.apart]),
            qid=P.qid,
            **APART,
        )
        return
    rows = [4, 5, 9] if basis == "given" else BASES[basis]
    model = learner(loss, rows).fit(P.X[SCORED], P.y[SCORED], qid=P.qid[SCORED], **APART)
    own = looks(model, np.concatenate([P.X[SCORED], P.apart]))
    options = {"qid": P.qid[SCORED], "intercept": loss is REGRESSION, **APART}
    expected = fit_views(own, P.X[SCORED], P.y[SCORED], ALPHA, AGREEMENT, loss, **options)(P.X_new)
    np.testing.assert_allclose(model.predict_views(P.X_new), expected, atol=1e-7)


AMONG_ALL = {
    "both": [len(P.X) + 2, 9, len(P.X), 4],  # counted "X, then unscored"
    "apart": [len(P.X) + 1, len(P.X) + 5],
    "a list a view": [[1, len(P.X)], [len(P.X) + 3, 9, 12], [2, 3]],
}


@every_loss
@pytest.mark.parametrize("basis", AMONG_ALL)
def test_a_basis_may_name_unscored_rows_that_were_handed_over_apart(loss, basis, tmp_path):
    rows = np.concatenate([P.X, P.apart])
    model = check(learner(loss, AMONG_ALL[basis]), loss, rows=rows, qid=P.qid, **APART)
    named = AMONG_ALL[basis] if basis == "a list a view" else [AMONG_ALL[basis]] * 3
    assert [own.tolist() for own in model.basis_] == named
    model.save(tmp_path / "model.corank")
    loaded = load(tmp_path / "model.corank")
    np.testing.assert_array_equal(loaded.predict(P.X_new), model.predict(P.X_new))
    assert [own.tolist() for own in loaded.basis_] == named


def test_named_rows_must_be_there_and_in_memory():
    n, m = len(P.X), len(P.apart)
    with pytest.raises(ValueError, match=f"row {n + m}, but X and unscored= have rows 0 to"):
        learner(LOSSES[1], [1, n + m]).fit(P.X, P.y, qid=P.qid, **APART)
    with pytest.raises(ValueError, match=f"row {n}, but X has rows 0 to {n - 1}"):
        learner(LOSSES[1], [1, n]).fit(P.X, P.y, qid=P.qid)
    with pytest.raises(TypeError, match=f"names row {n + 1}, .* in chunks; hand them over as one"):
        learner(LOSSES[1], [1, n + 1]).fit(P.X, P.y, qid=P.qid, unscored=[P.apart])


@pytest.mark.parametrize(
    "loss", [REGRESSION, Loss("size"), Loss("unit"), Loss("unit", 0.3)], ids=str
)
@pytest.mark.parametrize("basis", ["all", "number"])
@pytest.mark.parametrize("qid", [None, P.qid], ids=["one query", "queries"])
def test_weights_count_on_scored_and_on_unscored_rows(loss, basis, qid):
    data = {"weights": P.weights, "qid": qid, **APART}
    check(learner(loss, BASES[basis]), loss, rows=np.concatenate([P.X, P.apart]), **data)


@pytest.mark.parametrize("loss", [REGRESSION, Loss("size")], ids=str)
def test_rows_without_weight_are_not_there(loss):
    weights = np.where(np.arange(len(P.X)) % 4 == 1, 0.0, P.weights)
    model = check(learner(loss), loss, qid=P.qid, weights=weights)
    kept = np.flatnonzero(weights)
    fewer = learner(loss).fit(P.X[kept], P.y[kept], qid=P.qid[kept], sample_weight=weights[kept])
    np.testing.assert_allclose(model.predict(P.X_new), fewer.predict(P.X_new), atol=1e-9)


@every_loss
@pytest.mark.parametrize("basis", ["all", "scored", "number"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_scores_of_their_own_for_every_view(loss, basis, weighted):
    if weighted and loss.weighting == "query":
        pytest.skip("refuses weights")
    check(
        learner(loss, BASES[basis]),
        loss,
        y=P.own_scores,
        qid=P.qid,
        weights=P.weights if weighted else None,
    )


def test_without_an_intercept_nothing_is_taken_out():
    for y in (P.y, P.own_scores):
        check(learner(REGRESSION, intercept=False), REGRESSION, y=y, intercept=False)


def test_beta_touches_the_scored_loss_only():
    """beta = 1 is regression on scored rows, while unscored ones are still compared within their
    queries.
    """
    check(learner(Loss("unit", 1.0)), Loss("unit", 1.0), qid=P.qid)


@pytest.mark.parametrize("loss", [REGRESSION, Loss("unit")], ids=str)
def test_features_as_basis(loss):
    own = [View(c, "linear", penalty=rho) for c, rho in zip(COLUMNS, PENALTIES, strict=True)]
    literal = [
        Look(c, kernel("linear"), np.eye(6), rho) for c, rho in zip(COLUMNS, PENALTIES, strict=True)
    ]
    model = check(learner(loss, "features", own), loss, qid=P.qid, own=literal)
    assert model.basis_ == [None] * 3
    assert [len(c) for c in model.coef_] == [2, 2, 2]


def test_kernels_and_bases_of_their_own():
    own = [
        View([0, 1], "poly", 0.3, basis="scored"),
        View([2, 3], "linear", basis=[1, 2, 3]),
        View(None, gamma=0.5, basis=6),
    ]
    with pytest.warns(UserWarning, match="share"):
        model = CoRankRLS(own, ALPHA, AGREEMENT, "all", "unit", degree=2, coef0=0.5).fit(
            P.X, P.y, qid=P.qid
        )
    kernels = [kernel("poly", 0.3, 2, 0.5), kernel("linear"), rbf(0.5)]
    columns = [[0, 1], [2, 3], slice(None)]
    literal = [
        Look(c, k, P.X[b], 1.0) for c, k, b in zip(columns, kernels, model.basis_, strict=True)
    ]
    expected = fit_views(literal, P.X, P.y, ALPHA, AGREEMENT, Loss("unit"), qid=P.qid)(P.X_new)
    np.testing.assert_allclose(model.predict_views(P.X_new), expected, atol=1e-7)
    assert [len(b) for b in model.basis_] == [len(SCORED), 3, 6]


# ------------------------------------------------------------------ views that are drawn


@pytest.mark.parametrize("loss", [REGRESSION, Loss("unit")], ids=str)
@pytest.mark.parametrize("basis", ["all", "scored", "number"])
def test_views_of_other_rows(loss, basis):
    model = check(learner(loss, BASES[basis], random_bases(3), gamma=0.5), loss, qid=P.qid)
    size = {"all": len(P.X) // 3, "scored": len(SCORED) // 3, "number": 7}[basis]
    assert [len(own) for own in model.basis_] == [size] * 3
    assert len({tuple(own) for own in model.basis_}) == 3
    if basis == "scored":
        assert all(np.isin(own, SCORED).all() for own in model.basis_)


def test_too_few_columns_for_a_number_of_views_give_views_of_other_rows():
    narrow = P.X[:, :1]
    model = CoRLS(2, ALPHA, AGREEMENT, gamma=0.5).fit(narrow, P.y)
    expected = CoRLS(random_bases(2), ALPHA, AGREEMENT, gamma=0.5).fit(narrow, P.y)
    assert not np.array_equal(*model.basis_)
    np.testing.assert_allclose(model.predict(P.X_new[:, :1]), expected.predict(P.X_new[:, :1]))


@pytest.mark.parametrize(
    "drawn", [2, 3, random_split(2), random_split(3, attributes=[0, 0, 1, 1, 2, 2])], ids=str
)
def test_views_of_other_columns(drawn):
    model = check(
        learner(Loss("size"), "all", drawn, gamma=1.5, random_state=4), Loss("size"), qid=P.qid
    )
    columns = np.concatenate([view.columns for view in model.views_])
    assert sorted(columns) == list(range(6))


# ------------------------------------------------------------------ explicit comparisons

RNG = np.random.default_rng(2)
WINNERS = RNG.integers(0, 14, size=60)
LOSERS = (WINNERS + RNG.integers(1, 14, size=60)) % 14
SAME = np.flatnonzero(P.qid[WINNERS] == P.qid[LOSERS])
MARGINS, WEIGHTS = (
    np.where(np.arange(60) % 5 == 0, 0.0, RNG.uniform(0, 2, size=60)),
    RNG.uniform(0.2, 2, size=60),
)


@pytest.mark.parametrize("weighting", ["size", "unit", "query"])
@pytest.mark.parametrize("basis", ["all", "scored", "number"])
@pytest.mark.parametrize("qid", [None, P.qid], ids=["one query", "queries"])
@view_counts
def test_comparisons_with_margins_weights_and_ties(weighting, basis, qid, n_views):
    chosen = np.arange(12) if qid is None else SAME[:12]
    options = {"margins": MARGINS[chosen], "weights": WEIGHTS[chosen], "qid": qid, **APART}
    model = learner(Loss(weighting), BASES[basis], views(n_views))
    model.fit_comparisons(P.X, WINNERS[chosen], LOSERS[chosen], **options)
    own = looks(model, np.concatenate([P.X, P.apart]))
    pair = [(ALPHA, AGREEMENT)]
    literal = fit_views_comparisons(
        own, P.X, WINNERS[chosen], LOSERS[chosen], pair, weighting, **options
    )[0]
    np.testing.assert_allclose(model.predict_views(P.X_new), literal(P.X_new), atol=1e-7)
    used = np.unique([WINNERS[chosen], LOSERS[chosen]])
    everything = {"all": len(P.X) + len(P.apart), "scored": len(used), "number": 7}
    assert [len(b) for b in model.basis_] == [everything[basis]] * n_views


def test_comparisons_are_one_unscored_row_less_a_row():
    """Rows in no comparison are unscored, and only those."""
    model = learner(Loss("size")).fit_comparisons(P.X, [0, 1], [2, 3])
    assert sorted(model.basis_[0][4:]) == list(range(4, len(P.X)))
    with pytest.raises(ValueError, match="beta must be 0 for comparisons"):
        learner(Loss("size", 0.5)).fit_comparisons(P.X, [0, 1], [2, 3])
    with pytest.warns(UserWarning, match="nothing to agree on"):
        learner(Loss("size")).fit_comparisons(P.X[:4], [0, 1], [2, 3])


# ------------------------------------------------------------------ what follows from it


@every_loss
def test_rows_in_any_order_give_the_same_model(loss):
    order = np.random.default_rng(0).permutation(len(P.X))
    names = np.asarray([f"query {q}" for q in P.qid])
    expected = learner(loss).fit(P.X, P.y, qid=P.qid, sample_weight=None).predict_views(P.X_new)
    found = learner(loss).fit(P.X[order], P.y[order], qid=names[order]).predict_views(P.X_new)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("loss", [REGRESSION, Loss("size"), Loss("unit")], ids=str)
def test_expansion_points_may_be_duplicates(loss):
    twice = np.concatenate([P.X, P.X[::2]])
    y, qid = np.concatenate([P.y, P.y[::2]]), np.concatenate([P.qid, P.qid[::2]])
    weights = np.where(np.arange(len(twice)) % 2 == 0, 0.5, 1.0)
    weights[len(P.X) :] = 0.5  # every second row is there twice, with half the weight each
    weights[: len(P.X)] = np.where(np.arange(len(P.X)) % 2 == 0, 0.5, 1.0)
    expected = learner(loss).fit(P.X, P.y, qid=P.qid).predict_views(P.X_new)
    for basis in ("all", np.arange(len(twice))):
        found = (
            learner(loss, basis)
            .fit(twice, y, qid=qid, sample_weight=weights)
            .predict_views(P.X_new)
        )
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("loss", [Loss("size"), Loss("unit"), Loss("query")], ids=str)
def test_a_shift_of_a_querys_scores_changes_nothing(loss):
    shifted = P.y + 10.0 * P.qid
    expected = learner(loss).fit(P.X, P.y, qid=P.qid).predict_views(P.X_new)
    np.testing.assert_allclose(
        learner(loss).fit(P.X, shifted, qid=P.qid).predict_views(P.X_new), expected, atol=1e-8
    )


def test_much_agreement_makes_views_agree_on_unscored_rows():
    plain = P.X[np.isnan(P.y)]
    spread = [
        np.abs(
            np.diff(
                learner(REGRESSION, own=views(2), agreement=a).fit(P.X, P.y).predict_views(plain)
            )
        ).max()
        for a in (0.0, 1.0, 1e4)
    ]
    assert spread[0] > spread[1] > 100 * spread[2]


def test_tuned_width_is_the_one_of_least_held_out_error_also_at_fixed_alpha():
    widths = [1e-4, 1.5, 300.0]
    own = [View(c, gamma=widths) for c in COLUMNS]
    fixed = [
        CoRLS([View(c, gamma=g) for c in COLUMNS], [ALPHA], [AGREEMENT])
        .fit(P.X, P.y)
        .path_.error[0]
        for g in widths
    ]
    for order in (widths, widths[::-1]):
        model = CoRLS([View(c, gamma=order) for c in COLUMNS], ALPHA, AGREEMENT).fit(P.X, P.y)
        assert model.gamma_ == [widths[int(np.argmin(fixed))]] * 3
        assert sorted(model.path_.error) == pytest.approx(sorted(fixed))
    tuned = CoRLS(own).fit(P.X, P.y)
    assert tuned.path_.gamma[tuned.path_.best] == tuned.gamma_[0]
    assert len(tuned.path_.error) == 3 * 200


@pytest.mark.parametrize("weights", [None, P.weights], ids=["plain", "weighted"])
def test_gamma_scale_is_over_the_candidate_rows_of_the_basis(weights):
    model = CoRLS([View(COLUMNS[0]), View(COLUMNS[2])], ALPHA, AGREEMENT).fit(
        P.X, P.y, sample_weight=weights, **APART
    )
    rows = np.concatenate([P.X, P.apart])
    w = np.ones(len(rows)) if weights is None else np.concatenate([weights, np.ones(len(P.apart))])
    for gamma, columns in zip(model.gamma_, (COLUMNS[0], COLUMNS[2]), strict=True):
        values = rows[:, columns]
        mean = np.average(values, weights=np.broadcast_to(w[:, None], values.shape))
        variance = np.average(
            (values - mean) ** 2, weights=np.broadcast_to(w[:, None], values.shape)
        )
        assert gamma == pytest.approx(1 / (2 * variance))
