"""Why an average puts one item above another: parts sum to the difference, candidate by candidate."""

import math

import numpy as np
import pandas as pd
import pytest
from edited_files import round_trip
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from corank import AutoRanker, AutoRegressor, Candidate, TableEncoder, View
from corank.datasets import make_ranking
from corank.learners import pair_explanation
from corank.learners.average import fitting
from corank.learners.pair_explanation import LIMITED, OTHERWISE, UNSCORED

pytestmark = pytest.mark.usefixtures("one_blas_thread")

TOLERANCE = 1e-9  # of the spread of predictions
rng = np.random.default_rng(17)
N = 60
X = rng.standard_normal((N, 5))
TRUTH = X[:, 0] + np.sin(2 * X[:, 1]) - 0.5 * X[:, 3]
Y = np.where(np.arange(N) < 24, TRUTH, np.nan)
VIEWS = [View([0, 1], name="size"), View([2, 3, 4], name="taste")]
NAMES = [f"item {row}" for row in range(N)]
PAIRS = rng.permutation(N)[:40].reshape(20, 2)
WINNERS = np.where(TRUTH[PAIRS[:, 0]] > TRUTH[PAIRS[:, 1]], PAIRS[:, 0], PAIRS[:, 1])
LOSERS = PAIRS.sum(axis=1) - WINNERS
EDGES = np.array(
    [(i, j) for i in range(N) for j in range(i) if (i - j) % 3 == 0 and rng.random() < 0.1]
)
LINKS = sparse.csr_array((np.ones(len(EDGES)), EDGES.T), shape=(N, N))


def check_sums(explanation, difference, spread):
    lists = [explanation.by_item, explanation.by_view, explanation.by_column]
    for parts in [*lists, explanation.by_answer] if explanation.by_answer else lists:
        assert abs(math.fsum(part.value for part in parts) - difference) <= TOLERANCE * spread
        assert OTHERWISE not in [part.name for part in parts]


def by_name(parts):
    return {part.name: part.value for part in parts}


CANDIDATES = {
    "linear": Candidate(kernel="linear"),
    "cosine": Candidate(kernel="cosine"),
    "exponential": Candidate(kernel="exponential"),
    "laplacian of ranks": Candidate("normal scores", "laplacian", 2.0),
    "as given": Candidate("as given"),
    "relevance": Candidate(relevance=True),
    "one view": Candidate(views="one", of=(1,)),
    "sum of views": Candidate(views="sum"),
    "product of views": Candidate(views="product"),
    "agreement": Candidate(views="agreement", strength=10.0),
    "agreement of linear views": Candidate(kernel="linear", views="agreement", strength=10.0),
    "second order": Candidate(second_order=True),
    "second order of views": Candidate(second_order=True, views="sum"),
}


@pytest.mark.parametrize("name", CANDIDATES)
def test_parts_of_every_kind_of_candidate_sum_to_the_difference(name):
    model = AutoRegressor(VIEWS, [CANDIDATES[name]]).fit(X, Y)
    predictions = model.predict(X)
    assert np.ptp(predictions) > 0
    explanation = model.explain_pair(X[30], X[41])
    check_sums(explanation, predictions[30] - predictions[41], np.ptp(predictions))
    assert explanation.columns_by == (
        "sum" if CANDIDATES[name].kernel == "linear" else "all orders"
    )
    unscored = "agreement" in name or "second order" in name
    assert (UNSCORED in by_name(explanation.by_item)) == unscored


@pytest.mark.parametrize("learner", [AutoRegressor, AutoRanker])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_an_average_is_explained_as_the_weighted_sum_of_its_candidates(learner, convert, tmp_path):
    rows = convert(np.where(np.abs(X) > 0.3, X, 0.0))
    model = learner(VIEWS).fit(rows, Y)
    predictions = model.predict(rows)
    explanation = model.explain_pair(rows[[30]], rows[[41]])
    check_sums(explanation, predictions[30] - predictions[41], np.ptp(predictions))
    loaded = round_trip(model, tmp_path / "model.corank").explain_pair(rows[[30]], rows[[41]])
    assert by_name(loaded.by_view) == pytest.approx(by_name(explanation.by_view))


