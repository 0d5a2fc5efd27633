"""Expectation propagation for comparisons: a Gaussian that stands for the posterior under the
probit likelihood.

Comparison k comes out as it did with probability Φ(g_k), Φ the normal distribution function, for g
= A W c with c ~ N(0, I) the weights of whitened features W (n, r) of the items, and A the
differences of winner and loser. It is replaced by a site, a Gaussian factor in g_k with precision τ
and shift ν; then c ~ N(m, M⁻¹) with M = I + Wᵀ Aᵀ diag(τ) A W, whose eigenvalues are at least 1.
Kernel matrices are never inverted, and A W, a row per comparison, is never held
(docs/mathematics.md, section 3.11).

`PairData` says who beat whom, each pair of winner and loser once: from explicit comparisons, or
from scores within queries; and how the items of new comparisons are matched with those that are
there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Annotated, TypeAlias

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.special import erfcx, log_ndtr, ndtr

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    NumpyArray,
    add_diagonal,
    block_entries,
    cholesky,
    dtype_name,
    in_order,
    is_sparse,
    like,
    namespace,
    runs_of_rows,
    segment_sum,
    solve_lower,
    solve_lower_of_many,
    solve_upper,
    stack_rows,
    symmetric_product,
    take,
    to_numpy,
)
from corank.core.kernels import squared_norms
from corank.core.storable import feature_rows, floats, storable, whole

LOG_ROOT_TAU = 0.5 * np.log(2 * np.pi)
ROOT_2_OVER_PI = float(np.sqrt(2 / np.pi))
TOLERANCE = 1e-9  # of the largest move of a site, in standard deviations of its difference
MAX_SWEEPS = 1_000  # after which the posterior is returned as it is
ROUNDED_RESIDUAL = 1e-6  # below which rounding may keep the residual from falling
# without a residual lower by a tenth, after which it counts as kept by rounding
STALLED_SWEEPS = 100
MIN_FACTOR, MAX_FACTOR = 0.5, 1.3  # of the damping of a site from one sweep to the next
# in which the damping follows what is left of the last move; after them it only shrinks or grows
BOLD_SWEEPS = 20
MIN_DAMPING = 0.01  # a site always moves by some of the way
# of the precision that is left once a site is taken out, for sites that say nearly everything
MIN_CAVITY_SHARE = 1e-12
BLOCK_ENTRIES = 2**17  # values of comparisons at a time: they stay in the cache
PRODUCT_ENTRIES = 2**19  # values of items that one thread sums over their opponents


# log probability of answers whose differences are normal, its slope in their mean and minus its bend
Likelihood: TypeAlias = Callable[
    [FloatArray, FloatArray], tuple[FloatArray, FloatArray, FloatArray]
]


@dataclass(frozen=True)
class Sites:
    """The sites that stand for the comparisons: precisions and shifts, (N,) each."""

    precision: FloatArray
    shift: FloatArray


@dataclass(frozen=True)
class SitePosterior:
    """The Gaussian over the weights c: mean (r,), lower Cholesky factor L (r, r) of M, and how it
    came about.

    spread : (n, r) = W L⁻ᵀ, whose rows' squares add up to the variances of the items
    differences, variances : (N,) mean and variance of g
    counts : (N,) how often each comparison was made
    """

    mean: Array
    factor: Array
    spread: Array
    differences: FloatArray
    variances: FloatArray
    sites: Sites
    counts: FloatArray
    log_evidence: float
    sweeps: int
    residual: float

    @property
    def slopes(self) -> FloatArray:
        """β, the inverse of the covariance of g before any comparison times the mean of g, without
        that inverse: (N,).
        """
        sites = self.sites
        return self.counts * (sites.shift - sites.precision * self.differences)


def propagate(
    features: Array,
    pairs: PairData,
    start: Sites | None = None,
    *,
    likelihood: Likelihood | None = None,
    learn: Callable[[SitePosterior], tuple[Array, Likelihood, float]] | None = None,
    tolerance: float = TOLERANCE,
    sweeps: int = MAX_SWEEPS,
) -> SitePosterior:
    """The posterior at the fixed point of all sites, updated side by side, each damped where it
    swings.

    O(n r² + N r) per sweep.

    Parameters
    ----------
    features : (n, r) whitened features of the items, centred: see `PairData.centred`
    pairs : N comparisons between the items, each with as many sites, which are alike, as it was
        made
    start : sites to begin with, those of other kernel parameters; None for sites that say nothing
    likelihood : of answers, where that is not probit
    learn : gives other features and another likelihood after every sweep, and how far it moved
    """
    n = len(pairs)
    sites = Sites(np.zeros(n), np.zeros(n)) if start is None else start
    damping = np.ones(n)
    last_moves = None
    moved = 0.0 if learn is None else np.inf
    least_residual = np.inf
    least_at = 0
    for sweep in range(1, sweeps + 1):
        posterior, new, moves = _sweep(features, pairs, sites, sweep, likelihood)
        if posterior.residual < 0.9 * least_residual:
            least_residual = posterior.residual
            least_at = sweep
        stalled = least_residual < ROUNDED_RESIDUAL and sweep - least_at >= STALLED_SWEEPS
        settled = posterior.residual <= tolerance and moved <= tolerance
        if settled or stalled or sweep == sweeps:
            return posterior
        if last_moves is not None:
            damping = _damped(damping, moves, last_moves, cautious=sweep > BOLD_SWEEPS)
        last_moves = moves
        sites = Sites(
            sites.precision + damping * (new.precision - sites.precision),
            sites.shift + damping * (new.shift - sites.shift),
        )
        if learn is not None:
            features, likelihood, moved = learn(posterior)
    raise AssertionError("at least one sweep is made")


def _damped(
    damping: FloatArray, moves: FloatArray, last_moves: FloatArray, *, cautious: bool
) -> FloatArray:
    """The next damping of each site (N,), by the share of its last move that is still to be made;
    moves are (2, N).

    Were the update linear along a move, damping / (1 − share) would leave nothing to be made.
    """
    share = np.sum(moves * last_moves, axis=0) / np.maximum(
        np.sum(last_moves * last_moves, axis=0), 1e-300
    )
    if cautious:
        factor = np.where(share < 0, MIN_FACTOR, MAX_FACTOR)
    else:
        factor = 1 / np.clip(1 - share, 1 / MAX_FACTOR, 1 / MIN_FACTOR)
    return np.clip(damping * factor, MIN_DAMPING, 1.0)


def _sweep(
    features: Array, pairs: PairData, sites: Sites, number: int, likelihood: Likelihood | None
) -> tuple[SitePosterior, Sites, FloatArray]:
    """The posterior under the sites, the sites that match it, and the moves to them (2, N), in
    standard deviations.
    """
    xp = namespace(features)
    counts = pairs.counts
    turned = xp.matrix_transpose(features)
    inner = symmetric_product(features, pairs.laplacian_product(counts * sites.precision, features))
    factor = cholesky(add_diagonal(inner, 1.0))
    half = solve_lower(
        factor, turned @ pairs.transposed(like(counts * sites.shift, features)[:, None])
    )
    # no eigenvalue of M is below 1
    spread = xp.matrix_transpose(solve_lower_of_many(factor, turned))
    differences = to_numpy(pairs.apply(spread @ half))[:, 0]
    variances = pairs.squared_distances(spread)
    new, evidence = _matched(differences, variances, sites, likelihood)
    weights = solve_upper(xp.matrix_transpose(factor), half)[:, 0]
    log_evidence = (
        0.5 * float(xp.sum(half * half))
        - float(xp.sum(xp.log(xp.linalg.diagonal(factor))))
        + float(np.sum(counts * evidence))
    )
    moves = np.stack(
        [
            (new.precision - sites.precision) * variances,
            (new.shift - sites.shift) * np.sqrt(variances),
        ]
    )
    residual = float(np.max(np.abs(moves), initial=0.0))
    posterior = SitePosterior(
        weights,
        factor,
        spread,
        differences,
        variances,
        sites,
        counts,
        log_evidence,
        number,
        residual,
    )
    return posterior, new, moves


def density_over_probability(z: FloatArray) -> FloatArray:
    """Normal density over normal distribution function at z, to the last digits also far below 0."""
    below = np.minimum(z, 0.0)
    above = np.maximum(z, 0.0)
    return np.asarray(
        np.where(
            z < 0,
            ROOT_2_OVER_PI / erfcx(-below / 2**0.5),
            np.exp(-0.5 * above**2 - LOG_ROOT_TAU) / ndtr(above),
        )
    )


def cavities(
    mean: FloatArray, variance: FloatArray, sites: Sites
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean and variance of every difference once its site is taken out, and the share of the
    precision that is left: (N,) each.

    Written without 1/variance, which is infinite for two items that are equal.
    """
    kept = np.maximum(1 - variance * sites.precision, MIN_CAVITY_SHARE)
    return (mean - variance * sites.shift) / kept, variance / kept, kept


