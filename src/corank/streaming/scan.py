"""Scans: more rows than memory, in chunks that are read ahead. `scan` makes a `Scan` of files."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from corank.core.arrays import Index, check_device, digest, is_foreign, is_sparse
from corank.core.messages import did_you_mean
from corank.core.views import match_columns
from corank.encode.encoder import TableEncoder
from corank.inputs import is_frame
from corank.streaming.chunks import Chunk, Cursor, check_finite
from corank.streaming.sources import (
    CsvSource,
    File,
    ParquetSource,
    RawRows,
    Roles,
    Source,
    SvmlightSource,
    find_files,
)
from corank.tables import TableError
from corank.tables.read import DOCUMENT, QUERY, SCORE

CHUNK_BYTES = 2**25  # of the features of one chunk, as float64
CHUNK_ROWS = (2**12, 2**16)  # the least and the most …
MAX_CHUNK_BYTES = 2**28  # … but fewer where so many rows of features would take more
FIRST_ROWS = 64  # that show what maps make of the features
SAMPLED_FILES = 10  # at most, from which a sample is read
MAX_LISTED_COLUMNS = 5

Item = TypeVar("Item")


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
    """Rows of files that need not fit into memory, to hand to `fit`, `unscored=`, `predict`,
    `predict_to` and `score`.

    Footers and headers of all files are checked here; rows are read when a learner passes over
    them.

    Parameters
    ----------
    paths : path, folder, pattern such as ``"rows/*.parquet"``, or a list of those
        Parquet, CSV as `corank.tables` reads it (also `.gz`), SVMlight or LETOR. Folders such as
        `year=2024`, inside the folder that is given or matched by a pattern, name a column. Files
        of a folder or pattern come in the order of their names.
    features : list of names and patterns, default=None
        Columns to learn from; None takes all but score and query, or those that a fitted model
        knows. For SVMlight a number: how many features there are (None reads the files once to find
        out).
    score : str, default=None
        Column of scores; empty = unscored. ``"score"`` for SVMlight.
    query : str, default=None
        Column that says which rows compete; rows of a query must follow each other, also over
        chunks and files. ``"qid"`` for SVMlight.
    format : "parquet", "csv" or "svmlight", default=None
        None goes by the ending.
    device : str, default=None
        Where to compute, such as "cuda"; needs torch.
    chunk_rows : int, default=None
        Rows that are decoded at a time, of Parquet files. What is worked on together follows from
        the number of columns: about 32 MB of features, at most 65,536 rows. So results do not depend
        on `chunk_rows`, nor on the number of workers, in a single bit.
    shuffle_queries : bool, default=False
        Bring the rows of each query together first: one more pass, which writes the columns that
        are needed to a temporary folder. The rows then count in the new order.
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
    _check_arguments(score, query, encoder, client, chunk_rows)
    files, kind = find_files(paths, format)
    if kind == "svmlight":
        n_features = features if isinstance(features, int) else None
        source: Source = SvmlightSource(files, n_features)
        features = features if n_features is None else None
    elif kind == "csv":
        texts = [] if encoder is None else list(encoder.text_columns)
        source = CsvSource(files, texts if query is None else [*texts, query])
    else:
        source = ParquetSource(files, chunk_rows or CHUNK_ROWS[1])
    others = (SCORE, QUERY, DOCUMENT) if kind == "svmlight" else (score, query)
    names = _feature_columns(source, features, others, encoder)
    roles = Roles(tuple(names), score, query, as_table=encoder is not None)
    source.check(roles)
    chunk_rows = usual_chunk_rows(
        len(names) if encoder is None else len(encoder.get_feature_names_out())
    )
    if isinstance(source, ParquetSource):
        source.bundle(chunk_rows)
    if device is not None:
        check_device(device)
    result = Scan(
        source,
        roles,
        chunk_rows,
        encoder,
        device=device,
        client=client,
        chosen=features is not None,
    )
    if not shuffle_queries:
        return result
    if query is None:
        raise ValueError("shuffle_queries=True needs a query column: query=")
    if client is not None:
        raise ValueError(
            "shuffle_queries=True goes without client=; group the rows once and scan the result"
        )
    from corank.streaming.group_queries import group_queries

    return group_queries(result)


