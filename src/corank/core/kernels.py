"""Kernel blocks: dense values of a kernel between two sets of rows, from dense or CSR features.

linear, rbf, exponential, laplacian, polynomial and cosine run on every array library; the other
kernels of scikit-learn on NumPy and CSR only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist, pdist, squareform

from corank.core.arrays import (
    Array,
    FloatArray,
    NumpyArray,
    add_diagonal,
    cholesky,
    empty_like,
    float64,
    inverse_where,
    is_foreign,
    is_sparse,
    like,
    namespace,
    runs_of_rows,
    symmetrised,
    take,
    take_columns,
    to_numpy,
    writable,
    write_product,
)
from corank.core.storable import (
    BUILT_IN_KERNELS,
    FINITE,
    NAMED_FUNCTIONS,
    Finite,
    function,
    several,
    storable,
)

KernelFunction = Callable[..., Any]
NAMES = (*BUILT_IN_KERNELS, "precomputed", "product", "sum")  # in files

NATIVE = ("linear", "rbf", "exponential", "laplacian", "poly", "polynomial", "cosine")
NORMS = {"exponential": 2, "laplacian": 1}  # the p of exp(−gamma · (Σ |x − z|^p)^(1/p))
UNIT_KERNELS = ("rbf", *NORMS, "cosine")  # that are 1 for a row with itself
MAX_EXACT_EXPONENT = 1e3  # below it rounding cannot show: exp(1e3 · 2⁻⁵²) is 1 to twelve digits
# per block of which only the diagonal is used: larger ones waste more than they save
DIAGONAL_ROWS = 64
SYMMETRY_TOLERANCE = 1e-8  # of a precomputed kernel, relative to its largest value
MAX_COMPARED_ROWS = 2_000  # of which shares of columns are counted
SMALLEST_SIZE = 1e-300  # stands for 0 where sizes are compared
# of |x|² + |z|²: a smaller difference of such lengths is what rounding leaves of 0
ZERO_DISTANCE = 1e-14
MEAN_DISTANCE, MEAN_LENGTH = "mean-distance", "mean-length"  # rules for gamma and alpha
WITH_GAMMA = ("rbf", *NORMS, "poly", "polynomial", "sigmoid", "chi2")


def register_kernel(name: str, function: KernelFunction) -> None:
    """Give a kernel function a name, so that models that use it can be saved and loaded.

    Parameters
    ----------
    name : str
        Used as ``kernel=name``; must not be that of a built-in kernel.
    function : callable
        ``function(X, Z, **kernel_params)`` returns the (n_X, n_Z) matrix of kernel values, of arrays
        or, where X holds objects such as texts or graphs, of lists of them.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be text, got {name!r}.")
    if name in BUILT_IN_KERNELS or name == "precomputed":
        raise ValueError(f"name {name!r} is a built-in kernel; choose another one.")
    if not callable(function):
        raise TypeError(f"function must be callable, got {function!r}.")
    NAMED_FUNCTIONS[name] = function


def kernel_names() -> list[str]:
    """All names that `kernel=` understands."""
    return sorted({*BUILT_IN_KERNELS, *NAMED_FUNCTIONS, "precomputed"})


def is_named(value: Any, name: str) -> bool:
    """Whether a parameter that may be of other kinds, such as an array, is this name."""
    return isinstance(value, str) and value == name


def is_registered(name: str) -> bool:
    """Whether a name was given to `register_kernel`."""
    return name in NAMED_FUNCTIONS


