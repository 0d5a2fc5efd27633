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
    feature_type,
    label_kind,
    one_run,
    runs_of,
    scores_of,
)
from corank.tables import TableError, TableFile, check_unique, is_number, plain_type
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
    if Path(text).is_dir():
        return [(file, Path(text)) for file in _files_inside(Path(text), format)]
    if Path(text).exists() or not glob.has_magic(text):
        return [(Path(text), None)]
    matches = sorted(Path(match) for match in glob.glob(text, recursive=True))  # noqa: PTH207 - it may begin anywhere
    if not matches:
        raise TableError(f"no file matches {text}")
    root = Path(*takewhile(lambda level: not glob.has_magic(level), Path(text).parts))
    return [
        (file, root)
        for match in matches
        for file in (_files_inside(match, format) if match.is_dir() else [match])
    ]


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
        self.schemas = [self._schema_of(file) for file in files]
        for file, schema in zip(files, self.schemas, strict=True):
            MAX_COLUMNS.check(len(schema.names), f"{file.path} has {len(schema.names):,} columns")
            check_unique(schema.names, file.path)
        key_names = {tuple(name for name, _ in file.keys) for file in files}
        if len(key_names) > 1:
            raise TableError(
                f"the folders of {files[0].path} and of other files name different columns"
            )
        self._key_types = {}
        for name in key_names.pop():
            values = [dict(file.keys)[name] for file in files]
            whole = all(value is None or INT64_TEXT.fullmatch(value) for value in values)
            self._key_types[name] = pa.int64() if whole else pa.string()
        self._positions = {file.path: position for position, file in enumerate(files)}
        self._feature_types: dict[tuple[str, ...], type] = {}

    @abstractmethod
    def _schema_of(self, file: File) -> pa.Schema:
        """The columns of a file."""

    @abstractmethod
    def _tables(
        self, unit: Unit, names: list[str], roles: Roles, chunk_rows: int
    ) -> Iterator[pa.Table]:
        """The given columns of a unit, in tables of any length."""

    @property
    def names(self) -> list[str]:
        """The names of the columns of the first file, then of those that folders name."""
        stored = self.schemas[0].names
        return list(dict.fromkeys([*stored, *self._key_types]))

    def _type(self, position: int, name: str) -> pa.DataType | None:
        schema = self.schemas[position]
        at = schema.get_field_index(name)
        return schema.field(at).type if at >= 0 else self._key_types.get(name)

    def number_columns(self) -> list[str]:
        """The names of the columns that hold numbers in the first file."""
        return [name for name in self.names if is_number(plain_type(self._type(0, name)))]

    def check(self, roles: Roles) -> None:
        """Every file must have every column, with numbers where numbers are needed and labels of
        one kind.
        """
        purposes = [*((name, "feature") for name in roles.features or ()), (roles.score, "score")]
        purposes += [(roles.query, "query"), *((name, "extra") for name in roles.extra)]
        for name, purpose in purposes:
            if name is not None:
                for position in range(len(self.files)):
                    self._check_column(position, name, purpose, as_table=roles.as_table)

    def _check_column(self, position: int, name: str, purpose: str, *, as_table: bool) -> None:
        path, kind = self.files[position].path, self._type(position, name)
        if kind is None:
            what = "column" if purpose == "extra" else f"{purpose} column"
            raise TableError(
                f"{path} has no {what} {name!r}{did_you_mean(name, self.schemas[position].names)}"
            )
        needs_numbers = purpose == "score" or (purpose == "feature" and not as_table)
        if needs_numbers and not (is_number(plain_type(kind)) or pa.types.is_null(kind)):
            hint = (
                "; turn text into numbers with encoder="
                if purpose == "feature"
                else ": is it the right column?"
            )
            raise TableError(
                f"{purpose} column {name!r} of {path} should hold numbers, but holds {kind}{hint}"
            )
        if purpose == "query":
            labels, first_labels = label_kind(kind), label_kind(self._type(0, name))
            if labels != first_labels:
                raise TableError(
                    f"query column {name!r} holds {labels} in {path} and {first_labels} in"
                    f" {self.files[0].path}; labels of one kind are needed"
                )

    def read(self, unit: Unit, roles: Roles, chunk_rows: int) -> Iterator[RawRows]:
        """The rows of a unit in chunks; errors name its file."""
        unit.file.check()
        names, stored = self._columns(unit, roles)
        row = unit.first_row
        with reading(unit.file.path):
            for table in rechunk(self._tables(unit, stored, roles, chunk_rows), chunk_rows):
                yield self._raw_rows(
                    self._with_keys(table, unit.file, names), roles, Place(unit.file.path, row)
                )
                row += table.num_rows

    def _columns(self, unit: Unit, roles: Roles) -> tuple[list[str], list[str]]:
        """The names of the columns to read, and of those that lie in the file itself."""
        columns = [*(roles.features or ()), roles.score, roles.query, *roles.extra]
        names = list(dict.fromkeys(name for name in columns if name is not None))
        stored = set(self.schemas[self._positions[unit.file.path]].names)
        return names, [name for name in names if name in stored]

    def _with_keys(self, table: pa.Table, file: File, names: Sequence[str]) -> pa.Table:
        for name, text in file.keys:
            if name in names and name not in table.column_names:
                kind = self._key_types[name]
                value = int(text) if text is not None and pa.types.is_integer(kind) else text
                table = table.append_column(name, pa.repeat(pa.scalar(value, kind), table.num_rows))
        return table

    def _feature_type(self, names: tuple[str, ...]) -> type:
        if names not in self._feature_types:
            kinds = [
                self._type(position, name) for position in range(len(self.files)) for name in names
            ]
            self._feature_types[names] = feature_type([plain_type(kind) for kind in kinds])
        return self._feature_types[names]

    def _raw_rows(self, table: pa.Table, roles: Roles, place: Place) -> RawRows:
        features: Any = None
        if roles.features is not None and roles.as_table:
            features = table.select(list(roles.features))
        elif roles.features is not None:
            features = feature_matrix(
                table, roles.features, self._feature_type(roles.features), place
            )
        scores = (
            None
            if roles.score is None
            else scores_of(table.column(roles.score), roles.score, place)
        )
        runs = (
            one_run()
            if roles.query is None
            else runs_of(table.column(roles.query), roles.query, place)
        )
        extra = table.select(list(roles.extra)) if roles.extra else None
        return RawRows(table.num_rows, features, scores, runs, place, extra)


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
    """Parquet files; row groups are bundled into units of about `chunk_rows` rows."""

    def __init__(self, files: Sequence[File], chunk_rows: int) -> None:
        self._group_rows: list[list[int]] = []  # of every row group, per file
        super().__init__(files)
        self.bundle(chunk_rows)

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
            rows, first = 0, 0
            bundle: list[int] = []
            for group, count in enumerate(group_rows):
                if bundle and rows + count > chunk_rows:
                    units.append(Unit(file, tuple(bundle), rows, first))
                    bundle, rows, first = [], 0, first + rows
                bundle.append(group)
                rows += count
            if rows:
                units.append(Unit(file, tuple(bundle), rows, first))

    def read_rows(self, unit: Unit, roles: Roles, rows: Index) -> RawRows:
        """Rows of a unit by their places in it, rising; rows behind the last of them are not
        decoded.
        """
        unit.file.check()
        names, stored = self._columns(unit, roles)
        picked, begin = [], 0
        with reading(unit.file.path):
            with closing(self._tables(unit, stored, roles, PICKED_ROWS)) as tables:
                for table in tables:
                    end = begin + table.num_rows
                    places = rows[slice(*np.searchsorted(rows, (begin, end)))]
                    if len(places):
                        picked.append(table.take(places - begin))
                    begin = end
                    if begin > rows[-1]:
                        break
            table = self._with_keys(pa.concat_tables(picked), unit.file, names)
            return self._raw_rows(table, roles, Place(unit.file.path, unit.first_row, rows))

    def _tables(
        self, unit: Unit, names: list[str], roles: Roles, chunk_rows: int
    ) -> Generator[pa.Table, None, None]:
        if not names:  # only columns that folders name
            yield pa.table({"": pa.nulls(unit.n_rows or 0)})
            return
        with parquet.ParquetFile(unit.file.path) as file:
            for batch in file.iter_batches(
                chunk_rows, row_groups=list(unit.groups or ()), columns=names
            ):
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

    def _tables(
        self, unit: Unit, names: list[str], roles: Roles, chunk_rows: int
    ) -> Iterator[pa.Table]:
        schema = self.schemas[self._positions[unit.file.path]]
        learned = {roles.score, *(roles.features or ())}
        types = {}
        for name in names:
            kind = schema.field(name).type  # of the first rows
            may_be_label = pa.types.is_integer(kind) or pa.types.is_null(kind)
            is_numeric = (
                is_number(kind) or name == roles.score or (name in learned and not roles.as_table)
            )
            if name not in learned and may_be_label:
                types[name] = pa.string()  # 007 is written as it was read
            elif is_numeric and not pa.types.is_boolean(kind):
                types[name] = pa.float64()  # whole numbers or nothing at first, others later
        with self._open(unit.file, types, names) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])

    def _open(
        self, file: File, types: dict[str, pa.DataType], names: list[str] | None = None
    ) -> Any:
        """The rows of a file in batches, as `open_csv` gives them."""
        return open_csv(
            Path(file.path),
            {**types, **self._text},
            names,
            file.format,
            has_header=file.has_header,
        )


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
        self.has_comments = all(
            has_comments(next(lines_of(Path(file.path), 1), [])) for file in files
        )
        self.n_features = (
            max(last_feature(Path(file.path)) for file in files)
            if n_features is None
            else n_features
        )

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
        unknown = set(roles.features or ()) - set(self.number_columns()[1:]) | set(
            roles.extra
        ) - set(self.names)
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
            features = (X if columns == list(range(self.n_features)) else X[:, columns]).toarray()
            check_finite(features, roles.features, place)
        check_scores(scores, SCORE, place)
        runs = one_run()
        if roles.query is not None:
            if len(labels) != len(scores):
                raise TableError(f"{place.path}, near {place.of(0)}: some lines have no qid:")
            runs = runs_of(pa.chunked_array([pa.array(labels)]), QUERY, place)
        extra = {name: self._column(name, lines, X, scores, labels) for name in roles.extra}
        table = pa.table(extra) if extra else None
        return RawRows(
            len(scores), features, None if roles.score is None else scores, runs, place, table
        )

    def _column(self, name: str, lines: list[bytes], X: Any, scores: Any, labels: Any) -> pa.Array:
        """The values of a column that is carried along."""
        if name.isdecimal():
            return pa.array(X[:, [int(name) - 1]].toarray()[:, 0])
        if name == DOCUMENT:
            return pa.array(document_ids(lines), pa.string())
        return pa.array(scores, from_pandas=True) if name == SCORE else pa.array(labels)
