"""The cases of learners on components and atoms, and of transduction.

Unless a case says otherwise: queries of 40 rows that lie together, 50 columns, float64, the rbf
kernel.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.cases import ALPHA, N_COLUMNS, QUERY_SIZE, Data, make_data, ours
from benchmarks.peers import Floats
from benchmarks.registry import Contender, Target, Work, case, predict_work

# ---------------------------------------------------------------- components

EVERY, TUNED = (
    "corank, every number of components, leave-query-out of 200",
    'corank, n_components="tune"',
)
EIGH = "scipy.linalg.eigh"


@case("components-4000", Target("cost", EVERY, 1.6, than=EIGH))
def components_4000(quick: bool) -> list[Contender]:
    """KPCRank on 4,000 rows in 100 queries: predictions of 1,000 rows for every number of
    components, and leave-query-out errors of the first 200; what the learner does for
    n_components="tune" (200 components by iteration). eigh gets the kernel matrix ready-made."""
    from scipy.linalg import eigh

    n = 400 if quick else 4_000
    data = make_data(n, n_test=1_000)
    kernel = peers.kernel_matrix(data.X, data.gamma)
    return [
        ours(EVERY, partial(_every_number, data)),
        Contender(EIGH, lambda: eigh(kernel)),
        Contender('scipy.linalg.eigh(driver="evd")', lambda: eigh(kernel, driver="evd")),
        ours(TUNED, partial(_kpcrank, data, "tune"), error=data.error),
    ]


def _kpcrank(data: Data, n_components: Any) -> peers.Predict:
    from corank import KPCRank

    predict: peers.Predict = (
        KPCRank(n_components, basis="all", gamma="scale").fit(data.X, data.y, qid=data.qid).predict
    )
    return predict


def _every_number(data: Data) -> tuple[Floats, Floats]:
    from corank.core.basis import KernelBasis
    from corank.core.kernels import Kernel
    from corank.core.loss import WithinQueries
    from corank.core.observations import ScoredRows
    from corank.solve.components import RowComponents, row_components

    n = len(data.X)
    rows = ScoredRows(data.X, data.y, data.qid, int(data.qid.max()) + 1, None, np.arange(n))
    problem = rows.under(WithinQueries("size"))
    components = row_components(KernelBasis(Kernel("rbf", data.gamma), data.X), None, n, 0)
    system = RowComponents(problem, components, 0.0)
    columns = components.features(data.X_test) @ components.matrix
    predictions = np.cumsum(system.triangle.steps(columns), axis=1)
    blocks = [np.flatnonzero(data.qid == query) for query in range(rows.n_queries)]
    return predictions, system.held_out(
        blocks, np.arange(1, min(201, components.n_components)), centred=False
    )


LEADING = "corank, 100 components of 20,000 rows"


@case("components-20k", Target("memory", LEADING, 8_000))
def components_20k(quick: bool) -> list[Contender]:
    """KPCRank with the leading 100 components of 20,000 rows in 500 queries, all rows as basis: no
    full decomposition.
    """
    data = make_data(1_200 if quick else 20_000)
    return [ours(LEADING, partial(_kpcrank, data, 100), error=data.error)]


# ---------------------------------------------------------------- atoms

BACK, OMP = "corank, back-fitted", "scikit-learn orthogonal_mp"


@case("pursuit-2000", Target("cost", BACK, 1.25, than=OMP))
def pursuit_2000(quick: bool) -> list[Contender]:
    """RankingPursuit, 50 atoms out of 2,000, on 2,000 rows: against orthogonal_mp on the
    query-centred kernel matrix with columns of unit length, both from the rows on (kernel
    included)."""
    data = make_data(400 if quick else 2_000)
    atoms = 10 if quick else 50

    def omp() -> Any:
        from sklearn.linear_model import orthogonal_mp

        kernel = peers.kernel_matrix(data.X, data.gamma)
        cube = kernel.reshape(-1, QUERY_SIZE, len(kernel))
        cube -= cube.mean(axis=1, keepdims=True)
        kernel /= np.linalg.norm(kernel, axis=0)
        return orthogonal_mp(kernel, peers.centred(data.y, QUERY_SIZE), n_nonzero_coefs=atoms)

    return [ours(BACK, partial(_pursuit, data, atoms), error=data.error), Contender(OMP, omp)]


def _pursuit(data: Data, atoms: int, **parameters: Any) -> peers.Predict:
    from corank import RankingPursuit

    model = RankingPursuit(atoms, gamma=data.gamma, **parameters).fit(data.X, data.y, qid=data.qid)
    predict: peers.Predict = model.predict
    return predict


HUNDRED, PASSES = "corank, 100 atoms out of 20,000", "100 kernel passes (corank predict)"


@case("pursuit-20k", Target("cost", HUNDRED, 1.5, than=PASSES), Target("memory", HUNDRED, 2_000))
def pursuit_20k(quick: bool) -> list[Contender]:
    """RankingPursuit, 100 atoms out of 20,000, on 20,000 rows, kernel values made anew in every
    pass: against 100 products of the same kernel matrix with a vector, block by block."""
    data = make_data(2_000 if quick else 20_000)
    atoms = 5 if quick else 100

    def passes() -> None:
        from corank.core.basis import KernelBasis
        from corank.core.kernels import Kernel
        from corank.solve.function import predict_in_blocks

        basis = KernelBasis(Kernel("rbf", data.gamma), data.X)
        for _ in range(atoms):
            predict_in_blocks(basis, data.y, data.X)

    n = len(data.X)
    work = Work(flops=atoms * n * n * 2 * (N_COLUMNS + 1), exps=atoms * n * n)
    return [
        ours(HUNDRED, partial(_pursuit, data, atoms), work, error=data.error),
        Contender(PASSES, passes, work),
    ]


PAIRED = "corank, 20 steps"


@case("copursuit", Target("share", PAIRED, 1 / 3))
def copursuit(quick: bool) -> list[Contender]:
    """CoRankingPursuit, two views, full search over all pairs out of 1,000 atoms a view, 10,000
    unscored rows, 20 steps, one agreement. Bound: the product of the two views' kernel values on
    the unscored rows, 2 N² l flops."""
    from corank import CoRankingPursuit, View

    n, m, steps = (200, 400, 5) if quick else (1_000, 10_000, 20)
    data = make_data(n)
    unscored = np.random.default_rng(1).standard_normal((m, N_COLUMNS))
    half, gamma = N_COLUMNS // 2, 1.0 / N_COLUMNS
    views = [View(slice(0, half), gamma=gamma), View(slice(half, None), gamma=gamma)]
    model = CoRankingPursuit(views, n_atoms=steps, agreement=0.01)
    fit = partial(
        model.fit,
        data.X,
        data.y,
        qid=data.qid,
        unscored=unscored,
        unscored_qid=np.arange(m) // QUERY_SIZE,
    )
    return [ours(PAIRED, fit, Work(flops=2.0 * n * n * m))]


# ---------------------------------------------------------------- predictions of a handful of atoms

TWENTY, CHECK = "corank, 20 atoms", "scikit-learn check_array"


@case("predict-atoms")
def predict_atoms(quick: bool) -> list[Contender]:
    """Predictions of a model of 20 atoms for 1,000,000 rows, beside scikit-learn's check of them.
    Bound: 2 n r d flops, n r exps; the target is four times the sum of the check and the bound."""
    from sklearn.utils import check_array

    data = make_data(400 if quick else 2_000)
    X = np.random.default_rng(1).standard_normal((8_000 if quick else 1_000_000, N_COLUMNS))
    predict = _pursuit(data, 20)
    return [
        ours(TWENTY, partial(predict, X), predict_work(len(X), 20, N_COLUMNS)),
        Contender(CHECK, partial(check_array, X)),
    ]


SPARSE, WHOLE = "corank, 20 atoms out of 2,000", "corank, RankRLS on all 2,000 rows"


@case("predict-sparse", Target("cost", SPARSE, 0.1, than=WHOLE))
def predict_sparse(quick: bool) -> list[Contender]:
    """Predictions for 100,000 rows: a ranking pursuit of 20 atoms beside RankRLS on the same 2,000
    rows. Bound of each: 2 n r d flops, n r exps."""
    from corank import RankRLS

    data = make_data(400 if quick else 2_000)
    n_rows = 2_000 if quick else 100_000
    X = np.random.default_rng(1).standard_normal((n_rows, N_COLUMNS))
    sparse = _pursuit(data, 20)
    whole = RankRLS(ALPHA, basis="all", gamma=data.gamma).fit(data.X, data.y, qid=data.qid)
    return [
        ours(SPARSE, partial(sparse, X), predict_work(n_rows, 20, N_COLUMNS)),
        ours(WHOLE, partial(whole.predict, X), predict_work(n_rows, len(data.X), N_COLUMNS)),
    ]


# ---------------------------------------------------------------- transduction

TRANSDUCED, INVERSE = "corank", "kernel, Cholesky and inverse (SciPy)"


@case("transduction", Target("cost", TRANSDUCED, 4.0, than=INVERSE))
def transduction(quick: bool) -> list[Contender]:
    """TransductiveRankRLS, 2,000 rows, half of them in unscored queries, one alpha: against the
    Cholesky factor and the inverse of a matrix of that size."""
    from corank import TransductiveRankRLS

    data = make_data(400 if quick else 2_000)
    n = len(data.X)
    y = np.where(np.arange(n) < n // 2, data.y, np.nan)
    model = TransductiveRankRLS(ALPHA / QUERY_SIZE, gamma=data.gamma)
    kernel = peers.kernel_matrix(data.X, data.gamma)
    kernel.flat[:: n + 1] += 1.0

    def inverse() -> Floats:
        from scipy.linalg import lapack

        factor, _ = lapack.dpotrf(kernel, lower=1)
        found: Floats = lapack.dpotri(factor, lower=1)[0]
        return found

    return [
        ours(TRANSDUCED, partial(model.fit, data.X, y, qid=data.qid)),
        Contender(INVERSE, inverse),
    ]
