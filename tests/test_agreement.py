"""Several views that agree on unscored rows, against least squares on the stated objective."""

import numpy as np
import pytest

from corank.basis import KernelBasis
from corank.comparison import Blend, Pointwise, Queries
from corank.kernels import Kernel
from corank.problem import ScoredRows
from corank.rows import Rows
from corank.solvers.agreement import DualAgreement, PrimalAgreement, Unscored, ViewData, contrasts

N, M = 16, 12  # scored and unscored rows
RNG = np.random.default_rng(0)
SCORED, UNSCORED = RNG.normal(size=(3, N, 3)), RNG.normal(size=(3, M, 3))
SCORES = RNG.normal(size=N)
QID, UNSCORED_QID = np.repeat(np.arange(4), 4), np.repeat(np.arange(3), 4)
KERNELS = [Kernel("rbf", 0.3), Kernel("rbf", 0.2), Kernel("poly", 0.3, 2, 1)]
PENALTIES = [1.0, 2.0, 0.5]
ALPHAS = np.asarray([0.1, 2.0])

both_forms = pytest.mark.parametrize("form", [PrimalAgreement, DualAgreement])
comparisons = pytest.mark.parametrize(
    "comparison", [Pointwise(), Queries("size"), Queries("unit"), Queries("query"), Blend("size", 0.3)], ids=str
)
view_counts = pytest.mark.parametrize("n_views", [1, 2, 3])
agreements = pytest.mark.parametrize("agreement", [0.0, 0.5])


def laplacian(comparison, codes):
    """The loss matrix, pair by pair."""
    n = len(codes)
    if not comparison.needs_queries:
        return np.eye(n)
    L = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            if codes[i] == codes[j]:
                m = int((codes == codes[i]).sum())
                c = {"size": 1 / m, "unit": 1.0, "query": 2 / (m * (m - 1))}[comparison.weighting]
                e = np.zeros(n)
                e[i], e[j] = 1, -1
                L += c * np.outer(e, e)
    beta = getattr(comparison, "beta", 0.0)
    return beta * np.eye(n) + (1 - beta) * L


def root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.clip(values, 0, None))).T


def brute_force(alpha, agreement, kept, comparison, n_views):
    """Every view's values on scored and unscored rows, by least squares on stacked rows."""
    loss = root(laplacian(comparison, QID[kept]))
    plain = Pointwise() if not comparison.needs_queries else Queries(comparison.weighting)
    shared = root(laplacian(plain, UNSCORED_QID))
    size = N + M
    spans = []
    for v in range(n_views):
        points = np.vstack([SCORED[v], UNSCORED[v]])
        spans.append(np.linalg.cholesky(KERNELS[v].block(points, points) + 1e-12 * np.eye(size)))
    rows, right = [], []

    def add(blocks, values):
        row = np.zeros((len(values), n_views * size))
        for v, block in blocks:
            row[:, v * size : (v + 1) * size] += block
        rows.append(row)
        right.append(values)

    for v in range(n_views):
        add([(v, loss @ spans[v][:N][kept])], loss @ SCORES[kept])
        add([(v, np.sqrt(alpha * PENALTIES[v]) * np.eye(size))], np.zeros(size))
        for u in range(v):
            factor = np.sqrt(2 * agreement)
            add([(v, factor * shared @ spans[v][N:]), (u, -factor * shared @ spans[u][N:])], np.zeros(M))
    solution = np.linalg.lstsq(np.vstack(rows), np.concatenate(right), rcond=None)[0]
    return np.stack([spans[v] @ solution[v * size : (v + 1) * size] for v in range(n_views)], axis=1)


def make(form, comparison, n_views):
    views = [
        ViewData(
            ScoredRows(Rows(SCORED[v], SCORES, QID, 4, None, np.arange(N)), comparison),
            UNSCORED[v],
            KernelBasis(KERNELS[v], np.vstack([SCORED[v], UNSCORED[v]])),
            PENALTIES[v],
        )
        for v in range(n_views)
    ]
    plain = Pointwise() if not comparison.needs_queries else Queries(comparison.weighting)
    return views, form(views, Unscored(plain, UNSCORED_QID, 3, M))


def values(views, coefficients):
    return np.stack([view.basis.gram @ part for view, part in zip(views, coefficients, strict=True)], axis=1)


@both_forms
@comparisons
@view_counts
@agreements
def test_path_minimises_the_stated_objective(form, comparison, n_views, agreement):
    views, system = make(form, comparison, n_views)
    found = values(views, system.path(ALPHAS, agreement, 0.0))
    for position, alpha in enumerate(ALPHAS):
        expected = brute_force(alpha, agreement, np.arange(N), comparison, n_views)
        np.testing.assert_allclose(found[:, :, position], expected, atol=1e-8)


@both_forms
@comparisons
@agreements
def test_one_alpha_equals_the_path(form, comparison, agreement):
    views, system = make(form, comparison, 3)
    path = values(views, system.path(ALPHAS, agreement, 0.2))
    for position, alpha in enumerate(ALPHAS):
        np.testing.assert_allclose(
            values(views, system.solve(alpha, agreement, 0.2))[:, :, 0], path[..., position], atol=1e-9
        )


@both_forms
@comparisons
@view_counts
@agreements
def test_leaving_a_query_out_of_every_view_equals_refitting(form, comparison, n_views, agreement):
    views, system = make(form, comparison, n_views)
    blocks = [np.concatenate([v * N + np.flatnonzero(q == QID) for v in range(n_views)]) for q in range(4)]
    found = system.residuals(ALPHAS, agreement, np.zeros(4), blocks)
    for q in range(4):
        own = np.flatnonzero(q == QID)
        left = views[0].problem.take(own)
        for position, alpha in enumerate(ALPHAS):
            refit = brute_force(alpha, agreement, np.flatnonzero(q != QID), comparison, n_views)
            for v in range(n_views):
                expected = left.residuals(refit[own, v][:, None])[:, 0]
                np.testing.assert_allclose(found[v * N + own, position], expected, atol=1e-8)


@comparisons
def test_both_forms_measure_alpha_and_agreement_alike(comparison):
    primal, dual = (make(form, comparison, 3)[1] for form in (PrimalAgreement, DualAgreement))
    assert primal.scale == pytest.approx(dual.scale)
    assert primal.agreement_scale == pytest.approx(dual.agreement_scale)


@pytest.mark.parametrize("n_views", [1, 2, 3, 5])
def test_contrasts_measure_disagreement_of_all_pairs(n_views):
    f = RNG.normal(size=n_views)
    pairs = sum((f[v] - f[u]) ** 2 for v in range(n_views) for u in range(v))
    assert n_views * np.sum((contrasts(n_views) @ f) ** 2) == pytest.approx(pairs)
