"""Both systems of several views that agree on unscored rows, against least squares on the stated
objective.
"""

from functools import cache

import numpy as np
import pytest
from brute_force import REGRESSION, Loss, kernel
from brute_force.views import Look, fit_views_comparisons, fit_views_path, rbf, small_views

from corank.core.arrays import first_appearance
from corank.core.basis import FeatureBasis, KernelBasis
from corank.core.kernels import Kernel
from corank.core.loss import Pointwise, WithinQueries, blend
from corank.core.observations import ComparedRows, ScoredRows
from corank.core.unscored import HeldRows, UnscoredRows
from corank.solve.co_kernel import grouped_by_ratio
from corank.solve.systems import DualSystem, PrimalSystem, ViewData, contrasts

pytestmark = pytest.mark.usefixtures("one_blas_thread")
P = small_views()
PLAIN = np.flatnonzero(np.isnan(P.y))
BASIS = np.asarray([1, 4, 5, 9, 12, 20, 25])
COLUMNS = [np.arange(2), np.arange(2, 4), np.arange(4, 6)]
GAMMAS, PENALTIES = [2.0, 1.5, 3.0], [1.0, 2.0, 0.5]
ALPHAS, AGREEMENTS = np.asarray([0.1, 2.0]), np.asarray([0.0, 0.5, 20.0])
PAIRS = [(alpha, agreement) for agreement in AGREEMENTS for alpha in ALPHAS]
LOSSES = [
    REGRESSION,
    Loss("size"),
    Loss("unit"),
    Loss("query"),
    Loss("size", 0.3),
    Loss("unit", 0.3),
]
FORMS = {"dual": DualSystem, "primal": PrimalSystem, "subset": PrimalSystem}

every_form = pytest.mark.parametrize("form", FORMS)
primal_forms = pytest.mark.parametrize("form", ["primal", "subset"])
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
view_counts = pytest.mark.parametrize("n_views", [1, 2, 3])


def columns_of(y, n_views):
    return np.broadcast_to(y.reshape(len(y), -1), (len(y), n_views)).T


def points_of(form, scores):
    """The rows of a view's basis: in the dual its scored and then all unscored ones."""
    rows = np.concatenate([P.X[~np.isnan(scores)], P.X[PLAIN], P.apart])
    return P.X[BASIS] if form == "subset" else rows


def unscored(comparison, weights=None):
    _, codes = np.unique(P.qid[PLAIN], return_inverse=True)
    own = HeldRows(P.X, codes.astype(np.int64), PLAIN, None if weights is None else weights[PLAIN])
    apart = HeldRows(P.apart, first_appearance(P.apart_qid)[0])
    return UnscoredRows((own, apart), comparison)


def make(form, loss, n_views, *, y=P.y, weights=None):
    views = []
    for v, scores in enumerate(columns_of(y, n_views)):
        scored = np.flatnonzero(~np.isnan(scores))
        queries, n_queries = first_appearance(P.qid[scored])
        own = None if weights is None else weights[scored]
        rows = ScoredRows(
            P.X[scored][:, COLUMNS[v]], scores[scored], queries, n_queries, own, scored
        )
        basis = KernelBasis(Kernel("rbf", GAMMAS[v]), points_of(form, scores)[:, COLUMNS[v]])
        problem = rows.under(blend(loss.weighting, loss.beta))
        views.append(ViewData(problem, basis, COLUMNS[v], PENALTIES[v]))
    shared = Pointwise() if loss is REGRESSION else WithinQueries(loss.weighting)
    return FORMS[form](views, unscored(shared, weights))


def looks_of(form, y, n_views):
    return [
        Look(COLUMNS[v], rbf(GAMMAS[v]), points_of(form, scores), PENALTIES[v])
        for v, scores in enumerate(columns_of(y, n_views))
    ]


@cache
def literal(points, loss, n_views, *, own=False, weighted=False):
    """What the minimisers of all pairs say of new rows; the dual and the primal have the same ones."""
    y, weights = P.own_scores if own else P.y, P.weights if weighted else None
    options = {"qid": P.qid, "weights": weights, "unscored": P.apart, "unscored_qid": P.apart_qid}
    models = fit_views_path(looks_of(points, y, n_views), P.X, y, PAIRS, loss, **options)
    return [model(P.X_new) for model in models]


def minimised(form, loss, n_views, **kind):
    return literal("subset" if form == "subset" else "all", loss, n_views, **kind)


def predicted(system, coefficients):
    """Every view's values on new rows: (n, M, k)."""
    parts = [
        view.basis.features(P.X_new[:, view.columns]) @ own
        for view, own in zip(system.views, coefficients, strict=True)
    ]
    return np.stack(parts, axis=1)


