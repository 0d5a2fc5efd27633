"""What `votes` compares PreferenceGP with: Davidson's model and the noisy model of Bradley and Terry,
both by maximum likelihood, choix and evalica; and how all of them come to probabilities of left, tie
and right.

NoisyBT is written here after crowd-kit's description: the package needs transformers and nltk to be
imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from scipy import optimize
from scipy.special import expit, log_expit, logit, logsumexp

from studies.data import LEFT, RIGHT, TIE, Floats, Integers, Votes

N_SETTINGS, N_FOLDS = 24, 3
MODEL_PENALTIES, ANSWER_PENALTIES = (0.1, 0.5, 2.0, 8.0), (0.2, 0.5, 1.0, 2.0, 4.0, 16.0)
PENALTIES, JUDGE_PENALTIES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0), (0.1, 0.5)
ALPHAS = np.logspace(-3, 1, N_SETTINGS // 2)
LIMITS, TIE_WEIGHTS = (0.1, 0.5, 2.0), (0.1, 0.3, 0.5, 1.0)
STEPS = 200  # of L-BFGS
BOUNDS = ((-6.0, 4.0), (-12.0, 4.0), (-4.0, 4.0))  # of log scale, log ν and side
assert len(MODEL_PENALTIES) * len(ANSWER_PENALTIES) == N_SETTINGS
assert 2 * len(PENALTIES) * len(JUDGE_PENALTIES) == 2 * len(ALPHAS) == N_SETTINGS
assert 2 * len(LIMITS) * len(TIE_WEIGHTS) == N_SETTINGS

# log odds of left against right for votes: (n,)
Gaps: TypeAlias = Callable[[Votes], Floats]
Fit: TypeAlias = Callable[[Votes], Gaps]


def predict_peer(
    learner: str, train: Votes, test: Votes, seed: int, *, quick: bool = False
) -> Floats:
    """Probabilities (n, 3) of left, tie and right by a peer, tuned on the training votes: of equally
    many settings the one of least log loss over three folds of votes.
    """
    fits = PEERS[learner][: 2 if quick else None]
    fold = np.random.default_rng([seed, 79]).permutation(len(train)) % N_FOLDS
    best: tuple[float, int, Floats] | None = None
    for at, fit in enumerate(fits):
        gaps = np.empty(len(train))
        for number in range(N_FOLDS):
            left = fold == number
            gaps[left] = fit(train.take(~left))(train.take(left))
        link = tie_link(gaps, train.winner)
        loss = float(log_losses(outcomes(gaps, link), train.winner).mean())
        if best is None or loss < best[0]:
            best = loss, at, link
    assert best is not None
    _, at, link = best
    return outcomes(fits[at](train)(test), link)


# ---- probabilities of three outcomes


def outcomes(gaps: Floats, link: Floats) -> Floats:
    """Davidson's probabilities (n, 3) of left, tie and right, from log odds of left against right:
    ``link`` is (log of a scale of the log odds, log ν, side).
    """
    half = 0.5 * (np.exp(link[0]) * gaps + link[2])
    logits = np.stack([half, np.full(len(gaps), link[1]), -half], axis=1)
    return np.asarray(np.exp(logits - logsumexp(logits, axis=1, keepdims=True)))


def tie_link(gaps: Floats, winner: Integers, *, scaled: bool = True) -> Floats:
    """The link of largest likelihood for held-out log odds; `scaled`: else their scale is kept."""

    def loss(link: Floats) -> float:
        return float(log_losses(outcomes(gaps, link), winner).mean())

    bounds = list(BOUNDS)
    if not scaled:
        bounds[0] = (0.0, 0.0)
    return np.asarray(optimize.minimize(loss, np.zeros(3), bounds=bounds).x)


def log_losses(chances: Floats, winner: Integers) -> Floats:
    """Minus the logarithm of the probability of what was answered: (n,)."""
    chosen = chances[np.arange(len(winner)), winner]
    return np.asarray(-np.log(np.maximum(chosen, 1e-12)))


def wrong_among_untied(chances: Floats, winner: Integers) -> Floats:
    """For every vote that is no tie, 1 where the other side was likelier, ½ where neither was."""
    untied = winner != TIE
    ahead = np.sign(chances[untied, LEFT] - chances[untied, RIGHT])
    sign = np.where(winner[untied] == LEFT, 1.0, -1.0)
    return np.asarray(0.5 * (1 - ahead * sign))


def frequencies(train: Votes, test: Votes) -> Floats:
    """The shares of left, tie and right, for all votes alike."""
    shares = np.bincount(train.winner, minlength=3) / len(train)
    return np.tile(shares, (len(test), 1))


# ---- models


@dataclass(frozen=True)
class Davidson:
    """Bradley and Terry's model with ties and a favoured side, by maximum likelihood with a penalty:
    an item is worth the effect of its model and its own.
    """

    model_penalty: float
    answer_penalty: float

    def __call__(self, train: Votes) -> Gaps:
        """Fit; O(votes) per step."""
        n_models, n_items = int(train.model.max()) + 1, len(train.items)

        def worth(weights: Floats) -> Floats:
            return weights[:n_models][train.model] + weights[n_models : n_models + n_items]

        def objective(weights: Floats) -> tuple[float, Floats]:
            values = worth(weights)
            nu, side = weights[-2:]
            half = 0.5 * (values[train.left] - values[train.right] + side)
            logits = np.stack([half, np.full(len(half), nu), -half], axis=1)
            chances = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
            total = log_losses(chances, train.winner).sum()
            chances[np.arange(len(train)), train.winner] -= 1
            by_gap = 0.5 * (chances[:, LEFT] - chances[:, RIGHT])
            by_item = _by_item(by_gap, train.left, train.right, n_items)
            by_model = np.bincount(train.model, weights=by_item, minlength=n_models)
            penalties = np.concatenate(
                [
                    np.full(n_models, self.model_penalty),
                    np.full(n_items, self.answer_penalty),
                    np.zeros(2),
                ]
            )
            gradient = np.concatenate([by_model, by_item, [chances[:, TIE].sum(), by_gap.sum()]])
            total += 0.5 * float(penalties @ weights**2)
            return float(total), gradient + penalties * weights

        weights = _minimiser(objective, np.zeros(n_models + n_items + 2))
        values = worth(weights)
        return lambda new: values[new.left] - values[new.right]


@dataclass(frozen=True)
class NoisyBradleyTerry:
    """With some probability, their skill, a judge compares the items, else they favour a side without
    looking; by maximum likelihood with a penalty. A tie is half a vote each way.
    """

    by_model: bool
    penalty: float
    judge_penalty: float

    def __call__(self, train: Votes) -> Gaps:
        """Fit; O(votes) per step."""
        item = train.model if self.by_model else np.arange(len(train.items))
        names, judge = np.unique(train.judge, return_inverse=True)
        n_items, n_judges = int(item.max()) + 1, len(names)
        rows, sign, count = _halves(train)
        left, right, judge = item[train.left[rows]], item[train.right[rows]], judge[rows]
        penalties = np.concatenate(
            [np.full(n_items, self.penalty), np.full(2 * n_judges, self.judge_penalty)]
        )
        start = np.concatenate([np.zeros(n_items), np.ones(n_judges), np.zeros(n_judges)])

        def objective(weights: Floats) -> tuple[float, Floats]:
            values = weights[:n_items]
            skill = weights[n_items : n_items + n_judges][judge]
            side = weights[n_items + n_judges :][judge]
            compared = log_expit(skill) + log_expit(sign * (values[left] - values[right]))
            careless = log_expit(-skill) + log_expit(sign * side)
            logs = np.logaddexp(compared, careless)
            share = np.exp(compared - logs)  # that the items were compared
            by_gap = -count * share * sign * expit(-sign * (values[left] - values[right]))
            by_skill = -count * (share - expit(skill))
            by_side = -count * (1 - share) * sign * expit(-sign * side)
            gradient = np.concatenate(
                [
                    _by_item(by_gap, left, right, n_items),
                    np.bincount(judge, weights=by_skill, minlength=n_judges),
                    np.bincount(judge, weights=by_side, minlength=n_judges),
                ]
            )
            away = weights - start
            total = -float(count @ logs) + 0.5 * float(penalties @ away**2)
            return total, gradient + penalties * away

        weights = _minimiser(objective, start)
        place = {name: number for number, name in enumerate(names.tolist())}

        def gaps(new: Votes) -> Floats:
            values = weights[:n_items]
            gap = values[item[new.left]] - values[item[new.right]]
            judges = np.asarray([place.get(name, -1) for name in new.judge.tolist()])
            skill, side = weights[n_items : n_items + n_judges], weights[n_items + n_judges :]
            known = judges >= 0
            skills = expit(np.where(known, skill[judges], skill.mean()))
            sides = expit(np.where(known, side[judges], side.mean()))
            chance = skills * expit(gap) + (1 - skills) * sides
            return np.asarray(logit(np.clip(chance, 1e-9, 1 - 1e-9)))

        return gaps


@dataclass(frozen=True)
class Choix:
    """choix's iterative Luce spectral ranking of models or answers; a tie is half a win each way."""

    by_model: bool
    alpha: float

    def __call__(self, train: Votes) -> Gaps:
        """Fit; O(items³) per round."""
        import choix  # not everywhere

        item = train.model if self.by_model else np.arange(len(train.items))
        n_items = int(item.max()) + 1
        rows, sign, count = _halves(train)
        left, right = item[train.left[rows]], item[train.right[rows]]
        wins = np.zeros((n_items, n_items))
        np.add.at(wins, (np.where(sign > 0, left, right), np.where(sign > 0, right, left)), count)
        try:
            values = choix.ilsr_pairwise_dense(wins, alpha=self.alpha, max_iter=30, tol=1e-4)
        except RuntimeError:  # not settled by then: one round is consistent, too
            values = choix.lsr_pairwise_dense(wins, alpha=self.alpha)
        return lambda new: values[item[new.left]] - values[item[new.right]]


