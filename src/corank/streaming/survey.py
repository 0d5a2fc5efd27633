"""The first pass over a scan: counts of every chunk, candidate rows for a basis, and the scored rows where they are few.

Scored rows are held in memory as long as they are few; else they are only counted, and summed in later passes.
`ScannedRows` are the unscored rows of a scan, summed pass by pass.
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
from corank.streaming.sums import Offsets, SumJob
from corank.unscored import Piece, Reservoir, stack_rows

HELD_BYTES = 2**27  # of the features of scored rows, at most, that are held in memory
RESERVOIR_ARRAYS = ("numbers", "draws", "features")  # their names in a checkpoint


@dataclass(frozen=True)
class ChunkCounts:
    """Counts of one chunk.

    runs, scored_runs : number of queries, and of queries with a score
    first, last : ids of the queries at the ends; first_scored, last_scored : whether those have a score here
    bounds : the labels at the ends where labels rise from run to run
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
    def of(cls, chunk: Chunk, scored: np.ndarray[Any, np.dtype[np.bool_]]) -> ChunkCounts:
        """The counts of a chunk whose rows are `scored` (n,) or not."""
        runs = chunk.runs
        scored_runs = np.logical_or.reduceat(scored, runs.starts) if len(scored) else np.zeros(1, dtype=bool)
        first, last = (int(runs.ids[0]), int(runs.ids[-1])) if len(scored) else (0, 0)
        return cls(
            cursor=chunk.cursor,
            rows=len(scored),
            scored=int(scored.sum()),
            runs=len(runs.starts),
            scored_runs=int(scored_runs.sum()),
            first=first,
            last=last,
            first_scored=bool(scored_runs[0]),
            last_scored=bool(scored_runs[-1]),
            bounds=runs.bounds,
        )

    def packed(self) -> list[Any]:
        """The counts as JSON."""
        return [list(value) if isinstance(value, tuple) else value for value in vars(self).values()]

    @classmethod
    def unpacked(cls, values: Sequence[Any]) -> ChunkCounts:
        """The counts from their JSON."""
        arguments: list[Any] = [tuple(value) if isinstance(value, list) else value for value in values]
        return cls(*arguments)


@dataclass(frozen=True)
class HeldScores:
    """Scored rows in memory: pieces of features, scores, query ids and row numbers."""

    pieces: tuple[tuple[Array, Array, Index, Index], ...] = ()

    @property
    def n_bytes(self) -> int:
        """Size of the features in memory."""
        return sum(int(X.shape[0]) * int(X.shape[1]) * 8 for X, *_ in self.pieces)

    def joined(self) -> tuple[Array, Array, Index, Index]:
        """Features, scores, query ids and row numbers of all pieces."""
        X, y, ids, numbers = zip(*self.pieces, strict=True)
        return stack_rows(list(X)), namespace(y[0]).concat(list(y)), np.concatenate(ids), np.concatenate(numbers)


