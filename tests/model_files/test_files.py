"""Saved models: what is loaded predicts and grows like what was saved, with one view, several views
and comparisons.
"""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from edited_files import round_trip
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import corank
from corank import (
    RLS,
    CoRankRLS,
    CoRLS,
    DifferenceGP,
    PreferenceGP,
    RankRLS,
    TableEncoder,
    View,
    load,
    random_bases,
    random_split,
    register_kernel,
    side_by_side,
)
from corank.core.arrays import eigh
from corank.core.storable import NAMED_FUNCTIONS
from corank.model_files.container import ModelFileError, Packer, Unpacker, read_model
from corank.solve.holdout import SCORINGS

pytestmark = [
    pytest.mark.usefixtures("one_blas_thread"),
    pytest.mark.filterwarnings(
        "ignore:(gamma|amplitude|noise) was tuned to the end of its range:UserWarning"
    ),
    pytest.mark.filterwarnings("ignore:the comparisons fall into .* parts:UserWarning"),
]

rng = np.random.default_rng(5)
N, N_SCORED, D = 60, 24, 6
X = rng.standard_normal((N, D))
Y = X[:, 0] + np.sin(2 * X[:, 3]) + 0.1 * rng.standard_normal(N)
Y[N_SCORED:] = np.nan
QID = np.arange(N) % 6
W = rng.uniform(0.5, 2, N)
UNSCORED = rng.standard_normal((15, D))
UNSCORED_QID = np.repeat(["u", "v", "w"], 5)
NEW = rng.standard_normal((8, D))
NEW_Y, NEW_QID = NEW[:, 0], np.repeat(["a", "b"], 4)
SPARSE = np.where(abs(X) > 0.5, X, 0.0)
FIRST, SECOND = np.arange(20), np.roll(np.arange(20), 1)
WINNERS, LOSERS = np.where(Y[FIRST] > Y[SECOND], [FIRST, SECOND], [SECOND, FIRST])

VIEWS = [View([0, 1, 2], name="left", penalty=2.0), View(slice(3, 6), kernel="linear")]
ONE_VIEW, SEVERAL_VIEWS, PROCESSES = (
    (RLS, RankRLS),
    (CoRLS, CoRankRLS),
    (PreferenceGP, DifferenceGP),
)
GIVEN = {
    **{learner: {"alpha": 0.3} for learner in ONE_VIEW},
    **{learner: {"alpha": 0.3, "agreement": 0.2} for learner in SEVERAL_VIEWS},
    **{learner: {"amplitude": 2.0, "gamma": 0.4} for learner in PROCESSES},
}
every_learner = pytest.mark.parametrize("learner", GIVEN)
least_squares = pytest.mark.parametrize("learner", [*ONE_VIEW, *SEVERAL_VIEWS])
several_views = pytest.mark.parametrize("learner", SEVERAL_VIEWS)

WAYS = {
    ONE_VIEW: {
        "all rows": {},
        "tuned": {"alpha": "tune", "gamma": "tune"},
        "a subset": {"basis": 7},
        "row numbers": {"basis": np.array([1, 4, 9])},
        "features": {"basis": "features", "kernel": "linear"},
        "poly": {"kernel": "poly", "degree": 2, "coef0": 0.5},
        "cosine": {"kernel": "cosine"},
        "laplacian": {"kernel": "laplacian"},
        "exponential": {"kernel": "exponential"},
    },
    SEVERAL_VIEWS: {
        "all rows": {},
        "tuned": {"alpha": [0.1, 1.0], "agreement": "tune", "gamma": [0.1, 0.3]},
        "a subset": {"basis": 7},
        "row numbers": {"basis": np.array([30, 1, 4, 9])},
        "row numbers per view": {"basis": [[1, 4, 9], [2, 3]]},
        "scored rows": {"basis": "scored"},
        "features": {"basis": "features", "kernel": "linear"},
        "coordinate": {"solver": "coordinate", "basis": 5},
        "three views": {"views": random_split(3)},
        "one view": {"views": 1, "agreement": 0.0},
        "bases": {"views": random_bases(2)},
        "views with kernels": {"views": VIEWS},
        "views with bases": {
            "views": [View([0, 1], basis=[1, 2, 40]), View([2, 3, 4, 5], basis=4)],
            "basis": 5,
        },
    },
    PROCESSES: {
        "given": {},
        "tuned": {"amplitude": "tune", "gamma": "tune"},
        "columns": {"amplitude": "tune", "gamma": "columns"},
        "a subset": {"basis": 6},
        "row numbers": {"basis": np.array([1, 4, 9])},
        "linear": {"amplitude": "tune", "gamma": "tune", "kernel": "linear"},
        "laplacian": {"kernel": "laplacian"},
        "exponential": {"kernel": "exponential"},
    },
}
EXAMPLES = {
    f"{learner.__name__}, {way}": (learner, parameters)
    for learners, ways in WAYS.items()
    for learner in learners
    for way, parameters in ways.items()
} | {"PreferenceGP, averaged": (PreferenceGP, {"gamma": "tune", "average_width": True})}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.corank"


