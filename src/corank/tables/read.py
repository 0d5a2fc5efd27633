"""Kinds of table files: by the ending of a name, or by the first bytes.

SVMlight and LETOR: `score qid:3 1:0.5 2:0.1 # note`, one row a line; features that are not named are 0.

As a table the columns are `score`, `qid` where the lines have one, and the features `1`, `2`, …; a score of nan is none.

Tables from files.
"""

import codecs
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json
from pyarrow import parquet
from sklearn.datasets import load_svmlight_file

from corank.tables.columns import MISSING, TableError, check_unique

SEPARATORS = {".csv": ",;\t", ".tsv": "\t", ".txt": "\t,;"}
PARQUET = (".parquet", ".pq")
JSON_LINES = (".jsonl", ".ndjson")
SVMLIGHT = (".svm", ".svmlight", ".libsvm", ".letor", ".dat")
FORMATS = {"csv": ".csv", "tsv": ".tsv", "parquet": ".parquet", "jsonl": ".jsonl", "svmlight": ".svm"}
PARQUET_BEGINS, GZIP_BEGINS = b"PAR1", b"\x1f\x8b"
BEGINNING = 4096  # bytes by which a kind is known
_SVMLIGHT_LINE = re.compile(rb"\s*[-+]?[\w.]+([-+]\d+)?(\s+qid:\S+)?(\s+\d+:\S+)+\s*(#.*)?")


def kind_of_file(path: Path) -> tuple[str, bool]:
    """Ending that says the kind, and whether the file is compressed."""
    endings = [ending.lower() for ending in path.suffixes[-2:]] or [""]
    compressed = endings[-1] == ".gz"
    kind = (endings[:-1] or [""])[-1] if compressed else endings[-1]
    if kind in (*SEPARATORS, *JSON_LINES, *SVMLIGHT) or (kind in PARQUET and not compressed):
        return kind, compressed
    known = ", ".join([*SEPARATORS, *JSON_LINES, *SVMLIGHT, *PARQUET])
    raise TableError(f"{path} does not end like a table; known endings are {known}, all but the last two also with .gz")


def is_table_name(path: Path) -> bool:
    """Whether a file is a table by the ending of its name."""
    try:
        kind_of_file(path)
    except TableError:
        return False
    return True


def is_svmlight(path: Path) -> bool:
    """Whether a file is one of SVMlight or LETOR, whose `.txt` is known by its first line."""
    kind = kind_of_file(path)[0]
    if kind != ".txt":
        return kind in SVMLIGHT
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return _begins_like_svmlight(unzipped(file.read(BEGINNING)))


def ending_of(beginning: bytes) -> str:
    """The ending that a file should have by its first bytes."""
    zipped = beginning.startswith(GZIP_BEGINS)
    text = unzipped(beginning)
    if text.startswith(PARQUET_BEGINS):
        return ".parquet"
    kind = ".jsonl" if text.lstrip().startswith(b"{") else ".svm" if _begins_like_svmlight(text) else ".csv"
    return kind + (".gz" if zipped else "")


def unzipped(beginning: bytes) -> bytes:
    """The first bytes of what a file holds, compressed or not."""
    if not beginning.startswith(GZIP_BEGINS):
        return beginning
    try:
        return zlib.decompressobj(wbits=31).decompress(beginning, BEGINNING)
    except zlib.error:
        return b""


def looks_like_text(beginning: bytes) -> bool:
    """Whether first bytes are those of UTF-8 text."""
    try:
        codecs.utf_8_decode(beginning, "strict", False)  # a letter may be cut in two at the end
    except UnicodeDecodeError:
        return False
    return b"\0" not in beginning


def _begins_like_svmlight(text: bytes) -> bool:
    lines = [line for line in text.splitlines() if line.split(b"#", 1)[0].strip()]
    return bool(lines) and (_SVMLIGHT_LINE.fullmatch(lines[0]) is not None or _is_cut_line(lines, len(text)))


