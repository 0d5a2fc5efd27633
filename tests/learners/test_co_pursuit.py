"""CoRankingPursuit against a loop over all combinations of atoms that evaluates the stated
objective.
"""

import pickle
import warnings
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from brute_force import Loss, laplacian
from brute_force.co_pursuit import CoPursuit, Steps, left_out
from brute_force.views import Look, item_folds, mean_error, rbf, small_views
from edited_files import round_trip
from scipy import sparse
from sklearn.base import clone, is_regressor
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut

from corank import View, random_bases
from corank.learners.co_pursuit import CoRankingPursuit
from corank.solve import atom_search, co_pursuit
from corank.solve.pursuit import PATIENCE_STEPS
from corank.solve.tuning import AGREEMENTS

pytestmark = pytest.mark.usefixtures("one_blas_thread")

P = small_views(seed=2)
X, Y, QID, W, NEW, SCORED = P.X, P.y, P.qid, P.weights, P.X_new, P.scored
APART = {"unscored": P.apart, "unscored_qid": P.apart_qid}
VIEWS = [View(slice(0, 3), gamma=0.5, name="left"), View(slice(3, 6), gamma=0.4, name="right")]
THREE = [View(slice(k, k + 2), gamma=0.5) for k in (0, 2, 4)]
ALIKE = [View(gamma=0.5), View(gamma=0.5)]

searches = pytest.mark.parametrize("search", ["full", "tied"])
objectives = pytest.mark.parametrize("objective", ["exact", "paper"])
refits = pytest.mark.parametrize("refit", ["back", "basic", "final"])


def looks(views=VIEWS, rows=SCORED, points=X):
    return [Look(view.columns or slice(None), rbf(view.gamma), points[rows]) for view in views]


def labels_of(model, rows=SCORED):
    """The atoms as positions in the dictionary: (p, M)."""
    return np.stack([np.searchsorted(rows, own) for own in model.steps_], axis=1)


def check(model, reference, steps):
    """Every step, weight, value of the objective and prediction."""
    np.testing.assert_array_equal(labels_of(model), steps.labels)
    np.testing.assert_allclose(model.objective_, steps.objective, rtol=1e-9, atol=1e-9)
    for number, path in enumerate(model.predict_path(NEW).T, start=1):
        np.testing.assert_allclose(
            path, reference.predict(steps, number, NEW).mean(axis=1), atol=1e-8
        )
    np.testing.assert_allclose(
        model.predict_views(NEW), reference.predict(steps, len(steps.labels), NEW), atol=1e-8
    )
    np.testing.assert_allclose(
        model.predict(NEW), model.predict_views(NEW).mean(axis=1), atol=1e-12
    )


def objective_of(model, views, agreement, loss, points=X, y=Y, qid=QID, weights=None, **apart):
    """Eq. (3), from nothing but predictions."""
    reference = CoPursuit(
        looks(views, points=points), points, y, agreement, loss, qid=qid, weights=weights, **apart
    )
    scored = ~np.isnan(y)
    shared = [points[~scored]] + ([apart["unscored"]] if apart else [])
    return reference.objective(
        model.predict_views(points[scored]).T, model.predict_views(np.concatenate(shared)).T
    )


# ------------------------------------------------------------------ every mode against the loop


@searches
@objectives
@refits
def test_every_mode_takes_the_steps_of_the_loop(search, objective, refit):
    options = {"qid": QID, **APART}
    reference = CoPursuit(looks(), X, Y, 0.7, Loss("unit"), weights=W, **options)
    model = CoRankingPursuit(VIEWS, 4, 0.7, objective, search, refit, weighting="unit")
    model.fit(X, Y, sample_weight=W, **options)
    check(model, reference, reference.pursue(4, objective, search, refit))


@pytest.mark.parametrize(
    "loss", [Loss("size"), Loss("query"), Loss("size", 0.3), Loss("unit", 1.0)], ids=str
)
@searches
def test_every_loss(loss, search):
    reference = CoPursuit(looks(), X, Y, 0.7, loss, qid=QID)
    model = CoRankingPursuit(
        VIEWS, 3, 0.7, search=search, weighting=loss.weighting, beta=loss.beta
    ).fit(X, Y, qid=QID)
    check(model, reference, reference.pursue(3, search=search))


def test_one_query_without_a_name():
    reference = CoPursuit(looks(), X, Y, 0.2, Loss("size"))
    check(CoRankingPursuit(VIEWS, 3, 0.2).fit(X, Y), reference, reference.pursue(3))


@objectives
@refits
def test_three_views_with_tied_atoms(objective, refit):
    reference = CoPursuit(looks(THREE), X, Y, 0.3, Loss("size"), qid=QID, **APART)
    model = CoRankingPursuit(THREE, 5, 0.3, objective, "tied", refit).fit(X, Y, qid=QID, **APART)
    check(model, reference, reference.pursue(5, objective, "tied", refit))


def test_basic_takes_an_atom_again():
    model = CoRankingPursuit(VIEWS, 25, 0.7, refit="basic").fit(X, Y, qid=QID)
    reference = CoPursuit(looks(), X, Y, 0.7, qid=QID)
    steps = reference.pursue(25, refit="basic")
    check(model, reference, steps)
    assert model.n_atoms_ == 25 > len(SCORED) >= len(model.basis_[0])
    np.testing.assert_array_equal(model.atoms_[0], list(dict.fromkeys(model.steps_[0].tolist())))
    assert (
        len(model.atoms_[0])
        == len(model.basis_[0])
        == len(model.coef_[0])
        == len(model.basis_points_[0])
    )


def test_scores_of_each_view():
    y = P.own_scores[:, :2]
    rows = [np.flatnonzero(~np.isnan(y[:, v])) for v in range(2)]
    own = [Look(view.columns, rbf(view.gamma), X[r]) for view, r in zip(VIEWS, rows, strict=True)]
    reference = CoPursuit(own, X, y, 0.5, Loss("size"), qid=QID)
    model = CoRankingPursuit(VIEWS, 3, 0.5).fit(X, y, qid=QID)
    steps = reference.pursue(3)
    found = np.stack(
        [np.searchsorted(r, atoms) for r, atoms in zip(rows, model.steps_, strict=True)], axis=1
    )
    np.testing.assert_array_equal(found, steps.labels)
    np.testing.assert_allclose(
        model.predict_views(NEW), reference.predict(steps, 3, NEW), atol=1e-8
    )
    assert CoRankingPursuit(VIEWS, [1, 3], [0.0, 0.5]).fit(X, y, qid=QID).path_.error.shape == (4,)
    with pytest.raises(ValueError, match="objective='paper' has one residual"):
        CoRankingPursuit(VIEWS, 3, 0.5, "paper").fit(X, y, qid=QID)


# ------------------------------------------------------------------ the objective