def fitted(learner, source="queries", X=X, unscored=UNSCORED, **parameters):
    """A model fitted on queries, one query or comparisons."""
    model = learner(**{**GIVEN[learner], **parameters})
    if source == "comparisons":
        return model.fit_comparisons(X, WINNERS, LOSERS)
    options = {"qid": QID if source == "queries" else None}
    if learner in (RLS, RankRLS, CoRLS, CoRankRLS):
        options["sample_weight"] = W
    if learner in SEVERAL_VIEWS:
        options["unscored"] = unscored
    return model.fit(X, Y, **options)


def grown(model, source, new=NEW):
    if source == "comparisons":
        return model.update_comparisons(new, [0, 1, 2], [3, 4, 5])
    return model.update(new, NEW_Y, qid=NEW_QID if source == "queries" else None)


def answers(model, new=NEW):
    yield model.predict(new)
    if hasattr(model, "predict_views"):
        yield model.predict_views(new)
    if hasattr(model, "predict_comparison"):
        yield model.predict(new, return_std=True)[1]
        yield model.predict(new, return_cov=True)[1]
        yield model.predict_comparison(new, new[::-1])
        yield model.predict_comparison(new, new[::-1], observed=True)
        yield model.suggest(new, 3)


def check_same(loaded, model, new=NEW):
    assert type(loaded) is type(model)
    for value, expected in zip(answers(loaded, new), answers(model, new), strict=True):
        np.testing.assert_array_equal(value, expected)


def basis_points(model):
    """Those of every view."""
    return model.basis_points_ if isinstance(model.basis_points_, list) else [model.basis_points_]


# ---- what comes back


def check_round_trip(learner, source, parameters, path):
    model = fitted(learner, source, **parameters)
    loaded = round_trip(model, path)
    check_same(loaded, model)
    assert str(loaded.get_params()) == str(model.get_params())
    again = round_trip(loaded, path, overwrite=True)
    grown(model, source)
    for copy in (loaded, again):
        check_same(grown(copy, source), model)
    check_same(round_trip(loaded, path, overwrite=True), model)


@pytest.mark.parametrize("source", ["queries", "one query"])
@pytest.mark.parametrize("example", EXAMPLES)
def test_a_loaded_model_is_the_same_to_the_last_bit_and_grows_alike(example, source, path):
    learner, parameters = EXAMPLES[example]
    check_round_trip(learner, source, parameters, path)


@pytest.mark.parametrize("example", [name for name in EXAMPLES if "GP" in name])
def test_a_loaded_model_of_comparisons_grows_alike(example, path):
    learner, parameters = EXAMPLES[example]
    check_round_trip(learner, "comparisons", parameters, path)


@pytest.mark.parametrize("learner", [RankRLS, CoRankRLS])
def test_least_squares_on_comparisons_does_not_grow(learner, path):
    model = fitted(learner, "comparisons")
    loaded = round_trip(model, path)
    check_same(loaded, model)
    with pytest.raises(ValueError, match="comparisons"):
        loaded.update(NEW, NEW_Y)


@every_learner
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("basis", ["all", 7, "features"])
def test_csr_stays_csr(learner, kind, basis, path):
    if basis == "features" and learner in PROCESSES:
        pytest.skip("Gaussian processes have no basis of features")
    model = fitted(learner, X=kind(SPARSE), unscored=kind(UNSCORED), basis=basis, kernel="linear")
    loaded = round_trip(model, path)
    for points, expected in zip(basis_points(loaded), basis_points(model), strict=True):
        assert type(points) is type(expected)
    for new in (kind(NEW), NEW):
        np.testing.assert_array_equal(loaded.predict(new), model.predict(new))


