"""DifferenceGP against dense normal distributions, RankRLS, refitting, and across libraries."""

import pickle
import re
from functools import partial

import numpy as np
import pytest
from brute_force import kernel, pairs
from brute_force.gaussian_processes import conditioned, helmert, pair_matrix
from edited_files import round_trip
from scipy import sparse
from scipy.stats import norm
from sklearn.base import clone

from corank import DifferenceGP, RankRLS

pytestmark = pytest.mark.usefixtures("one_blas_thread")

rng = np.random.default_rng(11)
SIZES = [6, 1, 8, 5, 4]
QID = rng.permutation(np.repeat(np.arange(5), SIZES))
N = len(QID)
X = rng.normal(size=(N, 3))
TRUTH = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1]
Y = TRUTH + QID + 0.2 * rng.normal(size=N)
WEIGHTS = rng.uniform(0.3, 2.5, N)
NEW = rng.normal(size=(5, 3))
FIRST = np.concatenate([np.arange(N), rng.integers(0, N, 20)])
SECOND = np.concatenate([np.roll(np.arange(N), 1), (FIRST[N:] + rng.integers(1, N, 20)) % N])
WINS = TRUTH[FIRST] > TRUTH[SECOND]
WINNERS, LOSERS = np.where(WINS, FIRST, SECOND), np.where(WINS, SECOND, FIRST)
MARGINS = np.maximum(TRUTH[WINNERS] - TRUTH[LOSERS] + 0.1 * rng.normal(size=len(WINNERS)), 0.0)
COUNTS = rng.uniform(0.3, 2.5, len(WINNERS))
GAMMA, AMPLITUDE, NOISE = 0.4, 2.0, 0.1
FIXED = partial(DifferenceGP, AMPLITUDE, GAMMA, NOISE)
SOME = [0, 2, 5, 7, 11, 13, 17, 21]


def prior(amplitude=AMPLITUDE):
    """The kernel times the amplitude."""
    k = kernel("rbf", GAMMA)
    return lambda A, B: amplitude * k(A, B)


def uncertain(model, X=NEW):
    mean, covariance = model.predict(X, return_cov=True)
    np.testing.assert_allclose(model.predict(X), mean, atol=1e-10)
    np.testing.assert_allclose(
        model.predict(X, return_std=True)[1] ** 2, np.diag(covariance), atol=1e-10
    )
    return mean, covariance


def alike(found, expected, X=NEW, tolerance=1e-8):
    for own, other in zip(uncertain(found, X), uncertain(expected, X), strict=True):
        np.testing.assert_allclose(own, other, atol=tolerance)
    np.testing.assert_allclose(found.log_evidence_, expected.log_evidence_, atol=1e-6)


# ---- scores


@pytest.mark.parametrize("qid", [QID, None], ids=["queries", "one query"])
@pytest.mark.parametrize("basis", ["all", np.arange(N)], ids=["all", "row numbers"])
def test_scores_are_a_normal_distribution_of_contrasts(qid, basis):
    contrasts = helmert(np.zeros(N) if qid is None else qid)
    evidence, mean, covariance = conditioned(
        contrasts @ Y, contrasts, NOISE * np.ones(len(contrasts)), prior(), X, NEW
    )
    model = FIXED(basis=basis).fit(X, Y, qid=qid)
    np.testing.assert_allclose(model.log_evidence_, evidence, rtol=1e-8)
    found, spread = uncertain(model)
    np.testing.assert_allclose(found, mean, atol=1e-8)
    np.testing.assert_allclose(spread, covariance, atol=1e-8)


def test_a_flat_level_of_each_query_is_the_same():
    """The contrasts say what the scores say once the level of every query may be anything."""
    level = (QID[:, None] == np.arange(5)).astype(float)
    k = prior()
    total = k(X, X) + NOISE * np.eye(N) + 1e7 * level @ level.T
    onto = np.linalg.solve(total, k(X, NEW)).T
    found, spread = uncertain(FIXED().fit(X, Y, qid=QID))
    np.testing.assert_allclose(found, onto @ Y, atol=1e-4)
    np.testing.assert_allclose(spread, k(NEW, NEW) - onto @ k(X, NEW), atol=1e-4)


