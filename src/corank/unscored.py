"""Rows without scores: those of X, and those handed over apart, in memory or in chunks that are read again and again.

Whatever their number, only a piece of them is held at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from corank._arrays import Array, Index, is_foreign, is_sparse, like, namespace, take, to_numpy
from corank.rows import as_labels, encode_queries, is_frame
from corank.sampling import luck_of, luckiest, luckiest_from

PIECE_ROWS = 2**16


@dataclass(frozen=True)
class Piece:
    """Rows whose queries lie together: features (k, d), query codes (k,), weights (k,) or None for ones."""

    features: Array
    queries: Index
    weights: Array | None = None
    order: Index | None = None  # of the rows in their chunk, None where they stand as they came


@dataclass(frozen=True)
class Reservoir:
    """At most `limit` rows, those of least luck: pieces of row numbers, luck and features."""

    limit: int
    pieces: tuple[tuple[Index, np.ndarray[Any, Any], Array], ...] = ()

    @classmethod
    def of(cls, limit: int, numbers: Index, seed: int, features: Callable[[Index], Array]) -> Reservoir:
        """Of the rows with these numbers; `features` gives those at some of the positions."""
        own = luck_of(numbers, seed)
        kept = luckiest(own, limit)
        return cls(limit, ((numbers[kept], own[kept], features(kept)),) if len(kept) else ())

    @classmethod
    def of_run(cls, limit: int, first: int, count: int, seed: int, features: Callable[[Index], Array]) -> Reservoir:
        """The same of `count` rows whose numbers run on from `first`."""
        kept, own = luckiest_from(first, count, limit, seed)
        return cls(limit, ((first + kept, own, features(kept)),) if len(kept) else ())

    def merged(self, other: Reservoir) -> Reservoir:
        """Both."""
        both = replace(self, pieces=(*self.pieces, *other.pieces))
        return both.cut(self.limit) if both.n_rows > 2 * self.limit else both

    @property
    def n_rows(self) -> int:
        """Their number."""
        return sum(len(numbers) for numbers, _, _ in self.pieces)

    def cut(self, size: int) -> Reservoir:
        """The luckiest of them, as one piece."""
        if not self.pieces:
            return replace(self, limit=size)
        numbers, own = (np.concatenate([piece[part] for piece in self.pieces]) for part in (0, 1))
        kept = luckiest(own, size)
        features = take(stacked([piece[2] for piece in self.pieces]), kept)
        return Reservoir(size, ((numbers[kept], own[kept], features),) if len(kept) else ())

    def rows(self) -> tuple[Index, Array | None]:
        """Row numbers and features, None for no rows."""
        cut = self.cut(self.limit)
        return (cut.pieces[0][0], cut.pieces[0][2]) if cut.pieces else (np.zeros(0, dtype=np.int64), None)


class Part(Protocol):
    """Rows that were handed over together."""

    @property
    def n_rows(self) -> int:
        """Their number."""
        ...

    def sampled(self, size: int, seed: int) -> Reservoir:
        """At most `size` of them, drawn by row number."""
        ...

    def pieces(self) -> Iterator[Piece]:
        """Pieces in the order of the queries, codes from 0."""
        ...


@dataclass(frozen=True)
class HeldRows:
    """Rows in memory: those numbered `rows` of `features`, all where that is None.

    first : the number of the first row of `features`
    """

    features: Array
    queries: Index | None  # None: one query
    rows: Index | None = None
    weights: Array | None = None
    first: int = 0

    @property
    def n_rows(self) -> int:
        """Their number."""
        return int(self.features.shape[0]) if self.rows is None else len(self.rows)

    @property
    def codes(self) -> Index:
        """Their query codes."""
        return np.zeros(self.n_rows, dtype=np.int64) if self.queries is None else self.queries

    @property
    def all_features(self) -> Array:
        """Their features."""
        return self.features if self.rows is None else take(self.features, self.rows)

    def sampled(self, size: int, seed: int) -> Reservoir:
        """At most `size` of them, drawn by row number."""
        own = self.rows
        if own is None:
            return Reservoir.of_run(size, self.first, self.n_rows, seed, partial(take, self.features))
        return Reservoir.of(size, self.first + own, seed, lambda kept: take(self.features, own[kept]))

    def pieces(self) -> Iterator[Piece]:
        """Rows in order are only looked at; others are copied piece by piece."""
        n = self.n_rows
        codes = self.codes
        ordered = bool(np.all(codes[1:] >= codes[:-1]))
        if ordered and self.rows is None:
            yield Piece(self.features, codes, self.weights)
            return
        order = np.arange(n) if ordered else np.argsort(codes, kind="stable")
        for begin in range(0, n, PIECE_ROWS):
            some = order[begin : begin + PIECE_ROWS]
            own = some if self.rows is None else self.rows[some]
            yield Piece(
                take(self.features, own), codes[some], None if self.weights is None else take(self.weights, some)
            )


@dataclass
class StreamedRows:
    """Chunks of rows from a source that can be read again: X, or (X, qid).

    `read` turns a chunk's X into features, with a thorough check when it is told so: on the first reading.
    """

    source: Iterable[Any]
    read: Callable[[Any, bool], Array]
    with_queries: bool = True  # whether they matter: rows that are compared one by one may come in any order
    first: int = 0  # the number of the first row
    _n_rows: int | None = field(default=None, init=False)
    _sorted: bool = field(default=True, init=False)

    @property
    def n_rows(self) -> int:
        """Their number, known after the first reading."""
        if self._n_rows is None:
            self.sampled(0, 0)
        assert self._n_rows is not None
        return self._n_rows

    def sampled(self, size: int, seed: int) -> Reservoir:
        """At most `size` of them, drawn by row number; chunks are checked the first time."""
        count, last, in_order, pool = 0, None, True, Reservoir(size)
        for X, labels in self._chunks(check=self._n_rows is None):
            n = int(X.shape[0])
            if labels is not None and n:
                in_order = in_order and _is_sorted(labels, last)
                last = labels[-1]
            if size and n:
                pool = pool.merged(Reservoir.of_run(size, self.first + count, n, seed, partial(take, X)))
            count += n
        if self._n_rows is not None and count != self._n_rows:
            raise ValueError(f"unscored gave {self._n_rows} rows when first read and {count} now; chunks must stay.")
        self._n_rows, self._sorted = count, in_order
        return pool

    def pieces(self) -> Iterator[Piece]:
        """Chunk by chunk; a query may go on in the next chunk, but must not come back later."""
        total = self.n_rows
        known: set[Any] = set()
        last: Any = None
        first_code, count = 0, 0
        for X, labels in self._chunks(check=False):
            n = int(X.shape[0])
            count += n
            if n == 0:
                continue
            if labels is None or not self.with_queries:
                yield Piece(X, np.zeros(n, dtype=np.int64))
                continue
            codes, n_codes = encode_queries(labels, n, "qid of unscored")
            if self._sorted:  # no query can come back
                goes_on = count > n and labels[0] == last
                last = labels[-1]
                yield Piece(X, codes + (first_code - goes_on))
                first_code += n_codes - goes_on
                continue
            own = [labels[int(row)] for row in np.unique(codes, return_index=True)[1]]
            goes_on = count > n and own[0] == last
            if not goes_on and last is not None and last in own:
                raise ValueError(_comes_back(last))
            if not self._sorted:
                again = known.intersection(own[1:] if goes_on else own)
                if again:
                    raise ValueError(_comes_back(next(iter(again))))
                known.update(own)
            # the open query first, the one of the last row, which may go on, last
            final = int(codes[-1])
            if not (goes_on and final == 0):
                own = [*own[:final], *own[final + 1 :], own[final]]
                codes = np.where(codes == final, n_codes - 1, codes - (codes > final))
            last = own[-1]
            codes = codes + first_code - goes_on
            order = None if np.all(codes[1:] >= codes[:-1]) else np.argsort(codes, kind="stable")
            yield Piece(X, codes) if order is None else Piece(take(X, order), codes[order], order=order)
            first_code += n_codes - goes_on
        if count != total:
            raise ValueError(f"unscored gave {total} rows when first read and {count} now; chunks must stay the same.")

    def _chunks(self, *, check: bool) -> Iterator[tuple[Array, Any]]:
        with_labels: bool | None = None
        for position, chunk in enumerate(self.source):
            pair = isinstance(chunk, tuple) and len(chunk) == 2
            X, labels = chunk if pair else (chunk, None)
            if labels is not None:
                labels = to_numpy(labels) if is_foreign(labels) else as_labels(labels, "qid of unscored")
            if with_labels is not None and with_labels != (labels is not None):
                raise ValueError(f"unscored: chunk {position} differs from the first one in having a qid; all or none.")
            with_labels = labels is not None
            try:
                features = self.read(X, check)
            except ValueError as error:
                raise ValueError(f"unscored, chunk {position}: {error}") from error
            if labels is not None and len(labels) != features.shape[0]:
                raise ValueError(
                    f"unscored, chunk {position}: qid has {len(labels)} labels for {features.shape[0]} rows."
                )
            yield features, labels


def _comes_back(label: Any) -> str:
    label = label.item() if isinstance(label, np.generic) else label
    return f"unscored: the query {label!r} comes back in a later chunk; the rows of a query must lie together."


def _is_sorted(labels: Any, last: Any) -> bool:
    try:
        return bool(np.all(labels[1:] >= labels[:-1])) and (last is None or bool(last <= labels[0]))
    except TypeError:
        return False


@dataclass(frozen=True)
class UnscoredRows:
    """All rows without a score."""

    parts: tuple[Part, ...]

    @property
    def n_rows(self) -> int:
        """Their number."""
        return sum(part.n_rows for part in self.parts)

    def pieces(self) -> Iterator[Piece]:
        """Pieces whose queries lie together; those of different parts are different ones."""
        first = 0
        for part in self.parts:
            highest = first
            for piece in part.pieces():
                if len(piece.queries):
                    highest = max(highest, first + int(piece.queries.max()) + 1)
                    yield Piece(piece.features, piece.queries + first, piece.weights)
            first = highest

    def sample(self, size: int, seed: int) -> tuple[Index, Array | None]:
        """At most `size` rows, drawn by row number whatever the pieces: sorted numbers, features (None for no rows)."""
        pool = Reservoir(size)
        for part in self.parts:
            pool = replace(pool, pieces=(*pool.pieces, *part.sampled(size, seed).pieces))
        return pool.rows()

    def everything(self) -> tuple[Array | None, Index, Array | None]:
        """All rows as they came, part by part: features, query codes, weights. For few rows only."""
        features: list[Array] = []
        codes: list[Index] = []
        weights: list[Any] = []
        first = 0
        for part in self.parts:
            pieces = (
                [Piece(part.all_features, part.codes, part.weights)] if isinstance(part, HeldRows) else part.pieces()
            )
            highest = first
            for piece in pieces:
                if len(piece.queries):
                    back = slice(None) if piece.order is None else np.argsort(piece.order)
                    features.append(take(piece.features, back))
                    codes.append(piece.queries[back] + first)
                    weights.append(piece.weights)
                    highest = max(highest, int(codes[-1].max()) + 1)
            first = highest
        if not codes:
            return None, np.zeros(0, dtype=np.int64), None
        known = next((w for w in weights if w is not None), None)
        if known is not None:
            xp = namespace(known)
            weights = [like(np.ones(len(c)), known) if w is None else w for w, c in zip(weights, codes, strict=True)]
            known = xp.concat(weights)
        return stacked(features), np.concatenate(codes), known


def stacked(parts: list[Array]) -> Array:
    """Rows below each other, CSR where they are."""
    if len(parts) == 1:
        return parts[0]
    if is_sparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    return namespace(parts[0]).concat(parts, axis=0)


def is_stream(unscored: Any) -> bool:
    """Whether rows come in chunks; refuses what can be read only once."""
    if is_sparse(unscored) or is_foreign(unscored) or is_frame(unscored) or hasattr(unscored, "__array__"):
        return False
    if isinstance(unscored, list | tuple):
        if not unscored:
            return True  # no chunk
        first = unscored[0]
        if isinstance(unscored, tuple) and len(unscored) == 2 and np.ndim(first) == 2 and np.ndim(unscored[1]) == 1:
            raise TypeError("unscored is a pair (X, qid); hand over X and unscored_qid=qid, or chunks: [(X, qid)].")
        return isinstance(first, tuple) or getattr(first, "ndim", 1) == 2 or is_frame(first)
    if isinstance(unscored, str | bytes) or not isinstance(unscored, Iterable):
        raise TypeError(f"unscored must be rows or chunks of rows, got {type(unscored).__name__}.")
    if iter(unscored) is unscored:
        raise TypeError(
            "unscored is an iterator, which can be read only once; hand over a list of chunks, or an object whose "
            "__iter__ starts anew."
        )
    return True
