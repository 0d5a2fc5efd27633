"""
Compared with LightGBM: few scores, then more
=============================================

Gradient-boosted trees are the usual choice for ranking with many judged queries. This example
compares them with a kernel ranker on 2 to 32 judged queries. (If LightGBM is not installed, only
corank's line is drawn.)
"""

# %%
# Users of the built-in jokes, thirty ratings each, thirty columns. LightGBM needs whole numbers
# from 0 as relevance and group *sizes*; corank takes the scores as they are and one label per row.
import matplotlib.pyplot as plt
import numpy as np

from corank import RankRLS
from corank.datasets import load_jokes
from corank.metrics import disagreement_error

try:
    import lightgbm
except ImportError:
    lightgbm = None

data = load_jokes()
users = np.unique(data.qid)
rows = {user: np.flatnonzero(data.qid == user)[:30] for user in users}
test = np.concatenate([rows[user] for user in users[200:260]])
X = data.X[:, :30]


def corank_scores(train):
    return RankRLS().fit(X[train], data.y[train], qid=data.qid[train]).predict(X[test])


def lightgbm_scores(train):
    order = np.argsort(data.qid[train], kind="stable")
    train = train[order]
    sizes = np.unique(data.qid[train], return_counts=True)[1]
    relevance = np.digitize(data.y[train], [-6, -2, 2, 6])
    model = lightgbm.LGBMRanker(
        n_estimators=50, min_child_samples=5, num_leaves=15, n_jobs=1, verbose=-1
    )
    return model.fit(X[train], relevance, group=sizes).predict(X[test])


# %%
# RankRLS uses its defaults, LightGBM fewer and smaller trees than its defaults. For a fair
# comparison use `corank compare`, which tunes both alike (:doc:`/compare`).
methods = {"RankRLS": corank_scores} | (
    {} if lightgbm is None else {"LightGBM lambdarank": lightgbm_scores}
)
sizes, errors = [2, 4, 8, 16, 32], {}
for name, method in methods.items():
    errors[name] = []
    for size in sizes:
        own = []
        for draw in range(3):
            drawn = np.random.default_rng(draw).choice(users[:200], size, replace=False)
            train = np.concatenate([rows[user] for user in drawn])
            own.append(disagreement_error(data.y[test], method(train), qid=data.qid[test]))
        errors[name].append(own)

# %%
# Mean of three draws of the training users, with their range.
_, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
for (name, own), colour in zip(errors.items(), ("#2b6cb0", "#c05621"), strict=False):
    own = np.array(own)
    ax.fill_between(sizes, own.min(axis=1), own.max(axis=1), color=colour, alpha=0.15, linewidth=0)
    ax.plot(sizes, own.mean(axis=1), marker="o", color=colour, label=name)
ax.set_xscale("log", base=2)
ax.set_xticks(sizes, sizes)
ax.set(xlabel="users with ratings", ylabel="pairs in the wrong order, 60 other users")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
