"""What the commands share in talking to people: results on stdout, notes and errors of one sentence on stderr."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

UsageError: Any = typer.BadParameter.__base__  # typer brings its own click, or takes the installed one
FAILED, INTERRUPTED = 2, 130
_LOOK: Any = {"title_justify": "left", "title_style": "bold", "pad_edge": False, "padding": (0, 2, 0, 0)}


class Commands(TyperGroup):
    """The commands, with errors as one sentence and warnings as notes; `--debug` may stand anywhere."""

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, *others: Any, **more: Any) -> Any:
        """Run a command line and exit."""
        words = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in words
        words = [word for word in words if word != "--debug"] or ["--help"]
        more["standalone_mode"] = False
        try:
            with warnings_as_notes(as_usual=debug):
                code = super().main(words, prog_name, *others, **more)
        except (typer.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        except Exception as error:  # noqa: BLE001
            if debug:
                traceback.print_exc()
            _say(sentence(error), "red")
            code = FAILED
        if code == INTERRUPTED:
            _say("interrupted", "red")
        sys.exit(code if isinstance(code, int) else 0)


def sentence(error: Exception) -> str:
    """What went wrong, for someone at a terminal."""
    if isinstance(error, UsageError):
        words: str = error.format_message()
        command = error.ctx.command_path if error.ctx else "corank"
        return f"{_lower(words.rstrip('.'))}{' See' if words.endswith('?') else '; see'} {command} --help"
    if isinstance(error, MemoryError):
        return "not enough memory: try --basis 1000, or fewer rows"
    if isinstance(error, OSError) and error.errno is not None:
        where = Path(str(error.filename)) if error.filename else None
        if where is not None and where.suffix == ".part":  # a file that was to get its name once complete
            where = where.parent
        return f"{where}: {_lower(error.strerror or '')}" if where else str(error.strerror or error)
    words = " ".join(str(error).split())
    if isinstance(error, ValueError | TypeError | OSError):
        # what is an argument in Python is an option here
        return words.replace("pass overwrite=True to replace it", "use --force to replace it")
    return f"something went wrong inside corank ({type(error).__name__}: {words}); --debug shows where"


def _lower(words: str) -> str:
    return words[:1].lower() + words[1:]


def note(words: str) -> None:
    """Say something worth knowing, on stderr."""
    _say(f"note: {words}", "yellow")


def _say(words: str, style: str) -> None:
    errors = Console(stderr=True, highlight=False)
    errors.print(Text.assemble(("corank: ", f"bold {style}"), words), soft_wrap=True)


@contextmanager
def warnings_as_notes(*, as_usual: bool = False) -> Iterator[None]:
    """Show warnings meant for users as notes of one line, each once, and no others."""
    with warnings.catch_warnings():
        if not as_usual:
            warnings.simplefilter("ignore")
            warnings.simplefilter("once", UserWarning)
            warnings.simplefilter("once", RuntimeWarning)
            warnings.showwarning = lambda message, *_, **__: note(" ".join(str(message).split()))
        yield


@contextmanager
def working(on: str, *, quiet: bool = False) -> Iterator[None]:
    """Show on a terminal that something goes on."""
    errors = Console(stderr=True)
    if quiet or not errors.is_terminal:
        yield
    else:
        with errors.status(on):
            yield


def check_output(path: Path, source: Path | None = None, *, force: bool) -> None:
    """Refuse, before any work, a file that must not or cannot be written."""
    from corank.tables import check_target

    if source is not None and path.exists() and source.exists() and path.samefile(source):
        raise ValueError(f"--out {path} is the file that is read: choose another name")
    check_target(path, overwrite=force)
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"{path} cannot be written: no permission in the folder {path.parent}")


def facts(title: str, pairs: dict[str, str]) -> Table:
    """A table of names and what they are."""
    table = Table(title=title, box=None, show_header=False, **_LOOK)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs.items():
        table.add_row(name, Text(value))
    return table


def grid(title: str, columns: Sequence[str], *, right: Sequence[str] = (), last: str | None = None) -> Table:
    """An empty table with a header; `right` names the columns of numbers, `last` a column of words after the others."""
    table = Table(title=title, box=box.SIMPLE_HEAD, **_LOOK)
    for column in columns:
        justify: Any = "right" if column in right else "left"
        table.add_column(column, justify=justify, no_wrap=True, overflow="ellipsis", max_width=32)
    if last is not None:
        table.add_column(last, overflow="fold")
    return table


def show(*parts: Any) -> None:
    """Print results on stdout."""
    Console(highlight=False).print(*parts, sep="\n")


def size_of(path: Path) -> str:
    """Size of a file in words."""
    size = float(path.stat().st_size)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def count(number: int, what: str, plural: str | None = None) -> str:
    """`1 row`, `27,919 rows`."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}"
