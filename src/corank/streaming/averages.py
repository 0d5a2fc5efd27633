"""Averages of models over more scored rows than memory: they are weighed by a sample of the rows, and
fitted from sums in one pass over all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import sparse

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    digest,
    first_appearance,
    run_starts,
    stack_rows,
    take,
)
from corank.core.loss import Loss
from corank.core.storable import storable
from corank.core.sums import Statistics
from corank.inputs import as_numbers
from corank.learners.average.coefficients import PointFeatures
from corank.learners.average.encoding import WITHIN_QUERIES, Encoding, block_encoder
from corank.learners.average.scored_table import ScoredTable
from corank.learners.average.similarity import Encoded
from corank.model_files.container import Packer
from corank.streaming.chunks import Chunk, Place, Runs
from corank.streaming.passes import JointSumJob, JointSums, Passes, SumJob
from corank.streaming.scan import Scan
from corank.streaming.survey import (
    NO_SCORES,
    RowPieces,
    SampledRows,
    Survey,
    SurveyJob,
    max_held_rows,
    run_survey,
)

SAMPLE_ROWS = 20_000  # scored rows at most, and unscored ones, from which an average is learned
MAX_POINTS = 2_000  # of a function: sums take 32 MB each, of which there are three per model
WIDE_COLUMNS, SPARSE_SHARE = 1_000, 0.1  # beyond, with so few entries that are not 0, rows are CSR
FEWEST_QUERIES = 8  # a sample of fewer is one of single rows instead


@dataclass(frozen=True)
class SampledScan:
    """A scan of which a sample was read."""

    scan: Scan
    passes: Passes
    survey: Survey

    @classmethod
    def of(cls, scan: Scan, passes: Passes, seed: int) -> SampledScan:
        """A sample of whole queries; of single rows where there are none, or few large ones."""
        scan = replace(scan, device=None)
        sampled = cls(scan, passes, _sampled(scan, passes, seed, by_query=scan.has_queries))
        if sampled.survey.n_scored == 0:
            raise ValueError(NO_SCORES)
        few = scan.has_queries and not sampled.is_whole
        if few and len(np.unique(sampled._held[2])) < FEWEST_QUERIES:
            return cls(scan, passes, _sampled(scan, passes, seed, by_query=False))
        return sampled

    @property
    def _held(self) -> tuple[Array, ...]:
        assert self.survey.held is not None
        return self.survey.held.joined()

    @property
    def is_whole(self) -> bool:
        """Whether all scored rows are in the sample."""
        assert self.survey.held is not None
        return self.survey.held.n_rows == self.survey.n_scored

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Rows, those with a score and those without, and queries with a score."""
        survey = self.survey
        n_queries = survey.offsets()[1] if self.scan.has_queries else 1
        return survey.n_rows, survey.n_scored, survey.n_unscored, n_queries

    @property
    def is_by_query(self) -> bool:
        """Whether the sample has whole queries."""
        held = self.survey.held
        return isinstance(held, SampledRows) and held.by_query

    @property
    def has_whole_queries(self) -> bool:
        """Whether columns may be compared within queries, of which those fit into memory that chunks
        may cut.
        """
        at_ends = sum(chunk.at_ends for chunk in self.survey.chunks)
        return self.is_by_query and at_ends <= max_held_rows(self.scan.n_features)

    @cached_property
    def is_sparse(self) -> bool:
        """Whether rows become CSR: columns are many, and most entries 0."""
        features = self._held[0]
        is_wide = features.shape[1] > WIDE_COLUMNS
        return bool(is_wide and np.count_nonzero(features) <= SPARSE_SHARE * features.size)

    @cached_property
    def table(self) -> ScoredTable:
        """The sample: scored rows, then unscored ones, each in a query of its own."""
        features, scores, ids, numbers = self._held
        unscored = self.survey.unscored.rows()[1]
        if unscored is not None:
            features = stack_rows([features, unscored])
        n_scored, n = len(scores), features.shape[0]
        queries = None
        if self.scan.has_queries:
            codes, n_queries = first_appearance(ids)
            queries = np.concatenate([codes, n_queries + np.arange(n - n_scored)])
        features = as_numbers(features)
        return ScoredTable(
            sparse.csr_array(features) if self.is_sparse else features,
            np.concatenate([scores, np.full(n - n_scored, np.nan)]),
            queries,
            all_rows=None if self.is_whole else partial(RowsOfSums, self),
            numbers=np.concatenate([numbers, np.full(n - n_scored, -1)]),
        )


def _sampled(scan: Scan, passes: Passes, seed: int, *, by_query: bool) -> Survey:
    limit = min(SAMPLE_ROWS, max_held_rows(scan.n_features))
    held = SampledRows(limit=limit, seed=seed, by_query=by_query)
    job = SurveyJob(limit, seed, limit, held=held)
    return run_survey(scan, passes, job, "X" if by_query else "X-by-rows", contiguous=True)


