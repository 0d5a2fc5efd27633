"""What every loader and generator returns: rows, their scores and queries, and where they come from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    qid: NDArray[np.int64]
    item: NDArray[np.int64]
    feature_names: tuple[str, ...]
    description: str
    citation: str = ""

    def __repr__(self) -> str:
        n_rows, n_features = self.X.shape
        n_scored = int(np.count_nonzero(~np.isnan(self.y)))
        n_queries = len(np.unique(self.qid))
        name = type(self).__name__
        return f"{name}({n_rows} rows, {n_scored} scored, {n_queries} queries, {n_features} features)"


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
    X_test: NDArray[np.float64]
    y_test: NDArray[np.float64]
    qid_test: NDArray[np.int64]
