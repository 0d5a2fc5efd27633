"""AutoRanker and AutoRegressor: what they promise."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

import corank
from corank import AutoRanker, AutoRegressor, Candidate, TableEncoder, View
from corank.datasets import make_ranking, make_two_views
from corank.learners.average.auto import LiveFit
from corank.metrics import disagreement_error

pytestmark = pytest.mark.usefixtures("one_blas_thread")

rng = np.random.default_rng(11)
X = rng.standard_normal((90, 4))
TRUTH = X[:, 0] + np.sin(2 * X[:, 1])
Y = TRUTH + 0.1 * rng.standard_normal(90)
Y[40:] = np.nan
QID = np.repeat(np.arange(18), 5)
SCORED, NEW = slice(0, 40), slice(40, None)
SPREAD = np.nanstd(Y)


def test_regression_predicts_new_rows_and_states_its_error():
    model = AutoRegressor().fit(X, Y)
    error = np.mean((model.predict(X[NEW]) - TRUTH[NEW]) ** 2)
    assert error < 0.25 * TRUTH.var()
    assert 0.3 * error < model.held_out_error_ < 3 * error
    assert model.score(X[NEW], TRUTH[NEW]) > 0.7


def test_ranking_orders_new_queries_with_and_without_their_labels():
    data = make_ranking(n_queries=24, query_size=8, random_state=0)
    train, test = data.qid < 12, data.qid >= 12
    model = AutoRanker().fit(data.X[train], data.y[train], qid=data.qid[train])
    for labels in (data.qid[test], None):
        predictions = model.predict(data.X[test], qid=labels)
        assert disagreement_error(data.y[test], predictions, qid=data.qid[test]) < 0.25
    error = disagreement_error(
        data.y[test], model.predict(data.X[test], qid=data.qid[test]), qid=data.qid[test]
    )
    assert model.score(data.X[test], data.y[test], qid=data.qid[test]) == pytest.approx(1 - error)
    assert 0 < model.held_out_error_ < 0.3
    assert any(
        line.candidate.encoding == "normal scores within queries" for line in model.candidates_
    )
    with_labels, without = (
        model.predict(data.X[test], qid=labels) for labels in (data.qid[test], None)
    )
    assert not np.allclose(with_labels, without)


def test_weights_without_queries_are_those_of_a_list_without_encodings_within_them():
    data = make_ranking(n_queries=10, query_size=6, random_state=1)
    everything = [
        Candidate(),
        Candidate("normal scores", "laplacian"),
        Candidate("normal scores within queries", "linear"),
    ]
    both = AutoRanker(candidates=everything).fit(data.X, data.y, qid=data.qid)
    fewer = AutoRanker(candidates=everything[:2]).fit(data.X, data.y, qid=data.qid)
    np.testing.assert_allclose(both.predict(data.X), fewer.predict(data.X), atol=1e-8)


@pytest.mark.parametrize("learner", [AutoRegressor, AutoRanker])
def test_candidates_and_reason_say_what_was_done(learner):
    model = learner().fit(X, Y, qid=QID)
    weights = [line.weight for line in model.candidates_]
    assert sum(weights) == pytest.approx(1)
    assert weights == sorted(weights, reverse=True)
    assert len(model.reason_.splitlines()) <= 6
    assert model.candidates_[0].what in model.reason_
    assert "average" in str(model.summary())
    assert f"{40:,} scored" in str(model.summary())


# ---- what must not change anything


@pytest.mark.parametrize("learner", [AutoRegressor, AutoRanker])
def test_order_of_rows_names_of_queries_and_level_of_scores_do_not_matter(learner):
    plain = learner().fit(X, Y, qid=QID).predict(X, qid=QID)
    order = rng.permutation(len(X))
    permuted = learner().fit(X[order], Y[order], qid=QID[order]).predict(X, qid=QID)
    renamed = (
        learner().fit(X, Y, qid=[f"query {100 - number}" for number in QID]).predict(X, qid=QID)
    )
    raised = learner().fit(X, Y + 1000.0, qid=QID).predict(X, qid=QID) - 1000.0
    for predictions in (permuted, renamed, raised):
        np.testing.assert_allclose(predictions, plain, atol=1e-8 * SPREAD)


def test_weights_of_zero_leave_rows_out():
    weights = np.ones(90)
    weights[:10] = 0
    hidden = Y.copy()
    hidden[:10] = np.nan
    first = AutoRegressor().fit(X, Y, sample_weight=weights)
    second = AutoRegressor().fit(X, hidden)
    np.testing.assert_allclose(first.predict(X), second.predict(X), atol=1e-8)


def test_unscored_rows_may_come_apart():
    together = AutoRegressor().fit(X, Y)
    apart = AutoRegressor().fit(X[SCORED], Y[SCORED], unscored=X[NEW])
    np.testing.assert_allclose(apart.predict(X), together.predict(X), atol=1e-10)


# ---- uncertainty


def test_intervals_hold_new_scores():
    scores = X @ [1.0, -1.0, 0.5, 0.0] + 0.5 * rng.standard_normal(90)
    known = np.where(np.arange(90) < 40, scores, np.nan)
    mean, std = AutoRegressor().fit(X, known).predict(X[NEW], return_std=True)
    assert 0.85 <= np.mean(np.abs(scores[NEW] - mean) < 1.96 * std) <= 1
    assert np.all((std > 0.2) & (std < 2.0))


def test_comparisons_are_predicted_with_probabilities():
    model = AutoRegressor().fit(X, Y)
    chances = model.predict_comparison(X[40:60], X[60:80])
    np.testing.assert_allclose(model.predict_comparison(X[60:80], X[40:60]), 1 - chances, atol=1e-9)
    above = TRUTH[40:60] > TRUTH[60:80]
    assert np.mean((chances > 0.5) == above) > 0.8
    noisy = model.predict_comparison(X[40:60], X[60:80], observed=True)
    assert np.all(np.abs(noisy - 0.5) <= np.abs(chances - 0.5) + 1e-12)


@pytest.mark.parametrize("kind", ["score", "comparison"])
def test_questions_differ_from_each_other(kind):
    questions = AutoRanker().fit(X, Y).suggest(X[NEW], 4, kind)
    assert len({tuple(np.atleast_1d(question)) for question in questions}) == 4
    with pytest.raises(ValueError, match="X_pool"):
        AutoRanker().fit(X, Y).suggest(X[NEW], 51, "score")


# ---- comparisons, views, unscored rows


def test_learning_from_comparisons():
    pairs = rng.integers(0, 90, (120, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    wins = TRUTH[pairs[:, 0]] > TRUTH[pairs[:, 1]]
    winners, losers = np.where(wins, pairs.T, pairs.T[::-1])
    model = AutoRanker().fit_comparisons(X, winners, losers)
    assert disagreement_error(TRUTH, model.predict(X)) < 0.2
    assert model.held_out_error_ < 0.4
    assert model.unscored_effect_ is None
    with pytest.raises(ValueError, match="comparisons"):
        model.update(X, Y)


def test_agreement_of_declared_views_helps_and_is_said_to():
    data = make_two_views(n_scored=40, n_unscored=300, n_private=30, random_state=0)
    views = [
        View(columns, kernel="linear", name=name)
        for columns, name in zip(data.views, "ab", strict=True)
    ]
    model = AutoRegressor(views, fit_intercept=False).fit(data.X, data.y)
    scored = ~np.isnan(data.y)
    alone = AutoRegressor(views, fit_intercept=False).fit(data.X[scored], data.y[scored])
    errors = [
        np.mean((fitted.predict(data.X_test) - data.y_test) ** 2) for fitted in (model, alone)
    ]
    assert errors[0] < 0.5 * errors[1]
    assert model.unscored_effect_.verdict == "helped"
    assert "agree" in model.reason_
    assert alone.unscored_effect_ is None


def test_views_whose_kernel_has_no_place_are_refused():
    with pytest.raises(ValueError, match="poly"):
        AutoRegressor([View([0, 1], kernel="poly"), View([2, 3])]).fit(X, Y)


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([], "list of Candidate"),
        ([Candidate(encoding="squared")], "squared"),
        ([Candidate(kernel="sigmoid")], "sigmoid"),
        ([Candidate(width=0)], "width"),
        ([Candidate(views="sum")], "views"),
        ([Candidate("standardised", "cosine", second_order=True, relevance=True)], "second_order"),
    ],
)
def test_candidates_that_cannot_be_built_are_refused(candidates, message):
    with pytest.raises(ValueError, match=message):
        AutoRegressor(candidates=candidates).fit(X, Y)


def test_csr_frames_and_32_bits():
    dense = np.where(rng.random((60, 30)) < 0.2, 1.0, 0.0)
    scores = dense[:, :5].sum(axis=1)
    model = AutoRegressor().fit(sparse.csr_array(dense), scores)
    assert model.score(sparse.csr_array(dense), scores) > 0.8
    frame = pd.DataFrame(X, columns=list("abcd"))
    np.testing.assert_allclose(
        AutoRegressor().fit(frame, Y).predict(frame), AutoRegressor().fit(X, Y).predict(X)
    )
    assert (
        AutoRegressor().fit(X.astype(np.float32), Y).predict(X.astype(np.float32)).dtype
        == np.float32
    )


def test_tensors_come_back_as_tensors():
    torch = pytest.importorskip("torch")
    rows = torch.as_tensor(X)
    mean, std = AutoRanker().fit(rows, torch.as_tensor(Y)).predict(rows, return_std=True)
    assert isinstance(mean, torch.Tensor)
    np.testing.assert_allclose(mean.numpy(), AutoRanker().fit(X, Y).predict(X), atol=1e-10)
    assert std.dtype == rows.dtype


# ---- files and updates


@pytest.mark.parametrize("queries", [QID, None], ids=["queries", "one query"])
@pytest.mark.parametrize("learner", [AutoRegressor, AutoRanker])
def test_a_file_holds_all_of_it(learner, queries, tmp_path):
    views = [View([0, 1], name="left"), View([2, 3], name="right")]
    model = learner(views).fit(X, Y, qid=queries)
    model.save(tmp_path / "model.corank")
    loaded = corank.load(tmp_path / "model.corank")
    assert type(loaded) is learner
    for labels in (queries, None):
        for first, second in zip(
            model.predict(X, qid=labels, return_std=True),
            loaded.predict(X, qid=labels, return_std=True),
            strict=True,
        ):
            np.testing.assert_array_equal(first, second)
    assert loaded.reason_ == model.reason_
    assert loaded.candidates_ == model.candidates_
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    more = learner.update(loaded, X[NEW], TRUTH[NEW], qid=None if queries is None else queries[NEW])
    assert more._n_scored == 90


def test_comparisons_in_a_file(tmp_path):
    model = AutoRanker().fit_comparisons(X, np.arange(20), np.arange(20, 40))
    model.save(tmp_path / "model.corank")
    np.testing.assert_array_equal(
        corank.load(tmp_path / "model.corank").predict(X), model.predict(X)
    )


def test_an_update_is_a_fit_on_both_with_the_encodings_of_the_first():
    updated = AutoRegressor(candidates=[Candidate(width=2.0)]).fit(
        X[:40], TRUTH[:40], unscored=X[40:]
    )
    updated.update(X[40:60], TRUTH[40:60])
    at_once = AutoRegressor(candidates=[Candidate(width=2.0)]).fit(
        X[:60], TRUTH[:60], unscored=X[60:]
    )
    np.testing.assert_allclose(updated.predict(X), at_once.predict(X), atol=1e-8)
    assert updated.held_out_error_ == pytest.approx(at_once.held_out_error_)
    with pytest.raises(ValueError, match="NaN"):
        updated.update(X[:5], np.full(5, np.nan))
    ranker = AutoRanker().fit(X, Y, qid=QID)
    with pytest.raises(ValueError, match="qid"):
        ranker.update(X, Y)


def test_an_update_counts_what_it_adds_and_says_what_is_alone_in_its_query():
    ranker = AutoRanker(candidates=[Candidate()]).fit(
        X[:40], TRUTH[:40], qid=np.repeat(range(4), 10)
    )
    ranker.update(X[40:46], np.append(TRUTH[40:44], [np.nan, np.nan]), qid=["a"] * 4 + ["b"] * 2)
    assert ranker.counts() == {"rows": 44, "scored": 44, "queries": 5}
    with pytest.warns(UserWarning, match=r"2 new rows of 2 alone in a query.*fit again"):
        ranker.update(X[46:48], TRUTH[46:48], qid=[0, 1])


def test_an_error_says_what_it_is_an_error_of():
    queries = np.repeat(range(4), 10)
    rows, scores = X[:40], TRUTH[:40] + 0.1 * np.sin(9 * np.arange(40))
    regressor = AutoRegressor(candidates=[Candidate()])
    root = f"{np.sqrt(regressor.fit(rows, scores).held_out_error_):.3g}"
    assert f"held-out error is {root}" in regressor.reason_
    assert "root mean squared error on new rows" in regressor.reason_
    assert (
        "squared error on rows of new queries" in regressor.fit(rows, scores, qid=queries).reason_
    )
    grouped = regressor._unit_errors(regressor._average)
    assert len(grouped) == 4
    assert grouped.mean() == pytest.approx(regressor.held_out_error_)
    ranker = AutoRanker(candidates=[Candidate()])
    assert "misordered pairs of new rows" in ranker.fit(rows, scores).reason_
    assert "misordered pairs in new queries" in ranker.fit(rows, scores, qid=queries).reason_
    assert (
        "comparisons in the wrong order"
        in ranker.fit_comparisons(rows, np.arange(20), np.arange(20, 40)).reason_
    )


# ---- bad input


BAD = {
    "one scored row": (X[:1], np.array([2.0])),
    "two scored rows": (X[:2], np.array([1.0, 3.0])),
    "all ties": (X[:30], np.full(30, 4.0)),
    "constant columns": (np.ones((30, 3)), Y[:30]),
    "one constant column": (np.column_stack([X[:30], np.ones(30)]), Y[:30]),
    "collinear columns": (np.hstack([X[:30], X[:30] @ rng.standard_normal((4, 40))]), Y[:30]),
    "duplicate rows": (np.repeat(X[:6], 5, axis=0), Y[:30]),
    "an outlier": (np.where(np.arange(120).reshape(30, 4) == 9, 1e12, X[:30]), Y[:30]),
    "tiny numbers": (1e-50 * X[:30], Y[:30]),
    "many columns": (rng.standard_normal((20, 3_000)), Y[:20]),
}


@pytest.mark.filterwarnings("ignore:y. all scores are tied:UserWarning")
@pytest.mark.parametrize("learner", [AutoRegressor, AutoRanker])
@pytest.mark.parametrize("name", BAD)
def test_bad_input_gives_a_model_whose_predictions_stay_near_the_scores(learner, name):
    rows, scores = BAD[name]
    model = learner().fit(rows, scores)
    far = np.vstack([rows, -5 * rows, 1e6 * rows])
    mean, std = model.predict(far, return_std=True)
    reach = 2 * scores.std() + 1e-9
    assert np.all((mean >= scores.min() - reach) & (mean <= scores.max() + reach))
    assert np.isfinite(std).all()
    assert model.reason_
    assert "average" in str(model.summary())


@pytest.mark.parametrize("learner", [AutoRegressor, AutoRanker])
def test_what_cannot_be_learned_from_is_refused_in_words(learner):
    with pytest.raises(ValueError, match="every score is NaN"):
        learner().fit(X, np.full(90, np.nan))
    with pytest.raises(ValueError, match="all of them have weight zero"):
        learner().fit(X, Y, sample_weight=np.zeros(90))
    with pytest.raises(ValueError, match="unscored_qid"):
        learner().fit(X, Y, unscored_qid=QID)
    with pytest.raises(ValueError, match="X_b"):
        learner().fit(X, Y).predict_comparison(X[:3], X[:4])


@pytest.mark.parametrize("learner", [AutoRegressor, AutoRanker])
@pytest.mark.parametrize("kind", ["scan", "dask"])
def test_scans_and_dask_collections_are_refused_in_words(learner, kind):
    rows = type("Scan", (), {"is_scan": True})()
    if kind == "dask":
        rows = pytest.importorskip("dask.array").from_array(X, chunks=30)
    for attempt in (
        lambda: learner().fit(X, Y, unscored=rows),
        lambda: learner(candidates=[Candidate()]).fit(X, Y).update(rows, Y),
        lambda: learner(candidates=[Candidate()]).fit(X, Y).suggest(rows),
    ):
        with pytest.raises(TypeError, match=f"{learner.__name__} needs its rows in memory"):
            attempt()


def test_parameters_are_cloned():
    model = AutoRegressor([View([0, 1]), View([2, 3])], [Candidate()], False, 3)
    assert clone(model).get_params()["random_state"] == 3
    assert AutoRanker().get_params() == {
        "views": None,
        "candidates": None,
        "random_state": None,
        "encoder": None,
    }


@pytest.mark.parametrize("seed", range(4))
def test_standard_deviations_go_with_the_held_out_error(seed):
    """Scores that are rounded, few columns that matter: alphas of very different size share the
    weight.
    """
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((120, 4))
    scores = np.clip(
        np.round(3 + rows[:, 0] - 0.5 * rows[:, 1] + 0.5 * rng.standard_normal(120)), 1, 5
    )
    model = AutoRegressor().fit(rows[:40], scores[:40])
    deviations = model.predict(rows[40:], return_std=True)[1]
    assert 0.5 < deviations.mean() / np.sqrt(model.held_out_error_) < 2


def test_two_queries_are_too_few_to_tell_what_unscored_rows_did():
    data = make_ranking(n_queries=6, query_size=6, random_state=0)
    model = AutoRanker().fit(data.X, np.where(data.qid < 2, data.y, np.nan), qid=data.qid)
    assert model.unscored_effect_ is None


def test_scores_that_are_all_foretold_still_leave_some_doubt():
    rows = np.r_[np.linspace(-2, -1, 10), np.linspace(1, 2, 10)][:, None]
    model = AutoRegressor().fit(rows, np.sign(rows[:, 0]))
    deviations = model.predict(rows, return_std=True)[1]
    assert deviations.min() > 0.01  # of scores that are 1 and -1


@pytest.mark.slow
def test_a_hundred_thousand_columns_are_no_problem():
    rows = rng.standard_normal((20, 100_000))
    predictions = AutoRegressor().fit(rows, Y[:20]).predict(rows)
    assert np.abs(predictions).max() < np.abs(Y[:20]).max() + 2 * np.std(Y[:20])


def test_live_fits_predict_as_fits_do_and_encode_once(monkeypatch):
    table = pd.DataFrame(X, columns=list("abcd")).assign(
        name=[f"item {row}" for row in range(len(X))]
    )
    learners = [
        AutoRanker(encoder=TableEncoder(identity=["name"])),
        AutoRegressor(encoder=TableEncoder()),
    ]
    for learner, columns in zip(learners, [["name", *"abcd"], list("abcd")], strict=True):
        matrix = learner.encoder.fit_transform(table[columns])
        fits = LiveFit(learner, matrix)
        for n in (12, 20):
            if isinstance(learner, AutoRanker):
                margins = None if n == 12 else np.arange(n) % 5
                pairs = np.arange(n), np.arange(n, 2 * n)
                expected = AutoRanker(encoder=learner.encoder).fit_comparisons(
                    matrix, *pairs, margins=margins
                )
                model = fits.to_comparisons(*pairs, margins)
                assert np.isnan(model.held_out_error_)
            else:
                scores = np.where(np.arange(len(Y)) < n, Y, np.nan)
                expected = AutoRegressor(encoder=learner.encoder).fit(matrix, scores)
                model = fits.to_scores(scores)
                assert model.held_out_error_ == expected.held_out_error_
            np.testing.assert_array_equal(fits.predict(model), expected.predict(matrix))
            np.testing.assert_array_equal(model.predict(table[columns]), expected.predict(matrix))
            assert model.counts() == expected.counts()
            monkeypatch.setattr(
                "corank.learners.average.scored_table.fit_encoding", None
            )  # it was called for the first fit alone
            model = (
                fits.to_scores(scores)
                if isinstance(learner, AutoRegressor)
                else fits.to_comparisons(*pairs, None)
            )
            monkeypatch.undo()
            assert model.candidates_


def test_without_unscored_rows_means_that_they_do_not_encode_the_table_either(tmp_path):
    words = ["oak", "steel", "glass", "bamboo", "leather", "cotton"]
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, 3)) + f" number {number}" for number in range(80)]
    sizes = rng.normal(size=80)
    table = pd.DataFrame({"text": texts, "size": sizes})
    # no two are tied: folds of tied scores follow from the encoded columns
    oaks = np.asarray([text.count("oak") for text in texts]) + sizes / 100
    scores = np.where(np.arange(80) < 24, oaks, np.nan)
    model = AutoRegressor().fit(table, scores)
    alone = AutoRegressor().fit(table[:24], scores[:24])
    assert model.unscored_effect_.error_without == pytest.approx(alone.held_out_error_, rel=1e-9)
    AutoRegressor().fit(table, scores).save(tmp_path / "unasked.corank")
    assert corank.load(tmp_path / "unasked.corank").unscored_effect_ is None


@pytest.mark.parametrize("learner", [AutoRegressor(), AutoRanker()])
def test_scored_rows_of_a_table_that_are_all_alike_are_no_reason_to_fail(learner):
    table = pd.DataFrame(
        {
            "kind": ["a"] * 12 + ["b", "c"] * 14,
            "text": ["one text"] * 12 + ["quite another text"] * 28,
        }
    )
    scores = np.where(np.arange(40) < 12, np.arange(40) % 5, np.nan)
    assert learner.fit(table, scores).unscored_effect_ is None