def test_parts_of_scores_are_their_weights_times_their_distance_from_the_mean():
    *columns, noise = np.random.default_rng(3).standard_normal((4, 400))
    rows, scores = np.stack(columns, axis=1), np.sin(columns[0]) + columns[1] + 0.3 * noise
    model = AutoRegressor(candidates=[Candidate("as given", "rbf")]).fit(rows, scores)
    (fitted,) = model._model.candidates  # of 400 rows it has one alpha
    gamma = fitted.similarities[0].gamma
    centring = np.eye(400) - 1 / 400
    system = centring @ rbf_kernel(rows, gamma=gamma) @ centring + fitted.alpha * np.eye(400)
    kernel = rbf_kernel(rows[:2] + 0.5, rows, gamma=gamma)
    weights = np.linalg.solve(system, centring @ (kernel[0] - kernel[1]))
    expected = fitted.multipliers[-1] * weights * (scores - scores.mean())
    explanation = model.explain_pair(rows[0] + 0.5, rows[1] + 0.5, items=rows)
    check_sums(explanation, explanation.difference, np.ptp(scores))
    parts = by_name(explanation.by_answer)
    assert parts == pytest.approx(
        {f"row {row}": part for row, part in enumerate(expected)}, abs=1e-6
    )


def test_columns_share_what_candidates_make_of_them(monkeypatch):
    """Shapley values are linear in the function: those of an average are the weighted ones of its
    candidates.
    """
    model = AutoRegressor(candidates=[Candidate(), Candidate(kernel="linear")]).fit(X, Y)

    def value(masks):
        return model.predict(np.where(masks, X[30], X[41]))

    expected = pair_explanation.shapley_values(value, 5)[0]
    exact = by_name(model.explain_pair(X[30], X[41]).by_column)
    assert exact == pytest.approx({f"column {at}": v for at, v in enumerate(expected)})
    monkeypatch.setattr(pair_explanation, "MAX_ENUMERATED", 0)
    sampled = model.explain_pair(X[30], X[41])
    assert not sampled.columns_exact
    assert by_name(sampled.by_column) == pytest.approx(exact, abs=0.02 * np.ptp(TRUTH))


def test_a_linear_candidate_is_a_sum_over_columns():
    model = AutoRegressor(candidates=[Candidate(kernel="linear")]).fit(X, Y)
    steps = [model.predict(np.vstack([X[41] + np.eye(5)[at] * 0.1, X[41]])) for at in range(5)]
    slopes = np.asarray([np.subtract(*step) / 0.1 for step in steps])
    parts = by_name(model.explain_pair(X[30], X[41]).by_column)
    assert parts == pytest.approx(
        {f"column {at}": v for at, v in enumerate(slopes * (X[30] - X[41]))}
    )


def test_views_that_are_added_have_their_own_parts():
    model = AutoRegressor(VIEWS, [Candidate(views="sum")]).fit(X, Y)
    other = np.where(np.arange(5) < 2, X[41], X[30])  # differs in one view only
    explanation = model.explain_pair(X[30], other)
    assert by_name(explanation.by_view) == pytest.approx({"size": explanation.difference})


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_prediction_that_is_cut_off_has_a_part_that_says_so(kernel):
    model = AutoRegressor(candidates=[Candidate("as given", kernel, 8.0)]).fit(X, 100 * Y)
    far = X[:2] * [[8.0], [1.0]]
    predictions = model.predict(far)
    explanation = model.explain_pair(far[0], far[1])
    check_sums(explanation, predictions[0] - predictions[1], np.ptp(100 * TRUTH))
    if kernel == "linear":
        assert by_name(explanation.by_item)[LIMITED] == pytest.approx(
            by_name(explanation.by_view)[LIMITED]
        )
        assert LIMITED in by_name(explanation.by_column)


def test_comparisons_are_explained_by_compared_items():
    model = AutoRanker().fit_comparisons(X, WINNERS, LOSERS)
    predictions = model.predict(X)
    explanation = model.explain_pair(0, 1, items=X, names=NAMES)
    check_sums(explanation, predictions[0] - predictions[1], np.ptp(predictions))
    compared = {f"item {row}" for row in PAIRS.ravel()}
    assert {part.name for part in explanation.by_item} <= compared
    assert explanation.items_are == "compared item"
    over = {
        f"item {winner} over item {loser}" for winner, loser in zip(WINNERS, LOSERS, strict=True)
    }
    assert {part.name for part in explanation.by_answer} == over
    assert "By comparison" in explanation.tables()
    unnamed = model.explain_pair(X[0], X[1])
    assert all(part.name.startswith("compared item ") for part in unnamed.by_item)
    assert sorted(part.value for part in unnamed.by_item) == sorted(
        part.value for part in explanation.by_item
    )


def test_scored_items_are_found_among_others():
    model = AutoRegressor(candidates=[Candidate()]).fit(X, Y)
    parts = model.explain_pair(30, 41, items=X, names=NAMES).by_item
    assert {part.name for part in parts} == set(NAMES[:24])
    assert all(part.name == f"item {part.row}" for part in parts)
    assert {
        part.name for part in model.explain_pair(30, 41, items=X, names=NAMES).by_answer
    } == set(NAMES[:24])
    near = model.explain_pair(X[5] + 0.01, X[41], items=X, names=NAMES)
    assert near.alike[0][0] == "item 5"


