"""Regularised least squares in closed form: min ‖y − F c‖² + alpha ‖c‖², for one alpha or all of them.

`DualSystem` works with J K Jᵀ (rows), `PrimalSystem` with the sums of one pass (basis functions). Both answer the same
questions, so learners and hold-out need not know which one they hold. Stable forms of math.md section 3.

Several views that must agree on unscored rows: 000 eq. 14-18 and 001 def. 3.1, 3.2, in primal and dual form.

    min Σ_v ‖J_v (s_v − f_v)‖² + alpha Σ_v ρ_v ‖f_v‖² + 2·agreement Σ_{u<v} ‖J̄ (f_v − f_u)‖²

Both systems answer the same questions; views, comparisons and bases are made elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from corank._arrays import (
    Array,
    FloatArray,
    Index,
    add_diagonal,
    device,
    eigh,
    first_appearance,
    float64,
    like,
    namespace,
    solve_positive,
    symmetrised,
    take,
    to_numpy,
)
from corank.basis import Basis, FeatureBasis, FeatureMap, KernelBasis
from corank.gram import Accumulator, Gram, Statistics
from corank.kernels import Kernel, finite_values
from corank.loss import Loss, QueryLoss
from corank.problem import ComparedRows, Problem, ScoredRows
from corank.solvers.co_kernel import CoKernel, SpectralCurve
from corank.streaming.survey import ScannedRows
from corank.unscored import UnscoredRows
from corank.views import SideBySide

EPSILON = 2.0**-52


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues (k,) and eigenvectors (k, k) of a positive semi-definite matrix: one factorisation, all alphas."""

    values: Array
    vectors: Array

    def solve(self, right: Array, alphas: Array) -> Array:
        """(A + alpha I)⁻¹ right for every alpha: right (k, 1), alphas (a,) → (k, a). O(k² a)."""
        projected = self.vectors.T @ right
        return self.vectors @ (projected / (self.values[:, None] + alphas[None, :]))


def solve_shifted(matrix: Array, alpha: float, right: Array, size: float | None = None) -> Array:
    """(A + alpha I)⁻¹ right by Cholesky, or a word on why there is none."""
    try:
        return solve_positive(add_diagonal(matrix, alpha), right)
    except ValueError:
        values, _ = eigh(matrix, size)  # refuses what is no kernel
        raise ValueError(_too_small(alpha, float(values[-1]))) from None


def _too_small(alpha: float, size: float) -> str:
    return (
        f"alpha = {alpha:.3g} is too small for these rows: beside numbers of size {size:.3g} it is lost to rounding; "
        "use a larger one, or alpha='tune'."
    )


class System(Protocol):
    """A fitted loss waiting for its alpha."""

    basis: Basis

    @property
    def spectrum(self) -> Spectrum:
        """Its eigendecomposition."""
        ...

    @property
    def scale(self) -> float:
        """Mean eigenvalue: what alpha is measured against."""
        ...

    def solve(self, alpha: float, offset: float) -> Array:
        """Coefficients of the basis for one alpha: (r,)."""
        ...

    def path(self, alphas: FloatArray, offset: float) -> Array:
        """Coefficients of the basis for every alpha: (r, a)."""
        ...


