"""PreferenceGP against integrals over the exact posterior, against refitting, and across libraries."""

import pickle
from functools import cache, partial
from itertools import combinations

import numpy as np
import pytest
from brute_force import kernel
from brute_force.gaussian_processes import at_new_points, chance, integrated, mixed, sampled
from edited_files import round_trip
from scipy import sparse
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.base import clone

from corank import PreferenceGP
from corank.core.basis import KernelBasis
from corank.solve.expectation_propagation import PairData, untied_pairs
from corank.solve.preference import Ascent, EvidenceSearch, PreferenceTask, amplitude_slope

pytestmark = pytest.mark.usefixtures("one_blas_thread")

GAMMA = 0.7
FOUR = np.random.default_rng(1).normal(size=(4, 2))
NEW = np.random.default_rng(2).normal(size=(3, 2))
# winners, losers, counts
PROBLEMS = {
    "one": (3, [0], [1], None),
    "a chain": (4, [0, 1, 2], [1, 2, 3], None),
    "repeated": (3, [0, 1], [1, 2], [4, 2]),
    "listed twice": (4, [0, 0, 1, 2], [1, 1, 3, 3], None),
    "contradictory": (4, [0, 1, 1, 2, 3], [1, 0, 2, 3, 0], [2, 1, 1, 1, 1]),
    "tied": (4, [0, 1, 2, 3, 1], [1, 0, 3, 2, 2], None),
    "decided": (4, [0, 1, 2, 3], [1, 2, 3, 0], None),
}


def scaled(amplitude, gamma=GAMMA):
    k = kernel("rbf", gamma)
    return lambda A, B: amplitude * k(A, B)


@cache
def problem(name, amplitude):
    """The exact posterior by integration, and the learner's."""
    n, winners, losers, counts = PROBLEMS[name]
    X, k = FOUR[:n], scaled(amplitude)
    model = PreferenceGP(amplitude, GAMMA)
    model.fit_comparisons(X, winners, losers, weights=counts)
    return X, k, integrated(k(X, X), winners, losers, counts), model


problems = pytest.mark.parametrize(
    ("name", "amplitude"),
    [(name, amplitude) for name in PROBLEMS for amplitude in (0.5, 2.0)]
    + [("a chain", 8.0), ("tied", 8.0)],
)


# ---- moments, evidence, probabilities


@problems
def test_evidence_and_moments_are_those_of_integrals(name, amplitude):
    X, _, exact, model = problem(name, amplitude)
    assert abs(model.log_evidence_ - exact.log_evidence) < 0.03
    mean, covariance = model.predict(X, return_cov=True)
    np.testing.assert_allclose(mean, exact.mean, atol=0.01)
    np.testing.assert_allclose(covariance, exact.covariance, atol=0.03)
    np.testing.assert_allclose(model.predict(X), mean, atol=1e-12)
    np.testing.assert_allclose(
        model.predict(X, return_std=True)[1] ** 2, np.diag(covariance), atol=1e-10
    )


@problems
def test_new_points_are_those_of_conditioning_the_exact_posterior(name, amplitude):
    X, k, exact, model = problem(name, amplitude)
    expected, spread = at_new_points(exact, k, X, NEW)
    mean, covariance = model.predict(NEW, return_cov=True)
    np.testing.assert_allclose(mean, expected, atol=0.01)
    np.testing.assert_allclose(covariance, spread, atol=0.03)
    np.testing.assert_allclose(
        model.predict(NEW, return_std=True)[1], np.sqrt(np.diag(spread)), atol=0.02
    )


@problems
@pytest.mark.parametrize("observed", [False, True], ids=["true scores", "observed"])
def test_probabilities_are_those_of_the_exact_posterior(name, amplitude, observed):
    X, k, exact, model = problem(name, amplitude)
    first, second = NEW, NEW[[1, 2, 0]]
    if observed:  # else a step between nodes
        first, second = np.concatenate([first, X[:2]]), np.concatenate([second, X[1:3]])
    found = model.predict_comparison(first, second, observed=observed)
    np.testing.assert_allclose(
        found, chance(exact, k, X, first, second, float(observed)), atol=0.01
    )
    np.testing.assert_allclose(
        model.predict_comparison(second, first, observed=observed), 1 - found, atol=1e-12
    )