@dataclass(frozen=True)
class RowsOfSums:
    """All scored rows of a scan, encoded as a sample of them says."""

    sampled: SampledScan
    encodings: Sequence[Encoding]

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return self.sampled.survey.n_scored

    @property
    def most_points(self) -> int:
        """As many as sums, some of which are merged at a time, have room for."""
        return MAX_POINTS

    @property
    def has_whole_folds(self) -> bool:
        """Whether the sample has whole queries."""
        return self.sampled.is_by_query or not self.sampled.scan.has_queries

    def summed(
        self, features: Sequence[PointFeatures], loss: Loss, level: float
    ) -> list[Statistics]:
        """The sums of all feature maps, in one pass."""
        sampled = self.sampled
        names = {name for each in features for name in each.names}
        used = [encoding for encoding in self.encodings if encoding.name in names]
        job = PointSumJob(features, used, loss, level, is_csr=sampled.is_sparse)
        found: PointSums = sampled.passes.run(
            sampled.scan, job, "sums-scored", "summing scored rows", sampled.survey.n_rows
        )
        sums = found.joint
        if found.cut.n_rows:
            sums = sums.merged(job.of_rows(*found.cut.joined()))
        return [spans.closed() for spans in sums.sums]


@storable("PointSums")
@dataclass(frozen=True)
class PointSums:
    """Sums of every candidate, and the scored rows of queries that chunks may cut, where columns are
    compared within queries.
    """

    joint: JointSums
    cut: RowPieces

    def merged(self, other: PointSums) -> PointSums:
        """The sums over these rows and the rows that follow them."""
        return PointSums(self.joint.merged(other.joint), self.cut.merged(other.cut))

    def beside(self, reference: Array) -> PointSums:
        """The sums in the library and on the device of a reference."""
        return PointSums(self.joint.beside(reference), self.cut.beside(reference))


@dataclass(frozen=True)
class NumberedFeatures:
    """Features of rows by their numbers; `encode` as `block_encoder` gives it."""

    points: PointFeatures
    encode: Callable[[Any], Encoded]

    @property
    def size(self) -> int:
        """How many there are."""
        return self.points.size

    def __call__(self, numbers: Index) -> FloatArray:
        """Features of rows: (n, size)."""
        return self.points.of_rows(self.encode(numbers))


@dataclass(frozen=True)
class PointSumJob:
    """Sums of the features of candidates over scored rows, less a level; ranks within queries are
    those among scored rows.
    """

    features: Sequence[PointFeatures]
    encodings: Sequence[Encoding]
    loss: Loss
    level: float
    is_csr: bool

    def __call__(self, chunk: Chunk) -> PointSums:
        """The sums of a chunk. O(n r (r + d)) per candidate."""
        scored = chunk.is_scored
        columns = chunk.features, chunk.scores, chunk.query_ids
        compares = any(encoding.name in WITHIN_QUERIES for encoding in self.encodings)
        is_whole = np.zeros(chunk.n_rows, dtype=bool)
        is_whole[chunk.runs.inner(chunk.n_rows) if compares else slice(None)] = True
        cut, whole = (
            [take(column, np.flatnonzero(scored & chosen)) for column in columns]
            for chosen in (~is_whole, is_whole)
        )
        return PointSums(self.of_rows(*whole), RowPieces((tuple(cut),)))

    def of_rows(self, features: Array, scores: FloatArray, ids: Index) -> JointSums:
        """The sums over rows (n, d) of queries with ids (n,), whole where columns are compared within
        them.
        """
        n = len(scores)
        numbers = as_numbers(features)
        codes = first_appearance(ids)[0] if self.loss.needs_queries else np.zeros(n, dtype=np.int64)
        encode = block_encoder(
            self.encodings, sparse.csr_array(numbers) if self.is_csr else numbers, codes
        )
        starts = run_starts(codes)[:n]
        runs = Runs(starts, ids[starts].view(np.uint64))
        of_numbers = Chunk(np.arange(n), scores, runs, 0, (0, 0), Place(""), None)
        jobs = (
            SumJob(self.loss, NumberedFeatures(each, encode), "scored", None, level=self.level)
            for each in self.features
        )
        return JointSumJob(tuple(jobs))(of_numbers)

    def digest(self) -> str:
        """A digest of everything that the sums depend on beside the rows."""
        packer = Packer()
        about = [
            {
                "candidate": points.built.candidate,
                "similarities": list(points.built.similarities),
                "points": points.basis.scored,
                "unscored": points.basis.unscored,
                "directions": points.directions,
                "centre": points.centre,
            }
            for points in self.features
        ]
        header = packer.pack([*about, list(self.encodings), self.level], "sums")
        return digest(self.loss, header, *packer.arrays.values())
