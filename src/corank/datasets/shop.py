"""A made-up shop: items with descriptions, categories, prices, embeddings and links, few of them
rated.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corank.core.arrays import FloatArray, Index
from corank.datasets.synthetic import Seed, check_at_least

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
FILLERS = (
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
)
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
    level += 0.4 * of_category[category] - 0.5 * (log_price - 3.0)
    ratings = MEAN_RATING + (level - level.mean()) / level.std()

    everyone = np.arange(n_items)
    describing = everyone if words else text.permutation(n_items)
    linked = everyone if links else edge.permutation(n_items)
    embedded = everyone if embeddings else vector.permutation(n_items)
    ids = np.array([f"item-{number:04d}" for number in everyone])
    ends = ids[_bought_together(traits[linked], edge)]
    scored = rating.permutation(n_items)[:n_scored]
    y = np.full(n_items, np.nan)
    y[scored] = ratings[scored] + RATING_NOISE * rating.standard_normal(n_scored)
    projection = vector.standard_normal((n_traits, EMBEDDING_SIZE)) / np.sqrt(n_traits)
    noise = EMBEDDING_NOISE * vector.standard_normal((n_items, EMBEDDING_SIZE))
    embedding = traits[embedded] @ projection + noise
    columns = {
        "description": _descriptions(traits[describing], category[describing], text),
        "category": np.array(list(NOUNS))[category],
        "price": np.round(np.exp(log_price), 2),
        "embedding": pa.FixedSizeListArray.from_arrays(pa.array(embedding.ravel()), EMBEDDING_SIZE),
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
        little = rng.random(TRAIT_WORDS) > 1.0 / (1.0 + np.exp(-2.0 * levels[shown]))
        adjectives = [
            rng.choice(TRAITS[trait][pole])
            for trait, pole in zip(shown, little.astype(int), strict=True)
        ]
        others = [rng.choice(nouns[number]), *rng.choice(FILLERS, FILLER_WORDS)]
        texts.append(" ".join(rng.permutation([*adjectives, *others])))
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
