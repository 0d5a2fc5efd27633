"""Metrics: how well predicted scores order the rows of each query, how well probabilities fit, and
scorers with queries.

Everything here takes plain columns and computes in NumPy; nothing here knows a learner.
"""

import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from corank.core.arrays import (
    FloatArray,
    Index,
    Mask,
    NumpyArray,
    masked_as_nan,
    refuse_masked,
    run_starts,
    take,
    to_numpy,
)
from corank.core.queries import RowsByQuery, Ties, encode_queries, misordered_shares, query_codes

__all__ = [
    "average_precision",
    "calibration_error",
    "disagreement_error",
    "ndcg",
    "reliability",
    "scorer",
]

SMALLEST_PROBABILITY = 1e-300  # has a logarithm
NORMAL_97_5 = 1.959963984540054  # quantile of the normal distribution that a 95 % interval needs


class Measure(NamedTuple):
    """What a measure of predictions is called, and how to read it.

    range : its least and its largest value
    """

    title: str
    reading: str
    lower_is_better: bool = True
    range: tuple[float, float] = (0.0, np.inf)


MEASURES = {
    "disagreement": Measure(
        "disagreement",
        "share of pairs in the wrong order: 0 is perfect, 0.5 is chance",
        range=(0.0, 1.0),
    ),
    "ndcg": Measure(
        "NDCG@10",
        "gain of the first ten beside the best possible: 1 is perfect",
        lower_is_better=False,
        range=(0.0, 1.0),
    ),
    "rmse": Measure("RMSE", "root mean squared error, in the unit of the scores: 0 is perfect"),
    "mae": Measure("MAE", "mean absolute error, in the unit of the scores"),
    "r2": Measure(
        "R²",
        "share of the spread of scores that is explained: 1 is perfect, 0 no better than their mean",
        lower_is_better=False,
        range=(-np.inf, 1.0),
    ),
    "right_order": Measure(
        "right order",
        "share of comparisons that the model orders as they came out: 1 is perfect, 0.5 chance",
        lower_is_better=False,
        range=(0.0, 1.0),
    ),
    "log_loss": Measure(
        "log loss", "how surprising the outcomes are: 0 is perfect, a coin toss has 0.6931"
    ),
    "calibration_error": Measure(
        "calibration error",
        "how far the probability of the favourite lies from how often it wins, on average: 0 is"
        " perfect",
        range=(0.0, 1.0),
    ),
}
# what `scoring` of a learner holds out, in words
HELD_OUT_ERRORS = {
    "squared": "squared error",
    "rescaled": "squared error at the best scale of the predictions",
    "disagreement": "share of misordered pairs",
}


@overload
def disagreement_error(
    y_true: Any,
    y_score: Any,
    qid: Any = ...,
    sample_weight: Any = ...,
    ties: Ties = ...,
    average: Literal[True] = ...,
) -> float: ...
@overload
def disagreement_error(
    y_true: Any,
    y_score: Any,
    qid: Any = ...,
    sample_weight: Any = ...,
    ties: Ties = ...,
    *,
    average: Literal[False],
) -> FloatArray: ...
def disagreement_error(
    y_true: Any,
    y_score: Any,
    qid: Any = None,
    sample_weight: Any = None,
    ties: Ties = "skip",
    average: bool = True,
) -> float | FloatArray:
    """Share of the pairs of a query that the scores put in the wrong order, averaged over the
    queries.

    0 is a perfect ranking, 1 the reversed one; constant scores get 1/2 where no true scores are
    tied. O(n log n) time, O(n) memory; exact integer counts unless weighted.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        True scores, higher is better. Rows with NaN, or masked, are left out.
    y_score : array-like of shape (n_rows,)
        Predicted scores, higher is better.
    qid : array-like of shape (n_rows,), optional
        Query of each row, any labels in any order; rows are compared within a query only. None: one
        query.
    sample_weight : array-like of shape (n_rows,), optional
        A pair counts w_i * w_j; rows of weight zero are left out.
    ties : {"skip", "half"}
        "skip" compares the pairs with different true scores; one tied in `y_score` costs 1/2.
        "half" compares all pairs; one tied on exactly one side costs 1/2, on both sides 0.
    average : bool
        True: the plain mean over the queries that have a pair to compare. False: one value per
        query.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        With ``average=False`` in order of first appearance, NaN where a query has no pair to
        compare.
    """
    if ties not in ("skip", "half"):
        raise ValueError(f'ties={ties!r} is unknown; give "skip" or "half".')
    table = _read_table(y_true, y_score, qid, sample_weight)
    errors = misordered_shares(table, ties)
    which = "different" if ties == "skip" else "a"
    return _mean_of_defined(errors, f"two rows with {which} y_true") if average else errors


