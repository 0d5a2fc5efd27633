"""Dask: collections as the source of a scan, and passes on the workers of a cluster.

A partition is a unit of the scan, made where it is worked on. Results of units are merged on the
workers, one after the other, as they are where there are no workers. A worker that dies is survived:
its tasks run again, with the same bits, as every task depends on its rows alone. Workers read files
under the same names.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from corank.core.arrays import (
    in_one_thread,
    masked_as_nan,
    refuse_masked,
    runs_of_rows,
    take,
    to_numpy,
)
from corank.core.queries import as_labels
from corank.inputs import MASKED_FEATURES, is_collection, is_frame
from corank.streaming.chunks import (
    Chunk,
    Place,
    State,
    check_finite,
    check_scores,
    one_run,
    runs_of,
)
from corank.streaming.scan import Scan, usual_chunk_rows
from corank.streaming.sources import File, RawRows, Roles, Unit
from corank.tables import TableError

SCORE = "y"  # columns of a collection
QUERY = "qid"
# whose results come to the client together; a checkpoint may be written after each batch
BATCH_UNITS = 64
CONNECTION_ERRORS = (
    "FutureCancelledError",
    "FuturesCancelledError",
    "CancelledError",
    "CommClosedError",
    "TimeoutError",
)


# ---- collections


@dataclass(frozen=True)
class Partition:
    """One partition of a collection: rows in memory, or Dask's recipe for them."""

    features: Any
    scores: Any = None
    labels: Any = None


@dataclass(frozen=True)
class CollectionSource:
    """The partitions of a collection in order; `names` of their columns."""

    partitions: Sequence[Partition]
    units: Sequence[Unit]
    names: list[str]

    def number_columns(self) -> list[str]:
        """The names of all columns; other values than numbers are refused when they are read."""
        return self.names

    def check(self, roles: Roles) -> None:
        """Refuse columns that are not there."""
        missing = [name for name in roles.features or () if name not in self.names]
        if missing or roles.extra:
            raise TableError(
                f"the Dask collection has no column {(missing or list(roles.extra))[0]!r}"
            )

    def read(self, unit: Unit, roles: Roles, chunk_rows: int) -> Iterator[RawRows]:
        """The rows of a partition in chunks, made in this process."""
        partition = self.partitions[self.units.index(unit)]
        path = unit.file.path
        values, scores, labels = import_module("dask").compute(
            partition.features, partition.scores, partition.labels
        )
        values = values.to_numpy() if is_frame(values) else values
        refuse_masked(values, "X", MASKED_FEATURES)
        scores = masked_as_nan(scores)
        try:
            matrix = to_numpy(values)
            if matrix.dtype not in (np.float32, np.float64):
                matrix = matrix.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TableError(f"{path} should hold numbers: {error}") from error
        scores = None if scores is None else np.asarray(to_numpy(scores), np.float64).reshape(-1)
        labels = None if labels is None else pa.array(as_labels(labels, QUERY), from_pandas=True)
        for given, name in ((scores, SCORE), (labels, QUERY)):
            if given is not None and len(given) != len(matrix):
                raise ValueError(
                    f"{name} has {len(given)} rows and X {len(matrix)} in {path}; partition both in"
                    " the same way."
                )
        if roles.score is None:
            scores = None
        elif scores is not None:
            check_scores(scores, SCORE, Place(path))
        columns = [self.names.index(name) for name in roles.features or self.names]
        all_columns = columns == list(range(len(self.names)))
        for rows in runs_of_rows(len(matrix), chunk_rows):
            place = Place(path, rows.start)
            features = matrix[rows] if all_columns else matrix[rows][:, columns]
            check_finite(features, self.names, place)
            runs = one_run()
            if labels is not None:
                runs = runs_of(pa.chunked_array([labels[rows]]), QUERY, place)
            yield RawRows(len(features), features, take(scores, rows), runs, place, None)

    def only(self, number: int, partition: Partition) -> CollectionSource:
        """The source with one partition, in memory, and none of the others: for a worker."""
        partitions = [Partition(None)] * len(self.partitions)
        if number >= 0:
            partitions[number] = partition
        return replace(self, partitions=partitions)


