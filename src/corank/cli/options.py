"""Options that several commands share, each with one meaning everywhere."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

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