@every_learner
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("basis", ["all", 7])
@pytest.mark.parametrize(
    "arranged",
    [
        np.asfortranarray,
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        lambda X: X[::-1][::-1],
        np.float32,
    ],
    ids=["by columns", "strided", "reversed", "float32"],
)
def test_precision_and_order_in_memory_change_nothing(learner, kernel, basis, arranged, path):
    wide = arranged(np.random.default_rng(0).standard_normal((N, 70)))
    model = fitted(learner, X=wide, unscored=None, kernel=kernel, basis=basis)
    loaded = round_trip(model, path)
    new = arranged(np.random.default_rng(1).standard_normal((9, 70)))
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    assert loaded.predict(new).dtype == wide.dtype
    assert {points.dtype for points in basis_points(loaded)} == {wide.dtype}


@pytest.mark.parametrize("learner", [*ONE_VIEW, *PROCESSES])
@pytest.mark.parametrize("basis", ["all", 7])
def test_a_precomputed_matrix_stays_out_of_the_file(learner, basis, path):
    K, new = rbf_kernel(X, gamma=0.4), rbf_kernel(NEW, X, gamma=0.4)
    model = fitted(learner, X=K, kernel="precomputed", basis=basis)
    loaded = round_trip(model, path)
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    sizes = {
        name: array.size for name, array in read_model(path)[1].items() if name != "parts.0.spread"
    }
    assert max(sizes.values()) < K.size
    if basis == "all" or learner is PreferenceGP:
        with pytest.raises(ValueError, match="precomputed"):
            loaded.update(new, NEW_Y, qid=NEW_QID)


@several_views
@pytest.mark.parametrize("basis", ["all", [1, 2, 30]])
def test_precomputed_kernels_of_views(learner, basis, path):
    K, views = side_by_side([X[:, :3] @ X[:, :3].T, X[:, 3:] @ X[:, 3:].T], kernel="precomputed")
    K_new, _ = side_by_side([NEW[:, :3] @ X[:, :3].T, NEW[:, 3:] @ X[:, 3:].T])
    model = fitted(learner, X=K, unscored=None, views=views, basis=basis)
    loaded = round_trip(model, path)
    check_same(loaded, model, K_new)
    assert max(array.size for array in read_model(path)[1].values()) < K.size / 2
    if basis == "all":
        with pytest.raises(ValueError, match="precomputed"):
            loaded.update(K_new, NEW_Y, qid=NEW_QID)
    else:
        check_same(grown(loaded, "queries", K_new), grown(model, "queries", K_new), K_new)


@several_views
@pytest.mark.parametrize("basis", ["all", 7])
def test_scores_of_every_view(learner, basis, path):
    both = np.stack([Y, np.where(np.arange(N) < 30, X[:, 3], np.nan)], axis=1)
    model = learner(2, 0.3, 0.2, basis).fit(X, both, qid=QID)
    loaded = round_trip(model, path)
    check_same(loaded, model)
    new = np.stack([NEW_Y, np.full(8, np.nan)], axis=1)
    check_same(loaded.update(NEW, new, qid=NEW_QID), model.update(NEW, new, qid=NEW_QID))


@every_learner
@pytest.mark.parametrize("basis", ["all", 7])
def test_models_on_tensors_load_as_numpy(learner, basis, path):
    torch = pytest.importorskip("torch")
    rows, unscored = torch.asarray(X), torch.asarray(UNSCORED)
    model = fitted(learner, X=rows, unscored=unscored, basis=basis)
    loaded = round_trip(model, path)
    arrays = [*loaded.coef_, *loaded.basis_points_] if learner in SEVERAL_VIEWS else [loaded.coef_]
    assert all(isinstance(array, np.ndarray) for array in arrays)
    close = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(
        loaded.predict(NEW), model.predict(torch.asarray(NEW)).numpy(), **close
    )
    assert isinstance(loaded.predict(torch.asarray(NEW)), torch.Tensor)
    grown(loaded, "queries")
    in_numpy = grown(fitted(learner, basis=basis), "queries")
    # EP stops within 1e-6
    np.testing.assert_allclose(loaded.predict(NEW), in_numpy.predict(NEW), atol=1e-6)


@pytest.mark.parametrize("qid", [QID, None], ids=["qid", "one query"])
@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_update_does_not_depend_on_the_eigenvectors_that_a_machine_finds(
    path, monkeypatch, qid, kernel
):
    features, new = (X, NEW) if kernel == "rbf" else (X @ X.T, NEW @ X.T)
    model = RankRLS(0.3, basis=6, kernel=kernel).fit(features, Y, qid=qid)
    model.save(path)
    new_qid = None if qid is None else NEW_QID
    with monkeypatch.context() as patch:
        patch.setattr("corank.core.basis.eigh", lambda matrix: (eigh(matrix)[0], -eigh(matrix)[1]))
        loaded = load(path).update(new, NEW_Y, qid=new_qid)
    np.testing.assert_allclose(
        loaded.predict(features), model.update(new, NEW_Y, qid=new_qid).predict(features), atol=1e-9
    )


