"""Saved models of several views: what is loaded predicts and updates as what was saved; what is broken is refused."""

import pickle

import numpy as np
import pandas as pd
import pytest
from edited_files import put, rewritten, round_trip, scale_array
from scipy import sparse
from sklearn.base import clone

from corank import (
    AutoRanker,
    AutoRegressor,
    CoRankRLS,
    CoRLS,
    TableEncoder,
    View,
    kernels,
    load,
    random_bases,
    random_split,
    register_kernel,
    side_by_side,
)
from corank.model_files.container import ModelFileError, read_model

pytestmark = pytest.mark.usefixtures("one_blas_thread")

rng = np.random.default_rng(5)
N, D = 60, 6
X = rng.standard_normal((N, D))
Y = X[:, 0] + np.sin(2 * X[:, 3]) + 0.1 * rng.standard_normal(N)
Y[24:] = np.nan
QID = np.arange(N) % 6
W = rng.uniform(0.5, 2, N)
MORE = rng.standard_normal((15, D))
MORE_QID = np.repeat(["u", "v", "w"], 5)
NEW = rng.standard_normal((8, D))
NEW_Y, NEW_QID = NEW[:, 0], np.repeat(["a", "b"], 4)
SPARSE = np.where(abs(X) > 0.5, X, 0.0)

VIEWS = [View([0, 1, 2], name="left", penalty=2.0), View(slice(3, 6), kernel="linear")]
learners = pytest.mark.parametrize("learner", [CoRLS, CoRankRLS])
WAYS = {
    "all rows": {},
    "tuned": {"alpha": [0.1, 1.0], "agreement": "tune", "gamma": [0.1, 0.3]},
    "a subset": {"basis": 7},
    "row numbers": {"basis": np.array([30, 1, 4, 9])},
    "row numbers a view": {"basis": [[1, 4, 9], [2, 3]]},
    "scored rows": {"basis": "scored"},
    "features": {"basis": "features", "kernel": "linear"},
    "coordinate": {"solver": "coordinate", "basis": 5},
    "three views": {"views": random_split(3)},
    "one view": {"views": 1, "agreement": 0.0},
    "bases": {"views": random_bases(2)},
    "views of one's own": {"views": VIEWS},
    "a view's own basis": {"views": [View([0, 1], basis=[1, 2, 40]), View([2, 3, 4, 5], basis=4)], "basis": 5},
}
ways = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.corank"


def fitted(learner, **parameters):
    options = {"alpha": 0.3, "agreement": 0.2, **parameters}
    return learner(**options).fit(X, Y, qid=QID, sample_weight=W, unscored=MORE, unscored_qid=MORE_QID)


def same(loaded, model, X=NEW):
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.predict_views(X), model.predict_views(X))


# ---- what comes back


@learners
@ways
def test_predictions_are_the_same_to_the_last_bit(learner, way, path):
    model = fitted(learner, **WAYS[way])
    loaded = round_trip(model, path)
    assert type(loaded) is learner
    same(loaded, model)


@learners
@ways
@pytest.mark.parametrize("qid", [QID, None], ids=["qid", "one query"])
def test_update_after_loading_is_update_before_saving(learner, way, qid, path):
    model = learner(**{"alpha": 0.3, "agreement": 0.2, **WAYS[way]}).fit(X, Y, qid=qid, unscored=MORE)
    loaded = round_trip(model, path)
    new_qid = None if qid is None else NEW_QID
    for each in (model, loaded, round_trip(loaded, path, overwrite=True)):
        each.update(NEW, NEW_Y, qid=new_qid)
        same(each, model)
    same(round_trip(loaded, path, overwrite=True), model)


@learners
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("basis", ["all", 7, "features"])
def test_csr_stays_csr(learner, kind, basis, path):
    views = [View([0, 1, 2], kernel="linear"), View([3, 4, 5], kernel="linear")]
    model = learner(views, 0.3, 0.2, basis=basis).fit(kind(SPARSE), Y, qid=QID, unscored=kind(MORE))
    loaded = round_trip(model, path)
    for own, other in zip(loaded.basis_points_, model.basis_points_, strict=True):
        assert type(own) is type(other)
    for new in (kind(NEW), NEW):
        same(loaded, model, new)


