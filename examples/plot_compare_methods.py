"""
Which method, on my data?
=========================

`compare` hides scores, fits every method on the others with the same number of settings to choose
from, and tests the differences. `corank compare items.csv` does the same in the shell and can write
a report to show to a colleague.
"""

# %%
# A nonlinear problem of fifty queries. In every repeat a fifth of them is used for testing, and a
# fifth of the others keep their scores.
import matplotlib.pyplot as plt

from corank.datasets import make_ranking
from corank.experiments import Items, Protocol, compare
from corank.report import plot_comparison, plot_learning_curve

data = make_ranking(n_queries=50, query_size=8, n_features=5, random_state=0)
items = Items(data.X, data.y, data.qid)
protocol = Protocol(repeats=4, scored_share=0.2, max_unscored=60)
found = compare(items, ["ridge", "forest", "rankrls", "kpcrank"], protocol)
print(found)

# %%
# Right of the line is better than the baseline, ridge regression. Green methods are better, orange
# ones are worse, and grey is "cannot tell". Ridge is linear and the problem is not: that explains
# the difference.
plot_comparison(found)
plt.show()

# %%
# Error against the number of scored rows, with 95 % bands.
plot_learning_curve(found)
plt.show()