def test_weights_divide_the_noise():
    contrasts = helmert(QID)
    k = prior()
    noise = contrasts @ np.diag(NOISE / WEIGHTS) @ contrasts.T
    covariance = contrasts @ k(X, X) @ contrasts.T + noise
    onto = np.linalg.solve(covariance, contrasts @ k(X, NEW)).T
    found, spread = uncertain(FIXED().fit(X, Y, qid=QID, sample_weight=WEIGHTS))
    np.testing.assert_allclose(found, onto @ contrasts @ Y, atol=1e-8)
    np.testing.assert_allclose(spread, k(NEW, NEW) - onto @ contrasts @ k(X, NEW), atol=1e-8)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "weighted"])
@pytest.mark.parametrize("basis", ["all", SOME], ids=["all", "some"])
def test_the_mean_is_that_of_rankrls(weights, basis):
    model = FIXED(basis=basis).fit(X, Y, qid=QID, sample_weight=weights)
    other = RankRLS(NOISE / AMPLITUDE, basis=basis, gamma=GAMMA, weighting="size")
    np.testing.assert_allclose(model.predict(NEW), other.fit(X, Y, qid=QID, sample_weight=weights).predict(NEW), atol=1e-9)  # fmt: skip
    assert model.alpha_ == pytest.approx(NOISE / AMPLITUDE)
    tuned = DifferenceGP(basis=basis).fit(X, Y, qid=QID, sample_weight=weights)
    other.set_params(alpha=tuned.alpha_, gamma=tuned.gamma_)
    np.testing.assert_allclose(tuned.predict(NEW), other.fit(X, Y, qid=QID, sample_weight=weights).predict(NEW), atol=1e-7)  # fmt: skip


def test_a_subset_is_the_kernel_that_it_spans():
    k, points = prior(), X[SOME]
    low = lambda A, B: k(A, points) @ np.linalg.solve(k(points, points), k(points, B))
    contrasts = helmert(QID)
    evidence, mean, covariance = conditioned(
        contrasts @ Y, contrasts, NOISE * np.ones(len(contrasts)), low, X, NEW
    )
    model = FIXED(basis=SOME).fit(X, Y, qid=QID)
    np.testing.assert_allclose(model.log_evidence_, evidence, rtol=1e-8)
    found, spread = uncertain(model)
    np.testing.assert_allclose(found, mean, atol=1e-8)
    np.testing.assert_allclose(
        spread, covariance + k(NEW, NEW) - low(NEW, NEW), atol=1e-8
    )  # what is not spanned is open


def test_levels_and_order_and_unscored_rows_change_nothing():
    model = FIXED().fit(X, Y, qid=QID)
    alike(FIXED().fit(X, Y + 100 * QID, qid=QID), model, tolerance=1e-6)
    order = np.random.default_rng(0).permutation(N)
    alike(FIXED().fit(X[order], Y[order], qid=QID[order]), model)
    more = FIXED().fit(
        np.concatenate([NEW, X]), np.concatenate([np.full(5, np.nan), Y]), qid=[*[0] * 5, *QID]
    )
    alike(more, model)


# ---- observed differences


@pytest.mark.parametrize("margins", [MARGINS, None], ids=["margins", "wins"])
@pytest.mark.parametrize("size", ["few", "many"])
@pytest.mark.parametrize("basis", ["all", np.arange(N)], ids=["all", "row numbers"])
def test_observed_differences_are_a_normal_distribution(margins, size, basis):
    kept = slice(0, 15) if size == "few" else slice(None)
    winners, losers = WINNERS[kept], LOSERS[kept]
    observed = np.ones(len(winners)) if margins is None else margins[kept]
    rows = pair_matrix(N, winners, losers)
    evidence, mean, covariance = conditioned(
        observed, rows, NOISE * np.ones(len(rows)), prior(), X, NEW
    )
    model = FIXED(basis=basis).fit_comparisons(
        X, winners, losers, margins=None if margins is None else observed
    )
    np.testing.assert_allclose(model.log_evidence_, evidence, rtol=1e-7)
    found, spread = uncertain(model)
    np.testing.assert_allclose(found, mean, atol=1e-7)
    np.testing.assert_allclose(spread, covariance, atol=1e-7)


