"""From a scan with more scored rows than memory to one solution: everything from sums, one pass a kernel width."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from corank._backend import Array, take
from corank.basis import Basis, FeatureBasis, FeatureMap, KernelBasis, candidate_limit, choose_rows
from corank.comparison import Comparison
from corank.kernels import WITH_GAMMA, Kernel, scale_gamma
from corank.looking import Look
from corank.passes import Passes
from corank.problem import FloatArray
from corank.scans import Scan
from corank.solvers.direct import PrimalSystem
from corank.solvers.fit import GAMMA_STEPS, Candidate, Settings, Solution, alphas_to_try, choose
from corank.solvers.holdout import N_FOLDS, losses_from_sums, pooled
from corank.statistics import Gram, Index, Statistics
from corank.summing import Folds, Summing


@dataclass
class ScoredScan:
    """The scored rows of a scan, which was looked at.

    level : is taken out of the scores
    """

    scan: Scan
    look: Look
    passes: Passes
    comparison: Comparison
    level: float = 0.0
    _passed: int = field(default=0, init=False)

    @property
    def n_queries(self) -> int:
        """Queries with a score, 1 where there is no query column."""
        return self.look.offsets()[1] if self.scan.has_queries else 1

    def folds(self, seed: int) -> Folds | None:
        """The learner's own: at most ten of queries, of rows, or of items of the only query; None for too little."""
        offsets, _ = self.look.offsets()
        n = self.n_queries
        if n > 1:
            return Folds("query", min(N_FOLDS, n), seed, offsets)
        n = self.look.n_scored
        if self.comparison.needs_queries:
            return Folds("row", min(N_FOLDS, n // 2), seed, offsets) if n >= 4 else None
        return Folds("row", min(N_FOLDS, n), seed, offsets) if n > 1 else None

    def summed(self, features: Any, size: int, folds: Folds | None, columns: list[Index] | None = None) -> Statistics:
        """One pass: the sums of every fold. O(n r (r + d))."""
        items = self.comparison.needs_queries and self.n_queries == 1
        job = Summing(self.comparison, features, size, "scored", columns, folds, items, self.level)
        self._passed += 1
        name, what = f"sums-scored-{self._passed}", "summing scored rows"
        return self.passes.run(self.scan, job, name, what, self.look.n_rows).closed()  # type: ignore[no-any-return]


def solve_streamed(rows: ScoredScan, settings: Settings) -> tuple[Solution, Gram]:
    """Choose what is to be tuned by held-out error, then solve; the sums over all rows beside it.

    The same choices as `solve` makes in memory, on the same folds and candidates. `basis` is a number or "features".
    """
    folds = rows.folds(settings.seed) if settings.tunes else None
    found = list(_candidates(rows, settings, folds))
    gram = found[0].system.gram  # type: ignore[attr-defined]
    offset = gram.mean_score if settings.centred else 0.0
    chosen, alpha, path = choose(found, settings, constant_loss(gram, offset))
    coefficients = chosen.system.solve(alpha, offset)
    return Solution(chosen.basis, chosen.rows, coefficients, offset, alpha, chosen.system, path), gram


def constant_loss(gram: Gram, offset: float) -> float:
    """The error of a constant: ‖J (s − offset)‖² over the rank of the loss."""
    return float(gram.loss(0.0 * gram.right(), offset)[0]) / max(gram.freedom, 1)


def _candidates(rows: ScoredScan, settings: Settings, folds: Folds | None) -> Iterator[Candidate]:
    for kernel in _kernels(rows, settings):
        basis, numbers = _basis(rows, settings, kernel)
        phi = FeatureMap(basis)
        white = basis.whitening
        sums = rows.summed(phi, phi.size, folds)
        system = PrimalSystem(basis, sums if white.inside or white.trivial else sums.mapped(white.matrix))
        alphas: FloatArray = alphas_to_try(system, settings)
        errors = None
        if folds is not None:
            parts = losses_from_sums(system, alphas, folds.n_folds, settings.scoring, settings.centred)
            errors = pooled([parts])
        yield Candidate(basis, numbers, system, alphas, errors)


def _pool(rows: ScoredScan, settings: Settings) -> tuple[Index, Array]:
    """Row numbers and features of the candidates for the basis."""
    assert isinstance(settings.basis, int)
    numbers, features = rows.look.scored.cut(candidate_limit(settings.basis)).rows()
    return numbers, features


def _kernels(rows: ScoredScan, settings: Settings) -> list[Kernel]:
    """The kernel with every width to try."""
    kernel, gamma = settings.kernel, settings.gamma
    if not (isinstance(kernel.name, str) and kernel.name in WITH_GAMMA):
        return [kernel]
    if isinstance(gamma, float | tuple):
        widths = np.atleast_1d(gamma)
    else:
        scale = scale_gamma(_pool(rows, settings)[1], None)
        widths = scale * (GAMMA_STEPS if gamma == "tune" else np.ones(1))
    return [replace(kernel, gamma=float(width)) for width in widths]


def _basis(rows: ScoredScan, settings: Settings, kernel: Kernel) -> tuple[Basis, Index | None]:
    if isinstance(settings.basis, str):
        return FeatureBasis(rows.scan.n_features, rows.scan.reference()), None
    assert isinstance(settings.basis, int)
    numbers, pool = _pool(rows, settings)
    rng = np.random.default_rng(settings.seed)
    chosen = choose_rows(kernel, pool, min(settings.basis, len(numbers)), settings.selection, rng)
    return KernelBasis(kernel, take(pool, chosen)), numbers[chosen]
