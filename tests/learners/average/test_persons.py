"""Who answered, and about which item: kernels between answers against literal ones, held-out errors
against refitting, names, files, updates and what is refused.
"""

from copy import copy

import numpy as np
import pandas as pd
import pytest
from edited_files import round_trip
from scipy import sparse

from corank import AutoRanker, AutoRegressor, Candidate
from corank.learners.average.candidates import PARTS
from corank.learners.average.closed_form import Observations, solve_kernel
from corank.learners.average.coefficients import dual_factor, left_out_of_dual
from corank.learners.average.encoding import IDENTITY, PERSON, PERSONS, STANDARD
from corank.learners.average.expansions import Expansions
from corank.learners.average.fitting import fit_average
from corank.learners.average.model import compared_units, score_units
from corank.learners.average.persons import EFFECT, LEVEL, _Estimate, evidence_shares
from corank.learners.average.scored_table import AverageSettings
from corank.learners.average.similarity import Distances, Space
from corank.metrics import disagreement_error

rng = np.random.default_rng(5)
SIDES = ((7, LEVEL), (5, EFFECT))  # of how many items and persons, and the entry that is 1
N = 24
ROWS = {
    STANDARD: rng.standard_normal((N, 3)),
    IDENTITY: rng.integers(0, 9, (N, 1)).astype(float),
    PERSON: np.repeat(np.arange(4.0), 6)[:, None],
    PERSONS: np.repeat(rng.standard_normal((4, 2)), 6, axis=0),
}
NEW = {
    STANDARD: rng.standard_normal((6, 3)),
    IDENTITY: np.array([[0.0], [1], [2], [77], [-1], [-2]]),
    PERSON: np.array([[0.0], [3], [9], [-1], [-1], [1]]),
    PERSONS: np.vstack([rng.standard_normal((3, 2)), np.zeros((3, 2))]),
}
SPACE = Space(ROWS)
SHARES = (0.2, 0.15, 0.25, 0.1, 0.1, 0.15, 0.05)
ALL = Candidate(width=2.0, shares=SHARES)
SCORES = rng.standard_normal(N)
RANKS = AverageSettings(ranks=True, person=(4,), n_roles=1, by_person=True)
UNITS = score_units(SCORES, ROWS[PERSON][:, 0].astype(int), None, RANKS, ROWS[PERSON][:, 0])


def literal(candidate, left, right):
    """Σ share · (columns, same item or 1) · (1, same person, columns of persons), pair by pair."""
    (columns,) = SPACE.similarities(Candidate(kernel=candidate.kernel, width=candidate.width))
    k = Distances(left, right).kernel(columns)
    mean = np.mean(np.sum(ROWS[PERSONS] ** 2, axis=1))
    cells = np.zeros(k.shape)
    for i in range(k.shape[0]):
        for j in range(k.shape[1]):
            same_item = float(left[IDENTITY][i, 0] == right[IDENTITY][j, 0])
            known = left[PERSON][i, 0] >= 0
            same_person = float(known and left[PERSON][i, 0] == right[PERSON][j, 0])
            of_persons = left[PERSONS][i] @ right[PERSONS][j] / mean
            whats = {"columns": k[i, j], IDENTITY: same_item, "": 1.0}
            whose = {"": 1.0, PERSON: same_person, PERSONS: of_persons}
            for (what, who), share in zip(PARTS, candidate.shares, strict=True):
                cells[i, j] += share * whats[what] * whose[who]
    return cells


alone = [
    Candidate(shares=tuple(float(at == part) for at in range(len(PARTS)))) for part in range(7)
]


@pytest.mark.parametrize("candidate", [ALL, *alone], ids=lambda candidate: candidate.describe())
def test_kernels_are_those_of_answers(candidate):
    built = SPACE.built(candidate)
    np.testing.assert_allclose(SPACE.kernel(built), literal(candidate, ROWS, ROWS), atol=1e-12)
    cross = SPACE.kernel_to_scored(built, Distances(NEW, ROWS), Distances(NEW, {}))
    np.testing.assert_allclose(cross, literal(candidate, NEW, ROWS), atol=1e-12)
    square = literal(candidate, NEW, NEW)
    np.testing.assert_allclose(SPACE.square_kernel(built, NEW), square, atol=1e-12)
    np.testing.assert_allclose(SPACE.variances(built, NEW), np.diag(square), atol=1e-12)


