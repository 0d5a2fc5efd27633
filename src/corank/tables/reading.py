"""Tables from files."""

import gzip
import os
import re
import zlib
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json
from pyarrow import parquet

from corank.tables.columns import MISSING, TableError, check_unique
from corank.tables.kinds import (
    BEGINNING,
    JSON_LINES,
    PARQUET,
    PARQUET_BEGINS,
    SEPARATORS,
    is_svmlight,
    kind_of_file,
    looks_like_text,
)
from corank.tables.svmlight import read_svmlight

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
