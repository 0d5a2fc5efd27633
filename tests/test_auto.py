"""AutoRanker and AutoRegressor: what they choose, why, and that folds, not luck or the order of rows, decide it."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from corank import RLS, AutoRanker, AutoRegressor, CoRankRLS, CoRLS, RankRLS, View
from corank.auto import Candidate, _choose
from corank.datasets import make_two_views
from corank.solvers.folds import balanced_folds
from corank.solvers.holdout import Grid, HeldOut
from corank.solvers.tuning import GRID
from corank.solvers.unscored_effect import Nested

pytestmark = pytest.mark.usefixtures("one_blas_thread")
RNG = np.random.default_rng(0)
N, M = 24, 16
X = RNG.normal(size=(N + M, 6))
Y = np.where(np.arange(N + M) < N, X[:, 0] + np.sin(X[:, 3]) + 0.1 * RNG.normal(size=N + M), np.nan)
QID = np.r_[np.repeat(np.arange(6), 4), np.repeat(np.arange(6, 10), 4)]
NEW = RNG.normal(size=(7, 6))
VIEWS = [View(slice(0, 3), gamma=0.2), View(slice(3, 6), gamma=0.3)]
both = pytest.mark.parametrize("auto", [AutoRegressor, AutoRanker])


def rmse(model, data):
    return np.sqrt(np.mean((model.predict(data.X_test) - data.y_test) ** 2))


def linear(data, auto, **options):
    views = [View(columns, kernel="linear") for columns in data.views]
    return auto(views, "features", kernel="linear", **options).fit(data.X, data.y, qid=options.pop("qid", None))


def noisy(data):
    """The same rows with noise for a second view."""
    for X in (data.X, data.X_test):
        X[:, data.views[1]] = np.random.default_rng(1).normal(size=X[:, data.views[1]].shape)
    return data


# ------------------------------------------------------------------ the choice


@pytest.mark.parametrize("seed", [0, 1])
def test_regression_takes_agreement_where_views_share_the_target_only(seed):
    data = make_two_views(n_unscored=400, random_state=seed)
    model = linear(data, AutoRegressor, fit_intercept=False)
    assert model.chosen_ == "agreement"
    assert isinstance(model.best_estimator_, CoRLS)
    supervised = RLS(kernel="linear", basis="features", fit_intercept=False).fit(data.X, data.y)
    assert rmse(model, data) < 0.5 * rmse(supervised, data)


@pytest.mark.parametrize("seed", [1, 2])
def test_regression_with_a_view_of_noise_is_supervised(seed):
    data = noisy(make_two_views(n_unscored=400, random_state=seed))
    model = linear(data, AutoRegressor, fit_intercept=False)
    assert model.chosen_ == "supervised"
    supervised = RLS(kernel="linear", basis="features", fit_intercept=False).fit(data.X, data.y)
    assert isinstance(model.best_estimator_, RLS)
    np.testing.assert_allclose(model.predict(data.X_test), supervised.predict(data.X_test), rtol=1e-6)


def test_ranking_takes_agreement_or_not_likewise():
    options = {"n_scored": 40, "n_unscored": 400, "queries": 10, "random_state": 0}
    data = make_two_views(**options)
    views = [View(columns, kernel="linear") for columns in data.views]
    model = AutoRanker(views, "features", kernel="linear").fit(data.X, data.y, qid=data.qid)
    assert model.chosen_ == "agreement"
    assert isinstance(model.best_estimator_, CoRankRLS)
    supervised = RankRLS(kernel="linear", basis="features").fit(data.X, data.y, qid=data.qid)
    told = {"qid": data.qid_test}
    assert model.score(data.X_test, data.y_test, **told) > supervised.score(data.X_test, data.y_test, **told)
    data = noisy(make_two_views(**options))
    assert AutoRanker(views, "features", kernel="linear").fit(data.X, data.y, qid=data.qid).chosen_ == "supervised"


class Told:
    """A fitted learner whose nested errors are known."""

    def __init__(self, grid=(0.0, 1.0), **errors):
        self._evidence, self.errors = self, errors
        self.grid, self.cokernel, self.judge = Grid(np.ones(1), np.asarray(grid)), "few", "disagreement"

    def nested(self, procedures, judge):
        assert judge == "disagreement"  # of rankers, whatever chose their parameters
        if not self.errors:
            return None
        assert list(procedures) == list(self.errors)
        return Nested({name: HeldOut(np.asarray(e)[:, None], np.ones(len(e))) for name, e in self.errors.items()})


GOOD, FAIR, POOR, MIXED = [1.0, 1.1, 0.9, 1.0], [2.0, 2.2, 1.9, 2.0], [3.0, 3.1, 3.0, 3.2], [0.5, 5.0, 0.7, 0.6]


@pytest.mark.parametrize(
    ("supervised", "average", "agreement", "chosen"),
    [
        (FAIR, POOR, POOR, "supervised"),
        (POOR, FAIR, GOOD, "agreement"),
        (POOR, GOOD, FAIR, "average"),
        (POOR, FAIR, FAIR, "average"),
        (FAIR, POOR, GOOD, "agreement"),
        (FAIR, MIXED, MIXED, "supervised"),
    ],
)
def test_the_simplest_that_nothing_beats_by_a_standard_error_is_taken(supervised, average, agreement, chosen):
    candidates, found = _choose(Told(supervised=supervised), Told(average=average, agreement=agreement))
    assert found == chosen
    assert [c.name for c in candidates] == ["supervised", "average", "agreement"]
    assert np.isnan(candidates[0].gain)
    for candidate, errors in zip(candidates, (supervised, average, agreement), strict=True):
        assert candidate.error == pytest.approx(np.mean(errors))
        assert candidate.standard_error == pytest.approx(np.std(errors, ddof=1) / 2)
    gaps = np.subtract(supervised, average)  # paired by what was held out
    assert candidates[1].gain == pytest.approx(gaps.mean())
    assert candidates[1].gain_error == pytest.approx(np.std(gaps, ddof=1) / 2)


def test_without_anything_to_judge_the_simplest_is_taken():
    assert _choose(Told(), Told(average=GOOD, agreement=GOOD)) == ([], "supervised")
    assert _choose(Told(supervised=POOR), Told()) == ([], "supervised")
    candidates, chosen = _choose(Told(supervised=POOR), Told(grid=[0.0], average=GOOD, agreement=GOOD))
    assert ([c.name for c in candidates], chosen) == (["supervised", "average"], "average")


# ------------------------------------------------------------------ the errors behind it


def test_the_supervised_candidate_is_judged_by_a_nested_loop():
    """Leave-one-out inside ten rounds: alpha chosen on the rows kept, by RLS itself."""
    model = AutoRegressor(VIEWS, gamma=0.2).fit(X, Y)
    rounds = balanced_folds(N, 10, np.random.default_rng([0, 1]))
    errors = np.zeros(N)
    for number in range(10):
        kept, left = np.flatnonzero(rounds != number), np.flatnonzero(rounds == number)
        own = RLS(list(GRID), gamma=0.2, scoring="squared").fit(X[kept], Y[kept])
        errors[left] = (Y[left] - own.predict(X[left])) ** 2
    assert model.candidates_[0].name == "supervised"
    assert model.candidates_[0].error == pytest.approx(errors.mean(), rel=1e-6)
    assert model.candidates_[0].standard_error == pytest.approx(errors.std(ddof=1) / np.sqrt(N), rel=1e-6)


@pytest.mark.parametrize(("auto", "several"), [(AutoRegressor, CoRLS), (AutoRanker, CoRankRLS)])
def test_the_other_candidates_are_what_the_effect_of_unscored_rows_says(auto, several):
    model = auto(VIEWS).fit(X, Y, qid=QID)
    effect = several(VIEWS).fit(X, Y, qid=QID).unscored_effect_
    assert model.unscored_effect_ == effect
    assert {c.name: c.error for c in model.candidates_[1:]} == pytest.approx(
        {"average": effect.error_without, "agreement": effect.error_with}
    )


@both
def test_where_unscored_rows_stand_among_the_others_decides_nothing(auto):
    expected = auto(VIEWS).fit(X, Y, qid=QID)
    order = np.r_[np.arange(N, N + M), np.arange(N)]
    y = Y[order].copy()
    labels = np.r_[np.repeat([5, 3, 1, 0], 4), QID[:N]]  # unscored rows name scored queries first, in another order
    moved = auto(VIEWS).fit(X[order], y, qid=labels)
    for found, known in zip(moved.candidates_, expected.candidates_, strict=True):
        assert found.name == known.name
        for field in ("error", "standard_error", "gain", "gain_error"):
            assert getattr(found, field) == pytest.approx(getattr(known, field), rel=1e-5, nan_ok=True)


@both
def test_differences_are_paired_whatever_kind_of_seed_is_given(auto):
    """Two views that are the whole twice over are the supervised model, fold by fold."""
    views = [View(gamma=0.2), View(gamma=0.2)]
    for random_state in (None, 3, np.random.RandomState(3)):
        model = auto(views, gamma=0.2, random_state=random_state).fit(X[:N], Y[:N], qid=QID[:N])
        average = model.candidates_[1]
        assert average.gain == pytest.approx(0.0, abs=1e-6)
        assert average.gain_error == pytest.approx(0.0, abs=1e-6)


# ------------------------------------------------------------------ what is said of it


@both
def test_the_reason_names_the_choice_and_every_candidate(auto):
    model = auto(VIEWS).fit(X, Y, qid=QID)
    lines = model.reason_.split("\n")
    assert len(lines) == 4
    assert lines[0].startswith("Chosen: ")
    assert all(f"held-out error {c.error:.4g}" in line for c, line in zip(model.candidates_, lines[1:], strict=True))
    assert all(isinstance(c, Candidate) for c in model.candidates_)


@both
def test_without_unscored_rows_there_is_no_agreement_to_choose(auto):
    model = auto(VIEWS).fit(X[:N], Y[:N], qid=QID[:N])
    assert [c.name for c in model.candidates_] == ["supervised", "average"]
    assert model.unscored_effect_ is None


@both
@pytest.mark.parametrize("n", [1, 2])
def test_with_too_few_scores_the_simplest_model_is_taken_and_said_so(auto, n):
    y = np.where(np.arange(N + M) < n, Y, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing was tuned
        model = auto(VIEWS).fit(X, y)
    assert (model.chosen_, model.candidates_) == ("supervised", [])
    assert "too few scores" in model.reason_
    assert np.isfinite(model.predict(NEW)).all()


# ------------------------------------------------------------------ what comes in


@both
@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(QID, index=np.arange(N + M)[::-1]),
        [("user", int(q)) for q in QID],
        [f"user {q}" for q in QID],
        pd.Series([f"user {q}" for q in QID], dtype="category"),
        list(QID),
    ],
    ids=["series", "tuples", "text", "categories", "list"],
)
@pytest.mark.slow
def test_labels_and_weights_of_any_kind(auto, labels):
    weights = np.linspace(0.5, 2, N + M)
    expected = auto(VIEWS).fit(X, Y, qid=QID, sample_weight=weights)
    for own in (weights, list(weights), pd.Series(weights)):
        found = auto(VIEWS).fit(X, Y, qid=labels, sample_weight=own)
        assert found.chosen_ == expected.chosen_
        np.testing.assert_allclose(found.predict(NEW), expected.predict(NEW), rtol=1e-9)


@both
def test_frames_by_name_and_csr(auto):
    names = ["text_a", "text_b", "text_c", "image_a", "image_b", "image_c"]
    views = [View("text_*", gamma=0.2), View("image_*", gamma=0.3)]
    frame = pd.DataFrame(X, columns=names)
    expected = auto(VIEWS).fit(X, Y, qid=QID)
    found = auto(views).fit(frame, pd.Series(Y), qid=QID)
    assert list(found.feature_names_in_) == names
    np.testing.assert_allclose(found.predict(pd.DataFrame(NEW, columns=names)), expected.predict(NEW), rtol=1e-8)
    found = auto(VIEWS).fit(sparse.csr_array(X), Y, qid=QID)
    assert found.chosen_ == expected.chosen_
    np.testing.assert_allclose(found.predict(sparse.csr_array(NEW)), expected.predict(NEW), rtol=1e-6)


@both
def test_unscored_rows_apart_and_in_chunks(auto):
    expected = auto(VIEWS, basis=12).fit(X, Y, qid=QID)
    apart = auto(VIEWS, basis=12).fit(X[:N], Y[:N], qid=QID[:N], unscored=X[N:], unscored_qid=QID[N:])
    chunks = [(X[N : N + 7], QID[N : N + 7]), (X[N + 7 :], QID[N + 7 :])]
    streamed = auto(VIEWS, basis=12).fit(X[:N], Y[:N], qid=QID[:N], unscored=chunks)
    for found in (apart, streamed):
        assert found.chosen_ == expected.chosen_
        errors = [[c.error for c in model.candidates_] for model in (found, expected)]
        np.testing.assert_allclose(*errors, rtol=1e-6)


@both
def test_what_cannot_be_is_refused(auto):
    with pytest.raises(ValueError, match="y has no scored row"):
        auto(VIEWS).fit(X, np.full(N + M, np.nan))
    with pytest.raises(ValueError, match="y is None"):
        auto(VIEWS).fit(X, None)
    with pytest.raises(ValueError, match="y should be a 1d array"):
        auto(VIEWS).fit(X, np.stack([Y, Y], axis=1))
    with pytest.raises(ValueError, match="scoring 'best' is not known"):
        auto(VIEWS, scoring="best").fit(X, Y)
    with pytest.raises(ValueError, match="qid has 3 labels"):
        auto(VIEWS).fit(X, Y, qid=[1, 2, 3])
    with pytest.raises(NotFittedError):
        auto(VIEWS).predict(X)
    with pytest.raises(NotFittedError):
        _ = auto(VIEWS).reason_


@both
def test_a_fitted_one_pickles_and_a_clone_starts_anew(auto):
    model = auto(VIEWS).fit(X, Y, qid=QID)
    copy = pickle.loads(pickle.dumps(model))
    assert (copy.chosen_, copy.reason_) == (model.chosen_, model.reason_)
    assert copy.unscored_effect_ == model.unscored_effect_
    np.testing.assert_array_equal(copy.predict(NEW), model.predict(NEW))
    fresh = clone(model)
    assert not hasattr(fresh, "chosen_")
    np.testing.assert_array_equal(fresh.fit(X, Y, qid=QID).predict(NEW), model.predict(NEW))


def test_score_is_that_of_a_ranker_or_a_regressor():
    ranker = AutoRanker(VIEWS).fit(X, Y, qid=QID)
    with pytest.warns(UserWarning, match="fitted with qid but is scored without"):
        ranker.score(X[:N], Y[:N])
    assert 0.5 < ranker.score(X[:N], Y[:N], qid=QID[:N]) <= 1
    assert AutoRegressor(VIEWS).fit(X, Y).score(X, Y) > 0.5
