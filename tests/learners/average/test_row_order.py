"""The order of the rows does not matter: permuted rows, and renamed queries, give the same model."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from corank import AutoRanker, AutoRegressor, Candidate, TableEncoder
from corank.core.sampling import canonical_order, row_digests
from corank.learners.average import fitting
from corank.learners.average.auto import LiveFit

FEW = [
    Candidate(kernel="rbf"),
    Candidate(kernel="laplacian", width=2.0),
    Candidate("normal scores", "rbf", per_column=True),
]
WITHIN = Candidate("normal scores within queries", "rbf")
NEW = np.random.default_rng(99).standard_normal((50, 4))


def rows_and_scores(n, seed=0):
    """Rows (n, 4), of which every tenth stands there twice, and grades (n,)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    X[::10] = X[1::10]
    X[:, 3] = np.round(X[:, 3])
    return X, np.round(np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 3] + rng.standard_normal(n) / 3, 1)


def assert_alike(predictions, expected, share=1e-6):
    np.testing.assert_allclose(predictions, expected, rtol=0, atol=share * np.std(expected))


@pytest.fixture
def few_are_many(monkeypatch):
    """Sixty rows count as many, a hundred as too many to be all points of a model."""
    monkeypatch.setattr(fitting, "FEW_WEIGHED", 30)
    monkeypatch.setattr(fitting, "affordable", lambda n, n_parts=1: (4, n) if n <= 100 else (3, 50))