def usual_chunk_rows(n_columns: int) -> int:
    """Rows per chunk of about `CHUNK_BYTES` of features."""
    row_bytes = 8 * max(n_columns, 1)
    return min(
        int(np.clip(CHUNK_BYTES // row_bytes, *CHUNK_ROWS)), max(MAX_CHUNK_BYTES // row_bytes, 1)
    )


def _check_arguments(score: Any, query: Any, encoder: Any, client: Any, chunk_rows: Any) -> None:
    for name, value in (("score", score), ("query", query)):
        if not isinstance(value, str | None):
            raise TypeError(f"{name} must be the name of a column, got {value!r}")
    if not isinstance(encoder, TableEncoder | None):
        raise TypeError(f"encoder must be a fitted TableEncoder, got {encoder!r}")
    if client is not None and not hasattr(client, "status"):
        raise TypeError(f"client must be a dask.distributed.Client, got {client!r}")
    whole = isinstance(chunk_rows, int | np.integer) and not isinstance(chunk_rows, bool)
    if chunk_rows is not None and not (whole and chunk_rows >= 1):
        raise ValueError(f"chunk_rows must be a whole number from 1, got {chunk_rows!r}")


def _feature_columns(
    source: Source, features: Any, others: Sequence[str | None], encoder: TableEncoder | None
) -> list[str]:
    """The names of the feature columns; `others` are score and query. Text is refused unless there
    is an encoder.
    """
    if encoder is not None:
        if features is not None:
            raise ValueError("features does not go with encoder, which knows its columns")
        return [column.name for column in encoder.columns_ if not column.dropped]
    names = [name for name in source.names if name not in others]
    if features is not None:
        return _named_features(features, names, others)
    numeric = set(source.number_columns())
    texts = [name for name in names if name not in numeric]
    if texts:
        listed = ", ".join(map(repr, texts[:MAX_LISTED_COLUMNS]))
        listed += " …" if len(texts) > MAX_LISTED_COLUMNS else ""
        raise TableError(
            f"columns without numbers: {listed}; name the features, or turn text into numbers with"
            " encoder="
        )
    if not names:
        raise TableError("no column is left to learn from")
    return names


def _named_features(features: Any, names: list[str], others: Sequence[str | None]) -> list[str]:
    if not isinstance(features, Iterable):
        raise TypeError(f"features must be names or patterns of columns, got {features!r}")
    patterns = [features] if isinstance(features, str) else list(features)
    if not patterns:
        raise ValueError("features is empty: name at least one column, or leave it out to take all")
    chosen: dict[str, None] = {}
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise TypeError(f"features must be names or patterns of columns, got {pattern!r}")
        if pattern in others:
            raise TableError(
                f"column {pattern!r} is the score or the query: it cannot be a feature too"
            )
        positions = match_columns(pattern, names)
        if not positions:
            raise TableError(
                f"features: no column matches {pattern!r}{did_you_mean(pattern, names)}"
            )
        chosen |= dict.fromkeys(names[position] for position in positions)
    return list(chosen)


@dataclass(frozen=True)
class Scan:
    """Rows in files that are read chunk by chunk: see `scan`.

    chunk_rows : of a chunk, counted from the beginning of its unit
    maps : functions that the features of every chunk pass through
    chosen : whether the features were named; unnamed : whether columns have no names
    only : (n,) numbers of the rows that are read, rising; None for all
    kept : temporary folder that lives as long as the scan
    """

    is_scan: ClassVar[bool] = True

    source: Source
    roles: Roles
    chunk_rows: int
    encoder: TableEncoder | None = None
    maps: tuple[Callable[[Any], Any], ...] = ()
    device: str | None = None
    client: Any = None
    chosen: bool = False
    unnamed: bool = False
    only: Index | None = field(default=None, repr=False)
    kept: Any = field(default=None, repr=False)

    # ---- columns and rows

    @property
    def columns(self) -> list[str]:
        """The names of all columns of the files."""
        return self.source.names

    @property
    def has_queries(self) -> bool:
        """Whether a query column was named."""
        return self.roles.query is not None

    @property
    def n_rows(self) -> int | None:
        """Number of rows, None where only reading tells (CSV, SVMlight)."""
        counts = [unit.n_rows for unit in self.source.units]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def finds_rows(self) -> bool:
        """Whether single rows can be read without what lies before them: see `picking`."""
        return isinstance(self.source, ParquetSource)

    @property
    def files(self) -> list[File]:
        """The files that were given."""
        if self.kept is not None:
            return list(self.kept.files)
        return list(dict.fromkeys(unit.file for unit in self.source.units))

    @cached_property
    def feature_names(self) -> list[str] | None:
        """The names of the features that a learner sees; None where a map gives none."""
        if self.maps:
            return self._first_mapped[1]
        if self.unnamed:
            return None
        if self.encoder is not None:
            return [str(name) for name in self.encoder.get_feature_names_out()]
        return list(self.roles.features or ())

    @cached_property
    def n_features(self) -> int:
        """The number of features that a learner sees."""
        if self.unnamed and not self.maps:
            return len(self.roles.features or ())
        if self.feature_names is not None:
            return len(self.feature_names)
        values, _ = self._first_mapped
        return int(values.shape[1])

    @cached_property
    def _first_mapped(self) -> tuple[Any, list[str] | None]:
        """Features and names that encoder and maps make of the first rows."""
        for unit in self.source.units:
            for rows in self.source.read(unit, self.roles, min(self.chunk_rows, FIRST_ROWS)):
                return self._mapped(rows)
        raise TableError("the files have no rows")

    def map(self, f: Callable[[Any], Any]) -> Scan:
        """The scan whose features (n, d) of every chunk pass through `f` → (n, d′), row by row.

        For instance ``scan(...).map(scaler.transform)``. A function that looks at other rows of the
        chunk would make the model depend on where chunks end.
        """
        if not callable(f):
            raise TypeError(f"map needs a function of the features, got {f!r}")
        return replace(self, maps=(*self.maps, f))

    def seen_by(self, learner: Any) -> Scan:
        """The scan with the features that a learner was fitted on, in its order.

        Features that were not named are picked by the names of the learner; those that were must be
        the same.
        """
        names = learner.feature_names
        n_features = learner.n_features_in_
        is_open = not (self.chosen or self.unnamed or self.maps) and self.encoder is None
        if names is not None and is_open:
            roles = replace(self.roles, features=tuple(map(str, names)))
            self.source.check(roles)
            return replace(self, roles=roles)
        fitted = type(learner).__name__
        given = self.feature_names
        if names is not None and given is not None and list(names) != given:
            missing = [name for name in names if name not in given]
            difference = f"{missing[0]!r} is missing" if missing else "their order differs"
            raise ValueError(
                f"the scan has other features than {fitted} was fitted on: {difference}."
            )
        if self.n_features != n_features:
            raise ValueError(
                f"the scan has {self.n_features} features, but {fitted} is expecting {n_features}."
            )
        return self

    def check_alone(self, arguments: Mapping[str, Any]) -> None:
        """Refuse arguments, by name, that the scan brings itself; and a scan without scores."""
        brought = {"y": "score=", "qid": "query="}
        for name, value in arguments.items():
            if value is not None and name in brought:
                raise ValueError(
                    f"{name} comes from the scan: name its column in scan(..., {brought[name]})."
                )
            if value is not None:
                raise ValueError(f"{name} does not go with a scan.")
        if self.roles.score is None:
            raise ValueError("the scan has no score column; name it in scan(..., score=).")

    # ---- reading

    def without_features(self, *, score: bool = True, query: bool = True) -> Scan:
        """The scan of score and query alone, or of one of them, or of neither; its chunks are those
        of the scan.
        """
        kept = self.roles.score if score else None, self.roles.query if query else None
        return replace(self, roles=Roles(None, *kept))

    def picking(self, numbers: Index) -> Scan:
        """The scan of the rows (n,) with the given numbers, rising; a chunk is what a unit holds of
        them.
        """
        assert self.finds_rows
        return replace(self, roles=replace(self.roles, score=None, query=None), only=numbers)

    @cached_property
    def _unit_ends(self) -> Index:
        """Numbers of rows up to the end of each unit, from 0: (units + 1,). For Parquet."""
        return np.cumsum([0, *(unit.n_rows or 0 for unit in self.source.units)])

    def picked_units(self) -> Index:
        """The numbers of the units of which rows are read."""
        units = np.arange(len(self.source.units))
        if self.only is None:
            return units
        picked = np.searchsorted(self.only, self._unit_ends)
        return units[np.diff(picked) > 0]

    @property
    def read_share(self) -> float:
        """The share of the rows that lie in units of which rows are read."""
        if self.only is None:
            return 1.0
        sizes = np.diff(self._unit_ends)
        return float(sizes[self.picked_units()].sum() / sizes.sum())

    def chunks(self, start: Cursor = (0, 0), first_row: int = 0) -> Generator[Chunk, None, None]:
        """The chunks from a cursor on, read ahead; `first_row` rows lie before it."""
        first_unit, skipped = start

        def read() -> Iterator[Chunk]:
            row = first_row
            for number in self.picked_units().tolist():
                if number < first_unit:
                    continue
                begun = skipped if number == first_unit else 0
                for chunk in self._read_unit(number, begun, row):
                    row += chunk.n_rows
                    yield chunk

        return read_ahead(read)

    def unit_chunks(
        self, number: int, first_row: int = 0, *, skipped: int = 0
    ) -> Generator[Chunk, None, None]:
        """The chunks of one unit but for the `skipped` first, read ahead; `first_row` rows lie
        before them.
        """
        return read_ahead(lambda: self._read_unit(number, skipped, first_row))

    def _read_unit(self, number: int, skipped: int, row: int) -> Iterator[Chunk]:
        for position, rows in enumerate(self._raw_rows(number), start=1):
            if position > skipped:
                yield Chunk(
                    self._features(rows),
                    self._on_device(rows.scores),
                    rows.runs,
                    row,
                    (number, position),
                    rows.place,
                    rows.extra,
                )
                row += rows.n_rows

    def _raw_rows(self, number: int) -> Iterator[RawRows]:
        """The rows of a unit in chunks."""
        unit = self.source.units[number]
        if self.only is None:
            yield from self.source.read(unit, self.roles, self.chunk_rows)
            return
        begin, end = self._unit_ends[number : number + 2]
        first, last = np.searchsorted(self.only, (begin, end))
        if first < last:
            assert isinstance(self.source, ParquetSource)
            rows = self.only[first:last] - begin
            yield self.source.read_rows(unit, self.roles, rows)

    def _features(self, rows: RawRows) -> Any:
        if self.roles.features is None:
            return np.empty((rows.n_rows, 0))
        values, _ = self._mapped(rows)
        if self.maps:
            width, first = values.shape[1], self._first_mapped[0].shape[1]
            if width != first:
                raise ValueError(
                    f"map gives {width} columns from {rows.place.of(0)} on, and {first} at first"
                )
        return self._on_device(values)

    def _mapped(self, rows: RawRows) -> tuple[Any, list[str] | None]:
        """Features (n, d) after encoder and maps, checked, and the names of their columns where a
        map gives a frame.
        """
        values: Any = rows.features
        if self.encoder is not None:
            values = self.encoder.transform(values)
        if not self.maps:
            return values, None
        for f in self.maps:
            values = f(values)
        names = [str(name) for name in values.columns] if is_frame(values) else None
        if is_sparse(values) or is_foreign(values):
            raise ValueError(
                "map must give NumPy arrays or frames; for another device use scan(..., device=)"
            )
        values = np.asarray(values)
        if values.ndim != 2 or len(values) != rows.n_rows:
            raise ValueError(
                f"map must give one row per row ({rows.n_rows}, d), got shape {values.shape}"
            )
        if values.dtype not in (np.float32, np.float64):
            values = values.astype(np.float64)
        check_finite(values, names, rows.place)
        return values, names

    def _on_device(self, values: Any) -> Any:
        if self.device is None or values is None:
            return values
        return import_module("torch").as_tensor(values, device=self.device)

    def reference(self) -> Any:
        """An empty array of the library and device to compute on."""
        return self._on_device(np.empty(0))

    # ---- descriptions

    def __repr__(self) -> str:
        files, roles = self.files, self.roles
        rows = "" if self.n_rows is None else f", {self.n_rows:,} rows"
        named = f", score {roles.score!r}" if roles.score else ""
        named += f", query {roles.query!r}" if roles.query else ""
        first = files[0].path if files else "files without rows"
        more = " …" if len(files) > 1 else ""
        return f"<scan of {first}{more}{rows}, {len(roles.features or ())} columns{named}>"

    def about(self) -> dict[str, Any]:
        """Everything that sums over the rows depend on, for a checkpoint."""
        maps = [getattr(f, "__qualname__", type(f).__qualname__) for f in self.maps]
        if maps:  # a name does not tell what a scaler has learned: the first rows do
            maps.append(digest(self._first_mapped[0]))
        encoder = None
        if self.encoder is not None:
            header, arrays = self.encoder.to_state()
            encoder = digest(header, *arrays.values())
        return {
            "files": [[file.path, file.size, file.changed, *file.keys] for file in self.files],
            "shuffle_queries": self.kept is not None,
            "features": list(self.roles.features or ()),
            "score": self.roles.score,
            "query": self.roles.query,
            "chunk_rows": self.chunk_rows,
            "encoder": encoder,
            "maps": maps,
            "device": self.device,
        }


def read_ahead(make: Callable[[], Iterator[Item]]) -> Generator[Item, None, None]:
    """The items of an iterator that runs in another thread, in order; at most one of them waits to
    be taken.
    """
    waiting: queue.Queue[tuple[Item | None, BaseException | None, bool]] = queue.Queue(1)
    stopped = threading.Event()

    def put(item: Item | None, error: BaseException | None = None, *, last: bool = False) -> None:
        while not stopped.is_set():
            try:
                waiting.put((item, error, last), timeout=0.1)
            except queue.Full:
                continue
            return

    def work() -> None:
        try:
            for item in make():
                put(item)
                if stopped.is_set():
                    return
            put(None, last=True)
        except BaseException as error:  # noqa: BLE001 - it is raised where the items are taken
            put(None, error)

    thread = threading.Thread(target=work, name="corank-reader", daemon=True)
    thread.start()
    try:
        while True:
            item, error, last = waiting.get()
            if error is not None:
                raise error
            if last:
                return
            yield item  # type: ignore[misc]
    finally:
        stopped.set()
        thread.join()


def with_extra(rows: Scan, names: Sequence[str]) -> Scan:
    """The scan with other columns carried along."""
    roles = replace(rows.roles, extra=tuple(names))
    missing = [name for name in names if name not in rows.columns]
    if missing and rows.kept is not None:
        raise TableError(
            f"column {missing[0]!r} cannot be carried along: shuffle_queries=True keeps features,"
            " score and query only; sort the files by query and scan them without it"
        )
    rows.source.check(roles)
    return replace(rows, roles=roles)


def sampled_table(paths: Any, n_rows: int, text: Sequence[str]) -> Any:
    """About `n_rows` rows with all columns, from the beginnings of at most ten files; None for
    SVMlight.
    """
    files, kind = find_files(paths, None)
    if kind == "svmlight":
        return None
    source = CsvSource(files, text) if kind == "csv" else ParquetSource(files, n_rows)
    if not source.units:
        raise TableError("the files have no rows")
    numbers = np.unique(np.linspace(0, len(source.units) - 1, SAMPLED_FILES).astype(int))
    units = [source.units[int(number)] for number in numbers]
    roles = Roles(tuple(source.names), None, None, as_table=True)
    source.check(roles)
    tables: list[Any] = [
        next(source.read(unit, roles, -(-n_rows // len(units)))).features for unit in units
    ]
    for unit, table in zip(units, tables, strict=True):
        for column in table.schema:
            first = tables[0].schema.field(column.name)
            try:
                pa.unify_schemas(
                    [pa.schema([column]), pa.schema([first])], promote_options="permissive"
                )
            except pa.ArrowException:
                places = f"{unit.file.path} and {first.type} in {units[0].file.path}"
                raise TableError(
                    f"column {column.name!r} holds {column.type} in {places}; use one type"
                    " everywhere, or leave it out"
                ) from None
    return pa.concat_tables(tables, promote_options="permissive")
