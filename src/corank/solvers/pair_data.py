"""Who beat whom, each pair of winner and loser once: from explicit comparisons, or from scores within queries.

Also how the items of new comparisons are matched with those that are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from corank._arrays import Array, FloatArray, Index, dtype_name, is_sparse, like, namespace, segment_sum, take, to_numpy
from corank.model_files.packing import storable


@storable("Compared")
@dataclass(frozen=True)
class PairData:
    """Comparisons between items, each pair of winner and loser once.

    features : (n, d) the items
    winners, losers : (N,) row numbers of the items
    counts : (N,) how often each comparison was made, whole numbers
    """

    features: Array
    winners: Index
    losers: Index
    counts: FloatArray

    @classmethod
    def merged(cls, features: Array, winners: Index, losers: Index, counts: FloatArray) -> PairData:
        """From comparisons in which a pair may come several times."""
        n = int(features.shape[0])
        codes, places = np.unique(winners * n + losers, return_inverse=True)
        return cls(
            features,
            codes // n,
            codes % n,
            np.bincount(places, weights=counts, minlength=len(codes)).astype(np.float64),
        )

    def __len__(self) -> int:
        return len(self.winners)

    def apply(self, rows: Array) -> Array:
        """Winner less loser, (N, c), of values at the items (n, c)."""
        return take(rows, self.winners) - take(rows, self.losers)

    def transposed(self, values: Array) -> Array:
        """The transpose of `apply`: (N, c) → (n, c)."""
        n = int(self.features.shape[0])
        ends = [like(rows, values, "int64") for rows in (self.winners, self.losers)]
        return segment_sum(values, ends[0], n) - segment_sum(values, ends[1], n)

    @property
    def n_parts(self) -> int:
        """Number of groups of items that no chain of comparisons connects; items without comparisons do not count."""
        n = int(self.features.shape[0])
        graph = sparse.csr_array((np.ones(len(self)), (self.winners, self.losers)), shape=(n, n))
        return len(np.unique(connected_components(graph, directed=False)[1][self.winners]))

    def extended(self, features: Array, winners: Index, losers: Index, counts: FloatArray) -> PairData:
        """With more comparisons, between items (m, d) that may be among those that are there."""
        items, places = joined_items(self.features, features, np.concatenate([winners, losers]))
        first, second = places[: len(winners)], places[len(winners) :]
        return PairData.merged(
            items,
            np.concatenate([self.winners, first]),
            np.concatenate([self.losers, second]),
            np.concatenate([self.counts, counts]),
        )


def joined_items(items: Array, features: Array, rows: Index) -> tuple[Array, Index]:
    """Items (n, d) with those `rows` (k,) of other items (m, d) that are not among them, and the places of the rows (k,).

    Items with equal features are one item.
    """
    used, ends = np.unique(rows, return_inverse=True)
    features = take(features, used)
    if is_sparse(items) != is_sparse(features):
        features = sparse.csr_array(features) if is_sparse(items) else features.toarray()
    if not is_sparse(features):
        features = like(features, items, dtype_name(items))
    numbers = {key: row for row, key in reversed(list(enumerate(_keys(items))))}
    places = np.zeros(len(used), dtype=np.int64)
    new_rows: list[int] = []
    for row, key in enumerate(_keys(features)):
        if key not in numbers:
            numbers[key] = int(items.shape[0]) + len(new_rows)
            new_rows.append(row)
        places[row] = numbers[key]
    if new_rows:
        both = [items, take(features, np.asarray(new_rows, dtype=np.int64))]
        items = sparse.vstack(both, format="csr") if is_sparse(items) else namespace(items).concat(both)
    return items, places[ends]


def _keys(features: Array) -> list[bytes]:
    """One key per row, equal for equal rows: its bytes, and for CSR those of its entries in order of columns."""
    if is_sparse(features):
        tidy = sparse.csr_array(features)
        tidy.sum_duplicates()
        tidy.eliminate_zeros()
        bounds = zip(tidy.indptr[:-1], tidy.indptr[1:], strict=True)
        return [tidy.indices[a:b].astype(np.int64).tobytes() + tidy.data[a:b].tobytes() for a, b in bounds]
    return [row.tobytes() for row in np.ascontiguousarray(to_numpy(features) + 0.0)]  # + 0: −0 is 0


def untied_pairs(scores: FloatArray, queries: Index, most: int, seed: int, first_new: int = 0) -> tuple[Index, Index]:
    """Winners and losers: pairs of rows of one query with different scores, each once; a seeded sample of `most`.

    Pairs of two rows before `first_new` are left out. Pairs that are not taken are not listed: O(n log n + most).
    """
    order = np.lexsort((scores, queries))
    new = order >= first_new
    new_before = np.concatenate([[0], np.cumsum(new)])
    new_places = np.flatnonzero(new)
    query, group = _begins(queries[order]), _begins(queries[order], scores[order])
    # how many rows each row beats: all below it if it is new, else the new ones below it
    beaten = np.where(new, group - query, new_before[group] - new_before[query])
    ends = np.cumsum(beaten)
    total = int(ends[-1]) if len(ends) else 0
    chosen = np.arange(total)
    if total > most:
        chosen = np.sort(np.random.default_rng(seed).choice(total, size=most, replace=False))
    winner = np.searchsorted(ends, chosen, side="right")
    number = chosen - (ends - beaten)[winner]
    among_new = new_places[np.minimum(new_before[query[winner]] + number, max(len(new_places) - 1, 0))]
    loser = np.where(new[winner], query[winner] + number, among_new)
    return order[winner], order[loser]


def _begins(*keys: np.ndarray[Any, Any]) -> Index:
    """For each of n places the beginning of its run of equal keys: (n,)."""
    n = len(keys[0])
    starts = np.zeros(n, dtype=bool)
    starts[:1] = True
    for key in keys:
        starts[1:] |= key[1:] != key[:-1]
    return np.maximum.accumulate(np.where(starts, np.arange(n), 0)) if n else np.zeros(0, dtype=np.int64)
