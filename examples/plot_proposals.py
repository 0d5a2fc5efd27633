"""
Text and links: proposals you will care about
=============================================

A realistic table: 736 Python Enhancement Proposals with titles, the words of their abstracts,
types, dates, counts, and 1,653 citations. Somebody who cares about type hints marks a few; which of
the others come first? No column says what a proposal is about. Its topic, which no model sees, is
used to judge the result.
"""

# %%
# One table with raw text, dates and categories, and one table of links: who cites whom, by number.
import matplotlib.pyplot as plt
import numpy as np

from corank import AutoRegressor, TableEncoder
from corank.datasets import load_peps
from corank.links import read_links
from corank.metrics import disagreement_error

data = load_peps()
print(data)
print(data.table.slice(300, 3).to_pandas().T)

# %%
# The encoder learns vocabulary and components from all rows, marked or not. It reports how it
# treats each column.
encoder = TableEncoder()
features = encoder.fit_transform(data.X)
for group in encoder.groups_:
    print(f"{group.name}: {group.kind}, {len(group.columns)} features")

links = read_links(data.links, len(data.ids), ids=data.ids)
truth = data.has_topic("Typing").astype(float)


def marked(size, seed):
    """Rows that a person marks, half of them of the topic."""
    rng = np.random.default_rng([seed, size])
    return np.concatenate(
        [rng.choice(np.flatnonzero(truth == value), size // 2, replace=False) for value in (1, 0)]
    )


def scores_of(rows):
    """NaN = no mark."""
    scores = np.full(len(truth), np.nan)
    scores[rows] = truth[rows]
    return scores


# %%
# Ten marks. The scores are NaN for unmarked proposals, and links are given as well. The table
# itself could be given in place of `features`. The first proposals of the ranking:
rows = marked(10, seed=0)
model = AutoRegressor(encoder=encoder).fit(features, scores_of(rows), links=links)
predictions = model.predict(features, links=links)
titles = data.X["title"].to_pylist()
for row in rows:
    print("yes" if truth[row] else "no ", titles[row])
print("\nof the others come first")
for row in [row for row in np.argsort(-predictions) if row not in rows][:10]:
    print(f"{predictions[row]:5.2f}  {titles[row]}")
print(f"\n{model.reason_}")

# %%
# Without links, with links, and with random links: the share of pairs in the wrong order. Each dot
# is one draw of marks. All proposals and their links were known when the model was fitted.
shuffled = data.links.set_column(
    1, "cites", [np.random.default_rng(0).permutation(data.links["cites"].to_numpy())]
)
ways = {
    "no links": None,
    "links": links,
    "links at random": read_links(shuffled, len(data.ids), ids=data.ids),
}
sizes = [10, 20, 40]
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for at, (name, given) in enumerate(ways.items()):
    errors = np.zeros((3, len(sizes)))
    for seed, column in np.ndindex(errors.shape):
        rows = marked(sizes[column], seed)
        fitted = AutoRegressor(encoder=encoder).fit(features, scores_of(rows), links=given)
        others = np.setdiff1d(np.arange(len(truth)), rows)
        errors[seed, column] = disagreement_error(
            truth[others], fitted.predict(features, links=given)[others]
        )
    places = np.arange(len(sizes)) + 0.08 * (at - 1)
    (line,) = ax.plot(places, errors.mean(axis=0), marker="s", label=name)
    ax.plot(places, errors.T, ".", color=line.get_color(), alpha=0.5)
ax.set_xticks(range(len(sizes)), [f"{size} marks" for size in sizes])
ax.set(ylabel="pairs in the wrong order", ylim=(0, None))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()

# %%
# New items. The model is fitted without the proposals since 2022, and ranks them later in a table
# of old and new ones, so that their links to old ones can be used. These are errors on items that
# were not known in the fit.
old = np.array([created.year < 2022 for created in data.X["created"].to_pylist()])
rng = np.random.default_rng(0)
rows = np.concatenate(
    [rng.choice(np.flatnonzero(old & (truth == value)), 10, replace=False) for value in (1, 0)]
)
before = AutoRegressor().fit(
    data.X.filter(old), scores_of(rows)[old], links=links.take(np.flatnonzero(old))
)
ways = {
    "with their links": before.predict(data.X, links=links),
    "by their own columns": before.predict(data.X),
}
print(f"{np.sum(~old)} new proposals, {truth[~old].sum():.0f} of them on type hints")
for name, predicted in ways.items():
    print(
        f"pairs in the wrong order, {name}: {disagreement_error(truth[~old], predicted[~old]):.3f}"
    )
