"""Options of the commands, each named once and with one meaning everywhere, and which of them go together.

A command's signature reads `score: ScoreColumn = None`: type, name and help of an option stand here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from corank.cli.console import is_big, is_several
from corank.learners.registry import LearnerRecord, learner_records

TABLE = ".csv, .tsv, .parquet, .jsonl or .svm (SVMlight, LETOR), also .gz; - is standard input"
SETTINGS = "How it learns"  # panels of the help
COMPARISONS = "Comparisons"
LINKS = "Links between items"
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


class QuestionKind(StrEnum):
    """Kinds of questions that `corank suggest` asks."""

    score = "score"
    comparison = "comparison"


def _argument(help: str) -> Any:
    return typer.Argument(help=help, show_default=False)


def _option(help: str, *names: str, panel: str | None = None, shown: str | bool = False, **more: Any) -> Any:
    """An option; `shown` is the default that the help shows: a word, or True for the value itself."""
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=shown, **more)


Text: TypeAlias = str | None
File: TypeAlias = Path | None

# ---- in every command

Force = Annotated[bool, _option("Replace a file that is already there.", "--force")]
Quiet = Annotated[
    bool, _option("Print nothing but errors, and the result where it is not written to a file.", "--quiet")
]
AsJson = Annotated[bool, _option("Print the result as JSON.", "--json")]
InputFormat = Annotated[
    Format | None,
    _option(
        "Kind of the table, where its ending does not say: csv, tsv, parquet, jsonl or svmlight. Default for -: known by "
        "its first bytes.",
        "--format",
        metavar="KIND",
    ),
]
OutputFormat = Annotated[
    OutFormat | None,
    _option("What --out - prints: csv, tsv, parquet or jsonl.", "--out-format", metavar="KIND", shown="csv"),
]
SpreadsheetSafe = Annotated[
    bool,
    _option(
        "Put ' before texts in the result that begin with =, +, - or @, which spreadsheets would run as formulas.",
        "--spreadsheet-safe",
    ),
]
ModelFile = Annotated[Path, _argument("Model that `corank fit` saved.")]

# ---- columns, by the names that fit and compare are given

ScoreColumn = Annotated[Text, _option("Column with the scores; empty = unscored.", "--score")]
QueryColumn = Annotated[
    Text,
    _option("Column that says which rows compete with each other; all queries share one scoring function.", "--query"),
]
ItemColumn = Annotated[Text, _option("Column that names the items; it is left out.", "--id", "--item")]
FeatureColumns = Annotated[
    list[str] | None,
    _option("Columns to learn from, such as a,b,'text_*'. Default: all others.", "--features", metavar="NAMES"),
]
DroppedColumns = Annotated[list[str] | None, _option("Columns to leave out.", "--drop", "--ignore", metavar="NAMES")]
TextColumns = Annotated[
    list[str] | None,
    _option(
        "Columns that are free text, such as title,abstract. Default: those of many different values of several words.",
        "--text",
        metavar="NAMES",
    ),
]
CategoryColumns = Annotated[
    list[str] | None,
    _option("Columns that are categories, also where they hold numbers or long texts.", "--category", metavar="NAMES"),
]
NumberColumns = Annotated[
    list[str] | None,
    _option(
        "Columns that are numbers of their own, not a category or part of a vector, such as size,'emb_*'.",
        "--number",
        metavar="NAMES",
    ),
]
ViewColumns = Annotated[
    list[str] | None,
    _option(
        "Columns of one view, such as 'text_*' or text='text_*,title' (with a name); once per view.",
        "--view",
        metavar="NAMES",
        shown="two random halves",
    ),
]
ShuffleQueries = Annotated[
    bool,
    _option(
        "For a folder, a pattern or a large file: bring the rows of each query together first, in a temporary folder, "
        "where they are not sorted by query.",
        "--shuffle-queries",
    ),
]

# ---- links between items

LinksFile = Annotated[
    File,
    _option(
        "Table of links between items, such as citations or items bought together: two columns of names as in --id. An "
        "item takes after those that it is linked with, so the table of items must hold these too, scored or not; links "
        "to others are ignored. To rank new items give a table of old and new ones.",
        "--links",
        panel=LINKS,
    ),
]
LinkColumns = Annotated[
    Text,
    _option(
        "Its columns: from,to or from,to,weight.", "--link-columns", metavar="NAMES", panel=LINKS, shown="the first two"
    ),
]
Directed = Annotated[
    bool, _option("Items take after those they link to, not after those that link to them.", "--directed", panel=LINKS)
]

# ---- columns, by default those that a model remembers from fit

ScoreInFit = Annotated[Text, _option("Column with the scores. Default: as in fit.", "--score")]
QueryInFit = Annotated[Text, _option("Column with the queries. Default: as in fit.", "--query")]
ItemInFit = Annotated[Text, _option("Column that names the items. Default: as in fit.", "--id", "--item")]
WinnerInFit = Annotated[Text, _option("Column of winners. Default: as in fit.", "--winner")]
LoserInFit = Annotated[Text, _option("Column of losers. Default: as in fit.", "--loser")]
MarginInFit = Annotated[Text, _option("Column that says by how much, 0 = a tie. Default: as in fit.", "--margin")]
CountInFit = Annotated[Text, _option("Column that says how often.", "--count")]

# ---- fit

FitTable = Annotated[
    Path, _argument(f"Table of items: {TABLE}. A folder or pattern of such files need not fit into memory.")
]
FitOut = Annotated[Path, _option("Where to save the model, by custom NAME.corank.", "--out")]
FitItems = Annotated[
    File, _option("Table that describes the items which FILE scores, by the names in --id.", "--items")
]
FitReport = Annotated[File, _option("Also write a page about the model, NAME.html.", "--report")]
Kernel = Annotated[
    str, _option("How alike two rows are: rbf, linear, poly, cosine, …", "--kernel", panel=SETTINGS, shown=True)
]
Gamma = Annotated[
    str,
    _option(
        "Kernel width: tune, scale or a number. auto is tune for up to 1,500 scored rows, else scale. preference and "
        "difference also know columns: one width for each.",
        "--gamma",
        panel=SETTINGS,
        shown=True,
    ),
]
BasisRows = Annotated[
    Text,
    _option("Rows that span the model: auto, all, features or a number.", "--basis", panel=SETTINGS, shown="auto"),
]
Alpha = Annotated[
    Text, _option("Strength of smoothing: tune, a number, or several to try.", "--alpha", panel=SETTINGS, shown="tune")
]
Components = Annotated[
    Text,
    _option("Number of components of kpcrank and kpcr, or tune.", "--components", panel=SETTINGS, shown="tune"),
]
Atoms = Annotated[
    Text,
    _option("Number of items that make up a pursuit's model, or tune.", "--atoms", panel=SETTINGS, shown="tune"),
]
Amplitude = Annotated[
    Text,
    _option(
        "Variance of the scores in preference and difference, or tune.", "--amplitude", panel=SETTINGS, shown="tune"
    ),
]
Noise = Annotated[
    Text, _option("Variance of the noise in difference, or tune.", "--noise", panel=SETTINGS, shown="tune")
]
Device = Annotated[
    Text, _option("Where to compute: cuda for a GPU (needs PyTorch).", "--device", panel=SETTINGS, shown="CPU")
]
Comparisons = Annotated[
    File,
    _option(
        "Table of who beat whom, by the names in --item, in place of --score; also the answered questions of `corank "
        "suggest`. A tie: two rows, a win for each, or with difference a margin of 0.",
        "--comparisons",
        panel=COMPARISONS,
    ),
]
WinnerColumn = Annotated[Text, _option("Its column of winners.", "--winner", panel=COMPARISONS, shown="winner")]
LoserColumn = Annotated[Text, _option("Its column of losers.", "--loser", panel=COMPARISONS, shown="loser")]
MarginColumn = Annotated[Text, _option("Its column that says by how much, 0 = a tie.", "--margin", panel=COMPARISONS)]
CountColumn = Annotated[Text, _option("Its column that says how often.", "--count", panel=COMPARISONS)]
UnscoredRows = Annotated[
    Text,
    _option("More rows without scores: file, folder or pattern (corankrls, corls).", "--unscored", panel=MANY_ROWS),
]
CheckpointFolder = Annotated[
    File,
    _option("Folder for what is done so far: the same command goes on from there.", "--checkpoint", panel=MANY_ROWS),
]
DaskAddress = Annotated[
    Text, _option("Address of a Dask scheduler whose workers do the work.", "--dask", panel=MANY_ROWS)
]
Effect = Annotated[
    bool,
    _option(
        "Check whether unscored rows helped, which may take longer than the fit itself.",
        "--effect/--no-effect",
        panel=MANY_ROWS,
        shown=True,
    ),
]

# ---- rank, evaluate, suggest, update

RankTable = Annotated[Path, _argument(f"Table of items: {TABLE}; or a folder or pattern of such files.")]
RankOut = Annotated[
    File,
    _option(
        "Where to write the ranking: .csv, .tsv, .parquet or .jsonl; - prints it. Default: show the best ten.", "--out"
    ),
]
Top = Annotated[int | None, _option("Only so many of each query, the best.", "--top", min=1)]
RankItem = Annotated[Text, _option("Write only this column beside rank and score. Default: all.", "--id", "--item")]
EvaluateTable = Annotated[
    Path,
    _argument(
        f"Table of items with scores: {TABLE}; also a folder or pattern of such files. With --items a table of "
        "comparisons: who beat whom, or pairs first,second."
    ),
]
NamedItemsTable = Annotated[File, _option("Table that describes the items which the other table names.", "--items")]
EvaluateOut = Annotated[
    File,
    _option(
        "Where to write the comparisons with the probability that the first of the two, or the winner, wins; - prints "
        "them.",
        "--out",
    ),
]
PoolTable = Annotated[Path, _argument(f"Table of items that could be asked about: {TABLE}.")]
QuestionNumber = Annotated[int, _option("How many questions, for each query.", "--number", "-n", min=1, shown=True)]
Overall = Annotated[bool, _option("So many over all queries, not for each; only for scores.", "--overall")]
AskedKind = Annotated[
    QuestionKind | None,
    _option("score: how good is an item; comparison: which of two is better. Default: as in fit.", "--kind"),
]
QuestionsOut = Annotated[
    File, _option("Where to write the questions, to be answered for `corank update`; - prints them.", "--out")
]
AnswersTable = Annotated[
    Path,
    _argument(
        "Table of newly scored rows or, for a model of comparisons, of who beat whom; also the answered questions of "
        f"`corank suggest`: {TABLE}."
    ),
]
UpdateOut = Annotated[Path, _option("Where to save the new model.", "--out")]

# ---- compare, demo

CompareTable = Annotated[File, _argument(f"Table of items: {TABLE}. Default: the built-in jokes.")]
Methods = Annotated[
    list[str] | None,
    _option(
        "Methods to compare, such as ridge,rankrls,lightgbm. Default: a baseline, corank's main learners, and LightGBM (or "
        "else XGBoost) where installed.",
        "--methods",
    ),
]
Baseline = Annotated[Text, _option("Method that the others are tested against. Default: ridge.", "--baseline")]
MeasureName = Annotated[
    Text, _option("disagreement, ndcg or rmse. Default: disagreement with --query, rmse without.", "--measure")
]
ScoredShare = Annotated[
    float | None,
    _option(
        "Share of the training queries (rows) that keep their scores. Default: 0.1, or all where most rows are unscored.",
        "--scored-share",
    ),
]
Repeats = Annotated[int, _option("Draws of test, scored and unscored queries (rows).", "--repeats", shown=True)]
CompareReport = Annotated[File, _option("Write everything as one HTML page.", "--report")]
MaxScored = Annotated[int, _option("Most scored rows in one fit.", "--max-scored", shown=True)]
MaxUnscored = Annotated[int, _option("Most unscored rows in one fit.", "--max-unscored", shown=True)]
Curves = Annotated[bool, _option("Also fit on fewer rows.", "--curves/--no-curves", shown=True)]
Seed = Annotated[int, _option("All draws follow from it.", "--seed", shown=True)]
Jobs = Annotated[int | None, _option("Fits at a time. Default: one per core.", "--jobs")]
KeptFits = Annotated[File, _option("Folder for finished fits. Default: in the user's cache.", "--keep")]
Fresh = Annotated[bool, _option("Do not take up fits of an earlier start.", "--fresh")]
DemoOut = Annotated[File, _option("Save the model here.", "--out")]
DemoReport = Annotated[File, _option("Write everything as one HTML page.", "--report")]

# ---- federated

CoordinatorFile = Annotated[Path, _argument("coordinator.toml")]
SiteFile = Annotated[Path, _argument("site.toml")]
LogFile = Annotated[File, _option("Also write a log here, one JSON object per line.", "--log")]
Serve = Annotated[bool, _option("Stay, and score new items for corank federated predict.", "--serve")]
FederatedTable = Annotated[Path, _argument(f"Table of items to score: {TABLE}.")]
FederatedOut = Annotated[
    Path, _option("Where to write them with their scores: .csv, .tsv, .parquet or .jsonl; - prints them.", "--out")
]
FederatedItem = Annotated[str, _option("Column that names the items.", "--id", "--item", shown=True)]
OnlyIds = Annotated[bool, _option("Send the ids alone; every site has its own table of these items.", "--only-ids")]
PartyFolder = Annotated[Path, _argument("Where to make it all; one folder per party.")]
SiteNames = Annotated[list[str], _option("Name of a site; once for each.", "--site")]
Host = Annotated[str, _option("Where sites find the coordinator.", "--host", shown=True)]
Port = Annotated[int, _option("Its port.", "--port", min=1, max=65535, shown=True)]
RunName = Annotated[str, _option("Name of the run.", "--run", shown=True)]
Days = Annotated[int, _option("How long certificates are valid.", "--days", min=1, max=3650, shown=True)]


# The learners, as the command line calls them; auto is the average of many models.
if TYPE_CHECKING:
    MethodName: TypeAlias = Any
else:
    MethodName = StrEnum("MethodName", ["auto", *(record.method for record in learner_records() if record.in_fit)])


class Weighting(StrEnum):
    """What counts the same: items, pairs or queries."""

    size = "size"
    unit = "unit"
    query = "query"


MethodOption = Annotated[
    MethodName,
    _option(
        "auto is an average of many models, weighed by their held-out errors; it ranks with --query or "
        "--comparisons and predicts scores without. rankrls, kpcrank (for noisy scores) and pursuit (a handful of items) "
        "rank; rls, kpcr and matching predict scores; corankrls and corls learn from unscored rows; preference and "
        "difference (from who wins, or by how much) say how sure they are and what to ask next.",
        "--method",
        metavar="NAME",
        shown=True,
    ),
]
WeightingOption = Annotated[
    Weighting | None,
    _option("What counts the same: items (size), pairs (unit) or queries (query).", "--weighting", panel=SETTINGS),
]

AUTO = MethodName.auto
LEARNERS = {MethodName(record.method): record.name for record in learner_records() if record.in_fit}


def _methods(has: Callable[[LearnerRecord], bool]) -> tuple[MethodName, ...]:
    """The methods whose learners have something."""
    return tuple(MethodName(record.method) for record in learner_records() if record.in_fit and has(record))


BY_EVIDENCE = _methods(lambda record: "amplitude" in record.options)
AGREEING = _methods(lambda record: record.views)  # views that agree on unscored rows
STREAMED = _methods(lambda record: record.scans)  # that learn from files in passes
RANKERS = _methods(lambda record: record.ranks)
OWN_NAMES = {"components": "n_components", "atoms": "n_atoms"}


def method_options(method: MethodName, given: dict[str, Any], plain: MethodName) -> dict[str, Any]:
    """Options that only some methods have, as their learners take them; those that do not go with this are refused.

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
            options[name] = number_or_text(value)
        elif name == "weighting":
            options[name] = value.value
        elif name in OWN_NAMES:
            options[OWN_NAMES[name]] = _whole_numbers(name, value)
        else:
            options[name] = int(value) if value.isdecimal() else value
    return options


