"""
Natural views help, random halves seldom
========================================

The same twenty-four scores and a thousand unscored rows, with three ways to cut the columns into two views. `AutoRanker`
looks at the scores and says whether to use the unscored rows at all.
"""

# %%
# Natural: each view has structure of its own and shares the target with the other. Shuffled: the same columns, dealt out
# at random, so that both views share everything. Broken: one view is noise.
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
# test rows.
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for at, (name, errors) in enumerate(table.items()):
    for shift, (kind, colour) in enumerate(
        {"supervised": "#718096", "average": "#90cdf4", "agreement": "#2b6cb0"}.items()
    ):
        ax.bar(at + 0.25 * shift - 0.25, errors[kind], width=0.23, color=colour, label=kind if at == 0 else None)
    ax.plot(at, chosen[name][1], "D", color="#c05621", label="chosen, on test rows" if at == 0 else None)
    ax.annotate(f"took: {chosen[name][0]}", (at, 0), (0, 6), textcoords="offset points", ha="center", color="white")
ax.set_xticks(range(len(table)), table)
ax.set(ylabel="pairs in the wrong order")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