def test_predictions_are_those_of_least_squares_with_a_free_level_per_person():
    average = fit_average(SPACE, [ALL], UNITS, ranks=True, seed=0, honest=False)
    (fitted,) = average.candidates
    kernel, people = literal(ALL, ROWS, ROWS), ROWS[PERSON][:, 0]
    design = np.hstack([kernel, people[:, None] == np.unique(people)])
    penalty = np.zeros((len(design.T), len(design.T)))
    penalty[:N, :N] = fitted.alpha * kernel
    solution = np.linalg.pinv(design.T @ design + penalty) @ design.T @ SCORES
    expected = literal(ALL, NEW, ROWS) @ solution[:N]
    found = Expansions(average.candidates, ROWS, {}).values(NEW)[0]
    np.testing.assert_allclose(found - found[0], expected - expected[0], atol=1e-7)


@pytest.mark.parametrize("path", ["spectrum", "factor"])
def test_held_out_answers_are_predicted_as_by_refitting(path):
    """Of every answer alone, its person's level is that of the other answers."""
    kernel, people = literal(ALL, ROWS, ROWS), ROWS[PERSON][:, 0]
    form = solve_kernel(kernel, UNITS)
    at = 7
    alpha = form.alphas[at]
    held_out = form.held_out[:, at]
    if path == "factor":
        factor = dual_factor(kernel, UNITS, alpha)
        dual = np.linalg.solve(UNITS.matrix(kernel) + alpha * np.eye(N), UNITS.targets)
        left = left_out_of_dual(factor[0], dual, UNITS, np.arange(N), alpha)
        held_out = UNITS.truth - left.residuals
    for row in range(N):
        kept = np.arange(N) != row
        train = UNITS.take(np.flatnonzero(kept))
        dual = np.linalg.solve(train.matrix(kernel) + alpha * np.eye(N - 1), train.targets)
        values = kernel @ train.root_transposed(dual[:, None])[:, 0]
        of_person = people == people[row]
        expected = values[row] - values[of_person].mean()
        assert held_out[row] == pytest.approx(expected, abs=1e-8)
        np.testing.assert_allclose(UNITS.without(np.array([row]), values), expected, atol=1e-12)


def test_shares_are_those_of_largest_evidence():
    kernels = [UNITS.matrix(SPACE.new_kernel(SPACE.built(each))) for each in alone[:3]]

    def value(sizes):
        matrix = np.eye(N) + sum(s * k for s, k in zip(sizes, kernels, strict=True))
        energy = UNITS.targets @ np.linalg.solve(matrix, UNITS.targets)
        apart = (np.log(sizes) + 2) / 3
        logdet = np.linalg.slogdet(matrix)[1]
        return 0.5 * (UNITS.n_free * np.log(energy) + logdet + apart @ apart)

    found = evidence_shares(kernels, UNITS.targets, UNITS.n_free)
    for number in range(3):
        for factor in (0.8, 1.25):
            moved = found.copy()
            moved[number] *= factor
            assert value(moved) > value(found) - 1e-6


# ---------------------------------------------------------------- as a user has them

PEOPLE, ITEMS, PER_PERSON = 12, 15, 10


def answers(seed=0, differ=1.0):
    """People who agree on one column and differ in the sign of another; items with effects."""
    draw = np.random.default_rng(seed)
    columns, effects = draw.standard_normal((ITEMS, 2)), draw.standard_normal(ITEMS)
    taste = draw.choice([-1.0, 1.0], PEOPLE)
    person = np.repeat(np.arange(PEOPLE), ITEMS)
    item = np.tile(np.arange(ITEMS), PEOPLE)
    y = columns[item, 0] + 0.7 * effects[item] + differ * taste[person] * columns[item, 1]
    y += 0.3 * draw.standard_normal(len(y)) + draw.standard_normal(PEOPLE)[person]
    known = np.zeros(len(y), dtype=bool)
    for number in range(PEOPLE):
        known[draw.choice(np.flatnonzero(person == number), PER_PERSON, replace=False)] = True
    frame = pd.DataFrame({"a": columns[item, 0], "b": columns[item, 1]})
    frame["who"], frame["what"] = [f"p{each}" for each in person], [f"i{each}" for each in item]
    frame["score"] = y
    table = pd.DataFrame({"who": [f"p{number}" for number in range(PEOPLE)], "taste": taste})
    return frame[known].reset_index(drop=True), frame[~known].reset_index(drop=True), table


