"""Saved Gaussian processes: what is loaded predicts and grows as what was saved; what is broken is refused in words."""

import json

import numpy as np
import pandas as pd
import pytest
from edited_files import put, rewritten, round_trip, scale_array
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from corank import DifferenceGP, PreferenceGP, load
from corank.model_files.container import ModelFileError, read_model

pytestmark = pytest.mark.usefixtures("one_blas_thread")

rng = np.random.default_rng(17)
N = 20
X = rng.normal(size=(N, 3))
Y = np.sin(X[:, 0]) + X[:, 1]
QID = np.repeat(np.arange(5), 4)
FIRST, SECOND = np.arange(N), np.roll(np.arange(N), 1)
WINS = Y[FIRST] + 0.3 * rng.normal(size=N) > Y[SECOND]
WINNERS, LOSERS = np.where(WINS, FIRST, SECOND), np.where(WINS, SECOND, FIRST)
NEW = rng.normal(size=(6, 3))
NEW_Y, NEW_QID = NEW[:, 0], np.repeat(["a", "b"], 3)

learners = pytest.mark.parametrize("learner", [PreferenceGP, DifferenceGP])
sources = pytest.mark.parametrize("source", ["scores", "one query", "comparisons"])
WAYS = {
    "fixed": {"amplitude": 2.0, "gamma": 0.4},
    "tuned": {},
    "columns": {"gamma": "columns"},
    "a subset": {"amplitude": 2.0, "gamma": 0.4, "basis": 6},
    "row numbers": {"amplitude": 2.0, "gamma": 0.4, "basis": np.array([1, 4, 9])},
    "linear": {"kernel": "linear"},
    "laplacian": {"amplitude": 2.0, "kernel": "laplacian", "gamma": 0.4},
}
ways = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.corank"


@pytest.fixture(autouse=True)
def quiet(recwarn):
    """Widths at the end of their range are another test's."""


def fitted(learner, source="scores", X=X, **parameters):
    model = learner(**parameters)
    if source == "comparisons":
        return model.fit_comparisons(X, WINNERS, LOSERS)
    return model.fit(X, Y, qid=QID if source == "scores" else None)


def grown(model, source, new=NEW):
    if source == "comparisons":
        return model.update_comparisons(new, [0, 1, 2], [3, 4, 5])
    return model.update(new, NEW_Y, qid=NEW_QID if source == "scores" else None)


def same(loaded, model, new=NEW):
    for options in ({"return_std": True}, {"return_cov": True}):
        for found, expected in zip(loaded.predict(new, **options), model.predict(new, **options), strict=True):
            np.testing.assert_array_equal(found, expected)
    for observed in (False, True):
        np.testing.assert_array_equal(
            loaded.predict_comparison(new, new[::-1], observed), model.predict_comparison(new, new[::-1], observed)
        )
    np.testing.assert_array_equal(loaded.suggest(new, 3), model.suggest(new, 3))
    assert loaded.log_evidence_ == model.log_evidence_


# ---- what comes back


@learners
@sources
@ways
def test_everything_is_the_same_to_the_last_bit_and_grows_alike(learner, source, way, path):
    model = fitted(learner, source, **WAYS[way])
    loaded = round_trip(model, path)
    assert type(loaded) is learner
    same(loaded, model)
    assert str(loaded.get_params()) == str(model.get_params())
    again = round_trip(loaded, path, overwrite=True)
    grown(model, source)
    for each in (loaded, again):
        same(grown(each, source), model)
    same(round_trip(loaded, path, overwrite=True), model)


def test_an_average_comes_back(path):
    model = fitted(PreferenceGP, amplitude=2.0, average_width=True)
    loaded = round_trip(model, path)
    assert len(loaded._parts) == len(model._parts) > 2
    same(loaded, model)
    same(grown(loaded, "scores"), grown(model, "scores"))


@learners
@sources
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_csr_stays_csr(learner, source, kind, path):
    model = fitted(learner, source, kind(np.where(abs(X) > 0.3, X, 0.0)), amplitude=2.0, gamma=0.4)
    loaded = round_trip(model, path)
    assert type(loaded.basis_points_) is type(model.basis_points_)
    same(loaded, model, kind(NEW))
    same(grown(loaded, source, kind(NEW)), grown(model, source, kind(NEW)))


