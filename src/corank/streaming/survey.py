"""The first look at a scan: counts of every chunk, candidate rows for a basis, and the scored rows
where they are few.

Of Parquet files only score and query are read for the counts, then the features of the rows that
are needed; other files are read whole. Scored rows are held in memory as long as they are few; else
they are only counted, and summed in later passes.
"""

from __future__ import annotations

from collections.abc import Callable
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
from corank.core.observations import ScoredRows
from corank.core.sampling import label_draws, spread_places, uniform_draws
from corank.core.storable import storable
from corank.core.unscored import Reservoir
from corank.streaming.chunks import Chunk, ClosedQueries, Cursor
from corank.streaming.passes import Offsets, Passes
from corank.streaming.scan import Scan

NO_SCORES = "the scan has no scored row: its score column is empty."
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
    at_ends : rows of the queries at the ends
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
    at_ends: int = 0

    @classmethod
    def of(cls, chunk: Chunk, scored: Mask) -> ChunkCounts:
        """The counts of a chunk whose rows are `scored` (n,) or not."""
        runs = chunk.runs
        scored_runs = np.logical_or.reduceat(scored, runs.starts)
        return cls(
            cursor=chunk.cursor,
            rows=len(scored),
            scored=int(scored.sum()),
            runs=len(runs.starts),
            scored_runs=int(scored_runs.sum()),
            first=int(runs.ids[0]),
            last=int(runs.ids[-1]),
            first_scored=bool(scored_runs[0]),
            last_scored=bool(scored_runs[-1]),
            bounds=runs.bounds,
            at_ends=len(scored) - len(scored[runs.inner(len(scored))]),
        )