@every_learner
def test_fitted_attributes_come_back(learner, path):
    frame = pd.DataFrame(X, columns=list("abcdef"))
    parameters = {} if learner in PROCESSES else {"alpha": [0.1, 1.0, 10.0], "gamma": [0.1, 0.5]}
    if learner in SEVERAL_VIEWS:
        parameters["views"] = [
            View(["a", "b*"], name="left", penalty=2.0),
            View(["c", "d", "e", "f"], kernel="linear"),
        ]
    model = fitted(learner, X=frame, unscored=None, **parameters)
    loaded = round_trip(model, path)
    for name, value in vars(model).items():
        if name.endswith("_") and isinstance(value, int | float | np.ndarray):
            np.testing.assert_array_equal(getattr(loaded, name), value, err_msg=name)
            assert type(getattr(loaded, name)) is type(value), name
    if learner not in PROCESSES:
        for name, value in vars(model.path_).items():
            np.testing.assert_array_equal(getattr(loaded.path_, name), value, err_msg=name)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"a": "z"}))


def test_views_come_back(path):
    loaded = round_trip(fitted(CoRankRLS, views=VIEWS), path)
    assert [(view.name, view.penalty, view.kernel) for view in loaded.views_] == [
        ("left", 2.0, "rbf"),
        ("view 2", 1.0, "linear"),
    ]
    assert [view.columns.tolist() for view in loaded.views_] == [[0, 1, 2], [3, 4, 5]]


def test_the_number_of_sweeps_comes_back(path):
    model = CoRLS(2, 0.3, 1.0, 5, solver="coordinate").fit(X, Y)
    assert round_trip(model, path).n_iter_ == model.n_iter_ > 1


@pytest.mark.parametrize("scoring", SCORINGS)
def test_what_the_path_was_scored_by_comes_back(scoring, path):
    assert (
        round_trip(fitted(RankRLS, alpha=[0.1, 1.0], scoring=scoring), path).path_.scoring
        == scoring
    )


# ---- parameters

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
    assert {**loaded.get_params(), "alpha": list(loaded.alpha)} == {
        **model.get_params(),
        "alpha": [0.1, 0.5, 2],
    }
    assert isinstance(loaded.alpha, tuple)
    again = clone(loaded).fit(X, Y, qid=QID, sample_weight=W)
    check_same(again, model)


