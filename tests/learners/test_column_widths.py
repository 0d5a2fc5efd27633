"""One width per column: given as an array, and learned with gamma="columns"."""

import numpy as np
import pandas as pd
import pytest
from brute_force import Loss, fit_predict, fit_predict_comparisons
from scipy import sparse
from sklearn.base import clone

from corank import RLS, CoRLS, DifferenceGP, PreferenceGP, RankRLS, load, scan
from corank.solve import widths
from corank.streaming import survey

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")
rng = np.random.default_rng(0)
N = 60
X, NEW = rng.standard_normal((N, 4)), rng.standard_normal((20, 4))
QID = np.arange(N) // 6
Y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(N)
PAIRS = np.arange(N).reshape(-1, 2)
WINNERS, LOSERS = np.where((Y[::2] > Y[1::2])[:, None], PAIRS, PAIRS[:, ::-1]).T
GAMMAS = np.array([0.5, 0.2, 0.0, 0.03])
EXPONENTS = {  # for gaps (n, r, d) between rows
    "rbf": lambda gaps: (GAMMAS * gaps**2).sum(axis=2),
    "exponential": lambda gaps: np.sqrt((GAMMAS * gaps**2).sum(axis=2)),
    "laplacian": lambda gaps: (GAMMAS * np.abs(gaps)).sum(axis=2),
}
LEARNERS = {
    "RLS": RLS(1.0),
    "RankRLS": RankRLS(1.0),
    "DifferenceGP": DifferenceGP(2.0, noise=0.3),
    "PreferenceGP": PreferenceGP(2.0),
}
every_kernel = pytest.mark.parametrize("kernel", EXPONENTS)
every_learner = pytest.mark.parametrize("name", LEARNERS)
least_squares = pytest.mark.parametrize("name", ["RLS", "RankRLS"])
close = {"rtol": 1e-7, "atol": 1e-8}


def learner(name, **options):
    return clone(LEARNERS[name]).set_params(**options)


def fitted(name, rows=X, **options):
    return learner(name, **options).fit(rows, Y, qid=QID)


# ---------------------------------------------------------------- given


@every_kernel
def test_given_widths_are_those_of_the_formula(kernel):
    def k(A, B):
        return np.exp(-EXPONENTS[kernel](A[:, None] - B[None]))

    options = {"kernel": kernel, "gamma": GAMMAS}
    found = fitted("RLS", **options).predict(NEW)
    np.testing.assert_allclose(found, fit_predict(X, Y, NEW, k, 1.0, intercept=True), **close)
    found = fitted("RankRLS", **options).predict(NEW)
    np.testing.assert_allclose(found, fit_predict(X, Y, NEW, k, 1.0, Loss(), qid=QID), **close)
    found = learner("RankRLS", **options).fit_comparisons(X, WINNERS, LOSERS).predict(NEW)
    expected = fit_predict_comparisons(X, WINNERS, LOSERS, NEW, k, 1.0)
    np.testing.assert_allclose(found, expected, **close)


@every_learner
@every_kernel
def test_given_widths_are_those_of_scaled_columns(name, kernel):
    factors = GAMMAS if kernel == "laplacian" else np.sqrt(GAMMAS)
    model = fitted(name, kernel=kernel, gamma=GAMMAS, basis=20)
    expected = fitted(name, X * factors, kernel=kernel, gamma=1.0, basis=20)
    np.testing.assert_allclose(model.predict(NEW), expected.predict(NEW * factors), **close)
    np.testing.assert_allclose(model.gamma_, GAMMAS)


@every_learner
@pytest.mark.parametrize("kind", ["csr", "torch"])
def test_rows_of_other_kinds_have_the_same_widths(name, kind):
    as_kind = sparse.csr_array if kind == "csr" else pytest.importorskip("torch").asarray
    for gamma in (GAMMAS, "columns"):
        model = fitted(name, as_kind(X), gamma=gamma)
        expected = fitted(name, gamma=gamma)
        np.testing.assert_allclose(model.gamma_, expected.gamma_, rtol=1e-3, atol=1e-6)
        found = np.asarray(model.predict(as_kind(NEW)))
        np.testing.assert_allclose(found, expected.predict(NEW), rtol=1e-3, atol=1e-4)