@learners
@pytest.mark.parametrize("basis", ["all", 7])
@pytest.mark.parametrize(
    "arranged", [np.float32, np.asfortranarray, lambda X: X[::-1][::-1]], ids=["float32", "by columns", "reversed"]
)
def test_precision_and_order_in_memory_change_nothing(learner, basis, arranged, path):
    rows, new = arranged(X), arranged(NEW)
    model = learner(2, 0.3, 0.2, basis).fit(rows, Y, qid=QID)
    loaded = round_trip(model, path)
    assert [own.dtype for own in loaded.basis_points_] == [rows.dtype, rows.dtype]
    assert loaded.predict(new).dtype == rows.dtype
    same(loaded, model, new)


@learners
@pytest.mark.parametrize("basis", ["all", [1, 2, 30]])
def test_precomputed_kernels(learner, basis, path):
    K, views = side_by_side([X[:, :3] @ X[:, :3].T, X[:, 3:] @ X[:, 3:].T], kernel="precomputed")
    K_new, _ = side_by_side([NEW[:, :3] @ X[:, :3].T, NEW[:, 3:] @ X[:, 3:].T])
    model = learner(views, 0.3, 0.2, basis).fit(K, Y, qid=QID)
    loaded = round_trip(model, path)
    same(loaded, model, K_new)
    assert max(array.size for array in read_model(path)[1].values()) < K.size / 2  # the matrix stays out of the file
    if basis == "all":
        with pytest.raises(ValueError, match="precomputed"):
            loaded.update(K_new, NEW_Y, qid=NEW_QID)
    else:
        same(loaded.update(K_new, NEW_Y, qid=NEW_QID), model.update(K_new, NEW_Y, qid=NEW_QID), K_new)


def test_comparisons(path):
    model = CoRankRLS(2, 0.3, 0.2).fit_comparisons(X, [0, 1, 2, 3], [4, 5, 6, 7], unscored=MORE)
    loaded = round_trip(model, path)
    same(loaded, model)
    with pytest.raises(ValueError, match="comparisons"):
        loaded.update(NEW, NEW_Y)


@learners
@pytest.mark.parametrize("basis", ["all", 7])
def test_scores_of_every_view(learner, basis, path):
    both = np.stack([Y, np.where(np.arange(N) < 30, X[:, 3], np.nan)], axis=1)
    model = learner(2, 0.3, 0.2, basis).fit(X, both, qid=QID)
    loaded = round_trip(model, path)
    same(loaded, model)
    new = np.stack([NEW_Y, np.full(8, np.nan)], axis=1)
    same(loaded.update(NEW, new, qid=NEW_QID), model.update(NEW, new, qid=NEW_QID))


@learners
@pytest.mark.parametrize("basis", ["all", 7])
def test_models_on_tensors_load_as_numpy(learner, basis, path):
    torch = pytest.importorskip("torch")
    model = learner(2, 0.3, 0.2, basis).fit(*map(torch.asarray, (X, Y)), qid=QID, unscored=torch.asarray(MORE))
    loaded = round_trip(model, path)
    assert all(isinstance(own, np.ndarray) for own in (*loaded.coef_, *loaded.basis_points_))
    close = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(loaded.predict(NEW), model.predict(torch.asarray(NEW)).numpy(), **close)
    model.update(torch.asarray(NEW), torch.asarray(NEW_Y), qid=NEW_QID)
    loaded.update(NEW, NEW_Y, qid=NEW_QID)
    np.testing.assert_allclose(loaded.predict(NEW), model.predict(torch.asarray(NEW)).numpy(), **close)


@learners
def test_fitted_attributes_come_back(learner, path):
    frame = pd.DataFrame(X, columns=list("abcdef"))
    views = [View(["a", "b*"], name="left", penalty=2.0), View(["c", "d", "e", "f"], kernel="linear")]
    model = learner(views, [0.1, 1.0], [0.0, 1.0], 7).fit(frame, Y, qid=QID)
    loaded = round_trip(model, path)
    for name in ("coef_", "basis_", "basis_points_"):
        for own, other in zip(getattr(loaded, name), getattr(model, name), strict=True):
            np.testing.assert_array_equal(own, other)
    for name in ("alpha_", "agreement_", "gamma_", "intercept_", "n_iter_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(model, name), name
        assert type(getattr(loaded, name)) is type(getattr(model, name)), name
    assert loaded.path_.best == model.path_.best
    for name in ("alpha", "agreement", "gamma", "error", "standard_error"):
        np.testing.assert_array_equal(getattr(loaded.path_, name), getattr(model.path_, name))
    assert [(v.name, v.penalty, v.kernel) for v in loaded.views_] == [("left", 2.0, "rbf"), ("view 2", 1.0, "linear")]
    assert [v.columns.tolist() for v in loaded.views_] == [[0, 1], [2, 3, 4, 5]]
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"a": "z"}))


