"""From views of the data and settings to one solution: alpha and agreement chosen, every view's coefficients solved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corank._backend import Array, add_diagonal
from corank.solvers.agreement import (
    AgreementSystem,
    DualAgreement,
    PrimalAgreement,
    Unscored,
    ViewData,
    mean_score,
    same_scores,
)
from corank.solvers.coheldout import held_out, refitted
from corank.solvers.cokernel import CoKernel
from corank.solvers.coordinate import descend
from corank.solvers.effect import Evidence
from corank.solvers.folding import Folding, Grid, chosen_pair, own_folds
from corank.solvers.holdout import HeldOut, Scoring, Splits
from corank.solvers.path import GRID, Path, constant_error

STEP = GRID[1] / GRID[0]
AGREEMENTS = np.r_[0.0, 10.0 * STEP ** (2.0 * np.arange(-4, 5))]  # in units of where both losses weigh the same

KEPT_SIZE = 2_000  # of a system that a model keeps to judge fixed parameters with


@dataclass(frozen=True)
class CoSettings:
    """What a learner was asked for, checked.

    dual : every view's basis is its scored and all unscored rows
    splits : of the rows scored in any view, or of the comparisons, where the learner's own folds will not do
    compared : held-out errors are wanted although nothing is chosen by them here
    """

    alpha: float | str | tuple[float, ...]
    agreement: float | str | tuple[float, ...]
    dual: bool
    splits: Splits | None = None
    scoring: Scoring = "squared"
    centred: bool = False
    seed: int = 0
    solver: str = "direct"
    max_iter: int = 1000
    tol: float = 1e-8
    compared: bool = False

    @property
    def tunes(self) -> bool:
        """Whether anything is chosen by held-out error."""
        return self.compared or not (isinstance(self.alpha, float) and isinstance(self.agreement, float))


@dataclass(frozen=True)
class CoSolution:
    """Coefficients (r_v,) of every view, and how they came about.

    gradient : what a descent left, relative to the right-hand side; 0 for a direct solution
    """

    coefficients: list[Array]
    intercept: float
    alpha: float
    agreement: float
    path: Path | None
    system: AgreementSystem
    evidence: Evidence
    n_iter: int | None = None
    gradient: float = 0.0


def solve_views(views: Sequence[ViewData], unscored: Unscored, settings: CoSettings) -> CoSolution:
    """Choose what is to be tuned by held-out error, then solve."""
    make: Any = DualAgreement if settings.dual else PrimalAgreement
    system: AgreementSystem = make(views, unscored)
    grid = grid_of(system, settings)
    alpha, agreement, path = float(grid.alphas[-1]), float(grid.agreements[-1]), None
    offset = mean_score([view.problem for view in views]) if settings.centred else 0.0
    found = None
    if settings.tunes:
        found = _tried(system, unscored, grid, settings)
        if found is None:
            alpha = system.scale if isinstance(settings.alpha, str) and system.scale > 0 else alpha
            agreement = 0.0 if isinstance(settings.agreement, str) else agreement  # no proof, no agreement
        else:
            path = _path(found, grid, views, offset, settings.scoring)
            alpha, agreement = grid.pair(path.best)
    return solved(system, alpha, agreement, offset, path, _evidence(system, grid, found, settings), settings)


def solved(
    system: AgreementSystem,
    alpha: float,
    agreement: float,
    offset: float,
    path: Path | None,
    evidence: Evidence,
    settings: CoSettings,
) -> CoSolution:
    """The solution at a pair of parameters, by the solver that was asked for."""
    if settings.solver == "direct":
        parts = system.solve(alpha, agreement, offset)
        return CoSolution([p[:, 0] for p in parts], offset, alpha, agreement, path, system, evidence)
    assert isinstance(system, PrimalAgreement)
    if settings.solver == "partitioned":
        parts = system.solve_partitioned(alpha, agreement, offset)
        return CoSolution([p[:, 0] for p in parts], offset, alpha, agreement, path, system, evidence)
    descent = descend(
        add_diagonal(system.matrix(agreement), alpha),
        system.right(offset),
        system.ends,
        max_iter=settings.max_iter,
        tol=settings.tol,
        accelerated=settings.solver == "accelerated",
    )
    parts = system.to_bases(descent.solution)
    return CoSolution(
        [p[:, 0] for p in parts],
        offset,
        alpha,
        agreement,
        path,
        system,
        evidence,
        n_iter=descent.n_iter,
        gradient=descent.gradient if descent.gradient > settings.tol else 0.0,
    )


def grid_of(system: AgreementSystem, settings: CoSettings) -> Grid:
    """The alphas and agreements to try; those of the learner's own step alike, so that many pairs share their ratio."""
    alphas = GRID * (system.scale or 1.0) if isinstance(settings.alpha, str) else np.atleast_1d(settings.alpha)
    if not isinstance(settings.agreement, str):
        return Grid(alphas, np.atleast_1d(settings.agreement))
    scale = system.agreement_scale
    if scale > 0 and isinstance(settings.alpha, str):  # onto the grid of the alphas
        scale = float(alphas[0] * STEP ** np.round(np.log(scale / alphas[0]) / np.log(STEP)))
    return Grid(alphas, AGREEMENTS * scale if scale > 0 else np.zeros(1))


def _tried(system: AgreementSystem, unscored: Unscored, grid: Grid, settings: CoSettings) -> HeldOut | None:
    """The held-out errors of every pair; None where there is too little to hold anything out."""
    folding = own_folds(system.views, settings.splits, settings.seed)
    if folding is None:
        return None
    if isinstance(folding, Folding):
        found = held_out(system, folding, grid, scoring=settings.scoring, centred=settings.centred, seed=settings.seed)
    else:
        found = refitted(system, unscored, folding, grid, scoring=settings.scoring, centred=settings.centred)
    return found if len(found.sizes) else None  # nothing that was held out can be told apart


def _evidence(system: AgreementSystem, grid: Grid, found: HeldOut | None, settings: CoSettings) -> Evidence:
    """What it takes to judge the choice afterwards."""
    folding = own_folds(system.views, settings.splits, settings.seed)
    if not isinstance(folding, Folding) and settings.splits is not None:
        folding, found = own_folds(system.views, None, settings.seed), None
    closed = folding if isinstance(folding, Folding) else None
    few = system.few and closed is not None
    # what is missing is made when it is asked for, as long as it is no burden to keep
    source: CoKernel | AgreementSystem | None = system if system.size <= KEPT_SIZE else None
    if found is not None and (few or 0.0 in grid.agreements):
        source = system.cokernel if few else None
    return Evidence(
        source=source,
        found=None if few else found,
        folding=closed,
        grid=grid,
        scoring=settings.scoring,
        centred=settings.centred,
        seed=settings.seed,
    )


def _path(found: HeldOut, grid: Grid, views: Sequence[ViewData], offset: float, scoring: Scoring) -> Path:
    pairs = np.asarray([grid.pair(k) for k in range(grid.size)])
    problems = [view.problem for view in (views[:1] if same_scores([v.problem for v in views]) else views)]
    return Path(
        alpha=pairs[:, 0],
        gamma=np.full(grid.size, np.nan),
        error=found.mean,
        standard_error=found.standard_error,
        best=chosen_pair(found, grid, np.arange(grid.size), scoring),
        scoring=scoring,
        constant=constant_error(problems, offset, scoring),
        agreement=pairs[:, 1],
    )