def test_weights_of_differences_divide_their_noise():
    rows = pair_matrix(N, WINNERS, LOSERS)
    _, mean, covariance = conditioned(MARGINS, rows, NOISE / COUNTS, prior(), X, NEW)
    found, spread = uncertain(
        FIXED().fit_comparisons(X, WINNERS, LOSERS, margins=MARGINS, weights=COUNTS)
    )
    np.testing.assert_allclose(found, mean, atol=1e-8)
    np.testing.assert_allclose(spread, covariance, atol=1e-8)


@pytest.mark.parametrize("weights", [None, COUNTS], ids=["alike", "weighted"])
@pytest.mark.parametrize("basis", ["all", SOME], ids=["all", "some"])
def test_the_mean_of_differences_is_that_of_rankrls(weights, basis):
    options = {"margins": MARGINS, "weights": weights}
    model = FIXED(basis=basis).fit_comparisons(X, WINNERS, LOSERS, **options)
    other = RankRLS(NOISE / AMPLITUDE, basis=basis, gamma=GAMMA).fit_comparisons(
        X, WINNERS, LOSERS, **options
    )
    np.testing.assert_allclose(model.predict(NEW), other.predict(NEW), atol=1e-8)


def test_evidence_moves_with_weights_as_the_normal_distribution_does():
    """Weights scale the contrasts, which shifts every log evidence alike: what is learned stays the
    same.
    """
    rows = pair_matrix(N, WINNERS, LOSERS)
    shifts = []
    for amplitude, noise in ((2.0, 0.1), (0.5, 0.3), (8.0, 0.02)):
        expected, *_ = conditioned(MARGINS, rows, noise / COUNTS, prior(amplitude), X, NEW)
        model = DifferenceGP(amplitude, GAMMA, noise)
        shifts.append(
            model.fit_comparisons(X, WINNERS, LOSERS, margins=MARGINS, weights=COUNTS).log_evidence_
            - expected
        )
    np.testing.assert_allclose(shifts, shifts[0], atol=1e-5)


# ---- probabilities


def test_probabilities_are_those_of_the_normal_distribution():
    first, second = NEW, NEW[[1, 2, 3, 4, 0]]
    for model, noise in (
        (FIXED().fit(X, Y, qid=QID), 2 * NOISE),  # two scores have noise
        (FIXED().fit_comparisons(X, WINNERS, LOSERS, margins=MARGINS), NOISE),
    ):
        mean, covariance = uncertain(model, np.concatenate([first, second]))
        pick = np.concatenate([np.eye(5), -np.eye(5)], axis=1)
        gap, variance = pick @ mean, np.diag(pick @ covariance @ pick.T)
        np.testing.assert_allclose(
            model.predict_comparison(first, second), norm.cdf(gap / np.sqrt(variance)), atol=1e-9
        )
        np.testing.assert_allclose(
            model.predict_comparison(first, second, observed=True),
            norm.cdf(gap / np.sqrt(variance + noise)),
            atol=1e-9,
        )


# ---- what is learned


def test_what_is_learned_beats_a_grid():
    model = DifferenceGP().fit(X, Y, qid=QID)
    width = 1 / (3 * X.var())
    for gamma in width * 2.0 ** np.arange(-4, 4):
        for amplitude in 4.0 ** np.arange(-3, 4):
            for noise in 4.0 ** np.arange(-5, 1):
                other = DifferenceGP(float(amplitude), float(gamma), float(noise)).fit(
                    X, Y, qid=QID
                )
                assert model.log_evidence_ > other.log_evidence_ - 1e-2
    again = DifferenceGP(model.amplitude_, model.gamma_, model.noise_).fit(X, Y, qid=QID)
    np.testing.assert_allclose(again.log_evidence_, model.log_evidence_, rtol=1e-9)


