"""Dask arrays and frames as the source of a scan: a unit is a partition, which is made where it is worked on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from corank._backend import to_numpy
from corank.rows import as_labels, is_collection, is_frame
from corank.scans.chunks import Place, check_finite, one_run, runs_of
from corank.scans.files import File
from corank.scans.scanning import CHUNK_BYTES, CHUNK_ROWS, Scan
from corank.scans.sources import Raw, Unit, Wanted
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
