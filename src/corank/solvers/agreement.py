"""Several views that must agree on unscored rows: 000 eq. 14-18 and 001 def. 3.1, 3.2, in primal and dual form.

    min Σ_v ‖J_v (s_v − f_v)‖² + alpha Σ_v ρ_v ‖f_v‖² + 2·agreement Σ_{u<v} ‖J̄ (f_v − f_u)‖²

Both systems answer the same questions; views, comparisons and bases are made elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from corank._backend import Array, device, eigh, like, namespace, take
from corank.basis import Basis, FeatureMap, KernelBasis
from corank.comparison import Comparison, PerQuery
from corank.problem import FloatArray, ScoredRows
from corank.solvers.direct import PrimalSystem, Spectrum, solve_shifted
from corank.solvers.holdout import in_place, leave_out
from corank.statistics import N_TARGETS, Index, gather


@dataclass(frozen=True)
class ViewData:
    """One view of the data: its scored rows under their loss, its look at the unscored rows, its basis."""

    problem: ScoredRows
    unscored: Array  # (m, d_v)
    basis: Basis
    penalty: float = 1.0


@dataclass(frozen=True)
class Unscored:
    """How views are compared on the unscored rows: (m,) query codes or None."""

    comparison: Comparison
    queries: Index | None
    n_queries: int
    n_rows: int


class AgreementSystem(Protocol):
    """A loss waiting for its alpha and its agreement."""

    @property
    def scale(self) -> float:
        """What alpha is measured against."""
        ...

    @property
    def agreement_scale(self) -> float:
        """What agreement is measured against: there both losses weigh the same."""
        ...

    def solve(self, alpha: float, agreement: float, offset: float) -> list[Array]:
        """Coefficients of every view's basis for one pair of parameters: a list of (r_v, 1)."""
        ...

    def path(self, alphas: FloatArray, agreement: float, offset: float) -> list[Array]:
        """Coefficients of every view's basis for every alpha: a list of (r_v, a)."""
        ...

    def residuals(self, alphas: FloatArray, agreement: float, offsets: FloatArray, blocks: Sequence[Index]) -> Array:
        """Held-out root residuals of the views' scored rows, stacked: (Σ n_v, a)."""
        ...


def contrasts(n_views: int) -> FloatArray:
    """H: (M − 1, M) orthonormal rows orthogonal to 1, so that Σ_{u<v} (f_v − f_u)² = M ‖H f‖²."""
    rows = [np.r_[np.ones(k), -k, np.zeros(n_views - k - 1)] / np.sqrt(k * (k + 1)) for k in range(1, n_views)]
    return np.reshape(rows, (n_views - 1, n_views))