@pytest.mark.parametrize("open_", ["amplitude", "noise"])
def test_what_is_given_stays_and_the_rest_is_learned(open_):
    given = {"amplitude": AMPLITUDE, "gamma": GAMMA, "noise": NOISE, open_: "tune"}
    model = DifferenceGP(**given).fit_comparisons(X, WINNERS, LOSERS, margins=MARGINS)
    best = getattr(model, f"{open_}_")
    for factor in (0.5, 0.9, 1.1, 2.0):
        other = DifferenceGP(**{**given, open_: best * factor}).fit_comparisons(
            X, WINNERS, LOSERS, margins=MARGINS
        )
        assert other.log_evidence_ < model.log_evidence_
        for name in {"amplitude", "gamma", "noise"} - {open_}:
            assert getattr(model, f"{name}_") == given[name]


@pytest.mark.parametrize("basis", ["all", SOME], ids=["all", "some"])
def test_one_width_a_column_finds_the_columns_that_matter(basis):
    one = DifferenceGP(basis=basis).fit(X, Y, qid=QID)
    model = DifferenceGP(gamma="columns", basis=basis).fit(X, Y, qid=QID)
    assert model.gamma_.shape == (3,)
    assert model.log_evidence_ > one.log_evidence_ - 1e-3
    assert np.argmin(model.gamma_) == 2
    root = model.gamma_**0.5
    again = DifferenceGP(model.amplitude_, 1.0, model.noise_, basis).fit(X * root, Y, qid=QID)
    np.testing.assert_allclose(again.predict(NEW * root), model.predict(NEW), atol=1e-7)
    np.testing.assert_allclose(again.log_evidence_, model.log_evidence_, rtol=1e-7)


# by the wrong way to do it, below
@pytest.mark.filterwarnings("ignore:gamma was tuned to the end of its range")
def test_the_noise_of_scores_is_found():
    rng = np.random.default_rng(0)
    rows, qid = rng.uniform(-2, 2, size=(150, 1)), np.repeat(np.arange(25), 6)
    scores = np.sin(2 * rows[:, 0]) + 0.3 * rng.normal(size=150) + qid
    model = DifferenceGP().fit(rows, scores, qid=qid)
    assert 0.25 < model.noise_**0.5 < 0.35
    winners, losers = np.array(
        pairs(qid)
    ).T  # pairs taken as if they were observed one by one (docs/mathematics.md, 1.4)
    wins = scores[winners] > scores[losers]
    winners, losers = np.where(wins, winners, losers), np.where(wins, losers, winners)
    pairwise = DifferenceGP().fit_comparisons(
        rows, winners, losers, margins=scores[winners] - scores[losers]
    )
    assert (pairwise.noise_ / 6) ** 0.5 < 0.25  # as a score's noise it is too small


# ---- more data


@pytest.mark.parametrize("basis", ["all", SOME], ids=["all", "some"])
@pytest.mark.parametrize("qid", [QID, None], ids=["queries", "one query"])
@pytest.mark.parametrize("saved", [False, True], ids=["kept", "saved"])
def test_more_scores_are_fitting_again(basis, qid, saved, tmp_path):
    new_y, new_qid = np.array([1.0, np.nan, 0.2, 0.5, 0.5]), np.array(["a", "a", "a", "b", "b"])
    model = FIXED(basis=basis).fit(X, Y, qid=qid)
    if saved:
        model = round_trip(model, tmp_path / "model.corank")
    model.update(NEW, new_y, qid=None if qid is None else new_qid)
    both = None if qid is None else np.concatenate([QID, np.where(new_qid == "a", 100, 101)])
    whole = FIXED(basis=basis).fit(np.concatenate([X, NEW]), np.concatenate([Y, new_y]), qid=both)
    alike(model, whole)
    np.testing.assert_array_equal(model.basis_, whole.basis_)