@storable("HeldScores")
@dataclass(frozen=True)
class RowPieces:
    """Rows in memory, piece by piece: features, and of scored rows scores, query ids and row
    numbers.
    """

    pieces: tuple[tuple[Array, ...], ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(features.shape[0] for features, *_ in self.pieces)

    def joined(self) -> tuple[Array, ...]:
        """What every piece has, of all rows."""
        columns = zip(*self.pieces, strict=True)
        return tuple(stack_rows(list(column)) for column in columns)

    def merged(self, other: RowPieces) -> RowPieces:
        """These rows and those that follow them."""
        return RowPieces((*self.pieces, *other.pieces))

    def cut(self) -> RowPieces:
        """Those that are kept."""
        return self

    def beside(self, reference: Array) -> RowPieces:
        """The rows as one piece, in the library and on the device of a reference."""
        if not self.pieces:
            return self
        features, *others = self.joined()
        features = like(features, reference, dtype_name(features))
        if others:
            others[0] = like(others[0], reference)  # the scores
        return replace(self, pieces=((features, *others),))


@storable("SampledRows")
@dataclass(frozen=True)
class SampledRows(RowPieces):
    """At most `limit` of the scored rows: those with the smallest draws, by row number or, so that
    queries stay whole, by query.

    bound : the draws of all rows that are kept are below it, those of all others are not
    """

    limit: int = 0
    seed: int = 0
    by_query: bool = False
    bound: float = 1.0

    def merged(self, other: RowPieces) -> SampledRows:
        """A sample of these rows and those that follow them."""
        assert isinstance(other, SampledRows)
        pieces = (*self.pieces, *other.pieces)
        return replace(self, pieces=pieces, bound=min(self.bound, other.bound)).cut()

    def cut(self) -> SampledRows:
        """The sample without what is beyond its limit."""
        if not self.pieces:
            return self
        columns = self.joined()
        *_, ids, numbers = columns
        draws = label_draws(ids, self.seed) if self.by_query else uniform_draws(numbers, self.seed)
        ordered = np.sort(draws)
        n_up_to = np.searchsorted(ordered, ordered, side="right")
        beyond = ordered[n_up_to > self.limit]
        bound = float(min([self.bound, *beyond[:1]]))
        kept = np.flatnonzero(draws < bound)
        piece = tuple(take(column, kept) for column in columns)
        return replace(self, pieces=(piece,), bound=bound)


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
    held: RowPieces | None
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

    @property
    def n_unscored(self) -> int:
        """Number of rows without a score."""
        return self.n_rows - self.n_scored

    def merged(self, other: Survey) -> Survey:
        """The survey of these rows and the rows that follow them."""
        held = None
        if self.held is not None and other.held is not None:
            both = self.held.merged(other.held)
            held = both if both.n_rows <= self.max_held else None
        level = self.level
        if other.n_scored:
            share = other.n_scored / (self.n_scored + other.n_scored)
            level = level + (other.level - level) * share
        return Survey(
            chunks=(*self.chunks, *other.chunks),
            scored=self.scored.merged(other.scored),
            unscored=self.unscored.merged(other.unscored),
            held=held,
            level=level,
            max_held=self.max_held,
        )

    def offsets(self) -> tuple[dict[Cursor, Offsets], int]:
        """Scored rows and scored queries before every chunk, and the number of queries with a
        score.
        """
        result: dict[Cursor, Offsets] = {}
        scored = queries = 0
        # the query at the end of the chunks so far, and whether it has a score
        open_id = None
        open_scored = False
        for chunk in self.chunks:
            goes_on = open_scored and chunk.first == open_id
            shared = goes_on and chunk.first_scored
            result[chunk.cursor] = Offsets(scored, queries - shared)
            scored += chunk.scored
            queries += chunk.scored_runs - shared
            open_id = chunk.last
            open_scored = chunk.last_scored or (goes_on and chunk.runs == 1)
        return result, queries

    @property
    def rises(self) -> bool:
        """Whether labels rise throughout, so that no query can come back."""
        bounds = [chunk.bounds for chunk in self.chunks]
        if None in bounds:
            return False
        return all(before[1] <= after[0] for before, after in pairwise(bounds))  # type: ignore[index]

    def beside(self, reference: Array) -> Survey:
        """The survey, in as few pieces as can be, in the library and on the device of a reference."""
        return replace(
            self,
            scored=self.scored.beside(reference),
            unscored=self.unscored.beside(reference),
            held=None if self.held is None else self.held.beside(reference),
        )

    def with_features(self, features: Callable[[Index], Array]) -> Survey:
        """The survey with the features of candidates and of held rows, by their numbers."""
        held = self.held
        if held is not None and held.pieces:
            _, *others, numbers = held.joined()
            held = replace(held, pieces=((features(numbers), *others, numbers),))
        return replace(
            self,
            scored=self.scored.with_features(features),
            unscored=self.unscored.with_features(features),
            held=held,
        )


@dataclass(frozen=True)
class SurveyJob:
    """The work of the first pass on each chunk; without features where only score and query are
    read.

    limit : number of rows that may serve as basis, scored and unscored each
    max_held : number of scored rows that are held
    unscored : whether unscored rows may serve as basis; all_unscored : whether scores are ignored
    first_number : number of the first row of the scan
    held : no rows; says how the scored rows are held
    """

    limit: int
    seed: int
    max_held: int
    unscored: bool = True
    all_unscored: bool = False
    first_number: int = 0
    held: RowPieces = RowPieces()

    def __call__(self, chunk: Chunk) -> Survey:
        """The survey of a chunk."""
        is_scored = chunk.is_scored & (not self.all_unscored)
        rows = np.flatnonzero(is_scored)
        held, level = self.held, 0.0
        if len(rows):
            scores = take(chunk.scores, rows)
            level = float(namespace(scores).mean(scores))
            features = take(chunk.features, rows)
            numbers = self._numbers(chunk, rows)
            held = replace(held, pieces=((features, scores, chunk.query_ids[rows], numbers),)).cut()
        return Survey(
            chunks=(ChunkCounts.of(chunk, is_scored),),
            scored=self._reservoir(chunk, is_scored),
            unscored=self._reservoir(chunk, ~is_scored & self.unscored),
            held=held if held.n_rows <= self.max_held else None,
            level=level,
            max_held=self.max_held,
        )

    def _numbers(self, chunk: Chunk, rows: Index) -> Index:
        return self.first_number + chunk.first_row + rows

    def _reservoir(self, chunk: Chunk, may_serve: Mask) -> Reservoir:
        if self.limit == 0:
            return Reservoir(0)
        rows = np.flatnonzero(may_serve)
        return Reservoir.of(
            self.limit,
            self._numbers(chunk, rows),
            self.seed,
            lambda kept: take(chunk.features, rows[kept]),
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
    first, first_job = scan, job
    is_large = scan.finds_rows and (scan.n_rows or 0) > MAX_EVEN_ROWS
    if scan.finds_rows:
        first = scan.without_features(score=not job.all_unscored, query=contiguous)
    if is_large:
        first_job = replace(job, limit=0)
    survey: Survey = passes.run(first, first_job, f"look-{name}", f"looking at {name}")
    if contiguous and scan.has_queries and not survey.rises:
        closed = ClosedQueries()  # which refuses a query that comes back after others
        with closing(scan.without_features().chunks()) as chunks:
            for chunk in chunks:
                closed.add(chunk.runs, chunk.place)
    if is_large:
        survey = _with_spread_candidates(survey, first, job)
    if not scan.finds_rows:
        return survey
    # made without features: those of the candidates and of the rows that it holds are read now
    numbers = [survey.scored.rows()[0], survey.unscored.rows()[0]]
    if survey.held is not None and survey.held.pieces:
        numbers.append(survey.held.joined()[-1])
    wanted = np.unique(np.concatenate(numbers))
    if len(wanted) == 0:
        return survey
    rows = scan.picking(wanted - job.first_number)
    pick, what = PickJob(digest(wanted)), f"reading rows of {name}"
    picked: RowPieces = passes.run(rows, pick, f"rows-{name}", what, len(wanted))
    [features] = picked.joined()
    return survey.with_features(lambda some: take(features, np.searchsorted(wanted, some)))


def _with_spread_candidates(survey: Survey, scan: Scan, job: SurveyJob) -> Survey:
    """The survey of a large scan with candidates from a few stretches of it, their features still
    missing.
    """

    def spread(count: int, *, scored: bool, wanted: bool) -> Reservoir:
        if not wanted:
            return Reservoir(job.limit)
        numbers = job.first_number + _spread_rows(survey, scan, job, scored=scored)
        if len(numbers) == 0:
            return Reservoir(job.limit)
        # as if the smallest of all rows: a cut of several reservoirs takes from each by the rows
        # behind it
        n = len(numbers)
        draws = np.random.default_rng([job.seed, count]).random(n) * (n / count)
        return Reservoir(job.limit, ((numbers, draws, np.empty((n, 0))),))

    return replace(
        survey,
        scored=spread(survey.n_scored, scored=True, wanted=survey.held is None),
        unscored=spread(survey.n_unscored, scored=False, wanted=job.unscored),
    )


def _spread_rows(survey: Survey, scan: Scan, job: SurveyJob, *, scored: bool) -> Index:
    """Row numbers in the scan of candidates out of the scored, or unscored, rows: from a few
    stretches of them.
    """
    rows = np.asarray([chunk.rows for chunk in survey.chunks])
    sizes = np.asarray([chunk.scored for chunk in survey.chunks])
    sizes = sizes if scored else rows - sizes
    ends = np.cumsum(sizes)
    row_ends = np.cumsum(rows)
    count = int(ends[-1])
    width = WINDOW_ROWS * count // survey.n_rows
    ranks = spread_places(count, min(job.limit, count), job.seed, width)
    numbers = [np.zeros(0, dtype=np.int64)]
    positions = np.unique(np.searchsorted(ends, ranks, side="right"))
    for position in positions.tolist():
        end, chunk = ends[position], survey.chunks[position]
        first = end - sizes[position]
        low, high = np.searchsorted(ranks, (first, end))
        places = ranks[low:high] - first
        if sizes[position] < chunk.rows:
            unit, n_chunks = chunk.cursor
            with closing(scan.unit_chunks(unit, skipped=n_chunks - 1)) as chunks:
                places = np.flatnonzero(next(chunks).is_scored == scored)[places]
        numbers.append(row_ends[position] - chunk.rows + places)
    return np.concatenate(numbers)


@dataclass(frozen=True)
class PickJob:
    """Takes the features of the rows that a scan picks; `rows` stands for their numbers."""

    rows: str

    def __call__(self, chunk: Chunk) -> RowPieces:
        """The features of a chunk."""
        return RowPieces(((chunk.features,),))

    def digest(self) -> str:
        """A text that differs between picks of different rows."""
        return self.rows


def scored_rows(survey: Survey, *, with_queries: bool) -> ScoredRows | None:
    """The scored rows that a survey holds, as rows to learn from; None where it holds none."""
    if survey.held is None:
        return None
    features, scores, ids, numbers = survey.held.joined()
    codes, n_queries = first_appearance(ids)
    return ScoredRows(
        features=features,
        scores=scores,
        queries=like(codes, scores, "int64") if with_queries else None,
        n_queries=n_queries if with_queries else 1,
        weights=None,
        index=like(numbers, scores, "int64"),
    )
