"""The functions that span the hypothesis: kernels at chosen rows, or the features themselves.

`choose_rows` says which rows; a `Basis` turns any rows into features Φ(x) and knows its whitening.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from corank._arrays import (
    Array,
    device,
    eigh,
    float64,
    is_sparse,
    like,
    namespace,
    solve_lower,
    take,
    to_numpy,
    writable,
    write_product,
)
from corank.kernels import Kernel, RbfPoints, checked, rows_of
from corank.model_files.packing import storable
from corank.sampling import luck_of, luckiest

Selection: TypeAlias = Literal["pivoted", "random"]
BasisSpec: TypeAlias = Literal["auto", "all", "scored", "features"] | int | Sequence[int] | Any

AUTO_LIMIT, AUTO_SIZE = 5_000, 1_000
EIGENVALUE_CUT = 1e-10  # smaller eigenvalues of the basis Gram, relative to the largest, are dropped
MAX_REJECTIONS = 100
WHITEN_INSIDE = 1e6  # condition of the basis Gram above which features are whitened before they are summed


class BasisNotice(UserWarning):
    """Said once when ``basis="auto"`` takes a subset of the rows."""


@dataclass(frozen=True)
class KernelBasis:
    """Φ(x) = (k(x, z_1), …, k(x, z_r)) for basis points z.

    points : (r, d) rows, or column numbers (r,) of a precomputed kernel
    own_gram : (r, r) kernel values between the points, needed for a precomputed kernel only
    own_whitening : the whitening that sums were gathered with; eigenvectors are not unique, so it is not found again
    """

    kernel: Kernel
    points: Array
    own_gram: Array | None = None
    own_whitening: Whitening | None = None

    @property
    def size(self) -> int:
        """Number of basis functions."""
        return int(self.points.shape[0])

    def features(self, X: Array) -> Array:
        """Φ(X): (n, r). O(n r d)."""
        return self.kernel.block(X, self.points)

    @cached_property
    def gram(self) -> Array:
        """Kernel values between the basis points: (r, r)."""
        return checked(self.kernel.block(self.points, self.points) if self.own_gram is None else self.own_gram)

    @cached_property
    def whitening(self) -> Whitening:
        """The map to features whose norm is the function's: Φ U w^-½. O(r³)."""
        if self.own_whitening is not None:
            return self.own_whitening
        values, vectors = eigh(self.gram, size=0.0)
        keep = to_numpy(values) > EIGENVALUE_CUT * float(values[-1])
        first = int(np.argmax(keep)) if keep.any() else len(keep) - 1
        xp = namespace(values)
        kept = xp.where(values[first:] > 0, values[first:], xp.ones_like(values[first:]))
        return Whitening(vectors[:, first:] / xp.sqrt(kept)[None, :], condition=float(values[-1]) / float(kept[0]))

    def write(self, X: Array, out: Array) -> None:
        """Φ(X) into a writable array (n, r)."""
        self.kernel.write(X, self.points, out, self._rbf_points)

    @cached_property
    def _rbf_points(self) -> RbfPoints | None:
        dense = writable(self.points)
        return RbfPoints.of(self.kernel, self.points) if dense and self.kernel.is_plain_rbf else None


@dataclass(frozen=True)
class FeatureBasis:
    """Φ(x) = x: the linear kernel in the primal. The norm of a function is that of its weights."""

    n_columns: int
    reference: Array

    @property
    def size(self) -> int:
        """Number of columns."""
        return self.n_columns

    def features(self, X: Array) -> Array:
        """X itself, as float64; CSR is made dense, so hand over blocks."""
        return X.toarray().astype(np.float64, copy=False) if is_sparse(X) else float64(X)

    def write(self, X: Array, out: Array) -> None:
        """X into a writable array."""
        out[...] = X.toarray() if is_sparse(X) else X

    @cached_property
    def whitening(self) -> Whitening:
        """None needed."""
        xp = namespace(self.reference)
        return Whitening(xp.eye(self.n_columns, dtype=xp.float64, device=device(self.reference)), 1.0, trivial=True)


Basis: TypeAlias = KernelBasis | FeatureBasis


