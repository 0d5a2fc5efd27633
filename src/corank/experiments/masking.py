"""The one place where scores are hidden from methods, and the one place where they come back: after the predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corank.experiments.items import Floats, Integers, Items
from corank.experiments.protocol import Split


@dataclass(frozen=True)
class Task:
    """All that a method gets to see.

    Attributes
    ----------
    X : training rows, those with a score first
    y : (n,) their scores, NaN where hidden or missing
    qid : (n,) query numbers, or None
    X_test, qid_test : rows to predict; there are no scores of them here
    views : as methods with views take them
    judge : the measure that decides, for tuning
    seed : for whatever a method draws
    """

    X: Any
    y: Floats
    qid: Integers | None
    X_test: Any
    qid_test: Integers | None
    views: Any
    judge: str
    seed: int

    @property
    def n_scored(self) -> int:
        """Number of scored rows; they come first."""
        return int(np.count_nonzero(~np.isnan(self.y)))

    @property
    def scored(self) -> tuple[Any, Floats, Integers | None]:
        """Features, scores and queries of the scored rows, for methods that know no others."""
        n = self.n_scored
        return self.X[:n], self.y[:n], None if self.qid is None else self.qid[:n]


class Answers:
    """Scores of the test rows, locked away until predictions for all of them are handed over."""

    def __init__(self, scores: Floats, qid: Integers | None, least: float) -> None:
        self._scores = scores
        self.qid = qid
        self.least = least

    def unlock(self, predictions: Any) -> Floats:
        """The scores, in exchange for finite predictions: (n_test,)."""
        given = np.asarray(predictions)
        if given.shape != self._scores.shape:
            raise ValueError(f"predictions have shape {given.shape} for {len(self._scores)} test rows.")
        if not np.isfinite(given).all():
            raise ValueError("predictions have NaN or infinite values.")
        return self._scores


def masked(items: Items, rows: Split, *, judge: str, seed: int) -> tuple[Task, Answers]:
    """What a method sees of a draw, and the answers it does not see."""
    y = np.concatenate([items.y[rows.scored], np.full(len(rows.unscored), np.nan)])
    X, X_test, views = items.features(rows.train, rows.test)
    qid = None if items.qid is None else items.qid[rows.train]
    qid_test = None if items.qid is None else items.qid[rows.test]
    least = float(items.y[items.scored].min())
    return (
        Task(X, y, qid, X_test, qid_test, views, judge, seed),
        Answers(items.y[rows.test], qid_test, least),
    )
