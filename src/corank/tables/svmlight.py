"""SVMlight and LETOR: `score qid:3 1:0.5 2:0.1 # note`, one row a line; features that are not named are 0.

As a table the columns are `score`, `qid` where the lines have one, and the features `1`, `2`, …; a score of nan is none.
"""

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_svmlight_file

from corank.tables.columns import TableError

SCORE, QUERY = "score", "qid"
LARGEST_TABLE = 2**28  # numbers, 2 GB
_LAST_FEATURE = re.compile(rb"(\d+):[^\s:#]+\s*(?:#[^\n]*)?(?:\n|\Z)")
_MARK = {b"corank": b"svmlight"}


def read_svmlight(path: Path) -> pa.Table:
    """A file as a table of numbers."""
    with_queries, n_features = has_queries(path), last_feature(path)
    lines = next(lines_of(path, None))
    if len(lines) * n_features > LARGEST_TABLE:
        raise TableError(
            f"{path} has {len(lines):,} rows of {n_features:,} features, too many for a table in memory: give it in a "
            "folder, which is read in passes"
        )
    try:
        X, scores, queries = parsed_lines(lines, n_features)
    except ValueError as error:
        raise TableError(f"{path} is no svmlight file: {error}") from error
    if with_queries and len(queries) != len(scores):
        raise TableError(f"{path}: some lines have no qid:")
    columns = {SCORE: scores, **({QUERY: queries} if with_queries else {})}
    dense = X.toarray(order="F")
    columns |= {str(number + 1): dense[:, number] for number in range(n_features)}
    return pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()}, metadata=_MARK)


def with_zeros(table: pa.Table, names: Any) -> pa.Table:
    """A table from such a file with those features at 0 that no line of it has; any other table as it is."""
    if (table.schema.metadata or {}).get(b"corank") != b"svmlight":
        return table
    for name in names:
        if name not in table.column_names and str(name).isdecimal():
            table = table.append_column(str(name), pa.array(np.zeros(len(table))))
    return table


def parsed_lines(lines: list[bytes], n_features: int) -> tuple[Any, Any, Any]:
    """Lines as features (n, n_features) in CSR, scores (n,) and query labels (n,) or fewer; else a ValueError."""
    try:
        found: tuple[Any, Any, Any] = load_svmlight_file(
            io.BytesIO(b"".join(lines)), n_features=n_features, query_id=True, zero_based=False
        )
    except OverflowError as error:
        raise ValueError(str(error)) from error
    return found


def lines_of(path: Path, number: int | None) -> Iterator[list[bytes]]:
    """Lines that hold a row, so many at a time; None for all of them."""
    lines: list[bytes] = []
    try:
        with _opened(path) as opened:
            for line in opened:
                if line.split(b"#", 1)[0].strip():
                    lines.append(line)
                if len(lines) == number:
                    yield lines
                    lines = []
    except (OSError, EOFError, zlib.error) as error:
        raise TableError(f"{path} cannot be read, it may be damaged or cut off: {error}") from error
    if lines:
        yield lines


def has_queries(path: Path) -> bool:
    """Whether the first row names its query; refuses a file that begins otherwise."""
    for lines in lines_of(path, 1):
        words = lines[0].split()
        try:
            float(words[0])
        except ValueError:
            raise TableError(f"{path} is no svmlight file: it begins with {lines[0][:40]!r}") from None
        return len(words) > 1 and words[1].startswith(b"qid:")
    raise TableError(f"{path} has no rows")


def last_feature(path: Path) -> int:
    """The highest number of a feature."""
    highest = 0
    with _opened(path) as opened:
        while block := opened.read(2**24):
            block += opened.readline()
            highest = max(highest, *map(int, _LAST_FEATURE.findall(block)), 0)
    return highest


def _opened(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")
