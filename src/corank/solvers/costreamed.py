"""Views that agree where the scored rows, too, are only passed over: everything from the sums of all views together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from corank._backend import Array, like
from corank.basis import FeatureMap
from corank.comparison import Comparison
from corank.solvers.agreement import JointFeatures, PrimalAgreement, Unscored, ViewData, block_diagonal
from corank.solvers.cofit import CoSettings, CoSolution, grid_of, solved
from corank.solvers.coheldout import joined
from corank.solvers.cosums import errors_from_sums
from corank.solvers.effect import Evidence
from corank.solvers.folding import Folding, chosen_pair
from corank.solvers.path import Path
from corank.solvers.streamed import ScoredScan, constant_loss
from corank.statistics import Gram, Statistics
from corank.summing import Folds


@dataclass(frozen=True)
class SummedRows:
    """Stands for scored rows of which there are only sums."""

    comparison: Comparison
    n_queries: int
    reference: Array


class StreamedAgreement(PrimalAgreement):
    """The same system from sums of all views' features side by side.

    Parameters
    ----------
    views : whose problems are `SummedRows`
    sums : of every fold, over the features of all views, before whitening
    """

    def __init__(self, views: Sequence[ViewData], unscored: Unscored, sums: Statistics) -> None:
        super().__init__(views, unscored)
        maps = [FeatureMap(view.basis) for view in views]
        white = [
            like(np.eye(phi.size), views[0].problem.reference) if phi.whitened else view.basis.whitening.matrix
            for phi, view in zip(maps, views, strict=True)
        ]
        self.sums = sums.mapped(block_diagonal(white))

    @cached_property
    def total(self) -> Gram:
        """The sums over all scored rows."""
        return self.sums.total()

    @cached_property
    def kept(self) -> list[Statistics]:
        """Each view's part of them; parts of the only query, which may grow, apart from its Gram matrix."""
        whole = self.sums.collapsed()
        return [whole.of_features(np.arange(begin, end)) for begin, end in pairwise(self.ends)]

    @cached_property
    def grams(self) -> list[Gram]:
        """The same, the only query closed."""
        return [own.total() for own in self.kept]

    def penalised(self) -> Statistics:
        """The sums of features that have the penalties of their views inside."""
        roots = np.concatenate([np.full(e - b, v.penalty**-0.5) for v, (b, e) in self._spans()])
        return self.sums.mapped(like(np.diag(roots), self.total.matrix))

    def _spans(self) -> list[tuple[ViewData, tuple[int, int]]]:
        return list(zip(self.views, pairwise(self.ends), strict=True))

    @property
    def n_units(self) -> int:
        """Scored rows, over all views."""
        return len(self.views) * round(self.total.weight)

    @property
    def few(self) -> bool:
        """They are many."""
        return False


def solve_streamed_views(
    views: Sequence[ViewData], unscored: Unscored, rows: ScoredScan, settings: CoSettings
) -> CoSolution:
    """Choose what is to be tuned by held-out error, then solve; as `solve_views` does where sums of folds serve it."""
    folds = _folds(rows, settings) if settings.tunes else None
    features = JointFeatures([FeatureMap(view.basis) for view in views])
    sums = rows.summed(features, features.size, folds, [view.columns for view in views])
    system = StreamedAgreement(views, unscored, sums)
    grid = grid_of(system, settings)
    alpha, agreement, path, found = float(grid.alphas[-1]), float(grid.agreements[-1]), None, None
    offset = system.total.mean_score if settings.centred else 0.0
    folding = None
    if folds is not None:
        errors = errors_from_sums(
            system, [system.penalised()], folds.n_folds, grid, centred=settings.centred, together=True
        )
        found = joined(errors, settings.scoring)
        found = found if len(found.sizes) else None  # nothing that was held out can be told apart
    if found is None and settings.tunes:
        alpha = system.scale if isinstance(settings.alpha, str) and system.scale > 0 else alpha
        agreement = 0.0 if isinstance(settings.agreement, str) else agreement
    elif found is not None and folds is not None:
        folding = Folding([np.arange(folds.n_folds)], items=False)
        pairs = np.asarray([grid.pair(k) for k in range(grid.size)])
        path = Path(
            alpha=pairs[:, 0],
            gamma=np.full(grid.size, np.nan),
            error=found.mean,
            standard_error=found.standard_error,
            best=chosen_pair(found, grid, np.arange(grid.size), settings.scoring),
            scoring=settings.scoring,
            constant=constant_loss(system.total, offset),
            agreement=pairs[:, 1],
        )
        alpha, agreement = grid.pair(path.best)
    known: dict[str, Any] = {"scoring": settings.scoring, "centred": settings.centred, "seed": settings.seed}
    evidence = Evidence(source=None, found=found, folding=folding, grid=grid, **known)
    return solved(system, alpha, agreement, offset, path, evidence, settings)


def _folds(rows: ScoredScan, settings: CoSettings) -> Folds | None:
    if rows.comparison.needs_queries and rows.n_queries == 1:
        raise ValueError(
            "to tune alpha and agreement on items of one query their scores must be in memory, but they are too many; "
            "name a query column, or give both as numbers."
        )
    return rows.folds(settings.seed)
