"""Dask arrays and frames as the source of a scan: a unit is a partition, which is made where it is worked on.

Passes on the workers of a Dask cluster: partial results are merged on them, in a tree whose shape the files give.

Workers read the files under the same names. A worker that dies is survived: what it had is worked out again, with the
same bits, as every task depends on its rows alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from corank._arrays import to_numpy
from corank.rows import as_labels, is_collection, is_frame
from corank.streaming.chunks import Place, check_finite, one_run, runs_of
from corank.streaming.scan import CHUNK_BYTES, CHUNK_ROWS, Scan
from corank.streaming.sources import File, Raw, Unit, Wanted
from corank.tables import TableError

SCORE, QUERY = "y", "qid"


@dataclass(frozen=True)
class Partition:
    """One partition as it was made: rows in memory, or what makes them."""

    features: Any
    scores: Any = None
    labels: Any = None


@dataclass(frozen=True)
class CollectionSource:
    """Partitions in order; `names` of their columns where they have any."""

    partitions: Sequence[Partition]
    units: Sequence[Unit]
    names: list[str]

    def number_columns(self) -> list[str]:
        """All of them; what is no number is refused when it is read."""
        return self.names

    def check(self, wanted: Wanted) -> None:
        """Refuse columns that are not there."""
        missing = [name for name in wanted.features or () if name not in self.names]
        if missing or wanted.extra:
            raise TableError(f"the Dask collection has no column {(missing or list(wanted.extra))[0]!r}")

    def read(self, unit: Unit, wanted: Wanted, chunk_rows: int) -> Iterator[Raw]:
        """The rows of a partition, made here."""
        number = self.units.index(unit)
        partition = self.partitions[number]
        made = import_module("dask").compute(partition.features, partition.scores, partition.labels)
        yield from rows_of_partition(Partition(*made), self.names, wanted, chunk_rows, unit.file.path)

    def holding(self, number: int, partition: Partition) -> CollectionSource:
        """The same with one partition made, and without the others: what a worker is sent."""
        nothing = Partition(None)
        parts = [partition if k == number else nothing for k in range(len(self.partitions))]
        return replace(self, partitions=parts)


def rows_of_partition(
    made: Partition, names: Sequence[str], wanted: Wanted, chunk_rows: int, path: str
) -> Iterator[Raw]:
    """Rows in memory in chunks."""
    values = made.features
    if is_frame(values):
        values = values.to_numpy()
    try:
        matrix = np.asarray(to_numpy(values))
        matrix = matrix if matrix.dtype in (np.float32, np.float64) else matrix.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TableError(f"{path} should hold numbers: {error}") from error
    columns = None if wanted.features is None else [names.index(name) for name in wanted.features]
    scores = None if made.scores is None else np.asarray(to_numpy(made.scores), dtype=np.float64).reshape(-1)
    labels = None if made.labels is None else pa.array(as_labels(made.labels, QUERY), from_pandas=True)
    for given, what in ((scores, SCORE), (labels, QUERY)):
        if given is not None and len(given) != len(matrix):
            raise ValueError(f"{what} has {len(given)} rows and X {len(matrix)} in {path}; cut both alike.")
    for begin in range(0, len(matrix), chunk_rows):
        rows, place = slice(begin, begin + chunk_rows), Place(path, begin)
        part = matrix[rows] if columns is None or columns == list(range(len(names))) else matrix[rows][:, columns]
        check_finite(part, names, place)
        own = None if scores is None or wanted.score is None else scores[rows]
        if own is not None and np.isinf(own).any():
            raise ValueError(f"y contains infinity in {place.of(int(np.argmax(np.isinf(own))))}; NaN means unscored.")
        runs = one_run() if labels is None else runs_of(pa.chunked_array([labels[rows]]), QUERY, place)
        yield Raw(len(part), part, own, runs, place, None)


def scan_of(X: Any, y: Any = None, qid: Any = None) -> Scan:
    """A Dask array or frame, with scores and labels cut alike, as a scan; on the cluster of the client, if there is one."""
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions (rows, columns), got {X.ndim}.")
    if is_array(X):
        X = X.rechunk({1: -1})
        blocks = list(X.to_delayed()[:, 0])
        counts: Sequence[Any] = X.chunks[0]
        names = [f"x{k}" for k in range(X.shape[1])]
    else:
        blocks, counts, names = X.to_delayed(), [np.nan] * X.npartitions, [str(name) for name in X.columns]
    known = None if any(np.isnan(count) for count in counts) else [int(count) for count in counts]
    scores, labels = (_aligned(values, len(blocks), known, name) for values, name in ((y, SCORE), (qid, QUERY)))
    partitions = [Partition(*parts) for parts in zip(blocks, scores, labels, strict=True)]
    token = import_module("dask.base").tokenize(X, y, qid)
    units = [
        Unit(File(f"partition {k}", 0, 0, (("token", token),)), n_rows=None if known is None else known[k])
        for k in range(len(blocks))
    ]
    source = CollectionSource(partitions, units, names)
    wanted = Wanted(tuple(names), None if y is None else SCORE, None if qid is None else QUERY)
    rows = int(np.clip(CHUNK_BYTES // (8 * max(len(names), 1)), *CHUNK_ROWS))
    return Scan(source, wanted, rows, client=_client(), chosen=not is_array(X), unnamed=is_array(X))


def is_array(X: Any) -> bool:
    """Whether a collection is an array, whose columns have no names."""
    return hasattr(X, "rechunk")


def _aligned(values: Any, n_parts: int, counts: list[int] | None, name: str) -> list[Any]:
    """One part a partition of X."""
    if values is None:
        return [None] * n_parts
    if is_collection(values):
        if is_array(values) and counts is not None:
            values = values.rechunk({0: tuple(counts)})
        parts = list(values.to_delayed().ravel() if is_array(values) else values.to_delayed())
        if len(parts) != n_parts:
            raise ValueError(f"{name} has {len(parts)} partitions and X {n_parts}; cut both alike.")
        return parts
    if counts is None:
        raise ValueError(
            f"{name} is in memory, but the sizes of the partitions of X are not known; make it a collection."
        )
    if len(values) != sum(counts):
        raise ValueError(f"{name} has {len(values)} values but X has {sum(counts)} rows; inconsistent lengths.")
    ends = np.cumsum([0, *counts])
    array = np.asarray(values)
    return [array[begin:end] for begin, end in pairwise(ends)]


def _client() -> Any:
    """The client that is at hand, None where there is none: then partitions are made here, one after the other."""
    try:
        return import_module("distributed").get_client()
    except (ImportError, ValueError):
        return None


BATCH = 64  # units whose results are brought to the client together; a checkpoint is written after each

GONE = ("FutureCancelledError", "FuturesCancelledError", "CancelledError", "CommClosedError", "TimeoutError")


def unit_result(scan: Scan, number: int, first_row: int, job: Any) -> tuple[Any, int]:
    """The merged result of one unit, and its number of rows. Runs on a worker."""
    result, rows = None, 0
    for chunk in scan.unit_chunks(number, first_row):
        part = job(chunk)
        result = part if result is None else result.merged(part)
        rows += chunk.n_rows
    return result, rows


def unit_rows(scan: Scan, number: int) -> int:
    """The number of rows of one unit. Runs on a worker."""
    bare = replace(scan, wanted=replace(scan.wanted, query=None))
    return sum(chunk.n_rows for chunk in bare.unit_chunks(number, features=False))


def on_partition(function: Any, scan: Scan, number: int, made: tuple[Any, ...], *others: Any) -> Any:
    """A function of a unit where the unit is a partition, which Dask made. Runs on a worker."""
    own = replace(scan, source=scan.source.holding(number, Partition(*made)))  # type: ignore[attr-defined]
    return function(own, number, *others)


def same(value: Any) -> Any:
    """Runs on a worker."""
    return value


def sent(client: Any, value: Any) -> Any:
    """A value on the cluster as the result of a task: unlike scattered data it comes back when its worker dies."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")
        return client.submit(same, value, pure=False)


