"""One view pulled towards given values on shared rows: a block of 001 Algorithm 1 that never sees the other views."""

from __future__ import annotations

from collections.abc import Iterator

from corank._backend import Array, add_diagonal, cholesky, namespace, take
from corank.basis import Basis
from corank.comparison import PerQuery
from corank.problem import ScoredRows
from corank.solvers.coordinate import solve_factored
from corank.solvers.direct import PrimalSystem
from corank.statistics import Gram

HELD = 1 << 26  # kernel values between shared rows and basis that are kept: 512 MB
BLOCK_ROWS = 4096


class PulledView:
    """min ‖J (s − offset − h)‖² + alpha ‖h‖² + pull ‖J̄ (h − target)‖² over h = Φ W c, for any pull and target.

    With G = B + alpha I + pull C: G c = b + pull Wᵀ Φ̄ᵀ L̄ target. C takes one pass over the shared rows, O(m r (r + d));
    a pull O(r³/3), once; a target O(m r + r²).

    Parameters
    ----------
    basis : Basis of r functions, with the whitening W (r, r') that `gram` was gathered with
    gram : sums over the scored rows, B and b, on whitened features
    offset : what was taken out of the scores
    alpha : float > 0
    shared : the m shared rows and their comparison; their scores do not matter
    """

    def __init__(self, basis: Basis, gram: Gram, offset: float, alpha: float, shared: ScoredRows) -> None:
        self.basis, self.gram, self.offset, self.alpha = basis, gram, offset, alpha
        self.rows = shared.features
        self.operator: PerQuery = shared.operator
        self.right = gram.right(offset)
        self.sums = PrimalSystem.gathered(shared, basis).gram.features  # C
        self._held = self._blocks() if self.n_shared * basis.size <= HELD else None
        self._pull = -1.0
        self._factor: Array | None = None

    @property
    def n_shared(self) -> int:
        """m."""
        return int(self.rows.shape[0])

    def _blocks(self) -> list[Array]:
        return list(self._made())

    def _made(self) -> Iterator[Array]:
        for begin in range(0, self.n_shared, BLOCK_ROWS):
            yield self.basis.features(take(self.rows, slice(begin, min(begin + BLOCK_ROWS, self.n_shared))))

    def _features(self) -> Iterator[Array]:
        """Φ̄, block by block: made anew where there is too much of it to keep."""
        yield from self._made() if self._held is None else self._held

    def solve(self, pull: float, target: Array) -> Array:
        """Whitened coefficients (r', 1) for a target (m, 1)."""
        if self._factor is None or pull != self._pull:
            self._factor, self._pull = cholesky(add_diagonal(self._matrix(pull), self.alpha)), pull
        return solve_factored(self._factor, self._pulled(pull, target))

    def gradient(self, white: Array, pull: float, target: Array) -> Array:
        """G c − b − pull Wᵀ Φ̄ᵀ L̄ target: half the slope of the objective, (r', 1)."""
        return self._matrix(pull) @ white + self.alpha * white - self._pulled(pull, target)

    def _matrix(self, pull: float) -> Array:
        return self.gram.features + pull * self.sums

    def _pulled(self, pull: float, target: Array) -> Array:
        if pull == 0:
            return self.right
        weighed = self.operator.apply(target)
        parts, begin = [], 0
        for block in self._features():
            end = begin + int(block.shape[0])
            parts.append(block.T @ weighed[begin:end, :])
            begin = end
        return self.right + pull * (self.basis.whitening.matrix.T @ sum(parts[1:], parts[0]))

    def values(self, white: Array) -> Array:
        """h on the shared rows: (m, 1)."""
        coefficients = self.coefficients(white)
        return namespace(white).concat([block @ coefficients for block in self._features()], axis=0)

    def coefficients(self, white: Array) -> Array:
        """Of the basis: (r, 1)."""
        return self.basis.whitening.matrix @ white

    def loss(self, white: Array) -> float:
        """‖J (s − offset − h)‖² on the scored rows."""
        return float(self.gram.loss(white, self.offset)[0])

    def norm(self, white: Array) -> float:
        """‖h‖."""
        return float(namespace(white).linalg.vector_norm(white))

    def compared(self, values: Array) -> Array:
        """Values (m, 1) less what no comparison sees: the mean of a query, where that costs nothing."""
        return self.operator.unroot(self.operator.root(values))
