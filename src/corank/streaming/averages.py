"""Averages of models over more scored rows than memory: they are weighed by a sample of the rows, and
fitted from sums in one pass over all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy import sparse

from corank.core.arrays import Array, FloatArray, digest, first_appearance, stack_rows
from corank.core.loss import Loss
from corank.core.sums import Statistics
from corank.inputs import as_numbers
from corank.learners.average.coefficients import PointFeatures
from corank.learners.average.encoding import Encoding
from corank.learners.average.scored_table import ScoredTable
from corank.model_files.container import Packer
from corank.streaming.passes import JointSumJob, JointSums, Passes, SumJob
from corank.streaming.scan import Scan
from corank.streaming.survey import (
    NO_SCORES,
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
        if scan.has_queries and not sampled.is_whole and sampled._n_sampled < FEWEST_QUERIES:
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
    def _n_sampled(self) -> int:
        return len(np.unique(self._held[2]))

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Rows, those with a score and those without, and queries with a score."""
        survey = self.survey
        n_queries = survey.offsets()[1] if self.scan.has_queries else 1
        return survey.n_rows, survey.n_scored, survey.n_unscored, n_queries

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
    name = "X" if by_query else "X-by-rows"
    return run_survey(scan, passes, job, name, contiguous=True)


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
        held = self.sampled.survey.held
        by_query = isinstance(held, SampledRows) and held.by_query
        return by_query or not self.sampled.scan.has_queries

    def summed(
        self, features: Sequence[PointFeatures], loss: Loss, level: float
    ) -> list[Statistics]:
        """The sums of all feature maps, in one pass."""
        is_csr = self.sampled.is_sparse
        maps = [EncodedFeatures(each, self.encodings, is_csr) for each in features]
        jobs = tuple(PointSumJob(loss, each, "scored", None, level=level) for each in maps)
        sampled, what = self.sampled, "summing scored rows"
        joint: JointSums = sampled.passes.run(
            sampled.scan, JointSumJob(jobs), "sums-scored", what, sampled.survey.n_rows
        )
        return [spans.closed() for spans in joint.sums]


@dataclass(frozen=True)
class EncodedFeatures:
    """What rows of a scan are summed as."""

    points: PointFeatures
    encodings: Sequence[Encoding]
    is_csr: bool

    @property
    def size(self) -> int:
        """The number of points."""
        return self.points.size

    def __call__(self, X: Array) -> FloatArray:
        """Features of the rows X: (n, size)."""
        numbers, names = as_numbers(X), self.points.names
        if self.is_csr:
            numbers = sparse.csr_array(numbers)
        encoded = {
            encoding.name: encoding.encode(numbers, None)
            for encoding in self.encodings
            if encoding.name in names
        }
        return self.points.of_rows(encoded)


@dataclass(frozen=True)
class PointSumJob(SumJob):
    """Sums of the features of a candidate."""

    def digest(self) -> str:
        """A digest of everything that the sums depend on beside the rows."""
        points = self.features.points
        about = {
            "candidate": points.built.candidate,
            "similarities": list(points.built.similarities),
            "encodings": list(self.features.encodings),
            "points": points.basis.scored,
            "unscored": points.basis.unscored,
            "directions": points.directions,
            "centre": points.centre,
            "level": self.level,
        }
        packer = Packer()
        return digest(self.comparison, packer.pack(about, "sums"), *packer.arrays.values())