TRAIN, TEST, TABLE = answers()
X_TRAIN, X_TEST = TRAIN[["a", "b", "who", "what"]], TEST[["a", "b", "who", "what"]]


def error(model, **given):
    return disagreement_error(TEST["score"], model.predict(X_TEST, **given), qid=TEST["who"])


@pytest.fixture(scope="module")
def ranker():
    return AutoRanker().fit(X_TRAIN, TRAIN["score"], person="who", item="what")


def test_a_known_person_gets_an_own_order(ranker):
    without = AutoRanker().fit(TRAIN[["a", "b"]], TRAIN["score"], qid=TRAIN["who"])
    shared = disagreement_error(TEST["score"], without.predict(TEST[["a", "b"]]), qid=TEST["who"])
    assert error(ranker, person="who") < 0.7 * shared
    assert error(ranker, person="who") < 0.7 * error(ranker)
    assert ranker.held_out_error_ < 0.2
    labels = ranker.predict(X_TEST, person=TEST["who"].to_numpy())
    np.testing.assert_array_equal(labels, ranker.predict(X_TEST, person="who"))
    found = ranker.score(X_TEST, TEST["score"], qid=TEST["who"], person="who")
    assert found == pytest.approx(1 - error(ranker, person="who"))
    ann = ranker.predict(X_TEST, person="p3")
    mine = TEST["who"] == "p3"
    np.testing.assert_allclose(ann[mine], labels[mine], atol=1e-10)


def test_nobody_and_an_unknown_person_get_the_consensus(ranker):
    consensus = ranker.predict(X_TEST)
    np.testing.assert_allclose(ranker.predict(X_TEST, person="nobody knows"), consensus, atol=1e-12)
    _, deviation = ranker.predict(X_TEST, return_std=True)
    _, of_new = ranker.predict(X_TEST, return_std=True, person="nobody knows")
    assert (of_new > deviation).all()


def test_columns_of_persons_order_for_new_persons():
    is_new = TRAIN["who"].isin(["p0", "p1", "p2"])
    model = AutoRanker().fit(
        X_TRAIN[~is_new], TRAIN["score"][~is_new], person="who", item="what", persons=TABLE
    )
    X, scores, queries = X_TRAIN[is_new], TRAIN["score"][is_new], TRAIN["who"][is_new]
    consensus = disagreement_error(scores, model.predict(X), qid=queries)
    by_columns = model.predict(X, person="who", persons=TABLE)
    assert disagreement_error(scores, by_columns, qid=queries) < 0.8 * consensus
    np.testing.assert_allclose(model.predict(X, person="who"), model.predict(X), atol=1e-12)


def test_people_who_do_not_differ_cost_nothing():
    train, test, _ = answers(3, differ=0.0)
    columns = ["a", "b", "who", "what"]
    errors = []
    for given in ({"person": "who"}, {"qid": train["who"]}):
        X, Z = (
            frame[columns if "person" in given else ["a", "b", "what"]] for frame in (train, test)
        )
        model = AutoRanker().fit(X, train["score"], item="what", **given)
        named = {"person": "who"} if "person" in given else {}
        values = model.predict(Z, **named)
        errors.append(disagreement_error(test["score"], values, qid=test["who"]))
    assert errors[0] <= 1.05 * errors[1] + 0.005


def test_a_regressor_learns_a_level_for_each_person():
    model = AutoRegressor().fit(X_TRAIN, TRAIN["score"], person="who", item="what")
    plain = AutoRegressor().fit(X_TRAIN[["a", "b"]], TRAIN["score"])
    truth = TEST["score"]
    own = np.mean((model.predict(X_TEST, person="who") - truth) ** 2)
    assert own < 0.4 * np.mean((plain.predict(X_TEST[["a", "b"]]) - truth) ** 2)