class DualSystem:
    """a = Jᵀ (J K Jᵀ + alpha I)⁻¹ J (s − offset), the expansion over the rows of the problem.

    Valid for singular K; the smallest eigenvalue is at least alpha. Building it costs O(n² d), one alpha O(n³/3),
    all alphas one eigendecomposition. With the features as basis K is linear and the expansion is summed up: Xᵀ a.

    Parameters
    ----------
    problem : Problem with n rows
    basis : a KernelBasis whose points are those rows, or the FeatureBasis
    """

    def __init__(self, problem: Problem, basis: Basis) -> None:
        self.problem = problem
        self.basis = basis
        matrix = (
            Kernel("linear").block(problem.features, problem.features)
            if isinstance(basis, FeatureBasis)
            else basis.features(problem.features)
        )
        xp = namespace(matrix)
        self._size = float(xp.max(xp.abs(xp.linalg.diagonal(matrix))))  # of kernel values, before means are taken out
        self.matrix = problem.operator.conjugate(finite_values(matrix))

    @property
    def scale(self) -> float:
        """trace(J K Jᵀ) over the weight of the rows."""
        return float(namespace(self.matrix).linalg.trace(self.matrix)) / self.problem.operator.weight

    @cached_property
    def spectrum(self) -> Spectrum:
        """Of J K Jᵀ."""
        return Spectrum(*eigh(self.matrix, self._size))

    def _targets(self, offset: float) -> Array:
        return self.problem.targets[:, :1] - offset * self.problem.targets[:, 1:]

    def _to_basis(self, dual: Array) -> Array:
        rows = self.problem.operator.root_transposed(dual)
        return like(float64(self.problem.features).T @ rows, rows) if isinstance(self.basis, FeatureBasis) else rows

    def solve(self, alpha: float, offset: float) -> Array:
        """One alpha, by Cholesky."""
        if alpha < 4 * EPSILON * self._size:  # coefficients of 1/alpha no longer cancel where they should
            raise ValueError(_too_small(alpha, self._size))
        return self._to_basis(solve_shifted(self.matrix, alpha, self._targets(offset), self._size))[:, 0]

    def path(self, alphas: FloatArray, offset: float) -> Array:
        """Every alpha, from one eigendecomposition."""
        return self._to_basis(self.spectrum.solve(self._targets(offset), like(alphas, self.matrix)))


class PrimalSystem:
    """c = W (Wᵀ Φᵀ L Φ W + alpha I)⁻¹ Wᵀ Φᵀ L (s − offset), from the sums of one pass.

    W whitens the basis, so that ‖c‖ is the norm of the function. One pass O(n r (r + d)), one alpha O(r³/3).

    Parameters
    ----------
    basis : Basis of r functions
    statistics : sums of whitened features
    """

    def __init__(self, basis: Basis, statistics: Statistics) -> None:
        self.basis = basis
        self.statistics = statistics

    @classmethod
    def gathered(cls, problem: Problem, basis: Basis, folds: Index | None = None) -> PrimalSystem:
        """The system of a problem, in one pass over its rows; `folds` has one number a unit."""
        white, features = basis.whitening, FeatureMap(basis)
        statistics = problem.statistics(features, features.size, folds)
        return cls(basis, statistics if white.inside or white.trivial else statistics.mapped(white.matrix))

    @cached_property
    def gram(self) -> Gram:
        """The sums over all folds."""
        return self.statistics.total()

    @property
    def scale(self) -> float:
        """trace(Φᵀ L Φ) over the weight of the rows."""
        features = self.gram.features
        return float(namespace(features).linalg.trace(features)) / self.gram.weight

    @cached_property
    def spectrum(self) -> Spectrum:
        """Of Wᵀ Φᵀ L Φ W."""
        return Spectrum(*eigh(self.gram.features))

    def solve(self, alpha: float, offset: float) -> Array:
        """One alpha, by Cholesky."""
        return (self.basis.whitening.matrix @ solve_shifted(self.gram.features, alpha, self.gram.right(offset)))[:, 0]

    def path(self, alphas: FloatArray, offset: float) -> Array:
        """Every alpha, from one eigendecomposition."""
        white = self.spectrum.solve(self.gram.right(offset), like(alphas, self.gram.matrix))
        return self.basis.whitening.matrix @ white

    def path_without(self, fold: int, alphas: FloatArray, centred: bool) -> tuple[Array, float]:
        """Coefficients of the whitened features (r', a) without a fold, and the mean score that was taken out."""
        gram = self.statistics.without(fold)
        offset = gram.mean_score if centred else 0.0
        spectrum = Spectrum(*eigh(gram.features))
        return spectrum.solve(gram.right(offset), like(alphas, gram.matrix)), offset


FEW = 500  # units that are few whatever the basis


