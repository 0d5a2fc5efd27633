"""`scan`: what it is asked for, checked, becomes a `Scan` of files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pyarrow as pa

from corank._backend import check_device
from corank.encoder import TableEncoder
from corank.scans.files import find_files
from corank.scans.scanning import CHUNK_BYTES, CHUNK_ROWS, Scan
from corank.scans.sources import Source, Wanted
from corank.scans.svmlight import SvmlightSource
from corank.scans.tabular import ParquetSource, SeparatedSource
from corank.tables import TableError, near_names


def scan(
    paths: Any,
    *,
    features: Any = None,
    score: str | None = None,
    query: str | None = None,
    format: str | None = None,
    device: str | None = None,
    chunk_rows: int | None = None,
    shuffle_queries: bool = False,
    encoder: TableEncoder | None = None,
    client: Any = None,
) -> Scan:
    """Rows of files that need not fit into memory, to hand to `fit`, `unscored=`, `predict`, `predict_to` and `score`.

    Footers and headers of all files are checked here; rows are read when a learner passes over them.

    Parameters
    ----------
    paths : path, folder, pattern such as ``"rows/*.parquet"``, or a list of those
        Parquet (folders such as `year=2024`, below what is given or matched by a pattern, name a column), CSV as `corank.tables` reads it (`.gz` too), SVMlight or
        LETOR. Files of a folder or pattern come in the order of their names.
    features : list of names and patterns, default=None
        Columns to learn from; None takes all but score and query, or those that a fitted model knows. For SVMlight
        a number: how many features there are (None reads the files once to find out).
    score : str, default=None
        Column of scores; empty = unscored. ``"score"`` for SVMlight.
    query : str, default=None
        Column that says which rows compete; rows of a query must follow each other, also over chunks and files.
        ``"qid"`` for SVMlight.
    format : "parquet", "csv" or "svmlight", default=None
        None goes by the ending.
    device : str, default=None
        Where to compute, such as "cuda"; needs torch.
    chunk_rows : int, default=None
        Rows that are worked on together; None takes about 32 MB of features (half of that in single precision).
    shuffle_queries : bool, default=False
        Bring the rows of each query together first: one more pass, which writes the columns that are needed to a
        temporary folder. The rows then count in the new order.
    encoder : TableEncoder, default=None
        Fitted; turns text, dates and missing values into features.
    client : dask.distributed.Client, default=None
        Passes run on its workers, which must see the files under the same names.

    Returns
    -------
    Scan

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pyarrow import parquet
    >>> from corank import RankRLS, scan
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> table = pa.table({"a": [0.0, 1.0, 2.0, 3.0] * 50, "s": [0.0, 1.0, 2.0, 3.0] * 50, "q": list(range(50)) * 4})
    >>> parquet.write_table(table.sort_by("q"), folder / "rows.parquet")
    >>> rows = scan(folder, score="s", query="q")
    >>> float(RankRLS(kernel="linear", basis="features").fit(rows).score(rows))
    1.0
    """
    _check_kinds(score, query, encoder, client)
    files, kind = find_files(paths, format)
    limit = _check_chunk_rows(chunk_rows)
    if kind == "svmlight":
        source: Source = SvmlightSource(files, features if isinstance(features, int) else None)
        features = None if isinstance(features, int) else features
    elif kind == "csv":
        texts = [] if encoder is None else encoder.text_columns
        source = SeparatedSource(files, [*texts, *(name for name in (query,) if name is not None)])
    else:
        source = ParquetSource(files, limit or CHUNK_ROWS[1])
    names = _feature_columns(source, features, (score, query), encoder)
    wanted = Wanted(tuple(names), score, query, as_table=encoder is not None)
    source.check(wanted)
    width = len(names) if encoder is None else len(encoder.get_feature_names_out())
    rows = limit or int(np.clip(CHUNK_BYTES // (8 * max(width, 1)), *CHUNK_ROWS))
    if isinstance(source, ParquetSource) and limit is None:
        source = ParquetSource(files, rows)
    if device is not None:
        check_device(device)
    result = Scan(source, wanted, rows, encoder, device=device, client=client, chosen=features is not None)
    if not shuffle_queries:
        return result
    if query is None:
        raise ValueError("shuffle_queries=True needs a query column: query=")
    if client is not None:
        raise ValueError("shuffle_queries=True goes without client=; group the rows once and scan the result")
    from corank.scans.grouping import grouped

    return grouped(result)


def _check_kinds(score: Any, query: Any, encoder: Any, client: Any) -> None:
    for name, value in (("score", score), ("query", query)):
        if not isinstance(value, str | None):
            raise TypeError(f"{name} must be the name of a column, got {value!r}")
    if not isinstance(encoder, TableEncoder | None):
        raise TypeError(f"encoder must be a fitted TableEncoder, got {encoder!r}")
    if client is not None and not hasattr(client, "status"):
        raise TypeError(f"client must be a dask.distributed.Client, got {client!r}")


def _check_chunk_rows(chunk_rows: Any) -> int | None:
    if chunk_rows is None:
        return None
    if isinstance(chunk_rows, bool) or not isinstance(chunk_rows, int | np.integer) or chunk_rows < 1:
        raise ValueError(f"chunk_rows must be a whole number from 1, got {chunk_rows!r}")
    return int(chunk_rows)


def _feature_columns(
    source: Source, features: Any, others: Sequence[str | None], encoder: TableEncoder | None
) -> list[str]:
    """The names of the feature columns; text is refused unless there is an encoder."""
    if encoder is not None:
        if features is not None:
            raise ValueError("features does not go with encoder, which knows its columns")
        return [column.name for column in encoder.columns_ if not column.dropped]
    if features is not None:
        return _matching(source, features, others)
    names = [name for name in source.names if name not in others]
    known = set(source.number_columns())
    texts = [name for name in names if name not in known]
    if texts:
        listed = ", ".join(map(repr, texts[:5])) + (" …" if len(texts) > 5 else "")
        raise TableError(
            f"columns without numbers: {listed}; name the features, or turn text into numbers with encoder="
        )
    if not names:
        raise TableError("no column is left as a feature")
    return names


def _matching(source: Source, features: Any, others: Sequence[str | None]) -> list[str]:
    if not isinstance(features, Iterable):
        raise TypeError(f"features must be names or patterns of columns, got {features!r}")
    patterns = [features] if isinstance(features, str) else list(features)
    if not patterns:
        raise ValueError("features is empty: name at least one column, or leave it out to take all")
    chosen: list[str] = []
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise TypeError(f"features must be names or patterns of columns, got {pattern!r}")
        if pattern in source.names:
            chosen.append(pattern)
            continue
        found = [name for name in source.names if fnmatchcase(name, pattern) and name not in others]
        if not found:
            near = near_names(pattern, source.names)
            guess = f"; did you mean {near[0]!r}?" if near else ""
            raise TableError(f"features: no column is called {pattern!r}{guess}")
        chosen += found
    for name in others:
        if name is not None and name in chosen:
            raise TableError(f"column {name!r} is the score or the query: it cannot be a feature too")
    return list(dict.fromkeys(chosen))


def sampled_table(paths: Any, n_rows: int, text: Sequence[str] = ()) -> Any:
    """About `n_rows` rows with all columns, from the beginnings of at most ten files; None for SVMlight."""
    files, kind = find_files(paths, None)
    if kind == "svmlight":
        return None
    source: Any = SeparatedSource(files, text) if kind == "csv" else ParquetSource(files, n_rows)
    if not source.units:
        raise TableError("the files have no rows")
    units = [source.units[int(k)] for k in np.unique(np.linspace(0, len(source.units) - 1, 10).astype(int))]
    everything = Wanted(tuple(source.names), None, None, as_table=True)
    source.check(everything)
    found: list[Any] = [next(source.read(unit, everything, -(-n_rows // len(units)))).features for unit in units]
    for unit, part in zip(units, found, strict=True):
        for name, kind in zip(part.column_names, part.schema.types, strict=True):
            first = found[0].schema.field(name).type
            if not _mixable(kind, first):
                paths = f"{unit.file.path} and {first} in {units[0].file.path}"
                raise TableError(f"column {name!r} holds {kind} in {paths}; make them alike, or leave it out")
    return pa.concat_tables(found, promote_options="permissive")


def _mixable(kind: Any, other: Any) -> bool:
    """Whether columns of these types make one."""
    try:
        pa.unify_schemas([pa.schema([("", own)]) for own in (kind, other)], promote_options="permissive")
    except pa.ArrowException:
        return False
    return True


def with_extra(rows: Scan, names: Sequence[str]) -> Scan:
    """The same rows with other columns carried along."""
    own = replace(rows.wanted, extra=tuple(names))
    gone = [name for name in names if name not in rows.columns]
    if gone and rows.kept is not None:
        raise TableError(
            f"column {gone[0]!r} cannot be carried along: shuffle_queries=True keeps features, score and query only; "
            "sort the files by query and scan them without it"
        )
    rows.source.check(own)
    return replace(rows, wanted=own)
