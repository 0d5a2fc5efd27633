"""Parquet files that are read whole, and what they grow to: a value that is repeated takes next to
nothing in a file, but its full size in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import parquet

from corank.tables.columns import is_list, usual_types
from corank.tables.limits import check_expansion, check_table_size, most_bytes

NUMBER_BYTES = 8
BATCH_ROWS = 2**16  # of texts that are only measured
BATCHES = 4  # at least, in which texts are measured that may be as large as is allowed
TEXT, FIXED = "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"
DICTIONARIES = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}
# A text may begin like the one before, which is not repeated in the file.
SHARED_STARTS = "DELTA_BYTE_ARRAY"


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
    check_expansion(path, sum(group.total_byte_size for group in groups), size)
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
    check_expansion(path, n_bytes, size)
    if texts:
        _check_texts(path, file, texts, n_bytes)


def _check_texts(
    path: Path, file: parquet.ParquetFile, positions: list[int], n_other_bytes: int
) -> None:
    """Refuse texts in the columns at these positions that take, together with `n_other_bytes`, far
    more memory than the file.

    The longest text of a dictionary bounds all that refer to it. Only where this bound is too large
    all references are read, without the texts.
    """
    most = most_bytes(path.stat().st_size)
    metadata = file.metadata
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
            check_expansion(path, n_bytes, path.stat().st_size)


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
    longest = [int(_lengths(leaf).max(initial=0)) for leaf in _leaves(first_row.columns)]
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


def _lengths(texts: pa.Array) -> NDArray[np.int64]:
    """Bytes of each text, or of each text of a dictionary."""
    if pa.types.is_dictionary(texts.type):
        texts = texts.dictionary
    lengths = pc.fill_null(pc.binary_length(texts), 0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)


def _text_bytes(texts: pa.Array) -> int:
    """Bytes of all texts, each as often as it occurs."""
    lengths = _lengths(texts)
    if not pa.types.is_dictionary(texts.type):
        return int(lengths.sum())
    places = texts.indices.drop_null().to_numpy(zero_copy_only=False)
    return int(lengths @ np.bincount(places, minlength=len(lengths)))
