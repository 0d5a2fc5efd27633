"""What to ask next, against the literal question: which row leaves least unknown, which comparison
tells most.
"""

import re
from itertools import combinations

import numpy as np
import pytest
from brute_force.gaussian_processes import most_telling_pair, unknown_after
from edited_files import round_trip
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from corank import (
    CoRankingPursuit,
    CoRankRLS,
    CoRLS,
    DifferenceGP,
    PreferenceGP,
    RankRLS,
    View,
    side_by_side,
)
from corank.solve import questions as pools

pytestmark = pytest.mark.usefixtures("one_blas_thread")

rng = np.random.default_rng(13)
X = rng.normal(size=(30, 4))
Y = np.sin(X[:, 0]) + X[:, 2] + 0.1 * rng.normal(size=30)
FIRST = np.arange(30)
SECOND = np.roll(FIRST, 1)
WINS = Y[FIRST] > Y[SECOND]
WINNERS, LOSERS = np.where(WINS, FIRST, SECOND), np.where(WINS, SECOND, FIRST)
QID = np.repeat([0, 1, 2, 3, 4], 6)
POOL = 1.5 * rng.normal(size=(11, 4))
VIEWS = [View([0, 1]), View([2, 3])]
HALF = np.where(np.arange(30) < 20, Y, np.nan)

GAUSSIAN = {
    "PreferenceGP, comparisons": lambda: PreferenceGP(9.0, 0.3).fit_comparisons(X, WINNERS, LOSERS),
    "PreferenceGP, scores": lambda: PreferenceGP(9.0, 0.3).fit(X, Y, qid=QID),
    "PreferenceGP, average": lambda: PreferenceGP(9.0, average_width=True).fit(X, Y, qid=QID),
    "PreferenceGP, some": lambda: PreferenceGP(9.0, 0.3, 8).fit_comparisons(X, WINNERS, LOSERS),
    "DifferenceGP, scores": lambda: DifferenceGP(1.0, 0.3, 0.1).fit(X, Y, qid=QID),
    "DifferenceGP, comparisons": (
        lambda: DifferenceGP(1.0, 0.3, 0.1).fit_comparisons(X, WINNERS, LOSERS)
    ),
}
SEVERAL = {
    "CoRLS": lambda: CoRLS(VIEWS, 0.3, 0.1).fit(X, HALF),
    "CoRankRLS, scores": lambda: CoRankRLS(VIEWS, 0.3, 0.1).fit(X, HALF, qid=QID),
    "CoRankRLS, comparisons": (
        lambda: CoRankRLS(VIEWS, 0.3, 0.1).fit_comparisons(X, WINNERS[:20], LOSERS[:20])
    ),
    "three views": (
        lambda: CoRankRLS([View([0]), View([1, 3]), View([2], "linear")], 0.3, 0.1).fit(
            X, HALF, qid=QID
        )
    ),
    "CoRankingPursuit": lambda: CoRankingPursuit(VIEWS, 4, 0.1).fit(X, HALF, qid=QID),
}
MODELS = {name: make() for name, make in {**GAUSSIAN, **SEVERAL}.items()}
gaussian = pytest.mark.parametrize("name", GAUSSIAN)
several = pytest.mark.parametrize("name", SEVERAL)
every = pytest.mark.parametrize("name", MODELS)
kinds = pytest.mark.parametrize("kind", ["score", "comparison"])


def questions(found):
    """As a list in which it does not matter how a pair is written."""
    return [tuple(sorted(np.atleast_1d(question).tolist())) for question in found]


# ---- the first question


@gaussian
def test_the_score_of_the_first_row_leaves_least_unknown(name):
    model = MODELS[name]
    covariance = model.predict(POOL, return_cov=True)[1]
    noise = 0.5 if isinstance(model, PreferenceGP) else 0.1 if "scores" in name else 0.05
    left = [unknown_after(covariance, row, noise) for row in range(len(POOL))]
    assert model.suggest(POOL, kind="score").tolist() == [np.argmin(left)]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if "comparisons" in name else pytest.mark.slow)
        for name in GAUSSIAN
    ],
)
def test_the_first_comparison_tells_most(name):
    model = MODELS[name]
    mean, covariance = model.predict(POOL, return_cov=True)
    noise = 1.0 if isinstance(model, PreferenceGP) else 0.2 if "scores" in name else 0.1
    bits = most_telling_pair(mean, covariance, noise)
    ((first, second),) = model.suggest(POOL, kind="comparison")
    assert bits[first, second] > max(bits.values()) - 0.01
    assert max(bits.values()) - min(bits.values()) > 0.1  # it was not the same what is asked


