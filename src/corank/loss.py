"""What is compared with what: the loss ‖J (s − f)‖², L = JᵀJ, never formed.

`Pointwise`, `Queries` and `Blend` say what a query's rows cost; `PerQuery` applies that to given rows.
`Pairs` are explicit comparisons. All of them are linear operators with a root J: see math.md section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from corank._arrays import Array, device, namespace, segment_sum, subtract_symmetric, symmetrised, take
from corank.model_files.packing import storable

Weighting: TypeAlias = Literal["size", "unit", "query"]
WEIGHTINGS: tuple[Weighting, ...] = ("size", "unit", "query")


class Loss(Protocol):
    """What a query costs, given its size: the eigenvalues of its block of L.

    With D the weights of its rows, W their sum and P the projection that takes the weighted mean out, the block is
    D^½ (between·(I − P) + within·P) D^½.
    """

    @property
    def needs_queries(self) -> bool:
        """False where rows count one by one and queries play no part."""
        ...

    def scales(self, weight: Array, count: Array) -> tuple[Array, Array]:
        """(between, within) for queries of total weight (q,) and count (q,)."""
        ...


@storable("Pointwise")
@dataclass(frozen=True)
class Pointwise:
    """Every row for itself, L = D: regression."""

    needs_queries: bool = False

    def scales(self, weight: Array, count: Array) -> tuple[Array, Array]:
        """Both 1."""
        ones = namespace(weight).ones_like(weight)
        return ones, ones


@storable("Queries")
@dataclass(frozen=True)
class WithinQueries:
    """Every row against every other of its query, each unordered pair once: ranking.

    A pair of rows i, j costs w_i·w_j times 1/W ("size"), 1 ("unit") or 1/binom(m, 2) ("query").
    """

    weighting: Weighting = "size"
    needs_queries: bool = True

    def scales(self, weight: Array, count: Array) -> tuple[Array, Array]:
        """Between is 0: the mean of a query costs nothing."""
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
    """beta times the regression loss plus (1 − beta) times the ranking loss (ranking pursuit, section 4)."""

    weighting: Weighting = "size"
    beta: float = 0.5
    needs_queries: bool = True

    def scales(self, weight: Array, count: Array) -> tuple[Array, Array]:
        """The eigenvalues of beta·I + (1 − beta)·L."""
        _, within = WithinQueries(self.weighting).scales(weight, count)
        return self.beta * namespace(weight).ones_like(weight), self.beta + (1 - self.beta) * within


def blend(weighting: Weighting, beta: float) -> Loss:
    """`Queries` for beta = 0, `Pointwise` for beta = 1, `Blend` between."""
    if beta == 0:
        return WithinQueries(weighting)
    return Pointwise() if beta == 1 else Blend(weighting, beta)


class Operator(Protocol):
    """The loss on given rows: J of shape (n_roots, n_rows)."""

    @property
    def n_rows(self) -> int: ...  # noqa: D102
    @property
    def n_roots(self) -> int: ...  # noqa: D102
    @property
    def weight(self) -> float:
        """The total weight of what is compared."""
        ...

    def root(self, x: Array) -> Array:
        """J x for x (n_rows, c): (n_roots, c)."""
        ...

    def root_transposed(self, z: Array) -> Array:
        """Jᵀ z for z (n_roots, c): (n_rows, c)."""
        ...

    def conjugate(self, matrix: Array) -> Array:
        """J K Jᵀ for a symmetric K (n_rows, n_rows), which may be overwritten: (n_roots, n_roots)."""
        ...


class QueryLoss:
    """A comparison on given rows: J = √L, one block a query, O(n) a column.

    Parameters
    ----------
    comparison : Comparison
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
        place = {"device": device(reference)}
        self.queries = xp.zeros(n_rows, dtype=xp.int64, **place) if queries is None else queries
        ones = xp.ones(n_rows, dtype=xp.float64, **place)
        self.root_weights = ones if weights is None else xp.sqrt(weights)
        sums = segment_sum(xp.stack([ones, self.root_weights**2], axis=1), self.queries, n_queries)
        self.counts, self.totals = sums[:, 0], sums[:, 1]
        self.between, self.within = comparison.scales(self.totals, self.counts)

    @property
    def weight(self) -> float:
        """The sum of the rows' weights."""
        return float(namespace(self.totals).sum(self.totals))

    def _project(self, x: Array, between: Array, within: Array) -> Array:
        """(between (I − P) + within P) x, block by block."""
        if not self.comparison.needs_queries:
            return x
        xp = namespace(x)
        direction = self.root_weights / take(xp.sqrt(self.totals), self.queries)
        sums = segment_sum(x, self.queries, self.n_queries, direction)
        shift = take((between - within)[:, None] * sums, self.queries)
        shift *= direction[:, None]
        shift += x if bool(xp.all(within == 1)) else take(within, self.queries)[:, None] * x
        return shift

    def root(self, x: Array) -> Array:
        """J x."""
        xp = namespace(self.within)
        return self._project(self.root_weights[:, None] * x, xp.sqrt(self.between), xp.sqrt(self.within))

    def root_transposed(self, z: Array) -> Array:
        """Jᵀ z."""
        xp = namespace(self.within)
        return self.root_weights[:, None] * self._project(z, xp.sqrt(self.between), xp.sqrt(self.within))

    def conjugate(self, matrix: Array) -> Array:
        """J K Jᵀ for a symmetric K (n, n), which may be overwritten. O(n²)."""
        xp = namespace(matrix)
        factors = self.root_weights * take(xp.sqrt(self.within), self.queries)
        if not bool(xp.all(factors == 1)):
            matrix = factors[:, None] * matrix * factors[None, :]
        if not self.comparison.needs_queries:
            return matrix
        # with J = diag(factors) (I − S D Sᵀ), S the unit vectors of the queries: A − S T − (S T)ᵀ
        damping = 1 - xp.sqrt(self.between / self.within)
        direction = self.root_weights / take(xp.sqrt(self.totals), self.queries)
        sums = segment_sum(matrix, self.queries, self.n_queries, direction)
        inner = segment_sum(sums.T, self.queries, self.n_queries, direction).T
        spread = direction[None, :] * xp.take(inner * damping[None, :], self.queries, axis=1)
        return subtract_symmetric(matrix, direction, damping[:, None] * (sums - spread / 2), self.queries)

    def unroot(self, z: Array) -> Array:
        """The pseudo-inverse of J: unroot(root(x)) = x, up to the mean of a query where that costs nothing."""
        xp = namespace(self.within)
        zeros = xp.zeros_like(self.within)
        inverse = [
            xp.where(a > 0, 1 / xp.sqrt(xp.where(a > 0, a, zeros + 1)), zeros) for a in (self.between, self.within)
        ]
        return self._project(z, *inverse) / self.root_weights[:, None]

    def apply(self, x: Array) -> Array:
        """L x = JᵀJ x, without the root."""
        weighted = self.root_weights[:, None] * x
        return self.root_weights[:, None] * self._project(weighted, self.between, self.within)

    def targets(self, scores: Array) -> Array:
        """J s: (n_roots, 1)."""
        return self.root(scores[:, None])


