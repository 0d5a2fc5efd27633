"""Agreement of its own for every pair of views, against least squares on the stated objective."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from brute_force import REGRESSION, Loss, loss_rows, symmetric_root
from brute_force.co_pursuit import CoPursuit
from brute_force.views import Look, StackedViews, rbf, small_views, unscored_rows

from corank import CoRankingPursuit, CoRankRLS, CoRLS, View, load

pytestmark = pytest.mark.usefixtures("one_blas_thread")
P = small_views(seed=1)
COLUMNS, NAMES = [slice(0, 2), [2, 3], slice(4, 6)], ("text", "image", "sound")
BONDS = np.asarray([[0.0, 1.5, 0.2], [1.5, 0.0, 0.0], [0.2, 0.0, 0.0]])
NAMED = {("text", "image"): 1.5, ("sound", "text"): 0.2}
APART = {"unscored": P.apart, "unscored_qid": P.apart_qid}
ALPHA = 0.2
LOSSES = [REGRESSION, Loss("size"), Loss("unit", 0.3)]
SOLVERS = ["direct", "coordinate", "accelerated"]


def views(n=3):
    return [View(COLUMNS[v], gamma=1.0 + v, penalty=1.0 + v / 2, name=NAMES[v]) for v in range(n)]


def learner(loss, agreement, basis="all", n_views=3, **options):
    if loss is REGRESSION:
        return CoRLS(views(n_views), ALPHA, agreement, basis, fit_intercept=False, **options)
    given = {"weighting": loss.weighting, "beta": loss.beta, **options}
    return CoRankRLS(views(n_views), ALPHA, agreement, basis, **given)


def literal(model, loss, bonds, agreement=1.0):
    """The minimiser on the basis rows of a fitted model, every pair of views with its weight."""
    rows = np.concatenate([P.X, P.apart])
    looks = [
        Look(view.columns, rbf(gamma), rows[own], view.penalty)
        for view, gamma, own in zip(model.views_, model.gamma_, model.basis_, strict=True)
    ]
    given = ~np.isnan(P.y)
    scored = P.X[given], *loss_rows(P.y[given], P.qid[given], loss)
    shared = unscored_rows(P.X, P.y, loss, P.qid, None, P.apart, P.apart_qid)
    stacked = StackedViews(looks, [scored] * len(looks), shared)
    pairs = [bonds[u, v] for u, v in combinations(range(len(looks)), 2)]
    stacked.gaps *= np.sqrt(np.repeat(pairs, len(stacked.gaps) // len(pairs)))[:, None]
    return stacked.minimiser(ALPHA, agreement)(P.X_new)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("basis", ["all", "scored", 7])
@pytest.mark.parametrize("given", [BONDS, BONDS.tolist(), NAMED], ids=["array", "list", "names"])
def test_every_pair_has_its_weight(loss, basis, given):
    model = learner(loss, given, basis).fit(P.X, P.y, qid=P.qid, **APART)
    np.testing.assert_allclose(model.predict_views(P.X_new), literal(model, loss, BONDS), atol=1e-7)
    assert model.agreement_ == 1.0


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_and_a_factor(solver):
    model = learner(REGRESSION, (NAMED, 0.4), 9, solver=solver, tol=1e-12)
    model.fit(P.X, P.y, qid=P.qid, **APART)
    assert model.agreement_ == 0.4
    expected = literal(model, REGRESSION, BONDS, 0.4)
    np.testing.assert_allclose(model.predict_views(P.X_new), expected, atol=1e-7)


@pytest.mark.parametrize("basis", ["all", 7])
def test_one_weight_for_all_pairs_is_one_number(basis):
    alike = 0.7 * (1 - np.eye(3))
    fits = [
        learner(Loss("size"), given, basis).fit(P.X, P.y, qid=P.qid, **APART)
        for given in (0.7, alike)
    ]
    one, pairs = (model.predict_views(P.X_new) for model in fits)
    np.testing.assert_allclose(one, pairs, atol=1e-9)


@pytest.mark.parametrize("basis", ["all", 7])
def test_a_factor_of_0_is_no_agreement(basis):
    fits = [
        learner(Loss("size"), given, basis).fit(P.X, P.y, qid=P.qid, **APART)
        for given in (0.0, (NAMED, 0.0))
    ]
    none, factor = (model.predict_views(P.X_new) for model in fits)
    np.testing.assert_allclose(none, factor, atol=1e-9)


@pytest.mark.parametrize("basis", ["all", 7])
@pytest.mark.parametrize("tried", ["tune", [0.0, 0.1, 1.0, 10.0]])
def test_the_factor_is_chosen_by_held_out_errors(basis, tried):
    """What is tried for the factor has the errors of models whose weights were multiplied."""
    model = learner(Loss("size"), (BONDS, tried), basis).fit(P.X, P.y, qid=P.qid, **APART)
    path = model.path_
    assert model.agreement_ == path.agreement[path.best]
    for at in range(0, len(path.error), 3):
        factor = path.agreement[at]
        weights = (factor * BONDS, [1.0]) if factor else [0.0]
        again = learner(Loss("size"), weights, basis)
        again.fit(P.X, P.y, qid=P.qid, **APART)
        np.testing.assert_allclose(again.path_.error, path.error[at], rtol=1e-6)


@pytest.mark.parametrize("basis", ["all", 7])
@pytest.mark.parametrize("given", [BONDS, (NAMED, 0.4)], ids=["matrix", "names and a factor"])
def test_update_and_files_know_the_weights(basis, given, tmp_path):
    first, later = (np.flatnonzero(np.isin(P.qid, part)) for part in ([0, 1, 2], [3, 4, 5, 6, 7]))
    later = later[~np.isnan(P.y[later])]
    rows = np.concatenate([first, later])
    basis = basis if basis == "all" else [0, 2, 5, 7]
    model = learner(Loss("size"), given, basis)
    model.fit(P.X[first], P.y[first], qid=P.qid[first], **APART)
    model.save(tmp_path / "m.corank")
    loaded = load(tmp_path / "m.corank")
    np.testing.assert_array_equal(loaded.predict_views(P.X_new), model.predict_views(P.X_new))
    expected = learner(Loss("size"), given, basis)
    expected.fit(P.X[rows], P.y[rows], qid=P.qid[rows], **APART)
    for grown in (model, loaded):
        grown.update(P.X[later], P.y[later], qid=P.qid[later])
        np.testing.assert_allclose(
            grown.predict_views(P.X_new), expected.predict_views(P.X_new), rtol=1e-6, atol=1e-8
        )


# ------------------------------------------------------------------ pursuit


class WeighedPursuit(CoPursuit):
    """Pursuit on several views with a weight for each pair of them."""

    def __init__(self, bonds, *data, **options):
        super().__init__(*data, **options)
        self.bonds = bonds

    def objective(self, f, f_bar):
        rows = zip(self.scores, self.L, f, strict=True)
        total = sum((s - own) @ L @ (s - own) for s, L, own in rows)
        for v, u in product(range(len(f_bar)), repeat=2):
            gap = f_bar[v] - f_bar[u]
            total += self.agreement * self.bonds[v, u] * gap @ self.L_bar @ gap
        return total

    def least(self, columns, residuals, gaps):
        rows, right = [], []
        for v, (L, residual) in enumerate(zip(self.L, residuals, strict=True)):
            columns_of_view = [self.D[v][:, k] if u == v else 0.0 * residual for u, k in columns]
            rows.append(symmetric_root(L) @ np.stack(columns_of_view, axis=1))
            right.append(symmetric_root(L) @ residual)
        for v, u in product(range(len(self.looks)), repeat=2):
            root = np.sqrt(self.agreement * self.bonds[v, u]) * symmetric_root(self.L_bar)
            steps = [((w == v) * 1.0 - (w == u)) * self.D_bar[w][:, k] for w, k in columns]
            rows.append(root @ np.stack(steps, axis=1))
            right.append(-root @ (gaps[v] - gaps[u]))
        return np.linalg.lstsq(np.concatenate(rows), np.concatenate(right), rcond=1e-12)[0]


def plain_views(n=3):
    return [replace(view, penalty=1.0) for view in views(n)]


@pytest.mark.parametrize("refit", ["back", "basic", "final"])
@pytest.mark.parametrize("search", ["full", "tied"])
def test_pursuit_knows_the_weights(search, refit, tmp_path):
    n = 2 if search == "full" else 3
    bonds = BONDS[:n, :n]
    model = CoRankingPursuit(plain_views(n), 3, (bonds, 0.3), search=search, refit=refit)
    model.fit(P.X, P.y, qid=P.qid, **APART)
    looks = [
        Look(view.columns, rbf(gamma), P.X[P.scored])
        for view, gamma in zip(model.views_, model.gamma_, strict=True)
    ]
    reference = WeighedPursuit(bonds, looks, P.X, P.y, 0.3, Loss("size"), qid=P.qid, **APART)
    steps = reference.pursue(3, search=search, refit=refit)
    labels = [np.searchsorted(P.scored, own) for own in model.steps_]
    np.testing.assert_array_equal(np.stack(labels, axis=1), steps.labels)
    np.testing.assert_allclose(model.objective_, steps.objective, rtol=1e-9)
    model.save(tmp_path / "m.corank")
    again = load(tmp_path / "m.corank")
    np.testing.assert_array_equal(again.predict_views(P.X_new), model.predict_views(P.X_new))


def test_the_factor_of_a_pursuit_is_chosen():
    model = CoRankingPursuit(plain_views(), 3, (BONDS, "tune"), search="tied")
    model.fit(P.X, P.y, qid=P.qid, **APART)
    tried = np.unique(model.path_.agreement)
    assert len(tried) == 10
    for factor in tried[[2, 6]]:
        again = CoRankingPursuit(plain_views(), [3], (factor * BONDS, [1.0]), search="tied")
        again.fit(P.X, P.y, qid=P.qid, **APART)
        found = model.path_.error[model.path_.agreement == factor]
        np.testing.assert_allclose(again.path_.error, found, rtol=1e-6)


# ------------------------------------------------------------------ what is wrong


WRONG = {
    "not symmetric": ([[0, 1, 0], [2, 0, 0], [0, 0, 0]], "symmetric matrix (3, 3)"),
    "a diagonal": (np.ones((3, 3)), "0 on the diagonal"),
    "of two views": ([[0, 1], [1, 0]], "(3, 3)"),
    "of two views, as tuples": (((0, 1), (1, 0)), "(3, 3)"),
    "ragged": ([[0, 1, 2], [1, 0], [2]], "symmetric matrix (3, 3)"),
    "negative": (-BONDS, "0 or more"),
    "nothing": (np.zeros((3, 3)), "not only 0"),
    "no mapping": ({}, "not only 0"),
    "not a number": (np.where(BONDS > 1, np.nan, BONDS), "symmetric matrix"),
    "not finite": (np.where(BONDS > 1, np.inf, BONDS), "symmetric matrix"),
    "no number": ({("text", "image"): "much"}, "a number of 0 or more for each pair"),
    "two numbers": ({("text", "image"): 1.0, ("image", "text"): 2.0}, "a number of 0 or more"),
    "unknown view": ({("text", "video"): 1.0}, "('text', 'video') is no pair of views; these are"),
    "one name": ({"text": 1.0}, "'text' is no pair of views"),
    "a view with itself": ({("text", "text"): 1.0}, "('text', 'text') is no pair"),
    "factor": ((BONDS, "much"), "agreement 'much' is not known"),
    "negative factor": ((BONDS, -1.0), "agreement must be 0 or more"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong(case):
    given, words = WRONG[case]
    with pytest.raises(ValueError, match="agreement") as caught:
        learner(Loss("size"), given).fit(P.X, P.y, qid=P.qid)
    assert words in str(caught.value)
