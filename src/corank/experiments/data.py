"""The data of a comparison: features, scores and queries, checked once; their counts and oddities;
and how features become numbers in a run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.base import clone

from corank.core.arrays import (
    FloatArray,
    Index,
    Mask,
    digest,
    masked_as_nan,
    refuse_masked,
    to_numpy,
)
from corank.core.observations import spreads
from corank.core.queries import encode_queries, query_codes
from corank.core.views import encoded_views, random_bases, random_split, read_views
from corank.encode.encoder import TableEncoder
from corank.links import read_links


@dataclass(frozen=True, eq=False)
class Items:
    """Items to compare methods on, one per row.

    Parameters
    ----------
    X : (n, d) array or CSR of numbers, taken as they are; or a table (pandas, polars, pyarrow)
        The columns of a table are encoded by a `TableEncoder`, fitted in every run on its training
        rows alone.
    y : (n,) scores, higher is better; NaN = unscored
    qid : (n,) query labels, or None: all rows compete
    views : list of View, or a number of random parts, for methods with views; columns of a table by
        their names
    encoder : TableEncoder whose parameters the encoders of a table have, or None for the defaults
    links : links between the rows, for methods that use them: a SciPy sparse matrix, or an array
        (m, 2) of row numbers. A fit sees those between its training rows; a prediction for test
        rows those between all rows of the draw
    """

    X: Any
    y: Any
    qid: Any = None
    views: Any = 2
    encoder: TableEncoder | None = field(default=None, kw_only=True)
    links: Any = field(default=None, kw_only=True)
    query_names: tuple[str, ...] = field(init=False, default=())  # of the queries by their number

    def __post_init__(self) -> None:
        n = self.X.shape[0] if hasattr(self.X, "shape") else len(self.X)
        y = np.asarray(to_numpy(masked_as_nan(self.y)), dtype=np.float64)
        if y.shape != (n,):
            raise ValueError(
                f"y has shape {y.shape} for {n} rows of X; give one score per row, NaN where there"
                " is none."
            )
        if np.isinf(y).any():
            raise ValueError(
                "y has infinite values; give finite scores, and NaN where a row has none."
            )
        if np.isnan(y).all():
            raise ValueError("y has no scored row: every score is NaN.")
        object.__setattr__(self, "y", y)
        if self.qid is not None:
            codes, _ = encode_queries(self.qid, n)
            codes = np.asarray(to_numpy(codes), dtype=np.int64)
            labels = to_numpy(self.qid).ravel() if hasattr(self.qid, "shape") else list(self.qid)
            first = np.unique(codes, return_index=True)[1]
            names = tuple(str(labels[row]) for row in first)
            object.__setattr__(self, "query_names", names)
            object.__setattr__(self, "qid", codes)
        if self.links is not None:
            object.__setattr__(self, "links", read_links(self.links, n))
        if not self.is_table and not sparse.issparse(self.X):
            refuse_masked(self.X, "X", "fill them in, or give a table, which is encoded")
            X = to_numpy(self.X)
            if X.ndim != 2 or X.dtype.kind not in "biuf":
                raise ValueError(
                    f"X has shape {X.shape} and dtype {X.dtype}; give a table, or a matrix of"
                    " numbers."
                )
            if not np.isfinite(X).all():
                raise ValueError(
                    "X has NaN or infinite values; fill them in, or give a table, which is encoded."
                )
            object.__setattr__(self, "X", X)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_queries(self) -> int:
        """Number of queries, 1 where all rows compete."""
        return max(1, len(self.query_names))

    @property
    def is_table(self) -> bool:
        """Whether the features are columns of any kind, still to be encoded."""
        return hasattr(self.X, "columns") or hasattr(self.X, "column_names")

    @cached_property
    def scored(self) -> Mask:
        """Which rows have a score: (n,)."""
        return np.asarray(~np.isnan(self.y))

    @cached_property
    def digest(self) -> str:
        """A digest of the data and views: it changes when any number changes."""
        parameters = None if self.encoder is None else self.encoder.get_params()
        links = None if self.links is None else self.links.matrix
        rows = self.X
        if self.is_table:
            rows = hashlib.sha256(_as_arrow_bytes(self.X)).hexdigest()
        return digest(self.views, parameters, self.y, self.qid, links, rows)[:16]

    def features(self, fitted_on: Index, rows: Index) -> tuple[Any, Any, Any, TableEncoder | None]:
        """Numbers of both sets of rows, the views of their columns, and the encoder, which sees the
        first set only.
        """
        if not self.is_table:
            return self.X[fitted_on], self.X[rows], self.views, None
        key = (fitted_on.tobytes(), rows.tobytes())
        # methods see one draw after the other, and texts take long
        if key not in self._last_encoded:
            encoder = TableEncoder() if self.encoder is None else clone(self.encoder)
            training = encoder.fit_transform(_take(self.X, fitted_on))
            test = encoder.transform(_take(self.X, rows))
            views = _encoded(self.views, encoder)
            self._last_encoded.clear()
            self._last_encoded[key] = (training, test, views, encoder)
        training, test, views, encoder = self._last_encoded[key]
        return training.copy(), test.copy(), views, encoder

    @cached_property
    def _last_encoded(self) -> dict[tuple[bytes, bytes], tuple[Any, ...]]:
        """The features of the last two sets of rows that were asked for."""
        return {}


def _encoded(views: Any, encoder: TableEncoder) -> Any:
    """Views of a table's columns as views of the matrix: what one column became stays together."""
    names = np.asarray(encoder.feature_names_in_, dtype=object)
    if isinstance(views, int):
        fits = len(np.unique(encoder.attributes_)) >= views
        return random_split(views, attributes=encoder.attributes_) if fits else random_bases(views)
    if isinstance(views, list | tuple):
        views = read_views(views, len(names), names, np.random.default_rng(0))
    return encoded_views(views, encoder.attributes_)