@pytest.mark.parametrize("learner", [AutoRanker, AutoRegressor])
def test_names_and_the_order_of_rows_do_not_matter(learner):
    model = learner().fit(X_TRAIN, TRAIN["score"], person="who", item="what", persons=TABLE)
    expected = model.predict(X_TEST, person="who")
    shuffled = np.random.default_rng(1).permutation(len(TRAIN))
    people = {f"p{number}": f"q{(7 * number) % PEOPLE}" for number in range(PEOPLE)}
    items = {f"i{number}": f"{(4 * number) % ITEMS}" for number in range(ITEMS)}

    def renamed(frame):
        return frame.replace({"who": people, "what": items})

    other = learner().fit(
        renamed(X_TRAIN).iloc[shuffled],
        TRAIN["score"].iloc[shuffled],
        person="who",
        item="what",
        persons=renamed(TABLE),
    )
    found = other.predict(renamed(X_TEST), person="who")
    assert np.abs(found - expected).max() < 1e-8 * expected.std()


def test_items_that_come_back_over_queries_have_effects_from_scores():
    X = TRAIN[["what"]].assign(same=1.0)
    model = AutoRanker().fit(X, TRAIN["score"], qid=TRAIN["who"], item="what")
    found = disagreement_error(
        TEST["score"], model.predict(TEST[["what"]].assign(same=1.0)), qid=TEST["who"]
    )
    assert found < 0.4
    assert any(line.candidate.identity == 1 for line in model.candidates_)


def test_one_effect_where_the_encoder_knows_the_item_too():
    from corank import TableEncoder

    X = TRAIN[["a", "b", "what"]]
    given = AutoRanker(encoder=TableEncoder(identity=["what"])).fit(
        X, TRAIN["score"], qid=TRAIN["who"], item=TRAIN["what"]
    )
    named = AutoRanker().fit(X, TRAIN["score"], qid=TRAIN["who"], item="what")
    found = given.predict(TEST[["a", "b", "what"]], item=TEST["what"])
    expected = named.predict(TEST[["a", "b", "what"]])
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_files_keep_persons_and_items(ranker, tmp_path):
    loaded = round_trip(ranker, tmp_path / "model.corank")
    expected = ranker.predict(X_TEST, person="who")
    np.testing.assert_allclose(loaded.predict(X_TEST, person="who"), expected, atol=1e-12)
    np.testing.assert_allclose(loaded.predict(X_TEST), ranker.predict(X_TEST), atol=1e-12)


def test_explanations_name_the_item_and_who_answers(ranker):
    why = ranker.explain_pair(0, 2, items=X_TEST, person="p3")
    first, second = ranker.predict(X_TEST, person="p3")[[0, 2]]
    assert why.difference == pytest.approx(first - second, abs=1e-9)
    assert sum(part.value for part in why.by_view) == pytest.approx(why.difference, abs=1e-9)
    assert sum(part.value for part in why.by_column) == pytest.approx(why.difference, abs=1e-6)
    assert any("this person alone" in part.name for part in why.by_view), why.by_view
    assert any("which item" in part.name for part in why.by_column)


def test_questions_for_a_person(ranker):
    chosen = ranker.suggest(X_TEST, 3, person="p3")
    assert len(set(chosen.tolist())) == 3
    chances = ranker.predict_comparison(X_TEST[:4], X_TEST[4:8], person="p3")
    values = ranker.predict(X_TEST, person="p3")
    assert ((chances > 0.5) == (values[:4] > values[4:8])).all()


def test_updates_know_persons_and_items(ranker):
    rows = TEST["who"] == "p3"
    model = AutoRanker().fit(X_TRAIN, TRAIN["score"], person="who", item="what")
    model.update(X_TEST[rows], TEST["score"][rows], person="who")
    values = model.predict(X_TEST[rows], person="who")
    assert disagreement_error(TEST["score"][rows], values) <= 0.2
    new = X_TEST[rows].assign(who="new")
    model.update(new, TEST["score"][rows], person="who")
    assert np.isfinite(model.predict(new, person="who")).all()


