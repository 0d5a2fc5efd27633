"""Parquet files that are read whole, and what they grow to: a value that is repeated takes next to
nothing in a file, but its full size in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from corank.tables.columns import is_list, usual_types
from corank.tables.limits import (
    FREE_PARQUET_BYTES,
    check_expansion,
    check_table_size,
    most_bytes,
)

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
