"""Files that are damaged, hostile or of another version are refused in one sentence; nothing in
them is executed.

Kinds and shapes are checked, values are not: damage to values is found by the checksum.
"""

import json

import numpy as np
import pytest
from edited_files import put, rewritten, scale_array
from scipy import sparse

from corank import (
    KPCR,
    CoRankingPursuit,
    CoRankRLS,
    DifferenceGP,
    PreferenceGP,
    RankingPursuit,
    RankRLS,
    TableEncoder,
    TransductiveRankRLS,
    View,
    load,
)
from corank.model_files.container import ModelFileError

pytestmark = pytest.mark.usefixtures("one_blas_thread")

rng = np.random.default_rng(7)
N = 30
X = rng.standard_normal((N, 6))
Y = X[:, 0] + np.sin(2 * X[:, 3])
SOME_SCORES = np.where(np.arange(N) < 18, Y, np.nan)
QID = np.arange(N) % 6
W = rng.uniform(0.5, 2, N)
CSR_ROWS = sparse.csr_array(np.where(abs(X) > 0.5, X, 0.0))
VIEWS = [View([0, 1, 2], name="left"), View([3, 4, 5], kernel="linear")]
FIRST, SECOND = np.arange(N - 1), np.arange(1, N)
WINNERS, LOSERS = np.where(Y[FIRST] > Y[SECOND], [FIRST, SECOND], [SECOND, FIRST])


def views_with_effect():
    model = CoRankRLS(VIEWS, [0.1, 1.0], [0.1, 1.0]).fit(X, SOME_SCORES, qid=QID, sample_weight=W)
    assert model.unscored_effect_ is not None
    return model


def with_encoder():
    table = {"size": X[:, 0], "colour": np.where(X[:, 1] > 0, "red", "green")}
    encoder = TableEncoder().fit(table)
    model = RankRLS(0.3).fit(encoder.transform(table), Y)
    model.encoder_ = encoder
    return model


def with_texts():
    titles = [
        f"the {colour} {thing} of {place}"
        for colour in "abcde"
        for thing in "xyz"
        for place in "uv"
    ]
    table = {"title": titles[: len(X)], "picture": list(X[:, :3]), "size": X[:, 0]}
    encoder = TableEncoder(text=["title"]).fit(table)
    model = RankRLS(0.3).fit(encoder.transform(table), Y)
    model.encoder_ = encoder
    return model


MODELS = {
    "RankRLS on a table": with_encoder,
    "RankRLS on texts": with_texts,
    "RankRLS": lambda: RankRLS([0.1, 1.0]).fit(X, Y, qid=QID, sample_weight=W),
    "RankRLS on a subset": lambda: RankRLS(0.3, basis=5).fit(X, Y, qid=QID),
    "RankRLS on CSR": lambda: RankRLS(0.3).fit(CSR_ROWS, Y, qid=QID),
    "CoRankRLS": views_with_effect,
    "CoRankRLS on a subset": (
        lambda: CoRankRLS(VIEWS, 0.3, 0.2, basis=5).fit(X, SOME_SCORES, qid=QID)
    ),
    "CoRankRLS on CSR": lambda: CoRankRLS(2, 0.3, 0.2).fit(CSR_ROWS, SOME_SCORES),
    "KPCR": lambda: KPCR(3).fit(X, Y),
    "RankingPursuit": lambda: RankingPursuit(4).fit(X, Y, qid=QID),
    "CoRankingPursuit": (
        lambda: CoRankingPursuit(VIEWS, 3, 0.7, n_solutions=2, tolerance=9.0).fit(
            X, SOME_SCORES, qid=QID
        )
    ),
    "TransductiveRankRLS": (
        lambda: TransductiveRankRLS(pull=[0.1, 1.0]).fit(X, np.where(QID < 4, Y, np.nan), qid=QID)
    ),
    "PreferenceGP": lambda: PreferenceGP(2.0, 0.4).fit_comparisons(X, WINNERS, LOSERS),
    "DifferenceGP": lambda: DifferenceGP(2.0, 0.4).fit_comparisons(X, WINNERS, LOSERS),
    "DifferenceGP on scores": lambda: DifferenceGP(2.0, 0.4).fit(X, Y, qid=QID),
}


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """The file of every model, made when it is first asked for."""
    made = {}

    def content_of(name):
        if name not in made:
            path = tmp_path_factory.mktemp("models") / "model.corank"
            MODELS[name]().save(path)
            made[name] = path.read_bytes()
        return made[name]

    return content_of


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.corank"


