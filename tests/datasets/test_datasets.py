import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Ridge

from corank import datasets as built_in
from corank.datasets import (
    RankingData,
    load_jokes,
    load_peps,
    make_ranking,
    make_shop,
    make_two_views,
)
from corank.links import read_links


@pytest.fixture(scope="module")
def jokes() -> RankingData:
    return load_jokes()


@pytest.fixture(scope="module")
def jokes_file():
    with (
        (built_in.FOLDER / "jokes" / "jokes.npz").open("rb") as stream,
        np.load(stream, allow_pickle=False) as file,
    ):
        return dict(file)


def test_jokes_are_users_as_queries_and_reference_ratings_as_features(jokes):
    assert jokes.X.shape == (27919, 100)
    assert jokes.X.dtype == jokes.y.dtype == np.float64
    assert len(jokes.y) == len(jokes.qid) == len(jokes.item) == len(jokes.X)
    assert len(jokes.feature_names) == len(set(jokes.feature_names)) == 100
    assert np.abs(jokes.X).max() <= 10.0
    assert np.abs(jokes.y).max() <= 10.0
    assert np.abs(jokes.y).max() > 9.0
    assert np.unique(jokes.item).tolist() == list(range(1, 101))
    for item in (1, 100):
        assert len(np.unique(jokes.X[jokes.item == item], axis=0)) == 1


def test_jokes_have_users_who_rated_few_and_users_who_rated_all(jokes):
    n_rated = np.unique(jokes.qid, return_counts=True)[1]
    assert np.histogram(n_rated, [36, 50, 70, 100, 101])[0].tolist() == [100, 100, 100, 100]
    assert len(set(zip(jokes.qid.tolist(), jokes.item.tolist(), strict=True))) == len(jokes.qid)


def test_reference_users_rated_every_joke_and_are_no_queries(jokes, jokes_file):
    assert (jokes_file["reference_ratings"] != 9900).all()
    assert not set(jokes_file["reference_users"].tolist()) & set(jokes.qid.tolist())


def test_jokes_ship_with_their_terms_and_stay_small(jokes):
    notice = (built_in.FOLDER / "jokes" / "NOTICE").read_text(encoding="utf-8")
    for text in (" ".join(notice.split()), jokes.citation):
        assert "Eigentaste: A Constant Time Collaborative Filtering Algorithm" in text
    assert "freely available for research use when acknowledged" in notice
    assert len((built_in.FOLDER / "jokes" / "jokes.npz").read_bytes()) < 100_000


def test_without_the_joke_file_the_error_says_where_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr(built_in, "FOLDER", tmp_path)
    with pytest.raises(
        FileNotFoundError, match=r"source repository and the source distribution.*make_ranking\(\)"
    ):
        load_jokes()


def test_proposals_have_titles_words_dates_and_counts_and_no_outcome():
    data = load_peps()
    columns = [
        "title",
        "abstract_words",
        "type",
        "created",
        "authors",
        "words",
        "code_blocks",
        "sections",
    ]
    assert data.X.column_names == columns
    assert data.table.column_names == ["pep", *columns]
    assert len(data.X) == len(data.topic) == len(np.unique(data.ids)) == 736
    row = data.ids.tolist().index(20)
    assert data.X["title"][row].as_py() == "The Zen of Python"
    assert data.X["created"][row].as_py().isoformat() == "2004-08-19"
    assert repr(data) == "ProposalData(736 proposals, 1,653 links)"
    counts = {
        topic: int(data.has_topic(topic).sum())
        for topic in ("Packaging", "Typing", "Governance", "Release")
    }
    assert counts == {"Packaging": 102, "Typing": 47, "Governance": 26, "Release": 27}


def test_words_of_abstracts_are_in_alphabetical_order_as_often_as_they_are_counted():
    data = load_peps()
    for row in (0, 300, 735):
        written = (data.X["abstract_words"][row].as_py() or "").split()
        assert written == sorted(written)
        counted = data.word_counts[[row]].tocoo()
        assert written == np.repeat(data.vocabulary[counted.col], counted.data).tolist()


def test_links_of_proposals_lead_to_proposals():
    data = load_peps()
    assert len(data.links) == 1653
    assert data.links.column_names == ["pep", "cites"]
    assert set(data.links["pep"].to_pylist()) | set(data.links["cites"].to_pylist()) <= set(
        data.ids.tolist()
    )


def test_proposals_ship_with_their_terms_and_stay_small():
    notice = " ".join((built_in.FOLDER / "peps" / "NOTICE").read_text(encoding="utf-8").split())
    assert "public domain or under CC0-1.0-Universal" in notice
    assert len((built_in.FOLDER / "peps" / "peps.npz").read_bytes()) < 400_000


@pytest.mark.parametrize("make", [make_ranking, make_two_views])
def test_a_seed_repeats_made_up_data(make):
    first, again, other = make(random_state=3), make(random_state=3), make(random_state=4)
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.X, other.X)


def test_ranking_scores_the_same_share_of_every_query():
    data = make_ranking(n_queries=7, query_size=10, n_features=4, scored_share=0.3, random_state=0)
    assert data.X.shape == (70, 4)
    assert np.bincount(data.qid).tolist() == [10] * 7
    assert np.bincount(data.qid[~np.isnan(data.y)]).tolist() == [3] * 7
    assert repr(data) == "RankingData(70 rows, 21 scored, 7 queries, 4 features)"