def test_queries_and_links_of_the_items_count():
    data = make_ranking(n_queries=12, query_size=8, random_state=0)
    ranker = AutoRanker().fit(data.X, data.y, qid=data.qid)
    regressor = AutoRegressor(
        candidates=[
            Candidate(hops=2),
            Candidate(kernel="linear", hops=3, beside=True),
            Candidate("normal scores"),
        ]
    ).fit(X, Y, links=LINKS)
    for model, rows, context in (
        (ranker, data.X, {"qid": data.qid}),
        (regressor, X, {"links": LINKS}),
    ):
        predictions = model.predict(rows, **context)
        explanation = model.explain_pair(3, 5, items=rows, **context)
        check_sums(explanation, predictions[3] - predictions[5], np.ptp(predictions))
        without = model.predict(rows)
        assert not np.isclose(predictions[3] - predictions[5], without[3] - without[5])
        check_sums(
            model.explain_pair(rows[3], rows[5]), without[3] - without[5], np.ptp(predictions)
        )
        with pytest.raises(ValueError, match=next(iter(context))):
            model.explain_pair(rows[3], rows[5], **context)
    assert "all columns over links" in by_name(explanation.by_view)


def test_a_table_of_texts_is_explained_by_its_columns():
    words = np.asarray(["sweet", "sour", "salty", "bitter", "hot", "cold", "soft", "crisp"])
    texts = [" ".join(rng.choice(words, 5)) for _ in range(N)]
    table = pd.DataFrame(
        {"text": texts, "price": X[:, 0], "colour": np.where(X[:, 1] > 0, "red", "blue")},
        index=NAMES,
    )
    model = AutoRegressor().fit(table, Y)
    predictions = model.predict(table)
    explanation = model.explain_pair(table.iloc[[30]], table.iloc[[41]])
    check_sums(explanation, predictions[30] - predictions[41], np.ptp(predictions))
    assert {part.name for part in explanation.by_column} <= {"text", "price", "colour"}
    assert (explanation.first, explanation.second) == ("item 30", "item 41")
    assert {part.name for part in model.explain_pair(0, 1, items=table).by_item} <= {
        *NAMES[:24],
        UNSCORED,
    }


@pytest.mark.parametrize("columns", [[], ["price", "size"]])
def test_an_effect_per_item_is_a_part_of_its_own(columns):
    table = pd.DataFrame({"name": NAMES, "price": X[:, 0].round(1), "size": X[:, 2]})[
        ["name", *columns]
    ]
    model = AutoRanker(encoder=TableEncoder(identity=["name"])).fit_comparisons(
        table, WINNERS, LOSERS
    )
    predictions = model.predict(table)
    winner, loser = int(WINNERS[0]), int(LOSERS[0])
    explanation = model.explain_pair(winner, loser, items=table, names=NAMES)
    check_sums(explanation, predictions[winner] - predictions[loser], np.ptp(predictions))
    assert (explanation.first, explanation.second) == (NAMES[winner], NAMES[loser])
    own = by_name(explanation.by_column)["name"]
    assert by_name(explanation.by_view)["the item itself"] == pytest.approx(own)
    assert {part.name for part in explanation.by_item} <= set(NAMES)
    assert by_name(explanation.by_answer)[f"{NAMES[winner]} over {NAMES[loser]}"] > 0
    if not columns:
        assert own == explanation.difference > 0
        assert explanation.columns_by == "sum"
        assert {part.name for part in explanation.by_item} == {NAMES[winner], NAMES[loser]}


def test_a_model_in_a_basis_of_some_rows_is_explained_by_them(monkeypatch):
    monkeypatch.setattr(fitting, "affordable", lambda n, n_parts=1: (2, 200))
    many = rng.standard_normal((510, 3))
    model = AutoRegressor(candidates=[Candidate()]).fit(many, np.sin(many[:, 0]))
    predictions = model.predict(many)
    explanation = model.explain_pair(7, 8, items=many)
    check_sums(explanation, predictions[7] - predictions[8], np.ptp(predictions))
    assert 0 < len(explanation.by_item) <= 200
    assert all(part.row is not None for part in explanation.by_item)


def test_a_constant_model_puts_nothing_above_anything():
    explanation = AutoRegressor().fit(X, np.ones(N)).explain_pair(X[0], X[1])
    assert (explanation.difference, explanation.by_item, explanation.by_column) == (0.0, [], [])
    assert "same prediction" in str(explanation)