class PrimalAgreement:
    """(B + alpha I + 2·agreement D) c = b on whitened features of all views side by side. One pass over each set of rows.

    B is block diagonal (scored rows), D has (M − 1) C_vv on and −C_uv off the diagonal, C the sums over unscored rows.
    Scored rows O(n Σ r_v²), unscored rows O(m (Σ r_v)²), a pair of parameters O((Σ r_v)³).
    """

    def __init__(self, views: Sequence[ViewData], unscored: Unscored) -> None:
        self.views = views
        self.maps = [_scaled(view) for view in views]
        self.grams = [PrimalSystem.gathered(view.problem, view.basis).gram for view in views]
        self.widths = [int(white.shape[1]) for white in self.maps]
        self.ends = np.cumsum([0, *self.widths])
        self.scored = _block_diagonal(
            [gram.features / view.penalty for gram, view in zip(self.grams, views, strict=True)]
        )
        self.disagreement = self._disagreement(unscored)

    def _disagreement(self, unscored: Unscored) -> Array:
        """D: (Σ r_v, Σ r_v)."""
        xp = namespace(self.scored)
        if unscored.n_rows == 0 or len(self.views) == 1:
            return xp.zeros_like(self.scored)
        features = [FeatureMap(view.basis) for view in self.views]

        def side_by_side(rows: Index) -> Array:
            return xp.concat([phi(take(v.unscored, rows)) for phi, v in zip(features, self.views, strict=True)], axis=1)

        zeros = xp.zeros(unscored.n_rows, dtype=xp.float64, device=device(self.scored))
        sums = gather(
            np.arange(unscored.n_rows),
            zeros,
            unscored.queries,
            None,
            unscored.comparison,
            side_by_side,
            sum(phi.size for phi in features),
        ).total()
        finish = _block_diagonal(
            [
                xp.eye(w, dtype=xp.float64, device=device(zeros)) / float(np.sqrt(v.penalty)) if phi.whitened else white
                for phi, white, w, v in zip(features, self.maps, self.widths, self.views, strict=True)
            ]
        )
        joint = finish.T @ sums.matrix[:-N_TARGETS, :-N_TARGETS] @ finish
        m = len(self.views)
        signs = like(np.repeat(np.repeat(m * np.eye(m) - 1, self.widths, axis=0), self.widths, axis=1), joint)
        return signs * joint

    @property
    def scale(self) -> float:
        """trace(B) over the weight of the rows."""
        trace = float(namespace(self.scored).linalg.trace(self.scored))
        return trace / sum(gram.weight for gram in self.grams)

    @property
    def agreement_scale(self) -> float:
        """trace(B) / trace(2 D)."""
        xp = namespace(self.scored)
        spread = 2 * float(xp.linalg.trace(self.disagreement))
        return float(xp.linalg.trace(self.scored)) / spread if spread > 0 else 0.0

    def _matrix(self, agreement: float) -> Array:
        return self.scored + 2 * agreement * self.disagreement

    def _right(self, offset: float) -> Array:
        parts = [g.right(offset) / float(np.sqrt(v.penalty)) for g, v in zip(self.grams, self.views, strict=True)]
        return namespace(self.scored).concat(parts, axis=0)

    def path(self, alphas: FloatArray, agreement: float, offset: float) -> list[Array]:
        """Every alpha from one eigendecomposition."""
        spectrum = Spectrum(*eigh(self._matrix(agreement)))
        return self._to_bases(spectrum.solve(self._right(offset), like(alphas, self.scored)))

    def solve(self, alpha: float, agreement: float, offset: float) -> list[Array]:
        """One alpha, by Cholesky."""
        return self._to_bases(solve_shifted(self._matrix(agreement), alpha, self._right(offset)))

    def _to_bases(self, white: Array) -> list[Array]:
        return [own @ white[b:e, :] for own, (b, e) in zip(self.maps, pairwise(self.ends), strict=True)]

    def residuals(self, alphas: FloatArray, agreement: float, offsets: FloatArray, blocks: Sequence[Index]) -> Array:
        """In closed form; a second pass over the scored rows."""
        spectrum = Spectrum(*eigh(self._matrix(agreement)))
        rows = []
        for view, own, begin, end in zip(self.views, self.maps, self.ends[:-1], self.ends[1:], strict=True):
            phi = view.problem.unit_features(view.basis.features, np.arange(len(view.problem.rows))) @ own
            rows.append(view.problem.unit_root(phi) @ spectrum.vectors[begin:end, :])
        right = namespace(self.scored).concat([self._right(0.0), self._right(1.0)], axis=1)
        right = namespace(right).stack([right[:, 0], right[:, 0] - right[:, 1]], axis=1)  # of the scores and of 1
        return _held_out(
            namespace(self.scored).concat(rows, axis=0),
            1 / (spectrum.values[:, None] + like(alphas, self.scored)[None, :]),
            _targets(self.views),
            offsets,
            blocks,
            projected=spectrum.vectors.T @ right,
            complement=True,
        )