class Units:
    """Hands functions of single units, ``function(scan, number, …)``, to the workers."""

    def __init__(self, scan: Scan) -> None:
        self.client, self.source = scan.client, scan.source
        bare = replace(scan, client=None)
        if isinstance(self.source, CollectionSource):
            bare = replace(bare, source=self.source.holding(-1, Partition(None)))
        self._scan = sent(self.client, bare)

    def submit(self, function: Any, number: int, *others: Any) -> Any:
        """The future of one unit."""
        if not isinstance(self.source, CollectionSource):
            return self.client.submit(function, self._scan, number, *others, pure=False)
        own = self.source.partitions[number]
        task = import_module("dask").delayed(on_partition, pure=False)
        parts = (own.features, own.scores, own.labels)
        return self.client.compute(task(function, self._scan, number, parts, *others))


def every_unit(scan: Scan, function: Any, *others: Any) -> list[Any]:
    """The results of a function for all units, in order."""
    with reachable(scan.client):
        units = Units(scan)
        kept = [sent(scan.client, other) for other in others]
        return list(scan.client.gather([units.submit(function, n, *kept) for n in range(len(scan.source.units))]))


def joined(left: tuple[Any, int], right: tuple[Any, int]) -> tuple[Any, int]:
    """Two results that follow each other. Runs on a worker."""
    if left[0] is None or right[0] is None:
        return right if left[0] is None else left
    return left[0].merged(right[0]), left[1] + right[1]