@dataclass(frozen=True)
class Evalica:
    """evalica's model of Bradley and Terry for models or answers, with a weight of ties; `limit`
    wins and losses of every item against a made-up one keep worths finite.
    """

    by_model: bool
    limit: float
    tie_weight: float

    def __call__(self, train: Votes) -> Gaps:
        """Fit."""
        import evalica  # not everywhere

        item = train.model if self.by_model else np.arange(len(train.items))
        n_items = int(item.max()) + 1
        winners = {LEFT: evalica.Winner.X, TIE: evalica.Winner.Draw, RIGHT: evalica.Winner.Y}
        everyone = np.arange(n_items)
        made_up = np.full(n_items, n_items)
        result = evalica.bradley_terry(
            np.concatenate([item[train.left], everyone, everyone]),
            np.concatenate([item[train.right], made_up, made_up]),
            [
                *(winners[winner] for winner in train.winner.tolist()),
                *([evalica.Winner.X] * n_items),
                *([evalica.Winner.Y] * n_items),
            ],
            weights=np.concatenate([np.ones(len(train)), np.full(2 * n_items, self.limit)]),
            win_weight=1.0,
            tie_weight=self.tie_weight,
        )
        worth = result.scores.reindex(range(n_items + 1)).to_numpy()
        values = np.log(np.maximum(worth, 1e-12))
        return lambda new: values[item[new.left]] - values[item[new.right]]


