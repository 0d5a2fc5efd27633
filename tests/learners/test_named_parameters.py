"""gamma="mean-distance" and alpha="mean-length" against the sums that [Brefeld2006], section 5, prints."""

import numpy as np
import pytest
from brute_force import small_problem
from scipy import sparse

from corank import (
    KPCR,
    RLS,
    CoRankingPursuit,
    CoRankRLS,
    CoRLS,
    DifferenceGP,
    KPCRank,
    MatchingPursuit,
    PreferenceGP,
    RankingPursuit,
    RankRLS,
    TransductiveRankRLS,
    View,
    load,
)
from corank.core.kernels import inverse_length

pytestmark = pytest.mark.usefixtures("one_blas_thread")
P = small_problem(seed=3, sizes=(4, 6, 5, 7), d=4)
X, QID, W, NEW = P.X + 1.0, P.qid, P.weights, P.X_new
Y = np.where(QID == 2, np.nan, P.y)  # one query is not scored
SCORED = np.flatnonzero(~np.isnan(Y))
HALVES = [View([0, 1], gamma="mean-distance"), View([2, 3], gamma="mean-distance", penalty=2.0)]


def mean_distance(rows, weights=None):
    """Σ_ij ‖x_i − x_j‖² / n², pair by pair; a pair counts the product of its weights."""
    w = np.ones(len(rows)) if weights is None else weights
    total = 0.0
    for i, x in enumerate(rows):
        for j, other in enumerate(rows):
            total += w[i] * w[j] * np.sum((x - other) ** 2)
    return total / w.sum() ** 2


def mean_length(rows, weights=None):
    """Σ_i ‖x_i‖ / n."""
    return np.average([np.sqrt(row @ row) for row in rows], weights=weights)


def named(learner):
    return learner(alpha="mean-length", gamma="mean-distance")


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("learner", [RLS, RankRLS, KPCR, KPCRank])
def test_one_view(learner, weights, tmp_path):
    model = named(learner).fit(X, Y, qid=QID, sample_weight=weights)
    w = None if weights is None else weights[SCORED]
    assert model.gamma_ == pytest.approx(1 / mean_distance(X[SCORED], w))
    assert model.alpha_ == pytest.approx(1 / mean_length(X[SCORED], w))
    number = {"alpha": model.alpha_, "gamma": model.gamma_}
    plain = learner(**number).fit(X, Y, qid=QID, sample_weight=weights)
    np.testing.assert_allclose(model.predict(NEW), plain.predict(NEW), rtol=1e-9, atol=1e-9)
    model.save(tmp_path / "m.corank")
    again = load(tmp_path / "m.corank")
    assert (again.alpha, again.gamma) == ("mean-length", "mean-distance")
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))


@pytest.mark.parametrize("learner", [RLS, RankRLS])
def test_sparse_rows_and_distances_that_are_not_squared(learner):
    dense, csr = (
        named(learner).fit(X, Y, qid=QID),
        named(learner).fit(sparse.csr_array(X), Y, qid=QID),
    )
    assert (csr.gamma_, csr.alpha_) == pytest.approx((dense.gamma_, dense.alpha_))
    model = learner(1.0, kernel="exponential", gamma="mean-distance").fit(X, Y, qid=QID)
    assert model.gamma_ == pytest.approx(mean_distance(X[SCORED]) ** -0.5)
    far = learner(1.0, gamma="mean-distance").fit(X + 1e7, Y, qid=QID)
    assert far.gamma_ == pytest.approx(1 / mean_distance(X[SCORED]), rel=1e-6)


