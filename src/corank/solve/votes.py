"""Votes: answers of judges about two items, of which ties are one, and the habits of the judges.

A judge sees the difference d of two items as u = reliability · d + side, and says "first" with
probability F(u − t), "second" with F(−u − t), else "tie", for a threshold t and F a normal or
logistic distribution function; now and then an answer is a lapse, any of them alike. Habits of
judges are normal around those of a usual judge. The posterior of the items is found by expectation
propagation, habits by the gradient of its evidence (docs/mathematics.md, section 3.11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit, log_ndtr, logit, ndtri, xlogy

from corank.core.arrays import Array, FloatArray, Index
from corank.core.storable import Finite, finite, floats, storable, whole
from corank.solve.expectation_propagation import (
    LOG_ROOT_TAU,
    PairData,
    SitePosterior,
    cavities,
    joined_items,
)

# Shares and slopes of normal distribution functions whose mixture is a distribution function: the
# logistic one to 4e-9 ([Monahan1992])
LOGISTIC_SHARES = [0.00324634, 0.05151748, 0.19507791, 0.31556982]
LOGISTIC_SHARES += [0.27414958, 0.13107688, 0.02791242, 0.00144957]
LOGISTIC_SLOPES = [1.36534080, 1.05952397, 0.83079131, 0.65073217]
LOGISTIC_SLOPES += [0.50813542, 0.39631334, 0.30890425, 0.23821262]
RESPONSES = {"probit": ([1.0], [1.0]), "logit": (LOGISTIC_SHARES, LOGISTIC_SLOPES)}
# habits, by column: the threshold as its logarithm, the rate of lapses as that of its odds
RELIABILITY, THRESHOLD, SIDE, LAPSE = range(4)
# deviations between judges that are weighed against each other, and the prior of their logarithm
SPREADS = np.exp(np.linspace(np.log(0.02), np.log(3.0), 61))
USUAL_LOG_SPREAD, LOG_SPREAD_SPREAD = np.log(0.3), 1.0
NO_LAPSES = -1e6  # log odds
# what is thought of a usual judge before any answer; its reliability is the unit of the function
USUAL = np.asarray([1.0, 0.0, 0.0, logit(0.05)])
USUAL_SPREADS = np.asarray([1.0, 2.0, 1.0, 1.0])
WIDTH_OF_95 = 1.96
MOST_TYPICAL = 50  # judges that stand for all of them
N_NODES = 32  # of the quadrature of what an answer says
N_DRAWS = 200  # of pairs, for the interval of an agreement
LARGEST_STEP = 0.5  # of a habit, from one step to the next


# ---------------------------------------------------------------- votes


@storable("Votes")
@dataclass(frozen=True)
class Votes(PairData):
    """Comparisons with outcomes and judges: `winners` are the items that were shown first.

    outcomes : (N,) 1 where the first is better, 0 for a tie, −1 where the second is better
    judges : (N,) numbers of those who answered
    """

    outcomes: Annotated[Index, finite("int64", "c")]
    judges: Annotated[Index, whole("c", below="J")]

    @classmethod
    def gathered(
        cls,
        features: Array,
        ends: tuple[Index, Index],
        outcomes: Index,
        judges: Index,
        counts: FloatArray,
    ) -> Votes:
        """From votes of which several may be the same."""
        n = features.shape[0]
        keys = np.stack([ends[0] * n + ends[1], judges, outcomes])
        keys, places = np.unique(keys, axis=1, return_inverse=True)
        weights = np.bincount(np.ravel(places), weights=counts)
        first, second = np.divmod(keys[0], n)
        return cls(features, first, second, weights.astype(np.float64), keys[2], keys[1])

    @property
    def n_judges(self) -> int:
        """Number of judges."""
        return int(self.judges.max()) + 1

    def with_votes(self, new: Votes) -> Votes:
        """With more votes, on items (m, d) that may be among those that are there."""
        items, *ends = joined_items(self.features, new.features, new.winners, new.losers)
        return Votes.gathered(
            items,
            (np.concatenate([self.winners, ends[0]]), np.concatenate([self.losers, ends[1]])),
            *(
                np.concatenate([getattr(votes, name) for votes in (self, new)])
                for name in ("outcomes", "judges", "counts")
            ),
        )


# ---------------------------------------------------------------- the probability of an answer


class Tilted(NamedTuple):
    """The log probability of answers about normal differences, and what it is moved by: (…, N) each.

    by_shift : its slope in u; curving : Σ φ z of the bounds, with which its bend in u is
        −by_shift² − curving; by_threshold : its slope in log t; by_lapse : in the log odds of lapses
    """

    log_probability: FloatArray
    by_shift: FloatArray
    curving: FloatArray
    by_threshold: FloatArray
    by_lapse: FloatArray


@storable("Habits")
@dataclass(frozen=True)
class Habits:
    """How judges answer.

    values : (J, 4) reliability, log threshold of ties, side that is favoured (above 0: the first),
        log odds of lapses
    deviations : (J, 4) how sure they are
    usual, spreads : (4,) the mean of the judges, and their deviations from it; 0 where they do not
        differ
    learned : (4,) 1 where a habit is learned, else 0
    answers : (J,) numbers of answers
    response : "probit" or "logit"
    n_outcomes : 3 where there are ties, else 2
    """

    values: Annotated[FloatArray, floats("J", ".h")]
    deviations: Annotated[FloatArray, floats("J", ".h")]
    usual: Annotated[FloatArray, floats(".h")]
    spreads: Annotated[FloatArray, floats(".h")]
    learned: Annotated[FloatArray, floats(".h")]
    answers: Annotated[FloatArray, floats("J")]
    response: str = "probit"
    n_outcomes: int = 3

    def is_sound(self) -> bool:
        """Whether there can be such habits."""
        known = self.response in RESPONSES and self.n_outcomes in (2, 3)
        return known and len(self.usual) == LAPSE + 1

    def extended(self, n_judges: int) -> Habits:
        """With more judges, of whom nothing is known yet."""
        more = n_judges - len(self.values)
        return replace(
            self,
            values=np.concatenate([self.values, np.repeat(self.usual[None, :], more, axis=0)]),
            deviations=np.concatenate([self.deviations, np.zeros((more, LAPSE + 1))]),
            answers=np.concatenate([self.answers, np.zeros(more)]),
        )

    @property
    def outcomes(self) -> Index:
        """The answers that there are, the first above first."""
        return np.asarray([1, 0, -1] if self.n_outcomes == 3 else [1, -1])

    def tilted(
        self, outcomes: Index, habits: FloatArray, mean: FloatArray, variance: FloatArray
    ) -> Tilted:
        """Of outcomes (…, N), by habits (4, N), where differences are normal (N,)."""
        reliability, threshold, side = habits[0], np.exp(habits[1]), habits[2]
        log_lapse, log_care = log_expit(habits[LAPSE]), log_expit(-habits[LAPSE])
        shift = reliability * mean + side
        tied = outcomes == 0
        # turned so that what is tied lies below 0, and what is not is "first"
        turn = np.where(tied, -np.where(shift > 0, 1.0, -1.0), outcomes)
        if self.n_outcomes == 2:
            threshold = np.zeros_like(threshold)
        bound = np.where(tied, threshold, -threshold)
        shares, slopes = (np.asarray(each) for each in RESPONSES[self.response])
        logs, scales, highs, lows = [], [], [], []
        for share, slope in zip(shares, slopes, strict=True):
            scale = slope / np.sqrt(1 + (slope * reliability) ** 2 * variance)
            high = scale * (turn * shift + bound)
            low = scale * (turn * shift - threshold)
            log = log_ndtr(high)
            below = np.minimum(log_ndtr(low) - log, -1e-16)
            logs.append(np.log(share) + np.where(tied, log + np.log1p(-np.exp(below)), log))
            scales.append(scale)
            highs.append(high)
            lows.append(low)
        core = np.logaddexp.reduce(logs, axis=0)
        log_probability = np.logaddexp(log_care + core, log_lapse - np.log(self.n_outcomes))
        by_shift, curving, by_threshold = (np.zeros(log_probability.shape) for _ in range(3))
        for share, scale, high, low in zip(shares, scales, highs, lows, strict=True):
            level = np.log(share) + log_care - LOG_ROOT_TAU - log_probability
            above = np.exp(level - 0.5 * high**2)
            under = np.where(tied, np.exp(level - 0.5 * low**2), 0.0)
            by_shift += turn * scale * (above - under)
            curving += scale**2 * (high * above - low * under)
            by_threshold += scale * threshold * (np.where(tied, above, -above) + under)
        rate = np.exp(log_lapse + log_care - log_probability)
        by_lapse = rate / self.n_outcomes - rate * np.exp(core)
        return Tilted(log_probability, by_shift, curving, by_threshold, by_lapse)

    def probabilities(
        self, judges: Index | None, mean: FloatArray, variance: FloatArray
    ) -> FloatArray:
        """Of first, tie and second (n, 3), where differences are normal: for a judge each, or the
        mean of all answers that judges would give who favoured no side.
        """
        if judges is not None:
            return self._chances(self.values[judges].T, mean, variance)
        chances = np.zeros((len(mean), 3))
        for judge, share in self._typical():
            habits = np.repeat(self.values[judge][:, None], len(mean), axis=1)
            habits[SIDE] = 0.0
            chances += share * self._chances(habits, mean, variance)
        return chances

    def _typical(self) -> list[tuple[int, float]]:
        """Judges that stand for all, each with its share of the answers."""
        shares = self.answers / self.answers.sum()
        if len(shares) <= MOST_TYPICAL:
            return list(enumerate(shares.tolist()))
        order = np.argsort(self.values[:, RELIABILITY], kind="stable")
        middles = (np.arange(MOST_TYPICAL) + 0.5) / MOST_TYPICAL
        places = np.searchsorted(np.cumsum(shares[order])[:-1], middles)
        return [(int(judge), 1 / MOST_TYPICAL) for judge in order[places]]

    def _chances(self, habits: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
        chances = np.zeros((3, len(mean)))
        tilted = self.tilted(self.outcomes[:, None], habits, mean, variance)
        chances[1 - self.outcomes] = np.exp(tilted.log_probability)
        return np.asarray((chances / chances.sum(axis=0)).T)


@dataclass(frozen=True)
class VoteLikelihood:
    """The likelihood of votes by habits, for expectation propagation."""

    votes: Votes
    habits: Habits

    def __call__(
        self, mean: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log probability, slope and minus its bend in the mean: (N,) each."""
        habits = self.habits.values[self.votes.judges].T
        tilted = self.habits.tilted(self.votes.outcomes, habits, mean, variance)
        # where an answer that may be a lapse surprises, it takes no certainty away
        bend = np.maximum(tilted.by_shift**2 + tilted.curving, 0.0)
        return tilted.log_probability, habits[0] * tilted.by_shift, habits[0] ** 2 * bend

    def improved(self, posterior: SitePosterior) -> VoteLikelihood:
        """With habits a step nearer to the largest evidence, whose gradient is that of the
        probabilities of all votes where their sites are taken out.
        """
        mean, variance, _ = cavities(posterior.differences, posterior.variances, posterior.sites)
        return replace(self, habits=improved(self.habits, self.votes, mean, variance))