def _halves(votes: Votes) -> tuple[Integers, Floats, Floats]:
    """Votes without ties: rows of votes, 1 for left and −1 for right, and how much each counts."""
    untied, tied = np.flatnonzero(votes.winner != TIE), np.flatnonzero(votes.winner == TIE)
    rows = np.concatenate([untied, tied, tied])
    sign = np.where(votes.winner[untied] == LEFT, 1.0, -1.0)
    signs = np.concatenate([sign, np.ones(len(tied)), -np.ones(len(tied))])
    return rows, signs, np.concatenate([np.ones(len(untied)), np.full(2 * len(tied), 0.5)])


def _by_item(by_gap: Floats, left: Integers, right: Integers, n_items: int) -> Floats:
    """The gradient in the items of what depends on their differences: (n_items,)."""
    above = np.bincount(left, weights=by_gap, minlength=n_items)
    return np.asarray(above - np.bincount(right, weights=by_gap, minlength=n_items))


def _minimiser(objective: Callable[[Floats], tuple[float, Floats]], start: Floats) -> Floats:
    found = optimize.minimize(
        objective, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS}
    )
    return np.asarray(found.x)


PEERS: Mapping[str, Sequence[Any]] = {
    "davidson": [Davidson(*both) for both in product(MODEL_PENALTIES, ANSWER_PENALTIES)],
    "noisy-bt": [
        NoisyBradleyTerry(*setting)
        for setting in product((True, False), PENALTIES, JUDGE_PENALTIES)
    ],
    "choix": [Choix(*setting) for setting in product((True, False), ALPHAS.tolist())],
    "evalica": [Evalica(*setting) for setting in product((True, False), LIMITS, TIE_WEIGHTS)],
}