@pytest.mark.parametrize("basis", ["all", SOME], ids=["all", "some"])
@pytest.mark.parametrize("size", ["few", "many"])
@pytest.mark.parametrize("saved", [False, True], ids=["kept", "saved"])
def test_more_differences_are_fitting_again(basis, size, saved, tmp_path):
    kept = slice(0, 20) if size == "few" else slice(None)
    winners, losers, margins = (
        np.array([24, 3, 26, 27]),
        np.array([1, 25, 24, 28]),
        np.array([0.4, 0.0, 1.0, 0.2]),
    )
    rows = np.concatenate([X, NEW])
    model = FIXED(basis=basis).fit_comparisons(
        X, WINNERS[kept], LOSERS[kept], margins=MARGINS[kept]
    )
    if saved:
        model = round_trip(model, tmp_path / "model.corank")
    for part in (slice(0, 1), slice(1, 4)):
        model.update_comparisons(rows, winners[part], losers[part], margins=margins[part], weights=[2.0] * len(winners[part]))  # fmt: skip
    whole = FIXED(basis=basis).fit_comparisons(
        rows, np.concatenate([WINNERS[kept], winners]), np.concatenate([LOSERS[kept], losers]),
        margins=np.concatenate([MARGINS[kept], margins]), weights=np.repeat([1.0, 2.0], [len(WINNERS[kept]), 4]),
    )  # fmt: skip
    alike(model, whole)
    assert model.basis_.shape == whole.basis_.shape


# ---- other libraries, copies, kernels


@pytest.mark.parametrize("options", [{}, {"gamma": "columns"}, {"basis": 8}], ids=str)
def test_tensors_find_the_same(options):
    torch = pytest.importorskip("torch")
    model = DifferenceGP(**options).fit(X, Y, qid=QID)
    own = DifferenceGP(**options).fit(torch.asarray(X), torch.asarray(Y), qid=torch.asarray(QID))
    for found, expected in zip(
        own.predict(torch.asarray(NEW), return_cov=True), uncertain(model), strict=True
    ):
        assert isinstance(found, torch.Tensor)
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-4)
    own = FIXED().fit_comparisons(torch.asarray(X), WINNERS, LOSERS, margins=MARGINS)
    own.update_comparisons(torch.asarray(NEW), [0, 1], [2, 3])
    model = (
        FIXED()
        .fit_comparisons(X, WINNERS, LOSERS, margins=MARGINS)
        .update_comparisons(NEW, [0, 1], [2, 3])
    )
    np.testing.assert_allclose(
        own.predict(torch.asarray(NEW)).numpy(), model.predict(NEW), atol=1e-8
    )


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize(
    "options", [{}, {"gamma": "columns"}, {"basis": 8}, {"kernel": "linear"}], ids=str
)
def test_csr_finds_the_same(kind, options):
    dense, new = (np.where(np.abs(rows) > 0.2, rows, 0.0) for rows in (X, NEW))
    model, own = (DifferenceGP(**options).fit(rows, Y, qid=QID) for rows in (dense, kind(dense)))
    for rows in (new, kind(new)):
        for found, expected in zip(
            own.predict(rows, return_cov=True), uncertain(model, new), strict=True
        ):
            np.testing.assert_allclose(found, expected, atol=1e-4)
        np.testing.assert_allclose(
            own.predict_comparison(rows[:3], rows[2:]),
            model.predict_comparison(new[:3], new[2:]),
            atol=1e-4,
        )
    model, own = (FIXED().fit_comparisons(rows, WINNERS, LOSERS) for rows in (dense, kind(dense)))
    model.update_comparisons(new, [0, 1], [2, 3])
    own.update_comparisons(kind(new), [0, 1], [2, 3])
    np.testing.assert_allclose(own.predict(new), model.predict(new), atol=1e-8)


