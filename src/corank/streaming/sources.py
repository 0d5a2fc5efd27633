"""Reading ahead: the next chunks are read while the last one is worked on.

Which files a scan reads: names, folders and patterns → files of one kind, each with its size and time.

What a scan needs of a kind of file: which columns there are, and the rows of a stretch of a file, piece by piece.

SVMlight and LETOR: `score qid:3 1:0.5 2:0.1 # note`, one row a line. Features that are not named are 0.

Parquet and CSV: files with named columns. Footers and headers of all files are checked before any row is read.
"""

from __future__ import annotations

import glob
import os
import queue
import re
import threading
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
from pyarrow import parquet

from corank.streaming.chunks import (
    Place,
    Runs,
    check_finite,
    feature_matrix,
    feature_type,
    label_kind,
    one_run,
    runs_of,
    scores_of,
)
from corank.tables import (
    MISSING,
    PARQUET,
    SEPARATORS,
    SVMLIGHT,
    TableError,
    check_unique,
    csv_layout,
    is_number,
    is_svmlight,
    near_names,
    plain_type,
)
from corank.tables.read import QUERY, SCORE, has_queries, last_feature, lines_of, parsed_lines

Item = TypeVar("Item")


def read_ahead(make: Callable[[], Iterator[Item]], depth: int = 1) -> Generator[Item, None, None]:
    """The items of an iterator that runs in a thread of its own, at most `depth` of them waiting; order stays."""
    waiting: queue.Queue[tuple[Item | None, BaseException | None, bool]] = queue.Queue(depth)
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
        except BaseException as error:  # noqa: BLE001 - it is raised where the items are wanted
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


FORMATS = ("parquet", "csv", "svmlight")
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class File:
    """A file as it was when the scan was made.

    keys : columns that its folders name, as in `year=2024/part-0.parquet`
    """

    path: str
    size: int
    changed: int  # nanoseconds
    keys: tuple[tuple[str, str | None], ...] = ()

    def check(self) -> None:
        """Refuse a file that is no longer what it was."""
        try:
            now = Path(self.path).stat()
        except FileNotFoundError:
            raise TableError(f"{self.path} is gone; it was there when the scan was made") from None
        if (now.st_size, now.st_mtime_ns) != (self.size, self.changed):
            raise TableError(f"{self.path} was changed after the scan was made; make a new one")


def find_files(paths: Any, format: str | None) -> tuple[list[File], str]:
    """The files of names, folders and patterns, in order, and their format."""
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    if not isinstance(given, Iterable) or isinstance(given, bytes):
        raise TypeError(f"paths must be a path, a pattern such as 'rows/*.parquet', or a list, got {paths!r}")
    if format is not None and format not in FORMATS:
        raise ValueError(f"format {format!r} is not known; use {', '.join(map(repr, FORMATS))}")
    found: list[tuple[Path, Path | None]] = []
    for path in given:
        found += _expanded(path, format)
    if not found:
        raise TableError(f"paths names no file: {paths!r}")
    kinds = {format or _format_of(path) for path, _ in found}
    if len(kinds) > 1:
        raise TableError(f"the files are of several kinds ({', '.join(sorted(kinds))}); scan one kind at a time")
    return [_file(path, root) for path, root in found], kinds.pop()