def test_the_number_of_sweeps_comes_back(path):
    model = CoRLS(2, 0.3, 1.0, 5, solver="coordinate").fit(X, Y)
    assert round_trip(model, path).n_iter_ == model.n_iter_ > 1


PARAMETERS = {
    "a number": 3,
    "a split": random_split(2),
    "a split of attributes": random_split(2, attributes=["a", "a", "b", "b", "c", "c"]),
    "a split of numbers": random_split(2, attributes=np.array([0, 0, 1, 1, 2, 2])),
    "bases": random_bases(2),
    "indices": [View([2, 0]), View(np.array([5, 1, 3]))],
    "a slice": (View(slice(None, 3)), View(slice(np.int64(3), None, 2))),
    "a column": [View(0), View(slice(1, None))],
    "widths": [View([0, 1], gamma=0.3), View([2, 3], gamma=np.float32(0.5))],
}


@learners
@pytest.mark.parametrize("views", PARAMETERS)
def test_parameters_come_back_and_the_model_can_be_fitted_again(learner, views, path):
    model = learner(PARAMETERS[views], 0.3, 0.2, random_state=4).fit(X, Y, qid=QID)
    loaded = round_trip(model, path)
    assert type(loaded.views) is type(model.views)
    same(clone(loaded).fit(X, Y, qid=QID), model)
    same(round_trip(loaded, path, overwrite=True), model)


def test_views_by_name_can_be_fitted_again(path):
    frame = pd.DataFrame(X, columns=["t_1", "t_2", "t_3", "i_1", "i_2", "i_3"])
    model = CoRankRLS([View("t_*"), View(pd.Index(["i_3", "i_1"]))], 0.3, 0.2).fit(frame, Y)
    loaded = round_trip(model, path)
    same(clone(loaded).fit(frame, Y), model, frame)


def test_a_parameter_and_what_was_fitted_may_share_a_name(path):
    """`views` and `basis` are both; what was asked for is not what was made of it."""
    views = [View(np.array([2, 0])), View(np.array([5, 1, 3]))]
    model = CoRLS(views, 0.3, 0.2, basis=np.array([7, 1, 30]), gamma=np.array([0.1, 0.2])).fit(X, Y)
    loaded = round_trip(model, path)
    np.testing.assert_array_equal(loaded.views[0].columns, [2, 0])
    np.testing.assert_array_equal(loaded.views_[0].columns, [0, 2])
    np.testing.assert_array_equal(loaded.basis, [7, 1, 30])
    same(loaded, model)


def test_the_file_sums_up_the_training(path):
    fitted(CoRankRLS).save(path)
    assert read_model(path)[0]["summary"] == {"rows": N + 15, "scored": 24, "queries": 6, "unscored": 36 + 15}


def test_basis_rows_are_stored_once(path):
    model = fitted(CoRankRLS, views=VIEWS)
    loaded = round_trip(model, path)
    for each in (loaded, round_trip(loaded, path, overwrite=True)):
        assert [own.features is points for own, points in zip(each._rows, each.basis_points_, strict=True)] == [
            True
        ] * 2
        assert sum(array.shape == (N + 15, 3) for array in read_model(path)[1].values()) == 2


# ---- whether unscored rows helped


@learners
def test_the_effect_of_unscored_rows_is_saved_where_it_was_asked_for(learner, path):
    model = learner(VIEWS).fit(X, Y)
    assert round_trip(model, path).unscored_effect_ is None
    effect = model.unscored_effect_
    assert effect is not None
    loaded = round_trip(model, path, overwrite=True)
    assert loaded.unscored_effect_ == effect
    assert round_trip(loaded, path, overwrite=True).unscored_effect_ == effect
    assert "None after loading" in learner.unscored_effect_.__doc__
    assert loaded.fit(X[:24], Y[:24], unscored=MORE)._effect is None