def test_comparisons_of_persons():
    items = pd.DataFrame({"a": rng.standard_normal(20), "b": rng.standard_normal(20)})
    taste = np.array([1.0, -1.0] * 4)
    ends = np.array([rng.choice(20, 2, replace=False) for _ in range(240)])
    person = rng.integers(0, 8, 240)
    values = items["a"].to_numpy() + 2 * taste[:, None] * items["b"].to_numpy()
    better = values[person, ends[:, 0]] > values[person, ends[:, 1]]
    winners, losers = np.where(better, ends.T, ends.T[::-1])
    model = AutoRanker().fit_comparisons(items, winners, losers, person=person, item=np.arange(20))
    wrong = [
        disagreement_error(
            values[number], model.predict(items, person=str(number), item=np.arange(20))
        )
        for number in range(8)
    ]
    assert np.mean(wrong) < 0.2
    assert model._n_scored <= 20
    consensus = model.predict(items, item=np.arange(20))
    assert np.corrcoef(consensus, items["a"])[0, 1] > 0.5


def test_compared_units_of_persons_are_sampled_together():
    winners, losers = np.arange(6), np.arange(6)[::-1]
    units = compared_units(
        winners, losers, np.ones(6), np.ones(6), np.arange(6), 6, np.arange(6) // 2
    )
    assert isinstance(units, Observations)
    assert units.take(np.arange(2)).persons.tolist() == [0, 0]


# ---------------------------------------------------------------- what is refused, and said


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"person": np.linspace(0.123456, 0.9, len(TRAIN))}, ["person", "0.123456", "names"]),
        ({"person": [f"p{row}" for row in range(len(TRAIN))]}, ["person", "answers once"]),
        ({"person": ["x"]}, ["person", "1 labels", str(len(TRAIN))]),
        ({"person": [None] * len(TRAIN)}, ["person", "no label"]),
        ({"person": "whom"}, ["person", "'whom'", "who"]),
        ({"persons": TABLE}, ["persons", "person="]),
        ({"person": "who", "persons": pd.concat([TABLE, TABLE])}, ["persons", "several rows"]),
        ({"person": "who", "persons": TABLE[["who"]].assign(one=1.0)}, ["persons", "no column"]),
        ({"person": "who", "persons": TABLE.assign(who="x")[:1]}, ["persons", "none of the"]),
        ({"item": "whar"}, ["item", "'whar'", "what"]),
    ],
)
def test_what_is_refused_in_fit(given, words):
    with pytest.raises(ValueError, match=r"person|item") as refused:
        AutoRanker().fit(X_TRAIN, TRAIN["score"], **given)
    assert all(word in str(refused.value) for word in words)


def test_what_is_refused_after_fit(ranker):
    plain = AutoRegressor().fit(X_TRAIN[["a", "b"]], TRAIN["score"])
    with pytest.raises(ValueError, match=r"person.*fitted without"):
        plain.predict(X_TEST[["a", "b"]], person="ann")
    with pytest.raises(ValueError, match=r"persons.*fitted with persons="):
        ranker.predict(X_TEST, person="who", persons=TABLE)
    with pytest.raises(ValueError, match="person"):
        ranker.update(X_TEST, TEST["score"])


def test_what_is_said_of_names():
    names = TRAIN["who"].to_numpy(dtype=object).copy()
    names[0] = f" {names[0]}"
    with pytest.warns(UserWarning, match=r"1 name.*blanks"):
        AutoRegressor(candidates=[Candidate()]).fit(
            X_TRAIN[["a", "b"]], TRAIN["score"], person=names
        )
    with pytest.warns(UserWarning, match="'p0'"):
        AutoRegressor(candidates=[Candidate()]).fit(
            X_TRAIN[["a", "b"]], TRAIN["score"], person=["p0"] * len(TRAIN)
        )
    scores = TRAIN["score"].where(TRAIN["who"] != "p1")
    with pytest.warns(UserWarning, match="1 person without a score"):
        AutoRegressor(candidates=[Candidate()]).fit(
            X_TRAIN[["a", "b"]], scores, person=TRAIN["who"]
        )


# ---------------------------------------------------------------- persons who come later