VIEWS_AS_PARAMETERS = {
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


@several_views
@pytest.mark.parametrize("views", VIEWS_AS_PARAMETERS)
def test_views_as_parameters_come_back_and_can_be_fitted_again(learner, views, path):
    model = learner(VIEWS_AS_PARAMETERS[views], 0.3, 0.2, random_state=4).fit(X, Y, qid=QID)
    loaded = round_trip(model, path)
    assert type(loaded.views) is type(model.views)
    check_same(clone(loaded).fit(X, Y, qid=QID), model)


def test_views_by_name_can_be_fitted_again(path):
    frame = pd.DataFrame(X, columns=["t_1", "t_2", "t_3", "i_1", "i_2", "i_3"])
    model = CoRankRLS([View("t_*"), View(pd.Index(["i_3", "i_1"]))], 0.3, 0.2).fit(frame, Y)
    loaded = round_trip(model, path)
    check_same(clone(loaded).fit(frame, Y), model, frame)


def test_a_parameter_and_what_was_fitted_may_share_a_name(path):
    """`views` and `basis` are both; what was asked for is not what was made of it."""
    views = [View(np.array([2, 0])), View(np.array([5, 1, 3]))]
    model = CoRLS(views, 0.3, 0.2, basis=np.array([7, 1, 30]), gamma=np.array([0.1, 0.2])).fit(X, Y)
    loaded = round_trip(model, path)
    np.testing.assert_array_equal(loaded.views[0].columns, [2, 0])
    np.testing.assert_array_equal(loaded.views_[0].columns, [0, 2])
    np.testing.assert_array_equal(loaded.basis, [7, 1, 30])
    check_same(loaded, model)


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
    splits = list(KFold(3).split(X[:N_SCORED]))
    RLS(cv=splits).fit(X[:N_SCORED], Y[:N_SCORED]).save(path, overwrite=True)
    assert read_model(path)[0]["summary"]["cv"] == "3 splits"
    assert round_trip(RLS(0.3, cv=4).fit(X, Y), path, overwrite=True).cv == 4


# ---- what is in the file


def test_the_file_sums_up_the_training(path):
    fitted(RankRLS).save(path)
    header, _ = read_model(path)
    assert header["summary"] == {"rows": N, "scored": N_SCORED, "queries": 6}
    assert header["corank"] == corank.__version__
    fitted(CoRankRLS).save(path, overwrite=True)
    expected = {"rows": N + 15, "scored": N_SCORED, "queries": 6, "unscored": N - N_SCORED + 15}
    assert read_model(path)[0]["summary"] == expected


@every_learner
@pytest.mark.parametrize("source", ["queries", "comparisons"])
def test_basis_rows_are_stored_once(learner, source, path):
    if source == "comparisons" and learner in (RLS, CoRLS):
        pytest.skip("regressors take no comparisons")
    n_views = 2 if learner in SEVERAL_VIEWS else 1
    loaded = round_trip(fitted(learner, source, np.asfortranarray(X)), path)
    for model in (loaded, round_trip(loaded, path, overwrite=True)):
        points = basis_points(model)[0]
        shapes = [array.shape for array in read_model(path)[1].values()]
        assert sum(shape in (points.shape, points.shape[::-1]) for shape in shapes) == n_views
        if source == "queries" and learner in ONE_VIEW:
            assert model._rows.features is points


@several_views
def test_the_effect_of_unscored_rows_is_saved_where_it_was_asked_for(learner, path):
    model = learner(VIEWS).fit(X, Y)
    assert round_trip(model, path).unscored_effect_ is None
    effect = model.unscored_effect_
    assert effect is not None
    loaded = round_trip(model, path, overwrite=True)
    assert loaded.unscored_effect_ == effect
    assert round_trip(loaded, path, overwrite=True).unscored_effect_ == effect
    assert "None after loading" in learner.unscored_effect_.__doc__
    assert loaded.fit(X[:24], Y[:24], unscored=UNSCORED)._effect is None


@several_views
@pytest.mark.parametrize("basis", ["all", 7])
@pytest.mark.parametrize("form", ["rows", "chunks"])
def test_models_can_be_pickled_before_and_after_asking_for_the_effect(learner, basis, form):
    chunks = [(UNSCORED[:5], UNSCORED_QID[:5]), (UNSCORED[5:], UNSCORED_QID[5:])]
    extra = (
        {"unscored": UNSCORED, "unscored_qid": UNSCORED_QID}
        if form == "rows"
        else {"unscored": chunks}
    )
    model = learner(VIEWS, basis=basis).fit(X, Y, qid=QID, **extra)
    before = pickle.loads(pickle.dumps(model))
    assert model.unscored_effect_ is not None
    after = pickle.loads(pickle.dumps(model))
    for copy in (before, after):
        check_same(copy, model)
        assert copy.unscored_effect_ == model.unscored_effect_


# ---- kernels of one's own


def my_kernel(X, Z, scale=1.0):
    return (1 + scale * X @ Z.T) ** 2


WITH_MY_KERNEL = {
    "by function": (RankRLS, {"kernel": my_kernel, "kernel_params": {"scale": 0.5}}),
    "by name": (RankRLS, {"kernel": "mine", "kernel_params": {"scale": 0.5}}),
    "of several views": (CoRankRLS, {"kernel": my_kernel, "kernel_params": {"scale": 0.5}}),
    "of one of the views": (
        CoRankRLS,
        {"views": [View([0, 1, 2]), View([3, 4, 5], kernel=my_kernel)]},
    ),
}
with_my_kernel = pytest.mark.parametrize("way", WITH_MY_KERNEL)


@pytest.fixture
def registered(named_functions):
    register_kernel("mine", my_kernel)


@with_my_kernel
def test_registered_kernels_are_saved_by_name(way, path, registered):
    learner, parameters = WITH_MY_KERNEL[way]
    model = fitted(learner, **parameters)
    loaded = round_trip(model, path)
    assert (loaded.views_[1].kernel if learner is CoRankRLS else loaded.kernel) == "mine"
    check_same(loaded, model)
    check_same(grown(loaded, "queries"), grown(model, "queries"))


@with_my_kernel
def test_a_kernel_that_is_not_registered_here_is_named(way, path, registered):
    learner, parameters = WITH_MY_KERNEL[way]
    fitted(learner, **parameters).save(path)
    NAMED_FUNCTIONS.clear()
    with pytest.raises(ModelFileError, match=r"kernel 'mine'.*register_kernel\('mine', function\)"):
        load(path)


@pytest.mark.parametrize("way", ["by function", "of several views", "of one of the views"])
def test_a_kernel_without_a_name_is_refused_and_nothing_is_written(way, path, named_functions):
    learner, parameters = WITH_MY_KERNEL[way]
    with pytest.raises(ValueError, match=r"kernel .*register_kernel"):
        fitted(learner, **parameters).save(path)
    assert not path.exists()


# ---- tables


def table():
    frame = pd.DataFrame(X[:, 1:], columns=["b", "c", "d", "e", "f"])
    return frame.assign(kind=np.where(X[:, 0] > 0, "x", "y"), late=X[:, 1] > 0)


@least_squares
def test_tables_go_through_the_encoder_of_the_model(learner, path):
    encoder = TableEncoder().fit(table())
    features = encoder.transform(table())
    model = fitted(learner, X=features, unscored=None)
    assert model.encoder_ is None
    assert round_trip(model, path).encoder_ is None
    model.table_ = {"score": "rating", "rows": N}
    loaded = round_trip(model, path, encoder=encoder, overwrite=True)
    assert loaded.table_ == model.table_
    assert loaded.encoder_.summary() == encoder.summary()
    np.testing.assert_array_equal(loaded.predict(table()), model.predict(features))
    loaded.update(table()[:4], Y[:4], qid=[0, 0, 1, 1])
    model.update(features[:4], Y[:4], qid=[0, 0, 1, 1])
    again = round_trip(loaded, path, overwrite=True)
    np.testing.assert_array_equal(again.predict(table()), model.predict(features))
    loaded.fit(features, Y, qid=QID)
    assert loaded.encoder_ is None
    assert loaded.table_ is None
    assert clone(again).encoder_ is None


def test_an_encoder_that_does_not_fit_is_refused(path):
    model = fitted(RankRLS)
    encoder = TableEncoder().fit(table())
    with pytest.raises(
        ValueError, match=f"encoder makes {len(encoder.attributes_)} columns.*fitted on 2"
    ):
        RankRLS(0.3).fit(X[:, :2], Y).save(path, encoder=encoder)
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

    class Other(RLS):
        pass

    with pytest.raises(TypeError, match="Other"):
        Other(0.3).fit(X, Y).save(path)
    assert not hasattr(Ridge, "save")
    assert not path.exists()


@pytest.mark.parametrize(
    "odd", [{"a": object()}, {"a": my_kernel}, {3: 1}, {"a": {1, 2}}, {"a": np.array([None])}]
)
def test_parameters_that_are_no_data_are_named(path, odd):
    model = fitted(RLS).set_params(kernel_params=odd)
    with pytest.raises((TypeError, ValueError), match="kernel_params"):
        model.save(path)
    assert not path.exists()


def test_views_that_are_no_data_are_named(path):
    class OtherSplit(random_split):
        pass

    with pytest.raises(TypeError, match="views holds a OtherSplit"):
        CoRLS(OtherSplit(2), 0.3, 0.2).fit(X, Y).save(path)
    model = CoRLS(2, 0.3, 0.2).fit(X, Y).set_params(views=[View(columns={1, 2})])
    with pytest.raises(TypeError, match=r"views.0.columns holds a set"):
        model.save(path)
    assert not path.exists()


def test_nothing_is_overwritten_unasked(path):
    fitted(RLS).save(path)
    with pytest.raises(FileExistsError):
        fitted(RankRLS).save(path)
    assert type(load(path)) is RLS
    fitted(RankRLS).save(path, overwrite=True)
    assert type(load(path)) is RankRLS


def test_values_come_back_from_packing_as_they_were():
    value = {
        "plain": [1, 2.5, "x", None, True, (1, ("a",))],
        "scalars": [np.int8(3), np.float64(0.1), np.bool_(True)],
        "inf": float("-inf"),
        "range": range(3),
    }
    packer = Packer()
    packed = json.loads(json.dumps(packer.pack(value, "value")))
    assert Unpacker(packer.arrays).unpack(packed) == {
        **value,
        "scalars": [3, 0.1, True],
        "range": [0, 1, 2],
    }