class DualAgreement:
    """a = Rᵀ (R 𝐊 Rᵀ + alpha I)⁻¹ [J s; 0]: size Σ n_v + (M − 1) m, no normal equations (math.md section 3).

    R stacks every view's J over √(2·agreement·M) (H ⊗ J̄) on the unscored rows; 𝐊 is block diagonal. Each view's basis
    is its scored and all unscored rows, in that order.
    """

    def __init__(self, views: Sequence[ViewData], unscored: Unscored) -> None:
        self.views = views
        self.unscored = unscored
        self.contrasts = contrasts(len(views)) if unscored.n_rows else np.zeros((0, len(views)))
        self.sizes = [len(view.problem.rows) for view in views]
        reference = views[0].problem.reference
        self._operator = PerQuery(
            unscored.comparison,
            None if unscored.queries is None else like(unscored.queries, reference, "int64"),
            unscored.n_queries,
            None,
            reference,
            unscored.n_rows,
        )
        xp = namespace(reference)
        scored, mixed = [], []
        m = unscored.n_rows
        self.agreeing = xp.zeros((len(self.contrasts) * m,) * 2, dtype=xp.float64, device=device(reference))
        for v, view in enumerate(views):
            assert isinstance(view.basis, KernelBasis)
            n, operator = self.sizes[v], view.problem.operator
            gram = view.basis.gram / view.penalty
            scored.append(operator.conjugate(gram[:n, :n] * 1.0))
            side = operator.root(gram[:n, n:])
            side = self._operator.root(side.T).T
            parts = [float(h) * side for h in self.contrasts[:, v]]
            mixed.append(xp.concat(parts, axis=1) if parts else side[:, :0])
            if len(self.contrasts):
                inner = self._operator.conjugate(gram[n:, n:] * 1.0)
                weights = like(np.outer(self.contrasts[:, v], self.contrasts[:, v]), inner)
                self.agreeing = self.agreeing + _kronecker(weights, inner)
        self.scored = _block_diagonal(scored)
        self.mixed = xp.concat(mixed, axis=0)

    @property
    def scale(self) -> float:
        """trace(J K Jᵀ) over the weight of the rows."""
        weight = sum(view.problem.operator.weight for view in self.views)
        return float(namespace(self.scored).linalg.trace(self.scored)) / weight

    @property
    def agreement_scale(self) -> float:
        """Where the traces of both parts are equal."""
        xp = namespace(self.scored)
        spread = 2 * len(self.views) * float(xp.linalg.trace(self.agreeing))
        return float(xp.linalg.trace(self.scored)) / spread if spread > 0 else 0.0

    def _matrix(self, agreement: float) -> Array:
        if agreement == 0 or len(self.contrasts) == 0:
            return self.scored
        xp = namespace(self.scored)
        t = 2 * agreement * len(self.views)
        upper = xp.concat([self.scored, np.sqrt(t) * self.mixed], axis=1)
        lower = xp.concat([np.sqrt(t) * self.mixed.T, t * self.agreeing], axis=1)
        return xp.concat([upper, lower], axis=0)

    def _padded(self, targets: Array, size: int) -> Array:
        xp = namespace(targets)
        rest = (size - targets.shape[0], targets.shape[1])
        return xp.concat([targets, xp.zeros(rest, dtype=xp.float64, device=device(targets))], axis=0)

    def path(self, alphas: FloatArray, agreement: float, offset: float) -> list[Array]:
        """Every alpha from one eigendecomposition."""
        spectrum = Spectrum(*eigh(self._matrix(agreement)))
        right = self._right(offset, int(spectrum.values.shape[0]))
        return self._to_bases(spectrum.solve(right, like(alphas, self.scored)), agreement)

    def solve(self, alpha: float, agreement: float, offset: float) -> list[Array]:
        """One alpha, by Cholesky."""
        matrix = self._matrix(agreement)
        return self._to_bases(solve_shifted(matrix, alpha, self._right(offset, int(matrix.shape[0]))), agreement)

    def _right(self, offset: float, size: int) -> Array:
        targets = _targets(self.views)
        return self._padded(targets[:, :1] - offset * targets[:, 1:], size)

    def _to_bases(self, dual: Array, agreement: float) -> list[Array]:
        """Rᵀ z, view by view: scored rows first, then unscored ones."""
        xp = namespace(dual)
        ends, m = np.cumsum([0, *self.sizes]), self.unscored.n_rows
        factor = float(np.sqrt(2 * agreement * len(self.views))) if len(self.contrasts) else 0.0
        result = []
        for v, view in enumerate(self.views):
            own = view.problem.operator.root_transposed(dual[ends[v] : ends[v + 1], :])
            shared = xp.zeros((m, dual.shape[1]), dtype=xp.float64, device=device(dual))
            if factor > 0:
                for c, row in enumerate(self.contrasts):
                    begin = int(ends[-1]) + c * m
                    shared = shared + factor * float(row[v]) * dual[begin : begin + m, :]
                shared = self._operator.root_transposed(shared)
            result.append(xp.concat([own, shared], axis=0) / view.penalty)
        return result

    def residuals(self, alphas: FloatArray, agreement: float, offsets: FloatArray, blocks: Sequence[Index]) -> Array:
        """In closed form, deleting a block's rows in every view."""
        spectrum = Spectrum(*eigh(self._matrix(agreement)))
        targets = self._padded(_targets(self.views), int(spectrum.values.shape[0]))
        weights = 1 / (spectrum.values[:, None] + like(alphas, self.scored)[None, :])
        return _held_out(spectrum.vectors, weights, targets, offsets, blocks)[: sum(self.sizes), :]


def _held_out(
    vectors: Array,
    weights: Array,
    targets: Array,
    offsets: FloatArray,
    blocks: Sequence[Index],
    *,
    projected: Array | None = None,
    complement: bool = False,
) -> Array:
    """Residuals of s − offset for every block: (rows, a)."""
    left = leave_out(vectors, weights, targets, blocks, projected=projected, complement=complement)
    parts = [both[..., 0] - float(offset) * both[..., 1] for both, offset in zip(left, offsets, strict=True)]
    return in_place(blocks, parts, int(targets.shape[0]))


def _scaled(view: ViewData) -> Array:
    """The whitening of a view's basis, its penalty inside."""
    return view.basis.whitening.matrix / float(np.sqrt(view.penalty))


def _targets(views: Sequence[ViewData]) -> Array:
    """J s and J 1 of every view, stacked."""
    return namespace(views[0].problem.reference).concat([view.problem.targets for view in views], axis=0)


def _block_diagonal(blocks: Sequence[Array]) -> Array:
    xp = namespace(blocks[0])
    widths = [int(block.shape[1]) for block in blocks]
    rows = []
    for position, block in enumerate(blocks):
        place = {"dtype": xp.float64, "device": device(block)}
        left = xp.zeros((block.shape[0], sum(widths[:position])), **place)
        right = xp.zeros((block.shape[0], sum(widths[position + 1 :])), **place)
        rows.append(xp.concat([left, block, right], axis=1))
    return xp.concat(rows, axis=0)


def _kronecker(left: Array, right: Array) -> Array:
    xp = namespace(right)
    return xp.concat(
        [xp.concat([left[i, j] * right for j in range(left.shape[1])], axis=1) for i in range(left.shape[0])], axis=0
    )
