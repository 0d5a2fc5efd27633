"""Saved models: what is loaded predicts and updates as what was saved; what is broken is refused in words."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from edited_files import put, rewritten, round_trip, scale_array
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import corank
from corank import RLS, RankRLS, TableEncoder, kernels, load, register_kernel
from corank._arrays import eigh
from corank.model_files.container import ModelFileError, read_model
from corank.model_files.packing import Packer, Unpacker
from corank.solvers.holdout import SCORINGS

rng = np.random.default_rng(3)
N, D = 40, 4
X = rng.standard_normal((N, D))
Y = np.sin(2 * X[:, 0]) + X[:, 1]
QID = np.repeat(np.arange(10), 4)
W = rng.uniform(0.5, 2, N)
Y[5] = np.nan  # one row is unscored
NEW = rng.standard_normal((12, D))
NEW_Y, NEW_QID = NEW[:, 0], np.repeat(["a", "b", "c"], 4)
SPARSE = np.where(abs(X) > 0.5, X, 0.0)

learners = pytest.mark.parametrize("learner", [RLS, RankRLS])
WAYS = {
    "all rows": {},
    "tuned": {"alpha": "tune", "gamma": "tune"},
    "a subset": {"basis": 7},
    "row numbers": {"basis": np.array([1, 4, 9])},
    "features": {"basis": "features", "kernel": "linear"},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 0.5},
    "cosine": {"kernel": "cosine"},
    "laplacian": {"kernel": "laplacian"},
}
ways = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.corank"


def fitted(learner, X=X, **parameters):
    return learner(**{"alpha": 0.3, **parameters}).fit(X, Y, qid=QID, sample_weight=W)


def same(loaded, model, X=NEW):
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


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
    model = learner(**{"alpha": 0.3, **WAYS[way]}).fit(X, Y, qid=qid)
    loaded = round_trip(model, path)
    new_qid = None if qid is None else NEW_QID
    for each in (model, loaded, round_trip(loaded, path, overwrite=True)):
        each.update(NEW, NEW_Y, qid=new_qid)
        same(each, model)


@learners
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("basis", ["all", 7])
def test_csr_stays_csr(learner, kind, basis, path):
    model = fitted(learner, kind(SPARSE), basis=basis)
    loaded = round_trip(model, path)
    assert type(loaded.basis_points_) is type(model.basis_points_)
    same(loaded, model, kind(NEW))
    same(loaded, model)


@learners
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize(
    "arranged",
    [np.asfortranarray, lambda X: np.repeat(X, 2, axis=1)[:, ::2], lambda X: X[::-1][::-1], np.float32],
    ids=["by columns", "strided", "reversed", "float32"],
)
def test_the_order_in_memory_changes_nothing(learner, kernel, arranged, path):
    wide = arranged(np.random.default_rng(0).standard_normal((N, 70)))
    model = learner(0.3, kernel=kernel).fit(wide, Y)
    loaded = round_trip(model, path)
    np.testing.assert_array_equal(loaded.basis_points_, model.basis_points_)
    assert loaded.basis_points_.dtype == model.basis_points_.dtype
    same(loaded, model, np.random.default_rng(1).standard_normal((9, 70)).astype(wide.dtype))


@learners
@pytest.mark.parametrize("basis", ["all", 7])
def test_precomputed_kernels(learner, basis, path):
    K = X @ X.T
    model = fitted(learner, K, kernel="precomputed", basis=basis)
    loaded = round_trip(model, path)
    same(loaded, model, NEW @ X.T)
    assert max(array.size for array in read_model(path)[1].values()) < K.size  # the matrix stays out of the file
    if basis == "all":
        with pytest.raises(ValueError, match="precomputed"):
            loaded.update(K[:3], Y[:3], qid=QID[:3])


def test_comparisons(path):
    model = RankRLS(0.3).fit_comparisons(X, [0, 1, 2, 3], [4, 5, 6, 7])
    loaded = round_trip(model, path)
    same(loaded, model)
    with pytest.raises(ValueError, match="comparisons"):
        loaded.update(NEW, NEW_Y)


@learners
@pytest.mark.parametrize("basis", ["all", 7])
def test_models_on_tensors_load_as_numpy(learner, basis, path):
    torch = pytest.importorskip("torch")
    model = learner(0.3, basis=basis).fit(torch.asarray(X), torch.asarray(Y), qid=torch.asarray(QID))
    loaded = round_trip(model, path)
    assert isinstance(loaded.coef_, np.ndarray)
    assert isinstance(loaded.basis_points_, np.ndarray)
    np.testing.assert_allclose(loaded.predict(NEW), model.predict(torch.asarray(NEW)).numpy(), rtol=1e-12, atol=1e-12)
    assert isinstance(loaded.predict(torch.asarray(NEW)), torch.Tensor)


def test_update_of_a_model_on_tensors_goes_on_in_numpy(path):
    """Another library finds other eigenvectors of the basis; the sums must follow."""
    torch = pytest.importorskip("torch")
    options = {"alpha": 0.3, "gamma": 0.2, "basis": list(range(10, 20))}
    model = RankRLS(**options).fit(*map(torch.asarray, (X, Y)), qid=torch.asarray(QID))
    loaded = round_trip(model, path).update(NEW, NEW_Y, qid=NEW_QID)
    both = np.concatenate([QID, 20 + np.unique(NEW_QID, return_inverse=True)[1]])
    whole = RankRLS(**options).fit(np.concatenate([X, NEW]), np.concatenate([Y, NEW_Y]), qid=both)
    np.testing.assert_allclose(loaded.predict(X), whole.predict(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("qid", [QID, None], ids=["qid", "one query"])
@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_update_does_not_depend_on_the_eigenvectors_that_a_machine_finds(path, monkeypatch, qid, kernel):
    features, new = (X, NEW) if kernel == "rbf" else (X @ X.T, NEW @ X.T)
    model = RankRLS(0.3, basis=6, kernel=kernel).fit(features, Y, qid=qid)
    model.save(path)
    new_qid = None if qid is None else NEW_QID
    with monkeypatch.context() as patch:
        patch.setattr("corank.basis.eigh", lambda matrix: (eigh(matrix)[0], -eigh(matrix)[1]))
        loaded = load(path).update(new, NEW_Y, qid=new_qid)
    np.testing.assert_allclose(
        loaded.predict(features), model.update(new, NEW_Y, qid=new_qid).predict(features), atol=1e-9
    )


@learners
def test_fitted_attributes_come_back(learner, path):
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = fitted(learner, frame, alpha=[0.1, 1.0, 10.0], gamma=[0.1, 0.5])
    loaded = round_trip(model, path)
    for name in ("coef_", "basis_", "basis_points_", "feature_names_in_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    for name in ("alpha_", "gamma_", "intercept_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(model, name)
    for name in ("alpha", "gamma", "error", "standard_error"):
        np.testing.assert_array_equal(getattr(loaded.path_, name), getattr(model.path_, name))
    assert (loaded.path_.best, loaded.path_.scoring) == (model.path_.best, model.path_.scoring)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"a": "z"}))


@pytest.mark.parametrize("scoring", SCORINGS)
def test_what_the_path_was_scored_by_comes_back(scoring, path):
    assert round_trip(fitted(RankRLS, alpha=[0.1, 1.0], scoring=scoring), path).path_.scoring == scoring


PARAMETERS = {
    "alpha": (0.1, np.float32(0.5), 2),
    "basis": [np.int64(3), 1, 0],
    "gamma": np.float64(0.3),
    "degree": np.int32(4),
    "scoring": "disagreement",
    "random_state": np.int64(11),
}


def test_parameters_come_back_and_the_model_can_be_fitted_again(path):
    model = fitted(RankRLS, weighting="unit", beta=0.25, **PARAMETERS)
    loaded = round_trip(model, path)
    assert {**loaded.get_params(), "alpha": list(loaded.alpha)} == {**model.get_params(), "alpha": [0.1, 0.5, 2]}
    assert isinstance(loaded.alpha, tuple)
    again = clone(loaded).fit(X, Y, qid=QID, sample_weight=W)
    same(again, model)


def test_parameters_of_a_kernel_come_back(path):
    odd = {"a": None, "b": [1.5, (True, "x")], "c": float("inf")}
    assert round_trip(fitted(RLS).set_params(kernel_params=odd), path).kernel_params == odd


def test_what_matters_for_training_only_is_kept_in_words(path):
    model = RLS(0.3, cv=KFold(3), random_state=np.random.RandomState(0)).fit(X, Y)
    loaded = round_trip(model, path)
    assert loaded.cv is None
    assert loaded.random_state is None
    summary = read_model(path)[0]["summary"]
    assert summary["cv"].startswith("KFold(n_splits=3")
    assert "RandomState" in summary["random_state"]
    splits = list(KFold(3).split(X))
    RLS(cv=splits).fit(X, Y).save(path, overwrite=True)
    assert read_model(path)[0]["summary"]["cv"] == "3 splits"
    assert round_trip(RLS(0.3, cv=4).fit(X, Y), path, overwrite=True).cv == 4


def test_the_file_sums_up_the_training(path):
    fitted(RankRLS).save(path)
    header, _ = read_model(path)
    assert header["summary"] == {"rows": N, "scored": N - 1, "queries": 10}
    assert header["corank"] == corank.__version__


def test_basis_rows_are_stored_once(path):
    model = fitted(RankRLS, np.asfortranarray(X))
    assert round_trip(model, path)._rows.features is not None
    assert sum(array.shape in ((N - 1, D), (D, N - 1)) for array in read_model(path)[1].values()) == 1
    again = round_trip(load(path), path, overwrite=True)
    assert again._rows.features is again.basis_points_
    assert sum(array.shape in ((N - 1, D), (D, N - 1)) for array in read_model(path)[1].values()) == 1


# ---- kernels of one's own


def my_kernel(X, Z, scale=1.0):
    return (1 + scale * X @ Z.T) ** 2


@pytest.fixture
def register(monkeypatch):
    monkeypatch.setattr(kernels, "_registered", {})
    return register_kernel


@pytest.mark.parametrize("kernel", [my_kernel, "mine"])
def test_registered_kernels_are_saved_by_name(kernel, path, register):
    register("mine", my_kernel)
    model = fitted(RankRLS, kernel=kernel, kernel_params={"scale": 0.5})
    loaded = round_trip(model, path)
    assert loaded.kernel == "mine"
    same(loaded, model)
    for each in (model, loaded):
        each.update(NEW, NEW_Y, qid=NEW_QID)
    same(loaded, model)


def test_a_kernel_without_a_name_is_refused_and_nothing_is_written(path, register):
    with pytest.raises(ValueError, match="register_kernel"):
        fitted(RankRLS, kernel=my_kernel).save(path)
    assert not path.exists()


def test_a_kernel_that_is_not_registered_here_is_named(path, register, monkeypatch):
    register("mine", my_kernel)
    fitted(RankRLS, kernel=my_kernel).save(path)
    monkeypatch.setattr(kernels, "_registered", {})
    with pytest.raises(ModelFileError, match=r"kernel 'mine'.*register_kernel\('mine', function\) before loading"):
        load(path)


# ---- tables


def table():
    return pd.DataFrame({"kind": np.where(X[:, 0] > 0, "a", "b"), "size": X[:, 1], "late": X[:, 2] > 0})


def test_the_encoder_is_saved_with_the_model(path):
    encoder = TableEncoder().fit(table())
    model = RankRLS(0.3).fit(encoder.transform(table()), Y)
    assert model.encoder_ is None
    assert round_trip(model, path).encoder_ is None
    loaded = round_trip(model, path, encoder=encoder, overwrite=True)
    np.testing.assert_array_equal(
        loaded.predict(loaded.encoder_.transform(table())), model.predict(encoder.transform(table()))
    )
    assert loaded.encoder_.summary() == encoder.summary()


def test_a_loaded_encoder_stays_through_update_and_goes_with_fit(path):
    encoder = TableEncoder().fit(table())
    features = encoder.transform(table())
    loaded = round_trip(RankRLS(0.3).fit(features, Y), path, encoder=encoder)
    loaded.update(features[:5], Y[:5])
    assert round_trip(loaded, path, overwrite=True).encoder_ is not None
    assert loaded.fit(features, Y).encoder_ is None
    assert clone(loaded).encoder_ is None


def test_an_encoder_that_does_not_fit_is_refused(path):
    model = fitted(RankRLS)
    with pytest.raises(ValueError, match="encoder makes 4 columns") as caught:
        RankRLS(0.3).fit(X[:, :2], Y).save(path, encoder=TableEncoder().fit(table()))
    assert "fitted on 2" in str(caught.value)
    with pytest.raises(NotFittedError):
        model.save(path, encoder=TableEncoder())
    for foreign in (StandardScaler().fit(X), make_pipeline(StandardScaler()).fit(X)):
        with pytest.raises(TypeError, match="skops"):
            model.save(path, encoder=foreign)
    assert not path.exists()


# ---- what cannot be saved


def test_only_fitted_learners_of_corank_can_be_saved(path):
    with pytest.raises(NotFittedError):
        RLS().save(path)

    class Own(RLS):
        pass

    with pytest.raises(TypeError, match=r"save knows RLS, RankRLS, CoRLS, .*, not Own; see skops"):
        Own(0.3).fit(X, Y).save(path)
    assert not hasattr(Ridge, "save")
    assert not path.exists()


@pytest.mark.parametrize("odd", [{"a": object()}, {"a": my_kernel}, {3: 1}, {"a": {1, 2}}, {"a": np.array([None])}])
def test_parameters_that_are_no_data_are_named(path, odd):
    model = fitted(RLS).set_params(kernel_params=odd)
    with pytest.raises((TypeError, ValueError), match="kernel_params"):
        model.save(path)
    assert not path.exists()


def test_nothing_is_overwritten_unasked(path):
    fitted(RLS).save(path)
    with pytest.raises(FileExistsError):
        fitted(RankRLS).save(path)
    assert type(load(path)) is RLS
    fitted(RankRLS).save(path, overwrite=True)
    assert type(load(path)) is RankRLS


# ---- what cannot be loaded


@pytest.mark.parametrize("basis", ["all", 5])
def test_a_damaged_file_loads_equal_or_is_refused(path, tmp_path, basis):
    model = fitted(RankRLS, basis=basis)
    model.save(path)
    content, damaged = path.read_bytes(), tmp_path / "damaged"
    for at in range(0, len(content), 41):
        changed = bytearray(content)
        changed[at] ^= 0x04
        damaged.write_bytes(changed)
        try:
            same(load(damaged), model)
        except ModelFileError as error:
            assert "\n" not in str(error)  # noqa: PT017


NAN, HUGE = {"number": "nan"}, 10**400
HOSTILE = {
    "no learner": put("learner", None),
    "unknown learner": put("learner", "Pipeline"),
    "learner of another type": put("learner", ["RLS"]),
    "no parameters": put("parameters", None),
    "unknown parameter": put("parameters", "shell", "rm"),
    "lost parameter": put("parameters", "alpha", None),
    "beta of another type": put("parameters", "beta", "much"),
    "weighting of another type": put("parameters", "weighting", [1]),
    "weighting unknown": put("parameters", "weighting", "heavy"),
    "fitted is a list": put("fitted", []),
    "lost coefficients": put("fitted", "coefficients", None),
    "coefficients are text": put("fitted", "coefficients", "1, 2"),
    "array that is not there": put("fitted", "coefficients", {"array": "nothing"}),
    "array of no name": put("fitted", "coefficients", {"array": ["coefficients"]}),
    "unknown tag": put("fitted", "coefficients", {"pickle": "gASVAA=="}),
    "two tags": put("fitted", "coefficients", {"array": "coefficients", "tuple": []}),
    "foreign type": put("fitted", "kernel", {"Popen": {"args": "ls"}}),
    "kernel is text": put("fitted", "kernel", "rbf"),
    "kernel lacks parts": put("fitted", "kernel", {"Kernel": {"name": "rbf"}}),
    "kernel without gamma": put("fitted", "kernel", "Kernel", "gamma", NAN),
    "kernel of no name": put("fitted", "kernel", "Kernel", "name", 3),
    "alpha is NaN": put("fitted", "alpha", NAN),
    "alpha is zero": put("fitted", "alpha", 0),
    "alpha is huge": put("fitted", "alpha", HUGE),
    "intercept is true": put("fitted", "intercept", True),
    "many columns": put("fitted", "n_columns", 2**62),
    "columns as text": put("fitted", "n_columns", "4"),
    "no rows": put("fitted", "rows_seen", 0),
    "names of columns": put("fitted", "column_names", {"names": ["a"]}),
    "names that are numbers": put("fitted", "column_names", {"names": [1, 2, 3, 4]}),
    "queries or not": put("fitted", "with_queries", 1),
    "path is a tuple": put("fitted", "path", {"tuple": []}),
    "path with agreement": lambda header, arrays: header["fitted"]["path"]["Path"].update(
        agreement=header["fitted"]["path"]["Path"]["alpha"]
    ),
    "best is far": put("fitted", "path", "Path", "best", 99),
    "unknown scoring": put("fitted", "path", "Path", "scoring", "luck"),
    "rows are sums": put("fitted", "rows", {"Pointwise": {"needs_queries": False}}),
    "many queries": put("fitted", "rows", "Rows", "n_queries", 2**60),
    "weights of coefficients": put("fitted", "rows", "Rows", "weights", {"array": "path.alpha"}),
    "summary is text": put("summary", "fine"),
    "table is a list": put("table", [1]),
    "encoder is text": put("encoder", "fine"),
    "encoder lacks arrays": put("encoder", {"max_categories": 5, "scale": True, "columns": []}),
    "short coefficients": scale_array("coefficients", lambda a: a[1:]),
    "matrix of coefficients": scale_array("coefficients", lambda a: a[:, None]),
    "infinite coefficients": scale_array("coefficients", lambda a: a * np.inf),
    "whole coefficients": scale_array("coefficients", lambda a: a.astype(int)),
    "basis points of other width": scale_array("basis_points", lambda a: a[:, 1:]),
    "basis points with NaN": scale_array("basis_points", lambda a: np.where(a > 0, a, np.nan)),
    "negative rows": scale_array("basis", lambda a: a - 50),
    "queries out of range": scale_array("rows.queries", lambda a: a + 5),
    "negative queries": scale_array("rows.queries", lambda a: a - 5),
    "negative weights": scale_array("rows.weights", lambda a: -a),
    "missing scores": scale_array("rows.scores", lambda a: a * np.nan),
    "short scores": scale_array("rows.scores", lambda a: a[1:]),
    "deep nesting": put("fitted", "coefficients", json.loads('{"tuple": [' * 400 + "]}" * 400)),
}


@pytest.mark.filterwarnings("ignore:invalid value encountered in multiply")
@pytest.mark.parametrize("change", HOSTILE)
def test_a_file_that_makes_no_sense_is_refused_in_one_sentence(path, change):
    fitted(RankRLS, alpha=[0.1, 1.0]).save(path)
    rewritten(path, HOSTILE[change])
    with pytest.raises(ModelFileError) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))


@pytest.mark.parametrize("change", [put("later", 1), put("scoring", None)], ids=["more parts", "fewer parts"])
def test_a_file_of_another_version_says_to_fit_again(path, change):
    fitted(RankRLS, alpha=[0.1, 1.0]).save(path)
    rewritten(path, lambda header, arrays: change(header["fitted"]["path"]["Path"], arrays))
    with pytest.raises(ModelFileError, match="written by another version of corank; fit the model again"):
        load(path)


OLD_X = np.random.default_rng(0).standard_normal((12, 2)).round(3)
OLD_Y = (OLD_X[:, 0] - OLD_X[:, 1] ** 2).round(3)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("rankrls-all-rows", [1.1642661103, 1.5313654407, 0.5282357081], [0.9537752907, 1.2174134158, 0.2954560462]),
        ("rls-subset", [-0.0782153499, 0.0716672947, -0.6179028201], [-0.1570984781, 0.1098896222, -0.6014085136]),
    ],
)
def test_files_of_the_first_format_load_predict_and_grow(name, before, after):
    """Written at commit 00b6001: whatever is added to the format, they stay readable."""
    model = load(Path(__file__).parents[1] / "models" / f"{name}.safetensors")
    np.testing.assert_allclose(model.predict(OLD_X[:3]), before, rtol=1e-8)
    qid = [0] * 4 if name == "rankrls-all-rows" else None
    np.testing.assert_allclose(model.update(OLD_X[:4] + 1, OLD_Y[:4], qid=qid).predict(OLD_X[:3]), after, rtol=1e-8)


def test_a_file_that_is_not_there_is_said_to_be_missing(path, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*model\.corank"):
        load(path)
    with pytest.raises(IsADirectoryError, match="is a folder, not a model file"):
        load(tmp_path)


SUMS = {
    "other comparison": put(
        "fitted", "statistics", "Statistics", "comparison", {"Pointwise": {"needs_queries": False}}
    ),
    "a comparison that lies": put(
        "fitted", "statistics", "Statistics", "comparison", {"Queries": {"weighting": "size", "needs_queries": False}}
    ),
    "no sums": put("fitted", "statistics", "Statistics", "queries", {"tuple": []}),
    "sums of nothing": put("fitted", "statistics", "Statistics", "queries", {"tuple": [3]}),
    "sums not square": scale_array("statistics.queries.0.matrix", lambda a: a[1:]),
    "sums too wide": scale_array("statistics.queries.0.matrix", lambda a: np.eye(50)),
    "no whitening": put("fitted", "whitening", None),
    "whitening of another size": scale_array("whitening.matrix", lambda a: a[1:]),
    "sums with NaN": scale_array("statistics.queries.0.matrix", lambda a: a * np.nan),
}


@pytest.mark.parametrize("change", SUMS)
def test_sums_that_make_no_sense_are_refused(path, change):
    fitted(RankRLS, basis=5).save(path)
    rewritten(path, SUMS[change])
    with pytest.raises(ModelFileError):
        load(path)


CSR = {
    "column out of range": scale_array("basis_points.indices", lambda a: a + 50),
    "rows that run backwards": scale_array("basis_points.indptr", lambda a: a[::-1]),
    "data too short": scale_array("basis_points.data", lambda a: a[:-3]),
    "infinite": scale_array("basis_points.data", lambda a: a * np.inf),
    "fractions as columns": scale_array("basis_points.indices", lambda a: a.astype(float)),
    "shape is text": put("fitted", "basis_points", "csr_array", "shape", "big"),
    "shape is huge": put("fitted", "basis_points", "csr_array", "shape", [2**62, 2**62]),
    "no name": put("fitted", "basis_points", "csr_array", "name", 3),
}


@pytest.mark.parametrize("change", CSR)
def test_sparse_matrices_that_make_no_sense_are_refused(path, change):
    fitted(RankRLS, sparse.csr_array(SPARSE)).save(path)
    rewritten(path, CSR[change])
    with pytest.raises(ModelFileError):
        load(path)


def test_values_come_back_from_packing_as_they_were():
    value = {
        "plain": [1, 2.5, "x", None, True, (1, ("a",))],
        "scalars": [np.int8(3), np.float64(0.1), np.bool_(True)],
        "inf": float("-inf"),
        "range": range(3),
    }
    packer = Packer()
    packed = json.loads(json.dumps(packer.pack(value, "value")))
    assert Unpacker(packer.arrays).unpack(packed) == {**value, "scalars": [3, 0.1, True], "range": [0, 1, 2]}
