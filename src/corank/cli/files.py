"""Files that a command reads and writes: standard input, tables whose format is given, and
refusals, before any work, of files that must not or cannot be written.
"""

from __future__ import annotations

import glob
import os
import shlex
import shutil
import sys
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO

import typer

if TYPE_CHECKING:
    from corank.cli.options import Format
    from corank.tables import TableFile

DASH = Path("-")
STANDARD_INPUT = "standard input"


# ---- reading


class Streams:
    """Standard input and pipes as files, which can be read twice, for as long as a command runs."""

    def __init__(self, *, has_header: bool = True) -> None:
        self.has_header = has_header  # the first table
        self._folder: TemporaryDirectory[str] | None = None
        self._names: dict[Path, str] = {}  # of the files, as the user gave them

    def copied(self, stream: BinaryIO, name: str) -> Path:
        """What a stream holds, as a file with the ending of its kind."""
        from corank.tables import TableError, ending_of
        from corank.tables.read import BEGINNING

        beginning = stream.read(BEGINNING)
        if not beginning:
            raise TableError(f"{name} is empty")
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="corank-")
        path = Path(self._folder.name) / f"stdin{len(self._names) or ''}{ending_of(beginning)}"
        with path.open("wb") as file:
            file.write(beginning)
            shutil.copyfileobj(stream, file)
        self._names[path] = name
        return path

    def standard_input(self) -> Path:
        """Standard input as a file."""
        if STANDARD_INPUT in self._names.values():
            raise ValueError("standard input can be read only once: give the other tables as files")
        return self.copied(sys.stdin.buffer, STANDARD_INPUT)

    def by_their_names(self, message: str) -> str:
        """A message in which such files have the names that the user gave."""
        for path, name in self._names.items():
            message = message.replace(str(path), name)
        return message

    def close(self) -> None:
        """Remove the files."""
        if self._folder is not None:
            self._folder.cleanup()


def readable(
    context: typer.Context, file: Path, format: Format | None = None, *, is_first: bool = False
) -> TableFile:
    """A table that a command reads; --no-header is about the first.

    Where it comes on standard input or through a pipe, such as `<(command)` of a shell, its first
    bytes say what it is.
    """
    from corank.tables import TableError, TableFile, format_of_file, is_table_name, kind_of_file
    from corank.tables.read import SPREADSHEETS

    streams: Streams = context.obj
    path, several = file, is_several(file)
    if format is not None and several:
        raise ValueError(
            f"--format goes with a single table, but {file} is a folder or a pattern, whose files"
            " are read by extension"
        )
    if file == DASH:
        path = streams.standard_input()
    elif file.is_fifo():
        with file.open("rb") as stream:
            path = streams.copied(stream, str(file))
    elif several or file.suffix.lower() == ".corank":
        format = None
    elif format is not None and not file.exists():
        raise TableError(f"there is no file {file}")
    elif format is None and file.suffix.lower() in SPREADSHEETS:
        kind_of_file(file)  # says what to do
    elif format is None and file.is_file() and not is_table_name(file):
        raise TableError(
            f"{file} has no file extension of a table (.csv, .parquet, …): give its format with"
            " --format"
        )
    has_header = streams.has_header or not is_first
    if not has_header:
        is_csv = path.is_file() and (format or format_of_file(path)) in ("csv", "tsv")
        if not is_csv:
            raise TableError(f"--no-header goes with a single CSV or TSV file, not with {file}")
    return TableFile(path, format, has_header)


def is_several(file: Path) -> bool:
    """Whether this is a folder or a pattern, not a file."""
    return file.is_dir() or (glob.has_magic(str(file)) and not file.exists())


def check_single(file: Path, option: str) -> None:
    """Refuse an option that goes with the rows of one file, where there may be many."""
    if is_several(file):
        raise ValueError(
            f"--{option} goes with a single table, but {file} is a folder or a pattern"
        )


def title_of(file: Path) -> str:
    """What a table is called in a title."""
    return STANDARD_INPUT if file == DASH else file.name


def check_model_and_table(command: str, model: Path, file: Path) -> None:
    """Refuse a table where the model should be."""
    from corank.tables import is_table_name

    if is_table_name(model):
        right = [
            "MODEL.corank" if is_table_name(file) else str(file),
            str(file if is_table_name(file) else model),
        ]
        raise ValueError(
            f"{model} is a table, but the model comes first: corank {command} {shlex.join(right)}"
        )


# ---- writing


def check_output(
    path: Path, *sources: PathLike[str] | None, force: bool, option: str = "--out"
) -> None:
    """Refuse a file that must not or cannot be written; `sources` are the files that are read."""
    from corank.tables import check_target

    if path == DASH:
        return
    for source in sources:
        if source is None or not path.exists() or not Path(source).exists():
            continue
        if path.samefile(source):
            raise ValueError(f"{option} {path} is also an input file: choose another name")
    if path.is_file() and not force:
        raise FileExistsError(f"{path} already exists: use --force to replace it")
    check_target(path, overwrite=force)
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(
            f"{path} cannot be written: no permission in the folder {path.parent}"
        )


def check_report_output(path: Path | None, *sources: PathLike[str] | None, force: bool) -> None:
    """Refuse a page that cannot be written."""
    if path is None:
        return
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(
            f"--report {path}: the report is an HTML page, so call it {path.with_suffix('.html')}"
        )
    check_output(path, *sources, force=force, option="--report")


def check_model_output(
    path: Path, *sources: PathLike[str] | None, force: bool, option: str = "--out"
) -> None:
    """Refuse a model that cannot be written, also one that is called like a table."""
    from corank.tables import is_table_name

    if path == DASH:
        raise ValueError(
            f"{option} -: a model cannot be printed; give a file name such as NAME.corank"
        )
    if is_table_name(path):
        better = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).with_suffix(
            ".corank"
        )
        raise ValueError(
            f"{option} {path}: this is the file extension of a table, but a model is saved; call it"
            f" {better}"
        )
    check_output(path, *sources, force=force, option=option)
