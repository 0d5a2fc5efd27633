"""A chunk of rows as passes see it, and how columns of a table become its features, scores and runs
of query labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corank.core.arrays import Array, Index, Mask, NumpyArray, runs_of_rows, to_numpy
from corank.inputs import LARGEST_SIZE
from corank.tables import TableError, is_number, is_text, plain, plain_type

TRANSPOSED_ROWS = 2**11  # of all columns that are copied at once: they stay in the cache

Ids = np.ndarray[Any, np.dtype[np.uint64]]
Cursor = tuple[int, int]  # number of a unit of the scan, and of a chunk in it


@dataclass(frozen=True)
class Place:
    """Where rows come from: a file, and the number of rows before them in it; `rows` (n,) where
    they lie apart.
    """

    path: str
    row: int = 0
    rows: Index | None = None

    def of(self, row: int) -> str:
        """A row in words, counted from 1."""
        distance = row if self.rows is None else int(self.rows[row])
        return f"data row {self.row + distance + 1} of {self.path}"


@dataclass(frozen=True)
class Runs:
    """Runs of rows that follow each other and have the same query label.

    starts : (k,) the first row of each run
    ids : (k,) 64 bits that stand for its label: whole numbers themselves, a hash of text
    labels : (k,) the labels, None where there is no query column
    """

    starts: Index
    ids: Ids
    labels: Any = None

    @property
    def bounds(self) -> tuple[Any, Any] | None:
        """The first and the last label where labels rise from run to run, so that none comes back;
        else None.
        """
        labels = self.labels
        if labels is None or len(labels) == 0:
            return None
        if not (pa.types.is_integer(labels.type) or is_text(labels.type)):
            return None
        if pc.all(pc.greater(labels[1:], labels[:-1])).as_py() is False:
            return None
        return labels[0].as_py(), labels[-1].as_py()

    def inner(self, n_rows: int) -> slice:
        """The rows that are in neither the first nor the last run."""
        bounds = [*self.starts.tolist(), n_rows]
        return slice(bounds[1], bounds[-2])

    def codes(self, n_rows: int) -> Index:
        """The number of the run of every row: (n_rows,)."""
        lengths = np.diff(self.starts, append=n_rows)
        return np.repeat(np.arange(len(lengths)), lengths)


@dataclass(frozen=True)
class Chunk:
    """Rows that are worked on together, one at least.

    features : (n, d) float32 or float64; scores : (n,) float64, NaN = unscored, or None without a
        score column
    first_row : number of rows of the scan before it; cursor : where the next chunk begins
    extra : table of other columns that are carried along
    """

    features: Array
    scores: Array | None
    runs: Runs
    first_row: int
    cursor: Cursor
    place: Place
    extra: pa.Table | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.features.shape[0])

    @property
    def query_ids(self) -> Index:
        """The id of the query of every row: (n,)."""
        return self.runs.ids.view(np.int64)[self.runs.codes(self.n_rows)]

    @property
    def is_scored(self) -> Mask:
        """Which rows have a score: (n,)."""
        if self.scores is None:
            return np.zeros(self.n_rows, dtype=bool)
        return ~np.isnan(to_numpy(self.scores))


@dataclass(frozen=True)
class State:
    """The results of a job for chunks that follow each other, and the cursor behind them.

    result : merged over whole units; begun : over the chunks of the unit at the cursor; None where
        there are no rows. Workers, who take whole units, merge in the same order
    """

    result: Any = None
    begun: Any = None
    cursor: Cursor = (0, 0)
    rows: int = 0

    def closed(self) -> State:
        """The state with the unit at the cursor as complete."""
        return replace(self, result=_merged(self.result, self.begun), begun=None)

    def after_chunk(self, result: Any, chunk: Chunk) -> State:
        """The state after the result of the next chunk."""
        before = self if chunk.cursor[0] == self.cursor[0] else self.closed()
        begun = _merged(before.begun, result)
        return State(before.result, begun, chunk.cursor, self.rows + chunk.n_rows)

    def after_unit(self, unit: State) -> State:
        """The state after the next unit, whose own state is closed."""
        result = _merged(self.closed().result, unit.result)
        return State(result, None, unit.cursor, self.rows + unit.rows)


def _merged(result: Any, other: Any) -> Any:
    if result is None or other is None:
        return other if result is None else result
    return result.merged(other)


def feature_matrix(table: pa.Table, names: Sequence[str], dtype: type, place: Place) -> NumpyArray:
    """Columns of a table as a matrix (n, d); NaN and infinity are refused, with file and row."""
    columns = [numbers_of(table.column(name), name, place) for name in names]
    shape = table.num_rows, len(names)
    result: NumpyArray = np.empty(shape, dtype=dtype)
    for rows in runs_of_rows(len(result), TRANSPOSED_ROWS):
        for position, values in enumerate(columns):
            result[rows, position] = values[rows]
    check_finite(result, names, place)
    return result


def check_finite(values: NumpyArray, names: Sequence[str] | None, place: Place) -> None:
    """Refuse NaN, infinity and numbers whose squares overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        # NaN is not less than anything
        if values.size == 0 or max(values.max(), -values.min()) < LARGEST_SIZE:
            return
        is_wrong = ~(np.abs(values) < LARGEST_SIZE)
    row, column = np.argwhere(is_wrong)[0].tolist()
    value = values[row, column]
    what = f"a value too large, {value},"
    if np.isnan(value):
        what = "no value"
    elif np.isinf(value):
        what = "infinity"
    name = f"feature {column}" if names is None else f"column {names[column]!r}"
    raise TableError(f"{name} has {what} in {place.of(row)}; fill in or drop such rows first")


