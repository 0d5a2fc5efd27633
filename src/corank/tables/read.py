"""Tables from files: CSV and TSV, Parquet, JSON lines, SVMlight and LETOR; the format is given, or
follows from the ending of a name.

`read_table` reads a whole table. Scans read the same files chunk by chunk, with what this module
says about kinds, CSV layouts and SVMlight lines.
"""

import codecs
import csv
import io
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json

from corank.tables.columns import MISSING, TableError, check_unique, columns_of
from corank.tables.limits import (
    MAX_CELLS,
    MAX_COLUMNS,
    MAX_LINE_BYTES,
    MAX_ZEROS,
    check_expansion,
    check_table_size,
    number_of_names,
    open_limited,
    open_shallow,
    read_parquet,
    too_long_a_line,
)

SEPARATORS = {".csv": ",;\t", ".tsv": "\t", ".txt": "\t,;"}
PARQUET = (".parquet", ".pq")
JSON_LINES = (".jsonl", ".ndjson")
SVMLIGHT = (".svm", ".svmlight", ".libsvm", ".letor", ".dat")
SPREADSHEETS = (".xlsx", ".xlsm", ".xls", ".ods", ".numbers")
FORMATS = {
    "csv": ".csv",
    "tsv": ".tsv",
    "parquet": ".parquet",
    "jsonl": ".jsonl",
    "svmlight": ".svm",
}
PARQUET_START, GZIP_START = b"PAR1", b"\x1f\x8b"
BEGINNING = 4096  # bytes by which the kind of a file is recognised
BLOCK_BYTES = 2**24  # of text that is parsed at a time
# of the rows by which decimal commas are recognised, at most
LAYOUT_ROWS, LAYOUT_CHARACTERS = 100, 2**20
NUMBER_BYTES = 8
MAX_DIGITS = 18  # of the number of a feature
WIDE = 1_000  # columns from which the types of a CSV are guessed by its first row, and checked
# columns of an SVMlight file; the last is made of its comments
SCORE, QUERY, DOCUMENT = "score", "qid", "docid"
PARSED_AT_ONCE = 10_000  # lines of SVMlight
_SVMLIGHT_LINE = re.compile(rb"\s*[-+]?[\w.]+([-+]\d+)?(\s+qid:\S+)?(\s+\d+:\S+)+\s*(#.*)?")
_DOCUMENT_ID = re.compile(rb"\bdocid\s*=\s*(\S+)", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"-?\d+,\d+([eE][+-]?\d+)?")
_MIXED_TYPES = re.compile(r"[^/]*Column\(/(.*)\) changed from (\w+) to (\w+) in row (\d+)")
_FRACTION = re.compile(r"-?\d+\.\d+(e[+-]?\d+)?")
_SVMLIGHT_METADATA = {b"corank": b"svmlight"}


def read_table(
    path: str | os.PathLike[str],
    *,
    text: Iterable[str] = (),
    format: str | None = None,
    has_header: bool = True,
) -> pa.Table:
    """Read a table; its format is given, or follows from the ending of its name.

    CSV and TSV are UTF-8 with one header row; fields that are empty or hold one of the usual marks
    (NA, N/A, #N/A, NaN, NULL, None, ?, -) are missing. The separator of a `.csv` is the first of
    comma, semicolon and tab that its header has, of a `.txt` tab, comma, semicolon. Numbers with a
    decimal comma are understood where semicolons separate. SVMlight and LETOR (also as `.txt`) have
    columns `score` (nan: unscored), `qid` where there is one, `docid` where comments name the rows
    (`# docid = GX001`, or any other text), and `1`, `2`, ….

    Parameters
    ----------
    path : path
        `.csv`, `.tsv`, `.txt`, `.jsonl`, `.svm` and its like (each also with `.gz`), `.parquet` or
        `.pq`.
    text : names
        Columns of a CSV that stay text even where they look like numbers or dates, such as the
        label `007`. Names that the file does not have are ignored.
    format : one of `FORMATS`, or None to go by the ending
    has_header : whether the first row of a CSV names its columns, which are else called 1, 2, …

    Returns
    -------
    pyarrow.Table
    """
    path = Path(path)
    if path.is_dir():
        raise TableError(f"{path} is a folder, not a table")
    if format is None:
        kind_of_file(path)  # refuses names that say nothing
    if not path.exists():
        raise TableError(f"there is no file {path}")
    if not path.is_file():
        raise TableError(f"{path} is not a regular file: write its contents to one, and read that")
    with reading(path):
        if path.stat().st_size == 0:
            raise TableError(f"{path} is empty")
        known = format or format_of_file(path)
        _check_beginning(path, is_parquet=known == "parquet")
        if known == "parquet":
            table = read_parquet(path)
        elif known == "jsonl":
            table = _read_json_lines(path)
        elif known == "svmlight":
            table = _read_svmlight(path)
        else:
            layout = csv_layout(path, format, has_header=has_header)
            table = _read_csv(path, layout, {text} if isinstance(text, str) else set(text))
    check_unique(table.column_names, str(path))
    if table.num_rows == 0:
        raise TableError(f"{path} has a header but no rows")
    return table