@learners
@sources
@pytest.mark.parametrize("arranged", [np.float32, np.asfortranarray, lambda X: X[::-1][::-1]], ids=["f4", "F", "back"])
def test_precision_and_order_in_memory_change_nothing(learner, source, arranged, path):
    model = fitted(learner, source, arranged(X), amplitude=2.0, gamma=0.4)
    loaded = round_trip(model, path)
    assert loaded.basis_points_.dtype == model.basis_points_.dtype
    assert loaded.predict(arranged(NEW)).dtype == arranged(NEW).dtype
    same(loaded, model, arranged(NEW))


@learners
@sources
@pytest.mark.parametrize("basis", ["all", 6])
def test_a_precomputed_matrix_stays_out_of_the_file(learner, source, basis, path):
    K = rbf_kernel(X, gamma=0.4)
    model = fitted(learner, source, K, amplitude=2.0, kernel="precomputed", basis=basis)
    loaded = round_trip(model, path)
    new = rbf_kernel(NEW, X, gamma=0.4)
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    matrices = [name for name, array in read_model(path)[1].items() if array.size >= K.size]
    assert matrices == (["parts.0.spread"] if basis == "all" else [])
    if source == "comparisons" or basis == "all" or learner is PreferenceGP:
        with pytest.raises(ValueError, match="precomputed"):
            grown(loaded, source, new)


@learners
@sources
def test_models_on_tensors_load_as_numpy(learner, source, path):
    torch = pytest.importorskip("torch")
    model = learner(2.0, 0.4)
    if source == "comparisons":
        model.fit_comparisons(torch.asarray(X), WINNERS, LOSERS)
    else:
        model.fit(torch.asarray(X), torch.asarray(Y), qid=torch.asarray(QID) if source == "scores" else None)
    loaded = round_trip(model, path)
    assert isinstance(loaded.coef_, np.ndarray)
    expected = [part.numpy() for part in model.predict(torch.asarray(NEW), return_cov=True)]
    for found, own in zip(loaded.predict(NEW, return_cov=True), expected, strict=True):
        np.testing.assert_allclose(found, own, atol=1e-10)
    grown(loaded, source)
    np.testing.assert_allclose(loaded.predict(NEW), grown(fitted(learner, source, amplitude=2.0, gamma=0.4), source).predict(NEW), atol=1e-6)  # fmt: skip


@learners
def test_names_of_columns_come_back(learner, path):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    loaded = round_trip(learner(2.0, 0.4).fit(frame, Y), path)
    assert loaded.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"a": "z"}))


@learners
def test_items_are_stored_once(learner, path):
    for source in ("scores", "comparisons"):
        round_trip(fitted(learner, source, amplitude=2.0, gamma=0.4), path, overwrite=True)
        assert sum(array.shape == X.shape for array in read_model(path)[1].values()) == 1


# ---- what cannot be loaded


@learners
@pytest.mark.parametrize("source", ["scores", "comparisons"])
def test_a_damaged_file_loads_equal_or_is_refused(learner, source, path, tmp_path):
    model = fitted(learner, source, amplitude=2.0, gamma=0.4, basis=5)
    model.save(path)
    content, damaged = path.read_bytes(), tmp_path / "damaged"
    for at in range(0, len(content), 97):
        changed = bytearray(content)
        changed[at] ^= 0x04
        damaged.write_bytes(changed)
        try:
            same(load(damaged), model)
        except ModelFileError as error:
            assert "\n" not in str(error)  # noqa: PT017


