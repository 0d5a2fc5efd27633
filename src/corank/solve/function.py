"""The fitted function: a level and a sum of expansions, each Σ c_i k(x, z_i) or Σ c_i x_i.

Predictions are made in blocks: memory does not grow with the rows beyond the result.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    block_entries,
    dtype_name,
    float64,
    in_order,
    is_foreign,
    is_sparse,
    like,
    namespace,
    runs_of_rows,
    sum_of,
    take,
    to_numpy,
)
from corank.core.basis import Basis, FeatureBasis, KernelBasis, Whitening
from corank.core.kernels import Kernel, column_shares
from corank.core.sums import BLOCK_ENTRIES, WRITE_ROWS
from corank.core.views import BlockKernel, PairGrid, select
from corank.solve.systems import ViewData


@dataclass(frozen=True)
class Span:
    """What a function is a sum of: kernels at points, or the columns of X.

    kernel : with its width; linear for columns
    points : (r, d) as in `KernelBasis`, None for the columns themselves
    columns : of X that are seen, None for all
    rows : (r,) row numbers of the points in the X of `fit`, None where they are no rows of it
    penalty : weight of the norm
    whitening : under which sums were gathered, None where there are none
    """

    kernel: Kernel
    points: Array | None
    columns: Index | None = None
    rows: Index | None = None
    penalty: float = 1.0
    whitening: Whitening | None = None

    @classmethod
    def of(cls, view: ViewData, *, whitened: bool = False) -> Span:
        """That of a view of the data; `whitened` keeps the whitening of its sums."""
        basis = view.basis
        if isinstance(basis, FeatureBasis):
            return cls(basis.kernel, None, view.columns, view.rows, view.penalty)
        whitening = basis.whitening if whitened else None
        return cls(basis.kernel, basis.points, view.columns, view.rows, view.penalty, whitening)

    def is_like(self, other: Span) -> bool:
        """Whether it is the same kernel at the same rows of X."""
        return self.kernel is other.kernel and np.array_equal(self.rows, other.rows)  # type: ignore[arg-type]

    @property
    def of_columns(self) -> bool:
        """Whether it is the columns of X themselves."""
        return self.points is None

    @cached_property
    def grid(self) -> PairGrid | None:
        """The grid of pairs that its points are to a product of two kernels, None where they are
        none.
        """
        return self.kernel.grid(self.points) if isinstance(self.kernel, BlockKernel) else None

    @property
    def column_shares(self) -> FloatArray | None:
        """How much of the distance between points every column makes by its width: (d,). None where
        columns have no widths.
        """
        if self.kernel.scales is None:
            return None
        return column_shares(self.kernel.seen(self.points), self.kernel.width_power)

    def basis(self, size: int, reference: Array) -> Basis:
        """Its `size` functions in the library and on the device of a reference."""
        if self.points is None:
            return FeatureBasis(size, reference)
        return KernelBasis(self.kernel, self.points_beside(reference), own_whitening=self.whitening)

    def points_beside(self, reference: Array) -> Array:
        """The points in the library and on the device of a reference; CSR stays CSR."""
        points = self.points
        if not is_sparse(points):
            return like(points, reference, dtype_name(points))
        if is_foreign(reference):
            raise ValueError(
                "the model was fitted on a CSR matrix; X must be a NumPy array or CSR."
            )
        return points

    def seen(self, features: Array) -> Array:
        """The columns of X that it sees."""
        return select(features, self.columns)

    def features(self, X: Array) -> Array:
        """k(x, z_i), or x_i, for the rows of X: (n, r). O(n r d)."""
        seen = self.seen(X)
        return self.basis(seen.shape[1], X).features(seen)

    def values(self, X: Array, coefficients: Array) -> Array:
        """Σ c_i k(x, z_i) for the rows of X: (n,), or (n, p) for coefficients (r, p)."""
        kernel, seen = self.kernel, self.seen(X)
        if isinstance(kernel, BlockKernel) and self.grid and isinstance(X, np.ndarray):
            columns = coefficients.reshape(len(coefficients), -1).T
            values = [kernel.values_on_grid(seen, self.grid, own) for own in columns]
            return values[0] if coefficients.ndim == 1 else np.stack(values, axis=1)
        return predict_in_blocks(self.basis(coefficients.shape[0], X), coefficients, seen)

    def slopes(self, coefficients: Array, n_columns: int) -> Array | None:
        """Slopes along the columns that it sees (k,), of `n_columns` of X; None where it is not
        linear.
        """
        if self.points is None:
            return coefficients
        if self.kernel.precomputed:
            slopes = np.zeros(n_columns if self.columns is None else len(self.columns))
            slopes[to_numpy(self.points)] = to_numpy(coefficients)
            return slopes
        if self.kernel.name != "linear":
            return None
        scaled = self.kernel.seen(float64(self.points)).T @ coefficients
        return self.kernel.seen(scaled[None, :])[0]


@dataclass(frozen=True)
class Expansion:
    """One function on a span, and its share in the sum.

    coefficients : (r,), or (r, p) for p functions at once
    """

    span: Span
    coefficients: Array
    share: float = 1.0

    def values(self, X: Array) -> Array:
        """The function, whatever its share, for the rows of X: (n,) float64, where X is or, for
        CSR, in NumPy. O(n r d).
        """
        if self.coefficients.shape[0] == 0:
            return like(np.zeros((X.shape[0], *self.coefficients.shape[1:])), X)
        return self.span.values(X, like(self.coefficients, X))

    def features(self, X: Array) -> Array:
        """Values of the functions that are summed, for the rows of X: (n, r)."""
        if self.coefficients.shape[0] == 0:
            return np.zeros((X.shape[0], 0))
        return self.span.features(X)

    def slopes(self, n_columns: int) -> Array | None:
        """Its slopes along the columns that it sees; see `Span.slopes`."""
        return self.span.slopes(self.coefficients, n_columns)


@dataclass(frozen=True)
class Function:
    """A level and a sum of expansions: one, one per view, or one per kernel of a mixture."""

    parts: tuple[Expansion, ...]
    level: Any = 0.0  # (t,) for several columns of scores

    @classmethod
    def mean(cls, spans: Sequence[Span], coefficients: Sequence[Array], level: float) -> Function:
        """The mean of one expansion per span."""
        share = 1 / len(spans)
        pairs = zip(spans, coefficients, strict=True)
        return cls(tuple(Expansion(span, values, share) for span, values in pairs), level)

    @classmethod
    def of_targets(cls, functions: Sequence[Function]) -> Function:
        """Functions of one part as one with values (n, t): those on one span share a part, which has
        zeros for the others.
        """
        parts: list[Expansion] = []
        singles = [function.parts[0] for function in functions]
        for single in singles:
            if any(part.span.is_like(single.span) for part in parts):
                continue
            columns = [
                own.coefficients if own.span.is_like(single.span) else 0 * single.coefficients
                for own in singles
            ]
            parts.append(Expansion(single.span, namespace(columns[0]).stack(columns, axis=1)))
        return cls(tuple(parts), np.asarray([function.level for function in functions]))

    def of_target(self, number: int) -> Function:
        """One of the functions that `of_targets` put together."""
        singles = [replace(part, coefficients=part.coefficients[:, number]) for part in self.parts]
        used = [single for single in singles if to_numpy(single.coefficients).any()]
        return Function(tuple(used or singles)[:1], float(self.level[number]))

    def with_coefficients(self, coefficients: Sequence[Array]) -> Function:
        """The function with other coefficients, one array per part."""
        pairs = zip(self.parts, coefficients, strict=True)
        parts = tuple(replace(part, coefficients=values) for part, values in pairs)
        return replace(self, parts=parts)

    def part_values(self, X: Array) -> list[Array]:
        """The values of every part for the rows of X, whatever its share, without the level."""
        return [part.values(X) for part in self.parts]

    def values(self, X: Array) -> Array:
        """The function for the rows of X: (n,)."""
        values = self.part_values(X)
        if len(values) > 1:
            values = [part.share * own for part, own in zip(self.parts, values, strict=True)]
        level = self.level if isinstance(self.level, float) else like(self.level, values[0])
        return sum_of(values) + level


def predict_in_blocks(basis: Basis, coefficients: Array, X: Array) -> Array:
    """Φ(X) c for the rows of X (n, d), dense or CSR: (n,) float64. O(n r d)."""
    n = X.shape[0]
    if isinstance(basis, FeatureBasis) and (is_sparse(X) or dtype_name(X) == "float64"):
        return X @ coefficients  # other precisions would be copied whole
    step = max(WRITE_ROWS, BLOCK_ENTRIES // 8 // basis.size)
    if not isinstance(X, np.ndarray):
        step = max(64, block_entries(coefficients, BLOCK_ENTRIES) // basis.size)
    workspace = threading.local()

    def values(run: slice) -> Any:
        block = take(X, run)
        if not isinstance(X, np.ndarray):
            return basis.features(block) @ coefficients
        phi = getattr(workspace, "phi", None)
        if phi is None:
            phi = workspace.phi = np.empty((min(step, n), basis.size))
        basis.write(block, phi[: len(block)])
        return phi[: len(block)] @ coefficients

    return namespace(coefficients).concat(
        list(in_order(values, runs_of_rows(n, step), coefficients))
    )
