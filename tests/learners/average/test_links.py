"""Links and kinds of columns in the averages: against literal computations."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler

import corank
from corank import AutoRanker, AutoRegressor, Candidate, TableEncoder
from corank.datasets import make_shop
from corank.learners.average.candidates import default_candidates
from corank.learners.average.encoding import QUERY_RANKS, RANKS, STANDARD, fit_encoding
from corank.learners.average.model import (
    LIKELY_LINKS,
    UNLIKELY_LINKS,
    fit_table,
    prior_of_links,
    rows_beyond,
)
from corank.learners.average.scored_table import AverageSettings, ScoredTable
from corank.learners.average.similarity import Space
from corank.links import read_links

pytestmark = pytest.mark.usefixtures("one_blas_thread")

rng = np.random.default_rng(3)
N = 60
GROUP = np.arange(N) % 2
X = rng.standard_normal((N, 5)) + 1.5 * GROUP[:, None]
EDGES = np.array(
    [(i, j) for i in range(N) for j in range(i) if GROUP[i] == GROUP[j] and rng.random() < 0.1]
)
LINKS = sparse.csr_array((np.ones(len(EDGES)), EDGES.T), shape=(N, N))
Y = np.where(np.arange(N) < 16, GROUP + 0.1 * rng.standard_normal(N), np.nan)
FEW = [
    Candidate(kernel="linear"),
    Candidate(kernel="rbf", hops=2),
    Candidate(kernel="linear", hops=3, beside=True),
]


def over_links(W, hops, kept=0.05):
    A = LINKS.toarray() + LINKS.toarray().T + np.eye(N)
    degrees = A.sum(axis=1)
    P = A / np.sqrt(np.outer(degrees, degrees))
    return np.mean(
        [(1 - kept) * np.linalg.matrix_power(P, k) @ W + kept * W for k in range(1, hops + 1)],
        axis=0,
    )


def test_rows_over_links_are_mixed_with_those_of_others():
    mutual = read_links(LINKS, N).matrix
    seen = rows_beyond({STANDARD: X}, [(STANDARD, 2), (STANDARD, 3)], mutual)
    np.testing.assert_allclose(seen[f"{STANDARD}, 2 links"], over_links(X, 2))
    np.testing.assert_allclose(seen[f"{STANDARD}, 3 links"], over_links(X, 3))
    assert rows_beyond({STANDARD: X}, [(STANDARD, 2)], None) == {}


def test_columns_over_links_beside_own_ones_are_a_sum_of_kernels():
    space = Space({STANDARD: X, f"{STANDARD}, 2 links": over_links(X, 2)})
    alone, over, both = Candidate(), Candidate(hops=2), Candidate(hops=2, beside=True)
    kernels = [space.kernel(space.built(candidate)) for candidate in (alone, over, both)]
    np.testing.assert_allclose(kernels[0] + kernels[1], kernels[2])


def test_a_model_over_links_is_a_model_of_the_mixed_rows():
    candidates = [Candidate("as given", "linear", hops=2)]
    model = AutoRegressor(candidates=candidates).fit(X, Y, links=LINKS)
    mixed = over_links(X, 2)
    plain = AutoRegressor(candidates=[Candidate("as given", "linear")]).fit(mixed, Y)
    np.testing.assert_allclose(model.predict(X, links=LINKS), plain.predict(mixed), atol=1e-8)


@pytest.mark.parametrize("learner", [AutoRanker, AutoRegressor])
def test_weights_without_links_are_those_of_a_list_without_them(learner):
    both = learner(candidates=FEW).fit(X, Y, links=LINKS)
    fewer = learner(candidates=FEW[:1]).fit(X, Y)
    # shares of alphas are those of the whole list, where evidence has a say in them
    np.testing.assert_allclose(
        both.predict(X), fewer.predict(X), atol=1e-8 if learner is AutoRanker else 0.05
    )
    assert not np.allclose(both.predict(X, links=LINKS), both.predict(X))


def test_a_row_without_links_is_judged_by_its_own_columns():
    model = AutoRanker(candidates=FEW).fit(X, Y, links=LINKS)
    more = sparse.block_diag([LINKS, np.zeros((1, 1))], format="csr")
    new = rng.standard_normal((1, 5))
    alone = model.predict(new, links=sparse.csr_array((1, 1)))
    np.testing.assert_allclose(model.predict(np.vstack([X, new]), links=more)[-1:], alone)


def test_links_help_where_they_join_what_belongs_together():
    blurred = X + 2 * rng.standard_normal(X.shape)
    with_links = AutoRanker().fit(blurred, Y, links=LINKS)
    errors = [
        corank.metrics.disagreement_error(GROUP[16:], predictions[16:])
        for predictions in (
            with_links.predict(blurred, links=LINKS),
            AutoRanker().fit(blurred, Y).predict(blurred),
        )
    ]
    assert errors[0] < 0.5 * errors[1]
    assert "linked rows" in with_links.reason_
    effect = with_links.unscored_effect_
    assert effect is not None
    assert effect.error_with < effect.error_without


def test_links_that_join_like_rows_are_more_likely_than_others():
    settings = AverageSettings(ranks=True)
    at_random = rng.permutation(N)
    for rows, prior in ((np.arange(N), LIKELY_LINKS), (at_random, UNLIKELY_LINKS)):
        assert prior_of_links(X, sparse.csr_array(LINKS[rows][:, rows]), settings) == prior
    words = sparse.csr_array(
        (X > 1).astype(float) * np.repeat([1, 5], [2, 3]) * (GROUP[:, None] + 0.1)
    )
    assert (
        prior_of_links(words, sparse.csr_array(LINKS[at_random][:, at_random]), settings)
        == UNLIKELY_LINKS
    )
    assert prior_of_links(X, None, settings) == 0
    assert prior_of_links(X, sparse.csr_array((N, N)), settings) == UNLIKELY_LINKS


def test_priors_do_not_depend_on_how_many_candidates_a_family_has():
    candidates = default_candidates(
        is_csr=False, has_queries=True, kinds=["text", "table"], links_prior=0.5
    )
    own = sum(
        candidate.prior for candidate in candidates if not candidate.hops and candidate.of == (0,)
    )
    over = sum(c.prior for c in candidates if c.hops and not c.beside and c.of == (0,))
    assert own == pytest.approx(1)
    assert over == pytest.approx(0.5)
    assert all(c.prior == 1 for c in default_candidates(is_csr=False, has_queries=True))


@pytest.mark.parametrize("learner", [AutoRanker, AutoRegressor])
def test_links_in_files_and_updates(learner, tmp_path):
    model = learner(candidates=FEW).fit(X, Y, links=LINKS)
    model.save(tmp_path / "model.corank")
    again = corank.load(tmp_path / "model.corank")
    np.testing.assert_array_equal(again.predict(X, links=LINKS), model.predict(X, links=LINKS))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    new = np.where((np.arange(N) >= 16) & (np.arange(N) < 24), GROUP, np.nan)
    everything = learner(candidates=FEW).fit(X, np.where(np.isnan(Y), new, Y), links=LINKS)
    again.update(X, new, links=LINKS)
    np.testing.assert_allclose(
        again.predict(X, links=LINKS), everything.predict(X, links=LINKS), atol=1e-7
    )
    with pytest.raises(ValueError, match="links must be given to update"):
        model.update(X, new)
    with pytest.raises(ValueError, match="fitted without links"):
        learner(candidates=FEW[:1]).fit(X, Y).predict(X, links=LINKS)


def test_comparisons_and_questions_with_links():
    winners, losers = np.array([1, 3, 5, 7]), np.array([0, 2, 4, 6])
    model = AutoRanker().fit_comparisons(X, winners, losers, links=LINKS)
    assert np.mean(model.predict(X, links=LINKS)[GROUP == 1]) > np.mean(
        model.predict(X, links=LINKS)[GROUP == 0]
    )
    assert model.suggest(X, 2, links=LINKS).shape == (2, 2)
    assert AutoRegressor().fit(X, Y, links=LINKS).suggest(
        X, 3, kind="score", links=LINKS
    ).shape == (3,)


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (sparse.csr_array((3, 3)), "shape"),
        (np.array([[0, N]]), "row"),
        (-LINKS, "negative"),
        ("cites.csv", "links must be"),
    ],
)
def test_links_that_make_no_sense_are_refused(links, message):
    with pytest.raises((ValueError, TypeError), match=message):
        AutoRanker().fit(X, Y, links=links)


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        (Candidate(hops=-1), "hops"),
        (Candidate(QUERY_RANKS, hops=2), "hops"),
        (Candidate(beside=True), "beside"),
        (Candidate(prior=0.0), "prior"),
        (Candidate(views="one"), "views"),
    ],
)
def test_candidates_over_links_that_cannot_be_built_are_refused(candidate, message):
    with pytest.raises(ValueError, match=message):
        AutoRanker(candidates=[candidate]).fit(X, Y, links=LINKS)


def test_a_sparse_matrix_that_would_become_too_large_is_refused(monkeypatch):
    monkeypatch.setattr("corank.learners.average.model.MAX_SPREAD_ENTRIES", 10)
    with pytest.raises(ValueError, match="TruncatedSVD"):
        AutoRanker().fit(sparse.csr_array(X), Y, links=LINKS)


@pytest.fixture
def small_basis(monkeypatch):
    """Sixty scored rows count as so many that 15 of them span the model."""
    monkeypatch.setattr("corank.learners.average.fitting.FEW_WEIGHED", 20)
    monkeypatch.setattr("corank.learners.average.fitting.MAX_WEIGHED", 20)
    monkeypatch.setattr("corank.learners.average.fitting.affordable", lambda n, n_parts=1: (3, 15))


@pytest.mark.usefixtures("small_basis")
def test_many_scored_rows_have_a_candidate_with_and_without_links():
    model = AutoRegressor().fit(X, GROUP + 0.1 * rng.standard_normal(N), links=LINKS)
    for given in ({"links": LINKS}, {}):
        assert np.corrcoef(model.predict(X, **given), GROUP)[0, 1] > 0.5


@pytest.mark.usefixtures("small_basis")
def test_a_basis_of_fewer_directions_than_rows_is_saved_and_loaded(tmp_path):
    model = AutoRegressor(candidates=[Candidate(kernel="linear")]).fit(
        X, GROUP + 0.1 * rng.standard_normal(N)
    )
    assert model._model.candidates[0].basis[1].shape == (15, 5)
    model.save(tmp_path / "model.corank")
    loaded = corank.load(tmp_path / "model.corank")
    for kept, read in zip(
        model.predict(X, return_std=True), loaded.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(kept, read)


@pytest.mark.parametrize("learner", [AutoRanker, AutoRegressor])
def test_candidates_that_all_see_links_need_them(learner):
    model = learner(candidates=FEW[1:]).fit(X, Y, links=LINKS)
    for ask in (model.predict, model.suggest, lambda rows: model.predict_comparison(rows, rows)):
        with pytest.raises(ValueError, match="links must be given"):
            ask(X)
    with pytest.raises(ValueError, match="links= is not given"):
        learner(candidates=FEW[1:]).fit(X, Y)


def test_candidates_within_queries_need_queries():
    queries = np.arange(N) // 6
    model = AutoRanker(candidates=[Candidate(QUERY_RANKS)]).fit(X, GROUP + X[:, 0], qid=queries)
    with pytest.raises(ValueError, match="qid must be given"):
        model.predict(X)


def test_relevance_goes_with_links_alone():
    with pytest.raises(ValueError, match="beside"):
        AutoRanker(candidates=[Candidate(relevance=True, hops=2, beside=True)]).fit(
            X, Y, links=LINKS
        )


def test_an_update_with_links_counts_rows_once():
    model = AutoRegressor(candidates=FEW).fit(X, Y, links=LINKS)
    model.update(
        X, np.where(np.arange(N) < 20, np.where(np.isnan(Y), GROUP, np.nan), np.nan), links=LINKS
    )
    assert (model._n_seen, model._n_scored, model._n_unscored) == (N, 20, N - 20)


def test_the_effect_of_unscored_rows_is_not_that_of_links_between_scored_ones():
    scored = np.flatnonzero(~np.isnan(Y))
    among_scored = LINKS[scored][:, scored]
    links = sparse.block_array(
        [[among_scored, None], [None, sparse.csr_array((N - 16, N - 16))]], format="csr"
    )
    candidates = [Candidate("as given", "linear", hops=2)]
    effect = AutoRegressor(candidates=candidates).fit(X, Y, links=links).unscored_effect_
    np.testing.assert_allclose(effect.error_with, effect.error_without)


# ---- kinds of columns


def test_a_group_of_columns_shares_one_scale_and_is_not_ranked():
    scales = np.array([1.0, 5.0, 0.1, 2.0, 3.0])
    values = X * scales
    group = np.array([1, 2])
    encoding = fit_encoding(RANKS, values, None, groups=[group])
    plain = fit_encoding(RANKS, values[:, [0, 3, 4]], None)
    encoded = encoding.encode(values, None)
    np.testing.assert_array_equal(encoding.columns, [0, 3, 4, 1, 2])
    np.testing.assert_allclose(encoded[:, :3], plain.encode(values[:, [0, 3, 4]], None))
    spread = np.sqrt(np.mean(values[:, group].var(axis=0)))
    np.testing.assert_allclose(encoded[:, 3:], values[:, group] / spread)
    standard = fit_encoding(STANDARD, values, None, groups=[group]).encode(values, None)
    np.testing.assert_allclose(standard[:, group], values[:, group] / spread)


SHOP = make_shop(n_items=80, n_scored=20, random_state=0)


@pytest.fixture(scope="module")
def shop_model():
    return AutoRegressor().fit(SHOP.X, SHOP.y)


def test_a_table_of_text_numbers_and_vectors_is_learned_from_as_it_is(shop_model, tmp_path):
    kinds = {group.kind for group in shop_model.encoder_.groups_}
    assert kinds == {"text", "vector", "table"}
    unrated = np.isnan(SHOP.y)
    assert np.corrcoef(shop_model.predict(SHOP.X)[unrated], SHOP.ratings[unrated])[0, 1] > 0.2
    shop_model.save(tmp_path / "shop.corank")
    np.testing.assert_array_equal(
        corank.load(tmp_path / "shop.corank").predict(SHOP.X), shop_model.predict(SHOP.X)
    )


def test_a_text_that_is_always_the_same_stays_out_of_the_sums():
    titles = [f"{'warm' if GROUP[row] else 'cold'} bread and butter {row}" for row in range(N)]
    plain = pa.table({"size": X[:, 0], "title": titles})
    constant = plain.append_column(
        "note", pa.array([f"nothing else to say {row}" for row in range(N)])
    )
    models = [AutoRegressor().fit(table, Y) for table in (plain, constant)]
    assert [group.name for group in models[1].encoder_.groups_] == ["size", "title", "note"]
    for model in models:
        assert {"one", "sum", "product"} == {line.candidate.views for line in model.candidates_}


def test_unscored_tables_may_have_more_columns_and_other_types_of_text():
    colours = np.array(["red", "blue", "green"])[np.arange(N) % 3]
    scored = pa.table({"size": X[:16, 0], "colour": pa.array(colours[:16]).dictionary_encode()})
    unscored = pa.table({"comment": ["none"] * 44, "colour": colours[16:], "size": X[16:, 0]})
    model = AutoRegressor(candidates=FEW[:1]).fit(scored, Y[:16], unscored=unscored)
    together = pa.table({"size": X[:, 0], "colour": pa.array(colours).dictionary_encode()})
    expected = AutoRegressor(candidates=FEW[:1]).fit(together, Y)
    np.testing.assert_allclose(model.predict(together), expected.predict(together), atol=1e-12)
    with pytest.raises(ValueError, match=r"unscored does not fit X: .*size"):
        AutoRegressor().fit(
            scored, Y[:16], unscored=unscored.set_column(2, "size", unscored["colour"])
        )


def test_an_encoder_that_is_fitted_is_taken_with_its_matrix(shop_model):
    encoder = TableEncoder().fit(SHOP.X)
    model = AutoRegressor(encoder=encoder).fit(encoder.transform(SHOP.X), SHOP.y)
    np.testing.assert_allclose(model.predict(SHOP.X), shop_model.predict(SHOP.X))
    with pytest.raises(ValueError, match="columns, but X has"):
        AutoRegressor(encoder=encoder).fit(X, Y)
    with pytest.raises(TypeError, match="StandardScaler"):
        AutoRegressor(encoder=StandardScaler()).fit(SHOP.X, SHOP.y)
    with pytest.raises(ValueError, match="2D"):
        AutoRegressor(encoder=encoder).fit(X[:, 0], Y)
    with pytest.raises(ValueError, match="X is a matrix"):
        AutoRegressor(encoder=TableEncoder()).fit(X, Y)


def test_unscored_tables_take_part_in_the_encoding(shop_model):
    rated = np.flatnonzero(~np.isnan(SHOP.y))
    others = np.flatnonzero(np.isnan(SHOP.y))
    apart = AutoRegressor().fit(SHOP.X.take(rated), SHOP.y[rated], unscored=SHOP.X.take(others))
    # rows in another order round otherwise; components of text may turn by a little
    difference = apart.predict(SHOP.X) - shop_model.predict(SHOP.X)
    assert np.max(np.abs(difference)) < 1e-3 * np.nanstd(SHOP.y)


def test_views_by_kinds_can_be_asked_for():
    table = SHOP.X.drop_columns(["embedding"])
    model = AutoRegressor("kinds", candidates=[Candidate(views="agreement", strength=1.0)]).fit(
        table, SHOP.y
    )
    assert [view.name for view in model._views] == [group.name for group in model.encoder_.groups_]
    with pytest.raises(ValueError, match="more than one kind"):
        AutoRegressor("kinds").fit(table.select(["price"]), SHOP.y)
    named = [corank.View(["description"]), corank.View(["category", "price"])]
    model = AutoRegressor(named, candidates=[Candidate(views="sum")]).fit(table, SHOP.y)
    assert len(model._views[0].columns) == len(model.encoder_.groups_[0].columns)


def test_tables_of_one_text_column_missing_numbers_and_comparisons():
    texts = SHOP.X.select(["description"])
    assert np.isfinite(AutoRanker().fit(texts, SHOP.y).predict(texts)).all()
    numbers = pa.table({"a": [1.0, None, 3.0, 4.0] * 5, "b": np.arange(20.0)})
    assert np.isfinite(AutoRegressor().fit(numbers, np.arange(20.0)).predict(numbers)).all()
    compared = AutoRanker().fit_comparisons(SHOP.X, [0, 1, 2], [3, 4, 5])
    assert compared.predict(SHOP.X).shape == (80,)


def test_a_table_with_links_is_fitted_by_its_scored_rows_alone_where_it_says_so():
    table = ScoredTable(X, Y, links=read_links(LINKS, N).matrix)
    model, average = fit_table(table, AverageSettings(ranks=True, candidates=FEW))
    assert average is not None
    assert model.hops == [2, 3]
    assert table.take(np.arange(3)).links is None