@storable("Whitening")
@dataclass(frozen=True)
class Whitening:
    """Φ W has the identity as its Gram: coefficients c of Φ W are coefficients W c of Φ.

    matrix : (r, r') with r' <= r after small eigenvalues were dropped
    """

    matrix: Array
    condition: float
    trivial: bool = False

    @property
    def inside(self) -> bool:
        """Whether the features must be whitened before their products are summed (design.md)."""
        return self.condition > WHITEN_INSIDE and not self.trivial


@dataclass(frozen=True)
class FeatureMap:
    """A basis as the one-pass statistics use it: whitened where that must happen before products are summed."""

    basis: Basis

    @property
    def whitened(self) -> bool:
        """Whether whitening is done here; else it is done on the sums."""
        return self.basis.whitening.inside

    @property
    def size(self) -> int:
        """Number of features."""
        return int(self.basis.whitening.matrix.shape[1]) if self.whitened else self.basis.size

    def __call__(self, X: Array) -> Array:
        """(n, size)."""
        phi = self.basis.features(X)
        return phi @ self.basis.whitening.matrix if self.whitened else phi

    def write(self, X: Array, out: Array) -> None:
        """The same into a writable array."""
        if self.whitened:
            write_product(self.basis.features(X), self.basis.whitening.matrix, out)
        else:
            self.basis.write(X, out)


def resolve_basis(basis: BasisSpec, n_candidates: int, limit: int = AUTO_LIMIT, size: int = AUTO_SIZE) -> BasisSpec:
    """What `basis="auto"` means for that many rows: all up to a limit, else some; everything else unchanged."""
    if isinstance(basis, str) and basis == "auto":
        return "all" if n_candidates <= limit else size
    return basis


def check_basis(basis: BasisSpec, n_rows: int, n_candidates: int) -> BasisSpec:
    """Refuse a basis that cannot be had; row indices come back as an int64 array."""
    if isinstance(basis, str):
        if basis not in ("auto", "all", "scored", "features"):
            raise ValueError(
                f"basis {basis!r} is not known; use 'auto', 'all', 'scored', 'features', a number or row indices."
            )
        return basis
    if isinstance(basis, int | np.integer) and not isinstance(basis, bool):
        if not 1 <= basis <= n_candidates:
            raise ValueError(
                f"basis = {basis} must lie between 1 and the number of scored rows (n_samples = {n_candidates})."
            )
        return int(basis)
    rows = to_numpy(basis)
    if rows.ndim != 1 or rows.size == 0 or rows.dtype.kind not in "iu":
        raise ValueError(
            "basis must be 'auto', 'all', 'scored', 'features', a number or a list of row indices; got "
            f"an array of shape {rows.shape} and type {rows.dtype}."
        )
    if rows.min() < 0 or rows.max() >= n_rows:
        wrong = int(rows.min() if rows.min() < 0 else rows.max())
        raise ValueError(f"basis holds row {wrong}, but X has rows 0 to {n_rows - 1}.")
    if len(np.unique(rows)) != len(rows):
        raise ValueError("basis holds the same row index twice; list every row once.")
    return rows.astype(np.int64)


def candidate_rows(numbers: np.ndarray[Any, Any], size: int, seed: int) -> np.ndarray[Any, Any]:
    """The positions of at most max(20·size, 10,000) rows, sorted: where there are more, those whose numbers are drawn."""
    limit = candidate_limit(size)
    return np.arange(len(numbers)) if len(numbers) <= limit else luckiest(luck_of(numbers, seed), limit)


def candidate_limit(size: int) -> int:
    """How many rows a basis of that size is chosen from."""
    return max(20 * size, 10_000)


def make_basis(
    spec: BasisSpec,
    kernel: Kernel,
    features: Array,
    index: np.ndarray[Any, Any],
    everything: Array,
    selection: Selection,
    seed: int,
) -> tuple[Basis, np.ndarray[Any, Any] | None]:
    """The basis and its row numbers in what the user handed over (None for the features).

    Parameters
    ----------
    spec : checked and resolved
    features : (n, d) rows that take part, `index` (n,) their row numbers in `everything`
    """
    if isinstance(spec, str) and spec == "features":
        return FeatureBasis(int(features.shape[1]), np.empty(0) if is_sparse(features) else features[:1, :1]), None
    if isinstance(spec, str):
        rows, points = index, rows_of(kernel, features, index) if kernel.precomputed else features
    elif isinstance(spec, int):
        rng = np.random.default_rng(seed)
        candidates = candidate_rows(index, spec, seed)
        pool = take(features, candidates)
        if kernel.precomputed:
            pool = kernel.block(pool, rows_of(kernel, features, index[candidates]))
        rows = index[candidates[choose_rows(kernel, pool, spec, selection, rng)]]
        points = rows_of(kernel, everything, rows)
    else:
        rows = np.asarray(spec)
        points = rows_of(kernel, everything, rows)
    own_gram = kernel.block(take(everything, rows), points) if kernel.precomputed else None
    return KernelBasis(kernel, points, own_gram), rows


