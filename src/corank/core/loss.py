"""The loss ‖J (s − f)‖², with L = JᵀJ never formed: docs/mathematics.md, section 3.

`Pointwise`, `WithinQueries` and `Blend` say what errors in the rows of a query cost; `QueryLoss`
applies that to given rows. `PairLoss` is the loss of explicit comparisons. Both are linear
operators with a root J. D are the weights of rows, W their sum over a query, P the projection that
takes the weighted mean out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from corank.core.arrays import (
    Array,
    inverse_where,
    like,
    namespace,
    segment_sum,
    subtract_symmetric,
    symmetrised,
    take,
)
from corank.core.storable import storable

Weighting: TypeAlias = Literal["size", "unit", "query"]
WEIGHTINGS: tuple[Weighting, ...] = ("size", "unit", "query")


@storable("Pointwise")
@dataclass(frozen=True)
class Pointwise:
    """Regression: every row for itself, L = D."""

    needs_queries: bool = False

    def scales(self, weight: Array, count: Array) -> tuple[Array, Array]:
        """1 and 1: errors of the mean and within the query cost the same."""
        ones = namespace(weight).ones_like(weight)
        return ones, ones


@storable("Queries")
@dataclass(frozen=True)
class WithinQueries:
    """Ranking: every row against every other row of its query, each unordered pair once.

    A pair of rows i, j costs w_i·w_j times 1/W ("size"), 1 ("unit") or 1/binom(m, 2) ("query").
    """

    weighting: Weighting = "size"
    needs_queries: bool = True

    def scales(self, weight: Array, count: Array) -> tuple[Array, Array]:
        """(between, within); between is 0, as the mean of a query costs nothing."""
        xp = namespace(weight)
        zeros, ones = xp.zeros_like(weight), xp.ones_like(weight)
        if self.weighting == "size":
            return zeros, ones
        if self.weighting == "unit":
            return zeros, weight
        return zeros, 2 / xp.where(count > 1, count - 1, ones)


@storable("Blend")
@dataclass(frozen=True)
class Blend:
    """beta times the regression loss plus (1 − beta) times the ranking loss: docs/mathematics.md,
    section 4.
    """

    weighting: Weighting = "size"
    beta: float = 0.5
    needs_queries: bool = True

    def scales(self, weight: Array, count: Array) -> tuple[Array, Array]:
        """(between, within): the eigenvalues of beta·I + (1 − beta)·L."""
        _, within = WithinQueries(self.weighting).scales(weight, count)
        return self.beta * namespace(weight).ones_like(weight), self.beta + (1 - self.beta) * within


Loss: TypeAlias = Pointwise | WithinQueries | Blend


def blend(weighting: Weighting, beta: float) -> Loss:
    """`WithinQueries` for beta = 0, `Pointwise` for beta = 1, `Blend` between."""
    if beta == 0:
        return WithinQueries(weighting)
    return Pointwise() if beta == 1 else Blend(weighting, beta)


class QueryLoss:
    """A loss on given rows: J = √L, one block per query, O(n) per column.

    Parameters
    ----------
    comparison : Loss
    queries : (n,) int64 codes, or None for one query
    n_queries : int
    weights : (n,) float64, or None for ones
    reference : any array of the library and device to compute on
    n_rows : int
    """

    def __init__(
        self,
        comparison: Loss,
        queries: Array | None,
        n_queries: int,
        weights: Array | None,
        reference: Array,
        n_rows: int,
    ) -> None:
        xp = namespace(reference)
        self.comparison = comparison
        self.n_rows = self.n_roots = n_rows
        self.n_queries = n_queries
        self.queries = like(np.zeros(n_rows), reference, "int64") if queries is None else queries
        ones = like(np.ones(n_rows), reference)
        self.root_weights = ones if weights is None else xp.sqrt(weights)
        sums = segment_sum(xp.stack([ones, self.root_weights**2], axis=1), self.queries, n_queries)
        self.counts, self.totals = sums[:, 0], sums[:, 1]
        self.weight = float(xp.sum(self.totals))  # of all rows
        self.between, self.within = comparison.scales(self.totals, self.counts)
        self._roots = xp.sqrt(self.between), xp.sqrt(self.within)
        # unit vectors of the levels of all queries, (n,): U has them as its columns, zeros elsewhere
        self.direction = self.root_weights / take(xp.sqrt(self.totals), self.queries)

    def _project(self, x: Array, between: Array, within: Array) -> Array:
        """(between (I − P) + within P) x, query by query."""
        if not self.comparison.needs_queries:
            return x
        xp = namespace(x)
        if self.n_queries == 1:
            shift = self.direction[:, None] * ((between - within) * (self.direction @ x))[None, :]
        else:
            sums = segment_sum(x, self.queries, self.n_queries, self.direction)
            shift = take((between - within)[:, None] * sums, self.queries)
            shift *= self.direction[:, None]
        shift += x if bool(xp.all(within == 1)) else take(within, self.queries)[:, None] * x
        return shift

    def root(self, x: Array) -> Array:
        """J x."""
        return self._project(self.root_weights[:, None] * x, *self._roots)

    def root_transposed(self, z: Array) -> Array:
        """Jᵀ z."""
        return self.root_weights[:, None] * self._project(z, *self._roots)

    def conjugate(self, matrix: Array) -> Array:
        """J K Jᵀ for a symmetric K (n, n), which may be overwritten. O(n²)."""
        xp = namespace(matrix)
        factors = self.root_weights * take(xp.sqrt(self.within), self.queries)
        if not xp.all(factors == 1):
            matrix = factors[:, None] * matrix * factors[None, :]
        if not self.comparison.needs_queries:
            return matrix
        # With J = diag(factors) (I − U diag(damping) Uᵀ), U (n, q) the unit vectors `direction` of
        # the queries, this is A − U T − (U T)ᵀ for A = `matrix` and T = diag(damping) (Uᵀ A − ½ Uᵀ
        # A U diag(damping) Uᵀ).
        damping = 1 - xp.sqrt(self.between / self.within)
        direction = self.direction
        sums = segment_sum(matrix, self.queries, self.n_queries, direction)
        inner = segment_sum(sums.T, self.queries, self.n_queries, direction).T
        spread = direction[None, :] * xp.take(inner * damping[None, :], self.queries, axis=1)
        rows = damping[:, None] * (sums - spread / 2)
        return subtract_symmetric(matrix, direction, rows, self.queries)

    def unroot(self, z: Array) -> Array:
        """The pseudo-inverse of J: unroot(root(x)) = x, up to the mean of a query where that costs
        nothing.
        """
        inverses = (inverse_where(root > 0, root) for root in self._roots)
        return self._project(z, *inverses) / self.root_weights[:, None]

    def apply(self, x: Array) -> Array:
        """L x = JᵀJ x, without the root."""
        weighted = self.root_weights[:, None] * x
        return self.root_weights[:, None] * self._project(weighted, self.between, self.within)

    def targets(self, scores: Array) -> Array:
        """J s: (n_roots, 1)."""
        return self.root(scores[:, None])


@dataclass(frozen=True)
class GraphLoss:
    """The loss of scores plus that of comparisons between these rows and others: both roots below
    each other.

    places : (n,) int64, the rows with scores among all
    """

    scores: QueryLoss
    edges: PairLoss
    places: Array

    @property
    def n_roots(self) -> int:
        """Number of scores and comparisons."""
        return self.scores.n_roots + self.edges.n_roots

    @property
    def weight(self) -> float:
        """The sum of the weights of both."""
        return self.scores.weight + self.edges.weight

    def root(self, x: Array) -> Array:
        """J x."""
        roots = [self.scores.root(take(x, self.places)), self.edges.root(x)]
        return namespace(x).concat(roots, axis=0)

    def root_transposed(self, z: Array) -> Array:
        """Jᵀ z."""
        n, edges = self.scores.n_roots, self.edges
        scored = segment_sum(self.scores.root_transposed(z[:n, :]), self.places, edges.n_rows)
        return scored + edges.root_transposed(z[n:, :])

    def conjugate(self, matrix: Array) -> Array:
        """J K Jᵀ for a symmetric K (n, n)."""
        return symmetrised(self.root(self.root(matrix).T))


@dataclass(frozen=True)
class PairLoss:
    """The loss of explicit comparisons, Σ w (margin − (f_winner − f_loser))²: J = diag(w)^½ A.

    winners, losers : (p,) int64 rows; margins, weights : (p,) float64
    """

    winners: Array
    losers: Array
    margins: Array
    weights: Array
    n_rows: int

    @property
    def n_roots(self) -> int:
        """Number of comparisons."""
        return int(self.winners.shape[0])

    @property
    def weight(self) -> float:
        """The sum of the weights of the comparisons."""
        return float(namespace(self.weights).sum(self.weights))

    def root(self, x: Array) -> Array:
        """J x."""
        gaps = take(x, self.winners) - take(x, self.losers)
        return namespace(x).sqrt(self.weights)[:, None] * gaps

    def root_transposed(self, z: Array) -> Array:
        """Jᵀ z."""
        weighted = namespace(z).sqrt(self.weights)[:, None] * z
        won, lost = (
            segment_sum(weighted, rows, self.n_rows) for rows in (self.winners, self.losers)
        )
        return won - lost

    def conjugate(self, matrix: Array) -> Array:
        """J K Jᵀ for a symmetric K (n, n)."""
        return symmetrised(self.root(self.root(matrix).T))

    def apply(self, x: Array) -> Array:
        """L x = Aᵀ diag(w) A x."""
        return self.root_transposed(self.root(x))

    def targets(self) -> Array:
        """The margins times the roots of the weights: (n_roots, 1)."""
        return (namespace(self.weights).sqrt(self.weights) * self.margins)[:, None]
