"""Several columns of scores: every column is fitted as it would be alone, and what does not depend
on scores is made once.
"""

import numpy as np
import pandas as pd
import pytest
from brute_force import REGRESSION, Loss, fit_predict
from brute_force.views import rbf

from corank import (
    KPCR,
    RLS,
    AutoRanker,
    CoRankRLS,
    KPCRank,
    ProductKernel,
    RankRLS,
    View,
    column_effects,
    load,
    scan,
)
from corank.report import plot_path
from corank.solve import spectrum, systems

pytestmark = pytest.mark.usefixtures("one_blas_thread")

RNG = np.random.default_rng(0)
N, T = 48, 5
X, NEW = RNG.normal(size=(N, 4)), RNG.normal(size=(6, 4))
Y = np.stack([np.sin((1 + j) * X[:, 0]) + j * X[:, 1] + 10 * j for j in range(T)], axis=1)
Y += 0.3 * RNG.normal(size=Y.shape)
HOLES = Y.copy()
HOLES[:7, 1] = HOLES[:7, 3] = HOLES[20:25, 4] = np.nan  # three patterns: 0 and 2, 1 and 3, 4
QID, W = np.arange(N) // 6, RNG.uniform(0.4, 2.0, size=N)
LOSSES = [REGRESSION, Loss("size"), Loss("query"), Loss("unit", 0.3)]
GAMMA, ALPHA = 0.3, 0.2


def learner(loss, **options):
    if loss is REGRESSION:
        return RLS(**options)
    return RankRLS(weighting=loss.weighting, beta=loss.beta, **options)


def alone(model, y, qid=None, weights=None):
    """One model per column."""
    options = {"qid": qid, "sample_weight": weights}
    return [type(model)(**model.get_params()).fit(X, column, **options) for column in y.T]


def predictions(models, rows=NEW):
    return np.stack([model.predict(rows) for model in models], axis=1)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("qid", [None, QID], ids=["one query", "queries"])
@pytest.mark.parametrize("basis", ["all", [3, 9, 20, 33]])
@pytest.mark.parametrize("y", [Y, HOLES], ids=["one pattern", "three patterns"])
def test_every_column_minimises_the_stated_objective(loss, qid, basis, y):
    weights = None if loss.weighting == "query" else W
    model = learner(loss, alpha=ALPHA, gamma=GAMMA, basis=basis)
    model.fit(X, y, qid=qid, sample_weight=weights)
    assert model.predict(NEW).shape == (6, T)
    for j, column in enumerate(y.T):
        given = ~np.isnan(column)
        own = None if weights is None else weights[given]
        labels = None if qid is None else qid[given]
        points = X[given] if basis == "all" else X[basis]
        options = {"qid": labels, "weights": own, "basis": points}
        expected = fit_predict(
            X[given], column[given], NEW, rbf(GAMMA), ALPHA, loss,
            intercept=loss is REGRESSION, **options,
        )  # fmt: skip
        np.testing.assert_allclose(model.predict(NEW)[:, j], expected, atol=1e-7)