@overload
def ndcg(
    y_true: Any, y_score: Any, qid: Any = ..., k: int | None = ..., average: Literal[True] = ...
) -> float: ...
@overload
def ndcg(
    y_true: Any, y_score: Any, qid: Any = ..., k: int | None = ..., *, average: Literal[False]
) -> FloatArray: ...
def ndcg(
    y_true: Any, y_score: Any, qid: Any = None, k: int | None = None, average: bool = True
) -> float | FloatArray:
    """Normalised discounted cumulative gain of each query, averaged over the queries.

    What :func:`sklearn.metrics.ndcg_score` gives (linear gains) for each query, tied scores
    included: O(n log n).

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        Gains, not negative. Rows with NaN, or masked, are left out.
    y_score : array-like of shape (n_rows,)
        Predicted scores, higher is better.
    qid : array-like of shape (n_rows,), optional
        Query of each row; None: one query.
    k : int, optional
        Only the k highest scored rows of a query count; None: all.
    average : bool
        True: the plain mean over the queries with at least two rows and a positive gain. False: one
        value per query.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        With ``average=False`` in order of first appearance, NaN where undefined.
    """
    table = _read_table(y_true, y_score, qid)
    if k is not None and k < 1:
        raise ValueError(f"k must be at least 1, or None for all rows, got {k!r}.")
    if (table.y < 0).any():
        raise ValueError(
            "y_true has negative values, which are no gains; shift them to start at 0 before ndcg."
        )
    values = _per_query(table, lambda gains, scores: _ndcg(gains, scores, k))
    return _mean_of_defined(values, "two rows and a positive y_true") if average else values


def _ndcg(gains: NumpyArray, scores: NumpyArray, k: int | None) -> float:
    """NDCG of one query, NaN where it is undefined; rows with the same score share the places that
    they take.
    """
    n = len(gains)
    if n < 2 or not gains.any():
        return np.nan
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    reached = gains[order]
    starts = run_starts(ranked)
    if len(starts) < n:
        sizes = np.diff(starts, append=n)
        reached = np.repeat(np.add.reduceat(reached, starts) / sizes, sizes)
    n_counted = n if k is None else min(k, n)
    discount = 1.0 / np.log2(np.arange(2, 2 + n_counted))
    best = np.sort(gains)[::-1][:n_counted]
    return float(reached[:n_counted] @ discount / (best @ discount))


