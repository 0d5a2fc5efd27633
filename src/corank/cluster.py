"""Passes on the workers of a Dask cluster: partial results are merged on them, in a tree whose shape the files give.

Workers read the files under the same names. A worker that dies is survived: what it had is worked out again, with the
same bits, as every task depends on its rows alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

from corank.scans import Scan
from corank.scans.collections import CollectionSource, Partition

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