SIZES = [150, 500, pytest.param(3_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("n", SIZES)
def test_permuted_rows_give_the_same_regressor(n):
    X, y = rows_and_scores(n)
    y[: n // 10] = np.nan
    weights = np.random.default_rng(1).uniform(0.5, 2, n)
    order = np.random.default_rng(2).permutation(n)
    fits = [
        AutoRegressor(candidates=FEW).fit(X[rows], y[rows], sample_weight=weights[rows])
        for rows in (np.arange(n), order)
    ]
    predictions, deviations = (
        np.stack(pair)
        for pair in zip(*(model.predict(NEW, return_std=True) for model in fits), strict=True)
    )
    assert_alike(predictions[1], predictions[0])
    assert_alike(deviations[1], deviations[0])
    assert fits[0].held_out_error_ == fits[1].held_out_error_


@pytest.mark.parametrize("n", SIZES)
def test_permuted_rows_and_renamed_queries_give_the_same_ranker(n):
    X, y = rows_and_scores(n)
    queries = np.random.default_rng(1).integers(0, n // 12, n)
    names = np.random.default_rng(3).permutation(n // 12)[queries].astype(str)
    order = np.random.default_rng(2).permutation(n)
    fitted = AutoRanker(candidates=[*FEW, WITHIN]).fit(X, y, qid=queries)
    permuted = AutoRanker(candidates=[*FEW, WITHIN]).fit(X[order], y[order], qid=names[order])
    assert_alike(permuted.predict(NEW), fitted.predict(NEW))
    labels = np.arange(len(NEW)) // 10
    assert_alike(permuted.predict(NEW, qid=labels), fitted.predict(NEW, qid=labels))
    assert permuted.held_out_error_ == fitted.held_out_error_


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize("n", [50, 70, 130])
@pytest.mark.parametrize("learner", [AutoRanker, AutoRegressor])
def test_points_of_the_model_stay_as_they_are_given(learner, n):
    X, y = rows_and_scores(n)
    model = learner(candidates=FEW).fit(X, y)
    names = [item.name for item in model.explain_pair(X[3], X[4]).by_item]
    assert f"scored item {min(n - 1, 3)}" in names or n > 100
    standard = model._model.encode(X, None)["standardised"]
    np.testing.assert_array_equal(model._model.scored["standardised"], standard)
    np.testing.assert_array_equal(model._model.units.scores, y)
    assert (model._model.scored is model._model.points) == (n <= 100)
    again = learner(candidates=FEW).fit(X[::-1], y[::-1])
    for new in (model, again):
        new.update(X[:5] + 0.1, y[:5])
    np.testing.assert_array_equal(model._model.units.scores, np.append(y, y[:5]))
    assert_alike(again.predict(NEW), model.predict(NEW))


def test_permuted_comparisons_give_the_same_ranker():
    X, y = rows_and_scores(80)
    rng = np.random.default_rng(4)
    ends = np.sort(rng.integers(0, 70, (400, 2)), axis=1)
    ends = ends[y[ends[:, 0]] != y[ends[:, 1]]]
    swapped = y[ends[:, 0]] < y[ends[:, 1]]
    winners, losers = np.where(swapped[:, None], ends[:, ::-1], ends).T
    margins, weights = rng.uniform(0, 2, len(ends)), rng.uniform(0.5, 2, len(ends))
    fitted = AutoRanker(candidates=FEW[:2]).fit_comparisons(
        X, winners, losers, margins=margins, weights=weights
    )
    rows, pairs = rng.permutation(80), rng.permutation(len(ends))
    places = np.argsort(rows)
    permuted = AutoRanker(candidates=FEW[:2]).fit_comparisons(
        X[rows],
        places[winners[pairs]],
        places[losers[pairs]],
        margins=margins[pairs],
        weights=weights[pairs],
    )
    assert_alike(permuted.predict(NEW), fitted.predict(NEW))
    assert permuted.held_out_error_ == fitted.held_out_error_
    np.testing.assert_array_equal(fitted._model.units.scores, margins)


@pytest.mark.parametrize("by_csr", [False, True])
def test_permuted_rows_with_links_give_the_same_model(by_csr):
    rng = np.random.default_rng(5)
    X, y = rows_and_scores(120)
    X[60:] = np.round(X[60:])  # many are alike, but for their links
    y[60:] = np.nan
    X = sparse.csr_array(np.where(np.abs(X) < 0.4, 0.0, X)) if by_csr else X
    links = sparse.random_array((120, 120), density=0.03, rng=rng, format="csr")
    order = rng.permutation(120)
    models = [
        AutoRegressor().fit(X[rows], y[rows], links=links[rows][:, rows])
        for rows in (np.arange(120), order)
    ]
    expected = models[0].predict(X, links=links)
    assert_alike(models[1].predict(X[order], links=links[order][:, order]), expected[order])
    effects = [model.unscored_effect_ for model in models]
    assert effects[1].error_without == pytest.approx(effects[0].error_without, rel=1e-9)


def shop(n):
    rng = np.random.default_rng(6)
    words = np.asarray(["oak", "steel", "glass", "bamboo", "leather", "cotton", "wool", "stone"])
    price = rng.lognormal(3, 1, n)
    return pd.DataFrame(
        {
            "name": [f"item {row}" if row % 4 else None for row in range(n)],
            "text": [" ".join(rng.choice(words, 4)) + f" no {row}" for row in range(n)],
            "price": np.where(rng.random(n) < 0.2, np.nan, price),
            "kind": rng.choice(["a", "b", None], n),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "vector": list(rng.standard_normal((n, 8))),
            **{f"emb_{at}": rng.standard_normal(n) for at in range(8)},
        }
    ), np.log(price) + rng.choice(3, n)


@pytest.mark.parametrize("n", [60, 360])
def test_permuted_rows_of_a_table_give_the_same_model(n):
    table, y = shop(n)
    scores = np.where(np.arange(n) % 10 == 0, np.nan, y)
    order = np.random.default_rng(7).permutation(n)
    models = [
        AutoRegressor(
            candidates=[Candidate(), Candidate(identity=1.0)],
            encoder=TableEncoder(identity=["name"]),
        ).fit(table.iloc[rows], scores[rows])
        for rows in (np.arange(n), order)
    ]
    named = table[table.name.notna()]
    assert_alike(models[1].predict(named), models[0].predict(named))
    effects = [model.unscored_effect_ for model in models]
    assert effects[1].error_with == pytest.approx(effects[0].error_with, rel=1e-9)
    assert effects[1].error_without == pytest.approx(effects[0].error_without, rel=1e-9)


@pytest.mark.parametrize("learner", [AutoRegressor, AutoRanker])
@pytest.mark.parametrize("n", [60, 450])
def test_rows_without_a_name_are_alike_wherever_they_stand(learner, n):
    rng = np.random.default_rng(12)
    a = rng.integers(0, 8, n) / 4  # hundreds of rows are the same but for their scores
    names = [f"item {row % 40}" if row % 3 else None for row in range(n)]
    table = pd.DataFrame({"a": a, "b": a**2 % 1.5, "name": names})
    y = np.sin(3 * a) + rng.choice([0, 0.5, 1], n) + np.arange(n) % 40 / 50
    candidates = [Candidate(), Candidate(identity=1.0), Candidate(identity=0.3)]
    order = rng.permutation(n)
    models = [
        learner(candidates=candidates, encoder=TableEncoder(identity=["name"])).fit(
            table.iloc[rows], y[rows]
        )
        for rows in (np.arange(n), order)
    ]
    expected = models[0].predict(table[:50])
    assert_alike(models[0].predict(table[49::-1])[::-1], expected)
    assert_alike(models[1].predict(table[:50]), expected)
    new = pd.DataFrame({"a": a[:3], "b": table.b[:3], "name": [None, "stranger", None]})
    predictions = models[0].predict(new.assign(a=a[0], b=table.b[0]))
    assert_alike(predictions, predictions[0] + np.array([0, 1e-12, 0]), share=1e6)
    for model in models:
        model.update(table[:5], y[:5] + 0.25)
    assert_alike(models[1].predict(table[:50]), models[0].predict(table[:50]))


def test_an_encoder_learns_the_same_of_permuted_rows():
    table, _ = shop(300)
    order = np.random.default_rng(8).permutation(300)
    encoders = [TableEncoder(ignore=["name"]) for _ in range(2)]
    matrix = encoders[0].fit_transform(table)
    np.testing.assert_array_equal(encoders[1].fit_transform(table.iloc[order]), matrix[order])


def test_live_fits_are_those_of_permuted_items():
    X, y = rows_and_scores(80)
    scores = np.where(np.arange(80) < 30, y, np.nan)
    order = np.random.default_rng(9).permutation(80)
    encoder = TableEncoder().fit(pd.DataFrame(X, columns=list("abcd")))
    fits = [LiveFit(AutoRegressor(encoder=encoder), rows) for rows in (X, X[order])]
    expected, predictions = (
        live.predict(live.to_scores(answers))
        for live, answers in zip(fits, (scores, scores[order]), strict=True)
    )
    assert_alike(predictions, expected[order])


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_the_order_follows_contents_and_the_seed(make):
    rng = np.random.default_rng(10)
    X = rng.integers(-1, 2, (400, 3)).astype(float)
    values, queries = rng.integers(0, 2, (400, 1)).astype(float), rng.integers(0, 9, 400)
    rows = rng.permutation(400)
    order = canonical_order(row_digests(make(X), 0), values, queries=queries)
    permuted = make(np.where(X == 0, -0.0, X)[rows])
    other = canonical_order(row_digests(permuted, 0), values[rows], queries=8 - queries[rows])
    np.testing.assert_array_equal(X[rows][other], X[order])
    np.testing.assert_array_equal(values[rows][other], values[order])
    assert sorted(order) == list(range(400))
    assert (canonical_order(row_digests(make(X), 1), values, queries=queries) != order).any()
    # equal rows do not stand side by side
    assert np.mean((X[order][1:] == X[order][:-1]).all(axis=1)) < 0.1


def test_equal_numbers_have_one_digest():
    digests = row_digests(np.array([[0.0, np.nan], [-0.0, -np.nan], [np.nan, 0.0]]), 0)
    assert digests[0] == digests[1] != digests[2]
