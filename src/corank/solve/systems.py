"""Regularised least squares on M >= 1 views that agree on unscored rows, in closed form
(docs/mathematics.md, section 3).

    min Σ_v ‖J_v (s_v − f_v)‖² + alpha Σ_v ρ_v ‖f_v‖² + 2·agreement Σ_{u<v} θ_uv ‖J̄ (f_v − f_u)‖²

with bonds θ of pairs of views, 1 unless they are given; after [Tsivtsivadze2010] eq. 14-18 and
[Brefeld2006] def. 3.1, 3.2; one view is M = 1, without the last term. `DualSystem` works with kernel values between rows, `PrimalSystem` with sums over basis
functions. Both answer the same questions, so tuning and hold-out need not know which of them they
hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    add_diagonal,
    block_diagonal,
    block_of,
    cholesky,
    eigh,
    first_appearance,
    float64,
    kron,
    like,
    namespace,
    padded,
    solve_factored,
    solve_positive,
    stack_rows,
    symmetrised,
    take,
    to_numpy,
    zeros_beside,
)
from corank.core.basis import Basis, FeatureBasis
from corank.core.folds import FEW_UNITS, Folding, same_scores
from corank.core.kernels import finite_values
from corank.core.loss import QueryLoss
from corank.core.observations import Problem, target_statistics, whitened_statistics
from corank.core.sums import N_TARGETS, Accumulator, Gram, Statistics
from corank.core.unscored import UnscoredRows
from corank.core.views import JointFeatures, SideBySide, disagreements
from corank.solve.co_kernel import CoKernel, SpectralCurve
from corank.solve.spectrum import OPEN_FUNCTIONS, LogEvidence, Spectrum

EPSILON = 2.0**-52
NO_BOND = 1e-12  # share of the largest eigenvalue that rounding leaves where views have no bond


def too_small(alpha: float, size: float) -> str:
    """The message where alpha is 0, or lost to rounding beside numbers of a size."""
    if alpha == 0:
        return OPEN_FUNCTIONS
    return (
        f"alpha = {alpha:.3g} is too small for these rows: beside numbers of size {size:.3g} it is"
        " lost to rounding; use a larger one, or alpha='tune'."
    )


@dataclass(frozen=True)
class ViewData:
    """One view of the data.

    problem : its scored rows under their loss, or its comparisons
    columns : of X that it sees, None for all
    penalty : ρ
    groups : (n_units,) what is held out together, under numbers that all views share; None for
        items of one query
    rows : (r,) row numbers of the basis, None where that is the columns themselves
    """

    problem: Any
    basis: Basis
    columns: Index | None = None
    penalty: float = 1.0
    groups: Index | None = None
    rows: Index | None = None


class System:
    """A loss waiting for its alpha and its agreement; what both forms share.

    Attributes
    ----------
    problems : the scored rows, or comparisons, of every view
    groups : what is held out together, per view; None for items of one query
    n_unscored : rows on which views should agree
    """

    # of kernel values, before means are taken out: what negative eigenvalues are measured against;
    # None where the matrix is sums of squares
    _largest: float | None = None
    # whether systems with other scores of the same rows take over what was made for this one
    is_shared = False

    def __init__(self, views: Sequence[ViewData], unscored: UnscoredRows | None = None) -> None:
        # where systems with other scores share it: of A + alpha I, by alpha
        self.cholesky_factors: dict[float, Array] = {}
        self.spectra: dict[int, Spectrum] = {}  # without a fold, by its number, where it is shared
        self.views = views
        self.problems: list[Any] = [view.problem for view in views]
        self.groups = [view.groups for view in views if view.groups is not None] or None
        self.unscored = unscored if len(views) > 1 else None  # one view has nothing to agree with
        self.n_unscored = 0 if self.unscored is None else self.unscored.n_rows
        self.bonds = None if self.unscored is None else self.unscored.bonds

    @cached_property
    def targets(self) -> Array:
        """J s and J 1 of every view, stacked: (N, 2)."""
        return stack_rows([problem.targets for problem in self.problems])

    @cached_property
    def scored(self) -> Array:
        """The part of `matrix` that comes from the scored rows."""
        raise NotImplementedError

    def matrix(self, agreement: float = 0.0) -> Array:
        """The matrix A to which alpha I is added."""
        raise NotImplementedError

    def _weight_of_disagreement(self) -> float:
        """The trace of what one half of agreement adds to `matrix`."""
        raise NotImplementedError

    @property
    def agreement_scale(self) -> float:
        """The agreement at which both losses weigh the same; 0 without unscored rows."""
        if self.n_unscored == 0:
            return 0.0
        spread = 2 * self._weight_of_disagreement()
        return _trace(self.scored) / spread if spread > 0 else 0.0

    def spectrum(self, agreement: float = 0.0) -> Spectrum:
        """The eigendecomposition of `matrix`."""
        if self.is_shared and agreement == 0:
            return self.kept_spectrum
        matrix = self.matrix(agreement)  # which finds the largest kernel value
        return Spectrum.of(matrix, self._largest if agreement == 0 else None)

    @cached_property
    def kept_spectrum(self) -> Spectrum:
        """The eigendecomposition without agreement, from which a posterior is made once the evidence
        is known, and several columns of scores are solved for.
        """
        matrix = self.matrix()
        return Spectrum.of(matrix, self._largest)

    def with_each(self, targets: Sequence[Any], folds: Any) -> Iterator[Self]:
        """This system, and others with other scores of its rows: they take over what it has made.
        Each is solved before the next one is asked for.
        """
        self.is_shared = True
        yield self
        for problem in targets[1:]:
            system = copy(self)
            system.views, system.problems = [replace(self.views[0], problem=problem)], [problem]
            for name in ("targets", "grams", "cokernel"):
                vars(system).pop(name, None)
            yield system
            system.forget()
        self.forget()

    def forget(self) -> None:
        """Let go of what a solution does not need."""
        for name in ("scored", "kernels", "kept_spectrum", "all_unit_features"):
            vars(self).pop(name, None)
        self.cholesky_factors, self.spectra = {}, {}

    def solved(self, matrix: Array, alpha: float, right: Array, size: float | None = None) -> Array:
        """(A + alpha I)⁻¹ right by Cholesky, or by what a system with other scores made of A; a
        ValueError says why where there is none.
        """
        if self.is_shared and "kept_spectrum" in vars(self):
            return self.kept_spectrum.solve(right, np.asarray([alpha]))
        try:
            if self.is_shared:
                if alpha not in self.cholesky_factors:
                    self.cholesky_factors[alpha] = cholesky(add_diagonal(matrix, alpha))
                return solve_factored(self.cholesky_factors[alpha], right)
            return solve_positive(add_diagonal(matrix, alpha), right)
        except ValueError:
            values, _ = eigh(matrix, size)  # refuses a matrix that is not positive semi-definite
            raise ValueError(too_small(alpha, float(values[-1]))) from None


def _trace(matrix: Array) -> float:
    return float(namespace(matrix).linalg.trace(matrix))


def contrasts(n_views: int, bonds: FloatArray | None = None) -> FloatArray:
    """H: (M − 1, M) orthonormal rows orthogonal to 1, so that Σ_{u<v} (f_v − f_u)² = M ‖H f‖²;
    with bonds (M, M) Σ_{u<v} bonds_uv (f_v − f_u)², and a row less for each further group of views.
    """
    if bonds is not None:
        values, vectors = np.linalg.eigh(disagreements(n_views, bonds) / n_views)
        live = values > NO_BOND * values[-1]
        roots: FloatArray = np.sqrt(values[live])[:, None] * vectors[:, live].T
        return roots
    numbers = np.arange(1, n_views)[:, None]
    rows = np.tri(n_views - 1, n_views) - numbers * np.eye(n_views - 1, n_views, 1)
    return np.asarray(rows / np.sqrt(numbers * (numbers + 1)))


# ---------------------------------------------------------------- primal


class PrimalSystem(System):
    """(B + alpha I + 2·agreement D) c = b on whitened features of all views side by side. One pass
    over each set of rows.

    B is block diagonal (scored rows), D has Σ_u θ_uv C_vv on and −θ_uv C_uv off the diagonal, C the
    sums over unscored rows. Scored rows O(n Σ r_v²), unscored rows O(m (Σ r_v)²), a pair of parameters
    O((Σ r_v)³).

    Parameters
    ----------
    statistics : sums over scored rows where they were gathered already: whitened, without
        penalties, one per view or one for all views side by side
    disagreement : D where it is known already: it does not depend on the scored rows
    """

    def __init__(
        self,
        views: Sequence[ViewData],
        unscored: UnscoredRows | None = None,
        *,
        statistics: Sequence[Statistics] | None = None,
        disagreement: Array | None = None,
    ) -> None:
        super().__init__(views, unscored)
        self.maps = [view.basis.whitening.matrix / float(np.sqrt(view.penalty)) for view in views]
        self.ends = np.cumsum([0, *(white.shape[1] for white in self.maps)])
        self._statistics = statistics
        self._disagreement = disagreement

    def with_each(self, targets: Sequence[Any], folds: Any) -> Iterator[Self]:
        """As of any system; the sums of all of them from one pass, with folds where these do not
        depend on scores.
        """
        codes = None
        if self.has_fold_sums and not folds.items:
            codes = _every_fold(folds.codes[0], folds.n_folds)
        every = target_statistics(targets, self.views[0].basis, codes)
        for system, sums in zip(super().with_each(targets, folds), every, strict=True):
            system._statistics = [sums if codes is None else sums.with_folds(folds.n_folds)]
            if codes is None:
                system.spectra = {}
            yield system

    @property
    def spans(self) -> list[slice]:
        """The features of every view among those of all."""
        return [slice(int(begin), int(end)) for begin, end in pairwise(self.ends)]

    @property
    def size(self) -> int:
        """Features of all views."""
        return int(self.ends[-1])

    # ---- scored rows

    @property
    def statistics(self) -> Sequence[Statistics]:
        """The sums over scored rows, one per view or one for all views side by side."""
        if self._statistics is None:
            self._statistics = [
                whitened_statistics(view.problem, view.basis) for view in self.views
            ]
        return self._statistics

    def gather(self, folding: Folding) -> None:
        """Keep sums for every fold; of all views side by side where their mean is judged."""
        if len(self.views) > 1 and same_scores(self.problems):
            rows = SideBySide(tuple((view.problem.features, None) for view in self.views))
            features = JointFeatures([view.basis for view in self.views])
            problem = replace(self.views[0].problem, features=rows)
            folds = _every_fold(folding.codes[0], folding.n_folds)
            sums = problem.statistics(features, features.size, folds)
            self._statistics = [features.whitened(sums)]
        else:
            self._statistics = [
                whitened_statistics(
                    view.problem, view.basis, _every_fold(codes, folding.n_folds)
                ).with_folds(folding.n_folds)
                for view, codes in zip(self.views, folding.codes, strict=True)
            ]

    def view_statistics(self) -> list[Statistics]:
        """The sums over every view's scored rows, folds together."""
        collapsed = [own.collapsed() for own in self.statistics]
        if len(collapsed) == len(self.views):
            return collapsed
        return [collapsed[0].of_features(np.r_[span]) for span in self.spans]

    @cached_property
    def grams(self) -> list[Gram]:
        """The sums over every view's scored rows as one matrix."""
        return [statistics.total() for statistics in self.view_statistics()]

    @cached_property
    def scored(self) -> Array:
        """B: (Σ r_v, Σ r_v)."""
        return block_diagonal(self._blocks(self.grams))

    def _blocks(self, grams: Sequence[Gram]) -> list[Array]:
        """B view by view, from sums without penalties."""
        return [
            gram.features if view.penalty == 1 else gram.features / view.penalty
            for gram, view in zip(grams, self.views, strict=True)
        ]

    def _rights(self, grams: Sequence[Gram], offset: float) -> Array:
        pairs = zip(grams, self.views, strict=True)
        return stack_rows(
            [gram.right(offset) / float(np.sqrt(view.penalty)) for gram, view in pairs]
        )

    def right(self, offset: float = 0.0) -> Array:
        """b: (Σ r_v, 1)."""
        return self._rights(self.grams, offset)

    @property
    def mean_score(self) -> float:
        """The weighted mean of all given scores, where single rows count."""
        weights = [gram.weight for gram in self.grams]
        return float(np.average([gram.mean_score for gram in self.grams], weights=weights))

    @property
    def n_units(self) -> int:
        """Scored rows or comparisons, over all views."""
        return sum(problem.targets.shape[0] for problem in self.problems)

    # ---- unscored rows

    @cached_property
    def disagreement(self) -> Array:
        """D: (Σ r_v, Σ r_v)."""
        if self._disagreement is not None:
            return self._disagreement
        reference = self.views[0].problem.reference
        if self.unscored is None or self.n_unscored == 0:
            return zeros_beside((self.size, self.size), reference)
        features = JointFeatures([view.basis for view in self.views])
        columns = [view.columns for view in self.views]
        sums = sum_unscored(self.unscored, features, columns, reference)
        statistics = Statistics(self.unscored.comparison, (sums,), (None,))
        joint = features.whitened(statistics).total().features
        widths = np.diff(self.ends)
        roots = np.repeat([view.penalty**-0.5 for view in self.views], widths)
        by_view = disagreements(len(self.views), self.bonds)
        signs = np.repeat(np.repeat(by_view, widths, axis=0), widths, axis=1)
        factors = signs * roots[:, None] * roots[None, :]
        return symmetrised(like(factors, joint) * joint)

    # ---- the solution

    @property
    def scale(self) -> float:
        """What alpha is measured against: trace(B) over the weight of the rows, 1 where that is 0."""
        scale = _trace(self.scored) / sum(gram.weight for gram in self.grams)
        return scale if scale > 0 else 1.0

    def _weight_of_disagreement(self) -> float:
        return _trace(self.disagreement)

    def matrix(self, agreement: float = 0.0) -> Array:
        """B + 2·agreement D."""
        return self.scored if agreement == 0 else self.scored + 2 * agreement * self.disagreement

    def path(self, alphas: FloatArray, agreement: float = 0.0, offset: float = 0.0) -> list[Array]:
        """Coefficients of every view's basis for every alpha: (r_v, a) per view."""
        return self.to_bases(self.spectrum(agreement).solve(self.right(offset), alphas))

    def agreement_path(self, alpha: float, agreements: FloatArray, offset: float) -> list[Array]:
        """Coefficients for every agreement at one alpha from one eigendecomposition: D in the
        metric of B + alpha I.
        """
        xp = namespace(self.scored)
        spectrum = self.spectrum()
        root = spectrum.vectors / xp.sqrt(spectrum.values + alpha)[None, :]
        spread, inner = eigh(symmetrised(root.T @ self.disagreement @ root))
        directions = root @ inner
        weights = like(agreements, self.scored)
        damping = 1 / (1 + 2 * spread[:, None] * weights[None, :])
        projected = directions.T @ self.right(offset)
        return self.to_bases(directions @ (damping * projected))

    def solve(self, alpha: float, agreement: float = 0.0, offset: float = 0.0) -> list[Array]:
        """Coefficients of every view's basis for one pair of parameters, by Cholesky: (r_v, 1) per
        view.
        """
        return self.to_bases(self.solved(self.matrix(agreement), alpha, self.right(offset)))

    def solve_partitioned(self, alpha: float, agreement: float, offset: float) -> list[Array]:
        """Two views one after the other ([Brefeld2006] section 3.2): Cholesky of two halves instead
        of the whole.
        """
        if len(self.views) != 2:
            raise ValueError(f"the partitioned form is for two views, got {len(self.views)}.")
        cut = int(self.ends[1])
        matrix = add_diagonal(self.matrix(agreement), alpha)
        right = self.right(offset)
        xp = namespace(matrix)
        across = matrix[:cut, cut:]
        both = xp.concat([across.T, right[cut:, :]], axis=1)
        solved = solve_positive(matrix[cut:, cut:] * 1.0, both)
        taken, fixed = solved[:, :-1], solved[:, -1:]
        reduced = symmetrised(matrix[:cut, :cut] - across @ taken)
        first = solve_positive(reduced, right[:cut, :] - across @ fixed)
        second = fixed - taken @ first
        return self.to_bases(xp.concat([first, second], axis=0))

    def evidence(self) -> LogEvidence:
        """The log evidence of the scores of one view."""
        (gram,) = self.grams
        values = to_numpy(self.kept_spectrum.values)
        squares = to_numpy(self.kept_spectrum.vectors.T @ gram.right())[:, 0] ** 2
        live = values > 1e-14 * values[-1]
        energies = np.where(live, squares / np.where(live, values, 1.0), 0.0)
        energy = float(gram.matrix[-N_TARGETS, -N_TARGETS])
        remainder = max(energy - float(energies.sum()), 0.0)
        return LogEvidence(values, energies, remainder, gram.freedom)

    def to_bases(self, white: Array) -> list[Array]:
        """Coefficients of whitened features (Σ r_v, k) → of every view's basis."""
        return [matrix @ white[span, :] for matrix, span in zip(self.maps, self.spans, strict=True)]

    # ---- hold-out

    @property
    def has_fold_sums(self) -> bool:
        """Whether sums were gathered for every fold."""
        return self._statistics is not None and self._statistics[0].n_folds > 1

    def path_without(
        self, fold: int, alphas: FloatArray, agreements: FloatArray, *, centred: bool
    ) -> tuple[Array, float]:
        """Whitened features' coefficients (Σ r_v, pairs) without a fold, penalties taken out, and
        the mean taken out.

        One eigendecomposition per agreement.
        """
        grams = [statistics.without(fold) for statistics in self.statistics]
        if len(grams) < len(self.views):
            (joint,), end = grams, self.size + N_TARGETS
            chosen = [np.r_[span, self.size : end] for span in self.spans]
            grams = [replace(joint, matrix=block_of(joint.matrix, rows, rows)) for rows in chosen]
        offset = 0.0
        if centred:  # the mean of all scores that were summed, where single rows count
            total, weight = (sum(float(gram.matrix[row, -1]) for gram in grams) for row in (-2, -1))
            offset = total / weight if weight > 0 else 0.0
        scored, right = block_diagonal(self._blocks(grams)), self._rights(grams, offset)
        paths = []
        for agreement in agreements:
            matrix = scored if agreement == 0 else scored + 2 * float(agreement) * self.disagreement
            spectrum = self.spectra.get(fold) or Spectrum.of(matrix)
            if self.is_shared:
                self.spectra[fold] = spectrum
            paths.append(spectrum.solve(right, alphas))
        roots = np.repeat([view.penalty**-0.5 for view in self.views], np.diff(self.ends))
        return like(roots[:, None], right) * namespace(right).concat(paths, axis=1), offset

    def unit_features(self, view: int, units: Index, directions: Array | None = None) -> Array:
        """A view's whitened features of units, penalty inside, in the directions (r_v, k) where
        given.
        """
        data = self.views[view]
        turned = self.maps[view] if directions is None else self.maps[view] @ directions
        return data.problem.unit_features(data.basis.features, units) @ turned

    @cached_property
    def all_unit_features(self) -> list[Array]:
        """Whitened features of every unit: (n_v, r_v) per view."""
        return [self.unit_features(v, _all_units(view)) for v, view in enumerate(self.views)]

    def projected_targets(self, vectors: Array) -> Array:
        """Vᵀ Φᵀ Jᵀ (J s, J 1) for eigenvectors V of `matrix`: (k, 2)."""
        scores = self.right()
        both = namespace(vectors).concat([scores, scores - self.right(1.0)], axis=1)
        return vectors.T @ both

    @property
    def few_units(self) -> bool:
        """Whether there are so few units that `cokernel` is the cheaper form, unless its
        decomposition is of one column of scores only.
        """
        return self.n_units <= max(self.size, FEW_UNITS) and not self.is_shared

    @cached_property
    def cokernel(self) -> CoKernel:
        """The loss as a kernel between units, Φ (I + 2·ratio·D)⁻¹ Φᵀ, from one eigendecomposition
        of D.
        """
        if self.n_unscored == 0:
            values = zeros_beside(self.size, self.views[0].problem.reference)
            units = padded(self.all_unit_features)
        else:
            values, vectors = eigh(self.disagreement)
            units = [
                self.unit_features(v, _all_units(view), vectors[span, :])
                for v, (view, span) in enumerate(zip(self.views, self.spans, strict=True))
            ]
        return CoKernel(self.problems, units, None, SpectralCurve(values, 2.0, taken_away=False))