def _expanded(path: Any, format: str | None) -> list[tuple[Path, Path | None]]:
    """The files behind one path, each with the folder that was given."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"paths must be text or paths, got {path!r}")
    if Path(text).is_dir():
        return [(file, Path(text)) for file in _inside(Path(text), format)]
    if Path(text).exists() or not glob.has_magic(text):
        return [(Path(text), None)]
    matches = sorted(Path(match) for match in glob.glob(text, recursive=True))  # noqa: PTH207 - it may begin anywhere
    if not matches:
        raise TableError(f"no file is called like {text}")
    fixed = Path(*takewhile(lambda part: not glob.has_magic(part), Path(text).parts))
    result: list[tuple[Path, Path | None]] = []
    for match in matches:
        result += [(file, fixed) for file in (_inside(match, format) if match.is_dir() else [match])]
    return result


def _inside(folder: Path, format: str | None) -> list[Path]:
    """The tables in a folder and its folders; names that begin with . or _ are notes of other programs."""
    files = []
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
        if not hidden and path.is_file() and _known(path, format):
            files.append(path)
    if not files:
        raise TableError(f"the folder {folder} has no files to read{'' if format is None else f' as {format}'}")
    return files


def _known(path: Path, format: str | None) -> bool:
    try:
        return format is None or _format_of(path) == format
    except TableError:
        return False


def _format_of(path: Path) -> str:
    endings = [ending.lower() for ending in path.suffixes[-2:]] or [""]
    kind = (endings[:-1] or [""])[-1] if endings[-1] == ".gz" else endings[-1]
    for format, known in (("parquet", PARQUET), ("csv", tuple(SEPARATORS)), ("svmlight", SVMLIGHT)):
        if kind == ".txt" and is_svmlight(path):
            return "svmlight"
        if kind in known and not (format == "parquet" and endings[-1] == ".gz"):
            return format
    raise TableError(f"{path} does not end like a table; say format='parquet', 'csv' or 'svmlight'")


def _file(path: Path, root: Path | None) -> File:
    if path.is_dir():
        raise TableError(f"{path} is a folder inside the folder that was given; give its files")
    try:
        about = path.stat()
    except FileNotFoundError:
        raise TableError(f"there is no file {path}") from None
    if about.st_size == 0:
        raise TableError(f"{path} is empty")
    parts = () if root is None else path.relative_to(root).parts[:-1]
    keys = [part.split("=", 1) for part in parts if "=" in part]
    own = tuple((name, None if value == NO_VALUE else unquote(value)) for name, value in keys)
    return File(str(path), about.st_size, about.st_mtime_ns, own)


@dataclass(frozen=True)
class Unit:
    """A stretch of one file that is read from its beginning.

    groups : row groups of a Parquet file; None for the whole file
    n_rows : None where that is known only by reading
    """

    file: File
    groups: tuple[int, ...] | None = None
    n_rows: int | None = None
    first_row: int = 0


@dataclass(frozen=True)
class Wanted:
    """The columns that a pass reads. `features` None: none of them; `as_table`: not yet as numbers."""

    features: tuple[str, ...] | None
    score: str | None
    query: str | None
    extra: tuple[str, ...] = ()
    as_table: bool = False


@dataclass(frozen=True)
class Raw:
    """Rows as they were read: features (n, d) or a table of them, None where they were not wanted."""

    n_rows: int
    features: np.ndarray[Any, Any] | pa.Table | None
    scores: np.ndarray[Any, Any] | None
    runs: Runs
    place: Place
    extra: pa.Table | None


class Source(Protocol):
    """Files of one kind, checked as far as that can be done without reading them."""

    @property
    def units(self) -> Sequence[Unit]:
        """The stretches, in order."""
        ...

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        ...

    def number_columns(self) -> list[str]:
        """Those that hold numbers."""
        ...

    def check(self, wanted: Wanted) -> None:
        """Refuse columns that are missing or of a wrong type in any file."""
        ...

    def read(self, unit: Unit, wanted: Wanted, chunk_rows: int) -> Iterator[Raw]:
        """The rows of a unit in chunks of `chunk_rows`, the last one shorter."""
        ...


def rechunked(tables: Iterator[pa.Table], chunk_rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of exactly `chunk_rows`, the last one shorter."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        while count >= chunk_rows:
            joined = pa.concat_tables(waiting)
            yield joined.slice(0, chunk_rows)
            rest = joined.slice(chunk_rows)
            waiting, count = [rest] if rest.num_rows else [], rest.num_rows
    if count:
        yield pa.concat_tables(waiting)


class SvmlightSource:
    """Lines of numbers; a unit is a file. Features count from 1 and are named so.

    Parameters
    ----------
    n_features : how many there are; None reads all files once to find out
    """

    def __init__(self, files: Sequence[File], n_features: int | None) -> None:
        self.files = files
        self.units = [Unit(file) for file in files]
        self.has_queries = {has_queries(Path(file.path)) for file in files}
        if len(self.has_queries) > 1:
            raise TableError("some files have qid: and others have not; all or none")
        self.n_features = max(last_feature(Path(file.path)) for file in files) if n_features is None else n_features

    @property
    def names(self) -> list[str]:
        """The columns: score, qid where there is one, and the features."""
        queries = [QUERY] if True in self.has_queries else []
        return [SCORE, *queries, *(str(number) for number in range(1, self.n_features + 1))]

    def number_columns(self) -> list[str]:
        """All of them."""
        return self.names

    def check(self, wanted: Wanted) -> None:
        """Refuse columns that such files do not have."""
        if wanted.query is not None and True not in self.has_queries:
            raise TableError(f"{self.files[0].path} has no qid:, so there is no query column {wanted.query!r}")
        for name, known in ((wanted.score, SCORE), (wanted.query, QUERY)):
            if name not in (None, known):
                raise TableError(f"svmlight files have no column {name!r}; the {known} is called {known!r}")
        unknown = set(wanted.features or ()) - set(self.names[1:])
        if unknown or wanted.extra or wanted.as_table:
            raise TableError("svmlight files have features '1', '2', … and no other columns")

    def read(self, unit: Unit, wanted: Wanted, chunk_rows: int) -> Iterator[Raw]:
        """The rows of a file."""
        unit.file.check()
        row = 0
        for lines in lines_of(Path(unit.file.path), chunk_rows):
            raw = self._parsed(lines, wanted, Place(unit.file.path, row))
            row += raw.n_rows
            if raw.n_rows:
                yield raw

    def _parsed(self, lines: list[bytes], wanted: Wanted, place: Place) -> Raw:
        n_features = self.n_features
        try:
            X, scores, labels = parsed_lines(lines, n_features)
        except ValueError as error:
            raise TableError(f"{place.path}, near {place.of(0)}: {error}") from error
        features: Any = None
        if wanted.features is not None:
            own = [int(name) - 1 for name in wanted.features]
            features = (X if own == list(range(n_features)) else X[:, own]).toarray()
            check_finite(features, wanted.features, place)
        if np.isinf(scores).any():
            row = int(np.argmax(np.isinf(scores)))
            raise TableError(f"the score is infinity in {place.of(row)}; write nan where a row is unscored")
        runs: Runs = one_run()
        if wanted.query is not None:
            if len(labels) != len(scores):
                raise TableError(f"{place.path}, near {place.of(0)}: some lines have no qid:")
            runs = runs_of(pa.chunked_array([pa.array(labels)]), QUERY, place)
        return Raw(len(scores), features, None if wanted.score is None else scores, runs, place, None)


READ_BYTES = 2**24  # of CSV text at a time
WHOLE = re.compile(r"-?[0-9]{1,18}")  # a value of a folder's name that fits into 64 bits


class TabularSource:
    """What Parquet and CSV share. A kind adds how schemas and tables are read."""

    def __init__(self, files: Sequence[File]) -> None:
        self.files = files
        self.schemas = [self._schema_of(file) for file in files]
        for file, schema in zip(files, self.schemas, strict=True):
            check_unique(schema.names, file.path)
        keys = {tuple(name for name, _ in file.keys) for file in files}
        if len(keys) > 1:
            raise TableError(f"the folders of {files[0].path} and of other files name different columns")
        self._key_types = {name: self._key_type(name) for name in keys.pop()}

    def _schema_of(self, file: File) -> pa.Schema:
        raise AssertionError("a kind of file says what its columns are")

    def _tables(self, unit: Unit, names: list[str], wanted: Wanted, rows: int) -> Iterator[pa.Table]:
        raise AssertionError("a kind of file says how it is read")

    def _key_type(self, name: str) -> pa.DataType:
        values = [dict(file.keys)[name] for file in self.files]
        whole = all(value is None or WHOLE.fullmatch(value) for value in values)
        return pa.int64() if whole else pa.string()

    @property
    def names(self) -> list[str]:
        """The names of all columns: those of the first file, then those that folders name."""
        return [*self.schemas[0].names, *(name for name in self._key_types if name not in self.schemas[0].names)]

    def _kind(self, file: int, name: str) -> pa.DataType | None:
        schema = self.schemas[file]
        return schema.field(name).type if name in schema.names else self._key_types.get(name)

    def number_columns(self) -> list[str]:
        """Those that hold numbers in the first file."""
        return [name for name in self.names if is_number(plain_type(self._kind(0, name)))]

    def check(self, wanted: Wanted) -> None:
        """Every file must have every column, with numbers where numbers are needed and labels of one kind."""
        roles = [*((name, "feature") for name in wanted.features or ()), (wanted.score, "score")]
        roles += [(wanted.query, "query"), *((name, "extra") for name in wanted.extra)]
        for name, role in roles:
            if name is None:
                continue
            for position, file in enumerate(self.files):
                kind = self._kind(position, name)
                if kind is None:
                    near = near_names(name, self.schemas[position].names)
                    guess = f"; did you mean {near[0]!r}?" if near else ""
                    what = "column" if role == "extra" else f"{role} column"
                    raise TableError(f"{file.path} has no {what} {name!r}{guess}")
                self._check_kind(position, name, role, kind, as_table=wanted.as_table)

    def _check_kind(self, position: int, name: str, role: str, kind: pa.DataType, *, as_table: bool) -> None:
        path = self.files[position].path
        numeric = is_number(plain_type(kind)) or pa.types.is_null(kind)
        if (role == "score" or (role == "feature" and not as_table)) and not numeric:
            hint = "; turn text into numbers with encoder=" if role == "feature" else ": is it the right column?"
            raise TableError(f"{role} column {name!r} of {path} should hold numbers, but holds {kind}{hint}")
        if role == "query":
            own, first = label_kind(kind), label_kind(self._kind(0, name))
            if own != first:
                raise TableError(
                    f"query column {name!r} holds {own} in {path} and {first} in {self.files[0].path}; labels of one "
                    "kind are needed"
                )

    def read(self, unit: Unit, wanted: Wanted, chunk_rows: int) -> Iterator[Raw]:
        """The rows of a unit; errors name its file."""
        unit.file.check()
        position = self._position[unit.file.path]
        asked = [*(wanted.features or ()), wanted.score, wanted.query, *wanted.extra]
        names = list(dict.fromkeys(name for name in asked if name is not None))
        own = [name for name in names if name in self.schemas[position].names]
        row = unit.first_row
        try:
            tables = self._tables(unit, own, wanted, chunk_rows)
            for table in rechunked(tables, chunk_rows):
                yield self._raw(self._with_keys(table, unit.file, names), wanted, Place(unit.file.path, row))
                row += table.num_rows
        except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
            what = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise TableError(f"{unit.file.path} cannot be read, it may be damaged or cut off: {what}") from error

    @cached_property
    def _position(self) -> dict[str, int]:
        return {file.path: position for position, file in enumerate(self.files)}

    def _with_keys(self, table: pa.Table, file: File, names: Sequence[str]) -> pa.Table:
        for name, value in file.keys:
            if name in names and name not in table.column_names:
                kind = self._key_types[name]
                known = None if value is None else int(value) if pa.types.is_integer(kind) else value
                table = table.append_column(name, pa.repeat(pa.scalar(known, kind), table.num_rows))
        return table

    @cached_property
    def _feature_types(self) -> dict[tuple[str, ...], type]:
        return {}

    def _feature_type(self, names: tuple[str, ...]) -> type:
        if names not in self._feature_types:
            every = [self._kind(position, name) for position in range(len(self.files)) for name in names]
            self._feature_types[names] = feature_type([plain_type(kind) for kind in every])
        return self._feature_types[names]

    def _raw(self, table: pa.Table, wanted: Wanted, place: Place) -> Raw:
        features: Any = None
        if wanted.features is not None and wanted.as_table:
            features = table.select(list(wanted.features))
        elif wanted.features is not None:
            features = feature_matrix(table, wanted.features, self._feature_type(wanted.features), place)
        scores = None if wanted.score is None else scores_of(table.column(wanted.score), wanted.score, place)
        runs = one_run() if wanted.query is None else runs_of(table.column(wanted.query), wanted.query, place)
        extra = table.select(list(wanted.extra)) if wanted.extra else None
        return Raw(table.num_rows, features, scores, runs, place, extra)


class ParquetSource(TabularSource):
    """Parquet files; row groups are bundled into units of about `chunk_rows` rows."""

    def __init__(self, files: Sequence[File], chunk_rows: int) -> None:
        self._groups: list[list[int]] = []  # rows of every row group
        super().__init__(files)
        self.units = [unit for position in range(len(files)) for unit in self._bundled(position, chunk_rows)]

    def _schema_of(self, file: File) -> pa.Schema:
        try:
            with parquet.ParquetFile(file.path) as opened:
                about = opened.metadata
                self._groups.append([about.row_group(group).num_rows for group in range(about.num_row_groups)])
                return opened.schema_arrow
        except (pa.ArrowException, OSError) as error:
            what = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise TableError(f"{file.path} is no Parquet file, or it is damaged or cut off: {what}") from error

    def _bundled(self, position: int, chunk_rows: int) -> Iterator[Unit]:
        file, rows, first = self.files[position], 0, 0
        bundle: list[int] = []
        for group, count in enumerate(self._groups[position]):
            if bundle and rows + count > chunk_rows:
                yield Unit(file, tuple(bundle), rows, first)
                bundle, rows, first = [], 0, first + rows
            bundle.append(group)
            rows += count
        if rows:
            yield Unit(file, tuple(bundle), rows, first)

    def _tables(self, unit: Unit, names: list[str], wanted: Wanted, rows: int) -> Iterator[pa.Table]:
        with parquet.ParquetFile(unit.file.path) as file:
            if not names:  # only what folders name
                yield pa.table({"": pa.nulls(unit.n_rows or 0)})
                return
            for batch in file.iter_batches(rows, row_groups=list(unit.groups or ()), columns=names):
                yield pa.Table.from_batches([batch])


class SeparatedSource(TabularSource):
    """CSV and the like, as `read_table` reads them; a unit is a file. Query labels stay text."""

    def __init__(self, files: Sequence[File], as_text: Sequence[str]) -> None:
        self._as_text = set(as_text)
        super().__init__(files)
        self.units = [Unit(file) for file in files]

    def _schema_of(self, file: File) -> pa.Schema:
        try:
            with self._opened(file, None, set(), set()) as reader:
                schema = reader.schema
                if reader.read_next_batch().num_rows == 0:
                    raise StopIteration
        except StopIteration:
            raise TableError(f"{file.path} has a header but no rows") from None
        except UnicodeDecodeError as error:
            raise TableError(f"{file.path} is not UTF-8 text: save it as UTF-8") from error
        except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
            what = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise TableError(f"{file.path} cannot be read, it may be damaged or cut off: {what}") from error
        return schema

    def _opened(self, file: File, names: list[str] | None, numbers: AbstractSet[str], texts: AbstractSet[str]) -> Any:
        """The rows of a file in pieces; `numbers` are read as such even where the first ones are missing."""
        path = Path(file.path)
        skip, layout, decimal_point = csv_layout(path)
        values = arrow_csv.ConvertOptions(
            null_values=list(MISSING),
            strings_can_be_null=True,
            column_types={**dict.fromkeys(numbers, pa.float64()), **dict.fromkeys(self._as_text | texts, pa.string())},
            include_columns=names,
            decimal_point=decimal_point,
        )
        compressed = path.suffix.lower() == ".gz"
        stream = pa.input_stream(file.path, compression="gzip" if compressed else None)
        reading = arrow_csv.ReadOptions(block_size=READ_BYTES, skip_rows=skip, use_threads=False)
        return arrow_csv.open_csv(stream, reading, layout, values)

    def _tables(self, unit: Unit, names: list[str], wanted: Wanted, rows: int) -> Iterator[pa.Table]:
        schema = self.schemas[self._position[unit.file.path]]
        needed = {wanted.score, *(() if wanted.as_table else wanted.features or ())}
        needed |= {field.name for field in schema if is_number(field.type)}  # whole numbers at first, others later
        numbers = {name for name in needed if name in names and not pa.types.is_boolean(schema.field(name).type)}
        carried = set(names) - {wanted.score, *(wanted.features or ())}  # 007 is written as it was read
        texts = {name for name in carried if _may_be_label(schema.field(name).type)}
        with self._opened(unit.file, names, numbers - texts, texts) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])


def _may_be_label(kind: pa.DataType) -> bool:
    """Whether what looked like this in the first rows may be names: whole numbers, or nothing yet."""
    return bool(pa.types.is_integer(kind) or pa.types.is_null(kind))
