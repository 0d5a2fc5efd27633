"""How good predictions are, query by query, in the measures of a comparison."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from corank.core.arrays import FloatArray, Index, first_appearance
from corank.core.labels import query_codes
from corank.metrics import disagreement_error, ndcg

Judge: TypeAlias = Literal["disagreement", "ndcg", "rmse"]
JUDGES: tuple[Judge, ...] = ("disagreement", "ndcg", "rmse")
WITHIN = ", each query less its mean"


def measured(
    scores: FloatArray, predicted: FloatArray, qid: Index | None, least: float, *, scale: bool
) -> dict[str, Any]:
    """Every measure for every test query, in order of first appearance; NaN where undefined.

    Parameters
    ----------
    least : the least score there is: gains of NDCG start there where it is negative
    scale : whether predictions are on the scale of the scores; else there is no RMSE

    Returns
    -------
    queries : labels; disagreement, ndcg, rmse : one value each, as lists
    """
    labels = query_codes(qid, len(scores))
    codes, _ = first_appearance(labels)
    queries = labels[np.unique(codes, return_index=True)[1]]
    measures = {
        "disagreement": disagreement_error(scores, predicted, qid=labels, average=False),
        "ndcg": ndcg(scores - min(least, 0.0), predicted, qid=labels, k=10, average=False),
        "rmse": (
            _rmse(scores - predicted, codes, centred=qid is not None)
            if scale
            else np.full(len(queries), np.nan)
        ),
    }
    return {
        "queries": queries.tolist(),
        **{name: _plain(values) for name, values in measures.items()},
    }


def _rmse(residuals: FloatArray, codes: Index, *, centred: bool) -> FloatArray:
    """Of each query; `centred`: its mean taken out, as the level of a ranking means nothing."""
    sizes = np.bincount(codes)
    if centred:
        residuals = residuals - (np.bincount(codes, weights=residuals) / sizes)[codes]
    return np.sqrt(np.bincount(codes, weights=residuals**2) / sizes)


def _plain(values: FloatArray) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), 9) for value in values]
