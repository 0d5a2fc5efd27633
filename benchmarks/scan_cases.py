"""The cases with files: Sparse Co-RankRLS on Parquet that need not fit into memory, and passes on
Dask workers.

Queries of 20 rows, 25 float32 columns, two views of 12 and 13, 200 basis rows each, 2,000 scored
rows in memory.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases import ALPHA, ours
from benchmarks.registry import Contender, Target, case
from benchmarks.view_cases import AGREEMENT, agreement_work

N_SCORED, N_COLUMNS, BASIS, QUERY_SIZE = 2_000, 25, 200, 20
GROUP_ROWS = 100_000  # of one row group
FILE_ROWS = 1_000_000


class Files:
    """A folder of Parquet files with unscored rows, and scored rows beside them."""

    def __init__(self, n_rows: int, *, basis: int = BASIS, group_rows: int = GROUP_ROWS) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        from corank.datasets import make_ranking

        self.n_rows, self.basis = n_rows, basis
        self.folder = Path(tempfile.mkdtemp(prefix="corank-bench-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.scored = make_ranking(N_SCORED // QUERY_SIZE, QUERY_SIZE, N_COLUMNS, random_state=0)
        rng = np.random.default_rng(1)
        for number, begin in enumerate(range(0, n_rows, FILE_ROWS)):
            size = min(FILE_ROWS, n_rows - begin)
            rows = rng.standard_normal((N_COLUMNS, size), dtype=np.float32)
            columns = {f"x{k}": row for k, row in enumerate(rows)}
            table = pa.table({**columns, "q": (begin + np.arange(size)) // QUERY_SIZE})
            parquet.write_table(
                table, self.folder / f"part-{number:03}.parquet", row_group_size=group_rows
            )

    def fit(self, **options: Any) -> Any:
        """CoRankRLS on the scored rows, agreeing on the files."""
        from corank import CoRankRLS, View, scan

        half, gamma = N_COLUMNS // 2, 1.0 / N_COLUMNS
        views = [View(slice(0, half), gamma=gamma), View(slice(half, None), gamma=gamma)]
        rows = scan(self.folder, features="x*", query="q", **options)
        model = CoRankRLS(
            views, ALPHA, AGREEMENT, self.basis, basis_selection="random", random_state=0
        )
        return model.fit(
            self.scored.X.astype(np.float32), self.scored.y, qid=self.scored.qid, unscored=rows
        )

    def read(self) -> int:
        """Only read, nothing computed."""
        from corank import scan

        return sum(chunk.n_rows for chunk in scan(self.folder, features="x*", query="q").chunks())

    def look(self) -> Any:
        """Only count rows, check queries and read candidates for the basis."""
        from corank import scan
        from corank.streaming.passes import Passes
        from corank.streaming.survey import SurveyJob, run_survey

        rows = scan(self.folder, features="x*", query="q")
        return run_survey(
            rows, Passes(), SurveyJob(10_000, 0, 0, all_unscored=True), "unscored", contiguous=True
        )


def _work(files: Files) -> Any:
    return agreement_work(files.n_rows, N_SCORED, files.basis, N_COLUMNS)


TEN_MILLION, ONE_MILLION, READING, LOOK = (
    "10,000,000 rows of Parquet",
    "1,000,000 rows of Parquet",
    "10,000,000 rows, only read",
    "10,000,000 rows, only looked at",
)


@case(
    "scan-10m",
    Target("share", TEN_MILLION, 0.65),
    Target("memory", TEN_MILLION, 450),
    Target("cost", LOOK, 0.3, than=READING),
)
def scan_10m(quick: bool) -> list[Contender]:
    """Sparse Co-RankRLS, two views, 200 basis rows each, unscored rows from Parquet: a look and a
    pass, reading included.

    Bound: l·Mr·(Mr + 2 d/M) flops for l unscored rows, n·Mr·(r + 2 d/M) for n scored ones, an exp a
    kernel value.
    """
    sizes = (4_000, 2_000) if quick else (10_000_000, 1_000_000)
    large, small = (Files(size, basis=50 if quick else BASIS) for size in sizes)
    return [
        ours(TEN_MILLION, large.fit, _work(large)),
        ours(ONE_MILLION, small.fit, _work(small), beside=ONE_MILLION),
        Contender(READING, large.read),
        Contender(LOOK, large.look),
    ]


class ScoredFile:
    """A Parquet file of scored rows of 20 columns, of which five matter; the noise has 0.3 of the
    spread.
    """

    def __init__(self, n_rows: int) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self.folder = Path(tempfile.mkdtemp(prefix="corank-bench-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        rng = np.random.default_rng(0)
        schema = pa.schema([(f"x{k}", pa.float64()) for k in range(20)] + [("y", pa.float64())])
        with parquet.ParquetWriter(self.folder / "rows.parquet", schema) as writer:
            for begin in range(0, n_rows, GROUP_ROWS):
                X = rng.standard_normal((min(GROUP_ROWS, n_rows - begin), 20))
                y = self.scores(X) + 0.3 * rng.standard_normal(len(X))
                writer.write_table(pa.table([*X.T, y], schema=schema))
        self.X = rng.standard_normal((5_000, 20))

    @staticmethod
    def scores(X: Any) -> Any:
        """The function that is looked for, of spread 1."""
        values = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2 / 2 + X[:, 4]
        return values / np.sqrt(3.0)

    def fit(self, learner: Any) -> Any:
        """A fit to the file."""
        from corank import scan

        return learner.fit(scan(self.folder, score="y"))

    def error(self, model: Any) -> float:
        """The root mean squared error of the function."""
        return float(np.sqrt(np.mean((model.predict(self.X) - self.scores(self.X)) ** 2)))


AVERAGE, SPARSE, TUNED = "AutoRegressor", "RLS(basis=1000)", 'RLS(basis=1000, gamma="tune")'


@case(
    "scan-average",
    Target("memory", AVERAGE, 600),
    Target("cost", AVERAGE, 20, than=SPARSE),
)
def scan_average(quick: bool) -> list[Contender]:
    """The default on 1,000,000 scored rows of Parquet, 20 columns, of which five matter."""
    from corank import RLS, AutoRegressor

    files, basis = ScoredFile(2_000 if quick else 1_000_000), 50 if quick else 1_000
    return [
        Contender(name, partial(files.fit, learner), error=files.error)
        for name, learner in (
            (AVERAGE, AutoRegressor()),
            (SPARSE, RLS(basis=basis, gamma="scale")),
            (TUNED, RLS(basis=basis, gamma="tune")),
        )
    ]


TWO, ONE, NONE = "two workers", "one worker", "without Dask"


@case("scan-dask", Target("time", TWO, 1.6, than=ONE))
def scan_dask(quick: bool) -> list[Contender]:
    """The same on 1,000,000 rows and 400 basis rows a view, on one and on two Dask workers of one
    thread; start-up apart.
    """
    files = Files(
        4_000 if quick else 1_000_000,
        basis=50 if quick else 400,
        group_rows=500 if quick else 25_000,
    )
    work = _work(files)
    return [
        Contender(TWO, partial(_on_workers, files, 2), work, needs="distributed"),
        Contender(ONE, partial(_on_workers, files, 1), None, needs="distributed"),
        Contender(NONE, files.fit, work),
    ]


_CLIENTS: dict[int, Any] = {}


def _on_workers(files: Files, n_workers: int) -> Any:
    """A fit on workers that were started before, in the warm-up."""
    if n_workers not in _CLIENTS:
        from distributed import Client, LocalCluster

        cluster = LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        )
        _CLIENTS[n_workers] = Client(cluster)
    return files.fit(client=_CLIENTS[n_workers])
