"""Rows that are objects: texts, graphs and parses, by a kernel function of two lists, in every
learner and in files; and kernels of the user's own in the default.
"""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import corank
from corank import (
    KPCR,
    RLS,
    AutoRanker,
    AutoRegressor,
    CoRankRLS,
    DifferenceGP,
    KPCRank,
    MatchingPursuit,
    PreferenceGP,
    ProductKernel,
    RankingPursuit,
    RankRLS,
    TransductiveRankRLS,
    View,
    register_kernel,
)
from corank.core.views import distinct_rows

N = 30
rng = np.random.default_rng(0)
QID = np.repeat(np.arange(6), 5)
WINNERS, LOSERS = np.arange(N - 1), np.arange(1, N)


def products(A, B):
    """Cosines between counts (lists of Counter)."""
    K = np.array([[sum(count * b[key] for key, count in a.items()) for b in B] for a in A], float)
    sizes = [np.sqrt([max(sum(v * v for v in c.values()), 1e-9) for c in C]) for C in (A, B)]
    return K / np.multiply.outer(*sizes)


def spectrum(A, B, k=2):
    """The string kernel of shared k-grams."""
    return products(
        *([Counter(t[i : i + k] for i in range(len(t))) for t in texts] for texts in (A, B))
    )


def weisfeiler_lehman(A, B, rounds=2):
    """Shared neighbourhoods of graphs (labels, edges)."""

    def counts(graph):
        labels, edges = list(graph[0]), graph[1]
        found = Counter(labels)
        for _ in range(rounds):
            beside = [
                sorted(labels[b] for a, b in edges if a == node) for node in range(len(labels))
            ]
            labels = [f"{own}({','.join(near)})" for own, near in zip(labels, beside, strict=True)]
            found.update(labels)
        return found

    return products(list(map(counts, A)), list(map(counts, B)))


def make_text(number):
    return "".join(rng.choice(list("abc"), size=4 + number % 7))


def make_graph(number):
    size = 4 + number % 4
    labels = [str(label) for label in rng.choice(list("CNO"), size=size)]
    edges = [(int(a), int(b)) for a, b in rng.integers(size, size=(size, 2))]
    return [labels, [list(edge) for edge in edges]]


TEXTS = [make_text(number) for number in range(N)]
GRAPHS = [make_graph(number) for number in range(N)]
KINDS = {
    "texts": (TEXTS, spectrum, [make_text(number) for number in range(4)]),
    "graphs": (GRAPHS, weisfeiler_lehman, [make_graph(number) for number in range(4)]),
}
Y = np.array([text.count("ab") - text.count("c") for text in TEXTS]) + 0.1 * rng.normal(size=N)
SECOND_PARSES = spectrum(TEXTS, TEXTS, 3)


@pytest.fixture(autouse=True)
def names(monkeypatch):
    monkeypatch.setattr("corank.core.kernels.NAMED_FUNCTIONS", known := {})
    monkeypatch.setattr("corank.core.storable.NAMED_FUNCTIONS", known)
    register_kernel("spectrum", spectrum)
    register_kernel("wl", weisfeiler_lehman)


def fitted(learner, rows):
    if isinstance(learner, PreferenceGP):
        return learner.fit_comparisons(rows, WINNERS, LOSERS)
    scores = Y.copy()
    if isinstance(learner, TransductiveRankRLS):
        scores[QID == 0] = np.nan
    return learner.fit(rows, scores, qid=QID)


def with_kernel(learner, kernel):
    parameters = learner.get_params(deep=False)
    by_view = "kernel" not in parameters
    chosen = {"views": [View(kernel=kernel)]} if by_view else {"kernel": kernel}
    return type(learner)(**{**parameters, **chosen})


LEARNERS = [
    RLS(), RankRLS(), RankRLS(basis=12), KPCR(), KPCRank(), MatchingPursuit(3), RankingPursuit(3),
    DifferenceGP(), PreferenceGP(), TransductiveRankRLS(), AutoRanker(), AutoRegressor(),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: repr(learner)[:18])
def test_objects_are_their_kernel_values_also_after_loading(learner, kind, tmp_path):
    objects, function, new = KINDS[kind]
    name = {"texts": "spectrum", "graphs": "wl"}[kind]
    model = fitted(with_kernel(learner, name), objects)
    other = fitted(with_kernel(learner, "precomputed"), function(objects, objects))
    expected = other.predict(function(new, objects))
    np.testing.assert_allclose(model.predict(new), expected, rtol=1e-7, atol=1e-9)
    model.save(tmp_path / "model.corank")
    loaded = corank.load(tmp_path / "model.corank")
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    other.save(tmp_path / "other.corank")
    np.testing.assert_array_equal(
        corank.load(tmp_path / "other.corank").predict(function(new, objects)), expected
    )


