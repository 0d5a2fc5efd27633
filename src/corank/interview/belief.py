"""What is believed about the items of a pool, what to ask about them next, and how settled their
order is.

Scores are a Gaussian process, in units of the noise of an answer: P(a is said to beat b) = Φ(f_a −
f_b). Similar items have similar scores, and each has something of its own. How similar, and how
decided answers are, is averaged over by the evidence (docs/mathematics.md, section 3.18). No web,
no files, no learners.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.linalg
from numpy.polynomial.hermite import hermgauss
from scipy.special import ndtr, softmax

from corank.core.arrays import FloatArray, Index, Mask, add_diagonal
from corank.core.kernels import squared_norms
from corank.solve.expectation_propagation import (
    PairData,
    SitePosterior,
    Sites,
    density_over_probability,
    propagate,
)
from corank.solve.posterior import Moments, draws, mixture
from corank.solve.questions import difference_variances, information, score_gains

LEAST_VARIANCE = 1e-12
VARIANCES = (1.0, 4.0, 16.0)  # of a score before any answer, in units of the noise of an answer
OWN_SHARES = (0.02, 0.1, 0.3, 1.0)  # of that variance is an item's own
WIDTHS = (1.0, 4.0)  # of the similarity, in units of the median distance
TIE_NOISE = 1.0  # variance with which a tie says that two scores are equal
JITTER = 1e-8  # added to the variance of compared items
TOLERANCE, MAX_SWEEPS = 1e-3, 60  # of expectation propagation
# outcomes from which on, and after which, all kernels are looked at
FEW_OUTCOMES, LOOK_EVERY = 30, 10
LEAST_SHARE = 1e-3  # of a kernel that is looked at in between
MAX_SCALED = 500  # items whose distances are looked at
N_DRAWS = 200  # of all scores, for places and the first ten
MAX_FORESEEN = 120  # items whose future answers are gone through
_NODES, _WEIGHTS = hermgauss(9)
ScaledKernel: TypeAlias = tuple[float, float, float]  # own share, width and variance


@dataclass(frozen=True)
class Belief:
    """A Gaussian belief about the scores of a pool.

    Attributes
    ----------
    rows : (m,) numbers of the items in their table, ascending
    weights : (m,) how many items of the table each of them stands for
    mean, covariance : (m,) and (m, m)
    """

    rows: Index
    weights: FloatArray
    mean: FloatArray
    covariance: FloatArray

    def places(self, rows: Iterable[int]) -> list[int] | None:
        """Where rows of the table stand in the pool; None where one of them is not in it."""
        places, are_there = self._places(np.asarray(list(rows), dtype=np.int64))
        return places.tolist() if are_there.all() else None

    def _places(self, rows: Index) -> tuple[Index, Mask]:
        """Where rows of the table, of any shape, stand in the pool, and whether they do."""
        places = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return places, self.rows[places] == rows

    # ---------------------------------------------------------------- answers

    def after_win(self, winner: int, loser: int) -> Belief:
        """The belief after an answer about two places of the pool. O(m²)."""
        column = self.covariance[:, winner] - self.covariance[:, loser]
        variance = max(float(column[winner] - column[loser]), 0.0)
        scale = np.sqrt(1 + variance)
        z = float(self.mean[winner] - self.mean[loser]) / scale
        ratio = float(density_over_probability(z))
        shrinkage = ratio * (ratio + z) / scale**2
        return self._moved(column, ratio / scale, shrinkage)

    def after_tie(self, first: int, second: int) -> Belief:
        """The belief after an answer that two places of the pool are equally good. O(m²)."""
        column = self.covariance[:, first] - self.covariance[:, second]
        variance = max(float(column[first] - column[second]), 0.0)
        precision = 1 / (TIE_NOISE + variance)
        gap = float(self.mean[first] - self.mean[second])
        return self._moved(column, -gap * precision, precision)

    def after_score(self, place: int, gap: float) -> Belief:
        """The belief after a score that lies `gap` above what was expected. O(m²)."""
        column = self.covariance[:, place]
        precision = 1 / (1 + max(float(column[place]), 0.0))
        return self._moved(column, gap * precision, precision)

    def _moved(self, column: FloatArray, step: float, shrinkage: float) -> Belief:
        covariance = self.covariance - np.outer(shrinkage * column, column)
        return replace(self, mean=self.mean + step * column, covariance=covariance)

    # ---------------------------------------------------------------- questions

    @cached_property
    def _differences(self) -> _PairDifferences:
        """Those of all pairs of the pool."""
        first, second = np.triu_indices(len(self.rows), k=1)
        variances = difference_variances(self.covariance, first, second)
        return _PairDifferences(
            first,
            second,
            weights=self.weights[first] * self.weights[second],
            gaps=self.mean[first] - self.mean[second],
            variances=np.maximum(variances, LEAST_VARIANCE),
        )

    def best_pair(self, asked: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
        """The rows of the pair whose comparison tells most; pairs of rows that were `asked` are
        left out. O(m²).
        """
        gains = self._gains(asked)
        if not len(gains) or not np.isfinite(gains.max()):
            return None
        best = np.argmax(gains)
        first = self._differences.first[best]
        second = self._differences.second[best]
        return int(self.rows[first]), int(self.rows[second])

    def best_four(self, asked: Iterable[tuple[int, int]]) -> tuple[int, ...] | None:
        """The rows of four items of which best and worst tell most: the pair that tells most and
        then, one by one, the item that tells most beside those chosen. Three where no fourth tells
        anything, so that every pair gets an answer in the end. O(m²)."""
        gains = self._gains(asked)
        m = len(self.rows)
        if m < 3 or not np.isfinite(gains.max()):
            return None
        first = self._differences.first
        second = self._differences.second
        best = np.argmax(gains)
        chosen = [int(first[best]), int(second[best])]
        matrix = np.zeros((m, m))
        matrix[first, second] = np.where(np.isfinite(gains), gains, 0.0)
        matrix += matrix.T
        while len(chosen) < min(4, m):
            gain = matrix[chosen].sum(axis=0)
            gain[chosen] = -1.0
            if gain.max() <= 0 and len(chosen) == 3:
                break
            chosen.append(int(np.argmax(gain)))
        return tuple(self.rows[chosen].tolist())

    def best_row(self, asked: Iterable[int]) -> int | None:
        """The row whose score leaves least uncertainty about all rows; those that were `asked` are
        left out. O(m²).
        """
        gains = score_gains(self.covariance, 1.0, self.weights)
        gains[np.isin(self.rows, list(asked))] = -np.inf
        return int(self.rows[np.argmax(gains)]) if np.isfinite(gains.max()) else None

    def _gains(self, asked: Iterable[tuple[int, int]]) -> FloatArray:
        """What every pair would tell, −inf for those that were asked."""
        differences = self._differences
        gains = information(differences.gaps, differences.variances)
        gains[self._numbers(asked)] = -np.inf
        return gains

    def _numbers(self, pairs: Iterable[tuple[int, int]]) -> Index:
        """Where pairs of rows of the table stand in `_differences`; those outside the pool are left
        out.
        """
        rows = np.asarray(list(pairs), dtype=np.int64).reshape(-1, 2)
        places, are_there = self._places(rows)
        inside = places[are_there.all(axis=1)]
        first, second = np.sort(inside, axis=1).T
        before = first * (2 * len(self.rows) - first - 1) // 2
        numbers: Index = before + second - first - 1
        return numbers

    # ---------------------------------------------------------------- how settled it is

    @property
    def misordered(self) -> float:
        """The expected share of pairs in the wrong order."""
        differences = self._differences
        certainty = np.abs(differences.gaps) / np.sqrt(differences.variances)
        return float(np.average(ndtr(-certainty), weights=differences.weights))

    def drawn_places(self, seed: int) -> FloatArray:
        """Places (from 1) of the items in draws of all scores: (N_DRAWS, m)."""
        rng = np.random.default_rng([seed, 18])
        scores = draws((self.mean, self.covariance), N_DRAWS, rng)
        order = np.argsort(-scores, axis=1, kind="stable")
        weights = self.weights[order]
        above = np.cumsum(weights, axis=1) - weights
        places = np.empty_like(scores)
        np.put_along_axis(places, order, 1 + above, axis=1)
        return np.asarray(places)

    def foreseen(
        self,
        n_steps: int,
        step: int,
        asked: Iterable[tuple[int, int]] = (),
        *,
        scores: bool = False,
    ) -> FloatArray:
        """The expected share of pairs in the wrong order now and after 1, …, n_steps times `step`
        further answers.

        Every answer is that to the question which tells most, a comparison or the score of an item;
        what it will be is averaged over: (n_steps + 1,), not rising. Pairs of rows that were
        `asked` are left out. O(n_steps step m²).
        """
        belief = self._thinned()
        first, second, weights, gaps, now = belief._differences
        covariance = belief.covariance
        left = now
        free = np.ones(len(belief.rows) if scores else len(gaps), dtype=bool)
        if not scores:
            free[belief._numbers(asked)] = False
        shares = [belief.misordered]
        for _ in range(n_steps):
            for _ in range(min(step, int(free.sum()))):
                if scores:
                    gains = score_gains(covariance, 1.0, belief.weights)
                else:
                    gains = information(gaps, left)
                chosen = int(np.argmax(np.where(free, gains, -1.0)))
                free[chosen] = False
                if scores:
                    column = covariance[:, chosen]
                    shrinkage = 1 / (1 + float(column[chosen]))
                else:
                    column = covariance[:, first[chosen]] - covariance[:, second[chosen]]
                    scale = 1 + left[chosen]
                    z = gaps[chosen] / np.sqrt(scale)
                    # that of `after_win`, averaged over both answers
                    shrinkage = np.prod(density_over_probability(np.array([z, -z]))) / scale
                covariance = covariance - np.outer(shrinkage * column, column)
                gone = shrinkage * (column[first] - column[second]) ** 2
                left = np.maximum(left - gone, LEAST_VARIANCE)
            errors = _error_when_known_better(gaps, now, left)
            shares.append(float(np.average(errors, weights=weights)))
        return np.asarray(shares)

    def _thinned(self) -> Belief:
        """Evenly spaced items of a large pool, which stand for the others."""
        m = len(self.rows)
        if m <= MAX_FORESEEN:
            return self
        kept = np.unique(np.linspace(0, m - 1, MAX_FORESEEN).astype(np.int64))
        return Belief(
            self.rows[kept],
            self.weights[kept],
            self.mean[kept],
            self.covariance[np.ix_(kept, kept)],
        )


class _PairDifferences(NamedTuple):
    """Differences of the scores of pairs of a pool.

    first, second : (p,) places of the pool
    weights : (p,) how many pairs of the table each of them stands for
    gaps, variances : (p,) of the differences
    """

    first: Index
    second: Index
    weights: FloatArray
    gaps: FloatArray
    variances: FloatArray


@dataclass(frozen=True)
class Prior:
    """How scores may vary between items before any answer.

    columns : (n, k) standardised columns of all items; k may be 0
    scale : median squared distance between items
    """

    columns: FloatArray
    scale: float

    @classmethod
    def of(cls, columns: FloatArray, seed: int) -> Prior:
        """The prior of items by their standardised columns; distances are those of a sample."""
        rng = np.random.default_rng([seed, 22])
        n = len(columns)
        sample = columns
        if n > MAX_SCALED:
            chosen = rng.choice(n, MAX_SCALED, replace=False)
            sample = columns[np.sort(chosen)]
        pairs = np.triu_indices(len(sample), k=1)
        squares = squared_distances(sample)[pairs]
        positive = squares[squares > 0]
        return cls(columns, float(np.median(positive)) if len(positive) else 0.0)

    @property
    def kernels(self) -> list[tuple[float, float]]:
        """Own shares and widths that come into question."""
        if self.scale == 0:
            return [(1.0, 1.0)]
        kernels = []
        for share in OWN_SHARES:
            widths = WIDTHS if share < 1 else (1.0,)
            kernels += [(share, width) for width in widths]
        return kernels

    def covariance(self, squares: FloatArray, own_share: float, width: float) -> FloatArray:
        """Of the scores of rows with these squared distances (k, k), for scores of variance 1."""
        own = own_share * np.eye(len(squares))
        if own_share == 1:
            return own
        shared = np.exp(squares / (-2 * width**2 * self.scale))
        return np.asarray((1 - own_share) * shared + own)


def squared_distances(rows: FloatArray) -> FloatArray:
    """Between rows: (n, n)."""
    norms = squared_norms(rows)
    squares = norms[:, None] + norms[None, :] - 2 * rows @ rows.T
    return np.asarray(np.maximum(squares, 0.0))


class Beliefs:
    """Beliefs about items after comparisons, averaged over kernels by their evidence.

    Expectation propagation begins where it ended last time, as comparisons are mostly added at the
    end.
    """

    def __init__(self, prior: Prior) -> None:
        self.prior = prior
        self._sites: dict[ScaledKernel, Sites] = {}
        self._outcomes: Index = np.empty((0, 2), dtype=np.int64)  # that the sites stand for
        self._shares: dict[ScaledKernel, float] = {}  # of the kernels when all were looked at
        self._n_looked = 0  # outcomes at that time

    def after(self, outcomes: Index, rows: Index, weights: FloatArray) -> Belief:
        """The belief about a pool of items.

        Parameters
        ----------
        outcomes : (p, 2) rows of the table: winners and losers; a tie is a win for both
        rows, weights : (m,) the pool, as in `Belief`

        O(k³ + p k) per sweep of expectation propagation for k = min(p, r) and r compared items, and
        O(m² k).
        """
        self._extend(outcomes)
        negligible = self._negligible(len(outcomes))
        used = np.union1d(rows, outcomes)
        squares = squared_distances(self.prior.columns[used])
        pool = np.searchsorted(used, rows)
        ends = np.searchsorted(used, outcomes)
        kernels: list[ScaledKernel] = []
        log_evidence: list[float] = []
        moments: list[Moments] = []
        for kernel in self.prior.kernels:
            scaled = [(*kernel, variance) for variance in VARIANCES]
            scaled = [each for each in scaled if each not in negligible]
            if not scaled:
                continue
            covariance = self.prior.covariance(squares, *kernel)
            comparisons = _Comparisons.of(covariance, ends, pool)
            for each in scaled:
                posterior, believed = comparisons.believed(each[-1], self._sites.get(each))
                kernels.append(each)
                log_evidence.append(posterior.log_evidence)
                moments.append(believed)
                self._sites[each] = posterior.sites
        shares = softmax(log_evidence)
        if not negligible:
            self._shares = dict(zip(kernels, shares.tolist(), strict=True))
            self._n_looked = len(outcomes)
        return Belief(rows, weights, *mixture(shares, moments))

    def _negligible(self, n_outcomes: int) -> set[ScaledKernel]:
        """Kernels that had next to no share when all were looked at, not many outcomes ago."""
        n_since = n_outcomes - self._n_looked
        if n_outcomes < FEW_OUTCOMES or not 0 <= n_since < LOOK_EVERY:
            return set()
        return {kernel for kernel, share in self._shares.items() if share < LEAST_SHARE}

    def _extend(self, outcomes: Index) -> None:
        """Make sites that stand for these outcomes: those known, and new ones that say nothing yet."""
        n_known = len(self._outcomes)
        n_new = len(outcomes) - n_known
        if n_new < 0 or not np.array_equal(outcomes[:n_known], self._outcomes):
            self._sites = {}
        elif n_new:
            silent = np.zeros(n_new)
            for kernel, sites in self._sites.items():
                precision = np.concatenate([sites.precision, silent])
                shift = np.concatenate([sites.shift, silent])
                self._sites[kernel] = Sites(precision, shift)
        self._outcomes = outcomes


@dataclass(frozen=True)
class _Comparisons:
    """Comparisons for one kernel, between items with whitened features (·, k).

    cross : (k, m) the pool in terms of these features; unseen : (m, m) what no comparison can tell
        about it
    """

    pairs: PairData
    cross: FloatArray
    unseen: FloatArray

    @classmethod
    def of(cls, covariance: FloatArray, ends: Index, pool: Index) -> _Comparisons:
        """Comparisons (p, 2) between places of a covariance, and the places (m,) of the pool.

        Fewer comparisons than items are made of their differences alone, each compared with one
        item that is 0.
        """
        items, numbers = np.unique(ends, return_inverse=True)
        winners, losers = numbers.reshape(ends.shape).T
        kernel = covariance[np.ix_(items, items)]
        towards = covariance[np.ix_(items, pool)]
        p = len(ends)
        by_difference = p < len(items)
        if by_difference:
            kernel = kernel[winners] - kernel[losers]
            kernel = kernel[:, winners] - kernel[:, losers]
            towards = towards[winners] - towards[losers]
            winners = np.arange(p)
            losers = np.full(p, p)
        features = root = np.linalg.cholesky(add_diagonal(kernel, JITTER))
        if by_difference:
            features = np.vstack([root, np.zeros(p)])
        cross = scipy.linalg.solve_triangular(root, towards, lower=True)
        unseen = covariance[np.ix_(pool, pool)] - cross.T @ cross
        return cls(PairData(features, winners, losers, np.ones(p)), cross, unseen)

    def believed(self, variance: float, sites: Sites | None) -> tuple[SitePosterior, Moments]:
        """The posterior for scores of a variance, found from some sites on, and the mean and
        covariance of the pool.
        """
        size = np.sqrt(variance)
        pairs = replace(self.pairs, features=size * self.pairs.features)
        features = pairs.centred(pairs.features)
        posterior = propagate(features, pairs, sites, tolerance=TOLERANCE, sweeps=MAX_SWEEPS)
        left = scipy.linalg.solve_triangular(posterior.factor, size * self.cross, lower=True)
        mean = size * self.cross.T @ posterior.mean
        return posterior, (mean, variance * self.unseen + left.T @ left)


def _error_when_known_better(gaps: FloatArray, now: FloatArray, then: FloatArray) -> FloatArray:
    """The expected chance of the wrong order of pairs once the variance of their difference has
    gone from now to then.
    """
    resolved = np.sqrt(2 * np.maximum(now - then, 0.0))
    deviations = np.sqrt(then)
    errors = np.zeros(len(gaps))
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        errors += weight * ndtr(-np.abs(gaps + resolved * node) / deviations)
    return np.asarray(errors / np.sqrt(np.pi))


def pairs_within(rows: Iterable[int]) -> list[tuple[int, int]]:
    """All pairs of some rows, the smaller number first."""
    return list(combinations(sorted(rows), 2))
