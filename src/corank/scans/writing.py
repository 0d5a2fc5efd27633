"""Tables that are written piece by piece, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from corank.tables import kind_of_file, pieces_to, replacing


@contextmanager
def table_writer(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Callable[[pa.Table], None]]:
    """Call what this gives with one table after the other; the file gets its name when the block ends well.

    The kind follows from the ending, as for `write_table`.
    """
    path = Path(path)
    kind, compressed = kind_of_file(path)
    with replacing(path, overwrite=overwrite) as file, pieces_to(file, kind, compressed=compressed) as write:
        yield write
