"""The co-regularised kernel: what views that agree on unscored rows are, seen from the scored ones.

With ratio = agreement / alpha, the loss of several views is that of kernel least squares under

    K(ratio) = blockdiag(K_v) + Z diag(g(ratio)) Zᵀ

on what is scored in all views, where Z comes from one decomposition of what the unscored rows say (Sindhwani and
Rosenberg 2008). Few scored rows make every pair of parameters cheap, however many unscored rows there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from corank._arrays import Array, FloatArray, Index, eigh, like, namespace, symmetrised, take
from corank.problem import ComparedRows, ScoredRows


@dataclass(frozen=True)
class SpectralCurve:
    """g = sign / (1 + factor·ratio·λ), times factor·ratio for what is taken away (sign −1)."""

    values: Array
    factor: float
    taken_away: bool

    def __call__(self, ratio: float) -> Array:
        """g: (k,)."""
        g = 1 / (1 + self.factor * ratio * self.values)
        return -self.factor * ratio * g if self.taken_away else g


@dataclass(frozen=True)
class CoKernel:
    """Kernels between the units of all views, stacked.

    problems : one a view
    shared : (n_v, k) a view, Z before its root
    own : (n_v, n_v) a view, K_v before its root; None where Z says it all
    curve : how g depends on the ratio
    """

    problems: Sequence[ScoredRows | ComparedRows]
    shared: Sequence[Array]
    own: Sequence[Array] | None
    curve: SpectralCurve

    @cached_property
    def ends(self) -> Index:
        """Where each view's units begin, and the end."""
        return np.cumsum([0, *(int(problem.targets.shape[0]) for problem in self.problems)])

    @cached_property
    def targets(self) -> Array:
        """J s and J 1 of every view, stacked: (N, 2)."""
        return namespace(self.problems[0].reference).concat([problem.targets for problem in self.problems], axis=0)

    @cached_property
    def _shared_roots(self) -> Array:
        parts = [problem.unit_root(z) for problem, z in zip(self.problems, self.shared, strict=True)]
        return namespace(parts[0]).concat(parts, axis=0)

    def matrix(self, ratio: float) -> Array:
        """J K Jᵀ: (N, N). O(N² k)."""
        z = self._shared_roots
        matrix = (z * self.curve(ratio)[None, :]) @ z.T
        if self.own is not None:
            xp, rows = namespace(matrix), []
            for v, (b, e) in enumerate(pairwise(self.ends)):
                problem = self.problems[v]
                inner = problem.unit_root(problem.unit_root(self.own[v]).T) + matrix[b:e, b:e]
                rows.append(xp.concat([matrix[b:e, :b], inner, matrix[b:e, e:]], axis=1))
            matrix = xp.concat(rows, axis=0)
        return symmetrised(matrix)

    def spectrum(self, ratio: float) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of `matrix`."""
        return eigh(self.matrix(ratio))

    def take(self, units: Sequence[Index]) -> CoKernel:
        """The same with some of the units of every view."""
        own = self.own
        if own is not None:
            own = [namespace(k).take(take(k, u), like(u, k, "int64"), axis=1) for k, u in zip(own, units, strict=True)]
        return CoKernel(
            [problem.take(u) for problem, u in zip(self.problems, units, strict=True)],
            [take(z, u) for z, u in zip(self.shared, units, strict=True)],
            own,
            self.curve,
        )

    def predictions(
        self, kept: Sequence[Index], left: Sequence[Index], alphas: FloatArray, ratio: float, offset: float
    ) -> list[Array]:
        """What models fitted on the kept units of every view say of those left: one (n, a) a view."""
        part = self.take(kept)
        values, vectors = part.spectrum(ratio)
        right = part.targets[:, :1] - offset * part.targets[:, 1:]
        dual = vectors @ ((vectors.T @ right) / (values[:, None] + like(alphas, values)[None, :]))
        own = pairwise(part.ends)
        weights = [p.unit_root_transposed(dual[b:e, :]) for p, (b, e) in zip(part.problems, own, strict=True)]
        shared: Any = sum(z.T @ w for z, w in zip(part.shared, weights, strict=True))
        shared = self.curve(ratio)[:, None] * shared
        result = []
        for v, units in enumerate(left):
            found = take(self.shared[v], units) @ shared
            if self.own is not None:
                rows = take(self.own[v], units)
                found = found + namespace(rows).take(rows, like(kept[v], rows, "int64"), axis=1) @ weights[v]
            result.append(found + offset)
        return result


def grouped_by_ratio(alphas: FloatArray, agreements: FloatArray) -> list[tuple[float, Index]]:
    """Pairs (agreement-major numbers) that share agreement / alpha, up to rounding: they share a decomposition."""
    ratios = (agreements[:, None] / alphas[None, :]).ravel()
    with np.errstate(divide="ignore"):
        keys = np.where(ratios > 0, np.round(np.log(ratios), 9), -np.inf)
    _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
    return [(float(ratios[f]), np.flatnonzero(codes.ravel() == k)) for k, f in enumerate(first)]
