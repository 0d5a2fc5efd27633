"""Limits on what a small file may grow to in memory: each has a usual value and an environment
variable that raises it; and the readers that keep to them.

JSON Lines are looked at before they are parsed: how many names they have, and how deeply their
values are nested. Arrow's parser goes down one call per level, and a file of some kilobytes can be
nested so deeply that the process dies. Both counts take time linear in the size of a file, whatever
it holds. Parquet files are read whole where they do not grow too far: a value that is repeated
takes next to nothing in a file, but its full size in memory.
"""

from __future__ import annotations

import gzip
import io
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from corank.core.messages import in_bytes
from corank.tables.columns import TableError, is_list, usual_types

FREE_BYTES = 2**26  # a compressed file may always grow to that
FREE_PARQUET_BYTES = 2**27  # and a Parquet file, in which long texts are often repeated
MAX_DEPTH = 100  # of lists and objects inside each other
# That are looked at together: larger pieces would be new memory of the system each time, which takes
# five times as long.
PIECE_BYTES = 2**17
LONG_ROW_BYTES = 2**19  # from which the levels of a row are counted before its end is found
FIRST_BYTES = 2**19  # in which the names of the first rows are looked up
FEW_NAMES = 20  # that are looked for one by one
# between two rows; inside a row a comma would stand between the brackets, and a text has no new line
ROW_END = b"}\n{"
LIST_START, BRACKET_BITS = ord("["), 0x20  # the codes of [ and { differ in one bit
# A text that is no name is matched as well: no match begins inside of it.
_NAME = re.compile(rb'"([^"\\\n]*+(?:\\.[^"\\\n]*+)*+)"\s*+:|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?')
_STRUCTURE = b'"\r\n[]{}'
_NO_STRUCTURE = bytes(code for code in range(256) if code not in _STRUCTURE)
_BRACKETS_ALIKE = bytes.maketrans(b"{}", b"[]")
NUMBER_BYTES = 8
BATCH_ROWS = 2**16  # of texts that are only measured
BATCHES = 4  # at least, in which texts are measured that may be as large as is allowed
TEXT, FIXED = "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"
DICTIONARIES = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}
# A text may begin like the one before, which is not repeated in the file.
SHARED_STARTS = "DELTA_BYTE_ARRAY"
# Up to this size of a file its texts are measured, whatever its footer says; it would add a third to
# the time that a large file takes.
MEASURED_BYTES = 2**20

# The end of a file: the length of the footer, and the mark of the format.
LENGTH_BYTES, MARK_BYTES = 4, 4
MAX_FOOTER_BYTES = 2**20  # of one whose sizes of texts are read, which takes 0.1 s
# Numbers of fields in the structures of a footer, from the outermost on.
ROW_GROUPS, COLUMN_CHUNKS, COLUMN_METADATA = 4, 1, 3
PHYSICAL_TYPE, SIZES, DECODED_TEXT = 1, 16, 1
TEXT_CODE = 6  # of the physical type
# Kinds of values in the compact protocol of Thrift.
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
INTEGERS = (4, 5, 6)
LONG_LIST = 15  # the size of the list follows
NUMBER_BITS = 64


@dataclass(frozen=True)
class Limit:
    """A limit, and the environment variable that sets another."""

    variable: str
    usual: int

    @property
    def value(self) -> int:
        """The limit in force."""
        text = os.environ.get(self.variable, "").strip()
        if not text:
            return self.usual
        if not text.isdecimal() or int(text) == 0:
            raise ValueError(f"{self.variable} must be a whole number from 1, got {text!r}")
        return int(text)

    def check(self, amount: int, what: str) -> None:
        """Refuse more than the limit; `what` is the sentence up to the limit."""
        if amount > self.value:
            raise TableError(
                f"{what}, more than {self.value:,}: if this is intended, set"
                f" {self.variable}={amount}"
            )


