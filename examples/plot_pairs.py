"""
Who likes what: pairs of people and items
=========================================

A row may be a pair: a person and an item. A product of a kernel of people and a kernel of items
learns what kind of person likes what kind of item, and so orders new items for new people.
"""

# %%
# Sixty people with three columns about each, forty items with two. Everyone prefers some items by
# a shared taste, and others by what they are like themselves.
import matplotlib.pyplot as plt
import numpy as np

from corank import ProductKernel, RankRLS, SumKernel, View

rng = np.random.default_rng(0)
people, items = rng.normal(size=(60, 3)), rng.normal(size=(40, 2))
person, item = np.repeat(np.arange(60), 40), np.tile(np.arange(40), 60)
X = np.hstack([people[person], items[item]])
taste = np.sin(2 * X[:, 3]) + X[:, 0] * X[:, 4] - X[:, 1] * X[:, 3]
y = taste + 0.3 * rng.normal(size=len(taste))

# %%
# Thirty people tell their order of twenty items: a complete grid of 600 pairs, which is learned from
# by the eigenvectors of two small kernels. A million pairs would take seconds. The other kernel sees
# the item only, so that it can but learn one order for all.
about_people, about_items = View([0, 1, 2]), View([3, 4])
kernels = {
    "one order for all": SumKernel([about_items]),
    "an order for each": ProductKernel([about_people, about_items]),
}
known = (person < 30) & (item < 20)
groups = {
    "new people": (person >= 30) & (item < 20),
    "new items": (person < 30) & (item >= 20),
    "both new": (person >= 30) & (item >= 20),
}
errors = {}
for name, kernel in kernels.items():
    model = RankRLS(kernel=kernel).fit(X[known], y[known], qid=person[known])
    errors[name] = [
        1 - model.score(X[rows], taste[rows], qid=person[rows]) for rows in groups.values()
    ]

# %%
# Columns about people and items suffice to order items that nobody has seen for people who have said
# nothing.
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
places = np.arange(len(groups))
for number, (name, shares) in enumerate(errors.items()):
    ax.bar(places + 0.35 * number, shares, width=0.32, label=name)
ax.set_xticks(places + 0.175, groups)
ax.set_ylabel("misordered pairs")
ax.legend()
plt.show()
