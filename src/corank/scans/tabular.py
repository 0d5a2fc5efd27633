"""Parquet and CSV: files with named columns. Footers and headers of all files are checked before any row is read."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
from pyarrow import parquet

from corank.scans.chunks import (
    Place,
    feature_matrix,
    feature_type,
    label_kind,
    one_run,
    runs_of,
    scores_of,
)
from corank.scans.files import File
from corank.scans.sources import Raw, Unit, Wanted, rechunked
from corank.tables import MISSING, TableError, check_unique, csv_layout, is_number, near_names, plain_type

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