@storable("Kernel")
@dataclass(frozen=True)
class Kernel:
    """A kernel with all its parameters fixed.

    With ``precomputed`` features hold kernel values, and basis points are column numbers.

    scales : one factor per column, None where all columns count alike
    """

    name: Annotated[str | KernelFunction, function("kernel", NAMES)]
    gamma: Finite | None = None
    degree: Finite = 3
    coef0: Finite = 1
    params: Mapping[str, Any] = field(default_factory=dict)
    scales: Annotated[tuple[float, ...] | None, several(FINITE, "d") | None] = None
    is_joint: ClassVar[bool] = False  # made of kernels of blocks of columns

    def is_sound(self) -> bool:
        """Whether there is such a kernel."""
        return self.gamma is None or self.gamma > 0

    @property
    def precomputed(self) -> bool:
        """Whether the features already are kernel values."""
        return self.name == "precomputed"

    @property
    def calls_function(self) -> bool:
        """Whether its values come from a function of the user's own."""
        return not isinstance(self.name, str) or self.name in NAMED_FUNCTIONS

    @property
    def width(self) -> Any:
        """gamma; (d,) where every column has a width of its own."""
        if self.scales is None or self.gamma is None:
            return self.gamma
        return self.gamma * np.asarray(self.scales) ** self.width_power

    @property
    def width_power(self) -> int:
        """The power of distances in one column that its width is multiplied by."""
        return 1 if self.name == "laplacian" else 2

    @property
    def has_width(self) -> bool:
        """Whether gamma is one of its parameters."""
        return isinstance(self.name, str) and self.name in WITH_GAMMA

    @property
    def can_have_widths(self) -> bool:
        """Whether every column can have a width of its own."""
        return self.name == "rbf" or self.name in NORMS

    @property
    def is_plain_rbf(self) -> bool:
        """Whether it is an rbf kernel to which all columns count alike, as `RbfPoints` need."""
        return self.name == "rbf" and self.scales is None

    def block(self, X: Array, Z: Array) -> Array:
        """Kernel values between the rows of X (n, d) and Z (r, d): (n, r) float64. O(n r d)."""
        if self.precomputed:
            return _columns(X, Z)
        function = NAMED_FUNCTIONS.get(self.name) if isinstance(self.name, str) else self.name
        if function is not None and object in (X.dtype, Z.dtype):
            return self._custom(function, objects_of(X), objects_of(Z))
        is_same = X is Z
        X = self.seen(float64(X))
        Z = X if is_same else self.seen(float64(Z))
        if function is not None:
            return self._custom(function, X, Z)
        if self.name in NATIVE:
            return self._native(X, Z)
        if is_foreign(X):
            raise ValueError(
                f"kernel {self.name!r} runs on NumPy arrays only; use one of {', '.join(NATIVE)}"
                " for other arrays."
            )
        from sklearn.metrics.pairwise import pairwise_kernels

        accepted = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        return pairwise_kernels(X, Z, metric=self.name, filter_params=True, **accepted)

    def seen(self, X: Array) -> Array:
        """X (n, d) with its columns times their factors."""
        if self.scales is None:
            return X
        if is_sparse(X):
            return X.multiply(np.asarray(self.scales)[None, :]).tocsr()
        return X * like(np.asarray(self.scales), X)[None, :]

    def scale_width(self, X: Array, weights: Array | None = None, rule: str = "scale") -> float:
        """gamma="scale" or "mean-distance" for rows (n, d); the root of `scale_gamma`, or of what
        takes its place, where gamma is multiplied by a distance, not by its square.
        """
        if rule == MEAN_DISTANCE:
            gamma = 1 / (mean_squared_distance(X, weights) or 1.0)
        else:
            gamma = scale_gamma(X, weights)
        return float(np.sqrt(gamma)) if self.name == "exponential" else gamma

    def with_widths(self, widths: FloatArray) -> Kernel:
        """The kernel with one width per column (d,): exp(−Σ width_j (x_j − z_j)²), the exponential
        one of the root of that sum, the laplacian one of Σ width_j |x_j − z_j|.
        """
        scales = np.sqrt(widths) if self.width_power == 2 else widths
        return replace(self, gamma=1.0, scales=tuple(scales.tolist()))

    def stretched(self, logs: NumpyArray) -> Kernel:
        """The kernel with the squared factor of every column times exp(log), for logs (d,)."""
        scales = np.exp(logs / 2) * (1.0 if self.scales is None else np.asarray(self.scales))
        return replace(self, scales=tuple(scales.tolist()))

    def write(self, X: Array, Z: Array, out: Array, prepared: RbfPoints | None = None) -> None:
        """Write the kernel values between X and Z into a writable array (n, r), whose rows may lie
        apart.
        """
        if self.is_plain_rbf and writable(X) and writable(Z):
            (prepared or RbfPoints.of(self, Z)).write(X, out)
        elif self.name in NORMS and isinstance(X, np.ndarray) and isinstance(Z, np.ndarray):
            assert self.gamma is not None
            lengths = distances(self.seen(float64(X)), self.seen(float64(Z)), NORMS[self.name])
            np.exp(np.multiply(lengths, -self.gamma, out=lengths), out=out)
        else:
            out[...] = self.block(X, Z)

    def _native(self, X: Array, Z: Array) -> Array:
        if self.name == "cosine":
            return product(unit_rows(X), unit_rows(Z))
        if self.name == "rbf" and not is_sparse(X) and not is_sparse(Z):
            return RbfPoints.of(self, Z).values(X)
        if self.name in NORMS:
            assert self.gamma is not None
            return namespace(X).exp(-self.gamma * distances(X, Z, NORMS[self.name]))
        values = product(X, Z)
        if self.name == "linear":
            return values
        assert self.gamma is not None
        if self.name == "rbf":
            values *= 2 * self.gamma
            values -= self.gamma * squared_norms(X)[:, None]
            values -= self.gamma * squared_norms(Z)[None, :]
            return np.exp(np.minimum(values, 0.0, out=values), out=values)
        return (self.gamma * values + self.coef0) ** self.degree

    def _custom(self, function: KernelFunction, X: Any, Z: Any) -> Array:
        values = function(X, Z, **self.params)
        shape = tuple(len(rows) if isinstance(rows, list) else rows.shape[0] for rows in (X, Z))
        found = None if is_sparse(values) else getattr(values, "shape", None)
        if found != shape:
            raise ValueError(
                f"kernel must return a matrix of shape {shape} for that many rows, as a dense array;"
                f" got {found or type(values).__name__}."
            )
        values = values if is_foreign(X) else to_numpy(values)
        xp = namespace(values)
        if not xp.isdtype(values.dtype, ("bool", "integral", "real floating")):
            raise ValueError(f"kernel must return real numbers, got {values.dtype} values.")
        return xp.asarray(values, dtype=xp.float64, copy=True)  # it will be written to

    def diagonal(self, X: Array) -> Array:
        """k(x, x) for every row: (n,) float64. For a precomputed kernel X must be the square
        matrix.
        """
        xp = namespace(X)
        if self.precomputed:
            return float64(xp.linalg.diagonal(X)) if not is_sparse(X) else X.diagonal()
        ones = like(np.ones(X.shape[0]), X)
        if self.name == "rbf" or self.name in NORMS:
            return ones
        if self.name in NATIVE:
            norms = squared_norms(self.seen(float64(X)))
            if self.name == "linear":
                return norms
            if self.name == "cosine":
                return xp.where(norms > 0, ones, xp.zeros_like(ones))
            assert self.gamma is not None
            return (self.gamma * norms + self.coef0) ** self.degree
        return self.row_by_row(X, X)

    def row_by_row(self, X: Array, Z: Array) -> Array:
        """k(x_i, z_i) for as many rows of X as of Z: (n,) float64."""
        runs = runs_of_rows(X.shape[0], DIAGONAL_ROWS)
        blocks = [self.block(take(X, run), take(Z, run)) for run in runs]
        xp = namespace(blocks[0])
        return xp.concat(list(map(xp.linalg.diagonal, blocks)))