def _methods_with(option: str) -> tuple[MethodName, ...]:
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


def check_goes_with(name: str, method: MethodName) -> None:
    """Refuse an option that a method does not have."""
    methods = _methods_with(name)
    if method not in methods:
        others = " or ".join(f"--method {other}" for other in methods if other is not AUTO)
        raise ValueError(f"--{name} does not go with --method {method}; it goes with {others}")


def check_views(patterns: Sequence[str]) -> None:
    """Refuse a single view."""
    if len(patterns) == 1:
        raise ValueError("--view is given once, but one view has nothing to agree with: give two or more")


def _whole_numbers(name: str, text: str) -> int | str | list[int]:
    """`5`, `tune` or `2,5,10`."""
    if text == "tune":
        return text
    numbers = [number.strip() for number in text.split(",")]
    if not all(number.isdecimal() and int(number) > 0 for number in numbers):
        raise ValueError(f"--{name} must be tune, a number greater than 0, or several such as 2,5,10; got {text!r}")
    return int(numbers[0]) if len(numbers) == 1 else [int(number) for number in numbers]


def number_or_text(text: str) -> float | str | list[float]:
    """`0.1`, `tune` or `0.1,1,10`."""
    try:
        values = [float(number) for number in text.split(",")]
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


def is_streamed(file: Path, second_tables: dict[str, Path | None], passes: dict[str, Any]) -> bool:
    """Whether rows are read in passes; refuses a second table then, which is read into memory with the first."""
    second = next((name for name, value in second_tables.items() if value is not None), None)
    option = next((name for name, value in passes.items() if value is not None), None)
    if second is None:
        return option is not None or is_big(file)
    if option is not None:
        raise ValueError(f"--{option} does not go with --{second}, whose rows must fit into memory")
    if is_several(file):
        raise ValueError(f"--{second} goes with one table, but {file} is a folder or a pattern")
    return False
