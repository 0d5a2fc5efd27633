"""What a person waits for: imports and commands as processes of their own, beside what others take
for the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from benchmarks.cases import ours
from benchmarks.registry import Contender, Target, case
from corank import RLS, AutoRegressor, TableEncoder
from corank.tables import write_table

N_ROWS, N_RANKED, N_COLUMNS, N_SCORES = 1_000, 100_000, 20, 100
N_POINTS, N_POINT_COLUMNS = 400, 10
# for files, and for bytecode as after an installation
FOLDER = TemporaryDirectory(prefix="corank-waiting-")

IMPORT, SCIKIT_LEARN = "from corank import RankRLS", "import sklearn.linear_model, scipy.linalg"
HELP, TYPER = "corank --help", "import typer, rich"
FIT, FIT_IMPORT = "corank fit", "import what it needs"
RANK, PANDAS = "corank rank", "pandas reads and writes"
AVERAGE, ONE_KERNEL = "AutoRegressor, about 30 models", "RLS, one kernel"


@case("import", Target("cost", IMPORT, 1.3, than=SCIKIT_LEARN))
def import_learner(quick: bool) -> list[Contender]:
    """A learner is imported in a new process, beside the parts of scikit-learn and SciPy that any
    such learner needs.
    """
    return [Contender(IMPORT, _program(IMPORT)), Contender(SCIKIT_LEARN, _program(SCIKIT_LEARN))]


@case("help", Target("cost", HELP, 3.0, than=TYPER))
def help_command(quick: bool) -> list[Contender]:
    """The list of commands, beside the import of the libraries that print it."""
    return [Contender(HELP, _command("--help")), Contender(TYPER, _program(TYPER))]


@case("fit-command", Target("delay", FIT, 2.0, than=FIT_IMPORT))
def fit_command(quick: bool) -> list[Contender]:
    """`corank fit` on 1,000 rows of 20 columns with 100 scores, beside a process that only imports
    the same.
    """
    table = _table(N_SCORES if quick else N_ROWS)
    model = Path(FOLDER.name) / "fitted.corank"
    return [
        Contender(
            FIT, _command("fit", table, "--score", "score", "--out", model, "--force", "--quiet")
        ),
        Contender(FIT_IMPORT, _program("import corank.cli.fit, corank.learners.average.auto")),
    ]


@case("rank-command", Target("cost", RANK, 3.0, than=PANDAS))
def rank_command(quick: bool) -> list[Contender]:
    """`corank rank` of 100,000 rows of 20 columns by a model of 100 scores, beside pandas reading
    and writing the file.
    """
    table = _table(N_SCORES if quick else N_RANKED)
    model, ranked, copy = (
        Path(FOLDER.name) / name for name in ("model.corank", "ranked.csv", "copy.csv")
    )
    known, scores = _columns(N_SCORES), np.random.default_rng(1).standard_normal(N_SCORES)
    encoder = TableEncoder().fit(known)
    AutoRegressor().fit(encoder.transform(known), scores).save(
        model, encoder=encoder, overwrite=True
    )
    copying = f"import pandas; pandas.read_csv({str(table)!r}).to_csv({str(copy)!r}, index=False)"
    return [
        Contender(RANK, _command("rank", model, table, "--out", ranked, "--force", "--quiet")),
        Contender(PANDAS, _program(copying), needs="pandas"),
    ]


@case("average-predict", Target("cost", AVERAGE, 31.0, than=ONE_KERNEL))
def average_predict(quick: bool) -> list[Contender]:
    """100,000 rows of 10 columns predicted by an average on 400 points, beside one rbf kernel on
    the same points.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2_000 if quick else N_RANKED, N_POINT_COLUMNS))
    points = X[: N_SCORES if quick else N_POINTS]
    # all models have their say
    scores = points[:, 0] + points[:, 1] ** 2 / 2 + 2 * rng.standard_normal(len(points))
    average, single = (
        AutoRegressor().fit(points, scores),
        RLS(alpha=1.0, gamma="scale").fit(points, scores),
    )
    return [
        ours(AVERAGE, lambda: average.predict(X)),
        Contender(ONE_KERNEL, lambda: single.predict(X)),
    ]


def _columns(n: int) -> pa.Table:
    values = np.random.default_rng(0).standard_normal((N_COLUMNS, n))
    return pa.table({f"c{number}": column for number, column in enumerate(values)})


def _table(n: int) -> Path:
    """A CSV file of n rows, of which N_SCORES have a score."""
    columns = _columns(n)
    scores = columns["c0"].to_numpy() + columns["c1"].to_numpy() ** 2
    scores[N_SCORES:] = np.nan
    path = Path(FOLDER.name) / f"{n}-rows.csv"
    write_table(
        columns.append_column("score", pa.array(scores, from_pandas=True)), path, overwrite=True
    )
    return path


def _command(*words: object) -> Callable[[], None]:
    return _process(["-m", "corank", *map(str, words)])


def _program(text: str) -> Callable[[], None]:
    return _process(["-c", text])


def _process(arguments: list[str]) -> Callable[[], None]:
    """Run Python from start to end."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(Path(FOLDER.name) / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run() -> None:
        subprocess.run(
            [sys.executable, *arguments], check=True, capture_output=True, env=environment
        )

    return run