MAX_COLUMNS = Limit("CORANK_MAX_COLUMNS", 200_000)
MAX_CELLS = Limit("CORANK_MAX_CELLS", 2**28)  # of a table that is read whole: 2 GB of numbers
MAX_LINE_BYTES = Limit("CORANK_MAX_LINE_BYTES", 2**24)
# size of the contents of a compressed file, in sizes of the file
MAX_EXPANSION = Limit("CORANK_MAX_EXPANSION", 50)
# size of an SVMlight file with all zeros, in sizes of the file, which leaves them out
MAX_ZEROS = Limit("CORANK_MAX_ZEROS", 2_000)


def check_table_size(path: object, n_rows: int, n_columns: int) -> None:
    """Refuse a table that is too wide, or too large to be read whole."""
    MAX_COLUMNS.check(n_columns, f"{path} has {n_columns:,} columns")
    MAX_CELLS.check(
        n_rows * n_columns,
        f"{path} has {n_rows:,} rows of {n_columns:,} columns, {n_rows * n_columns:,} cells",
    )


def check_expansion(
    path: object,
    n_bytes: int,
    n_compressed: int,
    limit: Limit = MAX_EXPANSION,
    free: int | None = None,
) -> None:
    """Refuse contents, so far or in all `n_bytes`, that are far larger than the compressed file
    that holds them.
    """
    if n_bytes > most_bytes(n_compressed, limit, free):
        raise TableError(
            f"{path} grows to {in_bytes(n_bytes)} or more when it is read, over"
            f" {limit.value:,} times its size: if this is intended, set"
            f" {limit.variable} to a larger number"
        )


def most_bytes(n_compressed: int, limit: Limit = MAX_EXPANSION, free: int | None = None) -> int:
    """Bytes to which a file of so many may grow."""
    return max(FREE_BYTES if free is None else free, limit.value * n_compressed)


def too_long_a_line(path: object) -> TableError:
    """The error for a line that is longer than it may be."""
    return TableError(
        f"{path} has a line of more than {in_bytes(MAX_LINE_BYTES.value)}: if this is intended, set"
        f" {MAX_LINE_BYTES.variable} to a larger number of bytes"
    )


def open_limited(path: Path, *, compressed: bool) -> io.BufferedReader:
    """Open a file of text for reading its bytes; refuses, as they are read, endless lines and
    endless contents.
    """
    stream: Any = gzip.GzipFile(path, "rb") if compressed else path.open("rb")
    return io.BufferedReader(
        _LimitedBytes(path, stream, path.stat().st_size if compressed else None), 2**20
    )


class _LimitedBytes(io.RawIOBase):
    """The bytes of a stream; `n_compressed` is the size of a compressed file, else None."""

    def __init__(self, path: Path, stream: Any, n_compressed: int | None) -> None:
        self._path, self._stream = path, stream
        self._n_read = self._n_in_line = 0
        self._most_in_line = MAX_LINE_BYTES.value
        self._n_compressed = n_compressed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        n = int(self._stream.readinto(view) or 0)
        self._n_read += n
        if self._n_compressed is not None:
            check_expansion(self._path, self._n_read, self._n_compressed)
        block = bytes(view[:n])
        before = self._n_in_line
        end = block.rfind(b"\n")
        self._n_in_line = n - end - 1 if end >= 0 else before + n
        if before + n > self._most_in_line:
            first, *others = map(len, block.split(b"\n"))
            if max(before + first, *others, 0) > self._most_in_line:
                raise too_long_a_line(self._path)
        return n

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


# ---- JSON Lines before they are parsed


def number_of_names(block: bytes) -> int:
    """How many different names the objects of a block have."""
    names = _names(block[:FIRST_BYTES])
    if len(block) > FIRST_BYTES and not _has_no_others(block, names):
        names = _names(block)
    return len(names)


def _names(block: bytes) -> set[bytes]:
    return set(_NAME.findall(block)) - {b""}


