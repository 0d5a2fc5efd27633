"""One pass over a scan: a job makes a partial result of every chunk, and partial results are merged
in the order of the rows. `SumJob` makes the Gram sums of rows, `JointSumJob` those of two kinds of rows
in one pass.

What is merged with what follows from the files alone, never from where a pass broke off, how many
rows are read at a time, or who reads them: the bits of a result are always the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self

import numpy as np

from corank.core.arrays import Array, Index, digest, first_appearance, like, take, zeros_beside
from corank.core.basis import FeatureMap, KernelBasis
from corank.core.loss import Loss
from corank.core.sampling import fold_numbers
from corank.core.storable import ModelFileError, storable
from corank.core.sums import Accumulator, Spans
from corank.core.views import SideBySide
from corank.display import progress_bar
from corank.model_files.container import Packer, Unpacker
from corank.streaming.checkpoint import Checkpoint, in_words
from corank.streaming.chunks import Chunk, Cursor, State
from corank.streaming.dask import batches, chunk_states
from corank.streaming.scan import Scan


class Partial(Protocol):
    """A result for rows that follow each other."""

    def merged(self, other: Self) -> Self:
        """The result for these rows and the rows that follow them."""
        ...

    def beside(self, reference: Array) -> Self:
        """The result in as few arrays as can be, in the library and on the device of a reference."""
        ...


class Job(Protocol):
    """The work on each chunk of a pass."""

    def __call__(self, chunk: Chunk) -> Partial:
        """The partial result of a chunk."""
        ...

    def digest(self) -> str:
        """A text that differs between jobs that give different results."""
        ...


@dataclass
class Passes:
    """Runs passes, and saves their results in a checkpoint where one was asked for."""

    checkpoint: Checkpoint | None = None
    resumed: bool = field(default=False, init=False)  # from results of an earlier fit
    _readings: Counter[int] = field(default_factory=Counter, init=False)  # of features, per source

    @property
    def n_readings(self) -> float:
        """How many times the features of a scan were read: of the one that was read most, in shares
        of its rows.
        """
        return round(max(self._readings.values(), default=0.0), 2)

    def run(self, scan: Scan, job: Job, name: str, what: str, total: int | None = None) -> Any:
        """The merged result of a job over all chunks.

        name : of the pass in the checkpoint; what : shown while it runs; total : number of rows,
            where known
        """
        state, done = self._resumed(scan, job, name)
        if done:
            return state.result
        total = scan.n_rows if total is None else total
        if scan.roles.features is not None:
            self._readings[id(scan.source)] += scan.read_share  # type: ignore[assignment]
        if scan.client is None:
            steps = chunk_states(scan, scan.chunks(state.cursor, state.rows), job, state)
        else:
            steps = batches(scan, job, state)
        try:
            with progress_bar(what, total, state.rows) as advance, closing(steps) as states:
                for next_state in states:
                    advance(next_state.rows - state.rows)
                    # at once: an interruption finds the old or the new
                    state = next_state
                    if self.checkpoint is not None and self.checkpoint.is_due:
                        self._save(state, job, name)
        except BaseException:
            if self.checkpoint is not None and state.rows:
                self._save(state, job, name)
            raise
        if state.rows == 0:
            raise ValueError("the scan has no rows.")
        state = state.closed()
        if self.checkpoint is not None:
            self._save(state, job, name, done=True)
        return state.result

    def _resumed(self, scan: Scan, job: Job, name: str) -> tuple[State, bool]:
        saved = None if self.checkpoint is None else self.checkpoint.load(name)
        if saved is None:
            return State(), False
        header, arrays = saved
        assert self.checkpoint is not None
        if header.get("job") != job.digest():
            raise ValueError(
                f"the checkpoint in {self.checkpoint.folder} was made with other basis rows or"
                f" folds ({name}); delete it"
            )
        self.resumed = True
        try:
            unpacker = Unpacker(arrays)
            result, begun = (
                _beside(unpacker.unpack(header[part]), scan.reference())
                for part in ("result", "begun")
            )
            unit, chunk = header["cursor"]
            state = State(result, begun, (int(unit), int(chunk)), int(header["rows"]))
            return state, bool(header["done"])
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise ModelFileError(
                f"{name} in the checkpoint {self.checkpoint.folder} is damaged, or an earlier"
                " corank wrote it; delete the folder to start again"
            ) from error

    def _save(self, state: State, job: Job, name: str, *, done: bool = False) -> None:
        assert self.checkpoint is not None
        packer = Packer()
        header = {
            "job": job.digest(),
            "cursor": list(state.cursor),
            "rows": state.rows,
            "done": done,
            "result": packer.pack(_beside(state.result, np.empty(0)), "result"),
            "begun": packer.pack(_beside(state.begun, np.empty(0)), "begun"),
        }
        self.checkpoint.save(name, header, packer.arrays)


def _beside(partial: Any, reference: Array) -> Any:
    return None if partial is None else partial.beside(reference)


# ---- sums


@dataclass(frozen=True)
class Offsets:
    """Number of scored rows before a chunk, and the number of its first scored query."""

    scored: int
    query: int


@dataclass(frozen=True)
class Folds:
    """The fold of every row: by its query, or by its number where rows are held out one by one."""

    by: Literal["query", "row"]
    n_folds: int
    seed: int
    offsets: Mapping[Cursor, Offsets]


@dataclass(frozen=True)
class SumJob:
    """Sums over the scored rows of a chunk, over its unscored rows, or over all.

    features : as in `Accumulator`, with their number as `size`
    columns : of every view, where features take the rows of all views side by side
    items : whether all rows are one query without a name, of which each has its fold
    level : is subtracted from the scores
    """

    comparison: Loss
    features: Any
    which: Literal["scored", "unscored", "all"]
    columns: Sequence[Index] | None
    folds: Folds | None = None
    items: bool = False
    level: float = 0.0

    def __call__(self, chunk: Chunk) -> Spans:
        """The sums of a chunk. O(n r (r + d))."""
        rows = self._rows(chunk)
        X = take(chunk.features, rows)
        n = X.shape[0]
        scores = zeros = like(np.zeros(n), X)
        if self.which == "scored":
            scores = take(like(chunk.scores, X), rows) - self.level
        if self.columns is not None:
            X = SideBySide.of(X, self.columns)
        runs = chunk.runs.codes(chunk.n_rows)[rows]
        codes, n_runs = first_appearance(runs)
        present = runs[np.searchsorted(codes, np.arange(n_runs))]
        needs_queries = self.comparison.needs_queries
        by_rows = not needs_queries and (self.folds is None or self.folds.by == "row")
        if by_rows:
            codes = np.arange(n)
        folds = self._folds(chunk, n if by_rows or self.items else n_runs)
        sums = Accumulator(
            self.comparison,
            self.features,
            self.features.size,
            zeros if n else zeros_beside(1, zeros),
            None if self.items else folds,
            n_folds=1 if self.folds is None else self.folds.n_folds,
            keeps_ends=needs_queries and not self.items,
        )
        if n and self.items:
            item_folds = np.zeros(n, dtype=np.int64) if folds is None else folds
            sums.add_items(X, scores, None, item_folds)
        elif n:
            sums.add(X, scores, codes, None)
        return Spans.of(sums, chunk.runs.ids[present])

    def _rows(self, chunk: Chunk) -> Any:
        if self.which == "all":
            return slice(0, chunk.n_rows)
        summed = chunk.is_scored if self.which == "scored" else ~chunk.is_scored
        return slice(0, chunk.n_rows) if summed.all() else np.flatnonzero(summed)

    def _folds(self, chunk: Chunk, count: int) -> Index | None:
        """The folds of the scored queries of a chunk, or of its scored rows."""
        if self.folds is None:
            return None
        offsets = self.folds.offsets[chunk.cursor]
        begin = offsets.query if self.folds.by == "query" else offsets.scored
        return fold_numbers(begin, count, self.folds.n_folds, self.folds.seed)

    def digest(self) -> str:
        """A digest of everything that the sums depend on beside the rows."""
        folds = self.folds and (self.folds.by, self.folds.n_folds, self.folds.seed)
        values = [self.comparison, self.features.size, self.which, folds, self.items, self.level]
        single = isinstance(self.features, FeatureMap)
        for feature_map in [self.features] if single else self.features.maps:
            basis = feature_map.basis
            values.append(feature_map.whitened)
            if isinstance(basis, KernelBasis):
                values += [in_words(basis.kernel), basis.points]
            if feature_map.whitened:
                values.append(basis.whitening.matrix)
        return digest(*values, *(self.columns or ()))


@storable("JointSums")
@dataclass(frozen=True)
class JointSums:
    """The results of several jobs for the same stretch of rows."""

    sums: tuple[Spans, ...]

    def merged(self, other: JointSums) -> JointSums:
        """The sums over these rows and the rows that follow them."""
        both = zip(self.sums, other.sums, strict=True)
        return JointSums(tuple(before.merged(after) for before, after in both))

    def beside(self, reference: Array) -> JointSums:
        """The sums in the library and on the device of a reference."""
        return JointSums(tuple(sums.beside(reference) for sums in self.sums))


@dataclass(frozen=True)
class JointSumJob:
    """Several jobs in one pass over the rows."""

    jobs: tuple[SumJob, ...]

    def __call__(self, chunk: Chunk) -> JointSums:
        """The sums of a chunk, one per job."""
        return JointSums(tuple(job(chunk) for job in self.jobs))

    def digest(self) -> str:
        """A digest of everything that the sums depend on beside the rows."""
        return digest(*(job.digest() for job in self.jobs))
