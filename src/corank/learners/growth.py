"""What a model of several views keeps of its training, so that newly scored rows can be added to it.

On a subset of the rows: the sums over every view's scored rows, and what the unscored rows say. On all of them: the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from corank._backend import Array, device, first_appearance, like, namespace, to_numpy
from corank.basis import KernelBasis, Whitening
from corank.comparison import Comparison, Pointwise
from corank.learners.learner import COMPARED, PRECOMPUTED, Expansion, Learner
from corank.learners.viewscores import GivenScores
from corank.problem import ComparedRows, ScoredRows
from corank.rows import Rows
from corank.solvers.agreement import DualAgreement, PrimalAgreement, Unscored, ViewData, mean_score
from corank.solvers.costreamed import StreamedAgreement
from corank.solvers.direct import PrimalSystem
from corank.statistics import Gram, Index, Statistics
from corank.unscored import HeldRows, UnscoredRows, stacked

FEDERATED = "update cannot ask the sites that this model was agreed with; run the rounds again with the new rows."
CHUNKS = (
    "update cannot solve anew with unscored rows that came in chunks; fit again, or take a number of rows as basis, "
    "which keeps sums."
)


class GrownAgreement(PrimalAgreement):
    """The system of kept sums and the scored rows of `views`, which are added to them.

    Parameters
    ----------
    views : newly scored rows; their bases whiten as the sums did
    unscored : how views are compared; its rows are in the disagreement already
    disagreement, kept : of `kept_sums`
    """

    def __init__(
        self, views: Sequence[ViewData], unscored: Unscored, disagreement: Array, kept: Sequence[Statistics]
    ) -> None:
        super().__init__(views, unscored, disagreement)
        new = [PrimalSystem.gathered(view.problem, view.basis).statistics for view in views]
        self.statistics = [before.merged(after) for before, after in zip(kept, new, strict=True)]

    @cached_property
    def grams(self) -> list[Gram]:
        """The sums over each view's scored rows, old and new."""
        return [own.total() for own in self.statistics]

    @property
    def mean_score(self) -> float:
        """The weighted mean of all given scores, where single rows count."""
        return float(np.average([own.mean_score for own in self.grams], weights=[own.weight for own in self.grams]))


def kept_sums(system: PrimalAgreement) -> list[Statistics]:
    """The sums of every view; parts of the only query, which may grow, are not in its Gram matrix and summed again."""
    if isinstance(system, StreamedAgreement):
        return system.kept
    result = []
    for view, gram in zip(system.views, system.grams, strict=True):
        problem = view.problem
        assert isinstance(problem, ScoredRows)
        if problem.groups is None:
            result.append(PrimalSystem.gathered(problem, view.basis).statistics)
        else:
            result.append(Statistics(problem.comparison, (gram,), (None,)))
    return result


def kept_rows(views: Sequence[ViewData], numbers: Sequence[Index | None], unscored: UnscoredRows) -> list[Rows]:
    """The rows of every view's basis: the scored ones, then the unscored ones with NaN as score and their own queries.

    `numbers` (n_v + m,) are the row numbers of the bases.
    """
    _, codes, weights = unscored.everything()
    codes, n_codes = first_appearance(codes)
    result = []
    for view, index in zip(views, numbers, strict=True):
        assert isinstance(view.problem, ScoredRows)
        assert isinstance(view.basis, KernelBasis)
        rows, n, m = view.problem.rows, len(view.problem.rows), len(codes)
        scores = view.problem.reference
        xp, place = namespace(scores), {"dtype": namespace(scores).float64, "device": device(scores)}
        queries = rows.index * 0 if rows.queries is None else rows.queries
        both = None
        if rows.weights is not None or weights is not None:
            parts = [xp.ones(n, **place) if rows.weights is None else rows.weights]
            parts.append(xp.ones(m, **place) if weights is None else like(weights, scores))
            both = xp.concat(parts)
        result.append(
            Rows(
                features=view.basis.points,
                scores=xp.concat([scores, xp.full(m, xp.nan, **place)]),
                queries=xp.concat([queries, like(codes + rows.n_queries, scores, "int64")]),
                n_queries=rows.n_queries + n_codes,
                weights=both,
                index=like(index, scores, "int64"),
            )
        )
    return result


def parted(rows: Rows) -> tuple[Rows, Rows]:
    """The scored rows of what `kept_rows` kept, and the unscored ones."""
    missing = np.isnan(to_numpy(rows.scores))
    scored, unscored = (rows.take(like(np.flatnonzero(own), rows.index, "int64")) for own in (~missing, missing))
    return scored, unscored


