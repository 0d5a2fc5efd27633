"""How commands are found and how they talk to people: results on stdout, notes and errors of one
sentence on stderr; and the files that they read and write.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from functools import cached_property, partial, wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO, get_type_hints

import typer
from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from corank.core.messages import ArgumentError, did_you_mean, in_bytes, near_names
from corank.display import silence, terminal, visible

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from corank.cli.options import Format
    from corank.tables import TableFile

# name → the first line of its help; the file of that name is imported when the command is called
COMMANDS = {
    "demo": (
        "Mark ten built-in items and rank hundreds of others, from their columns, text and links."
    ),
    "fit": "Learn from a table and save the model.",
    "rank": "Rank the items of a table, within each query: 1 is the best.",
    "predict": "Predict the score of every row of a table, and keep the order of the rows.",
    "ask": "Ask which of two items is better, on a page that shows the ranking as it settles.",
    "explain": (
        "Say why one item is above another: by column, by view, and by what the model learned from."
    ),
    "suggest": "Say what to ask next: the questions whose answers teach the model most.",
    "update": "Add newly scored rows, or comparisons, to a model.",
    "judges": "Say how far those who compared items can be trusted, and whom to ask next.",
    "evaluate": "Say how well a model ranks rows whose scores are known, or predicts comparisons.",
    "compare": "Say which method is best on a table, by how much, and whether unscored rows help.",
    "inspect": "Show what a model is and how it was fitted; small models are shown item by item.",
    "info": "Show versions, devices, and how fast the devices multiply matrices.",
}
FILES = {"info": "inspect", "predict": "rank"}  # commands whose file has another name
OTHER_WORDS = {  # what people call a command elsewhere
    **dict.fromkeys(("sort", "order", "top"), "rank"),
    **dict.fromkeys(("train", "learn", "model"), "fit"),
    **dict.fromkeys(("test", "eval", "validate", "metrics"), "evaluate"),
    **dict.fromkeys(("show", "describe", "summary"), "inspect"),
    **dict.fromkeys(("benchmark", "cv"), "compare"),
    **dict.fromkeys(("add", "answer"), "update"),
    **dict.fromkeys(("version", "doctor"), "info"),
}
EXTRAS = ("ask",)  # commands that need an extra of their name
# commands that are known to come with another distribution
DISTRIBUTIONS = {"federated": "corank-federated"}
# the group of entry points that add commands: functions, or typer.Typer of several
PLUGINS = "corank.commands"
WHERE_STUDIES_ARE = (
    "`corank reproduce` is no longer part of the package: the studies are in the folder studies of"
    " corank's sources. There, run python -m studies NAME --data DIR; python -m studies --list"
    " names them"
)

# typer brings its own click, or takes the installed one
UsageError: Any = typer.BadParameter.__base__
FAILED, INTERRUPTED, PIPE_CLOSED = 2, 130, 141  # exit codes; the last as the shell has it
BIG_BYTES = 2**29  # a larger file is read in passes
# in sentences of the library
_SETTING = re.compile(r"\b(alpha|basis|gamma|kernel|weighting)='?([\w.]*\w)'?")
_NAMED = re.compile(r"\b(\w+)=")  # an argument with its value
_ENDLESS = re.compile(r"(\S{60})\S{180,}")  # a cell of thousands of characters
_CHOICE = re.compile(r"'([^']*)' is not one of ('.*')")
DASH = Path("-")
STANDARD_INPUT = "standard input"


class Command(TyperCommand):
    """A command whose help shows no value after flags, which loses no column that names items, and
    of which --comparisons takes several values.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for option in self.params:
            if getattr(option, "is_flag", False):
                option.metavar = ""  # `<bool>` would look like a value to give

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command line; of an option that is given twice the last value counts,
        but for --id.

        --comparisons a b is --comparisons a --comparisons b; only where the table comes first, as
        else it may be the second value.
        """
        words: list[str] = []
        n_values = 0  # of --comparisons, up to here
        for word in args:
            if word.startswith("-"):
                n_values = int(word == "--comparisons" and not args[0].startswith("-"))
            elif n_values:
                n_values += 1
                words += ["--comparisons"] * (n_values > 2)
            words.append(word)
        _, _, given = self.make_parser(ctx).parse_args(args=list(words))
        if sum(option.name == "id" and not option.multiple for option in given) > 1:
            raise ValueError(
                "--id was given more than once: write several columns as --id sku,name"
            )
        return super().parse_args(ctx, words)


class Commands(TyperGroup):
    """The commands, with errors as one sentence and warnings as notes; `--debug` and `--no-header`
    may stand anywhere.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {
            name: TyperCommand(name, help=text) for name, text in COMMANDS.items()
        }  # as the help lists them

    @cached_property
    def plugins(self) -> dict[str, EntryPoint]:
        """Commands that other distributions bring, by name: looked for where corank has no command
        of that name.
        """
        from importlib.metadata import entry_points

        return {
            point.name: point for point in entry_points(group=PLUGINS) if point.name not in COMMANDS
        }

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all commands, as the help lists them."""
        return [*self.commands, *sorted(self.plugins)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command as the help shows it; of one that another distribution brings, the line is that
        distribution's.
        """
        if cmd_name in self.commands or cmd_name not in self.plugins:
            return self.commands.get(cmd_name)
        distribution = self.plugins[cmd_name].dist
        return TyperCommand(
            cmd_name, help=distribution.metadata["Summary"] if distribution else None
        )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called, imported now, and its arguments."""
        called = args[0]
        if called == "reproduce":  # until 0.3
            raise ValueError(WHERE_STUDIES_ARE)
        if not called.startswith("-") and self.get_command(ctx, called) is None:
            if called in DISTRIBUTIONS:
                raise ValueError(
                    f"{called} is a distribution of its own: pip install {DISTRIBUTIONS[called]}"
                )
            names = self.list_commands(ctx)
            meant = [OTHER_WORDS.get(called.lower()), *near_names(called, names, 1)]
            guess = next((f"; did you mean corank {name}?" for name in meant if name), ".")
            raise ValueError(
                f"there is no command {called!r}{guess} The commands are {', '.join(names)}"
            )
        name, _, others = super().resolve_command(ctx, args)
        assert name is not None
        command = self._imported(name)
        if isinstance(command, typer.Typer):
            return name, typer.main.get_command(command), others
        app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
        app.command(name, cls=Command)(expanded(command))
        return name, typer.main.get_command(app), others

    def _imported(self, name: str) -> Any:
        """The function of a command, or the typer.Typer of its own commands."""
        plugin = None if name in self.commands else self.plugins[name]
        try:
            if plugin is not None:
                return plugin.load()
            return getattr(import_module(f"corank.cli.{FILES.get(name, name)}"), name)
        except ModuleNotFoundError as error:
            if plugin is not None and plugin.dist is not None:
                distribution = plugin.dist.name
            elif name in EXTRAS:
                distribution = f"'corank[{name}]'"
            else:
                raise
            raise ValueError(f"{name} needs {error.name}: pip install {distribution}") from error

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        *others: Any,
        **more: Any,
    ) -> Any:
        """Run a command line and exit."""
        words = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in words
        streams = Streams(has_header="--no-header" not in words)
        words = [word for word in words if word not in ("--debug", "--no-header")] or ["--help"]
        if words[0] == "help":  # corank help fit
            words = [*words[1:], "--help"]
        _open_closed_streams()
        more |= {"standalone_mode": False, "obj": streams}
        try:
            with warnings_as_notes(as_usual=debug):
                code = super().main(words, prog_name, *others, **more)
        except (typer.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        except SystemExit:  # from click and rich, where the reader of a pipe has gone
            code = PIPE_CLOSED
        except Exception as error:  # noqa: BLE001
            if debug:
                traceback.print_exc()
            _say(streams.by_their_names(sentence(error)), "red")
            code = FAILED
        finally:
            streams.close()
        if code == INTERRUPTED:
            _say("interrupted", "red")
        sys.exit(_flushed(code if isinstance(code, int) else 0))


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """A command with an option for each field of its groups: of parameters, and their fields, whose
    type is a dataclass.
    """
    parameters = list(_options_of(command))

    @wraps(command)
    def run(**values: Any) -> None:
        _called(command, values)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _options_of(owner: Callable[..., Any]) -> Iterator[Parameter]:
    """The options that a command or a group has, one by one."""
    kinds = get_type_hints(owner, include_extras=True)
    for name, parameter in signature(owner).parameters.items():
        kind = kinds[name]
        default = parameter.default
        if is_dataclass(kind):
            yield from _options_of(kind)  # type: ignore[arg-type]
            continue
        # a flag has no --no-…
        if getattr(default, "default", None) is False and not default.param_decls:
            default.param_decls = (f"--{name.replace('_', '-')}",)
        yield parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=kind)


def _called(owner: Callable[..., Any], values: dict[str, Any]) -> Any:
    """The result of a command, or a group, with the values of its options among those of all."""
    arguments = {}
    for name, kind in get_type_hints(owner).items():
        if is_dataclass(kind):
            arguments[name] = _called(kind, values)  # type: ignore[arg-type]
        elif name in values:
            arguments[name] = values[name]
    return owner(**arguments)


def _open_closed_streams() -> None:
    """Where the shell closed stdout or stderr, have one on which writing fails, or is lost."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _flushed(code: int) -> int:
    """The exit code once everything is printed, or could not be."""
    try:
        sys.stdout.flush()
    except OSError as error:
        closed = isinstance(error, BrokenPipeError)
        if not closed and code == 0:
            _say(f"the result cannot be printed: {sentence(error)}", "red")
        code = code or (PIPE_CLOSED if closed else FAILED)
        # what is left must not fail again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


