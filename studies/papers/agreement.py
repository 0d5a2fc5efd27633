"""000 on any queries: RankRLS, Sparse RankRLS and Sparse Co-RankRLS, and their errors against the unscored items.

Two views that differ in nothing but their basis, 20 training rows drawn at random for each (000 sect. 6.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from corank import CoRankRLS, RankRLS, View
from corank.metrics import disagreement_error
from studies.papers.data_sets import Floats, Integers, Rankings

N_BASIS = 20
STANDARD, SPARSE, AVERAGE, CO = "RankRLS", "Sparse RankRLS", "two views, no agreement", "Sparse Co-RankRLS"
METHODS = (STANDARD, SPARSE, AVERAGE, CO)
STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)  # of agreement, beside as many unscored as scored rows


@dataclass(frozen=True)
class Task:
    """Training rows, the scored ones first, and what is tested on."""

    rows: Rankings
    n_scored: int
    test: Rankings

    @property
    def scores(self) -> Floats:
        """NaN where the score is not told."""
        y = self.rows.y.copy()
        y[self.n_scored :] = np.nan
        return y

    def error(self, model: Any) -> list[float]:
        """One value a test query, in order of first appearance."""
        errors = disagreement_error(self.test.y, model.predict(self.test.X), qid=self.test.qid, average=False)
        return [round(float(error), 6) for error in errors]


def compared(task: Task, kernel: Mapping[str, Any], rng: np.random.Generator) -> dict[str, list[float]]:
    """Errors of every method on the test queries; all tuned by leave-query-out, by the same rule."""
    X, y, qid = task.rows.X[: task.n_scored], task.rows.y[: task.n_scored], task.rows.qid[: task.n_scored]
    bases = random_bases(len(task.rows.y), rng)
    own = rng.permutation(task.n_scored)[:N_BASIS]
    models = {
        STANDARD: RankRLS(basis=distinct(X), weighting="unit", scoring="rescaled", **kernel).fit(X, y, qid=qid),
        SPARSE: RankRLS(basis=own, weighting="unit", scoring="rescaled", **kernel).fit(X, y, qid=qid),
        AVERAGE: co_ranker(bases, kernel, agreement=0.0).fit(task.rows.X, task.scores, qid=task.rows.qid),
        CO: co_ranker(bases, kernel, agreement=strengths(task)).fit(task.rows.X, task.scores, qid=task.rows.qid),
    }
    return {method: task.error(model) for method, model in models.items()}


def curve(
    task: Task, amounts: list[int], kernel: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, list[float]]:
    """Sparse Co-RankRLS with the first so many unscored queries, by their number, 0 first; parameters are those that were
    tuned with all of them (000 sect. 6.3). The basis is the same throughout.
    """
    rows, y = task.rows, task.scores
    order = list(dict.fromkeys(rows.qid[task.n_scored :].tolist()))
    used = {n: np.r_[np.arange(task.n_scored), _rows_of(task, order[:n])] for n in amounts[1:]}
    bases = random_bases(len(used[amounts[1]]), rng)
    tuned = co_ranker(bases, kernel, agreement=strengths(task)).fit(rows.X, y, qid=rows.qid)
    found = {}
    for n in amounts:
        some = used[n or amounts[1]]  # without agreement, as for 0, the unscored rows say nothing
        model = co_ranker(bases, kernel, agreement=tuned.agreement_ if n else 0.0, alpha=tuned.alpha_)
        found[str(n)] = task.error(model.fit(rows.X[some], y[some], qid=rows.qid[some]))
    return found


def _rows_of(task: Task, queries: list[int]) -> Integers:
    return task.n_scored + np.flatnonzero(np.isin(task.rows.qid[task.n_scored :], queries))


def co_ranker(bases: list[Integers], kernel: Mapping[str, Any], *, agreement: Any, alpha: Any = "tune") -> CoRankRLS:
    """Two views of all columns with a basis each."""
    return CoRankRLS(
        [View(basis=basis, **kernel) for basis in bases], alpha=alpha, agreement=agreement, weighting="unit"
    )


def strengths(task: Task) -> list[float]:
    """Candidates for agreement; both terms are sums, so that they follow the numbers of rows."""
    share = task.n_scored / max(len(task.rows.y) - task.n_scored, 1)
    return [strength * share for strength in STRENGTHS]


def random_bases(n_rows: int, rng: np.random.Generator) -> list[Integers]:
    """Different rows for the two views."""
    drawn = rng.permutation(n_rows)[: 2 * N_BASIS]
    return [drawn[0::2], drawn[1::2]]


def distinct(X: Floats) -> Integers:
    """A row for each different one: they span what all rows span."""
    return np.sort(np.unique(X, axis=0, return_index=True)[1])
