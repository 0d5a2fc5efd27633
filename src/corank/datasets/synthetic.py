"""What every loader and generator returns: rows, their scores and queries, and where they come
from.

Made-up ranking problems: a nonlinear one with queries, and one with two views where agreement
helps.
"""

from dataclasses import dataclass

import numpy as np

from corank.core.arrays import FloatArray, Index


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RankingData:
    """Items to rank, one a row.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features.
    y : ndarray of shape (n_samples,)
        Scores, higher is better; NaN = unscored.
    qid : ndarray of shape (n_samples,)
        The query of each row: rows of one query compete with each other.
    item : ndarray of shape (n_samples,)
        The item of each row; the same item may stand in several queries.
    feature_names : tuple of str
        One name a column.
    description : str
        What a row is and where it comes from.
    citation : str
        What to cite; empty for made-up data.
    """

    X: FloatArray
    y: FloatArray
    qid: Index
    item: Index
    feature_names: tuple[str, ...]
    description: str
    citation: str = ""

    def __repr__(self) -> str:
        n_rows, n_features = self.X.shape
        n_scored = int(np.count_nonzero(~np.isnan(self.y)))
        n_queries = len(np.unique(self.qid))
        name = type(self).__name__
        return (
            f"{name}({n_rows} rows, {n_scored} scored, {n_queries} queries, {n_features} features)"
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TwoViewData(RankingData):
    """Items seen in two views, with rows to test on; see `RankingData` for the other attributes.

    Attributes
    ----------
    views : pair of slice
        The columns of each view.
    X_test : ndarray of shape (n_test, n_features)
        Features of the test rows.
    y_test : ndarray of shape (n_test,)
        Their scores, all known.
    qid_test : ndarray of shape (n_test,)
        Their queries, none of which is in `qid` (but for the one query of data without queries).
    """

    views: tuple[slice, slice]
    X_test: FloatArray
    y_test: FloatArray
    qid_test: Index


Seed = int | np.random.Generator | None


def make_ranking(
    n_queries: int = 50,
    query_size: int = 20,
    n_features: int = 10,
    *,
    noise: float = 0.1,
    offset: float = 2.0,
    scored_share: float = 1.0,
    random_state: Seed = None,
) -> RankingData:
    """Make a nonlinear ranking problem whose scores are comparable within a query only.

    The score of x in query q is `f(x) + offset_q + noise`, with `f(x) = (sin(2 u'x) + u'x + v'x
    w'x) / 1.9` for random orthonormal directions u, v, w and standard normal x. f has a standard
    deviation of about one.

    Parameters
    ----------
    n_queries, query_size, n_features : int
        Queries, items in each (at least two) and columns (at least three).
    noise : float
        Standard deviation of the noise of a score.
    offset : float
        Standard deviation of the offsets of the queries, which say nothing about any ranking.
    scored_share : float
        Share of each query's items that are scored, in (0, 1]; at least two are. The others have
        NaN in `y`.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    RankingData
        The rows of a query stand together; `item` numbers the rows.
    """
    check_at_least("n_queries", n_queries, 1)
    check_at_least("query_size", query_size, 2)
    check_at_least("n_features", n_features, 3)
    if not 0.0 < scored_share <= 1.0:
        raise ValueError(f"scored_share must be in (0, 1], got {scored_share}.")
    rng = np.random.default_rng(random_state)
    n_rows = n_queries * query_size
    directions = np.linalg.qr(rng.standard_normal((n_features, 3)))[0]
    X = rng.standard_normal((n_rows, n_features))
    first, second, third = (X @ directions).T
    y = (np.sin(2.0 * first) + first + second * third) / 1.9
    y += np.repeat(
        offset * rng.standard_normal(n_queries), query_size
    ) + noise * rng.standard_normal(n_rows)
    n_scored = max(2, round(scored_share * query_size))
    rank_in_query = rng.permuted(np.tile(np.arange(query_size), (n_queries, 1)), axis=1).ravel()
    y[rank_in_query >= n_scored] = np.nan
    return RankingData(
        X=X,
        y=y,
        qid=np.repeat(np.arange(n_queries), query_size),
        item=np.arange(n_rows),
        feature_names=tuple(f"x{column}" for column in range(n_features)),
        description=(
            "Made-up nonlinear ranking problem with an offset a query"
            " (corank.datasets.make_ranking)."
        ),
    )


def make_two_views(
    n_scored: int = 20,
    n_unscored: int = 2000,
    n_features: int = 50,
    n_private: int = 20,
    *,
    noise: float = 0.05,
    private: float = 1.0,
    n_test: int = 1000,
    queries: int | None = None,
    offset: float = 2.0,
    random_state: Seed = None,
) -> TwoViewData:
    """Make a problem where two views share nothing but the target, so that agreement on unscored
    rows finds it.

    View v of a row is `t w_v + private P_v'z_v + noise`: the target t and the private factors z_v,
    which are independent across views, are standard normal; w_v has length one, and so, about, has
    each row of P_v. With few scores nothing tells the target from the private factors of a view,
    except that the other view does not have them.

    Parameters
    ----------
    n_scored, n_unscored, n_test : int
        Rows that have a score, rows that have NaN in `y`, and rows to test on.
    n_features, n_private : int
        Columns and private factors of each view.
    noise : float
        Standard deviation of the noise of a feature.
    private : float
        Strength of the private factors beside the target's.
    queries : int or None
        Number of queries that the scored rows, and likewise the unscored rows, are dealt out to;
        the test rows form as many new ones. None: one query, for regression.
    offset : float
        Standard deviation of the offsets of the queries, added to the scores; none are with
        `queries=None`.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    TwoViewData
        Scored rows first; the views stand side by side in `X` and `X_test`, their columns in
        `views`.

    Notes
    -----
    The target has mean zero, which the mean of 20 scores misses by about 0.2: regress without an
    intercept.
    """
    check_at_least("n_scored", n_scored, 2 if queries is None else 2 * queries)
    check_at_least("n_unscored", n_unscored, 0)
    check_at_least("n_test", n_test, 0)
    check_at_least("n_features", n_features, 1)
    check_at_least("n_private", n_private, 0)
    if queries is not None:
        check_at_least("queries", queries, 1)
    rng = np.random.default_rng(random_state)
    n_fit = n_scored + n_unscored
    target = rng.standard_normal(n_fit + n_test)
    X = np.hstack([_view(rng, target, n_features, n_private, private, noise) for _ in range(2)])
    n_queries = queries or 1
    query = np.concatenate([np.arange(size) % n_queries for size in (n_scored, n_unscored, n_test)])
    if queries is not None:
        query[n_fit:] += n_queries
        target += offset * rng.standard_normal(2 * n_queries)[query]
    y = target[:n_fit].copy()
    y[n_scored:] = np.nan
    return TwoViewData(
        X=X[:n_fit],
        y=y,
        qid=query[:n_fit],
        item=np.arange(n_fit),
        feature_names=tuple(
            f"{view}_{column}" for view in ("a", "b") for column in range(n_features)
        ),
        description=(
            "Made-up problem whose two views share the target only"
            " (corank.datasets.make_two_views)."
        ),
        views=(slice(0, n_features), slice(n_features, 2 * n_features)),
        X_test=X[n_fit:],
        y_test=target[n_fit:],
        qid_test=query[n_fit:],
    )


def _view(
    rng: np.random.Generator,
    target: FloatArray,
    n_features: int,
    n_private: int,
    private: float,
    noise: float,
) -> FloatArray:
    direction = rng.standard_normal(n_features)
    loadings = rng.standard_normal((n_private, n_features)) / np.sqrt(n_features)
    factors = rng.standard_normal((len(target), n_private))
    view: FloatArray = np.outer(target, direction / np.linalg.norm(direction))
    view += private * factors @ loadings + noise * rng.standard_normal(view.shape)
    return view


def check_at_least(name: str, value: int, least: int) -> None:
    """Refuse a parameter that is too small."""
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}.")
