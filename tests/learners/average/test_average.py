"""Kernels of views, weights, honest errors: against literal computations."""

import numpy as np
import pytest
from scipy import sparse

from corank import Candidate
from corank.core import sums
from corank.learners.average import coefficients
from corank.learners.average.candidates import default_candidates
from corank.learners.average.closed_form import Observations
from corank.learners.average.encoding import STANDARD, fit_encoding
from corank.learners.average.expansions import Expansions
from corank.learners.average.fitting import fit_average, honest_predictions
from corank.learners.average.model import compared_units, fit_table, score_units
from corank.learners.average.scored_table import AverageSettings, ScoredTable
from corank.learners.average.similarity import Distances, Space, relevance
from corank.learners.average.weighing import Mixture, coarse_folds, judge, mix

rng = np.random.default_rng(5)
N, U = 24, 15
X = rng.standard_normal((N, 6))
UNSCORED = rng.standard_normal((U, 6))
SCORES = X[:, 0] + X[:, 3] + 0.2 * rng.standard_normal(N)
VIEWS = {STANDARD: [np.arange(3), np.arange(3, 6)]}
SPACE = Space({STANDARD: X}, {STANDARD: UNSCORED}, VIEWS)
ONE_LEVEL = Observations(
    SCORES, np.ones(N), np.arange(N), None, np.zeros(N, dtype=int), np.arange(N), False, N
)
QUERIES = np.repeat(np.arange(6), 4)
IN_QUERIES = Observations(SCORES, np.ones(N), np.arange(N), None, QUERIES, QUERIES, True, N)
CANDIDATES = [
    candidate
    for candidate in default_candidates(is_csr=False, has_queries=False)
    if SPACE.can_build(candidate)
]


def cross_kernel(space, built, rows):
    """The kernel of a candidate between other rows and the scored rows: (m, n)."""
    to_unscored = Distances(rows, space.unscored)
    return space.kernel_to_scored(built, Distances(rows, space.scored), to_unscored)


def rbf(A, B, gamma):
    return np.exp(-gamma * ((A[:, None] - B[None]) ** 2).sum(axis=2))


@pytest.mark.parametrize("kernel", ["linear", "rbf", "exponential", "laplacian"])
def test_agreement_is_a_gaussian_process_that_saw_views_agree(kernel):
    candidate = Candidate(kernel=kernel, views="agreement", strength=3.0)
    built = SPACE.built(candidate)
    both = np.vstack([X, UNSCORED])
    first, second = (
        Distances({STANDARD: both}, {STANDARD: both}).kernel(similarity)
        for similarity in built.similarities
    )
    # the mean of two processes, given that their difference is 0 on the unscored rows up to noise
    of_difference = (first + second)[N:, N:] / 2 + np.eye(U) / 3.0
    cross = (first - second)[:, N:] / 2 / np.sqrt(2)
    expected = (first + second) / 4 - cross @ np.linalg.solve(of_difference, cross.T)
    np.testing.assert_allclose(SPACE.kernel(built), expected[:N, :N], atol=1e-8)
    rows = {STANDARD: UNSCORED}
    np.testing.assert_allclose(cross_kernel(SPACE, built, rows), expected[N:, :N], atol=1e-8)
    np.testing.assert_allclose(SPACE.square_kernel(built, rows), expected[N:, N:], atol=1e-8)
    np.testing.assert_allclose(SPACE.variances(built, rows), np.diag(expected)[N:], atol=1e-8)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_a_product_of_views_is_the_product_of_their_kernels(kernel):
    joint = Candidate(kernel=kernel, width=2.0, views="product")
    singles = [Candidate(kernel=kernel, width=2.0, views="one", of=(view,)) for view in (0, 1)]
    values = [SPACE.kernel(SPACE.built(candidate)) for candidate in (joint, *singles)]
    exponents = [-np.log(matrix[np.triu_indices(N, 1)]) for matrix in values]
    # a width is relative to the median of both views together: exponents are the same up to one
    # factor
    ratio = exponents[0] / (exponents[1] + exponents[2])
    np.testing.assert_allclose(ratio, ratio[0])


def fit_candidates(candidates, space=SPACE):
    """All of the candidates, fitted one by one."""
    return [
        fit_average(space, [c], ONE_LEVEL, ranks=False, seed=0).candidates[0] for c in candidates
    ]


SHARED_KERNELS = [
    Candidate(kernel="linear"),
    Candidate(kernel="cosine"),
    Candidate(kernel="cosine", views="sum", second_order=True),
    *(
        Candidate(kernel=kernel, width=width)
        for kernel in ("rbf", "exponential", "laplacian")
        for width in (1.0, 2.0, 3.0, 16.0, 64.0)
    ),
    *(Candidate(width=width, views="sum") for width in (1.0, 4.0)),
    *(Candidate(width=width, views="product") for width in (1.0, 4.0)),
    Candidate(views="agreement", strength=1.0),
    Candidate(views="agreement", strength=10.0),
]


