"""MatchingPursuit and RankingPursuit against a loop that evaluates the stated objective for every
candidate atom.
"""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from brute_force import (
    Loss,
    kernel,
    laplacian,
    leave_groups_out,
    rescaled_losses,
    small_problem,
)
from brute_force.pursuit import (
    Pursued,
    held_out,
    objective,
    pursue,
    refitted,
    stopped_after,
    with_one_more,
)
from edited_files import round_trip
from scipy import sparse
from sklearn.base import clone, is_regressor
from sklearn.linear_model import orthogonal_mp
from sklearn.model_selection import GridSearchCV, GroupKFold, LeaveOneGroupOut

import corank.solve.dictionary
from corank import CoRankingPursuit, View, load, register_kernel
from corank.learners.pursuit import MatchingPursuit, RankingPursuit
from corank.solve.pursuit import REFITS

pytestmark = pytest.mark.usefixtures("one_blas_thread")

P = small_problem(seed=3, sizes=(1, 6, 9, 4, 7, 5), d=3)
X, Y, QID, WEIGHTS, NEW = P.X, P.y, P.qid, P.weights, P.X_new
N = len(Y)
GAMMA = 0.4
PHI, PHI_NEW = kernel("rbf", GAMMA)(X, X), kernel("rbf", GAMMA)(NEW, X)

LOSSES = {
    "size": (Loss("size", 0.0), None),
    "unit": (Loss("unit", 0.0), None),
    "query": (Loss("query", 0.0), None),
    "size, weighted": (Loss("size", 0.0), WEIGHTS),
    "unit, weighted": (Loss("unit", 0.0), WEIGHTS),
    "blend": (Loss("size", 0.3), None),
    "blend of units, weighted": (Loss("unit", 0.4), WEIGHTS),
    "pointwise": (Loss("size", 1.0), None),
    "pointwise, weighted": (Loss("size", 1.0), WEIGHTS),
}
every_refit = pytest.mark.parametrize("refit", REFITS)
every_loss = pytest.mark.parametrize("case", LOSSES)
both = pytest.mark.parametrize("learner", [MatchingPursuit, RankingPursuit])


def ranker(loss, n_atoms=8, refit="back", **options):
    return RankingPursuit(n_atoms, refit, loss.beta, loss.weighting, gamma=GAMMA, **options)


@pytest.fixture
def streamed(monkeypatch):
    """No kernel values are kept, and tiles are small."""
    monkeypatch.setattr(corank.solve.dictionary, "MAX_HELD_BYTES", 0)
    monkeypatch.setattr(corank.solve.dictionary, "TILE_ROWS", 7)
    monkeypatch.setattr(corank.solve.dictionary, "JOB_TILES", 2)
    monkeypatch.setattr(corank.solve.dictionary, "LENGTH_ENTRIES", 1)


def same(model, expected, *, phi_new=PHI_NEW, offset=0.0, new=NEW):
    """The model is the reference's: steps, weights, losses and predictions for every number of
    steps.
    """
    assert model.steps_.tolist() == expected.steps
    np.testing.assert_allclose(
        model.training_loss_, expected.losses, rtol=1e-8, atol=1e-9 * expected.losses[0]
    )
    np.testing.assert_allclose(model.coef_, expected.weights[-1][model.atoms_], rtol=1e-6)
    np.testing.assert_allclose(
        model.predict_path(new), phi_new @ expected.weights.T + offset, rtol=1e-7, atol=1e-8
    )
    np.testing.assert_allclose(model.predict(new), model.predict_path(new)[:, -1], rtol=1e-10)


# ---------------------------------------------------------------- the stated objective


@every_refit
@every_loss
def test_every_step_takes_the_atom_that_lowers_the_objective_most(refit, case):
    loss, weights = LOSSES[case]
    expected = pursue(PHI, Y, laplacian(QID, loss, weights), 8, refit)
    same(ranker(loss, refit=refit).fit(X, Y, qid=QID, sample_weight=weights), expected)


@every_refit
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_a_regressor_takes_the_mean_out_and_puts_it_back(refit, weights):
    mean = np.average(Y, weights=weights)
    expected = pursue(PHI, Y - mean, laplacian(QID, Loss(beta=1.0), weights), 8, refit)
    model = MatchingPursuit(8, refit, gamma=GAMMA).fit(X, Y, sample_weight=weights)
    same(model, expected, offset=mean)
    assert model.intercept_ == pytest.approx(mean)


@every_refit
def test_one_nameless_query(refit):
    expected = pursue(PHI, Y, laplacian(np.zeros(N), Loss(), None), 6, refit)
    same(ranker(Loss(), 6, refit).fit(X, Y), expected)


def test_basic_may_pick_an_atom_again_and_its_weights_add_up():
    loss, wide = Loss("size", 0.0), {"gamma": 0.1}
    phi, phi_new = (kernel("rbf", 0.1)(rows, X) for rows in (X, NEW))
    expected = pursue(phi, Y, laplacian(QID, loss, None), 14, "basic")
    assert len(set(expected.steps)) < 14, "the case is meant to have an atom that is picked twice"
    model = RankingPursuit(14, "basic", **wide).fit(X, Y, qid=QID)
    same(model, expected, phi_new=phi_new)
    assert model.n_atoms_ == 14
    assert model.atoms_.tolist() == list(dict.fromkeys(expected.steps))
    final = RankingPursuit(14, "final", **wide).fit(X, Y, qid=QID)
    same(final, pursue(phi, Y, laplacian(QID, loss, None), 14, "final"), phi_new=phi_new)
    assert final.steps_.tolist() == model.steps_.tolist()


def test_the_ways_of_refitting_differ():
    models = [ranker(Loss("unit", 0.0), 8, refit).fit(X, Y, qid=QID) for refit in REFITS]
    predictions = {tuple(np.round(model.predict(NEW), 6)) for model in models}
    assert len(predictions) == 4
    losses = dict(zip(REFITS, [model.training_loss_[-1] for model in models], strict=True))
    assert losses["back"] < losses["basic"]
    assert losses["final"] < losses["basic"]


@every_refit
def test_path_is_refitting_each_number_of_atoms(refit):
    whole = ranker(Loss(), 9, refit).fit(X, Y, qid=QID)
    path = whole.predict_path(NEW)
    for count in range(1, 10):
        part = ranker(Loss(), count, refit).fit(X, Y, qid=QID)
        np.testing.assert_allclose(path[:, count - 1], part.predict(NEW), rtol=1e-9)
        np.testing.assert_allclose(
            whole.training_loss_[: count + 1], part.training_loss_, rtol=1e-9
        )


@pytest.mark.parametrize("refit", ["back", "pre", "final"])
def test_refitted_weights_are_least_squares_on_the_chosen_atoms(refit):
    loss = Loss("query", 0.2)
    model = ranker(loss, 10, refit).fit(X, Y, qid=QID)
    expected = refitted(PHI, Y, laplacian(QID, loss, None), model.atoms_.tolist())
    np.testing.assert_allclose(model.coef_, expected[model.atoms_], rtol=1e-6)