@dataclass(frozen=True)
class Survey:
    """The result of the first pass, for rows that follow each other.

    chunks : counts of every chunk, in order
    scored, unscored : rows that may serve as basis
    held : the scored rows, None where they are too many
    level : mean of the scores
    """

    chunks: tuple[ChunkCounts, ...]
    scored: Reservoir
    unscored: Reservoir
    held: HeldScores | None
    level: float = 0.0
    held_bytes: int = HELD_BYTES

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(chunk.rows for chunk in self.chunks)

    @property
    def n_scored(self) -> int:
        """Number of rows with a score."""
        return sum(chunk.scored for chunk in self.chunks)

    def merged(self, other: Survey) -> Survey:
        """The survey of these rows and the rows that follow them."""
        held = None
        if self.held is not None and other.held is not None:
            held = HeldScores((*self.held.pieces, *other.held.pieces))
            held = held if held.n_bytes <= self.held_bytes else None
        n, m = self.n_scored, other.n_scored
        return Survey(
            (*self.chunks, *other.chunks),
            self.scored.merged(other.scored),
            self.unscored.merged(other.unscored),
            held,
            self.level + (other.level - self.level) * (m / (n + m) if m else 0.0),
            self.held_bytes,
        )

    def offsets(self) -> tuple[dict[Cursor, Offsets], int]:
        """Rows, scored rows and scored queries before every chunk, and the number of queries with a score."""
        result: dict[Cursor, Offsets] = {}
        rows = scored = queries = 0
        open_id, open_scored = None, False  # the query at the end of the chunks so far
        for chunk in self.chunks:
            goes_on = chunk.rows > 0 and chunk.first == open_id
            shared = goes_on and open_scored and chunk.first_scored
            result[chunk.cursor] = Offsets(rows, scored, queries - shared)
            rows += chunk.rows
            scored += chunk.scored
            queries += chunk.scored_runs - shared
            if chunk.rows:
                through = goes_on and chunk.runs == 1 and open_scored
                open_id, open_scored = chunk.last, chunk.last_scored or through
        return result, queries

    @property
    def n_queries(self) -> int:
        """Number of queries, scored or not."""
        filled = [chunk for chunk in self.chunks if chunk.rows]
        return sum(chunk.runs for chunk in filled) - sum(a.last == b.first for a, b in pairwise(filled))

    @property
    def rises(self) -> bool:
        """Whether labels rise throughout, so that no query can come back."""
        bounds = [chunk.bounds for chunk in self.chunks if chunk.rows]
        if None in bounds:
            return False
        return all(before[1] <= after[0] for before, after in pairwise(bounds))  # type: ignore[index]

    def packed(self) -> tuple[dict[str, Any], Arrays]:
        """The survey as JSON and arrays."""
        chunks = [chunk.packed() for chunk in self.chunks]
        header: dict[str, Any] = {"chunks": chunks, "level": self.level, "held": self.held is not None}
        arrays: Arrays = {}
        for name, reservoir in (("scored", self.scored), ("unscored", self.unscored)):
            if reservoir.pieces:
                (piece,) = reservoir.cut(2 * reservoir.limit).pieces
                names = [f"{name}.{array}" for array in RESERVOIR_ARRAYS]
                arrays |= dict(zip(names, map(to_numpy, piece), strict=True))
        if self.held is not None and self.held.pieces:
            arrays |= {f"held.{number}": to_numpy(array) for number, array in enumerate(self.held.joined())}
        return header, arrays


@dataclass(frozen=True)
class SurveyJob:
    """The work of the first pass on each chunk.

    limit : number of rows that may serve as basis, scored and unscored each
    held_bytes : of the features of scored rows that are held
    all_unscored : whether scores are ignored
    first_number : number of the first row of the scan
    """

    limit: int
    seed: int
    held_bytes: int = field(default_factory=lambda: HELD_BYTES)
    all_unscored: bool = False
    first_number: int = 0

    def __call__(self, chunk: Chunk) -> Survey:
        """The survey of a chunk."""
        n = chunk.n_rows
        is_scored = np.zeros(n, dtype=bool)
        if not self.all_unscored and chunk.scores is not None:
            is_scored = ~np.isnan(to_numpy(chunk.scores))
        numbers = self.first_number + chunk.first_row + np.arange(n)
        scored = np.flatnonzero(is_scored)
        held, level = HeldScores(), 0.0
        if len(scored):
            assert chunk.scores is not None
            scores = take(chunk.scores, scored)
            level = float(namespace(scores).mean(scores))
            ids = chunk.runs.ids.view(np.int64)[chunk.runs.codes(n)[scored]]
            held = HeldScores(((take(chunk.features, scored), scores, ids, numbers[scored]),))
        return Survey(
            (ChunkCounts.of(chunk, is_scored),),
            self._reservoir(chunk, numbers, scored),
            self._reservoir(chunk, numbers, np.flatnonzero(~is_scored)),
            held if held.n_bytes <= self.held_bytes else None,
            level,
            self.held_bytes,
        )

    def _reservoir(self, chunk: Chunk, numbers: Index, rows: Index) -> Reservoir:
        return Reservoir.of(self.limit, numbers[rows], self.seed, lambda kept: take(chunk.features, rows[kept]))

    def digest(self) -> str:
        """A text that differs between surveys with different results."""
        return repr(self)

    def unpacked(self, header: dict[str, Any], arrays: Arrays, reference: Array) -> Survey:
        """A survey from its JSON and arrays, in the library and on the device of a reference."""
        reservoirs = []
        for name in ("scored", "unscored"):
            pieces: tuple[Any, ...] = ()
            if f"{name}.numbers" in arrays:
                numbers, draws, features = (arrays[f"{name}.{array}"] for array in RESERVOIR_ARRAYS)
                pieces = ((numbers, draws, like(features, reference, str(features.dtype))),)
            reservoirs.append(Reservoir(self.limit, pieces))
        held = HeldScores() if header["held"] else None
        if held is not None and "held.0" in arrays:
            X, y, ids, numbers = (arrays[f"held.{number}"] for number in range(4))
            held = HeldScores(((like(X, reference, str(X.dtype)), like(y, reference), ids, numbers),))
        chunks = tuple(ChunkCounts.unpacked(values) for values in header["chunks"])
        return Survey(chunks, reservoirs[0], reservoirs[1], held, header["level"], self.held_bytes)