# ---- errors


def sentence(error: Exception) -> str:
    """What went wrong, for someone at a terminal."""
    if isinstance(error, UsageError):
        message = (
            _with_guess(error.format_message().replace(": Value error, ", ": "))
            or "A command is missing."
        )
        command = error.ctx.command_path if error.ctx else "corank"
        return (
            f"{_lower(message.rstrip('.'))}{' See' if message.endswith('?') else '; see'} {command}"
            " --help"
        )
    if isinstance(error, MemoryError):
        return "not enough memory: try --basis 1000, or fewer rows"
    if isinstance(error, OSError) and error.errno is not None:
        reason = _lower(error.strerror or str(error))
        if not error.filename:
            return reason
        path = Path(str(error.filename))
        # .part: not yet under its own name
        return f"{path.parent if path.suffix == '.part' else path}: {reason}"
    if isinstance(error, ArgumentError):
        option = error.argument.replace("_", "-")
        message = _NAMED.sub(r"--\1 ", f"{option}{error.fault}")
        return as_options(f"--{message.removeprefix('--')}")
    if isinstance(error, ValueError | TypeError | OSError):
        return as_options(str(error))
    return (
        f"something went wrong inside corank ({type(error).__name__}: {as_options(str(error))});"
        " --debug shows where"
    )