@every_refit
def test_beta_one_is_matching_pursuit_and_beta_zero_ranks(refit):
    ranking = ranker(Loss("unit", 1.0), 7, refit).fit(X, Y, qid=QID)
    regression = MatchingPursuit(7, refit, fit_intercept=False, gamma=GAMMA).fit(X, Y)
    np.testing.assert_array_equal(ranking.steps_, regression.steps_)
    np.testing.assert_allclose(ranking.predict(NEW), regression.predict(NEW), rtol=1e-10)
    shifted = ranker(Loss("unit", 0.0), 7, refit).fit(X, Y + 10 * QID, qid=QID)
    np.testing.assert_allclose(
        shifted.coef_, ranker(Loss("unit", 0.0), 7, refit).fit(X, Y, qid=QID).coef_, rtol=1e-6
    )


def test_back_is_orthogonal_matching_pursuit():
    columns = PHI - PHI.mean(axis=0)
    lengths = np.linalg.norm(columns, axis=0)
    expected = orthogonal_mp(columns / lengths, Y - Y.mean(), n_nonzero_coefs=9) / lengths
    model = ranker(Loss(), 9).fit(X, Y)
    assert set(model.atoms_) == set(np.flatnonzero(expected))
    np.testing.assert_allclose(model.coef_, expected[model.atoms_], rtol=1e-7)


@every_refit
def test_training_loss_falls_and_order_of_rows_plays_no_part(refit):
    model = ranker(Loss("unit", 0.1), 10, refit).fit(X, Y, qid=QID, sample_weight=WEIGHTS)
    falls = np.diff(model.training_loss_)
    assert np.all(falls <= 1e-9)
    order = np.random.default_rng(0).permutation(N)
    turned = clone(model).fit(X[order], Y[order], qid=QID[order], sample_weight=WEIGHTS[order])
    np.testing.assert_array_equal(order[turned.steps_], model.steps_)
    np.testing.assert_allclose(turned.predict(NEW), model.predict(NEW), rtol=1e-7)


def test_of_equal_atoms_the_smallest_number_enters():
    twice = np.concatenate([X, X])
    model = ranker(Loss(), 6).fit(twice, np.tile(Y, 2), qid=np.tile(QID, 2))
    assert np.all(model.atoms_ < N)
    np.testing.assert_array_equal(model.atoms_, ranker(Loss(), 6).fit(X, Y, qid=QID).atoms_)


# ---------------------------------------------------------------- several near-optimal models


def alternatives(L, n_steps, refit, tries):
    """Greedy models one after the other: for every atom that may enter the model with it is made
    and its objective evaluated. None begins as another before it, or shares more than half of its
    atoms with it.
    """
    models = [pursue(PHI, Y, L, n_steps, refit)]
    lengths = np.einsum("ij,ik,kj->j", PHI, L, PHI)
    alive = np.flatnonzero(lengths > 1e-10 * lengths.max())
    for _ in range(tries):
        steps, weights, path = [], np.zeros(N), []
        while len(steps) < n_steps:
            found = []
            for atom in alive:
                if not may_enter(atom, steps, models, n_steps, refit):
                    continue
                if refit == "pre":
                    tried = refitted(PHI, Y, L, [*steps, atom])
                else:
                    tried = with_one_more(PHI, Y, L, weights, atom)
                found.append((objective(L, Y, PHI @ tried), atom, tried))
            least = min(value for value, _, _ in found)
            _, atom, weights = next(each for each in found if each[0] <= least * (1 + 1e-9))
            steps.append(atom)
            if refit == "back":
                weights = refitted(PHI, Y, L, steps)
            path.append(refitted(PHI, Y, L, steps) if refit == "final" else weights)
        losses = [objective(L, Y, PHI @ each) for each in path]
        models.append(Pursued(steps, np.asarray(path), np.asarray(losses)))
    return models


def may_enter(atom, steps, models, n_steps, refit):
    if refit in ("back", "pre") and atom in steps:
        return False
    for model in models:
        shared = {*steps, atom} & set(model.steps)
        if (not steps and atom == model.steps[0]) or len(shared) > n_steps // 2:
            return False
    return True


@every_refit
@pytest.mark.parametrize("n_steps", [1, 5])
def test_near_optimal_models_equal_literal_loops(refit, n_steps):
    model = ranker(Loss(), n_steps, refit, n_solutions=4, tolerance=9.0).fit(X, Y, qid=QID)
    expected = alternatives(laplacian(QID, Loss()), n_steps, refit, 3)
    expected.sort(key=lambda each: each.losses[-1])
    assert len(model.models_) == 4
    predictions = model.predict_solutions(NEW)
    for k, (own, literal) in enumerate(zip(model.models_, expected, strict=True)):
        (solution,) = own.solutions
        assert solution.atoms.tolist() == list(dict.fromkeys(literal.steps))
        np.testing.assert_allclose(own.objective, literal.losses[-1], rtol=1e-8)
        np.testing.assert_allclose(solution.coefficients, literal.weights[-1][solution.atoms])
        np.testing.assert_allclose(predictions[:, k], PHI_NEW @ literal.weights[-1], rtol=1e-7)
    np.testing.assert_array_equal(predictions[:, 0], model.predict(NEW))
    np.testing.assert_array_equal(model.atoms_, model.models_[0].solutions[0].atoms)
    np.testing.assert_allclose(model.training_loss_[-1], model.models_[0].objective)


def test_one_view_and_one_of_several_find_the_same_models():
    one = RankingPursuit(4, gamma=GAMMA, n_solutions=5, tolerance=2.0).fit(X, Y, qid=QID)
    views = CoRankingPursuit([View(gamma=GAMMA)], 4, 0.0, n_solutions=5, tolerance=2.0)
    views.fit(X, Y, qid=QID)
    np.testing.assert_allclose(
        one.predict_solutions(NEW), views.predict_solutions(NEW)[:, :, 0], rtol=1e-7
    )


def test_near_optimal_models_lie_within_the_tolerance():
    every = ranker(Loss(), 4, n_solutions=6, tolerance=9.0).fit(X, Y, qid=QID)
    losses = [own.objective for own in every.models_]
    bound = (losses[2] + losses[3]) / 2 / losses[0] - 1
    with pytest.warns(UserWarning, match=r"n_solutions: only \d of 60 models.*tolerance="):
        near = ranker(Loss(), 4, n_solutions=60, tolerance=bound).fit(X, Y, qid=QID)
    found = [own.objective for own in near.models_]
    assert 3 <= len(found) < 60
    assert found == sorted(found)
    assert found[-1] <= (1 + bound) * found[0]