@pytest.mark.parametrize("rows", ["dense", "csr"])
def test_values_of_many_candidates_are_kernel_values_times_coefficients(rows):
    """Kernels that candidates share, or that are powers of each other, are computed once."""
    as_rows = sparse.csr_array if rows == "csr" else np.asarray
    relevant = (
        []
        if rows == "csr"
        else [
            Candidate(kernel=k, relevance=True)
            for k in ("linear", "rbf", "exponential", "laplacian")
        ]
    )
    space = Space({STANDARD: as_rows(X)}, {STANDARD: as_rows(UNSCORED)}, VIEWS)
    candidates = [*SHARED_KERNELS, *relevant]
    fitted = fit_candidates(candidates, space)
    new = {STANDARD: as_rows(rng.standard_normal((9, 6)))}
    values = Expansions(fitted, space.scored, space.unscored).values(new)
    for candidate, model, found in zip(candidates, fitted, values, strict=True):
        expected = cross_kernel(space, model, new) @ model.coefficients + model.level
        tolerance = 1e-12 * np.abs(model.coefficients).sum()
        np.testing.assert_allclose(
            found, expected, atol=max(tolerance, 1e-10), err_msg=candidate.describe()
        )


@pytest.mark.parametrize(
    ("units", "ranks"), [(ONE_LEVEL, False), (IN_QUERIES, True)], ids=["scores", "queries"]
)
def test_honest_predictions_equal_a_fit_without_the_fold(units, ranks):
    folds = coarse_folds(units, 3)
    held_out = honest_predictions(SPACE, CANDIDATES, units, folds, ranks=ranks)
    for fold in folds:
        kept = np.setdiff1d(np.arange(N), fold)
        inner = units.take(kept)
        # widths come from all rows, which need no score for it; nothing else may know of the fold
        average = fit_average(SPACE, CANDIDATES, inner, ranks=ranks, seed=0)
        predictions = np.zeros(N)
        functions = Expansions(average.candidates, SPACE.scored, SPACE.unscored)
        for fitted, values in zip(average.candidates, functions.values(SPACE.scored), strict=True):
            clipped = np.clip(
                inner.base + fitted.multipliers[0] * values, average.low, average.high
            )
            predictions += fitted.weights[0] * clipped
        # candidates of next to no weight are left out of a model
        np.testing.assert_allclose(
            held_out[fold], units.take(fold).left_out(predictions), atol=0.02 * SCORES.std()
        )


def test_relevance_is_the_squared_correlation_beyond_chance():
    noise = rng.standard_normal((N, 30))
    correlations = np.asarray([np.corrcoef(column, SCORES)[0, 1] for column in noise.T])
    np.testing.assert_allclose(
        relevance(ONE_LEVEL, noise), np.maximum(correlations**2 - 1 / (N - 1), 0)
    )


def test_relevance_is_judged_without_the_rows_it_was_computed_from():
    candidate = Candidate(kernel="linear", relevance=True)
    errors = [
        judge(Space({STANDARD: rng.standard_normal((N, 300))}), [candidate], ONE_LEVEL)[0].errors
        for _ in range(8)
    ]
    assert np.mean(errors) > SCORES.var()


@pytest.mark.parametrize(
    ("units", "ranks"), [(ONE_LEVEL, False), (IN_QUERIES, True)], ids=["scores", "queries"]
)
def test_weights_follow_held_out_errors(units, ranks):
    noise = Candidate(kernel="linear", views="one", of=(1,))
    signal = Candidate(kernel="linear")
    mixture = mix(judge(SPACE, [noise, signal], units), units, ranks=ranks)
    assert mixture.weights.sum() == pytest.approx(1)
    assert mixture.errors[1] < mixture.errors[0]
    assert mixture.weights[1] > mixture.weights[0]


def test_agreement_has_half_of_the_weight_unless_scores_speak_against_it():
    shared = rng.standard_normal(200)
    rows = np.column_stack(
        [shared, rng.standard_normal((200, 2)), shared, rng.standard_normal((200, 2))]
    )
    agreeing = [
        Candidate(kernel="linear", views="agreement", strength=1.0),
        Candidate(kernel="linear"),
    ]
    space = Space({STANDARD: rows[:20]}, {STANDARD: rows[20:]}, VIEWS)
    helpful = score_units(
        shared[:20] + 0.3 * rng.standard_normal(20), None, None, AverageSettings(ranks=False)
    )
    assert mix(judge(space, agreeing, helpful), helpful, ranks=False).weights[0] >= 0.5
    contested = score_units(rows[:20, 1] - rows[:20, 4], None, None, AverageSettings(ranks=False))
    assert mix(judge(space, agreeing, contested), contested, ranks=False).weights[0] == 0


