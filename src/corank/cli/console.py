"""What the commands share in talking to people: results on stdout, notes and errors of one sentence on stderr."""

from __future__ import annotations

import glob
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from corank.cli.files import Spool

UsageError: Any = typer.BadParameter.__base__  # typer brings its own click, or takes the installed one
FAILED, INTERRUPTED, NOBODY_READS = 2, 130, 141  # the last as the shell has it for a closed pipe
BIG_BYTES = 2**29  # of one file, from which it is read in passes
_LOOK: Any = {"title_justify": "left", "title_style": "bold", "pad_edge": False, "padding": (0, 2, 0, 0)}
_ARGUMENT = re.compile(r"\b(alpha|basis|gamma|kernel|weighting)='?([\w.]*\w)'?")
_ENDLESS = re.compile(r"(\S{60})\S{180,}")  # a cell of thousands of characters
_CHOICE = re.compile(r"'([^']*)' is not one of ('.*')")
_NUMBER = re.compile(r"\bGive (amplitude|gamma|noise) a number")


class Commands(TyperGroup):
    """The commands, with errors as one sentence and warnings as notes; `--debug` may stand anywhere."""

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, *others: Any, **more: Any) -> Any:
        """Run a command line and exit."""
        words = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in words
        words = [word for word in words if word != "--debug"] or ["--help"]
        spool = Spool()
        more |= {"standalone_mode": False, "obj": spool}
        try:
            with warnings_as_notes(as_usual=debug):
                code = super().main(words, prog_name, *others, **more)
        except (typer.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        except SystemExit:  # click and rich, where nobody reads on
            code = NOBODY_READS
        except Exception as error:  # noqa: BLE001
            if debug:
                traceback.print_exc()
            _say(spool.in_words(sentence(error)), "red")
            code = FAILED
        finally:
            spool.close()
        if code == INTERRUPTED:
            _say("interrupted", "red")
        sys.exit(_flushed(code if isinstance(code, int) else 0))


def _flushed(code: int) -> int:
    """The exit code once everything is printed, or could not be."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError) and code == 0:
            _say(f"the result cannot be printed: {sentence(error)}", "red")
        code = code or (NOBODY_READS if isinstance(error, BrokenPipeError) else FAILED)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left must not fail once more at exit
    return code


def sentence(error: Exception) -> str:
    """What went wrong, for someone at a terminal."""
    if isinstance(error, UsageError):
        words: str = error.format_message().replace(": Value error, ", ": ")
        command = error.ctx.command_path if error.ctx else "corank"
        words = _with_guess(words)
        return f"{_lower(words.rstrip('.'))}{' See' if words.endswith('?') else '; see'} {command} --help"
    if isinstance(error, MemoryError):
        return "not enough memory: try --basis 1000, or fewer rows"
    if isinstance(error, OSError) and error.errno is not None:
        where = Path(str(error.filename)) if error.filename else None
        if where is not None and where.suffix == ".part":  # a file that was to get its name once complete
            where = where.parent
        return f"{where}: {_lower(error.strerror or '')}" if where else _lower(error.strerror or str(error))
    if isinstance(error, ValueError | TypeError | OSError):
        return as_options(str(error))
    return f"something went wrong inside corank ({type(error).__name__}: {_line(str(error))}); --debug shows where"


def _with_guess(words: str) -> str:
    """A refused choice with the one that may have been meant."""
    refused = _CHOICE.search(words)
    if refused is None:
        return words
    near = get_close_matches(refused[1].lower(), re.findall(r"'([^']*)'", refused[2]), n=1)
    return f"{words.rstrip('.')}; did you mean {near[0]!r}?" if near else words


def as_options(words: str) -> str:
    """A message of the library in one line; what is an argument in Python is an option here."""
    words = _line(words).replace("pass overwrite=True to replace it", "use --force to replace it")
    words = words.replace("use scan(..., shuffle_queries=True)", "use --shuffle-queries")
    return _NUMBER.sub(r"Give --\1 a number", _ARGUMENT.sub(r"--\1 \2", words))


def _line(words: str) -> str:
    return _ENDLESS.sub(r"\1…", " ".join(words.split()))


def _lower(words: str) -> str:
    return words[:1].lower() + words[1:]


def _say(words: str, style: str) -> None:
    errors = Console(stderr=True, highlight=False)
    errors.print(Text.assemble(("corank: ", f"bold {style}"), words), soft_wrap=True)


# ---- notes


class Note(UserWarning):
    """What a command has to say beside its result."""


def note(words: str) -> None:
    """Say something worth knowing, on stderr."""
    warnings.warn(words, Note, stacklevel=2)


@contextmanager
def warnings_as_notes(*, as_usual: bool = False) -> Iterator[None]:
    """Show warnings meant for users as notes of one line, each once, and no others; `as_usual` only a command's own."""
    said: set[str] = set()
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            words = as_options(str(message))
            if as_usual and not issubclass(category, Note):
                usual(message, category, *where, **more)
            elif words not in said:
                said.add(words)
                _say(f"note: {words}", "yellow")

        if not as_usual:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("always", RuntimeWarning)
        warnings.simplefilter("always", Note)
        warnings.showwarning = show
        yield


@contextmanager
def working(*, quiet: bool = False, status: bool = True) -> Iterator[Callable[[str], None]]:
    """Show on a terminal that something goes on: call what this gives with what is being done. `quiet`: nothing, and
    no notes either. Without `status` nothing is shown, as passes show how far they are themselves.
    """
    errors = Console(stderr=True)
    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore")
        if quiet or not status or not errors.is_terminal:
            yield lambda doing: None
            return
        with errors.status("starting …") as spinner:
            show = warnings.showwarning

            def show_above(*message: Any, **more: Any) -> None:
                spinner.stop()
                show(*message, **more)
                spinner.start()

            warnings.showwarning = show_above
            yield lambda doing: spinner.update(Text(f"{doing} …"))


# ---- files


def is_big(file: Path) -> bool:
    """Whether rows are read in passes: a folder, a pattern, or a file that is large."""
    return is_several(file) or (file.exists() and file.stat().st_size > BIG_BYTES)


def is_several(file: Path) -> bool:
    """Whether this is a folder or a pattern, not a file."""
    return file.is_dir() or (glob.has_magic(str(file)) and not file.exists())


def typed(name: str) -> str | None:
    """The command line of this process, where it is that of the given command."""
    return shlex.join(["corank", *sys.argv[1:]]) if name in sys.argv[1:] else None


def size_of(path: Path) -> str:
    """Size of a file in words."""
    return in_bytes(path.stat().st_size)


def in_bytes(number: int) -> str:
    """A number of bytes in words."""
    size = float(number)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


# ---- results


def facts(title: str, pairs: dict[str, str]) -> Table:
    """A table of names and what they are."""
    table = Table(title=title, box=None, show_header=False, min_width=len(title), **_LOOK)  # the title in one line
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


def command(words: str, before: str = "Next: ") -> Text:
    """What to run next, in one line however long it is."""
    return Text.assemble(before, (words, "bold"), no_wrap=True, overflow="ignore")


def show(*parts: Any) -> None:
    """Print results on stdout."""
    Console(highlight=False).print(*parts, sep="\n")
