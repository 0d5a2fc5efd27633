"""Single precision, measured where it could be used: sums of kernel values in float32 beside those
in float64.

The pass is written out here with NumPy, as corank makes it: kernel values and their products block
by block, blocks added up in float64. `python -m benchmarks single-precision` also prints how far
predictions move in cases that are harder.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from benchmarks.cases import ALPHA, N_COLUMNS, QUERY_SIZE, make_data
from benchmarks.peers import Floats, centred
from benchmarks.registry import Contender, case

BASIS, BLOCK_ROWS = 500, 4_000
HARDER_ROWS = 20_000  # of the harder cases
EIGENVALUE_CUT = 1e-10
SAFE_SHARE = 1e-4  # of the spread of predictions, by which they may move


@dataclass(frozen=True)
class Pass:
    """One pass over rows X (n, d) with scores (n,) in queries of one size, for an rbf kernel at
    basis rows Z (r, d).
    """

    X: Floats
    scores: Floats
    Z: Floats
    gamma: float

    def kernel(self, X: Floats, dtype: Any) -> Any:
        """Kernel values (n, r) of rows in a precision."""
        X, Z = (X - self.Z.mean(axis=0)).astype(dtype), (self.Z - self.Z.mean(axis=0)).astype(dtype)
        exponent = (2 * X) @ Z.T
        exponent -= (X * X).sum(axis=1)[:, None]
        exponent -= (Z * Z).sum(axis=1)[None, :]
        exponent *= dtype(self.gamma)
        return np.exp(np.minimum(exponent, 0, out=exponent), out=exponent)

    @property
    def condition(self) -> float:
        """The largest over the smallest kept eigenvalue of the kernel values between basis rows."""
        values = eigh(self.kernel(self.Z, np.float64), eigvals_only=True)
        return float(values[-1] / values[values > EIGENVALUE_CUT * values[-1]][0])

    def sums(self, kernel_type: Any, product_type: Any) -> tuple[Floats, Floats]:
        """Φᵀ L Φ (r, r) and Φᵀ L s (r,)."""
        r = len(self.Z)
        matrix, right = np.zeros((r, r)), np.zeros(r)
        for begin in range(0, len(self.X), BLOCK_ROWS):
            rows = slice(begin, begin + BLOCK_ROWS)
            values = self.kernel(self.X[rows], kernel_type)
            cube = values.reshape(-1, QUERY_SIZE, r)
            cube -= cube.mean(axis=1, keepdims=True)
            values = values.astype(product_type, copy=False)
            matrix += values.T @ values
            right += values.T @ centred(self.scores[rows], QUERY_SIZE).astype(product_type)
        return matrix, right

    def coefficients(self, kernel_type: Any, product_type: Any, alpha: float) -> Floats:
        """Coefficients (r,) of the least-squares ranking, by whitening in float64 as corank does."""
        matrix, right = self.sums(kernel_type, product_type)
        values, vectors = eigh(self.kernel(self.Z, np.float64))
        kept = values > EIGENVALUE_CUT * values[-1]
        whitening = vectors[:, kept] / np.sqrt(values[kept])
        inner = whitening.T @ matrix @ whitening
        inner.flat[:: len(inner) + 1] += alpha
        try:
            factor = cho_factor(inner)
        except np.linalg.LinAlgError:  # rounding has made the sums indefinite
            return np.full(len(right), np.nan)
        found: Floats = whitening @ cho_solve(factor, whitening.T @ right)
        return found

    def move(self, kernel_type: Any, product_type: Any, alpha: float, X: Floats) -> float:
        """The largest move of predictions for X against float64, as a share of their spread."""
        kernel = self.kernel(X, np.float64)
        exact = kernel @ self.coefficients(np.float64, np.float64, alpha)
        rounded = kernel @ self.coefficients(kernel_type, product_type, alpha)
        return float(np.max(np.abs(rounded - exact)) / np.std(exact))


DOUBLE, KERNELS, ALL = (
    "float64",
    "kernel values in float32, products in float64",
    "kernel values and products in float32",
)
TYPES = {
    DOUBLE: (np.float64, np.float64),
    KERNELS: (np.float32, np.float64),
    ALL: (np.float32, np.float32),
}


@case("single-precision")
def single_precision(quick: bool) -> list[Contender]:
    """Sums of a pass over 100,000 rows with 500 basis rows in three precisions. The error is the
    largest move of predictions as a share of their spread (1e-4 would be safe); a table of harder
    cases is printed beside it."""
    n, r = (4_000, 50) if quick else (100_000, BASIS)
    data = make_data(n, n_test=2_000)
    scale = data.gamma
    rows = data.X[:: n // r][:r]
    X, y = data.X[:HARDER_ROWS], data.y[:HARDER_ROWS]
    usual = Pass(data.X, data.y, rows, scale)
    doubled = np.concatenate([rows[: r // 2], rows[: r // 2] + 1e-6])
    far = 1e3 * np.arange(1, N_COLUMNS + 1) / N_COLUMNS
    harder = {
        "usual": (Pass(X, y, rows, scale), ALPHA),
        "alpha 1e-6": (Pass(X, y, rows, scale), 1e-6),
        "gamma / 10": (Pass(X, y, rows, scale / 10), ALPHA),
        "gamma / 10, alpha 1e-3": (Pass(X, y, rows, scale / 10), 1e-3),
        "gamma / 100, alpha 1e-6": (Pass(X, y, rows, scale / 100), 1e-6),
        "basis rows that are nearly equal": (Pass(X, y, doubled, scale), ALPHA),
        "columns far from 0": (Pass(X + far, y, rows + far, scale), ALPHA),
    }

    def moves(name: str, _: Any) -> float:
        for label, (sums, alpha) in harder.items() if not quick and name != DOUBLE else ():
            test = data.X_test + (far if label.startswith("columns") else 0.0)
            move = sums.move(*TYPES[name], alpha, test)
            verdict = "safe" if move <= SAFE_SHARE else "NOT SAFE"
            condition = f"condition {sums.condition:.0e}"
            print(
                f"  {name}; {label} ({condition}): predictions move by {move:.1e}, {verdict}",
                file=sys.stderr,
            )
        return usual.move(*TYPES[name], ALPHA, data.X_test)

    return [
        Contender(name, partial(usual.sums, *types), error=partial(moves, name))
        for name, types in TYPES.items()
    ]