@dataclass(frozen=True)
class ViewData:
    """One view of the data: its scored rows under their loss, its basis, its columns of X.

    groups : (n_units,) what is held out together, under numbers that all views share; None for items of one query
    """

    problem: ScoredRows | ComparedRows
    basis: Basis
    columns: Index
    penalty: float = 1.0
    groups: Index | None = None


@dataclass(frozen=True)
class Unscored:
    """The rows on which views should agree, and how they are compared there."""

    comparison: Loss
    rows: UnscoredRows


class AgreementSystem(Protocol):
    """A loss waiting for its alpha and its agreement."""

    @property
    def views(self) -> Sequence[ViewData]:
        """What it was made of."""
        ...

    @property
    def scale(self) -> float:
        """What alpha is measured against."""
        ...

    @property
    def agreement_scale(self) -> float:
        """What agreement is measured against: there both losses weigh the same; 0 without unscored rows."""
        ...

    @property
    def problems(self) -> list[ScoredRows | ComparedRows]:
        """The views' scored rows."""
        ...

    @property
    def size(self) -> int:
        """Rows of its largest matrix."""
        ...

    @property
    def few(self) -> bool:
        """Whether there are few scored rows beside what the views share: then `cokernel` is the cheaper form."""
        ...

    @property
    def cokernel(self) -> CoKernel:
        """The same loss as a kernel between what is scored."""
        ...

    def solve(self, alpha: float, agreement: float, offset: float) -> list[Array]:
        """Coefficients of every view's basis for one pair of parameters: a list of (r_v, 1)."""
        ...

    def path(self, alphas: FloatArray, agreement: float, offset: float) -> list[Array]:
        """Coefficients of every view's basis for every alpha: a list of (r_v, a)."""
        ...

    def inverse(self, agreement: float) -> Inverse:
        """What leaving rows out needs, for every alpha at one agreement."""
        ...


@dataclass(frozen=True)
class Inverse:
    """S = V diag(1/(λ + alpha)) Vᵀ on what is scored in all views, or I minus that; see `holdout.leave_out`.

    vectors : (N, k); values : (k,); projected : (k, 2) Vᵀ (J s, J 1), or None for those of `vectors`
    """

    vectors: Array
    values: Array
    projected: Array | None = None
    complement: bool = False


def contrasts(n_views: int) -> FloatArray:
    """H: (M − 1, M) orthonormal rows orthogonal to 1, so that Σ_{u<v} (f_v − f_u)² = M ‖H f‖²."""
    rows = [np.r_[np.ones(k), -k, np.zeros(n_views - k - 1)] / np.sqrt(k * (k + 1)) for k in range(1, n_views)]
    return np.reshape(rows, (n_views - 1, n_views))


