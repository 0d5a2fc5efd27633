"""What columns become before a kernel sees them: standardised, normal scores over all rows, within
queries, or both side by side.

An encoding learns from all rows, scored or not, and never from scores. Columns that do not vary are
dropped. CSR columns are only scaled, so that the matrix stays sparse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, TypeAlias

import numpy as np
from scipy import sparse
from scipy.special import ndtri
from sklearn.base import clone

from corank.core.arrays import Array, FloatArray, Index, is_sparse, take
from corank.core.basis import KernelBasis, make_basis
from corank.core.kernels import Kernel, check_precomputed, is_named
from corank.core.storable import any_floats, feature_rows, floats, storable, stored, whole
from corank.core.views import SumKernel, View, numbered_views, select
from corank.encode.encoder import TableEncoder
from corank.inputs import is_frame, is_matrix_of_numbers
from corank.tables.columns import stacked_tables

STANDARD, RANKS, QUERY_RANKS, BOTH_RANKS, AS_GIVEN = (
    "standardised",
    "normal scores",
    "normal scores within queries",
    "normal scores overall and within queries",
    "as given",
)
OWN_KERNEL = "by a kernel of their own"  # columns whose products are its values
ENCODINGS = (STANDARD, RANKS, QUERY_RANKS, BOTH_RANKS, AS_GIVEN, OWN_KERNEL)
WITHIN_QUERIES = (QUERY_RANKS, BOTH_RANKS)  # those that only rows with query labels have
WIDE_KERNELS = ("rbf", "exponential", "laplacian")  # those that have a width
KERNELS = ("linear", "cosine", *WIDE_KERNELS)  # of encoded columns
IDENTITY = "identity"  # of rows by the item that they are
PERSON = "person"  # of rows by who answered; below 0 nobody
PERSONS = "columns of persons"
NAMELESS = -(2.0**50)  # codes from here on down are no row's but those of models

MAX_KERNEL_POINTS = 2_000  # rows of a kernel of the user's own by which all rows are known
MAX_KNOTS = 200  # per column of normal scores: finer steps cannot be told apart with few scores
MAX_RANKED_ENTRIES = 5e7  # of a matrix whose columns are sorted; a larger one is only standardised
REACH = 10.0  # spans between the 5 % and the 95 % quantile beyond which a value is cut off
LEAST_SPREAD = 1e-10  # of a column relative to its size; below it the column counts as constant


@storable("ScaledColumns")
@dataclass(frozen=True)
class ScaledColumns:
    """Columns (x cut to [low, high] − centre) / scale.

    columns : (k,) numbers of the columns that vary; low, high, centre, scale : (k,)
    """

    name: str
    columns: Annotated[Index, whole(".k")]
    low: Annotated[FloatArray, any_floats(".k")]
    high: Annotated[FloatArray, any_floats(".k")]
    centre: Annotated[FloatArray, floats(".k")]
    scale: Annotated[FloatArray, floats(".k")]

    def is_sound(self) -> bool:
        """Whether columns can be cut and scaled like this."""
        return bool((self.scale > 0).all() and (self.low <= self.high).all())

    @classmethod
    def fit(
        cls, X: Array, name: str, *, centred: bool = True, groups: Sequence[Index] = ()
    ) -> ScaledColumns:
        """Mean and spread of the columns of all rows X (n, d); a column of CSR has its root mean
        square as scale.

        groups : numbers of the columns that share one scale
        """
        d = X.shape[1]
        if name == OWN_KERNEL:
            far = np.full(d, np.inf)
            return cls(name, np.arange(d), -far, far, np.zeros(d), np.ones(d))
        if is_sparse(X):
            size = np.sqrt(np.asarray(X.multiply(X).mean(axis=0)).ravel())
            columns = np.flatnonzero(size > 0)
            scale = np.ones(len(columns)) if name == AS_GIVEN else size[columns]
            far = np.full(len(columns), np.inf)
            return cls(name, columns, -far, far, np.zeros(len(columns)), scale)
        low, high = _limits(X)
        cut = np.clip(X, low, high)
        centre, scale = cut.mean(axis=0), cut.std(axis=0)
        columns = np.flatnonzero(
            scale > LEAST_SPREAD * np.maximum(np.abs(centre), np.finfo(float).tiny)
        )
        for group in groups:
            kept = np.intersect1d(group, columns)
            scale[kept] = np.sqrt(np.mean(scale[kept] ** 2)) if len(kept) else 1.0
            centre[kept] = 0.0  # where all directions count alike, 0 is the middle
        if name == AS_GIVEN:
            centre, scale = np.zeros(d), np.ones(d)
        if not centred:
            centre = np.zeros(d)
        return cls(name, columns, low[columns], high[columns], centre[columns], scale[columns])

    def only(self, columns: Index) -> ScaledColumns:
        """Some of the columns."""
        at = np.flatnonzero(np.isin(self.columns, columns))
        return ScaledColumns(
            self.name,
            self.columns[at],
            self.low[at],
            self.high[at],
            self.centre[at],
            self.scale[at],
        )

    def encode(self, X: Array, queries: Index | None) -> Array:
        """The encoded columns of X: (n, k)."""
        if is_sparse(X):
            kept = X if len(self.columns) == X.shape[1] else X.tocsc()[:, self.columns]
            return sparse.csr_array(kept @ sparse.diags_array(1 / self.scale))
        return (np.clip(X[:, self.columns], self.low, self.high) - self.centre) / self.scale


@storable("NormalScores")
@dataclass(frozen=True)
class NormalScores:
    """Normal quantiles of ranks over all rows; new values lie between those of their neighbours.

    columns : (k,); knots : (k, q) values of the columns in ascending order; quantiles : (k, q)
        their normal quantiles
    """

    name: str
    columns: Annotated[Index, whole(".k")]
    knots: Annotated[FloatArray, floats(".k", ".q")]
    quantiles: Annotated[FloatArray, floats(".k", ".q")]

    @classmethod
    def fit(cls, X: FloatArray) -> NormalScores:
        """Ranks of the columns of all rows X (n, d), equal values with the mean of their ranks. O(d
        n log n).
        """
        n = len(X)
        columns = np.flatnonzero(X.min(axis=0) < X.max(axis=0))
        knots, quantiles = [], []
        for column in columns:
            values, counts = np.unique(X[:, column], return_counts=True)
            ranks = np.cumsum(counts) - counts / 2
            if len(values) > MAX_KNOTS:
                chosen = np.unique(np.linspace(0, len(values) - 1, MAX_KNOTS).round().astype(int))
                values, ranks = values[chosen], ranks[chosen]
            knots.append(values)
            quantiles.append(ndtri(ranks / n))
        width = max(map(len, knots), default=1)
        return cls(RANKS, columns, _padded(knots, width), _padded(quantiles, width))

    def within(self, encoded: FloatArray) -> NormalScores:
        """The encoding for which values beyond those of encoded rows (n, k) count as the nearest."""
        low, high = encoded.min(axis=0)[:, None], encoded.max(axis=0)[:, None]
        return replace(self, quantiles=np.clip(self.quantiles, low, high))

    def limited(self, encoded: FloatArray) -> FloatArray:
        """Rows (n, k) that were encoded before such limits were known."""
        return np.clip(encoded, self.quantiles.min(axis=1), self.quantiles.max(axis=1))

    def encode(self, X: FloatArray, queries: Index | None) -> FloatArray:
        """The encoded columns of X: (n, k); values outside those of `fit` count as the nearest."""
        encoded = np.empty((len(X), len(self.columns)))
        for at, column in enumerate(self.columns):
            encoded[:, at] = np.interp(X[:, column], self.knots[at], self.quantiles[at])
        return encoded


@storable("QueryNormalScores")
@dataclass(frozen=True)
class QueryNormalScores:
    """Normal quantiles of ranks among the rows of the same query.

    columns : (k,) numbers of the columns that vary within some query
    """

    name: str
    columns: Annotated[Index, whole("_")]

    @classmethod
    def fit(cls, X: FloatArray, queries: Index) -> QueryNormalScores:
        """Find the columns that vary within some query."""
        order = np.argsort(queries, kind="stable")
        starts = np.flatnonzero(np.diff(queries[order], prepend=-1))
        grouped = X[order]
        spans = np.maximum.reduceat(grouped, starts) - np.minimum.reduceat(grouped, starts)
        return cls(QUERY_RANKS, np.flatnonzero(spans.max(axis=0) > 0))

    def encode(self, X: FloatArray, queries: Index | None) -> FloatArray:
        """The encoded columns of X: (n, k)."""
        assert queries is not None
        encoded = np.empty((len(X), len(self.columns)))
        for at, column in enumerate(self.columns):
            encoded[:, at] = ndtri(_ranks_within(queries, X[:, column]))
        return encoded


@storable("BothNormalScores")
@dataclass(frozen=True)
class BothNormalScores:
    """Normal scores over all rows, and beside them those within queries."""

    name: str
    overall: NormalScores
    within: QueryNormalScores

    @property
    def columns(self) -> Index:
        """Numbers of the encoded columns."""
        return np.concatenate([self.overall.columns, self.within.columns])

    def encode(self, X: FloatArray, queries: Index | None) -> FloatArray:
        """The encoded columns of X: (n, k)."""
        return np.hstack([self.overall.encode(X, queries), self.within.encode(X, queries)])


@storable("EncodingBeside")
@dataclass(frozen=True)
class EncodingBeside:
    """Normal scores of some columns, and beside them groups of columns that are only scaled.

    ranked : the encoding of the columns numbered `plain`; grouped : that of the others
    """

    name: str
    plain: Annotated[Index, whole("_")]
    ranked: NormalScores | QueryNormalScores | BothNormalScores
    grouped: ScaledColumns

    @property
    def columns(self) -> Index:
        """Numbers of the encoded columns."""
        return np.concatenate([self.plain[self.ranked.columns], self.grouped.columns])

    def encode(self, X: FloatArray, queries: Index | None) -> FloatArray:
        """The encoded columns of X: (n, k)."""
        ranked = self.ranked.encode(X[:, self.plain], queries)
        return np.hstack([ranked, self.grouped.encode(X, queries)])


@storable("ItemIdentity")
@dataclass(frozen=True)
class ItemIdentity:
    """The columns that say which item a row is, or who answered, or that are columns of persons, as
    they are: no other encoding has them.

    columns : (k,)
    """

    name: str
    columns: Annotated[Index, whole("_")]

    def encode(self, X: FloatArray, queries: Index | None) -> FloatArray:
        """The columns of X: (n, k)."""
        return dense_columns(X, self.columns)


def dense_columns(X: Array, columns: Index | Sequence[int]) -> FloatArray:
    """Some columns of X, dense or CSR."""
    if is_sparse(X):
        return np.asarray(X.tocsc()[:, columns].todense(), dtype=np.float64)
    return np.asarray(X[:, columns])


def known_items(codes: FloatArray) -> FloatArray:
    """Codes (n, k) of the items of a model: rows without a name, below 0, are none of other rows."""
    return np.where(codes < 0, NAMELESS - np.arange(len(codes))[:, None], codes)


@storable("KernelColumns")
@dataclass(frozen=True)
class KernelColumns:
    """Rows, or objects, as columns whose products are the values of a kernel: exact where one of two
    rows is a point, and for every row with itself unless the kernel is precomputed.

    columns : of X that the kernel sees; points : (r, _) as in `KernelBasis`; whitening : (r, k)
    """

    kernel: Annotated[Kernel, stored("Kernel")]
    columns: Annotated[Index, whole("_")]
    points: Annotated[Array, feature_rows(".r", "_") | whole(".r")]
    whitening: Annotated[FloatArray, floats(".r", ".k")]

    @classmethod
    def fit(cls, kernel: Kernel, columns: Index, X: Array) -> KernelColumns:
        """Points among rows X (n, d): all of them, or as many as there may be. O(n²) kernel values."""
        seen = select(X, columns)
        if kernel.precomputed:
            check_precomputed(seen)
        spec: Any = "all" if X.shape[0] <= MAX_KERNEL_POINTS else MAX_KERNEL_POINTS
        basis, _ = make_basis(spec, kernel, seen, np.arange(X.shape[0]), "pivoted", 0)
        assert isinstance(basis, KernelBasis)
        return cls(kernel, columns, basis.points, basis.whitening.matrix)

    @property
    def n_columns(self) -> int:
        """How many there are."""
        return int(self.whitening.shape[1]) + (not self.kernel.precomputed)

    def encode(self, X: Array) -> FloatArray:
        """The columns of rows X (n, d): (n, k), and one for what the points do not explain."""
        seen = select(X, self.columns)
        cells: FloatArray = self.kernel.block(seen, self.points) @ self.whitening
        if self.kernel.precomputed:
            return cells
        rest = self.kernel.diagonal(seen) - np.einsum("ij,ij->i", cells, cells)
        return np.column_stack([cells, np.sqrt(np.maximum(rest, 0.0))])


def as_columns(parts: Sequence[KernelColumns], features: Array) -> FloatArray:
    """Checked features (n, d) as columns of kernels."""
    return np.hstack([part.encode(features) for part in parts])


def kernel_columns(learner: Any, X: Array) -> list[KernelColumns] | None:
    """The columns for the kernels of the views of a learner, where these are functions, precomputed
    or made of several; None where they are not. X : (n, d) rows of the fit
    """
    given = learner.views if isinstance(learner.views, list | tuple) else []
    names = learner.feature_names
    own = [has_own_kernel(view) for view in given if isinstance(view, View)]
    if not any(own):
        return None
    if not all(own):
        raise ValueError(
            f"views: kernel {given[own.index(True)].kernel!r} does not go with built-in ones of other"
            " views here; give all of them as functions, or fit CoRankRLS or CoRLS."
        )
    parts = []
    for view in numbered_views(given, X.shape[1], names):
        kernel = Kernel("precomputed")
        if not is_named(view.kernel, "precomputed"):  # its widths, too
            kernel = (
                SumKernel([replace(view, columns=None)])
                .kernel()
                .seen_by(select(X, view.columns), take(names, view.columns))
            )
        parts.append(KernelColumns.fit(kernel, view.columns, X))
    return parts


def has_own_kernel(view: View) -> bool:
    """Whether the kernel of a view is none of those that encoded columns can have."""
    return not isinstance(view.kernel, str) or view.kernel not in KERNELS


def views_of_kernels(
    views: Sequence[View], parts: Sequence[KernelColumns] | None
) -> Sequence[View]:
    """Views of the columns of their kernels; as they are where they have none of their own."""
    if parts is None:
        for view in filter(has_own_kernel, views):
            raise ValueError(f"views: kernel {view.kernel!r} of {view.name} needs rows in memory.")
        return views
    ends = np.cumsum([0, *(part.n_columns for part in parts)])
    spans = [np.arange(first, end) for first, end in pairwise(ends)]
    return [
        View(span, "precomputed", name=view.name) for view, span in zip(views, spans, strict=True)
    ]


Encoding: TypeAlias = (
    ScaledColumns
    | NormalScores
    | QueryNormalScores
    | BothNormalScores
    | EncodingBeside
    | ItemIdentity
)


def rows_over_links(encoding: str, hops: int) -> str:
    """The name of encoded rows that see the columns of others over so many links."""
    return f"{encoding}, {hops} links" if hops else encoding


def fit_encoding(
    name: str,
    X: Array,
    queries: Index | None,
    *,
    centred: bool = True,
    groups: Sequence[Index] = (),
) -> Encoding | None:
    """The encoding of that name, learned from all rows X (n, d); None where it cannot be had or has
    no column.

    Parameters
    ----------
    name : one of ENCODINGS
    X : (n, d) float64 or CSR
    queries : (n,) query codes, None without queries
    centred : whether standardised columns have mean 0
    groups : numbers of the columns that share one scale, such as those of a text; they are never
        ranked
    """
    encoding: Encoding
    if name in (STANDARD, AS_GIVEN, OWN_KERNEL):
        encoding = ScaledColumns.fit(X, name, centred=centred, groups=groups)
    elif (
        is_sparse(X) or X.size > MAX_RANKED_ENTRIES or (name in WITHIN_QUERIES and queries is None)
    ):
        return None
    else:
        grouped = np.concatenate([np.empty(0, dtype=np.int64), *groups])
        plain = np.setdiff1d(np.arange(X.shape[1]), grouped)
        values = X[:, plain]
        ranked: NormalScores | QueryNormalScores | BothNormalScores
        if name == RANKS:
            ranked = NormalScores.fit(values)
        else:
            assert queries is not None
            ranked = QueryNormalScores.fit(values, queries)
            if name == BOTH_RANKS and len(ranked.columns):
                ranked = BothNormalScores(name, NormalScores.fit(values), ranked)
        if len(ranked.columns) == 0:
            return None
        encoding = ranked
        if len(grouped):
            scaled = ScaledColumns.fit(X, name, groups=groups)
            encoding = EncodingBeside(name, plain, ranked, scaled.only(grouped))
    return encoding if len(encoding.columns) else None


def encoded_tables(given: Any, X: Any, unscored: Any) -> tuple[Any, Any, TableEncoder | None]:
    """X and unscored rows as numbers, and the encoder that a table of more than numbers went through.

    given : the encoder of a learner, which is fitted to the tables unless it is already
    """
    if not (given is None or isinstance(given, TableEncoder) or hasattr(given, "groups_")):
        kind = type(given).__name__
        raise TypeError(
            f"encoder must be a TableEncoder, got {kind}; put other transformers before, in a"
            " pipeline."
        )
    fitted = given if hasattr(given, "columns_") else None
    if not is_frame(X):
        if given is not None and fitted is None:
            raise ValueError(
                "encoder is for tables; X is a matrix, which an encoder that is fitted must"
                " have made."
            )
        if fitted is not None and np.ndim(X) == 2 and len(fitted.attributes_) != np.shape(X)[1]:
            raise ValueError(
                f"encoder makes {len(fitted.attributes_)} columns, but X has {np.shape(X)[1]}:"
                " hand over the table, or what the encoder made of it."
            )
        return X, unscored, fitted
    if given is None and is_matrix_of_numbers(X):
        return X, unscored, None
    encoder = fitted
    if encoder is None:
        template = TableEncoder() if given is None else clone(given)
        encoder = template.fit(X if unscored is None else stacked_tables(X, unscored))
    others = None if unscored is None else encoder.transform(unscored)
    return encoder.transform(X), others, encoder


def block_encoder(
    encodings: Sequence[Encoding], features: Array, queries: Index | None
) -> Callable[[Any], dict[str, Array]]:
    """A function that encodes some of the rows, by the name of the encoding; ranks within queries are
    those among all rows, and left out where `queries` is None.
    """
    within = {
        encoding.name: encoding.encode(features, queries)
        for encoding in encodings
        if encoding.name in WITHIN_QUERIES and queries is not None
    }
    others = [encoding for encoding in encodings if encoding.name not in WITHIN_QUERIES]

    def encode(rows: slice | Index) -> dict[str, Array]:
        block = take(features, rows)
        encoded = {encoding.name: encoding.encode(block, None) for encoding in others}
        return encoded | {name: matrix[rows] for name, matrix in within.items()}

    return encode


def _ranks_within(queries: Index, values: FloatArray) -> FloatArray:
    """Ranks among the values (n,) of the same query, as shares of its size between 0 and 1; equal
    values share a rank.
    """
    order = np.lexsort((values, queries))
    new_query = np.diff(queries[order], prepend=-1) != 0
    new_value = new_query | (np.diff(values[order], prepend=np.nan) != 0)
    query_starts, value_starts = np.flatnonzero(new_query), np.flatnonzero(new_value)
    query_sizes, value_counts = (
        np.diff(starts, append=len(order)) for starts in (query_starts, value_starts)
    )
    of_value = np.cumsum(new_query)[value_starts] - 1  # the number of the query of every value
    shares = (value_starts - query_starts[of_value] + value_counts / 2) / query_sizes[of_value]
    result = np.empty(len(order))
    result[order] = np.repeat(shares, value_counts)
    return result


def _limits(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bounds per column beyond which a value is an outlier that would hide all others: (d,) each."""
    low, high = np.quantile(X, (0.05, 0.95), axis=0)
    span = REACH * (high - low)
    varies = span > 0
    return np.where(varies, low - span, -np.inf), np.where(varies, high + span, np.inf)


def _padded(rows: list[Any], width: int) -> FloatArray:
    """Arrays of different lengths as one matrix, the last number of each repeated."""
    matrix = np.empty((len(rows), width))
    for at, values in enumerate(rows):
        matrix[at, : len(values)] = values
        matrix[at, len(values) :] = values[-1]
    return matrix