def _all_units(view: ViewData) -> Index:
    return np.arange(view.problem.targets.shape[0])


def _every_fold(codes: Index, n_folds: int) -> Index:
    """Fold numbers with units that are never held out in a fold of their own, after the others."""
    return np.where(codes < 0, n_folds, codes)


def sum_unscored(
    unscored: UnscoredRows, features: JointFeatures, columns: Sequence[Any], reference: Array
) -> Gram:
    """The sums over all unscored rows, views side by side; rows of scans are summed pass by pass."""
    scanned: list[Any] = [part for part in unscored.parts if part.is_scanned]
    held = tuple(part for part in unscored.parts if not part.is_scanned)
    sums = Accumulator(unscored.comparison, features, features.size, reference)
    for piece in replace(unscored, parts=held).pieces():
        zeros = zeros_beside(len(piece.queries), reference)
        sums.add(SideBySide.of(piece.features, columns), zeros, piece.queries, piece.weights)
    total = sums.result().total()
    for part in scanned:
        total += part.summed(unscored.comparison, features, columns).total()
    return total


# ---------------------------------------------------------------- dual


class DualSystem(System):
    """a = Rᵀ (R 𝐊 Rᵀ + alpha I)⁻¹ [J s; 0]: size Σ n_v + (M − 1) m, no normal equations
    (docs/mathematics.md, section 3).

    R stacks every view's J over √(2·agreement·M) (H ⊗ J̄) on the unscored rows; 𝐊 is block
    diagonal. Each view's basis is its scored and all unscored rows, in that order. One view alone
    may have the columns as its basis: then 𝐊 is linear, and the expansion over rows is summed up,
    Xᵀ a. Valid for singular 𝐊; the smallest eigenvalue is at least alpha. Building it costs O(n²
    d), one alpha O(n³/3), all alphas one eigendecomposition.
    """

    def __init__(self, views: Sequence[ViewData], unscored: UnscoredRows | None = None) -> None:
        super().__init__(views, unscored)
        self.contrasts = np.zeros((0, len(views)))
        if self.n_unscored:
            self.contrasts = contrasts(len(views), self.bonds)
        self._operator: Any = None  # J̄
        self._sides: list[Array] = []  # K J̄ᵀ between a view's scored and the unscored rows
        self._agreeing: Any = None  # (H ⊗ J̄) 𝐊 (H ⊗ J̄)ᵀ
        if self.n_unscored:
            self._add_unscored()

    @cached_property
    def kernels(self) -> list[Array]:
        """Kernel values between every view's scored rows over its penalty: (n_v, n_v)."""
        self._largest = 0.0
        blocks = []
        for view in self.views:
            basis, features = view.basis, view.problem.features
            n = features.shape[0]
            if isinstance(basis, FeatureBasis):
                block = finite_values(basis.kernel.block(features, features))
            elif self.n_unscored:
                block = basis.gram[:n, :n]
            else:
                points = basis.points if basis.size == n else take(basis.points, np.arange(n))
                block = finite_values(basis.kernel.block(features, points))
            xp = namespace(block)
            size = float(xp.max(xp.abs(xp.linalg.diagonal(block))))
            self._largest = max(self._largest, size / view.penalty)
            blocks.append(block if view.penalty == 1 else block / view.penalty)
        return blocks

    def _add_unscored(self) -> None:
        """Kernel values of the unscored rows under their loss."""
        assert self.unscored is not None
        m, reference = self.n_unscored, self.views[0].problem.reference
        self._agreeing = 0.0
        _, codes, weights = self.unscored.everything()
        queries, n_queries = first_appearance(codes)
        self._operator = QueryLoss(
            self.unscored.comparison,
            like(queries, reference, "int64"),
            n_queries,
            None if weights is None else like(weights, reference),
            reference,
            m,
        )
        for v, view in enumerate(self.views):
            n = view.problem.features.shape[0]
            gram = view.basis.gram / view.penalty  # type: ignore[union-attr]
            self._sides.append(self._operator.root(gram[n:, :n]).T)
            inner = self._operator.conjugate(gram[n:, n:] * 1.0)
            outer = np.outer(self.contrasts[:, v], self.contrasts[:, v])
            self._agreeing = self._agreeing + (
                inner * float(outer[0, 0]) if len(outer) == 1 else kron(outer, inner)
            )

    @cached_property
    def scored(self) -> Array:
        """J K Jᵀ of every view on the diagonal."""
        if len(self.views) == 1:  # nothing else needs its kernel values: they may be overwritten
            (block,) = self.kernels
            del self.kernels
            return self.problems[0].operator.conjugate(block)
        pairs = zip(self.problems, self.kernels, strict=True)
        return block_diagonal([problem.operator.conjugate(block * 1.0) for problem, block in pairs])

    @cached_property
    def mixed(self) -> Array:
        """J K (H ⊗ J̄)ᵀ between scored and unscored rows."""
        xp, rows = namespace(self.scored), []
        for problem, side, shares in zip(self.problems, self._sides, self.contrasts.T, strict=True):
            root = problem.operator.root(side)
            rows.append(xp.concat([share * root for share in shares.tolist()], axis=1))
        return xp.concat(rows, axis=0)

    @property
    def size(self) -> int:
        """Scored and unscored rows of all views."""
        return sum(view.basis.size for view in self.views)

    @property
    def scale(self) -> float:
        """What alpha is measured against: trace(J K Jᵀ) over the weight of the rows, 1 where that
        is rounding.
        """
        scale = _trace(self.scored) / sum(problem.operator.weight for problem in self.problems)
        assert self._largest is not None
        # of rows that are all alike
        rounding = 16 * EPSILON * np.sqrt(self.scored.shape[0]) * self._largest
        return scale if scale > rounding else 1.0

    def _weight_of_disagreement(self) -> float:
        return len(self.views) * _trace(self._agreeing)

    @property
    def mean_score(self) -> float:
        """The weighted mean of all given scores."""
        return mean_score(self.problems)

    def matrix(self, agreement: float = 0.0) -> Array:
        """R 𝐊 Rᵀ."""
        if agreement == 0 or len(self.contrasts) == 0:
            return self.scored
        xp = namespace(self.scored)
        factor = 2 * agreement * len(self.views)
        mixed = float(np.sqrt(factor)) * self.mixed
        upper = xp.concat([self.scored, mixed], axis=1)
        lower = xp.concat([mixed.T, factor * self._agreeing], axis=1)
        return xp.concat([upper, lower], axis=0)

    def path(self, alphas: FloatArray, agreement: float = 0.0, offset: float = 0.0) -> list[Array]:
        """Coefficients of every view's basis for every alpha, from one eigendecomposition: (r_v, a)
        per view.
        """
        spectrum = self.spectrum(agreement)
        right = self._right(offset, spectrum.values.shape[0])
        return self._to_bases(spectrum.solve(right, alphas), agreement)

    def solve(self, alpha: float, agreement: float = 0.0, offset: float = 0.0) -> list[Array]:
        """Coefficients of every view's basis for one pair of parameters, by Cholesky: (r_v, 1) per
        view.
        """
        matrix = self.matrix(agreement)
        self.refuse_small(alpha)
        right = self._right(offset, matrix.shape[0])
        size = self._largest if agreement == 0 else None
        return self._to_bases(self.solved(matrix, alpha, right, size), agreement)

    def refuse_small(self, alpha: float) -> None:
        """Refuse alpha where coefficients of 1/alpha no longer cancel where they should."""
        assert self._largest is not None
        if alpha < 4 * EPSILON * self._largest:
            raise ValueError(too_small(alpha, self._largest))

    def evidence(self) -> LogEvidence:
        """The log evidence of the scores of one view."""
        (problem,) = self.problems
        return self.kept_spectrum.evidence(problem.targets[:, :1], problem.freedom())

    def _right(self, offset: float, size: int) -> Array:
        targets = self.targets[:, :1] - offset * self.targets[:, 1:]
        zeros = zeros_beside((size - targets.shape[0], 1), targets)
        return namespace(targets).concat([targets, zeros], axis=0)

    def _to_bases(self, dual: Array, agreement: float) -> list[Array]:
        """Rᵀ z, view by view: scored rows first, then unscored ones."""
        xp = namespace(dual)
        ends = np.cumsum([0, *(problem.operator.n_roots for problem in self.problems)])
        factor = float(np.sqrt(2 * agreement * len(self.views))) if len(self.contrasts) else 0.0
        m, result = self.n_unscored, []
        for v, view in enumerate(self.views):
            rows = view.problem.operator.root_transposed(dual[ends[v] : ends[v + 1], :])
            if isinstance(view.basis, FeatureBasis):
                result.append(like(float64(view.problem.features).T @ rows, rows) / view.penalty)
                continue
            missing = view.basis.size - rows.shape[0]
            if missing:
                shared = zeros_beside((missing, dual.shape[1]), dual)
                if factor > 0:
                    for c, contrast in enumerate(self.contrasts):
                        begin = int(ends[-1]) + c * m
                        shared = shared + factor * float(contrast[v]) * dual[begin : begin + m, :]
                    shared = self._operator.root_transposed(shared)
                rows = xp.concat([rows, shared], axis=0)
            result.append(rows if view.penalty == 1 else rows / view.penalty)
        return result

    @property
    def few_units(self) -> bool:
        """Whether there are so few units that `cokernel` is the cheaper form: always without
        unscored rows.
        """
        n_others = len(self.contrasts) * self.n_unscored
        return n_others == 0 or self.scored.shape[0] <= max(n_others, FEW_UNITS)

    @cached_property
    def cokernel(self) -> CoKernel:
        """The loss as a kernel between units, K − C (A + 1/(2 M ratio))⁻¹ Cᵀ: the unscored rows
        taken out.

        One eigendecomposition of A.
        """
        factor = 2.0 * len(self.views)
        if len(self.contrasts) == 0:
            curve = SpectralCurve(self.scored[0, :0], factor)
            parts = [problem.targets[:, :0] for problem in self.problems], self._unit_kernels
            return CoKernel(self.problems, *parts, curve, self.scored, self._largest)
        values, vectors = eigh(self._agreeing)
        m = self.n_unscored
        units = []
        for v, (problem, side) in enumerate(zip(self.problems, self._sides, strict=True)):
            shared: Any = 0.0
            for c, contrast in enumerate(self.contrasts):
                shared = shared + float(contrast[v]) * (side @ vectors[c * m : (c + 1) * m, :])
            units.append(problem.per_unit(shared))
        return CoKernel(self.problems, units, self._unit_kernels, SpectralCurve(values, factor))

    def _unit_kernels(self) -> list[Array]:
        pairs = zip(self.problems, self.kernels, strict=True)
        return [problem.per_unit(problem.per_unit(block).T) for problem, block in pairs]


def mean_score(problems: Sequence[Problem]) -> float:
    """The weighted mean of all given scores."""
    weights = [problem.operator.weight for problem in problems]
    return float(np.average([problem.mean_score for problem in problems], weights=weights))
