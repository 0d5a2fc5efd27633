"""What every loader and generator returns: rows, their scores and queries, and where they come
from.

Made-up problems: a nonlinear ranking with queries, one with two views where agreement helps, and a
shop, items with descriptions, categories, prices, embeddings and links, few of them rated.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corank.core.arrays import FloatArray, Index

Seed = int | np.random.Generator | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RankingData:
    """Items to rank, one a row.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features.
    y : ndarray of shape (n_samples,)
        Scores, higher is better; NaN = unscored.
    qid : ndarray of shape (n_samples,)
        The query of each row: rows of one query compete with each other.
    item : ndarray of shape (n_samples,)
        The item of each row; the same item may stand in several queries.
    feature_names : tuple of str
        One name a column.
    description : str
        What a row is and where it comes from.
    citation : str
        What to cite; empty for made-up data.
    """

    X: FloatArray
    y: FloatArray
    qid: Index
    item: Index
    feature_names: tuple[str, ...]
    description: str
    citation: str = ""

    def __repr__(self) -> str:
        n_rows, n_features = self.X.shape
        n_scored = int(np.count_nonzero(~np.isnan(self.y)))
        n_queries = len(np.unique(self.qid))
        name = type(self).__name__
        return (
            f"{name}({n_rows} rows, {n_scored} scored, {n_queries} queries, {n_features} features)"
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TwoViewData(RankingData):
    """Items seen in two views, with rows to test on; see `RankingData` for the other attributes.

    Attributes
    ----------
    views : pair of slice
        The columns of each view.
    X_test : ndarray of shape (n_test, n_features)
        Features of the test rows.
    y_test : ndarray of shape (n_test,)
        Their scores, all known.
    qid_test : ndarray of shape (n_test,)
        Their queries, none of which is in `qid` (but for the one query of data without queries).
    """

    views: tuple[slice, slice]
    X_test: FloatArray
    y_test: FloatArray
    qid_test: Index


def make_ranking(
    n_queries: int = 50,
    query_size: int = 20,
    n_features: int = 10,
    *,
    noise: float = 0.1,
    offset: float = 2.0,
    scored_share: float = 1.0,
    random_state: Seed = None,
) -> RankingData:
    """Make a nonlinear ranking problem whose scores are comparable within a query only.

    The score of x in query q is `f(x) + offset_q + noise`, with `f(x) = (sin(2 u'x) + u'x + v'x
    w'x) / 1.9` for random orthonormal directions u, v, w and standard normal x. f has a standard
    deviation of about one.

    Parameters
    ----------
    n_queries, query_size, n_features : int
        Queries, items in each (at least two) and columns (at least three).
    noise : float
        Standard deviation of the noise of a score.
    offset : float
        Standard deviation of the offsets of the queries, which say nothing about any ranking.
    scored_share : float
        Share of each query's items that are scored, in (0, 1]; at least two are. The others have
        NaN in `y`.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    RankingData
        The rows of a query stand together; `item` numbers the rows.
    """
    check_at_least("n_queries", n_queries, 1)
    check_at_least("query_size", query_size, 2)
    check_at_least("n_features", n_features, 3)
    if not 0.0 < scored_share <= 1.0:
        raise ValueError(f"scored_share must be in (0, 1], got {scored_share}.")
    rng = np.random.default_rng(random_state)
    n_rows = n_queries * query_size
    directions = np.linalg.qr(rng.standard_normal((n_features, 3)))[0]
    X = rng.standard_normal((n_rows, n_features))
    first, second, third = (X @ directions).T
    y = (np.sin(2.0 * first) + first + second * third) / 1.9
    offsets = offset * rng.standard_normal(n_queries)
    y += np.repeat(offsets, query_size) + noise * rng.standard_normal(n_rows)
    n_scored = max(2, round(scored_share * query_size))
    places = np.tile(np.arange(query_size), (n_queries, 1))
    rank_in_query = rng.permuted(places, axis=1).ravel()
    y[rank_in_query >= n_scored] = np.nan
    return RankingData(
        X=X,
        y=y,
        qid=np.repeat(np.arange(n_queries), query_size),
        item=np.arange(n_rows),
        feature_names=tuple(f"x{column}" for column in range(n_features)),
        description=(
            "Made-up nonlinear ranking problem with an offset a query"
            " (corank.datasets.make_ranking)."
        ),
    )


def make_two_views(
    n_scored: int = 20,
    n_unscored: int = 2000,
    n_features: int = 50,
    n_private: int = 20,
    *,
    noise: float = 0.05,
    private: float = 1.0,
    n_test: int = 1000,
    queries: int | None = None,
    offset: float = 2.0,
    random_state: Seed = None,
) -> TwoViewData:
    """Make a problem where two views share nothing but the target, so that agreement on unscored
    rows finds it.

    View v of a row is `t w_v + private P_v'z_v + noise`: the target t and the private factors z_v,
    which are independent across views, are standard normal; w_v has length one, and so, about, has
    each row of P_v. With few scores nothing tells the target from the private factors of a view,
    except that the other view does not have them.

    Parameters
    ----------
    n_scored, n_unscored, n_test : int
        Rows that have a score, rows that have NaN in `y`, and rows to test on.
    n_features, n_private : int
        Columns and private factors of each view.
    noise : float
        Standard deviation of the noise of a feature.
    private : float
        Strength of the private factors beside the target's.
    queries : int or None
        Number of queries that the scored rows, and likewise the unscored rows, are dealt out to;
        the test rows form as many new ones. None: one query, for regression.
    offset : float
        Standard deviation of the offsets of the queries, added to the scores; none are with
        `queries=None`.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    TwoViewData
        Scored rows first; the views stand side by side in `X` and `X_test`, their columns in
        `views`.

    Notes
    -----
    The target has mean zero, which the mean of 20 scores misses by about 0.2: regress without an
    intercept.
    """
    check_at_least("n_scored", n_scored, 2 if queries is None else 2 * queries)
    check_at_least("n_unscored", n_unscored, 0)
    check_at_least("n_test", n_test, 0)
    check_at_least("n_features", n_features, 1)
    check_at_least("n_private", n_private, 0)
    if queries is not None:
        check_at_least("queries", queries, 1)
    rng = np.random.default_rng(random_state)
    n_fit = n_scored + n_unscored
    target = rng.standard_normal(n_fit + n_test)
    views = [_view(rng, target, n_features, n_private, private, noise) for _ in range(2)]
    X = np.hstack(views)
    n_queries = queries or 1
    dealt = [np.arange(size) % n_queries for size in (n_scored, n_unscored, n_test)]
    query = np.concatenate(dealt)
    if queries is not None:
        query[n_fit:] += n_queries
        target += offset * rng.standard_normal(2 * n_queries)[query]
    y = target[:n_fit].copy()
    y[n_scored:] = np.nan
    names = [f"{view}_{column}" for view in "ab" for column in range(n_features)]
    return TwoViewData(
        X=X[:n_fit],
        y=y,
        qid=query[:n_fit],
        item=np.arange(n_fit),
        feature_names=tuple(names),
        description=(
            "Made-up problem whose two views share the target only"
            " (corank.datasets.make_two_views)."
        ),
        views=(slice(0, n_features), slice(n_features, 2 * n_features)),
        X_test=X[n_fit:],
        y_test=target[n_fit:],
        qid_test=query[n_fit:],
    )


def _view(
    rng: np.random.Generator,
    target: FloatArray,
    n_features: int,
    n_private: int,
    private: float,
    noise: float,
) -> FloatArray:
    direction = rng.standard_normal(n_features)
    direction /= np.linalg.norm(direction)
    loadings = rng.standard_normal((n_private, n_features)) / np.sqrt(n_features)
    factors = rng.standard_normal((len(target), n_private))
    view: FloatArray = np.outer(target, direction)
    view += private * factors @ loadings + noise * rng.standard_normal(view.shape)
    return view


# ---- a shop

# Each trait of an item shows in words of one of its two poles: of much of the trait, and of little.
TRAITS = (
    (
        ("sturdy", "solid", "robust", "durable", "tough"),
        ("flimsy", "thin", "fragile", "brittle", "wobbly"),
    ),
    (
        ("elegant", "graceful", "refined", "stylish", "slender"),
        ("clumsy", "bulky", "crude", "coarse", "heavy"),
    ),
    (
        ("quiet", "silent", "gentle", "soft", "smooth"),
        ("loud", "noisy", "rattling", "harsh", "squeaky"),
    ),
    (
        ("modern", "fresh", "current", "novel", "recent"),
        ("dated", "faded", "antique", "worn", "classic"),
    ),
)
NOUNS = {
    "kitchen": ("kettle", "pan", "mixer", "toaster", "grinder"),
    "garden": ("spade", "hose", "rake", "mower", "trowel"),
    "office": ("lamp", "desk", "stapler", "chair", "shelf"),
    "sports": ("racket", "helmet", "bottle", "tent", "skates"),
    "music": ("guitar", "drum", "speaker", "flute", "stand"),
}
FILLERS = [
    "with",
    "handle",
    "and",
    "cover",
    "for",
    "daily",
    "use",
    "in",
    "box",
    "made",
    "of",
    "steel",
    "wood",
    "colour",
]
TRAIT_WORDS = 8  # in a description
FILLER_WORDS = 6
EMBEDDING_SIZE = 16
# standard deviation in each number of an embedding; the traits give it about one
EMBEDDING_NOISE = 1.0
LINKS_PER_ITEM = 4
CANDIDATES = 60  # items that could be bought together with another one; the most alike of them are
RATING_NOISE = 0.3
MEAN_RATING = 3.0


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ShopData:
    """Items of a shop, few of them rated.

    Attributes
    ----------
    X : pyarrow.Table of n rows
        `description` (text), `category`, `price` and `embedding` (lists of 16 numbers).
    y : ndarray of shape (n,)
        Ratings as customers gave them, with noise; NaN = unscored.
    ids : ndarray of shape (n,)
        Names of the items.
    links : pyarrow.Table
        `from` and `to`: ids of items that were bought together.
    ratings : ndarray of shape (n,)
        What every item deserves, without noise, to judge a ranking by.
    """

    X: pa.Table
    y: FloatArray
    ids: NDArray[np.str_]
    links: pa.Table
    ratings: FloatArray

    @property
    def table(self) -> pa.Table:
        """Everything about the items in one table: `id`, the columns of X, and `rating`, empty
        where unscored.
        """
        table = self.X.add_column(0, "id", pa.array(self.ids))
        return table.append_column("rating", pa.array(self.y, from_pandas=True))

    def __repr__(self) -> str:
        n_scored = int(np.count_nonzero(~np.isnan(self.y)))
        return (
            f"{type(self).__name__}({len(self.y)} items, {n_scored} rated, {len(self.links)} links)"
        )


def make_shop(
    n_items: int = 600,
    n_scored: int = 25,
    *,
    words: bool = True,
    links: bool = True,
    embeddings: bool = True,
    random_state: Seed = None,
) -> ShopData:
    """Make a shop whose items have hidden traits that show in words, embeddings and links.

    An item has four traits, standard normal. A rating is a weighted sum of the traits, an effect of
    the category and one of the price, brought to a standard deviation of one around 3. Each trait
    shows in the words of the description, more likely those of one pole the more of it there is;
    the embedding is a random projection of the traits, with noise; and items with like traits are
    bought together.

    Parameters
    ----------
    n_items, n_scored : int
        Items, and how many of them have a rating.
    words, links, embeddings : bool
        Whether they say anything about the items they belong to. Where not, they look alike but
        come from the traits of other items; everything else stays as it is for the same seed.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    ShopData
    """
    check_at_least("n_items", n_items, 2)
    check_at_least("n_scored", n_scored, 2)
    if n_scored > n_items:
        raise ValueError(f"n_scored must be at most n_items = {n_items}, got {n_scored}.")
    n_traits = len(TRAITS)
    rng = np.random.default_rng(random_state)
    item, text, vector, edge, rating = rng.spawn(5)
    traits = item.standard_normal((n_items, n_traits))
    category = item.integers(0, len(NOUNS), n_items)
    log_price = item.normal(3.0, 0.6, n_items)
    level = traits @ item.choice([-1.0, 1.0], n_traits) / np.sqrt(n_traits)
    of_category = item.standard_normal(len(NOUNS))
    of_price = log_price - 3.0
    level += 0.4 * of_category[category] - 0.5 * of_price
    standardised = (level - level.mean()) / level.std()
    ratings = MEAN_RATING + standardised

    everyone = np.arange(n_items)
    describing = everyone if words else text.permutation(n_items)
    linked = everyone if links else edge.permutation(n_items)
    embedded = everyone if embeddings else vector.permutation(n_items)
    ids = np.array([f"item-{number:04d}" for number in everyone])
    ends = ids[_bought_together(traits[linked], edge)]
    scored = rating.permutation(n_items)[:n_scored]
    y = np.full(n_items, np.nan)
    errors = RATING_NOISE * rating.standard_normal(n_scored)
    y[scored] = ratings[scored] + errors
    projection = vector.standard_normal((n_traits, EMBEDDING_SIZE)) / np.sqrt(n_traits)
    noise = EMBEDDING_NOISE * vector.standard_normal((n_items, EMBEDDING_SIZE))
    embedding = traits[embedded] @ projection + noise
    numbers = pa.array(embedding.ravel())
    categories = np.array(list(NOUNS))
    columns = {
        "description": _descriptions(traits[describing], category[describing], text),
        "category": categories[category],
        "price": np.round(np.exp(log_price), 2),
        "embedding": pa.FixedSizeListArray.from_arrays(numbers, EMBEDDING_SIZE),
    }
    edges = pa.table({"from": ends[:, 0], "to": ends[:, 1]})
    return ShopData(X=pa.table(columns), y=y, ids=ids, links=edges, ratings=ratings)


def _descriptions(
    traits: FloatArray, category: Index, rng: np.random.Generator
) -> NDArray[np.str_]:
    """A text per row, whose nouns follow from the category and whose adjectives, mostly, from the
    traits.
    """
    nouns = list(NOUNS.values())
    texts = []
    for levels, number in zip(traits, category, strict=True):
        shown = rng.integers(0, len(TRAITS), TRAIT_WORDS)
        chance_of_much = 1.0 / (1.0 + np.exp(-2.0 * levels[shown]))
        is_little = rng.random(TRAIT_WORDS) > chance_of_much
        poles = zip(shown, is_little.astype(int), strict=True)
        words = [rng.choice(TRAITS[trait][pole]) for trait, pole in poles]
        words += [rng.choice(nouns[number]), *rng.choice(FILLERS, FILLER_WORDS)]
        texts.append(" ".join(rng.permutation(words)))
    return np.array(texts)


def _bought_together(traits: FloatArray, rng: np.random.Generator) -> Index:
    """Pairs of different rows: each row with those of its candidates whose traits are nearest."""
    n_items = len(traits)
    n_candidates = min(CANDIDATES, n_items - 1)
    pairs = []
    for row in range(n_items):
        others = rng.choice(n_items - 1, n_candidates, replace=False)
        others += others >= row
        distances = ((traits[others] - traits[row]) ** 2).sum(axis=1)
        nearest = others[np.argsort(distances, kind="stable")[:LINKS_PER_ITEM]]
        pairs += [(row, other) for other in nearest]
    return np.array(pairs, dtype=np.int64)


def check_at_least(name: str, value: int, least: int) -> None:
    """Refuse a parameter that is too small."""
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}.")