@searches
@refits
def test_exact_steps_decrease_the_objective_that_predictions_have(search, refit):
    loss = Loss("size", 0.2)
    for number in (1, 3, 6):
        model = CoRankingPursuit(VIEWS, number, 2.0, "exact", search, refit, beta=0.2)
        model.fit(X, Y, qid=QID, sample_weight=W, **APART)
        value = objective_of(model, VIEWS, 2.0, loss, weights=W, **APART)
        np.testing.assert_allclose(model.objective_[-1], value, rtol=1e-9)
        falls = -np.diff(model.objective_)
        # an atom that comes again adds nothing to a refit
        assert np.all(falls > (-1e-9 if refit == "final" else 0))


def test_the_printed_steps_may_increase_it():
    model = CoRankingPursuit(VIEWS, 30, 0.01, "paper", refit="basic").fit(X, Y, qid=QID)
    assert np.any(np.diff(model.objective_) > 0)
    np.testing.assert_allclose(
        model.objective_[-1], objective_of(model, VIEWS, 0.01, Loss("size")), rtol=1e-9
    )


@pytest.mark.parametrize("agreement", [0.0, 3.0])
@objectives
@refits
def test_tied_equals_full_and_plain_pursuit_where_views_are_identical(agreement, objective, refit):
    models = [
        CoRankingPursuit(ALIKE, 4, agreement, objective, search, refit)
        for search in ("full", "tied")
    ]
    full, tied = (model.fit(X, Y, qid=QID) for model in models)
    np.testing.assert_array_equal(full.steps_, tied.steps_)
    np.testing.assert_allclose(full.predict_views(NEW), tied.predict_views(NEW), atol=1e-9)
    atoms, weights = ranking_pursuit(
        rbf(0.5)(X[SCORED], X[SCORED]), Y[SCORED], QID[SCORED], 4, refit
    )
    np.testing.assert_array_equal(labels_of(tied), np.stack([atoms, atoms], axis=1))
    np.testing.assert_allclose(
        tied.predict(NEW), rbf(0.5)(NEW, X[SCORED[atoms]]) @ weights, atol=1e-8
    )


@refits
def test_without_agreement_every_view_pursues_by_itself(refit):
    model = CoRankingPursuit(VIEWS, 5, 0.0, refit=refit).fit(X, Y, qid=QID, **APART)
    for v, look in enumerate(looks()):
        atoms, weights = ranking_pursuit(look.values(X[SCORED]), Y[SCORED], QID[SCORED], 5, refit)
        np.testing.assert_array_equal(model.steps_[v], SCORED[atoms])
        np.testing.assert_allclose(
            model.predict_views(NEW)[:, v], look.values(NEW)[:, atoms] @ weights, atol=1e-8
        )


def ranking_pursuit(D, scores, qid, n_steps, refit):
    """003 Fig. 1 as a loop over candidates; back-fitting by a general least-squares solver."""
    L = laplacian(qid, Loss("size"))
    root = np.linalg.cholesky(L + 1e-13 * np.eye(len(L))).T
    atoms, weights = [], np.zeros(0)
    for _ in range(n_steps):
        residual = scores - D[:, atoms] @ weights
        best, least, step = None, np.inf, 0.0
        for k in range(D.shape[1]):
            size = D[:, k] @ L @ D[:, k]
            if (refit == "back" and k in atoms) or size < 1e-9:
                continue
            a = D[:, k] @ L @ residual / size
            rest = residual - a * D[:, k]
            if rest @ L @ rest < least - 1e-11:
                best, least, step = k, rest @ L @ rest, a
        atoms, weights = [*atoms, best], np.append(weights, step)
        if refit == "back":
            weights = np.linalg.lstsq(root @ D[:, atoms], root @ scores, rcond=None)[0]
    if refit == "final":
        weights = np.linalg.lstsq(root @ D[:, atoms], root @ scores, rcond=1e-10)[0]
    return atoms, weights


def test_more_steps_go_on_from_fewer():
    long, short = (CoRankingPursuit(VIEWS, number, 0.7).fit(X, Y, qid=QID) for number in (7, 4))
    np.testing.assert_array_equal([own[:4] for own in long.steps_], short.steps_)
    np.testing.assert_allclose(long.predict_path(NEW)[:, 3], short.predict(NEW), atol=1e-10)
    np.testing.assert_allclose(long.predict_path(NEW)[:, -1], long.predict(NEW), atol=1e-12)
    np.testing.assert_allclose(long.objective_[:5], short.objective_)


# ------------------------------------------------------------------ three views, other atoms each

FEW = [np.asarray([3, 0, 9, 20, 5]), np.asarray([2, 7, 11, 13]), np.asarray([1, 4, 6, 8, 10])]
OTHER_ATOMS = [
    View(view.columns, gamma=view.gamma, basis=rows) for view, rows in zip(THREE, FEW, strict=True)
]


def three_looks():
    return [
        Look(view.columns, rbf(view.gamma), X[rows]) for view, rows in zip(THREE, FEW, strict=True)
    ]


def check_three(model, reference, steps):
    labels = [rows[own] for rows, own in zip(FEW, steps.labels.T, strict=True)]
    np.testing.assert_array_equal(model.steps_, labels)
    np.testing.assert_allclose(model.objective_, steps.objective, rtol=1e-9)
    np.testing.assert_allclose(
        model.predict_views(NEW), reference.predict(steps, len(steps.labels), NEW), atol=1e-8
    )


@objectives
@refits
def test_all_combinations_of_three_views_equal_the_loop(objective, refit):
    reference = CoPursuit(three_looks(), X, Y, 0.3, Loss("size"), qid=QID, **APART)
    model = CoRankingPursuit(OTHER_ATOMS, 3, 0.3, objective, refit=refit).fit(
        X, Y, qid=QID, **APART
    )
    check_three(model, reference, reference.pursue(3, objective, "full", refit))
    assert model.search_ == "full"


def test_every_coordinate_wise_step_is_one_that_no_view_alone_can_better():
    """Literally: after as many steps, every step with another atom in one view lowers F by less."""
    reference = CoPursuit(three_looks(), X, Y, 0.3, Loss("size"), qid=QID, **APART)
    model = CoRankingPursuit(OTHER_ATOMS, 3, 0.3, search="coordinate", refit="basic").fit(
        X, Y, qid=QID, **APART
    )
    positions = [
        [rows.tolist().index(atom) for atom in own]
        for rows, own in zip(FEW, model.steps_, strict=True)
    ]
    labels = np.stack(positions, axis=1)
    running = np.zeros((0, 3))
    for number, row in enumerate(labels):
        f, f_bar = reference.values(labels[:number], running)
        weights, least = reference.candidate(row, "exact", f, f_bar)
        for view in range(3):
            for atom in range(len(FEW[view])):
                other = [atom if v == view else own for v, own in enumerate(row)]
                _, cost = reference.candidate(other, "exact", f, f_bar)
                assert cost >= least - 1e-9 * model.objective_[0]
        running = np.vstack([running, weights])
        np.testing.assert_allclose(model.objective_[number + 1], least, rtol=1e-9)
    assert model.search_ == "coordinate"


