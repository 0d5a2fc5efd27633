"""A scan: more rows than memory, in chunks that are read ahead. How one is made of files is the business of `opening`.

`scan`: what it is asked for, checked, becomes a `Scan` of files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from corank._arrays import check_device, is_foreign, is_sparse
from corank.encoder import TableEncoder
from corank.rows import is_frame
from corank.streaming.chunks import Chunk, Cursor, check_finite
from corank.streaming.sources import (
    ParquetSource,
    Raw,
    SeparatedSource,
    Source,
    SvmlightSource,
    Unit,
    Wanted,
    find_files,
    read_ahead,
)
from corank.tables import TableError, near_names

CHUNK_BYTES = 2**25  # of the features of one chunk, as float64
CHUNK_ROWS = (2**12, 2**19)  # the least and the most


@dataclass(frozen=True)
class Scan:
    """Rows in files that are read chunk by chunk: see `scan`."""

    is_scan: ClassVar[bool] = True

    source: Source
    wanted: Wanted
    chunk_rows: int
    encoder: TableEncoder | None = None
    maps: tuple[Callable[[Any], Any], ...] = ()
    device: str | None = None
    client: Any = None
    chosen: bool = False  # whether the features were named
    unnamed: bool = False  # whether columns have no names of their own
    kept: Any = field(default=None, repr=False)  # folder that lives as long as the scan

    # ---------------------------------------------------------------- what it holds

    @property
    def columns(self) -> list[str]:
        """The names of all columns of the files."""
        return self.source.names

    @property
    def has_scores(self) -> bool:
        """Whether a score column was named."""
        return self.wanted.score is not None

    @property
    def has_queries(self) -> bool:
        """Whether a query column was named."""
        return self.wanted.query is not None

    @property
    def n_rows(self) -> int | None:
        """Number of rows, None where that is known only by reading (CSV, SVMlight)."""
        counts = [unit.n_rows for unit in self.source.units]
        return None if any(count is None for count in counts) else sum(count or 0 for count in counts)

    @cached_property
    def feature_names(self) -> list[str] | None:
        """The names of the features that a learner sees; None where a map gives none."""
        if self.unnamed and not self.maps:
            return None
        if self.encoder is None and not self.maps:
            return list(self.wanted.features or ())
        if self.encoder is not None and not self.maps:
            return [str(name) for name in self.encoder.get_feature_names_out()]
        return self._first[1]

    @cached_property
    def n_features(self) -> int:
        """The number of features that a learner sees."""
        if self.unnamed and not self.maps:
            return len(self.wanted.features or ())
        names = self.feature_names
        return self._first[0] if names is None else len(names)

    @cached_property
    def _first(self) -> tuple[int, list[str] | None]:
        """Width and names of what the maps make of the first rows."""
        return self._of_first_rows()[1:]

    def _of_first_rows(self) -> tuple[Any, int, list[str] | None]:
        """What encoder and maps make of the first rows."""
        for unit in self.source.units:
            for raw in self.source.read(unit, self.wanted, min(self.chunk_rows, 64)):
                return self._mapped(self._encoded(raw), raw)
        raise TableError("the files have no rows")

    def map(self, f: Callable[[Any], Any]) -> Scan:
        """The same rows, their features (n, d) of every chunk passed through `f` → (n, d′), row by row.

        For instance ``scan(...).map(scaler.transform)``. A function that looks at other rows of the chunk would make
        the model depend on where chunks end.
        """
        if not callable(f):
            raise TypeError(f"map needs a function of the features, got {f!r}")
        return replace(self, maps=(*self.maps, f))

    def seen_by(self, names: Sequence[str] | None, n_features: int, learner: str) -> Scan:
        """The same rows with the features that a model was fitted on, in its order.

        Where the features were not named they are picked by the model's names; else they must be the same.
        """
        if names is not None and not (self.chosen or self.unnamed) and self.encoder is None and not self.maps:
            own = replace(self.wanted, features=tuple(str(name) for name in names))
            self.source.check(own)
            return replace(self, wanted=own)
        found = self.feature_names
        if names is not None and found is not None and list(names) != found:
            missing = [name for name in names if name not in found]
            what = f"{missing[0]!r} is missing" if missing else "their order differs"
            raise ValueError(f"the scan has other features than {learner} was fitted on: {what}.")
        if self.n_features != n_features:
            raise ValueError(f"the scan has {self.n_features} features, but {learner} is expecting {n_features}.")
        return self

    # ---------------------------------------------------------------- reading

    def chunks(
        self, start: Cursor = (0, 0), first_row: int = 0, *, features: bool = True
    ) -> Generator[Chunk, None, None]:
        """The chunks from a cursor on, read ahead; before it lie `first_row` rows."""
        return read_ahead(lambda: self._read(start, first_row, features=features))

    def unit_chunks(
        self, number: int, first_row: int = 0, *, skipped: int = 0, features: bool = True
    ) -> Generator[Chunk, None, None]:
        """The chunks of one unit but for the first few."""
        unit = self.source.units[number]
        return read_ahead(lambda: self._read_unit(number, unit, skipped, first_row, features=features))

    def _read(self, start: Cursor, row: int, *, features: bool) -> Iterator[Chunk]:
        first, skipped = start
        for number in range(first, len(self.source.units)):
            unit = self.source.units[number]
            for chunk in self._read_unit(number, unit, skipped if number == first else 0, row, features=features):
                row += chunk.n_rows
                yield chunk

    def _read_unit(self, number: int, unit: Unit, skipped: int, row: int, *, features: bool) -> Iterator[Chunk]:
        wanted = self.wanted if features else replace(self.wanted, features=None)
        for position, raw in enumerate(self.source.read(unit, wanted, self.chunk_rows)):
            if position < skipped:
                continue
            values = self._features(raw) if features else np.empty((raw.n_rows, 0))
            scores = self._placed(raw.scores)
            yield Chunk(values, scores, raw.runs, row, (number, position + 1), raw.place, raw.extra)
            row += raw.n_rows

    def _features(self, raw: Raw) -> Any:
        values, width, _ = self._mapped(self._encoded(raw), raw)
        if self.maps and width != self._first[0]:
            raise ValueError(f"map gives {width} columns from {raw.place.of(0)} on, and {self._first[0]} at first")
        return self._placed(values)

    def _encoded(self, raw: Raw) -> Any:
        return raw.features if self.encoder is None else self.encoder.transform(raw.features)

    def _mapped(self, values: Any, raw: Raw) -> tuple[Any, int, list[str] | None]:
        """What the maps make of features, checked: (n, d), d, the names of the columns."""
        names: list[str] | None = None
        if self.maps:
            for f in self.maps:
                values = f(values)
            names = [str(name) for name in values.columns] if is_frame(values) else None
            if is_sparse(values) or is_foreign(values):
                raise ValueError("map must give NumPy arrays or frames; for another device use scan(..., device=)")
            values = np.asarray(values)
            if values.ndim != 2 or len(values) != raw.n_rows:
                raise ValueError(f"map must give one row a row ({raw.n_rows}, d), got shape {values.shape}")
            if values.dtype not in (np.float32, np.float64):
                values = values.astype(np.float64)
            check_finite(values, names, raw.place)
        return values, int(values.shape[1]), names

    def _placed(self, values: Any) -> Any:
        """Values on the device."""
        if self.device is None or values is None:
            return values
        return import_module("torch").as_tensor(values, device=self.device)

    def reference(self) -> Any:
        """An empty array of the library and device that is computed on."""
        return self._placed(np.empty(0))

    # ---------------------------------------------------------------- what it is

    def _files(self) -> list[Any]:
        if self.kept is not None:  # a temporary folder, made from these
            return list(self.kept.files)
        return list(dict.fromkeys(unit.file for unit in self.source.units))

    def _about_maps(self) -> list[str]:
        """The names of the maps, and what they make of the first rows: a name says nothing of what a scaler has learned."""
        if not self.maps:
            return []
        values = np.ascontiguousarray(self._of_first_rows()[0])
        names = [getattr(f, "__qualname__", type(f).__qualname__) for f in self.maps]
        return [*names, hashlib.sha256(values.tobytes()).hexdigest()]

    def __repr__(self) -> str:
        files, wanted = self._files(), self.wanted
        rows = "" if self.n_rows is None else f", {self.n_rows:,} rows"
        roles = "".join(
            f", {role} {name!r}" for role, name in (("score", wanted.score), ("query", wanted.query)) if name
        )
        first = files[0].path if files else "files without rows"
        return f"<scan of {first}{' …' if len(files) > 1 else ''}{rows}, {len(wanted.features or ())} columns{roles}>"

    def about(self) -> dict[str, Any]:
        """What a checkpoint remembers of it: other rows or columns would give other sums."""
        return {
            "files": [[file.path, file.size, file.changed, *file.keys] for file in self._files()],
            "shuffle_queries": self.kept is not None,
            "features": list(self.wanted.features or ()),
            "score": self.wanted.score,
            "query": self.wanted.query,
            "chunk_rows": self.chunk_rows,
            "encoder": None if self.encoder is None else _digest(self.encoder),
            "maps": self._about_maps(),
            "device": self.device,
        }


def _digest(encoder: TableEncoder) -> str:
    header, arrays = encoder.to_state()
    text = json.dumps([header, {name: array.tolist() for name, array in arrays.items()}], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


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
    from corank.streaming.group_queries import grouped

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