@dataclass(frozen=True)
class NumberedRows:
    """The rows of a table of `n_rows` that are in memory: features (n, d), numbers (n,) in the table, rising."""

    features: Array
    numbers: Index
    n_rows: int

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the whole table."""
        return self.n_rows, int(self.features.shape[1])

    def take_rows(self, rows: Any) -> Array:
        """Rows by their numbers in the table; others than those in memory are refused."""
        asked = np.asarray(to_numpy(rows))
        positions = np.minimum(np.searchsorted(self.numbers, asked), len(self.numbers) - 1)
        missing = self.numbers[positions] != asked
        if np.any(missing):
            row = int(asked[np.argmax(missing)])
            raise ValueError(f"basis holds row {row}, which has no score: of a scan only scored rows can be named.")
        return take(self.features, positions)


def run_survey(scan: Scan, passes: Passes, job: SurveyJob, name: str, *, contiguous: bool) -> Survey:
    """The first pass over a scan; `contiguous` refuses queries that come back."""
    survey: Survey = passes.run(scan, job, f"look-{name}", f"looking at {name}")
    if contiguous and scan.has_queries and not survey.rises:
        closed = ClosedQueries()
        with closing(scan.chunks(features=False)) as chunks:
            for chunk in chunks:
                closed.add(chunk.runs, chunk.place)
    return survey


def held_rows(survey: Survey, *, with_queries: bool) -> tuple[NumberedRows, Rows]:
    """The scored rows that a survey holds: as rows of the table that was scanned, and as rows to learn from."""
    assert survey.held is not None
    features, scores, ids, numbers = survey.held.joined()
    codes, n_queries = first_appearance(ids)
    rows = Rows(
        features=features,
        scores=scores,
        queries=like(codes, scores, "int64") if with_queries else None,
        n_queries=n_queries if with_queries else 1,
        weights=None,
        index=like(numbers, scores, "int64"),
    )
    return NumberedRows(features, numbers, survey.n_rows), rows


@dataclass
class ScannedRows:
    """The unscored rows of a scan, or all of them where scores are ignored: a `Part` of `UnscoredRows`."""

    scan: Scan
    survey: Survey
    passes: Passes
    name: str
    every: bool = True
    with_queries: bool = True
    _passed: int = field(default=0, init=False)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.survey.n_rows - self.survey.n_scored

    def sampled(self, size: int, seed: int) -> Reservoir:
        """At most `size` rows, drawn by row number in the first pass."""
        reservoir = self.survey.unscored
        assert min(size, self.n_rows) <= reservoir.limit
        return reservoir.cut(size)

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
            present, codes = np.unique(runs.codes(chunk.n_rows)[rows], return_inverse=True)
            goes_on = last == int(runs.ids[present[0]])
            first = code if goes_on else code + 1
            yield Piece(take(chunk.features, rows), codes.astype(np.int64) + first if self.with_queries else 0 * codes)
            code, last = first + len(present) - 1, int(runs.ids[present[-1]])

    def summed(self, comparison: Loss, features: Any, size: int, columns: Sequence[Index] | None = None) -> Statistics:
        """The sums over the rows, in one pass."""
        job = SumJob(comparison, features, size, "all" if self.every else "unscored", columns)
        self._passed += 1
        name = f"sums-{self.name}-{self._passed}"
        return self.passes.run(self.scan, job, name, f"summing {self.name}", self.survey.n_rows).closed()  # type: ignore[no-any-return]
