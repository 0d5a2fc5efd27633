"""
A shop: descriptions, prices, embeddings and links
==================================================

Six hundred items, 25 of them rated. Each has a description, a category, a price, an embedding, and
items that were bought together with it. Nobody says which of these matter: the default finds out,
even if one of them is noise.
"""

# %%
# The raw table. A column of lists is an embedding, a column of sentences is text.
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import spearmanr

from corank import AutoRegressor
from corank.datasets import make_shop
from corank.links import read_links

shop = make_shop(random_state=0)
print(shop)
print(
    shop.table.slice(0, 4)
    .to_pandas()[["id", "description", "category", "price", "rating"]]
    .to_string()
)

# %%
# Fit on all items, rated or not. The model reports what it is made of, and its encoder how it
# treats each column.
links = read_links(shop.links, len(shop.y), ids=shop.ids)
model = AutoRegressor().fit(shop.X, shop.y, links=links)
print(model.reason_)
for line in model.encoder_.summary():
    print(f"{line['column']}: {line['kind']}, {line['treatment']}")

# %%
# How much does each kind of column contribute, alone and together, and what if one of them is
# noise? The figure shows the rank correlation with the true ratings of the unrated items, as the
# mean over three shops.
kinds = {
    "category, price": ["category", "price"],
    "description": ["description"],
    "embedding": ["embedding"],
    "all columns": ["description", "category", "price", "embedding"],
}


def correlation(shop, columns, linked):
    """Rank correlation of predictions and true ratings of items without a rating."""
    links = read_links(shop.links, len(shop.y), ids=shop.ids) if linked else None
    table = shop.X.select(columns)
    predictions = AutoRegressor().fit(table, shop.y, links=links).predict(table, links=links)
    unrated = np.isnan(shop.y)
    return spearmanr(predictions[unrated], shop.ratings[unrated]).statistic


everything = kinds["all columns"]
seeds = range(3)
results = {
    name: np.mean(
        [correlation(make_shop(random_state=seed), columns, linked=False) for seed in seeds]
    )
    for name, columns in kinds.items()
}
settings = {
    "all and links": {},
    "… words are noise": {"words": False},
    "… embeddings are noise": {"embeddings": False},
}
settings["… links are noise"] = {"links": False}
for name, noise in settings.items():
    shops = [make_shop(random_state=seed, **noise) for seed in seeds]
    results[name] = np.mean([correlation(shop, everything, linked=True) for shop in shops])

_, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
places = np.arange(len(results))[::-1]
colours = ["#2b6cb0"] * (len(kinds) + 1) + ["#a0aec0"] * (len(settings) - 1)
ax.barh(places, list(results.values()), color=colours)
ax.set_yticks(places, list(results))
ax.set(xlabel="rank correlation with the true ratings", xlim=(0, 1))
ax.spines[["top", "right"]].set_visible(False)
plt.show()