@dataclass(frozen=True)
class RbfPoints:
    """Points z of an rbf kernel, prepared so that −gamma·|x − z|² is one matrix product, norms
    included.

    Distances do not change with the origin; with the mean of the points as origin least is lost to
    rounding.

    origin : (1, d); right : (d + 2, r); reach : gamma · the largest |z|²
    """

    gamma: float
    origin: Array
    right: Array
    reach: float

    @classmethod
    def of(cls, kernel: Kernel, Z: Array) -> RbfPoints:
        """Prepare points Z (r, d) of a kernel."""
        assert kernel.gamma is not None
        Z = float64(Z)
        xp = namespace(Z)
        origin = xp.mean(Z, axis=0, keepdims=True)
        Z = Z - origin
        norms = squared_norms(Z)[:, None]
        right = kernel.gamma * xp.concat([2 * Z, -xp.ones_like(norms), -norms], axis=1)
        reach = kernel.gamma * float(xp.max(norms))
        return cls(kernel.gamma, origin, xp.matrix_transpose(right), reach)

    def values(self, X: Array) -> Array:
        """Kernel values between the rows of X and the points: (n, r)."""
        if writable(X):
            out = empty_like((X.shape[0], self.right.shape[1]), X)
            self.write(X, out)
            return out
        xp = namespace(X)
        X = X - self.origin
        norms = squared_norms(X)[:, None]
        exponent = xp.concat([X, norms, xp.ones_like(norms)], axis=1) @ self.right
        return xp.exp(xp.where(exponent < 0, exponent, xp.zeros_like(exponent)))

    def write(self, X: Array, out: Array) -> None:
        """Write the kernel values, exp of (x − origin, |x − origin|², 1) @ right, into a writable
        array (n, r), whose rows may lie apart.
        """
        n, d = X.shape
        left = empty_like((int(n), int(d) + 2), out)
        shifted, squares = left[:, :d], left[:, d]
        is_numpy = isinstance(out, np.ndarray)
        if is_numpy:
            np.subtract(X, self.origin, out=shifted)
            np.einsum("ij,ij->i", shifted, shifted, out=squares)
        else:
            shifted[...] = X
            shifted -= self.origin
            squares[...] = (shifted * shifted).sum(dim=1)
        left[:, d + 1] = 1.0
        write_product(left, self.right, out)
        # exponents above 0 are rounding, and only beside large ones could it show
        could_show = self.gamma * float(squares.max()) > MAX_EXACT_EXPONENT - self.reach
        if is_numpy:
            np.exp(np.minimum(out, 0.0, out=out) if could_show else out, out=out)
        else:
            (out.clamp_(max=0.0) if could_show else out).exp_()


