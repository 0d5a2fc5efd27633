"""
Ten jokes that rank a hundred
=============================

A ranker that a person can read: ten jokes with weights, picked one by one out of a hundred, that
say how well any joke will be liked. Jokes are described by the ratings that 100 reference users
gave them; the ranker learns from 60 users who rated some of them and is judged on 200 others.
"""

# %%
# Every user is a query: only the order of the jokes within a user counts. The dictionary has one
# kernel per joke.
import matplotlib.pyplot as plt
import numpy as np

from corank import CoRankingPursuit, RankingPursuit, RankRLS, View
from corank.datasets import load_jokes
from corank.metrics import disagreement_error

data = load_jokes()
users = np.unique(data.qid)
train = np.isin(data.qid, users[:60]) & (np.random.default_rng(0).random(len(data.qid)) < 0.3)
test = np.isin(data.qid, users[200:])
jokes = np.zeros((100, data.X.shape[1]))
jokes[data.item - 1] = data.X

model = RankingPursuit(n_atoms=10, dictionary=jokes, gamma="tune").fit(
    data.X[train], data.y[train], qid=data.qid[train]
)
model.name_atoms([f"joke {atom + 1}" for atom in model.atoms_])
print(model.explain())

# %%
# Error against atoms: `predict_path` gives the predictions for every number of atoms at once. Here
# the first few jokes explain most of what can be learned about other people's taste. For
# comparison, `RankRLS` keeps all rows.
path = model.predict_path(jokes)[data.item[test] - 1]
errors = [disagreement_error(data.y[test], column, qid=data.qid[test]) for column in path.T]
whole = RankRLS(gamma=model.gamma_).fit(data.X[train], data.y[train], qid=data.qid[train])
whole_error = disagreement_error(
    data.y[test], whole.predict(jokes)[data.item[test] - 1], qid=data.qid[test]
)

# %%
# Two views, each with half of the reference users, that must agree on all 100 jokes: each view
# keeps a solution of its own, and the prediction is their mean.
halves = np.array_split(np.random.default_rng(1).permutation(data.X.shape[1]), 2)
rows = np.array(
    [np.flatnonzero(train & (data.item == joke))[0] for joke in np.unique(data.item[train])]
)
first = np.searchsorted(np.flatnonzero(train), rows)  # one row per joke among the training rows
views = [
    View(np.sort(half), name=f"users {name}", basis=first)
    for half, name in zip(halves, "AB", strict=True)
]
paired = CoRankingPursuit(views, n_atoms=10, agreement=0.01).fit(
    data.X[train], data.y[train], qid=data.qid[train], unscored=jokes
)
numbers = data.item[train]
scores = paired.predict(jokes)[data.item[test] - 1]
paired_error = disagreement_error(data.y[test], scores, qid=data.qid[test])
print(
    f"disagreement: ten atoms {errors[-1]:.3f}, two views {paired_error:.3f}, RankRLS on all rows {whole_error:.3f}"
)

# %%
# Weights of the ten jokes and how much each reduced the loss; error against atoms; the two
# solutions side by side.
figure, axes = plt.subplots(
    1, 3, figsize=(13, 4.2), layout="constrained", width_ratios=(1.1, 1, 1.3)
)
model.explain().plot(axes[0])
axes[0].set_title("Ten jokes and their weights")
axes[1].plot(np.arange(1, len(errors) + 1), errors, marker="o", color="#2b6cb0")
axes[1].axhline(0.5, color="0.6", linestyle=":", label="chance")
axes[1].axhline(
    whole_error, color="#c05621", linestyle="--", label=f"RankRLS, all {len(whole.coef_):,} rows"
)
axes[1].set(xlabel="atoms", ylabel="disagreement on 200 other users", title="Error against atoms")
axes[1].legend(frameon=False)
for solution, colour, shift in zip(
    paired.solutions_, ("#2b6cb0", "#c05621"), (-0.5, 0.5), strict=True
):
    names = numbers[solution.atoms]
    axes[2].bar(names + shift, solution.coefficients, width=1.0, color=colour, label=solution.name)
axes[2].axhline(0, color="0.4", linewidth=0.8)
axes[2].set(xlabel="joke", ylabel="weight", title="The solutions of two views")
axes[2].legend(frameon=False)
for ax in axes[1:]:
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