@pytest.mark.parametrize("basis", ["all", 8, SOME], ids=str)
def test_a_precomputed_kernel_is_the_kernel(basis):
    k = kernel("rbf", GAMMA)
    model = DifferenceGP(gamma=GAMMA, basis=basis).fit(X, Y, qid=QID)
    own = DifferenceGP(kernel="precomputed", basis=basis).fit(k(X, X), Y, qid=QID)
    np.testing.assert_allclose(own.log_evidence_, model.log_evidence_, rtol=1e-6)
    np.testing.assert_allclose(own.predict(k(NEW, X)), model.predict(NEW), atol=1e-5)
    with pytest.raises(ValueError, match="return_std needs kernel values"):
        own.predict(k(NEW, X), return_std=True)
    own = DifferenceGP(kernel="precomputed", basis=basis).fit_comparisons(
        k(X, X), WINNERS, LOSERS, margins=MARGINS
    )
    model = DifferenceGP(gamma=GAMMA, basis=basis).fit_comparisons(
        X, WINNERS, LOSERS, margins=MARGINS
    )
    np.testing.assert_allclose(own.predict(k(NEW, X)), model.predict(NEW), atol=1e-5)
    with pytest.raises(ValueError, match="precomputed"):
        own.update_comparisons(k(NEW, X), [0], [1])


@pytest.mark.parametrize("name", ["linear", "poly", "exponential", "laplacian", "cosine"])
def test_other_kernels_are_normal_distributions_too(name):
    model = DifferenceGP(AMPLITUDE, GAMMA, NOISE, kernel=name, degree=2).fit(X, Y, qid=QID)
    own = kernel(name, GAMMA, degree=2)
    contrasts = helmert(QID)
    evidence, mean, covariance = conditioned(
        contrasts @ Y,
        contrasts,
        NOISE * np.ones(len(contrasts)),
        lambda A, B: AMPLITUDE * own(A, B),
        X,
        NEW,
    )
    np.testing.assert_allclose(model.log_evidence_, evidence, rtol=1e-7)
    found, spread = uncertain(model)
    np.testing.assert_allclose(found, mean, atol=1e-6)
    np.testing.assert_allclose(spread, covariance, atol=1e-6)


def test_copies_are_alike_and_parameters_stay():
    model = DifferenceGP(basis=10).fit(X, Y, qid=QID)
    alike(pickle.loads(pickle.dumps(model)), model, tolerance=0)
    copy = clone(model)
    assert repr(copy) == repr(model)
    alike(copy.fit(X, Y, qid=QID), model, tolerance=0)


# ---- odd and wrong


def test_ties_alone_leave_a_constant():
    with pytest.warns(UserWarning, match="tied"):
        model = DifferenceGP().fit(X, np.ones(N))
    np.testing.assert_allclose(model.predict(NEW), 0, atol=1e-12)
    assert np.isfinite(uncertain(model)[1]).all()
    model = DifferenceGP().fit_comparisons(X, WINNERS, LOSERS, margins=np.zeros(len(WINNERS)))
    np.testing.assert_allclose(model.predict(NEW), 0, atol=1e-12)


@pytest.mark.parametrize(
    "rows",
    [np.ones((N, 2)), np.repeat(X[:8], 3, axis=0), X * [1, 0, 0], X[:, :1]],
    ids=["constant", "copies", "constant columns", "one column"],
)
@pytest.mark.filterwarnings(
    "ignore:gamma was tuned to the end of its range", "ignore:X. all columns are constant"
)
def test_singular_kernels_are_fine(rows):
    new = rows[:3] + 0.1
    for options in ({}, {"gamma": "columns"}, {"basis": 5}, {"kernel": "linear"}):
        for model in (
            DifferenceGP(**options).fit(rows, Y, qid=QID),
            DifferenceGP(**options).fit_comparisons(rows, WINNERS, LOSERS, margins=MARGINS),
        ):
            assert all(np.isfinite(part).all() for part in model.predict(new, return_cov=True))
            assert np.isfinite(model.log_evidence_)


def test_scores_without_noise_are_interpolated():
    exact = np.sin(X[:, 0])
    model = DifferenceGP(gamma=0.2).fit(X, exact)
    np.testing.assert_allclose(np.diff(model.predict(X)), np.diff(exact), atol=1e-2)
    assert model.noise_ < 1e-4


