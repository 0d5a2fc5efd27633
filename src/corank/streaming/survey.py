"""The first look at a scan: counts of every chunk, candidate rows for a basis, and the scored rows
where they are few.

Of Parquet files only score and query are read for the counts, then the features of the rows that
are needed; other files are read whole. Scored rows are held in memory as long as they are few; else
they are only counted, and summed in later passes.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from corank.core.arrays import (
    Array,
    Index,
    Mask,
    digest,
    dtype_name,
    first_appearance,
    like,
    namespace,
    stack_rows,
    take,
    to_numpy,
)
from corank.core.observations import Rows
from corank.core.sampling import spread_places, uniform_draws
from corank.core.storable import storable
from corank.core.unscored import Reservoir
from corank.streaming.chunks import Chunk, ClosedQueries, Cursor
from corank.streaming.passes import Passes
from corank.streaming.scan import Scan
from corank.streaming.sums import Offsets

HELD_BYTES = 2**27  # of the features of scored rows, at most, that are held in memory
# of Parquet files that candidates are drawn from evenly; those of more lie in few stretches
MAX_EVEN_ROWS = 2**20
WINDOW_ROWS = 2**13  # of such a stretch: more of them would lie in two row groups


@storable("ChunkCounts")
@dataclass(frozen=True)
class ChunkCounts:
    """Counts of one chunk.

    runs, scored_runs : number of queries, and of queries with a score
    first, last : ids of the queries at the ends; first_scored, last_scored : whether those have a
        score here
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
    def of(cls, chunk: Chunk, scored: Mask) -> ChunkCounts:
        """The counts of a chunk whose rows are `scored` (n,) or not."""
        runs = chunk.runs
        scored_runs = (
            np.logical_or.reduceat(scored, runs.starts) if len(scored) else np.zeros(1, dtype=bool)
        )
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


