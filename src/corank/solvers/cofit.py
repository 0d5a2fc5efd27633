"""From views of the data and settings to one solution: alpha and agreement chosen, every view's coefficients solved."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from corank._backend import Array, namespace, take, to_numpy
from corank.basis import KernelBasis
from corank.problem import FloatArray
from corank.solvers.agreement import AgreementSystem, DualAgreement, PrimalAgreement, Unscored, ViewData
from corank.solvers.holdout import HeldOut, Scoring, Splits, balanced_folds, splits_of_folds
from corank.solvers.path import Path, alpha_grid, best_position, constant_error
from corank.statistics import Index

N_FOLDS = 10
AGREEMENT_STEPS = np.r_[0.0, np.logspace(-3, 3, 9)]  # in units of where both losses weigh the same


@dataclass(frozen=True)
class CoSettings:
    """What a learner was asked for, checked. `dual`: every view's basis is its scored and all unscored rows."""

    alpha: float | str | tuple[float, ...]
    agreement: float | str | tuple[float, ...]
    dual: bool
    splits: Splits | None = None  # of what is scored, where the learner's own folds will not do
    scoring: Scoring = "squared"
    centred: bool = False
    seed: int = 0

    @property
    def tunes(self) -> bool:
        """Whether anything is chosen by held-out error."""
        return not (isinstance(self.alpha, float) and isinstance(self.agreement, float))


@dataclass(frozen=True)
class CoSolution:
    """Coefficients (r_v,) of every view, and how they came about."""

    coefficients: list[Array]
    intercept: float
    alpha: float
    agreement: float
    path: Path | None


def solve_views(
    views: Sequence[ViewData], unscored: Unscored, groups: Sequence[Index] | None, settings: CoSettings
) -> CoSolution:
    """Choose what is to be tuned by held-out error, then solve.

    `groups`: one array a view, the code of what is held out together for each of its scored rows; None where items of
    one query are held out, which has no closed form with several views.
    """
    system = make_system(views, unscored, settings.dual)
    offset = mean_score(views) if settings.centred else 0.0
    alphas = alpha_grid(system.scale) if isinstance(settings.alpha, str) else np.atleast_1d(settings.alpha)
    agreements = np.atleast_1d(settings.agreement) if not isinstance(settings.agreement, str) else _agreements(system)
    alpha, agreement, path = float(alphas[-1]), float(agreements[0]), None
    if settings.tunes:
        found = _held_out(system, views, unscored, groups, alphas, agreements, settings)
        if found is None:
            alpha = system.scale if isinstance(settings.alpha, str) and system.scale > 0 else alpha
        else:
            problems = [view.problem for view in (views[:1] if same_scores(views) else views)]
            constant = constant_error(problems, offset, settings.scoring)
            path = _path(found, alphas, agreements, settings.scoring, constant)
            alpha, agreement = float(path.alpha[path.best]), float(_tried(path)[path.best])
    coefficients = [part[:, 0] for part in system.solve(alpha, agreement, offset)]
    return CoSolution(coefficients, offset, alpha, agreement, path)


def make_system(views: Sequence[ViewData], unscored: Unscored, dual: bool) -> AgreementSystem:
    """The smaller of the two forms that the bases allow."""
    return DualAgreement(views, unscored) if dual else PrimalAgreement(views, unscored)


def mean_score(views: Sequence[ViewData]) -> float:
    """The weighted mean of all given scores."""
    weights = [view.problem.operator.weight for view in views]
    return float(np.average([view.problem.mean_score for view in views], weights=weights))


def _tried(path: Path) -> FloatArray:
    assert path.agreement is not None
    return path.agreement


def _agreements(system: AgreementSystem) -> FloatArray:
    return AGREEMENT_STEPS * system.agreement_scale if system.agreement_scale > 0 else np.zeros(1)


