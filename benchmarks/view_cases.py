"""The cases with several views: Sparse Co-RankRLS on ever more unscored rows, its grid, and exact
CoRLS.

Two views of 25 columns each, 300 basis rows a view, 2,000 scored rows in queries of 40, unscored
queries of 40.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.cases import ALPHA, N_COLUMNS, QUERY_SIZE, ours
from benchmarks.peers import Floats, Integers
from benchmarks.registry import Contender, Target, Work, case

N_SCORED, N_VIEWS, BASIS = 2_000, 2, 300
AGREEMENT = 0.01
CHUNK_ROWS = 50_000


def agreement_work(n_unscored: int, n_scored: int, r: int, d: int, m: int = N_VIEWS) -> Work:
    """One pass over the unscored rows with all views' kernels, and one a view over the scored rows
    (design.md).
    """
    flops = n_unscored * m * r * (m * r + 2 * d / m) + n_scored * m * r * (r + 2 * d / m)
    return Work(flops=flops, exps=(n_unscored + n_scored) * m * r)


@dataclass(frozen=True)
class Views:
    """Scored rows, unscored rows, and where the views' basis rows lie among the scored ones."""

    X: Floats
    y: Floats
    qid: Integers
    unscored: Any
    unscored_qid: Integers | None
    basis: int

    def fit(self, **parameters: Any) -> Any:
        """CoRankRLS, fitted."""
        from corank import CoRankRLS, View

        half = N_COLUMNS // 2
        gamma = 1.0 / N_COLUMNS
        rows = peers.nystroem_rows(self.X, self.basis)
        views = [
            View(slice(0, half), gamma=gamma, basis=rows),
            View(slice(half, None), gamma=gamma, basis=rows),
        ]
        model = CoRankRLS(views, **{"alpha": ALPHA, "agreement": AGREEMENT, **parameters})
        return model.fit(
            self.X, self.y, qid=self.qid, unscored=self.unscored, unscored_qid=self.unscored_qid
        )


