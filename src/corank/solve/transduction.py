"""Scores of unscored queries that make the held-out error of all queries small, left out one by one
or in folds.

[Pahikkala2007] eqs. (10) and (11), in the forms of docs/mathematics.md, section 3.10. With S = (J K
Jᵀ + alpha I)⁻¹ over all rows, scored and unscored, and z = J y, the model without fold U leaves
the residuals (S_UU)⁻¹ (S z)_U: linear in the unknown scores, so (11) is least squares. Only z
counts in it; the mean of an unscored query is that of the predictions it is pulled to. With d² the
weight of a query in the loss, J y = d·(y − mean), the unknown z_V is pulled by pull/d² to z of
those predictions.

`DualTransduction` works with S (a basis of all rows), `PrimalTransduction` with sums of size r over
any number of rows (a basis of r functions).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    add_diagonal,
    at_least_zero,
    block_of,
    centre_runs,
    cholesky,
    float64,
    inverse_positive,
    inverse_where,
    like,
    namespace,
    runs_of_rows,
    solve_lower,
    solve_positive,
    solve_upper,
    take,
    to_numpy,
    zeros_beside,
)
from corank.core.basis import (
    Basis,
    BasisSpec,
    FeatureBasis,
    KernelBasis,
    Selection,
    basis_candidates,
    candidate_limit,
    candidate_rows,
    make_basis,
)
from corank.core.folds import Folding, Layout, QueryRun, default_codes, split_codes
from corank.core.kernels import Kernel, is_named
from corank.core.observations import Problem, ScoredRows
from corank.core.sums import BLOCK_ENTRIES
from corank.solve.function import predict_in_blocks
from corank.solve.holdout import errors_of, pooled
from corank.solve.systems import EPSILON, DualSystem, ViewData, too_small
from corank.solve.tuning import (
    Candidates,
    HeldProblem,
    KernelSettings,
    Path,
    PullPath,
    Settings,
    Solution,
    Training,
    chosen_position,
    constant_error,
    is_open,
    joined_path,
    kernels_to_try,
    tune,
    untuned_width,
)

# from which a query is solved for alone, without the columns whose answer is the identity
LARGE_QUERY_ROWS = 128
# of a turned row, in units of the unit vectors it was turned with: a shorter one is zero
MIN_LENGTH = 1e-12

# in units of the weight of an unscored row in the loss; the strongest first
PULL_GRID = np.logspace(3, -3, 7)


@dataclass(frozen=True, kw_only=True)
class TransductionSettings(KernelSettings):
    """What a learner was asked for, checked.

    alpha, pull : a number, "tune" or candidates
    basis : what to take of all rows
    in_folds : whether the objective leaves out the folds of `cv` instead of single queries
    """

    alpha: Candidates
    pull: Candidates
    in_folds: bool
    basis: BasisSpec
    selection: Selection

    @property
    def tunes(self) -> bool:
        """Whether kernel width or alpha is chosen by held-out error."""
        return is_open(self.alpha) or is_open(self.gamma)


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
    training: Training, everything: ScoredRows, n_given: int, settings: TransductionSettings
) -> Completed:
    """Choose what is to be tuned, then solve [Pahikkala2007] eq. (11) and fit to the completed
    scores; RankRLS where all rows are scored.

    Kernel width and alpha have the least error of RankRLS on scored queries that are left out. Then
    `pull` is chosen, where it is not given: each fold of scored queries in turn counts as unscored
    together with the rows that are. The strongest pull is taken whose completed scores err, within
    one standard error, no more than those of any other; the differences are paired by what was held
    out, since few queries cannot tell from luck what a weak pull gains.

    Parameters
    ----------
    training : the scored rows
    everything : all rows, those of X and then those of `unscored`; scores 0 where there are none.
        Scored and unscored rows share no query
    n_given : how many of them are those of X
    """
    alone = len(training.index) == len(everything)
    one_query = training.problem.groups is None and not alone  # of which none can be left out
    candidates = _candidates(training, everything, n_given, settings)
    inductive = fit_scored(training, settings, candidates, holds_out=not one_query)
    path, alpha = inductive.path, inductive.alpha
    (view,) = inductive.system.views
    (coefficients,) = inductive.coefficients
    basis, rows = view.basis, view.rows
    if alone:
        pull = untuned_pull(settings.pull, 1.0)
        return Completed(coefficients[:0], coefficients, basis, rows, alpha, pull, path)
    tunes_pull = is_open(settings.pull) and not one_query
    folds = np.zeros(len(training.index), dtype=np.int64)
    if tunes_pull:
        folds = _folds(training.problem, settings)
    queries = to_numpy(everything.queries)
    together = _left_out_together(queries, training, settings)
    layout = Layout.of(queries, training.index, folds, together)
    problem = everything.take(layout.order)
    system = _system(settings, inductive, layout, problem)
    n = layout.n_scored
    weights = row_weights(problem)[n:]
    scale = float(namespace(weights).mean(weights))
    pull = untuned_pull(settings.pull, scale)
    tried = _pull_path(system, inductive, settings, scale) if tunes_pull else None
    if tried is not None and tried.pull is not None:
        path, pull = tried, float(tried.pull[tried.best])
    predicted = predict_in_blocks(basis, coefficients, take(problem.features, slice(n, None)))
    scores, coefficients = system.solve(alpha, pull, predicted)
    scores = take(scores, np.argsort(layout.order[n:]))
    if is_named(settings.basis, "all"):
        rows = np.arange(len(layout.order))
        basis = _basis_of(inductive, everything.features, rows)
        coefficients = take(coefficients, np.argsort(layout.order))
    return Completed(scores, coefficients, basis, rows, alpha, pull, path)


def untuned_pull(pull: Candidates, scale: float) -> float:
    """The pull where nothing can be held out: the largest of a list, or what an unscored row weighs
    in the loss.
    """
    return scale if isinstance(pull, str) else float(np.max(pull))


def _candidates(
    training: Training, everything: ScoredRows, n_given: int, settings: TransductionSettings
) -> Training:
    """The rows that a basis is chosen from and a kernel width is scaled to.

    All rows, the scored ones, or for a basis of a number of rows the scored ones and a sample of
    the others.
    """
    spec, seed = settings.basis, settings.seed
    if is_named(spec, "scored"):
        return training
    numbers = np.arange(len(everything))
    if not isinstance(spec, str):
        others = np.setdiff1d(numbers, training.index)
        if settings.kernel.precomputed:  # values among the others were not given
            others = others[others < n_given]
        numbers = training.index[candidate_rows(training.index, spec, seed)]
        room = max(candidate_limit(spec) - len(numbers), 0)
        if len(others) > room:
            others = np.random.default_rng(seed).choice(others, size=room, replace=False)
        numbers = np.sort(np.concatenate([numbers, others]))
    chosen = everything if len(numbers) == len(everything) else everything.take(numbers)
    return Training(chosen, numbers, everything.features)


def fit_scored(
    training: Training,
    settings: TransductionSettings,
    candidates: Training,
    *,
    holds_out: bool = True,
) -> Solution:
    """RankRLS on the scored rows, whose basis is chosen from candidates.

    Where nothing can be held out an open alpha is the scale of the data, or the last of a list; an
    open width that of the scale of the rows, or the first of a list.
    """
    gamma = settings.gamma if holds_out else untuned_width(settings.gamma)
    kernels = kernels_to_try(candidates, settings.kernel, gamma, settings.basis, settings.seed)
    problem = HeldProblem(
        choices=[[_view(training, settings, kernel, candidates)] for kernel in kernels],
        dual=isinstance(settings.basis, str),
        holds_out=holds_out,
    )
    asked = Settings(
        settings.alpha,
        scoring=settings.scoring,
        seed=settings.seed,
        compared=len(kernels) > 1,
        splits=settings.splits,
    )
    solution = tune(problem, asked)
    path = solution.path
    return solution if path is None else replace(solution, path=replace(path, agreement=None))


def _view(
    training: Training, settings: TransductionSettings, kernel: Kernel, candidates: Training
) -> ViewData:
    """The scored rows with a basis that RankRLS on them can have: of all rows the scored ones."""
    spec, chosen_from = settings.basis, training
    if isinstance(spec, int):
        spec, chosen_from = min(spec, len(candidates.index)), candidates
    elif is_named(spec, "all"):
        spec = "scored"
    features, index = basis_candidates(
        spec, chosen_from.problem.features, chosen_from.index, training.everything, settings.seed
    )
    basis, rows = make_basis(spec, kernel, features, index, settings.selection, settings.seed)
    return ViewData(training.problem, basis, groups=training.problem.groups, rows=rows)


def _folds(problem: Problem, settings: TransductionSettings) -> Index:
    """The fold of every scored row for choosing pull, −1 where it is never held out: at most ten
    folds of queries.
    """
    if settings.splits is None:
        folds = default_codes(problem, settings.seed, n_features=0)
        return np.zeros(problem.targets.shape[0], dtype=np.int64) if folds is None else folds
    folds = split_codes(problem, settings.splits)
    if folds is None:
        raise ValueError(
            "cv: to choose pull every split must leave out whole queries, none of them twice, and"
            " train on all others; use cv=None, a splitter of groups, or give pull as a number."
        )
    return folds


def _left_out_together(queries: Index, training: Training, settings: TransductionSettings) -> Index:
    """The fold of eq. (11) of every row (N,): its query, or that of `cv`; unscored queries are dealt
    by chance to folds of as many.
    """
    if not settings.in_folds:
        return queries
    codes = None
    if settings.splits is not None:
        codes = split_codes(training.problem, settings.splits)
    if codes is None:
        raise ValueError(
            "folds='cv' needs cv= with splits that leave out whole scored queries, none of them"
            " twice, and train on all others."
        )
    n_folds = int(codes.max()) + 1
    unscored = np.setdiff1d(np.arange(len(queries)), training.index)
    labels = np.unique(queries[unscored], return_inverse=True)[1]
    together = queries + n_folds  # queries that are never held out for themselves
    together[training.index[codes >= 0]] = codes[codes >= 0]
    n_held_out = len(np.unique(queries[training.index[codes >= 0]]))
    unscored_folds = int(np.ceil((labels.max() + 1) * n_folds / n_held_out))
    dealt = Folding([labels]).coarser(unscored_folds, settings.seed)
    together[unscored] = int(together.max()) + 1 + dealt.codes[0]
    return together


def _basis_of(inductive: Solution, features: Array, rows: Index) -> KernelBasis:
    """Kernels of the width that was chosen at all rows, whose numbers are `rows`."""
    basis = inductive.system.views[0].basis
    assert isinstance(basis, KernelBasis)
    points = like(rows, features, "int64") if basis.kernel.precomputed else features
    return KernelBasis(basis.kernel, points)


def _system(
    settings: TransductionSettings, inductive: Solution, layout: Layout, problem: ScoredRows
) -> Transduction:
    """All rows in either form: the dual where they are the basis, or fewer than the columns that
    are.
    """
    basis = inductive.system.views[0].basis
    is_whole = is_named(settings.basis, "all")
    if is_whole:
        basis = _basis_of(inductive, problem.features, layout.order)
    few = isinstance(basis, FeatureBasis) and len(layout.order) <= basis.size
    return (DualTransduction if is_whole or few else PrimalTransduction)(problem, basis, layout)


def _pull_path(
    system: Transduction, inductive: Solution, settings: TransductionSettings, scale: float
) -> PullPath | None:
    """The held-out errors of every pull, after those of RankRLS; None where no two held-out rows
    can be compared.

    The layout of the system has the folds as parts.
    """
    layout, scoring = system.layout, settings.scoring
    scored = system.problem.take(np.arange(layout.n_scored))
    pulls = PULL_GRID * scale
    if not isinstance(settings.pull, str):
        pulls = np.sort(np.atleast_1d(settings.pull))[::-1]
    completed = scored.operator.unroot(system.held_out(inductive.alpha, pulls))
    offsets = np.zeros(layout.n_folds)
    errors = pooled([errors_of(scored, completed, layout.folds, scoring, offsets)])
    if len(errors.sizes) == 0:
        return None
    path = PullPath.of(
        errors,
        chosen_position(errors, pulls, "rescaled"),
        scoring,
        constant_error([scored], 0.0, scoring),
        alpha=inductive.alpha,
        gamma=inductive.system.views[0].basis.kernel.gamma,
        pull=pulls,
    )
    before = inductive.path
    if before is None:
        return path
    alone = PullPath(**vars(before), pull=np.full(len(before.alpha), np.inf))
    return joined_path([alone, path], best=1)


# ---------------------------------------------------------------- what both forms share


def row_weights(problem: ScoredRows) -> Array:
    """d², the weight of the query in the loss, of every row: (N,)."""
    return take(problem.operator.within, problem.operator.queries)


def root_of_unscored(problem: ScoredRows, values: Array) -> Array:
    """J of values (m,) of the last rows of a problem: (m, 1)."""
    n = len(problem) - values.shape[0]
    everything = namespace(values).concat([zeros_beside(n, values), values])
    return problem.operator.root(everything[:, None])[n:, :]


def completed_scores(problem: ScoredRows, predicted: Array, z: Array) -> Array:
    """Scores (m,) of the last rows with J y = z (m, 1) whose means are those of the predictions
    (m,).
    """
    m = z.shape[0]
    zeros = zeros_beside((len(problem) - m, 1), z)
    everything = namespace(z).concat([zeros, z - root_of_unscored(problem, predicted)])
    return predicted + problem.operator.unroot(everything)[-m:, 0]


# ---------------------------------------------------------------- a basis of all rows


class DualTransduction:
    """All rows as basis: S is built once per alpha, the held-out residuals of all queries are T z,
    T = diag(S_UU)⁻¹ S.

    min ‖T (z_A + z_V)‖² + ‖√p (z_V − t)‖² with t = J f and p = pull/d²: (TᵀT + diag p)_VV z_V = p t
    − (TᵀT z_A)_V. The means of queries are eigenvectors of S, so T leaves them alone and no unknown
    has to be taken out of z_V. O(N³): one Cholesky factorisation with inverse, TᵀT in N m² and a
    Cholesky factorisation of size m for m of N rows.

    Parameters
    ----------
    problem : all rows in the order of the layout, scores 0 where there are none
    basis : these rows, or the columns
    """

    def __init__(self, problem: ScoredRows, basis: Basis, layout: Layout) -> None:
        self.problem = problem
        self.basis = basis
        self.layout = layout
        self.system = DualSystem([ViewData(problem, basis)])

    def _inverse(self, alpha: float) -> Array:
        """S (N, N)."""
        try:
            return inverse_positive(add_diagonal(self.system.matrix(), alpha))
        except ValueError:
            self.system.solve(alpha)  # says what is wrong
            raise

    def solve(self, alpha: float, pull: float, predicted: Array) -> tuple[Array, Array]:
        """Scores (m,) and coefficients (r,): one Cholesky factorisation with inverse, and one of
        size m.
        """
        problem, n = self.problem, self.layout.n_scored
        inverse = self._inverse(alpha)
        xp = namespace(inverse)
        targets = problem.targets[:, :1]
        columns = xp.concat([inverse[:, n:], inverse @ targets], axis=1)
        left = held_out_residuals(inverse, columns, self.layout.runs, first=n)
        products = left.T @ left
        target = root_of_unscored(problem, predicted)
        weights = pull / row_weights(problem)[n:]
        z = _solve_pulled(products[:-1, :-1], weights, target, products[:-1, -1:])
        roots = inverse @ xp.concat([targets[:n, :], z])
        coefficients = problem.operator.root_transposed(roots)
        if isinstance(self.basis, FeatureBasis):
            coefficients = like(float64(problem.features).T @ coefficients, coefficients)
        return completed_scores(problem, predicted, z), coefficients[:, 0]

    def held_out(self, alpha: float, pulls: FloatArray) -> Array:
        """TᵀT once; per fold and pull one Cholesky factorisation of the size of the fold and the
        unscored rows.
        """
        layout = self.layout
        targets = self.problem.targets[:, :1]
        inverse = self._inverse(alpha)
        xp = namespace(inverse)
        weights = row_weights(self.problem)
        n = layout.n_scored
        left = held_out_residuals(inverse, inverse, layout.runs, first=0)
        products = left.T @ left
        result = []
        for fold in range(layout.n_folds):
            fold_rows = layout.rows(fold)
            unscored = np.concatenate([fold_rows, np.arange(n, len(layout.order))])
            scored = np.setdiff1d(np.arange(n), fold_rows)
            z = take(targets, scored)
            strength = 1 / take(weights, unscored)
            inner = block_of(inverse, unscored, unscored)
            predicted = -solve_positive(inner, block_of(inverse, unscored, scored) @ z)
            inner = block_of(products, unscored, unscored)
            right = block_of(products, unscored, scored) @ z
            columns = [
                _solve_pulled(inner, float(pull) * strength, predicted, right) for pull in pulls
            ]
            result.append(xp.concat(columns, axis=1)[: len(fold_rows), :])
        n_never = len(layout.rows(layout.n_folds))
        result.append(zeros_beside((n_never, len(pulls)), inverse))
        return xp.concat(result, axis=0)


def _solve_pulled(products: Array, weights: Array, target: Array, right: Array) -> Array:
    """(A + diag(weights))⁻¹ (weights·target − right): (m, 1)."""
    return solve_positive(add_diagonal(products, weights), weights[:, None] * target - right)


def held_out_residuals(inverse: Array, right: Array, runs: Sequence[QueryRun], first: int) -> Array:
    """(S_UU)⁻¹ B_U for every query U: S (N, N), B (N, c) → (N, c). O(N c m) for queries of m rows.

    The first columns of B are those of S from row `first` on: for a large query, those at its rows
    become the identity.
    """
    xp = namespace(inverse)
    residuals = []
    for run in runs:
        if run.size >= LARGE_QUERY_ROWS:
            for query in run.pieces(1):
                rows = query.rows
                inner = xp.asarray(inverse[rows, rows], copy=True)
                residuals.append(_large_query(inner, right[rows, :], rows.start - first))
            continue
        ends = run.begin + run.size * np.arange(run.count + 1)
        blocks = [inverse[begin:end, begin:end] for begin, end in pairwise(ends.tolist())]
        inner = xp.stack(blocks)
        cube = xp.reshape(right[run.rows, :], (run.count, run.size, -1))
        # as products: `solve` copies all columns there and back
        solved = xp.linalg.inv(inner) @ cube
        residuals.append(xp.reshape(solved, (run.count * run.size, -1)))
    return xp.concat(residuals, axis=0)


def _large_query(inner: Array, right: Array, column: int) -> Array:
    """(S_UU)⁻¹ B_U, of which the columns from `column` on, where that is not negative, are S_UU."""
    xp = namespace(inner)
    m = inner.shape[0]
    if column < 0:
        return solve_positive(inner, right)
    others = xp.concat([right[:, :column], right[:, column + m :]], axis=1)
    if others.shape[1]:
        others = solve_positive(inner, others)
    identity = like(np.eye(m), inner)
    return xp.concat([others[:, :column], identity, others[:, column:]], axis=1)


# ---------------------------------------------------------------- a basis of r functions


class PrimalTransduction:
    """A subset of the rows, or the columns, as basis: only sums of size r couple the queries.

    With Φ the whitened features, L Lᵀ = ΦᵀJᵀJΦ + alpha I and F = J Φ L⁻ᵀ, alpha·S is I − F Fᵀ, and
    what the model without query U leaves of z is H_U⁻¹ (z_U − F_U b), H_U = I − F_U F_Uᵀ, b = Fᵀ z
    (r,). Given b the queries of (11) part; a multiplier μ (r,) holds b = Fᵀ z. Turned within
    queries so that H is diagonal (h), with w = 1/(1 + p h²), p = pull/d², v what the scored queries
    alone give for b and δ = b − v:

        (Σ_A Fᵀ h⁻² F + Σ_V Fᵀ p w F) δ − X μ = Σ_A Fᵀ h⁻² (z − F v)
        X δ + (Σ_V Fᵀ h² w F) μ = 0,    X = alpha L⁻¹ L⁻ᵀ + Σ_A FᵀF + Σ_V Fᵀ p h² w F
        z_V = F v + w F δ − h² w F μ

    for scored rows A and unscored rows V. The fit to all scores has the coefficients L⁻ᵀ b. O(N r
    (r + d)) for N rows, and 2 N r numbers of memory.

    Parameters
    ----------
    problem : all rows in the order of the layout, scores 0 where there are none
    basis : of r functions
    """

    def __init__(self, problem: ScoredRows, basis: Basis, layout: Layout) -> None:
        self.problem = problem
        self.basis = basis
        self.layout = layout
        weights = to_numpy(row_weights(problem))
        if any(np.ptp(weights[run.rows]) > EPSILON * weights[run.begin] for run in layout.runs):
            raise ValueError(
                "cv: folds of queries of several sizes need weighting='size' where some of the rows"
                " are the basis; or take basis='all'."
            )
        step = max(64, BLOCK_ENTRIES // basis.size)
        blocks = [take(problem.features, run) for run in runs_of_rows(len(problem), step)]
        starts = np.flatnonzero(np.diff(to_numpy(problem.operator.queries), prepend=-1))
        xp = namespace(problem.reference)
        whitened = xp.concat([self._whitened(block) for block in blocks], axis=0)
        rooted, _, _ = centre_runs(whitened, starts, None)
        rooted *= like(np.sqrt(weights), rooted)[:, None]
        self.features = rooted  # J Φ
        self.gram = rooted.T @ rooted

    def _whitened(self, X: Array) -> Array:
        white = self.basis.whitening
        phi = self.basis.features(X)
        return phi if white.trivial else phi @ white.matrix

    def solve(self, alpha: float, pull: float, predicted: Array) -> tuple[Array, Array]:
        """Scores (m,) and coefficients (r,): two passes over the rows of size N r², and a system of
        size 2 r.
        """
        state = _AtAlpha(self, alpha)
        *scored_blocks, unscored_blocks = state.blocks
        z = self.problem.targets[:, :1]
        scored = sum(block.scored_sums(z) for blocks in scored_blocks for block in blocks)
        unscored = sum(block.unscored_sums(pull) for block in unscored_blocks)
        alone, change, multiplier = state.solve(scored, unscored)
        completed = [block.completed(alone, change, multiplier, pull) for block in unscored_blocks]
        z = namespace(self.gram).concat(completed, axis=0)
        white = solve_upper(state.lower.T, alone + change)
        coefficients = self.basis.whitening.matrix @ white
        return completed_scores(self.problem, predicted, z), coefficients[:, 0]

    def held_out(self, alpha: float, pulls: FloatArray) -> Array:
        """The sums of every fold once, and those of all unscored rows once per pull."""
        state = _AtAlpha(self, alpha)
        n_folds = self.layout.n_folds
        *scored_blocks, unscored_blocks = state.blocks
        z = self.problem.targets[:, :1]
        scored = [sum(block.scored_sums(z) for block in blocks) for blocks in scored_blocks]
        xp = namespace(self.gram)
        never = zeros_beside((len(self.layout.rows(n_folds)), 1), self.gram)
        columns = []
        for pull in pulls.tolist():
            unscored = sum(block.unscored_sums(pull) for block in unscored_blocks)
            values = []
            for fold, blocks in enumerate(scored_blocks[:n_folds]):
                kept = sum(scored[:fold] + scored[fold + 1 :])
                hidden = sum(block.unscored_sums(pull) for block in blocks)
                solution = state.solve(kept, unscored + hidden)
                values += [block.completed(*solution, pull) for block in blocks]
            columns.append(xp.concat([*values, never], axis=0))
        return xp.concat(columns, axis=1)


Transduction: TypeAlias = DualTransduction | PrimalTransduction


class _AtAlpha:
    """What depends on alpha but not on pull: L, and the turned rows of F in blocks, one list per
    part of the layout.
    """

    def __init__(self, system: PrimalTransduction, alpha: float) -> None:
        xp = namespace(system.gram)
        gram = system.gram
        try:
            self.lower = cholesky(add_diagonal(gram, alpha))
        except ValueError:
            size = float(xp.max(xp.linalg.diagonal(gram)))
            raise ValueError(too_small(alpha, size)) from None
        r = gram.shape[0]
        inverse = solve_lower(self.lower, like(np.eye(r), gram))
        self.penalty = alpha * (inverse @ inverse.T)
        self.blocks: list[list[Turned]] = [[] for _ in range(len(system.layout.bounds) - 1)]
        weights = to_numpy(row_weights(system.problem))
        for run in system.layout.runs:
            at_once = BLOCK_ENTRIES // (run.size * r) if run.size <= r else 1
            for piece in run.pieces(at_once):
                rows = solve_lower(self.lower, system.features[piece.rows, :].T).T
                turned = Turned.of(piece, rows, float(weights[piece.begin]))
                self.blocks[run.part].append(turned)

    def solve(self, scored: Array, unscored: Array) -> tuple[Array, Array, Array]:
        """The system in the docstring of `PrimalTransduction`: v, δ and μ, (r, 1) each. O(r³).

        scored, unscored : sums over all rows; see `Turned`
        """
        xp = namespace(self.lower)
        r = self.lower.shape[0]
        plain, telling = scored[0, ...], scored[1, ...]
        pulled, across, held = (unscored[place, ...] for place in range(3))
        inner = self.penalty + plain[:r, :r]
        alone = solve_positive(inner, plain[:r, r:])
        across = inner + across
        told = telling[:r, :r]
        rows = [told + pulled, -across], [across, held]
        matrix = xp.concat([xp.concat(row, axis=1) for row in rows], axis=0)
        right = telling[:r, r:] - told @ alone
        right = xp.concat([right, xp.zeros_like(alone)], axis=0)
        both = xp.linalg.solve(matrix, right)
        return alone, both[:r, :], both[r:, :]


@dataclass(frozen=True)
class Turned:
    """Rows of whole queries, turned within each query so that its block of alpha·S = I − F Fᵀ is
    diagonal. A query of more rows than basis functions has r turned rows, the others are zero.

    rows : their place in the layout
    features : (k, r) turned rows of F; kept : (k,) h, the diagonal; weight : d²
    vectors : (queries, size, k / queries) what they were turned by
    """

    rows: slice
    features: Array
    kept: Array
    weight: float
    vectors: Array

    @classmethod
    def of(cls, run: QueryRun, features: Array, weight: float) -> Turned:
        """From the rows of F (count·size, r) of a run, which is one query where that has more than
        r rows.

        O(count·size²·(size + r)), for such a large query O(size·r²).
        """
        xp = namespace(features)
        r = features.shape[1]
        cube = xp.reshape(features, (run.count, run.size, r))
        transposed = xp.matrix_transpose(cube)
        if run.size <= r:
            squares, vectors = xp.linalg.eigh(cube @ transposed)
            turned = xp.matrix_transpose(vectors) @ cube
        else:
            squares, directions = xp.linalg.eigh(transposed @ cube)
            lengths = xp.sqrt(at_least_zero(squares))
            turned = lengths[:, :, None] * xp.matrix_transpose(directions)
            shares = inverse_where(lengths > MIN_LENGTH, lengths)
            vectors = cube @ (directions * shares[:, None, :])
        kept = xp.reshape(1 - squares, (-1,))
        kept = xp.where(kept > EPSILON, kept, 0 * kept + EPSILON)
        return cls(run.rows, xp.reshape(turned, (-1, r)), kept, weight, vectors)

    def free(self, pull: float) -> Array:
        """w = 1/(1 + p h²): (k,)."""
        return 1 / (1 + pull / self.weight * self.kept**2)

    def turn(self, z: Array) -> Array:
        """Values of the rows (count·size, 1), turned like them: (k, 1)."""
        return self._product(namespace(z).matrix_transpose(self.vectors), z)

    def back(self, z: Array) -> Array:
        """The inverse of `turn`, for values in the span of F."""
        return self._product(self.vectors, z)

    def _product(self, matrices: Array, z: Array) -> Array:
        """The matrix of every query times its values."""
        xp = namespace(z)
        cube = xp.reshape(z, (matrices.shape[0], matrices.shape[2], 1))
        return xp.reshape(matrices @ cube, (-1, 1))

    def scored_sums(self, z: Array) -> Array:
        """Σ FᵀF and Σ Fᵀ h⁻² F over scored rows, given z (N, 1) of all rows, which is one more
        column of F here: (2, r + 1, r + 1).
        """
        xp = namespace(z)
        columns = xp.concat([self.features, self.turn(z[self.rows, :])], axis=1)
        telling = columns / self.kept[:, None]
        return xp.stack([columns.T @ columns, telling.T @ telling])

    def unscored_sums(self, pull: float) -> Array:
        """Σ Fᵀ p w F, Σ Fᵀ p h² w F and Σ Fᵀ h² w F over unscored rows: (3, r, r)."""
        free = self.free(pull)
        strength = pull / self.weight
        held = self._gram(self.kept**2 * free)
        return namespace(free).stack([strength * self._gram(free), strength * held, held])

    def _gram(self, weights: Array) -> Array:
        """Fᵀ diag(weights) F for weights (k,) of 0 or more: (r, r)."""
        rooted = namespace(weights).sqrt(weights)[:, None] * self.features
        return rooted.T @ rooted

    def completed(self, alone: Array, change: Array, multiplier: Array, pull: float) -> Array:
        """z of unscored rows, given v, δ and μ: (rows, 1)."""
        f = self.features
        kept = self.kept[:, None]
        free = self.free(pull)[:, None]
        held = kept**2 * free * (f @ multiplier)
        return self.back(f @ alone + free * (f @ change) - held)