@pytest.mark.parametrize("combine", ["best", "mean", "median"])
@pytest.mark.parametrize("form", ["rows", "matrix", "columns", "function"])
def test_solutions_are_combined_and_saved(combine, form, tmp_path, named_functions):
    register_kernel("bumps", bumps)
    options = {
        "rows": {},
        "matrix": {"dictionary": X[::-1] + 0.1},
        "columns": {"dictionary": "features", "kernel": "linear"},
        "function": {"dictionary": bumps},
    }[form]
    model = RankingPursuit(2, n_solutions=2, tolerance=9.0, combine=combine, **options)
    model.fit(X, Y, qid=QID)
    every = model.predict_solutions(NEW)
    expected = {"best": every[:, 0], "mean": every.mean(axis=1), "median": np.median(every, axis=1)}
    np.testing.assert_allclose(model.predict(NEW), expected[combine])
    again = round_trip(model, tmp_path / "several.corank")
    np.testing.assert_array_equal(again.predict_solutions(NEW), every)
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    if combine != "best":
        with pytest.raises(ValueError, match=f"combine='{combine}'; fit with combine='best'"):
            model.explain_pair(X[0], X[1])


def test_the_number_of_atoms_is_tuned_before_others_are_looked_for():
    greedy = ranker(Loss(), "tune").fit(X, Y, qid=QID)
    model = ranker(Loss(), "tune", n_solutions=3, tolerance=9.0).fit(X, Y, qid=QID)
    np.testing.assert_array_equal(model.path_.error, greedy.path_.error)
    assert [len(own.solutions[0].atoms) for own in model.models_] == [greedy.n_atoms_] * 3


# ---------------------------------------------------------------- comparisons

RNG = np.random.default_rng(11)
WINNERS, LOSERS = np.asarray(
    [pair for pair in RNG.integers(0, 20, size=(40, 2)) if pair[0] != pair[1]]
).T
MARGINS = np.where(RNG.random(len(WINNERS)) < 0.2, 0.0, RNG.uniform(0.2, 2.0, len(WINNERS)))
PAIR_WEIGHTS = RNG.uniform(0.3, 2.5, len(WINNERS))
PAIRS = {"margins": MARGINS, "weights": PAIR_WEIGHTS}
COMPARED = np.unique(np.concatenate([WINNERS, LOSERS]))


def compared(kept, points, n_steps, refit):
    """Σ w (margin − (f(winner) − f(loser)))² over some comparisons, pursued literally."""
    gaps = PHI[WINNERS[kept]][:, points] - PHI[LOSERS[kept]][:, points]
    return pursue(gaps, MARGINS[kept], np.diag(PAIR_WEIGHTS[kept]), n_steps, refit)


@every_refit
@pytest.mark.parametrize("form", ["held", "streamed"])
def test_comparisons_take_the_atoms_that_lower_the_pairwise_objective_most(refit, form, request):
    if form == "streamed":
        request.getfixturevalue("streamed")
    expected = compared(slice(None), COMPARED, 6, refit)
    model = RankingPursuit(6, refit, gamma=GAMMA).fit_comparisons(X, WINNERS, LOSERS, **PAIRS)
    np.testing.assert_array_equal(model.steps_, COMPARED[expected.steps])
    np.testing.assert_allclose(model.training_loss_, expected.losses, rtol=1e-8)
    np.testing.assert_allclose(
        model.predict_path(NEW), PHI_NEW[:, COMPARED] @ expected.weights.T, rtol=1e-7, atol=1e-8
    )


@every_refit
@pytest.mark.parametrize("scoring", ["squared", "rescaled", "disagreement"])
def test_held_out_comparisons_are_those_of_refitting(refit, scoring):
    """The items of comparisons that are held out are no atoms, unless others compare them too."""
    folds = np.arange(len(WINNERS)) % 4
    splits = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(4)]
    rows, errors = [], []
    for train, test in splits:
        points = np.unique(np.concatenate([WINNERS[train], LOSERS[train]]))
        weights = compared(train, points, 3, refit).weights
        gaps = (PHI[WINNERS[test]][:, points] - PHI[LOSERS[test]][:, points]) @ weights.T
        roots = np.sqrt(PAIR_WEIGHTS[test])[:, None]
        rows.append(roots * np.column_stack([MARGINS[test], gaps]))
        untied = MARGINS[test] > 0
        errors.append(np.where(gaps[untied] < 0, 1.0, 0.0))
    stacked = np.concatenate(rows)
    expected = {
        "squared": np.mean((stacked[:, :1] - stacked[:, 1:]) ** 2, axis=0),
        "rescaled": rescaled_losses(stacked) / len(WINNERS),
        "disagreement": np.concatenate(errors).mean(axis=0),
    }[scoring]
    model = RankingPursuit([1, 2, 3], refit, gamma=GAMMA, cv=splits, scoring=scoring)
    model.fit_comparisons(X, WINNERS, LOSERS, **PAIRS)
    np.testing.assert_allclose(model.path_.error, expected, rtol=1e-7)


@pytest.mark.parametrize("form", ["columns", "CSR", "rows"])
def test_comparisons_of_other_dictionaries(form, tmp_path):
    rows = np.asarray([21, 3, 8, 25, 1])
    options = {"dictionary": "features", "kernel": "linear"}
    features = sparse.csr_array(WIDE) if form == "CSR" else WIDE
    phi = WIDE
    if form == "rows":
        options, features, phi = {"dictionary": rows, "gamma": GAMMA}, X, PHI[:, rows]
    gaps = phi[WINNERS] - phi[LOSERS]
    expected = pursue(gaps, MARGINS, np.diag(PAIR_WEIGHTS), 4, "back")
    model = RankingPursuit(4, **options).fit_comparisons(features, WINNERS, LOSERS, **PAIRS)
    numbers = rows if form == "rows" else np.arange(9)
    np.testing.assert_array_equal(model.steps_, numbers[expected.steps])
    np.testing.assert_allclose(model.training_loss_, expected.losses, rtol=1e-8)
    again = round_trip(model, tmp_path / "pairs.corank")
    np.testing.assert_array_equal(again.predict(features), model.predict(features))


def test_comparisons_of_tensors_and_several_solutions():
    torch = pytest.importorskip("torch")
    model = RankingPursuit(3, gamma=GAMMA, n_solutions=2, tolerance=9.0, combine="median")
    expected = clone(model).fit_comparisons(X, WINNERS, LOSERS, **PAIRS).predict(NEW)
    model.fit_comparisons(torch.asarray(X), WINNERS, LOSERS, **PAIRS)
    np.testing.assert_allclose(model.predict(torch.asarray(NEW)), expected, rtol=1e-8)


def test_comparisons_have_no_scores_to_regress_on_and_may_be_ties_alone():
    with pytest.raises(ValueError, match="beta must be 0 for comparisons"):
        RankingPursuit(2, beta=0.5).fit_comparisons(X, WINNERS, LOSERS)
    with pytest.warns(UserWarning, match="margins, are the same"):
        model = RankingPursuit(2).fit_comparisons(X, WINNERS, LOSERS, margins=0 * MARGINS)
    assert not model.predict(NEW).any()
    frame = pd.DataFrame(X, index=[f"item {row}" for row in range(N)])
    named = RankingPursuit(2, gamma=GAMMA).fit_comparisons(frame, WINNERS, LOSERS)
    assert list(named.explain().names) == [f"item {row}" for row in named.atoms_]


