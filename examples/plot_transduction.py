"""
Items that are known in advance
===============================

When the items to be ranked are already known while the model is fitted, `TransductiveRankRLS`
completes their scores during the fit. Here thirty users rated eight jokes each; the ratings of
thirty more users are hidden, and their jokes are ranked.
"""

# %%
# A user is a query. NaN marks the users that are to be ranked.
import matplotlib.pyplot as plt
import numpy as np

from corank import RankRLS, TransductiveRankRLS
from corank.datasets import load_jokes
from corank.metrics import disagreement_error

data = load_jokes()
users = np.unique(data.qid)[:60]
rows = np.concatenate([np.flatnonzero(data.qid == user)[:8] for user in users])
X, qid, truth = data.X[rows], data.qid[rows], data.y[rows]
unscored = np.isin(qid, users[30:])
y = np.where(unscored, np.nan, truth)

completed = TransductiveRankRLS(pull=[0.1, 1.0, 10.0]).fit(X, y, qid=qid)
plain = RankRLS(weighting="query").fit(X[~unscored], y[~unscored], qid=qid[~unscored])
print(completed.summary())

# %%
# `transduction_` has one score per NaN row, in row order. The figure compares the errors user by
# user: most hardly change. Do not expect more than that; :doc:`/known-items` has the figures on
# three data sets.
scores = {"TransductiveRankRLS": completed.transduction_, "RankRLS": plain.predict(X[unscored])}
errors = {
    name: disagreement_error(truth[unscored], own, qid=qid[unscored], average=False)
    for name, own in scores.items()
}
for name, own in errors.items():
    print(f"{name:20} {np.nanmean(own):.3f} of the pairs in the wrong order")

_, ax = plt.subplots(figsize=(4.6, 4.4), layout="constrained")
ax.plot(errors["RankRLS"], errors["TransductiveRankRLS"], "o", alpha=0.6, color="#2b6cb0")
ax.plot([0, 1], [0, 1], color="0.6", linestyle=":")
ax.set(xlabel="error of RankRLS per user", ylabel="error of TransductiveRankRLS", aspect="equal")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