def unit_offsets(scan: Scan) -> list[int]:
    """The rows before every unit; counted by the workers where the files do not say it."""
    counts = [unit.n_rows for unit in scan.source.units]
    if any(count is None for count in counts):
        counts = every_unit(scan, unit_rows)
    result, before = [], 0
    for count in counts:
        result.append(before)
        before += int(count or 0)
    return result


def batches(
    scan: Scan, job: Any, start: tuple[int, int], first_row: int
) -> Generator[tuple[Any, tuple[int, int], int], None, None]:
    """Result, cursor behind it and rows of one batch of units after the other; the next is on its way meanwhile.

    A unit that was begun elsewhere, before `first_row`, is ended here: workers take whole ones.
    """
    client = scan.client
    offsets = unit_offsets(scan)
    first, skipped = start
    if skipped:
        with closing(scan.unit_chunks(first, first_row, skipped=skipped)) as rest:
            for chunk in rest:
                yield job(chunk), chunk.cursor, chunk.n_rows
        first += 1
    with reachable(client):
        units, work = Units(scan), sent(client, job)
        waiting: list[tuple[Any, int]] = []
        for begin in range(first, len(offsets), BATCH):
            end = min(begin + BATCH, len(offsets))
            parts = [units.submit(unit_result, n, offsets[n], work) for n in range(begin, end)]
            waiting.append((_tree(client, parts), end))
            if len(waiting) > 1:
                yield _gathered(*waiting.pop(0))
        for future, end in waiting:
            yield _gathered(future, end)


def _tree(client: Any, parts: list[Any]) -> Any:
    """The results of neighbours merged, then those of neighbours of neighbours; the parts themselves are let go."""
    while len(parts) > 1:
        pairs = [parts[k : k + 2] for k in range(0, len(parts), 2)]
        parts = [pair[0] if len(pair) == 1 else client.submit(joined, *pair, pure=False) for pair in pairs]
    return parts[0]


def _gathered(future: Any, end: int) -> tuple[Any, tuple[int, int], int]:
    result, rows = future.result()
    return result, (end, 0), rows


@contextmanager
def reachable(client: Any) -> Iterator[None]:
    """Say in words that the scheduler is gone, or that workers died too often."""
    if getattr(client, "status", None) != "running":
        raise ConnectionError("the Dask client is closed; make a new one and fit again")
    try:
        yield
    except Exception as error:
        name = type(error).__name__
        if name == "KilledWorker":
            raise RuntimeError(
                f"Dask gave up after workers died: {error}. Raise distributed.scheduler.allowed-failures where machines "
                "may be taken away, or give workers more memory; a checkpoint is taken up again"
            ) from error
        if name in GONE or (isinstance(error, OSError) and getattr(client, "status", "") != "running"):
            raise ConnectionError(
                f"the Dask scheduler is gone ({name}); a checkpoint is taken up again by the same fit with a new client"
            ) from error
        raise