# ---------------------------------------------------------------- hold-out

QUERIES_OUT = leave_groups_out(QID)
ITEMS_OUT = [
    (np.flatnonzero(np.arange(N) % 4 != k), np.flatnonzero(np.arange(N) % 4 == k)) for k in range(4)
]


@every_refit
@pytest.mark.parametrize("case", ["size", "unit, weighted", "blend"])
@pytest.mark.parametrize("scoring", ["squared", "rescaled", "disagreement"])
def test_held_out_errors_are_those_of_refitting_without_a_query(refit, case, scoring):
    loss, weights = LOSSES[case]
    model = ranker(loss, [1, 3, 5], refit, scoring=scoring).fit(
        X, Y, qid=QID, sample_weight=weights
    )
    score = {"squared": "loss"}.get(scoring, scoring)
    expected = held_out(PHI, Y, QUERIES_OUT, 5, refit, loss, qid=QID, weights=weights, score=score)
    np.testing.assert_array_equal(model.path_.n_atoms, [1, 3, 5])
    np.testing.assert_allclose(model.path_.error, expected[[0, 2, 4]], rtol=1e-7)
    if scoring != "rescaled":
        assert model.n_atoms_ == [1, 3, 5][int(np.argmin(expected[[0, 2, 4]]))]


@every_refit
@pytest.mark.parametrize("case", ["size", "unit, weighted", "query", "blend"])
def test_held_out_items_of_one_query_are_refitted(refit, case):
    loss, weights = LOSSES[case]
    model = ranker(loss, [1, 2, 4], refit, cv=ITEMS_OUT).fit(X, Y, sample_weight=weights)
    expected = held_out(PHI, Y, ITEMS_OUT, 4, refit, loss, weights=weights)
    np.testing.assert_allclose(model.path_.error, expected[[0, 1, 3]], rtol=1e-7)


@every_refit
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_a_regressor_takes_out_the_mean_of_the_rows_kept(refit, weights):
    model = MatchingPursuit([2, 4], refit, gamma=GAMMA, cv=ITEMS_OUT).fit(
        X, Y, sample_weight=weights
    )
    expected = held_out(
        PHI, Y, ITEMS_OUT, 4, refit, Loss(beta=1.0), weights=weights, intercept=True
    )
    np.testing.assert_allclose(model.path_.error, expected[[1, 3]], rtol=1e-7)


def test_splits_that_cut_queries_are_refitted_too():
    model = ranker(Loss("unit", 0.0), [1, 2, 3], cv=ITEMS_OUT).fit(X, Y, qid=QID)
    expected = held_out(PHI, Y, ITEMS_OUT, 3, "back", Loss("unit", 0.0), qid=QID)
    np.testing.assert_allclose(model.path_.error, expected, rtol=1e-7)


def test_splits_may_overlap_and_leave_rows_aside():
    splits = [
        (np.arange(20), np.arange(20, 28)),
        (np.arange(10, 31), np.arange(9)),
        (np.arange(8), np.arange(8, N)),
    ]
    model = MatchingPursuit([1, 2, 3], gamma=GAMMA, cv=splits).fit(X, Y)
    expected = held_out(PHI, Y, splits, 3, "back", Loss(beta=1.0), intercept=True)
    np.testing.assert_allclose(model.path_.error, expected, rtol=1e-7)


@pytest.mark.parametrize("refit", ["back", "pre"])
def test_tuning_ends_after_ten_steps_without_a_lower_error(refit):
    data = small_problem(seed=8, sizes=(12, 14, 13, 15), d=2)
    phi = kernel("rbf", 0.6)(data.X, data.X)
    model = RankingPursuit(refit=refit, gamma=0.6).fit(data.X, data.y, qid=data.qid)
    expected = held_out(phi, data.y, leave_groups_out(data.qid), 20, refit, Loss(), qid=data.qid)
    looked_at = stopped_after(expected)
    assert looked_at < 20, "the case is meant to end early"
    np.testing.assert_array_equal(model.path_.n_atoms, np.arange(1, looked_at + 1))
    np.testing.assert_allclose(model.path_.error, expected[:looked_at], rtol=1e-6)
    assert model.n_atoms_ == 1 + int(np.argmin(expected[:looked_at]))
    assert model.path_.best == model.n_atoms_ - 1


@pytest.mark.parametrize("cv", [LeaveOneGroupOut(), None], ids=["splitter", "own folds"])
def test_own_folds_are_whole_queries(cv):
    model = ranker(Loss(), "tune", cv=cv).fit(X, Y, qid=QID)
    expected = held_out(PHI, Y, QUERIES_OUT, len(model.path_.error), "back", Loss(), qid=QID)
    np.testing.assert_allclose(model.path_.error, expected, rtol=1e-6)


def test_own_folds_are_at_most_ten():
    data = small_problem(seed=4, sizes=(3,) * 40)
    model = ranker(Loss(), [2]).fit(data.X, data.y, qid=data.qid)
    assert np.isfinite(model.path_.standard_error).all()
    assert (
        clone(model).set_params(cv=GroupKFold(4)).fit(data.X, data.y, qid=data.qid).path_.error
        != model.path_.error
    )


@pytest.mark.parametrize("n_atoms", [4, "tune"])
def test_widths_are_tried_in_turn_and_the_best_of_all_is_taken(n_atoms):
    widths = [0.05, 0.4, 3.0]
    model = RankingPursuit(n_atoms, gamma=widths).fit(X, Y, qid=QID)
    single = [
        RankingPursuit([4] if n_atoms == 4 else n_atoms, gamma=width).fit(X, Y, qid=QID)
        for width in widths
    ]
    np.testing.assert_allclose(
        model.path_.error, np.concatenate([one.path_.error for one in single])
    )
    best = min(single, key=lambda one: one.path_.error.min())
    assert model.gamma_ == best.gamma_
    np.testing.assert_allclose(model.predict(NEW), best.predict(NEW))
    np.testing.assert_array_equal(np.unique(model.path_.gamma), widths)


def test_gamma_tune_tries_widths_around_the_scale():
    model = MatchingPursuit(3, gamma="tune").fit(X, Y)
    assert len(np.unique(model.path_.gamma)) == 7
    assert model.gamma_ in model.path_.gamma


@both
def test_too_little_to_hold_out_is_said(learner):
    few, n = (
        learner(fit_intercept=False) if learner is MatchingPursuit else learner(),
        1 + 2 * (learner is RankingPursuit),
    )
    with pytest.warns(
        UserWarning, match="n_atoms was not tuned: too little to hold anything out. It was set to"
    ):
        few.fit(X[:n], Y[:n])
    assert few.path_ is None
    assert few.n_atoms_ == max(n - 1, 1)


