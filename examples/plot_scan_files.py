"""
Files larger than memory
========================

`scan` hands files to a learner chunk by chunk. What a model needs of the rows, sums of products of its basis functions,
has the size of the basis, so memory does not grow with the rows. The files here are small, so that this page builds
quickly; the calls are those for a thousand times as many rows.
"""

# %%
# Four Parquet files, 50,000 rows in queries of 20, a third of them scored.
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

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
    table = {**columns, "rating": pa.array(rating, from_pandas=True), "user": np.arange(n) // 20 + number * n}
    parquet.write_table(pa.table(table), Path(folder.name) / f"part-{number}.parquet", row_group_size=5_000)

# %%
# `features` takes names or patterns; an empty score is an unscored row. Nothing is read yet.
rows = scan(f"{folder.name}/*.parquet", features="x*", score="rating", query="user", chunk_rows=5_000)
print(rows)

# %%
# A basis of 200 rows, 20 alphas compared on ten folds of queries: a first look at the files and one pass over them. The
# predictions go straight to a file.
model = RankRLS(basis=200).fit(rows)
print(model.summary())
written = model.predict_to(rows, Path(folder.name) / "predictions.parquet", columns=["user", "rating"])
print(f"{written:,} predictions written; share of pairs in the right order: {model.score(rows):.3f}")

# %%
# Time grows with the number of files, in proportion; the model does not grow at all.
seconds, sizes = [], []
for count in (1, 2, 3, 4):
    paths = [f"{folder.name}/part-{number}.parquet" for number in range(count)]
    some = scan(paths, features="x*", score="rating", query="user", chunk_rows=5_000)
    start = perf_counter()
    fitted = RankRLS(alpha=1.0, basis=200).fit(some)
    seconds.append(perf_counter() - start)
    sizes.append(len(fitted.coef_))

_, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.plot([12_500 * count for count in (1, 2, 3, 4)], seconds, marker="o")
ax.set(xlabel="rows in files", ylabel="seconds, on the machine that built this page", ylim=(0, None), xlim=(0, None))
ax.spines[["top", "right"]].set_visible(False)
folder.cleanup()
plt.show()