# ---------------------------------------------------------------- learning habits


def first_habits(
    votes: Votes,
    response: str,
    *,
    with_judges: bool,
    with_sides: bool,
    tie: float | None,
    lapse: float | None,
) -> Habits:
    """Habits to begin with, those of a usual judge.

    tie, lapse : the threshold and the rate of lapses where they are given, None to learn them
    """
    tied = float(votes.counts[votes.outcomes == 0].sum() / votes.counts.sum())
    learns_ties = tie is None and tied > 0
    if tie is None:
        tie = 1.5 * float(ndtri(0.5 + 0.49 * tied))
    n_judges = votes.n_judges
    differ = with_judges and n_judges > 1
    learns_lapse = lapse is None and (with_judges or tied > 0)
    if lapse is None:
        lapse = float(expit(USUAL[LAPSE])) if learns_lapse else 0.0
    learned = np.asarray([differ, learns_ties, with_sides, learns_lapse], dtype=np.float64)
    with np.errstate(divide="ignore"):
        usual = np.asarray([1.0, np.log(max(tie, 1e-6)), 0.0, max(logit(lapse), NO_LAPSES)])
    return Habits(
        np.repeat(usual[None, :], n_judges, axis=0),
        np.zeros((n_judges, 4)),
        usual,
        0.3 * learned * differ,
        learned,
        np.asarray(np.bincount(votes.judges, votes.counts, n_judges), np.float64),
        response,
        3 if tie > 0 else 2,
    )