def test_too_many_combinations_are_searched_one_view_after_the_other(monkeypatch, tmp_path):
    asked = CoRankingPursuit(OTHER_ATOMS, 3, 0.3, search="coordinate").fit(X, Y, qid=QID)
    monkeypatch.setattr(co_pursuit, "MAX_COMBINATIONS", 99)
    with pytest.warns(UserWarning, match="search='full' would try more than"):
        model = CoRankingPursuit(OTHER_ATOMS, 3, 0.3).fit(X, Y, qid=QID)
    assert model.search_ == "coordinate"
    np.testing.assert_array_equal(model.predict(NEW), asked.predict(NEW))
    assert round_trip(model, tmp_path / "three.corank").search_ == "coordinate"
    assert CoRankingPursuit(VIEWS, 2, 0.3).fit(X, Y, qid=QID).search_ == "full"


def test_three_views_without_agreement_pursue_by_themselves():
    model = CoRankingPursuit(THREE, 3, 0.0).fit(X, Y, qid=QID)
    for v, look in enumerate(looks(THREE)):
        atoms, _ = ranking_pursuit(look.values(X[SCORED]), Y[SCORED], QID[SCORED], 3, "back")
        np.testing.assert_array_equal(model.steps_[v], SCORED[atoms])


@pytest.mark.parametrize("search", ["full", "coordinate"])
def test_views_that_need_not_agree_with_others_pursue_by_themselves(search):
    bonds = np.asarray([[0.0, 0.6, 0.0], [0.6, 0.0, 0.0], [0.0, 0.0, 0.0]])
    model = CoRankingPursuit(OTHER_ATOMS, 3, bonds, search=search).fit(X, Y, qid=QID)
    pair = CoRankingPursuit(OTHER_ATOMS[:2], 3, 0.6, search=search).fit(X, Y, qid=QID)
    alone = CoRankingPursuit(OTHER_ATOMS[2:], 3, 0.0).fit(X, Y, qid=QID)
    np.testing.assert_array_equal(model.steps_, [*pair.steps_, *alone.steps_])
    expected = np.column_stack([pair.predict_views(NEW), alone.predict_views(NEW)])
    np.testing.assert_allclose(model.predict_views(NEW), expected, atol=1e-8)


# ------------------------------------------------------------------ agreement on scored rows


@pytest.mark.parametrize("apart", [APART, {}], ids=["unscored rows apart", "of X only"])
def test_views_agree_on_scored_rows_where_that_is_asked_for(apart):
    """As if the scored rows were handed over once more, in queries of their own."""
    rows = [*apart.get("unscored", X[:0]), *X[SCORED]]
    labels = [*(100 + q for q in apart.get("unscored_qid", [])), *QID[SCORED]]
    reference = CoPursuit(
        looks(), X, Y, 0.7, qid=QID, unscored=np.asarray(rows), unscored_qid=labels
    )
    model = CoRankingPursuit(VIEWS, 4, 0.7, agree_on="all").fit(X, Y, qid=QID, **apart)
    check(model, reference, reference.pursue(4))
    assert model.n_unscored == np.isnan(Y).sum() + len(apart.get("unscored", []))


def test_without_unscored_rows_views_can_agree_on_scored_ones():
    x, y, qid = X[SCORED], Y[SCORED], QID[SCORED]
    reference = CoPursuit(looks(), x, y, 0.7, qid=qid, unscored=x, unscored_qid=qid)
    steps = reference.pursue(3)
    model = CoRankingPursuit(VIEWS, 3, 0.7, agree_on="all").fit(x, y, qid=qid)
    np.testing.assert_array_equal(np.stack(model.steps_, axis=1), steps.labels)
    np.testing.assert_allclose(model.objective_, steps.objective, rtol=1e-9)
    assert model.agreement_ == 0.7


def test_scored_rows_that_are_held_out_stay_among_those_to_agree_on():
    splits = [
        (SCORED[QID[SCORED] != q], SCORED[QID[SCORED] == q]) for q in dict.fromkeys(QID[SCORED])
    ]
    again = {"unscored": X[SCORED], "unscored_qid": QID[SCORED]}
    parts = left_out(looks(), X, Y, splits, [0.7], [1, 3], Loss("size"), qid=QID, **again)
    model = CoRankingPursuit(VIEWS, [1, 3], 0.7, scoring="squared", agree_on="all")
    model.fit(X, Y, qid=QID)
    np.testing.assert_allclose(model.path_.error, mean_error(parts, "loss"), rtol=1e-8)


# ------------------------------------------------------------------ comparisons

WINNERS = np.asarray([3, 9, 20, 3, 14, 9, 0, 20])
LOSERS = np.asarray([0, 5, 3, 5, 3, 14, 14, 9])
MARGINS = np.asarray([1.0, 0.5, 0.0, 2.0, 1.5, 1.0, 0.3, 0.7])
PAIR_WEIGHTS = np.asarray([1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 0.7, 1.0])
COMPARED = np.unique(np.concatenate([WINNERS, LOSERS]))


class ComparedViews(CoPursuit):
    """Σ_v Σ w (margin − (f_v(winner) − f_v(loser)))² beside the disagreement on rows that are not
    compared.
    """

    def __init__(self, own_looks, pairs, agreement, **apart):
        y = np.where(np.isin(np.arange(len(X)), COMPARED), 0.0, np.nan)
        super().__init__(own_looks, X, y, agreement, **apart)
        self.scores = [MARGINS[pairs] for _ in own_looks]
        self.L = [np.diag(PAIR_WEIGHTS[pairs]) for _ in own_looks]
        self.D = [
            look.values(X[WINNERS[pairs]]) - look.values(X[LOSERS[pairs]]) for look in own_looks
        ]


def compared_looks(pairs=slice(None)):
    rows = np.unique(np.concatenate([WINNERS[pairs], LOSERS[pairs]]))
    return rows, looks(rows=rows)


@searches
@refits
def test_comparisons_take_the_steps_of_the_loop(search, refit, tmp_path):
    rows, own_looks = compared_looks()
    reference = ComparedViews(own_looks, slice(None), 0.4, **APART)
    steps = reference.pursue(3, search=search, refit=refit)
    model = CoRankingPursuit(VIEWS, 3, 0.4, search=search, refit=refit)
    model.fit_comparisons(X, WINNERS, LOSERS, margins=MARGINS, weights=PAIR_WEIGHTS, **APART)
    np.testing.assert_array_equal(labels_of(model, rows), steps.labels)
    np.testing.assert_allclose(model.objective_, steps.objective, rtol=1e-9)
    np.testing.assert_allclose(
        model.predict_views(NEW), reference.predict(steps, 3, NEW), atol=1e-8
    )
    again = round_trip(model, tmp_path / "pairs.corank")
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    assert again.learned_from == "comparison"
    assert again.suggest(X, 1).shape == (1, 2)