def file_entry(*keys, **changes):
    """A change of an entry of the header that may also become None."""

    def change(header, arrays):
        place = header
        for key in keys:
            place = place[key]
        place.update(changes)

    return change


def pop(name):
    """A change that takes the last entry of a list out."""
    return lambda header, arrays: header["fitted"][name].pop()


NAN = {"number": "nan"}
VIEW = ("fitted", "views", 0, "View")
PATH = ("fitted", "path", "Path")
GAUSSIAN = ("fitted", "parts", 0, "GaussianPart")
HOSTILE = {
    "RankRLS": {
        "no learner": put("learner", None),
        "unknown learner": put("learner", "Pipeline"),
        "learner of another type": put("learner", ["RLS"]),
        "another learner": put("learner", "KPCRank"),
        "an automatic learner": put("learner", "AutoRanker"),
        "no parameters": put("parameters", None),
        "unknown parameter": put("parameters", "shell", "rm"),
        "lost parameter": put("parameters", "alpha", None),
        "fitted is a list": put("fitted", []),
        "lost coefficients": put("fitted", "coefficients", None),
        "coefficients are text": put("fitted", "coefficients", "1, 2"),
        "array that is not there": put("fitted", "coefficients", {"array": "nothing"}),
        "array of no name": put("fitted", "coefficients", {"array": ["coefficients"]}),
        "unknown tag": put("fitted", "coefficients", {"pickle": "gASVAA=="}),
        "two tags": put("fitted", "coefficients", {"array": "coefficients", "tuple": []}),
        "deep nesting": put("fitted", "coefficients", json.loads('{"tuple": [' * 400 + "]}" * 400)),
        "foreign type": put("fitted", "kernel", {"Popen": {"args": "ls"}}),
        "kernel is text": put("fitted", "kernel", "rbf"),
        "kernel lacks fields": put("fitted", "kernel", {"Kernel": {"name": "rbf"}}),
        "kernel of no name": put("fitted", "kernel", "Kernel", "name", 3),
        "widths of other columns": put("fitted", "kernel", "Kernel", "scales", {"tuple": [1.0]}),
        "widths of text": put("fitted", "kernel", "Kernel", "scales", {"tuple": list("abcdef")}),
        "gamma is text": put("fitted", "gamma", "wide"),
        "alpha is text": put("fitted", "alpha", "small"),
        "intercept is true": put("fitted", "intercept", True),
        "many columns": put("fitted", "n_columns", 2**62),
        "columns as text": put("fitted", "n_columns", "6"),
        "rows as text": put("fitted", "rows_seen", "30"),
        "names of columns": put("fitted", "column_names", {"names": ["a"]}),
        "names that are numbers": put("fitted", "column_names", {"names": [1, 2, 3, 4, 5, 6]}),
        "queries or not": put("fitted", "with_queries", 1),
        "path is a tuple": put("fitted", "path", {"tuple": []}),
        "best is text": put(*PATH, "best", "first"),
        "scoring is a number": put(*PATH, "scoring", 3),
        "errors too few": scale_array("path.error", lambda a: a[1:]),
        "rows are a loss": put("fitted", "rows", {"Pointwise": {"needs_queries": False}}),
        "rows are text": put("fitted", "rows", "all"),
        "weights of candidates": put("fitted", "rows", "Rows", "weights", {"array": "path.alpha"}),
        "short scores": scale_array("rows.scores", lambda a: a[1:]),
        "short coefficients": scale_array("coefficients", lambda a: a[1:]),
        "matrix of coefficients": scale_array("coefficients", lambda a: a[:, None]),
        "whole coefficients": scale_array("coefficients", lambda a: a.astype(int)),
        "basis points of other width": scale_array("basis_points", lambda a: a[:, 1:]),
        "fractions as basis": scale_array("basis", lambda a: a.astype(float)),
        "summary is text": put("summary", "fine"),
        "table is a list": put("table", [1]),
        "encoder is text": put("encoder", "fine"),
        "encoder lacks arrays": put("encoder", {"max_categories": 5, "scale": True, "columns": []}),
    },
    "RankRLS on a table": {
        "no columns": put("encoder", "columns", []),
        "columns are numbers": put("encoder", "columns", [1, 2]),
        "one more entry": put("encoder", "more", 1),
        "number of categories as text": put("encoder", "max_categories", "9"),
        "scaled or not": put("encoder", "scale", 1),
        "a column without a name": put("encoder", "columns", 0, "name", 3),
        "a column lacks its kind": put("encoder", "columns", 0, "kind", None),
        "a column with one more entry": put("encoder", "columns", 0, "fill", 1.0),
        "missing values or not": put("encoder", "columns", 0, "missing", "yes"),
        "categories are text": put("encoder", "columns", 1, "categories", "red"),
        "categories are numbers": put("encoder", "columns", 1, "categories", ["red", 1]),
        "one category less": put("encoder", "columns", 1, "categories", ["red"]),
        "short medians": scale_array("encoder.fill", lambda a: a[1:]),
        "a matrix of centres": scale_array("encoder.centre", lambda a: a[:, None]),
        "single precision": scale_array("encoder.divisor", lambda a: a.astype(np.float32)),
        "lost array": lambda header, arrays: arrays.pop("encoder.fill"),
    },
    "RankRLS on texts": {
        "no words": put("encoder", "columns", 0, "words", None),
        "words are text": put("encoder", "columns", 0, "words", "warm"),
        "words are numbers": put("encoder", "columns", 0, "words", [1, 2]),
        "words without a value": file_entry("encoder", "columns", 0, words=None),
        "fewer words": put("encoder", "columns", 0, "words", ["of"]),
        "many hashed words": put("encoder", "columns", 0, "words", 2**40),
        "hashed into less than nothing": put("encoder", "columns", 0, "words", -3),
        "a word twice": (
            lambda header, arrays: header["encoder"]["columns"][0]["characters"].__setitem__(
                1, header["encoder"]["columns"][0]["characters"][0]
            )
        ),
        "words of numbers": put("encoder", "columns", 2, "words", ["of"]),
        "text that is dropped": put("encoder", "columns", 0, "dropped", "why not"),
        "text as numbers": put("encoder", "columns", 0, "kind", "number"),
        "numbers as text": put("encoder", "columns", 2, "kind", "text"),
        "an unknown kind": put("encoder", "columns", 2, "kind", "picture"),
        "a component of nothing": put("encoder", "columns", 1, "vector", "emb_"),
        "year or not": put("encoder", "columns", 2, "year", 1),
        "format of dates": put("encoder", "columns", 2, "format", 3),
        "columns to ignore": put("encoder", "ignore", "title"),
        "lost weights": lambda header, arrays: arrays.pop("encoder.text.0.idf"),
        "lost components": lambda header, arrays: arrays.pop("encoder.text.0.components"),
        "lost means": lambda header, arrays: arrays.pop("encoder.vector.1.centres"),
        "one more array": lambda header, arrays: arrays.update({"encoder.more": np.zeros(3)}),
        "weights of no column": lambda header, arrays: arrays.update(
            {"encoder.text.9.idf": np.zeros(3)}
        ),
        "short weights": scale_array("encoder.text.0.idf", lambda a: a[1:]),
        "weights that are no numbers": scale_array("encoder.text.0.idf", lambda a: a * np.nan),
        "components of other terms": scale_array("encoder.text.0.components", lambda a: a[:, 1:]),
        "fewer components": scale_array("encoder.text.0.components", lambda a: a[1:]),
        "infinite components": scale_array(
            "encoder.text.0.components", lambda a: a + np.float32(np.inf)
        ),
        "components in double precision": scale_array(
            "encoder.text.0.components", lambda a: a.astype(float)
        ),
        "a matrix of means": scale_array("encoder.vector.1.centres", lambda a: a[:, None]),
        "fewer means": scale_array("encoder.vector.1.centres", lambda a: a[1:]),
        "means that are no numbers": scale_array("encoder.vector.1.centres", lambda a: a * np.nan),
    },
    "RankRLS on a subset": {
        "loss is text": put("fitted", "statistics", "Statistics", "comparison", "size"),
        "sums of numbers": put("fitted", "statistics", "Statistics", "queries", {"tuple": [3]}),
        "sums not square": scale_array("statistics.queries.0.matrix", lambda a: a[1:]),
        "no whitening": put("fitted", "whitening", None),
        "whitening of another size": scale_array("whitening.matrix", lambda a: a[1:]),
    },
    "RankRLS on CSR": {
        "column out of range": scale_array("basis_points.indices", lambda a: a + 50),
        "rows that run backwards": scale_array("basis_points.indptr", lambda a: a[::-1]),
        "data too short": scale_array("basis_points.data", lambda a: a[:-3]),
        "fractions as columns": scale_array("basis_points.indices", lambda a: a.astype(float)),
        "shape is text": put("fitted", "basis_points", "csr_array", "shape", "big"),
        "shape is huge": put("fitted", "basis_points", "csr_array", "shape", [2**62, 2**62]),
        "no name": put("fitted", "basis_points", "csr_array", "name", 3),
    },
    "CoRankRLS": {
        "another learner": put("learner", "RankRLS"),
        "lost views": put("fitted", "views", None),
        "no views": put("fitted", "views", []),
        "views are text": put("fitted", "views", "two"),
        "a view is a kernel": put("fitted", "views", 0, {"Kernel": {"name": "rbf", "gamma": 1.0}}),
        "a view is a split": put(
            "fitted", "views", 0, {"random_split": {"n_views": 2, "attributes": 3}}
        ),
        "one view too few": pop("views"),
        "one kernel too few": pop("kernels"),
        "one width too many": lambda header, arrays: header["fitted"]["gamma"].append(0.1),
        "one expansion too few": pop("coefficients"),
        "one row set too few": pop("rows"),
        "coefficients are an array": put("fitted", "coefficients", {"array": "coefficients.0"}),
        "coefficients of a path": put("fitted", "coefficients", 0, {"array": "path.alpha"}),
        "a kernel is text": put("fitted", "kernels", 0, "rbf"),
        "columns are text": put(*VIEW, "columns", "a*"),
        "columns are a slice": put(*VIEW, "columns", {"slice": [0, 3, 1]}),
        "columns are fractions": put(*VIEW, "columns", {"array": "coefficients.0"}),
        "a matrix of columns": scale_array("views.0.columns", lambda a: a[:, None]),
        "a slice of text": put(
            "parameters", "views", 0, "View", "columns", {"slice": ["a", None, None]}
        ),
        "a short slice": put("parameters", "views", 0, "View", "columns", {"slice": [0]}),
        "a view lacks fields": put(*VIEW, "penalty", None),
        "a view without a name": put(*VIEW, "name", 3),
        "a view's kernel is a number": put(*VIEW, "kernel", 3),
        "penalty is true": put(*VIEW, "penalty", True),
        "agreement is text": put("fitted", "agreement", "much"),
        "sweeps as text": put("fitted", "sweeps", "7"),
        "compared or not": put("fitted", "compared", 1),
        "agreements too few": scale_array("path.agreement", lambda a: a[1:]),
        "effect is text": put("fitted", "effect", "helped"),
        "effect with a list": put("fitted", "effect", "UnscoredEffect", "difference", [1.0]),
        "effect lacks fields": put("fitted", "effect", "UnscoredEffect", "n_held_out", None),
        "short coefficients": scale_array("coefficients.0", lambda a: a[1:]),
        "basis points of other width": scale_array("basis_points.0", lambda a: a[:, 1:]),
        "rows are an array": put("fitted", "rows", {"array": "coefficients.0"}),
    },
    "CoRankRLS on a subset": {
        "one set of sums too few": pop("statistics"),
        "sums are an array": put("fitted", "statistics", {"array": "disagreement"}),
        "sums not square": scale_array("statistics.0.queries.0.matrix", lambda a: a[1:]),
        "whitenings are numbers": put("fitted", "whitenings", [3, 3]),
        "one whitening too few": pop("whitenings"),
        "whitening of another size": scale_array("whitenings.0.matrix", lambda a: a[1:]),
        "no disagreement": put("fitted", "disagreement", 0.0),
        "disagreement not square": scale_array("disagreement", lambda a: a[1:]),
        "whole disagreement": scale_array("disagreement", lambda a: a.astype(int)),
    },
    "CoRankRLS on CSR": {
        "column out of range": scale_array("basis_points.1.indices", lambda a: a + 50),
        "data too short": scale_array("basis_points.1.data", lambda a: a[:-3]),
        "shape is huge": put("fitted", "basis_points", 0, "csr_array", "shape", [2**62, 2**62]),
    },
    "KPCR": {
        "half a component": put("fitted", "n_components", 1.5),
        "no eigenvalues": put("fitted", "eigenvalues", None),
        "another learner": put("learner", "RLS"),
        "lost parameter": put("parameters", "n_components", None),
    },
    "RankingPursuit": {
        "weights": scale_array("weights", lambda a: a[:, :-1].copy()),
        "basis_points": scale_array("basis_points", lambda a: a[:, :1].copy()),
        "names": put("fitted", "names", ["only one"]),
        "n_atoms": put("fitted", "n_atoms", -1),
        "dictionary": put("fitted", "dictionary", 3),
    },
    "CoRankingPursuit": {
        "n_atoms": put("fitted", "n_atoms", 7),
        "views": put("fitted", "views", []),
        "others": put("fitted", "others", [{"dict": {"objective": 1.0}}]),
        "basis": scale_array("coefficients.0", lambda a: a[:-1]),
        "history": scale_array("history", lambda a: a[:, :1]),
        "basis_points": scale_array("basis_points.0", lambda a: a[:, :2]),
    },
    "TransductiveRankRLS": {
        "pull": put("fitted", "pull", "strong"),
        "rows_unscored": put("fitted", "rows_unscored", 3),
        "transduction": put("fitted", "transduction", 3.0),
        "short scores": scale_array("transduction", lambda a: a[:-1]),
        "short pulls": scale_array("path.pull", lambda a: a[:-1]),
    },
    "PreferenceGP": {
        "parts are text": put("fitted", "parts", "one"),
        "a part is a kernel": put("fitted", "parts", 0, {"Kernel": {"name": "rbf", "gamma": 1.0}}),
        "a part lacks its kernel": put(*GAUSSIAN, "kernel", None),
        "a part's kernel is text": put(*GAUSSIAN, "kernel", "rbf"),
        "a share that is true": put(*GAUSSIAN, "weight", True),
        "coefficients of a spread": put(*GAUSSIAN, "coefficients", {"array": "parts.0.spread"}),
        "a spread of coefficients": put(*GAUSSIAN, "spread", {"array": "coefficients"}),
        "a spread is text": put(*GAUSSIAN, "spread", "wide"),
        "a short spread": scale_array("parts.0.spread", lambda a: a[1:]),
        "a whole spread": scale_array("parts.0.spread", lambda a: a.astype(int)),
        "amplitude is text": put("fitted", "amplitude", "large"),
        "evidence is text": put("fitted", "log_evidence", "large"),
        "no columns": put("fitted", "n_columns", 0),
        "lost comparisons": lambda header, arrays: header["fitted"].pop("compared"),
        "comparisons are text": put("fitted", "compared", "many"),
        "comparisons are a loss": put(
            "fitted", "compared", {"Pointwise": {"needs_queries": False}}
        ),
        "short winners": scale_array("compared.winners", lambda a: a[1:]),
        "fractions as winners": scale_array("compared.winners", lambda a: a.astype(float)),
        "items as losers": file_entry(
            "fitted", "compared", "Compared", losers={"array": "basis_points"}
        ),
        "items are text": file_entry("fitted", "compared", "Compared", features="all"),
        "items of a number": file_entry("fitted", "compared", "Compared", features=3),
        "items of fewer columns": lambda header, arrays: (
            header["fitted"]["compared"]["Compared"].update(features={"array": "items"}),
            arrays.update(items=np.ones((N, 2))),
        ),
        "short counts": scale_array("compared.counts", lambda a: a[1:]),
        "whole or not": put("fitted", "whole", 1),
        "sweeps as text": put("fitted", "n_iter", "7"),
    },
    "DifferenceGP": {
        "noise is text": put("fitted", "noise", "much"),
        "short margins": scale_array("compared.margins", lambda a: a[1:]),
        "short weights": scale_array("compared.weights", lambda a: a[1:]),
        "short groups": scale_array("compared.groups", lambda a: a[1:]),
        "named or not": put("fitted", "compared", "ComparedRows", "named", 1),
    },
    "DifferenceGP on scores": {
        "rows are text": put("fitted", "rows", "all"),
        "short scores": scale_array("rows.scores", lambda a: a[1:]),
    },
}
CHANGES = [(model, change) for model, changes in HOSTILE.items() for change in changes]