class PrimalAgreement:
    """(B + alpha I + 2·agreement D) c = b on whitened features of all views side by side. One pass over each set of rows.

    B is block diagonal (scored rows), D has (M − 1) C_vv on and −C_uv off the diagonal, C the sums over unscored rows.
    Scored rows O(n Σ r_v²), unscored rows O(m (Σ r_v)²), a pair of parameters O((Σ r_v)³).

    Parameters
    ----------
    disagreement : D where it is known already: it does not depend on what is scored
    """

    def __init__(self, views: Sequence[ViewData], unscored: Unscored, disagreement: Array | None = None) -> None:
        self.views = views
        self.maps = [view.basis.whitening.matrix / float(np.sqrt(view.penalty)) for view in views]
        self.ends = np.cumsum([0, *(int(white.shape[1]) for white in self.maps)])
        self.disagreement = self._disagreement(unscored) if disagreement is None else disagreement

    @property
    def problems(self) -> list[ScoredRows | ComparedRows]:
        """The views' scored rows."""
        return [view.problem for view in self.views]

    @cached_property
    def grams(self) -> list[Gram]:
        """The sums over each view's scored rows."""
        return [PrimalSystem.gathered(view.problem, view.basis).gram for view in self.views]

    @cached_property
    def scored(self) -> Array:
        """B: (Σ r_v, Σ r_v)."""
        return block_diagonal([g.features / v.penalty for g, v in zip(self.grams, self.views, strict=True)])

    def _disagreement(self, unscored: Unscored) -> Array:
        """D: (Σ r_v, Σ r_v)."""
        reference = self.views[0].problem.reference
        xp, place = namespace(reference), {"dtype": namespace(reference).float64, "device": device(reference)}
        size, m = int(self.ends[-1]), len(self.views)
        if m == 1 or unscored.rows.n_rows == 0:
            return xp.zeros((size, size), **place)
        features = JointFeatures([FeatureMap(view.basis) for view in self.views])
        columns = [view.columns for view in self.views]
        sums = sum_unscored(unscored, features, columns, reference)
        finish = block_diagonal(
            [
                xp.eye(white.shape[1], **place) / float(np.sqrt(v.penalty)) if phi.whitened else white
                for phi, white, v in zip(features.maps, self.maps, self.views, strict=True)
            ]
        )
        joint = finish.T @ sums.features @ finish
        widths = np.diff(self.ends)
        signs = like(np.repeat(np.repeat(m * np.eye(m) - 1, widths, axis=0), widths, axis=1), joint)
        return symmetrised(signs * joint)

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

    def matrix(self, agreement: float) -> Array:
        """B + 2·agreement D."""
        return self.scored + 2 * agreement * self.disagreement

    def right(self, offset: float) -> Array:
        """b: (Σ r_v, 1)."""
        parts = [g.right(offset) / float(np.sqrt(v.penalty)) for g, v in zip(self.grams, self.views, strict=True)]
        return namespace(self.scored).concat(parts, axis=0)

    def path(self, alphas: FloatArray, agreement: float, offset: float) -> list[Array]:
        """Every alpha from one eigendecomposition."""
        spectrum = Spectrum(*eigh(self.matrix(agreement)))
        return self.to_bases(spectrum.solve(self.right(offset), like(alphas, self.scored)))

    def agreement_path(self, alpha: float, agreements: FloatArray, offset: float) -> list[Array]:
        """Every agreement at one alpha from one eigendecomposition: D in the metric of B + alpha I (math.md section 4)."""
        xp = namespace(self.scored)
        values, vectors = eigh(self.scored)
        root = vectors / xp.sqrt(values + alpha)[None, :]
        spread, inner = eigh(symmetrised(root.T @ self.disagreement @ root))
        basis = root @ inner
        damping = 1 / (1 + 2 * spread[:, None] * like(agreements, self.scored)[None, :])
        return self.to_bases(basis @ (damping * (basis.T @ self.right(offset))))

    def solve(self, alpha: float, agreement: float, offset: float) -> list[Array]:
        """One alpha, by Cholesky."""
        return self.to_bases(solve_shifted(self.matrix(agreement), alpha, self.right(offset)))

    def solve_partitioned(self, alpha: float, agreement: float, offset: float) -> list[Array]:
        """Two views, one after the other (001 sect. 3.2): Cholesky of two halves instead of the whole."""
        if len(self.views) != 2:
            raise ValueError(f"the partitioned form is for two views, got {len(self.views)}.")
        cut = int(self.ends[1])
        matrix, right = add_diagonal(self.matrix(agreement), alpha), self.right(offset)
        across = matrix[:cut, cut:]
        solved = solve_positive(matrix[cut:, cut:] * 1.0, namespace(matrix).concat([across.T, right[cut:, :]], axis=1))
        first = solve_positive(
            symmetrised(matrix[:cut, :cut] - across @ solved[:, :-1]), right[:cut, :] - across @ solved[:, -1:]
        )
        second = solved[:, -1:] - solved[:, :-1] @ first
        return self.to_bases(namespace(matrix).concat([first, second], axis=0))

    def to_bases(self, white: Array) -> list[Array]:
        """Coefficients of whitened features (Σ r_v, k) → of every view's basis."""
        return [own @ white[b:e, :] for own, (b, e) in zip(self.maps, pairwise(self.ends), strict=True)]

    def white_units(self, view: int, directions: Array) -> Array:
        """A view's whitened features of its units, in the directions (r_v, k): (n_units, k)."""
        data = self.views[view]
        units = np.arange(int(data.problem.targets.shape[0]))
        return data.problem.unit_features(data.basis.features, units) @ (self.maps[view] @ directions)

    def inverse(self, agreement: float) -> Inverse:
        """From the spectrum of the sums, in a second pass over what is scored."""
        values, vectors = eigh(self.matrix(agreement))
        xp = namespace(values)
        rows = [
            view.problem.unit_root(self._units[v] @ vectors[b:e, :])
            for v, (view, (b, e)) in enumerate(zip(self.views, pairwise(self.ends), strict=True))
        ]
        both = xp.concat([self.right(0.0), self.right(0.0) - self.right(1.0)], axis=1)  # of the scores and of 1
        return Inverse(xp.concat(rows, axis=0), values, vectors.T @ both, complement=True)

    @cached_property
    def _units(self) -> list[Array]:
        """Whitened features of every view's units: (n_v, r_v)."""
        eye = namespace(self.scored).eye
        place = {"dtype": self.scored.dtype, "device": device(self.scored)}
        return [self.white_units(v, eye(int(white.shape[1]), **place)) for v, white in enumerate(self.maps)]

    @property
    def n_units(self) -> int:
        """Rows or comparisons that are scored, over all views."""
        return sum(int(view.problem.targets.shape[0]) for view in self.views)

    @property
    def size(self) -> int:
        """Features of all views."""
        return int(self.ends[-1])

    @property
    def few(self) -> bool:
        """Fewer units than features, or few by themselves."""
        return self.n_units <= max(int(self.ends[-1]), FEW)

    @cached_property
    def cokernel(self) -> CoKernel:
        """Φ (I + 2·ratio·D)⁻¹ Φᵀ, from one eigendecomposition of D."""
        values, vectors = eigh(self.disagreement)
        units = [self.white_units(v, vectors[b:e, :]) for v, (b, e) in enumerate(pairwise(self.ends))]
        return CoKernel(self.problems, units, None, SpectralCurve(values, 2.0, taken_away=False))