def _is_cut_line(lines: list[bytes], size: int) -> bool:
    """Whether the first line is longer than what was read, and begins like one of SVMlight."""
    return size >= BEGINNING and len(lines) == 1 and _SVMLIGHT_LINE.fullmatch(lines[0].rsplit(None, 1)[0]) is not None


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
    with _opened(path) as opened:
        for line in opened:
            if line.split(b"#", 1)[0].strip():
                lines.append(line)
            if len(lines) == number:
                yield lines
                lines = []
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


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The bytes of a file; what breaks meanwhile names it."""
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as opened:
            yield opened
    except (OSError, EOFError, zlib.error) as error:
        raise TableError(f"{path} cannot be read, it may be damaged or cut off: {error}") from error


DECIMAL_COMMA = re.compile(r"-?\d+,\d+([eE][+-]?\d+)?")


def read_table(path: str | os.PathLike[str], *, text: Iterable[str] = ()) -> pa.Table:
    """Read a table; its kind follows from the ending of its name.

    CSV and TSV are UTF-8 with one header row; fields that are empty or hold one of the usual marks (NA, N/A, #N/A, NaN,
    NULL, None, ?, -) are missing. The separator of a `.csv` is the first of comma, semicolon and tab that its header
    has, of a `.txt` tab, comma, semicolon. Numbers with a decimal comma are understood where semicolons separate.
    SVMlight and LETOR (also as `.txt`) have columns `score`, `qid` where there is one, and `1`, `2`, …: see `svmlight`.

    Parameters
    ----------
    path : path
        `.csv`, `.tsv`, `.txt`, `.jsonl`, `.svm` and its like (each also with `.gz`), `.parquet` or `.pq`.
    text : names
        Columns of a CSV that stay text even where they look like numbers or dates, such as the label `007`. Names that
        the file does not have are ignored.

    Returns
    -------
    pyarrow.Table
    """
    path = Path(path)
    if path.is_dir():
        raise TableError(f"{path} is a folder, not a table")
    kind, compressed = kind_of_file(path)
    if not path.exists():
        raise TableError(f"there is no file {path}")
    try:
        if path.stat().st_size == 0:
            raise TableError(f"{path} is empty")
        _check_beginning(path, is_parquet=kind in PARQUET)
        if kind in PARQUET:
            table = parquet.ParquetFile(path).read()
        elif kind in JSON_LINES:
            table = _read_json_lines(path, compressed=compressed)
        elif is_svmlight(path):
            table = read_svmlight(path)
        else:
            names = {text} if isinstance(text, str) else set(text)
            table = _read_separated(path, SEPARATORS[kind], names, compressed=compressed)
    except UnicodeDecodeError as error:
        raise TableError(f"{path} is not UTF-8 text: save it as UTF-8") from error
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TableError(f"{path} cannot be read, it may be damaged or cut off: {what}") from error
    check_unique(table.column_names, str(path))
    if table.num_rows == 0:
        raise TableError(f"{path} has a header but no rows")
    return table


def _check_beginning(path: Path, *, is_parquet: bool) -> None:
    """Refuse a file whose first bytes show that it has the ending of another kind."""
    with path.open("rb") as file:
        beginning = file.read(BEGINNING)
    if beginning.startswith(PARQUET_BEGINS):
        if not is_parquet:
            raise TableError(f"{path} is a Parquet file: rename it to .parquet")
    elif is_parquet and looks_like_text(beginning):
        raise TableError(f"{path} looks like text: rename it to .csv")


def csv_layout(path: Path) -> tuple[int, arrow_csv.ParseOptions, str]:
    """Rows before the header, how fields are separated, and the decimal point, from the first rows of a file."""
    kind, compressed = kind_of_file(path)
    skip, layout = _layout(path, SEPARATORS[kind], compressed=compressed)
    opened = gzip.open if compressed else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        beginning = [line for _, line in zip(range(100), file, strict=False)]
    fields = [field.strip() for line in beginning[skip + 1 :] for field in line.split(layout.delimiter)]
    commas = layout.delimiter == ";" and any(DECIMAL_COMMA.fullmatch(field) for field in fields)
    return skip, layout, "," if commas else "."


def _layout(path: Path, separators: str, *, compressed: bool) -> tuple[int, arrow_csv.ParseOptions]:
    """Rows before the header, and how fields are separated."""
    opened = gzip.open if compressed else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        skip, header = next(((at, line) for at, line in enumerate(file) if line.strip("\r\n")), (0, ""))
        more = file.readline()
    if not header:
        raise TableError(f"{path} is empty")
    if not more:
        raise TableError(f"{path} has a header but no rows")
    unquoted = re.sub(r'"[^"]*"', "", header)
    separator = next((each for each in separators if each in unquoted), separators[0])
    return skip, arrow_csv.ParseOptions(
        delimiter=separator,
        newlines_in_values=True,
        ignore_empty_lines=separator in unquoted,  # in a table of one column a blank line is a missing value
    )


def _read_separated(path: Path, separators: str, text: set[str], *, compressed: bool) -> pa.Table:
    skip, layout = _layout(path, separators, compressed=compressed)
    table = _parse(path, skip, layout, text, compressed=compressed)
    for at, (name, values) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if pa.types.is_binary(values.type):
            raise TableError(f"column {name!r} of {path} is not UTF-8 text: save the file as UTF-8")
        if layout.delimiter == ";" and name not in text and _has_decimal_commas(values):
            table = table.set_column(at, name, pc.replace_substring(values, ",", ".").cast(pa.float64()))
    return table


def _parse(path: Path, skip: int, layout: arrow_csv.ParseOptions, text: set[str], *, compressed: bool) -> pa.Table:
    uneven: list[arrow_csv.InvalidRow] = []

    def remember(row: arrow_csv.InvalidRow) -> str:
        uneven.append(row)
        return "error"

    layout.invalid_row_handler = remember
    values = arrow_csv.ConvertOptions(
        null_values=list(MISSING), strings_can_be_null=True, column_types=dict.fromkeys(text, pa.string())
    )
    for threads in (True, False):  # only a single thread counts the rows
        uneven.clear()
        reading = arrow_csv.ReadOptions(use_threads=threads, skip_rows=skip, block_size=1 << 24)
        try:
            with pa.input_stream(path, compression="gzip" if compressed else None) as stream:
                return arrow_csv.read_csv(stream, reading, layout, values)
        except pa.ArrowInvalid:
            if not uneven:
                raise
    row = uneven[0]
    there = f"{row.actual_columns} fields, but the header has {row.expected_columns}"
    raise TableError(f"data row {row.number - skip - 1} of {path} has {there}")


def _read_json_lines(path: Path, *, compressed: bool) -> pa.Table:
    with pa.input_stream(path, compression="gzip" if compressed else None) as stream:
        return arrow_json.read_json(stream, arrow_json.ReadOptions(block_size=1 << 24))


def _has_decimal_commas(values: pa.ChunkedArray) -> bool:
    if not pa.types.is_string(values.type):
        return False
    return bool(pc.all(pc.match_substring_regex(values, r"^-?\d+(,\d+)?([eE][+-]?\d+)?$")).as_py())