def _has_no_others(block: bytes, names: set[bytes]) -> bool:
    """Whether it is certain that all names of a block are these few; looking takes a third of the
    time that matching every text does.
    """
    if len(names) > FEW_NAMES or (b"\\" in block and b'\\"' in block):
        return False
    codes = np.frombuffer(block + b",", dtype=np.uint8)
    quotes = np.flatnonzero(codes == ord('"'))
    following = codes[quotes + 1]
    closes_name = following == ord(":")
    closes_name[:1] = False
    if (following <= ord(" ")).any():
        return False  # a colon may follow after the blank
    ends = quotes[closes_name]
    starts = quotes[np.flatnonzero(closes_name) - 1] + 1
    lengths = ends - starts
    n_left = len(starts)
    for name in names:
        places = starts[lengths == len(name)]
        for offset, code in enumerate(name):
            places = places[codes[places + offset] == code]
        n_left -= len(places)
    return n_left == 0


def open_shallow(path: Path, *, compressed: bool) -> Any:
    """Open JSON Lines for Arrow; what is nested too deeply is refused before it is parsed."""
    if compressed:
        return pa.PythonFile(ShallowStream(path, compressed=True), mode="r")
    with closing(ShallowStream(path, compressed=False)) as stream:
        while stream.read(PIECE_BYTES):
            pass
    return pa.input_stream(path, compression=None)  # needs no Python, nor its lock


class ShallowStream:
    """The bytes of a file of JSON Lines; those that are nested too deeply are refused as they are
    read.

    Rows with few brackets cannot be nested deeply, and mostly only the brackets are counted. From
    the first row with many on, levels are counted, without the brackets inside of texts.
    """

    def __init__(self, path: Path, *, compressed: bool) -> None:
        self._path = path
        self._compressed = compressed
        self._stream = self._open()
        self._begun_row = b""  # what was read since the last end of a row
        self._counts_levels = False
        self._n_uncounted = 0  # bytes before those whose levels are counted
        self._n_lines = 0  # after these bytes
        self._n_levels = 0
        self._is_text = False
        self._escape = b""

    def _open(self) -> Any:
        if self._compressed:
            return open_limited(self._path, compressed=True)
        return self._path.open("rb", buffering=0)

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return bool(self._stream.closed)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def read(self, size: int) -> bytes:
        """The next bytes, at most so many."""
        block: bytes = self._stream.read(size)
        for start in range(0, len(block), PIECE_BYTES):
            piece = block[start : start + PIECE_BYTES]
            if self._counts_levels:
                self._count_levels(piece)
            else:
                self._count_brackets(piece)
        return block

    def _count_brackets(self, piece: bytes) -> None:
        rows = self._begun_row + piece
        end = rows.rfind(ROW_END)
        is_long = end < 0 and len(rows) > LONG_ROW_BYTES
        if is_long or _may_be_deep(rows):
            self._counts_levels = True
            self._count_levels(rows)
            return
        begun = end + 2 if end >= 0 else 0
        self._n_uncounted += begun
        self._begun_row = rows[begun:]

    def _count_levels(self, piece: bytes) -> None:
        structure = self._without_escapes(piece).translate(_BRACKETS_ALIKE, _NO_STRUCTURE)
        if not structure:
            return
        codes = np.frombuffer(structure, dtype=np.uint8)
        is_line_end = (codes == ord("\n")) | (codes == ord("\r"))
        n_quotes = np.cumsum(codes == ord('"')) + self._is_text
        # a text ends with its line at the latest: parsers refuse one that goes on
        before_line = np.maximum.accumulate(np.where(is_line_end, n_quotes, 0))
        is_text = ((n_quotes - before_line) & 1).astype(bool)
        steps = (codes == ord("[")).astype(np.int64) - (codes == ord("]"))
        steps[is_text] = 0
        levels = np.cumsum(steps) + self._n_levels
        # an end without a start, which is an error, makes no room for further levels
        levels -= np.minimum.accumulate(np.minimum(levels, 0))
        too_deep = levels > MAX_DEPTH
        if too_deep.any():
            self._n_lines += int(np.count_nonzero(codes[: too_deep.argmax()] == ord("\n")))
            raise TableError(
                f"{self._path} has a value in line {self._lines_before() + self._n_lines + 1:,} that"
                f" is nested more than {MAX_DEPTH} levels deep: leave it out, or write it as text,"
                " in quotes"
            )
        self._n_lines += int(np.count_nonzero(codes == ord("\n")))
        self._n_levels = int(levels[-1])
        self._is_text = bool(is_text[-1])

    def _lines_before(self) -> int:
        """How many lines end before the bytes whose levels are counted."""
        n_lines = 0
        n_left = self._n_uncounted
        with self._open() as stream:
            while n_left and (block := stream.read(min(n_left, PIECE_BYTES))):
                n_lines += block.count(b"\n")
                n_left -= len(block)
        return n_lines

    def _without_escapes(self, piece: bytes) -> bytes:
        """A piece without escaped quotes and backslashes; an escape that it begins is kept for the
        next one.
        """
        piece = self._escape + piece
        self._escape = b""
        if b"\\" not in piece:
            return piece
        piece = piece.replace(b"\\\\", b"")
        if piece.endswith(b"\\"):
            piece = piece[:-1]
            self._escape = b"\\"
        return piece.replace(b'\\"', b"")


