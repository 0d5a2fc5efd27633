"""Unscored rows that come in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from corank.core.arrays import Array, is_foreign, is_rising, is_sparse, take, to_numpy
from corank.core.labels import as_labels, encode_queries
from corank.core.unscored import Piece, Reservoir
from corank.inputs import is_frame


@dataclass
class StreamedRows:
    """Unscored rows in chunks from a source that can be read again: X, or (X, qid).

    read : turns the X of a chunk into features; its second argument asks for a thorough check
    with_queries : False where rows count one by one, and may come in any order
    first : number of the first row
    """

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
            yield (
                Piece(X, codes)
                if order is None
                else Piece(take(X, order), codes[order], order=order)
            )
            next_code += n_codes - goes_on
        self._check_count(count)

    def _chunks(self, *, check: bool) -> Iterator[tuple[Array, Any]]:
        with_labels: bool | None = None
        for position, chunk in enumerate(self.source):
            is_pair = isinstance(chunk, tuple) and len(chunk) == 2
            X, labels = chunk if is_pair else (chunk, None)
            if labels is not None:
                labels = (
                    to_numpy(labels) if is_foreign(labels) else as_labels(labels, "qid of unscored")
                )
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


def is_stream(unscored: Any) -> bool:
    """Whether unscored rows come in chunks; an iterator, which can be read only once, is refused."""
    if (
        is_sparse(unscored)
        or is_foreign(unscored)
        or is_frame(unscored)
        or hasattr(unscored, "__array__")
    ):
        return False
    if isinstance(unscored, list | tuple):
        if not unscored:
            return True  # no chunk
        first = unscored[0]
        if (
            isinstance(unscored, tuple)
            and len(unscored) == 2
            and np.ndim(first) == 2
            and np.ndim(unscored[1]) == 1
        ):
            raise TypeError(
                "unscored is a pair (X, qid); hand over X and unscored_qid=qid, or chunks: [(X,"
                " qid)]."
            )
        return isinstance(first, tuple) or getattr(first, "ndim", 1) == 2 or is_frame(first)
    if isinstance(unscored, str | bytes) or not isinstance(unscored, Iterable):
        raise TypeError(f"unscored must be rows or chunks of rows, got {type(unscored).__name__}.")
    if iter(unscored) is unscored:
        raise TypeError(
            "unscored is an iterator, which can be read only once; hand over a list of chunks, or"
            " an object whose __iter__ starts again."
        )
    return True