def usual_habits(response: str) -> Habits:
    """Those of a judge of whom nothing is learned, who never says tie."""
    usual = np.asarray([1.0, 0.0, 0.0, NO_LAPSES])
    zeros = np.zeros(LAPSE + 1)
    return Habits(usual[None, :], zeros[None, :], usual, zeros, zeros, np.ones(1), response, 2)


def improved(habits: Habits, votes: Votes, mean: FloatArray, variance: FloatArray) -> Habits:
    """Habits a step nearer to the mode of Σ log probability, where differences are normal: a step of
    Fisher scoring each, with the usual judge and the spread of the judges. O(N).
    """
    own = habits.values[votes.judges].T
    tilted = habits.tilted(habits.outcomes[:, None], own, mean, variance)
    by_reliability = mean * tilted.by_shift - own[0] * variance * tilted.curving
    slopes = np.stack([by_reliability, tilted.by_threshold, tilted.by_shift, tilted.by_lapse])
    slopes *= habits.learned[:, None, None]
    chances = np.exp(tilted.log_probability)
    place = np.argmax(habits.outcomes[:, None] == votes.outcomes, axis=0)
    seen = np.take_along_axis(slopes, place[None, None, :], axis=1)[:, 0]
    expected = np.einsum("ion,jon,on->ijn", slopes, slopes, chances)
    n_judges = len(habits.values)

    def summed(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(votes.judges, votes.counts * values, n_judges), np.float64)

    score = np.stack([summed(values) for values in seen], axis=1)
    information = np.asarray([[summed(values) for values in row] for row in expected])
    information = np.moveaxis(information, 2, 0)
    usual, spreads = _population(habits, score, np.einsum("jii->ji", information))
    centre = USUAL if n_judges == 1 else usual
    precision = 1 / np.where(spreads > 0, spreads, USUAL_SPREADS) ** 2
    score = score - precision * (habits.values - centre) * habits.learned
    inverse = np.linalg.inv(information + np.diag(precision))
    steps = np.clip(np.einsum("jik,jk->ji", inverse, score), -LARGEST_STEP, LARGEST_STEP)
    values = habits.values + steps * habits.learned
    if n_judges == 1:
        usual = values[0]
    return replace(
        habits,
        values=values,
        deviations=np.sqrt(np.einsum("jii->ji", inverse)) * habits.learned,
        usual=usual,
        spreads=spreads,
        answers=summed(np.ones(len(votes))),
    )