def _held_out(
    system: AgreementSystem,
    views: Sequence[ViewData],
    unscored: Unscored,
    groups: Sequence[Index] | None,
    alphas: FloatArray,
    agreements: FloatArray,
    settings: CoSettings,
) -> list[HeldOut] | None:
    """The errors of every alpha, one HeldOut an agreement; None where there is too little to hold anything out."""
    if groups is not None and settings.splits is None:
        if len(np.unique(np.concatenate(groups))) < 2:
            return None
        return _left_out(system, views, groups, alphas, agreements, settings)
    splits = settings.splits
    if splits is None:
        n = len(views[0].problem.rows)
        if n < 4:
            return None
        splits = splits_of_folds(balanced_folds(n, min(N_FOLDS, n // 2), np.random.default_rng(settings.seed)))
    return _refitted(views, unscored, alphas, agreements, splits, settings)


def _left_out(
    system: AgreementSystem,
    views: Sequence[ViewData],
    groups: Sequence[Index],
    alphas: FloatArray,
    agreements: FloatArray,
    settings: CoSettings,
) -> list[HeldOut]:
    """Whole groups left out of every view, in closed form."""
    codes = np.concatenate(groups)
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(int(codes.max()) + 2))
    blocks = [order[b:e] for b, e in itertools.pairwise(bounds) if e > b]
    offsets = _means_without(views, blocks) if settings.centred else np.zeros(len(blocks))
    ends = np.cumsum([0, *(len(own) for own in groups)])
    results = []
    for agreement in agreements:
        residuals = system.residuals(alphas, float(agreement), offsets, blocks)
        parts = [residuals[b:e, :] for b, e in itertools.pairwise(ends)]
        results.append(_scored(views, groups, parts, settings.scoring))
    return results


def _means_without(views: Sequence[ViewData], blocks: Sequence[Index]) -> FloatArray:
    """The mean of all given scores but a block's."""
    targets = np.concatenate([to_numpy(view.problem.targets) for view in views])
    products = targets * targets[:, 1:]
    total = products.sum(axis=0)
    kept = np.stack([total - products[block].sum(axis=0) for block in blocks])
    return np.asarray(kept[:, 0] / kept[:, 1])


def _scored(
    views: Sequence[ViewData], groups: Sequence[Index], residuals: Sequence[Array], scoring: Scoring
) -> HeldOut:
    """Errors of the mean of the views where all have the same scores, else of every view on its own."""
    if same_scores(views):
        xp = namespace(residuals[0])
        residuals = [xp.mean(xp.stack(list(residuals), axis=0), axis=0)]
    kept = list(zip(views, groups, residuals, strict=False))
    if scoring == "disagreement":
        shares = np.concatenate([view.problem.misordered(view.problem.predictions(part)) for view, _, part in kept])
        shares = shares[np.isfinite(shares).all(axis=1)]
        return HeldOut(shares, np.ones(len(shares)))
    errors, sizes = [], []
    for view, codes, part in kept:
        squares = to_numpy(part) ** 2
        for code in np.unique(codes):
            rows = np.flatnonzero(codes == code)
            errors.append(squares[rows].sum(axis=0))
            sizes.append(float(view.problem.freedom(rows)))
    size = np.asarray(sizes)
    return HeldOut(np.stack(errors)[size > 0], size[size > 0])


def same_scores(views: Sequence[ViewData]) -> bool:
    """Whether every view has the same scores on the same rows."""
    own = [(to_numpy(view.problem.rows.index), to_numpy(view.problem.reference)) for view in views]
    return all(np.array_equal(own[0][0], index) and np.array_equal(own[0][1], scores) for index, scores in own[1:])


def _refitted(
    views: Sequence[ViewData],
    unscored: Unscored,
    alphas: FloatArray,
    agreements: FloatArray,
    splits: Splits,
    settings: CoSettings,
) -> list[HeldOut]:
    """Fitted once a split, for splits that have no closed form. Rows scored in every view only."""
    results: list[list[HeldOut]] = [[] for _ in agreements]
    first = to_numpy(views[0].problem.rows.index)
    for train, test in splits:
        kept = [_restricted(view, _units(view, first[train]), settings.dual) for view in views]
        system = make_system(kept, unscored, settings.dual)
        offset = mean_score(kept) if settings.centred else 0.0
        left = [replace(view, problem=view.problem.take(_units(view, first[test]))) for view in views]
        one = [np.zeros(len(view.problem.rows), dtype=np.int64) for view in left]
        for position, agreement in enumerate(agreements):
            coefficients = system.path(alphas, float(agreement), offset)
            residuals = [
                own.problem.residuals(new.basis.features(own.problem.features) @ part + offset)
                for own, new, part in zip(left, kept, coefficients, strict=True)
            ]
            results[position].append(_scored(left, one, residuals, settings.scoring))
    return [HeldOut(np.concatenate([r.errors for r in own]), np.concatenate([r.sizes for r in own])) for own in results]


def _units(view: ViewData, rows: Index) -> Index:
    """The positions of rows of X among a view's scored ones."""
    found = np.flatnonzero(np.isin(to_numpy(view.problem.rows.index), rows))
    if len(found) == 0:
        raise ValueError("cv leaves a view without scored rows to train or test on.")
    return found


def _restricted(view: ViewData, rows: Index, dual: bool) -> ViewData:
    """The view with some of its scored rows; in the dual form they leave its basis too."""
    basis = view.basis
    if dual:
        assert isinstance(basis, KernelBasis)
        n = len(view.problem.rows)
        points = np.concatenate([rows, np.arange(n, basis.size)])
        gram = (
            namespace(basis.gram).take(take(basis.gram, points), points, axis=1) if basis.own_gram is not None else None
        )
        basis = KernelBasis(basis.kernel, take(basis.points, points), gram)
    return replace(view, problem=view.problem.take(rows), basis=basis)


def _path(found: Sequence[HeldOut], alphas: FloatArray, agreements: FloatArray, scoring: str, constant: float) -> Path:
    alpha = np.tile(alphas, len(agreements))
    error = np.concatenate([result.mean for result in found])
    return Path(
        alpha=alpha,
        gamma=np.full(len(alpha), np.nan),
        error=error,
        standard_error=np.concatenate([result.standard_error for result in found]),
        best=best_position(error, alpha),
        scoring=scoring,
        constant=constant,
        agreement=np.repeat(agreements, len(alphas)),
    )