def sum_unscored(unscored: Unscored, features: JointFeatures, columns: Sequence[Index], reference: Array) -> Gram:
    """The sums over all unscored rows, views side by side; scans pass by pass."""
    held = tuple(part for part in unscored.rows.parts if not isinstance(part, ScannedRows))
    sums = Accumulator(unscored.comparison, features, features.size, reference)
    for piece in UnscoredRows(held).pieces():
        xp = namespace(reference)
        zeros = xp.zeros(len(piece.queries), dtype=xp.float64, device=device(reference))
        sums.add(SideBySide.of(piece.features, columns), zeros, piece.queries, piece.weights)
    total = sums.result().total()
    for part in unscored.rows.parts:
        if isinstance(part, ScannedRows):
            total += part.summed(unscored.comparison, features, features.size, columns).total()
    return total


class JointFeatures:
    """The features of all views side by side, from rows as every view sees them."""

    def __init__(self, maps: Sequence[FeatureMap]) -> None:
        self.maps = maps
        self.ends = np.cumsum([0, *(phi.size for phi in maps)])

    @property
    def size(self) -> int:
        """Number of features."""
        return int(self.ends[-1])

    def __call__(self, rows: SideBySide) -> Array:
        """(n, size)."""
        parts = [phi(own) for phi, own in zip(self.maps, rows.features(), strict=True)]
        return namespace(parts[0]).concat(parts, axis=1)

    def write(self, rows: SideBySide, out: Array) -> None:
        """The same into a NumPy array."""
        for phi, own, (begin, end) in zip(self.maps, rows.features(), pairwise(self.ends), strict=True):
            phi.write(own, out[:, begin:end])


