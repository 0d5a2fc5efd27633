"""
Which comparison to ask for next
================================

Answers cost somebody's time. `suggest` picks the pairs whose answers would say most about the
function. Here a person's taste for jokes is learned one question at a time: once with suggested
pairs, once with random ones.
"""

# %%
# Eight users who rated all 100 jokes. A user prefers the joke that they rated higher. Jokes are
# described by the first five principal components of the ratings of 100 other people.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from corank import PreferenceGP
from corank.datasets import load_jokes
from corank.metrics import disagreement_error

data = load_jokes()
jokes = np.zeros((100, data.X.shape[1]))
jokes[data.item - 1] = data.X
jokes = PCA(5, whiten=True).fit_transform(jokes)
users, counts = np.unique(data.qid, return_counts=True)
users = users[counts == 100][:8]
ratings = np.stack(
    [data.y[data.qid == user][np.argsort(data.item[data.qid == user])] for user in users]
)

# %%
# Both begin with the same two answers. The amplitude and the width are fixed, because a handful of
# answers is not enough to learn them.
questions = 25


def pairs_at_random(seed):
    rng = np.random.default_rng(seed)
    while True:
        yield rng.choice(100, 2, replace=False)


def learn(own, seed, *, suggested):
    random_pairs = pairs_at_random(seed)
    errors, model = [], PreferenceGP(amplitude=4.0, gamma=0.1)
    for asked in range(questions):
        pair = model.suggest(jokes, n=1)[0] if suggested and asked >= 2 else next(random_pairs)
        winner, loser = pair if own[pair[0]] >= own[pair[1]] else pair[::-1]
        if asked == 0:
            model.fit_comparisons(jokes, [winner], [loser])
        else:
            model.update_comparisons(jokes, [winner], [loser])
        errors.append(disagreement_error(own, model.predict(jokes)))
    return errors


curves = {
    "suggested": np.array([learn(own, seed, suggested=True) for seed, own in enumerate(ratings)]),
    "random": np.array([learn(own, seed, suggested=False) for seed, own in enumerate(ratings)]),
}

# %%
# Error over all pairs of the 100 jokes after each answer: the mean of eight users, with one
# standard error. Eight users only show a tendency; :doc:`/uncertainty` has the figures over
# hundreds of users.
_, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
asked = np.arange(1, questions + 1)
for (name, own), colour in zip(curves.items(), ("#2b6cb0", "#c05621"), strict=True):
    mean, spread = own.mean(axis=0), own.std(axis=0, ddof=1) / np.sqrt(len(own))
    ax.fill_between(asked, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
    ax.plot(asked, mean, color=colour, label=f"{name} pairs")
ax.set(xlabel="comparisons answered", ylabel="pairs in the wrong order")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
