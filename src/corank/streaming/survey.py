"""A first look at a scan: how many rows, scored rows and queries every chunk has, what may serve as basis, few scores.

One pass. What is scored is held as long as it is little; else it is only counted, and summed in later passes.

Rows of a scan as learners take them: scored rows in memory where they are few, unscored ones pass by pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from corank._arrays import Array, Arrays, Index, first_appearance, like, namespace, take, to_numpy
from corank.gram import Statistics
from corank.loss import Loss
from corank.rows import Rows
from corank.streaming.chunks import Chunk, ClosedQueries, Cursor
from corank.streaming.passes import Passes
from corank.streaming.scan import Scan
from corank.streaming.sums import Offsets, Summing
from corank.unscored import Piece, Reservoir, stacked

HELD_BYTES = 2**27  # of the features of scored rows that are held in memory


@dataclass(frozen=True)
class Entry:
    """What one chunk holds.

    runs, scored_runs : queries, and queries with a score
    first, last : ids of the queries at the ends, and whether they have a score there
    bounds : the labels at the ends where they rise from row to row
    """

    cursor: Cursor
    rows: int
    scored: int
    runs: int
    scored_runs: int
    first: int
    last: int
    first_scored: bool
    last_scored: bool
    bounds: tuple[Any, Any] | None = None

    @classmethod
    def of(cls, chunk: Chunk, scored: np.ndarray[Any, np.dtype[np.bool_]]) -> Entry:
        """Count a chunk."""
        runs = chunk.runs
        having = np.logical_or.reduceat(scored, runs.starts) if len(scored) else np.zeros(1, dtype=bool)
        ends = (int(runs.ids[0]), int(runs.ids[-1])) if len(scored) else (0, 0)
        return cls(
            chunk.cursor,
            len(scored),
            int(scored.sum()),
            len(runs.starts),
            int(having.sum()),
            *ends,
            bool(having[0]),
            bool(having[-1]),
            runs.bounds,
        )

    @classmethod
    def unpacked(cls, cursor: Any, *counts: Any) -> Entry:
        """From JSON."""
        values: tuple[Any, ...] = (tuple(cursor), *counts[:-1], counts[-1] and tuple(counts[-1]))
        return cls(*values)


@dataclass(frozen=True)
class HeldScores:
    """Scored rows in memory, in pieces: features, scores, query ids, row numbers."""

    pieces: tuple[tuple[Array, Array, Index, Index], ...] = ()

    @property
    def n_bytes(self) -> int:
        """Of their features."""
        return sum(int(X.shape[0]) * int(X.shape[1]) * 8 for X, *_ in self.pieces)

    def joined(self) -> tuple[Array, Array, Index, Index]:
        """All of them."""
        X, y, ids, numbers = zip(*self.pieces, strict=True)
        return stacked(list(X)), namespace(y[0]).concat(list(y)), np.concatenate(ids), np.concatenate(numbers)


@dataclass(frozen=True)
class Look:
    """What a pass has seen: entries of chunks in order, pools of scored and unscored rows, scored rows if few.

    level : mean of the scores
    held : None where the scored rows are too many to hold
    """

    entries: tuple[Entry, ...]
    scored: Reservoir
    unscored: Reservoir
    held: HeldScores | None
    level: float = 0.0
    held_bytes: int = HELD_BYTES

    @property
    def n_rows(self) -> int:
        """All rows."""
        return sum(entry.rows for entry in self.entries)

    @property
    def n_scored(self) -> int:
        """Rows with a score."""
        return sum(entry.scored for entry in self.entries)

    def merged(self, other: Look) -> Look:
        """These rows and those that follow."""
        held = None
        if self.held is not None and other.held is not None:
            held = HeldScores((*self.held.pieces, *other.held.pieces))
            held = held if held.n_bytes <= self.held_bytes else None
        n, m = self.n_scored, other.n_scored
        return Look(
            (*self.entries, *other.entries),
            self.scored.merged(other.scored),
            self.unscored.merged(other.unscored),
            held,
            self.level + (other.level - self.level) * (m / (n + m) if m else 0.0),
            self.held_bytes,
        )

    def offsets(self) -> tuple[dict[Cursor, Offsets], int]:
        """What lies before every chunk, and the number of queries with a score."""
        found: dict[Cursor, Offsets] = {}
        rows = scored = queries = 0
        open_id, open_scored = None, False
        for entry in self.entries:
            goes_on = entry.rows > 0 and entry.first == open_id
            shared = goes_on and open_scored and entry.first_scored
            found[entry.cursor] = Offsets(rows, scored, queries - shared)
            rows, scored, queries = rows + entry.rows, scored + entry.scored, queries + entry.scored_runs - shared
            if entry.rows:
                through = goes_on and entry.runs == 1 and open_scored
                open_id, open_scored = entry.last, entry.last_scored or through
        return found, queries

    @property
    def n_queries(self) -> int:
        """Queries, scored or not."""
        some = [entry for entry in self.entries if entry.rows]
        return sum(entry.runs for entry in some) - sum(a.last == b.first for a, b in pairwise(some))

    @property
    def rises(self) -> bool:
        """Whether labels rise throughout, so that no query can come back."""
        some = [entry for entry in self.entries if entry.rows]
        if any(entry.bounds is None for entry in some):
            return False
        return all(a.bounds[1] <= b.bounds[0] for a, b in pairwise(some))  # type: ignore[index]

    # ---------------------------------------------------------------- to disk and back

    def packed(self) -> tuple[dict[str, Any], Arrays]:
        """JSON and arrays."""
        entries = [[list(e.cursor), *list(vars(e).values())[1:-1], e.bounds and list(e.bounds)] for e in self.entries]
        header: dict[str, Any] = {"entries": entries, "level": self.level, "held": self.held is not None}
        arrays: Arrays = {}
        for name, pool in (("scored", self.scored), ("unscored", self.unscored)):
            if pool.pieces:
                (piece,) = pool.cut(2 * pool.limit).pieces
                arrays |= {f"{name}.{part}": to_numpy(value) for part, value in zip(PARTS, piece, strict=True)}
        if self.held is not None and self.held.pieces:
            arrays |= {f"held.{n}": to_numpy(value) for n, value in enumerate(self.held.joined())}
        return header, arrays


PARTS = ("numbers", "luck", "features")


@dataclass(frozen=True)
class Looking:
    """The job of looking.

    limit : rows that may serve as basis; held_bytes : of scored rows that are held
    all_unscored : whether scores play no part
    """

    limit: int
    seed: int
    held_bytes: int = field(default_factory=lambda: HELD_BYTES)
    all_unscored: bool = False
    first_number: int = 0  # rows before those of the scan

    def __call__(self, chunk: Chunk) -> Look:
        """Look at a chunk."""
        n = chunk.n_rows
        scored = np.zeros(n, dtype=bool)
        if not self.all_unscored and chunk.scores is not None:
            scored = ~np.isnan(to_numpy(chunk.scores))
        numbers = self.first_number + chunk.first_row + np.arange(n)
        with_score, without = np.flatnonzero(scored), np.flatnonzero(~scored)
        held, level = HeldScores(), 0.0
        if len(with_score):
            assert chunk.scores is not None
            scores = take(chunk.scores, with_score)
            level = float(namespace(scores).mean(scores))
            ids = chunk.runs.ids.view(np.int64)[chunk.runs.codes(n)[with_score]]
            held = HeldScores(((take(chunk.features, with_score), scores, ids, numbers[with_score]),))
        return Look(
            (Entry.of(chunk, scored),),
            Reservoir.of(
                self.limit, numbers[with_score], self.seed, lambda kept: take(chunk.features, with_score[kept])
            ),
            Reservoir.of(self.limit, numbers[without], self.seed, lambda kept: take(chunk.features, without[kept])),
            held if held.n_bytes <= self.held_bytes else None,
            level,
            self.held_bytes,
        )

    def digest(self) -> str:
        """What tells it from another look."""
        return repr(self)

    def unpacked(self, header: dict[str, Any], arrays: Arrays, reference: Array) -> Look:
        """What `Look.packed` gave, beside a reference."""
        pools = []
        for name in ("scored", "unscored"):
            found = [arrays.get(f"{name}.{part}") for part in PARTS]
            pieces = () if found[0] is None else ((found[0], found[1], _beside(found[2], reference)),)
            pools.append(Reservoir(self.limit, pieces))  # type: ignore[arg-type]
        held = HeldScores() if header["held"] else None
        if held is not None and "held.0" in arrays:
            X, y, ids, numbers = (arrays[f"held.{n}"] for n in range(4))
            held = HeldScores(((_beside(X, reference), like(y, reference), ids, numbers),))
        entries = tuple(Entry.unpacked(*values) for values in header["entries"])
        return Look(entries, pools[0], pools[1], held, header["level"], self.held_bytes)


def _beside(features: Any, reference: Array) -> Array:
    return like(features, reference, str(features.dtype))


@dataclass(frozen=True)
class SomeRows:
    """Some rows of a table of n_rows, under their numbers in it: features (n, d), numbers (n,) rising."""

    features: Array
    numbers: Index
    n_rows: int

    @property
    def shape(self) -> tuple[int, int]:
        """Of the table."""
        return self.n_rows, int(self.features.shape[1])

    def take_rows(self, rows: Any) -> Array:
        """Rows by their numbers in the table; only those that are here can be had."""
        asked = np.asarray(to_numpy(rows))
        at = np.minimum(np.searchsorted(self.numbers, asked), len(self.numbers) - 1)
        if np.any(self.numbers[at] != asked):
            missing = int(asked[np.argmax(self.numbers[at] != asked)])
            raise ValueError(f"basis holds row {missing}, which has no score: of a scan only scored rows can be named.")
        return take(self.features, at)


def look_at(scan: Scan, passes: Passes, looking: Looking, name: str, *, contiguous: bool) -> Look:
    """The first pass over a scan; `contiguous` refuses queries that come back."""
    look: Look = passes.run(scan, looking, f"look-{name}", f"looking at {name}")
    if contiguous and scan.has_queries and not look.rises:
        closed = ClosedQueries()
        with closing(scan.chunks(features=False)) as chunks:
            for chunk in chunks:
                closed.add(chunk.runs, chunk.place)
    return look


def held_rows(look: Look, *, with_queries: bool) -> tuple[SomeRows, Rows]:
    """The scored rows of a look that holds them, and the table they are from."""
    assert look.held is not None
    features, scores, ids, numbers = look.held.joined()
    codes, n_queries = first_appearance(ids)
    rows = Rows(
        features=features,
        scores=scores,
        queries=like(codes, scores, "int64") if with_queries else None,
        n_queries=n_queries if with_queries else 1,
        weights=None,
        index=like(numbers, scores, "int64"),
    )
    return SomeRows(features, numbers, look.n_rows), rows


@dataclass
class ScannedRows:
    """The rows of a scan without a score, or all of them where its scores play no part. A Part of `UnscoredRows`."""

    scan: Scan
    look: Look
    passes: Passes
    name: str
    every: bool = True
    with_queries: bool = True
    _passed: int = field(default=0, init=False)

    @property
    def n_rows(self) -> int:
        """Their number."""
        return self.look.n_rows - self.look.n_scored

    def sampled(self, size: int, seed: int) -> Reservoir:
        """At most `size` of them; drawn when they were looked at."""
        pool = self.look.unscored
        assert min(size, self.n_rows) <= pool.limit
        return pool.cut(size)

    def pieces(self) -> Iterator[Piece]:
        """Chunk by chunk, queries numbered through."""
        code, last = -1, None
        for chunk in self.scan.chunks():
            runs = chunk.runs
            rows: Any = np.arange(chunk.n_rows)
            if not self.every and chunk.scores is not None:
                rows = np.flatnonzero(np.isnan(to_numpy(chunk.scores)))
            if len(rows) == 0:
                continue
            own = runs.codes(chunk.n_rows)[rows]
            present, codes = np.unique(own, return_inverse=True)
            goes_on = last == int(runs.ids[present[0]])
            first = code if goes_on else code + 1
            yield Piece(take(chunk.features, rows), codes.astype(np.int64) + first if self.with_queries else 0 * codes)
            code, last = first + len(present) - 1, int(runs.ids[present[-1]])

    def summed(self, comparison: Loss, features: Any, size: int, columns: Sequence[Index] | None = None) -> Statistics:
        """The sums over them, in one pass."""
        job = Summing(comparison, features, size, "all" if self.every else "unscored", columns)
        self._passed += 1
        name = f"sums-{self.name}-{self._passed}"
        return self.passes.run(self.scan, job, name, f"summing {self.name}", self.look.n_rows).closed()  # type: ignore[no-any-return]
