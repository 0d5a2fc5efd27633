"""Newly scored rows added to a fitted function of kernel least squares.

A model on a subset of the rows keeps the sums over every view's scored rows, and what the unscored
rows say; a model on all its rows keeps the rows. Kernel, alpha and agreement stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corank.core.arrays import Array, Index, first_appearance, like, namespace, stack_rows, to_numpy
from corank.core.basis import FeatureBasis, KernelBasis
from corank.core.loss import Loss
from corank.core.observations import EVERY_ROW, ComparedRows, ScoredRows, whitened_statistics
from corank.core.sums import Statistics
from corank.core.unscored import HeldRows, UnscoredRows
from corank.solve.function import Expansion, Function
from corank.solve.systems import DualSystem, PrimalSystem, ViewData

COMPARED = (
    "update adds scored rows, but this model was fitted on comparisons; fit it again instead."
)
FEDERATED = (
    "update cannot ask the sites that this model was agreed with; run the rounds again with the new"
    " rows."
)
SEVERAL_TARGETS = (
    "update of several columns of scores needs what a model file does not hold; fit again with all"
    " rows."
)
CHUNKS = (
    "update cannot solve again with unscored rows that came in chunks; fit again, or take a number"
    " of rows as basis, which keeps sums."
)


def check_like_fit(name: str, given: Any, fitted: bool, were: str = "it was") -> None:
    """Refuse an update with an argument that `fit` did not have, or without one that it had."""
    if (given is not None) != fitted:
        how = "with" if fitted else "without"
        raise ValueError(
            f"{name} must be given to update as {were} to fit: the model was fitted {how} {name}."
        )


@dataclass(frozen=True)
class Kept:
    """What rows can be added to: sums over every view's scored rows, or the rows in memory.

    statistics : one per view, whitened; disagreement : as in `PrimalSystem`
    rows : those of every view's basis, the unscored ones last, with NaN as score and their own
        queries
    """

    statistics: Sequence[Statistics] | None = None
    rows: Sequence[ScoredRows] | None = None
    disagreement: Array | None = None

    @classmethod
    def of(cls, system: DualSystem | PrimalSystem, unscored: UnscoredRows | None) -> Kept | None:
        """What is kept of a system that was solved; None where a model cannot be updated."""
        views = system.views
        if isinstance(views[0].problem, ComparedRows):
            return None
        if isinstance(system, PrimalSystem):
            disagreement = system.disagreement if len(views) > 1 else None
            return cls(system.view_statistics(), disagreement=disagreement)
        if any(view.basis.kernel.precomputed for view in views):
            return None
        if unscored is None:
            return cls(rows=[view.problem.under(EVERY_ROW) for view in views])
        in_memory = all(isinstance(part, HeldRows) for part in unscored.parts)
        return cls(rows=_rows_of_bases(views, unscored)) if in_memory else None


def _rows_of_bases(views: Sequence[ViewData], unscored: UnscoredRows) -> list[ScoredRows]:
    """The rows of every view's basis, scored and unscored; see `Kept`."""
    _, codes, weights = unscored.everything()
    codes, n_codes = first_appearance(codes)
    result = []
    for view in views:
        rows = view.problem
        scores = rows.scores
        n, m = len(rows), len(codes)
        xp = namespace(scores)
        queries = rows.index * 0 if rows.queries is None else rows.queries
        both = None
        if rows.weights is not None or weights is not None:
            first = like(np.ones(n), scores) if rows.weights is None else rows.weights
            second = like(np.ones(m) if weights is None else weights, scores)
            both = xp.concat([first, second])
        result.append(
            ScoredRows(
                features=view.basis.points,  # type: ignore[union-attr]
                scores=xp.concat([scores, like(np.full(m, np.nan), scores)]),
                queries=xp.concat([queries, like(codes + rows.n_queries, scores, "int64")]),
                n_queries=rows.n_queries + n_codes,
                weights=both,
                index=like(view.rows, scores, "int64"),
            )
        )
    return result


def with_new_rows(
    function: Function,
    kept: Kept,
    new: Sequence[ScoredRows],
    unscored_loss: Loss,
    n_seen: int,
    *,
    with_queries: bool,
) -> tuple[DualSystem | PrimalSystem, UnscoredRows | None]:
    """The system of a fitted function with newly scored rows, one set per view, and its unscored
    rows.

    Parameters
    ----------
    new : under the loss of the learner
    unscored_loss : between views on unscored rows
    n_seen : rows that were seen before, after which the new ones are numbered
    with_queries : whether new rows have queries of their own; else they join the only one
    """
    if not with_queries:
        new = [replace(rows, queries=None, n_queries=1) for rows in new]
    new = [
        replace(rows, features=part.span.seen(rows.features))
        for part, rows in zip(function.parts, new, strict=True)
    ]
    if kept.statistics is not None:
        return _added_to_sums(function, kept, new), None
    assert kept.rows is not None
    data: list[ViewData] = []
    for part, rows, before in zip(function.parts, new, kept.rows, strict=True):
        scored, others = _scored_and_unscored(before)
        if not with_queries:
            scored = replace(scored, queries=None, n_queries=1)
        elif scored.queries is None:  # fitted on one query, which had a name
            scored = replace(scored, queries=scored.index * 0)
        scored = scored.under(rows.comparison).extended(rows, n_seen)
        data.append(_with_basis(part, scored, others))
    shared = None
    if len(others):
        held = HeldRows(others.features, to_numpy(others.queries), None, others.weights)
        shared = UnscoredRows((held,), unscored_loss)
    return DualSystem(data, shared), shared


def _added_to_sums(function: Function, kept: Kept, new: Sequence[ScoredRows]) -> PrimalSystem:
    assert kept.statistics is not None
    data = []
    statistics = []
    for part, rows, before in zip(function.parts, new, kept.statistics, strict=True):
        problem = rows.under(before.comparison)
        span = part.span
        basis = span.basis(part.coefficients.shape[0], part.coefficients)
        data.append(ViewData(problem, basis, span.columns, span.penalty, None, span.rows))
        statistics.append(before.merged(whitened_statistics(problem, basis)))
    return PrimalSystem(data, statistics=statistics, disagreement=kept.disagreement)


def _with_basis(part: Expansion, scored: ScoredRows, others: ScoredRows) -> ViewData:
    """A view of scored rows with all its rows, scored and unscored, as basis; or its columns."""
    span = part.span
    if span.points is None:
        basis: Any = FeatureBasis(scored.features.shape[1], part.coefficients)
        return ViewData(scored, basis, span.columns, span.penalty)
    features = scored.features
    if len(others):
        features = stack_rows([features, others.features])
    rows: Index = np.concatenate([to_numpy(scored.index), to_numpy(others.index)])
    basis = KernelBasis(span.kernel, features)
    return ViewData(scored, basis, span.columns, span.penalty, None, rows)


def _scored_and_unscored(rows: ScoredRows) -> tuple[ScoredRows, ScoredRows]:
    """The scored rows of those that were kept, and the unscored ones."""
    missing = np.isnan(to_numpy(rows.scores))
    scored = rows.take(np.flatnonzero(~missing)) if missing.any() else rows
    return scored, rows.take(np.flatnonzero(missing))
