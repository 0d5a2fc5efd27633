"""Which files a scan reads: names, folders and patterns → files of one kind, each with its size and time."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from corank.tables import PARQUET, SEPARATORS, SVMLIGHT, TableError, is_svmlight

FORMATS = ("parquet", "csv", "svmlight")
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class File:
    """A file as it was when the scan was made.

    keys : columns that its folders name, as in `year=2024/part-0.parquet`
    """

    path: str
    size: int
    changed: int  # nanoseconds
    keys: tuple[tuple[str, str | None], ...] = ()

    def check(self) -> None:
        """Refuse a file that is no longer what it was."""
        try:
            now = Path(self.path).stat()
        except FileNotFoundError:
            raise TableError(f"{self.path} is gone; it was there when the scan was made") from None
        if (now.st_size, now.st_mtime_ns) != (self.size, self.changed):
            raise TableError(f"{self.path} was changed after the scan was made; make a new one")


def find_files(paths: Any, format: str | None) -> tuple[list[File], str]:
    """The files of names, folders and patterns, in order, and their format."""
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    if not isinstance(given, Iterable) or isinstance(given, bytes):
        raise TypeError(f"paths must be a path, a pattern such as 'rows/*.parquet', or a list, got {paths!r}")
    if format is not None and format not in FORMATS:
        raise ValueError(f"format {format!r} is not known; use {', '.join(map(repr, FORMATS))}")
    found: list[tuple[Path, Path | None]] = []
    for path in given:
        found += _expanded(path, format)
    if not found:
        raise TableError(f"paths names no file: {paths!r}")
    kinds = {format or _format_of(path) for path, _ in found}
    if len(kinds) > 1:
        raise TableError(f"the files are of several kinds ({', '.join(sorted(kinds))}); scan one kind at a time")
    return [_file(path, root) for path, root in found], kinds.pop()


def _expanded(path: Any, format: str | None) -> list[tuple[Path, Path | None]]:
    """The files behind one path, each with the folder that was given."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"paths must be text or paths, got {path!r}")
    if Path(text).is_dir():
        return [(file, Path(text)) for file in _inside(Path(text), format)]
    if Path(text).exists() or not glob.has_magic(text):
        return [(Path(text), None)]
    matches = sorted(Path(match) for match in glob.glob(text, recursive=True))  # noqa: PTH207 - it may begin anywhere
    if not matches:
        raise TableError(f"no file is called like {text}")
    result: list[tuple[Path, Path | None]] = []
    for match in matches:
        result += [(file, match) for file in _inside(match, format)] if match.is_dir() else [(match, None)]
    return result


def _inside(folder: Path, format: str | None) -> list[Path]:
    """The tables in a folder and its folders; names that begin with . or _ are notes of other programs."""
    files = []
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
        if not hidden and path.is_file() and _known(path, format):
            files.append(path)
    if not files:
        raise TableError(f"the folder {folder} has no files to read{'' if format is None else f' as {format}'}")
    return files


def _known(path: Path, format: str | None) -> bool:
    try:
        return format is None or _format_of(path) == format
    except TableError:
        return False


def _format_of(path: Path) -> str:
    endings = [ending.lower() for ending in path.suffixes[-2:]] or [""]
    kind = (endings[:-1] or [""])[-1] if endings[-1] == ".gz" else endings[-1]
    for format, known in (("parquet", PARQUET), ("csv", tuple(SEPARATORS)), ("svmlight", SVMLIGHT)):
        if kind == ".txt" and is_svmlight(path):
            return "svmlight"
        if kind in known and not (format == "parquet" and endings[-1] == ".gz"):
            return format
    raise TableError(f"{path} does not end like a table; say format='parquet', 'csv' or 'svmlight'")


def _file(path: Path, root: Path | None) -> File:
    if path.is_dir():
        raise TableError(f"{path} is a folder inside the folder that was given; give its files")
    try:
        about = path.stat()
    except FileNotFoundError:
        raise TableError(f"there is no file {path}") from None
    if about.st_size == 0:
        raise TableError(f"{path} is empty")
    parts = () if root is None else path.relative_to(root).parts[:-1]
    keys = [part.split("=", 1) for part in parts if "=" in part]
    own = tuple((name, None if value == NO_VALUE else unquote(value)) for name, value in keys)
    return File(str(path), about.st_size, about.st_mtime_ns, own)
