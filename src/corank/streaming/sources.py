"""Files as the source of a scan: which files there are, and their rows in chunks. Parquet, CSV,
SVMlight and LETOR.

Footers and headers of all files are checked before any row is read. Files are read one by one with
`pyarrow.parquet` and `pyarrow.csv` rather than `pyarrow.dataset`, which has one schema for all
files: a column that a file lacks would become nulls, and an error would not name its file.
"""

from __future__ import annotations

import glob
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from corank.core.arrays import Index, NumpyArray
from corank.core.messages import did_you_mean
from corank.streaming.chunks import (
    Place,
    Runs,
    check_finite,
    check_scores,
    feature_matrix,
    label_kind,
    numbers_of,
    one_run,
    runs_of,
)
from corank.tables import (
    TableError,
    TableFile,
    check_unique,
    is_number,
    is_table_name,
    plain_type,
)
from corank.tables.columns import usual_types
from corank.tables.limits import MAX_COLUMNS
from corank.tables.read import (
    DOCUMENT,
    QUERY,
    SCORE,
    document_ids,
    format_of_file,
    has_comments,
    has_queries,
    last_feature,
    lines_of,
    open_csv,
    parse_lines,
    reading,
)

PICKED_ROWS = 2**16  # that are decoded at once to pick some of them
FORMATS = ("parquet", "csv", "svmlight")
HIVE_MISSING = "__HIVE_DEFAULT_PARTITION__"  # folder name of a missing value
INT64_TEXT = re.compile(r"-?[0-9]{1,18}")  # a value in the name of a folder that fits into 64 bits


# ---- files


@dataclass(frozen=True)
class File:
    """A file as it was when the scan was made.

    keys : columns that its folders name, as in `year=2024/part-0.parquet`
    format, has_header : how a CSV is written, as for `read_table`
    """

    path: str
    size: int
    changed: int  # nanoseconds
    keys: tuple[tuple[str, str | None], ...]
    format: str | None = None
    has_header: bool = True

    def check(self) -> None:
        """Refuse a file that was changed or removed since."""
        try:
            now = Path(self.path).stat()
        except FileNotFoundError:
            raise TableError(
                f"{self.path} no longer exists; it did when the scan was made"
            ) from None
        if (now.st_size, now.st_mtime_ns) != (self.size, self.changed):
            raise TableError(f"{self.path} was changed after the scan was made; make a new one")


def find_files(paths: Any, format: str | None) -> tuple[list[File], str]:
    """The files behind names, folders and patterns, in order, and their format."""
    if isinstance(paths, TableFile) and paths.format is not None:
        format = "csv" if paths.format == "tsv" else paths.format
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    if not isinstance(given, Iterable) or isinstance(given, bytes):
        raise TypeError(
            f"paths must be a path, a pattern such as 'rows/*.parquet', or a list, got {paths!r}"
        )
    if format is not None and format not in FORMATS:
        raise ValueError(f"format {format!r} is not known; use {', '.join(map(repr, FORMATS))}")
    located = [file_and_root for path in given for file_and_root in _expanded(path, format)]
    if not located:
        raise TableError(f"paths names no file, got {paths!r}")
    formats = set()
    for path, _ in located:
        detected = format or _format_of(path)
        if detected is None and is_table_name(path):
            raise TableError(
                f"{path} cannot be read in passes: write it as Parquet, CSV or SVMlight"
            )
        if detected is None:
            raise TableError(
                f"{path} has no file extension of a table; give format='parquet', 'csv' or"
                " 'svmlight'"
            )
        formats.add(detected)
    if len(formats) > 1:
        raise TableError(
            f"the files are of several kinds ({', '.join(sorted(formats))}); scan one kind at a"
            " time"
        )
    files = [_file(path, root) for path, root in located]
    if isinstance(paths, TableFile):
        files = [replace(file, format=paths.format, has_header=paths.has_header) for file in files]
    return files, formats.pop()