def _may_be_deep(rows: bytes) -> bool:
    """Whether there are so many brackets between two ends of rows that levels have to be counted.

    A row starts where the bytes start.
    """
    codes = np.frombuffer(rows, dtype=np.uint8)
    starts = np.flatnonzero((codes | BRACKET_BITS) == LIST_START | BRACKET_BITS)
    # with an end of a row between any two of these, no row has more than MAX_DEPTH brackets
    marks = starts[:: MAX_DEPTH // 2].tolist()
    return any(rows.find(ROW_END, mark, following + 1) < 0 for mark, following in pairwise(marks))


# ---- Parquet files that are read whole, and what they grow to


def read_parquet(path: Path) -> pa.Table:
    """Read a Parquet file that does not grow far beyond its size."""
    with parquet.ParquetFile(path) as file:
        check_table_size(path, file.metadata.num_rows, file.metadata.num_columns)
        _check_growth(path, file)
        return usual_types(file.read(), path)


def _check_growth(path: Path, file: parquet.ParquetFile) -> None:
    """Refuse a file whose values take far more memory than the file."""
    size = path.stat().st_size
    groups = [file.metadata.row_group(group) for group in range(file.metadata.num_row_groups)]
    check_expansion(
        path, sum(group.total_byte_size for group in groups), size, free=FREE_PARQUET_BYTES
    )
    n_bytes = 0
    texts: list[int] = []
    for position in range(file.metadata.num_columns):
        column = file.schema.column(position)
        width = max(NUMBER_BYTES, column.length if column.physical_type == FIXED else 0)
        n_values = file.metadata.num_rows
        if column.max_repetition_level > 0:  # lists have any number of values per row
            n_values = sum(group.column(position).num_values for group in groups)
        n_bytes += width * n_values
        if column.physical_type == TEXT:
            texts.append(position)
    check_expansion(path, n_bytes, size, free=FREE_PARQUET_BYTES)
    if texts:
        _check_texts(path, file, texts, n_bytes)


def _check_texts(
    path: Path, file: parquet.ParquetFile, positions: list[int], n_other_bytes: int
) -> None:
    """Refuse texts in the columns at these positions that take, together with `n_other_bytes`, far
    more memory than the file.

    A file that is not small is believed where it notes these bytes. Else the longest text of a
    dictionary bounds all that refer to it. Only where this bound is too large all references are
    read, without the texts.
    """
    size = path.stat().st_size
    metadata = file.metadata
    if size > MEASURED_BYTES:
        stated = stated_text_bytes(path)
        known = [n_bytes for n_bytes in stated if n_bytes is not None and n_bytes >= 0]
        if len(known) == len(stated) == len(positions) * metadata.num_row_groups:
            check_expansion(path, n_other_bytes + sum(known), size, free=FREE_PARQUET_BYTES)
            return
    most = most_bytes(size, free=FREE_PARQUET_BYTES)
    sharing = _sharing_starts(metadata, positions)
    names = {position: file.schema.column(position).path for position in positions}
    encoded_names = [name for position, name in names.items() if position not in sharing]
    with parquet.ParquetFile(path, metadata=metadata, read_dictionary=encoded_names) as encoded:
        bound = n_other_bytes
        for group in range(metadata.num_row_groups):
            bound += _text_bound(encoded, group, names, sharing)
        if bound <= most:
            return
        # no batch can have more bytes than a share of what is allowed
        longest = max(sharing.values(), default=1)
        batch_rows = max(1, min(BATCH_ROWS, most // (BATCHES * longest)))
        n_bytes = n_other_bytes
        for batch in encoded.iter_batches(batch_rows, columns=list(names.values())):
            n_bytes += sum(map(_text_bytes, _leaves(batch.columns)))
            check_expansion(path, n_bytes, size, free=FREE_PARQUET_BYTES)


def _sharing_starts(metadata: Any, positions: list[int]) -> dict[int, int]:
    """The columns whose texts share their beginnings, and the bytes that a text there has at most."""
    sharing: dict[int, int] = {}
    for group in range(metadata.num_row_groups):
        for position in positions:
            chunk = metadata.row_group(group).column(position)
            if SHARED_STARTS in chunk.encodings:
                longest = sharing.get(position, 1)
                sharing[position] = max(longest, chunk.total_uncompressed_size)
    return sharing


def _text_bound(
    encoded: parquet.ParquetFile, group: int, names: dict[int, str], sharing: dict[int, int]
) -> int:
    """The bytes that the texts of a row group have at most; `names` of columns by their positions."""
    footer = encoded.metadata.row_group(group)
    bound = 0
    n_references: dict[str, int] = {}  # to the dictionary of a column
    for position, name in names.items():
        chunk = footer.column(position)
        bound += chunk.total_uncompressed_size
        if position in sharing:
            bound += chunk.num_values * sharing[position]
        elif not DICTIONARIES.isdisjoint(chunk.encodings):
            n_references[name] = chunk.num_values
    if not n_references or footer.num_rows == 0:
        return bound
    # the first row brings the whole dictionary
    first_row = next(encoded.iter_batches(1, row_groups=[group], columns=list(n_references)))
    longest = [pc.max(_lengths(leaf)).as_py() or 0 for leaf in _leaves(first_row.columns)]
    counted = zip(longest, n_references.values(), strict=True)
    return bound + sum(length * n_values for length, n_values in counted)


def _leaves(arrays: Iterable[pa.Array]) -> Iterator[pa.Array]:
    """The arrays inside of lists and objects, in order."""
    for array in arrays:
        types = pa.types
        if types.is_struct(array.type):
            yield from _leaves(array.flatten())
        elif types.is_map(array.type):
            yield from _leaves([array.keys, array.items])
        elif is_list(array.type):
            yield from _leaves([array.flatten()])
        else:
            yield array


def _lengths(texts: pa.Array) -> pa.Array:
    """Bytes of each text, or of each text of a dictionary."""
    if pa.types.is_dictionary(texts.type):
        texts = texts.dictionary
    if pa.types.is_string_view(texts.type) or pa.types.is_binary_view(texts.type):
        texts = texts.cast(pa.large_binary())
    return pc.binary_length(texts)


def _text_bytes(texts: pa.Array) -> int:
    """Bytes of all texts, each as often as it occurs."""
    lengths = _lengths(texts)
    if pa.types.is_dictionary(texts.type):
        lengths = lengths.take(texts.indices)
    return pc.sum(lengths).as_py() or 0


# ---- sizes of texts in a footer, which Arrow does not pass on


def stated_text_bytes(path: Path) -> list[int | None]:
    """Bytes of all decoded texts per column chunk that holds texts, None where the writer did not
    note them; empty where the footer is large or strange.
    """
    with path.open("rb") as file:
        end = file.seek(-LENGTH_BYTES - MARK_BYTES, os.SEEK_END)
        n_bytes = int.from_bytes(file.read(LENGTH_BYTES), "little")
        if n_bytes > min(MAX_FOOTER_BYTES, end):
            return []
        file.seek(end - n_bytes)
        footer = _Footer(file.read(n_bytes))
    stated = []
    try:
        for _ in footer.structures(ROW_GROUPS):
            for _ in footer.structures(COLUMN_CHUNKS):
                is_text, n_text_bytes = _stated_of_chunk(footer)
                if is_text:
                    stated.append(n_text_bytes)
    except (IndexError, RecursionError, ValueError):
        return []
    return stated


def _stated_of_chunk(footer: _Footer) -> tuple[bool, int | None]:
    """Whether a column chunk holds texts, and the bytes that they are said to take."""
    is_text = False
    n_bytes = None
    for _ in footer.structure(COLUMN_METADATA):
        for number, kind in footer.fields():
            if number == PHYSICAL_TYPE:
                is_text = footer.number() == TEXT_CODE
            elif number == SIZES:
                for _ in footer.structure(DECODED_TEXT):
                    n_bytes = footer.number()
            else:
                footer.skip(kind)
    return is_text, n_bytes


class _Footer:
    """Reads the compact protocol of Thrift, field by field."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """The number and kind of each field of a structure; its value must be read or skipped
        before the next one is asked for.
        """
        number = 0
        while header := self._byte():
            step = header >> 4
            number = number + step if step else self.number()
            yield number, header & 15

    def structure(self, wanted: int) -> Iterator[None]:
        """Stops at the field `wanted` of a structure; other fields are skipped."""
        for number, kind in self.fields():
            if number == wanted:
                yield
            else:
                self.skip(kind)

    def structures(self, wanted: int) -> Iterator[None]:
        """Stops at each member of the list that is the field `wanted`; other fields are skipped."""
        for _ in self.structure(wanted):
            size, _ = self._list_start()
            for _ in range(size):
                yield

    def number(self) -> int:
        """A whole number."""
        code = self._varint()
        return (code >> 1) ^ -(code & 1)

    def skip(self, kind: int) -> None:
        """Pass over a value that is a field."""
        if kind == BINARY:
            n_bytes = self._varint()
            self._at += n_bytes
        elif kind in (LIST, SET):
            size, inner = self._list_start()
            for _ in range(size):
                self._skip_member(inner)
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner)
        elif kind in (BYTE, DOUBLE):
            self._at += 1 if kind == BYTE else 8
        elif kind in INTEGERS:
            self._varint()
        elif kind not in (TRUE, FALSE):  # whose kind is their value
            raise ValueError("no footer has such a kind of value")

    def _skip_member(self, kind: int) -> None:
        if kind in (TRUE, FALSE):
            self._at += 1
        else:
            self.skip(kind)

    def _list_start(self) -> tuple[int, int]:
        """The size of a list and the kind of its members."""
        header = self._byte()
        size = header >> 4
        return (self._varint() if size == LONG_LIST else size), header & 15

    def _varint(self) -> int:
        code = self._byte()
        if code < 128:
            return code
        code -= 128
        for shift in range(7, NUMBER_BITS, 7):
            byte = self._byte()
            code |= (byte & 127) << shift
            if byte < 128:
                return code
        raise ValueError("a number of too many bytes")

    def _byte(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        return byte