@learners
@pytest.mark.parametrize("basis", ["all", 7])
@pytest.mark.parametrize("form", ["rows", "chunks"])
def test_models_can_be_pickled_before_and_after_asking_for_the_effect(learner, basis, form):
    chunks = [(MORE[:5], MORE_QID[:5]), (MORE[5:], MORE_QID[5:])]
    extra = {"unscored": MORE, "unscored_qid": MORE_QID} if form == "rows" else {"unscored": chunks}
    model = learner(VIEWS, basis=basis).fit(X, Y, qid=QID, **extra)
    before = pickle.loads(pickle.dumps(model))
    assert model.unscored_effect_ is not None
    after = pickle.loads(pickle.dumps(model))
    for copy in (before, after):
        same(copy, model)
        assert copy.unscored_effect_ == model.unscored_effect_


# ---- kernels of one's own


def my_kernel(X, Z, scale=1.0):
    return (1 + scale * X @ Z.T) ** 2


@pytest.fixture
def register(monkeypatch):
    monkeypatch.setattr(kernels, "_registered", {})
    return register_kernel


OWN = {
    "of the learner": {"views": 2, "kernel": my_kernel},
    "of a view": {"views": [View([0, 1, 2]), View([3, 4, 5], kernel=my_kernel)]},
}
own_kernels = pytest.mark.parametrize("way", OWN)


@own_kernels
def test_registered_kernels_are_saved_by_name(way, path, register):
    register("mine", my_kernel)
    model = fitted(CoRankRLS, **OWN[way], kernel_params={"scale": 0.5} if way == "of the learner" else None)
    loaded = round_trip(model, path)
    assert loaded.views_[1].kernel == "mine"
    same(loaded, model)
    same(loaded.update(NEW, NEW_Y, qid=NEW_QID), model.update(NEW, NEW_Y, qid=NEW_QID))


@own_kernels
def test_a_kernel_without_a_name_is_refused_and_nothing_is_written(way, path, register):
    with pytest.raises(ValueError, match=r"kernel is a function .*register_kernel"):
        fitted(CoRankRLS, **OWN[way]).save(path)
    assert not path.exists()


@own_kernels
def test_a_kernel_that_is_not_registered_here_is_named(way, path, register, monkeypatch):
    register("mine", my_kernel)
    fitted(CoRankRLS, **OWN[way]).save(path)
    monkeypatch.setattr(kernels, "_registered", {})
    with pytest.raises(ModelFileError, match=r"kernel 'mine'.*register_kernel\('mine', function\) before loading"):
        load(path)


def test_views_that_are_no_data_are_named(path):
    class Own(random_split):
        pass

    with pytest.raises(TypeError, match="views holds a Own, which a model file cannot hold"):
        CoRLS(Own(2), 0.3, 0.2).fit(X, Y).save(path)
    model = CoRLS(2, 0.3, 0.2).fit(X, Y).set_params(views=[View(columns={1, 2})])
    with pytest.raises(TypeError, match=r"views.0.columns holds a set"):
        model.save(path)
    assert not path.exists()


# ---- tables


def table():
    frame = pd.DataFrame(X[:, 1:], columns=["b", "c", "d", "e", "f"])
    return frame.assign(kind=np.where(X[:, 0] > 0, "x", "y"), late=X[:, 1] > 0)


@learners
def test_tables_go_through_the_encoder_of_the_model(learner, path):
    encoder = TableEncoder().fit(table())
    features = encoder.transform(table())
    model = learner(2, 0.3, 0.2).fit(features, Y, qid=QID)
    assert model.encoder_ is None
    assert round_trip(model, path).encoder_ is None
    model.table_ = {"score": "rating", "rows": N}
    loaded = round_trip(model, path, encoder=encoder, overwrite=True)
    assert loaded.table_ == model.table_
    np.testing.assert_array_equal(loaded.predict(table()), model.predict(features))
    np.testing.assert_array_equal(loaded.predict_views(table()), model.predict_views(features))
    loaded.update(table()[:4], Y[:4], qid=[0, 0, 1, 1])
    np.testing.assert_array_equal(
        round_trip(loaded, path, overwrite=True).predict(table()),
        model.update(features[:4], Y[:4], qid=[0, 0, 1, 1]).predict(features),
    )
    assert loaded.fit(features, Y, qid=QID).encoder_ is None
    assert loaded.table_ is None