@every_learner
@pytest.mark.parametrize("gamma", [GAMMAS, "columns"], ids=["given", "learned"])
def test_copies_and_files_have_the_widths(name, gamma, tmp_path):
    model = fitted(name, gamma=gamma, kernel="exponential")
    model.save(tmp_path / "m.corank")
    loaded = load(tmp_path / "m.corank")
    np.testing.assert_array_equal(loaded.gamma_, model.gamma_)
    np.testing.assert_array_equal(loaded.get_params()["gamma"], gamma)
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    again = clone(model).fit(X, Y, qid=QID)
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))


@least_squares
def test_an_update_keeps_the_widths(name):
    model = fitted(name, gamma="columns")
    kept = model.gamma_
    model.update(NEW, NEW[:, 0], qid=100 + np.arange(20) // 5)
    np.testing.assert_array_equal(model.gamma_, kept)
    rows, scores = np.vstack([X, NEW]), np.append(Y, NEW[:, 0])
    queries = np.append(QID, 100 + np.arange(20) // 5)
    expected = learner(name, gamma=kept).fit(rows, scores, qid=queries)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), **close)


# ---------------------------------------------------------------- learned


@every_learner
@every_kernel
def test_columns_that_matter_are_found(name, kernel):
    model = fitted(name, kernel=kernel, gamma="columns")
    assert model.gamma_[:2].min() > 5 * model.gamma_[2:].max()


@least_squares
@every_kernel
def test_alpha_is_chosen_as_for_given_widths(name, kernel):
    model = fitted(name, alpha="tune", kernel=kernel, gamma="columns")
    given = fitted(name, alpha="tune", kernel=kernel, gamma=model.gamma_)
    np.testing.assert_array_equal(given.path_.error, model.path_.error)
    np.testing.assert_array_equal(given.predict(NEW), model.predict(NEW))
    assert "learned from the same scores" in model.summary().facts["held-out error"]
    assert "learned from the same scores" not in given.summary().facts["held-out error"]
    assert np.isnan(model.path_.gamma).all()


@least_squares
@every_kernel
def test_scales_of_columns_do_not_matter(name, kernel):
    factors = np.array([1e3, 1e-3, 1.0, 50.0])
    model = fitted(name, kernel=kernel, gamma="columns")
    scaled = fitted(name, X * factors, kernel=kernel, gamma="columns")
    np.testing.assert_allclose(
        scaled.predict(NEW * factors), model.predict(NEW), rtol=1e-3, atol=1e-4
    )


def test_comparisons_teach_widths():
    first, second = np.nonzero((QID[:, None] == QID) & (Y[:, None] > Y))
    model = RankRLS(1.0, gamma="columns").fit_comparisons(X, first, second)
    assert model.gamma_[:2].min() > 5 * model.gamma_[2:].max()


@least_squares
def test_a_sample_of_rows_teaches_widths(name, monkeypatch):
    monkeypatch.setattr(widths, "MOST_ROWS", 40)
    first, second, third = (
        fitted(name, gamma="columns", random_state=seed).gamma_ for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, third)


@least_squares
def test_columns_that_do_not_vary_play_no_part(name):
    model = fitted(name, X * [1, 1, 0, 0] + [0, 0, 1e9, 7], gamma="columns")
    np.testing.assert_array_equal(model.gamma_[2:], 0)
    assert model.gamma_[:2].all()


@least_squares
@pytest.mark.parametrize("rows", [X, np.ones((N, 3))], ids=["rows that vary", "equal rows"])
@pytest.mark.filterwarnings("ignore:y. all scores are tied")
def test_scores_that_do_not_differ_teach_nothing(name, rows):
    model = learner(name, gamma="columns").fit(rows, np.full(N, 0.1), qid=QID)
    assert len(set(model.gamma_)) == 1
    assert np.isfinite(model.predict(rows)).all()


def test_weights_count():
    weights = np.where(np.arange(N) < 30, 1e-3, 1.0)
    found = RLS(1.0, gamma="columns").fit(X, Y, sample_weight=weights).gamma_
    assert not np.allclose(found, RLS(1.0, gamma="columns").fit(X, Y).gamma_)


