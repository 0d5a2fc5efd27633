"""Rows with their scores, in an order that does not depend on the one in which they were given, and by
every encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    first_appearance,
    is_sparse,
    stack_rows,
    take,
    to_numpy,
)
from corank.core.observations import refuse_lost_differences
from corank.core.queries import encode_queries
from corank.core.sampling import Digests, Edges, canonical_order, row_digests
from corank.core.views import View
from corank.inputs import read_scores, read_weights
from corank.learners.average.candidates import Candidate
from corank.learners.average.coefficients import RowsToSum
from corank.learners.average.encoding import (
    IDENTITY,
    PERSON,
    PERSONS,
    Encoding,
    ItemIdentity,
    dense_columns,
    fit_encoding,
    known_items,
)

LEAST, DIGITS = 1e-300, 9  # of numbers that are computed in any order of the rows
# all rows of a scan, by the encodings that a sample of them gave
RowsOfScan: TypeAlias = Callable[[Sequence[Encoding]], RowsToSum]


@dataclass(frozen=True)
class ScoredTable:
    """Rows with their scores.

    all_rows : all scored rows, where those of the table are a sample of more than fit into memory

    features : (n, d) float64 or CSR; scores : (n,), NaN = unscored; queries : (n,) codes or None;
        weights : (n,) or None
    links : (n, n) CSR, or None
    numbers : (n,) those that rows had before they were ordered; None as they were given
    """

    features: Array
    scores: FloatArray
    queries: Index | None = None
    weights: FloatArray | None = None
    links: sparse.csr_array | None = None
    all_rows: RowsOfScan | None = None
    numbers: Index | None = None

    @property
    def scored(self) -> Index:
        """Numbers of the rows that have a score and a weight above 0."""
        counted = ~np.isnan(self.scores)
        if self.weights is not None:
            counted &= self.weights > 0
        return np.flatnonzero(counted)

    def followed_by(self, more: Array | None, labels: Any) -> ScoredTable:
        """The rows, and unscored ones (m, d) after them; their queries, by labels, are their own."""
        if more is None:
            if labels is not None:
                raise ValueError("unscored_qid was given without unscored.")
            return self
        m = more.shape[0]
        queries = self.queries
        if queries is not None:
            codes = (
                np.arange(m)
                if labels is None
                else to_numpy(encode_queries(labels, m, "unscored_qid")[0])
            )
            queries = np.concatenate([queries, int(queries.max()) + 1 + codes])
        weights = None if self.weights is None else np.concatenate([self.weights, np.ones(m)])
        scores = np.concatenate([self.scores, np.full(m, np.nan)])
        return ScoredTable(stack_rows([self.features, more]), scores, queries, weights)

    def take(self, rows: Index) -> ScoredTable:
        """The chosen rows, without links; the table itself where they are all of them."""
        if np.array_equal(rows, np.arange(len(self.scores))):
            return self
        columns = (self.features, self.scores, self.queries, self.weights)
        chosen = ScoredTable(*(take(values, rows) for values in columns))
        return replace(chosen, numbers=take(self.numbers, rows))

    def ordered(self, settings: AverageSettings, digests: Digests | None = None) -> ScoredTable:
        """The rows in an order that does not depend on the one in which they were given, queries
        numbered as they come.

        Samples, folds and sums are then the same for every permutation of the rows.

        digests : of the features, where they are known
        """
        weights = np.ones(len(self.scores)) if self.weights is None else self.weights
        order = canonical_order(
            settings.digests(self.features) if digests is None else digests,
            np.column_stack([self.scores, weights]),
            queries=self.queries,
            edges=link_edges(self.links),
            groups=settings.groups_of_rows(self.features),
        )
        queries = take(self.queries, order)
        links = self.links
        return ScoredTable(
            features=take(self.features, order),
            scores=self.scores[order],
            queries=None if queries is None else first_appearance(queries)[0],
            weights=take(self.weights, order),
            links=None if links is None else links[order][:, order].sorted_indices(),
            all_rows=self.all_rows,
            numbers=order if self.numbers is None else self.numbers[order],
        )


@dataclass(frozen=True)
class AverageSettings:
    """What an average is made of.

    ranks : whether only the order within queries counts
    views : with columns as numbers; kinds : what each of them holds, where they were found and not
        declared
    groups : numbers of the columns that share one scale; identity : of those that say which item a
        row is
    candidates : None for the default list
    person, of_persons : numbers of the column that says who answered, and of those of persons;
        unused : of those that say in another way which item a row is
    n_roles : how many columns say who answered about which item
    by_person : whether queries are the persons
    """

    ranks: bool
    fit_intercept: bool = True
    views: Sequence[View] = ()
    kinds: Sequence[str] = ()
    groups: Sequence[Index] = ()
    candidates: Sequence[Candidate] | None = None
    seed: int = 0
    identity: Sequence[int] = ()
    person: Sequence[int] = ()
    of_persons: Sequence[int] = ()
    unused: Sequence[int] = ()
    n_roles: int = 0
    by_person: bool = False

    @property
    def has_roles(self) -> bool:
        """Whether it was said who answered, or about which item."""
        return self.n_roles > 0

    @property
    def names_of_roles(self) -> list[str]:
        """The encodings of items and persons that there are."""
        columns = {IDENTITY: self.identity, PERSON: self.person, PERSONS: self.of_persons}
        return [name for name, numbers in columns.items() if len(numbers)]

    def persons(self, features: Array) -> Index | None:
        """Codes (n,) of who answered, by features (n, d); None where nobody knows."""
        if not self.person:
            return None
        return dense_columns(features, self.person)[:, 0].astype(np.int64)

    def groups_of_rows(self, features: Array) -> list[Index]:
        """The rows of one item, and of one person, as codes (n,), where these were given."""
        if not self.has_roles:
            return []
        codes = [dense_columns(features, [column]) for column in (*self.identity, *self.person)]
        return [np.unique(column[:, 0], return_inverse=True)[1].ravel() for column in codes]

    def without_identity(self, features: Array) -> Array:
        """Features (n, d) in which it does not show which item a row is: encodings leave out
        columns of one value.
        """
        columns = [*self.identity, *self.person, *self.of_persons, *self.unused]
        return without_columns(features, columns)

    def digests(self, features: Array) -> Digests:
        """Digests of features (n, d) that do not depend on the units of dense columns, and in which
        rows without a name are not told apart by where they stand.
        """
        if any(view.kernel == "precomputed" for view in self.views):
            features = _whatever_directions(features)
        if self.has_roles:  # names differ, but not what they are
            features = without_columns(features, [*self.identity, *self.person, *self.unused])
        elif self.identity:
            features = features.copy()
            features[:, self.identity] = np.maximum(features[:, self.identity], -1.0)
        if not sparse.issparse(features):
            places = [np.unique(column, return_inverse=True)[1] for column in features.T]
            features = np.column_stack(places).astype(np.float64) if places else features
        return row_digests(features, self.seed)


def read_table(
    features: Array, y: Any, qid: Any, sample_weight: Any, *, ranks: bool
) -> ScoredTable:
    """Features (n, d) of rows, with their scores, queries and weights checked."""
    n = features.shape[0]
    scores = to_numpy(read_scores(y, n, np.empty(0)))
    weights = read_weights(sample_weight, n, np.empty(0))
    queries = None if qid is None else to_numpy(encode_queries(qid, n)[0])
    if ranks and queries is not None:
        scored = ~np.isnan(scores)
        refuse_lost_differences(scores[scored], queries[scored])
    return ScoredTable(features, scores, queries, weights)


def without_columns(features: Array, columns: Sequence[int]) -> Array:
    """Features (n, d) with zeros in some columns."""
    if not columns:
        return features
    if is_sparse(features):
        kept = np.ones(features.shape[1])
        kept[list(columns)] = 0.0
        shown: Array = sparse.csr_array(features @ sparse.diags_array(kept))
        shown.eliminate_zeros()
        return shown
    hidden = features.copy()
    hidden[:, columns] = 0.0
    return hidden


def _whatever_directions(rows: FloatArray) -> FloatArray:
    """What of rows (n, k) does not change when all are turned: (n, 2)."""
    turned = [np.einsum("ij,ij->i", rows, rows), rows @ rows.sum(axis=0)]
    sizes = [max(float(np.abs(values).max()), LEAST) for values in turned]
    return np.column_stack(
        [np.round(v / size, DIGITS) for v, size in zip(turned, sizes, strict=True)]
    )


class EncodedTable:
    """All rows of a table by every encoding, each made when it is first asked for, and kept.

    features : (n, d) float64 or CSR; queries : (n,) codes, None without
    learned : from which encodings are learned, None for this table itself
    Encodings depend on neither scores nor comparisons: one table serves fits to different ones.
    """

    def __init__(
        self,
        features: Array,
        queries: Index | None,
        settings: AverageSettings,
        learned: EncodedTable | None = None,
    ) -> None:
        self.features = features
        self.queries = queries
        self.settings = settings
        self._learned = learned
        self._encodings: dict[str, Encoding | None] = {}
        self._rows: dict[str, Array] = {}

    def __len__(self) -> int:
        return int(self.features.shape[0])

    def encoding(self, name: str) -> Encoding | None:
        """What columns become, learned from all rows; None where it cannot be had."""
        if self._learned is not None:
            return self._learned.encoding(name)
        if name not in self._encodings:
            settings = self.settings
            of_roles = {
                IDENTITY: settings.identity,
                PERSON: settings.person,
                PERSONS: settings.of_persons,
            }
            if name in of_roles:
                columns = np.asarray(of_roles[name], dtype=np.int64)
                fitted: Encoding | None = ItemIdentity(name, columns)
            else:
                visible = settings.without_identity(self.features)
                centred = settings.fit_intercept
                groups = settings.groups
                fitted = fit_encoding(name, visible, self.queries, centred=centred, groups=groups)
            self._encodings[name] = fitted
        return self._encodings[name]

    def rows(self, name: str) -> Array:
        """The encoded rows, (n, k); k is 0 where the encoding cannot be had."""
        if name not in self._rows:
            encoding = self.encoding(name)
            none = np.empty((len(self), 0))
            rows = none if encoding is None else encoding.encode(self.features, self.queries)
            self._rows[name] = known_items(rows) if name == IDENTITY else rows
        return self._rows[name]


def link_edges(links: sparse.csr_array | None) -> list[Edges]:
    """Links as what joins pairs of rows."""
    if links is None:
        return []
    first = np.repeat(np.arange(links.shape[0]), np.diff(links.indptr))
    return [(first, links.indices.astype(np.int64), links.data[:, None])]