@pytest.mark.parametrize(
    "n", [450, pytest.param(2_100, marks=pytest.mark.slow)], ids=["all candidates", "the heaviest"]
)
def test_many_rows_are_weighed_by_a_sample_and_fitted_on_all(n):
    many = rng.standard_normal((n + 100, 3))
    truth = np.sin(many[:, 0]) + many[:, 1]
    scores = truth + 0.3 * rng.standard_normal(n + 100)
    scores[n:] = np.nan
    model, average = fit_table(ScoredTable(many, scores), AverageSettings(ranks=False))
    assert len(average.judged_units) == min(n // 2, 1_000)
    assert len(average.points) == n
    errors = (model.predict(many[n:], None) - truth[n:]) ** 2
    assert errors.mean() < 0.03 * truth.var()
    deviations = model.deviations(many[n:], None)
    assert 0.25 < np.median(deviations) < 0.4


def rows_and_units(kind, n_queries):
    """Five rows per query, and the units of a ranker, of a regressor or of comparisons."""
    rng = np.random.default_rng(6)
    n = 5 * n_queries
    rows, queries = rng.standard_normal((n, 2)), np.tile(np.arange(n_queries), 5)
    scores, weights = rows[:, 0] + 0.1 * rng.standard_normal(n), rng.uniform(0.5, 2, n)
    if kind == "comparisons":
        order = np.argsort(-scores)
        margins, groups = np.ones(n - 1), np.arange(n - 1)
        return rows, compared_units(order[:-1], order[1:], margins, weights[1:], groups, n)
    ranks = kind == "queries"
    settings = AverageSettings(ranks=ranks, fit_intercept=kind != "no level")
    return rows, score_units(scores, queries if ranks else None, weights, settings)


@pytest.mark.parametrize("units_of", ["queries", "one level", "no level", "comparisons"])
def test_a_basis_of_all_rows_solves_the_same_system(units_of, monkeypatch):
    n = 60
    monkeypatch.setattr(sums, "MIN_BLOCK_ROWS", 7)  # queries go on in the next block
    monkeypatch.setattr(sums, "GRAM_ENTRIES", 1)
    rows, units = rows_and_units(units_of, 12)
    ranks = units_of in ("queries", "comparisons")
    space = Space({STANDARD: rows})
    judged = judge(
        space, [Candidate(width=1.0), Candidate(width=8.0), Candidate(kernel="laplacian")], units
    )
    mixtures = (mix(judged, units, ranks=ranks),) * 2
    fits = coefficients.Fits(judged, mixtures, units, np.arange(len(units)))
    bases = fits.on_basis([0, 1, 2], space, np.arange(n), coefficients.UnitsToSum(space, units))
    duals = fits.all_dual([0, 1, 2], space)
    new = {STANDARD: rows[::3]}
    values, expected = (
        Expansions([fitted for fitted, _ in found], space.scored, {}).values(new)
        for found in (bases, duals)
    )
    for (_, on_basis), (_, exact) in zip(bases, duals, strict=True):
        np.testing.assert_allclose(on_basis.held_out, exact.held_out, atol=0.03)
    tolerances = 1e-4 * np.maximum(1, expected.std(axis=1, keepdims=True))
    np.testing.assert_array_less(
        np.abs(values - expected), np.broadcast_to(tolerances, values.shape)
    )


@pytest.mark.parametrize("units_of", ["queries", "one level", "no level", "comparisons"])
def test_units_are_judged_again_by_fits_without_their_folds(units_of):
    rows, units = rows_and_units(units_of, 8)
    space = Space({STANDARD: rows})
    judged = judge(space, [Candidate()], units)
    shares = np.zeros((1, len(judged[0].errors)))
    shares[0, 7] = 1.0
    mixture = Mixture(shares, np.ones(1), np.ones(1))
    fits = coefficients.Fits(judged, (mixture,), units, np.arange(len(units)))
    ((fitted, again),) = fits.all_dual([0], space)
    assert fitted.alpha == pytest.approx(judged[0].form.alphas[7])
    np.testing.assert_allclose(again.held_out[:, 0], judged[0].held_out[:, 7], atol=1e-9)
    variances = judged[0].form.variance[:, 7]
    np.testing.assert_allclose(again.form.variance[:, 0], variances, rtol=1e-6)


def test_csr_is_never_made_dense(monkeypatch):
    rows = sparse.random_array(
        (60, 5_000), density=0.01, rng=np.random.default_rng(0), format="csr"
    )
    scores = np.asarray(rows.sum(axis=1)).ravel()
    scores[30:] = np.nan
    sizes = []
    to_dense = sparse.csr_array.toarray
    monkeypatch.setattr(
        sparse.csr_array,
        "toarray",
        lambda self, *a, **k: sizes.append(self.shape) or to_dense(self),
    )
    model, _ = fit_table(ScoredTable(rows, scores), AverageSettings(ranks=False))
    model.predict(rows, None)
    assert all(max(shape) <= 60 for shape in sizes)


def test_encodings_see_unscored_rows():
    rows = np.vstack([X, 5 + UNSCORED])
    encoding = fit_encoding(STANDARD, rows, None)
    table = ScoredTable(rows, np.append(SCORES, np.full(U, np.nan)))
    model, _ = fit_table(table, AverageSettings(ranks=False))
    np.testing.assert_allclose(model.encodings[0].centre, encoding.centre)