@pytest.mark.parametrize("basis", ["all", "scored", 6])
@pytest.mark.parametrize("learner", [CoRLS, CoRankRLS])
def test_every_view_has_its_own(learner, basis, tmp_path):
    """As the paper has it: of the scored rows, whatever the basis."""
    model = learner(HALVES, "mean-length", 0.1, basis).fit(X, Y, qid=QID)
    parts = [X[SCORED][:, view.columns] for view in HALVES]
    assert model.gamma_ == pytest.approx([1 / mean_distance(part) for part in parts])
    penalties = [1 / mean_length(parts[0]), 2 / mean_length(parts[1])]
    assert model.alpha_ == pytest.approx(penalties[0])
    weights = [model.alpha_ * view.penalty for view in model.views_]
    assert weights == pytest.approx(penalties)
    views = [
        View(view.columns, gamma=float(gamma), penalty=float(penalty))
        for view, gamma, penalty in zip(HALVES, model.gamma_, penalties, strict=True)
    ]
    plain = learner(views, 1.0, 0.1, basis).fit(X, Y, qid=QID)
    np.testing.assert_allclose(model.predict(NEW), plain.predict(NEW), rtol=1e-9, atol=1e-9)
    model.save(tmp_path / "m.corank")
    again = load(tmp_path / "m.corank")
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    for grown in (model, plain, again):
        grown.update(X[:4] + 0.1, P.y[:4], qid=["new"] * 4)
    np.testing.assert_allclose(model.predict(NEW), plain.predict(NEW), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(again.predict(NEW), plain.predict(NEW), rtol=1e-7, atol=1e-8)


@pytest.mark.filterwarnings("ignore:views. there is only one view")
def test_one_view_of_a_learner_with_views():
    model = CoRLS([View(gamma="mean-distance", penalty=3.0)], "mean-length", 0.0).fit(X, Y)
    assert model.alpha_ == pytest.approx(1 / mean_length(X[SCORED]))
    assert model.views_[0].penalty == 3.0


@pytest.mark.parametrize("learner", [MatchingPursuit, RankingPursuit])
def test_pursuit(learner):
    model = learner(3, gamma="mean-distance").fit(X, Y, qid=QID)
    assert model.gamma_ == pytest.approx(1 / mean_distance(X[SCORED]))


def test_pursuit_on_views():
    views = [View(view.columns, gamma="mean-distance") for view in HALVES]
    model = CoRankingPursuit(views, 2, 0.1).fit(X, Y, qid=QID)
    parts = [X[SCORED][:, view.columns] for view in HALVES]
    assert model.gamma_ == pytest.approx([1 / mean_distance(part) for part in parts])


@pytest.mark.parametrize("learner", [DifferenceGP, PreferenceGP])
def test_gaussian_processes(learner):
    model = learner(gamma="mean-distance").fit(X, Y, qid=QID)
    assert model.gamma_ == pytest.approx(1 / mean_distance(X[SCORED]))


def test_transduction_takes_all_rows():
    model = named(TransductiveRankRLS).fit(X, Y, qid=QID)
    assert model.gamma_ == pytest.approx(1 / mean_distance(X))
    assert model.alpha_ == pytest.approx(1 / mean_length(X))


def test_comparisons():
    model = named(RankRLS).fit_comparisons(X, [0, 5, 9], [5, 2, 0])
    used = [0, 2, 5, 9]
    assert model.gamma_ == pytest.approx(1 / mean_distance(X[used]))
    assert model.alpha_ == pytest.approx(1 / mean_length(X[used]))


def test_rows_that_say_nothing():
    model = named(RLS).fit(np.zeros((6, 2)), np.arange(6.0))
    assert (model.alpha_, model.gamma_) == (1.0, 1.0)


def test_other_words_are_refused():
    for wrong in ({"gamma": "mean-length"}, {"alpha": "mean-distance"}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} 'mean-.*' is not known"):
            RankRLS(**wrong).fit(X, Y, qid=QID)
    with pytest.raises(ValueError, match="gamma of view 1 'mean-length' is not known"):
        CoRLS([View([0], gamma="mean-length"), View([1])]).fit(X, Y)


def test_objects_have_no_length():
    with pytest.raises(ValueError, match="alpha='mean-length' needs rows of numbers"):
        inverse_length(np.array([["a"], ["b"]], dtype=object))


def test_several_targets():
    targets = np.column_stack([P.y, np.where(QID == 2, np.nan, 2 * P.y)])
    model = named(RankRLS).fit(X, targets, qid=QID)
    for column, scored in enumerate((np.arange(len(X)), SCORED)):
        alone = RankRLS(1 / mean_length(X[scored]), gamma=1 / mean_distance(X[scored]))
        alone.fit(X, targets[:, column], qid=QID)
        np.testing.assert_allclose(model.predict(NEW)[:, column], alone.predict(NEW), atol=1e-9)