def collection_scan(X: Any, y: Any, qid: Any) -> Scan:
    """A scan of a Dask array or frame, with scores and labels cut alike; passes run on the client's
    cluster, if any.
    """
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions (rows, columns), got {X.ndim}.")
    if is_array(X):
        X = X.rechunk({1: -1})
        blocks = list(X.to_delayed()[:, 0])
        counts: Sequence[Any] = X.chunks[0]
        names = [f"x{k}" for k in range(X.shape[1])]
    else:
        blocks = X.to_delayed()
        counts = [np.nan] * X.npartitions
        names = [str(name) for name in X.columns]
    sizes = None if any(map(np.isnan, counts)) else list(map(int, counts))
    scores, labels = (
        _cut_alike(values, len(blocks), sizes, name) for values, name in ((y, SCORE), (qid, QUERY))
    )
    partitions = [Partition(*values) for values in zip(blocks, scores, labels, strict=True)]
    token = import_module("dask.base").tokenize(X, y, qid)
    files = [File(f"partition {k}", 0, 0, (("token", token),)) for k in range(len(blocks))]
    counted: Any = [None] * len(files) if sizes is None else sizes
    units = [Unit(file, n_rows=size) for file, size in zip(files, counted, strict=True)]
    roles = Roles(tuple(names), None if y is None else SCORE, None if qid is None else QUERY)
    return Scan(
        CollectionSource(partitions, units, names),
        roles,
        usual_chunk_rows(len(names)),
        client=_client(),
        chosen=not is_array(X),
        unnamed=is_array(X),
    )


def is_array(X: Any) -> bool:
    """Whether a Dask collection is an array, whose columns have no names."""
    return hasattr(X, "rechunk")


def _cut_alike(values: Any, n_partitions: int, sizes: list[int] | None, name: str) -> list[Any]:
    """Scores or labels, one piece per partition of X."""
    if values is None:
        return [None] * n_partitions
    if is_collection(values):
        if is_array(values) and sizes is not None:
            values = values.rechunk({0: tuple(sizes)})
        pieces = list(values.to_delayed().ravel() if is_array(values) else values.to_delayed())
        if len(pieces) != n_partitions:
            raise ValueError(
                f"{name} has {len(pieces)} partitions and X {n_partitions}; partition both in the"
                " same way."
            )
        return pieces
    if sizes is None:
        raise ValueError(
            f"{name} is in memory, but the sizes of the partitions of X are not known; make it a"
            " collection."
        )
    if len(values) != sum(sizes):
        raise ValueError(
            f"{name} has {len(values)} values but X has {sum(sizes)} rows; inconsistent lengths."
        )
    return np.split(np.asarray(values), np.cumsum(sizes)[:-1])


def _client() -> Any:
    """The current client, None where there is none: then partitions are made here, one after the
    other.
    """
    try:
        return import_module("distributed").get_client()
    except (ImportError, ValueError):
        return None


# ---- passes on a cluster


def unit_result(scan: Scan, number: int, first_row: int, job: Any) -> State:
    """The state after one unit. Runs on a worker."""
    state = State(cursor=(number, 0))
    for step in chunk_states(scan, scan.unit_chunks(number, first_row), job, state):
        state = step
    return replace(state.closed(), cursor=(number + 1, 0))


def unit_rows(scan: Scan, number: int) -> int:
    """The number of rows of one unit. Runs on a worker."""
    return sum(chunk.n_rows for chunk in scan.without_features(query=False).unit_chunks(number))


def on_partition(
    function: Any, scan: Scan, number: int, arrays: tuple[Any, ...], *arguments: Any
) -> Any:
    """A function of a unit that is a partition, which Dask has made. Runs on a worker."""
    source = scan.source.only(number, Partition(*arrays))  # type: ignore[attr-defined]
    return function(replace(scan, source=source), number, *arguments)


def identity(value: Any) -> Any:
    """The value itself. Runs on a worker."""
    return value