def check_path(system, expected, atol=1e-8):
    found = [predicted(system, system.path(ALPHAS, agreement, 0.0)) for agreement in AGREEMENTS]
    found = np.concatenate(found, axis=2)
    for position, values in enumerate(expected):
        np.testing.assert_allclose(found[:, :, position], values, atol=atol)


# ------------------------------------------------------------------ the objective


@every_form
@every_loss
@view_counts
def test_path_minimises_the_stated_objective(form, loss, n_views):
    check_path(make(form, loss, n_views), minimised(form, loss, n_views))


@every_form
@pytest.mark.parametrize(
    "loss", [REGRESSION, Loss("size"), Loss("unit"), Loss("unit", 0.3)], ids=str
)
def test_weights_of_scored_and_unscored_rows_count(form, loss):
    check_path(make(form, loss, 3, weights=P.weights), minimised(form, loss, 3, weighted=True))


@every_form
@every_loss
def test_views_may_have_scores_of_their_own(form, loss):
    check_path(make(form, loss, 3, y=P.own_scores), minimised(form, loss, 3, own=True))


@pytest.mark.parametrize("loss", [REGRESSION, Loss("unit")], ids=str)
def test_features_as_basis_minimise_the_stated_objective(loss):
    views = [
        ViewData(view.problem, FeatureBasis(2, np.empty((1, 1))), view.columns, view.penalty)
        for view in make("subset", loss, 3).views
    ]
    shared = Pointwise() if loss is REGRESSION else WithinQueries(loss.weighting)
    looks = [
        Look(own, kernel("linear"), np.eye(6), rho)
        for own, rho in zip(COLUMNS, PENALTIES, strict=True)
    ]
    options = {"qid": P.qid, "unscored": P.apart, "unscored_qid": P.apart_qid}
    expected = [model(P.X_new) for model in fit_views_path(looks, P.X, P.y, PAIRS, loss, **options)]
    check_path(PrimalSystem(views, unscored(shared)), expected)


WINNERS, LOSERS = np.asarray([0, 2, 4, 7, 2, 8, 3]), np.asarray([2, 4, 7, 0, 8, 3, 0])
MARGINS, PAIR_WEIGHTS = (
    np.asarray([1.0, 0.0, 2.0, 0.5, 1.0, 0.3, 0.0]),
    np.asarray([1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 0.7]),
)


def compared(form, n_views):
    """Rows 0 to 9 are compared, the others are unscored: the system, and how to minimise literally."""
    rest = np.arange(10, len(P.X))
    points = P.X[BASIS] if form == "subset" else P.X
    views = [
        ViewData(
            ComparedRows(
                P.X[:10, own], WINNERS, LOSERS, MARGINS, PAIR_WEIGHTS, np.arange(len(WINNERS))
            ),
            KernelBasis(Kernel("rbf", gamma), points[:, own]),
            own,
            rho,
        )
        for own, gamma, rho in zip(COLUMNS[:n_views], GAMMAS, PENALTIES, strict=False)
    ]
    held = HeldRows(P.X, np.unique(P.qid[rest], return_inverse=True)[1], rest)
    rows = UnscoredRows((held,), WithinQueries("unit"))
    looks = [
        Look(own, rbf(gamma), points, rho)
        for own, gamma, rho in zip(COLUMNS[:n_views], GAMMAS, PENALTIES, strict=False)
    ]
    options = {"margins": MARGINS, "weights": PAIR_WEIGHTS, "qid": P.qid, "plain": rest}
    models = fit_views_comparisons(looks, P.X, WINNERS, LOSERS, PAIRS, "unit", **options)
    return FORMS[form](views, rows), [model(P.X_new) for model in models]


@every_form
@view_counts
def test_explicit_comparisons_minimise_the_stated_objective(form, n_views):
    check_path(*compared(form, n_views))


# ------------------------------------------------------------------ one solution, many ways


@every_form
@every_loss
def test_one_pair_equals_the_path(form, loss):
    system = make(form, loss, 3)
    for agreement in AGREEMENTS:
        path = predicted(system, system.path(ALPHAS, agreement, 0.2))
        for position, alpha in enumerate(ALPHAS):
            one = predicted(system, system.solve(alpha, agreement, 0.2))[:, :, 0]
            np.testing.assert_allclose(one, path[..., position], atol=1e-9)


@primal_forms
@every_loss
@view_counts
def test_all_agreements_at_one_alpha_equal_one_by_one(form, loss, n_views):
    system = make(form, loss, n_views)
    path = predicted(system, system.agreement_path(0.3, AGREEMENTS, 0.2))
    for position, agreement in enumerate(AGREEMENTS):
        one = predicted(system, system.solve(0.3, agreement, 0.2))[:, :, 0]
        np.testing.assert_allclose(path[..., position], one, atol=1e-8)