def test_one_comparison_is_exact():
    X, _, exact, model = problem("one", 2.0)
    np.testing.assert_allclose(model.log_evidence_, np.log(0.5), rtol=1e-12)
    np.testing.assert_allclose(model.predict(X), exact.mean, atol=1e-8)
    np.testing.assert_allclose(model.predict(X, return_cov=True)[1], exact.covariance, atol=1e-8)


@pytest.mark.parametrize("amplitude", [1.0, 3.0])
def test_six_items_are_those_of_importance_sampling(amplitude):
    X = np.random.default_rng(3).normal(size=(6, 2))
    winners, losers = [0, 1, 2, 3, 4, 5, 0, 2, 1], [1, 2, 3, 4, 5, 0, 3, 5, 0]
    k = scaled(amplitude)
    exact = sampled(k(X, X), winners, losers)
    model = PreferenceGP(amplitude, GAMMA).fit_comparisons(X, winners, losers)
    error = exact.relative_error
    assert 0 < error < 0.01
    assert abs(model.log_evidence_ - exact.log_evidence) < 0.01 + 4 * error
    sd = np.sqrt(np.diag(exact.covariance))
    assert np.all(np.abs(model.predict(X) - exact.mean) < 0.01 + 4 * error * sd)
    np.testing.assert_allclose(model.predict(X, return_cov=True)[1], exact.covariance, atol=0.03)
    expected = chance(exact, k, X, NEW[:2], NEW[1:], 1.0)
    np.testing.assert_allclose(
        model.predict_comparison(NEW[:2], NEW[1:], observed=True), expected, atol=0.01
    )


def test_a_row_is_as_good_as_itself():
    model = problem("a chain", 2.0)[3]
    np.testing.assert_array_equal(model.predict_comparison(NEW, NEW), 0.5)


# ---- comparisons of more items

rng = np.random.default_rng(5)
ITEMS = rng.normal(size=(24, 3))
TRUTH = np.sin(1.5 * ITEMS[:, 0]) + 0.3 * ITEMS[:, 1]
FIRST = np.concatenate([np.arange(24), rng.integers(0, 24, 46)])
SECOND = np.concatenate([np.roll(np.arange(24), 1), (FIRST[24:] + rng.integers(1, 24, 46)) % 24])
WINS = TRUTH[FIRST] - TRUTH[SECOND] + 0.4 * rng.normal(size=70) > 0
WINNERS, LOSERS = np.where(WINS, FIRST, SECOND), np.where(WINS, SECOND, FIRST)
MORE = rng.normal(size=(5, 3))
FIXED = partial(PreferenceGP, 2.0, 0.4)


def alike(found, expected, X=MORE, tolerance=1e-7):
    for options in ({}, {"return_std": True}, {"return_cov": True}):
        for own, other in zip(
            *[np.atleast_1d(each.predict(X, **options)) if not options else each.predict(X, **options)
              for each in (found, expected)], strict=True,
        ):  # fmt: skip
            np.testing.assert_allclose(own, other, atol=tolerance)
    np.testing.assert_allclose(found.log_evidence_, expected.log_evidence_, atol=1e-6)


def as_csr(X):
    return sparse.csr_array(np.where(np.abs(X) > 0.2, X, 0.0))


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("basis", ["all", [0, 3, 5, 8, 11, 17]], ids=["all", "some"])
@pytest.mark.parametrize("widths", ["one", "each"])
def test_slopes_of_the_evidence_are_those_of_differences(kind, basis, widths):
    X = ITEMS if kind == "dense" else as_csr(ITEMS)
    model = PreferenceGP(1.0, 0.4, basis).fit_comparisons(X, WINNERS, LOSERS)
    ascent = Ascent(model_task(model, X, basis), EvidenceSearch(None, widths))
    check_slopes(ascent, np.linspace(0.3, -0.4, ascent.size))


