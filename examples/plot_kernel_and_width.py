"""
Choosing a kernel and its width
===============================

A kernel says which items are alike. Three questions decide most cases: are the columns on one
scale, is their effect linear, and how similar must items be to inform each other (the width)?
Held-out queries answer them.
"""

# %%
# A nonlinear problem with eight columns. One column is multiplied by a hundred, as if it were
# measured in other units.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from corank import RankRLS
from corank.datasets import make_ranking
from corank.metrics import disagreement_error
from corank.report import plot_path

data = make_ranking(n_queries=50, query_size=10, n_features=8, random_state=0)
raw = data.X * np.where(np.arange(8) == 0, 100.0, 1.0)
train, test = data.qid < 25, data.qid >= 25
scaled = StandardScaler().fit(raw[train]).transform(raw)

# %%
# **Scale first**: use `StandardScaler` for numbers and `TableEncoder` for whole tables; the command
# line scales for you. **Kernel**: "linear" for many columns such as counts, words or one-hot
# categories; "rbf", the default, for up to some hundred continuous columns; "poly" where products
# of columns matter. **Width**: `gamma="scale"` is a guess from the data, `gamma="tune"` tries seven
# widths around it. `RankRLS` tunes by default up to 1,000 scored rows.
candidates = {
    "rbf, columns not scaled": (RankRLS(), raw),
    "linear": (RankRLS(kernel="linear"), scaled),
    "poly, degree 2": (RankRLS(kernel="poly", degree=2), scaled),
    'rbf, gamma="scale"': (RankRLS(gamma="scale"), scaled),
    'rbf, gamma="tune"': (RankRLS(gamma="tune"), scaled),
}
held_out, tested = {}, {}
for name, (model, X) in candidates.items():
    model.set_params(scoring="disagreement").fit(X[train], data.y[train], qid=data.qid[train])
    held_out[name] = model.path_.error[model.path_.best]
    tested[name] = disagreement_error(data.y[test], model.predict(X[test]), qid=data.qid[test])

# %%
# The error on held-out queries (dots) is close to that on test queries (bars): choose by the dots,
# and no test row is needed.
_, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
at = np.arange(len(tested))
ax.barh(at, list(tested.values()), color="#90cdf4", label="test queries")
ax.plot(list(held_out.values()), at, "o", color="#2b6cb0", label="held-out queries")
ax.set_yticks(at, tested)
ax.invert_yaxis()
ax.set(xlabel="pairs in the wrong order")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()

# %%
# All widths that were tried, one line each over `alpha`; the bold line is the chosen width. Here
# the guess and all wider kernels do about equally well, and narrow kernels (the highest lines) do
# worse. If the first or last width tried is clearly the best, give your own list: `gamma=[0.001,
# 0.003, 0.01]`.
guess = candidates['rbf, gamma="scale"'][0].gamma_
print(f"gamma: {guess:.3g} by the data's scale, {model.gamma_:.3g} chosen")
plot_path(model)
plt.show()