def test_a_new_person_is_learned_without_a_new_fit(tmp_path):
    is_new = TRAIN["who"] == "p0"
    model = AutoRanker().fit(
        X_TRAIN[~is_new], TRAIN["score"][~is_new], person="who", item="what", persons=TABLE
    )
    new, scores = X_TRAIN[is_new], TRAIN["score"][is_new].to_numpy()
    consensus = model.predict(X_TEST)
    before = model.predict(X_TEST, person="p5")
    model.update(new, scores, person="who")
    np.testing.assert_allclose(model.predict(X_TEST), consensus, atol=1e-12)
    np.testing.assert_allclose(model.predict(X_TEST, person="p5"), before, atol=1e-12)
    own = model.predict(X_TEST, person="p0")
    truth = TEST["score"][TEST["who"] == "p0"]
    mine = (TEST["who"] == "p0").to_numpy()
    assert disagreement_error(truth, own[mine]) <= disagreement_error(truth, consensus[mine])
    mean, _ = model.predict(X_TEST, person="p0", return_std=True)
    np.testing.assert_allclose(mean, own, atol=1e-12)
    loaded = round_trip(model, tmp_path / "later.corank")
    np.testing.assert_allclose(loaded.predict(X_TEST, person="p0"), own, atol=1e-12)
    late = loaded.predict(X_TEST, person="later", persons=TABLE.assign(who="later")[:1])
    assert np.abs(late - consensus).max() > 1e-6
    why = model.explain_pair(0, 2, items=X_TEST, person="p0")
    assert why.difference == pytest.approx(own[0] - own[2], abs=1e-9)
    assert sum(part.value for part in why.by_view) == pytest.approx(why.difference, abs=1e-9)


def test_deviations_of_new_persons_are_least_squares_on_what_all_share_leaves():
    model = AutoRanker(candidates=[ALL])
    people = [f"p{number:.0f}" for number in ROWS[PERSON][:, 0]]
    items = [f"i{number:.0f}" for number in ROWS[IDENTITY][:, 0]]
    table = {name: ROWS[PERSONS][people.index(name)] for name in sorted(set(people))}
    model.fit(ROWS[STANDARD], SCORES, person=people, item=items, persons=table)
    rows, scores = rng.standard_normal((5, 3)), rng.standard_normal(5)
    given = {"person": "new", "item": ["i0", "i1", "i2", "i3", "x"]}
    shared, unsure = model.predict(rows, **given, return_std=True)
    model.update(rows, scores, person=["new"] * 5, item=given["item"])
    (fitted,) = model._model.candidates
    encoded = model._model.encode(model._inputs(rows, **given)[1], None)
    own = sum(Distances(encoded, encoded).kernel(part) for part in fitted.own_similarities)
    scale = fitted.multipliers[0]
    residuals = scores - shared / scale
    design = np.hstack([own, np.ones((5, 1))])
    penalty = np.zeros((6, 6))
    penalty[:5, :5] = fitted.alpha * own
    solution = np.linalg.pinv(design.T @ design + penalty) @ design.T @ residuals
    found, sure = model.predict(rows, **given, return_std=True)
    assert (sure < unsure).all()
    np.testing.assert_allclose(found, shared + scale * own @ solution[:5], atol=1e-8)
    model.update(rows[:2], scores[:2], person=["other"] * 2, item=given["item"][:2])
    np.testing.assert_allclose(model.predict(rows, **given), found, atol=1e-10)


def test_a_new_fit_takes_over_those_who_came_later():
    model = AutoRegressor(candidates=[ALL, Candidate()])
    is_new = TRAIN["who"].isin(["p0", "p1"])
    X, y = X_TRAIN.drop(columns="what"), TRAIN["score"]
    model = AutoRegressor().fit(X[~is_new], y[~is_new], person="who")
    model.update(X[is_new], y[is_new], person="who")
    known = X[~is_new][:3]
    model.update(known, y[~is_new][:3], person="who")
    assert model._model.later is None
    assert model._model.units.n_points == len(TRAIN) + 3
    values = model.predict(X, person="who")
    assert np.corrcoef(values[is_new], y[is_new])[0, 1] > 0.8


def test_files_without_names(ranker, tmp_path):
    loaded = round_trip(ranker, tmp_path / "numbers.corank", persons="numbers")
    assert b"p3" not in (tmp_path / "numbers.corank").read_bytes()
    number = str(ranker.persons_.index("p3"))
    expected = ranker.predict(X_TEST, person="p3")
    np.testing.assert_allclose(loaded.predict(X_TEST, person=number), expected, atol=1e-12)
    with pytest.raises(ValueError, match="'names' or 'numbers'"):
        ranker.save(tmp_path / "x.corank", persons="none")


