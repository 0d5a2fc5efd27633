"""
Natural views help, random halves seldom
========================================

The same twenty-four scores and a thousand unscored rows, with three ways to divide the columns into
two views. `AutoRanker` trusts declared views, unless the scores speak against them.
"""

# %%
# *Natural*: each view has structure of its own and shares the target with the other. *Random
# halves*: the same columns, divided at random, so that both views share everything. *Noise*: one
# view is pure noise.
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
# Agreement between declared views has at least half of the weight, unless it is worse by more than
# one standard error. For comparison, the same average without unscored rows.
errors, shares = {}, {}
scored = ~np.isnan(data.y)
for name, (columns, X, X_test) in cases.items():
    views = [View(part, kernel="linear") for part in columns]
    auto = AutoRanker(views).fit(X, data.y, qid=data.qid)
    alone = AutoRanker(views).fit(X[scored], data.y[scored], qid=data.qid[scored])
    errors[name] = [
        1 - model.score(X_test, data.y_test, qid=data.qid_test) for model in (alone, auto)
    ]
    shares[name] = sum(
        line.weight for line in auto.candidates_ if line.candidate.views == "agreement"
    )
    print(f"{name}\n{auto.reason_}\n")

# %%
# Bars are errors on a thousand test rows. Agreement is far better where the views are natural.
_, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
for shift, (kind, colour) in enumerate(
    {"scored rows alone": "#718096", "with unscored rows": "#2b6cb0"}.items()
):
    heights = [pair[shift] for pair in errors.values()]
    ax.bar(np.arange(3) + 0.35 * shift - 0.175, heights, width=0.33, color=colour, label=kind)
ax.set_xticks(
    range(3), [f"{name}\nweight of agreement: {share:.0%}" for name, share in shares.items()]
)
ax.set(ylabel="pairs in the wrong order")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
plt.show()
