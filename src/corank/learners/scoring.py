"""What `score` is: 1 − disagreement for rankers, which are no regressors, and R² for regressors."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import r2_score

from corank._backend import to_numpy
from corank._warnings import warn_user
from corank.learners.scans import check_alone, from_dask, is_scan
from corank.learners.scanscores import explained_score, order_score
from corank.metrics import disagreement_error
from corank.rows import read_scores, read_weights


class RankerMixin:
    """`score` for learners whose predictions are compared within queries."""

    _with_queries: bool

    def score(self, X: Any, y: Any = None, *, qid: Any = None, sample_weight: Any = None) -> float:
        """1 − disagreement: the mean share of rightly ordered pairs in a query; 0.5 is chance.

        Parameters
        ----------
        X : (n, d), or a `corank.scan`, which brings its scores and queries
        y : (n,) scores, NaN left out
        qid : (n,) query labels; None = one query
        sample_weight : (n,) weights

        Returns
        -------
        float
        """
        X, y, qid = from_dask(X, y, qid)
        if is_scan(X):
            check_alone(X, {"y": y, "qid": qid, "sample_weight": sample_weight})
            if self._with_queries and not X.has_queries:
                warn_user("The model was fitted with queries but the scan has none: all rows count as one query.")
            return order_score(self, X)
        predictions = self.predict(X)  # type: ignore[attr-defined]
        if qid is None and self._with_queries:
            warn_user(
                "The model was fitted with qid but is scored without: all rows count as one query. In a search or "
                "cross-validation turn on sklearn.set_config(enable_metadata_routing=True) and pass groups=."
            )
        return 1.0 - float(disagreement_error(y, predictions, qid=qid, sample_weight=sample_weight))


class R2Mixin:
    """`score` for learners whose predictions are compared with the scores themselves."""

    def score(self, X: Any, y: Any = None, *, qid: Any = None, sample_weight: Any = None) -> float:
        """R² of the predictions on the rows that have a score; qid plays no part.

        Parameters
        ----------
        X : (n, d), or a `corank.scan`, which brings its scores and queries
        y : (n,) scores, NaN left out
        qid : ignored; taken so that searches can hand it to every learner
        sample_weight : (n,) weights

        Returns
        -------
        float
        """
        X, y, qid = from_dask(X, y, qid)
        if is_scan(X):
            check_alone(X, {"y": y, "qid": qid, "sample_weight": sample_weight})
            return explained_score(self, X)
        predictions = to_numpy(self.predict(X))  # type: ignore[attr-defined]
        scores = to_numpy(read_scores(y, len(predictions), np.empty(0)))
        scored = ~np.isnan(scores)
        weights = read_weights(sample_weight, len(scores), np.empty(0))
        own = None if weights is None else weights[scored]
        return float(r2_score(scores[scored], predictions[scored], sample_weight=own))