HALF, REST = np.arange(N // 2), np.arange(N // 2, N)
FORMS = {
    "the default": {},
    "a subset": {"basis": 20},
    "columns": {"basis": "features", "kernel": "linear"},
    "one alpha": {"alpha": 0.1, "gamma": GAMMA},
    "an order": {"alpha": [0.1, 1.0, 10.0], "gamma": "tune", "scoring": "disagreement"},
    "a factor": {"basis": 20, "gamma": "scale", "scoring": "rescaled"},
    "folds": {"cv": [(HALF, REST), (REST, HALF)], "alpha": [0.1, 1.0], "gamma": "scale"},
    "widths": {"gamma": "columns", "alpha": [0.1, 1.0]},
}


@pytest.mark.parametrize("make", [RLS, RankRLS])
@pytest.mark.parametrize("qid", [None, QID], ids=["one query", "queries"])
@pytest.mark.parametrize("form", FORMS)
def test_columns_equal_fits_of_their_own(make, qid, form, tmp_path):
    model = make(**FORMS[form]).fit(X, HOLES, qid=qid)
    expected = alone(model, HOLES, qid)
    np.testing.assert_allclose(model.predict(NEW), predictions(expected), rtol=1e-9)
    np.testing.assert_allclose(model.alpha_, [each.alpha_ for each in expected])
    for j, each in enumerate(expected):
        if each.path_ is None:
            assert model.path_[j] is None
        else:
            np.testing.assert_allclose(model.path_[j].error, each.path_.error, rtol=1e-5)
        np.testing.assert_allclose(model.targets_[j].predict(NEW), each.predict(NEW), rtol=1e-9)
    assert model.score(X, HOLES, qid=qid) == pytest.approx(
        np.mean([each.score(X, y, qid=qid) for each, y in zip(expected, HOLES.T, strict=True)])
    )
    model.save(tmp_path / "model.corank")
    loaded = load(tmp_path / "model.corank")
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    for own, other in zip(loaded.targets_, model.targets_, strict=True):
        np.testing.assert_array_equal(own.predict(NEW), other.predict(NEW))
        assert own.alpha_ == other.alpha_
    assert "alpha" in str(loaded.summary())


@pytest.mark.parametrize("make", [RLS, RankRLS])
@pytest.mark.parametrize("basis", [6, [1, 5, 9, 300, 500]])
def test_many_rows_on_a_small_basis_equal_fits_of_their_own(make, basis):
    rng = np.random.default_rng(1)
    rows, qid = rng.normal(size=(620, 3)), np.arange(620) // 5
    y = np.stack([np.cos(rows[:, 0]), rows[:, 1] + 5.0, rng.normal(size=620)], axis=1)
    for labels in (qid, None):
        options = {"basis": basis, "gamma": 0.2}
        model = make(**options).fit(rows, y, qid=labels)
        expected = [make(**options).fit(rows, column, qid=labels) for column in y.T]
        found = model.predict(rows[:9])
        np.testing.assert_allclose(found, predictions(expected, rows[:9]), atol=1e-9)
        np.testing.assert_allclose(model.alpha_, [each.alpha_ for each in expected])


def test_attributes_have_a_column_per_target():
    model = RLS(gamma=GAMMA).fit(X, Y)
    assert model.coef_.shape == (N, T)
    assert model.basis_points_.shape == (N, 4)
    assert model.alpha_.shape == model.intercept_.shape == (T,)
    np.testing.assert_allclose(model.intercept_, Y.mean(axis=0))
    assert [len(path.error) for path in model.path_] == [20] * T
    model = RLS(gamma=GAMMA).fit(X, HOLES)  # each pattern has a basis of its own
    assert [part.shape for part in model.coef_] == [(N, T), (N - 7, T), (N - 5, T)]


def test_the_summary_leaves_to_each_target_what_is_its_own():
    text = str(RLS().fit(X, HOLES).summary())
    assert f"{T} columns of y" in text
    assert "model.targets_[0].summary()" in text
    assert "gamma" not in text  # every column chose its own
    assert "not measured" not in text


@pytest.mark.parametrize(("y", "patterns"), [(Y, 1), (HOLES, 3)])
@pytest.mark.parametrize("make", [RLS, RankRLS])
def test_columns_with_the_same_rows_share_one_decomposition(y, patterns, make, monkeypatch):
    decomposed, factorised = [], []
    eigh, cholesky = spectrum.eigh, systems.cholesky
    monkeypatch.setattr(spectrum, "eigh", lambda *a: decomposed.append(1) or eigh(*a))
    monkeypatch.setattr(systems, "cholesky", lambda *a: factorised.append(1) or cholesky(*a))
    make(gamma=GAMMA).fit(X, y, qid=QID)
    assert (len(decomposed), len(factorised)) == (patterns, 0)
    make(gamma=GAMMA, alpha=0.3).fit(X, y, qid=QID)
    assert (len(decomposed), len(factorised)) == (patterns, patterns)


@pytest.mark.parametrize("make", [RLS, RankRLS])
@pytest.mark.parametrize("basis", ["all", 12])
def test_update_adds_to_every_column(make, basis, tmp_path):
    more = np.round(10 * NEW @ RNG.normal(size=(4, T)))
    more[1, 2] = np.nan
    model = make(gamma=GAMMA, basis=basis).fit(X, HOLES)
    model.save(tmp_path / "model.corank")
    expected = alone(model, HOLES)
    model.update(NEW, more)
    for each, column in zip(expected, more.T, strict=True):
        each.update(NEW, column)
    np.testing.assert_allclose(model.predict(X), predictions(expected, X), rtol=1e-8)
    with pytest.raises(ValueError, match="y has 1 columns, but the model was fitted on 5"):
        model.update(NEW, more[:, 0])
    with pytest.raises(ValueError, match="what a model file does not hold; fit again"):
        load(tmp_path / "model.corank").update(NEW, more)


def test_frames_masks_and_tensors_have_columns():
    expected = RankRLS(gamma=GAMMA).fit(X, HOLES, qid=QID).predict(NEW)
    for y in (
        pd.DataFrame(HOLES),
        pd.DataFrame(HOLES).convert_dtypes(),
        np.ma.masked_array(np.nan_to_num(HOLES), np.isnan(HOLES)),
    ):
        found = RankRLS(gamma=GAMMA).fit(X, y, qid=QID).predict(NEW)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    torch = pytest.importorskip("torch")
    model = RankRLS(gamma=GAMMA).fit(torch.tensor(X), torch.tensor(HOLES), qid=QID)
    found = model.predict(torch.tensor(NEW))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_a_fit_on_one_column_leaves_nothing_of_several():
    model = RLS(gamma=GAMMA).fit(X, Y).fit(X, Y[:, 2])
    assert model.predict(NEW).shape == (6,)
    assert model.coef_.shape == (N,)
    assert len(model.targets_) == 0
    np.testing.assert_allclose(model.predict(NEW), RLS(gamma=GAMMA).fit(X, Y[:, 2]).predict(NEW))


def test_one_column_is_explained_at_a_time():
    model = RLS(gamma=GAMMA).fit(X, Y)
    parts = model.targets_[3].explain_pair(X[0], X[1]).by_view
    gap = model.predict(X[:1])[0, 3] - model.predict(X[1:2])[0, 3]
    assert sum(part.value for part in parts) == pytest.approx(gap)


def test_what_speaks_of_one_column_says_so(tmp_path):
    model = RLS(gamma=GAMMA).fit(X, Y[:, :2])
    columns = {f"x{number}": column for number, column in enumerate(X.T)}
    pd.DataFrame(columns | {"y": Y[:, 0]}).to_parquet(tmp_path / "rows.parquet")
    rows = scan(tmp_path / "rows.parquet", score="y")
    for name, act in {
        "explain_pair": lambda: model.explain_pair(X[0], X[1]),
        "predict_to": lambda: model.predict_to(rows, tmp_path / "scores.parquet"),
        "score of a scan": lambda: model.score(rows),
        "column_effects": lambda: column_effects(model, X, Y[:, :2]),
        "plot_path": lambda: plot_path(model),
    }.items():
        with pytest.raises(ValueError, match=f"^{name} is for one column of y, as each of"):
            act()
    assert np.isfinite(model.targets_[0].score(rows))


@pytest.mark.parametrize("refused", [KPCR(), KPCRank(), AutoRanker()])
def test_learners_of_one_column_say_so(refused):
    with pytest.raises(ValueError, match=r"y should be a 1d array .* RLS and RankRLS take several"):
        refused.fit(X, Y)


def test_what_is_wrong_is_named():
    with pytest.raises(ValueError, match="y has 5 columns for 2 views"):
        CoRankRLS(2).fit(X, Y)
    with pytest.raises(ValueError, match="y has no score in column 1"):
        RLS().fit(X, np.column_stack([Y[:, 0], np.full(N, np.nan)]))
    model = RLS(gamma=GAMMA).fit(X, Y)
    with pytest.raises(ValueError, match="y has 2 columns, but the model was fitted on 5"):
        model.score(X, Y[:, :2])


@pytest.mark.parametrize("make", [RLS, RankRLS])
def test_held_out_predictions_have_a_column_per_target(make):
    model = make(gamma=GAMMA).fit(X, HOLES, qid=QID)
    expected = alone(model, HOLES, QID)
    columns = [each.held_out_predictions_ for each in expected]
    np.testing.assert_allclose(model.held_out_predictions_, np.stack(columns, axis=1), atol=1e-9)
    folds = [(REST, HALF), (HALF, REST)]
    columns = [each.predict_held_out(folds) for each in expected]
    np.testing.assert_allclose(model.predict_held_out(folds), np.stack(columns, axis=1), atol=1e-9)


@pytest.mark.parametrize("make", [RLS, RankRLS])
def test_complete_grids_of_pairs_have_several_columns(make):
    left, right = RNG.normal(size=(7, 2)), RNG.normal(size=(5, 2))
    rows = np.concatenate([np.repeat(left, 5, axis=0), np.tile(right, (7, 1))], axis=1)
    y = np.stack([np.sin(rows[:, 0] * rows[:, 2]), rows[:, 1] + rows[:, 3]], axis=1)
    kernel = ProductKernel([View([0, 1], gamma=0.5), View([2, 3], gamma=0.4)])
    qid = None if make is RLS else np.repeat(np.arange(7), 5)
    model = make(kernel=kernel).fit(rows, y, qid=qid)
    expected = [make(kernel=kernel).fit(rows, column, qid=qid) for column in y.T]
    np.testing.assert_allclose(model.predict(rows), predictions(expected, rows), atol=1e-9)
