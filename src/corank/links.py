"""Links between items: edges, row numbers or a sparse matrix → checked weights, and features that
spread along them.

`read_links` reads what users have, `propagated` spreads features, `LinkEncoder` does both in a
pipeline. A are the weights of the links (n, n), D the diagonal of the sums of its rows and one, P
the spread matrix, W the features (n, d), as in docs/mathematics.md, section 3.16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
import pyarrow as pa
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    in_order,
    is_sparse,
    refuse_masked,
    runs_of_rows,
)
from corank.core.messages import count, warn_user
from corank.inputs import as_numbers, is_frame, read_features
from corank.tables import column_names, is_text, plain, to_arrow
from corank.tables.names import identifiers, row_numbers, rows_of_ids

EXPECTED = (
    "links must be a SciPy sparse matrix of shape (n, n), an integer array of shape (m, 2) or (m,"
    " 3), a pair (edges, weights), or a table of two columns and perhaps weights"
)
# that are spread together: their rows are 256 bytes, and a few blocks are small beside a result
COLUMNS_AT_A_TIME = 32


@dataclass(frozen=True)
class Links:
    """Links between the rows of a table.

    Attributes
    ----------
    matrix : (n, n) float64 CSR of weights > 0, without self-loops; symmetric unless directions are
        kept
    n_given : links that were given
    n_unknown : links that name an item which is not in the table; they are ignored
    n_self : links of an item with itself; they are ignored
    n_repeated : links that were given before; without weights they count once, with weights they
        add up
    """

    matrix: Array
    n_given: int
    n_unknown: int = 0
    n_self: int = 0
    n_repeated: int = 0

    def take(self, rows: Index) -> Links:
        """The links between some of the rows, in their order."""
        matrix = sparse.csr_array(self.matrix[rows][:, rows])
        return Links(matrix, matrix.nnz)

    def remark(self) -> str:
        """What to tell about links that cannot be followed, without a full stop; empty where there
        are none.
        """
        if self.n_unknown == 0:
            return ""
        return (
            f"{self.n_unknown:,} of {count(self.n_given, 'link')} name items that are not in the"
            " table; they are ignored"
        )


# ---- reading


def read_links(
    links: Any, n: int, *, ids: Any = None, directed: bool = False, may_be_empty: bool = False
) -> Links:
    """Check links between the n rows of a table.

    Without `directed` links are made mutual: two items are as close as the heavier of the links
    between them says. With it row i of the matrix holds the links from i, along which i takes up
    the features of others. O(m + n).

    Parameters
    ----------
    links : SciPy sparse (n, n), array (m, 2) or (m, 3), pair (edges, weights), table, or Links
        Weights of a matrix are its entries. `Links` are taken as they are. Edges and tables hold
        from, to and perhaps a weight, by the `ids` of items where these are given, else by row
        numbers from 0.
    n : number of rows
    ids : (n,) names of the rows, whole numbers or text, each once
    directed : whether directions are kept
    may_be_empty : whether it is fine that no link joins two of the rows

    Returns
    -------
    Links
    """
    if isinstance(links, Links):  # read before, with its directions
        _check_shape(links.matrix, n)
        return links
    result = _read_matrix(links, n) if is_sparse(links) else _read_edges(links, n, ids)
    is_empty = result.matrix.nnz == 0 and not may_be_empty
    if is_empty and result.n_given == 0:
        raise ValueError("links is empty: no two items are linked.")
    if is_empty:
        raise ValueError(
            f"links: of {count(result.n_given, 'link')} none joins two different items of the"
            " table; are these the right columns?"
        )
    if directed:
        return result
    return replace(result, matrix=sparse.csr_array(result.matrix.maximum(result.matrix.T)))


def read_link_matrix(links: Any, n: int, *, may_be_empty: bool = False) -> Any:
    """Checked links between n rows as CSR (n, n), None without; what was ignored is said."""
    if links is None:
        return None
    checked = read_links(links, n, may_be_empty=may_be_empty)
    if checked.remark():
        warn_user(f"{checked.remark()}.")
    return checked.matrix


def _read_matrix(links: Any, n: int) -> Links:
    _check_shape(links, n)
    if links.dtype.kind not in "biuf":
        raise ValueError(f"links must hold weights that are numbers, got {links.dtype}.")
    entries = sparse.coo_array(links)
    weights = np.asarray(entries.data, dtype=np.float64)
    _check_weights(weights)
    return _summed(entries.row, entries.col, weights, n, counts_once=False)


def _check_shape(matrix: Any, n: int) -> None:
    if matrix.shape != (n, n):
        raise ValueError(
            f"links has shape {matrix.shape}, but X has {count(n, 'row')}: its shape must be ({n},"
            f" {n})."
        )


def _read_edges(links: Any, n: int, ids: Any) -> Links:
    columns, weights = _edge_columns(links)
    n_given = len(columns[0])
    values = np.ones(n_given) if weights is None else weights
    _check_weights(values)
    if ids is None:
        first, second = (row_numbers(column, n) for column in columns)
    else:
        first, second = rows_of_ids(columns, ids, n)
    known = (first >= 0) & (second >= 0)
    result = _summed(first[known], second[known], values[known], n, counts_once=weights is None)
    return replace(result, n_given=n_given, n_unknown=n_given - int(np.count_nonzero(known)))


def _summed(first: Any, second: Any, weights: FloatArray, n: int, *, counts_once: bool) -> Links:
    """Weights of the links from rows `first` to rows `second`; those of repeated links add up or
    count once.
    """
    kept = (first != second) & (weights > 0)
    n_self = int(np.count_nonzero(first == second))
    n_edges = int(np.count_nonzero(kept))
    index = np.int32 if max(n, n_edges) < 2**31 else np.int64  # short indices are read faster
    rows = first[kept].astype(index)
    columns = second[kept].astype(index)
    matrix = sparse.csr_array((weights[kept], (rows, columns)), shape=(n, n), dtype=np.float64)
    matrix.sum_duplicates()
    if counts_once:
        matrix.data[:] = 1.0
    return Links(matrix, len(weights), 0, n_self, n_edges - matrix.nnz)


def _check_weights(weights: FloatArray) -> None:
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if wrong.size:
        raise ValueError(
            "links: a weight must be a finite number that is not negative, but that of link"
            f" {wrong[0]} is {weights[wrong[0]]}."
        )


def _edge_columns(links: Any) -> tuple[list[Any], FloatArray | None]:
    """The two ends of every link as Arrow columns, and weights (m,) where there are any."""
    weights: Any = None
    is_pair = isinstance(links, tuple) and len(links) == 2
    if is_pair and (is_frame(links[0]) or np.ndim(links[0]) == 2):
        links, weights = links
        if np.shape(weights) != (len(links),):
            raise ValueError(
                f"links: there are {len(links):,} edges, but weights have shape"
                f" {np.shape(weights)}."
            )
    if isinstance(links, Mapping) or is_frame(links):
        table = to_arrow(links)
        names = table.column_names
    else:
        edges = _as_edges(links)
        names = list(range(edges.shape[1]))
        table = dict(enumerate(edges.T))
    if len(names) not in (2, 3) or (weights is not None and len(names) == 3):
        listed = ""
        if isinstance(table, pa.Table):
            listed = f": {', '.join(map(repr, column_names(table)[:5]))}"
        raise ValueError(
            f"links has {count(len(names), 'column')}{listed}; it needs two that name items, and"
            " may have a third with weights: select them."
        )
    if len(names) == 3:
        weights = table[names[2]]
    ends = [identifiers(table[name]) for name in names[:2]]
    return ends, None if weights is None else _as_weights(weights)


def _as_edges(links: Any) -> Any:
    if isinstance(links, str | bytes) or not hasattr(links, "__len__"):
        raise TypeError(f"{EXPECTED}; got {type(links).__name__}.")
    if len(links) == 0:
        return np.empty((0, 2), dtype=np.int64)
    refuse_masked(links, "links", "drop such links")
    edges = np.asarray(links)
    if edges.ndim != 2 or edges.shape[1] not in (2, 3):
        square = edges.ndim == 2 and edges.shape[0] == edges.shape[1]
        remedy = " A square matrix is taken as scipy.sparse.csr_array(links)." if square else ""
        raise ValueError(f"{EXPECTED}; got an array of shape {edges.shape}.{remedy}")
    return edges


def _as_weights(weights: Any) -> FloatArray:
    if isinstance(weights, pa.ChunkedArray):
        weights = plain(weights)
        weights = weights.to_numpy() if not is_text(weights.type) else weights.to_pylist()
    try:
        return np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"links: weights must be numbers ({error}).") from error


# ---- spreading


def spread_matrix(matrix: Any) -> Any:
    """P = D^-1/2 (A + I) D^-1/2 as (n, n) CSR, whose largest singular value is one.

    D holds the sums of the rows of A + I to its left and those of the columns to its right, which
    are the same where links are mutual. An item without links keeps what it has: its row is that of
    the identity.

    Parameters
    ----------
    matrix : (n, n) CSR of weights >= 0 without self-loops
    """
    looped = sparse.csr_array(matrix + sparse.eye_array(matrix.shape[0], format="csr"))
    left = 1.0 / np.sqrt(looped.sum(axis=1))
    right = 1.0 / np.sqrt(looped.sum(axis=0))
    looped.data *= np.repeat(left, np.diff(looped.indptr))
    looped.data *= right[looped.indices]
    return looped


def propagated(P: Any, W: Any, hops: Sequence[int], kept: float) -> dict[int, FloatArray]:
    """F_h = mean over k = 1 … h of ((1 - kept) Pᵏ W + kept W), for each number of hops h.

    All come from one run of products, of max(hops) nnz(P) d operations. Columns are spread a few at
    a time, in as many threads as BLAS may use, so that little is held beside the results, each of
    which is as large as a dense W.

    Parameters
    ----------
    P : (n, n) CSR, as of `spread_matrix`
    W : (n, d) float64 array or CSR
    hops : numbers of hops, at least 1 each
    kept : share of an item's own features, 0 to 1

    Returns
    -------
    (n, d) float64 array for each of `hops`
    """
    results = {h: np.zeros(W.shape) for h in sorted(set(hops))}
    largest = max(results)
    columns = W.tocsc() if is_sparse(W) else W

    def spread(block: slice) -> None:
        given = columns[:, block]
        given = given.toarray() if is_sparse(given) else given
        current = own = np.ascontiguousarray(given, dtype=np.float64)
        total = results[largest][:, block]
        for h in range(1, largest + 1):
            current = P @ current
            total += current
            if h in results:
                np.multiply(total, (1.0 - kept) / h, out=results[h][:, block])
        for result in results.values():
            result[:, block] += kept * own

    for _ in in_order(spread, runs_of_rows(W.shape[1], COLUMNS_AT_A_TIME), results[largest]):
        pass
    return results


# ---- in a pipeline


@dataclass(eq=False, repr=False)
class LinkEncoder(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Replaces the features of each item by averages over the items that it is linked with.

    F = mean over k = 1 … hops of ((1 - kept) Pᵏ X + kept X) with P = D^-1/2 (A + I) D^-1/2, where A
    holds the weights of the links and D the sums of the rows of A + I. An item without links keeps
    the features that it has. O(hops m d) time for m links and d columns; the result is dense.

    Parameters
    ----------
    links : SciPy sparse (n, n), array (m, 2) or (m, 3), pair (edges, weights), table, or None
        Links between the n rows of X. Weights of a matrix are its entries; edges and tables hold
        from, to and perhaps a weight. Repeated edges count once without weights, and add up with
        them. None leaves X as it is.
    hops : int or sequence of int
        How far features travel; several numbers give the columns of each, side by side.
    kept : float
        Share of the features that an item has itself, 0 to 1.
    directed : bool
        Whether items take up features along the direction of links only, from the items that they
        link to. By default links are mutual: the heavier of the links between two items counts for
        both.
    ids : (n,) names of the rows, or None
        Names by which edges and tables call the items, whole numbers or text. None: they hold row
        numbers from 0.

    Attributes
    ----------
    links_ : the links, checked: (n, n) CSR of weights, or None
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Their names, where X has names.

    See Also
    --------
    TableEncoder : text, dates, numbers and categories of a table as features.

    Notes
    -----
    The encoder is transductive: X holds all items, also those without a score, and links join its
    rows. A pipeline with it is fitted on, and predicts, the whole table; rows cannot be split off,
    as by `cross_val_score`. For new items give `transform` a table of old and new ones, with the
    links among them. A link to an item that is not in the table cannot be followed; it is ignored,
    with a warning.

    The propagated features take the place of the features. To have both use
    `sklearn.pipeline.make_union("passthrough", LinkEncoder(links))`.

    Examples
    --------
    >>> import numpy as np
    >>> from corank import LinkEncoder
    >>> LinkEncoder(links=[(0, 1)], hops=1, kept=0.0).fit_transform(np.array([[0.0], [1.0], [3.0]]))
    array([[0.5],
           [0.5],
           [3. ]])
    """

    links: Any = None
    _: KW_ONLY
    hops: int | Sequence[int] = 16
    kept: float = 0.05
    directed: bool = False
    ids: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the links between the rows of X.

        Parameters
        ----------
        X : (n, d) array, frame or CSR
        y : ignored

        Returns
        -------
        self
        """
        self._hop_counts()
        features = as_numbers(read_features(self, X, reset=True))
        self.links_ = None
        if self.links is not None:
            self.links_ = self._read(self.links, features.shape[0], self.ids)
        return self

    def transform(self, X: Any, *, links: Any = None, ids: Any = None) -> Any:
        """Spread features along links.

        Parameters
        ----------
        X : (n, d) array, frame or CSR
            The rows that were fitted or, with `links`, any table of items.
        links : links between the rows of X, in any form that the parameter takes; None: those that
            were fitted
        ids : (n,) names of the rows of X, by which `links` calls them

        Returns
        -------
        (n, d) array for each number of hops, side by side; X itself where there are no links
        """
        check_is_fitted(self)
        features = as_numbers(read_features(self, X, reset=False))
        n = features.shape[0]
        weights = self.links_ if links is None else self._read(links, n, ids)
        if weights is None:
            return features
        if weights.shape[0] != n:
            raise ValueError(
                f"X has {count(n, 'row')}, but links join {weights.shape[0]:,} items: give all"
                " items again, or the links between these rows as links=."
            )
        results = propagated(spread_matrix(weights), features, self._hop_counts(), self.kept)
        return np.hstack([results[h] for h in self._hop_counts()])

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the columns of the result, such as `price in 16 hops`.

        Parameters
        ----------
        input_features : names of the columns of X; None: those that were fitted

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        names = super().get_feature_names_out(input_features)
        if self.links_ is None:
            return names
        return np.array(
            [f"{name} in {h} hops" for h in self._hop_counts() for name in names], dtype=object
        )

    def _hop_counts(self) -> list[int]:
        """Numbers of hops, checked, as the share that is kept."""
        hops: list[Any] = np.ravel(self.hops).tolist()
        are_wrong = any(not isinstance(h, Integral) or h < 1 for h in hops)
        if not hops or are_wrong or len(set(hops)) < len(hops):
            raise ValueError(
                f"hops must be a whole number from 1, or several different ones, got {self.hops!r}."
            )
        if not 0 <= self.kept <= 1:
            raise ValueError(f"kept must be a share from 0 to 1, got {self.kept!r}.")
        return list(map(int, hops))

    def _read(self, links: Any, n: int, ids: Any) -> Any:
        result = read_links(links, n, ids=ids, directed=self.directed)
        if result.n_unknown:
            warn_user(f"{result.remark()}.")
        return result.matrix

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