class DualAgreement:
    """a = Rᵀ (R 𝐊 Rᵀ + alpha I)⁻¹ [J s; 0]: size Σ n_v + (M − 1) m, no normal equations (math.md section 3).

    R stacks every view's J over √(2·agreement·M) (H ⊗ J̄) on the unscored rows; 𝐊 is block diagonal. Each view's basis
    is its scored and all unscored rows, in that order.
    """

    def __init__(self, views: Sequence[ViewData], unscored: Unscored) -> None:
        self.views = views
        _, codes, weights = unscored.rows.everything()
        m = self.n_unscored = len(codes)
        self.contrasts = contrasts(len(views)) if m else np.zeros((0, len(views)))
        reference = views[0].problem.reference
        queries, n_queries = first_appearance(codes)
        self._operator = QueryLoss(
            unscored.comparison,
            like(queries, reference, "int64"),
            n_queries,
            None if weights is None else like(weights, reference),
            reference,
            m,
        )
        xp, place = namespace(reference), {"device": device(reference)}
        self.rows: list[Array] = []  # kernel values between a view's scored rows
        self.sides: list[Array] = []  # K J̄ᵀ between its scored and the unscored rows
        self.agreeing = xp.zeros((len(self.contrasts) * m,) * 2, dtype=xp.float64, **place)
        for v, view in enumerate(views):
            assert isinstance(view.basis, KernelBasis)
            n = int(view.problem.features.shape[0])
            gram = view.basis.gram / view.penalty
            self.rows.append(gram[:n, :n])
            self.sides.append(self._operator.root(gram[n:, :n]).T if m else gram[:n, n:])
            if len(self.contrasts):
                inner = self._operator.conjugate(gram[n:, n:] * 1.0)
                outer = np.outer(self.contrasts[:, v], self.contrasts[:, v])
                self.agreeing = self.agreeing + (inner * float(outer[0, 0]) if len(outer) == 1 else kron(outer, inner))

    @property
    def problems(self) -> list[ScoredRows | ComparedRows]:
        """The views' scored rows."""
        return [view.problem for view in self.views]

    @cached_property
    def scored(self) -> Array:
        """J K Jᵀ of every view on the diagonal."""
        parts = [view.problem.operator.conjugate(own * 1.0) for view, own in zip(self.views, self.rows, strict=True)]
        return block_diagonal(parts)

    @cached_property
    def mixed(self) -> Array:
        """J K (H ⊗ J̄)ᵀ between what is scored and what should agree."""
        xp = namespace(self.scored)
        parts = []
        for v, (view, side) in enumerate(zip(self.views, self.sides, strict=True)):
            own = view.problem.operator.root(side)
            parts.append(xp.concat([float(h) * own for h in self.contrasts[:, v]] or [own[:, :0]], axis=1))
        return xp.concat(parts, axis=0)

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

    def matrix(self, agreement: float) -> Array:
        """R 𝐊 Rᵀ."""
        if agreement == 0 or len(self.contrasts) == 0:
            return self.scored
        xp = namespace(self.scored)
        t = 2 * agreement * len(self.views)
        mixed = float(np.sqrt(t)) * self.mixed
        upper = xp.concat([self.scored, mixed], axis=1)
        lower = xp.concat([mixed.T, t * self.agreeing], axis=1)
        return xp.concat([upper, lower], axis=0)

    def path(self, alphas: FloatArray, agreement: float, offset: float) -> list[Array]:
        """Every alpha from one eigendecomposition."""
        spectrum = Spectrum(*eigh(self.matrix(agreement)))
        right = self._right(offset, int(spectrum.values.shape[0]))
        return self._to_bases(spectrum.solve(right, like(alphas, self.scored)), agreement)

    def solve(self, alpha: float, agreement: float, offset: float) -> list[Array]:
        """One alpha, by Cholesky."""
        matrix = self.matrix(agreement)
        return self._to_bases(solve_shifted(matrix, alpha, self._right(offset, int(matrix.shape[0]))), agreement)

    def _right(self, offset: float, size: int) -> Array:
        targets = stacked_targets(self.views)
        return _padded(targets[:, :1] - offset * targets[:, 1:], size)

    def _to_bases(self, dual: Array, agreement: float) -> list[Array]:
        """Rᵀ z, view by view: scored rows first, then unscored ones."""
        xp = namespace(dual)
        ends = np.cumsum([0, *(view.problem.operator.n_roots for view in self.views)])
        factor = float(np.sqrt(2 * agreement * len(self.views))) if len(self.contrasts) else 0.0
        m, result = self.n_unscored, []
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

    def inverse(self, agreement: float) -> Inverse:
        """From the eigendecomposition of the whole, restricted to what is scored."""
        values, vectors = eigh(self.matrix(agreement))
        n = int(self.scored.shape[0])
        return Inverse(vectors[:n, :], values, vectors[:n, :].T @ stacked_targets(self.views))

    @property
    def size(self) -> int:
        """Scored and unscored rows of all views."""
        return sum(view.basis.size for view in self.views)

    @property
    def few(self) -> bool:
        """No more units than unscored contrasts, or few by themselves."""
        n = int(self.scored.shape[0])
        return len(self.contrasts) == 0 or n <= max(len(self.contrasts) * self.n_unscored, FEW)

    @cached_property
    def cokernel(self) -> CoKernel:
        """K − C (A + 1/(2 M ratio))⁻¹ Cᵀ, from one eigendecomposition of A: the unscored rows taken out."""
        values, vectors = eigh(self.agreeing) if len(self.contrasts) else (self.scored[0, :0], self.agreeing)
        m = self.n_unscored
        units, own = [], []
        for v, (view, rows, side) in enumerate(zip(self.views, self.rows, self.sides, strict=True)):
            shared = rows[:, :0]
            for c, row in enumerate(self.contrasts):
                part = float(row[v]) * (side @ vectors[c * m : (c + 1) * m, :])
                shared = part if c == 0 else shared + part
            units.append(_per_unit(view.problem, shared))
            own.append(_per_unit(view.problem, _per_unit(view.problem, rows).T))
        return CoKernel(self.problems, units, own, SpectralCurve(values, 2.0 * len(self.views), taken_away=True))


