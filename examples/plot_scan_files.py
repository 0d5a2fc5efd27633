"""
Files larger than memory
========================

`scan` passes files to a learner chunk by chunk. A model needs only sums of products of its basis
functions, whose size depends on the basis, so memory does not grow with the number of rows. The
files here are small, so that this page builds quickly; the calls are the same for a thousand times
as many rows.
"""

# %%
# Four Parquet files, 50,000 rows in queries of 20, a third of them scored.
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from corank import RankRLS, scan

folder = TemporaryDirectory()
rng = np.random.default_rng(0)
for number in range(4):
    n = 12_500
    columns = {f"x{k}": rng.normal(size=n).astype("float32") for k in range(6)}
    rating = np.sin(columns["x0"]) + columns["x1"] * columns["x2"] + 0.1 * rng.normal(size=n)
    rating[rng.random(n) < 2 / 3] = np.nan
    table = {
        **columns,
        "rating": pa.array(rating, from_pandas=True),
        "user": np.arange(n) // 20 + number * n,
    }
    parquet.write_table(
        pa.table(table), Path(folder.name) / f"part-{number}.parquet", row_group_size=5_000
    )

# %%
# `features` takes names or patterns; an empty score is an unscored row. Nothing is read yet.
rows = scan(f"{folder.name}/*.parquet", features="x*", score="rating", query="user")
print(rows)

# %%
# A basis of 200 rows, 20 alphas compared on ten folds of queries: one survey of the files and one
# pass over them. The predictions are written directly to a file.
model = RankRLS(basis=200).fit(rows)
print(model.summary())
written = model.predict_to(
    rows, Path(folder.name) / "predictions.parquet", columns=["user", "rating"]
)
print(
    f"{written:,} predictions written; share of pairs in the right order: {model.score(rows):.3f}"
)

# %%
# The size of the basis is the main setting: with more basis rows the model follows the data more
# closely, at a cost in proportion to their square. The model learns from three files and is tested
# on the fourth.
train = scan(
    [f"{folder.name}/part-{n}.parquet" for n in range(3)],
    features="x*",
    score="rating",
    query="user",
)
test = scan(f"{folder.name}/part-3.parquet", features="x*", score="rating", query="user")
sizes = [10, 25, 50, 100, 200, 400]
errors = [1 - RankRLS(basis=size).fit(train).score(test) for size in sizes]

_, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.plot(sizes, errors, marker="o")
ax.set_xscale("log")
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.set(xlabel="basis rows", ylabel="pairs of the fourth file in the wrong order", ylim=(0, None))
ax.spines[["top", "right"]].set_visible(False)
folder.cleanup()
plt.show()