def test_views_of_objects_agree_as_views_of_their_kernel_values(tmp_path):
    objects = np.empty((N, 2), dtype=object)
    for row, pair in enumerate(zip(TEXTS, GRAPHS, strict=True)):
        objects[row] = pair
    scores = np.where(QID < 4, Y, np.nan)
    views = [View([0], "spectrum"), View([1], "wl")]
    model = CoRankRLS(views, 0.1, 0.5).fit(objects, scores, qid=QID)
    grams = [spectrum(TEXTS, TEXTS), weisfeiler_lehman(GRAPHS, GRAPHS)]
    matrix, parts = corank.side_by_side(grams, kernel="precomputed")
    other = CoRankRLS(parts, 0.1, 0.5).fit(matrix, scores, qid=QID)
    np.testing.assert_allclose(model.predict_views(objects), other.predict_views(matrix), rtol=1e-7)
    model.save(tmp_path / "views.corank")
    loaded = corank.load(tmp_path / "views.corank")
    np.testing.assert_array_equal(loaded.predict(objects), model.predict(objects))
    both = AutoRanker(views=views).fit(objects, scores, qid=QID)
    matrices = AutoRanker(views=parts).fit(matrix, scores, qid=QID)
    np.testing.assert_allclose(
        both.predict(objects), matrices.predict(matrix), rtol=1e-6, atol=1e-8
    )
    assert any(line.candidate.views == "agreement" for line in both.candidates_)


def test_a_precomputed_kernel_of_parses_goes_through_the_default():
    """Its single candidate is what RLS would be at the alphas that carry weight."""
    model = AutoRegressor(views=[View(kernel="precomputed")]).fit(SECOND_PARSES, Y)
    assert [line.what for line in model.candidates_] == ["a kernel of your own"]
    fits = [RLS(alpha, kernel="precomputed").fit(SECOND_PARSES, Y) for alpha in (1e-3, 1e3)]
    weakest, strongest = (fit.predict(SECOND_PARSES) for fit in fits)
    errors = [np.mean((fit - Y) ** 2) for fit in (weakest, model.predict(SECOND_PARSES), strongest)]
    assert errors == sorted(errors)


@pytest.mark.parametrize("kernel", ["spectrum", "precomputed"])
def test_the_default_does_not_depend_on_the_order_of_objects(kernel):
    order = rng.permutation(N)
    learner = AutoRanker(views=[View(kernel=kernel)])
    moved = [TEXTS[row] for row in order]
    rows, others = TEXTS, moved
    if kernel == "precomputed":
        rows, others = spectrum(TEXTS, TEXTS), spectrum(moved, moved)
    expected = fitted(learner, rows).predict(rows)
    moved = AutoRanker(views=learner.views).fit(others, Y[order], qid=QID[order]).predict(others)
    np.testing.assert_allclose(moved, expected[order], rtol=1e-8, atol=1e-10)


def test_the_default_knows_how_sure_it_is_of_new_objects():
    model = AutoRegressor(views=[View(kernel="spectrum")]).fit(TEXTS, Y)
    new = ["ab", "zzzz"]
    _, deviations = model.predict(new, return_std=True)
    assert deviations[1] > deviations[0]
    assert model.update(["ab", "cc"], [1.0, -1.0]).predict(new).shape == (2,)
    assert len(model.suggest(TEXTS, 2)) == 2


def test_pairs_of_objects_are_a_grid():
    pairs = np.array([[a, b] for a in TEXTS[:5] for b in TEXTS[10:16]], dtype=object)
    scores = np.array([len(a) * b.count("a") for a, b in pairs], dtype=float)
    kernel = ProductKernel([View([0], "spectrum"), View([1], "spectrum")])
    model = RankRLS(0.1, kernel=kernel).fit(pairs, scores, qid=pairs[:, 0])
    assert model.function_.parts[0].span.grid is not None
    gram = spectrum(pairs[:, 0], pairs[:, 0]) * spectrum(pairs[:, 1], pairs[:, 1])
    other = RankRLS(0.1, kernel="precomputed").fit(gram, scores, qid=pairs[:, 0])
    np.testing.assert_allclose(model.predict(pairs), other.predict(gram), rtol=1e-7, atol=1e-9)


