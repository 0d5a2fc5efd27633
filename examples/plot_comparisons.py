"""
Learning from comparisons, with uncertainty
===========================================

Many people find it easier to compare than to score. From answers "a is better than b", some of them
wrong, `PreferenceGP` learns how good items are and how sure that is.
"""

# %%
# Sixty items with one column, and 150 comparisons of two items. The better item wins more often the
# better it is.
import matplotlib.pyplot as plt
import numpy as np

from corank import PreferenceGP
from corank.report import plot_posterior, plot_reliability

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 10, 60))[:, None]
quality = 2 * np.sin(X[:, 0]) + 0.3 * X[:, 0]


def ask(a, b):
    """Whether a wins, with noise."""
    return quality[a] - quality[b] + rng.standard_normal(len(a)) > 0


a, b = rng.integers(0, 60, (2, 150))
a, b = a[a != b], b[a != b]
a_wins = ask(a, b)
model = PreferenceGP().fit_comparisons(X, np.where(a_wins, a, b), np.where(a_wins, b, a))
print(model.summary())

# %%
# The learned function with a band of two standard deviations. Comparisons say nothing about the
# level, so the mean is subtracted from both curves. The ticks at the bottom are items.
ax = plot_posterior(model, label="learned")
ax.plot(X[:, 0], quality - quality.mean(), color="#c05621", linestyle="--", label="truth")
ax.legend(frameon=False)
plt.show()

# %%
# Who wins, and with what probability? `observed=True` gives the probability of the next answer,
# which is noisy.
print(f"item at 2 is better than item at 3: {model.predict_comparison([[2.0]], [[3.0]])[0]:.2f}")
print(
    f"the next answer says so:           {model.predict_comparison([[2.0]], [[3.0]], observed=True)[0]:.2f}"
)

# %%
# Probabilities can be checked like weather forecasts: of the answers that were given 0.8, eight in
# ten should come true.
c, d = rng.integers(0, 60, (2, 2000))
c, d = c[c != d], d[c != d]
plot_reliability(ask(c, d), model.predict_comparison(X[c], X[d], observed=True))
plt.show()
