"""What a ranker is to scikit-learn: its score is 1 − disagreement, and it is not a regressor."""

from __future__ import annotations

from typing import Any

from corank._warnings import warn_user
from corank.metrics import disagreement_error


class RankerMixin:
    """`score` for learners whose predictions are compared within queries."""

    _with_queries: bool

    def score(self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None) -> float:
        """1 − disagreement: the mean share of rightly ordered pairs in a query; 0.5 is chance.

        Parameters
        ----------
        X : (n, d)
        y : (n,) scores, NaN left out
        qid : (n,) query labels; None = one query
        sample_weight : (n,) weights

        Returns
        -------
        float
        """
        predictions = self.predict(X)  # type: ignore[attr-defined]
        if qid is None and self._with_queries:
            warn_user(
                "The model was fitted with qid but is scored without: all rows count as one query. In a search or "
                "cross-validation turn on sklearn.set_config(enable_metadata_routing=True) and pass groups=."
            )
        return 1.0 - float(disagreement_error(y, predictions, qid=qid, sample_weight=sample_weight))
