"""Kinds of table files: by the ending of a name, or by the first bytes."""

import codecs
import re
import zlib
from pathlib import Path

from corank.tables.columns import TableError

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