@overload
def average_precision(
    y_true: Any, y_score: Any, qid: Any = ..., average: Literal[True] = ...
) -> float: ...
@overload
def average_precision(
    y_true: Any, y_score: Any, qid: Any = ..., *, average: Literal[False]
) -> FloatArray: ...
def average_precision(
    y_true: Any, y_score: Any, qid: Any = None, average: bool = True
) -> float | FloatArray:
    """Average precision of each query, averaged over the queries.

    :func:`sklearn.metrics.average_precision_score` called once per query: O(n log n), about 0.7 ms
    per query.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        1 or True where a row is relevant, 0 or False where not. Rows with NaN, or masked, are left
        out.
    y_score : array-like of shape (n_rows,)
        Predicted scores, higher is better.
    qid : array-like of shape (n_rows,), optional
        Query of each row; None: one query.
    average : bool
        True: the plain mean over the queries with a relevant row. False: one value per query.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        With ``average=False`` in order of first appearance, NaN where undefined.
    """
    from sklearn.metrics import average_precision_score

    table = _read_table(y_true, y_score, qid)
    if not np.isin(table.y, (0, 1)).all():
        raise ValueError(
            "y_true has values other than 0 and 1; say which rows are relevant, as in y_true >= 4."
        )
    values = _per_query(
        table,
        lambda y, scores: average_precision_score(y.astype(bool), scores) if y.any() else np.nan,
    )
    return _mean_of_defined(values, "a row with y_true = 1") if average else values


class Reliability(NamedTuple):
    """Predicted probabilities beside the observed shares, one entry per bin that is not empty.

    predicted : (k,) mean probability; observed : (k,) share that came true; counts : (k,) number of
        predictions
    interval : (k,) lower and (k,) upper end of a 95 % interval of the share (Wilson)
    """

    predicted: FloatArray
    observed: FloatArray
    counts: Index
    interval: tuple[FloatArray, FloatArray]