def make_views(n_unscored: int, *, quick: bool = False) -> Views:
    from corank.datasets import make_ranking

    n_scored, basis = (400, 50) if quick else (N_SCORED, BASIS)
    data = make_ranking(n_scored // QUERY_SIZE, QUERY_SIZE, N_COLUMNS, random_state=0)
    unscored = np.random.default_rng(1).standard_normal((n_unscored, N_COLUMNS))
    return Views(data.X, data.y, data.qid, unscored, np.arange(n_unscored) // QUERY_SIZE, basis)


def _work(data: Views) -> Work:
    return agreement_work(len(data.unscored), len(data.X), data.basis, N_COLUMNS)


# ---------------------------------------------------------------- unscored rows

MILLION, LAKH, MYRIAD = "1,000,000 unscored rows", "100,000 unscored rows", "10,000 unscored rows"
PLAIN = "NumPy, kernels and products only, 100,000 rows"


@case("views-1m", Target("share", MILLION, 0.65))
def views_1m(quick: bool) -> list[Contender]:
    """Sparse Co-RankRLS, two views, 300 given basis rows each, one alpha and agreement, 10⁴ to 10⁶
    unscored rows.

    Bound: l·Mr·(Mr + 2 d/M) flops for l unscored rows, n·Mr·(r + 2 d/M) for n scored ones, an exp a
    kernel value.
    """
    sizes = (800, 400, 200) if quick else (1_000_000, 100_000, 10_000)
    found = []
    for name, size in zip((MILLION, LAKH, MYRIAD), sizes, strict=True):
        data = make_views(size, quick=quick)
        found.append(ours(name, data.fit, _work(data), beside=name))
    plain = make_views(sizes[1], quick=quick)
    return [*found, Contender(PLAIN, partial(_plain, plain), beside=LAKH)]


def _plain(data: Views) -> Floats:
    """What a short NumPy script does: all kernel values of a block, centred by query, and their
    products.
    """
    from sklearn.metrics.pairwise import rbf_kernel

    rows, half = peers.nystroem_rows(data.X, data.basis), N_COLUMNS // 2
    points = [data.X[rows][:, :half], data.X[rows][:, half:]]
    total = np.zeros((2 * data.basis, 2 * data.basis))
    for begin in range(0, len(data.unscored), 10_000):
        block = data.unscored[begin : begin + 10_000]
        gamma = 1.0 / N_COLUMNS
        phi = np.hstack(
            [
                rbf_kernel(block[:, :half], points[0], gamma),
                rbf_kernel(block[:, half:], points[1], gamma),
            ]
        )
        cube = phi.reshape(-1, QUERY_SIZE, phi.shape[1])
        phi = (cube - cube.mean(axis=1, keepdims=True)).reshape(phi.shape)
        total += phi.T @ phi
    return total


# ---------------------------------------------------------------- streamed

STREAMED = "1,000,000 unscored rows from np.memmap"


class FileChunks:
    """Chunks of a memory-mapped file, opened anew for each so that what was read does not stay."""

    def __init__(self, path: Path, n_rows: int) -> None:
        self.path, self.n_rows = path, n_rows

    def __iter__(self) -> Iterator[tuple[Floats, Integers]]:
        for begin in range(0, self.n_rows, CHUNK_ROWS):
            rows = np.memmap(self.path, dtype=np.float64, mode="r", shape=(self.n_rows, N_COLUMNS))
            end = min(begin + CHUNK_ROWS, self.n_rows)
            yield np.array(rows[begin:end]), np.arange(begin, end) // QUERY_SIZE


@case("views-streamed", Target("memory", STREAMED, 250))
def views_streamed(quick: bool) -> list[Contender]:
    """The same with 1,000,000 unscored rows in chunks of 50,000 from a memory-mapped file. Bound as
    before.
    """
    n = 800 if quick else 1_000_000
    data = make_views(QUERY_SIZE, quick=quick)
    folder = Path(tempfile.mkdtemp())
    path = folder / "unscored.bin"
    rng = np.random.default_rng(1)
    with path.open("wb") as file:
        for begin in range(0, n, CHUNK_ROWS):
            file.write(rng.standard_normal((min(CHUNK_ROWS, n - begin), N_COLUMNS)).tobytes())
    streamed = Views(data.X, data.y, data.qid, FileChunks(path, n), None, data.basis)
    weakref.finalize(streamed, shutil.rmtree, folder)
    return [ours(STREAMED, streamed.fit, agreement_work(n, len(data.X), data.basis, N_COLUMNS))]


# ---------------------------------------------------------------- the grid

GRID_1M, ONE_1M = "20 x 10 grid, 1,000,000 unscored rows", "one pair, 1,000,000 unscored rows"
GRID_100K, ONE_100K = "20 x 10 grid, 100,000 unscored rows", "one pair, 100,000 unscored rows"


@case(
    "views-grid",
    Target("cost", GRID_100K, 6.0, than=ONE_100K),
    Target("cost", GRID_1M, 1.6, than=ONE_1M),
)
def views_grid(quick: bool) -> list[Contender]:
    """Twenty alphas by ten agreements with leave-query-out errors, against one given pair."""
    sizes = (800, 400) if quick else (1_000_000, 100_000)
    found = []
    for (grid, one), size in zip(((GRID_1M, ONE_1M), (GRID_100K, ONE_100K)), sizes, strict=True):
        data = make_views(size, quick=quick)
        found.append(
            ours(grid, partial(data.fit, alpha="tune", agreement="tune"), _work(data), beside=grid)
        )
        found.append(ours(one, data.fit, _work(data), beside=grid))
    return found


# ---------------------------------------------------------------- exact

EXACT, FACTOR = "corank", "two kernels and one Cholesky (SciPy)"


@case("views-exact", Target("cost", EXACT, 3.0, than=FACTOR))
def views_exact(quick: bool) -> list[Contender]:
    """Non-parametric CoRLS, 200 scored and 2,000 unscored rows, two views: against Cholesky of size
    2 n + m and kernels.
    """
    from corank import CoRLS, View

    n, m = (40, 200) if quick else (200, 2_000)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n + m, N_COLUMNS))
    y = np.where(np.arange(n + m) < n, X[:, 0] + X[:, -1], np.nan)
    half, gamma = N_COLUMNS // 2, 1.0 / N_COLUMNS
    views = [View(slice(0, half), gamma=gamma), View(slice(half, None), gamma=gamma)]
    size = 2 * n + m
    spd = rng.standard_normal((size, size))
    spd = spd @ spd.T + size * np.eye(size)

    def factor() -> Any:
        from scipy.linalg import cho_factor
        from sklearn.metrics.pairwise import rbf_kernel

        kernels = [rbf_kernel(X[:, :half], gamma=gamma), rbf_kernel(X[:, half:], gamma=gamma)]
        return kernels, cho_factor(spd, lower=True)

    return [
        ours(EXACT, lambda: CoRLS(views, alpha=0.1, agreement=0.1, basis="all").fit(X, y)),
        Contender(FACTOR, factor),
    ]


# ---------------------------------------------------------------- the paper's run times

SIZES = (500, 1_000, 2_000, 4_000)


@case("views-growth")
def views_growth(quick: bool) -> list[Contender]:
    """001 Fig. 2, run time against unscored rows (200 scored, two views, fixed parameters): RLS,
    semi- and non-parametric.

    Time grows with the unscored rows as their power 0 (RLS does not see them), 1 (semi) and up to 3
    (non-parametric).
    """
    from corank import RLS, CoRLS, View

    rng = np.random.default_rng(0)
    n, gamma, half = 200, 1.0 / N_COLUMNS, N_COLUMNS // 2
    views = [View(slice(0, half), gamma=gamma), View(slice(half, None), gamma=gamma)]
    found = []
    for m in (100, 200) if quick else SIZES:
        X = rng.standard_normal((n + m, N_COLUMNS))
        y = np.where(np.arange(n + m) < n, X[:, 0] + X[:, -1], np.nan)
        learners = {
            "RLS": RLS(0.1, gamma=gamma),
            "semi-parametric": CoRLS(views, 0.1, 0.1, basis="scored"),
            "non-parametric": CoRLS(views, 0.1, 0.1, basis="all"),
        }
        found += [
            Contender(f"{name}, {m} unscored", partial(learner.fit, X, y))
            for name, learner in learners.items()
        ]
    return found