# ---------------------------------------------------------------- what is said of them


@every_learner
@every_kernel
def test_summaries_and_explanations_say_which_columns_make_the_distance(name, kernel):
    frame = pd.DataFrame(X, columns=["speed", "age", "ink", "size"])
    model = learner(name, kernel=kernel, gamma=GAMMAS).fit(frame, Y, qid=QID)
    points, power = model.basis_points_, 1 if kernel == "laplacian" else 2
    pairs = GAMMAS * (np.abs(points[:, None] - points[None]) ** power).sum(axis=(0, 1))
    speed, age, _, size = pairs / pairs.sum()
    expected = (
        f"y the width of each column, the distance between rows is made of speed {speed:.0%}, age"
        f" {age:.0%}, size {size:.0%}, ink 0%"
    )
    assert model.summary().facts["distances"] == f"b{expected}"
    explanation = model.explain_pair(frame.iloc[0], frame.iloc[1])
    assert explanation.sentences()[-1] == f"B{expected}."


def test_one_width_for_all_columns_says_nothing_of_them():
    model = RLS(gamma="tune").fit(X, Y)
    assert "distances" not in model.summary().facts
    assert model.explain_pair(X[0], X[1]).distance == ""


# ---------------------------------------------------------------- scans


@pytest.fixture
def rows_of_a_file(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=Y, qid=QID)
    frame.to_parquet(tmp_path / "rows.parquet")
    return scan(tmp_path / "rows.parquet", score="y", query="qid")


@least_squares
@pytest.mark.parametrize("held", [True, False])
def test_given_widths_of_a_scan(name, held, rows_of_a_file, monkeypatch):
    if not held:
        monkeypatch.setattr(survey, "HELD_BYTES", 0)
    options = {"basis": 20, "kernel": "exponential", "gamma": GAMMAS}
    model = learner(name, **options).fit(rows_of_a_file)
    expected = fitted(name, **options)
    np.testing.assert_allclose(model.predict(NEW), expected.predict(NEW), **close)


@least_squares
def test_widths_are_learned_from_the_scored_rows_of_a_scan(name, rows_of_a_file, monkeypatch):
    model = learner(name, gamma="columns").fit(rows_of_a_file)
    np.testing.assert_allclose(model.gamma_, fitted(name, gamma="columns").gamma_, rtol=1e-6)
    monkeypatch.setattr(survey, "HELD_BYTES", 0)
    with pytest.raises(ValueError, match="gamma='columns' needs the scored rows in memory"):
        learner(name, gamma="columns", basis=20).fit(rows_of_a_file)


# ---------------------------------------------------------------- refused


@every_learner
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": np.ones(3)}, "got 3 for 4 columns; candidates are given as a list"),
        ({"gamma": np.array([1, -1, 1, 1])}, "gamma must be 0 or more"),
        ({"gamma": np.array([1, np.nan, 1, 1])}, "gamma must be 0 or more"),
        ({"gamma": np.array([1, np.inf, 1, 1])}, "gamma must be 0 or more"),
        ({"gamma": np.array(list("abcd"))}, "gamma must be a number"),
        ({"gamma": np.zeros(4)}, "at least one column"),
        ({"gamma": np.ones(4), "kernel": "linear"}, "got kernel='linear'"),
        ({"gamma": "columns", "kernel": "linear"}, "got kernel='linear'"),
        ({"gamma": "columns", "kernel": "poly"}, "needs an rbf, exponential or laplacian kernel"),
    ],
    ids=str,
)
def test_what_cannot_be_widths_is_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        fitted(name, **options)


@every_learner
def test_widths_of_very_many_columns_are_not_learned(name):
    with pytest.raises(ValueError, match="X has 501"):
        fitted(name, np.ones((N, 501)) * Y[:, None], gamma="columns")


def test_learners_with_views_take_candidates_only():
    with pytest.raises(
        ValueError, match="gamma 'columns' is for RLS, RankRLS, DifferenceGP and PreferenceGP"
    ):
        CoRLS(gamma="columns").fit(X, Y)
    model = CoRLS(alpha=1.0, agreement=0.0, gamma=np.array([0.1, 0.2])).fit(X, Y)
    assert set(model.gamma_) <= {0.1, 0.2}
