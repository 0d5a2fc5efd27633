"""
Natural views help, random halves seldom
========================================

The same twenty-four scores and a thousand unscored rows, with three ways to cut the columns into two views. `AutoRanker`
looks at the scores and says whether to use the unscored rows at all.
"""

# %%
# *Natural*: each view has structure of its own and shares the target with the other. *Random halves*: the same columns, dealt out
# at random, so that both views share everything. *Noise*: one view says nothing.
import matplotlib.pyplot as plt
import numpy as np

from corank import AutoRanker, View
from corank.datasets import make_two_views

data = make_two_views(n_scored=24, n_unscored=1000, queries=6, random_state=1)
rng = np.random.default_rng(0)
halves = np.array_split(rng.permutation(data.X.shape[1]), 2)
first, second = (np.arange(100)[columns] for columns in data.views)


def broken(X):
    noise = np.random.default_rng(len(X)).standard_normal((len(X), len(second)))
    return np.hstack([X[:, first], noise])


cases = {
    "natural views": ([first, second], data.X, data.X_test),
    "random halves": (halves, data.X, data.X_test),
    "one view is noise": ([first, second], broken(data.X), broken(data.X_test)),
}

# %%
# Three candidates are compared on left-out queries: one model on all columns, the mean of one model a view, and views
# that agree on the unscored rows. The plainest one wins unless another is better by more than a standard error.
table, chosen = {}, {}
for name, (columns, X, X_test) in cases.items():
    views = [View(part, kernel="linear") for part in columns]
    auto = AutoRanker(views, kernel="linear", basis="features").fit(X, data.y, qid=data.qid)
    table[name] = {found.name: found.error for found in auto.candidates_}
    chosen[name] = (auto.chosen_, 1 - auto.score(X_test, data.y_test, qid=data.qid_test))
    print(f"{name}\n{auto.reason_}\n")

# %%
# Bars are held-out errors as the model sees them with 24 scores; the diamond is the error of the chosen one on a thousand
# test rows. Agreement wins by far where the views are natural, and is not taken where it brings nothing.
_, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
colours = {"supervised": "#718096", "average": "#90cdf4", "agreement": "#2b6cb0"}
for shift, (kind, colour) in enumerate(colours.items()):
    heights = [errors[kind] for errors in table.values()]
    ax.bar(np.arange(3) + 0.25 * shift - 0.25, heights, width=0.23, color=colour, label=kind)
ax.plot(np.arange(3), [error for _, error in chosen.values()], "D", color="#c05621", label="chosen, on test rows")
ax.set_xticks(range(3), [f"{name}\ntook: {kind}" for name, (kind, _) in chosen.items()])
ax.set(ylabel="pairs in the wrong order")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
plt.show()
