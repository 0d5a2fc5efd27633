"""Files that a command reads and writes: standard input, tables whose ending does not say what they
are, and refusals, before any work, of files that must not or cannot be written.
"""

from __future__ import annotations

import glob
import gzip
import os
import shlex
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from corank.cli.options import Format, OutFormat

DASH = Path("-")
BOM = b"\xef\xbb\xbf"  # that some programs write at the beginning of a text
STANDARD_INPUT = "standard input"


# ---- reading


class Spool:
    """A folder, kept while a command runs, in which every table has an ending that says what it is."""

    def __init__(self, *, has_headers: bool = True) -> None:
        self.has_headers = has_headers
        self._folder: TemporaryDirectory[str] | None = None
        self._given_names: dict[str, str] = {}  # path in the folder → name that the user gave

    def standard_input(self, format: Format | None) -> Path:
        """Standard input as a file."""
        if STANDARD_INPUT in self._given_names.values():
            raise ValueError("standard input can be read only once: give the other tables as files")
        return self._copied(sys.stdin.buffer, STANDARD_INPUT, format)

    def pipe(self, file: Path, format: Format | None) -> Path:
        """What comes through a pipe, such as `<(command)` of a shell, as a file."""
        with file.open("rb") as stream:
            return self._copied(stream, str(file), format)

    def _copied(self, stream: Any, name: str, format: Format | None) -> Path:
        from corank.tables import FORMATS, TableError, ending_of
        from corank.tables.read import BEGINNING

        beginning = stream.read(BEGINNING)
        if not beginning:
            raise TableError(f"{name} is empty")
        ending = ending_of(beginning)
        if format is not None:
            ending = FORMATS[format] + (".gz" if ending.endswith(".gz") else "")
        path = self._place(f"stdin{ending}", name)
        with path.open("wb") as file:
            file.write(beginning)
            shutil.copyfileobj(stream, file)
        return path

    def link(self, file: Path, format: Format) -> Path:
        """A file under a name that ends as its format does."""
        from corank.tables import FORMATS

        zipped = ".gz" if file.suffix.lower() == ".gz" else ""
        path = self._place(
            f"{file.stem if zipped else file.name}{FORMATS[format]}{zipped}", str(file)
        )
        path.symlink_to(file.resolve())
        return path

    def with_header(self, file: Path) -> Path:
        """A CSV or TSV file with a header that numbers its columns."""
        from corank.tables.read import csv_layout, first_rows

        layout = csv_layout(file)
        n_columns = len(first_rows(file, layout, 1)[0])
        header = (
            layout.separator.join(str(number) for number in range(1, n_columns + 1)) + "\n"
        ).encode()
        path = self._place(file.name, self._given_names.get(str(file), str(file)))
        with file.open("rb") as rows, path.open("wb") as target:
            target.write(gzip.compress(header) if file.suffix.lower() == ".gz" else header)
            beginning = rows.read(len(BOM))
            target.write(b"" if beginning == BOM else beginning)
            shutil.copyfileobj(rows, target)
        return path

    def _place(self, name: str, given_name: str) -> Path:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="corank-")
        path = Path(self._folder.name) / str(len(self._given_names)) / name
        path.parent.mkdir()
        self._given_names[str(path)] = given_name
        return path

    def with_given_names(self, message: str) -> str:
        """A message in which such files have the names that the user gave."""
        for path, name in self._given_names.items():
            message = message.replace(path, name)
        return message

    def close(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            self._folder.cleanup()


def readable(context: typer.Context, file: Path, format: Format | None = None) -> Path:
    """The table to read: with an ending that says what it is, and with a header."""
    from corank.tables import TableError, format_of_file

    path = with_ending(context, file, format)
    spool: Spool = context.obj
    if spool.has_headers:
        return path
    if not path.is_file() or format_of_file(path) != "csv":
        raise TableError(f"--no-header goes with a single CSV or TSV file, not with {file}")
    return spool.with_header(path)


def with_ending(context: typer.Context, file: Path, format: Format | None = None) -> Path:
    """The file to read: as it was given, or with an ending where it has none or came on standard
    input.
    """
    from corank.tables import FORMATS, TableError, is_table_name, kind_of_file
    from corank.tables.read import SPREADSHEETS

    spool: Spool = context.obj
    if file == DASH:
        return spool.standard_input(format)
    if file.is_fifo():
        return spool.pipe(file, format)
    several = is_several(file)
    if format is not None and several:
        raise ValueError(
            f"--format goes with a single table, but {file} is a folder or a pattern, whose files"
            " are read by extension"
        )
    if several or file.suffix.lower() == ".corank":
        return file
    if format is not None:
        if not file.exists():
            raise TableError(f"there is no file {file}")
        same = file.name.lower().removesuffix(".gz").endswith(FORMATS[format])
        return file if same else spool.link(file, format)
    if file.suffix.lower() in SPREADSHEETS:
        kind_of_file(file)  # says what to do
    if file.is_file() and not is_table_name(file):
        raise TableError(
            f"{file} has no file extension of a table (.csv, .parquet, …): give its format with"
            " --format"
        )
    return file


def readable_or_none(context: typer.Context, file: Path | None) -> Path | None:
    """A second table to read, where there is one; its ending or, on standard input, its first bytes
    say what it is.
    """
    return None if file is None else with_ending(context, file)


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


def write_result(
    table: Any, out: Path, format: OutFormat | None, *, force: bool, safe: bool = False
) -> None:
    """Write a table to a file by its ending, or print it; `safe`: so that no cell is a formula to a
    spreadsheet.
    """
    from corank.tables import FORMATS, spreadsheet_safe, to_arrow, write_table, write_to

    if safe:
        table = spreadsheet_safe(to_arrow(table))
    if out != DASH:
        write_table(table, out, overwrite=force)
        return
    write_to(to_arrow(table), sys.stdout.buffer, FORMATS[format or "csv"])
    sys.stdout.buffer.flush()


def check_printed(out: Path | None, format: OutFormat | None, *, as_json: bool) -> None:
    """Refuse options about printing that do not go together."""
    if format is not None and out != DASH:
        raise ValueError(
            "--out-format goes with --out -; the format of a file follows from its extension: .csv,"
            " .parquet, .jsonl"
        )
    if as_json and out == DASH:
        raise ValueError(
            "--json and --out - would both print the result: choose one of them, or --out -"
            " --out-format jsonl"
        )


def check_output(path: Path, *sources: Path | None, force: bool, option: str = "--out") -> None:
    """Refuse a file that must not or cannot be written; `sources` are the files that are read."""
    from corank.tables import check_target

    if path == DASH:
        return
    for source in sources:
        if source is not None and path.exists() and source.exists() and path.samefile(source):
            raise ValueError(f"{option} {path} is also an input file: choose another name")
    check_target(path, overwrite=force)
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(
            f"{path} cannot be written: no permission in the folder {path.parent}"
        )


def check_table_output(path: Path | None, *sources: Path | None, force: bool) -> None:
    """Refuse a table that cannot be written, also by its ending, which says how it is written."""
    from corank.tables import SVMLIGHT, is_table_name, kind_of_file

    if path is None:
        return
    if (
        path != DASH
        and not path.is_dir()
        and (not is_table_name(path) or kind_of_file(path)[0] in SVMLIGHT)
    ):
        raise ValueError(f"--out {path}: the file extension must be .csv, .tsv, .parquet or .jsonl")
    check_output(path, *sources, force=force)


def check_report_output(path: Path | None, *sources: Path | None, force: bool) -> None:
    """Refuse a page that cannot be written."""
    if path is None:
        return
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(
            f"--report {path}: the report is an HTML page, so call it {path.with_suffix('.html')}"
        )
    check_output(path, *sources, force=force, option="--report")


def check_model_output(
    path: Path, *sources: Path | None, force: bool, option: str = "--out"
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