@pytest.mark.parametrize("learner", [AutoRanker, AutoRegressor])
def test_of_an_automatic_choice_the_chosen_model_is_saved(learner, path):
    model = learner(VIEWS).fit(X, Y)
    loaded = round_trip(model, path)
    assert type(loaded) is type(model.best_estimator_)
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    model.best_estimator_ = learner._learners(model)[1](VIEWS, agreement=0.1).fit(X, Y)
    np.testing.assert_array_equal(round_trip(model, path, overwrite=True).predict(NEW), model.predict(NEW))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(NEW), model.predict(NEW))


# ---- what cannot be loaded


@pytest.mark.parametrize("basis", ["all", 5])
def test_a_damaged_file_loads_equal_or_is_refused(path, tmp_path, basis):
    model = fitted(CoRankRLS, basis=basis)
    model.save(path)
    content, damaged = path.read_bytes(), tmp_path / "damaged"
    for at in range(0, len(content), 83):
        changed = bytearray(content)
        changed[at] ^= 0x04
        damaged.write_bytes(changed)
        try:
            same(load(damaged), model)
        except ModelFileError as error:
            assert "\n" not in str(error)  # noqa: PT017


def refused(path, change):
    rewritten(path, change)
    with pytest.raises(ModelFileError) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))


NAN = {"number": "nan"}
VIEW = ("fitted", "views", 0, "View")
HOSTILE = {
    "another learner": put("learner", "RankRLS"),
    "lost views": put("fitted", "views", None),
    "no views": put("fitted", "views", []),
    "views are text": put("fitted", "views", "two"),
    "a view is a kernel": put("fitted", "views", 0, {"Kernel": {"name": "rbf", "gamma": 1.0}}),
    "a view is a split": put("fitted", "views", 0, {"random_split": {"n_views": 2, "attributes": 3}}),
    "one view too few": lambda header, arrays: header["fitted"]["views"].pop(),
    "one kernel too few": lambda header, arrays: header["fitted"]["kernels"].pop(),
    "one width too many": lambda header, arrays: header["fitted"]["gamma"].append(0.1),
    "one expansion too few": lambda header, arrays: header["fitted"]["coefficients"].pop(),
    "coefficients are an array": put("fitted", "coefficients", {"array": "coefficients.0"}),
    "other coefficients": put("fitted", "coefficients", 0, {"array": "path.alpha"}),
    "a width of another kernel": put("fitted", "gamma", 0, 123.0),
    "a kernel is text": put("fitted", "kernels", 0, "rbf"),
    "a kernel without width": put("fitted", "kernels", 0, "Kernel", "gamma", NAN),
    "columns are text": put(*VIEW, "columns", "a*"),
    "columns are all": put(*VIEW, "columns", {"slice": [0, 3, 1]}),
    "columns are fractions": put(*VIEW, "columns", {"array": "coefficients.0"}),
    "a slice of text": put("parameters", "views", 0, "View", "columns", {"slice": ["a", None, None]}),
    "a short slice": put("parameters", "views", 0, "View", "columns", {"slice": [0]}),
    "a view lacks parts": put(*VIEW, "penalty", None),
    "a view without a name": put(*VIEW, "name", 3),
    "a view's kernel is a number": put(*VIEW, "kernel", 3),
    "no penalty": put(*VIEW, "penalty", 0.0),
    "penalty is NaN": put(*VIEW, "penalty", NAN),
    "penalty is true": put(*VIEW, "penalty", True),
    "agreement is NaN": put("fitted", "agreement", NAN),
    "agreement is huge": put("fitted", "agreement", 2**62),
    "agreement is negative": put("fitted", "agreement", -1.0),
    "agreement is text": put("fitted", "agreement", "much"),
    "no sweeps": put("fitted", "sweeps", 0),
    "sweeps as text": put("fitted", "sweeps", "7"),
    "negative rows": put("fitted", "rows_unscored", -3),
    "compared or not": put("fitted", "compared", 1),
    "path without agreement": lambda header, arrays: header["fitted"]["path"]["Path"].update(agreement=None),
    "agreements too few": scale_array("path.agreement", lambda a: a[1:]),
    "effect is text": put("fitted", "effect", "helped"),
    "effect of no verdict": put("fitted", "effect", "UnscoredEffect", "verdict", "ruined"),
    "effect with a list": put("fitted", "effect", "UnscoredEffect", "difference", [1.0]),
    "effect lacks parts": put("fitted", "effect", "UnscoredEffect", "n_held_out", None),
    "short coefficients": scale_array("coefficients.0", lambda a: a[1:]),
    "infinite coefficients": scale_array("coefficients.1", lambda a: np.full_like(a, np.inf)),
    "basis points of other width": scale_array("basis_points.0", lambda a: a[:, 1:]),
    "basis points with NaN": scale_array("basis_points.1", lambda a: np.where(a > 0, a, np.nan)),
    "negative basis": scale_array("basis.0", lambda a: a - 50),
    "columns out of range": scale_array("views.0.columns", lambda a: a + 5),
    "columns backwards": scale_array("views.0.columns", lambda a: a[::-1]),
    "columns twice": scale_array("views.0.columns", lambda a: a * 0),
    "a matrix of columns": scale_array("views.0.columns", lambda a: a[:, None]),
    "rows are an array": put("fitted", "rows", {"array": "coefficients.0"}),
    "one row set too few": lambda header, arrays: header["fitted"]["rows"].pop(),
    "rows without queries": lambda header, arrays: header["fitted"]["rows"][0]["Rows"].update(
        queries=None, n_queries=1
    ),
    "queries out of range": scale_array("rows.0.queries", lambda a: a + 20),
    "all unscored": scale_array("rows.0.scores", lambda a: a * np.nan),
    "scored after unscored": scale_array("rows.0.scores", lambda a: a[::-1]),
    "unscored in one view only": scale_array("rows.1.scores", lambda a: np.where(np.arange(len(a)) < 40, 1.0, a)),
    "infinite scores": scale_array("rows.0.scores", lambda a: np.where(np.isnan(a), a, np.inf)),
    "negative weights": scale_array("rows.0.weights", lambda a: -a),
}


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """A file with everything in it that a model on all rows can have."""
    path = tmp_path_factory.mktemp("models") / "model.corank"
    model = fitted(CoRankRLS, views=VIEWS, alpha=[0.1, 1.0], agreement=[0.1, 1.0])
    assert model.unscored_effect_ is not None
    model.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("change", HOSTILE)