# ---------------------------------------------------------------- dictionaries


@every_refit
@pytest.mark.parametrize(
    "case", ["size", "unit, weighted", "blend of units, weighted", "pointwise"]
)
def test_streamed_is_in_memory(refit, case, request):
    loss, weights = LOSSES[case]
    models = [
        ranker(loss, n, refit, cv=cv) for n, cv in [(8, None), ([2, 4], None), ([2, 4], ITEMS_OUT)]
    ]
    held = [clone(model).fit(X, Y, qid=QID, sample_weight=weights) for model in models]
    request.getfixturevalue("streamed")
    for model, expected in zip(models, held, strict=True):
        found = model.fit(X, Y, qid=QID, sample_weight=weights)
        np.testing.assert_array_equal(found.steps_, expected.steps_)
        np.testing.assert_allclose(found.predict(NEW), expected.predict(NEW), rtol=1e-7)
        if expected.path_ is not None:
            np.testing.assert_allclose(found.path_.error, expected.path_.error, rtol=1e-7)


@pytest.mark.parametrize("form", ["held", "streamed"])
def test_rows_of_x_as_dictionary(form, request):
    if form == "streamed":
        request.getfixturevalue("streamed")
    y = np.where(np.arange(N) % 4 == 1, np.nan, Y)
    rows = np.array([30, 1, 5, 17, 9, 2])
    scored = np.flatnonzero(np.isfinite(y))
    phi = PHI[np.ix_(scored, rows)]
    expected = pursue(phi, y[scored], laplacian(QID[scored], Loss(), None), 4, "back")
    model = ranker(Loss(), 4, dictionary=rows).fit(X, y, qid=QID)
    np.testing.assert_array_equal(model.atoms_, rows[expected.steps])
    np.testing.assert_array_equal(model.basis_, rows[expected.steps])
    np.testing.assert_array_equal(model.basis_points_, X[model.atoms_])
    np.testing.assert_allclose(
        model.predict_path(NEW), PHI_NEW[:, rows] @ expected.weights.T, rtol=1e-8
    )
    listed = ranker(Loss(), 4, dictionary=rows.tolist()).fit(X, y, qid=QID)
    np.testing.assert_array_equal(listed.predict(NEW), model.predict(NEW))


def test_unscored_and_weightless_rows_are_no_atoms_of_their_own():
    y, weights = (
        np.where(np.arange(N) % 4 == 1, np.nan, Y),
        np.where(np.arange(N) % 5 == 2, 0.0, WEIGHTS),
    )
    kept = np.flatnonzero(np.isfinite(y) & (weights > 0))
    model = ranker(Loss(), 6).fit(X, y, qid=QID, sample_weight=weights)
    part = ranker(Loss(), 6).fit(X[kept], Y[kept], qid=QID[kept], sample_weight=weights[kept])
    np.testing.assert_array_equal(model.atoms_, kept[part.atoms_])
    np.testing.assert_allclose(model.predict(NEW), part.predict(NEW))


@pytest.mark.parametrize(
    "form", [np.asarray, sparse.csr_array, pd.DataFrame, pl.DataFrame, np.float32], ids=str
)
def test_points_as_dictionary(form):
    points = np.random.default_rng(2).normal(size=(12, 3))
    points = np.asarray(points, dtype=np.float32) if form is np.float32 else points
    given = points if form is np.float32 else form(points)
    phi = kernel("rbf", GAMMA)(X, points)
    expected = pursue(phi, Y, laplacian(QID, Loss(), None), 5, "pre")
    model = ranker(Loss(), 5, "pre", dictionary=given).fit(X, Y, qid=QID)
    same(model, expected, phi_new=kernel("rbf", GAMMA)(NEW, points))
    assert model.basis_ is None
    assert model.basis_points_.shape == (5, 3)


WIDE, WIDE_NEW = (np.random.default_rng(5).normal(size=(rows, 9)) for rows in (N, 7))
WIDE[:, 6] = 2.5  # constant: dead
WIDE[np.abs(WIDE) < 0.7] = 0


@every_refit
@pytest.mark.parametrize(
    "kind", [np.asarray, sparse.csr_array, sparse.csr_matrix], ids=["dense", "array", "matrix"]
)
@pytest.mark.parametrize(
    "case", ["size", "unit, weighted", "blend of units, weighted", "pointwise, weighted"]
)
def test_columns_as_dictionary(refit, kind, case):
    loss, weights = LOSSES[case]
    expected = pursue(WIDE, Y, laplacian(QID, loss, weights), 5, refit)
    model = ranker(loss, 5, refit, dictionary="features", kernel="linear")
    model.fit(kind(WIDE), Y, qid=QID, sample_weight=weights)
    same(model, expected, phi_new=WIDE_NEW, new=kind(WIDE_NEW))
    assert model.basis_points_ is None
    tuned = (
        clone(model)
        .set_params(n_atoms=[1, 2, 3], cv=ITEMS_OUT)
        .fit(kind(WIDE), Y, sample_weight=weights)
    )
    error = held_out(WIDE, Y, ITEMS_OUT, 3, refit, loss, weights=weights)
    np.testing.assert_allclose(tuned.path_.error, error, rtol=1e-7)


def bumps(X):
    """Values of five functions at any rows."""
    X = np.asarray(X.toarray() if sparse.issparse(X) else X)
    return np.stack(
        [np.sin(X[:, 0]), X[:, 1] ** 2, X[:, 0] * X[:, 2], np.tanh(X[:, 2]), np.ones(len(X))],
        axis=1,
    )


@every_refit
def test_a_function_as_dictionary(refit):
    expected = pursue(bumps(X), Y, laplacian(QID, Loss(), None), 3, refit)
    model = ranker(Loss(), 3, refit, dictionary=bumps).fit(X, Y, qid=QID)
    same(model, expected, phi_new=bumps(NEW))
    assert model.basis_ is None
    assert model.basis_points_ is None
    assert model.gamma_ is None
    found = (
        clone(model).set_params(dictionary=lambda X: sparse.csr_array(bumps(X))).fit(X, Y, qid=QID)
    )
    np.testing.assert_allclose(found.predict(NEW), model.predict(NEW))


@every_refit
def test_a_precomputed_kernel(refit):
    model = RankingPursuit(6, refit, kernel="precomputed").fit(PHI, Y, qid=QID)
    expected = ranker(Loss(), 6, refit).fit(X, Y, qid=QID)
    np.testing.assert_array_equal(model.atoms_, expected.atoms_)
    np.testing.assert_allclose(model.predict(PHI_NEW), expected.predict(NEW), rtol=1e-8)
    part = RankingPursuit(2, refit, kernel="precomputed", dictionary=[4, 7, 11]).fit(
        PHI, Y, qid=QID
    )
    assert set(part.atoms_) <= {4, 7, 11}


