"""Options that several commands share, each with one meaning everywhere.

The learners as the command line calls them, and which options go with which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from corank.cli.console import is_big, is_several
from corank.learners.registry import LearnerRecord, learner_records

WHO_BEAT_WHOM = "Comparisons"  # panels of the help
MANY_ROWS = "Unscored rows, and more rows than memory"


class Format(StrEnum):
    """Kinds of tables that are read."""

    csv = "csv"
    tsv = "tsv"
    parquet = "parquet"
    jsonl = "jsonl"
    svmlight = "svmlight"


class OutFormat(StrEnum):
    """Kinds of tables that are printed."""

    csv = "csv"
    tsv = "tsv"
    parquet = "parquet"
    jsonl = "jsonl"


TABLE = ".csv, .tsv, .parquet, .jsonl or .svm (SVMlight, LETOR), also .gz; - is standard input"

# ---- how to talk

Force = Annotated[bool, typer.Option("--force", help="Replace a file that is already there.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="Print nothing but errors, and the result where it is not written to a file.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

# ---- what is read and written

Read = Annotated[
    Format | None,
    typer.Option(
        "--format",
        metavar="KIND",
        help="What is read, where an ending does not say: csv, tsv, parquet, jsonl or svmlight. Default for -: known by its "
        "first bytes.",
        show_default=False,
    ),
]
Printed = Annotated[
    OutFormat | None,
    typer.Option(
        "--out-format", metavar="KIND", help="What --out - prints: csv, tsv, parquet or jsonl.", show_default="csv"
    ),
]
ModelFile = Annotated[Path, typer.Argument(help="Model that `corank fit` saved.", show_default=False)]

# ---- columns, as fit and compare are told them

Features = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES", help="Columns to learn from, such as a,b,'text_*'. Default: all others.", show_default=False
    ),
]
Drop = Annotated[list[str] | None, typer.Option(metavar="NAMES", help="Columns to leave out.", show_default=False)]
IdLeftOut = Annotated[
    str | None,
    typer.Option("--id", "--item", help="Column that names the items; it is left out.", show_default=False),
]
View = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES",
        help="Columns of one view, such as 'text_*' or text='text_*,title' (with a name); once a view.",
        show_default="two random halves",
    ),
]

Shuffle = Annotated[
    bool,
    typer.Option(
        "--shuffle-queries",
        help="Of a folder, a pattern or a large file: bring the rows of each query together first, in a temporary folder, "
        "where they are not sorted by query.",
    ),
]
Effect = Annotated[
    bool,
    typer.Option(
        "--effect/--no-effect",
        help="Check whether unscored rows helped, which may take longer than the fit itself.",
        rich_help_panel=MANY_ROWS,
    ),
]

# ---- columns, as a model remembers them

ScoreInFit = Annotated[
    str | None, typer.Option("--score", help="Column with the scores. Default: as in fit.", show_default=False)
]
QueryInFit = Annotated[
    str | None, typer.Option("--query", help="Column with the queries. Default: as in fit.", show_default=False)
]
IdInFit = Annotated[
    str | None,
    typer.Option("--id", "--item", help="Column that names the items. Default: as in fit.", show_default=False),
]
WinnerInFit = Annotated[
    str | None, typer.Option("--winner", help="Column of winners. Default: as in fit.", show_default=False)
]
LoserInFit = Annotated[
    str | None, typer.Option("--loser", help="Column of losers. Default: as in fit.", show_default=False)
]
CountInFit = Annotated[str | None, typer.Option("--count", help="Column that says how often.", show_default=False)]


# The learners, as the command line calls them; auto is one of the first four.
if TYPE_CHECKING:
    MethodName: TypeAlias = Any
else:
    MethodName = StrEnum("MethodName", ["auto", *(record.method for record in learner_records() if record.in_fit)])


class Weighting(StrEnum):
    """What counts the same: items, pairs or queries."""

    size = "size"
    unit = "unit"
    query = "query"


AUTO = MethodName.auto
LEARNERS = {MethodName(record.method): record.name for record in learner_records() if record.in_fit}


def _methods(has: Callable[[LearnerRecord], bool]) -> tuple[MethodName, ...]:
    """The methods whose learners have something."""
    return tuple(MethodName(record.method) for record in learner_records() if record.in_fit and has(record))


BY_EVIDENCE = _methods(lambda record: "amplitude" in record.options)
AGREEING = _methods(lambda record: record.views)  # views that agree on unscored rows
STREAMED = _methods(lambda record: record.scans)  # that learn from files in passes
RANKERS = _methods(lambda record: record.ranks)


def _going_with(option: str) -> tuple[MethodName, ...]:
    """The methods that an option goes with; auto too, where it goes with the learners that auto chooses from."""
    if option in ("view", "unscored"):
        methods = AGREEING
    elif option in ("checkpoint", "dask"):
        methods = STREAMED
    elif option == "comparisons":
        methods = _methods(lambda record: record.comparisons)
    else:
        methods = _methods(lambda record: option in record.options)
    return (AUTO, *methods) if MethodName.corankrls in methods else methods


OWN_NAMES = {"components": "n_components", "atoms": "n_atoms"}


def own_options(method: MethodName, given: dict[str, Any], plain: MethodName) -> dict[str, Any]:
    """The options that only some methods have, as their learners take them; refuses those that do not go with this.

    `plain` is the method that `auto` may turn out to be.
    """
    options: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        check_goes_with(name, method)
        if method is AUTO:
            check_goes_with(name, plain)
        if name in ("alpha", "amplitude", "noise"):
            options[name] = number_or_word(value)
        elif name == "weighting":
            options[name] = value.value
        elif name in OWN_NAMES:
            options[OWN_NAMES[name]] = _whole_numbers(name, value)
        else:
            options[name] = int(value) if value.isdecimal() else value
    return options


def check_goes_with(name: str, method: MethodName) -> None:
    """Refuse an option that a method does not have."""
    methods = _going_with(name)
    if method not in methods:
        others = " or ".join(f"--method {other}" for other in methods if other is not AUTO)
        raise ValueError(f"--{name} does not go with --method {method}; it goes with {others}")


def check_views(patterns: Sequence[str]) -> None:
    """Refuse a single view."""
    if len(patterns) == 1:
        raise ValueError("--view is given once, but one view has nothing to agree with: give two or more")


def _whole_numbers(name: str, text: str) -> int | str | list[int]:
    """`5`, `tune` or `2,5,10`."""
    parts = [part.strip() for part in text.split(",")]
    if text != "tune" and not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"--{name} must be tune, a number greater than 0, or several such as 2,5,10; got {text!r}")
    numbers = [] if text == "tune" else [int(part) for part in parts]
    return "tune" if not numbers else numbers[0] if len(numbers) == 1 else numbers


def number_or_word(text: str) -> float | str | list[float]:
    """`0.1`, `tune` or `0.1,1,10`."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        return text
    return values if len(values) > 1 else values[0]