def read_items(data: Any) -> Items:
    """Items as they are, anything with `X`, `y` and `qid` (as loaders give), or (X, y) or (X, y,
    qid).
    """
    if isinstance(data, Items):
        return data
    if hasattr(data, "X") and hasattr(data, "y"):
        return Items(data.X, data.y, getattr(data, "qid", None))
    if isinstance(data, tuple) and len(data) in (2, 3):
        return Items(*data)
    raise TypeError(
        f"data is {type(data).__name__}; give Items, what a loader gives, (X, y) or (X, y, qid)."
    )


def _take(table: Any, rows: Index) -> Any:
    """Rows of a table of any library."""
    return nw.from_native(table, eager_only=True)[rows].to_native()


def _as_arrow_bytes(table: Any) -> bytes:
    import pyarrow as pa

    arrow = table if isinstance(table, pa.Table) else nw.from_native(table).to_arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, arrow.schema) as writer:
        writer.write_table(arrow.combine_chunks())
    return bytes(sink.getvalue())


@dataclass(frozen=True)
class Intake:
    """The data in numbers.

    query_sizes : rows of each query, None without queries
    tied : share of the pairs of scored rows of a query that have the same score
    problems : oddities that a user should know of, in sentences
    """

    rows: int
    scored: int
    query_sizes: Index | None
    tied: float
    lowest: float
    highest: float
    problems: tuple[str, ...]


def intake(items: Items) -> Intake:
    """Count rows, queries and ties, and look for problems."""
    y = items.y[items.scored]
    codes = query_codes(items.qid, len(items))
    sizes = np.bincount(codes)
    return Intake(
        rows=len(items),
        scored=len(y),
        query_sizes=None if items.qid is None else sizes,
        tied=_tied(y, codes[items.scored]),
        lowest=float(y.min()),
        highest=float(y.max()),
        problems=tuple(_problems(items, codes, sizes)),
    )


def _tied(y: FloatArray, codes: Index) -> float:
    """Share of tied pairs within queries; 0 where there is no pair."""
    n_together = np.bincount(codes)
    _, n_same = np.unique(np.stack([codes, y]), axis=1, return_counts=True)
    pairs = float((n_together * (n_together - 1.0)).sum())
    tied = float((n_same * (n_same - 1.0)).sum())
    return tied / pairs if pairs else 0.0


def _problems(items: Items, codes: Index, sizes: Index) -> list[str]:
    problems = []
    if items.qid is not None:
        scored = np.bincount(codes[items.scored])
        spread = spreads(items.y[items.scored], codes[items.scored])
        oddities = {
            "no scored row.": len(sizes) - np.count_nonzero(scored),
            "one scored row: it competes with none.": np.count_nonzero(scored == 1),
            "the same score throughout: nothing to learn there.": np.count_nonzero(
                (scored > 1) & (spread == 0)
            ),
        }
        problems += [
            f"{number:,} of {len(sizes):,} queries have {what}"
            for what, number in oddities.items()
            if number
        ]
    if not items.is_table and not sparse.issparse(items.X):
        constant = np.count_nonzero(np.ptp(items.X, axis=0) == 0)
        if constant:
            problems.append(f"{constant:,} of {items.X.shape[1]:,} columns are constant.")
        rows = np.column_stack([items.X, codes])
        repeated = len(rows) - len(np.unique(rows, axis=0))
        if repeated:
            problems.append(f"{repeated:,} rows repeat another row of the same query.")
    return problems