@pytest.mark.parametrize("name", ["linear", "poly", "cosine", "exponential", "laplacian"])
def test_other_kernels(name):
    phi, phi_new = (kernel(name, 0.3, 2, 1)(rows, X) for rows in (X, NEW))
    expected = pursue(phi, Y, laplacian(QID, Loss(), None), 3, "back")
    model = RankingPursuit(3, kernel=name, gamma=0.3, degree=2, coef0=1).fit(X, Y, qid=QID)
    same(model, expected, phi_new=phi_new)


def lopsided(X, Z):
    return np.exp(-((X[:, None, :] - 0.7 * Z[None, :, :]) ** 2).sum(axis=2))


@pytest.mark.parametrize("form", ["held", "streamed"])
def test_a_kernel_of_ones_own_may_be_lopsided(form, request):
    if form == "streamed":
        request.getfixturevalue("streamed")
    expected = pursue(lopsided(X, X), Y, laplacian(QID, Loss(), None), 4, "back")
    same(RankingPursuit(4, kernel=lopsided).fit(X, Y, qid=QID), expected, phi_new=lopsided(NEW, X))


@every_refit
@pytest.mark.parametrize("form", ["held", "streamed"])
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix], ids=["array", "matrix"])
def test_csr_features(refit, form, kind, request):
    dense, new = (np.where(np.abs(rows) > 0.5, rows, 0) for rows in (X, NEW))
    expected = ranker(Loss(), 5, refit).fit(dense, Y, qid=QID)
    if form == "streamed":
        request.getfixturevalue("streamed")
    model = ranker(Loss(), 5, refit).fit(kind(dense), Y, qid=QID)
    np.testing.assert_array_equal(model.steps_, expected.steps_)
    assert sparse.issparse(model.basis_points_)
    np.testing.assert_allclose(model.predict(kind(new)), expected.predict(new), rtol=1e-7)
    np.testing.assert_allclose(model.predict(new), expected.predict(new), rtol=1e-7)


@pytest.fixture(params=["torch", pytest.param("array_api_strict", marks=pytest.mark.slow)])
def library(request):
    return pytest.importorskip(request.param)


@every_refit
@pytest.mark.parametrize("form", ["held", "streamed"])
def test_other_libraries_give_what_numpy_gives(library, refit, form, request):
    loss, weights = LOSSES["blend of units, weighted"]
    models = [
        ranker(loss, 6, refit),
        ranker(loss, [2, 5], refit),
        ranker(loss, [2, 5], refit, cv=ITEMS_OUT),
        MatchingPursuit(
            "tune",
            refit,
            gamma=GAMMA,
            scoring="disagreement",
            cv=[(np.arange(20), np.arange(20, N))],
        ),
    ]
    expected = [clone(model).fit(X, Y, qid=QID, sample_weight=weights) for model in models]
    if form == "streamed":
        request.getfixturevalue("streamed")
    for model, own in zip(models, expected, strict=True):
        found = model.fit(library.asarray(X), library.asarray(Y), qid=QID, sample_weight=weights)
        assert type(found.predict(library.asarray(NEW))).__module__.startswith(library.__name__)
        assert type(found.coef_).__module__.startswith(library.__name__)
        np.testing.assert_array_equal(found.steps_, own.steps_)
        values = np.from_dlpack(found.predict_path(library.asarray(NEW)))
        np.testing.assert_allclose(values, own.predict_path(NEW), rtol=1e-7)


def test_dictionaries_of_other_libraries(library):
    X_own, y, new = (library.asarray(values) for values in (X, Y, NEW))
    points = X[:9] + 0.1
    for options in (
        {"dictionary": library.asarray(points)},
        {"dictionary": library.asarray([3, 4, 9, 1])},
    ):
        model = ranker(Loss(), 3, **options).fit(X_own, y, qid=QID)
        given = {"dictionary": np.from_dlpack(options["dictionary"])}
        expected = ranker(Loss(), 3, **given).fit(X, Y, qid=QID)
        np.testing.assert_allclose(
            np.from_dlpack(model.predict(new)), expected.predict(NEW), rtol=1e-8
        )
    columns = RankingPursuit(2, dictionary="features", kernel="linear")
    expected = columns.fit(X, Y, qid=QID).predict(NEW)
    np.testing.assert_allclose(
        np.from_dlpack(columns.fit(X_own, y, qid=QID).predict(new)), expected, rtol=1e-8
    )


def test_single_precision_features():
    X32, new = X.astype(np.float32), NEW.astype(np.float32)
    model = ranker(Loss(), 5).fit(X32, Y, qid=QID)
    assert model.predict(new).dtype == np.float32
    np.testing.assert_allclose(
        model.predict(new), ranker(Loss(), 5).fit(X, Y, qid=QID).predict(NEW), rtol=1e-4
    )


def test_memory_of_a_streamed_dictionary_does_not_grow_with_its_square(memory_limit, monkeypatch):
    monkeypatch.setattr(corank.solve.dictionary, "MAX_HELD_BYTES", 2**20)
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(3000, 3)), rng.normal(size=3000)
    with memory_limit(60):  # 72 MB as one array
        RankingPursuit(3).fit(rows, y, qid=np.arange(3000) // 10)


# ---------------------------------------------------------------- what is told


def test_explain_lists_atoms_in_order_of_entry():
    model = ranker(Loss(), [3, 6]).fit(X, Y, qid=QID)
    told = model.explain()
    assert told.names == tuple(f"row {row}" for row in model.atoms_)
    np.testing.assert_array_equal(told.weights, model.coef_)
    np.testing.assert_allclose(told.left, model.training_loss_[1:] / model.training_loss_[0])
    assert np.isnan(told.held_out[[0, 1]]).all()
    assert told.held_out[2] == model.path_.error[0]
    assert "row" in str(told)
    assert ranker(Loss(), 3).fit(X, Y, qid=QID).explain().held_out is None


def test_explain_of_repeated_steps():
    basic, final = (
        RankingPursuit(14, refit, gamma=0.1).fit(X, Y, qid=QID) for refit in ("basic", "final")
    )
    told = basic.explain()
    assert len(told) == 14
    np.testing.assert_allclose(
        np.bincount(told.atoms, told.weights, minlength=N)[basic.atoms_], basic.coef_
    )
    told = final.explain()
    assert told.atoms.tolist() == final.atoms_.tolist()
    np.testing.assert_array_equal(told.weights, final.coef_)


def test_names_of_atoms_come_from_the_table():
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=[f"item {i}" for i in range(N)])
    model = ranker(Loss(), 3).fit(frame, Y, qid=QID)
    assert model.explain().names == tuple(f"item {row}" for row in model.atoms_)
    numbered = ranker(Loss(), 3).fit(frame.set_index(np.arange(N) + 100), Y, qid=QID)
    assert numbered.explain().names == tuple(str(row + 100) for row in model.atoms_)
    unnamed = ranker(Loss(), 3).fit(frame.reset_index(drop=True), Y, qid=QID)
    assert unnamed.explain().names == tuple(f"row {row}" for row in model.atoms_)
    columns = RankingPursuit(2, dictionary="features", kernel="linear").fit(frame, Y, qid=QID)
    assert set(columns.explain().names) <= {"a", "b", "c"}
    plain = RankingPursuit(2, dictionary="features", kernel="linear").fit(X, Y, qid=QID)
    assert plain.explain().names[0] == f"column {plain.atoms_[0]}"
    points = ranker(Loss(), 2, dictionary=frame.iloc[:5]).fit(frame, Y, qid=QID)
    assert points.explain().names == tuple(f"item {row}" for row in points.atoms_)
    assert (
        ranker(Loss(), 2, dictionary=X[:5])
        .fit(X, Y, qid=QID)
        .explain()
        .names[0]
        .startswith("point ")
    )
    assert (
        ranker(Loss(), 2, dictionary=bumps)
        .fit(X, Y, qid=QID)
        .explain()
        .names[0]
        .startswith("atom ")
    )


