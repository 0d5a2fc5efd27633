"""
Who won, or by how much?
========================

Match results say more than who won. `DifferenceGP` learns from margins, `PreferenceGP` from wins
alone, both from the same eighty matches.
"""

# %%
# Forty teams, each described by one number, and a strength that depends on it.
import matplotlib.pyplot as plt
import numpy as np

from corank import DifferenceGP, PreferenceGP
from corank.report import plot_posterior

rng = np.random.default_rng(4)
X = np.sort(rng.uniform(-3, 3, 40))[:, None]
strength = np.sinc(X[:, 0]) * 4
a, b = rng.integers(0, 40, (2, 80))
a, b = a[a != b], b[a != b]
goals = strength[a] - strength[b] + 0.7 * rng.standard_normal(len(a))
winners, losers, margins = np.where(goals >= 0, a, b), np.where(goals >= 0, b, a), np.abs(goals)

wins = PreferenceGP().fit_comparisons(X, winners, losers)
by_how_much = DifferenceGP().fit_comparisons(X, winners, losers, margins=margins)
print(by_how_much.summary())

# %%
# With margins the band is narrower and the curve is on the scale of goals; from wins alone the
# function has a scale of its own (the noise of an answer is 1), so the truth is scaled to it.
_, axes = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
for ax, model, title in zip(axes, (wins, by_how_much), ("who won", "by how much"), strict=True):
    plot_posterior(model, ax=ax)
    truth, learned = strength - strength.mean(), model.predict(X)
    scale = (
        1.0
        if model is by_how_much
        else np.dot(truth, learned - learned.mean()) / np.dot(truth, truth)
    )
    ax.plot(X[:, 0], scale * truth, color="#c05621", linestyle="--", label="truth")
    ax.set_title(title)
    ax.legend(frameon=False)
plt.show()

# %%
# Both give probabilities for matches that were not played. The diagonal of the table is left out.
top = np.argsort(-strength)[:5]
table = np.array([by_how_much.predict_comparison(X[top], X[[other] * 5]) for other in top]).T
_, ax = plt.subplots(figsize=(5, 4), layout="constrained")
shown = np.ma.masked_where(np.eye(5, dtype=bool), table)
image = ax.imshow(shown, vmin=0, vmax=1, cmap="RdBu")
for i, j in zip(*np.nonzero(~np.eye(5, dtype=bool)), strict=True):
    ax.text(j, i, f"{table[i, j]:.2f}", ha="center", va="center")
ax.set_xticks(range(5), [f"team {t}" for t in top], rotation=30)
ax.set_yticks(range(5), [f"team {t}" for t in top])
ax.set_title("P(row is stronger than column)")
plt.show()