def test_held_out_comparisons_equal_literal_loops():
    splits = [(np.r_[2:8], np.r_[0:2]), (np.r_[0:3, 5:8], np.r_[3:5]), (np.r_[0:5], np.r_[5:8])]
    errors = np.zeros(2)
    for train, test in splits:
        _, own_looks = compared_looks(train)
        reference = ComparedViews(own_looks, train, 0.4)
        steps = reference.pursue(2)
        for number in (1, 2):
            gaps = reference.predict(steps, number, X[WINNERS[test]])
            gaps = (gaps - reference.predict(steps, number, X[LOSERS[test]])).mean(axis=1)
            errors[number - 1] += np.sum(PAIR_WEIGHTS[test] * (MARGINS[test] - gaps) ** 2)
    model = CoRankingPursuit(VIEWS, [1, 2], 0.4, cv=splits, scoring="squared")
    model.fit_comparisons(X, WINNERS, LOSERS, margins=MARGINS, weights=PAIR_WEIGHTS)
    np.testing.assert_allclose(model.path_.error, errors / 7, rtol=1e-8)


def test_views_agree_on_compared_rows_within_their_queries():
    queries = np.where(np.isin(np.arange(len(X)), [0, 3, 14, 20, 5, 9]), 1, 0)
    given = {"margins": MARGINS, "weights": PAIR_WEIGHTS, "qid": queries}
    rows, own_looks = compared_looks()
    reference = ComparedViews(
        own_looks, slice(None), 0.4, qid=queries, unscored=X[rows], unscored_qid=queries[rows]
    )
    model = CoRankingPursuit(VIEWS, 2, 0.4, agree_on="all")
    model.fit_comparisons(X, WINNERS, LOSERS, **given)
    np.testing.assert_allclose(model.objective_, reference.pursue(2).objective, rtol=1e-9)


# ------------------------------------------------------------------ who predicts


@pytest.mark.parametrize("combine", ["best", "mean", "median", [3.0, 1.0]], ids=str)
def test_views_and_solutions_are_combined(combine, tmp_path):
    model = CoRankingPursuit(VIEWS, 3, 0.7, n_solutions=3, tolerance=9.0, combine=combine)
    model.fit(X, Y, qid=QID)
    every = model.predict_solutions(NEW)
    expected = {
        "best": every[:, 0].mean(axis=1),
        "mean": every.mean(axis=(1, 2)),
        "median": np.median(every.reshape(len(NEW), -1), axis=1),
    }.get(str(combine), every[:, 0] @ [0.75, 0.25])
    np.testing.assert_allclose(model.predict(NEW), expected, rtol=1e-12)
    again = round_trip(model, tmp_path / "combined.corank")
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    model.set_params(combine="best")
    np.testing.assert_allclose(model.predict(NEW), expected, rtol=1e-12)
    if combine in ("mean", "median"):
        with pytest.raises(ValueError, match=f"explain_pair.*combine='{combine}'"):
            model.explain_pair(X[0], X[1])
    else:
        pair = model.explain_pair(X[0], X[1])
        gap = model.predict(X[:1])[0] - model.predict(X[1:2])[0]
        np.testing.assert_allclose(pair.difference, gap)
        np.testing.assert_allclose(model.predict_path(NEW)[:, -1], expected, rtol=1e-10)


def test_weights_of_views_are_those_of_held_out_errors_too():
    splits = [
        (SCORED[QID[SCORED] != q], SCORED[QID[SCORED] == q]) for q in dict.fromkeys(QID[SCORED])
    ]
    total = count = 0.0
    for train, test in splits:
        known = [Look(view.columns, rbf(view.gamma), X[train]) for view in VIEWS]
        reference = CoPursuit(known, X, Y, 0.7, qid=QID, keep=train)
        f = reference.predict(reference.pursue(2), 2, X[test]) @ [0.75, 0.25]
        L = laplacian(QID[test], Loss("size"))
        total += (Y[test] - f) @ L @ (Y[test] - f)
        count += np.linalg.matrix_rank(L)
    model = CoRankingPursuit(VIEWS, [2], 0.7, scoring="squared", combine=[3, 1]).fit(X, Y, qid=QID)
    np.testing.assert_allclose(model.path_.error, total / count, rtol=1e-8)


# ------------------------------------------------------------------ what may be an atom


def test_steps_at_the_rows_of_a_view():
    rows = [np.asarray([3, 0, 9, 20, 5]), np.asarray([2, 7, 11])]
    views = [
        View(view.columns, gamma=view.gamma, basis=own)
        for view, own in zip(VIEWS, rows, strict=True)
    ]
    own = [Look(view.columns, rbf(view.gamma), X[r]) for view, r in zip(VIEWS, rows, strict=True)]
    reference = CoPursuit(own, X, Y, 0.7, qid=QID)
    model, steps = CoRankingPursuit(views, 3, 0.7).fit(X, Y, qid=QID), reference.pursue(3)
    for v in range(2):
        np.testing.assert_array_equal(model.steps_[v], rows[v][steps.labels[:, v]])
    np.testing.assert_allclose(
        model.predict_views(NEW), reference.predict(steps, 3, NEW), atol=1e-8
    )


def test_a_number_of_rows_is_chosen_from_scored_and_unscored_ones():
    views = [View(view.columns, gamma=view.gamma, basis=12) for view in VIEWS]
    model = CoRankingPursuit(views, 12, 0.7, random_state=3).fit(X, Y, qid=QID, **APART)
    everything = np.concatenate([X, P.apart])
    for own, points, view in zip(model.basis_, model.basis_points_, VIEWS, strict=True):
        assert len(np.unique(own)) == 12
        np.testing.assert_array_equal(points, everything[own][:, view.columns])
    assert any(np.any(own >= len(X)) for own in model.basis_)