def test_a_file_that_makes_no_sense_is_refused_in_one_sentence(path, content, change):
    path.write_bytes(content)
    refused(path, HOSTILE[change])


SUMS = {
    "other comparison": put(
        "fitted", "statistics", 0, "Statistics", "comparison", {"Pointwise": {"needs_queries": False}}
    ),
    "one set too few": lambda header, arrays: header["fitted"]["statistics"].pop(),
    "sums are an array": put("fitted", "statistics", {"array": "disagreement"}),
    "sums of nothing": put("fitted", "statistics", 1, "Statistics", "queries", {"tuple": []}),
    "sums not square": scale_array("statistics.0.queries.0.matrix", lambda a: a[1:]),
    "sums too wide": scale_array("statistics.0.queries.0.matrix", lambda a: np.eye(50)),
    "sums with NaN": scale_array("statistics.1.queries.0.matrix", lambda a: a * np.nan),
    "no whitening": put("fitted", "whitenings", [3, 3]),
    "one whitening too few": lambda header, arrays: header["fitted"]["whitenings"].pop(),
    "whitening of another size": scale_array("whitenings.0.matrix", lambda a: a[1:]),
    "no disagreement": put("fitted", "disagreement", 0.0),
    "disagreement of another size": scale_array("disagreement", lambda a: a[1:, 1:]),
    "disagreement not square": scale_array("disagreement", lambda a: a[1:]),
    "infinite disagreement": scale_array("disagreement", lambda a: np.full_like(a, np.inf)),
    "whole disagreement": scale_array("disagreement", lambda a: a.astype(int)),
}


@pytest.mark.parametrize("change", SUMS)
def test_sums_that_make_no_sense_are_refused(path, change):
    fitted(CoRankRLS, views=VIEWS, basis=5).save(path)
    refused(path, SUMS[change])


CSR = {
    "column out of range": scale_array("basis_points.1.indices", lambda a: a + 50),
    "data too short": scale_array("basis_points.1.data", lambda a: a[:-3]),
    "infinite": scale_array("basis_points.0.data", lambda a: np.full_like(a, np.inf)),
    "shape is huge": put("fitted", "basis_points", 0, "csr_array", "shape", [2**62, 2**62]),
}


@pytest.mark.parametrize("change", CSR)
def test_sparse_matrices_that_make_no_sense_are_refused(path, change):
    CoRankRLS(2, 0.3, 0.2).fit(sparse.csr_array(SPARSE), Y).save(path)
    refused(path, CSR[change])