@pytest.mark.parametrize("size", [1e-50, 1e-6, 1e6, 1e50])
def test_the_units_of_scores_and_features_do_not_matter(size):
    model = DifferenceGP().fit(X, Y, qid=QID)
    np.testing.assert_allclose(
        DifferenceGP().fit(size * X, Y, qid=QID).predict(size * NEW), model.predict(NEW), atol=1e-3
    )
    scaled = DifferenceGP().fit(X, size * Y, qid=QID)
    np.testing.assert_allclose(scaled.predict(NEW) / size, model.predict(NEW), atol=1e-3)
    np.testing.assert_allclose(scaled.noise_ / size**2, model.noise_, rtol=1e-2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"noise": 0.0}, "noise must be 'tune' or a number greater than 0, got 0.0"),
        ({"noise": "auto"}, "noise"),
        ({"noise": -1.0}, "noise"),
        ({"noise": np.inf}, "noise"),
        ({"amplitude": 0}, "amplitude"),
        ({"gamma": [0.1, 1.0]}, "gamma must be"),
        (
            {"gamma": "columns", "kernel": "linear"},
            "gamma='columns' needs an rbf, exponential or laplacian kernel",
        ),
        ({"basis": "features", "kernel": "linear"}, "basis='features' does not go with"),
        ({"basis": 99}, "basis = 99"),
    ],
    ids=str,
)
def test_parameters_out_of_range_are_named(options, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        DifferenceGP(**options).fit(X, Y)
    with pytest.raises(ValueError, match=re.escape(said)):
        DifferenceGP(**options).fit_comparisons(X, WINNERS, LOSERS)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"margins": -MARGINS - 1}, "margins"),
        ({"margins": MARGINS * np.nan}, "margins"),
        ({"margins": MARGINS[1:]}, "margins"),
        ({"weights": -COUNTS}, "weights"),
        ({"weights": 0 * COUNTS}, "weights"),
    ],
    ids=["negative", "missing", "short", "negative weights", "no weights"],
)
def test_margins_and_weights_that_make_no_sense_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        DifferenceGP().fit_comparisons(X, WINNERS, LOSERS, **options)
    with pytest.raises(ValueError, match=said):
        FIXED().fit_comparisons(X, WINNERS, LOSERS).update_comparisons(
            X, WINNERS, LOSERS, **options
        )


def test_updates_are_of_the_kind_of_the_fit():
    with pytest.raises(ValueError, match="fitted on comparisons; use update_comparisons"):
        FIXED().fit_comparisons(X, WINNERS, LOSERS).update(NEW, NEW[:, 0])
    with pytest.raises(ValueError, match="fitted on scores; use update"):
        FIXED().fit(X, Y).update_comparisons(NEW, [0], [1])
    with pytest.raises(ValueError, match="with itself"):
        FIXED().fit_comparisons(X, WINNERS, LOSERS).update_comparisons(NEW, [1], [1])


def test_a_width_far_from_the_start_is_found():
    rng = np.random.default_rng(0)
    rows = rng.random((200, 1))
    scores = np.sin(60 * rows[:, 0]) + 0.1 * rng.normal(size=200)
    model = DifferenceGP().fit(rows, scores)
    for gamma in (1.0, 30.0, 300.0, 1000.0):
        assert model.log_evidence_ > DifferenceGP(gamma=gamma).fit(rows, scores).log_evidence_ - 0.5


@pytest.mark.filterwarnings("ignore:y. all scores are tied")
@pytest.mark.parametrize("size", [3, 10])
def test_scores_that_are_the_same_but_for_rounding_teach_nothing(size):
    model = DifferenceGP().fit(np.random.default_rng(0).random((size, 2)), np.full(size, 0.1))
    assert model.amplitude_ == model.noise_ == 1.0


def test_pairs_to_measure_are_those_least_known():
    rng = np.random.default_rng(2)
    model = DifferenceGP(4.0, 2.0, 0.3).fit_comparisons(
        rng.random((20, 2)), np.arange(10), np.arange(10, 20)
    )
    pool = 2 * rng.random((15, 2))
    covariance = model.predict(pool, return_cov=True)[1]
    spread = np.diag(covariance)[:, None] + np.diag(covariance) - 2 * covariance
    ((a, b),) = model.suggest(pool)
    np.testing.assert_allclose(spread[a, b], spread.max())