def numbers_of(values: pa.ChunkedArray, name: str, place: Place) -> NumpyArray:
    """A column as numbers, NaN where there is none."""
    values = plain(values)
    if not (is_number(values.type) or pa.types.is_null(values.type)):
        raise TableError(
            f"column {name!r} of {place.path} should hold numbers, but holds {values.type}"
        )
    if not pa.types.is_float32(values.type):
        values = values.cast(pa.float64(), safe=False)
    return np.asarray(values.to_numpy())


def check_scores(scores: NumpyArray, name: str, place: Place) -> None:
    """Refuse infinite scores (n,) and those whose squares overflow."""
    too_large = np.flatnonzero(np.abs(scores) > LARGEST_SIZE)
    if too_large.size:
        row = int(too_large[0])
        raise TableError(
            f"score column {name!r} holds {scores[row]} in {place.of(row)}; leave it empty, or NaN,"
            " if unscored"
        )


def one_run() -> Runs:
    """All rows as one query without a name."""
    starts = np.zeros(1, dtype=np.int64)
    return Runs(starts, ids=starts.view(np.uint64))


def runs_of(values: pa.ChunkedArray, name: str, place: Place) -> Runs:
    """The runs of a column of query labels. O(n), and one hash per run where they are text."""
    labels = plain(values).combine_chunks()
    if isinstance(labels, pa.ChunkedArray):
        empty = pa.array([], labels.type)
        labels = labels.chunk(0) if labels.num_chunks else empty
    missing = pc.is_null(labels, nan_is_null=True).to_numpy(zero_copy_only=False)
    if missing.any():
        row = int(np.argmax(missing))
        raise TableError(
            f"query column {name!r} has no value in {place.of(row)}: every row needs a query"
        )
    begins = np.ones(len(labels), dtype=bool)
    if len(labels):
        changes = pc.not_equal(labels[1:], labels[:-1])
        begins[1:] = changes.to_numpy(zero_copy_only=False)
    starts = np.flatnonzero(begins)
    run_labels = labels.take(pa.array(starts))
    return Runs(starts, _ids(run_labels, name, place), run_labels)


def label_kind(kind: pa.DataType) -> str:
    """The kind of labels of a type, in words: labels of two files can be the same only within one
    kind.
    """
    kind = plain_type(kind)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return "whole numbers"
    if is_text(kind):
        return "text"
    return "numbers" if pa.types.is_floating(kind) else str(kind)


def _ids(labels: pa.Array, name: str, place: Place) -> Ids:
    kind = labels.type
    types = pa.types
    is_binary = types.is_binary(kind) or types.is_large_binary(kind)
    if is_text(kind) or is_binary:
        contents = labels.cast(pa.large_binary()).to_pylist()
        hashes = (hashlib.blake2b(content, digest_size=8).digest() for content in contents)
        return np.frombuffer(b"".join(hashes), dtype=np.uint64)
    if types.is_temporal(kind):
        whole = pa.int32() if kind.bit_width == 32 else pa.int64()
        labels = labels.cast(whole)
    elif not (types.is_integer(kind) or types.is_boolean(kind) or types.is_floating(kind)):
        raise TableError(
            f"query column {name!r} of {place.path} holds {kind}: labels must be text, numbers or"
            " dates"
        )
    values = np.asarray(labels.to_numpy(zero_copy_only=False))
    if types.is_unsigned_integer(kind):
        return values.astype(np.uint64)
    if types.is_floating(kind):
        return (values.astype(np.float64) + 0.0).view(np.uint64)  # -0.0 and 0.0 are one label
    return values.astype(np.int64).view(np.uint64)


class ClosedQueries:
    """The ids of queries that are complete, to notice a query that comes back. 8 bytes per query."""

    def __init__(self) -> None:
        self._open: int | None = None
        self._sorted: list[Ids] = []  # each at least twice as long as the next

    def add(self, runs: Runs, place: Place) -> None:
        """Take in the runs that follow; a TableError names a query that was closed before."""
        ids = runs.ids
        first = int(self._open == int(ids[0]))
        new = ids[first:]
        repeated = self._repeated(new)
        if len(repeated):
            run = first + int(repeated[0])
            raise TableError(
                f"the query {runs.labels[run].as_py()!r} comes back after other queries, in"
                f" {place.of(int(runs.starts[run]))}; the rows of a query must follow each other,"
                " also over chunks and files: sort the files by query, or use scan(...,"
                " shuffle_queries=True)"
            )
        self._remember(new)
        self._open = int(ids[-1])

    def _repeated(self, new: Ids) -> Index:
        """Positions of ids that occurred before, also among the new ones."""
        _, first_places = np.unique(new, return_index=True)
        is_repeated = np.ones(len(new), dtype=bool)
        is_repeated[first_places] = False
        for closed in self._sorted:
            places = np.searchsorted(closed, new)
            places = np.minimum(places, len(closed) - 1)
            is_repeated |= closed[places] == new
        return np.flatnonzero(is_repeated)

    def _remember(self, new: Ids) -> None:
        if len(new) == 0:
            return
        last = np.sort(new)
        while self._sorted and len(self._sorted[-1]) < 2 * len(last):
            last = np.concatenate([last, self._sorted.pop()])
            last.sort(kind="stable")
        self._sorted.append(last)
