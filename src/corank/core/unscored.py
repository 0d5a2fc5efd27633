"""Unscored rows: those of X, and those handed over apart, in memory or in chunks that are read
again for every pass.

Whatever their number, only a piece of them is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    NumpyArray,
    dtype_name,
    is_foreign,
    is_rising,
    like,
    namespace,
    stack_rows,
    take,
    to_numpy,
)
from corank.core.loss import Loss, Pointwise
from corank.core.queries import as_labels, encode_queries, query_codes
from corank.core.sampling import smallest, smallest_draws, uniform_draws
from corank.core.storable import storable

PIECE_ROWS = 2**16  # that are copied at once, to bring the rows of queries together


@dataclass(frozen=True)
class Piece:
    """Rows whose queries lie together: features (k, d), query codes (k,), weights (k,) or None for
    ones.

    order : positions of the rows in their chunk, None where they have not moved
    """

    features: Array
    queries: Index
    weights: Array | None = None
    order: Index | None = None


@storable("Reservoir")
@dataclass(frozen=True)
class Reservoir:
    """A random sample of at most `limit` rows, those with the smallest draws: pieces of row
    numbers, draws, features.
    """

    limit: int
    pieces: tuple[tuple[Index, NumpyArray, Array], ...] = ()

    @classmethod
    def of(
        cls, limit: int, numbers: Index, seed: int, features: Callable[[Index], Array]
    ) -> Reservoir:
        """A sample of the rows with these numbers; `features` gives the features at given
        positions.
        """
        draws = uniform_draws(numbers, seed)
        kept = smallest(draws, limit)
        return cls(limit, ((numbers[kept], draws[kept], features(kept)),) if len(kept) else ())

    @classmethod
    def of_run(
        cls, limit: int, first: int, count: int, seed: int, features: Callable[[Index], Array]
    ) -> Reservoir:
        """A sample of `count` rows whose numbers run on from `first`; `features` gives those at
        given positions.
        """
        kept, draws = smallest_draws(first, count, limit, seed)
        return cls(limit, ((first + kept, draws, features(kept)),) if len(kept) else ())

    def merged(self, other: Reservoir) -> Reservoir:
        """A sample of the rows of both."""
        both = replace(self, pieces=(*self.pieces, *other.pieces))
        return both.cut(self.limit) if both.n_rows > 2 * self.limit else both

    @property
    def n_rows(self) -> int:
        """Number of rows in memory, which may exceed the limit between two cuts."""
        return sum(len(numbers) for numbers, _, _ in self.pieces)

    def cut(self, size: int) -> Reservoir:
        """The `size` rows with the smallest draws, as one piece."""
        if not self.pieces:
            return replace(self, limit=size)
        numbers, draws, features = (
            stack_rows(list(each)) for each in zip(*self.pieces, strict=True)
        )
        kept = smallest(draws, size)
        piece = numbers[kept], draws[kept], take(features, kept)
        return Reservoir(size, (piece,) if len(kept) else ())

    def beside(self, reference: Array) -> Reservoir:
        """The sample as one piece, its features in the library and on the device of a reference."""
        pieces = self.cut(2 * self.limit).pieces
        placed = (
            (numbers, draws, like(X, reference, dtype_name(X))) for numbers, draws, X in pieces
        )
        return replace(self, pieces=tuple(placed))

    def with_features(self, features: Callable[[Index], Array]) -> Reservoir:
        """The sample as one piece with the features that belong to its row numbers."""
        cut = self.cut(self.limit)
        pieces = ((numbers, draws, features(numbers)) for numbers, draws, _ in cut.pieces)
        return replace(cut, pieces=tuple(pieces))

    def rows(self) -> tuple[Index, Array | None]:
        """Row numbers and features of the sample; features are None where there are no rows."""
        for numbers, _, features in self.cut(self.limit).pieces:
            return numbers, features
        return np.zeros(0, dtype=np.int64), None


class Part(Protocol):
    """Unscored rows that were handed over together.

    is_scanned : whether a pass over a scan sums them
    """

    is_scanned: ClassVar[bool]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def sampled(self, size: int, seed: int) -> Reservoir:
        """At most `size` rows, drawn by row number."""
        ...

    def pieces(self) -> Iterator[Piece]:
        """Pieces in the order of the queries, whose codes count from 0."""
        ...


@dataclass(frozen=True)
class HeldRows:
    """Unscored rows in memory: those numbered `rows` of `features`, all where that is None.

    queries : (n_rows,) codes, None for one query without a name
    first : number of the first row of `features`
    """

    is_scanned: ClassVar[bool] = False
    features: Array
    queries: Index | None
    rows: Index | None = None
    weights: Array | None = None
    first: int = 0

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.features.shape[0]) if self.rows is None else len(self.rows)

    @property
    def codes(self) -> Index:
        """Query codes: (n_rows,)."""
        return query_codes(self.queries, self.n_rows)

    def sampled(self, size: int, seed: int) -> Reservoir:
        """At most `size` rows, drawn by row number."""
        rows, features = self.rows, partial(take, self.features)
        if rows is None:
            return Reservoir.of_run(size, self.first, self.n_rows, seed, features)
        return Reservoir.of(size, self.first + rows, seed, lambda kept: features(rows[kept]))

    def pieces(self) -> Iterator[Piece]:
        """Rows in query order are handed on as they are; others are copied piece by piece."""
        codes = self.codes
        ordered = is_rising(codes)
        if ordered and self.rows is None:
            yield Piece(self.features, codes, self.weights)
            return
        order = np.arange(self.n_rows) if ordered else np.argsort(codes, kind="stable")
        for begin in range(0, self.n_rows, PIECE_ROWS):
            positions = order[begin : begin + PIECE_ROWS]
            features = take(self.features, positions if self.rows is None else self.rows[positions])
            yield Piece(features, codes[positions], take(self.weights, positions))


@dataclass
class StreamedRows:
    """Unscored rows in chunks from a source that can be read again: X, or (X, qid).

    read : turns the X of a chunk into features; its second argument asks for a thorough check
    with_queries : False where rows count one by one, and may come in any order
    first : number of the first row
    """

    is_scanned: ClassVar[bool] = False
    source: Iterable[Any]
    read: Callable[[Any, bool], Array]
    with_queries: bool = True
    first: int = 0
    _n_rows: int | None = field(default=None, init=False)
    _sorted: bool = field(default=True, init=False)

    @property
    def n_rows(self) -> int:
        """Number of rows, counted in the first reading."""
        if self._n_rows is None:
            self.sampled(0, 0)
        assert self._n_rows is not None
        return self._n_rows

    def sampled(self, size: int, seed: int) -> Reservoir:
        """At most `size` rows, drawn by row number; the first reading checks the chunks."""
        count, last, in_order, reservoir = 0, None, True, Reservoir(size)
        for X, labels in self._chunks(check=self._n_rows is None):
            n = X.shape[0]
            if labels is not None and n:
                in_order = in_order and _is_sorted(labels, last)
                last = labels[-1]
            if size and n:
                reservoir = reservoir.merged(
                    Reservoir.of_run(size, self.first + count, n, seed, partial(take, X))
                )
            count += n
        self._check_count(count)
        self._n_rows, self._sorted = count, in_order
        return reservoir

    def _check_count(self, count: int) -> None:
        if self._n_rows is not None and count != self._n_rows:
            raise ValueError(
                f"unscored gave {self._n_rows} rows when first read and {count} now; chunks must"
                " stay the same."
            )

    def pieces(self) -> Iterator[Piece]:
        """Chunk by chunk; a query may go on in the next chunk, but must not come back later."""
        _ = self.n_rows  # the first reading checks the chunks and the order of their labels
        closed: set[Any] = set()
        last: Any = None  # label of the open query
        next_code, count = 0, 0
        for X, labels in self._chunks(check=False):
            n = X.shape[0]
            count += n
            if n == 0:
                continue
            if labels is None or not self.with_queries:
                yield Piece(X, np.zeros(n, dtype=np.int64))
                continue
            codes, n_codes = encode_queries(labels, n, "qid of unscored")
            goes_on = count > n and labels[0] == last
            order = None
            if self._sorted:  # no query can come back
                last = labels[-1]
            else:
                queries = [labels[int(row)] for row in np.unique(codes, return_index=True)[1]]
                repeated = closed.intersection(queries[1:] if goes_on else queries)
                if repeated:
                    label = next(iter(repeated))
                    label = label.item() if isinstance(label, np.generic) else label
                    raise ValueError(
                        f"unscored: the query {label!r} comes back in a later chunk; the rows of a"
                        " query must lie together."
                    )
                closed.update(queries)
                final = int(codes[-1])
                # the query of the last row, which may go on, gets the last code
                if not (goes_on and final == 0):
                    queries.append(queries.pop(final))
                    codes = np.where(codes == final, n_codes - 1, codes - (codes > final))
                last = queries[-1]
                if not is_rising(codes):
                    order = np.argsort(codes, kind="stable")
            codes = codes + (next_code - goes_on)
            if order is not None:
                X, codes = take(X, order), codes[order]
            yield Piece(X, codes, order=order)
            next_code += n_codes - goes_on
        self._check_count(count)

    def _chunks(self, *, check: bool) -> Iterator[tuple[Array, Any]]:
        with_labels: bool | None = None
        for position, chunk in enumerate(self.source):
            is_pair = isinstance(chunk, tuple) and len(chunk) == 2
            X, labels = chunk if is_pair else (chunk, None)
            if labels is not None and is_foreign(labels):
                labels = to_numpy(labels)
            elif labels is not None:
                labels = as_labels(labels, "qid of unscored")
            if with_labels is not None and with_labels != (labels is not None):
                raise ValueError(
                    f"unscored: chunk {position} differs from the first one in having a qid; all or"
                    " none."
                )
            with_labels = labels is not None
            try:
                features = self.read(X, check)
            except ValueError as error:
                raise ValueError(f"unscored, chunk {position}: {error}") from error
            if labels is not None and len(labels) != features.shape[0]:
                raise ValueError(
                    f"unscored, chunk {position}: qid has {len(labels)} labels for"
                    f" {features.shape[0]} rows."
                )
            yield features, labels


def _is_sorted(labels: Any, last: Any) -> bool:
    try:
        return is_rising(labels) and (last is None or bool(last <= labels[0]))
    except TypeError:
        return False


@dataclass(frozen=True)
class UnscoredRows:
    """All unscored rows of a fit, and how views are compared on them.

    bonds : (M, M) how much the agreement of every pair of views weighs; None for 1
    """

    parts: tuple[Part, ...]
    comparison: Loss = Pointwise()  # noqa: RUF009 it is frozen
    bonds: FloatArray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(part.n_rows for part in self.parts)

    def pieces(self) -> Iterator[Piece]:
        """Pieces whose queries lie together; queries of different parts are different."""
        first = 0
        for part in self.parts:
            first = yield from _renumbered(part.pieces(), first)

    def sample(self, size: int, seed: int) -> tuple[Index, Array | None]:
        """At most `size` rows, drawn by row number whatever the pieces: sorted numbers, features
        (None for no rows).
        """
        pieces = [piece for part in self.parts for piece in part.sampled(size, seed).pieces]
        return Reservoir(size, tuple(pieces)).rows()

    def everything(self) -> tuple[Array | None, Index, Array | None]:
        """All rows as they came, part by part: features, query codes, weights. For few rows only."""
        features, codes, weights = [], [], []
        for piece in self._unordered_pieces():
            original = slice(None) if piece.order is None else np.argsort(piece.order)
            features.append(take(piece.features, original))
            codes.append(piece.queries[original])
            weights.append(piece.weights)
        if not codes:
            return None, np.zeros(0, dtype=np.int64), None
        given = next((weight for weight in weights if weight is not None), None)
        if given is not None:
            filled = [
                like(np.ones(len(piece_codes)), given) if weight is None else weight
                for weight, piece_codes in zip(weights, codes, strict=True)
            ]
            given = namespace(given).concat(filled)
        return stack_rows(features), np.concatenate(codes), given

    def _unordered_pieces(self) -> Iterator[Piece]:
        first = 0
        for part in self.parts:
            pieces = part.pieces()
            if isinstance(part, HeldRows):
                features = part.features if part.rows is None else take(part.features, part.rows)
                pieces = iter([Piece(features, part.codes, part.weights)])
            first = yield from _renumbered(pieces, first)


def _renumbered(pieces: Iterator[Piece], first: int) -> Generator[Piece, None, int]:
    """Pieces that have rows, their query codes counted from `first`; returns the code after the
    highest.
    """
    end = first
    for piece in pieces:
        if len(piece.queries):
            end = max(end, first + int(piece.queries.max()) + 1)
            yield replace(piece, queries=piece.queries + first)
    return end