def test_views_that_differ_in_their_rows():
    model = CoRankingPursuit(random_bases(2), len(SCORED) // 2, 0.7).fit(X, Y, qid=QID)
    assert all(np.all(np.isin(own, SCORED)) for own in model.basis_)
    assert set(model.basis_[0]) != set(model.basis_[1])
    with pytest.raises(ValueError, match=r"search='tied'.*different rows.*View\.basis"):
        CoRankingPursuit(random_bases(2), 3, 0.7, search="tied").fit(X, Y, qid=QID)


def test_dead_steps_are_skipped():
    same = X.copy()
    same[SCORED[0]] = 1e3  # far from everything: its kernel is zero on all other rows
    single = QID.copy()
    single[SCORED[0]] = 77  # and it is compared with none of them
    model = CoRankingPursuit(VIEWS, len(SCORED) - 1, 0.7)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the pursuit stopped", category=UserWarning)
        model.fit(same, Y, qid=single)
    assert all(SCORED[0] not in own for own in model.steps_)


def test_two_steps_that_are_one_count_once():
    """Views of the same columns, all weight on agreement: the pair of one row is singular."""
    costs = atom_search.Costs(
        [np.asarray([1e-14, 1.0])] * 2,
        [np.ones(2)] * 2,
        {(0, 1): -np.ones((2, 2))},
        1.0,
        [0.0, 0.0],
    )
    promises, allowed = [np.asarray([1.0, 0.0])] * 2, [np.asarray([True, False])] * 2
    step = atom_search.best_step(costs, "full", promises, allowed)
    assert step.labels == (0, 0)
    np.testing.assert_allclose(step.weights, [0.5, 0.0])
    np.testing.assert_allclose(step.gain, 0.5)


def test_equal_steps_are_taken_by_their_number():
    twice = np.concatenate([X, X[SCORED]])
    scores, qid = np.concatenate([Y, Y[SCORED]]), np.concatenate([QID, QID[SCORED]])
    for search in ("full", "tied"):
        model = CoRankingPursuit(VIEWS, 4, 0.7, search=search, refit="basic").fit(
            twice, scores, qid=qid
        )
        assert all(np.all(own < len(X)) for own in model.steps_)


# ------------------------------------------------------------------ near-optimal models


def literal_alternatives(reference, n_steps, search, refit, tries):
    """Greedy models one after the other, each step tried literally: none begins as another one
    before it, or shares more than half of its atoms with it, in any view.
    """
    models = [reference.pursue(n_steps, search=search, refit=refit)]
    sizes = [range(D.shape[1]) for D in reference.D]
    for _ in range(tries):
        labels, running, values, history = [], np.zeros((0, len(sizes))), [], []
        while len(labels) < n_steps:
            every = product(*sizes) if search == "full" else ((k,) * len(sizes) for k in sizes[0])
            every = [row for row in every if may_enter(row, labels, models, n_steps, refit)]
            f, f_bar = reference.values(labels, running)
            tried = [reference.candidate(row, "exact", f, f_bar) for row in every]
            costs = np.asarray([cost for _, cost in tried])
            best = int(np.argmax(costs <= costs.min() + 1e-10 * models[0].objective[0]))
            labels.append(every[best])
            running = np.vstack([running, tried[best][0]])
            running = reference.refitted(labels) if refit == "back" else running
            history.append(running)
            values.append(reference.objective(*reference.values(labels, running)))
        models.append(Steps(np.asarray(labels), history, values))
    return models


def may_enter(row, labels, models, n_steps, refit):
    for v, atom in enumerate(row):
        mine = [own[v] for own in labels]
        if refit == "back" and atom in mine:
            return False
        for model in models:
            theirs = model.labels[:, v].tolist()
            if not mine and atom == theirs[0]:
                return False
            if len({*mine, atom} & set(theirs)) > n_steps // 2:
                return False
    return True


@pytest.mark.parametrize(("search", "refit"), [("full", "back"), ("tied", "basic")])
def test_near_optimal_models_equal_literal_loops(search, refit):
    model = CoRankingPursuit(VIEWS, 3, 0.7, search=search, refit=refit, n_solutions=4, tolerance=9)
    model.fit(X, Y, qid=QID)
    reference = CoPursuit(looks(), X, Y, 0.7, qid=QID)
    expected = literal_alternatives(reference, 3, search, refit, 3)
    expected.sort(key=lambda steps: steps.objective[-1])
    values = [own.objective for own in model.models_]
    np.testing.assert_allclose(values, [steps.objective[-1] for steps in expected], rtol=1e-9)
    by_model = np.moveaxis(model.predict_solutions(NEW), 1, 0)
    for predictions, steps in zip(by_model, expected, strict=True):
        np.testing.assert_allclose(predictions, reference.predict(steps, 3, NEW), atol=1e-8)


@searches
def test_near_optimal_models_lie_within_the_tolerance_and_differ_in_half_of_their_atoms(search):
    everything = CoRankingPursuit(VIEWS, 4, 0.7, search=search, n_solutions=8, tolerance=9.0)
    everything.fit(X, Y, qid=QID)
    values = np.asarray([own.objective for own in everything.models_])
    assert len(values) == 8
    for one, other in combinations(everything.models_, 2):
        for first, second in zip(one.solutions, other.solutions, strict=True):
            assert first.atoms[0] != second.atoms[0]
            assert len(np.intersect1d(first.atoms, second.atoms)) <= 2
    bound = (values[3] / values[0] + values[4] / values[0]) / 2 - 1
    near = clone(everything).set_params(n_solutions=4, tolerance=bound).fit(X, Y, qid=QID)
    found = [own.objective for own in near.models_]
    assert found == sorted(found)
    assert found[-1] <= (1 + bound) * found[0]
    assert found[0] <= values[0] * (1 + 1e-9)


@pytest.mark.parametrize("refit", ["back", "basic"])
@searches
def test_the_model_is_the_alternative_with_the_least_objective(search, refit):
    """By brute force, from nothing but predictions; the greedy model is not always it."""
    places = []
    for seed in range(8):
        problem = small_views(seed=seed)
        scored = problem.scored
        reference = CoPursuit(
            looks(rows=scored, points=problem.X), problem.X, problem.y, 0.7, qid=problem.qid
        )
        greedy = CoRankingPursuit(VIEWS, 4, 0.7, search=search, refit=refit)
        model = clone(greedy).set_params(n_solutions=8, tolerance=9.0)
        model.fit(problem.X, problem.y, qid=problem.qid)
        on_scored = model.predict_solutions(problem.X[scored])
        on_unscored = model.predict_solutions(problem.X[np.isnan(problem.y)])
        values = [reference.objective(on_scored[:, k].T, on_unscored[:, k].T) for k in range(8)]
        value = reference.objective(
            model.predict_views(problem.X[scored]).T,
            model.predict_views(problem.X[np.isnan(problem.y)]).T,
        )
        np.testing.assert_allclose(value, min(values), rtol=1e-9)
        np.testing.assert_allclose(model.objective_[-1], min(values), rtol=1e-9)
        np.testing.assert_allclose([own.objective for own in model.models_], values, rtol=1e-9)
        assert [own.atoms.tolist() for own in model.solutions_] == [
            atoms.tolist() for atoms in model.atoms_
        ]
        greedy_value = greedy.fit(problem.X, problem.y, qid=problem.qid).objective_[-1]
        assert value <= greedy_value * (1 + 1e-9)
        places.append(value < 0.999 * greedy_value)
    assert any(places)


def test_of_models_that_fit_exactly_the_first_found_is_taken():
    linear = [View(slice(0, 3), "linear")]
    greedy = CoRankingPursuit(linear, 3, 0.0)
    several = clone(greedy).set_params(n_solutions=2)
    for weights in np.random.default_rng(0).normal(size=(8, 3)):
        scores = np.where(np.isnan(Y), np.nan, X[:, :3] @ weights)
        model = several.fit(X, scores, qid=QID)
        assert max(own.objective for own in model.models_) < 1e-20 * model.objective_[0]
        np.testing.assert_array_equal(model.steps_, greedy.fit(X, scores, qid=QID).steps_)


def test_fewer_models_than_asked_for_are_a_warning():
    views = [View(view.columns, gamma=view.gamma, basis=[1, 2, 3, 4]) for view in VIEWS]
    options = {"search": "tied", "n_solutions": 9, "tolerance": 9.0}
    with pytest.warns(UserWarning, match=r"only 4 of 9 models.*tolerance=9 of the least"):
        model = CoRankingPursuit(views, 2, 0.7, **options).fit(X, Y, qid=QID)
    assert (
        len({tuple(sorted(own.solutions[0].atoms)) for own in model.models_})
        == len(model.models_)
        == 4
    )


def test_every_view_keeps_its_solution():
    model = CoRankingPursuit(VIEWS, 4, 0.7).fit(X, Y, qid=QID)
    for v, (own, view) in enumerate(zip(model.solutions_, VIEWS, strict=True)):
        assert own.name == view.name
        np.testing.assert_array_equal(own.points, X[own.atoms][:, view.columns])
        values = rbf(view.gamma)(NEW[:, view.columns], own.points) @ own.coefficients
        np.testing.assert_allclose(model.predict_views(NEW)[:, v], values, atol=1e-10)


def test_explain_lists_steps_step_by_step():
    model = CoRankingPursuit(VIEWS, [1, 2, 4], [0.7]).fit(X, Y, qid=QID)
    told, p = model.explain(), model.n_atoms_
    assert len(told) == 2 * p
    assert told.views == ("left", "right") * p
    np.testing.assert_array_equal(told.atoms[::2], model.steps_[0])
    np.testing.assert_allclose(told.weights[1::2], model.coef_[1])
    np.testing.assert_allclose(told.left[1::2], model.objective_[1:] / model.objective_[0])
    np.testing.assert_allclose(told.held_out[2 * p - 1], model.path_.error[model.path_.best])
    assert "row" in str(told)


# ------------------------------------------------------------------ what is chosen by held-out error


PAIRS = [0.0, 0.7, 5.0], [1, 2, 3]


@cache
def queries_left_out(rules):
    splits = [
        (SCORED[QID[SCORED] != q], SCORED[QID[SCORED] == q]) for q in dict.fromkeys(QID[SCORED])
    ]
    return left_out(
        looks(), X, Y, splits, *PAIRS, Loss("unit"), qid=QID, weights=W, rules=rules, **APART
    )


@pytest.mark.parametrize("scoring", ["squared", "rescaled", "disagreement"])
@pytest.mark.parametrize("rules", [("exact", "full", "back"), ("paper", "tied", "final")], ids=str)
def test_held_out_queries_equal_literal_loops(scoring, rules):
    expected = mean_error(queries_left_out(rules), "loss" if scoring == "squared" else scoring)
    model = CoRankingPursuit(VIEWS, PAIRS[1], PAIRS[0], *rules, weighting="unit", scoring=scoring)
    model.fit(X, Y, qid=QID, sample_weight=W, **APART)
    np.testing.assert_allclose(model.path_.error, expected, rtol=1e-8)
    np.testing.assert_array_equal(model.path_.agreement, np.repeat(PAIRS[0], 3))
    np.testing.assert_array_equal(model.path_.n_atoms, np.tile(PAIRS[1], 3))
    assert (model.agreement_, model.n_atoms_) == (
        model.path_.agreement[model.path_.best],
        PAIRS[1][model.path_.best % 3],
    )
    assert model.path_.error[model.path_.best] == model.path_.error.min()


@pytest.mark.parametrize(
    "loss",
    [
        Loss("size", 0.4),
        *(pytest.param(loss, marks=pytest.mark.slow) for loss in (Loss("size"), Loss("unit"))),
    ],
    ids=str,
)
def test_held_out_items_of_one_query_equal_literal_loops(loss):
    folds = item_folds(Y[SCORED])
    splits = [(SCORED[folds != k], SCORED[folds == k]) for k in range(folds.max() + 1)]
    expected = mean_error(left_out(looks(), X, Y, splits, [0.3], [1, 3], loss, weights=W), "loss")
    model = CoRankingPursuit(
        VIEWS, [1, 3], 0.3, scoring="squared", weighting=loss.weighting, beta=loss.beta
    ).fit(X, Y, sample_weight=W)  # fmt: skip
    np.testing.assert_allclose(model.path_.error, expected, rtol=1e-8)


def test_splits_of_a_user():
    splits = [(SCORED[5:], SCORED[:5]), (SCORED[:10], SCORED[10:]), (SCORED[3:12], SCORED[:3])]
    expected = mean_error(left_out(looks(), X, Y, splits, [0.5], [2], qid=QID), "rescaled")
    model = CoRankingPursuit(VIEWS, [2], 0.5, cv=splits).fit(X, Y, qid=QID)
    np.testing.assert_allclose(model.path_.error, expected, rtol=1e-8)
    by_query = CoRankingPursuit(VIEWS, [2], 0.5, cv=LeaveOneGroupOut()).fit(X, Y, qid=QID)
    own = CoRankingPursuit(VIEWS, [2], 0.5).fit(X, Y, qid=QID)
    np.testing.assert_allclose(by_query.path_.error, own.path_.error)
    assert CoRankingPursuit(VIEWS, [1, 2], 0.5, cv=GroupKFold(2)).fit(
        X, Y, qid=QID
    ).path_.error.shape == (2,)


def test_tuning_stops_when_more_steps_do_not_help():
    rng = np.random.default_rng(5)
    rows, qid = rng.normal(size=(60, 6)), np.repeat(np.arange(12), 5)
    scores = np.where(np.arange(60) % 5 < 4, rows[:, 0] + rng.normal(size=60), np.nan)
    model = CoRankingPursuit(VIEWS, agreement=[0.0, 0.7]).fit(rows, scores, qid=qid)
    for agreement in (0.0, 0.7):
        errors = model.path_.error[model.path_.agreement == agreement]
        tried = model.path_.n_atoms[model.path_.agreement == agreement]
        np.testing.assert_array_equal(tried, np.arange(1, len(tried) + 1))
        least = int(np.argmax(errors <= errors.min() * (1 + 1e-12)))
        assert len(errors) == least + 1 + PATIENCE_STEPS < 40
    fixed = CoRankingPursuit(VIEWS, model.n_atoms_, model.agreement_).fit(rows, scores, qid=qid)
    np.testing.assert_allclose(model.predict(NEW), fixed.predict(NEW), atol=1e-12)
    assert fixed.path_ is None


def test_the_own_grid_starts_at_no_agreement():
    model = CoRankingPursuit(VIEWS, [2]).fit(X, Y, qid=QID)
    assert model.path_.agreement[0] == 0
    assert len(model.path_.agreement) == 10
    scored = sum(
        np.trace(D.T @ laplacian(QID[SCORED], Loss()) @ D)
        for D in (v.values(X[SCORED]) for v in looks())
    )
    reference = CoPursuit(looks(), X, Y, 1.0, qid=QID)
    unscored = sum(np.trace(D.T @ reference.L_bar @ D) for D in reference.D_bar)
    np.testing.assert_allclose(model.path_.agreement[1:], AGREEMENTS[1:] * scored / (2 * unscored))


def test_a_kernel_width_is_tuned_for_all_views_together():
    model = CoRankingPursuit(2, [1, 3], 0.5, gamma=[0.1, 0.5]).fit(X, Y, qid=QID)
    assert len(model.path_.error) == 4
    assert model.gamma_ == [model.path_.gamma[model.path_.best]] * 2
    again = CoRankingPursuit(2, model.n_atoms_, 0.5, gamma=model.gamma_[0]).fit(X, Y, qid=QID)
    np.testing.assert_allclose(model.predict(NEW), again.predict(NEW), atol=1e-12)
    single = CoRankingPursuit(2, 3, 0.5, gamma=[0.1, 0.5]).fit(X, Y, qid=QID)
    assert list(single.path_.n_atoms) == [3, 3]


def test_too_little_to_hold_out():
    with pytest.warns(UserWarning, match="nothing was tuned.*n_atoms was set to 2"):
        model = CoRankingPursuit(VIEWS, [1, 2]).fit(
            X[:6], np.r_[1.0, 2.0, 3.0, np.nan, np.nan, np.nan]
        )
    assert (model.path_, model.agreement_) == (None, 0.0)


# ------------------------------------------------------------------ rows in other forms


class Chunks:
    """Rows in chunks that can be read again."""

    def __init__(self, rows, qid, size):
        self.parts = [(rows[b : b + size], qid[b : b + size]) for b in range(0, len(rows), size)]

    def __iter__(self):
        return iter(self.parts)


@pytest.mark.parametrize("size", [1, 4, 100])
def test_chunks_of_unscored_rows_give_the_same_model(size):
    rng = np.random.default_rng(4)
    rows, qid = rng.normal(size=(30, 6)), np.repeat(np.arange(5), 6)
    whole = CoRankingPursuit(VIEWS, 4, 0.7).fit(X, Y, qid=QID, unscored=rows, unscored_qid=qid)
    parts = CoRankingPursuit(VIEWS, 4, 0.7).fit(X, Y, qid=QID, unscored=Chunks(rows, qid, size))
    np.testing.assert_array_equal(parts.steps_, whole.steps_)
    np.testing.assert_allclose(parts.predict(NEW), whole.predict(NEW), atol=1e-10)


def test_the_search_does_not_depend_on_its_blocks(monkeypatch):
    expected = CoRankingPursuit(VIEWS, 5, 0.7).fit(X, Y, qid=QID)
    monkeypatch.setattr(atom_search, "BLOCK_PAIRS", 20)
    np.testing.assert_array_equal(
        CoRankingPursuit(VIEWS, 5, 0.7).fit(X, Y, qid=QID).steps_, expected.steps_
    )


def test_weights_are_repetitions():
    times = np.random.default_rng(1).integers(1, 4, size=len(X))
    weighted = CoRankingPursuit(VIEWS, 4, 0.7).fit(X, Y, qid=QID, sample_weight=times)
    repeated = CoRankingPursuit(VIEWS, 4, 0.7).fit(
        np.repeat(X, times, axis=0), np.repeat(Y, times), qid=np.repeat(QID, times)
    )
    np.testing.assert_allclose(weighted.predict(NEW), repeated.predict(NEW), atol=1e-8)


@searches
def test_csr_gives_the_model_of_dense_rows(search):
    sparser, apart = (np.where(np.abs(rows) < 0.5, 0.0, rows) for rows in (X, P.apart))
    options = {"qid": QID, "unscored_qid": P.apart_qid}
    model = CoRankingPursuit(VIEWS, [2, 4], [0.0, 0.7], search=search)
    dense = clone(model).fit(sparser, Y, unscored=apart, **options)
    found = clone(model).fit(
        sparse.csr_array(sparser), Y, unscored=sparse.csr_array(apart), **options
    )
    np.testing.assert_allclose(found.path_.error, dense.path_.error, rtol=1e-8)
    np.testing.assert_allclose(
        found.predict_views(sparse.csr_array(NEW)), dense.predict_views(NEW), atol=1e-9
    )
    assert all(sparse.issparse(points) for points in found.basis_points_)


def test_precomputed_kernels():
    n = len(X)
    kernels, new = (
        np.hstack([look.k(A[:, look.columns], X[:, look.columns]) for look in looks()])
        for A in (X, NEW)
    )
    views = [View(slice(k * n, (k + 1) * n), "precomputed") for k in range(2)]
    expected = CoRankingPursuit(VIEWS, [2, 4], [0.0, 0.7]).fit(X, Y, qid=QID)
    found = CoRankingPursuit(views, [2, 4], [0.0, 0.7]).fit(kernels, Y, qid=QID)
    np.testing.assert_array_equal(found.steps_, expected.steps_)
    np.testing.assert_allclose(found.predict_views(new), expected.predict_views(NEW), atol=1e-9)


@pytest.mark.parametrize("name", ["torch", "array_api_strict"])
@searches
def test_other_array_libraries(name, search):
    library = pytest.importorskip(name)
    model = CoRankingPursuit(VIEWS, [2, 4], [0.0, 0.7], search=search, n_solutions=2)
    expected = clone(model).fit(X, Y, qid=QID, sample_weight=W, **APART)
    found = clone(model).fit(
        library.asarray(X), library.asarray(Y), qid=QID, sample_weight=library.asarray(W),
        unscored=library.asarray(P.apart), unscored_qid=P.apart_qid,
    )  # fmt: skip
    np.testing.assert_allclose(found.path_.error, expected.path_.error, rtol=1e-8)
    np.testing.assert_array_equal(found.steps_, expected.steps_)
    new = library.asarray(NEW)
    for method in ("predict", "predict_views", "predict_path", "predict_solutions"):
        values = getattr(found, method)(new)
        assert type(values).__module__.split(".")[0] == name
        np.testing.assert_allclose(
            np.from_dlpack(values), getattr(expected, method)(NEW), atol=1e-9
        )
    assert all(type(own).__module__.split(".")[0] == name for own in found.coef_)


# ------------------------------------------------------------------ saving


@pytest.fixture
def saved(tmp_path):
    return tmp_path / "model.corank"


@pytest.mark.parametrize("csr", [False, True])
def test_a_loaded_model_says_the_same(saved, csr):
    rows = sparse.csr_array(X) if csr else X
    model = CoRankingPursuit(VIEWS, [2, 3], [0.0, 0.7], refit="basic", n_solutions=3).fit(
        rows, Y, qid=QID
    )
    again = round_trip(model, saved)
    for method in ("predict", "predict_views", "predict_path", "predict_solutions"):
        np.testing.assert_array_equal(getattr(again, method)(NEW), getattr(model, method)(NEW))
    assert str(again.explain()) == str(model.explain())
    assert saved.stat().st_size < 12_000
    assert [own.objective for own in again.models_] == [own.objective for own in model.models_]
    np.testing.assert_array_equal(again.path_.error, model.path_.error)


def test_pickle_and_clone():
    model = CoRankingPursuit(VIEWS, 3, 0.7, n_solutions=2, tolerance=1.0).fit(X, Y, qid=QID)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict(NEW), model.predict(NEW)
    )
    np.testing.assert_array_equal(clone(model).fit(X, Y, qid=QID).predict(NEW), model.predict(NEW))
    assert len(pickle.dumps(model)) < 10_000


