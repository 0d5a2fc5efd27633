"""JSON Lines before they are parsed: how many names they have, and how deeply their values are
nested.

Arrow's parser goes down one call per level, and a file of some kilobytes can be nested so deeply
that the process dies. Both counts take time linear in the size of a file, whatever it holds.
"""

from __future__ import annotations

import re
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from corank.tables.columns import TableError
from corank.tables.limits import open_limited

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
        self._path, self._compressed = path, compressed
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
        n_lines, n_left = 0, self._n_uncounted
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
            piece, self._escape = piece[:-1], b"\\"
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