class GrowingViews(Learner):
    """Learners with several views, as far as newly scored rows go. `several` says how they are fitted."""

    def _expansions(self) -> list[Expansion]:
        parts = zip(self.coef_, self._kernels, self.basis_points_, self.views_, strict=True)
        return [Expansion(coef, kernel, points, view.columns) for coef, kernel, points, view in parts]

    def _unscored_comparison(self) -> Comparison:
        """How views are compared on unscored rows: beta touches the scored loss only."""
        return Pointwise()

    def _keep_training(self, system: Any, rows: UnscoredRows, *, in_memory: bool) -> None:
        """What `update` needs."""
        self._compared = isinstance(system.problems[0], ComparedRows)
        self._whitenings: list[Whitening | None] = [None for _ in system.views]
        self._statistics: list[Statistics] | None = None
        self._disagreement: Array | None = None
        self._rows: list[Rows] | None = None
        if self._compared:
            return
        if isinstance(system, PrimalAgreement):
            self._statistics, self._disagreement = kept_sums(system), system.disagreement
            bases = [view.basis for view in system.views]
            self._whitenings = [basis.whitening if isinstance(basis, KernelBasis) else None for basis in bases]
        elif in_memory and not any(kernel.precomputed for kernel in self._kernels):
            self._rows = kept_rows(system.views, self.basis_, rows)

    def _why_fixed(self) -> str:
        if "federated" in (self.table_ or {}):
            return FEDERATED
        if any(kernel.precomputed for kernel in self._kernels):
            return PRECOMPUTED
        return COMPARED if self._compared else CHUNKS

    def _grow(self, X: Any, y: Any, qid: Any, sample_weight: Any) -> None:
        given = GivenScores.read(self._read(X), y, qid, sample_weight)
        given.check_columns(len(self.views_))
        new = [given.scored_in(v, self._level).beside(own) for v, own in enumerate(self.coef_)]
        self._warn_of_nothing_new(new)
        if not self._with_queries:
            new = [replace(own, queries=None, n_queries=1) for own in new]
        functions = self._expansions()
        new = [replace(own, features=f.seen(own.features)) for f, own in zip(functions, new, strict=True)]
        if self._statistics is not None:
            self._update_sums(functions, new)
        else:
            self._update_rows(functions, new)
        scored: Any = given.given.any(axis=1)
        self.n_iter_ = 1
        self._n_seen += len(scored)
        self._n_scored += int(scored.sum())
        if self._with_queries:
            self._n_queries += 1 if given.queries is None else len(np.unique(given.queries[scored]))

    def _update_sums(self, functions: Sequence[Expansion], new: Sequence[Rows]) -> None:
        assert self._statistics is not None
        data = []
        for v, (function, own) in enumerate(zip(functions, new, strict=True)):
            problem = ScoredRows(own, self._statistics[v].comparison)
            basis = function.basis(self.coef_[v], self._whitenings[v])
            data.append(ViewData(problem, basis, self.views_[v].columns, self.views_[v].penalty))
        none = Unscored(self._unscored_comparison(), UnscoredRows(()))
        system = GrownAgreement(data, none, self._disagreement, self._statistics)
        self._solve_again(system, system.mean_score if self._centred else 0.0)
        self._statistics = system.statistics

    def _update_rows(self, functions: Sequence[Expansion], new: Sequence[Rows]) -> None:
        assert self._rows is not None
        data: list[ViewData] = []
        index: list[Index | None] = []
        for v, (function, own) in enumerate(zip(functions, new, strict=True)):
            scored, rest = parted(self._rows[v])
            scored = scored if self._with_queries else replace(scored, queries=None, n_queries=1)
            scored = scored.extended(own, self._n_seen)
            basis = KernelBasis(function.kernel, stacked([scored.features, rest.features]))
            problem = ScoredRows(scored, self._comparison())
            data.append(ViewData(problem, basis, self.views_[v].columns, self.views_[v].penalty))
            index.append(np.concatenate([to_numpy(scored.index), to_numpy(rest.index)]))
        unscored = UnscoredRows((HeldRows(rest.features, np.asarray(to_numpy(rest.queries)), None, rest.weights),))
        system = DualAgreement(data, Unscored(self._unscored_comparison(), unscored))
        self._solve_again(system, mean_score(system.problems) if self._centred else 0.0)
        self._rows = kept_rows(data, index, unscored)
        self.basis_, self.basis_points_ = index, [own.features for own in self._rows]

    def _solve_again(self, system: PrimalAgreement | DualAgreement, offset: float) -> None:
        solved = system.solve(self.alpha_, self.agreement_, offset)
        self.coef_, self.intercept_ = [own[:, 0] for own in solved], self._level + offset
