"""Newly scored rows added to a fitted model of kernel least squares.

A model on a subset of the rows keeps the sums over every view's scored rows, and what the unscored
rows say; a model on all its rows keeps the rows. Kernel, alpha and agreement stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from corank.core.arrays import Index, first_appearance, like, namespace, stack_rows, to_numpy
from corank.core.basis import FeatureBasis, KernelBasis
from corank.core.observations import Rows, ScoredRows
from corank.core.unscored import HeldRows, UnscoredRows
from corank.solve.systems import DualSystem, PrimalSystem, Unscored, ViewData, whitened_statistics

COMPARED = (
    "update adds scored rows, but this model was fitted on comparisons; fit it again instead."
)
FEDERATED = (
    "update cannot ask the sites that this model was agreed with; run the rounds again with the new"
    " rows."
)
CHUNKS = (
    "update cannot solve again with unscored rows that came in chunks; fit again, or take a number"
    " of rows as basis, which keeps sums."
)


def kept_rows(views: Sequence[ViewData], unscored: UnscoredRows) -> list[Rows]:
    """The rows of every view's basis: the scored ones, then the unscored ones with NaN as score and
    their own queries.
    """
    _, codes, weights = unscored.everything()
    codes, n_codes = first_appearance(codes)
    result = []
    for view in views:
        rows, n, m = view.problem.rows, len(view.problem.rows), len(codes)
        scores = view.problem.reference
        xp = namespace(scores)
        queries = rows.index * 0 if rows.queries is None else rows.queries
        both = None
        if rows.weights is not None or weights is not None:
            first = like(np.ones(n), scores) if rows.weights is None else rows.weights
            second = like(np.ones(m) if weights is None else weights, scores)
            both = xp.concat([first, second])
        result.append(
            Rows(
                features=view.basis.points,  # type: ignore[union-attr]
                scores=xp.concat([scores, like(np.full(m, np.nan), scores)]),
                queries=xp.concat([queries, like(codes + rows.n_queries, scores, "int64")]),
                n_queries=rows.n_queries + n_codes,
                weights=both,
                index=like(view.rows, scores, "int64"),
            )
        )
    return result


def update_model(model: Any, given: Any) -> None:
    """Add newly scored rows (`GivenScores`) to a fitted model, and solve again."""
    functions = model._expansions()
    given.check_columns(len(functions))
    coefficients = model._per_view("coef_")
    new = [given.scored_in(v, model._level).beside(own) for v, own in enumerate(coefficients)]
    model._warn_of_nothing_new(new)
    if not model._with_queries:
        new = [replace(rows, queries=None, n_queries=1) for rows in new]
    new = [
        replace(rows, features=f.seen(rows.features))
        for f, rows in zip(functions, new, strict=True)
    ]
    if model._statistics is not None:
        _add_to_sums(model, functions, new)
    else:
        _add_to_rows(model, functions, new)
    scored = given.given.any(axis=1)
    model._n_seen += len(scored)
    model._n_scored += int(scored.sum())
    if model._with_queries:
        model._n_queries += 1 if given.queries is None else len(np.unique(given.queries[scored]))


def _add_to_sums(model: Any, functions: Sequence[Any], new: Sequence[Rows]) -> None:
    whitenings = model._per_view("_whitenings" if model._several else "_whitening")
    penalties = _penalties(model)
    data, statistics = [], []
    for v, (function, rows, before) in enumerate(
        zip(functions, new, model._per_view("_statistics"), strict=True)
    ):
        problem = ScoredRows(rows, before.comparison)
        basis = function.basis(model._per_view("coef_")[v], whitenings[v])
        data.append(ViewData(problem, basis, function.columns, penalties[v]))
        statistics.append(before.merged(whitened_statistics(problem, basis)))
    disagreement = model._disagreement if model._several else None
    system = PrimalSystem(data, statistics=statistics, disagreement=disagreement)
    model._solve_again(system)
    model._keep_per_view("_statistics", statistics)


def _add_to_rows(model: Any, functions: Sequence[Any], new: Sequence[Rows]) -> None:
    penalties = _penalties(model)
    data: list[ViewData] = []
    for v, (function, rows, kept) in enumerate(
        zip(functions, new, model._per_view("_rows"), strict=True)
    ):
        scored, others = _scored_and_unscored(kept)
        if not model._with_queries:
            scored = replace(scored, queries=None, n_queries=1)
        elif scored.queries is None:  # fitted on one query, which had a name
            scored = replace(scored, queries=scored.index * 0)
        scored = scored.extended(rows, model._n_seen)
        problem = ScoredRows(scored, model._comparison())
        penalty = penalties[v]
        if function.points is None:
            basis: Any = FeatureBasis(scored.features.shape[1], model._per_view("coef_")[v])
            data.append(ViewData(problem, basis, function.columns, penalty))
            continue
        features = (
            scored.features if len(others) == 0 else stack_rows([scored.features, others.features])
        )
        index: Index = np.concatenate([to_numpy(scored.index), to_numpy(others.index)])
        data.append(
            ViewData(
                problem,
                KernelBasis(function.kernel, features),
                function.columns,
                penalty,
                None,
                index,
            )
        )
    unscored, shared = UnscoredRows(()), None
    if len(others):
        held = HeldRows(others.features, to_numpy(others.queries), None, others.weights)
        unscored = UnscoredRows((held,))
        shared = Unscored(model._unscored_comparison(), unscored)
    system = DualSystem(data, shared)
    model._solve_again(system)
    model._keep_training(system, unscored, in_memory=True)
    if data[0].rows is not None:
        model._keep_per_view("basis_", [view.rows for view in data])
        model._keep_per_view("basis_points_", [view.basis.points for view in data])  # type: ignore[union-attr]


def _scored_and_unscored(rows: Rows) -> tuple[Rows, Rows]:
    """The scored rows of what `kept_rows` kept, and the unscored ones."""
    missing = np.isnan(to_numpy(rows.scores))
    if not missing.any():
        return rows, rows.take(like(np.zeros(0, dtype=np.int64), rows.index, "int64"))
    scored = rows.take(like(np.flatnonzero(~missing), rows.index, "int64"))
    return scored, rows.take(like(np.flatnonzero(missing), rows.index, "int64"))


def _penalties(model: Any) -> list[float]:
    return [view.penalty for view in model.views_] if model._several else [1.0]
