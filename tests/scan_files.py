"""Small tables on disk for the tests of scans."""

import gzip
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.csv
from pyarrow import parquet

import corank

NAMES = [f"x{k}" for k in range(6)]


def make_rows(n=240, scored=0.4, seed=0, size=8):
    """Features (n, 6), scores with NaN, query codes in runs of about `size`."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(NAMES)))
    y = X[:, 0] + np.sin(X[:, 1]) + X[:, 3] + 0.2 * rng.normal(size=n)
    y[rng.random(n) > scored] = np.nan
    lengths = rng.integers(1, 2 * size, size=n)
    qid = np.repeat(rng.permutation(n), lengths)[:n]
    return X, y, qid


def table(X, y=None, qid=None):
    columns = dict(zip(NAMES, X.T, strict=True))
    if y is not None:
        columns["y"] = pa.array(y, from_pandas=True)
    if qid is not None:
        columns["q"] = pa.array(qid)
    return pa.table(columns)


def scan(paths, chunk_rows=None, **options):
    """A scan, of which so few rows are worked on together as if there were many columns."""
    if chunk_rows is None:
        return corank.scan(paths, **options)
    with patch("corank.streaming.scan.usual_chunk_rows", lambda n_columns: chunk_rows):
        return corank.scan(paths, chunk_rows=chunk_rows, **options)


def write_parts(rows, folder, ends=(), kind="parquet", row_group_size=50):
    """A table cut into files."""
    folder.mkdir(parents=True, exist_ok=True)
    bounds = [0, *ends, rows.num_rows]
    for number, (begin, end) in enumerate(pairwise(bounds)):
        part, path = rows.slice(begin, end - begin), folder / f"part-{number:03}"
        if kind == "parquet":
            parquet.write_table(part, f"{path}.parquet", row_group_size=row_group_size)
        elif part.num_rows and kind == "csv":
            pyarrow.csv.write_csv(part, f"{path}.csv")
        elif part.num_rows and kind == "csv.gz":
            with gzip.open(f"{path}.csv.gz", "wb") as file:
                pyarrow.csv.write_csv(part, file)
        elif part.num_rows and kind == "svmlight":
            write_svmlight(part, f"{path}.svm")
    return folder


def write_svmlight(part, path):
    lines = []
    for row in part.to_pylist():
        score = "nan" if row.get("y") is None else repr(row["y"])
        query = f" qid:{row['q']}" if "q" in row else ""
        values = " ".join(f"{k + 1}:{row[name]!r}" for k, name in enumerate(NAMES))
        lines.append(f"{score}{query} {values} # a note\n")
    Path(path).write_text("".join(lines))
