"""
Three sites that do not share their rows
========================================

Each site keeps its own scored rows and its own model; in every round it sends only its predictions
on a list of shared, unscored items. The rounds end with the same models as one fit with all rows in
one place. Here all sites are in one process; :doc:`/federated` shows how to run them over a
network.
"""

# %%
# Three sites with twenty scored rows each, and 300 items that all of them know.
import matplotlib.pyplot as plt
import numpy as np

from corank import RLS, CoRLS
from corank_federated import Coordinator, InProcess, Plan, SharedItems, Site

rng = np.random.default_rng(0)


def truth(X):
    return np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2


shared = rng.normal(size=(300, 2))
names = ("north", "south", "west")
rows = {
    name: rng.normal(size=(20, 2)) + shift
    for name, shift in zip(names, (-0.7, 0.0, 0.7), strict=True)
}
scores = {name: truth(X) + 0.2 * rng.standard_normal(len(X)) for name, X in rows.items()}
X_test = rng.normal(size=(2000, 2))


def error(values):
    return float(np.sqrt(np.mean((values - truth(X_test)) ** 2)))


# %%
# The more agreement, the more the sites learn from each other, at the cost of more rounds. Without
# agreement each learns alone.
alone = {name: error(RLS().fit(rows[name], scores[name]).predict(X_test)) for name in names}
weights, rounds, together = [0.001, 0.01, 0.1, 1.0], [], []
for weight in weights:
    items = SharedItems(shared)
    sites = [
        Site(name, CoRLS(alpha=0.1, basis="all"), rows[name], scores[name], items) for name in names
    ]
    report = Coordinator(
        Plan("demo", names, agreement=weight, max_rounds=500), InProcess(sites)
    ).run()
    rounds.append(report.n_rounds)
    together.append(np.mean([error(site.model.predict(X_test)) for site in sites]))
print("alone:", {name: round(value, 3) for name, value in alone.items()})

# %%
# Left: the mean error of the sites' models; the dashed line is that of sites that learn alone
# (alpha tuned by each). Right: the number of rounds until convergence to ten digits.
_, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
axes[0].plot(weights, together, marker="o", label="together")
axes[0].axhline(np.mean(list(alone.values())), color="#c05621", linestyle="--", label="each alone")
axes[0].set(ylabel="root mean squared error")
axes[0].legend(frameon=False)
axes[1].plot(weights, rounds, marker="o", color="#718096")
axes[1].set(ylabel="rounds")
for ax in axes:
    ax.set(xscale="log", xlabel="agreement")
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
