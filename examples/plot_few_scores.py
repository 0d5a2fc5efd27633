"""
Few scores, many unscored items
===============================

Thirty items have a score, a thousand have none. Each item is described by two views, such as text
and image, which share little more than what makes an item good. `CoRankRLS` learns one function per
view and makes them agree on the unscored items.
"""

# %%
# Scored rows come in five queries, test rows in five others. NaN in `y` is an unscored row.
import matplotlib.pyplot as plt
import numpy as np

from corank import CoRankRLS, RankRLS, View
from corank.datasets import make_two_views
from corank.report import plot_views

data = make_two_views(n_scored=30, n_unscored=1000, n_private=30, queries=5, random_state=0)
views = [
    View(columns, kernel="linear", name=name)
    for columns, name in zip(data.views, ("text", "image"), strict=True)
]
print(data)

# %%
# The more unscored rows, the fewer pairs are in the wrong order. Without unscored rows the two
# views are only averaged; `RankRLS` sees all columns at once and cannot use unscored rows at all.
scored = np.flatnonzero(~np.isnan(data.y))
unscored = np.flatnonzero(np.isnan(data.y))
sizes = [0, 30, 100, 300, 1000]
errors = []
for size in sizes:
    rows = np.concatenate([scored, unscored[:size]])
    agreement = "tune" if size else 0.0
    model = CoRankRLS(views, agreement=agreement, basis="features").fit(
        data.X[rows], data.y[rows], qid=data.qid[rows]
    )
    errors.append(1 - model.score(data.X_test, data.y_test, qid=data.qid_test))

plain = RankRLS(kernel="linear", basis="features").fit(
    data.X[scored], data.y[scored], qid=data.qid[scored]
)
plain_error = 1 - plain.score(data.X_test, data.y_test, qid=data.qid_test)

_, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
ax.plot(sizes, errors, marker="o", label="CoRankRLS, two views")
ax.axhline(plain_error, color="#c05621", linestyle="--", label="RankRLS, scored rows only")
ax.set_xscale("symlog", linthresh=30)
ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
ax.set(xlabel="unscored rows", ylabel="pairs in the wrong order", ylim=(0, None))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()

# %%
# Did the unscored rows help? The model answers that from its 30 scores, on held-out queries,
# without the test rows that are available here.
print(model.unscored_effect_)

# %%
# The two views now give nearly the same predictions for test items, although they have no column in
# common.
plot_views(model, data.X_test)
plt.show()