def choose_rows(
    kernel: Kernel, X: Array, size: int, selection: Selection, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Choose `size` of the rows of X (candidates) as basis: sorted row numbers, fewer where the rows are dependent."""
    if selection == "random":
        return np.sort(rng.choice(X.shape[0], size=size, replace=False))
    if selection != "pivoted":
        raise ValueError(f"basis_selection {selection!r} is not known; use 'pivoted' or 'random'.")
    return np.sort(pivoted_rows(kernel, X, size, rng))


def pivoted_rows(kernel: Kernel, X: Array, size: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Randomly pivoted Cholesky: rows drawn in proportion to what the rows before them leave unexplained.

    Proposals are drawn in blocks and thinned by rejection, so that the result has the distribution of the one-by-one
    algorithm while the work is matrix products (Chen, Epperly, Tropp, Webber 2023; Epperly, Tropp, Webber 2024).
    O(n size²) for n candidates, n·size numbers of memory.
    """
    xp = namespace(X)
    diagonal = to_numpy(kernel.diagonal(X)).astype(np.float64)
    n, left = len(diagonal), diagonal.copy()
    floor = EIGENVALUE_CUT * float(diagonal.max(initial=0.0))
    factor = xp.zeros((n, size), dtype=xp.float64, device=device(X))  # K ≈ factor factorᵀ, filled from the left
    chosen: list[int] = []
    rejections = 0
    while len(chosen) < size and left.max() > floor:
        k = len(chosen)
        block = max(1, min(size - k, max(10, size // 10)))
        cumulated = np.cumsum(left)
        proposed = np.searchsorted(cumulated, rng.random(block) * cumulated[-1], side="right")
        proposed = np.minimum(proposed, n - 1)
        accepted, lower = _thin(_residual_block(kernel, X, factor[:, :k], proposed), proposed, left, rng)
        if not accepted:
            rejections += 1
            if rejections == MAX_REJECTIONS:  # the diagonal and the values of a kernel contradict each other
                break
            continue
        rows = proposed[accepted]
        columns = kernel.block(X, rows_of(kernel, X, rows)) - factor[:, :k] @ take(factor, rows)[:, :k].T
        new = solve_lower(like(lower, columns), columns.T).T
        factor[:, k : k + len(rows)] = new
        left = np.maximum(left - to_numpy(xp.sum(new * new, axis=1)), 0.0)
        left[rows] = 0.0
        left[left <= floor] = 0.0
        chosen.extend(int(row) for row in rows)
    if not chosen:  # a kernel that is zero on every candidate
        chosen = [0]
    return np.asarray(chosen, dtype=np.int64)


def _residual_block(kernel: Kernel, X: Array, factor: Array, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    points = take(X, rows)
    part = take(factor, rows)
    return to_numpy(kernel.block(points, rows_of(kernel, X, rows)) - part @ part.T)


def _thin(
    residual: np.ndarray[Any, Any], proposed: np.ndarray[Any, Any], left: np.ndarray[Any, Any], rng: np.random.Generator
) -> tuple[list[int], np.ndarray[Any, Any]]:
    """Accept each proposal with the share of its diagonal that those accepted before it leave: positions, Cholesky."""
    rest, columns = residual.copy(), []
    accepted: list[int] = []
    draws = rng.random(len(proposed)) * left[proposed]
    for i in range(len(proposed)):
        if rest[i, i] > max(draws[i], 1e-12 * left[proposed[i]]):
            column = rest[:, i] / np.sqrt(rest[i, i])
            rest -= np.outer(column, column)
            columns.append(column)
            accepted.append(i)
    lower = np.stack(columns, axis=1)[accepted] if accepted else np.zeros((0, 0))
    return accepted, np.tril(lower)