def sent(client: Any, value: Any) -> Any:
    """A value on the cluster as the result of a task: unlike scattered data it comes back when its
    worker dies.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")
        return client.submit(identity, value, pure=False)


class UnitTasks:
    """Hands functions of single units, ``function(scan, number, …)``, to the workers."""

    def __init__(self, scan: Scan) -> None:
        self.client = scan.client
        self.source = scan.source
        local = replace(scan, client=None)
        if isinstance(self.source, CollectionSource):
            local = replace(local, source=self.source.only(-1, Partition(None)))
        self._scan = sent(self.client, local)

    def submit(self, function: Any, number: int, *arguments: Any) -> Any:
        """The future of one unit."""
        if not isinstance(self.source, CollectionSource):
            return self.client.submit(function, self._scan, number, *arguments, pure=False)
        partition = self.source.partitions[number]
        task = import_module("dask").delayed(on_partition, pure=False)
        recipes = (partition.features, partition.scores, partition.labels)
        return self.client.compute(task(function, self._scan, number, recipes, *arguments))


def unit_results(scan: Scan, function: Any, *arguments: Any) -> list[Any]:
    """The results of a function for all units, in order."""
    with reachable(scan.client):
        tasks = UnitTasks(scan)
        values = [sent(scan.client, argument) for argument in arguments]
        futures = [
            tasks.submit(function, number, *values) for number in range(len(scan.source.units))
        ]
        return list(scan.client.gather(futures))


def chunk_states(
    scan: Scan, chunks: Generator[Chunk, None, None], job: Any, state: State
) -> Generator[State, None, None]:
    """The states after one chunk after the other, in this process."""
    with closing(chunks), in_one_thread(scan.reference(), with_jobs=True):
        for chunk in chunks:
            state = state.after_chunk(job(chunk), chunk)
            yield state


def batches(scan: Scan, job: Any, state: State) -> Generator[State, None, None]:
    """The states after one batch of units after the other; the next one is computed meanwhile.

    A unit that was begun elsewhere is completed here: workers take whole units.
    """
    client = scan.client
    counts = [unit.n_rows for unit in scan.source.units]
    if None in counts:  # the files do not say it
        counts = unit_results(scan, unit_rows)
    # rows before every unit
    offsets = list(accumulate((int(count or 0) for count in counts), initial=0))
    first, skipped = state.cursor
    if skipped:
        chunks = scan.unit_chunks(first, state.rows, skipped=skipped)
        for step in chunk_states(scan, chunks, job, state):
            state = step
            yield state
        first += 1
    with reachable(client):
        tasks = UnitTasks(scan)
        sent_job = sent(client, job)
        total = sent(client, state)
        waiting: list[Any] = []
        units = [number for number in scan.picked_units().tolist() if number >= first]
        for begin in range(0, len(units), BATCH_UNITS):
            for number in units[begin : begin + BATCH_UNITS]:
                unit = tasks.submit(unit_result, number, offsets[number], sent_job)
                total = client.submit(State.after_unit, total, unit, pure=False)
            waiting.append(total)
            if len(waiting) > 1:
                yield _gathered(waiting.pop(0))
        for future in waiting:
            yield _gathered(future)


def _gathered(future: Any) -> State:
    state: State = future.result()
    return state


@contextmanager
def reachable(client: Any) -> Iterator[None]:
    """Errors inside the block say that the scheduler is gone, or that workers died too often."""
    if getattr(client, "status", None) != "running":
        raise ConnectionError("the Dask client is closed; make a new one and fit again")
    try:
        yield
    except Exception as error:
        name = type(error).__name__
        if name == "KilledWorker":
            raise RuntimeError(
                f"Dask gave up after workers died: {error}. Raise"
                " distributed.scheduler.allowed-failures where machines may be taken away, or give"
                " workers more memory; a checkpoint is continued"
            ) from error
        is_closed = isinstance(error, OSError) and getattr(client, "status", "") != "running"
        if is_closed or name in CONNECTION_ERRORS:
            raise ConnectionError(
                f"the Dask scheduler is gone ({name}); a checkpoint is continued by the same fit"
                " with a new client"
            ) from error
        raise
