"""Values of the functions of many candidates at once: distances once per view, one exponential for
all widths of a kernel.

A kernel of half the width is the fourth (rbf) or second power (exponential, laplacian) of the wider
one: it is squared instead of computed again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from corank.core.arrays import Array, FloatArray, Index
from corank.core.kernels import Kernel, RbfPoints, unit_rows
from corank.learners.average.coefficients import FittedCandidate
from corank.learners.average.encoding import IDENTITY, PERSON, WIDE_KERNELS
from corank.learners.average.similarity import (
    Distances,
    Encoded,
    Sight,
    Similarity,
    second_order_features,
)

MAX_DOUBLINGS = 8  # of an exponent by squaring: each doubles the relative error too


class Expansions:
    """The functions of fitted candidates, arranged by the kernels that they share.

    points : encoded points of the functions; unscored : encoded unscored rows on which views agree
    """

    def __init__(
        self, fitted: Sequence[FittedCandidate], points: Encoded, unscored: Encoded
    ) -> None:
        self._levels = np.asarray([candidate.level for candidate in fitted])
        self._unscored = unscored
        self._second_order = []
        of_points, of_unscored = [], []
        for number, candidate in enumerate(fitted):
            similarities, of_views = candidate.similarities, candidate.view_coefficients
            if candidate.means is not None:
                self._second_order.append((number, candidate))
                continue
            share = 1.0 if of_views is None else 1 / len(similarities) ** 2
            for similarity in similarities:
                of_points.append(
                    _Summand(number, similarity, share * similarity.scale * candidate.coefficients)
                )
            if of_views is not None:
                for similarity, coefficients in zip(similarities, of_views, strict=True):
                    of_unscored.append(
                        _Summand(number, similarity, similarity.scale * coefficients)
                    )
        self._parts = [*_parts(of_points, points), *_parts(of_unscored, unscored)]

    def values(self, encoded: Encoded) -> FloatArray:
        """The functions at encoded rows, levels included: (C, n)."""
        n = int(next(iter(encoded.values())).shape[0])
        values = np.repeat(self._levels[:, None], n, axis=1)
        for part in self._parts:
            part.add(encoded, values)
        distances = Distances(encoded, self._unscored)
        for number, candidate in self._second_order:
            assert candidate.means is not None
            assert candidate.view_coefficients is not None
            features = second_order_features(candidate.similarities, candidate.means, distances)
            values[number] += features @ candidate.view_coefficients[0]
        return values


@dataclass(frozen=True)
class _Summand:
    """Σ c_i k(x, x_i), a part of the function of a candidate.

    candidate : its number; coefficients : (r,), the scale of the kernel included
    """

    candidate: int
    similarity: Similarity
    coefficients: FloatArray

    @property
    def kernel(self) -> tuple[str, str]:
        """What summands share that are functions of the same products or distances."""
        return self.similarity.sight.name, self.similarity.kernel

    @property
    def is_alone(self) -> bool:
        """Whether its kernel is no product, and not that of persons."""
        return self.similarity.times is None and self.similarity.kernel != PERSON


def _parts(
    summands: Sequence[_Summand], points: Encoded
) -> Iterator[_Products | _Powers | _ItemEffects | _KernelProducts]:
    """Summands of the same kernel and columns together."""
    of_pairs = [summand for summand in summands if not summand.is_alone]
    if of_pairs:
        yield _KernelProducts(of_pairs, points)
    summands = [summand for summand in summands if summand.is_alone]
    for (_, kernel), group in groupby(
        sorted(summands, key=lambda s: s.kernel), key=lambda s: s.kernel
    ):
        if kernel in WIDE_KERNELS:
            yield from (_Powers(chain, points) for chain in _chains(list(group)))
        elif kernel == IDENTITY:
            yield _ItemEffects(list(group), points)
        else:
            yield _Products(list(group), points)


class _Products:
    """Functions of linear or cosine kernels, which are linear in the columns: x ↦ xᵀ directions."""

    def __init__(self, summands: Sequence[_Summand], points: Encoded) -> None:
        similarity = summands[0].similarity
        self._sight, self._unit = similarity.sight, similarity.kernel == "cosine"
        self._candidates = [summand.candidate for summand in summands]
        coefficients = np.stack([summand.coefficients for summand in summands], axis=1)
        self._directions = self._seen(points).T @ coefficients

    def _seen(self, encoded: Encoded) -> Array:
        rows = self._sight.rows(encoded)
        return unit_rows(rows) if self._unit else rows

    def add(self, encoded: Encoded, values: FloatArray) -> None:
        """Add the functions at encoded rows to the values of their candidates: (C, n)."""
        values[self._candidates] += (self._seen(encoded) @ self._directions).T


class _KernelProducts:
    """Functions of products of kernels, such as own deviations of persons."""

    def __init__(self, summands: Sequence[_Summand], points: Encoded) -> None:
        self._points = points
        self._groups: dict[tuple[object, ...], tuple[Similarity, list[_Summand]]] = {}
        for summand in summands:
            # the scale is that of the coefficients
            kernel = replace(summand.similarity, scale=1.0)
            key = tuple(
                (each.sight.name, each.kernel, each.gamma, each.scale) for each in kernel.factors
            )
            self._groups.setdefault(key, (kernel, []))[1].append(summand)

    def add(self, encoded: Encoded, values: FloatArray) -> None:
        """Add the functions at encoded rows to the values of their candidates: (C, n)."""
        distances = Distances(encoded, self._points)
        for kernel, summands in self._groups.values():
            cells = distances.kernel(kernel)
            for summand in summands:
                values[summand.candidate] += cells @ summand.coefficients


class _ItemEffects:
    """Functions with one effect per item, found by its code."""

    def __init__(self, summands: Sequence[_Summand], points: Encoded) -> None:
        self._sight = summands[0].similarity.sight
        self._candidates = [summand.candidate for summand in summands]
        codes, places = np.unique(self._sight.rows(points), axis=0, return_inverse=True)
        self._places = {tuple(code): place for place, code in enumerate(codes.tolist())}
        # the last one is that of other items
        self._effects = np.zeros((len(summands), len(codes) + 1))
        for effects, summand in zip(self._effects, summands, strict=True):
            np.add.at(effects, np.ravel(places), summand.coefficients)

    def add(self, encoded: Encoded, values: FloatArray) -> None:
        """Add the functions at encoded rows to the values of their candidates: (C, n)."""
        codes = self._sight.rows(encoded)
        places = [self._places.get(tuple(code), -1) for code in codes.tolist()]
        values[self._candidates] += self._effects[:, np.asarray(places, dtype=np.int64)]


class _Powers:
    """Functions of kernels with a width, of the same columns, that are powers of the widest kernel.

    chain : summands, with the gamma of the first times 1, 2, 4, ... up to 2^MAX_DOUBLINGS in
        ascending order
    """

    def __init__(self, chain: Sequence[_Summand], points: Encoded) -> None:
        widest = chain[0].similarity
        self._sight = _without_zeros(widest.sight)
        self._points = self._sight.rows(points)
        self._kernel = Kernel(widest.kernel, widest.gamma)
        dense_rbf = self._kernel.is_plain_rbf and isinstance(self._points, np.ndarray)
        self._prepared = RbfPoints.of(self._kernel, self._points) if dense_rbf else None
        self._steps = []  # squarings, then candidates and their coefficients (r, t)
        gamma = widest.gamma
        for next_gamma, group in groupby(chain, key=lambda s: s.similarity.gamma):
            same = list(group)
            coefficients = np.stack([summand.coefficients for summand in same], axis=1)
            squarings = round(math.log2(next_gamma / gamma))
            self._steps.append((squarings, [summand.candidate for summand in same], coefficients))
            gamma = next_gamma

    def add(self, encoded: Encoded, values: FloatArray) -> None:
        """Add the functions at encoded rows to the values of their candidates: (C, n)."""
        rows = self._sight.rows(encoded)
        kernel = np.empty((rows.shape[0], self._points.shape[0]))
        self._kernel.write(rows, self._points, kernel, self._prepared)
        for squarings, candidates, coefficients in self._steps:
            for _ in range(squarings):
                np.multiply(kernel, kernel, out=kernel)
            values[candidates] += (kernel @ coefficients).T


def _chains(summands: Sequence[_Summand]) -> Iterator[list[_Summand]]:
    """Summands whose gammas are powers of two times the smallest, in ascending order."""
    left = sorted(summands, key=lambda summand: summand.similarity.gamma)
    while left:
        gamma = left[0].similarity.gamma
        chained = [_is_doubled(summand.similarity.gamma / gamma) for summand in left]
        yield [summand for summand, is_power in zip(left, chained, strict=True) if is_power]
        left = [summand for summand, is_power in zip(left, chained, strict=True) if not is_power]


def _is_doubled(ratio: float) -> bool:
    """Whether a ratio is 1, 2, 4, ... up to 2^MAX_DOUBLINGS."""
    mantissa, exponent = math.frexp(ratio)
    return mantissa == 0.5 and exponent - 1 <= MAX_DOUBLINGS


def _without_zeros(sight: Sight) -> Sight:
    """The sight without columns that it multiplies by zero."""
    if sight.factors is None or sight.factors.all():
        return sight
    kept: Index = np.flatnonzero(sight.factors)
    columns = kept if sight.columns is None else sight.columns[kept]
    return replace(sight, columns=columns, factors=sight.factors[kept])
