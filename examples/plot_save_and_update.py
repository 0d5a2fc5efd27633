"""
Save, load, and add scores as they come
=======================================

A model is one file of numbers: loading it executes nothing. `update` adds newly scored rows to a
fitted model without reading the old ones again.
"""

# %%
# Scores arrive for five queries at a time; each batch is added to the model of the day before.
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np

from corank import RankRLS, load
from corank.datasets import make_ranking

data = make_ranking(n_queries=90, query_size=10, random_state=0)
test = data.qid >= 60
folder = TemporaryDirectory()
path = Path(folder.name) / "model.corank"

first = data.qid < 5
RankRLS().fit(data.X[first], data.y[first], qid=data.qid[first]).save(path)
queries, scores = [5], [load(path).score(data.X[test], data.y[test], qid=data.qid[test])]
for day in range(1, 12):
    batch = (data.qid >= 5 * day) & (data.qid < 5 * day + 5)
    model = load(path).update(data.X[batch], data.y[batch], qid=data.qid[batch])
    model.save(path, overwrite=True)
    queries.append(5 * day + 5)
    scores.append(model.score(data.X[test], data.y[test], qid=data.qid[test]))
print(model.summary())

# %%
# An update keeps the kernel and `alpha`, which were chosen on the first five queries; the new rows
# join those that span the function. The dashed line is a fit on all sixty queries at once, which
# chooses them again: do that from time to time. (A model with `basis=500` keeps its 500 rows, and
# an update only adds to its sums, however many rows it has seen.)
train = data.qid < 60
refitted = RankRLS().fit(data.X[train], data.y[train], qid=data.qid[train])
_, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
ax.plot(queries, scores, marker="o", label="updated day by day")
refitted_score = refitted.score(data.X[test], data.y[test], qid=data.qid[test])
ax.axhline(refitted_score, color="#c05621", linestyle="--", label="refitted on all queries")
ax.set(xlabel="queries seen", ylabel="pairs in the right order")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()

# %%
# The file contains arrays and JSON, nothing that could be executed.
print(f"{path.stat().st_size:,} bytes")
print(np.allclose(load(path).predict(data.X[test]), model.predict(data.X[test])))
folder.cleanup()
