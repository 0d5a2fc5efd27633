"""The co-regularised kernel: views that agree on unscored rows, seen from their units (scored rows
or comparisons).

With ratio = agreement / alpha, the loss of several views is that of kernel least squares under

    K(ratio) = blockdiag(K_v) + Z diag(g(ratio)) Zᵀ

on the units of all views, where Z comes from one decomposition of what the unscored rows say
[Sindhwani2008]. Few units make every pair of parameters cheap, however many unscored rows there
are. Without unscored rows it is the kernel of every view by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    block_of,
    namespace,
    stack_rows,
    symmetrised,
    take,
)
from corank.solve.spectrum import Spectrum


@dataclass(frozen=True)
class SpectralCurve:
    """g = 1 / (1 + factor·ratio·λ), times −factor·ratio where unscored rows were taken out of the
    kernel.
    """

    values: Array
    factor: float
    taken_away: bool = True

    def __call__(self, ratio: float) -> Array:
        """g: (k,)."""
        g = 1 / (1 + self.factor * ratio * self.values)
        return -self.factor * ratio * g if self.taken_away else g


@dataclass(frozen=True)
class CoKernel:
    """Kernels between the units of all views, stacked.

    problems : one per view
    shared : (n_v, k) per view, Z before its root; k = 0 where there are no unscored rows
    make_kernels : makes K_v before its root, (n_v, n_v) per view; None where Z says it all
    curve : how g depends on the ratio
    scored : J K Jᵀ where it is known and does not depend on the ratio; size : of its kernel values,
        see `eigh`
    """

    problems: Sequence[Any]
    shared: Sequence[Array]
    make_kernels: Callable[[], Sequence[Array]] | None
    curve: SpectralCurve
    scored: Array | None = None
    size: float | None = None

    @cached_property
    def kernels(self) -> Sequence[Array] | None:
        """K_v of every view."""
        return None if self.make_kernels is None else self.make_kernels()

    @cached_property
    def ends(self) -> Index:
        """Where each view's units begin, and the end."""
        return np.cumsum([0, *(problem.targets.shape[0] for problem in self.problems)])

    @cached_property
    def targets(self) -> Array:
        """J s and J 1 of every view, stacked: (N, 2)."""
        return stack_rows([problem.targets for problem in self.problems])

    @cached_property
    def _shared_roots(self) -> Array:
        pairs = zip(self.problems, self.shared, strict=True)
        return stack_rows([problem.unit_root(values) for problem, values in pairs])

    def matrix(self, ratio: float) -> Array:
        """J K Jᵀ: (N, N). O(N² k)."""
        if self.scored is not None:
            return self.scored
        roots = self._shared_roots
        matrix = (roots * self.curve(ratio)[None, :]) @ roots.T
        if self.kernels is not None:
            xp = namespace(matrix)
            rows = []
            views = zip(self.problems, self.kernels, pairwise(self.ends), strict=True)
            for problem, kernel, (begin, end) in views:
                half = problem.unit_root(kernel)
                own = problem.unit_root(half.T)
                inner = own + matrix[begin:end, begin:end]
                before = matrix[begin:end, :begin]
                after = matrix[begin:end, end:]
                rows.append(xp.concat([before, inner, after], axis=1))
            matrix = xp.concat(rows, axis=0)
        return symmetrised(matrix)

    def spectrum(self, ratio: float) -> Spectrum:
        """Eigenvalues and eigenvectors of `matrix`."""
        return Spectrum.of(self.matrix(ratio), self.size)

    def take(self, units: Sequence[Index]) -> CoKernel:
        """The kernels between chosen units of every view."""
        problems = []
        shared = []
        for problem, values, chosen in zip(self.problems, self.shared, units, strict=True):
            problems.append(problem.take(chosen))
            shared.append(take(values, chosen))
        kernels = self.kernels
        if kernels is not None:
            pairs = zip(kernels, units, strict=True)
            kernels = [block_of(kernel, chosen, chosen) for kernel, chosen in pairs]
        return CoKernel(problems, shared, None if kernels is None else lambda: kernels, self.curve)

    def predictions(
        self,
        kept: Sequence[Index],
        left: Sequence[Index],
        alphas: FloatArray,
        ratio: float,
        offset: float,
    ) -> list[Array]:
        """Predictions for the units left by models fitted on the units kept: one (n, a) per view."""
        inner = self.take(kept)
        right = inner.targets[:, :1] - offset * inner.targets[:, 1:]
        dual = inner.spectrum(ratio).solve(right, alphas)
        weights = []
        common: Any = 0.0
        views = zip(inner.problems, inner.shared, pairwise(inner.ends), strict=True)
        for problem, values, (begin, end) in views:
            own = problem.unit_root_transposed(dual[begin:end, :])
            weights.append(own)
            common = common + values.T @ own
        common = self.curve(ratio)[:, None] * common
        result = []
        for v, units in enumerate(left):
            values = take(self.shared[v], units) @ common
            if self.kernels is not None:
                values = values + block_of(self.kernels[v], units, kept[v]) @ weights[v]
            result.append(values + offset)
        return result


def grouped_by_ratio(alphas: FloatArray, agreements: FloatArray) -> list[tuple[float, Index]]:
    """Pairs (agreement-major numbers) that share agreement / alpha, up to rounding: they share a
    decomposition.
    """
    ratios = (agreements[:, None] / alphas[None, :]).ravel()
    with np.errstate(divide="ignore"):
        keys = np.where(ratios > 0, np.round(np.log(ratios), 9), -np.inf)
    _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
    return [
        (float(ratios[position]), np.flatnonzero(codes.ravel() == k))
        for k, position in enumerate(first)
    ]