def reliability(y_true: Any, y_prob: Any, n_bins: int = 10) -> Reliability:
    """The shares of predictions that came true, beside their predicted probabilities.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        1 or True where it came true, 0 or False where not. Rows with NaN, or masked, are left out.
    y_prob : array-like of shape (n,)
        Predicted probabilities.
    n_bins : int
        Bins of equal width between 0 and 1.

    Returns
    -------
    Reliability
        ``predicted``, ``observed``, ``counts`` and ``interval``, one entry per bin that is not
        empty.
    """
    if isinstance(n_bins, bool) or not isinstance(n_bins, int | np.integer) or n_bins < 1:
        raise ValueError(f"n_bins must be a whole number greater than 0, got {n_bins!r}.")
    y = _read_column(y_true, "y_true")
    probability = _read_column(y_prob, "y_prob", n_rows=len(y)).astype(np.float64)
    counted = ~np.isnan(y)
    y = y[counted].astype(np.float64)
    probability = probability[counted]
    if len(y) == 0:
        raise ValueError("y_true has no row that says whether it came true: every value is NaN.")
    if not np.isin(y, (0, 1)).all():
        raise ValueError("y_true has values other than 0 and 1; say what came true.")
    if not ((probability >= 0) & (probability <= 1)).all():
        raise ValueError("y_prob has values that are no probabilities: NaN, below 0 or above 1.")
    bins = np.minimum((probability * n_bins).astype(np.int64), n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    filled = counts > 0
    n = counts[filled]
    observed = np.bincount(bins, weights=y, minlength=n_bins)[filled] / n
    predicted = np.bincount(bins, weights=probability, minlength=n_bins)[filled] / n
    z = NORMAL_97_5
    centre = (observed + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(observed * (1 - observed) / n + z * z / (4 * n * n))
    # rounding may cross it
    lower = np.minimum(centre - half, observed)
    upper = np.maximum(centre + half, observed)
    return Reliability(predicted, observed, n, (np.maximum(lower, 0.0), np.minimum(upper, 1.0)))


def calibration_error(y_true: Any, y_prob: Any, n_bins: int = 10) -> float:
    """How far predicted probabilities lie from what came true, on average: the expected calibration
    error.

    Parameters
    ----------
    y_true, y_prob, n_bins
        As in :func:`reliability`.

    Returns
    -------
    float
        Mean over all predictions of the distance between a bin's mean probability and its share; 0
        is perfect.
    """
    bins = reliability(y_true, y_prob, n_bins)
    return float(np.sum(bins.counts * np.abs(bins.predicted - bins.observed)) / bins.counts.sum())


def misplaced_shares(y_true: FloatArray, y_score: FloatArray) -> FloatArray:
    """For each row of one query (n,) the share of the rows with another score that it is in the
    wrong order with.

    NaN where there are none, and where y_true is NaN. O(n²).
    """
    true_order = np.nan_to_num(np.sign(y_true[:, None] - y_true[None, :]))
    order = np.sign(y_score[:, None] - y_score[None, :])
    differ = true_order != 0
    wrong = np.where(differ, (1 - true_order * order) / 2, 0.0)
    n_pairs = differ.sum(axis=1)
    shares = wrong.sum(axis=1) / np.maximum(n_pairs, 1)
    return np.where(n_pairs > 0, shares, np.nan)


def scorer(name: Literal["disagreement", "ndcg", "average_precision"]) -> Callable[..., float]:
    """Return a scikit-learn scorer that reads the query ids from ``groups``.

    ``GridSearchCV(ranker, grid, scoring=scorer("disagreement"), cv=GroupKFold()).fit(X, y,
    groups=users)`` then feeds splitter and scorer alike. Higher is better, as for every scorer:
    "disagreement" gives minus the error.

    Parameters
    ----------
    name : {"disagreement", "ndcg", "average_precision"}
        The metric, with its defaults; "disagreement" also uses ``sample_weight`` where it is
        passed.

    Returns
    -------
    callable
        A scorer whose score request is ``qid="groups"``; change it with its ``set_score_request``.
    """
    from sklearn import get_config
    from sklearn.metrics import make_scorer

    if name not in ("disagreement", "ndcg", "average_precision"):
        raise ValueError(
            f'name={name!r} is unknown; give "disagreement", "ndcg" or "average_precision".'
        )
    if not get_config()["enable_metadata_routing"]:
        raise RuntimeError(
            "scorer needs scikit-learn's metadata routing to receive the query ids; "
            "call sklearn.set_config(enable_metadata_routing=True) first."
        )
    result: Callable[..., float]
    if name == "disagreement":
        error = make_scorer(disagreement_error, greater_is_better=False)
        result = error.set_score_request(qid="groups", sample_weight=True)
    else:
        metric = ndcg if name == "ndcg" else average_precision
        result = make_scorer(metric).set_score_request(qid="groups")
    return result


def score_measures(
    y: FloatArray, predicted: FloatArray, queries: NumpyArray | None, *, are_scores: bool
) -> dict[str, dict[str, float | None] | None]:
    """The measures of predictions of scores, each with the standard error of its mean where it is
    one; None where it is not defined.

    `are_scores`: whether predictions are on the scale of the scores; else only the order counts
    """
    gains = ndcg(y, predicted, qid=queries, k=10, average=False) if y.min() >= 0 else np.array([])
    measures = {
        "disagreement": mean_and_error(
            disagreement_error(y, predicted, qid=queries, average=False)
        ),
        "ndcg": mean_and_error(gains),
    }
    if not are_scores:
        return measures
    errors = predicted - y
    explained = 1 - np.sum(errors**2) / np.sum((y - y.mean()) ** 2)
    return {
        **measures,
        "rmse": {"value": float(np.sqrt(np.mean(errors**2)))},
        "mae": mean_and_error(np.abs(errors)),
        "r2": {"value": float(explained)},
    }


def outcome_measures(
    first_won: Mask, ahead: FloatArray, chances: FloatArray | None, first_named: Mask
) -> dict[str, dict[str, float | None] | None]:
    """The measures of predictions of who wins, as in `score_measures`.

    Parameters
    ----------
    first_won : (n,)
    ahead : (n,) by how much the first is above the second; 0 is right by half
    chances : (n,) probability that the first wins, or None
    first_named : (n,) whether the first counts as the favourite where both are equal
    """
    right = np.sign(np.where(first_won, ahead, -ahead))
    measures = {"right_order": mean_and_error((right + 1) / 2)}
    if chances is None:
        return measures
    chance = np.where(first_won, chances, 1 - chances)
    measures["log_loss"] = mean_and_error(-np.log(np.maximum(chance, SMALLEST_PROBABILITY)))
    # that of the favourites, as who is named first may depend on who won
    favoured = (chances > 0.5) | ((chances == 0.5) & first_named)
    came_true = np.where(favoured, first_won, ~first_won)
    probability = np.where(favoured, chances, 1 - chances)
    measures["calibration_error"] = {"value": calibration_error(came_true, probability)}
    return measures


def mean_and_error(values: FloatArray) -> dict[str, float | None] | None:
    """Mean and standard error over the values that are defined, None where there are none."""
    defined = values[~np.isnan(values)]
    if len(defined) == 0:
        return None
    error = None
    if len(defined) > 1:
        error = float(np.std(defined, ddof=1) / np.sqrt(len(defined)))
    return {"value": float(defined.mean()), "standard_error": error}


def _read_table(y_true: Any, y_score: Any, qid: Any, sample_weight: Any = None) -> RowsByQuery:
    y = _read_column(y_true, "y_true")
    score = _read_column(y_score, "y_score", n_rows=len(y))
    if not np.isfinite(score).all():
        raise ValueError(
            "y_score has NaN or infinite values; every row needs a finite predicted score."
        )
    if np.isinf(y).any():
        raise ValueError(
            "y_true has infinite values; give finite scores, and NaN where a row has none."
        )
    counts = ~np.isnan(y)
    weight = None
    if sample_weight is not None:
        weight = _read_column(sample_weight, "sample_weight", n_rows=len(y)).astype(np.float64)
        if not (np.isfinite(weight) & (weight >= 0)).all():
            raise ValueError(
                "sample_weight has negative, NaN or infinite values; give finite weights >= 0."
            )
        counts &= weight > 0
    codes, n_queries = (None, 1) if qid is None else encode_queries(qid, len(y))
    codes = query_codes(codes, len(y))
    rows = np.flatnonzero(counts)
    return RowsByQuery.of(y[rows], score[rows], take(weight, rows), codes[rows], n_queries)


def _read_column(values: Any, name: str, n_rows: int | None = None) -> NumpyArray:
    if name == "y_true":
        values = masked_as_nan(values)
    refuse_masked(values, name, "give every row a number")
    column: NumpyArray = to_numpy(values)
    if column.dtype.kind == "O":
        try:
            if hasattr(values, "isna"):  # pandas has missing marks of its own
                column = values.to_numpy(np.float64, na_value=np.nan)
            else:
                column = column.astype(float)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{name} holds values that are not numbers ({error}); give numbers."
            ) from error
    if column.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {column.dtype}; give numbers.")
    if column.ndim != 1:
        raise ValueError(
            f"{name} has shape {column.shape}; give one value per row, in one dimension."
        )
    if n_rows is not None and len(column) != n_rows:
        raise ValueError(
            f"{name} has {len(column)} values for the {n_rows} rows of y_true; give one value per"
            " row."
        )
    return column


def _per_query(
    table: RowsByQuery, measure: Callable[[NumpyArray, NumpyArray], float]
) -> FloatArray:
    """A measure of y and scores for every query: (n_queries,)."""
    rows = [slice(*ends) for ends in zip(table.starts, table.starts + table.sizes, strict=True)]
    values = [measure(table.y[of_query], table.score[of_query]) for of_query in rows]
    return np.array(values, dtype=np.float64)


def _mean_of_defined(values: FloatArray, needed: str) -> float:
    defined = values[~np.isnan(values)]
    if len(defined) == 0:
        message = f"There was nothing to compare: no query has {needed}. The result is nan."
        warnings.warn(message, UserWarning, stacklevel=3)
        return float("nan")
    return float(defined.mean())