@pytest.mark.parametrize("refit", ["back", "pre"])
def test_residual_zero_stops_early_and_is_said_once(refit):
    y = bumps(X)[:, [0, 2]] @ [2.0, -1.0]
    with pytest.warns(
        UserWarning, match="stopped at 2: these atoms match the scores exactly"
    ) as told:
        model = ranker(Loss(), 4, refit, dictionary=bumps).fit(X, y, qid=QID)
    assert len(told) == 1
    assert model.n_atoms_ == 2
    np.testing.assert_allclose(model.predict(X), y - y[0] + model.predict(X)[0], atol=1e-9)


@pytest.mark.parametrize("refit", ["back", "pre"])
def test_the_rank_of_the_comparison_ends_a_run(refit):
    with pytest.warns(
        UserWarning,
        match=r"n_atoms = 30, but the model stopped at \d+: .* The rows carry 26 at most",
    ):
        model = RankingPursuit(30, refit, gamma=2.0).fit(X, Y, qid=QID)
    assert model.n_atoms_ <= N - len(np.unique(QID))
    np.testing.assert_allclose(model.training_loss_[-1], 0, atol=1e-9 * model.training_loss_[0])


def test_dead_atoms_are_never_taken():
    # only one tells rows of a query apart
    values = np.column_stack([QID * 1.0, np.ones(N), 1e-9 * X[:, 0]])
    with pytest.warns(UserWarning, match="stopped at 1: no other atom lowers the loss"):
        model = RankingPursuit(3, dictionary="features", kernel="linear").fit(values, Y, qid=QID)
    assert model.atoms_.tolist() == [2]


@every_refit
@pytest.mark.parametrize("n_atoms", [3, "tune"])
def test_a_dictionary_that_tells_nothing_apart_gives_a_constant(refit, n_atoms, tmp_path):
    values = np.column_stack([QID * 1.0, np.ones(N), -2.0 * QID])
    model = RankingPursuit(n_atoms, refit, dictionary="features", kernel="linear")
    with pytest.warns(UserWarning, match="dictionary: no atom tells the rows apart"):
        model.fit(values, Y, qid=QID)
    assert model.n_atoms_ == 0
    np.testing.assert_array_equal(model.predict(values), np.zeros(N))
    assert model.predict_path(values).shape == (N, 0)
    assert len(model.explain()) == 0
    np.testing.assert_array_equal(round_trip(model, tmp_path / "m").predict(values), np.zeros(N))


@both
@pytest.mark.parametrize("n_atoms", [3, "tune"])
def test_scores_that_are_all_alike_give_a_constant(learner, n_atoms):
    with pytest.warns(UserWarning, match="the model is constant") as told:
        model = learner(n_atoms).fit(X, np.full(N, 0.1), qid=QID, sample_weight=WEIGHTS)
    assert len(told) == 1
    np.testing.assert_allclose(model.predict(NEW), 0.1 if learner is MatchingPursuit else 0.0)
    assert model.basis_points_.shape == (0, 3)
    np.testing.assert_array_equal(model.predict(sparse.csr_array(NEW)), model.predict(NEW))


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_atoms": 0}, "n_atoms must be .* got 0"),
        ({"n_atoms": [3, -1]}, r"n_atoms must be .* got \[3, -1\]"),
        ({"n_atoms": 2.5}, "n_atoms must be 'tune', .* got 2.5"),
        ({"n_atoms": True}, "n_atoms must be 'tune', a whole number"),
        ({"n_atoms": None}, "n_atoms must be 'tune', a whole number"),
        ({"n_atoms": []}, "n_atoms must be 'tune', a whole number"),
        ({"n_atoms": "tuned"}, "n_atoms must be 'tune', .* got 'tuned'"),
        ({"n_atoms": N + 1}, f"n_atoms = {N + 1} is more than the dictionary holds: {N} "),
        (
            {"n_atoms": [2, 5], "dictionary": [0, 1, 2]},
            "n_atoms = 5 is more than the dictionary holds: 3 ",
        ),
        ({"refit": "bak"}, "refit 'bak' is not known; use 'back' or 'basic' or 'final' or 'pre'"),
        ({"scoring": "r2"}, "scoring 'r2' is not known"),
        ({"gamma": "tuned"}, "gamma 'tuned' is not known"),
        ({"kernel": "rbff"}, "kernel 'rbff' is not known"),
        ({"dictionary": "feature"}, "dictionary 'feature' is not known; use None, row indices"),
        (
            {"dictionary": "features"},
            "dictionary='features' needs kernel='linear', got kernel='rbf'",
        ),
        ({"dictionary": [0, 99]}, f"dictionary holds row 99, but X has rows 0 to {N - 1}"),
        ({"dictionary": [-1, 2]}, "dictionary holds row -1"),
        ({"dictionary": [1, 2, 1]}, "dictionary holds the same row index twice"),
        ({"dictionary": [0.5, 2.0]}, "dictionary with one dimension must be row indices of X"),
        ({"dictionary": []}, "dictionary with one dimension must be row indices of X"),
        ({"dictionary": 5}, "dictionary must be None, row indices"),
        ({"dictionary": np.ones((4, 2))}, "dictionary has 2 columns, but X has 3"),
        ({"dictionary": np.full((4, 3), np.nan)}, "dictionary: X contains NaN"),
        (
            {"dictionary": lambda X: X[:5]},
            r"dictionary must return a matrix of shape \(32, N\) for 32 rows",
        ),
        ({"dictionary": lambda X: X[:, 0]}, r"dictionary must return a matrix of shape \(32, N\)"),
        ({"dictionary": lambda X: X / 0.0}, "dictionary gives NaN or infinity"),
        ({"cv": [([0, 1], [])], "n_atoms": "tune"}, "cv gives no split"),
    ],
    ids=lambda value: str(value).split(" at 0x")[0],  # every process has a function elsewhere
)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_bad_parameters_are_refused(options, message):
    for learner in (MatchingPursuit, RankingPursuit):
        with pytest.raises(ValueError, match=message):
            learner(**{"n_atoms": 3, **options}).fit(X, Y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beta": 1.5}, "beta must lie between 0"),
        ({"weighting": "pairs"}, "weighting 'pairs' is not known"),
        ({"n_solutions": 0}, "n_solutions must be a whole number from 1, got 0"),
        ({"tolerance": -1}, "tolerance must be a number from 0, got -1"),
        ({"tolerance": np.inf}, "tolerance must be a number from 0, got inf"),
        ({"combine": "views"}, "combine 'views'.*'best' or 'mean' or 'median'"),
        ({"combine": [1.0]}, "combine"),
    ],
)
def test_bad_comparisons_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        RankingPursuit(3, **options).fit(X, Y)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_other_bad_input_is_refused():
    with pytest.raises(ValueError, match="sample_weight does not go with weighting='query'"):
        RankingPursuit(3, weighting="query").fit(X, Y, sample_weight=WEIGHTS)
    with pytest.raises(ValueError, match="None or row indices for kernel='precomputed'"):
        RankingPursuit(3, kernel="precomputed", dictionary=np.ones((4, N))).fit(PHI, Y)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    with pytest.raises(ValueError, match="other column names than X"):
        RankingPursuit(3, dictionary=frame[["b", "a", "c"]]).fit(frame, Y)
    with pytest.raises(ValueError, match="kernel gives NaN or infinity"):
        RankingPursuit(3, kernel="poly", degree=2, gamma=1e200).fit(X, Y)
    growing = RankingPursuit(3, dictionary=lambda X: np.vander(X[:, 0], len(X))).fit(X, Y)
    with pytest.raises(ValueError, match=rf"shape \(9, {N}\) for 9 rows, got \(9, 9\)"):
        growing.predict(NEW)