# ------------------------------------------------------------------ scikit-learn's checks, bad input


def test_it_is_a_ranker():
    assert not is_regressor(CoRankingPursuit())
    model = CoRankingPursuit(VIEWS, 3, 0.7).fit(X, Y, qid=QID)
    assert 0.5 < model.score(X, Y, qid=QID) <= 1
    assert model.intercept_ == 0.0
    with pytest.raises(ValueError, match="update cannot add to a pursuit"):
        model.update(X, Y, qid=QID)
    assert model.unscored_effect_ is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "exakt"}, "objective 'exakt'.*'exact' or 'paper'"),
        ({"search": "all"}, "search 'all'.*'full' or 'coordinate' or 'tied'"),
        ({"refit": "pre"}, "refit 'pre'.*'back' or 'basic' or 'final'"),
        ({"scoring": "r2"}, "scoring 'r2'"),
        ({"n_atoms": 0}, "n_atoms must be 'tune', a whole number"),
        ({"n_atoms": 2.5}, "n_atoms must be"),
        ({"n_atoms": []}, "n_atoms must be"),
        ({"n_atoms": "all"}, "n_atoms must be"),
        ({"n_atoms": 19}, r"n_atoms = 19 .*n_samples = 18"),
        ({"n_atoms": [2, 50]}, r"n_atoms = 50 .*n_samples = 18"),
        ({"agreement": -1.0}, "agreement must be 0 or more"),
        ({"n_solutions": 0}, "n_solutions must be a whole number"),
        ({"beta": 2}, "beta must lie"),
        ({"weighting": "items"}, "weighting 'items'"),
        ({"tolerance": -0.1}, "tolerance must be a number from 0, got -0.1"),
        ({"tolerance": "all"}, "tolerance must be a number from 0"),
        ({"combine": "vote"}, "combine 'vote'.*'best' or 'mean' or 'median'"),
        ({"combine": [1.0]}, "combine must be one of.*2 weights, one per view"),
        ({"combine": [1.0, -1.0]}, "combine must be one of.*2 weights, one per view"),
        ({"combine": [0, 0]}, "combine must be one of.*not all 0"),
        ({"combine": ["a", "b"]}, "combine must be one of.*2 weights, one per view"),
        ({"agree_on": "scored"}, "agree_on 'scored'.*'unscored' or 'all'"),
        (
            {"views": [View(kernel="linear", basis="features")] * 2},
            "basis='features'.*atoms are rows",
        ),
        (
            {"views": [View(basis=[1, 2]), View(basis=[1, 3])], "search": "tied", "n_atoms": 1},
            "search='tied'",
        ),
    ],
    ids=str,
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        CoRankingPursuit(**{"views": VIEWS, "n_atoms": 2, "agreement": 0.5} | options).fit(
            X, Y, qid=QID
        )