# ---------------------------------------------------------------- very many answers


@pytest.fixture(scope="module")
def many():
    """A learner that takes few answers for many, and what it has learned."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("corank.learners.average.model.MAX_EXACT_ANSWERS", 50)
        patch.setattr("corank.learners.average.persons.N_LEARNED", 3)
        yield AutoRanker().fit(X_TRAIN, TRAIN["score"], person="who", item="what", persons=TABLE)


def test_vectors_of_one_side_are_those_of_ridge_regression():
    """With the other side known, as if one by one and written out."""
    answers = rng.integers(0, 2, (5, 7)).astype(float)
    answers[:, 0] = 1.0
    scores = answers * rng.standard_normal((5, 7))
    items, persons = (_Estimate.start(rng.standard_normal((n, 2)), at, 1.0, 0) for n, at in SIDES)
    items.covariances = np.stack([0.1 * np.eye(len(items.precision))] * 7)
    items.covariances[:, LEVEL, :] = items.covariances[:, :, LEVEL] = 0.0
    persons.answers, persons.scores = sparse.csr_array(answers), sparse.csr_array(scores)
    prior = persons.columns @ persons.slopes[:-1] + persons.slopes[-1]
    precision, noise = persons.precision.copy(), 0.7
    squares = persons.learn(items, noise)
    free = np.delete(np.arange(len(precision)), EFFECT)
    total = 0.0
    for person in range(5):
        inner, right = np.diag(precision), precision * prior[person]
        for item in np.flatnonzero(answers[person]):
            v, S = items.means[item], items.covariances[item]
            inner = inner + (np.outer(v, v) + S) / noise
            right = right + v * scores[person, item] / noise
        right = right[free] - inner[free, EFFECT]
        mean = np.linalg.solve(inner[np.ix_(free, free)], right)
        np.testing.assert_allclose(persons.means[person, free], mean, atol=1e-10)
        covariance = np.zeros(inner.shape)
        covariance[np.ix_(free, free)] = np.linalg.inv(inner[np.ix_(free, free)])
        for item in np.flatnonzero(answers[person]):
            v, S, u = items.means[item], items.covariances[item], persons.means[person]
            total += (scores[person, item] - u @ v) ** 2 + u @ S @ u
            total += v @ covariance @ v + np.sum(S * covariance)
    assert squares + np.sum(scores**2) == pytest.approx(total, rel=1e-9)


def test_very_many_answers_become_vectors_of_persons_and_items(many, tmp_path):
    assert many._model.factors is not None
    values = many.predict(X_TEST, person="who")
    assert error(many, person="who") < 0.2
    assert error(many, person="who") < 0.8 * error(many)
    assert many.held_out_error_ < 0.35
    assert "vectors of persons" in many.reason_
    loaded = round_trip(many, tmp_path / "many.corank")
    np.testing.assert_allclose(loaded.predict(X_TEST, person="who"), values, atol=1e-12)
    with pytest.raises(ValueError, match="no uncertainty"):
        many.suggest(X_TEST, 2)


def test_new_persons_among_very_many_answers(many):
    loaded = copy(many)
    like = TRAIN["who"] == "p0"
    before = loaded.predict(X_TEST, person="p3")
    loaded.update(X_TRAIN[like].assign(who="new"), TRAIN["score"][like], person="who")
    own = loaded.predict(X_TEST, person="p0")
    np.testing.assert_allclose(loaded.predict(X_TEST, person="p3"), before, atol=1e-12)
    assert np.corrcoef(loaded.predict(X_TEST, person="new"), own)[0, 1] > 0.8


def test_names_and_order_do_not_matter_to_vectors(many, monkeypatch):
    monkeypatch.setattr("corank.learners.average.model.MAX_EXACT_ANSWERS", 50)
    monkeypatch.setattr("corank.learners.average.persons.N_LEARNED", 3)
    shuffled = np.random.default_rng(1).permutation(len(TRAIN))
    other = AutoRanker().fit(
        X_TRAIN.iloc[shuffled].replace({"who": {"p3": "ann", "p4": "aaa"}}),
        TRAIN["score"].iloc[shuffled],
        person="who",
        item="what",
        persons=TABLE.replace({"who": {"p3": "ann", "p4": "aaa"}}),
    )
    expected = many.predict(X_TEST, person="p3")
    assert np.abs(other.predict(X_TEST, person="ann") - expected).max() < 1e-8 * expected.std()


# ---------------------------------------------------------------- persons who are removed


def test_a_forgotten_person_is_as_if_never_asked(tmp_path):
    left = TRAIN["who"] != "p7"
    X, y = X_TRAIN.drop(columns="what"), TRAIN["score"]
    Z = X_TEST.drop(columns="what")
    model = AutoRanker().fit(X, y, person="who", persons=TABLE).forget("p7")
    expected = AutoRanker().fit(X[left], y[left], person="who", persons=TABLE)
    assert "p7" not in model.persons_
    assert model.counts()["scored"] == left.sum()
    values, others = (each.predict(Z, person="p3") for each in (model, expected))
    assert np.corrcoef(values, others)[0, 1] > 0.95
    np.testing.assert_allclose(model.predict(Z, person="p7"), model.predict(Z))
    model.save(tmp_path / "left.corank")
    assert b"p7" not in (tmp_path / "left.corank").read_bytes()
    with pytest.raises(ValueError, match=r"nobody called 'p7'"):
        model.forget("p7")


def test_what_only_a_forgotten_person_answered_about_is_gone(tmp_path):
    draw = np.random.default_rng(1)
    rows = [(who, what) for who in ("ann", "bob", "cem", "dan") for what in range(8)]
    table = pd.DataFrame(rows, columns=["who", "what"]).astype(str)
    table.loc[len(table)] = ["ann", "diary"]
    columns = draw.standard_normal((9, 2))[np.unique(table["what"], return_inverse=True)[1]]
    score = columns[:, 0] + draw.normal(size=len(table))
    given = {"person": table["who"], "item": table["what"]}
    model = AutoRanker().fit(columns, score, **given)
    left = (table["who"] != "ann").to_numpy()
    others = {role: labels[left] for role, labels in given.items()}
    expected = AutoRanker().fit(columns[left], score[left], **others)
    model.forget("ann")
    assert model.persons_ == expected.persons_
    assert model.counts() == expected.counts()
    counts = dict(zip(model._roles.items, model._roles.counts, strict=True))
    assert "diary" not in counts
    for item, number in zip(expected._roles.items, expected._roles.counts, strict=True):
        assert counts[item] == number
    model.save(tmp_path / "left.corank", persons="numbers")
    assert b"diary" not in (tmp_path / "left.corank").read_bytes()
    assert len(round_trip(model, tmp_path / "names.corank").persons_) == 3
    with pytest.raises(ValueError, match="nobody called ''"):
        model.forget("")


@pytest.mark.parametrize("label", [3, 3.0, np.int8(3)])
def test_one_label_that_is_no_text_stands_for_all_rows(label):
    labels = pd.factorize(TRAIN["who"])[0]
    model = AutoRanker().fit(X_TRAIN[["a", "b"]], TRAIN["score"], person=labels)
    rows = X_TRAIN[["a", "b"]][:5]
    np.testing.assert_array_equal(
        model.predict(rows, person=label), model.predict(rows, person=["3"] * 5)
    )
    with pytest.raises(ValueError, match="one label per row"):
        AutoRanker().fit(rows, TRAIN["score"][:5], person=label)


def test_a_forgotten_person_of_comparisons():
    winners, losers = np.arange(60) % 10, (np.arange(60) + 3) % 10
    person = [f"p{number % 5}" for number in range(60)]
    items = pd.DataFrame({"a": np.arange(10.0), "b": np.arange(10.0) % 3})
    model = AutoRanker(candidates=[Candidate(shares=(0.5, 0, 0.5, 0, 0, 0, 0))])
    model.fit_comparisons(items, winners, losers, person=person)
    model.forget("p1")
    assert model.n_comparisons == 48
    np.testing.assert_allclose(model.predict(items, person="p1"), model.predict(items))


def test_very_many_answers_are_not_forgotten(many):
    with pytest.raises(ValueError, match="fit again without"):
        many.forget("p1")
