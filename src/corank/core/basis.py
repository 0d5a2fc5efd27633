"""Bases: the functions Φ that span a hypothesis, kernels at chosen rows or the features themselves,
and their whitening.

`make_basis` makes the basis of rows in memory; `choose_rows` chooses among candidates, by random
pivoted Cholesky. Symbols: r basis functions, W the whitening, K the kernel values between
candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np

from corank.core.arrays import (
    Array,
    NumpyArray,
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
    zeros_beside,
)
from corank.core.kernels import Kernel, RbfPoints, basis_points, finite_values, is_named
from corank.core.messages import warn_user
from corank.core.sampling import smallest, uniform_draws
from corank.core.storable import floats, storable

Selection: TypeAlias = Literal["pivoted", "random"]
BasisSpec: TypeAlias = Literal["auto", "all", "scored", "features"] | int | Sequence[int] | Any

AUTO_LIMIT, AUTO_SIZE = 5_000, 1_000  # rows up to which basis="auto" takes all; basis rows above
# smaller eigenvalues of the basis Gram, relative to the largest, are dropped
EIGENVALUE_CUT = 1e-10
# blocks of proposals without an accepted one, after which the diagonal contradicts the kernel
MAX_REJECTIONS = 100
MIN_ACCEPTED_SHARE = 1e-12  # of the diagonal: what rounding leaves of a row that is explained
# condition of the basis Gram above which features are whitened before they are summed
WHITEN_INSIDE = 1e6
CANDIDATES_PER_BASIS_ROW, MIN_CANDIDATES = 20, 10_000


class BasisNotice(UserWarning):
    """Warning, given once, that ``basis="auto"`` takes a subset of the rows."""


@dataclass(frozen=True)
class KernelBasis:
    """Φ(x) = (k(x, z_1), …, k(x, z_r)) for basis points z.

    points : (r, d) rows, or column numbers (r,) of a precomputed kernel
    own_gram : (r, r) kernel values between the points, given for a precomputed kernel only
    own_whitening : the whitening that sums were gathered with: eigenvectors are not unique, so it
        must not be computed again
    grid : that the points are, and whether its rows are queries, where that is of use
    """

    kernel: Kernel
    points: Array
    own_gram: Array | None = None
    own_whitening: Whitening | None = None
    grid: Any = None

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
        gram = self.own_gram
        return finite_values(self.kernel.block(self.points, self.points) if gram is None else gram)

    @cached_property
    def whitening(self) -> Whitening:
        """Φ W = Φ U λ^-½ for the eigenvalues λ and eigenvectors U of the Gram: coefficients have
        the norm of f. O(r³).
        """
        if self.own_whitening is not None:
            return self.own_whitening
        values, vectors = eigh(self.gram, size=0.0)
        keep = to_numpy(values) > EIGENVALUE_CUT * float(values[-1])
        first = int(np.argmax(keep)) if keep.any() else len(keep) - 1
        xp, kept = namespace(values), values[first:]
        kept = xp.where(kept > 0, kept, xp.ones_like(kept))
        roots = xp.sqrt(kept)[None, :]
        return Whitening(vectors[:, first:] / roots, float(values[-1]) / float(kept[0]))

    def write(self, X: Array, out: Array) -> None:
        """Write Φ(X) into a writable array (n, r)."""
        self.kernel.write(X, self.points, out, self._rbf_points)

    @cached_property
    def _rbf_points(self) -> RbfPoints | None:
        fits = self.kernel.is_plain_rbf and writable(self.points)
        return RbfPoints.of(self.kernel, self.points) if fits else None


@dataclass(frozen=True)
class FeatureBasis:
    """Φ(x) = x: the linear kernel in the primal. The norm of a function is the norm of its weights."""

    n_columns: int
    reference: Array
    kernel: ClassVar[Kernel] = Kernel("linear")
    grid: ClassVar[None] = None

    @property
    def size(self) -> int:
        """Number of columns."""
        return self.n_columns

    def features(self, X: Array) -> Array:
        """X as float64. CSR becomes dense, so hand over blocks of rows."""
        return X.toarray().astype(np.float64, copy=False) if is_sparse(X) else float64(X)

    def write(self, X: Array, out: Array) -> None:
        """Write X into a writable array (n, d)."""
        out[...] = X.toarray() if is_sparse(X) else X

    @cached_property
    def whitening(self) -> Whitening:
        """The identity: features need no whitening."""
        return Whitening(like(np.eye(self.n_columns), self.reference), 1.0, trivial=True)


Basis: TypeAlias = KernelBasis | FeatureBasis


@storable("Whitening")
@dataclass(frozen=True)
class Whitening:
    """A matrix W for which Φ W has the identity as its Gram: coefficients c of Φ W are coefficients
    W c of Φ.

    matrix : W (r, r'), r' <= r as small eigenvalues are dropped; condition : of the Gram; trivial :
        W is the identity
    """

    matrix: Annotated[Array, floats("r", "_")]
    condition: float
    trivial: bool = False

    @property
    def inside(self) -> bool:
        """Whether features must be whitened before their products are summed: the Gram is too badly
        conditioned.
        """
        return self.condition > WHITEN_INSIDE and not self.trivial


@dataclass(frozen=True)
class FeatureMap:
    """The features of a basis that one-pass sums use: whitened where that must happen before
    products are summed.
    """

    basis: Basis

    @property
    def whitened(self) -> bool:
        """Whether features are whitened here; else the sums are."""
        return self.basis.whitening.inside

    @property
    def size(self) -> int:
        """Number of features."""
        return int(self.basis.whitening.matrix.shape[1]) if self.whitened else self.basis.size

    def __call__(self, X: Array) -> Array:
        """Features of the rows X: (n, size)."""
        phi = self.basis.features(X)
        return phi @ self.basis.whitening.matrix if self.whitened else phi

    def write(self, X: Array, out: Array) -> None:
        """Write the features of X into a writable array (n, size)."""
        if self.whitened:
            write_product(self.basis.features(X), self.basis.whitening.matrix, out)
        else:
            self.basis.write(X, out)


def read_basis(
    spec: Any,
    kernel: Any,
    n_rows: int,
    n_candidates: int,
    auto: tuple[int, int],
    view: Any = None,
    n_apart: int = 0,
) -> BasisSpec:
    """The parameter `basis`, checked against the rows; "auto" becomes "all", or a number of rows.

    Parameters
    ----------
    kernel : its name; n_rows : of X, which row indices point at; n_candidates : that may serve
    auto : rows up to which "auto" takes all of them; how many beyond
    view : its name for messages, None where there is one view
    n_apart : rows of `unscored=`, which row indices count behind those of X
    """
    resolved = check_basis(spec, n_rows, n_candidates, n_apart)
    if is_named(resolved, "auto"):
        limit, size = auto
        resolved = "all" if n_candidates <= limit else size
        if isinstance(resolved, int):
            whose = f" of {view}" if view else ""
            warn_user(
                f"basis='auto' takes {resolved} of {n_candidates} rows as basis{whose}. Say"
                f" basis={resolved}, another number or 'all' to choose yourself.",
                BasisNotice,
            )
    if is_named(resolved, "features") and kernel != "linear":
        where = f" in {view}" if view else ""
        raise ValueError(f"basis='features' needs kernel='linear', got kernel={kernel!r}{where}.")
    return resolved


def check_basis(basis: BasisSpec, n_rows: int, n_candidates: int, n_apart: int = 0) -> BasisSpec:
    """Refuse a basis that does not exist or has wrong rows; row indices come back as an int64
    array.
    """
    if isinstance(basis, str):
        if basis not in ("auto", "all", "scored", "features"):
            raise ValueError(
                f"basis {basis!r} is not known; use 'auto', 'all', 'scored', 'features', a number"
                " or row indices."
            )
        return basis
    if isinstance(basis, int | np.integer) and not isinstance(basis, bool):
        if not 1 <= basis <= n_candidates:
            raise ValueError(
                f"basis = {basis} must lie between 1 and the number of scored rows (n_samples ="
                f" {n_candidates})."
            )
        return int(basis)
    rows = to_numpy(basis)
    if rows.ndim != 1 or rows.size == 0 or rows.dtype.kind not in "iu":
        raise ValueError(
            "basis must be 'auto', 'all', 'scored', 'features', a number or a list of row indices;"
            f" got an array of shape {rows.shape} and type {rows.dtype}."
        )
    return checked_rows(rows, n_rows, "basis", n_apart)


def checked_rows(rows: NumpyArray, n_rows: int, name: str, n_apart: int = 0) -> NumpyArray:
    """Row numbers of X, then of `unscored=`, each at most once."""
    end = n_rows + n_apart
    if rows.min() < 0 or rows.max() >= end:
        wrong = int(rows.min() if rows.min() < 0 else rows.max())
        have = "X and unscored= have" if n_apart else "X has"
        raise ValueError(f"{name} holds row {wrong}, but {have} rows 0 to {end - 1}.")
    if len(np.unique(rows)) != len(rows):
        raise ValueError(f"{name} holds the same row index twice; list every row once.")
    return rows.astype(np.int64)


def candidate_rows(numbers: NumpyArray, spec: BasisSpec, seed: int) -> NumpyArray:
    """Positions, sorted, of the rows from which a basis is chosen: of more than `candidate_limit` a
    random sample.
    """
    limit = candidate_limit(spec, len(numbers))
    if len(numbers) <= limit:
        return np.arange(len(numbers))
    return smallest(uniform_draws(numbers, seed), limit)


def candidate_limit(spec: BasisSpec, n: int = 0) -> int:
    """The number of rows from which a basis is chosen out of n rows, at most."""
    if isinstance(spec, str):
        size = AUTO_SIZE if spec == "auto" else n
    else:
        size = int(spec) if isinstance(spec, int | np.integer) else int(np.size(spec))
    return max(CANDIDATES_PER_BASIS_ROW * size, MIN_CANDIDATES)


def basis_candidates(
    spec: BasisSpec, features: Array, index: NumpyArray, everything: Array, seed: int
) -> tuple[Array, NumpyArray]:
    """The rows that a basis is made of, or chosen from, and their row numbers.

    Parameters
    ----------
    spec : a checked and resolved parameter `basis`
    features : (n, d) rows that may serve, `index` (n,) their row numbers in `everything`
    """
    if not isinstance(spec, int | str):
        rows = np.asarray(spec)
        return take(everything, rows), rows
    chosen = candidate_rows(index, spec, seed)
    if len(chosen) == len(index):  # nothing is copied
        return features, index
    return take(features, chosen), index[chosen]


def make_basis(
    spec: BasisSpec,
    kernel: Kernel,
    features: Array,
    index: NumpyArray,
    selection: Selection,
    seed: int | Sequence[int],
) -> tuple[Basis, NumpyArray | None]:
    """The basis of rows in memory, and its row numbers (None for the features).

    Parameters
    ----------
    spec : a checked and resolved parameter `basis`
    features : (n, d) the rows that it is made of, or for a number those that it is chosen from;
        `index` (n,) their row numbers
    """
    if is_named(spec, "features"):
        reference = np.empty(0) if is_sparse(features) else features[:1, :1]
        return FeatureBasis(features.shape[1], reference), None
    if isinstance(spec, int):
        pool = features
        if kernel.precomputed:
            pool = kernel.block(features, basis_points(kernel, features, index))
        rng = np.random.default_rng(seed)
        chosen = choose_rows(kernel, pool, min(spec, len(index)), selection, rng)
        features, index = take(features, chosen), index[chosen]
    if not kernel.precomputed:
        return KernelBasis(kernel, features), index
    points = basis_points(kernel, features, index)
    return KernelBasis(kernel, points, kernel.block(features, points)), index


def choose_rows(
    kernel: Kernel, X: Array, size: int, selection: Selection, rng: np.random.Generator
) -> NumpyArray:
    """Sorted numbers of `size` rows of X, the candidates, chosen as basis; fewer where rows are
    dependent.
    """
    if selection == "random":
        return np.sort(rng.choice(X.shape[0], size=size, replace=False))
    if selection != "pivoted":
        raise ValueError(f"basis_selection {selection!r} is not known; use 'pivoted' or 'random'.")
    return np.sort(pivoted_rows(kernel, X, size, rng))


def pivoted_rows(kernel: Kernel, X: Array, size: int, rng: np.random.Generator) -> NumpyArray:
    """Randomly pivoted Cholesky: rows are drawn in proportion to what the rows before them leave
    unexplained.

    Proposals are drawn in blocks and thinned by rejection, so that the result has the distribution
    of the one-by-one algorithm while the work is matrix products [Chen2025] [Epperly2024]. O(n
    size²) for n candidates, n·size numbers of memory.
    """
    xp = namespace(X)
    diagonal = to_numpy(kernel.diagonal(X)).astype(np.float64)
    n, unexplained = len(diagonal), diagonal.copy()
    floor = EIGENVALUE_CUT * float(diagonal.max(initial=0.0))
    factor = zeros_beside((n, size), X)  # K ≈ factor factorᵀ, filled from the left
    chosen: list[int] = []
    rejections = 0
    while len(chosen) < size and unexplained.max() > floor:
        k = len(chosen)
        n_proposed = max(1, min(size - k, max(10, size // 10)))
        cumulated = np.cumsum(unexplained)
        proposed = np.searchsorted(cumulated, rng.random(n_proposed) * cumulated[-1], side="right")
        proposed = np.minimum(proposed, n - 1)
        explained = take(factor[:, :k], proposed)
        block = kernel.block(take(X, proposed), basis_points(kernel, X, proposed))
        residual = to_numpy(block - explained @ explained.T)
        accepted, lower = _thin(residual, unexplained[proposed], rng)
        if not accepted:
            rejections += 1
            if rejections == MAX_REJECTIONS:
                break
            continue
        rows = proposed[accepted]
        columns = kernel.block(X, basis_points(kernel, X, rows))
        columns = columns - factor[:, :k] @ take(factor, rows)[:, :k].T
        new = solve_lower(like(lower, columns), columns.T).T
        factor[:, k : k + len(rows)] = new
        unexplained = np.maximum(unexplained - to_numpy(xp.sum(new * new, axis=1)), 0.0)
        unexplained[rows] = 0.0
        unexplained[unexplained <= floor] = 0.0
        chosen += rows.tolist()
    # of a kernel that is zero on every candidate the first row
    return np.asarray(chosen or [0], dtype=np.int64)


def _thin(
    residual: NumpyArray, unexplained: NumpyArray, rng: np.random.Generator
) -> tuple[list[int], NumpyArray]:
    """Accept each proposal with the share of `unexplained` that those before it leave: positions,
    Cholesky factor.

    residual : K between the proposals, less what the rows chosen before explain
    """
    remaining, columns, accepted = residual.copy(), [], []
    draws = rng.random(len(unexplained)) * unexplained
    for i in range(len(unexplained)):
        if remaining[i, i] > max(draws[i], MIN_ACCEPTED_SHARE * unexplained[i]):
            column = remaining[:, i] / np.sqrt(remaining[i, i])
            remaining -= np.outer(column, column)
            columns.append(column)
            accepted.append(i)
    lower = np.stack(columns, axis=1)[accepted] if accepted else np.zeros((0, 0))
    return accepted, np.tril(lower)