@dataclass(frozen=True)
class PairLoss:
    """Explicit comparisons, Σ w (margin − (f_winner − f_loser))²: J = W^½ A.

    winners, losers (p,) int64 rows; margins, weights (p,) float64.
    """

    winners: Array
    losers: Array
    margins: Array
    weights: Array
    n_rows: int

    @property
    def n_roots(self) -> int:
        """One a comparison."""
        return int(self.winners.shape[0])

    @property
    def weight(self) -> float:
        """The sum of the comparisons' weights."""
        return float(namespace(self.weights).sum(self.weights))

    def root(self, x: Array) -> Array:
        """J x."""
        return namespace(x).sqrt(self.weights)[:, None] * (take(x, self.winners) - take(x, self.losers))

    def root_transposed(self, z: Array) -> Array:
        """Jᵀ z."""
        weighted = namespace(z).sqrt(self.weights)[:, None] * z
        return segment_sum(weighted, self.winners, self.n_rows) - segment_sum(weighted, self.losers, self.n_rows)

    def conjugate(self, matrix: Array) -> Array:
        """J K Jᵀ for a symmetric K (n, n)."""
        return symmetrised(self.root(self.root(matrix).T))

    def apply(self, x: Array) -> Array:
        """L x = AᵀWA x."""
        return self.root_transposed(self.root(x))

    def targets(self, scores: Any = None) -> Array:
        """W^½ margins: (n_roots, 1)."""
        return (namespace(self.weights).sqrt(self.weights) * self.margins)[:, None]