@pytest.mark.parametrize("name", ["poly", "exponential", "laplacian"])
def test_slopes_for_other_kernels_are_those_of_differences(name):
    model = PreferenceGP(1.0, 0.3, kernel=name).fit_comparisons(ITEMS, WINNERS, LOSERS)
    check_slopes(
        Ascent(model_task(model, ITEMS, "all"), EvidenceSearch(None, "one")),
        np.array([0.3, -0.2]),
        1e-3,
    )


def model_task(model, X, basis):
    data = PairData.merged(X, WINNERS, LOSERS, np.ones(len(WINNERS)))
    return PreferenceTask(
        data, KernelBasis(model._kernel, model.basis_points_), whole=isinstance(basis, str)
    )


def check_slopes(ascent, place, tolerance=1e-4):
    """Of the evidence, and of what is made large."""

    def value(at):
        ascent.sites = None
        return ascent.fitted(at, tolerance=1e-12).posterior.log_evidence

    found = ascent.fitted(place, tolerance=1e-12)
    slopes = [amplitude_slope(ascent.task.data, found), *ascent._width_slopes(place, found)]
    steps = 1e-4 * np.eye(len(place))
    expected = [(value(place + h) - value(place - h)) / 2e-4 for h in steps]
    np.testing.assert_allclose(slopes, expected, rtol=tolerance, atol=tolerance)
    steps *= 10
    expected = [(ascent.descent(place + h)[0] - ascent.descent(place - h)[0]) / 2e-3 for h in steps]
    np.testing.assert_allclose(ascent.descent(place)[1], expected, rtol=1e-3, atol=1e-3)


def test_all_rows_as_basis_are_all_rows():
    whole = FIXED(basis="all").fit_comparisons(ITEMS, WINNERS, LOSERS)
    alike(FIXED(basis=np.arange(24)).fit_comparisons(ITEMS, WINNERS, LOSERS), whole)
    alike(FIXED(basis=24).fit_comparisons(ITEMS, WINNERS, LOSERS), whole)
    tuned = [
        PreferenceGP(basis=rows).fit_comparisons(ITEMS, WINNERS, LOSERS)
        for rows in ("all", np.arange(24))
    ]
    assert abs(aim(tuned[0]) - aim(tuned[1])) < 1e-4
    np.testing.assert_allclose(tuned[0].predict(MORE), tuned[1].predict(MORE), atol=1e-2)


def test_rows_in_no_comparison_change_nothing():
    alike(
        FIXED().fit_comparisons(np.concatenate([MORE, ITEMS]), WINNERS + 5, LOSERS + 5),
        FIXED().fit_comparisons(ITEMS, WINNERS, LOSERS),
    )


def test_a_weight_is_so_many_comparisons():
    counts = np.arange(70) % 3
    counted = FIXED().fit_comparisons(ITEMS, WINNERS, LOSERS, weights=counts)
    listed = FIXED().fit_comparisons(ITEMS, np.repeat(WINNERS, counts), np.repeat(LOSERS, counts))
    alike(counted, listed)


def aim(model):
    """The evidence, under a wide prior on the amplitude."""
    return model.log_evidence_ + norm.logpdf(np.log(model.amplitude_), np.log(4), 2)


