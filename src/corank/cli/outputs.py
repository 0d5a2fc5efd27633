"""Refusals before any work: files that must not or cannot be written, and arguments in the wrong order."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from corank.cli.inputs import DASH


def check_output(path: Path, source: Path | None = None, *, force: bool) -> None:
    """Refuse, before any work, a file that must not or cannot be written."""
    from corank.tables import check_target

    if path == DASH:
        return
    if source is not None and path.exists() and source.exists() and path.samefile(source):
        raise ValueError(f"--out {path} is the file that is read: choose another name")
    check_target(path, overwrite=force)
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"{path} cannot be written: no permission in the folder {path.parent}")


def check_table_output(path: Path, source: Path | None = None, *, force: bool) -> None:
    """The same for a table, whose ending says how it is written."""
    from corank.tables import SVMLIGHT, is_table_name, kind_of_file

    if path != DASH and not path.is_dir() and (not is_table_name(path) or kind_of_file(path)[0] in SVMLIGHT):
        raise ValueError(f"--out {path}: a table that is written ends with .csv, .tsv, .parquet or .jsonl")
    check_output(path, source, force=force)


def check_report_output(path: Path, source: Path | None = None, *, force: bool) -> None:
    """The same for a page."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--report {path} is a page: call it {path.with_suffix('.html')}")
    try:
        check_output(path, source, force=force)
    except ValueError as error:
        raise ValueError(str(error).replace("--out", "--report")) from error


def check_model_output(path: Path, source: Path | None = None, *, force: bool) -> None:
    """The same for a model, which must not be called like a table."""
    from corank.tables import is_table_name

    if path == DASH:
        raise ValueError("--out - does not go with a model, which is a file: call it NAME.corank")
    if is_table_name(path):
        better = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).with_suffix(".corank")
        raise ValueError(f"--out {path} is a model file, but ends like a table: call it {better}")
    check_output(path, source, force=force)


def check_model_and_table(command: str, model: Path, file: Path) -> None:
    """Refuse a table where the model should be."""
    from corank.tables import is_table_name

    if is_table_name(model):
        right = ["MODEL.corank" if is_table_name(file) else str(file), str(file if is_table_name(file) else model)]
        raise ValueError(f"{model} is a table, but the model comes first: corank {command} {shlex.join(right)}")
