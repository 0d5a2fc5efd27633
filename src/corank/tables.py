"""Tables on disk and in memory: read, write, pick a column as scores or as query labels.

Every kind of table becomes one, a `pyarrow.Table`. How its columns become features is the business of `encoder`.
"""

import codecs
import difflib
import gzip
import os
import re
import secrets
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray
from pyarrow import parquet

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "none", "?", "-")
SEPARATORS = {".csv": ",;\t", ".tsv": "\t", ".txt": "\t,;"}
PARQUET = (".parquet", ".pq")
PARQUET_BEGINS = b"PAR1"
DECIMAL_COMMA = re.compile(r"-?\d+,\d+([eE][+-]?\d+)?")
LARGEST = 1e150  # the square of a feature must stay a number


class TableError(ValueError):
    """A table that cannot be used as it is; the message says what is wrong with it."""


def to_arrow(table: Any, names: Container[object] | None = None) -> pa.Table:
    """Any table (pandas without its index, polars, pyarrow, a dict of columns), only `names` if given.

    Names of columns are text and unique; columns that are not asked for may hold anything.
    """
    columns: Iterable[tuple[object, Any]]
    if isinstance(table, pa.Table):
        check_unique(table.column_names, "the table")
        columns = zip(table.column_names, table.columns, strict=True)
    elif isinstance(table, Mapping):
        columns = table.items()
    else:
        try:
            frame = nw.from_native(table, eager_only=True)
        except DuplicateError as error:
            raise TableError(f"the table has several columns of one name: {' '.join(str(error).split())}") from error
        except TypeError as error:
            kind = type(table).__name__
            raise TypeError(f"expected a table of pandas, polars (not lazy) or pyarrow, got {kind}") from error
        columns = ((series.name, series) for series in frame.iter_columns())
    try:
        return pa.table({name: _arrow_column(name, each) for name, each in columns if names is None or name in names})
    except pa.ArrowInvalid as error:
        raise TableError(f"the columns do not make a table: {error}") from error


def column_names(table: Any) -> list[str]:
    """Names of the columns of anything that `to_arrow` takes, as far as they are text."""
    names = table if isinstance(table, Mapping) else nw.from_native(table, eager_only=True).columns
    return [name for name in names if isinstance(name, str)]


def _arrow_column(name: object, values: Any) -> Any:
    if not isinstance(name, str):
        raise TableError(f"column names must be text, but one is {name!r}: rename the columns")
    if isinstance(values, pa.ChunkedArray):
        return values
    try:
        return values.to_arrow() if isinstance(values, nw.Series) else pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, UnicodeEncodeError) as error:
        raise TableError(f"column {name!r} does not hold values of one known kind: {error}") from error


def check_unique(names: list[str], where: str) -> None:
    """Refuse columns that have the same name."""
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise TableError(f"{where} has several columns of one name: {', '.join(map(repr, twice))}")


# ---- files


def read_table(path: str | os.PathLike[str], *, text: Iterable[str] = ()) -> pa.Table:
    """Read a table; its kind follows from the ending of its name.

    CSV and TSV are UTF-8 with one header row; fields that are empty or hold one of the usual marks (NA, N/A, #N/A, NaN,
    NULL, None, ?, -) are missing. The separator of a `.csv` is the first of comma, semicolon and tab that its header
    has, of a `.txt` tab, comma, semicolon. Numbers with a decimal comma are understood where semicolons separate.

    Parameters
    ----------
    path : path
        `.csv`, `.tsv`, `.txt` (each also with `.gz`), `.parquet` or `.pq`.
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
        beginning = file.read(4096)
    if beginning.startswith(PARQUET_BEGINS):
        if not is_parquet:
            raise TableError(f"{path} is a Parquet file: rename it to .parquet")
    elif is_parquet and _looks_like_text(beginning):
        raise TableError(f"{path} looks like text: rename it to .csv")


def _looks_like_text(beginning: bytes) -> bool:
    try:
        codecs.utf_8_decode(beginning, "strict", False)  # a letter may be cut in two at the end
    except UnicodeDecodeError:
        return False
    return b"\0" not in beginning


def is_table_name(path: Path) -> bool:
    """Whether a file is a table by the ending of its name."""
    try:
        kind_of_file(path)
    except TableError:
        return False
    return True


def kind_of_file(path: Path) -> tuple[str, bool]:
    """Ending that says the kind, and whether the file is compressed."""
    endings = [ending.lower() for ending in path.suffixes[-2:]] or [""]
    compressed = endings[-1] == ".gz"
    kind = (endings[:-1] or [""])[-1] if compressed else endings[-1]
    if kind in SEPARATORS or (kind in PARQUET and not compressed):
        return kind, compressed
    known = ", ".join([*SEPARATORS, *(f"{kind}.gz" for kind in SEPARATORS), *PARQUET])
    raise TableError(f"{path} does not end like a table; known endings are {known}")


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


def _has_decimal_commas(values: pa.ChunkedArray) -> bool:
    if not pa.types.is_string(values.type):
        return False
    return bool(pc.all(pc.match_substring_regex(values, r"^-?\d+(,\d+)?([eE][+-]?\d+)?$")).as_py())


def write_table(table: Any, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Write a table, whole or not at all; its kind follows from the ending of its name.

    Parameters
    ----------
    table : pandas, polars or pyarrow table, or dict of columns
    path : path
        As for `read_table`.
    overwrite : bool
        Whether a file that is already there may be replaced.
    """
    path = Path(path)
    kind, compressed = kind_of_file(path)
    columns = to_arrow(table)
    with replacing(path, overwrite=overwrite) as file:
        try:
            if kind in PARQUET:
                parquet.write_table(columns, file)
                return
            options = arrow_csv.WriteOptions(delimiter=SEPARATORS[kind][0])
            with pa.CompressedOutputStream(file, "gzip") if compressed else pa.PythonFile(file, "w") as stream:
                arrow_csv.write_csv(columns, stream, options)
        except pa.ArrowException as error:
            raise TableError(f"the table cannot be written as {kind}: {error}") from error