@pytest.mark.parametrize("gamma", ["tune", "columns", "scale"])
def test_what_is_learned_beats_a_grid(gamma):
    model = PreferenceGP(gamma=gamma).fit_comparisons(ITEMS, WINNERS, LOSERS)
    assert np.shape(model.gamma_) == ((3,) if gamma == "columns" else ())
    width = 1 / (3 * ITEMS.var())
    widths = [width] if gamma == "scale" else width * 2.0 ** np.arange(-4, 3)
    for own in widths:
        for amplitude in 4.0 ** np.arange(-2, 4):
            other = PreferenceGP(float(amplitude), float(own)).fit_comparisons(
                ITEMS, WINNERS, LOSERS
            )
            assert aim(model) > aim(other) - 1e-4
    if gamma == "columns":  # the third says nothing
        assert np.argmin(model.gamma_) == 2
        again = PreferenceGP(model.amplitude_, 1.0).fit_comparisons(
            ITEMS * model.gamma_**0.5, WINNERS, LOSERS
        )
        np.testing.assert_allclose(
            again.predict(MORE * model.gamma_**0.5), model.predict(MORE), atol=1e-7
        )


def test_an_average_over_widths_is_the_sum_of_its_parts():
    options = {"amplitude": 2.0, "gamma": "tune"}
    best = PreferenceGP(**options).fit_comparisons(ITEMS, WINNERS, LOSERS)
    model = PreferenceGP(**options, average_width=True).fit_comparisons(ITEMS, WINNERS, LOSERS)
    assert model.gamma_ == pytest.approx(best.gamma_, rel=1e-9)
    widths = sorted(part.kernel.gamma for part in model._parts)
    assert len(widths) > 3
    # flat in the logarithm
    np.testing.assert_allclose(np.diff(np.log(widths)), np.diff(np.log(widths))[0])
    parts = [PreferenceGP(2.0, width).fit_comparisons(ITEMS, WINNERS, LOSERS) for width in widths]
    logs = [part.log_evidence_ for part in parts]
    mean, covariance, shares = mixed([part.predict(MORE, return_cov=True) for part in parts], logs)
    assert min(shares) > 0
    found, spread = model.predict(MORE, return_cov=True)
    np.testing.assert_allclose(found, mean, atol=1e-6)
    np.testing.assert_allclose(spread, covariance, atol=1e-6)
    np.testing.assert_allclose(model.predict(MORE), mean, atol=1e-6)
    np.testing.assert_allclose(
        model.predict(MORE, return_std=True)[1], np.sqrt(np.diag(covariance)), atol=1e-6
    )
    for observed in (False, True):
        chances = [part.predict_comparison(MORE[:3], MORE[2:], observed=observed) for part in parts]
        np.testing.assert_allclose(
            model.predict_comparison(MORE[:3], MORE[2:], observed=observed),
            shares @ np.stack(chances),
            atol=1e-6,
        )
    further = [PreferenceGP(2.0, width).fit_comparisons(ITEMS, WINNERS, LOSERS).log_evidence_
               for width in (widths[0] * 0.5, widths[-1] * 2)]  # fmt: skip
    assert logsumexp(further) < logsumexp(logs) - 3  # what is left out has a small share


# ---- scores

QID = np.array([2, 0, 1, 0, 2, 1, 1, 0, 2, 2, 3, 0] * 2)
SCORES = np.round(TRUTH * 2) / 2
SCORES[4] = np.nan


def by_hand(scores, qid):
    """Every pair of a query with different scores, once."""
    found = []
    for i, j in combinations(range(len(scores)), 2):
        if qid[i] == qid[j] and scores[i] != scores[j] and np.isfinite(scores[[i, j]]).all():
            found.append((i, j) if scores[i] > scores[j] else (j, i))
    return np.array(found).T


@pytest.mark.parametrize("qid", [QID, None], ids=["queries", "one query"])
def test_scores_are_their_untied_pairs(qid):
    winners, losers = by_hand(SCORES, np.zeros(24) if qid is None else qid)
    model = FIXED().fit(ITEMS, SCORES, qid=qid)
    alike(model, FIXED().fit_comparisons(ITEMS, winners, losers, qid=qid))
    assert len(model._data) == len(winners)


