"""`fit_answers`: what answers of every kind come to in every learner of comparisons, and what is
held out together.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from corank import AutoRanker, PreferenceGP, RankRLS, read_answers
from corank.core.registry import learner_class, learner_records
from corank.tables.answers import Answers, Judgement

LEARNERS = [record.name for record in learner_records() if record.comparisons]
NAMES = [f"item {number}" for number in range(20)]


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(20, 3))


def learner(name):
    return learner_class(name)(random_state=0)


def votes(X, n=40, ties=True):
    """Comparisons by the first column, with noise, and some ties."""
    rng = np.random.default_rng(1)
    rows = np.array([rng.choice(20, 2, replace=False) for _ in range(n)])
    gaps = X[rows[:, 0], 0] - X[rows[:, 1], 0] + 0.3 * rng.normal(size=n)
    words = np.where(gaps > 0, "left", "right")
    if ties:
        words[np.abs(gaps) < 0.2] = "tie"
    names = np.array(NAMES)[rows]
    table = {"left": names[:, 0], "right": names[:, 1], "winner": words}
    return read_answers({column: values.tolist() for column, values in table.items()})


def ends_of(answers):
    pairs = [pair for said in answers.judgements for pair in said.pairs()]
    winners, losers, margins, _ = zip(*pairs, strict=True)
    return [NAMES.index(name) for name in winners], [NAMES.index(name) for name in losers], margins


@pytest.mark.filterwarnings("ignore:y has no unscored row")
@pytest.mark.parametrize("name", LEARNERS)
def test_comparisons_are_those_of_fit_comparisons_in_every_learner(name, X):
    answers = votes(X)
    winners, losers, margins = ends_of(answers)
    model, other = learner(name), learner(name)
    model.fit_answers(X, answers, items=NAMES)
    if other.knows_margins:
        other.fit_comparisons(X, winners, losers, margins=margins)
    else:
        sides = [
            said.items.index(NAMES[row])
            for said, row in zip(answers.judgements, winners, strict=True)
        ]
        first = [side == 0 for side in sides]
        other.fit_comparisons(X, winners, losers, margins=np.sign(margins), first=first)
    np.testing.assert_allclose(model.predict(X), other.predict(X), rtol=1e-6, atol=1e-8)


def test_learners_that_know_persons_are_told_who_answered_and_what_was_shown_first(X):
    said = votes(X)
    judgements = [
        replace(one, person="ab"[number % 2]) for number, one in enumerate(said.judgements)
    ]
    winners, losers, margins = ends_of(said)
    persons = ["ab"[number % 2] for number in range(len(winners))]
    first = [NAMES[row] == one.items[0] for row, one in zip(winners, said.judgements, strict=True)]
    model = PreferenceGP(gamma=0.3, amplitude=2.0)
    model.fit_answers(X, Answers(judgements), items=NAMES)
    other = PreferenceGP(gamma=0.3, amplitude=2.0).fit_comparisons(
        X, winners, losers, margins=np.sign(margins), person=persons, first=first
    )
    np.testing.assert_allclose(model.predict(X), other.predict(X), atol=1e-6)
    assert model.judges_ is not None
    average = AutoRanker().fit_answers(X, Answers(judgements), items=NAMES)
    assert average.predict(X, person=["a"] * 20).shape == (20,)
    rated = [
        Judgement((name,), score=float(value), person="ab"[number % 2])
        for number, (name, value) in enumerate(zip(NAMES, X[:, 0], strict=True))
    ]
    average = AutoRanker().fit_answers(X, Answers(rated), items=NAMES)
    assert average.predict(X, person=["b"] * 20).shape == (20,)


def test_items_are_named_by_an_array_a_column_or_the_index(X):
    answers = votes(X)
    expected = RankRLS().fit_answers(X, answers, items=NAMES).predict(X)
    frame = pd.DataFrame(X, columns=list("abc"), index=NAMES)
    found = [RankRLS().fit_answers(frame, answers)]
    named = {"name": [f" {name} " for name in NAMES], **dict(zip("abc", X.T, strict=True))}
    for table in (pd.DataFrame(named), pl.DataFrame(named), pa.table(named)):
        found.append(RankRLS().fit_answers(table, answers, items="name"))
    for model in found:
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        np.testing.assert_allclose(model.predict(frame.reset_index(drop=True)), expected)
    numbered = read_answers({"winner": [3, 4.0, 5], "loser": ["1", "2", "3"]})
    model = RankRLS(alpha=1.0).fit_answers(X, numbered, items=np.arange(20))
    other = RankRLS(alpha=1.0).fit_comparisons(X, [3, 4, 5], [1, 2, 3])
    np.testing.assert_allclose(model.predict(X), other.predict(X))


def test_rows_without_names_are_refused(X):
    for given in (X, pd.DataFrame(X)):
        with pytest.raises(ValueError, match="items must say"):
            RankRLS().fit_answers(given, votes(X))
    with pytest.raises(ValueError, match="items is the name of a column"):
        RankRLS().fit_answers(X, votes(X), items="name")


def test_scores_alone_are_compared_within_persons_by_fit(X):
    rng = np.random.default_rng(2)
    rows, persons = np.arange(60) % 20, np.arange(60) // 15
    scores = X[rows, 0] + 10 * persons + 0.1 * rng.normal(size=60)
    table = {"item": [NAMES[row] for row in rows], "score": scores, "person": persons}
    model = RankRLS().fit_answers(X, table, items=NAMES)
    other = RankRLS().fit(X[rows], scores, qid=persons)
    np.testing.assert_allclose(model.predict(X), other.predict(X))
    frame = pd.DataFrame(X, index=NAMES)
    one = RankRLS().fit_answers(frame, {name: values[:15] for name, values in table.items()})
    other = RankRLS().fit(X[rows[:15]], scores[:15])
    np.testing.assert_allclose(one.predict(frame), other.predict(X))


def orders(X, size=6, n=25):
    rng = np.random.default_rng(3)
    judgements = []
    for _ in range(n):
        rows = rng.choice(20, size, replace=False)
        scores = X[rows, 0] + rng.gumbel(size=size)
        ranks = np.argsort(np.argsort(-scores)) + 1
        judgements.append(Judgement(tuple(NAMES[row] for row in rows), tuple(map(int, ranks))))
    return Answers(judgements)


def test_what_one_answer_implies_is_held_out_together(X):
    answers = orders(X, size=3, n=8)
    model = RankRLS(alpha=0.7, gamma=0.3).fit_answers(X, answers, items=NAMES)
    held_out = model.held_out_predictions_
    start = 0
    for number, said in enumerate(answers.judgements):
        others = [other for at, other in enumerate(answers.judgements) if at != number]
        refitted = RankRLS(alpha=0.7, gamma=0.3).fit_answers(X, Answers(others), items=NAMES)
        values = dict(zip(NAMES, refitted.predict(X), strict=True))
        expected = [values[better] - values[other] for better, other, _, _ in said.pairs()]
        np.testing.assert_allclose(held_out[start : start + 3], expected, atol=1e-9)
        start += 3


@pytest.mark.parametrize("kind", [RankRLS, AutoRanker])
def test_orders_teach_more_where_they_are_held_out_whole(kind, X):
    n, d = 60, 3
    gains = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        items = rng.normal(size=(n, d))
        truth = 1.2 * items[:, 0] + np.sin(2 * items[:, 1])
        winners, losers, groups = [], [], []
        for number in range(20):
            rows = rng.choice(n, 8, replace=False)
            rows = rows[np.argsort(-truth[rows] - rng.gumbel(size=8))]
            first, second = np.triu_indices(8, 1)
            winners += rows[first].tolist()
            losers += rows[second].tolist()
            groups += [number] * len(first)
        errors = []
        for given in (groups, None):
            model = kind().fit_comparisons(items, winners, losers, groups=given)
            order = np.sign(np.subtract.outer(truth, truth)[np.triu_indices(n, 1)])
            scores = model.predict(items)
            errors.append(
                np.mean(np.sign(np.subtract.outer(scores, scores)[np.triu_indices(n, 1)]) != order)
            )
        gains.append(errors[1] - errors[0])
    assert np.mean(gains) > 0.02


def test_groups_are_checked_and_zero_weights_leave_them_alone(X):
    model = RankRLS(alpha=1.0).fit_comparisons(
        X, [0, 1, 2], [3, 4, 5], weights=[1, 0, 1], groups=["a", "b", "b"]
    )
    assert model.n_comparisons == 2 or model.n_comparisons is None
    for groups in (["a"], ["a", "b", "c", "d"]):
        with pytest.raises(ValueError, match="groups has"):
            RankRLS(alpha=1.0).fit_comparisons(X, [0, 1, 2], [3, 4, 5], groups=groups)


def test_names_of_items_may_be_those_of_a_query(X):
    names, queries = list("abcde") * 4, np.repeat(list("pqrs"), 5)
    table = {
        "left": ["a", "b", "c", "d"],
        "right": ["b", "c", "d", "e"],
        "winner": ["left", "tie", "right", "left"],
        "prompt": ["p", "q", "r", "s"],
    }
    model = RankRLS(alpha=1.0).fit_answers(X, read_answers(table), items=names, qid=queries)
    other = RankRLS(alpha=1.0).fit_comparisons(
        X, [0, 6, 13, 18], [1, 7, 12, 19], margins=[1, 0, 1, 1], qid=queries
    )
    np.testing.assert_allclose(model.predict(X), other.predict(X))
    rated = {"item": names, "score": X[:, 0], "query": queries.tolist(), "person": ["x"] * 20}
    model = RankRLS(alpha=1.0).fit_answers(X, rated, items=names, qid=queries)
    np.testing.assert_allclose(
        model.predict(X), RankRLS(alpha=1.0).fit(X, X[:, 0], qid=queries).predict(X)
    )


def test_every_kind_of_answer_in_one_fit(X):
    answers = votes(X).judgements + orders(X, n=4).judgements
    answers.append(Judgement(tuple(NAMES[:4]), (1, 2, 2, 3), ties=False, person="ann"))
    answers += [
        Judgement((name,), score=float(score), person="eve")
        for name, score in zip(NAMES, X[:, 0], strict=True)
    ]
    model = RankRLS().fit_answers(X, Answers(answers), items=NAMES)
    assert np.corrcoef(model.predict(X), X[:, 0])[0, 1] > 0.8
