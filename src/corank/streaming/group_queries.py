"""`shuffle_queries=True`: the rows of every query brought together, in two passes over a temporary
folder.

First every row goes to one of many buckets by its query; then each bucket, a file that fits into
memory, is sorted.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from corank.display import progress_bar
from corank.streaming.chunks import label_kind
from corank.streaming.scan import Scan
from corank.streaming.sources import File, ParquetSource, RawRows, find_files
from corank.tables import cast_like, columns_of

BUCKET_BYTES = 2**25  # of the given files that go to one bucket
MAX_BUCKETS = 256  # files that are open at once
GZIP_FACTOR = 8  # by which contents are larger than their compressed file
LABEL_TYPES = {
    "whole numbers": pa.int64(),
    "text": pa.large_string(),
    "numbers": pa.float64(),
}  # wide enough for all files
# 2⁶⁴ over the golden ratio: spreads numbers that follow each other
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass
class Folder:
    """A temporary folder, removed with the last scan that reads it; `files` are those it was made
    from.
    """

    path: Path
    files: list[File]

    def __post_init__(self) -> None:
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def group_queries(scan: Scan) -> Scan:
    """The scan with the rows of every query one after the other. Memory: the rows of one bucket."""
    files = scan.files
    folder = Folder(Path(tempfile.mkdtemp(prefix="corank-")), files)
    size = sum(file.size * (GZIP_FACTOR if file.path.endswith(".gz") else 1) for file in files)
    n_buckets = min(MAX_BUCKETS, size // BUCKET_BYTES + 1)
    _divide(scan, folder.path, n_buckets)
    for path in sorted(folder.path.glob("*.bucket")):
        _sort(path, scan)
    buckets, _ = find_files(folder.path, "parquet")
    return replace(scan, source=ParquetSource(buckets, scan.chunk_rows), kept=folder)


def _divide(scan: Scan, folder: Path, n_buckets: int) -> None:
    """Write every row to one of the buckets, by its query."""
    writers: dict[int, Any] = {}
    schema: pa.Schema | None = None
    every_row = (
        rows
        for unit in scan.source.units
        for rows in scan.source.read(unit, scan.roles, scan.chunk_rows)
    )
    with progress_bar("grouping queries", scan.n_rows) as advance:
        try:
            for rows in every_row:
                table = _table(rows, scan)
                schema = schema or table.schema
                table = cast_like(table, schema)
                run_buckets = (rows.runs.ids * HASH_FACTOR >> np.uint64(40)) % np.uint64(n_buckets)
                row_buckets = run_buckets[rows.runs.codes(rows.n_rows)]
                for bucket in np.unique(run_buckets).tolist():
                    if bucket not in writers:
                        writers[bucket] = parquet.ParquetWriter(
                            folder / f"{bucket:03}.bucket", schema
                        )
                    writers[bucket].write_table(
                        table.take(pa.array(np.flatnonzero(row_buckets == bucket)))
                    )
                advance(rows.n_rows)
        finally:
            for writer in writers.values():
                writer.close()


def _table(rows: RawRows, scan: Scan) -> pa.Table:
    """Rows as a table again, with query labels of one type for all files."""
    roles = scan.roles
    assert roles.query is not None
    features: Any = rows.features
    if isinstance(features, np.ndarray):
        features = pa.table(
            {name: features[:, column] for column, name in enumerate(roles.features or ())}
        )
    columns = {} if rows.extra is None else columns_of(rows.extra)
    columns |= columns_of(features)
    if roles.score is not None:
        columns[roles.score] = pa.array(rows.scores)
    codes = rows.runs.codes(rows.n_rows)
    labels = rows.runs.labels.take(pa.array(codes))
    wide = LABEL_TYPES.get(label_kind(labels.type), labels.type)
    columns[roles.query] = labels.cast(wide)
    return pa.table(columns)


def _sort(path: Path, scan: Scan) -> None:
    """Sort a bucket by query, in the order in which queries first appear."""
    table = parquet.ParquetFile(path).read()
    labels = table.column(scan.roles.query).combine_chunks()
    codes = np.asarray(labels.dictionary_encode().indices)  # in the order of their first appearance
    order = np.argsort(codes, kind="stable")
    parquet.write_table(
        table.take(pa.array(order)), path.with_suffix(".parquet"), row_group_size=scan.chunk_rows
    )
    path.unlink()