def test_a_sample_of_pairs_is_drawn_without_chance_and_without_repeats():
    few = FIXED(max_pairs=20, random_state=3).fit(ITEMS, SCORES, qid=QID)
    alike(few, FIXED(max_pairs=20, random_state=3).fit(ITEMS, SCORES, qid=QID), tolerance=0)
    drawn = set(zip(few._data.winners.tolist(), few._data.losers.tolist(), strict=True))
    assert len(drawn) == 20
    np.testing.assert_array_equal(few._data.counts, 1)
    kept = np.flatnonzero(np.isfinite(SCORES))
    everything = {(int(i), int(j)) for i, j in by_hand(SCORES, QID).T}
    assert {(int(kept[i]), int(kept[j])) for i, j in drawn} <= everything
    other = FIXED(max_pairs=20, random_state=4).fit(ITEMS, SCORES, qid=QID)
    assert set(zip(other._data.winners.tolist(), other._data.losers.tolist(), strict=True)) != drawn


def test_many_pairs_are_drawn_alike_without_listing_them():
    scores, queries = np.arange(60.0) % 7, np.repeat([0, 1, 2], [1, 39, 20])
    expected = {(int(i), int(j)) for i, j in by_hand(scores, queries).T}
    assert set(zip(*untied_pairs(scores, queries, 10**6, 0), strict=True)) == expected
    seen = np.zeros((60, 60))
    for seed in range(60):
        winners, losers = untied_pairs(scores, queries, 200, seed)
        drawn = list(zip(winners.tolist(), losers.tolist(), strict=True))
        assert len(set(drawn)) == len(drawn) == 200
        assert set(drawn) <= expected
        seen[winners, losers] += 1
    share = 200 / len(expected)
    rates = np.array([seen[pair] for pair in sorted(expected)]) / 60
    assert abs(rates.mean() - share) < 1e-12
    assert rates.std() < 1.5 * np.sqrt(share * (1 - share) / 60)


def test_rare_scores_give_as_many_pairs_as_there_are():
    scores = np.zeros(4000)
    scores[[5, 700, 1500, 3999]] = 1.0
    winners, losers = untied_pairs(scores, np.zeros(4000, dtype=np.int64), 5000, 0)
    assert len(set(zip(winners.tolist(), losers.tolist(), strict=True))) == 5000
    assert set(winners.tolist()) == {5, 700, 1500, 3999}


def test_pairs_of_known_rows_are_left_out():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(1, 12))
        scores, queries = (
            rng.integers(0, 4, n).astype(float),
            np.unique(rng.integers(0, 3, n), return_inverse=True)[1],
        )
        first_new = int(rng.integers(0, n + 1))
        expected = {
            (int(i), int(j))
            for i, j in by_hand(scores, queries).T
            if i >= first_new or j >= first_new
        }
        winners, losers = untied_pairs(scores, queries, 10**6, 0, first_new)
        assert len(winners) == len(expected)
        assert set(zip(winners.tolist(), losers.tolist(), strict=True)) == expected


# ---- more data


BASES = pytest.mark.parametrize("basis", ["all", [0, 3, 5, 8, 11, 17]], ids=["all", "some"])


@BASES
@pytest.mark.parametrize("saved", [False, True], ids=["kept", "saved"])
def test_more_comparisons_are_fitting_again(basis, saved, tmp_path):
    X = np.concatenate([ITEMS, MORE])
    winners, losers = np.array([24, 3, 26, 27, 28, 3]), np.array([1, 25, 24, 28, 2, 7])
    counts = np.array([1, 2, 1, 3, 1, 1])
    model = FIXED(basis=basis).fit_comparisons(ITEMS, WINNERS, LOSERS)
    if saved:
        model = round_trip(model, tmp_path / "model.corank")
    own = [3, 1, 7, 2]  # known items come again, in another order, among the new ones
    rows = np.concatenate([X[24:], X[own]])
    place = {**{24 + i: i for i in range(5)}, **{row: 5 + i for i, row in enumerate(own)}}
    for part in (slice(0, 2), slice(2, 6)):
        ends = [[place[int(row)] for row in side[part]] for side in (winners, losers)]
        model.update_comparisons(rows, *ends, weights=counts[part])
    whole = FIXED(basis=basis).fit_comparisons(
        X, np.concatenate([WINNERS, winners]), np.concatenate([LOSERS, losers]),
        weights=np.concatenate([np.ones(70), counts]),
    )  # fmt: skip
    alike(model, whole)
    assert model.basis_.shape == whole.basis_.shape
    assert len(model._data) == len(whole._data)