def test_nothing_to_agree_on_is_a_warning():
    with pytest.warns(UserWarning, match="no unscored row"):
        model = CoRankingPursuit(VIEWS, 2, 0.7).fit(X[SCORED], Y[SCORED], qid=QID[SCORED])
    assert model.agreement_ == 0.0
    with pytest.warns(UserWarning, match="only one view"):
        CoRankingPursuit(1, 2, 0.7).fit(X, Y, qid=QID)
    with pytest.warns(UserWarning, match="penalty of a view plays no part"):
        CoRankingPursuit([VIEWS[0], View(slice(3, 6), penalty=2.0)], 2, 0.7).fit(X, Y, qid=QID)


def test_a_residual_of_zero_stops_early():
    linear = [View(slice(0, 3), "linear"), View(slice(3, 6), "linear")]
    scores = np.where(np.isnan(Y), np.nan, X[:, 0] + X[:, 1] - X[:, 2])
    with pytest.warns(UserWarning, match="stopped after 3 of 8 atoms"):
        model = CoRankingPursuit(linear[:1], 8, 0.0).fit(X, scores, qid=QID)
    assert model.objective_[-1] < 1e-20 * model.objective_[0]


def test_tied_scores_give_a_constant_model():
    tied = np.where(np.isnan(Y), np.nan, 0.3)
    for n_atoms in (3, "tune"):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = CoRankingPursuit(VIEWS, n_atoms, 0.7).fit(X, tied, qid=QID)
        assert any("all scores are tied" in str(own.message) for own in said)
        np.testing.assert_allclose(model.predict(NEW), np.zeros(len(NEW)), atol=1e-12)


def test_rows_that_are_all_alike():
    with pytest.warns(UserWarning, match="stopped after 1 of 3"):
        model = CoRankingPursuit(VIEWS, 3, 0.7).fit(np.ones_like(X), Y, qid=QID)
    np.testing.assert_array_equal(model.predict(NEW), np.zeros(len(NEW)))


def test_atoms_are_called_by_the_labels_of_a_frame(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(X, index=[f"item {row}" for row in range(len(X))])
    model = CoRankingPursuit(VIEWS, 2, 0.5).fit(frame, Y, qid=QID)
    names = [f"item {row}" for row in np.stack(model.steps_, axis=1).ravel()]
    assert list(model.explain().names) == names
    assert CoRankingPursuit(VIEWS, 2, 0.5).fit(X, Y, qid=QID).explain().names[0].startswith("row ")


def test_what_a_step_added_is_said_once():
    told = CoRankingPursuit(VIEWS, 2, 0.5).fit(X, Y, qid=QID).explain()
    np.testing.assert_array_equal(np.isnan(told.added), [False, True, False, True])
    np.testing.assert_allclose(1 - np.nansum(told.added), told.left[-1])
