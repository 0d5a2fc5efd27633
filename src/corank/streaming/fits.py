"""Fits of scored rows that only pass by: everything comes from sums, one pass per kernel width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corank.core.arrays import Array, Index
from corank.core.folds import N_FOLDS, Folding
from corank.core.loss import Loss
from corank.core.sums import Statistics
from corank.solve.effect import Evidence
from corank.solve.holdout import Scoring
from corank.solve.systems import JointFeatures, PrimalSystem, Unscored, ViewData
from corank.solve.tuning import Settings, Trial, evidence_of
from corank.streaming.passes import Passes
from corank.streaming.scan import Scan
from corank.streaming.sums import Folds, JointSumJob, SumJob
from corank.streaming.survey import ScannedRows, Survey


@dataclass
class ScoredScan:
    """The scored rows of a scan after its first pass.

    level : is taken out of the scores
    """

    scan: Scan
    look: Survey
    passes: Passes
    comparison: Loss
    level: float
    _n_passes: int = field(default=0, init=False)

    @property
    def n_queries(self) -> int:
        """Queries with a score, 1 where there is no query column."""
        return self.look.offsets()[1] if self.scan.has_queries else 1

    def folds(self, seed: int) -> Folds | None:
        """At most ten folds of queries, of rows, or of items of the only query; None for too
        little.
        """
        offsets, _ = self.look.offsets()
        n = self.n_queries
        if n > 1:
            return Folds("query", min(N_FOLDS, n), seed, offsets)
        n = self.look.n_scored
        if self.comparison.needs_queries:
            return Folds("row", min(N_FOLDS, n // 2), seed, offsets) if n >= 4 else None
        return Folds("row", min(N_FOLDS, n), seed, offsets) if n > 1 else None

    def summed(
        self,
        features: Any,
        folds: Folds | None,
        columns: list[Index] | None,
        unscored: Unscored | None,
    ) -> Statistics:
        """One pass: the sums of every fold, and those of the unscored rows of the scan, which are
        kept. O(n r (r + d)).
        """
        items = self.comparison.needs_queries and self.n_queries == 1
        job = SumJob(self.comparison, features, "scored", columns, folds, items, self.level)
        self._n_passes += 1
        others = (
            []
            if unscored is None
            else [part for part in unscored.rows.parts if isinstance(part, ScannedRows)]
        )
        beside = [part for part in others if part.scan is self.scan]
        jobs = [job, *(part.sum_job(unscored.comparison, features, columns) for part in beside)]  # type: ignore[union-attr]
        name = f"sums-scored-{self._n_passes}"
        sums = self.passes.run(
            self.scan, JointSumJob(tuple(jobs)), name, "summing scored rows", self.look.n_rows
        ).sums
        for part, part_job, part_sums in zip(beside, jobs[1:], sums[1:], strict=True):
            part.keep(part_job, part_sums.closed())
        return sums[0].closed()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class SummedRows:
    """Stands for scored rows of which there are only sums."""

    comparison: Loss
    n_queries: int
    reference: Array


@dataclass(frozen=True)
class ScannedProblem:
    """Views of the scored rows of a scan, which only pass by: everything comes from sums, one pass
    per kernel width.
    """

    choices: Iterable[Sequence[ViewData]]
    rows: ScoredScan
    unscored: Unscored | None

    def prepared(
        self, views: Sequence[ViewData], settings: Settings
    ) -> tuple[PrimalSystem, Folding | None]:
        """The system from one pass, with sums for every fold."""
        folds = self.rows.folds(settings.seed) if settings.tunes else None
        joint = JointFeatures([view.basis for view in views])
        features: Any = joint
        columns: Any = [view.columns for view in views]
        if len(views) == 1 and views[0].columns is None:
            features, columns = joint.maps[0], None
        sums = self.rows.summed(
            features, folds, columns, None if settings.agreement == 0.0 else self.unscored
        )
        system = PrimalSystem(views, self.unscored, statistics=[joint.whitened(sums)])
        return system, None if folds is None else Folding([np.arange(folds.n_folds)])

    def constant(self, system: Any, offset: float, scoring: Scoring) -> float:
        """From the sums over all scored rows."""
        gram = system.grams[0]
        return float(gram.loss(0.0 * gram.right(), offset)[0] / max(gram.freedom, 1))

    def evidence(self, trial: Trial, settings: Settings) -> Evidence:
        """The errors that were found."""
        folding = (
            trial.folds if trial.errors is not None and isinstance(trial.folds, Folding) else None
        )
        return evidence_of(trial, settings, None, trial.errors, folding)