@several
def test_the_first_row_is_the_one_where_views_disagree_most(name):
    views = MODELS[name].predict_views(POOL)
    contested = (views - views.mean(axis=0)).var(axis=1)
    assert MODELS[name].suggest(POOL, kind="score").tolist() == [np.argmax(contested)]


@several
def test_the_first_comparison_is_the_one_where_views_disagree_most(name):
    views = MODELS[name].predict_views(POOL)
    contested = {(i, j): (views[i] - views[j]).var() for i, j in combinations(range(len(POOL)), 2)}
    assert questions(MODELS[name].suggest(POOL, kind="comparison")) == [
        max(contested, key=contested.__getitem__)
    ]


# ---- what all answers have in common


@every
@kinds
def test_no_chance_is_involved_and_nothing_is_asked_twice(name, kind):
    model = MODELS[name]
    most = 11 if kind == "score" else 55
    found = model.suggest(POOL, most, kind)
    assert found.shape == ((most,) if kind == "score" else (most, 2))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, model.suggest(POOL, most, kind))
    assert len(set(questions(found))) == most
    assert all(len(set(question)) == len(question) for question in questions(found))
    # fewer questions are the first of more
    np.testing.assert_array_equal(model.suggest(POOL, 3, kind), found[:3])


@every
@kinds
def test_the_order_of_the_pool_does_not_matter(name, kind):
    order = np.random.default_rng(0).permutation(11)
    moved = order[MODELS[name].suggest(POOL[order], 5, kind)]
    assert questions(moved) == questions(MODELS[name].suggest(POOL, 5, kind))


@every
@kinds
def test_what_is_almost_the_same_is_not_asked_in_one_batch(name, kind):
    far = 2.0 * np.array([[1, 1, 0, 0], [0, 0, 1, 1.0], [-1, 0, 0, 1], [0, -1, -1, 0]])
    pool = np.repeat(far, 4, axis=0) + 1e-4 * np.random.default_rng(1).normal(size=(16, 4))
    # noisy answers are worth asking for again, but later
    count = 2 if name in GAUSSIAN and kind == "comparison" else 3
    found = MODELS[name].suggest(pool, count, kind) // 4
    assert len(set(questions(found))) == count  # other corners each time
    if kind == "comparison":
        assert np.all(found[:, 0] != found[:, 1])


@every
def test_without_a_kind_it_asks_for_what_it_was_fitted_on(name, tmp_path):
    shape = (2, 2) if "comparisons" in name or name == "PreferenceGP, some" else (2,)
    assert MODELS[name].suggest(POOL, 2).shape == shape
    loaded = round_trip(MODELS[name], tmp_path / "model.corank")
    np.testing.assert_array_equal(loaded.suggest(POOL, 2), MODELS[name].suggest(POOL, 2))


@every
@kinds
def test_of_a_large_pool_the_most_uncertain_rows_are_looked_at(name, kind, monkeypatch):
    monkeypatch.setattr(pools, "MOST", 200)
    pool = np.random.default_rng(2).normal(size=(230, 4))
    pool[:5] *= 4
    found = MODELS[name].suggest(pool, 2, kind)
    assert len(set(questions(found))) == 2
    np.testing.assert_array_equal(found, MODELS[name].suggest(pool, 2, kind))
    if name in GAUSSIAN:
        std = MODELS[name].predict(pool, return_std=True)[1]
        assert np.all(std[found] >= np.sort(std)[-200])
    else:
        views = MODELS[name].predict_views(pool)
        contested = (views - views.mean(axis=0)).var(axis=1)
        assert np.all(contested[found] >= np.sort(contested)[-200])


@pytest.mark.parametrize("name", ["PreferenceGP, scores", "CoRankRLS, scores"])
@kinds
def test_a_pool_beyond_the_limit_fits_into_memory(name, kind, memory_limit):
    pool = np.random.default_rng(2).normal(size=(3000, 4))
    with memory_limit(500):
        assert len(set(questions(MODELS[name].suggest(pool, 2, kind)))) == 2


@every
def test_a_pool_of_one_row(name):
    assert MODELS[name].suggest(POOL[:1], kind="score").tolist() == [0]
    with pytest.raises(ValueError, match="X_pool has one row, and a comparison needs two"):
        MODELS[name].suggest(POOL[:1], kind="comparison")