@pytest.mark.parametrize(("model", "change"), CHANGES)
def test_a_file_whose_kinds_or_shapes_do_not_fit_is_refused_in_one_sentence(
    model, change, contents, path
):
    path.write_bytes(contents(model))
    rewritten(path, HOSTILE[model][change])
    with pytest.raises(ModelFileError) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))


@pytest.mark.parametrize("name", ["weights", "basis_points", "names", "n_atoms"])
def test_what_is_unusable_is_named(name, contents, path):
    path.write_bytes(contents("RankingPursuit"))
    rewritten(path, HOSTILE["RankingPursuit"][name])
    with pytest.raises(ModelFileError, match=f"damaged: unusable {name}"):
        load(path)


@pytest.mark.parametrize(
    "change", [put("later", 1), put("scoring", None)], ids=["more fields", "fewer fields"]
)
def test_a_file_of_another_version_says_to_fit_again(change, contents, path):
    path.write_bytes(contents("RankRLS"))
    rewritten(path, lambda header, arrays: change(header["fitted"]["path"]["Path"], arrays))
    with pytest.raises(
        ModelFileError, match="written by another version of corank; fit the model again"
    ):
        load(path)


def test_a_function_that_is_not_registered_here_is_named(contents, path):
    path.write_bytes(contents("RankingPursuit"))
    rewritten(path, put("fitted", "dictionary", "unheard of"))
    with pytest.raises(ModelFileError, match=r"dictionary 'unheard of'.*register_kernel"):
        load(path)


@pytest.mark.parametrize(
    "model", ["RankRLS", "RankRLS on a subset", "CoRankRLS on a subset", "PreferenceGP"]
)
def test_a_damaged_file_loads_equal_or_is_refused(model, contents, path):
    path.write_bytes(contents(model))
    expected = load(path).predict(X)
    for position in range(0, len(contents(model)), 83):
        changed = bytearray(contents(model))
        changed[position] ^= 0x04
        path.write_bytes(changed)
        try:
            np.testing.assert_array_equal(load(path).predict(X), expected)
        except ModelFileError as error:
            assert "\n" not in str(error)  # noqa: PT017


def test_a_file_that_is_not_there_is_said_to_be_missing(path, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*model\.corank"):
        load(path)
    with pytest.raises(IsADirectoryError, match="is a folder, not a model file"):
        load(tmp_path)
