"""`shuffle_queries=True`: the rows of every query brought together, in two passes over a temporary folder.

First every row goes to one of many files by its query; then each file, which fits into memory, is sorted.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from corank._arrays import first_appearance
from corank.streaming.chunks import label_kind
from corank.streaming.passes import shown
from corank.streaming.scan import Scan
from corank.streaming.sources import File, ParquetSource, Raw, find_files
from corank.tables import alike

BUCKET_BYTES = 2**25  # of the files that were given, in one file of the folder
MOST_BUCKETS = 256
WIDEST = {"whole numbers": pa.int64(), "text": pa.large_string(), "numbers": pa.float64()}  # of labels in several files


@dataclass
class Folder:
    """A temporary folder that goes with the last scan that reads it; `files` are those it was made from."""

    path: Path
    files: list[File] = field(default_factory=list)

    def __post_init__(self) -> None:
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def grouped(scan: Scan) -> Scan:
    """The same rows with those of every query one after the other. Memory: one file's share of the rows."""
    files = list(dict.fromkeys(unit.file for unit in scan.source.units))
    folder = Folder(Path(tempfile.mkdtemp(prefix="corank-")), files)
    size = sum(file.size * (8 if file.path.endswith(".gz") else 1) for file in files)
    buckets = min(MOST_BUCKETS, size // BUCKET_BYTES + 1)
    _divide(scan, folder.path, buckets)
    for bucket in range(buckets):
        _sort(folder.path / f"{bucket:03}.part", scan)
    found, _ = find_files(folder.path, "parquet")
    source = ParquetSource(found, scan.chunk_rows)
    return replace(scan, source=source, kept=folder)


def _divide(scan: Scan, folder: Path, buckets: int) -> None:
    """Every row into one of the files, by its query."""
    writers: dict[int, Any] = {}
    schema: pa.Schema | None = None
    with shown("grouping queries", scan.n_rows) as advance:
        try:
            for raw in _rows(scan):
                table = _table(raw, scan)
                table = alike(table, schema := schema or table.schema)
                owner = (raw.runs.ids * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)) % np.uint64(buckets)
                of_row = owner[raw.runs.codes(raw.n_rows)]
                for bucket in np.unique(owner):
                    path = folder / f"{int(bucket):03}.part"
                    if bucket not in writers:
                        writers[bucket] = parquet.ParquetWriter(path, table.schema)
                    writers[bucket].write_table(table.take(pa.array(np.flatnonzero(of_row == bucket))))
                advance(raw.n_rows)
        finally:
            for writer in writers.values():
                writer.close()


def _rows(scan: Scan) -> Iterator[Raw]:
    for unit in scan.source.units:
        yield from scan.source.read(unit, scan.wanted, scan.chunk_rows)


def _table(raw: Raw, scan: Scan) -> pa.Table:
    """What was read as columns, the id of the query beside them."""
    wanted = scan.wanted
    features: Any = raw.features
    if isinstance(features, np.ndarray):
        features = pa.table({name: features[:, at] for at, name in enumerate(wanted.features or ())})
    columns = dict(zip(features.column_names, features.columns, strict=True))
    if wanted.score is not None:
        columns[wanted.score] = pa.array(raw.scores)
    assert wanted.query is not None
    labels = raw.runs.labels.take(pa.array(raw.runs.codes(raw.n_rows)))
    columns[wanted.query] = labels.cast(WIDEST.get(label_kind(labels.type), labels.type))
    carried = {} if raw.extra is None else dict(zip(raw.extra.column_names, raw.extra.columns, strict=True))
    return pa.table({**carried, **columns})


def _sort(path: Path, scan: Scan) -> None:
    """One file by query, in the order in which they come."""
    if not path.exists():
        return
    table = parquet.ParquetFile(path).read()
    codes, _ = first_appearance(_codes(table.column(scan.wanted.query)))
    order = np.argsort(codes, kind="stable")
    parquet.write_table(table.take(pa.array(order)), path.with_suffix(".parquet"), row_group_size=scan.chunk_rows)
    path.unlink()


def _codes(labels: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    return np.asarray(labels.combine_chunks().dictionary_encode().indices)