@primal_forms
@every_loss
def test_two_views_one_after_the_other_equal_both_at_once(form, loss):
    system = make(form, loss, 2)
    for alpha, agreement in PAIRS:
        found = predicted(system, system.solve_partitioned(alpha, agreement, 0.2))
        np.testing.assert_allclose(
            found, predicted(system, system.solve(alpha, agreement, 0.2)), atol=1e-9
        )


def test_the_partitioned_form_is_for_two_views_only():
    with pytest.raises(ValueError, match="two views, got 3"):
        make("subset", REGRESSION, 3).solve_partitioned(1.0, 1.0, 0.0)


@every_loss
@view_counts
def test_both_forms_measure_alpha_and_agreement_alike(loss, n_views):
    primal, dual = (make(form, loss, n_views, weights=None) for form in ("primal", "dual"))
    assert primal.scale == pytest.approx(dual.scale)
    assert primal.agreement_scale == pytest.approx(dual.agreement_scale)


@pytest.mark.parametrize("n_views", [1, 2, 3, 5])
def test_contrasts_measure_disagreement_of_all_pairs(n_views):
    f = np.random.default_rng(0).normal(size=n_views)
    gaps = sum((f[v] - f[u]) ** 2 for v in range(n_views) for u in range(v))
    assert n_views * np.sum((contrasts(n_views) @ f) ** 2) == pytest.approx(gaps)


# ------------------------------------------------------------------ the kernel between what is scored


def root_predictions(system, coefficients):
    """J f of every view's units, stacked."""
    parts = []
    for view, own in zip(system.views, coefficients, strict=True):
        units = np.arange(len(view.problem.targets))
        parts.append(
            view.problem.unit_root(view.problem.unit_features(view.basis.features, units) @ own)
        )
    return np.concatenate(parts)


@every_form
@pytest.mark.parametrize("loss", [REGRESSION, Loss("unit"), Loss("size", 0.3), None], ids=str)
@pytest.mark.parametrize("own", [False, True], ids=["same scores", "own scores"])
def test_least_squares_under_the_cokernel_are_the_direct_solution(form, loss, own):
    system = (
        compared(form, 3)[0]
        if loss is None
        else make(form, loss, 3, y=P.own_scores if own else P.y)
    )
    targets = system.cokernel.targets[:, :1]
    for alpha, agreement in PAIRS:
        matrix = system.cokernel.matrix(agreement / alpha)
        found = matrix @ np.linalg.solve(matrix + alpha * np.eye(len(matrix)), targets)
        expected = root_predictions(system, system.solve(alpha, agreement, 0.0))
        np.testing.assert_allclose(found, expected, atol=1e-8)


@every_form
@pytest.mark.parametrize("loss", [REGRESSION, Loss("size"), Loss("unit", 0.3)], ids=str)
@pytest.mark.parametrize("own", [False, True], ids=["same scores", "own scores"])
def test_cokernel_predictions_are_those_of_a_refit_on_the_kept_units(form, loss, own):
    y = P.own_scores if own else P.y
    system = make(form, loss, 3, y=y)
    # whole queries, unscored rows stay
    out = np.isin(P.qid, [1, 3]) & ~np.isnan(y.reshape(len(y), -1)).all(axis=1)
    kept = [np.flatnonzero(~out[view.problem.index]) for view in system.views]
    left = [np.flatnonzero(out[view.problem.index]) for view in system.views]
    level = 0.7  # taken out of the scores, put back into the predictions
    lowered = y[~out] - level
    options = {"qid": P.qid[~out], "unscored": P.apart, "unscored_qid": P.apart_qid}
    models = fit_views_path(looks_of(form, y, 3), P.X[~out], lowered, PAIRS, loss, **options)
    for model, (alpha, agreement) in zip(models, PAIRS, strict=True):
        found = system.cokernel.predictions(
            kept, left, np.asarray([alpha]), agreement / alpha, level
        )
        for v, view in enumerate(system.views):
            expected = model(P.X[view.problem.index[left[v]]])[:, v] + level
            np.testing.assert_allclose(found[v][:, 0], expected, atol=1e-7)


def test_pairs_of_one_ratio_share_a_decomposition():
    groups = grouped_by_ratio(np.asarray([1.0, 10.0, 100.0]), np.asarray([0.0, 0.1, 1.0]))
    assert sorted(np.concatenate([pairs for _, pairs in groups])) == list(range(9))
    by_ratio = {round(ratio, 6): sorted(pairs) for ratio, pairs in groups}
    assert by_ratio == {0.0: [0, 1, 2], 0.001: [5], 0.01: [4, 8], 0.1: [3, 7], 1.0: [6]}