def check_target(path: Path, *, overwrite: bool) -> None:
    """Raise if a file of this name cannot be written: worth asking before long work."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file")
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} is already there: pass overwrite=True to replace it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist: create it first")


@contextmanager
def replacing(path: Path, *, overwrite: bool) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes its name only once it is complete, and is removed if the block raises."""
    check_target(path, overwrite=overwrite)
    part = path.with_name(f".corank-{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            yield file
        with part.open("rb+") as written:
            os.fsync(written.fileno())  # a name must not be there before what it names
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


# ---- columns


def column(table: pa.Table, name: str, role: str = "") -> pa.ChunkedArray:
    """Pick a column; `role` is what it is for, in a word, said in the error if it is not there."""
    names = table.column_names
    if name not in names:
        close = near_names(name, names)
        guess = f"; did you mean {' or '.join(map(repr, close))}?" if close else "."
        there = ", ".join(map(repr, names[:20])) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
        raise TableError(f"there is no {role + ' ' if role else ''}column {name!r}{guess} The columns are {there}")
    return table[name]


def near_names(name: str, names: Iterable[str]) -> list[str]:
    """Those of the names that may have been meant, the nearest first; upper and lower case are alike."""
    folded = {each.lower(): each for each in names}
    return [folded[each] for each in difflib.get_close_matches(name.lower(), folded)]


def score_column(table: pa.Table, name: str) -> NDArray[np.float64]:
    """Scores: (n_rows,), NaN where missing."""
    return numbers(column(table, name, "score"), name, "a number: leave the cell empty where a row is unscored")


def query_column(table: pa.Table, name: str) -> NDArray[Any]:
    """Query labels: (n_rows,) whole numbers where the column holds them, else text or dates; none may be missing."""
    labels = plain(column(table, name, "query"))
    if pa.types.is_nested(labels.type):
        raise TableError(f"query column {name!r} holds {labels.type} values: labels must be text, numbers or dates")
    missing = np.flatnonzero(pc.is_null(labels, nan_is_null=True).to_numpy())
    if missing.size:
        raise TableError(f"query column {name!r} has no value in data row {missing[0] + 1}: every row needs a query")
    return np.asarray(labels.to_numpy())


def plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values without a dictionary, as categories have one."""
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, without a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Whether values of this type are text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether values of this type are numbers or true and false."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def numbers(values: pa.ChunkedArray, name: str, what: str = "a number") -> NDArray[np.float64]:
    """Values of the column `name`, each `what`, as numbers: (n_rows,), NaN where missing; text is parsed."""
    values = plain(values)
    if is_text(values.type):
        result = parsed(values, name, what, number)
    elif is_number(values.type) or pa.types.is_null(values.type):
        result = values.cast(pa.float64(), safe=False).to_numpy()
    else:
        raise TableError(f"column {name!r} should hold numbers, but holds values of type {values.type}")
    wild = np.flatnonzero(np.abs(result) > LARGEST)
    if wild.size:
        value = result[wild[0]]
        raise TableError(f"column {name!r} has an infinite or far too large value, {value}, in data row {wild[0] + 1}")
    return np.asarray(result, dtype=np.float64)


def parsed(values: pa.ChunkedArray, name: str, what: str, parse: Callable[[str], float]) -> NDArray[np.float64]:
    """Texts of the column `name`, each `what`, as numbers: (n_rows,), NaN where missing."""
    result = np.full(len(values), np.nan)
    for row, value in enumerate(values.to_pylist()):
        try:
            if value is not None and value.strip() not in MISSING:
                result[row] = parse(value)
        except ValueError as error:
            raise TableError(f"column {name!r}: {value!r} in data row {row + 1} is not {what}") from error
    return result


def number(text: str) -> float:
    """The number that a text is; a ValueError if it is none."""
    if "_" in text:  # Python reads 1_000 as a number, people do not
        raise ValueError
    return float(text)
