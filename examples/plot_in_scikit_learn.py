"""
Inside scikit-learn: tables, pipelines, searches
================================================

Learners are scikit-learn estimators. `TableEncoder` encodes a table with text, dates and missing
values; `groups=` passes the queries through pipelines, searches and cross-validation.
"""

# %%
# A raw table: categories, numbers on different scales, missing values. Only the order within a shop
# counts.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline

from corank import RankRLS, TableEncoder

rng = np.random.default_rng(0)
n = 400
table = pd.DataFrame(
    {
        "price": np.exp(rng.normal(3, 1, n)).round(2),
        "colour": rng.choice(["red", "green", "blue"], n),
        "weight_g": rng.normal(500, 100, n).round(),
        "sold_since": pd.Timestamp("2024-01-01")
        + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
    }
)
table.loc[rng.random(n) < 0.1, "weight_g"] = np.nan
shop = rng.integers(0, 40, n)
liking = (
    -np.log(table["price"]) + (table["colour"] == "red") + 0.3 * rng.standard_normal(n) + 0.2 * shop
)
table.head()

# %%
# How each column is encoded:
encoder = TableEncoder().fit(table)
pd.DataFrame(encoder.summary())

# %%
# Turn metadata routing on: without it scikit-learn passes `groups` only to the splitter, and all
# shops would be ranked as one. With it, one `groups=` reaches the splitter, `fit` and `score`.
sklearn.set_config(enable_metadata_routing=True)
pipeline = make_pipeline(TableEncoder(), RankRLS())
scores = cross_val_score(pipeline, table, liking, cv=GroupKFold(5), params={"groups": shop})
print(
    f"pairs in the right order, five folds of shops: {scores.mean():.3f} ± {scores.std(ddof=1) / 5**0.5:.3f}"
)

# %%
# A search over the kernel and the weighting; `alpha` and `gamma` are tuned inside every fit.
grid = {"rankrls__kernel": ["linear", "rbf"], "rankrls__weighting": ["size", "query"]}
search = GridSearchCV(make_pipeline(TableEncoder(), RankRLS(gamma="tune")), grid, cv=GroupKFold(5))
search.fit(table, liking, groups=shop)
found = pd.DataFrame(search.cv_results_)

_, ax = plt.subplots(figsize=(6.5, 2.8), layout="constrained")
names = found["param_rankrls__kernel"] + ", weighting " + found["param_rankrls__weighting"]
ax.errorbar(
    found["mean_test_score"],
    names,
    xerr=found["std_test_score"] / 5**0.5,
    fmt="o",
    color="#2b6cb0",
    capsize=3,
)
ax.set(xlabel="pairs in the right order (mean of five folds, ± one standard error)")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The fitted pipeline; open the box to see what was chosen.
sklearn.set_config(enable_metadata_routing=False)
search.best_estimator_

# %%
# A summary of the ranker at its end.
search.best_estimator_[-1].summary()