@every
def test_a_pool_of_copies_still_has_an_answer(name):
    pool = np.repeat(POOL[:1], 4, axis=0)
    assert sorted(MODELS[name].suggest(pool, 4, "score").tolist()) == [0, 1, 2, 3]
    assert len(set(questions(MODELS[name].suggest(pool, 6, "comparison")))) == 6


@pytest.mark.parametrize(
    "name", ["PreferenceGP, scores", "DifferenceGP, comparisons", "CoRankRLS, scores"]
)
@kinds
def test_pools_of_other_libraries_are_read_too(name, kind):
    model, expected = MODELS[name], MODELS[name].suggest(POOL, 3, kind)
    np.testing.assert_array_equal(model.suggest(sparse.csr_array(POOL), 3, kind), expected)
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(model.suggest(torch.asarray(POOL), 3, kind), expected)


# ---- the loop


@pytest.mark.parametrize("learner", [PreferenceGP, DifferenceGP])
def test_asking_and_adding_the_answer_leaves_less_to_ask(learner):
    model = learner(4.0, 0.3).fit_comparisons(X, WINNERS, LOSERS)
    before = model.predict_comparison(POOL[:5], POOL[5:10])
    for _ in range(8):
        ((first, second),) = model.suggest(POOL, 1, "comparison")
        better = np.sin(POOL[first, 0]) + POOL[first, 2] > np.sin(POOL[second, 0]) + POOL[second, 2]
        pair = (first, second) if better else (second, first)
        sure = model.predict_comparison(POOL[[pair[0]]], POOL[[pair[1]]])[0]
        model.update_comparisons(POOL, [pair[0]], [pair[1]])
        assert model.predict_comparison(POOL[[pair[0]]], POOL[[pair[1]]])[0] > sure
    after = model.predict_comparison(POOL[:5], POOL[5:10])
    assert np.mean(np.abs(after - 0.5)) > np.mean(np.abs(before - 0.5))


# ---- refused


@every
@pytest.mark.parametrize("n", [0, -1, 2.5, True, "3", None, 56, np.nan])
def test_a_number_of_questions_that_cannot_be_is_refused(name, n):
    with pytest.raises(
        ValueError, match=re.escape(f"n = {n!r} must lie between 1 and 55: X_pool has 11 rows")
    ):
        MODELS[name].suggest(POOL, n, "comparison")
    if n != 56:
        with pytest.raises(ValueError, match="must lie between 1 and 11"):
            MODELS[name].suggest(POOL, n, "score")


@every
@pytest.mark.parametrize("kind", ["order", "Score", 3, ["score"]])
def test_other_kinds_are_refused(name, kind):
    with pytest.raises(ValueError, match="kind"):
        MODELS[name].suggest(POOL, 1, kind)


@every
def test_pools_that_do_not_fit_are_refused(name):
    with pytest.raises(ValueError, match="features"):
        MODELS[name].suggest(POOL[:, :2])
    with pytest.raises(ValueError, match="NaN"):
        MODELS[name].suggest(np.where(POOL > 0, POOL, np.nan))


def test_precomputed_kernels_are_refused():
    K = rbf_kernel(X)
    for learner in (PreferenceGP, DifferenceGP):
        with pytest.raises(ValueError, match="precomputed"):
            learner(1.0, kernel="precomputed").fit_comparisons(K, WINNERS, LOSERS).suggest(K)
    both, views = side_by_side([K, K], kernel="precomputed")
    model = CoRLS(views, 0.3, 0.1).fit(both, HALF)
    with pytest.raises(ValueError, match="precomputed"):
        model.suggest(both)


def test_one_view_cannot_disagree():
    with pytest.raises(ValueError, match="at least two views"):
        CoRankRLS(1, 0.3, 0.0).fit(X, HALF, qid=QID).suggest(POOL)


@pytest.mark.parametrize("learner", [CoRLS, CoRankRLS, CoRankingPursuit])
def test_what_is_not_fitted_says_so(learner):
    with pytest.raises(NotFittedError):
        learner().suggest(POOL)


def test_a_gaussian_process_asks_for_rankrls():
    ranker = RankRLS(0.3, gamma=0.4).fit(X, Y, qid=QID)
    amplitude = 2.0
    process = DifferenceGP(amplitude, ranker.gamma_, amplitude * ranker.alpha_)
    process.fit(X, Y, qid=QID)
    np.testing.assert_allclose(process.predict(POOL), ranker.predict(POOL), atol=1e-10)
    assert process.suggest(POOL, n=3).shape == (3,)