# ---- what goes together in fit


def check_what_to_learn_from(
    score: str | None,
    item: str | None,
    items: Path | None,
    comparisons: Path | None,
    pairs: dict[str, str | None],
    method: MethodName,
) -> None:
    """Refuse options that do not go together."""
    if items is not None and comparisons is not None:
        raise ValueError("--items is for scores: with --comparisons the first table describes the items")
    if items is not None and item is None:
        raise ValueError("--items needs --id, the column that says what the items are called")
    if comparisons is None:
        for name, value in pairs.items():
            if value is not None:
                raise ValueError(f"--{name} is a column of a table of comparisons: say which with --comparisons")
        if score is None:
            raise ValueError(
                "missing option '--score', the column with the scores, or '--comparisons', a table of who beat whom"
            )
        return
    if score is not None:
        raise ValueError("give --score or --comparisons, not both; --drop leaves a column out of the features")
    if item is None:
        raise ValueError("--comparisons needs --item, the column that says what the items are called")
    check_goes_with("comparisons", method)
    if pairs["margin"] is not None and method is MethodName.preference:
        raise ValueError(
            "--margin does not go with --method preference, which learns from who won alone; use --method difference"
        )


def is_streamed(file: Path, beside: dict[str, Path | None], passes: dict[str, Any]) -> bool:
    """Whether rows are read in passes; refuses a second table then, which is read into memory with the first."""
    second = next((name for name, value in beside.items() if value is not None), None)
    asked = next((name for name, value in passes.items() if value is not None), None)
    if second is None:
        return asked is not None or is_big(file)
    if asked is not None:
        raise ValueError(f"--{asked} does not go with --{second}, whose rows must fit into memory")
    if is_several(file):
        raise ValueError(f"--{second} goes with one table, but {file} is a folder or a pattern")
    return False