def finite_values(values: Array) -> Array:
    """Kernel values (n, r) as they are, refused where they are not finite."""
    xp = namespace(values)
    if not xp.isfinite(xp.sum(values)) and not xp.all(xp.isfinite(values)):
        raise ValueError(
            "kernel gives NaN or infinity on these rows; check its parameters (degree, coef0,"
            " gamma)."
        )
    return values


def objects_of(X: NumpyArray) -> list[Any]:
    """The objects of rows (n, d) as a kernel function takes them; tuples of them where d > 1."""
    if X.dtype != object:
        raise ValueError(
            "X holds numbers where the other rows are objects: fit and predict on the same kind."
        )
    return X[:, 0].tolist() if X.shape[1] == 1 else list(map(tuple, X.tolist()))


def scale_gamma(X: Array, weights: Array | None = None) -> float:
    """1 / (columns · variance of all entries), with rows weighted; 1 for constant features."""
    n, d = X.shape
    if is_sparse(X):
        row_weights = np.ones(n) if weights is None else np.asarray(weights)
        per_entry = np.repeat(row_weights, np.diff(X.indptr))
        values = X.data.astype(np.float64)
        total = float(np.sum(row_weights)) * d
        mean = float(per_entry @ values) / total
        # entries that are not stored are 0: each adds (0 − mean)²
        squares = float(per_entry @ (values - mean) ** 2)
        variance = (squares + (total - float(per_entry.sum())) * mean**2) / total
    else:
        xp = namespace(X)
        X = float64(X)
        row_weights = like(np.ones(n), X) if weights is None else weights
        total = float(xp.sum(row_weights)) * d
        mean = float(xp.sum(row_weights[:, None] * X)) / total
        variance = float(xp.sum(row_weights[:, None] * (X - mean) ** 2)) / total
    return 1.0 / (d * variance) if variance > 0 else 1.0


def mean_squared_distance(X: Array, weights: Array | None = None) -> float:
    """The mean of |x − x'|² over all pairs of rows (n, d), a row with itself among them: twice the
    variances of the columns. O(n d).
    """
    shares, X = _shares(X, weights), float64(X)
    centre = shares @ X
    squares = float(shares @ squared_norms(X))
    if is_sparse(X):
        variances, rounding = squares - float(centre @ centre), ZERO_DISTANCE
    else:  # which is exact far from 0, too
        variances, rounding = float(shares @ squared_norms(X - centre)), ZERO_DISTANCE**2
    return 2 * variances if variances > rounding * squares else 0.0


def inverse_length(X: Array, weights: Array | None = None) -> float:
    """alpha="mean-length": one over the mean of |x| over rows (n, d); 1 where all are 0."""
    if str(X.dtype) == "object":
        raise ValueError(
            "alpha='mean-length' needs rows of numbers, but these are objects; use a number, or"
            " alpha='tune'."
        )
    lengths = squared_norms(float64(X)) ** 0.5
    return 1 / (float(_shares(X, weights) @ lengths) or 1.0)


def _shares(X: Array, weights: Array | None) -> Array:
    """The weights of the rows (n,) as shares of their sum."""
    weights = like(np.ones(X.shape[0]), X) if weights is None else weights
    return weights / namespace(weights).sum(weights)


def product(X: Array, Z: Array) -> Array:
    """X Zᵀ as a dense matrix, for dense or CSR X (n, d) and Z (r, d)."""
    if is_sparse(X) or is_sparse(Z):
        values = X @ Z.T
        return values.toarray() if is_sparse(values) else np.asarray(values)
    return X @ namespace(X).matrix_transpose(Z)