def test_ranking_offsets_shift_whole_queries():
    plain = make_ranking(offset=0.0, random_state=0)
    shifted = make_ranking(offset=5.0, random_state=0)
    shifts = (shifted.y - plain.y).reshape(50, 20)
    np.testing.assert_allclose(shifts, shifts[:, :1] @ np.ones((1, 20)), atol=1e-12)
    assert shifts[:, 0].std() > 2.0
    assert plain.y.std() == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query_size": 1}, "query_size must be at least 2"),
        ({"n_features": 2}, "n_features must be at least 3"),
        ({"scored_share": 0.0}, r"scored_share must be in \(0, 1\]"),
    ],
)
def test_ranking_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_ranking(**arguments)


def test_two_views_stand_side_by_side_scored_rows_first():
    data = make_two_views(
        n_scored=6, n_unscored=30, n_features=5, n_private=2, n_test=11, random_state=0
    )
    assert data.X.shape == (36, 10)
    assert data.X_test.shape == (11, 10)
    assert data.views == (slice(0, 5), slice(5, 10))
    assert np.isnan(data.y).tolist() == [False] * 6 + [True] * 30
    assert not np.isnan(data.y_test).any()
    assert np.unique(data.qid).tolist() == np.unique(data.qid_test).tolist() == [0]


def test_two_views_share_the_target_only():
    data = make_two_views(
        n_scored=20_000, n_unscored=0, n_features=4, n_private=2, n_test=0, random_state=0
    )
    first, second = (data.X[:, view] for view in data.views)
    gains = [data.y @ view / len(data.y) for view in (first, second)]
    residuals = [
        view - np.outer(data.y, gain) for view, gain in zip((first, second), gains, strict=True)
    ]
    assert np.abs(residuals[0].T @ residuals[1]).max() / len(data.y) < 0.05
    assert [np.linalg.norm(gain) for gain in gains] == pytest.approx([1.0, 1.0], abs=0.05)


def test_two_views_deal_rows_out_to_queries():
    data = make_two_views(n_scored=12, n_unscored=40, n_test=8, queries=4, random_state=0)
    assert np.bincount(data.qid[:12]).tolist() == [3] * 4
    assert np.bincount(data.qid[12:]).tolist() == [10] * 4
    assert np.unique(data.qid_test).tolist() == [4, 5, 6, 7]
    with pytest.raises(ValueError, match="n_scored must be at least 8"):
        make_two_views(n_scored=7, queries=4)


def test_agreement_on_two_views_finds_what_few_scores_cannot():
    data = make_two_views(random_state=0)
    first, second = data.views
    scored, unscored = data.X[:20], data.X[20:]
    target = data.y[:20]
    dual = np.linalg.solve(scored @ scored.T + 0.01 * np.eye(20), target)
    supervised = data.X_test @ scored.T @ dual
    gap = np.hstack([unscored[:, first], -unscored[:, second]])
    gram = 2.0 * 0.01 * gap.T @ gap + 0.01 * np.eye(100)
    for view in data.views:
        gram[view, view] += scored[:, view].T @ scored[:, view]
    agreeing = data.X_test @ np.linalg.solve(gram, scored.T @ target) / 2.0
    error = [
        np.sqrt(np.mean((prediction - data.y_test) ** 2)) for prediction in (supervised, agreeing)
    ]
    assert error[0] > 0.4
    assert error[1] < 0.1


def test_a_shop_has_words_categories_prices_embeddings_and_links():
    shop = make_shop(50, 8, random_state=0)
    assert shop.table.column_names == [
        "id",
        "description",
        "category",
        "price",
        "embedding",
        "rating",
    ]
    assert shop.table.num_rows == len(shop.y) == len(shop.ratings) == 50
    assert shop.table["rating"].null_count == np.count_nonzero(np.isnan(shop.y)) == 42
    assert len(set(shop.ids)) == 50
    assert np.array(shop.X["embedding"].to_pylist()).shape == (50, 16)
    assert set(shop.links["from"].to_pylist()) == set(shop.ids)
    assert set(shop.links["to"].to_pylist()) <= set(shop.ids)
    assert shop.ratings.mean() == pytest.approx(3.0)
    assert shop.ratings.std() == pytest.approx(1.0)
    assert repr(shop) == "ShopData(50 items, 8 rated, 200 links)"


def _informed(shop):
    """How well 300 ratings and a ridge on each source, alone, order the other items."""
    graph = read_links(shop.links, len(shop.y), ids=shop.ids).matrix
    scored = ~np.isnan(shop.y)
    neighbours = graph @ np.where(scored, shop.y - 3.0, 0.0)
    sources = {
        "words": TfidfVectorizer().fit_transform(shop.X["description"].to_pylist()),
        "embeddings": np.array(shop.X["embedding"].to_pylist()),
        "links": neighbours[:, None],
    }
    return {
        name: spearmanr(
            Ridge().fit(X[scored], shop.y[scored]).predict(X[~scored]), shop.ratings[~scored]
        )[0]
        for name, X in sources.items()
    }


@pytest.mark.parametrize("silent", ["words", "links", "embeddings"])
def test_a_shop_can_be_made_in_which_a_source_says_nothing_and_the_others_say_the_same(silent):
    informed, without = (
        _informed(make_shop(600, 300, random_state=0, **flags)) for flags in ({}, {silent: False})
    )
    assert min(informed.values()) > 0.4
    assert abs(without.pop(silent)) < 0.15
    assert {name: informed[name] for name in without} == pytest.approx(without)


def test_a_shop_repeats_with_its_seed():
    first, again, other = (make_shop(40, 5, random_state=seed) for seed in (3, 3, 4))
    assert first.table.equals(again.table)
    assert first.links.equals(again.links)
    assert not first.X.equals(other.X)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_items": 1}, "n_items must be at least 2"),
        ({"n_scored": 1}, "n_scored must be at least 2"),
        ({"n_items": 10, "n_scored": 11}, "n_scored must be at most n_items = 10, got 11"),
    ],
)
def test_a_shop_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_shop(**arguments)