@BASES
@pytest.mark.parametrize("qid", [QID, None], ids=["queries", "one query"])
@pytest.mark.parametrize("saved", [False, True], ids=["kept", "saved"])
def test_more_scores_are_fitting_again(basis, qid, saved, tmp_path):
    new_y, new_qid = np.array([1.0, np.nan, 0.2, 0.5, 0.5]), np.array(["a", "a", "a", "b", "a"])
    model = FIXED(basis=basis).fit(ITEMS, SCORES, qid=qid)
    if saved:
        model = round_trip(model, tmp_path / "model.corank")
    model.update(MORE, new_y, qid=None if qid is None else new_qid)
    both = None if qid is None else np.concatenate([QID, np.where(new_qid == "a", 100, 101)])
    whole = FIXED(basis=basis).fit(
        np.concatenate([ITEMS, MORE]), np.concatenate([SCORES, new_y]), qid=both
    )
    alike(model, whole)
    np.testing.assert_array_equal(model.basis_, whole.basis_)
    assert (model._n_seen, model._n_scored, model._n_queries) == (
        whole._n_seen,
        whole._n_scored,
        whole._n_queries,
    )


def test_an_average_stays_one_through_update():
    model = PreferenceGP(2.0, average_width=True).fit_comparisons(ITEMS, WINNERS[:60], LOSERS[:60])
    model.update_comparisons(ITEMS, WINNERS[60:], LOSERS[60:])
    parts = [
        PreferenceGP(2.0, p.kernel.gamma).fit_comparisons(ITEMS, WINNERS, LOSERS)
        for p in model._parts
    ]
    mean, covariance, _ = mixed(
        [part.predict(MORE, return_cov=True) for part in parts],
        [part.log_evidence_ for part in parts],
    )
    np.testing.assert_allclose(model.predict(MORE), mean, atol=1e-6)
    np.testing.assert_allclose(model.predict(MORE, return_cov=True)[1], covariance, atol=1e-6)