def distances(X: Array, Z: Array, norm: int) -> Array:
    """Σ |x − z| over the columns (norm 1) or the root of Σ (x − z)² (norm 2), for dense or CSR X
    (n, d) and Z (r, d): (n, r). O(n r d).

    Dense rows are subtracted from each other: the root of a difference of squared lengths would
    have half of the digits where rows are nearly equal, and equal rows would not be alike.
    """
    if is_sparse(X) or is_sparse(Z):
        return _sparse_distances(sparse.csr_array(X), sparse.csr_array(Z), norm)
    if isinstance(X, np.ndarray):
        metric: Literal["cityblock", "euclidean"] = "cityblock" if norm == 1 else "euclidean"
        return squareform(pdist(X, metric)) if X is Z else cdist(X, Z, metric)
    xp = namespace(X)
    if hasattr(X, "new_empty"):  # a tensor
        return xp.cdist(X, Z, p=float(norm), compute_mode="donot_use_mm_for_euclid_dist")
    gaps = (X - Z[row : row + 1, :] for row in range(Z.shape[0]))
    return xp.stack([xp.linalg.vector_norm(gap, axis=1, ord=norm) for gap in gaps], axis=1)


def _sparse_distances(X: Array, Z: Array, norm: int) -> FloatArray:
    if norm == 1:
        from sklearn.metrics.pairwise import manhattan_distances

        for matrix in (X, Z):  # it reads short indices only
            matrix.indices = matrix.indices.astype(np.int32, copy=False)
            matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
        return np.asarray(manhattan_distances(X, Z))
    lengths = squared_norms(X)[:, None] + squared_norms(Z)[None, :]
    squares = lengths - 2 * product(X, Z)
    squares[squares < ZERO_DISTANCE * lengths] = 0.0
    return np.asarray(np.sqrt(squares))


def column_shares(rows: Array, power: int) -> FloatArray:
    """What every column adds to Σ |x − z|^power over all pairs of rows (n, d), as a share: (d,).

    power : 2 or 1; of many rows some stand for all
    """
    chosen = rows[:: 1 + rows.shape[0] // MAX_COMPARED_ROWS]
    X = to_numpy(float64(chosen.toarray() if is_sparse(chosen) else chosen))
    parts = X.var(axis=0)
    if power == 1:
        ranks = 2.0 * np.arange(len(X)) - len(X) + 1  # how many rows are less, minus how many more
        parts = ranks @ np.sort(X, axis=0)
    return np.asarray(parts / max(float(parts.sum()), SMALLEST_SIZE))


def squared_norms(X: Array) -> Array:
    """|x|² for every row x: (n,)."""
    if is_sparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    if isinstance(X, np.ndarray):
        return np.einsum("ij,ij->i", X, X)
    return namespace(X).sum(X * X, axis=1)


def unit_rows(X: Array) -> Array:
    """Rows divided by their length; rows of zeros stay."""
    norms = namespace(X).sqrt(squared_norms(X))
    inverse = inverse_where(norms > 0, norms)
    return X.multiply(inverse[:, None]).tocsr() if is_sparse(X) else X * inverse[:, None]


def _columns(X: Array, columns: Array) -> Array:
    if is_sparse(X):
        return X[:, to_numpy(columns)].toarray().astype(np.float64, copy=False)
    return float64(take_columns(X, columns))


def check_precomputed(K: Array) -> None:
    """Refuse a kernel matrix that is not square, not symmetric or not positive semi-definite."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"Precomputed matrix X must be a square matrix, got shape {tuple(K.shape)}."
        )
    dense = float64(K.toarray() if is_sparse(K) else K)
    xp = namespace(dense)
    size = float(xp.max(xp.abs(dense)))
    if float(xp.max(xp.abs(dense - dense.T))) > SYMMETRY_TOLERANCE * max(size, SMALLEST_SIZE):
        raise ValueError("Precomputed matrix X is not symmetric; a kernel matrix must be.")
    jitter = SYMMETRY_TOLERANCE * max(float(xp.linalg.trace(dense)) / dense.shape[0], SMALLEST_SIZE)
    try:
        cholesky(add_diagonal(symmetrised(dense), jitter))
    except ValueError:
        raise ValueError(
            "Precomputed matrix X is not positive semi-definite, so it is not a kernel; "
            "clip its negative eigenvalues or use another similarity."
        ) from None


def basis_points(kernel: Kernel, X: Array, rows: Any) -> Array:
    """Rows of X as basis points: the rows themselves, or their column numbers where the kernel is
    precomputed.
    """
    return like(rows, X, "int64") if kernel.precomputed else take(X, rows)