NAN = {"number": "nan"}
PART = ("fitted", "parts", 0, "GaussianPart")
SHARED = {
    "another learner": put("learner", "RankRLS"),
    "no parts": put("fitted", "parts", []),
    "parts are text": put("fitted", "parts", "one"),
    "a part is a kernel": put("fitted", "parts", 0, {"Kernel": {"name": "rbf", "gamma": 1.0}}),
    "a part lacks its kernel": put(*PART, "kernel", None),
    "a part's kernel is text": put(*PART, "kernel", "rbf"),
    "a part's kernel is precomputed": put(*PART, "kernel", "Kernel", "name", "precomputed"),
    "a part without width": put(*PART, "kernel", "Kernel", "gamma", NAN),
    "widths of other columns": put(*PART, "kernel", "Kernel", "scales", {"tuple": [1.0]}),
    "widths of text": put(*PART, "kernel", "Kernel", "scales", {"tuple": ["a", "b", "c"]}),
    "a share of half": put(*PART, "weight", 0.5),
    "a negative share": put(*PART, "weight", -1.0),
    "a share that is true": put(*PART, "weight", True),
    "a part's amplitude is NaN": put(*PART, "amplitude", NAN),
    "a part's amplitude is zero": put(*PART, "amplitude", 0.0),
    "coefficients of a spread": put(*PART, "coefficients", {"array": "parts.0.spread"}),
    "a spread of coefficients": put(*PART, "spread", {"array": "coefficients"}),
    "a spread is text": put(*PART, "spread", "wide"),
    "a short spread": scale_array("parts.0.spread", lambda a: a[1:]),
    "a spread with NaN": scale_array("parts.0.spread", lambda a: a * np.nan),
    "a whole spread": scale_array("parts.0.spread", lambda a: a.astype(int)),
    "amplitude is NaN": put("fitted", "amplitude", NAN),
    "amplitude is negative": put("fitted", "amplitude", -1.0),
    "amplitude is text": put("fitted", "amplitude", "large"),
    "evidence is text": put("fitted", "log_evidence", "large"),
    "evidence is NaN": put("fitted", "log_evidence", NAN),
    "kernel is text": put("fitted", "kernel", "rbf"),
    "kernel with widths and one gamma": put("fitted", "kernel", "Kernel", "scales", {"tuple": [1.0, 2.0, 3.0]}),
    "gamma is text": put("fitted", "gamma", "wide"),
    "gamma is NaN": put("fitted", "gamma", NAN),
    "intercept is true": put("fitted", "intercept", True),
    "no basis points": lambda header, arrays: header["fitted"].update(basis_points=None, basis=None),
    "basis points of other width": scale_array("basis_points", lambda a: a[:, 1:]),
    "basis points with NaN": scale_array("basis_points", lambda a: np.where(a > 0, a, np.nan)),
    "negative rows": scale_array("basis", lambda a: a - 50),
    "short coefficients": scale_array("coefficients", lambda a: a[1:]),
    "infinite coefficients": scale_array("coefficients", lambda a: np.full_like(a, np.inf)),
    "queries or not": put("fitted", "with_queries", 1),
    "no columns": put("fitted", "n_columns", 0),
    "lost parameter": put("parameters", "amplitude", None),
    "unknown parameter": put("parameters", "shell", "rm"),
    "lost comparisons": lambda header, arrays: header["fitted"].pop("compared"),
    "deep nesting": put("fitted", "coefficients", json.loads('{"tuple": [' * 400 + "]}" * 400)),
}
COMPARED = {
    "comparisons are text": put("fitted", "compared", "many"),
    "comparisons are rows": put("fitted", "compared", {"Pointwise": {"needs_queries": False}}),
    "winners out of range": scale_array("compared.winners", lambda a: a + 50),
    "negative losers": scale_array("compared.losers", lambda a: a - 50),
    "winners are losers": lambda header, arrays: arrays.update({"compared.winners": arrays["compared.losers"]}),
    "short winners": scale_array("compared.winners", lambda a: a[1:]),
    "fractions as winners": scale_array("compared.winners", lambda a: a.astype(float)),
    "items as losers": lambda header, arrays: next(iter(header["fitted"]["compared"].values())).update(
        losers={"array": "basis_points"}
    ),
    "items are text": lambda header, arrays: next(iter(header["fitted"]["compared"].values())).update(features="all"),
    "items of a number": lambda header, arrays: next(iter(header["fitted"]["compared"].values())).update(features=3),
    "items of fewer columns": lambda header, arrays: (
        next(iter(header["fitted"]["compared"].values())).update(features={"array": "items"}),
        arrays.update(items=np.ones((N, 2))),
    ),
    "items with NaN": lambda header, arrays: (
        next(iter(header["fitted"]["compared"].values())).update(features={"array": "items"}),
        arrays.update(items=np.full((N, 3), np.nan)),
    ),
}
PREFERENCE = {
    "no comparisons": lambda header, arrays: header["fitted"].update(compared=None),
    "no counts": scale_array("compared.counts", lambda a: a * 0),
    "negative counts": scale_array("compared.counts", lambda a: -a),
    "counts with NaN": scale_array("compared.counts", lambda a: a * np.nan),
    "counts in halves": scale_array("compared.counts", lambda a: a / 2),
    "short counts": scale_array("compared.counts", lambda a: a[1:]),
    "whole or not": put("fitted", "whole", 1),
    "items that are not the basis": lambda header, arrays: (
        header["fitted"]["compared"]["Compared"].update(features={"array": "items"}),
        arrays.update(items=np.ones((N + 3, 3))),
    ),
    "no sweeps": put("fitted", "n_iter", 0),
    "sweeps as text": put("fitted", "n_iter", "7"),
    "differences as comparisons": lambda header, arrays: header["fitted"].update(
        compared={"ComparedRows": {**header["fitted"]["compared"]["Compared"], "margins": 1, "weights": 1, "groups": 1}}
    ),
}
DIFFERENCE = {
    "noise is NaN": put("fitted", "noise", NAN),
    "noise is zero": put("fitted", "noise", 0.0),
    "noise is text": put("fitted", "noise", "much"),
    "alpha of another noise": put("fitted", "alpha", 17.0),
    "negative margins": scale_array("compared.margins", lambda a: -a),
    "margins with NaN": scale_array("compared.margins", lambda a: a * np.nan),
    "short margins": scale_array("compared.margins", lambda a: a[1:]),
    "no weights": scale_array("compared.weights", lambda a: a * 0),
    "short weights": scale_array("compared.weights", lambda a: a[1:]),
    "negative groups": scale_array("compared.groups", lambda a: a - 50),
    "short groups": scale_array("compared.groups", lambda a: a[1:]),
    "named or not": put("fitted", "compared", "ComparedRows", "named", 1),
    "comparisons and scores": lambda header, arrays: header["fitted"].update(
        rows={
            "Rows": {
                "features": {"array": "basis_points"},
                "scores": {"array": "coefficients"},
                "queries": None,
                "n_queries": 1,
                "weights": None,
                "index": {"array": "basis"},
            }
        }
    ),
}
SCORES = {
    "rows are text": put("fitted", "rows", "all"),
    "short scores": scale_array("rows.scores", lambda a: a[1:]),
    "missing scores": scale_array("rows.scores", lambda a: a * np.nan),
    "queries out of range": scale_array("rows.queries", lambda a: a + 20),
    "many queries": put("fitted", "rows", "Rows", "n_queries", 2**60),
}


def refused(model, path, change):
    model.save(path)
    with np.errstate(invalid="ignore"):
        rewritten(path, change)
    with pytest.raises(ModelFileError) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))


@learners
@pytest.mark.parametrize("change", [*SHARED, *COMPARED])
def test_a_file_that_makes_no_sense_is_refused_in_one_sentence(learner, change, path):
    refused(fitted(learner, "comparisons", amplitude=2.0, gamma=0.4), path, {**SHARED, **COMPARED}[change])


@pytest.mark.parametrize("change", PREFERENCE)
def test_a_file_of_preferences_that_makes_no_sense_is_refused(change, path):
    refused(fitted(PreferenceGP, "comparisons", amplitude=2.0, gamma=0.4), path, PREFERENCE[change])


@pytest.mark.parametrize("change", DIFFERENCE)
def test_a_file_of_differences_that_makes_no_sense_is_refused(change, path):
    refused(fitted(DifferenceGP, "comparisons", amplitude=2.0, gamma=0.4), path, DIFFERENCE[change])


@learners
@pytest.mark.parametrize("change", SCORES)
def test_a_file_of_scores_that_makes_no_sense_is_refused(learner, change, path):
    refused(fitted(learner, amplitude=2.0, gamma=0.4), path, SCORES[change])