def _with_guess(message: str) -> str:
    """A refused choice, with the choice that may have been meant."""
    refused = _CHOICE.search(message)
    if refused is None:
        return message
    guess = did_you_mean(refused[1], re.findall(r"'([^']*)'", refused[2]), 1)
    return message.rstrip(".") + guess if guess else message


def as_options(message: str) -> str:
    """A message of the library in one line; an argument in Python is an option here."""
    message = _ENDLESS.sub(r"\1…", " ".join(message.split()))
    message = message.replace("scan(..., shuffle_queries=True)", "--shuffle-queries")
    return _SETTING.sub(r"--\1 \2", message)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _say(message: str, style: str) -> None:
    errors = Console(stderr=True, highlight=False)
    errors.print(Text.assemble(("corank: ", f"bold {style}"), visible(message)), soft_wrap=True)


# ---- notes


class Note(UserWarning):
    """What a command has to say beside its result."""


def note(message: str) -> None:
    """Say something worth knowing, on stderr."""
    warnings.warn(message, Note, stacklevel=2)


@contextmanager
def warnings_as_notes(*, as_usual: bool) -> Iterator[None]:
    """Show warnings meant for users as notes of one line, each once, and no others.

    `as_usual`: only the notes of commands are shown so, and warnings as Python shows them.
    """
    shown: set[str] = set()
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            text = as_options(str(message))
            if as_usual and not issubclass(category, Note):
                usual(message, category, *where, **more)
            elif text not in shown:
                shown.add(text)
                _say(f"note: {text}", "yellow")

        if not as_usual:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("always", RuntimeWarning)
        warnings.simplefilter("always", Note)
        warnings.showwarning = show
        yield


@contextmanager
def working(*, quiet: bool = False, status: bool = True) -> Iterator[Callable[[str], None]]:
    """Show on a terminal that a command works; gives a function to call with the step that begins.

    `quiet`: nothing is shown, no notes either. Without `status` no steps are shown, as passes show
    their own progress.
    """
    errors = terminal()
    with warnings.catch_warnings(), silence(wanted=quiet):
        if quiet:
            warnings.simplefilter("ignore")
        if quiet or not status or not errors.is_terminal:
            yield lambda step: None
            return
        with errors.status("starting …") as spinner:
            show = warnings.showwarning

            def show_above(*message: Any, **more: Any) -> None:
                spinner.stop()
                show(*message, **more)
                spinner.start()

            warnings.showwarning = show_above
            yield lambda step: spinner.update(Text(f"{visible(step)} …"))


# ---- sizes and names


def is_big(path: Path) -> bool:
    """Whether rows are read in passes: a folder, a pattern, or a large file."""
    return is_several(path) or (path.exists() and path.stat().st_size > BIG_BYTES)


def typed_command(name: str) -> str | None:
    """The command line of this process, where it calls the command of that name."""
    return shlex.join(["corank", *sys.argv[1:]]) if name in sys.argv[1:] else None


def size_of(path: Path) -> str:
    """Size of a file, such as `12 kB`."""
    return in_bytes(path.stat().st_size)


# ---- results


def cell(value: Any) -> str:
    """A value in a cell of a table."""
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


dim = partial(Text, style="dim")
bold = partial(Text, style="bold")


def command(line: str, before: str = "Next: ") -> Text:
    """What to run next, in one line however long it is."""
    return Text.assemble(before, (line, "bold"), no_wrap=True, overflow="ignore")


def show(*results: Any) -> None:
    """Print results on stdout: what comes from data is text, never markup, and cannot command the
    terminal.
    """
    Console(highlight=False, markup=False, emoji=False).print(
        *map(_Visible, results), sep="\n", crop=False
    )


def show_json(result: Any) -> None:
    """Print a result as JSON, which knows neither NaN nor infinity: they become null."""
    from corank.tables.write import finite  # slow to import

    typer.echo(json.dumps(finite(result), indent=2, default=str))


@dataclass(frozen=True)
class _Visible:
    """What is printed of something, its control characters visible."""

    shown: Any

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self.shown, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


# ---- files that a command reads: standard input, tables whose format is given


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
    path = file
    several = is_several(file)
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


# ---- refusals, before any work, of files that must not or cannot be written


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
