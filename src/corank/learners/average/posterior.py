"""The posterior of an average: a Gaussian process per candidate, between encoded rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from corank.core.arrays import FloatArray, Index, runs_of_rows, stack_rows, sum_of, take
from corank.core.kernels import squared_norms
from corank.learners.average.closed_form import Observations
from corank.learners.average.coefficients import FittedCandidate, basis_factor, dual_factor
from corank.learners.average.similarity import Distances, Encoded, Space
from corank.solve.posterior import GaussianProcess

PAIRED_ROWS = 64  # whose kernel with each other is looked at for differences row by row


class EncodedBlock:
    """Encoded rows, and their distances to the points and to the unscored rows of an average."""

    def __init__(self, encoded: Encoded, n_rows: int, space: Space) -> None:
        self.encoded = encoded
        self.n_rows = n_rows
        self.to_points = Distances(encoded, space.scored)
        self.to_unscored = Distances(encoded, space.unscored)


@dataclass(frozen=True)
class RowsToEncode:
    """Rows of which a posterior encodes a block at a time: `take` gives an `EncodedBlock`."""

    encode: Callable[[slice | Index], Encoded]
    shape: tuple[int, ...]
    space: Space

    def take_rows(self, rows: slice | Index) -> EncodedBlock:
        """The chosen rows, encoded."""
        n_rows = len(np.arange(self.shape[0])[rows])
        return EncodedBlock(self.encode(rows), n_rows, self.space)


@dataclass(frozen=True)
class CandidateProcess(GaussianProcess):
    """The Gaussian process of the function of a candidate, around its mean over the units.

    level : (r,) the shares of points in the mean that is taken out; kernel_level : (r,) K level;
        square_level : levelᵀ K level
    explained_root, left_root : turn kernel values with the points (k, r), by their squares, into
        what the points know of a variance, and into what of it is left
    context : what rows come with, which says how large the function is
    later, later_coefficients, later_root : answers of persons who came after the fit, as in
        `LaterAnswers`; None without
    """

    fitted: FittedCandidate
    space: Space
    limited: Callable[[FloatArray], FloatArray]
    level: FloatArray
    kernel_level: FloatArray
    square_level: float
    explained_root: FloatArray
    left_root: FloatArray
    context: int = 0
    later: Encoded | None = None
    later_coefficients: FloatArray | None = None
    later_root: FloatArray | None = None

    @classmethod
    def of(
        cls,
        fitted: FittedCandidate,
        space: Space,
        units: Observations | None,
        limited: Callable[[FloatArray], FloatArray],
    ) -> CandidateProcess:
        """Factorise the system of a fitted candidate again. O(r³).

        units : all that were fitted; limited : makes predictions of values of its function
        """
        kernel = space.new_kernel(fitted)
        r = len(kernel)
        level = np.zeros(r)
        if fitted.basis is not None:
            gram, directions = fitted.basis
            lower = basis_factor(gram, fitted.alpha)[0]
            explained = directions.T
            left = np.sqrt(fitted.alpha) * scipy.linalg.solve_triangular(
                lower, explained, lower=True
            )
            if units is None or units.groups is not None or units.second is not None:
                level = np.full(r, 1 / r)
        else:
            assert units is not None
            lower = np.tril(dual_factor(kernel, units, fitted.alpha)[0])
            explained = scipy.linalg.solve_triangular(lower, units.root(np.eye(r)), lower=True)
            left = np.empty((0, r))
            if units.second is not None:
                level = np.full(r, 1 / r)
            elif units.groups is not None:
                np.add.at(level, units.first, units.roots**2 / np.sum(units.roots**2))
        kernel_level = kernel @ level
        square_level = float(level @ kernel_level)
        return cls(fitted, space, limited, level, kernel_level, square_level, explained, left)

    @property
    def variance(self) -> float:
        """That of the function in units of its kernel."""
        return self.fitted.variance(self.context)

    @property
    def noise(self) -> float:
        """The variance of the noise of a score."""
        return self.variance * self.fitted.alpha

    def mean_and_features(self, rows: EncodedBlock) -> tuple[FloatArray, FloatArray]:  # noqa: D102
        cross = self.space.kernel_to_scored(self.fitted, rows.to_points, rows.to_unscored)
        values = cross @ self.fitted.coefficients + self.fitted.level
        features = cross - self.kernel_level
        if self.later is not None and self.fitted.own_similarities:
            distances = Distances(rows.encoded, self.later)
            own = np.asarray(
                sum_of([distances.kernel(each) for each in self.fitted.own_similarities])
            )
            values += own @ self.later_coefficients
            features = np.hstack([features, own])
        mean = self.limited(self.fitted.multipliers[self.context] * values)
        return mean, features

    def prior(  # noqa: D102
        self, rows: EncodedBlock, features: FloatArray, *, whole: bool = False
    ) -> FloatArray:
        levels = features[:, : len(self.level)] @ self.level
        if whole:
            kernel = self.space.square_kernel(self.fitted, rows.encoded)
            kernel -= levels[:, None] + self.square_level
            kernel -= levels
        else:
            kernel = self.space.variances(self.fitted, rows.encoded)
            kernel -= 2 * levels + self.square_level
        kernel *= self.variance
        return kernel

    def prior_of_differences(self, first: EncodedBlock, second: EncodedBlock) -> FloatArray:  # noqa: D102
        variances = []
        for run in runs_of_rows(first.n_rows, PAIRED_ROWS):
            ends = [
                {name: take(rows, run) for name, rows in block.encoded.items()}
                for block in (first, second)
            ]
            joined = {name: stack_rows([rows, ends[1][name]]) for name, rows in ends[0].items()}
            kernel = self.space.square_kernel(self.fitted, joined)
            n = len(kernel) // 2
            diagonal = np.diag(kernel)
            variances.append(diagonal[:n] + diagonal[n:] - 2 * np.diagonal(kernel[:n, n:]))
        return self.variance * np.concatenate(variances)

    def explained(self, features: FloatArray, *, whole: bool = False) -> FloatArray:  # noqa: D102
        r = len(self.level)
        scaled, own = np.split(np.sqrt(self.variance) * features, [r], axis=1)
        known = _squares(scaled @ self.explained_root.T, whole=whole)
        if len(self.left_root):
            known -= _squares(scaled @ self.left_root.T, whole=whole)
        if own.shape[1] and self.later_root is not None:
            known += _squares(own @ self.later_root.T, whole=whole)
        return known


def _squares(roots: FloatArray, *, whole: bool) -> FloatArray:
    return np.asarray(roots @ roots.T if whole else squared_norms(roots))


@dataclass(frozen=True)
class ConstantProcess(GaussianProcess):
    """What is believed where there was nothing to learn from: that every row is its own."""

    level: float

    def mean_and_features(self, rows: EncodedBlock) -> tuple[FloatArray, FloatArray]:  # noqa: D102
        n = rows.n_rows
        return np.full(n, self.level), np.empty((n, 0))

    def prior(self, rows: Any, features: FloatArray, *, whole: bool = False) -> FloatArray:  # noqa: D102
        n = len(features)
        return np.eye(n) if whole else np.ones(n)

    def prior_of_differences(self, first: EncodedBlock, second: EncodedBlock) -> FloatArray:  # noqa: D102
        return np.full(first.n_rows, 2.0)

    def explained(self, features: FloatArray, *, whole: bool = False) -> FloatArray:  # noqa: D102
        return np.zeros(len(features))