def probit(mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The log probability of comparisons whose differences are normal, its slope in their mean
    and minus its bend.
    """
    scale = np.sqrt(1 + variance)
    z = mean / scale
    ratio = density_over_probability(z)
    return log_ndtr(z), ratio / scale, np.clip(ratio * (z + ratio), 0.0, 1.0) / scale**2


def _matched(
    mean: FloatArray, variance: FloatArray, sites: Sites, likelihood: Likelihood | None
) -> tuple[Sites, FloatArray]:
    """Sites whose Gaussian has the moments of the cavity times the likelihood, and the share of
    each in the log evidence.
    """
    cavity_mean, cavity_variance, kept = cavities(mean, variance, sites)
    log_probability, slope, bend = (likelihood or probit)(cavity_mean, cavity_variance)
    left = 1 - cavity_variance * bend
    new = Sites(bend / left, (slope + cavity_mean * bend) / left)
    gap = sites.precision * mean**2 - 2 * mean * sites.shift + variance * sites.shift**2
    return new, log_probability - 0.5 * np.log(kept) + 0.5 * gap / kept


# ---------------------------------------------------------------- pairs of winners and losers


@storable("Compared")
@dataclass(frozen=True)
class PairData:
    """Comparisons between items, each pair of winner and loser once.

    features : (n, d) the items
    winners, losers : (N,) row numbers of the items
    counts : (N,) how often each comparison was made, whole numbers
    """

    features: Annotated[Array, feature_rows("i", "d")]
    winners: Annotated[Index, whole("c", below="i")]
    losers: Annotated[Index, whole("c", below="i")]
    counts: Annotated[FloatArray, floats("c")]

    @classmethod
    def merged(cls, features: Array, winners: Index, losers: Index, counts: FloatArray) -> PairData:
        """From comparisons in which a pair may come several times."""
        n = features.shape[0]
        codes, places = np.unique(winners * n + losers, return_inverse=True)
        return cls(
            features,
            codes // n,
            codes % n,
            np.bincount(places, weights=counts, minlength=len(codes)).astype(np.float64),
        )

    def __len__(self) -> int:
        return len(self.winners)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.features.shape[0])

    def apply(self, rows: Array, span: slice = slice(None)) -> Array:
        """Winner less loser, (N, c), of values at the items (n, c); `span`: for these comparisons
        only.
        """
        return take(rows, self.winners[span]) - take(rows, self.losers[span])

    def transposed(self, values: Array) -> Array:
        """The transpose of `apply`: (N, c) → (n, c)."""
        ends = [like(rows, values, "int64") for rows in (self.winners, self.losers)]
        return segment_sum(values, ends[0], self.n_items) - segment_sum(
            values, ends[1], self.n_items
        )

    def spans(self, rows: Array) -> list[slice]:
        """All comparisons in blocks whose values of `apply(rows)` fit into the cache."""
        width = int(rows.nnz) // max(1, self.n_items) if is_sparse(rows) else rows.shape[1]
        step = max(1, block_entries(rows, BLOCK_ENTRIES) // max(1, width))
        return runs_of_rows(len(self), step)

    def squared_distances(self, rows: Array) -> FloatArray:
        """The squared lengths of `apply(rows)`, (N,), of which only a block is held at a time."""
        distances = np.empty(len(self))

        def write(span: slice) -> None:
            distances[span] = to_numpy(squared_norms(self.apply(rows, span)))

        for _ in in_order(write, self.spans(rows), rows):
            pass
        return distances

    def laplacian_product(self, weights: FloatArray, rows: Array) -> Array:
        """Aᵀ diag(weights) A rows, (n, c), for weights (N,), rows (n, c) and A the matrix of
        `apply`. O((n + N) c).
        """
        if not isinstance(rows, np.ndarray):
            column = like(weights, rows)[:, None]
            step = max(1, block_entries(rows, BLOCK_ENTRIES) // max(1, len(self)))
            spans = runs_of_rows(rows.shape[1], step)
            return namespace(rows).concat(
                [self.transposed(column * self.apply(rows[:, span])) for span in spans], axis=1
            )
        order, others, bounds = self._neighbours
        degrees = np.bincount(self.winners, weights, self.n_items) + np.bincount(
            self.losers, weights, self.n_items
        )
        adjacency = sparse.csr_array(
            (np.tile(weights, 2)[order], others, bounds), shape=(self.n_items,) * 2
        )
        product: Array = np.empty(rows.shape)
        step = max(1, PRODUCT_ENTRIES // max(1, rows.shape[1]))

        def write(span: slice) -> None:
            np.multiply(degrees[span, None], rows[span], out=product[span])
            product[span] -= adjacency[span] @ rows

        for _ in in_order(write, runs_of_rows(self.n_items, step), rows):
            pass
        return product

    @cached_property
    def _neighbours(self) -> tuple[Index, Index, Index]:
        """A CSR matrix whose rows are the items and whose entries their opponents, in place `order`
        of winners and losers.

        Returns order (2N,), opponents (2N,) and the bounds of each item's entries (n + 1,).
        """
        items, others = np.concatenate(
            [[self.winners, self.losers], [self.losers, self.winners]], axis=1
        )
        order = np.argsort(items, kind="stable")
        return order, others[order], np.searchsorted(items[order], np.arange(self.n_items + 1))

    @cached_property
    def parts(self) -> Index:
        """The number of each item's part: the items that chains of comparisons connect with it.
        (n,)
        """
        graph = sparse.csr_array(
            (np.ones(len(self)), (self.winners, self.losers)), shape=(self.n_items,) * 2
        )
        return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)

    @property
    def n_parts(self) -> int:
        """Number of parts; items without comparisons do not count."""
        return len(np.unique(self.parts[self.winners]))

    def centred(self, rows: Array) -> Array:
        """Rows (n, c) less the mean of their part, which no comparison sees: sums of large values
        would be rounded.
        """
        parts = like(self.parts, rows, "int64")
        sizes = np.bincount(self.parts)
        return rows - take(
            segment_sum(rows, parts, len(sizes)) / like(sizes, rows)[:, None], self.parts
        )

    def extended(
        self, features: Array, winners: Index, losers: Index, counts: FloatArray
    ) -> PairData:
        """With more comparisons, between items (m, d) that may be among those that are there."""
        items, first, second = joined_items(self.features, features, winners, losers)
        return PairData.merged(
            items,
            np.concatenate([self.winners, first]),
            np.concatenate([self.losers, second]),
            np.concatenate([self.counts, counts]),
        )


def joined_items(
    items: Array, features: Array, winners: Index, losers: Index
) -> tuple[Array, Index, Index]:
    """Items (n, d) with those compared rows (p,) of other items (m, d) that are not among them, and
    the places of both.

    Items with equal features are one item.
    """
    used, ends = np.unique(np.concatenate([winners, losers]), return_inverse=True)
    features = take(features, used)
    if is_sparse(items) != is_sparse(features):
        features = sparse.csr_array(features) if is_sparse(items) else features.toarray()
    if not is_sparse(features):
        features = like(features, items, dtype_name(items))
    numbers = {key: row for row, key in reversed(list(enumerate(_keys(items))))}
    places = np.zeros(len(used), dtype=np.int64)
    new_rows: list[int] = []
    for row, key in enumerate(_keys(features)):
        if key not in numbers:
            numbers[key] = items.shape[0] + len(new_rows)
            new_rows.append(row)
        places[row] = numbers[key]
    if new_rows:
        items = stack_rows([items, take(features, np.asarray(new_rows))])
    return items, places[ends[: len(winners)]], places[ends[len(winners) :]]


def _keys(features: Array) -> list[bytes]:
    """One key per row, equal for equal rows: its bytes, and for CSR those of its entries in order
    of columns.
    """
    if is_sparse(features):
        tidy = sparse.csr_array(features)
        tidy.sum_duplicates()
        tidy.eliminate_zeros()
        columns = tidy.indices.astype(np.int64)
        keys = []
        for begin, end in pairwise(tidy.indptr):
            keys.append(columns[begin:end].tobytes() + tidy.data[begin:end].tobytes())
        return keys
    return [row.tobytes() for row in np.ascontiguousarray(to_numpy(features) + 0.0)]  # + 0: −0 is 0


def untied_pairs(
    scores: FloatArray, queries: Index, most: int, seed: int, first_new: int = 0
) -> tuple[Index, Index]:
    """Winners and losers: pairs of rows of one query with different scores, each once; a seeded
    sample of `most`.

    Pairs of two rows before `first_new` are left out. Pairs that are not taken are not listed: O(n
    log n + most).
    """
    order = np.lexsort((scores, queries))
    new = order >= first_new
    new_before = np.concatenate([[0], np.cumsum(new)])
    new_places = np.flatnonzero(new)
    query = _begins(queries[order])
    group = _begins(queries[order], scores[order])
    # how many rows each row beats: all below it if it is new, else the new ones below it
    beaten = np.where(new, group - query, new_before[group] - new_before[query])
    ends = np.cumsum(beaten)
    total = int(ends[-1]) if len(ends) else 0
    chosen = np.arange(total)
    if total > most:
        chosen = np.sort(np.random.default_rng(seed).choice(total, size=most, replace=False))
    winner = np.searchsorted(ends, chosen, side="right")
    number = chosen - (ends - beaten)[winner]
    among_new = new_places[
        np.minimum(new_before[query[winner]] + number, max(len(new_places) - 1, 0))
    ]
    loser = np.where(new[winner], query[winner] + number, among_new)
    return order[winner], order[loser]


def _begins(*keys: NumpyArray) -> Index:
    """For each of n places the beginning of its run of equal keys: (n,)."""
    n = len(keys[0])
    starts = np.zeros(n, dtype=bool)
    starts[:1] = True
    for key in keys:
        starts[1:] |= key[1:] != key[:-1]
    return (
        np.maximum.accumulate(np.where(starts, np.arange(n), 0))
        if n
        else np.zeros(0, dtype=np.int64)
    )