def _expanded(path: Any, format: str | None) -> list[tuple[Path, Path | None]]:
    """The files behind one path, each with the folder that was given."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"paths must be text or paths, got {path!r}")
    given = Path(text)
    if given.is_dir():
        return [(file, given) for file in _files_inside(given, format)]
    if given.exists() or not glob.has_magic(text):
        return [(given, None)]
    matches = glob.glob(text, recursive=True)  # noqa: PTH207 - it may begin anywhere
    if not matches:
        raise TableError(f"no file matches {text}")
    root = Path(*takewhile(lambda level: not glob.has_magic(level), given.parts))
    located: list[tuple[Path, Path | None]] = []
    for match in sorted(map(Path, matches)):
        files = _files_inside(match, format) if match.is_dir() else [match]
        located += [(file, root) for file in files]
    return located


def _files_inside(folder: Path, format: str | None) -> list[Path]:
    """The tables in a folder and its folders; names that begin with . or _ are notes of other
    programs.
    """
    files = []
    for path in sorted(folder.rglob("*")):
        hidden = any(level.startswith((".", "_")) for level in path.relative_to(folder).parts)
        if not hidden and path.is_file() and (format is None or _format_of(path) == format):
            files.append(path)
    if not files:
        raise TableError(
            f"the folder {folder} has no files to read{'' if format is None else f' as {format}'}"
        )
    return files


def _format_of(path: Path) -> str | None:
    try:
        format = format_of_file(path)
    except TableError:
        return None
    return format if format in FORMATS else None


def _file(path: Path, root: Path | None) -> File:
    if path.is_dir():
        raise TableError(f"{path} is a folder inside the folder that was given; give its files")
    try:
        status = path.stat()
    except FileNotFoundError:
        raise TableError(f"there is no file {path}") from None
    if status.st_size == 0:
        raise TableError(f"{path} is empty")
    folders = () if root is None else path.relative_to(root).parts[:-1]
    pairs = [folder.split("=", 1) for folder in folders if "=" in folder]
    keys = tuple((name, None if value == HIVE_MISSING else unquote(value)) for name, value in pairs)
    return File(str(path), status.st_size, status.st_mtime_ns, keys)


# ---- what a scan needs of a kind of file


@dataclass(frozen=True)
class Unit:
    """A stretch of one file that is read from its beginning.

    groups : row groups of a Parquet file; None for the whole file
    n_rows : None where only reading tells
    """

    file: File
    groups: tuple[int, ...] | None = None
    n_rows: int | None = None
    first_row: int = 0


@dataclass(frozen=True)
class Roles:
    """The columns that a pass reads, by their purpose.

    features : None leaves features out; as_table : features stay a table, for an encoder
    extra : columns that are carried along
    """

    features: tuple[str, ...] | None
    score: str | None
    query: str | None
    extra: tuple[str, ...] = ()
    as_table: bool = False

    @property
    def columns(self) -> list[str]:
        """The names of all of them, each once."""
        names = [*(self.features or ()), self.score, self.query, *self.extra]
        return list(dict.fromkeys(name for name in names if name is not None))


@dataclass(frozen=True)
class RawRows:
    """Rows as they were read: features (n, d), a table of them, or None where they were left out."""

    n_rows: int
    features: NumpyArray | pa.Table | None
    scores: NumpyArray | None
    runs: Runs
    place: Place
    extra: pa.Table | None


class Source(Protocol):
    """Files of one kind, or a Dask collection, checked as far as possible without reading rows."""

    @property
    def units(self) -> Sequence[Unit]:
        """The stretches of rows, in order."""
        ...

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        ...

    def number_columns(self) -> list[str]:
        """The names of the columns that hold numbers."""
        ...

    def check(self, roles: Roles) -> None:
        """Refuse columns that are missing or of a wrong type in any file."""
        ...

    def read(self, unit: Unit, roles: Roles, chunk_rows: int) -> Iterator[RawRows]:
        """The rows of a unit in chunks of `chunk_rows`, the last one shorter."""
        ...


# ---- Parquet and CSV


class TableSource(ABC):
    """Files with named columns. A kind of file adds how schemas and tables are read."""

    units: Sequence[Unit]

    def __init__(self, files: Sequence[File]) -> None:
        self.files = files
        self._schemas = {file.path: self._schema_of(file) for file in files}
        for path, schema in self._schemas.items():
            MAX_COLUMNS.check(len(schema.names), f"{path} has {len(schema.names):,} columns")
            check_unique(schema.names, path)
        self._key_types = types_of_keys(files)
        self._feature_types: dict[tuple[str, ...], type] = {}

    @abstractmethod
    def _schema_of(self, file: File) -> pa.Schema:
        """The columns of a file."""

    @abstractmethod
    def _tables(self, unit: Unit, roles: Roles, chunk_rows: int) -> Iterator[pa.Table]:
        """The columns of a unit that lie in its file, in tables of any length."""

    @property
    def names(self) -> list[str]:
        """The names of the columns of the first file, then of those that folders name."""
        stored = self._schemas[self.files[0].path].names
        return list(dict.fromkeys([*stored, *self._key_types]))

    def _type(self, file: File, name: str) -> pa.DataType | None:
        schema = self._schemas[file.path]
        if name in schema.names:
            return schema.field(name).type
        return self._key_types.get(name)

    def number_columns(self) -> list[str]:
        """The names of the columns that hold numbers in the first file."""
        first = self.files[0]
        return [name for name in self.names if is_number(plain_type(self._type(first, name)))]

    def check(self, roles: Roles) -> None:
        """Every file must have every column, with numbers where numbers are needed and labels of
        one kind.
        """
        columns = [(name, "feature") for name in roles.features or ()]
        if roles.score is not None:
            columns.append((roles.score, "score"))
        if roles.query is not None:
            columns.append((roles.query, "query"))
        columns += [(name, "extra") for name in roles.extra]
        for name, purpose in columns:
            for file in self.files:
                self._check_column(file, name, purpose, as_table=roles.as_table)

    def _check_column(self, file: File, name: str, purpose: str, *, as_table: bool) -> None:
        path, kind = file.path, self._type(file, name)
        if kind is None:
            what = "column" if purpose == "extra" else f"{purpose} column"
            raise TableError(
                f"{path} has no {what} {name!r}{did_you_mean(name, self._schemas[path].names)}"
            )
        needs_numbers = purpose == "score" or (purpose == "feature" and not as_table)
        if needs_numbers and not (is_number(plain_type(kind)) or pa.types.is_null(kind)):
            is_score = purpose == "score"
            hint = (
                ": is it the right column?"
                if is_score
                else "; turn text into numbers with encoder="
            )
            raise TableError(
                f"{purpose} column {name!r} of {path} should hold numbers, but holds {kind}{hint}"
            )
        if purpose == "query":
            first, labels = self.files[0], label_kind(kind)
            first_labels = label_kind(self._type(first, name))
            if labels != first_labels:
                raise TableError(
                    f"query column {name!r} holds {labels} in {path} and {first_labels} in"
                    f" {first.path}; labels of one kind are needed"
                )

    def read(self, unit: Unit, roles: Roles, chunk_rows: int) -> Iterator[RawRows]:
        """The rows of a unit in chunks; errors name its file."""
        unit.file.check()
        row = unit.first_row
        with reading(unit.file.path):
            for table in rechunk(self._tables(unit, roles, chunk_rows), chunk_rows):
                yield self._raw_rows(table, roles, unit.file, Place(unit.file.path, row))
                row += table.num_rows

    def _stored(self, file: File, roles: Roles) -> list[str]:
        """The names of the columns to read that lie in a file itself."""
        stored = set(self._schemas[file.path].names)
        return [name for name in roles.columns if name in stored]

    def _feature_type(self, names: tuple[str, ...]) -> type:
        if names not in self._feature_types:
            kinds = [plain_type(self._type(file, name)) for file in self.files for name in names]
            are_short = all(
                pa.types.is_float32(kind) or pa.types.is_float16(kind) for kind in kinds
            )
            self._feature_types[names] = np.float32 if are_short else np.float64
        return self._feature_types[names]

    def _raw_rows(self, table: pa.Table, roles: Roles, file: File, place: Place) -> RawRows:
        for name, text in file.keys:  # columns that its folders name
            if name in roles.columns and name not in table.column_names:
                kind = self._key_types[name]
                value = int(text) if text is not None and pa.types.is_integer(kind) else text
                values = pa.repeat(pa.scalar(value, kind), table.num_rows)
                table = table.append_column(name, values)
        features: Any = None
        if roles.features is not None and roles.as_table:
            features = table.select(list(roles.features))
        elif roles.features is not None:
            dtype = self._feature_type(roles.features)
            features = feature_matrix(table, roles.features, dtype, place)
        scores, runs = None, one_run()
        if roles.score is not None:
            scores = numbers_of(table.column(roles.score), roles.score, place).astype(np.float64)
            check_scores(scores, roles.score, place)
        if roles.query is not None:
            runs = runs_of(table.column(roles.query), roles.query, place)
        extra = table.select(list(roles.extra)) if roles.extra else None
        return RawRows(table.num_rows, features, scores, runs, place, extra)


def types_of_keys(files: Sequence[File]) -> dict[str, pa.DataType]:
    """The types of the columns that folders name, which must be the same for all files."""
    names = {tuple(name for name, _ in file.keys) for file in files}
    if len(names) > 1:
        raise TableError(
            f"the folders of {files[0].path} and of other files name different columns"
        )
    types = {}
    for name in names.pop():
        values = [dict(file.keys)[name] for file in files]
        whole = all(value is None or INT64_TEXT.fullmatch(value) for value in values)
        types[name] = pa.int64() if whole else pa.string()
    return types


def rechunk(tables: Iterator[pa.Table], chunk_rows: int) -> Iterator[pa.Table]:
    """The rows of tables that follow each other, in tables of exactly `chunk_rows`, the last one
    shorter.
    """
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        while count >= chunk_rows:
            joined = pa.concat_tables(waiting)
            yield joined.slice(0, chunk_rows)
            count -= chunk_rows
            waiting = [joined.slice(chunk_rows)] if count else []
    if count:
        yield pa.concat_tables(waiting)


class ParquetSource(TableSource):
    """Parquet files; row groups are bundled into units.

    Parameters
    ----------
    decoded_rows : rows that are decoded at a time, at most; units have about as many unless they are
        bundled again
    """

    def __init__(self, files: Sequence[File], decoded_rows: int) -> None:
        self._group_rows: list[list[int]] = []  # of every row group, per file
        self._decoded_rows = decoded_rows
        super().__init__(files)
        self.bundle(decoded_rows)

    def _schema_of(self, file: File) -> pa.Schema:
        try:
            with parquet.ParquetFile(file.path) as opened:
                footer = opened.metadata
                self._group_rows.append(
                    [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
                )
                return usual_types(opened.schema_arrow.empty_table(), file.path).schema
        except (pa.ArrowException, OSError) as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise TableError(
                f"{file.path} is no Parquet file, or it is damaged or cut off: {reason}"
            ) from error

    def bundle(self, chunk_rows: int) -> None:
        """Make units of row groups that follow each other and have at most `chunk_rows` rows, or of
        single ones.
        """
        self.units = units = []
        for file, group_rows in zip(self.files, self._group_rows, strict=True):
            first, rows = 0, 0
            bundle: list[int] = []
            for group, count in enumerate(group_rows):
                if rows and rows + count > chunk_rows:
                    units.append(Unit(file, tuple(bundle), rows, first))
                    first, rows, bundle = first + rows, 0, []
                bundle.append(group)
                rows += count
            if rows:
                units.append(Unit(file, tuple(bundle), rows, first))

    def read_rows(self, unit: Unit, roles: Roles, rows: Index) -> RawRows:
        """Rows of a unit by their places in it, rising; rows behind the last of them are not
        decoded.
        """
        unit.file.check()
        picked, begin = [], 0
        with reading(unit.file.path):
            with closing(self._tables(unit, roles, PICKED_ROWS)) as tables:
                for table in tables:
                    end = begin + table.num_rows
                    first, last = np.searchsorted(rows, (begin, end))
                    if first < last:
                        picked.append(table.take(rows[first:last] - begin))
                    begin = end
                    if begin > rows[-1]:
                        break
            place = Place(unit.file.path, unit.first_row, rows)
            return self._raw_rows(pa.concat_tables(picked), roles, unit.file, place)

    def _tables(self, unit: Unit, roles: Roles, chunk_rows: int) -> Generator[pa.Table, None, None]:
        names = self._stored(unit.file, roles)
        if not names:  # only columns that folders name
            yield pa.table({"": pa.nulls(unit.n_rows or 0)})
            return
        groups = list(unit.groups or ())
        with parquet.ParquetFile(unit.file.path) as file:
            batch_rows = min(chunk_rows, self._decoded_rows)
            for batch in file.iter_batches(batch_rows, row_groups=groups, columns=names):
                yield usual_types(pa.Table.from_batches([batch]), unit.file.path)


class CsvSource(TableSource):
    """CSV and TSV files, as `read_table` reads them; a unit is a file. The columns `text`, query
    labels, stay text.
    """

    def __init__(self, files: Sequence[File], text: Sequence[str]) -> None:
        self._text = dict.fromkeys(text, pa.string())
        super().__init__(files)
        self.units = [Unit(file) for file in files]

    def _schema_of(self, file: File) -> pa.Schema:
        with reading(file.path), self._open(file, {}) as reader:
            first = next(iter(reader), None)
            if first is None or first.num_rows == 0:
                raise TableError(f"{file.path} has a header but no rows")
            return reader.schema

    def _tables(self, unit: Unit, roles: Roles, chunk_rows: int) -> Iterator[pa.Table]:
        names = self._stored(unit.file, roles)
        types = {name: self._type_to_read(unit.file, name, roles) for name in names}
        known = {name: kind for name, kind in types.items() if kind is not None}
        with self._open(unit.file, known, names) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])

    def _type_to_read(self, file: File, name: str, roles: Roles) -> pa.DataType | None:
        """The type of a column where that of its first rows may not be that of all."""
        kind = self._type(file, name)
        is_learned = name == roles.score or name in (roles.features or ())
        may_be_label = pa.types.is_integer(kind) or pa.types.is_null(kind)
        if may_be_label and not is_learned:
            return pa.string()  # 007 is written as it was read
        if pa.types.is_boolean(kind):
            return None
        needs_numbers = is_learned and (name == roles.score or not roles.as_table)
        # whole numbers or nothing at first, others later
        return pa.float64() if needs_numbers or is_number(kind) else None

    def _open(
        self, file: File, types: dict[str, pa.DataType], names: list[str] | None = None
    ) -> Any:
        """The rows of a file in batches, as `open_csv` gives them."""
        types = {**types, **self._text}
        return open_csv(Path(file.path), types, names, file.format, has_header=file.has_header)


# ---- SVMlight and LETOR


class SvmlightSource:
    """Lines of numbers; a unit is a file. Features count from 1, and their names are their numbers.

    Parameters
    ----------
    n_features : number of features; None reads all files once to find out
    """

    def __init__(self, files: Sequence[File], n_features: int | None) -> None:
        self.files = files
        self.units = [Unit(file) for file in files]
        with_queries = {has_queries(Path(file.path)) for file in files}
        if len(with_queries) > 1:
            raise TableError("some files have qid: and others have not; all or none")
        self.has_queries = with_queries.pop()
        first_lines = [next(lines_of(Path(file.path), 1), []) for file in files]
        self.has_comments = all(map(has_comments, first_lines))
        if n_features is None:
            n_features = max(last_feature(Path(file.path)) for file in files)
        self.n_features = n_features

    @property
    def names(self) -> list[str]:
        """The columns: score, qid and docid where there are such, and the features."""
        labels = [QUERY] * self.has_queries + [DOCUMENT] * self.has_comments
        return [SCORE, *labels, *(str(number) for number in range(1, self.n_features + 1))]

    def number_columns(self) -> list[str]:
        """The names of all columns that hold numbers."""
        return [name for name in self.names if name != DOCUMENT]

    def check(self, roles: Roles) -> None:
        """Refuse columns that such files do not have."""
        if roles.query is not None and not self.has_queries:
            raise TableError(
                f"{self.files[0].path} has no qid, so there is no query column {roles.query!r}"
            )
        for name, fixed in ((roles.score, SCORE), (roles.query, QUERY)):
            if name not in (None, fixed):
                raise TableError(
                    f"svmlight files have no column {name!r}; the {fixed} is called {fixed!r}"
                )
        unknown = set(roles.features or ()) - set(self.number_columns()[1:])
        unknown |= set(roles.extra) - set(self.names)
        if unknown or roles.as_table:
            raise TableError("svmlight files have features '1', '2', … and no other columns")

    def read(self, unit: Unit, roles: Roles, chunk_rows: int) -> Iterator[RawRows]:
        """The rows of a file in chunks."""
        unit.file.check()
        row = 0
        for lines in lines_of(Path(unit.file.path), chunk_rows):
            rows = self._parse(lines, roles, Place(unit.file.path, row))
            row += rows.n_rows
            if rows.n_rows:
                yield rows

    def _parse(self, lines: list[bytes], roles: Roles, place: Place) -> RawRows:
        try:
            X, scores, labels = parse_lines(lines, self.n_features)
        except ValueError as error:
            raise TableError(f"{place.path}, near {place.of(0)}: {error}") from error
        features: Any = None
        if roles.features is not None:
            columns = [int(name) - 1 for name in roles.features]
            is_whole = columns == list(range(self.n_features))
            features = (X if is_whole else X[:, columns]).toarray()
            check_finite(features, roles.features, place)
        check_scores(scores, SCORE, place)
        runs = one_run()
        if roles.query is not None:
            if len(labels) != len(scores):
                raise TableError(f"{place.path}, near {place.of(0)}: some lines have no qid:")
            runs = runs_of(pa.chunked_array([pa.array(labels)]), QUERY, place)

        def column(name: str) -> pa.Array:
            if name.isdecimal():
                return pa.array(X[:, [int(name) - 1]].toarray()[:, 0])
            if name == DOCUMENT:
                return pa.array(document_ids(lines), pa.string())
            return pa.array(scores, from_pandas=True) if name == SCORE else pa.array(labels)

        table = pa.table({name: column(name) for name in roles.extra}) if roles.extra else None
        return RawRows(
            len(scores), features, None if roles.score is None else scores, runs, place, table
        )
