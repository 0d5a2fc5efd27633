"""The engine of the experiments on ratings: what is drawn, what is seen, and fits of many people
equal to fits one by one.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from corank import RLS, CoRankingPursuit, MatchingPursuit, RankingPursuit, RankRLS, View
from corank.metrics import disagreement_error
from studies.batched_fits.batches import Batch, batches, loss_root, squared_distances
from studies.batched_fits.co_pursuit import HALVES, HALVES_ON_ALL, co_pursuit_paths, two_views
from studies.batched_fits.protocol import (
    Answers,
    Person,
    RatingLists,
    SampleSizes,
    draw_casts,
    ratings_from_triples,
    split_people,
)
from studies.batched_fits.pursuit import pursuit_paths
from studies.batched_fits.ridge_and_svm import ranksvm_paths, ridge_paths, subset_paths
from studies.batched_fits.trials import (
    BatchedMethod,
    CoPursuit,
    Pursuit,
    RankSVM,
    Ridge,
    Stage,
    all_pair_errors,
    choose,
    pair_errors,
    results_of,
    squared_errors,
)

GAMMA = 0.02
SMALL = SampleSizes(n_reference=15, n_holdout=6, n_test=5, n_repetitions=3, seed=1)


@pytest.fixture(scope="module")
def ratings() -> RatingLists:
    """80 items, 260 people who rated 25 to 79 of them."""
    rng = np.random.default_rng(3)
    tastes, items = rng.normal(size=(260, 4)), rng.normal(size=(80, 4))
    scores = np.round(tastes @ items.T + rng.normal(size=(260, 80)), 1) + 1.5
    is_rated = rng.random((260, 80)).argsort(axis=1) < rng.integers(25, 80, size=(260, 1))
    people, rated = np.nonzero(is_rated)
    return ratings_from_triples(people, rated, scores[people, rated])


@pytest.fixture(scope="module")
def features(ratings: RatingLists) -> np.ndarray:
    return ratings.features(draw_casts(ratings, SMALL, (40, 60))[0].reference)


def of_people(
    ratings: RatingLists, features: np.ndarray, share: float
) -> tuple[list[Person], list[Batch], np.ndarray]:
    people, _ = split_people(
        ratings, draw_casts(ratings, SMALL, (40, 60))[0].people, [5], scored_share=share
    )
    return people, list(batches(people, cells=4000)), squared_distances(features)


def one_by_one(batch: Batch, predictions: np.ndarray, people: list[Person]):
    """Person and predictions (c, m) without padding."""
    for row, place in enumerate(batch.people):
        yield people[place], predictions[row][:, batch.test_mask[row]]


def assert_same(predicted: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(predicted, expected, atol=1e-8 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("alpha", [0.03, 2.0])
@pytest.mark.parametrize(
    "method", ["RLS", "RLS with intercept", "RankRLS", "RankRLS size", "blend"]
)
def test_ridge_paths_equal_the_learners(
    ratings: RatingLists, features: np.ndarray, method: str, alpha: float
) -> None:
    people, batch_list, distances = of_people(ratings, features, 1.0)
    assert len(batch_list) > 1
    common = {"alpha": alpha, "gamma": GAMMA}
    learner, beta, weighting = {
        "RLS": (RLS(fit_intercept=False, **common), 1.0, "unit"),
        "RLS with intercept": (RLS(**common), 1.0, "unit"),
        "RankRLS": (RankRLS(weighting="unit", **common), 0.0, "unit"),
        "RankRLS size": (RankRLS(**common), 0.0, "size"),
        "blend": (RankRLS(weighting="unit", beta=0.5, **common), 0.5, "unit"),
    }[method]
    for batch in batch_list:
        offset = (
            batch.means[:, None]
            if method == "RLS with intercept"
            else np.zeros((len(batch.people), 1))
        )
        targets = (batch.scores - offset) * batch.scored_mask
        loss = loss_root(beta, batch.counts, weighting=weighting)
        paths = ridge_paths(
            batch.kernels(distances, GAMMA), loss, targets, np.asarray([9.0, alpha])
        )
        for person, predicted in one_by_one(batch, paths + offset[:, :, None], people):
            learner.fit(features[person.scored], person.scores)
            assert_same(predicted[1], learner.predict(features[person.test]))


@pytest.mark.parametrize("share", [0.3, 0.7, 1.0])
def test_subset_paths_equal_sparse_rankrls(
    ratings: RatingLists, features: np.ndarray, share: float
) -> None:
    people, batch_list, distances = of_people(ratings, features, 0.7)
    for batch in batch_list:
        loss, sizes = loss_root(0.0, batch.counts), np.ceil(share * batch.counts).astype(int)
        paths = subset_paths(
            batch.kernels(distances, GAMMA), loss, batch.scores, np.asarray([0.5]), sizes
        )
        for person, predicted in one_by_one(batch, paths, people):
            basis = np.arange(int(np.ceil(share * person.n_scored)))
            learner = RankRLS(alpha=0.5, gamma=GAMMA, weighting="unit", basis=basis)
            assert_same(
                predicted[0],
                learner.fit(features[person.scored], person.scores).predict(features[person.test]),
            )


@pytest.mark.parametrize("refit", ["basic", "back"])
@pytest.mark.parametrize(
    "method", ["matching", "matching with intercept", "ranking", "blend", "blend size"]
)
def test_pursuit_paths_equal_the_learners(
    ratings: RatingLists, features: np.ndarray, method: str, refit: str
) -> None:
    people, batch_list, distances = of_people(ratings, features, 1.0)
    common = {"refit": refit, "gamma": GAMMA, "n_atoms": 6}
    learner, beta, weighting = {
        "matching": (MatchingPursuit(fit_intercept=False, **common), 1.0, "unit"),
        "matching with intercept": (MatchingPursuit(**common), 1.0, "unit"),
        "ranking": (RankingPursuit(weighting="unit", **common), 0.0, "unit"),
        "blend": (RankingPursuit(weighting="unit", beta=0.5, **common), 0.5, "unit"),
        "blend size": (RankingPursuit(beta=0.5, **common), 0.5, "size"),
    }[method]
    for batch in batch_list:
        offset = (
            batch.means[:, None]
            if method == "matching with intercept"
            else np.zeros((len(batch.people), 1))
        )
        targets = (batch.scores - offset) * batch.scored_mask
        loss = loss_root(beta, batch.counts, weighting=weighting)
        path = pursuit_paths(batch.kernels(distances, GAMMA), loss, targets, 6, refit=refit)
        pairs = zip(
            one_by_one(batch, path.predictions + offset[:, :, None], people),
            path.n_atoms,
            strict=True,
        )
        for (person, predicted), n_atoms in pairs:
            learner.fit(features[person.scored], person.scores)
            assert_same(predicted[5], learner.predict(features[person.test]))
            assert n_atoms[5] == len(learner.atoms_)


@pytest.mark.parametrize("agreement", [0.0, 0.05, 2.0])
@pytest.mark.parametrize("refit", ["basic", "back"])
@pytest.mark.parametrize("objective", ["paper", "exact"])
@pytest.mark.parametrize("of", ["items", "people"])
def test_co_pursuit_paths_equal_the_learner(
    ratings: RatingLists,
    features: np.ndarray,
    of: str,
    objective: str,
    refit: str,
    agreement: float,
) -> None:
    people, batch_list, distances = of_people(ratings, features, 0.5)
    halves = squared_distances(features[:, ::2]), squared_distances(features[:, 1::2])
    for batch in batch_list[:2]:
        views = two_views(batch.kernels(distances, GAMMA, lambda: halves), batch.scores, of=of)
        path = co_pursuit_paths(views, agreement, 4, objective=objective, refit=refit)
        pairs = zip(one_by_one(batch, path.predictions, people), path.n_atoms, strict=True)
        for (person, predicted), n_atoms in pairs:
            learner = CoRankingPursuit(
                views=of_learner(person, of, features.shape[1]),
                n_atoms=4,
                agreement=agreement,
                objective=objective,
                refit=refit,
                weighting="unit",
            )
            y = np.concatenate([person.scores, np.full(len(person.unscored), np.nan)])
            learner.fit(features[person.train], y)
            assert_same(predicted[3], learner.predict(features[person.test]))
            assert n_atoms[3] == sum(len(atoms) for atoms in learner.atoms_)


@pytest.mark.parametrize("agreement", [0.0, 0.05, 2.0])
@pytest.mark.parametrize("fitted", [HALVES, HALVES_ON_ALL])
def test_views_fitted_to_their_halves_equal_the_learner(
    ratings: RatingLists, features: np.ndarray, fitted: str, agreement: float
) -> None:
    people, batch_list, distances = of_people(ratings, features, 0.5)
    for batch in batch_list[:2]:
        views = two_views(batch.kernels(distances, GAMMA), batch.scores, fitted=fitted)
        path = co_pursuit_paths(views, agreement, 3, objective="exact", refit="basic")
        for person, predicted in one_by_one(batch, path.predictions, people):
            # rows to agree on come after the scored ones, once more where they are scored too
            n, agreeing = person.n_scored, person.unscored if fitted == HALVES else person.train
            items = np.concatenate([person.scored, agreeing])
            y = np.full((len(items), 2), np.nan)
            sides = []
            for side in range(2):
                y[side:n:2, side] = person.scores[side::2]
                unscored = np.arange(len(items) - len(person.unscored), len(items))
                sides.append(np.concatenate([np.arange(side, n, 2), unscored[side::2]]))
            learner = CoRankingPursuit(
                views=[View(gamma=GAMMA, basis=rows) for rows in sides],
                n_atoms=3,
                agreement=agreement,
                objective="exact",
                refit="basic",
                weighting="unit",
            )
            learner.fit(features[items], y)
            assert_same(predicted[2], learner.predict(features[person.test]))


def of_learner(person: Person, of: str, n_columns: int) -> list[View]:
    """The views as the learner takes them."""
    if of == "people":
        return [
            View(np.arange(side, n_columns, 2), gamma=GAMMA, basis="scored") for side in range(2)
        ]
    scored, unscored = np.arange(person.n_scored), np.arange(person.n_scored, len(person.train))
    sides = [np.concatenate([scored[side::2], unscored[side::2]]) for side in range(2)]
    return [View(gamma=GAMMA, basis=rows) for rows in sides]


def test_a_pursuit_that_has_ended_stays_as_it_is(
    ratings: RatingLists, features: np.ndarray
) -> None:
    _, batch_list, distances = of_people(ratings, features, 0.3)
    batch = batch_list[0]
    path = pursuit_paths(
        batch.kernels(distances, 1.0), loss_root(0.0, batch.counts), batch.scores, 60, refit="back"
    )
    assert (path.n_atoms[:, -1] < batch.counts).all()  # a query of n rows carries n − 1 atoms
    np.testing.assert_array_equal(path.predictions[:, -1], path.predictions[:, -2])


def test_ranksvm_is_the_minimum_of_its_objective(
    ratings: RatingLists, features: np.ndarray
) -> None:
    people, batch_list, distances = of_people(ratings, features, 0.4)
    for batch in batch_list[:2]:
        paths, _ = ranksvm_paths(
            batch.kernels(distances, GAMMA), batch.scores, np.asarray([0.01, 0.5])
        )
        for person, predicted in one_by_one(batch, paths, people):
            gram = np.exp(-GAMMA * distances[np.ix_(person.scored, person.scored)])
            root_of_gram = np.linalg.cholesky(gram + 1e-12 * np.eye(len(gram)))
            better, worse = np.nonzero(person.scores[:, None] > person.scores[None, :])

            def objective(w: np.ndarray) -> float:
                f = root_of_gram @ w  # noqa: B023
                slack = np.maximum(0.0, 1 - (f[better] - f[worse]))  # noqa: B023
                return float(w @ w / 2 + 0.5 * slack @ slack)

            best = minimize(
                objective,
                np.zeros(len(gram)),
                method="BFGS",
                options={"gtol": 1e-7, "maxiter": 5000},
            )
            weights = np.linalg.solve(root_of_gram.T, best.x)
            expected = np.exp(-GAMMA * distances[np.ix_(person.test, person.scored)]) @ weights
            np.testing.assert_allclose(predicted[1], expected, atol=1e-4 * np.abs(expected).max())


def test_errors_equal_the_metrics() -> None:
    rng = np.random.default_rng(0)
    scores, predictions = (
        rng.integers(1, 6, size=17).astype(float),
        rng.integers(0, 9, size=(30, 17)).astype(float),
    )
    answers = Answers(scores)
    expected = [disagreement_error(scores, values) for values in predictions]
    np.testing.assert_allclose(pair_errors(answers, predictions), expected, atol=1e-15)
    np.testing.assert_allclose(
        squared_errors(answers, predictions), np.mean((predictions - scores) ** 2, axis=1)
    )
    expected = [disagreement_error(scores, values, ties="half") for values in predictions]
    np.testing.assert_allclose(all_pair_errors(answers, predictions), expected, atol=1e-15)
    assert np.isnan(pair_errors(Answers(np.ones(4)), np.zeros((3, 4)))).all()


def test_answers_are_given_only_for_predictions() -> None:
    answers = Answers(np.arange(4.0))
    with pytest.raises(ValueError, match="shape"):
        answers.unlock(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="NaN"):
        answers.unlock(np.full(4, np.nan))


def test_features_are_ratings_or_the_medians_of_their_person() -> None:
    ratings = ratings_from_triples(
        np.asarray([0, 0, 0, 1]), np.asarray([0, 1, 2, 3]), np.asarray([1.0, 2.0, 9.0, 4.0])
    )
    table = ratings.features(np.asarray([0, 1]))
    np.testing.assert_array_equal(table, [[1, 4], [2, 4], [9, 4], [2, 4]])
    by_item = ratings.features(np.asarray([0, 1]), missing="item")
    np.testing.assert_array_equal(by_item, [[1, 1], [2, 2], [9, 9], [4, 4]])


def test_nobody_is_tested_who_had_a_part_in_choosing(ratings: RatingLists) -> None:
    for group in ((20, 40), (40, 60), (60, 80)):
        holdout, repetitions = draw_casts(ratings, SMALL, group)
        tested = np.concatenate([cast.people for cast in repetitions])
        assert len(np.unique(tested)) == 15
        assert not np.isin(tested, [*holdout.people, *holdout.reference]).any()
        for cast in repetitions:
            assert not np.isin(cast.reference, [*cast.people, *holdout.people]).any()
            assert (
                (ratings.counts[cast.reference] >= group[0])
                & (ratings.counts[cast.reference] <= group[1])
            ).all()
            assert (ratings.counts[cast.people] >= 50).all()
    again = draw_casts(ratings, SMALL, (60, 80))[1]
    np.testing.assert_array_equal(again[2].people, repetitions[2].people)


def test_too_few_people_is_said(ratings: RatingLists) -> None:
    with pytest.raises(ValueError, match="reference people are wanted"):
        draw_casts(ratings, SampleSizes(n_reference=300), (20, 40))
    with pytest.raises(ValueError, match="are no reference people"):
        draw_casts(ratings, SampleSizes(n_reference=10), (20, 40))


@pytest.mark.parametrize(
    "method",
    [
        Ridge(0.0),
        Ridge(1.0, centred=True),
        Pursuit(0.0, "basic"),
        RankSVM(),
        CoPursuit("paper", "basic"),
    ],
)
def test_test_ratings_change_nothing_but_test_errors(
    ratings: RatingLists, method: BatchedMethod
) -> None:
    """Choices and models stay as they are when the hidden ratings of everyone who is tested are
    others.
    """
    protocol = SampleSizes(n_reference=15, n_holdout=6, n_test=5, n_repetitions=1, seed=1)
    share = 0.5 if isinstance(method, CoPursuit) else 1.0

    def run(source: RatingLists) -> dict:
        stage = Stage(source, protocol, (20, 40), scored_share=share)
        chosen = choose(method, stage.holdout(), ("pairs",), (-8, -5, -2))
        return results_of({"it": chosen}, stage)["it"]["pairs"]

    tested = draw_casts(ratings, protocol, (20, 40))[1][0].people
    people, _ = split_people(ratings, tested, [1, 3, 0], scored_share=share)
    scores, rng = ratings.scores.copy(), np.random.default_rng(0)
    for person, seen in zip(tested, people, strict=True):
        items, _ = ratings.rated_by(int(person))
        of_person = scores[ratings.starts[person] : ratings.starts[person + 1]]
        hidden = ~np.isin(items, seen.scored)
        of_person[hidden] = rng.permutation(of_person[hidden])
    before, after = (
        run(ratings),
        run(RatingLists(ratings.starts, ratings.items, scores, ratings.n_items)),
    )
    assert before["choice"] == after["choice"]
    assert before["errors"]["share"] == after["errors"]["share"]
    assert before["errors"]["pairs"] != after["errors"]["pairs"]


def test_test_ratings_are_not_in_what_methods_see(ratings: RatingLists) -> None:
    """Other ratings of the test half leave everything that methods see as it was."""
    someone = draw_casts(ratings, SMALL, (20, 40))[1][0].people
    people, _ = split_people(ratings, someone, [0], scored_share=0.5)
    scores = ratings.scores.copy()
    for person, seen in zip(someone, people, strict=True):
        items, _ = ratings.rated_by(int(person))
        of_person = scores[ratings.starts[person] : ratings.starts[person + 1]]
        of_person[np.isin(items, np.concatenate([seen.test, seen.unscored]))] = np.nan
    masked = RatingLists(ratings.starts, ratings.items, scores, ratings.n_items)
    for before, after in zip(
        people, split_people(masked, someone, [0], scored_share=0.5)[0], strict=True
    ):
        np.testing.assert_array_equal(before.train, after.train)
        np.testing.assert_array_equal(before.test, after.test)
        np.testing.assert_array_equal(before.scores, after.scores)
        assert np.isfinite(after.scores).all()
