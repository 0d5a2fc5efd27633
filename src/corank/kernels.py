"""Kernel blocks: dense values of a kernel between two sets of rows, from dense or CSR features.

linear, rbf, polynomial and cosine run on every backend; scikit-learn's others on NumPy and CSR only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from corank._arrays import (
    Array,
    cholesky,
    device,
    empty_like,
    float64,
    is_foreign,
    is_sparse,
    like,
    namespace,
    take,
    to_numpy,
    writable,
    write_exponentials,
)
from corank.model_files.packing import NAMED_FUNCTIONS, storable

KernelFunction = Callable[..., Any]

NATIVE = ("linear", "rbf", "poly", "polynomial", "cosine")
NO_ROUNDING = 1e3  # exponents whose rounding cannot show: exp(1e3 · 2⁻⁵²) is 1 to twelve digits
WITH_GAMMA = ("rbf", "poly", "polynomial", "laplacian", "sigmoid", "chi2")


def register_kernel(name: str, function: KernelFunction) -> None:
    """Give a kernel function a name, so that models that use it can be saved and loaded.

    Parameters
    ----------
    name : str
        Used as ``kernel=name``; must not be one of scikit-learn's names.
    function : callable
        ``function(X, Z, **kernel_params)`` returns the (n_X, n_Z) matrix of kernel values.
    """
    if name in PAIRWISE_KERNEL_FUNCTIONS or name == "precomputed":
        raise ValueError(f"name {name!r} is a built-in kernel; choose another one.")
    if not callable(function):
        raise TypeError(f"function must be callable, got {function!r}.")
    NAMED_FUNCTIONS[name] = function


def kernel_names() -> list[str]:
    """Every name that `kernel=` understands."""
    return sorted({*PAIRWISE_KERNEL_FUNCTIONS, *NAMED_FUNCTIONS, "precomputed"})


def is_registered(name: str) -> bool:
    """Whether a name was given to `register_kernel`."""
    return name in NAMED_FUNCTIONS


def registered_function(name: str) -> KernelFunction:
    """The function that a name was given to."""
    return NAMED_FUNCTIONS[name]


@storable("Kernel")
@dataclass(frozen=True)
class Kernel:
    """A kernel with all its parameters fixed.

    ``precomputed``: features hold kernel values, and basis points are column numbers.

    scales : factors of the columns, one each, where they do not count alike
    """

    name: str | KernelFunction
    gamma: float | None = None
    degree: float = 3
    coef0: float = 1
    params: Mapping[str, Any] = field(default_factory=dict)
    scales: tuple[float, ...] | None = None

    @property
    def precomputed(self) -> bool:
        """Whether the features already are kernel values."""
        return isinstance(self.name, str) and self.name == "precomputed"

    @property
    def is_plain_rbf(self) -> bool:
        """Whether it is an rbf kernel to which all columns are alike: `RbfPoints` speed it up."""
        return self.name == "rbf" and self.scales is None

    def block(self, X: Array, Z: Array) -> Array:
        """Kernel values between the rows of X (n, d) and Z (r, d): (n, r) float64. O(n r d)."""
        if self.precomputed:
            return _columns(X, Z)
        X, Z = self.seen(float64(X)), self.seen(float64(Z))
        function = NAMED_FUNCTIONS.get(self.name) if isinstance(self.name, str) else self.name
        if function is not None:
            return self._custom(function, X, Z)
        if self.name in NATIVE:
            return self._native(X, Z)
        if is_foreign(X):
            raise ValueError(
                f"kernel {self.name!r} runs on NumPy arrays only; use one of {', '.join(NATIVE)} for other arrays."
            )
        accepted = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        return pairwise_kernels(X, Z, metric=self.name, filter_params=True, **accepted)

    def seen(self, X: Array) -> Array:
        """The columns of X (n, d) as the kernel weighs them."""
        if self.scales is None:
            return X
        if is_sparse(X):
            return X.multiply(np.asarray(self.scales)[None, :]).tocsr()
        return X * like(np.asarray(self.scales), X)[None, :]

    def stretched(self, logs: np.ndarray[Any, Any]) -> Kernel:
        """The kernel with the width of every column times exp(log)."""
        scales = np.exp(logs / 2) * (1.0 if self.scales is None else np.asarray(self.scales))
        return replace(self, scales=tuple(float(scale) for scale in scales))

    def write(self, X: Array, Z: Array, out: Array, prepared: RbfPoints | None = None) -> None:
        """The same as `block`, into a writable array (n, r) whose rows may lie apart."""
        if self.is_plain_rbf and writable(X) and writable(Z):
            (prepared or RbfPoints.of(self, Z)).write(X, out)
        else:
            out[...] = self.block(X, Z)

    def _native(self, X: Array, Z: Array) -> Array:
        if self.name == "cosine":
            return product(_unit_rows(X), _unit_rows(Z))
        if self.name == "rbf" and not is_sparse(X) and not is_sparse(Z):
            return RbfPoints.of(self, Z).values(X)
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

    def _custom(self, function: KernelFunction, X: Array, Z: Array) -> Array:
        values = function(X, Z, **self.params)
        if getattr(values, "shape", None) != (X.shape[0], Z.shape[0]):
            raise ValueError(
                f"kernel must return a matrix of shape ({X.shape[0]}, {Z.shape[0]}) for that many rows, "
                f"got {getattr(values, 'shape', type(values).__name__)}."
            )
        return namespace(values).asarray(values, dtype=namespace(values).float64, copy=True)  # it will be written to

    def diagonal(self, X: Array) -> Array:
        """k(x, x) for every row: (n,) float64. For a precomputed kernel X must be the square matrix."""
        xp = namespace(X)
        if self.precomputed:
            return float64(xp.linalg.diagonal(X)) if not is_sparse(X) else X.diagonal()
        ones = like(np.ones(X.shape[0]), X if not is_sparse(X) else np.empty(0))
        if self.name == "rbf":
            return ones
        if self.name in NATIVE:
            norms = squared_norms(self.seen(float64(X)))
            if self.name == "linear":
                return norms
            if self.name == "cosine":
                return xp.where(norms > 0, ones, xp.zeros_like(ones))
            assert self.gamma is not None
            return (self.gamma * norms + self.coef0) ** self.degree
        blocks = [take(X, slice(i, min(i + 64, X.shape[0]))) for i in range(0, X.shape[0], 64)]
        return xp.concat([xp.linalg.diagonal(self.block(block, block)) for block in blocks])


@dataclass(frozen=True)
class RbfPoints:
    """Points z of an rbf kernel, ready for −gamma·|x − z|² as one matrix product: the norms ride on it.

    Distances do not change with the origin; the mean of the points is where the expansion loses least to rounding.

    origin : (1, d); right : (d + 2, r); reach : gamma · the largest |z|²
    """

    gamma: float
    origin: Array
    right: Array
    reach: float

    @classmethod
    def of(cls, kernel: Kernel, Z: Array) -> RbfPoints:
        """From points (r, d)."""
        assert kernel.gamma is not None
        Z = float64(Z)
        xp = namespace(Z)
        origin = xp.mean(Z, axis=0, keepdims=True)
        Z = Z - origin
        norms = squared_norms(Z)[:, None]
        right = kernel.gamma * xp.concat([2 * Z, -xp.ones_like(norms), -norms], axis=1)
        return cls(kernel.gamma, origin, xp.matrix_transpose(right), kernel.gamma * float(xp.max(norms)))

    def values(self, X: Array) -> Array:
        """Kernel values (n, r)."""
        if writable(X):
            out = empty_like((int(X.shape[0]), int(self.right.shape[1])), X)
            self.write(X, out)
            return out
        xp = namespace(X)
        X = X - self.origin
        norms = squared_norms(X)[:, None]
        exponent = xp.concat([X, norms, xp.ones_like(norms)], axis=1) @ self.right
        return xp.exp(xp.where(exponent < 0, exponent, xp.zeros_like(exponent)))

    def write(self, X: Array, out: Array) -> None:
        """The same into a writable array whose rows may lie apart."""
        write_exponentials(X, self.origin, self.right, (NO_ROUNDING - self.reach) / self.gamma, out)


def checked(values: Array) -> Array:
    """Kernel values (n, r), refused where they are not finite. A sum shows it in one pass."""
    xp = namespace(values)
    if not bool(xp.isfinite(xp.sum(values))) and not bool(xp.all(xp.isfinite(values))):
        raise ValueError("kernel gives NaN or infinity on these rows; check its parameters (degree, coef0, gamma).")
    return values


def scale_gamma(X: Array, weights: Array | None = None) -> float:
    """1 / (columns · variance of all entries), the rows weighted: gamma="scale". 1 for constant features."""
    n, d = X.shape
    if is_sparse(X):
        per_row = np.repeat(np.ones(n) if weights is None else np.asarray(weights), np.diff(X.indptr))
        values = X.data.astype(np.float64)
        total = (float(n) if weights is None else float(np.sum(weights))) * d
        mean = float(per_row @ values) / total
        # zeros are (0 − mean)² each
        variance = (float(per_row @ (values - mean) ** 2) + (total - float(per_row.sum())) * mean**2) / total
    else:
        xp = namespace(X)
        X = float64(X)
        w = like(np.ones(n), X) if weights is None else weights
        total = float(xp.sum(w)) * d
        mean = float(xp.sum(w[:, None] * X)) / total
        variance = float(xp.sum(w[:, None] * (X - mean) ** 2)) / total
    return 1.0 / (d * variance) if variance > 0 else 1.0


def product(X: Array, Z: Array) -> Array:
    """X Zᵀ as a dense matrix, from dense or CSR."""
    if is_sparse(X) or is_sparse(Z):
        values = X @ Z.T
        return values.toarray() if is_sparse(values) else np.asarray(values)
    return X @ namespace(X).matrix_transpose(Z)


def squared_norms(X: Array) -> Array:
    """|x|² for every row: (n,)."""
    if is_sparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    if isinstance(X, np.ndarray):
        return np.einsum("ij,ij->i", X, X)
    return namespace(X).sum(X * X, axis=1)


def _unit_rows(X: Array) -> Array:
    """Rows divided by their length; zero rows stay."""
    xp = namespace(X)
    norms = xp.sqrt(squared_norms(X))
    inverse = 1 / xp.where(norms > 0, norms, xp.ones_like(norms))
    return X.multiply(inverse[:, None]).tocsr() if is_sparse(X) else X * inverse[:, None]


def _columns(X: Array, columns: Array) -> Array:
    if is_sparse(X):
        return X[:, to_numpy(columns)].toarray().astype(np.float64, copy=False)
    return float64(namespace(X).take(X, like(columns, X, "int64"), axis=1))


def check_precomputed(K: Array) -> None:
    """Refuse a kernel matrix that is not square, not symmetric or not positive semi-definite."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(f"Precomputed matrix X must be a square matrix, got shape {tuple(K.shape)}.")
    dense = float64(like(K.toarray(), np.empty(0))) if is_sparse(K) else float64(K)
    xp = namespace(dense)
    size = float(xp.max(xp.abs(dense)))
    if float(xp.max(xp.abs(dense - dense.T))) > 1e-8 * max(size, 1e-300):
        raise ValueError("Precomputed matrix X is not symmetric; a kernel matrix must be.")
    jitter = 1e-8 * max(float(xp.linalg.trace(dense)) / dense.shape[0], 1e-300)
    shifted = (dense + dense.T) / 2 + jitter * xp.eye(dense.shape[0], dtype=xp.float64, device=device(dense))
    try:
        cholesky(shifted)
    except ValueError:
        raise ValueError(
            "Precomputed matrix X is not positive semi-definite, so it is no kernel; "
            "clip its negative eigenvalues or use another similarity."
        ) from None


def rows_of(kernel: Kernel, X: Array, rows: Any) -> Array:
    """The basis points that rows of X are: the rows themselves, or their column numbers when precomputed."""
    return like(rows, X if not is_sparse(X) else np.empty(0), "int64") if kernel.precomputed else take(X, rows)