# ---- other libraries, copies


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    "options", [{}, {"gamma": "columns"}, {"basis": 8}, {"average_width": True}], ids=str
)
def test_tensors_find_the_same(options, torch):
    model = PreferenceGP(**options).fit_comparisons(ITEMS, WINNERS, LOSERS)
    tensors = PreferenceGP(**options).fit_comparisons(torch.asarray(ITEMS), WINNERS, LOSERS)
    np.testing.assert_allclose(tensors.gamma_, model.gamma_, rtol=1e-3)
    mean, covariance = tensors.predict(torch.asarray(MORE), return_cov=True)
    assert isinstance(mean, torch.Tensor)
    assert isinstance(covariance, torch.Tensor)
    np.testing.assert_allclose(mean.numpy(), model.predict(MORE), atol=1e-3)
    np.testing.assert_allclose(
        covariance.numpy(), model.predict(MORE, return_cov=True)[1], atol=1e-3
    )
    chances = tensors.predict_comparison(torch.asarray(MORE[:3]), torch.asarray(MORE[2:]))
    assert isinstance(chances, torch.Tensor)
    np.testing.assert_allclose(
        chances.numpy(), model.predict_comparison(MORE[:3], MORE[2:]), atol=1e-3
    )
    scores = PreferenceGP(2.0, 0.4).fit(
        torch.asarray(ITEMS), torch.asarray(SCORES), qid=torch.asarray(QID)
    )
    np.testing.assert_allclose(
        scores.predict(torch.asarray(MORE)).numpy(),
        FIXED().fit(ITEMS, SCORES, qid=QID).predict(MORE),
        atol=1e-7,
    )
    tensors.update_comparisons(torch.asarray(MORE), [0, 1], [2, 3])
    np.testing.assert_allclose(
        tensors.predict(torch.asarray(MORE)).numpy(),
        model.update_comparisons(MORE, [0, 1], [2, 3]).predict(MORE),
        atol=1e-3,
    )


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize(
    "options",
    [{}, {"gamma": "columns"}, {"basis": 8}, {"average_width": True}, {"kernel": "linear"}],
    ids=str,
)
def test_csr_finds_the_same(kind, options):
    X, new = (kind(as_csr(rows)) for rows in (ITEMS, MORE))
    model = PreferenceGP(**options).fit_comparisons(X.toarray(), WINNERS, LOSERS)
    own = PreferenceGP(**options).fit_comparisons(X, WINNERS, LOSERS)
    np.testing.assert_allclose(own.log_evidence_, model.log_evidence_, atol=1e-4)
    for rows in (new, new.toarray()):
        for found, expected in zip(
            own.predict(rows, return_cov=True),
            model.predict(new.toarray(), return_cov=True),
            strict=True,
        ):
            np.testing.assert_allclose(found, expected, atol=1e-3)
        np.testing.assert_allclose(
            own.predict_comparison(rows[:3], rows[2:]),
            model.predict_comparison(new.toarray()[:3], new.toarray()[2:]),
            atol=1e-3,
        )
    for each, rows in ((own, new), (model, new.toarray())):
        each.update_comparisons(rows, [0, 1], [2, 3])
    np.testing.assert_allclose(own.predict(new), model.predict(new.toarray()), atol=1e-3)


@pytest.mark.parametrize("basis", ["all", 8, [1, 4, 9]], ids=str)
def test_a_precomputed_kernel_is_the_kernel(basis):
    k = kernel("rbf", 0.4)
    model = PreferenceGP(gamma=0.4, basis=basis).fit_comparisons(ITEMS, WINNERS, LOSERS)
    own = PreferenceGP(kernel="precomputed", basis=basis).fit_comparisons(
        k(ITEMS, ITEMS), WINNERS, LOSERS
    )
    np.testing.assert_allclose(own.log_evidence_, model.log_evidence_, atol=1e-6)
    np.testing.assert_allclose(own.predict(k(MORE, ITEMS)), model.predict(MORE), atol=1e-5)
    np.testing.assert_array_equal(own.basis_, model.basis_)
    for options in ({"return_std": True}, {"return_cov": True}):
        with pytest.raises(ValueError, match=f"{next(iter(options))} needs kernel values"):
            own.predict(k(MORE, ITEMS), **options)
    with pytest.raises(ValueError, match="precomputed"):
        own.update_comparisons(k(MORE, ITEMS), [0], [1])


def test_copies_are_alike_and_parameters_stay():
    model = PreferenceGP(basis=10, average_width=True).fit_comparisons(ITEMS, WINNERS, LOSERS)
    alike(pickle.loads(pickle.dumps(model)), model, tolerance=0)
    copy = clone(model)
    assert repr(copy) == repr(model)
    assert not hasattr(copy, "coef_")
    alike(copy.fit_comparisons(ITEMS, WINNERS, LOSERS), model, tolerance=0)


def test_predictions_have_the_precision_of_the_features():
    model = FIXED().fit_comparisons(ITEMS.astype(np.float32), WINNERS, LOSERS)
    new = MORE.astype(np.float32)
    assert model.predict(new).dtype == np.float32
    assert all(part.dtype == np.float32 for part in model.predict(new, return_cov=True))
    assert model.predict_comparison(new, new).dtype == np.float32
    np.testing.assert_allclose(model.predict(new), FIXED().fit_comparisons(ITEMS, WINNERS, LOSERS).predict(MORE), atol=1e-5)  # fmt: skip
