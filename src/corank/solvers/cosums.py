"""Held-out errors of views that agree from the sums of every fold: for many scored rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from corank._backend import Array, device, eigh, in_order, like, namespace, to_numpy
from corank.basis import FeatureMap
from corank.problem import FloatArray, ScoredRows
from corank.solvers.agreement import JointFeatures, PrimalAgreement, block_diagonal, same_scores
from corank.solvers.direct import Spectrum
from corank.solvers.folding import Folding, Grid
from corank.statistics import Gram, Index, Statistics
from corank.views import SideBySide

Sums: TypeAlias = tuple[FloatArray, ...]


def fold_sums(system: PrimalAgreement, folding: Folding, grid: Grid, centred: bool) -> list[Sums]:
    """‖J s‖², (J s)·(J f), ‖J f‖² of every fold and pair, and the rank of the loss: one entry a view, or one for all.

    One eigendecomposition a fold and agreement, no further pass over the rows. O(folds·agreements·(Σ r_v)³).
    """
    together = same_scores(system.problems)
    sums = _joint_statistics(system, folding) if together else _own_statistics(system, folding)
    return errors_from_sums(system, sums, folding.n_folds, grid, centred=centred, together=together)


def errors_from_sums(
    system: PrimalAgreement, sums: Sequence[Statistics], n_folds: int, grid: Grid, *, centred: bool, together: bool
) -> list[Sums]:
    """The same from sums of every fold with the penalties inside: of all views side by side (`together`), or one a view."""
    jobs = [(fold, row) for fold in range(n_folds) for row in range(len(grid.agreements))]
    ends = system.ends if together else None

    def one(job: tuple[int, int]) -> list[Sums]:
        fold, row = job
        without = [own.without(fold) for own in sums]
        offset = _mean_of(without) if centred else 0.0
        blocks, rights = _parts(without, offset, ends)
        matrix = block_diagonal(blocks) + 2 * float(grid.agreements[row]) * system.disagreement
        spectrum = Spectrum(*eigh(matrix))
        xp = namespace(matrix)
        white = spectrum.solve(xp.concat(rights, axis=0), like(grid.alphas, matrix))
        if together:
            return [_gram_sums(sums[0].of(fold), white / len(system.views), offset)]
        own = [white[b:e, :] for b, e in pairwise(system.ends)]
        return [_gram_sums(part.of(fold), c, offset) for part, c in zip(sums, own, strict=True)]

    results = list(in_order(one, jobs, system.disagreement))
    columns = len(grid.agreements)
    folds = [results[k * columns : (k + 1) * columns] for k in range(n_folds)]
    found: list[Sums] = []
    for view in range(len(results[0])):
        rows = [tuple(np.concatenate([cell[view][part] for cell in row]) for part in range(3)) for row in folds]
        sizes = np.asarray([row[0][view][3][0] for row in folds])
        found.append((*(np.stack([row[part] for row in rows]) for part in range(3)), sizes))
    return found


def _mean_of(grams: Sequence[Gram]) -> float:
    """The mean of all scores that were summed, where single rows count."""
    total, weight = (sum(float(gram.matrix[part, -1]) for gram in grams) for part in (-2, -1))
    return total / weight if weight > 0 else 0.0


def _parts(grams: Sequence[Gram], offset: float, ends: Index | None) -> tuple[list[Array], list[Array]]:
    """Each view's own sums and right-hand side, from those of all views side by side (`ends`) or one by one."""
    if ends is None:
        return [g.features for g in grams], [g.right(offset) for g in grams]
    features, right = grams[0].features, grams[0].right(offset)
    spans = list(pairwise(ends))
    return [features[b:e, b:e] for b, e in spans], [right[b:e, :] for b, e in spans]


def _gram_sums(gram: Gram, coefficients: Array, offset: float) -> Sums:
    """‖J s‖², (J s)·(J f), ‖J f‖² for columns of coefficients, and the rank of the loss."""
    xp = namespace(coefficients)
    zeros = xp.zeros((coefficients.shape[0], 1), dtype=xp.float64, device=device(coefficients))
    goal = float(gram.loss(zeros, offset)[0])
    cross = to_numpy(xp.sum(coefficients * gram.right(offset), axis=0))
    own = to_numpy(xp.sum(coefficients * (gram.features @ coefficients), axis=0))
    return np.full(len(cross), goal), cross, own, np.asarray([float(gram.freedom)])


def _joint_statistics(system: PrimalAgreement, folding: Folding) -> list[Statistics]:
    """The sums of all views side by side, penalties inside."""
    maps = [FeatureMap(view.basis) for view in system.views]
    problem = system.views[0].problem
    rows = SideBySide(tuple((view.problem.features, None) for view in system.views))
    joint: Any
    if isinstance(problem, ScoredRows):
        joint = replace(problem, rows=replace(problem.rows, features=rows))
    else:
        joint = replace(problem, features=rows)
    features = JointFeatures(maps)
    statistics = joint.statistics(features, features.size, _every(folding.codes[0]))
    return [statistics.mapped(block_diagonal([_finish(system, v, phi) for v, phi in enumerate(maps)]))]


def _own_statistics(system: PrimalAgreement, folding: Folding) -> list[Statistics]:
    result = []
    for v, (view, codes) in enumerate(zip(system.views, folding.codes, strict=True)):
        phi = FeatureMap(view.basis)
        sums = view.problem.statistics(phi, phi.size, _every(codes))
        result.append(_with_folds(sums.mapped(_finish(system, v, phi)), folding.n_folds))
    return result


def _with_folds(statistics: Statistics, n_folds: int) -> Statistics:
    """The same with folds that are empty at the end: a view need not have scores in all of them."""
    empty = Gram(0.0 * statistics.queries[0].matrix)
    more = n_folds - statistics.n_folds
    return replace(
        statistics,
        queries=(*statistics.queries, *(empty for _ in range(more))),
        parts=(*statistics.parts, *(None for _ in range(more))),
    )


def _every(codes: Index) -> Index:
    return np.where(codes < 0, codes.max() + 1, codes)


def _finish(system: PrimalAgreement, view: int, phi: FeatureMap) -> Array:
    """What turns the summed features of a view into whitened ones, its penalty inside."""
    white = system.maps[view]
    if not phi.whitened:
        return white
    xp = namespace(white)
    eye = xp.eye(white.shape[1], dtype=xp.float64, device=device(white))
    return eye / float(np.sqrt(system.views[view].penalty))
