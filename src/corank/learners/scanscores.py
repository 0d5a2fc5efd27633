"""Scores of the rows of scans: of whole queries, wherever chunks cut them, or of all rows one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from corank._backend import to_numpy
from corank._warnings import warn_user
from corank.learners.scans import predicted_chunks
from corank.metrics import disagreement_error
from corank.problem import FloatArray
from corank.scans import Chunk, Scan
from corank.scans.chunks import ClosedQueries
from corank.statistics import Index


@dataclass(frozen=True)
class Stretch:
    """Rows of one chunk, and their predictions (n,)."""

    chunk: Chunk
    rows: slice
    values: FloatArray

    @property
    def scores(self) -> FloatArray:
        """Their scores (n,), NaN = unscored."""
        return np.asarray(to_numpy(self.chunk.scores))[self.rows]

    @property
    def extra(self) -> pa.Table:
        """Columns that are carried along."""
        chosen = pa.table({}) if self.chunk.extra is None else self.chunk.extra
        return chosen.slice(self.rows.start, self.rows.stop - self.rows.start)


def whole_queries(learner: Any, scan: Scan, what: str) -> Iterator[tuple[list[Stretch], Index]]:
    """Rows of some whole queries at a time with their query codes; without queries all rows are one."""
    waiting: list[Stretch] = []  # of the query that may go on
    last: int | None = None
    closed = ClosedQueries()
    for chunk, values in predicted_chunks(learner, scan, what):
        runs, n = chunk.runs, chunk.n_rows
        chunk = chunk.moved(np.empty((n, 0)))  # a query may be as long as the files: features are not kept
        found = np.asarray(to_numpy(values), dtype=np.float64)
        if scan.has_queries:
            closed.add(runs, chunk.place)
        if waiting and last != int(runs.ids[0]):
            yield waiting, _codes(waiting, np.zeros(0, dtype=np.int64))
            waiting = []
        final = int(runs.starts[-1])
        if final > 0:
            parts = [*waiting, Stretch(chunk, slice(0, final), found[:final])]
            yield parts, _codes(waiting, runs.codes(n)[:final])
            waiting = []
        waiting.append(Stretch(chunk, slice(final, n), found[final:]))
        last = int(runs.ids[-1])
    if waiting:
        yield waiting, _codes(waiting, np.zeros(0, dtype=np.int64))


def _codes(waiting: Sequence[Stretch], others: Index) -> Index:
    """The codes of rows that belong to query 0, then those of others."""
    return np.concatenate([np.zeros(sum(len(part.values) for part in waiting), dtype=np.int64), others])


def scored_queries(learner: Any, scan: Scan) -> Iterator[tuple[FloatArray, FloatArray, Index]]:
    """Scores, predictions and query codes, some whole queries at a time."""
    for parts, codes in whole_queries(learner, scan, "scoring"):
        yield np.concatenate([p.scores for p in parts]), np.concatenate([p.values for p in parts]), codes


def order_score(learner: Any, scan: Scan) -> float:
    """1 − the mean disagreement of the queries where it is defined."""
    total, count = 0.0, 0
    for scores, found, codes in scored_queries(learner, scan):
        if np.isnan(scores).all():
            continue
        errors = np.atleast_1d(disagreement_error(scores, found, qid=codes, average=False))
        defined = errors[~np.isnan(errors)]
        total, count = total + float(defined.sum()), count + len(defined)
    if count == 0:
        warn_user("There was nothing to compare: no query has two rows with different scores. The result is nan.")
    return 1.0 - total / count if count else float("nan")


def explained_score(learner: Any, scan: Scan) -> float:
    """R² of the rows that have a score."""
    weight, mean, spread, loss = 0, 0.0, 0.0, 0.0
    for chunk, values in predicted_chunks(learner, scan, "scoring"):
        scores, found = np.asarray(to_numpy(chunk.scores)), np.asarray(to_numpy(values), dtype=np.float64)
        given = ~np.isnan(scores)
        own, n = scores[given], int(given.sum())
        if n == 0:
            continue
        step = float(own.mean()) - mean
        spread += float(((own - own.mean()) ** 2).sum()) + step**2 * weight * n / (weight + n)
        weight, mean = weight + n, mean + step * n / (weight + n)
        loss += float(((own - found[given]) ** 2).sum())
    if weight == 0:
        raise ValueError("the scan has no scored row: its score column is empty.")
    if spread == 0:
        return 1.0 if loss == 0 else 0.0  # as scikit-learn says it
    return 1.0 - loss / spread