@storable("HeldScores")
@dataclass(frozen=True)
class HeldScores:
    """Scored rows in memory: pieces of features, scores, query ids and row numbers."""

    pieces: tuple[tuple[Array, Array, Index, Index], ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(len(numbers) for *_, numbers in self.pieces)

    def joined(self) -> tuple[Array, Array, Index, Index]:
        """Features, scores, query ids and row numbers of all pieces."""
        X, y, ids, numbers = zip(*self.pieces, strict=True)
        return (
            stack_rows(list(X)),
            namespace(y[0]).concat(list(y)),
            np.concatenate(ids),
            np.concatenate(numbers),
        )


@storable("Survey")
@dataclass(frozen=True)
class Survey:
    """The result of the first pass, for rows that follow each other.

    chunks : counts of every chunk, in order
    scored, unscored : rows that may serve as basis
    held : the scored rows, None where they are more than `max_held`
    level : mean of the scores
    """

    chunks: tuple[ChunkCounts, ...]
    scored: Reservoir
    unscored: Reservoir
    held: HeldScores | None
    level: float
    max_held: int

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
            held = held if held.n_rows <= self.max_held else None
        n, m = self.n_scored, other.n_scored
        return Survey(
            (*self.chunks, *other.chunks),
            self.scored.merged(other.scored),
            self.unscored.merged(other.unscored),
            held,
            self.level + (other.level - self.level) * (m / (n + m) if m else 0.0),
            self.max_held,
        )

    def offsets(self) -> tuple[dict[Cursor, Offsets], int]:
        """Rows, scored rows and scored queries before every chunk, and the number of queries with a
        score.
        """
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
        return sum(chunk.runs for chunk in filled) - sum(
            a.last == b.first for a, b in pairwise(filled)
        )

    @property
    def rises(self) -> bool:
        """Whether labels rise throughout, so that no query can come back."""
        bounds = [chunk.bounds for chunk in self.chunks if chunk.rows]
        if None in bounds:
            return False
        return all(before[1] <= after[0] for before, after in pairwise(bounds))  # type: ignore[index]

    def beside(self, reference: Array) -> Survey:
        """The survey, in as few pieces as can be, in the library and on the device of a reference."""
        held = self.held
        if held is not None and held.pieces:
            X, y, ids, numbers = held.joined()
            held = HeldScores(
                ((like(X, reference, dtype_name(X)), like(y, reference), ids, numbers),)
            )
        scored, unscored = (
            reservoir.beside(reference) for reservoir in (self.scored, self.unscored)
        )
        return replace(self, scored=scored, unscored=unscored, held=held)


@dataclass(frozen=True)
class SurveyJob:
    """The work of the first pass on each chunk; without features where only score and query are
    read.

    limit : number of rows that may serve as basis, scored and unscored each
    max_held : number of scored rows that are held
    unscored : whether unscored rows may serve as basis; all_unscored : whether scores are ignored
    first_number : number of the first row of the scan
    """

    limit: int
    seed: int
    max_held: int
    unscored: bool = True
    all_unscored: bool = False
    first_number: int = 0

    def __call__(self, chunk: Chunk) -> Survey:
        """The survey of a chunk."""
        is_scored = chunk.is_scored & (not self.all_unscored)
        scored = np.flatnonzero(is_scored)
        held, level = HeldScores(), 0.0
        if len(scored):
            assert chunk.scores is not None
            scores = take(chunk.scores, scored)
            level = float(namespace(scores).mean(scores))
            ids = chunk.runs.ids.view(np.int64)[chunk.runs.codes(chunk.n_rows)[scored]]
            numbers = self.first_number + chunk.first_row + scored
            held = HeldScores(((take(chunk.features, scored), scores, ids, numbers),))
        return Survey(
            (ChunkCounts.of(chunk, is_scored),),
            self._reservoir(chunk, is_scored),
            self._reservoir(chunk, ~is_scored & self.unscored),
            held if held.n_rows <= self.max_held else None,
            level,
            self.max_held,
        )

    def _reservoir(self, chunk: Chunk, may_serve: Mask) -> Reservoir:
        if self.limit == 0:
            return Reservoir(0)
        rows = np.flatnonzero(may_serve)
        numbers = self.first_number + chunk.first_row + rows
        return Reservoir.of(
            self.limit, numbers, self.seed, lambda kept: take(chunk.features, rows[kept])
        )

    def digest(self) -> str:
        """A text that differs between surveys with different results."""
        return repr(self)


@dataclass(frozen=True)
class NumberedRows:
    """The rows of a table of `n_rows` that are in memory: features (n, d), numbers (n,) in the
    table, rising.
    """

    features: Array
    numbers: Index
    n_rows: int

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the whole table."""
        return self.n_rows, self.features.shape[1]

    def take_rows(self, rows: Any) -> Array:
        """Rows by their numbers in the table; others than those in memory are refused."""
        asked = to_numpy(rows)
        positions = np.minimum(np.searchsorted(self.numbers, asked), len(self.numbers) - 1)
        missing = self.numbers[positions] != asked
        if np.any(missing):
            row = int(asked[np.argmax(missing)])
            raise ValueError(
                f"basis holds row {row}, which has no score: of a scan only scored rows can be"
                " named."
            )
        return take(self.features, positions)


def max_held_rows(n_features: int) -> int:
    """Scored rows that are held in memory, at most."""
    return HELD_BYTES // (8 * max(n_features, 1))


def run_survey(
    scan: Scan, passes: Passes, job: SurveyJob, name: str, *, contiguous: bool
) -> Survey:
    """The first look at a scan; `contiguous` refuses queries that come back."""
    seen, first_job = scan, job
    if scan.finds_rows:
        seen = scan.without_features(score=not job.all_unscored, query=contiguous)
        first_job = replace(job, limit=0) if (scan.n_rows or 0) > MAX_EVEN_ROWS else job
    survey: Survey = passes.run(seen, first_job, f"look-{name}", f"looking at {name}")
    if contiguous and scan.has_queries and not survey.rises:
        closed = ClosedQueries()
        with closing(scan.without_features().chunks()) as chunks:
            for chunk in chunks:
                closed.add(chunk.runs, chunk.place)
    return survey if seen is scan else _with_features(survey, scan, seen, passes, job, name)


def _with_features(
    survey: Survey, scan: Scan, seen: Scan, passes: Passes, job: SurveyJob, name: str
) -> Survey:
    """A survey that was made without features, with those of the candidates and of the rows that it
    holds.
    """
    scored, unscored = survey.scored.rows()[0], survey.unscored.rows()[0]
    n_scored, n_unscored = survey.n_scored, survey.n_rows - survey.n_scored
    if survey.n_rows > MAX_EVEN_ROWS:
        scored, unscored = (
            (
                job.first_number + _spread_rows(survey, seen, job, is_scored)
                if wanted
                else np.zeros(0, dtype=np.int64)
            )
            for is_scored, wanted in ((True, survey.held is None), (False, job.unscored))
        )
    held = None if survey.held is None or not survey.held.pieces else survey.held.joined()
    wanted = np.unique(np.concatenate([scored, unscored, *([] if held is None else [held[3]])]))
    if len(wanted) == 0:
        return survey
    rows = scan.picking(wanted - job.first_number)
    job_of_rows, what = PickJob(digest(wanted)), f"reading rows of {name}"
    features = passes.run(rows, job_of_rows, f"rows-{name}", what, len(wanted)).joined()

    def at(numbers: Index) -> Array:
        return take(features, np.searchsorted(wanted, numbers))

    def reservoir(numbers: Index, count: int) -> Reservoir:
        if len(numbers) == 0:
            return Reservoir(job.limit)
        if survey.n_rows <= MAX_EVEN_ROWS:
            draws = uniform_draws(numbers, job.seed)
        # as if the smallest of all rows: a cut of several reservoirs takes from each by the rows
        # behind it
        else:
            draws = np.random.default_rng([job.seed, count]).random(len(numbers)) * (
                len(numbers) / count
            )
        return Reservoir(job.limit, ((numbers, draws, at(numbers)),))

    return replace(
        survey,
        scored=reservoir(scored, n_scored),
        unscored=reservoir(unscored, n_unscored),
        held=survey.held if held is None else HeldScores(((at(held[3]), *held[1:]),)),
    )


def _spread_rows(survey: Survey, seen: Scan, job: SurveyJob, scored: bool) -> Index:
    """Row numbers in the scan of candidates out of the scored, or unscored, rows: from a few
    stretches of them.
    """
    sizes = np.asarray(
        [chunk.scored if scored else chunk.rows - chunk.scored for chunk in survey.chunks]
    )
    ends = np.cumsum(sizes)
    count = int(ends[-1])
    width = WINDOW_ROWS * count // survey.n_rows
    ranks = spread_places(count, min(job.limit, count), job.seed, width)
    begins = np.cumsum([0, *(chunk.rows for chunk in survey.chunks)])
    numbers = []
    for position in np.unique(np.searchsorted(ends, ranks, side="right")).tolist():
        chunk, first = survey.chunks[position], int(ends[position] - sizes[position])
        places = (
            ranks[slice(*np.searchsorted(ranks, (first, first + int(sizes[position]))))] - first
        )
        if sizes[position] < chunk.rows:
            unit, end = chunk.cursor
            with closing(seen.unit_chunks(unit, skipped=end - 1)) as chunks:
                places = np.flatnonzero(next(chunks).is_scored == scored)[places]
        numbers.append(begins[position] + places)
    return np.concatenate([np.zeros(0, dtype=np.int64), *numbers])


@storable("PickedRows")
@dataclass(frozen=True)
class PickedRows:
    """Features of rows that were picked, in the order of their numbers, piece by piece."""

    pieces: tuple[Array, ...]

    def merged(self, other: PickedRows) -> PickedRows:
        """The features of these rows and of those that follow them."""
        return PickedRows((*self.pieces, *other.pieces))

    def joined(self) -> Array:
        """The features of all rows: (n, d)."""
        return stack_rows(list(self.pieces))

    def beside(self, reference: Array) -> PickedRows:
        """The features as one piece, in the library and on the device of a reference."""
        features = self.joined()
        return PickedRows((like(features, reference, dtype_name(features)),))


@dataclass(frozen=True)
class PickJob:
    """Takes the features of the rows that a scan picks; `rows` stands for their numbers."""

    rows: str

    def __call__(self, chunk: Chunk) -> PickedRows:
        """The features of a chunk."""
        return PickedRows((chunk.features,))

    def digest(self) -> str:
        """A text that differs between picks of different rows."""
        return self.rows


def scored_rows(survey: Survey, *, with_queries: bool) -> Rows | None:
    """The scored rows that a survey holds, as rows to learn from; None where it holds none."""
    if survey.held is None:
        return None
    features, scores, ids, numbers = survey.held.joined()
    codes, n_queries = first_appearance(ids)
    return Rows(
        features=features,
        scores=scores,
        queries=like(codes, scores, "int64") if with_queries else None,
        n_queries=n_queries if with_queries else 1,
        weights=None,
        index=like(numbers, scores, "int64"),
    )