def test_objects_that_only_look_alike_are_no_grid():
    """NumPy shortens how it shows long arrays."""
    signals = [np.r_[np.zeros(500), rng.normal(), np.zeros(600)] for _ in TEXTS]
    rows = np.empty((N, 2), dtype=object)
    rows[:, 0] = TEXTS
    rows[:, 1] = signals

    def peaks(A, B):
        return np.exp(-(np.subtract.outer([a[500] for a in A], [b[500] for b in B]) ** 2))

    kernel = ProductKernel([View([0], "spectrum"), View([1], peaks)])
    gram = spectrum(TEXTS, TEXTS) * peaks(signals, signals)
    expected = RankRLS(0.1, kernel="precomputed").fit(gram, Y, qid=QID).predict(gram)
    model = RankRLS(0.1, kernel=kernel, basis="all").fit(rows, Y, qid=QID)
    np.testing.assert_allclose(model.predict(rows), expected, atol=1e-8)
    assert len(distinct_rows(rows[:, 1:])[0]) == N
    graphs = [eval(repr(graph)) for graph in GRAPHS]  # equal, and other objects
    pairs = np.empty((2 * N, 1), dtype=object)
    pairs[:, 0] = GRAPHS + graphs
    first, codes = distinct_rows(pairs)
    np.testing.assert_array_equal(codes[:N], codes[N:])
    assert first.max() < N


def test_texts_come_in_arrays_and_series():
    model = RankRLS(0.1, kernel="spectrum").fit(np.array(TEXTS), Y, qid=QID)
    expected = RankRLS(0.1, kernel="spectrum").fit(TEXTS, Y, qid=QID).predict(TEXTS)
    np.testing.assert_allclose(model.predict(pd.Series(TEXTS)), expected)
    with pytest.raises(ValueError, match="X holds texts, which need a kernel function"):
        RankRLS().fit(np.array(TEXTS), Y, qid=QID)


class Parse:
    """What JSON has no word for."""

    def __init__(self, text):
        self.text = text


def parses(A, B):
    return spectrum([parse.text for parse in A], [parse.text for parse in B])


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: repr(learner)[:18])
def test_objects_that_no_file_can_hold_are_learned_from_but_not_saved(learner, tmp_path):
    register_kernel("parses", parses)
    model = fitted(with_kernel(learner, "parses"), list(map(Parse, TEXTS)))
    expected = fitted(with_kernel(learner, "precomputed"), spectrum(TEXTS, TEXTS))
    new = expected.predict(spectrum(["abc"], TEXTS))
    np.testing.assert_allclose(model.predict([Parse("abc")]), new, rtol=1e-7, atol=1e-9)
    with pytest.raises(
        TypeError, match="holds a Parse, which a model file cannot hold; it can hold"
    ):
        model.save(tmp_path / "parses.corank")


def fit(kernel, rows=TEXTS):
    return RankRLS(kernel=kernel).fit(rows, Y, qid=QID)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: fit("rbf"), "X holds texts, which need a kernel function"),
        (lambda: AutoRanker().fit(TEXTS, Y), "X holds texts, which need a kernel function"),
        (lambda: fit("spectrum").predict(np.ones((3, 1))), "fit and predict on the same kind"),
        (lambda: fit("spectrum").predict([]), "X must be a list of objects"),
        (lambda: fit("spectrum").predict("ab"), "X must be a list of objects, .*, got 'ab'"),
        (lambda: fit("spectrum").predict(None), "X must be a list of objects, .*, got None"),
        (lambda: fit(lambda A, B: spectrum(A, B) * 1j), "real numbers, got complex128 values"),
        (lambda: fit(lambda A, B: spectrum(A, B).astype(str)), "real numbers, got <U32 values"),
        (lambda: fit(lambda A, B: sparse.csr_array(spectrum(A, B))), "dense array; got csr_array"),
        (lambda: fit("spectrum").predict(np.array([["a", "b"]], object)), "2 objects per row"),
        (lambda: fit("spectrum").explain_pair("ab", "cb"), "a is an object"),
        (lambda: fit(lambda A, B: spectrum(A, B)).save("x.corank"), "call corank.register_kernel"),
        (
            lambda: CoRankRLS([View(kernel="spectrum"), View()]).fit(TEXTS, Y, qid=QID),
            "objects need a kernel function of two lists of them",
        ),
        (
            lambda: AutoRanker(views=[View(kernel="spectrum"), View()]).fit(TEXTS, Y),
            "kernel 'spectrum' does not go with built-in ones",
        ),
        (
            lambda: (
                AutoRanker(views=[View(kernel="spectrum")]).fit(TEXTS, Y).explain_pair("a", "b")
            ),
            "explain_pair speaks of columns",
        ),
        (
            lambda: AutoRanker(views=[View(kernel="precomputed")]).fit(np.eye(N) - 1, Y),
            "positive semi-definite",
        ),
    ],
)
def test_what_goes_wrong_with_objects_is_said_in_a_sentence(act, message):
    with pytest.raises(ValueError, match=message):
        act()


def test_kernels_of_objects_may_be_tensors():
    torch = pytest.importorskip("torch")
    model = fit(lambda A, B: torch.tensor(spectrum(A, B), requires_grad=True))
    np.testing.assert_allclose(model.predict(TEXTS), fit("spectrum").predict(TEXTS))


def test_names_of_kernels_are_text():
    with pytest.raises(TypeError, match="name must be text, got 3"):
        register_kernel(3, spectrum)
