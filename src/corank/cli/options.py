"""Options of the commands, each declared once and with one meaning everywhere, and which of them go
together.

Options that several commands share are fields of a group: a command with a parameter `links:
LinkOptions` has the options --links and --link-columns (`console.expanded`). An option of one
command stands in the signature of that command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

import typer

from corank.cli.columns import id_columns
from corank.cli.console import DASH, check_output, readable
from corank.cli.items import LinkTable
from corank.core.registry import LearnerRecord, learner_records
from corank.tables import (
    FORMATS,
    SVMLIGHT,
    TableFile,
    is_table_name,
    kind_of_file,
    spreadsheet_safe,
    write_table,
    write_to,
)
from corank.tables.comparisons import PairColumns

TABLE = (
    ".csv, .tsv, .parquet, .jsonl or .svm (SVMlight, LETOR), also compressed as .gz; - reads"
    " standard input"
)
SETTINGS = "How it learns"  # panels of the help
COMPARISONS = "Comparisons"
LINKS = "Links between items"
PERSONS = "Several people"
MANY_ROWS = "Unscored rows, and more rows than memory"


class OutFormat(StrEnum):
    """Formats of tables that are printed."""

    csv = "csv"
    tsv = "tsv"
    parquet = "parquet"
    jsonl = "jsonl"


class Format(StrEnum):
    """Formats of tables that are read."""

    csv = "csv"
    tsv = "tsv"
    parquet = "parquet"
    jsonl = "jsonl"
    svmlight = "svmlight"


class QuestionKind(StrEnum):
    """Kinds of questions that `corank suggest` asks."""

    score = "score"
    comparison = "comparison"


class AskedQuestion(StrEnum):
    """Kinds of questions on the page of `corank ask`."""

    compare = "compare"
    best_worst = "best-worst"
    score = "score"


class Weighting(StrEnum):
    """What counts equally: items, pairs or queries."""

    size = "size"
    unit = "unit"
    query = "query"


# The learners, as the command line calls them; auto is the average of many models.
if TYPE_CHECKING:
    MethodName: TypeAlias = Any
else:
    MethodName = StrEnum(
        "MethodName", ["auto", *(record.method for record in learner_records() if record.in_fit)]
    )


def argument(help: str, default: Any = ...) -> Any:
    """A positional argument, required without a default."""
    return typer.Argument(default, help=help, show_default=False)


def option(
    help: str,
    *names: str,
    default: Any = None,
    panel: str | None = None,
    shown: str | bool = False,
    **more: Any,
) -> Any:
    """An option, by default named after its parameter; a default of ... makes it required.

    `shown`: the default that the help shows, a word, or True for the value itself.
    """
    return typer.Option(
        default, *names, help=help, rich_help_panel=panel, show_default=shown, **more
    )


flag = partial(option, default=False)
_annotation = partial(option, default=...)  # its default stands in the signature
names = partial(option, metavar="NAMES")
setting = partial(option, panel=SETTINGS)
tuned = partial(setting, shown="tune")
compared = partial(option, panel=COMPARISONS)

Word: TypeAlias = str | None
Words: TypeAlias = list[str] | None
File: TypeAlias = Path | None

# ---- options that stand alone in several commands

ModelFile = Annotated[
    Path, typer.Argument(help="Model file that `corank fit` saved.", show_default=False)
]
Force = Annotated[bool, _annotation("Overwrite an existing file.", "--force")]
Quiet = Annotated[
    bool,
    _annotation("Print only errors, and the result if it is not written to a file.", "--quiet"),
]
AsJson = Annotated[bool, _annotation("Print the result as JSON.", "--json")]
InputFormat = Annotated[
    Format | None,
    _annotation(
        "Format of the table, if its file name does not say: csv, tsv, parquet, jsonl or svmlight."
        " Default for -: detected from its first bytes.",
        metavar="FORMAT",
    ),
]
OutputFormat = Annotated[
    OutFormat | None,
    _annotation(
        "Format that --out - prints: csv, tsv, parquet or jsonl.", metavar="FORMAT", shown="csv"
    ),
]
FeatureColumns = Annotated[
    Words,
    _annotation(
        "Columns to learn from, such as a,b,'text_*'. Default: all other columns.", metavar="NAMES"
    ),
]
DroppedColumns = Annotated[
    Words, _annotation("Columns to leave out.", "--drop", "--ignore", metavar="NAMES")
]
Unlabelled = Annotated[
    float | None,
    _annotation(
        "Score that means unscored, such as -1. Default: only an empty cell, or nan in an SVMlight"
        " file."
    ),
]
ShuffleQueries = Annotated[
    bool,
    _annotation(
        "For a folder, a pattern or a large file that is not sorted by query: first bring the rows"
        " of each query together, in a temporary folder.",
        "--shuffle-queries",
    ),
]
ItemsTable = Annotated[
    File, _annotation("Table that describes the items that the other table names.")
]
QueryInFit = Annotated[Word, _annotation("Column with the queries. Default: as in fit.")]
ForPerson = Annotated[
    Word,
    _annotation(
        "Name of a person of the model, whose own order is wanted. Default: the persons that the"
        " column of fit names, else what all have in common.",
        "--for",
        metavar="NAME",
    ),
]

# ---- groups


@dataclass(frozen=True)
class CommonOptions:
    """How a table is read, and how a command answers."""

    format: InputFormat = None
    force: Force = False
    quiet: Quiet = False
    as_json: AsJson = False


@dataclass(frozen=True)
class TableOutput(CommonOptions):
    """How a command writes a table."""

    out_format: OutputFormat = None
    spreadsheet_safe: bool = flag(
        "Put ' before text in the result that starts with =, +, - or @, which a spreadsheet would"
        " run as a formula."
    )

    def check(self, out: Path | None, *sources: PathLike[str] | None) -> None:
        """Refuse a table that cannot be written, also by its ending, which says how it is written,
        and options that do not go together; `sources`: files that are read.
        """
        if self.out_format is not None and out != DASH:
            raise ValueError(
                "--out-format goes with --out -; the format of a file follows from its extension:"
                " .csv, .parquet, .jsonl"
            )
        if self.as_json and out == DASH:
            raise ValueError(
                "--json and --out - would both print the result: choose one of them, or --out -"
                " --out-format jsonl"
            )
        if out is None or out == DASH:
            return
        is_written = is_table_name(out) and kind_of_file(out)[0] not in SVMLIGHT
        if not is_written and not out.is_dir():
            raise ValueError(
                f"--out {out}: the file extension must be .csv, .tsv, .parquet or .jsonl"
            )
        check_output(out, *sources, force=self.force)

    def write(self, table: Any, out: Path) -> None:
        """Write a table to a file, or print it."""
        if self.spreadsheet_safe:
            table = spreadsheet_safe(table)
        if out != DASH:
            write_table(table, out, overwrite=self.force)
            return
        write_to(table, sys.stdout.buffer, FORMATS[self.out_format or "csv"])
        sys.stdout.buffer.flush()


@dataclass(frozen=True)
class RoleOptions:
    """Columns that are not learned from."""

    score: Word = option("Column with the scores; an empty cell means unscored.")
    query: Word = option(
        "Column that says which rows compete with each other, their query; all queries share one"
        " scoring function."
    )
    id: Word = option(
        "Column that names the items, or several: sku,name. Names are learned from only by the"
        " default method, and only from comparisons.",
        "--id",
        "--item",
    )

    def in_file(self, file: TableFile, *, compared: bool = False) -> Self:
        """The columns, by default those of an SVMlight file; one that is `compared` needs no score."""
        from corank.streaming.sources import find_files
        from corank.tables.read import DOCUMENT, QUERY, SCORE, has_comments, has_queries, lines_of

        path = file.path
        is_svmlight = file.is_svmlight
        if path.is_dir() and self.score is None and not compared:
            files, kind = find_files(path, None)
            path = Path(files[0].path)
            is_svmlight = kind == "svmlight"
        if not is_svmlight:
            return self
        roles: Self = self
        if self.id is None and has_comments(next(lines_of(path, 1), [])):
            roles = replace(roles, id=DOCUMENT)
        if self.score is None and not compared:
            query = self.query or (QUERY if has_queries(path) else None)
            roles = replace(roles, score=SCORE, query=query)
        return roles

    @property
    def columns(self) -> dict[str, str | None]:
        """Names of the score, query and id columns, None where there is none; of several ids also
        `id 2`, …
        """
        others = {f"id {at}": name for at, name in enumerate(id_columns(self.id), start=1)}
        item = others.pop("id 1", None)
        return {"score": self.score, "query": self.query, "id": item, **others}

    @property
    def read_as_text(self) -> list[str]:
        """Columns that stay text when a file is read: all but the scores."""
        return [name for role, name in self.columns.items() if name is not None and role != "score"]


@dataclass(frozen=True)
class AnsweredRoles(RoleOptions):
    """Columns that are not learned from, and who answered."""

    person: Word = option(
        "Column that says who gave a score or, in the tables of --comparisons and --answers, who"
        " answered: with the default method everybody gets an own order (corank rank --for NAME),"
        " and without --query rows of one person are compared; with --method preference every judge"
        " gets a reliability (corank judges).",
        panel=PERSONS,
    )
    persons: File = option(
        "Table about the persons, such as their age: one row each, named in a column that is called"
        " as in --person.",
        panel=PERSONS,
    )

    @property
    def columns(self) -> dict[str, str | None]:
        """Names of the columns by what they are for; that of persons only where there is one."""
        return super().columns | ({} if self.person is None else {"person": self.person})

    def check_persons(self, *, compared: bool) -> None:
        """Refuse names that cannot be those of persons."""
        if self.person is None:
            if self.persons is not None:
                raise ValueError("--persons needs --person, the column that names the persons")
            return
        named = [("score", self.score)]
        named += [("id", name) for name in ([] if compared else id_columns(self.id))]
        for role, taken in named:
            if self.person == taken:
                raise ValueError(
                    f"--person {self.person!r} is the column of --{role}, too: who answered stands"
                    " in a column of its own"
                )


@dataclass(frozen=True)
class TrainingFiles:
    """What is learned from."""

    file: Path = argument(
        f"Table of items: {TABLE}. A folder or pattern of such files does not have to fit into"
        " memory."
    )
    unlabelled: Unlabelled = None
    items: File = option("Table that describes the items that FILE scores, by the names in --id.")
    comparisons: list[Path] | None = option(
        "Table of who beat whom, by the names in --id, instead of --score; also the answered"
        " questions of `corank suggest` and the answers of `corank ask`. Several tables are"
        " combined. A tie: two rows, a win for each, or with --method difference a margin of 0.",
        panel=COMPARISONS,
    )
    answers: list[Path] | None = option(
        "Answers of any kind about the items, instead of --comparisons, by the names in --id: who of"
        " two is better, with ties, orders of several, from corank ask, Label Studio (.json), Argilla,"
        " battles of an arena, tables of left, right and winner. Several files are combined.",
        panel=COMPARISONS,
    )

    @property
    def compared(self) -> list[Path]:
        """The tables that compare items."""
        return [*(self.comparisons or []), *(self.answers or [])]


@dataclass(frozen=True)
class RolesInFit:
    """Columns that name and group items, by default as in fit."""

    query: QueryInFit = None
    id: Word = option("Column that names the items. Default: as in fit.", "--id", "--item")


@dataclass(frozen=True)
class ScoresInFit(RolesInFit):
    """Columns of scored items, by default as in fit."""

    score: Word = option("Column with the scores. Default: as in fit.")
    person: Word = option("Column that says who answered. Default: as in fit.")


@dataclass(frozen=True)
class PairsInFit(PairColumns):
    """Columns of a table of comparisons, by default as in fit."""

    winner: Word = option("Column of winners. Default: as in fit.")
    loser: Word = option("Column of losers. Default: as in fit.")
    margin: Word = option(
        "Column that says by how much the winner won; 0 is a tie. Default: as in fit."
    )
    count: Word = option("Column that says how often each comparison was made. Default: as in fit.")


@dataclass(frozen=True)
class PairOptions(PairColumns):
    """Columns of a table of comparisons to learn from."""

    winner: Word = compared(
        "Column of winners in --comparisons; if tables have different names for it, separate these"
        " with commas.",
        shown="winner",
    )
    loser: Word = compared("Column of losers in --comparisons.", shown="loser")
    margin: Word = compared(
        "Column in --comparisons that says by how much the winner won; 0 is a tie."
    )
    count: Word = compared("Column in --comparisons that says how often each comparison was made.")


@dataclass(frozen=True)
class KindOptions:
    """Columns to learn from, and those whose kind is given."""

    features: FeatureColumns = None
    drop: DroppedColumns = None
    text: Words = names(
        "Columns of free text, such as title,abstract. Default: columns with many different values"
        " of several words."
    )
    category: Words = names("Columns of categories, even if they hold numbers or long text.")
    number: Words = names(
        "Columns of single numbers, neither categories nor components of a vector, such as"
        " size,'emb_*'."
    )
    view: Words = names(
        "Columns of one view, such as 'text_*', or text='text_*,title:cosine' with a name and a"
        " kernel; once per view.",
        shown="none; for corankrls, corls and copursuit two random halves",
    )

    @property
    def kinds(self) -> dict[str, list[str]]:
        """Columns by the kind that they are given."""
        return {
            "text": self.text or [],
            "category": self.category or [],
            "number": self.number or [],
        }

    @property
    def read_as_text(self) -> list[str]:
        """Columns that stay text when a file is read, so that the category 007 is not 7."""
        given = [*self.kinds["text"], *self.kinds["category"]]
        return [*given, *(name.strip() for names in given for name in names.split(","))]


@dataclass(frozen=True)
class LinkOptions:
    """Links between items."""

    links: File = option(
        "Table of links between items, such as citations or items bought together: two columns of"
        " names as in --id. An item resembles those it is linked to, so the table of items must"
        " contain these too, scored or not; links to other items are ignored. To rank new items,"
        " give a table of old and new ones.",
        panel=LINKS,
    )
    link_columns: Word = names(
        "Columns of --links: from,to or from,to,weight.", panel=LINKS, shown="the first two"
    )

    def opened(self, context: typer.Context, *, directed: bool = False) -> LinkTable | None:
        """The table of links, or None."""
        columns = self.link_columns
        if self.links is None:
            option = "--link-columns" if columns is not None else "--directed" if directed else None
            if option is not None:
                raise ValueError(f"{option} needs a table of links: name it with --links")
            return None
        names = () if columns is None else tuple(name.strip() for name in columns.split(","))
        if columns is not None and (
            len(names) not in (2, 3) or not all(names) or len(set(names)) < len(names)
        ):
            raise ValueError(
                "--link-columns must name two columns, or three with weights, such as from,to; got"
                f" {columns!r}"
            )
        return LinkTable(readable(context, self.links), names, directed)


Directed = Annotated[
    bool,
    _annotation(
        "Items resemble those they link to, not those that link to them.", "--directed", panel=LINKS
    ),
]


@dataclass(frozen=True)
class LearnerOptions:
    """Settings of a learner."""

    kernel: str = setting(
        "Similarity of two rows: rbf, exponential, linear, poly, cosine, …",
        default="rbf",
        shown=True,
    )
    gamma: Word = setting(
        "Kernel width: tune, scale, mean-distance or a number. rankrls and rls also take auto, which"
        " tunes it if few rows are scored; they, preference and difference also take columns, one"
        " width per column.",
        shown="the method's own",
    )
    basis: Word = setting(
        "Rows used as basis functions: auto, all, features or a number.", shown="auto"
    )
    alpha: Word = tuned(
        "Strength of regularisation: tune, mean-length, a number, or several to try."
    )
    agreement: Word = tuned(
        "How strongly the views of corankrls, corls and copursuit must agree on unscored rows: tune,"
        " a number, or several to try."
    )
    beta: Word = setting(
        "Share of the squared errors of the scores themselves in what rankrls, corankrls, pursuit and"
        " copursuit learn from, from 0 to 1.",
        shown="0",
    )
    scoring: Word = setting(
        "Held-out error that settings are chosen by: squared, rescaled (squared, at the best scale)"
        " or disagreement (share of pairs in the wrong order).",
        shown="the method's own",
    )
    solver: Word = setting(
        "How corankrls and corls solve for their views: direct, partitioned, coordinate or"
        " accelerated.",
        shown="direct",
    )
    components: Word = tuned("Number of components of kpcrank and kpcr, or tune.")
    atoms: Word = tuned(
        "Number of items that a model of pursuit, matching or copursuit consists of, or tune."
    )
    refit: Word = setting(
        "When these methods fit all weights again: back (after every step), basic (never), final,"
        " or pre (for every candidate; not copursuit).",
        shown="back",
    )
    pull: Word = setting(
        "How strongly transductive holds the scores that it fills in to what the scored queries"
        " say: tune, a number, or several to try.",
        shown="1",
    )
    amplitude: Word = tuned("Variance of the scores in preference and difference, or tune.")
    noise: Word = tuned("Variance of the noise in difference, or tune.")
    weighting: Weighting | None = setting(
        "What counts equally: items (size), pairs (unit) or queries (query)."
    )
    device: Word = setting("Where to compute: cuda for a GPU (needs PyTorch).", shown="CPU")

    @property
    def are_of_one_learner(self) -> bool:
        """Whether a setting is given that an average of models does not have."""
        given = self.gamma, self.basis, self.alpha, self.beta, self.weighting, self.scoring
        given_any = any(value is not None for value in given)
        return self.kernel != "rbf" or given_any or self.are_of_views

    @property
    def are_of_views(self) -> bool:
        """Whether a setting is given that only a learner with views has."""
        return self.agreement is not None or self.solver is not None

    def for_method(self, method: MethodName, plain: MethodName) -> dict[str, Any]:
        """The settings as the learner takes them; those that do not go with the method are refused.

        `plain`: the method for scored rows alone, which must have the settings too where models are
        averaged.
        """
        settings: dict[str, Any] = {"kernel": self.kernel}
        if self.gamma is not None:
            settings["gamma"] = number_or_text(self.gamma)
        for name, read in READ_SETTINGS.items():
            value = getattr(self, name)
            if value is None:
                continue
            for tested in (method, plain) if method is AUTO else (method,):
                check_goes_with(name, tested)
            settings[LEARNERS_NAMES.get(name, name)] = read(value)
        return settings


@dataclass(frozen=True)
class PassOptions:
    """Rows that are read in passes."""

    unscored: Word = option(
        "More rows without scores: a file or, with corankrls and corls, also a folder or pattern.",
        panel=MANY_ROWS,
    )
    passes: bool = flag("Read the rows of FILE in passes, however few.", panel=MANY_ROWS)
    checkpoint: File = option(
        "Folder for intermediate results: the same command continues from there.", panel=MANY_ROWS
    )
    dask: Word = option("Address of a Dask scheduler whose workers do the work.", panel=MANY_ROWS)
    shuffle_queries: ShuffleQueries = False
    effect: bool = option(
        "Check whether unscored rows helped, which may take longer than the fit itself.",
        default=True,
        panel=MANY_ROWS,
        shown=True,
    )

    @property
    def given(self) -> dict[str, Any]:
        """The options that ask for passes."""
        options = {
            "unscored": self.unscored,
            "passes": self.passes or None,
            "checkpoint": self.checkpoint,
            "dask": self.dask,
        }
        return {name: value for name, value in options.items() if value is not None}


# ---- methods

AUTO = MethodName.auto
LEARNERS = {MethodName(record.method): record.name for record in learner_records() if record.in_fit}


def _methods(has: Callable[[LearnerRecord], bool]) -> tuple[MethodName, ...]:
    """The methods whose learners have something."""
    return tuple(
        MethodName(record.method) for record in learner_records() if record.in_fit and has(record)
    )


AGREEING = _methods(lambda record: record.views)  # views that agree on unscored rows
STREAMED = (AUTO, *_methods(lambda record: record.scans))  # that learn from files in passes
RANKERS = _methods(lambda record: record.ranks)
METHODS_WITH = {  # option → methods that it goes with, where learners do not list it among theirs
    "view": AGREEING,
    "unscored": _methods(lambda record: record.unscored),
    **dict.fromkeys(("passes", "checkpoint", "dask"), STREAMED),
    "scoring": _methods(lambda record: "amplitude" not in record.options),
    "comparisons": _methods(lambda record: record.comparisons),
}


def check_goes_with(name: str, method: MethodName) -> None:
    """Refuse an option that a method does not have; auto has those of the learners with views."""
    methods = METHODS_WITH.get(name) or _methods(lambda record: name in record.options)
    if method not in methods and not (method is AUTO and MethodName.corankrls in methods):
        either = " or ".join(", ".join(methods).rsplit(", ", 1))  # a, b or c
        raise ValueError(
            f"--{name} does not go with --method {method}; it goes with --method {either}"
        )


def check_views(patterns: Sequence[str] | None) -> None:
    """Refuse a single view."""
    if patterns and len(patterns) == 1:
        raise ValueError(
            "--view is given once, but views must agree with each other: give two or more"
        )


# ---- values


def _whole_numbers(name: str, text: str) -> int | str | list[int]:
    """`5`, `tune` or `2,5,10`."""
    if text == "tune":
        return text
    numbers = [number.strip() for number in text.split(",")]
    if not all(number.isdecimal() and int(number) > 0 for number in numbers):
        raise ValueError(
            f"--{name} must be tune, a number greater than 0, or several such as 2,5,10; got"
            f" {text!r}"
        )
    return int(numbers[0]) if len(numbers) == 1 else [int(number) for number in numbers]


def number_or_text(text: str) -> float | str | list[float]:
    """`0.1`, `tune` or `0.1,1,10`."""
    try:
        values = [float(number) for number in text.split(",")]
    except ValueError:
        return text
    return values if len(values) > 1 else values[0]


def _count_or_text(text: str) -> int | str:
    return int(text) if text.isdecimal() else str(text)


LEARNERS_NAMES = {"components": "n_components", "atoms": "n_atoms"}  # of settings
READ_SETTINGS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("weighting", "basis", "scoring", "refit", "solver"), _count_or_text),
    **dict.fromkeys(("alpha", "amplitude", "noise", "agreement", "beta", "pull"), number_or_text),
    **{name: partial(_whole_numbers, name) for name in ("components", "atoms")},
}