def _per_unit(problem: Problem, rows: Array) -> Array:
    """Values of rows → of units: the same, or differences between the two rows of a comparison."""
    if isinstance(problem, ComparedRows):
        return take(rows, problem.winners) - take(rows, problem.losers)
    return rows


def _padded(targets: Array, size: int) -> Array:
    xp = namespace(targets)
    rest = (size - targets.shape[0], targets.shape[1])
    return xp.concat([targets, xp.zeros(rest, dtype=xp.float64, device=device(targets))], axis=0)


def stacked_targets(views: Sequence[ViewData]) -> Array:
    """J s and J 1 of every view, stacked."""
    return namespace(views[0].problem.reference).concat([view.problem.targets for view in views], axis=0)


def block_diagonal(blocks: Sequence[Array]) -> Array:
    """The blocks on the diagonal, zeros elsewhere."""
    if len(blocks) == 1:
        return blocks[0]
    xp = namespace(blocks[0])
    widths = [int(block.shape[1]) for block in blocks]
    rows = []
    for position, block in enumerate(blocks):
        place = {"dtype": xp.float64, "device": device(block)}
        left = xp.zeros((block.shape[0], sum(widths[:position])), **place)
        right = xp.zeros((block.shape[0], sum(widths[position + 1 :])), **place)
        rows.append(xp.concat([left, block, right], axis=1))
    return xp.concat(rows, axis=0)


def kron(left: FloatArray, right: Array) -> Array:
    """The Kronecker product of a small matrix with a large one."""
    xp = namespace(right)
    return xp.concat([xp.concat([float(entry) * right for entry in row], axis=1) for row in left], axis=0)


def same_scores(problems: Sequence[ScoredRows | ComparedRows]) -> bool:
    """Whether every view has the same scores on the same rows."""
    first = problems[0]
    if not isinstance(first, ScoredRows):
        return True

    def scores(problem: Any) -> tuple[Any, Any]:
        return to_numpy(problem.rows.index), to_numpy(problem.reference)

    index, values = scores(first)
    return all(np.array_equal(index, own) and np.array_equal(values, other) for own, other in map(scores, problems[1:]))


def mean_score(problems: Sequence[Problem]) -> float:
    """The weighted mean of all given scores."""
    weights = [problem.operator.weight for problem in problems]
    return float(np.average([problem.mean_score for problem in problems], weights=weights))