def test_more_steps_than_atoms_where_atoms_may_come_again():
    model = RankingPursuit(9, "basic", dictionary=[0, 1, 2, 3], gamma=GAMMA).fit(X, Y, qid=QID)
    assert model.n_atoms_ == 9
    assert len(model.atoms_) <= 4


@both
def test_update_is_refused_with_a_word_on_why(learner):
    model = learner(3).fit(X, Y)
    with pytest.raises(ValueError, match=r"update.*fit again with all rows"):
        model.update(X, Y)


def test_tensors_and_csr_do_not_mix():
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="dictionary is a CSR matrix, but X is a tensor"):
        RankingPursuit(2, dictionary=sparse.csr_array(X[:5])).fit(
            torch.asarray(X), torch.asarray(Y)
        )


# ---------------------------------------------------------------- files, copies, scikit-learn

MODELS = {
    "rows": RankingPursuit(4, "pre", gamma=[0.2, GAMMA]),
    "tuned regressor": MatchingPursuit("tune", "basic", gamma=GAMMA),
    "row indices": RankingPursuit(
        [2, 3], "final", dictionary=[3, 8, 9, 11], weighting="unit", beta=0.5
    ),
    "points": MatchingPursuit(3, dictionary=X[:9] + 0.5),
    "columns": RankingPursuit(2, dictionary="features", kernel="linear"),
}


@pytest.mark.parametrize("name", MODELS)
def test_save_load_pickle_and_clone(name, tmp_path):
    model = clone(MODELS[name]).fit(pd.DataFrame(X, columns=["a", "b", "c"]), Y, qid=QID)
    new = pd.DataFrame(NEW, columns=["a", "b", "c"])
    for copy in (round_trip(model, tmp_path / "model.corank"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copy.predict(new), model.predict(new))
        np.testing.assert_array_equal(copy.predict_path(new), model.predict_path(new))
        assert str(copy.explain()) == str(model.explain())
        assert list(copy.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_allclose(
        clone(model).fit(X, Y, qid=QID).predict(NEW), model.predict(new), rtol=1e-10
    )


def test_csr_and_precomputed_models_are_saved(tmp_path):
    dense = np.where(np.abs(X) > 0.5, X, 0)
    model = ranker(Loss(), 4).fit(sparse.csr_array(dense), Y, qid=QID)
    np.testing.assert_array_equal(
        round_trip(model, tmp_path / "csr").predict(NEW), model.predict(NEW)
    )
    model = RankingPursuit(4, kernel="precomputed").fit(PHI, Y, qid=QID)
    np.testing.assert_array_equal(
        round_trip(model, tmp_path / "kernel").predict(PHI_NEW), model.predict(PHI_NEW)
    )


def test_a_function_is_saved_by_its_registered_name(tmp_path, named_functions):
    model = ranker(Loss(), 3, dictionary=bumps).fit(X, Y, qid=QID)
    with pytest.raises(ValueError, match="function without a name of its own"):
        model.save(tmp_path / "m")
    register_kernel("bumps", bumps)
    copy = round_trip(model, tmp_path / "m")
    np.testing.assert_array_equal(copy.predict(NEW), model.predict(NEW))
    np.testing.assert_array_equal(
        ranker(Loss(), 3, dictionary="bumps").fit(X, Y, qid=QID).coef_, model.coef_
    )


def test_a_saved_model_holds_its_atoms_only(tmp_path):
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(1500, 20)), rng.normal(size=1500)
    MatchingPursuit(10).fit(rows, y).save(tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < 10_000


def test_one_is_a_regressor_and_one_is_not():
    assert is_regressor(MatchingPursuit())
    assert not is_regressor(RankingPursuit())


def test_a_search_over_parameters():
    search = GridSearchCV(
        MatchingPursuit(gamma=GAMMA), {"n_atoms": [1, 4], "refit": ["back", "pre"]}, cv=3
    )
    assert search.fit(X, Y).best_estimator_.n_atoms_ in (1, 4)


@every_refit
def test_a_column_of_much_larger_size_does_not_hide_the_others(refit):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 4))
    scores, qid = rows[:, 0] + 0.1 * rng.normal(size=60), np.repeat(np.arange(12), 5)
    model = RankingPursuit(1, refit, dictionary="features", kernel="linear").fit(
        rows * [1, 1, 1, 1e7], scores, qid=qid
    )
    np.testing.assert_array_equal(model.atoms_, [0])


def test_explanation_does_not_follow_parameters_that_change_after_the_fit():
    model = RankingPursuit(20, "basic", gamma=GAMMA).fit(X, Y, qid=QID)
    told = str(model.explain())
    assert str(model.set_params(refit="back").explain()) == told


def test_a_file_keeps_rows_and_named_functions_as_dictionary(tmp_path):
    register_kernel("bumps", bumps)
    for given, kept in (([3, 5, 8], [3, 5, 8]), (bumps, "bumps"), (X[:9], None)):
        model = RankingPursuit(2, gamma=GAMMA, dictionary=given).fit(X, Y, qid=QID)
        model.save(tmp_path / "m.corank", overwrite=True)
        assert load(tmp_path / "m.corank").dictionary == kept