@dataclass(frozen=True)
class TableFile:
    """A table in a file, and how to read it.

    Attributes
    ----------
    path : where it is
    format, has_header : as for `read_table`
    """

    path: Path
    format: str | None = None
    has_header: bool = True

    def __str__(self) -> str:
        return str(self.path)

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def is_svmlight(self) -> bool:
        """Whether it is a file of SVMlight or LETOR."""
        if self.format is not None or not self.path.is_file() or not is_table_name(self.path):
            return self.format == "svmlight"
        return format_of_file(self.path) == "svmlight"

    def read(self, text: Iterable[str] = ()) -> pa.Table:
        """The table; columns `text` stay text."""
        return read_table(self.path, text=text, format=self.format, has_header=self.has_header)


@contextmanager
def reading(path: object) -> Iterator[None]:
    """Errors inside the block name the file that was being read."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise TableError(f"{path} is not UTF-8 text: save it as UTF-8") from error
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "straddl" in reason:  # two blocks, each as long as a line may be
            raise too_long_a_line(path) from error
        raise TableError(
            f"{path} cannot be read, it may be damaged or cut off: {reason}"
        ) from error


def _block_bytes() -> int:
    """Bytes of text that are parsed at a time: a whole line at least."""
    return max(BLOCK_BYTES, MAX_LINE_BYTES.value)


def _read_json_lines(path: Path) -> pa.Table:
    compressed = _ending(path)[1]
    with open_limited(path, compressed=compressed) as file:
        block = file.read(BLOCK_BYTES)
    check_table_size(path, block.count(b"\n"), number_of_names(block))
    try:
        with open_shallow(path, compressed=compressed) as stream:
            return arrow_json.read_json(stream, arrow_json.ReadOptions(block_size=_block_bytes()))
    except pa.ArrowInvalid as error:
        mixed = _MIXED_TYPES.match(str(error))
        if mixed is None:
            raise
        name, before, after, row = mixed.groups()
        raise TableError(
            f"column {name!r} of {path} holds a {before} in some rows and a {after} in others,"
            f" first in data row {int(row) + 1} of a block: write one kind of value, such as all of"
            " them in quotes"
        ) from error


# ---- kinds of files


def _ending(path: Path) -> tuple[str, bool]:
    endings = [ending.lower() for ending in path.suffixes[-2:]] or [""]
    compressed = endings[-1] == ".gz"
    return (endings[:-1] or [""])[-1] if compressed else endings[-1], compressed


def kind_of_file(path: Path) -> tuple[str, bool]:
    """The ending that says the kind of a table, and whether the file is compressed."""
    kind, compressed = _ending(path)
    if kind in (*SEPARATORS, *JSON_LINES, *SVMLIGHT) or (kind in PARQUET and not compressed):
        return kind, compressed
    if kind in SPREADSHEETS:
        raise TableError(
            f"{path} is a spreadsheet: save it as CSV in your spreadsheet program, and give that"
            " file"
        )
    endings = ", ".join([*SEPARATORS, *JSON_LINES, *SVMLIGHT, *PARQUET])
    raise TableError(
        f"{path} has no file extension of a table; known are {endings}, all but the last two also"
        " with .gz"
    )


def format_of_file(path: Path) -> str:
    """The format by the ending of the name: "parquet", "csv", "jsonl" or "svmlight"; a `.txt` goes
    by its first line.
    """
    kind, _ = kind_of_file(path)
    if kind in SVMLIGHT:
        return "svmlight"
    if kind == ".txt" and path.is_file():
        with path.open("rb") as file:
            return (
                "svmlight" if _begins_like_svmlight(_decompressed(file.read(BEGINNING))) else "csv"
            )
    return "parquet" if kind in PARQUET else "jsonl" if kind in JSON_LINES else "csv"


def is_table_name(path: Path) -> bool:
    """Whether a file is a table by the ending of its name."""
    try:
        kind_of_file(path)
    except TableError:
        return False
    return True


def ending_of(beginning: bytes) -> str:
    """The ending that a file should have by its first bytes."""
    text = _decompressed(beginning)
    if text.startswith(PARQUET_START):
        return ".parquet"
    kind = (
        ".jsonl"
        if text.lstrip().startswith(b"{")
        else ".svm"
        if _begins_like_svmlight(text)
        else ".csv"
    )
    return kind + (".gz" if beginning.startswith(GZIP_START) else "")


def _decompressed(beginning: bytes) -> bytes:
    """The first bytes of the contents of a file, compressed or not; nothing where they are damaged."""
    if not beginning.startswith(GZIP_START):
        return beginning
    try:
        return zlib.decompressobj(wbits=31).decompress(beginning, BEGINNING)
    except zlib.error:
        return b""


def _begins_like_svmlight(text: bytes) -> bool:
    lines = [line for line in text.splitlines() if line.split(b"#", 1)[0].strip()]
    if not lines:
        return False
    first = lines[0]
    if len(lines) == 1 and len(text) >= BEGINNING and not _SVMLIGHT_LINE.fullmatch(first):
        # the line is longer than the bytes that were read: its last field is cut
        first = first.rsplit(None, 1)[0]
    return _SVMLIGHT_LINE.fullmatch(first) is not None


def _check_beginning(path: Path, *, is_parquet: bool) -> None:
    """Refuse a file whose first bytes show that it has the ending of another kind."""
    with path.open("rb") as file:
        beginning = file.read(BEGINNING)
    if beginning.startswith(PARQUET_START):
        if not is_parquet:
            raise TableError(f"{path} is a Parquet file: rename it to .parquet")
    elif is_parquet and b"\0" not in beginning:
        try:
            codecs.utf_8_decode(beginning, "strict", False)  # a letter may be cut in two at the end
        except UnicodeDecodeError:
            return
        raise TableError(f"{path} looks like text: rename it to .csv")


# ---- CSV


class CsvLayout(NamedTuple):
    """How a CSV file is written: blank rows before its header, its separator, how many columns it
    has, whether numbers have commas, and the names of its columns where no header has them.
    """

    skipped_rows: int
    separator: str
    n_columns: int
    decimal_commas: bool
    names: list[str] | None


def csv_layout(path: Path, format: str | None = None, *, has_header: bool = True) -> CsvLayout:
    """The layout of a CSV file, by its header and first rows.

    `format`: "csv" or "tsv", None to go by the ending; `has_header` as for `read_table`.
    """
    separators = SEPARATORS.get(_ending(path)[0], SEPARATORS[".csv"])
    if format == "tsv":
        separators = SEPARATORS[".tsv"]
    elif format == "csv":  # one of another name may have any separator
        separators += SEPARATORS[".csv"]
    with _open_text(path) as file:
        skipped, header = next(
            ((at, line) for at, line in enumerate(file) if line.strip("\r\n")), (0, "")
        )
        unquoted = re.sub(r'"[^"]*"', "", header)
        separator = next(
            (candidate for candidate in separators if candidate in unquoted), separators[0]
        )
        n_columns = unquoted.count(separator) + 1
        MAX_COLUMNS.check(n_columns, f"{path} has {n_columns:,} columns")
        lines = [file.readline()] if has_header else [header]
        while lines[-1] and len(lines) < LAYOUT_ROWS and sum(map(len, lines)) < LAYOUT_CHARACTERS:
            lines.append(file.readline())
        lines = [line for line in lines if line]
    if not header:
        raise TableError(f"{path} is empty")
    if not lines:
        raise TableError(f"{path} has a header but no rows")
    fields = (field.strip() for line in lines for field in line.split(separator))
    decimal_commas = separator == ";" and any(_DECIMAL_COMMA.fullmatch(field) for field in fields)
    layout = CsvLayout(skipped, separator, n_columns, decimal_commas, None)
    if has_header:
        return layout
    n_columns = len(first_rows(path, layout, 1)[0])  # a cell may hold a line break
    names = [str(number) for number in range(1, n_columns + 1)]
    return CsvLayout(skipped, separator, n_columns, decimal_commas, names)


@contextmanager
def _open_text(path: Path) -> Iterator[Any]:
    with open_limited(path, compressed=_ending(path)[1]) as stream:
        yield io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")


def open_csv(
    path: Path,
    types: Mapping[str, pa.DataType],
    columns: Sequence[str] | None = None,
    format: str | None = None,
    *,
    has_header: bool = True,
) -> Any:
    """The rows of a CSV file in batches, as a `pyarrow.csv.CSVStreamingReader`.

    Columns without a given type have that of the first 16 MB. `columns` are those to read, None for
    all; `format` and `has_header` as for `read_table`.
    """
    layout = csv_layout(path, format, has_header=has_header)
    decimal_point = "," if layout.decimal_commas else "."
    return arrow_csv.open_csv(
        *_csv_arguments(
            path, layout, types, columns=columns, decimal_point=decimal_point, threads=False
        )
    )


def _csv_arguments(
    path: Path,
    layout: CsvLayout,
    types: Mapping[str, pa.DataType],
    *,
    threads: bool,
    columns: Sequence[str] | None = None,
    decimal_point: str = ".",
    uneven_row: Callable[[arrow_csv.InvalidRow], str] | None = None,
) -> tuple[Any, ...]:
    """Stream and options for `pyarrow.csv`, whether a file is read whole or in batches."""
    if _ending(path)[1]:
        stream = pa.PythonFile(open_limited(path, compressed=True), mode="r")
    else:  # Arrow's own threads read it and need no Python
        stream = pa.input_stream(path, compression=None)
    return (
        stream,
        arrow_csv.ReadOptions(
            block_size=_block_bytes(),
            skip_rows=layout.skipped_rows,
            column_names=layout.names,
            use_threads=threads,
        ),
        arrow_csv.ParseOptions(
            delimiter=layout.separator,
            newlines_in_values=True,
            # in a table of one column a blank line is a missing value
            ignore_empty_lines=layout.n_columns > 1,
            invalid_row_handler=uneven_row,
        ),
        arrow_csv.ConvertOptions(
            null_values=list(MISSING),
            strings_can_be_null=True,
            column_types=dict(types),
            include_columns=columns,
            decimal_point=decimal_point,
        ),
    )


def _read_csv(path: Path, layout: CsvLayout, text: set[str]) -> pa.Table:
    types = dict.fromkeys(text, pa.string())
    fractions = {} if layout.n_columns < WIDE else _fractions(path, layout)
    try:
        table = _read_even_rows(path, layout, fractions | types)
    except pa.ArrowInvalid:  # a column begins with a fraction and holds text further down
        table = _read_even_rows(path, layout, types)
    columns = table.columns
    for position, (name, values) in enumerate(zip(table.column_names, columns, strict=True)):
        if pa.types.is_binary(values.type):
            raise TableError(f"column {name!r} of {path} is not UTF-8 text: save the file as UTF-8")
        if layout.separator == ";" and name not in text and pa.types.is_string(values.type):
            are_numbers = pc.all(
                pc.match_substring_regex(values, r"^-?\d+(,\d+)?([eE][+-]?\d+)?$")
            ).as_py()
            if are_numbers:  # with decimal commas
                columns[position] = pc.replace_substring(values, ",", ".").cast(pa.float64())
    return pa.Table.from_arrays(columns, table.column_names)


def first_rows(path: Path, layout: CsvLayout, number: int) -> list[list[str]]:
    """The fields of the first rows of a CSV file, of which the first may be its header."""
    with _open_text(path) as file:
        return list(
            islice(
                csv.reader(islice(file, layout.skipped_rows, None), delimiter=layout.separator),
                number,
            )
        )


def _fractions(path: Path, layout: CsvLayout) -> dict[str, pa.DataType]:
    """Columns of a wide table whose first cell is a fraction; to find their types out takes most of
    the time.
    """
    try:
        rows = first_rows(path, layout, 2)
    except csv.Error:
        return {}
    header, *others = rows if layout.names is None else [layout.names, *rows]
    if not others:
        return {}
    return {
        name: pa.float64()
        for name, cell in zip(header, others[0], strict=False)
        if _FRACTION.fullmatch(cell)
    }


def _read_even_rows(path: Path, layout: CsvLayout, types: Mapping[str, pa.DataType]) -> pa.Table:
    """The table of a file whose rows have as many fields as its header; the first other row is
    named.
    """
    uneven: list[arrow_csv.InvalidRow] = []

    def refuse(row: arrow_csv.InvalidRow) -> str:
        uneven.append(row)
        return "error"

    for threads in (True, False):  # only a single thread counts the rows
        uneven.clear()
        arguments = _csv_arguments(path, layout, types, threads=threads, uneven_row=refuse)
        try:
            with arguments[0]:
                return arrow_csv.read_csv(*arguments)
        except pa.ArrowInvalid:
            if not uneven:
                raise
    row = uneven[0]
    number = row.number - layout.skipped_rows - (layout.names is None)  # less the header
    raise TableError(
        f"data row {number} of {path} has {row.actual_columns}"
        f" fields, but the header has {row.expected_columns}"
    )


# ---- SVMlight and LETOR: one row per line, `score qid:3 1:0.5 2:0.1 # note`; features that are not named are 0


def _read_svmlight(path: Path) -> pa.Table:
    with_queries = has_queries(path)
    n_features = last_feature(path)
    lines = next(lines_of(path, None))
    n_numbers = len(lines) * n_features
    MAX_CELLS.check(
        n_numbers,
        f"{path} has {len(lines):,} rows of {n_features:,} features, too many for a table in"
        f" memory: give it in a folder, which is read in passes. {n_numbers:,} cells are",
    )
    check_expansion(path, NUMBER_BYTES * n_numbers, sum(map(len, lines)), MAX_ZEROS)
    try:
        X, scores, queries = parse_lines(lines, n_features)
    except ValueError as error:
        raise TableError(f"{path} is not an SVMlight file: {error}") from error
    if with_queries and len(queries) != len(scores):
        raise TableError(f"{path}: some lines have no qid, but others do")
    columns = {SCORE: scores, **({QUERY: queries} if with_queries else {})}
    if has_comments(lines):
        columns[DOCUMENT] = document_ids(lines)
    arrays = {name: pa.array(values, from_pandas=True) for name, values in columns.items()}
    arrays |= _feature_columns(X)
    return pa.table(arrays, metadata=_SVMLIGHT_METADATA)


def _feature_columns(X: Any) -> dict[str, pa.Array]:
    """The features as columns; those that no line names are one array of zeros."""
    n_rows, n_features = X.shape
    by_column = X.tocsc()
    named = np.flatnonzero(np.diff(by_column.indptr))
    dense = by_column[:, named].toarray(order="F")
    zeros = pa.array(np.zeros(n_rows))
    columns = dict.fromkeys(map(str, range(1, n_features + 1)), zeros)
    for position, number in enumerate(named.tolist()):
        columns[str(number + 1)] = pa.array(dense[:, position], from_pandas=True)
    return columns


def with_zeros(table: pa.Table, names: Any) -> pa.Table:
    """A table from an SVMlight file, with features that no line of it names as columns of 0; other
    tables as they are.
    """
    if (table.schema.metadata or {}).get(b"corank") != b"svmlight":
        return table
    columns = columns_of(table)
    zeros = pa.array(np.zeros(len(table)))
    for name in names:
        if str(name).isdecimal():
            columns.setdefault(str(name), zeros)
    return pa.table(columns, metadata=table.schema.metadata)


def parse_lines(lines: list[bytes], n_features: int) -> tuple[Any, Any, Any]:
    """Features (n, n_features) in CSR, scores (n,) and query labels (n,) or fewer of SVMlight
    lines, else a ValueError.
    """
    from scipy.sparse import vstack

    # The parser grows its array of queries by one at each line, which copies all of them.
    starts = range(0, len(lines), PARSED_AT_ONCE)
    parts = [_parse(lines[start : start + PARSED_AT_ONCE], n_features) for start in starts]
    if len(parts) == 1:
        return parts[0]
    features, scores, queries = zip(*parts, strict=True)
    return vstack(features, format="csr"), np.concatenate(scores), np.concatenate(queries)


def _parse(lines: list[bytes], n_features: int) -> tuple[Any, Any, Any]:
    from sklearn.datasets import load_svmlight_file

    try:
        result: tuple[Any, Any, Any] = load_svmlight_file(
            io.BytesIO(b"".join(lines)), n_features=n_features, query_id=True, zero_based=False
        )
    except OverflowError as error:
        raise ValueError(str(error)) from error
    return result


def lines_of(path: Path, number: int | None) -> Iterator[list[bytes]]:
    """The SVMlight lines that hold a row, `number` at a time; None for all of them."""
    lines: list[bytes] = []
    with _open_bytes(path) as file:
        for line in file:
            if line.split(b"#", 1)[0].strip():
                lines.append(line)
            if len(lines) == number:
                yield lines
                lines = []
    if lines:
        yield lines


def has_queries(path: Path) -> bool:
    """Whether the first row of an SVMlight file names its query; other files are refused."""
    for lines in lines_of(path, 1):
        fields = lines[0].split(None, 2)
        try:
            float(fields[0])
        except ValueError:
            raise TableError(
                f"{path} is not an SVMlight file: it begins with {lines[0][:40]!r}"
            ) from None
        return len(fields) > 1 and fields[1].startswith(b"qid:")
    raise TableError(f"{path} has no rows")


def has_comments(lines: list[bytes]) -> bool:
    """Whether comments name the rows of an SVMlight file: the first of its lines has one."""
    return any(document_ids(lines[:1]))


def document_ids(lines: list[bytes]) -> list[str | None]:
    """What the comments of SVMlight lines call the rows: the docid of LETOR or else the whole
    comment.
    """
    comments = (line.partition(b"#")[2].strip() for line in lines)
    named = ((comment, _DOCUMENT_ID.search(comment)) for comment in comments)
    return [
        (match[1] if match else comment).decode(errors="replace") or None
        for comment, match in named
    ]


def last_feature(path: Path) -> int:
    """The highest number of a feature in an SVMlight file."""
    highest = 0
    with _open_bytes(path) as file:
        for line in file:
            features = line.partition(b"#")[0]
            words = features.rpartition(b":")[0].rsplit(None, 1)
            number = words[-1].removeprefix(b"+") if words else b""
            if number.isdigit():
                is_readable = len(number) < MAX_DIGITS
                highest = max(highest, int(number) if is_readable else 10**MAX_DIGITS)
    MAX_COLUMNS.check(
        highest, f"{path} has a feature with the number {highest:,}, so as many columns"
    )
    return highest


@contextmanager
def _open_bytes(path: Path) -> Iterator[Any]:
    with reading(path), open_limited(path, compressed=_ending(path)[1]) as file:
        yield file