def _population(
    habits: Habits, score: FloatArray, information: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The usual judge and the deviations between judges (3,), from what each judge's votes say of
    each habit alone: its value, and how surely.

    A deviation is the mean of its logarithm over its likelihood with a wide prior.
    """
    usual, spreads = np.array(habits.usual), np.array(habits.spreads)
    if len(habits.values) == 1:
        return usual, spreads
    for habit in np.flatnonzero(habits.learned):
        known = np.maximum(information[:, habit], 1e-9)
        alone = habits.values[:, habit] + score[:, habit] / known
        variances = SPREADS[:, None] ** 2 + 1 / known
        centre = np.full(len(SPREADS), 1.0)
        if habit != RELIABILITY:  # whose mean is the unit of the function
            prior = 1 / USUAL_SPREADS[habit] ** 2
            centre = np.sum(alone / variances, axis=1) + prior * USUAL[habit]
            centre /= np.sum(1 / variances, axis=1) + prior
        gaps = (alone - centre[:, None]) ** 2 / variances
        logs = -0.5 * np.sum(np.log(variances) + gaps, axis=1)
        logs -= 0.5 * ((np.log(SPREADS) - USUAL_LOG_SPREAD) / LOG_SPREAD_SPREAD) ** 2
        shares = np.exp(logs - logs.max())
        shares /= shares.sum()
        spreads[habit] = np.exp(shares @ np.log(SPREADS))
        moved = np.clip(shares @ centre - usual[habit], -LARGEST_STEP, LARGEST_STEP)
        usual[habit] += moved
    return usual, spreads


# ---------------------------------------------------------------- what is said of judges


@storable("Judge")
@dataclass(frozen=True)
class Judge:
    """One judge, beside a usual one.

    Attributes
    ----------
    name : the label of the judge
    answers : number of answers
    reliability : how strongly answers follow the items: 1 for a usual judge, 0 for answers at random,
        below 0 for a judge who means the opposite
    low, high : an interval that holds the reliability with 95 %
    ties : probability of a tie between two items that are equally good
    side : by how much more often the item that was shown first wins where both are equally good: −1
        to 1
    lapses : share of the answers that have nothing to do with the items
    agreement : of answers without ties with what all other answers say of the pair, beyond chance:
        1 for all, 0 for half of them, −1 for none; NaN where every answer is a tie
    information : bits that an answer says about a pair of which as little is known as of those that
        were asked about: whom to ask next
    """

    name: Any
    answers: int
    reliability: Finite
    low: Finite
    high: Finite
    ties: Finite
    side: Finite
    lapses: Finite
    agreement: float
    information: Finite

    @property
    def contrary(self) -> bool:
        """Whether the judge surely means the opposite of the others."""
        return self.high < 0


def table_of_judges(
    names: Sequence[Any], habits: Habits, posterior: SitePosterior, votes: Votes
) -> list[Judge]:
    """What is said of each judge (J,)."""
    n_judges = len(names)
    mean, _, _ = cavities(posterior.differences, posterior.variances, posterior.sites)
    right = np.bincount(votes.judges, votes.counts * votes.outcomes * np.sign(mean), n_judges)
    decided = np.bincount(votes.judges, votes.counts * np.abs(votes.outcomes), n_judges)
    judges = np.arange(n_judges)
    even = habits.probabilities(judges, np.zeros(n_judges), np.zeros(n_judges))
    information = _information(habits, float(np.mean(posterior.variances)))
    reliability = habits.values[:, RELIABILITY]
    reach = WIDTH_OF_95 * habits.deviations[:, RELIABILITY]
    columns = [
        habits.answers,
        reliability,
        reliability - reach,
        reliability + reach,
        even[:, 1],
        even[:, 0] - even[:, 2],
        expit(habits.values[:, LAPSE]),
        np.divide(right, decided, out=np.full(n_judges, np.nan), where=decided > 0),
        information,
    ]
    return [
        Judge(name, int(count), *map(float, row))
        for name, (count, *row) in zip(names, np.transpose(columns), strict=True)
    ]


def _information(habits: Habits, variance: float) -> FloatArray:
    """Bits that an answer of each judge says about a difference ~ N(0, variance): (J,)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(N_NODES)
    judges = np.arange(len(habits.values))
    zeros = np.zeros(len(judges))
    known = [habits.probabilities(judges, zeros + node * variance**0.5, zeros) for node in nodes]
    weights = weights / weights.sum()
    chances = np.tensordot(weights, known, axes=1)
    left = np.tensordot(weights, xlogy(known, known).sum(axis=2), axes=1)
    return np.asarray(np.maximum(left - xlogy(chances, chances).sum(axis=1), 0.0) / np.log(2))


@dataclass(frozen=True)
class JudgeAgreement:
    """How far judges agree who answered about the same pairs.

    Attributes
    ----------
    alpha : Krippendorff's, of answers as numbers 1, 0, −1: 1 where all agree, 0 for chance
    low, high : an interval that holds it with 95 %, from pairs drawn anew
    n_pairs : number of pairs with more than one answer
    items : (m,) row numbers of X, of those in such pairs, the most disputed first
    disputes : (m,) how far answers about the item disagree: 0 not at all, 1 as far as by chance
    """

    alpha: float
    low: float
    high: float
    n_pairs: int
    items: Index
    disputes: FloatArray


def agreement(votes: Votes, rows: Index) -> JudgeAgreement:
    """How far judges agree, by pairs with several answers; `rows`: (n,) row numbers of the items."""
    low = np.minimum(votes.winners, votes.losers)
    high = np.maximum(votes.winners, votes.losers)
    pairs, place = np.unique(low * votes.n_items + high, return_inverse=True)
    values = votes.outcomes * np.where(votes.winners == low, 1.0, -1.0)
    sums = np.stack([np.bincount(place, votes.counts * values**power) for power in range(3)])
    several = sums[0] > 1
    counts, totals, squares = sums[:, several]
    # Σ over ordered pairs of answers of their squared difference, by number of other answers
    observed = 2 * (counts * squares - totals**2) / (counts - 1)
    # a pair has no order of its own, so the mean of all answers is 0
    expected = 2 * squares
    rng, shares = np.random.default_rng(0), np.full(len(counts), 1 / max(len(counts), 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        draws = (rng.multinomial(len(counts), shares) for _ in range(N_DRAWS))
        drawn = [1 - (draw @ observed) / (draw @ expected) for draw in draws]
        alpha = float(1 - observed.sum() / expected.sum())
        bounds = np.nanquantile(drawn, [0.025, 0.975]) if len(counts) else (np.nan, np.nan)
        ends = np.concatenate(np.divmod(pairs[several], votes.n_items))
        seen = np.bincount(ends, np.tile(expected, 2), votes.n_items)
        shares = np.bincount(ends, np.tile(observed, 2), votes.n_items) / seen
    items = np.flatnonzero(seen > 0)
    items = items[np.argsort(-shares[items], kind="stable")]
    return JudgeAgreement(
        alpha, float(bounds[0]), float(bounds[1]), len(counts), rows[items], shares[items]
    )
