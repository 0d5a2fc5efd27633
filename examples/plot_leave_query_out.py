"""
How alpha is chosen: leaving out one query at a time
====================================================

`alpha="tune"`, the default, compares twenty weights of the norm. For each of them every query is
predicted by a model that has not seen it. All of that is computed in closed form from one
factorisation, at little more than the cost of a single fit.
"""

# %%
# Forty users of the built-in jokes, twelve ratings each.
import matplotlib.pyplot as plt
import numpy as np

from corank import RankRLS
from corank.datasets import load_jokes

data = load_jokes()
users = np.unique(data.qid)[:40]
rows = np.concatenate([np.flatnonzero(data.qid == user)[:12] for user in users])
X, y, qid = data.X[rows], data.y[rows], data.qid[rows]
model = RankRLS().fit(X, y, qid=qid)
print(model.summary())

# %%
# The band is one standard error over users, the dotted line the error of a constant: a model above
# it has learned nothing. Here there is only a little to learn: what one user likes says something,
# but not much, about others.
model.path_.plot()
plt.show()

# %%
# The closed form is not an approximation. Refitting without one user gives the same held-out
# differences.
alpha, user = model.alpha_, users[7]
left = qid == user
refitted = RankRLS(alpha=alpha, gamma=model.gamma_).fit(X[~left], y[~left], qid=qid[~left])
residual = y[left] - refitted.predict(X[left])
by_hand = np.sum((residual - residual.mean()) ** 2)

folds = [(np.flatnonzero(qid != u), np.flatnonzero(qid == u)) for u in users]
same = RankRLS(alpha=[alpha], gamma=model.gamma_, cv=folds).fit(X, y, qid=qid)
print(f"one user left out by hand: squared error {by_hand:.4f}")
print(f"all users, closed form:    {model.path_.error[model.path_.best]:.6f} a rating")
print(f"all users, cv=folds:       {same.path_.error[0]:.6f} a rating")
