"""Transduction from beginning to end: kernel width, alpha and pull are chosen, scores completed,
one function fitted.

Kernel width and alpha are those of RankRLS on the scored queries; then the pull is chosen by hiding
scored queries. `transduction` has the systems that are solved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from corank.core.arrays import Array, FloatArray, Index, device, like, namespace, take, zeros_beside
from corank.core.basis import (
    Basis,
    BasisSpec,
    FeatureBasis,
    KernelBasis,
    Selection,
    candidate_rows,
    make_basis,
)
from corank.core.folds import Splits, default_codes, split_codes
from corank.core.kernels import Kernel, basis_points, is_named
from corank.core.observations import Problem, Rows, ScoredRows
from corank.core.storable import storable
from corank.solve.function import predict_in_blocks
from corank.solve.holdout import Scoring, chosen_position, errors_of, pooled
from corank.solve.path import Path, Tried, joined_path
from corank.solve.systems import ViewData
from corank.solve.transduction import (
    DualTransduction,
    Layout,
    PrimalTransduction,
    Transduction,
    row_weights,
)
from corank.solve.tuning import (
    Candidates,
    HeldProblem,
    KernelSettings,
    Settings,
    Training,
    constant_error,
    kernels_to_try,
    tune,
    untuned_width,
)

# in units of the weight of an unscored row in the loss; the strongest first
PULL_GRID = np.logspace(3, -3, 7)


@dataclass(frozen=True)
class TransductionSettings(KernelSettings):
    """What a learner was asked for, checked.

    alpha : a number, "tune" or candidates
    basis : what to take of all rows
    """

    alpha: Candidates
    basis: BasisSpec
    selection: Selection

    @property
    def tunes(self) -> bool:
        """Whether kernel width or alpha is chosen by held-out error."""
        return not isinstance(self.alpha, float) or self.tunes_width


@storable("PullPath")
@dataclass(frozen=True)
class PullPath(Path):
    """Everything that was tried, with one pull per entry (a,): infinite for RankRLS on the scored
    queries.
    """

    pull: Tried | None = None


@dataclass(frozen=True)
class HalfScored:
    """Rows that are all known in advance, of which a part has scores.

    training : the scored rows; its `everything` are all N rows, those of X and then those of
        `unscored`
    queries : (N,) codes; scored and unscored rows share none
    n_given : how many of the rows are those of X
    """

    training: Training
    queries: Index
    n_given: int

    @property
    def problem(self) -> ScoredRows:
        """The scored rows."""
        assert isinstance(self.training.problem, ScoredRows)
        return self.training.problem

    @property
    def one_query(self) -> bool:
        """Whether all scored rows are one query, so that none can be left out."""
        return self.problem.groups is None

    @cached_property
    def unscored(self) -> Index:
        """Row numbers of the unscored rows: (m,)."""
        return np.setdiff1d(np.arange(len(self.queries)), self.training.index)

    def laid_out(self, folds: Index) -> tuple[Layout, ScoredRows]:
        """All rows in the order of a layout, scores 0 where there are none; `folds` (n,) of the
        scored rows.
        """
        layout = Layout.of(self.queries, self.training.index, folds)
        reference = self.problem.reference
        xp = namespace(reference)
        zeros = zeros_beside(len(self.unscored), reference)
        place = np.argsort(np.concatenate([self.training.index, self.unscored]))
        everything = Rows(
            features=self.training.everything,
            scores=take(xp.concat([reference, zeros]), place),
            queries=like(self.queries, reference, "int64"),
            n_queries=int(self.queries.max()) + 1,
            weights=None,
            index=xp.arange(len(self.queries), dtype=xp.int64, device=device(reference)),
        )
        return layout, ScoredRows(
            everything.take(like(layout.order, reference, "int64")), self.problem.comparison
        )

    def pool(self, spec: BasisSpec, kernel: Kernel, seed: int) -> Training:
        """The rows that a basis is chosen from and a kernel width is scaled to.

        All rows, the scored ones, or for a basis of a number of rows the scored ones and a sample
        of the others.
        """
        training, rows = self.training, np.arange(len(self.queries))
        if is_named(spec, "scored"):
            return training
        if not isinstance(spec, str):
            size, rng = spec if isinstance(spec, int) else len(spec), np.random.default_rng(seed)
            rows = training.index[candidate_rows(training.index, size, seed)]
            others, room = self.unscored, max(20 * size, 10_000) - len(rows)
            if kernel.precomputed:
                others = others[others < self.n_given]
            others = (
                others
                if len(others) <= room
                else rng.choice(others, size=max(room, 0), replace=False)
            )
            rows = np.sort(np.concatenate([rows, others]))
        features = (
            training.everything
            if len(rows) == len(self.queries)
            else take(training.everything, rows)
        )
        scores = like(np.zeros(len(rows)), self.problem.reference)
        pool = Rows(features, scores, None, 1, None, like(rows, scores, "int64"))
        return Training(ScoredRows(pool, self.problem.comparison), rows, training.everything)


@dataclass(frozen=True)
class Completed:
    """The scores (m,) that unscored rows got, in the order of the rows, and the function fitted to
    all of them.
    """

    scores: Array
    coefficients: Array
    basis: Basis
    rows: Index | None
    alpha: float
    pull: float
    path: Path | None


def complete(
    data: HalfScored,
    settings: TransductionSettings,
    pull: Candidates,
    splits: Index | Splits | None,
) -> Completed:
    """Choose what is to be tuned, then solve [Pahikkala2007] eq. (11) and fit to the completed
    scores.

    Kernel width and alpha have the least error of RankRLS on scored queries that are left out. Then
    `pull` is chosen, where it is not given: each fold of scored queries in turn counts as unscored
    together with the rows that are. The strongest pull is taken whose completed scores err, within
    one standard error, no more than those of any other; the differences are paired by what was held
    out, since few queries cannot tell from luck what a weak pull gains.

    Parameters
    ----------
    pull : a number, "tune" or candidates
    splits : None for the default hold-out
    """
    tunes_pull = not isinstance(pull, float) and not data.one_query
    folds = np.zeros(len(data.training.index), dtype=np.int64)
    if tunes_pull:
        folds = _folds(data.problem, splits, settings.seed)
    inductive = _inductive(data, settings, splits)
    layout, everything = data.laid_out(folds)
    system = _system(settings.basis, inductive, layout, everything)
    n = layout.n_scored
    scale = float(namespace(everything.reference).mean(row_weights(everything)[n:]))
    alpha, path = inductive.alpha, inductive.path
    chosen = pull if isinstance(pull, float) else scale if isinstance(pull, str) else max(pull)
    if tunes_pull:
        pulls = PULL_GRID * scale if isinstance(pull, str) else np.sort(np.asarray(pull))[::-1]
        pull_path = _pull_path(
            system, everything.take(np.arange(n)), layout, inductive, pulls, settings.scoring
        )
        if pull_path is not None and pull_path.pull is not None:
            path, chosen = pull_path, float(pull_path.pull[pull_path.best])
    unscored = take(everything.features, slice(n, len(layout.order)))
    predicted = predict_in_blocks(inductive.view.basis, inductive.coefficients, unscored)
    completion = system.solve(alpha, chosen, predicted)
    scores = take(completion.scores, np.argsort(layout.order[n:]))
    if not is_named(settings.basis, "all"):
        basis, rows = inductive.view.basis, inductive.view.rows
        return Completed(scores, completion.coefficients, basis, rows, alpha, chosen, path)
    kernel, features, rows = (
        inductive.kernel,
        data.training.everything,
        np.arange(len(layout.order)),
    )
    basis = KernelBasis(
        kernel, basis_points(kernel, features, rows) if kernel.precomputed else features
    )
    coefficients = take(completion.coefficients, np.argsort(layout.order))
    return Completed(scores, coefficients, basis, rows, alpha, chosen, path)


@dataclass(frozen=True)
class _Inductive:
    """RankRLS on the scored queries with the kernel and alpha that were chosen for it, and all that
    was tried.
    """

    kernel: Kernel
    view: ViewData
    coefficients: Array
    alpha: float
    path: Path | None


def fit_scored(
    training: Training,
    settings: TransductionSettings,
    splits: Index | Splits | None,
    pool: Training | None = None,
) -> _Inductive:
    """RankRLS on the scored rows; its basis is chosen from the rows of a pool, None for the scored
    ones.
    """
    pool = training if pool is None else pool
    kernels = kernels_to_try(pool, settings.kernel, settings.gamma, settings.basis, settings.seed)
    problem = HeldProblem(
        choices=[[_view(training, settings, kernel, pool)] for kernel in kernels],
        dual=isinstance(settings.basis, str),
        splits=splits,
    )
    asked = Settings(
        settings.alpha, scoring=settings.scoring, seed=settings.seed, compared=len(kernels) > 1
    )
    solution = tune(problem, asked)
    (view,), (coefficients,) = solution.views, solution.coefficients
    path = None if solution.path is None else replace(solution.path, agreement=None)
    kernel = getattr(view.basis, "kernel", kernels[0])  # with the width of the chosen basis
    return _Inductive(kernel, view, coefficients, solution.alpha, path)


def _view(
    training: Training, settings: TransductionSettings, kernel: Kernel, pool: Training
) -> ViewData:
    """The scored rows with a basis that RankRLS on them can have: of all rows the scored ones."""
    basis: Any = settings.basis
    features, selection, seed = pool.problem.features, settings.selection, settings.seed
    if isinstance(basis, int):
        size = min(basis, len(pool.index))
        _, basis = make_basis(size, kernel, features, pool.index, pool.everything, selection, seed)
    elif is_named(basis, "all"):
        basis = "scored"
    problem = training.problem
    chosen, rows = make_basis(
        basis, kernel, problem.features, training.index, training.everything, selection, seed
    )
    return ViewData(problem, chosen, groups=problem.groups, rows=rows)


def _inductive(
    data: HalfScored, settings: TransductionSettings, splits: Index | Splits | None
) -> _Inductive:
    """Kernel and alpha by leave-query-out over the scored queries; nothing is chosen where there is
    only one.

    Then alpha is at the scale of the data where it is open, the last of a list; gamma likewise, the
    first of a list.
    """
    pool = data.pool(settings.basis, settings.kernel, settings.seed)
    if not data.one_query:
        return fit_scored(data.training, settings, splits, pool)
    alpha, width = settings.alpha, untuned_width(settings.gamma)
    (kernel,) = kernels_to_try(pool, settings.kernel, width, settings.basis, settings.seed)
    view = _view(data.training, settings, kernel, pool)
    problem = HeldProblem([[view]], dual=isinstance(settings.basis, str))
    system, _ = problem.prepared([view], Settings(1.0))
    if isinstance(alpha, str):
        alpha = system.scale
    number = alpha[-1] if isinstance(alpha, tuple) else alpha
    return _Inductive(kernel, view, system.solve(number)[0][:, 0], number, None)


def _folds(problem: Problem, splits: Index | Splits | None, seed: int) -> Index:
    """The fold of every scored row for choosing pull, −1 where it is never held out: at most ten
    folds of queries.
    """
    assert problem.groups is not None
    if splits is None:
        codes = default_codes(problem, seed, n_features=0)
        return np.zeros_like(problem.groups) if codes is None else codes
    folds = split_codes(problem, splits)
    if folds is None:
        raise ValueError(
            "cv: to choose pull every split must leave out whole queries, none of them twice, and"
            " train on all others; use cv=None, a splitter of groups, or give pull as a number."
        )
    return folds


def _system(
    spec: BasisSpec, inductive: _Inductive, layout: Layout, everything: ScoredRows
) -> Transduction:
    """All rows in either form: the dual where they are the basis, or fewer than the columns that
    are.
    """
    basis = inductive.view.basis
    if is_named(spec, "all"):
        kernel, features = inductive.kernel, everything.features
        points = (
            like(layout.order, everything.reference, "int64") if kernel.precomputed else features
        )
        return DualTransduction(everything, KernelBasis(kernel, points), layout)
    if isinstance(basis, FeatureBasis) and len(layout.order) <= basis.size:
        return DualTransduction(everything, basis, layout)
    return PrimalTransduction(everything, basis, layout)


def _pull_path(
    system: Transduction,
    scored: ScoredRows,
    layout: Layout,
    inductive: _Inductive,
    pulls: FloatArray,
    scoring: Scoring,
) -> PullPath | None:
    """The held-out errors of every pull, after those of RankRLS; None where no two held-out rows
    can be compared.

    `layout` has the folds as parts, `scored` are its scored rows.
    """
    alpha, before = inductive.alpha, inductive.path
    roots = system.held_out(alpha, pulls)
    completed = scored.operator.unroot(roots)
    errors = pooled([errors_of(scored, completed, layout.folds, scoring, np.zeros(layout.n_folds))])
    if len(errors.sizes) == 0:
        return None
    best, constant = (
        chosen_position(errors, pulls, "rescaled"),
        constant_error([scored], 0.0, scoring),
    )
    path = PullPath.of(
        errors, best, scoring, constant, alpha=alpha, gamma=inductive.kernel.gamma, pull=pulls
    )
    if before is None:
        return path
    alone = PullPath(**vars(before), pull=np.full(len(before.alpha), np.inf))
    return joined_path([alone, path], best=1)  # type: ignore[no-any-return]
